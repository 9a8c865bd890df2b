//! Whether a thread stands still by a signal (SIGSTOP, a debugger), as the system says it: for who would wait for it otherwise.
//!
//! It is a hint that saves waiting and nothing else: a moment later the thread may run again, and of a thread in another PID namespace it says
//! nothing, or something about somebody else with the same numbers. So whoever passes a thread over because of it leaves things so that it finds
//! its place again.

use polder_shm::Segment;
use polder_shm::layout::seat;

/// The process and the thread of who sits in a seat.
fn owner(segment: &Segment, index: u64) -> (u32, u32) {
    let word = segment.load(segment.seat_at(index) + seat::OWNER);
    (word as u32, (word >> 32) as u32)
}

/// Whether two seats are of one process.
pub(crate) fn are_together(segment: &Segment, one: u64, other: u64) -> bool {
    owner(segment, one).0 == owner(segment, other).0
}

/// Whether the system says of a seat's thread that it is stopped: the third field of its `stat`, behind the name in parentheses (proc(5)).
pub(crate) fn is_stopped(segment: &Segment, index: u64) -> bool {
    let (process, thread) = owner(segment, index);
    let stat = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 't']))
}
