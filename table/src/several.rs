//! The fast path for several keys that get short strings at once (MSET): each is handled as in `quick.rs`, and one commit publishes all.
//!
//! A still shorter fast path is tried first (`plain.rs`).
//!
//! ```text
//!  where each key belongs -> pin, slots -> each home locked, by try -> each entry, and where it goes -> the words of all -> commit (`shm::staged_journal`)
//!                                          so are the other buckets in which an entry lies, or is to lie
//! ```
//!
//! T2: it never waits for a lock, so the order of the locks does not matter. In all other cases it returns false and has done nothing: if
//! another thread holds a lock, if an entry is no plain string, or if two keys share a bucket and one of them moves entries in it.

use polder_shm::layout::{interest, seat as at};
use polder_shm::{Locked, Seat};
use polder_values::Kind;
use smallvec::SmallVec;

use crate::api::{Counter, Db};
use crate::bucket::{self, Words};
use crate::clock;
use crate::directory::{self, Bucket};
use crate::entry::{self, Image, Inline, UNIT_BYTES};
use crate::hash::FREE;
use crate::interest::is_told;
use crate::location::Location;
use crate::lookup::Live;
use crate::plain::{self, SEVERAL_MAX};
use crate::quick::{BucketProbe, PinGuard, has_room, probe_bucket};
use crate::raw;
use crate::recording;
use crate::table::Table;
use crate::update::{fits, note_turn};

/// A bucket that is locked, by the journal's item of the same number.
struct Held {
    bucket: Bucket,
    /// The units that are to have new words, and whether tags or counts are, too.
    written: u64,
    moved: bool,
}

/// What a key's entry is and what it is going to be, and in which of the buckets that are held.
struct Plan {
    held: usize,
    unit: Option<usize>,
    before: Image,
    after: Image,
    /// The home, of which one more entry is going to lie elsewhere, and whether that is the stash.
    displaced: Option<(usize, bool)>,
}

impl Table {
    /// Gives several keys short strings: `pairs` are keys and values in turn, at most `SEVERAL_MAX` of each, and `first` says where the first key
    /// belongs. Returns false, having done nothing, if the caller must take the slow path.
    pub fn quick_set_all(&self, first: &Location, pairs: &[&[u8]], now_ms: u64) -> bool {
        let (pairs, []) = pairs.as_chunks::<2>() else { return false };
        // Only the slow path tells of several keys.
        if pairs.len() > SEVERAL_MAX || self.seems_logged() {
            return false;
        }
        if self.write_all_plainly(first.db(), pairs) {
            return true;
        }
        let segment = &**self.segment();
        let mut locations: SmallVec<[Location; SEVERAL_MAX]> = SmallVec::new();
        for (number, [key, _]) in pairs.iter().enumerate() {
            let Some(location) =
                (if number == 0 { Some(*first) } else { Location::of(segment, first.db(), key) })
            else {
                return false;
            };
            // One root for all: then each look whether it is current is about one map, however often that is swapped in between.
            if location.root != first.root {
                return false;
            }
            segment.prefetch_to_write(location.bucket.line);
            locations.push(location);
        }
        // All at once, before the first lock, behind which nothing is brought near.
        for location in &locations {
            let found = raw::units_tagged(segment.raw_view(), location.bucket.line, location.hash.tag);
            let nearly = found.trailing_zeros() as u64 * UNIT_BYTES as u64;
            segment.prefetch_to_write(location.bucket.units + nearly);
        }
        let done = self.segment().with_seat(|seat| {
            let guard = PinGuard::begin(seat, first.db)?;
            Several { table: self, seat: guard.seat, held: SmallVec::new() }.run(&locations, pairs, now_ms)
        });
        matches!(done, Ok(Some(())))
    }

    /// The same where each key has a plain string at home that takes as many units: mostly, where keys are written again and again.
    fn write_all_plainly(&self, db: Db, pairs: &[[&[u8]; 2]]) -> bool {
        let done = self.segment().with_seat(|seat| {
            let guard = PinGuard::begin(seat, db)?;
            plain::write_all(guard.seat, db, (self, plain::now()), pairs)?;
            count(guard.seat, pairs);
            Some(())
        });
        matches!(done, Ok(Some(())))
    }
}

/// Counts the call and what it has changed.
fn count(seat: &Seat, pairs: &[[&[u8]; 2]]) {
    seat.add(at::COUNTERS + 8 * Counter::Calls as u64, 1);
    seat.add(at::COUNTERS + 8 * Counter::Changes as u64, pairs.len() as u64);
}

/// A change of several keys, with the seat pinned.
struct Several<'s> {
    table: &'s Table,
    seat: &'s Seat,
    held: SmallVec<[Held; SEVERAL_MAX]>,
}

impl Several<'_> {
    fn run(&mut self, locations: &[Location], pairs: &[[&[u8]; 2]], now_ms: u64) -> Option<()> {
        let (seat, segment) = (self.seat, &**self.seat.segment());
        // T3: the locations are older than this, and each bucket is there when it is locked.
        if !seat.covers_now() || seat.journal_len() != 0 {
            return None;
        }
        let mut homes = SmallVec::<[usize; SEVERAL_MAX]>::new();
        for location in locations {
            homes.push(if location.is_current(segment) { self.hold(location.bucket)? } else { return None });
        }
        // All homes are locked now. Check that no extent has grown, that the database was not flushed or swapped, and that no thread listens
        // (see `Table::interest`).
        let is_watched = is_told(segment, interest::CHANGES & !interest::WAITERS);
        if is_watched || !locations.iter().all(|location| location.is_current(segment)) {
            return None;
        }
        let mut plans = SmallVec::<[Plan; SEVERAL_MAX]>::new();
        for ((location, pair), home) in locations.iter().zip(pairs).zip(homes) {
            plans.push(self.plan(location, home, pair, now_ms)?);
        }
        // Every lock is an item of the journal by now.
        let (mut notes, mut added) = (seat.stage(), 0);
        for (plan, location) in plans.iter().zip(locations) {
            if !notes.has_room() {
                return None;
            }
            if let Some((home, in_stash)) = plan.displaced {
                let home = (home, self.held[home].bucket);
                notes.cover(home.0 as u64, home.1.line);
                notes.word(home.1.word_at(7), bucket::with_displaced(self.live(home.1).word(7), in_stash, 1));
            }
            let bucket = self.held[plan.held].bucket;
            notes.cover(plan.held as u64, bucket.line);
            let old = plan.unit.map(|unit| (unit, &plan.before));
            note_turn(&mut notes, &self.live(bucket), location.hash.tag, (old, Some(&plan.after))).ok()?;
            added += u64::from(old.is_none());
        }
        if added > 0 {
            let tally = at::TALLIES + directory::tally_of(locations[0].root) * at::TALLY_BYTES;
            notes.cover_own();
            notes.word(segment.seat_at(seat.index()) + tally, seat.get(tally).wrapping_add(added));
        }
        // What has to be recorded is left to the slow path.
        if recording::is_on(segment) {
            return None;
        }
        notes.commit();
        count(seat, pairs);
        Some(())
    }

    /// Finds a key's entry, and where the new one goes.
    #[inline]
    fn plan(
        &mut self,
        location: &Location,
        home: usize,
        [key, value]: &[&[u8]; 2],
        now_ms: u64,
    ) -> Option<Plan> {
        if entry::inline_bytes(key.len(), value.len(), false, false) > entry::INLINE_MAX {
            return None;
        }
        let mut plan =
            Plan { held: home, unit: None, before: Image::EMPTY, after: Image::EMPTY, displaced: None };
        match probe_bucket(&self.live(self.held[home].bucket), &location.hash, key) {
            BucketProbe::Here(unit) => plan.unit = Some(unit),
            BucketProbe::Miss(0, 0) => {}
            BucketProbe::Miss(next, stash) => {
                if let Some((held, unit)) = self.find_displaced(location, key, next, stash)? {
                    (plan.held, plan.unit) = (held, Some(unit));
                }
            }
            BucketProbe::Record(_) => return None,
        }
        let kind = Kind::String as u8;
        if let Some(unit) = plan.unit {
            bucket::read_image(&self.live(self.held[plan.held].bucket), unit, &mut plan.before);
            if plan.before.meta() != kind {
                return None;
            }
        }
        let clock = match plan.unit {
            Some(_) => self.table.next_clock(plan.before.clock(), clock::lru(now_ms)),
            None => self.table.first_clock(now_ms),
        };
        let first = entry::first_word(self.seat.next_version(), clock);
        entry::fill_inline(
            &mut plan.after,
            first,
            &Inline { meta: kind, expiry_ms: None, flags: 0, key, value },
        );
        let old = plan.unit.map(|unit| (unit, &plan.before));
        if !fits(&self.live(self.held[plan.held].bucket), old, Some(&plan.after)) {
            if plan.unit.is_some() {
                return None;
            }
            let (held, in_stash) = self.find_room(location, plan.after.units)?;
            self.held[home].write(0, true)?;
            (plan.held, plan.displaced) = (held, Some((home, in_stash)));
        }
        let written = plan.unit.map_or(0, |unit| 1 << unit);
        self.held[plan.held].write(written, plan.before.units != plan.after.units)?;
        Some(plan)
    }

    fn live(&self, bucket: Bucket) -> Live<'_> {
        Live { segment: self.seat.segment(), bucket }
    }

    /// Locks a bucket, unless it is held; `None`: another thread holds it.
    #[inline]
    fn hold(&mut self, bucket: Bucket) -> Option<usize> {
        if let Some(known) = self.held.iter().position(|held| held.bucket.line == bucket.line) {
            return Some(known);
        }
        if !matches!(self.seat.lock_now(bucket.line), Ok(Locked::Ours(_))) {
            // The slow path meets the same lock and counts it.
            self.seat.forget_collision();
            return None;
        }
        self.held.push(Held { bucket, written: 0, moved: false });
        Some(self.held.len() - 1)
    }

    /// The same by its number in the extent.
    fn hold_other(&mut self, location: &Location, index: u64) -> Option<usize> {
        self.hold(location.bucket(self.seat.segment(), index)?)
    }

    /// Finds an entry that does not lie at home, and locks the buckets where it may lie; `None`: it is not a plain string, or another thread
    /// holds one of the locks.
    #[inline(never)]
    fn find_displaced(
        &mut self,
        location: &Location,
        key: &[u8],
        next: u8,
        stash: u8,
    ) -> Option<Option<(usize, usize)>> {
        for (index, in_stash) in location.others() {
            if (if in_stash { stash } else { next }) == 0 {
                continue;
            }
            let held = self.hold_other(location, index)?;
            match probe_bucket(&self.live(self.held[held].bucket), &location.hash, key) {
                BucketProbe::Here(unit) => return Some(Some((held, unit))),
                BucketProbe::Miss(..) => {}
                BucketProbe::Record(_) => return None,
            }
        }
        Some(None)
    }

    /// Finds and locks a bucket with room for what has none at home, as in `quick.rs`, and whether it is the stash's.
    #[inline(never)]
    fn find_room(&mut self, location: &Location, units: usize) -> Option<(usize, bool)> {
        let [(beside, _), (one, _), (other, _)] = location.others();
        let held = self.hold_other(location, beside)?;
        if has_room(&self.live(self.held[held].bucket), units) {
            return Some((held, false));
        }
        let stashes = [self.hold_other(location, one)?, self.hold_other(location, other)?];
        let free = stashes
            .map(|held| bucket::matches(&self.live(self.held[held].bucket).tag_words(), FREE).count_ones());
        let held = stashes[(free[1] > free[0]) as usize];
        has_room(&self.live(self.held[held].bucket), units).then_some((held, true))
    }
}

impl Held {
    /// Notes which units get new words, and whether other entries of the bucket move for them. `None` if that conflicts with what was noted
    /// before: once entries have moved, no other key of the bucket may be written, since its place was found before.
    #[inline]
    fn write(&mut self, units: u64, moves: bool) -> Option<()> {
        if self.moved || moves && self.written != 0 || self.written & units != 0 {
            return None;
        }
        (self.written, self.moved) = (self.written | units, moves);
        Some(())
    }
}
