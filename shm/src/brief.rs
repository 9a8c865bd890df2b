//! A brief journal: what a short transaction notes, and its commit, in fewer steps.
//!
//! The items are those of `journal.rs` and mean the same, to readers and to recovery. Only the way there is shorter: items become
//! part of the journal all at once, by one store of its length, right before the commit; and the owner writes out what it knows it has
//! noted, without asking item by item whose lock covers it. A recoverer runs the journal's own redo.
//!
//! Before the commit nobody reads these items (a reader asks for COMMITTED first), so it does not matter when the length is stored, as
//! long as each LOCK item was part of the journal before its lock was taken; [`Seat::lock_now`] does that.

use std::sync::atomic::Ordering;

use crate::crash;
use crate::journal::{CHANGED, Tag};
use crate::layout::seat as at;
use crate::seat::Seat;

/// The notes of one short transaction, which holds a few locks and nothing else.
pub struct Brief<'s> {
    seat: &'s Seat,
    /// LOCK items at the journal's beginning.
    locks: u64,
    /// Where in the seat the next item lies.
    next: u64,
}

impl Seat {
    /// Begins the notes of a transaction whose journal holds LOCK items alone.
    #[inline(always)]
    pub fn brief(&self) -> Brief<'_> {
        let locks = self.journal_len();
        Brief { seat: self, locks, next: at::JOURNAL + locks * 16 }
    }

    /// Locks the word at `offset` as the journal's item `number`, its next one, if it is still `word`, which was free. Whatever the word guards has
    /// then not changed since that was read, apart from access clocks.
    #[inline(always)]
    pub fn lock_as_seen(&self, number: u64, offset: u64, word: u64) -> bool {
        if self.journal_len() != number {
            return false;
        }
        // The intent first (see `lock.rs`).
        self.write_item(at::JOURNAL + number * 16, Tag::Lock, offset, 0);
        self.set(at::JOURNAL_LEN, number + 1);
        let ours = self.segment.exchange(offset, word, word | (self.index + 1)).is_ok();
        if ours {
            self.collisions.set(self.collisions.get().saturating_sub(1));
        } else {
            self.collisions.set(self.collisions.get() + 2);
            self.set(at::JOURNAL_LEN, number);
        }
        ours
    }

    #[inline(always)]
    fn write_item(&self, place: u64, tag: Tag, offset: u64, value: u64) {
        crash::point();
        self.own(place).store(tag.stored(offset), Ordering::Relaxed);
        crash::point();
        self.own(place + 8).store(value, Ordering::Relaxed);
    }
}

impl Brief<'_> {
    #[inline(always)]
    fn item(&mut self, tag: Tag, offset: u64, value: u64) {
        // Short: it needs no chained block. A bucket has 116 words.
        assert!(self.next < at::JOURNAL + at::JOURNAL_PAIRS * 16, "a brief journal is brief");
        self.seat.write_item(self.next, tag, offset, value);
        self.next += 16;
    }

    /// The words that follow are covered by the lock that LOCK item `number` took.
    #[inline(always)]
    pub fn cover(&mut self, number: u64, lock: u64) {
        self.seat.amend(number, CHANGED);
        self.item(Tag::Cover, lock, 0);
    }

    /// The words that follow are the seat's own.
    #[inline(always)]
    pub fn cover_own(&mut self) {
        self.item(Tag::Cover, 0, 0);
    }

    /// What a word is to become.
    #[inline(always)]
    pub fn word(&mut self, offset: u64, value: u64) {
        self.item(Tag::Word, offset, value);
    }

    /// The commit, and all that follows from it, as [`Seat::commit`].
    #[inline(always)]
    pub fn commit(self) {
        let Brief { seat, locks, next } = self;
        let segment = &*seat.segment;
        let first = at::JOURNAL + locks * 16;
        seat.set(at::JOURNAL_LEN, (next - at::JOURNAL) / 16);
        crash::point();
        seat.own(at::RETIRE_BASE).store(seat.get(at::RETIRED_TAIL), Ordering::Relaxed);
        // SYNC: seat-commit. Who sees COMMITTED sees the whole journal.
        let status = seat.get(at::STATUS);
        seat.set(at::STATUS, status | at::COMMITTED);
        // SYNC: seat-commit. Who sees a word that is written here sees COMMITTED, too.
        segment.release_fence();
        let mut item = first;
        while item < next {
            // Our own notes of a moment ago: what they name was checked when it was found.
            let what = seat.get(item);
            if what >> Tag::OFFSET_BITS == Tag::Word as u64 {
                segment.store(what & Tag::OFFSET_MASK, seat.get(item + 8));
            }
            item += 16;
        }
        let mut item = first;
        while item > at::JOURNAL {
            item -= 16;
            segment.unlock(seat.get(item) & Tag::OFFSET_MASK, seat.get(item + 8) & CHANGED != 0, false);
        }
        seat.set(at::JOURNAL_LEN, 0);
        seat.set(at::STATUS, (status & !3) + 4);
        // Readers of the old journal see the new status before anything of the next one.
        segment.release_fence();
        seat.reclaim_if_due();
    }
}
