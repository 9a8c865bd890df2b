//! Recovery of a seat: completes or undoes what a thread's death has interrupted, from the words of the seat alone.
//!
//! The thread that holds the seat's witness runs [`settle`]: a recoverer, the next owner, or the owner itself when it leaves. That
//! thread may die at any instruction, too. The next one then starts again and reaches the same state, since each step is one of
//! - a redo that stores absolute values (memory journal, committed journal, expansion of a retired tree);
//! - an undo that drops each item from its list right after it has undone it, and that does no harm if it is done twice;
//! - the removal of a node from one of two places in which it is found.

use crate::class::CLASSES;
use crate::layout::seat as at;
use crate::memory::{cache_count, cache_slot};
use crate::seat::Seat;
use crate::swap_barrier::Changes;

/// Brings a seat in order; a seat that is in order is not changed. `died`: its last owner or a recoverer may have died during a change.
pub(crate) fn settle(seat: &Seat, died: bool) {
    seat.settle_memory();
    seat.check_caches();
    seat.settle_new();
    // A lower bound that it had lifted becomes 0, which is below everything, until a thread computes it anew.
    (0..at::LIFTED_WORDS).filter(|slot| seat.get(at::LIFTED + slot * 8) != 0).for_each(|slot| seat.land(slot, 0));
    seat.end_snapshot();
    settle_pending(seat);
    seat.settle_retired();
    seat.set(at::RECLAIMING, 0);
    seat.check_journal();
    if seat.get(at::STATUS) & 3 == at::COMMITTED {
        seat.redo();
    } else if seat.journal_len() > 0 || seat.get(at::JOURNAL_NEXT) != 0 {
        seat.rollback();
    }
    seat.leave_commit();
    seat.announce_changes(Changes::default());
    if died {
        seat.recount_retired();
    }
}

/// A node on its way between the cache and a chain: it stays where it already is, or goes back into the cache.
fn settle_pending(seat: &Seat) {
    let pending = seat.get(at::PENDING);
    if pending == 0 {
        return;
    }
    let chained = seat.journal_blocks.borrow().contains(&pending)
        || seat.retired_blocks.borrow().contains(&pending)
        || seat.chain(seat.get(at::OVERLAY_FIRST)).contains(&pending);
    let is_node = seat.segment().node_class(pending) == Some(CLASSES - 1);
    if !chained && is_node && !seat.caches(CLASSES - 1, pending) && !seat.has_just_retired(pending) {
        seat.push_patiently(CLASSES - 1, pending);
    }
    seat.set(at::PENDING, 0);
}

impl Seat {
    /// The newest node of each class's cache.
    pub(crate) fn cache_tops(&self) -> Vec<u64> {
        (0..CLASSES)
            .filter_map(|class| {
                let count = self.get(cache_count(class));
                (count > 0).then(|| self.get(cache_slot(class, count - 1)))
            })
            .collect()
    }
}
