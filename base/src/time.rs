//! The wall clock. Times that are shared or stored are milliseconds since the Unix epoch; a monotonic clock would mean
//! something else in every time namespace.
use std::time::{Duration, SystemTime};

/// Since the Unix epoch; zero on a machine whose clock stands before it.
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since the Unix epoch.
#[inline(never)]
pub fn now_ms() -> u64 {
    milliseconds(rustix::time::clock_gettime(rustix::time::ClockId::Realtime))
}

fn milliseconds(time: rustix::time::Timespec) -> u64 {
    time.tv_sec.max(0) as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Microseconds since the Unix epoch.
pub fn now_us() -> u64 {
    since_epoch().as_micros() as u64
}

/// Milliseconds since the Unix epoch by the kernel's coarse clock: up to a few milliseconds old, a few nanoseconds to read.
#[inline]
pub fn coarse_ms() -> u64 {
    milliseconds(rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse))
}

/// CPU time that the calling thread has used. It does not pass while the thread waits or other programs have its core.
pub fn thread_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.max(0) as u64, used.tv_nsec as u32)
}
