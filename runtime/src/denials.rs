//! What users were denied, as ACL LOG and INFO remember it.
use std::collections::VecDeque;

/// What was denied, from the nearest to the farthest that a call gets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    Command,
    Key,
    Auth,
    Channel,
}

/// How many reasons there are.
pub const REASONS: usize = 4;

impl Reason {
    pub(crate) const ALL: [Reason; REASONS] = [Reason::Command, Reason::Key, Reason::Auth, Reason::Channel];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Auth => "auth",
            Reason::Channel => "channel",
        }
    }
}

/// Where a call was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    Toplevel,
    Multi,
    Lua,
}

impl Context {
    pub(crate) const ALL: [Context; 3] = [Context::Toplevel, Context::Multi, Context::Lua];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Context::Toplevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// Denials of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) count: i64,
    pub(crate) denied: Denied,
    pub(crate) context: Context,
    pub(crate) user: Vec<u8>,
    pub(crate) client: Vec<u8>,
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
}

/// The ring, newest first, and how often each reason was given.
#[derive(Default)]
pub struct Log {
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) counts: [u64; REASONS],
}

impl Log {
    /// How often something was denied, by reason.
    pub fn counts(&self) -> [u64; REASONS] {
        self.counts
    }

    /// Counts from nothing again.
    pub fn reset_counts(&mut self) {
        self.counts = [0; REASONS];
    }
}

/// A call that is not allowed: why, and what it was that is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denied {
    pub reason: Reason,
    pub object: Vec<u8>,
}

impl Denied {
    /// What the client is told. `verbose`: name the user and all details (ACL DRYRUN).
    pub fn text(&self, user: &[u8], verbose: bool) -> String {
        let (user, object) = (String::from_utf8_lossy(user), String::from_utf8_lossy(&self.object));
        match (self.reason, verbose) {
            (Reason::Key, true) => format!("User {user} has no permissions to access the '{object}' key"),
            (Reason::Key, false) => "No permissions to access a key".into(),
            (Reason::Channel, true) => {
                format!("User {user} has no permissions to access the '{object}' channel")
            }
            (Reason::Channel, false) => "No permissions to access a channel".into(),
            (Reason::Command | Reason::Auth, _) => {
                format!("User {user} has no permissions to run the '{object}' command")
            }
        }
    }
}
