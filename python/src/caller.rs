//! Every command by its arguments: what redis-py takes for a connection stands on this.
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use polder_engine::{Answer, Error, Item, Protocol, generation};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyNotImplemented, PyString, PyTuple};
use smallvec::SmallVec;

use crate::{Ended, Memory, SIGNALS_LOOK, failed, interrupt};

/// An argument as redis-py encodes it with its default encoding, where it is of one of the four types that need no thought.
pub fn word<'p>(arg: &Bound<'p, PyAny>) -> PyResult<Option<Bound<'p, PyBytes>>> {
    if let Ok(bytes) = arg.cast_exact::<PyBytes>() {
        return Ok(Some(bytes.clone()));
    }
    if let Ok(text) = arg.cast_exact::<PyString>() {
        return text.encode_utf8().map(Some);
    }
    if arg.is_exact_instance_of::<PyInt>() || arg.is_exact_instance_of::<PyFloat>() {
        return arg.repr()?.encode_utf8().map(Some);
    }
    Ok(None)
}

/// The words of a call.
pub type Words<'p> = SmallVec<[Bound<'p, PyBytes>; 8]>;

/// Runs what may take its time, while others run; signals are looked at now and then.
fn patiently<R: Send>(
    py: Python<'_>,
    caller: &mut polder_engine::Caller,
    mut work: impl FnMut(&mut polder_engine::Caller) -> Result<R, Error> + Send,
) -> PyResult<Result<R, Error>> {
    loop {
        let done = py.detach(|| {
            caller.limit_patience(Some(SIGNALS_LOOK));
            let done = work(caller);
            caller.set_lock_timeout(true);
            done
        });
        match done {
            Err(Error::Busy) => py.check_signals()?,
            done => return Ok(done),
        }
    }
}

/// To a memory what a connection is to a server. One call at a time.
#[pyclass(frozen, module = "polder._polder")]
pub struct Caller {
    caller: Mutex<polder_engine::Caller>,
    /// The generation of the process that used it last.
    generation: AtomicU64,
    /// Makes an exception of an error's text.
    error: Py<PyAny>,
    /// Texts come as str (UTF-8) and not as bytes.
    decode: bool,
}

#[pymethods]
impl Caller {
    /// `protocol`: 2 or 3, the shapes of replies; `error`: makes an exception of an error's text; `decode`: texts as str.
    #[new]
    #[pyo3(signature = (memory, protocol, error, decode=false))]
    fn open(memory: &Memory, protocol: u8, error: Py<PyAny>, decode: bool) -> PyResult<Caller> {
        let protocol = match protocol {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            other => return Err(PyValueError::new_err(format!("there is no protocol {other}"))),
        };
        let mut caller = polder_engine::Caller::speaking(&memory.memory, protocol);
        caller.set_lock_timeout(true);
        caller.interrupt_when(interrupt::look);
        Ok(Caller { caller: Mutex::new(caller), generation: AtomicU64::new(generation()), error, decode })
    }

    /// Begins a call that may wait: its replies, or None while it waits.
    fn start<'p>(
        &self,
        py: Python<'p>,
        args: Vec<Bound<'p, PyBytes>>,
    ) -> PyResult<Option<Bound<'p, PyList>>> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let mut caller = self.own()?;
        let own = &mut *caller;
        let long =
            args.first().and_then(|name| polder_engine::nature(name)).is_some_and(|nature| nature.long);
        let answered = match if long { Err(Error::Busy) } else { own.start(&args) } {
            Err(Error::Busy) => patiently(py, own, |own| own.start(&args))?,
            answered => answered,
        };
        drop(caller);
        interrupt::taken()?;
        self.progressed(py, answered)
    }

    /// Runs a call that is in PLAIN: its reply. NotImplemented, and nothing has happened, where an argument is of a type that is left to Python, or
    /// another thread is at it.
    #[pyo3(signature = (*args))]
    fn call<'p>(&self, args: &Bound<'p, PyTuple>) -> PyResult<Bound<'p, PyAny>> {
        let py = args.py();
        let mut words = Words::new();
        for arg in args.iter_borrowed() {
            match word(&arg)? {
                Some(word) => words.push(word),
                None => return Ok(PyNotImplemented::get(py).to_owned().into_any()),
            }
        }
        match self.attempt(py, &words)? {
            Some(reply) => Ok(reply),
            None => Ok(PyNotImplemented::get(py).to_owned().into_any()),
        }
    }

    /// Raises Ended where it cannot be used here any more.
    fn admit(&self) -> PyResult<()> {
        self.own()?.admit().map_err(failed)
    }

    /// Whether that is so because it listens in another thread, or in the process that this one was forked from.
    fn is_elsewhere(&self, py: Python<'_>) -> PyResult<bool> {
        match self.own() {
            Ok(mut caller) => Ok(matches!(caller.admit(), Err(Error::WrongThread | Error::Forked))),
            Err(busy) if busy.is_instance_of::<Ended>(py) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Goes on with it.
    fn resume<'p>(&self, py: Python<'p>) -> PyResult<Option<Bound<'p, PyList>>> {
        let answered = self.own()?.resume();
        interrupt::taken()?;
        self.progressed(py, answered)
    }

    /// Ends it as its timeout would.
    fn cancel(&self) -> PyResult<()> {
        self.own()?.cancel().map_err(failed)
    }

    /// Sleeps until a pending call may go on or a message has come, for at most `seconds` and half a second. Other Python threads run meanwhile.
    fn rest(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let mut caller = self.own()?;
        let own = &mut *caller;
        let patience = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        py.detach(|| own.rest(patience)).map_err(failed)
    }

    /// Until when it waits, in milliseconds since the Unix epoch; None: for ever, or not at all.
    fn until_ms(&self) -> PyResult<Option<u64>> {
        Ok(self.own()?.until_ms().filter(|until_ms| *until_ms != u64::MAX))
    }

    /// What has been heard.
    fn hear<'p>(&self, py: Python<'p>) -> PyResult<Bound<'p, PyList>> {
        let heard = PyList::empty(py);
        let mut failure = Ok(());
        let hear = |item: Item<'_>| {
            let told = self.value(py, item).and_then(|message| heard.append(message));
            failure = std::mem::replace(&mut failure, Ok(())).and(told);
        };
        self.own()?.hear(Duration::ZERO, hear).map_err(failed)?;
        failure.map(|()| heard)
    }

    /// A descriptor that is readable when there is something to hear or to go on with. Close it.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.own()?.descriptor().map_err(failed)?.into_raw_fd())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a caller cannot be pickled; pickle the memory and make a caller in the other process",
        ))
    }

    fn __traverse__(&self, visit: pyo3::gc::PyVisit<'_>) -> Result<(), pyo3::gc::PyTraverseError> {
        visit.call(&self.error)
    }
}

impl Caller {
    /// The reply to a call that never waits for a key; `None` where another thread is at it.
    pub fn attempt<'p>(&self, py: Python<'p>, words: &Words<'p>) -> PyResult<Option<Bound<'p, PyAny>>> {
        let words: SmallVec<[&[u8]; 8]> = words.iter().map(|word| word.as_bytes()).collect();
        // Python code may run while a reply is taken over (the collector's finalizers), and call in here again.
        let Ok(mut caller) = self.caller.try_lock() else { return Ok(None) };
        self.generation.store(generation(), Ordering::Relaxed);
        let shown = match caller.show(&words, |item| self.value(py, item)) {
            Err(Error::Busy) => {
                patiently(py, &mut caller, |own| own.run(&words))?.map(|answer| self.value(py, answer.item()))
            }
            shown => shown,
        };
        match shown {
            Ok(reply) => reply.map(Some),
            Err(Error::Refused(text)) => {
                drop(caller);
                Err(PyErr::from_value(self.error(py, text.as_bytes())?))
            }
            // The caller was ended (CLIENT KILL), and the call has done nothing. The slow path makes another caller, or raises the error as
            // redis-py does.
            Err(Error::Closed) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn own(&self) -> PyResult<MutexGuard<'_, polder_engine::Caller>> {
        match self.caller.try_lock() {
            Ok(caller) => {
                self.generation.store(generation(), Ordering::Relaxed);
                Ok(caller)
            }
            Err(TryLockError::Poisoned(_)) => {
                Err(PyRuntimeError::new_err("a defect of Polder has ended this caller"))
            }
            Err(TryLockError::WouldBlock) if self.is_parents() => Err(Ended::new_err(
                "ERR a thread of the parent was using this caller when the process was forked: make a new one",
            )),
            Err(TryLockError::WouldBlock) => {
                Err(PyRuntimeError::new_err("this caller runs a call in another thread"))
            }
        }
    }

    /// Whether it is in use for good: by a thread that a forked child does not have.
    fn is_parents(&self) -> bool {
        /// Who has just taken it says so within this time.
        const A_MOMENT: Duration = Duration::from_millis(20);
        let is_old = || self.generation.load(Ordering::Relaxed) != generation();
        if is_old() {
            std::thread::sleep(A_MOMENT);
        }
        is_old() && matches!(self.caller.try_lock(), Err(TryLockError::WouldBlock))
    }

    fn progressed<'p>(
        &self,
        py: Python<'p>,
        answered: Result<Option<Answer>, Error>,
    ) -> PyResult<Option<Bound<'p, PyList>>> {
        match answered {
            Ok(Some(answer)) => self.replies(py, &answer).map(Some),
            Ok(None) => Ok(None),
            Err(Error::Refused(text)) => PyList::new(py, [self.error(py, text.as_bytes())?]).map(Some),
            Err(error) => Err(failed(error)),
        }
    }

    fn replies<'p>(&self, py: Python<'p>, answer: &Answer) -> PyResult<Bound<'p, PyList>> {
        PyList::new(py, answer.items().map(|item| self.value(py, item)).collect::<PyResult<Vec<_>>>()?)
    }

    fn error<'p>(&self, py: Python<'p>, text: &[u8]) -> PyResult<Bound<'p, PyAny>> {
        self.error.bind(py).call1((String::from_utf8_lossy(text),))
    }

    fn value<'p>(&self, py: Python<'p>, item: Item<'_>) -> PyResult<Bound<'p, PyAny>> {
        let list = |items: polder_engine::Items<'_>| -> PyResult<Bound<'p, PyAny>> {
            Ok(PyList::new(py, items.map(|item| self.value(py, item)).collect::<PyResult<Vec<_>>>()?)?
                .into_any())
        };
        Ok(match item {
            Item::Null => py.None().into_bound(py),
            Item::Status(text) | Item::Bulk(text) | Item::Verbatim(_, text) if self.decode => {
                PyString::from_bytes(py, text)?.into_any()
            }
            Item::Status(text) | Item::Bulk(text) | Item::Verbatim(_, text) => {
                PyBytes::new(py, text).into_any()
            }
            Item::Error(text) => self.error(py, text)?,
            Item::Integer(value) => value.into_pyobject(py)?.into_any(),
            Item::Double(value) => value.into_pyobject(py)?.into_any(),
            Item::Boolean(value) => value.into_pyobject(py)?.to_owned().into_any(),
            Item::BigNumber(text) => {
                py.get_type::<pyo3::types::PyInt>().call1((String::from_utf8_lossy(text),))?
            }
            Item::Array(items) | Item::Set(items) | Item::Push(items) => list(items)?,
            Item::Map(mut items) => {
                let dict = PyDict::new(py);
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    dict.set_item(self.value(py, key)?, self.value(py, value)?)?;
                }
                dict.into_any()
            }
        })
    }
}
