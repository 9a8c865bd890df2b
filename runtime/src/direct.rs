//! A call of a program in its own process, without a session: the row's fast path, or else its function in a transaction.
//!
//! ```text
//!   DirectCall::run         admitted by its flags -> fast path of the row -> transaction: declare keys, run, commit; again on Retry
//!   DirectCall::run_inside  the row's function in a transaction that belongs to several calls
//! ```
//! A session adds what a client of a server needs: rights, MULTI, statistics of commands, monitors. A program that has attached is trusted, and
//! its typed calls need none of these.
//!
//! **Invariant:** a direct call leaves behind what the same command of a session would, and replies the same: both run the row's functions.
use std::time::Duration;

use polder_base::Reply;
use polder_base::time::coarse_ms;
use polder_calls::call::{Call, Caller, Outcome, telling};
use polder_calls::command::{Command, EMPTIES, FastCall, GROWS, PUBSUB, Run};
use polder_table::{Db, Mode, Table, Txn};

use crate::call_group::CallGroup;
use crate::run::{Keys, begin_scheduled_save, note_emptied, permit_writes, spare_memory};
use crate::session::Host;

/// One call: where, what, and with which arguments, the name first.
#[derive(Clone, Copy)]
pub struct DirectCall<'c> {
    pub table: &'c Table,
    pub host: &'c dyn Host,
    pub db: Db,
    /// A row that runs on the table and never waits.
    pub command: &'static Command,
    pub args: &'c [&'c [u8]],
}

impl DirectCall<'_> {
    /// Runs it and commits. Locks of other threads are waited for at most this long; `None` waits without a limit.
    ///
    /// # Errors
    /// What the command refuses; OOM where it needs memory and there is none; [`polder_table::Stop::Busy`] at the end of the patience.
    pub fn run(&self, patience: Option<Duration>, reply: &mut dyn Reply) -> Outcome {
        let Self { table, db, command, args, .. } = *self;
        if command.has(GROWS) {
            spare_memory(table, patience.is_none())?;
        }
        let alone = if command.works_alone() || command.quick.is_some() { args.get(1) } else { None };
        let location = alone.and_then(|key| table.location(db, key));
        if let (Some(quick), Some(location)) = (command.quick, &location) {
            let settings = self.host.settings();
            if quick(
                &FastCall { command, table, location, args, now_ms: coarse_ms(), is_exact: false, settings },
                reply,
            ) {
                return Ok(());
            }
        }
        if command.has(PUBSUB) {
            polder_hub::attend(table)?;
        }
        let mode = match command.mode() {
            Some(Mode::Write) if command.reads_where.is_some_and(|reads| reads(args)) => Mode::Read,
            mode => mode.unwrap_or(Mode::Write),
        };
        let mut keys = Keys::new();
        command.each_key(args, |at, _| keys.push((db, args[at])));
        let txn = table.begin(mode)?;
        patience.into_iter().for_each(|patience| txn.limit_patience(patience));
        let location = location.as_ref().filter(|_| command.works_alone());
        let group = CallGroup::new(table, txn, &keys, location);
        let outcome = group.run(reply, |txn, reply| self.run_function(txn, false, reply));
        group.end(1);
        if command.has(EMPTIES) && outcome.is_ok() {
            begin_scheduled_save(self.host, table);
        }
        outcome
    }

    /// Runs it in a transaction that belongs to several calls, which commits later. What is refused has changed nothing, and the transaction may go on.
    ///
    /// # Errors
    /// What the command refuses, as for [`DirectCall::run`]; every other stop is to be returned to what has begun the transaction.
    pub fn run_inside(&self, txn: &Txn<'_>, reply: &mut dyn Reply) -> Outcome {
        if self.command.is_write() {
            permit_writes(self.host)?;
        }
        let mark = reply.mark();
        let outcome = self.run_function(txn, true, reply);
        if outcome.is_err() {
            reply.rewind(mark);
        }
        txn.end_call().and(outcome)
    }

    fn run_function(&self, txn: &Txn<'_>, atomic: bool, reply: &mut dyn Reply) -> Outcome {
        let Self { table, host, db, command, args } = *self;
        let Run::Table(_, function) = command.run else {
            unreachable!("a typed call names a row on the table")
        };
        let mut caller = Caller { db, atomic, ..Caller::default() };
        let settings = host.settings();
        let outcome = telling(txn, db, command, args, || {
            function(&mut Call { command, args, table, txn, reply, caller: &mut caller, settings })
        });
        note_emptied(host, command, &outcome);
        outcome
    }
}
