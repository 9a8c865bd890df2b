//! A command's row: a plain value from which everything else about the command is derived.
//!
//! ```text
//! write("HINCRBY", "key field increment", hincrby).with(FAST | GROWS).since("2.0.0").costs("O(1)").about("Adds ..."),
//! ^ what it may do  ^ grammar: arity, keys,         ^ what Redis calls flags              ^ the documentation
//!                     hints, documentation
//! ```
//!
//! A subcommand is a row of its own, `CLIENT|LIST`, beside the row of its [`container`].
use polder_base::Reply;
use polder_table::{Mode, Sight, Stop, Table};

use crate::call::{Call, Outcome};
use crate::facts::{Channels, Secrets, Tells};
use crate::grammar::{Begin, Find, Shape};
use crate::settings::Settings;

/// Redis's command flags, as bits. READONLY and WRITE are set by [`read`] and [`write()`].
pub type Flags = u64;

pub const WRITE: Flags = 1 << 0;
pub const READONLY: Flags = 1 << 1;
/// May need more memory: refused when there is none (`denyoom`).
pub const GROWS: Flags = 1 << 2;
pub const ADMIN: Flags = 1 << 4;
pub const PUBSUB: Flags = 1 << 5;
pub const NOSCRIPT: Flags = 1 << 6;
pub const BLOCKING: Flags = 1 << 7;
pub const LOADING: Flags = 1 << 8;
pub const STALE: Flags = 1 << 9;
/// Not shown to MONITOR: it holds secrets, or shows itself.
pub const SKIP_MONITOR: Flags = 1 << 10;
pub const SKIP_SLOWLOG: Flags = 1 << 11;
pub const ASKING: Flags = 1 << 12;
pub const FAST: Flags = 1 << 13;
pub const NO_AUTH: Flags = 1 << 14;
pub const NO_MANDATORY_KEYS: Flags = 1 << 15;
pub const NO_ASYNC_LOADING: Flags = 1 << 16;
/// Refused inside MULTI.
pub const NO_MULTI: Flags = 1 << 17;
pub const MOVABLE_KEYS: Flags = 1 << 18;
/// Runs while a script is busy.
pub const ALLOW_BUSY: Flags = 1 << 19;
/// May reach others or keep something, though it is no write: a pause of writers holds it back, and no reading script calls it.
pub const MAY_WRITE: Flags = 1 << 20;
/// It runs scripts: what memory it may need is not known before.
pub const SCRIPTS: Flags = 1 << 23;
/// In the ACL category `@dangerous`, though not of the administrator's.
pub const DANGEROUS: Flags = 1 << 24;
/// In the ACL category `@keyspace`, though not of the group `generic`.
pub const KEYSPACE: Flags = 1 << 25;
/// Its second argument names a subcommand. In no ACL category of its group.
pub const CONTAINER: Flags = 1 << 26;

/// In the ACL categories of lists, sets and sorted sets, which it works on alike.
pub const COLLECTIONS: Flags = 1 << 27;

/// What it finds counts as a hit or a miss, although it writes.
pub const COUNTS: Flags = 1 << 28;

/// For servers and testers, not for applications.
pub const INTERNAL: Flags = 1 << 29;

/// It may follow a pattern to keys that its arguments do not name.
pub const FOLLOWS: Flags = 1 << 21;

/// It empties all databases, so that a save that is due begins anew after it.
pub const EMPTIES: Flags = 1 << 22;

/// Obeyed at once between MULTI and EXEC.
pub const AT_ONCE: Flags = 1 << 30;

/// Obeyed of a RESP2 client that has subscribed.
pub const WHILE_LISTENING: Flags = 1 << 31;

/// It begins a queue of calls.
pub const QUEUES: Flags = 1 << 32;

/// It runs the calls that are queued.
pub const RUNS_QUEUE: Flags = 1 << 33;

/// Its first argument is the database of the calls behind it.
pub const SELECTS: Flags = 1 << 34;

/// It shows or changes the connection that makes it.
pub const OWN_CONNECTION: Flags = 1 << 35;

/// A call of it that waits ends where its key goes or becomes of another type.
pub const ENDS_WITH_KEY: Flags = 1 << 36;

/// It fails while the last save has failed and writes are refused for that, although it writes nothing.
pub const TELLS_UNSAVED: Flags = 1 << 37;

/// The names that COMMAND INFO gives the flags, in its order.
pub const FLAG_NAMES: [(Flags, &str); 19] = [
    (WRITE, "write"),
    (READONLY, "readonly"),
    (GROWS, "denyoom"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NOSCRIPT, "noscript"),
    (BLOCKING, "blocking"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_MONITOR, "skip_monitor"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (ASKING, "asking"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (NO_ASYNC_LOADING, "no_async_loading"),
    (NO_MULTI, "no_multi"),
    (MOVABLE_KEYS, "movablekeys"),
    (ALLOW_BUSY, "allow_busy"),
];

/// The hints of a command that a client of a cluster sends to every node, and that fails if one of them fails.
pub const ON_ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

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

/// Says whether a call with these arguments is of some kind.
pub type Where = fn(&[&[u8]]) -> bool;

/// Says what a call with these arguments does with its keys.
pub type Decide = fn(&[&[u8]]) -> &'static str;

/// Shows the positions of the keys of a call, each with the number of its source, where the grammar cannot say.
pub type Locate = fn(&[&[u8]], &mut dyn FnMut(usize, usize));

/// Says what a call has in common with those around it, if it may share its transaction with them.
pub type Shares = for<'a> fn(&[&'a [u8]]) -> Option<Common<'a>>;

/// What calls have in common that share a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Common<'a> {
    /// The one key that each of them changes.
    Key(&'a [u8]),
    /// The one key that each of them reads, and nothing else.
    Reads(&'a [u8]),
    /// They post messages, and do nothing else.
    Messages,
    /// They run this program, named by its text or by its SHA1, with one key or none.
    Program { by_sha: bool, program: &'a [u8], key: Option<&'a [u8]> },
}

/// A call that may go its command's short way.
pub struct Short<'c> {
    pub table: &'c Table,
    /// Where its key belongs.
    pub sight: &'c Sight,
    pub args: &'c [&'c [u8]],
    pub now_ms: u64,
    /// Whether that is the time of the transaction that the call would be, and no cheaper clock, which is behind by some milliseconds.
    pub is_exact: bool,
    pub settings: &'c Settings,
}

impl Short<'_> {
    /// The time that a call counts from.
    pub fn exact_ms(&self) -> u64 {
        if self.is_exact { self.now_ms } else { polder_base::time::now_ms() }
    }
}

/// A command's fast path for its commonest form, without a transaction of its own. Returns false,
/// having done and written nothing, if the form is another one or another case applies.
pub type Quick = fn(&Short<'_>, &mut dyn Reply) -> bool;

/// Runs successive calls of a pipeline, of one command on one key, all inside one transaction: what
/// each of them would open and publish is opened and published once. If the command only reads, its
/// calls find the key once. Returns how many of the first ones it has run and replied to (0: none).
/// The others have a form that it leaves to the command's own function. It must leave alone what it
/// cannot refuse before it writes (C1).
pub type Many = fn(&mut Call<'_>, &[&[&[u8]]]) -> Result<usize, Stop>;

/// One command: its name, its grammar, its function, and what the documentation says.
#[derive(Clone, Copy)]
pub struct Command {
    /// In upper case; `CONTAINER|NAME` for a subcommand.
    pub name: &'static str,
    pub grammar: &'static str,
    pub run: Run,
    pub quick: Option<Quick>,
    pub many: Option<Many>,
    pub flags: Flags,
    /// What it does with the keys of each source, as Redis writes it (`RW access update`); empty where the default of
    /// reading or writing commands holds.
    pub touches: &'static [&'static str],
    /// Where the arguments decide what it does with its keys: the function that says what.
    pub varies: Option<Decide>,
    /// Where the grammar alone does not find its keys.
    pub locate: Option<Locate>,
    /// Whether a call with these arguments writes nothing, though others do.
    pub reads_where: Option<Where>,
    /// Where only some calls are executed while a script is busy: whether one with these arguments is.
    pub busy_where: Option<Where>,
    /// How what it changes is told; every row that may write has it.
    pub tells: Option<Tells>,
    /// Which of its arguments are channels.
    pub channels: Option<Channels>,
    /// Which of its arguments are secrets.
    pub secrets: Option<Secrets>,
    /// Where only some calls may share a transaction, or their key stands elsewhere than first.
    pub shares: Option<Shares>,
    /// Hints for clients of a cluster, as in COMMAND INFO.
    pub tips: &'static [&'static str],
    pub since: &'static str,
    /// What later versions changed: each one with what it changed. `Takes ...` names arguments, which are since that version.
    pub changes: &'static [(&'static str, &'static str)],
    /// The version since which it is deprecated, and what replaces it.
    pub replaced: Option<(&'static str, &'static str)>,
    pub costs: &'static str,
    pub about: &'static str,
    pub shape: Shape,
    /// Its place among all rows, and that of its family among the families; set where all rows are put together.
    number: u16,
    family: u8,
    /// See [`Command::works_alone`]; set there, too.
    alone: bool,
}

const fn row(name: &'static str, grammar: &'static str, run: Run, flags: Flags) -> Command {
    let base = if bar(name) < name.len() { 2 } else { 1 };
    let shape = Shape::of(grammar, base);
    Command {
        name,
        grammar,
        run,
        quick: None,
        many: None,
        flags,
        touches: &[],
        varies: None,
        locate: None,
        reads_where: None,
        busy_where: None,
        tells: None,
        channels: None,
        secrets: None,
        shares: None,
        tips: &[],
        since: "1.0.0",
        changes: &[],
        replaced: None,
        costs: "O(1)",
        about: "",
        shape,
        number: 0,
        family: 0,
        alone: false,
    }
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
pub const fn neutral(name: &'static str, grammar: &'static str, mode: Mode, run: fn(&mut Call<'_>) -> Outcome) -> Command {
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
        self.flags |= flags;
        self
    }
    /// What it does with the keys of each source, in the grammar's order.
    pub const fn touches(mut self, flags: &'static [&'static str]) -> Command {
        self.touches = flags;
        let mut at = 0;
        while at < flags.len() {
            // Sources of what is written elsewhere are read.
            if let [b'R', b'O', ..] = flags[at].as_bytes() {
                self.flags |= COUNTS;
            }
            at += 1;
        }
        self
    }
    /// What it does with its keys where the arguments decide (`variable_flags`).
    pub const fn varies(mut self, decide: Decide) -> Command {
        self.varies = Some(decide);
        self
    }
    /// Finds its keys by itself.
    pub const fn locates(mut self, locate: Locate) -> Command {
        self.locate = Some(locate);
        self
    }
    /// Some calls of it write nothing: they lock nothing either.
    pub const fn reads_where(mut self, reads: fn(&[&[u8]]) -> bool) -> Command {
        self.reads_where = Some(reads);
        self
    }
    /// Only some calls of it are executed while a script is busy.
    pub const fn busy_where(mut self, runs: Where) -> Command {
        self.busy_where = Some(runs);
        self
    }
    /// How what it changes is told to the followers of the changes.
    pub const fn tells(mut self, tells: Tells) -> Command {
        self.tells = Some(tells);
        self
    }
    /// Its arguments are channels.
    pub const fn channels(mut self, channels: Channels) -> Command {
        self.channels = Some(channels);
        self
    }
    /// Some of its arguments are not to be logged.
    pub const fn secrets(mut self, secrets: Secrets) -> Command {
        self.secrets = Some(secrets);
        self
    }
    /// Some calls of it share transactions with those around them.
    pub const fn shares(mut self, shares: Shares) -> Command {
        self.shares = Some(shares);
        self
    }
    /// A container that does something when no subcommand is named.
    pub const fn runs_itself(mut self) -> Command {
        let shape = Shape::of("[subcommand [arg ...]]", 1);
        self.run = Run::Session;
        self.shape = shape;
        self
    }
    /// Its calls on one key that follow each other share a transaction, though one alone has a short way.
    pub const fn shares_key(self) -> Command {
        self.shares(|args| args.get(1).copied().map(Common::Key))
    }
    /// Hints for clients of a cluster.
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Command {
        self.tips = tips;
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
        self.since = version;
        self
    }
    /// What later versions of Redis changed, the oldest first.
    pub const fn changed(mut self, changes: &'static [(&'static str, &'static str)]) -> Command {
        self.changes = changes;
        self
    }
    /// Deprecated since this version of Redis: `by` replaces it.
    pub const fn replaced(mut self, version: &'static str, by: &'static str) -> Command {
        self.replaced = Some((version, by));
        self
    }
    /// For servers and testers, not for applications.
    pub const fn internal(mut self) -> Command {
        self.flags |= INTERNAL;
        self
    }
    /// The version of Redis that brought an argument which is written as `word`, if that came later than the command.
    pub fn argument_since(&self, word: &str) -> Option<&'static str> {
        let takes = |text: &&str| text.starts_with("Takes ") && text.split('`').skip(1).step_by(2).any(|named| named == word);
        self.changes.iter().find(|(_, text)| takes(text)).map(|(version, _)| *version)
    }
    pub const fn costs(mut self, complexity: &'static str) -> Command {
        self.costs = complexity;
        self
    }
    pub const fn about(mut self, summary: &'static str) -> Command {
        self.about = summary;
        self
    }

    /// Whether it may change keys.
    pub const fn is_write(&self) -> bool {
        self.flags & WRITE != 0
    }
    pub const fn has(&self, flags: Flags) -> bool {
        self.flags & flags != 0
    }
    /// Gives it its place among all rows, and that of its family among the families.
    pub const fn placed(mut self, number: u16, family: u8) -> Command {
        assert!(self.has(WRITE | MAY_WRITE) == self.tells.is_some(), "a row that may write says how it is told, and no other does");
        self.number = number;
        self.family = family;
        self.alone = self.alone();
        self
    }
    /// Its place among all commands.
    pub const fn number(&self) -> u16 {
        self.number
    }
    /// The place of its family among the families.
    pub const fn family(&self) -> u8 {
        self.family
    }
    /// The mode of its transaction, if it has one.
    pub const fn mode(&self) -> Option<Mode> {
        match self.run {
            Run::Table(mode, _) | Run::Hosted(mode) => Some(mode),
            Run::Session | Run::Container => None,
        }
    }
    /// The name of a subcommand's container, or of the command itself.
    pub fn container(&self) -> &'static str {
        &self.name[..bar(self.name)]
    }
    /// The subcommand's own name, if it is one.
    pub fn subcommand(&self) -> Option<&'static str> {
        self.name.get(bar(self.name) + 1..)
    }
    /// The name as Redis writes it in replies: `client|list`.
    pub fn label(&self) -> String {
        self.name.to_ascii_lowercase()
    }
    /// Whether `count` arguments, the name included, are enough and not too many.
    pub const fn arity_fits(&self, count: usize) -> bool {
        let arity = self.shape.arity;
        if arity >= 0 { count == arity as usize } else { count >= (-arity) as usize }
    }
    /// Whether a call is executed while a script is busy.
    pub fn runs_while_busy(&self, args: &[&[u8]]) -> bool {
        self.has(ALLOW_BUSY) && self.busy_where.is_none_or(|runs| runs(args))
    }
    /// Every flag, those that follow from the grammar included.
    pub fn all_flags(&self) -> Flags {
        self.flags | if self.shape.keys_move() { MOVABLE_KEYS } else { 0 }
    }
    /// What it does with the keys of source number `spec`.
    pub fn touched(&self, spec: usize) -> &'static str {
        match self.touches.get(spec) {
            Some(flags) => flags,
            None if self.is_write() => "RW access update",
            None => "RO access",
        }
    }
    /// What it does with the keys of source number `spec` in a call with these arguments.
    pub fn touched_by(&self, spec: usize, args: &[&[u8]]) -> &'static str {
        self.varies.map_or_else(|| self.touched(spec), |decide| decide(args))
    }
    /// Whether a call without keys is in order.
    pub const fn may_lack_keys(&self) -> bool {
        self.has(NO_MANDATORY_KEYS)
    }

    /// Whether its calls read or write the one key that is their first argument, and nothing else, and never wait.
    #[inline]
    pub fn works_alone(&self) -> bool {
        self.alone
    }

    /// Finds that out.
    const fn alone(&self) -> bool {
        match self.run {
            Run::Table(Mode::Read, _) => self.reads_one_key(),
            Run::Table(Mode::Write, _) => {
                let one = self.has_one_key() && self.locate.is_none() && self.reads_where.is_none();
                one && self.is_write() && !self.has(BLOCKING | PUBSUB | SCRIPTS)
            }
            _ => false,
        }
    }

    /// Whether its one key is its first argument, whatever else is said.
    #[inline]
    pub const fn has_one_key(&self) -> bool {
        matches!(self.shape.specs(), [spec] if matches!((spec.begin, spec.find), (Begin::Index(1), Find::Range { last: 0, .. })))
    }

    /// Whether it reads one key and nothing else, and never waits.
    #[inline]
    pub const fn reads_one_key(&self) -> bool {
        self.has(READONLY) && !self.has(GROWS | BLOCKING | PUBSUB | SCRIPTS) && self.has_one_key()
    }

    /// What a call may share a transaction by: short writes that do not wait, and reads, if they have no short way (or one for many calls as well) and
    /// their row says nothing else.
    #[inline]
    pub fn common<'a>(&self, args: &[&'a [u8]]) -> Option<Common<'a>> {
        if let Some(shares) = self.shares {
            return shares(args);
        }
        let shares = self.quick.is_none() || self.many.is_some();
        if shares && self.reads_one_key() && matches!(self.run, Run::Table(Mode::Read, _)) {
            return args.get(1).copied().map(Common::Reads);
        }
        let is_short = shares && self.has(FAST) && !self.has(BLOCKING) && matches!(self.run, Run::Table(Mode::Write, _));
        if is_short && self.has_one_key() { args.get(1).copied().map(Common::Key) } else { None }
    }

    /// Whether each count of keys in the arguments says how many keys follow it, one at least.
    pub fn counts_its_keys(&self, args: &[&[u8]]) -> bool {
        let counted = |spec: &crate::grammar::KeySpec| {
            spec.find != Find::Numkeys || reach(spec.begin, spec.find, args).is_some_and(|(begin, end, _)| begin < end)
        };
        self.locate.is_some() || self.shape.specs().iter().all(counted)
    }

    /// Shows the positions of the keys among `args`, each with the number of its source. Arguments that do not fit show
    /// fewer keys.
    pub fn each_key(&self, args: &[&[u8]], mut visit: impl FnMut(usize, usize)) {
        if let Some(locate) = self.locate {
            return locate(args, &mut visit);
        }
        if self.has_one_key() {
            if args.len() > 1 {
                visit(1, 0);
            }
            return;
        }
        for (number, spec) in self.shape.specs().iter().enumerate() {
            let Some((mut at, end, step)) = reach(spec.begin, spec.find, args) else { continue };
            while at < end {
                visit(at, number);
                at += step;
            }
        }
    }
}

/// Start, end (past the last) and step of the keys of one source in `args`, if it has any there.
fn reach(begin: Begin, find: Find, args: &[&[u8]]) -> Option<(usize, usize, usize)> {
    let start = match begin {
        Begin::Index(index) => index,
        Begin::Keyword(word, from) => {
            let found = args.get(from..)?.iter().position(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))?;
            from + found + 1
        }
    };
    if start >= args.len() {
        return None;
    }
    Some(match find {
        Find::Range { last, step, limit } if last < 0 => {
            let mut end = (args.len() as isize + last + 1).max(start as isize) as usize;
            if limit > 1 {
                end = start + (end - start) / limit;
            }
            (start, end, step)
        }
        Find::Range { last, step, .. } => (start, (start + last as usize + 1).min(args.len()), step),
        Find::Numkeys => {
            let count: usize = std::str::from_utf8(args[start]).ok()?.parse().ok()?;
            (start + 1, (start + 1).checked_add(count).filter(|end| *end <= args.len())?, 1)
        }
    })
}

/// Where the bar between container and subcommand stands; the name's length if there is none.
const fn bar(name: &str) -> usize {
    let mut at = 0;
    while at < name.len() && name.as_bytes()[at] != b'|' {
        at += 1;
    }
    at
}
