//! The swap barrier: a thread that swaps two databases beside writers to one of them, which may die.
//!
//! A word says which of two directories is database 0's; the other one is database 1's. Writers write to database 0 only. So what database 1
//! holds changes by a swap alone. What a writer does around its look at the map is the table's (`database.rs`), restated here.

use polder_shm::item::CHANGED;
use polder_shm::scenario::{BROKEN, explore, fate, find};
use polder_shm::schedules::{Sleeps, draw};
use polder_shm::sync::{self, Flaw};
use polder_shm::{Changes, Locked, Seat, Tag, lock};
use shuttle::thread;

use crate::{Memory, word};

const WRITERS: u64 = 2;
const WRITES: u64 = 2;
const SWAPS: u32 = 2;
const MAP_LOCK: u64 = word(0);
const DIRECTORY_OF_0: u64 = word(0) + 8;
const LOCKS: [u64; 2] = [word(1), word(2)];
const VALUES: [u64; 2] = [word(1) + 8, word(2) + 8];
/// The bits of the databases.
const DATABASE_0: u64 = 1;
const BOTH: u64 = 3;
/// Stores of a writer, about.
const STORES: u32 = 70;
/// Looks at database 1 after a swap.
const LOOKS: u32 = 6;

fn take(seat: &Seat, lock: u64) {
    assert!(matches!(seat.lock(lock, None), Ok(Locked::Ours(_))), "a lock");
}

/// Sets a word that the last lock covers, and commits.
fn set(seat: &Seat, lock: u64, word: u64, value: u64) {
    seat.amend(0, CHANGED);
    seat.note(Tag::Cover, lock, 0).expect("room");
    seat.note(Tag::Word, word, value).expect("room");
    seat.commit(0).expect("room");
}

fn write(seat: &Seat, value: u64) {
    let segment = seat.segment();
    loop {
        let directory = segment.observe(DIRECTORY_OF_0) as usize;
        take(seat, LOCKS[directory]);
        if draw(2) == 0 {
            seat.enter_commit(DATABASE_0, false);
        } else {
            seat.enter_commit_quickly(DATABASE_0);
        }
        let owner = lock::owner(segment.observe(MAP_LOCK)).filter(|owner| *owner != seat.index());
        let is_overtaken = owner.is_some_and(|owner| seat.is_overtaken_by(owner));
        if !is_overtaken && segment.observe(DIRECTORY_OF_0) as usize == directory {
            return set(seat, LOCKS[directory], VALUES[directory], value);
        }
        seat.rollback();
        // Until the swapper is done.
        take(seat, MAP_LOCK);
        seat.rollback();
    }
}

fn swap(seat: &Seat) {
    let (segment, changes) = (seat.segment(), Changes { swapped: BOTH, emptied: 0 });
    loop {
        seat.announce_changes(changes);
        take(seat, MAP_LOCK);
        let mut looks = 0;
        let mut goes_on = || {
            looks += 1;
            looks < 3
        };
        if segment.await_commits(seat.index(), changes, &mut goes_on).is_ok() {
            let directory = segment.load(DIRECTORY_OF_0);
            return set(seat, MAP_LOCK, DIRECTORY_OF_0, 1 - directory);
        }
        seat.rollback();
        sync::yield_now();
    }
}

fn swapping() {
    let memory = Memory::renewed();
    let segment = &memory.segment;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let segment = segment.clone();
            thread::spawn(move || {
                segment.live(fate(3, STORES), |seat| {
                    (0..WRITES).for_each(|number| write(seat, 1 + writer * WRITES + number))
                })
            })
        })
        .collect();
    segment.live(None, |seat| {
        for _ in 0..SWAPS {
            swap(seat);
            let other = VALUES[1 - segment.load(DIRECTORY_OF_0) as usize];
            let seen = segment.load(other);
            (0..LOOKS)
                .for_each(|_| assert_eq!(segment.load(other), seen, "{BROKEN}written under another number"));
        }
    });
    writers.into_iter().for_each(|writer| _ = writer.join().expect("no panic"));
    memory.check(&[]);
    let locks = [MAP_LOCK, LOCKS[0], LOCKS[1]].map(|word| lock::owner(segment.load(word)));
    assert_eq!(locks, [None; 3], "{BROKEN}a lock is left");
}

#[test]
fn no_write_reaches_a_database_that_was_swapped_away_at_any_death() {
    explore(Sleeps::ByThemselves, swapping);
}

#[test]
fn a_swap_that_waits_for_no_writer_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::AwaitsNoCommit), swapping);
}
