//! The counts of each thread, for INFO.
//!
//! Only its thread writes a count, with a plain load and store. Any thread may read it.
use std::sync::atomic::{AtomicU64, Ordering};

use polder_runtime::session::Traffic;

/// One count of one thread.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds; the owner only.
    pub fn add(&self, by: u64) {
        self.0.store(self.get() + by, Ordering::Relaxed);
    }

    /// Sets the count; the owner only.
    pub fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    /// Makes it at least as large as this; the owner only.
    pub fn raise(&self, to: u64) {
        if to > self.get() {
            self.set(to);
        }
    }

    /// The count now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of one thread.
#[derive(Default)]
pub struct ThreadStats {
    pub turns: Count,
    /// Microseconds spent in turns, without sleep.
    pub turn_us: Count,
    /// The part of it for what is due by the clock; the longest turn, and the most calls of one.
    pub chores_us: Count,
    pub turn_us_max: Count,
    pub turn_calls_max: Count,
    /// How often sockets were read and written.
    pub reads: Count,
    pub writes: Count,
    /// Clients closed because their requests, or their unread replies, took too much.
    pub query_limit_closed: Count,
    pub reply_limit_closed: Count,
    /// What the tracking clients of the thread have read, and the prefixes that they watch, now.
    pub tracked_keys: Count,
    pub tracked_items: Count,
    pub tracked_prefixes: Count,
    pub nats: NatsStats,
}

/// Messages of clients of NATS, and how many of them were closed since they did not read.
#[derive(Default)]
pub struct NatsStats {
    pub messages_in: Count,
    pub bytes_in: Count,
    pub messages_out: Count,
    pub bytes_out: Count,
    pub slow_closed: Count,
}

impl NatsStats {
    /// Adds the messages of a client; the owner only.
    pub fn add(&self, new: &Traffic) {
        self.messages_in.add(new.messages_in);
        self.bytes_in.add(new.bytes_in);
        self.messages_out.add(new.messages_out);
        self.bytes_out.add(new.bytes_out);
    }
}
