//! What a transaction makes and replaces again is free before its commit.

use crate::common::{Place, run, try_run_as};
use polder_table::{Mode, New, Replaces};
use polder_values::string::{self, Draft};
use polder_values::{Kind, Value};

#[test]
fn a_key_that_one_transaction_sets_again_and_again_takes_memory_for_two_values() {
    let place = Place::new();
    let before = place.table.usage().used;
    let seat = place.table.seat().expect("a seat");
    run(&place.table, |txn| {
        for number in 0..4_000u32 {
            let value = vec![number as u8; 100_000];
            txn.write(0, b"key", &New::of(Kind::String, string::make(txn, &value)?), Replaces::Whole)?;
            txn.end_call()?;
            assert!(place.table.usage().used < before + 1_000_000, "after {number} of them");
            assert!(seat.journal_len() < 40, "{} items", seat.journal_len());
        }
        Ok(())
    });
    assert_eq!(place.get(0, b"key"), Some(vec![3_999u32 as u8; 100_000]));
}

#[test]
fn a_small_segment_bears_hundreds_of_large_values_of_one_key_in_one_transaction() {
    let place = Place::with_ceiling(128 << 20);
    try_run_as(&place.table, Mode::Write, |txn| {
        for number in 0..300u32 {
            let value = vec![number as u8; 1 << 20];
            txn.write(0, b"key", &New::of(Kind::String, string::make(txn, &value)?), Replaces::Whole)?;
            txn.end_call()?;
        }
        Ok(())
    })
    .expect("there is room for one value, and the next");
    assert_eq!(place.get(0, b"key").map(|value| value.len()), Some(1 << 20));
}

#[test]
fn what_a_call_has_found_stays_until_its_end() {
    let place = Place::new();
    run(&place.table, |txn| {
        txn.write(0, b"key", &New::of(Kind::String, string::make(txn, &[1; 10_000])?), Replaces::Whole)?;
        txn.end_call()?;
        let found = txn.find(0, b"key")?.expect("it was written");
        for number in 2..40u8 {
            txn.write(
                0,
                b"key",
                &New::of(Kind::String, string::make(txn, &[number; 10_000])?),
                Replaces::Whole,
            )?;
        }
        assert!(string::contiguous(txn, &found.value)?.iter().all(|byte| *byte == 1));
        txn.end_call()
    });
    assert_eq!(place.get(0, b"key"), Some(vec![39; 10_000]));
}

#[test]
fn what_is_shared_with_an_earlier_transaction_is_retired_once() {
    let place = Place::new();
    for key in [&b"key"[..], &[9; 5_000]] {
        place.set_string(0, key, &[1; 200_000]);
        run(&place.table, |txn| {
            for number in 0..20u64 {
                let found = txn.find(0, key)?.expect("it is there");
                let mut draft = Draft::of(&found.value);
                draft.write(txn, number * 7_000, &[2; 3_000])?;
                txn.write(0, key, &New { value: draft.value(), ..New::from(found) }, Replaces::Edited)?;
                txn.end_call()?;
            }
            // The tree that is going is half the old one, half this transaction's.
            txn.write(0, key, &New::of(Kind::String, Value::Packed(b"short")), Replaces::Whole)?;
            txn.end_call()
        });
        assert_eq!(place.get(0, key).as_deref(), Some(&b"short"[..]));
    }
}

#[test]
fn renaming_and_flushing_within_a_transaction_lose_no_node() {
    let place = Place::new();
    run(&place.table, |txn| {
        for number in 0..30u8 {
            txn.write(
                0,
                b"a",
                &New::of(Kind::String, string::make(txn, &vec![number; 50_000])?),
                Replaces::Whole,
            )?;
            txn.end_call()?;
            let found = txn.find(0, b"a")?.expect("it was written");
            let new = New::from(found);
            txn.remove(0, b"a", Replaces::Edited)?;
            txn.write(0, b"b", &new, Replaces::Whole)?;
            txn.end_call()?;
        }
        txn.flush(None)?;
        for number in 0..30u8 {
            txn.write(
                0,
                b"b",
                &New::of(Kind::String, string::make(txn, &vec![number; 60_000])?),
                Replaces::Whole,
            )?;
            if number % 3 == 0 {
                txn.flush(Some(0))?;
            }
            txn.end_call()?;
        }
        Ok(())
    });
    assert_eq!(place.get(0, b"b"), Some(vec![29; 60_000]));
}

#[test]
fn a_transaction_that_is_given_up_after_such_calls_leaves_nothing() {
    let place = Place::new();
    place.set_string(0, b"key", &[1; 100_000]);
    {
        let txn = place.table.begin(Mode::Write).expect("a seat");
        for number in 0..50u32 {
            let key: &[u8] = if number.is_multiple_of(2) { b"key" } else { b"other" };
            let value = string::make(&txn, &[2; 70_000]).expect("room");
            txn.write(0, key, &New::of(Kind::String, value), Replaces::Whole).expect("room");
            txn.end_call().expect("room");
        }
    }
    assert_eq!(place.get(0, b"key"), Some(vec![1; 100_000]));
    assert_eq!(place.get(0, b"other"), None);
}
