//! Sleeping on a word of the segment until another process changes it.
//!
//! The futexes are shared ones: the kernel knows the word by file and offset, so that processes
//! which mapped the segment at different addresses meet. Nothing here knows which threads wait. A
//! sleeper can be killed at any time, and a wake-up that it was given is lost with it. Callers
//! therefore wait with a timeout and look at the owner's life again.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::sync::{self, Half};

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slept {
    /// A wake-up, or a spurious one: look at the word again.
    Woken,
    /// The time is over.
    TimedOut,
    /// The word was not the expected one, so that there was no sleep.
    Changed,
}

/// Sleeps while `word` is `expected`, at most `timeout`. A signal does not end the sleep and does not lengthen it.
pub fn wait(word: &Half, expected: u32, timeout: Option<Duration>) -> Slept {
    let word = sync::kernel(word);
    #[cfg(feature = "schedules")]
    if sync::is_scheduled() {
        return match crate::schedules::wait(word, expected, timeout) {
            Some(true) => Slept::Woken,
            Some(false) => Slept::TimedOut,
            None => Slept::Changed,
        };
    }
    // A deadline that no clock can name is none.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut left = deadline.and(timeout);
    loop {
        let relative = left.and_then(|left| Timespec::try_from(left).ok());
        match futex::wait(word, Flags::empty(), expected, relative.as_ref()) {
            Ok(()) => return Slept::Woken,
            Err(Errno::TIMEDOUT) => return Slept::TimedOut,
            Err(Errno::INTR) => {}
            // EAGAIN; anything else means that this word cannot be slept on, and looking again is always right.
            Err(_) => return Slept::Changed,
        }
        if let Some(deadline) = deadline {
            left = Some(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

/// Wakes at most `count` sleepers of `word` and says how many there were.
pub fn wake(word: &Half, count: u32) -> usize {
    let word = sync::kernel(word);
    #[cfg(feature = "schedules")]
    if sync::is_scheduled() {
        return crate::schedules::wake(word, count);
    }
    // The kernel reads the count as signed: a larger one would wake a single sleeper.
    futex::wake(word, Flags::empty(), count.min(i32::MAX as u32)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_word_that_has_changed_is_not_slept_on() {
        assert_eq!(wait(&Half::new(1), 0, None), Slept::Changed);
    }

    #[test]
    fn a_sleep_ends_in_time() {
        let begun = Instant::now();
        assert_eq!(wait(&Half::new(0), 0, Some(Duration::from_millis(20))), Slept::TimedOut);
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert_eq!(wait(&Half::new(0), 0, Some(Duration::ZERO)), Slept::TimedOut);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let word = Arc::new(Half::new(0));
        let theirs = Arc::clone(&word);
        // The longest duration is no deadline at all: it must not be refused or cut to nothing.
        let sleeper = std::thread::spawn(move || wait(&theirs, 0, Some(Duration::MAX)));
        while wake(&word, u32::MAX) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(sleeper.join().unwrap(), Slept::Woken);
        word.store(1, Ordering::Relaxed);
        assert_eq!(wake(&word, 1), 0);
    }

    #[test]
    fn a_signal_neither_ends_nor_lengthens_a_sleep() {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: installs an empty handler for a signal that this test alone uses, without SA_RESTART.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
        }
        // SAFETY: takes no arguments and cannot fail.
        let sleeper = unsafe { libc::pthread_self() };
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..10 {
                    std::thread::sleep(Duration::from_millis(4));
                    // SAFETY: the sleeper outlives this scope.
                    unsafe { libc::pthread_kill(sleeper, libc::SIGUSR2) };
                }
            });
            assert_eq!(wait(&Half::new(0), 0, Some(Duration::from_millis(60))), Slept::TimedOut);
        });
        assert!(begun.elapsed() >= Duration::from_millis(60));
        assert!(begun.elapsed() < Duration::from_millis(1000), "{:?}", begun.elapsed());
    }
}
