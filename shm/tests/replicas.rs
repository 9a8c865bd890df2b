//! What is known of replicas counts while their feeds live, and no longer.
mod common;

use std::sync::Arc;

use common::Guard;
use polder_shm::change_log::{Appends, Format, Merged};
use polder_shm::{Segment, SegmentOptions};

fn segment(name: &str) -> (Guard, Arc<Segment>) {
    let guard = Guard::shm(name);
    let segment =
        Segment::create(&guard.0, &SegmentOptions { ceiling: 1 << 28, ..SegmentOptions::default() }).unwrap();
    (guard, segment)
}

/// A format for logs without records.
struct Nothing;

impl Format for Nothing {
    fn begin(&mut self, _state: u64) {}
    fn record(&mut self, _says: &[u8], _out: &mut Vec<u8>) -> Result<(), polder_base::Fault> {
        Ok(())
    }
    fn state(&self) -> u64 {
        0
    }
}

#[test]
fn a_line_counts_while_its_feed_lives() {
    let (_guard, segment) = segment("replica-line");
    let own = segment.seat().unwrap();
    own.turn_log_on(&mut || true).unwrap();
    let words = segment.replicas();
    assert!(!words.are_any());
    std::thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            let seat = segment.seat().unwrap();
            assert!(words.claim(1, &seat));
            assert_eq!(words.count(0, false), 0, "it copies still");
            words.go_online(1, &seat);
            assert_eq!(words.count(0, false), 1);
            words.acknowledge(1, segment.log_range().1, None, 7_000);
            assert_eq!((words.count_within(2, 9_999), words.count_within(1, 9_999)), (1, 0));
            (seat.index(), seat.life())
        });
        let (seat, life) = theirs.join().unwrap();
        assert!(words.acknowledged(1, seat, life).is_some_and(|read| read.heard_ms == 7_000));
        assert_eq!(words.acknowledged(1, seat, life + 1), None);
    });
    assert_eq!(words.count(0, false), 0, "its feed is gone");
    assert!(words.claim(1, &own));
    assert_eq!(words.count(0, false), 0, "what the dead feed has heard is not this one's");
    words.release(1, &own);
    assert!(!words.are_any());
}

#[test]
fn a_number_is_acknowledged_by_what_lies_behind_its_question() {
    let (_guard, segment) = segment("replica-asked");
    let seat = segment.seat().unwrap();
    seat.turn_log_on(&mut || true).unwrap();
    let words = segment.replicas();
    assert!(words.claim(5, &seat));
    words.go_online(5, &seat);
    let wanted = segment.storage().seen() + 3;
    words.want(wanted);
    assert_eq!(words.unasked(), Some(wanted));
    while segment.storage().draw() < wanted {}
    let drawn = segment.storage().draw();
    assert_eq!(seat.merge_outboxes(&mut Nothing).unwrap(), Merged::Nothing);
    let before = segment.log_range().1;
    assert_eq!(
        seat.append_to_log(b"GETACK", Appends::Question { wanted, csn: drawn }).unwrap(),
        Merged::Some
    );
    assert_eq!(segment.log_range().1, before + 6);
    assert_eq!(words.unasked(), None);
    assert_eq!(
        seat.append_to_log(b"GETACK", Appends::Question { wanted, csn: drawn + 9 }).unwrap(),
        Merged::Nothing,
        "it was asked"
    );
    let later = segment.storage().seen() + 1;
    words.acknowledge(5, before.wrapping_sub(1), None, 1);
    assert_eq!(words.count(wanted, false), 0);
    words.acknowledge(5, before, None, 1);
    assert_eq!((words.count(wanted, false), words.count(wanted, true)), (1, 0));
    words.acknowledge(5, before, Some(before), 1);
    assert_eq!((words.count(later, true), words.count(wanted, true)), (0, 1));
    assert_eq!(seat.append_to_log(b"PING", Appends::At(before)).unwrap(), Merged::Nothing, "it has moved");
    assert_eq!(seat.append_to_log(b"PING", Appends::At(before + 6)).unwrap(), Merged::Some);
    let mut bytes = Vec::new();
    assert_eq!(seat.read_log(before, &mut bytes, 100).unwrap(), Ok(before + 10));
    assert_eq!(bytes, b"GETACKPING");
}
