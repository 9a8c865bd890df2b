//! The tier, as a process's handle on the table knows it: whether it is on, and its copies where this process has it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use polder_shm::layout::{features, header};

use crate::api::Stop;
use crate::layout::extras::announce_feature;
use crate::layout::stub::Name;
use crate::table::Table;
use crate::table::names::Names;
use polder_base::Fault;

/// A reader of copies: for saves, which show what is cold and leave it so.
pub trait Copies: Send + Sync {
    /// The copy with this name, if there is one.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn get(&self, name: Name) -> Result<Option<Vec<u8>>, String>;
}

/// Milliseconds after which a writer that finds no room begins a new wait.
const CROWD_MS: u64 = 500;

/// See the module.
#[derive(Default)]
pub(crate) struct Tier {
    copies: RwLock<Option<Arc<dyn Copies>>>,
    /// Since when writers find no room, in milliseconds since the Unix epoch; 0: they do.
    pub(crate) crowded_since_ms: AtomicU64,
    /// The last time that a writer found none.
    crowded_last_ms: AtomicU64,
    pub(crate) names: Names,
}

impl Table {
    /// Says that this process has the tier from now on, and that there may be stubs.
    pub fn begin_tier(&self, copies: Arc<dyn Copies>) {
        announce_feature(self.segment(), features::TIER);
        *self.tier.copies.write().unwrap_or_else(PoisonError::into_inner) = Some(copies);
    }

    /// Says that this process has the tier no longer.
    pub fn end_tier(&self) {
        *self.tier.copies.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.segment().publish(header::TIER_BYTES, 0);
    }

    /// Returns true if entries of this memory may be stubs.
    pub fn is_tiered(&self) -> bool {
        self.segment().load(header::LAYOUT) & features::TIER != 0
    }

    /// Returns true if values can leave for a tier: some process has it.
    pub fn has_tier(&self) -> bool {
        self.is_tiered() && self.segment().tier().process().is_some()
    }

    /// The name of the memory in a store of its copies: its id, and which of its lives.
    pub fn tier_identity(&self) -> [u8; 24] {
        let mut identity = [0; 24];
        for (number, chunk) in identity.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.segment().load(header::MEMORY_ID + number as u64 * 8).to_le_bytes());
        }
        identity
    }

    /// The copy with this name, where this process has the tier.
    pub(crate) fn copy(&self, name: Name) -> Result<Vec<u8>, Stop> {
        let copies = self.tier.copies.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(copies) = copies else { return Err(Stop::Cold) };
        match copies.get(name) {
            Ok(Some(copy)) => Ok(copy),
            Ok(None) => Err(Fault::System(format!(
                "the tier has no copy for the key at position {:#x}: its folder is not whole",
                name.position
            ))
            .into()),
            Err(why) => Err(Fault::System(why).into()),
        }
    }

    /// Notes whether a writer finds room. Returns since when none does, in milliseconds.
    pub(crate) fn note_crowd(&self, is_crowded: bool, now_ms: u64) -> u64 {
        let (since, last) = (&self.tier.crowded_since_ms, &self.tier.crowded_last_ms);
        let is_old = is_crowded && now_ms > last.swap(now_ms, Ordering::Relaxed) + CROWD_MS;
        if is_old {
            since.store(0, Ordering::Relaxed);
        }
        match since.load(Ordering::Relaxed) {
            0 if is_crowded => since.store(now_ms, Ordering::Relaxed),
            0 => {}
            _ if !is_crowded => since.store(0, Ordering::Relaxed),
            since_ms => return now_ms.saturating_sub(since_ms),
        }
        0
    }
}
