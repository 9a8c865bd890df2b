//! `polder segment`: which segments there are, what one holds, making and removing one.
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Subcommand;
use polder_engine::{Counter, Memory, Options};
use polder_shm::{Segment, directory::Listed, overview::Seated};
use serde_json::{Value, json};

use crate::text;

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
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// What a segment holds, read from outside.
    Stat {
        name: String,
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
    /// Remove segments. Who is attached keeps the memory until it lets go; nobody finds it any more.
    Remove {
        #[arg(required = true)]
        names: Vec<String>,
    },
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let done = match &arguments.action {
        Action::List { json } => list(*json),
        Action::Stat { name, json } => stat(name, *json),
        Action::Create { name, size } => create(name, size.unwrap_or(0)),
        Action::Remove { names } => names.iter().try_for_each(|name| Memory::remove(name).map_err(|fault| text::plain(&fault))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// A size as the configuration file writes it.
fn size(text: &str) -> Result<u64, String> {
    let bytes = polder_commands::settings::value::bytes(text.as_bytes());
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).ok_or_else(|| "a number with kb, mb or gb".into())
}

fn list(as_json: bool) -> Result<(), String> {
    let found = Segment::list().map_err(|fault| text::plain(&fault))?;
    if as_json {
        let listed: Vec<Value> = found.iter().map(json_listed).collect();
        println!("{}", Value::Array(listed));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    print!("{}", text::table(&["NAME", "USES", "CEILING", "OWNER", "MODE", "AGE"], &rows));
    Ok(())
}

fn row(listed: &Listed) -> Vec<String> {
    let age = listed.since.and_then(|since| SystemTime::now().duration_since(since).ok());
    vec![
        listed.name.to_string(),
        text::bytes(listed.used_bytes),
        text::bytes(listed.bytes),
        listed.owner.to_string(),
        format!("{:04o}", listed.mode & 0o7777),
        age.map_or_else(|| "?".into(), text::age),
    ]
}

fn json_listed(listed: &Listed) -> Value {
    let since = listed.since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
    json!({
        "name": listed.name.to_string(),
        "used_bytes": listed.used_bytes,
        "ceiling_bytes": listed.bytes,
        "owner": listed.owner,
        "mode": format!("{:04o}", listed.mode & 0o7777),
        "since_ms": since.map(|since| since.as_millis() as u64),
    })
}

fn create(name: &str, ceiling: u64) -> Result<(), String> {
    if text::attach(name).is_ok() {
        return Err(format!("there is a segment {name} already"));
    }
    let memory = Memory::attach(&Options { segment: name.into(), ceiling, ..Options::default() }).map_err(|fault| text::plain(&fault))?;
    let usage = memory.table().usage();
    println!("{name}: up to {}, in pages of {}", text::bytes(usage.ceiling), text::bytes(usage.page_bytes));
    Ok(())
}

fn stat(name: &str, as_json: bool) -> Result<(), String> {
    let memory = text::attach(name)?;
    if as_json {
        println!("{}", json_stat(name, &memory));
        return Ok(());
    }
    let table = memory.table();
    let (usage, segment) = (table.usage(), table.segment());
    let seats = segment.seated();
    let line = |name: &str, value: String| println!("{name:<14}{value}");
    line("segment", name.to_string());
    line("made", format!("{} ago, layout {}", text::age(text::since_ms(segment.created_ms())), segment.layout()));
    line("pages", text::bytes(usage.page_bytes));
    line("used", format!("{} of {}, at most {} so far", text::bytes(usage.used), text::bytes(usage.ceiling), text::bytes(usage.used_peak)));
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
    line("seats", format!("{} of {} taken, by {} processes", usage.seats_used, usage.seats_max, processes(&seats)));
    for (db, keys, expiring) in databases(&memory) {
        line(&format!("db{db}"), format!("{} keys, {} with an expiry", text::count(keys), text::count(expiring)));
    }
    let count = |counter: Counter| text::count(table.counter(counter));
    line("calls", format!("{}, {} hits, {} misses", count(Counter::Calls), count(Counter::Hits), count(Counter::Misses)));
    line("gone", format!("{} expired, {} evicted", count(Counter::Expired), count(Counter::Evicted)));
    line("contention", format!("{} retries, {} sleeps for a lock", count(Counter::Retries), count(Counter::Parks)));
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
pub const COUNTERS: [(Counter, &str); 12] = [
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
];

fn json_stat(name: &str, memory: &Memory) -> Value {
    let table = memory.table();
    let (usage, segment) = (table.usage(), table.segment());
    let counters: serde_json::Map<String, Value> =
        COUNTERS.iter().map(|(counter, name)| (name.to_string(), json!(table.counter(*counter)))).collect();
    let databases: Vec<Value> =
        databases(memory).into_iter().map(|(db, keys, expiring)| json!({ "db": db, "keys": keys, "expiring": expiring })).collect();
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
