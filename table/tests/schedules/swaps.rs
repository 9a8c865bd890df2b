//! Databases that are swapped or emptied beside writers, which may die, and readers.
//!
//! Writers write to database 0 only. So what database 1 holds changes by a swap alone. Where databases are emptied, a writer also writes to
//! one that is not: both of its writes become visible, or neither.

use std::time::Duration;

use polder_shm::now_ms;
use polder_shm::scenario::{BROKEN, Prepared, explore_for, fate, find};
use polder_shm::schedules::{Sleeps, draw};
use polder_shm::sync::{self, Flaw};
use polder_table::{Db, Mode, Table, Txn};
use shuttle::thread::JoinHandle;

use crate::common::{get, run, run_as};
use crate::{Memory, join, padded, prepared, read, write};

const KEYS: [&[u8]; 2] = [b"one", b"other"];
/// The database that is never swapped nor emptied.
const OTHER: Db = 2;
const WRITERS: u64 = 2;
const WRITES: u64 = 2;
const CHANGES: u32 = 2;
/// Looks at database 1 after a swap.
const LOOKS: u32 = 3;
/// Stores of a writer, about.
const STORES: u32 = 130;
/// A change of the map looks at all databases.
const EXPLORED: Duration = Duration::from_secs(6);

thread_local! {
    static PREPARED: Prepared = prepared(|table| {
        for db in 0..=OTHER {
            // No writer writes this.
            run(table, |txn| KEYS.iter().try_for_each(|key| write(txn, db, key, &padded(100 + u64::from(db)))));
        }
    });
}

fn both(table: &Table, db: Db) -> [Option<Vec<u8>>; 2] {
    run_as(table, Mode::Read, |txn| Ok([read(txn, db, KEYS[0])?, read(txn, db, KEYS[1])?]))
}

/// Writes both keys of database 0 in one transaction.
fn write_both(table: &Table, value: u64) {
    let value = &padded(value);
    run(table, |txn| {
        txn.declare(&KEYS.map(|key| (0, key)))?;
        KEYS.iter().try_for_each(|key| write(txn, 0, key, value))
    });
}

/// Writes one key of database 0, in one of the ways that a command has.
fn write_one(table: &Table, value: u64) {
    let (key, value) = (KEYS[0], &*padded(value));
    let done = match draw(3) {
        0 => table.write_plain(0, table.hash(key), key, value),
        1 => table
            .location(0, key)
            .and_then(|location| table.quick_set(&location, key, value, now_ms(), 1))
            .is_some(),
        _ => false,
    };
    if !done {
        run(table, |txn| {
            txn.declare(&[(0, key)])?;
            write(txn, 0, key, value)
        });
    }
}

fn begin_writers(memory: &Memory, dies: bool, work: fn(&Table, u64)) -> Vec<JoinHandle<Option<()>>> {
    let writers = (0..WRITERS).map(|writer| {
        let stores = if dies { fate(3, STORES) } else { None };
        memory.spawn(stores, move |table| {
            (0..WRITES).for_each(|number| work(table, 1 + writer * WRITES + number))
        })
    });
    writers.collect()
}

fn swapping(dies: bool, work: fn(&Table, u64)) {
    let memory = Memory::renewed(&PREPARED);
    let writers = begin_writers(&memory, dies, work);
    memory.run(|table| {
        for _ in 0..CHANGES {
            run(table, |txn| txn.swap(0, 1));
            let seen = KEYS.map(|key| get(table, 1, key));
            for _ in 0..LOOKS {
                sync::yield_now();
                assert_eq!(KEYS.map(|key| get(table, 1, key)), seen, "{BROKEN}written under another number");
            }
        }
    });
    join(writers);
    memory.check();
}

/// A reader of both keys of a database sees one directory, and all of a transaction.
fn reading() {
    let memory = Memory::renewed(&PREPARED);
    let writer = memory.spawn(None, |table| (1..=WRITES).for_each(|value| write_both(table, value)));
    let swapper = memory.spawn(None, |table| (0..CHANGES).for_each(|_| run(table, |txn| txn.swap(0, 1))));
    memory.run(|table| {
        for db in [0, 1, 0] {
            let [one, other] = both(table, db);
            assert!(one.is_some() && one == other, "{BROKEN}read from two databases: {one:?}, {other:?}");
        }
    });
    join(vec![writer, swapper]);
    memory.check();
}

fn emptying(dies: bool) {
    let memory = Memory::renewed(&PREPARED);
    let into_two = |txn: &Txn<'_>, value: u64| {
        let key = KEYS[0];
        txn.declare(&[(0, key), (OTHER, key)])?;
        [0, OTHER].iter().try_for_each(|db| write(txn, *db, key, &padded(value)))
    };
    let writer = memory.spawn(if dies { fate(3, STORES) } else { None }, move |table| {
        (1..=WRITES).for_each(|value| run(table, |txn| into_two(txn, value)));
    });
    let single = memory.spawn(None, |table| write_one(table, 50));
    memory.run(|table| {
        for _ in 0..CHANGES {
            run(table, |txn| txn.flush(Some(0)));
            let before = get(table, OTHER, KEYS[0]);
            sync::yield_now();
            let [emptied, other] =
                run_as(table, Mode::Read, |txn| Ok([read(txn, 0, KEYS[0])?, read(txn, OTHER, KEYS[0])?]));
            assert!(other == before || emptied.is_some(), "{BROKEN}half of it was emptied");
        }
    });
    join(vec![writer]);
    join(vec![single]);
    memory.check();
}

#[test]
fn no_write_reaches_a_database_that_was_swapped_away_at_any_death() {
    explore_for(EXPLORED, Sleeps::ByThemselves, || swapping(false, write_both));
    explore_for(EXPLORED, Sleeps::ByThemselves, || swapping(true, write_one));
}

#[test]
fn a_swap_that_waits_for_no_writer_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::AwaitsNoCommit), || swapping(false, write_both));
}

#[test]
fn a_swap_that_waits_before_it_has_locked_the_map_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::AwaitsBeforeLocking), || swapping(false, write_both));
}

#[test]
fn a_writer_that_leaves_its_commit_too_early_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::LeavesEarly), || swapping(false, write_both));
}

#[test]
fn a_writer_that_looks_at_the_map_before_it_enters_its_commit_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::EntersLate), || swapping(false, write_both));
}

#[test]
fn a_writer_that_looks_at_the_roots_before_the_maps_lock_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::LooksAtRootsFirst), || swapping(false, write_both));
}

#[test]
fn a_reader_of_two_keys_reads_one_database() {
    explore_for(EXPLORED, Sleeps::ByThemselves, reading);
}

#[test]
fn what_is_written_into_several_databases_is_emptied_before_or_after_as_a_whole() {
    explore_for(EXPLORED, Sleeps::ByThemselves, || emptying(false));
    explore_for(EXPLORED, Sleeps::ByThemselves, || emptying(true));
}

#[test]
fn a_flush_that_waits_for_no_writer_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::AwaitsNoCommit), || emptying(false));
}

#[test]
fn a_writer_into_several_that_looks_before_it_enters_its_commit_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::EntersLate), || emptying(false));
}
