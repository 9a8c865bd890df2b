//! Crash points: every store to shared memory passes here, so that a test can kill the process at the n-th.
//!
//! In debug builds, or with the feature `crash-points`, a process that has called `arm(n)` is killed by SIGKILL before
//! its n-th store is made. In other builds this is nothing.

#[cfg(any(feature = "crash-points", debug_assertions))]
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

#[cfg(any(feature = "crash-points", debug_assertions))]
pub(crate) use armed::point;
#[cfg(any(feature = "crash-points", debug_assertions))]
pub use armed::{arm, passed};

#[cfg(not(any(feature = "crash-points", debug_assertions)))]
#[inline(always)]
pub(crate) fn point() {}
