//! Waiting for events.
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest wait for an event that must come. A busy machine does not take as long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until `is_so`.
///
/// # Panics
/// When [`PATIENCE`] is over; `what` says what has not come.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        sleep(PAUSE);
    }
}

/// Repeats `step` until one run of it has taken less than `quick`, and returns that run's result. It shows that the
/// step does not contain a wait of `quick`: a busy machine makes some runs late, the wait would make all of them late.
///
/// # Panics
/// When [`PATIENCE`] is over, with the shortest time that was seen.
pub fn until_quick<T>(what: &str, quick: Duration, mut step: impl FnMut() -> T) -> T {
    let (begun, mut least) = (Instant::now(), Duration::MAX);
    loop {
        let start = Instant::now();
        let result = step();
        least = least.min(start.elapsed());
        if least < quick {
            return result;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {least:?} at best, less than {quick:?} is wanted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_the_wait() {
        let mut looks = 0;
        until("the third look", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn late_runs_are_repeated() {
        let mut runs = 0;
        let last = until_quick("a quick run", Duration::from_millis(200), || {
            runs += 1;
            if runs < 3 {
                sleep(Duration::from_millis(210));
            }
            runs
        });
        assert!(last >= 3);
    }
}
