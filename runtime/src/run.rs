//! A call's function is run: inside a transaction of its own or of several calls, or on the session. What counts it, and what keeps writers from
//! writing. [`crate::execute`] decides which calls come here.
use std::time::Duration;

use polder_base::time;
use polder_table::{Db, Mode, READ_ONLY, Stop, Table, Txn};
use smallvec::SmallVec;

use crate::line_limit::LineLimit;
use crate::locks::lock;
use crate::noting::{Cost, is_large, note_call, note_spike, request_bytes};
use crate::recorder::Watch;
use crate::row::{SessionCall, TxnCall, Work, work};
use crate::saves::has_save_points;
use crate::session::{Host, Replies, Session};
use crate::{acl, monitor};
use polder_calls::call::{Call, NO_MEMORY, Outcome, tell_of, telling};
use polder_calls::command::{
    Command, EMPTIES, EXPLAINS, FAST, FOLLOWS, READONLY, Run, SCRIPTS, TELLS_UNSAVED,
};
use polder_calls::facts::Tells;
use polder_calls::settings::id;

/// The keys of a call or of a whole EXEC; a few need no allocation.
pub(crate) type Keys<'a> = SmallVec<[(Db, &'a [u8]); 4]>;

/// What a command that writes is told after a save that failed.
const UNSAVED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify \
    the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails \
    (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";

/// What has become of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It was run, or refused, and answered.
    Answered,
    /// Another process held a lock for longer than [`Session::patience_us`]: it is as if the call had not been made.
    Busy,
    /// It waits for a key, and nothing has been answered: [`resume`] runs it again, [`give_up`] ends it. Only where [`Session::parks`].
    Waiting,
}

/// Whether nothing about the session makes a call more than the call itself.
#[inline]
pub fn is_plain(table: &Table, session: &Session, host: &dyn Host) -> bool {
    session.is_free(host)
        && session.multi.is_none()
        && session.replies == Replies::On
        && !session.caller.no_touch
        && !session.is_special()
        && !monitor::is_watched(table)
}

/// Counts a call that has run, and shows it to the command log and the latency monitor if it took long or was large.
pub(crate) fn note(
    host: &dyn Host,
    session: &Session,
    command: &'static Command,
    args: &[&[u8]],
    watch: Watch,
    failed: bool,
    reply_bytes: usize,
) {
    let lap = host.recorder().end(host.settings(), watch, failed);
    if lap.notable || is_large(host, args, reply_bytes) {
        note_call(host, session, command, args, Cost { nanoseconds: lap.nanoseconds, reply_bytes });
    }
    if lap.notable {
        track_keys(host, command, args, lap.nanoseconds, reply_bytes);
        note_spike(host, command, lap.nanoseconds);
    }
}

/// Counts a call for HOTKEYS.
#[cold]
fn track_keys(host: &dyn Host, command: &Command, args: &[&[u8]], nanoseconds: u64, reply_bytes: usize) {
    let mut tracked = lock(&host.recorder().hot_keys);
    let Some(tracking) = tracked.as_mut() else { return };
    if tracking.goes_on() {
        tracking.add(command, args, nanoseconds, (request_bytes(args) + reply_bytes) as u64);
    } else {
        host.settings().watch_every_call(false);
    }
}

/// As [`note`], of a call that has been counted when it began and is not timed.
#[inline]
pub(crate) fn settle(
    host: &dyn Host,
    session: &Session,
    command: &'static Command,
    args: &[&[u8]],
    failed: bool,
    reply_bytes: usize,
) {
    if failed {
        host.recorder().fail(command);
    }
    if is_large(host, args, reply_bytes) {
        note_call(host, session, command, args, Cost { nanoseconds: 0, reply_bytes });
    }
}

/// Whether writes may have to be refused, which [`permit_writes`] finds out.
#[inline]
pub fn writes_restricted(host: &dyn Host) -> bool {
    let signals = host.save_signals();
    signals.is_failing() || signals.lacks_log() || host.recorder().is_replica() || lacks_replicas(host)
}

/// Returns true if writes want more replicas than there are that have acknowledged something lately: those of all servers of the memory count.
#[inline]
fn lacks_replicas(host: &dyn Host) -> bool {
    let wanted = host.settings().number(const { id("min-replicas-to-write") });
    wanted > 0 && has_fewer_replicas(host, wanted as u64)
}

#[cold]
fn has_fewer_replicas(host: &dyn Host, wanted: u64) -> bool {
    let lag_seconds = host.settings().number(const { id("min-replicas-max-lag") });
    lag_seconds > 0 && host.recorder().replicas_within(lag_seconds as u64) < wanted
}

/// Whether the last save failed and writes are to stop then.
pub(crate) fn is_unsaved(host: &dyn Host) -> bool {
    let settings = host.settings();
    host.save_signals().is_failing()
        && settings.is_on(const { id("stop-writes-on-bgsave-error") })
        && has_save_points(settings)
}

/// Refuses writes that the disk would not get.
fn permit_by_disk(host: &dyn Host) -> Outcome {
    if is_unsaved(host) {
        return Err(UNSAVED.into());
    }
    host.save_signals().log_trouble().map_or(Ok(()), |why| Err(why.into()))
}

/// Refuses writes that no client is allowed now.
///
/// # Errors
/// Redis's texts: READONLY in a replica; MISCONF after a save that failed, or while the append-only log cannot be written; NOREPLICAS.
pub fn permit_writes(host: &dyn Host) -> Outcome {
    if host.recorder().is_replica() {
        return Err(READ_ONLY.into());
    }
    permit_by_disk(host)?;
    if lacks_replicas(host) {
        return Err("NOREPLICAS Not enough good replicas to write.".into());
    }
    Ok(())
}

/// The same for a command, if it writes; PING tells of a save that failed, too.
pub(crate) fn permit(host: &dyn Host, command: &'static Command) -> Result<&'static Command, Stop> {
    if command.is_write() {
        permit_writes(host)?;
    } else if command.has(TELLS_UNSAVED) {
        permit_by_disk(host)?;
    }
    Ok(command)
}

/// Makes room by the eviction policy where memory is short; refuses where that cannot be.
///
/// # Errors
/// Redis's OOM text; [`Stop::Busy`] where values are leaving for a tier and the caller does not wait for that.
pub(crate) fn spare_memory(table: &Table, waits: bool) -> Outcome {
    match table.make_room() || waits && table.await_spills() {
        true => Ok(()),
        false if !waits && table.is_spilling() => Err(Stop::Busy),
        false => Err(NO_MEMORY.into()),
    }
}

/// Runs a row's function inside a transaction.
#[inline]
pub(crate) fn run_row(call: &mut TxnCall<'_>) -> Outcome {
    let (txn, db, command, args) = (call.txn, call.session.caller.db, call.command, call.args);
    telling(txn, db, command, args, || run_function(call))
}

fn run_function(call: &mut TxnCall<'_>) -> Outcome {
    let &mut TxnCall { command, args, table, txn, ref mut reply, ref mut session, host } = call;
    match command.run {
        Run::Table(_, function) => {
            if command.has(FOLLOWS) {
                session.caller.follows = acl::may_read_all_keys(session, command, args);
            }
            let settings = host.settings();
            let outcome = function(&mut Call {
                command,
                args,
                table,
                txn,
                reply: &mut **reply,
                caller: &mut session.caller,
                settings,
            });
            if command.has(FOLLOWS | EMPTIES | EXPLAINS) {
                session.caller.follows = true;
                note_emptied(host, command, &outcome);
                if let Some(why) = session.caller.complaint.take() {
                    warn_of_payload(host, session, args, &why);
                }
            }
            outcome
        }
        Run::Hosted(_) => match work(command) {
            Work::Txn(function) => function(call),
            Work::Own | Work::Session(_) => {
                unreachable!("a row inside a transaction has a function over one")
            }
        },
        Run::Session => {
            run_on_session(&mut SessionCall { command, args, table, reply: &mut **reply, session, host })
        }
        Run::Container => unreachable!("a container alone does not pass the arity check"),
    }
}

/// Says in the log that a payload was refused: it was damaged on its way, or made to do harm.
#[cold]
fn warn_of_payload(host: &dyn Host, session: &Session, args: &[&[u8]], why: &str) {
    static REFUSED: LineLimit = LineLimit::new();
    let Some(left_out) = REFUSED.admit(time::now_ms()) else { return };
    if left_out > 0 {
        tracing::warn!("{left_out} more payloads were refused");
    }
    let shown = |text: Option<&&[u8]>| {
        let text = text.copied().unwrap_or_default();
        text[..text.len().min(64)].escape_ascii().to_string()
    };
    tracing::warn!(
        key = shown(args.get(1)),
        client = session.identity.id,
        address = host.address(session),
        bytes = args.get(3).map_or(0, |payload| payload.len()),
        why,
        "a payload for RESTORE was refused: dump the key again, and see who the client is if that does not help"
    );
}

/// Schedules a save after a call that has emptied the databases: else the next start would bring back what is gone. As part of EXEC or a
/// script the save begins after that.
pub(crate) fn note_emptied(host: &dyn Host, command: &Command, outcome: &Outcome) {
    if command.has(EMPTIES) && outcome.is_ok() && has_save_points(host.settings()) {
        host.save_signals().schedule_anew();
    }
}

/// Begins the save that a call has scheduled, now that its transaction is over.
#[inline]
pub(crate) fn begin_scheduled_save(host: &dyn Host, table: &Table) {
    if host.save_signals().is_scheduled() {
        host.saves().begin_scheduled(table, host.settings());
    }
}

/// Runs a row's function without a transaction.
pub(crate) fn run_on_session(call: &mut SessionCall<'_>) -> Outcome {
    match work(call.command) {
        Work::Session(function) => function(call),
        Work::Own | Work::Txn(_) => unreachable!("a row on a session has a function over one"),
    }
}

/// Runs a call inside a transaction that belongs to several; what it refuses becomes its own reply and stops nothing. `counts`: it has not been
/// counted yet, by an attempt of the same transaction that came to nothing.
pub(crate) fn run_inside(call: &mut SessionCall<'_>, txn: &Txn<'_>, counts: bool) -> Outcome {
    let (command, args, table, host, mark) =
        (call.command, call.args, call.table, call.host, call.reply.mark());
    let (reply, session) = (&mut *call.reply, &mut *call.session);
    let passed = counts && command.has(FAST) && host.recorder().pass(host.settings(), command);
    let watch = (counts && !passed).then(|| host.recorder().begin(host.settings(), command));
    if command.has(SCRIPTS) && monitor::is_watched(table) {
        monitor::show_program(txn, session, host, command, args);
    }
    let noted =
        if txn.mode() == Mode::Write { session.note_reads_inside(table, txn, command, args) } else { Ok(()) };
    let outcome =
        noted.and_then(|()| run_row(&mut TxnCall { command, args, table, txn, reply, session, host }));
    // What else stops it has it made again, or is the end of the whole.
    if matches!(outcome, Ok(()) | Err(Stop::Refused(_))) {
        txn.end_call()?;
        if let Some(watch) = watch {
            let failed = outcome.is_err() || command.has(SCRIPTS) && call.session.settle_script(host);
            note(host, call.session, command, args, watch, failed, call.reply.bytes_since(mark));
        } else if passed {
            settle(host, call.session, command, args, outcome.is_err(), call.reply.bytes_since(mark));
        }
        if monitor::is_watched(table) {
            monitor::show_inside(txn, call.session, host, command, args);
        }
    } else if passed {
        host.recorder().take_back(command);
    }
    match outcome {
        Err(Stop::Refused(text)) => {
            call.reply.rewind(mark);
            if counts {
                host.recorder().count_error(&text);
            }
            call.reply.error(&text);
            Ok(())
        }
        other => other,
    }
}

/// Runs the first of several calls of one command on one key, and those behind it that can go with
/// it. Returns how many; 0 if the command has no function for many calls, or these are too few. The
/// first `counted` of them have been counted before. If one of them is to be noted as large,
/// `singly` is set and they are to be run again ([`Stop::Retry`]), each by itself.
pub(crate) fn run_many_inside(
    call: &mut SessionCall<'_>,
    txn: &Txn<'_>,
    calls: &[&[&[u8]]],
    counted: usize,
    singly: &mut bool,
) -> Result<usize, Stop> {
    let (command, args, table, host) = (call.command, call.args, call.table, call.host);
    let (Some(many), 2.., false) = (command.many, calls.len(), *singly) else { return Ok(0) };
    let Some(start) = host.recorder().begin_many(host.settings()).filter(|_| !monitor::is_watched(table))
    else {
        return Ok(0);
    };
    let (reply, session) = (&mut *call.reply, &mut *call.session);
    if txn.tells() && matches!(command.tells, Some(Tells::Own(_))) {
        // Each tells by its own function.
        return Ok(0);
    }
    let (mark, looks, told) = (reply.mark(), txn.looks().get(), txn.mark());
    let db = session.caller.db;
    let done = match many(
        &mut Call {
            command,
            args,
            table,
            txn,
            reply: &mut *reply,
            caller: &mut session.caller,
            settings: host.settings(),
        },
        calls,
    ) {
        // The first call says so by itself (C1: nothing has been written).
        Err(Stop::Refused(_)) => {
            reply.rewind(mark);
            0
        }
        outcome => outcome?,
    };
    if txn.tells() && txn.has_written_since(told) {
        calls[..done].iter().for_each(|args| tell_of(txn, db, command, args));
        txn.account(told);
    }
    txn.end_call()?;
    let reply_bytes = reply.bytes_since(mark);
    if calls[..done].iter().any(|args| is_large(host, args, reply_bytes)) {
        *singly = true;
        return Err(Stop::Retry);
    }
    if done == 0 {
        txn.looks().set(looks);
    } else if txn.mode() == Mode::Read && command.has(READONLY) {
        // It has found the key once, for all of them.
        (1..done).for_each(|_| txn.count_look(true));
    }
    if done > counted {
        host.recorder().end_many(host.settings(), command, start, (done - counted) as u64);
    }
    Ok(done)
}

/// Ends a transaction; expired keys that it has met go now, as they do in Redis.
#[inline]
pub(crate) fn end_transaction(table: &Table, txn: Txn<'_>) {
    let stale = txn.take_stale();
    drop(txn);
    if !stale.is_empty() {
        table.collect_stale(&stale);
    }
}

/// A transaction with the clock of the session's turn, and the session's patience.
pub fn begin<'t>(table: &'t Table, session: &Session, mode: Mode) -> Result<Txn<'t>, Stop> {
    let txn = table.begin(mode)?;
    if session.clock.turn_ms != 0 {
        txn.set_now_ms(session.clock.turn_ms);
    }
    if session.imports && table.imports() {
        txn.see_expired();
    }
    txn.set_origin(session.identity.id);
    if session.clock.patience_us != 0 {
        txn.limit_patience(Duration::from_micros(session.clock.patience_us));
    }
    Ok(txn)
}
