//! Writers of the same keys, which may die, and a reader: no addition is lost, and no half of a transaction is seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use polder_shm::now_ms;
use polder_shm::scenario::{BROKEN, Prepared, explore, fate, find};
use polder_shm::schedules::{Sleeps, draw};
use polder_shm::sync::Flaw;
use polder_table::{Mode, Stop, Table, Txn};

use crate::common::{get, run, run_alone, try_run_as, untold};
use crate::{Memory, join, number, padded, prepared, read, write};

/// In one database, so that they may share a bucket.
const KEYS: [&[u8]; 2] = [b"one", b"other"];
const WRITERS: usize = 2;
const ADDITIONS: u64 = 2;
/// Stores of a writer that lives, about: a death is drawn among them.
const STORES: u32 = 120;
const READS: u32 = 3;

thread_local! {
    static PREPARED: Prepared = prepared(|table| {
        run(table, |txn| KEYS.iter().try_for_each(|key| write(txn, 0, key, &padded(0))));
    });
}

fn count(txn: &Txn<'_>, key: &[u8]) -> Result<u64, Stop> {
    Ok(number(&read(txn, 0, key)?.expect("it is never removed")))
}

fn add_in(txn: &Txn<'_>, key: &[u8]) -> Result<(), Stop> {
    write(txn, 0, key, &padded(count(txn, key)? + 1))
}

/// Adds one to the first key, in one of the ways that a command has.
fn add_one(table: &Table) {
    let (key, now) = (KEYS[0], now_ms());
    let location = table.location(0, key).expect("a database");
    let mut new = Vec::new();
    let done = match draw(4) {
        0 => {
            let edited = table.quick_edit(
                &location,
                key,
                (now, 1),
                |old| {
                    new = padded(number(old.expect("it is never removed")) + 1);
                    (Some(&new[..]), ())
                },
                untold,
            );
            edited.is_some()
        }
        1 => {
            let edited = table.edit_plain(
                &location,
                key,
                (now, 1),
                |old| {
                    new = padded(number(old) + 1);
                    Some((&new[..], ()))
                },
                |_| (),
            );
            edited.is_some()
        }
        2 => {
            run_alone(table, 0, key, |txn| add_in(txn, key));
            true
        }
        _ => false,
    };
    if !done {
        run(table, |txn| {
            txn.declare(&[(0, key)])?;
            add_in(txn, key)
        });
    }
}

/// Adds one to both keys in one transaction.
fn add_both(table: &Table) {
    run(table, |txn| {
        txn.declare(&KEYS.map(|key| (0, key)))?;
        KEYS.iter().try_for_each(|key| add_in(txn, key))
    });
}

/// Threads that do `work` a few times each, beside this one, which reads. Returns how often it was done, and how many died at it.
fn beside_writers(memory: &Memory, work: fn(&Table), dies: bool, reads: fn(&Table, u64)) -> (u64, u64) {
    let done = Arc::new(AtomicU64::new(0));
    let writers = (0..WRITERS).map(|_| {
        let (done, stores) = (done.clone(), if dies { fate(2, STORES) } else { None });
        memory.spawn(stores, move |table| {
            for _ in 0..ADDITIONS {
                work(table);
                done.fetch_add(1, Relaxed);
            }
        })
    });
    let writers = writers.collect();
    memory.run(|table| (0..READS).for_each(|_| reads(table, done.load(Relaxed))));
    let dead = join(writers) as u64;
    memory.check();
    (done.load(Relaxed), dead)
}

fn adding(dies: bool) {
    let memory = Memory::renewed(&PREPARED);
    let (done, dead) = beside_writers(&memory, add_one, dies, |table, done| {
        let location = table.location(0, KEYS[0]).expect("a database");
        let quick = table.quick_get(&location, KEYS[0], now_ms(), |value| value.map(number));
        let seen = quick.unwrap_or_else(|| get(table, 0, KEYS[0]).map(|value| number(&value)));
        assert!(
            seen.expect("it is never removed") >= done,
            "{BROKEN}a reader sees what was before an addition"
        );
    });
    let sum = memory.run(|table| number(&get(table, 0, KEYS[0]).expect("it is never removed")));
    assert!(
        (done..=done + dead).contains(&sum),
        "{BROKEN}{done} additions, {dead} deaths, and the count is {sum}"
    );
}

fn adding_to_both(dies: bool) {
    let memory = Memory::renewed(&PREPARED);
    let (done, dead) = beside_writers(&memory, add_both, dies, |table, done| {
        let seen = try_run_as(table, Mode::Read, |txn| Ok([count(txn, KEYS[0])?, count(txn, KEYS[1])?]));
        let [one, other] = seen.expect("it may be read");
        assert_eq!(one, other, "{BROKEN}a reader sees half of a transaction");
        assert!(one >= done, "{BROKEN}a reader sees what was before a transaction");
    });
    let sums = memory.run(|table| KEYS.map(|key| number(&get(table, 0, key).expect("it is never removed"))));
    assert_eq!(sums[0], sums[1], "{BROKEN}half of a transaction is left");
    assert!(
        (done..=done + dead).contains(&sums[0]),
        "{BROKEN}{done} additions, {dead} deaths, and the counts are {sums:?}"
    );
}

#[test]
fn no_addition_is_lost_whichever_ways_are_mixed() {
    explore(Sleeps::ByThemselves, || adding(false));
}

#[test]
fn no_acknowledged_addition_is_lost_at_any_death() {
    explore(Sleeps::ByThemselves, || adding(true));
}

#[test]
fn a_fast_path_that_locks_whatever_is_there_now_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::LocksUnseen), || adding(false));
}

#[test]
fn readers_see_all_of_a_transaction_or_nothing_at_any_death() {
    explore(Sleeps::ByThemselves, || adding_to_both(false));
    explore(Sleeps::ByThemselves, || adding_to_both(true));
}

#[test]
fn a_read_set_without_the_owners_status_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::ReadsNoStatus), || adding_to_both(false));
}
