//! Reads of keys from their locations, without a lock: each rule for them stands here once.
//!
//! ```text
//!   word of the home's line -> search (`locate.rs`) -> words of the entry -> location current, word again
//!        an entry with a record: below a pin that reaches to the entry     -> its record, and is the key its key?
//!     -> does it expire soon? -> what the reader takes of it -> the access is noted
//! ```
//! Everything here follows the protocols of `lookup.rs` and `txn.rs` step by step, only without their generality. In all other cases a read returns
//! `None`: nothing has happened then, and the caller takes the slow path, which is never wrong.
//!
//! | reader | takes |
//! |---|---|
//! | [`Table::quick_get`] | the bytes of a packed string |
//! | [`Table::quick_view`] | all that is known of a packed value |
//! | [`Table::quick_get_all`] | the bytes of several packed strings, at one moment |
//! | `Txn::find_located` | a value of any form; expiry is decided by the clock of the transaction |
//! | [`Table::read_plain`] | the bytes of a short string; its search is inlined in `plain.rs` |

use polder_base::Fault;
use polder_shm::layout::interest;
use polder_shm::sync::{self, Flaw};
use polder_shm::{Segment, lock};
use polder_values::{Kind, Value};
use smallvec::SmallVec;

use crate::access::locate::{Location, Reading, Search};
use crate::access::lookup::Live;
use crate::access::prefetch::PREFETCH_KEYS;
use crate::api::{COUNTERS, Counter, Db, Found};
use crate::layout::bucket::{self, LINE_WORDS};
use crate::layout::clock;
use crate::layout::directory::MAP_LOCK;
use crate::layout::entry::{self, Image};
use crate::layout::interest::is_told;
use crate::layout::raw;
use crate::layout::record::{self, Key, Record};
use crate::table::Table;

const _: () = assert!(COUNTERS > Counter::Misses as usize);

/// Kind and reference in an entry's kind byte.
const WHAT: u8 = entry::KIND | entry::REFERENCE;
/// The coarse clock is behind by at most this. A key that expires within this time is left to the slow path, which reads the exact clock.
const CLOCK_LAG_MS: u64 = 20;

/// Reads of this many keys need no allocation.
const FEW: usize = 12;

/// Returns true if a key with this expiry may have expired by the coarse time `now_ms`, or is about to.
#[inline(always)]
pub(crate) fn expires_soon(expiry_ms: Option<u64>, now_ms: u64) -> bool {
    expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms + CLOCK_LAG_MS)
}

/// An entry that a search has found: the bucket in which it lies, and the unit at which it begins.
pub(crate) type Place<'p> = (&'p Reading, usize);

/// Returns the place of an entry's first word.
#[inline(always)]
pub(crate) fn first_at((reading, unit): Place<'_>) -> u64 {
    reading.bucket.word_at(LINE_WORDS + unit * 2)
}

impl Location {
    /// Reads the words of an entry that a search has found. `None`: they may have changed meanwhile.
    ///
    /// The words of a reference name a record only for a thread that finds after this, or before it, that its pin covers the present epoch (T3).
    #[inline(always)]
    pub(crate) fn read_entry(
        &self,
        segment: &Segment,
        (reading, unit): Place<'_>,
        image: &mut Image,
    ) -> Option<()> {
        bucket::read_image(&Live { segment, bucket: reading.bucket }, unit, image);
        (self.is_current(segment) && reading.holds(segment)).then_some(())
    }

    /// Returns true if a key that a search has not found is absent.
    #[inline(always)]
    pub(crate) fn is_absent(&self, segment: &Segment, home: &Reading) -> bool {
        self.is_current(segment) && home.holds(segment)
    }
}

/// Returns the record of an entry, if it is this key's; other keys of the same 24 bits, and long ones, are rare. The pin reaches to the entry.
#[inline(always)]
pub(crate) fn record_of<'s>(
    segment: &'s Segment,
    image: &Image,
    key: &[u8],
) -> Result<Option<Record<'s>>, Fault> {
    let (kind, payload) = raw::payload(segment, entry::record_of(image.words[1]))?;
    let record = record::read(kind, payload)?;
    Ok(matches!(record.key, Key::Short(stored) if stored == key).then_some(record))
}

/// An entry as it was at one moment, with its record.
struct Entry<'e> {
    image: &'e Image,
    record: Option<Record<'e>>,
}

impl<'e> Entry<'e> {
    /// The packed value; `None` for a tree, or where lengths lead outside (S5).
    #[inline(always)]
    fn bytes(&self) -> Option<&'e [u8]> {
        match &self.record {
            None => entry::inline_value(self.image),
            Some(Record { value: Value::Packed(bytes), .. }) => Some(bytes),
            Some(_) => None,
        }
    }

    /// The earliest time at which the key expires.
    #[inline(always)]
    fn expiry_ms(&self) -> Option<u64> {
        match &self.record {
            Some(record) => record.expiry_ms,
            None if self.image.meta() & entry::EXPIRY != 0 => Some(entry::inline_expiry(self.image)),
            None => None,
        }
    }

    /// All that is known of a packed value whose parts do not expire.
    fn found(&self, segment: &'e Segment, kind: Kind) -> Option<Found<'e>> {
        let found = match &self.record {
            Some(record) => record::found_in(self.image, kind, record),
            None => record::found(segment, self.image).ok()??,
        };
        (matches!(found.value, Value::Packed(_)) && found.inner_expiry_ms.is_none()).then_some(found)
    }
}

/// The need of a reader: what it takes of an entry, or says of a key that is not there.
///
/// A trait with inlined methods, since the compiler does not inline a closure that is called in several places.
trait Reader {
    type Taken;

    /// Takes what it needs of an entry, of the kind that it wants; `None` for an entry that it leaves to the slow path.
    fn take(self, segment: &Segment, entry: Entry<'_>) -> Option<Self::Taken>;

    fn absent(self) -> Option<Self::Taken>;
}

/// A reader of the bytes of a packed value.
struct Bytes<F>(F);

impl<R, F: FnOnce(Option<&[u8]>) -> R> Reader for Bytes<F> {
    type Taken = R;

    #[inline(always)]
    fn take(self, _: &Segment, entry: Entry<'_>) -> Option<R> {
        let bytes = entry.bytes()?;
        Some(self.0(Some(bytes)))
    }

    #[inline(always)]
    fn absent(self) -> Option<R> {
        Some(self.0(None))
    }
}

/// A reader of all that is known of a packed value of a kind.
struct Whole<F>(Kind, F);

impl<R, F: FnOnce(Option<Found<'_>>) -> Option<R>> Reader for Whole<F> {
    type Taken = R;

    #[inline(always)]
    fn take(self, segment: &Segment, entry: Entry<'_>) -> Option<R> {
        self.1(Some(entry.found(segment, self.0)?))
    }

    #[inline(always)]
    fn absent(self) -> Option<R> {
        self.1(None)
    }
}

impl Table {
    /// The location of a key at the moment; `None` where its database has no keys.
    #[inline(always)]
    pub fn location(&self, db: Db, key: &[u8]) -> Option<Location> {
        Location::of(self.segment(), db, key)
    }

    /// Reads a string that is packed: `read` gets its bytes, or nothing if there is no such key. `None`: take the slow path.
    #[inline(always)]
    pub fn quick_get<R>(
        &self,
        location: &Location,
        key: &[u8],
        now_ms: u64,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Option<R> {
        self.read(location, key, (Kind::String, now_ms), Bytes(read))
    }

    /// Like [`Table::quick_get`], of a packed value of any kind, and with all that is known of the key. A value with parts that expire is left to the
    /// slow path, and so is one of which `view` returns `None`.
    #[inline]
    pub fn quick_view<R>(
        &self,
        location: &Location,
        key: &[u8],
        (kind, now_ms): (Kind, u64),
        view: impl FnOnce(Option<Found<'_>>) -> Option<R>,
    ) -> Option<R> {
        self.read(location, key, (kind, now_ms), Whole(kind, view))
    }

    /// Like [`Table::quick_get`], of several keys as they were at one moment: `read` gets one after the other, but what it got counts only where this
    /// returns true. `first` is the location of the first key.
    ///
    /// All words that the reads have relied on are compared again at the end, and so is the map's lock, which no thread has had meanwhile. So all of them
    /// held at once, between the last read and the first comparison.
    pub fn quick_get_all(
        &self,
        first: &Location,
        keys: &[&[u8]],
        now_ms: u64,
        mut read: impl FnMut(Option<&[u8]>),
    ) -> bool {
        self.read_all(first, keys, now_ms, &mut read).is_some()
    }

    #[inline(always)]
    fn read_all(
        &self,
        first: &Location,
        keys: &[&[u8]],
        now_ms: u64,
        read: &mut impl FnMut(Option<&[u8]>),
    ) -> Option<()> {
        let segment = &**self.segment();
        let map = segment.observe(MAP_LOCK);
        if lock::owner(map).is_some() || keys.len() > PREFETCH_KEYS {
            return None;
        }
        let mut locations = SmallVec::<[Location; FEW]>::new();
        for (number, key) in keys.iter().enumerate() {
            let location = if number == 0 { *first } else { Location::of(segment, first.db(), key)? };
            segment.prefetch(location.bucket.line);
            locations.push(location);
        }
        let mut readings = SmallVec::<[Reading; FEW]>::new();
        for (location, key) in locations.iter().zip(keys) {
            let home = Reading::begin(segment, location.bucket)?;
            readings.push(home);
            let found = location.search(segment, key, home)?;
            if let Search::Here(reading, _) | Search::Record(reading, _) = &found
                && reading.bucket.line != home.bucket.line
            {
                readings.push(*reading);
            }
            self.read_found(location, key, (&home, found), (Kind::String, now_ms), Bytes(&mut *read))?;
        }
        let are_current =
            locations.iter().all(|location| location.is_current(segment)) && segment.observe(MAP_LOCK) == map;
        let hold = || readings.iter().all(|reading| reading.holds(segment));
        (are_current && (sync::has(Flaw::BelievesReads) || hold())).then_some(())
    }

    /// Reads a key: `reader` gets its entry, if that is of this kind.
    #[inline(always)]
    fn read<R>(
        &self,
        location: &Location,
        key: &[u8],
        wanted: (Kind, u64),
        reader: impl Reader<Taken = R>,
    ) -> Option<R> {
        let segment = &**self.segment();
        let home = Reading::begin(segment, location.bucket)?;
        let found = location.search(segment, key, home)?;
        self.read_found(location, key, (&home, found), wanted, reader)
    }

    /// Reads what a search has found from the home.
    #[inline(always)]
    fn read_found<R>(
        &self,
        location: &Location,
        key: &[u8],
        (home, found): (&Reading, Search),
        (kind, now_ms): (Kind, u64),
        reader: impl Reader<Taken = R>,
    ) -> Option<R> {
        let segment = &**self.segment();
        match found {
            Search::Here(reading, unit) => {
                let (mut image, place) = (Image::EMPTY, (&reading, unit));
                location.read_entry(segment, place, &mut image)?;
                if image.meta() & WHAT != kind as u8 {
                    return None;
                }
                self.take_of(Entry { image: &image, record: None }, place, now_ms, reader)
            }
            Search::Record(reading, unit) => {
                self.read_record(location, key, (&reading, unit), (kind, now_ms), reader)
            }
            // A thread that listens is told of keys that are looked for and not there, by the slow path.
            Search::Absent if is_told(segment, interest::MISSES) => None,
            Search::Absent => location.is_absent(segment, home).then(|| reader.absent())?,
        }
    }

    /// Reads an entry that has a record, straight from the node.
    #[inline(never)]
    fn read_record<R>(
        &self,
        location: &Location,
        key: &[u8],
        place: Place<'_>,
        (kind, now_ms): (Kind, u64),
        reader: impl Reader<Taken = R>,
    ) -> Option<R> {
        let segment = &**self.segment();
        // T3: within a pin that reaches to now, a record that the entry names is one until the pin ends.
        let pinned = self.pinned().ok()?;
        let mut image = Image::EMPTY;
        location.read_entry(segment, place, &mut image)?;
        if !pinned.covers_now() || image.meta() & WHAT != kind as u8 | entry::REFERENCE {
            return None;
        }
        let record = record_of(segment, &image, key).ok()??;
        self.take_of(Entry { image: &image, record: Some(record) }, place, now_ms, reader)
    }

    /// Takes an entry that was true at one moment, unless it expires, and notes the access.
    #[inline(always)]
    fn take_of<R>(
        &self,
        entry: Entry<'_>,
        place: Place<'_>,
        now_ms: u64,
        reader: impl Reader<Taken = R>,
    ) -> Option<R> {
        if expires_soon(entry.expiry_ms(), now_ms) {
            return None;
        }
        let first = entry.image.words[0];
        let taken = reader.take(self.segment(), entry)?;
        self.note_access(first_at(place), first, clock::lru(now_ms));
        Some(taken)
    }

    /// Moves the access clock of an entry on, whose first word lies there and was `first`; `lru` is the clock where accesses are not counted.
    ///
    /// One CAS, which fails where the entry is another one by now (S2: a designated word; versions are never used twice). So it needs no pin. A lost
    /// note is no harm.
    #[inline(always)]
    pub(crate) fn note_access(&self, first_at: u64, first: u64, lru: u32) {
        let clock = self.next_clock(entry::clock_of(first), lru);
        // A clock changes once in a second only, so the policy is asked for then.
        if clock != entry::clock_of(first) && !self.notes_writes_only() {
            let _ =
                self.segment().exchange(first_at, first, entry::first_word(entry::version_of(first), clock));
        }
    }
}
