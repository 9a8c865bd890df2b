//! A queue of jobs that survives its workers: a job whose worker is killed goes to another one.
//!
//! ```text
//! job_queue                         two workers, one of them is killed in the middle of a job; all jobs are done
//! job_queue SEGMENT WORKER [DIE]    a worker: takes jobs until there are none for a second
//! ```
//!
//! A worker moves a job from `jobs` to a list of its own (BLMOVE), does it, and takes it off that list together with writing down the result.
//! So a job is always in one list or done; what a dead worker has in its list is put back.
use std::error::Error;
use std::process::{Child, Command};
use std::sync::Arc;

use polder_engine::{Caller, Item, Memory, Options};

const JOBS: u32 = 100;

fn work(segment: &str, worker: &str, dies: bool) -> Result<(), Box<dyn Error>> {
    let memory = Arc::new(Memory::attach(&Options { segment: segment.into(), ..Options::default() })?);
    let mut caller = Caller::new(&memory);
    let own = format!("jobs:{worker}");
    let mut done = 0;
    loop {
        // Waits up to a second for a job, asleep.
        let reply = caller.run(&["BLMOVE", "jobs", &own, "LEFT", "RIGHT", "1"])?;
        let Item::Bulk(job) = reply.item() else { return Ok(()) };
        if dies && done == 10 {
            // As kill -9 would end it, with a job in hand.
            std::process::abort();
        }
        let job: u32 = std::str::from_utf8(job)?.parse()?;
        let result = (job * job).to_string();
        caller.run(&["MULTI"])?;
        caller.run(&["HSET", "results", &job.to_string(), &result])?;
        caller.run(&["LREM", &own, "1", &job.to_string()])?;
        caller.run(&["EXEC"])?;
        done += 1;
    }
}

fn worker(segment: &str, words: &[&str]) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).arg(segment).args(words).spawn()
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [segment, worker, rest @ ..] = &words[..] {
        return work(segment, worker, !rest.is_empty());
    }
    let segment = format!("shm:polder-job-queue-{}", std::process::id());
    let memory = Arc::new(Memory::attach(&Options { segment: segment.clone(), ..Options::default() })?);
    let mut caller = Caller::new(&memory);
    for job in 1..=JOBS {
        caller.run(&["RPUSH", "jobs", &job.to_string()])?;
    }
    let died = worker(&segment, &["first", "die"])?.wait()?;
    // Its job goes back to the head of the queue.
    let put_back = caller.run(&["LMOVE", "jobs:first", "jobs", "RIGHT", "LEFT"])?;
    println!("the first worker ended with {died}; job {:?} is put back", put_back.item());
    let ended = worker(&segment, &["second"])?.wait()?;
    let done = caller.show(&["HLEN", "results"], |reply| reply.integer())?;
    let last = caller.show(&["HGET", "results", "100"], |reply| reply == Item::Bulk(b"10000"))?;
    Memory::remove(&segment)?;
    if !ended.success() || done != Some(JOBS.into()) || !last {
        return Err(format!("{done:?} of {JOBS} jobs are done").into());
    }
    println!("{JOBS} jobs are done, none of them twice");
    Ok(())
}
