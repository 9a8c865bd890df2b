//! Compaction: where one size of node has taken all slabs and another one needs some, what lies in the emptiest slabs moves together.
//!
//! A slab serves one size until it is empty. After a FLUSHALL, or when an application's values become longer or shorter, every slab may hold a
//! few nodes of the old size: much is free, and nothing for the new one. A *pass* marks slabs that can be spared (`shm/drain.rs`), goes
//! through all extents, and copies what it finds in those slabs to others; then they are free for every size.
//!
//! A move is a transaction that gives a key's entry another record, or another root of its tree, of the same content: nodes are immutable (S1), so
//! readers go on reading the old ones, which retire. The entry keeps its version: nobody who watches it sees a change, and nobody is told of one. To
//! a snapshot it is a change like any other (N2): the entry of before, whose nodes its pin holds, is saved.
//!
//! Who finds no memory does a stretch of a pass before he says so ([`Txn::await_room`]); so do the chores, where all slabs are taken and
//! many could be spared. Extents, and what belongs to seats, stay where they are.

use std::time::{Duration, Instant};

use polder_base::{Fault, Ref};
use polder_shm::node::NodeKind;
use polder_values::{Nodes, Value};
use smallvec::SmallVec;

use crate::api::*;
use crate::bucket;
use crate::directory::{self, Extent, map_at};
use crate::entry;
use crate::lookup::view;
use crate::place::is_key;
use crate::raw;
use crate::record;
use crate::table::Table;
use crate::txn::{Pending, Txn};

/// As of other chores: who holds a lock may be stopped.
const PATIENCE: Duration = Duration::from_micros(100);
/// One slab in so many must come free, or a pass is not worth its while.
pub(crate) const SHARE: u64 = 64;
/// The same where nobody has asked for memory yet.
const SHARE_AHEAD: u64 = 8;
/// How long no pass is begun after one, or after a look for slabs that can be spared: so many times as long as that took, at most so long.
const REST_FACTOR: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(10);
/// Up to which time the end of that is worth waiting for.
const REST_AWAITED: Duration = Duration::from_millis(100);
/// How long after one that was in vain none is begun unless it may bring twice as much, twice as long each time: what lies there does not move, or
/// others fill what comes free.
const VAIN_REST: Duration = Duration::from_secs(1);
const VAIN_REST_MAX: Duration = Duration::from_secs(64);
/// A pass was in vain if fewer than one in so many of the marked slabs have come free.
const VAIN_SHARE: u64 = 4;
/// How long what has moved is waited for at the end of a pass.
const SETTLING: Duration = Duration::from_millis(1);
/// Nodes of a tree that one transaction looks at, and that it moves, at most: as long as others wait for the key.
const VISITS_PER_COMMIT: usize = 4096;
const MOVES_PER_COMMIT: usize = 256;
/// Attempts to move one key.
const ATTEMPTS: usize = 8;
/// Levels of a tree; more are damage.
const LEVELS_MAX: usize = 64;

/// What comes next in a pass.
#[derive(Clone, Default)]
struct Stretch {
    db: Db,
    position: u64,
    /// A key there whose value has been gone through in part, and how far.
    inside: Option<(Vec<u8>, Vec<usize>)>,
}

/// A walk through some of a value's tree. A path says, from the root down, which of a node's references one goes by.
#[derive(Default)]
struct Walk {
    begin: Vec<usize>,
    path: Vec<usize>,
    end: Option<Vec<usize>>,
    visits: usize,
    moves: usize,
}

impl Walk {
    fn is_over(&self) -> bool {
        self.visits >= VISITS_PER_COMMIT || self.moves >= MOVES_PER_COMMIT
    }
}

/// How far a process has come.
#[derive(Default)]
pub(crate) struct Pass {
    at: Option<Stretch>,
    /// How many slabs were marked.
    marked: u64,
    begun: Option<Instant>,
    rests_until: Option<Instant>,
    vain_until: Option<Instant>,
    vain_rest: Duration,
}

impl Pass {
    /// After a pass from which this many slabs have come free.
    fn end(&mut self, freed: u64) {
        self.rest();
        let in_vain = freed * VAIN_SHARE < self.marked;
        self.vain_rest = if in_vain { (self.vain_rest * 2).clamp(VAIN_REST, VAIN_REST_MAX) } else { Duration::ZERO };
        self.vain_until = Some(Instant::now() + self.vain_rest);
    }

    fn rest(&mut self) {
        let took = self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.rests_until = Some(Instant::now() + (took * REST_FACTOR).min(REST_MAX));
    }

    /// How long nothing is begun.
    fn is_resting(&self) -> Option<Duration> {
        let left = self.rests_until?.saturating_duration_since(Instant::now());
        (self.at.is_none() && !left.is_zero()).then_some(left)
    }

    /// How many slabs must be worth marking so that one in `share` of all comes free.
    fn least(&self, slabs: u64, share: u64) -> u64 {
        let is_vain = self.vain_until.is_some_and(|until| Instant::now() < until);
        (slabs / share).max(if is_vain { 2 * self.marked } else { 0 })
    }
}

impl Table {
    /// As [`Table::compact`], where all slabs are taken, though nobody has asked for memory. Marks that somebody has left are taken off.
    pub(crate) fn compact_ahead(&self, end: Instant) -> bool {
        let segment = self.segment();
        let is_on = self.pass.try_lock().is_ok_and(|pass| pass.at.is_some());
        let is_left_over = !is_on && segment.has_old_marks();
        if !is_on && !is_left_over && !segment.is_dedicated() {
            return false;
        }
        let Ok(txn) = self.begin(Mode::Write) else { return false };
        if is_left_over {
            txn.seat().unmark_slabs();
        }
        self.compact(&txn, SHARE_AHEAD, end)
    }

    /// Goes on with the pass that this process has begun, or begins one if that brings one slab in `share`; until a time. Answers whether there is hope of
    /// more room by that.
    pub(crate) fn compact(&self, txn: &Txn<'_>, share: u64, end: Instant) -> bool {
        let segment = self.segment();
        // A thread of ours that is at it says what it has freed. And what is replaced beside a snapshot would be kept for it.
        let Some(mut pass) = self.pass.try_lock().ok().filter(|_| segment.snapshot() == 0) else { return false };
        if let Some(left) = pass.is_resting() {
            return left <= REST_AWAITED;
        }
        if pass.at.is_none() {
            pass.begun = Some(Instant::now());
            let marked = txn.seat().mark_slabs(pass.least(segment.slabs_ready(), share));
            if marked == 0 {
                pass.rest();
                return false;
            }
            (pass.marked, pass.at) = (marked, Some(Stretch::default()));
        }
        while let Some(stretch) = pass.at.take() {
            segment.keep_marks();
            self.relief.hope();
            let next_db = Stretch { db: stretch.db + 1, ..Stretch::default() };
            pass.at = match txn.as_chore(PATIENCE, || txn.empty_stretch(&stretch, end)) {
                Ok(next) => next.or(Some(next_db)).filter(|next| (next.db as usize) < DATABASES),
                // There is no room for what is to move.
                Err(_) => None,
            };
            if pass.at.is_none() {
                // Nothing that was found is used any more (T3).
                txn.seat().unpin();
                txn.seat().reclaim_until(Instant::now() + SETTLING);
                txn.seat().pin();
                let left = txn.seat().unmark_slabs();
                let freed = pass.marked.saturating_sub(left);
                pass.end(freed);
            }
            if Instant::now() >= end {
                break;
            }
        }
        true
    }
}

impl Txn<'_> {
    /// Moves what lies in marked slabs out of the extent around a position, as far as nobody is in the way, for no longer than until `end` where one
    /// value is large. The transaction has done nothing yet, and has done nothing then. Answers where to go on.
    ///
    /// # Errors
    /// [`Fault::Full`]: there is no room elsewhere.
    fn empty_stretch(&self, stretch: &Stretch, end: Instant) -> Result<Option<Stretch>, Stop> {
        let (segment, db) = (self.segment(), stretch.db);
        let found = loop {
            let root = segment.observe(map_at(db) + 8);
            let found = (root != 0).then(|| directory::walk(segment, root, stretch.position)).flatten();
            if self.seat.covers_now() {
                break found;
            }
        };
        let Some(extent) = found.filter(|extent| extent.covers(stretch.position)) else { return Ok(None) };
        let inside = |key: &[u8]| stretch.inside.as_ref().filter(|(seen, _)| seen == key).map(|(_, path)| path.clone());
        for key in self.leaving(&extent) {
            let mut path = inside(&key);
            loop {
                let left = self.move_some(db, &key, path.unwrap_or_default())?;
                match left {
                    Some(path) if Instant::now() >= end => return Ok(Some(Stretch { inside: Some((key, path)), ..*stretch })),
                    Some(_) => path = left,
                    None => break,
                }
            }
        }
        Ok(extent.end().map(|position| Stretch { db, position, inside: None }))
    }

    /// The keys of an extent whose record lies in a marked slab, or names a tree of which a part may.
    fn leaving(&self, extent: &Extent) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for index in 0..extent.buckets() {
            let Some(bucket) = extent.bucket(self.segment(), index) else { continue };
            let images = view(&self.seat, bucket, |words| {
                let images = bucket::entries(words).map(|(unit, _)| bucket::image_at(words, unit));
                images.filter(|image| image.is_reference() && is_key(image)).collect::<Vec<_>>()
            });
            for image in images.filter(|_| self.seat.covers_now()).into_iter().flatten() {
                let has_refs = || raw::payload(self.segment(), image.record()).is_ok_and(|(kind, _)| kind == NodeKind::RecordRefs);
                if self.segment().is_leaving(image.record()) || has_refs() {
                    keys.extend(self.key_of(&image));
                }
            }
        }
        keys
    }

    /// Moves some of what a key has in marked slabs, from a place in its tree on, in a transaction of its own. What somebody else holds, and what
    /// is damaged, stays. Answers where in its tree to go on, if that is not all.
    ///
    /// # Errors
    /// As [`Txn::empty_stretch`].
    fn move_some(&self, db: Db, key: &[u8], path: Vec<usize>) -> Result<Option<Vec<usize>>, Stop> {
        // Whom the key before has met is nobody's business any more.
        self.scratch.extra.borrow_mut().clear();
        for _ in 0..ATTEMPTS {
            let mut walk = Walk { begin: path.clone(), ..Walk::default() };
            let moved = self.move_key(db, key, &mut walk).and_then(|moves| if moves { self.commit() } else { Ok(()) });
            // Also what was committed: the next one begins anew.
            self.abort();
            match moved {
                Err(Stop::Retry) => {}
                Err(full @ Stop::Fault(Fault::Full(_))) => return Err(full),
                Err(_) => return Ok(None),
                Ok(()) => {
                    self.count(Counter::Moved, walk.moves as u64);
                    return Ok(walk.end);
                }
            }
        }
        Ok(None)
    }

    /// Answers whether there is anything to commit.
    fn move_key(&self, db: Db, key: &[u8], walk: &mut Walk) -> Result<bool, Stop> {
        let index = self.hold(db, key, false)?;
        let spot = self.scratch.held.borrow()[index].spot;
        let spot = spot.filter(|spot| !spot.expired && is_key(&spot.image) && spot.image.is_reference());
        let Some(image) = spot.map(|spot| spot.image) else { return Ok(false) };
        let (kind, payload) = raw::payload(self.segment(), image.record())?;
        let mut refs = [Ref::NONE; 2];
        if let Value::Tree(root) = record::read(kind, payload)?.value {
            let moved = self.move_all(&root.refs, walk, true)?;
            refs.copy_from_slice(&moved);
        }
        let places = record::root_places(kind, payload);
        if walk.moves == 0 && !self.segment().is_leaving(image.record()) {
            return Ok(false);
        }
        walk.moves += 1;
        let node = self.seat.make(kind, payload.len())?;
        raw::fill(self.segment(), node, &[payload]);
        if let Some(places) = places.filter(|_| refs != [Ref::NONE; 2]) {
            raw::fill_words(self.segment(), node, places[0], refs.map(|node| node.0));
        }
        // Not what it names: its successor does, too.
        self.retire(image.record(), false)?;
        self.scratch.held.borrow_mut()[index].pending = Some(Pending::Write(entry::with_record(&image, node)));
        Ok(true)
    }

    /// Moves all of these nodes, siblings; `is_edge`: some of them have been passed already. Answers what is there in their place.
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

    /// Copies a node, and those below it, as far as they lie in marked slabs or name what does.
    fn move_node(&self, node: Ref, walk: &mut Walk, is_edge: bool) -> Result<Ref, Stop> {
        walk.visits += 1;
        let old = self.refs(node)?;
        let moved = self.move_all(old, walk, is_edge)?;
        if *moved == *old && !self.segment().is_leaving(node) {
            return Ok(node);
        }
        walk.moves += 1;
        let copy = self.copy(node, &mut |refs, _| refs.copy_from_slice(&moved))?;
        self.release(node);
        Ok(copy)
    }
}
