//! Damages payloads of DUMP and compares what RESTORE makes of them here and in real servers:
//! `payloads [--seed N] [--seconds N] [--only NAME]`
//!
//! Each payload is restored with `sanitize-dump-payload yes`. Seconds are shared by the peers; with a seed, the order is the same.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use polder_base::Protocol;
use polder_testkit::door::{Door, InProcess, Socket};
use polder_testkit::peers::payloads::{self, Fate, Sample, ask, restored};
use polder_testkit::process::{Server, stock_servers};
use polder_testkit::random::Random;

/// Differences of one payload that are shown.
const SHOWN_MAX: usize = 3;

/// What this process may grow by, whatever payloads say.
const GROWTH_MAX_KIB: u64 = 192 << 10;

/// Deaths of a peer that one run bears: real servers die of a few payloads, and more mean that the comparison is wrong.
const DEATHS_MAX: usize = 20;

/// A real server, started again where a payload has ended it.
struct Peer {
    program: PathBuf,
    name: String,
    /// Ends with this.
    _server: Server,
    door: Socket,
    /// The types of the payloads that it takes.
    types: BTreeSet<u8>,
    deaths: usize,
}

impl Peer {
    fn start(program: &Path, name: &str) -> Result<Peer, String> {
        let server = Server::start_redis(program).map_err(|error| error.to_string())?;
        let door = Socket::new(&server.address(), Protocol::Resp2, true);
        let (program, name) = (program.to_owned(), name.to_owned());
        let mut peer = Peer { program, name, _server: server, door, types: BTreeSet::new(), deaths: 0 };
        ask(&mut peer.door, &[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"])?;
        // A key that goes by itself while it is read says nothing about payloads.
        ask(&mut peer.door, &[b"DEBUG", b"SET-ACTIVE-EXPIRE", b"0"])?;
        Ok(peer)
    }

    /// Compares one payload. If the peer dies of it, Polder must still take or refuse it, and go on.
    fn compare(&mut self, sample: &Sample, ours: &mut InProcess) -> Result<Option<String>, String> {
        match payloads::compare(sample, ours, &mut self.door, &self.types) {
            Err(error) if self.deaths < DEATHS_MAX => {
                println!("{}: the peer is started again behind the {}: {error}", self.name, sample.name);
                let deaths = self.deaths + 1;
                let types = std::mem::take(&mut self.types);
                *self = Peer { deaths, types, ..Peer::start(&self.program, &self.name)? };
                payloads::restored(ours, &sample.payload).map(|_| None)
            }
            other => other.map_err(|error| format!("{}: {error}", sample.name)),
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1)).map(String::as_str)
    };
    let number = |flag: &str, or: u64| value(flag).and_then(|word| word.parse().ok()).unwrap_or(or);
    let (seed, seconds) = (number("--seed", Random::seed_of_the_day()), number("--seconds", 20));
    println!("seed {seed}");
    let peers = stock_servers();
    let (mut passed, mut failed) = (0, 0);
    for (name, program) in &peers {
        let time = Duration::from_secs(seconds) / peers.len() as u32;
        match run(program, name, seed, time, value("--only")) {
            Ok((equal, differ)) => {
                println!("{name}: {equal} payloads equal, {differ} differ");
                (passed, failed) = (passed + equal, failed + differ);
            }
            Err(error) => {
                println!("{name}: {error}");
                failed += 1;
            }
        }
    }
    println!("payloads: {passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares with one peer, in rounds over all payloads, until the time is over.
fn run(
    program: &Path,
    name: &str,
    seed: u64,
    time: Duration,
    only: Option<&str>,
) -> Result<(usize, usize), String> {
    let mut peer = Peer::start(program, name)?;
    let mut ours = InProcess::new(Protocol::Resp2);
    ours.reset()?;
    for (setting, value) in [("number-mode", "redis"), ("rdb-version-check", "relaxed")] {
        ask(&mut ours, &[b"CONFIG", b"SET", setting.as_bytes(), value.as_bytes()])?;
    }
    let mut samples = payloads::historic();
    samples.extend(payloads::dumped(&mut peer.door, name)?);
    for version in ["10", "12", "80"] {
        ask(&mut ours, &[b"CONFIG", b"SET", b"rdb-version", version.as_bytes()])?;
        samples.extend(payloads::dumped(&mut ours, &format!("polder, version {version}"))?);
    }
    let is_wanted = |sample: &Sample| only.is_none_or(|only| sample.name.contains(only));
    let mut known = Vec::new();
    for sample in samples.into_iter().filter(is_wanted) {
        let is_whole = |door: &mut dyn Door| -> Result<bool, String> {
            Ok(matches!(restored(door, &sample.payload)?, Fate::Taken(_)))
        };
        match (is_whole(&mut peer.door)?, is_whole(&mut ours)?) {
            (true, true) => known.push(sample),
            // Its version or type is newer than Polder.
            (true, false) => println!("{name}: Polder does not know the {}; left out", sample.name),
            // Its version or type is newer than the peer.
            (false, _) => {}
        }
    }
    peer.types = known.iter().map(|sample| sample.payload[0]).collect();
    let before = peak_kib();
    let mut counts = compare_all(&known, &mut ours, &mut peer, seed, time)?;
    for sample in payloads::crafted().into_iter().filter(is_wanted) {
        match peer.compare(&sample, &mut ours)? {
            None => counts.0 += 1,
            Some(text) => {
                counts.1 += 1;
                println!("{text}\n");
            }
        }
    }
    let growth = peak_kib().saturating_sub(before);
    println!("{name}: {} kinds of payloads, memory grew by {growth} KiB", known.len());
    if growth > GROWTH_MAX_KIB { Err(format!("memory grew by {growth} KiB")) } else { Ok(counts) }
}

fn compare_all(
    samples: &[Sample],
    ours: &mut InProcess,
    peer: &mut Peer,
    seed: u64,
    time: Duration,
) -> Result<(usize, usize), String> {
    let (mut random, until) = (Random::new(seed), Instant::now() + time);
    let (mut equal, mut differ) = (0, 0);
    let mut shown = vec![0; samples.len()];
    // The payloads of all kinds in turn: little time leaves no kind out.
    let mut turns: Vec<std::vec::IntoIter<Sample>> =
        samples.iter().map(|sample| payloads::damaged(sample, &mut random).into_iter()).collect();
    let mut is_over = false;
    while !is_over && Instant::now() < until {
        is_over = true;
        for (shown, turn) in shown.iter_mut().zip(&mut turns) {
            let Some(sample) = turn.next() else { continue };
            is_over = false;
            match peer.compare(&sample, ours)? {
                None => equal += 1,
                Some(text) => {
                    differ += 1;
                    *shown += 1;
                    if *shown <= SHOWN_MAX {
                        println!("{text}\n");
                    }
                }
            }
        }
    }
    Ok((equal, differ))
}

/// The most memory that this process ever had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
