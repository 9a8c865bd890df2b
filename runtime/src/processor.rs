//! Processor time of this process, as the kernel tells of it.
use std::fs::read_to_string;

/// Seconds of processor time: user, system, and the same of children that have ended; zeros where that cannot be read.
pub fn seconds() -> [f64; 4] {
    read(&read_to_string("/proc/self/stat").unwrap_or_default()).unwrap_or_default()
}

/// Fields 14 to 17 of a stat line: utime, stime, cutime, cstime, in clock ticks. The name in field 2 may hold anything.
fn read(stat: &str) -> Option<[f64; 4]> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let mut seconds =
        fields.split_ascii_whitespace().skip(11).map(|field| field.parse::<f64>().map(|count| count / ticks));
    Some([seconds.next()?.ok()?, seconds.next()?.ok()?, seconds.next()?.ok()?, seconds.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_does_not_shift_the_fields() {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let stat = "1 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 100 200 300 400 20";
        assert_eq!(read(stat), Some([100.0, 200.0, 300.0, 400.0].map(|count| count / ticks)));
        assert_eq!(read("nonsense"), None);
    }
}
