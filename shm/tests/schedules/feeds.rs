//! A feed that sleeps until a writer wakes it: writers that commit, and roll back, beside it. No record stays behind in an outbox while it sleeps (F1 of
//! `replicas.rs`). A sleep ends by a wake and nothing else here, so one that is missed ends the schedule.
use polder_shm::replicas::Rest;
use polder_shm::scenario::{explore, find};
use polder_shm::schedules::{self, Sleeps, draw, quietly};
use polder_shm::sync::{self, Flaw};
use polder_shm::{Locked, Seat};
use shuttle::thread;

use crate::outboxes::{Plain, change};
use crate::{Memory, word};

const WRITERS: usize = 2;
const WRITES: usize = 2;
/// Bytes of a record of [`change`].
const RECORD_BYTES: usize = 2;

/// A transaction that draws its number and changes nothing.
fn roll_back(seat: &Seat, key: usize) {
    seat.pin();
    assert!(matches!(seat.lock(word(key as u64), None), Ok(Locked::Ours(_))), "a lock");
    seat.draw_csn();
    seat.rollback();
    seat.unpin();
}

/// Feeds until all records have come.
fn feed(seat: &Seat) {
    let segment = seat.segment();
    let (mut place, mut got) = (segment.log_range().0, Vec::new());
    while got.len() < WRITERS * WRITES * RECORD_BYTES {
        seat.merge_outboxes(&mut Plain).expect("sound outboxes");
        let before = got.len();
        let next =
            seat.read_log(place, &mut got, usize::MAX).expect("a sound log").expect("nothing is trimmed");
        place = next;
        if got.len() > before {
            continue;
        }
        let is_woken = seat.prepare_sleep();
        match segment.replicas().await_writer(seat, place) {
            Rest::Long if is_woken => schedules::poll_fifo(seat.index()),
            _ => sync::yield_now(),
        }
        seat.after_sleep();
    }
}

fn feeding() {
    let memory = Memory::renewed();
    let segment = &memory.segment;
    quietly(|| segment.live(None, |seat| seat.turn_log_on(&mut || true).expect("room")));
    let feeds = segment.clone();
    let feed = thread::spawn(move || feeds.live(None, feed));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let segment = segment.clone();
            thread::spawn(move || {
                segment.live(None, |seat| {
                    for _ in 0..WRITES {
                        if draw(4) == 0 {
                            roll_back(seat, writer);
                        }
                        change(seat, writer);
                    }
                })
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| _ = writer.join().expect("no panic"));
    feed.join().expect("no panic").expect("it lives");
    memory.check(&[]);
}

#[test]
fn a_feed_that_sleeps_misses_no_record() {
    explore(Sleeps::UntilWoken, feeding);
}

#[test]
fn a_feed_that_looks_at_the_outboxes_first_is_caught() {
    find(Sleeps::UntilWoken, Some(Flaw::OutboxesFirst), feeding);
}

#[test]
fn a_feed_that_asks_late_is_caught() {
    find(Sleeps::UntilWoken, Some(Flaw::AsksLate), feeding);
}
