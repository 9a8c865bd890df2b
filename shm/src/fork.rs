//! Tells a thread whether it still lives in the process in which it took its seat.
//!
//! A fork copies the thread-local seat of the thread that forked, but the seat stays the parent's:
//! two writers in one seat would ruin it (S2). So code that caches a seat keeps the generation
//! beside it and compares before each use. The child of a fork has a higher generation than its
//! parent. The comparison is one relaxed load of a static.
//!
//! Seen are all forks that run `pthread_atfork` handlers, that is `fork(3)` and what is built on it. A bare `clone(2)`
//! system call without CLONE_VM runs none; nothing that uses a C library's threads may do that. `vfork` and
//! `posix_spawn` children only exec or exit.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static WATCHING: AtomicBool = AtomicBool::new(false);
/// Threads that hold a [`Shelter`] or want one, and forks that are under way.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static FORKING: AtomicUsize = AtomicUsize::new(0);
/// How long a fork waits for them at most. None is held for long, and a program that cannot fork is
/// worse off than a child that may wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// Begins to count forks. Each mapping calls it when it is made, before any seat can be taken.
///
/// Not a `Once`: a thread that forks while another one is inside it would leave its child waiting for ever, for a thread
/// that the child does not have. Two threads that come first both register, which only makes a child count more.
pub fn watch() {
    if WATCHING.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the handlers are plain functions; that of the child only touches atomics, which is allowed after a fork; glibc
    // forgets them by itself when a library that holds it is unloaded.
    let failed = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    // It fails only when a few bytes cannot be had. To go on would let a child write into its parent's seat.
    assert_eq!(failed, 0, "no memory to watch for forks");
    WATCHING.store(true, Ordering::Release);
}

extern "C" fn before() {
    // SYNC: shelter. Either an entering thread sees that a fork is under way, or the fork sees that
    // a thread is inside.
    FORKING.fetch_add(1, Ordering::SeqCst);
    let began = Instant::now();
    while INSIDE.load(Ordering::SeqCst) > 0 && began.elapsed() < PATIENCE {
        thread::yield_now();
    }
}

extern "C" fn in_parent() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

extern "C" fn in_child() {
    FORKING.store(0, Ordering::SeqCst);
    INSIDE.store(0, Ordering::SeqCst);
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A number that differs between a process and its forked children, and never changes within one.
#[inline]
pub fn generation() -> u64 {
    // To tell seats apart, a thread of a schedule is like a process.
    #[cfg(feature = "schedules")]
    if crate::sync::is_scheduled() {
        return 1 + crate::schedules::thread() as u64;
    }
    GENERATION.load(Ordering::Relaxed)
}

/// Something of this process that its threads share, under a lock that no fork leaves locked: a
/// fork waits until no thread is inside. To be held for a moment, never inside another one, and
/// never while code may run that forks.
#[derive(Default)]
pub struct Shelter<T>(Mutex<T>);

/// Holds a [`Shelter`].
pub struct Sheltered<'s, T> {
    // Given up first: behind it, a fork may happen.
    guard: MutexGuard<'s, T>,
    _inside: Inside,
}

struct Inside;

impl Inside {
    fn enter() -> Inside {
        loop {
            // SYNC: shelter.
            INSIDE.fetch_add(1, Ordering::SeqCst);
            if FORKING.load(Ordering::SeqCst) == 0 {
                return Inside;
            }
            INSIDE.fetch_sub(1, Ordering::SeqCst);
            thread::yield_now();
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<T> Shelter<T> {
    pub const fn new(inner: T) -> Shelter<T> {
        Shelter(Mutex::new(inner))
    }

    /// Waits for the thread inside, and for a fork that is under way.
    pub fn lock(&self) -> Sheltered<'_, T> {
        let inside = Inside::enter();
        Sheltered { guard: self.0.lock().unwrap_or_else(PoisonError::into_inner), _inside: inside }
    }
}

impl<T> Deref for Sheltered<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Sheltered<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_never_finds_a_shelter_locked() {
        watch();
        static BUSY: Shelter<u64> = Shelter::new(0);
        static OVER: AtomicBool = AtomicBool::new(false);
        let busy = std::thread::spawn(|| {
            while !OVER.load(Ordering::Relaxed) {
                *BUSY.lock() += 1;
            }
        });
        for _ in 0..200 {
            // SAFETY: the child takes a lock that no thread holds, and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                *BUSY.lock() += 1;
                // SAFETY: leaves at once, without running the parent's exit handlers.
                unsafe { libc::_exit(0) };
            }
            let mut status = 0;
            // SAFETY: waits for the child made above.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
        }
        OVER.store(true, Ordering::Relaxed);
        busy.join().expect("it only counts");
    }

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
