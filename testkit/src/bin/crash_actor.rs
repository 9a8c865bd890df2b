//! One process of the crash test: `crash_actor SEGMENT JOURNAL ID SEED`. It works until its standard input closes or
//! somebody kills it; what is wrong with the memory it says on standard output and ends.
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polder_testkit::crash::actor::Actor;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [segment, journal, id, seed] = &words[..] else {
        println!("crash_actor SEGMENT JOURNAL ID SEED");
        return ExitCode::FAILURE;
    };
    let (Ok(id), Ok(seed)) = (id.parse(), seed.parse()) else {
        println!("ID and SEED are numbers");
        return ExitCode::FAILURE;
    };
    let over = Arc::new(AtomicBool::new(false));
    let sees_end = Arc::clone(&over);
    std::thread::spawn(move || {
        // Nobody ever writes there: the read ends when the driver closes its side, or dies.
        let _ = std::io::stdin().read(&mut [0]);
        sees_end.store(true, Ordering::Relaxed);
    });
    match play(segment, Path::new(journal), id, seed, &over) {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            println!("{complaint}");
            ExitCode::FAILURE
        }
    }
}

fn play(segment: &str, journal: &Path, id: u32, seed: u64, over: &AtomicBool) -> Result<(), String> {
    let mut actor = Actor::start(segment, journal, id, seed)?;
    while !over.load(Ordering::Relaxed) {
        actor.step()?;
    }
    Ok(())
}
