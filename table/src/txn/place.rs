//! Placing what a transaction has decided into the shadows of the buckets: the last step before the commit.

use polder_base::Fault;
use polder_shm::lock;

use crate::api::{Counter, Stop};
use crate::layout::bucket::{self, Words};
use crate::layout::directory::{self, MAP_LOCK, database, extent, map_at};
use crate::layout::entry::{self, Image, has_expiry, has_inner_expiry, is_cold, is_key};
use crate::layout::expired::Expired;
use crate::layout::hash::FREE;
use crate::txn::Txn;
use crate::txn::buffers::TALLIED;
use crate::txn::held::{Deficit, Held, Pending, Spot, Want};

impl Txn<'_> {
    /// Places every pending change; expired entries that were met go too.
    pub(crate) fn place_all(&self) -> Result<(), Deficit> {
        let mut lacking = Vec::new();
        let count = self.buffers.held.borrow().len();
        for index in 0..count {
            let pending = {
                let held = &mut self.buffers.held.borrow_mut()[index];
                if held.fresh {
                    continue;
                }
                match (&held.pending, &held.spot) {
                    (Some(pending), _) => *pending,
                    (None, Some(spot)) if spot.expired.is_some() && !held.keeps_expired => {
                        held.retires = Some(true);
                        if let Some(Expired::Fields(_)) = spot.expired {
                            self.note_change('g', "del", held.db, &self.buffers.key_of(held.key));
                        }
                        Pending::Remove
                    }
                    _ => continue,
                }
            };
            if !self.place(index, pending)? {
                lacking.push(index);
            }
        }
        if lacking.is_empty() { Ok(()) } else { Err(Deficit::Room(self.wants(&lacking))) }
    }

    /// What the transaction adds, in the order of positions; `lacking`: the held keys for which there was no room.
    #[cold]
    fn wants(&self, lacking: &[usize]) -> Vec<Want> {
        let want = |(index, held): (usize, &Held)| match (held.pending, held.spot) {
            (Some(Pending::Write(image)), spot) if !held.fresh => {
                let before = spot.map_or(0, |spot| spot.image.units);
                let units = image.units.saturating_sub(before);
                Some(Want {
                    db: held.db,
                    position: held.hash.position,
                    units,
                    lacks: lacking.binary_search(&index).is_ok(),
                })
            }
            _ => None,
        };
        let mut wants: Vec<Want> = self.buffers.held.borrow().iter().enumerate().filter_map(want).collect();
        wants.sort_unstable_by_key(|want| (want.db, want.position));
        wants
    }

    /// Places one change; returns false when there is no room for it.
    fn place(&self, index: usize, pending: Pending) -> Result<bool, Stop> {
        let all = self.buffers.held.borrow();
        let Held { spot, home, .. } = &all[index];
        let (home, tag, key_len) = (*home, all[index].hash.tag, all[index].key.1 - all[index].key.0);
        self.tally(
            directory::tally_of(all[index].extent.root),
            spot.as_ref().map(|spot| &spot.image),
            &pending,
        );
        if let (Some(spot), Some(whole)) = (spot, all[index].retires) {
            self.retire_record(&spot.image, whole, key_len)?;
            match spot.expired.filter(|_| is_key(&spot.image)) {
                Some(Expired::Fields(fields)) => self.count(Counter::ExpiredFields, fields),
                Some(_) => self.count(Counter::Expired, 1),
                None => {}
            }
        }
        let Pending::Write(image) = pending else {
            if let Some(spot) = spot {
                self.take_out(spot, home);
            }
            return Ok(true);
        };
        if image.may_expire() {
            self.lower_bounds(index, &image)?;
        }
        if let Some(spot) = spot {
            if spot.image.units == image.units {
                let unit = self.unit_of(spot);
                self.shadow_mut(spot.shadow, |words| bucket::overwrite(words, unit, &image));
                return Ok(true);
            }
            self.take_out(spot, home);
        }
        self.put_in(index, home, tag, &image)
    }

    /// Where the entry of a spot lies now: an insertion of this very transaction may have moved it.
    fn unit_of(&self, spot: &Spot) -> usize {
        if self.buffers.held.borrow().len() == 1 {
            return spot.unit;
        }
        self.shadow_mut(spot.shadow, |words| {
            // By version, not by the whole first word: any thread may change the access clock in it.
            let is_it = |unit: usize| {
                entry::version_of(words.unit_word(unit * 2)) == spot.image.version()
                    && words.unit_word(unit * 2 + 1) == spot.image.words[1]
            };
            // Free units still hold what was moved away from them: only tags say where entries begin.
            if bucket::begins_at(words, spot.unit) && is_it(spot.unit) {
                return spot.unit;
            }
            bucket::entries(words)
                .map(|(unit, _)| unit)
                .find(|&unit| is_it(unit))
                .expect("T1: nobody else moves an entry we have locked")
        })
    }

    fn take_out(&self, spot: &Spot, home: usize) {
        let unit = self.unit_of(spot);
        self.shadow_mut(spot.shadow, |words| bucket::erase(words, unit, spot.image.units));
        if spot.hop > 0 {
            self.shadow_mut(home, |words| {
                bucket::count_displaced(words, spot.hop == 2, -1);
                words.shadow.moved = true;
            });
        }
    }

    /// Puts an entry into its home, the next bucket or the stash, in this order.
    fn put_in(&self, index: usize, home: usize, tag: u8, image: &Image) -> Result<bool, Stop> {
        if self.shadow_mut(home, |words| bucket::insert(words, tag, image)).is_some() {
            return Ok(true);
        }
        let (db, extent, position, key) = {
            let held = &self.buffers.held.borrow()[index];
            (held.db, held.extent, held.hash.position, self.buffers.key_of(held.key))
        };
        let lock = |there: u64| self.lock_bucket(db, &extent, there, &key)?.ok_or(Stop::Retry);
        let put =
            |shadow: usize| self.shadow_mut(shadow, |words| bucket::insert(words, tag, image)).is_some();
        let [_, beside, one, other] = extent.places(extent.home_of(position));
        if put(lock(beside)?) {
            self.shadow_mut(home, |words| bucket::count_displaced(words, false, 1));
            return Ok(true);
        }
        // The emptier one of the two, which lets an extent be 95 % full where one bucket of the stash alone lets it be 90 % full.
        let stashes = [lock(one)?, lock(other)?];
        let free = stashes.map(|shadow| {
            self.shadow_mut(shadow, |words| bucket::matches(&words.tag_words(), FREE)).count_ones()
        });
        let done = put(stashes[(free[1] > free[0]) as usize]);
        if done {
            self.shadow_mut(home, |words| bucket::count_displaced(words, true, 1));
        }
        Ok(done)
    }

    /// Counts what the change does to the numbers of keys, of keys with expiry, of keys with fields that have one, and of stubs.
    fn tally(&self, tally: u64, before: Option<&Image>, pending: &Pending) {
        let after = match pending {
            Pending::Write(image) => Some(image),
            Pending::Remove => None,
        };
        let count = |image: Option<&Image>, test: fn(&Image) -> bool| image.is_some_and(test) as i64;
        let counts = [is_key, has_expiry, has_inner_expiry, is_cold]
            .map(|test| count(after, test) - count(before, test));
        if counts != [0; TALLIED] {
            self.buffers.tally(tally, counts);
        }
    }

    /// Lowers the earliest expiry of extent and database, in this order, before the commit. A search for what is due lifts the database's
    /// bound first and reads the extents' bounds afterwards, so it sees one of the two (`maintenance.rs`).
    fn lower_bounds(&self, index: usize, image: &Image) -> Result<(), Stop> {
        let Some(expiry_ms) = self.bound_of(image)? else { return Ok(()) };
        let (db, extent) = {
            let held = &self.buffers.held.borrow()[index];
            (held.db, held.extent)
        };
        let segment = self.segment();
        segment.lower(extent.at + extent::EXPIRY_MIN, expiry_ms);
        let map = segment.observe(MAP_LOCK);
        let node = segment.observe(map_at(db));
        if !segment.check(node, 64)
            || segment.load(node + database::DIRECTORY) != directory::directory_of(extent.root)
        {
            // The map's two words of a database change together, under the map's lock. If they disagree although no thread has held that lock
            // meanwhile, they are damaged, and each retry would find them so.
            let is_at_rest = lock::owner(map).is_none()
                && self.is_root(db, extent.root)
                && segment.observe(MAP_LOCK) == map;
            // Otherwise the database was swapped or flushed meanwhile, and this is not the bound to lower.
            return Err(if is_at_rest {
                Fault::Damaged { what: "the map of databases" }.into()
            } else {
                Stop::Retry
            });
        }
        segment.lower(node + database::EXPIRY_MIN, expiry_ms);
        Ok(())
    }
}
