//! A *location*: where a key belongs, found without a lock. The fast paths (`read.rs`, `update.rs`) and the prefetching of many keys begin with it.
//!
//! A location may be used as long as it is current: the database still has this directory, and the directory's slot still names this extent. A
//! thread checks root and slot again before it relies on anything, and the bucket's word after that. The location may be made without a pin:
//! until these checks its memory is only read, and what was read is not used before they succeed.
//!
//! Can an outdated location look current? A root word comes back when two swaps bring it back: then it names the same directory. A slot's
//! word holds the extent's place and 22 bits of a version (`directory::extent_slot`). It is the same again only if, between the making
//! and the use of the location, the extent was replaced, its node freed and handed out again as an extent for the same slot, and the
//! number of versions drawn meanwhile is a multiple of 2^22 (one chance in 4 million for each such return).
//! - A server makes its locations within the pin of its turn. An extent that lived when the pin began is not freed until the turn ends, even if
//!   the thread is stopped for long, so the slot's word cannot return. That leaves an extent that was born after the pin's last epoch and
//!   before the location was made.
//! - Elsewhere a location is made and used in one call, some hundred instructions apart: the thread must be stopped exactly there.
//!
//! So a false match needs a thread that is stopped between these instructions for as long as 2^22 versions take (a second at full speed),
//! and then has one chance in 4 million for each return of the place. The thread may then try to lock a word in a piece that is no longer
//! that bucket. What it finds there fails the checks of S5, or is another bucket, in which it does not find the key and whose counts do
//! not fit the key. Another check of the extent's piece would close this gap, for a load and a branch in each call; a wider version in the
//! slot would need another layout.
//!
//! From a location, [`Location::search`] finds the entry of a key without a lock:
//!
//! ```text
//!   word of the home's line -> tags -> entries whose tag is the key's           Here, Record
//!       -> the home's counts -> the same of the next bucket and of the stash    Here, Record, Absent; or nothing: a lock or a change
//! ```
//! **Invariant**: what a search found holds once the location is current and the readings hold after it, in this order. A writer that locks
//! home and bucket by a CAS of the words that were read gets the same from the CAS. An entry is only changed or moved under the lock of its
//! home (T1), which counts as changed where an entry changes its bucket, even if no word of it does (`Shadow::moved`). So a home that holds also
//! says that no entry of it came, went or changed its bucket since.

use polder_shm::{RawView, Segment, lock};

use crate::access::lookup::Live;
use crate::api::Db;
use crate::layout::bucket::{self, PIECE_BUCKETS, UNITS, Words};
use crate::layout::directory::{self, Bucket, MAP_LOCK, Named, Near, map_at};
use crate::layout::entry;
use crate::layout::hash::{Hash, hash};
use crate::layout::raw;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Location {
    pub(crate) db: Db,
    pub(crate) hash: Hash,
    pub(crate) root: u64,
    pub(crate) home: u64,
    pub(crate) bucket: Bucket,
    pub(crate) slot_at: u64,
    pub(crate) slot: u64,
    extent: u64,
    homes: u64,
    buckets: u64,
}

impl Location {
    /// The database that it is of.
    pub fn db(&self) -> Db {
        self.db
    }

    /// The node of its extent.
    #[inline]
    pub(crate) fn extent(&self) -> u64 {
        self.extent
    }

    /// The home bucket of a key; `None` when the database has no keys or makes no sense.
    #[inline(always)]
    pub(crate) fn of(segment: &Segment, db: Db, key: &[u8]) -> Option<Location> {
        Location::at(segment, db, hash(key, segment.secret()))
    }

    /// Like that, of a key with this hash.
    #[inline(always)]
    pub(crate) fn at(segment: &Segment, db: Db, hash: Hash) -> Option<Location> {
        let root = segment.observe(map_at(db) + 8);
        let Some(near) = directory::nearly_home(segment.raw_view(), root, hash.position) else {
            return Location::from_afar(segment, db, hash, root);
        };
        let Near { slot_at, slot, extent, shape, home, piece, number } = near;
        let (homes, pieces, _) = directory::shape_of(shape)?;
        Some(Location {
            db,
            hash,
            root,
            home,
            bucket: Bucket::of(piece, number),
            slot_at,
            slot,
            extent,
            homes,
            buckets: pieces * PIECE_BUCKETS,
        })
    }

    /// Like that, by way of a deeper directory, or one that makes no sense.
    #[cold]
    fn from_afar(segment: &Segment, db: Db, hash: Hash, root: u64) -> Option<Location> {
        let Named { extent, slot_at, slot, level, .. } = directory::find(segment, root, hash.position)?;
        let (homes, pieces, depth) = directory::shape(segment, extent, level)?;
        let home = directory::home_of(hash.position, depth, homes);
        let bucket = directory::bucket(segment, extent, home)?;
        Some(Location {
            db,
            hash,
            root,
            home,
            bucket,
            slot_at,
            slot,
            extent,
            homes,
            buckets: pieces * PIECE_BUCKETS,
        })
    }

    /// Returns true if the extent is the one that the key belongs to, now.
    #[inline(always)]
    pub(crate) fn is_current(&self, segment: &Segment) -> bool {
        is_current(segment.raw_view(), (self.db, self.root), (self.slot_at, self.slot))
    }

    /// The buckets in which an entry of this home may lie: see [`directory::places`].
    #[inline]
    pub(crate) fn places(&self) -> [u64; 4] {
        directory::places(self.home, self.homes, self.buckets - self.homes)
    }

    /// Bucket `index` of the extent; `None` when its node is damaged (S5).
    pub(crate) fn bucket(&self, segment: &Segment, index: u64) -> Option<Bucket> {
        directory::bucket(segment, self.extent, index)
    }
}

/// Returns true if a database has this root and its directory's slot this word, now.
///
/// The map's lock is looked at before the root word: a FLUSH that has committed holds it until the root word is written.
#[inline(always)]
pub(crate) fn is_current(lens: RawView<'_>, (db, root): (Db, u64), (slot_at, slot): (u64, u64)) -> bool {
    lens.observe(slot_at) == slot
        && lens.observe(MAP_LOCK) & lock::OWNER == 0
        && lens.observe(map_at(db) + 8) == root
}

/// The finding of one look into a bucket.
pub(crate) enum BucketProbe {
    /// The unit at which the key's inline entry begins.
    Here(usize),
    /// The unit of an entry with a record that is the key's by 24 bits of the hash.
    Record(usize),
    /// Not here; entries at home here that lie next door and in the stash.
    Miss(u8, u8),
}

/// Looks for `key` in a bucket.
#[inline(always)]
pub(crate) fn probe_bucket(live: &Live<'_>, hash: &Hash, key: &[u8]) -> BucketProbe {
    let mut candidates = raw::units_tagged(live.segment.raw_view(), live.bucket.line, hash.tag);
    while candidates != 0 {
        let unit = candidates.trailing_zeros() as usize;
        candidates &= candidates - 1;
        let second = live.unit_word(unit * 2 + 1);
        if second as u8 & entry::REFERENCE != 0 {
            if entry::extra_of(second) == hash.extra {
                return BucketProbe::Record(unit);
            }
        } else if entry::inline_key_is(
            |number| live.unit_word((unit * 2 + number).min(UNITS * 2 - 1)),
            second,
            key,
        ) {
            return BucketProbe::Here(unit);
        }
    }
    let (next, stash) = bucket::displaced(live.word(7));
    BucketProbe::Miss(next, stash)
}

/// A bucket that is being read, and its word when that began.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) bucket: Bucket,
    pub(crate) word: u64,
}

impl Reading {
    /// `None` when the bucket is locked or dead.
    #[inline(always)]
    pub(crate) fn begin(segment: &Segment, bucket: Bucket) -> Option<Reading> {
        let word = segment.observe(bucket.line);
        (word & (lock::OWNER | lock::DEAD) == 0).then_some(Reading { bucket, word })
    }

    /// Begins in a bucket that may be locked by this thread, whose seat is `own`. `None` when another thread has it locked, or it is dead.
    #[inline(always)]
    fn begin_among(segment: &Segment, bucket: Bucket, own: Option<u64>) -> Option<Reading> {
        let word = segment.observe(bucket.line);
        let is_foreign = lock::owner(word).is_some_and(|owner| Some(owner) != own);
        (!is_foreign && word & lock::DEAD == 0).then_some(Reading { bucket, word })
    }

    /// Returns true if all that was read since was one state. It is checked last, after the map: two swaps can bring an old root back, but a bucket's
    /// word never comes back.
    #[inline(always)]
    pub(crate) fn holds(&self, segment: &Segment) -> bool {
        segment.acquire_fence();
        segment.load(self.bucket.line) == self.word
    }
}

/// The outcome of a search.
pub(crate) enum Search {
    /// The unit at which the key's inline entry begins, and the bucket in which it lies.
    Here(Reading, usize),
    /// Like that, of an entry with a record that is the key's by 24 bits of the hash.
    Record(Reading, usize),
    /// There is none, if the home holds and the location is current.
    Absent,
}

/// An entry that lies in another bucket than its home.
#[derive(Clone, Copy)]
pub(crate) struct Displaced {
    pub(crate) reading: Reading,
    pub(crate) in_stash: bool,
    /// It has a record, and is the key's by 24 bits of the hash.
    pub(crate) is_record: bool,
}

impl Location {
    /// Searches for the entry of a key, the home of which `home` has begun to read. `None`: another thread has a bucket locked, or changed it.
    #[inline(always)]
    pub(crate) fn search(&self, segment: &Segment, key: &[u8], home: Reading) -> Option<Search> {
        match probe_bucket(&Live { segment, bucket: self.bucket }, &self.hash, key) {
            BucketProbe::Here(unit) => Some(Search::Here(home, unit)),
            BucketProbe::Record(unit) => Some(Search::Record(home, unit)),
            BucketProbe::Miss(0, 0) => Some(Search::Absent),
            BucketProbe::Miss(next, stash) => {
                Some(match self.search_elsewhere(segment, key, (next, stash))? {
                    Some((unit, Displaced { reading, is_record: false, .. })) => Search::Here(reading, unit),
                    Some((unit, Displaced { reading, .. })) => Search::Record(reading, unit),
                    None => Search::Absent,
                })
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn search_elsewhere(
        &self,
        segment: &Segment,
        key: &[u8],
        counts: (u8, u8),
    ) -> Option<Option<(usize, Displaced)>> {
        self.search_displaced(segment, key, counts, None)
    }

    /// Searches the other buckets than the home; returns the unit at which the entry begins, too. `counts` are the home's: its entries in the
    /// next bucket and in the stash. `own` is the seat of a thread that may have some of the buckets locked. `None` and `Some(None)`: as `None` and
    /// `Absent` of [`Location::search`].
    ///
    /// Inlined into a cold function of each caller, which has the arguments that spare the caller's registers.
    #[inline(always)]
    pub(crate) fn search_displaced(
        &self,
        segment: &Segment,
        key: &[u8],
        counts: (u8, u8),
        own: Option<u64>,
    ) -> Option<Option<(usize, Displaced)>> {
        for (index, in_stash) in directory::elsewhere(self.places(), counts) {
            let reading = Reading::begin_among(segment, self.bucket(segment, index)?, own)?;
            let found = |unit, is_record| Some(Some((unit, Displaced { reading, in_stash, is_record })));
            match probe_bucket(&Live { segment, bucket: reading.bucket }, &self.hash, key) {
                BucketProbe::Here(unit) => return found(unit, false),
                BucketProbe::Record(unit) => return found(unit, true),
                // Others may move the entry within the bucket, which its home's word does not show.
                BucketProbe::Miss(..) if !reading.holds(segment) => return None,
                BucketProbe::Miss(..) => {}
            }
        }
        Some(None)
    }
}
