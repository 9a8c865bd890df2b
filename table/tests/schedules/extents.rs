//! An extent that grows under readers and writers of its keys, and an entry that moves between its buckets under a reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use polder_shm::now_ms;
use polder_shm::scenario::{BROKEN, Prepared, explore, explore_for, fate, find};
use polder_shm::schedules::{Sleeps, draw, quietly};
use polder_shm::sync::Flaw;
use polder_table::directory::{map_at, walk};
use polder_table::{Replaces, Table};

use crate::common::{get, run};
use crate::{Memory, join, number, padded, prepared, write};

/// The key that is read and written.
const KEY: &[u8] = b"key:0";
/// Another database notes which key comes next, for which there is no room, which one lies elsewhere than at home, and which one lies in the
/// home of that one.
const NEW: &[u8] = b"new";
const DISPLACED: &[u8] = b"displaced";
const AT_HOME: &[u8] = b"at home";
const NAMES: u16 = 2;
/// Entries of as many units as there can be, so that few fill an extent.
const WIDTH: usize = 40;
const WRITES: u64 = 2;
const READS: u32 = 4;
/// A schedule in which an extent grows has some thousand steps.
const EXPLORED: Duration = Duration::from_secs(6);
/// Stores of a thread that makes an extent grow, about.
const STORES: u32 = 1_500;

fn wide(value: u64) -> Vec<u8> {
    let mut text = padded(value);
    text.resize(WIDTH, b' ');
    text
}

fn key(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

fn set(table: &Table, db: u16, key: &[u8], value: &[u8]) {
    run(table, |txn| write(txn, db, key, value));
}

/// How many pieces the first extent of a database has.
fn pieces(table: &Table, db: u16) -> u64 {
    let root = table.segment().load(map_at(db) + 8);
    walk(table.segment(), root, 0).expect("an extent").pieces
}

/// Fills database 0 so that the next key makes it grow. Keys lie alike in all databases, so that is tried in another one.
fn fill(table: &Table) {
    let mut keys = 0;
    loop {
        set(table, 1, &key(keys), &wide(0));
        if pieces(table, 1) > 1 {
            break;
        }
        keys += 1;
    }
    run(table, |txn| txn.flush(Some(1)));
    (0..keys).for_each(|number| set(table, 0, &key(number), &wide(0)));
    assert_eq!(pieces(table, 0), 1);
    set(table, NAMES, NEW, &key(keys));
    note_displaced(table, keys);
}

/// Notes a key that lies elsewhere, and one that lies in its home.
fn note_displaced(table: &Table, keys: usize) {
    let seen = |number: usize| table.inspect(0, &key(number)).expect("a seat").expect("there");
    let at_home = |home: u64| {
        (1..keys).find(|number| seen(*number).bucket == home && seen(*number).displacement == "home")
    };
    for number in (1..keys).filter(|number| seen(*number).displacement != "home") {
        if let Some(other) = at_home(seen(number).home) {
            set(table, NAMES, DISPLACED, &key(number));
            set(table, NAMES, AT_HOME, &key(other));
            return;
        }
    }
    panic!("no entry of a full extent is displaced");
}

thread_local! {
    static FULL: Prepared = prepared(fill);
}

/// The name that was noted under this one.
fn noted(table: &Table, name: &[u8]) -> Vec<u8> {
    quietly(|| get(table, NAMES, name)).expect("it was noted")
}

/// Reads a key in one of the ways that a command has.
fn look(table: &Table, key: &[u8]) -> Option<u64> {
    let way = draw(3);
    let plain = if way == 0 { table.read_plain(0, table.hash(key), key, number) } else { None };
    let quick = || {
        let location = if way == 1 { table.location(0, key) } else { None };
        location.and_then(|location| table.quick_get(&location, key, now_ms(), |value| value.map(number)))
    };
    plain.map(Some).or_else(quick).unwrap_or_else(|| get(table, 0, key).map(|value| number(&value)))
}

fn growing(dies: bool) {
    let memory = Memory::renewed(&FULL);
    let done = Arc::new(AtomicU64::new(0));
    let grower = memory.spawn(if dies { fate(2, STORES) } else { None }, |table| {
        set(table, 0, &noted(table, NEW), &wide(1));
    });
    let acknowledged = done.clone();
    let writer = memory.spawn(None, move |table| {
        for value in 1..=WRITES {
            let location = table.location(0, KEY).expect("a database");
            if draw(2) == 0 || table.quick_set(&location, KEY, &wide(value), now_ms(), 1).is_none() {
                set(table, 0, KEY, &wide(value));
            }
            acknowledged.store(value, Relaxed);
        }
    });
    memory.run(|table| {
        for _ in 0..READS {
            let acknowledged = done.load(Relaxed);
            let seen =
                look(table, KEY).unwrap_or_else(|| panic!("{BROKEN}a reader misses a key that is there"));
            assert!(seen >= acknowledged, "{BROKEN}a reader sees what was before a write");
        }
    });
    let dead = join(vec![grower]);
    join(vec![writer]);
    memory.check();
    memory.run(|table| {
        quietly(|| {
            let keys: Vec<_> =
                (0..).map(|number| get(table, 0, &key(number))).take_while(Option::is_some).collect();
            assert_eq!(keys[0].as_deref().map(number), Some(WRITES), "{BROKEN}a write is lost");
            let has_new = get(table, 0, &noted(table, NEW)).is_some();
            assert!(dead > 0 || has_new && pieces(table, 0) > 1, "{BROKEN}the new key is lost");
            assert_eq!(keys.len() as u64, table.keys(0).0, "{BROKEN}a key is lost");
        });
    });
}

/// A key goes, and one that had no room at home moves there.
fn moving() {
    let memory = Memory::renewed(&FULL);
    let displaced = noted(&memory.table, DISPLACED);
    let mover = memory.spawn(None, |table| {
        let (displaced, at_home) = (noted(table, DISPLACED), noted(table, AT_HOME));
        run(table, |txn| txn.remove(0, &at_home, Replaces::Whole));
        set(table, 0, &displaced, b"1");
    });
    memory.run(|table| {
        for _ in 0..READS {
            assert!(look(table, &displaced).is_some(), "{BROKEN}a reader misses a key that is there");
        }
    });
    join(vec![mover]);
    memory.check();
}

#[test]
fn a_key_is_found_and_no_write_is_lost_while_its_extent_grows() {
    explore_for(EXPLORED, Sleeps::ByThemselves, || growing(false));
}

#[test]
fn nothing_is_lost_when_a_thread_dies_while_it_grows_an_extent() {
    explore_for(EXPLORED, Sleeps::ByThemselves, || growing(true));
}

#[test]
fn a_directory_that_names_an_extent_before_it_is_written_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::BuildsLate), || growing(false));
}

#[test]
fn growth_that_does_not_lock_the_old_buckets_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::GrowsUnlocked), || growing(false));
}

#[test]
fn a_key_is_found_while_its_entry_moves() {
    explore(Sleeps::ByThemselves, moving);
}

#[test]
fn a_miss_in_several_buckets_that_is_not_validated_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::BelievesMiss), moving);
}
