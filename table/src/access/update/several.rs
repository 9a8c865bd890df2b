//! The update of several keys that get short strings at once (MSET, and an EXEC of SETs): each is handled as in `update.rs`, and one commit publishes all.
//!
//! A shorter way is tried first, where each key has a plain string that takes as many units (`plain.rs`). Both end in [`Pairs::commit`].
//!
//! ```text
//!  where each key belongs -> pin, slots -> each home locked, by try -> each entry, and where it goes -> the words of all
//!                                          so are the other buckets in which an entry lies, or is to lie
//!    -> look at RECORDING -> commit (`shm::staged_journal`)
//! ```
//!
//! T2: it never waits for a lock, so the order of the locks does not matter. In all other cases it returns false and has done nothing: if
//! another thread holds a lock, if an entry is no plain string, or if two keys share a bucket and one of them moves entries in it.

use polder_shm::layout::seat as at;
use polder_shm::staged_journal::StagedJournal;
use polder_shm::{Locked, Seat};
use polder_values::Kind;
use smallvec::SmallVec;

use super::{fits, note_turn};
use crate::access::locate::{BucketProbe, Displaced, Location, Reading, probe_bucket};
use crate::access::lookup::Live;
use crate::access::plain::{self, Missed, Seen};
use crate::access::put::{PinGuard, has_room};
use crate::api::{Counter, Db};
use crate::layout::bucket::{self, Words};
use crate::layout::clock;
use crate::layout::directory::{self, Bucket, map_at};
use crate::layout::entry::{self, Image, Inline, UNIT_BYTES};
use crate::layout::hash::{FREE, Hash};
use crate::layout::raw;
use crate::log::recording::{self, Changed, ShowChanges};
use crate::log::telling::Command;
use crate::table::Table;

/// The most keys: their words fit into a staged journal, unless buckets are rearranged.
const SEVERAL_MAX: usize = 20;

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
    /// Gives several keys short strings: `words` are keys and values in turn, at most `SEVERAL_MAX` of each, and `first` says where the first key
    /// belongs. Returns false, having done nothing, if the caller must take the slow path.
    pub fn quick_set_all(&self, first: &Location, words: &[&[u8]], now_ms: u64) -> bool {
        self.set_several(first, words, now_ms, (Saying::Mset, 1))
    }

    /// Like [`Table::quick_set_all`], of calls that each set one key; `calls` is added to the count of calls.
    pub fn quick_set_each(&self, first: &Location, words: &[&[u8]], (now_ms, calls): (u64, u64)) -> bool {
        self.set_several(first, words, now_ms, (Saying::Sets, calls))
    }

    fn set_several(
        &self,
        first: &Location,
        words: &[&[u8]],
        now_ms: u64,
        (saying, calls): (Saying, u64),
    ) -> bool {
        let (pairs, []) = words.as_chunks::<2>() else { return false };
        if pairs.len() > SEVERAL_MAX {
            return false;
        }
        let segment = &**self.segment();
        let is_told = self.seems_logged();
        if is_told {
            self.settle_guess();
        }
        let pairs = Pairs { table: self, db: first.db(), words, pairs, now_ms, is_told, saying, calls };
        if pairs.are_written(|seat| pairs.write_plainly(seat)) {
            return true;
        }
        let mut locations: SmallVec<[Location; SEVERAL_MAX]> = SmallVec::new();
        for (number, [key, _]) in pairs.pairs.iter().enumerate() {
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
        pairs.are_written(|seat| Several { pairs: &pairs, seat, held: SmallVec::new() }.run(&locations))
    }
}

/// The commands of which the change log is told.
#[derive(Clone, Copy)]
enum Saying {
    Mset,
    Sets,
}

/// New values of several keys of a database.
struct Pairs<'p> {
    table: &'p Table,
    db: Db,
    /// Keys and values in turn.
    words: &'p [&'p [u8]],
    pairs: &'p [[&'p [u8]; 2]],
    now_ms: u64,
    /// True if the change log may be on.
    is_told: bool,
    saying: Saying,
    /// The calls that this is, for the count of calls.
    calls: u64,
}

impl Pairs<'_> {
    /// Runs `write` with the seat pinned; returns whether it has committed.
    #[inline(always)]
    fn are_written(&self, write: impl FnOnce(&Seat) -> Option<()>) -> bool {
        let done = self.table.segment().with_seat(|seat| {
            let guard = PinGuard::begin(seat, self.db)?;
            write(guard.seat)
        });
        matches!(done, Ok(Some(())))
    }

    /// Records what the commit has to, and commits. All locks are held, the locations are current, and no thread listens.
    #[inline(always)]
    fn commit(&self, seat: &Seat, mut notes: StagedJournal<'_>, changes: ShowChanges<'_>) -> Option<()> {
        let may_commit = if self.is_told {
            let times = (seat, self.db, self.now_ms);
            let tell = |effect: &mut recording::Effect<'_>| self.tell(effect);
            recording::before_told_commit(times, &mut notes, &tell, changes)
        } else {
            recording::before_commit(seat, changes)
        };
        if !may_commit {
            return None;
        }
        notes.commit();
        seat.add(at::COUNTERS + 8 * Counter::Calls as u64, self.calls);
        seat.add(at::COUNTERS + 8 * Counter::Changes as u64, self.pairs.len() as u64);
        Some(())
    }

    fn tell(&self, effect: &mut recording::Effect<'_>) {
        match self.saying {
            Saying::Mset => effect.call("MSET", self.words),
            Saying::Sets => {
                let sets: SmallVec<[Command<'_>; SEVERAL_MAX]> =
                    self.pairs.iter().map(|pair| (&b"SET"[..], &pair[..])).collect();
                effect.calls(&sets);
            }
        }
    }

    /// The update where each key has a plain string that takes as many units as its new one: mostly, where keys are written again and again.
    fn write_plainly(&self, seat: &Seat) -> Option<()> {
        let (segment, db) = (&**seat.segment(), self.db);
        let (lens, clock) = (segment.raw_view(), plain::now());
        let root = lens.observe(map_at(db) + 8);
        let mut hashes = SmallVec::<[Hash; SEVERAL_MAX]>::new();
        for [key, _] in self.pairs {
            let hash = crate::layout::hash::hash(key, segment.secret());
            // All at once, before the first is looked into.
            if let Some(near) = directory::nearly_home(lens, root, hash.position) {
                lens.prefetch_to_write(Bucket::of(near.piece, near.number).line);
            }
            hashes.push(hash);
        }
        let (mut all, mut homes) =
            (SmallVec::<[(Seen, usize); SEVERAL_MAX]>::new(), SmallVec::<[Reading; SEVERAL_MAX]>::new());
        for (number, ([key, value], hash)) in self.pairs.iter().zip(&hashes).enumerate() {
            let seen = match Seen::find::<true>(lens, db, *hash, key) {
                Ok(seen) => seen,
                Err(Missed::NotHere) => {
                    let (seen, home) =
                        Seen::find_displaced(segment, &Location::at(segment, db, *hash)?, key)?;
                    homes.push(home);
                    seen
                }
                Err(Missed::Unclear) => return None,
            };
            // One root for all: see `Table::quick_set_all`.
            if seen.root != root || !seen.takes(key, value) {
                return None;
            }
            // Of a key that comes twice the last value counts; each was compared with what is there now.
            match all.iter_mut().find(|(other, _)| other.at == seen.at) {
                Some((_, last)) => *last = number,
                None => all.push((seen, number)),
            }
        }
        if plain::is_heard(segment) || !seat.covers_now() {
            return None;
        }
        // The lines that are locked, by the journal's item of the same number, and which of them is each key's.
        let (mut lines, mut locks) = (Lines::new(), SmallVec::<[u64; SEVERAL_MAX]>::new());
        for (seen, _) in &all {
            locks.push(lock_among(seat, &mut lines, (seen.line, seen.word))?);
        }
        for home in &homes {
            lock_among(seat, &mut lines, (home.bucket.line, home.word))?;
        }
        if plain::is_heard(segment) || !all.iter().all(|(seen, _)| seen.is_current(lens, db)) {
            return None;
        }
        let mut notes = seat.stage();
        for ((seen, number), lock) in all.iter_mut().zip(locks) {
            let [key, value] = self.pairs[*number];
            let clock = self.table.next_clock(entry::clock_of(seen.first), clock);
            let first = entry::first_word(seat.next_version(), clock);
            plain::note_value(&mut notes, seat, (seen, lock), first, key, value);
            seen.first = first;
        }
        self.commit(seat, notes, &|record| {
            for (seen, number) in &all {
                let key = (&hashes[*number], self.pairs[*number][0]);
                seen.show_change(segment, key, seen.first, record);
            }
        })
    }
}

/// Lines that are locked, by the journal's items of the same numbers, and their words before that.
type Lines = SmallVec<[(u64, u64); SEVERAL_MAX]>;

/// Locks a line whose word was read before what it guards, unless it is locked already. Returns the number of its LOCK item. `None`: another
/// thread holds it, or has changed what it guards.
#[inline(always)]
fn lock_among(seat: &Seat, lines: &mut Lines, (line, word): (u64, u64)) -> Option<u64> {
    let lock = lines.iter().position(|(locked, _)| *locked == line).unwrap_or(lines.len());
    match lines.get(lock) {
        Some((_, seen)) => (*seen == word).then_some(lock as u64),
        None if seat.lock_as_seen(lock as u64, line, word) => {
            lines.push((line, word));
            Some(lock as u64)
        }
        None => {
            seat.forget_collision();
            None
        }
    }
}

/// A change of several keys, with the seat pinned.
struct Several<'s> {
    pairs: &'s Pairs<'s>,
    seat: &'s Seat,
    held: SmallVec<[Held; SEVERAL_MAX]>,
}

impl Several<'_> {
    fn run(&mut self, locations: &[Location]) -> Option<()> {
        let (seat, segment, pairs) = (self.seat, &**self.seat.segment(), self.pairs.pairs);
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
        if plain::is_heard(segment) || !locations.iter().all(|location| location.is_current(segment)) {
            return None;
        }
        let mut plans = SmallVec::<[Plan; SEVERAL_MAX]>::new();
        for ((location, pair), home) in locations.iter().zip(pairs).zip(homes) {
            plans.push(self.plan(location, home, pair)?);
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
        self.pairs.commit(seat, notes, &|record| {
            for ((plan, location), [key, _]) in plans.iter().zip(locations).zip(pairs) {
                record(Changed {
                    root: location.root,
                    hash: &location.hash,
                    key,
                    before: plan.unit.map(|_| &plan.before),
                    after: Some(&plan.after),
                });
            }
        })
    }

    /// Finds a key's entry, and where the new one goes.
    #[inline]
    fn plan(&mut self, location: &Location, home: usize, [key, value]: &[&[u8]; 2]) -> Option<Plan> {
        let Pairs { table, now_ms, .. } = *self.pairs;
        if entry::inline_bytes(key.len(), value.len(), false, false) > entry::INLINE_MAX {
            return None;
        }
        let mut plan =
            Plan { held: home, unit: None, before: Image::EMPTY, after: Image::EMPTY, displaced: None };
        match probe_bucket(&self.live(self.held[home].bucket), &location.hash, key) {
            BucketProbe::Here(unit) => plan.unit = Some(unit),
            BucketProbe::Miss(0, 0) => {}
            BucketProbe::Miss(next, stash) => {
                if let Some((held, unit)) = self.find_displaced(location, key, (next, stash))? {
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
            Some(_) => table.next_clock(plan.before.clock(), clock::lru(now_ms)),
            None => table.first_clock(now_ms),
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

    /// Finds an entry that does not lie at home, and locks its bucket; `None`: it is not a plain string, or another thread holds a lock. The
    /// home is locked, so that the entry stays in its bucket.
    #[inline(never)]
    fn find_displaced(
        &mut self,
        location: &Location,
        key: &[u8],
        counts: (u8, u8),
    ) -> Option<Option<(usize, usize)>> {
        let own = Some(self.seat.index());
        let Some((_, Displaced { reading, is_record, .. })) =
            location.search_displaced(self.seat.segment(), key, counts, own)?
        else {
            return Some(None);
        };
        if is_record {
            return None;
        }
        let held = self.hold(reading.bucket)?;
        match probe_bucket(&self.live(reading.bucket), &location.hash, key) {
            BucketProbe::Here(unit) => Some(Some((held, unit))),
            _ => None,
        }
    }

    /// Finds and locks a bucket with room for what has none at home, as in `update.rs`, and whether it is the stash's.
    #[inline(never)]
    fn find_room(&mut self, location: &Location, units: usize) -> Option<(usize, bool)> {
        let [_, beside, one, other] = location.places();
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
