//! The next blocks of memory, made large pages before a call needs them.
//!
//! Backing 2 MiB by one page costs 94 us on the machine of ANCHORS, and 1.8 to 2.4 ms in a virtual
//! machine whose own memory is not there yet. That is the longest of all calls that write. So a
//! thread that has grown the segment starts another thread that enlarges the blocks that come next,
//! and then ends. Extents grow at about the same time all over a table, so several blocks are
//! prepared where much is used.
//!
//! The first 8 MiB stay small pages, which the processor's address cache still reaches. So a small
//! segment, and a test that makes a thousand segments, pay nothing for pages that they do not need.
//!
//! This is a hint. These blocks belong to no thread and are asked for again when they are needed.
//! If the thread dies or fails, the blocks come in small pages. A block that is needed before it is
//! ready comes in small pages, too. Another process that gets there first finds pages that are
//! large already.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::fork;
use crate::pages::LARGE;

/// This many bytes of nodes come in small pages.
pub(crate) const SMALL_BYTES: u64 = 8 << 20;
/// Bytes of a block.
pub(crate) const BLOCK: u64 = LARGE as u64;
/// How long growth waits at most for the thread that makes its block ready; then small pages do.
const PATIENCE: Duration = Duration::from_millis(1);
const NAP: Duration = Duration::from_micros(50);

/// How far this process has made blocks ready.
#[derive(Default)]
pub(crate) struct Ahead {
    /// What lies before this is ready or in use.
    pub(crate) upto: AtomicU64,
    /// Up to where it is wanted.
    pub(crate) goal: AtomicU64,
    /// Blocks before this are not made large.
    pub(crate) from: AtomicU64,
    /// The generation of the process that has a thread at work, plus one. A forked child has no
    /// such thread.
    at_work: AtomicU64,
}

impl Ahead {
    /// Says where nodes begin.
    pub(crate) fn begin_at(&self, slabs_at: u64) {
        self.from.store((slabs_at + SMALL_BYTES).next_multiple_of(BLOCK), Ordering::Relaxed);
    }

    /// Whether growth is to make this block a large page by itself.
    pub(crate) fn wants(&self, block: u64) -> bool {
        if block < self.from.load(Ordering::Relaxed) || self.has(block) {
            return false;
        }
        let is_behind = self.is_at_work();
        if is_behind {
            self.upto.fetch_max(block + BLOCK, Ordering::AcqRel);
        }
        !is_behind
    }

    fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Acquire) == fork::generation() + 1
    }

    /// Whether a block has been made ready; it is waited for if that is under way.
    pub(crate) fn has(&self, block: u64) -> bool {
        let is_ready = || block < self.upto.load(Ordering::Acquire);
        if !is_ready() && block < self.goal.load(Ordering::Acquire) {
            let end = Instant::now() + PATIENCE;
            while !is_ready() && self.is_at_work() && Instant::now() < end {
                std::thread::sleep(NAP);
            }
        }
        is_ready()
    }

    /// Whether no thread is at work and there is work. The thread that gets true does it.
    ///
    /// SYNC: a thread that asks for more raises the goal and then looks whether a worker is at
    /// work. The worker stores that it rests and then looks at the goal. So one of the two sees the
    /// other.
    pub(crate) fn begins(&self) -> bool {
        let (worker, ours) = (self.at_work.load(Ordering::SeqCst), fork::generation() + 1);
        self.upto.load(Ordering::Acquire) < self.goal.load(Ordering::SeqCst)
            && worker != ours
            && self.at_work.compare_exchange(worker, ours, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn rests(&self) {
        self.at_work.store(0, Ordering::SeqCst);
    }
}
