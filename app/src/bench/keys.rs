//! Which keys a benchmark touches, worked out before the clock starts.
//!
//! ```text
//!   picks: key:000000000042 key:000000917364 key:000000000007 ...      in the order in which they will be used
//! ```
//! A worker reads its picks from front to back, so the processor has fetched the next one before it is needed: the misses
//! that are measured belong to the memory under test and not to the benchmark.

/// The digits of a key's number, as in redis-benchmark; a key has 16 bytes then.
pub const DIGITS: usize = 12;
/// What stands before them: keys that hold counters have names of their own.
pub type Prefix = [u8; 4];
/// Bytes of one key.
pub const KEY_BYTES: usize = size_of::<Prefix>() + DIGITS;
/// The fewest and the most picks that are worked out before they come round again.
const PICKS_MIN: u64 = 1 << 20;
const PICKS_MAX: u64 = 1 << 24;

/// SplitMix64: small, fast, and the same numbers for the same seed everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Sixty-four bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scrambled(self.0)
    }

    /// A number from 0 to `end` - 1.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 to 1.
    fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn scrambled(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// How often each key is picked.
#[derive(Clone, Debug)]
pub enum Spread {
    /// All alike.
    Uniform { keys: u64 },
    /// The k-th most popular one in proportion to 1 / k^theta (Gray et al., SIGMOD 1994, as in YCSB).
    Zipf { keys: u64, theta: f64, zeta: f64, eta: f64 },
}

impl Spread {
    /// Over `keys` keys; `theta` between 0 and 1 asks for a Zipf distribution.
    pub fn new(keys: u64, theta: Option<f64>) -> Spread {
        let keys = keys.max(1);
        let Some(theta) = theta else { return Spread::Uniform { keys } };
        let zeta = |count: u64| (1..=count).map(|rank| 1.0 / (rank as f64).powf(theta)).sum::<f64>();
        let all = zeta(keys);
        let eta = (1.0 - (2.0 / keys as f64).powf(1.0 - theta)) / (1.0 - zeta(2.min(keys)) / all);
        Spread::Zipf { keys, theta, zeta: all, eta }
    }

    /// The number of a key.
    pub fn pick(&self, random: &mut Random) -> u64 {
        match *self {
            Spread::Uniform { keys } => random.below(keys),
            Spread::Zipf { keys, theta, zeta, eta } => {
                let fraction = random.fraction();
                let rank = match fraction * zeta {
                    low if low < 1.0 => 0,
                    low if low < 1.0 + 0.5f64.powf(theta) => 1,
                    _ => (keys as f64 * (eta * fraction - eta + 1.0).powf(1.0 / (1.0 - theta))) as u64,
                };
                // Popular keys lie anywhere, not side by side.
                scrambled(rank.min(keys - 1)) % keys
            }
        }
    }

    /// As the report names it.
    pub fn name(&self) -> String {
        match self {
            Spread::Uniform { .. } => "uniform".into(),
            Spread::Zipf { theta, .. } => format!("zipf {theta}"),
        }
    }
}

/// Writes a number as [`DIGITS`] digits.
pub fn write_digits(mut number: u64, into: &mut [u8]) {
    for digit in into.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// A worker's keys, in the order of their use.
pub struct Picks {
    bytes: Vec<u8>,
    at: usize,
}

impl Picks {
    /// Enough picks for `calls` calls, or enough that coming round again makes no difference.
    pub fn new(prefix: Prefix, spread: &Spread, calls: u64, random: &mut Random) -> Picks {
        let keys = match spread {
            Spread::Uniform { keys } | Spread::Zipf { keys, .. } => *keys,
        };
        let count = calls.clamp(1, keys.clamp(PICKS_MIN, PICKS_MAX)) as usize;
        Picks::of(prefix, (0..count).map(|_| spread.pick(random)), count)
    }

    /// The keys from `start` to `end` - 1, each once.
    pub fn in_order(prefix: Prefix, start: u64, end: u64) -> Picks {
        Picks::of(prefix, start..end, (end - start) as usize)
    }

    fn of(prefix: Prefix, numbers: impl Iterator<Item = u64>, count: usize) -> Picks {
        let mut bytes = Vec::with_capacity(count * KEY_BYTES);
        for number in numbers {
            let mut digits = [0; DIGITS];
            write_digits(number, &mut digits);
            bytes.extend_from_slice(&prefix);
            bytes.extend_from_slice(&digits);
        }
        Picks { bytes, at: 0 }
    }

    /// The next `count` keys, one behind the other.
    #[inline(always)]
    pub fn next(&mut self, count: usize) -> &[[u8; KEY_BYTES]] {
        let (keys, _) = self.bytes.as_chunks();
        if self.at + count > keys.len() {
            self.at = 0;
        }
        let from = self.at;
        self.at += count.min(keys.len());
        &keys[from..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_are_keys_of_the_key_space() {
        let mut random = Random::new(1);
        let mut picks = Picks::new(*b"key:", &Spread::new(1000, None), 100, &mut random);
        let first = picks.next(1)[0];
        assert!(first.starts_with(b"key:000000000"));
        (0..9).for_each(|_| assert!(picks.next(11).iter().all(|key| key.starts_with(b"key:000000000"))));
        assert_eq!(picks.next(1), [first], "the hundred come round again");
    }

    #[test]
    fn zipf_prefers_some_keys_as_it_should() {
        let (keys, draws) = (10_000, 200_000);
        let spread = Spread::new(keys, Some(0.99));
        let mut random = Random::new(7);
        let mut counts = vec![0u32; keys as usize];
        (0..draws).for_each(|_| counts[spread.pick(&mut random) as usize] += 1);
        counts.sort_unstable_by(|one, two| two.cmp(one));
        let zeta: f64 = (1..=keys).map(|rank| (rank as f64).powf(-0.99)).sum();
        let expected = f64::from(draws) / zeta;
        assert!((f64::from(counts[0]) / expected - 1.0).abs() < 0.1, "{} of about {expected}", counts[0]);
        assert!(counts[..100].iter().sum::<u32>() > draws as u32 / 3);
    }

    #[test]
    fn uniform_reaches_every_key_alike() {
        let mut random = Random::new(3);
        let spread = Spread::new(16, None);
        let mut counts = [0; 16];
        (0..160_000).for_each(|_| counts[spread.pick(&mut random) as usize] += 1);
        assert!(counts.iter().all(|count| (9_000..11_000).contains(count)), "{counts:?}");
    }
}
