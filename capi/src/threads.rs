//! What each thread has: its callers and the replies that it has not released.
//!
//! ```text
//!   handle of a caller = number of the thread (24 bits) | serial number (40 bits), never used twice
//! ```
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_engine::{Batch, Caller};

use crate::reply::{Kept, polder_reply};
use crate::status::polder_status::{POLDER_CLOSED, POLDER_WRONG_THREAD};
use crate::status::{Done, Failure, misuse};

const SERIAL_BITS: u32 = 40;
static THREADS: AtomicU64 = AtomicU64::new(1);
static SERIALS: AtomicU64 = AtomicU64::new(1);

/// A caller with what C has put down for it.
pub(crate) struct Door {
    pub caller: Caller,
    pub batch: Batch,
    pub descriptor: Option<OwnedFd>,
}

struct Thread {
    number: u64,
    /// Borrowed while one is in use (C3), and counted, so that the registry is entered once a call.
    doors: Vec<(u64, Rc<RefCell<Door>>)>,
    replies: HashMap<usize, Kept>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        LAST.set((0, std::ptr::null()));
        // The thread ends, and its callers receive nothing any more. The end of its seat tells the other processes.
        self.doors
            .drain(..)
            .filter_map(|(_, door)| Rc::into_inner(door))
            .for_each(|door| door.into_inner().caller.abandon());
    }
}

thread_local! {
    static THREAD: RefCell<Thread> =
        RefCell::new(Thread { number: THREADS.fetch_add(1, Ordering::Relaxed), doors: Vec::new(), replies: HashMap::new() });
}

thread_local! {
    /// The caller that was lent last, by its handle: nearly always the next one, too. One of [`THREAD`]'s, or none.
    static LAST: Cell<(u64, *const RefCell<Door>)> = const { Cell::new((0, std::ptr::null())) };
}

/// Uses the caller that was lent last, if it is this one and not in use. `work` runs nothing of C's, and cannot panic.
#[inline(always)]
pub(crate) fn lend_again<R>(handle: u64, work: impl FnOnce(&mut Door) -> Option<R>) -> Option<R> {
    let (last, door) = LAST.get();
    if last != handle || last == 0 {
        return None;
    }
    // SAFETY: C4, what LAST names lies in an `Rc` of this thread's registry; a function that takes that out clears LAST first.
    let door = unsafe { &*door };
    work(&mut *door.try_borrow_mut().ok()?)
}

fn with<R>(work: impl FnOnce(&mut Thread) -> R) -> Done<R> {
    THREAD.try_with(|thread| work(&mut thread.borrow_mut())).or_else(|_| misuse("the thread ends"))
}

/// Enters a caller of this thread; returns its handle.
pub(crate) fn enter(caller: Caller) -> Done<u64> {
    let serial = SERIALS.fetch_add(1, Ordering::Relaxed) & ((1 << SERIAL_BITS) - 1);
    with(|thread| {
        let handle = thread.number << SERIAL_BITS | serial;
        thread
            .doors
            .push((handle, Rc::new(RefCell::new(Door { caller, batch: Batch::new(), descriptor: None }))));
        handle
    })
}

/// Takes a caller out of the registry for good.
pub(crate) fn leave(handle: u64) -> Done<Door> {
    let door = find(handle)?;
    if door.try_borrow_mut().is_err() {
        return in_use();
    }
    forget(handle);
    Rc::into_inner(door).map(RefCell::into_inner).map_or_else(in_use, Ok)
}

fn in_use<T>() -> Done<T> {
    misuse("this caller is in use: its own callback may not call it")
}

/// A caller of this thread.
#[inline]
fn find(handle: u64) -> Done<Rc<RefCell<Door>>> {
    with(|thread| match thread.doors.iter().find(|(known, _)| *known == handle) {
        Some((_, door)) => Ok(door.clone()),
        None => unknown(handle, thread.number),
    })?
}

#[cold]
fn unknown<T>(handle: u64, thread: u64) -> Done<T> {
    match handle >> SERIAL_BITS {
        number if number != thread && number != 0 => Err(Failure(
            POLDER_WRONG_THREAD,
            "ERR this caller is another thread's: open one in each thread".into(),
        )),
        _ => Err(Failure(POLDER_CLOSED, "ERR there is no such caller: it has been closed".into())),
    }
}

/// Takes a caller out of the registry, if it is there.
#[cold]
fn forget(handle: u64) {
    LAST.set((0, std::ptr::null()));
    let gone = with(|thread| {
        let at = thread.doors.iter().position(|(known, _)| *known == handle)?;
        Some(thread.doors.swap_remove(at))
    });
    // What ends here may call back into the registry: only behind it.
    drop(gone);
}

/// Uses a caller of this thread. One that panics is not used again.
#[inline]
pub(crate) fn lend<R>(handle: u64, work: impl FnOnce(&mut Door) -> Done<R>) -> Done<R> {
    struct Lent(u64);
    impl Drop for Lent {
        fn drop(&mut self) {
            forget(self.0);
        }
    }
    let door = find(handle)?;
    let Ok(mut lent_door) = door.try_borrow_mut() else { return in_use() };
    let lent = Lent(handle);
    let done = work(&mut lent_door);
    std::mem::forget(lent);
    LAST.set((handle, Rc::as_ptr(&door)));
    done
}

/// Keeps a reply until it is released.
pub(crate) fn keep(kept: Kept) -> Done<*const polder_reply> {
    let root = kept.root();
    with(|thread| thread.replies.insert(root as usize, kept))?;
    Ok(root)
}

/// Releases a reply of this thread.
pub(crate) fn release(root: *const polder_reply) -> Done {
    match with(|thread| thread.replies.remove(&(root as usize)))? {
        Some(_) => Ok(()),
        None => misuse("this is no reply of this thread, or it has been released"),
    }
}
