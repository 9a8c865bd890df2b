//! `polder top`: what a memory is doing right now, read out of band from the segment; no server is asked.
//!
//! Rates are differences between two glances at the counters that every seat keeps for itself. A glance takes no seat
//! and no lock, so looking does not disturb what is looked at.
use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use polder_engine::{Counter, Memory, Usage};
use polder_persist::storage_process::LogPlaces;
use polder_shm::overview::{Doing, Seated};
use polder_shm::{LinkFigures, LinkState};

use crate::segment::{COUNTERS, databases, processes};
use crate::text;

/// Seats shown on a screen; the busiest come first.
const SEATS_SHOWN: usize = 24;

/// Shows live rates, memory, seats and locks of a segment.
#[derive(clap::Args)]
pub struct Arguments {
    /// `shm:NAME`, `sysv:NAME` or `file:PATH`.
    name: String,
    #[command(flatten)]
    whose: text::Whose,
    /// One line per interval, for a log (the default when the output is no terminal).
    #[arg(long)]
    lines: bool,
    /// Seconds between two glances.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Stop after COUNT screens.
    #[arg(short = 'r', long, value_name = "COUNT")]
    count: Option<u64>,
}

/// What one glance saw.
struct Glance {
    at: Instant,
    usage: Usage,
    counters: HashMap<&'static str, u64>,
    databases: Vec<(u16, u64, u64)>,
    seats: Vec<Seated>,
    log: Option<LogPlaces>,
    replication: Replication,
}

/// Both sides of replication, as the words of the segment tell them.
struct Replication {
    /// The link of a replica to its primary: what it does, and its figures.
    link: Option<(String, LinkFigures)>,
    /// The number of replicas that read the stream, and the bytes that the slowest has not acknowledged.
    replicas: usize,
    behind: u64,
}

impl Replication {
    fn of(memory: &Memory) -> Replication {
        let table = memory.table();
        let (link, end) = (table.segment().link(), table.log().range().1);
        let figures = link.figures();
        let state = match figures.state {
            LinkState::Copies if figures.copy_bytes > 0 => {
                format!("copies {:.0}%", 100.0 * figures.copy_read as f64 / figures.copy_bytes as f64)
            }
            LinkState::Copies => "copies".into(),
            LinkState::Handshake => "handshake".into(),
            _ if link.is_up() => "up".into(),
            _ => "down".into(),
        };
        let replicas = table.segment().replicas().all();
        let behind = replicas.iter().map(|replica| end.saturating_sub(replica.place)).max().unwrap_or(0);
        let link = table.role().is_replica().then_some((state, figures));
        Replication { link, replicas: replicas.len(), behind }
    }

    /// The line of a screen.
    fn shown(&self) -> Option<String> {
        let role = match &self.link {
            None if self.replicas == 0 => return None,
            None => "primary".into(),
            Some((state, figures)) => {
                let heard = text::age(text::since_ms(figures.heard_ms));
                format!("replica, link {state}, heard {heard} ago, {} refused", text::count(figures.refused))
            }
        };
        let replicas = match self.replicas {
            0 => "no replicas".into(),
            1 => format!("1 replica, {} behind", text::bytes(self.behind)),
            count => format!("{count} replicas, the slowest {} behind", text::bytes(self.behind)),
        };
        Some(format!("role     {role}; {replicas}"))
    }
}

impl Glance {
    fn take(memory: &Memory) -> Glance {
        let table = memory.table();
        Glance {
            at: Instant::now(),
            usage: table.usage(),
            counters: COUNTERS.iter().map(|(counter, name)| (*name, table.counter(*counter))).collect(),
            databases: databases(memory),
            seats: table.segment().seated(),
            log: LogPlaces::of(table),
            replication: Replication::of(memory),
        }
    }

    /// How often a counter was counted in a second, since `before`.
    fn rate(&self, before: &Glance, name: &str) -> f64 {
        let count = |glance: &Glance| glance.counters.get(name).copied().unwrap_or(0);
        // CONFIG RESETSTAT may have come between.
        count(self).saturating_sub(count(before)) as f64 / self.seconds(before)
    }

    fn seconds(&self, before: &Glance) -> f64 {
        (self.at - before.at).as_secs_f64().max(1e-3)
    }

    /// Of the keys that were asked for since `before`, how many percent were there.
    fn hit_percent(&self, before: &Glance) -> Option<f64> {
        let (hits, misses) = (self.rate(before, "hits"), self.rate(before, "misses"));
        (hits + misses > 0.0).then(|| 100.0 * hits / (hits + misses))
    }

    /// How often a seat's owner counted in a second. A seat that has changed hands since counts from its new owner on.
    fn seat_rate(&self, before: &Glance, seat: &Seated, counter: Counter) -> f64 {
        let earlier = before
            .seats
            .iter()
            .find(|earlier| earlier.index == seat.index && earlier.since_ms == seat.since_ms);
        let number = counter as usize;
        earlier.map_or(0.0, |earlier| {
            seat.counters[number].wrapping_sub(earlier.counters[number]) as f64 / self.seconds(before)
        })
    }
}

/// Runs the subcommand until Ctrl-C, or for as many glances as were asked for.
pub fn run(arguments: &Arguments) -> ExitCode {
    let memory = match text::attach(&arguments.name, &arguments.whose) {
        Ok(memory) => memory,
        Err(failed) => return failed.tell(),
    };
    let pause = Duration::try_from_secs_f64(arguments.interval).unwrap_or(Duration::from_secs(1));
    let screen = !arguments.lines && io::stdout().is_terminal();
    let mut before = Glance::take(&memory);
    for _ in 0..arguments.count.unwrap_or(u64::MAX) {
        std::thread::sleep(pause);
        let now = Glance::take(&memory);
        let shown = if screen { page(&arguments.name, &now, &before) } else { line(&now, &before) };
        if io::stdout().write_all(shown.as_bytes()).and_then(|()| io::stdout().flush()).is_err() {
            // A reader that went away (`| head`) has seen enough.
            break;
        }
        if memory.table().segment().removed() {
            eprintln!("{} has been removed", arguments.name);
            return ExitCode::FAILURE;
        }
        before = now;
    }
    ExitCode::SUCCESS
}

/// One line for a log: `name=value` pairs, rates per second.
fn line(now: &Glance, before: &Glance) -> String {
    let usage = &now.usage;
    let keys: u64 = now.databases.iter().map(|(_, keys, _)| keys).sum();
    let mut fields = vec![format!("time_ms={}", text::now().as_millis()), format!("keys={keys}")];
    fields.extend(COUNTERS.iter().map(|(_, name)| format!("{name}_per_s={:.0}", now.rate(before, name))));
    fields.push(format!(
        "used={} used_peak={} committed={} ceiling={}",
        usage.used, usage.used_peak, usage.committed, usage.ceiling
    ));
    fields.push(format!("table={} retired={}", usage.table, usage.retired));
    let locks: u64 = now.seats.iter().map(locks_of).sum();
    let dead = now.seats.iter().filter(|seat| seat.dead).count();
    fields.push(format!(
        "seats={} processes={} locks={locks} dead={dead}",
        usage.seats_used,
        processes(&now.seats)
    ));
    if let Some(log) = &now.log {
        fields.push(format!("log_unmerged={} log_merged={}", log.unmerged_bytes, log.merged));
        fields.extend(log.files.map(|files| {
            format!(
                "log_written={} log_durable={} log_process={}",
                files.written, files.durable, files.process
            )
        }));
    }
    let Replication { link, replicas, behind } = &now.replication;
    let role = link
        .as_ref()
        .map_or("primary".into(), |(state, _)| format!("replica link={}", state.replace(' ', "_")));
    fields.push(format!("role={role} replicas={replicas} replicas_behind={behind}"));
    fields.join(" ") + "\n"
}

fn locks_of(seat: &Seated) -> u64 {
    if let Doing::Writing { locks } = seat.doing { locks } else { 0 }
}

/// A whole screen, from the upper left corner on.
fn page(name: &str, now: &Glance, before: &Glance) -> String {
    let usage = &now.usage;
    let share = 100.0 * usage.used as f64 / usage.ceiling.max(1) as f64;
    let rate = |name: &str| text::rate(now.rate(before, name));
    let hits = now.hit_percent(before).map_or_else(|| "-".into(), |percent| format!("{percent:.1}%"));
    let mut lines = vec![
        format!("polder top {name}   Ctrl-C ends it"),
        String::new(),
        format!(
            "memory   {} used of {} ({share:.1}%), peak {}, committed {}",
            text::bytes(usage.used),
            text::bytes(usage.ceiling),
            text::bytes(usage.used_peak),
            text::bytes(usage.committed)
        ),
        format!(
            "         table {}, fixed {}, waiting for readers {}, pages of {}",
            text::bytes(usage.table),
            text::bytes(usage.fixed),
            text::bytes(usage.retired),
            text::bytes(usage.page_bytes)
        ),
        format!("keys     {}", keys(&now.databases)),
        format!(
            "calls    {}/s, {hits} hits, {}/s expired, {}/s evicted",
            rate("calls"),
            rate("expired"),
            rate("evicted")
        ),
        format!(
            "network  {}/s in, {}/s out, {}/s connections",
            rate("bytes_in"),
            rate("bytes_out"),
            rate("connections")
        ),
        format!("locks    {}/s sleeps, {}/s retries", rate("parks"), rate("retries")),
        format!(
            "seats    {} of {} taken, by {} processes; {} recovered from the dead",
            usage.seats_used,
            usage.seats_max,
            processes(&now.seats),
            now.counters.get("recoveries").copied().unwrap_or(0)
        ),
    ];
    lines.extend(now.log.as_ref().map(log));
    lines.extend(now.replication.shown());
    lines.push(String::new());
    // Each line clears what the last glance left behind it; clearing the screen first would flicker.
    let body: String = lines
        .iter()
        .map(String::as_str)
        .chain(seats(now, before).lines())
        .map(|line| format!("{line}\x1b[K\n"))
        .collect();
    format!("\x1b[H{body}\x1b[J")
}

/// How far behind the commits the change log is, and the files and the disk behind the change log.
fn log(log: &LogPlaces) -> String {
    let unmerged = text::bytes(log.unmerged_bytes);
    let Some(files) = log.files else {
        return format!("log      {unmerged} not merged, no process writes it");
    };
    let behind = |offset: u64| text::bytes(log.merged.saturating_sub(offset));
    let (unwritten, volatile) = (behind(files.written), behind(files.durable));
    format!(
        "log      {unmerged} not merged, {unwritten} not written, {volatile} not on the disk, by process {}",
        files.process
    )
}

/// `1,000 in db0, 12 in db3 (5 with an expiry)`
fn keys(databases: &[(u16, u64, u64)]) -> String {
    if databases.is_empty() {
        return "none".into();
    }
    let each = databases.iter().map(|(db, keys, expiring)| match expiring {
        0 => format!("{} in db{db}", text::count(*keys)),
        some => format!("{} in db{db} ({} with an expiry)", text::count(*keys), text::count(*some)),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The seats, the busiest first.
fn seats(now: &Glance, before: &Glance) -> String {
    let mut seats: Vec<(f64, &Seated)> =
        now.seats.iter().map(|seat| (now.seat_rate(before, seat, Counter::Calls), seat)).collect();
    seats.sort_by(|(one, _), (two, _)| two.total_cmp(one));
    let more = seats.len().saturating_sub(SEATS_SHOWN);
    let rows: Vec<Vec<String>> = seats
        .into_iter()
        .take(SEATS_SHOWN)
        .map(|(calls, seat)| {
            vec![
                seat.index.to_string(),
                format!("{}/{}", seat.process, seat.thread),
                program(seat),
                text::age(text::since_ms(seat.since_ms)),
                doing(seat),
                text::rate(calls),
                text::rate(now.seat_rate(before, seat, Counter::Parks)),
                seat.pinned_epochs.to_string(),
                text::bytes(seat.retired_bytes),
            ]
        })
        .collect();
    let table = text::table(
        &["SEAT", "PROCESS/THREAD", "PROGRAM", "SINCE", "DOES", "CALLS/S", "SLEEPS/S", "PINNED", "RETIRED"],
        &rows,
    );
    if more == 0 { table } else { format!("{table}and {more} more\n") }
}

fn doing(seat: &Seated) -> String {
    match seat.doing {
        _ if seat.dead => "DEAD".into(),
        Doing::Nothing => "-".into(),
        Doing::Reading => "reads".into(),
        Doing::Writing { locks } => format!("writes, {locks} locks"),
        Doing::Publishing => "publishes".into(),
    }
}

/// The thread's name (its program's, unless it was given one), where its process can be seen from here.
fn program(seat: &Seated) -> String {
    let name = std::fs::read_to_string(format!("/proc/{}/task/{}/comm", seat.process, seat.thread));
    name.map_or_else(|_| "?".into(), |name| name.trim().into())
}
