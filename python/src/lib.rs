//! The Python door: what `polder/__init__.py` stands on. Bytes in, bytes out; names and reply types are made in Python.
//!
//! The GIL is released where a caller rests, not for a GET of 0.1 us: taking it again would cost more than the call. Waiting is a loop in Python, so
//! that signals and exceptions that other threads send reach it.
#![forbid(unsafe_code)]

use std::os::fd::IntoRawFd;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use polder_engine::{Answer, Error, Item, Options, Protocol, Stop};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

create_exception!(_polder, Fault, PyException, "The memory, the system or another process failed.");
create_exception!(_polder, Refused, PyException, "The command says no: its error text.");

fn failed(error: Error) -> PyErr {
    match error {
        Error::Refused(text) => Refused::new_err(text),
        Error::Fault(fault) => Fault::new_err(fault.to_string()),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

fn stopped(stop: Stop) -> PyErr {
    match stop {
        Stop::Refused(text) => Refused::new_err(text.into_owned()),
        other => Fault::new_err(other.to_string()),
    }
}

/// Bytes, or a text as UTF-8.
#[derive(FromPyObject)]
enum Text<'p> {
    Bytes(Bound<'p, PyBytes>),
    Text(Bound<'p, PyString>),
}

impl Text<'_> {
    fn read<R>(&self, read: impl FnOnce(&[u8]) -> PyResult<R>) -> PyResult<R> {
        match self {
            Text::Bytes(bytes) => read(bytes.as_bytes()),
            Text::Text(text) => read(text.to_cow()?.as_bytes()),
        }
    }
}

/// An attached memory, for any thread and for forked children.
#[pyclass(frozen, module = "polder._polder")]
struct Memory {
    memory: Arc<polder_engine::Memory>,
}

#[pymethods]
impl Memory {
    /// Attaches a segment, and makes it where there is none.
    #[new]
    #[pyo3(signature = (segment, ceiling=None, create=true))]
    fn attach(segment: &str, ceiling: Option<u64>, create: bool) -> PyResult<Memory> {
        let defaults = Options::default();
        let options = Options { segment: segment.into(), ceiling: ceiling.unwrap_or(defaults.ceiling), create, ..defaults };
        let memory = polder_engine::Memory::attach(&options).map_err(|fault| Fault::new_err(fault.to_string()))?;
        Ok(Memory { memory: Arc::new(memory) })
    }

    /// Takes a segment's name away.
    #[staticmethod]
    fn remove(segment: &str) -> PyResult<()> {
        polder_engine::Memory::remove(segment).map_err(|fault| Fault::new_err(fault.to_string()))
    }

    /// The string in a key, or None.
    #[pyo3(signature = (key, db=0))]
    fn get<'p>(&self, py: Python<'p>, key: Text<'p>, db: u8) -> PyResult<Option<Bound<'p, PyBytes>>> {
        key.read(|key| self.memory.database(db).read(key, |value| value.map(|value| PyBytes::new(py, value))).map_err(stopped))
    }

    /// Gives a key a string, for ever or until a time in milliseconds since the Unix epoch.
    #[pyo3(signature = (key, value, expiry_ms=None, db=0))]
    fn set(&self, key: Text<'_>, value: Text<'_>, expiry_ms: Option<u64>, db: u8) -> PyResult<()> {
        let database = self.memory.database(db);
        key.read(|key| {
            value.read(|value| {
                let done = match expiry_ms {
                    Some(expiry_ms) => database.set_until(key, value, expiry_ms),
                    None => database.set(key, value),
                };
                done.map_err(stopped)
            })
        })
    }

    /// Takes a key of any kind away; says whether it was there.
    #[pyo3(signature = (key, db=0))]
    fn delete(&self, key: Text<'_>, db: u8) -> PyResult<bool> {
        key.read(|key| self.memory.database(db).remove(key).map_err(stopped))
    }

    /// Adds to the integer in a key; answers the sum.
    #[pyo3(signature = (key, by, db=0))]
    fn add(&self, key: Text<'_>, by: i64, db: u8) -> PyResult<i64> {
        key.read(|key| self.memory.database(db).add(key, by).map_err(stopped))
    }
}

/// To a memory what a connection is to a server. One call at a time.
#[pyclass(frozen, module = "polder._polder")]
struct Caller {
    caller: Mutex<polder_engine::Caller>,
    /// Makes an exception of an error's text.
    error: Py<PyAny>,
}

#[pymethods]
impl Caller {
    /// `protocol`: 2 or 3, the shapes of replies; `error`: makes an exception of an error's text.
    #[new]
    fn open(memory: &Memory, protocol: u8, error: Py<PyAny>) -> PyResult<Caller> {
        let protocol = match protocol {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            other => return Err(PyValueError::new_err(format!("there is no protocol {other}"))),
        };
        Ok(Caller { caller: Mutex::new(polder_engine::Caller::speaking(&memory.memory, protocol)), error })
    }

    /// Begins a call that may wait: its replies, or None while it waits.
    fn start<'p>(&self, py: Python<'p>, args: Vec<Bound<'p, PyBytes>>) -> PyResult<Option<Bound<'p, PyList>>> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let answered = self.own()?.start(&args);
        self.progressed(py, answered)
    }

    /// Goes on with it.
    fn resume<'p>(&self, py: Python<'p>) -> PyResult<Option<Bound<'p, PyList>>> {
        let answered = self.own()?.resume();
        self.progressed(py, answered)
    }

    /// Ends it as its timeout would.
    fn cancel(&self) -> PyResult<()> {
        self.own()?.cancel().map_err(failed)
    }

    /// Sleeps until there may be something to go on with or to hear, at most so many seconds and half a second; others run meanwhile.
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

    fn __traverse__(&self, visit: pyo3::gc::PyVisit<'_>) -> Result<(), pyo3::gc::PyTraverseError> {
        visit.call(&self.error)
    }
}

impl Caller {
    fn own(&self) -> PyResult<MutexGuard<'_, polder_engine::Caller>> {
        match self.caller.try_lock() {
            Ok(caller) => Ok(caller),
            Err(TryLockError::Poisoned(_)) => Err(PyRuntimeError::new_err("a defect of Polder has ended this caller")),
            Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err("this caller runs a call in another thread")),
        }
    }

    fn progressed<'p>(&self, py: Python<'p>, answered: Result<Option<Answer>, Error>) -> PyResult<Option<Bound<'p, PyList>>> {
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
            Ok(PyList::new(py, items.map(|item| self.value(py, item)).collect::<PyResult<Vec<_>>>()?)?.into_any())
        };
        Ok(match item {
            Item::Null => py.None().into_bound(py),
            Item::Status(text) | Item::Bulk(text) | Item::Verbatim(_, text) => PyBytes::new(py, text).into_any(),
            Item::Error(text) => self.error(py, text)?,
            Item::Integer(value) => value.into_pyobject(py)?.into_any(),
            Item::Double(value) => value.into_pyobject(py)?.into_any(),
            Item::Boolean(value) => value.into_pyobject(py)?.to_owned().into_any(),
            Item::BigNumber(text) => py.get_type::<pyo3::types::PyInt>().call1((String::from_utf8_lossy(text),))?,
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

#[pymodule]
mod _polder {
    #[pymodule_export]
    use super::{Caller, Fault, Memory, Refused};
}
