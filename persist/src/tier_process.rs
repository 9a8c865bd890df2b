//! The threads of the process that has the tier of a memory: they let values leave and bring them back.
//!
//! ```text
//!   inbox: values that are wanted  -> read the copies -> put them back (`Table::install`) -> answer
//!   nothing is wanted, and memory is short -> walk on, choose what is old -> the store takes the copies -> stubs (`Table::spill`)
//!   neither -> sleep
//! ```
//!
//! Each thread has an equal part of all positions. Spilling begins below `maxmemory`, so that writers mostly find room.
//!
//! - **V7** No thread waits for the store with a lock, a transaction or a pin.
//! - **V8** The owner is a life of a seat (`polder_shm::tier`); only threads of its process use the store.
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_base::Fault;
use polder_base::time::now_ms;
use polder_hub::tier::{Failure, answer, answer_keys};
use polder_hub::{Delivery, MessageSink, Request};
use polder_shm::layout::header;
use polder_table::{Cold, Db, Name, Part, Stop, Sweep, Table, Told, Victim, Wanted, head};
use polder_tier::Store;

use crate::tier_compaction::Compaction;

/// Values that one read of the store brings, at most.
const VALUES_PER_READ: usize = 64;
/// Victims of one write of the store, and bytes of them, at most.
const VICTIMS: usize = 64;
const VICTIM_BYTES: usize = 256 << 10;
/// Bytes below `maxmemory` at which spilling begins, at least: a hundredth if that is more, and never more than an eighth.
const AHEAD_MIN: u64 = 8 << 20;
/// The sleep of a thread that has nothing to do.
const NAP: Duration = Duration::from_millis(5);
/// A value that was fetched stays for this long (V6), and one that has come and left again and again for this long.
const STAY_MS: u64 = 50;
const STAY_LONG_MS: u64 = 1_000;
/// Keys that are told in one turn, and bytes of them in one message.
const KEYS_PER_TURN: usize = 512;
const KEY_BYTES: usize = 64 << 10;
/// Bytes of keys that one request gets: the others are asked for again.
const REQUEST_BYTES: usize = 1 << 20;
/// Keys whose ages decide from which age on keys are spilled.
const SAMPLES: usize = 256;
/// The pause between two walks that look for keys that have expired.
const DUE_MS: u64 = 60_000;
/// The pause between two reports of the figures.
const TELL_MS: u64 = 50;
/// The pause after the store has failed to take copies.
const REST: Duration = Duration::from_secs(1);
/// The pause after a walk that has found nothing to spill.
const WALK_REST: Duration = Duration::from_millis(250);
/// Names of fetched values that are kept before old ones are forgotten.
const FETCHED_MAX: usize = 4096;
/// Attempts to change a key that other threads hold.
const ATTEMPTS: u32 = 20;

/// Figures that the owner's process tells of the tier ([`polder_shm::TierWords`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum TierFigure {
    Spills = 0,
    CleanSpills = 1,
    Fetches = 2,
    Errors = 3,
    DiskBytes = 4,
    /// Keys that were told without their values.
    Keys = 5,
    /// Messages that asked for something.
    Asks = 6,
    /// Copies that were of no use any more and were dropped.
    Dropped = 7,
    /// Copies in the store, about.
    Copies = 8,
}

/// A request of another thread.
struct Ask {
    asker: (u64, u64),
    hears: bool,
    wanted: Vec<Request>,
}

/// Keys that a thread has asked for without their values. Its inbox is not to get all of them at once.
struct KeyAsk {
    asker: (u64, u64),
    /// Those that are left, the last first.
    left: Vec<Cold>,
    bytes_left: usize,
}

/// The messages that the thread's inbox has brought.
#[derive(Default)]
struct Inbox {
    asks: Vec<Ask>,
    evict: Vec<(Db, Vec<u8>)>,
}

impl MessageSink for Inbox {
    fn deliver(&mut self, _: &[u64], _: Delivery<'_>) {}
    fn retry(&mut self, _: u64) {}
    fn knows(&self, _: u64) -> bool {
        false
    }
    fn missed(&mut self, _: &[u64]) {}
    fn wanted(&mut self, asker: (u64, u64), hears: bool, wanted: Vec<Request>) {
        self.asks.push(Ask { asker, hears, wanted });
    }
    fn to_evict(&mut self, db: Db, key: &[u8]) {
        self.evict.push((db, key.to_vec()));
    }
}

/// One thread of the tier.
pub struct TierThread<'t> {
    table: &'t Table,
    store: Arc<dyn Store>,
    number: u64,
    sweep: Sweep,
    /// From which age on keys are spilled, and for how many more victims that holds.
    age_min: (u64, u64),
    /// Values that were fetched lately, and until when they stay (V6).
    fetched: HashMap<Name, u64>,
    keys: VecDeque<KeyAsk>,
    /// Keys that were spilled since the walk began.
    spilled_in_walk: usize,
    /// The walk that looks for keys that have expired, and when it goes on.
    due: (Sweep, u64),
    told_ms: u64,
    compaction: Compaction,
    /// The number of changes that the thread had made when it last rested.
    changes: u64,
    rests_until: Option<Instant>,
    why: String,
}

impl<'t> TierThread<'t> {
    /// A thread that serves part `number` of `threads`. It belongs to the calling thread.
    ///
    /// # Errors
    /// There is no seat or no inbox for it.
    pub fn begin(
        table: &'t Table,
        store: Arc<dyn Store>,
        number: u64,
        threads: u64,
    ) -> Result<TierThread<'t>, Fault> {
        polder_hub::attend(table)?;
        let seat = table.seat()?;
        table.segment().tier().join(number, (seat.index(), seat.life()));
        Ok(TierThread {
            table,
            store,
            number,
            sweep: Sweep::over(number, threads),
            age_min: (0, 0),
            fetched: HashMap::new(),
            keys: VecDeque::new(),
            spilled_in_walk: 0,
            due: (Sweep::over(number, threads), 0),
            told_ms: 0,
            compaction: Compaction::new(table),
            changes: 0,
            rests_until: None,
            why: String::new(),
        })
    }

    /// Works until it is told to stop.
    pub fn run(mut self, stops: &dyn Fn() -> bool) {
        while !stops() {
            self.turn();
        }
        self.compaction.end(&self.store);
    }

    /// Brings back what is asked for, spills some, or sleeps.
    pub fn turn(&mut self) {
        let mut inbox = Inbox::default();
        polder_hub::hear(self.table, &mut inbox);
        self.tell();
        let has_asks = !inbox.asks.is_empty();
        let fetched = inbox.asks.iter().map(|ask| ask.wanted.len()).sum::<usize>();
        if has_asks {
            self.table.segment().tier().add(TierFigure::Asks as u64, inbox.asks.len() as u64);
            self.answer(inbox.asks);
        }
        self.tell_keys();
        for (db, key) in inbox.evict {
            if let Ok(Some(victim)) = self.table.victim_of(db, &key) {
                self.spill_all(vec![victim]);
            }
        }
        // Spills at least as much as has come: reads alone must not fill the memory.
        let batches = 1 + fetched.div_ceil(VICTIMS / 4);
        let is_busy = (0..batches).take_while(|_| self.spill_some()).count() == batches;
        let is_idle = !is_busy && !has_asks && self.keys.is_empty() && !self.remove_due();
        if let Ok(seat) = self.table.seat()
            && is_idle
        {
            self.table.rest(&mut self.changes);
            seat.sleep(Some(NAP));
        }
    }

    /// Fetches what several threads have asked for, each value once. Keys alone are told later.
    fn answer(&mut self, mut asks: Vec<Ask>) {
        for Ask { asker, wanted, .. } in &mut asks {
            let is_key = |request: &Request| request.cold.part == Part::Key;
            let left: Vec<Cold> =
                wanted.iter().rev().filter(|request| is_key(request)).map(|request| request.cold).collect();
            wanted.retain(|request| !is_key(request));
            let left = self.not_queued(*asker, left);
            if !left.is_empty() {
                self.keys.push_back(KeyAsk { asker: *asker, left, bytes_left: REQUEST_BYTES });
            }
        }
        if self.fetched.len() > FETCHED_MAX {
            self.forget_fetched();
        }
        let mut wanted: Vec<Request> = asks.iter().flat_map(|ask| ask.wanted.iter().copied()).collect();
        wanted.sort_unstable_by_key(|request| (request.cold.name, request.cold.db, !request.stays));
        wanted.dedup_by_key(|request| request.cold);
        let mut failed = HashMap::new();
        for several in wanted.chunks(VALUES_PER_READ) {
            let names: Vec<polder_tier::Name> =
                several.iter().map(|request| request.cold.name.bytes()).collect();
            for (request, copy) in several.iter().zip(self.store.get(&names)) {
                if let Err(failure) = self.install(*request, copy) {
                    self.table.segment().tier().add(TierFigure::Errors as u64, 1);
                    failed.insert(request.cold, failure);
                }
            }
        }
        self.table.segment().tier().add(TierFigure::Fetches as u64, wanted.len() as u64);
        for Ask { asker, hears, wanted } in asks {
            if !hears && !wanted.iter().any(|request| failed.contains_key(&request.cold)) {
                self.table.segment().wake(asker.0);
                continue;
            }
            self.answer_each(asker, wanted.iter().map(|request| request.cold), &failed);
        }
    }

    /// Leaves out the keys that an asker is going to be told already: it asks again for what has not come.
    fn not_queued(&self, asker: (u64, u64), mut left: Vec<Cold>) -> Vec<Cold> {
        let own = self.keys.iter().filter(|ask| ask.asker == asker);
        let queued: HashSet<Cold> = own.flat_map(|ask| ask.left.iter().copied()).collect();
        left.retain(|cold| !queued.contains(cold));
        left
    }

    /// Tells a thread how each of the values that it wants has come.
    fn answer_each(
        &self,
        asker: (u64, u64),
        wanted: impl Iterator<Item = Cold>,
        failed: &HashMap<Cold, Failure>,
    ) {
        let mut outcomes: Vec<(Option<Failure>, Cold)> =
            wanted.map(|cold| (failed.get(&cold).copied(), cold)).collect();
        outcomes.sort_by_key(|(failure, _)| failure.map(|failure| failure as u8));
        for alike in outcomes.chunk_by(|(one, _), (next, _)| one == next) {
            let several: Vec<Cold> = alike.iter().map(|(_, cold)| *cold).collect();
            answer(self.table, asker, alike[0].0, &several);
        }
    }

    /// Tells some of the keys that threads have asked for without their values.
    fn tell_keys(&mut self) {
        let segment = self.table.segment();
        self.keys.retain(|ask| segment.lives(ask.asker.0, ask.asker.1));
        let Some(mut ask) = self.keys.pop_front() else { return };
        let (mut told, mut bytes, mut failed) = (Vec::new(), 0, HashMap::new());
        for _ in 0..KEYS_PER_TURN / VALUES_PER_READ {
            let several = ask.left.split_off(ask.left.len().saturating_sub(VALUES_PER_READ));
            let names: Vec<polder_tier::Name> = several.iter().rev().map(|cold| cold.name.bytes()).collect();
            for (cold, copy) in several.iter().rev().zip(self.store.get(&names)) {
                match key_in(copy) {
                    Ok(key) => {
                        bytes += key.key.len();
                        told.push((*cold, key));
                    }
                    Err(failure) => _ = failed.insert(*cold, failure),
                }
            }
            if bytes >= KEY_BYTES || ask.left.is_empty() {
                break;
            }
        }
        let words = self.table.segment().tier();
        words.add(TierFigure::Keys as u64, told.len() as u64);
        words.add(TierFigure::Errors as u64, failed.len() as u64);
        answer_keys(self.table, ask.asker, &told);
        self.answer_each(ask.asker, failed.keys().copied(), &failed);
        ask.bytes_left = ask.bytes_left.saturating_sub(bytes);
        if ask.bytes_left == 0 {
            // They are asked for again, once what was told is read.
            answer(self.table, ask.asker, None, &std::mem::take(&mut ask.left));
        }
        if !ask.left.is_empty() {
            self.keys.push_back(ask);
        }
    }

    fn install(
        &mut self,
        Request { cold, stays }: Request,
        copy: Result<Option<Vec<u8>>, polder_tier::StoreError>,
    ) -> Result<(), Failure> {
        let copy = there(copy)?;
        for _ in 0..ATTEMPTS {
            match self.table.install(cold.db, cold.name, &copy) {
                Ok(_) => {
                    let stay_ms = if stays { STAY_LONG_MS } else { STAY_MS };
                    self.fetched.insert(cold.name, now_ms() + stay_ms);
                    return Ok(());
                }
                // Another thread has the key. At the end the asker meets the stub again, and asks again.
                Err(Stop::Busy | Stop::Retry) => std::thread::yield_now(),
                Err(Stop::Fault(Fault::Full(_))) if self.spill_more() => {}
                Err(Stop::Fault(Fault::Full(_))) => return Err(Failure::Full),
                Err(stop) => {
                    tracing::error!(%stop, position = cold.name.position, "a value of the tier cannot be put back");
                    return Err(Failure::Damaged);
                }
            }
        }
        Ok(())
    }

    /// Spills some more while memory is full. Returns whether it did.
    fn spill_more(&mut self) -> bool {
        let before = self.table.segment().tier().figure(TierFigure::Spills as u64);
        self.age_min = (0, 0);
        self.spill_old(u64::MAX / 2);
        while self.table.reclaim() {}
        self.table.segment().tier().figure(TierFigure::Spills as u64) != before
    }

    /// Spills some keys if memory is short. Returns whether there is more to do.
    fn spill_some(&mut self) -> bool {
        let limits = self.table.limits();
        let most = limits.memory_max;
        let rests = self.rests_until.is_some_and(|until| Instant::now() < until);
        // Nothing leaves while a snapshot is on.
        if most == 0 || rests || self.table.segment().snapshot() != 0 {
            return false;
        }
        let begin = most - (most / 100).max(AHEAD_MIN).min(most / 8);
        let claimed = self.table.claimed();
        claimed > begin && self.spill_old(claimed - begin)
    }

    /// Spills a batch of the keys that were not used for the longest time; `excess` bytes are to leave in all. Returns whether some left, or the walk goes
    /// on.
    fn spill_old(&mut self, excess: u64) -> bool {
        if self.age_min.1 == 0 {
            self.age_min = (self.choose_age(excess), SAMPLES as u64);
        }
        let wanted = Wanted { age_min: self.age_min.0, volatile: false, count: VICTIMS, bytes: VICTIM_BYTES };
        let mut victims = Vec::new();
        let walked = self.table.victims(&mut self.sweep, &wanted, &mut victims);
        self.forget_fetched();
        victims.retain(|victim| !self.fetched.contains_key(&victim.name));
        self.age_min.1 = self.age_min.1.saturating_sub(victims.len().max(1) as u64);
        let ended = match walked {
            Ok(ended) => ended,
            Err(stop) => {
                self.complain(&stop.to_string());
                true
            }
        };
        if ended {
            self.age_min.1 = 0;
        }
        let spilled = self.spill_all(victims);
        self.spilled_in_walk += spilled;
        if ended && std::mem::take(&mut self.spilled_in_walk) == 0 {
            // There is nothing that could leave.
            self.rests_until = Some(Instant::now() + WALK_REST);
        }
        spilled > 0 || !ended
    }

    /// Forgets fetched values that need not stay any more.
    fn forget_fetched(&mut self) {
        let now = now_ms();
        self.fetched.retain(|_, until_ms| now < *until_ms);
    }

    /// The age from which on keys are spilled, so that about `excess` bytes leave in one walk.
    fn choose_age(&self, excess: u64) -> u64 {
        let Ok(mut ages) = self.table.sample_ages(SAMPLES * 8) else { return 0 };
        ages.sort_unstable_by_key(|(age, _)| std::cmp::Reverse(*age));
        let all: u64 = ages.iter().map(|(_, bytes)| *bytes as u64).sum();
        // A part of what lies in the memory; more than is needed, since it goes on being written.
        let part =
            (u128::from(all) * u128::from(excess) * 2 / u128::from(self.table.claimed().max(1))) as u64;
        let mut sum = 0;
        let reached = ages.iter().find(|(_, bytes)| {
            sum += *bytes as u64;
            sum >= part
        });
        reached.or(ages.last()).map_or(0, |(age, _)| *age)
    }

    /// Has the store take the copies, and makes the entries stubs (V2). Returns how many.
    fn spill_all(&mut self, victims: Vec<Victim>) -> usize {
        let copies: Vec<(polder_tier::Name, &[u8])> = victims
            .iter()
            .filter_map(|victim| victim.parcel.as_ref().map(|parcel| (victim.name.bytes(), &parcel[..])))
            .collect();
        if !copies.is_empty()
            && let Err(error) = self.store.put(&copies)
        {
            self.table.segment().tier().add(TierFigure::Errors as u64, 1);
            self.rests_until = Some(Instant::now() + REST);
            self.complain(&error.to_string());
            return 0;
        }
        self.why.clear();
        let words = self.table.segment().tier();
        let mut spilled = 0;
        for victim in &victims {
            if matches!(self.table.spill(victim), Ok(true)) {
                spilled += 1;
                words.add(TierFigure::CleanSpills as u64, victim.parcel.is_none().into());
            }
        }
        words.add(TierFigure::Spills as u64, spilled as u64);
        self.table.reclaim();
        spilled
    }

    /// Removes keys that have expired while their values were here: their values come back first, since what is told of a removal needs the key. Returns
    /// whether there were some.
    fn remove_due(&mut self) -> bool {
        let now = now_ms();
        if now < self.due.1 {
            return false;
        }
        let mut due = Vec::new();
        match self.table.due_stubs(&mut self.due.0, &mut due) {
            Ok(false) => {}
            Ok(true) | Err(_) => self.due.1 = now + DUE_MS,
        }
        let mut keys = Vec::new();
        for several in due.chunks(VALUES_PER_READ) {
            let names: Vec<polder_tier::Name> = several.iter().map(|cold| cold.name.bytes()).collect();
            for (cold, copy) in several.iter().zip(self.store.get(&names)) {
                let key = copy
                    .as_ref()
                    .ok()
                    .and_then(|copy| Some((cold.db, head(copy.as_ref()?).ok()?.key.to_vec())));
                if self.install(Request { cold: *cold, stays: false }, copy).is_ok() {
                    keys.extend(key);
                }
            }
        }
        self.table.collect_stale(&keys);
        !keys.is_empty()
    }

    fn complain(&mut self, why: &str) {
        if self.why != why {
            tracing::error!(why, "values cannot leave the memory for the tier; trying again");
            self.why = why.into();
        }
    }

    /// Tells what the store takes (V9).
    fn tell(&mut self) {
        let now = now_ms();
        if self.number == 0 && now >= self.told_ms + TELL_MS {
            self.told_ms = now;
            let segment = self.table.segment();
            segment.publish(header::TIER_BYTES, self.store.memory_bytes());
            segment.tier().tell(TierFigure::DiskBytes as u64, self.store.disk_bytes());
            let copies = self.store.copies();
            segment.tier().tell(TierFigure::Copies as u64, copies);
            self.compaction.look(self.table, &self.store, copies);
        }
    }
}

/// A copy that the store has read.
fn there(copy: Result<Option<Vec<u8>>, polder_tier::StoreError>) -> Result<Vec<u8>, Failure> {
    copy.inspect_err(|error| tracing::error!(%error, "a value cannot be read from the tier"))
        .map_err(|_| Failure::Damaged)?
        .ok_or(Failure::Missing)
}

/// The key in a copy, with its expiry.
fn key_in(copy: Result<Option<Vec<u8>>, polder_tier::StoreError>) -> Result<Told, Failure> {
    let copy = there(copy)?;
    head(&copy).map(|head| Told::new(head.key, head.expiry_ms)).map_err(|_| Failure::Damaged)
}
