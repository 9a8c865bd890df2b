//! Messages that leave with transactions.

use crate::common::Place;
use polder_table::{CommitView, Mode, Stop};

#[test]
fn a_message_leaves_only_if_what_was_read_with_it_is_still_so() {
    let place = Place::new();
    place.set(0, b"a", b"old", None);
    let seat = place.table.seat().expect("a seat");
    seat.open_inbox(1 << 20).expect("room");
    let txn = place.table.begin(Mode::Read).expect("a seat");
    assert!(txn.find(0, b"a").expect("readable").is_some());
    // Another thread changes it and posts about that before this one.
    std::thread::scope(|scope| scope.spawn(|| place.set(0, b"a", b"new", None)).join()).expect("done");
    txn.post(seat.index(), seat.life(), &[b"it is old"]);
    assert_eq!(txn.commit(), Err(Stop::Retry));
    txn.abort();
    let value = txn.find(0, b"a").expect("readable").expect("there");
    assert!(matches!(value.value, polder_values::Value::Packed(b"new")));
    txn.post(seat.index(), seat.life(), &[b"it is", b" new"]);
    txn.commit().expect("nothing has changed");
    drop(txn);
    let mut letter = Vec::new();
    assert!(seat.receive(&mut letter).expect("whole"));
    assert_eq!(letter, b"it is new");
    assert!(!seat.receive(&mut letter).expect("whole"));
}

#[test]
fn what_goes_to_many_comes_to_each() {
    let place = Place::new();
    let seat = place.table.seat().expect("a seat");
    seat.open_inbox(1 << 20).expect("room");
    let txn = place.table.begin(Mode::Read).expect("a seat");
    for parts in
        [&[b"one".as_slice(), b"two"][..], &[b"onetwo"], &[b"onetw"], &[b"onetwo", b"o"], &[], &[b""]]
    {
        txn.post(seat.index(), seat.life(), parts);
    }
    txn.commit().expect("nobody is in the way");
    drop(txn);
    let mut letter = Vec::new();
    for expected in [b"onetwo".as_slice(), b"onetwo", b"onetw", b"onetwoo", b"", b""] {
        assert!(seat.receive(&mut letter).expect("whole"));
        assert_eq!(letter, expected);
    }
}
