//! Spilling: values leave the memory for a tier, and their entries become stubs.
//!
//! ```text
//!   tier thread                                                          a death here leaves
//!   1 walk on in the order of positions: victims, with their parcels     nothing
//!   2 the store takes the copies                                         copies without a stub, which its filter drops later
//!   3 each victim: a neutral transaction, its entry becomes a stub       some of them stubs
//! ```
//!
//! - **V2** An entry becomes a stub only if its version is the one of a copy that the store has taken. It is compared under the lock of its bucket.
//! - **V9** The bytes that the store has in the memory of its own process count for `maxmemory` (`header::TIER_BYTES`).
//! - An entry that says that its copy is there (*clean*, [`entry::CLEAN`]) goes without steps 1 and 2.
//!
//! Nothing is spilled while a snapshot is on, which would hold what is spilled anyway, and would have to read copies.

use polder_shm::layout::features;
use polder_values::{Kind, string};

use crate::api::{Db, Mode, STAGED, SYSTEM, Stop};
use crate::layout::attempts::Attempts;
use crate::layout::clock;
use crate::layout::directory::{self, Extent, map_at};
use crate::layout::entry::{self, Image};
use crate::layout::extras::announce_feature;
use crate::layout::hash::Hash;
use crate::layout::parcel;
use crate::layout::record::Key;
use crate::layout::stub::{self, Cold, Name, stub_of};
use crate::table::Table;
use crate::tier::PATIENCE;
use crate::txn::Txn;

/// The longest value that is spilled.
const VALUE_MAX: u64 = 1 << 20;
/// The longest key that is spilled: calls that show keys ask for them by messages.
const KEY_MAX: u64 = 64 << 10;
/// Stubs whose keys have expired that one step looks for.
const DUE: usize = 256;
/// Buckets that one step of a walk looks at, at most: as many as an extent has.
const BUCKETS_PER_STEP: usize = 112;

/// A key that is to be spilled.
pub struct Victim {
    pub db: Db,
    pub key: Vec<u8>,
    pub name: Name,
    /// The copy that the store is to take; `None`: it has it.
    pub parcel: Option<Vec<u8>>,
}

/// A walk through the positions of all databases, as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub db: Db,
    pub position: u64,
    /// The positions that it is limited to.
    first: u64,
    last: u64,
}

impl Sweep {
    /// A walk through part `number` of `count` equal parts of each database.
    pub fn over(number: u64, count: u64) -> Sweep {
        let begin = |number: u64| ((u128::from(number) << 64) / u128::from(count.max(1))) as u64;
        let last = if number + 1 >= count { u64::MAX } else { begin(number + 1) - 1 };
        Sweep { db: 0, position: begin(number), first: begin(number), last }
    }

    /// Goes on behind a bucket. Returns true at the end of all.
    fn go_on(&mut self, next: Option<u64>) -> bool {
        match next.filter(|next| *next <= self.last) {
            Some(next) => self.position = next,
            None => {
                self.position = self.first;
                self.db = match self.db + 1 {
                    SYSTEM => STAGED,
                    db if db == STAGED + SYSTEM => 0,
                    db => db,
                };
                return self.db == 0;
            }
        }
        false
    }
}

/// The victims that are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The age in seconds, or under LFU 255 less the counter, from which on keys are spilled.
    pub age_min: u64,
    /// Only keys with an expiry.
    pub volatile: bool,
    /// Their number, and that of their bytes, at most.
    pub count: usize,
    pub bytes: usize,
}

/// Looks at the entries of a bucket of a database with this root. Returns whether the walk is to go on.
type Visit<'v> = &'v mut dyn FnMut(Db, u64, Vec<(Hash, Image)>) -> Result<bool, Stop>;

impl Table {
    /// The age of an entry, as [`Wanted`] means it.
    pub(crate) fn age_of(&self, image: &Image, now_ms: u64) -> u64 {
        if self.counts_frequency() {
            let decay = self.limits().lfu_decay_minutes;
            return 255 - u64::from(clock::frequency(image.clock(), now_ms, decay));
        }
        clock::idle_seconds(image.clock(), now_ms)
    }

    /// Ages of keys that could be spilled, drawn at random, with the bytes of their values.
    ///
    /// # Errors
    /// Those of [`Table::begin`].
    pub fn sample_ages(&self, draws: usize) -> Result<Vec<(u64, usize)>, Stop> {
        let txn = self.begin(Mode::Read)?;
        let now_ms = polder_base::time::now_ms();
        let used = (0..SYSTEM).filter(|db| self.segment().observe(map_at(*db) + 8) != 0);
        let sizes: Vec<(Db, u64)> = used.map(|db| (db, self.tally_of(db, 0))).collect();
        let total: u64 = sizes.iter().map(|(_, size)| size).sum();
        let mut ages = Vec::new();
        for _ in 0..if total == 0 { 0 } else { draws } {
            let mut number = self.draw_wide() % total;
            let pick = sizes.iter().find(|(_, size)| {
                let here = number < *size;
                number = number.wrapping_sub(*size);
                here
            });
            let Some(image) = pick.and_then(|(db, _)| txn.draw_entry(*db)) else { continue };
            if let Some(bytes) = txn.spillable(&image) {
                ages.push((self.age_of(&image, now_ms), bytes));
            }
        }
        Ok(ages)
    }

    /// Goes on with a walk and adds the victims on its way, until there are as many as wanted, or it has gone on for long. Returns true at the end of
    /// the walk, which then begins anew.
    ///
    /// # Errors
    /// Those of [`Table::begin`]; [`polder_base::Fault::Damaged`].
    pub fn victims(&self, sweep: &mut Sweep, wanted: &Wanted, into: &mut Vec<Victim>) -> Result<bool, Stop> {
        let txn = self.begin(Mode::Read)?;
        let now_ms = polder_base::time::now_ms();
        let mut bytes = 0;
        txn.step(sweep, &mut |db, root, images| {
            for (hash, image) in images {
                let is_old = || self.age_of(&image, now_ms) >= wanted.age_min;
                let may = !wanted.volatile || image.meta() & entry::EXPIRY != 0;
                if !may || txn.spillable(&image).is_none() || !is_old() {
                    continue;
                }
                let victim = txn.victim(db, root, &hash, &image)?;
                bytes += victim.parcel.as_ref().map_or(0, Vec::len);
                into.push(victim);
            }
            Ok(into.len() < wanted.count && bytes < wanted.bytes)
        })
    }

    /// Goes on with a walk and adds the stubs on its way whose keys have expired, some hundred at most. Returns true at the end of the walk, which then
    /// begins anew.
    ///
    /// # Errors
    /// Those of [`Table::begin`]; [`polder_base::Fault::Damaged`].
    pub fn due_stubs(&self, sweep: &mut Sweep, into: &mut Vec<Cold>) -> Result<bool, Stop> {
        let txn = self.begin(Mode::Read)?;
        let now_ms = polder_base::time::now_ms();
        txn.step(sweep, &mut |db, _, images| {
            let names = images
                .iter()
                .filter(|(_, image)| stub::is_due(image, now_ms))
                .filter_map(|(_, image)| image.stub());
            into.extend(names.map(|name| Cold::value(db, name)));
            Ok(into.len() < DUE)
        })
    }

    /// The victim that one key would be; `None`: it is absent, or cannot be spilled.
    ///
    /// # Errors
    /// Those of [`Table::victims`].
    pub fn victim_of(&self, db: Db, key: &[u8]) -> Result<Option<Victim>, Stop> {
        let txn = self.begin(Mode::Read)?;
        let (hash, mut attempts) = (self.hash(key), Attempts::default());
        loop {
            let root = self.segment().observe(map_at(db) + 8);
            if root == 0 || db == SYSTEM {
                return Ok(None);
            }
            let Some((images, _)) = txn.bucket_from(db, root, hash.position)? else {
                attempts.count(|| txn.signs(root, hash.position))?;
                continue;
            };
            for (found, image) in images {
                if found == hash && txn.spillable(&image).is_some() && txn.key_of(&image)? == key {
                    return txn.victim(db, root, &hash, &image).map(Some);
                }
            }
            return Ok(None);
        }
    }

    /// Makes the entry of a victim a stub, whose copy the store has taken. Returns false if the key is another one by now, its place cannot be told from
    /// a stub (U3), or a snapshot is on.
    ///
    /// # Errors
    /// [`Stop::Busy`] and [`Stop::Retry`] where another thread has the key; a fault.
    pub fn spill(&self, victim: &Victim) -> Result<bool, Stop> {
        if self.segment().snapshot() != 0 {
            return Ok(false);
        }
        announce_feature(self.segment(), features::TIER);
        let hash = self.hash(&victim.key);
        let txn = self.begin(Mode::Write)?;
        txn.limit_patience(PATIENCE);
        let spilled = txn.neutral(victim.db, &victim.key, None, &mut |image, extent| {
            txn.spilled(image, extent, &hash, victim)
        });
        match spilled {
            // Another thread has spilled it.
            Err(Stop::Cold) => Ok(false),
            // A snapshot has begun meanwhile.
            Err(Stop::Retry) if self.segment().snapshot() != 0 => Ok(false),
            spilled => spilled,
        }
    }
}

impl Txn<'_> {
    /// Goes on with a walk and shows the entries of each bucket, until `visit` says that it is enough, or it has gone on for long. Returns true at the end
    /// of the walk, which then begins anew.
    fn step(&self, sweep: &mut Sweep, visit: Visit<'_>) -> Result<bool, Stop> {
        let mut attempts = Attempts::default();
        for _ in 0..BUCKETS_PER_STEP {
            let root = self.segment().observe(map_at(sweep.db) + 8);
            let next = if root == 0 {
                None
            } else if let Some((images, next)) = self.bucket_from(sweep.db, root, sweep.position)? {
                attempts = Attempts::default();
                if !visit(sweep.db, root, images)? {
                    return Ok(sweep.go_on(next));
                }
                next
            } else {
                attempts.count(|| self.signs(root, sweep.position))?;
                continue;
            };
            if sweep.go_on(next) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The bytes that an entry's value has, if it can be spilled.
    fn spillable(&self, image: &Image) -> Option<usize> {
        let is_string =
            image.meta() & (entry::KIND | entry::REFERENCE) == Kind::String as u8 | entry::REFERENCE;
        if !is_string {
            return None;
        }
        let record = self.record(image.record().ok()?).ok()?;
        let is_told = !matches!(record.key, Key::Long(root) if root.count > KEY_MAX);
        let bytes = string::len(&record.value);
        (is_told && bytes <= VALUE_MAX).then_some(bytes as usize)
    }

    /// The victim that an entry with a record is, whose value is a string.
    fn victim(&self, db: Db, root: u64, hash: &Hash, image: &Image) -> Result<Victim, Stop> {
        let (key, name) = (self.key_of(image)?, Name::of(hash, image.version()));
        let parcel = match image.meta() & entry::CLEAN {
            0 => {
                let Some(found) = self.found(image)? else { return Err(Stop::Retry) };
                let value = string::contiguous(self, &found.value)?;
                Some(parcel::pack(directory::tally_of(root), &key, &found, &value))
            }
            _ => None,
        };
        Ok(Victim { db, key, name, parcel })
    }

    /// The stub in the place of a victim's entry (V2).
    fn spilled(
        &self,
        image: &Image,
        extent: &Extent,
        hash: &Hash,
        victim: &Victim,
    ) -> Result<Option<Image>, Stop> {
        let has_copy = victim.parcel.is_some() || image.meta() & entry::CLEAN != 0;
        let is_same = image.version() == victim.name.version;
        if self.spillable(image).is_none() || !has_copy || !is_same || extent.cuts(victim.name.granule()) {
            return Ok(None);
        }
        let stub = stub_of(image, hash, self.bound_of(image)?);
        self.retire_record(image, true, victim.key.len())?;
        Ok(Some(stub))
    }
}
