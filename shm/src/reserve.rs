//! The reserve: a few slabs that hold no data, so that a transaction that only removes can be noted when memory is full.
//!
//! ```text
//!   slab   0 ... reserve          reserve ...                                  slabs_max
//!         [ blocks of chains  |  nodes and, while there is room, blocks of chains      ]
//! ```
//!
//! A journal or a retired list that outgrows its seat takes blocks from everywhere, and from the reserve once there are no others.
//! Its blocks go back to the reserve at once, and not into the cache, from which data would take them. So DEL, FLUSHALL, expiry and
//! eviction work at the ceiling, where there would be no other 16 KiB for the list of what they free. The reserve is limited: if a
//! stopped reader holds back more nodes than its blocks can list, the calls fail, and the error names that reader.
//!
//! In a segment of an older build data may lie there: it stays until it is freed.

use polder_base::Fault;

use crate::class::{CLASSES, SLAB_BYTES};
use crate::seat::{Seat, cache_count};
use crate::segment::Segment;
use crate::slab::{slab_class, slab_free};

/// The class of chains' blocks.
const BLOCK_CLASS: usize = CLASSES - 1;
/// One slab in 64 is kept in reserve, within these bounds. The blocks of 16 slabs (64 of 16 KiB) hold 65,000 items.
const SHARE: u64 = 64;
const SLABS_MIN: u64 = 2;
const SLABS_MAX: u64 = 16;

impl Segment {
    /// Slabs at the beginning that hold blocks of chains only.
    pub(crate) fn reserved_slabs(&self) -> u64 {
        (self.geometry().slabs_max / SHARE).clamp(SLABS_MIN, SLABS_MAX)
    }
}

impl Seat {
    /// Gets a block out of the reserve and into the cache, and returns it. It is the newest node of that cache then.
    ///
    /// # Errors
    /// `fault`, when the reserve is empty, or other threads keep the slabs locked that have some.
    #[cold]
    pub(crate) fn draw_reserve(&self, fault: Fault) -> Result<u64, Fault> {
        let segment = self.segment();
        let fits = |state: u64| state == 0 || slab_class(state) == Some(BLOCK_CLASS) && slab_free(state) > 0;
        let mut end = None;
        loop {
            let slabs = 0..segment.reserved_slabs().min(segment.slabs_ready());
            let mut fitting =
                slabs.filter(|&slab| fits(segment.load(segment.slab_state_at(slab)))).peekable();
            let busy = fitting.peek().copied();
            match (fitting.find(|&slab| self.lock_memory(slab, fits)), busy) {
                (Some(slab), _) if segment.load(segment.slab_state_at(slab)) == 0 => {
                    self.dedicate(slab, BLOCK_CLASS)
                }
                (Some(slab), _) => {
                    self.take_nodes(slab, BLOCK_CLASS, 1);
                    if self.get(cache_count(BLOCK_CLASS)) > 0 {
                        return self.top(BLOCK_CLASS);
                    }
                }
                (None, Some(slab)) if self.await_slab(slab, &mut end) => {}
                (None, _) => return Err(fault),
            }
        }
    }

    /// Gives a block that has just come into the cache back to the reserve, if it is from there. If another thread holds the lock
    /// of the slab at that moment, the block stays in the cache for its next use.
    pub(crate) fn refund_reserve(&self, block: u64) {
        let slab = (block - self.segment().geometry().slabs_at) / SLAB_BYTES;
        if slab < self.segment().reserved_slabs() && self.lock_memory(slab, |_| true) {
            self.give_nodes(slab, BLOCK_CLASS, self.get(cache_count(BLOCK_CLASS)));
        }
    }
}
