//! Transactions of several threads over the same locks, with deaths at every store, of recoverers, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_shm::item::CHANGED;
use polder_shm::layout::seat as at;
use polder_shm::lock::{OWNER, VERSION};
use polder_shm::scenario::{BROKEN, explore, fate, find};
use polder_shm::schedules::{Sleeps, draw};
use polder_shm::staged_journal::Covered;
use polder_shm::sync::Flaw;
use polder_shm::{Locked, Seat, Tag};
use shuttle::thread;

use crate::{Memory, word};

const THREADS: u32 = 3;
const TRANSACTIONS: u32 = 2;
/// Stores of a thread that lives, about: a death is drawn among them.
const STORES: u32 = 90;
const LOCKS: [u64; 2] = [word(0), word(1)];
const COUNTS: [u64; 2] = [word(0) + 8, word(1) + 8];

/// How a transaction commits.
#[derive(Clone, Copy)]
enum Way {
    General,
    Staged,
    Words,
}

/// Adds one to the counts in one transaction.
fn add(seat: &Seat, locks: usize, way: Way) {
    let segment = seat.segment();
    for lock in &LOCKS[..locks] {
        assert!(matches!(seat.lock(*lock, None), Ok(Locked::Ours(_))), "a lock");
    }
    let next: Vec<u64> = COUNTS[..locks].iter().map(|count| segment.load(*count) + 1).collect();
    match way {
        Way::General => {
            for (number, next) in next.iter().enumerate() {
                seat.amend(number as u64, CHANGED);
                seat.note(Tag::Cover, LOCKS[number], 0).expect("room");
                seat.note(Tag::Word, COUNTS[number], *next).expect("room");
            }
            seat.commit(0).expect("room");
        }
        Way::Staged => {
            let mut notes = seat.stage();
            for (number, next) in next.iter().enumerate() {
                notes.cover(number as u64, LOCKS[number]);
                notes.word(COUNTS[number], *next);
            }
            notes.commit();
        }
        Way::Words => {
            let covered = Covered { item: 0, line: LOCKS[0], at: COUNTS[0] };
            seat.commit_words(covered, &next, |_| true, None).expect("room");
        }
    }
}

/// Threads that sleep until they are woken, and all live.
fn handing_over() {
    let memory = Memory::renewed();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let segment = memory.segment.clone();
            thread::spawn(move || {
                segment.live(None, |seat| (0..TRANSACTIONS).for_each(|_| add(seat, 1, Way::Words)))
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| assert!(thread.join().expect("no panic").is_some()));
    memory.check(&[]);
    let all = u64::from(THREADS * TRANSACTIONS);
    assert_eq!(memory.segment.load(COUNTS[0]), all, "{BROKEN}an addition is lost");
    assert_eq!(memory.segment.load(LOCKS[0]) / VERSION, all);
}

/// Threads of which some die.
fn dying() {
    let memory = Memory::renewed();
    let done = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (segment, done) = (memory.segment.clone(), done.clone());
            thread::spawn(move || {
                segment.live(fate(2, STORES), |seat| {
                    for _ in 0..TRANSACTIONS {
                        add(seat, 2, if draw(2) == 0 { Way::General } else { Way::Staged });
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
        })
        .collect();
    let dead =
        threads.into_iter().map(|thread| thread.join().expect("no panic")).filter(Option::is_none).count()
            as u64;
    memory.check(&[]);
    let (done, segment) = (done.load(Ordering::Relaxed), &memory.segment);
    let counts = COUNTS.map(|count| segment.load(count));
    assert!(counts[0] == counts[1], "{BROKEN}half of a transaction: {counts:?}");
    assert!(
        (done..=done + dead).contains(&counts[0]),
        "{BROKEN}{done} additions were acknowledged, {dead} threads died, the count is {counts:?}"
    );
    for lock in LOCKS.map(|lock| segment.load(lock)) {
        assert_eq!(lock & OWNER, 0, "{BROKEN}a lock is left");
        assert_eq!(lock / VERSION, counts[0], "{BROKEN}an addition is lost");
    }
    assert!((0..segment.seats_high()).all(|seat| segment.load(segment.seat_at(seat) + at::STATUS) & 3 == 0));
}

#[test]
fn waiters_are_all_woken_and_no_two_own_a_lock() {
    explore(Sleeps::UntilWoken, handing_over);
}

#[test]
fn a_taker_that_forgets_the_other_sleepers_is_caught() {
    find(Sleeps::UntilWoken, Some(Flaw::ForgetsSleepers), handing_over);
}

#[test]
fn transactions_are_whole_and_acknowledged_ones_stay_at_any_death() {
    explore(Sleeps::ByThemselves, dying);
}

#[test]
fn recovery_without_the_liveness_lock_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::TakesNoLiveness), dying);
}

#[test]
fn a_recoverer_that_writes_what_is_not_covered_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::WritesUncovered), dying);
}

#[test]
fn a_length_that_is_stored_after_the_commit_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::LengthAfterCommit), dying);
}
