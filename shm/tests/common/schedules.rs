//! Models of protocols, run through many schedules.
use shuttle::sync::atomic::AtomicU64;
use shuttle::{check_pct, check_random};

/// Schedules per model: some drawn evenly, some with few but well placed switches.
const SCHEDULES: usize = 8_000;
const SWITCHES: usize = 4;

/// Runs a model through its schedules; panics with the schedule that breaks it.
pub fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    check_random(model.clone(), SCHEDULES);
    check_pct(model, SCHEDULES, SWITCHES);
}

pub fn words<const N: usize>(values: [u64; N]) -> [AtomicU64; N] {
    values.map(AtomicU64::new)
}
