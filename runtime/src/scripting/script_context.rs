//! Where a program runs: its transaction, and what it may do there.
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use polder_base::script::{ALLOW_OOM, Called, Flags, NO_WRITES, World};
use polder_base::{Fault, Reply};
use polder_table::{Db, Mode, Stop, Table, Txn};

use super::{Kind, Running, Scripting};
use crate::lookup::resolve;
use crate::row::TxnCall;
use crate::run::{note, permit, permit_writes, run_row, writes_restricted};
use crate::session::{Host, Session};
use crate::switches::scripts_may_call_all;
use crate::{acl, monitor};
use polder_calls::call::NO_MEMORY;
use polder_calls::command::{Command, GROWS, MAY_WRITE, NOSCRIPT, READONLY, Run};
use polder_calls::fieldsets::Fieldsets;
use polder_calls::settings::id;

/// What the flags of a program and the command that runs it let it do.
#[derive(Clone, Copy)]
pub struct Limits {
    read_only: bool,
    may_grow: bool,
}

impl Limits {
    /// # Errors
    /// The program may not run at all.
    pub fn of(call: &TxnCall<'_>, flags: Option<Flags>) -> Result<Limits, Stop> {
        let reader = call.command.has(READONLY);
        let short = call.session.script.short_of_memory;
        if let Some(flags) = flags {
            if flags & NO_WRITES == 0 && reader {
                return Err("ERR Can not execute a script with write flag using *_ro command.".into());
            }
            if flags & NO_WRITES == 0 {
                permit_writes(call.host)?;
            }
            if short && flags & (ALLOW_OOM | NO_WRITES) == 0 {
                return Err("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'".into());
            }
        }
        let flags = flags.unwrap_or(0);
        Ok(Limits { read_only: reader || flags & NO_WRITES != 0, may_grow: !short || flags & ALLOW_OOM != 0 })
    }
}

/// The parts of a session that a run changes, as they were before it.
struct Before {
    db: Db,
    atomic: bool,
    /// The questions to other processes that the caller has asked.
    questions: usize,
    fieldsets: Option<Arc<Fieldsets>>,
}

/// One run of a program.
pub struct ScriptContext<'s, 'c> {
    table: &'s Table,
    txn: &'s Txn<'c>,
    session: &'s mut Session,
    host: &'s dyn Host,
    scripting: &'s Scripting,
    kind: Kind,
    name: &'s str,
    command: &'s [&'s [u8]],
    limits: Limits,
    before: Before,
    /// The moment of the first look at the clock, which a short run never takes.
    began: Option<Instant>,
    /// Looks at the clock. They come by what all scripts of a thread have done, so that the first one says nothing of this one.
    ticks: usize,
    wrote: bool,
    /// No call has been but a read, so far.
    only_reads: bool,
    calls: usize,
    running: Option<Arc<Running>>,
    stop: Option<Stop>,
}

impl<'s, 'c: 's> ScriptContext<'s, 'c> {
    pub fn new(
        call: Actors<'s, 'c>,
        kind: Kind,
        name: &'s str,
        limits: Limits,
        now_us: u64,
    ) -> ScriptContext<'s, 'c> {
        let Actors { table, txn, session, host, scripting, command } = call;
        session.script.now_us = now_us;
        session.caller.scripted = true;
        let before = Before {
            db: session.caller.db,
            atomic: std::mem::replace(&mut session.caller.atomic, true),
            questions: session.tally.questions,
            // Each run has its own.
            fieldsets: session.caller.fieldsets.take(),
        };
        ScriptContext {
            table,
            txn,
            session,
            host,
            scripting,
            kind,
            name,
            command,
            limits,
            before,
            began: None,
            ticks: 0,
            wrote: false,
            only_reads: true,
            calls: 0,
            running: None,
            stop: None,
        }
    }

    /// Ends the run: the session is as it was before. Returns why the run was stopped, if it was,
    /// and whether it has only read, and not for long.
    pub fn leave(self) -> (Option<Stop>, bool) {
        let Before { db, atomic, questions, fieldsets } = self.before;
        (self.session.caller.db, self.session.caller.atomic) = (db, atomic);
        self.session.caller.fieldsets = fieldsets;
        self.session.script.now_us = 0;
        self.session.caller.scripted = false;
        // A run that is to begin again asks the same questions, and their replies may be there by
        // then. A transaction that it is part of ends them later.
        if self.stop.is_some() || !atomic {
            let asked = std::mem::replace(&mut self.session.tally.questions, questions);
            if self.stop.is_none() && asked != questions {
                polder_hub::query::forget(self.table, self.session.identity.id);
            }
        }
        self.session.script.slow |= self.ticks > 1;
        if let Some(running) = &self.running {
            self.scripting.board.leave(running);
        }
        (self.stop, self.only_reads && self.ticks < 2)
    }

    /// What follows needs locks, and this run has none: the script runs again with them, as if it
    /// had not begun.
    fn begin_again(&mut self) {
        self.txn.become_writer();
        self.stop = Some(Stop::Retry);
    }

    /// One more of its calls has come to its end.
    fn count(&mut self) {
        self.calls += 1;
        self.session.script.counted = self.session.script.counted.max(self.calls);
    }

    /// The row of a command that may be called.
    fn admit(&self, args: &[&[u8]], counts: bool) -> Result<&'static Command, Cow<'static, str>> {
        let command = resolve(args).map_err(|_| "ERR Unknown Redis command called from script")?;
        if !command.arity_fits(args.len()) || matches!(command.run, Run::Container) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        let refusal = match () {
            () if command.has(NOSCRIPT) && !scripts_may_call_all() => {
                "ERR This Redis command is not allowed from script"
            }
            () if (command.is_write() || command.has(MAY_WRITE)) && self.limits.read_only => {
                "ERR Write commands are not allowed from read-only scripts."
            }
            // A script that has written may go on: it is not stopped in the middle.
            () if command.has(GROWS) && !self.limits.may_grow && !self.wrote => NO_MEMORY,
            () => {
                self.permits(command)?;
                return acl::admit_scripted(self.session, self.host, command, args)
                    .map(|()| command)
                    .map_err(text_of);
            }
        };
        if counts {
            self.host.recorder().reject(command);
        }
        Err(refusal.into())
    }

    /// Whether the script may write now, if the command writes. Checked only if writes may be
    /// refused at present.
    fn permits(&self, command: &'static Command) -> Result<(), Cow<'static, str>> {
        if self.wrote || self.limits.read_only || !writes_restricted(self.host) {
            return Ok(());
        }
        permit(self.host, command).map(|_| ()).map_err(text_of)
    }

    fn run(&mut self, command: &'static Command, args: &[&[u8]], reply: &mut dyn Reply) -> Result<(), Stop> {
        let (table, txn, host, session) = (self.table, self.txn, self.host, &mut *self.session);
        run_row(&mut TxnCall { command, args, table, txn, reply, session, host })
    }
}

/// What a script hears of why a call is refused.
fn text_of(stop: Stop) -> Cow<'static, str> {
    match stop {
        Stop::Refused(text) => text,
        other => other.to_string().into(),
    }
}

/// Whether a command does nothing but read keys.
fn is_read(command: &Command) -> bool {
    !command.has(MAY_WRITE) && command.mode() == Some(Mode::Read)
}

/// What takes part in a run.
pub struct Actors<'s, 'c> {
    pub table: &'s Table,
    pub txn: &'s Txn<'c>,
    pub session: &'s mut Session,
    pub host: &'s dyn Host,
    pub scripting: &'s Scripting,
    pub command: &'s [&'s [u8]],
}

impl World for ScriptContext<'_, '_> {
    fn call(&mut self, args: &[&[u8]], reply: &mut dyn Reply) -> Called {
        if self.stop.is_some() {
            return Called::Unwind;
        }
        // However often a script runs, each of its calls is counted at its first end.
        let counts = self.calls >= self.session.script.counted;
        let command = match self.admit(args, counts) {
            Ok(command) => command,
            Err(text) => {
                if counts {
                    self.host.recorder().count_error(&text);
                }
                self.count();
                return Called::Refused(text);
            }
        };
        if !is_read(command) {
            self.only_reads = false;
            if self.txn.mode() == Mode::Read {
                self.begin_again();
                return Called::Unwind;
            }
        }
        self.wrote |= command.is_write();
        let watch = counts.then(|| self.host.recorder().begin(self.host.settings(), command));
        let outcome = self
            .session
            .note_reads_inside(self.table, self.txn, command, args)
            .and_then(|()| self.run(command, args, reply));
        // Its reply is the script's own copy by now.
        let outcome = match outcome {
            Ok(()) | Err(Stop::Refused(_)) => self.txn.end_call().and(outcome),
            other => other,
        };
        if let Err(stop @ (Stop::Retry | Stop::Busy | Stop::Wait | Stop::Cold | Stop::Fault(_))) = outcome {
            self.stop = Some(stop);
            return Called::Unwind;
        }
        if let Some(watch) = watch {
            note(self.host, self.session, command, args, watch, outcome.is_err(), 0);
        }
        if monitor::is_watched(self.table) {
            monitor::show_inside(self.txn, self.session, self.host, command, args);
        }
        self.count();
        match outcome {
            Err(Stop::Refused(text)) => {
                if counts {
                    self.host.recorder().count_error(&text);
                }
                Called::Refused(text)
            }
            _ => Called::Answered,
        }
    }

    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool> {
        resolve(args).ok().map(|command| acl::check::check(self.session, command, args).is_ok())
    }

    fn tick(&mut self) -> Option<Cow<'static, str>> {
        let threshold_ms = self.host.settings().number(const { id("busy-reply-threshold") }) as u64;
        let began = *self.began.get_or_insert_with(Instant::now);
        self.ticks += 1;
        if self.session.interrupt.is_some_and(|look| look()) {
            self.stop = Some(
                Fault::System("the script was interrupted, and nothing of it has happened".into()).into(),
            );
            return Some("".into());
        }
        if self.txn.mode() == Mode::Read {
            if self.ticks < 2 {
                return None;
            }
            // What it has read may have changed meanwhile, so that it would run forever.
            self.begin_again();
            return Some("".into());
        }
        if threshold_ms == 0 || began.elapsed() < Duration::from_millis(threshold_ms) {
            return None;
        }
        let running = self.running.get_or_insert_with(|| {
            let running = Arc::new(Running {
                kind: self.kind,
                name: self.name.into(),
                command: self.command.iter().map(|arg| arg.to_vec()).collect(),
                since: began,
                wrote: false.into(),
                killed: false.into(),
            });
            self.scripting.board.enter(running.clone());
            running
        });
        running.wrote.store(self.wrote, Ordering::Release);
        self.host.while_busy(running);
        if self.host.is_ending() {
            // No refusal, which would let a whole that it is part of (EXEC) go on and keep what it has written.
            self.stop = Some(
                Fault::System("the server is shutting down: nothing of this script has happened".into())
                    .into(),
            );
            return Some("".into());
        }
        // The script has written since the kill found that it had not. Ending it now would leave
        // half of its work.
        (running.killed.load(Ordering::Acquire) && !self.wrote)
            .then(|| "ERR Script killed by user with SCRIPT KILL...".into())
    }
}
