//! The buffers of a transaction. They go back to a pool of the thread, so that the next transaction allocates nothing.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use bumpalo::Bump;
use polder_base::{Fault, Ref};
use polder_shm::item::{CHANGED, Tag};
use polder_shm::journal::NewItems;
use polder_shm::layout::seat as at;
use polder_shm::{Changes, Seat, Segment};

use crate::access::locate::Location;
use crate::access::lookup::ReadSet;
use crate::api::{Db, Stop};
use crate::layout::directory::Bucket;
use crate::layout::entry::Image;
use crate::layout::hash::Hash;
use crate::layout::stub::{Cold, Name};
use crate::txn::held::{Held, Order, Want};
use crate::txn::new_nodes::NewNodes;
use crate::txn::shadow::Shadow;

/// More held keys or locked buckets than this are found through a map instead of by looking at each.
const LOOK_AT_EACH: usize = 12;

/// The most expired keys that a reader remembers; maintenance finds the others.
const STALE_MAX: usize = 1024;

/// Buffers for more held keys or made nodes than this are given back after the transaction.
const KEPT_MAX: usize = 16 * 1024;

/// Effects of more bytes than this as well.
const EFFECTS_KEPT_MAX: usize = 256 * 1024;

thread_local! {
    /// Buffers of the thread's last transactions.
    #[allow(clippy::vec_box, reason = "a transaction moves its buffers in and out: as one pointer")]
    static POOL: RefCell<Vec<Box<TxnBuffers>>> = const { RefCell::new(Vec::new()) };
}

/// Buffers on loan from the thread's pool, to which they go back.
pub struct BufferLease(Option<Box<TxnBuffers>>);

impl BufferLease {
    /// Takes buffers out of the pool.
    #[inline]
    pub(crate) fn take() -> BufferLease {
        BufferLease(Some(POOL.with(|pool| pool.borrow_mut().pop()).unwrap_or_default()))
    }
}

impl std::ops::Deref for BufferLease {
    type Target = TxnBuffers;

    #[inline(always)]
    fn deref(&self) -> &TxnBuffers {
        self.0.as_ref().expect("on loan until dropped")
    }
}

impl Drop for BufferLease {
    #[inline]
    fn drop(&mut self) {
        if let Some(mut buffers) = self.0.take() {
            // What a transaction of very many keys or nodes has needed is not kept for the next small one.
            if buffers.held.get_mut().capacity() > KEPT_MAX
                || buffers.nodes.made.get_mut().capacity() > KEPT_MAX
            {
                return;
            }
            if buffers.log.effects.get_mut().capacity() > EFFECTS_KEPT_MAX {
                *buffers.log.effects.get_mut() = Vec::new();
                *buffers.log.record.get_mut() = Vec::new();
            }
            buffers.reset();
            // At a thread's end the pool may be gone already: then the buffers go, too.
            let _ = POOL.try_with(|pool| pool.borrow_mut().push(buffers));
        }
    }
}

/// Hashes words that come from keyed hashes already, so a client cannot choose keys whose words collide.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The counts of a database: keys, those with an expiry, those with fields that have one, those whose values lie in a tier.
pub(crate) const TALLIED: usize = 4;

/// A change, with its key and its parts among the buffers' bytes.
#[derive(Clone, Copy)]
pub(crate) struct Noted {
    pub(crate) class: char,
    pub(crate) event: &'static str,
    pub(crate) db: Db,
    pub(crate) key: Option<(usize, usize)>,
    pub(crate) parts: Option<(usize, usize)>,
}

/// A message, with its bytes among the buffers'.
#[derive(Clone, Copy)]
pub(crate) struct Post {
    pub(crate) to: u64,
    pub(crate) life: u64,
    pub(crate) bytes: (usize, usize),
}

/// A writer for which a change of the map has given up waiting: its seat, and the number of its transaction.
#[derive(Clone, Copy)]
pub(crate) struct SlowWriter {
    pub(crate) seat: u64,
    pub(crate) number: u64,
}

/// What finds a held key.
#[derive(Default)]
struct KeyIndex {
    keys: RefCell<Vec<u8>>,
    /// Held keys by database and hash; where several have the same, the last of them.
    by_hash: RefCell<HashMap<u64, usize, BuildHasherDefault<Spread>>>,
    /// Held keys that have gone through `by_hash`.
    indexed: Cell<usize>,
    /// The key that was asked for last: mostly they are asked for in the order in which they were declared.
    last: Cell<usize>,
}

/// What finds the shadow of a locked bucket.
#[derive(Default)]
struct ShadowIndex {
    used: Cell<usize>,
    /// Shadows by the line of their bucket, and how many of them have gone in.
    by_line: RefCell<HashMap<u64, usize, BuildHasherDefault<Spread>>>,
    indexed: Cell<usize>,
}

/// The entry of the only key, as it is and as it is going to be (`single_key.rs`).
#[derive(Default)]
pub(crate) struct SingleEntry {
    pub(crate) before: RefCell<Image>,
    pub(crate) after: RefCell<Image>,
}

/// What a reader has seen.
#[derive(Default)]
pub(crate) struct Reads {
    pub(crate) marks: RefCell<ReadSet>,
    pub(crate) locations: RefCell<Vec<Option<Location>>>,
    /// Keys that it has found expired, to be removed later.
    pub(crate) stale: RefCell<Vec<(Db, Vec<u8>)>>,
}

/// Nodes of values, and records of trees.
#[derive(Default)]
pub(crate) struct TxnNodes {
    /// Those that this transaction has made: they may be edited in place.
    pub(crate) made: RefCell<NewNodes>,
    pub(crate) olds: Cell<u64>,
    /// Those that it has replaced again after it had made them (true: with all that they name), and where its NEW items are: see
    /// [`crate::Txn::end_call`].
    pub(crate) spent: RefCell<Vec<(Ref, bool)>>,
    pub(crate) new_items: RefCell<NewItems>,
}

/// What a retry does before it begins, and why it is needed.
#[derive(Default)]
pub(crate) struct Retry {
    /// Keys to declare, places to make room in, a database to make.
    pub(crate) wide: Cell<bool>,
    pub(crate) extra: RefCell<Vec<(Db, Vec<u8>)>>,
    pub(crate) wanting: RefCell<Vec<Want>>,
    pub(crate) missing: Cell<Option<Db>>,
    /// All garbage cells are taken: some must be swept.
    pub(crate) is_garbage_full: Cell<bool>,
    /// Another thread swaps a database that this transaction writes; another thread writes to one that this transaction swaps or empties.
    pub(crate) overtaken: Cell<bool>,
    pub(crate) crowded: Cell<Option<Changes>>,
    pub(crate) trouble: RefCell<Option<Stop>>,
}

/// The writer that a transaction last waited for, and how often in a row it gave up waiting. Both outlive the transaction, which may have been
/// given up for that reason.
#[derive(Default)]
pub(crate) struct Slow {
    pub(crate) writer: Cell<Option<SlowWriter>>,
    pub(crate) given_up: Cell<u32>,
}

/// Databases that the transaction empties, pairs that it swaps, and by how much it changes which tallies.
#[derive(Default)]
pub(crate) struct MapChanges {
    pub(crate) flushes: RefCell<Vec<Db>>,
    pub(crate) swaps: RefCell<Vec<(Db, Db)>>,
    tallies: RefCell<Vec<(u64, [i64; TALLIED])>>,
    /// Tallies that databases under construction have taken.
    pub(crate) fresh_tallies: RefCell<Vec<u64>>,
}

/// What this transaction is to tell, and the messages that leave with its commit.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) changes: RefCell<Vec<Noted>>,
    /// Keyspace events of this transaction were not noted, since nothing heard them.
    pub(crate) unheard: Cell<bool>,
    pub(crate) posts: RefCell<Vec<Post>>,
    pub(crate) mail: RefCell<Vec<u8>>,
}

/// What this transaction tells the change log.
#[derive(Default)]
pub(crate) struct LogNotes {
    /// Commands, one behind the other, and how many.
    pub(crate) effects: RefCell<Vec<u8>>,
    pub(crate) told: Cell<u32>,
    /// Those of them that tell of keys which had expired (E4).
    pub(crate) told_expired: Cell<u32>,
    /// The record that its commit appends.
    pub(crate) record: RefCell<Vec<u8>>,
}

/// Stubs that were met.
#[derive(Default)]
pub(crate) struct Stubs {
    /// Those whose values the transaction needs: they outlive its attempts.
    pub(crate) met: RefCell<Vec<Cold>>,
    /// The one in the place of which its value is put back: its key is what the transaction says.
    pub(crate) installing: Cell<Option<Name>>,
    /// Those that growth would cut.
    pub(crate) cut: RefCell<Vec<Name>>,
}

/// See the module.
#[derive(Default)]
pub struct TxnBuffers {
    pub(crate) arena: Bump,
    /// Keys have been kept, buckets locked, databases emptied or swapped: what only such transactions use is to be forgotten.
    pub(crate) used: Cell<bool>,
    pub(crate) held: RefCell<Vec<Held>>,
    index: KeyIndex,
    pub(crate) single: SingleEntry,
    pub(crate) shadows: RefCell<Vec<Shadow>>,
    shadow_index: ShadowIndex,
    pub(crate) highest: Cell<Order>,
    pub(crate) reads: Reads,
    pub(crate) nodes: TxnNodes,
    pub(crate) retry: Retry,
    pub(crate) slow: Slow,
    pub(crate) map: MapChanges,
    pub(crate) outgoing: Outgoing,
    pub(crate) log: LogNotes,
    pub(crate) stubs: Stubs,
}

impl TxnBuffers {
    /// The number of a key that is held already; its hash is asked for where many are held.
    #[inline]
    pub(crate) fn held_index(&self, db: Db, key: &[u8], hash: impl FnOnce() -> Hash) -> Option<usize> {
        let (held, keys) = (self.held.borrow(), self.index.keys.borrow());
        // Keys of one call mostly differ in their last byte.
        let is = |held: &Held| {
            let kept = &keys[held.key.0..held.key.1];
            held.db == db
                && !held.passed
                && kept.len() == key.len()
                && kept.last() == key.last()
                && kept == key
        };
        let last = self.index.last.get();
        if let Some(index) = (last..held.len().min(last + 2)).find(|index| is(&held[*index])) {
            self.index.last.set(index);
            return Some(index);
        }
        if held.len() <= LOOK_AT_EACH {
            let index = held.iter().position(is)?;
            self.index.last.set(index);
            return Some(index);
        }
        let mut by_hash = self.index.by_hash.borrow_mut();
        let name = |db: Db, hash: &Hash| hash.position.wrapping_add(db.into());
        let unknown = held.iter().enumerate().skip(self.index.indexed.replace(held.len()));
        for (index, held) in unknown.filter(|(_, held)| !held.passed) {
            by_hash.insert(name(held.db, &held.hash), index);
        }
        let index = *by_hash.get(&name(db, &hash()))?;
        // Another key may have the same hash.
        let index = if is(&held[index]) { index } else { held.iter().position(is)? };
        self.index.last.set(index);
        Some(index)
    }

    /// Has the held keys' map made anew: some of them are not to be found any more.
    pub(crate) fn forget_index(&self) {
        self.index.by_hash.borrow_mut().clear();
        self.index.indexed.set(0);
    }

    /// Copies a key's bytes to where they last as long as the transaction.
    pub(crate) fn keep_key(&self, key: &[u8]) -> (usize, usize) {
        self.used.set(true);
        let mut keys = self.index.keys.borrow_mut();
        let begin = keys.len();
        keys.extend_from_slice(key);
        (begin, keys.len())
    }

    /// Whether nothing is held or to be declared, and databases are what their numbers say.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        !self.used.get() && self.retry.extra.borrow().is_empty()
    }

    /// Whether earlier attempts have met keys that this one, which holds none yet, is to declare.
    #[inline]
    pub(crate) fn owes_declaration(&self) -> bool {
        !self.retry.extra.borrow().is_empty()
            && self.held.borrow().is_empty()
            && self.map.flushes.borrow().is_empty()
            && self.map.swaps.borrow().is_empty()
    }

    /// A kept key.
    pub(crate) fn key_of(&self, at: (usize, usize)) -> Vec<u8> {
        self.index.keys.borrow()[at.0..at.1].to_vec()
    }

    /// The shadow of a bucket that is locked already.
    #[inline]
    pub(crate) fn shadow_of(&self, bucket: Bucket) -> Option<usize> {
        let shadows = &self.shadows.borrow()[..self.shadow_index.used.get()];
        if shadows.len() <= LOOK_AT_EACH {
            return shadows.iter().position(|shadow| shadow.bucket == bucket);
        }
        let mut by_line = self.shadow_index.by_line.borrow_mut();
        let indexed = self.shadow_index.indexed.replace(shadows.len());
        by_line.extend(
            shadows.iter().enumerate().skip(indexed).map(|(index, shadow)| (shadow.bucket.line, index)),
        );
        by_line.get(&bucket.line).copied()
    }

    /// Adds the shadow of a bucket that has just been locked.
    #[inline]
    pub(crate) fn push_shadow(&self, bucket: Bucket, lock_item: u64) -> usize {
        self.used.set(true);
        let index = self.shadow_index.used.get();
        let mut shadows = self.shadows.borrow_mut();
        match shadows.get_mut(index) {
            Some(shadow) => shadow.reuse(bucket, lock_item),
            None => shadows.push(Shadow::new(bucket, lock_item)),
        }
        self.shadow_index.used.set(index + 1);
        index
    }

    /// Adds to the tallies.
    pub(crate) fn tally(&self, tally: u64, counts: [i64; TALLIED]) {
        self.used.set(true);
        let mut tallies = self.map.tallies.borrow_mut();
        match tallies.iter_mut().find(|(number, _)| *number == tally) {
            Some((_, sums)) => sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count),
            None => tallies.push((tally, counts)),
        }
    }

    /// Notes in the journal what differs in the shadows; returns whether anything does.
    pub(crate) fn note_changes(&self, seat: &Seat, segment: &Segment) -> Result<bool, Fault> {
        let mut any = false;
        for shadow in &self.shadows.borrow()[..self.shadow_index.used.get()] {
            let mut changed = false;
            if shadow.moved {
                // An entry moves between buckets. A reader of several buckets (SCAN) that has read this one before must find its word changed.
                seat.amend(shadow.lock_item, CHANGED);
            }
            for (offset, value) in shadow.changes(segment) {
                if !changed {
                    seat.amend(shadow.lock_item, CHANGED);
                    seat.note(Tag::Cover, shadow.bucket.line, 0)?;
                    changed = true;
                }
                seat.note(Tag::Word, offset, value)?;
            }
            any |= changed;
        }
        Ok(any)
    }

    /// Notes the tallies' new values, which are the seat's own words.
    pub(crate) fn note_tallies(&self, seat: &Seat, segment: &Segment) -> Result<(), Fault> {
        let tallies = self.map.tallies.borrow();
        if tallies.is_empty() {
            return Ok(());
        }
        seat.note(Tag::Cover, 0, 0)?;
        for (tally, counts) in tallies.iter() {
            let place = segment.seat_at(seat.index()) + at::TALLIES + tally * at::TALLY_BYTES;
            for (word, by) in counts.iter().enumerate().filter(|(_, by)| **by != 0) {
                let place = place + word as u64 * 8;
                seat.note(Tag::Word, place, segment.load(place).wrapping_add_signed(*by))?;
            }
        }
        Ok(())
    }

    /// Forgets the attempt, but not what the retry needs to know.
    #[inline]
    pub(crate) fn forget(&self) {
        self.reads.marks.borrow_mut().clear();
        self.outgoing.unheard.set(false);
        self.nodes.olds.set(0);
        self.nodes.made.borrow_mut().clear();
        if !self.outgoing.posts.borrow().is_empty() {
            self.outgoing.posts.borrow_mut().clear();
            self.outgoing.mail.borrow_mut().clear();
        }
        self.log.told_expired.set(0);
        if self.log.told.replace(0) != 0 {
            self.log.effects.borrow_mut().clear();
        }
        if self.used.replace(false) {
            self.forget_held();
        }
        debug_assert!(self.is_bare(), "whoever fills these says so");
    }

    fn forget_held(&self) {
        if self.shadow_index.used.replace(0) > LOOK_AT_EACH {
            self.shadow_index.by_line.borrow_mut().clear();
            self.shadow_index.indexed.set(0);
        }
        self.highest.set((0, 0, 0));
        self.map.tallies.borrow_mut().clear();
        self.index.keys.borrow_mut().clear();
        self.index.last.set(0);
        if self.held.borrow().len() > LOOK_AT_EACH {
            self.forget_index();
        }
        self.held.borrow_mut().clear();
        self.outgoing.changes.borrow_mut().clear();
        self.map.flushes.borrow_mut().clear();
        self.map.swaps.borrow_mut().clear();
        self.map.fresh_tallies.borrow_mut().clear();
        self.nodes.spent.borrow_mut().clear();
        self.nodes.new_items.borrow_mut().clear();
    }

    /// Whether there is nothing that [`TxnBuffers::forget_held`] would forget.
    fn is_bare(&self) -> bool {
        let lists = [
            self.held.borrow().len(),
            self.index.keys.borrow().len(),
            self.map.tallies.borrow().len(),
            self.outgoing.changes.borrow().len(),
        ];
        let others = [
            self.map.flushes.borrow().len(),
            self.map.swaps.borrow().len(),
            self.map.fresh_tallies.borrow().len(),
            self.shadow_index.used.get(),
        ];
        lists == [0; 4] && others == [0; 4] && self.nodes.spent.borrow().is_empty()
    }

    /// Makes the buffers ready for another transaction.
    pub(crate) fn reset(&mut self) {
        self.forget();
        self.arena.reset();
        self.retry.wide.set(false);
        self.retry.missing.set(None);
        self.retry.overtaken.set(false);
        self.retry.crowded.set(None);
        self.retry.extra.get_mut().clear();
        self.retry.wanting.get_mut().clear();
        *self.retry.trouble.get_mut() = None;
        self.reads.stale.get_mut().clear();
        self.stubs.met.get_mut().clear();
        self.stubs.installing.set(None);
        self.stubs.cut.get_mut().clear();
    }

    /// Notes a key that has expired, while they are few.
    #[cold]
    pub(crate) fn note_stale(&self, db: Db, key: &[u8]) {
        let mut stale = self.reads.stale.borrow_mut();
        if stale.len() < STALE_MAX {
            stale.push((db, key.to_vec()));
        }
    }

    /// What could not be answered where it happened, if there was something.
    pub(crate) fn take_trouble(&self) -> Result<(), Stop> {
        match self.retry.trouble.borrow_mut().take() {
            Some(stop) => Err(stop),
            None => Ok(()),
        }
    }
}
