//! How many lines of one kind the log gets: clients that make them could fill the disk.
use std::sync::{Mutex, PoisonError};

const MINUTE_MS: u64 = 60_000;

/// Lines in a minute.
const LINES_MAX: u64 = 10;

/// Admits each of the first lines of a minute, and counts the rest.
pub(crate) struct LineLimit(Mutex<(u64, u64)>);

impl LineLimit {
    pub(crate) const fn new() -> LineLimit {
        LineLimit(Mutex::new((0, 0)))
    }

    /// Counts a line. Returns `None` if it is to be left out, else how many were left out in the last minute that had any.
    pub(crate) fn admit(&self, now_ms: u64) -> Option<u64> {
        let minute = now_ms / MINUTE_MS;
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = if counted.0 == minute { 0 } else { counted.1.saturating_sub(LINES_MAX) };
        if counted.0 != minute {
            *counted = (minute, 0);
        }
        counted.1 += 1;
        (counted.1 <= LINES_MAX).then_some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_of_a_minute_are_admitted_and_the_rest_is_told_in_a_later_one() {
        let limit = LineLimit::new();
        let admitted =
            |now_ms: u64, calls: usize| (0..calls).filter_map(|_| limit.admit(now_ms)).collect::<Vec<_>>();
        assert_eq!(admitted(60_000, 25), [0; 10]);
        assert_eq!(admitted(119_999, 5), []);
        assert_eq!(admitted(400_000, 3), [20, 0, 0]);
        assert_eq!(admitted(500_000, 1), [0]);
    }
}
