//! Tells a thread whether it still lives in the process in which it took its seat.
//!
//! A fork copies the thread-local seat of the thread that forked, but the seat stays the parent's: two writers in one
//! seat would ruin it (S2). So whoever caches a seat keeps the generation beside it and compares before each use; the
//! child of a fork counts more than its parent did. The comparison is one relaxed load of a static.
//!
//! Seen are all forks that run `pthread_atfork` handlers, that is `fork(3)` and what is built on it. A bare `clone(2)`
//! system call without CLONE_VM runs none; nothing that uses a C library's threads may do that. `vfork` and
//! `posix_spawn` children only exec or exit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static WATCHING: AtomicBool = AtomicBool::new(false);

/// Begins to count forks. Each mapping calls it when it is made, before any seat can be taken.
///
/// Not a `Once`: a thread that forks while another one is inside it would leave its child waiting for ever, for a thread
/// that the child does not have. Two threads that come first both register, which only makes a child count more.
pub fn watch() {
    if WATCHING.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the handler is a plain function that only touches an atomic, which is allowed after a fork; glibc
    // forgets it by itself when a library that holds it is unloaded.
    let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // It fails only when a few bytes cannot be had. To go on would let a child write into its parent's seat.
    assert_eq!(failed, 0, "no memory to watch for forks");
    WATCHING.store(true, Ordering::Release);
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A number that differs between a process and its forked children, and never changes within one.
#[inline]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_counts_more_than_its_parent() {
        watch();
        watch();
        let before = generation();
        // SAFETY: the child calls nothing but an atomic load and _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let ok = generation() > before;
            // SAFETY: leaves at once, without running the parent's exit handlers.
            unsafe { libc::_exit(if ok { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        assert_eq!(generation(), before);
    }
}
