//! Servers under redis-benchmark: throughput, and the CPU time that an operation costs the server.
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Figures, Scale, median};
use crate::process::{Server, on_path, polder, valkey};
use crate::scratch;

/// What is measured in turn on one server: its name in the report, and redis-benchmark's arguments for it.
pub(super) struct Test {
    pub name: &'static str,
    pub words: String,
    pub requests: u64,
}

/// One server to be measured.
pub(super) struct Rival {
    pub name: &'static str,
    pub start: Box<dyn Fn() -> std::io::Result<Server>>,
}

/// Strings under many keys. The first run of a writer adds the keys, the second finds them there.
fn strings(scale: &Scale, pipeline: u32, requests: u64, tests: &[(&'static str, &str)]) -> Vec<Test> {
    strings_of(16, scale, pipeline, requests, tests)
}

/// The same of so many bytes.
fn strings_of(bytes: u32, scale: &Scale, pipeline: u32, requests: u64, tests: &[(&'static str, &str)]) -> Vec<Test> {
    let keys = scale.of(1_000_000);
    let test =
        |(name, test): &(&'static str, &str)| Test { name, words: format!("-t {test} -P {pipeline} -r {keys} -d {bytes}"), requests };
    tests.iter().map(test).collect()
}

const TESTS: [(&str, &str); 5] =
    [("SET of new keys", "set"), ("SET", "set"), ("GET", "get"), ("INCR of new keys", "incr"), ("INCR", "incr")];

/// Throughput at pipeline 128, in operations a second, and ratios to redis-server.
///
/// # Errors
/// When a server or redis-benchmark fails.
pub fn pipeline_128(scale: &Scale) -> Result<Figures, String> {
    let measured = measure(&rivals()?, scale, &strings(scale, 128, scale.of(4_000_000), &TESTS))?;
    Ok(report(&measured, "ops/s", |run| run.per_second))
}

/// CPU time at pipeline 16, in nanoseconds an operation, and ratios to redis-server.
///
/// # Errors
/// As above.
pub fn pipeline_16(scale: &Scale) -> Result<Figures, String> {
    let requests = scale.of(2_000_000);
    let mut tests = strings(scale, 16, requests, &TESTS);
    // No longer with their keys, but in nodes of their own.
    let longer = [("SET of 100 bytes in place of 16", "set"), ("SET of 100 bytes", "set"), ("GET of 100 bytes", "get")];
    tests.extend(strings_of(100, scale, 16, requests, &longer));
    let measured = measure(&rivals()?, scale, &tests)?;
    Ok(report(&measured, "cpu ns", |run| run.cpu_ns))
}

/// CPU time without pipelining, beside a loop that does nothing but answer.
///
/// # Errors
/// As above.
pub fn pipeline_1(scale: &Scale) -> Result<Figures, String> {
    let mut rivals = rivals()?;
    rivals.push(Rival { name: "bare", start: Box::new(bare) });
    let measured = measure(&rivals, scale, &strings(scale, 1, scale.of(300_000), &[("SET", "set"), ("GET", "get")]))?;
    Ok(report(&measured, "cpu ns", |run| run.cpu_ns))
}

/// A loop that does nothing but answer.
pub(super) fn bare() -> std::io::Result<Server> {
    start_pinned(&std::env::current_exe()?.with_file_name("bare_loop"), &["{port}"])
}

/// Polder, and the servers it is compared with.
pub(super) fn rivals() -> Result<Vec<Rival>, String> {
    let redis = on_path("redis-server").ok_or("redis-server is not installed")?;
    let mut rivals = vec![
        Rival {
            name: "polder",
            start: Box::new(move || {
                let segment = scratch::fresh_name();
                start_pinned(&polder(), &["serve", "--port", "{port}", "--threads", "1", "--segment", &segment])
            }),
        },
        Rival { name: "redis", start: Box::new(move || start_peer(&redis)) },
    ];
    if let Some(program) = valkey() {
        rivals.push(Rival { name: "valkey", start: Box::new(move || start_peer(&program)) });
    }
    Ok(rivals)
}

fn start_peer(program: &Path) -> std::io::Result<Server> {
    start_pinned(program, &["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
}

/// Starts a server on core 0.
pub(super) fn start_pinned(program: &Path, flags: &[&str]) -> std::io::Result<Server> {
    start_on("0", program, flags)
}

/// Starts a server on some cores. `taskset` becomes the server, so that the process is the one we hold.
pub(super) fn start_on(cores: &str, program: &Path, flags: &[&str]) -> std::io::Result<Server> {
    let program = program.to_string_lossy();
    let mut words = vec!["-c", cores, &*program];
    words.extend(flags);
    Server::start(&PathBuf::from("taskset"), &words)
}

/// One run of one test.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub per_second: f64,
    pub cpu_ns: f64,
}

/// For each rival and test, the runs of all rounds.
pub(super) struct Measured {
    tests: Vec<&'static str>,
    rivals: Vec<(&'static str, Vec<Vec<Run>>)>,
}

/// Runs all tests on each rival in turn, round after round, each round with fresh servers.
pub(super) fn measure(rivals: &[Rival], scale: &Scale, tests: &[Test]) -> Result<Measured, String> {
    let mut measured: Vec<(&'static str, Vec<Vec<Run>>)> = rivals.iter().map(|rival| (rival.name, vec![vec![]; tests.len()])).collect();
    for _ in 0..scale.rounds {
        for (at, rival) in rivals.iter().enumerate() {
            let server = (rival.start)().map_err(|error| format!("{}: {error}", rival.name))?;
            for (number, test) in tests.iter().enumerate() {
                measured[at].1[number].push(load(&server, test)?);
            }
        }
    }
    Ok(Measured { tests: tests.iter().map(|test| test.name).collect(), rivals: measured })
}

/// One run of redis-benchmark on core 1. A test that needs another one first (LRANGE) reports last.
pub(super) fn load(server: &Server, test: &Test) -> Result<Run, String> {
    let before = cpu_ns(server.pid());
    let words = format!("-c 1 redis-benchmark -p {} -c 50 -n {} --csv {}", server.port(), test.requests, test.words);
    // A blank inside of a word is written as \x01.
    let output = Command::new("taskset")
        .args(words.split(' ').map(|word| word.replace('\u{1}', " ")))
        .output()
        .map_err(|error| format!("taskset: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().rfind(|line| line.starts_with('"') && !line.starts_with("\"test\""));
    let row = row.ok_or_else(|| format!("{}: redis-benchmark: {text}{}", test.name, String::from_utf8_lossy(&output.stderr)))?;
    let per_second = row.rsplit("\",\"").nth(6).and_then(|cell| cell.trim_matches('"').parse().ok());
    let cpu = (cpu_ns(server.pid()) - before) / test.requests as f64;
    Ok(Run { per_second: per_second.ok_or_else(|| format!("redis-benchmark: {row}"))?, cpu_ns: cpu })
}

/// The CPU time of all threads of a process, in nanoseconds.
pub(super) fn cpu_ns(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |thread: std::fs::DirEntry| -> Option<f64> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    threads.filter_map(of).sum()
}

/// Medians by test and rival, and ours against each of the others.
pub(super) fn report(measured: &Measured, unit: &str, figure: fn(&Run) -> f64) -> Figures {
    let of = |rival: &str, test: usize| {
        let runs = measured.rivals.iter().find(|(name, _)| *name == rival)?;
        Some(median(runs.1[test].iter().map(figure).collect()))
    };
    let mut figures = Figures::new();
    for (at, test) in measured.tests.iter().enumerate() {
        for (name, _) in &measured.rivals {
            figures.extend(of(name, at).map(|value| (format!("{test} {name} {unit}"), value)));
        }
        for (name, _) in measured.rivals.iter().skip(1) {
            if let (Some(ours), Some(theirs)) = (of("polder", at), of(name, at)) {
                figures.push((format!("{test} polder / {name}"), ours / theirs));
            }
        }
    }
    figures
}
