//! A descriptor that an event loop can poll: readable once something has arrived.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is readable from the first [`Signal::raise`] until the next [`Signal::clear`]. As a waker, it is raised.
pub struct Signal {
    event: OwnedFd,
}

impl Signal {
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Signal> {
        Ok(Signal { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Makes the descriptor readable.
    pub fn raise(&self) {
        // It fails only when 2^64 - 2 signals were not cleared: then it is readable anyway.
        let _is_readable = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable.
    pub fn clear(&self) {
        // It fails when nothing was raised: then there is nothing to clear.
        let _was_clear = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.raise();
    }
}
