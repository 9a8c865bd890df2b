//! The fast paths that read: they return what the slow path would, or nothing.

use std::collections::BTreeMap;

use crate::common::{Draw, Place};
use polder_shm::layout::interest;
use polder_shm::now_ms;
use polder_table::interest::{lose_interest, take_interest};
use polder_table::{New, Replaces};
use polder_values::{Kind, Value};

fn key(number: u64) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// Reads keys by the fast path; `None` where it leaves them to the slow path.
fn read_all(place: &Place, keys: &[Vec<u8>]) -> Option<Vec<Option<Vec<u8>>>> {
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let (location, mut seen) = (place.table.location(0, keys[0])?, Vec::new());
    place
        .table
        .quick_get_all(&location, &keys, now_ms(), |value| seen.push(value.map(<[u8]>::to_vec)))
        .then_some(seen)
}

#[test]
fn several_keys_are_read_by_the_short_way_wherever_they_lie() {
    let (place, mut draw) = (Place::new(), Draw(88_172_645_463_325_252));
    let mut model = BTreeMap::new();
    let (mut quick, mut displaced, mut records) = (0, 0, 0);
    for round in 0..30_000 {
        let (number, length) = (draw.below(20_000), [8, 16, 16, 300][draw.below(4) as usize]);
        let value = vec![draw.below(256) as u8; length];
        place.set(0, &key(number), &value, None);
        model.insert(key(number), value);
        if round % 3 > 0 {
            continue;
        }
        let keys: Vec<Vec<u8>> = (0..1 + draw.below(20)).map(|_| key(draw.below(25_000))).collect();
        let Some(seen) = read_all(&place, &keys) else { continue };
        quick += 1;
        for (key, value) in keys.iter().zip(seen) {
            assert_eq!(value.as_ref(), model.get(key), "{}", key.escape_ascii());
            records += u32::from(value.is_some_and(|value| value.len() > 64));
            let seen = place.table.inspect(0, key).expect("readable");
            displaced += u32::from(seen.is_some_and(|seen| seen.displacement != "home"));
        }
    }
    assert!(
        quick > 9_900 && displaced > 1_000 && records > 1_000,
        "the short way was not often taken: {quick}, {displaced} displaced, {records} in records"
    );
}

#[test]
fn what_is_no_packed_string_of_long_life_is_left_to_the_slow_path() {
    let place = Place::new();
    place.set(0, b"string", b"1", None);
    let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
    let there = Some(b"1".to_vec());
    assert_eq!(read_all(&place, &names(&["string", "none"])), Some(vec![there.clone(), None]));
    place.set(0, b"lasting", b"1", Some(now_ms() + 100_000));
    assert_eq!(read_all(&place, &names(&["lasting", "string"])), Some(vec![there.clone(), there]));
    place.set(0, b"expired", b"1", Some(now_ms() - 1));
    assert_eq!(read_all(&place, &names(&["string", "expired"])), None);
    place.run(|txn| {
        let list = New::of(Kind::List, Value::Packed(&[0, 1]));
        txn.write(0, b"list", &list, Replaces::Whole)
    });
    assert_eq!(read_all(&place, &names(&["string", "list"])), None);
    // A thread that listens is told of misses by the slow path.
    let seat = place.table.seat().expect("a seat");
    take_interest(&seat, interest::MISSES | interest::SUBSCRIBERS);
    assert_eq!(read_all(&place, &names(&["string", "none"])), None);
    lose_interest(&seat, interest::MISSES | interest::SUBSCRIBERS);
    assert_eq!(read_all(&place, &names(&["none", "none"])), Some(vec![None, None]));
}

#[test]
fn a_value_is_viewed_with_all_that_is_known_of_it() {
    let place = Place::new();
    let long = [7; 200];
    for (key, value) in [(&b"short"[..], &b"value"[..]), (b"long", &long)] {
        let until = now_ms() + 100_000;
        place.run(|txn| {
            let new = New { expiry_ms: Some(until), flags: 5, ..New::of(Kind::String, Value::Packed(value)) };
            txn.write(0, key, &new, Replaces::Whole)
        });
        let location = place.table.location(0, key).expect("a database");
        let seen = place.table.quick_view(&location, key, (Kind::String, now_ms()), |found| {
            let found = found?;
            let Value::Packed(bytes) = found.value else { return None };
            Some((bytes.to_vec(), found.expiry_ms, found.flags))
        });
        assert_eq!(seen, Some((value.to_vec(), Some(until), 5)));
        let other = place.table.quick_view(&location, key, (Kind::Hash, now_ms()), |_| Some(()));
        assert_eq!(other, None, "it is of another kind");
    }
    let location = place.table.location(0, b"none").expect("a database");
    let absent = place
        .table
        .quick_view(&location, b"none", (Kind::Hash, now_ms()), |found| found.is_none().then_some(()));
    assert_eq!(absent, Some(()));
}
