//! Recovery of a seat: completes or undoes what a thread's death has interrupted, from the words of the seat alone.
//!
//! The thread that holds the seat's liveness lock runs [`settle`]: a recoverer, the next owner, or the owner itself when it leaves. That
//! thread may die at any instruction, too. The next one then starts again and reaches the same state, since each step is one of
//! - a redo that stores absolute values (memory journal, committed journal, expansion of a retired tree);
//! - an undo that drops each item from its list right after it has undone it, and that does no harm if it is done twice;
//! - the removal of a node from one of two places in which it is found.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::class::CLASSES;
use crate::layout::{self, seat as at};
use crate::liveness::{Life, LivenessLock, Taken};
use crate::lock;
use crate::seat::{Seat, cache_count, cache_slot};
use crate::segment::Segment;
use crate::swap_barrier::Changes;

/// How long one call frees what was retired in a seat without an owner, at most; the next call goes on.
const GONE_PATIENCE: Duration = Duration::from_millis(2);
/// Brings a seat in order; a seat that is in order is not changed. `died`: its last owner or a recoverer may have died during a change.
pub(crate) fn settle(seat: &Seat, died: bool) {
    seat.settle_memory();
    seat.check_caches();
    seat.settle_new();
    // A lower bound that it had lifted becomes 0, which is below everything, until a thread computes it anew.
    (0..at::LIFTED_WORDS)
        .filter(|slot| seat.get(at::LIFTED + slot * 8) != 0)
        .for_each(|slot| seat.land(slot, 0));
    seat.end_snapshot();
    settle_pending(seat);
    seat.settle_retired();
    seat.set(at::RECLAIMING, 0);
    seat.check_journal();
    if seat.get(at::STATUS) & 3 == at::COMMITTED {
        seat.redo();
    } else if seat.journal_len() > 0 || seat.get(at::JOURNAL_NEXT) != 0 {
        seat.rollback();
    }
    seat.leave_commit();
    seat.announce_changes(Changes::default());
    if died {
        seat.recount_retired();
    }
}

/// A node on its way between the cache and a chain: it stays where it already is, or goes back into the cache.
fn settle_pending(seat: &Seat) {
    let pending = seat.get(at::PENDING);
    if pending == 0 {
        return;
    }
    let chained = seat.journal_blocks.borrow().contains(&pending)
        || seat.retired_blocks.borrow().contains(&pending)
        || seat.chain(seat.get(at::SNAPSHOT_LOG_FIRST)).contains(&pending);
    let is_node = seat.segment().node_class(pending) == Some(CLASSES - 1);
    if !chained && is_node && !seat.caches(CLASSES - 1, pending) && !seat.has_just_retired(pending) {
        seat.push_patiently(CLASSES - 1, pending);
    }
    seat.set(at::PENDING, 0);
}

impl Seat {
    /// The newest node of each class's cache.
    pub(crate) fn cache_tops(&self) -> Vec<u64> {
        (0..CLASSES)
            .filter_map(|class| {
                let count = self.get(cache_count(class));
                (count > 0).then(|| self.get(cache_slot(class, count - 1)))
            })
            .collect()
    }
}

/// A seat without a living owner, whose liveness lock this thread has taken in order to recover the seat. The liveness lock is given back when this
/// is dropped, also by a panic: otherwise no other thread could take it as long as the thread that panicked lives. After a panic the seat
/// counts as free, but it is not in order. A thread that waits for one of its locks begins the recovery again, and so does the next
/// thread that takes the seat.
pub(crate) struct Recovery {
    segment: Arc<Segment>,
    index: u64,
    /// Its last owner has died.
    owner_died: bool,
    /// Its liveness lock is that of a dead thread, which owned the seat or was recovering it.
    is_lock_dead: bool,
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
            // Only a panic leaves recoveries in the list. Their liveness locks are given back, so that other threads do not wait for this one.
            drop(PUT_OFF.try_with(RefCell::take));
        }
    }
}

impl Recovery {
    pub(crate) fn of(segment: &Arc<Segment>, index: u64, taken: Taken) -> Recovery {
        let is_lock_dead = taken == Taken::Dead;
        Recovery {
            segment: segment.clone(),
            index,
            owner_died: is_lock_dead,
            is_lock_dead,
            begun: Cell::new(false),
            kept: false,
        }
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

    /// Whether this thread has put off the recovery of a seat: it holds the seat's liveness lock, and its memory journal is in order.
    fn is_put_off(segment: &Segment, index: u64) -> bool {
        let is_it = |put_off: &Recovery| put_off.segment.id() == segment.id() && put_off.index == index;
        PUT_OFF.try_with(|list| list.borrow().iter().any(is_it)).unwrap_or(false)
    }

    pub(crate) fn settle(&self, seat: &Seat) {
        self.begun.set(!std::thread::panicking());
        // If a recovery has panicked, the owner's word is still set.
        settle(seat, self.owner_died || seat.get(at::OWNER) != 0);
        if self.is_lock_dead {
            seat.add(at::RECOVERIES, 1);
        }
    }

    /// The seat is in order, and this thread's own from now on.
    pub(crate) fn keep(&mut self) {
        if self.is_lock_dead {
            self.segment.liveness_settle(self.index);
        }
        self.kept = true;
    }
}

impl Drop for Recovery {
    fn drop(&mut self) {
        if self.kept || crate::sync::is_dead() {
            return;
        }
        if self.begun.get() && std::thread::panicking() && !(DEPTH.get() > 0 && BLAMED.replace(true)) {
            self.segment.avoided.store(self.index + 1, Ordering::Relaxed);
        }
        // Its last owner is dead and reads nothing any more.
        self.segment.publish(self.segment.seat_at(self.index) + at::PIN_LOWER, at::NO_PIN);
        if self.is_lock_dead {
            self.segment.liveness_settle(self.index);
        }
        self.segment.liveness_release(self.index);
    }
}

impl Segment {
    pub(crate) fn liveness(&self, index: u64) -> &LivenessLock {
        // SAFETY: the liveness lock lies in the mapping, which outlives the borrow, and was initialised with the segment.
        unsafe { LivenessLock::at(self.address(layout::LIVENESS_AT + index * layout::LIVENESS_BYTES)) }
    }

    /// Tries to take the liveness lock of seat `index`.
    pub(crate) fn liveness_take(&self, index: u64) -> Taken {
        // SAFETY: M4, a thread that holds a seat holds the segment, so the memory stays mapped until the liveness lock is released.
        unsafe { self.liveness(index).try_take() }
    }

    /// Says that a dead seat has been recovered.
    pub(crate) fn liveness_settle(&self, index: u64) {
        // SAFETY: this thread has just taken it and found its owner dead.
        unsafe { self.liveness(index).settle() }
    }

    /// Gives seat `index` back.
    pub(crate) fn liveness_release(&self, index: u64) {
        // SAFETY: this thread holds it.
        unsafe { self.liveness(index).release() }
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
        index < self.seats_high()
            && self.load(self.seat_at(index) + at::OWNERS) == life
            && !self.liveness(index).is_dead_or_free()
    }

    /// Brings a seat without a living owner in order and does `more` with it.
    pub(crate) fn attend(self: &Arc<Segment>, index: u64, more: &dyn Fn(&Seat)) {
        self.attend_after(index, false, more);
    }

    /// The same; `died`: its owner died, whatever its liveness lock says.
    pub(crate) fn attend_after(self: &Arc<Segment>, index: u64, died: bool, more: &dyn Fn(&Seat)) {
        match self.liveness_take(index) {
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
        self.liveness(index).is_dead_or_free()
    }

    /// Looks at every seat and recovers the dead. Returns how many there were.
    pub fn recover_dead(self: &Arc<Segment>) -> u64 {
        // The dead thread may be the seat's owner, or an earlier recoverer of it.
        let dead = (0..self.seats_high()).filter(|index| matches!(self.liveness(*index).life(), Life::Dead));
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
                let more_here = seat.reclaim_until(end.min(crate::sync::now() + GONE_PATIENCE));
                more.set(more.get() || more_here);
            });
            self.gone_next.store(index + 1, Ordering::Relaxed);
            if crate::sync::now() >= end {
                break;
            }
        }
        more.get()
    }

    /// Whether a seat has no owner, and holds something that may be freed.
    fn is_left_over(&self, index: u64) -> bool {
        let word = |word: u64| self.load(self.seat_at(index) + word);
        matches!(self.liveness(index).life(), Life::Free)
            && (word(at::RETIRED_HEAD) != word(at::RETIRED_TAIL)
                || word(at::INBOX_FIRST) != 0
                || word(at::SNAPSHOT_LOG_FIRST) != 0 && word(at::SNAPSHOT_LOG_NUMBER) != self.snapshot())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SegmentName, SegmentOptions};

    #[test]
    fn a_panic_during_recovery_leaves_the_seat_to_others() {
        let name: SegmentName =
            format!("shm:polder-test-panics-{}", std::process::id()).parse().expect("a name");
        let options = SegmentOptions { ceiling: 256 << 20, ..SegmentOptions::default() };
        let segment = &Segment::create(&name, &options).expect("a segment");
        let own = segment.seat().expect("a seat").index();
        let left = std::thread::scope(|scope| scope.spawn(|| segment.seat().expect("a seat").index()).join())
            .expect("no panic");
        assert_ne!(own, left);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            segment.attend(left, &|_| panic!("on purpose"))
        }));
        assert!(outcome.is_err() && DEPTH.get() == 0);
        let is_attended = Cell::new(false);
        segment.attend(left, &|_| is_attended.set(true));
        assert!(is_attended.get(), "the seat can be taken again, by the thread that panicked, too");
        let next = std::thread::scope(|scope| scope.spawn(|| segment.seat().expect("a seat").index()).join())
            .expect("no panic");
        assert_ne!(next, left, "what panics is not tried for ever");
        Segment::remove(&name).expect("it is there");
    }

    #[test]
    fn recovery_within_recovery_ends_at_a_depth_and_is_made_good() {
        let name: SegmentName =
            format!("shm:polder-test-depth-{}", std::process::id()).parse().expect("a name");
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
        assert!((0..seats).all(|index| matches!(segment.liveness(index).life(), Life::Free)));

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
