//! Watching a key (WATCH): what it was, and whether a commit has touched it since.
//!
//! A key that is there is watched by its entry's version, which no other change ever has. A key that is absent has no entry, and
//! none is made for it: a client that may only watch cannot make memory grow. It is watched by its home bucket.
//!
//! ```text
//!   WATCH k    home bucket locked:   k is absent, the bucket's version is v, the directory's slot names its extent
//!   EXEC       home bucket locked:   k is absent, the version is v or v + 1, the slot is the same        -> untouched
//!                                    anything else                                                      -> EXEC aborts
//! ```
//!
//! Why that is enough: a commit that makes a key, or takes one away, changes the header line of its home bucket (the tags if the
//! entry lies at home, else the counts of displaced entries), so releasing that bucket's lock adds one to its version. A key that
//! was made and taken away again was in two commits. So a version that has moved by one at most, with the key absent at both
//! ends, proves that the key was never there in between, as Redis requires: a key that comes and goes counts as touched.
//!
//! What it costs: an EXEC may abort although the watched key was left alone, if two commits to other keys of the bucket came in
//! between, or if the extent was replaced (growth, shrinking). The client tries again, as after any abort. Measured with 200 us
//! between WATCH and EXEC: beside 30,000 writes a second to keys drawn from 100, 1,000, 10,000 and 100,000, some 40 %, 2 %, 0 % and
//! 0 % of EXECs abort so; beside 1 to 2.6 million a second, 100 %, 80 %, 24 to 37 % and 0.5 % (`table/tests/table/watch.rs` prints the rates of
//! the machine that it runs on). The first key that is written or watched in a database makes the database: some 9 KiB, once for
//! each of the 256.
//!
//! Versions have 32 bits. A watch that lasts for exactly 2^32 commits to one bucket is deceived.

use crate::access::lookup::{self};
use crate::api::*;
use crate::layout::entry::is_key;
use crate::txn::Txn;
use crate::txn::held::Spot;

/// A bucket's version may have moved by so much in the life of a watch of an absent key: see the module.
const MOVES_MAX: u32 = 1;

impl Txn<'_> {
    /// Remembers the key's state for [`Txn::unchanged`]. To be called in write mode.
    ///
    /// # Errors
    /// [`Stop::Retry`], a fault.
    pub fn watch(&self, db: Db, key: &[u8]) -> Result<Watch, Stop> {
        let index = self.hold(db, key, false)?;
        let held = &self.buffers.held.borrow()[index];
        let seen = match held.spot {
            Some(Spot { image, expired: Some(_), .. }) if is_key(&image) => Seen::Expired(image.version()),
            Some(Spot { image, .. }) if is_key(&image) => Seen::Key(image.version()),
            // No entry, or a marker of an older build.
            _ => Seen::Absent(self.absence(index)),
        };
        Ok(Watch { db, key: key.to_vec(), seen, root: held.extent.root })
    }

    /// What says that a locked key is absent.
    fn absence(&self, index: usize) -> Absence {
        let held = &self.buffers.held.borrow()[index];
        let home = self.buffers.shadows.borrow()[held.home].bucket;
        Absence::of(held.extent.slot, self.segment().load(home.line))
    }

    /// Whether no commit has touched the watched key since. A key that was absent (or had expired) is not touched by FLUSHALL or
    /// SWAPDB as long as it is absent from the database that has its number then.
    ///
    /// # Errors
    /// As [`Txn::find`].
    pub fn unchanged(&self, watch: &Watch) -> Result<bool, Stop> {
        let (root, entry, absence) = if self.locks() {
            let index = self.hold(watch.db, &watch.key, false)?;
            let (root, spot) = {
                let held = &self.buffers.held.borrow()[index];
                (held.extent.root, held.spot)
            };
            (root, spot.map(|spot| (spot.image, spot.expired.is_some())), Some(self.absence(index)))
        } else {
            let mut marks = self.buffers.reads.marks.borrow_mut();
            let before = marks.len();
            self.attempt.lookups.set(self.attempt.lookups.get() + 1);
            let hash = self.hash_of(&watch.key);
            let root = self.root_now(watch.db);
            let entry = match lookup::lookup(&self.seat, watch.db, &hash, &(self, &watch.key[..]), &mut marks)
                .map_err(|stop| self.met_in(watch.db, stop))?
            {
                Some(hit) => {
                    let expired = self.gone(&hit.image)?;
                    Some((hit.image, expired.is_some()))
                }
                None => None,
            };
            (root, entry, lookup::absence(&marks[before..]))
        };
        let is_other_root = root != watch.root;
        let entry = entry.filter(|(image, _)| is_key(image));
        Ok(match (watch.seen, entry) {
            (Seen::Key(version), Some((image, expired))) => image.version() == version && !expired,
            (Seen::Key(_), None) => false,
            (Seen::Expired(version), Some((image, expired))) => {
                expired && (image.version() == version || is_other_root)
            }
            (Seen::Expired(_), None) => true,
            (Seen::Absent(_), Some((_, expired))) => expired && is_other_root,
            (Seen::Absent(seen), None) => {
                is_other_root || absence.is_some_and(|now| now.moves_since(&seen) <= MOVES_MAX)
            }
        })
    }

    /// The root word of a database as it is now; 0 where it has none.
    fn root_now(&self, db: Db) -> u64 {
        self.segment().observe(crate::layout::directory::map_at(self.physical(db)) + 8)
    }
}
