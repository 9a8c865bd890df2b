//! A call's deadline.
use std::time::Instant;

/// When a call was made and until when it waits; `None` for calls without a deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub made: Instant,
    pub at: Instant,
}
