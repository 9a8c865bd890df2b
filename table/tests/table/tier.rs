//! Values that leave the memory for a tier and come back: what stops at a stub, what goes on, and that nothing is taken for what it is not.

use std::sync::Arc;

use crate::common::{self, Place, tier, untold};
use polder_table::{
    Attributes, Foreseen, ItemExtras, Mode, Mutation, New, Replaces, Stop, Sweep, Victim, Wanted,
};
use polder_values::{Kind, Value};

/// In the year 2100.
const LATER_MS: u64 = 4_102_444_800_000;

fn numbered(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// A value that has a record.
fn long(number: usize) -> Vec<u8> {
    format!("{number}:").repeat(30).into_bytes()
}

fn cold(place: &Place, db: u16) -> u64 {
    place.table.cold_keys(db)
}

#[test]
fn a_value_comes_back_as_it_was() {
    let place = Place::new();
    let extras = ItemExtras { cas: Some(77), ..ItemExtras::default() }.encode();
    let plain = New::of(Kind::String, Value::Packed(&[7; 100]));
    let news = [
        plain,
        New { expiry_ms: Some(LATER_MS), ..plain },
        New { flags: 99, raw: true, ..plain },
        New { text: true, extras: &extras, expiry_ms: Some(LATER_MS), ..plain },
    ];
    for (number, new) in news.iter().enumerate() {
        for key in [numbered(number), vec![b'k'; 300], vec![b'l'; 5_000]] {
            place.run(|txn| txn.write(3, &key, new, Replaces::Whole));
            let state = || {
                place.run(|txn| {
                    let found = txn.peek(3, &key)?.expect("it is there");
                    let Value::Packed(value) = found.value else { panic!("a tree") };
                    let Some(expiry_ms) = found.expiry_ms.or(Some(0)) else { unreachable!() };
                    Ok((
                        value.to_vec(),
                        expiry_ms,
                        found.flags,
                        found.raw,
                        found.text,
                        found.extras.to_vec(),
                        found.version,
                    ))
                })
            };
            let before = state();
            let keys = place.keys(3);
            assert!(tier::spill(&place.table, 3, &key));
            assert_eq!((place.keys(3), cold(&place, 3)), (keys, 1));
            assert_eq!(state(), before);
            assert_eq!((place.keys(3), cold(&place, 3)), (keys, 0));
        }
    }
}

#[test]
fn long_strings_leave_and_come_back() {
    let place = Place::new();
    let long = |len: usize| (0..len).map(|at| (at * 7 % 251) as u8).collect::<Vec<_>>();
    for (number, len) in [8 << 10, (8 << 10) + 1, 100_000, 1 << 20].into_iter().enumerate() {
        place.set_string(0, &numbered(number), &long(len));
        assert!(tier::spill(&place.table, 0, &numbered(number)), "{len}");
        assert_eq!(place.get(0, &numbered(number)), Some(long(len)), "{len}");
        // A clean value leaves once more.
        assert!(tier::spill(&place.table, 0, &numbered(number)), "{len}");
        assert_eq!(place.get(0, &numbered(number)), Some(long(len)), "{len}");
    }
    place.set_string(0, b"longer", &long((1 << 20) + 1));
    assert!(tier::victim(&place.table, 0, b"longer").is_none());
}

#[test]
fn a_stub_frees_the_memory_of_its_value() {
    let place = Place::new();
    (0..2_000).for_each(|number| place.set(0, &numbered(number), &[1; 1_000], None));
    let before = place.table.claimed();
    (0..2_000).for_each(|number| _ = tier::spill(&place.table, 0, &numbered(number)));
    assert_eq!(cold(&place, 0), 2_000);
    while place.table.reclaim() {}
    assert!(place.table.claimed() * 4 < before, "{} of {before}", place.table.claimed());
}

#[test]
fn every_fast_path_leaves_a_stub_to_the_slow_one() {
    let place = Place::new();
    let table = &place.table;
    // Entries in their homes, next door and in the stash.
    (0..3_000).for_each(|number| place.set(0, &numbered(number), &long(number), None));
    let expiry = |number: usize| number.is_multiple_of(3).then_some(LATER_MS);
    for number in 0..3_000 {
        let key = numbered(number);
        place.set(0, &key, &long(number), expiry(number));
        assert!(tier::spill(table, 0, &key), "{number}");
    }
    let now_ms = polder_base::time::now_ms();
    for number in 0..3_000 {
        let key = &numbered(number)[..];
        let (hash, location) = (table.hash(key), table.location(0, key).expect("a database"));
        assert!(table.read_plain(0, hash, key, |_| ()).is_none());
        assert!(table.quick_get(&location, key, now_ms, |_| ()).is_none());
        for kind in [Kind::String, Kind::List, Kind::Hash] {
            assert!(table.quick_view(&location, key, (kind, now_ms), |_| Some(())).is_none());
        }
        assert!(!table.quick_get_all(&location, &[key, b"absent"], now_ms, |_| ()));
        assert!(!table.write_plain(0, hash, key, b"short"));
        let short = |_: &[u8]| Some((&b"short"[..], ()));
        assert!(table.edit_plain(&location, key, (now_ms, 1), short, |_| ()).is_none());
        let attributes = Attributes::NONE;
        assert!(table.quick_set_with(&location, key, b"short", attributes, (now_ms, 1)).is_none());
        assert!(table.quick_set(&location, key, &[5; 100], now_ms, 1).is_none());
        assert!(!table.quick_set_all(&location, &[key, b"short", b"absent", b"short"], now_ms));
        let edit = |_: Option<&[u8]>| (Some(&b"short"[..]), ());
        assert!(table.quick_edit(&location, key, (now_ms, 1), edit, untold).is_none());
        for kind in [None, Some(Kind::String), Some(Kind::List)] {
            let changed = table.update(&location, key, kind, now_ms, |_| Some((Mutation::Gone, ())), untold);
            assert!(changed.is_none());
        }
        let mut foreseen = [Foreseen::NOTHING; 2];
        table.foresee(0, &[key, b"absent"], &mut foreseen);
        let mut locations = Vec::new();
        table.prefetch([(0, key), (0, &b"absent"[..])], &mut locations);
        for mode in [Mode::Read, Mode::Write] {
            for alone in [false, true] {
                let mut txn = table.begin(mode).expect("a seat");
                if alone {
                    txn.foresee(key, &location);
                }
                let found =
                    txn.declare(&[(0, key)]).and_then(|()| txn.find(0, key).map(|found| found.is_some()));
                assert_eq!(found, Err(Stop::Cold));
                txn.abort();
                let wanted = txn.take_cold();
                assert_eq!(wanted.len(), 1);
                assert!(tier::copy(table, wanted[0].name).is_some());
            }
        }
    }
    assert_eq!(cold(&place, 0), 3_000);
    for number in 0..3_000 {
        let found = place.run(|txn| Ok(txn.peek(0, &numbered(number))?.and_then(|found| found.expiry_ms)));
        assert_eq!(found, expiry(number));
        assert_eq!(place.get(0, &numbered(number)), Some(long(number)));
    }
    assert_eq!(cold(&place, 0), 0);
}

#[test]
fn what_is_clean_goes_without_another_copy_and_a_write_ends_that() {
    let place = Place::new();
    place.set(0, b"key", &[1; 100], None);
    assert!(tier::spill(&place.table, 0, b"key"));
    assert_eq!(place.get(0, b"key"), Some(vec![1; 100]));
    let clean = place.table.victim_of(0, b"key").expect("readable").expect("there");
    assert!(clean.parcel.is_none());
    assert!(place.table.spill(&clean).expect("free"));
    assert_eq!(place.get(0, b"key"), Some(vec![1; 100]));
    // The fast path, and the slow one.
    for quick in [true, false] {
        let value = [2 + u8::from(quick); 100];
        if quick {
            let location = place.table.location(0, b"key").expect("a database");
            let edit = |_: Option<&[u8]>| (Some(&value[..]), ());
            place.table.quick_edit(&location, b"key", (1, 1), edit, untold).expect("free");
        } else {
            place.set(0, b"key", &value, None);
        }
        let dirty = place.table.victim_of(0, b"key").expect("readable").expect("there");
        assert!(dirty.parcel.is_some());
        assert!(!place.table.spill(&clean).expect("free"), "another version");
        tier::keep(&place.table, &dirty);
        assert!(place.table.spill(&dirty).expect("free"));
        assert_eq!(place.get(0, b"key"), Some(value.to_vec()));
    }
}

#[test]
fn a_value_that_was_changed_meanwhile_is_not_replaced() {
    let place = Place::new();
    place.set(0, b"key", &[1; 100], None);
    let victim = tier::victim(&place.table, 0, b"key").expect("there");
    place.set(0, b"key", &[2; 100], None);
    assert!(!place.table.spill(&victim).expect("free"));
    assert!(tier::spill(&place.table, 0, b"key"));
    let copy = tier::copy(&place.table, victim.name).expect("kept");
    assert!(!place.table.install(0, victim.name, &copy).expect("free"), "there is no such stub");
    place.remove(0, b"key");
    assert!(!place.table.install(0, victim.name, &copy).expect("free"));
    place.set(0, b"other", &[3; 100], None);
    let other = tier::victim(&place.table, 0, b"other").expect("there");
    assert!(place.table.install(0, other.name, &copy).is_err(), "the copy is another key's");
    assert!(place.table.install(0, other.name, b"nonsense").is_err());
}

#[test]
fn no_watch_and_no_count_of_changes_notices() {
    let place = Place::new();
    place.set(0, b"key", &[1; 100], None);
    let watch = place.run(|txn| txn.watch(0, b"key"));
    let changes = place.table.changes();
    assert!(tier::spill(&place.table, 0, b"key"));
    assert!(place.run(|txn| txn.unchanged(&watch)));
    assert!(tier::spill(&place.table, 0, b"key"));
    assert_eq!(place.get(0, b"key"), Some(vec![1; 100]));
    assert!(place.run(|txn| txn.unchanged(&watch)));
    assert_eq!(place.table.changes(), changes);
    place.set(0, b"key", &[1; 100], None);
    assert!(!place.run(|txn| txn.unchanged(&watch)));
}

#[test]
fn a_walk_meets_every_key_once_and_a_scan_shows_their_names_and_leaves_their_values() {
    let place = Place::new();
    for number in 0..5_000 {
        place.set(number as u16 % 3, &numbered(number), &long(number), None);
    }
    place.set(0, b"short", b"inline", None);
    let wanted = Wanted { age_min: 0, volatile: false, count: 64, bytes: 256 << 10 };
    let mut met = 0;
    for part in 0..3 {
        let mut sweep = Sweep::over(part, 3);
        loop {
            let mut victims = Vec::new();
            let ended = place.table.victims(&mut sweep, &wanted, &mut victims).expect("readable");
            for victim in &victims {
                tier::keep(&place.table, victim);
                assert!(place.table.spill(victim).expect("free"));
            }
            met += victims.len();
            if ended {
                break;
            }
        }
    }
    assert_eq!((met, (0..3).map(|db| cold(&place, db)).sum::<u64>()), (5_000, 5_000));
    for mode in [Mode::Read, Mode::Write] {
        for count in [10, usize::MAX] {
            let mut seen = std::collections::BTreeSet::new();
            let mut cursor = 0;
            loop {
                let (next, keys) = common::run_as(&place.table, mode, |txn| {
                    let mut keys = Vec::new();
                    let next = txn.scan(1, cursor, count, &mut |scanned| keys.push(scanned.key.to_vec()))?;
                    Ok((next, keys))
                });
                seen.extend(keys);
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(seen.len(), 5_000 / 3 + 1);
        }
    }
    assert_eq!((0..3).map(|db| cold(&place, db)).sum::<u64>(), 5_000);
}

#[test]
fn keys_of_stubs_are_drawn_with_equal_chances_also_many_in_one_transaction() {
    let place = Place::new();
    for number in 0..100 {
        place.set(0, &numbered(number), &long(number), None);
        assert!(number % 2 == 0 || tier::spill(&place.table, 0, &numbered(number)));
    }
    let mut drawn = std::collections::BTreeMap::<Vec<u8>, u32>::new();
    for mode in [Mode::Read, Mode::Write] {
        for count in [1, 300] {
            for _ in 0..1_500 / count {
                let keys = common::run_as(&place.table, mode, |txn| {
                    (0..count)
                        .map(|_| Ok(txn.random_key(0)?.expect("there are keys")))
                        .collect::<Result<Vec<_>, _>>()
                });
                keys.into_iter().for_each(|key| *drawn.entry(key).or_default() += 1);
            }
        }
    }
    assert_eq!((drawn.len(), cold(&place, 0)), (100, 50));
    let odd: u32 = (0..100).filter(|number| number % 2 == 1).map(|number| drawn[&numbered(number)]).sum();
    // In 6,000 draws more than ten deviations from the mean are no chance.
    assert!((2_600..=3_400).contains(&odd), "{odd}");
}

#[test]
fn keys_of_stubs_that_have_expired_or_gone_are_not_shown() {
    let place = Place::new();
    let soon_ms = polder_base::time::now_ms() + 2_000;
    for (number, expiry_ms) in [(0, Some(soon_ms)), (1, Some(LATER_MS)), (2, None), (3, None)] {
        place.set(0, &numbered(number), &long(number), expiry_ms);
        assert!(tier::spill(&place.table, 0, &numbered(number)));
    }
    let shown = || {
        place.run(|txn| {
            let mut keys = std::collections::BTreeSet::new();
            txn.scan(0, 0, usize::MAX, &mut |scanned| {
                _ = keys.insert((scanned.key.to_vec(), scanned.expiry_ms))
            })?;
            Ok(keys)
        })
    };
    shown();
    polder_testbase::until("its time is over", || polder_base::time::now_ms() > soon_ms);
    place.remove(0, &numbered(2));
    // A key with another value has another copy.
    place.set(0, &numbered(3), &long(4), None);
    assert!(tier::spill(&place.table, 0, &numbered(3)));
    let expected = [(numbered(1), Some(LATER_MS)), (numbered(3), None)];
    assert_eq!(shown().into_iter().collect::<Vec<_>>(), expected);
    for _ in 0..50 {
        let drawn = place.run(|txn| txn.random_key(0)).expect("there are keys");
        assert!(expected.iter().any(|(key, _)| *key == drawn));
    }
    assert_eq!(cold(&place, 0), 3);
}

#[test]
fn keys_that_expire_do_so_when_they_are_back() {
    let place = Place::new();
    let soon_ms = polder_base::time::now_ms() + 2_000;
    place.set(0, b"soon", &[1; 100], Some(soon_ms));
    place.set(0, b"later", &[1; 100], Some(LATER_MS));
    assert!(tier::spill(&place.table, 0, b"soon") && tier::spill(&place.table, 0, b"later"));
    polder_testbase::until("its time is over", || polder_base::time::now_ms() > soon_ms);
    // A cold key is not removed without its name.
    place.table.run_maintenance(10_000);
    assert_eq!(place.table.keys(0), (2, 2));
    let report = place.table.verify().expect("a seat");
    assert!(report.is_clean(), "{report}");
    assert_eq!(place.get(0, b"soon"), None);
    place.table.run_maintenance(10_000);
    assert_eq!((place.table.keys(0), cold(&place, 0)), ((1, 1), 1));
}

#[test]
fn stubs_are_due_once_their_minute_is_over_for_certain() {
    let place = Place::new();
    let now_ms = polder_base::time::now_ms();
    for (number, expiry_ms) in [(0, Some(now_ms + 2_000)), (1, Some(now_ms + 200_000)), (2, None)] {
        place.set(0, &numbered(number), &long(number), expiry_ms);
        assert!(tier::spill(&place.table, 0, &numbered(number)));
    }
    let mut due = Vec::new();
    let mut sweep = Sweep::over(0, 1);
    while !place.table.due_stubs(&mut sweep, &mut due).expect("readable") {}
    assert_eq!(due, [], "its minute is not over");
}

#[test]
fn a_copy_is_of_use_while_an_entry_has_its_version() {
    let place = Place::new();
    let table = &place.table;
    (0..3_000).for_each(|number| place.set(number as u16 % 2, &numbered(number), &long(number), None));
    let victims: Vec<Victim> = (0..3_000)
        .map(|number| tier::victim(table, number as u16 % 2, &numbered(number)).expect("there"))
        .collect();
    let needs = |victim: &Victim| table.needs_copy(victim.name, victim.parcel.as_ref().expect("a copy"));
    // Records whose copies were taken, stubs, and what came back.
    assert!(victims.iter().all(needs));
    assert!(victims.iter().step_by(2).all(|victim| table.spill(victim).expect("free")));
    assert!(victims.iter().all(needs));
    (0..3_000).step_by(4).for_each(|number| assert_eq!(place.get(0, &numbered(number)), Some(long(number))));
    place.run(|txn| txn.swap(0, 1));
    assert!(victims.iter().all(needs), "SWAPDB keeps the tally");
    let (gone, written) = (&victims[4], &victims[6]);
    assert!(place.remove(1, &gone.key));
    place.set(1, &written.key, &long(1), None);
    assert!(!needs(gone) && !needs(written));
    // The tally of another database, and what is no copy.
    let mut other = victims[8].parcel.clone().expect("a copy");
    other[1] ^= 1;
    assert!(table.needs_copy(victims[8].name, b"x"));
    assert!(!table.needs_copy(victims[8].name, &other));
    let snapshot = table.snapshot(&mut || true).expect("alone");
    assert!(needs(gone), "a snapshot may have it");
    drop(snapshot);
    assert!(!needs(gone));
    place.run(|txn| txn.flush(None));
    assert!(!victims.iter().any(needs));
}

#[test]
fn whole_databases_go_and_are_swapped_with_their_stubs() {
    let place = Place::new();
    for number in 0..500 {
        place.set(0, &numbered(number), &long(number), None);
        assert!(tier::spill(&place.table, 0, &numbered(number)));
    }
    place.set(1, b"one", b"1", None);
    place.run(|txn| txn.swap(0, 1));
    assert_eq!((cold(&place, 0), cold(&place, 1), place.keys(1)), (0, 500, 500));
    assert_eq!(place.get(1, &numbered(7)), Some(long(7)));
    place.run(|txn| txn.flush(Some(1)));
    assert_eq!((cold(&place, 1), place.keys(1)), (0, 0));
    for _ in 0..100 {
        place.table.run_maintenance(10_000);
    }
    // A name in a database that has gone.
    assert_eq!(place.get(1, &numbered(8)), None);
}

#[test]
fn writers_during_a_snapshot_save_stubs() {
    let place = Place::new();
    place.set(0, b"key", &[1; 100], None);
    assert!(tier::spill(&place.table, 0, b"key"));
    place.set(0, b"other", &[1; 100], None);
    let snapshot = place.table.snapshot(&mut || true).expect("alone");
    let victim = tier::victim(&place.table, 0, b"other").expect("there");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(!place.table.spill(&victim).expect("free"), "a snapshot is on");
            assert_eq!(place.get(0, b"key"), Some(vec![1; 100]));
        });
    });
    // The stub was saved: its copy is what the snapshot has of it, where this process has the tier.
    assert_eq!(snapshot.advance().err(), Some(Stop::Cold));
    place.table.begin_tier(Arc::new(tier::Kept(place.table.segment().id())));
    let (_, items) = snapshot.advance().expect("whole").expect("there are keys");
    for item in &items {
        let found = snapshot.found(item).expect("readable").expect("it had not expired");
        assert_eq!(found.value, Value::Packed(&[1; 100]), "{:?}", item.key);
    }
    assert_eq!(items.len(), 2);
}
