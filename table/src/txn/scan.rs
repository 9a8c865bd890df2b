//! Going through the keys of a database: SCAN, KEYS, RANDOMKEY.
//!
//! A cursor is a position in the hash space (its upper 48 bits), so a scan has no state anywhere. A bucket's keys are shown where
//! they are at home, wherever they lie, and only those whose position the scan has not passed: a key that is there all the
//! time is shown once, whatever grows meanwhile.

use polder_base::Fault;
use smallvec::SmallVec;

use crate::access::lookup::{self, ReadSet, view};
use crate::api::{Db, Scanned, Stop};
use crate::layout::attempts::Attempts;
use crate::layout::bucket::{self, UNITS};
use crate::layout::directory::{self, Extent, map_at};
use crate::layout::entry::{self, Image};
use crate::layout::hash::{CONTINUED, Hash};
use crate::layout::stub::{Granule, Name};
use crate::table::names::Told;
use crate::txn::Txn;
use crate::txn::held::Pending;

/// What [`Txn::bucket_from`] finds.
pub(crate) type AtHome = (Vec<(Hash, Image)>, Option<u64>);

/// Stubs whose keys a scan asks for before it stops, at most.
const ASKED_MAX: usize = 16 << 10;

/// Bits of a position that a cursor leaves out.
const CURSOR_SHIFT: u32 = 16;

impl Txn<'_> {
    /// What differs when another thread has changed what a look for the bucket of a position below `root` meets.
    pub(crate) fn signs(&self, root: u64, position: u64) -> u64 {
        let segment = self.segment();
        let mut signs = root;
        if let Some(extent) = directory::walk(segment, root, position) {
            signs ^= extent.slot.rotate_left(16);
            for index in extent.places(extent.home_of(position)) {
                let word = extent.bucket(segment, index).map_or(0, |bucket| segment.observe(bucket.line));
                signs = (signs ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
        signs
    }

    /// Shows the keys from `cursor` on, bucket by bucket until about `count` were seen. Returns the next cursor, 0 at the end.
    /// A key that is there during the whole scan is shown at least once. What this transaction has written itself is shown first.
    ///
    /// # Errors
    /// A fault.
    pub fn scan(
        &self,
        db: Db,
        cursor: u64,
        count: usize,
        visit: &mut dyn FnMut(Scanned<'_>),
    ) -> Result<u64, Stop> {
        self.scan_all(db, cursor, (count, false), visit)
    }

    /// Like [`Txn::scan`], of the keys whose values lie in the memory: it passes over stubs.
    ///
    /// # Errors
    /// A fault.
    pub fn scan_hot(
        &self,
        db: Db,
        cursor: u64,
        count: usize,
        visit: &mut dyn FnMut(Scanned<'_>),
    ) -> Result<u64, Stop> {
        self.scan_all(db, cursor, (count, true), visit)
    }

    fn scan_all(
        &self,
        db: Db,
        cursor: u64,
        (count, passes_stubs): (usize, bool),
        visit: &mut dyn FnMut(Scanned<'_>),
    ) -> Result<u64, Stop> {
        self.escalate()?;
        let db = self.physical(db);
        let (mut seen, mut asked) = (0, 0);
        if cursor == 0 {
            seen += self.show_own(db, visit)?;
        }
        if self.buffers.map.flushes.borrow().contains(&db) {
            return Ok(0);
        }
        let mut position = cursor << CURSOR_SHIFT;
        let mut attempts = Attempts::default();
        loop {
            let root = self.segment().observe(map_at(db) + 8);
            if root == 0 {
                return Ok(0);
            }
            let (images, next) = match self.bucket_from(db, root, position)? {
                Some(found) => {
                    attempts = Attempts::default();
                    found
                }
                None => {
                    attempts.count(|| self.signs(root, position))?;
                    continue;
                }
            };
            for (_, image) in &images {
                match image.stub() {
                    None => seen += self.show(db, image, visit)? as usize,
                    Some(_) if passes_stubs => {}
                    Some(name) => match self.table.told(name, self.now_ms()) {
                        Some(told) => seen += self.show_told(db, image, &told, visit) as usize,
                        None => {
                            self.wants_key(db, name);
                            (seen, asked) = (seen + 1, asked + 1);
                        }
                    },
                }
            }
            // All keys that this step lacks are asked for together.
            let next = match next {
                Some(next) if seen < count && asked < ASKED_MAX => {
                    position = next;
                    continue;
                }
                next => next,
            };
            return if asked > 0 {
                Err(Stop::Cold)
            } else {
                Ok(next.map_or(0, |next| (next >> CURSOR_SHIFT).max(1)))
            };
        }
    }

    /// The entries at home in the bucket of a position below `root`, as far as they do not come before it, and where the next bucket begins
    /// (nothing at the end of the hash space). `None`: changed meanwhile.
    pub(crate) fn bucket_from(&self, db: Db, root: u64, position: u64) -> Result<Option<AtHome>, Stop> {
        let Some(extent) = self.walk(db, root, position)? else { return Ok(None) };
        let home = extent.home_of(position);
        let Some(images) = self.at_home(&extent, home) else { return Ok(None) };
        if !extent.covers(position) {
            return Err(Fault::Damaged { what: "an extent" }.into());
        }
        let mut found = Vec::with_capacity(images.len());
        for image in images {
            if let Some(name) = image.stub() {
                // U3: all of its granule has one home. Where in it the key belongs, it does not say: shown twice at worst, never missed.
                let Granule { first, last } = name.granule();
                if last >= position && extent.home_of(first) == home {
                    let extra = entry::extra_of(image.words[1]);
                    found.push((Hash { position: first.max(position), tag: CONTINUED, extra }, image));
                }
                continue;
            }
            let hash = self.hash_of_entry(&image)?;
            if hash.position >= position && extent.home_of(hash.position) == home {
                found.push((hash, image));
            }
        }
        Ok(Some((found, extent.behind(home))))
    }

    /// The entries that may be at home in a bucket: its own, and its neighbour's and stash's if any of them lie there. `None`: changed
    /// meanwhile.
    pub(crate) fn at_home(&self, extent: &Extent, home: u64) -> Option<Vec<Image>> {
        let mut images = Vec::with_capacity(UNITS / 2);
        let mut marks = ReadSet::new();
        lookup::mark(&self.seat, extent.bucket(self.segment(), home)?, &mut marks);
        let (next, stash) = self.add_bucket(extent, home, &mut images)?;
        let mut seen: SmallVec<[u64; 4]> = SmallVec::new();
        for (index, _) in directory::elsewhere(extent.places(home), (next, stash)) {
            if !seen.contains(&index) {
                self.add_bucket(extent, index, &mut images)?;
                seen.push(index);
            }
        }
        // An entry that grows or shrinks may move home after we have been there: then what is at home has changed.
        let one = next == 0 && stash == 0 || lookup::validate(self.segment(), &marks);
        (one && extent.is_current(self.segment()) && self.seat.covers_now()).then_some(images)
    }

    fn add_bucket(&self, extent: &Extent, index: u64, images: &mut Vec<Image>) -> Option<(u8, u8)> {
        let bucket = extent.bucket(self.segment(), index)?;
        let (mut seen, displaced) = view(&self.seat, bucket, |words| {
            let seen: Vec<Image> =
                bucket::entries(words).map(|(unit, _)| bucket::image_at(words, unit)).collect();
            (seen, bucket::displaced(words.word(7)))
        })?;
        images.append(&mut seen);
        Some(displaced)
    }

    /// Shows a key unless it has expired, only marks a watch, or is one that this transaction holds (which is shown by itself).
    fn show(&self, db: Db, image: &Image, visit: &mut dyn FnMut(Scanned<'_>)) -> Result<bool, Stop> {
        let Some(kind) = image.kind()? else { return Ok(false) };
        let expiry_ms = self.expiry_of(image)?;
        let key = self.key_of(image)?;
        if self.buffers.held_index(db, &key, || self.hash_of(&key)).is_some() {
            return Ok(false);
        }
        if self.gone(image)?.is_some() {
            self.buffers.note_stale(db, &key);
            return Ok(false);
        }
        visit(Scanned { key: &key, kind, expiry_ms });
        Ok(true)
    }

    /// Shows the key of a stub that was told, unless it has expired or is held.
    fn show_told(&self, db: Db, image: &Image, told: &Told, visit: &mut dyn FnMut(Scanned<'_>)) -> bool {
        let Some(kind) = image.stored_kind() else { return false };
        if self.buffers.held_index(db, &told.key, || self.hash_of(&told.key)).is_some() {
            return false;
        }
        if told.expiry_ms.is_some_and(|expiry_ms| self.is_over(expiry_ms)) {
            self.buffers.note_stale(db, &told.key);
            return false;
        }
        visit(Scanned { key: &told.key, kind, expiry_ms: told.expiry_ms });
        true
    }

    /// Shows the keys that this transaction holds, as it has made them.
    fn show_own(&self, db: Db, visit: &mut dyn FnMut(Scanned<'_>)) -> Result<usize, Stop> {
        let held = self.buffers.held.borrow();
        let mut shown = 0;
        for held in held.iter().filter(|held| held.db == db && !held.passed) {
            let image = match (held.pending, held.spot) {
                (Some(Pending::Write(image)), _) => image,
                (None, Some(spot)) if spot.expired.is_none() => spot.image,
                _ => continue,
            };
            if let Some(kind) = image.kind()? {
                visit(Scanned {
                    key: &self.buffers.key_of(held.key),
                    kind,
                    expiry_ms: self.expiry_of(&image)?,
                });
                shown += 1;
            }
        }
        Ok(shown)
    }

    /// A key drawn with equal chances, if there is one. While nothing expires, since clients are paused or data is imported, it may be one that has expired,
    /// if there are no others: as in Redis.
    ///
    /// # Errors
    /// A fault.
    pub fn random_key(&self, db: Db) -> Result<Option<Vec<u8>>, Stop> {
        let db = self.physical(db);
        let found = self.draw_key(db)?;
        if found.is_some() || !(self.table.stands_still() || self.table.imports()) {
            return Ok(found);
        }
        let before = self.clock.sees_expired.replace(true);
        let found = self.draw_key(db);
        self.clock.sees_expired.set(before);
        found
    }

    fn draw_key(&self, db: Db) -> Result<Option<Vec<u8>>, Stop> {
        const DRAWS_MAX: usize = 2_000;
        for _ in 0..DRAWS_MAX {
            if self.tallied_none(db) {
                break;
            }
            let Some(image) = self.draw_entry(db) else { continue };
            if let Some(name) = image.stub() {
                let key = self.drawn_key(db, name)?;
                if key.is_some() {
                    return Ok(key);
                }
            } else if matches!(image.kind(), Ok(Some(_))) && self.gone(&image)?.is_none() {
                return Ok(Some(self.key_of(&image)?));
            }
        }
        // Nearly empty, or all but expired: whatever a scan finds first from a drawn place on.
        let mut found = None;
        let mut cursor = self.table.draw_wide() >> CURSOR_SHIFT;
        for _ in 0..2 {
            while found.is_none() {
                cursor = self.scan(db, cursor, 1, &mut |scanned| {
                    found = found.take().or(Some(scanned.key.to_vec()))
                })?;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The key of a stub that was drawn, or of one that an earlier attempt has drawn in its place; `None`: it has expired.
    ///
    /// # Errors
    /// [`Stop::Cold`] where the key was not told: the keys of several stubs are wanted then, all drawn with equal chances.
    #[cold]
    fn drawn_key(&self, db: Db, name: Name) -> Result<Option<Vec<u8>>, Stop> {
        let now_ms = self.now_ms();
        let lives = |told: &Told| !told.expiry_ms.is_some_and(|expiry_ms| self.is_over(expiry_ms));
        if let Some(told) = self.table.told(name, now_ms) {
            return Ok(lives(&told).then(|| told.key.to_vec()));
        }
        while let Some((name, told)) = self.table.take_drawn(db, now_ms) {
            if lives(&told) && self.has_stub(db, name)? {
                return Ok(Some(told.key.to_vec()));
            }
        }
        let others = (1..self.table.draws_wanted()).filter_map(|_| self.draw_entry(db)?.stub());
        for name in std::iter::once(name).chain(others) {
            self.table.note_drawn(db, name, now_ms);
            self.wants_key(db, name);
        }
        Err(Stop::Cold)
    }

    /// Returns true if a key of a database is this stub.
    fn has_stub(&self, db: Db, name: Name) -> Result<bool, Stop> {
        let (position, mut attempts) = (name.granule().first, Attempts::default());
        loop {
            let root = self.segment().observe(map_at(db) + 8);
            if root == 0 {
                return Ok(false);
            }
            match self.bucket_from(db, root, position)? {
                Some((images, _)) => return Ok(images.iter().any(|(_, image)| image.stub() == Some(name))),
                None => attempts.count(|| self.signs(root, position))?,
            }
        }
    }

    fn tallied_none(&self, db: Db) -> bool {
        self.segment().observe(map_at(db) + 8) == 0 || self.keys(db) == 0
    }

    /// One draw: an extent with a chance by its number of buckets, a bucket, a unit. `None` when nothing begins there.
    pub(crate) fn draw_entry(&self, db: Db) -> Option<Image> {
        let segment = self.segment();
        let root = segment.observe(map_at(db) + 8);
        if root == 0 {
            return None;
        }
        let extent = directory::walk(segment, root, self.table.draw_wide())?;
        // A position finds an extent by its span; its buckets' chances are made equal to others' by leaving some draws out.
        let density = (extent.buckets() as f64) * (1u64 << extent.depth) as f64;
        if !self.table.accept_density(density) {
            return None;
        }
        let bucket = extent.bucket(segment, self.table.draw() as u64 % extent.buckets())?;
        let unit = self.table.draw() as usize % UNITS;
        let image = view(&self.seat, bucket, |words| {
            bucket::entries(words).find(|(begin, _)| *begin == unit).map(|_| bucket::image_at(words, unit))
        })??;
        (self.seat.covers_now() && extent.is_current(segment)).then_some(image)
    }
}
