//! SWAPDB beside writers: a write is done under the number that its database has when it becomes true, whichever way it takes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Place, untold};
use polder_shm::AttachOptions;
use polder_shm::{Changes, Locked, Seat, Segment, lock, now_ms};
use polder_table::directory::MAP_LOCK;
use polder_table::{Mode, New, Replaces, Stop, Txn};
use polder_values::{Kind, Value};

const KEYS: [&[u8]; 2] = [b"one", b"other"];

/// Ways to write a short string: those of one call, and transactions, which must not see a database under another number either.
const WAYS: u64 = 7;

fn write(txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    txn.write(0, key, &New::of(Kind::String, Value::Packed(value)), Replaces::Whole)
}

/// Gives database 0 this value, of one key or both, in one of the ways.
fn write_by(place: &Place, way: u64, value: &[u8]) {
    let (table, key) = (&place.table, KEYS[0]);
    let done = match way {
        0 => table.write_plain(0, table.hash(key), key, value),
        1 => table
            .location(0, key)
            .and_then(|location| {
                table.edit_plain(&location, key, (now_ms(), 1), |_| Some((value, ())), |_| ())
            })
            .is_some(),
        2 => table
            .location(0, key)
            .and_then(|location| {
                table.quick_edit(&location, key, (now_ms(), 1), |_| (Some(value), ()), untold)
            })
            .is_some(),
        3 => table
            .location(0, key)
            .and_then(|location| table.quick_set(&location, key, value, now_ms(), 1))
            .is_some(),
        4 => table.location(0, key).is_some_and(|location| {
            table.quick_set_all(&location, &[KEYS[0], value, KEYS[1], value], now_ms())
        }),
        _ => false,
    };
    if done {
        return;
    }
    let keys: &[&[u8]] = if way.is_multiple_of(2) { &KEYS } else { &KEYS[..1] };
    let declared: Vec<_> = keys.iter().map(|key| (0, *key)).collect();
    place.run(|txn| {
        txn.declare(&declared)?;
        keys.iter().try_for_each(|key| write(txn, key, value))
    });
}

/// The same with a key that is foreseen, as the engine does it.
fn write_foreseen(place: &Place, value: &[u8]) {
    let key = KEYS[0];
    loop {
        let location = place.table.location(0, key);
        let mut txn = place.table.begin(Mode::Write).expect("a seat");
        if let Some(location) = &location {
            txn.foresee(key, location);
        }
        let written =
            txn.declare(&[(0, key)]).and_then(|()| write(&txn, key, value)).and_then(|()| txn.commit());
        match written {
            Ok(()) => return,
            Err(Stop::Retry) => txn.abort(),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

#[test]
fn what_a_swap_has_put_elsewhere_is_written_no_more() {
    const SWAPS: u32 = 200_000;
    let place = &Place::new();
    let end = &AtomicBool::new(false);
    for db in 0..2 {
        KEYS.iter().for_each(|key| place.set(db, key, b"00000000", None));
    }
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let mut number = thread;
                while !end.load(Ordering::Relaxed) {
                    let value = format!("{number:08}");
                    match number % (WAYS + 1) {
                        WAYS => write_foreseen(place, value.as_bytes()),
                        way => write_by(place, way, value.as_bytes()),
                    }
                    number += 3;
                }
            });
        }
        for number in 0..SWAPS {
            place.run(|txn| txn.swap(0, 1));
            // No thread writes to database 1 under that number.
            let seen = KEYS.map(|key| place.get(1, key));
            (0..number % 64).for_each(|_| std::hint::spin_loop());
            let later = KEYS.map(|key| place.get(1, key));
            if seen != later {
                end.store(true, Ordering::Relaxed);
            }
            assert_eq!(seen, later, "after {number} swaps");
        }
        end.store(true, Ordering::Relaxed);
    });
}

/// What another process does and stands still in: this very test again, with the segment's name in its environment.
const STOPPED: &str = "POLDER_SWAP_STOPPED";

/// In that process: does `part` of something with a seat of its own, and goes no farther.
fn do_and_stand_still(part: impl Fn(&Seat)) {
    let Ok(name) = std::env::var(STOPPED) else { return };
    let segment =
        Segment::attach(&name.parse().expect("a name"), &AttachOptions::default(), &mut |_, _| Ok(()))
            .expect("the parent's segment");
    part(&segment.seat().expect("a seat"));
    println!("stands still");
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn stopped_beside(place: &Place) -> Child {
    let this = std::thread::current().name().expect("tests have names").to_owned();
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([&this, "--exact", "--nocapture"])
        .env(STOPPED, place.name.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("stands still")), "it died early");
    child
}

/// Writes with a patience of some milliseconds.
fn write_impatiently(place: &Place, db: u16) -> Result<(), Stop> {
    let txn = place.table.begin(Mode::Write).expect("a seat");
    txn.limit_patience(Duration::from_millis(20));
    loop {
        let new = New::of(Kind::String, Value::Packed(b"new"));
        match txn
            .declare(&[(db, KEYS[0])])
            .and_then(|()| txn.write(db, KEYS[0], &new, Replaces::Whole))
            .and_then(|()| txn.commit())
        {
            Err(Stop::Retry) => txn.abort(),
            done => return done,
        }
    }
}

#[test]
fn a_writer_that_stops_in_its_commit_holds_up_swaps_only() {
    do_and_stand_still(|seat| seat.enter_commit(0b111, false));
    let place = &Place::new();
    (0..3).for_each(|db| place.set(db, KEYS[0], b"old", None));
    let mut closing = stopped_beside(place);
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A single swapper lets other threads go on now and then. With several, one must not take what another has just let go.
        let swappers = [(0, 1), (1, 2), (2, 0)].map(|(one, other)| {
            scope.spawn(move || {
                place.run(|txn| txn.swap(one, other));
                done.store(true, Ordering::Relaxed);
            })
        });
        let begun = Instant::now();
        let mut writes = 0;
        while begun.elapsed() < Duration::from_millis(500) {
            (0..3).for_each(|db| place.set(db, KEYS[0], format!("{db}").as_bytes(), None));
            assert_eq!(place.get(0, KEYS[0]).as_deref(), Some(&b"0"[..]));
            writes += 1;
        }
        let is_early = done.load(Ordering::Relaxed);
        closing.kill().expect("a process");
        assert!(writes > 5_000 && !is_early, "{writes} rounds");
        swappers.into_iter().for_each(|swapper| swapper.join().expect("no panic"));
    });
    let mut found = [0, 1, 2].map(|db| place.get(db, KEYS[0]).expect("a value"));
    found.sort();
    assert_eq!(found, [b"0", b"1", b"2"]);
    closing.wait().expect("killed");
}

#[test]
fn a_flush_waits_for_writers_into_several_databases() {
    do_and_stand_still(|seat| seat.enter_commit(0b11, true));
    let place = &Place::new();
    (0..2).for_each(|db| place.set(db, KEYS[0], b"old", None));
    let mut closing = stopped_beside(place);
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| place.run(|txn| txn.flush(Some(0))));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(200) {
            (0..2).for_each(|db| place.set(db, KEYS[0], b"new", None));
        }
        let (value, is_early) = (place.get(0, KEYS[0]), flush.is_finished());
        closing.kill().expect("a process");
        assert_eq!((value.as_deref(), is_early), (Some(&b"new"[..]), false));
        flush.join().expect("no panic");
    });
    assert_eq!([0, 1].map(|db| place.get(db, KEYS[0])), [None, Some(b"new".to_vec())]);
    closing.wait().expect("killed");
}

#[test]
fn a_flush_does_not_wait_for_writers_into_one_database() {
    do_and_stand_still(|seat| seat.enter_commit(0b1, false));
    let place = &Place::new();
    place.set(0, KEYS[0], b"old", None);
    let mut closing = stopped_beside(place);
    place.run(|txn| txn.flush(Some(0)));
    assert_eq!(place.get(0, KEYS[0]), None);
    closing.kill().expect("a process");
    closing.wait().expect("killed");
}

#[test]
fn a_change_of_other_databases_waits_for_no_writer() {
    do_and_stand_still(|seat| seat.enter_commit(0b11, true));
    let place = &Place::new();
    (2..4).for_each(|db| place.set(db, KEYS[0], format!("{db}").as_bytes(), None));
    let mut closing = stopped_beside(place);
    place.run(|txn| txn.swap(2, 3));
    place.run(|txn| txn.flush(Some(3)));
    assert_eq!([2, 3].map(|db| place.get(db, KEYS[0])), [Some(b"3".to_vec()), None]);
    closing.kill().expect("a process");
    closing.wait().expect("killed");
}

#[test]
fn a_swap_with_a_short_limit_locks_the_map_once_and_then_watches_the_writer() {
    do_and_stand_still(|seat| seat.enter_commit(0b1, false));
    let place = &Place::new();
    place.set(0, KEYS[0], b"old", None);
    let mut closing = stopped_beside(place);
    let swap = || {
        let txn = place.table.begin(Mode::Write).expect("a seat");
        txn.limit_patience(Duration::from_micros(100));
        loop {
            match txn.swap(0, 1).and_then(|()| txn.commit()) {
                Err(Stop::Retry) => txn.abort(),
                done => return done,
            }
        }
    };
    let tried = &Barrier::new(2);
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            assert!(matches!(swap(), Err(Stop::Busy)));
            tried.wait();
            (0..100).for_each(|_| assert!(matches!(swap(), Err(Stop::Busy))));
        });
        tried.wait();
        while !swaps.is_finished() {
            assert_eq!(
                lock::owner(place.table.segment().observe(MAP_LOCK)),
                None,
                "locked again, for nothing"
            );
        }
    });
    closing.kill().expect("a process");
    closing.wait().expect("killed");
    assert!((0..100).any(|_| swap().is_ok()));
    assert_eq!(place.get(1, KEYS[0]).as_deref(), Some(&b"old"[..]));
}

#[test]
fn flushall_empties_what_a_swap_moves_beside_it() {
    const ROUNDS: u32 = 3_000;
    let place = &Place::new();
    let (begin, end) = (&Barrier::new(2), &Barrier::new(2));
    let both = |one: &dyn Fn()| {
        begin.wait();
        one();
        end.wait();
    };
    let mut left = 0;
    std::thread::scope(|scope| {
        scope.spawn(move || (0..ROUNDS).for_each(|_| both(&|| place.run(|txn| txn.swap(0, 1)))));
        for _ in 0..ROUNDS {
            // Database 0 has no directory, and is given this one.
            place.set(1, KEYS[0], b"value", None);
            both(&|| place.run(|txn| txn.flush(None)));
            left += place.keys(0) + place.keys(1);
            place.run(|txn| txn.flush(None));
        }
    });
    assert_eq!(left, 0, "keys of {ROUNDS}");
}

#[test]
fn a_reader_finds_nothing_that_was_written_under_another_number() {
    const SECONDS: u64 = 2;
    let place = &Place::new();
    let end = &AtomicBool::new(false);
    let number = |value: Option<Vec<u8>>| -> u64 {
        value.map_or(0, |value| String::from_utf8(value).expect("digits").parse().expect("a number"))
    };
    // Long: by no short way.
    let long = |epoch: u64| format!("{epoch:0200}");
    (0..3).for_each(|db| place.set(db, KEYS[0], long(0).as_bytes(), None));
    std::thread::scope(|scope| {
        // With each swap an epoch begins, whose number is written into what is database 1 then.
        scope.spawn(move || {
            for epoch in 1.. {
                place.run(|txn| {
                    txn.declare(&[(2, KEYS[0])])?;
                    txn.swap(0, 1)?;
                    txn.write(
                        2,
                        KEYS[0],
                        &New::of(Kind::String, Value::Packed(long(epoch).as_bytes())),
                        Replaces::Whole,
                    )
                });
                place.set(1, KEYS[0], long(epoch).as_bytes(), None);
                if end.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let begun = Instant::now();
        let mut wrong = None;
        while begun.elapsed() < Duration::from_secs(SECONDS) && wrong.is_none() {
            let seen = number(place.get(0, KEYS[0]));
            let epoch = number(place.get(2, KEYS[0]));
            wrong = (seen > 0 && seen >= epoch).then_some((seen, epoch));
        }
        end.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None, "read of database 0, in this epoch or before");
    });
}

#[test]
fn a_stopped_swap_holds_up_writers_of_its_databases_alone_and_dies_without_harm() {
    do_and_stand_still(|seat| {
        seat.announce_changes(Changes { swapped: 0b11, emptied: 0 });
        assert!(matches!(seat.lock_now(MAP_LOCK), Ok(Locked::Ours(_))));
    });
    let place = &Place::new();
    (0..3).for_each(|db| place.set(db, KEYS[0], b"old", None));
    let mut swapping = stopped_beside(place);
    for db in 0..2 {
        assert!(matches!(write_impatiently(place, db), Err(Stop::Busy)), "database {db}");
        assert_eq!(place.get(db, KEYS[0]).as_deref(), Some(&b"old"[..]));
    }
    (0..100).for_each(|_| assert!(matches!(write_impatiently(place, 2), Ok(()))));
    swapping.kill().expect("a process");
    swapping.wait().expect("killed");
    for db in 0..2 {
        place.set(db, KEYS[0], b"after", None);
        assert_eq!(place.get(db, KEYS[0]).as_deref(), Some(&b"after"[..]));
    }
    place.run(|txn| txn.swap(0, 1));
}

/// T2: a transaction that has waited for the map's lock waits for no bucket, whose holder may be waiting for the map. It begins again.
#[test]
fn a_transaction_that_has_the_map_waits_for_no_bucket() {
    // In the order of locks, one of the two comes before the other.
    for [first, later] in [[0, 1], [1, 0]] {
        let place = Place::new();
        (0..2).for_each(|db| place.set_string(db, KEYS[0], b"v"));
        let (locked, done) = (Barrier::new(3), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let txn = place.table.begin(Mode::Write).expect("a seat");
                txn.declare(&[(later, KEYS[0])]).expect("it is free");
                locked.wait();
                done.wait();
            });
            scope.spawn(|| {
                let seat = place.table.seat().expect("a seat");
                assert!(matches!(seat.lock_now(MAP_LOCK), Ok(Locked::Ours(_))));
                locked.wait();
                std::thread::sleep(Duration::from_millis(50));
                seat.rollback();
            });
            locked.wait();
            let txn = place.table.begin(Mode::Write).expect("a seat");
            txn.limit_patience(Duration::from_secs(1));
            txn.declare(&[(first, KEYS[0])]).expect("it is free");
            txn.await_map().expect("it becomes free");
            let found = txn.find(later, KEYS[0]).map(drop);
            done.wait();
            assert_eq!(found, Err(Stop::Retry));
        });
    }
}
