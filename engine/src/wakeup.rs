//! What an event loop of the embedding program polls: the FIFO of a thread's seat, and a clock for
//! what no letter tells.
//!
//! ```text
//!   FIFO of the seat   letters that come while the thread does other things  --.
//!                                                                               >-- epoll: the one descriptor that callers are given
//!   timerfd            the end of a CLIENT PAUSE, a debt                      --'
//! ```
//!
//! A pause ends by the clock, and no message wakes it then: a thread that only polls would never learn
//! that the call which the pause held back may go on. The timer costs a system call when a pause
//! begins to hold a call back, and one when it no longer does. A pause that is ended early sends a
//! letter (UNPAUSE). A pause that became longer meanwhile sets the timer again, since the call that
//! looks is held back again. No message wakes it either for what this thread owes others (`hub::queue`)
//! because a lock was held: it tries again by the timer.
use std::os::fd::OwnedFd;

use polder_base::Fault;
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// See the module.
pub(crate) struct Wakeup {
    fifo: OwnedFd,
    timer: OwnedFd,
    /// When the timer ends, in milliseconds since the Unix epoch; 0 for never.
    timer_ms: u64,
    both: OwnedFd,
}

impl Wakeup {
    /// Around the FIFO of a seat.
    pub fn around(fifo: OwnedFd) -> Result<Wakeup, Fault> {
        let made = || {
            let timer =
                timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            for part in [&fifo, &timer] {
                epoll::add(&both, part, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
            }
            Ok((timer, both))
        };
        let (timer, both) = made().map_err(|error: rustix::io::Errno| {
            Fault::System(format!("no descriptor can be had: {error}"))
        })?;
        Ok(Wakeup { fifo, timer, timer_ms: 0, both })
    }

    /// The descriptor, once more.
    pub fn copy(&self) -> std::io::Result<OwnedFd> {
        self.both.try_clone()
    }

    /// Makes it readable.
    pub fn signal(&self) {
        // A FIFO that is full is readable as well.
        let _ = rustix::io::write(&self.fifo, b"!");
    }

    /// Makes it unreadable.
    pub fn clear(&mut self) {
        let mut signals = [0; 256];
        while rustix::io::read(&self.fifo, &mut signals).is_ok_and(|count| count == signals.len()) {}
        self.signal_at(None);
    }

    /// Makes it readable at a time, in milliseconds since the Unix epoch, or not by the clock.
    pub fn signal_at(&mut self, time_ms: Option<u64>) {
        // What is over is at once; nothing but zero takes the timer back.
        let time_ms = time_ms.map_or(0, |time_ms| time_ms.max(1));
        if std::mem::replace(&mut self.timer_ms, time_ms) == time_ms {
            return;
        }
        let value = Timespec { tv_sec: (time_ms / 1000) as i64, tv_nsec: (time_ms % 1000 * 1_000_000) as _ };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        if timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once).is_err() {
            // A time beyond what the system knows. A caller that wants to see it end looks now and
            // then.
            self.timer_ms = 0;
        }
    }
}
