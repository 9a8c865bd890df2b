//! Weights: what counts for `maxmemory`, and what a value takes.
//!
//! `maxmemory` limits what can be evicted. So what stays whatever is evicted does not count: the segment's fixed parts, the seats of
//! threads, and the free nodes in their caches. What goes by itself does not count either: retired nodes, what is kept for a snapshot,
//! and the change log.
//!
//! Near the segment's ceiling caches count, too: there a write fails for want of the nodes that they hold, so keys are evicted before.
//!
//! A retired tree leaves the list of its seat node by node, so of a tree that waits only the root counts as retired. An eviction
//! therefore weighs the tree that it removes, and the seat tells these bytes until the tree is taken apart ([`at::TREE_BYTES`]). A weight
//! is never above the truth: what is told falls by each node that leaves a tree, so it never exceeds what waits, and no rest of it stays.

use std::sync::atomic::Ordering;

use polder_base::Ref;
use polder_shm::class::SLAB_BYTES;
use polder_shm::layout::{header, seat as at};
use polder_shm::{class_bytes, offset_of};
use polder_values::Nodes;

use crate::table::Table;
use crate::txn::Txn;

/// The last part of a segment's room, as one by this number, in which caches count.
const NEAR_CEILING: u64 = 16;
/// Nodes of a tree that an eviction weighs, at most.
const WEIGHED_NODES_MAX: usize = 4096;

impl Table {
    /// Bytes that count for `maxmemory`: nodes in use and the bookkeeping of their slabs.
    pub fn claimed(&self) -> u64 {
        let cached = self.segment().cached_bytes();
        self.cached_bytes.bytes.store(cached, Ordering::Relaxed);
        self.cached_bytes.questions.store(0, Ordering::Relaxed);
        self.claimed_beside(cached)
    }

    /// Like [`Table::claimed`], with a sum of the caches that may be a few calls old.
    pub(crate) fn claimed_lately(&self) -> u64 {
        let known = &self.cached_bytes;
        // An update that is lost to another thread's makes the figure a call older.
        let questions = known.questions.load(Ordering::Relaxed);
        if questions >= self.segment().seats_high() {
            return self.claimed();
        }
        known.questions.store(questions + 1, Ordering::Relaxed);
        self.claimed_beside(known.bytes.load(Ordering::Relaxed))
    }

    /// The bytes that count if caches hold `cached` bytes.
    fn claimed_beside(&self, cached: u64) -> u64 {
        let segment = self.segment();
        let passing = [at::RETIRED_BYTES, at::TREE_BYTES, at::SNAPSHOT_LOG_BYTES]
            .map(|word| segment.sum_over_seats(word));
        let uncounted = passing.iter().fold(segment.fixed_bytes(), |sum, bytes| sum.saturating_add(*bytes));
        let all = segment.used_bytes().saturating_sub(uncounted).saturating_sub(segment.log_bytes());

        let room = segment.geometry().slabs_max * SLAB_BYTES;
        let all = if all > room - room / NEAR_CEILING { all } else { all.saturating_sub(cached) };
        // The memory that the tier has in its process takes the place of what it has taken out of the segment.
        all.saturating_add(self.tier_bytes())
    }

    /// Bytes that the tier has in its process, while that lives.
    #[inline]
    fn tier_bytes(&self) -> u64 {
        match self.segment().load(header::TIER_BYTES) {
            0 => 0,
            bytes => self.segment().tier().process().map_or(0, |_| bytes),
        }
    }

    /// Bytes of the segment that are in use, with those that the tier has in its process (V9 of `tier/spill.rs`).
    #[inline]
    pub(crate) fn used_in_all(&self) -> u64 {
        self.segment().used_bytes().saturating_add(self.tier_bytes())
    }
}

impl Txn<'_> {
    /// Bytes of the nodes of trees, or of the first [`WEIGHED_NODES_MAX`] of them; of a damaged tree as much as could be read.
    pub(crate) fn weigh(&self, roots: &[Ref]) -> u64 {
        let mut left: Vec<Ref> = roots.to_vec();
        let mut bytes = 0;
        for _ in 0..WEIGHED_NODES_MAX {
            let Some(node) = left.pop() else { break };
            if let (Some((_, class)), Ok(refs)) = (self.segment().class_at(offset_of(node)), self.refs(node))
            {
                bytes += class_bytes(class);
                left.extend(refs.iter().filter(|node| !node.is_none()));
            }
        }
        bytes
    }
}
