//! The figures of which the history of a process is made (`recorder/history`).
use polder_table::{Counter, Table};

use super::machine;
use polder_runtime::locks::lock;
use polder_runtime::recorder::history::Point;
use polder_runtime::session::Host;

/// Commands that ask for figures. A console that asks each second would be most of what an idle server does, so that the mean
/// time of a command leaves them out.
const ASKING: [&str; 2] = ["INFO", "METRICS"];

/// Adds the figures of now to the history of the process, if ten seconds have passed. Called by maintenance.
pub fn note(host: &dyn Host, table: &Table, now_ms: u64) {
    let recorder = host.recorder();
    if !lock(&recorder.history).is_due(now_ms) {
        return;
    }
    let counter = |which| table.counter(which);
    let totals = recorder.totals();
    let timed = totals.iter().filter(|(command, _)| !ASKING.contains(&command.name));
    let (calls, nanoseconds) =
        timed.fold((0, 0), |(calls, spent), (_, total)| (calls + total.calls, spent + total.nanoseconds));
    let point: Point = [
        now_ms,
        counter(Counter::Calls),
        counter(Counter::BytesIn) + counter(Counter::BytesOut),
        counter(Counter::Hits),
        counter(Counter::Misses),
        counter(Counter::Evicted),
        table.usage().used,
        (0..host.databases()).map(|db| table.keys(db).0).sum(),
        host.statistics().clients,
        machine::cpu_us(),
        calls,
        nanoseconds / 1000,
    ];
    lock(&recorder.history).add(point);
}
