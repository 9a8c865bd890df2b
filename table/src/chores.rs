//! The chores: collecting what has expired, evicting when memory is short, sweeping flushed databases, recovering the dead.
//!
//! Any attached thread may do them (the warden is a hint, not a daemon), and every chore is safe when two do it at once. With
//! no server running, in-process callers do a little at a time.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use polder_base::Fault;
use polder_shm::journal::{CHANGED, DEATH, Tag};
use polder_shm::layout::{header, seat as at};
use polder_shm::{Locked, Seat, ref_to};
use polder_values::{Kind, hash};

use crate::api::*;
use crate::bucket;
use crate::clock;
use crate::directory::{self, Extent, GARBAGE_AT, GARBAGE_SLOTS, MAP_LOCK, Named, SWEEP_LOCK, Slot, database, extent, map_at};
use crate::entry::{self, Image};
use crate::lookup::{Live, view};
use crate::place::is_key;
use crate::recording;
use crate::table::Table;
use crate::txn::Txn;

/// The longest time between two rounds, in milliseconds: the dead are looked after at least so often.
const ROUND_MS: u64 = 1_000;
/// The pause between two rounds while extents are found that can shrink.
const THINNING_MS: u64 = 5;
/// The longest pause between two attempts to sweep while somebody is in the way.
const SWEEP_PAUSE_MS_MAX: u64 = 256;
/// How long a chore waits for a lock, whose holder may be stopped. It comes back. A server's loop does chores: as long as for a call.
const PATIENCE: Duration = Duration::from_micros(100);
/// Victims whose holders do not let go before eviction gives up.
const BUSY_VICTIMS_MAX: u32 = 8;
/// Attempts to collect one key in one round.
const COLLECT_ATTEMPTS: u32 = 3;
/// Fields of a hash that one transaction collects, at most.
const FIELDS_PER_COMMIT: u64 = 256;
/// Keys that one call evicts, at most, while memory is less than a twentieth above its limit.
const EVICTED_PER_CALL: u32 = 8;
/// Who changes fewer keys between two questions rests ([`Table::rest`]): to fill its caches again costs it less than that.
const RESTING_CHANGES: u64 = 64;
/// One in so many evictions looks whether the key's extent can shrink.
const EVICTIONS_PER_LOOK: u64 = 16;
/// Draws of a victim before eviction gives up.
const DRAWS_MAX: u32 = 20_000;

/// What a seat lifts while it looks for expired keys: the bounds of a database and of one of its extents.
const DATABASE_BOUND: u64 = 0;
const EXTENT_BOUND: u64 = 1;
/// A bound that another thread has kept lifted for so long is not waited for: the thread may be stopped.
const LIFT_PATIENCE: Duration = Duration::from_millis(500);
/// The bound of what could not be looked at. Not the present: who holds a lock there may be about to commit what has expired since.
const UNKNOWN: u64 = 0;

impl Table {
    /// One round of the chores, at most about `budget_us`; answers in how many milliseconds the next is due.
    pub fn chores(&self, budget_us: u64) -> u64 {
        let end = Instant::now() + Duration::from_micros(budget_us);
        let segment = self.segment();
        segment.publish(header::WARDEN, polder_base::time::now_ms());
        segment.recover_dead();
        // Half of the time at most: what is due is due.
        let mut due_ms = if segment.free_gone(Instant::now() + Duration::from_micros(budget_us / 2)) { 1 } else { ROUND_MS };
        let stands_still = self.stands_still();
        let limits = self.limits();
        if limits.active_expiry && !limits.importing && !stands_still {
            let begun = Instant::now();
            due_ms = due_ms.min(self.expire(end));
            self.count(Counter::ExpiryUs, begun.elapsed().as_micros() as u64);
        }
        // A limit that was lowered holds before somebody writes.
        let evicts = limits.evicts() && !stands_still;
        due_ms = due_ms.min(self.sweep(end));
        if evicts && self.evict(Some(end)) && self.claimed() > limits.memory_max {
            due_ms = due_ms.min(1);
        }
        if self.thin(end) {
            due_ms = due_ms.min(THINNING_MS);
        }
        if self.compact_ahead(end) {
            due_ms = due_ms.min(1);
        }
        while self.reclaim() {
            if Instant::now() >= end {
                due_ms = due_ms.min(1);
                break;
            }
        }
        due_ms
    }

    /// Until when clients wait (CLIENT PAUSE), in milliseconds since the Unix epoch, and whether only those who write do. One load.
    #[inline]
    pub fn paused(&self) -> (u64, bool) {
        let word = self.segment().load(header::PAUSE);
        (word >> 1, word & 1 != 0)
    }

    /// Whether keys stay as they are while clients wait: what has expired is not seen, and goes when they go on. Nobody writes, so nothing is evicted.
    pub(crate) fn stands_still(&self) -> bool {
        let (until_ms, _) = self.paused();
        until_ms != 0 && until_ms > polder_base::time::now_ms()
    }

    /// Collects what has expired; answers in how many milliseconds something else does.
    fn expire(&self, end: Instant) -> u64 {
        let now = polder_base::time::now_ms();
        let Ok(seat) = self.seat() else { return ROUND_MS };
        let stalled = self.stalled_bounds(&seat);
        let used = (0..DATABASES as Db).filter(|db| self.segment().observe(map_at(*db)) != 0);
        let due = used.map(|db| {
            // The pin keeps nodes of the database from becoming others'.
            seat.pin();
            let due_ms = self.expire_if_due(&seat, db, now, end, &stalled);
            seat.unpin();
            due_ms
        });
        due.min().map_or(ROUND_MS, |due_ms| due_ms.min(ROUND_MS))
    }

    /// Bounds that say nothing for longer than a thread that runs would take: the thread that has lifted them may be stopped. They are treated as due,
    /// once in [`LIFT_PATIENCE`]. What that thread lowers them to, when it goes on, is at worst a time that has passed.
    fn stalled_bounds(&self, seat: &Seat) -> Vec<u64> {
        let lifted = seat.lifted_beside();
        let mut known = match self.lifts.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(known)) => known.into_inner(),
            // Another thread of this process is at it.
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        known.retain(|(lift, _)| lifted.contains(lift));
        let mut stalled = Vec::new();
        for lift in lifted {
            match known.iter_mut().find(|(known, _)| *known == lift) {
                Some((_, since)) if since.elapsed() >= LIFT_PATIENCE => {
                    *since = Instant::now();
                    stalled.push(lift.1);
                }
                Some(_) => {}
                None => known.push((lift, Instant::now())),
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
        if Instant::now() > end {
            self.count(Counter::ExpiryCuts, 1);
            return 1;
        }
        // Lowered again by whoever writes an expiry from here on, and by us to what we have seen.
        seat.lift(DATABASE_BOUND, node + database::EXPIRY_MIN);
        let left = self.expire_database(db, now, end, stalled);
        seat.land(DATABASE_BOUND, left);
        left.saturating_sub(now).max(1)
    }

    /// Collects what has expired in a database; answers the earliest expiry that is left. The seat is pinned.
    fn expire_database(&self, db: Db, now: u64, end: Instant, stalled: &[u64]) -> u64 {
        let mut extents = Vec::new();
        let mut left = if self.each_extent(db, &mut |extent| extents.push(*extent)) { u64::MAX } else { UNKNOWN };
        for found in extents {
            let is_stalled = stalled.contains(&(found.at + extent::EXPIRY_MIN));
            let bound = if is_stalled { UNKNOWN } else { found.expiry_min(self.segment()) };
            if bound > now || Instant::now() > end {
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
            // Before the bound is lowered to what remains: who dies in between must not have forgotten those that are due.
            let collected = due.iter().all(|due| match due {
                Due::Key(key) => self.collect(db, found.root, key).is_ok(),
                Due::Fields(key) => self.collect_fields(db, found.root, key, end).is_ok(),
            });
            let remaining = if collected { remaining } else { UNKNOWN };
            seat.land(EXTENT_BOUND, remaining);
            left = left.min(remaining);
        }
        self.count(Counter::ExpiryCuts, (left <= now && Instant::now() > end).into());
        left
    }

    /// Takes away a key that has expired, if it still has, nobody holds it for long, and the database is still the one of `root`: after
    /// SWAPDB or a FLUSH it is not the one whose bound is to be lifted.
    fn collect(&self, db: Db, root: u64, key: &[u8]) -> Result<(), Stop> {
        self.collecting(db, root, key, |_| Ok(false)).map(drop)
    }

    /// Holds a key, which takes it away if it has expired, does `more`, and commits; answers what that answers.
    fn collecting(&self, db: Db, root: u64, key: &[u8], more: impl Fn(&Txn<'_>) -> Result<bool, Stop>) -> Result<bool, Stop> {
        let txn = self.begin(Mode::Write)?;
        txn.limit_patience(PATIENCE);
        for _ in 0..COLLECT_ATTEMPTS {
            let held = txn.hold(db, key, true);
            if txn.scratch.held.borrow().iter().any(|held| held.extent.root != root) {
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

    /// Takes away keys and fields that a reader has found expired ([`crate::Txn::take_stale`]), as far as nobody is in the way.
    #[cold]
    pub fn collect_stale(&self, keys: &[(Db, Vec<u8>)]) {
        if self.stands_still() || self.imports() {
            return;
        }
        for (db, key) in keys {
            let root = self.segment().observe(directory::map_at(*db) + 8);
            // An expired key goes by being held. Whatever stands in the way: it stays expired, and the chores come by.
            let _ = self.collect_fields(*db, root, key, Instant::now());
        }
    }

    /// As [`Table::collect`], of the fields of a hash that have expired.
    fn collect_fields(&self, db: Db, root: u64, key: &[u8], end: Instant) -> Result<(), Stop> {
        while self.collecting(db, root, key, |txn| txn.take_expired_fields(db, key))? {
            if Instant::now() > end {
                return Err(Stop::Busy);
            }
        }
        Ok(())
    }

    /// Makes room by the eviction policy until memory is below the limit; answers false when that is impossible.
    #[inline]
    pub fn make_room(&self) -> bool {
        self.is_unlimited() || self.evict(None)
    }

    /// As [`Table::make_room`], for no longer than `most`.
    pub fn make_room_within(&self, most: Duration) -> bool {
        self.is_unlimited() || self.evict(Some(Instant::now() + most))
    }

    /// Whether what was written last has gone beyond the limit, so that something is to be evicted.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        !self.is_unlimited() && {
            let limits = self.limits();
            let most = limits.memory_max;
            limits.evicts() && most > 0 && self.segment().used_bytes() > most && self.claimed() > most
        }
    }

    /// As [`Table::make_room`], until `end` at most; answers whether there is hope then.
    fn evict(&self, end: Option<Instant>) -> bool {
        let limits = self.limits();
        if limits.memory_max == 0 {
            return true;
        }
        let (mut draws, mut busy, mut evicted) = (0, 0, 0);
        if self.claimed() > limits.memory_max && self.stands_still() {
            return true;
        }
        while self.claimed() > limits.memory_max {
            // Room shows only when enough of an extent is free: what it takes until then is spread over many calls.
            if evicted >= EVICTED_PER_CALL && self.claimed() <= limits.memory_max + limits.memory_max / 20 {
                return true;
            }
            if end.is_some_and(|end| Instant::now() > end) {
                return true;
            }
            // What a FLUSH has left goes before any key does. Trees count until they have been taken apart.
            if self.litter().next().is_some() || self.relief.is_hopeful() {
                let swept = self.sweep_once();
                self.reclaim();
                if self.claimed() <= limits.memory_max + limits.memory_max / 20 {
                    return true;
                }
                if matches!(swept, Ok(Swept::Some | Swept::All)) {
                    continue;
                }
            }
            if !limits.evicts() || draws > DRAWS_MAX {
                return false;
            }
            match self.evict_one(&limits, &mut draws) {
                Ok(true) => (busy, evicted) = (0, evicted + 1),
                // Others may be less dear to their holders.
                Err(Stop::Busy) if busy < BUSY_VICTIMS_MAX => busy += 1,
                _ => return self.claimed() <= limits.memory_max,
            }
        }
        true
    }

    /// Bytes in use that are not on their way out already, nor kept for a snapshot.
    pub fn claimed(&self) -> u64 {
        let segment = self.segment();
        let passing = segment.sum_over_seats(at::RETIRED_BYTES).wrapping_add(segment.sum_over_seats(at::OVERLAY_BYTES));
        segment.used_bytes().saturating_sub(passing).saturating_sub(segment.log_bytes())
    }

    fn evict_one(&self, limits: &Limits, draws: &mut u32) -> Result<bool, Stop> {
        let Some((db, key)) = self.victim(limits, draws)? else { return Ok(false) };
        let txn = self.begin(Mode::Write)?;
        txn.limit_patience(PATIENCE);
        let mut evicted = false;
        txn.retrying(|| {
            let mark = txn.mark();
            // It may have lost its expiry since it was drawn.
            let found = txn.peek(db, &key)?;
            evicted = found.is_some_and(|found| !limits.policy.is_volatile() || found.expiry_ms.is_some())
                && txn.remove(db, &key, Replaces::Whole)?;
            if evicted {
                txn.note_change('e', "evicted", db, &key);
                txn.tell(db, &[b"DEL", &key]);
                txn.account(mark);
            }
            Ok(())
        })?;
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
    fn victim(&self, limits: &Limits, draws: &mut u32) -> Result<Option<(Db, Vec<u8>)>, Fault> {
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
            if !is_key(&image) {
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

    /// Frees flushed databases, extent by extent; answers in how many milliseconds it is to go on.
    fn sweep(&self, end: Instant) -> u64 {
        loop {
            let swept = self.sweep_once();
            // At once, or the list of what it retires would take the memory that it is to free.
            let freed = self.reclaim();
            match swept {
                Ok(Swept::Some | Swept::All) => self.sweep_pause_ms.store(0, Ordering::Relaxed),
                Err(Stop::Fault(Fault::Full(_))) if freed => {}
                // Somebody else is at it, or holds a key there; or it is done.
                Ok(Swept::Nothing) | Err(_) => return self.put_off_sweep(),
            }
            if Instant::now() >= end {
                return if self.litter().next().is_none() { ROUND_MS } else { 1 };
            }
        }
    }

    /// When to sweep again where there was nothing to be done: whoever is in the way may be stopped, so each time later than the last time. His
    /// going on or his death then shows this much later, and nobody waits for that: who needs the room sweeps by himself.
    fn put_off_sweep(&self) -> u64 {
        let pause_ms = match self.litter().next() {
            None => 0,
            Some(_) => (self.sweep_pause_ms.load(Ordering::Relaxed) * 2).clamp(1, SWEEP_PAUSE_MS_MAX),
        };
        self.sweep_pause_ms.store(pause_ms, Ordering::Relaxed);
        if pause_ms == 0 { ROUND_MS } else { pause_ms }
    }

    /// One step of the sweep.
    fn sweep_once(&self) -> Result<Swept, Stop> {
        let mut outcome = Ok(Swept::Nothing);
        for (cell, node) in self.litter() {
            let txn = self.begin(Mode::Write)?;
            outcome = txn.sweep_step(cell, node);
            match &outcome {
                Ok(Swept::Some | Swept::All) | Err(Stop::Fault(_)) => break,
                // Somebody holds a key there, and may be stopped: there may be another one.
                _ => {}
            }
        }
        outcome
    }

    /// Flushed databases that may be swept, and the cells that name them.
    pub(crate) fn litter(&self) -> impl Iterator<Item = (u64, u64)> {
        let segment = self.segment();
        let cells = (0..GARBAGE_SLOTS).map(|cell| GARBAGE_AT + cell * 8);
        let filled = cells.map(|cell| (cell, segment.observe(cell))).filter(|(_, node)| *node != 0);
        filled.filter(|(_, node)| !recording::is_wanted(segment, *node))
    }

    /// Frees some of what this thread has retired and nobody can be looking at any more; answers whether there was any.
    pub fn reclaim(&self) -> bool {
        let Some(seat) = self.seat().ok().filter(|seat| seat.enter()) else { return false };
        let freed = seat.freed();
        seat.reclaim_until(Instant::now());
        seat.leave();
        seat.freed() != freed
    }

    /// Gives the free nodes that this thread keeps at hand back to their slabs, where all may take them, if it has changed little since it was asked the
    /// last time; `changes` is what it had changed then.
    pub fn rest(&self, changes: &mut u64) {
        let Some(seat) = self.seat().ok().filter(|seat| seat.enter()) else { return };
        let now = seat.get(at::COUNTERS + 8 * Counter::Changes as u64);
        if now.wrapping_sub(std::mem::replace(changes, now)) < RESTING_CHANGES {
            seat.return_caches();
        }
        seat.leave();
    }
}

/// What a step of the sweep has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    /// An extent is gone, and there may be more.
    Some,
    /// The rest is gone.
    All,
    /// Somebody else is at it, or has been.
    Nothing,
}

/// What of a key has expired.
enum Due {
    Key(Vec<u8>),
    /// Some fields of the hash that it holds.
    Fields(Vec<u8>),
}

impl Txn<'_> {
    /// Takes away some of the fields of a hash that have expired, and the key with the last field; answers whether more are left.
    fn take_expired_fields(&self, db: Db, key: &[u8]) -> Result<bool, Stop> {
        let now = self.now_ms();
        let Some(found) = self.peek(db, key)? else { return Ok(false) };
        if found.kind != Kind::Hash || found.inner_expiry_ms.is_none_or(|expiry_ms| expiry_ms > now) {
            return Ok(false);
        }
        let mut draft = hash::Draft::of(&found.value, hash::Thresholds::NONE);
        let mark = self.mark();
        let taken = draft.purge(self, || now, FIELDS_PER_COMMIT, &mut |field| self.tell(db, &[b"HDEL", key, field]))?;
        self.note_change('h', "hexpired", db, key);
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
        // Nobody has used it.
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
                match (self.expiry_of(&image), self.bound_of(&image)) {
                    (Ok(Some(expiry_ms)), _) if expiry_ms <= now => due.extend(self.key_of(&image).map(Due::Key)),
                    (Ok(expiry_ms), Ok(Some(bound_ms))) if bound_ms <= now => {
                        due.extend(self.key_of(&image).map(Due::Fields));
                        // What its other fields lower is lowered as they are written.
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
    fn worth(&self, image: &Image, limits: &Limits, now: u64) -> Result<Option<u64>, Fault> {
        let volatile = image.meta() & entry::EXPIRY != 0;
        Ok(match limits.policy {
            policy if policy.is_volatile() && !volatile => None,
            Policy::NoEviction => None,
            Policy::AllkeysLru | Policy::VolatileLru => Some(u64::MAX - clock::idle_seconds(image.clock(), now)),
            Policy::AllkeysLfu | Policy::VolatileLfu => Some(clock::frequency(image.clock(), now, limits.lfu_decay_minutes) as u64),
            Policy::AllkeysRandom | Policy::VolatileRandom => Some(self.table.draw() as u64),
            Policy::VolatileTtl => self.expiry_of(image)?,
        })
    }

    /// Sweeps one flushed database wholly; the transaction has just been rolled back.
    pub(crate) fn sweep_some(&self) {
        let segment = self.segment();
        if self.table.litter().next().is_none() {
            // Nobody waits for who takes a snapshot.
            segment.break_snapshot(segment.snapshot());
        }
        let Some((cell, node)) = self.table.litter().next() else { return };
        loop {
            match self.sweep_step(cell, node) {
                Ok(Swept::Some) => {}
                Ok(Swept::All | Swept::Nothing) => {
                    // Another sweeper is at it, and may be stopped.
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
            Ok(Swept::Some | Swept::All) => self.table.relief.hope(),
            _ => self.seat.rollback(),
        }
        swept
    }

    fn sweep_some_of(&self, cell: u64, node: u64) -> Result<Swept, Stop> {
        let segment = self.segment();
        // Somebody who is stopped while he sweeps or holds a key stops the sweep, and nobody else.
        let ours = matches!(self.seat.lock(SWEEP_LOCK, Some(Instant::now() + PATIENCE))?, Locked::Ours(_));
        if !ours || node == 0 || segment.observe(cell) != node {
            return Ok(Swept::Nothing);
        }
        if !segment.check(node, 64) {
            return Err(Fault::Damaged { what: "a flushed database" }.into());
        }
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
                    let found = Extent::read(segment, &Named { extent: at, slot_at, slot: word, node, level })
                        .filter(|found| found.first_slot() == slot_at && index + found.slots() <= directory::SLOTS)
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
            // The last transactions that came before the FLUSH end first.
            match self.seat.lock(bucket.line, Some(Instant::now() + PATIENCE))? {
                Locked::Ours(_) => {}
                Locked::Busy => return Err(Stop::Retry),
                Locked::Dead => return Err(Fault::Damaged { what: "a bucket" }.into()),
            }
            self.seat.amend(self.seat.journal_len() - 1, CHANGED | DEATH);
            let live = Live { segment, bucket };
            for (unit, _) in bucket::entries(&live) {
                let image = bucket::image_at(&live, unit);
                if image.is_reference() {
                    self.seat.note_old(image.record(), true)?;
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
        match self.seat.lock(MAP_LOCK, Some(Instant::now() + PATIENCE))? {
            Locked::Ours(_) => {}
            Locked::Busy => return Err(Stop::Retry),
            Locked::Dead => return Err(Fault::Damaged { what: "the map's lock" }.into()),
        }
        let olds = 1 + self.retire_directory(directory, 0)?;
        self.seat.note_old(ref_to(node), false)?;
        self.seat.note(Tag::Cover, MAP_LOCK, 0)?;
        self.seat.note(Tag::Word, cell, 0)?;
        Ok(self.seat.commit(olds)?)
    }

    /// Notes that a directory node and those below it go out of use; answers how many they are.
    pub(crate) fn retire_directory(&self, node: u64, level: u32) -> Result<u64, Stop> {
        let segment = self.segment();
        let mut olds = 1;
        for index in 0..directory::SLOTS {
            if let Slot::Node(below) = directory::slot_of(segment, segment.observe(directory::slot_at(node, index)))
                && level < directory::LEVELS_MAX
            {
                olds += self.retire_directory(below, level + 1)?;
            }
        }
        self.seat.note_old(ref_to(node), false)?;
        Ok(olds)
    }
}
