//! What each thread counts, for INFO.
//!
//! A count is written by its thread alone, with a plain load and store, and read by whoever asks.
use std::sync::atomic::{AtomicU64, Ordering};

/// One count of one thread.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds; the owner only.
    pub fn add(&self, by: u64) {
        self.0.store(self.get() + by, Ordering::Relaxed);
    }

    /// Says how many there are now; the owner only.
    pub fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    /// The count now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of one thread.
#[derive(Default)]
pub struct Tally {
    pub turns: Count,
    /// Microseconds spent in turns, without sleep.
    pub turn_us: Count,
    /// Times sockets were read and written.
    pub reads: Count,
    pub writes: Count,
    /// Clients closed for what they had sent, or not read.
    pub query_limit_closed: Count,
    pub reply_limit_closed: Count,
    /// Clients closed for what all of them take together.
    pub clients_evicted: Count,
    /// What the thread's tracking clients have read and hear of, now.
    pub tracked_keys: Count,
    pub tracked_items: Count,
    pub tracked_prefixes: Count,
}
