//! Room for writers while values leave for a tier.
//!
//! Spilling begins below `maxmemory` (`polder-persist`, `tier_process.rs`). A writer goes on until memory is [`SOFT`] above it; from then on it waits, and
//! fails with OOM after [`PATIENCE_MS`].

use std::time::Duration;

use polder_base::time::now_ms;
use polder_shm::sync;

use crate::table::Table;

/// The part of `maxmemory` above it from which on writers wait: a fiftieth.
const SOFT: u64 = 50;
/// The longest wait of writers before they fail.
const PATIENCE_MS: u64 = 2_000;
/// The pause between two looks.
const NAP: Duration = Duration::from_millis(1);

impl Table {
    /// Returns true if a write may go on, with so much memory at most. Wakes the threads of the tier where it may not.
    pub(crate) fn has_spilled(&self, most: u64) -> bool {
        let soft = most + most / SOFT;
        if self.claimed_lately() <= soft || self.claimed() <= soft {
            self.note_crowd(false, 0);
            return true;
        }
        self.note_crowd(true, now_ms());
        let words = self.segment().tier();
        (0..words.threads())
            .filter_map(|number| words.thread(number))
            .for_each(|(seat, _)| self.segment().wake(seat));
        false
    }

    /// Returns true if a write that has found no room may find some soon, since values are leaving.
    pub fn is_spilling(&self) -> bool {
        self.is_tiered() && self.note_crowd(true, now_ms()) < PATIENCE_MS
    }

    /// Waits until there is room. Returns false if none comes: at once without a tier. Outside of any transaction.
    pub fn await_spills(&self) -> bool {
        while self.is_spilling() {
            self.reclaim();
            sync::sleep(NAP);
            if self.make_room() {
                return true;
            }
        }
        false
    }
}
