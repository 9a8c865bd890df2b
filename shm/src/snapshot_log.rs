//! The memory's part of a snapshot: which seat owns it, which nodes it needs, and where writers keep what they are about to replace
//! (the *snapshot log*).
//!
//! ```text
//! header   RECORDING (number, SNAPSHOT bit)  OWNER (seat + 1)  PIN (an interval of epochs)  WATERMARK  PASSED  BROKEN  SERIAL
//! seat     SNAPSHOT_LOG_FIRST -> [ node header (8) | next block (8) | bytes used (8) | records ... ] -> [ ... ]    SNAPSHOT_LOG_NUMBER
//! ```
//!
//! [`Segment::recording`] says whether a snapshot is on. A transaction that changes keys reads it once, with all its locks held, right
//! before its commit. If a snapshot is on, it appends the old states to its own seat's chain ([`Seat::save`]). `table/src/log/snapshot.rs`
//! says what the records mean and why they give the state of one instant. This file keeps the chains right when a thread dies:
//!
//! - **O1** A record counts once the block's count of bytes has passed it, and what is counted is never written again. Blocks stay as
//!   long as the snapshot of SNAPSHOT_LOG_NUMBER is on. So the snapshot's reader needs no lock.
//! - **O2** Only the seat's owner, or a thread that has acquired the seat (S2), takes its chain apart: when it begins a chain for another
//!   snapshot, or when it reclaims, as with the retired list.
//! - **O3** The snapshot belongs to a seat (S4). If that seat's owner dies, the thread that recovers the seat ends the snapshot
//!   ([`Seat::end_snapshot`]).
//! - **O4** The snapshot's pin belongs to the header and not to a seat: its owner goes on pinning and unpinning for its own short reads.
//!   The pin has no upper end while the owner waits for the transactions that may belong to the snapshot, since those may still make
//!   nodes that it needs.
//! - **O5** Numbers are never used twice.
//!
//! The table's tests/schedules/snapshots.rs runs this code in schedules that a checker chooses. Looking, saving and waiting are restated in
//! tests/snapshot.rs as well: change both.

use std::sync::atomic::{Ordering, fence};

use polder_base::Fault;

use crate::class::{CLASSES, NODE_MAX};
use crate::crash;
use crate::layout::{header, log, recording, seat as at};
use crate::lock;
use crate::node::NodeKind;
use crate::seat::Seat;
use crate::segment::Segment;

const NEXT: u64 = 8;
const USED: u64 = 16;
/// Where a block's records begin.
const RECORDS: u64 = 24;
/// Bytes of records in a block.
const BLOCK_BYTES: u64 = NODE_MAX as u64 - RECORDS;
/// Words of the longest record.
pub const RECORD_WORDS_MAX: usize = BLOCK_BYTES as usize / 8;
/// Blocks that one reclamation gives back, so that no call pays for a whole snapshot.
pub(crate) const DROPPED_MAX: u64 = 256;

/// A reader's place in one seat's chain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    block: u64,
    taken: u64,
}

impl Segment {
    /// The word that says what a commit has to record ([`recording`]). Each transaction that changes keys reads it once, right before
    /// its commit: `table/src/log/recording.rs` is the only place that does.
    #[inline(always)]
    pub fn recording(&self) -> u64 {
        // SYNC: snapshot-look. This transaction's journal is not empty before it looks: each journal begins with a lock, whose CAS is a full
        // barrier on x86. So a thread that sets the word either sees the journal and waits, or its word is seen here.
        if cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
        self.observe(header::RECORDING)
    }

    /// The number of the snapshot that is on; 0 without one. For callers that only avoid work during a snapshot; a commit uses
    /// [`Segment::recording`].
    #[inline]
    pub fn snapshot(&self) -> u64 {
        recording::snapshot(self.observe(header::RECORDING))
    }

    /// Has commits that change keys fail, or no longer. One that has looked before this may still come.
    pub fn refuse_writes(&self, refuses: bool) {
        let bit = recording::REFUSES;
        if refuses { self.set_recording(0, bit) } else { self.set_recording(bit, 0) }
    }

    /// Whether commits that change keys fail. For callers that only avoid work; a commit uses [`Segment::recording`].
    #[inline]
    pub fn refuses_writes(&self) -> bool {
        self.observe(header::RECORDING) & recording::REFUSES != 0
    }

    /// Turns the bits of `clear` off and those of `set` on, in one step: others change other bits of the word.
    pub(crate) fn set_recording(&self, clear: u64, set: u64) {
        crash::point();
        let change = |word: u64| Some(word & !clear | set);
        let _ = self.word(header::RECORDING).fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }

    /// Says that a snapshot cannot be completed: a writer had no memory to save what it replaces. It ends with an error.
    pub fn break_snapshot(&self, number: u64) {
        self.word(header::SNAPSHOT_BROKEN).fetch_max(number, Ordering::AcqRel);
    }

    /// Whether the snapshot cannot be completed any more.
    pub fn is_broken(&self, number: u64) -> bool {
        self.observe(header::SNAPSHOT_BROKEN) >= number
    }

    /// The interval of epochs that a snapshot needs; none without one.
    pub(crate) fn snapshot_pin(&self) -> Option<(u64, u64)> {
        // The owner's word is set first and cleared last. In between the interval may be an old one, which holds back too much for a moment.
        let owned = lock::owner(self.observe(header::SNAPSHOT_OWNER)).is_some();
        let (lower, upper) = (self.observe(header::SNAPSHOT_LOWER), self.observe(header::SNAPSHOT_UPPER));
        (owned && lower != at::NO_PIN).then_some((lower, upper))
    }

    /// Waits until every transaction has ended that may have looked before the snapshot was announced. `goes_on` is asked now and then.
    ///
    /// # Errors
    /// The seat whose transaction has not ended when `goes_on` returns false.
    pub fn await_transactions(
        self: &std::sync::Arc<Segment>,
        own: u64,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), u64> {
        // SYNC: snapshot-look, the other half: behind a full barrier.
        self.await_seats(own, &|seat| self.observe(seat + at::JOURNAL_LEN) != 0, goes_on)
    }

    /// Shows the records that a seat has saved for a snapshot since `place`: their offsets, and how many words there are up to the end of
    /// their block. `visit` returns how many words the record has.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the chain makes no sense (S5).
    pub fn saved_since(
        &self,
        index: u64,
        number: u64,
        place: &mut Place,
        visit: &mut dyn FnMut(u64, u64) -> Result<u64, Fault>,
    ) -> Result<(), Fault> {
        let damaged = Fault::Damaged { what: "what was saved for a snapshot" };
        let seat = self.seat_at(index);
        if self.observe(seat + at::SNAPSHOT_LOG_NUMBER) != number {
            return Ok(());
        }
        if place.block == 0 {
            *place = Place { block: self.observe(seat + at::SNAPSHOT_LOG_FIRST), taken: 0 };
        }
        while place.block != 0 {
            if self.node_class(place.block) != Some(CLASSES - 1) {
                return Err(damaged);
            }
            // This order matters: a reader that sees a next block sees the final count of this one.
            let next = self.observe(place.block + NEXT);
            let used = self.observe(place.block + USED);
            if used > BLOCK_BYTES || !used.is_multiple_of(8) {
                return Err(damaged);
            }
            while place.taken < used {
                let words = visit(place.block + RECORDS + place.taken, (used - place.taken) / 8)?;
                if words == 0 || words > (used - place.taken) / 8 {
                    return Err(damaged);
                }
                place.taken += words * 8;
            }
            if next == 0 {
                break;
            }
            *place = Place { block: next, taken: 0 };
        }
        Ok(())
    }
}

impl Seat {
    /// Takes the snapshot's place, if it is free, and pins all that there is. Returns the number of the snapshot. No writer saves
    /// anything before [`Seat::announce_snapshot`].
    pub fn begin_snapshot(&self) -> Option<u64> {
        let segment = &self.segment;
        if segment.exchange(header::SNAPSHOT_OWNER, 0, self.index + 1).is_err() && !self.take_over_snapshot()
        {
            return None;
        }
        let number = segment.load(header::SNAPSHOTS) + 1;
        segment.publish(header::SNAPSHOTS, number);
        segment.publish(header::SNAPSHOT_WATERMARK, u64::MAX);
        segment.publish(header::SNAPSHOT_PASSED, 0);
        segment.publish(header::SNAPSHOT_UPPER, u64::MAX);
        segment.publish(header::SNAPSHOT_LOWER, segment.observe(header::EPOCH));
        // SYNC: seat-pin. As a seat's own.
        fence(Ordering::SeqCst);
        Some(number)
    }

    /// Takes the snapshot's place where the word of its owner names no thread (S5): no thread would ever give it back. A seat that
    /// no thread sits on is brought in order, which ends its snapshot. A damaged word that names a living thread is believed until that
    /// thread gives up its seat: the thread may be about to begin a snapshot, or to end one.
    #[cold]
    fn take_over_snapshot(&self) -> bool {
        let segment = &self.segment;
        let word = segment.observe(header::SNAPSHOT_OWNER);
        let expected = match word.checked_sub(1) {
            None => 0,
            Some(seat) if seat < segment.seats_high() => {
                if !segment.is_vacant(seat) {
                    return false;
                }
                segment.attend(seat, &|_| {});
                0
            }
            Some(_) => word,
        };
        if segment.exchange(header::SNAPSHOT_OWNER, expected, self.index + 1).is_err() {
            return false;
        }
        // Of a snapshot whose owner's word was overwritten: it has no pin any more.
        let number = segment.snapshot();
        if number != 0 {
            segment.break_snapshot(number);
            segment.set_recording(recording::SNAPSHOT, 0);
        }
        true
    }

    /// From here on writers save what they replace.
    pub fn announce_snapshot(&self, number: u64) {
        // The number stays after the snapshot: it says of a later commit that no snapshot holds it yet.
        let number = number << recording::NUMBER_SHIFT;
        self.segment.set_recording(u64::MAX << recording::NUMBER_SHIFT, number | recording::SNAPSHOT);
    }

    /// To be called when the transactions have ended that looked before the announcement. Nodes that are born from now on are not
    /// needed. Returns the watermark: an entry with a higher version was written by a later transaction.
    pub fn settle_snapshot(&self) -> u64 {
        let segment = &self.segment;
        segment.publish(header::SNAPSHOT_UPPER, segment.observe(header::EPOCH));
        // SYNC: snapshot-watermark. A thread that draws versions after this draws higher ones, and sees the snapshot.
        let drawn = segment.word(header::VERSIONS).fetch_add(0, Ordering::AcqRel);
        // Versions have wrapped around and cannot be compared, so some entries are saved more than once.
        let watermark = if drawn >= crate::layout::VERSIONS_END { u64::MAX } else { drawn };
        segment.publish(header::SNAPSHOT_WATERMARK, watermark);
        watermark
    }

    /// What lies before `order` is not needed any more.
    pub fn pass_snapshot(&self, order: u64) {
        self.segment.publish(header::SNAPSHOT_PASSED, order);
    }

    /// Ends the snapshot, if it is this seat's. Run by its owner or by a recoverer, any number of times.
    pub fn end_snapshot(&self) {
        let segment = &self.segment;
        if lock::owner(segment.observe(header::SNAPSHOT_OWNER)) != Some(self.index) {
            return;
        }
        segment.set_recording(recording::SNAPSHOT, 0);
        segment.publish(log::CUT, 0);
        segment.publish(header::SNAPSHOT_LOWER, at::NO_PIN);
        segment.publish(header::SNAPSHOT_OWNER, 0);
    }

    /// Appends a record for the snapshot `number`, whose first word becomes its place in the order of all.
    ///
    /// # Errors
    /// [`Fault::Full`].
    pub fn save(&self, number: u64, record: &mut [u64]) -> Result<(), Fault> {
        let segment = &self.segment;
        assert!(record.len() <= RECORD_WORDS_MAX, "a record fits into a block");
        if self.get(at::SNAPSHOT_LOG_NUMBER) != number {
            self.drop_snapshot_log(u64::MAX);
            self.set(at::SNAPSHOT_LOG_NUMBER, number);
        }
        let bytes = record.len() as u64 * 8;
        let mut block = self.snapshot_log_last.get();
        if block == 0 || segment.load(block + USED) + bytes > BLOCK_BYTES {
            let link = if block == 0 { self.base + at::SNAPSHOT_LOG_FIRST } else { block + NEXT };
            // Not out of the reserve, which is kept for transactions that free memory.
            let node = self.top(CLASSES - 1)?;
            block = self.link_block(node, NodeKind::SnapshotLog, link);
            self.snapshot_log_last.set(block);
            self.add(at::SNAPSHOT_LOG_BYTES, NODE_MAX as u64);
        }
        record[0] = segment.word(header::SNAPSHOT_SERIAL).fetch_add(1, Ordering::AcqRel);
        let used = segment.load(block + USED);
        for (number, word) in record.iter().enumerate() {
            segment.store(block + RECORDS + used + number as u64 * 8, *word);
        }
        // SYNC: snapshot-saved. Before the commit of what it tells of.
        segment.publish(block + USED, used + bytes);
        Ok(())
    }

    /// Finds the last block of the chain, which is cut where it makes no sense (S5).
    pub(crate) fn find_snapshot_log(&self) {
        let blocks = self.chain(self.get(at::SNAPSHOT_LOG_FIRST));
        let last = blocks.last().copied().unwrap_or(0);
        self.cut(if last == 0 { self.base + at::SNAPSHOT_LOG_FIRST } else { last + NEXT });
        self.snapshot_log_last.set(last);
        // The sum is kept without care for deaths.
        self.set(at::SNAPSHOT_LOG_BYTES, blocks.len() as u64 * NODE_MAX as u64);
    }

    /// Whether the chain holds what no snapshot needs.
    pub(crate) fn has_old_snapshot_log(&self) -> bool {
        self.get(at::SNAPSHOT_LOG_FIRST) != 0 && self.get(at::SNAPSHOT_LOG_NUMBER) != self.segment.snapshot()
    }

    /// Gives `most` blocks of the chain back, which no snapshot needs any more.
    #[cold]
    pub(crate) fn drop_snapshot_log(&self, most: u64) {
        let mut dropped = 0;
        while dropped < most {
            let first = self.get(at::SNAPSHOT_LOG_FIRST);
            if first == 0 {
                break;
            }
            self.unchain(first, self.base + at::SNAPSHOT_LOG_FIRST, self.segment.load(first + NEXT));
            self.add(at::SNAPSHOT_LOG_BYTES, (NODE_MAX as u64).wrapping_neg());
            dropped += 1;
        }
        if self.get(at::SNAPSHOT_LOG_FIRST) == 0 {
            self.snapshot_log_last.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SegmentName, SegmentOptions};

    #[test]
    fn the_end_of_a_snapshot_leaves_its_number_and_other_bits() {
        let name: SegmentName =
            format!("shm:polder-test-recording-{}", std::process::id()).parse().expect("a name");
        let options = SegmentOptions { ceiling: 256 << 20, ..SegmentOptions::default() };
        let segment = &Segment::create(&name, &options).expect("a segment");
        let seat = segment.seat().expect("a seat");
        segment.set_recording(0, recording::LOG);
        for number in 1..=2 {
            assert_eq!(seat.begin_snapshot(), Some(number));
            assert_eq!(segment.snapshot(), 0, "it is not announced yet");
            seat.announce_snapshot(number);
            assert_eq!((segment.snapshot(), segment.recording() & recording::LOG), (number, recording::LOG));
            seat.end_snapshot();
            assert_eq!(segment.snapshot(), 0);
            assert_eq!(segment.recording(), number << recording::NUMBER_SHIFT | recording::LOG);
        }
        Segment::remove(&name).expect("it is there");
    }
}
