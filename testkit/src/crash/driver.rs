//! Starts actors, kills them, starts their successors, and judges what is left.
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::judge;
use crate::random::Random;
use crate::scratch::Scratch;

/// The file in the journals' folder that holds what actors said when they panicked.
const ERRORS: &str = "errors";

/// How a run is sized.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub actors: u32,
    pub kills: u32,
    /// Time between two deaths, in milliseconds, at most.
    pub pause_ms_max: usize,
    /// The longest that an operation of a survivor may take, in milliseconds.
    pub stall_ms_max: u64,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Report {
    pub kills: u32,
    pub acknowledged: u64,
    pub failures: Vec<String>,
}

/// Runs the plan with `program`, the binary that plays an actor.
///
/// # Errors
/// When processes or files cannot be had; what the memory did wrong stands in the report.
pub fn run(plan: &Plan, program: &Path) -> Result<Report, String> {
    let scratch = Scratch::new();
    let folder = std::env::temp_dir().join(format!("polder-crash-{}-{}", std::process::id(), plan.seed));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut stage = Stage {
        program: program.into(),
        folder: folder.clone(),
        segment: scratch.options.segment.clone(),
        stall_ms_max: plan.stall_ms_max,
        cast: vec![],
    };
    let mut random = Random::new(plan.seed);
    let mut report = Report::default();
    for id in 0..plan.actors {
        stage.enter(id, random.bits())?;
    }
    while report.kills < plan.kills {
        std::thread::sleep(Duration::from_millis(1 + random.below(plan.pause_ms_max) as u64));
        report.failures.extend(stage.complaints());
        if !report.failures.is_empty() {
            break;
        }
        let victim = random.below(stage.cast.len());
        stage.kill(victim, random.bits())?;
        report.kills += 1;
    }
    report.failures.extend(stage.exit());
    let errors = std::fs::read_to_string(folder.join(ERRORS)).unwrap_or_default();
    report.failures.extend(errors.lines().take(2).map(|line| format!("an actor panicked: {line}")));
    report.acknowledged =
        judge::journals(&scratch.options.segment, &folder, plan.actors, &mut report.failures)?;
    report.failures.extend(super::points::verify(&scratch.embedder));
    if report.failures.is_empty() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    } else {
        report.failures.push(format!("the journals are in {}", folder.display()));
    }
    Ok(report)
}

/// The actors at work.
struct Stage {
    program: PathBuf,
    folder: PathBuf,
    segment: String,
    stall_ms_max: u64,
    cast: Vec<(u32, Child)>,
}

impl Stage {
    fn enter(&mut self, id: u32, seed: u64) -> Result<(), String> {
        let child = self.spawn(id, seed)?;
        self.cast.push((id, child));
        Ok(())
    }

    fn spawn(&self, id: u32, seed: u64) -> Result<Child, String> {
        Command::new(&self.program)
            .arg(&self.segment)
            .arg(&self.folder)
            .args([id.to_string(), self.stall_ms_max.to_string(), seed.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(self.errors()?)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))
    }

    /// Where all actors' panics go: the driver may kill one before it notices that it was dying anyway.
    fn errors(&self) -> Result<File, String> {
        let path = self.folder.join(ERRORS);
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Kills one actor and starts a successor in its place.
    fn kill(&mut self, victim: usize, seed: u64) -> Result<(), String> {
        let id = self.cast[victim].0;
        end(&mut self.cast[victim].1);
        self.cast[victim].1 = self.spawn(id, seed)?;
        Ok(())
    }

    /// What actors that ended by themselves reported; none should. They are removed from the cast.
    fn complaints(&mut self) -> Vec<String> {
        let mut complaints = Vec::new();
        self.cast.retain_mut(|(id, child)| {
            let ended = child.try_wait().is_ok_and(|status| status.is_some());
            if ended {
                complaints.push(format!("actor {id}: {}", last_words(child)));
            }
            !ended
        });
        complaints
    }

    /// Ends all actors, each between two steps, and waits for them.
    fn exit(&mut self) -> Vec<String> {
        let mut complaints = self.complaints();
        for (_, child) in &mut self.cast {
            drop(child.stdin.take());
        }
        for (id, child) in &mut self.cast {
            let asked = Instant::now();
            while child.try_wait().is_ok_and(|status| status.is_none())
                && asked.elapsed() < Duration::from_secs(10)
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            if child.try_wait().is_ok_and(|status| status.is_none()) {
                complaints.push(format!("actor {id} hangs"));
            }
            end(child);
        }
        complaints
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for (_, child) in &mut self.cast {
            end(child);
        }
    }
}

fn end(child: &mut Child) {
    // Both fail only when it is gone already.
    let _ = child.kill();
    let _ = child.wait();
}

fn last_words(child: &mut Child) -> String {
    let said = child.stdout.take().map(BufReader::new);
    let lines: Vec<String> =
        said.into_iter().flat_map(|reader| reader.lines().map_while(Result::ok)).collect();
    if lines.is_empty() { format!("ended by itself: {:?}", child.try_wait()) } else { lines.join("; ") }
}
