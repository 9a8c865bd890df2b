//! The swap barrier: a thread that gives databases other numbers (a *swapper*) waits for the writers
//! that have entered their commit, which are past their last look at the map.
//!
//! A writer finds its keys' buckets through the map of databases, locks them, and commits. If two
//! databases are swapped in between, the buckets get another number. A reader may then read, under
//! the new number, what is about to be written under the old one. No order of the calls explains
//! that. So
//!
//! ```text
//!   writer                                             swapper
//!   locks its buckets                                  stores which databases it swaps (SWAPS), locks the map
//!   CLOSING = the databases it writes                  a full barrier
//!   a full barrier                                     waits, for each seat, until CLOSING has none of its databases
//!   looks at the map: still the same, and not locked   commits: the map is another one
//!     by a swapper of its databases? else begins anew  unlocks the map
//!   commits, writes out, unlocks
//!   CLOSING = 0
//! ```
//!
//! By the barriers at least one of the two sees the other: the writer that the map is locked, or
//! the swapper that the writer is in its commit. If the swapper sees the writer, the write is done before the
//! map changes. If it does not, the writer begins anew. A writer waits for no lock of the map, of a
//! bucket or of an inbox in its commit: it has taken all of these before. So a swapper, which
//! waits with all its locks held, waits only for writers that wait for no lock of these: there is
//! no deadlock. (A fast path enters its commit before it locks, but it only tries locks.)
//!
//! A thread that empties a database waits in the same way, but only for writers that write into it
//! and into others. A writer to it alone comes before the emptying as a whole.
//!
//! If a writer dies in its commit, the waiting swapper recovers its seat, and the wait for it ends.
//! If it is stopped, the swapper waits. The swapper must not hold its own locks for as
//! long, so it drops them and begins anew, too.
//!
//! The table's tests/schedules/swaps.rs runs this code, with deaths, in schedules that a checker chooses. tests/orderings.rs runs the two barriers under loom.

use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence, fence};
use std::time::Duration;

use crate::crash;
use crate::layout::seat as at;
use crate::seat::Seat;
use crate::segment::Segment;
use crate::sync::{self, Flaw};

/// A bit of [`at::CLOSING`] beside those of the databases: several databases are written. (One that
/// is never swapped nor emptied has no bit.)
const SEVERAL: u64 = 1 << 63;
/// The pause between two looks at the writers that have not finished.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// Looks without a pause before that.
const LOOKS: u32 = if cfg!(feature = "schedules") { 2 } else { 100 };
/// Dead seats are looked for at one look in this many.
const LOOKS_FOR_THE_DEAD: u32 = if cfg!(feature = "schedules") { 2 } else { 64 };

/// Which databases a thread swaps and empties, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub swapped: u64,
    pub emptied: u64,
}

impl Changes {
    /// Whether a thread with these changes and a writer of these databases, as [`Seat::enter_commit`]
    /// stores them, must keep apart. Both sides ask this.
    fn concern(self, written: u64) -> bool {
        written & self.swapped != 0 || written & SEVERAL != 0 && written & self.emptied != 0
    }
}

impl Seat {
    /// From now on this transaction waits for no lock of the map or a bucket, and its next look at
    /// the map decides. `databases`: the bits, none of them the highest, of those that it writes;
    /// `several`: it writes into more than one, counting those without a bit.
    #[inline]
    pub fn enter_commit(&self, databases: u64, several: bool) {
        crash::point();
        // SYNC: swap-barrier. The other half is in `await_commits`.
        self.own(at::CLOSING).swap(if several { databases | SEVERAL } else { databases }, Ordering::SeqCst);
        fence_elsewhere();
    }

    /// The same, for a fast path in one database whose next steps are to pin and to lock: each of
    /// these is a full barrier on x86.
    #[inline(always)]
    pub fn enter_commit_quickly(&self, database: u64) {
        self.set(at::CLOSING, database);
        compiler_fence(Ordering::SeqCst);
        fence_elsewhere();
    }

    /// Ends that, for a transaction that is over or may wait again.
    #[inline(always)]
    pub fn leave_commit(&self) {
        self.set(at::CLOSING, 0);
    }

    /// Whether `owner`, which has locked the map, changes databases that this transaction, which
    /// has [entered its commit](Seat::enter_commit), writes.
    pub fn is_overtaken_by(&self, owner: u64) -> bool {
        let seat = self.segment().seat_at(owner);
        let changes = Changes {
            swapped: self.segment().observe(seat + at::SWAPS),
            emptied: self.segment().observe(seat + at::FLUSHES),
        };
        changes.concern(self.get(at::CLOSING))
    }

    /// Stores what this seat is about to change, before it locks the map.
    pub fn announce_changes(&self, changes: Changes) {
        self.set(at::SWAPS, changes.swapped);
        self.set(at::FLUSHES, changes.emptied);
    }
}

#[inline(always)]
fn fence_elsewhere() {
    if cfg!(not(target_arch = "x86_64")) {
        fence(Ordering::SeqCst);
    }
}

impl Segment {
    /// The number of a seat's transaction, if it is in its commit and writes databases that are to be
    /// changed.
    pub fn committing_beside(&self, seat: u64, changes: Changes) -> Option<u64> {
        let seat = self.seat_at(seat);
        let number = self.observe(seat + at::STATUS) >> 2;
        changes.concern(self.observe(seat + at::CLOSING)).then_some(number)
    }

    /// Waits for all transactions that may have looked at the map before seat `own` locked it, and
    /// that write databases to be changed. `goes_on` is asked from time to time.
    ///
    /// # Errors
    /// The seat that has not finished when `goes_on` says no.
    pub fn await_commits(
        self: &Arc<Segment>,
        own: u64,
        changes: Changes,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), u64> {
        if sync::has(Flaw::AwaitsNoCommit) {
            return Ok(());
        }
        self.await_seats(own, &|seat| changes.concern(self.observe(seat + at::CLOSING)), goes_on)
    }

    /// Waits until no seat but `own` is `at_it` in the transaction in which it is now. `at_it` gets the place where a seat begins; what it looks at is
    /// looked at behind a full barrier.
    ///
    /// # Errors
    /// As [`Segment::await_commits`].
    pub(crate) fn await_seats(
        self: &Arc<Segment>,
        own: u64,
        at_it: &dyn Fn(u64) -> bool,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), u64> {
        // SYNC: swap-barrier. A writer that does not see the lock that this thread holds is seen here.
        fence(Ordering::SeqCst);
        for index in (0..self.seats_high()).filter(|index| *index != own) {
            let seat = self.seat_at(index);
            let number = self.observe(seat + at::STATUS) >> 2;
            let mut looks = 0u32;
            while at_it(seat) && self.observe(seat + at::STATUS) >> 2 == number {
                looks += 1;
                if looks < LOOKS {
                    sync::spin_loop();
                    continue;
                }
                if looks.is_multiple_of(LOOKS_FOR_THE_DEAD) {
                    self.recover_dead();
                }
                if !goes_on() {
                    self.recover_dead();
                    if at_it(seat) && self.observe(seat + at::STATUS) >> 2 == number {
                        return Err(index);
                    }
                    break;
                }
                sync::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }
}
