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

use std::collections::HashSet;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use polder_base::{Fault, Ref, time};
use polder_shm::Seat;
use polder_shm::layout::seat as at;
use polder_shm::node::NodeKind;
use polder_values::{Nodes, Value};
use smallvec::SmallVec;

use crate::api::*;
use crate::entry;
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
/// How long none is begun ahead after a pass, or by anybody after a look for slabs that can be spared: so many times as long as that took.
const REST_FACTOR: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(10);
/// How long after one that was in vain none is begun unless it may bring twice as much, twice as long each time: what lies there does not move, or
/// others fill what comes free.
const VAIN_REST: Duration = Duration::from_secs(1);
const VAIN_REST_MAX: Duration = Duration::from_secs(64);
/// A pass was in vain if fewer than one in so many of the marked slabs have come free.
const VAIN_SHARE: u64 = 4;
/// How long it is waited at the end of a pass for what has moved: the pins of others, and our own turn, hold it back.
const SETTLING: Duration = Duration::from_millis(100);
/// After this time a pass ends wherever it is: it should not take as long, and a damaged value must not make it endless.
const PASS_MAX: Duration = Duration::from_secs(600);
/// So many keys in succession that find no room elsewhere end it, too.
const CRAMPED_MAX: u32 = 64;
/// Nodes of a tree that one transaction looks at, and that it moves, at most: as long as others wait for the key.
const VISITS_PER_COMMIT: usize = 4096;
const MOVES_PER_COMMIT: usize = 256;
/// Attempts to move one key.
const ATTEMPTS: usize = 8;
/// Levels of a tree; more are damage.
const LEVELS_MAX: usize = 64;

/// What comes next in a pass: a position, which is what it is whatever becomes of the extent around it, and there a key, in the order of their bytes,
/// and how far its value has been gone through.
#[derive(Clone, Default)]
struct Stretch {
    db: Db,
    position: u64,
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
    moved: HashSet<Ref>,
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
    /// All has been gone through, and what has moved is waited for until then.
    settles_until: Option<Instant>,
    /// How many slabs were marked, of how many that could have been, and when.
    marked: u64,
    spare: u64,
    begun: Option<Instant>,
    /// CPU time that this process has spent on it.
    worked: Duration,
    /// Keys in succession for which there was no room.
    cramped: u32,
    looks_from: Option<Instant>,
    ahead_from: Option<Instant>,
    vain_until: Option<Instant>,
    vain_rest: Duration,
}

impl Pass {
    fn is_on(&self) -> bool {
        self.at.is_some() || self.settles_until.is_some()
    }

    /// Whether one may begin that is to bring one slab in `share`.
    fn may_begin(&self, share: u64) -> bool {
        let is_over = |from: Option<Instant>| from.is_none_or(|from| Instant::now() >= from);
        is_over(self.looks_from) && (share == SHARE || is_over(self.ahead_from))
    }

    /// How many slabs must be worth marking so that one in `share` of all comes free.
    fn least(&self, slabs: u64, share: u64) -> u64 {
        let is_vain = self.vain_until.is_some_and(|until| Instant::now() < until);
        (slabs / share).max(if is_vain { 2 * self.spare } else { 0 })
    }

    fn begin(&mut self, marked: u64, spare: u64) {
        (self.marked, self.spare, self.begun, self.cramped) = (marked, spare, Some(Instant::now()), 0);
        self.worked = Duration::ZERO;
        self.at = Some(Stretch::default());
    }

    /// After a pass in which this many slabs have not come free.
    fn end(&mut self, left: u64) {
        let took = self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed());
        let in_vain = self.marked.saturating_sub(left) * VAIN_SHARE < self.marked;
        self.vain_rest = if in_vain { (self.vain_rest * 2).clamp(VAIN_REST, VAIN_REST_MAX) } else { Duration::ZERO };
        (self.at, self.settles_until) = (None, None);
        self.ahead_from = Some(Instant::now() + (took * REST_FACTOR).min(REST_MAX));
        self.vain_until = Some(Instant::now() + self.vain_rest);
    }
}

impl Table {
    /// As [`Table::compact`], where all slabs are taken, though nobody has asked for memory. Marks that somebody has left are taken off. Answers
    /// whether it is to go on soon.
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

    /// Goes on with the pass that this process has begun, or begins one if that brings one slab in `share`; until a time. As long as there is one, there
    /// is hope of more room.
    pub(crate) fn compact(&self, txn: &Txn<'_>, share: u64, end: Instant) {
        let segment = self.segment();
        let mut pass = match self.pass.try_lock() {
            Ok(pass) => pass,
            Err(TryLockError::Poisoned(pass)) => pass.into_inner(),
            // Somebody of ours is at it, or only looks whether it is worth it.
            Err(TryLockError::WouldBlock) if self.is_compacting.load(Ordering::Relaxed) => return self.relief.hope_a_while(),
            Err(TryLockError::WouldBlock) => return,
        };
        // What is replaced beside a snapshot would be kept for it.
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
            let begun = Instant::now();
            let (marked, spare) = txn.seat().mark_slabs(pass.least(segment.slabs_ready(), share));
            pass.looks_from = Some(Instant::now() + begun.elapsed() * REST_FACTOR);
            if marked == 0 {
                return;
            }
            pass.begin(marked, spare);
            self.is_compacting.store(true, Ordering::Relaxed);
        }
        segment.keep_marks();
        let worked_before = time::thread_cpu();
        while let Some(stretch) = pass.at.take() {
            pass.at = txn.as_chore(PATIENCE, || txn.empty_stretch(stretch, &mut pass.cramped, end));
            if pass.cramped >= CRAMPED_MAX || pass.begun.is_some_and(|begun| begun.elapsed() > PASS_MAX) {
                pass.at = None;
            }
            if pass.at.is_none() {
                pass.settles_until = Some(Instant::now() + SETTLING);
            }
            if Instant::now() >= end {
                break;
            }
        }
        pass.worked += time::thread_cpu().saturating_sub(worked_before);
        self.relief.hope_for_pass(pass.worked, pass.begun.map_or(Duration::ZERO, |begun| begun.elapsed()));
        if pass.at.is_none() {
            self.settle(&mut pass, txn.seat());
        }
    }

    /// Waits for what has moved to come free, over several calls if need be, and ends the pass.
    fn settle(&self, pass: &mut Pass, seat: &Seat) {
        // Nothing that was found is used any more (T3).
        seat.unpin();
        seat.reclaim_until(Instant::now() + Duration::from_millis(1));
        seat.pin();
        // Others of this process have moved some of it.
        let is_all_free = self.segment().sum_over_seats(at::RETIRED_BYTES) == 0;
        if is_all_free || pass.settles_until.is_none_or(|until| Instant::now() >= until) {
            self.end(pass, seat);
        }
    }

    fn end(&self, pass: &mut Pass, seat: &Seat) {
        pass.end(seat.unmark_slabs());
        self.is_compacting.store(false, Ordering::Relaxed);
    }
}

impl Txn<'_> {
    /// Moves what lies in marked slabs away from the keys that are at home in the bucket of a position, as far as nobody is in the way and there is room
    /// elsewhere, until `end`, but something in any case. The transaction has done nothing yet, and has done nothing then. Answers where to go on,
    /// unless that is all.
    fn empty_stretch(&self, stretch: Stretch, cramped: &mut u32, end: Instant) -> Option<Stretch> {
        let Stretch { db, position: first, mut inside } = stretch;
        let (keys, next) = self.leaving(db, first);
        for (position, key) in keys {
            if position == first && inside.as_ref().is_some_and(|(seen, _)| key < *seen) {
                continue;
            }
            let mut path = inside.take().filter(|(seen, _)| key == *seen).map(|(_, path)| path).unwrap_or_default();
            while let Some(further) = self.move_some(db, &key, path, cramped) {
                if Instant::now() >= end {
                    return Some(Stretch { db, position, inside: Some((key, further)) });
                }
                path = further;
            }
        }
        match next {
            Some(position) => Some(Stretch { db, position, inside: None }),
            None => Some(Stretch { db: db + 1, ..Stretch::default() }).filter(|next| (next.db as usize) < DATABASES),
        }
    }

    /// The keys that are at home in the bucket of a position, from there on, whose record lies in a marked slab, or names a tree of which a part may; in
    /// the order of their positions and bytes. And where the next bucket begins, if there is one.
    fn leaving(&self, db: Db, position: u64) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
        let mut attempts = 0;
        loop {
            let Some(extent) = self.extent_around(db, position) else { return (Vec::new(), None) };
            let home = extent.home_of(position);
            attempts += 1;
            let images = match self.at_home(&extent, home) {
                // Whoever is beside us may change it at each look, or has put another extent in its place.
                None if attempts < ATTEMPTS => continue,
                images => images.unwrap_or_default(),
            };
            let may_leave = images.iter().filter(|image| image.is_reference() && is_key(image) && self.may_leave(image.record()));
            let keys = may_leave.filter_map(|image| self.key_of(image).ok()).map(|key| (self.hash_of(&key).position, key));
            let mut keys: Vec<_> = keys.filter(|(at, _)| *at >= position && extent.home_of(*at) == home).collect();
            keys.sort_unstable();
            return (keys, extent.behind(home));
        }
    }

    fn may_leave(&self, record: Ref) -> bool {
        let has_refs = || raw::payload(self.segment(), record).is_ok_and(|(kind, _)| kind == NodeKind::RecordRefs);
        self.segment().is_leaving(record) || has_refs()
    }

    /// Moves some of what a key has in marked slabs, from a place in its tree on, in a transaction of its own. What somebody else holds, what is
    /// damaged and what finds no room elsewhere stays. Answers where in its tree to go on, if that is not all.
    fn move_some(&self, db: Db, key: &[u8], path: Vec<usize>, cramped: &mut u32) -> Option<Vec<usize>> {
        // Whom the key before has met is nobody's business any more.
        self.scratch.extra.borrow_mut().clear();
        for _ in 0..ATTEMPTS {
            let mut walk = Walk { begin: path.clone(), ..Walk::default() };
            let moved = self.move_key(db, key, &mut walk).and_then(|moves| if moves { self.commit() } else { Ok(()) });
            // Also what was committed: the next one begins anew.
            self.reset();
            self.scratch.trouble.take();
            match moved {
                Err(Stop::Retry) => {}
                Err(stop) => {
                    *cramped += matches!(stop, Stop::Fault(Fault::Full(_))) as u32;
                    return None;
                }
                Ok(()) => {
                    if walk.moves > 0 {
                        *cramped = 0;
                        self.count(Counter::Moved, walk.moves as u64);
                    }
                    return walk.end;
                }
            }
        }
        None
    }

    /// Answers whether there is anything to commit.
    fn move_key(&self, db: Db, key: &[u8], walk: &mut Walk) -> Result<bool, Stop> {
        let index = self.hold(db, key, false)?;
        let spot = self.scratch.held.borrow()[index].spot;
        let spot = spot.filter(|spot| spot.expired.is_none() && is_key(&spot.image) && spot.image.is_reference());
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
