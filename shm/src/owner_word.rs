//! Words that name the thread which has something that one thread of a segment has at a time: the storage process, a link, the tier, a replica's line.
//!
//! - **W1** Such a word changes by compare-and-swap only: from 0, or from the mark of a dead thread, to the mark of the thread that takes it, and
//!   to 0 by that thread. A mark names a seat and one life of it, and no life recurs, so no swap mistakes an old mark for its own. A thread
//!   that dies leaves its mark, and the next candidate replaces it: nothing has to be recovered.
use crate::Segment;
use crate::layout::SEATS_MAX;

const SEAT_BITS: u32 = 12;
const _: () = assert!(SEATS_MAX < 1 << SEAT_BITS);

/// The thread that has taken the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub process: u32,
    /// The thread is alive; a stopped one is, too.
    pub lives: bool,
}

/// The end of an attempt to take a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// The thread has it from now on.
    Taken,
    /// The thread had it before.
    Held,
    /// Another living thread has it.
    Refused,
}

/// The word of a thread that sits at a seat in one life of it.
pub(crate) fn mark(index: u64, life: u64) -> u64 {
    life << SEAT_BITS | (index + 1)
}

/// The seat and its life that a mark names.
pub(crate) fn unmark(mark: u64) -> (u64, u64) {
    ((mark & ((1 << SEAT_BITS) - 1)).wrapping_sub(1), mark >> SEAT_BITS)
}

impl Segment {
    /// Returns true if the thread lives that a mark names (W1).
    pub(crate) fn is_marked_alive(&self, mark: u64) -> bool {
        let (seat, life) = unmark(mark);
        self.lives(seat, life)
    }

    /// Takes the word at `at` for the thread that sits at a seat in one life of it (W1).
    pub(crate) fn claim_word(&self, at: u64, seat: u64, life: u64) -> Claim {
        let (before, own) = (self.observe(at), mark(seat, life));
        match before {
            _ if before == own => Claim::Held,
            _ if before != 0 && self.is_marked_alive(before) => Claim::Refused,
            _ if self.exchange(at, before, own).is_err() => Claim::Refused,
            _ => Claim::Taken,
        }
    }

    /// Gives the word at `at` back, if that thread has it.
    pub(crate) fn release_word(&self, at: u64, seat: u64, life: u64) {
        // The thread has it, or has not; W1.
        let _ = self.exchange(at, mark(seat, life), 0);
    }

    /// The thread that has the word at `at`, or died with it; its process stands at `pid_at`.
    pub(crate) fn owner_in(&self, at: u64, pid_at: u64) -> Option<Owner> {
        let mark = self.observe(at);
        (mark != 0).then(|| Owner { process: self.observe(pid_at) as u32, lives: self.is_marked_alive(mark) })
    }
}
