//! What a server writes to its log about its memory: evictions that begin and end, and dead threads that were recovered.
//!
//! The counters are the segment's. Whichever process evicts or recovers, each server logs it once.
use std::sync::Mutex;

use polder_engine::{Counter, Table};

/// How often the counters are looked at, in milliseconds.
const LOOK_MS: u64 = 1000;
/// A memory that has evicted nothing for this time no longer evicts.
const CALM_MS: u64 = 60_000;
/// While keys are evicted, one line in this time gives their number.
const REPORT_MS: u64 = 600_000;

/// The counters at the last look.
#[derive(Default)]
pub struct Watch(Mutex<Option<Seen>>);

struct Seen {
    looked_ms: u64,
    recoveries: u64,
    evicted: u64,
    /// When keys were evicted last; 0: not lately.
    evicted_ms: u64,
    /// When that was logged last, and how many there had been.
    reported: (u64, u64),
}

impl Watch {
    /// Looks at the counters, a second after the last time at the earliest.
    pub fn look(&self, table: &Table, now_ms: u64) {
        // Another thread is looking.
        let Ok(mut seen) = self.0.try_lock() else { return };
        let (recoveries, evicted) = (table.counter(Counter::Recoveries), table.counter(Counter::Evicted));
        let Some(seen) = seen.as_mut() else {
            *seen =
                Some(Seen { looked_ms: now_ms, recoveries, evicted, evicted_ms: 0, reported: (0, evicted) });
            return;
        };
        if now_ms.saturating_sub(seen.looked_ms) < LOOK_MS {
            return;
        }
        if recoveries > seen.recoveries {
            let deaths = recoveries - seen.recoveries;
            tracing::warn!(
                deaths,
                "threads died while attached: what they held was recovered, and no acknowledged write is lost"
            );
        }
        seen.tell_evictions(table, evicted, now_ms);
        *seen = Seen { looked_ms: now_ms, recoveries, evicted, ..*seen };
    }
}

impl Seen {
    fn tell_evictions(&mut self, table: &Table, evicted: u64, now_ms: u64) {
        let is_evicting = evicted > self.evicted;
        let (reported_ms, before) = self.reported;
        if is_evicting && self.evicted_ms == 0 {
            let (used, limit) = (table.usage().used, table.limits().memory_max);
            tracing::warn!(
                used_bytes = used,
                maxmemory = limit,
                "the memory is full: keys are evicted from now on"
            );
            self.reported = (now_ms, self.evicted);
        } else if is_evicting && now_ms.saturating_sub(reported_ms) >= REPORT_MS {
            tracing::info!(keys = evicted - before, "keys are still being evicted");
            self.reported = (now_ms, evicted);
        } else if !is_evicting && self.evicted_ms != 0 && now_ms.saturating_sub(self.evicted_ms) >= CALM_MS {
            tracing::info!(keys = evicted - before, "no key has been evicted for a minute");
            (self.evicted_ms, self.reported) = (0, (now_ms, evicted));
        }
        if is_evicting {
            self.evicted_ms = now_ms;
        }
    }
}
