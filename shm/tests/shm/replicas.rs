//! Lines of replicas count while their feeds live, and no longer.
use std::sync::Arc;

use crate::common::{Guard, kill_at_each_store};
use polder_shm::change_log::{Appends, Format, Merged};
use polder_shm::layout::replicas as at;
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
    fn record(&mut self, _says: &[u8], _out: &mut Vec<u8>) -> Result<bool, polder_base::Fault> {
        Ok(true)
    }
    fn state(&self) -> u64 {
        0
    }
}

/// A format whose records are what was told.
struct Whole;

impl Format for Whole {
    fn begin(&mut self, _state: u64) {}
    fn record(&mut self, says: &[u8], out: &mut Vec<u8>) -> Result<bool, polder_base::Fault> {
        out.extend_from_slice(says);
        Ok(true)
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
    let by_one = words.acknowledged_by(1, None);
    assert!((wanted..later).contains(&by_one), "{by_one}");
    assert_eq!([0, 2].map(|replicas| words.acknowledged_by(replicas, None)), [u64::MAX, 0]);
    // All that lies before the end is there.
    assert_eq!([before, before + 1].map(|end| words.acknowledged_by(1, Some(end))), [u64::MAX, by_one]);
    assert_eq!(seat.append_to_log(b"PING", Appends::At(before)).unwrap(), Merged::Nothing, "it has moved");
    assert_eq!(seat.append_to_log(b"PING", Appends::At(before + 6)).unwrap(), Merged::Some);
    let mut bytes = Vec::new();
    assert_eq!(seat.read_log(before, &mut bytes, 100).unwrap(), Ok(before + 10));
    assert_eq!(bytes, b"GETACKPING");
}

#[test]
fn without_a_log_no_replica_has_what_was_seen() {
    let (_guard, segment) = segment("replica-off");
    let seat = segment.seat().unwrap();
    let words = segment.replicas();
    assert!(words.claim(5, &seat));
    words.go_online(5, &seat);
    let seen = words.seen();
    assert!(seen > 0 && words.acknowledged_by(1, None) < seen);
    // Each number is beyond what any replica has been asked for.
    assert!(words.seen() > seen);
}

/// R3, at any death of the thread that asks.
#[test]
fn a_question_is_in_the_log_with_its_number_or_not_at_all() {
    let (_guard, segment) = segment("replica-dies-asking");
    let seat = segment.seat().unwrap();
    seat.turn_log_on(&mut || true).unwrap();
    let before = std::cell::Cell::new((0, 0));
    let prepare = || before.set((segment.observe(at::ASKED_CSN), segment.log_range().1));
    let asks = |seat: &polder_shm::Seat| {
        let csn = before.get().0 + 1;
        // So long that some of the deaths meet a new block.
        seat.append_to_log(&[b'x'; 5000], Appends::Question { wanted: csn, csn }).unwrap();
    };
    let look = |store: u64| {
        let (csn, end) = before.get();
        let (asked, place) = (segment.observe(at::ASKED_CSN), segment.observe(at::ASKED_PLACE));
        assert!(asked == csn || place == end, "{asked} at {place} after a death at store {store}");
        assert!([end, end + 5000].contains(&segment.log_range().1), "after a death at store {store}");
    };
    kill_at_each_store(&segment, prepare, asks, look);
    assert_eq!(segment.log_range().1, segment.observe(at::ASKED_END));
}

/// R1 and R2, at any death of a feed.
#[test]
fn a_feed_that_dies_anywhere_leaves_a_line_that_counts_for_no_replica() {
    let (_guard, segment) = segment("replica-dies");
    let own = segment.seat().unwrap();
    own.turn_log_on(&mut || true).unwrap();
    let words = segment.replicas();
    let feeds = |seat: &polder_shm::Seat| {
        for slot in [1, 2, 3] {
            assert!(words.claim(slot, seat));
            words.acknowledge(slot, segment.log_range().1, Some(0), 1);
            words.go_online(slot, seat);
        }
        words.release(3, seat);
    };
    let look = |store: u64| {
        assert_eq!(words.count(0, false), 0, "after a death at store {store}");
        assert!(words.claim(1, &own));
        assert_eq!(words.count(0, false), 0, "after a death at store {store}");
        words.go_online(1, &own);
        assert_eq!(words.count(0, false), 1, "after a death at store {store}");
        words.release(1, &own);
        words.sweep(&own);
        assert!(!words.are_any(), "after a death at store {store}");
    };
    kill_at_each_store(&segment, || {}, feeds, look);
}

/// R4, beside a writer that is stopped or dead anywhere: its commit counts as soon as it is made, and lies below no end that was told.
#[test]
fn no_end_is_settled_above_a_commit_that_is_not_written_out() {
    let (_guard, segment) = segment("replica-settled");
    let own = segment.seat().unwrap();
    own.turn_log_on(&mut || true).unwrap();
    let words = segment.replicas();
    assert!(words.claim(1, &own));
    words.go_online(1, &own);
    let commits = |seat: &polder_shm::Seat| {
        for _ in 0..2 {
            seat.pin();
            seat.open_outbox().unwrap();
            let csn = seat.draw_csn();
            assert!(seat.append_outbox(csn, segment.recording(), &[b'x'; 100]).unwrap().is_ok());
            seat.commit(0).unwrap();
            seat.unpin();
        }
    };
    // The outbox of the next seat is there from now on.
    std::thread::scope(|scope| _ = scope.spawn(|| segment.seat().unwrap().open_outbox().unwrap()));
    let (mut found, mut missed) = (0, 0);
    let look = |store: u64| {
        let before = segment.log_range().1;
        words.acknowledge(1, before, None, 1);
        let settled = words.settled_end();
        let count = words.count(segment.storage().seen(), false);
        segment.recover_dead();
        while own.merge_outboxes(&mut Whole).unwrap() != Merged::Nothing {}
        let is_made = segment.log_range().1 > before;
        let what = format!("after a death at store {store}");
        assert!(!is_made || settled.is_none() && count == 0, "{what}: {settled:?} {count}");
        found += u64::from(settled == Some(before));
        missed += u64::from(is_made);
    };
    kill_at_each_store(&segment, || {}, commits, look);
    assert!(found > 0 && missed > 0, "{found} settled, {missed} made");
}
