//! The last hour of a process, in fixed memory: a point each ten seconds.
//!
//! ```text
//!   point: time | calls, bytes, hits, misses, evicted: totals | memory, keys, clients: as they were | processor, time of calls
//! ```
//!
//! A point has totals: the difference of two points is what happened between them. CONFIG RESETSTAT makes totals fall.
use std::collections::VecDeque;

/// The time between two points, and how many are kept: an hour.
pub const STEP_MS: u64 = 10_000;
pub const POINTS: usize = 361;

/// The names of a point's figures.
pub const FIGURES: [&str; 12] = [
    "time_ms",
    "commands",
    "net_bytes",
    "keyspace_hits",
    "keyspace_misses",
    "evicted_keys",
    "used_memory",
    "keys",
    "clients",
    "cpu_us",
    "timed_calls",
    "timed_us",
];

/// Figures of one moment, in the order of [`FIGURES`].
pub type Point = [u64; FIGURES.len()];

/// Points from the oldest to the latest.
pub struct History {
    points: VecDeque<Point>,
}

impl Default for History {
    fn default() -> History {
        History { points: VecDeque::with_capacity(POINTS) }
    }
}

impl History {
    /// Returns true if a point is due.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.points.back().is_none_or(|last| now_ms >= last[0] + STEP_MS)
    }

    /// Adds a point; the oldest one goes where there are too many.
    pub fn add(&mut self, point: Point) {
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    pub fn points(&self) -> impl ExactSizeIterator<Item = &Point> {
        self.points.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept_in_fixed_memory() {
        let mut history = History::default();
        let room = history.points.capacity();
        for step in 0..1000 {
            let now_ms = step * STEP_MS;
            assert!(history.is_due(now_ms));
            let mut point = Point::default();
            point[0] = now_ms;
            history.add(point);
            assert!(!history.is_due(now_ms + STEP_MS - 1));
        }
        let times: Vec<u64> = history.points().map(|point| point[0]).collect();
        assert_eq!((times.len(), history.points.capacity()), (POINTS, room));
        assert_eq!((times[0], times[POINTS - 1]), (639 * STEP_MS, 999 * STEP_MS));
    }
}
