//! The journal: what a seat's transaction has taken, made and means to write.
//!
//! ```text
//! item = two words        first: tag (8 bits) | offset (56 bits)      second
//! LOCK   a lock word is about to be taken                             what its release does: CHANGED, DEATH; WAKE
//! NEW    a node has been made                                         -
//! COVER  the lock that covers the WORDs that follow (0: the seat)     -
//! WORD   what a word is to become                                     the value
//! OLD    a node (WHOLE: and all it names) that goes out of use        flags
//! ```
//!
//! The store that sets the status to COMMITTED is the commit. What recovery does depends on it:
//! - If a thread dies before the commit, recovery undoes. It releases the locks with their words unchanged and returns
//!   the NEW nodes. No WORD has been written yet, so nothing else has changed.
//! - If a thread dies after the commit, recovery redoes. It writes a WORD again only if the seat still owns the lock that
//!   covers it. A lock that was released was released after all WORDs had been written, and other threads may have
//!   written since. It retires OLD nodes from an index that was noted before the commit, so doing that twice has the
//!   same result as doing it once.
//!
//! A live thread runs the same code for both. Locks are released in the reverse of the order in which they were taken.
//!
//! A node that its own transaction replaces again goes back into the cache before the commit ([`Seat::unmake`]). Its NEW
//! item is struck out (a word of 0), and the journal's last item takes its place if that is a NEW item. LOCK items never
//! move, so their indices stay valid.
//!
//! tests/schedules/commits.rs runs commit, redo and rollback, with deaths, in schedules that a checker chooses. The table's
//! tests/schedules/counters.rs runs its readers and writers over them.

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use polder_base::{Fault, Ref};
use smallvec::SmallVec;

use crate::item::{BLOCK_PAIRS, CHANGED, DEATH, Tag, WAKE, WHOLE, item_of};
use crate::layout::{self, ROOTS_AT, ROOTS_BYTES, log, seat as at};
use crate::lock::{self, Locked};
use crate::node::NodeKind;
use crate::seat::{Seat, is_inbox_lock, seat_of};
use crate::segment::offset_of;
use crate::swap_barrier::Changes;
use crate::sync::{self, Flaw};

/// See [`Seat::stand_back`]: a collision counts two, a lock that was free takes one back.
const COLLISIONS: u32 = 8;

/// Where the NEW items of a transaction's journal are. It is local to the thread and is brought up to date by each search.
#[derive(Default)]
pub struct NewItems {
    items: HashMap<u64, u64>,
    /// Items before this one have been looked at.
    seen: u64,
}

impl NewItems {
    /// Forgets all, with the transaction.
    pub fn clear(&mut self) {
        *self = NewItems::default();
    }
}

impl Seat {
    /// Where item `index` lies.
    #[inline(always)]
    pub(crate) fn item_at(&self, index: u64) -> u64 {
        if index < at::JOURNAL_PAIRS {
            self.base + at::JOURNAL + index * 16
        } else {
            self.chained_item_at(index)
        }
    }

    #[cold]
    fn chained_item_at(&self, index: u64) -> u64 {
        let past = index - at::JOURNAL_PAIRS;
        // A damaged length names items that are not there. Any item will do, as long as it lies in the journal (S5).
        let block = self.journal_blocks.borrow().get((past / BLOCK_PAIRS) as usize).copied();
        block.map_or(self.base + at::JOURNAL, |block| block + 16 + past % BLOCK_PAIRS * 16)
    }

    /// Items in the journal.
    #[inline(always)]
    pub fn journal_len(&self) -> u64 {
        self.get(at::JOURNAL_LEN)
    }

    /// Appends an item.
    ///
    /// # Errors
    /// [`Fault::Full`] when there is no memory for the next block of a large journal.
    #[inline]
    pub fn note(&self, tag: Tag, offset: u64, value: u64) -> Result<(), Fault> {
        let len = self.ready_item()?;
        self.write_item(len, tag, offset, value);
        Ok(())
    }

    /// Writes the next item, `len`, for which there is a place.
    #[inline(always)]
    pub(crate) fn write_item(&self, len: u64, tag: Tag, offset: u64, value: u64) {
        let item = self.item_at(len);
        self.segment.store(item, tag.stored(offset));
        self.segment.store(item + 8, value);
        self.set(at::JOURNAL_LEN, len + 1);
    }

    /// Makes sure that there is a place for the next item, and returns its index.
    ///
    /// # Errors
    /// As [`Seat::note`].
    #[inline]
    pub(crate) fn ready_item(&self) -> Result<u64, Fault> {
        let len = self.journal_len();
        if len >= at::JOURNAL_PAIRS {
            self.extend_journal(len)?;
        }
        Ok(len)
    }

    /// How many items the journal's blocks have room for.
    fn journal_room(&self) -> u64 {
        at::JOURNAL_PAIRS + self.journal_blocks.borrow().len() as u64 * BLOCK_PAIRS
    }

    #[cold]
    fn extend_journal(&self, len: u64) -> Result<(), Fault> {
        let room = self.journal_room();
        if len < room {
            return Ok(());
        }
        if len > room {
            // An item written now would take the place of another one.
            return Err(Fault::Damaged { what: "a journal's length" });
        }
        let link =
            self.journal_blocks.borrow().last().map_or(self.base + at::JOURNAL_NEXT, |block| block + 8);
        let block = self.chain_block(NodeKind::Journal, link)?;
        self.journal_blocks.borrow_mut().push(block);
        Ok(())
    }

    /// Changes the second word of item `index`.
    #[inline(always)]
    pub fn amend(&self, index: u64, value: u64) {
        self.segment.store(self.item_at(index) + 8, value);
    }

    /// Item `index`: its tag, offset and second word.
    #[inline(always)]
    pub fn item(&self, index: u64) -> Option<(Tag, u64, u64)> {
        self.item_in(self.item_at(index))
    }

    /// Shows the first `len` items in their order: less work than finding the place of each.
    #[inline(always)]
    fn each_item(&self, len: u64, mut visit: impl FnMut(Tag, u64, u64)) {
        let (blocks, mut left) = (self.journal_blocks.borrow(), len);
        let inline = (self.base + at::JOURNAL, at::JOURNAL_PAIRS);
        for (begin, pairs) in
            std::iter::once(inline).chain(blocks.iter().map(|block| (block + 16, BLOCK_PAIRS)))
        {
            for number in 0..pairs.min(left) {
                if let Some((tag, offset, value)) = self.item_in(begin + number * 16) {
                    visit(tag, offset, value);
                }
            }
            left = left.saturating_sub(pairs);
        }
    }

    /// The item that lies at `place`.
    #[inline(always)]
    fn item_in(&self, place: u64) -> Option<(Tag, u64, u64)> {
        let (tag, offset) = item_of(self.segment.load(place))?;
        if offset % 8 != 0 || offset >= self.segment.geometry().ceiling {
            return None;
        }
        Some((tag, offset, self.segment.load(place + 8)))
    }

    /// Locks the word at `offset`, and waits for it until `deadline`, or without a limit. If that succeeds, its LOCK item is
    /// the journal's last one; otherwise the item is removed again.
    ///
    /// # Errors
    /// As [`Seat::note`].
    #[inline]
    pub fn lock(&self, offset: u64, deadline: Option<Instant>) -> Result<Locked, Fault> {
        self.note(Tag::Lock, offset, 0)?;
        let outcome = match self.segment.lock_try(offset, self.index) {
            Locked::Busy => self.lock_slowly(offset, deadline),
            outcome => outcome,
        };
        if !matches!(outcome, Locked::Ours(_)) {
            self.set(at::JOURNAL_LEN, self.journal_len() - 1);
        }
        Ok(outcome)
    }

    #[cold]
    fn lock_slowly(&self, offset: u64, deadline: Option<Instant>) -> Locked {
        self.add(at::COUNTERS + 8 * crate::PARKS, 1);
        self.segment.lock_wait(offset, self.index, deadline, &mut || self.segment.probe(offset))
    }

    /// Locks the word at `offset` if that takes no waiting.
    ///
    /// # Errors
    /// As [`Seat::note`].
    #[inline]
    pub fn lock_now(&self, offset: u64) -> Result<Locked, Fault> {
        self.note(Tag::Lock, offset, 0)?;
        let outcome = self.segment.lock_try(offset, self.index);
        if matches!(outcome, Locked::Ours(_)) {
            self.collisions.set(self.collisions.get().saturating_sub(1));
        } else {
            self.collisions.set(self.collisions.get() + 2);
            self.set(at::JOURNAL_LEN, self.journal_len() - 1);
        }
        Ok(outcome)
    }

    /// Takes back the collision that the last [`Seat::lock_now`] has counted: the caller is going to meet the same one again.
    pub fn forget_collision(&self) {
        self.collisions.set(self.collisions.get().saturating_sub(2));
    }

    /// To be called before the thread waits for a lock. Two threads that change one word all the time take its cache line from each
    /// other, and together reach half the speed of one alone. So a thread that has collided several times in a row sleeps for a
    /// moment, and the other one runs undisturbed.
    pub fn stand_back(&self, deadline: Option<Instant>) {
        // Never while this thread holds a lock.
        if self.collisions.get() >= COLLISIONS && self.journal_len() == 0 {
            self.collisions.set(0);
            sync::sleep(deadline.map_or(lock::NAP, |deadline| {
                lock::NAP.min(deadline.saturating_duration_since(sync::now()))
            }));
        }
    }

    /// Adds a lock that this seat owns from the start, in a node that no other thread has seen yet.
    ///
    /// # Errors
    /// As [`Seat::note`].
    pub fn lock_newborn(&self, offset: u64) -> Result<(), Fault> {
        self.note(Tag::Lock, offset, CHANGED)?;
        self.segment.store(offset, lock::born_locked(self.index));
        Ok(())
    }

    /// The commit: one store. From then on everything that the journal notes is true; what follows only writes it out.
    ///
    /// # Errors
    /// [`Fault::Full`] when the retired list finds no room for the OLD nodes; nothing has happened then.
    #[inline]
    pub fn commit(&self, olds: u64) -> Result<(), Fault> {
        if olds > 0 {
            self.reserve_retired(olds)?;
        }
        #[cfg(debug_assertions)]
        self.assert_marks();
        self.segment.store(self.base + at::RETIRE_BASE, self.get(at::RETIRED_TAIL));
        // SYNC: seat-commit. A thread that sees COMMITTED sees the whole journal.
        self.set(at::STATUS, self.get(at::STATUS) | at::COMMITTED);
        self.redo_with(olds > 0);
        Ok(())
    }

    /// Checks a rule on which all readers rely that take no lock: the release of each lock whose words the transaction changes adds a version
    /// or marks the lock dead. A lock that is not marked would look to them as if nothing had happened.
    #[cfg(debug_assertions)]
    pub(crate) fn assert_marks(&self) {
        thread_local! {
            /// Locks that are marked and locks whose words change. Kept, so that a commit takes nothing from the heap in these builds either.
            static SETS: Cell<[HashSet<u64>; 2]> = Cell::default();
        }
        // A thread commits at its end, too, when the sets may be gone.
        let [mut marked, mut changed] = SETS.try_with(Cell::take).unwrap_or_default();
        let mut cover = 0;
        self.each_item(self.journal_len(), |tag, offset, value| match tag {
            Tag::Lock if value & (CHANGED | DEATH) != 0 => _ = marked.insert(offset),
            Tag::Cover => cover = offset,
            Tag::Word if cover != 0 && self.segment.load(offset) != value => _ = changed.insert(cover),
            _ => {}
        });
        assert!(
            changed.is_subset(&marked),
            "words change under locks that are not marked: {changed:x?}, marked are {marked:x?}"
        );
        marked.clear();
        changed.clear();
        let _ = SETS.try_with(|sets| sets.set([marked, changed]));
    }

    /// Writes a committed journal out: words, locks, retired nodes. Run by its owner or by a recoverer, any number of times.
    pub(crate) fn redo(&self) {
        self.redo_with(true);
    }

    #[inline]
    fn redo_with(&self, olds: bool) {
        // SYNC: seat-commit. A thread that sees a word that is written here, by the owner or a recoverer, sees COMMITTED, too.
        self.segment.release_fence();
        let len = self.journal_len();
        let (mut covered, mut locks) = (true, SmallVec::<[(u64, u64); 8]>::new());
        self.each_item(len, |tag, offset, value| match tag {
            Tag::Cover => {
                covered = offset == 0 || self.still_owns(offset) || sync::has(Flaw::WritesUncovered)
            }
            // SYNC: inbox. The tail of an inbox is the last of its WORDs, so a thread that sees it sees the link to its block, too.
            Tag::Word if covered => self.segment.publish(offset, value),
            Tag::Lock => locks.push((offset, value)),
            _ => {}
        });
        if self.release_locks(&locks) {
            self.ring_bells(len);
        }
        if olds {
            self.retire_old(len);
        }
        self.forget_journal();
        self.set(at::STATUS, (self.get(at::STATUS) & !3) + 4);
        // Readers of the old journal see the new status before anything of the next one.
        self.segment.release_fence();
        self.reclaim_if_due();
    }

    /// Strikes out the items that no writer made (S5): a recoverer writes where a journal of this seat may write, and nowhere else.
    pub(crate) fn check_journal(&self) {
        let geometry = self.segment.geometry();
        let shared =
            |offset: u64| (ROOTS_AT..ROOTS_AT + ROOTS_BYTES).contains(&offset) || offset >= geometry.slabs_at;
        let tallies = self.base + at::TALLIES..self.base + at::CACHE_COUNTS;
        let ends = [at::INBOX_HEAD, at::INBOX_FIRST, at::OUTBOX_TAIL, at::OUTBOX_LAST, at::OUTBOX_FIRST];
        let own = |offset: u64| {
            tallies.contains(&offset)
                || ends.iter().any(|word| offset == self.base + word)
                || self.is_outbox_link(offset)
        };
        let mut cover = 0;
        for index in 0..self.journal_len() {
            let right = match self.item(index) {
                Some((Tag::Lock, offset, _)) => shared(offset) || is_inbox_lock(offset),
                Some((Tag::Cover, offset, _)) => {
                    cover = offset;
                    offset == 0 || shared(offset) || is_inbox_lock(offset)
                }
                Some((Tag::Word, offset, _)) => match cover {
                    0 => own(offset),
                    log::MERGE_LOCK => shared(offset) || layout::is_of_merger(offset),
                    cover if is_inbox_lock(cover) => {
                        shared(offset) || (cover + 8..cover + 64).contains(&offset)
                    }
                    _ => shared(offset),
                },
                Some((Tag::New | Tag::Old, offset, _)) => self.segment.node_class(offset).is_some(),
                None => false,
            };
            if !right {
                self.segment.store(self.item_at(index), 0);
            }
        }
    }

    /// Whether this seat has the lock at `offset`.
    #[inline(always)]
    fn still_owns(&self, offset: u64) -> bool {
        lock::owner(self.segment.load(offset)) == Some(self.index)
    }

    /// Releases the locks that this seat still owns, in reverse order. Returns whether inboxes are among them, whose owners are to be woken.
    fn release_locks(&self, locks: &[(u64, u64)]) -> bool {
        let mut wakes = false;
        for (offset, how) in locks.iter().rev() {
            wakes |= how & WAKE != 0;
            if self.still_owns(*offset) {
                self.segment.unlock(*offset, how & CHANGED != 0, how & DEATH != 0);
            }
        }
        wakes
    }

    /// Wakes the owners of the inboxes that have got messages. If this thread dies before it empties its journal, the recoverer of
    /// its seat finds the same items and wakes them.
    fn ring_bells(&self, len: u64) {
        for index in 0..len {
            if let Some((Tag::Lock, offset, how)) = self.item(index)
                && how & WAKE != 0
                && is_inbox_lock(offset)
            {
                self.segment.wake(seat_of(offset));
            }
        }
    }

    fn retire_old(&self, len: u64) {
        let mut tail = self.get(at::RETIRE_BASE);
        let epoch = self.retirement_epoch();
        let capacity = self.retired_capacity();
        self.each_item(len, |tag, offset, flags| {
            if tag == Tag::Old && tail < capacity {
                self.write_retired(tail, offset, flags & WHOLE != 0, epoch);
                tail += 1;
            }
        });
        // The tail never moves back. If the owner died while it emptied the journal, it had retired everything before, and
        // its items are gone now.
        if tail > self.get(at::RETIRED_TAIL) {
            self.set(at::RETIRED_TAIL, tail);
        }
    }

    /// Undoes a journal that was not committed, from its end, and drops each item once it is undone.
    ///
    /// All locks are released first, which is safe: before the commit nothing that they cover has been written.
    pub fn rollback(&self) {
        if self.get(at::STATUS) & 3 == at::COMMITTED {
            // A panic has interrupted the writing out. A committed journal cannot be undone, only completed.
            return self.redo();
        }
        // A damaged length could make this walk over items that do not exist for an hour (S5).
        let len = self.journal_len().min(self.journal_room());
        self.release_unchanged(len);
        for index in (0..len).rev() {
            if let Some((Tag::New, offset, _)) = self.item(index) {
                self.take_back(offset);
            }
            self.set(at::JOURNAL_LEN, index);
        }
        self.forget_journal();
    }

    /// Whether this transaction has made the node and not given it back since.
    pub fn has_made(&self, node: Ref, known: &mut NewItems) -> bool {
        let len = self.journal_len();
        for index in known.seen..len {
            if let Some((Tag::New, offset, _)) = self.item(index) {
                known.items.insert(offset, index);
            }
        }
        known.seen = len;
        known.items.contains_key(&offset_of(node))
    }

    /// Gives back, before the commit, a node that this transaction has made and that nothing refers to any more. No other thread has
    /// ever seen it. For a node that the transaction has not made, it does nothing and returns false.
    ///
    /// The node enters the cache first and leaves the journal second, as everywhere (`memory.rs`). A death in between leaves it in both,
    /// as the newest of its cache. A death while the last item moves leaves that item twice in the journal. In both cases
    /// `settle_new` drops one of the two.
    pub fn unmake(&self, node: Ref, known: &mut NewItems) -> bool {
        let offset = offset_of(node);
        let Some(class) = self.segment.node_class(offset).filter(|_| self.has_made(node, known)) else {
            return false;
        };
        let Some(gap) = known.items.remove(&offset) else { return false };
        self.push(class, offset);
        self.segment.publish(self.item_at(gap), 0);
        self.close_gap(gap, known);
        true
    }

    /// Shortens the journal, whose item `gap` has been struck out, as far as its last items are NEW ones or struck out, too.
    fn close_gap(&self, gap: u64, known: &mut NewItems) {
        while let Some(last) = self.journal_len().checked_sub(1) {
            let is_struck = self.segment.load(self.item_at(last)) == 0;
            if !is_struck {
                let (Some((Tag::New, offset, value)), true) = (self.item(last), gap < last) else { break };
                let place = self.item_at(gap);
                self.segment.store(place + 8, value);
                self.segment.publish(place, Tag::New.stored(offset));
                known.items.insert(offset, gap);
            }
            self.set(at::JOURNAL_LEN, last);
            if !is_struck || last <= gap {
                break;
            }
        }
        known.seen = known.seen.min(self.journal_len());
    }

    /// Leaves each node in one place that a death has left in two, in a journal that is not committed. A node that was being made or
    /// given back may also be the newest of its cache; a node whose item was moving may have two items. This must run before anything
    /// else enters a cache, since it looks at the newest nodes only.
    pub(crate) fn settle_new(&self) {
        if self.journal_len() == 0 || self.get(at::STATUS) & 3 == at::COMMITTED {
            return;
        }
        let (tops, mut seen) = (self.cache_tops(), HashSet::new());
        for index in 0..self.journal_len() {
            if let Some((Tag::New, offset, _)) = self.item(index)
                && (tops.contains(&offset) || self.has_just_retired(offset) || !seen.insert(offset))
            {
                self.segment.store(self.item_at(index), 0);
            }
        }
    }

    fn release_unchanged(&self, len: u64) {
        for index in (0..len).rev() {
            if let Some((Tag::Lock, offset, _)) = self.item(index)
                && self.still_owns(offset)
            {
                self.segment.unlock(offset, false, false);
            }
        }
    }

    /// Empties the journal and gives its blocks back.
    fn forget_journal(&self) {
        self.set(at::JOURNAL_LEN, 0);
        self.leave_commit();
        if self.get(at::SWAPS) | self.get(at::FLUSHES) != 0 {
            self.announce_changes(Changes::default());
        }
        if self.get(at::JOURNAL_NEXT) != 0 {
            self.drop_journal_blocks();
        }
    }

    #[cold]
    fn drop_journal_blocks(&self) {
        loop {
            let Some(&first) = self.journal_blocks.borrow().first() else { break };
            let next = self.segment.load(first + 8);
            self.unchain(first, self.base + at::JOURNAL_NEXT, next);
            self.journal_blocks.borrow_mut().remove(0);
        }
    }

    /// Notes that the node goes out of use with this transaction; `whole`: with everything that it names.
    ///
    /// # Errors
    /// As [`Seat::note`].
    pub fn note_old(&self, node: Ref, whole: bool) -> Result<(), Fault> {
        self.note(Tag::Old, offset_of(node), if whole { WHOLE } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Segment, SegmentName, SegmentOptions};

    /// Changes a word under a lock, which is marked or not.
    fn change(name: &SegmentName, staged: bool, mark: u64) -> bool {
        let options = SegmentOptions { ceiling: 256 << 20, ..SegmentOptions::default() };
        let segment = Segment::create(name, &options).expect("a segment");
        let commit = || {
            let seat = segment.seat().expect("a seat");
            let lock = ROOTS_AT;
            assert!(matches!(seat.lock(lock, None), Ok(Locked::Ours(_))));
            if staged {
                let mut notes = seat.stage();
                notes.cover(0, lock);
                notes.word(lock + 8, 1);
                seat.amend(0, mark);
                notes.commit();
            } else {
                seat.amend(0, mark);
                seat.note(Tag::Cover, lock, 0).expect("room");
                seat.note(Tag::Word, lock + 8, 1).expect("room");
                seat.commit(0).expect("room");
            }
        };
        let is_committed = std::thread::scope(|scope| scope.spawn(commit).join().is_ok());
        Segment::remove(name).expect("it is there");
        is_committed && segment.load(ROOTS_AT + 8) == 1
    }

    #[test]
    fn a_commit_that_changes_words_under_a_lock_that_it_does_not_mark_is_refused() {
        let name: SegmentName =
            format!("shm:polder-test-marks-{}", std::process::id()).parse().expect("a name");
        for staged in [false, true] {
            assert!(change(&name, staged, CHANGED), "marked, staged: {staged}");
            assert!(!cfg!(debug_assertions) || !change(&name, staged, 0), "not marked, staged: {staged}");
        }
    }
}
