//! Compaction of the tier's store, once many of its copies are of no use.
//!
//! The store drops such copies when it merges its files, which happens by itself only where much is written. Copies that are of no use are counted as
//! those that no stub needs. Some of these are of use nevertheless, since entries in the memory are clean: so what one compaction has left is no reason for
//! the next.
use std::sync::Arc;
use std::thread::JoinHandle;

use polder_table::{Db, SYSTEM, Table};
use polder_tier::Store;

/// Copies of no use that are no reason yet.
const SPARE: u64 = 64 << 10;

/// See the module.
pub struct Compaction {
    running: Option<JoinHandle<()>>,
    /// The number of copies that the last one has left.
    floor: u64,
    /// The number of compactions that had been asked for when the last one began.
    asked: u64,
}

impl Compaction {
    /// None is running.
    pub fn new(table: &Table) -> Compaction {
        Compaction { running: None, floor: 0, asked: table.segment().tier().compactions_asked() }
    }

    /// Begins one where it is worthwhile or asked for, and notes the end of the last one. `copies`: those in the store.
    pub fn look(&mut self, table: &Table, store: &Arc<dyn Store>, copies: u64) {
        if let Some(thread) = self.running.take_if(|thread| thread.is_finished()) {
            if thread.join().is_err() {
                tracing::error!("a compaction of the tier has failed");
            }
            self.floor = copies;
        }
        let asked = table.segment().tier().compactions_asked();
        let cold: u64 = (0..SYSTEM).map(|db: Db| table.cold_keys(db)).sum();
        let is_worthwhile = copies > 2 * cold.max(self.floor) + SPARE;
        if self.running.is_some() || !is_worthwhile && asked == self.asked {
            return;
        }
        self.asked = asked;
        let store = store.clone();
        let begun = std::thread::Builder::new().name("polder-compact".into()).spawn(move || store.compact());
        self.running =
            begun.inspect_err(|error| tracing::error!(%error, "no thread can be had for a compaction")).ok();
    }

    /// Ends it.
    pub fn end(self, store: &Arc<dyn Store>) {
        if let Some(thread) = self.running {
            store.end();
            _ = thread.join();
        }
    }
}
