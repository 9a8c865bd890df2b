//! The inbox of a seat: messages from any transaction of any process to one thread.
//!
//! ```text
//!            head (its owner's)                 tail (moved by commits)
//!              v                                  v
//!   [ block 0 | read ... ] -> [ block 1 ] -> [ block 2 ...  | room ]      blocks: nodes of the largest class, one chain
//!     FIRST                                    LAST
//!
//!   block    node header (8) | next block (8) | a stream of words
//!   message  payload bytes (8) | payload, filled up to whole words; it may go on in the next block
//! ```
//!
//! A sender is a transaction. It locks the inboxes that it writes to, after all other locks and by
//! the number of the seat (T2). It fills the room behind the tail, where no thread reads, and notes
//! what tail, LAST and the link of the last block are to become. So its commit delivers all
//! messages of the transaction or none, once, in one order for all receivers. What a death leaves
//! behind is undone or done by the usual recovery. There are no half-filled slots, no copies to be
//! told apart and no counts of references.
//!
//! (A ring of references set by CAS would not do. If the sender died between that CAS and the note
//! that it was done, it would not be known whether the message went out, and the node might be gone
//! by then.)
//!
//! tests/schedules/inboxes.rs runs this code, with deaths, in schedules that a checker chooses.
//!
//! The owner takes no lock: it reads up to the tail and moves the head. A slow or stopped owner
//! holds up no transaction: from INBOX_LIMIT bytes on messages are counted as lost instead, and the
//! owner finds out by that count. A sender learns when an inbox is more than half full
//! ([`Seat::take_pressed`]): it may wait a while before it sends more, outside of any transaction.
//!
//! Invariants:
//! - **I1** Between head and tail nothing is ever written; behind the tail only the lock's owner writes.
//! - **I2** While an inbox is open, its owner alone retires blocks, and only those that another one
//!   follows. The last block goes when the inbox ends, which takes the inbox's lock. A sender's pin
//!   keeps the last block that it saw, so the redo of a dead sender writes into no other node.
//! - **I3** An inbox belongs to one life of its seat: a message to another life is dropped.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use polder_base::Fault;
use smallvec::SmallVec;

use crate::class::{CLASSES, NODE_MAX};
use crate::item::{CHANGED, Tag, WAKE};
use crate::layout::seat as at;
use crate::lock::{self, Locked};
use crate::node::{NodeHeader, NodeKind};
use crate::seat::{Pressed, Seat, seat_of};
use crate::segment::{Segment, offset_of, ref_to};
use crate::sync;

/// Where a block's words begin, and how many bytes of them there are.
const BLOCK_HEAD: u64 = 16;
const BLOCK_BYTES: u64 = NODE_MAX as u64 - BLOCK_HEAD;
const NEXT: u64 = 8;
/// How many bytes may wait even in a full segment. Beyond that, unread messages would take memory
/// that others need.
const FREELY: u64 = 1 << 20;
/// How long closing an inbox waits for a sender that holds it and may be stopped. It is tried again
/// later.
const PATIENCE: Duration = Duration::from_millis(2);
/// How long opening one waits.
const OPEN_PATIENCE: Duration = Duration::from_secs(2);

impl Segment {
    /// The lock of a seat's inbox.
    pub fn inbox_lock(&self, index: u64) -> u64 {
        self.seat_at(index) + at::INBOX_LOCK
    }

    /// In which life of a seat its inbox was opened; 0 when it has none.
    pub fn inbox_life(&self, index: u64) -> u64 {
        self.load(self.seat_at(index) + at::INBOX_LIFE)
    }
}

impl Segment {
    /// Bytes that a sender lets wait in an inbox.
    fn inbox_room(&self, base: u64, waiting: u64) -> u64 {
        let most = self.load(base + at::INBOX_LIMIT);
        if waiting > FREELY / 2 && self.is_nearly_full() { most.min(FREELY) } else { most }
    }

    /// How far the owner of an inbox has read, where its life goes on and the inbox is more than half full: then a sender does well to wait.
    pub fn read_under_pressure(&self, index: u64, life: u64) -> Option<u64> {
        let base = self.seat_at(index);
        let head = self.load(base + at::INBOX_HEAD);
        let waiting = self.observe(base + at::INBOX_TAIL).saturating_sub(head);
        let pressed = self.inbox_life(index) == life && waiting > self.inbox_room(base, waiting) / 2;
        (pressed && self.lives(index, life)).then_some(head)
    }
}

impl Seat {
    /// The fullest of those inboxes that this thread has filled to more than the half since it last asked.
    #[inline]
    pub fn take_pressed(&self) -> Option<Pressed> {
        self.pressed.take()
    }

    /// Opens the inbox, for as long as this thread has the seat; at most `limit` bytes wait in it.
    ///
    /// # Errors
    /// [`Fault::Full`]; [`Fault::System`] when a stopped thread holds what an earlier life has
    /// left.
    pub fn open_inbox(&self, limit: u64) -> Result<(), Fault> {
        if self.get(at::INBOX_LIFE) == self.life() {
            return Ok(());
        }
        let deadline = sync::now() + OPEN_PATIENCE;
        if !self.end_inbox(deadline) {
            return Err(Fault::System(
                "the inbox of this thread's seat is held by a process that is stopped: let it go on or end it".into(),
            ));
        }
        self.inbox_limit.set(limit);
        let made = self.begin_inbox(deadline, limit);
        if made.is_err() {
            self.rollback();
        }
        made
    }

    fn begin_inbox(&self, deadline: Instant, limit: u64) -> Result<(), Fault> {
        let lock = self.base + at::INBOX_LOCK;
        let Locked::Ours(_) = self.lock(lock, Some(deadline))? else {
            return Err(Fault::Damaged { what: "the lock of an inbox" });
        };
        let item = self.journal_len() - 1;
        let block = self.make_block()?;
        self.amend(item, CHANGED);
        self.note(Tag::Cover, lock, 0)?;
        for (word, value) in
            [(at::INBOX_LAST, block), (at::INBOX_LIMIT, limit), (at::INBOX_LIFE, self.life())]
        {
            self.note(Tag::Word, self.base + word, value)?;
        }
        self.note(Tag::Cover, 0, 0)?;
        self.note(Tag::Word, self.base + at::INBOX_FIRST, block)?;
        self.inbox_passed.set(0);
        // The count of messages that an earlier life of the seat has lost no longer matters.
        self.lost_seen.set(0);
        self.commit(0)
    }

    fn make_block(&self) -> Result<u64, Fault> {
        let block = offset_of(self.make(NodeKind::Inbox, NODE_MAX - 8)?);
        self.segment.store(block + NEXT, 0);
        Ok(block)
    }

    /// Ends the inbox, as its owner or for a dead one. If a sender holds it, it is ended later: by
    /// the maintenance of the seat, or by the next owner.
    pub fn close_inbox(&self) {
        self.end_inbox(sync::now() + PATIENCE);
    }

    fn end_inbox(&self, deadline: Instant) -> bool {
        if self.get(at::INBOX_FIRST) == 0 && self.get(at::INBOX_LIFE) == 0 {
            return true;
        }
        let ended = self.drop_inbox(deadline);
        if !matches!(ended, Ok(true)) {
            self.rollback();
        }
        matches!(ended, Ok(true))
    }

    fn drop_inbox(&self, deadline: Instant) -> Result<bool, Fault> {
        let lock = self.base + at::INBOX_LOCK;
        let Locked::Ours(_) = self.lock(lock, Some(deadline))? else { return Ok(false) };
        self.amend(self.journal_len() - 1, CHANGED);
        let mut block = self.get(at::INBOX_FIRST);
        // A chain that comes back to where it was is damaged (S5): no node goes twice.
        let mut seen = HashSet::new();
        while self.is_block(block) && seen.insert(block) {
            self.note_old(ref_to(block), false)?;
            block = self.segment.load(block + NEXT);
        }
        self.note(Tag::Cover, lock, 0)?;
        for word in [at::INBOX_LIFE, at::INBOX_TAIL, at::INBOX_LAST, at::INBOX_LOST] {
            self.note(Tag::Word, self.base + word, 0)?;
        }
        self.note(Tag::Cover, 0, 0)?;
        for word in [at::INBOX_FIRST, at::INBOX_HEAD] {
            self.note(Tag::Word, self.base + word, 0)?;
        }
        self.commit(seen.len() as u64)?;
        Ok(true)
    }

    fn is_block(&self, block: u64) -> bool {
        self.segment.node_class(block) == Some(CLASSES - 1)
            && NodeHeader(self.segment.load(block)).kind() == Some(NodeKind::Inbox)
    }

    fn next_block(&self, block: u64) -> Option<u64> {
        Some(self.segment.observe(block + NEXT)).filter(|next| self.is_block(*next))
    }

    /// Whether the inbox has something in it. Two loads.
    #[inline]
    pub fn has_messages(&self) -> bool {
        self.segment.load(self.base + at::INBOX_TAIL) != self.get(at::INBOX_HEAD)
    }

    /// Where the inbox begins, and where it ends: every message that is sent from now on lies behind that.
    #[inline]
    pub fn unread(&self) -> std::ops::Range<u64> {
        self.get(at::INBOX_HEAD)..self.segment.observe(self.base + at::INBOX_TAIL)
    }

    /// Messages that did not fit, ever.
    #[inline]
    pub fn lost_mail(&self) -> u64 {
        self.get(at::INBOX_LOST)
    }

    /// Takes the next message into `into`, in place of what is there. Returns false if there is
    /// none. Not inside a transaction.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the inbox makes no sense: it is made anew then, and what was in it counts as lost.
    pub fn receive(&self, into: &mut Vec<u8>) -> Result<bool, Fault> {
        let tail = self.segment.observe(self.base + at::INBOX_TAIL);
        let head = self.get(at::INBOX_HEAD);
        if head == tail {
            return Ok(false);
        }
        into.clear();
        let Some(end) = self.receive_words(head, tail, into) else {
            self.renew_inbox(tail);
            return Err(Fault::Damaged { what: "an inbox" });
        };
        self.set(at::INBOX_HEAD, end);
        self.drop_read_blocks(end / BLOCK_BYTES);
        Ok(true)
    }

    /// Reads the message at `head`. Returns where it ends. `None`: that cannot be one (S5).
    fn receive_words(&self, head: u64, tail: u64, into: &mut Vec<u8>) -> Option<u64> {
        // No more than this is ever let in, so whatever the words say, no more is walked through or
        // copied.
        if !head.is_multiple_of(8)
            || !tail.is_multiple_of(8)
            || tail.checked_sub(head)? > self.inbox_limit.get()
        {
            return None;
        }
        let mut block = Some(self.get(at::INBOX_FIRST)).filter(|first| self.is_block(*first))?;
        let behind = (head / BLOCK_BYTES).checked_sub(self.inbox_passed.get())?;
        for _ in 0..behind {
            block = self.next_block(block)?;
        }
        let length = self.segment.load(block + BLOCK_HEAD + head % BLOCK_BYTES);
        let mut at = head + 8;
        if length > tail - at {
            return None;
        }
        let mut left = length as usize;
        while left > 0 {
            let inside = at % BLOCK_BYTES;
            if inside == 0 {
                block = self.next_block(block)?;
            }
            let here = left.min((BLOCK_BYTES - inside) as usize);
            // SAFETY: I1, no thread writes between head and tail; S5, the block is a node of the
            // largest class and the range lies inside.
            into.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.segment.address(block + BLOCK_HEAD + inside), here)
            });
            left -= here;
            at += here as u64;
        }
        Some(at.next_multiple_of(8))
    }

    /// Retires the blocks before block `number`, as far as others follow (I2). What cannot go now, since there is no room to note it,
    /// goes with the next message.
    fn drop_read_blocks(&self, number: u64) {
        while self.inbox_passed.get() < number {
            let first = self.get(at::INBOX_FIRST);
            let Some(next) = self.next_block(first) else { return };
            if self.drop_block(first, next).is_err() {
                return self.rollback();
            }
            self.inbox_passed.set(self.inbox_passed.get() + 1);
        }
    }

    fn drop_block(&self, first: u64, next: u64) -> Result<(), Fault> {
        self.note_old(ref_to(first), false)?;
        self.note(Tag::Cover, 0, 0)?;
        self.note(Tag::Word, self.base + at::INBOX_FIRST, next)?;
        self.commit(1)
    }

    /// Has a look at what senders need to find right, which reading does not show, and makes a damaged inbox anew (S5). To be called now and then.
    pub fn mend_inbox(&self) {
        let lock = || self.segment.observe(self.base + at::INBOX_LOCK);
        let (limit, before) = (self.inbox_limit.get(), lock());
        let last = self.get(at::INBOX_LAST);
        let (head, tail) = (self.get(at::INBOX_HEAD), self.segment.observe(self.base + at::INBOX_TAIL));
        let sound = self.get(at::INBOX_LIFE) == self.life()
            && self.get(at::INBOX_LIMIT) == limit
            && self.leads_to(last)
            // An owner that has read everything has one block left, if the others could be retired.
            && (head != tail || last == self.get(at::INBOX_FIRST) || self.inbox_passed.get() < head / BLOCK_BYTES);
        self.segment.acquire_fence();
        if limit != 0 && !sound && lock::owner(before).is_none() && lock() == before {
            self.renew_inbox(self.segment.observe(self.base + at::INBOX_TAIL));
        }
    }

    /// Whether the chain from the first block on comes to this one, which need not be so where the first is a block of an earlier inbox.
    fn leads_to(&self, last: u64) -> bool {
        let mut block = Some(self.get(at::INBOX_FIRST)).filter(|first| self.is_block(*first));
        for _ in 0..self.inbox_limit.get() / BLOCK_BYTES + 2 {
            match block {
                Some(found) if found == last => return true,
                Some(found) => block = self.next_block(found),
                None => return false,
            }
        }
        false
    }

    /// Ends a damaged inbox and opens another one; if a sender holds it, what is in it is left out at least.
    fn renew_inbox(&self, tail: u64) {
        let deadline = sync::now() + PATIENCE;
        if !self.end_inbox(deadline) {
            self.set(at::INBOX_HEAD, tail);
        } else if self.begin_inbox(deadline, self.inbox_limit.get()).is_err() {
            self.rollback();
        }
        // No count of lost messages has this value, so the owner finds out at its next look.
        self.lost_seen.set(u64::MAX);
    }

    /// Begins to write to the inbox of seat `to`, whose lock LOCK item `item` has just taken.
    /// Returns `None` if that life of the seat is over. The calling seat is pinned.
    pub fn posting(&self, to: u64, life: u64, item: u64) -> Option<Posting<'_>> {
        let base = self.segment.seat_at(to);
        let word = |word: u64| self.segment.load(base + word);
        if word(at::INBOX_LIFE) != life || !self.segment.lives(to, life) {
            return None;
        }
        let last = word(at::INBOX_LAST);
        // I2: the last block stays the last one under our lock; the pin must reach to its birth.
        while !self.covers_now() {}
        let (tail, lost) = (word(at::INBOX_TAIL), word(at::INBOX_LOST));
        // More than fits, or half a word, is damage (S5), which the owner meets.
        let sound = tail.is_multiple_of(8)
            && tail.wrapping_sub(word(at::INBOX_HEAD)) <= word(at::INBOX_LIMIT)
            && self.is_block(last);
        sound.then_some(Posting {
            seat: self,
            base,
            item,
            tail,
            last,
            lost,
            old_last: last,
            link: 0,
            olds: 0,
        })
    }
}

/// An inbox that a transaction has locked and writes to.
pub struct Posting<'s> {
    seat: &'s Seat,
    base: u64,
    item: u64,
    tail: u64,
    last: u64,
    lost: u64,
    /// The last block as others see it, and what follows it (0: nothing yet).
    old_last: u64,
    link: u64,
    olds: u64,
}

impl Posting<'_> {
    /// Appends a message; one for which there is no room is counted as lost.
    ///
    /// # Errors
    /// [`Fault::Full`] when the journal finds no room; nothing has happened then that the transaction's end does not undo.
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<(), Fault> {
        let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let end = self.tail.saturating_add(8 + length.next_multiple_of(8));
        let segment = &self.seat.segment;
        let waiting = end.saturating_sub(segment.load(self.base + at::INBOX_HEAD));
        let most = segment.load(self.base + at::INBOX_LIMIT);
        if waiting > most || waiting > most.min(FREELY) && self.needs_blocks(end) && segment.is_nearly_full()
        {
            self.lost += 1;
            return Ok(());
        }
        let Some(blocks) = self.blocks_until(end)? else {
            self.lost += 1;
            return Ok(());
        };
        let mut blocks = blocks.into_iter();
        self.put(&length.to_le_bytes(), &mut blocks);
        parts.iter().for_each(|part| self.put(part, &mut blocks));
        // Filled up to a whole word, which never goes beyond the block.
        self.tail = end;
        Ok(())
    }

    /// How many blocks there have been until the tail.
    fn blocks(&self) -> u64 {
        self.tail.max(1).div_ceil(BLOCK_BYTES)
    }

    fn needs_blocks(&self, end: u64) -> bool {
        end.div_ceil(BLOCK_BYTES) > self.blocks()
    }

    /// The blocks that a message needs which ends at `end`; `None` when there is no memory for them.
    fn blocks_until(&mut self, end: u64) -> Result<Option<SmallVec<[u64; 2]>>, Fault> {
        let mut blocks = SmallVec::new();
        for _ in self.blocks()..end.div_ceil(BLOCK_BYTES) {
            match self.seat.make_block() {
                Ok(block) => blocks.push(block),
                Err(Fault::Full(_)) => {
                    for block in &blocks {
                        self.seat.note_old(ref_to(*block), false)?;
                        self.olds += 1;
                    }
                    return Ok(None);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(Some(blocks))
    }

    fn put(&mut self, mut bytes: &[u8], blocks: &mut impl Iterator<Item = u64>) {
        let segment = &self.seat.segment;
        while !bytes.is_empty() {
            let inside = self.tail % BLOCK_BYTES;
            if inside == 0 && self.tail != 0 {
                let next = blocks.next().expect("as many as the message needs");
                if self.last == self.old_last {
                    self.link = next;
                } else {
                    segment.store(self.last + NEXT, next);
                }
                self.last = next;
            }
            let (here, rest) = bytes.split_at(bytes.len().min((BLOCK_BYTES - inside) as usize));
            let place = self.last + BLOCK_HEAD + inside;
            // SAFETY: I1, behind the tail only the lock's owner writes, which we are; S5, the range lies inside the block.
            unsafe { std::ptr::copy_nonoverlapping(here.as_ptr(), segment.address(place), here.len()) };
            self.tail += here.len() as u64;
            bytes = rest;
        }
    }

    /// Notes what becomes of the inbox. Returns how many nodes go out of use.
    ///
    /// # Errors
    /// As [`Posting::append`].
    pub fn end(self) -> Result<u64, Fault> {
        let seat = self.seat;
        seat.amend(self.item, CHANGED | WAKE);
        seat.note(Tag::Cover, self.base + at::INBOX_LOCK, 0)?;
        if self.link != 0 {
            seat.note(Tag::Word, self.old_last + NEXT, self.link)?;
            seat.note(Tag::Word, self.base + at::INBOX_LAST, self.last)?;
        }
        seat.note(Tag::Word, self.base + at::INBOX_LOST, self.lost)?;
        // Last: from here on the owner reads.
        seat.note(Tag::Word, self.base + at::INBOX_TAIL, self.tail)?;
        let waiting = self.tail.saturating_sub(seat.segment.load(self.base + at::INBOX_HEAD));
        if waiting > FREELY / 2 && waiting > seat.segment.inbox_room(self.base, waiting) / 2 {
            let (index, life) = (seat_of(self.base), seat.segment.load(self.base + at::INBOX_LIFE));
            let fullest = seat.pressed.get().filter(|other| other.bytes > waiting);
            seat.pressed.set(Some(fullest.unwrap_or(Pressed { seat: index, life, bytes: waiting })));
        }
        Ok(self.olds)
    }
}
