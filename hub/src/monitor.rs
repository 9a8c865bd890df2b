//! Clients that want to see every call (MONITOR).
use std::collections::BTreeSet;

use polder_shm::layout::interest;
use polder_table::interest::{lose_interest, take_interest};
use polder_table::{Table, Txn};

use crate::message::Message;
use crate::per_thread::{self, PerThread};
use crate::post::{self, to_all};

thread_local! {
    static MONITORS: PerThread<BTreeSet<u64>> = const { PerThread::new() };
}

fn with<R>(table: &Table, work: impl FnOnce(&mut BTreeSet<u64>) -> R) -> Option<R> {
    per_thread::with(&MONITORS, table, work)
}

/// Notes that a client of this thread wants to see every call, or no longer does.
pub fn note_monitor(table: &Table, client: u64, begins: bool) {
    let changed =
        with(table, |clients| if begins { clients.insert(client) } else { clients.remove(&client) });
    let Ok(seat) = table.seat() else { return };
    if changed == Some(true) && begins {
        take_interest(&seat, interest::MONITORS);
    }
    if changed == Some(true) && !begins && is_empty(table) {
        lose_interest(&seat, interest::MONITORS);
    }
}

/// Whether no client of this thread wants to see every call.
pub(crate) fn is_empty(table: &Table) -> bool {
    with(table, |clients| clients.is_empty()).unwrap_or(false)
}

/// The clients of this thread that want to see every call.
pub(crate) fn monitors(table: &Table) -> Vec<u64> {
    with(table, |clients| clients.iter().copied().collect()).unwrap_or_default()
}

/// Shows a line to all clients that monitor. If an inbox is locked, perhaps by a stopped thread,
/// the line is dropped.
pub fn show_call(table: &Table, line: &[u8]) {
    let _ = post::run(table, &mut |txn| {
        post_call(txn, line);
        Ok(())
    });
}

/// As [`show_call`], with the commit of a transaction.
pub fn post_call(txn: &Txn<'_>, line: &[u8]) {
    to_all(txn, interest::MONITORS, &Message::Call { line });
}
