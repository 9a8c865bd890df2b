//! Memories and listeners: what any thread may use.
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_engine::{Caller, Listener, Memory, NoSuchUser, Options, Shelter};

use crate::reply::{lay_out, polder_reply};
use crate::status::polder_status::{self, POLDER_CLOSED};
use crate::status::{Done, Failure, guarded, misuse};
use crate::text::{give, polder_text, read, string, words};
use crate::threads;

/// An attached memory. Any thread may use it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_memory {
    pub handle: u64,
}

/// To a memory what a connection is to a server: a database, an open MULTI, subscriptions. The thread that opened it uses it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_caller {
    pub handle: u64,
}

/// A thread of Polder's that listens and calls back. Any thread may stop it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_listener {
    pub handle: u64,
}

/// How to attach. All zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_options {
    /// The most bytes the segment may grow to, where it is made; 0: three quarters of the machine's memory.
    pub ceiling: u64,
    /// Not 0: fails where there is no such segment, and makes none.
    pub only_existing: i32,
    /// The permission bits of a segment that is made; 0: the owner's alone.
    pub mode: u32,
    /// Whose segment is attached, beside those of the process's own user and of root: a user's name or number, or "any"; NULL: no
    /// other user's. The owner of a segment controls each process that attaches it.
    pub owner: *const c_char,
}

/// Is shown a message; `message` lives until it returns.
pub type polder_heard = Option<unsafe extern "C" fn(context: *mut c_void, message: *const polder_reply)>;

static MEMORIES: Shelter<BTreeMap<u64, Arc<Memory>>> = Shelter::new(BTreeMap::new());
static LISTENERS: Shelter<BTreeMap<u64, Listener>> = Shelter::new(BTreeMap::new());
static HANDLES: AtomicU64 = AtomicU64::new(1);

pub(crate) fn memory_of(memory: polder_memory) -> Done<Arc<Memory>> {
    let known = MEMORIES.lock().get(&memory.handle).cloned();
    known.ok_or_else(|| Failure(POLDER_CLOSED, "ERR there is no such memory: it has been detached".into()))
}

/// Attaches a segment ("shm:NAME", "sysv:NAME", "file:PATH"; a bare name means "shm:") and makes it where there is none. `options` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn polder_attach(
    segment: *const c_char,
    options: *const polder_options,
    memory: *mut polder_memory,
) -> polder_status {
    guarded(|| {
        if memory.is_null() {
            return misuse("NULL where the memory's handle should be written");
        }
        let mut how = Options { segment: string(segment)?.into(), ..Options::default() };
        if let [given] = if options.is_null() { &[] } else { read(options, 1)? } {
            how.create = given.only_existing == 0;
            how.ceiling = if given.ceiling == 0 { how.ceiling } else { given.ceiling };
            how.mode = if given.mode == 0 { how.mode } else { given.mode & 0o777 };
            if !given.owner.is_null() {
                how.owner =
                    string(given.owner)?.parse().or_else(|error: NoSuchUser| misuse(&error.to_string()))?;
            }
        }
        let attached = Arc::new(Memory::attach(&how)?);
        let handle = HANDLES.fetch_add(1, Ordering::Relaxed);
        MEMORIES.lock().insert(handle, attached);
        give(memory, polder_memory { handle });
        Ok(())
    })
}

/// Closes the handle of a memory. Its callers and listeners go on until they are closed.
#[unsafe(no_mangle)]
pub extern "C" fn polder_detach(memory: polder_memory) -> polder_status {
    guarded(|| {
        memory_of(memory)?;
        let detached = MEMORIES.lock().remove(&memory.handle);
        drop(detached);
        Ok(())
    })
}

/// Removes a segment's name and tells all attached processes.
#[unsafe(no_mangle)]
pub extern "C" fn polder_remove(segment: *const c_char) -> polder_status {
    guarded(|| Ok(Memory::remove(string(segment)?)?))
}

/// Opens a caller for the calling thread. It speaks RESP3 (maps, sets, doubles), until it is told otherwise by HELLO 2.
#[unsafe(no_mangle)]
pub extern "C" fn polder_open(memory: polder_memory, caller: *mut polder_caller) -> polder_status {
    guarded(|| {
        if caller.is_null() {
            return misuse("NULL where the caller's handle should be written");
        }
        let handle = threads::enter(Caller::new(&memory_of(memory)?))?;
        give(caller, polder_caller { handle });
        Ok(())
    })
}

/// Closes a caller: its subscriptions, its open MULTI and its descriptor. Its replies stay until they are released.
#[unsafe(no_mangle)]
pub extern "C" fn polder_close(caller: polder_caller) -> polder_status {
    guarded(|| {
        drop(threads::leave(caller.handle)?);
        Ok(())
    })
}

/// C's context, which it has promised to share, and room for what is shown to it.
struct Shown {
    context: *mut c_void,
    nodes: Vec<polder_reply>,
}
// SAFETY: C1, the header says that the callback runs in another thread, and that the context must bear it; the room is empty where it moves.
unsafe impl Send for Shown {}

/// Subscribes by a command (SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE, ...) and calls `heard` for each message, one at a time, in a thread of Polder's. When
/// this returns POLDER_OK, the subscription stands.
#[unsafe(no_mangle)]
pub extern "C" fn polder_listen(
    memory: polder_memory,
    count: usize,
    args: *const polder_text,
    heard: polder_heard,
    context: *mut c_void,
    listener: *mut polder_listener,
) -> polder_status {
    guarded(|| {
        let Some(heard) = heard else { return misuse("NULL where the callback should be") };
        if listener.is_null() {
            return misuse("NULL where the listener's handle should be written");
        }
        let args = words(args, count)?;
        let mut shown = Shown { context, nodes: Vec::new() };
        let started = Listener::start(&memory_of(memory)?, &args, move |message| {
            // The whole of it moves here, not its fields: those alone may not change threads.
            let shown = &mut shown;
            lay_out(&mut shown.nodes, message);
            // SAFETY: C1, a function that takes these.
            unsafe { heard(shown.context, shown.nodes.as_ptr()) };
        })?;
        let handle = HANDLES.fetch_add(1, Ordering::Relaxed);
        LISTENERS.lock().insert(handle, started);
        give(listener, polder_listener { handle });
        Ok(())
    })
}

/// Ends a listener. When this returns, its callback runs no more, unless it is the callback that calls.
#[unsafe(no_mangle)]
pub extern "C" fn polder_stop(listener: polder_listener) -> polder_status {
    guarded(|| {
        let stopped = LISTENERS.lock().remove(&listener.handle);
        match stopped {
            Some(stopped) => stopped.stop(),
            None => {
                return Err(Failure(
                    POLDER_CLOSED,
                    "ERR there is no such listener: it has been stopped".into(),
                ));
            }
        }
        Ok(())
    })
}
