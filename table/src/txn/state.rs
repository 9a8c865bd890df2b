//! What a transaction ([`crate::Txn`]) knows about itself, in groups.
use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::access::lookup::Hit;
use crate::api::Db;
use crate::log::telling::Telling;

/// Its clock, in Unix time; 0 before the first call that asks.
#[derive(Default)]
pub(crate) struct TxnClock {
    pub(crate) now_ms: Cell<u64>,
    pub(crate) now_us: Cell<u64>,
    pub(crate) coarse_ms: Cell<u64>,
    /// Keys that have expired still count as existing.
    pub(crate) sees_expired: Cell<bool>,
}

/// The attempt that is running.
#[derive(Default)]
pub(crate) struct Attempt {
    /// The first is 0.
    pub(crate) number: Cell<u32>,
    /// Lookups without locks.
    pub(crate) lookups: Cell<u32>,
    /// A key was found by the fast path, which leaves no marks.
    pub(crate) unmarked: Cell<bool>,
    /// Locks have been taken or things noted: there is something to roll back.
    pub(crate) dirty: Cell<bool>,
}

/// How long locks are waited for in all, and until when that is once something has been waited for.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) patience: Cell<Option<Duration>>,
    pub(crate) until: Cell<Option<Instant>>,
}

/// What is added to the thread's counters at the end.
#[derive(Default)]
pub(crate) struct Counts {
    /// Hits and misses of this attempt.
    pub(crate) looks: Cell<[u32; 2]>,
    /// Values whose memory is freed later, while no call waits for it ([`crate::Txn::count_freed`]).
    pub(crate) freed: Cell<u64>,
}

/// The key that all calls of a reader ask for ([`crate::Txn::share`]).
#[derive(Default)]
pub(crate) struct Shared<'t> {
    pub(crate) key: Option<(Db, &'t [u8])>,
    /// What the first lookup found.
    pub(crate) hit: Cell<Option<Option<Hit>>>,
    /// One of the calls has counted as its access.
    pub(crate) accessed: Cell<bool>,
}

/// What it tells the change log (`effect.rs`).
#[derive(Default)]
pub(crate) struct Notes {
    /// See [`crate::Txn::tells`].
    pub(crate) telling: Cell<Telling>,
    /// See [`crate::Txn::joins_calls`].
    pub(crate) is_joined: Cell<bool>,
    /// See [`crate::Txn::tell_news`].
    pub(crate) has_news: Cell<bool>,
    /// See [`crate::Txn::tell_as_whole`].
    pub(crate) is_whole: Cell<bool>,
    /// How often something was written.
    pub(crate) writes: Cell<u64>,
    /// The write, as [`crate::txn::held::Held::untold`] names it, with which databases were emptied or swapped.
    pub(crate) map_untold: Cell<u64>,
}
