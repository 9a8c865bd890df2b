//! A snapshot: every key as it was at one instant, read step by step while other threads go on writing.
//!
//! Nodes are immutable, so a pin keeps all values of an instant. A writer replaces only the entry in a bucket, and saves the old one for the
//! snapshot before its commit. Only overwritten entries are copied, no process forks, and no writer waits for the snapshot's reader.
//!
//! ```text
//!  reader   lock the map - read the roots - announce - unlock | wait for running transactions | watermark | walk ...
//!  writer   lock buckets ... build ... LOOK: announced? save the old entries - commit - write out - unlock
//!
//!  record   serial | root | position | words, what, tag, extra | key's length, key      what: an entry, or that there was none
//!           (8)      (8)    (8)        (2)    (1)   (1)  (2)     (8, ..)  not for entries that lie inline
//!           followed by the entry's words
//! ```
//!
//! Why it is one instant. A transaction *looks* at the header's word RECORDING once: with all its locks held, after all its reads, and right
//! before its commit (K1 of `recording.rs`).
//!
//! - **N1** A transaction that looks before the announcement is *in* the snapshot. Its journal is not empty at that moment, so the reader
//!   waits for its end before it reads anything (`shm/snapshot_log.rs`). A transaction that looks after the announcement is *out*. It saves the
//!   old state of each key that it changes before it commits. So the snapshot has all of a transaction or nothing of it. A transaction
//!   that is in has read nothing that one that is out has written: it looks after its reads, so it would have seen the announcement, too.
//! - **N2** The state of a key is that of its first record, by the serial; without a record, it is what is in its bucket. Records of one key
//!   are made under its lock, so their serials are in order. The reader reads the bucket first, then the serial, then the records with
//!   lower serials. So if it finds a later state in the bucket, it also finds the record that was saved before that state. It reads the
//!   serial in between since otherwise it could find a key's second record without its first, which another seat may append after the
//!   reader has read that seat's chain. A thread that draws a serial has seen the key's lock free, so all earlier records of that key are
//!   complete. A record that is saved too early, or by a transaction that fails, does no harm: it holds the state that was current.
//! - **N3** An entry with a version above the watermark was written by a transaction that is out, so it is never a state of the instant.
//!   Before it there was a record, or no key. So a change from such an entry (or none) to such an entry (or none) needs no record, and each
//!   key is saved once. (Seats draw versions in blocks of a thousand. Versions that a seat drew before the watermark and uses after it are
//!   below the watermark and prove nothing. Entries with such versions are saved again, which does no harm.)
//! - **N4** The roots are read and the snapshot is announced under the map's lock. FLUSH, SWAPDB and the making of a database hold that lock
//!   when they look. So the map is that of the same instant. A database that is flushed later keeps its directory until the reader has
//!   passed it: the sweep leaves it alone (`recording::is_wanted`).
//! - **N5** What lies before PASSED (by tally of the root, then by position) has been captured, and no writer saves it any more.
//! - **N6** The reader follows a node only if it belongs to the instant: that of an entry in a key's first record or, without a record, in
//!   the bucket, with a version up to the watermark. Such nodes were born before the pin's upper end was fixed, so the pin holds them.
//!
//! Growth moves entries but changes no key: it neither looks nor saves, and a walk by position does not notice it, as in SCAN.
//!
//! **Reading from elsewhere.** Nothing above depends on the reader: it may be a process that copies the
//! memory into one of its own (`upkeep/copying.rs`). Its seat owns the snapshot; the threads of it that copy
//! need no seat here ([`View`]), since the snapshot's pin, which is the header's (O4), holds all nodes that
//! they follow (N6) until the snapshot is dropped, also once it is broken. They are handed items by the
//! thread that walks, so they see all that it has seen.
//!
//! If the reader dies, its seat is recovered, which ends the snapshot; the writers' next reclamations free what was saved. If a writer dies
//! while it saves a record, that record does not count (O1). If a writer has no memory for its record, it breaks the snapshot and goes on.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use polder_base::{Fault, Ref};
use polder_shm::layout::header;
use polder_shm::snapshot_log::Place;
use polder_shm::sync::{self, Flaw};
use polder_shm::{Locked, Seat, Segment};
use polder_values::Nodes;

use crate::api::{DATABASES, Db, Found, Mode, Stop};
use crate::layout::attempts::Attempts;
use crate::layout::directory::{self, MAP_LOCK, map_at};
use crate::layout::entry::is_key;
use crate::layout::entry::{self, Image, WORDS_MAX};
use crate::layout::expired::Expired;
use crate::layout::hash::Hash;
use crate::layout::parcel;
use crate::layout::raw;
use crate::layout::record;
use crate::layout::stub;
use crate::log::recording::{HEAD_WORDS, INLINE, KEY_KEPT, REFERENCE, order};
use crate::table::Table;

/// Entries that one step of a walk captures, about.
const STRETCH: usize = 256;
/// How long one look for the place, or for a lock, lasts.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long the change log may wait for the cut of a snapshot: the transactions that have begun before must end.
const CUT_PATIENCE: Duration = Duration::from_secs(1);
/// Bits of a record's place that are its offset.
const OFFSET_BITS: u32 = 48;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const DAMAGED: Fault = Fault::Damaged { what: "what was saved for a snapshot" };
/// What is known of a key besides its bytes, as a record tells it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Name {
    hash: (u64, u8, u16),
    len: usize,
    kept: Vec<u8>,
}

impl Name {
    fn of(hash: &Hash, key: &[u8]) -> Name {
        let kept = key[..key.len().min(KEY_KEPT)].to_vec();
        Name { hash: (hash.position, hash.tag, hash.extra), len: key.len(), kept }
    }
}

/// A record, taken apart.
struct Saved {
    root: u64,
    name: Name,
    /// What there was.
    image: Option<Image>,
}

/// Reads the record at `at`, of at most `room` words.
fn read_saved(segment: &Segment, at: u64, room: u64) -> Result<Saved, Fault> {
    let word = |index: u64| if index < room { Ok(segment.load(at + index * 8)) } else { Err(DAMAGED) };
    let (root, position, shape) = (word(1)?, word(2)?, word(3)?);
    let (words, what) = (shape & 0xffff, shape >> 16 & 0xff);
    let hash = (position, (shape >> 24) as u8, (shape >> 32) as u16);
    let read_image = |from: u64| {
        let mut image = Image::EMPTY;
        let count = words
            .checked_sub(from)
            .filter(|count| (2..=WORDS_MAX as u64).contains(count) && count.is_multiple_of(2))
            .ok_or(DAMAGED)?;
        for number in 0..count {
            image.words[number as usize] = word(from + number)?;
        }
        image.units = count as usize / 2;
        if image.is_reference() == (what == REFERENCE) { Ok(image) } else { Err(DAMAGED) }
    };
    let begin = HEAD_WORDS as u64;
    if what == INLINE {
        let image = read_image(begin)?;
        let key = entry::inline_fields(image.bytes()).ok_or(DAMAGED)?.key.to_vec();
        return Ok(Saved { root, name: Name { hash, len: key.len(), kept: key }, image: Some(image) });
    }
    let len = word(begin)? as usize;
    let kept_words = len.min(KEY_KEPT).div_ceil(8) as u64;
    let mut kept = Vec::with_capacity(kept_words as usize * 8);
    for number in 0..kept_words {
        kept.extend_from_slice(&word(begin + 1 + number)?.to_le_bytes());
    }
    kept.truncate(len.min(KEY_KEPT));
    let image = if what == REFERENCE { Some(read_image(begin + 1 + kept_words)?) } else { None };
    Ok(Saved { root, name: Name { hash, len, kept }, image })
}

/// A key as it was at the instant.
pub struct Item {
    pub key: Vec<u8>,
    image: Image,
    /// The copy that the tier has of it, where its entry is a stub.
    copy: Option<Vec<u8>>,
}

/// A database of the instant.
#[derive(Clone, Copy, Debug)]
pub struct Captured {
    pub db: Db,
    root: u64,
    /// How many keys there are, and how many of them with an expiry: about.
    pub keys: u64,
    pub expires: u64,
}

/// All databases at one instant. One at a time in a segment; the calling thread's.
pub struct Snapshot<'t> {
    table: &'t Table,
    seat: Rc<Seat>,
    number: u64,
    now_ms: u64,
    /// What has expired counts as there: a snapshot that a log goes on behind. A call of that log may have begun before, and have met it alive.
    keeps_expired: bool,
    watermark: u64,
    /// In the order of the walk.
    databases: Vec<Captured>,
    walk: RefCell<Walk>,
}

/// The progress of a snapshot's reader.
#[derive(Default)]
struct Walk {
    /// The database, and the position in it.
    at: usize,
    position: u64,
    /// How far the seats' records have been read.
    places: Vec<Place>,
    /// Where the records lie that the walk has not come by (in the lower 48 bits) and how many words they have, by order and serial.
    records: BTreeMap<(u64, u64), u64>,
}

impl Walk {
    /// The place of the walk.
    fn order(&self, databases: &[Captured]) -> u64 {
        match databases.get(self.at) {
            Some(captured) => order(captured.root, self.position),
            None => u64::MAX,
        }
    }
}

/// The keys of a snapshot, for any thread: the nodes that they need are there as long as the snapshot.
#[derive(Clone, Copy)]
pub struct View<'s> {
    segment: &'s Segment,
    judged_ms: u64,
    /// Its access clocks count accesses.
    pub(crate) counts_frequency: bool,
}

impl Table {
    /// Takes a snapshot. While it waits for another snapshot or for running transactions, it asks `goes_on` now and then. The calling thread
    /// must have no transaction.
    ///
    /// # Errors
    /// [`Fault::System`] when `goes_on` returns false; it names the seat that was waited for. A fault.
    pub fn snapshot(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<Snapshot<'_>, Fault> {
        let seat = self.seat()?;
        if !seat.enter() {
            return Err(Fault::System("this thread has a transaction already: end it first".into()));
        }
        let begun = self.begin_snapshot(&seat, goes_on, false);
        seat.leave();
        begun
    }

    /// As [`Table::snapshot`], and tells `cut` where in the change log it lies: the bytes before this offset have made what the snapshot shows, and
    /// those behind it begin in this database. As long as `cut` has not been called, the log does not reach beyond that offset. The log
    /// must be on.
    ///
    /// # Errors
    /// As there; what the log says. A transaction that goes on for longer than [`CUT_PATIENCE`] prevents it, since the log waits meanwhile.
    pub fn snapshot_in_log(
        &self,
        goes_on: &mut dyn FnMut() -> bool,
        cut: &mut dyn FnMut(u64, Option<Db>),
    ) -> Result<Snapshot<'_>, Fault> {
        let seat = self.seat()?;
        if !seat.enter() {
            return Err(Fault::System("this thread has a transaction already: end it first".into()));
        }
        let (segment, mut since) = (self.segment(), None);
        let mut goes_on = || {
            let cutting = segment.observe(polder_shm::layout::log::CUT) != 0;
            since = cutting.then(|| since.unwrap_or_else(sync::now));
            goes_on() && since.is_none_or(|since| sync::now() - since < CUT_PATIENCE)
        };
        let begun = self.begin_snapshot(&seat, &mut goes_on, true);
        seat.leave();
        let snapshot = begun?;
        // L8: what belongs to the snapshot is in outboxes by now, and what does not is held back. Dropping the snapshot ends that as well.
        while !self.log().merge_all()? {
            if !goes_on() {
                return Err(Fault::System(
                    "no snapshot: another thread merges the change log, and may be stopped".into(),
                ));
            }
            sync::sleep(LOOK_AGAIN);
        }
        let (offset, db) = self.log().end();
        cut(offset, db);
        segment.publish(polder_shm::layout::log::CUT, 0);
        Ok(snapshot)
    }

    fn begin_snapshot(
        &self,
        seat: &Rc<Seat>,
        goes_on: &mut dyn FnMut() -> bool,
        cuts: bool,
    ) -> Result<Snapshot<'_>, Fault> {
        let segment = self.segment();
        let number = loop {
            if let Some(number) = seat.begin_snapshot() {
                break number;
            }
            segment.recover_dead();
            if !goes_on() {
                let owner = polder_shm::lock::owner(segment.observe(header::SNAPSHOT_OWNER)).unwrap_or(0);
                return Err(waiting(segment, owner, "has a snapshot of its own"));
            }
            sync::sleep(LOOK_AGAIN);
        };
        // From here on it ends when it is dropped.
        let mut snapshot = Snapshot {
            table: self,
            seat: seat.clone(),
            number,
            now_ms: 0,
            keeps_expired: cuts,
            watermark: 0,
            databases: Vec::new(),
            walk: RefCell::default(),
        };
        let locked = loop {
            match seat.lock(MAP_LOCK, Some(sync::now() + LOOK_AGAIN))? {
                Locked::Busy if goes_on() => {}
                locked => break locked,
            }
        };
        let Locked::Ours(_) = locked else {
            return Err(Fault::System(
                "the map of databases is held by a process that is stopped: let it go on or end it".into(),
            ));
        };
        // N4.
        let roots: Vec<(Db, u64)> = (0..DATABASES as Db)
            .map(|db| (db, segment.observe(map_at(db) + 8)))
            .filter(|(_, root)| *root != 0)
            .collect();
        if cuts {
            // L8: before any commit can be of this era.
            segment.publish(polder_shm::layout::log::CUT, number);
        }
        seat.announce_snapshot(number);
        snapshot.now_ms = polder_base::time::now_ms();
        seat.rollback();
        // N1.
        if !sync::has(Flaw::AwaitsNoTransaction) {
            segment
                .await_transactions(seat.index(), goes_on)
                .map_err(|seat| waiting(segment, seat, "is in the midst of a transaction"))?;
        }
        snapshot.watermark = seat.settle_snapshot();
        snapshot.databases.extend(roots.into_iter().map(|(db, root)| {
            let (keys, expires) = self.keys(db);
            Captured { db, root, keys, expires }
        }));
        snapshot.databases.sort_by_key(|captured| directory::tally_of(captured.root));
        Ok(snapshot)
    }
}

/// The error of a snapshot that was given up while it waited for `seat`.
fn waiting(segment: &Segment, seat: u64, does: &str) -> Fault {
    let process = segment.load(segment.seat_at(seat) + polder_shm::layout::seat::OWNER) as u32;
    Fault::System(format!("no snapshot: seat {seat} (process {process}) {does}, and may be stopped"))
}

impl Table {
    /// A key whose entry is a stub, by its copy, where this process has the tier.
    fn copied(&self, name: stub::Name, image: Image) -> Result<(Hash, Item), Stop> {
        let copy = self.copy(name)?;
        let key = parcel::unpack(&copy)?.key.to_vec();
        let hash = self.hash(&key);
        if stub::Name::of(&hash, name.version) != name {
            return Err(Fault::Damaged { what: "a copy in the tier: it is another key's" }.into());
        }
        Ok((hash, Item { key, image, copy: Some(copy) }))
    }
}

impl Snapshot<'_> {
    /// The time of the instant: keys that had expired by then are not in it.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The time before which keys and fields have expired that are left out.
    pub fn judged_ms(&self) -> u64 {
        if self.keeps_expired { 0 } else { self.now_ms }
    }

    /// The databases that had keys, in the order in which the walk comes by.
    pub fn databases(&self) -> &[Captured] {
        &self.databases
    }

    /// The next keys, and the number (among [`Snapshot::databases`]) of their database; nothing at the end. They can be read until the
    /// snapshot ends.
    ///
    /// # Errors
    /// [`Fault::Full`] when a writer had no memory to save what it replaced; [`Fault::Damaged`].
    pub fn advance(&self) -> Result<Option<(usize, Vec<Item>)>, Stop> {
        let walk = &mut *self.walk.borrow_mut();
        let Some(captured) = self.databases.get(walk.at).copied() else { return Ok(None) };
        let begin = walk.position;
        // N2: first the buckets, then the records.
        let (live, next) = self.live(&captured, begin, STRETCH)?;
        let saved = self.saved(walk, captured.root, begin, next)?;
        let mut items = Vec::with_capacity(live.len() + saved.len());
        for (hash, item) in live {
            if saved.is_empty() || !saved.contains_key(&Name::of(&hash, &item.key)) {
                items.push(item);
            }
        }
        for (name, image) in saved {
            items.extend(self.item(name, image)?);
        }
        let number = walk.at;
        match next {
            Some(next) => walk.position = next,
            None => (walk.at, walk.position) = (walk.at + 1, 0),
        }
        // N5.
        let passed = walk.order(&self.databases);
        self.seat.pass_snapshot(passed);
        while walk.records.first_key_value().is_some_and(|((order, _), _)| *order < passed) {
            walk.records.pop_first();
        }
        Ok(Some((number, items)))
    }

    /// One key, of what the walk has not come by yet.
    ///
    /// # Errors
    /// As [`Snapshot::advance`].
    pub fn find(&self, db: Db, key: &[u8]) -> Result<Option<Item>, Stop> {
        let Some(captured) = self.databases.iter().find(|captured| captured.db == db).copied() else {
            return Ok(None);
        };
        let hash = crate::layout::hash::hash(key, self.table.segment().secret());
        let (live, _) = self.live(&captured, hash.position, 0)?;
        let end = hash.position.checked_add(1);
        let saved = self.saved(&mut self.walk.borrow_mut(), captured.root, hash.position, end)?;
        if let Some((name, image)) = saved.into_iter().find(|(name, _)| *name == Name::of(&hash, key)) {
            return self.item(name, image);
        }
        Ok(live.into_iter().map(|(_, item)| item).find(|item| item.key == key))
    }

    /// What a key was; nothing for one that had expired, except where the change log goes on behind the snapshot.
    ///
    /// # Errors
    /// An entry that this program cannot read, [`Fault::Damaged`].
    pub fn found<'s>(&'s self, item: &'s Item) -> Result<Option<Found<'s>>, Stop> {
        self.view().found(item)
    }

    /// A view for other threads, of keys that the walk has come by.
    pub fn view(&self) -> View<'_> {
        let counts_frequency = self.table.counts_frequency();
        View { segment: self.table.segment(), judged_ms: self.judged_ms(), counts_frequency }
    }

    /// N3 and N6: whether an entry may be a key of the instant.
    fn may_be(&self, image: &Image) -> bool {
        is_key(image) && image.version() <= self.watermark
    }

    fn item(&self, name: Name, image: Option<Image>) -> Result<Option<Item>, Stop> {
        let Some(image) = image.filter(|image| self.may_be(image)) else { return Ok(None) };
        if let Some(name) = image.stub() {
            return self.table.copied(name, image).map(|(_, item)| Some(item));
        }
        let key = if name.len == name.kept.len() {
            name.kept
        } else {
            record::key_of(&self.view(), self.table.segment(), &image)?
        };
        Ok(Some(Item { key, image, copy: None }))
    }

    /// What lies in the buckets from a position on, about `count` entries at least, and where the next position is.
    #[allow(clippy::type_complexity)]
    fn live(
        &self,
        captured: &Captured,
        begin: u64,
        count: usize,
    ) -> Result<(Vec<(Hash, Item)>, Option<u64>), Stop> {
        let txn = self.table.begin(Mode::Read)?;
        let (mut live, mut next, mut attempts) = (Vec::new(), Some(begin), Attempts::default());
        while let Some(position) = next {
            let Some((entries, after)) = txn.bucket_from(captured.db, captured.root, position)? else {
                let failed = attempts.count(|| txn.signs(captured.root, position));
                if failed.is_err() || self.table.segment().is_broken(self.number) {
                    return Err(self
                        .broken()
                        .or(failed.err())
                        .unwrap_or(Fault::Damaged { what: "a bucket" })
                        .into());
                }
                continue;
            };
            attempts = Attempts::default();
            for (hash, image) in entries {
                match image.stub().filter(|_| self.may_be(&image)) {
                    Some(name) => {
                        let copied = self.table.copied(name, image)?;
                        // A stub does not say where in its granule it belongs: the walk has come by.
                        live.extend(Some(copied).filter(|(hash, _)| hash.position >= position));
                    }
                    None if self.may_be(&image) => {
                        live.push((hash, Item { key: txn.key_of(&image)?, image, copy: None }));
                    }
                    None => {}
                }
            }
            next = after;
            if live.len() >= count {
                break;
            }
        }
        Ok((live, next))
    }

    /// What had been saved of the keys from a position up to before another one when this is called: the first of each.
    fn saved(
        &self,
        walk: &mut Walk,
        root: u64,
        begin: u64,
        next: Option<u64>,
    ) -> Result<HashMap<Name, Option<Image>>, Fault> {
        // N2. SYNC: snapshot-serial. A thread that drew a lower serial has published the earlier records of the same key.
        let serial_end = self.table.segment().observe(header::SNAPSHOT_SERIAL);
        self.collect(walk)?;
        if let Some(fault) = self.broken() {
            return Err(fault);
        }
        let mut saved = HashMap::new();
        let range = (order(root, begin), 0)..=(order(root, next.unwrap_or(u64::MAX)), u64::MAX);
        for (_, packed) in walk.records.range(range).filter(|((_, serial), _)| *serial < serial_end) {
            let packed = *packed;
            let record = read_saved(self.table.segment(), packed & OFFSET_MASK, packed >> OFFSET_BITS)?;
            let position = record.name.hash.0;
            if record.root == root && position >= begin && next.is_none_or(|next| position < next) {
                saved.entry(record.name).or_insert(record.image);
            }
        }
        Ok(saved)
    }

    /// Reads the records that have been saved since the last time.
    fn collect(&self, walk: &mut Walk) -> Result<(), Fault> {
        let segment = self.table.segment();
        let passed = walk.order(&self.databases);
        let Walk { places, records, .. } = walk;
        places.resize(segment.seats_high() as usize, Place::default());
        for (seat, place) in places.iter_mut().enumerate() {
            segment.saved_since(seat as u64, self.number, place, &mut |at, room| {
                if room < HEAD_WORDS as u64 {
                    return Err(DAMAGED);
                }
                let order = order(segment.load(at + 8), segment.load(at + 16));
                let words = segment.load(at + 24) & 0xffff;
                if order >= passed {
                    records.insert((order, segment.load(at)), at | words << OFFSET_BITS);
                }
                Ok(words)
            })?;
        }
        Ok(())
    }

    fn broken(&self) -> Option<Fault> {
        let text = "the snapshot is not whole: there was no memory to save what was overwritten meanwhile";
        self.table.segment().is_broken(self.number).then(|| Fault::Full(text.into()))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if !sync::is_dead() && self.seat.is_own() {
            self.seat.end_snapshot();
        }
    }
}

impl<'s> View<'s> {
    /// Does the same as [`Snapshot::found`].
    ///
    /// # Errors
    /// Those of [`Snapshot::found`].
    pub fn found<'i>(self, item: &'i Item) -> Result<Option<Found<'i>>, Stop>
    where
        's: 'i,
    {
        let found = match &item.copy {
            Some(copy) => Some(parcel::unpack(copy)?.found(&item.image)),
            None => record::found(self.segment, &item.image)?,
        };
        let judged_ms = self.judged_ms;
        let found = found.filter(|found| found.expiry_ms.is_none_or(|expiry_ms| expiry_ms > judged_ms));
        let fields =
            |found: &Found<'_>| Expired::fields(&self, &found.value, found.inner_expiry_ms, || judged_ms);
        Ok(found.filter(|found| !fields(found).is_some_and(|expired| expired.is_gone())))
    }
}

impl Nodes for View<'_> {
    fn data(&self, node: Ref) -> Result<&[u8], Fault> {
        Ok(self.parts(node)?.1)
    }

    fn refs(&self, node: Ref) -> Result<&[Ref], Fault> {
        Ok(self.parts(node)?.0)
    }

    fn parts(&self, node: Ref) -> Result<(&[Ref], &[u8]), Fault> {
        raw::parts(self.segment, node)
    }

    fn make(&self, _: &[Ref], _: &[&[u8]]) -> Result<Ref, Fault> {
        Err(Fault::System("nothing is made in a snapshot".into()))
    }

    fn edit(&self, _: Ref, _: &mut dyn FnMut(&mut [Ref], &mut [u8])) -> bool {
        false
    }

    fn is_private(&self, _: Ref) -> bool {
        false
    }

    fn release(&self, _: Ref) {}

    fn release_tree(&self, _: Ref) {}
}
