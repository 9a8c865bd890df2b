//! The process and the machine, as the kernel tells of them.
use std::fs::read_to_string;

/// What INFO says of them; what cannot be read is 0 or empty.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// `Linux 6.1.0 x86_64`
    pub system: String,
    pub executable: String,
    /// Memory that the process has resident, parts of the segment it has touched included.
    pub resident_bytes: u64,
    pub memory_bytes: u64,
    /// Seconds of processor time: user, system, and the same of children that have ended.
    pub cpu: [f64; 4],
}

impl Machine {
    /// Reads everything as it is now.
    pub fn look() -> Machine {
        let name = rustix::system::uname();
        let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let pages = read_to_string("/proc/self/statm").ok();
        let resident = pages.as_deref().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        let memory = read_to_string("/proc/meminfo").ok();
        let total_kib = memory
            .as_deref()
            .and_then(|text| text.lines().next()?.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
        Machine {
            system: [name.sysname(), name.release(), name.machine()].map(word).join(" "),
            executable: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
            resident_bytes: resident.unwrap_or(0) * rustix::param::page_size() as u64,
            memory_bytes: total_kib.unwrap_or(0) << 10,
            cpu: cpu_seconds(&read_to_string("/proc/self/stat").unwrap_or_default()).unwrap_or_default(),
        }
    }
}

/// Processor time of this process, in microseconds.
pub fn cpu_us() -> u64 {
    let cpu = cpu_seconds(&read_to_string("/proc/self/stat").unwrap_or_default()).unwrap_or_default();
    ((cpu[0] + cpu[1]) * 1e6) as u64
}

/// Fields 14 to 17 of a stat line: utime, stime, cutime, cstime, in clock ticks. The name in field 2 may hold anything.
fn cpu_seconds(stat: &str) -> Option<[f64; 4]> {
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
        assert_eq!(cpu_seconds(stat), Some([100.0, 200.0, 300.0, 400.0].map(|count| count / ticks)));
        assert_eq!(cpu_seconds("nonsense"), None);
    }

    #[test]
    fn the_kernel_tells_of_this_process() {
        let machine = Machine::look();
        assert!(machine.resident_bytes > 0 && machine.memory_bytes > machine.resident_bytes);
        assert!(machine.system.starts_with("Linux "), "{}", machine.system);
    }
}
