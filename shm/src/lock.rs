//! The lock word: half lock, half version.
//!
//! ```text
//!  63                    32 31        15 14     13       12      11          0
//! +------------------------+------------+-----+--------+-------+-------------+
//! | version                | 0          |dead |starving|waiters| seat + 1    |
//! +------------------------+------------+-----+--------+-------+-------------+
//! ```
//!
//! The low half is what FUTEX_WAIT watches. `seat` 0 means free. A release that published something adds one to
//! the version, so a reader that finds the same word before and after has read one state (a seqlock whose readers
//! never wait: see `table`). `dead` is for ever: what the word guarded has moved elsewhere.
//!
//! Why it is safe if a thread dies at any instruction:
//! - The intent (a LOCK item in the seat's journal) is stored before the CAS. So recovery of a seat
//!   finds every word that the seat may own, and the word itself says whether it does. A word has
//!   no other owner than a seat (S4).
//! - If a waiter dies after it was woken and before it took the lock, the wake-up is lost.
//!   Therefore every sleep ends by itself after [`PROBE`]. A waiter that wakes so checks the
//!   owner's life and tries again.
//! - `starving` reserves a free word for threads that have slept on it. It is a hint: if all of
//!   them die, a newcomer sleeps once and has then slept on it, too. So no bit needs cleaning up
//!   after the dead.
//!
//! Fairness: a waiter tries for some microseconds, then naps and tries again, without a trace in
//! the word. So the owner's releases cost no system call, and a thread that takes the word again
//! and again runs at full speed. A thread that has waited for [`STARVING_AFTER`] sets `starving`
//! and sleeps until it is woken. From then on a release leaves the word to the sleepers, so a
//! thread that takes it again and again gives it up about once a millisecond. Measured, SETs of one
//! key by 2, 4 and 8 threads on 2 cores: 99, 95 and 90 % of one thread's rate, least share 0.89 of
//! the greatest. [`Seat::stand_back`](crate::Seat::stand_back) has a part in it: naps alone gave
//! 57, 53 and 55 %.
//!
//! tests/schedules/commits.rs runs this code, with deaths, in schedules that a checker chooses.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::crash;
use crate::futex;
use crate::layout::SEATS_MAX;
use crate::segment::Segment;
use crate::sync::{self, Flaw};

/// The owner's bits.
pub const OWNER: u64 = 0xfff;
/// A thread may be asleep.
pub const WAITERS: u64 = 1 << 12;
/// Only a thread that has slept may take the word.
pub const STARVING: u64 = 1 << 13;
/// What the word guarded is gone for ever.
pub const DEAD: u64 = 1 << 14;
/// One version.
pub const VERSION: u64 = 1 << 32;

/// How long a sleep lasts at most before the sleeper looks after the owner.
pub const PROBE: Duration = Duration::from_millis(2);
/// How long a waiter waits before it asks to be preferred.
pub const STARVING_AFTER: Duration = Duration::from_millis(1);
/// How long a waiter that is not starving sleeps between attempts. It needs no wake-up, so a thread
/// that takes the word again and again makes no system calls.
pub const NAP: Duration = Duration::from_micros(50);
/// The pauses between the attempts of one try, longer and longer: each look takes the cache line
/// away from the owner, which otherwise does many short transactions meanwhile.
const PAUSES: [u32; 6] = [4, 16, 32, 64, 128, 128];

/// How an attempt to lock ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// It is ours; the word as it was before (without waiters' bits meaning anything).
    Ours(u64),
    /// The word is dead: look the place up again.
    Dead,
    /// Another thread has it (only from attempts that do not wait for ever).
    Busy,
}

/// The seat that owns `word`, if one does. A damaged word names a seat, too (S5).
#[inline(always)]
pub const fn owner(word: u64) -> Option<u64> {
    match word & OWNER {
        0 => None,
        seat => Some((seat - 1) % SEATS_MAX),
    }
}

/// The word as `seat` holds it from the start: in a bucket that no other thread has seen yet.
pub const fn born_locked(seat: u64) -> u64 {
    seat + 1
}

impl Segment {
    /// Takes the word if it is free.
    #[inline]
    pub(crate) fn lock_try(&self, at: u64, seat: u64) -> Locked {
        let word = self.load(at);
        if word & (OWNER | STARVING | DEAD) == 0 && self.exchange(at, word, word | (seat + 1)).is_ok() {
            return Locked::Ours(word);
        }
        if word & DEAD != 0 { Locked::Dead } else { Locked::Busy }
    }

    /// Takes the word, waiting until `deadline` if necessary. `probe` is called from time to time
    /// while a seat owns the word: it checks whether that seat is dead and, if so, recovers it. A
    /// word that this seat owns already counts as dead (S5): no other thread would free it.
    pub(crate) fn lock_wait(
        &self,
        at: u64,
        seat: u64,
        deadline: Option<Instant>,
        probe: &mut dyn FnMut(),
    ) -> Locked {
        if let Some(done) = self.lock_spin(at, seat) {
            return done;
        }
        let began = sync::now();
        let mut slept = false;
        loop {
            let word = self.load(at);
            if word & DEAD != 0 || owner(word) == Some(seat) {
                return Locked::Dead;
            }
            if word & OWNER == 0 && (slept || word & STARVING == 0) {
                // Others may still sleep: the waiters' bit stays, so that the release wakes the next one.
                let taken = (word & !STARVING)
                    | (seat + 1)
                    | if slept && !sync::has(Flaw::ForgetsSleepers) { WAITERS } else { 0 };
                if self.exchange(at, word, taken).is_ok() {
                    return Locked::Ours(word);
                }
                continue;
            }
            let now = sync::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return self.lock_last(at, seat, probe);
            }
            if now - began < STARVING_AFTER {
                sync::sleep(deadline.map_or(NAP, |deadline| NAP.min(deadline - now)));
                match self.lock_spin(at, seat) {
                    Some(done) => return done,
                    None => continue,
                }
            }
            let wanted = word | WAITERS | STARVING;
            if wanted != word && self.exchange(at, word, wanted).is_err() {
                continue;
            }
            let sleep =
                deadline.map_or(PROBE, |deadline| PROBE.min(deadline.saturating_duration_since(sync::now())));
            futex::wait(self.low_half(at), wanted as u32, Some(sleep));
            slept = true;
            if owner(self.load(at)).is_some() {
                probe();
            }
        }
    }

    /// The last attempt of a thread that waits no longer. It checks the owner's life first, since
    /// otherwise no thread might for long. It counts as one that has slept, since the starving
    /// threads for which a free word is kept may all be dead.
    fn lock_last(&self, at: u64, seat: u64, probe: &mut dyn FnMut()) -> Locked {
        probe();
        let word = self.load(at);
        if word & (OWNER | DEAD) == 0 && self.exchange(at, word, (word & !STARVING) | (seat + 1)).is_ok() {
            return Locked::Ours(word);
        }
        if word & DEAD != 0 { Locked::Dead } else { Locked::Busy }
    }

    /// Tries for some microseconds.
    fn lock_spin(&self, at: u64, seat: u64) -> Option<Locked> {
        for pauses in PAUSES {
            match self.lock_try(at, seat) {
                Locked::Busy => sync::pause(pauses),
                done => return Some(done),
            }
        }
        None
    }

    /// Gives the word back: `changed` adds a version, `dead` marks it dead.
    #[inline]
    pub(crate) fn unlock(&self, at: u64, changed: bool, dead: bool) {
        crash::point();
        let word = self.word(at);
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let mut free = seen & !(OWNER | WAITERS);
            if changed {
                free = free.wrapping_add(VERSION);
            }
            if dead {
                free |= DEAD;
            }
            // SYNC: bucket-release. A thread that sees the word free sees what the owner wrote.
            match word.compare_exchange_weak(seen, free, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        if seen & WAITERS != 0 {
            futex::wake(self.low_half(at), if dead { u32::MAX } else { 1 });
        }
    }
}
