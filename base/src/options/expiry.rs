//! When something expires, and on which condition.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Fill, Words};

/// When a key or a field expires.
///
/// ```
/// # use polder_base::options::Expiry;
/// # use std::time::Duration;
/// let soon = Expiry::In(Duration::from_secs(60));
/// let day = Expiry::at_ms(1_900_000_000_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// After this time, in whole milliseconds; a part of one counts as one.
    In(Duration),
    /// At this time, in whole milliseconds.
    At(SystemTime),
    /// As before.
    Keep,
    /// Never: an expiry is removed.
    Never,
}

impl Expiry {
    /// At a time in milliseconds since the Unix epoch.
    pub fn at_ms(unix_ms: u64) -> Expiry {
        Expiry::At(UNIX_EPOCH + Duration::from_millis(unix_ms))
    }

    /// The words of a command that removes an expiry unless told otherwise (SET, HSETEX).
    pub fn fill_set(self, words: &mut Words<'_>) {
        if self != Expiry::Never {
            self.fill_own(words);
        }
    }

    /// The words of a command that keeps an expiry unless told otherwise (GETEX, HGETEX).
    pub fn fill_get(self, words: &mut Words<'_>) {
        if self != Expiry::Keep {
            self.fill_own(words);
        }
    }

    fn fill_own(self, words: &mut Words<'_>) {
        match self {
            Expiry::In(time) => words.bytes("PX").count(in_ms(time)),
            Expiry::At(time) => words.bytes("PXAT").count(at_ms(time)),
            Expiry::Keep => words.bytes("KEEPTTL"),
            Expiry::Never => words.bytes("PERSIST"),
        };
    }
}

/// Each one has a word: a command that does not take it refuses it.
impl Fill for Expiry {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        self.fill_own(words);
    }
}

/// Whole milliseconds; a part of one counts as one.
pub fn in_ms(time: Duration) -> u64 {
    time.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch, 0 for what is earlier.
pub fn at_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, in_ms)
}

/// On which condition an expiry is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExpireIf {
    /// On none.
    #[default]
    Always,
    /// `NX`: there is no expiry yet.
    Endless,
    /// `XX`: there is one.
    Limited,
    /// `GT`: the new one is later.
    Later,
    /// `LT`: the new one is sooner; what never expires counts as latest.
    Sooner,
}

impl Fill for ExpireIf {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        match self {
            ExpireIf::Always => {}
            ExpireIf::Endless => drop(words.bytes("NX")),
            ExpireIf::Limited => drop(words.bytes("XX")),
            ExpireIf::Later => drop(words.bytes("GT")),
            ExpireIf::Sooner => drop(words.bytes("LT")),
        }
    }
}
