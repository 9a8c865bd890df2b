//! The Python extension module that `polder/__init__.py` builds on. Bytes in, bytes out; names and reply types are made in Python.
//!
//! The GIL is released while a caller waits, but not for a GET of 0.1 us: taking it again would cost more than the call. If a call meets a lock that
//! it cannot get at once, or a CLIENT PAUSE, it is made again without the GIL, since the holder of the lock may be stopped. Waiting is a loop in
//! Python, so that signals, and exceptions that other threads send, reach it.
#![forbid(unsafe_code)]

mod caller;
mod changes;
mod fast_command;
mod feed;
mod interrupt;
mod ready;
mod remote;
mod rooted;
mod shape;
mod strings;

use std::sync::Arc;
use std::time::Duration;

use caller::Caller;
use changes::Changes;
use fast_command::FastCommand;
use feed::Feed;
use polder_engine::{Database, Error as CallError, Expiry, NoSuchUser, Options, SetOptions, Stop};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyString, PyTuple};
use ready::Ready;
use remote::Remote;
use strings::Strings;

create_exception!(
    polder,
    Error,
    PyException,
    "What Polder raises: Refused, Fault or Ended. redis-py's methods raise redis-py's errors."
);
create_exception!(polder, Fault, Error, "The memory, the system or another process failed.");
create_exception!(polder, Refused, Error, "The command says no: its error text.");
create_exception!(
    polder,
    Ended,
    Error,
    "The caller was ended, or cannot be used here any more: another one is needed."
);

fn failed(error: CallError) -> PyErr {
    match error {
        CallError::Refused(text) => Refused::new_err(text),
        CallError::Fault(fault) => Fault::new_err(fault.to_string()),
        ended @ (CallError::Closed | CallError::Lost | CallError::Forked | CallError::WrongThread) => {
            Ended::new_err(ended.to_string())
        }
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

fn stopped(stop: Stop) -> PyErr {
    match stop {
        Stop::Refused(text) => Refused::new_err(text.into_owned()),
        other => Fault::new_err(other.to_string()),
    }
}

/// What is handed in as a key or a value: bytes as they lie, a text as UTF-8. Looked at by hand, since a derived extraction makes an exception of
/// every type that did not fit before it finds the one that does.
fn text<'p>(given: &Bound<'p, PyAny>) -> PyResult<Bound<'p, PyBytes>> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    match given.cast::<PyString>() {
        Ok(text) => text.encode_utf8(),
        Err(_) => {
            Err(PyTypeError::new_err(format!("bytes or str are wanted, not {}", given.get_type().name()?)))
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
    #[pyo3(signature = (segment, ceiling=None, create=true, owner=""))]
    fn attach(segment: &str, ceiling: Option<u64>, create: bool, owner: &str) -> PyResult<Memory> {
        let defaults = Options::default();
        let owner = owner.parse().map_err(|error: NoSuchUser| Fault::new_err(error.to_string()))?;
        let options = Options {
            segment: segment.into(),
            ceiling: ceiling.unwrap_or(defaults.ceiling),
            create,
            owner,
            ..defaults
        };
        let memory =
            polder_engine::Memory::attach(&options).map_err(|fault| Fault::new_err(fault.to_string()))?;
        Ok(Memory { memory: Arc::new(memory) })
    }

    /// The segment's whole name.
    #[getter]
    fn segment(&self) -> String {
        self.memory.table().segment().mapping().name().to_string()
    }

    /// Whether the segment has been removed: others that attach the name find another one.
    #[getter]
    fn removed(&self) -> bool {
        self.memory.table().segment().removed()
    }

    /// By name: the other process attaches the same segment.
    fn __reduce__<'p>(&self, py: Python<'p>) -> PyResult<(Bound<'p, PyAny>, Bound<'p, PyTuple>)> {
        let again = (self.segment(), None::<u64>, false).into_pyobject(py)?;
        Ok((py.import("polder")?.getattr("memory")?, again))
    }

    /// Takes a segment's name away.
    #[staticmethod]
    fn remove(segment: &str) -> PyResult<()> {
        polder_engine::Memory::remove(segment).map_err(|fault| Fault::new_err(fault.to_string()))
    }

    /// The string in a key, or None.
    #[pyo3(signature = (key, db=0))]
    fn get<'p>(&self, key: &Bound<'p, PyAny>, db: u8) -> PyResult<Option<Bound<'p, PyBytes>>> {
        read(&self.memory, db, text(key)?.as_bytes(), key.py())
    }

    /// Gives a key a string, for ever or until a time in milliseconds since the Unix epoch.
    #[pyo3(signature = (key, value, expiry_ms=None, db=0))]
    fn set(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expiry_ms: Option<u64>,
        db: u8,
    ) -> PyResult<()> {
        write(&self.memory, db, text(key)?.as_bytes(), value, expiry_ms)
    }

    /// Takes a key of any kind away; says whether it was there.
    #[pyo3(signature = (key, db=0))]
    fn delete(&self, key: &Bound<'_, PyAny>, db: u8) -> PyResult<bool> {
        remove(&self.memory, db, text(key)?.as_bytes(), key.py())
    }

    /// Adds to the integer in a key; returns the sum.
    #[pyo3(signature = (key, by, db=0))]
    fn add(&self, key: &Bound<'_, PyAny>, by: i64, db: u8) -> PyResult<i64> {
        add(&self.memory, db, text(key)?.as_bytes(), by, key.py())
    }

    /// Follows what is committed, from a position on or from now on. Turns the change log of the memory on, which costs every write something.
    #[pyo3(signature = (position=None))]
    fn changes(&self, py: Python<'_>, position: Option<&str>) -> PyResult<Changes> {
        Changes::of(py, &self.memory, position)
    }

    /// Turns the change log off, for all followers.
    fn stop_changes(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.memory.stop_changes()).map_err(stopped)
    }

    /// Keeps a follower's position under a name, and the change log from there on, up to 256 MiB of it or an eighth of a memory that is smaller
    /// than 2 GiB. The name outlives the follower and its process, until forget_follower.
    fn keep_follower(&self, py: Python<'_>, name: &Bound<'_, PyAny>, position: &str) -> PyResult<()> {
        let (name, position) = (text(name)?.as_bytes().to_vec(), changes::position_of(position)?);
        py.detach(|| self.memory.keep_follower(&name, &position)).map_err(stopped)
    }

    /// The position that was kept last under a name, for `changes`; None: there is no such follower.
    fn follower(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let name = text(name)?.as_bytes().to_vec();
        let found = py.detach(|| self.memory.follower(&name)).map_err(stopped)?;
        Ok(found.map(|position| position.to_string()))
    }

    /// The followers that have a name: name, position, and how many bytes of the stream each has not followed yet (None: they are not kept).
    fn followers<'p>(&self, py: Python<'p>) -> PyResult<Vec<FollowerPlace<'p>>> {
        let all = py.detach(|| self.memory.followers()).map_err(stopped)?;
        let told = |follower: polder_engine::Follower| {
            (PyBytes::new(py, &follower.name), follower.position.to_string(), follower.lag)
        };
        Ok(all.into_iter().map(told).collect())
    }

    /// Forgets a follower; returns whether there was one of this name.
    fn forget_follower(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = text(name)?.as_bytes().to_vec();
        py.detach(|| self.memory.forget_follower(&name)).map_err(stopped)
    }
}

/// A follower that has a name: name, position, and how many bytes of the stream it has not followed yet.
type FollowerPlace<'p> = (Bound<'p, PyBytes>, String, Option<u64>);

/// How long a call may keep the GIL while it waits for a lock.
const PATIENCE: Duration = Duration::from_micros(100);
/// How long one waits without it before signals are looked at.
const SIGNALS_LOOK: Duration = Duration::from_millis(50);
/// How soon an end of a pause is seen.
const PAUSE_NAP: Duration = Duration::from_millis(20);

/// Does something with a database; what would wait for long is done again while others run, and signals are looked at now and then.
fn on_database<'m, R: Send>(
    py: Python<'_>,
    memory: &'m polder_engine::Memory,
    db: u8,
    work: impl Fn(Database<'m>) -> Result<R, Stop> + Send + Sync,
) -> PyResult<R> {
    let mut done = work(memory.database(db).impatient(PATIENCE));
    while matches!(done, Err(Stop::Busy)) {
        py.check_signals()?;
        done = py.detach(|| {
            // The call itself does not wait for the end of a pause.
            std::thread::sleep(memory.paused_for(true).min(PAUSE_NAP));
            work(memory.database(db).impatient(SIGNALS_LOOK))
        });
    }
    done.map_err(stopped)
}

fn read<'p>(
    memory: &polder_engine::Memory,
    db: u8,
    key: &[u8],
    py: Python<'p>,
) -> PyResult<Option<Bound<'p, PyBytes>>> {
    let database = memory.database(db).impatient(PATIENCE);
    match database.read(key, |value| value.map(|value| PyBytes::new(py, value))) {
        Err(Stop::Busy) => {
            let copy = on_database(py, memory, db, |database| database.get(key))?;
            Ok(copy.map(|value| PyBytes::new(py, &value)))
        }
        shown => shown.map_err(stopped),
    }
}

fn write(
    memory: &polder_engine::Memory,
    db: u8,
    key: &[u8],
    value: &Bound<'_, PyAny>,
    expiry_ms: Option<u64>,
) -> PyResult<()> {
    let (py, value) = (value.py(), text(value)?);
    let value = value.as_bytes();
    on_database(py, memory, db, |database| match expiry_ms {
        Some(expiry_ms) => {
            database.set_with(key, value, &SetOptions::new().expiry(Expiry::at_ms(expiry_ms))).map(drop)
        }
        None => database.set(key, value),
    })
}

fn remove(memory: &polder_engine::Memory, db: u8, key: &[u8], py: Python<'_>) -> PyResult<bool> {
    on_database(py, memory, db, |database| Ok(database.del(&[key])? > 0))
}

fn add(memory: &polder_engine::Memory, db: u8, key: &[u8], by: i64, py: Python<'_>) -> PyResult<i64> {
    on_database(py, memory, db, |database| database.incrby(key, by))
}

#[pymodule]
mod _polder {
    use super::*;
    #[pymodule_export]
    use super::{
        Caller, Changes, Ended, Error, FastCommand, Fault, Feed, Memory, Ready, Refused, Remote, Strings,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let plain = polder_engine::natures().filter(|nature| nature.plain).map(|nature| nature.name);
        module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
        module.add("PLAIN", PyFrozenSet::new(module.py(), plain)?)?;
        let names = PyDict::new(module.py());
        for nature in polder_engine::natures() {
            let name = nature.name.to_ascii_lowercase().replace(['|', '-'], "_");
            let name = if name == "del" { "del_".into() } else { name };
            names.set_item(name, PyTuple::new(module.py(), nature.name.split('|').collect::<Vec<_>>())?)?;
        }
        module.add("NAMES", names)
    }
}
