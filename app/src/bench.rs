//! `polder bench`: how fast the memory is, in this process or through a server.
//!
//! ```text
//!   keys.rs      which keys, uniform or Zipf, worked out beforehand
//!   local.rs     in-process: threads or processes on one segment
//!   network.rs   RESP: connections, pipelines, threads; redis-benchmark's operations
//!   report.rs    throughput and latency, as a table or JSON
//! ```
mod keys;
mod local;
mod network;
mod report;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::text::{self, Failed};

/// Measures throughput and latency, in this process (--segment) or through a server.
#[derive(Args, Debug, Clone)]
#[command(disable_help_flag = true, args_override_self = true)]
pub struct Arguments {
    /// Measure in-process on this segment; it is made when it is not there.
    #[arg(long, value_name = "NAME")]
    pub segment: Option<String>,
    #[command(flatten)]
    pub whose: text::Whose,
    /// Server's host name [default: 127.0.0.1].
    #[arg(short = 'h', value_name = "HOST", conflicts_with = "segment")]
    pub host: Option<String>,
    /// Server's port [default: 6379].
    #[arg(short, value_name = "PORT", conflicts_with = "segment")]
    pub port: Option<u16>,
    /// Server's Unix socket.
    #[arg(short, value_name = "PATH", conflicts_with_all = ["segment", "host", "port"])]
    pub socket: Option<String>,
    /// Password for the server.
    #[arg(short = 'a', value_name = "PASSWORD", conflicts_with = "segment")]
    pub password: Option<String>,
    /// Operations, with commas: get, set, incr, mixed in-process; all of redis-benchmark's through a server.
    #[arg(short = 't', long = "op", alias = "tests", value_name = "OPS", default_value = "set,get")]
    pub op: String,
    /// Different keys.
    #[arg(short = 'r', long, value_name = "KEYS", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=999_999_999_999))]
    pub keys: u64,
    /// Bytes of a value.
    #[arg(short = 'd', long, value_name = "BYTES", default_value_t = 16)]
    pub value_size: usize,
    /// Calls of each operation [default: 1000000].
    #[arg(short = 'n', long, value_name = "CALLS", conflicts_with = "seconds")]
    pub requests: Option<u64>,
    /// Run each operation for so long, in place of a number of calls.
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Threads (in each process).
    #[arg(long, value_name = "THREADS", default_value_t = 1)]
    pub threads: u32,
    /// Processes that work at once, in-process only.
    #[arg(long, value_name = "PROCESSES", default_value_t = 1, requires = "segment")]
    pub processes: u32,
    /// Pick keys by a Zipf distribution of this exponent, between 0 and 1, in place of all alike.
    #[arg(long, value_name = "THETA", value_parser = theta)]
    pub zipf: Option<f64>,
    /// Calls made together in-process: all their keys are brought near before the first is used.
    #[arg(short = 'b', long, value_name = "CALLS", default_value_t = 1, requires = "segment", conflicts_with = "each", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub batch: u32,
    /// Write every key once before measuring.
    #[arg(long, requires = "segment")]
    pub fill: bool,
    /// Read the clock around every call, for true maxima; throughput suffers.
    #[arg(long, requires = "segment")]
    pub each: bool,
    /// Connections.
    #[arg(short = 'c', long, value_name = "CONNECTIONS", default_value_t = 50, conflicts_with = "segment")]
    pub connections: u32,
    /// Requests sent together on a connection.
    #[arg(short = 'P', long, value_name = "REQUESTS", default_value_t = 1, conflicts_with = "segment", value_parser = clap::value_parser!(u32).range(1..))]
    pub pipeline: u32,
    /// Seed of the picks.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Number of this worker process; set by the first process.
    #[arg(long, hide = true)]
    pub worker: Option<u32>,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// A command to measure in place of operations; `__rand_int__` in it stands for twelve random digits.
    #[arg(trailing_var_arg = true, value_name = "COMMAND", conflicts_with = "segment")]
    pub command: Vec<String>,
}

fn theta(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|theta| *theta > 0.0 && *theta < 1.0)
        .ok_or_else(|| "a number between 0 and 1".into())
}

/// When an operation has been measured enough.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    Calls(u64),
    Time(Duration),
}

impl Until {
    /// One worker's part of the whole.
    fn share(self, workers: u64) -> Until {
        match self {
            Until::Calls(calls) => Until::Calls(calls.div_ceil(workers.max(1))),
            Until::Time(time) => Until::Time(time),
        }
    }

    /// The most calls that there can be.
    fn calls(self) -> u64 {
        match self {
            Until::Calls(calls) => calls,
            Until::Time(_) => u64::MAX,
        }
    }

    /// Calls that may still be made.
    fn left(self, done: u64) -> u64 {
        self.calls().saturating_sub(done)
    }

    /// Whether there is more to do at `now`.
    #[inline(always)]
    fn goes_on(self, done: u64, start: Instant, now: Instant) -> bool {
        match self {
            Until::Calls(calls) => done < calls,
            Until::Time(time) => now - start < time,
        }
    }
}

impl Arguments {
    fn ops(&self) -> Vec<String> {
        self.op
            .split(',')
            .map(|name| name.trim().to_ascii_lowercase())
            .filter(|name| !name.is_empty())
            .collect()
    }

    fn until(&self) -> Until {
        match self.seconds {
            Some(seconds) => Until::Time(Duration::try_from_secs_f64(seconds).unwrap_or_default()),
            None => Until::Calls(self.requests.unwrap_or(1_000_000)),
        }
    }

    /// What a worker process must be told.
    fn worker_flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--keys={}", self.keys),
            format!("--value-size={}", self.value_size),
            format!("--threads={}", self.threads),
            format!("--processes={}", self.processes),
            format!("--seed={}", self.seed),
        ];
        flags.extend(self.requests.map(|calls| format!("--requests={calls}")));
        flags.extend(self.seconds.map(|seconds| format!("--seconds={seconds}")));
        flags.extend(self.zipf.map(|theta| format!("--zipf={theta}")));
        flags.extend((self.batch > 1).then(|| format!("--batch={}", self.batch)));
        flags.extend(self.each.then(|| "--each".into()));
        flags.extend(self.whose.flag());
        flags
    }

    /// What all lines of the report have in common.
    fn setting(&self) -> Value {
        let spread = keys::Spread::new(self.keys.min(2), self.zipf).name();
        let mut setting = match &self.segment {
            Some(segment) => {
                json!({ "segment": segment, "processes": self.processes, "threads": self.threads, "batch": self.batch })
            }
            None => json!({
                "server": network::place(self).to_string(),
                "threads": self.threads,
                "connections": self.connections,
                "pipeline": self.pipeline,
            }),
        };
        setting["keys"] = json!(self.keys);
        setting["picked"] = json!(spread);
        setting["value bytes"] = json!(self.value_size);
        setting
    }
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let lines = match (&arguments.segment, arguments.worker) {
        (Some(segment), Some(worker)) => local::work(arguments, segment, worker).map(|()| None),
        (Some(segment), None) => local::run(arguments, segment).map(Some),
        (None, _) => network::run(arguments).map(Some).map_err(Failed::from),
    };
    match lines {
        Ok(lines) => {
            lines.iter().for_each(|lines| report::print(&arguments.setting(), lines, arguments.json));
            ExitCode::SUCCESS
        }
        Err(failed) => failed.tell(),
    }
}
