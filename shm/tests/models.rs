//! The protocols of the shared memory, restated over atomics whose schedules a checker chooses.
//!
//! The real code runs on words of a mapping, which no checker sees. So each protocol is written here once more, step by
//! step and as small as it goes, and shuttle runs it through thousands of schedules. Each model names the code that it
//! mirrors: change both. Each has a variant that is broken on purpose, in the way that a careless
//! edit would break it: the model must catch that, or it proves nothing.
//!
//! Shuttle's atomics are sequentially consistent: what is proven here is the order of steps, not the choice of
//! barriers (the marks `SYNC:` in the code pair those).

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use shuttle::sync::{Condvar, Mutex};
use shuttle::{rand::Rng, thread};

mod common;
use common::schedules::{explore, find, words};

/// Mirrors `lock.rs`: `lock_try`, `lock_wait`, `unlock`. Naps are left out, since each only leads to another attempt, and so is the last
/// attempt of a thread whose deadline has passed (a test in table/tests/maintenance.rs). Here all threads sleep at once, which is the hardest
/// case for waking.
mod lock {
    use super::*;

    pub const OWNER: u64 = 0xfff;
    pub const WAITERS: u64 = 1 << 12;
    pub const STARVING: u64 = 1 << 13;

    /// A word to sleep on, as the kernel gives it: compared and put to sleep in one step.
    pub struct Futex {
        pub word: AtomicU64,
        gate: Mutex<()>,
        signal: Condvar,
    }

    impl Futex {
        pub fn new() -> Futex {
            Futex { word: AtomicU64::new(0), gate: Mutex::new(()), signal: Condvar::new() }
        }

        fn wait(&self, expected: u64) {
            let gate = self.gate.lock().unwrap();
            if self.word.load(SeqCst) == expected {
                drop(self.signal.wait(gate).unwrap());
            }
        }

        fn wake_one(&self) {
            let _gate = self.gate.lock().unwrap();
            self.signal.notify_one();
        }

        /// `keeps_waiters`: a thread that has slept leaves the waiters' bit, since others may still sleep.
        /// Sleeps end only when another thread wakes the sleeper: a lost wake is a deadlock here, not 2 ms of delay.
        pub fn lock(&self, seat: u64, keeps_waiters: bool) {
            let mut slept = false;
            loop {
                let word = self.word.load(SeqCst);
                if word & OWNER == 0 && (slept || word & STARVING == 0) {
                    let taken = (word & !STARVING) | (seat + 1) | if slept && keeps_waiters { WAITERS } else { 0 };
                    if self.word.compare_exchange(word, taken, SeqCst, SeqCst).is_ok() {
                        return;
                    }
                    continue;
                }
                // Any waiter may have waited long enough to be starving.
                let starving = if shuttle::rand::thread_rng().gen_bool(0.5) { STARVING } else { 0 };
                let wanted = word | WAITERS | starving;
                if wanted != word && self.word.compare_exchange(word, wanted, SeqCst, SeqCst).is_err() {
                    continue;
                }
                self.wait(wanted);
                slept = true;
            }
        }

        pub fn unlock(&self) {
            let mut seen = self.word.load(SeqCst);
            while let Err(now) = self.word.compare_exchange(seen, seen & !(OWNER | WAITERS), SeqCst, SeqCst) {
                seen = now;
            }
            if seen & WAITERS != 0 {
                self.wake_one();
            }
        }
    }

    pub fn parking(keeps_waiters: bool) {
        let shared = Arc::new((Futex::new(), AtomicBool::new(false)));
        let threads: Vec<_> = (0..3)
            .map(|seat| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        shared.0.lock(seat, keeps_waiters);
                        assert!(!shared.1.swap(true, SeqCst), "two owners");
                        shared.1.store(false, SeqCst);
                        shared.0.unlock();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.0.word.load(SeqCst) & OWNER, 0);
    }
}

#[test]
fn parked_waiters_are_all_woken_and_handed_the_lock() {
    explore(|| lock::parking(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_catches_a_taker_that_forgets_the_other_sleepers() {
    find(|| lock::parking(false));
}

/// Mirrors `Segment::probe` and `recover::settle` for a lock whose owner dies: `lock_wait` probes after each sleep.
mod death {
    use super::*;

    const LIVES: u64 = 1;
    const DEAD: u64 = 2;
    const TAKEN: u64 = 3;

    struct World {
        word: AtomicU64,
        /// The liveness lock of seat 0, whose thread dies.
        liveness: AtomicU64,
        inside: AtomicBool,
    }

    impl World {
        /// `locked`: only a thread that has taken the dead seat's liveness lock recovers it.
        fn probe(&self, locked: bool, dies: bool) {
            if locked && self.liveness.compare_exchange(DEAD, TAKEN, SeqCst, SeqCst).is_err() {
                return;
            }
            if !locked && self.liveness.load(SeqCst) != DEAD {
                return;
            }
            if dies {
                // The recoverer dies over it: the kernel marks the liveness lock once more.
                self.liveness.store(DEAD, SeqCst);
                return;
            }
            if self.word.load(SeqCst) == 1 {
                self.word.store(0, SeqCst);
            }
            self.liveness.store(TAKEN, SeqCst);
        }

        fn lock(&self, seat: u64, locked: bool) {
            let mut dies_once = seat == 1;
            while self.word.compare_exchange(0, seat + 1, SeqCst, SeqCst).is_err() {
                // A sleep ends by itself after PROBE: no thread needs to wake this one.
                thread::yield_now();
                if self.word.load(SeqCst) == 1 {
                    self.probe(locked, std::mem::take(&mut dies_once));
                }
            }
        }
    }

    pub fn recovery(locked: bool) {
        let world = Arc::new(World { word: AtomicU64::new(1), liveness: AtomicU64::new(LIVES), inside: AtomicBool::new(false) });
        let dying = {
            let world = world.clone();
            thread::spawn(move || world.liveness.store(DEAD, SeqCst))
        };
        let threads: Vec<_> = (1..4)
            .map(|seat| {
                let world = world.clone();
                thread::spawn(move || {
                    world.lock(seat, locked);
                    assert!(!world.inside.swap(true, SeqCst), "two owners");
                    world.inside.store(false, SeqCst);
                    world.word.store(0, SeqCst);
                })
            })
            .collect();
        dying.join().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_dead_owner_is_recovered_once_even_if_a_recoverer_dies() {
    explore(|| death::recovery(true));
}

#[test]
#[should_panic(expected = "two owners")]
fn the_model_catches_recovery_without_the_liveness_lock() {
    find(|| death::recovery(false));
}

/// Mirrors `Seat::pin`, `Seat::covers_now` and `retired.rs`: `pins_now`, `free_for_all`.
mod pins {
    use super::*;

    const NO_PIN: u64 = u64::MAX;
    const NODES: usize = 4;

    struct World {
        epoch: AtomicU64,
        lower: AtomicU64,
        upper: AtomicU64,
        /// The entry: which node it names.
        entry: AtomicU64,
        birth: [AtomicU64; NODES],
        freed: [AtomicBool; NODES],
    }

    impl World {
        fn read(&self, covers: bool) {
            let epoch = self.epoch.load(SeqCst);
            self.upper.store(epoch, SeqCst);
            self.lower.store(epoch, SeqCst);
            let node = loop {
                let node = self.entry.load(SeqCst) as usize;
                let now = self.epoch.load(SeqCst);
                if !covers || now == self.upper.load(SeqCst) {
                    break node;
                }
                self.upper.store(now, SeqCst);
            };
            for _ in 0..2 {
                assert!(!self.freed[node].load(SeqCst), "read a freed node");
            }
            self.lower.store(NO_PIN, SeqCst);
        }

        fn write(&self) {
            let mut retired: Vec<(usize, u64)> = Vec::new();
            for node in 1..NODES {
                self.birth[node].store(self.epoch.load(SeqCst), SeqCst);
                let old = self.entry.swap(node as u64, SeqCst) as usize;
                // After the node is out of reach.
                retired.push((old, self.epoch.load(SeqCst)));
                self.epoch.fetch_add(1, SeqCst);
                let (lower, upper) = (self.lower.load(SeqCst), self.upper.load(SeqCst));
                retired.retain(|&(node, retired)| {
                    let free = lower == NO_PIN || retired < lower || self.birth[node].load(SeqCst) > upper;
                    if free {
                        self.freed[node].store(true, SeqCst);
                    }
                    !free
                });
            }
        }
    }

    pub fn reclaiming(covers: bool) {
        let world = Arc::new(World {
            epoch: AtomicU64::new(1),
            lower: AtomicU64::new(NO_PIN),
            upper: AtomicU64::new(0),
            entry: AtomicU64::new(0),
            birth: words([1; NODES]),
            freed: [false; NODES].map(AtomicBool::new),
        });
        let theirs = world.clone();
        let reader = thread::spawn(move || (0..2).for_each(|_| theirs.read(covers)));
        world.write();
        reader.join().unwrap();
    }
}

#[test]
fn a_pinned_reader_never_sees_a_freed_node() {
    explore(|| pins::reclaiming(true));
}

#[test]
#[should_panic(expected = "read a freed node")]
fn the_model_catches_a_reader_that_does_not_widen_its_pin() {
    find(|| pins::reclaiming(false));
}

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
            let steady = self.lock[key].load(SeqCst) == word && (!owned || self.status.load(SeqCst) == status);
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
                if word & taken == 0 && self.bucket[at].compare_exchange(word, word | OWNED, SeqCst, SeqCst).is_ok() {
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

/// Mirrors `inbox.rs` (`Posting`, `receive`, `drop_read_blocks`) and what `journal.rs` does with it: messages of two senders, one of which
/// dies at any step and is recovered. A block has room for one message, so that each but the first needs a link.
mod inbox {
    use super::*;

    const OWNED: u64 = 1;
    const BLOCKS: usize = 8;
    const NONE: u64 = u64::MAX;

    struct World {
        /// Which sender holds the inbox: its number + 1.
        lock: AtomicU64,
        tail: AtomicU64,
        last: AtomicU64,
        first: AtomicU64,
        head: AtomicU64,
        letter: [AtomicU64; BLOCKS],
        link: [AtomicU64; BLOCKS],
        freed: [AtomicBool; BLOCKS],
        fresh: AtomicU64,
        pinned: [AtomicBool; 2],
        committed: [AtomicBool; 2],
        /// Journal: the last block as it was, the new one, the tail to be.
        noted: [[AtomicU64; 3]; 2],
        /// How far the journal has been forgotten: letters of a sender that are done.
        done: [AtomicU64; 2],
        dead: [AtomicBool; 2],
        rules: Rules,
    }

    #[derive(Clone, Copy)]
    pub struct Rules {
        /// A sender pins the last block that it saw.
        pub pins: bool,
        /// A recoverer writes only what the dead one's lock still covers.
        pub minds_cover: bool,
    }

    impl World {
        fn new(rules: Rules) -> World {
            World {
                lock: AtomicU64::new(0),
                tail: AtomicU64::new(0),
                last: AtomicU64::new(0),
                first: AtomicU64::new(0),
                head: AtomicU64::new(0),
                letter: words([0; BLOCKS]),
                link: words([NONE; BLOCKS]),
                freed: [false; BLOCKS].map(AtomicBool::new),
                fresh: AtomicU64::new(1),
                pinned: [false; 2].map(AtomicBool::new),
                committed: [false; 2].map(AtomicBool::new),
                noted: [words([NONE; 3]), words([NONE; 3])],
                done: words([0; 2]),
                dead: [false; 2].map(AtomicBool::new),
                rules,
            }
        }

        /// Sends one message; dies before step `dies_at`. Returns whether it lived.
        fn send(&self, me: usize, letter: u64, dies_at: u32) -> bool {
            while self.lock.compare_exchange(0, me as u64 + OWNED, SeqCst, SeqCst).is_err() {
                thread::yield_now();
                self.probe();
            }
            let mut step = 0;
            let mut dies = || {
                step += 1;
                step > dies_at
            };
            self.pinned[me].store(self.rules.pins, SeqCst);
            let (tail, last) = (self.tail.load(SeqCst), self.last.load(SeqCst));
            if dies() {
                return self.die(me);
            }
            // The first letter goes into the block that is there, each other one into a block of its own.
            let place = if tail == 0 { last } else { self.fresh.fetch_add(1, SeqCst) };
            self.letter[place as usize].store(letter, SeqCst);
            for (word, value) in self.noted[me].iter().zip([last, if place == last { NONE } else { place }, tail + 1]) {
                word.store(value, SeqCst);
            }
            if dies() {
                return self.die(me);
            }
            self.committed[me].store(true, SeqCst);
            if !self.redo(me, true, &mut dies) {
                return self.die(me);
            }
            self.pinned[me].store(false, SeqCst);
            true
        }

        fn die(&self, me: usize) -> bool {
            self.dead[me].store(true, SeqCst);
            false
        }

        /// Writes a committed letter out: link, last, tail, in this order, then the lock.
        fn redo(&self, me: usize, covered: bool, dies: &mut dyn FnMut() -> bool) -> bool {
            let [last, link, tail] = [0, 1, 2].map(|word| self.noted[me][word].load(SeqCst));
            if covered {
                if link != NONE {
                    assert!(!self.freed[last as usize].load(SeqCst), "wrote into a freed block");
                    self.link[last as usize].store(link, SeqCst);
                    if dies() {
                        return false;
                    }
                    self.last.store(link, SeqCst);
                }
                if dies() {
                    return false;
                }
                self.tail.store(tail, SeqCst);
            }
            if dies() {
                return false;
            }
            let _ = self.lock.compare_exchange(me as u64 + OWNED, 0, SeqCst, SeqCst);
            if dies() {
                return false;
            }
            self.committed[me].store(false, SeqCst);
            self.done[me].fetch_add(1, SeqCst);
            true
        }

        /// The first thread that finds the dead sender recovers it.
        fn probe(&self) {
            for me in 0..2 {
                if self.dead[me].compare_exchange(true, false, SeqCst, SeqCst).is_err() {
                    continue;
                }
                if self.committed[me].load(SeqCst) {
                    let covered = !self.rules.minds_cover || self.lock.load(SeqCst) == me as u64 + OWNED;
                    self.redo(me, covered, &mut || false);
                } else {
                    let _ = self.lock.compare_exchange(me as u64 + OWNED, 0, SeqCst, SeqCst);
                }
                self.pinned[me].store(false, SeqCst);
            }
        }

        /// The owner: takes the next letter, if there is one.
        fn receive(&self, retired: &mut Vec<u64>) -> Option<u64> {
            let head = self.head.load(SeqCst);
            if head == self.tail.load(SeqCst) {
                return None;
            }
            let mut block = self.first.load(SeqCst);
            // Only what has been read goes, once another block follows.
            if head > 0 {
                let next = self.link[block as usize].load(SeqCst);
                assert!(next != NONE, "the tail was seen before the link");
                retired.push(block);
                self.first.store(next, SeqCst);
                block = next;
            }
            let letter = self.letter[block as usize].load(SeqCst);
            self.head.store(head + 1, SeqCst);
            // Reclaim: no thread that may have seen it is pinned. (One interval stands for all: each sender's pin begins before it looks.)
            if self.pinned.iter().all(|pinned| !pinned.load(SeqCst)) {
                retired.drain(..).for_each(|block| self.freed[block as usize].store(true, SeqCst));
            }
            Some(letter)
        }
    }

    pub fn sending(rules: Rules) {
        let world = Arc::new(World::new(rules));
        let senders: Vec<_> = (0..2)
            .map(|me| {
                let world = world.clone();
                thread::spawn(move || {
                    let mut sent = Vec::new();
                    for number in 1..=2u64 {
                        let letter = (me as u64 + 1) * 10 + number;
                        let dies_at = if me == 0 { shuttle::rand::thread_rng().gen_range(0..8) } else { u32::MAX };
                        if !world.send(me, letter, dies_at) {
                            return (sent, Some(letter));
                        }
                        sent.push(letter);
                    }
                    (sent, None)
                })
            })
            .collect();
        let (mut got, mut retired) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            got.extend(world.receive(&mut retired));
            thread::yield_now();
        }
        let outcomes: Vec<_> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        world.probe();
        while let Some(letter) = world.receive(&mut retired) {
            got.push(letter);
        }
        for (sent, perhaps) in outcomes {
            let theirs: Vec<u64> =
                got.iter().copied().filter(|letter| Some(letter / 10) == sent.first().or(perhaps.as_ref()).map(|one| one / 10)).collect();
            let with = sent.iter().copied().chain(perhaps).collect::<Vec<_>>();
            assert!(theirs == sent || theirs == with, "sent {sent:?} and perhaps {perhaps:?}, got {theirs:?} of {got:?}");
        }
        assert_eq!(world.lock.load(SeqCst), 0);
    }
}

#[test]
fn messages_come_once_and_in_order_at_any_death() {
    explore(|| inbox::sending(inbox::Rules { pins: true, minds_cover: true }));
}

#[test]
#[should_panic(expected = "wrote into a freed block")]
fn the_model_catches_a_sender_that_does_not_pin() {
    find(|| inbox::sending(inbox::Rules { pins: false, minds_cover: true }));
}

#[test]
#[should_panic(expected = "and perhaps")]
fn the_model_catches_a_recoverer_that_writes_what_is_not_covered() {
    find(|| inbox::sending(inbox::Rules { pins: true, minds_cover: false }));
}

/// Mirrors `wakeup.rs`: `wake_sleeper`, `begin_sleep`, `after_sleep`, for a thread that sleeps in a poll of its FIFO. Sleeps end only by a wakeup: a lost
/// one is a deadlock here, not a second's delay.
mod wakeup {
    use super::*;

    const AWAKE: u64 = 0;

    #[derive(Clone, Copy, PartialEq)]
    pub enum Rules {
        /// The wakeup, then the word, if it is still of that sleep.
        AsBuilt,
        /// The word first: a thread that dies then has said that it has woken the sleeper, but has not.
        WordFirst,
        /// No two sleeps differ.
        AllSleepsAlike,
    }

    struct World {
        mail: AtomicU64,
        sleeping: AtomicU64,
        wakeups: Mutex<u64>,
        woken: Condvar,
        rules: Rules,
    }

    impl World {
        /// Delivers a message and wakes; dies at step `dies_at`, and the thread that recovers it does that again.
        fn deliver(&self, dies_at: u32) {
            self.mail.fetch_add(1, SeqCst);
            if !self.wake(dies_at) {
                self.wake(u32::MAX);
            }
        }

        fn wake(&self, dies_at: u32) -> bool {
            let sleep = self.sleeping.load(SeqCst);
            if sleep == AWAKE {
                return true;
            }
            let clear = || {
                let _ = self.sleeping.compare_exchange(sleep, AWAKE, SeqCst, SeqCst);
            };
            let wake = || {
                *self.wakeups.lock().unwrap() += 1;
                self.woken.notify_one();
            };
            if dies_at == 0 {
                return false;
            }
            if self.rules == Rules::WordFirst {
                clear()
            } else {
                wake()
            }
            if dies_at == 1 {
                return false;
            }
            if self.rules == Rules::WordFirst {
                wake()
            } else {
                clear()
            }
            true
        }

        fn hear(&self, wanted: u64) {
            let (mut heard, mut sleeps) = (0, 0);
            while heard < wanted {
                sleeps += 1;
                self.sleeping.store(if self.rules == Rules::AllSleepsAlike { 1 } else { sleeps }, SeqCst);
                if self.mail.load(SeqCst) == heard {
                    let mut wakeups = self.wakeups.lock().unwrap();
                    while *wakeups == 0 {
                        wakeups = self.woken.wait(wakeups).unwrap();
                    }
                    *wakeups = 0;
                }
                self.sleeping.store(AWAKE, SeqCst);
                heard = self.mail.load(SeqCst);
            }
        }
    }

    pub fn waking(rules: Rules) {
        let world = Arc::new(World {
            mail: AtomicU64::new(0),
            sleeping: AtomicU64::new(AWAKE),
            wakeups: Mutex::new(0),
            woken: Condvar::new(),
            rules,
        });
        let senders: Vec<_> = (0..3)
            .map(|_| {
                let world = world.clone();
                thread::spawn(move || world.deliver(shuttle::rand::thread_rng().gen_range(0..4)))
            })
            .collect();
        world.hear(3);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    }
}

#[test]
fn a_sleeper_is_woken_for_every_message_at_any_death() {
    explore(|| wakeup::waking(wakeup::Rules::AsBuilt));
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_catches_a_sender_that_clears_the_word_first() {
    find(|| wakeup::waking(wakeup::Rules::WordFirst));
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_catches_sleeps_that_look_alike() {
    find(|| wakeup::waking(wakeup::Rules::AllSleepsAlike));
}

/// Mirrors the table's `change.rs`: `take_interest`, `lose_interest`, `settle_interest`. Two seats come and go. While a seat has said that
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
