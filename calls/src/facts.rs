//! Facts about a command that its row states and others act upon, beside its flags: which arguments are channels, which are secrets.
//!
//! No code outside a command's own family asks for the command by its name: it asks the row.

/// The arguments of a command that are channels, from the first one on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channels {
    /// All arguments are channels; otherwise the first one only.
    pub all: bool,
    /// They are patterns of channels, which a user's rules must allow literally.
    pub patterns: bool,
    /// They are spread over a cluster as keys are.
    pub sharded: bool,
    /// A user needs the right to use them. To stop listening takes none.
    pub needs_right: bool,
}

impl Channels {
    /// One channel that a message is posted to.
    pub const POSTED: Channels = Channels { all: false, patterns: false, sharded: false, needs_right: true };
    /// Channels that a client begins to listen to.
    pub const HEARD: Channels = Channels { all: true, ..Channels::POSTED };
    /// Channels that a client ceases to listen to.
    pub const LEFT: Channels = Channels { needs_right: false, ..Channels::HEARD };

    /// The same of patterns.
    pub const fn patterns(self) -> Channels {
        Channels { patterns: true, ..self }
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
pub fn secrets_of_options(args: &[&[u8]], mut at: usize, options: &[SecretOption], hide: &mut dyn FnMut(usize)) {
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
