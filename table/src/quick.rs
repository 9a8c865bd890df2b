//! The short way: one key, a short string without options that lies inline in its home bucket, nobody in the way.
//!
//! It is what nearly all calls of a cache are. Everything here follows the protocols of `lookup.rs` and `txn.rs` step by step, only
//! without their generality; whatever is not the plain case answers `None`, nothing has happened then, and the caller
//! takes the long way, which is never wrong.

use polder_shm::journal::{CHANGED, Tag};
use polder_shm::layout::seat as at;
use polder_shm::{Locked, Seat, Segment, lock};
use polder_values::Kind;

use crate::api::{COUNTERS, Counter, Db};
use crate::bucket::{self, LINE_WORDS, UNITS, Words};
use crate::clock;
use crate::directory::{self, Bucket, Extent, MAP_LOCK, map_at};
use crate::entry::{self, Image, Inline};
use crate::hash::{CONTINUED, FREE, Hash, hash};
use crate::lookup::Live;
use crate::table::Table;

const _: () = assert!(COUNTERS > Counter::Misses as usize);

/// A place in a bucket that was looked at without a lock, and what was relied on.
struct Sight {
    root: u64,
    extent: Extent,
    bucket: Bucket,
    /// The bucket's word.
    word: u64,
}

impl Sight {
    /// The home bucket of a position; `None` when it is locked or dead, or the map is being changed.
    #[inline(always)]
    fn of(segment: &Segment, db: Db, hash: &Hash) -> Option<Sight> {
        let map = segment.observe(MAP_LOCK);
        let root = segment.observe(map_at(db) + 8);
        if lock::owner(map).is_some() || root == 0 {
            return None;
        }
        let extent = directory::walk(segment, root, hash.position)?;
        let bucket = extent.bucket(segment, extent.home_of(hash.position))?;
        let word = segment.observe(bucket.line);
        (word & (lock::OWNER | lock::DEAD) == 0).then_some(Sight { root, extent, bucket, word })
    }

    /// Whether what was read since was one state, and the current one.
    #[inline(always)]
    fn holds(&self, segment: &Segment, db: Db) -> bool {
        segment.acquire_fence();
        segment.load(self.bucket.line) == self.word && self.is_current(segment, db)
    }

    #[inline(always)]
    fn is_current(&self, segment: &Segment, db: Db) -> bool {
        self.extent.is_current(segment) && segment.load(map_at(db) + 8) == self.root && lock::owner(segment.load(MAP_LOCK)).is_none()
    }
}

/// What one look into the home bucket finds.
enum Glance {
    /// The unit at which the key's inline entry begins.
    Here(usize),
    Absent,
    Unsure,
}

/// Looks for `key` in a bucket. An entry with a record whose hash bits fit, and displaced entries, make it unsure.
#[inline(always)]
fn glance(live: &Live<'_>, hash: &Hash, key: &[u8]) -> Glance {
    let tags = bucket::tag_words(live);
    let mut candidates = bucket::matches(&tags, hash.tag);
    while candidates != 0 {
        let unit = candidates.trailing_zeros() as usize;
        candidates &= candidates - 1;
        let second = live.word(LINE_WORDS + unit * 2 + 1);
        if second as u8 & entry::REFERENCE != 0 {
            if entry::extra_of(second) == hash.extra {
                return Glance::Unsure;
            }
        } else if entry::inline_key_is(|number| live.word(LINE_WORDS + (unit * 2 + number).min(UNITS * 2 - 1)), second, key) {
            return Glance::Here(unit);
        }
    }
    if bucket::displaced(tags[6]) == (0, 0) { Glance::Absent } else { Glance::Unsure }
}

/// The bits of an entry's kind byte that say that it is a plain string; its other options send it the long way.
const PLAIN: u8 = Kind::String as u8;

impl Table {
    /// Reads a short string: `read` gets its bytes, or nothing if there is no such key. `None`: take the long way.
    #[inline]
    pub fn quick_get<R>(&self, db: Db, key: &[u8], now_ms: u64, read: impl FnOnce(Option<&[u8]>) -> R) -> Option<R> {
        let segment = &**self.segment();
        let hash = hash(key, segment.secret());
        let sight = Sight::of(segment, db, &hash)?;
        let live = Live { segment, bucket: sight.bucket };
        match glance(&live, &hash, key) {
            Glance::Here(unit) => {
                let image = bucket::image_at(&live, unit);
                if image.meta() & !entry::RAW != PLAIN || !sight.holds(segment, db) {
                    return None;
                }
                self.note_glance(&image, sight.bucket.word_at(LINE_WORDS + unit * 2), now_ms)?;
                let from = entry::INLINE_HEAD + (image.words[1] >> 8 & 0xff) as usize;
                let to = from + (image.words[1] >> 16 & 0xff) as usize;
                Some(read(Some(image.bytes().get(from..to)?)))
            }
            Glance::Absent if sight.holds(segment, db) => Some(read(None)),
            _ => None,
        }
    }

    /// Moves the access clock on, as `Txn::note_access` does. Needs no pin: no other word is ever the same as this one.
    #[inline(always)]
    fn note_glance(&self, image: &Image, first_at: u64, now_ms: u64) -> Option<()> {
        if self.counts_frequency() {
            return None;
        }
        let clock = clock::lru(now_ms);
        if clock != image.clock() {
            let _ = self.segment().exchange(first_at, image.words[0], entry::first_word(image.version(), clock));
        }
        Some(())
    }

    /// Gives a key a short string, made by `edit` from the one it has (nothing if there is no such key); `edit` answers the new bytes or,
    /// to leave the key alone, `None`, and what the caller is to be told. `None`: take the long way; `edit` may have been called.
    #[inline]
    pub fn quick_edit<'v, R>(
        &self,
        db: Db,
        key: &[u8],
        now_ms: u64,
        edit: impl FnOnce(Option<&[u8]>) -> (Option<&'v [u8]>, R),
    ) -> Option<R> {
        let seat = self.seat().ok()?;
        if !seat.enter() {
            return None;
        }
        seat.pin();
        let done = self.edit_pinned(&seat, db, key, now_ms, edit);
        if done.is_none() && seat.journal_len() > 0 {
            seat.rollback();
        }
        seat.unpin();
        seat.leave();
        done
    }

    #[inline(always)]
    fn edit_pinned<'v, R>(
        &self,
        seat: &Seat,
        db: Db,
        key: &[u8],
        now_ms: u64,
        edit: impl FnOnce(Option<&[u8]>) -> (Option<&'v [u8]>, R),
    ) -> Option<R> {
        let segment = &**seat.segment();
        let hash = hash(key, segment.secret());
        let sight = Sight::of(segment, db, &hash)?;
        // T3: the pin reaches to the bucket before it is locked.
        if self.counts_frequency() || !seat.covers_now() || !matches!(seat.lock_now(sight.bucket.line), Ok(Locked::Ours(_))) {
            return None;
        }
        if !sight.is_current(segment, db) {
            return None;
        }
        let live = Live { segment, bucket: sight.bucket };
        let (unit, old) = match glance(&live, &hash, key) {
            Glance::Here(unit) => (Some(unit), bucket::image_at(&live, unit)),
            Glance::Absent => (None, Image { words: [0; entry::WORDS_MAX], units: 0 }),
            Glance::Unsure => return None,
        };
        let fields = match unit {
            Some(_) if old.meta() != PLAIN => return None,
            Some(_) => Some(entry::inline_fields(old.bytes())?),
            None => None,
        };
        let (value, answer) = edit(fields.map(|fields| fields.value));
        let Some(value) = value else {
            seat.rollback();
            return Some(answer);
        };
        if entry::inline_bytes(key.len(), value.len(), false, false) > entry::INLINE_MAX {
            return None;
        }
        let first = entry::first_word(seat.next_version(), clock::lru(now_ms));
        let image = entry::inline(first, &Inline { meta: PLAIN, expiry_ms: None, flags: 0, key, value });
        match unit {
            Some(unit) if old.units == image.units => note_words(seat, &live, unit, &image)?,
            Some(_) => return None,
            None => {
                let unit = note_tags(seat, &live, sight.bucket, hash.tag, image.units)?;
                note_words(seat, &live, unit, &image)?;
                let tally = at::TALLIES + directory::tally_of(sight.root) * 16;
                seat.note(Tag::Cover, 0, 0).ok()?;
                seat.note(Tag::Word, segment.seat_at(seat.index()) + tally, seat.get(tally).wrapping_add(1)).ok()?;
            }
        }
        seat.amend(0, CHANGED);
        seat.commit(0).ok()?;
        Some(answer)
    }
}

/// Notes an entry's words, as far as they differ from what is there, under the lock that is journal item 0.
#[inline(always)]
fn note_words(seat: &Seat, live: &Live<'_>, unit: usize, image: &Image) -> Option<()> {
    if seat.journal_len() == 1 {
        seat.note(Tag::Cover, live.bucket.line, 0).ok()?;
    }
    for (number, word) in image.words[..image.units * 2].iter().enumerate() {
        let index = LINE_WORDS + unit * 2 + number;
        if live.word(index) != *word {
            seat.note(Tag::Word, live.bucket.word_at(index), *word).ok()?;
        }
    }
    Some(())
}

/// Finds free units in a row and notes their tags; answers the first of them.
#[inline(always)]
fn note_tags(seat: &Seat, live: &Live<'_>, bucket: Bucket, tag: u8, units: usize) -> Option<usize> {
    let tags = bucket::tag_words(live);
    let unit = bucket::run_of(bucket::matches(&tags, FREE), units)?;
    seat.note(Tag::Cover, bucket.line, 0).ok()?;
    let (first, last) = (unit / 8, (unit + units - 1) / 8);
    for (word, old) in tags.iter().enumerate().take(last + 1).skip(first) {
        let mut bytes = old.to_le_bytes();
        for number in unit.max(word * 8)..(unit + units).min(word * 8 + 8) {
            bytes[number % 8] = if number == unit { tag } else { CONTINUED };
        }
        seat.note(Tag::Word, bucket.word_at(1 + word), u64::from_le_bytes(bytes)).ok()?;
    }
    Some(unit)
}
