//! How a client tracks the keys that it reads.
use polder_hub::track::Terms;
use polder_table::Db;

/// Which of its reads a client wants to be told about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    #[default]
    All,
    /// Those after CLIENT CACHING YES.
    OptIn,
    /// All but those after CLIENT CACHING NO.
    OptOut,
}

/// How a client tracks.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    pub(crate) terms: Terms,
    pub(crate) choice: Choice,
    /// CLIENT CACHING has been said of the next call.
    pub(crate) caching: bool,
    /// The client that was to be told is gone.
    pub broken: bool,
    pub(crate) prefix_bytes: usize,
}

impl Tracking {
    /// The client that is told instead, 0 for none.
    pub fn redirect(&self) -> u64 {
        self.terms.redirect.map_or(0, |redirect| redirect.client)
    }

    /// Whether it hears of all keys with certain prefixes.
    pub fn broadcasts(&self) -> bool {
        self.terms.prefixes.is_some()
    }

    /// Bytes that its prefixes take, here and in the thread's list.
    pub fn bytes(&self) -> usize {
        self.prefix_bytes
    }

    pub(crate) fn remembers(&self) -> bool {
        !self.broadcasts()
            && match self.choice {
                Choice::All => true,
                Choice::OptIn => self.caching,
                Choice::OptOut => !self.caching,
            }
    }
}

/// A key that a transaction which is going on has read, for a client that tracks.
#[derive(Clone, Debug)]
pub struct Read {
    pub(crate) db: Db,
    pub(crate) key: Vec<u8>,
    /// Changes that the transaction had made by then.
    pub(crate) changes_before: usize,
}
