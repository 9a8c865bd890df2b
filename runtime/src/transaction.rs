//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! An EXEC is one transaction of the table: the keys of all queued commands are declared at once, every command writes
//! its reply behind the others', and one commit publishes all of it. Should the table ask for another run, the replies are
//! rewound and the session (SELECT, CLIENT SETNAME and the like may stand in the queue) is put back as it was. Should a lock stay
//! taken for too long, the queue is put back, too. However often a queued command runs, it is counted at its first end.
//!
//! EXECs that follow each other in a pipeline share a transaction where all of it has come already ([`exec_together`]):
//!
//! ```text
//!   EXEC | MULTI  call ... call  EXEC | MULTI  call ... call  EXEC
//!    queue '------ a block -----------' '------ a block ----------'     one declaration of all keys, one commit
//! ```
use std::collections::HashSet;
use std::time::Instant;

use polder_base::{Reply, number};
use polder_shm::layout::interest;
use polder_table::{Db, Mode, Stop, Table, Txn, Watch};

use smallvec::SmallVec;

use crate::acl;
use crate::call_group::CallGroup;
use crate::lookup::{find, find_original};
use crate::retry::retry;
use crate::row::{Row, SessionCall, session};
use crate::run::{
    Keys, Progress, begin, begin_scheduled_save, is_plain, permit_writes, run_inside, spare_memory,
    writes_restricted,
};
use crate::scripting;
use crate::session::{Host, Multi, Session};
use polder_calls::call::Outcome;
use polder_calls::command::{
    ADMIN, ALLOW_BUSY, AT_ONCE, BLOCKING, Command, DANGEROUS, FAST, FastGroup, GROWS, LOADING, NO_MULTI,
    NOSCRIPT, PUBSUB, QUEUES, RUNS_QUEUE, SCRIPTS, SELECTS, SKIP_SLOWLOG, STALE,
};
use polder_calls::settings::id;

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    session("MULTI", "", multi)
        .with(NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY | AT_ONCE | QUEUES)
        .since("1.2.0")
        .about("Starts a transaction."),
    session("EXEC", "", exec)
        .with(NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG | AT_ONCE | RUNS_QUEUE)
        .since("1.2.0")
        .costs("Depends on commands in the transaction")
        .about("Executes all commands in a transaction."),
    session("DISCARD", "", discard)
        .with(NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY | AT_ONCE)
        .since("2.0.0")
        .costs("O(N), when N is the number of queued commands")
        .about("Discards a transaction."),
    session("WATCH", "key [key ...]", watch)
        .with(NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY | AT_ONCE)
        // It would need a transaction beside the script's.
        .busy_where(|_| false)
        .touches(&["RO"])
        .since("2.2.0")
        .costs("O(1) for every key.")
        .about("Monitors changes to keys to determine the execution of a transaction."),
    session("UNWATCH", "", unwatch)
        .with(NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY)
        .since("2.2.0")
        .about("Forgets about watched keys of a transaction."),
];

/// Puts a command off until EXEC.
pub(crate) fn queue(session: &mut Session, command: &'static Command, args: &[&[u8]], reply: &mut dyn Reply) {
    if let Some(multi) = &mut session.multi {
        if !multi.broken {
            multi.queue.push(command, args);
        }
        reply.status("QUEUED");
    }
}

/// A command was refused before it could be queued or run: the EXEC to come will abort, a refused
/// EXEC aborts at once. Returns the client's error.
pub(crate) fn abort_multi(session: &mut Session, args: &[&[u8]], stop: Stop) -> Stop {
    if let Some(multi) = &mut session.multi {
        multi.broken = true;
    }
    match stop {
        Stop::Refused(why)
            if args.first().and_then(|name| find(name)).is_some_and(|command| command.has(RUNS_QUEUE)) =>
        {
            session.multi = None;
            session.watches.clear();
            let why = why.strip_prefix("ERR ").unwrap_or(&why);
            format!("EXECABORT Transaction discarded because of: {why}").into()
        }
        other => other,
    }
}

fn multi(call: &mut SessionCall<'_>) -> Outcome {
    if call.session.multi.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.session.multi = Some(Box::<Multi>::default());
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut SessionCall<'_>) -> Outcome {
    if call.session.multi.take().is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    call.session.watches.clear();
    call.reply.ok();
    Ok(())
}

fn watch(call: &mut SessionCall<'_>) -> Outcome {
    if call.session.multi.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let (db, keys) = (call.session.caller.db, &call.args[1..]);
    let txn = begin(call.table, call.session, Mode::Write)?;
    let watched: HashSet<&[u8]> =
        call.session.watches.iter().filter(|old| old.db == db).map(|old| &old.key[..]).collect();
    let mut seen = HashSet::new();
    let wanted: Vec<&[u8]> =
        keys.iter().copied().filter(|key| !watched.contains(key) && seen.insert(*key)).collect();
    let mut fresh: Vec<Watch> = Vec::new();
    retry(&txn, || {
        fresh.clear();
        wanted.iter().try_for_each(|key| {
            fresh.push(txn.watch(db, key)?);
            Ok(())
        })
    })?;
    call.session.watches.add(fresh);
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut SessionCall<'_>) -> Outcome {
    call.session.watches.clear();
    call.reply.ok();
    Ok(())
}

/// Before the transaction of an EXEC: what its commands need.
fn prepare(call: &mut SessionCall<'_>, multi: &Multi) -> Outcome {
    let has = |flags| multi.queue.commands().any(|command| command.has(flags));
    if multi.queue.commands().any(|command| command.is_write())
        && let Err(stop) = permit_writes(call.host)
    {
        return Err(abort_multi(call.session, call.args, stop));
    }
    if has(GROWS)
        && let Err(stop) = spare_memory(call.table, true)
    {
        return Err(abort_multi(call.session, call.args, stop));
    }
    if has(PUBSUB) {
        polder_hub::attend(call.table)?;
    }
    if has(SCRIPTS) {
        scripting::prepare(call.session, call.table);
    }
    Ok(())
}

fn exec(call: &mut SessionCall<'_>) -> Outcome {
    let Some(mut multi) = call.session.multi.take() else { return Err("ERR EXEC without MULTI".into()) };
    let watches = std::mem::take(&mut call.session.watches);
    // Of those EXECs whose calls have been counted together this was the next, however it ends.
    let counted_queued = std::mem::take(&mut call.session.tally.counted_queued);
    if multi.broken {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    prepare(call, &multi)?;
    if watches.is_empty() && multi.counted.calls + counted_queued == 0 && runs_as_group(call, &multi) {
        return Ok(());
    }
    let writes = multi.queue.commands().any(|command| command.mode() == Some(Mode::Write));
    let words = multi.queue.words();
    let databases = call.host.settings().number(const { id("databases") });
    // Where something is written they are noted in their place among the changes.
    if call.session.listening.tracking.is_some() && !writes {
        note_reads(call, &multi, &words, databases);
    }
    multi.counted.calls += counted_queued;
    let txn = begin(call.table, call.session, if writes { Mode::Write } else { Mode::Read })?;
    let mut keys = declared(&multi, &words, call.session, databases);
    keys.extend(watches.iter().map(|watch| (watch.db, &watch.key[..])));
    let group = CallGroup::new(call.table, txn, &keys, None);
    let (before, mut counted) = (call.session.clone(), multi.counted);
    let mut again = false;
    let SessionCall { table, ref mut session, host, ref mut reply, .. } = *call;
    let outcome = group.run(&mut **reply, |txn, reply| {
        if std::mem::replace(&mut again, true) {
            session.clone_from(&before);
        }
        session.caller.atomic = true;
        for watch in watches.iter() {
            if !txn.unchanged(watch)? {
                reply.null_array();
                return Ok(());
            }
        }
        reply.array(multi.queue.len());
        for (number, (command, args)) in multi.queue.calls(&words).enumerate() {
            let counts = counted.begin(session, number);
            let mut call = SessionCall { command, args, table, reply: &mut *reply, session, host };
            let outcome = run_queued(&mut call, txn, counts);
            counted.end(session, number, outcome.is_ok());
            outcome?;
        }
        session.settle_reads(txn)
    });
    let (many, is_busy) = (multi.queue.len(), outcome == Err(Stop::Busy));
    group.end(if is_busy { 0 } else { many as u64 });
    if outcome.is_err() {
        *call.session = before;
    } else {
        call.session.caller.atomic = before.caller.atomic;
        call.session.apply_news(call.table);
        begin_scheduled_save(call.host, call.table);
    }
    drop(keys);
    if is_busy {
        multi.counted = counted;
        call.session.multi = Some(multi);
        call.session.watches = watches;
    } else {
        call.session.tally.counted_queued = counted.behind(many).calls;
        polder_hub::query::forget(call.table, call.session.identity.id);
    }
    give_role(call, &outcome);
    outcome
}

/// Runs the queue by the fast path for groups. Returns false if nothing has happened.
fn runs_as_group(call: &mut SessionCall<'_>, multi: &Multi) -> bool {
    let mut rows = multi.queue.commands();
    let Some(row) = rows.next().filter(|row| row.group.is_some()) else { return false };
    if !rows.all(|other| std::ptr::eq(row, other)) {
        return false;
    }
    let words = multi.queue.words();
    let calls: SmallVec<[&[&[u8]]; CALLS]> = multi.queue.calls(&words).map(|(_, args)| args).collect();
    let SessionCall { table, ref mut session, host, ref mut reply, .. } = *call;
    run_group(table, session, host, (row, calls.len() as u64), &calls, &mut **reply)
}

/// Runs calls of one command as one transaction by its fast path, where nothing about the session or the memory asks for more. `counted` of them are
/// added to the count of calls. Returns false if nothing has happened.
fn run_group(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    (row, counted): (&'static Command, u64),
    calls: &[&[&[u8]]],
    reply: &mut dyn Reply,
) -> bool {
    let may = is_plain(table, session, host)
        && !(row.is_write() && writes_restricted(host))
        && (!row.has(GROWS) || table.make_room());
    let (Some(group), true) = (row.group, may) else { return false };
    let Some(begun) = host.recorder().begin_many(host.settings()) else { return false };
    let (mark, now_ms) = (reply.mark(), session.clock_ms());
    reply.array(calls.len());
    if !group(&FastGroup { table, db: session.caller.db, calls, now_ms, counted }, reply) {
        reply.rewind(mark);
        return false;
    }
    host.recorder().end_many(host.settings(), row, begun, calls.len() as u64);
    true
}

/// Runs calls as one transaction, as if MULTI stood before them and EXEC behind them, by the fast path of their command. Returns false, having done
/// nothing, if they are of several commands, or it has none for them.
pub fn execute_group(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    calls: &[&[&[u8]]],
    reply: &mut dyn Reply,
) -> bool {
    let Some(&[name, ..]) = calls.first() else { return false };
    let Some(row) = find(name).filter(|row| row.group.is_some()) else { return false };
    let is_alike = |args: &&[&[u8]]| args.first() == Some(name) && row.arity_fits(args.len());
    if !calls.iter().all(is_alike) || !session.watches.is_empty() || session.tally.counted_queued > 0 {
        return false;
    }
    let begun = Instant::now();
    // MULTI and EXEC are calls, too.
    if !run_group(table, session, host, (row, calls.len() as u64 + 2), calls, reply) {
        return false;
    }
    note_execs(session, host, [begun, begun], [1, 1]);
    session.tally.calls += calls.len() as u64 + 2;
    true
}

/// Counts MULTIs and EXECs that have been run together, each with the time at which that began.
fn note_execs(session: &mut Session, host: &dyn Host, begun: [Instant; 2], counts: [usize; 2]) {
    for (at, name) in ["MULTI", "EXEC"].into_iter().enumerate() {
        session.tally.last = find_original(name.as_bytes());
        session.tally.last.into_iter().for_each(|row| {
            host.recorder().end_many(host.settings(), row, begun[at], counts[at] as u64);
        });
    }
}

/// Gives the memory the role that one of the calls wanted.
#[cold]
fn give_role(call: &mut SessionCall<'_>, outcome: &Outcome) {
    let role = call.session.replica.as_deref_mut().and_then(|replica| replica.new_role.take());
    let Some(role) = role.filter(|_| outcome.is_ok()) else { return };
    if let Err(stop) = role.give(call.table) {
        tracing::error!(%stop, "the memory has not got the role that a transaction gave it: give REPLICAOF again");
    }
}

/// Notes for a tracking client what its queue reads.
fn note_reads(call: &mut SessionCall<'_>, multi: &Multi, words: &[&[u8]], databases: i64) {
    let mut db = call.session.caller.db;
    for (command, args) in multi.queue.calls(words) {
        call.session.note_reads(call.table, db, command, args);
        db = selected_by(command, args, db, databases);
    }
}

/// How many of the last keys are searched before a key is declared again.
const KEYS_LOOKED_AT: usize = 8;

/// Calls of a block that there is room for at once.
const CALLS: usize = 16;

/// Calls that an EXEC makes, with their rows.
type Block<'a> = Vec<(&'static Command, &'a [&'a [u8]])>;

/// Runs the EXEC that is the first of `calls` and the whole MULTIs to EXECs directly behind it in
/// one transaction, as if they had been made one by one with no other call between them. Returns
/// how many calls are done. Returns `None`, having done nothing, if the EXEC is to be made by
/// itself.
pub(crate) fn exec_together(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    calls: &[&[&[u8]]],
    reply: &mut dyn Reply,
) -> Option<(usize, Progress)> {
    let listeners = table.interest() & !interest::CLIENTS;
    let is_exec =
        matches!(calls, [[name], _, ..] if find(name).is_some_and(|command| command.has(RUNS_QUEUE)));
    if !is_exec || listeners != 0 || !session.watches.is_empty() || writes_restricted(host) {
        return None;
    }
    // Where some of them have been counted, each EXEC is made by itself.
    let is_fresh = session.tally.counted_queued == 0;
    let fits = |multi: &mut Box<Multi>| {
        !multi.broken && multi.counted.calls == 0 && multi.queue.commands().all(is_simple)
    };
    let mut multi = session.multi.take_if(|multi| is_fresh && fits(multi))?;
    let grows = multi.queue.commands().any(|command| command.has(GROWS));
    if !is_plain(table, session, host) || grows && !table.make_room() {
        session.multi = Some(multi);
        return None;
    }
    let words = multi.queue.words();
    let mut blocks: Vec<Block<'_>> = vec![multi.queue.calls(&words).collect()];
    blocks.extend(whole_blocks(table, calls));
    let begun = host.recorder().begin_many(host.settings()).filter(|_| blocks.len() > 1);
    let outcome =
        begun.ok_or(0).and_then(|begun| run_blocks(table, session, host, &blocks, reply).map(|()| begun));
    let begun = match outcome {
        Ok(begun) => begun,
        Err(counted) => {
            drop(blocks);
            drop(words);
            multi.counted.calls = counted;
            session.multi = Some(multi);
            return None;
        }
    };
    let (queued, execs) = (blocks[1..].iter().map(Vec::len).sum::<usize>(), blocks.len());
    let done = 1 + queued + 2 * (execs - 1);
    note_execs(session, host, [Instant::now(), begun], [execs - 1, execs]);
    session.tally.calls += done as u64;
    Some((done, Progress::Answered))
}

/// Whether a command does nothing but to the table, so that a queue of such commands needs no preparation and leaves the session alone.
fn is_simple(command: &'static Command) -> bool {
    command.mode().is_some() && !command.has(PUBSUB | SCRIPTS | BLOCKING | NOSCRIPT | ADMIN | DANGEROUS)
}

/// The blocks behind an EXEC that have come whole, and whose calls would all be queued.
fn whole_blocks<'a>(table: &Table, calls: &'a [&'a [&'a [u8]]]) -> Vec<Block<'a>> {
    /// The most bytes of arguments before the limit of memory is looked at again.
    const BYTES_MAX: usize = 64 << 10;
    let (mut blocks, mut block, mut bytes, is_unlimited) =
        (Vec::new(), None::<Block<'a>>, 0, table.is_unlimited());
    for args in &calls[1..] {
        if !is_unlimited {
            bytes += args.iter().map(|arg| arg.len()).sum::<usize>();
            if bytes > BYTES_MAX {
                break;
            }
        }
        let Some(row) = admitted(table, args) else { break };
        match &mut block {
            Some(block) if is_simple(row) => block.push((row, *args)),
            Some(_) if row.has(RUNS_QUEUE) => blocks.extend(block.take()),
            None if row.has(QUEUES) => block = Some(Vec::with_capacity(CALLS)),
            _ => break,
        }
    }
    blocks
}

/// The row of a call that a session would admit and that is plain ([`is_plain`]): as
/// `execute::admit`. What is admitted now is admitted when its turn comes, since nothing else
/// happens before.
fn admitted(table: &Table, args: &[&[u8]]) -> Option<&'static Command> {
    let row = find(args.first()?)?;
    let is_whole = row.arity_fits(args.len()) && !row.has(NO_MULTI) && row.subcommand().is_none();
    (is_whole && (!row.has(GROWS) || table.make_room())).then_some(row)
}

/// The one transaction of several EXECs. If it fails, returns how many of the calls have been
/// counted by then.
fn run_blocks(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    blocks: &[Block<'_>],
    reply: &mut dyn Reply,
) -> Result<(), usize> {
    let writes = |(command, _): &(&'static Command, _)| command.mode() == Some(Mode::Write);
    let mode = if blocks.iter().flatten().any(writes) { Mode::Write } else { Mode::Read };
    // In the order in which they are going to be asked for, so that each is found at once. Most that come again come soon.
    let mut keys = Keys::new();
    for (command, args) in blocks.iter().flatten() {
        command.each_key(args, |at, _| {
            let is = |(_, near): &(_, &[u8])| {
                near.len() == args[at].len() && near.last() == args[at].last() && *near == args[at]
            };
            if !keys.iter().rev().take(KEYS_LOOKED_AT).any(is) {
                keys.push((session.caller.db, args[at]));
            }
        });
    }
    let txn = begin(table, session, mode).map_err(|_| 0usize)?;
    let (mark, mut counted) = (reply.mark(), 0);
    let group = CallGroup::new(table, txn, &keys, None);
    session.caller.atomic = true;
    let outcome = group.run(reply, |txn, reply| {
        let mut number = 0;
        for (at, block) in blocks.iter().enumerate() {
            if at > 0 {
                reply.ok();
                block.iter().for_each(|_| reply.status("QUEUED"));
            }
            reply.array(block.len());
            for (command, args) in block {
                let mut call =
                    SessionCall { command, args, table, reply: &mut *reply, session: &mut *session, host };
                run_inside(&mut call, txn, number >= counted)?;
                number += 1;
                counted = counted.max(number);
            }
        }
        Ok(())
    });
    session.caller.atomic = false;
    if outcome.is_err() {
        reply.rewind(mark);
    } else {
        // The MULTIs and EXECs, and what they have run.
        group.end((counted + 2 * blocks.len() - 1) as u64);
    }
    outcome.map_err(|_| counted)
}

/// The keys of all queued commands, each in the database that will be selected by then.
fn declared<'w>(multi: &Multi, words: &[&'w [u8]], session: &Session, databases: i64) -> Keys<'w> {
    let (mut db, mut keys) = (session.caller.db, Keys::new());
    for (command, args) in multi.queue.calls(words) {
        command.each_key(args, |at, _| {
            if keys.last() != Some(&(db, args[at])) {
                keys.push((db, args[at]));
            }
        });
        db = selected_by(command, args, db, databases);
    }
    keys
}

/// The database of the calls behind this one. A SELECT of one that there is not will be refused, and changes nothing.
fn selected_by(command: &Command, args: &[&[u8]], db: Db, databases: i64) -> Db {
    // Hidden from the optimizer, which else compares the number before it looks whether there is one: valgrind reports that.
    let number = command.has(SELECTS).then(|| number::integer(args[1])).flatten().map(std::hint::black_box);
    number.filter(|number| *number < databases).and_then(|number| number.try_into().ok()).unwrap_or(db)
}

/// Runs one queued command inside the transaction.
fn run_queued(call: &mut SessionCall<'_>, txn: &Txn<'_>, counts: bool) -> Outcome {
    if let Err(text) = acl::admit_queued(call.session, call.host, call.command, call.args, counts) {
        if counts {
            call.host.recorder().count_error(&text);
        }
        call.reply.error(&text);
        return Ok(());
    }
    run_inside(call, txn, counts)
}
