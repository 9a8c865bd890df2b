//! Whether a thread lives, as the kernel knows it: a robust mutex that a thread takes once and keeps until it dies.
//!
//! A thread that takes a robust, process-shared mutex puts it on a list that the kernel knows. When the thread ends
//! without having released it, by exit, exec, `kill -9` or a crash of its process, the kernel walks the list and marks
//! each word: dead. So the question "is the owner of this seat alive?" costs one load and is never wrong:
//!
//! - No process id is compared, so ids that are used again and PID namespaces (containers) do not matter.
//! - A stopped thread is alive, and a forked child does not inherit what its parent holds.
//! - A thread that takes a dead liveness lock becomes its owner in the same step. So of several recoverers only one works. If
//!   that one dies, too, the word is marked dead again, and the next thread can take it.
//!
//! # What is relied on
//!
//! The mutex is glibc's (`pthread_mutex_t` on 64-bit Linux), taken and released by its functions alone. Only for
//! looking are two fields read directly, both part of an ABI that glibc cannot change for existing programs:
//!
//! ```text
//!   OFFSET SIZE
//!        0    4   lock: thread id of the owner | 0x40000000 owner died | 0x80000000 others wait; 0 is free
//!       16    4   kind: 16 (robust, normal) | 128 (process-shared) = 144
//!       24   16   the owner's list of robust mutexes: addresses in the owner's own process
//! ```
//!
//! The kernel's part of this (the lock word, the list) is its robust futex ABI. [`KIND`] and the offsets are checked by
//! the tests against a mutex that glibc made, in its free, held and dead states. The kind is *normal* and not
//! *error-checking*, since two threads of different PID namespaces can have the same thread id, and an error-checking
//! mutex would take one for the other.
//!
//! # What it never does
//!
//! It never waits. It never trusts a damaged segment: a liveness lock whose kind is not [`KIND`] is [`Taken::Damaged`], and no
//! pthread function is called on it. One thing it cannot survive: a wild store of another process into the list fields of a
//! *live* owner. glibc follows these fields when the owner releases, so every process that may attach is trusted.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering;

use crate::sync::Half;

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
compile_error!("the layout of a liveness lock is that of glibc's mutex on 64-bit Linux");

/// What glibc writes into the kind field of a robust, process-shared, normal mutex.
pub const KIND: u32 = 16 | 128;

const LOCK_AT: usize = 0;
const KIND_AT: usize = 16;

/// The lock word's bits that name the owner.
const OWNER: u32 = libc::FUTEX_TID_MASK;

/// Whether a liveness lock whose first word this is has an owner that lives.
pub(crate) fn is_held(first: u64) -> bool {
    first as u32 & OWNER != 0
}

/// A place in the segment in which the kernel notes the death of the thread that took it. Any bytes are a valid one.
#[repr(C, align(64))]
pub struct LivenessLock {
    bytes: UnsafeCell<[u8; 64]>,
}

const _: () = {
    assert!(size_of::<LivenessLock>() == 64);
    assert!(size_of::<libc::pthread_mutex_t>() <= size_of::<LivenessLock>());
    assert!(align_of::<libc::pthread_mutex_t>() <= align_of::<LivenessLock>());
};

// SAFETY: all access goes through pthread functions or atomic loads, which is what a process-shared mutex is for.
unsafe impl Sync for LivenessLock {}
// SAFETY: a liveness lock is bytes; which thread it belongs to is the kernel's knowledge and not the reference's.
unsafe impl Send for LivenessLock {}

/// What an attempt to take a liveness lock gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Ours now; its last owner released it in order.
    Fresh,
    /// Ours now; its last owner died. Recover what it left, then [`LivenessLock::settle`].
    Dead,
    /// A living thread has it, perhaps this one.
    Busy,
    /// This is no liveness lock that can be taken: never made, overwritten, or released while unsettled. Only
    /// [`LivenessLock::init`] makes it whole, and only the recovery of the whole segment may call that.
    Damaged,
}

/// What a look at a liveness lock shows. It may be outdated when the caller uses it, except that [`Life::Dead`] stays true until
/// a thread takes the liveness lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// No thread has it.
    Free,
    /// Its owner died, and no thread has taken it since.
    Dead,
    /// A thread has it, known by this id in its own PID namespace (good for messages only).
    Held(u32),
}

impl LivenessLock {
    /// The liveness lock at an address.
    ///
    /// # Safety
    /// 64 aligned bytes there belong to a liveness lock, or are going to be made one by [`LivenessLock::init`], for as long as `'a`.
    pub(crate) unsafe fn at<'a>(address: *mut u8) -> &'a LivenessLock {
        // SAFETY: the caller's promise; all access is by atomics and pthread functions.
        unsafe { &*address.cast() }
    }

    /// Makes a free liveness lock of whatever was here.
    ///
    /// # Safety
    /// No other thread may use this liveness lock meanwhile, and no living thread may hold it, since a mutex that is on a list would be
    /// overwritten. Both hold in a segment that has no name yet, and after a reboot.
    pub unsafe fn init(&self) {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the attributes are made before they are used and destroyed after; the mutex has room (const assert
        // above) and is ours alone (the caller's promise). These calls fail only for values that they do not know.
        let made = unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            let shared =
                libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
            let robust =
                libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            ptr::write_bytes(self.bytes.get(), 0, 1);
            let init = libc::pthread_mutex_init(self.mutex(), attributes.as_ptr());
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
            [shared, robust, init]
        };
        assert_eq!(made, [0; 3], "the C library has no robust shared mutexes");
        assert_eq!(
            self.word(KIND_AT).load(Ordering::Relaxed),
            KIND,
            "the C library's mutex has another layout"
        );
    }

    /// Takes the liveness lock for the calling thread if its owner is dead or there is none; never waits.
    ///
    /// # Safety
    /// If it becomes ours, the memory must stay mapped until this thread has released it or has ended: the C library
    /// and the kernel keep its address on a list.
    pub unsafe fn try_take(&self) -> Taken {
        if self.word(KIND_AT).load(Ordering::Relaxed) != KIND {
            return Taken::Damaged;
        }
        #[cfg(feature = "schedules")]
        if crate::sync::is_scheduled() {
            return match crate::schedules::take_liveness(crate::sync::kernel(self.word(LOCK_AT))) {
                Some(true) => Taken::Dead,
                Some(false) => Taken::Fresh,
                None => Taken::Busy,
            };
        }
        // SAFETY: the kind is one for which trylock neither waits nor asserts, whatever the other fields hold; it
        // writes the list fields before anything reads them. The caller keeps the memory mapped.
        match unsafe { libc::pthread_mutex_trylock(self.mutex()) } {
            0 => Taken::Fresh,
            libc::EOWNERDEAD => Taken::Dead,
            libc::EBUSY => Taken::Busy,
            _ => Taken::Damaged,
        }
    }

    /// Says that what the dead owner left has been recovered: from now on the liveness lock is like one taken fresh. If we
    /// die before this call, the next one finds it [`Taken::Dead`] again.
    ///
    /// # Safety
    /// The calling thread holds it, from a [`LivenessLock::try_take`] that gave [`Taken::Dead`].
    pub unsafe fn settle(&self) {
        #[cfg(feature = "schedules")]
        if crate::sync::is_scheduled() {
            return crate::schedules::settle_liveness(crate::sync::kernel(self.word(LOCK_AT)));
        }
        // SAFETY: the mutex is ours and inconsistent, as the caller promises.
        let refused = unsafe { libc::pthread_mutex_consistent(self.mutex()) };
        debug_assert_eq!(refused, 0, "settled a liveness lock that was not dead");
    }

    /// Gives the liveness lock back in order. One that is unsettled must be settled first, or else it can never be taken again.
    ///
    /// # Safety
    /// The calling thread holds it.
    pub unsafe fn release(&self) {
        #[cfg(feature = "schedules")]
        if crate::sync::is_scheduled() {
            return crate::schedules::release_liveness(crate::sync::kernel(self.word(LOCK_AT)));
        }
        // SAFETY: the mutex is ours, as the caller promises, so that its neighbours on the list are our own, too.
        let refused = unsafe { libc::pthread_mutex_unlock(self.mutex()) };
        debug_assert_eq!(refused, 0, "released a liveness lock that another thread holds");
    }

    /// Whether no living thread has it. One load; false for a word that is damaged in a way that looks held.
    #[inline]
    pub fn is_dead_or_free(&self) -> bool {
        // SYNC: liveness-death. A thread that acts on the result takes the liveness lock first, which makes visible all that the dead thread wrote.
        self.word(LOCK_AT).load(Ordering::Acquire) & OWNER == 0
    }

    /// Which thread has it, as far as can be seen without taking it.
    pub fn life(&self) -> Life {
        match self.word(LOCK_AT).load(Ordering::Acquire) {
            word if word & OWNER != 0 => Life::Held(word & OWNER),
            word if word & libc::FUTEX_OWNER_DIED != 0 => Life::Dead,
            _ => Life::Free,
        }
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.bytes.get().cast()
    }

    fn word(&self, at: usize) -> &Half {
        debug_assert!(at + 4 <= size_of::<LivenessLock>() && at.is_multiple_of(4));
        // SAFETY: the place is inside this liveness lock and aligned, and lives as long as the reference to it.
        unsafe { Half::from_ptr(self.bytes.get().cast::<u8>().add(at).cast()) }
    }
}
