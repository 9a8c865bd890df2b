//! Effects: what a transaction says of itself in the change log, as commands that lead to the same state elsewhere.
//!
//! A transaction finds out with its first lock whether the log is on ([`Txn::tells`]), and then collects what it is told: by the calls that it
//! runs ([`Txn::tell`]), and by itself for keys that it meets expired. Its commit appends all of that as one record (`telling.rs`). A fast path has
//! one command to tell, right before its commit (`recording.rs`).
//!
//! - **E1** If the log is turned on between that look and the commit, the commit fails with [`Stop::Retry`]: the next attempt collects.
//! - **E2** A key that is written and that no call has told of is told as a whole: `DEL`, or `RESTORE` with the dump of its value. That is never wrong and
//!   always slow; [`Counter::Whole`] counts it, and tests demand 0.
//! - **E3** Effects name databases as the client does, at their place among the effects: SWAPDB is one of these.
//! - **E4** An expired key that is locked is told as `DEL` before all that the transaction does to it: elsewhere it may not have expired yet.

use polder_base::Fault;
use polder_shm::Tag;
use polder_shm::layout::{features, recording};
use polder_shm::sync::{self, Flaw};

use crate::api::{Counter, Db, Found, SYSTEM, Stop};
use crate::layout::extras::{ItemExtras, announce_feature};
use crate::log::aside::{self, Aside};
use crate::log::recording::{READ_ONLY, refuses, save};
use crate::log::telling::{ATOMIC, Mark, Telling, command_head, join, record_head, word_head};
use crate::txn::Txn;
use crate::txn::held::{Held, Pending};
use crate::txn::ride;

impl Held {
    /// The key was written, by this write.
    pub(crate) fn leave_untold(&mut self, write: u64) {
        self.counts = true;
        if self.untold == 0 {
            self.untold = write;
        }
    }
}

impl Txn<'_> {
    /// Whether the change log is on, so that this transaction is to say what it does.
    #[inline]
    pub fn tells(&self) -> bool {
        if self.notes.telling.get() == Telling::Unknown {
            self.look_whether_to_tell();
        }
        self.notes.telling.get() == Telling::Yes
    }

    fn look_whether_to_tell(&self) {
        let logs = self.segment().logs();
        if logs && self.seat.journal_len() == 0 {
            // Where there is no memory for it, the commit breaks the log.
            let _ = self.seat.open_outbox();
        }
        self.table.guess_logged(logs);
        self.notes.telling.set(if logs { Telling::Yes } else { Telling::No });
    }

    /// Says that calls of this transaction were made one by one: they are no transaction for any follower.
    pub fn joins_calls(&self) {
        self.notes.is_joined.set(true);
    }

    /// Says that the transaction does what this command does, in a database as its client names it. To be called where [`Txn::tells`].
    pub fn tell(&self, db: Db, words: &[&[u8]]) {
        if db == SYSTEM || !self.tells() {
            return;
        }
        let mut effects = self.buffers.log.effects.borrow_mut();
        effects.extend_from_slice(&command_head(db, words.len()));
        for word in words {
            effects.extend_from_slice(&word_head(word));
            effects.extend_from_slice(word);
        }
        self.buffers.log.told.set(self.buffers.log.told.get() + 1);
    }

    /// Like [`Txn::tell`], for what followers are to hear although it changes no key: the transaction commits for its sake, also if it has only read.
    pub fn tell_news(&self, db: Db, words: &[&[u8]]) {
        if self.tells() {
            self.tell(db, words);
            self.notes.has_news.set(true);
        }
    }

    /// A commit of messages alone, whose journal may be empty, begins: threads that wait for those that have looked at RECORDING or ROLE, or look whether
    /// all is quiet, must see it before it looks (K1).
    pub(crate) fn begin_news(&self) -> Result<(), Stop> {
        if self.seat.journal_len() == 0 {
            self.seat.note(Tag::Cover, 0, 0)?;
        }
        // SYNC: snapshot-look. Where a lock was taken, its CAS is the barrier.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    /// Returns true if something was told that changes no key.
    pub(crate) fn has_news(&self) -> bool {
        self.notes.has_news.get()
    }

    /// A call begins.
    pub fn mark(&self) -> Mark {
        let log = &self.buffers.log;
        Mark {
            writes: self.notes.writes.get(),
            told: self.told_by_calls(),
            commands: log.told.get(),
            bytes: log.effects.borrow().len(),
        }
    }

    /// Whether something has been written, flushed or swapped since.
    pub fn has_written_since(&self, mark: Mark) -> bool {
        self.notes.writes.get() != mark.writes
    }

    /// The end of a call whose effects have been told, by itself or for it, if there are any since `mark`: what it has written is accounted for,
    /// but not what was written before it.
    pub fn account(&self, mark: Mark) {
        if self.told_by_calls() == mark.told {
            return;
        }
        self.buffers
            .held
            .borrow_mut()
            .iter_mut()
            .filter(|held| held.untold > mark.writes)
            .for_each(|held| held.untold = 0);
        if self.notes.map_untold.get() > mark.writes {
            self.notes.map_untold.set(0);
        }
    }

    /// The end of one call: what has been told since `mark` is a transaction of its own, also in a record of several calls ([`Txn::joins_calls`]).
    pub fn tell_together(&self, mark: Mark) {
        let more = self.buffers.log.told.get().saturating_sub(mark.commands + 1);
        if more > 0 {
            join(&mut self.buffers.log.effects.borrow_mut()[mark.bytes..], more);
        }
    }

    /// What calls have told: all but E4.
    fn told_by_calls(&self) -> u32 {
        self.buffers.log.told.get() - self.buffers.log.told_expired.get()
    }

    /// Counts a write; returns its number.
    pub(crate) fn count_write(&self) -> u64 {
        self.notes.writes.set(self.notes.writes.get() + 1);
        self.notes.writes.get()
    }

    /// Databases are emptied or swapped.
    pub(crate) fn leave_map_untold(&self) {
        let write = self.count_write();
        if self.notes.map_untold.get() == 0 {
            self.notes.map_untold.set(write);
        }
    }

    /// Makes a write of a key that changes nothing for any follower, as when a client was last seen: it is not told and does not count as a change.
    ///
    /// # Errors
    /// What `write` fails with.
    pub fn without_change<R>(
        &self,
        db: Db,
        key: &[u8],
        write: impl FnOnce() -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        self.escalate()?;
        let physical = self.physical(db);
        let own = |held: &Held| held.db == physical && !held.passed && self.buffers.key_of(held.key) == key;
        let before =
            self.buffers.held.borrow().iter().find(|held| own(held)).map(|held| (held.untold, held.counts));
        let done = write()?;
        for held in self.buffers.held.borrow_mut().iter_mut().filter(|held| own(held)) {
            (held.untold, held.counts) = before.unwrap_or_default();
        }
        Ok(done)
    }

    /// Says that keys which no call tells of are to be told as a whole: they come from elsewhere, as when a file is loaded.
    pub fn tell_as_whole(&self) {
        self.notes.is_whole.set(true);
    }

    /// Tells what an item has beside value and expiry, if that is anything.
    pub fn tell_item(&self, db: Db, key: &[u8], found: &Found<'_>) {
        let extras = ItemExtras::decode(found.extras).portable();
        if found.flags != 0 || extras != ItemExtras::default() {
            self.tell_aside(db, &Aside::Item { key, flags: found.flags, extras });
        }
    }

    /// Says in the segment's header that streams may have producers, and entries that no consumer owns, before one has.
    pub fn announce_stream_producers(&self) {
        announce_feature(self.segment(), features::STREAM_PRODUCERS);
    }

    /// Says in the segment's header that keys may hold arrays, before one does.
    pub fn announce_arrays(&self) {
        announce_feature(self.segment(), features::ARRAYS);
    }

    /// Tells what no command of Redis says.
    pub fn tell_aside(&self, db: Db, aside: &Aside<'_>) {
        if self.tells() {
            self.tell(db, &[aside::NAME, &aside.text()]);
        }
    }

    /// Tells that all databases are emptied by the transaction itself.
    pub fn tell_flush(&self) {
        self.tell(0, &[b"FLUSHALL"]);
        self.notes.map_untold.set(0);
    }

    /// Tells of a key that has expired and that the transaction has locked (E4).
    pub(crate) fn tell_expired(&self, physical: Db, key: &[u8]) {
        if physical != SYSTEM && self.tells() {
            self.tell(self.logical(physical), &[b"DEL", key]);
            self.buffers.log.told_expired.set(self.buffers.log.told_expired.get() + 1);
        }
    }

    /// Tells of an expired key that the memory keeps, before the first write of it: a reader of the log would use its old value.
    pub(crate) fn tell_kept(&self, index: usize) {
        let kept = Some(&self.buffers.held.borrow()[index])
            .filter(|held| held.keeps_expired)
            .map(|held| (held.db, self.buffers.key_of(held.key)));
        if let Some((db, key)) = kept {
            self.tell_expired(db, &key);
        }
    }

    /// The number by which a client knows a database at this point of the transaction (E3): see [`Txn::physical`].
    pub(crate) fn logical(&self, physical: Db) -> Db {
        self.buffers.map.swaps.borrow().iter().fold(physical, |db, (a, b)| match db {
            db if db == *a => *b,
            db if db == *b => *a,
            db => db,
        })
    }

    /// Appends the transaction's record to the outbox, for the commit that has read `recording`; returns how many nodes go out of use with it.
    #[cold]
    pub(crate) fn append_record(&self, recording: u64) -> Result<u64, Stop> {
        self.tell_untold()?;
        if self.notes.map_untold.get() != 0 {
            // Emptied or swapped, and no call has said where among the effects.
            self.seat.break_log();
        }
        let told = self.buffers.log.told.get();
        if told == 0 {
            return Ok(0);
        }
        let is_atomic = told > 1 && !self.notes.is_joined.get();
        let effects = self.buffers.log.effects.borrow();
        let record = &mut *self.buffers.log.record.borrow_mut();
        record.clear();
        record.extend_from_slice(&record_head(if is_atomic { ATOMIC } else { 0 }, told, self.now_ms()));
        record.extend_from_slice(&effects);
        match self.append(recording, record)? {
            Ok(()) => Ok(0),
            // No key changes: it is refused, and the log stays whole.
            Err(_) if self.has_news() && self.notes.writes.get() == 0 => Err(Fault::Full(
                "the change log has no room for the message: free memory, or send it again later".into(),
            )
            .into()),
            Err(olds) => {
                // L7.
                self.seat.break_log();
                Ok(olds)
            }
        }
    }

    /// Appends a record to the outbox; `Err`: there is no room for it, and this many nodes go out of use with the commit nevertheless.
    pub(crate) fn append(&self, recording: u64, record: &[u8]) -> Result<Result<(), u64>, Stop> {
        if !self.seat.has_outbox() && self.is_first_attempt() {
            // No call has asked before the first lock whether there is a log. The next attempt makes an outbox, if there is memory for it.
            return Err(Stop::Retry);
        }
        let csn = self.seat.draw_csn();
        Ok(self.seat.append_outbox(csn, recording, record)?)
    }

    /// E2.
    fn tell_untold(&self) -> Result<(), Stop> {
        let is_untold =
            |held: &Held| held.untold != 0 && !held.passed && held.db != SYSTEM && held.pending.is_some();
        let untold: Vec<usize> = {
            let held = self.buffers.held.borrow();
            (0..held.len()).filter(|index| is_untold(&held[*index])).collect()
        };
        for index in untold {
            let (db, key, pending) = {
                let held = &self.buffers.held.borrow()[index];
                (held.db, self.buffers.key_of(held.key), held.pending)
            };
            self.count(Counter::Whole, u64::from(!self.notes.is_whole.get()));
            let found = match pending {
                Some(Pending::Write(image)) => self.found(&image)?,
                _ => None,
            };
            self.tell_whole(self.logical(db), &key, found.as_ref())?;
        }
        Ok(())
    }

    /// Tells of a key as a whole: it is what `found` says, or gone.
    fn tell_whole(&self, db: Db, key: &[u8], found: Option<&Found<'_>>) -> Result<(), Stop> {
        let Some(found) = found else {
            self.tell(db, &[b"DEL", key]);
            return Ok(());
        };
        let Some(dump) = self.table.dump.get() else {
            return Err(Fault::System(
                "this program writes keys beside a change log and cannot tell of them".into(),
            )
            .into());
        };
        let mut payload = Vec::new();
        dump(self, found, &mut payload)?;
        let (mark, expiry_ms) = (self.mark(), found.expiry_ms.unwrap_or(0).to_string());
        self.tell(db, &[b"RESTORE", key, expiry_ms.as_bytes(), &payload, b"REPLACE", b"ABSTTL"]);
        self.tell_item(db, key, found);
        self.tell_together(mark);
        Ok(())
    }

    /// Returns true if a change of keys may be committed, as far as that is known before: a call that changes something beside its reply leaves that out else.
    pub fn accepts_changes(&self) -> bool {
        !self.segment().refuses_writes() || self.seat.rides()
    }

    /// Whether the commit changes what clients see (K3). A neutral one replaces no entry; the removal of what has expired replaces one.
    fn changes_data(&self) -> bool {
        let (map, held) = (&self.buffers.map, self.buffers.held.borrow());
        !map.flushes.borrow().is_empty()
            || !map.swaps.borrow().is_empty()
            || held.iter().any(|held| held.db != SYSTEM && held.retires.is_some())
    }

    /// Returns true if a call has written a key of a client, or emptied or swapped databases. The removal of what has expired is no such write.
    fn is_written(&self) -> bool {
        let (map, held) = (&self.buffers.map, self.buffers.held.borrow());
        !map.flushes.borrow().is_empty()
            || !map.swaps.borrow().is_empty()
            || held.iter().any(|held| held.db != SYSTEM && held.pending.is_some())
    }

    /// Reads the word (K1) for a transaction, and records what it asks for: what the commit replaces, for a snapshot, and its effects, for the
    /// change log. Returns how many more nodes go out of use with the commit.
    ///
    /// # Errors
    /// [`Stop::Retry`] where the log was turned on after the transaction had begun (E1); [`READ_ONLY`]; a fault.
    #[inline]
    pub(crate) fn before_commit(&self) -> Result<u64, Stop> {
        let word = self.segment().recording();
        if sync::has(Flaw::LooksForEachKey) {
            self.record_changes(&mut |key| match recording::snapshot(self.segment().recording()) {
                0 => {}
                number => save(&self.seat, number, &key),
            });
            return Ok(0);
        }
        if word & recording::ON == 0 && !self.seat.rides() { Ok(0) } else { self.record_commit(word) }
    }

    #[cold]
    #[inline(never)]
    fn record_commit(&self, word: u64) -> Result<u64, Stop> {
        // Once, for all that follows from it.
        let refuses = refuses(self.segment(), word);
        let ride =
            if self.seat.rides() && (self.changes_data() || self.has_told()) { ride::now() } else { None };
        if let Some(ride) = &ride {
            self.check_ride(ride, word)?;
        } else if refuses && self.changes_data() {
            // Writes began to be refused after the transaction has met something expired: another attempt leaves that where it is.
            return Err(if self.is_written() { READ_ONLY.into() } else { Stop::Retry });
        }
        let logs = word & recording::LOG != 0;
        if logs && self.notes.telling.get() != Telling::Yes && ride.as_ref().is_none_or(|ride| ride.tells()) {
            return Err(Stop::Retry);
        }
        let number = recording::snapshot(word);
        if number != 0 {
            if self.spills() {
                // It would hold the record, and show the stub.
                return Err(Stop::Retry);
            }
            self.record_changes(&mut |key| save(&self.seat, number, &key));
        }
        match ride {
            Some(ride) => self.record_ride(&ride, word),
            // In a replica clients tell nothing: their messages stay here.
            None if logs && !refuses => self.append_record(word),
            None => Ok(0),
        }
    }

    /// Returns true if a call has told of something, though it may have changed no key.
    fn has_told(&self) -> bool {
        self.buffers.log.told.get() > 0
    }
}
