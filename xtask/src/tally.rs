//! Runs the layers of checks one after another, lets their output through, and adds up what they report.
//!
//! A test that fails runs once more, by itself (`attempt.rs`); so does a layer that is one program, after all others. A
//! second run that passes is listed as flaky and does not fail.
//!
//! Layers that no clock can break run beside the others ([`Beside`]). What they print is shown when each of them ends.
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use regex::Regex;

use crate::attempt::COUNTS;
use crate::flaky::Flaky;

/// What passed and what failed so far.
pub struct Tally {
    clock: Clock,
    output: Output,
    passed: u64,
    failed: u64,
    failed_layers: Vec<String>,
    /// The last lines of each layer that failed, told again at the end.
    last_words: Vec<String>,
    /// Lines that name a test which failed, or which took very long.
    findings: Vec<String>,
    times: Vec<Time>,
    /// Programs that failed, and run once more when all layers are through.
    again: Vec<Again>,
}

/// The destination of the lines of layers.
enum Output {
    Shown,
    /// The lines of the present layer, until it ends.
    Kept(Vec<String>),
}

/// Layers that run on a thread of their own.
pub struct Beside(JoinHandle<Tally>);

impl Beside {
    /// Runs `layers` beside what the caller does. Builds by [`Tally::cargo`] take one core there, so that the other one is free for tests.
    pub fn start(layers: impl FnOnce(&mut Tally) + Send + 'static) -> Beside {
        Beside(std::thread::spawn(|| {
            let mut tally = Tally { output: Output::Kept(Vec::new()), ..Tally::default() };
            layers(&mut tally);
            tally
        }))
    }
}

/// A layer that failed.
struct Again {
    layer: String,
    command: Command,
    /// The end of its output.
    lines: Vec<String>,
}

/// The outcome of one run of a layer.
struct Outcome {
    succeeded: bool,
    passed: u64,
    failed: u64,
    /// The end of its output.
    lines: Vec<String>,
}

/// How many lines of a layer that failed are told again at the end, where the log of a long run is read first.
const LINES_KEPT: usize = 25;

/// Tests of a program that run at once. They wait for servers more than they compute.
const TEST_THREADS: &str = "4";

/// What a layer took.
struct Time {
    layer: String,
    wall_s: f64,
    /// User and system time of the processes that ended meanwhile, those of layers beside it included.
    cpu_s: f64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            clock: Clock::start(),
            output: Output::Shown,
            passed: 0,
            failed: 0,
            failed_layers: Vec::new(),
            last_words: Vec::new(),
            findings: Vec::new(),
            times: Vec::new(),
            again: Vec::new(),
        }
    }
}

impl Tally {
    /// Waits for layers that ran beside these, and adds what they report.
    pub fn join(&mut self, beside: Beside) {
        let Ok(other) = beside.0.join() else { return self.fail("the layers beside the others") };
        self.passed += other.passed;
        self.failed += other.failed;
        self.failed_layers.extend(other.failed_layers);
        self.last_words.extend(other.last_words);
        self.findings.extend(other.findings);
        self.times.extend(other.times);
        self.again.extend(other.again);
    }

    /// Prints a line, or keeps it until the layer ends.
    fn say(&mut self, line: String) {
        match &mut self.output {
            Output::Shown => println!("{line}"),
            Output::Kept(lines) => lines.push(line),
        }
    }

    /// Cargo with these arguments.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = cargo(args);
        if let Output::Kept(_) = self.output {
            command.env("CARGO_BUILD_JOBS", "1");
        }
        command
    }

    /// Runs cargo as one layer.
    pub fn cargo(&mut self, layer: &str, args: &[&str]) {
        let outcome = self.stream(layer, &mut self.command(args));
        self.settle(layer, outcome);
    }

    /// Runs test programs as one layer. A test that fails runs once more by itself. A program that hangs is stopped
    /// and fails, and the others still run.
    pub fn tests(&mut self, layer: &str, args: &[&str]) {
        let Ok(xtask) = std::env::current_exe() else {
            return self.fail(layer);
        };
        let runner = format!("target.'cfg(all())'.runner=['{}', 'attempt']", xtask.display());
        let mut command = self.command(&[&args[..1], &["--config", &runner], &args[1..]].concat());
        let outcome = self.stream(layer, command.env("RUST_TEST_THREADS", TEST_THREADS));
        self.settle(layer, outcome);
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

    /// Runs a program as one layer. If it fails, it runs once more when all layers are through.
    pub fn run(&mut self, layer: &str, mut command: Command) {
        let outcome = self.stream(layer, &mut command);
        if outcome.succeeded {
            self.settle(layer, outcome);
        } else {
            self.again.push(Again { layer: layer.into(), command, lines: outcome.lines });
        }
    }

    /// Runs the layers again that have failed, each by itself.
    pub fn run_again(&mut self, flaky: &Flaky) {
        for Again { layer, mut command, lines } in std::mem::take(&mut self.again) {
            let outcome = self.stream(&format!("{layer}, once more"), &mut command);
            if outcome.succeeded {
                flaky.add(&layer, &lines);
            }
            self.settle(&layer, outcome);
        }
    }

    /// Runs a command and lets its output through. Lines that count (`12 passed, 1 failed` or cargo's `test result:`)
    /// are added up.
    fn stream(&mut self, layer: &str, command: &mut Command) -> Outcome {
        self.say(format!("== {layer}"));
        let clock = Clock::start();
        let mut outcome = Outcome { succeeded: false, passed: 0, failed: 0, lines: Vec::new() };
        let mut last_lines = VecDeque::with_capacity(LINES_KEPT);
        match command.stdout(Stdio::piped()).spawn() {
            Ok(mut child) => {
                let out = child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).split(b'\n'));
                for line in out.map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    outcome.count(&line);
                    self.note(&line);
                    self.say(line.clone());
                    if last_lines.len() == LINES_KEPT {
                        last_lines.pop_front();
                    }
                    last_lines.push_back(line);
                }
                outcome.succeeded = child.wait().is_ok_and(|status| status.success());
            }
            Err(error) => self.say(error.to_string()),
        }
        outcome.lines = last_lines.into();
        self.end(layer, outcome.succeeded, &clock);
        outcome
    }

    /// Adds a layer's outcome. A command that counts nothing counts as one.
    fn settle(&mut self, layer: &str, outcome: Outcome) {
        let Outcome { succeeded, mut passed, mut failed, lines } = outcome;
        match succeeded {
            true if passed + failed == 0 => passed = 1,
            false if failed == 0 => failed = 1,
            _ => {}
        }
        self.passed += passed;
        self.failed += failed;
        if !succeeded {
            self.failed_layers.push(layer.into());
            self.last_words.extend(lines.iter().map(|line| format!("{layer}: {line}")));
        }
    }

    fn fail(&mut self, layer: &str) {
        self.failed += 1;
        self.failed_layers.push(layer.into());
    }

    fn end(&mut self, layer: &str, succeeded: bool, clock: &Clock) {
        let (wall_s, _) = clock.elapsed();
        self.say(format!("== {layer}: {}, {wall_s:.1} s", if succeeded { "ok" } else { "FAILED" }));
        if let Output::Kept(lines) = &mut self.output {
            // One call: a line of another layer cannot come between.
            println!("{}", std::mem::take(lines).join("\n"));
        }
        self.took(layer, clock);
    }

    /// Notes how long something took that reports elsewhere.
    pub fn took(&mut self, what: &str, clock: &Clock) {
        let (wall_s, cpu_s) = clock.elapsed();
        self.times.push(Time { layer: what.into(), wall_s, cpu_s });
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
            self.say(format!("{layer}: {finding}"));
        }
        if findings.is_empty() {
            self.passed += 1;
        } else {
            self.failed += findings.len() as u64;
            self.failed_layers.push(layer.into());
        }
        self.end(layer, findings.is_empty(), clock);
    }

    /// Runs again what failed, prints what each layer took, what was flaky and the closing line, and returns the
    /// exit status.
    pub fn close(mut self, flaky: &Flaky) -> ExitCode {
        self.run_again(flaky);
        if self.times.len() > 1 {
            println!("{:<44} {:>8} {:>8}", "layer", "wall s", "CPU s");
            let (wall_s, cpu_s) = self.clock.elapsed();
            let all = Time { layer: "together".into(), wall_s, cpu_s };
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
        for name in flaky.names() {
            println!("flaky: {name}");
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
}

impl Outcome {
    fn count(&mut self, line: &str) {
        let Ok(counts) = Regex::new(COUNTS) else {
            return;
        };
        if let Some(found) = counts.captures(line) {
            self.passed += found[1].parse::<u64>().unwrap_or(0);
            self.failed += found[3].parse::<u64>().unwrap_or(0);
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
        let mut outcome = Outcome { succeeded: true, passed: 0, failed: 0, lines: Vec::new() };
        for line in [
            "test result: ok. 5 passed; 1 failed; 0 ignored",
            "transcripts: 7 passed, 2 failed",
            "nothing",
            "test a ... ok",
        ] {
            outcome.count(line);
        }
        assert_eq!((outcome.passed, outcome.failed), (12, 3));
    }

    #[test]
    fn layers_beside_the_others_are_added_up() {
        let mut tally = Tally::default();
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let (one, two) = (shell("echo '3 passed, 0 failed'"), shell("exit 1"));
        let beside = Beside::start(move |tally| {
            tally.run("one", one);
            tally.run("two", two);
            tally.rule("three", || Ok(vec!["wrong".into()]));
        });
        tally.rule("four", || Ok(Vec::new()));
        tally.join(beside);
        assert_eq!((tally.passed, tally.failed, tally.failed_layers), (4, 1, vec!["three".to_string()]));
        assert_eq!((tally.again.len(), tally.times.len()), (1, 4));
        let mut broken = Tally::default();
        broken.join(Beside::start(|_| panic!("a layer that ends the thread")));
        assert_eq!(broken.failed, 1);
    }

    #[test]
    fn a_layer_that_passes_its_second_run_is_flaky_and_no_failure() {
        let folder = std::env::temp_dir().join(format!("polder-tally-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let flaky = Flaky::new(&folder);
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(&folder);
            command
        };
        let mut tally = Tally::default();
        tally.run("once", shell("[ -e ran ] && exit 0; touch ran; echo '0 passed, 1 failed'; exit 1"));
        tally.run("twice", shell("exit 1"));
        tally.run_again(&flaky);
        std::fs::remove_file(folder.join("ran")).unwrap();
        assert_eq!(flaky.names(), ["once"]);
        assert_eq!((tally.passed, tally.failed, tally.failed_layers), (1, 1, vec!["twice".to_string()]));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
