//! The table of settings: every name of a redis.conf (7.4, with Valkey 8's sensible extras) and Polder's own.
//!
//! A setting is one row, a plain value; reading a file, command-line flags, CONFIG GET, SET and REWRITE, INFO's figures
//! and docs/settings.md are all derived from the rows. One file per group; adding a setting touches that file only.
//!
//! ```text
//!   group files            TABLE (one array)             Settings (one per process, see store.rs)
//!   network.rs   ---+      [ bind, port, ... ]           number of each row: an atomic, read on hot paths
//!   memory.rs    ---+--->    0     1          --id-->    text of each row:   what CONFIG GET shows
//!   polder.rs    ---+
//! ```
//!
//! Where a value lives is its [`Scope`]: *Segment* settings belong to the data and are kept in the segment, so that all
//! processes agree; *Process* settings belong to one server; *Inert* ones are kept and shown, and mean nothing here.
//! A setting never promises what is not there: such a value is refused with the reason (`refuses`).

mod cluster;
pub mod document;
pub mod file;
mod general;
mod http;
mod memcached;
mod memory;
mod nats;
mod network;
mod persistence;
mod polder;
mod replication;
pub mod store;
mod tls;
mod types;
pub mod value;
mod watching;

pub use store::{COARSE_NS, Companion, Settings};

/// The groups, in the order of docs/settings.md: a heading and its rows.
pub const GROUPS: &[(&str, &[Setting])] = &[
    ("Polder", polder::SETTINGS),
    ("Network and clients", network::SETTINGS),
    ("Memcached", memcached::SETTINGS),
    ("HTTP", http::SETTINGS),
    ("NATS", nats::SETTINGS),
    ("TLS", tls::SETTINGS),
    ("General", general::SETTINGS),
    ("Memory", memory::SETTINGS),
    ("Data types", types::SETTINGS),
    ("Watching", watching::SETTINGS),
    ("Persistence", persistence::SETTINGS),
    ("Replication", replication::SETTINGS),
    ("Cluster", cluster::SETTINGS),
];

/// What CONFIG SET replies if a listener cannot move.
const NO_PORT: &str = "Unable to listen on this port. Check server logs.";
const NO_ADDRESS: &str = "Failed to bind to specified addresses.";

/// Where a setting's value lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// In the segment, under `setting:NAME` of the hidden database: one value for all processes.
    Segment,
    /// In this process.
    Process,
    /// In this process, without any meaning here: kept so that clients and files of Redis work unmodified.
    Inert,
}

/// When a setting may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Anytime,
    /// By file or flag at start only.
    AtStart,
    /// The same, but some Redis versions let this setting change. Setting it to its present value
    /// is no error, for clients that set all that CONFIG GET shows.
    AtStartHere,
    /// At run time only when `enable-protected-configs` allows it.
    Protected,
}

/// What values a setting takes. Numbers are bytes, seconds or whatever the row's text says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// `yes` or `no`.
    Switch,
    Integer {
        min: i64,
        max: i64,
    },
    /// Bytes, with Redis's units: `1k` is 1000, `1kb` is 1024.
    Memory {
        min: i64,
        max: i64,
    },
    /// Bytes, or `N%` (kept as a negative number).
    MemoryOrPercent,
    /// Octal digits (file permissions).
    Octal {
        max: i64,
    },
    /// One of these words; the number is its index.
    Choice(&'static [&'static str]),
    /// Words joined by blanks; the number has bit n-1 for word n, the first word stands for none.
    Flags(&'static [&'static str]),
    Text,
    /// The name of a file or a folder, without the folder that it is in.
    BaseName,
    /// Several words.
    Words,
    Save,
    OutputLimits,
    EventClasses,
    OomScores,
    Percentiles,
    /// `HOST PORT`, or `NO ONE`.
    Primary,
}

/// A setting's value before it was ever set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    Number(i64),
    Text(&'static str),
}

/// One row: see the builders below for the usual forms.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    /// Another name for the same setting, or empty.
    pub alias: &'static str,
    pub shape: Shape,
    pub start: Start,
    pub scope: Scope,
    pub change: Change,
    /// CONFIG GET shows it only when asked by its exact name.
    pub hidden: bool,
    /// Logs and SLOWLOG show `(redacted)` in place of its value.
    pub secret: bool,
    /// Why any other value than the first one is refused, or empty.
    pub refusal: &'static str,
    /// What CONFIG SET replies if the server cannot act on a new value; empty where there is nothing to do before it holds.
    pub unable: &'static str,
    pub about: &'static str,
}

const fn setting(name: &'static str, shape: Shape, start: Start) -> Setting {
    Setting {
        name,
        alias: "",
        shape,
        start,
        scope: Scope::Process,
        change: Change::Anytime,
        hidden: false,
        secret: false,
        refusal: "",
        unable: "",
        about: "",
    }
}

/// A `yes` or `no`.
const fn switch(name: &'static str, start: bool) -> Setting {
    setting(name, Shape::Switch, Start::Number(start as i64))
}

/// An integer within a range, both ends included.
const fn integer(name: &'static str, min: i64, max: i64, start: i64) -> Setting {
    setting(name, Shape::Integer { min, max }, Start::Number(start))
}

/// An amount of memory within a range of bytes.
const fn memory(name: &'static str, min: i64, max: i64, start: i64) -> Setting {
    setting(name, Shape::Memory { min, max }, Start::Number(start))
}

/// One of several words; `start` is the index of the first one.
const fn choice(name: &'static str, words: &'static [&'static str], start: usize) -> Setting {
    assert!(start < words.len());
    setting(name, Shape::Choice(words), Start::Number(start as i64))
}

/// Any text.
const fn text(name: &'static str, start: &'static str) -> Setting {
    setting(name, Shape::Text, Start::Text(start))
}

/// A name without a path.
const fn base_name(name: &'static str, start: &'static str) -> Setting {
    setting(name, Shape::BaseName, Start::Text(start))
}

/// A value of a form of its own.
const fn special(name: &'static str, shape: Shape, start: &'static str) -> Setting {
    setting(name, shape, Start::Text(start))
}

impl Setting {
    const fn alias(mut self, name: &'static str) -> Setting {
        self.alias = name;
        self
    }
    const fn segment(mut self) -> Setting {
        self.scope = Scope::Segment;
        self
    }
    const fn inert(mut self) -> Setting {
        self.scope = Scope::Inert;
        self
    }
    const fn at_start(mut self) -> Setting {
        self.change = Change::AtStart;
        self
    }
    const fn at_start_here(mut self) -> Setting {
        self.change = Change::AtStartHere;
        self
    }
    const fn protected(mut self) -> Setting {
        self.change = Change::Protected;
        self
    }
    const fn hidden(mut self) -> Setting {
        self.hidden = true;
        self
    }
    const fn secret(mut self) -> Setting {
        self.secret = true;
        self
    }
    /// Refuses every value but the first one.
    const fn refuses(mut self, reason: &'static str) -> Setting {
        self.refusal = reason;
        self
    }
    /// The server acts on a new value before it holds: it moves a listener, or reads a certificate.
    const fn acted_on(mut self, unable: &'static str) -> Setting {
        self.unable = unable;
        self
    }
    const fn about(mut self, text: &'static str) -> Setting {
        self.about = text;
        self
    }

    /// Whether `name` is a name of the setting, in any case.
    pub fn is_named(&self, name: &[u8]) -> bool {
        self.names().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The name and, where there is one, the alias.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain((!self.alias.is_empty()).then_some(self.alias))
    }

    /// Whether the value is a list of words, so that a file's line may hold several.
    pub fn takes_words(&self) -> bool {
        !matches!(
            self.shape,
            Shape::Switch
                | Shape::Integer { .. }
                | Shape::Memory { .. }
                | Shape::MemoryOrPercent
                | Shape::Octal { .. }
                | Shape::Choice(_)
                | Shape::Text
                | Shape::BaseName
                | Shape::EventClasses
        )
    }
}

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].1.len();
        group += 1;
    }
    count
};

/// Every row of every group.
pub static TABLE: [Setting; COUNT] = ROWS;

/// [`TABLE`] for constants: a constant may not read a static.
#[allow(
    clippy::large_const_arrays,
    reason = "a constant may not read a static, and nothing copies it at run time"
)]
const ROWS: [Setting; COUNT] = {
    let mut rows = [polder::SETTINGS[0]; COUNT];
    let (mut at, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut row = 0;
        while row < GROUPS[group].1.len() {
            rows[at] = GROUPS[group].1[row];
            (at, row) = (at + 1, row + 1);
        }
        group += 1;
    }
    rows
};

/// A setting's place in [`TABLE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id(pub usize);

impl Id {
    /// The setting's row.
    pub fn row(self) -> &'static Setting {
        &TABLE[self.0]
    }

    /// Every setting.
    pub fn all() -> impl Iterator<Item = Id> {
        (0..TABLE.len()).map(Id)
    }
}

/// The setting of that name, for constants: `const MAX: Id = id("maxclients");`. A wrong name does not compile.
pub const fn id(name: &str) -> Id {
    let mut at = 0;
    while at < COUNT {
        if polder_base::bytes::same(ROWS[at].name.as_bytes(), name.as_bytes()) {
            return Id(at);
        }
        at += 1;
    }
    panic!("no setting has this name")
}

/// The setting with this name or alias, in any case.
pub fn find(name: &[u8]) -> Option<Id> {
    TABLE.iter().position(|row| row.is_named(name)).map(Id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_given_once() {
        let mut names: Vec<&str> = TABLE.iter().flat_map(Setting::names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn names_are_lower_case_words() {
        for name in TABLE.iter().flat_map(Setting::names) {
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)),
                "{name}"
            );
        }
    }

    #[test]
    fn every_setting_with_a_meaning_says_it() {
        for row in TABLE.iter().filter(|row| row.scope != Scope::Inert && row.refusal.is_empty()) {
            assert!(row.about.ends_with('.'), "{} needs a sentence about it", row.name);
        }
    }

    #[test]
    fn a_number_has_a_number_to_start_with() {
        for row in &TABLE {
            let texts = row.takes_words() && !matches!(row.shape, Shape::Flags(_))
                || matches!(row.shape, Shape::Text | Shape::BaseName | Shape::EventClasses);
            assert_eq!(matches!(row.start, Start::Text(_)), texts, "{}", row.name);
        }
    }

    #[test]
    fn settings_are_found_by_either_name_in_any_case() {
        assert_eq!(find(b"MaxMemory").map(|id| id.row().name), Some("maxmemory"));
        assert_eq!(find(b"hash-max-ziplist-entries"), Some(id("hash-max-listpack-entries")));
        assert_eq!(find(b"no-such-setting"), None);
    }
}
