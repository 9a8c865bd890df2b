//! The real lock, journal, recovery, pins, inboxes, wakeups, change log and swap barrier under shuttle, which chooses the order of their steps.
//!
//! Each scenario is a small segment and two or three threads with seats of their own. Each access to a word of the segment is a step
//! (`src/sync.rs`), and a thread may die before any of its stores (`src/schedules.rs`). What must hold is asserted at the end of each
//! schedule, the audit of all nodes included. Each scenario also runs with flaws that the code has on purpose (`Flaw`): the test must find
//! them, or it proves nothing.
//!
//! What is proven here is the order of steps, not the choice of barriers (tests/orderings.rs).

mod commits;
mod inboxes;
mod outboxes;
mod pins;
mod swaps;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use polder_shm::audit::Audit;
use polder_shm::layout::{self, ROOTS_AT, seat as at};
use polder_shm::node::NodeKind;
use polder_shm::schedules::{self, Sleeps};
use polder_shm::sync::Flaw;
use polder_shm::{Segment, SegmentName, SegmentOptions};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// How long one scenario is explored: half of it with switches that are drawn evenly, half with few but well placed ones.
const EXPLORED: Duration = Duration::from_secs(3);
const SWITCHES: usize = 4;
/// A flaw is looked for in rounds of this many schedules, the same ones in each run.
const ROUND: usize = 400;
const ROUNDS: u64 = 60;
/// A schedule with more steps is one in which threads wait for each other without end.
const STEPS_MAX: usize = 400_000;
const STACK_BYTES: usize = 256 << 10;

/// What a scenario may use of its schedule.
#[derive(Clone, Copy)]
pub struct Setup {
    pub sleeps: Sleeps,
    pub flaw: Option<Flaw>,
}

/// Everything that a test has run is forgotten with this, also where it has failed in a schedule.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        polder_shm::end_schedules();
    }
}

fn config(max_time: Option<Duration>) -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    config.max_time = max_time;
    config
}

fn counted(setup: Setup, scenario: fn(), count: &Arc<AtomicU32>) -> impl Fn() + Send + Sync + Clone + use<> {
    let count = count.clone();
    move || {
        schedules::begin(setup.sleeps, setup.flaw);
        scenario();
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs a scenario through schedules that differ each time, and says which seed finds the one that breaks it.
pub fn explore(sleeps: Sleeps, scenario: fn()) {
    let _ends = Ends;
    let setup = Setup { sleeps, flaw: None };
    let (begun, count) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let seed = std::env::var("POLDER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(polder_shm::now_ms);
    println!("POLDER_SEED={seed}");
    let steps = schedules::steps();
    let half = config(Some(EXPLORED / 2));
    Runner::new(RandomScheduler::new_from_seed(seed, usize::MAX), half.clone())
        .run(counted(setup, scenario, &count));
    Runner::new(PctScheduler::new_from_seed(seed, SWITCHES, usize::MAX), half)
        .run(counted(setup, scenario, &count));
    let (count, steps, seconds) =
        (count.load(Ordering::Relaxed), schedules::steps() - steps, begun.elapsed().as_secs_f64());
    println!(
        "{count} schedules, {:.0} a second, {} steps each",
        f64::from(count) / seconds,
        steps / u64::from(count.max(1))
    );
    assert!(count > 100, "{count} schedules prove little");
}

/// Looks for a flaw: through the same schedules in each run, so that what is found once always is. `None`: the scenario itself is wrong.
pub fn find(sleeps: Sleeps, flaw: Option<Flaw>, scenario: fn()) {
    let _ends = Ends;
    let (setup, count) = (Setup { sleeps, flaw }, Arc::new(AtomicU32::new(0)));
    for seed in 0..ROUNDS {
        let round = || {
            Runner::new(RandomScheduler::new_from_seed(seed, ROUND), config(None))
                .run(counted(setup, scenario, &count));
            Runner::new(PctScheduler::new_from_seed(seed, SWITCHES, ROUND), config(None))
                .run(counted(setup, scenario, &count));
        };
        let Err(found) = catch_unwind(AssertUnwindSafe(round)) else { continue };
        let text = found.downcast_ref::<String>().map_or("", String::as_str);
        println!("found after {} schedules: {text}", count.load(Ordering::Relaxed));
        assert!(text.contains(BROKEN) || text.contains("deadlock"), "something else is found");
        return;
    }
    panic!("{} schedules do not find it", count.load(Ordering::Relaxed));
}

/// What each check of a scenario says first, so that [`find`] knows it from other panics.
pub const BROKEN: &str = "broken: ";

/// Seats that a scenario uses, at most.
const SEATS: u64 = 6;

thread_local! {
    static PREPARED: Prepared = Prepared::new();
}

/// A segment that the schedules of a test use one after the other, and what its words were in the beginning.
struct Prepared {
    segment: Arc<Segment>,
    name: SegmentName,
    image: Vec<(u64, Vec<u8>)>,
}

impl Prepared {
    fn new() -> Prepared {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name: SegmentName =
            format!("shm:polder-test-schedules-{}-{number}", std::process::id()).parse().expect("a name");
        let options = SegmentOptions { ceiling: 16 << 20, ..SegmentOptions::default() };
        let segment = Segment::create(&name, &options).expect("a segment");
        // With memory for nodes, and without seats that any thread has had.
        std::thread::scope(|scope| {
            let grow = || _ = segment.seat().expect("a seat").make(NodeKind::Data, 64).expect("memory");
            scope.spawn(grow).join().expect("no panic");
        });
        let slabs = segment.slabs_ready();
        let parts = [
            (0, layout::LIVENESS_AT + SEATS * layout::LIVENESS_BYTES),
            (segment.seat_at(0), segment.seat_at(SEATS)),
            (segment.slab_lock_at(0), segment.slab_lock_at(slabs)),
            (segment.slab_bits_at(0), segment.slab_bits_at(slabs)),
        ];
        // SAFETY: parts of the mapping, which no other thread uses now.
        let copy = |from: u64, to: u64| {
            unsafe { std::slice::from_raw_parts(segment.address(from), (to - from) as usize) }.to_vec()
        };
        let image = parts.into_iter().map(|(from, to)| (from, copy(from, to))).collect();
        Prepared { segment, name, image }
    }

    /// The segment as it was in the beginning.
    fn renewed(&self) -> Arc<Segment> {
        for (from, bytes) in &self.image {
            // SAFETY: as above: the threads of the schedule before have ended, and those of the next one have not begun.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.segment.address(*from), bytes.len())
            };
        }
        self.segment.clone()
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let _ = Segment::remove(&self.name);
    }
}

/// The segment of one schedule.
pub struct Memory {
    pub segment: Arc<Segment>,
}

impl Memory {
    pub fn renewed() -> Memory {
        Memory { segment: PREPARED.with(Prepared::renewed) }
    }

    /// Recovers what the dead have left, and checks that no seat holds anything and that each node is in one place. `reachable`: those that
    /// the scenario's own words name.
    pub fn check(&self, reachable: &[u64]) {
        let segment = &self.segment;
        segment.recover_dead();
        schedules::quietly(|| {
            for seat in (0..segment.seats_high()).map(|index| segment.seat_at(index)) {
                let left = [at::JOURNAL_LEN, at::MEMORY_STATUS, at::PENDING, at::CLOSING]
                    .map(|word| segment.load(seat + word));
                assert_eq!(left, [0; 4], "{BROKEN}a seat is left in a transaction");
            }
            let mut audit = Audit::new(segment);
            for node in reachable {
                audit.claim(*node, &"the scenario");
            }
            audit.seats();
            audit.change_log();
            audit.slabs();
            assert!(audit.findings.is_empty(), "{BROKEN}the audit found {:?}", audit.findings);
        });
    }
}

/// A word of the roots for scenarios, in a cache line of its own.
pub const fn word(number: u64) -> u64 {
    ROOTS_AT + number * 64
}

/// Before which of its stores a thread dies: one thread in `odds` does.
pub fn fate(odds: u32, stores: u32) -> Option<u32> {
    (schedules::draw(odds) == 0).then(|| schedules::draw(stores))
}
