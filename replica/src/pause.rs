//! The pause before another attempt, where attempts fail in a way that another one at once would not mend: 1, 2, 4 ... 60 s.
use std::time::Duration;

const MAX: Duration = Duration::from_secs(60);
const DOUBLINGS: u32 = 6;

/// The pause after a failure, with the number of those directly before it.
pub fn after(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(DOUBLINGS)).min(MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let seconds: Vec<u64> = (0..9).map(|failures| after(failures).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(after(u32::MAX), MAX);
    }
}
