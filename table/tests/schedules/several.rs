//! Several keys that are set at once by the fast path, which saves for a snapshot and appends to the change log by itself; and that are read at once.

use std::time::Duration;

use polder_shm::now_ms;
use polder_shm::scenario::{BROKEN, Prepared, explore_for, fate, find};
use polder_shm::schedules::{Sleeps, draw, quietly};
use polder_shm::sync::Flaw;
use polder_table::Table;

use crate::common::{get, run};
use crate::snapshots::everything;
use crate::{Memory, join, number, padded, prepared, write};

const KEYS: [&[u8]; 2] = [b"one", b"other"];
/// What both keys hold together.
const SUM: u64 = 200;
const WRITERS: u64 = 2;
const CALLS: u64 = 2;
const READS: u32 = 3;
/// Stores of a writer, about.
const STORES: u32 = 120;
const EXPLORED: Duration = Duration::from_secs(6);

fn fill(table: &Table) {
    run(table, |txn| KEYS.iter().try_for_each(|key| write(txn, 0, key, &padded(SUM / 2))));
}

thread_local! {
    static UNLOGGED: Prepared = prepared(fill);
    static LOGGED: Prepared = prepared(|table| {
        fill(table);
        table.log().turn_on().expect("a log");
    });
}

/// Gives both keys numbers with the same sum, by the fast path where it is free.
fn set_both(table: &Table, number: u64) {
    let values = [padded(number), padded(SUM - number)];
    let words = [KEYS[0], &values[0], KEYS[1], &values[1]];
    let location = table.location(0, KEYS[0]).expect("a database");
    if table.quick_set_all(&location, &words, now_ms()) {
        return;
    }
    run(table, |txn| {
        txn.declare(&KEYS.map(|key| (0, key)))?;
        let mark = txn.mark();
        KEYS.iter().zip(&values).try_for_each(|(key, value)| write(txn, 0, key, value))?;
        txn.tell(0, &[&[&b"MSET"[..]], &words[..]].concat());
        txn.account(mark);
        Ok(())
    });
}

fn writers(memory: &Memory, dies: bool) -> Vec<shuttle::thread::JoinHandle<Option<()>>> {
    let writer = |number: u64| {
        memory.spawn(if dies { fate(2, STORES) } else { None }, move |table| {
            // The outbox of the seat, which a fast path does not make.
            run(table, |txn| {
                txn.tells();
                Ok(())
            });
            (0..CALLS).for_each(|call| set_both(table, 1 + number * CALLS + call));
        })
    };
    (0..WRITERS).map(writer).collect()
}

/// A snapshot beside writers.
fn saving(dies: bool) {
    let memory = Memory::renewed(&UNLOGGED);
    let writers = writers(&memory, dies);
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

/// A reader of both keys beside writers.
fn reading(dies: bool) {
    let memory = Memory::renewed(&UNLOGGED);
    let writers = writers(&memory, dies);
    memory.run(|table| {
        let location = table.location(0, KEYS[0]).expect("a database");
        for _ in 0..READS {
            let mut seen = Vec::new();
            let read = |value: Option<&[u8]>| seen.push(value.map(number).expect("it is never removed"));
            if table.quick_get_all(&location, &KEYS, now_ms(), read) {
                assert_eq!(seen.iter().sum::<u64>(), SUM, "{BROKEN}not of one moment: {seen:?}");
            }
        }
    });
    join(writers);
    memory.check();
}

/// A merger beside writers: what was told last is what is there.
fn telling(dies: bool) {
    let memory = Memory::renewed(&LOGGED);
    let writers = writers(&memory, dies);
    memory.run(|table| {
        for _ in 0..1 + draw(2) {
            table.log().merge().expect("room");
        }
    });
    let dead = join(writers);
    memory.check();
    memory.run(|table| {
        quietly(|| {
            while table.log().merge().expect("room") {}
            let (mut stream, from) = (Vec::new(), table.log().range().0);
            table.log().read(from, &mut stream, usize::MAX).expect("nothing is trimmed");
            let values = KEYS.map(|key| get(table, 0, key).expect("it is never removed"));
            let last = format!(
                "$4\r\nMSET\r\n$3\r\none\r\n$8\r\n{}\r\n$5\r\nother\r\n$8\r\n{}\r\n",
                values[0].escape_ascii(),
                values[1].escape_ascii()
            );
            let told = stream.windows(4).filter(|bytes| bytes == b"MSET").count() as u64;
            assert!(told == 0 || stream.ends_with(last.as_bytes()), "{BROKEN}{}", stream.escape_ascii());
            assert!(dead > 0 || told == WRITERS * CALLS, "{BROKEN}{told} are told");
            assert!(told > 0 || values[0] == padded(SUM / 2), "{BROKEN}a change is not told");
        });
    });
}

#[test]
fn a_snapshot_is_of_one_moment_beside_writers_of_several_keys() {
    explore_for(EXPLORED, Sleeps::ByThemselves, || saving(false));
    explore_for(EXPLORED, Sleeps::ByThemselves, || saving(true));
}

#[test]
fn several_keys_are_read_as_of_one_moment() {
    explore_for(EXPLORED, Sleeps::ByThemselves, || reading(false));
    explore_for(EXPLORED, Sleeps::ByThemselves, || reading(true));
}

#[test]
fn a_reader_that_does_not_compare_at_the_end_what_it_has_relied_on_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::BelievesReads), || reading(false));
}

#[test]
fn what_is_told_last_of_several_keys_is_what_is_there() {
    explore_for(EXPLORED, Sleeps::ByThemselves, || telling(false));
    explore_for(EXPLORED, Sleeps::ByThemselves, || telling(true));
}

#[test]
fn an_update_of_several_keys_that_tells_before_it_commits_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::MovesTailEarly), || telling(true));
}
