//! A client of any Redis server: one connection for all threads, or for all tasks of an event loop.
//!
//! ```text
//!   run     -> the call is made, the GIL given up until its reply is there -> reply
//!   submit  -> the call is made -> a future of the event loop;     release: at the end of the loop's turn, all calls of it together
//!   process <- the event loop, when the descriptor is readable: sets the results of all futures whose replies have come
//! ```
//!
//! **Invariants:** the connection's thread never takes the GIL; no Python code runs while a lock of the client is held.
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use polder_client::{Added, Call, CallNumber, Client, Committed, Completions, Condition, Db, Error, Value};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use smallvec::SmallVec;

use crate::SIGNALS_LOOK;
use crate::caller::{Words, word};
use crate::feed::Feed;
use crate::ready::Ready;
use crate::rooted::Rooted;
use crate::shape::Shape;

/// A future of the event loop, and what becomes of the reply before the future has it.
struct Awaited {
    future: Py<PyAny>,
    shape: Shape,
    decode: bool,
}

/// The event loop that a client belongs to, and what of it is called for each call.
struct EventLoop {
    itself: Py<PyAny>,
    create_future: Py<PyAny>,
    call_soon: Py<PyAny>,
    release: Py<PyAny>,
}

/// How replies look in Python.
pub struct Looks {
    /// Makes an exception of an error's kind and text.
    error: Py<PyAny>,
    /// Makes bytes of an argument that is no exact bytes, str, int or float.
    encode: Py<PyAny>,
    /// Texts come as str (UTF-8) and not as bytes.
    decode: bool,
}

/// The connection, and the database that calls go to.
struct Core {
    client: Client,
    db: Db,
    /// Of a client for an event loop.
    completions: Option<Arc<Completions<Awaited>>>,
}

/// What all views of a client share.
pub struct Common {
    looks: Looks,
    event_loop: Mutex<Option<EventLoop>>,
    running_loop: Py<PyAny>,
    /// Whether the event loop has been asked to release what was submitted.
    is_asked: AtomicBool,
    /// Whether the event loop is to be left once no call is in flight.
    is_retired: AtomicBool,
}

/// A client of a server, or a view of one: another database, or replies that are kept.
#[pyclass(frozen, module = "polder._polder")]
pub struct Remote {
    core: Rooted<Core>,
    common: Arc<Common>,
}

impl std::ops::Deref for Remote {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

#[pymethods]
impl Remote {
    /// `event_loop`: replies come as futures; `error`: makes an exception of an error's kind and text; `encode`: makes bytes of an argument of an
    /// unusual type; `decode`: texts as str.
    #[new]
    #[pyo3(signature = (url, event_loop, error, encode, decode=false))]
    fn connect(
        py: Python<'_>,
        url: &str,
        event_loop: bool,
        error: Py<PyAny>,
        encode: Py<PyAny>,
        decode: bool,
    ) -> PyResult<Remote> {
        let looks = Looks { error, encode, decode };
        let opened = url.parse::<polder_client::Options>().and_then(|options| {
            let database = options.database;
            let (client, completions) = if event_loop {
                let (client, completions) = Completions::connect_to_loop(options)?;
                (client, Some(Arc::new(completions)))
            } else {
                (Client::connect_in_thread(url)?, None)
            };
            Ok(Core { db: client.db(database), client, completions })
        });
        let core = opened.map_err(|error| looks.raised(py, &error))?;
        let running_loop = py.import("asyncio")?.getattr("_get_running_loop")?.unbind();
        let (event_loop, is_asked, is_retired) = Default::default();
        let common = Common { looks, event_loop, running_loop, is_asked, is_retired };
        Ok(Remote { core: Rooted::new(core), common: Arc::new(common) })
    }

    /// The same connection for calls to another database, or with replies that are kept.
    #[pyo3(signature = (db=None, cached=false))]
    fn view(&self, db: Option<u32>, cached: bool) -> PyResult<Remote> {
        let core = self.core.get()?;
        let chosen = db.map_or_else(|| core.db.clone(), |db| core.client.db(db));
        let chosen = if cached { chosen.cached() } else { chosen };
        let core = Core { client: core.client.clone(), db: chosen, completions: core.completions.clone() };
        Ok(Remote { core: Rooted::new(core), common: Arc::clone(&self.common) })
    }

    /// Makes several calls that run as one transaction if all conditions hold: a list of their replies alone; or of None and the numbers of
    /// those that did not hold; or None when others changed the keys each time.
    fn run_if<'p>(
        &self,
        py: Python<'p>,
        conditions: Vec<(String, Vec<Bound<'p, PyBytes>>)>,
        calls: Vec<Bound<'p, PyTuple>>,
    ) -> PyResult<Bound<'p, PyAny>> {
        let steps = Box::pin(self.conditional(&conditions, &calls)?);
        let outcome = waited(py, self.read_by_thread(steps))?;
        self.looks.outcome(py, outcome, self.looks.decode)
    }

    /// As `run_if`, as an awaitable.
    fn submit_if<'p>(
        own: &Bound<'p, Remote>,
        conditions: Vec<(String, Vec<Bound<'p, PyBytes>>)>,
        calls: Vec<Bound<'p, PyTuple>>,
    ) -> PyResult<Bound<'p, PyAny>> {
        let remote = own.get();
        let steps = remote.conditional(&conditions, &calls)?;
        remote.awaited(own, Shape::Raw, remote.looks.decode, |completions, awaited| {
            (completions.add_steps(steps, awaited), true)
        })
    }

    /// Makes a call and waits for its reply.
    #[pyo3(signature = (args, decode=None))]
    fn run<'p>(&self, args: &Bound<'p, PyTuple>, decode: Option<bool>) -> PyResult<Bound<'p, PyAny>> {
        let words = self.looks.words(args)?;
        let outcome = waited(args.py(), self.read_by_thread(self.core.get()?.call(&words)))?;
        self.looks.outcome(args.py(), outcome, decode.unwrap_or(self.looks.decode))
    }

    /// Makes several calls that are sent together, or run as one transaction, and waits for their replies. An error of one of them stands in its
    /// place.
    fn run_group<'p>(
        &self,
        py: Python<'p>,
        calls: Vec<Bound<'p, PyTuple>>,
        atomic: bool,
    ) -> PyResult<Bound<'p, PyAny>> {
        let outcome = waited(py, self.read_by_thread(self.group(&calls, atomic)?))?;
        self.looks.outcome(py, outcome, self.looks.decode)
    }

    /// Makes a call: an awaitable of its reply, as `callback` makes it.
    #[pyo3(signature = (args, callback=None, decode=None))]
    fn submit<'p>(
        own: &Bound<'p, Remote>,
        args: &Bound<'p, PyTuple>,
        callback: Option<Bound<'p, PyAny>>,
        decode: Option<bool>,
    ) -> PyResult<Bound<'p, PyAny>> {
        let remote = own.get();
        let (core, words) = (remote.core.get()?, remote.looks.words(args)?);
        let shape = callback.map_or(Shape::Raw, |callback| Shape::By(callback.unbind()));
        remote.awaited_call(own, || core.call(&words), shape, decode.unwrap_or(remote.looks.decode))
    }

    /// As `run_group`, as an awaitable.
    fn submit_group<'p>(
        own: &Bound<'p, Remote>,
        calls: Vec<Bound<'p, PyTuple>>,
        atomic: bool,
    ) -> PyResult<Bound<'p, PyAny>> {
        let remote = own.get();
        let group = remote.group(&calls, atomic)?;
        remote.awaited_call(own, || group, Shape::Raw, remote.looks.decode)
    }

    /// Makes a call and keeps nothing for its reply.
    fn fire(&self, args: &Bound<'_, PyTuple>) -> PyResult<()> {
        let words = self.looks.words(args)?;
        let words: SmallVec<[&[u8]; 8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.core.get()?.db.fire().call(&words[..]);
        Ok(())
    }

    /// Hears channels ("channel"), patterns ("pattern") or shard channels ("shard").
    fn subscribe(&self, py: Python<'_>, kind: &str, names: Vec<Bound<'_, PyAny>>) -> PyResult<Feed> {
        let names = PyTuple::new(py, names)?;
        let names = self.looks.words(&names)?;
        let names = names.iter().map(|name| name.as_bytes());
        let client = &self.core.get()?.client;
        let subscription = match kind {
            "pattern" => client.subscribe_patterns(names),
            "shard" => client.subscribe_shards(names),
            _ => client.subscribe(names),
        };
        Feed::over(subscription.map_err(|error| self.looks.raised(py, &error))?)
    }

    /// Sets the results of the futures whose replies have come.
    fn process(&self, py: Python<'_>) -> PyResult<()> {
        let Some(completions) = self.completions() else { return Ok(()) };
        let mut outcome = Ok(());
        for (awaited, reply) in completions.take() {
            let settled = self.settle(py, &awaited, reply);
            if outcome.is_ok() {
                outcome = settled;
            }
        }
        outcome.and(self.leave_if_retired(py))
    }

    /// Writes what was submitted in this turn of the event loop.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.is_asked.store(false, Ordering::Relaxed);
        self.completions().into_iter().for_each(Completions::release);
        // A call whose reply came before it could be awaited is never seen by `process`.
        self.leave_if_retired(py)
    }

    /// A descriptor that is readable when `process` has something to do.
    fn fileno(&self) -> Option<i32> {
        self.completions().map(|completions| completions.as_fd().as_raw_fd())
    }

    /// How many calls are in flight.
    fn in_flight(&self) -> usize {
        self.completions().map_or(0, Completions::len)
    }

    /// Leaves the event loop, in its thread, and ends the calls in flight with an error.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.leave(py)?;
        for awaited in self.completions().map(Completions::cancel_all).unwrap_or_default() {
            let why = "the client was closed while the call was in flight";
            self.settle(py, &awaited, Err(Error::OutcomeUnknown(why.into())))?;
        }
        Ok(())
    }

    /// Leaves the event loop, from any thread, once no call is in flight.
    fn retire(own: &Bound<'_, Remote>) -> PyResult<()> {
        let (py, remote) = (own.py(), own.get());
        remote.is_retired.store(true, Ordering::Relaxed);
        let known = remote
            .event_loop
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(|known| known.itself.clone_ref(py));
        match known {
            Some(known)
                if remote.completions().is_some()
                    && !known.call_method0(py, "is_closed")?.is_truthy(py)? =>
            {
                known.call_method1(py, "call_soon_threadsafe", (own.getattr("process")?,)).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Figures of the connection, by name.
    fn stats<'p>(&self, py: Python<'p>) -> PyResult<Bound<'p, PyDict>> {
        let (stats, figures) = (self.core.get()?.client.stats(), PyDict::new(py));
        figures.set_item("calls", stats.calls)?;
        figures.set_item("refused", stats.calls_refused)?;
        figures.set_item("timed_out", stats.calls_timed_out)?;
        figures.set_item("queued", stats.queued_calls)?;
        figures.set_item("connections", stats.connects)?;
        let kept = self.core.get()?.client.cache_stats();
        figures.set_item("cache_hits", kept.hits)?;
        figures.set_item("cache_misses", kept.misses)?;
        Ok(figures)
    }

    fn __traverse__(&self, visit: pyo3::gc::PyVisit<'_>) -> Result<(), pyo3::gc::PyTraverseError> {
        visit.call(&self.looks.error)?;
        visit.call(&self.looks.encode)
    }
}

impl Core {
    /// Makes a call of words.
    fn call(&self, words: &Words<'_>) -> Call<Value> {
        let words: SmallVec<[&[u8]; 8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.db.call(&words[..])
    }
}

impl Remote {
    /// What this thread is to wait for, so that it cannot read replies as an event loop.
    fn read_by_thread<F>(&self, waited: F) -> F {
        self.completions().into_iter().for_each(Completions::recall);
        waited
    }

    /// Of a client for an event loop, unless the process has been forked since.
    fn completions(&self) -> Option<&Completions<Awaited>> {
        self.core.get().ok()?.completions.as_deref()
    }

    /// The reply to a call; for an event loop, an awaitable of it.
    pub fn attempt<'p>(
        own: &Bound<'p, Remote>,
        words: &Words<'p>,
        shape: &Shape,
    ) -> PyResult<Bound<'p, PyAny>> {
        let (py, remote) = (own.py(), own.get());
        let core = remote.core.get()?;
        if core.completions.is_some() {
            return remote.awaited_call(own, || core.call(words), shape.copied(py), remote.looks.decode);
        }
        let outcome = waited(py, core.call(words))?;
        shape.shaped(remote.looks.outcome(py, outcome, remote.looks.decode)?)
    }

    /// Leaves the event loop if the client is gone and no call is in flight.
    fn leave_if_retired(&self, py: Python<'_>) -> PyResult<()> {
        let is_done = self.is_retired.load(Ordering::Relaxed) && self.in_flight() == 0;
        if is_done { self.leave(py) } else { Ok(()) }
    }

    /// Leaves the event loop; the next call joins the one that runs then.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        self.completions().into_iter().for_each(Completions::recall);
        let left = self.event_loop.lock().unwrap_or_else(PoisonError::into_inner).take();
        match left {
            Some(left) if !left.itself.call_method0(py, "is_closed")?.is_truthy(py)? => {
                left.itself.call_method1(py, "remove_reader", (self.fileno(),)).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn group(&self, calls: &[Bound<'_, PyTuple>], atomic: bool) -> PyResult<Call<Value>> {
        let db = &self.core.get()?.db;
        let mut group = if atomic { db.transaction() } else { db.pipeline() };
        for call in calls {
            let words = self.looks.words(call)?;
            let words: SmallVec<[&[u8]; 8]> = words.iter().map(|word| word.as_bytes()).collect();
            group = group.call(&words[..]);
        }
        Ok(group.send())
    }

    /// A transaction with conditions, as `run_if` describes its outcome.
    fn conditional(
        &self,
        conditions: &[(String, Vec<Bound<'_, PyBytes>>)],
        calls: &[Bound<'_, PyTuple>],
    ) -> PyResult<impl Future<Output = Result<Value, Error>> + Send + use<>> {
        let conditions =
            conditions.iter().map(|(kind, words)| condition(kind, words)).collect::<PyResult<Vec<_>>>()?;
        let mut transaction = self.core.get()?.db.transaction_if(conditions.clone());
        for call in calls {
            let words = self.looks.words(call)?;
            let words: SmallVec<[&[u8]; 8]> = words.iter().map(|word| word.as_bytes()).collect();
            transaction = transaction.call(&words[..]);
        }
        Ok(async move {
            Ok(match transaction.send::<Value>().await? {
                Committed::Yes(replies) => Value::Array(vec![replies]),
                Committed::Unmet(unmet) => {
                    let numbers = (0..).zip(&conditions).filter(|(_, condition)| unmet.contains(condition));
                    Value::Array(vec![
                        Value::Null,
                        Value::Array(numbers.map(|(number, _)| Value::Integer(number)).collect()),
                    ])
                }
                Committed::Contended => Value::Null,
            })
        })
    }

    fn awaited_call<'p>(
        &self,
        own: &Bound<'p, Remote>,
        make: impl FnOnce() -> Call<Value>,
        shape: Shape,
        decode: bool,
    ) -> PyResult<Bound<'p, PyAny>> {
        self.awaited(own, shape, decode, |completions, awaited| {
            let mut waits = false;
            let make = || {
                let call = make();
                waits = call.waits_in_server();
                call
            };
            (completions.add(make, awaited), waits)
        })
    }

    /// An awaitable of what `add` has looked after; `add` says whether it is to be ended if nothing waits for it any more.
    fn awaited<'p>(
        &self,
        own: &Bound<'p, Remote>,
        shape: Shape,
        decode: bool,
        add: impl FnOnce(&Completions<Awaited>, Awaited) -> (Added<Awaited>, bool),
    ) -> PyResult<Bound<'p, PyAny>> {
        let py = own.py();
        let Some(completions) = &self.core.get()?.completions else {
            return Err(PyRuntimeError::new_err("this client has no event loop; take polder.aio.connect"));
        };
        let (future, ask) = self.future(own)?;
        let (added, waits) = add(completions, Awaited { future: future.clone().unbind(), shape, decode });
        if let Some((call_soon, release)) = ask {
            call_soon.bind(py).call1((release,))?;
        }
        match added {
            Added::Ended(awaited, outcome) => {
                let reply =
                    self.looks.outcome(py, outcome, decode).and_then(|reply| awaited.shape.shaped(reply));
                Ready::awaitable(py, reply)
            }
            Added::InFlight(number) => {
                if waits {
                    // It would take an element later that no task waits for, or run although its task was cancelled.
                    let withdraw = Withdraw { remote: own.clone().unbind(), number };
                    future.call_method1(intern!(py, "add_done_callback"), (withdraw,))?;
                }
                Ok(future)
            }
        }
    }

    /// A new future, and what is to be called so that the calls of this turn are released, unless that has been asked for.
    #[allow(clippy::type_complexity)]
    fn future<'p>(
        &self,
        own: &Bound<'p, Remote>,
    ) -> PyResult<(Bound<'p, PyAny>, Option<(Py<PyAny>, Py<PyAny>)>)> {
        let py = own.py();
        let running = self.running_loop.bind(py).call0()?;
        if running.is_none() {
            return Err(PyRuntimeError::new_err(
                "no event loop runs in this thread: await the call inside of one",
            ));
        }
        let known = self.event_loop.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = known.as_ref().is_some_and(|known| known.itself.is(&running));
        drop(known);
        if !fits {
            self.join_loop(own, running)?;
        }
        let known = self.event_loop.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event_loop) = &*known else {
            return Err(PyRuntimeError::new_err("the event loop was left meanwhile"));
        };
        let create = event_loop.create_future.clone_ref(py);
        let is_first = !self.is_asked.swap(true, Ordering::Relaxed);
        let ask = is_first.then(|| (event_loop.call_soon.clone_ref(py), event_loop.release.clone_ref(py)));
        drop(known);
        Ok((create.bind(py).call0()?, ask))
    }

    /// The client belongs to this event loop from now on.
    fn join_loop<'p>(&self, own: &Bound<'p, Remote>, running: Bound<'p, PyAny>) -> PyResult<()> {
        let py = own.py();
        let before = self
            .event_loop
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(|known| known.itself.clone_ref(py));
        if let Some(before) = before
            && before.call_method0(py, "is_running")?.is_truthy(py)?
        {
            return Err(PyRuntimeError::new_err(
                "this client belongs to another event loop, which runs; connect once in each loop",
            ));
        }
        self.leave(py)?;
        running.call_method1("add_reader", (self.fileno(), own.getattr("process")?))?;
        let joined = EventLoop {
            create_future: running.getattr("create_future")?.unbind(),
            call_soon: running.getattr("call_soon")?.unbind(),
            release: own.getattr("release")?.unbind(),
            itself: running.unbind(),
        };
        self.is_asked.store(false, Ordering::Relaxed);
        *self.event_loop.lock().unwrap_or_else(PoisonError::into_inner) = Some(joined);
        self.completions().into_iter().for_each(Completions::lend);
        Ok(())
    }

    fn settle(&self, py: Python<'_>, awaited: &Awaited, outcome: Result<Value, Error>) -> PyResult<()> {
        let future = awaited.future.bind(py);
        let reply =
            self.looks.outcome(py, outcome, awaited.decode).and_then(|reply| awaited.shape.shaped(reply));
        let settled = match reply {
            Ok(reply) => future.call_method1(intern!(py, "set_result"), (reply,)),
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error,)),
        };
        match settled {
            // It was cancelled, or its event loop is closed: its reply is not wanted.
            Err(_) if future.call_method0(intern!(py, "done"))?.is_truthy()? => Ok(()),
            settled => settled.map(drop),
        }
    }
}

/// Takes a call back when its future is cancelled.
#[pyclass(frozen, module = "polder._polder")]
struct Withdraw {
    remote: Py<Remote>,
    number: CallNumber,
}

#[pymethods]
impl Withdraw {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0("cancelled")?.is_truthy()? {
            let withdrawn =
                self.remote.get().completions().and_then(|completions| completions.cancel(self.number));
            drop(withdrawn);
        }
        Ok(())
    }
}

/// A condition by its name and its words.
fn condition(kind: &str, words: &[Bound<'_, PyBytes>]) -> PyResult<Condition> {
    let word = |at: usize| words[at].as_bytes().to_vec();
    let length = || std::str::from_utf8(words[1].as_bytes()).ok().and_then(|digits| digits.parse().ok());
    let made = match (kind, words.len()) {
        ("exists", 1) => Some(Condition::KeyExists(word(0))),
        ("absent", 1) => Some(Condition::KeyAbsent(word(0))),
        ("equals", 2) => Some(Condition::ValueEquals(word(0), word(1))),
        ("differs", 2) => Some(Condition::ValueDiffers(word(0), word(1))),
        ("field exists", 2) => Some(Condition::FieldExists(word(0), word(1))),
        ("field equals", 3) => Some(Condition::FieldEquals(word(0), word(1), word(2))),
        ("member exists", 2) => Some(Condition::MemberExists(word(0), word(1))),
        ("length", 2) => length().map(|length| Condition::LengthEquals(word(0), length)),
        _ => None,
    };
    made.ok_or_else(|| {
        PyRuntimeError::new_err(format!("there is no condition '{kind}' of {} words", words.len()))
    })
}

struct ThreadWaker(std::thread::Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future while other threads run; signals are looked at now and then.
pub fn waited<R>(py: Python<'_>, mut future: impl Future<Output = R> + Unpin) -> PyResult<R> {
    let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
    loop {
        match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return Ok(outcome),
            Poll::Pending => py.detach(|| std::thread::park_timeout(SIGNALS_LOOK)),
        }
        py.check_signals()?;
    }
}

impl Looks {
    fn words<'p>(&self, args: &Bound<'p, PyTuple>) -> PyResult<Words<'p>> {
        let mut words = Words::new();
        for arg in args.iter_borrowed() {
            words.push(match word(&arg)? {
                Some(word) => word,
                None => {
                    let encoded = self.encode.bind(args.py()).call1((arg,))?;
                    args.py().get_type::<PyBytes>().call1((encoded,))?.cast_into()?
                }
            });
        }
        Ok(words)
    }

    fn raised(&self, py: Python<'_>, error: &Error) -> PyErr {
        let kind = match error {
            Error::Refused(_) => "refused",
            Error::NotSent(_) => "not sent",
            Error::OutcomeUnknown(_) => "outcome unknown",
            Error::TimedOut(_) => "timed out",
            _ => "usage",
        };
        match self.exception(py, kind, &error.to_string()) {
            Ok(exception) => PyErr::from_value(exception),
            Err(failure) => failure,
        }
    }

    fn exception<'p>(&self, py: Python<'p>, kind: &str, text: &str) -> PyResult<Bound<'p, PyAny>> {
        self.error.bind(py).call1((kind, text))
    }

    fn outcome<'p>(
        &self,
        py: Python<'p>,
        outcome: Result<Value, Error>,
        decode: bool,
    ) -> PyResult<Bound<'p, PyAny>> {
        match outcome {
            Ok(Value::Error(text)) => {
                Err(PyErr::from_value(self.exception(py, "refused", &String::from_utf8_lossy(&text))?))
            }
            Ok(value) => self.value(py, value, decode),
            Err(error) => Err(self.raised(py, &error)),
        }
    }

    fn value<'p>(&self, py: Python<'p>, value: Value, decode: bool) -> PyResult<Bound<'p, PyAny>> {
        Ok(match value {
            Value::Null => py.None().into_bound(py),
            Value::Status(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => {
                shown(py, &text, decode)?
            }
            Value::Error(text) => self.exception(py, "refused", &String::from_utf8_lossy(&text))?,
            Value::Integer(number) => number.into_pyobject(py)?.into_any(),
            Value::Boolean(truth) => truth.into_pyobject(py)?.to_owned().into_any(),
            Value::Double(text) => py.get_type::<PyFloat>().call1((String::from_utf8_lossy(&text),))?,
            Value::BigNumber(text) => py.get_type::<PyInt>().call1((String::from_utf8_lossy(&text),))?,
            Value::Array(items) | Value::Set(items) | Value::Push(items) => {
                let items: PyResult<Vec<_>> =
                    items.into_iter().map(|item| self.value(py, item, decode)).collect();
                PyList::new(py, items?)?.into_any()
            }
            Value::Map(pairs) => {
                let dict = PyDict::new(py);
                for (key, value) in pairs {
                    dict.set_item(self.value(py, key, decode)?, self.value(py, value, decode)?)?;
                }
                dict.into_any()
            }
            Value::Attributed { value, .. } => self.value(py, *value, decode)?,
        })
    }
}

/// A text as Python has it: bytes, or str, which must be UTF-8.
fn shown<'p>(py: Python<'p>, text: &[u8], decode: bool) -> PyResult<Bound<'p, PyAny>> {
    if decode {
        Ok(PyString::from_bytes(py, text)?.into_any())
    } else {
        Ok(PyBytes::new(py, text).into_any())
    }
}
