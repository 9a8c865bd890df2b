//! The threads of a server that have the tier of its memory, or stand by while another process has it.
//!
//! With `swap-mode disk` each server is a candidate. One of them takes the tier's words in the segment and opens the store, and works with
//! `swap-threads` threads (`polder_persist::tier_process`); the others look every [`STAND_BY`] whether it lives, and one of them goes on where it was.
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use polder_calls::settings::{Id, id};
use polder_engine::Memory;
use polder_persist::tier_process::{TierFigure, TierThread};
use polder_runtime::configuration::Configuration;
use polder_shm::layout::tier::THREADS_MAX;
use polder_tier::rocks::{Options, Rocks};
use polder_tier::{Judge, Store, StoreError};

use crate::standby::{STAND_BY, sleep};

const SWAP_MODE: Id = id("swap-mode");
const SWAP_THREADS: Id = id("swap-threads");
const DIR: Id = id("dir");
/// The folder of all stores. Each memory has a folder of its own in it, by its identity: two memories may share `dir`.
const FOLDER: &str = "data.rocks";

/// The pause after a failed attempt to open the store.
const RETRY: Duration = Duration::from_secs(1);
/// A memtable takes this part of `maxmemory`, within these limits.
const WRITE_BUFFER_PART: u64 = 64;
const WRITE_BUFFER: std::ops::RangeInclusive<u64> = (1 << 20)..=(16 << 20);

/// The thread that begins the others, where there is one.
#[derive(Default)]
pub struct Tier {
    stops: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Returns true if the settings want a tier.
fn is_wanted(settings: &Configuration) -> bool {
    settings.number(SWAP_MODE) == 1
}

/// Looks whether a tier can be had that the settings want.
///
/// # Errors
/// The library cannot be loaded: a whole line.
pub fn check(settings: &Configuration) -> Result<(), String> {
    if is_wanted(settings) { Rocks::check().map_err(|error| error.to_string()) } else { Ok(()) }
}

impl Tier {
    /// Starts the thread if the settings want a tier.
    pub fn begin(&self, memory: &Arc<Memory>, settings: &Arc<Configuration>) {
        if !is_wanted(settings) {
            return;
        }
        let candidate =
            Candidate { memory: memory.clone(), settings: settings.clone(), stops: self.stops.clone() };
        match std::thread::Builder::new().name("polder-tier".into()).spawn(move || candidate.run()) {
            Ok(begun) => *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun),
            Err(error) => tracing::error!(%error, "no thread can be had for the tier"),
        }
    }

    /// Ends the threads; the store is closed.
    pub fn end(&self) {
        self.stops.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
            && thread.join().is_err()
        {
            tracing::error!("a thread of the tier panicked");
        }
    }
}

/// The memory and the settings with which the threads work.
struct Candidate {
    memory: Arc<Memory>,
    settings: Arc<Configuration>,
    stops: Arc<AtomicBool>,
}

impl Candidate {
    fn is_to_end(&self) -> bool {
        self.stops.load(Ordering::Acquire) || self.memory.table().segment().removed()
    }

    /// Stands by and works, until the server ends.
    fn run(&self) {
        let table = self.memory.table();
        let mut told = String::new();
        while !self.is_to_end() {
            let Ok(seat) = table.seat() else {
                sleep(RETRY, &|| self.is_to_end());
                continue;
            };
            let words = table.segment().tier();
            if !words.claim(seat.index(), seat.life()) {
                sleep(STAND_BY, &|| self.is_to_end());
                continue;
            }
            match self.open() {
                Ok(store) => {
                    tracing::info!(
                        version = store.version(),
                        "values that are not used may leave for the tier"
                    );
                    told.clear();
                    // A panic ends the work and not the thread: the tier is given back, and begun again.
                    let work = std::panic::AssertUnwindSafe(|| self.work(&store));
                    if std::panic::catch_unwind(work).is_err() {
                        tracing::error!("a thread of the tier panicked; the tier is begun again");
                    }
                    table.end_tier();
                }
                Err(StoreError(why)) => {
                    if told != why {
                        tracing::error!(why, "the tier cannot be opened; trying again");
                        told = why;
                    }
                }
            }
            words.release(seat.index(), seat.life());
            sleep(RETRY, &|| self.is_to_end());
        }
    }

    fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let table = self.memory.table();
        let identity = table.tier_identity();
        let own: String = identity.iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = PathBuf::from(self.settings.string(DIR)).join(FOLDER).join(own);
        let most = table.limits().memory_max;
        let write_buffer = match most {
            0 => *WRITE_BUFFER.end(),
            most => (most / WRITE_BUFFER_PART).clamp(*WRITE_BUFFER.start(), *WRITE_BUFFER.end()),
        };
        let options = Options { write_buffer_bytes: write_buffer as usize, ..Options::default() };
        let judge = Arc::new(Referee(self.memory.clone()));
        let store = Rocks::open(&folder, &identity, !table.is_tiered(), &options, Some(judge))?;
        let store: Arc<dyn Store> = Arc::new(store);
        table.begin_tier(Arc::new(Copies(store.clone())));
        Ok(store)
    }

    /// Works with all threads until the server ends.
    fn work(&self, store: &Arc<dyn Store>) {
        let table = self.memory.table();
        let threads = u64::try_from(self.settings.number(SWAP_THREADS)).unwrap_or(1).clamp(1, THREADS_MAX);
        let (joined, failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let ends = || self.is_to_end() || failed.load(Ordering::Acquire);
        // A thread that panics ends the others: what it served would be served by none.
        struct Fails<'f>(&'f AtomicBool);
        impl Drop for Fails<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let work = |number: u64| match TierThread::begin(table, store.clone(), number, threads) {
            Ok(thread) => {
                joined.fetch_add(1, Ordering::AcqRel);
                while joined.load(Ordering::Acquire) < threads && !ends() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if number == 0 && !ends() {
                    table.segment().tier().open(threads);
                }
                let _ended = Fails(&failed);
                thread.run(&ends);
            }
            Err(fault) => {
                tracing::error!(%fault, "a thread of the tier cannot begin");
                failed.store(true, Ordering::Release);
            }
        };
        let work = &work;
        std::thread::scope(|scope| {
            for number in 1..threads {
                let named = std::thread::Builder::new().name(format!("polder-tier-{number}"));
                if named.spawn_scoped(scope, move || work(number)).is_err() {
                    failed.store(true, Ordering::Release);
                }
            }
            work(0);
        });
    }
}

/// The store, as saves read it.
struct Copies(Arc<dyn Store>);

impl polder_engine::TierCopies for Copies {
    fn get(&self, name: polder_engine::Name) -> Result<Option<Vec<u8>>, String> {
        self.0.get(&[name.bytes()]).pop().unwrap_or(Ok(None)).map_err(|error| error.to_string())
    }
}

/// The memory, as the store asks which copies are of use.
struct Referee(Arc<Memory>);

impl Judge for Referee {
    fn keeps(&self, name: &polder_tier::Name, copy: &[u8]) -> bool {
        let keeps = self.0.table().needs_copy(polder_engine::Name::from_bytes(name), copy);
        self.0.table().segment().tier().add(TierFigure::Dropped as u64, (!keeps).into());
        keeps
    }
}
