//! Watching a key (WATCH): what it was, and whether anything has happened to it since.

use polder_base::Fault;
use polder_values::{Kind, Value};

use crate::api::*;
use crate::entry::Image;
use crate::hash::Hash;
use crate::place::is_key;
use crate::txn::{Pending, Spot, Txn};
use crate::{clock, directory, lookup};

impl Txn<'_> {
    /// Remembers the key's state for [`Txn::unchanged`]. In write mode an absent key gets a marker, whose disappearance tells.
    ///
    /// # Errors
    /// [`Stop::Retry`], a fault.
    pub fn watch(&self, db: Db, key: &[u8]) -> Result<Watch, Stop> {
        let index = self.hold(db, key, false)?;
        let (spot, hash) = {
            let held = &self.scratch.held.borrow()[index];
            (held.spot, held.hash)
        };
        let watch = |version, absent, expired| Watch { db, key: key.to_vec(), version, absent, expired, root: self.root_now(db) };
        if let Some(Spot { image, expired, .. }) = spot {
            return Ok(watch(image.version(), expired.is_some() || !is_key(&image), expired.is_some()));
        }
        let image = self.marker(key, &hash)?;
        self.replace(index, Pending::Write(image), Replaces::Whole)?;
        Ok(watch(image.version(), true, false))
    }

    /// The root word of a database as it is now; 0 where it has none.
    fn root_now(&self, db: Db) -> u64 {
        self.segment().observe(directory::map_at(self.physical(db)) + 8)
    }

    /// An entry that says: there is no such key, and somebody wants to know when there is. It goes away by itself.
    fn marker(&self, key: &[u8], hash: &Hash) -> Result<Image, Fault> {
        const MARKER_MS: u64 = 3_600_000;
        let mut new = New::of(Kind::String, Value::Packed(b""));
        new.expiry_ms = Some(self.now_ms() + MARKER_MS);
        let mut image = self.image(key, hash, &new, clock::lru(self.now_ms()))?;
        image.words[1] &= !0x0f;
        Ok(image)
    }

    /// Whether nothing has happened to the watched key since. Who watched no key (or one that had expired) is not touched by FLUSHALL or
    /// SWAPDB as long as there is still none.
    ///
    /// # Errors
    /// As [`Txn::find`].
    pub fn unchanged(&self, watch: &Watch) -> Result<bool, Stop> {
        let other_root = self.root_now(watch.db) != watch.root;
        let entry = if self.locks() {
            let index = self.hold(watch.db, &watch.key, false)?;
            self.scratch.held.borrow()[index].spot.map(|spot| (spot.image, spot.expired.is_some()))
        } else {
            let mut marks = self.scratch.marks.borrow_mut();
            self.lookups.set(self.lookups.get() + 1);
            let hash = self.hash_of(&watch.key);
            match lookup::lookup(&self.seat, watch.db, &hash, &(self, &watch.key[..]), &mut marks)? {
                Some(hit) => {
                    let expired = self.gone(&hit.image)?;
                    Some((hit.image, expired.is_some()))
                }
                None => None,
            }
        };
        Ok(match entry {
            Some((image, expired)) if !watch.absent => image.version() == watch.version && !expired,
            // A marker with another version: there was a key meanwhile.
            Some((image, expired)) => (expired || !is_key(&image)) && (image.version() == watch.version || other_root),
            None => watch.expired || watch.absent && other_root,
        })
    }
}
