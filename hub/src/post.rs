//! Transactions of the hub itself, and messages that are more than the word of one change.
use std::time::Duration;

use polder_table::interest::interest_at;
use polder_table::{CommitView, Mode, Stop, Table, Txn};
use smallvec::SmallVec;

use crate::listener::Thread;
use crate::message::Message;

/// How long to wait for a thread that holds records and may be stopped. After that the work is done
/// later.
const PATIENCE: Duration = Duration::from_micros(100);
/// How often a transaction of the hub is tried again at once.
const ATTEMPTS: u32 = 100;
/// Runs a transaction of the hub and commits it, or returns `Busy` if a lock is not free soon.
pub(crate) fn run(table: &Table, work: &mut dyn FnMut(&Txn<'_>) -> Result<(), Stop>) -> Result<(), Stop> {
    let txn = table.begin(Mode::Write)?;
    txn.limit_patience(PATIENCE);
    for _ in 0..ATTEMPTS {
        match work(&txn).and_then(|()| txn.commit()) {
            Err(Stop::Retry) => txn.abort(),
            outcome => return outcome,
        }
    }
    Err(Stop::Busy)
}

/// Posts a message to all seats whose interest has one of these bits.
pub(crate) fn to_all(commit: &dyn CommitView, bits: u64, message: &Message<'_>) {
    let segment = commit.segment();
    let seats: SmallVec<[(u64, u64); 8]> = (0..segment.seats_high())
        .map(|index| (index, interest_at(segment, index)))
        .filter(|(index, (said, life))| said & bits != 0 && segment.lives(*index, *life))
        .map(|(index, (_, life))| (index, life))
        .collect();
    message.write(|parts| seats.iter().for_each(|(index, life)| commit.post(*index, *life, parts)));
}

/// Wakes a thread, so that it looks at the segment.
///
/// # Errors
/// As `Table::begin`.
pub fn rouse(table: &Table, (seat, life): Thread) -> Result<(), Stop> {
    run(table, &mut |txn| {
        Message::Rise.write(|parts| txn.post(seat, life, parts));
        Ok(())
    })
}
