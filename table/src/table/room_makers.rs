//! How many transactions of this process have made room in extents that they have not filled yet.
//!
//! A transaction of many keys takes longer than the pause between two rounds of maintenance. If extents shrank meanwhile, it would find its
//! room gone at each attempt, and would replace all extents again and again. So maintenance shrinks no extent while there is such a
//! transaction. Eviction does, since the memory of an inline entry comes free in no other way.
//!
//! A forked child starts at 0, since no transaction of its parent goes on in it. Maintenance in other processes does not see this count.
use std::sync::atomic::{AtomicU64, Ordering};

use polder_shm::fork;

/// The generation of the process in the upper half, the count in the lower.
#[derive(Default)]
pub(crate) struct RoomMakers(AtomicU64);

impl RoomMakers {
    pub(crate) fn add(&self) {
        self.change(|count| count + 1);
    }

    pub(crate) fn remove(&self) {
        self.change(|count| count.saturating_sub(1));
    }

    pub(crate) fn is_any(&self) -> bool {
        Self::own(self.0.load(Ordering::Relaxed)) != 0
    }

    fn change(&self, change: impl Fn(u64) -> u64) {
        let changed = |word| Some(fork::generation() << 32 | change(Self::own(word)));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }

    /// The count, if it is this process's.
    fn own(word: u64) -> u64 {
        if word >> 32 == fork::generation() & u64::from(u32::MAX) { word & u64::from(u32::MAX) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_generation_has_counted_does_not_count() {
        let makers = RoomMakers(AtomicU64::new((fork::generation() + 1) << 32 | 3));
        assert!(!makers.is_any());
        makers.remove();
        assert!(!makers.is_any());
        makers.add();
        assert!(makers.is_any());
        makers.remove();
        assert!(!makers.is_any());
    }
}
