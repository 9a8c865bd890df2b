//! A limit on requests that all servers of a service share: a user may make a number of requests in a window of time.
//!
//! ```text
//! request_limits [URL]    160 requests of 8 tasks at once, of which 50 are let in
//! ```
use std::time::Duration;

use polder_client::{Client, Db, Error, Script};

/// Counts a request; the first one of a window says when the window ends. One step to the server, and no clock but its own.
const COUNT: &str = "local count = redis.call('INCR', KEYS[1]) \
                     if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end \
                     return count";

struct Limiter {
    db: Db,
    count: Script,
    most: i64,
    window: Duration,
}

impl Limiter {
    /// Whether a request is let in. While the server cannot be reached, requests are let in, after 50 ms at the latest: a limit
    /// is no reason to be down.
    async fn admits(&self, user: &str) -> bool {
        let counted =
            self.count.run::<i64>(&self.db, format!("limit:{user}"), self.window.as_millis() as u64);
        counted.await.map_or_else(|error| !matches!(error, Error::Refused(_)), |count| count <= self.most)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let client = Client::connect(&url)?;
    client.db(2).del::<i64>("limit:ann").await?;
    // Ahead of whatever else the program sends, and no longer than a request may be held up.
    let db = client.db(2).jump().within(Duration::from_millis(50));
    let limiter = std::sync::Arc::new(Limiter {
        db,
        count: Script::new(COUNT),
        most: 50,
        window: Duration::from_secs(60),
    });
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..20 {
                    admitted += u32::from(limiter.admits("ann").await);
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.expect("no task panics");
    }
    println!("160 requests: {admitted} let in");
    Ok(())
}
