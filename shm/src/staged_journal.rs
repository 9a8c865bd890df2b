//! A staged journal: the journal of a short transaction, filled and committed in fewer steps.
//!
//! The items are those of `journal.rs`, and they mean the same to readers and to recovery. Two things differ:
//! - COVER and WORD items become part of the journal all at once, by one store of its length right before the commit.
//! - After the commit the owner writes out what it has just noted. It does not check for each item which lock covers
//!   it, since it still holds all of them. A recoverer runs the journal's own redo, which does check.
//!
//! Why the late store of the length is safe: a reader looks at a journal only when its status is COMMITTED, and before
//! that a recoverer only undoes. Undo needs the LOCK and NEW items alone. Each LOCK item is part of the journal before
//! its lock is taken ([`Seat::lock_now`], [`Seat::lock_as_seen`]), and each NEW item before its node leaves the cache.
//! NEW and OLD items stand between the LOCK items and what is noted here.

use std::sync::atomic::Ordering;

use crate::crash;
use crate::item::{CHANGED, Tag, WHOLE, item_of};
use crate::layout::seat as at;
use crate::lock;
use crate::seat::Seat;
use crate::sync::{self, Flaw};
use polder_base::Fault;

/// The most items that are noted here: one for each word of a bucket, and their COVER items.
const ITEMS_MAX: u64 = 128;

/// Words of a locked bucket, which lie from `at` on. LOCK item number `item` of the journal took the lock at `line`.
#[derive(Clone, Copy)]
pub struct Covered {
    pub item: u64,
    pub line: u64,
    pub at: u64,
}

/// The notes of one short transaction, which holds a few locks.
pub struct StagedJournal<'s> {
    seat: &'s Seat,
    /// Where in the seat the first and the next item lie.
    first: u64,
    next: u64,
}

impl Seat {
    /// Begins the notes of a transaction. Its journal may hold LOCK, NEW and OLD items only, and few enough of them
    /// ([`Seat::has_staging_room`]).
    #[inline(always)]
    pub fn stage(&self) -> StagedJournal<'_> {
        let first = at::JOURNAL + self.journal_len() * 16;
        StagedJournal { seat: self, first, next: first }
    }

    /// Whether a staged journal has room behind the items that there are, and a few more.
    #[inline]
    pub fn has_staging_room(&self) -> bool {
        self.journal_len() + 2 * ITEMS_MAX <= at::JOURNAL_PAIRS
    }

    /// Locks the word at `offset` as the journal's item `number`, its next one, if it is still `word`, which was free. Whatever the word guards has
    /// then not changed since that was read, apart from access clocks.
    #[inline(always)]
    pub fn lock_as_seen(&self, number: u64, offset: u64, word: u64) -> bool {
        if self.journal_len() != number {
            return false;
        }
        // The intent first (see `lock.rs`).
        self.write_item_in(at::JOURNAL + number * 16, Tag::Lock, offset, 0);
        self.set(at::JOURNAL_LEN, number + 1);
        let is_blind = sync::has(Flaw::LocksUnseen);
        let word = if is_blind { self.segment.load(offset) & !lock::OWNER } else { word };
        let ours = self.segment.exchange(offset, word, word | (self.index + 1)).is_ok();
        if ours {
            self.collisions.set(self.collisions.get().saturating_sub(1));
        } else {
            self.collisions.set(self.collisions.get() + 2);
            self.set(at::JOURNAL_LEN, number);
        }
        ours
    }

    /// Commits a transaction whose journal holds LOCK items and at most one NEW item. The covered words become `words`,
    /// except those for which `differs` is false. The node at `old`, which names no other nodes, goes out of use. This
    /// does the same as [`StagedJournal::commit_with`] in fewer steps, since the caller knows what the journal holds.
    ///
    /// # Errors
    /// As [`Seat::commit`].
    #[inline(always)]
    pub fn commit_words(
        &self,
        covered: Covered,
        words: &[u64],
        differs: impl Fn(usize) -> bool,
        old: Option<u64>,
    ) -> Result<(), Fault> {
        if old.is_some() {
            self.reserve_retired(1)?;
        }
        let (segment, len, Covered { item, line, at }) = (&*self.segment, self.journal_len(), covered);
        assert!(
            item < len && len < ITEMS_MAX && (words.len() as u64) < ITEMS_MAX,
            "a few locks, a node and a few words"
        );
        self.amend(item, CHANGED);
        let mut next = at::JOURNAL + len * 16;
        if let Some(old) = old {
            self.write_item_in(next, Tag::Old, old, 0);
            next += 16;
        }
        self.write_item_in(next, Tag::Cover, line, 0);
        for (number, word) in words.iter().enumerate() {
            if differs(number) {
                next += 16;
                self.write_item_in(next, Tag::Word, at + number as u64 * 8, *word);
            }
        }
        self.set(at::JOURNAL_LEN, (next + 16 - at::JOURNAL) / 16);
        #[cfg(debug_assertions)]
        self.assert_marks();
        let (tail, status) = (self.get(at::RETIRED_TAIL), self.get(at::STATUS));
        crash::point();
        self.own(at::RETIRE_BASE).store(tail, Ordering::Relaxed);
        // SYNC: seat-commit. As in `publish`.
        self.set(at::STATUS, status | at::COMMITTED);
        segment.release_fence();
        for (number, word) in words.iter().enumerate() {
            if differs(number) {
                segment.store(at + number as u64 * 8, *word);
            }
        }
        segment.unlock(line, true, false);
        for number in (0..item).rev() {
            // Only `line` has changed.
            segment.unlock(self.get(at::JOURNAL + number * 16) & Tag::OFFSET_MASK, false, false);
        }
        if let Some(old) = old {
            self.write_retired(tail, old, false, self.retirement_epoch());
            self.set(at::RETIRED_TAIL, tail + 1);
        }
        self.end_staged(status);
        Ok(())
    }

    /// The end of a transaction that has been written out.
    #[inline(always)]
    fn end_staged(&self, status: u64) {
        self.set(at::JOURNAL_LEN, 0);
        self.set(at::STATUS, (status & !3) + 4);
        // Readers of the old journal see the new status before anything of the next one.
        self.segment.release_fence();
        self.reclaim_if_due();
    }

    /// Writes the OLD items that lie before `end` into the retired list.
    #[inline]
    fn retire_up_to(&self, end: u64) {
        let (mut item, mut tail) = (at::JOURNAL, self.get(at::RETIRE_BASE));
        let epoch = self.retirement_epoch();
        while item < end {
            if let Some((Tag::Old, offset)) = item_of(self.get(item)) {
                self.write_retired(tail, offset, self.get(item + 8) & WHOLE != 0, epoch);
                tail += 1;
            }
            item += 16;
        }
        self.set(at::RETIRED_TAIL, tail);
    }

    #[inline(always)]
    fn write_item_in(&self, place: u64, tag: Tag, offset: u64, value: u64) {
        crash::point();
        self.own(place).store(tag.stored(offset), Ordering::Relaxed);
        crash::point();
        self.own(place + 8).store(value, Ordering::Relaxed);
    }
}

impl StagedJournal<'_> {
    #[inline(always)]
    fn item(&mut self, tag: Tag, offset: u64, value: u64) {
        // Short: it needs no chained block. A bucket has 116 words.
        assert!(self.next < at::JOURNAL + at::JOURNAL_PAIRS * 16, "a staged journal is short");
        self.seat.write_item_in(self.next, tag, offset, value);
        self.next += 16;
    }

    /// Whether there is room for all words of one more bucket, and a few items more.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.next + (ITEMS_MAX + 2) * 16 <= at::JOURNAL + at::JOURNAL_PAIRS * 16
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

    /// The record of this commit is in the seat's outbox, whose tail becomes `tail` ([`Seat::append_in_place`]).
    #[inline]
    pub fn tail(&mut self, tail: u64) {
        if sync::has(Flaw::MovesTailEarly) {
            return self.seat.set(at::OUTBOX_TAIL, tail);
        }
        self.cover_own();
        self.word(self.seat.base + at::OUTBOX_TAIL, tail);
    }

    /// The commit, and all that follows from it, as [`Seat::commit`].
    #[inline(always)]
    pub fn commit(self) {
        self.publish(0);
    }

    /// As [`StagedJournal::commit`], for a transaction with `olds` OLD items.
    ///
    /// # Errors
    /// As [`Seat::commit`].
    #[inline]
    pub fn commit_with(self, olds: u64) -> Result<(), Fault> {
        if olds > 0 {
            self.seat.reserve_retired(olds)?;
        }
        self.publish(olds);
        Ok(())
    }

    #[inline(always)]
    fn publish(self, olds: u64) {
        let StagedJournal { seat, first, next } = self;
        let segment = &*seat.segment;
        let length = (next - at::JOURNAL) / 16;
        if !sync::has(Flaw::LengthAfterCommit) {
            seat.set(at::JOURNAL_LEN, length);
        }
        #[cfg(debug_assertions)]
        seat.assert_marks();
        crash::point();
        seat.own(at::RETIRE_BASE).store(seat.get(at::RETIRED_TAIL), Ordering::Relaxed);
        // SYNC: seat-commit. A thread that sees COMMITTED sees the whole journal.
        let status = seat.get(at::STATUS);
        seat.set(at::STATUS, status | at::COMMITTED);
        if sync::has(Flaw::LengthAfterCommit) {
            seat.set(at::JOURNAL_LEN, length);
        }
        // SYNC: seat-commit. A thread that sees a word that is written here sees COMMITTED, too.
        segment.release_fence();
        let mut item = first;
        while item < next {
            // This seat's own notes of a moment ago: what they name was checked when it was found (S5).
            let what = seat.get(item);
            if what >> Tag::OFFSET_BITS == Tag::Word as u64 {
                segment.store(what & Tag::OFFSET_MASK, seat.get(item + 8));
            }
            item += 16;
        }
        let mut item = first;
        while item > at::JOURNAL {
            item -= 16;
            let what = seat.get(item);
            if what >> Tag::OFFSET_BITS == Tag::Lock as u64 {
                segment.unlock(what & Tag::OFFSET_MASK, seat.get(item + 8) & CHANGED != 0, false);
            }
        }
        if olds > 0 {
            seat.retire_up_to(first);
        }
        seat.end_staged(status);
    }
}
