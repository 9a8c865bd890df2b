//! The change log of a segment: one stream of commands, as Redis writes them, in the order of the commits.
//!
//! ```text
//!   commits  --->  outboxes of the seats  --->  the log in the segment  --->  followers: files, replicas, `polder changes`
//!            their own commit            merge, by the thread that has the lock    read, without a lock
//! ```
//!
//! Where the bytes lie, and why nothing is lost, doubled or out of order: `shm/src/{outbox,change_log}.rs`, L1 to L8. What the commands
//! are: `effect.rs`. Here they become bytes: `SELECT` where the database changes, `MULTI` and `EXEC` around several commands of one transaction.
//!
//! **Offsets** count bytes of the stream from 0 on; `PSYNC` counts them from 1 on, so that the byte at offset n is the one that a replica asks for
//! with n + 1. The stream begins at another offset, and with another identity, whenever a change may be missing in it.

pub(crate) mod aside;
pub(crate) mod recording;
pub(crate) mod roles;
pub mod snapshot;
pub(crate) mod telling;

use std::time::Duration;

use polder_base::Fault;
use polder_shm::change_log::{Appends, BATCH_BYTES, Format, LogGap, Merged};
use polder_shm::layout::{header, log, recording as recording_word};
use polder_shm::{Seat, Segment, sync};

use crate::api::{DATABASES, Db};
use crate::change::Dump;
use crate::log::telling::{Verbatim, read_record};
use crate::table::Table;

/// How long [`Log::merge_before`] waits for another thread's batch.
const MERGER_PATIENCE: Duration = Duration::from_millis(1);
/// The time for which a writer waits for another thread's batch, or the cut of a snapshot, before its next commit breaks the log; the pause between two looks.
const FULL_PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_micros(200);
/// How long turning the log on or off waits for others.
const PATIENCE: Duration = Duration::from_secs(2);
/// Batches that one call merges at most, and those that a writer merges when its transaction has ended.
const BATCHES_MAX: u32 = 64;
const WRITER_BATCHES_MAX: u32 = 2;

/// Why the log cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// What stood there is not kept any more, or belongs to a stream that has ended: begin with a copy of the data.
    #[error(
        "the change log is not kept from offset {0} on: begin with a copy of the data, and follow from its offset"
    )]
    Trimmed(u64),
    /// The log does not reach so far: the offset is another stream's.
    #[error("offset {0} is behind the end of the change log: it belongs to another stream")]
    Broken(u64),
    /// The memory or the system failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The change log of a table ([`Table::log`]). Not to be used inside a transaction of the same thread.
#[derive(Clone, Copy)]
pub struct Log<'t> {
    table: &'t Table,
}

impl Table {
    /// The change log.
    pub fn log(&self) -> Log<'_> {
        Log { table: self }
    }

    /// Names what writes dumps of values for keys that no call has told of; the first stays.
    pub fn dumps_by(&self, dump: Dump) {
        let _ = self.dump.set(dump);
    }
}

impl Log<'_> {
    fn resp(&self) -> Resp<'_> {
        Resp { segment: self.table.segment(), selected: 0 }
    }

    /// Runs `work` with the calling thread's seat.
    fn with_seat<R>(&self, work: impl FnOnce(&Seat) -> Result<R, Fault>) -> Result<R, Fault> {
        let seat = self.table.seat()?;
        if !seat.enter() {
            return Err(Fault::System("this thread has a transaction already: end it first".into()));
        }
        let done = work(&seat);
        seat.leave();
        done
    }

    /// Turns the log on, unless it is on: a stream of another identity begins, with every commit that follows this call.
    ///
    /// # Errors
    /// [`Fault::System`] while another process is stopped in the middle of a transaction, or holds the lock of the log; [`Fault::Full`].
    pub fn turn_on(&self) -> Result<(), Fault> {
        let end = sync::now() + PATIENCE;
        self.with_seat(|seat| seat.turn_log_on(&mut || sync::now() < end))
    }

    /// Turns the log off and frees its memory. That of a replica stays on: its end says how far the replica is.
    ///
    /// # Errors
    /// As [`Log::turn_on`]; it is off nevertheless, and keeps some memory until it is turned on again.
    pub fn turn_off(&self) -> Result<(), Fault> {
        if self.table.role().is_replica() {
            return Ok(());
        }
        let end = sync::now() + PATIENCE;
        self.with_seat(|seat| seat.turn_log_off(&mut || sync::now() < end))
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.table.segment().logs()
    }

    /// What tells this stream from every other: 40 hexadecimal digits; zeros where there never was one.
    pub fn identity(&self) -> String {
        self.table
            .segment()
            .log_identity()
            .map(|digit| if digit == 0 { '0' } else { digit.into() })
            .iter()
            .collect()
    }

    /// The offset, as PSYNC counts, of a place in the log (I1 of `polder_shm::link`).
    pub fn offset_of(&self, place: u64) -> u64 {
        place.wrapping_add(self.table.segment().log_shift())
    }

    /// The place in the log of an offset of PSYNC.
    pub fn place_of(&self, offset: u64) -> u64 {
        offset.wrapping_sub(self.table.segment().log_shift())
    }

    /// The identity of the stream that this one goes on from, and the place behind the last byte that both have.
    pub fn before(&self) -> Option<(String, u64)> {
        let (identity, end) = self.table.segment().log_before()?;
        Some((String::from_utf8_lossy(&identity).into_owned(), end))
    }

    /// The first offset that is kept, and the one behind the last byte.
    pub fn range(&self) -> (u64, u64) {
        self.table.segment().log_range()
    }

    /// The offset behind the last byte, and the database that is selected there; none: the next command selects one.
    pub fn end(&self) -> (u64, Option<Db>) {
        let (offset, state) = self.table.segment().log_end();
        (offset, state.checked_sub(1).map(|db| db as Db))
    }

    /// The commit sequence number that the next commit draws.
    pub fn csn(&self) -> u64 {
        self.table.segment().csn()
    }

    /// Reads at most `bytes_max` bytes from an offset on, to the end of `into`; returns the offset behind them. Reads what has been merged.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn read(&self, offset: u64, into: &mut Vec<u8>, bytes_max: usize) -> Result<u64, LogError> {
        match self.with_seat(|seat| seat.read_log(offset, into, bytes_max))? {
            Ok(next) => Ok(next),
            Err(LogGap::Trimmed) => Err(LogError::Trimmed(offset)),
            Err(LogGap::Beyond) => Err(LogError::Broken(offset)),
        }
    }

    /// Moves what commits have left in their outboxes into the log, if no other thread is at it; returns whether something was appended.
    ///
    /// # Errors
    /// [`Fault::Full`] where there is no memory for the log: what is not merged stays where it is.
    pub fn merge(&self) -> Result<bool, Fault> {
        self.merge_some(BATCHES_MAX)
    }

    /// What a writer merges of an outbox that has become large: little, so that no call takes long.
    pub(crate) fn merge_as_writer(&self) {
        // Where another thread merges, or there is no memory, it stays where it is.
        let _ = self.merge_some(WRITER_BATCHES_MAX);
        // A record of hundreds of megabytes takes a while, and the next commit would break the log. A merger that is stopped is not waited for.
        let patience = sync::now() + FULL_PATIENCE;
        while self.table.seat().is_ok_and(|seat| seat.is_outbox_full()) && sync::now() < patience {
            match self.merge_some(WRITER_BATCHES_MAX) {
                Ok(true) => {}
                Ok(false) => sync::sleep(PAUSE),
                Err(_) => break,
            }
        }
    }

    fn merge_some(&self, batches: u32) -> Result<bool, Fault> {
        let mut appended = false;
        for _ in 0..batches {
            match self.with_seat(|seat| seat.merge_outboxes(&mut self.resp()))? {
                Merged::Some => appended = true,
                Merged::Trimmed => {}
                Merged::Nothing | Merged::Busy => break,
            }
        }
        Ok(appended)
    }

    /// Moves all that can be moved into the log; returns false where another thread was at it.
    ///
    /// # Errors
    /// As [`Log::merge`].
    pub(crate) fn merge_all(&self) -> Result<bool, Fault> {
        loop {
            match self.with_seat(|seat| seat.merge_outboxes(&mut self.resp()))? {
                Merged::Some | Merged::Trimmed => {}
                Merged::Nothing => return Ok(true),
                Merged::Busy => return Ok(false),
            }
        }
    }

    /// Moves all that was committed before this call into the log, and perhaps more; returns false where another thread was at it, or a snapshot holds
    /// records back (L8).
    ///
    /// # Errors
    /// As [`Log::merge`].
    pub fn merge_before(&self) -> Result<bool, Fault> {
        let Some(era) = self.era_without_cut() else { return Ok(false) };
        let patience = sync::now() + MERGER_PATIENCE;
        loop {
            let end = self.range().1;
            match self.with_seat(|seat| seat.merge_outboxes(&mut self.resp()))? {
                // A batch that has not reached its limit has taken all that it found.
                Merged::Some if self.range().1 - end >= BATCH_BYTES as u64 => {}
                // Records may be left, for which there was no memory before.
                Merged::Trimmed => {}
                Merged::Some | Merged::Nothing => return Ok(self.era_without_cut() == Some(era)),
                Merged::Busy if sync::now() >= patience => return Ok(false),
                Merged::Busy => sync::yield_now(),
            }
        }
    }

    /// The number of the last snapshot, if none makes its cut. A cut that was begun and ended between two looks leaves another number.
    fn era_without_cut(&self) -> Option<u64> {
        let segment = self.table.segment();
        let era = recording_word::era(segment.observe(header::RECORDING));
        (segment.observe(log::CUT) == 0).then_some(era)
    }

    /// Appends a command that no commit has told and that concerns no database, if the log ends at an offset and no other thread is at it.
    ///
    /// # Errors
    /// As [`Log::merge`].
    pub fn append_at(&self, offset: u64, words: &[&[u8]]) -> Result<(), Fault> {
        self.append(words, Appends::At(offset)).map(drop)
    }

    /// Merges, and appends a command by which followers are asked what they have: an acknowledgement of the place where it begins says that they have
    /// every commit up to now (`polder_shm::replicas`, R3). Does nothing if they were asked for `wanted`. Returns false where another thread is at it.
    ///
    /// # Errors
    /// As [`Log::merge`].
    pub fn ask(&self, words: &[&[u8]], wanted: u64) -> Result<bool, Fault> {
        let storage = self.table.segment().storage();
        let own = self.table.seat()?.index();
        let drawn = storage.draw();
        // W4: commits with this very number are over.
        let csn = drawn + u64::from(storage.is_quiet(own));
        Ok(self.merge_before()? && self.append(words, Appends::Question { wanted, csn })?)
    }

    fn append(&self, words: &[&[u8]], when: Appends) -> Result<bool, Fault> {
        let mut bytes = Vec::new();
        command(words, &mut bytes);
        Ok(self.with_seat(|seat| seat.append_to_log(&bytes, when))? != Merged::Busy)
    }

    /// Whether commits have left something in their outboxes.
    pub fn has_more(&self) -> bool {
        self.table.segment().outbox_bytes() > 0
    }

    /// Has the log kept from an offset on for a follower, which has one of 64 slots; `None`: it needs nothing any more.
    pub fn hold(&self, slot: u64, offset: Option<u64>) {
        self.table.segment().hold_log(slot, offset);
    }

    /// What a follower holds.
    pub fn held(&self, slot: u64) -> Option<u64> {
        self.table.segment().held_log(slot)
    }

    /// Sets how many bytes are kept behind the end in any case, and how many for a slow follower at most; 0: 1 MiB; 256 MiB, or an eighth of
    /// a segment that is smaller than 2 GiB, or a quarter of the free memory.
    pub fn keep(&self, bytes: u64, bytes_max: u64) {
        self.table.segment().keep_log(bytes, bytes_max);
    }
}

/// Writes records as Redis's commands.
struct Resp<'t> {
    segment: &'t Segment,
    /// The selected database, plus one.
    selected: u64,
}

impl Resp<'_> {
    fn select(&mut self, db: u16, out: &mut Vec<u8>) {
        if self.selected != u64::from(db) + 1 {
            self.selected = u64::from(db) + 1;
            command(&[b"SELECT", db.to_string().as_bytes()], out);
        }
    }
}

impl Format for Resp<'_> {
    fn begin(&mut self, state: u64) {
        self.selected = state;
    }

    fn record(&mut self, says: &[u8], out: &mut Vec<u8>) -> Result<bool, Fault> {
        const DAMAGED: Fault = Fault::Damaged { what: "a record of the change log" };
        if let Some(Verbatim { bytes, state, role }) = Verbatim::read(says) {
            // A3. The name changes under the lock of the log only, which the caller has.
            if role < self.segment.named_in() {
                return Ok(false);
            }
            self.selected = state.min(DATABASES as u64);
            out.extend_from_slice(bytes);
            return Ok(true);
        }
        let (is_atomic, told) = read_record(says).ok_or(DAMAGED)?;
        if let Some(first) = told.first() {
            self.select(first.db, out);
        }
        if is_atomic {
            command(&[b"MULTI"], out);
        }
        // Commands that are left of a transaction inside the record.
        let mut left = 0;
        for told in &told {
            self.select(told.db, out);
            if !is_atomic && left == 0 && told.more > 0 {
                command(&[b"MULTI"], out);
                left = u32::from(told.more) + 1;
            }
            command(&told.words, out);
            if left == 1 {
                command(&[b"EXEC"], out);
            }
            left = left.saturating_sub(1);
        }
        if is_atomic || left > 0 {
            command(&[b"EXEC"], out);
        }
        Ok(true)
    }

    fn state(&self) -> u64 {
        self.selected
    }
}

/// Appends a command as RESP.
fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    count(b'*', words.len(), out);
    for word in words {
        count(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn count(mark: u8, count: usize, out: &mut Vec<u8>) {
    let (mut digits, mut left) = ([0; 20], count);
    let mut at = digits.len();
    while left > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    out.push(mark);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}
