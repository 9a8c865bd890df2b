//! A rate limit that all processes share: a user may make a number of requests in a window of time.
//!
//! ```text
//! rate_limiter                               four processes make 40 requests each, and 50 are let in
//! rate_limiter SEGMENT USER COUNT LIMIT      one of these processes
//! ```
use std::error::Error;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use polder_engine::{Database, Expiry, Memory, Options, SetOptions, Stop};

const WINDOW_MS: u64 = 60_000;

/// Whether a request is let in. The count and its expiry change together, and a process that dies in the middle has changed neither.
fn admit(db: &Database<'_>, user: &str, limit: i64, now_ms: u64) -> Result<bool, Stop> {
    let window = now_ms / WINDOW_MS;
    let key = format!("rate:{user}:{window}").into_bytes();
    db.transaction(&[&key], |keys| {
        let count = keys.number(&key)?;
        if count >= limit {
            return Ok(false);
        }
        let until = SetOptions::new().expiry(Expiry::at_ms((window + 1) * WINDOW_MS));
        keys.set_with(&key, (count + 1).to_string(), &until)
    })
}

/// Makes requests and prints how many were let in.
fn client(segment: &str, user: &str, count: u32, limit: i64) -> Result<(), Box<dyn Error>> {
    let memory = Memory::attach(&Options { segment: segment.into(), ..Options::default() })?;
    let db = memory.database(0);
    let mut admitted = 0;
    for _ in 0..count {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        admitted += u32::from(admit(&db, user, limit, now_ms)?);
    }
    println!("{admitted}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [segment, user, count, limit] = &words[..] {
        return client(segment, user, count.parse()?, limit.parse()?);
    }
    let segment = format!("shm:polder-rate-limiter-{}", std::process::id());
    // The demonstration must not begin in one window and end in the next one.
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
    if now_ms % WINDOW_MS > WINDOW_MS - 10_000 {
        std::thread::sleep(std::time::Duration::from_millis(WINDOW_MS - now_ms % WINDOW_MS));
    }
    let client = || {
        Command::new(std::env::current_exe()?)
            .args([&segment, "ann", "40", "50"])
            .stdout(Stdio::piped())
            .spawn()
    };
    let clients = (0..4).map(|_| client()).collect::<Result<Vec<_>, _>>()?;
    let mut admitted = 0;
    for client in clients {
        admitted += String::from_utf8(client.wait_with_output()?.stdout)?.trim().parse::<u32>()?;
    }
    Memory::remove(&segment)?;
    println!("160 requests of 4 processes: {admitted} let in");
    Ok(())
}
