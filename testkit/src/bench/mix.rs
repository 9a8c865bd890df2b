//! Reads and writes by many at once: threads and processes in the same memory, and servers with several threads.
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use polder_base::time::now_ms;
use polder_engine::Memory;

use super::memory::number;
use super::network::start_on;
use super::{Figures, Scale, median};
use crate::process::{Server, on_path, polder, valkey};
use crate::random::Random;
use crate::scratch::{self, Scratch};

const KEYS: u64 = 1_000_000;
const VALUE: &[u8; 16] = b"0123456789abcdef";
/// The skew of the zipfian keys, as YCSB has it.
const THETA: f64 = 0.99;
/// How long one round of one number of workers takes.
const ROUND: Duration = Duration::from_secs(1);
const WORKERS: [usize; 5] = [1, 2, 4, 8, 16];

/// What a worker does.
#[derive(Clone, Copy)]
pub struct Mix {
    pub reads_percent: u64,
    /// Zipfian keys; otherwise uniform ones.
    pub skewed: bool,
}

/// Draws key numbers: uniform, or zipfian by rejection-free inversion (Gray et al., "Quickly generating billion-record synthetic
/// databases", SIGMOD 1994), with the hot keys spread over the memory.
struct Draw {
    random: Random,
    zipf: Option<Zipf>,
}

struct Zipf {
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(keys: u64) -> Zipf {
        let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        let whole = zeta(keys);
        let eta = (1.0 - (2.0 / keys as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / whole);
        Zipf { zeta: whole, alpha: 1.0 / (1.0 - THETA), eta }
    }

    fn rank(&self, uniform: f64, keys: u64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        ((keys as f64 * (self.eta * uniform - self.eta + 1.0).powf(self.alpha)) as u64).min(keys - 1)
    }
}

impl Draw {
    fn new(seed: u64, skewed: bool) -> Draw {
        Draw { random: Random::new(seed), zipf: skewed.then(|| Zipf::new(KEYS)) }
    }

    fn next(&mut self) -> u64 {
        match &self.zipf {
            None => self.random.below(KEYS as usize) as u64,
            Some(zipf) => {
                let uniform = (self.random.bits() >> 11) as f64 / (1u64 << 53) as f64;
                // An odd factor permutes: neighbours in rank are strangers as keys.
                zipf.rank(uniform, KEYS).wrapping_mul(0x9e37_79b1) % KEYS
            }
        }
    }
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Operations a second of one worker, which draws keys until all are to begin.
///
/// # Errors
/// When a call is refused.
pub fn worker(memory: &Memory, mix: Mix, begin_ms: u64, seed: u64) -> Result<f64, String> {
    /// Keys that are drawn beforehand; every pass over them asks for others to be written.
    const DRAWN: usize = 1 << 20;
    let db = memory.database(0);
    let mut draw = Draw::new(seed, mix.skewed);
    let keys: Vec<[u8; 16]> = (0..DRAWN).map(|_| key(draw.next())).collect();
    let mut random = Random::new(seed);
    std::thread::sleep(Duration::from_millis(begin_ms.saturating_sub(now_ms())));
    let start = Instant::now();
    let mut done = 0u64;
    'time: loop {
        for some in keys.chunks(256) {
            for key in some {
                if random.bits() % 100 < mix.reads_percent {
                    db.read(key, |value| std::hint::black_box(value.map(<[u8]>::len)))
                        .map(drop)
                        .map_err(|stop| stop.to_string())?;
                } else {
                    db.set(key, VALUE).map_err(|stop| stop.to_string())?;
                }
            }
            done += some.len() as u64;
            if start.elapsed() >= ROUND {
                break 'time;
            }
        }
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

/// Rates of 1 to 16 threads and processes, and what each is of that many times one.
///
/// # Errors
/// When a worker fails.
pub fn mix(scale: &Scale) -> Result<Figures, String> {
    let scratch = Scratch::with_ceiling(1 << 30);
    let memory = &scratch.embedder.memory;
    (0..KEYS).try_for_each(|at| memory.database(0).set(key(at), VALUE).map_err(|stop| stop.to_string()))?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut figures = Figures::new();
    for (skew, skewed) in [("uniform", false), ("zipfian", true)] {
        for reads_percent in [90, 50] {
            let mix = Mix { reads_percent, skewed };
            for processes in [false, true] {
                let kind = if processes { "processes" } else { "threads" };
                let mut alone = 0.0;
                for workers in WORKERS.into_iter().filter(|workers| *workers <= 2 * cores) {
                    let run = || {
                        if processes {
                            by_processes(&scratch.options.segment, mix, workers)
                        } else {
                            by_threads(memory, mix, workers)
                        }
                    };
                    let rate = median((0..scale.rounds).map(|_| run()).collect::<Result<_, _>>()?);
                    if workers == 1 {
                        alone = rate;
                    }
                    let name = format!("{skew} {reads_percent}/{} {workers} {kind}", 100 - reads_percent);
                    figures.push((format!("{name}, M/s"), rate / 1e6));
                    figures.push((format!("{name}, of linear"), rate / alone / workers.min(cores) as f64));
                }
            }
        }
    }
    Ok(figures)
}

/// When this many workers will have drawn their keys.
fn begin_ms(workers: usize) -> u64 {
    now_ms() + 300 + 150 * workers as u64
}

fn by_threads(memory: &Memory, mix: Mix, workers: usize) -> Result<f64, String> {
    std::thread::scope(|scope| {
        let begin_ms = begin_ms(workers);
        let run = |seed| move || worker(memory, mix, begin_ms, seed);
        let threads: Vec<_> = (0..workers).map(|seed| scope.spawn(run(seed as u64))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a worker panicked".to_string())?).sum()
    })
}

fn by_processes(segment: &str, mix: Mix, workers: usize) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let skew = if mix.skewed { "zipfian" } else { "uniform" };
    let begin_ms = begin_ms(workers).to_string();
    let start = |seed: usize| {
        let mut command = Command::new(&program);
        command.args([
            "probe",
            "mix",
            segment,
            &mix.reads_percent.to_string(),
            skew,
            &begin_ms,
            &seed.to_string(),
        ]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())
    };
    let children = (0..workers).map(start).collect::<Result<Vec<_>, _>>()?;
    let outputs =
        children.into_iter().map(|child| child.wait_with_output().map_err(|error| error.to_string()));
    outputs.map(|output| number(&output?)).sum()
}

/// GET and SET a second of servers that may use two cores, through pipelines of 16: Polder with two
/// threads, one redis-server, two of them with half of the load each, and valkey-server with two
/// I/O threads. If there are fewer than four cores, the load generators share them.
///
/// # Errors
/// When a server or redis-benchmark fails.
pub fn servers(scale: &Scale) -> Result<Figures, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let asking = if cores >= 4 { format!("2-{}", cores - 1) } else { "0-1".into() };
    let peer = ["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let redis = on_path("redis-server").ok_or("redis-server is not installed")?;
    let two = |program: &Path, flags: &[&str]| {
        start_on("0-1", program, flags).map_err(|error| format!("{}: {error}", program.display()))
    };
    let ours = || {
        two(&polder(), &["serve", "--port", "{port}", "--threads", "2", "--segment", &scratch::fresh_name()])
    };
    let valkey = valkey();
    let mut runs: Vec<(&str, Starts<'_>)> = vec![
        ("polder, 2 threads", Box::new(|| Ok(vec![ours()?]))),
        ("redis", Box::new(|| Ok(vec![two(&redis, &peer)?]))),
        ("two redis", Box::new(|| Ok(vec![two(&redis, &peer)?, two(&redis, &peer)?]))),
    ];
    if let Some(valkey) = &valkey {
        let flags = [&peer[..], &["--io-threads", "2"]].concat();
        runs.push(("valkey, 2 I/O threads", Box::new(move || Ok(vec![two(valkey, &flags)?]))));
    }
    let mut figures = Figures::new();
    let mut rates = vec![[vec![], vec![]]; runs.len()];
    for _ in 0..scale.rounds {
        for ((_, start), rates) in runs.iter().zip(&mut rates) {
            let servers = start()?;
            for (test, rates) in ["set", "get"].into_iter().zip(rates) {
                rates.push(asked(&servers, &asking, test, scale.of(2_000_000))?);
            }
        }
    }
    for (at, test) in ["SET", "GET"].into_iter().enumerate() {
        let medians: Vec<f64> = rates.iter().map(|rates| median(rates[at].clone())).collect();
        figures.extend(
            runs.iter().zip(&medians).map(|((name, _), rate)| (format!("{test} {name}, k/s"), rate / 1e3)),
        );
        figures.extend(
            runs.iter()
                .zip(&medians)
                .skip(1)
                .map(|((name, _), rate)| (format!("{test} polder / {name}"), medians[0] / rate)),
        );
    }
    Ok(figures)
}

/// Starts the servers of one competitor.
type Starts<'s> = Box<dyn Fn() -> Result<Vec<Server>, String> + 's>;

/// Requests a second that servers serve together, each loaded by a generator of its own with two
/// threads.
fn asked(servers: &[Server], cores: &str, test: &str, requests: u64) -> Result<f64, String> {
    let share = requests / servers.len() as u64;
    let ask = |server: &Server| {
        let words = format!(
            "-c {cores} redis-benchmark -p {} -c 50 --threads 2 -P 16 -r 1000000 -d 16 -n {share} --csv -t {test}",
            server.port()
        );
        let child = Command::new("taskset")
            .args(words.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        child.map_err(|error| format!("taskset: {error}"))
    };
    let children = servers.iter().map(ask).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    for child in children {
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("redis-benchmark: {}", String::from_utf8_lossy(&output.stdout)));
        }
    }
    Ok(requests as f64 / start.elapsed().as_secs_f64())
}
