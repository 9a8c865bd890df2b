//! Runs the layers of checks one after another, lets their output through, and adds up what they report.
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
}

impl Tally {
    /// Runs cargo as one layer.
    pub fn cargo(&mut self, layer: &str, args: &[&str]) {
        self.run(layer, cargo(args));
    }

    /// Runs cargo as the first half of a layer: only its failure counts.
    pub fn cargo_quietly(&mut self, layer: &str, args: &[&str]) -> bool {
        let succeeded = cargo(args).status().is_ok_and(|status| status.success());
        if !succeeded {
            self.failed += 1;
            self.failed_layers.push(layer.into());
        }
        succeeded
    }

    /// Runs a command as one layer. Lines that count (`12 passed, 1 failed` or cargo's `test result:`) are added up;
    /// a command that counts nothing counts as one.
    pub fn run(&mut self, layer: &str, mut command: Command) {
        println!("== {layer}");
        let started = Instant::now();
        let (before_passed, before_failed) = (self.passed, self.failed);
        let succeeded = match command.stdout(Stdio::piped()).spawn() {
            Ok(mut child) => {
                for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
                    self.count(&line);
                    println!("{line}");
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
        }
        println!("== {layer}: {}, {:.1} s", if succeeded { "ok" } else { "FAILED" }, started.elapsed().as_secs_f64());
    }

    /// Counts one rule of ours: no findings is a pass.
    pub fn rule(&mut self, layer: &str, findings: Result<Vec<String>, String>) {
        let findings = findings.unwrap_or_else(|error| vec![error]);
        for finding in &findings {
            println!("{layer}: {finding}");
        }
        if findings.is_empty() {
            self.passed += 1;
            println!("== {layer}: ok");
        } else {
            self.failed += findings.len() as u64;
            self.failed_layers.push(layer.into());
            println!("== {layer}: FAILED");
        }
    }

    /// The closing line and the exit status.
    pub fn close(self) -> ExitCode {
        if !self.failed_layers.is_empty() {
            println!("failed: {}", self.failed_layers.join(", "));
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

/// How long a layer may take, a first build included: what hangs is a failure that names its layer.
const LAYER_SECONDS_MAX: &str = "2400";

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.arg(LAYER_SECONDS_MAX).arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).args(args);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_count_are_added_up() {
        let mut tally = Tally::default();
        for line in ["test result: ok. 5 passed; 1 failed; 0 ignored", "transcripts: 7 passed, 2 failed", "nothing", "test a ... ok"] {
            tally.count(line);
        }
        assert_eq!((tally.passed, tally.failed), (12, 3));
    }
}
