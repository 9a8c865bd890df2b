//! The words of the storage process: which thread copies the change log to the disk, how far the disk is, and who waits for it.
//!
//! ```text
//!   committing thread   commit -> barrier -> n := CSN      DURABLE >= n?  no: WANTED := max(n), own bit in WAITING, DURABLE >= n?  no: sleep
//!   storage thread      b := CSN++ -> barrier -> merge, copy, sync -> DURABLE := b -> take WAITING, wake each seat in it
//! ```
//!
//! - **W1** OWNER changes as `owner_word.rs` says.
//! - **W2** The owner alone writes PID, PROMISED, the figures and DURABLE. A dead owner's DURABLE stays true, since the disk keeps what it has. It says
//!   nothing of commits that drew no number because the change log was off; a base holds them, and until it is written PROMISED is 0.
//! - **W3** A thread that reads n from CSN after a commit, and later finds DURABLE >= n, knows that the commit is on the disk. The storage
//!   thread draws b from CSN before it merges. If b >= n, then CSN was n when the committing thread read it and moved beyond b >= n later, so the
//!   read precedes the draw. With a full barrier on both sides, between the commit and the read, and between the draw and the merge, the merge sees
//!   the commit, and finds its record (`change_log.rs`, L3). The same holds for whatever that thread has seen of other threads' commits.
//! - **W4** The storage thread may store b + 1 if no transaction was open at a moment between its draw and its merge: a commit with a number up to b
//!   had ended by then. So threads that only read need not wait for another sync.
//! - **W5** Wake-ups are not lost. The waiting thread sets its bit, then looks at DURABLE; the storage thread stores DURABLE, then takes the
//!   bits; full barriers stand between. Every sleep has a time limit, so the death of either side costs no more than that.
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use crate::layout::{header, seat, storage as at};
use crate::owner_word::{Claim, Owner};
use crate::{Segment, futex};

/// The words of the storage process of a segment.
#[derive(Clone, Copy)]
pub struct StorageWords<'s> {
    segment: &'s Segment,
}

impl Segment {
    /// The words of the storage process.
    pub fn storage(&self) -> StorageWords<'_> {
        StorageWords { segment: self }
    }

    /// Takes the bits of seats out of the words at `at`, and wakes their threads.
    pub(crate) fn wake_all_in(&self, at: u64) {
        for word in 0..at::WAITING_WORDS {
            let waiting = self.word(at + word * 8);
            if waiting.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = waiting.swap(0, Ordering::AcqRel);
            while bits != 0 {
                self.wake(word * 64 + u64::from(bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
    }
}

impl StorageWords<'_> {
    /// Takes the words for the calling thread's seat. Returns false while another living thread has them (W1).
    pub fn claim(&self, seat: u64, life: u64) -> bool {
        let claim = self.segment.claim_word(at::OWNER, seat, life);
        if claim == Claim::Taken {
            self.segment.publish(at::PID, std::process::id().into());
        }
        claim != Claim::Refused
    }

    /// Gives the words back.
    pub fn release(&self, seat: u64, life: u64) {
        self.segment.release_word(at::OWNER, seat, life);
    }

    /// The thread that has the words, or died with them; `None`: no thread has.
    pub fn owner(&self) -> Option<Owner> {
        self.segment.owner_in(at::OWNER, at::PID)
    }

    /// A figure that the owner tells.
    pub fn figure(&self, number: u64) -> u64 {
        self.segment.observe(at::FIGURES + number % at::FIGURES_MAX * 8)
    }

    /// Tells a figure (W2).
    pub fn tell(&self, number: u64, value: u64) {
        self.segment.publish(at::FIGURES + number % at::FIGURES_MAX * 8, value);
    }

    /// What is to be on the disk before the calling thread tells anyone of what it has committed or read up to now (W3).
    #[inline]
    pub fn seen(&self) -> u64 {
        // SYNC: storage-barrier.
        fence(Ordering::SeqCst);
        self.segment.observe(header::CSN)
    }

    /// Draws a number without a commit: what commits before it have changed is in what is merged after this call (W3).
    pub fn draw(&self) -> u64 {
        let drawn = self.segment.word(header::CSN).fetch_add(1, Ordering::SeqCst);
        // SYNC: storage-barrier.
        fence(Ordering::SeqCst);
        drawn
    }

    /// Whether each other thread has been outside of transactions at a moment since the last draw (W4).
    pub fn is_quiet(&self, own: u64) -> bool {
        let is_at_rest =
            |index: u64| self.segment.observe(self.segment.seat_at(index) + seat::JOURNAL_LEN) == 0;
        (0..self.segment.seats_high()).filter(|index| *index != own).all(is_at_rest)
    }

    /// Whether clients rely on the disk: the files are, or were, a whole log of the memory. It outlasts the owner.
    #[inline]
    pub fn is_promised(&self) -> bool {
        self.segment.observe(at::PROMISED) != 0
    }

    /// Says whether clients rely on the disk (W2).
    pub fn promise(&self, promised: bool) {
        self.segment.publish(at::PROMISED, promised.into());
    }

    /// Whether all is on the disk that the thread has seen which has read this number from the counter of commits (W3).
    #[inline]
    pub fn is_durable(&self, csn: u64) -> bool {
        self.durable() >= csn
    }

    /// The commits with numbers below this one are on the disk.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.segment.observe(at::DURABLE)
    }

    /// Says how far the disk is, and wakes the threads that wait for it (W2, W5).
    pub fn set_durable(&self, csn: u64) {
        self.segment.word(at::DURABLE).fetch_max(csn, Ordering::SeqCst);
        // SYNC: storage-durable.
        fence(Ordering::SeqCst);
        self.segment.wake_all_in(at::WAITING);
    }

    /// Says that the thread of a seat is about to sleep until more is on the disk. It must look at DURABLE once more before it sleeps (W5).
    pub fn await_more(&self, seat: u64) {
        self.segment.word(at::WAITING + seat / 64 * 8).fetch_or(1 << (seat % 64), Ordering::SeqCst);
        // SYNC: storage-durable.
        fence(Ordering::SeqCst);
    }

    /// Asks for everything up to this number to be on the disk, and wakes the owner.
    pub fn want(&self, csn: u64) {
        self.segment.word(at::WANTED).fetch_max(csn, Ordering::SeqCst);
        // SYNC: storage-wanted. Either this thread sees that the owner sleeps, or the owner sees what is wanted.
        fence(Ordering::SeqCst);
        self.wake_owner();
    }

    /// Whether a thread waits for more than is on the disk.
    pub fn is_wanted(&self) -> bool {
        self.segment.observe(at::WANTED) > self.durable()
    }

    /// How often another base was asked for.
    pub fn rewrites_asked(&self) -> u64 {
        self.segment.observe(at::REWRITES_ASKED)
    }

    /// Asks for another base.
    pub fn ask_rewrite(&self) {
        self.segment.word(at::REWRITES_ASKED).fetch_add(1, Ordering::SeqCst);
        self.wake_owner();
    }

    fn wake_owner(&self) {
        if self.segment.load(at::SLEEPING) != 0 && self.segment.exchange(at::SLEEPING, 1, 0).is_ok() {
            futex::wake(self.segment.low_half(at::SLEEPING), u32::MAX);
        }
    }

    /// Has the owner sleep until something is wanted, at most this long.
    pub fn sleep(&self, timeout: Duration) {
        self.segment.word(at::SLEEPING).swap(1, Ordering::SeqCst);
        // SYNC: storage-wanted.
        fence(Ordering::SeqCst);
        if !self.is_wanted() {
            futex::wait(self.segment.low_half(at::SLEEPING), 1, Some(timeout));
        }
        self.segment.word(at::SLEEPING).swap(0, Ordering::AcqRel);
    }
}
