//! Servers under redis-benchmark: throughput, and the CPU time that an operation costs the server.
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Figures, Scale, median, spread};
use crate::answer::Answer;
use crate::process::{Server, more_peers, on_path, polder, valkey};
use crate::resp::Connection;
use crate::scratch;

/// What is measured in turn on one server: its name in the report (empty: it only prepares what comes after), and redis-benchmark's arguments for it.
pub(super) struct Test {
    pub name: &'static str,
    pub words: String,
    pub requests: u64,
    /// Set by CONFIG SET before, on every server.
    pub settings: &'static [(&'static str, &'static str)],
}

/// One server to be measured.
pub(super) struct Rival {
    pub name: String,
    pub start: Box<dyn Fn() -> std::io::Result<Server>>,
}

/// Strings under many keys. The first run of a writer adds the keys, the second finds them there.
fn strings(scale: &Scale, pipeline: u32, requests: u64, tests: &[(&'static str, &str)]) -> Vec<Test> {
    strings_of(16, scale, pipeline, requests, tests)
}

/// The same of this many bytes.
fn strings_of(
    bytes: u32,
    scale: &Scale,
    pipeline: u32,
    requests: u64,
    tests: &[(&'static str, &str)],
) -> Vec<Test> {
    let keys = scale.of(1_000_000);
    let test = |(name, test): &(&'static str, &str)| Test {
        name,
        words: format!("-t {test} -P {pipeline} -r {keys} -d {bytes}"),
        requests,
        settings: &[],
    };
    tests.iter().map(test).collect()
}

/// What a first look asks for: the throughput of GET, SET, INCR, LPUSH and ZADD at pipeline 1, 16 and 128 on a million random keys (elements of
/// one sorted set; one list), in operations a second.
///
/// # Errors
/// As above.
pub fn throughput(scale: &Scale) -> Result<Figures, String> {
    const PIPELINES: [(u32, u64, [&str; 5]); 3] = [
        (1, 30_000, ["SET -P 1", "GET -P 1", "INCR -P 1", "LPUSH -P 1", "ZADD -P 1"]),
        (16, 300_000, ["SET -P 16", "GET -P 16", "INCR -P 16", "LPUSH -P 16", "ZADD -P 16"]),
        (128, 1_000_000, ["SET -P 128", "GET -P 128", "INCR -P 128", "LPUSH -P 128", "ZADD -P 128"]),
    ];
    let keys = scale.of(1_000_000);
    let test = |name, test: &str, pipeline: u32, requests: u64| Test {
        name,
        words: format!("-t {test} -P {pipeline} -r {keys} -d 16"),
        requests: scale.of(requests),
        settings: &[],
    };
    // Most keys and counters are there before anything is measured: what is new costs more.
    let mut tests = vec![
        test("", "set", 128, 2_000_000),
        test("", "incr", 128, 2_000_000),
        test("", "zadd", 128, 1_000_000),
    ];
    for (pipeline, requests, names) in PIPELINES {
        let commands = ["set", "get", "incr", "lpush", "zadd"];
        tests.extend(
            names.into_iter().zip(commands).map(|(name, command)| test(name, command, pipeline, requests)),
        );
    }
    Ok(report(&measure(&rivals(scale)?, scale, &tests)?, "ops/s", |run| run.per_second))
}

const TESTS: [(&str, &str); 5] = [
    ("SET of new keys", "set"),
    ("SET", "set"),
    ("GET", "get"),
    ("INCR of new keys", "incr"),
    ("INCR", "incr"),
];

/// Throughput at pipeline 128, in operations a second, the CPU time that the server needs for one, in nanoseconds, and ratios to the other servers. Runs
/// of a second are as much the load generator's; the CPU time is the server's alone.
///
/// # Errors
/// When a server or redis-benchmark fails.
pub fn pipeline_128(scale: &Scale) -> Result<Figures, String> {
    let measured = measure(&rivals(scale)?, scale, &strings(scale, 128, scale.of(4_000_000), &TESTS))?;
    let mut figures = report(&measured, "ops/s", |run| run.per_second);
    let times = report(&measured, "cpu ns", |run| run.cpu_ns);
    figures.extend(times.into_iter().map(|(name, figure)| (format!("CPU of {name}"), figure)));
    Ok(figures)
}

/// CPU time at pipeline 16, in nanoseconds an operation, and ratios to redis-server.
///
/// # Errors
/// As above.
pub fn pipeline_16(scale: &Scale) -> Result<Figures, String> {
    let requests = scale.of(2_000_000);
    let mut tests = strings(scale, 16, requests, &TESTS);
    // No longer with their keys, but in nodes of their own.
    let longer = [
        ("SET of 100 bytes in place of 16", "set"),
        ("SET of 100 bytes", "set"),
        ("GET of 100 bytes", "get"),
    ];
    tests.extend(strings_of(100, scale, 16, requests, &longer));
    let measured = measure(&rivals(scale)?, scale, &tests)?;
    Ok(report(&measured, "cpu ns", |run| run.cpu_ns))
}

/// CPU time without pipelining, beside a loop that does nothing but answer.
///
/// # Errors
/// As above.
pub fn pipeline_1(scale: &Scale) -> Result<Figures, String> {
    let mut rivals = rivals(scale)?;
    rivals.push(Rival { name: "bare".into(), start: Box::new(bare) });
    let measured =
        measure(&rivals, scale, &strings(scale, 1, scale.of(300_000), &[("SET", "set"), ("GET", "get")]))?;
    Ok(report(&measured, "cpu ns", |run| run.cpu_ns))
}

/// A loop that does nothing but answer.
pub(super) fn bare() -> std::io::Result<Server> {
    start_pinned(&std::env::current_exe()?.with_file_name("bare_loop"), &["{port}"])
}

/// Polder, and the servers it is compared with: redis-server of this machine, Valkey of `make test`, and what else there is; or only the last.
pub(super) fn rivals(scale: &Scale) -> Result<Vec<Rival>, String> {
    rivals_with(scale, &[])
}

/// The same servers, with a few flags more that all of them know.
pub(super) fn rivals_with(scale: &Scale, flags: &[&str]) -> Result<Vec<Rival>, String> {
    let more: Vec<String> = flags.iter().map(ToString::to_string).collect();
    let start = move || {
        let segment = scratch::fresh_name();
        let mut flags = vec!["serve", "--port", "{port}", "--threads", "1", "--segment", &segment];
        flags.extend(more.iter().map(String::as_str));
        start_pinned(&polder(), &flags)
    };
    let more: Vec<String> = flags.iter().map(ToString::to_string).collect();
    let mut rivals = vec![Rival { name: "polder".into(), start: Box::new(start) }];
    let newest = more_peers();
    let mut peers = Vec::new();
    if !scale.newest || newest.is_empty() {
        peers.push(("redis".into(), on_path("redis-server").ok_or("redis-server is not installed")?));
        peers.extend(valkey().map(|program| ("valkey".into(), program)));
    }
    peers.extend(newest);
    let peer = |(name, program): (String, PathBuf)| {
        let flags = more.clone();
        Rival { name, start: Box::new(move || start_peer(&program, &flags)) }
    };
    rivals.extend(peers.into_iter().map(peer));
    Ok(rivals)
}

fn start_peer(program: &Path, more: &[String]) -> std::io::Result<Server> {
    let mut flags = vec!["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    flags.extend(more.iter().map(String::as_str));
    start_pinned(program, &flags)
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
    rivals: Vec<(String, Vec<Vec<Run>>)>,
}

/// Runs all tests on each rival in turn, round after round, each round with fresh servers.
pub(super) fn measure(rivals: &[Rival], scale: &Scale, tests: &[Test]) -> Result<Measured, String> {
    let mut measured: Vec<(String, Vec<Vec<Run>>)> =
        rivals.iter().map(|rival| (rival.name.clone(), vec![vec![]; tests.len()])).collect();
    for _ in 0..scale.rounds {
        for (at, rival) in rivals.iter().enumerate() {
            let server = (rival.start)().map_err(|error| format!("{}: {error}", rival.name))?;
            for (number, test) in tests.iter().enumerate() {
                set_all(&server, test.settings)?;
                measured[at].1[number].push(load(&server, test)?);
            }
        }
    }
    Ok(Measured { tests: tests.iter().map(|test| test.name).collect(), rivals: measured })
}

/// Changes settings of a server.
fn set_all(server: &Server, settings: &[(&str, &str)]) -> Result<(), String> {
    if settings.is_empty() {
        return Ok(());
    }
    let mut connection = Connection::open(&server.address()).map_err(|error| error.to_string())?;
    for (name, value) in settings {
        match connection.call(&["CONFIG", "SET", name, value]).map_err(|error| error.to_string())? {
            Answer::Error(text) => return Err(format!("CONFIG SET {name} {value}: {text}")),
            _ => continue,
        }
    }
    Ok(())
}

/// One run of redis-benchmark on core 1. A test that needs another one first (LRANGE) reports last.
pub(super) fn load(server: &Server, test: &Test) -> Result<Run, String> {
    let before = cpu_ns(server.pid());
    let words =
        format!("-c 1 redis-benchmark -p {} -c 50 -n {} --csv {}", server.port(), test.requests, test.words);
    // A blank inside of a word is written as \x01.
    let output = Command::new("taskset")
        .args(words.split(' ').map(|word| word.replace('\u{1}', " ")))
        .output()
        .map_err(|error| format!("taskset: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().rfind(|line| line.starts_with('"') && !line.starts_with("\"test\""));
    let row = row.ok_or_else(|| {
        format!("{}: redis-benchmark: {text}{}", test.name, String::from_utf8_lossy(&output.stderr))
    })?;
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

/// By test and rival the median, the least and the greatest of all rounds, and our median against each of the others.
pub(super) fn report(measured: &Measured, unit: &str, figure: fn(&Run) -> f64) -> Figures {
    let of = |rival: usize, test: usize| -> Vec<f64> {
        measured.rivals[rival].1[test].iter().map(figure).collect()
    };
    let mut figures = Figures::new();
    // What has no name has only prepared something.
    for (at, test) in measured.tests.iter().enumerate().filter(|(_, test)| !test.is_empty()) {
        for (rival, (name, _)) in measured.rivals.iter().enumerate() {
            figures.extend(spread(&format!("{test} {name} {unit}"), of(rival, at)));
        }
        for (rival, (name, _)) in measured.rivals.iter().enumerate().skip(1) {
            figures.push((format!("{test} polder / {name}"), median(of(0, at)) / median(of(rival, at))));
        }
    }
    figures
}
