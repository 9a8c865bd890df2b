//! The barriers of the protocols, under loom, which also tries what a processor with a weak memory does.
//!
//! What is modelled is the way of machines other than x86: the orderings and the explicit fences that the code has there, at the marks
//! `SYNC:` that each model names. (On x86 some fences are left out behind a locked instruction; where that is done, the code says why it is
//! enough.) Loom takes a sequentially consistent access as an acquiring and releasing one, and the fences for what they are. The order
//! of whole steps is explored by tests/schedules.
//!
//! Each model has variants without one of its fences. They must fail, or the model proves nothing.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Switches between threads that are tried, at most: enough for each flaw below, and seconds.
const SWITCHES: usize = 3;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(SWITCHES);
    builder.check(model);
}

fn words<const N: usize>(values: [u64; N]) -> Arc<[AtomicU64; N]> {
    Arc::new(values.map(AtomicU64::new))
}

/// `SYNC: seat-pin`, `SYNC: seat-retire`: `Seat::pin`, `covers_now`, `retirement_epoch`, `pins_now`. A reader follows a reference to a node
/// that a writer replaces and frees.
mod pins {
    use super::*;

    const NO_PIN: u64 = u64::MAX;
    const FREED: u64 = 77;

    const EPOCH: usize = 0;
    const LOWER: usize = 1;
    const UPPER: usize = 2;
    const ENTRY: usize = 3;
    const OLD_NODE: usize = 4;

    #[derive(Clone, Copy, PartialEq)]
    pub enum Without {
        Nothing,
        ReadersFence,
        ReclaimersFences,
    }

    pub fn reclaiming(without: Without) {
        let shared = words([1, NO_PIN, 0, 1, 0]);
        let theirs = shared.clone();
        let reader = thread::spawn(move || {
            let at = |word: usize| &theirs[word];
            let epoch = at(EPOCH).load(Relaxed);
            at(UPPER).store(epoch, Relaxed);
            at(LOWER).store(epoch, Relaxed);
            if without != Without::ReadersFence {
                fence(SeqCst);
            }
            // A reference to the old node, which is older than any pin.
            if at(ENTRY).load(Acquire) == 1 {
                assert_ne!(at(OLD_NODE).load(Relaxed), FREED, "read a freed node");
            }
            at(LOWER).store(NO_PIN, Release);
        });
        let at = |word: usize| &shared[word];
        at(ENTRY).store(2, Release);
        // Either of these two fences would do here: the first one is for the epoch.
        if without != Without::ReclaimersFences {
            fence(SeqCst);
        }
        let retired = at(EPOCH).load(Acquire);
        let _ = at(EPOCH).compare_exchange(retired, retired + 1, AcqRel, Acquire);
        if without != Without::ReclaimersFences {
            fence(SeqCst);
        }
        let (lower, birth) = (at(LOWER).load(Acquire), 0);
        if lower == NO_PIN || !(retired >= lower && birth <= at(UPPER).load(Acquire)) {
            at(OLD_NODE).store(FREED, Relaxed);
        }
        reader.join().unwrap();
    }
}

#[test]
fn a_pinned_reader_never_reads_a_freed_node() {
    explore(|| pins::reclaiming(pins::Without::Nothing));
}

#[test]
#[should_panic(expected = "read a freed node")]
fn a_pin_without_its_fence_is_caught() {
    explore(|| pins::reclaiming(pins::Without::ReadersFence));
}

#[test]
#[should_panic(expected = "read a freed node")]
fn a_reclaimer_without_its_fences_is_caught() {
    explore(|| pins::reclaiming(pins::Without::ReclaimersFences));
}

/// `SYNC: bucket-release`, `SYNC: seat-commit`: `lock_try`, the write-out of a staged journal, `unlock`, and a reader that validates the
/// lock word. Two words that are always equal.
mod seqlock {
    use super::*;

    const OWNED: u64 = 1;
    const VERSION: u64 = 2;

    const LOCK: usize = 0;
    const FIRST: usize = 1;
    const SECOND: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    pub enum Without {
        Nothing,
        WritersFence,
        ReadersFence,
        /// The word is given back by a store that releases nothing.
        Release,
    }

    pub fn reading(without: Without) {
        let shared = words([0; 3]);
        let theirs = shared.clone();
        let writer = thread::spawn(move || {
            let at = |word: usize| &theirs[word];
            let word = at(LOCK).compare_exchange(0, OWNED, AcqRel, Acquire).unwrap();
            if without != Without::WritersFence {
                fence(Ordering::Release);
            }
            at(FIRST).store(1, Relaxed);
            at(SECOND).store(1, Relaxed);
            let given_back = if without == Without::Release { Relaxed } else { AcqRel };
            at(LOCK).compare_exchange(word | OWNED, word + VERSION, given_back, Relaxed).unwrap();
        });
        let at = |word: usize| &shared[word];
        let before = at(LOCK).load(Acquire);
        let seen = [at(FIRST).load(Relaxed), at(SECOND).load(Relaxed)];
        if without != Without::ReadersFence {
            fence(Acquire);
        }
        if before & OWNED == 0 && at(LOCK).load(Relaxed) == before {
            assert_eq!(seen, [before / VERSION; 2], "half of a change");
        }
        writer.join().unwrap();
    }
}

#[test]
fn a_reader_that_finds_the_same_word_has_read_one_state() {
    explore(|| seqlock::reading(seqlock::Without::Nothing));
}

#[test]
#[should_panic(expected = "half of a change")]
fn a_writer_without_its_fence_is_caught() {
    explore(|| seqlock::reading(seqlock::Without::WritersFence));
}

#[test]
#[should_panic(expected = "half of a change")]
fn a_reader_without_its_fence_is_caught() {
    explore(|| seqlock::reading(seqlock::Without::ReadersFence));
}

#[test]
#[should_panic(expected = "half of a change")]
fn a_lock_that_releases_nothing_is_caught() {
    explore(|| seqlock::reading(seqlock::Without::Release));
}

/// `SYNC: seat-commit`: a reader that meets a locked word reads the owner's journal where its status says that it is committed. The owner
/// ends that transaction and begins the next one meanwhile, which writes other items and never commits.
mod journals {
    use super::*;

    const COMMITTED: u64 = 1;

    const STATUS: usize = 0;
    const LENGTH: usize = 1;
    const ITEM: usize = 2;

    #[derive(Clone, Copy, PartialEq)]
    pub enum Without {
        Nothing,
        /// The status is stored without the journal before it.
        Release,
        /// The next journal may be seen before the end of the last one.
        FenceAtEnd,
        ReadersFence,
    }

    pub fn reading(without: Without) {
        let shared = words([0; 3]);
        let theirs = shared.clone();
        let owner = thread::spawn(move || {
            let at = |word: usize| &theirs[word];
            at(ITEM).store(1, Relaxed);
            let commit = if without == Without::Release { Relaxed } else { Release };
            at(LENGTH).store(1, commit);
            at(STATUS).store(COMMITTED, commit);
            fence(Release);
            at(LENGTH).store(0, Release);
            at(STATUS).store(4, Release);
            if without != Without::FenceAtEnd {
                fence(Release);
            }
            at(ITEM).store(2, Relaxed);
        });
        let at = |word: usize| &shared[word];
        let status = at(STATUS).load(Acquire);
        let (length, item) = (at(LENGTH).load(Acquire), at(ITEM).load(Relaxed));
        if without != Without::ReadersFence {
            fence(Acquire);
        }
        if status & 3 == COMMITTED && at(STATUS).load(Relaxed) == status && length > 0 {
            assert_eq!(item, 1, "an item of another transaction");
        }
        owner.join().unwrap();
    }
}

#[test]
fn a_committed_journal_is_read_as_one_state() {
    explore(|| journals::reading(journals::Without::Nothing));
}

#[test]
#[should_panic(expected = "an item of another transaction")]
fn a_commit_that_releases_nothing_is_caught() {
    explore(|| journals::reading(journals::Without::Release));
}

#[test]
#[should_panic(expected = "an item of another transaction")]
fn a_journal_without_the_fence_at_its_end_is_caught() {
    explore(|| journals::reading(journals::Without::FenceAtEnd));
}

#[test]
#[should_panic(expected = "an item of another transaction")]
fn a_reader_of_a_journal_without_its_fence_is_caught() {
    explore(|| journals::reading(journals::Without::ReadersFence));
}

/// Two threads, each of which stores a word and then looks at the other's: `SYNC: swap-barrier` and `SYNC: wakeup`. One of the two sees the
/// other.
mod two_sides {
    use super::*;

    /// How a side stores its word before its fence.
    #[derive(Clone, Copy, PartialEq)]
    pub enum Stores {
        /// `enter_commit`, `begin_sleep`.
        Swap,
        /// `enter_commit_quickly`.
        Set,
        /// The lock of the map.
        Exchange,
        /// The tail of an inbox.
        Publish,
    }

    fn store(word: &AtomicU64, how: Stores) {
        match how {
            Stores::Swap => _ = word.swap(1, SeqCst),
            Stores::Set | Stores::Publish => word.store(1, Release),
            Stores::Exchange => _ = word.compare_exchange(0, 1, AcqRel, Acquire),
        }
    }

    pub fn meeting(sides: [Stores; 2], fences: [bool; 2]) {
        let shared = words([0; 2]);
        let theirs = shared.clone();
        let side = move |own: usize, words: &[AtomicU64; 2]| {
            store(&words[own], sides[own]);
            if fences[own] {
                fence(SeqCst);
            }
            words[1 - own].load(Acquire) == 1
        };
        let first = thread::spawn(move || side(0, &theirs));
        let second_sees = side(1, &shared);
        assert!(first.join().unwrap() || second_sees, "neither sees the other");
    }
}

use two_sides::{Stores, meeting};

#[test]
fn of_a_writer_in_its_commit_and_a_swapper_one_sees_the_other() {
    explore(|| meeting([Stores::Swap, Stores::Exchange], [true; 2]));
    explore(|| meeting([Stores::Set, Stores::Exchange], [true; 2]));
}

#[test]
#[should_panic(expected = "neither sees the other")]
fn a_writer_that_enters_its_commit_without_a_fence_is_caught() {
    explore(|| meeting([Stores::Set, Stores::Exchange], [false, true]));
}

#[test]
#[should_panic(expected = "neither sees the other")]
fn a_swapper_without_its_fence_is_caught() {
    explore(|| meeting([Stores::Swap, Stores::Exchange], [true, false]));
}

#[test]
fn of_a_sleeper_and_a_sender_one_sees_the_other() {
    explore(|| meeting([Stores::Swap, Stores::Publish], [true; 2]));
}

#[test]
#[should_panic(expected = "neither sees the other")]
fn a_sender_without_its_fence_is_caught() {
    explore(|| meeting([Stores::Swap, Stores::Publish], [true, false]));
}
