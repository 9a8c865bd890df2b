//! Runs the layers of checks one after another, lets their output through, and adds up what they report.
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use regex::Regex;

/// What passed and what failed so far.
#[derive(Default)]
pub struct Tally {
    passed: u64,
    failed: u64,
    failed_layers: Vec<String>,
    /// The last lines of each layer that failed, told again at the end.
    last_words: Vec<String>,
    /// Lines that name a test which failed, or which took very long.
    findings: Vec<String>,
    times: Vec<Time>,
}

/// How many lines of a layer that failed are told again at the end, where the log of a long run is read first.
const LINES_KEPT: usize = 25;

/// What a layer took.
struct Time {
    layer: String,
    wall_s: f64,
    /// User and system time of the processes that it ran and waited for.
    cpu_s: f64,
}

impl Tally {
    /// Runs cargo as one layer.
    pub fn cargo(&mut self, layer: &str, args: &[&str]) {
        self.run(layer, cargo(args));
    }

    /// Runs test programs as one layer. A program that hangs is stopped and fails, and the others still run.
    pub fn tests(&mut self, layer: &str, args: &[&str]) {
        let runner = concat!("target.'cfg(all())'.runner='", env!("CARGO_MANIFEST_DIR"), "/limit.sh'");
        self.run(layer, cargo(&[&args[..1], &["--config", runner], &args[1..]].concat()));
    }

    /// Runs cargo to build what later layers run: whether it succeeded. Only a failure counts.
    pub fn build(&mut self, layer: &str, args: &[&str]) -> bool {
        let clock = Clock::start();
        let succeeded = cargo(args).stdout(Stdio::null()).status().is_ok_and(|status| status.success());
        if !succeeded {
            self.fail(layer);
        }
        self.end(layer, succeeded, &clock);
        succeeded
    }

    /// Runs a command as one layer. Lines that count (`12 passed, 1 failed` or cargo's `test result:`) are added up;
    /// a command that counts nothing counts as one.
    pub fn run(&mut self, layer: &str, mut command: Command) {
        println!("== {layer}");
        let clock = Clock::start();
        let (before_passed, before_failed) = (self.passed, self.failed);
        let mut last_lines = VecDeque::with_capacity(LINES_KEPT);
        let succeeded = match command.stdout(Stdio::piped()).spawn() {
            Ok(mut child) => {
                for line in child
                    .stdout
                    .take()
                    .into_iter()
                    .flat_map(|out| BufReader::new(out).lines())
                    .map_while(Result::ok)
                {
                    self.count(&line);
                    self.note(&line);
                    println!("{line}");
                    if last_lines.len() == LINES_KEPT {
                        last_lines.pop_front();
                    }
                    last_lines.push_back(line);
                }
                child.wait().is_ok_and(|status| status.success())
            }
            Err(error) => {
                println!("{error}");
                false
            }
        };
        let counted = (self.passed, self.failed) != (before_passed, before_failed);
        match succeeded {
            true if !counted => self.passed += 1,
            false if self.failed == before_failed => self.failed += 1,
            _ => {}
        }
        if !succeeded {
            self.failed_layers.push(layer.into());
            self.last_words.extend(last_lines.iter().map(|line| format!("{layer}: {line}")));
        }
        self.end(layer, succeeded, &clock);
    }

    fn fail(&mut self, layer: &str) {
        self.failed += 1;
        self.failed_layers.push(layer.into());
    }

    fn end(&mut self, layer: &str, succeeded: bool, clock: &Clock) {
        let (wall_s, cpu_s) = clock.elapsed();
        println!("== {layer}: {}, {wall_s:.1} s", if succeeded { "ok" } else { "FAILED" });
        self.times.push(Time { layer: layer.into(), wall_s, cpu_s });
    }

    /// Counts one rule of ours: no findings is a pass.
    pub fn rule(&mut self, layer: &str, check: impl FnOnce() -> Result<Vec<String>, String>) {
        let clock = Clock::start();
        self.found(layer, check(), &clock);
    }

    /// The same of a rule that another thread has checked since `clock` was started.
    pub fn found(&mut self, layer: &str, findings: Result<Vec<String>, String>, clock: &Clock) {
        let findings = findings.unwrap_or_else(|error| vec![error]);
        for finding in &findings {
            println!("{layer}: {finding}");
        }
        if findings.is_empty() {
            self.passed += 1;
        } else {
            self.failed += findings.len() as u64;
            self.failed_layers.push(layer.into());
        }
        self.end(layer, findings.is_empty(), clock);
    }

    /// What each layer took, the closing line, and the exit status.
    pub fn close(self) -> ExitCode {
        if self.times.len() > 1 {
            println!("{:<44} {:>8} {:>8}", "layer", "wall s", "CPU s");
            let sum = |of: fn(&Time) -> f64| self.times.iter().map(of).sum();
            let all = Time {
                layer: "together".into(),
                wall_s: sum(|time| time.wall_s),
                cpu_s: sum(|time| time.cpu_s),
            };
            for Time { layer, wall_s, cpu_s } in self.times.iter().chain([&all]) {
                println!("{layer:<44} {wall_s:>8.1} {cpu_s:>8.1}");
            }
        }
        for finding in self.findings.iter().filter(|_| self.failed > 0) {
            println!("{finding}");
        }
        for line in &self.last_words {
            println!("{line}");
        }
        if !self.failed_layers.is_empty() {
            println!("failed: {}", self.failed_layers.join(", "));
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Keeps a line for the end, where it is seen: the output of all layers is long.
    fn note(&mut self, line: &str) {
        if line.ends_with("... FAILED")
            || line.contains("has been running for over")
            || line.starts_with("limit.sh: ")
        {
            self.findings.push(line.into());
        }
    }

    fn count(&mut self, line: &str) {
        let Ok(counts) = Regex::new(r"\b(\d+) passed[,;] (\d+) failed") else {
            return;
        };
        if let Some(found) = counts.captures(line) {
            self.passed += found[1].parse::<u64>().unwrap_or(0);
            self.failed += found[2].parse::<u64>().unwrap_or(0);
        }
    }
}

/// The time since a layer began.
pub struct Clock {
    began: Instant,
    cpu_s: f64,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { began: Instant::now(), cpu_s: children_cpu_s() }
    }

    /// Seconds by the clock, and of CPU time of children that have ended since.
    fn elapsed(&self) -> (f64, f64) {
        (self.began.elapsed().as_secs_f64(), children_cpu_s() - self.cpu_s)
    }
}

/// The CPU time of all children that have ended: the 16th and 17th field of proc(5)'s `stat`, in hundredths of a second on every Linux.
fn children_cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, a name in parentheses, may have blanks.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// How long a layer may take, a first build included: what hangs is a failure that names its layer.
const LAYER_SECONDS_MAX: &str = "2400";

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg(LAYER_SECONDS_MAX)
        .arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(args);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_children_is_counted() {
        let clock = Clock::start();
        assert!(
            Command::new("sh")
                .args(["-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"])
                .status()
                .unwrap()
                .success()
        );
        let (wall_s, cpu_s) = clock.elapsed();
        assert!(cpu_s > 0.0 && cpu_s <= wall_s + 0.1, "{cpu_s} of {wall_s}");
    }

    #[test]
    fn lines_that_count_are_added_up() {
        let mut tally = Tally::default();
        for line in [
            "test result: ok. 5 passed; 1 failed; 0 ignored",
            "transcripts: 7 passed, 2 failed",
            "nothing",
            "test a ... ok",
        ] {
            tally.count(line);
        }
        assert_eq!((tally.passed, tally.failed), (12, 3));
    }
}
