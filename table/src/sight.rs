//! Where a key belongs, as it was seen without a lock: what the short ways (`quick.rs`) and the prefetching of many keys begin with.
//!
//! A sight is used as long as it is current: the database still has this directory, and the directory's slot still names this
//! extent. A thread looks at root and slot again, and at the bucket's word after that. The sight may be made without a pin: what it names is
//! only read until then, and what was read is not believed before.
//!
//! Can an outdated sight look current? A root word comes back when two swaps bring it back: then it names the same directory. A slot's
//! word holds the extent's place and 22 bits of a version (`directory::extent_slot`). It is the same again only if, between the making
//! and the use of the sight, the extent was replaced, its node freed and handed out again as an extent for the same slot, and the
//! number of versions drawn meanwhile is a multiple of 2^22 (one chance in 4 million for each such return).
//! - A server makes its sights within the pin of its turn. What lived when the pin began is not freed until the turn ends, however long the
//!   thread is stopped, so its place cannot return. That leaves an extent that was born after the pin's last epoch and before the sight.
//! - Elsewhere a sight is made and used in one call, some hundred instructions apart: the thread must be stopped exactly there.
//!
//! So it takes a thread that is stopped between two such instructions for as long as 2^22 versions take (a second at full speed), and
//! one chance in 4 million for each return of the place. Then a bucket's lock may be tried in a piece that is no bucket any more; what is found there
//! fails the checks of S5, or is another bucket, where the key is not found and whose counts are wrong for it. Another look at the extent's piece
//! would close that, for a load and a branch in each call; a wider stamp needs another layout.

use polder_shm::{Segment, lock};

use crate::api::Db;
use crate::bucket::PIECE_BUCKETS;
use crate::directory::{self, Bucket, MAP_LOCK, Named, Near, map_at};
use crate::hash::{Hash, hash};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
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

impl Sight {
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
    pub(crate) fn of(segment: &Segment, db: Db, key: &[u8]) -> Option<Sight> {
        Sight::at(segment, db, hash(key, segment.secret()))
    }

    /// The same of a key with this hash.
    #[inline(always)]
    pub(crate) fn at(segment: &Segment, db: Db, hash: Hash) -> Option<Sight> {
        let root = segment.observe(map_at(db) + 8);
        let Some(near) = directory::nearly_home(segment.lens(), root, hash.position) else {
            return Sight::from_afar(segment, db, hash, root);
        };
        let Near { slot_at, slot, extent, shape, home, piece, number } = near;
        let (homes, pieces, _) = directory::shape_of(shape)?;
        Some(Sight {
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
    fn from_afar(segment: &Segment, db: Db, hash: Hash, root: u64) -> Option<Sight> {
        let Named { extent, slot_at, slot, level, .. } = directory::find(segment, root, hash.position)?;
        let (homes, pieces, depth) = directory::shape(segment, extent, level)?;
        let home = directory::home_of(hash.position, depth, homes);
        let bucket = directory::bucket(segment, extent, home)?;
        Some(Sight { db, hash, root, home, bucket, slot_at, slot, extent, homes, buckets: pieces * PIECE_BUCKETS })
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
