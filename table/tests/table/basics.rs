//! The table over a real segment: what one process sees.

use std::sync::mpsc;
use std::time::Duration;

use crate::common::{Draw, Place, run_alone, untold};
use polder_shm::layout::{header, interest};
use polder_table::interest::{lose_interest, set_events, take_interest};
use polder_table::{Attributes, Counter, Form, Limits, Mode, Mutation, New, Policy, Replaces, Stop};
use polder_values::list::{Limit, popped, pushed};
use polder_values::{Kind, Value};

#[test]
fn what_was_set_is_found_until_it_is_removed() {
    let place = Place::new();
    for number in 0..50_000u32 {
        let value = vec![number as u8; number as usize % 150];
        place.set(0, format!("key:{number}").as_bytes(), &value, None);
    }
    assert_eq!(place.keys(0), 50_000);
    for number in 0..50_000u32 {
        let value = vec![number as u8; number as usize % 150];
        assert_eq!(place.get(0, format!("key:{number}").as_bytes()), Some(value), "key:{number}");
    }
    for number in (0..50_000u32).step_by(2) {
        assert!(place.remove(0, format!("key:{number}").as_bytes()));
    }
    assert_eq!(place.keys(0), 25_000);
    for number in 0..50_000u32 {
        assert_eq!(place.get(0, format!("key:{number}").as_bytes()).is_some(), number % 2 == 1);
    }
}

#[test]
fn one_transaction_of_very_many_new_keys_costs_no_more_a_key_than_many_of_few() {
    const KEYS: usize = 50_000;
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    // So small that it would be full of what each step of growth leaves, if nothing of it went before the transaction's end.
    let (few, many) = (Place::with_ceiling(96 << 20), Place::with_ceiling(96 << 20));
    let set = |place: &Place, keys: &[String]| {
        place.run(|txn| {
            txn.declare(&keys.iter().map(|key| (0, key.as_bytes())).collect::<Vec<_>>())?;
            let new = New::of(Kind::String, Value::Packed(b"value"));
            keys.iter().try_for_each(|key| txn.write(0, key.as_bytes(), &new, Replaces::Whole))
        });
    };
    let begun = std::time::Instant::now();
    keys.chunks(100).for_each(|keys| set(&few, keys));
    let by_few = begun.elapsed();
    let begun = std::time::Instant::now();
    set(&many, &keys);
    let at_once = begun.elapsed();
    assert!(at_once < 8 * by_few + Duration::from_millis(300), "{at_once:?} at once, {by_few:?} by few");
    for place in [&few, &many] {
        assert_eq!(place.keys(0), KEYS as u64);
        assert!(keys.iter().all(|key| place.get(0, key.as_bytes()).as_deref() == Some(b"value")));
    }
    let used = [&few, &many].map(|place| place.table.segment().used_bytes());
    assert!(used[1] < used[0] * 3 / 2, "{used:?}");
    println!("{at_once:?} at once, {by_few:?} by few; {used:?}");
}

#[test]
fn a_scan_shows_every_key_once() {
    let place = Place::new();
    for number in 0..20_000u32 {
        place.set(3, &number.to_le_bytes(), b"x", None);
    }
    let mut seen = std::collections::HashMap::new();
    let mut cursor = 0;
    loop {
        let txn = place.table.begin(Mode::Read).expect("a seat");
        cursor = txn
            .scan(3, cursor, 10, &mut |scanned| *seen.entry(scanned.key.to_vec()).or_insert(0) += 1)
            .expect("readable");
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen.len(), 20_000);
    assert!(seen.values().all(|&count| count == 1));
}

#[test]
fn expired_keys_are_not_found_and_are_collected() {
    let place = Place::new();
    let now = polder_base::time::now_ms();
    for number in 0..1000u32 {
        place.set(0, &number.to_le_bytes(), &[1; 100], Some(now + 30 + number as u64 % 3));
        place.set(0, format!("stays:{number}").as_bytes(), b"1", Some(now + 100_000));
    }
    assert!(place.get(0, &7u32.to_le_bytes()).is_some() || polder_base::time::now_ms() > now + 30);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(place.get(0, &7u32.to_le_bytes()), None);
    let due = place.table.run_maintenance(1_000_000);
    assert!(due > 1);
    assert_eq!(place.keys(0), 1000);
}

#[test]
fn a_flush_empties_and_the_sweeper_gives_everything_back() {
    let place = Place::new();
    let before = place.table.usage().used;
    for number in 0..30_000u32 {
        place.set(1, &number.to_le_bytes(), &[1; 200], None);
    }
    let txn = place.table.begin(Mode::Write).expect("a seat");
    txn.flush(None).and_then(|()| txn.commit()).expect("flushed");
    drop(txn);
    assert_eq!(place.keys(1), 0);
    assert_eq!(place.get(1, &7u32.to_le_bytes()), None);
    for _ in 0..2000 {
        place.table.run_maintenance(1_000_000);
    }
    let usage = place.table.usage();
    assert!(usage.used < before + (4 << 20), "{usage:?}, before {before}");
    place.set(1, b"again", b"1", None);
    assert_eq!(place.keys(1), 1);
}

#[test]
fn many_keys_become_true_together() {
    let place = Place::new();
    let keys: Vec<Vec<u8>> = (0..5_000u32).map(|number| format!("k{number}").into_bytes()).collect();
    let txn = place.table.begin(Mode::Write).expect("a seat");
    let declared: Vec<(u16, &[u8])> = keys.iter().map(|key| (0, &key[..])).collect();
    loop {
        let outcome = txn.declare(&declared).and_then(|()| {
            for key in &keys {
                txn.write(0, key, &New::of(Kind::String, Value::Packed(&[5; 90])), Replaces::Whole)?;
            }
            txn.commit()
        });
        match outcome {
            Ok(()) => break,
            Err(Stop::Retry) => txn.abort(),
            Err(stop) => panic!("{stop:?}"),
        }
    }
    drop(txn);
    assert_eq!(place.keys(0), 5_000);
    assert!(keys.iter().all(|key| place.get(0, key) == Some(vec![5; 90])));
}

#[test]
fn the_short_way_writes_every_byte() {
    let place = Place::new();
    place.set(0, b"first", b"so that there is a database", None);
    let now_ms = polder_base::time::now_ms();
    let mut plain = 0;
    for byte in [0, 0x7f, 0xff] {
        for length in 0..=40 {
            let (key, value) = (format!("{byte}:{length}").into_bytes(), vec![byte; length]);
            for _ in 0..2 {
                let location = place.table.location(0, &key).expect("the database has keys");
                if place
                    .table
                    .quick_edit(&location, &key, (now_ms, 0), |_| (Some(&value[..]), ()), untold)
                    .is_some()
                {
                    assert_eq!(place.get(0, &key), Some(value.clone()));
                    let same =
                        place.table.quick_get(&location, &key, now_ms, |found| found == Some(&value[..]));
                    assert_ne!(same, Some(false));
                }
            }
            for other in [0x80, byte] {
                let value = vec![other; length];
                let hash = place.table.hash(&key);
                if place.table.write_plain(0, hash, &key, &value) {
                    assert_eq!(place.get(0, &key), Some(value.clone()));
                    assert_eq!(place.table.read_plain(0, hash, &key, <[u8]>::to_vec), Some(value));
                    plain += 1;
                }
            }
            place.remove(0, &key);
        }
    }
    assert!(plain > 200, "the shortest way was hardly ever taken: {plain}");
}

#[test]
fn the_shortest_way_writes_values_of_other_lengths() {
    let place = Place::new();
    let mut plain = 0;
    for key_len in 0..30 {
        let key = vec![b'k'; key_len];
        let hash = place.table.hash(&key);
        for (before, after) in (0..24).flat_map(|before| (0..24).map(move |after| (before, after))) {
            place.set(0, &key, &vec![0xaa; before], None);
            let value = vec![0x55; after];
            if place.table.write_plain(0, hash, &key, &value) {
                assert_eq!(place.get(0, &key), Some(value), "key {key_len}, from {before} to {after}");
                plain += 1;
            }
        }
    }
    assert!(plain > 5_000, "{plain}");
}

#[test]
fn the_shortest_way_leads_to_displaced_entries_too() {
    const KEYS: u32 = 20_000;
    let place = Place::new();
    let key = |number: u32| format!("key:{number:012}").into_bytes();
    (0..KEYS).for_each(|number| place.set(0, &key(number), &[1; 16], None));
    let mut displaced = std::collections::BTreeMap::new();
    for number in 0..KEYS {
        let (key, value) = (key(number), [number as u8; 14]);
        let hash = place.table.hash(&key);
        assert!(place.table.write_plain(0, hash, &key, &value), "key {number}");
        assert_eq!(place.table.read_plain(0, hash, &key, <[u8]>::to_vec), Some(value.to_vec()));
        assert_eq!(place.get(0, &key), Some(value.to_vec()));
        let location = place.table.location(0, &key).expect("the database has keys");
        let edited = place.table.edit_plain(
            &location,
            &key,
            (polder_base::time::now_ms(), 1),
            |old| (old == value).then_some((&[2; 15][..], ())),
            |_| (),
        );
        assert_eq!((edited, place.get(0, &key)), (Some(()), Some(vec![2; 15])), "key {number}");
        *displaced
            .entry(place.table.inspect(0, &key).expect("readable").expect("there").displacement)
            .or_insert(0) += 1;
    }
    assert!(displaced.len() == 3 && displaced.values().all(|count| *count > 50), "{displaced:?}");
    // Another thread holds the home's lock, as a writer of the key would.
    let stray = (0..KEYS).map(key).find(|key| {
        place
            .table
            .inspect(0, key)
            .is_ok_and(|shown| shown.is_some_and(|shown| shown.displacement == "stash"))
    });
    let stray = stray.expect("there are some");
    let txn = place.table.begin(Mode::Write).expect("a transaction");
    txn.declare(&[(0, &stray)]).expect("nobody holds it");
    std::thread::scope(|scope| {
        let other =
            scope.spawn(|| place.table.write_plain(0, place.table.hash(&stray), &stray, b"fourteen bytes"));
        assert!(!other.join().expect("it ends"));
    });
    drop(txn);
    assert!(place.table.write_plain(0, place.table.hash(&stray), &stray, b"fourteen bytes"));
}

#[test]
fn a_database_may_be_filled_anew_by_one_transaction_however_large() {
    const KEYS: u32 = 100_000;
    let place = Place::new();
    place.set(0, b"old", b"1", None);
    place.run(|txn| {
        txn.flush(Some(0))?;
        (0..KEYS).try_for_each(|number| {
            txn.write(
                0,
                &number.to_le_bytes(),
                &New::of(Kind::String, Value::Packed(b"new")),
                Replaces::Whole,
            )
        })
    });
    // Its directory has two levels from birth.
    assert_eq!(place.keys(0), KEYS as u64);
    assert!(
        place.get(0, b"old").is_none()
            && (0..KEYS).all(|number| place.get(0, &number.to_le_bytes()).is_some())
    );
}

#[test]
fn an_old_location_is_right_or_of_no_use() {
    let place = Place::new();
    let name = |number: u32| format!("key:{number}").into_bytes();
    let mut locations = Vec::new();
    let mut used = [0u32; 2];
    for round in 0..60u32 {
        // Addresses of directories, extents and pieces come back again and again, in databases of other sizes.
        let keys = 10 + round * 7919 % 6_000;
        for number in 0..keys {
            place.set(0, &name(number), &round.to_le_bytes(), None);
            if number % 97 == 0 {
                locations.extend(
                    (0..8)
                        .filter_map(|far| Some((name(far * 31), place.table.location(0, &name(far * 31))?))),
                );
            }
        }
        for (key, location) in &locations {
            let there = place.get(0, key);
            let seen = place.table.quick_get(location, key, 1, |found| found.map(<[u8]>::to_vec));
            assert!(seen.is_none_or(|seen| seen == there), "round {round}");
            let value = [round.to_le_bytes(), [7; 4]].concat();
            let written = place.table.quick_edit(
                location,
                key,
                (1, 0),
                |old| {
                    assert_eq!(old, there.as_deref(), "round {round}");
                    (Some(&value[..]), ())
                },
                untold,
            );
            used[written.is_some() as usize] += 1;
            assert!(written.is_none() || place.get(0, key) == Some(value), "round {round}");
            let hash = place.table.hash(key);
            let plain = place.table.read_plain(0, hash, key, <[u8]>::to_vec);
            assert!(plain.is_none() || plain == place.get(0, key), "round {round}");
            let written = place.table.write_plain(0, hash, key, &[round as u8; 6]);
            assert!(!written || place.get(0, key) == Some(vec![round as u8; 6]), "round {round}");
        }
        if round % 3 == 2 {
            place.run(|txn| txn.flush(Some(0)));
            (0..20).for_each(|_| assert!(place.table.run_maintenance(100_000) > 0));
        } else if round % 5 == 4 {
            place.run(|txn| txn.swap(0, 1));
        }
    }
    assert!(used[0] > 1_000 && used[1] > 1_000, "{used:?}");
    assert_eq!(place.keys(0), place.table.keys(0).0);
}

#[test]
fn transactions_of_one_key_do_what_others_do() {
    let place = Place::new();
    let mut model = std::collections::BTreeMap::new();
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut draw = |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 9) % end
    };
    let now_ms = polder_base::time::now_ms();
    for _ in 0..60_000 {
        let key = format!("key:{}", draw(2000)).into_bytes();
        let length = [draw(40), draw(300), draw(2000)][draw(3) as usize] as usize;
        let (value, kind, way) = (vec![length as u8; length], Kind::String, draw(8));
        let expiry_ms = (way == 0).then_some(now_ms + 10_000_000);
        let new = New { expiry_ms, ..New::of(kind, Value::Packed(&value)) };
        let there = run_alone(&place.table, 0, &key, |txn| {
            let found = txn.find(0, &key)?.map(|found| match found.value {
                Value::Packed(bytes) => bytes.to_vec(),
                Value::Tree(_) => panic!("short strings are packed"),
            });
            match way {
                // Refused, or nothing to do.
                1 => {}
                2 | 3 => assert_eq!(txn.remove(0, &key, Replaces::Whole)?, found.is_some()),
                // The same key twice, and another one.
                4 => {
                    txn.write(0, &key, &New::of(kind, Value::Packed(b"first")), Replaces::Whole)?;
                    txn.write(0, &key, &new, Replaces::Whole)?;
                    txn.write(1, b"other", &new, Replaces::Whole)?;
                }
                _ => txn.write(0, &key, &new, Replaces::Whole)?,
            }
            let after = txn.find(0, &key)?;
            assert_eq!(after.is_some(), if way == 1 { found.is_some() } else { !matches!(way, 2 | 3) });
            Ok(found)
        });
        assert_eq!(there, model.get(&key).cloned());
        match way {
            1 => {}
            2 | 3 => drop(model.remove(&key)),
            _ => drop(model.insert(key, value)),
        }
    }
    assert_eq!(place.keys(0), model.len() as u64);
    model.iter().for_each(|(key, value)| assert_eq!(place.get(0, key).as_ref(), Some(value)));
}

#[test]
fn a_transaction_without_declared_keys_waits_for_a_key_met_out_of_order() {
    let place = Place::new();
    let keys = [&b"one"[..], b"other"];
    // One of the two orders is the wrong one.
    for (first, second) in [(keys[0], keys[1]), (keys[1], keys[0])] {
        let (held, is_held) = mpsc::channel();
        let before = place.table.counter(Counter::Retries);
        std::thread::scope(|scope| {
            let table = &place.table;
            scope.spawn(move || {
                let txn = table.begin(Mode::Write).expect("a seat");
                txn.declare(&[(0, second)]).expect("nobody holds it");
                held.send(()).expect("a thread waits");
                std::thread::sleep(Duration::from_millis(50));
            });
            is_held.recv().expect("it is held");
            place.run(|txn| {
                let new = New::of(Kind::String, Value::Packed(b"2"));
                [first, second].iter().try_for_each(|key| txn.write(0, key, &new, Replaces::Whole))
            });
        });
        let retries = place.table.counter(Counter::Retries) - before;
        assert!(retries < 5, "{retries} retries");
    }
    assert_eq!(keys.map(|key| place.get(0, key)), [(); 2].map(|()| Some(b"2".to_vec())));
}

#[test]
fn values_change_their_size_by_the_short_way_and_nothing_else_does() {
    let (place, mut draw) = (Place::new(), Draw(88_172_645_463_325_252));
    let key = |number: u64| format!("key:{number}").into_bytes();
    let mut model: Vec<Vec<u8>> =
        (0..3_000u64).map(|number| vec![number as u8; number as usize % 40]).collect();
    model.iter().enumerate().for_each(|(number, value)| place.set(0, &key(number as u64), value, None));
    let mut quick = 0;
    for _ in 0..60_000 {
        let (number, value) = (draw.below(3_000), vec![draw.below(256) as u8; draw.below(44) as usize]);
        let key = key(number);
        let location = place.table.location(0, &key).expect("the database has keys");
        if place
            .table
            .quick_edit(&location, &key, (polder_base::time::now_ms(), 1), |_| (Some(&value), ()), untold)
            .is_some()
        {
            quick += 1;
            model[number as usize] = value;
        }
    }
    assert!(quick > 50_000, "the short way was hardly ever taken: {quick}");
    for (number, value) in model.iter().enumerate() {
        assert_eq!(place.get(0, &key(number as u64)).as_ref(), Some(value), "key:{number}");
    }
}

#[test]
fn several_keys_get_their_values_by_the_short_way_or_none_does() {
    let (place, mut draw) = (Place::new(), Draw(88_172_645_463_325_252));
    place.set(0, b"key:1", b"1", None);
    let (mut model, mut quick) = (std::collections::BTreeMap::from([(b"key:1".to_vec(), b"1".to_vec())]), 0);
    for _ in 0..20_000 {
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..1 + draw.below(12))
            .map(|_| {
                (
                    format!("key:{}", draw.below(400)).into_bytes(),
                    vec![draw.below(256) as u8; draw.below(44) as usize],
                )
            })
            .collect();
        let location = place.table.location(0, &pairs[0].0).expect("the database has keys");
        let words: Vec<&[u8]> = pairs.iter().flat_map(|(key, value)| [&key[..], value]).collect();
        if place.table.quick_set_all(&location, &words, polder_base::time::now_ms()) {
            quick += 1;
        } else {
            // Only the slow path makes the table grow.
            pairs.iter().for_each(|(key, value)| place.set(0, key, value, None));
        }
        model.extend(pairs);
    }
    assert!(quick > 5_000, "the short way was hardly ever taken: {quick}");
    assert_eq!(place.keys(0), model.len() as u64);
    model.iter().for_each(|(key, value)| assert_eq!(place.get(0, key).as_ref(), Some(value)));
}

/// Values of one length: as the table fills up, more and more entries lie elsewhere than at home, and the fast path finds them and makes them all the
/// same.
#[test]
fn several_keys_are_written_by_the_short_way_wherever_they_lie() {
    let (place, mut draw) = (Place::new(), Draw(88_172_645_463_325_252));
    (0..100).for_each(|number| place.set(0, format!("key:{number}").as_bytes(), &[1; 16], None));
    let (mut model, mut quick, mut displaced) = (std::collections::BTreeMap::new(), 0, 0);
    for _ in 0..20_000 {
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..10)
            .map(|_| (format!("key:{}", draw.below(50_000)).into_bytes(), vec![draw.below(256) as u8; 16]))
            .collect();
        let location = place.table.location(0, &pairs[0].0).expect("the database has keys");
        let words: Vec<&[u8]> = pairs.iter().flat_map(|(key, value)| [&key[..], value]).collect();
        if place.table.quick_set_all(&location, &words, polder_base::time::now_ms()) {
            quick += 1;
            let is_displaced = |key: &[u8]| {
                place.table.inspect(0, key).expect("readable").expect("there").displacement != "home"
            };
            displaced += pairs.iter().filter(|(key, _)| is_displaced(key)).count();
        } else {
            pairs.iter().for_each(|(key, value)| place.set(0, key, value, None));
        }
        model.extend(pairs);
    }
    assert!(
        quick > 18_000 && displaced > 5_000,
        "the short way was not often taken: {quick}, {displaced} displaced"
    );
    model.iter().for_each(|(key, value)| assert_eq!(place.get(0, key).as_ref(), Some(value)));
}

#[test]
fn of_a_key_that_comes_several_times_the_last_value_counts_by_the_short_way_too() {
    let (place, mut draw) = (Place::new(), Draw(88_172_645_463_325_252));
    let keys: Vec<Vec<u8>> = (0..3u64).map(|number| format!("key:{number}").into_bytes()).collect();
    keys.iter().for_each(|key| place.set(0, key, &[1; 8], None));
    for _ in 0..2_000 {
        // Lengths that take two units all.
        let pairs: Vec<(&[u8], Vec<u8>)> = (0..10)
            .map(|_| {
                (&keys[draw.below(3) as usize][..], vec![draw.below(256) as u8; 4 + draw.below(12) as usize])
            })
            .collect();
        let location = place.table.location(0, pairs[0].0).expect("the database has keys");
        let words: Vec<&[u8]> = pairs.iter().flat_map(|(key, value)| [*key, &value[..]]).collect();
        assert!(
            place.table.quick_set_all(&location, &words, polder_base::time::now_ms()),
            "nothing is in the way"
        );
        let last: std::collections::BTreeMap<_, _> = pairs.iter().map(|(key, value)| (*key, value)).collect();
        last.into_iter().for_each(|(key, value)| assert_eq!(place.get(0, key).as_ref(), Some(value)));
    }
}

#[test]
fn strings_of_any_length_are_set_by_the_short_way() {
    let (place, mut draw) = (Place::new(), Draw(88_172_645_463_325_252));
    place.set(0, b"other", b"1", None);
    let (mut model, mut quick) = (std::collections::HashMap::new(), 0);
    for round in 0..30_000 {
        let key = vec![b'a' + (round % 26) as u8; 1 + draw.below(90) as usize];
        let longest = [30, 60, 300, 9_000][draw.below(4) as usize];
        let value = vec![draw.below(256) as u8; draw.below(longest) as usize];
        let location = place.table.location(0, &key).expect("the database has keys");
        if place.table.quick_set(&location, &key, &value, polder_base::time::now_ms(), 1).is_some() {
            quick += 1;
            assert_eq!(place.get(0, &key).as_deref(), Some(&value[..]));
            model.insert(key, value);
        } else if draw.below(2) == 0 {
            // What the fast path leaves alone: a tree, an entry that lies elsewhere.
            place.set(0, &key, &value, None);
            model.insert(key, value);
        }
    }
    assert!(quick > 15_000, "the short way was hardly ever taken: {quick}");
    assert_eq!(place.keys(0), 1 + model.len() as u64);
    model.iter().for_each(|(key, value)| assert_eq!(place.get(0, key).as_ref(), Some(value)));
}

#[test]
fn strings_are_set_with_and_without_expiry_and_flags_by_the_short_way() {
    let (place, mut draw) = (Place::new(), Draw(88_172_645_463_325_252));
    place.set(0, b"other", b"1", None);
    let (now_ms, mut model, mut quick) = (polder_base::time::now_ms(), std::collections::HashMap::new(), 0);
    for round in 0..20_000 {
        let key = vec![b'a' + (round % 26) as u8; 1 + draw.below(60) as usize];
        let longest = [20, 60, 300][draw.below(3) as usize];
        let value = vec![draw.below(256) as u8; draw.below(longest) as usize];
        // Some are beyond what can be stored.
        let expiry_ms = (draw.below(2) == 0)
            .then(|| now_ms + 1_000_000 + draw.below(1_000) + if draw.below(8) == 0 { 1 << 50 } else { 0 });
        let flags = [0, 0, 5, u32::MAX][draw.below(4) as usize];
        let location = place.table.location(0, &key).expect("the database has keys");
        if place
            .table
            .quick_set_with(&location, &key, &value, Attributes { expiry_ms, flags }, (now_ms, 1))
            .is_some()
        {
            quick += 1;
        } else if draw.below(2) == 0 {
            let new = New { expiry_ms, flags, ..New::of(Kind::String, Value::Packed(&value)) };
            place.run(|txn| txn.write(0, &key, &new, Replaces::Whole));
        } else {
            continue;
        }
        let expiry_ms = expiry_ms.map(|expiry_ms| expiry_ms.min((1 << 48) - 1));
        let found = place.run(|txn| Ok(txn.find(0, &key)?.map(|found| (found.expiry_ms, found.flags))));
        assert_eq!((place.get(0, &key).as_deref(), found), (Some(&value[..]), Some((expiry_ms, flags))));
        model.insert(key, (value, expiry_ms));
    }
    assert!(quick > 10_000, "the short way was hardly ever taken: {quick}");
    let expiring = model.values().filter(|(_, expiry_ms)| expiry_ms.is_some()).count() as u64;
    let txn = place.table.begin(Mode::Read).expect("a seat");
    assert_eq!((txn.keys(0), txn.keys_with_expiry(0)), (1 + model.len() as u64, expiring));
    drop(txn);
    model.iter().for_each(|(key, (value, _))| assert_eq!(place.get(0, key).as_ref(), Some(value)));
}

#[test]
fn what_was_set_with_an_expiry_by_the_short_way_is_collected() {
    let (place, now_ms) = (Place::new(), polder_base::time::now_ms());
    place.set(0, b"other", b"1", None);
    let set = |key: &[u8], expiry_ms: u64| {
        let location = place.table.location(0, key).expect("the database has keys");
        place.table.quick_set_with(
            &location,
            key,
            b"value",
            Attributes::expiring(Some(expiry_ms)),
            (now_ms, 1),
        )
    };
    set(b"later", now_ms + 1_000_000).expect("nothing is in the way");
    set(b"soon", now_ms + 60).expect("nothing is in the way");
    // Behind the last time that can be stored: the bounds are of what is stored, or the verification at the end finds them too late.
    set(b"far", 1 << 50).expect("nothing is in the way");
    std::thread::sleep(Duration::from_millis(100));
    (0..100).for_each(|_| _ = place.table.run_maintenance(100_000));
    assert_eq!((place.keys(0), place.get(0, b"soon")), (3, None));
}

#[test]
fn a_far_expiry_by_the_short_way_bounds_an_extent_of_its_own() {
    let (place, now_ms) = (Place::new(), polder_base::time::now_ms());
    place.set(0, b"other", b"1", None);
    let location = place.table.location(0, b"far").expect("the database has keys");
    place
        .table
        .quick_set_with(&location, b"far", b"value", Attributes::expiring(Some(1 << 50)), (now_ms, 1))
        .expect("nothing is in the way");
    let report = place.table.verify().expect("a seat");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_subscriber_that_comes_during_a_transaction_hears_of_all_of_it() {
    let place = Place::new();
    set_events(place.table.segment(), u64::MAX, false);
    let seat = place.table.seat().expect("a seat");
    let txn = place.table.begin(Mode::Write).expect("a seat");
    let work = || {
        txn.write(0, b"key", &New::of(Kind::String, Value::Packed(b"value")), Replaces::Whole)
            .expect("noted");
        txn.note_change('$', "set", 0, b"key");
        txn.changes_noted()
    };
    assert_eq!(work(), 0, "nothing hears of it");
    take_interest(&seat, interest::SUBSCRIBERS);
    assert_eq!(txn.commit(), Err(Stop::Retry));
    txn.abort();
    assert!(work() > 0);
    txn.commit().expect("told");
    drop(txn);
    lose_interest(&seat, interest::SUBSCRIBERS);
}

/// Nothing hears of a keyspace event but subscribers: without one the short ways go on.
#[test]
fn events_that_no_seat_hears_leave_the_short_ways_as_they_are() {
    let place = Place::new();
    place.set(0, b"key", b"0123456789abcdef", None);
    let write = || place.table.write_plain(0, place.table.hash(b"key"), b"key", b"fedcba9876543210");
    set_events(place.table.segment(), u64::MAX, false);
    assert!(write());
    let seat = place.table.seat().expect("a seat");
    take_interest(&seat, interest::SUBSCRIBERS);
    assert!(!write(), "the sink is to be told");
    lose_interest(&seat, interest::SUBSCRIBERS);
    assert!(write());
}

#[test]
fn reads_leave_the_clock_alone_where_keys_go_by_their_last_change() {
    const LATER_MS: u64 = 50_000;
    let place = Place::new();
    let key = b"key";
    let clock = || place.run(|txn| Ok(txn.peek(0, key)?.expect("there").clock));
    let set_before = |before_ms: u64| {
        let new = New::of(Kind::String, Value::Packed(b"0123456789abcdef"));
        place.run(|txn| {
            txn.set_now_ms(polder_base::time::now_ms() - before_ms);
            txn.write(0, key, &new, Replaces::Whole)
        });
        clock()
    };
    let read_all = |place: &Place| {
        place.run(|txn| Ok(txn.find(0, key)?.is_some()));
        assert!(place.table.read_plain(0, place.table.hash(key), key, |_| ()).is_some());
        let location = place.table.location(0, key).expect("the database has keys");
        assert!(place.table.quick_get(&location, key, polder_base::time::now_ms(), |_| ()).is_some());
    };
    for policy in [Policy::AllkeysLrm, Policy::VolatileLrm] {
        place.table.set_limits(Limits { policy, memory_max: 1 << 29, ..Limits::default() });
        let written = set_before(LATER_MS);
        read_all(&place);
        assert_eq!(clock(), written, "{policy:?}");
        assert!(place.table.write_plain(0, place.table.hash(key), key, b"fedcba9876543210"));
        assert_ne!(clock(), written, "{policy:?}");
    }
    place.table.set_limits(Limits { policy: Policy::AllkeysLru, memory_max: 1 << 29, ..Limits::default() });
    let written = set_before(LATER_MS);
    read_all(&place);
    assert_ne!(clock(), written);
}

#[test]
fn accesses_by_the_short_ways_are_counted_where_frequencies_are() {
    let place = Place::new();
    let limits =
        Limits { policy: Policy::AllkeysLfu, memory_max: 1 << 29, lfu_log_factor: 0, ..Limits::default() };
    place.table.set_limits(limits);
    let key = b"key";
    place.set(0, key, b"0123456789abcdef", None);
    let hash = place.table.hash(key);
    let frequency = || place.run(|txn| Ok((txn.peek(0, key)?.expect("there").clock & 0xff) as u8));
    let first = frequency();
    assert!(place.table.read_plain(0, hash, key, |_| ()).is_some());
    assert!(place.table.write_plain(0, hash, key, b"fedcba9876543210"));
    let location = place.table.location(0, key).expect("the database has keys");
    let now_ms = polder_base::time::now_ms();
    assert!(place.table.quick_get(&location, key, now_ms, |_| ()).is_some());
    assert!(place.table.quick_edit(&location, key, (now_ms, 1), |_| (Some(b"1"), ()), untold).is_some());
    assert!(place.table.quick_set_with(&location, key, &[1; 100], Attributes::NONE, (now_ms, 1)).is_some());
    assert!(
        place.table.quick_set_all(&location, &[key, b"2"], now_ms)
            || place.table.quick_set(&location, key, b"2", now_ms, 1).is_some()
    );
    assert_eq!(frequency(), first + 6, "with a factor of 0 each access counts");
}

#[test]
fn strings_keep_expiry_and_flags_through_updates_that_do_not_change_them() {
    let (place, mut draw) = (Place::new(), Draw(88_172_645_463_325_252));
    place.set(0, b"other", b"1", None);
    let (now_ms, mut quick) = (polder_base::time::now_ms(), 0);
    for round in 0..8_000 {
        let key = vec![b'a' + (round % 26) as u8; 1 + draw.below(60) as usize];
        let longest = [20, 60, 300][draw.below(3) as usize];
        let value = vec![b'v'; draw.below(longest) as usize];
        let expiry_ms = (draw.below(2) == 0).then(|| now_ms + 1_000_000);
        let (flags, raw) = (draw.below(3) as u32 * 77, draw.below(2) == 0);
        let new = New { expiry_ms, flags, raw, ..New::of(Kind::String, Value::Packed(&value)) };
        place.run(|txn| txn.write(0, &key, &new, Replaces::Whole));
        let location = place.table.location(0, &key).expect("the database has keys");
        let (appends, until) = (draw.below(2) == 0, (draw.below(2) == 0).then_some(now_ms + 2_000_000));
        let done = place.table.update(
            &location,
            &key,
            None,
            now_ms,
            |old| {
                let old = old.expect("it is there");
                assert_eq!((old.kind, old.value, old.expiry_ms), (Kind::String, &value[..], expiry_ms));
                let appended = Mutation::Text { kept: old.value, added: b"more", form: Form::Raw };
                Some((if appends { appended } else { Mutation::Expiring(until) }, ()))
            },
            untold,
        );
        if done.is_none() {
            continue;
        }
        quick += 1;
        let expected = if appends {
            ([&value[..], b"more"].concat(), expiry_ms, flags, true)
        } else {
            (value, until, flags, raw)
        };
        let found =
            place.run(|txn| Ok(txn.find(0, &key)?.map(|found| (found.expiry_ms, found.flags, found.raw))));
        assert_eq!(
            (place.get(0, &key), found),
            (Some(expected.0), Some((expected.1, expected.2, expected.3)))
        );
    }
    assert!(quick > 5_000, "the short way was hardly ever taken: {quick}");
}

#[test]
fn small_lists_are_pushed_to_and_popped_from_by_the_short_way() {
    let (place, mut draw) = (Place::new(), Draw(88_172_645_463_325_252));
    place.set(0, b"other", b"1", None);
    let (mut model, mut quick) = (vec![std::collections::VecDeque::<Vec<u8>>::new(); 300], 0);
    for _ in 0..60_000 {
        let number = draw.below(300) as usize;
        let key = format!("list:{number}").into_bytes();
        let location = place.table.location(0, &key).expect("the database has keys");
        let (pushes, at_end, element) =
            (draw.below(5) < 3, draw.below(2) == 0, vec![draw.below(256) as u8; draw.below(30) as usize]);
        let parts = [&element[..]];
        let done = place.table.update(
            &location,
            &key,
            Kind::List,
            polder_base::time::now_ms(),
            |old| {
                if pushes {
                    let (edit, count) = pushed(old.map(|old| old.value), &parts, at_end, Limit::of(-2))?;
                    return Some((Mutation::Edited(edit), (Vec::new(), count)));
                }
                let Some(old) = old else { return Some((Mutation::Same, (Vec::new(), 0))) };
                let (element, rest) = popped(old.value, at_end)?;
                Some((rest.map_or(Mutation::Gone, Mutation::Edited), (element.to_vec(), 0)))
            },
            untold,
        );
        let Some((popped, count)) = done else { continue };
        quick += 1;
        let list = &mut model[number];
        match (pushes, at_end) {
            (true, true) => list.push_back(element),
            (true, false) => list.push_front(element),
            (false, true) => assert_eq!(popped, list.pop_back().unwrap_or_default()),
            (false, false) => assert_eq!(popped, list.pop_front().unwrap_or_default()),
        }
        assert!(!pushes || count == list.len() as u64);
    }
    assert!(quick > 40_000, "the short way was hardly ever taken: {quick}");
    assert_eq!(place.keys(0), 1 + model.iter().filter(|list| !list.is_empty()).count() as u64);
}

#[test]
fn nothing_expires_while_files_are_read_whatever_limits_are_set() {
    let place = Place::new();
    let loading = place.table.begin_loading().expect("no other reads");
    assert!(place.table.begin_loading().is_err());
    place.run(|txn| {
        let expiry_ms = Some(polder_base::time::now_ms() + 1);
        txn.write(0, b"k", &New { expiry_ms, ..New::of(Kind::String, Value::Packed(b"v")) }, Replaces::Whole)
    });
    // As a server does that joins meanwhile.
    let limits = Limits { memory_max: 1, policy: Policy::AllkeysLru, ..Limits::default() };
    place.table.set_limits(limits);
    std::thread::sleep(Duration::from_millis(5));
    for _ in 0..20 {
        place.table.run_maintenance(10_000);
    }
    assert_eq!(place.table.keys(0).0, 1);
    assert!(place.table.imports() && place.table.is_unlimited());
    // What is set can be read and set again.
    assert_eq!(place.table.limits(), limits);
    drop(loading);
    assert_eq!(place.table.limits(), limits);
    while place.table.keys(0).0 > 0 {
        place.table.run_maintenance(10_000);
    }
}

#[test]
fn a_reader_that_dies_leaves_no_memory_without_limits() {
    let place = Place::new();
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(place.table.begin_loading().expect("no other reads")));
    });
    let begun = std::time::Instant::now();
    while place.table.is_loading() && begun.elapsed() < Duration::from_secs(20) {
        place.table.run_maintenance(10_000);
    }
    assert!(!place.table.is_loading());
}

#[test]
fn a_new_memory_does_not_repeat_the_versions_of_another() {
    let drawn: Vec<u64> = (0..2)
        .map(|_| {
            let place = Place::new();
            place.set(0, b"key", b"value", None);
            place.table.segment().observe(header::VERSIONS)
        })
        .collect();
    // A seat draws a block of 1,024.
    assert!(drawn[0].abs_diff(drawn[1]) > 1024, "{drawn:?}");
}
