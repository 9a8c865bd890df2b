//! From one process to another: how long a message or a pushed element takes, and how many come through.
//!
//! ```text
//!  sender (a process of its own)            receiver (this process)
//!    PUBLISH or LPUSH of the time of day -->   now - that time           one at a time, with a pause between them
//!    PUBLISH in batches                  -->   messages a second          at most WINDOW under way: nothing is lost
//! ```
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use polder_base::time::since_epoch;
use polder_engine::{Batch, Caller, Item, Memory, Options};

use super::in_process::LATENCY_NS_MAX;
use super::network::{bare, rivals, start_on};
use super::{Figures, Scale};
use crate::answer::Answer;
use crate::process::{Server, polder};
use crate::resp::Connection;
use crate::scratch::{self, Scratch};

const CHANNEL: &str = "channel";
/// Between two messages whose time is taken: everything sleeps again by then.
const PAUSE_US: u64 = 300;
/// Messages that may be under way where only their number counts.
const WINDOW: u64 = 16 << 10;
const BATCH: u64 = 512;
/// How long the receiver waits for what should come at once.
const PATIENCE: Duration = Duration::from_secs(10);
const HEARD: &str = "heard";

/// Latencies and rates between processes.
///
/// # Errors
/// When a process cannot be had, or a message is lost.
pub fn messages(scale: &Scale) -> Result<Figures, String> {
    let count = scale.of(10_000);
    let mut figures = Figures::new();
    for rival in rivals(scale)? {
        let server = (rival.start)().map_err(|error| format!("{}: {error}", rival.name))?;
        figures.extend(over_sockets(&rival.name, &server, &server, count)?);
    }
    figures.extend(between_servers(count)?);
    figures.extend(round_trip(count)?);
    let scratch = Scratch::new();
    let memory = Arc::new(Memory::attach(&scratch.options).map_err(|fault| fault.to_string())?);
    let segment = &scratch.options.segment;
    figures.extend(percentiles("in-process, spinning", &spinning(&memory, segment, count)?));
    figures.extend(percentiles("in-process, asleep", &asleep(&memory, segment, count)?));
    figures.extend(percentiles("in-process BLPOP", &popped(&memory, segment, count)?));
    figures.push((
        "in-process, messages a second, PUBLISH one by one".into(),
        rate(&memory, segment, scale.of(4_000_000), 1)?,
    ));
    figures.push((
        format!("in-process, messages a second, PUBLISH in batches of {BATCH}"),
        rate(&memory, segment, scale.of(8_000_000), BATCH)?,
    ));
    Ok(figures)
}

/// What a sender does in a process of its own: `count` messages by a command, each the time at which it was sent.
///
/// # Errors
/// When it cannot send.
pub fn send(target: &str, command: &str, count: u64, pause_us: u64) -> Result<f64, String> {
    let mut socket = None;
    let mut caller = None;
    if target.contains("shm:") {
        caller = Some(Caller::new(&Arc::new(open(target)?)));
    } else {
        socket = Some(Connection::open(target).map_err(|error| error.to_string())?);
    }
    for _ in 0..count {
        std::thread::sleep(Duration::from_micros(pause_us));
        let stamp = stamp();
        match (&mut caller, &mut socket) {
            (Some(caller), _) => {
                caller.show(&[command, CHANNEL, &stamp], |_| ()).map_err(|error| error.to_string())?
            }
            (_, Some(socket)) => {
                socket.call(&[command, CHANNEL, &stamp]).map(drop).map_err(|error| error.to_string())?
            }
            _ => {}
        }
    }
    Ok(count as f64)
}

/// What a sender does whose messages are only counted: as many at a time as `batch`, as long as few are under way.
///
/// # Errors
/// When it cannot send.
pub fn pour(segment: &str, count: u64, batch: u64) -> Result<f64, String> {
    let memory = Arc::new(open(segment)?);
    let mut caller = Caller::new(&memory);
    let mut calls = Batch::new();
    (0..batch).for_each(|_| _ = calls.add(&["PUBLISH", CHANNEL, "0123456789abcdef"]));
    let (mut sent, mut heard) = (0, 0);
    while sent < count {
        while sent + batch > heard + WINDOW {
            let text = memory.database(0).get(HEARD.as_bytes()).map_err(|error| error.to_string())?;
            heard = text.and_then(|text| std::str::from_utf8(&text).ok()?.parse().ok()).unwrap_or(0);
        }
        match batch {
            1 => caller
                .show(&["PUBLISH", CHANNEL, "0123456789abcdef"], |_| ())
                .map_err(|error| error.to_string())?,
            _ => caller.run_batch(&calls).map(drop).map_err(|error| error.to_string())?,
        }
        sent += batch;
    }
    Ok(sent as f64)
}

fn open(segment: &str) -> Result<Memory, String> {
    Memory::attach(&Options { segment: segment.into(), create: false, ..Options::default() })
        .map_err(|fault| fault.to_string())
}

/// Nanoseconds of the day's clock, as 16 digits.
fn stamp() -> String {
    format!("{:016x}", since_epoch().as_nanos() as u64)
}

/// Nanoseconds since a stamp was made.
fn age_ns(stamp: &[u8]) -> Option<u64> {
    let sent = u64::from_str_radix(std::str::from_utf8(stamp).ok()?, 16).ok()?;
    Some((since_epoch().as_nanos() as u64).saturating_sub(sent))
}

/// The same of the last item of a message or a reply.
fn last_age_ns(reply: Item<'_>) -> Option<u64> {
    reply.items()?.last()?.bytes().and_then(age_ns)
}

type Latencies = Histogram<u64>;

fn latencies() -> Result<Latencies, String> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).map_err(|error| error.to_string())
}

fn percentiles(name: &str, latencies: &Latencies) -> Figures {
    [("p50", 0.5), ("p99", 0.99)]
        .map(|(word, at)| (format!("{name} {word} us"), latencies.value_at_quantile(at) as f64 / 1e3))
        .into()
}

/// A sender in a process of its own, ended with this.
struct Sender(Child);

impl Sender {
    fn start(words: &[&str]) -> Result<Sender, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let child = Command::new("taskset")
            .args(["-c", "1"])
            .arg(program)
            .arg("probe")
            .args(words)
            .stdout(Stdio::null())
            .spawn();
        child.map(Sender).map_err(|error| error.to_string())
    }

    fn of(target: &str, command: &str, count: u64) -> Result<Sender, String> {
        Sender::start(&["send", target, command, &count.to_string(), &PAUSE_US.to_string()])
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // It has ended by itself where all went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A message and an element by sockets: sent to one server, received from another, or the same.
fn over_sockets(name: &str, to: &Server, from: &Server, count: u64) -> Result<Figures, String> {
    let take = |command: &str, listen: &[&str], again: bool| -> Result<Latencies, String> {
        let mut latencies = latencies()?;
        let mut receiver = Connection::open(&from.address()).map_err(|error| error.to_string())?;
        receiver.call(listen).map_err(|error| error.to_string())?;
        let _sender = Sender::of(&to.address(), command, count)?;
        for _ in 0..count {
            if again {
                receiver.send(listen).map_err(|error| error.to_string())?;
            }
            let answer = receiver.receive().map_err(|error| error.to_string())?;
            let age = match &answer {
                Answer::Array(items) | Answer::Push(items) => items.last(),
                _ => None,
            };
            let age = age.and_then(|item| if let Answer::Bulk(stamp) = item { age_ns(stamp) } else { None });
            latencies.saturating_record(age.ok_or_else(|| format!("{name}: {}", answer.shown()))?);
        }
        Ok(latencies)
    };
    let mut figures =
        percentiles(&format!("{name}, sockets, PUBLISH"), &take("PUBLISH", &["SUBSCRIBE", CHANNEL], false)?);
    let mut warm = Connection::open(&to.address()).map_err(|error| error.to_string())?;
    warm.call(&["LPUSH", CHANNEL, &stamp()]).map_err(|error| error.to_string())?;
    figures.extend(percentiles(
        &format!("{name}, sockets, BLPOP"),
        &take("LPUSH", &["BLPOP", CHANNEL, "10"], true)?,
    ));
    Ok(figures)
}

/// The same between two servers, each on a core of its own.
fn between_servers(count: u64) -> Result<Figures, String> {
    let segment = scratch::fresh_name();
    let start = |core| {
        start_on(core, &polder(), &["serve", "--port", "{port}", "--threads", "1", "--segment", &segment])
    };
    let servers = [start("0"), start("1")].map(|server| server.map_err(|error| error.to_string()));
    let [to, from] = servers;
    let (to, from) = (to?, from?);
    let figures = over_sockets("polder, two servers", &to, &from, count);
    // Servers leave their segment behind.
    let _ = Memory::remove(&segment);
    figures
}

/// What two wake-ups by sockets cost at least: there and back through a loop that only replies.
fn round_trip(count: u64) -> Result<Figures, String> {
    let server = bare().map_err(|error| error.to_string())?;
    let mut latencies = latencies()?;
    let mut connection = Connection::open(&server.address()).map_err(|error| error.to_string())?;
    for _ in 0..count {
        std::thread::sleep(Duration::from_micros(PAUSE_US));
        let began = Instant::now();
        connection.call(&["PING"]).map_err(|error| error.to_string())?;
        latencies.saturating_record(began.elapsed().as_nanos() as u64);
    }
    Ok(percentiles("a bare loop, there and back", &latencies))
}

/// Subscribes, and takes the age of each message, with so much patience at a look.
fn subscribed(
    memory: &Arc<Memory>,
    segment: &str,
    count: u64,
    patience: Duration,
) -> Result<Latencies, String> {
    let mut latencies = latencies()?;
    let mut receiver = Caller::new(memory);
    receiver.run(&["SUBSCRIBE", CHANNEL]).map_err(|error| error.to_string())?;
    receiver.hear(Duration::ZERO, |_| ()).map_err(|error| error.to_string())?;
    let _sender = Sender::of(segment, "PUBLISH", count)?;
    let began = Instant::now();
    while latencies.len() < count {
        let heard = receiver.hear(patience, |message| {
            latencies.saturating_record(last_age_ns(message).unwrap_or(u64::MAX));
        });
        heard.map_err(|error| error.to_string())?;
        if began.elapsed() > PATIENCE + Duration::from_micros(count * PAUSE_US * 4) {
            return Err(format!("{} of {count} messages came", latencies.len()));
        }
    }
    Ok(latencies)
}

fn spinning(memory: &Arc<Memory>, segment: &str, count: u64) -> Result<Latencies, String> {
    subscribed(memory, segment, count, Duration::ZERO)
}

fn asleep(memory: &Arc<Memory>, segment: &str, count: u64) -> Result<Latencies, String> {
    subscribed(memory, segment, count, PATIENCE)
}

/// Elements that a waiting call gets.
fn popped(memory: &Arc<Memory>, segment: &str, count: u64) -> Result<Latencies, String> {
    let mut latencies = latencies()?;
    let mut receiver = Caller::new(memory);
    let _sender = Sender::of(segment, "LPUSH", count)?;
    for _ in 0..count {
        let age = receiver.show(&["BLPOP", CHANNEL, "10"], last_age_ns);
        latencies.saturating_record(age.map_err(|error| error.to_string())?.ok_or("no element came")?);
    }
    Ok(latencies)
}

/// Messages a second that one subscriber hears from one publisher, none of them lost.
fn rate(memory: &Arc<Memory>, segment: &str, count: u64, batch: u64) -> Result<f64, String> {
    memory.database(0).set(HEARD.as_bytes(), b"0").map_err(|error| error.to_string())?;
    let mut receiver = Caller::new(memory);
    receiver.run(&["SUBSCRIBE", CHANNEL]).map_err(|error| error.to_string())?;
    receiver.hear(Duration::ZERO, |_| ()).map_err(|error| error.to_string())?;
    let _sender = Sender::start(&["pour", segment, &count.to_string(), &batch.to_string()])?;
    let (mut heard, mut told) = (0, 0);
    let (mut began, mut last) = (Instant::now(), Instant::now());
    while heard < count {
        let came = receiver
            .hear(Duration::ZERO, |message| _ = std::hint::black_box(message))
            .map_err(|error| error.to_string())? as u64;
        if came > 0 {
            last = Instant::now();
            began = if heard == 0 { last } else { began };
            heard += came;
        } else if last.elapsed() > PATIENCE {
            return Err(format!("{heard} of {count} messages came"));
        }
        if heard - told >= WINDOW / 8 {
            told = heard;
            memory
                .database(0)
                .set(HEARD.as_bytes(), heard.to_string().as_bytes())
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(heard as f64 / began.elapsed().as_secs_f64())
}
