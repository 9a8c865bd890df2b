//! Attempts to read one bucket that other threads may be changing.

use polder_base::Fault;
use polder_shm::sync;

/// Attempts to read a bucket before what cannot be read, although nothing changes, counts as damage (S5).
const ATTEMPTS_MAX: u32 = 100_000;
/// Attempts in all, beside others that change it each time: buckets around a damaged one may be in use.
const ATTEMPTS_IN_ALL: u32 = 100 * ATTEMPTS_MAX;
/// Attempts before the thread gives up its turn between them.
const HASTY_MAX: u32 = 100;

/// Attempts to read one bucket, which other threads may be changing.
#[derive(Default)]
pub(crate) struct Attempts {
    /// In all, and those since something has changed.
    all: u32,
    number: u32,
    /// The key and its location at the last attempt.
    signs: u64,
}

impl Attempts {
    /// Counts a failed attempt.
    ///
    /// # Errors
    /// [`Fault::Damaged`] if attempts go on failing and nothing changes meanwhile, or for a very long time.
    pub(crate) fn count(&mut self, signs: impl FnOnce() -> u64) -> Result<(), Fault> {
        self.all += 1;
        self.number += 1;
        if self.number > HASTY_MAX {
            sync::yield_now();
            let signs = signs();
            if std::mem::replace(&mut self.signs, signs) != signs {
                self.number = HASTY_MAX;
            }
        }
        if self.number > ATTEMPTS_MAX || self.all > ATTEMPTS_IN_ALL {
            Err(Fault::Damaged { what: "a bucket" })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_others_go_on_changing_is_not_damaged() {
        let mut attempts = Attempts::default();
        assert!((0..3 * ATTEMPTS_MAX).all(|number| attempts.count(|| u64::from(number / 1000)).is_ok()));
        let failed = (0..=ATTEMPTS_MAX).any(|_| attempts.count(|| 7).is_err());
        assert!(failed, "one that cannot be read although nothing changes is");
    }
}
