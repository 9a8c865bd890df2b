//! How often calls took how long: a histogram of nanoseconds with a relative error of at most 1/16.
//!
//! ```text
//!   value   0 .. 15   one bucket each
//!           2^e ..    sixteen buckets of 2^(e-4) each, e = 4 .. 33
//! ```
//!
//! One thread writes, any may read: counts are plain loads and stores, never read-modify-write.
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets to a power of two, as bits.
const FINE: u32 = 4;
/// Longer values count as the longest: about 17 seconds.
const EXPONENT_MAX: u32 = 33;
const BUCKETS: usize = ((EXPONENT_MAX - FINE + 2) << FINE) as usize;

/// Written by one thread.
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Histogram {
    /// Counts a value `weight` times.
    pub fn record(&self, nanoseconds: u64, weight: u64) {
        let bucket = &self.buckets[bucket_of(nanoseconds)];
        bucket.store(bucket.load(Ordering::Relaxed) + weight, Ordering::Relaxed);
    }

    pub fn reset(&self) {
        self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
    }

    /// Adds the counts to a total.
    pub fn add_to(&self, total: &mut Distribution) {
        total.counts.resize(BUCKETS, 0);
        for (sum, bucket) in total.counts.iter_mut().zip(&self.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
    }
}

fn bucket_of(value: u64) -> usize {
    if value < 1 << FINE {
        return value as usize;
    }
    let exponent = value.ilog2();
    if exponent > EXPONENT_MAX {
        return BUCKETS - 1;
    }
    (((exponent - FINE + 1) << FINE) as u64 + (value >> (exponent - FINE)) - (1 << FINE)) as usize
}

/// The largest value that falls into a bucket.
fn upper(bucket: usize) -> u64 {
    let (bucket, fine) = (bucket as u64, 1 << FINE);
    if bucket < fine {
        return bucket;
    }
    let exponent = bucket / fine - 1;
    ((fine + bucket % fine + 1) << exponent) - 1
}

/// The sum of several histograms.
#[derive(Default, Clone, Debug)]
pub struct Distribution {
    counts: Vec<u64>,
}

impl Distribution {
    /// Every bucket that has any, with its count.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// Adds to a bucket; to one that there is not, nothing.
    pub fn add(&mut self, bucket: usize, count: u64) {
        self.counts.resize(BUCKETS, 0);
        if let Some(sum) = self.counts.get_mut(bucket) {
            *sum += count;
        }
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many values are below each of some rising bounds, in nanoseconds. A bucket counts if all of it is below.
    pub fn up_to<const N: usize>(&self, bounds_ns: [u64; N]) -> [u64; N] {
        let (mut buckets, mut below) = (self.counts().peekable(), 0);
        bounds_ns.map(|bound_ns| {
            while let Some((_, count)) = buckets.next_if(|(bucket, _)| upper(*bucket) < bound_ns) {
                below += count;
            }
            below
        })
    }

    /// The value that `percent` of the counted values do not exceed; 0 when there are none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let total = self.total();
        let wanted = ((total as f64 * percent / 100.0).ceil() as u64).clamp(1, total.max(1));
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= wanted {
                return upper(bucket);
            }
        }
        0
    }

    /// Bounds that double from 1024 ns on, each with the number of values up to it, from the first that has any to the last
    /// that adds some: what LATENCY HISTOGRAM shows.
    pub fn doubling(&self) -> Vec<(u64, u64)> {
        let (total, mut steps, mut below) = (self.total(), Vec::new(), 0);
        let mut buckets = self.counts.iter().enumerate().peekable();
        for bound in (10..=EXPONENT_MAX + 1).map(|exponent| 1u64 << exponent) {
            let before = below;
            while let Some((_, count)) = buckets.next_if(|(bucket, _)| upper(*bucket) < bound) {
                below += count;
            }
            if below > before {
                steps.push((bound, below));
            }
            if below == total {
                break;
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_that_reaches_it() {
        for value in (0..100_000)
            .chain((17..34).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + (1 << bit) / 3]))
        {
            let bucket = bucket_of(value);
            assert!(
                upper(bucket) >= value && upper(bucket) - value <= value / 16,
                "{value}: {bucket}, {}",
                upper(bucket)
            );
            assert!(bucket == 0 || upper(bucket - 1) < value);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_and_doubling_bounds_come_from_the_counts() {
        let histogram = Histogram::default();
        (0..90).for_each(|_| histogram.record(900, 1));
        histogram.record(5000, 10);
        let mut total = Distribution::default();
        histogram.add_to(&mut total);
        assert_eq!(total.total(), 100);
        assert_eq!(total.percentile(50.0), upper(bucket_of(900)));
        assert_eq!(total.percentile(99.0), upper(bucket_of(5000)));
        assert_eq!(total.doubling(), [(1024, 90), (8192, 100)]);
        assert_eq!(Distribution::default().percentile(50.0), 0);
    }
}
