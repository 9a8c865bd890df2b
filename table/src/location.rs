//! A *location*: where a key belongs, found without a lock. The fast paths (`quick.rs`) and the prefetching of many keys begin with it.
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

use polder_shm::{Segment, lock};

use crate::api::Db;
use crate::bucket::PIECE_BUCKETS;
use crate::directory::{self, Bucket, MAP_LOCK, Named, Near, map_at};
use crate::hash::{Hash, hash};

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

    /// The same of a key with this hash.
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

    /// The same by way of a deeper directory, or one that makes no sense.
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

    /// Whether the extent is the one that the key belongs to, now.
    ///
    /// The map's lock is looked at before the root word: a FLUSH that has committed holds it until the root word is written.
    #[inline(always)]
    pub(crate) fn is_current(&self, segment: &Segment) -> bool {
        segment.observe(self.slot_at) == self.slot
            && lock::owner(segment.observe(MAP_LOCK)).is_none()
            && segment.observe(map_at(self.db) + 8) == self.root
    }

    /// The other buckets in which an entry of this home may lie, and whether they are the stash's.
    pub(crate) fn others(&self) -> [(u64, bool); 3] {
        let [_, beside, one, other] = directory::places(self.home, self.homes, self.buckets - self.homes);
        [(beside, false), (one, true), (other, true)]
    }

    /// Bucket `index` of the extent; `None` when its node is damaged (S5).
    pub(crate) fn bucket(&self, segment: &Segment, index: u64) -> Option<Bucket> {
        directory::bucket(segment, self.extent, index)
    }
}
