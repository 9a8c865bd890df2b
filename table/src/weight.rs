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

use polder_base::{Fault, Ref};
use polder_shm::class::{NODE_MAX, SIZES, SLAB_BYTES, class_of};
use polder_shm::layout::seat as at;
use polder_shm::node::HEADER_BYTES;
use polder_shm::{class_bytes, offset_of};

use crate::api::Stop;
use crate::table::Table;
use crate::txn::Txn;

/// The greatest depth of a tree.
const DEPTH_MAX: u32 = 64;
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
        if all > room - room / NEAR_CEILING { all } else { all.saturating_sub(cached) }
    }
}

impl Txn<'_> {
    /// Bytes of the nodes of trees. Of the nodes below another one `samples` are looked at, all if that is 0.
    ///
    /// # Errors
    /// [`Fault::Damaged`] if a tree is deeper than a tree can be.
    pub fn trees_bytes(&self, roots: &[Ref], samples: usize) -> Result<u64, Stop> {
        roots.iter().map(|root| self.tree_bytes(*root, samples, DEPTH_MAX)).sum()
    }

    /// Bytes of the nodes of trees, or of the first [`WEIGHED_NODES_MAX`] of them; of a damaged tree as much as could be read.
    pub(crate) fn weigh(&self, roots: &[Ref]) -> u64 {
        use polder_values::Nodes as _;
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

    /// A node and everything below it. The last node of a row may be emptier than the others, so it stands for itself alone; the others
    /// stand for their neighbours.
    fn tree_bytes(&self, node: Ref, samples: usize, depth: u32) -> Result<u64, Stop> {
        use polder_values::Nodes as _;
        if node.is_none() {
            return Ok(0);
        }
        let deeper = depth.checked_sub(1).ok_or(Fault::Damaged { what: "a tree that is too deep" })?;
        let refs = self.refs(node)?;
        let own = node_bytes(self.data(node)?.len() + size_of_val(refs));
        let Some((last, others)) = refs.split_last() else { return Ok(own) };
        let looked =
            if samples == 0 { others.len() } else { others.len().min(samples.saturating_sub(1).max(1)) };
        let mut bytes = 0;
        for number in 0..looked {
            bytes += self.tree_bytes(others[number * others.len() / looked], samples, deeper)?;
        }
        let estimated = (u128::from(bytes) * others.len() as u128 / looked.max(1) as u128) as u64;
        Ok(own + estimated + self.tree_bytes(*last, samples, deeper)?)
    }
}

/// Returns the bytes that a node with `length` bytes of payload takes: the size of its class.
pub fn node_bytes(length: usize) -> u64 {
    let bytes = length + HEADER_BYTES as usize;
    if bytes <= NODE_MAX { SIZES[class_of(bytes)].into() } else { bytes as u64 }
}
