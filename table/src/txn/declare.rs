//! The keys of a transaction, named before it begins: locked in order, or fetched into the cache.
//!
//! ```text
//!   key -> hash, walk -> extent, home --.
//!   key -> hash, walk -> extent, home --+-- sorted by order (T2) -- locked, each bucket once -- each key's entry searched for
//!   key -> ...                        --'
//! ```
//!
//! Each key is hashed and walked to once; what is found on the way goes into the held keys.

use smallvec::SmallVec;

use crate::access::prefetch::PREFETCH_KEYS;
use crate::api::*;
use crate::layout::directory::Extent;
use crate::layout::hash::Hash;
use crate::txn::Txn;
use crate::txn::held::Order;

/// Where a declared key belongs.
struct Wanted<'k> {
    db: Db,
    key: &'k [u8],
    hash: Hash,
    extent: Extent,
    /// The shadow of its home, once that is locked.
    home: usize,
    /// Another key before it has the same home: it may be the same key.
    shares: bool,
}

/// A bucket to lock, and for which of the keys; a neighbour is for none of them.
type Lock = (Order, usize, u64);

/// Calls with fewer keys need no allocation.
const FEW: usize = 12;

impl Txn<'_> {
    /// Names the keys that the call will touch: write mode locks their buckets, read mode fetches them into the cache.
    ///
    /// # Errors
    /// [`Stop::Retry`] when a database was swapped or flushed meanwhile; [`Stop::Busy`]; a fault.
    pub fn declare(&self, keys: &[(Db, &[u8])]) -> Result<(), Stop> {
        self.buffers.take_trouble()?;
        if !self.locks() {
            if keys.len() > 1 {
                let mut locations = self.buffers.reads.locations.borrow_mut();
                for keys in keys.chunks(PREFETCH_KEYS) {
                    self.table.prefetch(keys.iter().copied(), &mut locations);
                    locations.clear();
                }
            }
            return Ok(());
        }
        if let [(db, key)] = keys
            && self.declare_single(*db, key)?
        {
            return Ok(());
        }
        self.escalate()?;
        // Before anything is locked: it may have to make an outbox.
        self.tells();
        // A copy: a bucket next door that is busy adds to what the next attempt declares.
        let extra = self.buffers.retry.extra.borrow().clone();
        if let ([(db, key)], true) = (keys, extra.is_empty()) {
            return self.hold(*db, key, true).map(drop);
        }
        let mut all = keys.iter().copied().chain(extra.iter().map(|(db, key)| (*db, &key[..])));
        if !self.buffers.map.flushes.borrow().is_empty() || !self.buffers.map.swaps.borrow().is_empty() {
            // The transaction has emptied or swapped databases already, so within it their numbers have a meaning of their own.
            return all.try_for_each(|(db, key)| self.hold(db, key, false).map(drop));
        }
        let mut wanted: SmallVec<[Wanted<'_>; FEW]> = SmallVec::with_capacity(keys.len());
        // Mostly all of one database; whether it has changed meanwhile is looked at once its buckets are locked.
        let mut known = None;
        for (db, key) in all {
            let (_, root) = match known.filter(|(of, _)| *of == db) {
                Some(known) => known,
                None => *known.insert((db, self.root_of(db)?)),
            };
            wanted.push(self.wanted(db, root, key)?);
        }
        self.lock_homes(&mut wanted)?;
        // A second declaration, of a reader that has become a writer, may name what is held already.
        let first = self.buffers.held.borrow().is_empty();
        for Wanted { db, key, hash, extent, home, shares } in &wanted {
            if (first && !shares) || self.buffers.held_index(*db, key, || *hash).is_none() {
                self.hold_at(*db, key, *hash, *extent, *home)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn wanted<'k>(&self, db: Db, root: u64, key: &'k [u8]) -> Result<Wanted<'k>, Stop> {
        let hash = self.hash_of(key);
        let extent = match self.walk(db, root, hash.position)? {
            Some(extent) => extent,
            None => loop {
                if let Some(extent) = self.walk(db, self.root_of(db)?, hash.position)? {
                    break extent;
                }
            },
        };
        Ok(Wanted { db, key, hash, extent, home: 0, shares: false })
    }

    /// Locks the home buckets of all keys in order (T2); in a wide retry, the neighbours and stashes too. Where the transaction holds something already,
    /// what is busy and comes before that is left to the next attempt, which names it first.
    fn lock_homes(&self, wanted: &mut [Wanted<'_>]) -> Result<(), Stop> {
        self.attempt.dirty.set(true);
        let wide = self.buffers.retry.wide.get();
        let mut locks: SmallVec<[Lock; FEW]> =
            SmallVec::with_capacity(wanted.len() * if wide { 4 } else { 1 });
        for (number, Wanted { hash, extent, .. }) in wanted.iter().enumerate() {
            let places = extent.places(extent.home_of(hash.position));
            let places = if wide { &places[..] } else { &places[..1] };
            locks.extend(places.iter().map(|index| (extent.order(*index), number, *index)));
        }
        // Of keys with the same home, the one named first comes first.
        locks.sort_unstable();
        let mut last = None::<(Order, usize)>;
        for (order, number, index) in locks {
            let Wanted { db, key, extent, hash, .. } = &wanted[number];
            let is_home = extent.home_of(hash.position) == index;
            let known = last.filter(|(locked, _)| *locked == order).map(|(_, shadow)| shadow);
            let shadow = match known {
                Some(shadow) => shadow,
                None => self.lock_bucket(*db, extent, index, key)?.ok_or(Stop::Retry)?,
            };
            if is_home {
                (wanted[number].home, wanted[number].shares) = (shadow, known.is_some());
            }
            last = Some((order, shadow));
        }
        Ok(())
    }
}
