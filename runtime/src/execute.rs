//! The life of one call: found, checked, queued or run, answered once.
//!
//! ```text
//! find row -> a short way, and nothing unusual about the session? -> run without a transaction, before all else
//!          -> arity -> authenticated? -> memory left? -> in MULTI? queue it
//!                                                      -> on the session: run once, no transaction
//!                                                      -> on the table: begin, declare keys, run, commit;
//!                                                         on Retry the reply is rewound and it is run again
//! ```
//!
//! **Invariant:** a call that ends [`Progress::Busy`] has answered and changed nothing, so its caller can run it again. It is not counted
//! either, but for what an EXEC had run of its queue when it met a lock on a key that its commands do not name.
use std::borrow::Cow;

use polder_base::{Fault, Reply};
use polder_table::{Counter, Location, Mode, Stop, Table};

use crate::call_group::CallGroup;
pub use crate::lookup::resolve;
use crate::lookup::{find, row_of};
use crate::row::{SessionCall, TxnCall};
use crate::run::{
    Keys, begin, begin_scheduled_save, end_transaction, note, permit, run_on_session, run_row, settle,
    spare_memory,
};
pub use crate::run::{Progress, is_plain, permit_writes, writes_restricted};
use crate::session::{Host, Replies, Session};
use crate::{acl, blocking, cold, monitor, scripting, subjects, transaction};
use polder_calls::call::{Call, Outcome, WRONG_TYPE, telling, wrong_arity};
use polder_calls::command::{
    AT_ONCE, BLOCKING, CONTAINER, Command, EMPTIES, ENDS_WITH_KEY, FAST, FastCall, GROWS, MAY_WRITE, NO_AUTH,
    NO_MULTI, PUBSUB, Quick, RUNS_QUEUE, Run, SCRIPTS, WHILE_LISTENING,
};

/// What is known of a call before it is made.
#[derive(Clone, Copy)]
pub struct CallHint<'s> {
    /// The row that its first word names.
    pub command: &'static Command,
    /// Where its only key belongs, if that was looked up already.
    pub location: Option<&'s Location>,
}

/// Runs one call to its end and writes exactly one reply (none where CLIENT REPLY says so).
pub fn execute(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    args: &[&[u8]],
    reply: &mut dyn Reply,
) -> Progress {
    let command = args.first().and_then(|name| find(name));
    execute_foreseen(
        table,
        session,
        host,
        command.map(|command| CallHint { command, location: None }),
        args,
        reply,
    )
}

/// As [`execute`], for callers that have prefetched the call.
pub fn execute_foreseen(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    foresight: Option<CallHint<'_>>,
    args: &[&[u8]],
    reply: &mut dyn Reply,
) -> Progress {
    if let Some(foresight) = foresight
        && session.tally.counted.calls == 0
        && let Some(progress) = run_quickly(table, session, host, foresight, args, reply)
    {
        return progress;
    }
    // A container's row is found by two words.
    let known = foresight
        .map(|foresight| foresight.command)
        .filter(|command| !command.has(CONTAINER) && command.subcommand().is_none());
    execute_fully(table, session, host, known, args, reply)
}

/// Runs a call on its command's fast path if that suffices. Returns none if nothing has happened.
#[inline]
fn run_quickly(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    foresight: CallHint<'_>,
    args: &[&[u8]],
    reply: &mut dyn Reply,
) -> Option<Progress> {
    let CallHint { command, location } = foresight;
    if !is_plain(table, session, host) || !command.arity_fits(args.len()) {
        return None;
    }
    if command.quick.is_none() && !command.works_alone() {
        return None;
    }
    let &key = args.get(1)?;
    if command.has(GROWS) && !table.make_room() || command.is_write() && writes_restricted(host) {
        return None;
    }
    let fresh;
    let location = match location {
        Some(location) if location.db() == session.caller.db => Some(location),
        _ => {
            fresh = table.location(session.caller.db, key);
            fresh.as_ref()
        }
    };
    if let (Some(quick), Some(location)) = (command.quick, location)
        && run_shortest(table, session, host, (command, quick), location, args, reply)
    {
        return Some(Progress::Answered);
    }
    match command.run {
        Run::Table(mode, function) if command.works_alone() => {
            run_alone(table, session, host, CallHint { command, location }, (mode, function), args, reply)
        }
        _ => None,
    }
}

/// Runs a call on its command's fast path. Returns false if nothing has happened.
#[inline]
fn run_shortest(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    (command, quick): (&'static Command, Quick),
    location: &Location,
    args: &[&[u8]],
    reply: &mut dyn Reply,
) -> bool {
    let (recorder, settings) = (host.recorder(), host.settings());
    let passed = recorder.pass(settings, command);
    let (watch, mark) =
        ((!passed).then(|| recorder.begin(settings, command)), if passed { 0 } else { reply.mark() });
    let now_ms = session.clock_ms();
    let is_exact = session.clock.turn_ms != 0;
    if !quick(&FastCall { command, table, location, args, now_ms, is_exact, settings }, reply) {
        if passed {
            recorder.take_back(command);
        }
        return false;
    }
    if let Some(watch) = watch {
        note(host, session, command, args, watch, false, reply.bytes_since(mark));
    }
    (session.tally.last, session.clock.clocked_ms) = (Some(command), now_ms);
    session.tally.calls += 1;
    true
}

/// Runs a call that reads or writes one key in a transaction of its own, if nothing else that the
/// slow path checks concerns it. Returns none if nothing has happened, except that room may have
/// been made for what the call is going to write.
fn run_alone(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    CallHint { command, location }: CallHint<'_>,
    (mode, function): (Mode, fn(&mut Call<'_>) -> Outcome),
    args: &[&[u8]],
    reply: &mut dyn Reply,
) -> Option<Progress> {
    let Ok(mut txn) = begin(table, session, mode) else { return None };
    if let Some(location) = location {
        txn.foresee(args[1], location);
    }
    session.caller.waiting = None;
    let passed = command.has(FAST) && host.recorder().pass(host.settings(), command);
    let watch = (!passed).then(|| host.recorder().begin(host.settings(), command));
    let mark = reply.mark();
    let declared = if mode == Mode::Write { txn.declare(&[(session.caller.db, args[1])]) } else { Ok(()) };
    let outcome = declared.and_then(|()| {
        telling(&txn, session.caller.db, command, args, || {
            function(&mut Call {
                command,
                args,
                table,
                txn: &txn,
                reply: &mut *reply,
                caller: &mut session.caller,
                settings: host.settings(),
            })
        })?;
        txn.commit()
    });
    // If memory is full, the slow path finds out whether some can be freed.
    if matches!(
        outcome,
        Err(Stop::Retry | Stop::Busy | Stop::Wait | Stop::Cold | Stop::Fault(Fault::Full(_)))
    ) {
        txn.looks().set([0; 2]);
        if mode == Mode::Write {
            txn.abort();
        }
        reply.rewind(mark);
        if passed {
            host.recorder().take_back(command);
        }
        return (outcome == Err(Stop::Busy)).then_some(Progress::Busy);
    }
    txn.count(Counter::Calls, 1);
    end_transaction(table, txn);
    match watch {
        Some(watch) => note(host, session, command, args, watch, outcome.is_err(), reply.bytes_since(mark)),
        None => settle(host, session, command, args, outcome.is_err(), reply.bytes_since(mark)),
    }
    session.tally.last = Some(command);
    Some(end(session, host, outcome, reply, mark))
}

fn execute_fully(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    known: Option<&'static Command>,
    args: &[&[u8]],
    reply: &mut dyn Reply,
) -> Progress {
    let (mark, last, mut counts) = (reply.mark(), session.tally.last, true);
    session.caller.waiting = None;
    let row = known.map_or_else(|| resolve(args), Ok);
    let outcome = match row
        .and_then(|row| admit(row, table, session, host, args, true))
        .and_then(|command| permit(host, command))
    {
        Ok(command) => {
            session.tally.last = Some(command);
            if session.multi.is_some() && !command.has(AT_ONCE) {
                transaction::queue(session, command, args, reply);
                Ok(())
            } else {
                if command.has(SCRIPTS) {
                    scripting::prepare(session, table);
                }
                session.tally.counted = session.tally.counted.of(args);
                counts = session.tally.counted.begin(session, 0);
                let watch = counts.then(|| host.recorder().begin(host.settings(), command));
                let outcome = run(table, session, host, command, args, reply);
                if outcome != Err(Stop::Wait) {
                    // It may have meant to wait, and then have met a lock or found something: a call that does not wait must not be run again.
                    session.caller.waiting = None;
                }
                if let Err(Stop::Busy) = outcome {
                    reply.rewind(mark);
                    session.tally.last = last;
                    let mut counted = session.tally.counted;
                    counted.end(session, 0, false);
                    session.tally.counted = counted.keep_for(args);
                    return Progress::Busy;
                }
                if let Err(Stop::Wait) = outcome {
                    reply.rewind(mark);
                    if monitor::is_watched(table) {
                        monitor::show(table, session, host, command, args);
                    }
                    return Progress::Waiting;
                }
                if let Some(watch) = watch {
                    let failed = outcome.is_err() || command.has(SCRIPTS) && session.settle_script(host);
                    note(host, session, command, args, watch, failed, reply.bytes_since(mark));
                }
                show_to_others(table, session, host, (command, args), &outcome);
                outcome
            }
        }
        // Values are leaving for the tier: there is room soon.
        Err(Stop::Busy) => return Progress::Busy,
        Err(stop) => {
            reject(host, args);
            Err(transaction::abort_multi(session, args, stop))
        }
    };
    session.tally.counted = session.tally.counted.of(args).behind(1);
    let outcome = if counts { outcome } else { answer_uncounted(outcome, reply, mark) };
    end(session, host, outcome, reply, mark)
}

/// Tells others what a call that has run was: other processes of changed users, monitors of the call.
fn show_to_others(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    (command, args): (&'static Command, &[&[u8]]),
    outcome: &Outcome,
) {
    if session.identity.changed_users {
        acl::settle(table, session, host);
    }
    if monitor::is_watched(table) {
        match outcome {
            Err(_) if command.has(SCRIPTS) => {
                monitor::show_refused_program(table, session, host, command, args)
            }
            _ => monitor::show(table, session, host, command, args),
        }
    }
    session.end_caching(command);
}

/// Writes the error of a call that an earlier attempt has counted.
#[cold]
fn answer_uncounted(outcome: Outcome, reply: &mut dyn Reply, mark: usize) -> Outcome {
    if let Err(stop) = outcome {
        reply.rewind(mark);
        reply.error(&text_of(stop));
    }
    Ok(())
}

/// Ends a call: it is counted and its reply is written, or dropped if the client asked for that.
fn end(
    session: &mut Session,
    host: &dyn Host,
    outcome: Outcome,
    reply: &mut dyn Reply,
    mark: usize,
) -> Progress {
    session.tally.calls += 1;
    if let Err(stop) = outcome {
        session.tally.refused += 1;
        reply.rewind(mark);
        refuse(host, reply, stop);
    }
    // The reply of a subscription is a message as well.
    if session.replies != Replies::On {
        let kept =
            session.tally.last.is_some_and(|command| command.has(PUBSUB) && command.has(WHILE_LISTENING));
        let mark = if kept { reply.mark() } else { mark };
        drop_reply(session, reply, mark);
    }
    Progress::Answered
}

/// Runs a call again that waits: one of its keys has changed.
pub fn resume(table: &Table, session: &mut Session, host: &dyn Host, reply: &mut dyn Reply) -> Progress {
    let Some(waiting) = session.caller.waiting.as_deref() else { return Progress::Answered };
    let (command, owned, mark) = (row_of(waiting.command), waiting.args.clone(), reply.mark());
    let args: Vec<&[u8]> = owned.iter().map(|arg| &**arg).collect();
    // What it may do can have changed meanwhile.
    let allowed = match session.is_free(host) {
        true => Ok(()),
        false => identify(table, session, host, command)
            .and_then(|()| acl::admit(session, host, command, &args, true)),
    };
    let allowed = allowed.and_then(|()| permit(host, command).map(drop));
    if allowed.is_err() {
        host.recorder().reject(command);
        blocking::leave(table, session);
        return end(session, host, allowed, reply, mark);
    }
    let watch = host.recorder().begin(host.settings(), command);
    let outcome = run(table, session, host, command, &args, reply);
    let outlasts = |stop: &Stop| {
        *stop == WRONG_TYPE.into() && !command.has(ENDS_WITH_KEY) && blocking::is_in_vain(table, session)
    };
    match &outcome {
        Err(Stop::Busy) => {
            reply.rewind(mark);
            return Progress::Busy;
        }
        Err(stop) if matches!(stop, Stop::Wait | Stop::Cold) || outlasts(stop) => {
            reply.rewind(mark);
            blocking::came(table, session);
            return Progress::Waiting;
        }
        _ => {}
    }
    note(host, session, command, &args, watch, outcome.is_err(), reply.bytes_since(mark));
    blocking::leave(table, session);
    end(session, host, outcome, reply, mark)
}

/// The error of a call that CLIENT UNBLOCK has ended.
pub const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
/// The error of a call that waited when the memory became a replica.
pub const NEW_ROLE: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// Ends a waiting call with the reply of a timeout, or with an error.
pub fn give_up(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    why: Option<&'static str>,
    reply: &mut dyn Reply,
) {
    if session.caller.waiting.is_none() {
        return;
    }
    let mark = reply.mark();
    if why.is_none() {
        blocking::answer(session, reply);
    }
    if let Some(waiting) = session.caller.waiting.as_deref() {
        let (command, args) = (row_of(waiting.command), waiting.args.clone());
        let args: Vec<&[u8]> = args.iter().map(|arg| &**arg).collect();
        let watch = host.recorder().begin(host.settings(), command);
        note(host, session, command, &args, watch, why.is_some(), reply.bytes_since(mark));
    }
    blocking::leave(table, session);
    let outcome = why.map_or(Ok(()), |why| Err(why.into()));
    end(session, host, outcome, reply, mark);
}

/// Ends a waiting call because its time is over. If it has left an element to others that have not
/// taken it, since they are stopped, it takes it.
pub fn time_out(table: &Table, session: &mut Session, host: &dyn Host, reply: &mut dyn Reply) {
    let paused = polder_hub::query::paused(table).0 > polder_base::time::now_ms();
    if !paused && blocking::retry_until(session) && resume(table, session, host, reply) == Progress::Answered
    {
        return;
    }
    give_up(table, session, host, None, reply);
}

/// Writes why a call stopped, and counts it.
pub(crate) fn refuse(host: &dyn Host, reply: &mut dyn Reply, stop: Stop) {
    let text = text_of(stop);
    host.recorder().count_error(&text);
    reply.error(&text);
}

/// What a client is told of why a call stopped.
fn text_of(stop: Stop) -> Cow<'static, str> {
    match stop {
        Stop::Refused(text) => text,
        Stop::Fault(fault) => fault.to_string().into(),
        Stop::Cold => cold::NO_PROCESS.into(),
        Stop::Retry | Stop::Busy | Stop::Wait => {
            unreachable!("whoever begins a transaction runs it again, and who has patience waits")
        }
    }
}

/// Whether a call may go on during a pause of writes. A call that is wrong at a first look is
/// refused at once.
pub fn may_write(table: &Table, session: &Session, host: &dyn Host, args: &[&[u8]]) -> bool {
    let may = |command: &Command, args: &[&[u8]]| {
        command.is_write()
            || command.has(MAY_WRITE)
                && !(command.has(SCRIPTS) && scripting::only_reads(table, session, host, command, args))
    };
    match resolve(args) {
        Ok(command) if command.has(RUNS_QUEUE) => session.multi.as_ref().is_some_and(|multi| {
            let words = multi.queue.words();
            multi.queue.calls(&words).any(|(command, args)| may(command, args))
        }),
        Ok(command) => command.arity_fits(args.len()) && may(command, args),
        Err(_) => false,
    }
}

/// Refuses a call that cannot be made while something else goes on; the transaction that it is part of will not be made either.
pub fn reject_call(
    session: &mut Session,
    host: &dyn Host,
    args: &[&[u8]],
    why: &'static str,
    reply: &mut dyn Reply,
) {
    let stop = transaction::abort_multi(session, args, why.into());
    refuse(host, reply, stop);
}

/// Counts a call that was not let in.
#[cold]
fn reject(host: &dyn Host, args: &[&[u8]]) {
    if let Ok(command) = resolve(args) {
        host.recorder().reject(command);
    }
}

/// Takes back a reply that CLIENT REPLY asked not to have.
#[cold]
fn drop_reply(session: &mut Session, reply: &mut dyn Reply, mark: usize) {
    reply.rewind(mark);
    session.replies = match session.replies {
        Replies::SkipNext => Replies::Skip,
        Replies::Skip => Replies::On,
        same => same,
    };
}

/// The row of a call that may go on: its length is right, its user may make it, and there is memory
/// for it to grow into. `logs`: a denial is entered into ACL LOG.
pub(crate) fn admit(
    command: &'static Command,
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    args: &[&[u8]],
    logs: bool,
) -> Result<&'static Command, Stop> {
    if !command.arity_fits(args.len()) {
        return Err(wrong_arity(command));
    }
    if !session.is_free(host) {
        identify(table, session, host, command)?;
    }
    if command.has(NO_MULTI) && session.multi.is_some() {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    acl::admit(session, host, command, args, logs)?;
    if command.has(GROWS) {
        spare_memory(table, session.clock.patience_us == 0)?;
    }
    if session.only_listens() && !command.has(WHILE_LISTENING) && subjects::listens_on(table, session) {
        return Err(only_listens(command));
    }
    if session.listening.monitors && !monitor::may(command) {
        return Err("ERR Replica can't interact with the keyspace".into());
    }
    Ok(command)
}

#[cold]
fn only_listens(command: &Command) -> Stop {
    format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.label()
    )
    .into()
}

/// Brings the session's rights up to date, and checks that it has authenticated.
#[cold]
fn identify(table: &Table, session: &mut Session, host: &dyn Host, command: &'static Command) -> Outcome {
    const STRANGER: &str = "NOAUTH Authentication required.";
    let users = host.settings().users();
    if session.clock.turn_ms == 0 {
        users.refresh(table);
    }
    if acl::renew(session, users) == acl::Standing::Gone {
        return Err(STRANGER.into());
    }
    if !session.identity.authenticated && !command.has(NO_AUTH) && !users.now().is_open() {
        return Err(STRANGER.into());
    }
    Ok(())
}

/// Runs an admitted call.
fn run(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    command: &'static Command,
    args: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    match command.run {
        Run::Table(mode, _) | Run::Hosted(mode) => {
            if command.has(BLOCKING | PUBSUB) {
                polder_hub::attend(table)?;
            }
            session.note_reads(table, session.caller.db, command, args);
            let outcome = match run_on_table(table, session, host, (command, args), mode, reply) {
                // A waiting call is recorded in the transaction that found nothing, and that needs
                // locks.
                Err(Stop::Wait) if mode == Mode::Read && !blocking::has_place(session) => {
                    run_on_table(table, session, host, (command, args), Mode::Write, reply)
                }
                outcome => outcome,
            };
            if command.has(EMPTIES) && outcome.is_ok() {
                begin_scheduled_save(host, table);
            }
            outcome
        }
        Run::Session => {
            let outcome = run_on_session(&mut SessionCall { command, args, table, reply, session, host });
            table.count(Counter::Calls, was_run(&outcome).into());
            outcome
        }
        Run::Container => Err(wrong_arity(command)),
    }
}

/// Runs a call in a transaction of its own.
fn run_on_table(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    (command, args): (&'static Command, &[&[u8]]),
    mode: Mode,
    reply: &mut dyn Reply,
) -> Outcome {
    let mut keys = Keys::new();
    command.each_key(args, |at, _| {
        if keys.last().is_none_or(|last| last.1 != args[at]) {
            keys.push((session.caller.db, args[at]));
        }
    });
    let mode = if command.reads_where.is_some_and(|reads| reads(args)) { Mode::Read } else { mode };
    // A read transaction may look for the key twice, and a prefetched location is good for one look
    // only: it would all be done again.
    let location =
        if let ([(db, key)], Mode::Write) = (&keys[..], mode) { table.location(*db, key) } else { None };
    let group = CallGroup::new(table, begin(table, session, mode)?, &keys, location.as_ref());
    let unsure = session.listening.unsure.len();
    let mut place = None;
    let outcome = group.run(reply, |txn, reply| {
        session.listening.unsure.truncate(unsure);
        place = None;
        session.take_back_news();
        if command.has(SCRIPTS) && monitor::is_watched(table) {
            monitor::show_program(txn, session, host, command, args);
        }
        let outcome = run_row(&mut TxnCall { command, args, table, txn, reply, session, host });
        if outcome == Err(Stop::Wait) && mode == Mode::Write && !blocking::has_place(session) {
            place = Some(blocking::enlist(table, txn, session)?);
            return Ok(());
        }
        outcome.and_then(|()| session.settle_reads(txn))
    });
    group.end((was_run(&outcome) && place.is_none()).into());
    match &outcome {
        Ok(()) => session.apply_news(table),
        Err(_) => {
            session.listening.unsure.truncate(unsure);
            session.take_back_news();
        }
    }
    match place {
        Some(place) if outcome.is_ok() => {
            blocking::stay(table, session, place);
            Err(Stop::Wait)
        }
        _ => outcome,
    }
}

/// Whether a call came to its end.
fn was_run(outcome: &Outcome) -> bool {
    !matches!(outcome, Err(Stop::Busy | Stop::Wait))
}
