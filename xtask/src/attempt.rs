//! The runner of test programs: a test that fails runs once more, alone.
//!
//! ```text
//!   cargo test -> runner `xtask attempt PROGRAM ARGUMENTS` -> PROGRAM
//!     libtest names what failed    -> each of these runs again, by itself
//!     it names nothing (a crash, a hang, a harness of its own) -> the program runs again
//!     it is silent for too long    -> limit.sh tells where its threads are, and ends it: a failure
//! ```
//! A second run that passes makes the test *flaky*: it is listed (`flaky.rs`) and counts as passed. A test that fails
//! twice fails. The lines that count are held back until this is known.
use std::io::Read;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use regex::{Captures, Regex};

use crate::flaky::Flaky;

/// The most tests of one program that run again. More failures are no accident of the clock.
const TESTS_AGAIN_MAX: usize = 10;

/// Matches the counts of a line, as libtest and the programs of testkit write them.
pub const COUNTS: &str = r"\b(\d+) passed([,;]) (\d+) failed";

/// The end of a program that hangs.
#[derive(Clone, Copy)]
pub struct Limit<'p> {
    /// The longest time without output.
    pub silence: Duration,
    /// Tells where the threads of the process are whose id it gets, and kills it with all that it has started.
    pub script: &'p str,
}

impl Limit<'_> {
    fn end(self, child: &Child) {
        let seconds = self.silence.as_secs().to_string();
        let ended = Command::new(self.script).args([&child.id().to_string(), &seconds]).status();
        if !ended.is_ok_and(|status| status.success()) {
            println!("{} did not end process {}", self.script, child.id());
        }
    }
}

/// One run of a program.
struct Run {
    succeeded: bool,
    lines: Vec<String>,
}

impl Run {
    /// Runs `command`, and prints its lines but those that count.
    fn new(command: &mut Command, limit: Limit<'_>) -> Run {
        Run::watched(command, limit, |line| {
            if !counts(line) {
                println!("{line}");
            }
        })
    }

    fn watched(command: &mut Command, limit: Limit<'_>, mut watch: impl FnMut(&str)) -> Run {
        let mut child = match command.stdout(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => {
                watch(&error.to_string());
                return Run { succeeded: false, lines: vec![error.to_string()] };
            }
        };
        let (mut lines, mut rest) = (Vec::new(), Vec::new());
        let chunks = child.stdout.take().map(chunks);
        while let Some(chunks) = &chunks {
            match chunks.recv_timeout(limit.silence) {
                Ok(chunk) => rest.extend(chunk),
                // A child that outlives the program may keep its output open.
                Err(RecvTimeoutError::Timeout) if matches!(child.try_wait(), Ok(Some(_))) => break,
                Err(RecvTimeoutError::Timeout) => limit.end(&child),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                lines.push(String::from_utf8_lossy(&rest[..end]).into_owned());
                rest.drain(..=end);
                watch(&lines[lines.len() - 1]);
            }
        }
        Run { succeeded: child.wait().is_ok_and(|status| status.success()), lines }
    }

    /// Prints the lines that count, as `edit` returns them.
    fn print_counts(&self, edit: impl Fn(&str) -> String) {
        for line in self.lines.iter().filter(|line| counts(line)) {
            println!("{}", edit(line));
        }
    }

    /// Returns the tests that libtest lists at its end as failed.
    fn failed_tests(&self) -> Vec<&str> {
        let Some(list) = self.lines.iter().rposition(|line| line == "failures:") else {
            return Vec::new();
        };
        self.lines[list + 1..].iter().map_while(|line| line.strip_prefix("    ")).collect()
    }
}

/// Returns what arrives from `out`, until its end.
fn chunks(mut out: ChildStdout) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = out.read(&mut chunk) {
            if send.send(chunk[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receive
}

/// Runs a test program, and again what failed in it.
pub fn attempt(limit: Limit<'_>, program: &str, arguments: &[&str], flaky: &Flaky) -> ExitCode {
    let first = Run::new(Command::new(program).args(arguments), limit);
    if first.succeeded {
        first.print_counts(str::to_owned);
        return ExitCode::SUCCESS;
    }
    let tests = first.failed_tests();
    let succeeded = match tests.len() {
        0 => program_again(limit, program, arguments, &first, flaky),
        1..=TESTS_AGAIN_MAX => tests_again(limit, program, &first, &tests, flaky),
        _ => {
            first.print_counts(str::to_owned);
            false
        }
    };
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a whole program again: whether it passes now.
fn program_again(limit: Limit<'_>, program: &str, arguments: &[&str], first: &Run, flaky: &Flaky) -> bool {
    let name = program_name(program);
    println!("{name} failed; it runs again");
    let second = Run::new(Command::new(program).args(arguments), limit);
    second.print_counts(str::to_owned);
    if second.succeeded {
        println!("flaky: {name}");
        flaky.add(name, &first.lines);
    }
    second.succeeded
}

/// Runs each failed test again by itself: whether all pass now.
fn tests_again(limit: Limit<'_>, program: &str, first: &Run, tests: &[&str], flaky: &Flaky) -> bool {
    let mut passed = 0;
    for &test in tests {
        let mut command = Command::new(program);
        command.args([test, "--exact", "--include-ignored", "--test-threads=1"]);
        let second = Run::watched(&mut command, limit, |_| {});
        let name = format!("{}: {test}", program_name(program));
        // A filter that meets no test passes, too.
        if second.succeeded && second.lines.iter().any(|line| line.contains(" 1 passed")) {
            println!("flaky: {name} (failed, and passed by itself)");
            flaky.add(&name, &first.lines);
            passed += 1;
        } else {
            println!("{name} failed again by itself:");
            second.lines.iter().for_each(|line| println!("{line}"));
        }
    }
    first.print_counts(|line| corrected(line, passed));
    passed == tests.len()
}

/// Returns a counting line after `passed` of its failures have passed.
fn corrected(line: &str, passed: usize) -> String {
    let Ok(counts) = Regex::new(COUNTS) else {
        return line.into();
    };
    let number = |found: &Captures, at: usize| found[at].parse::<usize>().unwrap_or(0);
    let line = counts.replace(line, |found: &Captures| {
        let failed = number(found, 3).saturating_sub(passed);
        format!("{} passed{} {failed} failed", number(found, 1) + passed, &found[2])
    });
    if line.contains(" 0 failed") { line.replace("FAILED.", "ok.") } else { line.into_owned() }
}

fn counts(line: &str) -> bool {
    Regex::new(COUNTS).is_ok_and(|counts| counts.is_match(line))
}

/// Returns the name of a test program without its folder and cargo's hash.
fn program_name(program: &str) -> &str {
    let name = program.rsplit('/').next().unwrap_or(program);
    name.rsplit_once('-').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::{Path, PathBuf};

    use super::*;

    /// A folder with a shell program that plays a test program, and the list of what was flaky.
    struct Stage {
        folder: PathBuf,
    }

    /// Has another process write a shell program: a child that another test starts in this one holds its files for a
    /// moment, and one that is open for writing cannot be run.
    fn write(path: &Path, script: &str) {
        let mut install = std::process::Command::new("install");
        install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(std::process::Stdio::piped());
        let mut install = install.spawn().unwrap();
        let text = format!("#!/bin/sh\n{script}");
        install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(install.wait().unwrap().success());
    }

    impl Stage {
        fn new(name: &str, script: &str) -> Stage {
            let folder = std::env::temp_dir().join(format!("polder-attempt-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            write(&folder.join("program-1a2b"), &format!("cd {}\n{script}", folder.display()));
            write(&folder.join("limit"), "kill -KILL $1");
            Stage { folder }
        }

        /// Runs the program, which may be silent for a minute.
        fn run(&self) -> (bool, Vec<String>) {
            self.run_within(Duration::from_secs(60))
        }

        fn run_within(&self, silence: Duration) -> (bool, Vec<String>) {
            let flaky = Flaky::new(&self.folder);
            let (program, script) = (self.folder.join("program-1a2b"), self.folder.join("limit"));
            let limit = Limit { silence, script: script.to_str().unwrap() };
            let code = attempt(limit, program.to_str().unwrap(), &[], &flaky);
            (code == ExitCode::SUCCESS, flaky.names())
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.folder);
        }
    }

    /// Two tests fail in the first run; `$1` names the one that runs again.
    const TWO_FAIL: &str = r#"
        if [ -z "$1" ]; then
            printf 'failures:\n    a\n    b\n\ntest result: FAILED. 5 passed; 2 failed; 0 ignored\n'
            exit 101
        fi
    "#;

    #[test]
    fn tests_that_pass_by_themselves_are_flaky() {
        let passes = "echo 'test result: ok. 1 passed; 0 failed'";
        let stage = Stage::new("flaky", &format!("{TWO_FAIL}{passes}"));
        assert_eq!(stage.run(), (true, vec!["program: a".into(), "program: b".into()]));
    }

    #[test]
    fn a_test_that_fails_twice_fails() {
        let fails = "[ $1 = a ] && echo 'test result: ok. 1 passed; 0 failed'";
        let stage = Stage::new("twice", &format!("{TWO_FAIL}{fails}"));
        assert_eq!(stage.run(), (false, vec!["program: a".into()]));
    }

    #[test]
    fn a_second_run_that_meets_no_test_does_not_pass() {
        let nothing = "echo 'test result: ok. 0 passed; 0 failed; 7 filtered out'";
        let stage = Stage::new("nothing", &format!("{TWO_FAIL}{nothing}"));
        assert_eq!(stage.run(), (false, Vec::new()));
    }

    #[test]
    fn a_program_that_names_no_test_runs_again_as_a_whole() {
        let stage = Stage::new("whole", "[ -e ran ] && exit 0; touch ran; kill -ABRT $$");
        assert_eq!(stage.run(), (true, vec!["program".into()]));
        let stage = Stage::new("crash", "kill -ABRT $$");
        assert_eq!(stage.run(), (false, Vec::new()));
    }

    #[test]
    fn a_program_that_is_silent_is_ended_and_runs_again() {
        let stage = Stage::new("silent", "[ -e ran ] && exit 0; touch ran; echo a line; exec sleep 1000");
        assert_eq!(stage.run_within(Duration::from_secs(10)), (true, vec!["program".into()]));
    }

    #[test]
    fn counts_are_corrected_by_what_has_passed() {
        for (line, passed, expected) in [
            (
                "test result: FAILED. 5 passed; 2 failed; 0 ignored",
                2,
                "test result: ok. 7 passed; 0 failed; 0 ignored",
            ),
            ("test result: FAILED. 5 passed; 2 failed", 1, "test result: FAILED. 6 passed; 1 failed"),
            ("peers: 3 passed, 1 failed", 0, "peers: 3 passed, 1 failed"),
        ] {
            assert_eq!(corrected(line, passed), expected);
        }
    }
}
