//! The order of the change log, restated as the protocols in models.rs are. Mirrors `outbox.rs` and `change_log.rs` (`append_outbox`,
//! `Segment::outbox`, `merge_batch`): a change of the one is a change of the other.
//!
//! Writers lock one of two keys, draw a number, write a record behind the tail of their outbox, commit, write out and unlock. A writer may die before any
//! of these steps; another thread recovers it. A merger reads the counter and then the tails, and appends what lies below. Each record says
//! which state of its key it made, so the log must hold the states of each key in their order, without a gap, whenever it is looked at (L3).

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::{rand::Rng, thread};

mod common;
use common::schedules::{explore, find, words};

const WRITERS: usize = 3;
const TRANSACTIONS: u64 = 2;
const COMMITTED: u64 = 1;
/// Steps of a transaction before which its writer may die.
const STEPS: u32 = 8;
const FREE: u64 = 0;

struct Outbox {
    status: AtomicU64,
    tail: AtomicU64,
    /// What the journal makes of the tail and of the key: valid while the status is COMMITTED.
    end: AtomicU64,
    key: AtomicU64,
    state: AtomicU64,
    /// CSN, and key and state, of each record.
    csn: [AtomicU64; TRANSACTIONS as usize],
    says: [AtomicU64; TRANSACTIONS as usize],
}

impl Outbox {
    fn new() -> Outbox {
        let zero = || AtomicU64::new(0);
        Outbox { status: zero(), tail: zero(), end: zero(), key: zero(), state: zero(), csn: words([0; 2]), says: words([0; 2]) }
    }
}

struct World {
    counter: AtomicU64,
    lock: [AtomicU64; 2],
    state: [AtomicU64; 2],
    outboxes: [Outbox; WRITERS],
}

/// What is broken on purpose.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// The merger reads the counter after the tails.
    CounterLast,
}

impl World {
    fn new() -> World {
        World { counter: AtomicU64::new(0), lock: words([0; 2]), state: words([0; 2]), outboxes: [(); WRITERS].map(|()| Outbox::new()) }
    }

    /// One transaction, which dies before step `dies_at`; returns whether it lived.
    fn write(&self, seat: usize, key: usize, dies_at: u32) -> bool {
        let (own, mut step) = (&self.outboxes[seat], 0);
        let mut dies = || {
            step += 1;
            step > dies_at
        };
        while self.lock[key].compare_exchange(FREE, seat as u64 + 1, SeqCst, SeqCst).is_err() {
            thread::yield_now();
        }
        if dies() {
            return false;
        }
        let (state, csn) = (self.state[key].load(SeqCst) + 1, self.counter.fetch_add(1, SeqCst));
        if dies() {
            return false;
        }
        let tail = own.tail.load(SeqCst);
        own.csn[tail as usize].store(csn, SeqCst);
        own.says[tail as usize].store(key as u64 * 100 + state, SeqCst);
        own.key.store(key as u64, SeqCst);
        own.state.store(state, SeqCst);
        own.end.store(tail + 1, SeqCst);
        if dies() {
            return false;
        }
        own.status.fetch_or(COMMITTED, SeqCst);
        self.redo(seat, &mut dies)
    }

    fn redo(&self, seat: usize, dies: &mut dyn FnMut() -> bool) -> bool {
        let own = &self.outboxes[seat];
        let key = own.key.load(SeqCst) as usize;
        if dies() {
            return false;
        }
        if self.lock[key].load(SeqCst) == seat as u64 + 1 {
            self.state[key].store(own.state.load(SeqCst), SeqCst);
        }
        if dies() {
            return false;
        }
        own.tail.store(own.end.load(SeqCst), SeqCst);
        if dies() {
            return false;
        }
        if self.lock[key].load(SeqCst) == seat as u64 + 1 {
            self.lock[key].store(FREE, SeqCst);
        }
        if dies() {
            return false;
        }
        own.status.store((own.status.load(SeqCst) & !3) + 4, SeqCst);
        true
    }

    fn recover(&self, seat: usize) {
        if self.outboxes[seat].status.load(SeqCst) & 3 == COMMITTED {
            self.redo(seat, &mut || false);
            return;
        }
        for lock in &self.lock {
            let _ = lock.compare_exchange(seat as u64 + 1, FREE, SeqCst, SeqCst);
        }
    }

    /// The tail of an outbox, with what a committed journal makes of it.
    fn tail(&self, seat: usize) -> u64 {
        let own = &self.outboxes[seat];
        loop {
            let status = own.status.load(SeqCst);
            if status & 3 != COMMITTED {
                return own.tail.load(SeqCst);
            }
            let end = own.end.load(SeqCst);
            if own.status.load(SeqCst) == status {
                return end;
            }
        }
    }

    /// One batch.
    fn merge(&self, heads: &mut [u64; WRITERS], log: &mut Vec<u64>, flaw: Flaw) {
        let mut below = self.counter.load(SeqCst);
        let tails = std::array::from_fn::<_, WRITERS, _>(|seat| self.tail(seat));
        if flaw == Flaw::CounterLast {
            below = self.counter.load(SeqCst);
        }
        let mut batch = Vec::new();
        for seat in 0..WRITERS {
            while heads[seat] < tails[seat] {
                let (at, own) = (heads[seat] as usize, &self.outboxes[seat]);
                let csn = own.csn[at].load(SeqCst);
                if csn >= below {
                    break;
                }
                batch.push((csn, own.says[at].load(SeqCst)));
                heads[seat] += 1;
            }
        }
        batch.sort_unstable();
        log.extend(batch.into_iter().map(|(_, says)| says));
        for key in 0..2 {
            let states = log.iter().filter(|says| *says / 100 == key).map(|says| says % 100);
            assert!(states.eq(1..=log.iter().filter(|says| *says / 100 == key).count() as u64), "out of order: {log:?}");
        }
    }
}

fn following(flaw: Flaw) {
    let world = Arc::new(World::new());
    let writers: Vec<_> = (0..WRITERS)
        .map(|seat| {
            let world = world.clone();
            thread::spawn(move || {
                for _ in 0..TRANSACTIONS {
                    let mut random = shuttle::rand::thread_rng();
                    let (key, dies_at) =
                        (random.gen_range(0..2), if random.gen_range(0..3) == 0 { random.gen_range(0..STEPS) } else { u32::MAX });
                    if !world.write(seat, key, dies_at) {
                        thread::yield_now();
                        world.recover(seat);
                    }
                }
            })
        })
        .collect();
    let (mut heads, mut log) = ([0; WRITERS], Vec::new());
    for _ in 0..3 {
        world.merge(&mut heads, &mut log, flaw);
        thread::yield_now();
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    world.merge(&mut heads, &mut log, flaw);
    for key in 0..2 {
        let told = log.iter().filter(|says| **says / 100 == key).count() as u64;
        assert_eq!(told, world.state[key as usize].load(SeqCst), "a commit is not in the log: {log:?}");
    }
}

#[test]
fn the_log_holds_each_state_of_a_key_in_order_whichever_writer_dies() {
    explore(|| following(Flaw::None));
}

#[test]
#[should_panic(expected = "out of order")]
fn the_model_catches_a_merger_that_reads_the_counter_last() {
    find(|| following(Flaw::CounterLast));
}
