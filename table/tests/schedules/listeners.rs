//! Threads that listen to changes: the header shows each of them, and none misses the change that it waits for.

use polder_shm::layout::{header, interest};
use polder_shm::scenario::{BROKEN, Prepared, explore, find};
use polder_shm::schedules::{Sleeps, quietly};
use polder_shm::sync::{self, Flaw};
use polder_table::interest::{interest_at, lose_interest, take_interest};
use polder_table::{Change, ChangeSink, CommitView, Stop, Table, Txn};

use crate::common::{run, untold};
use crate::{Memory, join, prepared, read, write};

const KEY: &[u8] = b"awaited";
const OTHER: &[u8] = b"other";
/// What the listeners of these scenarios hear of.
const BIT: u64 = interest::TRACKERS;
const ROUNDS: u32 = 2;
const INBOX_BYTES: u64 = 1 << 20;

thread_local! {
    static PREPARED: Prepared = prepared(|table| {
        run(table, |txn| [KEY, OTHER].iter().try_for_each(|key| write(txn, 0, key, b"0")));
    });
}

fn coming_and_going() {
    let memory = Memory::renewed(&PREPARED);
    let listen = |table: &Table| {
        let seat = table.seat().expect("a seat");
        let is_shown =
            || assert!(table.segment().load(header::INTEREST) & BIT != 0, "{BROKEN}a listener is not shown");
        for _ in 0..ROUNDS {
            take_interest(&seat, BIT);
            is_shown();
            sync::yield_now();
            is_shown();
            lose_interest(&seat, BIT);
        }
    };
    join((0..2).map(|_| memory.spawn(None, listen)).collect());
    assert_eq!(memory.table.segment().load(header::INTEREST) & BIT, 0, "{BROKEN}a bit is left");
    memory.check();
}

/// Tells each seat that listens which keys have changed.
struct Sink;

impl ChangeSink for Sink {
    fn tell(&self, txn: &dyn CommitView, changes: &[Change<'_>]) -> Result<(), Stop> {
        let segment = txn.segment();
        for index in 0..segment.seats_high() {
            let (bits, life) = interest_at(segment, index);
            if bits & BIT != 0 && segment.lives(index, life) {
                changes.iter().for_each(|change| txn.post(index, life, &[change.key.unwrap_or_default()]));
            }
        }
        Ok(())
    }
}

/// Waits until the key has this value. Only a message ends a sleep. As in the hub, the transaction that reads the key holds its lock when it
/// stores the interest: a writer that has looked for listeners before has committed by then, and a later one sees the interest.
fn await_value(table: &Table, value: &[u8]) {
    let seat = table.seat().expect("a seat");
    quietly(|| seat.open_inbox(INBOX_BYTES).expect("room"));
    let mut message = Vec::new();
    let has_come = |txn: &Txn<'_>| {
        txn.declare(&[(0, KEY)])?;
        take_interest(txn.seat(), BIT);
        Ok(read(txn, 0, KEY)?.as_deref() == Some(value))
    };
    while !run(table, has_come) {
        while !seat.receive(&mut message).expect("a sound inbox") {
            seat.sleep(None);
        }
    }
    lose_interest(&seat, BIT);
}

/// Gives a key a value: by the fast path while no thread listens, else by a transaction that tells.
fn set(table: &Table, key: &[u8], value: &[u8]) {
    let location = table.location(0, key).expect("a database");
    let times = (polder_shm::now_ms(), 1);
    if table.quick_edit(&location, key, times, |_| (Some(value), ()), untold).is_none() {
        run(table, |txn| {
            txn.declare(&[(0, key)])?;
            write(txn, 0, key, value)?;
            txn.note_change('$', "set", 0, key);
            Ok(())
        });
    }
}

fn waiting() {
    let memory = Memory::renewed(&PREPARED);
    memory.table.listen(&Sink);
    let waiter = memory.spawn(None, |table| await_value(table, b"1"));
    let writer = memory.spawn(None, |table| set(table, KEY, b"1"));
    // Another listener that comes and goes.
    let other = memory.spawn(None, |table| {
        let seat = table.seat().expect("a seat");
        take_interest(&seat, BIT);
        lose_interest(&seat, BIT);
    });
    join(vec![waiter, writer, other]);
    memory.check();
}

#[test]
fn a_listening_seat_shows_in_the_header_while_another_stops_listening() {
    explore(Sleeps::ByThemselves, coming_and_going);
}

#[test]
fn a_listener_that_finds_the_bit_set_and_does_not_count_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::CountsNoInterest), coming_and_going);
}

#[test]
fn a_thread_that_waits_for_a_change_is_woken_by_it() {
    explore(Sleeps::UntilWoken, waiting);
}

#[test]
fn a_waiter_is_missed_when_another_does_not_count() {
    find(Sleeps::UntilWoken, Some(Flaw::CountsNoInterest), waiting);
}

#[test]
fn a_writer_that_looks_for_listeners_before_it_locks_is_caught() {
    find(Sleeps::UntilWoken, Some(Flaw::TellsNoneUnderLock), waiting);
}
