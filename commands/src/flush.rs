//! Emptying a database at a later moment, as memcached's `flush_all DELAY` has it.
//!
//! ```text
//!   hidden database, `flushes`:   [ database u16 | moment u64, ms since the epoch ] ...     one for each database at most
//! ```
//!
//! memcached calls every item invalid, from the moment on, that is older than the moment. This is the same as to empty the
//! database at that moment, so nothing is stored beside each item: only the moment is, in the segment.
//!
//! - **F1** Each server learns of a moment during its maintenance, some times a second, and once before it takes its first
//!   client. A thread whose turn begins at or after the moment empties the database before it executes a request
//!   ([`run_due`]). So what a client of this server stores after the moment stays.
//! - **F2** One transaction empties the database and forgets the moment. Of several servers that do it, one succeeds, and the
//!   others find no moment. A server that is killed has done both or neither.
//! - **F3** If all servers die, the moment stays in the segment. The next server empties the database when it starts. No client
//!   could store anything through a server meanwhile; but what programs have stored in the segment themselves goes, too.
//! - **F4** A server whose maintenance is late by more than the delay is not exact: it may reply with an old item until then.
//!
//! - **F5** RDB files and the change log keep a moment, since they keep the keys that it concerns. While they are read, a moment is
//!   kept even if it has passed, and nothing is emptied: what follows in the log may still belong to the time before the moment.
//!   When the moment comes, the log says FLUSHDB.
//!
//! A command that empties a database at once (ITEM.FLUSH without a moment, FLUSHDB, FLUSHALL) forgets a moment that is still to
//! come, as memcached does. A moment belongs to the database's number: what SWAPDB brings there is emptied, and what it takes away stays.
use polder_calls::call::{Call, Outcome, SYNTAX, is};
use polder_calls::command::{Command, DANGEROUS, KEYSPACE, write};
use polder_calls::facts::Tells::Own;
use polder_table::{Aside, Db, New, Replaces, SYSTEM, Snapshot, Stop, Txn};
use polder_values::{Kind, Value, string};

use crate::item::{Expiry, moment};

const KEY: &[u8] = b"flushes";
const BYTES: usize = size_of::<Db>() + size_of::<u64>();

/// The family's rows.
pub const COMMANDS: &[Command] = &[write("ITEM.FLUSH", "[EX seconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds]", flush)
    .tells(Own("`ECHO polder:flush ms`; `FLUSHDB`, when it is done"))
    .with(DANGEROUS | KEYSPACE)
    .costs("O(1); a sweeper frees the memory afterwards.")
    .about(
        "Removes all keys from the current database, at once or at a later moment. A later call replaces the moment; one without \
         a moment forgets it, and so do FLUSHDB and FLUSHALL. A server has to be there at the moment, or the next one does it when it starts.",
    )];

/// A database that is to be emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    db: Db,
    moment_ms: u64,
}

fn flush(call: &mut Call<'_>) -> Outcome {
    let expiry = match &call.args[1..] {
        [] => Expiry::Unsaid,
        [word, value] if is(word, "EX") => moment(call, "EX", value)?,
        [word, value] if is(word, "EXAT") => moment(call, "EXAT", value)?,
        [word, value] if is(word, "PXAT") => moment(call, "PXAT", value)?,
        _ => return Err(SYNTAX.into()),
    };
    let db = call.db();
    match expiry {
        Expiry::At(moment_ms) if moment_ms > call.txn.now_ms() || call.table.imports() => {
            set(call.txn, &[Due { db, moment_ms }])?;
            call.txn.tell_aside(db, &Aside::Flush { moment_ms });
        }
        _ => {
            forget(call.txn, Some(db))?;
            call.txn.count_freed(call.txn.keys(db));
            call.txn.flush(Some(db))?;
            call.tell(&[b"FLUSHDB"]);
        }
    }
    call.reply.ok();
    Ok(())
}

/// Sets the moments of some databases.
fn set(txn: &Txn<'_>, dues: &[Due]) -> Result<(), Stop> {
    let mut all = read(txn)?;
    all.retain(|known| dues.iter().all(|due| due.db != known.db));
    all.extend_from_slice(dues);
    write_all(txn, &all)
}

/// Forgets the moment of a database that is emptied now, or those of all.
///
/// # Errors
/// Those of the transaction.
pub fn forget(txn: &Txn<'_>, db: Option<Db>) -> Result<(), Stop> {
    let all = read(txn)?;
    let later: Vec<Due> = all.iter().copied().filter(|due| db.is_some_and(|db| db != due.db)).collect();
    if later.len() == all.len() { Ok(()) } else { write_all(txn, &later) }
}

/// The moments that are known at the instant of a snapshot, which has not begun to walk: bytes for [`restore`].
///
/// # Errors
/// Those of the snapshot.
pub fn kept_at(snapshot: &Snapshot<'_>) -> Result<Vec<u8>, Stop> {
    let Some(item) = snapshot.find(SYSTEM, KEY)? else { return Ok(Vec::new()) };
    let found = snapshot.found(&item)?;
    let bytes = found
        .map(|found| string::contiguous(&snapshot.view(), &found.value).map(|bytes| bytes.into_owned()))
        .transpose()?;
    Ok(bytes.unwrap_or_default())
}

/// The databases in what [`kept_at`] has returned, each with its moment in milliseconds since the epoch.
pub fn moments(kept: &[u8]) -> impl Iterator<Item = (Db, u64)> {
    dues(kept).map(|due| (due.db, due.moment_ms))
}

/// Takes the moments that [`kept_at`] has returned, as far as there are such databases: in the place of those that are known, or only where
/// none is known.
///
/// # Errors
/// Those of the transaction, which the caller commits.
pub fn restore(txn: &Txn<'_>, kept: &[u8], databases: u64, replaces: bool) -> Result<(), Stop> {
    let known = if replaces { Vec::new() } else { read(txn)? };
    let is_wanted = |due: &Due| u64::from(due.db) < databases && known.iter().all(|known| known.db != due.db);
    let dues: Vec<Due> = dues(kept).filter(is_wanted).collect();
    for Due { db, moment_ms } in &dues {
        txn.tell_aside(*db, &Aside::Flush { moment_ms: *moment_ms });
    }
    if dues.is_empty() { Ok(()) } else { set(txn, &dues) }
}

/// Empties the databases whose moment has come. Returns the next moment, in milliseconds since the epoch.
///
/// # Errors
/// Those of the transaction, which the caller commits.
pub fn run_due(txn: &Txn<'_>, now_ms: u64) -> Result<Option<u64>, Stop> {
    let all = read(txn)?;
    let (due, later): (Vec<Due>, Vec<Due>) = all.into_iter().partition(|due| due.moment_ms <= now_ms);
    if !due.is_empty() {
        write_all(txn, &later)?;
    }
    for Due { db, .. } in due {
        txn.count_freed(txn.keys(db));
        txn.flush(Some(db))?;
        txn.tell(db, &[b"FLUSHDB"]);
    }
    Ok(later.iter().map(|due| due.moment_ms).min())
}

/// The next moment, in milliseconds since the epoch; it may have come already.
///
/// # Errors
/// Those of the transaction.
pub fn next(txn: &Txn<'_>) -> Result<Option<u64>, Stop> {
    Ok(read(txn)?.iter().map(|due| due.moment_ms).min())
}

/// The moments that are known.
fn read(txn: &Txn<'_>) -> Result<Vec<Due>, Stop> {
    let stored = txn.peek(SYSTEM, KEY)?;
    let bytes = stored
        .map(|found| string::contiguous(txn, &found.value).map(|bytes| bytes.into_owned()))
        .transpose()?;
    Ok(dues(&bytes.unwrap_or_default()).collect())
}

fn dues(stored: &[u8]) -> impl Iterator<Item = Due> {
    stored.chunks_exact(BYTES).filter_map(Due::read)
}

fn write_all(txn: &Txn<'_>, all: &[Due]) -> Result<(), Stop> {
    if all.is_empty() {
        return txn.remove(SYSTEM, KEY, Replaces::Whole).map(drop);
    }
    let bytes: Vec<u8> = all.iter().flat_map(|due| due.bytes()).collect();
    txn.write(SYSTEM, KEY, &New::of(Kind::String, Value::Packed(&bytes)), Replaces::Whole)
}

impl Due {
    fn bytes(self) -> Vec<u8> {
        [&self.db.to_le_bytes()[..], &self.moment_ms.to_le_bytes()].concat()
    }

    fn read(bytes: &[u8]) -> Option<Due> {
        let (db, rest) = bytes.split_first_chunk()?;
        Some(Due { db: Db::from_le_bytes(*db), moment_ms: u64::from_le_bytes(rest.try_into().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_it_was_written() {
        let due = Due { db: 3, moment_ms: 0x0102_0304_0506_0708 };
        assert_eq!(Due::read(&due.bytes()), Some(due));
        assert_eq!(due.bytes().len(), BYTES);
        assert_eq!(Due::read(b"123"), None);
    }
}
