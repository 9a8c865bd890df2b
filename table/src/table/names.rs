//! Keys of stubs that a process was told, for calls that show keys: SCAN, KEYS, RANDOMKEY.
//!
//! ```text
//!   call meets stubs -> notes their names as wanted, goes on, stops with Cold -> the tier tells their keys (`Table::learn`) -> the call is run again
//! ```
//!
//! A stub does not say its key, and the values of all keys that a call shows may not fit into the memory. A copy never changes (U2), so what was told
//! stays true. It is forgotten once no call has used it for [`KEPT_MS`].

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use polder_base::time::now_ms;

use crate::api::Db;
use crate::layout::stub::Name;
use crate::table::Table;

/// The time for which a key is known that no call asks for.
const KEPT_MS: u64 = 2_000;
/// Keys that are drawn together, at least and at most.
const DRAWS: std::ops::RangeInclusive<usize> = 16..=4_096;

/// The key of a copy, and the time at which it expires.
pub struct Told {
    pub key: Box<[u8]>,
    pub expiry_ms: Option<u64>,
    used_ms: AtomicU64,
}

impl Told {
    /// A key with its expiry.
    pub fn new(key: &[u8], expiry_ms: Option<u64>) -> Told {
        Told { key: key.into(), expiry_ms, used_ms: AtomicU64::new(now_ms()) }
    }
}

/// Stubs that were drawn at random, whose keys are on their way.
#[derive(Default)]
struct Draws {
    pending: VecDeque<(Db, Name, u64)>,
    /// The number of those that were used since the last ones were asked for.
    taken: usize,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Names {
    told: RwLock<HashMap<Name, Arc<Told>>>,
    cleared_ms: AtomicU64,
    draws: Mutex<Draws>,
}

impl Table {
    /// Takes note of the keys that copies have.
    pub fn learn(&self, told: impl Iterator<Item = (Name, Told)>) {
        // Maintenance may be another process's.
        self.forget_names(now_ms());
        let told = told.map(|(name, told)| (name, Arc::new(told)));
        self.tier.names.told.write().unwrap_or_else(PoisonError::into_inner).extend(told);
    }

    /// The key of a copy, if it was told.
    pub(crate) fn told(&self, name: Name, now_ms: u64) -> Option<Arc<Told>> {
        let told = self.tier.names.told.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        told.inspect(|told| told.used_ms.store(now_ms, Ordering::Relaxed))
    }

    /// Forgets the keys that no call has used lately.
    pub(crate) fn forget_names(&self, now_ms: u64) {
        let names = &self.tier.names;
        if now_ms < names.cleared_ms.load(Ordering::Relaxed) + KEPT_MS {
            return;
        }
        names.cleared_ms.store(now_ms, Ordering::Relaxed);
        let mut told = names.told.write().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, told| now_ms < told.used_ms.load(Ordering::Relaxed) + KEPT_MS);
        if told.is_empty() {
            *told = HashMap::new();
        }
    }

    /// A stub that an earlier attempt has drawn, whose key is known by now. It is drawn once.
    pub(crate) fn take_drawn(&self, db: Db, now_ms: u64) -> Option<(Name, Arc<Told>)> {
        let mut draws = self.tier.names.draws.lock().unwrap_or_else(PoisonError::into_inner);
        draws.pending.retain(|(_, _, at_ms)| now_ms < at_ms + KEPT_MS);
        let at =
            draws.pending.iter().position(|(of, name, _)| *of == db && self.told(*name, now_ms).is_some())?;
        let (_, name, _) = draws.pending.remove(at)?;
        draws.taken += 1;
        drop(draws);
        Some((name, self.told(name, now_ms)?))
    }

    /// The number of stubs that are to be drawn together: a transaction that draws many keys needs all of them in one attempt.
    pub(crate) fn draws_wanted(&self) -> usize {
        let mut draws = self.tier.names.draws.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut draws.taken) * 2).clamp(*DRAWS.start(), *DRAWS.end())
    }

    /// Takes note of a stub that was drawn.
    pub(crate) fn note_drawn(&self, db: Db, name: Name, now_ms: u64) {
        let mut draws = self.tier.names.draws.lock().unwrap_or_else(PoisonError::into_inner);
        if draws.pending.len() < *DRAWS.end() {
            draws.pending.push_back((db, name, now_ms));
        }
    }
}
