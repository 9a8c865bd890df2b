//! The outbox of a seat: what its commits have changed, in the order of its commits, until the log merger takes it.
//!
//! ```text
//!            HEAD (the log merger's)            TAIL (moved by the seat's commits)
//!              v                                  v
//!   [ block | merged ... ] -> [ block ... ] -> [ block ...  | room ]      blocks: nodes of the largest class, one chain
//!     FIRST                                      LAST
//!
//!   block    node header (8) | next block (8) | place of its first byte (8) | a stream of words
//!   record   bytes of what it says (8) | CSN (8) | the word RECORDING (8) | what it says, filled up to whole words;
//!            it may go on in the next block
//! ```
//!
//! A transaction that changes keys while the log is on draws a *commit sequence number* (CSN) with all its locks held, writes its record
//! behind the tail, where no reader looks, and notes in its journal what the tail is to become. So its commit delivers the record: there is no
//! moment between the commit and the record, whichever process dies when. What follows from it for all outboxes together, which the log merger
//! sorts by CSN (`change_log.rs`):
//!
//! - **L1** An outbox has one writer, the owner of its seat, and one reader, who holds MERGE_LOCK. Between HEAD and TAIL nothing is ever
//!   written. A record is there with its commit or not at all: recovery undoes or redoes it with the rest of the journal. An outbox
//!   belongs to the seat, not to a life of it: the next owner appends behind what a dead one has left.
//! - **L2** The reader retires a block once another one follows it. A writer that is stopped or dead behind its commit still writes the link
//!   of the block that was the last one. The writer's pin keeps that block until its seat is recovered. The block may be younger than the
//!   pin, since a transaction makes its outbox when it has a pin already: so the writer first widens the pin to the block's birth. A fast path
//!   appends to the last block only, which an earlier transaction of its seat has made, and writes no link ([`Seat::append_in_place`]).
//! - **L3** (order) A batch reads the counter of CSNs first, as S, then each tail, and takes the records below S in the order of their CSNs. Let T2
//!   conflict with T1 and follow it. Then these follow each other: T1's COMMITTED, T1's unlock, T2's lock, T2's draw, the read of S of
//!   T2's batch, the read of T1's tail. So T1 is in the same batch with a lower number, or in an earlier batch. It is the same for a transaction that began
//!   when T1 had been answered, and for one that has read T1 from T1's journal, since the tail counts from COMMITTED on.
//! - **L4** A CSN that was drawn and is not in a batch (its writer is stopped, dead or rolled back) is not waited for: until its record
//!   is there its writer holds its locks, so that no conflicting transaction has passed it.
//! - **L5** (era) A record's era comes from the read of RECORDING that decides whether the commit saves what it replaces for a snapshot (K1 of
//!   `table/src/log/recording.rs`). So a record of an era before snapshot n is in that snapshot, and one of era n or later is not.
//!
//! tests/schedules/outboxes.rs runs this code and the merger, with deaths, in schedules that a checker chooses.

use polder_base::Fault;
use smallvec::SmallVec;

use crate::class::{CLASSES, NODE_MAX, SLAB_BYTES};
use crate::item::{BLOCK_PAIRS, Tag, item_of};
use crate::layout::{header, log, seat as at};
use crate::node::{NodeHeader, NodeKind};
use crate::seat::Seat;
use crate::segment::{Segment, offset_of, ref_to};

/// Where a block keeps the next one and the place of its first byte, and where its bytes begin.
pub(crate) const NEXT: u64 = 8;
pub(crate) const PLACE: u64 = 16;
pub(crate) const BLOCK_HEAD: u64 = 24;
pub(crate) const BLOCK_BYTES: u64 = NODE_MAX as u64 - BLOCK_HEAD;
/// Bytes before what a record says.
const RECORD_HEAD: u64 = 24;
/// No outbox and no log gets to this place: a greater one is damage.
pub(crate) const PLACE_MAX: u64 = 1 << 60;
/// A thread that leaves more than this in its outbox merges it; fast paths leave that to transactions.
pub const WAITING_MAX: u64 = 1 << 20;
/// A commit that finds more than this in its outbox, since no thread merges, breaks the log ([`Seat::is_outbox_full`]).
const OUTBOX_MAX: u64 = 64 << 20;

/// A block of a chain and the place of its first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub block: u64,
    pub place: u64,
}

impl Piece {
    pub(crate) fn at(segment: &Segment, block: u64) -> Piece {
        Piece { block, place: segment.load(block + PLACE) }
    }

    /// Appends `bytes` bytes from `inside` on to `into`; both lie inside the block.
    pub(crate) fn copy(&self, segment: &Segment, inside: u64, bytes: u64, into: &mut Vec<u8>) {
        assert!(inside + bytes <= BLOCK_BYTES, "inside the block");
        // SAFETY: L1, L6: no thread writes there; S5, the block is a node of the largest class and the range lies inside.
        into.extend_from_slice(unsafe {
            std::slice::from_raw_parts(segment.address(self.block + BLOCK_HEAD + inside), bytes as usize)
        });
    }
}

/// A record as the log merger reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    pub bytes: u64,
    pub csn: u64,
    /// The word RECORDING as the commit has read it.
    pub recording: u64,
}

impl RecordHead {
    /// Where the record ends that begins at `place`.
    pub(crate) const fn end(&self, place: u64) -> u64 {
        place + RECORD_HEAD + self.bytes.next_multiple_of(8)
    }
}

/// An outbox as one state: what a committed journal makes of it counts as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outbox {
    pub seat: u64,
    pub first: u64,
    pub head: u64,
    pub tail: u64,
    /// A link that the journal has and the block may not have yet: where it lies, and what it names.
    link: (u64, u64),
}

impl Segment {
    /// The outbox of a seat, if it has one. Only for who holds MERGE_LOCK.
    pub(crate) fn outbox(&self, index: u64) -> Option<Outbox> {
        let seat = self.seat_at(index);
        let mut outbox = Outbox { seat: index, first: 0, head: 0, tail: 0, link: (0, 0) };
        loop {
            // SYNC: seat-commit. COMMITTED shows the whole journal; any other status shows the tail of the commit before.
            let status = self.observe(seat + at::STATUS);
            if status & 3 != at::COMMITTED {
                outbox.tail = self.observe(seat + at::OUTBOX_TAIL);
                break;
            }
            let told = self.outbox_in_journal(seat, &mut outbox);
            self.acquire_fence();
            if self.load(seat + at::STATUS) == status {
                if !told {
                    outbox.tail = self.observe(seat + at::OUTBOX_TAIL);
                }
                break;
            }
        }
        outbox.first = self.observe(seat + at::OUTBOX_FIRST);
        outbox.head = self.observe(seat + at::OUTBOX_HEAD);
        (outbox.first != 0).then_some(outbox)
    }

    /// What a journal makes of tail and link; returns whether it moves the tail. The word before LAST is the link (see [`Seat::append_outbox`]).
    fn outbox_in_journal(&self, seat: u64, outbox: &mut Outbox) -> bool {
        // S5: a journal has no more blocks than there are nodes, whatever its words say.
        let len_max = at::JOURNAL_PAIRS + self.slabs_ready() * SLAB_BYTES / NODE_MAX as u64 * BLOCK_PAIRS;
        let (len, mut told, mut before) = (self.observe(seat + at::JOURNAL_LEN).min(len_max), false, (0, 0));
        let (mut block, mut end, mut next_at) =
            (seat + at::JOURNAL, at::JOURNAL_PAIRS, seat + at::JOURNAL_NEXT);
        for index in 0..len {
            if index == end {
                let next = self.observe(next_at);
                if !self.check(next, NODE_MAX as u64) {
                    break;
                }
                (block, next_at, end) = ((next + 16).wrapping_sub(index * 16), next + 8, end + BLOCK_PAIRS);
            }
            let place = block.wrapping_add(index * 16);
            let Some((Tag::Word, offset)) = item_of(self.load(place)) else { continue };
            let value = self.load(place + 8);
            if offset == seat + at::OUTBOX_LAST {
                outbox.link = before;
            } else if offset == seat + at::OUTBOX_TAIL {
                outbox.tail = value;
                told = true;
            }
            before = (offset, value);
        }
        told
    }

    pub(crate) fn is_chained(&self, block: u64, kind: NodeKind) -> bool {
        self.node_class(block) == Some(CLASSES - 1) && NodeHeader(self.load(block)).kind() == Some(kind)
    }

    /// Bytes that wait in all outboxes, as far as a look without locks can tell.
    pub fn outbox_bytes(&self) -> u64 {
        let bytes = (0..self.seats_high())
            .map(|index| self.waiting_in(self.seat_at(index)))
            .fold(0, u64::saturating_add);
        // Later reads of the caller, such as of the lock of the merger, are not older than these.
        self.acquire_fence();
        bytes
    }

    /// Returns true if every commit before the caller's barrier is written out, and its record is merged or in the hands of the owner of MERGE_LOCK.
    pub(crate) fn are_outboxes_settled(&self) -> bool {
        let is_settled = |seat: u64| {
            // SYNC: seat-commit. COMMITTED first: a thread that is stopped there has not moved its tail yet, and its changes count already.
            self.observe(seat + at::STATUS) & 3 != at::COMMITTED && self.waiting_in(seat) == 0
        };
        let settled = (0..self.seats_high()).all(|index| is_settled(self.seat_at(index)));
        // The rule of `outbox_bytes`.
        self.acquire_fence();
        settled
    }

    fn waiting_in(&self, seat: u64) -> u64 {
        self.load(seat + at::OUTBOX_TAIL).saturating_sub(self.load(seat + at::OUTBOX_HEAD))
    }

    /// The number that the next commit is going to draw.
    pub fn csn(&self) -> u64 {
        self.observe(header::CSN)
    }
}

impl Outbox {
    /// The block that follows, if there is one.
    fn next(&self, segment: &Segment, block: u64) -> Option<u64> {
        let next = if self.link.0 == block + NEXT { self.link.1 } else { segment.observe(block + NEXT) };
        segment.is_chained(next, NodeKind::Outbox).then_some(next)
    }

    /// The block behind this one; `None`: there is none. Places grow along a chain, so that no walk goes in circles (S5).
    pub(crate) fn behind(&self, segment: &Segment, piece: Piece) -> Option<Piece> {
        let next = Piece::at(segment, self.next(segment, piece.block)?);
        (Some(next.place) == piece.place.checked_add(BLOCK_BYTES)).then_some(next)
    }

    /// Moves on to the block in which `place` lies; `None`: there is none (S5).
    pub(crate) fn seek(&self, segment: &Segment, piece: &mut Piece, place: u64) -> Option<()> {
        while place.checked_sub(piece.place)? >= BLOCK_BYTES {
            *piece = self.behind(segment, *piece)?;
        }
        Some(())
    }

    /// The head of the record at `place`; `None`: that cannot be one (S5).
    pub(crate) fn record(&self, segment: &Segment, mut piece: Piece, place: u64) -> Option<RecordHead> {
        if self.tail.checked_sub(place)? < RECORD_HEAD || !place.is_multiple_of(8) {
            return None;
        }
        let mut words = [0; 3];
        for (word, place) in words.iter_mut().zip((place..).step_by(8)) {
            self.seek(segment, &mut piece, place)?;
            let inside = place - piece.place;
            if !inside.is_multiple_of(8) {
                return None;
            }
            *word = segment.load(piece.block + BLOCK_HEAD + inside);
        }
        let head = RecordHead { bytes: words[0], csn: words[1], recording: words[2] };
        (head.bytes <= self.tail - place - RECORD_HEAD).then_some(head)
    }

    /// What the record at `place` says, in place of what is in `into`.
    pub(crate) fn says(
        &self,
        segment: &Segment,
        piece: &mut Piece,
        place: u64,
        head: RecordHead,
        into: &mut Vec<u8>,
    ) -> Option<()> {
        into.clear();
        let (mut place, mut left) = (place + RECORD_HEAD, head.bytes);
        while left > 0 {
            self.seek(segment, piece, place)?;
            let inside = place - piece.place;
            let here = left.min(BLOCK_BYTES - inside);
            piece.copy(segment, inside, here, into);
            (place, left) = (place + here, left - here);
        }
        Some(())
    }
}

impl Seat {
    /// Makes the outbox that [`Seat::append_outbox`] needs, if this seat has none yet. Not inside a transaction.
    ///
    /// # Errors
    /// [`Fault::Full`].
    #[inline]
    pub fn open_outbox(&self) -> Result<(), Fault> {
        if self.get(at::OUTBOX_LAST) == 0 { self.make_outbox() } else { Ok(()) }
    }

    /// The end of the records that this seat has committed.
    pub fn outbox_end(&self) -> u64 {
        self.get(at::OUTBOX_TAIL)
    }

    /// Whether this seat has an outbox.
    pub fn has_outbox(&self) -> bool {
        self.get(at::OUTBOX_LAST) != 0
    }

    #[cold]
    fn make_outbox(&self) -> Result<(), Fault> {
        let made = self.make_outbox_block(self.get(at::OUTBOX_TAIL)).and_then(|block| {
            self.note(Tag::Cover, 0, 0)?;
            self.note(Tag::Word, self.base + at::OUTBOX_FIRST, block)?;
            self.note(Tag::Word, self.base + at::OUTBOX_LAST, block)?;
            self.commit(0)
        });
        made.inspect_err(|_| self.rollback())
    }

    fn make_outbox_block(&self, place: u64) -> Result<u64, Fault> {
        let block = offset_of(self.make(NodeKind::Outbox, NODE_MAX - 8)?);
        self.segment.store(block + NEXT, 0);
        self.segment.store(block + PLACE, place);
        Ok(block)
    }

    /// Draws the number of a commit: with all its locks held.
    #[inline]
    pub fn draw_csn(&self) -> u64 {
        crate::crash::point();
        // SYNC: csn. Behind the locks, before COMMITTED; who reads the counter as S reads it before the tails (L3).
        let drawn = self.segment.word(header::CSN).fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        // SYNC: feeder. Behind the journal's first item (F1 of `replicas.rs`).
        if self.segment.load(header::FEEDER) != 0 {
            self.segment.replicas().wake_feeds();
        }
        drawn
    }

    /// Writes a record behind the tail, and notes that the transaction's commit delivers it: the last step before the commit. The seat is pinned (L2).
    /// Returns how many nodes go out of use with the commit; `Err(olds)`: there is no room for the record, and nothing was noted but these.
    ///
    /// # Errors
    /// A fault: the transaction cannot commit.
    pub fn append_outbox(&self, csn: u64, recording: u64, says: &[u8]) -> Result<Result<(), u64>, Fault> {
        let segment = &self.segment;
        let (tail, last) = (self.get(at::OUTBOX_TAIL), self.get(at::OUTBOX_LAST));
        if last == 0 {
            return Ok(Err(0));
        }
        // L2: this block stays the last one until the commit, so that it is there; from the commit on the pin must hold it.
        while !self.covers_now() {}
        let is_in = |last: Piece| {
            tail.is_multiple_of(8) && tail < PLACE_MAX && tail.wrapping_sub(last.place) <= BLOCK_BYTES
        };
        if !segment.is_chained(last, NodeKind::Outbox) || !is_in(Piece::at(segment, last)) {
            return Err(Fault::Damaged { what: "an outbox" });
        }
        let end = tail + RECORD_HEAD + (says.len() as u64).next_multiple_of(8);
        let mut blocks = SmallVec::<[u64; 4]>::from_slice(&[last]);
        let mut room_end = segment.load(last + PLACE) + BLOCK_BYTES;
        if tail.saturating_sub(segment.load(self.base + at::OUTBOX_HEAD)) > OUTBOX_MAX {
            return Ok(Err(0));
        }
        while room_end < end {
            match self.make_outbox_block(room_end) {
                Ok(block) => blocks.push(block),
                Err(Fault::Full(_)) => {
                    blocks[1..].iter().try_for_each(|block| self.note_old(ref_to(*block), false))?;
                    return Ok(Err(blocks.len() as u64 - 1));
                }
                Err(fault) => return Err(fault),
            }
            room_end += BLOCK_BYTES;
        }
        // No reader sees the links between new blocks yet; the first one is the journal's.
        blocks[1..].windows(2).for_each(|pair| segment.store(pair[0] + NEXT, pair[1]));
        let mut place = tail;
        let head = [says.len() as u64, csn, recording].map(u64::to_le_bytes);
        for part in [head.as_flattened(), says] {
            self.fill_outbox(&blocks, &mut place, part);
        }
        self.note(Tag::Cover, 0, 0)?;
        if let [_, first, ..] = blocks[..] {
            // In this order: see `Segment::outbox_in_journal`.
            self.note(Tag::Word, last + NEXT, first)?;
            self.note(Tag::Word, self.base + at::OUTBOX_LAST, blocks[blocks.len() - 1])?;
        }
        self.note(Tag::Word, self.base + at::OUTBOX_TAIL, end)?;
        Ok(Ok(()))
    }

    /// The same for a fast path: `write` writes the `bytes` bytes that the record says, all of them. Returns what the tail becomes, which the
    /// caller's commit is to write ([`StagedJournal::tail`](crate::staged_journal::StagedJournal::tail)). `None`, and nothing has happened: there is no outbox, its last block
    /// has no room, or much of it waits to be merged. The seat has all its locks, and is pinned.
    #[inline]
    pub fn append_in_place(
        &self,
        recording: u64,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Option<u64> {
        let segment = &self.segment;
        let (tail, last) = (self.get(at::OUTBOX_TAIL), self.get(at::OUTBOX_LAST));
        if last == 0 || !segment.is_chained(last, NodeKind::Outbox) {
            return None;
        }
        let inside = tail.wrapping_sub(segment.load(last + PLACE));
        let fits =
            inside < BLOCK_BYTES && RECORD_HEAD + (bytes as u64).next_multiple_of(8) <= BLOCK_BYTES - inside;
        let waiting = tail.wrapping_sub(segment.load(self.base + at::OUTBOX_HEAD));
        if !fits || !tail.is_multiple_of(8) || tail >= PLACE_MAX || waiting > WAITING_MAX {
            return None;
        }
        let place = last + BLOCK_HEAD + inside;
        crate::crash::point();
        // SAFETY: L1, behind the tail only the seat's owner writes, which we are, and no thread reads; the range lies inside the block, and its
        // bytes are plain memory of the segment.
        write(unsafe { std::slice::from_raw_parts_mut(segment.address(place + RECORD_HEAD), bytes) });
        for (word, place) in [bytes as u64, self.draw_csn(), recording].into_iter().zip((place..).step_by(8))
        {
            crate::crash::point();
            segment.store(place, word);
        }
        Some(tail + RECORD_HEAD + (bytes as u64).next_multiple_of(8))
    }

    /// Writes bytes from `place` on into the blocks of an outbox.
    fn fill_outbox(&self, blocks: &[u64], place: &mut u64, mut bytes: &[u8]) {
        let first = self.segment.load(blocks[0] + PLACE);
        while !bytes.is_empty() {
            let past = *place - first;
            let (block, inside) = (blocks[(past / BLOCK_BYTES) as usize], past % BLOCK_BYTES);
            let (here, rest) = bytes.split_at(bytes.len().min((BLOCK_BYTES - inside) as usize));
            crate::crash::point();
            // SAFETY: L1, behind the tail only the seat's owner writes, which we are; the range lies inside the block.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    here.as_ptr(),
                    self.segment.address(block + BLOCK_HEAD + inside),
                    here.len(),
                )
            };
            *place += here.len() as u64;
            bytes = rest;
        }
    }

    /// Says that a commit goes without its record: the log is not to be believed any more. Before that commit.
    #[cold]
    pub fn break_log(&self) {
        crate::crash::point();
        // SYNC: csn. Before COMMITTED: who sees the tail of a later commit of the same keys sees this.
        self.segment.word(log::BROKEN).fetch_add(1, std::sync::atomic::Ordering::AcqRel);
    }

    /// Bytes in this seat's outbox that no thread has merged yet.
    #[inline]
    pub fn outbox_waiting(&self) -> u64 {
        self.segment.waiting_in(self.base)
    }

    /// Returns true if this seat's next commit would break the log, which is whole yet.
    #[inline]
    pub fn is_outbox_full(&self) -> bool {
        let segment = &self.segment;
        self.outbox_waiting() > OUTBOX_MAX
            && segment.logs()
            && segment.observe(log::BROKEN) == segment.observe(log::BROKEN_SEEN)
    }

    /// Whether a word is the link of the last block of this seat's outbox.
    pub(crate) fn is_outbox_link(&self, offset: u64) -> bool {
        let last = self.get(at::OUTBOX_LAST);
        last != 0 && offset == last + NEXT && self.segment.is_chained(last, NodeKind::Outbox)
    }
}
