//! The torture run: processes of all kinds on one memory. One of them is killed every few
//! milliseconds, others are stopped in between.
//!
//! ```text
//!   servers (several threads)  <--sockets--  clients (Rust)        embedders: Rust, C (actors/actor.c), Python (actors/actor.py)
//!        \________________________  one segment  ______________________/
//! ```
//! All actors write the same journal and the same files of tokens. Those in Rust check their
//! predecessor's work by themselves. For the others the driver does it, hands them the sequence
//! number to go on with, and checks their journals at the end like all others. At the end: all
//! processes end when asked to; new waiters and listeners of each kind are served; the memory
//! agrees with all that was noted; `verify` accounts for every byte; and an emptied memory takes
//! what an empty one did.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use polder_base::Protocol;

use super::actor::{check_history, journal_of};
use super::cast::{Clock, Part, Patience};
use super::ears::Ear;
use super::journal::{History, Journal};
use super::{judge, points};
use crate::caller::{Caller, Embedder};
use crate::process;
use crate::random::Random;
use crate::scratch::{self, Scratch};
use crate::way::Way;

/// How long a process may take to end, and a server to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest that a process is stopped.
const STOP_MS_MAX: usize = 150;
/// How many of this many processes are servers, clients, and embedders in Rust, C and Python.
const KINDS: [(Kind, usize); 5] =
    [(Kind::Server, 3), (Kind::Client, 3), (Kind::Rust, 4), (Kind::C, 3), (Kind::Python, 3)];

/// What a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Server,
    Client,
    Rust,
    C,
    Python,
}

/// How a run is sized.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub seconds: u64,
    pub processes: usize,
    /// Time between two deaths, in milliseconds.
    pub pause_ms: u64,
    /// The longest that an operation may take, in milliseconds: what holds a lock may be stopped.
    pub stall_ms_max: u64,
}

/// The programs that play.
pub struct Programs {
    /// `crash_actor`.
    pub rust: PathBuf,
    /// What `testkit/actors/build.sh` has built.
    pub c: PathBuf,
    pub python: PathBuf,
    pub script: PathBuf,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Report {
    pub kills: usize,
    pub stops: usize,
    pub acknowledged: u64,
    pub failures: Vec<String>,
}

/// Runs the plan.
///
/// # Errors
/// When processes or files cannot be had; what the memory did wrong stands in the report.
pub fn run(plan: &Plan, programs: &Programs) -> Result<Report, String> {
    let scratch = Scratch::new();
    let mut caller = Caller::new(1, Protocol::Resp2);
    let empty = points::settled(&scratch.embedder, &mut caller)?;
    let folder = std::env::temp_dir().join(format!("polder-torture-{}-{}", std::process::id(), plan.seed));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut report = Report::default();
    let mut stage = Stage::open(plan, programs, &folder, &scratch.options.segment)?;
    stage.torture(plan, &mut report)?;
    stage.end_actors(&mut report);
    if report.failures.is_empty() {
        report.failures.extend(stage.serve_the_last().err());
    }
    drop(stage);
    report.acknowledged =
        judge::journals(&scratch.options.segment, &folder, plan.processes as u32, &mut report.failures)?;
    report.failures.extend(leftovers(
        &mut Way::to(&scratch.options.segment)?,
        &scratch.embedder,
        &mut caller,
        empty,
    )?);
    match report.failures.is_empty() {
        true => std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?,
        false => report.failures.push(format!("the journals are in {}", folder.display())),
    }
    Ok(report)
}

/// What the dead have left behind: bytes, interests, anything that `verify` does not like.
fn leftovers(
    way: &mut Way,
    embedder: &Embedder,
    caller: &mut Caller,
    empty: u64,
) -> Result<Option<String>, String> {
    let table = embedder.memory.table();
    // Recovering and sweeping are maintenance, which callers do a little at a time if no server
    // does.
    let mut patience = Patience::new(PATIENCE);
    while table.interest() != 0 && patience.rest(Duration::from_millis(10)) {
        way.ask(&["PING"])?;
    }
    if table.interest() != 0 {
        return Ok(Some(format!("somebody dead is still interested: {:x}", table.interest())));
    }
    if let Some(wrong) = points::verify(embedder) {
        return Ok(Some(wrong));
    }
    let used = points::settled(embedder, caller)?;
    let leaked = used.saturating_sub(empty);
    // Some may lie in the caches of this process's seats: 1.5 MB in each.
    if leaked <= scratch::CEILING / 50 {
        return Ok(None);
    }
    let report = table.verify().map_err(|fault| fault.to_string())?;
    let retired: u64 = table.segment().seated().iter().map(|seat| seat.retired_bytes).sum();
    Ok(Some(format!(
        "{leaked} bytes are lost: {used} in use, {retired} of them retired, {empty} at first\n{report}"
    )))
}

/// All processes of a run.
struct Stage<'p> {
    plan: &'p Plan,
    programs: &'p Programs,
    folder: &'p Path,
    segment: &'p str,
    random: Random,
    ports: Vec<u16>,
    /// The way by which the driver checks journals for actors that do not do it themselves.
    way: Way,
    cast: Vec<(Kind, Part)>,
}

impl<'p> Stage<'p> {
    fn open(
        plan: &'p Plan,
        programs: &'p Programs,
        folder: &'p Path,
        segment: &'p str,
    ) -> Result<Stage<'p>, String> {
        let kinds: Vec<Kind> =
            KINDS.iter().flat_map(|&(kind, count)| std::iter::repeat_n(kind, count)).collect();
        // Fewer processes than kinds' shares: each share in turn, so that every kind is there.
        let stride = kinds.len() as f64 / plan.processes as f64;
        let kinds: Vec<Kind> = (0..plan.processes).map(|at| kinds[(at as f64 * stride) as usize]).collect();
        let servers = kinds.iter().filter(|kind| **kind == Kind::Server).count();
        let ports = (0..servers)
            .map(|_| process::free_port())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.to_string())?;
        let random = Random::new(plan.seed);
        let mut stage =
            Stage { plan, programs, folder, segment, random, ports, way: Way::to(segment)?, cast: vec![] };
        for (at, kind) in kinds.into_iter().enumerate() {
            let part = stage.start(at, kind)?;
            stage.cast.push((kind, part));
        }
        Ok(stage)
    }

    fn addresses(&self) -> String {
        self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
    }

    /// Starts the process that has place `at`, as a successor of the one before it.
    fn start(&mut self, at: usize, kind: Kind) -> Result<Part, String> {
        let seed = self.random.bits().to_string();
        let (name, id) = (format!("{kind:?} {at}"), at.to_string());
        let said = |error: std::io::Error| error.to_string();
        if kind == Kind::Server {
            let mut command = Command::new(process::polder());
            let port = self.ports[at].to_string();
            command.args(["serve", "--port", &port, "--threads", "2", "--segment", self.segment]);
            return Part::start(&name, &mut command, &self.folder.join("servers"));
        }
        let stall = self.plan.stall_ms_max.to_string();
        let mut command = match kind {
            Kind::Rust | Kind::Client => {
                let place = if kind == Kind::Rust { self.segment.to_string() } else { self.addresses() };
                let mut command = Command::new(&self.programs.rust);
                command.arg(place).arg(self.folder).args([&id, &stall, &seed]);
                command
            }
            _ => {
                let journal = journal_of(self.folder, at as u32);
                let history = History::read(&journal).map_err(said)?;
                check_history(&mut self.way, at as u32, &history)?;
                drop(Journal::succeed(&journal, &history).map_err(said)?);
                let mut command =
                    Command::new(if kind == Kind::C { &self.programs.c } else { &self.programs.python });
                if kind == Kind::Python {
                    command.arg(&self.programs.script);
                }
                command.arg(self.segment).arg(self.folder).args([&id, &history.sequence.to_string(), &seed]);
                command
            }
        };
        Part::start(&name, &mut command, &self.folder.join("errors"))
    }

    fn complaints(&mut self) -> Vec<String> {
        self.cast.iter_mut().filter_map(|(_, part)| part.complaint()).collect()
    }

    /// Kills and stops until the time is over or a process reports a failure.
    fn torture(&mut self, plan: &Plan, report: &mut Report) -> Result<(), String> {
        let mut clock = Clock::start();
        while clock.passed() < Duration::from_secs(plan.seconds) {
            std::thread::sleep(Duration::from_millis(plan.pause_ms));
            report.failures.extend(self.complaints());
            if !report.failures.is_empty() {
                return Ok(());
            }
            let stopped = self.random.below(self.cast.len());
            let pause = Duration::from_millis(self.random.below(STOP_MS_MAX) as u64);
            let stops = self.random.chance(30);
            if stops {
                self.cast[stopped].1.stop();
                report.stops += 1;
            }
            let victim = self.random.below(self.cast.len());
            self.cast[victim].1.kill();
            if stops {
                std::thread::sleep(pause);
                self.cast[stopped].1.go_on();
            }
            let successor = self.start(victim, self.cast[victim].0);
            report.kills += 1;
            match successor {
                Ok(part) => self.cast[victim].1 = part,
                // What a predecessor has left is not what it noted.
                Err(wrong) => report.failures.push(format!("{:?} {victim}: {wrong}", self.cast[victim].0)),
            }
        }
        Ok(())
    }

    /// Asks all actors to end, between two deeds.
    fn end_actors(&mut self, report: &mut Report) {
        let mut actors: Vec<&mut Part> =
            self.cast.iter_mut().filter(|(kind, _)| *kind != Kind::Server).map(|(_, part)| part).collect();
        actors.iter_mut().for_each(|part| part.ask_to_end());
        report.failures.extend(actors.iter_mut().filter_map(|part| part.ended(PATIENCE)));
        let panics = std::fs::read_to_string(self.folder.join("errors")).unwrap_or_default();
        report.failures.extend(panics.lines().take(3).map(|line| format!("an actor said: {line}")));
        let panics = std::fs::read_to_string(self.folder.join("servers")).unwrap_or_default();
        report.failures.extend(
            panics
                .lines()
                .filter(|line| line.contains("panick"))
                .take(3)
                .map(|line| format!("a server said: {line}")),
        );
    }

    /// After all this, a client that waits or listens, in any process, is served.
    fn serve_the_last(&mut self) -> Result<(), String> {
        let mut ways = vec![Way::to(self.segment)?, Way::to(self.segment)?];
        for port in &self.ports {
            ways.push(Way::to(&format!("127.0.0.1:{port}"))?);
        }
        let mut ears: Vec<(Ear, Ear)> = ways
            .into_iter()
            .enumerate()
            .map(|(at, way)| {
                (
                    Ear::waiter(way.beside(), &format!("last:{at}")),
                    Ear::listener(way, &format!("last:{at}"), "last"),
                )
            })
            .collect();
        for (at, (waiter, listener)) in ears.iter_mut().enumerate() {
            if !listener.is_ready()? {
                return Err(format!("listener {at} finds no server"));
            }
            let name = format!("last:{at}");
            for token in ["a", "b", "c"] {
                self.way.ask(&["RPUSH", &name, token])?;
                waiter.expect(token)?;
                self.way.ask(&["PUBLISH", &name, token])?;
                listener.expect(token)?;
            }
        }
        // Those in this process end when they hear once more and their channel is closed.
        let count = ears.len();
        drop(ears);
        for at in 0..count {
            let name = format!("last:{at}");
            self.way.ask(&["RPUSH", &name, "over"])?;
            self.way.ask(&["PUBLISH", &name, "over"])?;
        }
        Ok(())
    }
}
