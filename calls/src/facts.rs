//! What a row states about its command ([`Facts`]): name, grammar, flags, which arguments are keys, channels and secrets, how its changes are told.
//!
//! No code outside a command's own family asks for the command by its name: it asks these.
use crate::flags::{
    ALLOW_BUSY, BLOCKING, Flags, GROWS, MOVABLE_KEYS, NO_MANDATORY_KEYS, PUBSUB, READONLY, SCRIPTS, WRITE,
};
use crate::grammar::{Begin, Find, Shape};

/// The arguments of a command that are channels, from the first one on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channels {
    /// All arguments are channels; otherwise the first one only.
    pub all: bool,
    pub named: Named,
    /// They are spread over a cluster as keys are.
    pub sharded: bool,
    /// A user needs the right to use them. To stop listening takes none.
    pub needs_right: bool,
}

/// The way in which an argument names channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    Channel,
    /// A pattern of channels, which a user's rules must allow literally.
    Pattern,
    /// A subject with the wildcards of the token dialect: a rule must cover all that it matches.
    Subject,
}

impl Channels {
    /// One channel that a message is posted to.
    pub const POSTED: Channels =
        Channels { all: false, named: Named::Channel, sharded: false, needs_right: true };
    /// Channels that a client begins to listen to.
    pub const HEARD: Channels = Channels { all: true, ..Channels::POSTED };
    /// Channels that a client ceases to listen to.
    pub const LEFT: Channels = Channels { needs_right: false, ..Channels::HEARD };

    /// The same of patterns.
    pub const fn patterns(self) -> Channels {
        Channels { named: Named::Pattern, ..self }
    }
    /// These channels, named as subjects.
    pub const fn subjects(self) -> Channels {
        Channels { named: Named::Subject, ..self }
    }
    /// The same of channels that are spread over a cluster.
    pub const fn sharded(self) -> Channels {
        Channels { sharded: true, ..self }
    }
}

/// How a call that has changed something is told to the followers of the changes: as which commands, which lead to the same state anywhere and at any
/// later time. What changed nothing is not told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tells {
    /// As the call itself: it depends on nothing but its arguments and the state.
    Verbatim,
    /// As the call itself, or as `SET key value` where the whole new value is short and is known: both lead to the same.
    State,
    /// By what its function says: the text is for the documentation, commands in backticks.
    Own(&'static str),
}

/// Shows the positions of a call's arguments that logs and monitors must not show.
pub type Secrets = fn(&[&[u8]], &mut dyn FnMut(usize));

/// An option of a command: its word, how many arguments it has, and whether these are secrets.
pub type SecretOption = (&'static str, usize, bool);

/// Shows the secrets among options from argument `at` on, up to the word KEYS: keys, which come last, are no options.
pub fn secrets_of_options(
    args: &[&[u8]],
    mut at: usize,
    options: &[SecretOption],
    hide: &mut dyn FnMut(usize),
) {
    let is = |at: usize, word: &str| args[at].eq_ignore_ascii_case(word.as_bytes());
    while at < args.len() && !is(at, "KEYS") {
        let known = options.iter().find(|(word, ..)| is(at, word));
        let (behind, secret) = known.map_or((0, false), |(_, count, secret)| (*count, *secret));
        if secret {
            (at + 1..args.len().min(at + 1 + behind)).for_each(&mut *hide);
        }
        at += 1 + behind;
    }
}

/// The hints of a command that a client of a cluster sends to every node, and that fails if one of them fails.
pub const ON_ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// Says whether a call with these arguments is of some kind.
pub type Where = fn(&[&[u8]]) -> bool;

/// Says what a call with these arguments does with its keys.
pub type Decide = fn(&[&[u8]]) -> &'static str;

/// Shows the positions of the keys of a call, each with the number of its source, where the grammar cannot say.
pub type Locate = fn(&[&[u8]], &mut dyn FnMut(usize, usize));

/// Says what a call has in common with those around it, if it may share its transaction with them.
pub type Shares = for<'a> fn(&[&'a [u8]]) -> Option<BatchKey<'a>>;

/// What calls have in common that share a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchKey<'a> {
    /// The one key that each of them changes.
    Key(&'a [u8]),
    /// The one key that each of them reads, and nothing else.
    Reads(&'a [u8]),
    /// They post messages, and do nothing else.
    Messages,
    /// They run this program, named by its text or by its SHA1, with one key or none.
    Program { by_sha: bool, program: &'a [u8], key: Option<&'a [u8]> },
}

/// All that a row states about its command, but for the functions that run it.
#[derive(Clone, Copy)]
pub struct Facts {
    /// In upper case; `CONTAINER|NAME` for a subcommand.
    pub name: &'static str,
    pub grammar: &'static str,
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
    pub(crate) number: u16,
    pub(crate) family: u8,
    /// See [`Facts::works_alone`]; set there, too.
    pub(crate) alone: bool,
}

impl Facts {
    pub(crate) const fn new(name: &'static str, grammar: &'static str, flags: Flags) -> Facts {
        let base = if bar(name) < name.len() { 2 } else { 1 };
        let shape = Shape::of(grammar, base);
        Facts {
            name,
            grammar,
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

    /// The version of Redis that brought an argument which is written as `word`, if that came later than the command.
    pub fn argument_since(&self, word: &str) -> Option<&'static str> {
        let takes = |text: &&str| {
            text.starts_with("Takes ") && text.split('`').skip(1).step_by(2).any(|named| named == word)
        };
        self.changes.iter().find(|(_, text)| takes(text)).map(|(version, _)| *version)
    }
    /// Whether it may change keys.
    pub const fn is_write(&self) -> bool {
        self.flags & WRITE != 0
    }
    pub const fn has(&self, flags: Flags) -> bool {
        self.flags & flags != 0
    }
    /// Its place among all commands.
    pub const fn number(&self) -> u16 {
        self.number
    }
    /// The place of its family among the families.
    pub const fn family(&self) -> u8 {
        self.family
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
    /// Whether each count of keys in the arguments says how many keys follow it, one at least.
    pub fn counts_its_keys(&self, args: &[&[u8]]) -> bool {
        let counted = |spec: &crate::grammar::KeySpec| {
            !matches!(spec.find, Find::Numkeys { .. })
                || reach(spec.begin, spec.find, args).is_some_and(|(begin, end, _)| begin < end)
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
        Find::Numkeys { step } => {
            let count: usize = std::str::from_utf8(args[start]).ok()?.parse().ok()?;
            // What stands behind the last key may be missing.
            let span = count.checked_mul(step)?.saturating_sub(step - 1);
            (start + 1, (start + 1).checked_add(span).filter(|end| *end <= args.len())?, step)
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
