//! The table of a segment, as one process holds it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use polder_base::Fault;
use polder_shm::layout::{header, seat as at};
use polder_shm::{Seat, Segment, offset_of, sync};
use smallvec::SmallVec;

use crate::api::*;
use crate::bucket::{self, LINE_WORDS, UNITS};
use crate::cached_bytes::CachedBytes;
use crate::change::{ChangeSink, Dump};
use crate::clock;
use crate::compact_pass::Pass;
use crate::directory::{self, Slot, database, map_at};
use crate::entry;
use crate::hash::FREE;
use crate::locate::Location;
use crate::lookup;
use crate::oom_window::OomRetry;
use crate::raw;
use crate::room_makers::RoomMakers;

/// A process's handle on the table of a segment; shared by its threads.
pub struct Table {
    segment: Arc<Segment>,
    random: AtomicU64,
    /// The densest extent met so far (bits of an f64): what makes a draw of a key fair.
    density: AtomicU64,
    pub(crate) oom_retry: OomRetry,
    pub(crate) cached_bytes: CachedBytes,
    /// How far this process has come with emptying slabs.
    pub(crate) pass: Mutex<Pass>,
    pub(crate) is_compacting: AtomicBool,
    pub(crate) room_makers: RoomMakers,
    /// The present pause between two attempts to sweep that another thread has blocked, in milliseconds.
    pub(crate) sweep_pause_ms: AtomicU64,
    /// Bounds that other seats have lifted, and since when this process has seen each so.
    pub(crate) lifts: Mutex<Vec<((u64, u64), Instant)>>,
    /// The receiver of changes.
    pub(crate) sink: std::sync::OnceLock<&'static dyn ChangeSink>,
    /// Whether the change log was on when a transaction looked last: a guess, which decides what fast paths try first. Their commits look themselves.
    seems_logged: AtomicBool,
    /// What dumps values that no call has told of.
    pub(crate) dump: std::sync::OnceLock<Dump>,
}

/// Keys whose misses are taken at once.
pub(crate) const PREFETCH_KEYS: usize = 64;

/// A pin that lasts until this is dropped.
pub struct Pinned(std::rc::Rc<Seat>);

impl Pinned {
    /// As [`Seat::covers_now`].
    pub(crate) fn covers_now(&self) -> bool {
        self.0.covers_now()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !sync::is_dead() {
            self.0.unpin();
        }
    }
}

/// The words of `Limits` in the header, in order.
const MEMORY_MAX: u64 = header::LIMITS;
const POLICY: u64 = header::LIMITS + 8;
const SAMPLES: u64 = header::LIMITS + 16;
const LFU_LOG_FACTOR: u64 = header::LIMITS + 24;
const LFU_DECAY: u64 = header::LIMITS + 32;
/// 1 where active expiry is off.
const PASSIVE: u64 = header::LIMITS + 40;
/// What stands at [`PASSIVE`].
const LAZY: u64 = 1;
const IMPORTING: u64 = 2;
/// 1 once limits have been set; before that the defaults hold.
const LIMITED: u64 = header::LIMITS + 48;
/// What `reset_counters` found: counters are told relative to it.
const COUNTER_BASES: u64 = header::LIMITS + 64;

impl Table {
    /// The table of an attached segment. A new segment's table needs no making: databases come with their first key.
    pub fn over(segment: Arc<Segment>) -> Table {
        let seed = segment.load(header::SECRET) ^ polder_base::time::now_us();
        Table::seeded(segment, seed)
    }

    /// As [`Table::over`], with a known start of what [`Table::draw_wide`] draws: for tests that repeat a run exactly.
    #[doc(hidden)]
    pub fn seeded(segment: Arc<Segment>, seed: u64) -> Table {
        Table {
            segment,
            random: AtomicU64::new(seed | 1),
            density: AtomicU64::new(0),
            oom_retry: OomRetry::default(),
            cached_bytes: CachedBytes::default(),
            pass: Mutex::default(),
            is_compacting: AtomicBool::new(false),
            room_makers: RoomMakers::default(),
            sweep_pause_ms: AtomicU64::new(0),
            lifts: Mutex::default(),
            sink: std::sync::OnceLock::new(),
            seems_logged: AtomicBool::new(false),
            dump: std::sync::OnceLock::new(),
        }
    }

    /// The segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Whether an entry may have had this version.
    pub fn has_drawn(&self, version: u64) -> bool {
        version <= self.segment().load(header::VERSIONS)
    }

    /// The calling thread's seat.
    ///
    /// # Errors
    /// As [`Table::begin`].
    #[inline]
    pub fn seat(&self) -> Result<std::rc::Rc<Seat>, Fault> {
        self.segment.seat()
    }

    /// A random number. A client cannot predict it well enough to influence sampling.
    pub(crate) fn draw(&self) -> u32 {
        let mut word = self.random.load(Ordering::Relaxed);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.random.store(word, Ordering::Relaxed);
        (word >> 32) as u32
    }

    /// Whether a draw that met an extent of this density counts: in proportion to the densest.
    pub(crate) fn accept_density(&self, density: f64) -> bool {
        let densest = f64::from_bits(self.density.load(Ordering::Relaxed));
        // A table that has shrunk since (FLUSHALL) forgets its densest by and by.
        self.density.store((densest * 0.999).max(density).to_bits(), Ordering::Relaxed);
        density >= densest || (self.draw() as f64) < density / densest * u32::MAX as f64
    }

    /// 64 random bits, not for secrets.
    pub fn draw_wide(&self) -> u64 {
        (self.draw() as u64) << 32 | self.draw() as u64
    }

    /// Brings near what a call for each of these keys will look at, all keys' misses at once: first the header lines, then the
    /// entries whose tags match, then the records that these name. A hint: nothing is locked, nothing is believed. Adds to `locations`,
    /// for each key, where it belongs.
    pub fn prefetch<'k>(
        &self,
        keys: impl IntoIterator<Item = (Db, &'k [u8])>,
        locations: &mut Vec<Option<Location>>,
    ) {
        let segment = &*self.segment;
        let first = locations.len();
        locations.extend(keys.into_iter().map(|(db, key)| {
            let location = Location::of(segment, db, key);
            if let Some(location) = &location {
                segment.prefetch(location.bucket.line);
            }
            location
        }));
        let locations = &locations[first..];
        if locations.len() < 2 {
            return;
        }
        for locations in locations.chunks(PREFETCH_KEYS) {
            let mut entries: SmallVec<[u64; PREFETCH_KEYS]> = SmallVec::new();
            for location @ Location { bucket, hash, .. } in locations.iter().flatten() {
                let found = raw::units_tagged(segment.raw_view(), bucket.line, hash.tag);
                if found != 0 {
                    let entry = bucket.word_at(LINE_WORDS + found.trailing_zeros() as usize * 2);
                    segment.prefetch(entry);
                    segment.prefetch(entry + 32);
                    entries.push(entry);
                } else {
                    prefetch_elsewhere(segment, location);
                }
            }
            for entry in entries {
                let second = segment.load(entry + 8);
                if second as u8 & entry::REFERENCE != 0 {
                    segment.prefetch(offset_of(entry::record_of(second)));
                    segment.prefetch(offset_of(entry::record_of(second)) + 64);
                }
            }
        }
    }

    /// Holds the calling thread's pin until dropped, so that the pins of the transactions meanwhile cost nothing. It must not last longer
    /// than one turn of a server: nodes that any thread retires meanwhile wait for it.
    ///
    /// # Errors
    /// As [`Table::begin`].
    pub fn pinned(&self) -> Result<Pinned, Fault> {
        let seat = self.seat()?;
        seat.pin();
        Ok(Pinned(seat))
    }

    /// The sum of a counter over all seats since the last reset.
    pub fn counter(&self, counter: Counter) -> u64 {
        let base = self.segment.load(COUNTER_BASES + 8 * counter as u64);
        self.segment.sum_over_seats(at::COUNTERS + 8 * counter as u64).wrapping_sub(base)
    }

    /// As [`Table::changes`], without those of the calling thread's seat.
    ///
    /// # Errors
    /// Where the thread can have no seat.
    pub fn changes_of_others(&self) -> Result<u64, Fault> {
        let own = self.segment.seat_at(self.seat()?.index()) + at::COUNTERS + 8 * Counter::Changes as u64;
        Ok(self.changes().wrapping_sub(self.segment.load(own)))
    }

    /// How many changes of keys have been committed in the segment's life, whatever was reset since.
    pub fn changes(&self) -> u64 {
        self.segment.sum_over_seats(at::COUNTERS + 8 * Counter::Changes as u64)
    }

    /// Adds to a counter of the calling thread's seat.
    #[inline]
    pub fn count(&self, counter: Counter, by: u64) {
        if let Ok(seat) = self.seat() {
            seat.add(at::COUNTERS + 8 * counter as u64, by);
        }
    }

    /// The calls that the calling thread has counted with its seat.
    pub fn own_calls(&self) -> u64 {
        self.seat().map_or(0, |seat| seat.get(at::COUNTERS + 8 * Counter::Calls as u64))
    }

    /// Counts a call that took a fast path, and what it found.
    #[inline]
    pub fn count_call(&self, found: Counter) {
        if let Ok(seat) = self.seat() {
            seat.add(at::COUNTERS + 8 * Counter::Calls as u64, 1);
            seat.add(at::COUNTERS + 8 * found as u64, 1);
        }
    }

    /// Resets what `CONFIG RESETSTAT` resets, for all processes.
    pub fn reset_counters(&self) {
        for counter in 0..COUNTERS as u64 {
            let now = self.segment.sum_over_seats(at::COUNTERS + 8 * counter);
            self.segment.publish(COUNTER_BASES + 8 * counter, now);
        }
    }

    /// Whether the change log was on when a transaction looked last.
    #[inline(always)]
    pub fn seems_logged(&self) -> bool {
        self.seems_logged.load(Ordering::Relaxed)
    }

    /// Has [`Table::seems_logged`] say no where nothing is logged any more.
    #[inline(always)]
    pub(crate) fn settle_guess(&self) {
        if !self.segment().logs() {
            self.guess_logged(false);
        }
    }

    /// What [`Table::seems_logged`] says from now on.
    pub(crate) fn guess_logged(&self, logs: bool) {
        // Other threads read this line all the time.
        if self.seems_logged() != logs {
            self.seems_logged.store(logs, Ordering::Relaxed);
        }
    }

    /// The limits in force, in all processes: those that are set, but while files are read ([`Table::begin_loading`]), and in a replica, nothing expires and nothing is
    /// evicted.
    pub(crate) fn limits_in_force(&self) -> Limits {
        let limits = self.limits();
        if self.is_passive() { Limits { memory_max: 0, importing: true, ..limits } } else { limits }
    }

    /// The limits as they are set, for all processes.
    #[inline]
    pub fn limits(&self) -> Limits {
        let segment = &self.segment;
        if segment.load(LIMITED) == 0 {
            return Limits::default();
        }
        Limits {
            memory_max: segment.load(MEMORY_MAX),
            policy: POLICIES
                .get(segment.load(POLICY) as usize)
                .map_or(Policy::NoEviction, |(policy, _)| *policy),
            samples: segment.load(SAMPLES) as u32,
            lfu_log_factor: segment.load(LFU_LOG_FACTOR) as u32,
            lfu_decay_minutes: segment.load(LFU_DECAY) as u32,
            active_expiry: segment.load(PASSIVE) & LAZY == 0,
            importing: segment.load(PASSIVE) & IMPORTING != 0,
        }
    }

    /// Whether there is no limit to what may be used.
    #[inline]
    pub fn is_unlimited(&self) -> bool {
        self.segment.load(LIMITED) == 0 || self.segment.load(MEMORY_MAX) == 0 || self.is_passive()
    }

    /// Whether nothing expires and nothing is evicted, since data is being imported or read.
    #[inline]
    pub fn imports(&self) -> bool {
        self.segment.load(PASSIVE) & IMPORTING != 0 || self.is_passive()
    }

    /// Returns true if all that changes comes from elsewhere: files are read, or the memory is a replica.
    #[inline]
    fn is_passive(&self) -> bool {
        self.is_loading() || self.segment.refuses_writes()
    }

    /// Returns true if there is a database of this number, though it may have no keys.
    pub fn is_database(&self, db: Db) -> bool {
        self.segment.observe(map_at(db)) != 0
    }

    /// Whether access clocks count how often (LFU), not when (LRU).
    #[inline]
    pub fn counts_frequency(&self) -> bool {
        let policy = self.segment.load(POLICY);
        policy == Policy::AllkeysLfu as u64 || policy == Policy::VolatileLfu as u64
    }

    /// Whether reads leave the access clocks alone, which then tell of writes only.
    #[cold]
    #[inline(never)]
    pub(crate) fn notes_writes_only(&self) -> bool {
        let policy = self.segment.load(POLICY);
        policy == Policy::AllkeysLrm as u64 || policy == Policy::VolatileLrm as u64
    }

    /// The access clock of an entry that is accessed or written now, in place of one with this clock; `lru` is it where accesses are not counted.
    #[inline(always)]
    pub(crate) fn next_clock(&self, old: u32, lru: u32) -> u32 {
        if self.counts_frequency() { self.next_frequency(old, polder_base::time::coarse_ms()) } else { lru }
    }

    /// As [`Table::next_clock`], of a key that is new.
    #[inline(always)]
    pub(crate) fn first_clock(&self, now_ms: u64) -> u32 {
        if self.counts_frequency() { clock::lfu(clock::LFU_INITIAL, now_ms) } else { clock::lru(now_ms) }
    }

    /// The clock of one more access, where accesses are counted.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_frequency(&self, old: u32, now_ms: u64) -> u32 {
        let (segment, defaults) = (&self.segment, Limits::default());
        let (decay_minutes, log_factor) = match segment.load(LIMITED) {
            0 => (defaults.lfu_decay_minutes, defaults.lfu_log_factor),
            _ => (segment.load(LFU_DECAY) as u32, segment.load(LFU_LOG_FACTOR) as u32),
        };
        clock::lfu(
            clock::incremented(clock::frequency(old, now_ms, decay_minutes), log_factor, self.draw()),
            now_ms,
        )
    }

    /// Sets the limits, for all processes.
    pub fn set_limits(&self, limits: Limits) {
        let segment = &self.segment;
        segment.publish(MEMORY_MAX, limits.memory_max);
        segment.publish(POLICY, limits.policy as u64);
        segment.publish(SAMPLES, limits.samples as u64);
        segment.publish(LFU_LOG_FACTOR, limits.lfu_log_factor as u64);
        segment.publish(LFU_DECAY, limits.lfu_decay_minutes as u64);
        segment.publish(
            PASSIVE,
            if limits.active_expiry { 0 } else { LAZY } | if limits.importing { IMPORTING } else { 0 },
        );
        segment.publish(LIMITED, 1);
    }

    /// What the memory holds.
    pub fn usage(&self) -> Usage {
        let segment = &self.segment;
        let used = segment.used_bytes();
        let peak = segment.word(header::USED_PEAK).fetch_max(used, Ordering::Relaxed).max(used);
        Usage {
            ceiling: segment.geometry().ceiling
                - polder_shm::layout::SEATS_AT
                - polder_shm::layout::SEATS_MAX * at::BYTES,
            committed: segment.committed_bytes(),
            used,
            used_peak: peak,
            fixed: segment.fixed_bytes(),
            claimed: self.claimed(),
            table: self.table_bytes(),
            retired: segment.sum_over_seats(at::RETIRED_BYTES),
            page_bytes: segment.mapping().pages().page_bytes as u64,
            seats_used: (0..segment.seats_high())
                .filter(|seat| segment.load(segment.seat_at(*seat) + at::OWNER) != 0)
                .count() as u32,
            seats_max: polder_shm::layout::SEATS_MAX as u32,
        }
    }

    /// Keys of a database and those of them with an expiry, seen from outside of any transaction.
    pub fn keys(&self, db: Db) -> (u64, u64) {
        (self.tally_of(db, 0), self.tally_of(db, 1))
    }

    /// Keys of a database with fields that expire, as [`Table::keys`].
    pub fn keys_with_field_expiry(&self, db: Db) -> u64 {
        self.tally_of(db, 2)
    }

    /// What the table of a database is made of.
    pub fn shape(&self, db: Db) -> TableShape {
        let mut shape = TableShape::default();
        self.each_extent(db, &mut |extent| {
            shape.extents += 1;
            shape.buckets += extent.buckets();
            shape.places += extent.buckets() * UNITS as u64;
            shape.bytes += extent.pieces * bucket::PIECE_BYTES + directory::extent::PAYLOAD as u64;
        });
        shape
    }

    /// Bytes of buckets and directories.
    fn table_bytes(&self) -> u64 {
        let mut bytes = 0;
        for db in 0..DATABASES as Db {
            self.each_extent(db, &mut |extent| {
                bytes += extent.pieces * crate::bucket::PIECE_BYTES + directory::extent::PAYLOAD as u64;
            });
        }
        bytes
    }

    /// Visits every extent of a database; returns false when it gave up, since the directory kept changing.
    pub(crate) fn each_extent(&self, db: Db, visit: &mut dyn FnMut(&directory::Extent)) -> bool {
        const ATTEMPTS_MAX: u32 = 1000;
        let Ok(seat) = self.seat() else { return false };
        seat.pin();
        let (mut position, mut attempts) = (Some(0), 0);
        while let Some(at) = position
            && attempts < ATTEMPTS_MAX
        {
            let root = self.segment.observe(map_at(db) + 8);
            if root == 0 {
                position = None;
                continue;
            }
            match directory::walk(&self.segment, root, at) {
                Some(extent) if seat.covers_now() && extent.covers(at) => {
                    visit(&extent);
                    position = extent.end();
                }
                _ => attempts += 1,
            }
        }
        seat.unpin();
        position.is_none()
    }

    /// Keys in a database (`word` 0), keys with an expiry (1) or with fields that have one (2), from the tallies of all seats.
    pub(crate) fn tally_of(&self, db: Db, word: u64) -> u64 {
        const ATTEMPTS_MAX: u32 = 1_000;
        let Ok(seat) = self.seat() else { return 0 };
        let segment = &self.segment;
        let mut keys = 0;
        // A database that is emptied or swapped meanwhile is counted anew. If that happens each time, the count of some moment is returned.
        for _ in 0..ATTEMPTS_MAX {
            let (node, root) = lookup::map_words(&seat, db);
            if root == 0 {
                return 0;
            }
            let tally = directory::tally_of(root);
            // A node that names another tally is damaged, or is used for something else by now (S5).
            let known = segment.check(node, 64) && segment.load(node + database::TALLY) == tally;
            let base = if known { segment.load(node + database::KEYS_BASE + word * 8) } else { 0 };
            keys =
                segment.sum_over_seats(at::TALLIES + tally * at::TALLY_BYTES + word * 8).wrapping_sub(base);
            if lookup::map_words(&seat, db) == (node, root) {
                break;
            }
        }
        // Seats are read one after the other: a key that came by one and went by another meanwhile may count as less than none.
        if (keys as i64) < 0 { 0 } else { keys }
    }

    /// What the directory's slot at a position names, for `inspect` and `verify`.
    pub fn slot(&self, word: u64) -> Slot {
        directory::slot_of(&self.segment, word)
    }
}

/// Brings near what a key that does not lie at home may need: the units where a new entry would go, the lines of the other buckets where
/// an old one may lie or a new one must go.
fn prefetch_elsewhere(segment: &Segment, location: &Location) {
    let free = raw::units_tagged(segment.raw_view(), location.bucket.line, FREE);
    if free != 0 {
        let place = location.bucket.word_at(LINE_WORDS + free.trailing_zeros() as usize * 2);
        segment.prefetch(place);
        segment.prefetch(place + 32);
    }
    let counts = match free {
        0 => (1, 1),
        _ => bucket::displaced(segment.load(location.bucket.word_at(7))),
    };
    for (index, _) in directory::elsewhere(location.places(), counts) {
        segment.prefetch(location.bucket(segment, index).map_or(0, |bucket| bucket.line));
    }
}
