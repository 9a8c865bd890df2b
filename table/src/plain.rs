//! The shortest fast paths: a GET of a short string that lies inline, and a SET over one.
//!
//! A processor overlaps the cache misses of successive calls as far as its window of some 500 instructions reaches, and a miss costs as much
//! as 500 instructions. So a call of 200 instructions is more than twice as fast as one of 500 (`bench floor`). That is why this file
//! exists beside `quick.rs`: the same protocols for one case, inlined, without what other cases need. No branch depends on data that a miss
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
use smallvec::SmallVec;

use crate::api::{Counter, Db};
use crate::bucket::{self, BUCKET_BYTES, PIECE_BUCKETS};
use crate::clock;
use crate::directory::{self, Bucket, MAP_LOCK, Near, map_at};
use crate::entry::{self, INLINE_HEAD, INLINE_MAX, UNIT_BYTES};
use crate::hash::Hash;
use crate::interest::is_told;
use crate::location::Location;
use crate::quick::PinGuard;
use crate::raw;
use crate::recording;
use crate::table::Table;

/// A plain entry, as it was seen.
struct Seen {
    root: u64,
    slot_at: u64,
    slot: u64,
    /// The line of the bucket in which it lies, and its word before the entry was looked at.
    line: u64,
    word: u64,
    /// Where the entry begins, and its first two words.
    at: u64,
    first: u64,
    second: u64,
    value_len: usize,
    /// Where the units of that bucket begin.
    units: u64,
}

/// Why nothing was found.
enum Missed {
    /// It may lie elsewhere.
    NotHere,
    /// Another thread has the home locked, or the home cannot be found in these few steps: the slower path decides.
    Unclear,
}

impl Seen {
    /// Finds the entry of a key, [`entry::RAW`] or not: to write it, at home; else also in the next bucket.
    #[inline(always)]
    fn find<const TO_WRITE: bool>(lens: RawView<'_>, db: Db, hash: Hash, key: &[u8]) -> Result<Seen, Missed> {
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
    fn find_located(segment: &Segment, location: &Location, key: &[u8]) -> Option<(Seen, Option<Home>)> {
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

    /// Finds an entry that lies in another bucket than its home.
    #[cold]
    #[inline(never)]
    fn find_displaced(segment: &Segment, location: &Location, key: &[u8]) -> Option<(Seen, Home)> {
        let lens = segment.raw_view();
        let home = Home { line: location.bucket.line, word: lens.observe(location.bucket.line) };
        if home.word & BUSY != 0 {
            return None;
        }
        let (next, stash) = bucket::displaced(lens.load(location.bucket.word_at(7)));
        for (index, in_stash) in location.others() {
            if (if in_stash { stash } else { next }) == 0 {
                continue;
            }
            let Bucket { line, units } = location.bucket(segment, index)?;
            let word = lens.observe(line);
            if word & BUSY != 0 {
                return None;
            }
            if let Some((at, first, second, value_len)) =
                pick(lens, units, raw::units_tagged(lens, line, location.hash.tag), key)
            {
                let Location { root, slot_at, slot, .. } = *location;
                return Some((
                    Seen { root, slot_at, slot, line, word, at, first, second, value_len, units },
                    home,
                ));
            }
        }
        None
    }

    /// Whether it stays plain, and as long in units, with this value.
    #[inline(always)]
    fn takes(&self, key: &[u8], value: &[u8]) -> bool {
        let bytes = |value_len: usize| (INLINE_HEAD + key.len() + value_len).next_multiple_of(UNIT_BYTES);
        // S5: no farther than its bucket, whatever its length says.
        let is_inside = self.at + bytes(self.value_len) as u64 <= self.units + BUCKET_BYTES;
        self.second as u8 & entry::RAW == 0 && bytes(value.len()) == bytes(self.value_len) && is_inside
    }

    /// As `Location::is_current`.
    #[inline(always)]
    fn is_current(&self, lens: RawView<'_>, db: Db) -> bool {
        lens.observe(self.slot_at) == self.slot
            && lens.observe(MAP_LOCK) & lock::OWNER == 0
            && lens.observe(map_at(db) + 8) == self.root
    }
}

/// The home of a displaced entry, and its word before it was looked into.
struct Home {
    line: u64,
    word: u64,
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

/// The most keys: their words fit into a staged journal, unless buckets are rearranged.
pub(crate) const SEVERAL_MAX: usize = 20;

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
        crate::hash::hash(key, self.segment().secret())
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
            if second as u8 & entry::REFERENCE != 0 {
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
            self.note_plain(seen.at, seen.first, clock);
        }
        Some(read(value))
    }

    /// Moves the access clock on, as `Table::note_fast_access`.
    #[cold]
    #[inline(never)]
    fn note_plain(&self, first_at: u64, first: u64, clock: u32) {
        // Where accesses are counted the clock is another, whose bits are by chance the same once in 16 million reads: one that is not counted.
        let clock = self.next_clock(entry::clock_of(first), clock);
        if clock != entry::clock_of(first) {
            let _ =
                self.segment().exchange(first_at, first, entry::first_word(entry::version_of(first), clock));
        }
    }

    /// Gives a key that has a plain short string another one that takes as many units: what `edit` makes of it, which may be shown what never was, and
    /// then nothing comes of it. `calls` is added to the count of calls. `None`: take another way.
    #[inline(always)]
    pub fn edit_plain<'v, R>(
        &self,
        location: &Location,
        key: &[u8],
        now_ms: u64,
        calls: u64,
        edit: impl FnOnce(&[u8]) -> Option<(&'v [u8], R)>,
    ) -> Option<R> {
        let edited = self.segment().with_seat(|seat| {
            let guard = PinGuard::begin(seat, location.db)?;
            let answer = edit_located(guard.seat, location, key, (self, clock::lru(now_ms)), edit)?;
            guard.seat.add(at::COUNTERS + 8 * Counter::Calls as u64, calls);
            Some(answer)
        });
        edited.ok()?
    }

    /// Gives a key that has a plain short string another one that takes as many units. `false`: take another way.
    #[inline(always)]
    pub fn write_plain(&self, db: Db, hash: Hash, key: &[u8], value: &[u8]) -> bool {
        if self.seems_logged() {
            return false;
        }
        let written = self.segment().with_seat(|seat| {
            let guard = PinGuard::begin(seat, db)?;
            write(guard.seat, db, hash, (self, now()), (key, value))
        });
        matches!(written, Ok(Some(())))
    }
}

/// Whether a thread listens to changes, or a commit has to record something: then the slower paths write.
#[inline(always)]
fn is_watched(segment: &Segment) -> bool {
    is_told(segment, interest::CHANGES & !interest::WAITERS) || recording::is_on(segment)
}

#[inline(always)]
fn write(seat: &Seat, db: Db, hash: Hash, clock: Clock<'_>, (key, value): (&[u8], &[u8])) -> Option<()> {
    let segment = &**seat.segment();
    let seen = match Seen::find::<true>(segment.raw_view(), db, hash, key) {
        Ok(seen) => seen,
        Err(Missed::NotHere) => {
            return write_displaced(seat, &Location::at(segment, db, hash)?, clock, (key, value));
        }
        Err(Missed::Unclear) => return None,
    };
    if !seen.takes(key, value) || !may_lock(seat) || !seat.lock_as_seen(0, seen.line, seen.word) {
        return None;
    }
    replace(seat, db, (&seen, 0), clock, (key, value))
}

/// As `Table::edit_plain`.
#[inline(always)]
fn edit_located<'v, R>(
    seat: &Seat,
    location: &Location,
    key: &[u8],
    clock: Clock<'_>,
    edit: impl FnOnce(&[u8]) -> Option<(&'v [u8], R)>,
) -> Option<R> {
    let segment = &**seat.segment();
    segment.prefetch_to_write(location.bucket.line);
    // T3: as in `quick.rs`, the pin reaches to the bucket before it is looked into, and locked.
    if is_watched(segment) || !seat.covers_now() || !location.is_current(segment) {
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
    replace(seat, location.db(), (&seen, lock), clock, (key, value))?;
    Some(answer)
}

/// Locks the home of a displaced entry, as T1 demands of each change of a key, and the bucket in which the entry lies.
#[inline]
fn lock_both(seat: &Seat, home: &Home, seen: &Seen) -> bool {
    seat.lock_as_seen(0, home.line, home.word) && seat.lock_as_seen(1, seen.line, seen.word)
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
) -> Option<()> {
    let (seen, home) = Seen::find_displaced(seat.segment(), location, key)?;
    if !seen.takes(key, value) || !may_lock(seat) || !lock_both(seat, &home, &seen) {
        return None;
    }
    replace(seat, location.db(), (&seen, 1), clock, (key, value))
}

/// T3: the pin covers all nodes on the way to the key. The check for listeners is repeated under the lock; here it only saves a useless lock.
#[inline(always)]
fn may_lock(seat: &Seat) -> bool {
    !is_watched(seat.segment()) && seat.covers_now()
}

/// The same for several keys: see `several.rs`.
pub(crate) fn write_all(seat: &Seat, db: Db, clock: Clock<'_>, pairs: &[[&[u8]; 2]]) -> Option<()> {
    let segment = &**seat.segment();
    let lens = segment.raw_view();
    let root = lens.observe(map_at(db) + 8);
    let mut hashes = SmallVec::<[Hash; SEVERAL_MAX]>::new();
    for [key, _] in pairs {
        let hash = crate::hash::hash(key, segment.secret());
        // All at once, before the first is looked into.
        if let Some(near) = directory::nearly_home(lens, root, hash.position) {
            lens.prefetch_to_write(Bucket::of(near.piece, near.number).line);
        }
        hashes.push(hash);
    }
    let (mut all, mut homes) =
        (SmallVec::<[(Seen, usize); SEVERAL_MAX]>::new(), SmallVec::<[Home; SEVERAL_MAX]>::new());
    for (number, ([key, value], hash)) in pairs.iter().zip(hashes).enumerate() {
        let seen = match Seen::find::<true>(lens, db, hash, key) {
            Ok(seen) => seen,
            Err(Missed::NotHere) => {
                let (seen, home) = Seen::find_displaced(segment, &Location::at(segment, db, hash)?, key)?;
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
    if !may_lock(seat) {
        return None;
    }
    // The lines that are locked, by the journal's item of the same number, and which of them is each key's.
    let (mut lines, mut locks) = (Lines::new(), SmallVec::<[u64; SEVERAL_MAX]>::new());
    for (seen, _) in &all {
        locks.push(lock_among(seat, &mut lines, (seen.line, seen.word))?);
    }
    for home in &homes {
        lock_among(seat, &mut lines, (home.line, home.word))?;
    }
    // The check for listeners must come under the locks, see `Table::interest`.
    if is_watched(segment) || !all.iter().all(|(seen, _)| seen.is_current(lens, db)) {
        return None;
    }
    let mut notes = seat.stage();
    for ((seen, number), lock) in all.iter().zip(locks) {
        let [key, value] = pairs[*number];
        let first =
            entry::first_word(seat.next_version(), clock.0.next_clock(entry::clock_of(seen.first), clock.1));
        note_value(&mut notes, seat, (seen, lock), first, key, value);
    }
    notes.commit();
    Some(())
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

/// Writes another value into an entry whose bucket was locked by the journal's item `lock`.
#[inline(always)]
fn replace(
    seat: &Seat,
    db: Db,
    (seen, lock): (&Seen, u64),
    clock: Clock<'_>,
    (key, value): (&[u8], &[u8]),
) -> Option<()> {
    let segment = &**seat.segment();
    // The check for listeners must come under the lock, see `Table::interest`.
    if !seen.is_current(segment.raw_view(), db) || is_watched(segment) {
        return None;
    }
    let mut notes = seat.stage();
    let first =
        entry::first_word(seat.next_version(), clock.0.next_clock(entry::clock_of(seen.first), clock.1));
    note_value(&mut notes, seat, (seen, lock), first, key, value);
    notes.commit();
    seat.add(at::COUNTERS + 8 * Counter::Changes as u64, 1);
    Some(())
}

/// Notes the words of an entry with another value.
#[inline(always)]
fn note_value(
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
