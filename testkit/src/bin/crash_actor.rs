//! One process of the crash test: `crash_actor SEGMENT JOURNAL ID STALL_MS SEED`. It works until its standard input closes or
//! somebody kills it; what is wrong with the memory it says on standard output and ends.
//! `crash_actor point SEGMENT ROUTE N` runs one operation and dies at its N-th store.
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polder_testkit::crash::actor::Actor;
use polder_testkit::crash::points;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match (&words[..], words.last().and_then(|word| word.parse().ok())) {
        (["point", segment, route, _], Some(n)) => points::child(segment, route, n),
        ([segment, journal, id, stall_ms, _], Some(seed)) => match (id.parse(), stall_ms.parse()) {
            (Ok(id), Ok(ms)) => play(segment, Path::new(journal), id, Duration::from_millis(ms), seed),
            _ => Err("ID and STALL_MS are numbers".into()),
        },
        _ => Err("crash_actor SEGMENT JOURNAL ID STALL_MS SEED | point SEGMENT ROUTE N".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            println!("{complaint}");
            ExitCode::FAILURE
        }
    }
}

/// Works until the standard input ends.
fn play(segment: &str, journal: &Path, id: u32, stall_max: Duration, seed: u64) -> Result<(), String> {
    let over = Arc::new(AtomicBool::new(false));
    let sees_end = Arc::clone(&over);
    std::thread::spawn(move || {
        // Nobody ever writes there: the read ends when the driver closes its side, or dies.
        let _ = std::io::stdin().read(&mut [0]);
        sees_end.store(true, Ordering::Relaxed);
    });
    let mut actor = Actor::start(segment, journal, id, stall_max, seed)?;
    while !over.load(Ordering::Relaxed) {
        actor.step()?;
    }
    Ok(())
}
