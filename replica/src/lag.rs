//! The lag that a replica may have: `client-output-buffer-limit replica`.
//!
//! Only what could have been sent counts: bytes that were in the log at an earlier look and have not been sent since. So one large value closes no
//! replica that takes it: one that is beyond the hard limit may take what was in the log by then, and is closed if it is beyond the limit again when it has
//! that, or takes less than a sixteenth of the limit from one look to the next. Nor does a copy that is being loaded: a replica counts from its first
//! acknowledgement on.
use std::time::{Duration, Instant};

use polder_calls::settings::value::output_limits;
use polder_calls::settings::{Settings, id};

/// The time between two looks.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// The place of the class among the limits.
const REPLICA: usize = 1;

/// The share of the hard limit that a replica takes at least between two looks, while it is beyond it.
const TAKEN_SHARE: u64 = 16;

/// The looks at one replica.
pub struct Lag {
    looked: Instant,
    /// The end of the log at the last look.
    end: u64,
    /// The place up to which the replica had been sent the log then.
    place: u64,
    /// Since when it is beyond the soft limit.
    soft_since: Option<Instant>,
    /// The place up to which it may take the log although it is beyond the hard limit.
    large_end: Option<u64>,
}

impl Lag {
    /// A log that ends at `end` now and has been sent up to `place`.
    pub fn from(end: u64, place: u64) -> Lag {
        Lag { looked: Instant::now(), end, place, soft_since: None, large_end: None }
    }

    /// Looks, if it is time: the log ends at `end`, and all up to `place` has been sent.
    ///
    /// # Errors
    /// The replica is too far behind.
    pub fn look(&mut self, settings: &Settings, end: u64, place: u64) -> Result<(), String> {
        if self.looked.elapsed() < LOOK_PERIOD {
            return Ok(());
        }
        let (lag, taken) = (self.end.saturating_sub(place), place.saturating_sub(self.place));
        let end_then = std::mem::replace(&mut self.end, end);
        (self.looked, self.place) = (Instant::now(), place);
        let limit = output_limits(&settings.text(const { id("client-output-buffer-limit") }))[REPLICA];
        let is_beyond = |limit: u64| limit > 0 && lag > limit;
        if !is_beyond(limit.soft) {
            self.soft_since = None;
        } else {
            self.soft_since.get_or_insert_with(Instant::now);
        }
        let soft_time = Duration::from_secs(limit.soft_seconds);
        if !is_beyond(limit.hard) {
            self.large_end = None;
        }
        let is_too_slow = is_beyond(limit.hard)
            && (taken < limit.hard / TAKEN_SHARE || place >= *self.large_end.get_or_insert(end_then));
        if is_too_slow || self.soft_since.is_some_and(|since| since.elapsed() > soft_time) {
            return Err(format!(
                "it is {lag} bytes behind, which is beyond client-output-buffer-limit replica"
            ));
        }
        Ok(())
    }
}
