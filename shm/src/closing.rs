//! Closing: who gives databases other numbers waits for the writers that have looked at the map for the last time.
//!
//! A writer finds its keys' buckets by way of the map of databases, locks them, and commits. A swap of two databases in between changes what the
//! buckets are called, and somebody may read there, under the new name, what is going to be written under the old one. No order explains
//! that. So
//!
//! ```text
//!   writer                                             who swaps
//!   locks its buckets                                  says which databases it swaps (SWAPS), locks the map
//!   CLOSING = the databases it writes                  a full barrier
//!   a full barrier                                     until CLOSING has none of his: waits, for each seat
//!   looks at the map: still the same, and locked by    commits: the map is another one
//!     nobody who swaps its databases? or begins anew   unlocks the map
//!   commits, writes out, unlocks
//!   CLOSING = 0
//! ```
//!
//! By the barriers at least one of two sees the other: the writer that the map is locked, or who swaps that the writer closes. If the writer is seen, its
//! write is there before the map changes; if not, the writer begins anew. Nobody waits for locks of the map or of buckets while he
//! closes, so that no circle comes of it: who swaps waits with all his locks, for those who wait for nobody.
//!
//! Who empties a database waits in the same way, for those writers alone who write into it and others: who writes into it alone comes before him as a whole.
//!
//! Who dies while he closes is recovered by who waits for him, and closes no more. Who stands still then holds who swaps, who must not hold others for as
//! long: he begins anew, too. Older builds set neither word: beside them it is as it was. Restated in tests/closing.rs: change both.

use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence, fence};
use std::time::Duration;

use crate::crash;
use crate::layout::seat as at;
use crate::seat::Seat;
use crate::segment::Segment;

/// What [`at::CLOSING`] says besides the databases that are written, as bits: there are several. (One that is never swapped nor emptied has no bit.)
const SEVERAL: u64 = 1 << 63;
/// How long is waited between two looks at those who have not come to their end.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// Looks without a pause before that.
const LOOKS: u32 = 100;
/// It is looked for the dead at one look in so many.
const LOOKS_FOR_THE_DEAD: u32 = 64;

/// Which databases somebody swaps and empties, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub swapped: u64,
    pub emptied: u64,
}

impl Changes {
    /// Whether they are to keep apart from who writes these databases, as [`Seat::close`] answers them. Both of the two ask this.
    fn concern(self, written: u64) -> bool {
        written & self.swapped != 0 || written & SEVERAL != 0 && written & self.emptied != 0
    }
}

impl Seat {
    /// From now on this transaction waits for no lock of the map or a bucket; what it sees of the map from now on is what counts.
    /// `databases`: the bits, none of them the highest, of those that it writes; `several`: it writes into more than one, that which has no bit counted.
    #[inline]
    pub fn close(&self, databases: u64, several: bool) {
        crash::point();
        // SYNC: closing. The other half is in `await_closing`.
        self.own(at::CLOSING).swap(if several { databases | SEVERAL } else { databases }, Ordering::SeqCst);
        fence_elsewhere();
    }

    /// The same, of a short way in one database whose next steps are to pin and to lock: each is a full barrier on x86.
    #[inline(always)]
    pub fn close_quickly(&self, database: u64) {
        self.set(at::CLOSING, database);
        compiler_fence(Ordering::SeqCst);
        fence_elsewhere();
    }

    /// The end of that, of a transaction that is over or may wait again.
    #[inline(always)]
    pub fn reopen(&self) {
        self.set(at::CLOSING, 0);
    }

    /// Whether `owner`, who has locked the map, changes what this transaction, which has [closed](Seat::close), writes.
    pub fn is_overtaken_by(&self, owner: u64) -> bool {
        let seat = self.segment().seat_at(owner);
        let changes = Changes { swapped: self.segment().observe(seat + at::SWAPS), emptied: self.segment().observe(seat + at::FLUSHES) };
        changes.concern(self.get(at::CLOSING))
    }

    /// Says what is to be changed by whoever sits here and locks the map next.
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
    /// The number of the transaction of a seat, if it closes and writes what is to be changed.
    pub fn closing_beside(&self, seat: u64, changes: Changes) -> Option<u64> {
        let seat = self.seat_at(seat);
        let number = self.observe(seat + at::STATUS) >> 2;
        changes.concern(self.observe(seat + at::CLOSING)).then_some(number)
    }

    /// Waits until all have come to their end who may have looked at the map before it was locked by seat `own`, and write what is to be changed. `goes_on`
    /// is asked now and then.
    ///
    /// # Errors
    /// The seat that is still at it when `goes_on` says no.
    pub fn await_closing(self: &Arc<Segment>, own: u64, changes: Changes, goes_on: &mut dyn FnMut() -> bool) -> Result<(), u64> {
        self.await_seats(own, &|seat| changes.concern(self.observe(seat + at::CLOSING)), goes_on)
    }

    /// Waits until no seat but `own` is `at_it` in the transaction in which it is now. `at_it` gets the place where a seat begins; what it looks at is
    /// looked at behind a full barrier.
    ///
    /// # Errors
    /// As [`Segment::await_closing`].
    pub(crate) fn await_seats(
        self: &Arc<Segment>,
        own: u64,
        at_it: &dyn Fn(u64) -> bool,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), u64> {
        // SYNC: closing. Who does not see the lock that we hold is seen.
        fence(Ordering::SeqCst);
        for index in (0..self.seats_high()).filter(|index| *index != own) {
            let seat = self.seat_at(index);
            let number = self.observe(seat + at::STATUS) >> 2;
            let mut looks = 0u32;
            while at_it(seat) && self.observe(seat + at::STATUS) >> 2 == number {
                looks += 1;
                if looks < LOOKS {
                    std::hint::spin_loop();
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
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }
}
