//! A brief journal: what a short transaction notes, and its commit, in fewer steps.
//!
//! The items are those of `journal.rs` and mean the same, to readers and to recovery. Only the way there is shorter: items become
//! part of the journal all at once, by one store of its length, right before the commit; and the owner writes out what it knows it has
//! noted, without asking item by item whose lock covers it. A recoverer runs the journal's own redo.
//!
//! Before the commit nobody reads these items (a reader asks for COMMITTED first), so it does not matter when the length is stored, as
//! long as each LOCK item was part of the journal before its lock was taken; [`Seat::lock_now`] does that.

use crate::journal::{CHANGED, Tag};
use crate::layout::seat as at;
use crate::seat::Seat;

/// The notes of one short transaction, which holds a few locks and nothing else.
pub struct Brief<'s> {
    seat: &'s Seat,
    /// LOCK items at the journal's beginning.
    locks: u64,
    len: u64,
}

impl Seat {
    /// Begins the notes of a transaction whose journal holds LOCK items alone.
    #[inline(always)]
    pub fn brief(&self) -> Brief<'_> {
        let locks = self.journal_len();
        Brief { seat: self, locks, len: locks }
    }
}

impl Brief<'_> {
    #[inline(always)]
    fn item(&mut self, tag: Tag, offset: u64, value: u64) {
        // Short: it needs no chained block. A bucket has 116 words.
        assert!(self.len < at::JOURNAL_PAIRS, "a brief journal is brief");
        let item = self.seat.item_at(self.len);
        self.seat.segment.store(item, tag.stored(offset));
        self.seat.segment.store(item + 8, value);
        self.len += 1;
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
        let Brief { seat, locks, len } = self;
        let segment = &*seat.segment;
        seat.set(at::JOURNAL_LEN, len);
        segment.store(seat.base + at::RETIRE_BASE, seat.get(at::RETIRED_TAIL));
        // SYNC: seat-commit. Who sees COMMITTED sees the whole journal.
        let status = seat.get(at::STATUS);
        seat.set(at::STATUS, status | at::COMMITTED);
        // SYNC: seat-commit. Who sees a word that is written here sees COMMITTED, too.
        segment.release_fence();
        for number in locks..len {
            if let Some((Tag::Word, offset, value)) = seat.item(number) {
                segment.store(offset, value);
            }
        }
        for number in (0..locks).rev() {
            if let Some((Tag::Lock, offset, how)) = seat.item(number) {
                segment.unlock(offset, how & CHANGED != 0, false);
            }
        }
        seat.set(at::JOURNAL_LEN, 0);
        seat.set(at::STATUS, (status & !3) + 4);
        // Readers of the old journal see the new status before anything of the next one.
        segment.release_fence();
        seat.reclaim_if_due();
    }
}
