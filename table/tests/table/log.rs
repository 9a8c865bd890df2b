//! The change log of a table: which writes are told, and by which transaction they are merged.

use std::sync::mpsc::channel;

use crate::common::Place;
use polder_shm::Locked;
use polder_shm::layout::log::MERGE_LOCK;
use polder_table::{Attributes, Counter, Mode, New, Replaces, Stop, Txn};
use polder_values::{Kind, Value};

/// A table whose log is on and holds nothing. Its keys always lie in the same places: two keys of one bucket may leave the fast path.
fn logged() -> Place {
    let place = Place::with_known_secret();
    place.table.log().turn_on().expect("a log");
    place
}

/// All commands of the log, with a bar for each end of a line.
fn stream(place: &Place) -> String {
    let log = place.table.log();
    while log.merge().expect("room") {}
    let mut bytes = Vec::new();
    log.read(log.range().0, &mut bytes, usize::MAX).expect("nothing is trimmed");
    String::from_utf8_lossy(&bytes).replace("\r\n", "|")
}

fn put(txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    txn.write(0, key, &New::of(Kind::String, Value::Packed(value)), Replaces::Whole)
}

/// A call that writes a key and tells of it.
fn told_put(txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    let mark = txn.mark();
    put(txn, key, value)?;
    txn.tell(0, &[b"SET", key, value]);
    txn.account(mark);
    Ok(())
}

#[test]
fn a_call_accounts_for_what_it_has_written_and_for_nothing_before() {
    let place = logged();
    place.run(|txn| told_put(txn, b"a", b"1"));
    place.run(|txn| {
        // No call tells of this.
        txn.remove(0, b"a", Replaces::Whole)?;
        told_put(txn, b"b", b"2")
    });
    let expected =
        "*2|$6|SELECT|$1|0|*3|$3|SET|$1|a|$1|1|*1|$5|MULTI|*3|$3|SET|$1|b|$1|2|*2|$3|DEL|$1|a|*1|$4|EXEC|";
    assert_eq!(stream(&place), expected);
    assert_eq!(place.table.counter(Counter::Whole), 1);
}

#[test]
fn what_had_expired_is_no_effect_of_the_call_that_meets_it() {
    let place = logged();
    let soon = polder_base::time::now_ms() + 30;
    place.run(|txn| {
        told_put(txn, b"a", b"1")?;
        let mark = txn.mark();
        txn.write(
            0,
            b"gone",
            &New { expiry_ms: Some(soon), ..New::of(Kind::String, Value::Packed(b"2")) },
            Replaces::Whole,
        )?;
        txn.tell(0, &[b"SET", b"gone", b"2"]);
        txn.account(mark);
        Ok(())
    });
    while polder_base::time::now_ms() <= soon {
        std::thread::yield_now();
    }
    let before = stream(&place).len();
    place.run(|txn| {
        let mark = txn.mark();
        assert!(txn.find(0, b"gone")?.is_none());
        txn.remove(0, b"a", Replaces::Whole)?;
        txn.account(mark);
        Ok(())
    });
    assert_eq!(stream(&place)[before..], *"*1|$5|MULTI|*2|$3|DEL|$4|gone|*2|$3|DEL|$1|a|*1|$4|EXEC|");
}

#[test]
fn a_writer_merges_a_little_of_what_waits() {
    const WRITES: u64 = 3000;
    let place = logged();
    place.table.log().keep(64 << 20, 0);
    let value = [b'v'; 1000];
    let (held, free) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        let table = &place.table;
        scope.spawn(move || {
            let seat = table.seat().expect("a seat");
            assert!(matches!(seat.lock(MERGE_LOCK, None), Ok(Locked::Ours(_))));
            held.0.send(()).expect("the other thread waits");
            free.1.recv().expect("the other thread goes on");
            seat.rollback();
            held.0.send(()).expect("the other thread waits");
        });
        held.1.recv().expect("locked");
        (0..WRITES).for_each(|_| place.run(|txn| told_put(txn, b"a", &value)));
        assert_eq!(place.table.log().range().1, 1, "nothing could be merged");
        free.0.send(()).expect("it waits");
        held.1.recv().expect("unlocked");
    });
    place.run(|txn| told_put(txn, b"a", &value));
    let merged = place.table.log().range().1;
    assert!((1 << 18..1 << 20).contains(&merged), "{merged} bytes at the end of one write");
    assert_eq!(stream(&place).matches("|SET|").count() as u64, WRITES + 1);
}

#[test]
fn a_snapshot_that_the_log_goes_on_behind_keeps_what_has_expired() {
    let place = logged();
    place.run(|txn| {
        let mark = txn.mark();
        let new = New {
            expiry_ms: Some(polder_base::time::now_ms() + 1),
            ..New::of(Kind::String, Value::Packed(b"v"))
        };
        txn.write(0, b"k", &new, Replaces::Whole)?;
        txn.tell(0, &[b"SET", b"k", b"v"]);
        txn.account(mark);
        Ok(())
    });
    std::thread::sleep(std::time::Duration::from_millis(5));
    let kept = |snapshot: polder_table::Snapshot<'_>| {
        let (_, items) = snapshot.advance().expect("readable").expect("one key");
        let item = items.into_iter().next().expect("one key");
        snapshot.found(&item).expect("readable").is_some()
    };
    // A call that began before may have met it alive, and be told behind the snapshot.
    assert!(kept(place.table.snapshot_in_log(&mut || true, &mut |_, _| {}).expect("a snapshot")));
    assert!(!kept(place.table.snapshot(&mut || true).expect("a snapshot")));
}

#[test]
fn what_a_call_tells_is_whole_also_where_calls_only_share_a_commit() {
    let place = logged();
    let called = |txn: &Txn<'_>, key: &[u8], marks: &[&[u8]]| {
        let mark = txn.mark();
        put(txn, key, b"1")?;
        txn.tell(0, &[b"SET", key, b"1"]);
        marks.iter().for_each(|text| txn.tell(0, &[b"ECHO", text]));
        txn.tell_together(mark);
        txn.account(mark);
        Ok(())
    };
    place.run(|txn| {
        txn.joins_calls();
        called(txn, b"a", &[])?;
        called(txn, b"b", &[b"x", b"y"])?;
        called(txn, b"c", &[])?;
        called(txn, b"d", &[b"z"])
    });
    let expected = "*2|$6|SELECT|$1|0|*3|$3|SET|$1|a|$1|1|\
        *1|$5|MULTI|*3|$3|SET|$1|b|$1|1|*2|$4|ECHO|$1|x|*2|$4|ECHO|$1|y|*1|$4|EXEC|*3|$3|SET|$1|c|$1|1|\
        *1|$5|MULTI|*3|$3|SET|$1|d|$1|1|*2|$4|ECHO|$1|z|*1|$4|EXEC|";
    assert_eq!(stream(&place), expected);
    // A transaction has one MULTI and one EXEC.
    place.run(|txn| {
        called(txn, b"a", &[b"x"])?;
        called(txn, b"b", &[b"y"])
    });
    let behind = &stream(&place)[expected.len()..];
    assert_eq!((behind.matches("MULTI").count(), behind.matches("EXEC").count()), (1, 1), "{behind}");
}

/// The fast paths of strings: whether each of them is taken.
fn strings_are_set_quickly(place: &Place) -> [bool; 4] {
    let (table, now_ms) = (&place.table, polder_base::time::now_ms());
    let location = table.location(0, b"a").expect("the database has keys");
    let attributes = Attributes { expiry_ms: Some(1 << 45), flags: 7 };
    [
        table.write_plain(0, table.hash(b"a"), b"a", b"2"),
        table.quick_set_all(&location, &[b"a", b"3", b"new", b"33"], now_ms),
        table.quick_set_all(&location, &[b"a", b"4", b"new", b"44"], now_ms),
        table.quick_set_with(&location, b"a", b"5", attributes, (now_ms, 1)).is_some(),
    ]
}

#[test]
fn strings_keep_their_fast_paths_while_the_log_is_on() {
    let place = logged();
    place.run(|txn| told_put(txn, b"a", b"1"));
    assert_eq!(strings_are_set_quickly(&place), [true; 4]);
    let expected = "*2|$6|SELECT|$1|0|*3|$3|SET|$1|a|$1|1|*3|$3|SET|$1|a|$1|2|\
                    *5|$4|MSET|$1|a|$1|3|$3|new|$2|33|*5|$4|MSET|$1|a|$1|4|$3|new|$2|44|\
                    *1|$5|MULTI|*5|$3|SET|$1|a|$1|5|$4|PXAT|$14|35184372088832|\
                    *2|$4|ECHO|$22|polder:item 7 - - 0  a|*1|$4|EXEC|";
    assert_eq!(stream(&place), expected);
    assert_eq!((place.get(0, b"a"), place.get(0, b"new")), (Some(b"5".into()), Some(b"44".into())));
}

#[test]
fn sets_that_are_one_transaction_are_told_as_one_by_the_fast_path() {
    let place = logged();
    place.run(|txn| told_put(txn, b"a", b"1"));
    let location = place.table.location(0, b"a").expect("the database has keys");
    let words: [&[u8]; 6] = [b"a", b"2", b"new", b"3", b"a", b"4"];
    let now_ms = polder_base::time::now_ms();
    assert!(place.table.quick_set_each(&location, &words[..4], (now_ms, 2)));
    assert!(place.table.quick_set_each(&location, &words, (now_ms, 3)));
    let expected = "*2|$6|SELECT|$1|0|*3|$3|SET|$1|a|$1|1|\
                    *1|$5|MULTI|*3|$3|SET|$1|a|$1|2|*3|$3|SET|$3|new|$1|3|*1|$4|EXEC|\
                    *1|$5|MULTI|*3|$3|SET|$1|a|$1|2|*3|$3|SET|$3|new|$1|3|*3|$3|SET|$1|a|$1|4|*1|$4|EXEC|";
    assert_eq!(stream(&place), expected);
    assert_eq!((place.get(0, b"a"), place.get(0, b"new")), (Some(b"4".into()), Some(b"3".into())));
    place.table.refuse_writes(true);
    assert!(!place.table.quick_set_each(&location, &words[..4], (now_ms, 2)));
}

#[test]
fn no_fast_path_writes_where_writes_are_refused_or_a_log_has_begun_unseen() {
    let place = logged();
    place.run(|txn| told_put(txn, b"a", b"1"));
    place.table.refuse_writes(true);
    let before = stream(&place);
    assert_eq!(strings_are_set_quickly(&place), [false; 4]);
    place.table.refuse_writes(false);
    place.table.log().turn_off().expect("no thread is stopped");
    assert!(place.table.write_plain(0, place.table.hash(b"a"), b"a", b"2"));
    // The table has seen that nothing is logged.
    place.table.log().turn_on().expect("a log");
    assert_eq!(strings_are_set_quickly(&place), [false; 4]);
    assert!(before.ends_with("|1|") && stream(&place).is_empty());
}

#[test]
fn a_message_without_room_is_refused_and_the_log_stays_whole() {
    let place = Place::with_ceiling(32 << 20);
    place.table.log().turn_on().expect("a log");
    let identity = place.table.log().identity();
    let publish = |bytes: usize| {
        let txn = place.table.begin(Mode::Read).expect("a seat");
        let message = vec![b'x'; bytes];
        txn.tell_news(0, &[b"PUBLISH", b"channel", &message]);
        let outcome = txn.commit();
        txn.abort();
        outcome
    };
    // The first attempt of a thread finds that it needs an outbox.
    while publish(10) == Err(Stop::Retry) {}
    assert!(stream(&place).ends_with("*3|$7|PUBLISH|$7|channel|$10|xxxxxxxxxx|"));
    assert!(matches!(publish(64 << 20), Err(Stop::Fault(_))));
    place.run(|txn| told_put(txn, b"a", b"1"));
    assert!(stream(&place).ends_with("*3|$3|SET|$1|a|$1|1|"));
    assert_eq!(place.table.log().identity(), identity, "the log goes on");
    let findings = place.table.verify().expect("a walk").findings;
    assert!(findings.is_empty(), "{findings:?}");
}
