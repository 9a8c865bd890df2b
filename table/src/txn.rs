//! A transaction: reads and writes of any number of keys that become true together, or not at all.
//!
//! *Write mode.* The home buckets of the declared keys are locked in the order of T2. A key that is met later is try-locked. If that
//! fails, nothing has been published yet, so everything is dropped and run again with that key among the declared ones. New entries
//! are built in private. At commit they are placed into private copies of the buckets (`shadow.rs`), what differs is noted in the
//! seat's journal, and one store of the seat's status word commits all of it (`shm::journal`).
//!
//! *Read mode.* Nothing is locked. Every word that the transaction relied on is in its read set, which is validated at commit. After a
//! few failures the keys are locked as for writing (Silo's rule), so a reader of many keys ends beside any number of writers.
//!
//! Invariants:
//! - **T1** An entry is changed only under its home bucket's lock and the lock of the bucket that it lies in.
//! - **T2** Locks are waited for in one order only: directory, position of the extent, number of the bucket. Out of order a lock is only
//!   tried.
//! - **T3** The pin lasts from before the first walk to after the last use of what was found. So the memory of a bucket that is locked is
//!   still that bucket, and a slice that was handed out stays readable.

pub(crate) mod buffers;
pub(crate) mod cold;
pub(crate) mod database;
pub(crate) mod declare;
pub(crate) mod effect;
pub(crate) mod expiry;
pub(crate) mod foreseen;
pub(crate) mod held;
pub(crate) mod hold;
pub(crate) mod neutral;
pub(crate) mod new_nodes;
pub(crate) mod outgoing;
pub(crate) mod place;
pub(crate) mod ride;
pub(crate) mod scan;
pub(crate) mod shadow;
pub(crate) mod single_key;
pub(crate) mod spent;
pub(crate) mod state;
pub(crate) mod time;
pub(crate) mod watch;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use polder_base::{Fault, Ref};
use polder_shm::node::NodeKind;
use polder_shm::outbox::WAITING_MAX;
use polder_shm::sync::{self, Flaw};
use polder_shm::{Locked, Seat, Segment, offset_of};
use polder_values::{Nodes, Value};

use crate::access::locate::Location;
use crate::access::lookup::{self, KeyTest};
use crate::api::*;
use crate::layout::bucket;
use crate::layout::clock;
use crate::layout::directory::MAP_LOCK;
use crate::layout::entry::{self, Image, is_key};
use crate::layout::extras;
use crate::layout::hash::{Hash, hash};
use crate::layout::raw;
use crate::layout::record::{self, Record};
use crate::layout::stub::Name;
use crate::log::recording::Changed;
use crate::log::telling::Telling;
use crate::table::Table;
use crate::txn::buffers::BufferLease;
use crate::txn::held::{Deficit, Met, Pending, SingleKeyTxn, Spot};
use crate::txn::shadow::Editing;
use crate::txn::state::{Attempt, Counts, Notes, Shared, TxnClock, Waiting};

/// Attempts in read mode before the keys are locked.
const FREE_ATTEMPTS: u32 = 4;

/// One transaction of one thread.
pub struct Txn<'t> {
    pub(crate) table: &'t Table,
    pub(crate) seat: Rc<Seat>,
    pub(crate) mode: Cell<Mode>,
    pub(crate) buffers: BufferLease,
    pub(crate) clock: TxnClock,
    pub(crate) attempt: Attempt,
    waiting: Waiting,
    pub(crate) origin: Cell<u64>,
    /// Where a key that the call is about to ask for belongs.
    pub(crate) foreseen: Option<(&'t [u8], &'t Location)>,
    pub(crate) single: Cell<SingleKeyTxn>,
    counts: Counts,
    /// It counts in [`Table::room_makers`].
    pub(crate) makes_room: Cell<bool>,
    shared: Shared<'t>,
    pub(crate) notes: Notes,
}

impl KeyTest for (&Txn<'_>, &[u8]) {
    fn key(&self) -> &[u8] {
        self.1
    }

    fn is_key_of(&self, record: Ref) -> Result<bool, Fault> {
        let (txn, key) = self;
        let (kind, payload) = raw::payload(txn.segment(), record)?;
        record::is_of(*txn, kind, payload, key)
    }

    fn meets(&self, name: Name) {
        self.0.meets(name);
    }
}

impl Table {
    /// Begins a transaction of the calling thread.
    ///
    /// # Errors
    /// [`Fault::System`] when all seats are taken or the thread has a transaction already, [`Fault::Full`].
    #[inline(always)]
    pub fn begin(&self, mode: Mode) -> Result<Txn<'_>, Fault> {
        let seat = self.seat()?;
        if !seat.enter() {
            return Err(Fault::System("this thread has a transaction already: end it first".into()));
        }
        Ok(Txn::new(self, seat, mode, BufferLease::take()))
    }
}

impl<'t> Txn<'t> {
    #[inline(always)]
    fn new(table: &'t Table, seat: Rc<Seat>, mode: Mode, buffers: BufferLease) -> Txn<'t> {
        seat.pin();
        Txn {
            table,
            seat,
            mode: Cell::new(mode),
            buffers,
            clock: TxnClock::default(),
            attempt: Attempt::default(),
            waiting: Waiting::default(),
            origin: Cell::new(0),
            foreseen: None,
            single: Cell::default(),
            counts: Counts::default(),
            makes_room: Cell::new(false),
            shared: Shared::default(),
            notes: Notes::default(),
        }
    }

    /// For a reader whose calls ask for this key again and again: it is looked up once and counts as one access, and all calls see it as it
    /// was then.
    pub fn share(&mut self, db: Db, key: &'t [u8]) {
        self.shared.key = Some((db, key));
    }

    /// Makes a reader a writer. A caller that has read something already must run again; others declare their keys now.
    pub fn become_writer(&self) {
        self.mode.set(Mode::Write);
    }

    /// Gives the transaction the prefetched place of a key. A reader's first look for the same slice of bytes then takes the fast path.
    #[inline]
    pub fn foresee(&mut self, key: &'t [u8], location: &'t Location) {
        self.foreseen = Some((key, location));
    }

    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        self.seat.segment()
    }

    /// Limits how long this transaction waits for locks in all, retries included; after that it fails with [`Stop::Busy`]. It is for callers
    /// that must go on although the holder of a lock may be stopped. Without it, a transaction waits without a limit.
    pub fn limit_patience(&self, patience: Duration) {
        self.waiting.patience.set(Some(patience));
    }

    /// Runs `work` as a writer with a limit of its own for waiting. Afterwards mode, limit and what the next attempt is to declare are as
    /// before.
    pub(crate) fn as_maintenance<R>(&self, patience: Duration, work: impl FnOnce() -> R) -> R {
        let before = (
            self.mode.replace(Mode::Write),
            self.waiting.patience.replace(Some(patience)),
            self.waiting.until.take(),
        );
        let (wide, extra, trouble) = (
            self.buffers.retry.wide.take(),
            self.buffers.retry.extra.take(),
            self.buffers.retry.trouble.take(),
        );
        let done = work();
        self.mode.set(before.0);
        self.waiting.patience.set(before.1);
        self.waiting.until.set(before.2);
        self.buffers.retry.wide.set(wide);
        self.buffers.retry.extra.replace(extra);
        self.buffers.retry.trouble.replace(trouble);
        done
    }

    /// Runs `work` while this transaction, which was aborted, is none: the thread has no pin, and may begin others.
    pub fn suspended<R>(&self, work: impl FnOnce() -> R) -> R {
        self.seat.unpin();
        self.seat.leave();
        let done = work();
        self.seat.enter();
        self.seat.pin();
        done
    }

    /// Whether the transaction gives up on locks after a time.
    pub fn is_impatient(&self) -> bool {
        self.waiting.patience.get().is_some()
    }

    /// Until when locks are waited for; the clock is read when that is asked for the first time.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.waiting.until.get().is_none() {
            self.waiting.until.set(self.waiting.patience.get().map(|patience| sync::now() + patience));
        }
        self.waiting.until.get()
    }

    /// Locks a word, and waits for it as long as [`Txn::limit_patience`] allows. Returns whether the word is ours or dead.
    pub(crate) fn lock_patiently(&self, at: u64) -> Result<Locked, Stop> {
        let locked = match self.seat.lock_now(at)? {
            Locked::Busy => {
                self.seat.stand_back(self.deadline());
                self.seat.lock(at, self.deadline())?
            }
            done => done,
        };
        if locked == Locked::Busy { Err(Stop::Busy) } else { Ok(locked) }
    }

    pub(crate) fn is_first_attempt(&self) -> bool {
        self.attempt.number.get() == 0
    }

    /// Where a key belongs, if that was foreseen.
    #[inline]
    pub(crate) fn foreseen_location(&self, db: Db, key: &[u8]) -> Option<&'t Location> {
        self.foreseen
            .filter(|(seen, location)| std::ptr::eq(*seen, key) && location.db() == db)
            .map(|(_, location)| location)
    }

    pub(crate) fn locks(&self) -> bool {
        self.mode.get() == Mode::Write || self.attempt.number.get() >= FREE_ATTEMPTS
    }

    #[inline]
    pub(crate) fn hash_of(&self, key: &[u8]) -> Hash {
        hash(key, self.segment().secret())
    }

    /// Keys that were found expired (or fields of which have) without being locked, for [`Table::collect_stale`] once this transaction is over.
    pub fn take_stale(&self) -> Vec<(Db, Vec<u8>)> {
        self.buffers.reads.stale.take()
    }

    /// As [`Table::count`], without a search for the thread's seat.
    #[inline]
    pub fn count(&self, counter: Counter, by: u64) {
        self.seat.add(polder_shm::layout::seat::COUNTERS + 8 * counter as u64, by);
    }

    /// Counts a lookup of a key, which was found or not. It is added to the counters when the transaction ends, and dropped with a retry.
    #[inline]
    pub fn count_look(&self, found: bool) {
        let [hits, misses] = self.counts.looks.get();
        self.counts.looks.set(if found { [hits + 1, misses] } else { [hits, misses + 1] });
    }

    /// Counts large values whose memory is freed later, while no call waits for it. They are added to the counter when the transaction ends.
    pub fn count_freed(&self, values: u64) {
        self.counts.freed.set(self.counts.freed.get() + values);
    }

    /// Hits and misses so far; a caller that runs something again sets them back.
    pub fn looks(&self) -> &Cell<[u32; 2]> {
        &self.counts.looks
    }

    /// The key's state, unless it is absent or expired. Counts as an access.
    ///
    /// # Errors
    /// [`Stop::Retry`], a fault.
    #[inline]
    pub fn find(&self, db: Db, key: &[u8]) -> Result<Option<Found<'_>>, Stop> {
        self.find_as(db, key, true)
    }

    /// As [`Txn::find`], without counting as an access of the key (TTL, TYPE, OBJECT and the like).
    ///
    /// # Errors
    /// As [`Txn::find`].
    pub fn peek(&self, db: Db, key: &[u8]) -> Result<Option<Found<'_>>, Stop> {
        self.find_as(db, key, false)
    }

    #[inline]
    fn find_as(&self, db: Db, key: &[u8], access: bool) -> Result<Option<Found<'_>>, Stop> {
        if self.locks() {
            if let Some(found) = self.find_single(db, key, access)? {
                return Ok(found);
            }
            let index = self.hold(db, key, false)?;
            let held = self.buffers.held.borrow();
            let image = match (held[index].pending, held[index].spot) {
                (Some(Pending::Write(image)), _) => image,
                (None, Some(spot)) if spot.expired.is_none() => spot.image,
                _ => return Ok(None),
            };
            // What this very transaction wrote may have been born expired (SET with a time in the past).
            let found = self.found(&image)?.and_then(|found| self.if_it_exists(db, key, found, true));
            if let (true, None, Some(spot), Some(_)) = (access, held[index].pending, held[index].spot, &found)
            {
                let bucket = self.buffers.shadows.borrow()[spot.shadow].bucket;
                self.note_access(bucket.word_at(bucket::LINE_WORDS + spot.unit * 2), image.words[0]);
            }
            return Ok(found);
        }
        let is_shared = self.shared.key == Some((db, key));
        let again = if is_shared { self.shared.hit.get() } else { None };
        let met = match again {
            Some(hit) => hit
                .map(|hit| Ok::<_, Stop>(self.found(&hit.image)?.map(|found| (hit, found))))
                .transpose()?
                .flatten(),
            None => self.look_up(db, key)?,
        };
        is_shared.then(|| self.shared.hit.set(Some(met.map(|(hit, _)| hit))));
        let Some((hit, found)) = met else { return Ok(None) };
        let Some(found) = self.if_it_exists(db, key, found, false) else { return Ok(None) };
        if access && !(is_shared && self.shared.accessed.replace(true)) {
            self.note_access(hit.first_at, hit.image.words[0]);
        }
        Ok(Some(found))
    }

    fn look_up(&self, db: Db, key: &[u8]) -> Result<Option<Met<'_>>, Stop> {
        self.attempt.lookups.set(self.attempt.lookups.get() + 1);
        let first = self.attempt.lookups.get() + self.attempt.number.get() == 1;
        if let Some((seen, location)) =
            self.foreseen.filter(|(seen, location)| first && std::ptr::eq(*seen, key) && location.db() == db)
            && let Some(met) = self.find_located(location, seen)?
        {
            self.attempt.unmarked.set(true);
            return Ok(met);
        }
        let hash = self.hash_of(key);
        let mut marks = self.buffers.reads.marks.borrow_mut();
        let hit = lookup::lookup(&self.seat, db, &hash, &(self, key), &mut marks)
            .map_err(|stop| self.met_in(db, stop))?;
        let Some(hit) = hit else { return Ok(None) };
        Ok(self.found(&hit.image)?.map(|found| (hit, found)))
    }

    /// Notes an access of an entry, whose first word lies there and was `first`.
    #[inline]
    pub(crate) fn note_access(&self, first_at: u64, first: u64) {
        self.table.note_access(first_at, first, clock::lru(self.coarse_ms()));
    }

    /// The time for access clocks: exact if it is known anyway, else the kernel's coarse one, which costs little.
    fn coarse_ms(&self) -> u64 {
        match (self.clock.now_ms.get(), self.clock.coarse_ms.get()) {
            (0, 0) => {
                self.clock.coarse_ms.set(polder_base::time::coarse_ms());
                self.clock.coarse_ms.get()
            }
            (0, coarse) => coarse,
            (now, _) => now,
        }
    }

    /// Takes an entry apart; `None` for a marker.
    ///
    /// # Errors
    /// An entry that this program cannot read, a fault.
    pub(crate) fn found(&self, image: &Image) -> Result<Option<Found<'_>>, Stop> {
        if image.is_reference() {
            let Some(kind) = image.kind()? else { return Ok(None) };
            return Ok(Some(record::found_in(image, kind, &self.record(image.record()?)?)));
        }
        record::found(self.segment(), self.buffers.arena.alloc(*image))
    }

    /// The whole key of an entry.
    pub(crate) fn key_of(&self, image: &Image) -> Result<Vec<u8>, Stop> {
        record::key_of(self, self.segment(), image)
    }

    pub(crate) fn record(&self, node: Ref) -> Result<Record<'_>, Fault> {
        let (kind, payload) = raw::payload(self.segment(), node)?;
        record::read(kind, payload)
    }

    /// Gives the key a value.
    ///
    /// # Errors
    /// [`Stop::Retry`], [`Fault::Full`].
    pub fn write(&self, db: Db, key: &[u8], new: &New<'_>, replaces: Replaces) -> Result<(), Stop> {
        if self.write_single(db, key, new, replaces)? {
            return Ok(());
        }
        let index = self.hold(db, key, false)?;
        let image = {
            let held = &self.buffers.held.borrow()[index];
            let absent = |spot: &Spot| spot.expired.is_some() || !is_key(&spot.image);
            let is_new = match &held.pending {
                Some(pending) => matches!(pending, Pending::Remove),
                None => held.spot.as_ref().is_none_or(absent),
            };
            if is_new {
                self.note_change('n', "new", db, key);
            }
            if let (Some(Pending::Write(image)), Value::Tree(_), Replaces::Edited) =
                (&held.pending, new.value, replaces)
                && self.rewrite(image, key, new)?
            {
                None
            } else {
                Some(self.image(
                    key,
                    &held.hash,
                    new,
                    self.new_clock(held.spot.as_ref().map(|spot| &spot.image)),
                )?)
            }
        };
        if let Some(image) = image {
            return self.replace(index, Pending::Write(image), replaces);
        }
        let write = self.count_write();
        self.buffers.held.borrow_mut()[index].leave_untold(write);
        Ok(())
    }

    /// Writes the root of a tree over the one in the record that this transaction has made for the same key, if nothing else about the
    /// record changes: calls that share a transaction do this again and again. S1: the record is not published yet.
    fn rewrite(&self, image: &Image, key: &[u8], new: &New<'_>) -> Result<bool, Fault> {
        let record = entry::record_of(image.words[1]);
        let ours = image.is_reference() && self.buffers.nodes.made.borrow().contains(record);
        if !ours || key.len() > record::KEY_MAX || image.meta() & entry::KIND != new.kind as u8 {
            return Ok(false);
        }
        let (kind, payload) = raw::payload(self.segment(), record)?;
        let old = record::read(kind, payload)?;
        let same = matches!(old.value, Value::Tree(_))
            && (old.expiry_ms, old.flags, old.raw, old.text) == (new.expiry_ms, new.flags, new.raw, new.text)
            && old.extras == new.extras
            && old.inner_expiry_ms.is_some() == new.inner_expiry_ms.is_some();
        if !same {
            return Ok(false);
        }
        let Value::Tree(root) = new.value else { return Ok(false) };
        let Some(places) = record::root_places(kind, payload) else { return Ok(false) };
        raw::fill_words(self.segment(), record, places[0], root.refs.map(|node| node.0));
        raw::fill_words(self.segment(), record, places[1], [root.count, root.extra]);
        Ok(true)
    }

    /// Removes the key; returns whether it was there. [`Replaces::Edited`] keeps its trees (RENAME and MOVE use them under another name).
    ///
    /// # Errors
    /// [`Stop::Retry`], a fault.
    pub fn remove(&self, db: Db, key: &[u8], replaces: Replaces) -> Result<bool, Stop> {
        if let Some(there) = self.remove_single(db, key, replaces) {
            return Ok(there);
        }
        let index = self.hold(db, key, false)?;
        let (pending, spot) = {
            let held = &self.buffers.held.borrow()[index];
            (held.pending, held.spot)
        };
        let there = match (pending, spot) {
            // This transaction has written it with an expiry in the past: it is removed, but counts as never there.
            (Some(Pending::Write(image)), _) if self.gone(&image)?.is_some() => {
                self.replace(index, Pending::Remove, Replaces::Whole)?;
                false
            }
            (Some(Pending::Write(image)), _) => is_key(&image),
            (Some(Pending::Remove), _) => false,
            (None, spot) => spot.is_some_and(|spot| spot.expired.is_none() && is_key(&spot.image)),
        };
        if there {
            self.replace(index, Pending::Remove, replaces)?;
        }
        Ok(there)
    }

    /// Makes `pending` what the key is going to be, and retires what it was going to be.
    pub(crate) fn replace(&self, index: usize, pending: Pending, replaces: Replaces) -> Result<(), Stop> {
        let whole = replaces == Replaces::Whole;
        let write = self.count_write();
        let before = {
            let mut held = self.buffers.held.borrow_mut();
            let held = &mut held[index];
            held.leave_untold(write);
            let before = held.pending.replace(pending);
            if before.is_none() {
                // An expired value is not used by the new one, so all of it goes, also where `replaces` says that the new value is an edit.
                held.retires = Some(whole || held.spot.is_some_and(|spot| spot.expired.is_some()));
            }
            before
        };
        match before {
            Some(Pending::Write(image)) => self.spend_record(&image, whole),
            Some(Pending::Remove) => Ok(()),
            None => {
                self.tell_kept(index);
                Ok(())
            }
        }
    }

    /// The clock of an entry that is written now.
    pub(crate) fn new_clock(&self, old: Option<&Image>) -> u32 {
        let now = self.coarse_ms();
        match old {
            _ if !self.table.counts_frequency() => clock::lru(now),
            Some(old) => self.table.next_frequency(old.clock(), now),
            None => clock::lfu(clock::LFU_INITIAL, now),
        }
    }

    /// Builds the entry of `key` with `new`: inline if it fits, else with a record, which is made here.
    pub(crate) fn image(&self, key: &[u8], hash: &Hash, new: &New<'_>, clock: u32) -> Result<Image, Fault> {
        let first = entry::first_word(self.seat.next_version(), clock);
        if let Value::Packed(value) = new.value
            && !new.text
            && new.extras.is_empty()
            && new.inner_expiry_ms.is_none()
            && entry::inline_bytes(key.len(), value.len(), new.expiry_ms.is_some(), new.flags != 0)
                <= entry::INLINE_MAX
        {
            let meta = new.kind as u8 | if new.raw { entry::RAW } else { 0 };
            return Ok(entry::inline(
                first,
                &entry::Inline { meta, expiry_ms: new.expiry_ms, flags: new.flags, key, value },
            ));
        }
        let node = match (new.value, record::plain_head(key, new)) {
            (Value::Packed(value), Some(head)) => self.make_record(NodeKind::Plain, &[&head, key, value])?,
            _ => {
                if !new.extras.is_empty() {
                    extras::announce(self.segment());
                }
                let draft = record::Draft::new(self, key, new)?;
                self.make_record(draft.kind(), &draft.parts())?
            }
        };
        if let Value::Tree(_) = new.value {
            self.buffers.nodes.made.borrow_mut().insert(node);
        }
        let expires = (new.expiry_ms.is_some(), new.inner_expiry_ms.is_some());
        Ok(entry::with_reference(first, new.kind as u8, expires, hash.extra, node))
    }

    #[inline]
    pub(crate) fn make_record(&self, kind: NodeKind, parts: &[&[u8]]) -> Result<Ref, Fault> {
        let node = self.seat.make(kind, parts.iter().map(|part| part.len()).sum())?;
        raw::fill(self.segment(), node, parts);
        Ok(node)
    }

    /// Sets the access clock of a key (RESTORE's IDLETIME and FREQ).
    ///
    /// # Errors
    /// As [`Txn::find`].
    pub fn set_clock(&self, db: Db, key: &[u8], clock: u32) -> Result<(), Stop> {
        let index = self.hold(db, key, false)?;
        let mut held = self.buffers.held.borrow_mut();
        let held = &mut held[index];
        let with_clock = |mut image: Image| {
            image.words[0] = entry::first_word(image.version(), clock);
            image
        };
        match (held.pending, held.spot) {
            (Some(Pending::Write(image)), _) => held.pending = Some(Pending::Write(with_clock(image))),
            (None, Some(spot)) if spot.expired.is_none() => {
                held.pending = Some(Pending::Write(with_clock(spot.image)))
            }
            _ => {}
        }
        Ok(())
    }

    /// Publishes everything at once.
    ///
    /// # Errors
    /// [`Stop::Retry`] when something that was read has changed, or room must be made first; [`Fault::Full`].
    pub fn commit(&self) -> Result<(), Stop> {
        if !self.locks() {
            self.lock_posts()?;
            // One lookup is one state already. Several lookups, or one and a message, must have been true at the same time. They are validated
            // with the inboxes locked: a transaction that changes what was read here and posts about it then posts behind these messages.
            let moments = self.attempt.lookups.get() + u32::from(self.has_posts() || self.has_news());
            if moments > 1
                && (self.attempt.unmarked.get()
                    || !lookup::validate(self.segment(), &self.buffers.reads.marks.borrow()))
            {
                return Err(Stop::Retry);
            }
            return self.commit_posts();
        }
        // First of all: if making room has failed, this attempt fails, too. Otherwise it would be retried for ever.
        self.buffers.take_trouble()?;
        if self.commit_single()? {
            return Ok(());
        }
        if !self.is_of_one_time() {
            return Err(Stop::Retry);
        }
        self.retire_spent()?;
        match self.place_all() {
            Ok(()) => {}
            Err(Deficit::Room(wanting)) => {
                *self.buffers.retry.wanting.borrow_mut() = wanting;
                return Err(Stop::Retry);
            }
            Err(Deficit::Stop(stop)) => return Err(stop),
        }
        self.note_databases()?;
        self.tell_listeners()?;
        self.publish()?;
        self.attempt.dirty.set(false);
        Ok(())
    }

    /// For a transaction of several keys: whether none of their databases was flushed or swapped since they were locked. A write of a single
    /// key may count as before a FLUSH that came meanwhile. But a transaction that has read what another one wrote together with its FLUSH
    /// must not write into the directory that this FLUSH has taken away. Nor may it write one key twice because SWAPDB gave its database
    /// another number.
    fn is_of_one_time(&self) -> bool {
        let held = self.buffers.held.borrow();
        let map = self.segment().observe(MAP_LOCK);
        let are_roots = || held.iter().all(|held| held.fresh || self.is_root(held.db, held.extent.root));
        // The map's lock word is the same before and after, so no thread has changed the map meanwhile: all roots held at one moment.
        held.len() <= 1 || are_roots() && self.segment().observe(MAP_LOCK) == map
    }

    /// Notes what differs in the shadows, and commits.
    fn publish(&self) -> Result<(), Stop> {
        let mapped =
            !self.buffers.map.flushes.borrow().is_empty() || !self.buffers.map.swaps.borrow().is_empty();
        if !self.buffers.note_changes(&self.seat, self.segment())?
            && self.buffers.nodes.olds.get() == 0
            && !mapped
            && !self.has_posts()
            && !self.has_news()
        {
            self.seat.rollback();
            return Ok(());
        }
        self.buffers.note_tallies(&self.seat, self.segment())?;
        self.note_posts()?;
        if self.has_news() {
            self.begin_news()?;
        }
        self.enter_commit()?;
        // The last step that can fail without leaving a trace.
        let saves_late = sync::has(Flaw::SavesLate);
        let olds = if saves_late { 0 } else { self.before_commit()? };
        if sync::has(Flaw::LeavesEarly) {
            self.seat.leave_commit();
        }
        self.seat.commit(self.buffers.nodes.olds.get() + olds)?;
        if saves_late {
            self.before_commit()?;
        }
        // What is kept about clients and settings is no change of the data, nor is an entry that says the same as before.
        let held = self.buffers.held.borrow();
        let changes = held
            .iter()
            .filter(|held| {
                held.counts && held.pending.is_some() && held.retires.is_some() && held.db < SYSTEM
            })
            .count();
        let map = self.buffers.map.flushes.borrow().len() + self.buffers.map.swaps.borrow().len();
        self.count(Counter::Changes, (changes + map) as u64);
        Ok(())
    }

    /// Shows the keys that change.
    #[cold]
    pub(crate) fn record_changes(&self, record: &mut dyn FnMut(Changed<'_>)) {
        for held in self.buffers.held.borrow().iter().filter(|held| !held.fresh) {
            let after = match held.pending {
                Some(Pending::Write(ref image)) => Some(image),
                Some(Pending::Remove) => None,
                None if held.spot.is_some_and(|spot| spot.expired.is_some()) => None,
                None => continue,
            };
            let before = held.spot.as_ref().map(|spot| &spot.image);
            record(Changed {
                root: held.extent.root,
                hash: &held.hash,
                key: &self.buffers.key_of(held.key),
                before,
                after,
            });
        }
    }

    /// Undoes everything. The transaction can then be used for a retry, for which this makes the room or the database that was missing.
    pub fn abort(&self) {
        self.attempt.number.set(self.attempt.number.get() + 1);
        self.count(Counter::Retries, 1);
        self.begin_again(true);
    }

    /// The same, where that is no retry.
    pub(crate) fn reset(&self) {
        self.begin_again(false);
    }

    fn begin_again(&self, anew: bool) {
        if self.attempt.dirty.replace(false) {
            self.seat.rollback();
        }
        self.buffers.forget();
        self.forget_single();
        self.counts.freed.set(0);
        self.attempt.lookups.set(0);
        self.attempt.unmarked.set(false);
        self.shared.hit.set(None);
        self.shared.accessed.set(false);
        self.notes.telling.set(Telling::Unknown);
        self.notes.has_news.set(false);
        self.notes.writes.set(0);
        self.notes.map_untold.set(0);
        self.tells();
        if let Some(db) = self.buffers.retry.missing.take() {
            self.make_database(db);
        }
        let wanting = std::mem::take(&mut *self.buffers.retry.wanting.borrow_mut());
        self.make_room(&wanting, anew);
        if self.buffers.retry.is_garbage_full.take() {
            self.sweep_some();
        }
        self.await_swaps();
    }

    /// Notes why making room has failed. The next step fails with it, so that the transaction is not retried for ever.
    pub(crate) fn trouble(&self, stop: impl Into<Stop>) {
        *self.buffers.retry.trouble.borrow_mut() = Some(stop.into());
    }

    pub(crate) fn shadow_mut<R>(&self, index: usize, change: impl FnOnce(&mut Editing<'_>) -> R) -> R {
        let mut shadows = self.buffers.shadows.borrow_mut();
        change(&mut Editing { shadow: &mut shadows[index], segment: self.segment() })
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        if self.makes_room.get() {
            self.table.room_makers.remove();
        }
        if sync::is_dead() || !self.seat.is_own() {
            // A forked child's copy: seat, journal and pin are its parent's. Or a checker has let the thread die.
            return;
        }
        if self.attempt.dirty.get() {
            self.seat.rollback();
        }
        for (count, counter) in self.counts.looks.get().into_iter().zip([Counter::Hits, Counter::Misses]) {
            if count != 0 {
                self.count(counter, count.into());
            }
        }
        if self.counts.freed.get() != 0 {
            self.count(Counter::Freed, self.counts.freed.get());
        }
        self.seat.unpin();
        self.seat.leave();
        if self.notes.telling.get() == Telling::Yes && self.seat.outbox_waiting() > WAITING_MAX {
            self.table.log().merge_as_writer();
        }
    }
}

impl Nodes for Txn<'_> {
    fn data(&self, node: Ref) -> Result<&[u8], Fault> {
        Ok(self.parts(node)?.1)
    }

    fn refs(&self, node: Ref) -> Result<&[Ref], Fault> {
        Ok(self.parts(node)?.0)
    }

    #[inline]
    fn parts(&self, node: Ref) -> Result<(&[Ref], &[u8]), Fault> {
        raw::parts(self.segment(), node)
    }

    #[inline]
    fn prefetch(&self, node: Ref, at: usize, lines: usize) {
        self.segment().prefetch_lines(offset_of(node).wrapping_add(at as u64), lines as u64);
    }

    fn make(&self, refs: &[Ref], parts: &[&[u8]]) -> Result<Ref, Fault> {
        self.attempt.dirty.set(true);
        let data: usize = parts.iter().map(|part| part.len()).sum();
        let node = if refs.is_empty() {
            let node = self.seat.make(NodeKind::Data, data)?;
            raw::fill(self.segment(), node, parts);
            node
        } else {
            let node = self.seat.make(NodeKind::DataRefs, 8 + refs.len() * 8 + data)?;
            raw::fill_refs(self.segment(), node, refs, parts);
            node
        };
        self.buffers.nodes.made.borrow_mut().insert(node);
        Ok(node)
    }

    fn make_by(&self, length: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<Ref, Fault> {
        self.attempt.dirty.set(true);
        let node = self.seat.make(NodeKind::Data, length)?;
        raw::fill_by(self.segment(), node, length, fill);
        self.buffers.nodes.made.borrow_mut().insert(node);
        Ok(node)
    }

    fn edit(&self, node: Ref, change: &mut dyn FnMut(&mut [Ref], &mut [u8])) -> bool {
        self.buffers.nodes.made.borrow().contains(node) && raw::edit(self.segment(), node, change).is_ok()
    }

    fn copy(&self, node: Ref, change: &mut dyn FnMut(&mut [Ref], &mut [u8])) -> Result<Ref, Fault> {
        let (refs, data) = self.parts(node)?;
        let copy = self.make(refs, &[data])?;
        raw::edit(self.segment(), copy, change)?;
        Ok(copy)
    }

    #[inline]
    fn is_private(&self, node: Ref) -> bool {
        self.buffers.nodes.made.borrow().contains(node)
    }

    fn release(&self, node: Ref) {
        self.release_node(node, false);
    }

    fn release_tree(&self, node: Ref) {
        self.release_node(node, true);
    }
}
