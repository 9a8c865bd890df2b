//! The real table under shuttle, which chooses the order of the steps of its threads.
//!
//! Each scenario is a small table and two or three threads with seats of their own. Each access to a word of the segment is a step
//! (`shm/src/sync.rs`), and a thread may die before any of its stores (`shm/src/schedules.rs`). What must hold is asserted at the end of
//! each schedule, `Table::verify` included. Each scenario also runs with flaws that the code has on purpose (`Flaw`): the test must find
//! them, or it proves nothing.
//!
//! These tests prove the order of steps, not the choice of barriers (shm/tests/models/orderings.rs).

#[path = "../common/mod.rs"]
mod common;
mod counters;
mod extents;
mod listeners;
mod several;
mod snapshots;
mod swaps;

use std::sync::Arc;
use std::thread::LocalKey;

use polder_shm::scenario::{BROKEN, Prepared};
use polder_shm::schedules::quietly;
use polder_table::{New, Replaces, Stop, Table, Txn};
use polder_values::{Kind, Value, string};
use shuttle::thread::{self, JoinHandle};

/// The table of one schedule.
pub struct Memory {
    pub table: Arc<Table>,
}

impl Memory {
    /// The table as it was prepared.
    pub fn renewed(prepared: &'static LocalKey<Prepared>) -> Memory {
        Memory { table: Arc::new(Table::seeded(prepared.with(Prepared::renewed), 1)) }
    }

    /// Begins a thread with a seat of its own, which dies before its store number `stores`, if that is said. `None`: it died.
    pub fn spawn<R: Send + 'static>(
        &self,
        stores: Option<u32>,
        life: impl FnOnce(&Table) -> R + Send + 'static,
    ) -> JoinHandle<Option<R>> {
        let table = self.table.clone();
        thread::spawn(move || table.segment().live(stores, |_| life(&table)))
    }

    /// Does something in this thread, with a seat for it.
    pub fn run<R>(&self, work: impl FnOnce(&Table) -> R) -> R {
        self.table.segment().live(None, |_| work(&self.table)).expect("it does not die")
    }

    /// Recovers what the dead have left, and checks that the table is sound.
    pub fn check(&self) {
        self.run(|table| {
            table.segment().recover_dead();
            let report = quietly(|| table.verify().expect("a seat"));
            assert!(report.is_clean(), "{BROKEN}{report}");
        });
    }
}

/// Prepares a segment whose table holds what `fill` puts there.
pub fn prepared(fill: impl FnOnce(&Table) + Send) -> Prepared {
    Prepared::new(|segment| fill(&Table::seeded(segment.clone(), 1)))
}

/// Waits for threads; how many of them died.
pub fn join<R>(threads: Vec<JoinHandle<Option<R>>>) -> usize {
    let lives = threads.into_iter().map(|thread| thread.join().expect("no panic"));
    lives.filter(Option::is_none).count()
}

/// Gives a key a packed string.
pub fn write(txn: &Txn<'_>, db: u16, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    txn.write(db, key, &New::of(Kind::String, Value::Packed(value)), Replaces::Whole)
}

/// The string of a key.
pub fn read(txn: &Txn<'_>, db: u16, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
    let Some(found) = txn.find(db, key)? else { return Ok(None) };
    Ok(Some(string::contiguous(txn, &found.value)?.into_owned()))
}

/// A number in text, of always as many bytes.
pub fn padded(number: u64) -> Vec<u8> {
    format!("{number:8}").into_bytes()
}

/// The number that a key has: its value in text.
pub fn number(bytes: &[u8]) -> u64 {
    std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok()).expect("a number")
}
