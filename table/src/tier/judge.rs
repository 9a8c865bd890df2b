//! Which copies of a tier are still of use: what its store asks before it drops one.
//!
//! - **V3** A copy is of use while an entry in its place has its version, in whatever form: stub, clean, or a record whose copy was only just taken. No two
//!   entries of a memory ever have the same version. The place is looked at below each root with the copy's tally, and the map is read as one state, since
//!   a SWAPDB moves roots. Nothing is locked.
//! - **V4** While a snapshot is on, all copies are of use. It is looked for *after* the table: a snapshot that begins later does not have what is gone by
//!   now, and one that was on earlier is either on still or needs no copy any more.
//!
//! Copies that cannot be judged within [`ATTEMPTS`] are kept.

use polder_shm::lock;

use crate::api::{DATABASES, Db, Mode, STAGED};
use crate::layout::directory::{self, MAP_LOCK, map_at};
use crate::layout::parcel;
use crate::layout::stub::{Granule, Name};
use crate::table::Table;
use crate::txn::Txn;

/// Looks at a place that other threads change.
const ATTEMPTS: u32 = 100;

impl Table {
    /// Returns false if a copy is of no use any more, and never will be.
    pub fn needs_copy(&self, name: Name, copy: &[u8]) -> bool {
        let Ok(tally) = parcel::tally(copy) else { return true };
        let Ok(txn) = self.begin(Mode::Read) else { return true };
        let has = (0..ATTEMPTS).find_map(|_| txn.has_version(name, tally));
        // V4: behind the look at the table.
        self.segment().acquire_fence();
        has != Some(false) || self.segment().snapshot() != 0
    }
}

impl Txn<'_> {
    /// Returns whether an entry below a root with this tally has the version of a copy; `None`: something has changed meanwhile.
    fn has_version(&self, name: Name, tally: u64) -> Option<bool> {
        let segment = self.segment();
        let map = segment.observe(MAP_LOCK);
        if lock::owner(map).is_some() {
            return None;
        }
        let numbers = (0..DATABASES as Db).chain(STAGED..STAGED + DATABASES as Db);
        let roots = numbers.map(|db| segment.observe(map_at(db) + 8));
        let mut has = false;
        for root in roots.filter(|root| *root != 0 && directory::tally_of(*root) == tally) {
            has |= self.has_version_below(root, name)?;
        }
        segment.acquire_fence();
        (segment.load(MAP_LOCK) == map).then_some(has)
    }

    fn has_version_below(&self, root: u64, name: Name) -> Option<bool> {
        let Granule { first, last } = name.granule();
        // A granule that a boundary cuts has two homes.
        for position in [first, last] {
            let extent = directory::walk(self.segment(), root, position);
            if !self.seat.covers_now() {
                return None;
            }
            let extent = extent?;
            let images = self.at_home(&extent, extent.home_of(position))?;
            if images.iter().any(|image| image.version() == name.version) {
                return Some(true);
            }
        }
        Some(false)
    }
}
