//! Whether a thread stands still by a signal (SIGSTOP) or a debugger, as the system says it: for who would wait for it otherwise.
//!
//! It is a hint that saves waiting and nothing else: a moment later the thread may run again, and of a thread in another PID namespace it says
//! nothing, or something about somebody else with the same numbers. So whoever passes a thread over because of it leaves things so that it finds
//! its place again.

use polder_shm::Segment;
use polder_shm::layout::seat;
use std::io;

/// The process and the thread of who sits in a seat.
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
    /// By SIGSTOP and its like, until somebody lets it go on.
    Stopped,
    /// In the hands of a debugger: as long as that wants, or, where calls are only listed, for a moment at each of them.
    Traced,
    /// It is not to be seen from here.
    Hidden,
}

impl State {
    /// Whether it may stand still: for who does no harm to a thread that runs.
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
        // `hidepid` of proc(5) says the one or the other of the threads of other users.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => return State::Hidden,
        // Too many open files, say: that says nothing of the thread.
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
        for (errno, state) in [(2, State::Hidden), (1, State::Hidden), (13, State::Hidden), (24, State::Runs)] {
            assert_eq!(told(Err(io::Error::from_raw_os_error(errno))), state, "{errno}");
        }
        for (letter, state) in [("T", State::Stopped), ("t", State::Traced), ("S", State::Runs)] {
            assert_eq!(told(Ok(format!("7 (a) b) {letter} 1 7"))), state);
        }
    }
}
