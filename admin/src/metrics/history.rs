//! The last hour of a segment, in fixed memory: a point each ten seconds. It outlives its servers.
//!
//! ```text
//!   value at KEY of SYSTEM = one row for each ten seconds of an hour and ten seconds, at time / STEP_MS modulo POINTS
//!   row = time | calls, bytes, hits, misses, evicted: totals | memory, keys: as they were | clients, processor, calls, time of calls: sums
//! ```
//!
//! Every server process writes the present row once, in a transaction. The first one makes the row. Each writes the totals, which are the
//! segment's, and adds what only a process knows: its clients, and its processor time and timed calls since its last row.
use std::time::Duration;

use polder_runtime::locks::lock;
use polder_runtime::recorder::Told;
use polder_runtime::retry::retry;
use polder_runtime::session::Host;
use polder_table::{Counter, Mode, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::{Kind, string};

use super::machine;

/// The time between two points, and how many are kept: an hour.
const STEP_MS: u64 = 10_000;
const POINTS: u64 = 361;
const KEY: &[u8] = b"metrics:history";
/// The longest wait of a point for a lock. One that does not get it is left out.
const PATIENCE: Duration = Duration::from_millis(1);

/// The names of a point's figures.
pub const FIGURES: [&str; 12] = [
    "time_ms",
    "commands",
    "net_bytes",
    "keyspace_hits",
    "keyspace_misses",
    "evicted_keys",
    "used_memory",
    "keys",
    "clients",
    "cpu_us",
    "timed_calls",
    "timed_us",
];
/// The first figure that is a sum over processes, and the first that is a sum over time, too.
const SUMS: usize = 8;
const RISING: usize = 9;

/// Figures of one moment, in the order of [`FIGURES`].
pub type Point = [u64; FIGURES.len()];
const POINT_BYTES: usize = size_of::<Point>();

/// Commands that ask for figures. A console that asks each second would be most of what an idle server does, so that the mean
/// time of a command leaves them out.
const ASKING: [&str; 2] = ["INFO", "METRICS"];

/// Adds the figures of now to the history of the segment, if this process has not since the last full ten seconds. Called by maintenance.
pub fn note(host: &dyn Host, table: &Table, now_ms: u64) {
    let step = now_ms / STEP_MS;
    let recorder = host.recorder();
    // A thread of this process at a time: the one that has claimed the maintenance.
    let known = *lock(&recorder.told);
    if known.step == step {
        return;
    }
    let totals = recorder.totals();
    let timed = totals.iter().filter(|(command, _)| !ASKING.contains(&command.name));
    let (calls, nanoseconds) =
        timed.fold((0, 0), |(calls, spent), (_, total)| (calls + total.calls, spent + total.nanoseconds));
    let now = Told { step, cpu_us: machine::cpu_us(), calls, timed_us: nanoseconds / 1000 };
    let counter = |which| table.counter(which);
    let own: Point = [
        step * STEP_MS,
        counter(Counter::Calls),
        counter(Counter::BytesIn) + counter(Counter::BytesOut),
        counter(Counter::Hits),
        counter(Counter::Misses),
        counter(Counter::Evicted),
        table.usage().used,
        (0..host.databases()).map(|db| table.keys(db).0).sum(),
        host.statistics().clients,
        now.cpu_us.saturating_sub(known.cpu_us),
        // CONFIG RESETSTAT makes totals fall.
        now.calls.checked_sub(known.calls).unwrap_or(now.calls),
        now.timed_us.checked_sub(known.timed_us).unwrap_or(now.timed_us),
    ];
    // If there is no memory, or another process holds the lock, the point is left out: the next one tells of its time, too.
    *lock(&recorder.told) = if add(table, &own).is_ok() { now } else { Told { step, ..known } };
}

/// Writes a point of this process into its row.
fn add(table: &Table, own: &Point) -> Result<(), Stop> {
    let txn = table.begin(Mode::Write)?;
    txn.limit_patience(PATIENCE);
    retry(&txn, || {
        txn.declare(&[(SYSTEM, KEY)])?;
        let found = txn.find(SYSTEM, KEY)?;
        let mut draft = match &found {
            Some(found) => string::Draft::of(&found.value),
            None => string::Draft::empty(),
        };
        draft.reach(&txn, POINTS * POINT_BYTES as u64)?;
        let at = own[0] / STEP_MS % POINTS * POINT_BYTES as u64;
        let mut bytes = [0; POINT_BYTES];
        string::read_at(&txn, &draft.value(), at, &mut bytes)?;
        let row = joined(&point_of(&bytes), own);
        draft.write(&txn, at, &row.map(u64::to_le_bytes).concat())?;
        txn.write(SYSTEM, KEY, &New::of(Kind::String, draft.value()), Replaces::Edited)
    })
}

/// The row of `own`'s time, of which other processes have made `row`.
fn joined(row: &Point, own: &Point) -> Point {
    let mut joined = *own;
    if row[0] == own[0] {
        (SUMS..FIGURES.len()).for_each(|figure| joined[figure] = joined[figure].saturating_add(row[figure]));
    }
    joined
}

fn point_of(bytes: &[u8]) -> Point {
    let mut point = Point::default();
    for (figure, word) in point.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *figure = u64::from_le_bytes(*word);
    }
    point
}

/// The points of the last hour, from the oldest to the latest.
///
/// # Errors
/// The errors of reading the memory.
pub fn points(txn: &Txn<'_>, now_ms: u64) -> Result<Vec<Point>, Stop> {
    let Some(found) = txn.peek(SYSTEM, KEY)? else { return Ok(Vec::new()) };
    let bytes = string::contiguous(txn, &found.value)?;
    Ok(in_order(bytes.as_chunks::<POINT_BYTES>().0.iter().map(|row| point_of(row)).collect(), now_ms))
}

/// Rows of the last hour by their time, with totals in the place of sums.
fn in_order(mut points: Vec<Point>, now_ms: u64) -> Vec<Point> {
    // Points in the future were written before the clock was set back.
    points.retain(|point| point[0] <= now_ms && point[0] + STEP_MS * POINTS > now_ms);
    points.sort_unstable();
    let mut sums = [0u64; FIGURES.len()];
    for point in &mut points {
        for figure in RISING..FIGURES.len() {
            sums[figure] = sums[figure].saturating_add(point[figure]);
            point[figure] = sums[figure];
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use polder_engine::EmbeddedHost;

    use super::*;

    #[test]
    fn rows_of_an_hour_come_in_order_and_with_totals() {
        let now_ms = 1_000 * STEP_MS + 7;
        let row = |step: u64, cpu_us: u64| {
            let mut point = Point::default();
            (point[0], point[9]) = (step * STEP_MS, cpu_us);
            point
        };
        // An empty row, one that is too old, and one from before the clock was set back.
        let rows = vec![row(0, 0), row(999, 5), row(1_000, 2), row(639, 9), row(640, 1), row(1_001, 3)];
        let told: Vec<(u64, u64)> =
            in_order(rows, now_ms).iter().map(|point| (point[0] / STEP_MS, point[9])).collect();
        assert_eq!(told, [(640, 1), (999, 6), (1_000, 8)]);
    }

    #[test]
    fn two_processes_write_a_long_history_and_the_memory_stays_whole() {
        let segment = format!("shm:polder-history-{}", std::process::id());
        let options = polder_engine::Options { segment: segment.clone(), ..Default::default() };
        let memory = polder_engine::Memory::attach(&options).unwrap();
        let table = memory.table();
        let hosts = [EmbeddedHost::default(), EmbeddedHost::default()];
        for step in 1..=2 * POINTS {
            hosts.iter().for_each(|host| note(host, table, step * STEP_MS));
            note(&hosts[0], table, step * STEP_MS + 1);
        }
        let txn = table.begin(Mode::Read).unwrap();
        let told = points(&txn, 2 * POINTS * STEP_MS).unwrap();
        drop(txn);
        let times: Vec<u64> = told.iter().map(|point| point[0] / STEP_MS).collect();
        assert_eq!(times, Vec::from_iter(POINTS + 1..=2 * POINTS));
        assert!(told.windows(2).all(|pair| pair[0][RISING] <= pair[1][RISING]));
        let findings = table.verify().unwrap().findings;
        assert!(findings.is_empty(), "{findings:?}");
        polder_engine::Memory::remove(&segment).unwrap();
    }

    #[test]
    fn processes_add_up_in_the_row_of_their_time() {
        let point: Point = std::array::from_fn(|figure| figure as u64 + 1);
        let other = point.map(|figure| figure * 10);
        assert_eq!(joined(&other, &point), point, "a row of another time is made anew");
        let same: Point = std::array::from_fn(|figure| if figure == 0 { 1 } else { other[figure] });
        assert_eq!(joined(&same, &point), [1, 2, 3, 4, 5, 6, 7, 8, 99, 110, 121, 132]);
    }
}
