//! Operations and bytes a second, over the last second and a half.
use std::collections::VecDeque;

/// Samples kept, and the least time between two.
const SAMPLES: usize = 16;
const STEP_MS: u64 = 100;

/// Totals at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub calls: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub calls: u64,
    pub bytes_in: f64,
    pub bytes_out: f64,
}

/// Totals over time, oldest first.
#[derive(Default)]
pub struct Track {
    samples: VecDeque<(u64, Totals)>,
}

impl Track {
    /// Whether a sample is due.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.samples.back().is_none_or(|(last_ms, _)| now_ms >= last_ms + STEP_MS)
    }

    /// Takes a sample.
    pub fn add(&mut self, now_ms: u64, totals: Totals) {
        self.samples.push_back((now_ms, totals));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// What happened between the oldest and the newest sample, per second. Totals that were reset in between count as none.
    pub fn rates(&self) -> Rates {
        let (Some((start, first)), Some((end, last))) = (self.samples.front(), self.samples.back()) else {
            return Rates::default();
        };
        let seconds = end.saturating_sub(*start) as f64 / 1000.0;
        let rate = |first: u64, last: u64| {
            if seconds > 0.0 { last.saturating_sub(first) as f64 / seconds } else { 0.0 }
        };
        Rates {
            calls: rate(first.calls, last.calls) as u64,
            bytes_in: rate(first.bytes_in, last.bytes_in),
            bytes_out: rate(first.bytes_out, last.bytes_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_span_the_samples() {
        let mut track = Track::default();
        assert_eq!(track.rates(), Rates::default());
        for step in 0..40 {
            assert!(track.is_due(step * 100));
            track.add(step * 100, Totals { calls: step * 50, bytes_in: step, bytes_out: 0 });
            assert!(!track.is_due(step * 100 + 99));
        }
        assert_eq!(track.rates(), Rates { calls: 500, bytes_in: 10.0, bytes_out: 0.0 });
    }
}
