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
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use polder_base::Fault;

use crate::class::CLASSES;
use crate::layout::{self, header, seat as at};
use crate::retired::{Entries, Pass};
use crate::segment::Segment;
use crate::witness::{Life, Taken, Witness};
use crate::{crash, fork, lock, recover};

/// How long a thread that has found no free seat does not look again, since a search tries the witnesses of all seats.
const TAKEN_REST: Duration = Duration::from_millis(100);
/// How long one call frees what was retired in a seat without an owner, at most; the next call goes on.
const GONE_PATIENCE: Duration = Duration::from_millis(2);
/// The cache of a seat keeps at most the number of slabs divided by this, for each class; and at least [`CACHE_SHARE_MIN`].
const CACHE_SHARE: u64 = 32;
const CACHE_SHARE_MIN: u64 = 4;

/// A thread's place in a segment. Not shared between threads.
pub struct Seat {
    pub(crate) segment: Arc<Segment>,
    pub(crate) index: u64,
    pub(crate) base: u64,
    /// Where it begins in this process.
    words: *const AtomicU64,
    /// Journal blocks past the inline one, in order.
    pub(crate) journal_blocks: RefCell<Vec<u64>>,
    /// Blocks of the retired list, in order.
    pub(crate) retired_blocks: RefCell<Vec<u64>>,
    pub(crate) near_entries: Cell<Entries>,
    /// The last block of what was saved for a snapshot; 0 without one.
    pub(crate) overlay_last: Cell<u64>,
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
    pub(crate) pressed: Cell<Option<crate::inbox::Pressed>>,
    /// Of the inbox of this life: how many bytes wait in it at most, and how many of its blocks are gone.
    pub(crate) inbox_limit: Cell<u64>,
    pub(crate) inbox_passed: Cell<u64>,
    /// How often the owner has slept.
    pub(crate) sleeps: Cell<u64>,
    /// In use by a transaction: a seat runs one at a time.
    busy: Cell<bool>,
    generation: u64,
    owned: bool,
}

thread_local! {
    static SEATS: RefCell<Vec<Rc<Seat>>> = const { RefCell::new(Vec::new()) };
    /// The seat that was used last by [`Segment::with_seat`], and its segment's id: one of [`SEATS`], or none.
    static LAST: Cell<(u64, *const Seat)> = const { Cell::new((0, std::ptr::null())) };
    /// The segment in which all seats were taken when the thread looked last, and when that was.
    static TAKEN: Cell<Option<(u64, Instant)>> = const { Cell::new(None) };
}

fn all_taken() -> Fault {
    Fault::System(format!("all {} seats of the segment are taken: end some of the attached threads", layout::SEATS_MAX))
}

impl Segment {
    /// The calling thread's seat in this segment, taken at its first call.
    ///
    /// # Errors
    /// [`Fault::System`] when all seats are taken, [`Fault::Full`] when there is no memory to back one.
    #[inline]
    pub fn seat(self: &Arc<Segment>) -> Result<Rc<Seat>, Fault> {
        let (id, last) = LAST.get();
        // SAFETY: as in `with_seat`; it lies in one of the `Rc`s of SEATS.
        if id == self.id() && unsafe { (*last).generation } == fork::generation() {
            // SAFETY: as above, so that there is at least one that counts it.
            return Ok(unsafe {
                Rc::increment_strong_count(last);
                Rc::from_raw(last)
            });
        }
        self.find_seat()
    }

    fn find_seat(self: &Arc<Segment>) -> Result<Rc<Seat>, Fault> {
        let seat = SEATS.with(|seats| {
            let seats_now = seats.borrow();
            let known = seats_now.iter().find(|seat| seat.segment.id() == self.id() && seat.generation == fork::generation());
            match known.cloned() {
                Some(seat) => Ok(seat),
                None => {
                    drop(seats_now);
                    self.take_seat(seats)
                }
            }
        })?;
        LAST.set((self.id(), Rc::as_ptr(&seat)));
        Ok(seat)
    }

    /// Lends the calling thread's seat to `work`: as [`Segment::seat`], in a fifth of the instructions.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn with_seat<R>(self: &Arc<Segment>, work: impl FnOnce(&Seat) -> R) -> Result<R, Fault> {
        let (id, last) = LAST.get();
        if id == self.id() {
            // SAFETY: the pointer names a live seat: a seat that ends clears LAST first (`Drop`), and a seat does not end while its
            // segment is in use by another owner (`take_seat`), which `self` is.
            let seat = unsafe { &*last };
            if seat.generation == fork::generation() {
                return Ok(work(seat));
            }
        }
        Ok(work(&*self.find_seat()?))
    }

    /// Ends the calling thread's seat in this segment, if it has one: what holds the segment must go.
    pub(crate) fn leave_seat(&self) {
        SEATS.with(|seats| {
            let left: Vec<Rc<Seat>> = seats.borrow_mut().extract_if(.., |seat| seat.segment.id() == self.id()).collect();
            // Outside of the borrow, since dropping a seat may look at SEATS again.
            drop(left);
        });
    }

    #[cold]
    fn take_seat(self: &Arc<Segment>, seats: &RefCell<Vec<Rc<Seat>>>) -> Result<Rc<Seat>, Fault> {
        if TAKEN.get().is_some_and(|(id, when)| id == self.id() && when.elapsed() < TAKEN_REST) {
            return Err(all_taken());
        }
        // A child of fork finds its parent's seats here: they are not its own, and dropping them must not release them.
        seats.borrow_mut().retain(|seat| seat.generation == fork::generation() && Arc::strong_count(&seat.segment) > 1);
        let seat = Rc::new(Seat::take(self)?);
        seats.borrow_mut().push(seat.clone());
        Ok(seat)
    }
}

impl Seat {
    fn take(segment: &Arc<Segment>) -> Result<Seat, Fault> {
        if segment.removed() {
            return Err(Fault::System("the segment has been removed: attach again to make a new one".into()));
        }
        let avoided = segment.avoided.load(Ordering::Relaxed).checked_sub(1);
        for index in (0..layout::SEATS_MAX).filter(|index| Some(*index) != avoided) {
            match segment.witness_take(index) {
                Taken::Busy | Taken::Damaged => continue,
                taken => {
                    // SYNC: clean-close. Either the process that closes sees this witness taken, or this store comes after its own.
                    segment.word(header::CLEAN).swap(0, Ordering::SeqCst);
                    if let Err(fault) = segment.back_seat(index) {
                        segment.witness_release(index);
                        return Err(fault);
                    }
                    if segment.word(header::SEATS_HIGH).fetch_max(index + 1, Ordering::AcqRel) <= index {
                        segment.back_spare_seats(index + 1);
                    }
                    let mut recovery = Recovery::of(segment, index, taken);
                    let mut seat = Seat::adopt(segment, index, false);
                    recovery.settle(&seat);
                    recovery.keep();
                    seat.owned = true;
                    seat.sign();
                    // Messages for a dead owner have no receiver. If the new owner listens, it opens an inbox of its own.
                    seat.close_inbox();
                    return Ok(seat);
                }
            }
        }
        TAKEN.set(Some((segment.id(), Instant::now())));
        Err(all_taken())
    }

    /// Takes up the words of seat `index`, which the caller has acquired.
    pub(crate) fn adopt(segment: &Arc<Segment>, index: u64, owned: bool) -> Seat {
        let seat = Seat {
            base: segment.seat_at(index),
            words: segment.address(segment.seat_at(index)).cast::<AtomicU64>().cast_const(),
            segment: segment.clone(),
            index,
            journal_blocks: RefCell::default(),
            retired_blocks: RefCell::default(),
            near_entries: Cell::new(Entries::NONE),
            overlay_last: Cell::new(0),
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
            generation: fork::generation(),
            owned,
        };
        seat.find_blocks();
        seat
    }

    /// Writes the owner's words.
    fn sign(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        self.set(at::OWNER, std::process::id() as u64 | thread << 32);
        self.set(at::SINCE_MS, crate::now_ms());
        self.add(at::OWNERS, 1);
        if self.get(at::PIN_LOWER) != at::NO_PIN {
            self.set(at::PIN_LOWER, at::NO_PIN);
        }
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
        self.own(word).load(Ordering::Relaxed)
    }

    /// One of the seat's own words.
    #[inline(always)]
    pub(crate) fn own(&self, word: u64) -> &AtomicU64 {
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
        if epoch == self.get(at::PIN_UPPER) {
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

impl Drop for Seat {
    fn drop(&mut self) {
        if std::ptr::eq(LAST.get().1, self) {
            LAST.set((0, std::ptr::null()));
        }
        if self.owned && self.generation == fork::generation() {
            // A panic may have interrupted a transaction.
            recover::settle(self, true);
            self.set(at::PIN_LOWER, at::NO_PIN);
            self.set(at::OWNER, 0);
            self.close_inbox();
            self.return_caches();
            self.segment.witness_release(self.index);
        }
    }
}

/// A seat without a living owner, whose witness this thread has taken in order to recover the seat. The witness is given back when this
/// is dropped, also by a panic: otherwise no other thread could take it as long as the thread that panicked lives. After a panic the seat
/// counts as free, but it is not in order. A thread that waits for one of its locks begins the recovery again, and so does the next
/// thread that takes the seat.
struct Recovery {
    segment: Arc<Segment>,
    index: u64,
    /// Its last owner has died.
    owner_died: bool,
    /// Its witness is that of a dead thread, which owned the seat or was recovering it.
    is_witness_dead: bool,
    /// It was begun by a thread that was not panicking. If the thread panics now, the cause may lie in this seat.
    begun: Cell<bool>,
    kept: bool,
}

/// Recovery may have to wait for a slab's lock of another dead seat, whose recovery may have to wait for a third, and so on. Up to this
/// depth each seat is recovered where it is met. Below it only the slab's lock is given back, which is what the thread waits for, and the
/// outermost recovery does the rest. So the stack is bounded.
const DEPTH_MAX: u32 = 8;

thread_local! {
    /// How many nested recoveries this thread runs.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The recoveries that are left to the outermost one.
    static PUT_OFF: RefCell<Vec<Recovery>> = const { RefCell::new(Vec::new()) };
    /// The innermost recovery has panicked: the ones around it end for that reason, and not because of their own seats.
    static BLAMED: Cell<bool> = const { Cell::new(false) };
}

/// Counts one more nested recovery until it is dropped.
struct Deeper;

impl Deeper {
    fn enter() -> Deeper {
        DEPTH.set(DEPTH.get() + 1);
        Deeper
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            BLAMED.set(false);
            // Only a panic leaves recoveries in the list. Their witnesses are given back, so that other threads do not wait for this one.
            drop(PUT_OFF.try_with(RefCell::take));
        }
    }
}

impl Recovery {
    fn of(segment: &Arc<Segment>, index: u64, taken: Taken) -> Recovery {
        let is_witness_dead = taken == Taken::Dead;
        Recovery { segment: segment.clone(), index, owner_died: is_witness_dead, is_witness_dead, begun: Cell::new(false), kept: false }
    }

    /// Recovers the seat, does `more` with it, and gives it back.
    fn run(self, more: &dyn Fn(&Seat)) {
        if DEPTH.get() >= DEPTH_MAX {
            Seat::adopt(&self.segment, self.index, false).settle_memory();
            // While a thread ends, the list is gone. Then the recovery is dropped here, and the next thread that takes the seat does it.
            let mut put_off = Some(self);
            let _gone_at_the_end = PUT_OFF.try_with(|list| list.borrow_mut().extend(put_off.take()));
            return;
        }
        let _deeper = Deeper::enter();
        self.bring_in_order(more);
        while DEPTH.get() == 1
            && let Ok(Some(next)) = PUT_OFF.try_with(|list| list.borrow_mut().pop())
        {
            next.bring_in_order(&|_| {});
        }
    }

    fn bring_in_order(self, more: &dyn Fn(&Seat)) {
        let seat = Seat::adopt(&self.segment, self.index, false);
        self.settle(&seat);
        seat.set(at::PIN_LOWER, at::NO_PIN);
        seat.set(at::OWNER, 0);
        seat.close_inbox();
        more(&seat);
        seat.return_caches();
    }

    /// Whether this thread has put off the recovery of a seat: it holds the seat's witness, and its memory journal is in order.
    fn is_put_off(segment: &Segment, index: u64) -> bool {
        let is_it = |put_off: &Recovery| put_off.segment.id() == segment.id() && put_off.index == index;
        PUT_OFF.try_with(|list| list.borrow().iter().any(is_it)).unwrap_or(false)
    }

    fn settle(&self, seat: &Seat) {
        self.begun.set(!std::thread::panicking());
        // If a recovery has panicked, the owner's word is still set.
        recover::settle(seat, self.owner_died || seat.get(at::OWNER) != 0);
        if self.is_witness_dead {
            seat.add(at::RECOVERIES, 1);
        }
    }

    /// The seat is in order, and this thread's own from now on.
    fn keep(&mut self) {
        if self.is_witness_dead {
            self.segment.witness_settle(self.index);
        }
        self.kept = true;
    }
}

impl Drop for Recovery {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if self.begun.get() && std::thread::panicking() && !(DEPTH.get() > 0 && BLAMED.replace(true)) {
            self.segment.avoided.store(self.index + 1, Ordering::Relaxed);
        }
        // Its last owner is dead and reads nothing any more.
        self.segment.publish(self.segment.seat_at(self.index) + at::PIN_LOWER, at::NO_PIN);
        if self.is_witness_dead {
            self.segment.witness_settle(self.index);
        }
        self.segment.witness_release(self.index);
    }
}

impl Segment {
    pub(crate) fn witness(&self, index: u64) -> &Witness {
        // SAFETY: the witness lies in the mapping, which outlives the borrow, and was initialised with the segment.
        unsafe { Witness::at(self.address(layout::WITNESSES_AT + index * layout::WITNESS_BYTES)) }
    }

    /// Tries to take the witness of seat `index`.
    pub(crate) fn witness_take(&self, index: u64) -> Taken {
        // SAFETY: M4, a thread that holds a seat holds the segment, so the memory stays mapped until the witness is released.
        unsafe { self.witness(index).try_take() }
    }

    /// Says that a dead seat has been recovered.
    pub(crate) fn witness_settle(&self, index: u64) {
        // SAFETY: this thread has just taken it and found its owner dead.
        unsafe { self.witness(index).settle() }
    }

    /// Gives seat `index` back.
    pub(crate) fn witness_release(&self, index: u64) {
        // SAFETY: this thread holds it.
        unsafe { self.witness(index).release() }
    }

    /// Checks the owner of a locked word: if that seat is dead, it is recovered now. If the word names a seat that has no journal item
    /// for it, the word is damaged (S5). It is freed then, since its owner would never release it.
    pub fn probe(self: &Arc<Segment>, at: u64) {
        let Some(owner) = lock::owner(self.observe(at)) else { return };
        let free = || {
            if lock::owner(self.load(at)) == Some(owner) {
                self.unlock(at, true, false);
            }
        };
        if owner >= self.seats_high() {
            return free();
        }
        self.attend(owner, &|_| free());
        // The memory journal of a seat whose recovery is put off is in order, so it has given back the slab's lock that it named. If this
        // word still names the seat, it is damaged, and this thread would wait for ever.
        if Recovery::is_put_off(self, owner) && self.is_slab_lock(at) {
            free();
        }
    }

    /// Whether seat `index` has a living owner, and the seat is in this life.
    pub fn lives(&self, index: u64, life: u64) -> bool {
        index < self.seats_high() && self.load(self.seat_at(index) + at::OWNERS) == life && !self.witness(index).is_dead_or_free()
    }

    /// Brings a seat without a living owner in order and does `more` with it.
    pub(crate) fn attend(self: &Arc<Segment>, index: u64, more: &dyn Fn(&Seat)) {
        self.attend_after(index, false, more);
    }

    /// The same; `died`: its owner died, whatever its witness says.
    pub(crate) fn attend_after(self: &Arc<Segment>, index: u64, died: bool, more: &dyn Fn(&Seat)) {
        match self.witness_take(index) {
            Taken::Busy | Taken::Damaged => {}
            taken => {
                let mut recovery = Recovery::of(self, index, taken);
                recovery.owner_died |= died;
                recovery.run(more);
            }
        }
    }

    /// Whether seat `index` has no living owner.
    pub(crate) fn is_vacant(&self, index: u64) -> bool {
        self.witness(index).is_dead_or_free()
    }

    /// Looks at every seat and recovers the dead. Returns how many there were.
    pub fn recover_dead(self: &Arc<Segment>) -> u64 {
        // The dead thread may be the seat's owner, or an earlier recoverer of it.
        let dead = (0..self.seats_high()).filter(|index| matches!(self.witness(*index).life(), Life::Dead));
        dead.map(|index| self.attend(index, &|_| {})).count() as u64
    }

    /// Frees what was retired in seats without owners, one seat after the other, until `end`, and at least in one seat. The next call
    /// goes on with the next seat. Without this, the nodes would wait until a thread takes the seat. Returns whether another call right
    /// away is likely to free more.
    pub fn free_gone(self: &Arc<Segment>, end: Instant) -> bool {
        let (high, first) = (self.seats_high(), self.gone_next.load(Ordering::Relaxed));
        let more = Cell::new(false);
        for index in (0..high).map(|past| (first + past) % high).filter(|index| self.is_left_over(*index)) {
            self.attend(index, &|seat| {
                let more_here = seat.reclaim_until(end.min(Instant::now() + GONE_PATIENCE));
                more.set(more.get() || more_here);
            });
            self.gone_next.store(index + 1, Ordering::Relaxed);
            if Instant::now() >= end {
                break;
            }
        }
        more.get()
    }

    /// Whether a seat has no owner, and holds something that may be freed.
    fn is_left_over(&self, index: u64) -> bool {
        let word = |word: u64| self.load(self.seat_at(index) + word);
        matches!(self.witness(index).life(), Life::Free)
            && (word(at::RETIRED_HEAD) != word(at::RETIRED_TAIL)
                || word(at::INBOX_FIRST) != 0
                || word(at::OVERLAY_FIRST) != 0 && word(at::OVERLAY_NUMBER) != self.snapshot())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SegmentName, SegmentOptions};

    #[test]
    fn a_panic_during_recovery_leaves_the_seat_to_others() {
        let name: SegmentName = format!("shm:polder-test-panics-{}", std::process::id()).parse().expect("a name");
        let options = SegmentOptions { ceiling: 256 << 20, ..SegmentOptions::default() };
        let segment = &Segment::create(&name, &options).expect("a segment");
        let own = segment.seat().expect("a seat").index();
        let left = std::thread::scope(|scope| scope.spawn(|| segment.seat().expect("a seat").index()).join()).expect("no panic");
        assert_ne!(own, left);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| segment.attend(left, &|_| panic!("on purpose"))));
        assert!(outcome.is_err() && DEPTH.get() == 0);
        let is_attended = Cell::new(false);
        segment.attend(left, &|_| is_attended.set(true));
        assert!(is_attended.get(), "the seat can be taken again, by the thread that panicked, too");
        let next = std::thread::scope(|scope| scope.spawn(|| segment.seat().expect("a seat").index()).join()).expect("no panic");
        assert_ne!(next, left, "what panics is not tried for ever");
        Segment::remove(&name).expect("it is there");
    }

    #[test]
    fn recovery_within_recovery_ends_at_a_depth_and_is_made_good() {
        let name: SegmentName = format!("shm:polder-test-depth-{}", std::process::id()).parse().expect("a name");
        let options = SegmentOptions { ceiling: 256 << 20, ..SegmentOptions::default() };
        let segment = &Segment::create(&name, &options).expect("a segment");
        let seats = 3 * u64::from(DEPTH_MAX);
        let barrier = std::sync::Barrier::new(seats as usize);
        std::thread::scope(|scope| {
            let sit = || {
                segment.seat().expect("a seat");
                barrier.wait();
            };
            let threads: Vec<_> = (0..seats).map(|_| scope.spawn(sit)).collect();
            // The end of the scope would not wait until a thread has given its seat back.
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        // Each leads to the next one, as if it waited for a lock of it.
        let (deepest, done) = (Cell::new(0), Cell::new(0));
        fn down(segment: &Arc<Segment>, index: u64, left: u64, deepest: &Cell<u32>, done: &Cell<u64>) {
            segment.attend(index, &|_| {
                deepest.set(deepest.get().max(DEPTH.get()));
                done.set(done.get() + 1);
                if left > 1 {
                    down(segment, index + 1, left - 1, deepest, done);
                }
            });
        }
        down(segment, 0, seats, &deepest, &done);
        assert_eq!((deepest.get(), done.get()), (DEPTH_MAX, u64::from(DEPTH_MAX)));
        assert!(PUT_OFF.with_borrow(Vec::is_empty) && DEPTH.get() == 0);
        assert!((0..seats).all(|index| matches!(segment.witness(index).life(), Life::Free)));

        // A slab's lock whose owner does not know of it is free below that depth, too.
        let slab_lock = segment.slab_lock_at(segment.reserved_slabs());
        fn freed(segment: &Arc<Segment>, index: u64, at: u64, is_free: &Cell<bool>) {
            if index < u64::from(DEPTH_MAX) {
                return segment.attend(index, &|_| freed(segment, index + 1, at, is_free));
            }
            assert!(matches!(segment.lock_try(at, index), lock::Locked::Ours(_)));
            segment.probe(at);
            is_free.set(lock::owner(segment.load(at)).is_none());
        }
        let is_free = Cell::new(false);
        freed(segment, 0, slab_lock, &is_free);
        assert!(is_free.get());

        // The seat that panics is avoided next time, not one of those that wait for its recovery, nor one that is put off.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            fn fail(segment: &Arc<Segment>, index: u64) {
                segment.attend(index, &|_| {
                    if index + 1 < u64::from(DEPTH_MAX) {
                        return fail(segment, index + 1);
                    }
                    segment.attend(index + 1, &|_| {});
                    panic!("on purpose");
                });
            }
            fail(segment, 0);
        }));
        assert!(outcome.is_err() && DEPTH.get() == 0 && !BLAMED.get());
        assert_eq!(segment.avoided.load(Ordering::Relaxed), u64::from(DEPTH_MAX));
        Segment::remove(&name).expect("it is there");
    }
}
