//! Models of protocols, run through many schedules.
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::AtomicU64;
use shuttle::{Runner, check_pct, check_random};

/// Schedules per model: some drawn evenly, some with few but well placed switches.
const SCHEDULES: usize = 8_000;
const SWITCHES: usize = 4;
/// How many times that a flaw is looked for: a single time missed the rarest one in every fourth run.
const ROUNDS: u64 = 50;

/// Runs a model through schedules that differ each time; panics with the one that breaks it.
pub fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    check_random(model.clone(), SCHEDULES);
    check_pct(model, SCHEDULES, SWITCHES);
}

/// As [`explore`], for a model with a flaw that is to be found: through the same schedules in each run, so that what is found once always is, and
/// through as many as it takes.
pub fn find(model: impl Fn() + Send + Sync + Clone + 'static) {
    for seed in 0..ROUNDS {
        Runner::new(RandomScheduler::new_from_seed(seed, SCHEDULES), Default::default()).run(model.clone());
        Runner::new(PctScheduler::new_from_seed(seed, SWITCHES, SCHEDULES), Default::default())
            .run(model.clone());
    }
}

pub fn words<const N: usize>(values: [u64; N]) -> [AtomicU64; N] {
    values.map(AtomicU64::new)
}
