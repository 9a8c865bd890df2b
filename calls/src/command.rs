//! A command's row: a plain value from which everything else about the command is derived.
//!
//! ```text
//! write("HINCRBY", "key field increment", hincrby).with(FAST | GROWS).since("2.0.0").costs("O(1)").about("Adds ..."),
//! ^ what it may do  ^ grammar: arity, keys,         ^ what Redis calls flags              ^ the documentation
//!                     hints, documentation
//! ```
//!
//! A subcommand is a row of its own, `CLIENT|LIST`, beside the row of its [`container`].
use std::ops::Deref;

use polder_base::Reply;
use polder_table::{Counter, Db, Effect, Found, Location, Mode, Mutation, Old, Stop, Table};
use polder_values::{Kind, Value};

use crate::call::{Call, Outcome};
pub use crate::facts::{BatchKey, Decide, Locate, ON_ALL_NODES, Shares, Where};
use crate::facts::{Channels, Facts, Secrets, Tells};
pub use crate::flags::*;
use crate::grammar::Shape;
use crate::settings::Settings;

/// What runs a command.
#[derive(Clone, Copy)]
pub enum Run {
    /// On the table, inside a transaction of this mode, which may be run again.
    Table(Mode, fn(&mut Call<'_>) -> Outcome),
    /// Inside a transaction of this mode, by a function over the session as well, which the runtime keeps beside the row.
    Hosted(Mode),
    /// On the session and the process around it, by a function that the runtime keeps beside the row; no transaction is opened and it is never
    /// run again.
    Session,
    /// Not itself: one of its subcommands.
    Container,
}

/// The longest word of a call of several words that a short way takes: longer ones may have to be noted as large.
pub const SHORT_WORD_MAX: usize = 8 << 10;

/// A call that may go its command's short way.
pub struct FastCall<'c> {
    pub command: &'static Command,
    pub table: &'c Table,
    /// Where its key belongs.
    pub location: &'c Location,
    pub args: &'c [&'c [u8]],
    pub now_ms: u64,
    /// Whether that is the time of the transaction that the call would be, and no cheaper clock, which is behind by some milliseconds.
    pub is_exact: bool,
    pub settings: &'c Settings,
}

impl FastCall<'_> {
    /// The time that a call counts from.
    pub fn exact_ms(&self) -> u64 {
        if self.is_exact { self.now_ms } else { polder_base::time::now_ms() }
    }

    /// Changes the value of the call's key ([`Table::update`]), where the call itself has the same effect elsewhere.
    #[inline]
    pub fn update<'n, R>(
        &self,
        kind: impl Into<Option<Kind>>,
        change: impl for<'v> FnOnce(Option<Old<'v>>) -> Option<(Mutation<'v, 'n>, R)>,
    ) -> Option<R> {
        self.update_telling(kind, change, |_, effect| self.tell(effect))
    }

    /// The same; `tell` says what has the same effect elsewhere, or nothing, and then the slow path makes the change while the change log is on.
    #[inline]
    pub fn update_telling<'n, R>(
        &self,
        kind: impl Into<Option<Kind>>,
        change: impl for<'v> FnOnce(Option<Old<'v>>) -> Option<(Mutation<'v, 'n>, R)>,
        tell: impl Fn(&R, &mut Effect<'_>),
    ) -> Option<R> {
        self.table.update(self.location, self.args[1], kind, self.now_ms, change, tell)
    }

    /// Shows the packed value of the call's key ([`Table::quick_view`]), or nothing if there is no such key, and counts the call. Returns false where the
    /// call takes the slow path: `view` has returned `None`, or there was nothing to show for another reason.
    #[inline]
    pub fn view(&self, kind: Kind, view: impl FnOnce(Option<&[u8]>) -> Option<()>) -> bool {
        let counted = self.table.quick_view(self.location, self.args[1], (kind, self.now_ms), |found| {
            let bytes = match found {
                Some(Found { value: Value::Packed(bytes), .. }) => Some(bytes),
                Some(_) => return None,
                None => None,
            };
            view(bytes).map(|()| if bytes.is_some() { Counter::Hits } else { Counter::Misses })
        });
        counted.inspect(|counter| self.table.count_call(*counter)).is_some()
    }

    /// Tells of a change by the call itself.
    pub fn tell(&self, effect: &mut Effect<'_>) {
        effect.call(self.command.name, &self.args[1..]);
    }
}

/// A command's fast path for its commonest form, without a transaction of its own. Returns false,
/// having done and written nothing, if the form is another one or another case applies.
pub type Quick = fn(&FastCall<'_>, &mut dyn Reply) -> bool;

/// Calls of one command that are one transaction (EXEC).
pub struct FastGroup<'c> {
    pub table: &'c Table,
    pub db: Db,
    pub calls: &'c [&'c [&'c [u8]]],
    pub now_ms: u64,
    /// Added to the count of calls.
    pub counted: u64,
}

/// A command's fast path for calls of it that become true together; writes their replies. Returns false, having changed nothing, if the form of one is
/// another one or another case applies.
pub type Group = fn(&FastGroup<'_>, &mut dyn Reply) -> bool;

/// Runs successive calls of a pipeline, of one command on one key, all inside one transaction: what
/// each of them would open and publish is opened and published once. If the command only reads, its
/// calls find the key once. Returns how many of the first ones it has run and replied to (0: none).
/// The others have a form that it leaves to the command's own function. It must leave alone what it
/// cannot refuse before it writes (C1).
pub type Many = fn(&mut Call<'_>, &[&[&[u8]]]) -> Result<usize, Stop>;

/// One command: what its row states about it, and its functions.
#[derive(Clone, Copy)]
pub struct Command {
    pub facts: Facts,
    pub run: Run,
    pub quick: Option<Quick>,
    pub many: Option<Many>,
    pub group: Option<Group>,
}

impl Deref for Command {
    type Target = Facts;

    #[inline]
    fn deref(&self) -> &Facts {
        &self.facts
    }
}

const fn row(name: &'static str, grammar: &'static str, run: Run, flags: Flags) -> Command {
    Command { facts: Facts::new(name, grammar, flags), run, quick: None, many: None, group: None }
}

/// A command that reads keys and changes nothing.
pub const fn read(name: &'static str, grammar: &'static str, run: fn(&mut Call<'_>) -> Outcome) -> Command {
    row(name, grammar, Run::Table(Mode::Read, run), READONLY)
}

/// A command that may change keys.
pub const fn write(name: &'static str, grammar: &'static str, run: fn(&mut Call<'_>) -> Outcome) -> Command {
    row(name, grammar, Run::Table(Mode::Write, run), WRITE)
}

/// A command that works on the table in `mode`, but which Redis counts neither among the reading nor the writing ones.
pub const fn neutral(
    name: &'static str,
    grammar: &'static str,
    mode: Mode,
    run: fn(&mut Call<'_>) -> Outcome,
) -> Command {
    row(name, grammar, Run::Table(mode, run), 0)
}

/// A command whose function the runtime keeps: see [`Run::Hosted`] and [`Run::Session`].
pub const fn hosted(name: &'static str, grammar: &'static str, run: Run, flags: Flags) -> Command {
    row(name, grammar, run, flags)
}

/// The row that stands for all of its subcommands.
pub const fn container(name: &'static str) -> Command {
    row(name, "subcommand [arg ...]", Run::Container, CONTAINER)
}

impl Command {
    /// Adds flags.
    pub const fn with(mut self, flags: Flags) -> Command {
        self.facts.flags |= flags;
        self
    }
    /// What it does with the keys of each source, in the grammar's order.
    pub const fn touches(mut self, flags: &'static [&'static str]) -> Command {
        self.facts.touches = flags;
        let mut at = 0;
        while at < flags.len() {
            // Sources of what is written elsewhere are read.
            if let [b'R', b'O', ..] = flags[at].as_bytes() {
                self.facts.flags |= COUNTS;
            }
            at += 1;
        }
        self
    }
    /// What it does with its keys where the arguments decide (`variable_flags`).
    pub const fn varies(mut self, decide: Decide) -> Command {
        self.facts.varies = Some(decide);
        self
    }
    /// Finds its keys by itself.
    pub const fn locates(mut self, locate: Locate) -> Command {
        self.facts.locate = Some(locate);
        self
    }
    /// Some calls of it write nothing: they lock nothing either.
    pub const fn reads_where(mut self, reads: fn(&[&[u8]]) -> bool) -> Command {
        self.facts.reads_where = Some(reads);
        self
    }
    /// Only some calls of it are executed while a script is busy.
    pub const fn busy_where(mut self, runs: Where) -> Command {
        self.facts.busy_where = Some(runs);
        self
    }
    /// How what it changes is told to the followers of the changes.
    pub const fn tells(mut self, tells: Tells) -> Command {
        self.facts.tells = Some(tells);
        self
    }
    /// Its arguments are channels.
    pub const fn channels(mut self, channels: Channels) -> Command {
        self.facts.channels = Some(channels);
        self
    }
    /// Some of its arguments are not to be logged.
    pub const fn secrets(mut self, secrets: Secrets) -> Command {
        self.facts.secrets = Some(secrets);
        self
    }
    /// Some calls of it share transactions with those around them.
    pub const fn shares(mut self, shares: Shares) -> Command {
        self.facts.shares = Some(shares);
        self
    }
    /// A container that does something when no subcommand is named.
    pub const fn runs_itself(mut self) -> Command {
        let shape = Shape::of("[subcommand [arg ...]]", 1);
        self.run = Run::Session;
        self.facts.shape = shape;
        self
    }
    /// Its calls on one key that follow each other share a transaction, though one alone has a short way.
    pub const fn shares_key(self) -> Command {
        self.shares(|args| args.get(1).copied().map(BatchKey::Key))
    }
    /// Hints for clients of a cluster.
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Command {
        self.facts.tips = tips;
        self
    }
    /// Gives the command a fast path for several calls that are one transaction.
    pub const fn group(mut self, group: Group) -> Command {
        self.group = Some(group);
        self
    }
    /// Gives the command a short way for its commonest form.
    pub const fn quick(mut self, quick: Quick) -> Command {
        self.quick = Some(quick);
        self
    }
    /// Gives the command a way for many calls of a pipeline at once.
    pub const fn many(mut self, many: Many) -> Command {
        self.many = Some(many);
        self
    }

    /// The first version of Redis that had it.
    pub const fn since(mut self, version: &'static str) -> Command {
        self.facts.since = version;
        self
    }
    /// What later versions of Redis changed, the oldest first.
    pub const fn changed(mut self, changes: &'static [(&'static str, &'static str)]) -> Command {
        self.facts.changes = changes;
        self
    }
    /// Deprecated since this version of Redis: `by` replaces it.
    pub const fn replaced(mut self, version: &'static str, by: &'static str) -> Command {
        self.facts.replaced = Some((version, by));
        self
    }
    /// For servers and testers, not for applications.
    pub const fn internal(mut self) -> Command {
        self.facts.flags |= INTERNAL;
        self
    }
    pub const fn costs(mut self, complexity: &'static str) -> Command {
        self.facts.costs = complexity;
        self
    }
    pub const fn about(mut self, summary: &'static str) -> Command {
        self.facts.about = summary;
        self
    }

    /// Gives it its place among all rows, and that of its family among the families.
    pub const fn placed(mut self, number: u16, family: u8) -> Command {
        assert!(
            self.facts.has(WRITE | MAY_WRITE) == self.facts.tells.is_some(),
            "a row that may write says how it is told, and no other does"
        );
        self.facts.number = number;
        self.facts.family = family;
        self.facts.alone = self.alone();
        self
    }
    /// The mode of its transaction, if it has one.
    pub const fn mode(&self) -> Option<Mode> {
        match self.run {
            Run::Table(mode, _) | Run::Hosted(mode) => Some(mode),
            Run::Session | Run::Container => None,
        }
    }

    /// Finds that out. A call that explains itself for the log runs where that is written.
    const fn alone(&self) -> bool {
        match self.run {
            Run::Table(Mode::Read, _) => self.facts.reads_one_key(),
            Run::Table(Mode::Write, _) => {
                let one = self.facts.has_one_key()
                    && self.facts.locate.is_none()
                    && self.facts.reads_where.is_none();
                one && self.facts.is_write() && !self.facts.has(BLOCKING | PUBSUB | SCRIPTS | EXPLAINS)
            }
            _ => false,
        }
    }

    /// What a call may share a transaction by: short writes that do not wait, and reads, if they have no short way (or one for many calls as well) and
    /// their row says nothing else.
    #[inline]
    pub fn batch_key<'a>(&self, args: &[&'a [u8]]) -> Option<BatchKey<'a>> {
        if let Some(shares) = self.shares {
            return shares(args);
        }
        let shares = self.quick.is_none() || self.many.is_some();
        if shares && self.reads_one_key() && matches!(self.run, Run::Table(Mode::Read, _)) {
            return args.get(1).copied().map(BatchKey::Reads);
        }
        let is_short =
            shares && self.has(FAST) && !self.has(BLOCKING) && matches!(self.run, Run::Table(Mode::Write, _));
        if is_short && self.has_one_key() { args.get(1).copied().map(BatchKey::Key) } else { None }
    }
}
