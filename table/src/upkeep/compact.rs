//! Compaction: if one size of node has taken all slabs and another size needs some, the contents of the emptiest slabs are moved together.
//!
//! A slab serves one size until it is empty. After many deletions, or when an application's values become longer or shorter, every slab
//! may hold a few nodes of the old size. Then much memory is free, but none of it for the new size. A *pass* marks slabs that can be
//! spared (`shm/drain.rs`), goes through all extents, and copies the nodes that it finds in those slabs to other slabs. Then the marked
//! slabs are empty and can serve every size.
//!
//! Why a move is safe: it is a neutral transaction (`neutral.rs`) that gives a key's entry another record, or another root of its tree, with
//! the same content.
//!
//! A write that runs out of memory does a part of a pass before it fails ([`Txn::await_room`]). Maintenance does so, too, when all slabs
//! are taken and many could be spared. Extents, and nodes that belong to seats, stay where they are.

use std::collections::HashSet;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use polder_base::{Fault, Ref, time};
use polder_shm::layout::seat as at;
use polder_shm::node::NodeKind;
use polder_shm::{Seat, sync};
use polder_values::{Nodes, Value};
use smallvec::SmallVec;

use crate::api::*;
use crate::layout::entry::{self, Image, is_key};
use crate::layout::raw;
use crate::layout::record;
use crate::table::Table;
use crate::table::compact_pass::{Pass, REST_FACTOR, Stretch};
use crate::txn::Txn;

/// How long it waits for a lock, as other maintenance does: the holder may be stopped.
const PATIENCE: Duration = Duration::from_micros(100);
/// The same for a pass that maintenance begins, before a write has run out of memory.
const SHARE_AHEAD: u64 = 8;
/// How long the end of a pass waits for the old nodes to be freed, which the pins of other threads, and of this thread's turn, hold back.
const SETTLING: Duration = Duration::from_millis(100);
/// After this time a pass ends wherever it is: it should not take as long, and a damaged value must not make it endless.
const PASS_MAX: Duration = Duration::from_secs(600);
/// A pass also ends after this many keys in succession for which there was no room elsewhere.
const CRAMPED_MAX: u32 = 64;
/// Nodes of a tree that one transaction looks at, and that it moves, at most, since other threads may wait for the key meanwhile.
const VISITS_PER_COMMIT: usize = 4096;
const MOVES_PER_COMMIT: usize = 256;
/// Looks at one bucket that changes each time.
const ATTEMPTS: usize = 8;
/// Levels of a tree; more are damage.
const LEVELS_MAX: usize = 64;

/// A walk through a part of a value's tree. A path names, from the root down, which reference of each node to follow.
#[derive(Default)]
struct Walk {
    begin: Vec<usize>,
    path: Vec<usize>,
    end: Option<Vec<usize>>,
    visits: usize,
    moves: usize,
    moved: HashSet<Ref>,
}

impl Walk {
    fn is_over(&self) -> bool {
        self.visits >= VISITS_PER_COMMIT || self.moves >= MOVES_PER_COMMIT
    }
}

impl Table {
    /// As [`Table::compact`], for maintenance: it begins a pass when all slabs are taken, before a write has run out of memory. It also takes
    /// off marks that a process has left. Returns whether it is to go on soon.
    pub(crate) fn compact_ahead(&self, end: Instant) -> bool {
        let segment = self.segment();
        let is_on = self.pass.try_lock().is_ok_and(|pass| pass.is_on());
        let is_left_over = !is_on && segment.has_old_marks();
        if !is_on && !is_left_over && !segment.is_dedicated() {
            return false;
        }
        let Ok(txn) = self.begin(Mode::Write) else { return false };
        if is_left_over {
            txn.seat().unmark_slabs();
            return false;
        }
        self.compact(&txn, SHARE_AHEAD, end);
        self.pass.try_lock().is_ok_and(|pass| pass.is_on())
    }

    /// Goes on with the pass of this process, or begins one if that frees one slab in `share`; until `end`. During a pass, writes that run
    /// out of memory try again (`oom_retry.rs`).
    pub(crate) fn compact(&self, txn: &Txn<'_>, share: u64, end: Instant) {
        let segment = self.segment();
        let mut pass = match self.pass.try_lock() {
            Ok(pass) => pass,
            Err(TryLockError::Poisoned(pass)) => pass.into_inner(),
            // Another thread of this process does the pass, or only looks whether one is worth its cost.
            Err(TryLockError::WouldBlock) if self.is_compacting.load(Ordering::Relaxed) => {
                return self.oom_retry.note_others();
            }
            Err(TryLockError::WouldBlock) => return,
        };
        // During a snapshot the old nodes would be kept for it, so no slab would come free.
        if segment.snapshot() != 0 {
            if pass.is_on() {
                self.end(&mut pass, txn.seat());
            }
            return;
        }
        if !pass.is_on() {
            if !pass.may_begin(share) {
                return;
            }
            let begun = sync::now();
            let (marked, spare) = txn.seat().mark_slabs(pass.least(segment.slabs_ready(), share));
            pass.looks_from = Some(sync::now() + (sync::now() - begun) * REST_FACTOR);
            if marked == 0 {
                return;
            }
            pass.begin(marked, spare);
            self.is_compacting.store(true, Ordering::Relaxed);
        }
        segment.keep_marks();
        let worked_before = time::thread_cpu();
        while let Some(stretch) = pass.at.take() {
            pass.at = txn.as_maintenance(PATIENCE, || txn.empty_stretch(stretch, &mut pass.cramped, end));
            if pass.cramped >= CRAMPED_MAX || pass.begun.is_some_and(|begun| sync::now() - begun > PASS_MAX) {
                pass.at = None;
            }
            if pass.at.is_none() {
                pass.settles_until = Some(sync::now() + SETTLING);
            }
            if sync::now() >= end {
                break;
            }
        }
        pass.worked += time::thread_cpu().saturating_sub(worked_before);
        self.oom_retry.note_pass(pass.worked, pass.begun.map_or(Duration::ZERO, |begun| sync::now() - begun));
        if pass.at.is_none() {
            self.settle(&mut pass, txn.seat());
        }
    }

    /// Waits until the old nodes are freed, over several calls if necessary, and ends the pass.
    fn settle(&self, pass: &mut Pass, seat: &Seat) {
        // Nothing that was found is used any more (T3).
        seat.unpin();
        seat.reclaim_until(sync::now() + Duration::from_millis(1));
        seat.pin();
        // Other threads of this process have moved a part of it.
        let is_all_free = self.segment().sum_over_seats(at::RETIRED_BYTES) == 0;
        if is_all_free || pass.settles_until.is_none_or(|until| sync::now() >= until) {
            self.end(pass, seat);
        }
    }

    fn end(&self, pass: &mut Pass, seat: &Seat) {
        pass.end(seat.unmark_slabs());
        self.is_compacting.store(false, Ordering::Relaxed);
    }
}

impl Txn<'_> {
    /// Moves nodes out of marked slabs, for the keys whose home is the bucket of a position. Keys that other threads hold, and those for which
    /// there is no room elsewhere, stay. It ends at `end`, but moves something in any case. The transaction is empty before and after this.
    /// Returns where to go on, unless that was all.
    fn empty_stretch(&self, stretch: Stretch, cramped: &mut u32, end: Instant) -> Option<Stretch> {
        let Stretch { db, position: first, mut inside } = stretch;
        let (keys, next) = self.leaving(db, first);
        for (position, key) in keys {
            if position == first && inside.as_ref().is_some_and(|(seen, _)| key < *seen) {
                continue;
            }
            let mut path =
                inside.take().filter(|(seen, _)| key == *seen).map(|(_, path)| path).unwrap_or_default();
            while let Some(further) = self.move_some(db, &key, path, cramped) {
                if sync::now() >= end {
                    return Some(Stretch { db, position, inside: Some((key, further)) });
                }
                path = further;
            }
        }
        match next {
            Some(position) => Some(Stretch { db, position, inside: None }),
            None => Some(Stretch { db: db + 1, ..Stretch::default() })
                .filter(|next| (next.db as usize) < DATABASES),
        }
    }

    /// The keys from this position on whose home is the bucket of the position, and whose record lies in a marked slab or names a tree of which
    /// a part may; in the order of their positions and bytes. And where the next bucket begins, if there is one.
    fn leaving(&self, db: Db, position: u64) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
        let mut attempts = 0;
        loop {
            let Some(extent) = self.extent_around(db, position) else { return (Vec::new(), None) };
            let home = extent.home_of(position);
            attempts += 1;
            let images = match self.at_home(&extent, home) {
                // Other threads may change it during each look, or have replaced the extent.
                None if attempts < ATTEMPTS => continue,
                images => images.unwrap_or_default(),
            };
            let may_leave = images
                .iter()
                .filter(|image| image.is_reference() && is_key(image))
                .filter(|image| image.record().is_ok_and(|record| self.may_leave(record)));
            let keys = may_leave
                .filter_map(|image| self.key_of(image).ok())
                .map(|key| (self.hash_of(&key).position, key));
            let mut keys: Vec<_> =
                keys.filter(|(at, _)| *at >= position && extent.home_of(*at) == home).collect();
            keys.sort_unstable();
            return (keys, extent.behind(home));
        }
    }

    fn may_leave(&self, record: Ref) -> bool {
        let has_refs =
            || raw::payload(self.segment(), record).is_ok_and(|(kind, _)| kind == NodeKind::RecordRefs);
        self.segment().is_leaving(record) || has_refs()
    }

    /// Moves some of a key's nodes out of marked slabs, from a place in its tree on, in a transaction of its own. Nodes stay where they are if
    /// another thread holds the key, the value is damaged, or there is no room elsewhere. Returns where in the tree to go on, if that was not
    /// all.
    fn move_some(&self, db: Db, key: &[u8], path: Vec<usize>, cramped: &mut u32) -> Option<Vec<usize>> {
        let mut walk = Walk::default();
        let moved = self.neutral(db, key, None, &mut |entry, _| {
            walk = Walk { begin: path.clone(), ..Walk::default() };
            self.moved(entry, &mut walk)
        });
        match moved {
            Err(stop) => {
                *cramped += matches!(stop, Stop::Fault(Fault::Full(_))) as u32;
                return None;
            }
            Ok(true) => {
                *cramped = 0;
                self.count(Counter::Moved, walk.moves as u64);
            }
            Ok(false) => {}
        }
        walk.end
    }

    /// The entry with copies of its nodes, which are made here, in the place of those in marked slabs; `None`: none of them moves.
    fn moved(&self, entry: &Image, walk: &mut Walk) -> Result<Option<Image>, Stop> {
        if !entry.is_reference() {
            return Ok(None);
        }
        let old = entry.record()?;
        let (kind, payload) = raw::payload(self.segment(), old)?;
        let mut refs = [Ref::NONE; 2];
        if let Value::Tree(root) = record::read(kind, payload)?.value {
            let moved = self.move_all(&root.refs, walk, true)?;
            refs.copy_from_slice(&moved);
        }
        let places = record::root_places(kind, payload);
        if walk.moves == 0 && !self.segment().is_leaving(old) {
            return Ok(None);
        }
        walk.moves += 1;
        let node = self.seat.make(kind, payload.len())?;
        raw::fill(self.segment(), node, &[payload]);
        if let Some(places) = places.filter(|_| refs != [Ref::NONE; 2]) {
            raw::fill_words(self.segment(), node, places[0], refs.map(|node| node.0));
        }
        // Not with what it names, since its successor names that, too.
        self.retire(old, false)?;
        Ok(Some(entry::with_record(entry, node)))
    }

    /// Moves all of these sibling nodes; `is_edge`: the walk has passed some of them already. Returns the references in their place.
    fn move_all(&self, nodes: &[Ref], walk: &mut Walk, is_edge: bool) -> Result<SmallVec<[Ref; 64]>, Stop> {
        let level = walk.path.len();
        if level >= LEVELS_MAX {
            return Err(Fault::Damaged { what: "a tree" }.into());
        }
        let first = if is_edge { walk.begin.get(level).copied().unwrap_or(0) } else { 0 };
        let mut moved = SmallVec::from_slice(nodes);
        for (index, node) in nodes.iter().enumerate().skip(first).filter(|(_, node)| !node.is_none()) {
            walk.path.push(index);
            if walk.is_over() {
                walk.end.get_or_insert_with(|| walk.path.clone());
            } else {
                moved[index] = self.move_node(*node, walk, is_edge && index == first)?;
            }
            walk.path.pop();
        }
        Ok(moved)
    }

    /// Copies a node and those below it, as far as they lie in marked slabs or name nodes that do.
    fn move_node(&self, node: Ref, walk: &mut Walk, is_edge: bool) -> Result<Ref, Stop> {
        walk.visits += 1;
        let old = self.refs(node)?;
        let moved = self.move_all(old, walk, is_edge)?;
        if *moved == *old && !self.segment().is_leaving(node) {
            return Ok(node);
        }
        // A damaged tree may name a node twice: it must not retire twice (S5).
        if !walk.moved.insert(node) {
            return Err(Fault::Damaged { what: "a tree" }.into());
        }
        walk.moves += 1;
        let copy = self.copy(node, &mut |refs, _| refs.copy_from_slice(&moved))?;
        self.release(node);
        Ok(copy)
    }
}
