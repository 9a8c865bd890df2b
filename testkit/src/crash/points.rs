//! A process is killed before the n-th store of one operation, for every n: the key has its old or its new value.
//!
//! For each path the driver brings the keys into their old state, lets a child attach, arm the crash point and run the
//! operation, and looks at what is there. When the child comes through alive, n was past the last store. All deaths of
//! a path happen in one segment, one after the other, so what recovery forgets to give back adds up and is seen.
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use polder_base::Protocol;

use super::STALL_MAX;
use crate::answer::Answer;
use crate::arguments;
use crate::caller::{Caller, Embedder};
use crate::scratch::{self, Scratch};

/// One write path: what was there before, and the operation that is not survived.
pub struct Route {
    pub name: &'static str,
    before: &'static [&'static str],
    operation: &'static str,
    /// Every how many stores the process dies: 1 but for operations with thousands.
    step: u64,
}

const fn route(name: &'static str, before: &'static [&'static str], operation: &'static str) -> Route {
    Route { name, before, operation, step: 1 }
}

/// Every write path.
pub const ROUTES: &[Route] = &[
    route("set-new", &[], "SET k1 value"),
    route("set-over", &["SET k1 old"], "SET k1 new"),
    route("set-longer", &["SET k1 old"], "SET k1 repeat:500:n"),
    route("set-shorter", &["SET k1 repeat:500:o"], "SET k1 new"),
    route("set-tree", &["SET k1 old"], "SET k1 repeat:100000:n EX 1000"),
    route("set-over-tree", &["SET k1 repeat:100000:o"], "SET k1 new"),
    route("delete", &["SET k1 old"], "DEL k1"),
    route("delete-tree", &["SET k1 repeat:100000:o"], "DEL k1"),
    route("increment", &["SET k1 41"], "INCR k1"),
    route("append-tree", &["SET k1 repeat:100000:o"], "APPEND k1 repeat:5000:n"),
    route("setrange-tree", &["SET k1 repeat:100000:o"], "SETRANGE k1 30000 repeat:20000:n"),
    route("setbit-hole", &[], "SETBIT k1 1000000 1"),
    route("expire", &["SET k1 old"], "EXPIRE k1 1000"),
    route("persist", &["SET k1 old EX 1000"], "PERSIST k1"),
    route("rename", &["SET k1 repeat:100000:o", "SET k2 repeat:20000:p"], "RENAME k1 k2"),
    route("copy-tree", &["SET k1 repeat:100000:o", "SET k2 p"], "COPY k1 k2 REPLACE"),
    route("move", &["SET k1 repeat:300:o"], "MOVE k1 1"),
    route("mset", &["SET k1 old", "SET k3 repeat:9000:o"], "MSET k1 new k2 repeat:300:n k3 new k4 repeat:70000:n k5 5 k6 6"),
    route("delete-many", &["MSET k1 1 k2 2 k3 repeat:70000:o k4 repeat:300:o"], "DEL k1 k2 k3 k4 k5"),
    route("bitop", &["SET k1 repeat:9000:o", "SET k2 abc"], "BITOP XOR k3 k1 k2"),
    route("flushdb", &["MSET k1 1 k2 repeat:300:o k3 repeat:70000:o"], "FLUSHDB"),
    route("swapdb", &["MSET k1 1 k2 2", "COPY k1 k3 DB 1"], "SWAPDB 0 1"),
];

/// What a route came to.
#[derive(Default)]
pub struct Report {
    pub deaths: u64,
    pub failures: Vec<String>,
}

/// Dies at every store of a route.
///
/// # Errors
/// When the test itself cannot go on.
pub fn run(route: &Route, program: &Path) -> Result<Report, String> {
    let scratch = Scratch::new();
    let mut caller = Caller::new(1, Protocol::Resp2);
    let (old, new) = states(route)?;
    let mut report = Report::default();
    let mut used_early = 0;
    for n in (1..).step_by(route.step as usize) {
        prepare(route, &scratch.embedder, &mut caller)?;
        let survived = play(route, program, &scratch.options.segment, n)?;
        let started = Instant::now();
        let first = values(&scratch.embedder, &mut caller)?;
        let stalled = started.elapsed();
        let found = sight(&scratch.embedder, &mut caller)?;
        if let Err(complaint) = judge(&first, &found, &old, &new) {
            report.failures.push(format!("{}: dead at store {n}, {complaint}", route.name));
            break;
        }
        if stalled > STALL_MAX {
            report.failures.push(format!("{}: dead at store {n}, the keys were unusable for {} ms", route.name, stalled.as_millis()));
        }
        if survived {
            break;
        }
        report.deaths += 1;
        report.failures.extend(verify(&scratch.embedder).map(|complaint| format!("{}: dead at store {n}: {complaint}", route.name)));
        if !report.failures.is_empty() {
            break;
        }
        if n == 3 {
            used_early = settled(&scratch.embedder, &mut caller)?;
        }
    }
    let used_late = settled(&scratch.embedder, &mut caller)?;
    if report.deaths > 3 && used_late > used_early + LEAK_BYTES_MAX {
        let found = scratch.embedder.memory.table().verify().map_err(|fault| fault.to_string())?;
        report.failures.push(format!(
            "{}: {} bytes more in use after {} deaths; {} nodes of {} bytes in use, {} cached, {} retired",
            route.name,
            used_late - used_early,
            report.deaths,
            found.nodes,
            found.node_bytes,
            found.cached,
            found.retired
        ));
    }
    Ok(report)
}

/// Whether this is the old or the new state, at once and for good.
fn judge(first: &str, found: &Sight, old: &Sight, new: &Sight) -> Result<(), String> {
    let shown = |what: &str, values: &str, counts: &str| format!("{what}\n{values}{counts}");
    let whole = (found == old && first == old.values) || (found == new && (first == old.values || first == new.values));
    if whole {
        return Ok(());
    }
    Err(shown("first there is", first, "")
        + &shown("after the recovery", &found.values, &found.counts)
        + &shown("the old state was", &old.values, &old.counts)
        + &shown("the new one is", &new.values, &new.counts))
}

/// How long a round of chores may take.
const CHORES_US: u64 = 10_000;

/// What the seats' caches may keep: a hundredth of the segment. Whether each node is accounted for is `verify`'s question.
const LEAK_BYTES_MAX: u64 = scratch::CEILING / 100;

/// What `verify` has to complain about, if anything.
pub fn verify(embedder: &Embedder) -> Option<String> {
    match embedder.memory.table().verify() {
        Ok(report) if report.is_clean() => None,
        Ok(report) => Some(format!("verify says {}", report.findings[..report.findings.len().min(5)].join("; "))),
        Err(fault) => Some(format!("verify failed: {fault}")),
    }
}

/// The child's part: attaches, arms, runs the operation.
///
/// # Errors
/// When there is no such route or the operation is refused.
pub fn child(segment: &str, name: &str, n: u64) -> Result<(), String> {
    let route = ROUTES.iter().find(|route| route.name == name).ok_or_else(|| format!("no route {name}"))?;
    let options = polder_engine::Options { segment: segment.into(), create: false, ..Default::default() };
    let embedder = Embedder::attach(&options).map_err(|fault| fault.to_string())?;
    let mut caller = Caller::new(2, Protocol::Resp2);
    arm(n)?;
    typed(&embedder, &mut caller, route.operation)?;
    arm(0)
}

/// Says which store is not made; release builds have no such points.
#[cfg(debug_assertions)]
fn arm(n: u64) -> Result<(), String> {
    polder_shm::crash::arm(n);
    Ok(())
}

#[cfg(not(debug_assertions))]
fn arm(_n: u64) -> Result<(), String> {
    Err("a release build has no crash points".into())
}

/// Runs the child; answers whether it came through.
fn play(route: &Route, program: &Path, segment: &str, n: u64) -> Result<bool, String> {
    use std::os::unix::process::ExitStatusExt;
    let output = Command::new(program)
        .args(["point", segment, route.name, &n.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    match (output.status.success(), output.status.signal()) {
        (true, _) => Ok(true),
        (false, Some(9)) => Ok(false),
        _ => Err(format!(
            "{} at store {n}: {}{}",
            route.name,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// What the keys look like before and after the operation, found out where nobody dies.
fn states(route: &Route) -> Result<(Sight, Sight), String> {
    let scratch = Scratch::new();
    let mut caller = Caller::new(1, Protocol::Resp2);
    prepare(route, &scratch.embedder, &mut caller)?;
    let old = sight(&scratch.embedder, &mut caller)?;
    typed(&scratch.embedder, &mut caller, route.operation)?;
    Ok((old, sight(&scratch.embedder, &mut caller)?))
}

fn prepare(route: &Route, embedder: &Embedder, caller: &mut Caller) -> Result<(), String> {
    flush(embedder, caller)?;
    route.before.iter().try_for_each(|line| typed(embedder, caller, line).map(drop))
}

/// Empties the memory; sweeping behind earlier flushes is a chore that may have to be done first.
fn flush(embedder: &Embedder, caller: &mut Caller) -> Result<(), String> {
    for _ in 0..1000 {
        match caller.call(embedder, &["FLUSHALL"])? {
            Answer::Error(busy) if busy.starts_with("BUSY") => embedder.memory.table().chores(CHORES_US),
            Answer::Error(error) => return Err(format!("FLUSHALL: {error}")),
            _ => return Ok(()),
        };
    }
    Err("FLUSHALL is busy for ever".into())
}

/// What the routes' keys hold, before and after somebody has recovered the dead.
#[derive(PartialEq)]
struct Sight {
    values: String,
    counts: String,
}

/// Everything that the routes' keys hold, in databases 0 and 1.
fn values(embedder: &Embedder, caller: &mut Caller) -> Result<String, String> {
    let mut text = String::new();
    for db in ["0", "1"] {
        typed(embedder, caller, &format!("SELECT {db}"))?;
        for key in ["k1", "k2", "k3", "k4", "k5", "k6"] {
            let value = match typed(embedder, caller, &format!("GET {key}"))? {
                Answer::Nil => continue,
                Answer::Bulk(bytes) if bytes.len() > 100 => format!("{} bytes, sum {:x}", bytes.len(), super::value::checksum(&bytes)),
                other => other.shown(),
            };
            let expires = matches!(typed(embedder, caller, &format!("TTL {key}"))?, Answer::Integer(1..));
            text += &format!("  {db} {key} {value}{}\n", if expires { ", expires" } else { "" });
        }
    }
    typed(embedder, caller, "SELECT 0")?;
    Ok(text)
}

/// Values and counts once the dead have been recovered.
fn sight(embedder: &Embedder, caller: &mut Caller) -> Result<Sight, String> {
    embedder.memory.table().chores(CHORES_US);
    let values = values(embedder, caller)?;
    let mut counts = String::new();
    for db in ["1", "0"] {
        typed(embedder, caller, &format!("SELECT {db}"))?;
        counts += &format!("  {db} has {}\n", typed(embedder, caller, "DBSIZE")?.shown());
    }
    Ok(Sight { values, counts })
}

/// Bytes in use when nothing is there and the chores are done.
fn settled(embedder: &Embedder, caller: &mut Caller) -> Result<u64, String> {
    flush(embedder, caller)?;
    let used = || embedder.memory.table().usage().used;
    let (mut least, mut unchanged) = (used(), 0);
    while unchanged < 50 {
        embedder.memory.table().chores(CHORES_US);
        typed(embedder, caller, "SET k1 1")?;
        typed(embedder, caller, "DEL k1")?;
        unchanged = if used() < least { 0 } else { unchanged + 1 };
        least = least.min(used());
    }
    Ok(least)
}

fn typed(embedder: &Embedder, caller: &mut Caller, line: &str) -> Result<Answer, String> {
    match caller.call(embedder, &arguments::split(line)?)? {
        Answer::Error(error) => Err(format!("{line}: {error}")),
        answer => Ok(answer),
    }
}
