//! The thread that makes the next blocks of a segment ready ([`crate::ahead`] says which).

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::ahead::BLOCK;
use crate::class::SLAB_BYTES;
use crate::segment::Segment;

/// One block is made ready for every `SHARE` that are in use, within these bounds.
const SHARE: u64 = 16;
const BLOCKS_MIN: u64 = 2;
const BLOCKS_MAX: u64 = 16;

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
    use std::time::{Duration, Instant};

    use super::*;
    use crate::ahead::SMALL_BYTES;
    use crate::{SegmentName, SegmentOptions};

    #[test]
    fn the_block_behind_is_made_ready_once() {
        let name: SegmentName =
            format!("shm:polder-test-ahead-{}", std::process::id()).parse().expect("a name");
        let segment =
            Segment::create(&name, &SegmentOptions { ceiling: 64 << 20, ..SegmentOptions::default() })
                .expect("a segment");
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
        let name: SegmentName =
            format!("shm:polder-test-ahead-end-{}", std::process::id()).parse().expect("a name");
        let segment =
            Segment::create(&name, &SegmentOptions { ceiling: 16 << 20, ..SegmentOptions::default() })
                .expect("a segment");
        while segment.grow().is_ok() {
            segment.look_ahead();
        }
        assert!(!segment.mapping().ahead().has(segment.geometry().ceiling));
        Segment::remove(&name).expect("it is there");
    }
}
