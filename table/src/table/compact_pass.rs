//! How far this process has come with emptying slabs, and when it may begin again.

use std::time::{Duration, Instant};

use polder_shm::sync;

use crate::api::Db;

/// A pass must free at least one slab in this many to be worth its cost.
pub(crate) const SHARE: u64 = 64;
/// How long maintenance begins no pass after a pass, and no thread looks for slabs again after a look: this many times as long as that took.
pub(crate) const REST_FACTOR: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(10);
/// After a pass that has failed, none is begun for this long unless it may free twice as much; the time doubles with each failure. A pass
/// fails if the nodes in the marked slabs cannot be moved, or other threads fill what comes free.
const FAILED_REST: Duration = Duration::from_secs(1);
const FAILED_REST_MAX: Duration = Duration::from_secs(64);
/// A pass has failed if less than one in this many of the marked slabs has come free.
const FREED_SHARE: u64 = 4;

/// Where a pass goes on: a position, which stays valid when the extent around it is replaced; and there a key, in the order of their
/// bytes, and how far the walk through its value has come.
#[derive(Clone, Default)]
pub(crate) struct Stretch {
    pub(crate) db: Db,
    pub(crate) position: u64,
    pub(crate) inside: Option<(Vec<u8>, Vec<usize>)>,
}

/// The state of this process's pass.
#[derive(Default)]
pub(crate) struct Pass {
    pub(crate) at: Option<Stretch>,
    /// The walk has ended, and until then the pass waits for the old nodes to be freed.
    pub(crate) settles_until: Option<Instant>,
    /// How many slabs were marked, of how many that could have been, and when.
    pub(crate) marked: u64,
    pub(crate) spare: u64,
    pub(crate) begun: Option<Instant>,
    /// CPU time that this process has spent on it.
    pub(crate) worked: Duration,
    /// Keys in succession for which there was no room.
    pub(crate) cramped: u32,
    pub(crate) looks_from: Option<Instant>,
    pub(crate) ahead_from: Option<Instant>,
    pub(crate) rests_until: Option<Instant>,
    pub(crate) failed_rest: Duration,
}

impl Pass {
    pub(crate) fn is_on(&self) -> bool {
        self.at.is_some() || self.settles_until.is_some()
    }

    /// Whether a pass may begin that is to free one slab in `share`.
    pub(crate) fn may_begin(&self, share: u64) -> bool {
        let is_over = |from: Option<Instant>| from.is_none_or(|from| sync::now() >= from);
        is_over(self.looks_from) && (share == SHARE || is_over(self.ahead_from))
    }

    /// How many slabs there must be to mark, at least, so that a pass is worth its cost.
    pub(crate) fn least(&self, slabs: u64, share: u64) -> u64 {
        let has_failed = self.rests_until.is_some_and(|until| sync::now() < until);
        (slabs / share).max(if has_failed { 2 * self.spare } else { 0 })
    }

    pub(crate) fn begin(&mut self, marked: u64, spare: u64) {
        (self.marked, self.spare, self.begun, self.cramped) = (marked, spare, Some(sync::now()), 0);
        self.worked = Duration::ZERO;
        self.at = Some(Stretch::default());
    }

    /// After a pass in which this many slabs have not come free.
    pub(crate) fn end(&mut self, left: u64) {
        let took = self.begun.take().map_or(Duration::ZERO, |begun| sync::now() - begun);
        let has_failed = self.marked.saturating_sub(left) * FREED_SHARE < self.marked;
        self.failed_rest = if has_failed {
            (self.failed_rest * 2).clamp(FAILED_REST, FAILED_REST_MAX)
        } else {
            Duration::ZERO
        };
        (self.at, self.settles_until) = (None, None);
        self.ahead_from = Some(sync::now() + (took * REST_FACTOR).min(REST_MAX));
        self.rests_until = Some(sync::now() + self.failed_rest);
    }
}
