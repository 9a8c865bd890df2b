//! A call's deadline.
use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, Stage, TimedOut};

/// When a call was made and until when it waits; `None` for calls without a deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub made: Instant,
    pub at: Instant,
}

impl Due {
    /// The deadline passed before the call was written; ahead of it are these many calls and bytes.
    pub(crate) fn passed_in_queue(self, (calls_ahead, bytes_unwritten): (usize, usize)) -> Error {
        let driver_lag = Instant::now().saturating_duration_since(self.at);
        let limit = self.at.duration_since(self.made);
        Error::TimedOut(Arc::new(TimedOut {
            stage: Stage::Queue,
            limit,
            calls_ahead,
            bytes_unwritten,
            since_read: None,
            driver_lag,
        }))
    }
}
