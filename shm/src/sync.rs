//! The way to the words that other threads read and write, and to time, sleep and pauses: one place, so that a checker can stand in it.
//!
//! Without the feature `schedules` all of this is the standard library's, and costs nothing. With it (tests only), a thread that runs
//! inside of [`schedules`](crate::schedules) lets shuttle choose which thread takes the next step, right before
//! - each access to a [`Word`] or a [`Half`], and
//! - each sleep, pause and look at the clock.
//!
//! All these threads are coroutines of one thread of the system. So the memory itself is sequentially consistent, and what a schedule
//! decides is the order of the steps, and not which barriers that order needs on a machine: the marks `SYNC:` pair those.
//!
//! Never here: what the words mean.

#[cfg(not(feature = "schedules"))]
mod plain {
    use std::sync::atomic::{AtomicU32, AtomicU64};
    use std::time::Instant;

    pub use std::hint::spin_loop;
    pub use std::thread::{sleep, yield_now};

    /// A word of a segment.
    pub type Word = AtomicU64;
    /// Half a word, as futexes and liveness locks know it.
    pub type Half = AtomicU32;

    /// What the clock shows.
    #[inline(always)]
    pub fn now() -> Instant {
        Instant::now()
    }

    /// The half as the kernel's calls take it.
    #[inline(always)]
    pub(crate) fn kernel(half: &Half) -> &AtomicU32 {
        half
    }

    /// Whether a checker chooses the schedule.
    #[inline(always)]
    pub(crate) const fn is_scheduled() -> bool {
        false
    }

    /// Whether the code is to be wrong on purpose.
    #[inline(always)]
    pub const fn has(_flaw: crate::flaw::Flaw) -> bool {
        false
    }

    /// Lets a checker choose which thread goes on, before a read that goes past [`Word`].
    #[inline(always)]
    pub fn step() {}

    /// Whether this thread unwinds from a step before which it has died, so that it must not write any more.
    #[inline(always)]
    pub const fn is_dead() -> bool {
        false
    }
}

#[cfg(feature = "schedules")]
mod scheduled {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::time::Duration;

    use crate::schedules::write_step;

    pub(crate) use crate::schedules::is_scheduled;
    pub use crate::schedules::{has, is_dead, now, step, yield_now};

    macro_rules! steps {
        ($(#[$what:meta])* $name:ident, $atomic:ty, $number:ty) => {
            $(#[$what])*
            #[repr(transparent)]
            #[derive(Debug)]
            pub struct $name($atomic);

            #[allow(missing_docs, reason = "those of the standard library")]
            impl $name {
                pub const fn new(value: $number) -> $name {
                    $name(<$atomic>::new(value))
                }

                /// # Safety
                /// As of the standard library's.
                pub const unsafe fn from_ptr<'a>(place: *mut $number) -> &'a $name {
                    // SAFETY: the caller's promise; the representation is that of the number.
                    unsafe { &*place.cast::<$name>() }
                }

                #[inline]
                pub fn load(&self, order: Ordering) -> $number {
                    step();
                    self.0.load(order)
                }

                #[inline]
                pub fn store(&self, value: $number, order: Ordering) {
                    write_step();
                    self.0.store(value, order);
                }

                #[inline]
                pub fn swap(&self, value: $number, order: Ordering) -> $number {
                    write_step();
                    self.0.swap(value, order)
                }

                #[inline]
                pub fn compare_exchange(&self, old: $number, new: $number, done: Ordering, not: Ordering) -> Result<$number, $number> {
                    write_step();
                    self.0.compare_exchange(old, new, done, not)
                }

                /// It does not fail by itself.
                #[inline]
                pub fn compare_exchange_weak(&self, old: $number, new: $number, done: Ordering, not: Ordering) -> Result<$number, $number> {
                    self.compare_exchange(old, new, done, not)
                }

                pub fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                    write_step();
                    self.0.fetch_add(value, order)
                }

                pub fn fetch_or(&self, value: $number, order: Ordering) -> $number {
                    write_step();
                    self.0.fetch_or(value, order)
                }

                pub fn fetch_and(&self, value: $number, order: Ordering) -> $number {
                    write_step();
                    self.0.fetch_and(value, order)
                }

                pub fn fetch_min(&self, value: $number, order: Ordering) -> $number {
                    write_step();
                    self.0.fetch_min(value, order)
                }

                pub fn fetch_max(&self, value: $number, order: Ordering) -> $number {
                    write_step();
                    self.0.fetch_max(value, order)
                }

                /// A load and an exchange, as often as it takes.
                pub fn fetch_update(
                    &self,
                    set: Ordering,
                    fetch: Ordering,
                    mut change: impl FnMut($number) -> Option<$number>,
                ) -> Result<$number, $number> {
                    let mut seen = self.load(fetch);
                    while let Some(next) = change(seen) {
                        match self.compare_exchange(seen, next, set, fetch) {
                            Err(now) => seen = now,
                            done => return done,
                        }
                    }
                    Err(seen)
                }
            }
        };
    }

    steps!(
        /// A word of a segment.
        Word,
        AtomicU64,
        u64
    );
    steps!(
        /// Half a word, as futexes and liveness locks know it.
        Half,
        AtomicU32,
        u32
    );

    impl Word {
        /// A load that is no step: of a word that only this thread writes.
        #[inline]
        pub(crate) fn look(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// The half as the kernel's calls take it: an access to it is no step.
    pub(crate) fn kernel(half: &Half) -> &AtomicU32 {
        &half.0
    }

    /// A pause of a thread that is going to look again.
    pub fn spin_loop() {
        if is_scheduled() { yield_now() } else { std::hint::spin_loop() }
    }

    /// As the standard library's; in a schedule the clock is moved on, and others come first.
    pub fn sleep(time: Duration) {
        if is_scheduled() { crate::schedules::sleep(time) } else { std::thread::sleep(time) }
    }
}

pub use crate::flaw::Flaw;
#[cfg(not(feature = "schedules"))]
pub use plain::{Half, Word, has, is_dead, now, sleep, spin_loop, step, yield_now};
#[cfg(not(feature = "schedules"))]
pub(crate) use plain::{is_scheduled, kernel};
#[cfg(feature = "schedules")]
pub use scheduled::{Half, Word, has, is_dead, now, sleep, spin_loop, step, yield_now};
#[cfg(feature = "schedules")]
pub(crate) use scheduled::{is_scheduled, kernel};

/// Pauses between two attempts: a single step of a schedule.
#[inline(always)]
pub(crate) fn pause(spins: u32) {
    if is_scheduled() {
        return yield_now();
    }
    (0..spins).for_each(|_| std::hint::spin_loop());
}
