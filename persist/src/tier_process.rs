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
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_base::Fault;
use polder_base::time::now_ms;
use polder_hub::tier::{Failure, answer};
use polder_hub::{Delivery, MessageSink};
use polder_shm::layout::header;
use polder_table::{Cold, Db, Name, Stop, Sweep, Table, Victim, Wanted};
use polder_tier::Store;

/// Values that one read of the store brings, at most.
const VALUES_PER_READ: usize = 64;
/// Victims of one write of the store, and bytes of them, at most.
const VICTIMS: usize = 64;
const VICTIM_BYTES: usize = 256 << 10;
/// Bytes below `maxmemory` at which spilling begins, at least: a hundredth if that is more, and never more than an eighth.
const AHEAD_MIN: u64 = 8 << 20;
/// The sleep of a thread that has nothing to do.
const NAP: Duration = Duration::from_millis(5);
/// A value that was fetched stays for this long (V6).
const STAY_MS: u64 = 50;
/// Keys whose ages decide from which age on keys are spilled.
const SAMPLES: usize = 256;
/// The pause between two reports of the figures.
const TELL_MS: u64 = 50;
/// The pause after the store has failed to take copies.
const REST: Duration = Duration::from_secs(1);
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
}

/// A request of another thread.
struct Ask {
    asker: (u64, u64),
    hears: bool,
    wanted: Vec<Cold>,
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
    fn wanted(&mut self, asker: (u64, u64), hears: bool, wanted: Vec<Cold>) {
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
    /// The times at which values were fetched lately (V6).
    fetched: HashMap<Name, u64>,
    told_ms: u64,
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
            told_ms: 0,
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
    }

    /// Brings back what is asked for, spills some, or sleeps.
    pub fn turn(&mut self) {
        let mut inbox = Inbox::default();
        polder_hub::hear(self.table, &mut inbox);
        self.tell();
        let has_asks = !inbox.asks.is_empty();
        let fetched = inbox.asks.iter().map(|ask| ask.wanted.len()).sum::<usize>();
        if has_asks {
            self.answer(inbox.asks);
        }
        for (db, key) in inbox.evict {
            if let Ok(Some(victim)) = self.table.victim_of(db, &key) {
                self.spill_all(vec![victim]);
            }
        }
        // Spills at least as much as has come: reads alone must not fill the memory.
        let batches = 1 + fetched.div_ceil(VICTIMS / 4);
        let is_busy = (0..batches).take_while(|_| self.spill_some()).count() == batches;
        if !is_busy
            && !has_asks
            && let Ok(seat) = self.table.seat()
        {
            self.table.rest(&mut self.changes);
            seat.sleep(Some(NAP));
        }
    }

    /// Fetches what several threads have asked for, each value once.
    fn answer(&mut self, asks: Vec<Ask>) {
        let mut wanted: Vec<Cold> = asks.iter().flat_map(|ask| ask.wanted.iter().copied()).collect();
        wanted.sort_unstable_by_key(|cold| (cold.name, cold.db));
        wanted.dedup();
        let mut failed = HashMap::new();
        for several in wanted.chunks(VALUES_PER_READ) {
            let names: Vec<polder_tier::Name> = several.iter().map(|cold| cold.name.bytes()).collect();
            for (cold, copy) in several.iter().zip(self.store.get(&names)) {
                if let Err(failure) = self.install(*cold, copy) {
                    self.table.segment().tier().add(TierFigure::Errors as u64, 1);
                    failed.insert(*cold, failure);
                }
            }
        }
        self.table.segment().tier().add(TierFigure::Fetches as u64, wanted.len() as u64);
        for Ask { asker, hears, wanted } in asks {
            if !hears && !wanted.iter().any(|cold| failed.contains_key(cold)) {
                self.table.segment().wake(asker.0);
                continue;
            }
            for outcome in [None, Some(Failure::Missing), Some(Failure::Damaged), Some(Failure::Full)] {
                let alike: Vec<Cold> =
                    wanted.iter().filter(|cold| failed.get(cold).copied() == outcome).copied().collect();
                if !alike.is_empty() {
                    answer(self.table, asker, outcome, &alike);
                }
            }
        }
    }

    fn install(
        &mut self,
        cold: Cold,
        copy: Result<Option<Vec<u8>>, polder_tier::StoreError>,
    ) -> Result<(), Failure> {
        let copy = match copy {
            Ok(Some(copy)) => copy,
            Ok(None) => return Err(Failure::Missing),
            Err(error) => {
                tracing::error!(%error, "a value cannot be read from the tier");
                return Err(Failure::Damaged);
            }
        };
        for _ in 0..ATTEMPTS {
            match self.table.install(cold.db, cold.name, &copy) {
                Ok(_) => {
                    self.fetched.insert(cold.name, now_ms());
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
        if most == 0 || self.rests_until.is_some_and(|until| Instant::now() < until) {
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
        let now = now_ms();
        self.fetched.retain(|_, at_ms| now < *at_ms + STAY_MS);
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
        // A walk that has found nothing to its end rests.
        spilled > 0 || !ended
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
        }
    }
}
