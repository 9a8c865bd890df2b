//! What is optional in commands of streams.
use std::fmt::Display;

use super::{Fill, Words};

/// What a stream is limited to, for `Database::xtrim` and [`XaddOptions`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trim {
    what: &'static str,
    threshold: String,
    exact: bool,
    limit: Option<u64>,
}

impl Trim {
    /// `MAXLEN`: to the newest of this number.
    #[must_use]
    pub fn maxlen(entries: u64) -> Trim {
        Trim { what: "MAXLEN", threshold: entries.to_string(), exact: true, limit: None }
    }

    /// `MINID`: to the entries from this id on.
    #[must_use]
    pub fn minid(id: impl Display) -> Trim {
        Trim { what: "MINID", threshold: id.to_string(), exact: true, limit: None }
    }

    /// `~`: may leave more where that is cheaper.
    #[must_use]
    pub fn roughly(self) -> Trim {
        Trim { exact: false, ..self }
    }

    /// `LIMIT`: removes at most this many entries at once; only with [`Trim::roughly`].
    #[must_use]
    pub fn limit(self, entries: u64) -> Trim {
        Trim { limit: Some(entries), ..self }
    }
}

impl Fill for Trim {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        words.bytes(self.what).bytes(if self.exact { "=" } else { "~" }).bytes(&self.threshold);
        if let Some(entries) = self.limit {
            words.bytes("LIMIT").count(entries);
        }
    }
}

/// What is optional in XADD, for `Database::xadd_with`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct XaddOptions {
    id: Option<String>,
    only_there: bool,
    trim: Option<Trim>,
}

impl XaddOptions {
    /// An id of the clock, and no limit.
    #[must_use]
    pub fn new() -> XaddOptions {
        XaddOptions::default()
    }

    /// An id that is higher than those before.
    #[must_use]
    pub fn id(self, id: impl Display) -> XaddOptions {
        XaddOptions { id: Some(id.to_string()), ..self }
    }

    /// `NOMKSTREAM`: only if the stream is there.
    #[must_use]
    pub fn if_present(self) -> XaddOptions {
        XaddOptions { only_there: true, ..self }
    }

    /// Removes old entries at the same time.
    #[must_use]
    pub fn trim(self, trim: Trim) -> XaddOptions {
        XaddOptions { trim: Some(trim), ..self }
    }
}

impl Fill for XaddOptions {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        words.flag(self.only_there, "NOMKSTREAM");
        if let Some(trim) = &self.trim {
            words.options(trim);
        }
        words.bytes(self.id.as_deref().unwrap_or("*"));
    }
}
