//! The methods of redis-py that are called most, without the Python between their arguments and a call.
//!
//! ```text
//!   client.get -> (instance attribute) FastCommand -> Caller -> memory, or Remote -> server
//!              \-> whatever it does not know how to do: the class's own method, as redis-py has it
//! ```
//!
//! **Invariant:** a fast path returns the same as the class's method, or leaves the call to it before anything has happened.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyString, PyTuple};

use crate::caller::{Caller, Words, word};
use crate::ready::Ready;
use crate::remote::Remote;
use crate::shape::Shape;

/// What a call goes through.
#[derive(FromPyObject)]
enum Door {
    Memory(Py<Caller>),
    Server(Py<Remote>),
}

/// A method of a client. It holds what the client's calls go through, and the client only by a weak reference: they belong to it.
#[pyclass(frozen, module = "polder._polder")]
pub struct FastCommand {
    door: Door,
    /// Whether a reply of the memory is to be awaited.
    awaited: bool,
    command: Py<PyBytes>,
    /// How many arguments it may have without names; those behind the first `least` have these values if they are left out.
    least: usize,
    most: usize,
    defaults: Vec<Py<PyBytes>>,
    shape: Shape,
    client: Py<PyAny>,
    method: Py<PyString>,
}

#[pymethods]
impl FastCommand {
    /// `command` for `least` to `most` arguments, with defaults for the last of them; `callback` as redis-py has it for the command; `client`: a weak
    /// reference to a client whose class has `method`.
    #[new]
    #[pyo3(signature = (door, command, least, most, defaults, callback, client, method, awaited=false))]
    #[expect(clippy::too_many_arguments, reason = "they are told once, by one place in Python")]
    fn over(
        door: Door,
        command: Bound<'_, PyBytes>,
        least: usize,
        most: usize,
        defaults: Vec<Py<PyBytes>>,
        callback: Option<Bound<'_, PyAny>>,
        client: Py<PyAny>,
        method: Py<PyString>,
        awaited: bool,
    ) -> FastCommand {
        let shape = Shape::of(command.as_bytes(), callback.as_ref());
        FastCommand { door, awaited, command: command.unbind(), least, most, defaults, shape, client, method }
    }

    #[pyo3(signature = (*args, **options))]
    fn __call__<'p>(
        &self,
        args: &Bound<'p, PyTuple>,
        options: Option<&Bound<'p, PyDict>>,
    ) -> PyResult<Bound<'p, PyAny>> {
        let py = args.py();
        if let Some(words) = self.words(args, options)?
            && let Some(reply) = self.attempt(py, &words)?
        {
            return Ok(reply);
        }
        let client = self.client.bind(py).call0()?;
        let way = client.get_type().getattr(self.method.bind(py))?;
        let whole: Vec<Bound<'p, PyAny>> = std::iter::once(client).chain(args.iter()).collect();
        way.call(PyTuple::new(py, whole)?, options)
    }

    fn __traverse__(&self, visit: pyo3::gc::PyVisit<'_>) -> Result<(), pyo3::gc::PyTraverseError> {
        match &self.door {
            Door::Memory(caller) => visit.call(caller)?,
            Door::Server(remote) => visit.call(remote)?,
        }
        visit.call(&self.client)?;
        self.shape.traverse(&visit)
    }
}

impl FastCommand {
    /// The words of a call; `None` where it is not one for here.
    fn words<'p>(
        &self,
        args: &Bound<'p, PyTuple>,
        options: Option<&Bound<'p, PyDict>>,
    ) -> PyResult<Option<Words<'p>>> {
        let (py, count) = (args.py(), args.len());
        if !(self.least..=self.most).contains(&count) {
            return Ok(None);
        }
        let mut words = Words::new();
        words.push(self.command.bind(py).clone());
        for arg in args.iter_borrowed() {
            let Some(word) = word(&arg)? else { return Ok(None) };
            words.push(word);
        }
        words.extend(self.defaults.iter().skip(count - self.least).map(|word| word.bind(py).clone()));
        match options {
            Some(options) if !matches!(self.shape, Shape::Set) || !set_options(options, &mut words)? => {
                Ok(None)
            }
            _ => Ok(Some(words)),
        }
    }

    /// Runs a call; `None`, and nothing has happened, where that is left to the class's method.
    fn attempt<'p>(&self, py: Python<'p>, words: &Words<'p>) -> PyResult<Option<Bound<'p, PyAny>>> {
        let caller = match &self.door {
            Door::Memory(caller) => caller.get(),
            Door::Server(remote) => return Remote::attempt(remote.bind(py), words, &self.shape).map(Some),
        };
        let shaped = caller
            .attempt(py, words)
            .and_then(|reply| reply.map(|reply| self.shape.shaped(reply)).transpose());
        if !self.awaited {
            return shaped;
        }
        shaped.transpose().map(|outcome| Ready::awaitable(py, outcome)).transpose()
    }
}

/// The options of SET that are told by name, as redis-py checks and orders them; false where that is better left to it.
fn set_options<'p>(options: &Bound<'p, PyDict>, words: &mut Words<'p>) -> PyResult<bool> {
    let py = options.py();
    let mut lifetimes = 0;
    for (name, value) in options.iter() {
        let name = name.cast_into::<PyString>()?;
        let amount = name == "ex" || name == "px";
        if value.is_none() || !amount && value.cast::<PyBool>().is_ok_and(|flag| !flag.is_true()) {
            continue;
        }
        let known = amount || name == "nx" || name == "xx" || name == "keepttl";
        let fits = if amount {
            value.is_exact_instance_of::<PyInt>()
        } else {
            value.cast::<PyBool>().is_ok_and(|flag| flag.is_true())
        };
        lifetimes += u32::from(amount || name == "keepttl");
        // Newer versions of redis-py say themselves that two of these exclude each other, older ones let the command say so.
        if !known || !fits || lifetimes > 1 {
            return Ok(false);
        }
        words.push(PyBytes::new(py, name.to_string_lossy().to_ascii_uppercase().as_bytes()));
        if amount {
            words.push(value.repr()?.encode_utf8()?);
        }
    }
    Ok(true)
}
