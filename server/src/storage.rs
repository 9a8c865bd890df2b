//! The thread of a server that writes the append-only log of its memory, or stands by while another process does.
//!
//! It runs while `appendonly` is on. Of all candidates on a segment one is the storage process (`polder_persist::storage_process`); the others look every
//! [`STAND_BY`] whether it is alive, and one of them goes on where it was.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use polder_calls::settings::{Id, id};
use polder_engine::Memory;
use polder_persist::storage_process::{Elected, Lock, StorageProcess};
use polder_runtime::configuration::Configuration;

use crate::standby::{STAND_BY, sleep};

const APPENDONLY: Id = id("appendonly");

/// How long after a failed attempt to begin the log another one is made.
const RETRY: Duration = Duration::from_secs(1);

/// The thread, where there is one.
#[derive(Default)]
pub struct Storage {
    stops: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<bool>>>,
    /// The lock of the folder of a log that was read at start.
    lock: Mutex<Option<Lock>>,
}

impl Storage {
    /// Keeps the lock of a folder until the thread takes it over.
    pub fn keep(&self, lock: Lock) {
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
    }

    /// Starts the thread if the log is to be written and no thread does.
    pub fn attend(&self, memory: &Arc<Memory>, settings: &Arc<Configuration>) {
        if !settings.is_on(APPENDONLY) || self.stops.load(Ordering::Acquire) {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        let candidate =
            Candidate { memory: memory.clone(), settings: settings.clone(), stops: self.stops.clone() };
        match std::thread::Builder::new().name("polder-storage".into()).spawn(move || candidate.run(lock)) {
            Ok(begun) => *thread = Some(begun),
            Err(error) => {
                tracing::error!(%error, "no thread can be had to write the append-only log; trying again")
            }
        }
    }

    /// Ends the thread when all that was committed is on the disk; returns whether it is.
    pub fn end(&self) -> bool {
        self.stops.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.is_none_or(|thread| thread.join().unwrap_or(false))
    }
}

/// What the thread works with.
struct Candidate {
    memory: Arc<Memory>,
    settings: Arc<Configuration>,
    stops: Arc<AtomicBool>,
}

impl Candidate {
    fn is_to_end(&self) -> bool {
        self.stops.load(Ordering::Acquire)
            || !self.settings.is_on(APPENDONLY)
            || self.memory.table().segment().removed()
    }

    /// Stands by and writes, until the log is turned off or the server ends. Returns whether nothing is missing in the log.
    fn run(&self, mut lock: Option<Lock>) -> bool {
        let mut told = String::new();
        while !self.is_to_end() {
            let (why, pause) = match StorageProcess::elect(
                self.memory.table(),
                &self.settings,
                lock.take(),
                false,
            ) {
                Ok(Elected::Ours(process)) => {
                    tracing::info!(folder = %process.folder().display(), "the append-only log is written");
                    told.clear();
                    if !self.write(*process) {
                        return false;
                    }
                    continue;
                }
                Ok(Elected::Another(other)) => (other, STAND_BY),
                Err(why) => (why, RETRY),
            };
            if told != why {
                match pause {
                    STAND_BY => tracing::info!("standing by: {why}"),
                    _ => tracing::error!(why, "the append-only log cannot be begun; trying again"),
                }
                told = why;
            }
            sleep(pause, &|| self.is_to_end());
        }
        true
    }

    fn write(&self, process: StorageProcess<'_>) -> bool {
        let mut process = process;
        while !self.is_to_end() {
            process.work();
        }
        let ended = match () {
            // What was in it is gone, and the files stay as they are.
            () if self.memory.table().segment().removed() => return true,
            () if self.settings.is_on(APPENDONLY) => process.end(),
            () => process.end_for_good(),
        };
        match &ended {
            Ok(()) => tracing::info!("the append-only log ends: all that was committed is in it"),
            Err(why) => tracing::error!(why, "the append-only log ends"),
        }
        ended.is_ok()
    }
}
