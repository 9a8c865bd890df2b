//! Shared memory in place of a connection (feature `shm`): a plain call runs in the caller's thread, and its future is ready at once.
//!
//! ```text
//!   call, pipeline ----------> the thread's own Caller ------> reply, at once
//!   BLPOP and its like ------> a thread of its own, which rests in the memory until there is something
//!   subscription ------------> a thread of its own, which hears and fills the subscription's list
//! ```
//!
//! Invariants:
//! 1. **M1** No code of the program runs while a thread's callers are borrowed: arguments are framed before, tasks woken after.
//! 2. **M2** A call runs in the database that it names: the caller is asked where it is before each one.
//! 3. **M3** A blocking call whose future is dropped is ended (CLIENT UNBLOCK) by the thread that drops it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use polder_engine::{Caller, Item, Memory};
use polder_wire::resp::Value;

use crate::due::Due;
use crate::error::{Error, Stage, TimedOut};
use crate::rows;
use crate::slot::{Outcome, Slot};
use crate::subscribe::{Event, Heard, Kind};
use crate::target::Target;
use crate::traits::{Shape, Traits};
use crate::value::refused;

/// How long a thread rests at a time where nothing says when to look again.
const REST: Duration = Duration::from_secs(60);

thread_local! {
    /// The thread's callers, one for each memory that is in use.
    static CALLERS: RefCell<Vec<(Weak<Local>, Caller)>> = const { RefCell::new(Vec::new()) };
}

/// A memory that is attached.
pub(crate) struct Local {
    memory: Arc<Memory>,
}

impl Local {
    /// # Errors
    /// [`Error::Usage`] that says why the memory cannot be attached.
    pub(crate) fn attach(segment: &str, create: bool) -> Result<Arc<Local>, Error> {
        let options = polder_engine::Options {
            segment: segment.to_owned(),
            create,
            ..polder_engine::Options::default()
        };
        let memory = Memory::attach(&options).map_err(|fault| Error::usage(fault.to_string()))?;
        Ok(Arc::new(Local { memory: Arc::new(memory) }))
    }

    /// Runs requests in a database, in the caller's thread.
    pub(crate) fn run(self: &Arc<Self>, db: u32, requests: &[u8], traits: Traits) -> Outcome {
        CALLERS.with_borrow_mut(|callers| {
            let own = |(memory, _): &(Weak<Local>, Caller)| std::ptr::eq(memory.as_ptr(), Arc::as_ptr(self));
            let at = callers.iter().position(own).unwrap_or_else(|| {
                callers.retain(|(memory, _)| memory.strong_count() > 0);
                callers.push((Arc::downgrade(self), Caller::new(&self.memory)));
                callers.len() - 1
            });
            let done = run_by(&mut callers[at].1, db, requests, traits);
            if matches!(done, Err(Ended::Closed(_))) {
                // CLIENT KILL: the next call gets a new one, as after a break.
                callers.swap_remove(at);
            }
            done.map_err(Ended::error)
        })
    }

    /// A caller for calls that depend on each other.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&self.memory)
    }

    /// Runs a call that may wait in a thread of its own. Returns the number by which CLIENT UNBLOCK names it; 0 until it is known.
    ///
    /// # Errors
    /// [`Error::Usage`] when the operating system has no thread left.
    pub(crate) fn run_aside(
        &self,
        db: u32,
        request: Vec<u8>,
        slot: &Arc<Slot>,
        due: Option<Due>,
    ) -> Result<Arc<AtomicU64>, Error> {
        let id = Arc::new(AtomicU64::new(0));
        let (memory, told, target) =
            (Arc::clone(&self.memory), Arc::clone(&id), Target::Slot(Arc::clone(slot)));
        let wait = move || {
            let mut caller = Caller::new(&memory);
            told.store(caller.id(), Ordering::Release);
            let outcome = wait(&mut caller, db, &request, &target, due);
            target.complete(outcome);
        };
        let unable = |error| {
            Error::usage(format!("a call that waits needs a thread, which cannot be started: {error}"))
        };
        std::thread::Builder::new().name("polder-waiting".into()).spawn(wait).map_err(unable)?;
        Ok(id)
    }

    /// Ends a call that waits.
    pub(crate) fn unblock(self: &Arc<Self>, id: u64) {
        self.administer("UNBLOCK", id);
    }

    fn administer(self: &Arc<Self>, what: &str, id: u64) {
        let mut request = Vec::new();
        let words =
            if what == "KILL" { ("CLIENT", what, Some("ID"), id) } else { ("CLIENT", what, None, id) };
        crate::args::encode(&words, &mut request);
        if let Err(error) = self.run(0, &request, Traits::SINGLE) {
            tracing::debug!("CLIENT {what} {id}: {error}");
        }
    }

    /// Hears what is published, in a thread of its own. Dropped, the result ends it.
    ///
    /// # Errors
    /// [`Error::Usage`] when the operating system has no thread left.
    pub(crate) fn listen(
        self: &Arc<Self>,
        kind: Kind,
        names: &[Vec<u8>],
        heard: Heard,
    ) -> Result<Listening, Error> {
        let words: Vec<Vec<u8>> =
            std::iter::once(kind.subscribe().as_bytes().to_vec()).chain(names.iter().cloned()).collect();
        let memory = Arc::clone(&self.memory);
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let listen = move || {
            let mut caller = Caller::new(&memory);
            let subscribed = caller.run(&words);
            if tell.send(caller.id()).is_err() {
                return;
            }
            match subscribed {
                Ok(_) => heard.tell(Event::Ready),
                Err(error) => return heard.tell(Event::Refused(error.to_string())),
            }
            loop {
                match caller.hear(REST, |item| heard.deliver(value(item))) {
                    Ok(_) => {}
                    Err(polder_engine::Error::Lost) => heard.tell(Event::Missed),
                    Err(_) => return,
                }
            }
        };
        let unable = |error: &dyn std::fmt::Display| {
            Error::usage(format!("a subscription needs a thread, which cannot be started: {error}"))
        };
        std::thread::Builder::new()
            .name("polder-listening".into())
            .spawn(listen)
            .map_err(|error| unable(&error))?;
        let id = told.recv().map_err(|error| unable(&error))?;
        Ok(Listening { local: Arc::clone(self), id })
    }
}

/// A thread that hears for a subscription.
pub(crate) struct Listening {
    local: Arc<Local>,
    id: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.local.administer("KILL", self.id);
    }
}

/// Why a call has no reply.
enum Ended {
    /// The caller is of no use any more.
    Closed(Error),
    Failed(Error),
}

impl Ended {
    fn error(self) -> Error {
        match self {
            Ended::Closed(error) | Ended::Failed(error) => error,
        }
    }
}

impl From<polder_engine::Error> for Ended {
    fn from(error: polder_engine::Error) -> Ended {
        match error {
            polder_engine::Error::Closed
            | polder_engine::Error::Forked
            | polder_engine::Error::WrongThread => Ended::Closed(Error::not_sent(error.to_string())),
            refusal => Ended::Failed(refused(refusal.to_string().as_bytes())),
        }
    }
}

/// Runs requests by a caller of one's own.
pub(crate) fn run_with(caller: &mut Caller, db: u32, requests: &[u8], traits: Traits) -> Outcome {
    run_by(caller, db, requests, traits).map_err(Ended::error)
}

fn run_by(caller: &mut Caller, db: u32, requests: &[u8], traits: Traits) -> Result<Value, Ended> {
    if u32::from(caller.database()) != db {
        select(caller, db)?;
    }
    if traits.shape == Shape::Single {
        return run_one(caller, requests);
    }
    let mut replies = Vec::new();
    for request in rows::requests(requests) {
        replies.push(match run_one(caller, request) {
            Err(Ended::Failed(Error::Refused(text))) => Value::Error(text.as_bytes().to_vec()),
            other => other?,
        });
        // A script may have gone to another database: the next call is not to run there.
        if u32::from(caller.database()) != db {
            select(caller, db)?;
        }
    }
    match traits.shape.join(replies) {
        Value::Error(text) => Err(Ended::Failed(refused(&text))),
        value => Ok(value),
    }
}

fn select(caller: &mut Caller, db: u32) -> Result<(), Ended> {
    let number = db.to_string();
    caller.run(&["SELECT", &number]).map(drop).map_err(|error| match Ended::from(error) {
        Ended::Failed(error) => Ended::Failed(refused(format!("{error} (SELECT {db})").as_bytes())),
        closed => closed,
    })
}

fn run_one(caller: &mut Caller, request: &[u8]) -> Result<Value, Ended> {
    let mut words = rows::words(request);
    // The most common ones need no memory for their words.
    let done = match [words.next(), words.next(), words.next(), words.next()] {
        [Some(name), Some(key), None, None] => caller.show(&[name, key], value),
        [Some(name), Some(key), Some(one), None] => caller.show(&[name, key, one], value),
        _ => caller.show(&rows::words(request).collect::<Vec<_>>(), value),
    };
    Ok(done?)
}

/// Runs a call that may wait, until it ends, its deadline passes or its reply is not wanted any more.
fn wait(caller: &mut Caller, db: u32, request: &[u8], target: &Target, due: Option<Due>) -> Outcome {
    let run = |caller: &mut Caller| -> Result<Outcome, Ended> {
        if db != 0 {
            select(caller, db)?;
        }
        let words: Vec<&[u8]> = rows::words(request).collect();
        let mut answer = caller.start(&words)?;
        loop {
            if let Some(answer) = answer {
                return Ok(Ok(value(answer.item())));
            }
            let now = Instant::now();
            let late = due.filter(|due| due.at <= now);
            if late.is_some() || !target.is_wanted() {
                caller.cancel()?;
                return Ok(Err(late.map_or_else(
                    || Error::not_sent("the call was given up"),
                    |due| waited_too_long(due, now),
                )));
            }
            caller.rest(due.map_or(REST, |due| due.at - now))?;
            answer = caller.resume()?;
        }
    };
    run(caller).unwrap_or_else(|ended| Err(ended.error()))
}

fn waited_too_long(due: Due, now: Instant) -> Error {
    let (limit, driver_lag) = (due.at - due.made, now - due.at);
    Error::TimedOut(Arc::new(TimedOut {
        stage: Stage::Server,
        limit,
        calls_ahead: 0,
        bytes_unwritten: 0,
        since_read: None,
        driver_lag,
    }))
}

/// A reply of the memory as one of a connection.
fn value(item: Item<'_>) -> Value {
    let text = <[u8]>::to_vec;
    let inside = |items: polder_engine::Items<'_>| items.map(value).collect::<Vec<_>>();
    match item {
        Item::Null => Value::Null,
        Item::Status(bytes) => Value::Status(text(bytes)),
        Item::Error(bytes) => Value::Error(text(bytes)),
        Item::Integer(number) => Value::Integer(number),
        Item::Double(number) => Value::Double(number.to_string().into_bytes()),
        Item::Boolean(truth) => Value::Boolean(truth),
        Item::Bulk(bytes) => Value::Bulk(text(bytes)),
        Item::BigNumber(bytes) => Value::BigNumber(text(bytes)),
        Item::Verbatim(format, bytes) => {
            let format = <[u8; 3]>::try_from(format).unwrap_or(*b"txt");
            Value::Verbatim { format, text: text(bytes) }
        }
        Item::Array(items) => Value::Array(inside(items)),
        Item::Set(items) => Value::Set(inside(items)),
        Item::Push(items) => Value::Push(inside(items)),
        Item::Map(items) => {
            let mut flat = items.map(value);
            Value::Map(std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect())
        }
    }
}
