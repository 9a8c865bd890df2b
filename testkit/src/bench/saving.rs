//! BGSAVE and BGREWRITEAOF of a gigabyte under a full load of writes: what they take from the throughput, how long a reply waits because of them,
//! and how much memory they cost.
//!
//! ```text
//!  core 0   the server, its log too          what saves (a thread of ours, a child of redis) goes where the row says
//!  core 1   this process, which writes
//! ```
//! "Spare core" is core 1, of which the writer leaves what it does not need; on a machine with three or more it is core 2.
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::network::start_pinned;
use super::{Figures, Scale, median};
use crate::answer::Answer;
use crate::process::{Server, on_path, polder};
use crate::random::Random;
use crate::resp::{Connection, framed};
use crate::scratch;

/// Keys and bytes of a value: a gigabyte.
const KEYS: u64 = 1_000_000;
const VALUE: usize = 1000;
/// Connections, and SETs that each has under way.
const CONNECTIONS: usize = 4;
const PIPELINE: usize = 16;
/// How long is written without a save before there is one.
const ALONE: Duration = Duration::from_secs(4);
/// A save that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(100);
/// How often a running save is asked about.
const LOOK_EACH: Duration = Duration::from_millis(100);
const OK: &[u8] = b"+OK\r\n";

/// What is made under the load.
#[derive(Clone, Copy)]
enum Work {
    Save,
    /// A new base of the append-only log, which is written all the time (`appendfsync everysec`).
    Rewrite,
}

impl Work {
    fn command(self) -> &'static str {
        match self {
            Work::Save => "BGSAVE",
            Work::Rewrite => "BGREWRITEAOF",
        }
    }

    /// Whether INFO says that it goes on, or is about to.
    fn goes_on(self, info: &str) -> bool {
        let words: &[&str] = match self {
            Work::Save => &["rdb_bgsave_in_progress:1"],
            Work::Rewrite => &["aof_rewrite_in_progress:1", "aof_rewrite_scheduled:1"],
        };
        words.iter().any(|word| info.contains(word))
    }

    /// What INFO says if the last one succeeded.
    fn success(self) -> &'static str {
        match self {
            Work::Save => "rdb_last_bgsave_status:ok",
            Work::Rewrite => "aof_last_bgrewrite_status:ok",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Work::Save => &[],
            // It is rewritten when this program says so, and not before.
            Work::Rewrite => &["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"],
        }
    }
}

/// Where what saves runs.
#[derive(Clone, Copy)]
enum Place {
    SpareCore,
    BesideTheServer,
}

/// Throughput, longest reply, and memory with and without a BGSAVE, of polder and of redis-server.
///
/// # Errors
/// When a server fails, or its save.
pub fn bgsave(scale: &Scale) -> Result<Figures, String> {
    saved(scale, Work::Save)
}

/// The same with a rewrite of the append-only log.
///
/// # Errors
/// As there.
pub fn rewrite(scale: &Scale) -> Result<Figures, String> {
    saved(scale, Work::Rewrite)
}

fn saved(scale: &Scale, work: Work) -> Result<Figures, String> {
    let redis = on_path("redis-server").ok_or("redis-server is not installed")?;
    let mut figures = Figures::new();
    for (name, program, place) in [
        ("polder, spare core", None, Place::SpareCore),
        ("polder, one core", None, Place::BesideTheServer),
        ("redis, spare core", Some(&redis), Place::SpareCore),
    ] {
        let mut runs = Vec::new();
        for _ in 0..scale.rounds {
            let folder = std::env::temp_dir().join(format!("polder-bench-save-{}", std::process::id()));
            std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            let run = start(program.map(PathBuf::as_path), &folder, work)
                .and_then(|server| Run::make(&server, scale, work, place));
            std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
            runs.push(run.map_err(|error| format!("{name}: {error}"))?);
        }
        let mut figure = |what: &str, of: fn(&Run) -> f64| {
            figures.push((format!("{name}: {what}"), median(runs.iter().map(of).collect())))
        };
        figure("SET/s", |run| run.alone.per_second());
        figure("SET/s while it saves", |run| run.saving.per_second());
        figure("throughput lost, %", |run| 100.0 * (1.0 - run.saving.per_second() / run.alone.per_second()));
        figure("longest reply, ms", |run| run.alone.longest_ms());
        figure("longest reply while it saves, ms", |run| run.saving.longest_ms());
        figure("seconds of the save", |run| run.saving.took.as_secs_f64());
        figure("MB overwritten meanwhile", |run| run.overwritten_mb);
        figure("MB more memory", |run| run.extra_mb);
    }
    Ok(figures)
}

fn start(program: Option<&Path>, folder: &Path, work: Work) -> std::io::Result<Server> {
    let (folder, segment) = (folder.to_string_lossy(), scratch::fresh_name());
    let flags = [&["--port", "{port}", "--save", "", "--dir", &folder][..], work.flags()].concat();
    let own = ["serve", "--threads", "1", "--segment", &segment, "--segment-size", "4gb"];
    match program {
        None => start_pinned(&polder(), &[&own[..], &flags].concat()),
        Some(program) => start_pinned(program, &[&flags[..], &["--bind", "127.0.0.1"]].concat()),
    }
}

/// What writing for a while has come to.
#[derive(Default)]
struct Written {
    requests: u64,
    took: Duration,
    longest: Duration,
}

impl Written {
    fn per_second(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    /// From the sending of a pipeline to its last reply.
    fn longest_ms(&self) -> f64 {
        self.longest.as_secs_f64() * 1e3
    }
}

struct Run {
    alone: Written,
    saving: Written,
    overwritten_mb: f64,
    extra_mb: f64,
}

impl Run {
    fn make(server: &Server, scale: &Scale, work: Work, place: Place) -> std::io::Result<Run> {
        let spare = if std::thread::available_parallelism()?.get() > 2 { 2 } else { 1 };
        pin(std::process::id(), 1)?;
        // The load generator must not be what is late. If this is not allowed, it may be.
        let _ = Command::new("renice").args(["-n", "-15", "-p", &std::process::id().to_string()]).output()?;
        let mut connection = Connection::open(&server.address())?;
        let mut writer = Writer::new(server, scale.of(KEYS))?;
        writer.fill()?;
        let alone = writer.write(|elapsed| Ok(elapsed < ALONE))?;
        let before = used_memory(&mut connection)?;
        connection.call(&[work.command()])?;
        let saver = match place {
            Place::SpareCore => move_saver(server.pid(), spare),
            Place::BesideTheServer => Ok(()),
        };
        writer.overwritten.fill(false);
        let (mut looked, mut peak, mut ended) = (Instant::now(), before, false);
        let saving = writer.write(|elapsed| {
            if looked.elapsed() >= LOOK_EACH {
                looked = Instant::now();
                peak = peak.max(used_memory(&mut connection)?);
                ended = !work.goes_on(&info(&mut connection, "persistence")?);
            }
            Ok(!ended && elapsed < PATIENCE)
        })?;
        saver?;
        if !ended || !info(&mut connection, "persistence")?.contains(work.success()) {
            return Err(std::io::Error::other("the save failed"));
        }
        let overwritten = writer.overwritten.iter().filter(|overwritten| **overwritten).count();
        Ok(Run {
            alone,
            saving,
            overwritten_mb: (overwritten * VALUE) as f64 / 1e6,
            extra_mb: (peak - before) / 1e6,
        })
    }
}

/// Has a thread run on one core; a process's number is that of its first thread.
fn pin(pid: u32, core: usize) -> std::io::Result<()> {
    let done = Command::new("taskset").args(["-p", "-c", &core.to_string(), &pid.to_string()]).output()?;
    if done.status.success() { Ok(()) } else { Err(std::io::Error::other("taskset")) }
}

/// Finds what has begun to save, and gives it a core.
fn move_saver(server: u32, core: usize) -> std::io::Result<()> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children"))?;
        let threads = std::fs::read_dir(format!("/proc/{server}/task"))?.flatten();
        let saves = |thread: &std::fs::DirEntry| {
            std::fs::read_to_string(thread.path().join("comm"))
                .is_ok_and(|name| ["polder-save", "polder-base"].contains(&name.trim_end()))
        };
        let thread =
            threads.into_iter().find(saves).and_then(|thread| thread.file_name().to_str()?.parse().ok());
        if let Some(pid) = thread.or_else(|| children.split_whitespace().next()?.parse().ok()) {
            return pin(pid, core);
        }
    }
    Err(std::io::Error::other("nothing saves"))
}

fn info(connection: &mut Connection, section: &str) -> std::io::Result<String> {
    match connection.call(&["INFO", section])? {
        Answer::Bulk(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        other => Err(std::io::Error::other(format!("INFO: {}", other.shown()))),
    }
}

/// What the data takes, and what a saving child has had copied.
fn used_memory(connection: &mut Connection) -> std::io::Result<f64> {
    let (memory, persistence) = (info(connection, "memory")?, info(connection, "persistence")?);
    let figure = |text: &str, name: &str| {
        text.split(name).nth(1).and_then(|rest| rest.split("\r\n").next()?.parse::<f64>().ok())
    };
    let used =
        figure(&memory, "used_memory:").ok_or_else(|| std::io::Error::other("INFO has no used_memory"))?;
    Ok(used + figure(&persistence, "current_cow_size:").unwrap_or(0.0))
}

/// Connections that set random keys, all of them busy all the time.
struct Writer {
    sockets: Vec<(TcpStream, Instant)>,
    /// A pipeline of SETs, and where the digits of its keys are.
    pipeline: Vec<u8>,
    digits: Vec<usize>,
    keys: u64,
    random: Random,
    overwritten: Vec<bool>,
}

/// Digits of a key.
const DIGITS: usize = 12;

impl Writer {
    fn new(server: &Server, keys: u64) -> std::io::Result<Writer> {
        let mut random = Random::new(5);
        let (mut pipeline, mut digits) = (Vec::new(), Vec::new());
        for _ in 0..PIPELINE {
            // What no compression makes smaller.
            let value: String = (0..VALUE).map(|_| char::from(b'!' + random.below(90) as u8)).collect();
            let set = framed(&["SET", &format!("key:{:0DIGITS$}", 0), &value]);
            let key = set.windows(4).position(|part| part == b"key:").expect("the key");
            digits.push(pipeline.len() + key + 4);
            pipeline.extend(set);
        }
        let open = |_| {
            let socket = TcpStream::connect(server.address())?;
            socket.set_nodelay(true)?;
            Ok((socket, Instant::now()))
        };
        let sockets = (0..CONNECTIONS).map(open).collect::<std::io::Result<_>>()?;
        Ok(Writer { sockets, pipeline, digits, keys, random, overwritten: vec![false; keys as usize] })
    }

    /// Sets every key once.
    fn fill(&mut self) -> std::io::Result<()> {
        let (keys, next) = (self.keys, Cell::new(0));
        self.drive(&mut |_| Ok(next.get() < keys), &mut |_, _| next.replace(next.get() + 1) % keys)?;
        Ok(())
    }

    /// Sets random keys for as long as `goes_on` says, which is told how long it has been.
    fn write(
        &mut self,
        mut goes_on: impl FnMut(Duration) -> std::io::Result<bool>,
    ) -> std::io::Result<Written> {
        self.drive(&mut goes_on, &mut |random, keys| random.below(keys as usize) as u64)
    }

    fn drive(
        &mut self,
        goes_on: &mut dyn FnMut(Duration) -> std::io::Result<bool>,
        next: &mut dyn FnMut(&mut Random, u64) -> u64,
    ) -> std::io::Result<Written> {
        let (started, mut written, mut replies) =
            (Instant::now(), Written::default(), [0; PIPELINE * OK.len()]);
        for number in 0..CONNECTIONS {
            self.send(number, next)?;
        }
        let mut number = 0;
        loop {
            let more = goes_on(started.elapsed())?;
            let (socket, sent) = &mut self.sockets[number];
            socket.read_exact(&mut replies)?;
            if replies.chunks(OK.len()).any(|reply| reply != OK) {
                return Err(std::io::Error::other(format!("SET: {}", replies.escape_ascii())));
            }
            written.longest = written.longest.max(sent.elapsed());
            written.requests += PIPELINE as u64;
            if !more {
                break;
            }
            self.send(number, next)?;
            number = (number + 1) % CONNECTIONS;
        }
        for other in (0..CONNECTIONS).filter(|other| *other != number) {
            self.sockets[other].0.read_exact(&mut replies)?;
        }
        written.took = started.elapsed();
        Ok(written)
    }

    fn send(&mut self, number: usize, next: &mut dyn FnMut(&mut Random, u64) -> u64) -> std::io::Result<()> {
        for at in &self.digits {
            let key = next(&mut self.random, self.keys);
            self.overwritten[key as usize] = true;
            let mut rest = key;
            for digit in self.pipeline[*at..at + DIGITS].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        let (socket, sent) = &mut self.sockets[number];
        *sent = Instant::now();
        socket.write_all(&self.pipeline)
    }
}
