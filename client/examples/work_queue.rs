//! A queue of jobs: workers take them from a stream, and a job that a worker has not finished is done again.
//!
//! ```text
//! work_queue [URL]        three workers do thirty jobs; one of them stops in the middle, and comes back
//! ```
use std::time::Duration;

use polder_client::{Client, Db, Error, Trim, XaddOptions};

/// Does jobs until there is none for a while. `most` is how many it finishes before it stops with one in its hands.
async fn work(db: Db, name: &'static str, most: usize) -> Result<usize, Error> {
    let mut jobs = db.consumer("jobs", "workers", name).count(1);
    jobs.create_group("0").await?;
    let mut done = 0;
    // At first what this worker was given before, and has not finished.
    while let Ok(entries) = tokio::time::timeout(Duration::from_millis(500), jobs.next()).await {
        for entry in entries? {
            if done == most {
                return Ok(done);
            }
            // The job itself, and that it is done, in one step: it is not done twice.
            let (_, acknowledged): (i64, i64) = db
                .transaction()
                .sadd("done", &entry.fields[0].1)
                .xack("jobs", "workers", &entry.id)
                .send()
                .await?;
            done += acknowledged as usize;
        }
    }
    Ok(done)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let db = Client::connect(&url)?.db(3);
    db.del::<i64>(["jobs", "done"]).await?;
    for job in 0..30 {
        // The oldest jobs go when there are more than some thousands.
        db.xadd::<String>("jobs", (XaddOptions::new().trim(Trim::maxlen(10_000).roughly()), "job", job))
            .await?;
    }
    let (ann, bob, tired) =
        tokio::join!(work(db.clone(), "ann", 30), work(db.clone(), "bob", 30), work(db.clone(), "tired", 2));
    let again = work(db.clone(), "tired", 30).await?;
    let done: usize = db.scard("done").await?;
    println!("{done} jobs done, none of them twice: {}", ann? + bob? + tired? + again);
    Ok(())
}
