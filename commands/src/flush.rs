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
//! ITEM.FLUSH without a delay empties at once and forgets a moment that is still to come, as memcached does. RDB files and
//! the change log do not keep a moment.
use polder_calls::call::{Call, Outcome, SYNTAX, is};
use polder_calls::command::{Command, DANGEROUS, KEYSPACE, write};
use polder_calls::facts::Tells::Own;
use polder_table::{Db, New, Replaces, SYSTEM, Stop, Txn};
use polder_values::{Kind, Value, string};

use crate::item::{Expiry, moment};

const KEY: &[u8] = b"flushes";
const BYTES: usize = size_of::<Db>() + size_of::<u64>();

/// The family's rows.
pub const COMMANDS: &[Command] = &[write("ITEM.FLUSH", "[EX seconds|EXAT unix-time-seconds]", flush)
    .tells(Own("`FLUSHDB`, when it is done"))
    .with(DANGEROUS | KEYSPACE)
    .costs("O(1); a sweeper frees the memory afterwards.")
    .about(
        "Removes all keys from the current database, at once or at a later moment. A later call replaces the moment; one without \
         a moment forgets it. A server has to be there at the moment, or the next one does it when it starts.",
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
        _ => return Err(SYNTAX.into()),
    };
    let db = call.db();
    let mut all = read(call.txn)?;
    let known = all.len();
    all.retain(|due| due.db != db);
    match expiry {
        Expiry::At(moment_ms) if moment_ms > call.txn.now_ms() => {
            all.push(Due { db, moment_ms });
            write_all(call.txn, &all)?;
        }
        _ => {
            if all.len() != known {
                write_all(call.txn, &all)?;
            }
            call.txn.count_freed(call.txn.keys(db));
            call.txn.flush(Some(db))?;
            call.tell(&[b"FLUSHDB"]);
        }
    }
    call.reply.ok();
    Ok(())
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
    let bytes = stored.map(|found| string::contiguous(txn, &found.value).map(|bytes| bytes.into_owned())).transpose()?;
    Ok(bytes.unwrap_or_default().chunks_exact(BYTES).filter_map(Due::read).collect())
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
