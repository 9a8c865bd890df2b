//! One process of the crash test: `crash_actor PLACE FOLDER ID STALL_MS SEED`, where the place is a
//! segment or the addresses of servers, and the folder holds the journals. It works until its
//! standard input closes or it is killed. If it finds something wrong with the memory, it says so
//! on standard output and ends. `crash_actor point SEGMENT ROUTE N` runs one operation and dies at
//! its N-th store. `crash_actor history DOOR FILE SEED` plays a part in a history
//! (`polder_testkit::history`).
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polder_testkit::crash::actor::Actor;
use polder_testkit::crash::points;
use polder_testkit::history::play::Player;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match (&words[..], words.last().and_then(|word| word.parse().ok())) {
        (["point", segment, route, _], Some(n)) => points::child(segment, route, n),
        (["history", door, file, _], Some(seed)) => {
            Player::new(door, Path::new(file), seed).and_then(|mut player| until_over(|| player.step()))
        }
        ([place, folder, id, stall_ms, _], Some(seed)) => match (id.parse(), stall_ms.parse()) {
            (Ok(id), Ok(ms)) => play(place, Path::new(folder), id, Duration::from_millis(ms), seed),
            _ => Err("ID and STALL_MS are numbers".into()),
        },
        _ => {
            Err("crash_actor PLACE FOLDER ID STALL_MS SEED | point SEGMENT ROUTE N | history DOOR FILE SEED"
                .into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            println!("{complaint}");
            ExitCode::FAILURE
        }
    }
}

fn play(place: &str, folder: &Path, id: u32, stall_max: Duration, seed: u64) -> Result<(), String> {
    let mut actor = Actor::start(place, folder, id, stall_max, seed)?;
    until_over(|| actor.step())
}

/// Works until the standard input ends.
fn until_over(mut step: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let over = Arc::new(AtomicBool::new(false));
    let sees_end = Arc::clone(&over);
    std::thread::spawn(move || {
        // Nothing is ever written there: the read ends when the driver closes its side, or dies.
        let _ = std::io::stdin().read(&mut [0]);
        sees_end.store(true, Ordering::Relaxed);
    });
    while !over.load(Ordering::Relaxed) {
        step()?;
    }
    Ok(())
}
