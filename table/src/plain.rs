//! The shortest ways: a GET, and a SET of a key that is there, of a short string that lies inline in its home bucket.
//!
//! A processor overlaps the cache misses of calls that follow each other as far as its window of some 500 instructions reaches, and a
//! miss costs as much as 500 instructions; so a call of 200 instructions is more than twice as fast as one of 500 (`bench floor`).
//! That is why this exists beside `quick.rs`: the same protocols for one case, in line, without what other cases need. No branch
//! depends on what a miss brings, but for those that nearly always go the same way.
//!
//! ```text
//!  read   root -> slot -> extent -> the word of the line -> tag -> key and value -> word, slot, map's lock and root again
//!  write  pin, the same way to the key -> the line's lock, by a CAS of the very word that was read before the key was
//!         -> slot, map's lock and root again -> journal -> commit -> write out, unlock, unpin
//! ```
//!
//! The CAS of the write is what makes a second look at the entry needless: it fails if anything was published since (S2; `lock.rs`), and a
//! reader's note of an access changes nothing but the clock, which is written anew.
//!
//! Whatever is not the plain case answers that nothing has happened.

use polder_shm::layout::{interest, seat as at};
use polder_shm::{Seat, Segment, coarse_seconds, lock};
use polder_values::Kind;

use crate::api::{Counter, Db};
use crate::change::interest_of;
use crate::directory::{self, Bucket, MAP_LOCK, map_at};
use crate::entry::{self, INLINE_HEAD, INLINE_MAX, UNIT_BYTES};
use crate::hash::Hash;
use crate::raw;
use crate::table::Table;

/// What an entry's second word begins with where it is a plain string with a key of this length.
#[inline(always)]
fn plain_with(key_len: usize) -> u64 {
    Kind::String as u64 | (key_len as u64) << 8
}

/// A plain entry in its home bucket, as it was seen.
struct Seen {
    root: u64,
    slot_at: u64,
    slot: u64,
    /// The bucket's line, and its word before the entry was looked at.
    line: u64,
    word: u64,
    /// Where the entry begins, and its first two words.
    at: u64,
    first: u64,
    second: u64,
}

impl Seen {
    /// Finds the entry of a key; [`entry::RAW`] or not.
    #[inline(always)]
    fn find(segment: &Segment, db: Db, hash: Hash, key: &[u8]) -> Option<Seen> {
        let root = segment.observe(map_at(db) + 8);
        let (slot_at, slot, bucket) = place(segment, root, hash.position)?;
        let word = segment.observe(bucket.line);
        let found = raw::units_tagged(segment, bucket.line, hash.tag);
        if word & (lock::OWNER | lock::STARVING | lock::DEAD) != 0 || found == 0 || key.len() > INLINE_MAX {
            return None;
        }
        let at = bucket.units + found.trailing_zeros() as u64 * UNIT_BYTES as u64;
        let (first, second) = (segment.load(at), segment.load(at + 8));
        let seen = Seen { root, slot_at, slot, line: bucket.line, word, at, first, second };
        const SPOKEN: u64 = 0xffff & !(entry::RAW as u64);
        let plain = second & SPOKEN == plain_with(key.len()) && seen.value_len() <= INLINE_MAX - key.len();
        (plain && raw::bytes_are(segment, at + INLINE_HEAD as u64, key)).then_some(seen)
    }

    #[inline(always)]
    fn value_len(&self) -> usize {
        (self.second >> 16 & 0xff) as usize
    }

    /// As `Sight::is_current`.
    #[inline(always)]
    fn is_current(&self, segment: &Segment, db: Db) -> bool {
        segment.observe(self.slot_at) == self.slot
            && segment.observe(MAP_LOCK) & lock::OWNER == 0
            && segment.observe(map_at(db) + 8) == self.root
    }
}

/// The home bucket of a position, and the slot that names its extent.
#[inline(always)]
fn place(segment: &Segment, root: u64, position: u64) -> Option<(u64, u64, Bucket)> {
    let has_node = |offset, _| segment.has_any_node(offset);
    let named = directory::find_where(segment, root, position, has_node)?;
    let home = directory::nearly_home(segment, named.extent, position)?;
    Some((named.slot_at, named.slot, directory::bucket_where(segment, named.extent, home, has_node)?))
}

impl Table {
    /// The hash of a key in this segment.
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> Hash {
        crate::hash::hash(key, self.segment().secret())
    }

    /// Reads a string that is packed, inline, without expiry and at home. `None`: it is not there, or not like this.
    #[inline(always)]
    pub fn read_plain<R>(&self, db: Db, hash: Hash, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let segment = &**self.segment();
        let seen = Seen::find(segment, db, hash, key)?;
        let mut copy = raw::Short::EMPTY;
        let value = copy.take(segment, seen.at + (INLINE_HEAD + key.len()) as u64, seen.value_len());
        segment.acquire_fence();
        if segment.load(seen.line) != seen.word || !seen.is_current(segment, db) || self.counts_frequency() {
            return None;
        }
        let clock = coarse_seconds() as u32 & 0xff_ffff;
        if clock != entry::clock_of(seen.first) {
            note_access(segment, seen.at, seen.first, clock);
        }
        Some(read(value))
    }

    /// Gives a key that has a plain short string another one that takes as many units. `false`: take another way.
    #[inline(always)]
    pub fn write_plain(&self, db: Db, hash: Hash, key: &[u8], value: &[u8]) -> bool {
        if self.counts_frequency() {
            return false;
        }
        let written = self.segment().with_seat(|seat| {
            if !seat.enter() {
                return false;
            }
            seat.pin();
            let done = write(seat, db, hash, key, value).is_some();
            if !done && seat.journal_len() > 0 {
                seat.rollback();
            }
            seat.unpin();
            seat.leave();
            done
        });
        written.unwrap_or(false)
    }
}

/// Moves the access clock on, as `Table::note_glance`.
#[cold]
#[inline(never)]
fn note_access(segment: &Segment, first_at: u64, first: u64, clock: u32) {
    let _ = segment.exchange(first_at, first, entry::first_word(entry::version_of(first), clock));
}

/// Whether somebody is to be told of changes, or a snapshot to keep what was before: `quick.rs` and `txn.rs` see to that.
#[inline(always)]
fn is_watched(segment: &Segment) -> bool {
    interest_of(segment) & (interest::CHANGES & !interest::WAITERS) != 0 || segment.snapshot() != 0
}

#[inline(always)]
fn write(seat: &Seat, db: Db, hash: Hash, key: &[u8], value: &[u8]) -> Option<()> {
    let segment = &**seat.segment();
    let seen = Seen::find(segment, db, hash, key)?;
    let value_at = INLINE_HEAD + key.len();
    let units = (value_at + seen.value_len()).div_ceil(UNIT_BYTES);
    if seen.second as u8 & entry::RAW != 0 || (value_at + value.len()).div_ceil(UNIT_BYTES) != units {
        return None;
    }
    // T3: all that we walked over was there after we pinned, and was born before. The look before the lock only saves one for nothing.
    if is_watched(segment) || !seat.covers_now() || !seat.lock_as_seen(seen.line, seen.word) || !seen.is_current(segment, db) {
        return None;
    }
    // Under the lock: see `Table::interest`.
    if is_watched(segment) {
        return None;
    }
    let mut notes = seat.brief();
    notes.cover(0, seen.line);
    notes.word(seen.at, entry::first_word(seat.next_version(), coarse_seconds() as u32 & 0xff_ffff));
    let second = seen.second & !(0xff << 16) | (value.len() as u64) << 16;
    if second != seen.second {
        notes.word(seen.at + 8, second);
    }
    // The value may begin in that very word.
    let old = |number| if number == 1 { second } else { segment.load(seen.at + number as u64 * 8) };
    entry::value_words(value, value_at, old, units * 2, |number, word| notes.word(seen.at + number as u64 * 8, word));
    notes.commit();
    seat.add(at::COUNTERS + 8 * Counter::Changes as u64, 1);
    Some(())
}
