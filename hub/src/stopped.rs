//! Whether a thread is stopped by a signal (SIGSTOP) or a debugger, as the system says: for threads
//! that would otherwise wait for it.
//!
//! It is only a hint that saves waiting. A moment later the thread may run again. Of a thread in
//! another PID namespace the system says nothing, or describes another thread with the same
//! numbers. So a thread that passes another one over leaves the data so that the other finds its
//! place again.

use polder_shm::Segment;
use polder_shm::layout::seat;
use std::io;

/// The process and the thread that own a seat.
fn owner(segment: &Segment, index: u64) -> (u32, u32) {
    let word = segment.load(segment.seat_at(index) + seat::OWNER);
    (word as u32, (word >> 32) as u32)
}

/// Whether two seats are of one process.
pub(crate) fn are_together(segment: &Segment, one: u64, other: u64) -> bool {
    owner(segment, one).0 == owner(segment, other).0
}

/// What the system says of a thread: the third field of its `stat`, behind the name in parentheses (proc(5)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Runs,
    /// By SIGSTOP and its like, until a signal lets it go on.
    Stopped,
    /// Stopped by a tracer: as long as the tracer wants, or, where calls are only listed, for a
    /// moment at each of them.
    Traced,
    /// Not visible from this process.
    Hidden,
}

impl State {
    /// Whether it may be stopped. For callers that do no harm if the thread runs after all.
    pub fn may_be_still(self) -> bool {
        self != State::Runs
    }
}

/// The state of a seat's thread.
pub(crate) fn state_of(segment: &Segment, index: u64) -> State {
    let (process, thread) = owner(segment, index);
    told(std::fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")))
}

fn told(stat: io::Result<String>) -> State {
    let stat = match stat {
        Ok(stat) => stat,
        // With `hidepid`, proc(5) gives one or the other of these errors for the threads of other
        // users.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return State::Hidden;
        }
        // Another error, such as too many open files, says nothing about the thread.
        Err(_) => return State::Runs,
    };
    match stat.rsplit(") ").next().and_then(|rest| rest.bytes().next()) {
        Some(b'T') => State::Stopped,
        Some(b't') => State::Traced,
        _ => State::Runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_does_not_tell_is_hidden_and_runs_where_that_says_nothing() {
        for (errno, state) in [(2, State::Hidden), (1, State::Hidden), (13, State::Hidden), (24, State::Runs)]
        {
            assert_eq!(told(Err(io::Error::from_raw_os_error(errno))), state, "{errno}");
        }
        for (letter, state) in [("T", State::Stopped), ("t", State::Traced), ("S", State::Runs)] {
            assert_eq!(told(Ok(format!("7 (a) b) {letter} 1 7"))), state);
        }
    }
}
