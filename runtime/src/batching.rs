//! Calls that follow each other in a pipeline and change the same key share one transaction; so do those that read the same key, those that
//! post messages, runs of one script on one key, and EXECs ([`transaction::exec_together`]).
//!
//! Alone, each call would lock the bucket, copy the leaves and the path that it changes, commit and
//! unlock. Together they lock once, edit in place what the first of them has copied, and commit
//! once; that is three quarters of the cost of a push to a long list. Calls of one command go
//! further if its row has a function for many of them ([`Command::many`]): a hundred pushes are one
//! longer push. Reads find the key once, and see it as it was then. Those with a function for many
//! go down its tree side by side, so that their cache misses overlap.
//!
//! ```text
//!   call 1  call 2  ...  call n      each checked as ever before the transaction begins (admit)
//!     |       |            |
//!     `-- one transaction --'        what one refuses is its own reply and stops nothing, as in EXEC (rule C1)
//!               |
//!            commit                  the replies leave after it; Retry rewinds all of them
//! ```
//!
//! **Invariant:** it is as if the calls had been made one by one with no other call between them.
//! If the transaction fails (no memory left for new nodes, a damaged value), nothing has happened.
//! Each call is then made by itself, so that only the one that fails gets the error.
use polder_base::Reply;
use polder_shm::layout::interest;
use polder_table::{Db, Mode, Stop, Table};
use smallvec::SmallVec;

use crate::call_group::CallGroup;
use crate::execute::{admit, execute, refuse};
use crate::lookup::resolve;
use crate::row::SessionCall;
use crate::run::{Progress, begin, is_plain, permit, run_inside, run_many_inside, writes_restricted};
use crate::session::{Host, Replies, Session};
use crate::{scripting, transaction};
use polder_calls::command::{BatchKey, Command};

/// The most calls that share a transaction: others wait for the key meanwhile.
pub const TOGETHER_MAX: usize = 128;

/// Runs the first of `calls`, and with it those directly behind it that may share its transaction.
/// Returns how many have been run and have their replies. None ([`Progress::Busy`]) means that it
/// is as if no call had been made.
pub fn execute_together(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    calls: &[&[&[u8]]],
    reply: &mut dyn Reply,
) -> (usize, Progress) {
    if session.multi.is_some()
        && let Some(done) = transaction::exec_together(table, session, host, calls, reply)
    {
        return done;
    }
    let rows = group(table, session, host, calls);
    if rows.len() < 2 || writes_restricted(host) {
        return one_by_one(table, session, host, &calls[..1], reply);
    }
    let calls = &calls[..rows.len()];
    let mark = reply.mark();
    match run_together(table, session, host, &rows, calls, reply) {
        Ok(done) => {
            session.tally.last = rows.get(done - 1).copied();
            session.tally.calls += done as u64;
            (done, Progress::Answered)
        }
        Err(Stop::Busy) => {
            reply.rewind(mark);
            (0, Progress::Busy)
        }
        // No script begins any more; other calls are made by themselves, so that each is told what it meets.
        Err(stop)
            if host.is_ending() && matches!(rows[0].batch_key(calls[0]), Some(BatchKey::Program { .. })) =>
        {
            reply.rewind(mark);
            calls.iter().for_each(|_| refuse(host, reply, stop.clone()));
            (calls.len(), Progress::Answered)
        }
        Err(_) => {
            reply.rewind(mark);
            one_by_one(table, session, host, calls, reply)
        }
    }
}

/// The rows of the calls that may share a transaction, from the first on.
fn group(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    calls: &[&[&[u8]]],
) -> SmallVec<[&'static Command; TOGETHER_MAX]> {
    let mut rows = SmallVec::new();
    if session.multi.is_some() || session.replies != Replies::On {
        return rows;
    }
    let (mut batch_key, mut last) = (None, None::<(&[u8], &'static Command)>);
    for args in calls.iter().take(TOGETHER_MAX) {
        let again = last.filter(|(name, _)| *name == args[0]).map(|(_, row)| row);
        let row = match again {
            // What has let in the call before lets this one in, too: nothing has happened since.
            Some(row) if row.arity_fits(args.len()) && session.is_free(host) => Ok(row),
            _ => again.map_or_else(|| resolve(args), Ok).and_then(|row| {
                let row = admit(row, table, session, host, args, false)?;
                permit(host, row)
            }),
        };
        match row {
            Ok(row) => match row.batch_key(args) {
                Some(own) if *batch_key.get_or_insert(own) == own => rows.push(row),
                _ => break,
            },
            _ => break,
        }
        // No call may come between the first call and the next.
        if rows.len() == 1 && batch_key.is_some_and(|batch_key| !may_share(table, session, host, batch_key)) {
            break;
        }
        last = rows.last().map(|row| (args[0], *row));
    }
    rows
}

/// Whether calls may share a transaction: no client that listens to changes of keys, nor the client
/// that makes them, hears of each call before the next, and each access of a key need not be
/// counted.
pub fn may_share(table: &Table, session: &Session, host: &dyn Host, batch_key: BatchKey<'_>) -> bool {
    let listeners = table.interest() & !interest::CLIENTS;
    match batch_key {
        BatchKey::Key(_) => listeners == 0,
        BatchKey::Reads(_) => reads_share(table, session, host),
        // Room is made between scripts, outside of any transaction.
        BatchKey::Program { .. } => {
            listeners == 0 && table.is_unlimited() && reads_share(table, session, host)
        }
        BatchKey::Messages => listeners & !interest::SUBSCRIBERS == 0 && !session.hears_between_calls(),
    }
}

/// Whether a session's reads of one key may share a transaction.
fn reads_share(table: &Table, session: &Session, host: &dyn Host) -> bool {
    is_plain(table, session, host) && !table.counts_frequency() && table.interest() & interest::MISSES == 0
}

fn one_by_one(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    calls: &[&[&[u8]]],
    reply: &mut dyn Reply,
) -> (usize, Progress) {
    for (done, args) in calls.iter().enumerate() {
        if execute(table, session, host, args, reply) == Progress::Busy {
            return (done, Progress::Busy);
        }
    }
    (calls.len(), Progress::Answered)
}

/// What calls that have this in common share a transaction for: whether it writes, and the key that it is about.
fn purpose(batch_key: Option<BatchKey<'_>>, db: Db) -> (Mode, Option<(Db, &[u8])>) {
    match batch_key {
        Some(BatchKey::Key(key)) => (Mode::Write, Some((db, key))),
        Some(BatchKey::Reads(key)) => (Mode::Read, Some((db, key))),
        Some(BatchKey::Program { key, .. }) => (Mode::Read, key.map(|key| (db, key))),
        _ => (Mode::Read, None),
    }
}

/// How many rows are the first one, if it has a function for many calls; else one.
fn alike(rows: &[&'static Command]) -> usize {
    match rows[0].many {
        Some(_) => rows.iter().take_while(|row| std::ptr::eq(**row, rows[0])).count(),
        None => 1,
    }
}

fn run_together(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    rows: &[&'static Command],
    calls: &[&[&[u8]]],
    reply: &mut dyn Reply,
) -> Result<usize, Stop> {
    let batch_key = rows[0].batch_key(calls[0]);
    let (mode, key) = purpose(batch_key, session.caller.db);
    if batch_key == Some(BatchKey::Messages) {
        polder_hub::attend(table)?;
    }
    let scripts = matches!(batch_key, Some(BatchKey::Program { .. }));
    let location = key.filter(|_| mode == Mode::Write).and_then(|(db, key)| table.location(db, key));
    let mut txn = begin(table, session, mode)?;
    if !scripts {
        txn.joins_calls();
    }
    if let (Mode::Read, Some((db, key))) = (mode, key) {
        txn.share(db, key);
    }
    let group = CallGroup::new(table, txn, key.as_slice(), location.as_ref());
    // However often a call is run, it is counted at its first end.
    let mut counted = std::mem::take(&mut session.tally.counted).of(calls[0]);
    let (mut done, mut singly) = (calls.len(), false);
    let outcome = group.run(reply, |txn, reply| {
        let mut number = 0;
        while number < calls.len() {
            let command = rows[number];
            if scripts {
                scripting::prepare_next(session, number);
            }
            let alike = alike(&rows[number..]);
            let counts = counted.begin(session, number);
            let mut call = SessionCall {
                command,
                args: calls[number],
                table,
                reply: &mut *reply,
                session: &mut *session,
                host,
            };
            let counted_before = counted.calls.saturating_sub(number);
            let same = &calls[number..number + alike];
            let many = run_many_inside(&mut call, txn, same, counted_before, &mut singly)?;
            let outcome = if many == 0 { run_inside(&mut call, txn, counts) } else { Ok(()) };
            number += many.max(1);
            counted.end(session, number - 1, outcome.is_ok());
            outcome?;
            // Others have waited for long enough: those behind it begin anew.
            if session.script.slow {
                break;
            }
        }
        done = number;
        Ok(())
    });
    session.script = scripting::Memo::default();
    session.tally.counted = if outcome.is_ok() { counted.behind(done) } else { counted.keep_for(calls[0]) };
    outcome?;
    group.end(done as u64);
    Ok(done)
}
