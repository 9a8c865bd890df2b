//! What each thread has: its callers and the replies that it has not released.
//!
//! ```text
//!   handle of a caller = number of the thread (24 bits) | serial number (40 bits), never used twice
//! ```
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
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
    /// `None` while one is in use (C3).
    doors: Vec<(u64, Option<Box<Door>>)>,
    replies: HashMap<usize, Kept>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        // The thread ends, and with it all that it could be told: its seat's end says so to everybody.
        self.doors.drain(..).filter_map(|(_, door)| door).for_each(|door| door.caller.abandon());
    }
}

thread_local! {
    static THREAD: RefCell<Thread> =
        RefCell::new(Thread { number: THREADS.fetch_add(1, Ordering::Relaxed), doors: Vec::new(), replies: HashMap::new() });
}

fn with<R>(work: impl FnOnce(&mut Thread) -> R) -> Done<R> {
    THREAD.try_with(|thread| work(&mut thread.borrow_mut())).or_else(|_| misuse("the thread ends"))
}

/// Enters a caller of this thread; answers its handle.
pub(crate) fn enter(caller: Caller) -> Done<u64> {
    let serial = SERIALS.fetch_add(1, Ordering::Relaxed) & ((1 << SERIAL_BITS) - 1);
    with(|thread| {
        let handle = thread.number << SERIAL_BITS | serial;
        thread.doors.push((handle, Some(Box::new(Door { caller, batch: Batch::new(), descriptor: None }))));
        handle
    })
}

/// Takes a caller out of the registry for good.
pub(crate) fn leave(handle: u64) -> Done<Box<Door>> {
    let door = take(handle)?;
    with(|thread| thread.doors.retain(|(known, _)| *known != handle))?;
    Ok(door)
}

fn take(handle: u64) -> Done<Box<Door>> {
    take_at(handle).map(|(_, door)| door)
}

/// Takes a caller out of its place, which is answered too.
fn take_at(handle: u64) -> Done<(usize, Box<Door>)> {
    with(|thread| match thread.doors.iter_mut().enumerate().find(|(_, (known, _))| *known == handle) {
        Some((at, (_, door))) => match door.take() {
            Some(door) => Ok((at, door)),
            None => misuse("this caller is in use: its own callback may not call it"),
        },
        None if handle >> SERIAL_BITS != thread.number && handle >> SERIAL_BITS != 0 => {
            Err(Failure(POLDER_WRONG_THREAD, "ERR this caller is another thread's: open one in each thread".into()))
        }
        None => Err(Failure(POLDER_CLOSED, "ERR there is no such caller: it has been closed".into())),
    })?
}

/// Uses a caller of this thread. One that panics is not put back.
#[inline]
pub(crate) fn lend<R>(handle: u64, work: impl FnOnce(&mut Door) -> Done<R>) -> Done<R> {
    /// Forgets the caller, unless it is put back.
    struct Lent(u64);
    impl Drop for Lent {
        fn drop(&mut self) {
            let _ = with(|thread| thread.doors.retain(|(known, _)| *known != self.0));
        }
    }
    let (at, mut door) = take_at(handle)?;
    let lent = Lent(handle);
    let done = work(&mut door);
    std::mem::forget(lent);
    with(|thread| {
        // A callback may have closed others, so that it stands elsewhere now.
        let place = match thread.doors.get_mut(at) {
            Some((known, place)) if *known == handle => Some(place),
            _ => thread.doors.iter_mut().find(|(known, _)| *known == handle).map(|(_, place)| place),
        };
        if let Some(place) = place {
            *place = Some(door);
        }
    })?;
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
