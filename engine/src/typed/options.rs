//! What several commands have in common: keys with what is in them, lifetimes, ends.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::reply::{FromScalar, Scalar};

/// A key, and what was found in it.
pub type Keyed<T> = (Vec<u8>, Vec<T>);

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
