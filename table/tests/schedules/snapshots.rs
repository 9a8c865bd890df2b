//! A snapshot beside writers that change two keys together: it shows both as they were at one moment. That a reader must not take
//! records which came while it read is shown by the model in shm/tests/models/snapshot.rs: no schedule that is drawn here comes by it in time.

use std::sync::Arc;
use std::time::Duration;

use polder_shm::now_ms;
use polder_shm::scenario::{BROKEN, Prepared, explore_for, fate, find};
use polder_shm::schedules::{Sleeps, quietly};
use polder_shm::sync::Flaw;
use polder_table::Table;
use polder_values::string;
use shuttle::sync::Barrier;

use crate::common::{run, untold};
use crate::{Memory, join, number, padded, prepared, read, write};

const KEYS: [&[u8]; 2] = [b"one", b"other"];
/// What both keys hold together.
const SUM: u64 = 200;
const WRITERS: usize = 2;
const TRANSFERS: u32 = 2;
/// Stores of a writer, about.
const STORES: u32 = 200;
/// A snapshot looks at all databases, and at each word of each bucket.
const EXPLORED: Duration = Duration::from_secs(8);

thread_local! {
    static PREPARED: Prepared = prepared(|table| {
        run(table, |txn| KEYS.iter().try_for_each(|key| write(txn, 0, key, &padded(SUM / 2))));
    });
}

/// Takes one from the one key and adds it to the other.
fn transfer(table: &Table) {
    run(table, |txn| {
        txn.declare(&KEYS.map(|key| (0, key)))?;
        let mut has = [0; 2];
        for (has, key) in has.iter_mut().zip(KEYS) {
            *has = number(&read(txn, 0, key)?.expect("it is never removed"));
        }
        write(txn, 0, KEYS[0], &padded(has[0] - 1))?;
        write(txn, 0, KEYS[1], &padded(has[1] + 1))
    });
}

/// The numbers of all keys of a snapshot.
pub fn everything(table: &Table) -> Vec<u64> {
    let snapshot = table.snapshot(&mut || true).expect("a snapshot");
    let mut all = Vec::new();
    while let Some((_, items)) = snapshot.advance().expect("whole") {
        for item in &items {
            let found = snapshot.found(item).expect("whole").expect("it does not expire");
            all.push(number(&string::contiguous(&snapshot.view(), &found.value).expect("whole")));
        }
    }
    all
}

fn taking(dies: bool) {
    let memory = Memory::renewed(&PREPARED);
    let writers = (0..WRITERS).map(|_| {
        memory.spawn(if dies { fate(2, STORES) } else { None }, |table| {
            (0..TRANSFERS).for_each(|_| transfer(table))
        })
    });
    let writers = writers.collect();
    memory.run(|table| {
        for _ in 0..2 {
            let all = everything(table);
            assert_eq!(all.len(), KEYS.len(), "{BROKEN}a key comes twice or not at all");
            assert_eq!(all.iter().sum::<u64>(), SUM, "{BROKEN}not of one moment");
        }
    });
    join(writers);
    memory.check();
}

/// Writers of one key. One of them has drawn a block of versions before the snapshot: what it writes later has a lower version than what the
/// other one writes, although it may come after that.
fn crowding() {
    let memory = Memory::renewed(&PREPARED);
    let ready = Arc::new(Barrier::new(WRITERS + 1));
    let writers = (0..WRITERS).map(|writer| {
        let ready = ready.clone();
        memory.spawn(None, move |table| {
            if writer == 0 {
                quietly(|| set(table, 1));
            }
            ready.wait();
            set(table, 2);
        })
    });
    let writers = writers.collect();
    ready.wait();
    memory.run(|table| {
        assert_eq!(everything(table).len(), KEYS.len(), "{BROKEN}a key comes twice or not at all");
    });
    join(writers);
    memory.check();
}

/// Gives a key a value by a fast path.
fn set(table: &Table, value: u64) {
    let (key, value) = (KEYS[0], padded(value));
    let location = table.location(0, key).expect("a database");
    if table.quick_edit(&location, key, (now_ms(), 1), |_| (Some(&value), ()), untold).is_none() {
        run(table, |txn| write(txn, 0, key, &value));
    }
}

#[test]
fn a_snapshot_has_each_key_beside_writers_of_one() {
    explore_for(EXPLORED, Sleeps::ByThemselves, crowding);
}

#[test]
fn a_snapshot_is_of_one_moment_beside_writers_of_two_keys() {
    explore_for(EXPLORED, Sleeps::ByThemselves, || taking(false));
    explore_for(EXPLORED, Sleeps::ByThemselves, || taking(true));
}

#[test]
fn a_snapshot_that_waits_for_no_writer_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::AwaitsNoTransaction), || taking(false));
}

#[test]
fn a_writer_that_looks_for_each_key_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::LooksForEachKey), || taking(false));
}

#[test]
fn a_writer_that_saves_after_its_commit_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::SavesLate), || taking(false));
}
