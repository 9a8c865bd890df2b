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

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::class::SLAB_BYTES;
use crate::fork;
use crate::pages::LARGE;
use crate::segment::Segment;

/// This many bytes of nodes come in small pages.
const SMALL_BYTES: u64 = 8 << 20;
/// One block is made ready for every `SHARE` that are in use, within these bounds.
const SHARE: u64 = 16;
const BLOCKS_MIN: u64 = 2;
const BLOCKS_MAX: u64 = 16;
const BLOCK: u64 = LARGE as u64;
/// How long growth waits at most for the thread that makes its block ready; then small pages do.
const PATIENCE: Duration = Duration::from_millis(1);
const NAP: Duration = Duration::from_micros(50);

/// How far this process has made blocks ready.
#[derive(Default)]
pub(crate) struct Ahead {
    /// What lies before this is ready or in use.
    upto: AtomicU64,
    /// Up to where it is wanted.
    goal: AtomicU64,
    /// Blocks before this are not made large.
    from: AtomicU64,
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
    fn has(&self, block: u64) -> bool {
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
    fn begins(&self) -> bool {
        let (worker, ours) = (self.at_work.load(Ordering::SeqCst), fork::generation() + 1);
        self.upto.load(Ordering::Acquire) < self.goal.load(Ordering::SeqCst)
            && worker != ours
            && self.at_work.compare_exchange(worker, ours, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    fn rests(&self) {
        self.at_work.store(0, Ordering::SeqCst);
    }
}

impl Segment {
    /// Has what lies behind what is backed made ready.
    #[cold]
    pub(crate) fn look_ahead(self: &Arc<Segment>) {
        let ahead = self.mapping().ahead();
        let slabs = self.slabs_ready();
        let (end, from) = (self.slab_at(slabs).next_multiple_of(BLOCK), ahead.from.load(Ordering::Relaxed));
        if end + BLOCKS_MIN * BLOCK < from {
            return;
        }
        let begin = end.max(from);
        let blocks = (slabs * SLAB_BYTES / BLOCK / SHARE).clamp(BLOCKS_MIN, BLOCKS_MAX);
        ahead.upto.fetch_max(begin, Ordering::AcqRel);
        ahead.goal.fetch_max(self.mapping().enlargeable(begin, blocks), Ordering::SeqCst);
        if !ahead.begins() {
            return;
        }
        let segment = self.clone();
        let work = move || {
            let mapping = segment.mapping();
            let ahead = mapping.ahead();
            loop {
                let block = ahead.upto.load(Ordering::Acquire);
                if block < ahead.goal.load(Ordering::Acquire) {
                    mapping.enlarge(block);
                    ahead.upto.fetch_max(block + BLOCK, Ordering::AcqRel);
                    continue;
                }
                ahead.rests();
                // More may have been asked for just before.
                if !ahead.begins() {
                    return;
                }
            }
        };
        if !spawned(work) {
            // A thread that needs a block enlarges it by itself.
            ahead.rests();
        }
    }
}

/// Runs `work` in a thread to which no signal is delivered: the process belongs to the embedding
/// program, whose handlers expect other threads.
fn spawned(work: impl FnOnce() + Send + 'static) -> bool {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read; a thread's mask is its own, and it is put back.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let thread = std::thread::Builder::new().name("polder-grow".into()).stack_size(64 << 10).spawn(work);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        thread.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SegmentName, SegmentOptions};

    #[test]
    fn the_block_behind_is_made_ready_once() {
        let name: SegmentName = format!("shm:polder-test-ahead-{}", std::process::id()).parse().expect("a name");
        let segment = Segment::create(&name, &SegmentOptions { ceiling: 64 << 20, ..SegmentOptions::default() }).expect("a segment");
        let end = || segment.slab_at(segment.slabs_ready()).next_multiple_of(BLOCK);
        while end() < segment.slab_at(0) + SMALL_BYTES + BLOCK {
            segment.grow().expect("there is room");
        }
        let block = end();
        let ahead = segment.mapping().ahead();
        assert!(!ahead.has(block));
        segment.look_ahead();
        let large = segment.mapping().enlargeable(block, 1) > block;
        let end = Instant::now() + Duration::from_secs(20);
        while large && !ahead.has(block) && Instant::now() < end {}
        assert_eq!((ahead.has(block), ahead.has(block + BLOCKS_MIN * BLOCK)), (large, false));
        // What is ready is not in use: it is backed when growth comes to it, and is all zeros.
        segment.grow().expect("there is room");
        let last = segment.slab_at(segment.slabs_ready() - 1);
        assert!((last..last + 4096).step_by(8).all(|at| segment.load(at) == 0));
        Segment::remove(&name).expect("it is there");
    }

    #[test]
    fn nothing_is_wanted_behind_the_end() {
        let name: SegmentName = format!("shm:polder-test-ahead-end-{}", std::process::id()).parse().expect("a name");
        let segment = Segment::create(&name, &SegmentOptions { ceiling: 16 << 20, ..SegmentOptions::default() }).expect("a segment");
        while segment.grow().is_ok() {
            segment.look_ahead();
        }
        assert!(!segment.mapping().ahead().has(segment.geometry().ceiling));
        Segment::remove(&name).expect("it is there");
    }
}
