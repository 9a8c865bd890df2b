//! Crash points: every store to shared memory passes here, so that a test can kill the process at the n-th.
//!
//! With the feature `crash-points` the environment variable `POLDER_CRASH_AT=n` (or [`arm`]) makes the n-th store
//! of this process its last: it is killed by SIGKILL before the store is made. Without the feature this is nothing.

#[cfg(feature = "crash-points")]
mod armed {
    use std::sync::atomic::{AtomicU64, Ordering};

    static LEFT: AtomicU64 = AtomicU64::new(0);
    static PASSED: AtomicU64 = AtomicU64::new(0);

    /// The `n`-th store from now is never made; 0 disarms.
    pub fn arm(n: u64) {
        LEFT.store(n, Ordering::Relaxed);
    }

    /// Stores made since the process began.
    pub fn passed() -> u64 {
        PASSED.load(Ordering::Relaxed)
    }

    pub(crate) fn point() {
        PASSED.fetch_add(1, Ordering::Relaxed);
        if LEFT.load(Ordering::Relaxed) != 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
            // SAFETY: kill and getpid have no preconditions; SIGKILL ends this process here.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            loop {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(feature = "crash-points")]
pub(crate) use armed::point;
#[cfg(feature = "crash-points")]
pub use armed::{arm, passed};

#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub(crate) fn point() {}
