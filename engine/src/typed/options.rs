//! What several commands have in common that is optional: when something expires, and on which condition.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::reply::{FromScalar, Scalar};
use crate::typed::words::{Fill, Words};

/// A key, and what was found in it.
pub type Keyed<T> = (Vec<u8>, Vec<T>);

/// When a key or a field expires.
///
/// ```
/// # use polder_engine::Expiry;
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
    pub(crate) fn fill_set(self, words: &mut Words<'_>) {
        match self {
            Expiry::Keep => drop(words.bytes("KEEPTTL")),
            Expiry::Never => {}
            Expiry::In(_) | Expiry::At(_) => self.fill_time(words),
        }
    }

    /// The words of a command that keeps an expiry unless told otherwise (GETEX, HGETEX).
    pub(crate) fn fill_get(self, words: &mut Words<'_>) {
        match self {
            Expiry::Keep => {}
            Expiry::Never => drop(words.bytes("PERSIST")),
            Expiry::In(_) | Expiry::At(_) => self.fill_time(words),
        }
    }

    fn fill_time(self, words: &mut Words<'_>) {
        match self {
            Expiry::In(time) => drop(words.bytes("PX").count(in_ms(time))),
            Expiry::At(time) => drop(words.bytes("PXAT").count(at_ms(time))),
            Expiry::Keep | Expiry::Never => {}
        }
    }
}

/// Whole milliseconds; a part of one counts as one.
pub(crate) fn in_ms(time: Duration) -> u64 {
    time.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch, 0 for what is earlier.
pub(crate) fn at_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, in_ms)
}

/// How long a key or a field lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime<T> {
    /// There is no such key or field.
    Absent,
    /// It does not expire.
    Endless,
    /// It expires after this [`Duration`], or at this [`SystemTime`].
    Ends(T),
}

impl<T> Lifetime<T> {
    /// When it ends, if it is there and does.
    pub fn end(self) -> Option<T> {
        if let Lifetime::Ends(end) = self { Some(end) } else { None }
    }

    /// What a command says: -2, -1 or milliseconds.
    pub(crate) fn of(said: i64, end: impl FnOnce(Duration) -> T) -> Lifetime<T> {
        match said {
            -2 => Lifetime::Absent,
            ..=-1 => Lifetime::Endless,
            ms => Lifetime::Ends(end(Duration::from_millis(ms.unsigned_abs()))),
        }
    }

    /// The same of a time that counts from the Unix epoch.
    pub(crate) fn at(said: i64) -> Lifetime<SystemTime> {
        Lifetime::of(said, |since| UNIX_EPOCH + since)
    }
}

impl FromScalar for Lifetime<Duration> {
    fn from_scalar(scalar: Scalar) -> Option<Lifetime<Duration>> {
        i64::from_scalar(scalar).map(|said| Lifetime::of(said, |left| left))
    }
}

impl FromScalar for Lifetime<SystemTime> {
    fn from_scalar(scalar: Scalar) -> Option<Lifetime<SystemTime>> {
        i64::from_scalar(scalar).map(Lifetime::<SystemTime>::at)
    }
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

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The head, where index 0 is.
    Left,
    /// The tail.
    Right,
}

impl End {
    pub(crate) fn word(self) -> &'static str {
        match self {
            End::Left => "LEFT",
            End::Right => "RIGHT",
        }
    }
}
