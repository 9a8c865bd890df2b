//! Protocols of the table, restated over atomics whose schedules a checker chooses. The real code of the shared memory below it runs in
//! tests/schedules.
//!
//! Each protocol is written here once more, step by step and as small as it goes, and shuttle runs it through thousands of
//! schedules. Each model names the code that it mirrors: change both. Each has a variant that is broken on purpose, in the way that a
//! careless edit would break it: the model must catch that, or it proves nothing.
//!
//! Shuttle's atomics are sequentially consistent: what is proven here is the order of steps, not the choice of
//! barriers (the marks `SYNC:` in the code pair those).

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::{rand::Rng, thread};

mod common;
use common::schedules::{explore, find, words};

/// Mirrors `journal.rs` (`commit`, `redo_with`, `rollback`) and the table's `lookup.rs` (`look`, `still`): two keys in two buckets,
/// always written together.
mod publish {
    use super::*;

    const OWNED: u64 = 1;
    const VERSION: u64 = 1 << 32;
    const COMMITTED: u64 = 1;

    struct World {
        lock: [AtomicU64; 2],
        value: [AtomicU64; 2],
        status: AtomicU64,
        journal: AtomicU64,
        journal_len: AtomicU64,
        acknowledged: AtomicU64,
    }

    impl World {
        /// One transaction, which dies before step `dies_at`; returns whether it lived.
        fn write(&self, value: u64, dies_at: u32) -> bool {
            let mut step = 0;
            let mut dies = || {
                step += 1;
                step > dies_at
            };
            for lock in &self.lock {
                if dies() {
                    return false;
                }
                lock.fetch_or(OWNED, SeqCst);
            }
            if dies() {
                return false;
            }
            self.journal.store(value, SeqCst);
            self.journal_len.store(1, SeqCst);
            if dies() {
                return false;
            }
            self.status.fetch_or(COMMITTED, SeqCst);
            if !self.redo(&mut dies) {
                return false;
            }
            self.acknowledged.store(value, SeqCst);
            true
        }

        fn redo(&self, dies: &mut dyn FnMut() -> bool) -> bool {
            let value = self.journal.load(SeqCst);
            for (lock, place) in self.lock.iter().zip(&self.value) {
                if dies() {
                    return false;
                }
                if lock.load(SeqCst) & OWNED != 0 {
                    place.store(value, SeqCst);
                }
            }
            for lock in self.lock.iter().rev() {
                if dies() {
                    return false;
                }
                let word = lock.load(SeqCst);
                if word & OWNED != 0 {
                    lock.store((word & !OWNED) + VERSION, SeqCst);
                }
            }
            self.journal_len.store(0, SeqCst);
            if dies() {
                return false;
            }
            self.status.store((self.status.load(SeqCst) & !3) + 4, SeqCst);
            true
        }

        /// Recovers the dead writer; the first recoverer dies, too, after `steps`.
        fn settle(&self, mut steps: u32) {
            if self.status.load(SeqCst) & 3 == COMMITTED {
                let mut dies = || {
                    steps = steps.saturating_sub(1);
                    steps == 0
                };
                if !self.redo(&mut dies) {
                    self.redo(&mut || false);
                }
                return;
            }
            for lock in &self.lock {
                lock.fetch_and(!OWNED, SeqCst);
            }
            self.journal_len.store(0, SeqCst);
        }

        /// Reads one key without waiting; `None`: something changed meanwhile.
        fn look(&self, key: usize, marks: &mut Vec<(usize, u64)>, marks_status: bool) -> Option<u64> {
            let word = self.lock[key].load(SeqCst);
            let status = self.status.load(SeqCst);
            let mut value = self.value[key].load(SeqCst);
            let owned = word & OWNED != 0;
            if owned && status & 3 == COMMITTED && self.journal_len.load(SeqCst) > 0 {
                value = self.journal.load(SeqCst);
            }
            marks.push((key, word));
            if owned && marks_status {
                marks.push((2, status));
            }
            let steady =
                self.lock[key].load(SeqCst) == word && (!owned || self.status.load(SeqCst) == status);
            steady.then_some(value)
        }

        fn still(&self, marks: &[(usize, u64)]) -> bool {
            marks.iter().all(|(what, word)| match what {
                2 => self.status.load(SeqCst) == *word,
                key => self.lock[*key].load(SeqCst) == *word,
            })
        }

        /// Reads both keys at one moment, if that comes about within a few attempts.
        fn read(&self, marks_status: bool) {
            for _ in 0..3 {
                let acknowledged = self.acknowledged.load(SeqCst);
                let mut marks = Vec::new();
                let first = self.look(0, &mut marks, marks_status);
                if let Some(first) = first {
                    assert!(first >= acknowledged, "stale after acknowledgement");
                }
                let second = self.look(1, &mut marks, marks_status);
                if let (Some(first), Some(second)) = (first, second)
                    && self.still(&marks)
                {
                    assert_eq!(first, second, "half of a transaction");
                }
            }
        }
    }

    pub fn committing(marks_status: bool) {
        let world = Arc::new(World {
            lock: words([0; 2]),
            value: words([0; 2]),
            status: AtomicU64::new(0),
            journal: AtomicU64::new(0),
            journal_len: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
        });
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            assert!(theirs.write(1, u32::MAX));
            let dies_at = shuttle::rand::thread_rng().gen_range(0..11);
            if !theirs.write(2, dies_at) {
                theirs.settle(shuttle::rand::thread_rng().gen_range(1..8));
            }
        });
        world.read(marks_status);
        writer.join().unwrap();
        let [first, second] = [0, 1].map(|key| world.value[key].load(SeqCst));
        assert!(first == second && first >= 1, "recovery left {first} and {second}");
        assert!(world.lock.iter().all(|lock| lock.load(SeqCst) & OWNED == 0));
    }
}

#[test]
fn readers_see_all_of_a_transaction_or_nothing_at_any_death() {
    explore(|| publish::committing(true));
}

#[test]
#[should_panic(expected = "half of a transaction")]
fn the_model_catches_marks_without_the_owners_status() {
    find(|| publish::committing(false));
}

/// Mirrors the table's `grow.rs` (`try_grow`), `txn.rs` (`hold`) and `lookup.rs` (`lookup`): an extent is replaced under readers and
/// writers of a key in it.
mod extents {
    use super::*;

    const OWNED: u64 = 1;
    const DEAD: u64 = 2;
    const VERSION: u64 = 4;
    const EXTENTS: usize = 3;

    struct World {
        /// The directory's slot: the extent that counts.
        slot: AtomicU64,
        bucket: [AtomicU64; EXTENTS],
        value: [AtomicU64; EXTENTS],
        acknowledged: AtomicU64,
    }

    impl World {
        /// Locks the bucket of the current extent. `minds_death`: a dead bucket is not taken, but looked up again.
        fn lock(&self, minds_death: bool) -> usize {
            let taken = if minds_death { OWNED | DEAD } else { OWNED };
            loop {
                let at = self.slot.load(SeqCst) as usize;
                let word = self.bucket[at].load(SeqCst);
                if word & taken == 0
                    && self.bucket[at].compare_exchange(word, word | OWNED, SeqCst, SeqCst).is_ok()
                {
                    // What is locked and alive is current: it dies only under its lock.
                    assert!(!minds_death || self.slot.load(SeqCst) as usize == at);
                    return at;
                }
                thread::yield_now();
            }
        }

        fn unlock(&self, at: usize, dead: u64) {
            self.bucket[at].fetch_xor(OWNED | dead, SeqCst);
            self.bucket[at].fetch_add(VERSION, SeqCst);
        }

        fn grow(&self) {
            let old = self.lock(true);
            let new = old + 1;
            self.value[new].store(self.value[old].load(SeqCst), SeqCst);
            self.slot.store(new as u64, SeqCst);
            self.unlock(old, DEAD);
        }

        fn write(&self, minds_death: bool) {
            let at = self.lock(minds_death);
            let value = self.value[at].load(SeqCst) + 1;
            self.value[at].store(value, SeqCst);
            self.unlock(at, 0);
            self.acknowledged.store(value, SeqCst);
        }

        fn read(&self) {
            let acknowledged = self.acknowledged.load(SeqCst);
            for _ in 0..4 {
                let at = self.slot.load(SeqCst) as usize;
                let word = self.bucket[at].load(SeqCst);
                if word & DEAD != 0 {
                    continue;
                }
                let value = self.value[at].load(SeqCst);
                if self.bucket[at].load(SeqCst) == word && self.slot.load(SeqCst) as usize == at {
                    assert!(value >= acknowledged, "a write is lost to a reader");
                    return;
                }
            }
        }
    }

    pub fn replacing(minds_death: bool) {
        let world = Arc::new(World {
            slot: AtomicU64::new(0),
            bucket: words([0; EXTENTS]),
            value: words([0; EXTENTS]),
            acknowledged: AtomicU64::new(0),
        });
        let (growing, writing) = (world.clone(), world.clone());
        let grower = thread::spawn(move || (1..EXTENTS).for_each(|_| growing.grow()));
        let writer = thread::spawn(move || (0..2).for_each(|_| writing.write(minds_death)));
        (0..3).for_each(|_| world.read());
        grower.join().unwrap();
        writer.join().unwrap();
        assert_eq!(world.value[world.slot.load(SeqCst) as usize].load(SeqCst), 2, "a write is lost");
    }
}

#[test]
fn an_extent_is_replaced_under_readers_and_writers() {
    explore(|| extents::replacing(true));
}

#[test]
#[should_panic(expected = "a write is lost")]
fn the_model_catches_a_writer_that_takes_a_dead_bucket() {
    find(|| extents::replacing(false));
}

/// Mirrors the table's `interest.rs`: `take_interest`, `lose_interest`, `settle_interest`. Two seats come and go. While a seat has said that
/// it listens, and has not taken that back, the header shows its bit.
mod interest {
    use super::*;

    const BIT: u64 = 1;
    const CHANGE: u64 = 2;

    struct World {
        header: AtomicU64,
        seats: [AtomicU64; 2],
        always_counts: bool,
    }

    impl World {
        fn take(&self, me: usize) {
            self.seats[me].store(BIT, SeqCst);
            if self.always_counts || self.header.load(SeqCst) & BIT == 0 {
                loop {
                    let now = self.header.load(SeqCst);
                    if self.header.compare_exchange(now, (now | BIT) + CHANGE, SeqCst, SeqCst).is_ok() {
                        break;
                    }
                }
            }
            assert!(self.header.load(SeqCst) & BIT != 0, "nobody knows that we listen");
        }

        fn lose(&self, me: usize) {
            self.seats[me].store(0, SeqCst);
            let now = self.header.load(SeqCst);
            let wanted = self.seats.iter().fold(0, |bits, seat| bits | seat.load(SeqCst));
            if now & BIT & !wanted != 0 {
                let _ = self.header.compare_exchange(now, now & !BIT, SeqCst, SeqCst);
            }
        }
    }

    pub fn coming_and_going(always_counts: bool) {
        let world = Arc::new(World { header: AtomicU64::new(0), seats: words([0; 2]), always_counts });
        let threads: Vec<_> = (0..2)
            .map(|me| {
                let world = world.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        world.take(me);
                        thread::yield_now();
                        assert!(world.header.load(SeqCst) & BIT != 0, "nobody knows that we listen");
                        world.lose(me);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_listening_seat_shows_in_the_header_while_another_stops_listening() {
    explore(|| interest::coming_and_going(true));
}

#[test]
#[should_panic(expected = "nobody knows that we listen")]
fn the_model_catches_a_listener_that_finds_the_bit_set_and_leaves_it_at_that() {
    find(|| interest::coming_and_going(false));
}
