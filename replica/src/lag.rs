//! The lag that a replica may have: `client-output-buffer-limit replica`.
//!
//! Only what could have been sent counts: bytes that were in the log at an earlier look and have not been sent since. So one large value closes no
//! replica that takes it. Nor does a copy that is being loaded: a replica counts from its first acknowledgement on.
use std::time::{Duration, Instant};

use polder_calls::settings::value::output_limits;
use polder_calls::settings::{Settings, id};

/// The time between two looks.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// The place of the class among the limits.
const REPLICA: usize = 1;

/// The looks at one replica.
pub struct Lag {
    looked: Instant,
    /// The end of the log at the last look.
    end: u64,
    /// Since when it is beyond the soft limit.
    soft_since: Option<Instant>,
}

impl Lag {
    /// A log that ends at this place now.
    pub fn from(end: u64) -> Lag {
        Lag { looked: Instant::now(), end, soft_since: None }
    }

    /// Looks, if it is time: the log ends at `end`, and all up to `place` has been sent.
    ///
    /// # Errors
    /// The replica is too far behind.
    pub fn look(&mut self, settings: &Settings, end: u64, place: u64) -> Result<(), String> {
        if self.looked.elapsed() < LOOK_PERIOD {
            return Ok(());
        }
        let lag = self.end.saturating_sub(place);
        (self.looked, self.end) = (Instant::now(), end);
        let limit = output_limits(&settings.text(const { id("client-output-buffer-limit") }))[REPLICA];
        let is_beyond = |limit: u64| limit > 0 && lag > limit;
        if !is_beyond(limit.soft) {
            self.soft_since = None;
        } else {
            self.soft_since.get_or_insert_with(Instant::now);
        }
        let soft_time = Duration::from_secs(limit.soft_seconds);
        if is_beyond(limit.hard) || self.soft_since.is_some_and(|since| since.elapsed() > soft_time) {
            return Err(format!(
                "it is {lag} bytes behind, which is beyond client-output-buffer-limit replica"
            ));
        }
        Ok(())
    }
}
