//! The table of a segment, as one process holds it.

pub(crate) mod cached_bytes;
pub(crate) mod compact_pass;
pub(crate) mod copies;
pub(crate) mod loading;
pub(crate) mod names;
pub(crate) mod oom_window;
pub(crate) mod room_makers;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use polder_base::Fault;
use polder_shm::layout::{header, seat as at};
use polder_shm::{Seat, Segment, sync};

use crate::api::*;
use crate::change::{ChangeSink, Dump};
use crate::layout::clock;
use crate::layout::directory::map_at;
use crate::table::cached_bytes::CachedBytes;
use crate::table::compact_pass::Pass;
use crate::table::copies::Tier;
use crate::table::oom_window::OomRetry;
use crate::table::room_makers::RoomMakers;

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
    /// The copies of the tier, where this process has it.
    pub(crate) tier: Tier,
}

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
            tier: Tier::default(),
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

    /// A number below `end`, each as likely as the others; 0 for no end.
    pub fn draw_below(&self, end: u64) -> u64 {
        ((u128::from(self.draw_wide()) * u128::from(end)) >> 64) as u64
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

    /// Returns a number that moves with each commit of the calling thread that changes data or stands in the change log.
    pub fn own_commits(&self) -> u64 {
        self.seat().map_or(0, |seat| {
            seat.get(at::COUNTERS + 8 * Counter::Changes as u64).wrapping_add(seat.outbox_end())
        })
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

    /// Counts a call that took a fast path for several keys, and how many of them it found and did not find.
    pub fn count_looks(&self, [hits, misses]: [u64; 2]) {
        if let Ok(seat) = self.seat() {
            seat.add(at::COUNTERS + 8 * Counter::Calls as u64, 1);
            seat.add(at::COUNTERS + 8 * Counter::Hits as u64, hits);
            seat.add(at::COUNTERS + 8 * Counter::Misses as u64, misses);
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

    /// Returns true if reads leave the access clocks alone, which then tell of writes only.
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
}
