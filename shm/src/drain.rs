//! Slabs that are to be emptied: they are marked in their state words, and give no nodes to a
//! thread that finds some elsewhere. So what moves out of them does not come back, and they become
//! free for every size.
//!
//! ```text
//!   slabs of one size     [####....] [##......] [.#......] [#######.]      # in use   . free
//!   marked, being emptied             [mm      ] [ m      ]                what lies there moves to the others (`table/upkeep/compact.rs`)
//!   then                  [####mmm.]  -          -         [#######.]      - free for every size
//! ```
//!
//! A mark is a hint. It is set and cleared under the slab's lock, by the journal of slabs. A thread
//! that needs a node and finds none elsewhere takes it from a marked slab, and clears the mark.
//! Older builds know no marks and overwrite them. So the marks of a dead thread withhold no memory.
//! A thread that sees that none has worked on them for [`MARKS_MS`] clears them.

use polder_base::Ref;

use crate::class::{CLASSES, SLAB_BYTES, per_slab};
use crate::layout::header;
use crate::seat::{Seat, cache_count, cache_slot};
use crate::segment::{Segment, offset_of};
use crate::slab::{MARK, is_marked, mark_of, slab_class, slab_free};

/// Slabs that are marked at once, at most: 1 GiB, so that marking them takes some milliseconds.
const MARKED_MAX: u64 = 16_384;

/// How empty slabs are, in steps of a sixteenth.
const LEVELS: usize = 17;

fn level_of(class: usize, free: u64) -> usize {
    (free as usize * (LEVELS - 1) / per_slab(class)).min(LEVELS - 1)
}

/// After this time the thread that marked slabs is taken to be gone.
const MARKS_MS: u64 = 10_000;

/// So few of the 64 groups of slabs that have free ones are few.
const FREE_GROUPS: u32 = 4;

impl Segment {
    /// Whether a node lies in a slab that is to be emptied.
    pub fn is_leaving(&self, node: Ref) -> bool {
        self.class_at(offset_of(node)).is_some_and(|(slab, _)| is_marked(self.load(self.slab_state_at(slab))))
    }

    /// Whether slabs are marked.
    pub(crate) fn has_marks(&self) -> bool {
        self.load(header::MARKS) != 0
    }

    /// Notes that a thread is emptying the marked slabs.
    pub fn keep_marks(&self) {
        self.publish(header::MARKS, polder_base::time::now_ms());
    }

    /// Whether slabs are marked and no thread empties them any more.
    pub fn has_old_marks(&self) -> bool {
        let kept_ms = self.observe(header::MARKS);
        kept_ms != 0 && polder_base::time::now_ms().abs_diff(kept_ms) > MARKS_MS
    }

    /// Whether nearly all memory is handed out to sizes already, as far as the hints tell.
    pub fn is_dedicated(&self) -> bool {
        self.slabs_ready() >= self.geometry().slabs_max
            && self.observe(header::HINTS).count_ones() <= FREE_GROUPS
    }
}

impl Seat {
    /// Marks slabs to be emptied: of each size the emptiest, as many as the others have room for,
    /// and `MARKED_MAX` in all. Returns how many are marked and how many could be. Marks none if
    /// these are fewer than `least`.
    pub fn mark_slabs(&self, least: u64) -> (u64, u64) {
        let segment = self.segment();
        let mut emptiness = [[0u64; LEVELS]; CLASSES];
        let mut free = [0u64; CLASSES];
        self.each_gap(|_, class, nodes| {
            emptiness[class][level_of(class, nodes)] += 1;
            free[class] += nodes;
        });
        // Not to the last node, or a thread that needs some meanwhile would take them from these
        // slabs.
        let mut left: [u64; CLASSES] =
            std::array::from_fn(|class| free[class] / per_slab(class) as u64 * 7 / 8);
        let spare = left.iter().sum::<u64>();
        if spare < least.max(1) {
            return (0, spare);
        }
        let total = spare.min(MARKED_MAX);
        segment.keep_marks();
        // The level of which some are marked, and all above it.
        let bounds: [usize; CLASSES] = std::array::from_fn(|class| {
            let mut above = 0;
            (0..LEVELS)
                .rev()
                .find(|level| {
                    above += emptiness[class][*level];
                    above >= left[class]
                })
                .unwrap_or(0)
        });
        let above = |class: usize| emptiness[class][bounds[class] + 1..].iter().sum::<u64>();
        let mut of_bound: [u64; CLASSES] =
            std::array::from_fn(|class| left[class].saturating_sub(above(class)));
        let mut marked = 0;
        self.each_gap(|slab, class, nodes| {
            let level = level_of(class, nodes);
            let (at_bound, room) = (level == bounds[class], left[class] > 0 && marked < total);
            if level < bounds[class] || !room || at_bound && of_bound[class] == 0 {
                return;
            }
            of_bound[class] -= at_bound as u64;
            left[class] -= 1;
            marked += 1;
            self.set_mark(slab, MARK);
        });
        self.return_marked();
        (marked, spare)
    }

    /// Visits the slabs that have free nodes: their number, size and how many.
    fn each_gap(&self, mut visit: impl FnMut(u64, usize, u64)) {
        let segment = self.segment();
        for slab in segment.reserved_slabs()..segment.slabs_ready() {
            let state = segment.load(segment.slab_state_at(slab));
            if let Some(class) = slab_class(state).filter(|_| slab_free(state) > 0) {
                visit(slab, class, slab_free(state));
            }
        }
    }

    /// Clears all marks. Returns of how many slabs, which have not become empty.
    pub fn unmark_slabs(&self) -> u64 {
        let segment = self.segment();
        let (mut count, mut all) = (0, true);
        for slab in segment.reserved_slabs()..segment.slabs_ready() {
            let state = segment.load(segment.slab_state_at(slab));
            if is_marked(state) {
                count += 1;
                all &= self.set_mark(slab, 0);
                if let Some(class) = slab_class(state) {
                    segment.set_hint(class + 1, slab >> segment.group_shift());
                }
            }
        }
        // If a slab is locked, its mark is cleared when the marks are old.
        if all {
            segment.publish(header::MARKS, 0)
        } else {
            segment.keep_marks()
        }
        count
    }

    /// Gives cached nodes of marked slabs back to these: taken from here they would be in use again.
    #[cold]
    pub(crate) fn return_marked(&self) {
        let segment = self.segment();
        let slab_of = |node: u64| (node - segment.geometry().slabs_at) / SLAB_BYTES;
        for class in 0..CLASSES {
            loop {
                let count = self.get(cache_count(class));
                let mut slabs = (0..count).map(|slot| slab_of(self.get(cache_slot(class, slot))));
                let Some(slab) = slabs.find(|&slab| self.lock_memory(slab, is_marked)) else { break };
                self.give_nodes(slab, class, count);
            }
        }
    }

    /// Sets a slab's mark, unless the slab is locked. Returns whether it is set now.
    fn set_mark(&self, slab: u64, mark: u64) -> bool {
        let at = self.segment().slab_state_at(slab);
        if self.lock_memory(slab, |state| slab_class(state).is_some()) {
            self.record(0, at, self.segment().load(at) & !MARK | mark);
            self.commit_memory(1);
        }
        mark_of(self.segment().load(at)) == mark
    }
}
