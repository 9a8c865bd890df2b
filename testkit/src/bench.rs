//! Measurements as ratios against peers in one run, so that a figure means the same on another machine.
//!
//! ```text
//!  core 0: the server that is measured        core 1: redis-benchmark          rounds alternate between servers,
//!  core 0 (and 1): threads in this process    which keep nothing from before   medians are compared
//! ```
//! Every run appends one line to bench/history.jsonl: what, when, which commit, which machine, the figures.
pub mod cache;
pub mod calls;
pub mod change_log;
pub mod contention;
pub mod doors;
pub mod flood;
pub mod floor;
pub mod history;
pub mod in_process;
pub mod in_process_types;
pub mod latency;
pub mod memory;
pub mod messages;
pub mod mix;
pub mod network;
pub mod page;
pub mod plot;
pub mod probe;
pub mod protocols;
pub mod saving;
pub mod types;

use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

/// One measurement by name.
pub struct Bench {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&Scale) -> Result<Figures, String>,
}

/// Every measurement.
pub const BENCHES: &[Bench] = &[
    Bench { name: "p128", about: "throughput at pipeline 128 against the peers", run: network::pipeline_128 },
    Bench { name: "p16", about: "server CPU time per operation at pipeline 16", run: network::pipeline_16 },
    Bench {
        name: "p1",
        about: "server CPU time per operation at pipeline 1, and of a bare epoll loop",
        run: network::pipeline_1,
    },
    Bench {
        name: "throughput",
        about: "GET, SET, INCR, LPUSH and ZADD a second at pipeline 1, 16 and 128",
        run: network::throughput,
    },
    Bench {
        name: "latency",
        about: "how long one GET and one SET take in this process and over a Unix socket",
        run: latency::latency,
    },
    Bench {
        name: "types",
        about: "redis-benchmark's tests of collections at pipeline 128",
        run: types::defaults,
    },
    Bench {
        name: "large",
        about: "server CPU time a call on collections of a million members, and their bytes an element",
        run: types::large,
    },
    Bench {
        name: "calls",
        about: "server CPU time of XADD, scripts, EXEC, groups and PUBLISH",
        run: calls::calls,
    },
    Bench {
        name: "cache",
        about: "server CPU time of SET EX, of GET with a TTL, under LFU and with keyspace events",
        run: cache::cache,
    },
    Bench {
        name: "flood",
        about: "what a subscriber that reads all the time receives of two publishers at full speed",
        run: flood::flood,
    },
    Bench {
        name: "bgsave",
        about: "throughput, longest reply and memory while a gigabyte is saved",
        run: saving::bgsave,
    },
    Bench {
        name: "rewrite",
        about: "the same while an append-only log of a gigabyte is written anew",
        run: saving::rewrite,
    },
    Bench {
        name: "log",
        about: "what the change log costs in this process and in a server, and how fast files are loaded, against redis-server",
        run: change_log::change_log,
    },
    Bench {
        name: "inprocess",
        about: "GET and SET in this process against hashbrown",
        run: in_process::single,
    },
    Bench {
        name: "inprocess-types",
        about: "commands on one small collection in this process",
        run: in_process_types::types,
    },
    Bench {
        name: "floor",
        about: "what a lookup of two dependent memory accesses costs here at least",
        run: floor::floor,
    },
    Bench { name: "batch", about: "GET of 16 keys at once against one at a time", run: in_process::batch },
    Bench { name: "c", about: "GET and SET by the C library against Rust", run: doors::c },
    Bench {
        name: "python",
        about: "get and set by Python against redis-py over a Unix socket",
        run: doors::python,
    },
    Bench {
        name: "protocols",
        about: "server CPU time of memcached, HTTP and TLS clients against memcached, nginx, webdis and redis-server",
        run: protocols::protocols,
    },
    Bench { name: "memory", about: "bytes per key, everything counted", run: memory::per_key },
    Bench { name: "growth", about: "latency of SET while the table grows", run: in_process::growth },
    Bench { name: "attach", about: "time to attach a large segment", run: memory::attach },
    Bench {
        name: "scaling",
        about: "two processes writing different keys against one",
        run: contention::scaling,
    },
    Bench {
        name: "messages",
        about: "how long messages and elements take from process to process, and how many come through",
        run: messages::messages,
    },
    Bench {
        name: "mix",
        about: "GET and SET by 1 to 16 threads and processes, uniform and zipfian keys",
        run: mix::mix,
    },
    Bench {
        name: "threads",
        about: "servers with two threads against the peers' ways to use two cores",
        run: mix::servers,
    },
    Bench { name: "fairness", about: "threads hammering one key", run: contention::fairness },
];

/// What the README's table and the plots are made of: names, and at which part of its size each runs so that all together take less than ten
/// minutes. See `plot`.
pub const README: &[(&str, u64)] = &[
    ("throughput", 1),
    ("latency", 1),
    ("python", 10),
    ("cache", 8),
    ("calls", 8),
    ("flood", 4),
    ("attach", 10),
];

/// Figures by name, in the order they were measured.
pub type Figures = Vec<(String, f64)>;

/// How large a run is: 1 is the full size, 100 a hundredth of it.
#[derive(Clone, Copy)]
pub struct Scale {
    pub divisor: u64,
    pub rounds: usize,
    /// Servers are compared with the newest others alone, where there are such.
    pub newest: bool,
    /// Nothing is added to the history.
    pub dry: bool,
}

impl Scale {
    /// The figure for this scale of one that is `full` at full size.
    pub fn of(&self, full: u64) -> u64 {
        (full / self.divisor).max(1)
    }
}

/// The middle one.
///
/// # Panics
/// When there are none.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The median of all rounds under a name, beside it the least and the greatest.
pub fn spread(name: &str, figures: Vec<f64>) -> Figures {
    let (least, greatest) =
        figures.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), figure| {
            (least.min(*figure), greatest.max(*figure))
        });
    vec![(name.into(), median(figures)), (format!("{name} min"), least), (format!("{name} max"), greatest)]
}

/// Shows figures and appends them to the history.
///
/// # Errors
/// Those of the file.
pub fn record(name: &str, scale: &Scale, figures: &Figures) -> std::io::Result<()> {
    for (what, figure) in figures {
        println!("  {what:<44} {figure:>14.3}");
    }
    if scale.dry {
        return Ok(());
    }
    let figures: Map<String, Value> =
        figures.iter().map(|(what, figure)| (what.clone(), json!(rounded(*figure)))).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let line = json!({
        "bench": name,
        "time": said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "commit": said("git", &["-C", &root.to_string_lossy(), "describe", "--always", "--dirty"]),
        "machine": machine(),
        "divisor": scale.divisor,
        "rounds": scale.rounds,
        "figures": figures,
    });
    std::fs::create_dir_all(root.join("bench"))?;
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open(root.join("bench/history.jsonl"))?;
    writeln!(file, "{line}")
}

fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

/// CPU model and number of cores: enough to know which figures may be compared.
fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("unknown")
        .trim_matches([' ', '\t', ':']);
    format!("{model}, {} cores", cpus.lines().filter(|line| line.starts_with("processor")).count())
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default()
}
