//! How a transaction comes to hold a key: it locks the key's home bucket, and finds the entry below that lock.
//!
//! T1 to T3 are those of [`crate::txn`]. Locks in the order of T2 are waited for; any other is only tried, and where that fails the
//! transaction runs again with the key among the declared ones.

use polder_base::Fault;
use polder_shm::{Locked, lock, sync};

use crate::access::lookup::{self, KeyTest};
use crate::api::*;
use crate::layout::bucket::{self, UNITS, Words};
use crate::layout::directory::{self, Extent};
use crate::layout::entry::{self, is_key};
use crate::layout::hash::Hash;
use crate::txn::Txn;
use crate::txn::held::{Held, Spot};

/// Looks at a map that is being changed before the thread naps between them.
const LOOKS: u32 = 100;

impl Txn<'_> {
    /// Locks the key's home bucket and finds its entry. Returns its number among the held keys.
    ///
    /// `declared`: the lock may be waited for (T2 is kept by the caller's order).
    pub(crate) fn hold(&self, db: Db, key: &[u8], declared: bool) -> Result<usize, Stop> {
        self.escalate()?;
        // Before anything is locked: it may have to make an outbox.
        self.tells();
        if !declared && self.buffers.owes_declaration() {
            // A transaction without declared keys has met a busy key out of order in its last attempt. It waits for that key now, before
            // all others.
            self.declare(&[])?;
        }
        let db = self.physical(db);
        if let Some(index) = self.buffers.held_index(db, key, || self.hash_of(key)) {
            return Ok(index);
        }
        self.attempt.dirty.set(true);
        let hash = self.hash_of(key);
        if self.buffers.map.flushes.borrow().contains(&db) {
            return Ok(self.hold_fresh(db, key, hash));
        }
        loop {
            let root = self.root_of(db)?;
            let Some(extent) = self.walk(db, root, hash.position)? else { continue };
            let home = extent.home_of(hash.position);
            let Some(home) = self.lock_bucket(db, &extent, home, key)? else { continue };
            return self.hold_at(db, key, hash, extent, home);
        }
    }

    /// As [`Txn::hold`], of a key whose home bucket is locked and has this shadow.
    pub(crate) fn hold_at(
        &self,
        db: Db,
        key: &[u8],
        hash: Hash,
        extent: Extent,
        home: usize,
    ) -> Result<usize, Stop> {
        if !self.is_root(db, extent.root) || !extent.is_current(self.segment()) {
            // The database was swapped or flushed: its new directory is another lock order.
            return Err(Stop::Retry);
        }
        let spot = self.search(db, &extent, home, &hash, key).map_err(|stop| self.met_in(db, stop))?;
        let expired = spot.filter(|spot| is_key(&spot.image)).and_then(|spot| spot.expired);
        let keeps_expired = expired.is_some() && !self.removes_expired();
        if let Some(expired) = expired.filter(|_| !keeps_expired) {
            self.note_gone(expired, db, key);
            self.tell_expired(db, key);
        }
        let at = self.buffers.keep_key(key);
        let mut held = self.buffers.held.borrow_mut();
        held.push(Held {
            db,
            key: at,
            hash,
            extent,
            home,
            spot,
            pending: None,
            retires: None,
            fresh: false,
            passed: false,
            untold: 0,
            counts: false,
            keeps_expired,
        });
        Ok(held.len() - 1)
    }

    /// The root word of a database, which is made if it is not there: at once while nothing is locked, else before the retry.
    pub(crate) fn root_of(&self, db: Db) -> Result<u64, Stop> {
        if db > SYSTEM && !(STAGED..STAGED + SYSTEM).contains(&db) {
            return Err("ERR DB index is out of range".into());
        }
        // If a FLUSH has committed and not written out the map yet, a write below the old root would be lost after it is acknowledged. So
        // this waits for the owner of the map's lock. That owner has committed and waits for no lock any more, so it is safe to wait for it
        // while buckets are locked; if it runs, it needs a few instructions. If it is stopped, this is like any lock of a stopped process:
        // it lasts until the deadline, with sleeps in between.
        let mut looks = 0u32;
        while lookup::map_is_changing(&self.seat) {
            if self.deadline().is_some_and(|deadline| sync::now() >= deadline) {
                return Err(Stop::Busy);
            }
            looks += 1;
            if looks < LOOKS {
                sync::yield_now();
            } else {
                sync::sleep(lock::NAP);
            }
        }
        let root = self.segment().observe(directory::map_at(db) + 8);
        if root != 0 {
            return Ok(root);
        }
        if self.seat.journal_len() == 0 {
            self.make_database(db);
            self.buffers.take_trouble()?;
            return self.root_of(db);
        }
        self.buffers.retry.missing.set(Some(db));
        Err(Stop::Retry)
    }

    /// Whether a root word is still the database's.
    pub(crate) fn is_root(&self, db: Db, root: u64) -> bool {
        self.segment().observe(directory::map_at(db) + 8) == root && !lookup::map_is_changing(&self.seat)
    }

    /// Walks to the extent of a position; `None`: the pin did not cover what was seen, or the database was emptied, walk again.
    pub(crate) fn walk(&self, db: Db, root: u64, position: u64) -> Result<Option<Extent>, Stop> {
        let extent = directory::walk(self.segment(), root, position);
        if !self.seat.covers_now() {
            return Ok(None);
        }
        match extent {
            Some(extent) => Ok(Some(extent)),
            None if self.is_root(db, root) => Err(Fault::Damaged { what: "the directory" }.into()),
            None => Ok(None),
        }
    }

    /// Locks bucket `index` of an extent, unless it is locked already. Returns its shadow, or `None` when it is dead.
    pub(crate) fn lock_bucket(
        &self,
        db: Db,
        extent: &Extent,
        index: u64,
        key: &[u8],
    ) -> Result<Option<usize>, Stop> {
        let damaged = Fault::Damaged { what: "an extent" };
        let bucket = extent.bucket(self.segment(), index).ok_or(damaged)?;
        if let Some(shadow) = self.buffers.shadow_of(bucket) {
            return Ok(Some(shadow));
        }
        let order = extent.order(index);
        // T2: a lock that is out of order is only tried, also for a key that is declared during the transaction.
        let locked = if order > self.buffers.highest.get() {
            self.lock_patiently(bucket.line)?
        } else {
            self.seat.lock_now(bucket.line)?
        };
        match locked {
            Locked::Ours(_) => {
                self.buffers.highest.set(self.buffers.highest.get().max(order));
                Ok(Some(self.buffers.push_shadow(bucket, self.seat.journal_len() - 1)))
            }
            // By the time a bucket dies, the slot names another extent: or else it is damaged (S5).
            Locked::Dead if extent.is_current(self.segment()) => {
                Err(Fault::Damaged { what: "a bucket" }.into())
            }
            Locked::Dead => Ok(None),
            Locked::Busy if self.deadline().is_some_and(|deadline| sync::now() >= deadline) => {
                Err(Stop::Busy)
            }
            Locked::Busy => {
                self.buffers.retry.wide.set(true);
                self.buffers.retry.extra.borrow_mut().push((db, key.to_vec()));
                Err(Stop::Retry)
            }
        }
    }

    /// Finds the entry of a key whose home is locked, locking the neighbour and the stash as far as entries of this home lie there. Nothing is
    /// placed before the commit, so that the bucket itself is what is there.
    fn search(
        &self,
        db: Db,
        extent: &Extent,
        home: usize,
        hash: &Hash,
        key: &[u8],
    ) -> Result<Option<Spot>, Stop> {
        let (next, stash) = match self.search_in(home, 0, hash, key)? {
            Ok(spot) => return Ok(Some(spot)),
            Err((0, 0)) => return Ok(None),
            Err(elsewhere) => elsewhere,
        };
        let places = extent.places(extent.home_of(hash.position));
        for (index, in_stash) in directory::elsewhere(places, (next, stash)) {
            let hop = if in_stash { 2 } else { 1 };
            // A bucket under a lock of ours cannot be dead, nor its extent's other buckets.
            let Some(shadow) = self.lock_bucket(db, extent, index, key)? else { return Err(Stop::Retry) };
            if let Ok(spot) = self.search_in(shadow, hop, hash, key)? {
                return Ok(Some(spot));
            }
        }
        Ok(None)
    }

    /// Looks into one bucket. If the key is not there, the inner error says how many entries whose home it is lie in the next bucket and in
    /// the stash.
    fn search_in(
        &self,
        shadow: usize,
        hop: u8,
        hash: &Hash,
        key: &[u8],
    ) -> Result<Result<Spot, (u8, u8)>, Stop> {
        let live =
            lookup::Live { segment: self.segment(), bucket: self.buffers.shadows.borrow()[shadow].bucket };
        let tags = live.tag_words();
        let mut candidates = bucket::matches(&tags, hash.tag);
        while candidates != 0 {
            let unit = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let second = live.unit_word(unit * 2 + 1);
            if entry::is_stub(second) {
                if self.is_installed(live.unit_word(unit * 2), second, hash)? {
                    let image = bucket::image_at(&live, unit);
                    return Ok(Ok(Spot { shadow, unit, image, hop, expired: None }));
                }
                continue;
            }
            let same = if second as u8 & entry::REFERENCE == 0 {
                entry::inline_key_is(
                    |number| live.unit_word((unit * 2 + number).min(UNITS * 2 - 1)),
                    second,
                    key,
                )
            } else if entry::extra_of(second) == hash.extra {
                // The lock keeps the entry from changing, but the pin must reach to its record's birth.
                while !self.seat.covers_now() {}
                (self, key).is_key_of(entry::record_in(second)?)?
            } else {
                false
            };
            if same {
                let image = bucket::image_at(&live, unit);
                // Nothing is written in the place of what cannot be read.
                image.kind()?;
                let expired = self.gone(&image)?;
                return Ok(Ok(Spot { shadow, unit, image, hop, expired }));
            }
        }
        Ok(Err(bucket::displaced(tags[6])))
    }
}
