//! Copying a stream of bytes with offsets into a log's files: what the storage process does, without its thread, its clock and its memory.
//!
//! ```text
//!   stream in the segment  --read-->  batch  --append-->  incr file  --note-->  (file, length, offset) in the segment
//!                                                            `--sync-->  durable offset
//! ```
//!
//! - **F1** The note is made after the bytes are in the file, and a successor compares what was not noted with the stream (`resume.rs`). So each byte of
//!   the stream is in the files once, whenever a process dies.
//! - **F2** The durable offset moves only after a sync of what was appended before, and only in a log that has a base.
//! - **F3** A rewrite has one cut in the stream: bytes before it go to the old file, bytes behind it to the new one, and the base holds what the
//!   bytes before it have done.
//! - **F4** After an error of a write nothing is lost: the stream keeps what was not copied, and the copy is tried again. After an error of a sync only
//!   a new base makes the log whole (D3).
//! - **F5** The stream is told before a sync begins and after it has succeeded, and each note says up to where that was (`resume.rs`, C3).
//! - **F6** Each incremental file begins with the offset of the stream where it goes on, so that a log always says how far it reaches.
//!
//! One thread copies and syncs. Writers do not wait for it: they append to the stream, which keeps what is not copied yet.
use std::io;
use std::time::{Duration, Instant};

use crate::incr::{annotate_offset, annotate_time};
use crate::log::{Log, Noted};
use crate::manifest::{BaseForm, Entry};

/// Bytes that are copied at once.
const BATCH_BYTES: usize = 1 << 20;
/// How long after an error the next attempt is made.
const RETRY: Duration = Duration::from_secs(1);
const EVERY_SECOND: Duration = Duration::from_secs(1);
/// Bytes after which files are synced before the second is over. Nothing is copied during a sync, so that one of many bytes keeps all that is
/// committed meanwhile from the files.
const SYNC_BYTES: u64 = 4 << 20;

/// What is followed.
pub trait Stream {
    /// The offset behind the last byte. A record ends there.
    fn end(&self) -> u64;

    /// Appends at most `bytes_max` bytes from an offset on; returns the offset behind them.
    ///
    /// # Errors
    /// In words: the stream is not kept from that offset on, or cannot be read.
    fn read(&self, offset: u64, into: &mut Vec<u8>, bytes_max: usize) -> Result<u64, String>;

    /// Notes how far the stream was copied, and up to where the last sync has reached, where a successor finds it, in one step.
    ///
    /// # Errors
    /// In words.
    fn note(&self, position: Position, synced: Position) -> Result<(), String>;

    /// Says where a successor finds it that a sync is under way, or that it has succeeded (F5).
    fn in_sync(&self, is_under_way: bool);
}

/// How far a stream was copied: the file, its length, and the offset in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub noted: Noted,
    pub offset: u64,
}

/// When what was written is synced (`appendfsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// After each batch: what is acknowledged is on the disk.
    Always,
    /// Once a second, and after some megabytes.
    EverySecond,
    /// Whenever the system does.
    Never,
}

/// What the settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub fsync: Fsync,
    /// Whether the files tell the time (`aof-timestamp-enabled`).
    pub tells_time: bool,
}

/// Why a turn has not done its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The disk refuses, and may take it later.
    #[error("{0}")]
    Disk(#[from] io::Error),
    /// The stream is lost for this log: a new base is needed, from a new cut.
    #[error("{0}")]
    Stream(String),
}

/// A log that follows a stream.
pub struct Follower {
    log: Log,
    /// Up to where the stream is in the files.
    offset: u64,
    durable: u64,
    /// Up to where the last sync has reached.
    synced: Position,
    /// The file ends with a whole record.
    at_boundary: bool,
    /// Where the stream is cut for the rewrite under way, until it is.
    cut: Option<u64>,
    /// What the file behind the cut begins with.
    opening: Vec<u8>,
    synced_at: Instant,
    told_second: u64,
    retry_at: Option<Instant>,
}

impl Follower {
    /// Goes on with a log from a place in the stream, of which this much is known to be on the disk.
    pub fn new(log: Log, offset: u64, synced: Position, now: Instant) -> Follower {
        Follower {
            log,
            offset,
            durable: 0,
            synced,
            at_boundary: false,
            cut: None,
            opening: Vec::new(),
            // What a process has written that is dead waits for a sync already.
            synced_at: now.checked_sub(EVERY_SECOND).unwrap_or(now),
            told_second: 0,
            retry_at: None,
        }
    }

    /// Copies what the stream has, and syncs where the terms ask for it. Returns whether something was copied.
    ///
    /// # Errors
    /// See [`Failure`]. Writers are to be refused until a later turn succeeds.
    pub fn turn(
        &mut self,
        stream: &dyn Stream,
        terms: Terms,
        now: Instant,
        second: u64,
    ) -> Result<bool, Failure> {
        if self.retry_at.is_some_and(|at| now < at) {
            return Ok(false);
        }
        self.retry_at = None;
        let before = self.offset;
        let done = self.copy(stream, terms, second).and_then(|()| self.sync_if_due(stream, terms.fsync, now));
        if done.is_err() {
            self.retry_at = Some(now + RETRY);
        }
        done.map(|()| self.offset > before)
    }

    /// Whether the last turn failed and the next attempt is not due yet.
    pub fn is_failing(&self) -> bool {
        self.retry_at.is_some() || self.log.is_spoiled()
    }

    fn copy(&mut self, stream: &dyn Stream, terms: Terms, second: u64) -> Result<(), Failure> {
        loop {
            self.skip_spoiled()?;
            self.pass_cut(stream)?;
            let stream_end = stream.end();
            let end = self.cut.map_or(stream_end, |cut| cut.min(stream_end));
            let wanted =
                usize::try_from(end.saturating_sub(self.offset)).unwrap_or(usize::MAX).min(BATCH_BYTES);
            if wanted == 0 {
                return Ok(());
            }
            self.copy_batch(stream, terms, second, (wanted, end))?;
        }
    }

    fn copy_batch(
        &mut self,
        stream: &dyn Stream,
        terms: Terms,
        second: u64,
        (wanted, end): (usize, u64),
    ) -> Result<(), Failure> {
        let mut batch = Vec::with_capacity(wanted + 64);
        if terms.tells_time && self.at_boundary && self.told_second != second {
            annotate_time(&mut batch, second);
        }
        let next = stream.read(self.offset, &mut batch, wanted).map_err(Failure::Stream)?;
        if next == self.offset {
            return Err(Failure::Stream(format!("the stream has nothing at offset {next}")));
        }
        // Records end at the stream's end and at a cut; elsewhere a line would stand inside one.
        let at_boundary = next == end;
        if at_boundary {
            annotate_offset(&mut batch, next);
        }
        let before = self.log.noted();
        self.log.append(&batch)?;
        if let Err(why) = stream.note(Position { noted: self.log.noted(), offset: next }, self.synced) {
            // F1. The same bytes will be copied again.
            self.log.rewind(before)?;
            return Err(Failure::Stream(why));
        }
        (self.offset, self.at_boundary, self.told_second) = (next, at_boundary, second);
        Ok(())
    }

    /// A file that cannot be trusted takes no more bytes. Those before a cut are in the base that is to come, so the copy goes on there.
    fn skip_spoiled(&mut self) -> Result<(), Failure> {
        match self.cut {
            _ if !self.log.is_spoiled() => Ok(()),
            Some(cut) => {
                self.offset = cut;
                Ok(())
            }
            None => Err(Failure::Disk(io::Error::other(
                "the file cannot be trusted since an earlier error: the log needs a rewrite",
            ))),
        }
    }

    /// Begins the new file when all before the cut is in the old one.
    fn pass_cut(&mut self, stream: &dyn Stream) -> Result<(), Failure> {
        if self.cut != Some(self.offset) {
            return Ok(());
        }
        if self.log.is_whole() && !self.log.is_spoiled() {
            self.sync_files(stream)?;
        }
        self.log.begin_rewrite()?;
        self.log.append(&self.opening)?;
        // C3: a successor may have to go on here, and the files before may be gone by then.
        self.sync_files(stream)?;
        stream
            .note(Position { noted: self.log.noted(), offset: self.offset }, self.synced)
            .map_err(Failure::Stream)?;
        (self.cut, self.at_boundary) = (None, true);
        Ok(())
    }

    fn sync_if_due(&mut self, stream: &dyn Stream, fsync: Fsync, now: Instant) -> Result<(), Failure> {
        let is_due = match fsync {
            Fsync::Always => true,
            Fsync::EverySecond => {
                let bytes = self.offset.saturating_sub(self.synced.offset);
                bytes >= SYNC_BYTES || now.saturating_duration_since(self.synced_at) >= EVERY_SECOND
            }
            Fsync::Never => false,
        };
        if is_due { self.sync(stream, now) } else { Ok(()) }
    }

    /// Syncs what was copied.
    ///
    /// # Errors
    /// What the system says. Then only a rewrite makes the log whole again.
    pub fn sync(&mut self, stream: &dyn Stream, now: Instant) -> Result<(), Failure> {
        self.sync_files(stream)?;
        self.synced_at = now;
        Ok(())
    }

    fn sync_files(&mut self, stream: &dyn Stream) -> Result<(), Failure> {
        // F5. Where the sync fails, it stays said.
        stream.in_sync(true);
        self.log.sync()?;
        stream.in_sync(false);
        self.synced = Position { noted: self.log.noted(), offset: self.offset };
        if self.log.is_whole() {
            self.durable = self.offset;
        }
        Ok(())
    }

    /// Begins a rewrite: the base that is being written holds what the stream's bytes before `cut` have done. The file behind the cut begins with
    /// `opening`: what makes the stream readable from there on.
    pub fn begin_rewrite(&mut self, cut: u64, mut opening: Vec<u8>) {
        annotate_offset(&mut opening, cut);
        (self.cut, self.opening, self.retry_at) = (Some(cut), opening, None);
    }

    /// Where the base is to be written. Each call names another file.
    pub fn next_base(&mut self, form: BaseForm) -> Entry {
        self.log.next_base(form)
    }

    /// The base has been written and synced, its name too. All that is older goes.
    ///
    /// # Errors
    /// What the system says; where the cut has not been passed yet, or the file behind it cannot be trusted: give it up then.
    pub fn finish_rewrite(&mut self, base: Entry) -> Result<(), Failure> {
        if self.awaits_cut() || self.log.is_spoiled() {
            return Err(Failure::Disk(io::Error::other("the file behind the base's cut is not there")));
        }
        self.log.install(base)?;
        Ok(())
    }

    /// No base will come for the cut that was begun.
    pub fn give_up_rewrite(&mut self) {
        self.cut = None;
        self.log.give_up_rewrite();
    }

    /// Whether a base is expected, which can still be of use.
    pub fn is_rewriting(&self) -> bool {
        self.awaits_cut() || self.log.is_rewriting() && !self.log.is_spoiled()
    }

    /// Whether the stream has not been copied up to the cut yet.
    pub fn awaits_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Whether the log needs a base to be whole: it has none, or a sync has failed.
    pub fn needs_base(&self) -> bool {
        !self.log.is_whole() || self.log.is_spoiled()
    }

    /// Up to where the stream was copied.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Up to where the stream survives a power cut (F2).
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// The files.
    pub fn log(&self) -> &Log {
        &self.log
    }
}
