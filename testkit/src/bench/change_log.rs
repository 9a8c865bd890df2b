//! The change log: what it costs a writer in this process, how fast it is merged, and the append-only log beside redis-server's.
//!
//! ```text
//!  in-process    core 0: the writer             core 1, or core 0 too: the thread that merges
//!  to the file   core 0: the writer             core 1: `polder storage`, and what reads its file
//!  servers       core 0: the server, all of it  core 1: redis-benchmark
//! ```
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::network::{Run, Test, load, start_pinned};
use super::{Figures, Scale, median};
use crate::answer::Answer;
use crate::process::{Server, on_path, polder};
use crate::resp::Connection;
use crate::scratch::{self, Scratch};

/// Keys of the writer in this process.
const KEYS: usize = 10_000;
const VALUE: &[u8; 16] = b"0123456789abcdef";
/// Records that wait when a merge is timed: less than the outbox after which a writer merges by itself.
const WAITING: usize = 5_000;
/// A log that is loaded in this time or never.
const PATIENCE: Duration = Duration::from_secs(120);

/// See the head of this file.
///
/// # Errors
/// When a call is refused, a server fails, or redis-server is not installed.
pub fn change_log(scale: &Scale) -> Result<Figures, String> {
    let mut figures = writer(scale)?;
    figures.push(("records merged a second".into(), merged(scale)?));
    figures.extend(to_the_file(scale)?);
    figures.extend(files(scale)?);
    Ok(figures)
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn pin(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(said)
}

/// Nanoseconds of a SET without a log, with one that another core merges, and with one that the same core merges.
fn writer(scale: &Scale) -> Result<Figures, String> {
    let before = sched_getaffinity(None).map_err(said)?;
    pin(0)?;
    let count = scale.of(2_000_000);
    let mut runs: [Vec<f64>; 3] = Default::default();
    for _ in 0..scale.rounds {
        for (run, core) in runs.iter_mut().zip([None, Some(1), Some(0)]) {
            run.push(written(count, core)?);
        }
    }
    sched_setaffinity(None, &before).map_err(said)?;
    let [off, other, same] = runs.map(median);
    Ok(vec![
        ("in-process SET ns, off".into(), off),
        ("in-process SET ns, merged on another core".into(), other),
        ("in-process SET ns, merged on the same core".into(), same),
        ("throughput of off, another core".into(), off / other),
        ("throughput of off, the same core".into(), off / same),
    ])
}

fn written(count: u64, merger: Option<usize>) -> Result<f64, String> {
    let scratch = Scratch::with_ceiling(1 << 30);
    let (db, log) = (scratch.embedder.memory.database(0), scratch.embedder.memory.table().log());
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    if merger.is_some() {
        log.turn_on().map_err(said)?;
    }
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Some(core) = merger {
            let (table, ends) = (scratch.embedder.memory.table(), &ends);
            scope.spawn(move || {
                pin(core).expect("a core");
                while !ends.load(Ordering::Relaxed) {
                    if !table.log().merge().expect("room") {
                        std::thread::sleep(Duration::from_micros(500));
                    }
                }
            });
        }
        let began = Instant::now();
        let done = (0..count as usize).try_for_each(|number| db.set(&keys[number % KEYS], VALUE));
        let took = began.elapsed().as_nanos() as f64 / count as f64;
        ends.store(true, Ordering::Relaxed);
        done.map(|()| took).map_err(said)
    })
}

/// Records that one thread merges in a second, while no other does anything.
fn merged(scale: &Scale) -> Result<f64, String> {
    let scratch = Scratch::with_ceiling(1 << 30);
    let (db, log) = (scratch.embedder.memory.database(0), scratch.embedder.memory.table().log());
    log.turn_on().map_err(said)?;
    let mut runs = Vec::new();
    for _ in 0..scale.rounds {
        let mut took = Duration::ZERO;
        let times = scale.of(200);
        for _ in 0..times {
            for number in 0..WAITING {
                db.set(format!("key:{number}"), VALUE).map_err(said)?;
            }
            let (began, before) = (Instant::now(), log.range().1);
            while log.merge().map_err(said)? {}
            took += began.elapsed();
            let bytes = log.range().1 - before;
            if bytes < WAITING as u64 * 30 {
                return Err(format!("{bytes} bytes of {WAITING} records were left to merge"));
            }
        }
        runs.push((times * WAITING as u64) as f64 / took.as_secs_f64());
    }
    Ok(median(runs))
}

/// From a commit to the instant in which a reader of the file finds it there, in milliseconds, while a program makes a million SETs a second.
fn to_the_file(scale: &Scale) -> Result<Figures, String> {
    let before = sched_getaffinity(None).map_err(said)?;
    let folder = crate::process::target_folder().join(format!("bench-file-{}", std::process::id()));
    let mut runs: [Vec<f64>; 3] = Default::default();
    for _ in 0..scale.rounds {
        let (rate, mut delays) = in_folder(&folder, |folder| followed(scale.of(8_000_000), folder))?;
        delays.sort_unstable();
        let at = |share: f64| delays[(delays.len() as f64 * share) as usize] as f64 / 1e6;
        for (run, figure) in runs.iter_mut().zip([rate, at(0.5), at(0.99)]) {
            run.push(figure);
        }
    }
    sched_setaffinity(None, &before).map_err(said)?;
    let [rate, half, most] = runs.map(median);
    Ok(vec![
        ("paced SET/s".into(), rate),
        ("commit to file ms, p50".into(), half),
        ("commit to file ms, p99".into(), most),
    ])
}

/// SETs in a row before the writer looks at the clock again, and how long they have: a million a second.
const IN_A_ROW: u64 = 100;
const PACE: Duration = Duration::from_micros(100);

/// The SETs a second that were made, and the delay of each in nanoseconds. A value is the time at which it was written, in 16 digits.
fn followed(count: u64, folder: &str) -> Result<(f64, Vec<u64>), String> {
    pin(1)?;
    let scratch = Scratch::with_ceiling(1 << 30);
    let mut storage = Command::new(polder());
    storage.args(["storage", "--segment", &scratch.options.segment, "--dir", folder]);
    // It inherits core 1.
    let storage = storage.args(["--auto-aof-rewrite-percentage", "0"]);
    let mut storage = storage.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(said)?;
    // What is written while the first base is made is there, and not in the file that is looked at.
    std::thread::sleep(Duration::from_secs(1));
    let path = last_file(&Path::new(folder).join("appendonlydir"))?;
    let began = Instant::now();
    let last = AtomicU64::new(0);
    let followed = std::thread::scope(|scope| {
        let reader = scope.spawn(|| follow(&path, &last, began));
        let written = paced(&scratch, count, began, &last);
        let delays = reader.join().map_err(|_| "the reader has panicked")??;
        Ok((written?, delays))
    });
    storage.kill().and_then(|()| storage.wait()).map_err(said)?;
    followed
}

/// The incremental file to which the log is written now.
fn last_file(folder: &Path) -> Result<PathBuf, String> {
    let files = std::fs::read_dir(folder).map_err(said)?.flatten().map(|entry| entry.path());
    let log = files.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max();
    log.ok_or_else(|| format!("no incremental file in {}", folder.display()))
}

fn paced(scratch: &Scratch, count: u64, began: Instant, last: &AtomicU64) -> Result<f64, String> {
    pin(0)?;
    let db = scratch.embedder.memory.database(0);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key:{number:06}")).collect();
    let (started, mut due) = (Instant::now(), Instant::now());
    for number in 0..count {
        if number % IN_A_ROW == 0 {
            due += PACE;
            while Instant::now() < due {
                std::hint::spin_loop();
            }
        }
        let time = began.elapsed().as_nanos() as u64;
        db.set(&keys[number as usize % KEYS], format!("{time:016}").as_bytes()).map_err(said)?;
        if number + 1 == count {
            last.store(time, Ordering::Release);
        }
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// The delays of all records, until that with the last time has come.
fn follow(path: &Path, last: &AtomicU64, began: Instant) -> Result<Vec<u64>, String> {
    const HEAD: &[u8] = b"$16\r\n";
    let (mut delays, mut text, mut seen) = (Vec::new(), Vec::new(), 0);
    let mut file = std::fs::File::open(path).map_err(said)?;
    while seen == 0 || seen != last.load(Ordering::Acquire) {
        if began.elapsed() > PATIENCE {
            return Err(format!("the last record did not come to {}", path.display()));
        }
        std::thread::sleep(Duration::from_micros(500));
        file.read_to_end(&mut text).map_err(said)?;
        let (now, mut at) = (began.elapsed().as_nanos() as u64, 0);
        while let Some(found) = memchr::memmem::find(&text[at..], HEAD) {
            let value = at + found + HEAD.len();
            let Some(digits) = text.get(value..value + 16) else { break };
            let time: u64 = std::str::from_utf8(digits).map_err(said)?.parse().map_err(said)?;
            delays.push(now.saturating_sub(time));
            seen = time;
            at = value + 16;
        }
        text.drain(..at);
    }
    Ok(delays)
}

/// The flags of a server that writes a log into this folder.
type Flags<'f> = [&'f str; 12];

fn flags<'f>(fsync: &'f str, appends: &'f str, folder: &'f str) -> Flags<'f> {
    // No rewrite: an incremental file has all that was written.
    let rewrites = "--auto-aof-rewrite-percentage";
    [
        "--port",
        "{port}",
        "--save",
        "",
        "--dir",
        folder,
        "--appendonly",
        appends,
        "--appendfsync",
        fsync,
        rewrites,
        "0",
    ]
}

fn start(program: Option<&Path>, flags: &Flags<'_>) -> Result<Server, String> {
    let segment = scratch::fresh_name();
    match program {
        Some(program) => start_pinned(program, flags),
        None => {
            let own = ["serve", "--threads", "1", "--segment", &segment, "--segment-size", "4gb"];
            start_pinned(&polder(), &[&own[..], flags].concat())
        }
    }
    .map_err(said)
}

/// What one server's log costs and how fast it is loaded.
#[derive(Default)]
struct OfServer {
    off: Vec<Run>,
    everysec: Vec<Run>,
    always: Vec<Run>,
    always_many: Vec<Run>,
    loaded: Vec<f64>,
}

fn files(scale: &Scale) -> Result<Figures, String> {
    let redis = on_path("redis-server").ok_or("redis-server is not installed")?;
    // Not in a folder of /tmp, which may be in memory.
    let folder = crate::process::target_folder().join(format!("bench-log-{}", std::process::id()));
    let mut servers =
        [("polder", None, OfServer::default()), ("redis", Some(redis.as_path()), OfServer::default())];
    for _ in 0..scale.rounds {
        for (name, program, of) in &mut servers {
            of.measure(scale, *program, &folder).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    let mut figures = Figures::new();
    let mut rates = Vec::new();
    for (name, _, of) in servers {
        let cost = |runs: &[Run]| median(runs.iter().map(|run| run.cpu_ns).collect());
        let rate = |runs: &[Run]| median(runs.iter().map(|run| run.per_second).collect());
        let (always, many) = (rate(&of.always), rate(&of.always_many));
        figures.push((format!("{name} SET at pipeline 16, cpu ns without a log"), cost(&of.off)));
        figures.push((format!("{name} the same with everysec, ns more"), cost(&of.everysec) - cost(&of.off)));
        figures.push((format!("{name} SET/s with always, 50 clients"), always));
        figures.push((format!("{name} SET/s with always, 500 clients"), many));
        let loaded = median(of.loaded);
        figures.push((format!("{name} commands loaded a second"), loaded));
        rates.push([always, many, loaded]);
    }
    for (at, what) in
        ["SET/s with always, 50 clients", "SET/s with always, 500 clients", "commands loaded a second"]
            .into_iter()
            .enumerate()
    {
        figures.push((format!("{what}, polder / redis"), rates[0][at] / rates[1][at]));
    }
    Ok(figures)
}

impl OfServer {
    fn measure(&mut self, scale: &Scale, program: Option<&Path>, folder: &Path) -> Result<(), String> {
        let set = |requests, words: &str| Test {
            name: "SET",
            words: format!("-r 100000 -d 16 -t set {words}"),
            requests: scale.of(requests),
            settings: &[],
        };
        let run = |fsync: &str, appends: &str, test: &Test| {
            in_folder(folder, |folder| load(&start(program, &flags(fsync, appends, folder))?, test))
        };
        let (fast, slow) = (set(4_000_000, "-P 16"), set(200_000, "-P 1"));
        self.off.push(run("no", "no", &fast)?);
        self.everysec.push(run("everysec", "yes", &fast)?);
        self.always.push(run("always", "yes", &slow)?);
        self.always_many.push(run("always", "yes", &set(200_000, "-P 1 -c 500"))?);
        let count = scale.of(4_000_000);
        self.loaded.push(in_folder(folder, |folder| loaded(program, folder, &set(count, "-P 16"), count))?);
        Ok(())
    }
}

/// Commands a second that a server reads of an incremental file which redis-server has written, from its start on.
fn loaded(program: Option<&Path>, folder: &str, test: &Test, count: u64) -> Result<f64, String> {
    let redis = on_path("redis-server").ok_or("redis-server is not installed")?;
    let writer = start(Some(&redis), &flags("no", "yes", folder))?;
    load(&writer, &Test { requests: count, words: test.words.clone(), ..*test })?;
    let mut connection = Connection::open(&writer.address()).map_err(said)?;
    // It ends without a reply.
    let _ = connection.call(&["SHUTDOWN"]);
    drop(writer);
    let began = Instant::now();
    let server = start(program, &flags("no", "yes", folder))?;
    while began.elapsed() < PATIENCE {
        let mut connection = Connection::open(&server.address()).map_err(said)?;
        if matches!(connection.call(&["DBSIZE"]).map_err(said)?, Answer::Integer(keys) if keys > 0) {
            return Ok(count as f64 / began.elapsed().as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("the log is not loaded".into())
}

fn in_folder<R>(folder: &Path, work: impl FnOnce(&str) -> Result<R, String>) -> Result<R, String> {
    std::fs::create_dir_all(folder).map_err(said)?;
    let done = work(&folder.to_string_lossy());
    std::fs::remove_dir_all(folder).map_err(said)?;
    done
}
