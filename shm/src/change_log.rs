//! The change log in the segment: one stream of bytes, made of what all outboxes hold (`outbox.rs`), in the order of the commits.
//!
//! ```text
//!   BASE                                    TAIL         places in the stream: bytes since it began
//!    v                                       v
//!   [ block | ............ ] -> [ block .... | room ]    blocks: nodes of the largest class, one chain
//!     FIRST                       LAST
//!
//!   block    node header (8) | next block (8) | place of its first byte (8) | bytes
//! ```
//!
//! Any thread that gets MERGE_LOCK by try-lock may merge: a transaction of its own seat takes the lock, reads the counter of CSNs and
//! then each outbox, sorts what it finds (L3), has it written as bytes behind TAIL, where no reader looks, and commits all HEADs, TAIL and
//! what has become of the chains at once. So a batch is in the log whole or not at all, once, whichever process dies when; and a stopped writer holds up no thread (L4).
//! What the bytes are is the table's business (`table/src/log.rs`).
//!
//! A commit frees [`FREES_MAX`] blocks at most, so that it needs little memory and little time, also in a full segment: FIRST, of the log and of each
//! outbox, may lag behind what is needed, and later commits catch up ([`Merged::Trimmed`] where there is nothing else to do).
//!
//! - **L6** Between BASE and TAIL nothing is ever written. Readers take no lock: a reader pins, reads TAIL, FIRST and LAST, then BASE, and walks.
//!   Blocks that are trimmed are retired, so a pinned reader is safe; one that comes too late finds its place below BASE. A merger that trims
//!   writes BASE before FIRST and LAST: a reader that sees a later first block sees also that its place is trimmed.
//! - **L7** A commit that finds no room for its record counts BROKEN before it commits, and goes without. The merger looks at BROKEN after the tails and
//!   before it appends: what follows such a commit is in no log of the same identity. The log then begins anew, with another identity,
//!   perhaps before that commit is made. A follower that begins in it waits for the transactions under way first (`turn_log_on`, or the cut of L8), so
//!   that what it copies has the commit.
//! - **L8** While a snapshot makes its cut, records of its era or a later one are held back, with what follows them in their seats ([`log::CUT`]). The word
//!   belongs to the snapshot's owner and is cleared with it, by recovery, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use polder_base::Fault;

use crate::class::NODE_MAX;
use crate::crash;
use crate::item::{CHANGED, Tag};
use crate::layout::{self, header, link, log, recording, replicas, seat as at};
use crate::link::Role;
use crate::lock::{self, Locked};
use crate::node::NodeKind;
use crate::outbox::{BLOCK_BYTES, BLOCK_HEAD, NEXT, Outbox, PLACE, PLACE_MAX, Piece, RecordHead};
use crate::seat::Seat;
use crate::segment::{Segment, offset_of, ref_to};
use crate::sync::{self, Flaw};

/// Bytes of the stream that one batch makes at most (and the rest of its last record).
pub const BATCH_BYTES: usize = 256 << 10;
/// Bytes that are kept behind the tail where no setting says how many: Redis's `repl-backlog-size`.
const KEEP: u64 = 1 << 20;
/// The greatest state of a [`Format`].
const STATE_MAX: u64 = (1 << log::STATE_BITS) - 1;
/// Bytes that a hold keeps at most where no setting says how many: Redis's limit for replicas, or a share of a small segment, or [`FREE_SHARE`].
const KEEP_MAX: u64 = 256 << 20;
const KEEP_SHARE: u64 = 8;
/// The share of the free memory that a hold may keep in any case, so that a follower can take values that are larger than the limit above.
const FREE_SHARE: u64 = 4;
/// Blocks that one commit frees at most. With what else it notes of them, it stays within the journal's inline block.
const FREES_MAX: u64 = 128;

/// Why the log cannot be read from some place on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogGap {
    /// What stood there is not kept any more.
    Trimmed,
    /// The log does not reach so far: the place is another stream's.
    Beyond,
}

/// The condition under which bytes are appended that no commit has told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Appends {
    /// If the log ends at this place.
    At(u64),
    /// Unless replicas have been asked for commits below `wanted`, or for more: the bytes ask for that, and every commit below `csn` lies in the log.
    Question { wanted: u64, csn: u64 },
}

/// Makes bytes of records.
pub trait Format {
    /// A new stream, or one of which a follower begins to read here, has selected no database: 0. Else the word that [`Format::state`] gave.
    fn begin(&mut self, state: u64);
    /// Appends what `says` says. Returns false if that belongs to a stream that has got another name meanwhile: then the log begins anew.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    fn record(&mut self, says: &[u8], out: &mut Vec<u8>) -> Result<bool, Fault>;
    /// What the next batch is to begin with: less than 1024.
    fn state(&self) -> u64;
}

/// What a batch has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merged {
    /// Another thread merges.
    Busy,
    /// There was nothing to be merged, and nothing to be freed.
    Nothing,
    /// Some records; perhaps there are more.
    Some,
    /// Blocks that are not needed were freed, and nothing else: records may be left, for which there was no memory before. To be called again.
    Trimmed,
}

impl Segment {
    /// Whether the change log is on.
    #[inline]
    pub fn logs(&self) -> bool {
        self.observe(header::RECORDING) & recording::LOG != 0
    }

    /// The first place that is kept, and the one behind the last byte.
    pub fn log_range(&self) -> (u64, u64) {
        let base = self.observe(log::BASE);
        (base, self.log_end().0.max(base))
    }

    /// The place behind the last byte, and what the batch that ends there has left for the next one ([`Format::state`]).
    pub fn log_end(&self) -> (u64, u64) {
        let word = self.observe(log::TAIL);
        (word >> log::STATE_BITS, word & STATE_MAX)
    }

    /// The identity of the stream; empty where there never was one.
    pub fn log_identity(&self) -> [u8; 40] {
        self.identity_at(log::IDENTITY)
    }

    fn identity_at(&self, at: u64) -> [u8; 40] {
        let mut identity = [0; 40];
        for (number, chunk) in identity.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.observe(at + number as u64 * 8).to_le_bytes());
        }
        identity
    }

    /// The stream that this one goes on from: its name, and the place behind the last byte that both have. `None`: there is none.
    pub fn log_before(&self) -> Option<([u8; 40], u64)> {
        let end = self.observe(link::SECOND).checked_sub(1)?;
        Some((self.identity_at(link::IDENTITY2), end))
    }

    /// The excess of an offset of PSYNC over its place in the log, modulo 2^64.
    pub fn log_shift(&self) -> u64 {
        self.observe(link::SHIFT)
    }

    /// Bytes of blocks that log and outboxes take, roughly.
    pub fn log_bytes(&self) -> u64 {
        let (base, tail) = self.log_range();
        match self.load(log::FIRST) {
            0 if !self.logs() => 0,
            // Nothing is merged yet.
            0 => self.outbox_bytes(),
            _ => (tail - base).saturating_add(self.outbox_bytes()),
        }
    }

    /// Says from which place on a follower wants the log to be kept (`None`: it wants nothing): [`log::HOLD_SLOTS`] of them.
    pub fn hold_log(&self, slot: u64, place: Option<u64>) {
        self.publish(log::HOLDS + slot % log::HOLD_SLOTS * 8, place.map_or(0, |place| place + 1));
    }

    /// What a follower wants to be kept. A place of a stream that has ended, which cannot be read any more, holds nothing.
    pub fn held_log(&self, slot: u64) -> Option<u64> {
        let held = self.observe(log::HOLDS + slot % log::HOLD_SLOTS * 8).checked_sub(1);
        held.filter(|held| *held >= self.observe(log::BEGAN))
    }

    /// The process that holds the log up at present: one of its threads has the merge lock, or makes the cut of a snapshot (L8). 0: none does.
    pub fn log_holder(&self) -> u32 {
        let cutter = || {
            (self.observe(log::CUT) != 0).then(|| lock::owner(self.observe(header::SNAPSHOT_OWNER))).flatten()
        };
        let seat = lock::owner(self.observe(log::MERGE_LOCK)).or_else(cutter);
        seat.map_or(0, |seat| self.observe(self.seat_at(seat) + at::OWNER) as u32)
    }

    /// How many bytes are kept behind the tail, and how many a hold keeps at most; 0: the default.
    pub fn keep_log(&self, bytes: u64, most: u64) {
        self.publish(log::KEEP, bytes);
        self.publish(log::KEEP_MAX, most);
    }

    /// Where the log is to begin: with what is kept anyway, and what followers hold.
    fn log_wanted(&self, tail: u64) -> u64 {
        let or = |word: u64, default: u64| if word == 0 { default } else { word };
        let kept = tail.saturating_sub(or(self.observe(log::KEEP), KEEP));
        let share = layout::usable(self.geometry().ceiling) / KEEP_SHARE;
        let most = or(self.observe(log::KEEP_MAX), KEEP_MAX.min(share).max(self.free_bytes() / FREE_SHARE));
        let least = tail.saturating_sub(most);
        let held = (0..log::HOLD_SLOTS).filter_map(|slot| self.held_log(slot)).min();
        held.map_or(kept, |held| kept.min(held.max(least)))
    }

    /// A block of the log; `None`: it is none.
    fn log_piece(&self, block: u64) -> Option<Piece> {
        self.is_chained(block, NodeKind::Log)
            .then(|| Piece::at(self, block))
            .filter(|piece| piece.place < PLACE_MAX)
    }

    /// The block behind this one; `None`: there is none. Places grow along a chain, so that no walk goes in circles (S5).
    fn log_piece_behind(&self, piece: Piece) -> Option<Piece> {
        self.log_piece(self.observe(piece.block + NEXT))
            .filter(|next| next.place >= piece.place + BLOCK_BYTES)
    }
}

impl Seat {
    /// Takes MERGE_LOCK, if no other thread has it.
    fn try_merge_lock(&self) -> Result<bool, Fault> {
        let item = self.journal_len();
        if !matches!(self.lock_now(log::MERGE_LOCK)?, Locked::Ours(_)) {
            self.forget_collision();
            self.segment.probe(log::MERGE_LOCK);
            return Ok(false);
        }
        self.amend(item, CHANGED);
        Ok(true)
    }

    /// Merges one batch. Not inside a transaction.
    ///
    /// # Errors
    /// [`Fault::Full`]; [`Fault::Damaged`] when an outbox makes no sense. Nothing has happened then.
    pub fn merge_outboxes(&self, format: &mut dyn Format) -> Result<Merged, Fault> {
        match self.with_merge_lock(|seat| seat.merge_batch(format)) {
            // Blocks that are not kept any more make room for others.
            Err(Fault::Full(why)) => match self.with_merge_lock(|seat| seat.trim(&seat.sources())) {
                Ok(Merged::Trimmed) => {
                    if !self.is_pinned() {
                        self.reclaim();
                    }
                    Ok(Merged::Trimmed)
                }
                _ => Err(Fault::Full(why)),
            },
            Err(Fault::Damaged { what }) => {
                // L7: what makes no sense is in no stream. The next batch begins another one.
                self.break_log();
                Err(Fault::Damaged { what })
            }
            done => done,
        }
    }

    /// Does something under MERGE_LOCK, unless another thread has it: a transaction, which is rolled back where `work` has not committed it.
    fn with_merge_lock(&self, work: impl FnOnce(&Seat) -> Result<Merged, Fault>) -> Result<Merged, Fault> {
        self.pin();
        let done = match self.try_merge_lock() {
            Ok(true) => work(self),
            Ok(false) => Ok(Merged::Busy),
            Err(fault) => Err(fault),
        };
        if !matches!(done, Ok(Merged::Some | Merged::Trimmed)) {
            self.rollback();
        }
        self.unpin();
        done
    }

    /// What lies in all outboxes.
    fn sources(&self) -> Vec<Source> {
        (0..self.segment.seats_high()).filter_map(|index| Source::of(&self.segment, index)).collect()
    }

    fn merge_batch(&self, format: &mut dyn Format) -> Result<Merged, Fault> {
        let segment = &*self.segment;
        // L3: S first.
        let mut below = segment.observe(header::CSN);
        let mut sources = self.sources();
        if sync::has(Flaw::CounterLast) {
            below = segment.observe(header::CSN);
        }
        // L7: after the tails.
        if segment.observe(log::BROKEN) != segment.load(log::BROKEN_SEEN) {
            return self.begin_log_anew(&sources).map(|()| Merged::Some);
        }
        let held_from = segment.observe(log::CUT);
        let (mut bytes, mut says, mut records) = (Vec::new(), Vec::new(), 0);
        format.begin(segment.log_end().1);
        for source in &mut sources {
            source.look(segment, below, held_from)?;
        }
        while bytes.len() < BATCH_BYTES {
            let Some(source) =
                sources.iter_mut().filter(|source| source.next.is_some()).min_by_key(|source| source.csn())
            else {
                break;
            };
            source.take(segment, &mut says)?;
            if !format.record(&says, &mut bytes)? {
                return self.begin_log_anew(&sources).map(|()| Merged::Some);
            }
            records += 1;
            source.look(segment, below, held_from)?;
        }
        if records == 0 {
            return self.trim(&sources);
        }
        let (ends, mut room) = (self.append_log(&bytes)?, FREES_MAX);
        self.note(Tag::Cover, log::MERGE_LOCK, 0)?;
        self.note_heads(&sources, &mut room)?;
        self.note_log(ends, &mut room)?;
        self.note(Tag::Word, log::RECORDS, segment.load(log::RECORDS) + records)?;
        // SYNC: change-log. Last: from here on readers read.
        self.note(Tag::Word, log::TAIL, tail_word(ends.tail, format.state()))?;
        self.commit(FREES_MAX - room)?;
        Ok(Merged::Some)
    }

    /// Appends bytes that no commit has told, as a transaction of their own, unless another thread merges. Not inside a transaction.
    ///
    /// # Errors
    /// As [`Seat::merge_outboxes`].
    pub fn append_to_log(&self, bytes: &[u8], when: Appends) -> Result<Merged, Fault> {
        self.with_merge_lock(|seat| {
            let segment = &*seat.segment;
            let is_wanted = match when {
                Appends::At(place) => segment.log_end().0 == place,
                Appends::Question { wanted, .. } => segment.observe(replicas::ASKED_CSN) < wanted,
            };
            // The log of a replica holds what its primary sends, and nothing else.
            if !is_wanted || !segment.logs() || !segment.tells_itself() {
                return Ok(Merged::Nothing);
            }
            let ((place, state), ends, mut room) = (segment.log_end(), seat.append_log(bytes)?, FREES_MAX);
            seat.note(Tag::Cover, log::MERGE_LOCK, 0)?;
            seat.note_log(ends, &mut room)?;
            if let Appends::Question { csn, .. } = when {
                // R3: the number last, so that a reader that sees it sees its place or a later one.
                seat.note(Tag::Word, replicas::ASKED_END, ends.tail)?;
                seat.note(Tag::Word, replicas::ASKED_PLACE, place)?;
                seat.note(Tag::Word, replicas::ASKED_CSN, csn)?;
            }
            // SYNC: change-log. Last: from here on readers read.
            seat.note(Tag::Word, log::TAIL, tail_word(ends.tail, state))?;
            seat.commit(FREES_MAX - room)?;
            Ok(Merged::Some)
        })
    }

    /// Frees blocks that are not needed any more: a commit that needs no memory.
    fn trim(&self, sources: &[Source]) -> Result<Merged, Fault> {
        let segment = &*self.segment;
        let (base, tail) = segment.log_range();
        let mut room = FREES_MAX;
        self.note(Tag::Cover, log::MERGE_LOCK, 0)?;
        self.note_heads(sources, &mut room)?;
        if base == tail {
            self.note_drop(&mut room)?;
        } else {
            self.note_log(Ends { first: 0, last: segment.load(log::LAST), link: 0, tail }, &mut room)?;
        }
        if room == FREES_MAX {
            return Ok(Merged::Nothing);
        }
        self.commit(FREES_MAX - room)?;
        Ok(Merged::Trimmed)
    }

    /// Notes how far the outboxes have been read, and that blocks go out of use (L2), `room` of them at most.
    fn note_heads(&self, sources: &[Source], room: &mut u64) -> Result<(), Fault> {
        let segment = &*self.segment;
        for source in sources {
            let (outbox, seat) = (&source.outbox, segment.seat_at(source.outbox.seat));
            let mut piece = Piece::at(segment, outbox.first);
            while *room > 0 && source.place.checked_sub(piece.place).ok_or(DAMAGED_OUTBOX)? >= BLOCK_BYTES {
                let Some(next) = outbox.behind(segment, piece) else { break };
                self.note_old(ref_to(piece.block), false)?;
                *room -= 1;
                piece = next;
            }
            if piece.block != outbox.first {
                self.note(Tag::Word, seat + at::OUTBOX_FIRST, piece.block)?;
            }
            if source.place != outbox.head {
                self.note(Tag::Word, seat + at::OUTBOX_HEAD, source.place)?;
            }
        }
        Ok(())
    }

    /// Writes bytes behind the tail, into blocks that are made where there are too few.
    fn append_log(&self, bytes: &[u8]) -> Result<Ends, Fault> {
        let segment = &*self.segment;
        let (mut place, last) = (segment.log_end().0, segment.load(log::LAST));
        let mut ends = Ends { first: 0, last, link: 0, tail: place + bytes.len() as u64 };
        let mut room_end = match last {
            0 => place,
            // Places may have been left out behind a full block, by streams that have ended.
            last => {
                segment.log_piece(last).filter(|last| last.place <= place).ok_or(DAMAGED_LOG)?.place
                    + BLOCK_BYTES
            }
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            if place >= room_end {
                let block = offset_of(self.make(NodeKind::Log, NODE_MAX - 8)?);
                segment.store(block + NEXT, 0);
                segment.store(block + PLACE, place);
                match (last, ends.link) {
                    (0, 0) => (ends.first, ends.link) = (block, block),
                    (_, 0) => ends.link = block,
                    _ => segment.store(ends.last + NEXT, block),
                }
                (ends.last, room_end) = (block, place + BLOCK_BYTES);
            }
            let inside = place + BLOCK_BYTES - room_end;
            let (here, left) = rest.split_at(rest.len().min((room_end - place) as usize));
            crash::point();
            // SAFETY: L6, behind the tail only the owner of MERGE_LOCK writes, which we are; the range lies inside the block.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    here.as_ptr(),
                    segment.address(ends.last + BLOCK_HEAD + inside),
                    here.len(),
                )
            };
            (place, rest) = (place + here.len() as u64, left);
        }
        Ok(ends)
    }

    /// Notes what becomes of the chain of the log, and that blocks are trimmed, `room` of them at most.
    fn note_log(&self, ends: Ends, room: &mut u64) -> Result<(), Fault> {
        let segment = &*self.segment;
        let old_last = segment.load(log::LAST);
        if ends.link != 0 && ends.first == 0 {
            self.note(Tag::Word, old_last + NEXT, ends.link)?;
        }
        if ends.last != old_last {
            self.note(Tag::Word, log::LAST, ends.last)?;
        }
        let first = if ends.first != 0 { ends.first } else { segment.load(log::FIRST) };
        let (base, mut piece) = (segment.load(log::BASE), segment.log_piece(first).ok_or(DAMAGED_LOG)?);
        let wanted = segment.log_wanted(ends.tail).max(base);
        // Not the block that is being extended: its link is only noted.
        while *room > 0 && piece.block != old_last && piece.place + BLOCK_BYTES <= wanted {
            let Some(next) = segment.log_piece_behind(piece) else { break };
            self.note_old(ref_to(piece.block), false)?;
            *room -= 1;
            piece = next;
        }
        // SYNC: change-log. BASE first (L6).
        if piece.place > base {
            self.note(Tag::Word, log::BASE, piece.place)?;
        }
        if piece.block != segment.load(log::FIRST) {
            self.note(Tag::Word, log::FIRST, piece.block)?;
        }
        Ok(())
    }

    /// Notes that blocks of the log go of which no byte is kept, `room` of them at most. What is left of a chain that makes no sense is lost (S5), which
    /// `verify` tells.
    fn note_drop(&self, room: &mut u64) -> Result<(), Fault> {
        let segment = &*self.segment;
        let (first, last) = (segment.load(log::FIRST), segment.load(log::LAST));
        let mut piece = segment.log_piece(first);
        while let Some(here) = piece.filter(|_| *room > 0) {
            self.note_old(ref_to(here.block), false)?;
            *room -= 1;
            piece = if here.block == last { None } else { segment.log_piece_behind(here) };
        }
        let ends = piece.map_or((0, 0), |piece| (piece.block, last));
        for (word, old, new) in [(log::FIRST, first, ends.0), (log::LAST, last, ends.1)] {
            if new != old {
                self.note(Tag::Word, word, new)?;
            }
        }
        Ok(())
    }

    /// Drops all that the log and the outboxes hold: the stream goes on behind its end, with another identity.
    fn begin_log_anew(&self, sources: &[Source]) -> Result<(), Fault> {
        let shift = self.segment.load(link::SHIFT);
        let olds = self
            .note_new_log(sources, &Begins { identity: random_identity(&self.segment), shift, state: 0 })?;
        self.commit(olds)
    }

    /// Notes that the stream goes on behind its end as another one, which holds nothing yet. MERGE_LOCK is taken. Returns how many nodes go out of use.
    fn note_new_log(&self, sources: &[Source], begins: &Begins) -> Result<u64, Fault> {
        let segment = &*self.segment;
        let broken = segment.observe(log::BROKEN);
        self.note(Tag::Cover, log::MERGE_LOCK, 0)?;
        // One place is left out, so that a reader that waits at the end finds that it is trimmed.
        let (begin, mut room) = (segment.log_end().0 + 1, FREES_MAX);
        // SYNC: change-log. BASE first (L6).
        self.note(Tag::Word, log::BASE, begin)?;
        self.note_drop(&mut room)?;
        self.note(Tag::Word, log::TAIL, tail_word(begin, begins.state))?;
        self.note(Tag::Word, log::BEGAN, begin)?;
        let passed: Vec<Source> =
            sources.iter().map(|source| Source { place: source.outbox.tail, ..*source }).collect();
        self.note_heads(&passed, &mut room)?;
        self.note(Tag::Word, log::BROKEN_SEEN, broken)?;
        self.note(Tag::Word, link::SHIFT, begins.shift)?;
        // I3: no bytes before this are another stream's, too.
        self.note(Tag::Word, link::SECOND, 0)?;
        self.note_identity(log::IDENTITY, &begins.identity)?;
        Ok(FREES_MAX - room)
    }

    /// For a transaction that is about to commit, as its last notes but a Cover: the stream that begins with it is that of the primary of a replica, and its
    /// first byte has this offset. Returns how many more nodes go out of use with the commit; `None`: another thread merges.
    ///
    /// # Errors
    /// [`Fault::Full`], [`Fault::Damaged`].
    pub fn note_stream_of(&self, primary: &Stream) -> Result<Option<u64>, Fault> {
        if !self.try_merge_lock()? {
            return Ok(None);
        }
        let begin = self.segment.log_end().0 + 1;
        let shift = primary.offset.wrapping_sub(begin);
        let begins = Begins { identity: primary.identity, shift, state: primary.state };
        self.note_new_log(&self.sources(), &begins).map(Some)
    }

    /// Gives the stream another name from its end on, and remembers the one that it had: followers that have no more than that go on (I2). Returns false
    /// while another thread merges, or there is something to be merged.
    ///
    /// # Errors
    /// [`Fault::Full`].
    pub fn rename_stream(&self, name: Name) -> Result<bool, Fault> {
        let renamed = self.with_merge_lock(|seat| {
            let segment = &*seat.segment;
            let (end, state) = segment.log_end();
            let (identity, state, named, role) = match name {
                Name::OfPrimary(identity, role) => (identity, state, segment.load(link::NAMED), role),
                // Its own stream begins with SELECT.
                Name::OfRole(role) => (random_identity(segment), 0, role.word(), role),
            };
            // A name for another role than the present one comes too late. A change of the role waits for what has looked before.
            let is_named = matches!(name, Name::OfRole(_)) && segment.load(link::NAMED) == named;
            if is_named || segment.role() != role {
                return Ok(Merged::Nothing);
            }
            if segment.outbox_bytes() != 0 {
                return Ok(Merged::Busy);
            }
            seat.note(Tag::Cover, log::MERGE_LOCK, 0)?;
            seat.note_identity(link::IDENTITY2, &segment.log_identity())?;
            seat.note(Tag::Word, link::SECOND, end + 1)?;
            seat.note_identity(log::IDENTITY, &identity)?;
            seat.note(Tag::Word, link::NAMED, named)?;
            seat.note(Tag::Word, log::TAIL, tail_word(end, state))?;
            seat.commit(0)?;
            Ok(Merged::Some)
        })?;
        Ok(renamed != Merged::Busy)
    }

    /// Notes a name of a stream.
    fn note_identity(&self, at: u64, identity: &[u8; 40]) -> Result<(), Fault> {
        for (number, digits) in identity.as_chunks::<8>().0.iter().enumerate() {
            self.note(Tag::Word, at + number as u64 * 8, u64::from_le_bytes(*digits))?;
        }
        Ok(())
    }

    /// Turns the log on, with another identity, unless it is on. Returns once every transaction is over that has not seen it, or may have lost its
    /// record for the stream before (L7), also where another thread has turned it on and is still waiting for them.
    ///
    /// # Errors
    /// [`Fault::System`] while another thread holds MERGE_LOCK, or is stopped in a transaction for longer than `goes_on` lets this one wait: the log is
    /// off then, unless it was on before. [`Fault::Full`].
    pub fn turn_log_on(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<(), Fault> {
        let segment = &self.segment;
        segment.word(header::LAYOUT).fetch_or(layout::features::CHANGE_LOG, Ordering::SeqCst);
        self.lock_merge(goes_on)?;
        let is_on = segment.logs();
        if is_on {
            self.rollback();
        } else {
            // What an earlier time of the log has left is in no stream.
            self.begin_stream()?;
            segment.set_recording(0, recording::LOG);
        }
        let stream = segment.observe(log::BEGAN);
        if is_on && segment.observe(log::WAITED) == stream {
            return Ok(());
        }
        let waited = segment.await_transactions(self.index, goes_on).map_err(|seat| stopped(segment, seat));
        match waited {
            // A stream that has begun meanwhile is another one, for which the next thread waits again.
            Ok(()) => segment.publish(log::WAITED, stream),
            Err(_) if !is_on => self.end_stream(),
            Err(_) => {}
        }
        waited
    }

    /// Turns the log off and frees what it holds. The stream ends, whether other transactions are over or not: one that turns it on again begins another.
    ///
    /// # Errors
    /// As [`Seat::turn_log_on`]; the log is off nevertheless.
    pub fn turn_log_off(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<(), Fault> {
        let segment = &self.segment;
        segment.set_recording(recording::LOG, 0);
        let waited = segment.await_transactions(self.index, goes_on).map_err(|seat| stopped(segment, seat));
        // One look more where time is up: no follower is to take what comes later for the same stream.
        let mut is_first = true;
        self.lock_merge(&mut || std::mem::take(&mut is_first) || goes_on())?;
        if segment.logs() {
            // Turned on again by another thread.
            self.rollback();
            return waited;
        }
        self.begin_stream()?;
        while matches!(self.with_merge_lock(|seat| seat.trim_unless_on()), Ok(Merged::Trimmed)) {}
        waited
    }

    fn trim_unless_on(&self) -> Result<Merged, Fault> {
        if self.segment.logs() { Ok(Merged::Nothing) } else { self.trim(&self.sources()) }
    }

    /// Turns the log off where turning it on has failed: what was told meanwhile belongs to no stream.
    fn end_stream(&self) {
        self.segment.set_recording(recording::LOG, 0);
        // Another thread that holds the lock, or has turned the log on again, begins another stream. Where there is no memory, followers see
        // that the log is off, and the next one that turns it on begins another stream.
        if matches!(self.try_merge_lock(), Ok(true)) && !self.segment.logs() {
            let _ = self.begin_stream();
        } else {
            self.rollback();
        }
    }

    /// Begins another stream, with MERGE_LOCK as the first item of the transaction.
    fn begin_stream(&self) -> Result<(), Fault> {
        self.pin();
        let begun = self.begin_log_anew(&self.sources());
        self.unpin();
        begun.inspect_err(|_| self.rollback())
    }

    fn lock_merge(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<(), Fault> {
        while !self.try_merge_lock()? {
            if !goes_on() {
                return Err(merger_stopped());
            }
            sync::sleep(crate::lock::NAP);
        }
        Ok(())
    }

    /// Reads from `place` on, at most `most` bytes, to the end of `into`; returns the place behind what was read. Not inside a transaction.
    ///
    /// # Errors
    /// A gap; or [`Fault::Damaged`].
    pub fn read_log(
        &self,
        place: u64,
        into: &mut Vec<u8>,
        most: usize,
    ) -> Result<Result<u64, LogGap>, Fault> {
        self.pin();
        let read = self.read_log_pinned(place, into, most);
        self.unpin();
        read
    }

    fn read_log_pinned(
        &self,
        mut place: u64,
        into: &mut Vec<u8>,
        most: usize,
    ) -> Result<Result<u64, LogGap>, Fault> {
        let segment = &*self.segment;
        let (first, last, tail) = loop {
            // SYNC: change-log. The tail first: who sees it sees the chain up to it. BASE last (L6).
            let tail = segment.log_end().0;
            let ends = (segment.observe(log::FIRST), segment.observe(log::LAST));
            if self.covers_now() {
                break (ends.0, ends.1, tail);
            }
        };
        if place < segment.observe(log::BASE) {
            return Ok(Err(LogGap::Trimmed));
        }
        if place > tail {
            return Ok(Err(LogGap::Beyond));
        }
        let end = tail.min(place.saturating_add(most as u64));
        if place == end {
            return Ok(Ok(place));
        }
        let is_in_last = segment.log_piece(last).filter(|last| last.place <= place);
        let mut piece = is_in_last.or_else(|| segment.log_piece(first)).ok_or(DAMAGED_LOG)?;
        while place < end {
            let inside = place.checked_sub(piece.place).ok_or(DAMAGED_LOG)?;
            if inside >= BLOCK_BYTES {
                piece = segment.log_piece_behind(piece).ok_or(DAMAGED_LOG)?;
                continue;
            }
            let here = (end - place).min(BLOCK_BYTES - inside);
            piece.copy(segment, inside, here, into);
            place += here;
        }
        Ok(Ok(place))
    }
}

/// A name that no other stream has.
fn random_identity(segment: &Segment) -> [u8; 40] {
    let mut identity = [0; 40];
    for (number, chunk) in identity.chunks_exact_mut(8).enumerate() {
        let random = std::hash::BuildHasher::hash_one(
            &std::hash::RandomState::new(),
            (number, segment.id(), crate::now_ms()),
        );
        chunk.copy_from_slice(format!("{:08x}", random as u32 ^ (random >> 32) as u32).as_bytes());
    }
    identity
}

/// The word TAIL.
fn tail_word(place: u64, state: u64) -> u64 {
    assert!(state <= STATE_MAX, "the state of a format has few bits");
    place << log::STATE_BITS | state
}

fn merger_stopped() -> Fault {
    Fault::System(
        "another process holds the lock of the change log, and may be stopped: let it go on or end it".into(),
    )
}

fn stopped(segment: &Arc<Segment>, seat: u64) -> Fault {
    let process = segment.load(segment.seat_at(seat) + at::OWNER) as u32;
    Fault::System(format!(
        "seat {seat} (process {process}) is in the middle of a transaction, and may be stopped: let it go on or end it"
    ))
}

/// The stream of a primary, where its replica begins to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    pub identity: [u8; 40],
    /// The offset of the first byte, as PSYNC counts: from 0 on.
    pub offset: u64,
    /// See [`Format::state`].
    pub state: u64,
}

/// A new name of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The one that the primary has by now, for a replica in this role.
    OfPrimary([u8; 40], Role),
    /// One of its own, once for this role: the memory has been promoted.
    OfRole(Role),
}

/// A stream that begins.
struct Begins {
    identity: [u8; 40],
    shift: u64,
    state: u64,
}

/// What becomes of the chain of the log with a batch.
#[derive(Clone, Copy)]
struct Ends {
    /// The first block, where there was none.
    first: u64,
    last: u64,
    /// The first new block; 0: none.
    link: u64,
    tail: u64,
}

/// How far an outbox has been read by a batch.
#[derive(Clone, Copy)]
struct Source {
    outbox: Outbox,
    piece: Piece,
    place: u64,
    next: Option<RecordHead>,
}

const DAMAGED_LOG: Fault = Fault::Damaged { what: "the change log" };
const DAMAGED_OUTBOX: Fault = Fault::Damaged { what: "an outbox" };

impl Source {
    fn of(segment: &Segment, index: u64) -> Option<Source> {
        let outbox = segment.outbox(index)?;
        if !segment.is_chained(outbox.first, NodeKind::Outbox) {
            return None;
        }
        let piece = Piece::at(segment, outbox.first);
        Some(Source { outbox, piece, place: outbox.head, next: None })
    }

    fn csn(&self) -> u64 {
        self.next.map_or(u64::MAX, |head| head.csn)
    }

    /// Looks at the next record: whether there is one that belongs to this batch.
    fn look(&mut self, segment: &Segment, below: u64, held_from: u64) -> Result<(), Fault> {
        self.next = None;
        if self.place < self.outbox.tail {
            self.outbox.seek(segment, &mut self.piece, self.place).ok_or(DAMAGED_OUTBOX)?;
            let head = self.outbox.record(segment, self.piece, self.place).ok_or(DAMAGED_OUTBOX)?;
            let is_held = held_from != 0 && recording::era(head.recording) >= held_from;
            self.next = Some(head).filter(|head| head.csn < below && !is_held);
        }
        Ok(())
    }

    /// Reads the record that [`Source::look`] has seen.
    fn take(&mut self, segment: &Segment, says: &mut Vec<u8>) -> Result<(), Fault> {
        let head = self.next.ok_or(DAMAGED_OUTBOX)?;
        self.outbox.says(segment, &mut self.piece, self.place, head, says).ok_or(DAMAGED_OUTBOX)?;
        self.place = head.end(self.place);
        Ok(())
    }
}
