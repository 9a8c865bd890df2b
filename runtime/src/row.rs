//! Rows of commands that concern a session or the process: their functions see more than a [`Command`] may name.
//!
//! ```text
//!   families     Command                     run: Table(mode, function over Call)
//!   this floor   Row { command, work }       run: Hosted(mode) or Session; `work` is the function, over TxnCall or SessionCall
//!                      |          |
//!             lookup::Commands  WORKS            two tables with the same numbers, both of `family`
//! ```
use std::sync::OnceLock;

use polder_base::Reply;
use polder_table::{Db, Mode, Table, Txn};

use crate::session::{Host, Session};
use polder_calls::call::Outcome;
use polder_calls::command::{self, Command, Decide, Flags, Locate, Run, Shares, Where};
use polder_calls::facts::{Channels, Secrets, Tells};

/// One invocation that concerns the session or the process only; the table's counters and limits can be seen, its keys cannot.
pub struct SessionCall<'c> {
    pub command: &'static Command,
    pub args: &'c [&'c [u8]],
    pub table: &'c Table,
    pub reply: &'c mut dyn Reply,
    pub session: &'c mut Session,
    pub host: &'c dyn Host,
}

/// One invocation inside a transaction that concerns the session or the process as well. Rules C1 and C2 of [`polder_calls::call`] hold for it, too.
pub struct TxnCall<'c> {
    pub command: &'static Command,
    pub args: &'c [&'c [u8]],
    pub table: &'c Table,
    pub txn: &'c Txn<'c>,
    pub reply: &'c mut dyn Reply,
    pub session: &'c mut Session,
    pub host: &'c dyn Host,
}

impl TxnCall<'_> {
    /// The database the client has selected.
    pub fn db(&self) -> Db {
        self.session.caller.db
    }
}

/// What runs a row.
#[derive(Clone, Copy)]
pub enum Work {
    /// The function that the row itself names, or no function: it is a container.
    Own,
    Session(fn(&mut SessionCall<'_>) -> Outcome),
    Txn(fn(&mut TxnCall<'_>) -> Outcome),
}

/// A command with the function that runs it.
#[derive(Clone, Copy)]
pub struct Row {
    pub(crate) command: Command,
    pub(crate) work: Work,
}

/// A command about the connection or the process: it opens no transaction.
pub const fn session(
    name: &'static str,
    grammar: &'static str,
    run: fn(&mut SessionCall<'_>) -> Outcome,
) -> Row {
    Row { command: command::hosted(name, grammar, Run::Session, 0), work: Work::Session(run) }
}

/// A command inside a transaction of `mode`, which Redis counts neither among the reading nor the writing ones.
pub const fn neutral(
    name: &'static str,
    grammar: &'static str,
    mode: Mode,
    run: fn(&mut TxnCall<'_>) -> Outcome,
) -> Row {
    Row { command: command::hosted(name, grammar, Run::Hosted(mode), 0), work: Work::Txn(run) }
}

/// A command inside a transaction that reads keys and changes nothing.
pub const fn read(name: &'static str, grammar: &'static str, run: fn(&mut TxnCall<'_>) -> Outcome) -> Row {
    Row {
        command: command::hosted(name, grammar, Run::Hosted(Mode::Read), command::READONLY),
        work: Work::Txn(run),
    }
}

/// A command inside a transaction that may change what is stored.
pub const fn write(name: &'static str, grammar: &'static str, run: fn(&mut TxnCall<'_>) -> Outcome) -> Row {
    Row {
        command: command::hosted(name, grammar, Run::Hosted(Mode::Write), command::WRITE),
        work: Work::Txn(run),
    }
}

/// The row that stands for all of its subcommands.
pub const fn container(name: &'static str) -> Row {
    Row::own(command::container(name))
}

impl Row {
    /// A row that runs its own function, over a [`polder_calls::Call`].
    pub const fn own(command: Command) -> Row {
        Row { command, work: Work::Own }
    }
    /// What a container does when no subcommand is named.
    pub const fn runs(self, run: fn(&mut SessionCall<'_>) -> Outcome) -> Row {
        Row { command: self.command.runs_itself(), work: Work::Session(run) }
    }
    /// As [`Command::with`].
    pub const fn with(self, flags: Flags) -> Row {
        Row { command: self.command.with(flags), ..self }
    }
    /// As [`Command::touches`].
    pub const fn touches(self, flags: &'static [&'static str]) -> Row {
        Row { command: self.command.touches(flags), ..self }
    }
    /// As [`Command::varies`].
    pub const fn varies(self, decide: Decide) -> Row {
        Row { command: self.command.varies(decide), ..self }
    }
    /// As [`Command::locates`].
    pub const fn locates(self, locate: Locate) -> Row {
        Row { command: self.command.locates(locate), ..self }
    }
    /// As [`Command::reads_where`].
    pub const fn reads_where(self, reads: Where) -> Row {
        Row { command: self.command.reads_where(reads), ..self }
    }
    /// As [`Command::busy_where`].
    pub const fn busy_where(self, runs: Where) -> Row {
        Row { command: self.command.busy_where(runs), ..self }
    }
    /// As [`Command::tells`].
    pub const fn tells(self, tells: Tells) -> Row {
        Row { command: self.command.tells(tells), ..self }
    }
    /// As [`Command::channels`].
    pub const fn channels(self, channels: Channels) -> Row {
        Row { command: self.command.channels(channels), ..self }
    }
    /// As [`Command::secrets`].
    pub const fn secrets(self, secrets: Secrets) -> Row {
        Row { command: self.command.secrets(secrets), ..self }
    }
    /// As [`Command::shares`].
    pub const fn shares(self, shares: Shares) -> Row {
        Row { command: self.command.shares(shares), ..self }
    }
    /// As [`Command::tips`].
    pub const fn tips(self, tips: &'static [&'static str]) -> Row {
        Row { command: self.command.tips(tips), ..self }
    }
    /// As [`Command::since`].
    pub const fn since(self, version: &'static str) -> Row {
        Row { command: self.command.since(version), ..self }
    }
    /// As [`Command::changed`].
    pub const fn changed(self, changes: &'static [(&'static str, &'static str)]) -> Row {
        Row { command: self.command.changed(changes), ..self }
    }
    /// As [`Command::replaced`].
    pub const fn replaced(self, version: &'static str, by: &'static str) -> Row {
        Row { command: self.command.replaced(version, by), ..self }
    }
    /// As [`Command::internal`].
    pub const fn internal(self) -> Row {
        Row { command: self.command.internal(), ..self }
    }
    /// As [`Command::costs`].
    pub const fn costs(self, complexity: &'static str) -> Row {
        Row { command: self.command.costs(complexity), ..self }
    }
    /// As [`Command::about`].
    pub const fn about(self, summary: &'static str) -> Row {
        Row { command: self.command.about(summary), ..self }
    }
}

static WORKS: OnceLock<&'static [Work]> = OnceLock::new();

/// Makes these what runs the commands of this process, by their numbers. Only the first call has an effect.
pub(crate) fn register(works: &'static [Work]) {
    _ = WORKS.set(works);
}

/// What runs a command that concerns a session.
#[inline]
pub(crate) fn work(command: &Command) -> Work {
    WORKS.get().map_or(Work::Own, |works| works[usize::from(command.number())])
}
