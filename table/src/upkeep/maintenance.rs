//! Maintenance: removing what has expired, evicting when memory is short, sweeping flushed databases, recovering dead seats.
//!
//! It belongs to no process: any attached thread may do it, and each task is safe when two threads do it at once. The header's time of
//! the last round (MAINTAINED) is a hint. When no server runs, in-process callers do a little at a time.
//!
//! Expiry finds its work by lower bounds: each database and each extent has a word below which no expiry in it lies. To compute a bound
//! anew, a thread first *lifts* it to the greatest value, then looks at all entries, and then lowers it to the earliest expiry that it
//! has found. A thread that writes an expiry lowers the bounds, too: first the extent's, then the database's, while it holds the lock of
//! the entry's bucket and before it commits (`place.rs`). Why no expiry is forgotten:
//! - If the writer lowers an extent's bound after it was lifted, the bound stays that low.
//! - If it lowers the extent's bound before, the search finds the entry, or it finds the bucket locked. A locked bucket counts as
//!   [`UNKNOWN`], a bound that is always due.
//! - The search lifts the database's bound first and reads the extents' bounds after that. So if the writer's lowering of the database's
//!   bound is lost to the lift, the search sees the bound of the extent.
//! - If the searching thread dies, recovery lowers the bound to 0. If it is stopped, other threads treat the bound as due
//!   (`stalled_bounds`).

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use polder_base::Fault;
use polder_shm::item::{CHANGED, DEATH, Tag};
use polder_shm::layout::{header, seat as at};
use polder_shm::{Locked, Seat, ref_to, sync};
use polder_values::{Kind, Value, hash};

use crate::access::lookup::{Live, view};
use crate::api::*;
use crate::layout::bucket;
use crate::layout::clock;
use crate::layout::directory::{
    self, Extent, GARBAGE_AT, GARBAGE_SLOTS, MAP_LOCK, Named, SWEEP_LOCK, Slot, database, extent, map_at,
};
use crate::layout::entry::{self, Image, is_cold};
use crate::layout::stub;
use crate::log::recording;
use crate::table::Table;
use crate::txn::Txn;

/// The longest time between two rounds, in milliseconds, and so between two looks for dead seats.
const ROUND_MS: u64 = 1_000;
/// The pause between two rounds while extents are found that can shrink.
const SHRINKING_MS: u64 = 5;
/// The longest pause between two attempts to sweep while another thread holds a lock that the sweep needs.
const SWEEP_PAUSE_MS_MAX: u64 = 256;
/// How long maintenance waits for a lock, whose holder may be stopped; it tries again later. A server's loop runs it between calls, so the
/// wait is as long as that of a call.
const PATIENCE: Duration = Duration::from_micros(100);
/// How many victims may stay locked by other threads before eviction gives up.
const BUSY_VICTIMS_MAX: u32 = 8;
/// Attempts to collect one key in one round.
const COLLECT_ATTEMPTS: u32 = 3;
/// Fields of a hash that one transaction collects, at most.
const FIELDS_PER_COMMIT: u64 = 256;
/// Keys that one call evicts, at most, while memory is less than a twentieth above its limit.
const EVICTED_PER_CALL: u32 = 8;
/// A thread that has changed fewer keys since its last call of [`Table::rest`] gives its cached nodes back; filling its caches again costs
/// less than these changes did.
const RESTING_CHANGES: u64 = 64;
/// One eviction in this many looks whether the key's extent can shrink.
const EVICTIONS_PER_LOOK: u64 = 16;
/// Draws of a victim before eviction gives up.
const DRAWS_MAX: u32 = 20_000;

/// What a seat lifts while it looks for expired keys: the bounds of a database and of one of its extents.
const DATABASE_BOUND: u64 = 0;
const EXTENT_BOUND: u64 = 1;
/// A bound that another thread has kept lifted for this long is treated as due: the thread may be stopped.
const LIFT_PATIENCE: Duration = Duration::from_millis(500);
/// The bound of what could not be looked at. The present time would not do: the holder of a lock there may be about to commit an entry
/// whose expiry has passed meanwhile.
const UNKNOWN: u64 = 0;
/// After how long an extent is looked at again in which an entry expires, or has expired, that this program cannot read: another may be able to.
const UNREADABLE_REST_MS: u64 = 10_000;

impl Table {
    /// One round of maintenance, for about `budget_us` at most. Returns in how many milliseconds the next one is due.
    pub fn run_maintenance(&self, budget_us: u64) -> u64 {
        let end = sync::now() + Duration::from_micros(budget_us);
        let segment = self.segment();
        segment.publish(header::MAINTAINED, polder_base::time::now_ms());
        segment.recover_dead();
        self.end_loading_of_dead();
        if self.is_tiered() {
            self.forget_names(polder_base::time::now_ms());
        }
        // For half of the time at most, so that the tasks below get their time.
        let mut due_ms =
            if segment.free_gone(sync::now() + Duration::from_micros(budget_us / 2)) { 1 } else { ROUND_MS };
        let stands_still = self.stands_still();
        let limits = self.limits_in_force();
        if limits.active_expiry && !limits.importing && !stands_still {
            let begun = sync::now();
            due_ms = due_ms.min(self.expire(end));
            self.count(Counter::ExpiryUs, (sync::now() - begun).as_micros() as u64);
        }
        // Eviction is done here, too, so that a lowered limit takes effect before the next write.
        let evicts = limits.evicts() && !stands_still;
        due_ms = due_ms.min(self.sweep(end));
        if evicts && self.evict(Some(end)) && self.claimed() > limits.memory_max {
            due_ms = due_ms.min(1);
        }
        if self.shrink_extents(end) {
            due_ms = due_ms.min(SHRINKING_MS);
        }
        if self.compact_ahead(end) {
            due_ms = due_ms.min(1);
        }
        while self.reclaim() {
            if sync::now() >= end {
                due_ms = due_ms.min(1);
                break;
            }
        }
        due_ms
    }

    /// Until when clients are paused (CLIENT PAUSE), in milliseconds since the Unix epoch, and whether only their writes are. One load.
    #[inline]
    pub fn paused(&self) -> (u64, bool) {
        let word = self.segment().load(header::PAUSE);
        (word >> 1, word & 1 != 0)
    }

    /// Whether keys stay as they are since clients are paused, or no write is accepted (K3). Reads do not see what has expired, and it is removed
    /// afterwards. No client writes, so nothing is evicted.
    pub(crate) fn stands_still(&self) -> bool {
        let (until_ms, _) = self.paused();
        self.segment().refuses_writes() || until_ms != 0 && until_ms > polder_base::time::now_ms()
    }

    /// Removes what has expired. Returns in how many milliseconds the next expiry is due.
    fn expire(&self, end: Instant) -> u64 {
        let now = polder_base::time::now_ms();
        let Ok(seat) = self.seat() else { return ROUND_MS };
        let stalled = self.stalled_bounds(&seat);
        let used = (0..DATABASES as Db).filter(|db| self.segment().observe(map_at(*db)) != 0);
        let due = used.map(|db| {
            // The pin keeps nodes of the database from being freed and used again.
            seat.pin();
            let due_ms = self.expire_if_due(&seat, db, now, end, &stalled);
            seat.unpin();
            due_ms
        });
        due.min().map_or(ROUND_MS, |due_ms| due_ms.min(ROUND_MS))
    }

    /// Bounds that have been lifted for longer than a running thread needs: the thread that has lifted them may be stopped. They are treated
    /// as due, once in [`LIFT_PATIENCE`]. If that thread goes on, it lowers the bound to a time that at worst has passed, which is safe.
    fn stalled_bounds(&self, seat: &Seat) -> Vec<u64> {
        let lifted = seat.lifted_beside();
        let mut known = match self.lifts.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(known)) => known.into_inner(),
            // Another thread of this process does this now.
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        known.retain(|(lift, _)| lifted.contains(lift));
        let mut stalled = Vec::new();
        for lift in lifted {
            match known.iter_mut().find(|(known, _)| *known == lift) {
                Some((_, since)) if sync::now() - *since >= LIFT_PATIENCE => {
                    *since = sync::now();
                    stalled.push(lift.1);
                }
                Some(_) => {}
                None => known.push((lift, sync::now())),
            }
        }
        stalled
    }

    fn expire_if_due(&self, seat: &Seat, db: Db, now: u64, end: Instant, stalled: &[u64]) -> u64 {
        let mut node = self.segment().observe(map_at(db));
        while !seat.covers_now() {
            node = self.segment().observe(map_at(db));
        }
        if !self.segment().check(node, 64) {
            return ROUND_MS;
        }
        let bound = self.segment().observe(node + database::EXPIRY_MIN);
        if bound > now && !stalled.contains(&(node + database::EXPIRY_MIN)) {
            return bound - now;
        }
        if sync::now() > end {
            self.count(Counter::ExpiryCuts, 1);
            return 1;
        }
        // From here on each thread that writes an expiry lowers it, and this thread lowers it to what it has found.
        seat.lift(DATABASE_BOUND, node + database::EXPIRY_MIN);
        let left = self.expire_database(db, now, end, stalled);
        seat.land(DATABASE_BOUND, left);
        left.saturating_sub(now).max(1)
    }

    /// Removes what has expired in a database. Returns a lower bound of the expiries that are left. The seat is pinned.
    fn expire_database(&self, db: Db, now: u64, end: Instant, stalled: &[u64]) -> u64 {
        let mut extents = Vec::new();
        let mut left =
            if self.each_extent(db, &mut |extent| extents.push(*extent)) { u64::MAX } else { UNKNOWN };
        for found in extents {
            let is_stalled = stalled.contains(&(found.at + extent::EXPIRY_MIN));
            let bound = if is_stalled { UNKNOWN } else { found.expiry_min(self.segment()) };
            if bound > now || sync::now() > end {
                left = left.min(bound);
                continue;
            }
            let Ok(txn) = self.begin(Mode::Read) else { return UNKNOWN };
            if !found.is_current(self.segment()) {
                // Its successor has a bound of its own.
                left = UNKNOWN;
                continue;
            }
            txn.seat.lift(EXTENT_BOUND, found.at + extent::EXPIRY_MIN);
            let seat = txn.seat.clone();
            let (due, remaining) = txn.due_in(&found, now);
            drop(txn);
            // What is due is removed before the bound is lowered to what remains. If the thread dies in between, recovery lowers the bound to
            // 0, so no expired key is forgotten.
            let collected = due.iter().fold(true, |all, due| {
                let done = match due {
                    Due::Key(key) => self.collect(db, found.root, key),
                    Due::Fields(key) => self.collect_fields(db, found.root, key, end),
                };
                all && done.is_ok()
            });
            let remaining = if collected { remaining } else { UNKNOWN };
            seat.land(EXTENT_BOUND, remaining);
            left = left.min(remaining);
        }
        self.count(Counter::ExpiryCuts, (left <= now && sync::now() > end).into());
        left
    }

    /// Removes a key if it is still expired and no other thread holds it for long. It also checks that the database still has this `root`:
    /// after SWAPDB or a FLUSH, the number names another database, and not the one whose bound was lifted.
    fn collect(&self, db: Db, root: u64, key: &[u8]) -> Result<(), Stop> {
        self.collecting(db, root, key, |_| Ok(false)).map(drop)
    }

    /// Holds a key, which removes it if it has expired, runs `more`, and commits. Returns what `more` returned.
    fn collecting(
        &self,
        db: Db,
        root: u64,
        key: &[u8],
        more: impl Fn(&Txn<'_>) -> Result<bool, Stop>,
    ) -> Result<bool, Stop> {
        let txn = self.begin(Mode::Write)?;
        txn.limit_patience(PATIENCE);
        for _ in 0..COLLECT_ATTEMPTS {
            let held = txn.hold(db, key, true);
            if txn.buffers.held.borrow().iter().any(|held| held.extent.root != root) {
                return Err(Stop::Busy);
            }
            let done = held.and_then(|_| more(&txn));
            match done.and_then(|left| txn.commit().map(|()| left)) {
                Err(Stop::Retry) => txn.abort(),
                outcome => return outcome,
            }
        }
        Err(Stop::Retry)
    }

    /// Removes keys and fields that a reader has found expired ([`crate::Txn::take_stale`]), except those that other threads keep locked.
    #[cold]
    pub fn collect_stale(&self, keys: &[(Db, Vec<u8>)]) {
        if self.stands_still() || self.imports() {
            return;
        }
        for (db, key) in keys {
            let root = self.segment().observe(directory::map_at(*db) + 8);
            // Holding an expired key removes it. If that fails, the key stays expired, and maintenance removes it later.
            let _ = self.collect_fields(*db, root, key, sync::now());
        }
    }

    /// As [`Table::collect`], of the fields of a hash that have expired.
    fn collect_fields(&self, db: Db, root: u64, key: &[u8], end: Instant) -> Result<(), Stop> {
        while self.collecting(db, root, key, |txn| txn.take_expired_fields(db, key))? {
            if sync::now() > end {
                return Err(Stop::Busy);
            }
        }
        Ok(())
    }

    /// Makes room by the eviction policy until memory is below the limit; returns false when that is impossible.
    #[inline]
    pub fn make_room(&self) -> bool {
        self.is_unlimited() || self.evict(None)
    }

    /// As [`Table::make_room`], for no longer than `most`.
    pub fn make_room_within(&self, most: Duration) -> bool {
        self.is_unlimited() || self.evict(Some(sync::now() + most))
    }

    /// Whether the last write has passed the limit, so that keys are to be evicted.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        !self.is_unlimited() && {
            let limits = self.limits_in_force();
            let most = limits.memory_max;
            // The exact sum is made only where an older one says so.
            limits.evicts()
                && most > 0
                && self.used_in_all() > most
                && self.claimed_lately() > most
                && self.claimed() > most
        }
    }

    /// As [`Table::make_room`], until `end` at most. Returns false if a write should fail with OOM now.
    fn evict(&self, end: Option<Instant>) -> bool {
        let limits = self.limits_in_force();
        if limits.memory_max == 0 {
            return true;
        }
        let (mut draws, mut busy, mut evicted) = (0, 0, 0);
        let most = limits.memory_max;
        // Mostly there is room even if all counts.
        if self.used_in_all() <= most || self.claimed_lately() > most && self.stands_still() {
            return true;
        }
        if self.is_tiered() {
            // Values leave for it, and no key is evicted, also while no process has it.
            return self.has_spilled(most);
        }
        while self.claimed_lately() > most {
            let is_close = || self.claimed_lately() <= most + most / 20;
            // Memory comes free only when enough of an extent is empty. The evictions that this takes are spread over many calls.
            if evicted >= EVICTED_PER_CALL && is_close() || end.is_some_and(|end| sync::now() > end) {
                return true;
            }
            // What a FLUSH has left is freed before any key is evicted. Trees count as used until they have been taken apart.
            if self.garbage().next().is_some() || self.oom_retry.is_worthwhile() {
                let swept = self.sweep_once();
                self.reclaim();
                if is_close() {
                    return true;
                }
                if matches!(swept, Ok(Swept::Some | Swept::All)) {
                    continue;
                }
            }
            if !limits.evicts() || draws > DRAWS_MAX {
                return self.claimed() <= most;
            }
            match self.evict_one(&limits, &mut draws) {
                Ok(true) => (busy, evicted) = (0, evicted + 1),
                // Another victim may not be locked, nor have left for a tier.
                Err(Stop::Busy | Stop::Cold) if busy < BUSY_VICTIMS_MAX => busy += 1,
                _ => return self.claimed() <= most,
            }
        }
        true
    }

    fn evict_one(&self, limits: &Limits, draws: &mut u32) -> Result<bool, Stop> {
        let Some((db, key)) = self.victim(limits, draws)? else { return Ok(false) };
        let txn = self.begin(Mode::Write)?;
        txn.limit_patience(PATIENCE);
        let (mut evicted, mut trees) = (false, 0);
        txn.retrying(|| {
            let mark = txn.mark();
            // It may have lost its expiry since it was drawn.
            let found = txn.peek(db, &key)?;
            trees = match &found {
                Some(Found { value: Value::Tree(root), .. }) => txn.weigh(&root.refs),
                _ => 0,
            };
            evicted = found.is_some_and(|found| !limits.policy.is_volatile() || found.expiry_ms.is_some())
                && txn.remove(db, &key, Replaces::Whole)?;
            if evicted {
                txn.note_change('e', "evicted", db, &key);
                txn.tell(db, &[b"DEL", &key]);
                txn.account(mark);
            }
            Ok(())
        })?;
        if evicted {
            txn.seat.tell_trees(trees);
        }
        drop(txn);
        if !evicted {
            return Ok(true);
        }
        self.count(Counter::Evicted, 1);
        if self.seat()?.get(at::COUNTERS + 8 * Counter::Evicted as u64).is_multiple_of(EVICTIONS_PER_LOOK) {
            let txn = self.begin(Mode::Write)?;
            txn.limit_patience(PATIENCE);
            txn.shrink(db, txn.hash_of(&key).position);
        }
        Ok(true)
    }

    /// The best of a few drawn keys.
    fn victim(&self, limits: &Limits, draws: &mut u32) -> Result<Option<(Db, Vec<u8>)>, Stop> {
        let txn = self.begin(Mode::Read)?;
        let now = polder_base::time::now_ms();
        let filled: Vec<Db> = (0..SYSTEM).filter(|db| self.segment().observe(map_at(*db) + 8) != 0).collect();
        let sizes: Vec<u64> = filled.iter().map(|db| self.tally_of(*db, 0)).collect();
        let total: u64 = sizes.iter().sum();
        if total == 0 {
            return Ok(None);
        }
        let mut best: Option<(u64, Db, Image)> = None;
        let mut candidates = 0;
        while candidates < limits.samples.max(1) && *draws <= DRAWS_MAX {
            *draws += 1;
            let mut number = self.draw_wide() % total;
            let pick = sizes.iter().position(|size| {
                let here = number < *size;
                number = number.wrapping_sub(*size);
                here
            });
            let db = filled[pick.unwrap_or(0)];
            let Some(image) = txn.draw_entry(db) else { continue };
            if !matches!(image.kind(), Ok(Some(_))) {
                continue;
            }
            if let Some(worth) = txn.worth(&image, limits, now)? {
                candidates += 1;
                if best.as_ref().is_none_or(|(least, ..)| worth < *least) {
                    best = Some((worth, db, image));
                }
            }
        }
        if best.is_some() {
            *draws = 0;
        }
        best.map(|(_, db, image)| Ok((db, txn.key_of(&image)?))).transpose()
    }

    /// Frees flushed databases, extent by extent. Returns in how many milliseconds it is to go on.
    fn sweep(&self, end: Instant) -> u64 {
        loop {
            let swept = self.sweep_once();
            // Right after each step: otherwise the list of retired nodes would take the memory that the sweep is to free.
            let freed = self.reclaim();
            match swept {
                Ok(Swept::Some | Swept::All) => self.sweep_pause_ms.store(0, Ordering::Relaxed),
                Err(Stop::Fault(Fault::Full(_))) if freed => {}
                // Another thread sweeps or holds a key there, or there is nothing left.
                Ok(Swept::Nothing) | Err(_) => return self.put_off_sweep(),
            }
            if sync::now() >= end {
                return if self.garbage().next().is_none() { ROUND_MS } else { 1 };
            }
        }
    }

    /// When to sweep again after a step that could do nothing. The thread that holds the lock may be stopped, so each pause is longer than
    /// the last one. The sweep then goes on that much later after the thread has gone on or died. No call waits for it: a write that needs
    /// the room sweeps by itself.
    fn put_off_sweep(&self) -> u64 {
        let pause_ms = match self.garbage().next() {
            None => 0,
            Some(_) => (self.sweep_pause_ms.load(Ordering::Relaxed) * 2).clamp(1, SWEEP_PAUSE_MS_MAX),
        };
        self.sweep_pause_ms.store(pause_ms, Ordering::Relaxed);
        if pause_ms == 0 { ROUND_MS } else { pause_ms }
    }

    /// One step of the sweep.
    fn sweep_once(&self) -> Result<Swept, Stop> {
        let mut outcome = Ok(Swept::Nothing);
        for (cell, node) in self.garbage() {
            let txn = self.begin(Mode::Write)?;
            outcome = txn.sweep_step(cell, node);
            match &outcome {
                Ok(Swept::Some | Swept::All) | Err(Stop::Fault(_)) => break,
                // Another thread, which may be stopped, holds a key there. There may be another database to sweep.
                _ => {}
            }
        }
        outcome
    }

    /// Flushed databases that may be swept, and the cells that name them.
    pub(crate) fn garbage(&self) -> impl Iterator<Item = (u64, u64)> {
        let segment = self.segment();
        let cells = (0..GARBAGE_SLOTS).map(|cell| GARBAGE_AT + cell * 8);
        let filled = cells.map(|cell| (cell, segment.observe(cell))).filter(|(_, node)| *node != 0);
        filled.filter(|(_, node)| !recording::is_wanted(segment, *node))
    }

    /// Frees some of what this thread has retired and no thread can be reading any more. Returns whether there was any.
    pub fn reclaim(&self) -> bool {
        let Some(seat) = self.seat().ok().filter(|seat| seat.enter()) else { return false };
        let freed = seat.freed();
        seat.reclaim_until(sync::now());
        seat.leave();
        seat.freed() != freed
    }

    /// Gives the cached nodes of this thread back to their slabs, where all threads may take them, if the thread has changed few keys since
    /// the last call. `changes` is its count of changes at that call.
    pub fn rest(&self, changes: &mut u64) {
        let Some(seat) = self.seat().ok().filter(|seat| seat.enter()) else { return };
        let now = seat.get(at::COUNTERS + 8 * Counter::Changes as u64);
        if now.wrapping_sub(std::mem::replace(changes, now)) < RESTING_CHANGES {
            seat.return_caches();
        }
        seat.leave();
    }
}

/// The result of a step of the sweep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    /// An extent is gone, and there may be more.
    Some,
    /// The rest is gone.
    All,
    /// Another thread sweeps this database, or has swept it.
    Nothing,
}

/// What of a key has expired.
enum Due {
    Key(Vec<u8>),
    /// Some fields of the hash that it holds.
    Fields(Vec<u8>),
}

impl Txn<'_> {
    /// Removes some of the fields of a hash that have expired, and the key with the last field. Returns whether more are left.
    fn take_expired_fields(&self, db: Db, key: &[u8]) -> Result<bool, Stop> {
        let now = self.now_ms();
        let Some(found) = self.peek(db, key)? else { return Ok(false) };
        if found.kind != Kind::Hash || found.inner_expiry_ms.is_none_or(|expiry_ms| expiry_ms > now) {
            return Ok(false);
        }
        let mut draft = hash::Draft::of(&found.value, hash::Thresholds::NONE);
        let mark = self.mark();
        let mut gone: Vec<Vec<u8>> = Vec::new();
        let taken = draft.purge(self, || now, FIELDS_PER_COMMIT, &mut |field| {
            gone.push(field.to_vec());
            self.tell(db, &[b"HDEL", key, field]);
        })?;
        self.note_parts('h', "hexpired", db, key, gone.iter().map(Vec::as_slice));
        self.count(Counter::ExpiredFields, taken);
        if draft.count()? == 0 {
            // The draft has released the nodes.
            self.remove(db, key, Replaces::Edited)?;
            self.note_change('g', "del", db, key);
            self.account(mark);
            return Ok(false);
        }
        let (value, inner_expiry_ms) = draft.finish(self)?;
        self.write(db, key, &New { value, inner_expiry_ms, ..New::from(found) }, Replaces::Edited)?;
        self.account(mark);
        // This was no use of the key by a client.
        self.set_clock(db, key, found.clock)?;
        Ok(inner_expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now))
    }

    /// Runs `call` and commits, again as long as that asks for it.
    pub(crate) fn retrying(&self, mut call: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
        loop {
            match call().and_then(|()| self.commit()) {
                Err(Stop::Retry) => self.abort(),
                Err(stop) => {
                    self.abort();
                    return Err(stop);
                }
                Ok(()) => return Ok(()),
            }
        }
    }

    /// What has expired in an extent, and the earliest expiry of the rest ([`UNKNOWN`], if a bucket could not be read).
    fn due_in(&self, extent: &Extent, now: u64) -> (Vec<Due>, u64) {
        let (mut due, mut left) = (Vec::new(), u64::MAX);
        for index in 0..extent.buckets() {
            let Some(bucket) = extent.bucket(self.segment(), index) else { continue };
            let locked = polder_shm::lock::owner(self.segment().observe(bucket.line)).is_some();
            let images = view(&self.seat, bucket, |words| {
                let expiring = bucket::entries(words).map(|(unit, _)| bucket::image_at(words, unit));
                expiring.filter(Image::may_expire).collect::<Vec<_>>()
            });
            let Some(images) = images.filter(|_| !locked && self.seat.covers_now()) else {
                left = UNKNOWN;
                continue;
            };
            for image in images {
                if image.kind().is_err() {
                    // A due value that lies in a tier is fetched first.
                    let bound_ms =
                        stub::bound_of(&image).filter(|bound_ms| is_cold(&image) && *bound_ms > now);
                    left = left.min(bound_ms.unwrap_or(now + UNREADABLE_REST_MS));
                    continue;
                }
                match (self.expiry_of(&image), self.bound_of(&image)) {
                    (Ok(Some(expiry_ms)), _) if expiry_ms <= now => {
                        due.extend(self.key_of(&image).map(Due::Key))
                    }
                    (Ok(expiry_ms), Ok(Some(bound_ms))) if bound_ms <= now => {
                        due.extend(self.key_of(&image).map(Due::Fields));
                        // The bounds of its other fields are lowered when what is left is written.
                        left = left.min(expiry_ms.unwrap_or(u64::MAX));
                    }
                    (_, Ok(Some(bound_ms))) => left = left.min(bound_ms),
                    _ => {}
                }
            }
        }
        (due, left)
    }

    /// How much a key is worth keeping under a policy; `None` when the policy does not touch it.
    fn worth(&self, image: &Image, limits: &Limits, now: u64) -> Result<Option<u64>, Stop> {
        let volatile = image.meta() & entry::EXPIRY != 0;
        Ok(match limits.policy {
            policy if policy.is_volatile() && !volatile => None,
            Policy::NoEviction => None,
            Policy::AllkeysLru | Policy::VolatileLru | Policy::AllkeysLrm | Policy::VolatileLrm => {
                Some(u64::MAX - clock::idle_seconds(image.clock(), now))
            }
            Policy::AllkeysLfu | Policy::VolatileLfu => {
                Some(clock::frequency(image.clock(), now, limits.lfu_decay_minutes) as u64)
            }
            Policy::AllkeysRandom | Policy::VolatileRandom => Some(self.table.draw() as u64),
            Policy::VolatileTtl => self.expiry_of(image)?,
        })
    }

    /// Sweeps one flushed database completely; the transaction has just been rolled back.
    pub(crate) fn sweep_some(&self) {
        let segment = self.segment();
        if self.table.garbage().next().is_none() {
            // All garbage is kept for the snapshot. No writer waits for a snapshot, so the snapshot is broken.
            segment.break_snapshot(segment.snapshot());
        }
        let Some((cell, node)) = self.table.garbage().next() else { return };
        loop {
            match self.sweep_step(cell, node) {
                Ok(Swept::Some) => {}
                Ok(Swept::All | Swept::Nothing) => {
                    // Another thread sweeps it, and may be stopped.
                    if self.is_impatient() && segment.observe(cell) == node {
                        self.trouble(Stop::Busy);
                    }
                    return;
                }
                Err(Stop::Retry) if self.is_impatient() => return self.trouble(Stop::Busy),
                Err(Stop::Retry) => {}
                Err(stop) => return self.trouble(stop),
            }
        }
    }

    /// Frees one extent of a flushed database or, when none is left, the database.
    pub(crate) fn sweep_step(&self, cell: u64, node: u64) -> Result<Swept, Stop> {
        let swept = self.sweep_some_of(cell, node);
        match swept {
            Ok(Swept::Some | Swept::All) => self.table.oom_retry.note_sweep(),
            _ => self.seat.rollback(),
        }
        swept
    }

    fn sweep_some_of(&self, cell: u64, node: u64) -> Result<Swept, Stop> {
        let segment = self.segment();
        // A thread that is stopped while it sweeps, or while it holds a key there, stops the sweep only, and no other call.
        let ours = matches!(self.seat.lock(SWEEP_LOCK, Some(sync::now() + PATIENCE))?, Locked::Ours(_));
        if !ours || node == 0 || segment.observe(cell) != node {
            return Ok(Swept::Nothing);
        }
        if !segment.check(node, 64) {
            return Err(Fault::Damaged { what: "a flushed database" }.into());
        }
        self.seat.amend(self.seat.journal_len() - 1, CHANGED);
        let directory = segment.load(node + database::DIRECTORY);
        match self.first_extent(directory, 0)? {
            Some((found, _)) => self.sweep_extent(&found).map(|()| Swept::Some),
            None => self.sweep_rest(cell, node, directory).map(|()| Swept::All),
        }
    }

    /// The first extent that a directory node still names.
    fn first_extent(&self, node: u64, level: u32) -> Result<Option<(Extent, u64)>, Fault> {
        let segment = self.segment();
        if level >= directory::LEVELS_MAX || !segment.check(node, directory::SLOTS * 8 + 8) {
            return Err(Fault::Damaged { what: "a directory" });
        }
        for index in 0..directory::SLOTS {
            let slot_at = directory::slot_at(node, index);
            let mut word = segment.observe(slot_at);
            while !self.seat.covers_now() {
                word = segment.observe(slot_at);
            }
            match directory::slot_of(segment, word) {
                Slot::Empty => {}
                Slot::Extent(at) => {
                    let found =
                        Extent::read(segment, &Named { extent: at, slot_at, slot: word, node, level })
                            .filter(|found| {
                                found.first_slot() == slot_at && index + found.slots() <= directory::SLOTS
                            })
                            .ok_or(Fault::Damaged { what: "an extent" })?;
                    return Ok(Some((found, slot_at)));
                }
                Slot::Node(below) => {
                    if let Some(found) = self.first_extent(below, level + 1)? {
                        return Ok(Some(found));
                    }
                }
            }
        }
        Ok(None)
    }

    fn sweep_extent(&self, found: &Extent) -> Result<(), Stop> {
        let segment = self.segment();
        let mut olds = 1 + found.pieces;
        for index in 0..found.buckets() {
            let bucket = found.bucket(segment, index).ok_or(Fault::Damaged { what: "an extent" })?;
            // Waits for the last transactions that came before the FLUSH.
            match self.seat.lock(bucket.line, Some(sync::now() + PATIENCE))? {
                Locked::Ours(_) => {}
                Locked::Busy => return Err(Stop::Retry),
                Locked::Dead => return Err(Fault::Damaged { what: "a bucket" }.into()),
            }
            self.seat.amend(self.seat.journal_len() - 1, CHANGED | DEATH);
            let live = Live { segment, bucket };
            for (unit, _) in bucket::entries(&live) {
                let image = bucket::image_at(&live, unit);
                // What a tier keeps of a key is no node.
                if image.is_reference()
                    && let Ok(record) = image.record()
                {
                    self.seat.note_old(record, true)?;
                    olds += 1;
                }
            }
        }
        self.seat.note_old(ref_to(found.at), false)?;
        for piece in 0..found.pieces {
            let piece = polder_base::Ref(segment.load(found.at + extent::PIECES + piece * 8));
            self.seat.note_old(piece, false)?;
        }
        self.seat.note(Tag::Cover, SWEEP_LOCK, 0)?;
        for index in 0..found.slots() {
            self.seat.note(Tag::Word, found.first_slot() + index * 8, 0)?;
        }
        Ok(self.seat.commit(olds)?)
    }

    /// Frees the directory nodes and the database's own, and empties its cell.
    fn sweep_rest(&self, cell: u64, node: u64, directory: u64) -> Result<(), Stop> {
        match self.seat.lock(MAP_LOCK, Some(sync::now() + PATIENCE))? {
            Locked::Ours(_) => {}
            Locked::Busy => return Err(Stop::Retry),
            Locked::Dead => return Err(Fault::Damaged { what: "the map's lock" }.into()),
        }
        self.seat.amend(self.seat.journal_len() - 1, CHANGED);
        let olds = 1 + self.retire_directory(directory, 0)?;
        self.seat.note_old(ref_to(node), false)?;
        self.seat.note(Tag::Cover, MAP_LOCK, 0)?;
        self.seat.note(Tag::Word, cell, 0)?;
        Ok(self.seat.commit(olds)?)
    }

    /// Notes that a directory node and those below it go out of use. Returns how many they are.
    pub(crate) fn retire_directory(&self, node: u64, level: u32) -> Result<u64, Stop> {
        let segment = self.segment();
        let mut olds = 1;
        for index in 0..directory::SLOTS {
            if let Slot::Node(below) =
                directory::slot_of(segment, segment.observe(directory::slot_at(node, index)))
                && level < directory::LEVELS_MAX
            {
                olds += self.retire_directory(below, level + 1)?;
            }
        }
        self.seat.note_old(ref_to(node), false)?;
        Ok(olds)
    }
}
