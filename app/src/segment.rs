//! `polder segment`: which segments there are, what one holds, making and removing one.
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Subcommand;
use polder_engine::{Counter, Memory};
use polder_shm::directory::{Figures, Listed, Listing};
use polder_shm::layout::usable;
use polder_shm::opening::CreateError;
use polder_shm::overview::Seated;
use polder_shm::owner::login;
use polder_shm::{Segment, SegmentName, SegmentOptions};
use serde_json::{Value, json};

use crate::text::{self, Failed};

/// Databases that clients may have used.
const DATABASES: u16 = 256;

/// Lists, shows, makes and removes segments.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Every segment on this machine (`file:` segments are where their users put them).
    ///
    /// USED is what data and bookkeeping take, COMMITTED what the system has given for them so far, CEILING the most that
    /// it may become, PROCESSES how many work in it, AGE the time since it was made.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// What a segment holds, read from outside.
    Stat {
        name: String,
        #[command(flatten)]
        whose: text::Whose,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a segment; servers and embedders do that by themselves, with their defaults.
    Create {
        name: String,
        /// The most it may grow to, as `512mb` or `8gb` [default: three quarters of the machine's memory].
        #[arg(long, value_name = "SIZE", value_parser = size)]
        size: Option<u64>,
    },
    /// Remove segments. Servers on them stop; other attached processes keep the memory until they let go of it.
    Remove {
        #[arg(required = true)]
        names: Vec<String>,
        /// Do not ask when processes use it.
        #[arg(short, long)]
        force: bool,
    },
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let done = match &arguments.action {
        Action::List { json } => list(*json),
        Action::Stat { name, whose, json } => stat(name, whose, *json),
        Action::Create { name, size } => create(name, size.unwrap_or(0)),
        Action::Remove { names, force } => names.iter().try_for_each(|name| remove(name, *force)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.tell(),
    }
}

/// A size as the configuration file writes it.
fn size(text: &str) -> Result<u64, String> {
    let bytes = polder_calls::settings::value::bytes(text.as_bytes());
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).ok_or_else(|| "a number with kb, mb or gb".into())
}

fn list(as_json: bool) -> Result<(), Failed> {
    let Listing { segments, unreadable } = Segment::list().map_err(|fault| text::plain(&fault))?;
    if as_json {
        println!("{}", Value::Array(segments.iter().map(json_listed).collect()));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = segments.iter().map(row).collect();
    print!(
        "{}",
        text::table(&["NAME", "USED", "COMMITTED", "CEILING", "PROCESSES", "OWNER", "MODE", "AGE"], &rows)
    );
    if !unreadable.is_empty() {
        let mut owners: Vec<String> = unreadable.iter().map(|(_, owner)| user(*owner)).collect();
        owners.sort();
        owners.dedup();
        eprintln!(
            "{} files in /dev/shm may not be read, so they may be segments: of {}",
            unreadable.len(),
            owners.join(", ")
        );
    }
    Ok(())
}

/// A user's name, or number.
fn user(number: u32) -> String {
    login(number).unwrap_or_else(|| number.to_string())
}

fn row(listed: &Listed) -> Vec<String> {
    let figure = |figure: fn(&Figures) -> String| listed.figures.as_ref().map_or_else(|| "?".into(), figure);
    vec![
        listed.name.to_string(),
        figure(|figures| text::bytes(figures.used)),
        figure(|figures| text::bytes(figures.committed)),
        figure(|figures| text::bytes(figures.ceiling)),
        figure(|figures| figures.processes.len().to_string()),
        user(listed.owner),
        format!("{:04o}", listed.mode & 0o7777),
        figure(|figures| text::age(text::since_ms(figures.created_ms))),
    ]
}

fn json_listed(listed: &Listed) -> Value {
    let figures = listed.figures.as_ref();
    json!({
        "name": listed.name.to_string(),
        "used_bytes": figures.map(|figures| figures.used),
        "committed_bytes": figures.map(|figures| figures.committed),
        "ceiling_bytes": figures.map(|figures| figures.ceiling),
        "processes": figures.map(|figures| figures.processes.clone()),
        "owner": listed.owner,
        "mode": format!("{:04o}", listed.mode & 0o7777),
        "created_ms": figures.map(|figures| figures.created_ms),
    })
}

fn create(name: &str, ceiling: u64) -> Result<(), Failed> {
    let segment: SegmentName = name.parse().map_err(|error| format!("{error}"))?;
    let made = Segment::create(&segment, &SegmentOptions { ceiling, ..SegmentOptions::default() });
    let made = made.map_err(|error| match error {
        CreateError::AlreadyExists(_) => format!("there is a segment {name} already"),
        CreateError::Fault(fault) => text::plain(&fault),
    })?;
    let ceiling = text::bytes(usable(made.geometry().ceiling));
    println!(
        "{name}: up to {ceiling}, in pages of {}",
        text::bytes(made.mapping().pages().page_bytes as u64)
    );
    if let Some(doubt) = text::doubt_of_size(name, usable(made.geometry().ceiling)) {
        eprintln!("warning: {doubt}");
    }
    Ok(())
}

fn remove(name: &str, force: bool) -> Result<(), Failed> {
    let segment: SegmentName = name.parse().map_err(|error| format!("{error}"))?;
    if let Some(users) = Segment::find(&segment).as_ref().and_then(users).filter(|_| !force) {
        let asked = format!("{name} is in use by {users}");
        if !std::io::stdin().is_terminal() {
            return Err(format!("{asked}: end that first, or remove it nevertheless with --force").into());
        }
        eprint!("{asked}. Its data goes with it. Remove it? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map_err(|error| error.to_string())?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(format!("{name} stays").into());
        }
    }
    Memory::remove(name).map_err(|fault| text::plain(&fault).into())
}

/// The processes that use a segment, in words; none if there are none.
fn users(listed: &Listed) -> Option<String> {
    let processes = listed.figures.as_ref().map(|figures| figures.processes.as_slice()).unwrap_or_default();
    let named = |process: &u32| match std::fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(program) => format!("process {process} ({})", program.trim()),
        Err(_) => format!("process {process}"),
    };
    match processes {
        [] => listed.attached.then(|| "a process that has it mapped".into()),
        some => Some(some.iter().map(named).collect::<Vec<_>>().join(", ")),
    }
}

fn stat(name: &str, whose: &text::Whose, as_json: bool) -> Result<(), Failed> {
    let memory = text::attach(name, whose)?;
    if as_json {
        println!("{}", json_stat(name, &memory));
        return Ok(());
    }
    let table = memory.table();
    let (usage, segment) = (table.usage(), table.segment());
    let seats = segment.seated();
    let line = |name: &str, value: String| println!("{name:<14}{value}");
    line("segment", name.to_string());
    line(
        "made",
        format!("{} ago, layout {}", text::age(text::since_ms(segment.created_ms())), segment.layout()),
    );
    line("pages", text::bytes(usage.page_bytes));
    line(
        "used",
        format!(
            "{} of {}, at most {} so far",
            text::bytes(usage.used),
            text::bytes(usage.ceiling),
            text::bytes(usage.used_peak)
        ),
    );
    line("committed", format!("{} taken from the system", text::bytes(usage.committed)));
    line(
        "of which",
        format!(
            "table {}, fixed {}, waiting for readers {}",
            text::bytes(usage.table),
            text::bytes(usage.fixed),
            text::bytes(usage.retired)
        ),
    );
    line(
        "seats",
        format!("{} of {} taken, by {} processes", usage.seats_used, usage.seats_max, processes(&seats)),
    );
    for (db, keys, expiring) in databases(&memory) {
        line(
            &format!("db{db}"),
            format!("{} keys, {} with an expiry", text::count(keys), text::count(expiring)),
        );
    }
    let count = |counter: Counter| text::count(table.counter(counter));
    line(
        "calls",
        format!(
            "{}, {} hits, {} misses",
            count(Counter::Calls),
            count(Counter::Hits),
            count(Counter::Misses)
        ),
    );
    line("gone", format!("{} expired, {} evicted", count(Counter::Expired), count(Counter::Evicted)));
    line(
        "contention",
        format!("{} retries, {} sleeps for a lock", count(Counter::Retries), count(Counter::Parks)),
    );
    line("recoveries", count(Counter::Recoveries));
    Ok(())
}

/// How many processes have seats.
pub fn processes(seats: &[Seated]) -> usize {
    let mut processes: Vec<u32> = seats.iter().map(|seat| seat.process).collect();
    processes.sort_unstable();
    processes.dedup();
    processes.len()
}

/// The databases that hold keys: number, keys, keys with an expiry.
pub fn databases(memory: &Memory) -> Vec<(u16, u64, u64)> {
    let counted = (0..DATABASES).map(|db| (db, memory.table().keys(db)));
    counted.filter(|(_, (keys, _))| *keys > 0).map(|(db, (keys, expiring))| (db, keys, expiring)).collect()
}

/// Every counter with its name in reports.
pub const COUNTERS: [(Counter, &str); 14] = [
    (Counter::Calls, "calls"),
    (Counter::Hits, "hits"),
    (Counter::Misses, "misses"),
    (Counter::Expired, "expired"),
    (Counter::Evicted, "evicted"),
    (Counter::Connections, "connections"),
    (Counter::Refusals, "refusals"),
    (Counter::BytesIn, "bytes_in"),
    (Counter::BytesOut, "bytes_out"),
    (Counter::Recoveries, "recoveries"),
    (Counter::Retries, "retries"),
    (Counter::Parks, "parks"),
    (Counter::PublishersHeld, "publishers_held"),
    (Counter::QueuedLost, "queued_messages_lost"),
];

fn json_stat(name: &str, memory: &Memory) -> Value {
    let table = memory.table();
    let (usage, segment) = (table.usage(), table.segment());
    let counters: serde_json::Map<String, Value> =
        COUNTERS.iter().map(|(counter, name)| (name.to_string(), json!(table.counter(*counter)))).collect();
    let databases: Vec<Value> = databases(memory)
        .into_iter()
        .map(|(db, keys, expiring)| json!({ "db": db, "keys": keys, "expiring": expiring }))
        .collect();
    json!({
        "segment": name,
        "created_ms": segment.created_ms(),
        "layout": segment.layout(),
        "page_bytes": usage.page_bytes,
        "ceiling_bytes": usage.ceiling,
        "committed_bytes": usage.committed,
        "used_bytes": usage.used,
        "used_bytes_peak": usage.used_peak,
        "fixed_bytes": usage.fixed,
        "table_bytes": usage.table,
        "retired_bytes": usage.retired,
        "seats_used": usage.seats_used,
        "seats_max": usage.seats_max,
        "processes": processes(&segment.seated()),
        "databases": databases,
        "counters": counters,
    })
}
