//! How a thread takes a seat in a segment at its first call, finds it again, and leaves it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use polder_base::Fault;

use crate::fork;
use crate::layout::{self, header, seat as at};
use crate::liveness::Taken;
use crate::recover::{self, Recovery};
use crate::renew::CLOSED_AND_RENEWED;
use crate::seat::Seat;
use crate::segment::Segment;
use crate::sync;

/// How long a thread that has found no free seat does not look again, since a search tries the liveness locks of all seats.
const TAKEN_REST: Duration = Duration::from_millis(100);
thread_local! {
    static SEATS: RefCell<Vec<Rc<Seat>>> = const { RefCell::new(Vec::new()) };
    /// The seat that was used last by [`Segment::with_seat`], and its segment's id: one of [`SEATS`], or none.
    static LAST: Cell<(u64, *const Seat)> = const { Cell::new((0, std::ptr::null())) };
    /// The segment in which all seats were taken when the thread looked last, and when that was.
    static TAKEN: Cell<Option<(u64, Instant)>> = const { Cell::new(None) };
}

fn all_taken() -> Fault {
    Fault::System(format!(
        "all {} seats of the segment are taken: end some of the attached threads",
        layout::SEATS_MAX
    ))
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
            let known = seats_now
                .iter()
                .find(|seat| seat.segment.id() == self.id() && seat.generation == fork::generation());
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
            let left: Vec<Rc<Seat>> = seats
                .borrow_mut()
                .extract_if(.., |seat| {
                    seat.segment.id() == self.id() && (seat.is_own() || !sync::is_scheduled())
                })
                .collect();
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
        seats
            .borrow_mut()
            .retain(|seat| (seat.is_own() || sync::is_scheduled()) && Arc::strong_count(&seat.segment) > 1);
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
            match segment.liveness_take(index) {
                Taken::Busy | Taken::Damaged => continue,
                taken => {
                    // SYNC: clean-close. Either the process that closes sees this liveness lock taken, or this store comes after its own.
                    segment.word(header::CLEAN).fetch_and(CLOSED_AND_RENEWED, Ordering::SeqCst);
                    if let Err(fault) = segment.back_seat(index) {
                        segment.liveness_release(index);
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
        TAKEN.set(Some((segment.id(), sync::now())));
        Err(all_taken())
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
}

impl Drop for Seat {
    fn drop(&mut self) {
        if std::ptr::eq(LAST.get().1, self) {
            LAST.set((0, std::ptr::null()));
        }
        if !sync::is_dead() && self.owned && self.is_own() {
            // A panic may have interrupted a transaction.
            recover::settle(self, true);
            self.set(at::PIN_LOWER, at::NO_PIN);
            self.set(at::OWNER, 0);
            self.close_inbox();
            self.return_caches();
            self.segment.liveness_release(self.index);
        }
    }
}

#[cfg(feature = "schedules")]
impl Segment {
    /// Runs the life of a thread of a schedule, from its seat on until it has left the seat. It dies before its store number `stores`, if
    /// that is said. `None`: it died.
    pub fn live<R>(self: &Arc<Segment>, stores: Option<u32>, life: impl FnOnce(&Seat) -> R) -> Option<R> {
        let lived = crate::schedules::live(stores, || {
            let seat = crate::schedules::quietly(|| self.seat().expect("a seat"));
            let result = life(&seat);
            drop(seat);
            self.leave_seat();
            result
        });
        // If it died: without a trace.
        self.leave_seat();
        lived
    }
}

/// Forgets what the threads of schedules have left, which may have failed in the middle.
#[cfg(feature = "schedules")]
pub fn end_schedules() {
    crate::schedules::end(|| drop(SEATS.take()));
    LAST.set((0, std::ptr::null()));
}
