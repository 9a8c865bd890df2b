//! The change log in the segment: what readers and followers find beside mergers that die, threads that turn the log on and off, and damage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use crate::common::*;
use polder_base::Fault;
use polder_shm::change_log::{Format, LogGap, Merged};
use polder_shm::layout::{header, log, seat as at};
use polder_shm::{Seat, Segment, SegmentOptions, Tag};

/// Bytes of each record of these tests.
const RECORD: usize = 5000;
/// States of [`Plain`].
const STATES: u64 = 1000;

/// Writes records as they are; its state counts them.
#[derive(Default)]
struct Plain(u64);

impl Format for Plain {
    fn begin(&mut self, state: u64) {
        self.0 = state;
    }

    fn record(&mut self, says: &[u8], out: &mut Vec<u8>) -> Result<bool, Fault> {
        out.extend_from_slice(says);
        self.0 = (self.0 + 1) % STATES;
        Ok(true)
    }

    fn state(&self) -> u64 {
        self.0
    }
}

fn segment(guard: &Guard) -> Arc<Segment> {
    Segment::create(&guard.0, &SegmentOptions { ceiling: 1 << 28, ..SegmentOptions::default() }).unwrap()
}

/// Commits one record.
fn tell(seat: &Seat, says: &[u8]) {
    seat.pin();
    seat.open_outbox().unwrap();
    let csn = seat.draw_csn();
    match seat.append_outbox(csn, seat.segment().recording(), says).unwrap() {
        Ok(()) => seat.commit(0).unwrap(),
        Err(olds) => {
            seat.break_log();
            seat.commit(olds).unwrap();
        }
    }
    seat.unpin();
}

fn merge_all(seat: &Seat) {
    while !matches!(seat.merge_outboxes(&mut Plain::default()).unwrap(), Merged::Nothing | Merged::Busy) {}
}

/// L2: a transaction that makes its outbox has had its pin before.
#[test]
fn the_pin_of_a_commit_reaches_to_the_birth_of_its_outbox() {
    let guard = Guard::shm("log-pin");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    seat.pin();
    let birth = segment.load(header::EPOCH) + 5;
    segment.store(header::EPOCH, birth);
    seat.open_outbox().unwrap();
    assert!(seat.append_outbox(seat.draw_csn(), 0, &[1; 40_000]).unwrap().is_ok());
    assert!(
        seat.get(at::PIN_LOWER) < birth && seat.get(at::PIN_UPPER) >= birth,
        "the block that the commit links may be freed before"
    );
    seat.commit(0).unwrap();
    seat.unpin();
}

/// What each place that was kept or is the end reads as: bytes, or that they are trimmed. Never as damage.
fn read_from(seat: &Seat, places: &[u64], store: u64) {
    for place in places {
        let read = seat.read_log(*place, &mut Vec::new(), usize::MAX);
        assert!(
            matches!(read, Ok(Ok(_) | Err(LogGap::Trimmed))),
            "{place} after a death at store {store}: {read:?}"
        );
    }
}

/// L6: beside a merger that is stopped or dead in the middle of its commit, a reader finds its bytes or that they are trimmed, and the end and
/// the state there belong together.
#[test]
fn a_merger_that_dies_anywhere_leaves_readers_a_whole_log() {
    let guard = Guard::shm("log-merge");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    segment.keep_log(1, 0);
    let places = std::cell::RefCell::new(Vec::new());
    let prepare = || {
        merge_all(&seat);
        (0..4).for_each(|_| tell(&seat, &[7; RECORD]));
        let (base, end) = segment.log_range();
        *places.borrow_mut() = vec![base, (base + end) / 2, end];
    };
    let look = |store: u64| {
        read_from(&seat, &places.borrow(), store);
        let (end, state) = segment.log_end();
        assert_eq!(state, end / RECORD as u64 % STATES, "{end} after a death at store {store}");
    };
    kill_at_each_store(&segment, prepare, merge_all, look);
    assert!(segment.log_range().0 > 0, "something is trimmed");
}

/// The same where the merger begins another stream.
#[test]
fn a_merger_that_dies_while_it_begins_a_stream_leaves_readers_a_whole_log() {
    let guard = Guard::shm("log-anew");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    let places = std::cell::RefCell::new(Vec::new());
    let prepare = || {
        merge_all(&seat);
        (0..8).for_each(|_| tell(&seat, &[7; RECORD]));
        merge_all(&seat);
        let (base, end) = segment.log_range();
        *places.borrow_mut() = vec![base, (base + end) / 2, end];
        seat.break_log();
    };
    kill_at_each_store(&segment, prepare, merge_all, |store| read_from(&seat, &places.borrow(), store));
}

/// A transaction that has not seen the log is waited for by all that turn it on, and no stream outlives a time in which it was off.
#[test]
fn all_that_turn_the_log_on_wait_and_each_off_ends_the_stream() {
    let guard = Guard::shm("log-on");
    let segment = segment(&guard);
    let own = segment.seat().unwrap();
    let gives_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (begun, end) = (channel(), channel());
        scope.spawn(|| {
            let seat = segment.seat().unwrap();
            let (begun, end): (_, std::sync::mpsc::Receiver<()>) = (begun.0, end.1);
            for _ in 0..2 {
                seat.note(Tag::Cover, 0, 0).unwrap();
                begun.send(()).unwrap();
                end.recv().unwrap();
                seat.rollback();
                begun.send(()).unwrap();
                end.recv().unwrap();
            }
        });
        let await_it = || begun.1.recv().unwrap();
        await_it();
        let first =
            scope.spawn(|| segment.seat().unwrap().turn_log_on(&mut || !gives_up.load(Ordering::Relaxed)));
        while !segment.logs() {
            std::thread::yield_now();
        }
        let beside = own.turn_log_on(&mut || false);
        let (is_on, identity) = (segment.logs(), segment.log_identity());
        gives_up.store(true, Ordering::Relaxed);
        let first = first.join().unwrap();
        assert!(beside.is_err(), "the log is on, but a transaction may not have seen it");
        assert!(is_on, "it is the first thread's to turn off");
        assert!(first.is_err() && !segment.logs());
        assert_ne!(segment.log_identity(), identity, "what was told meanwhile is in no stream");

        end.0.send(()).unwrap();
        await_it();
        own.turn_log_on(&mut || false).unwrap();
        let identity = segment.log_identity();
        end.0.send(()).unwrap();
        await_it();
        own.turn_log_on(&mut || false).expect("the transaction has begun after the wait");
        own.break_log();
        merge_all(&own);
        assert_ne!(segment.log_identity(), identity, "the stream is another one");
        assert!(own.turn_log_on(&mut || false).is_err(), "a record of the transaction may be lost");
        assert!(segment.logs());
        let identity = segment.log_identity();
        assert!(own.turn_log_off(&mut || false).is_err(), "a transaction is under way");
        assert!(!segment.logs());
        assert_ne!(
            segment.log_identity(),
            identity,
            "a follower must not take what comes later for the same stream"
        );
        end.0.send(()).unwrap();
        await_it();
        end.0.send(()).unwrap();
    });
}

/// Blocks of a chain.
fn blocks(segment: &Segment, first: u64) -> u64 {
    let (mut block, mut count) = (segment.load(first), 0);
    while block != 0 {
        (block, count) = (segment.load(block + 8), count + 1);
    }
    count
}

/// A commit frees a bounded number of blocks; what is left is freed by the next ones, also where there is nothing to be merged.
#[test]
fn a_long_log_is_freed_in_steps() {
    let guard = Guard::shm("log-steps");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    let (held, most) = (1000, 130);
    segment.keep_log(1, 100 << 20);
    segment.hold_log(3, Some(0));
    while blocks(&segment, log::FIRST) < held {
        (0..50).for_each(|_| tell(&seat, &[7; RECORD]));
        merge_all(&seat);
    }
    assert_eq!(segment.log_range().0, 0);
    segment.hold_log(3, None);
    let mut left = blocks(&segment, log::FIRST);
    for steps in 0.. {
        if seat.merge_outboxes(&mut Plain::default()).unwrap() == Merged::Nothing {
            assert!(steps > 5, "{steps}");
            break;
        }
        let now = blocks(&segment, log::FIRST);
        assert!(left - now < most, "{} blocks at once", left - now);
        left = now;
    }
    let (base, end) = segment.log_range();
    assert!(left <= 2 && end - base < 40_000, "{left} blocks, {base} {end}");
    assert_eq!(seat.read_log(base, &mut Vec::new(), usize::MAX).unwrap(), Ok(end));
}

/// The same where the stream ends: its blocks go in steps, and the next stream goes on behind it meanwhile.
#[test]
fn a_stream_that_begins_frees_the_one_before_in_steps() {
    let guard = Guard::shm("log-anew-steps");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    segment.hold_log(3, Some(0));
    segment.keep_log(1, 100 << 20);
    for _ in 0..40 {
        (0..50).for_each(|_| tell(&seat, &[7; RECORD]));
        merge_all(&seat);
    }
    let (before, (_, end)) = (blocks(&segment, log::FIRST), segment.log_range());
    seat.break_log();
    assert_eq!(seat.merge_outboxes(&mut Plain::default()).unwrap(), Merged::Some);
    seat.break_log();
    assert_eq!(seat.merge_outboxes(&mut Plain::default()).unwrap(), Merged::Some);
    assert!(blocks(&segment, log::FIRST) + 260 > before);
    segment.hold_log(3, Some(segment.log_range().0));
    tell(&seat, &[8; RECORD]);
    tell(&seat, &[9; 2 * RECORD]);
    merge_all(&seat);
    let (base, new_end) = segment.log_range();
    assert_eq!((base, new_end), (end + 2, end + 2 + 3 * RECORD as u64));
    let mut bytes = Vec::new();
    assert_eq!(seat.read_log(base, &mut bytes, usize::MAX).unwrap(), Ok(new_end));
    assert_eq!(bytes, [vec![8; RECORD], vec![9; 2 * RECORD]].concat());
    assert!(blocks(&segment, log::FIRST) < 5);
    segment.word(header::RECORDING).fetch_or(1, Ordering::SeqCst);
    seat.turn_log_off(&mut || false).unwrap();
    assert_eq!(blocks(&segment, log::FIRST), 0);
}

/// A follower that holds the log holds a share of a small segment at most.
#[test]
fn a_hold_keeps_a_share_of_a_small_segment() {
    let guard = Guard::shm("log-share");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    segment.hold_log(3, Some(0));
    // Memory that it keeps is not free any more.
    let share = polder_shm::layout::usable(segment.geometry().ceiling) / 4;
    while segment.log_range().1 < share + 10 * MIB {
        (0..100).for_each(|_| tell(&seat, &[7; RECORD]));
        merge_all(&seat);
    }
    let (base, end) = segment.log_range();
    assert!(base > 0 && end - base < share + MIB, "{base} {end}");
}

/// A follower of a stream that has ended holds nothing of the next one, until it says so.
#[test]
fn a_hold_ends_with_its_stream() {
    let guard = Guard::shm("log-hold-ends");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    segment.keep_log(1, 100 << 20);
    tell(&seat, &[7; RECORD]);
    merge_all(&seat);
    let end = segment.log_range().1;
    segment.hold_log(3, Some(end));
    assert_eq!(segment.held_log(3), Some(end));
    seat.break_log();
    merge_all(&seat);
    assert_eq!(segment.held_log(3), None);
    for _ in 0..40 {
        (0..50).for_each(|_| tell(&seat, &[7; RECORD]));
        merge_all(&seat);
    }
    let (base, end) = segment.log_range();
    assert!(end - base < 40_000, "{base} {end}");
    segment.hold_log(3, Some(base));
    assert_eq!(segment.held_log(3), Some(base));
}

/// In a full segment, blocks that are not kept any more make room for what is to be merged.
#[test]
fn a_full_segment_trims_its_log_first() {
    let guard = Guard::shm("log-full");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    segment.keep_log(1, 100 << 20);
    segment.hold_log(3, Some(0));
    for _ in 0..40 {
        (0..50).for_each(|_| tell(&seat, &[7; RECORD]));
        merge_all(&seat);
    }
    tell(&seat, &[8; 40_000]);
    // Others take all that there is.
    for _ in 0..3 {
        while seat.make(polder_shm::node::NodeKind::Data, 16_000).is_ok() {}
        seat.commit(0).unwrap();
    }
    assert!(matches!(seat.merge_outboxes(&mut Plain::default()), Err(Fault::Full(_))));
    let (_, end) = segment.log_range();
    segment.hold_log(3, None);
    merge_all(&seat);
    assert_eq!(segment.log_range().1, end + 40_000);
}

/// Bytes of outboxes count as the log's, whether anything has been merged or not.
#[test]
fn what_waits_in_outboxes_counts_as_the_logs() {
    let guard = Guard::shm("log-bytes");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    seat.turn_log_on(&mut || false).unwrap();
    tell(&seat, &[7; RECORD]);
    assert!(segment.log_bytes() >= RECORD as u64);
    merge_all(&seat);
    assert!(segment.log_bytes() >= RECORD as u64);
}

/// Damaged words of the log and of outboxes give errors, or lose what is in them; nothing panics, hangs, or writes elsewhere.
#[test]
fn a_damaged_log_gives_errors() {
    let guard = Guard::shm("log-damage");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    let base = segment.seat_at(seat.index());
    let outbox =
        [at::OUTBOX_TAIL, at::OUTBOX_LAST, at::OUTBOX_HEAD, at::OUTBOX_FIRST].map(|word| base + word);
    let words = [outbox, [log::FIRST, log::LAST, log::BASE, log::TAIL]].concat();
    // Words of the first and last blocks: the link, the place, the bytes of the first record.
    let inside =
        [log::FIRST, log::LAST, outbox[3], outbox[1]].map(|block| [8, 16, 24].map(|word| (block, word)));
    let places = words
        .iter()
        .map(|word| (*word, None))
        .chain(inside.concat().into_iter().map(|(block, word)| (block, Some(word))));
    for (word, inside) in places {
        for case in 0..14 {
            (0..8).for_each(|_| tell(&seat, &[7; RECORD]));
            merge_all(&seat);
            (0..8).for_each(|_| tell(&seat, &[7; RECORD]));
            let place = inside.map_or(word, |inside| segment.load(word) + inside);
            let (now, first) = (segment.load(place), segment.load(log::FIRST));
            let value = [
                0,
                1,
                8,
                now.wrapping_add(1),
                now.wrapping_add(8),
                now.wrapping_sub(8),
                now.wrapping_add(1 << 40),
                u64::MAX,
                u64::MAX - 7,
                u64::MAX / 2,
                first,
                first + 8,
                segment.load(outbox[3]),
                segment.load(log::LAST),
            ][case];
            segment.store(place, value);
            let what = format!("word {word}, {inside:?} was {now:#x}, is {value:#x}");
            for _ in 0..3 {
                let _damaged = seat.merge_outboxes(&mut Plain::default());
                for place in [segment.log_range().0, segment.log_end().0, 0, RECORD as u64] {
                    let _damaged = seat.read_log(place, &mut Vec::new(), 1 << 20);
                }
                seat.pin();
                let appended = seat.append_outbox(seat.draw_csn(), 0, &[1; RECORD]);
                match appended {
                    Ok(Ok(())) => seat.commit(0).unwrap(),
                    _ => seat.rollback(),
                }
                seat.unpin();
                assert_eq!(seat.journal_len(), 0, "{what}");
            }
            // A chain that is no chain any more is left behind, so that the next case begins with whole ones.
            for word in outbox {
                segment.store(word, 0);
            }
            for word in [log::FIRST, log::LAST, log::BASE, log::TAIL] {
                segment.store(word, 0);
            }
        }
    }
}
