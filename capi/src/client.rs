//! Connections to servers: `polder_client.h`.
//!
//! ```text
//!   run     --> the call is made; the thread waits for its reply
//!   submit  --> calls in flight, each with a callback; the descriptor is readable when one has ended
//!   process --> runs the callbacks of those that have ended, in the thread that calls it
//! ```
//!
//! Invariants:
//! - **K1** The callback of a call that was submitted runs once, inside `polder_client_process`, `_wait` or `_close`. A call
//!   that was cancelled has none.
//! - **K2** While a callback runs, no lock is held that another function waits for. So a callback may call any function.
//! - **K3** A client belongs to the process that connected it. A forked child has none of its threads, and may have its locks
//!   as a thread of the parent left them: the child neither uses nor drops it. A callback that forks returns in the child as
//!   well, which therefore looks after each callback.
//! - **K4** A thread in `polder_client_wait` sleeps without end only while a call is in flight or a subscription is there. The
//!   thread that takes the last of these away, or closes the client, makes the descriptor readable if a thread waits.

mod events;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ::polder_client::{
    Call, CallNumber, Client, Completions, Db, Error, Options, Pipeline, Policy, Stage, Value,
};
use polder_engine::{Shelter, generation, watch_forks};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::client::events::Feeds;
pub use crate::client::events::*;
use crate::reply::{Kept, polder_reply};
use crate::status::polder_status::{self, *};
use crate::status::{Done, Failure, guarded, misuse, note};
use crate::text::{give, polder_text, read, string, words};
use crate::threads;

/// A connection to a server, with all that it needs beside. Any thread may use it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_client {
    pub handle: u64,
}

/// A call that was submitted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_call {
    pub number: u64,
}

/// Fails with POLDER_NOT_SENT while the connection is down or the queue is full.
pub const POLDER_FAIL_FAST: u32 = 1;
/// Waits in the queue; fails with POLDER_NOT_SENT when the queue is full.
pub const POLDER_QUEUE: u32 = 2;
/// Waits in the queue; while that is full, waits for room.
pub const POLDER_BLOCK: u32 = 3;

/// How a call is made. NULL in its place means the database of the URL and zeros.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_call_options {
    /// The number of the database.
    pub database: u32,
    /// Not 0: the call goes ahead of all that has not been written yet.
    pub jumps: u32,
    /// POLDER_FAIL_FAST, POLDER_QUEUE or POLDER_BLOCK; 0: as the URL says.
    pub policy: u32,
    /// Not 0: a call that is submitted is written with the next one that is not held, or by `polder_client_flush`.
    pub is_held: u32,
    /// The deadline in milliseconds from now; 0: that of the URL; below 0: none.
    pub timeout_ms: i64,
}

/// The arguments of one call of several.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_words {
    pub count: usize,
    pub args: *const polder_text,
}

/// How far a call had come when its deadline passed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum polder_stage {
    /// No call of this thread has timed out yet.
    POLDER_STAGE_NONE = 0,
    /// It waited to be written: the server has not seen it, and it may be made again.
    POLDER_STAGE_QUEUE = 1,
    /// It was being written: the network, or a server that does not read.
    POLDER_STAGE_WRITE = 2,
    /// It was written, and the server has sent nothing since.
    POLDER_STAGE_SERVER = 3,
    /// It was written, behind replies that were still coming in.
    POLDER_STAGE_READER = 4,
    /// The client's own thread was not run in time.
    POLDER_STAGE_RUNTIME = 5,
}

/// Is told how a call has ended: `reply` is its reply after POLDER_OK and else NULL, and lives until this returns.
/// `polder_message` has the text to every other status.
pub type polder_ended =
    Option<unsafe extern "C" fn(context: *mut c_void, status: polder_status, reply: *const polder_reply)>;

/// What is done when a call has ended.
struct Submitted {
    ended: unsafe extern "C" fn(*mut c_void, polder_status, *const polder_reply),
    context: *mut c_void,
}
// SAFETY: C1, the header says that the callback runs in the thread that processes, and that the context must bear it.
unsafe impl Send for Submitted {}

impl Submitted {
    fn end(self, outcome: Done<Value>) {
        let (status, kept) = match outcome {
            Ok(value) => (POLDER_OK, Some(Kept::value(value))),
            Err(failure) => (note(failure), None),
        };
        let reply = kept.as_ref().map_or(std::ptr::null(), Kept::root);
        // SAFETY: C1, a function that takes these.
        unsafe { (self.ended)(self.context, status, reply) };
    }
}

/// A client and its calls in flight.
struct Remote {
    client: Client,
    /// The database of the URL.
    db: Db,
    completions: Completions<Submitted>,
    feeds: Feeds,
    /// The process that it belongs to (K3).
    generation: u64,
    is_closed: AtomicBool,
    /// How many threads are in `polder_client_wait` (K4).
    waiting: AtomicUsize,
}

/// A client that a function works with. Where a callback of the function has forked, the child does not drop it (K3).
struct Used(ManuallyDrop<Arc<Remote>>);

impl Used {
    fn new(remote: Arc<Remote>) -> Used {
        Used(ManuallyDrop::new(remote))
    }
}

impl Deref for Used {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.0
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if !self.is_parents() {
            // SAFETY: nothing uses it after this, and nothing else drops it.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// A thread that waits for a callback to run.
struct Waiting<'r>(&'r Remote);

impl<'r> Waiting<'r> {
    fn begin(remote: &'r Remote) -> Waiting<'r> {
        remote.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(remote)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // The child has none of the parent's other threads.
        if !self.0.is_parents() {
            self.0.waiting.fetch_sub(1, Ordering::SeqCst);
            // This thread has made the descriptor unreadable, which another one may have been woken by.
            self.0.wake_waiting();
        }
    }
}

static CLIENTS: Shelter<BTreeMap<u64, Arc<Remote>>> = Shelter::new(BTreeMap::new());
static HANDLES: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static STAGE: Cell<polder_stage> = const { Cell::new(polder_stage::POLDER_STAGE_NONE) };
}

/// An error of a call, for the thread that is told of it.
fn failure(error: Error) -> Failure {
    let status = match &error {
        Error::NotSent(_) => POLDER_NOT_SENT,
        Error::OutcomeUnknown(_) => POLDER_OUTCOME_UNKNOWN,
        Error::Refused(_) => POLDER_REFUSED,
        Error::TimedOut(cause) => {
            STAGE.set(match cause.stage {
                Stage::Queue => polder_stage::POLDER_STAGE_QUEUE,
                Stage::Write => polder_stage::POLDER_STAGE_WRITE,
                Stage::Server => polder_stage::POLDER_STAGE_SERVER,
                Stage::Reader => polder_stage::POLDER_STAGE_READER,
                Stage::Runtime => polder_stage::POLDER_STAGE_RUNTIME,
            });
            POLDER_TIMED_OUT
        }
        Error::Unexpected { .. } | Error::Usage(_) => POLDER_MISUSE,
    };
    Failure(status, error.to_string())
}

fn closed<T>() -> Done<T> {
    Err(Failure(POLDER_CLOSED, "ERR there is no such client: it has been closed".into()))
}

fn forked<T>() -> Done<T> {
    Err(Failure(POLDER_FORKED, "ERR this client is the parent's: connect again in the child".into()))
}

fn remote_of(client: polder_client) -> Done<Used> {
    let known = CLIENTS.lock().get(&client.handle).cloned().map(Used::new);
    match known {
        Some(remote) if remote.is_parents() => forked(),
        Some(remote) => Ok(remote),
        None => closed(),
    }
}

impl Remote {
    /// The database that calls go to, and whether they are held.
    fn db(&self, options: *const polder_call_options) -> Done<(Db, bool)> {
        let [given] = (if options.is_null() { &[] } else { read(options, 1)? }) else {
            return Ok((self.db.clone(), false));
        };
        let mut db = self.client.db(given.database);
        if given.jumps != 0 {
            db = db.jump();
        }
        db = match given.policy {
            0 => db,
            POLDER_FAIL_FAST => db.policy(Policy::FailFast),
            POLDER_QUEUE => db.policy(Policy::Queue),
            POLDER_BLOCK => db.policy(Policy::Block),
            other => return misuse(&format!("there is no policy {other}")),
        };
        db = match given.timeout_ms {
            0 => db,
            1.. => db.within(Duration::from_millis(given.timeout_ms.unsigned_abs())),
            _ => db.without_deadline(),
        };
        Ok((db, given.is_held != 0))
    }

    fn submit(
        &self,
        make: impl FnOnce() -> Call<Value>,
        submitted: Submitted,
        is_held: bool,
    ) -> Done<polder_call> {
        let number = self.completions.submit(make, submitted);
        if !is_held {
            self.completions.release();
        }
        // A close that came before has ended all calls but this one (K1); one that comes later will end it.
        if self.is_closed.load(Ordering::SeqCst) && self.completions.cancel(number).is_some() {
            return closed();
        }
        Ok(polder_call { number: number.into() })
    }

    /// Whether this process is a child of the one that connected it (K3).
    fn is_parents(&self) -> bool {
        self.generation != generation()
    }

    /// Runs the callbacks of what has ended or was heard; returns how many.
    ///
    /// # Errors
    /// POLDER_FORKED in the child of a callback that forks.
    fn process(&self) -> Done<usize> {
        self.completions.release();
        let mut count = 0;
        let mut ended = self.completions.take();
        while let Some((submitted, outcome)) = ended.next() {
            count += 1;
            submitted.end(outcome.map_err(failure));
            if self.is_parents() {
                std::mem::forget(ended);
                return forked();
            }
        }
        drop(ended);
        count +=
            self.feeds.process(&self.completions.waker(), || self.is_parents()).map_or_else(forked, Ok)?;
        self.wake_waiting();
        Ok(count)
    }

    /// Whether a thread that waits has nothing to wait for.
    fn is_idle(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst) || self.completions.is_empty() && self.feeds.is_empty()
    }

    /// Wakes a thread that waits if nothing else will (K4). That one wakes the next.
    fn wake_waiting(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 && self.is_idle() {
            self.completions.waker().wake();
        }
    }
}

fn group(db: &Db, atomically: c_int, count: usize, calls: *const polder_words) -> Done<Pipeline> {
    let group = if atomically == 0 { db.pipeline() } else { db.transaction() };
    read(calls, count)?
        .iter()
        .try_fold(group, |group, call| Ok(group.call(&words(call.args, call.count)?[..])))
}

fn ended_by(ended: polder_ended, context: *mut c_void) -> Done<Submitted> {
    match ended {
        Some(ended) => Ok(Submitted { ended, context }),
        None => misuse(
            "NULL where the callback should be; a call whose end is not wanted is made by polder_client_fire",
        ),
    }
}

fn waited(call: Call<Value>, reply: *mut *const polder_reply) -> Done {
    let value = call.wait().map_err(failure)?;
    if !reply.is_null() {
        give(reply, threads::keep(Kept::value(value))?);
    }
    Ok(())
}

/// Makes a client of a server by its URL: `redis://[user[:password]@]host[:port][/database]`, `rediss://`,
/// `redis-sentinel://`, `redis-cluster://`, `unix:/path`, or `polder://shm:NAME`, with options behind `?` (docs/client.md).
/// The connection opens in the background; calls may be made at once.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_connect(url: *const c_char, client: *mut polder_client) -> polder_status {
    guarded(|| {
        if client.is_null() {
            return misuse("NULL where the client's handle should be written");
        }
        watch_forks();
        let options: Options = string(url)?.parse().map_err(failure)?;
        let database = options.database;
        let (connected, completions) = Completions::connect(options).map_err(failure)?;
        let db = connected.db(database);
        let (feeds, is_closed, waiting) = (Feeds::default(), AtomicBool::new(false), AtomicUsize::new(0));
        let remote = Remote {
            client: connected,
            db,
            completions,
            feeds,
            generation: generation(),
            is_closed,
            waiting,
        };
        let handle = HANDLES.fetch_add(1, Ordering::Relaxed);
        CLIENTS.lock().insert(handle, Arc::new(remote));
        give(client, polder_client { handle });
        Ok(())
    })
}

/// Closes a client. The callbacks of its calls in flight run before this returns, with POLDER_CLOSED: the server may have run
/// these calls. A callback that another thread has begun in `polder_client_process` or `polder_client_wait`, or begins at this
/// moment, is not waited for: join that thread before you free what its callbacks use. Calls that were fired are still sent, in the background; a program that ends now waits for them by
/// `polder_client_run` of PING before it closes. In a forked child, this gives up the parent's client and runs no callback.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_close(client: polder_client) -> polder_status {
    guarded(|| {
        let removed = CLIENTS.lock().remove(&client.handle).map(Used::new);
        match removed {
            None => closed(),
            Some(remote) if remote.is_parents() => Ok(()),
            Some(remote) => {
                remote.is_closed.store(true, Ordering::SeqCst);
                remote.feeds.end_all();
                let in_flight = remote.completions.cancel_all();
                remote.wake_waiting();
                for submitted in in_flight {
                    submitted.end(Err(Failure(
                        POLDER_CLOSED,
                        "ERR the client was closed while the call was in flight".into(),
                    )));
                    if remote.is_parents() {
                        break;
                    }
                }
                Ok(())
            }
        }
    })
}

/// Makes a call, the command's name first, and waits for its reply. `reply` gets it, to be released by this thread
/// (`polder_release`); NULL says that it is not wanted. `options` may be NULL. An error of the server is POLDER_REFUSED.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_run(
    client: polder_client,
    options: *const polder_call_options,
    count: usize,
    args: *const polder_text,
    reply: *mut *const polder_reply,
) -> polder_status {
    guarded(|| {
        give(reply, std::ptr::null());
        let (db, _) = remote_of(client)?.db(options)?;
        waited(db.call(&words(args, count)?[..]), reply)
    })
}

/// Makes several calls that are sent together, with no other call between them, and waits for their replies: an array in their
/// order, with errors among them. Not 0 in `atomically`: they run as one transaction (MULTI and EXEC).
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_run_group(
    client: polder_client,
    options: *const polder_call_options,
    atomically: c_int,
    count: usize,
    calls: *const polder_words,
    reply: *mut *const polder_reply,
) -> polder_status {
    guarded(|| {
        give(reply, std::ptr::null());
        let (db, _) = remote_of(client)?.db(options)?;
        waited(group(&db, atomically, count, calls)?.send(), reply)
    })
}

/// Makes a call and forgets it: nothing is kept for its reply, and no error is told.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_fire(
    client: polder_client,
    options: *const polder_call_options,
    count: usize,
    args: *const polder_text,
) -> polder_status {
    guarded(|| {
        let (db, _) = remote_of(client)?.db(options)?;
        db.fire().call(&words(args, count)?[..]);
        Ok(())
    })
}

/// Makes a call without waiting. After POLDER_OK, `ended` runs once, in the thread that calls `polder_client_process`,
/// `polder_client_wait` or `polder_client_close`: free there what `context` leads to. After any other status it never runs.
/// The arguments are copied. `call` (may be NULL) gets what `polder_client_cancel` takes.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_submit(
    client: polder_client,
    options: *const polder_call_options,
    count: usize,
    args: *const polder_text,
    ended: polder_ended,
    context: *mut c_void,
    call: *mut polder_call,
) -> polder_status {
    guarded(|| {
        let remote = remote_of(client)?;
        let (db, is_held) = remote.db(options)?;
        let words = words(args, count)?;
        let submitted = ended_by(ended, context)?;
        give(call, remote.submit(|| db.call(&words[..]), submitted, is_held)?);
        Ok(())
    })
}

/// As `polder_client_submit`, for several calls as in `polder_client_run_group`.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_submit_group(
    client: polder_client,
    options: *const polder_call_options,
    atomically: c_int,
    count: usize,
    calls: *const polder_words,
    ended: polder_ended,
    context: *mut c_void,
    call: *mut polder_call,
) -> polder_status {
    guarded(|| {
        let remote = remote_of(client)?;
        let (db, is_held) = remote.db(options)?;
        let group = group(&db, atomically, count, calls)?;
        let submitted = ended_by(ended, context)?;
        give(call, remote.submit(|| group.send(), submitted, is_held)?);
        Ok(())
    })
}

/// Writes the calls that are held.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_flush(client: polder_client) -> polder_status {
    guarded(|| {
        remote_of(client)?.completions.release();
        Ok(())
    })
}

/// Takes a call back. After POLDER_OK its callback does not run: the call was not sent, or its reply will be thrown away, or, if
/// it waits in the server (BLPOP), it is ended there. POLDER_CLOSED says that its callback has run, or runs in another thread.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_cancel(client: polder_client, call: polder_call) -> polder_status {
    guarded(|| {
        let remote = remote_of(client)?;
        match remote.completions.cancel(CallNumber::from(call.number)) {
            Some(_) => {
                remote.wake_waiting();
                Ok(())
            }
            None => Err(Failure(POLDER_CLOSED, "ERR there is no such call in flight: it has ended".into())),
        }
    })
}

/// A file descriptor that is readable when `polder_client_process` has something to do: for poll, epoll, or an event loop. It
/// is level-triggered, must not be read, and is closed with the client.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_descriptor(client: polder_client, descriptor: *mut c_int) -> polder_status {
    guarded(|| {
        give(descriptor, remote_of(client)?.completions.as_fd().as_raw_fd());
        Ok(())
    })
}

/// Writes the calls that are held, and runs the callbacks of calls that have ended and of events that were heard, without
/// waiting. `processed` (may be NULL) gets how many ran. If a callback forks, its return ends this with POLDER_FORKED in the
/// child, which runs no other callback.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_process(client: polder_client, processed: *mut usize) -> polder_status {
    guarded(|| {
        give(processed, remote_of(client)?.process()?);
        Ok(())
    })
}

/// As `polder_client_process`, but waits up to `timeout_ms` (below 0: without end) until a callback has run. It returns at once
/// when there is nothing to wait for: no call in flight, and no subscription. If another thread closes the client, this returns
/// POLDER_CLOSED.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_wait(
    client: polder_client,
    timeout_ms: i64,
    processed: *mut usize,
) -> polder_status {
    guarded(|| {
        give(processed, 0);
        let remote = remote_of(client)?;
        let until = u64::try_from(timeout_ms)
            .ok()
            .and_then(|limit_ms| Instant::now().checked_add(Duration::from_millis(limit_ms)));
        let _waiting = Waiting::begin(&remote);
        loop {
            let count = remote.process()?;
            give(processed, count);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if count == 0 && remote.is_closed.load(Ordering::SeqCst) {
                return closed();
            }
            if count > 0 || remote.is_idle() || left == Some(Duration::ZERO) {
                return Ok(());
            }
            let most = left
                .map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match poll(&mut [PollFd::new(&remote.completions, PollFlags::IN)], most.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return Err(Failure(
                        POLDER_FAULT,
                        format!("ERR the client's descriptor cannot be polled: {error}"),
                    ));
                }
            }
        }
    })
}

/// How many calls have been submitted whose callbacks have not run.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_in_flight(client: polder_client, count: *mut usize) -> polder_status {
    guarded(|| {
        give(count, remote_of(client)?.completions.len());
        Ok(())
    })
}

/// Where the call was whose POLDER_TIMED_OUT this thread was told last.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_stage() -> polder_stage {
    STAGE.try_with(Cell::get).unwrap_or(polder_stage::POLDER_STAGE_NONE)
}
