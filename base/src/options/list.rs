//! What is optional in commands of lists.
use super::{Fill, Words};

/// What is optional in LPOS, for `Database::lpos_many`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LposOptions {
    rank: Option<i64>,
    count: u64,
    maxlen: u64,
}

impl LposOptions {
    /// All matches, from the head on.
    #[must_use]
    pub fn new() -> LposOptions {
        LposOptions::default()
    }

    /// `RANK`: begins with this match, of which the first is 1; negative numbers look from the tail on.
    #[must_use]
    pub fn rank(self, rank: i64) -> LposOptions {
        LposOptions { rank: Some(rank), ..self }
    }

    /// `COUNT`: at most this many matches; 0 means all.
    #[must_use]
    pub fn count(self, count: u64) -> LposOptions {
        LposOptions { count, ..self }
    }

    /// `MAXLEN`: looks at most at this many elements; 0 means all.
    #[must_use]
    pub fn maxlen(self, elements: u64) -> LposOptions {
        LposOptions { maxlen: elements, ..self }
    }
}

impl Fill for LposOptions {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        if let Some(rank) = self.rank {
            words.bytes("RANK").integer(rank);
        }
        words.bytes("COUNT").count(self.count).bytes("MAXLEN").count(self.maxlen);
    }
}
