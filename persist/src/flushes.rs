//! Databases that are emptied at a moment that ITEM.FLUSH has named: the part of a server (`commands/src/flush.rs`).
use polder_commands::flush;
use polder_table::{Mode, Stop, Table};

use polder_runtime::retry::retry;

/// Empties the databases whose moment has come; returns the next moment, in milliseconds since the epoch. While data is imported (F5) or
/// writes are refused, it does nothing and returns none.
///
/// # Errors
/// What the memory says. Then nothing has been emptied, and the moments stay.
pub fn run_due(table: &Table, now_ms: u64) -> Result<Option<u64>, Stop> {
    let mut next = None;
    if table.imports() || table.segment().refuses_writes() {
        return Ok(next);
    }
    let txn = table.begin(Mode::Read)?;
    retry(&txn, || {
        next = flush::next(&txn)?;
        Ok(())
    })?;
    drop(txn);
    if next.is_none_or(|moment_ms| moment_ms > now_ms) {
        return Ok(next);
    }
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        next = flush::run_due(&txn, now_ms)?;
        Ok(())
    })?;
    Ok(next)
}
