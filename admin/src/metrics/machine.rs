//! The process and the machine, as the kernel tells of them.
use std::fs::read_to_string;

use polder_runtime::processor;

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
    /// Those of the thread with which the process began: user, system.
    pub main_cpu: [f64; 2],
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
            cpu: processor::seconds(),
            main_cpu: main_thread_seconds().unwrap_or_default(),
        }
    }
}

/// Processor time of the first thread of this process.
fn main_thread_seconds() -> Option<[f64; 2]> {
    /// The unit of the kernel's figures for programs.
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = read_to_string(format!("/proc/self/task/{}/stat", std::process::id())).ok()?;
    // The name of the thread, in brackets, may hold anything.
    let (_, behind) = text.rsplit_once(')')?;
    let mut words = behind.split_ascii_whitespace().skip(11);
    let mut seconds = || Some(words.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    Some([seconds()?, seconds()?])
}

/// Processor time of this process, in microseconds.
pub fn cpu_us() -> u64 {
    let cpu = processor::seconds();
    ((cpu[0] + cpu[1]) * 1e6) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_this_process() {
        let machine = Machine::look();
        assert!(machine.resident_bytes > 0 && machine.memory_bytes > machine.resident_bytes);
        assert!(machine.main_cpu[0] + machine.main_cpu[1] <= machine.cpu[0] + machine.cpu[1] + 0.02);
        assert!(main_thread_seconds().is_some());
        assert!(machine.system.starts_with("Linux "), "{}", machine.system);
    }
}
