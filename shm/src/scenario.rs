//! Scenarios: what some threads do in a small segment, run through many schedules (tests only, with the feature `schedules`).
//!
//! A scenario is a function that shuttle calls once for each schedule. It begins its threads ([`Segment::live`](crate::Segment::live)), waits
//! for them, and asserts what must hold. A check begins its text with [`BROKEN`]. [`explore`] looks for a schedule that breaks a scenario;
//! [`find`] must find one, because the code has a [`Flaw`] on purpose.
//!
//! All schedules of a test use one segment, which [`Prepared`] brings back to what it was in the beginning.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

use crate::layout;
use crate::schedules::{self, Sleeps};
use crate::sync::Flaw;
use crate::{Segment, SegmentName, SegmentOptions};

/// How long a scenario of a few hundred steps is explored.
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
struct Setup {
    sleeps: Sleeps,
    flaw: Option<Flaw>,
}

/// Everything that a test has run is forgotten with this, also where it has failed in a schedule.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        crate::end_schedules();
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
    explore_for(EXPLORED, sleeps, scenario);
}

/// As [`explore`], for this long: half of it with switches that are drawn evenly, half with few but well placed ones.
pub fn explore_for(time: Duration, sleeps: Sleeps, scenario: fn()) {
    let _ends = Ends;
    let setup = Setup { sleeps, flaw: None };
    let (begun, count) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let seed =
        std::env::var("POLDER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(crate::now_ms);
    println!("POLDER_SEED={seed}");
    let steps = schedules::steps();
    let half = config(Some(time / 2));
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

/// Before which of its stores a thread dies: one thread in `odds` does.
pub fn fate(odds: u32, stores: u32) -> Option<u32> {
    (schedules::draw(odds) == 0).then(|| schedules::draw(stores))
}

/// A segment that the schedules of a test use one after the other, and what its words were in the beginning.
pub struct Prepared {
    segment: Arc<Segment>,
    name: SegmentName,
    image: Vec<(u64, Vec<u8>)>,
}

impl Prepared {
    /// Makes a segment with memory for nodes. `fill` runs in a thread of its own, whose seat is free again afterwards.
    pub fn new(fill: impl FnOnce(&Arc<Segment>) + Send) -> Prepared {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name: SegmentName =
            format!("shm:polder-test-schedules-{}-{number}", std::process::id()).parse().expect("a name");
        let options = SegmentOptions { ceiling: 16 << 20, ..SegmentOptions::default() };
        // Keys lie in the same places in each run, or a flaw that one run finds would stay hidden in another.
        let secret = std::array::from_fn(|byte| (byte as u8).wrapping_mul(97).wrapping_add(7));
        let segment = Segment::create_with_secret(&name, &options, &secret).expect("a segment");
        segment.publish(layout::header::VERSIONS, 1 << 20);
        segment.grow().expect("memory");
        std::thread::scope(|scope| scope.spawn(|| fill(&segment)).join().expect("no panic"));
        let slabs = segment.slabs_ready();
        let parts = [
            (0, layout::LIVENESS_AT + SEATS * layout::LIVENESS_BYTES),
            (segment.seat_at(0), segment.seat_at(SEATS)),
            (segment.slab_lock_at(0), segment.slab_lock_at(slabs)),
            (segment.slab_bits_at(0), segment.slab_bits_at(slabs)),
            (segment.slab_at(0), segment.slab_at(slabs)),
        ];
        let copy = |from: u64, to: u64| {
            // SAFETY: a part of the mapping, which no other thread uses now.
            unsafe { std::slice::from_raw_parts(segment.address(from), (to - from) as usize) }.to_vec()
        };
        let image = parts.into_iter().map(|(from, to)| (from, copy(from, to))).collect();
        Prepared { segment, name, image }
    }

    /// The segment as it was in the beginning.
    pub fn renewed(&self) -> Arc<Segment> {
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
