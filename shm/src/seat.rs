//! A seat: a thread's registered place in the segment.
//!
//! Everything a thread does to the memory goes through its seat. The journal says what the thread is about to do. The
//! caches hold free nodes. The retired list holds nodes that other threads may still read. The pin says what the thread
//! reads itself. Only the seat's thread writes to it (S2), or a thread that has acquired the seat of a dead one.
//!
//! The pin, in short (`retired.rs` has the other side). The pin is the interval of epochs [LOWER, UPPER] in which this
//! thread reads. [`Seat::pin`] stores the present epoch with a full barrier before the first reference is read. A node
//! that is born later than UPPER is not protected by it. So after a reference was read and before it is followed,
//! [`Seat::covers_now`] compares the present epoch with UPPER. If the epoch has moved on, it widens the pin, and the
//! caller reads the reference again, which may have changed meanwhile. A reclaimer unlinks a node before it looks at the
//! pins, so either it sees the pin, or the reader finds the node no longer referred to.
//!
//! Process-local state is kept to what can be rebuilt from the segment, so that a recoverer can take up a dead
//! seat with `adopt` and run the same code that its owner would have run.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use crate::class::{CACHE_STARTS, CLASSES};
use crate::layout::{SEATS_AT, SEATS_MAX, header, seat as at};
use crate::segment::Segment;
use crate::sync::{self, Flaw, Word};
use crate::{crash, fork};

/// The cache of a seat keeps at most the number of slabs divided by this, for each class; and at least [`CACHE_SHARE_MIN`].
const CACHE_SHARE: u64 = 32;
const CACHE_SHARE_MIN: u64 = 4;

/// A thread's place in a segment. Not shared between threads.
pub struct Seat {
    pub(crate) segment: Arc<Segment>,
    pub(crate) index: u64,
    pub(crate) base: u64,
    /// Where it begins in this process.
    words: *const Word,
    /// Journal blocks past the inline one, in order.
    pub(crate) journal_blocks: RefCell<Vec<u64>>,
    /// Blocks of the retired list, in order.
    pub(crate) retired_blocks: RefCell<Vec<u64>>,
    pub(crate) near_entries: Cell<Entries>,
    /// The last block of what was saved for a snapshot; 0 without one.
    pub(crate) snapshot_log_last: Cell<u64>,
    /// The slab that served each class last: tried first.
    pub(crate) slab_cursor: [Cell<u32>; CLASSES],
    /// When a wait for slabs that others hold locked last failed.
    pub(crate) last_failed_wait: Cell<Option<Instant>>,
    /// The epoch of the last reclamation: if no thread has moved it on since, this seat does.
    pub(crate) last_epoch: Cell<u64>,
    /// Retired entries at which the next reclamation is worth its cost.
    pub(crate) reclaim_at: Cell<u64>,
    /// How far the reclamation has come.
    pub(crate) pass: Cell<Pass>,
    /// How many nodes of a class it keeps in its cache at most: a part of the number of the segment's slabs.
    pub(crate) cache_share: u64,
    /// Retired nodes that have been freed.
    pub(crate) freed: Cell<u64>,
    pins: Cell<u32>,
    /// Counts recent collisions with other threads at locks: see [`Seat::stand_back`].
    pub(crate) collisions: Cell<u32>,
    /// Lost messages that the owner knows of.
    pub(crate) lost_seen: Cell<u64>,
    /// The fullest inbox that it has put something into ([`Seat::take_pressed`]).
    pub(crate) pressed: Cell<Option<Pressed>>,
    /// Of the inbox of this life: how many bytes wait in it at most, and how many of its blocks are gone.
    pub(crate) inbox_limit: Cell<u64>,
    pub(crate) inbox_passed: Cell<u64>,
    /// How often the owner has slept.
    pub(crate) sleeps: Cell<u64>,
    /// In use by a transaction: a seat runs one at a time.
    busy: Cell<bool>,
    /// Its transactions make changes of a primary ([`Seat::ride`]).
    rides: Cell<bool>,
    pub(crate) generation: u64,
    pub(crate) owned: bool,
}

impl Seat {
    /// Takes up the words of seat `index`, which the caller has acquired.
    pub(crate) fn adopt(segment: &Arc<Segment>, index: u64, owned: bool) -> Seat {
        let seat = Seat {
            base: segment.seat_at(index),
            words: segment.address(segment.seat_at(index)).cast::<Word>().cast_const(),
            segment: segment.clone(),
            index,
            journal_blocks: RefCell::default(),
            retired_blocks: RefCell::default(),
            near_entries: Cell::new(Entries::NONE),
            snapshot_log_last: Cell::new(0),
            slab_cursor: [const { Cell::new(u32::MAX) }; CLASSES],
            last_failed_wait: Cell::new(None),
            last_epoch: Cell::new(0),
            reclaim_at: Cell::new(0),
            pass: Cell::default(),
            cache_share: (segment.geometry().slabs_max / CACHE_SHARE).max(CACHE_SHARE_MIN),
            freed: Cell::new(0),
            pins: Cell::new(0),
            collisions: Cell::new(0),
            lost_seen: Cell::new(0),
            pressed: Cell::new(None),
            inbox_limit: Cell::new(0),
            inbox_passed: Cell::new(0),
            sleeps: Cell::new(0),
            busy: Cell::new(false),
            rides: Cell::new(false),
            generation: fork::generation(),
            owned,
        };
        seat.find_blocks();
        seat
    }

    /// The segment this seat is in.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The seat's number.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Reads one of the seat's own words.
    #[inline(always)]
    pub fn get(&self, word: u64) -> u64 {
        // Its owner alone writes it: a look at it is no step.
        #[cfg(feature = "schedules")]
        if word < at::INBOX_LOCK {
            return self.own(word).look();
        }
        self.own(word).load(Ordering::Relaxed)
    }

    /// One of the seat's own words.
    #[inline(always)]
    pub(crate) fn own(&self, word: u64) -> &Word {
        debug_assert!(word.is_multiple_of(8) && word < at::BYTES);
        // SAFETY: the seat lies in the mapping, which lives as long as the segment that this holds; words are inside of it.
        unsafe { &*self.words.byte_add(word as usize) }
    }

    /// Writes one of the seat's own words, after everything written before.
    #[inline(always)]
    pub fn set(&self, word: u64, value: u64) {
        crash::point();
        self.own(word).store(value, Ordering::Release);
    }

    /// Adds to one of the seat's own counters, which need not survive to the last call.
    #[inline(always)]
    pub fn add(&self, word: u64, by: u64) {
        self.own(word).store(self.get(word).wrapping_add(by), Ordering::Relaxed);
    }

    /// Which of the seat's lives this is: no other owner had the same number, so what names both dies with this one.
    pub fn life(&self) -> u64 {
        self.get(at::OWNERS)
    }

    /// Whether this is the process that took the seat, and not a forked child of it.
    pub fn is_own(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Marks the seat as used by a transaction; returns false when it already is.
    #[inline]
    pub fn enter(&self) -> bool {
        !self.busy.replace(true)
    }

    /// The end of what [`Seat::enter`] began.
    #[inline]
    pub fn leave(&self) {
        self.busy.set(false);
    }

    /// Says that what this thread's transactions change comes from the primary of a replica, or no longer.
    pub fn ride(&self, rides: bool) {
        self.rides.set(rides);
    }

    /// Returns true if it does.
    #[inline(always)]
    pub fn rides(&self) -> bool {
        self.rides.get()
    }

    /// From now on, what this thread reads through entries stays readable until the matching [`Seat::unpin`].
    #[inline]
    pub fn pin(&self) {
        let pins = self.pins.get();
        self.pins.set(pins + 1);
        if pins == 0 {
            let epoch = self.segment.load(header::EPOCH);
            self.own(at::PIN_UPPER).store(epoch, Ordering::Relaxed);
            self.publish_pin(at::PIN_LOWER, epoch);
        }
    }

    /// Writes a word of the pin, with a full barrier: whatever this thread reads afterwards, it reads after reclaimers can see the pin.
    ///
    /// SYNC: seat-pin. A reclaimer either sees this pin, or it unlinked its nodes before this thread reads any entry.
    #[inline]
    fn publish_pin(&self, word: u64, epoch: u64) {
        let word = self.own(word);
        if cfg!(target_arch = "x86_64") {
            // XCHG is the full barrier, and half the price of MFENCE.
            word.swap(epoch, Ordering::SeqCst);
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            word.store(epoch, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// Whether the pin covers the present epoch. To be called after a reference was read from an entry and before it is
    /// followed. If it returns false, it has widened the pin, and the caller must read the entry again.
    #[inline]
    pub fn covers_now(&self) -> bool {
        let epoch = self.segment.observe(header::EPOCH);
        if epoch == self.get(at::PIN_UPPER) || sync::has(Flaw::WidensNoPin) {
            return true;
        }
        self.publish_pin(at::PIN_UPPER, epoch);
        false
    }

    /// Ends the innermost pin.
    #[inline]
    pub fn unpin(&self) {
        let pins = self.pins.get() - 1;
        self.pins.set(pins);
        if pins == 0 {
            self.own(at::PIN_LOWER).store(at::NO_PIN, Ordering::Release);
            self.reclaim_if_due();
        }
    }

    /// Ends the pin and begins another one, unless it is one of several: what was read so far may be freed.
    pub fn renew_pin(&self) {
        if self.pins.get() == 1 {
            self.unpin();
            self.pin();
        }
    }

    /// Whether this thread has a pin, or the seat is a forked child's copy of its parent's seat.
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.get() != 0 || self.owned && !self.is_own()
    }

    /// Lifts a designated word (S2), a lower bound, to the greatest value. Until [`Seat::land`], other threads that write something
    /// lower also lower the word. `slot` tells apart the words that the seat lifts at the same time. If the thread dies, recovery
    /// lowers the word to 0. If it is stopped, other threads see by [`Seat::lifted_beside`] that they must not rely on the word.
    pub fn lift(&self, slot: u64, offset: u64) {
        self.set(at::LIFTED + slot * 8, offset);
        crash::point();
        self.segment.word(offset).swap(u64::MAX, Ordering::AcqRel);
    }

    /// Lowers what was lifted to `bound`, unless another thread has lowered it further.
    pub fn land(&self, slot: u64, bound: u64) {
        let offset = self.get(at::LIFTED + slot * 8);
        if self.segment.check(offset, 8) {
            self.segment.lower(offset, bound);
        }
        self.set(at::LIFTED + slot * 8, 0);
    }

    /// What other seats have [lifted](Seat::lift) and not lowered again yet: seat and word.
    pub fn lifted_beside(&self) -> Vec<(u64, u64)> {
        let segment = &self.segment;
        let lifted = |seat: u64, slot: u64| segment.observe(segment.seat_at(seat) + at::LIFTED + slot * 8);
        let seats = (0..segment.seats_high()).filter(|seat| *seat != self.index);
        let words = seats.flat_map(|seat| (0..at::LIFTED_WORDS).map(move |slot| (seat, lifted(seat, slot))));
        words.filter(|(_, word)| *word != 0).collect()
    }

    /// A version that no other change of this segment has.
    #[inline]
    pub fn next_version(&self) -> u64 {
        const BLOCK: u64 = 1024;
        let next = self.get(at::VERSION_NEXT);
        if next < self.get(at::VERSION_END) {
            self.own(at::VERSION_NEXT).store(next + 1, Ordering::Relaxed);
            return next;
        }
        // SYNC: snapshot-watermark.
        let next = self.segment.word(header::VERSIONS).fetch_add(BLOCK, Ordering::AcqRel).wrapping_add(1);
        // NEXT before END: a death in between leaves an empty block, and never one that overlaps others.
        self.set(at::VERSION_NEXT, next.wrapping_add(1));
        self.set(at::VERSION_END, next.wrapping_add(BLOCK));
        next
    }
}

/// The seat's word that counts the cached nodes of `class`.
#[inline(always)]
pub(crate) const fn cache_count(class: usize) -> u64 {
    at::CACHE_COUNTS + class as u64 * 8
}

/// The seat's word that holds the cached node number `slot` of `class`.
#[inline(always)]
pub(crate) const fn cache_slot(class: usize, slot: u64) -> u64 {
    at::CACHE + (CACHE_STARTS[class] as u64 + slot) * 8
}

/// Whether a word is the lock of a seat's inbox.
pub(crate) const fn is_inbox_lock(offset: u64) -> bool {
    offset >= SEATS_AT && seat_of(offset) < SEATS_MAX && (offset - SEATS_AT) % at::BYTES == at::INBOX_LOCK
}

/// The seat in which a word lies.
pub(crate) const fn seat_of(offset: u64) -> u64 {
    (offset - SEATS_AT) / at::BYTES
}

/// An inbox that was more than half full when the calling thread had put something into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pressed {
    pub seat: u64,
    pub life: u64,
    /// How many bytes waited.
    pub(crate) bytes: u64,
}

/// How far the owner has come with its list. It is local to the thread.
///
/// ```text
///   head ---------- held ---------- kept .......... cursor ---------- tail
///      | the holder   | others hold   | freed         | not looked at  |
///      | holds these  | these, too    |               | in this pass   |
/// ```
/// A snapshot, or a stopped reader, holds back most of what is retired for as long as it lasts. Entries that were once seen to be held by it
/// are not looked at again until it ends.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pass {
    /// The interval of the pin that holds what lies before `held`.
    pub(crate) holder: (u64, u64),
    pub(crate) held: u64,
    pub(crate) kept: u64,
    pub(crate) cursor: u64,
}

/// No list gets to this index: a greater one is damage.
pub(crate) const INDEX_MAX: u64 = 1 << 60;

/// The block of the list in which an entry was last looked up. It is local to the thread.
#[derive(Clone, Copy)]
pub(crate) struct Entries {
    /// The index of the first entry of it, and where that lies.
    pub(crate) first: u64,
    pub(crate) begin: u64,
}

impl Entries {
    /// Those of no block.
    pub(crate) const NONE: Entries = Entries { first: 2 * INDEX_MAX, begin: 0 };
}
