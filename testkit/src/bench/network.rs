//! Servers under redis-benchmark: throughput, and the CPU time that an operation costs the server.
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Figures, Scale, median};
use crate::process::{Server, on_path, polder, valkey};
use crate::scratch;

/// What is measured in turn, and redis-benchmark's name for it. The first run of a writer adds the keys, the second finds them there.
type Test = (&'static str, &'static str);
const TESTS: [Test; 5] = [("SET of new keys", "SET"), ("SET", "SET"), ("GET", "GET"), ("INCR of new keys", "INCR"), ("INCR", "INCR")];

/// One server to be measured.
struct Rival {
    name: &'static str,
    start: Box<dyn Fn() -> std::io::Result<Server>>,
}

/// Throughput at pipeline 128, in operations a second, and ratios to redis-server.
///
/// # Errors
/// When a server or redis-benchmark fails.
pub fn pipeline_128(scale: &Scale) -> Result<Figures, String> {
    let measured = measure(&rivals()?, scale, 128, scale.of(4_000_000), &TESTS)?;
    Ok(report(&measured, "ops/s", |run| run.per_second))
}

/// CPU time at pipeline 16, in nanoseconds an operation, and ratios to redis-server.
///
/// # Errors
/// As above.
pub fn pipeline_16(scale: &Scale) -> Result<Figures, String> {
    let measured = measure(&rivals()?, scale, 16, scale.of(2_000_000), &TESTS)?;
    Ok(report(&measured, "cpu ns", |run| run.cpu_ns))
}

/// CPU time without pipelining, beside a loop that does nothing but answer.
///
/// # Errors
/// As above.
pub fn pipeline_1(scale: &Scale) -> Result<Figures, String> {
    let mut rivals = rivals()?;
    let bare = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("bare_loop");
    rivals.push(Rival { name: "bare", start: Box::new(move || start_pinned(&bare, &["{port}"])) });
    let measured = measure(&rivals, scale, 1, scale.of(300_000), &[("SET", "SET"), ("GET", "GET")])?;
    Ok(report(&measured, "cpu ns", |run| run.cpu_ns))
}

fn rivals() -> Result<Vec<Rival>, String> {
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

/// Starts a server on core 0. `taskset` becomes the server, so that the process is the one we hold.
fn start_pinned(program: &Path, flags: &[&str]) -> std::io::Result<Server> {
    let program = program.to_string_lossy();
    let mut words = vec!["-c", "0", &*program];
    words.extend(flags);
    Server::start(&PathBuf::from("taskset"), &words)
}

/// One run of one test.
#[derive(Clone, Copy)]
struct Run {
    per_second: f64,
    cpu_ns: f64,
}

/// For each rival and test, the runs of all rounds.
struct Measured {
    tests: Vec<Test>,
    rivals: Vec<(&'static str, Vec<Vec<Run>>)>,
}

fn measure(rivals: &[Rival], scale: &Scale, pipeline: u32, requests: u64, tests: &[Test]) -> Result<Measured, String> {
    let mut measured: Vec<(&'static str, Vec<Vec<Run>>)> = rivals.iter().map(|rival| (rival.name, vec![vec![]; tests.len()])).collect();
    for _ in 0..scale.rounds {
        for (at, rival) in rivals.iter().enumerate() {
            let server = (rival.start)().map_err(|error| format!("{}: {error}", rival.name))?;
            for (test, (_, name)) in tests.iter().enumerate() {
                measured[at].1[test].push(load(&server, name, pipeline, requests, scale)?);
            }
        }
    }
    Ok(Measured { tests: tests.to_vec(), rivals: measured })
}

fn load(server: &Server, test: &str, pipeline: u32, requests: u64, scale: &Scale) -> Result<Run, String> {
    let before = cpu_ns(server.pid());
    let keys = scale.of(1_000_000);
    let words = format!(
        "-c 1 redis-benchmark -p {} -t {} -P {pipeline} -c 50 -r {keys} -d 16 -n {requests} --csv",
        server.port(),
        test.to_lowercase()
    );
    let output = Command::new("taskset").args(words.split(' ')).output().map_err(|error| format!("taskset: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().find(|line| line.starts_with(&format!("\"{test}"))).ok_or_else(|| format!("redis-benchmark: {text}"))?;
    let per_second = row.split(',').nth(1).and_then(|cell| cell.trim_matches('"').parse().ok());
    let cpu = (cpu_ns(server.pid()) - before) / requests as f64;
    Ok(Run { per_second: per_second.ok_or_else(|| format!("redis-benchmark: {row}"))?, cpu_ns: cpu })
}

/// The CPU time of all threads of a process, in nanoseconds.
fn cpu_ns(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |thread: std::fs::DirEntry| -> Option<f64> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    threads.filter_map(of).sum()
}

fn report(measured: &Measured, unit: &str, figure: fn(&Run) -> f64) -> Figures {
    let of = |rival: &str, test: usize| {
        let runs = measured.rivals.iter().find(|(name, _)| *name == rival)?;
        Some(median(runs.1[test].iter().map(figure).collect()))
    };
    let mut figures = Figures::new();
    for (at, (test, _)) in measured.tests.iter().enumerate() {
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
