//! The pauses of threads that stand by until it is their turn.
use std::time::{Duration, Instant};

/// The pause between two looks of a candidate whether it is its turn.
pub const STAND_BY: Duration = Duration::from_millis(50);

/// Sleeps, unless the thread is to end: it looks every [`STAND_BY`].
pub fn sleep(pause: Duration, is_to_end: &dyn Fn() -> bool) {
    let until = Instant::now() + pause;
    while Instant::now() < until && !is_to_end() {
        std::thread::sleep(STAND_BY.min(until.saturating_duration_since(Instant::now())));
    }
}
