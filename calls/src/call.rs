//! One invocation of a command.
//!
//! **Rule C1** A function that refuses does so before its first write. Inside EXEC the other
//! commands' writes are committed even so, and one command alone cannot be undone.
//! **Rule C2** A function on the table changes nothing but the table and the reply, since it may be run again.
use std::borrow::Cow;
use std::sync::Arc;

use polder_base::{Reply, number};
use polder_hub::queue;
use polder_table::{Db, Found, New, Replaces, Stop, Table, Txn};
use polder_values::Kind;

use crate::facts::{Facts, Tells};
use crate::fieldsets::Fieldsets;
use crate::flags::{COUNTS, READONLY};
use crate::settings::Settings;
use crate::waiting::{Wait, Waiting};

/// A command function's result: the reply has been written, or the reason why not.
pub type Outcome = Result<(), Stop>;

/// Redis's error when a key holds another type.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Redis's error when the options of a command make no sense.
pub const SYNTAX: &str = "ERR syntax error";

/// Redis's error when a whole number was wanted.
pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

/// The error of a command that may need more memory than there is.
pub const NO_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// What a call sees of the client that makes it: plain data of its session.
#[derive(Clone)]
pub struct Caller {
    /// The selected database.
    pub db: Db,
    /// Reading leaves the keys' access clocks alone.
    pub no_touch: bool,
    /// Its calls are part of a whole (EXEC, a script): they cannot wait.
    pub atomic: bool,
    /// Its calls are a script's.
    pub scripted: bool,
    /// The thread that makes its calls can do something else while one waits.
    pub parks: bool,
    /// A call may follow patterns to keys that it does not name: the client may read all keys.
    pub follows: bool,
    /// What its last call waits for.
    pub waiting: Option<Box<Waiting>>,
    /// Why its last call refused a payload, which the log says and the reply does not.
    pub complaint: Option<Cow<'static, str>>,
    /// The names of fields for which its calls bring values (HIMPORT).
    pub fieldsets: Option<Arc<Fieldsets>>,
}

impl Default for Caller {
    /// A trusted caller with nothing set.
    fn default() -> Caller {
        Caller {
            db: 0,
            no_touch: false,
            atomic: false,
            scripted: false,
            parks: false,
            follows: true,
            waiting: None,
            complaint: None,
            fieldsets: None,
        }
    }
}

/// One invocation on the table: arguments (the name first), transaction, reply, what it may know of its client, and the settings.
pub struct Call<'c> {
    pub command: &'static Facts,
    pub args: &'c [&'c [u8]],
    pub table: &'c Table,
    pub txn: &'c Txn<'c>,
    pub reply: &'c mut dyn Reply,
    pub caller: &'c mut Caller,
    pub settings: &'c Settings,
}

impl<'c> Call<'c> {
    /// The database the client has selected.
    pub fn db(&self) -> Db {
        self.caller.db
    }

    /// The key's state, if it is there.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Result<Option<Found<'c>>, Stop> {
        if self.caller.no_touch {
            return self.peek(key);
        }
        self.counted(key, self.txn.find(self.caller.db, key)?)
    }

    /// As [`Call::find`], without counting as an access of the key (TTL, TYPE, OBJECT and the like).
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Result<Option<Found<'c>>, Stop> {
        self.counted(key, self.txn.peek(self.caller.db, key)?)
    }

    /// Counts a hit or a miss; most commands that write do not count, as in Redis.
    #[inline]
    fn counted(&self, key: &[u8], found: Option<Found<'c>>) -> Result<Option<Found<'c>>, Stop> {
        if self.command.has(READONLY | COUNTS) {
            self.count_look(key, found.is_some());
        }
        Ok(found)
    }

    /// Counts a hit or a miss, for commands that only sometimes do.
    pub fn count_look(&self, key: &[u8], found: bool) {
        if !found {
            self.notify('m', "keymiss", key);
        }
        self.txn.count_look(found);
    }

    /// The key's state, if it is there and of `kind`.
    ///
    /// # Errors
    /// WRONGTYPE when it holds another kind.
    #[inline]
    pub fn find_kind(&self, key: &[u8], kind: Kind) -> Result<Option<Found<'c>>, Stop> {
        match self.find(key)? {
            Some(found) if found.kind != kind => Err(WRONG_TYPE.into()),
            found => Ok(found),
        }
    }

    /// Gives the key a wholly new value.
    #[inline]
    pub fn put(&self, key: &[u8], new: &New<'_>) -> Outcome {
        self.txn.write(self.caller.db, key, new, Replaces::Whole)
    }

    /// Gives the key a wholly new value, and tells listeners of the value that it replaces. The event of the command itself follows.
    pub fn replace(&self, key: &[u8], new: &New<'_>) -> Outcome {
        let old = self.old_kind(self.caller.db, key)?;
        self.put(key, new)?;
        self.notify_replaced(self.caller.db, key, old, new.kind);
        Ok(())
    }

    /// Returns the type of the value that is about to be replaced, if there is one and listeners have asked for such events: [`Call::notify_replaced`].
    pub fn old_kind(&self, db: Db, key: &[u8]) -> Result<Option<Kind>, Stop> {
        if !self.txn.tells_replaced() {
            return Ok(None);
        }
        Ok(self.txn.peek(db, key)?.map(|found| found.kind))
    }

    /// Tells listeners that a value of the type `old` was replaced by one of the type `new` (Redis 8.2: the events `overwritten` and `type_changed`).
    pub fn notify_replaced(&self, db: Db, key: &[u8], old: Option<Kind>, new: Kind) {
        let Some(old) = old else { return };
        self.notify_in(db, 'o', "overwritten", key);
        if old != new {
            self.notify_in(db, 'c', "type_changed", key);
        }
    }

    /// Gives the key an edited form of its old value: what was replaced in its trees has been released.
    #[inline]
    pub fn edit(&self, key: &[u8], new: &New<'_>) -> Outcome {
        self.txn.write(self.caller.db, key, new, Replaces::Edited)
    }

    /// Removes the key with all it holds. Returns whether it was there.
    pub fn remove(&self, key: &[u8]) -> Result<bool, Stop> {
        self.txn.remove(self.caller.db, key, Replaces::Whole)
    }

    /// Tells listeners what happened to a key (keyspace events, blocked waiters, invalidation), once committed.
    pub fn notify(&self, class: char, event: &'static str, key: &[u8]) {
        self.notify_in(self.caller.db, class, event, key);
    }

    /// Tells listeners what happened to some fields of a hash, once committed.
    pub fn notify_parts<'p>(&self, event: &'static str, key: &[u8], parts: impl Iterator<Item = &'p [u8]>) {
        self.txn.note_parts('h', event, self.caller.db, key, parts);
    }

    /// Says in the change log that the call does what this command does, for rows that tell [`Tells::Own`] words.
    ///
    /// A function that rows of both kinds share may call it: where the row tells the call itself, nothing happens. Words that are made for
    /// this, as text of numbers is, are made only where [`Call::tells_itself`].
    #[inline]
    pub fn tell(&self, words: &[&[u8]]) {
        if self.tells_itself() {
            self.txn.tell(self.caller.db, words);
        }
    }

    /// The same, of whatever row: what comes before the call itself.
    pub fn tell_first(&self, words: &[&[u8]]) {
        self.txn.tell(self.caller.db, words);
    }

    /// Whether the change log wants to know by [`Call::tell`] what the call does.
    #[inline]
    pub fn tells_itself(&self) -> bool {
        matches!(self.command.tells, Some(Tells::Own(_))) && self.txn.tells()
    }

    /// As [`Call::tell`], with words that repeat behind the first ones, in as many commands as that takes.
    pub fn tell_many<'w>(&self, head: &[&'w [u8]], rest: &[&'w [u8]]) {
        /// An even number, for pairs.
        const WORDS_MAX: usize = 512;
        if self.tells_itself() {
            rest.chunks(WORDS_MAX).for_each(|words| self.tell(&[head, words].concat()));
        }
    }

    /// As [`Call::tell`], of fields of a hash: `fields` stands behind the words FIELDS and their number.
    pub fn tell_fields<'w>(&self, head: &[&'w [u8]], fields: &[&'w [u8]]) {
        if !fields.is_empty() && self.tells_itself() {
            let count = fields.len().to_string();
            self.tell(&[head, &[b"FIELDS", count.as_bytes()], fields].concat());
        }
    }

    /// As [`Call::notify`], of a key in another database.
    pub fn notify_in(&self, db: Db, class: char, event: &'static str, key: &[u8]) {
        self.txn.note_change(class, event, db, key);
    }
}

impl Call<'_> {
    /// Whether this call may wait.
    pub fn may_wait(&self) -> bool {
        !self.caller.atomic
    }

    /// Ends a call that found nothing and has written nothing: it is run again when one of the keys changes.
    ///
    /// # Errors
    /// None that is the function's business: hand the outcome on.
    pub fn wait(&mut self, wait: Wait<'_>) -> Outcome {
        if !self.may_wait() {
            wait.otherwise.write(self.reply);
            return Ok(());
        }
        if let Some(waiting) = self.caller.waiting.as_mut().filter(|waiting| waiting.has_place()) {
            (waiting.yields, waiting.look_ms) = (wait.yields, wait.look_ms);
        } else {
            // By the clock itself, since a turn may be old, and rounded up: no call times out
            // early.
            let until_ms = if wait.timeout_ms == 0 {
                u64::MAX
            } else {
                self.txn.now_us().div_ceil(1000).saturating_add(wait.timeout_ms)
            };
            let mut keys: Vec<Vec<u8>> = wait.keys.iter().map(|key| key.to_vec()).collect();
            keys.sort_unstable();
            keys.dedup();
            self.caller.waiting = Some(Box::new(Waiting {
                ticket: 0,
                kind: wait.kind,
                holds: wait.holds,
                db: self.caller.db,
                keys,
                until_ms,
                look_ms: wait.look_ms,
                otherwise: wait.otherwise,
                memo: wait.memo,
                yields: wait.yields,
                insists: false,
                command: self.command,
                args: self.args.iter().map(|arg| Box::from(*arg)).collect(),
            }));
        }
        Err(Stop::Wait)
    }

    /// The first of some keys in which `find` finds something for this call, which may wait. What
    /// earlier clients have waited for is left to them, and then the call `yields`.
    ///
    /// # Errors
    /// Those of `find`, a fault.
    pub fn first_for_us<'k, T>(
        &self,
        kind: Kind,
        keys: &[&'k [u8]],
        yields: &mut bool,
        find: impl Fn(&Self, &[u8]) -> Result<Option<T>, Stop>,
    ) -> Result<Option<(&'k [u8], T)>, Stop> {
        let waiting = self.caller.waiting.as_deref();
        let ticket = waiting.filter(|waiting| waiting.has_place()).map_or(u64::MAX, |waiting| waiting.ticket);
        let asks = self.may_wait() && waiting.is_none_or(|waiting| !waiting.insists);
        for key in keys {
            let Some(found) = find(self, key)? else { continue };
            if !asks
                || !queue::is_for_others(self.txn, kind, (self.caller.db, key), ticket, !self.caller.parks)?
            {
                return Ok(Some((key, found)));
            }
            *yields = true;
        }
        Ok(None)
    }

    /// What the first run of this call, which had to wait, left for the later ones; `None` in the first.
    pub fn memo(&self) -> Option<&[u8]> {
        self.caller.waiting.as_ref().filter(|waiting| waiting.has_place()).map(|waiting| &waiting.memo[..])
    }
}

/// Runs a call, and has its transaction say in the change log what it has changed, as its row says.
#[inline]
pub fn telling(
    txn: &Txn<'_>,
    db: Db,
    command: &Facts,
    args: &[&[u8]],
    run: impl FnOnce() -> Outcome,
) -> Outcome {
    if command.tells.is_none() || !txn.tells() {
        return run();
    }
    let mark = txn.mark();
    let outcome = run();
    // What it has refused it has not done (C1); what is told nevertheless is told of fields that had expired before.
    if outcome.is_ok() && txn.has_written_since(mark) {
        tell_of(txn, db, command, args);
        txn.tell_together(mark);
        txn.account(mark);
    }
    outcome
}

/// Says what a call has done that has changed something, unless it says so itself.
pub fn tell_of(txn: &Txn<'_>, db: Db, command: &Facts, args: &[&[u8]]) {
    if matches!(command.tells, Some(Tells::Verbatim | Tells::State)) {
        match command.subcommand() {
            // The names of containers and subcommands stand in two words.
            Some(name) => {
                let words: Vec<&[u8]> = [command.container().as_bytes(), name.as_bytes()]
                    .into_iter()
                    .chain(args[2..].iter().copied())
                    .collect();
                txn.tell(db, &words);
            }
            None => {
                let words: Vec<&[u8]> =
                    std::iter::once(command.name.as_bytes()).chain(args[1..].iter().copied()).collect();
                txn.tell(db, &words);
            }
        }
    }
}

/// Whether a reply shows as many things as it has announced: a damaged value may count itself wrong, and then the reply is none.
///
/// # Errors
/// [`polder_base::Fault::Damaged`].
pub fn is_whole(announced: usize, shown: usize) -> Outcome {
    if announced == shown {
        Ok(())
    } else {
        Err(polder_base::Fault::Damaged { what: "the count of a value" }.into())
    }
}

/// Whether an argument is this word, in any case.
pub fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The whole number that an argument is.
///
/// # Errors
/// `ERR value is not an integer or out of range`: the text must be one that printing the number would give.
pub fn integer(arg: &[u8]) -> Result<i64, Stop> {
    number::integer(arg).ok_or_else(|| NOT_AN_INTEGER.into())
}

/// Redis's text for too few or too many arguments.
#[cold]
pub fn wrong_arity(command: &Facts) -> Stop {
    format!("ERR wrong number of arguments for '{}' command", command.label()).into()
}
