//! Reads by the fast path: one key, a string that lies inline or in a record, and no other thread has it locked. And what the fast paths that write share:
//! the pin around them, and an entry's place in its bucket.
//!
//! Everything here follows the protocols of `lookup.rs` and `txn.rs` step by step, only without their generality. In all other cases a read returns
//! `None`: nothing has happened then, and the caller takes the slow path, which is never wrong. Writes are in `update.rs` and `plain.rs`.
//!
//! ```text
//!  read   word of the home's line -> tags -> entry's words -> the word again, the slot, the root
//!         an entry that does not lie at home: the same of the other buckets in which it may lie
//! ```

use polder_shm::layout::interest;
use polder_shm::staged_journal::StagedJournal;
use polder_shm::{Seat, sync};
use polder_values::{Kind, Value};

use crate::api::{COUNTERS, Counter, Db, Found, bit_of};
use crate::bucket::{self, LINE_WORDS, WORDS, Words, WordsMut};
use crate::clock;
use crate::entry::{self, Image};
use crate::hash::{CONTINUED, FREE};
use crate::interest::is_told;
use crate::locate::{Location, Reading, Search};
use crate::lookup::Live;
use crate::raw;
use crate::record::{self, Key};
use crate::table::Table;

const _: () = assert!(COUNTERS > Counter::Misses as usize);

/// The bits of an entry's kind byte that say that it is a plain string; an entry with other options is left to the slow path.
const PLAIN: u8 = Kind::String as u8;
/// Kind and reference in an entry's kind byte.
const WHAT: u8 = entry::KIND | entry::REFERENCE;
/// The coarse clock is behind by at most this. A key that expires within this time is left to the slow path, which reads the exact clock.
pub(crate) const CLOCK_LAG_MS: u64 = 20;

impl Table {
    /// Where a key belongs at the moment; `None` where its database has no keys.
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
        let segment = &**self.segment();
        let home = Reading::begin(segment, location.bucket)?;
        match location.search(segment, key, home)? {
            Search::Here(reading, unit) => self.read_at(location, &reading, unit, now_ms, read),
            Search::Record(reading, unit) => self.read_record(location, key, &reading, unit, now_ms, read),
            Search::Absent => self.is_absent(location, &home).then(|| read(None)),
        }
    }

    /// Returns true if a key that a search has not found is absent, and no thread is to be told of it.
    #[inline(always)]
    fn is_absent(&self, location: &Location, home: &Reading) -> bool {
        let segment = &**self.segment();
        !is_told(segment, interest::MISSES) && location.is_current(segment) && home.holds(segment)
    }

    /// As [`Table::quick_get`], with all that is known of the key: `read` gets a packed string.
    #[inline(never)]
    pub fn quick_item<R>(
        &self,
        location: &Location,
        key: &[u8],
        now_ms: u64,
        read: impl FnOnce(Option<Found<'_>>) -> R,
    ) -> Option<R> {
        let segment = &**self.segment();
        let home = Reading::begin(segment, location.bucket)?;
        let (reading, unit) = match location.search(segment, key, home)? {
            Search::Here(reading, unit) | Search::Record(reading, unit) => (reading, unit),
            Search::Absent => return self.is_absent(location, &home).then(|| read(None)),
        };
        // T3: as in `read_record`.
        let pinned = self.pinned().ok()?;
        let mut image = Image::EMPTY;
        bucket::read_image(&Live { segment, bucket: reading.bucket }, unit, &mut image);
        if !pinned.covers_now()
            || image.meta() & entry::KIND != PLAIN
            || !location.is_current(segment)
            || !reading.holds(segment)
        {
            return None;
        }
        let found = if image.is_reference() {
            let (kind, payload) = raw::payload(segment, image.record().ok()?).ok()?;
            let record = record::read(kind, payload).ok()?;
            if !matches!(record.key, Key::Short(stored) if stored == key) {
                return None;
            }
            record::found_in(&image, Kind::String, &record)
        } else {
            record::found(segment, &image).ok()??
        };
        if !matches!(found.value, Value::Packed(_))
            || found.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms + CLOCK_LAG_MS)
        {
            return None;
        }
        self.note_fast_access(&image, reading.bucket.word_at(LINE_WORDS + unit * 2), now_ms);
        Some(read(Some(found)))
    }

    #[inline(always)]
    fn read_at<R>(
        &self,
        location: &Location,
        reading: &Reading,
        unit: usize,
        now_ms: u64,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Option<R> {
        let segment = &**self.segment();
        let mut image = Image::EMPTY;
        bucket::read_image(&Live { segment, bucket: reading.bucket }, unit, &mut image);
        if image.meta() & WHAT != PLAIN || !location.is_current(segment) || !reading.holds(segment) {
            return None;
        }
        let fields = entry::inline_value(&image)?;
        if image.meta() & entry::EXPIRY != 0 && entry::inline_expiry(&image) <= now_ms + CLOCK_LAG_MS {
            return None;
        }
        self.note_fast_access(&image, reading.bucket.word_at(LINE_WORDS + unit * 2), now_ms);
        Some(read(Some(fields)))
    }

    /// Reads a string that lies in a record, straight from the node.
    #[inline(never)]
    fn read_record<R>(
        &self,
        location: &Location,
        key: &[u8],
        reading: &Reading,
        unit: usize,
        now_ms: u64,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Option<R> {
        let segment = &**self.segment();
        // T3: within a pin that reaches to now, a record that the entry names is one until the pin ends.
        let pinned = self.pinned().ok()?;
        let mut image = Image::EMPTY;
        bucket::read_image(&Live { segment, bucket: reading.bucket }, unit, &mut image);
        if !pinned.covers_now()
            || image.meta() & WHAT != PLAIN | entry::REFERENCE
            || !location.is_current(segment)
            || !reading.holds(segment)
        {
            return None;
        }
        let (kind, payload) = raw::payload(segment, image.record().ok()?).ok()?;
        let record = record::read(kind, payload).ok()?;
        let (Key::Short(stored), Value::Packed(value)) = (record.key, record.value) else { return None };
        if stored != key || record.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms + CLOCK_LAG_MS) {
            return None;
        }
        self.note_fast_access(&image, reading.bucket.word_at(LINE_WORDS + unit * 2), now_ms);
        Some(read(Some(value)))
    }

    /// Moves the access clock on, as `Txn::note_access` does. Needs no pin: no other word is ever the same as this one.
    #[inline(always)]
    pub(crate) fn note_fast_access(&self, image: &Image, first_at: u64, now_ms: u64) {
        let clock = self.next_clock(image.clock(), clock::lru(now_ms));
        if clock != image.clock() && !self.notes_writes_only() {
            let _ =
                self.segment().exchange(first_at, image.words[0], entry::first_word(image.version(), clock));
        }
    }
}

/// A seat that is pinned for a fast path. When it is dropped, also by a panic in a caller's function, what was not committed is rolled back.
pub(crate) struct PinGuard<'s> {
    pub(crate) seat: &'s Seat,
}

impl<'s> PinGuard<'s> {
    /// To write into `db`. `None` if the thread is in a transaction.
    #[inline(always)]
    pub(crate) fn begin(seat: &'s Seat, db: Db) -> Option<PinGuard<'s>> {
        seat.enter().then(|| {
            // Before the map is validated under the locks (`Location::is_current`), and until the end. A fast path may enter its commit this early, since it
            // never waits for a lock.
            seat.enter_commit_quickly(bit_of(db));
            seat.pin();
            PinGuard { seat }
        })
    }
}

impl Drop for PinGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if sync::is_dead() {
            return;
        }
        if self.seat.journal_len() > 0 {
            self.seat.rollback();
        }
        self.seat.leave_commit();
        self.seat.unpin();
        self.seat.leave();
    }
}

/// Whether this many units are free, in a row or not.
#[inline(always)]
pub(crate) fn has_room(live: &Live<'_>, units: usize) -> bool {
    bucket::matches(&live.tag_words(), FREE).count_ones() as usize >= units
}

/// A private copy of a bucket, to be rearranged.
struct Copied([u64; WORDS]);

impl Words for Copied {
    fn word(&self, index: usize) -> u64 {
        self.0[index]
    }
}

impl WordsMut for Copied {
    fn set_word(&mut self, index: usize, value: u64) {
        self.0[index] = value;
    }
}

/// The same if the free units do not lie in a row: the other entries move together. `tags` are the bucket's, without those that go.
#[inline(never)]
fn put_compacting(
    notes: &mut StagedJournal<'_>,
    live: &Live<'_>,
    tag: u8,
    image: &Image,
    tags: &[u64; 7],
) -> Option<()> {
    let mut copied = Copied(std::array::from_fn(|index| live.word(index)));
    copied.0[1..LINE_WORDS].copy_from_slice(tags);
    bucket::insert(&mut copied, tag, image)?;
    for index in 1..WORDS {
        if copied.0[index] != live.word(index) {
            notes.word(live.bucket.word_at(index), copied.0[index]);
        }
    }
    Some(())
}

/// Notes an entry's words, as far as they differ from what is there.
#[inline(always)]
pub(crate) fn note_words(notes: &mut StagedJournal<'_>, live: &Live<'_>, unit: usize, image: &Image) {
    for (number, word) in image.words[..image.units * 2].iter().enumerate() {
        let index = LINE_WORDS + unit * 2 + number;
        if live.word(index) != *word {
            notes.word(live.bucket.word_at(index), *word);
        }
    }
}

/// A mask with the bytes of the tags of this many units set.
#[inline]
pub(crate) fn tags_of(unit: usize, units: usize) -> [u64; 7] {
    let mut tags = [0; 7];
    for number in unit..unit + units {
        tags[number / 8] |= 0xff << (number % 8 * 8);
    }
    tags
}

/// Finds free units and notes the entry there, with its tags; the bytes of `gone` are set for tags that are to be free.
#[inline(always)]
pub(crate) fn put(
    notes: &mut StagedJournal<'_>,
    live: &Live<'_>,
    tag: u8,
    image: &Image,
    gone: &[u64; 7],
) -> Option<()> {
    let old = live.tag_words();
    let mut tags: [u64; 7] = std::array::from_fn(|word| old[word] & !gone[word]);
    let unit = match bucket::place_for(bucket::matches(&tags, FREE), image.units, tag) {
        Some(unit) => unit,
        None => match make_way(notes, live, &mut tags, (image.units, tag)) {
            Some(unit) => unit,
            None => return put_compacting(notes, live, tag, image, &tags),
        },
    };
    set_tags(&mut tags, unit, image.units, tag);
    for (word, value) in tags.iter().enumerate() {
        if old[word] != *value {
            notes.word(live.bucket.word_at(1 + word), *value);
        }
    }
    note_words(notes, live, unit, image);
    Some(())
}

/// Sets the tags of an entry's units, which are free.
#[inline(always)]
fn set_tags(tags: &mut [u64; 7], unit: usize, units: usize, tag: u8) {
    for number in unit..unit + units {
        tags[number / 8] |= (if number == unit { tag } else { CONTINUED } as u64) << (number % 8 * 8);
    }
}

/// For free units that do not lie in a row, but would if one other entry lay elsewhere in the bucket: notes that entry at its new place, and
/// returns where the row of free units begins then. That writes three or four of a bucket's fourteen cache lines; moving all entries together
/// would write all of them.
#[inline(never)]
fn make_way(
    notes: &mut StagedJournal<'_>,
    live: &Live<'_>,
    tags: &mut [u64; 7],
    (wanted, for_tag): (usize, u8),
) -> Option<usize> {
    let (free, continued) = (bucket::matches(tags, FREE), bucket::matches(tags, CONTINUED));
    let (mut begins, row) =
        (bucket::beginnings(tags), |unit: usize, units: usize| ((1u64 << units) - 1) << unit);
    while begins != 0 {
        let from = begins.trailing_zeros() as usize;
        begins &= begins - 1;
        let units = 1 + (continued >> 1 >> from).trailing_ones() as usize;
        let free = free | row(from, units);
        let tag = (tags[from / 8] >> (from % 8 * 8)) as u8;
        let Some(unit) = bucket::place_for(free, wanted, for_tag) else { continue };
        let Some(to) = bucket::place_for(free & !row(unit, wanted), units, tag) else { continue };
        for number in 0..units * 2 {
            let (word, index) = (live.unit_word(from * 2 + number), LINE_WORDS + to * 2 + number);
            if live.word(index) != word {
                notes.word(live.bucket.word_at(index), word);
            }
        }
        let gone = tags_of(from, units);
        tags.iter_mut().zip(gone).for_each(|(tags, gone)| *tags &= !gone);
        set_tags(tags, to, units, tag);
        return Some(unit);
    }
    None
}
