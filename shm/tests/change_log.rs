//! The change log in the segment: what readers and followers find beside mergers that die, threads that turn the log on and off, and damage.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use common::*;
use polder_base::Fault;
use polder_shm::change_log::{Format, LogGap, Merged};
use polder_shm::layout::{header, seat as at};
use polder_shm::{Seat, Segment, SegmentOptions, Tag, crash};

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

    fn record(&mut self, says: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        out.extend_from_slice(says);
        self.0 = (self.0 + 1) % STATES;
        Ok(())
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
    while seat.merge_outboxes(&mut Plain::default()).unwrap() == Merged::Some {}
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
    assert!(seat.get(at::PIN_LOWER) < birth && seat.get(at::PIN_UPPER) >= birth, "the block that the commit links may be freed before");
    seat.commit(0).unwrap();
    seat.unpin();
}

/// Kills a child before each store of `work`; after each death `look` looks at what it has left, before anything is recovered.
fn kill_at_each_store(segment: &Arc<Segment>, mut prepare: impl FnMut(), work: impl Fn(&Seat), mut look: impl FnMut(u64)) {
    for store in 1.. {
        prepare();
        let ended = outcome(child(|| {
            let seat = segment.seat().unwrap();
            crash::arm(store);
            work(&seat);
            0
        }));
        look(store);
        segment.recover_dead();
        if ended != -libc::SIGKILL {
            assert_eq!((ended, store > 20), (0, true), "the work has many stores");
            return;
        }
    }
}

/// What each place that was kept or is the end reads as: bytes, or that they are trimmed. Never as damage.
fn read_from(seat: &Seat, places: &[u64], store: u64) {
    for place in places {
        let read = seat.read_log(*place, &mut Vec::new(), usize::MAX);
        assert!(matches!(read, Ok(Ok(_) | Err(LogGap::Trimmed))), "{place} after a death at store {store}: {read:?}");
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
        let first = scope.spawn(|| segment.seat().unwrap().turn_log_on(&mut || !gives_up.load(Ordering::Relaxed)));
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
        assert!(own.turn_log_off(&mut || false).is_err(), "a transaction is under way");
        assert!(!segment.logs());
        assert_ne!(segment.log_identity(), identity, "a follower must not take what comes later for the same stream");
        end.0.send(()).unwrap();
        await_it();
        end.0.send(()).unwrap();
    });
}
