//! The program under callgrind: runs operations whose instructions `cargo x bench counts` counts.
//!
//! ```text
//!   counts fill SEGMENT      makes the memory with its large collections; runs as it is, since nothing of it is counted
//!   counts measure SEGMENT   runs ROUNDS rounds of every operation, and says in one line each what it was: NAME <tab> CALLS
//!   counts measure SEGMENT NAME   the same of one operation, to be profiled: `valgrind --tool=callgrind --toggle-collect=*::toggled ...`
//!   counts remove SEGMENT
//! ```
//! Callgrind counts only inside of [`toggled`] and where the server's thread reads, executes and writes, and writes one file at each end of [`dumped`]: the n-th line of the
//! output belongs to the n-th file; one without a name is of no interest. The driver (`xtask/src/counts.rs`) names these functions to callgrind.
//!
//! **Invariant:** two runs of the same program take the same steps: hash secret and random numbers follow from a fixed seed.
#![forbid(unsafe_code)]

mod operations;
mod resp;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_engine::{Batch, Caller, Memory, Options};

use operations::{OPERATIONS, Operation, VARIANTS, Way};

/// Rounds of each operation, of which the driver takes the least: what is done by the clock, every 100 ms, falls into some of them only.
const ROUNDS: usize = 5;
/// Calls of a round.
const CALLS: usize = 128;
const CEILING: u64 = 1 << 30;
const MAINTENANCE_US: u64 = 1_000_000;
/// After so long maintenance is done, or has nothing to do.
const SETTLED: Duration = Duration::from_secs(20);
const SEED: u64 = 20_261_123;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["fill", segment] => attach(segment).and_then(|memory| fill(&memory)),
        ["measure", segment] => attach(segment).and_then(|memory| measure(&memory, None)),
        ["measure", segment, name] => attach(segment).and_then(|memory| measure(&memory, Some(name))),
        ["remove", segment] => Memory::remove(segment).map_err(Failure::from),
        _ => Err("counts fill|measure|remove SEGMENT [NAME]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("counts: {error}");
            ExitCode::FAILURE
        }
    }
}

fn attach(segment: &str) -> Result<Arc<Memory>, Failure> {
    let options = Options { segment: segment.into(), ceiling: CEILING, ..Options::default() };
    Ok(Arc::new(Memory::predictable(&options, SEED)?))
}

fn fill(memory: &Arc<Memory>) -> Result<(), Failure> {
    let mut caller = Caller::new(memory);
    operations::fill(|args| Ok(caller.show(args, |_| ())?))?;
    // A table that still grows is searched twice, and takes longer ways.
    let begun = Instant::now();
    while memory.table().run_maintenance(MAINTENANCE_US) <= 1 && begun.elapsed() < SETTLED {}
    operations::thin_out(|args| Ok(caller.show(args, |_| ())?))
}

fn measure(memory: &Arc<Memory>, only: Option<&str>) -> Result<(), Failure> {
    let mut caller = Caller::new(memory);
    // What the memory does by the clock is no part of any operation. The order holds for the process, and only a server takes it.
    resp::with_server(memory, &mut |socket| resp::order(socket, "DEBUG PAUSE-CRON 1"))?;
    for (variant, settings) in VARIANTS {
        set_all(&mut caller, settings)?;
        let logs = variant == operations::LOGGED;
        if logs {
            memory.table().log().turn_on()?;
        }
        for operation in OPERATIONS.iter().filter(|operation| operation.variants.contains(&variant)) {
            if only.is_some_and(|only| only != format!("{}{variant}", operation.name)) {
                continue;
            }
            for round in 0..ROUNDS {
                for call in operation.preparation(round) {
                    caller.show(&call, |_| ())?;
                }
                run(memory, &mut caller, operation)?;
                println!("{}{variant}\t{CALLS}", operation.name);
                if logs {
                    // Each round begins with the same.
                    memory.table().log().merge()?;
                }
            }
        }
    }
    set_all(&mut caller, operations::PLAIN)?;
    memory.table().log().turn_off()?;
    if only.is_none() { resp::with_server(memory, &mut resp::measure) } else { Ok(()) }
}

fn set_all(caller: &mut Caller, settings: &[(&str, &str)]) -> Result<(), Failure> {
    settings.iter().try_for_each(|(name, value)| Ok(caller.show(&["CONFIG", "SET", name, value], |_| ())?))
}

/// One round of an operation, by the way that it names.
fn run(memory: &Arc<Memory>, caller: &mut Caller, operation: &Operation) -> Result<(), Failure> {
    let calls = operation.calls();
    let args: Vec<Vec<&[u8]>> = calls.iter().map(|call| call.iter().map(Vec::as_slice).collect()).collect();
    let mut outcome = Ok(());
    match operation.way {
        Way::Call => count(&mut || {
            outcome = args.iter().try_for_each(|args| caller.show(args, |_| ()).map_err(Failure::from));
        }),
        Way::Read => {
            let database = memory.database(0);
            let copied = |value: Option<&[u8]>| value.and_then(|value| <[u8; 16]>::try_from(value).ok());
            count(&mut || {
                outcome = args.iter().try_for_each(|args| {
                    database
                        .read(args[1], |value| std::hint::black_box(copied(value)))
                        .map(drop)
                        .map_err(Failure::from)
                });
            });
        }
        Way::Write => {
            let database = memory.database(0);
            count(&mut || {
                outcome =
                    args.iter().try_for_each(|args| database.set(args[1], args[2]).map_err(Failure::from));
            });
        }
        Way::Exec(size) => {
            let batches: Vec<Batch> = (0..CALLS)
                .map(|number| {
                    let mut batch = Batch::new();
                    (0..size).for_each(|at| _ = batch.add(&args[(number * size + at) % CALLS]));
                    batch
                })
                .collect();
            count(&mut || {
                outcome = batches
                    .iter()
                    .try_for_each(|batch| caller.run_atomically(batch).map(drop).map_err(Failure::from));
            });
        }
    }
    outcome.map_err(|error| format!("{}: {error}", operation.name).into())
}

/// Callgrind counts what happens in here.
#[inline(never)]
fn toggled(work: &mut dyn FnMut()) {
    work();
    // Without this the call above would be a jump, after which this function is no more.
    std::hint::black_box(0_u8);
}

/// Callgrind writes at the end what was counted since the last time. A function of its own, since callgrind 3.19 takes one order for a function.
#[inline(never)]
fn dumped(work: &mut dyn FnMut()) {
    work();
    std::hint::black_box(0_u8);
}

/// Runs what is counted as a round of its own.
fn count(work: &mut dyn FnMut()) {
    dumped(&mut || toggled(work));
}
