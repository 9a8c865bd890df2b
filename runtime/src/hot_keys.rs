//! Which keys cost most: HOTKEYS.
//!
//! While keys are tracked, each call of this process is timed by itself, as for a slow log with a low threshold. Its time, and the bytes of its
//! request and its reply, are divided among its keys. Nothing is added to a call while they are not.
//!
//! ```text
//!   START --> tracked --> STOP, or the end of DURATION --> kept for GET --> RESET
//! ```
//! - **K1** At most [`KEYS_MAX`] keys are kept, with [`BYTES_MAX`] bytes in all; keys above [`KEY_BYTES_MAX`] are counted in sums only. When there are more, the half with the smaller part of time and bytes is dropped, so a key among
//!   the [`COUNT_MAX`] that cost most is lost only if thousands of others cost as much between its calls.
//! - **K2** What stands for all calls counts every call that has keys, sampled or not.
use hashbrown::HashMap;
use polder_base::time;
use polder_calls::command::Command;

use crate::processor;

/// The most keys that HOTKEYS shows.
pub const COUNT_MAX: usize = 64;
/// The most keys that are kept.
const KEYS_MAX: usize = 8192;
/// The most bytes of keys that are kept, and the longest key.
const BYTES_MAX: usize = 8 << 20;
const KEY_BYTES_MAX: usize = 64 << 10;

/// The arguments of START.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub by_time: bool,
    pub by_bytes: bool,
    pub count: usize,
    /// 0: until it is stopped.
    pub duration_ms: u64,
    /// One of this many accesses of keys is counted.
    pub sample: u64,
}

/// A sum of time and of bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Spent {
    nanoseconds: u64,
    bytes: u64,
}

impl Spent {
    fn add(&mut self, other: Spent) {
        self.nanoseconds += other.nanoseconds;
        self.bytes += other.bytes;
    }
}

/// A tracking, as long as it is not reset.
#[derive(Debug)]
pub struct Tracking {
    pub request: Request,
    pub started_ms: u64,
    /// Seconds of processor time, user and system, at the start; what was spent, once it has ended.
    processor: [f64; 2],
    ended_ms: Option<u64>,
    all: Spent,
    sampled: Spent,
    keys: HashMap<Vec<u8>, Spent>,
    key_bytes: usize,
    drawn: u64,
}

fn processor() -> [f64; 2] {
    let [user, system, ..] = processor::seconds();
    [user, system]
}

impl Tracking {
    /// Begins.
    pub fn start(request: Request) -> Tracking {
        let started_ms = time::now_ms();
        Tracking {
            request,
            started_ms,
            processor: processor(),
            ended_ms: None,
            all: Spent::default(),
            sampled: Spent::default(),
            keys: HashMap::new(),
            key_bytes: 0,
            drawn: started_ms | 1,
        }
    }

    /// Ends at this moment, unless it has ended.
    fn end_at(&mut self, ended_ms: u64) {
        if self.ended_ms.is_none() {
            (self.processor, self.ended_ms) = (self.spent_processor(), Some(ended_ms));
        }
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.end_at(time::now_ms());
    }

    /// Ends it if its duration is over. Returns whether it goes on.
    pub fn goes_on(&mut self) -> bool {
        let until_ms = self.started_ms.saturating_add(self.request.duration_ms);
        if self.request.duration_ms != 0 && time::now_ms() >= until_ms {
            self.end_at(until_ms);
        }
        self.ended_ms.is_none()
    }

    fn spent_processor(&self) -> [f64; 2] {
        match (self.ended_ms, processor()) {
            (Some(_), _) => self.processor,
            (None, [user, system]) => [user - self.processor[0], system - self.processor[1]],
        }
    }

    /// Counts a call of this process: its nanoseconds, and the bytes of its request and its reply.
    pub fn add(&mut self, command: &Command, args: &[&[u8]], nanoseconds: u64, bytes: u64) {
        let mut keys: Vec<&[u8]> = Vec::new();
        command.each_key(args, |at, _| keys.push(args[at]));
        if keys.is_empty() || !self.goes_on() {
            return;
        }
        let spent = Spent { nanoseconds, bytes };
        self.all.add(spent);
        let each = keys.len() as u64;
        let part = Spent { nanoseconds: spent.nanoseconds / each, bytes: spent.bytes / each };
        for key in keys {
            if self.request.sample > 1 && !self.draw().is_multiple_of(self.request.sample) {
                continue;
            }
            self.sampled.add(part);
            self.add_key(key, part);
        }
    }

    fn add_key(&mut self, key: &[u8], part: Spent) {
        match self.keys.get_mut(key) {
            Some(sum) => sum.add(part),
            None if key.len() > KEY_BYTES_MAX => {}
            None => {
                self.keys.insert(key.to_vec(), part);
                self.key_bytes += key.len();
                while self.keys.len() > KEYS_MAX || self.key_bytes > BYTES_MAX {
                    self.prune();
                }
            }
        }
    }

    /// Marsaglia's xorshift.
    fn draw(&mut self) -> u64 {
        self.drawn ^= self.drawn << 13;
        self.drawn ^= self.drawn >> 7;
        self.drawn ^= self.drawn << 17;
        self.drawn
    }

    /// Drops about half of the keys (K1).
    fn prune(&mut self) {
        let of = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let sampled = self.sampled;
        let weight = |sum: &Spent| of(sum.nanoseconds, sampled.nanoseconds).max(of(sum.bytes, sampled.bytes));
        let mut weights: Vec<f64> = self.keys.values().map(weight).collect();
        let (_, middle, _) = weights.select_nth_unstable_by(self.keys.len() / 2, f64::total_cmp);
        let middle = *middle;
        let mut equal = self.keys.len() / 4;
        self.keys.retain(|_, sum| match weight(sum).total_cmp(&middle) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Greater => true,
            // All may be equal.
            std::cmp::Ordering::Equal => {
                equal = equal.saturating_sub(1);
                equal > 0
            }
        });
        self.key_bytes = self.keys.keys().map(Vec::len).sum();
    }

    fn top(&self, of: fn(&Spent) -> u64) -> Vec<(&[u8], u64)> {
        let costs = self.keys.iter().map(|(key, sum)| (&key[..], of(sum)));
        let mut top: Vec<(&[u8], u64)> = costs.filter(|(_, cost)| *cost > 0).collect();
        top.sort_unstable_by(|(one, less), (two, more)| more.cmp(less).then_with(|| one.cmp(two)));
        top.truncate(self.request.count);
        top
    }

    /// The keys that took most microseconds.
    pub fn by_time(&self) -> Vec<(&[u8], u64)> {
        self.top(|sum| sum.nanoseconds / 1000)
    }

    /// The keys for which most bytes were read and written.
    pub fn by_bytes(&self) -> Vec<(&[u8], u64)> {
        self.top(|sum| sum.bytes)
    }

    /// The figures, by name: those that come before the lists.
    pub fn figures(&self) -> [(&'static str, u64); 7] {
        let milliseconds = |seconds: f64| (seconds.max(0.0) * 1000.0) as u64;
        let [user, system] = self.spent_processor();
        [
            ("all-commands-all-slots-us", self.all.nanoseconds / 1000),
            ("net-bytes-all-commands-all-slots", self.all.bytes),
            ("collection-start-time-unix-ms", self.started_ms),
            (
                "collection-duration-ms",
                self.ended_ms.unwrap_or_else(time::now_ms).saturating_sub(self.started_ms),
            ),
            ("total-cpu-time-user-ms", milliseconds(user)),
            ("total-cpu-time-sys-ms", milliseconds(system)),
            ("total-net-bytes", self.sampled.bytes),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracking() -> Tracking {
        let request = Request { by_time: true, by_bytes: true, count: 2, duration_ms: 0, sample: 1 };
        Tracking::start(request)
    }

    #[test]
    fn a_thousand_others_do_not_drive_out_a_key_that_costs_more() {
        let mut tracking = tracking();
        let add = |tracking: &mut Tracking, key: &[u8], bytes: u64| {
            let part = Spent { nanoseconds: 1, bytes };
            tracking.sampled.add(part);
            tracking.add_key(key, part);
        };
        for number in 0..5 * KEYS_MAX {
            add(&mut tracking, number.to_string().as_bytes(), 10);
            if number % 100 == 0 {
                add(&mut tracking, b"hot", 100);
            }
            assert!(tracking.keys.len() <= KEYS_MAX);
        }
        assert_eq!(tracking.by_bytes()[0].0, b"hot");
        assert_eq!(tracking.by_bytes().len(), 2);
    }

    #[test]
    fn long_keys_take_a_bounded_room() {
        let mut tracking = tracking();
        for number in 0..1000u32 {
            let mut key = vec![b'k'; KEY_BYTES_MAX];
            key[..4].copy_from_slice(&number.to_le_bytes());
            tracking.add_key(&key, Spent { nanoseconds: 1, bytes: 1 });
            assert!(tracking.key_bytes <= BYTES_MAX);
        }
        let before = tracking.keys.len();
        assert!(before > 0);
        tracking.add_key(&vec![b'l'; KEY_BYTES_MAX + 1], Spent { nanoseconds: 1, bytes: 1 });
        assert_eq!(tracking.keys.len(), before);
    }

    #[test]
    fn what_has_ended_stays_as_it_was() {
        let mut tracking = tracking();
        assert!(tracking.goes_on());
        tracking.stop();
        let figures = tracking.figures();
        tracking.stop();
        assert!(!tracking.goes_on());
        assert_eq!(tracking.figures(), figures);
    }
}
