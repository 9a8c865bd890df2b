//! The shortest fast paths: a GET of a short string that lies inline, and a SET over one.
//!
//! A processor overlaps the cache misses of successive calls as far as its window of some 500 instructions reaches, and a miss costs as much
//! as 500 instructions. So a call of 200 instructions is more than twice as fast as one of 500 (`bench floor`). That is why this file
//! exists beside `read.rs` and `update.rs`: the same protocols for one case, inlined, without what other cases need. No branch depends on data that a miss
//! brings, except for branches that nearly always go the same way. In a table that is 90 % full, one key in twelve does not lie at home.
//! Half of those lie in the next bucket, whose line the processor prefetches; GET looks there at once. The others are looked for separately.
//!
//! ```text
//!  read   root -> slot -> extent -> the word of the line -> tag -> key and value -> word, slot, map's lock and root again
//!  write  pin, the same way to the key -> the line's lock, by a CAS of the very word that was read before the key was
//!         -> slot, map's lock and root again -> journal -> commit -> write out, unlock, unpin
//! ```
//!
//! Why the write need not look at the entry again after it has locked: the CAS expects the same lock word that was read before the entry.
//! It fails if any change of the bucket was published since (S2; `lock.rs`). A reader may have noted an access meanwhile, but that changes
//! only the access clock, which the write stores anew.
//!
//! In all other cases a function here does nothing and says so, and the caller takes the next longer path.

use polder_shm::layout::{interest, seat as at};
use polder_shm::staged_journal::StagedJournal;
use polder_shm::{RawView, Seat, Segment, coarse_seconds, lock, offset_of};
use polder_values::Kind;

use crate::access::locate::{self, Displaced, Location, Reading};
use crate::access::lookup::Live;
use crate::access::put::PinGuard;
use crate::api::{Counter, Db};
use crate::layout::bucket::{self, BUCKET_BYTES, PIECE_BUCKETS};
use crate::layout::clock;
use crate::layout::directory::{self, Bucket, Near, map_at};
use crate::layout::entry::{self, INLINE_HEAD, INLINE_MAX, Image, UNIT_BYTES};
use crate::layout::hash::Hash;
use crate::layout::interest::is_told;
use crate::layout::raw;
use crate::log::recording::{self, Changed, Effect, Tell};
use crate::table::Table;

/// A plain entry, as it was seen.
pub(crate) struct Seen {
    pub(crate) root: u64,
    slot_at: u64,
    slot: u64,
    /// The line of the bucket in which it lies, and its word before the entry was looked at.
    pub(crate) line: u64,
    pub(crate) word: u64,
    /// Where the entry begins, and its first two words.
    pub(crate) at: u64,
    pub(crate) first: u64,
    second: u64,
    value_len: usize,
    /// Where the units of that bucket begin.
    pub(crate) units: u64,
}

/// Why nothing was found.
pub(crate) enum Missed {
    /// It may lie elsewhere.
    NotHere,
    /// Another thread has the home locked, or the home cannot be found in these few steps: the slower path decides.
    Unclear,
}

impl Seen {
    /// Finds the entry of a key, [`entry::RAW`] or not: to write it, at home; else also in the next bucket.
    #[inline(always)]
    pub(crate) fn find<const TO_WRITE: bool>(
        lens: RawView<'_>,
        db: Db,
        hash: Hash,
        key: &[u8],
    ) -> Result<Seen, Missed> {
        let root = lens.observe(map_at(db) + 8);
        let Some(near) = directory::nearly_home(lens, root, hash.position) else {
            return Err(Missed::Unclear);
        };
        let Near { slot_at, slot, piece, mut number, .. } = near;
        let Bucket { mut line, units } = Bucket::of(piece, number);
        let preferred = units + bucket::preferred_unit(hash.tag) * UNIT_BYTES as u64;
        if TO_WRITE {
            // From another core's cache they come once: not first to be read, and then again to be owned.
            lens.prefetch_to_write(line);
            lens.prefetch_to_write(preferred);
        }
        lens.prefetch_two_lines(preferred);
        let mut word = lens.observe(line);
        if word & BUSY != 0 {
            return Err(Missed::Unclear);
        }
        let mut found = raw::units_tagged(lens, line, hash.tag);
        if !TO_WRITE && found == 0 && number + 1 < PIECE_BUCKETS {
            (number, line) = (number + 1, line + 64);
            word = lens.observe(line);
            if word & BUSY == 0 {
                found = raw::units_tagged(lens, line, hash.tag);
            }
        }
        let units = Bucket::of(piece, number).units;
        match pick(lens, units, found, key) {
            Some((at, first, second, value_len)) => {
                Ok(Seen { root, slot_at, slot, line, word, at, first, second, value_len, units })
            }
            None => Err(Missed::NotHere),
        }
    }

    /// Finds the entry of a key that is to be written, from where it was seen to belong; and the home, where that is another bucket.
    #[inline(always)]
    fn find_located(segment: &Segment, location: &Location, key: &[u8]) -> Option<(Seen, Option<Reading>)> {
        let (lens, Bucket { line, units }) = (segment.raw_view(), location.bucket);
        let word = lens.observe(line);
        if word & BUSY != 0 {
            return None;
        }
        let found = raw::units_tagged(lens, line, location.hash.tag);
        segment.prefetch_to_write(units + found.trailing_zeros() as u64 * UNIT_BYTES as u64);
        if let Some((at, first, second, value_len)) = pick(lens, units, found, key) {
            let Location { root, slot_at, slot, .. } = *location;
            return Some((
                Seen { root, slot_at, slot, line, word, at, first, second, value_len, units },
                None,
            ));
        }
        // Most that are not at home are nowhere.
        if bucket::displaced(lens.load(location.bucket.word_at(7))) == (0, 0) {
            return None;
        }
        Seen::find_displaced(segment, location, key).map(|(seen, home)| (seen, Some(home)))
    }

    /// Finds an entry that lies in another bucket than its home, and returns the home with it.
    #[cold]
    #[inline(never)]
    pub(crate) fn find_displaced(
        segment: &Segment,
        location: &Location,
        key: &[u8],
    ) -> Option<(Seen, Reading)> {
        let lens = segment.raw_view();
        let home = Reading::begin(segment, location.bucket)?;
        let counts = bucket::displaced(lens.load(location.bucket.word_at(7)));
        let (unit, Displaced { reading: Reading { bucket, word }, .. }) =
            location.search_displaced(segment, key, counts, None)??;
        if (home.word | word) & BUSY != 0 {
            return None;
        }
        let (Location { root, slot_at, slot, .. }, Bucket { line, units }) = (*location, bucket);
        let at = units + unit as u64 * UNIT_BYTES as u64;
        let (first, second) = (lens.load(at), lens.load(at + 8));
        let value_len = plain_value_len(second, key.len())?;
        Some((Seen { root, slot_at, slot, line, word, at, first, second, value_len, units }, home))
    }

    /// Whether it stays plain, and as long in units, with this value.
    #[inline(always)]
    pub(crate) fn takes(&self, key: &[u8], value: &[u8]) -> bool {
        let bytes = |value_len: usize| (INLINE_HEAD + key.len() + value_len).next_multiple_of(UNIT_BYTES);
        // S5: no farther than its bucket, whatever its length says.
        let is_inside = self.at + bytes(self.value_len) as u64 <= self.units + BUCKET_BYTES;
        self.second as u8 & entry::RAW == 0 && bytes(value.len()) == bytes(self.value_len) && is_inside
    }

    /// Shows a snapshot the change of the entry, whose first word becomes `first`: it saves the old words, which are still there, and asks the new
    /// entry for its version only.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_change(
        &self,
        segment: &Segment,
        (hash, key): (&Hash, &[u8]),
        first: u64,
        record: &mut dyn FnMut(Changed<'_>),
    ) {
        let (mut before, mut after) = (Image::EMPTY, Image::EMPTY);
        let bucket = Bucket { line: self.line, units: self.units };
        bucket::read_image(
            &Live { segment, bucket },
            (self.at - self.units) as usize / UNIT_BYTES,
            &mut before,
        );
        after.words[0] = first;
        record(Changed { root: self.root, hash, key, before: Some(&before), after: Some(&after) });
    }

    /// As `Location::is_current`.
    #[inline(always)]
    pub(crate) fn is_current(&self, lens: RawView<'_>, db: Db) -> bool {
        locate::is_current(lens, (db, self.root), (self.slot_at, self.slot))
    }
}

/// The plain entry of a key among those that begin at the units that `found` has bits of: where, its first two words, its value's length.
#[inline(always)]
fn pick(lens: RawView<'_>, units: u64, mut found: u64, key: &[u8]) -> Option<(u64, u64, u64, usize)> {
    while found != 0 {
        let at = units + found.trailing_zeros() as u64 * UNIT_BYTES as u64;
        let (first, second) = (lens.load(at), lens.load(at + 8));
        if let Some(value_len) = plain_value_len(second, key.len())
            && raw::bytes_are::<INLINE_HEAD>(lens, at, key)
        {
            return Some((at, first, second, value_len));
        }
        found &= found - 1;
    }
    None
}

/// What [`Table::foresee`] has found out about a key.
#[derive(Clone, Copy)]
pub struct Foreseen {
    pub hash: Hash,
    home: Bucket,
    /// Where an entry of this tag begins, or 0.
    entry: u64,
}

impl Foreseen {
    /// Room for one.
    pub const NOTHING: Foreseen =
        Foreseen { hash: Hash { position: 0, tag: 0, extra: 0 }, home: NOWHERE, entry: 0 };
}

const NOWHERE: Bucket = Bucket { line: 0, units: 0 };

/// What sends the plain ways elsewhere, in a bucket's word.
pub(crate) const BUSY: u64 = lock::OWNER | lock::STARVING | lock::DEAD;

/// The length of the value, if this is the second word of a plain string's entry with a key of this length; one that fits.
#[inline(always)]
fn plain_value_len(second: u64, key_len: usize) -> Option<usize> {
    // Kind and key's length are taken away; what is left of them, if they are others, becomes a length that cannot be.
    let plain = Kind::String as u32 | (key_len as u32) << 8;
    let len =
        (second as u32 & (0xff_ffff & !(entry::RAW as u32))).wrapping_sub(plain).rotate_right(16) as usize;
    (key_len <= INLINE_MAX && len <= INLINE_MAX - key_len).then_some(len)
}

impl Table {
    /// The hash of a key in this segment.
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> Hash {
        crate::layout::hash::hash(key, self.segment().secret())
    }

    /// Brings near what the shortest ways will look at for each of these keys (as many as there is room for in `foreseen`), all keys' misses at once:
    /// first the lines, then the entries whose tags match, then records that these name. A hint: nothing is believed.
    #[inline]
    pub fn foresee(&self, db: Db, keys: &[&[u8]], foreseen: &mut [Foreseen]) {
        let segment = &**self.segment();
        let lens = segment.raw_view();
        let root = lens.observe(map_at(db) + 8);
        let count = keys.len().min(foreseen.len());
        let foreseen = &mut foreseen[..count];
        for (key, seen) in keys.iter().zip(&mut *foreseen) {
            let hash = self.hash(key);
            let near = directory::nearly_home(lens, root, hash.position);
            let home = near.map_or(NOWHERE, |near| Bucket::of(near.piece, near.number));
            segment.prefetch(home.line);
            *seen = Foreseen { hash, home, entry: 0 };
        }
        for seen in &mut *foreseen {
            let found =
                if seen.home == NOWHERE { 0 } else { raw::units_tagged(lens, seen.home.line, seen.hash.tag) };
            if found != 0 {
                seen.entry = seen.home.units + found.trailing_zeros() as u64 * UNIT_BYTES as u64;
                segment.prefetch(seen.entry);
                // It may reach into the next line.
                segment.prefetch(seen.entry + 2 * UNIT_BYTES as u64);
            }
        }
        for seen in foreseen.iter().filter(|seen| seen.entry != 0) {
            let second = lens.load(seen.entry + 8);
            if entry::names_record(second) {
                segment.prefetch(offset_of(entry::record_of(second)));
            }
        }
    }

    /// Reads a string that is packed, inline and without expiry. `None`: it is not there, or not like this.
    #[inline(always)]
    pub fn read_plain<R>(&self, db: Db, hash: Hash, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let segment = &**self.segment();
        let lens = segment.raw_view();
        let seen = match Seen::find::<false>(lens, db, hash, key) {
            Ok(seen) => seen,
            Err(Missed::NotHere) => Seen::find_displaced(segment, &Location::at(segment, db, hash)?, key)?.0,
            Err(Missed::Unclear) => return None,
        };
        let mut copy = raw::Short::EMPTY;
        let value = copy.take(lens, seen.at + (INLINE_HEAD + key.len()) as u64, seen.value_len);
        // In this order: see `Reading::holds`.
        let is_current = seen.is_current(lens, db);
        segment.acquire_fence();
        if !is_current || lens.load(seen.line) != seen.word {
            return None;
        }
        let clock = now();
        if clock != entry::clock_of(seen.first) {
            // The clock that counts accesses is another one, whose bits are by chance the same once in 16 million reads: one that is not counted.
            self.note_rarely(seen.at, seen.first, clock);
        }
        Some(read(value))
    }

    /// Like [`Table::note_access`], which would keep registers from the read.
    #[cold]
    #[inline(never)]
    fn note_rarely(&self, first_at: u64, first: u64, clock: u32) {
        self.note_access(first_at, first, clock);
    }

    /// Gives a key that has a plain short string another one that takes as many units: what `edit` makes of it, which may be shown what never was, and
    /// then nothing comes of it. `calls` is added to the count of calls; `tell` says the effect while the change log is on. `None`: take another way.
    #[inline(always)]
    pub fn edit_plain<'v, R>(
        &self,
        location: &Location,
        key: &[u8],
        times: (u64, u64),
        edit: impl FnOnce(&[u8]) -> Option<(&'v [u8], R)>,
        tell: impl Fn(&mut Effect<'_>),
    ) -> Option<R> {
        if self.seems_logged() {
            return self.edit_plain_told(location, key, times, edit, &tell);
        }
        self.edit_pinned(location, key, times, edit, Untold)
    }

    #[cold]
    #[inline(never)]
    fn edit_plain_told<'v, R>(
        &self,
        location: &Location,
        key: &[u8],
        times: (u64, u64),
        edit: impl FnOnce(&[u8]) -> Option<(&'v [u8], R)>,
        tell: Tell<'_>,
    ) -> Option<R> {
        self.settle_guess();
        if !seems_plain(self.segment().raw_view(), location) {
            return None;
        }
        self.edit_pinned(location, key, times, edit, Told { tell, now_ms: times.0 })
    }

    #[inline(always)]
    fn edit_pinned<'v, R>(
        &self,
        location: &Location,
        key: &[u8],
        (now_ms, calls): (u64, u64),
        edit: impl FnOnce(&[u8]) -> Option<(&'v [u8], R)>,
        told: impl Teller,
    ) -> Option<R> {
        let edited = self.segment().with_seat(|seat| {
            let guard = PinGuard::begin(seat, location.db)?;
            let answer = edit_located(guard.seat, location, key, (self, clock::lru(now_ms)), edit, told)?;
            guard.seat.add(at::COUNTERS + 8 * Counter::Calls as u64, calls);
            Some(answer)
        });
        edited.ok()?
    }

    /// Gives a key that has a plain short string another one that takes as many units. `false`: take another way.
    #[inline(always)]
    pub fn write_plain(&self, db: Db, hash: Hash, key: &[u8], value: &[u8]) -> bool {
        if self.seems_logged() {
            return self.write_plain_told(db, hash, key, value);
        }
        let written = self.segment().with_seat(|seat| {
            let guard = PinGuard::begin(seat, db)?;
            write(guard.seat, db, hash, (self, now()), (key, value), Untold)
        });
        matches!(written, Ok(Some(())))
    }

    #[cold]
    #[inline(never)]
    fn write_plain_told(&self, db: Db, hash: Hash, key: &[u8], value: &[u8]) -> bool {
        self.settle_guess();
        let tell = |effect: &mut Effect<'_>| effect.call("SET", &[key, value]);
        let told = Told { tell: &tell, now_ms: polder_base::time::coarse_ms() };
        let written = self.segment().with_seat(|seat| {
            let guard = PinGuard::begin(seat, db)?;
            write(guard.seat, db, hash, (self, now()), (key, value), told)
        });
        matches!(written, Ok(Some(())))
    }
}

/// Returns true if the first entry that may be the key's is a plain string: a hint, which spares a pin where the slower paths are going to write.
#[inline(always)]
fn seems_plain(lens: RawView<'_>, location: &Location) -> bool {
    let found = raw::units_tagged(lens, location.bucket.line, location.hash.tag);
    if found == 0 {
        return bucket::displaced(lens.load(location.bucket.word_at(7))) != (0, 0);
    }
    let second = lens.load(location.bucket.units + found.trailing_zeros() as u64 * UNIT_BYTES as u64 + 8);
    second as u8 & !entry::RAW == Kind::String as u8
}

/// A choice of whether a write is told to the change log. Two types, so that the code for writes that are not told has no trace of the others.
trait Teller: Copy {
    /// The function that says the effect, and the time of its record; `None`: a commit that has to record something is left to the slower paths.
    fn told(&self) -> Option<(Tell<'_>, u64)>;
}

#[derive(Clone, Copy)]
struct Untold;

impl Teller for Untold {
    #[inline(always)]
    fn told(&self) -> Option<(Tell<'_>, u64)> {
        None
    }
}

#[derive(Clone, Copy)]
struct Told<'t> {
    tell: Tell<'t>,
    now_ms: u64,
}

impl Teller for Told<'_> {
    #[inline(always)]
    fn told(&self) -> Option<(Tell<'_>, u64)> {
        Some((self.tell, self.now_ms))
    }
}

/// Returns true if a thread listens to changes: then the slower paths write.
#[inline(always)]
pub(crate) fn is_heard(segment: &Segment) -> bool {
    is_told(segment, interest::CHANGES & !interest::WAITERS)
}

/// Returns true if a thread listens to changes, or a commit has to record something that nothing here does: then the slower paths write.
#[inline(always)]
fn is_watched(segment: &Segment, told: impl Teller) -> bool {
    is_heard(segment) || told.told().is_none() && recording::is_on(segment)
}

#[inline(always)]
fn write(
    seat: &Seat,
    db: Db,
    hash: Hash,
    clock: Clock<'_>,
    (key, value): (&[u8], &[u8]),
    told: impl Teller,
) -> Option<()> {
    let segment = &**seat.segment();
    let seen = match Seen::find::<true>(segment.raw_view(), db, hash, key) {
        Ok(seen) => seen,
        Err(Missed::NotHere) => {
            return write_displaced(seat, &Location::at(segment, db, hash)?, clock, (key, value), told);
        }
        Err(Missed::Unclear) => return None,
    };
    if !seen.takes(key, value) || !may_lock(seat, told) || !seat.lock_as_seen(0, seen.line, seen.word) {
        return None;
    }
    replace(seat, db, (&seen, 0), clock, (&hash, key, value), told)
}

/// As `Table::edit_plain`.
#[inline(always)]
fn edit_located<'v, R>(
    seat: &Seat,
    location: &Location,
    key: &[u8],
    clock: Clock<'_>,
    edit: impl FnOnce(&[u8]) -> Option<(&'v [u8], R)>,
    told: impl Teller,
) -> Option<R> {
    let segment = &**seat.segment();
    segment.prefetch_to_write(location.bucket.line);
    // T3: as in `update.rs`, the pin reaches to the bucket before it is looked into, and locked.
    if is_watched(segment, told) || !seat.covers_now() || !location.is_current(segment) {
        return None;
    }
    let (seen, home) = Seen::find_located(segment, location, key)?;
    let mut copy = raw::Short::EMPTY;
    let old = copy.take(segment.raw_view(), seen.at + (INLINE_HEAD + key.len()) as u64, seen.value_len);
    let (value, answer) = edit(old)?;
    if !seen.takes(key, value) {
        return None;
    }
    let (locked, lock) = match home {
        None => (seat.lock_as_seen(0, seen.line, seen.word), 0),
        Some(home) => (lock_both(seat, &home, &seen), 1),
    };
    if !locked {
        // The next path meets the same lock and counts it.
        seat.forget_collision();
        return None;
    }
    replace(seat, location.db(), (&seen, lock), clock, (&location.hash, key, value), told)?;
    Some(answer)
}

/// Locks the home of a displaced entry, as T1 demands of each change of a key, and the bucket in which the entry lies.
#[inline]
fn lock_both(seat: &Seat, home: &Reading, seen: &Seen) -> bool {
    seat.lock_as_seen(0, home.bucket.line, home.word) && seat.lock_as_seen(1, seen.line, seen.word)
}

/// What gives an entry its next access clock: see [`Table::next_clock`].
type Clock<'t> = (&'t Table, u32);

/// The access clock of now.
#[inline(always)]
pub(crate) fn now() -> u32 {
    coarse_seconds() as u32 & 0xff_ffff
}

/// As [`write`], where the entry lies elsewhere.
#[cold]
#[inline(never)]
fn write_displaced(
    seat: &Seat,
    location: &Location,
    clock: Clock<'_>,
    (key, value): (&[u8], &[u8]),
    told: impl Teller,
) -> Option<()> {
    let (seen, home) = Seen::find_displaced(seat.segment(), location, key)?;
    if !seen.takes(key, value) || !may_lock(seat, told) || !lock_both(seat, &home, &seen) {
        return None;
    }
    replace(seat, location.db(), (&seen, 1), clock, (&location.hash, key, value), told)
}

/// T3: the pin covers all nodes on the way to the key. The check for listeners is repeated under the lock; here it only saves a useless lock.
#[inline(always)]
fn may_lock(seat: &Seat, told: impl Teller) -> bool {
    !is_watched(seat.segment(), told) && seat.covers_now()
}

/// Writes another value into an entry whose bucket was locked by the journal's item `lock`.
#[inline(always)]
fn replace(
    seat: &Seat,
    db: Db,
    (seen, lock): (&Seen, u64),
    clock: Clock<'_>,
    (hash, key, value): (&Hash, &[u8], &[u8]),
    told: impl Teller,
) -> Option<()> {
    let segment = &**seat.segment();
    // The check for listeners must come under the lock, see `Table::interest`.
    if !seen.is_current(segment.raw_view(), db) || is_watched(segment, told) {
        return None;
    }
    let mut notes = seat.stage();
    let first =
        entry::first_word(seat.next_version(), clock.0.next_clock(entry::clock_of(seen.first), clock.1));
    note_value(&mut notes, seat, (seen, lock), first, key, value);
    if let Some((tell, now_ms)) = told.told() {
        let changes = |record: &mut dyn FnMut(Changed<'_>)| {
            seen.show_change(segment, (hash, key), first, record);
        };
        recording::before_told_commit((seat, db, now_ms), &mut notes, tell, &changes).then_some(())?;
    }
    notes.commit();
    seat.add(at::COUNTERS + 8 * Counter::Changes as u64, 1);
    Some(())
}

/// Notes the words of an entry with another value.
#[inline(always)]
pub(crate) fn note_value(
    notes: &mut StagedJournal<'_>,
    seat: &Seat,
    (seen, lock): (&Seen, u64),
    first: u64,
    key: &[u8],
    value: &[u8],
) {
    let segment = &**seat.segment();
    notes.cover(lock, seen.line);
    notes.word(seen.at, first);
    let second = seen.second & !(0xff << 16) | (value.len() as u64) << 16;
    if second != seen.second {
        notes.word(seen.at + 8, second);
    }
    // The value may begin in that very word.
    let old = |number| if number == 1 { second } else { segment.load(seen.at + number as u64 * 8) };
    let value_at = INLINE_HEAD + key.len();
    let words = (value_at + value.len()).div_ceil(UNIT_BYTES) * 2;
    entry::value_words(value, value_at, old, words, |number, word| {
        notes.word(seen.at + number as u64 * 8, word)
    });
}
