//! The time in which a write that has found no memory tries again, since memory is about to come free.

use polder_shm::sync;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long after the last step of a sweep memory may still come free: until then the turns that hold pins end, and the sweeping thread
/// reclaims.
const WINDOW_MS: u64 = 300;
/// The longest time for which a window stays open because other threads free something; after that it stays closed for as long. Without this
/// limit, a write that wants more than there is would go on trying for as long as other threads do anything.
const WINDOW_MS_MAX: u64 = 2000;
/// A pass of compaction keeps a window open for [`WINDOW_MS_MAX`] of CPU time, but at most for this many times as long by the clock, since
/// its thread may be stopped.
const PASS_WAIT: u64 = 10;
/// Milliseconds by the monotonic clock, used within this process only. If a wall clock were set back, a window would stay open, or
/// closed, for that long.
fn ticks_ms() -> u64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(sync::now);
    // So that times of 0 are long ago.
    2 * WINDOW_MS_MAX + (sync::now() - *BEGUN).as_millis() as u64
}

/// The time in which a write tries again: since when there was no success, and until when it lasts.
#[derive(Default)]
pub(crate) struct Window {
    since_ms: AtomicU64,
    until_ms: AtomicU64,
}

impl Window {
    /// Opens it for [`WINDOW_MS`] from now on.
    pub(crate) fn open(&self) {
        self.until_ms.store(ticks_ms() + WINDOW_MS, Ordering::Relaxed);
    }

    /// The same, but not for longer than [`WINDOW_MS_MAX`] unless memory has come free meanwhile.
    pub(crate) fn open_for_a_while(&self) {
        let (now_ms, since_ms) = (ticks_ms(), self.since_ms.load(Ordering::Relaxed));
        if now_ms >= since_ms + 2 * WINDOW_MS_MAX {
            self.since_ms.store(now_ms, Ordering::Relaxed);
            self.open();
        } else if now_ms < since_ms + WINDOW_MS_MAX {
            self.open();
        }
    }

    /// Closes it, since memory has come free.
    pub(crate) fn close(&self) {
        self.since_ms.store(0, Ordering::Relaxed);
        self.until_ms.store(0, Ordering::Relaxed);
    }

    fn is_open(&self) -> bool {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms != 0 && ticks_ms() < until_ms
    }
}

/// What this process knows about memory that is about to come free.
#[derive(Default)]
pub(crate) struct OomRetry {
    /// The flushed databases, and the bytes that wait for readers, at the last look.
    pub(crate) garbage: AtomicU64,
    pub(crate) retired: AtomicU64,
    /// Open because of other threads' work; and because of what the thread itself has retired, which readers do not hold for long unless they
    /// are stopped.
    pub(crate) others: Window,
    pub(crate) own: Window,
}

impl OomRetry {
    /// To be called after a step of a sweep.
    pub fn note_sweep(&self) {
        self.others.open();
    }

    /// To be called while a pass of compaction goes on; it frees slabs for other sizes of nodes and ends by itself. The limit counts CPU time:
    /// on a busy machine, [`WINDOW_MS_MAX`] of wall time could end before the pass has moved anything.
    pub fn note_pass(&self, worked: Duration, lasts: Duration) {
        if worked.as_millis() < WINDOW_MS_MAX.into() && lasts.as_millis() < (PASS_WAIT * WINDOW_MS_MAX).into()
        {
            self.others.open();
        } else {
            self.others.open_for_a_while();
        }
    }

    /// To be called when other threads have freed something.
    pub fn note_others(&self) {
        self.others.open_for_a_while();
    }

    /// Whether memory may still come free from steps of a sweep, or from what this thread has retired.
    pub fn is_worthwhile(&self) -> bool {
        self.others.is_open() || self.own.is_open()
    }
}
