//! Retired nodes are freed: however many one transaction retires, beside stopped readers, and after the thread that retired them has ended.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::Place;
use polder_table::{New, Replaces};
use polder_values::{Kind, Value};

/// Bytes that a record of 100 takes, with room to spare.
const RECORD: u64 = 200;

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(100)
}

fn retired(place: &Place) -> u64 {
    place.table.usage().retired
}

#[test]
fn large_transactions_leave_no_more_behind_than_a_few_of_them_retire() {
    let place = Place::new();
    const KEYS: u32 = 9_000;
    (0..KEYS).for_each(|number| place.set(0, &number.to_le_bytes(), &[1; 100], None));
    for round in 0..30u8 {
        place.run(|txn| {
            (0..KEYS).try_for_each(|number| {
                txn.write(
                    0,
                    &number.to_le_bytes(),
                    &New::of(Kind::String, Value::Packed(&[round; 100])),
                    Replaces::Whole,
                )
            })
        });
        assert!(retired(&place) < 4 * KEYS as u64 * RECORD, "{} bytes after {round} rounds", retired(&place));
    }
}

#[test]
fn large_values_are_freed_as_fast_as_they_are_replaced() {
    let place = Place::new();
    const BYTES: usize = 4 << 20;
    for round in 0..150u8 {
        place.set_string(0, b"large", &vec![round; BYTES]);
        assert!(retired(&place) < 8 * BYTES as u64, "{} bytes after {round} rounds", retired(&place));
    }
}

#[test]
fn a_transaction_finds_room_in_what_waits_to_be_freed() {
    const VALUE: usize = 1 << 20;
    let place = Place::with_ceiling(48 << 20);
    // Fewer than make a reclamation due.
    for round in 0..80u8 {
        place.set_string(0, b"large", &vec![round; 8 * VALUE]);
    }
}

#[test]
fn what_a_reader_holds_of_a_gone_thread_does_not_keep_the_rest() {
    let place = &Place::new();
    let (held, is_held) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    place.set(0, b"held", &[1; 100], None);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let _pinned = place.table.pinned().expect("a seat");
            held.send(()).expect("the test waits");
            let _ = is_done.recv();
        });
        is_held.recv().expect("held");
        let leaving = scope.spawn(|| {
            place.set(0, b"held", &[2; 100], None);
            // What is made from then on was made after the reader came.
            (0..1_000u32).for_each(|_| place.set(0, b"other", &[3; 100], None));
            (0..1_000u32).for_each(|number| place.set(0, &number.to_le_bytes(), &[3; 100], None));
            (0..80u32).for_each(|number| place.set(1, &number.to_le_bytes(), &[3; 4_000], None));
            place.run(|txn| {
                (0..1_000u32)
                    .try_for_each(|number| txn.remove(0, &number.to_le_bytes(), Replaces::Whole).map(|_| ()))
            });
            // Too few to make another reclamation due.
            (0..80u32).for_each(|number| assert!(place.remove(1, &number.to_le_bytes())));
        });
        leaving.join().expect("no panic");
        assert!(
            retired(place) > 800 * 100,
            "the thread left {} bytes behind, so this test shows nothing",
            retired(place)
        );
        for _ in 0..3 {
            place.table.segment().free_gone(soon());
        }
        assert!((1..=200 * RECORD).contains(&retired(place)), "{} bytes are left", retired(place));
        done.send(()).expect("it waits");
        reader.join().expect("no panic");
    });
    place.table.segment().free_gone(soon());
    assert_eq!(retired(place), 0);
}

#[test]
fn what_gone_threads_have_left_is_freed_step_by_step_and_seat_by_seat() {
    const THREADS: u64 = 12;
    const RECORDS: u64 = 300;
    let place = &Place::new();
    let set_all = |thread: u64, value: u8| {
        (0..RECORDS)
            .for_each(|number| place.set(0, &(thread * RECORDS + number).to_le_bytes(), &[value; 100], None));
    };
    (0..THREADS).for_each(|thread| set_all(thread, 1));
    let snapshot = place.table.snapshot(&mut || true).expect("nobody is in the way");
    // All at once, so that each has a seat of its own.
    let barrier = &std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        let leave = |thread| {
            scope.spawn(move || {
                set_all(thread, 2);
                barrier.wait();
            })
        };
        // Joined, not only awaited: their seats are free then.
        let threads: Vec<_> = (0..THREADS).map(leave).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    let left = retired(place);
    assert!(left > THREADS * RECORDS * 100, "{left} bytes were left behind");
    // As long as they are held there is no haste, however many they are.
    assert!((0..3 * THREADS).all(|_| !place.table.segment().free_gone(Instant::now())));
    drop(snapshot);
    while place.table.reclaim() {}
    for _ in 0..4 * THREADS {
        let before = retired(place);
        place.table.segment().free_gone(Instant::now());
        assert!(
            before - retired(place) <= 2 * RECORDS * RECORD,
            "{} bytes in one step",
            before - retired(place)
        );
    }
    assert!(retired(place) < RECORDS * 100, "{} of {left} bytes are left", retired(place));
}

#[test]
fn a_list_that_was_long_gives_its_blocks_back() {
    let place = Place::new();
    let reader = place.table.pinned().expect("a seat");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..100_000u32).for_each(|number| place.set(0, &number.to_le_bytes(), &[1; 100], None));
        });
    });
    let full = place.table.usage().used;
    drop(reader);
    let snapshot = place.table.snapshot(&mut || true).expect("nobody is in the way");
    (0..100_000u32).for_each(|number| place.set(0, &number.to_le_bytes(), &[2; 100], None));
    let held = place.table.usage().used;
    assert!(held > full + 100_000 * 100, "{full} and then {held} bytes");
    drop(snapshot);
    while place.table.run_maintenance(100_000) <= 1 {}
    let left = place.table.usage().used;
    assert!(left < full + full / 50, "{full} bytes at first, {left} at last");
}
