//! Maintenance: what it frees, and what it does not wait for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Ends, Place};
use crate::held::while_held;
use polder_shm::layout::{ROOTS_AT, seat as at};
use polder_shm::{Locked, Tag};
use polder_table::directory::{self, database, extent, map_at};
use polder_table::{Counter, Limits, Mode, New, Policy, Replaces, SYSTEM, Stop};
use polder_values::{Kind, Value, hash};

/// The lock of the thread that sweeps flushed databases (`table::directory`).
const SWEEP_LOCK: u64 = ROOTS_AT + 8;

#[test]
fn what_a_gone_thread_has_retired_is_freed() {
    let place = &Place::new();
    std::thread::scope(|scope| {
        let leaving = scope.spawn(|| {
            let keys: Vec<Vec<u8>> = (0..70u32).map(|number| number.to_le_bytes().to_vec()).collect();
            keys.iter().for_each(|key| place.set(0, key, &[1; 2_000], None));
            keys.iter().for_each(|key| assert!(place.remove(0, key)));
        });
        // The end of the scope alone would not wait for the thread to give its seat back.
        leaving.join().expect("no panic");
    });
    assert!(place.table.usage().retired > 0, "the thread left nothing behind, so this test shows nothing");
    (0..3).for_each(|_| maintain(place));
    assert_eq!(place.table.usage().retired, 0);
}

#[test]
fn a_flush_of_every_database_needs_no_second_try() {
    let place = &Place::new();
    (0..SYSTEM).for_each(|db| place.set(db, b"key", b"1", None));
    place.run(|txn| txn.flush(None));
    assert!((0..SYSTEM).all(|db| place.keys(db) == 0));
    let begun = Instant::now();
    while place.table.run_maintenance(1_000_000) <= 1 && begun.elapsed() < Duration::from_secs(20) {}
}

/// One round of maintenance.
fn maintain(place: &Place) {
    place.table.run_maintenance(100_000);
}

/// Has what sweepers of flushed databases lock.
fn sweeping(place: &Place) -> impl FnOnce(&dyn Fn()) + Send {
    move |wait| {
        let seat = place.table.seat().expect("a seat");
        assert!(matches!(seat.lock(SWEEP_LOCK, None), Ok(Locked::Ours(_))));
        wait();
        seat.rollback();
    }
}

/// Has a key.
fn locking<'p>(place: &'p Place, key: &'p [u8]) -> impl FnOnce(&dyn Fn()) + Send {
    move |wait| {
        let txn = place.table.begin(Mode::Write).expect("a seat");
        txn.declare(&[(0, key)]).expect("free");
        wait();
    }
}

#[test]
fn a_stopped_sweeper_stops_no_other_call() {
    let place = &Place::new();
    place.set(0, b"key", &[1; 500], None);
    place.run(|txn| txn.flush(Some(0)));
    let took = while_held(sweeping(place), || maintain(place));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_sweep_that_a_stopped_thread_blocks_is_tried_less_and_less_often() {
    let place = &Place::new();
    place.set(0, b"key", &[1; 500], None);
    place.run(|txn| txn.flush(Some(0)));
    let round = || place.table.run_maintenance(100_000);
    while_held(sweeping(place), || {
        let pauses: Vec<u64> = (0..12).map(|_| round()).collect();
        assert_eq!(pauses[0], 1, "mostly he is not stopped");
        assert!(pauses.is_sorted() && pauses[11] > 100, "{pauses:?}");
    });
    let begun = Instant::now();
    while round() < 1_000 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is swept at last");
    }
    assert_eq!(place.table.usage().retired, 0);
    // The next time begins anew.
    place.set(0, b"key", &[1; 500], None);
    place.run(|txn| txn.flush(Some(0)));
    while_held(sweeping(place), || assert_eq!(round(), 1));
}

#[test]
fn an_expired_key_that_is_locked_is_removed_later() {
    let place = &Place::new();
    place.set(0, b"key", b"1", Some(polder_base::time::now_ms() + 5));
    std::thread::sleep(Duration::from_millis(10));
    let took = while_held(locking(place, b"key"), || maintain(place));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(place.keys(0), 1);
    maintain(place);
    assert_eq!(place.keys(0), 0);
}

#[test]
fn the_time_that_expiry_takes_is_counted_and_so_are_rounds_that_were_too_short() {
    let place = &Place::new();
    let now = polder_base::time::now_ms();
    (0..3_000u32).for_each(|number| place.set(0, &number.to_le_bytes(), &[1; 100], Some(now + 50)));
    assert_eq!(place.table.counter(Counter::ExpiryCuts), 0);
    std::thread::sleep(Duration::from_millis(60));
    place.table.run_maintenance(0);
    assert!(place.table.counter(Counter::ExpiryCuts) > 0);
    (0..100).for_each(|_| maintain(place));
    assert_eq!(place.keys(0), 0);
    assert!(place.table.counter(Counter::ExpiryUs) > 0);
}

/// Makes a key a hash of `fields` numbered fields; those that `expiry` says expire.
fn set_fields(place: &Place, db: u16, key: &[u8], fields: u32, expiry: impl Fn(u32) -> Option<u64>) {
    place.run(|txn| {
        let mut draft = hash::Draft::empty(hash::Thresholds::NONE);
        for field in 0..fields {
            let (name, expiry) =
                (field.to_le_bytes(), expiry(field).map_or(hash::Expiry::None, hash::Expiry::At));
            let spot = draft.find(txn, &name, || 0)?;
            draft.put(txn, &spot, &name, b"value", expiry)?;
        }
        let (value, inner_expiry_ms) = draft.finish(txn)?;
        txn.write(db, key, &New { inner_expiry_ms, ..New::of(Kind::Hash, value) }, Replaces::Whole)
    });
}

/// Fields of a hash that are stored, expired or not.
fn fields(place: &Place, db: u16, key: &[u8]) -> Option<u64> {
    place.run(|txn| Ok(txn.find(db, key)?.map(|found| hash::Hash::of(&found.value).count()).transpose()?))
}

#[test]
fn a_hash_without_a_living_field_is_no_key_and_is_freed_whole() {
    let place = &Place::new();
    let past = polder_base::time::now_ms() - 1;
    for (number, fields) in [1, 20, 2_000].into_iter().enumerate() {
        let counted = place.table.counter(Counter::ExpiredFields);
        let key = [number as u8];
        set_fields(place, 0, &key, fields, |_| Some(past));
        for mode in [Mode::Read, Mode::Write] {
            crate::common::run_as(&place.table, mode, |txn| {
                assert!(txn.peek(0, &key)?.is_none() && txn.random_key(0)?.is_none());
                let mut scanned = 0;
                txn.scan(0, 0, 100, &mut |_| scanned += 1)?;
                assert_eq!(scanned, 0);
                Ok(())
            });
        }
        assert!(!place.remove(0, &key));
        assert_eq!(
            (place.keys(0), place.table.counter(Counter::ExpiredFields) - counted),
            (0, u64::from(fields))
        );
    }
    assert_eq!(place.table.counter(Counter::Expired), 0);
}

#[test]
fn fields_that_have_expired_are_collected_and_the_key_goes_with_the_last() {
    let place = &Place::new();
    let soon = polder_base::time::now_ms() + 2_000;
    let odd = |field: u32| (!field.is_multiple_of(2)).then_some(soon + u64::from(field % 20));
    set_fields(place, 0, b"small", 20, odd);
    set_fields(place, 0, b"large", 5_000, odd);
    set_fields(place, 0, b"all", 2_000, |_| Some(soon));
    set_fields(place, 0, b"none", 2_000, |_| None);
    set_fields(place, 0, b"later", 2_000, |field| Some(soon + 1_000_000 + u64::from(field)));
    place.run(|txn| txn.flush(Some(1)));
    set_fields(place, 1, b"moved", 20, odd);
    // The table grows: the bound goes with the entries.
    (0..3_000u32).for_each(|number| place.set(0, &number.to_le_bytes(), &[1; 30], None));
    place.run(|txn| txn.swap(1, 2));
    maintain(place);
    assert_eq!(fields(place, 0, b"all"), Some(2_000));
    std::thread::sleep(Duration::from_millis(2_050));
    let begun = Instant::now();
    while place.table.counter(Counter::ExpiredFields) < 4_520 && begun.elapsed() < Duration::from_secs(20) {
        maintain(place);
    }
    assert_eq!(place.table.counter(Counter::ExpiredFields), 10 + 2_500 + 2_000 + 10);
    let left = [b"small".as_slice(), b"large", b"all", b"none", b"later"].map(|key| fields(place, 0, key));
    assert_eq!(left, [Some(10), Some(2_500), None, Some(2_000), Some(2_000)]);
    assert_eq!((fields(place, 2, b"moved"), fields(place, 1, b"moved")), (Some(10), None));
    // Only what expires later is waited for.
    assert!(place.table.run_maintenance(100_000) > 100);
}

#[test]
fn expired_fields_of_a_locked_hash_are_removed_later() {
    let place = &Place::new();
    set_fields(place, 0, b"key", 20, |_| Some(polder_base::time::now_ms()));
    let took = while_held(locking(place, b"key"), || maintain(place));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(place.keys(0), 1);
    maintain(place);
    assert_eq!(place.keys(0), 0);
}

#[test]
fn eviction_passes_over_locked_keys() {
    let place = &Place::new();
    (0..400u32).for_each(|number| place.set(0, &number.to_le_bytes(), &[1; 1_000], None));
    let memory_max = place.table.claimed() - 100_000;
    place.table.set_limits(Limits { memory_max, policy: Policy::AllkeysRandom, ..Limits::default() });
    let held = 7u32.to_le_bytes();
    let took = while_held(locking(place, &held), || assert!(place.table.make_room()));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(place.keys(0) < 400);
    assert!(place.get(0, &held).is_some());
}

#[test]
fn eviction_of_short_strings_makes_room_and_stops_there() {
    let place = &Place::new();
    let key = |number: u32| number.to_le_bytes();
    (0..20_000).for_each(|number| place.set(0, &key(number), &[1; 40], None));
    let memory_max = place.table.claimed();
    place.table.set_limits(Limits { memory_max, policy: Policy::AllkeysRandom, ..Limits::default() });
    for number in 20_000..60_000 {
        assert!(place.table.make_room(), "after {number} keys");
        place.set(0, &key(number), &[1; 40], None);
        let claimed = place.table.claimed();
        assert!(claimed < memory_max / 100 * 106, "{claimed} of {memory_max} after {number} keys");
    }
    assert!(place.keys(0) > 15_000, "{} keys are left", place.keys(0));
    // A write to a key that is there already evicts no other key.
    let keys = place.keys(0);
    let present: Vec<u32> = (0..60_000).filter(|number| place.get(0, &key(*number)).is_some()).collect();
    for number in present.iter().cycle().take(40_000) {
        assert!(place.table.make_room());
        place.set(0, &key(*number), &[2; 40], None);
    }
    assert!(place.keys(0) > keys / 10 * 8, "{} of {keys} keys are left", place.keys(0));
}

#[test]
fn eviction_of_a_large_value_makes_room_at_once() {
    const KEYS: u32 = 12;
    let place = &Place::new();
    for number in 0..KEYS {
        set_fields(place, 0, &number.to_le_bytes(), 2_000, |_| None);
    }
    let claimed = place.table.claimed();
    // Evicted values stay in memory: this thread could still read them.
    let _pinned = place.table.pinned().expect("a seat");
    let limits = Limits { memory_max: claimed - 1, policy: Policy::AllkeysRandom, ..Limits::default() };
    place.table.set_limits(limits);
    assert!(place.table.make_room());
    assert_eq!(place.keys(0), u64::from(KEYS) - 1, "one key is room enough");
    let share = claimed / u64::from(KEYS);
    let left = claimed - place.table.claimed();
    assert!((share / 2..share * 2).contains(&left), "{left} of {share} bytes");
}

#[test]
fn bytes_of_evicted_trees_are_told_until_they_are_free() {
    let place = &Place::new();
    set_fields(place, 0, b"key", 5_000, |_| None);
    let segment = place.table.segment();
    let trees = || segment.sum_over_seats(at::TREE_BYTES);
    place.table.set_limits(Limits { memory_max: 1, policy: Policy::AllkeysRandom, ..Limits::default() });
    {
        let _pinned = place.table.pinned().expect("a seat");
        let before = place.table.claimed();
        place.table.make_room();
        assert_eq!(place.keys(0), 0);
        assert!(trees() > 40_000, "{} bytes are told", trees());
        assert!(before - place.table.claimed() >= trees());
    }
    place.table.set_limits(Limits::default());
    while place.table.reclaim() {}
    assert_eq!(segment.sum_over_seats(at::RETIRED_BYTES), 0);
    assert_eq!(trees(), 0);
    assert!(place.table.claimed() < 100_000, "{} bytes are left", place.table.claimed());
}

#[test]
fn eviction_ends_when_every_key_is_locked() {
    let place = &Place::new();
    place.set(0, b"key", &[1; 1_000], None);
    place.table.set_limits(Limits { memory_max: 1, policy: Policy::AllkeysLru, ..Limits::default() });
    let took = while_held(locking(place, b"key"), || assert!(!place.table.make_room()));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(place.get(0, b"key").is_some());
}

#[test]
fn a_call_with_a_short_limit_fails_for_a_locked_key() {
    let place = &Place::new();
    place.set(0, b"key", b"1", None);
    while_held(locking(place, b"key"), || {
        let txn = place.table.begin(Mode::Write).expect("a seat");
        txn.limit_patience(Duration::from_micros(100));
        assert_eq!(txn.declare(&[(0, b"key")]), Err(Stop::Busy));
        assert_eq!(txn.declare(&[(0, b"key"), (1, b"other")]), Err(Stop::Busy));
    });
}

#[test]
fn keys_are_counted_while_a_stopped_process_changes_the_map() {
    let place = &Place::new();
    place.set(0, b"key", b"1", None);
    place.set(1, b"key", b"1", None);
    // Stopped after its commit, before it has written anything out.
    let hold = |wait: &dyn Fn()| {
        let seat = place.table.seat().expect("a seat");
        assert!(matches!(seat.lock(ROOTS_AT, None), Ok(Locked::Ours(_))));
        let map_at = ROOTS_AT + 1024;
        seat.note(Tag::Cover, ROOTS_AT, 0).expect("room");
        seat.note(Tag::Word, map_at, 0).expect("room");
        seat.note(Tag::Word, map_at + 8, 0).expect("room");
        seat.set(at::STATUS, seat.get(at::STATUS) | at::COMMITTED);
        // Between the two stores.
        let node = place.table.segment().load(map_at);
        place.table.segment().store(map_at, 0);
        wait();
        place.table.segment().store(map_at, node);
        seat.set(at::STATUS, seat.get(at::STATUS) & !3);
        seat.rollback();
    };
    while_held(hold, || assert_eq!([place.table.keys(0), place.table.keys(1)], [(0, 0), (1, 0)]));
    assert_eq!(place.table.keys(0), (1, 0));
}

#[test]
fn a_free_lock_that_dead_waiters_left_starving_is_taken_within_a_short_limit() {
    let place = Place::new();
    let (segment, seat) = (place.table.segment(), place.table.seat().expect("a seat"));
    segment.publish(SWEEP_LOCK, polder_shm::lock::STARVING);
    let locked = seat
        .lock(SWEEP_LOCK, Some(Instant::now() + Duration::from_micros(100)))
        .expect("room in the journal");
    assert!(matches!(locked, polder_shm::Locked::Ours(_)), "{locked:?}");
    seat.rollback();
    assert_eq!(segment.load(SWEEP_LOCK) & (polder_shm::lock::STARVING | polder_shm::lock::OWNER), 0);
}

#[test]
fn what_deleted_keys_took_of_the_table_is_given_back() {
    const KEYS: u32 = 60_000;
    let place = &Place::new();
    let key = |number: u32| format!("key:{number:07}");
    let used = || place.table.usage().used;
    let settle = || {
        // Looks go round the table, and what has shrunk is found at once in the next round.
        (0..60).for_each(|_| maintain(place));
        used()
    };
    let empty = used();
    (0..KEYS)
        .for_each(|number| place.set(number as u16 % 2, key(number).as_bytes(), b"0123456789abcdef", None));
    let full = settle() - empty;
    // Nothing is taken from a table that is as it grew.
    assert_eq!(used() - empty, full);
    (0..KEYS)
        .filter(|number| number % 4 > 1)
        .for_each(|number| assert!(place.remove(number as u16 % 2, key(number).as_bytes())));
    let half = settle() - empty;
    assert!(half < full * 2 / 3, "{half} bytes of {full} for half of the keys");
    for number in 0..KEYS {
        let found = place.get(number as u16 % 2, key(number).as_bytes());
        assert_eq!(found.is_some(), number % 4 < 2, "{number}");
    }
    (0..KEYS)
        .filter(|number| number % 4 < 2)
        .for_each(|number| assert!(place.remove(number as u16 % 2, key(number).as_bytes())));
    let none = settle() - empty;
    assert!(none < full / 6, "{none} bytes of {full} for no keys");
    assert!(place.table.verify().is_ok());
    // And it grows again.
    (0..KEYS).for_each(|number| place.set(0, key(number).as_bytes(), b"0123456789abcdef", None));
    assert_eq!(place.keys(0), KEYS as u64);
}

#[test]
fn a_thread_that_is_stopped_while_it_expires_keys_does_not_stop_expiry() {
    let place = &Place::new();
    let now_ms = polder_base::time::now_ms();
    place.set(0, b"first", b"1", Some(now_ms + 30));
    place.set(0, b"stays", b"1", None);
    let segment = place.table.segment();
    let (node, root) = (segment.observe(map_at(0)), segment.observe(map_at(0) + 8));
    let extent = directory::walk(segment, root, place.table.hash(b"first").position).expect("it is there");
    let stopped = |wait: &dyn Fn()| {
        let seat = place.table.seat().expect("a seat");
        seat.lift(0, node + database::EXPIRY_MIN);
        seat.lift(1, extent.at + extent::EXPIRY_MIN);
        wait();
        (0..2).for_each(|slot| seat.land(slot, 0));
    };
    while_held(stopped, || {
        for keys in [2, 3] {
            let begun = Instant::now();
            while place.keys(0) == keys && begun.elapsed() < Duration::from_secs(10) {
                maintain(place);
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(
                place.keys(0),
                keys - 1,
                "what has expired is collected beside a thread that is stopped"
            );
            place.set(0, b"second", b"1", Some(polder_base::time::now_ms() + 20));
            place.set(0, b"third", b"1", None);
        }
    });
}

#[test]
fn a_transaction_of_many_new_keys_keeps_the_room_that_it_has_made() {
    let place = &Place::new();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        // Empty extents shrink all the time.
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                place.table.run_maintenance(5_000);
            }
        });
        for turn in 0..3u32 {
            let names: Vec<Vec<u8>> =
                (0..30_000u32).map(|number| format!("name:{turn}:{number}").into_bytes()).collect();
            let declared: Vec<(u16, &[u8])> = names.iter().map(|name| (0, &name[..])).collect();
            let attempts = std::cell::Cell::new(0);
            place.run(|txn| {
                attempts.set(attempts.get() + 1);
                txn.declare(&declared)?;
                names.iter().try_for_each(|name| {
                    txn.write(0, name, &New::of(Kind::String, Value::Packed(b"value")), Replaces::Whole)
                })
            });
            // One that finds no room, one that has it, and some for what maintenance holds.
            assert!(attempts.get() <= 10, "{} attempts in turn {turn}", attempts.get());
            place.run(|txn| {
                txn.declare(&declared)?;
                names.iter().try_for_each(|name| txn.remove(0, name, Replaces::Whole).map(drop))
            });
        }
    });
}
