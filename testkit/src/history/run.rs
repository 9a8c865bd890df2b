//! Starts players and servers, disturbs them, and has the check look at what they noted.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::check::{Verdict, check};
use super::record::{self, Operation};
use crate::crash::cast::{Clock, Part};
use crate::crash::points;
use crate::process::{self, Server};
use crate::random::Random;
use crate::scratch::Scratch;

/// One act: players work, then what they noted is checked, so that memory for it stays bounded.
const ACT: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(30);
/// Steps of the search for one group; some 30,000 times what an ordinary group takes would be a hundred seconds.
const STEPS_MAX: usize = 1_000_000;

/// How a run is sized.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub seconds: u64,
    /// Players in-process, and as many over sockets.
    pub players: usize,
    pub servers: usize,
    /// The longest time between two disturbances.
    pub pause_ms_max: usize,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Report {
    pub operations: usize,
    /// Operations of which it is not known whether they have happened.
    pub open: usize,
    pub groups: usize,
    pub undecided: usize,
    pub kills: usize,
    pub stops: usize,
    pub failures: Vec<String>,
}

/// Runs the plan. `player` is the program that plays.
///
/// # Errors
/// When processes or files cannot be had; what was wrong with the histories stands in the report.
pub fn run(plan: &Plan, player: &Path) -> Result<Report, String> {
    let mut report = Report::default();
    let mut random = Random::new(plan.seed);
    let scratch = Scratch::new();
    let mut left = Duration::from_secs(plan.seconds);
    while !left.is_zero() && report.failures.is_empty() {
        let length = left.min(ACT);
        left -= length;
        let folder = std::env::temp_dir().join(format!(
            "polder-history-{}-{}",
            std::process::id(),
            random.below(1_000_000)
        ));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut stage = Stage::open(plan, player, &folder, &scratch.options.segment, random.bits())?;
        stage.disturb(plan, length, &mut report)?;
        stage.close(&mut report);
        judge(&folder, &mut report)?;
        report.failures.extend(points::verify(&scratch.embedder));
        match report.failures.is_empty() {
            true => std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?,
            false => report.failures.push(format!("the histories are in {}", folder.display())),
        }
    }
    Ok(report)
}

/// All processes of a run.
struct Stage<'p> {
    player: &'p Path,
    folder: &'p Path,
    segment: &'p str,
    random: Random,
    servers: Vec<Server>,
    players: Vec<Part>,
    next: usize,
}

impl<'p> Stage<'p> {
    fn open(
        plan: &Plan,
        player: &'p Path,
        folder: &'p Path,
        segment: &'p str,
        seed: u64,
    ) -> Result<Stage<'p>, String> {
        let mut stage = Stage {
            player,
            folder,
            segment,
            random: Random::new(seed),
            servers: vec![],
            players: vec![],
            next: 0,
        };
        for _ in 0..plan.servers {
            stage.servers.push(stage.serve(process::free_port().map_err(|error| error.to_string())?)?);
        }
        for at in 0..plan.players * 2 {
            let part = stage.play(at % 2 == 0)?;
            stage.players.push(part);
        }
        Ok(stage)
    }

    fn serve(&self, port: u16) -> Result<Server, String> {
        let flags = ["serve", "--port", "{port}", "--threads", "2", "--segment", self.segment];
        Server::start_at(&process::polder(), &flags, port).map_err(|error| error.to_string())
    }

    fn play(&mut self, inside: bool) -> Result<Part, String> {
        self.next += 1;
        let addresses: Vec<String> = self.servers.iter().map(Server::address).collect();
        let door = if inside { self.segment.to_string() } else { addresses.join(",") };
        let name = format!("{}-{}", if inside { "inside" } else { "outside" }, self.next);
        let mut command = Command::new(self.player);
        command
            .arg("history")
            .arg(door)
            .arg(self.folder.join(format!("history-{}", self.next)))
            .arg(self.random.bits().to_string());
        Part::start(&name, &mut command, &self.folder.join("errors"))
    }

    /// Kills and stops until the time is over or a process reports a failure.
    fn disturb(&mut self, plan: &Plan, length: Duration, report: &mut Report) -> Result<(), String> {
        let mut clock = Clock::start();
        while clock.passed() < length {
            std::thread::sleep(Duration::from_millis(1 + self.random.below(plan.pause_ms_max) as u64));
            report.failures.extend(self.players.iter_mut().filter_map(Part::complaint));
            if !report.failures.is_empty() {
                return Ok(());
            }
            let victim = self.random.below(self.players.len());
            match self.random.below(10) {
                0..=4 => {
                    let inside = self.players[victim].name.starts_with("inside");
                    self.players[victim].kill();
                    self.players[victim] = self.play(inside)?;
                    report.kills += 1;
                }
                5 | 6 => {
                    let victim = self.random.below(self.servers.len());
                    self.servers[victim].kill();
                    self.servers[victim] = self.serve(self.servers[victim].port())?;
                    report.kills += 1;
                }
                7 => {
                    let victim = self.random.below(self.servers.len());
                    self.servers[victim].stop();
                    std::thread::sleep(Duration::from_millis(self.random.below(100) as u64));
                    self.servers[victim].go_on();
                    report.stops += 1;
                }
                _ => {
                    self.players[victim].stop();
                    std::thread::sleep(Duration::from_millis(self.random.below(100) as u64));
                    self.players[victim].go_on();
                    report.stops += 1;
                }
            }
        }
        Ok(())
    }

    fn close(mut self, report: &mut Report) {
        self.players.iter_mut().for_each(Part::ask_to_end);
        report.failures.extend(self.players.iter_mut().filter_map(|part| part.ended(PATIENCE)));
        let panics = std::fs::read_to_string(self.folder.join("errors")).unwrap_or_default();
        report.failures.extend(panics.lines().take(3).map(|line| format!("a player panicked: {line}")));
    }
}

/// Checks every group of a folder's histories.
fn judge(folder: &Path, report: &mut Report) -> Result<(), String> {
    let mut groups: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
    for file in histories(folder)? {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        for done in record::read(&text) {
            report.operations += 1;
            report.open += usize::from(done.ended.is_none());
            groups.entry(done.group.clone()).or_default().push(done);
        }
    }
    report.groups += groups.len();
    let groups: Vec<(String, Vec<Operation>)> = groups.into_iter().collect();
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |cores| cores.get().min(8)) {
            scope.spawn(|| {
                while let Some((name, operations)) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match check(&operations.iter().collect::<Vec<_>>(), STEPS_MAX) {
                        Verdict::Explained => {}
                        other => verdicts.lock().expect("no checker panics").push((name.clone(), other)),
                    }
                }
            });
        }
    });
    for (name, verdict) in verdicts.into_inner().expect("no checker panics") {
        match verdict {
            Verdict::Impossible(why) => {
                report.failures.push(format!("{name}: no order explains this: {why}"))
            }
            _ => {
                report.undecided += 1;
                report.failures.push(format!("{name}: not decided in {STEPS_MAX} steps"));
            }
        }
    }
    Ok(())
}

fn histories(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let files =
        std::fs::read_dir(folder).map_err(|error| error.to_string())?.flatten().map(|entry| entry.path());
    Ok(files
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("history-")))
        .collect())
}
