//! Where a key belongs, as it was seen without a lock: what the short ways (`quick.rs`) and the prefetching of many keys begin with.
//!
//! A sight is worth something as long as it is current: the database still has this directory, and the directory's slot still
//! names this extent. Both words are never the same twice, so whoever looks at them again afterwards knows. It may be made without
//! a pin: what it names is only read until then, and what was read is not believed before.

use polder_base::Ref;
use polder_shm::{Segment, lock, offset_of};

use crate::api::Db;
use crate::bucket::{PIECE_BUCKETS, PIECE_BYTES};
use crate::directory::{self, Bucket, MAP_LOCK, extent, map_at};
use crate::hash::{Hash, hash};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    pub(crate) db: Db,
    pub(crate) hash: Hash,
    pub(crate) root: u64,
    pub(crate) home: u64,
    pub(crate) bucket: Bucket,
    slot_at: u64,
    slot: u64,
    extent: u64,
    homes: u64,
    buckets: u64,
}

impl Sight {
    /// The database that it is of.
    pub fn db(&self) -> Db {
        self.db
    }

    /// The home bucket of a key; `None` when the database has no keys or makes no sense.
    #[inline(always)]
    pub(crate) fn of(segment: &Segment, db: Db, key: &[u8]) -> Option<Sight> {
        let hash = hash(key, segment.secret());
        let root = segment.observe(map_at(db) + 8);
        let found = directory::walk(segment, root, hash.position)?;
        let home = found.home_of(hash.position);
        let bucket = found.bucket(segment, home)?;
        let (slot_at, slot, extent, homes, buckets) = (found.slot_at, found.slot, found.at, found.homes, found.buckets());
        Some(Sight { db, hash, root, home, bucket, slot_at, slot, extent, homes, buckets })
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
        let piece = offset_of(Ref(segment.load(self.extent + extent::PIECES + index / PIECE_BUCKETS * 8)));
        segment.has_node(piece, PIECE_BYTES).then(|| Bucket::of(piece, index % PIECE_BUCKETS))
    }
}
