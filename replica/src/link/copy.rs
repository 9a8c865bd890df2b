//! The copy of a full synchronisation: read from the connection into staged databases, and installed at once (B1).
use std::io::{self, Read, Seek, SeekFrom};

use polder_calls::settings::id;
use polder_commands::flush;
use polder_persist::saves::load::{Expired, Loaded, Present, Rules, load_with};
use polder_runtime::retry::retry;
use polder_runtime::scripts::{add_codes, clear_codes};
use polder_shm::LinkState;
use polder_shm::change_log::Stream;
use polder_table::{Db, Mode, STAGED, SYSTEM, Stop};

use super::{End, Following, TELL_PERIOD};
use crate::primary::{accept, empty};

/// Bytes of the mark behind a copy whose length is not known.
const MARK_BYTES: usize = 40;

/// The end of a copy.
enum Length {
    Bytes(u64),
    Mark([u8; MARK_BYTES]),
}

impl Following<'_, '_> {
    /// Reads and installs a copy. Behind it the stream of the primary goes on, at this offset.
    pub(super) fn take_copy(&mut self, identity: [u8; 40], offset: u64) -> Result<(), End> {
        let (follower, table) = (self.follower, self.follower.table);
        let header = self.line()?;
        let length = match header.strip_prefix('$') {
            Some(mark) if mark.starts_with("EOF:") => {
                let mark = mark.as_bytes()[4..]
                    .try_into()
                    .map_err(|_| "the mark behind the copy is not of 40 bytes")?;
                Length::Mark(mark)
            }
            Some(bytes) => {
                Length::Bytes(bytes.parse().map_err(|_| "the primary names no length of the copy")?)
            }
            None => return Err(format!("the primary sends no copy: {}", super::shown(&header)).into()),
        };
        self.figures.copy_bytes = if let Length::Bytes(bytes) = length { bytes } else { 0 };
        self.figures.copy_read = 0;
        self.tell(LinkState::Copies);
        tracing::info!(
            primary = follower.primary.host,
            bytes = self.figures.copy_bytes,
            "a copy of the data is read"
        );
        let settings = follower.settings.for_replay();
        let mut input = CopyInput { following: self, length, held: Vec::new(), is_done: false, end: None };
        let rules = Rules { present: Present::Replaced, expired: Expired::Kept, staged: true };
        let loaded = load_with(table, &settings, &mut input, rules, &mut |_| ());
        let end = input.end.take();
        let (loaded, rest) = match loaded {
            Ok(loaded) => (Ok(loaded), input.finish()),
            Err(cut) => (Err(cut.why), Ok(())),
        };
        let checked = match (end, loaded, rest) {
            (Some(end), ..) => Err(end),
            (None, Err(why), _) => Err(format!("the copy of the primary cannot be loaded: {why}").into()),
            (None, Ok(_), Err(why)) => Err(why),
            (None, Ok(loaded), Ok(())) => Ok(loaded),
        };
        let installed = checked.and_then(|loaded| {
            let state = loaded.stream_db.filter(|db| *db < SYSTEM).map_or(0, |db| u64::from(db) + 1);
            self.accept(&loaded, Stream { identity, offset, state })
        });
        if installed.is_err() {
            self.clear_staged();
        }
        installed
    }

    /// Removes what a copy has left that is not installed. The link ends; what stays goes with the next one,
    /// or with the role.
    pub(super) fn clear_staged(&self) {
        let _ = self.follower.table.clear_staged(self.follower.role);
    }

    /// Installs what has been loaded; the stream of the primary goes on behind it.
    pub(super) fn accept(&mut self, loaded: &Loaded, stream: Stream) -> Result<(), End> {
        self.check_not_empty(loaded, &stream.identity)?;
        self.rider.begin_stream(stream);
        self.install(loaded)?;
        let (keys, offset) = (loaded.keys, stream.offset);
        tracing::info!(keys, offset, "the copy of the primary has taken the place of the data");
        Ok(())
    }

    /// Refuses a copy without keys in the place of data, unless it is of the same history: a primary that has lost its data would take all copies
    /// with it.
    fn check_not_empty(&self, loaded: &Loaded, identity: &[u8; 40]) -> Result<(), End> {
        let table = self.follower.table;
        let has_keys = (0..SYSTEM).any(|db| table.keys(db).0 > 0);
        if loaded.keys > 0
            || !has_keys
            || self.follower.primary.accepts_empty
            || table.segment().log_continues(identity, 0)
        {
            return Ok(());
        }
        let empty = empty(&self.follower.primary.host, self.follower.primary.port);
        Err(format!("{empty}, and this memory has data: give REPLICAOF again to have it removed, or REPLICAOF NO ONE to keep it").into())
    }

    /// Puts the staged databases in the place of the others, as one transaction.
    fn install(&self, loaded: &Loaded) -> Result<(), Stop> {
        let table = self.follower.table;
        let databases =
            self.follower.settings.number(const { id("databases") }).clamp(1, SYSTEM.into()) as u64;
        let txn = table.begin(Mode::Write)?;
        retry(&txn, || {
            // The first in any case: the map's lock keeps others from a cut meanwhile.
            for db in staged(|db| db == STAGED || table.is_database(db) || table.is_database(db - STAGED)) {
                txn.swap(db - STAGED, db)?;
                txn.flush(Some(db))?;
            }
            clear_codes(&txn)?;
            if !loaded.functions.is_empty() {
                add_codes(&txn, &loaded.functions, Present::Replaced)?;
            }
            // Moments of the data that goes.
            flush::forget(&txn, None)?;
            if let Some(flushes) = &loaded.flushes {
                flush::restore(&txn, flushes, databases, true)?;
            }
            accept(&txn)
        })
    }
}

/// The staged databases that a test finds.
fn staged(test: impl Fn(Db) -> bool) -> impl Iterator<Item = Db> {
    (STAGED..STAGED + SYSTEM).filter(move |db| test(*db))
}

/// The copy as it comes. While it is read the primary hears a line feed each second.
struct CopyInput<'c, 'f, 'l> {
    following: &'c mut Following<'f, 'l>,
    length: Length,
    /// Bytes that have come and may be a part of the mark.
    held: Vec<u8>,
    is_done: bool,
    /// Why the link ends.
    end: Option<End>,
}

impl CopyInput<'_, '_, '_> {
    /// Bytes that are still to come, where that is known.
    fn left(&self) -> Option<u64> {
        match self.length {
            Length::Bytes(bytes) => Some(bytes.saturating_sub(self.following.figures.copy_read)),
            Length::Mark(_) => None,
        }
    }

    /// Waits for bytes, which go to `held`.
    fn take_more(&mut self) -> Result<(), End> {
        let following = &mut *self.following;
        if following.input.is_empty() {
            following.receive()?;
        }
        if following.told.elapsed() >= TELL_PERIOD {
            following.send(b"\n")?;
            following.tell(LinkState::Copies);
        }
        let left = self.left().map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let taken = self.following.input.len().min(left);
        self.held.extend(self.following.input.drain(..taken));
        self.following.figures.copy_read += taken as u64;
        self.is_done = match &self.length {
            Length::Bytes(_) => self.left() == Some(0),
            // Nothing follows the mark before it is acknowledged.
            Length::Mark(mark) => self.held.ends_with(mark),
        };
        Ok(())
    }

    /// The number of bytes of `held` that are the copy's.
    fn ready(&self) -> usize {
        match self.length {
            Length::Bytes(_) => self.held.len(),
            Length::Mark(_) => self.held.len().saturating_sub(MARK_BYTES),
        }
    }

    /// Reads what is left behind the end of the file.
    fn finish(mut self) -> Result<(), End> {
        if matches!(self.length, Length::Bytes(_)) {
            self.held.clear();
        }
        while !self.is_done {
            self.take_more()?;
            if self.ready() > 0 {
                return Err("the copy of the primary goes on behind its end".into());
            }
        }
        Ok(())
    }
}

impl Read for CopyInput<'_, '_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.ready() == 0 && !self.is_done {
            if let Err(end) = self.take_more() {
                let text =
                    if let End::Broken(why) = &end { why.clone() } else { "the link is to end".into() };
                self.end = Some(end);
                return Err(io::Error::other(text));
            }
        }
        let count = self.ready().min(bytes.len());
        bytes[..count].copy_from_slice(&self.held[..count]);
        self.held.drain(..count);
        Ok(count)
    }
}

/// The reader keeps what has been read.
impl Seek for CopyInput<'_, '_, '_> {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
