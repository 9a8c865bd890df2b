//! A `file:` segment in another boot of the machine than its last one.
//!
//! The file may have stayed from an orderly stop, from a crash of the system, or from a power cut. No process of the old boot
//! lives, so the kernel's marks on the liveness locks mean nothing: a thread that held one when the power went still seems to hold it.
//! The first process that attaches puts the segment in order while all others wait (`presence.rs`):
//!
//! ```text
//!   1  alone?       a process that is attached already sees another boot: another machine shares the file; refused
//!   2  room         what the header says is taken is asked for once more: a copy, or a disk after a crash, may have holes
//!   3  liveness locks    all are made anew
//!   4  seats        each seat that was ever used is settled as after a death: rolled back, or its commit carried out
//!   5  check        the caller walks everything; damage ends the attempt
//!   6  identity     if it was not closed in order: another memory from here on (INCARNATION), since it may be older than what was copied from it;
//!                its versions go on at a random distance, since clients may have been told later ones
//!   7  boot         CLEAN is cleared; the header's two words of the boot: from here on the segment is of this boot
//! ```
//!
//! **Invariant:** each step may be repeated. A death before the end of step 7 leaves a boot that is not this one, and the next process
//! begins again; settling a seat twice is what recovery does anyway (`recover.rs`).
//!
//! # What is not promised
//!
//! Stores reach the disk when the kernel writes its page cache back, page by page and in any order. After an orderly shutdown of the
//! machine, or the death of all processes, the file is whole. After a power cut or a crash of the kernel it may hold new pages beside
//! old ones: the check finds structures that do not fit together, but no bytes of a value that are wrong by themselves. A segment that
//! was closed by its last process (CLEAN) had been written to the disk as a whole.
//!
//! # Closing
//!
//! The last process that leaves writes everything to the disk and sets CLEAN; the next thread that takes a seat clears it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use polder_base::Fault;

use crate::layout::{self, header, seat as at};
use crate::liveness::Life;
use crate::segment::Segment;
use crate::{crash, fork, machine, presence};

/// How often and how long a leaving process waits for another that enters or leaves: about a second in all.
const TURN_TRIES: u32 = 1000;
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// What CLEAN is while a segment that was closed in order is put in order. A seat that is taken for that leaves it, so that a next attempt knows, too.
pub(crate) const CLOSED_AND_RENEWED: u64 = 2;

/// The bits of the distance by which versions go on after a crash of the machine. It is more than what is written between two
/// writebacks of the kernel, and little of the 40 bits of versions, so that a thousand crashes do not wrap them.
const VERSION_STEP_BITS: u32 = 30;

/// Walks a segment of an earlier boot and says whether it may be used; the second argument is whether it was closed in order.
pub type Check<'c> = &'c mut dyn FnMut(&Arc<Segment>, bool) -> Result<(), Fault>;

impl Segment {
    /// Whether the header's boot is this one.
    fn is_of_this_boot(&self) -> Result<bool, Fault> {
        let boot = machine::boot_words()?;
        Ok([self.observe(header::BOOT_ID), self.observe(header::BOOT_ID + 8)] == boot)
    }

    /// Puts a `file:` segment of another boot in order; the caller has the turn.
    pub(crate) fn renew_after_boot(self: &Arc<Segment>, check: Check<'_>) -> Result<(), Fault> {
        if self.mapping().durable_file().is_none() || self.is_of_this_boot()? {
            return Ok(());
        }
        if !self.mapping().is_alone()? {
            return Err(Fault::System(format!(
                "{} is in use by a process of another boot: another machine or virtual machine shares the file; end it first",
                self.mapping().name()
            )));
        }
        let renewed = self.renew(check);
        if renewed.is_err() {
            // The seat that the check has taken holds the segment, and with it the file's locks.
            self.leave_seat();
        }
        renewed
    }

    fn renew(self: &Arc<Segment>, check: Check<'_>) -> Result<(), Fault> {
        let closed = self.was_closed();
        self.publish(header::CLEAN, if closed { CLOSED_AND_RENEWED } else { 0 });
        self.mapping().back(0, self.seat_at(self.seats_high()))?;
        self.back_spare_seats(self.seats_high());
        self.back_slabs(0, self.slabs_ready())?;
        for index in 0..layout::SEATS_MAX {
            crash::point();
            // SAFETY: no process of this boot uses the segment (the locks say so), and threads of another boot are dead.
            unsafe { self.liveness(index).init() };
        }
        for index in 0..self.seats_high() {
            self.attend_after(index, true, &|_| {});
        }
        check(self, closed)?;
        if !closed {
            let random = machine::random_seed()?;
            // Not 0, which says that there was no such start.
            self.publish(
                header::INCARNATION,
                u64::from_ne_bytes(random[..8].try_into().expect("8 bytes")) | 1,
            );
            self.leave_versions(machine::random_distance(VERSION_STEP_BITS)?);
        }
        let boot = machine::boot_words()?;
        // From here on it is in use. A death before the next store makes it another memory, as if it had not been closed.
        self.publish(header::CLEAN, 0);
        // Between the two stores it is of no boot at all: the next process begins again.
        self.publish(header::BOOT_ID, boot[0]);
        self.publish(header::BOOT_ID + 8, boot[1]);
        Ok(())
    }

    /// Goes on with versions at another place: the file may be older than the memory whose versions clients have been told.
    fn leave_versions(&self, distance: u64) {
        self.word(header::VERSIONS).fetch_add(distance, Ordering::AcqRel);
        for index in 0..self.seats_high() {
            // NEXT before END, as where a block is drawn: a block that ends before it begins is empty.
            self.publish(self.seat_at(index) + at::VERSION_NEXT, u64::MAX);
            self.publish(self.seat_at(index) + at::VERSION_END, 0);
        }
    }

    /// Whether its last process closed it in order before the machine went down.
    pub fn was_closed(&self) -> bool {
        self.observe(header::CLEAN) != 0
    }

    /// Whether, as far as can be seen, no other process uses it.
    pub fn is_alone_here(&self) -> bool {
        let own = std::process::id();
        let alone = self.mapping().is_alone().unwrap_or(false);
        let _ = self.mapping().enter();
        alone && self.seated().iter().all(|seat| seat.process == own)
    }

    /// Closes a `file:` segment if no other process uses it. It is a hint for the next boot: where anything is in doubt it stays open.
    fn close(&self) {
        let Some(file) = self.mapping().durable_file() else { return };
        // A forked child has its parent's locks and cannot tell whether it is alone.
        if self.generation != fork::generation() || self.removed() || !self.is_of_this_boot().unwrap_or(false)
        {
            return;
        }
        let mut tries = 0..TURN_TRIES;
        while !presence::try_turn(file) {
            if tries.next().is_none() {
                return;
            }
            std::thread::sleep(TURN_PAUSE);
        }
        let is_free = || (0..self.seats_high()).all(|index| self.liveness(index).life() == Life::Free);
        if self.was_closed()
            || !presence::is_alone(file).unwrap_or(false)
            || !is_free()
            || self.mapping().sync().is_err()
        {
            return;
        }
        // SYNC: clean-close. Either a forked child that takes a seat now is seen here, or it clears the word after this store.
        self.word(header::CLEAN).swap(1, Ordering::SeqCst);
        if !is_free() || self.mapping().sync_head().is_err() {
            self.word(header::CLEAN).store(0, Ordering::SeqCst);
        }
    }
}

impl Drop for Segment {
    /// The last of this process; the locks go with the mapping.
    fn drop(&mut self) {
        self.close();
    }
}
