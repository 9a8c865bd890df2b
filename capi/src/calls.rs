//! Calls by their arguments: at once, many, waiting; and what is heard.
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

use polder_engine::Answer;

use crate::memory::{polder_caller, polder_heard};
use crate::reply::{Kept, lay_out, polder_reply};
use crate::status::polder_status::{self, POLDER_WAITING};
use crate::status::{Done, Failure, guarded, misuse};
use crate::text::{give, polder_text, words};
use crate::threads::{self, lend};

/// Where a function writes its reply.
type Out = *mut *const polder_reply;

fn arguments<'c>(
    count: usize,
    args: *const polder_text,
    more_count: usize,
    more: *const polder_text,
) -> Done<Vec<&'c [u8]>> {
    let mut all = words(args, count)?;
    all.extend(words(more, more_count)?);
    Ok(all)
}

fn answer(kept: impl FnOnce() -> Kept, reply: Out) -> Done {
    if !reply.is_null() {
        give(reply, threads::keep(kept())?);
    }
    Ok(())
}

fn clear(reply: Out) {
    give(reply, std::ptr::null());
}

fn waits<T>() -> Done<T> {
    Err(Failure(POLDER_WAITING, "ERR the call waits".into()))
}

/// Runs a call, the command's name first. `reply` gets the reply, to be released; NULL if it is not wanted. A call that waits (BLPOP) blocks the
/// thread. If the command replies with an error, the function returns POLDER_REFUSED and gives no reply.
#[unsafe(no_mangle)]
pub extern "C" fn polder_run(
    caller: polder_caller,
    count: usize,
    args: *const polder_text,
    reply: *mut *const polder_reply,
) -> polder_status {
    polder_run_more(caller, count, args, 0, std::ptr::null(), reply)
}

/// As `polder_run`, with further arguments behind the first ones.
#[unsafe(no_mangle)]
pub extern "C" fn polder_run_more(
    caller: polder_caller,
    count: usize,
    args: *const polder_text,
    more_count: usize,
    more: *const polder_text,
    reply: *mut *const polder_reply,
) -> polder_status {
    guarded(|| {
        clear(reply);
        let args = arguments(count, args, more_count, more)?;
        lend(caller.handle, |door| {
            if reply.is_null() {
                return Ok(door.caller.show(&args, |_| ())?);
            }
            let said = door.caller.run(&args)?;
            answer(|| Kept::one(said), reply)
        })
    })
}

/// Releases a reply with all its parts. What was released already is told (POLDER_MISUSE) and does no harm.
#[unsafe(no_mangle)]
pub extern "C" fn polder_release(reply: *const polder_reply) -> polder_status {
    guarded(|| if reply.is_null() { Ok(()) } else { threads::release(reply) })
}

/// Adds a call to the caller's batch. The arguments are copied.
#[unsafe(no_mangle)]
pub extern "C" fn polder_batch_add(
    caller: polder_caller,
    count: usize,
    args: *const polder_text,
) -> polder_status {
    guarded(|| {
        let args = arguments(count, args, 0, std::ptr::null())?;
        lend(caller.handle, |door| {
            door.batch.add(&args);
            Ok(())
        })
    })
}

/// Runs the calls of the batch, their cache misses taken together, and empties it. The reply is an array of theirs, errors among them. With
/// `atomically` they are one transaction: all or none, with no other call between them; the reply is NULL when a watched key has changed.
#[unsafe(no_mangle)]
pub extern "C" fn polder_batch_run(
    caller: polder_caller,
    atomically: c_int,
    reply: *mut *const polder_reply,
) -> polder_status {
    guarded(|| {
        clear(reply);
        lend(caller.handle, |door| {
            let batch = std::mem::take(&mut door.batch);
            let kept = match atomically {
                0 => Kept::all(door.caller.run_batch(&batch)?),
                _ => Kept::one(door.caller.run_atomically(&batch)?),
            };
            door.batch = batch;
            door.batch.clear();
            answer(|| kept, reply)
        })
    })
}

/// Empties the batch.
#[unsafe(no_mangle)]
pub extern "C" fn polder_batch_clear(caller: polder_caller) -> polder_status {
    guarded(|| {
        lend(caller.handle, |door| {
            door.batch.clear();
            Ok(())
        })
    })
}

fn progressed(answered: Option<Answer>, reply: Out) -> Done {
    match answered {
        Some(said) => answer(|| Kept::one(said), reply),
        None => waits(),
    }
}

/// Begins a call without blocking the thread; POLDER_WAITING: it waits. `polder_resume` goes on with it when the descriptor is readable, or when its
/// timeout has passed. The descriptor does not become readable in two cases: when a CLIENT PAUSE ends, and when the process whose turn it is has
/// stopped. So call `polder_resume` at least once a second.
#[unsafe(no_mangle)]
pub extern "C" fn polder_start(
    caller: polder_caller,
    count: usize,
    args: *const polder_text,
    reply: *mut *const polder_reply,
) -> polder_status {
    guarded(|| {
        clear(reply);
        let args = arguments(count, args, 0, std::ptr::null())?;
        lend(caller.handle, |door| progressed(door.caller.start(&args)?, reply))
    })
}

/// Goes on with a call that was begun: POLDER_WAITING says that it still waits.
#[unsafe(no_mangle)]
pub extern "C" fn polder_resume(caller: polder_caller, reply: *mut *const polder_reply) -> polder_status {
    guarded(|| {
        clear(reply);
        lend(caller.handle, |door| progressed(door.caller.resume()?, reply))
    })
}

/// Ends a call that was begun and waits.
#[unsafe(no_mangle)]
pub extern "C" fn polder_cancel(caller: polder_caller) -> polder_status {
    guarded(|| lend(caller.handle, |door| Ok(door.caller.cancel()?)))
}

/// Calls `heard` for each message that has come for the caller (after SUBSCRIBE, CLIENT TRACKING, MONITOR), and waits at most `timeout_ms` for one to
/// come. `heard_count` (may be NULL) gets how many there were. `heard` may use other callers, but not this one.
#[unsafe(no_mangle)]
pub extern "C" fn polder_hear(
    caller: polder_caller,
    timeout_ms: u64,
    heard: polder_heard,
    context: *mut c_void,
    heard_count: *mut usize,
) -> polder_status {
    guarded(|| {
        give(heard_count, 0);
        let Some(heard) = heard else { return misuse("NULL where the callback should be") };
        lend(caller.handle, |door| {
            let mut nodes = Vec::new();
            let count = door.caller.hear(Duration::from_millis(timeout_ms), |message| {
                lay_out(&mut nodes, message);
                // SAFETY: C1, a function that takes these.
                unsafe { heard(context, nodes.as_ptr()) };
            })?;
            give(heard_count, count);
            Ok(())
        })
    })
}

/// A file descriptor that is readable when a message has come for a caller of this thread, or a call that was begun can go on. Then look at all callers
/// of the thread (`polder_hear` with a timeout of 0, `polder_resume`). It is level-triggered, must not be read, and is closed with the caller.
#[unsafe(no_mangle)]
pub extern "C" fn polder_descriptor(caller: polder_caller, descriptor: *mut c_int) -> polder_status {
    guarded(|| {
        if descriptor.is_null() {
            return misuse("NULL where the descriptor should be written");
        }
        lend(caller.handle, |door| {
            if door.descriptor.is_none() {
                door.descriptor = Some(door.caller.descriptor()?);
            }
            give(descriptor, door.descriptor.as_ref().map_or(-1, AsRawFd::as_raw_fd));
            Ok(())
        })
    })
}
