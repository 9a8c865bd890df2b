//! What becomes of a reply before Python sees it.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

/// What becomes of a reply.
pub enum Shape {
    Raw,
    Truth,
    /// True for OK.
    Set,
    /// By a function of Python's.
    By(Py<PyAny>),
}

impl Shape {
    /// As redis-py's callback for a command wants it.
    pub fn of(command: &[u8], callback: Option<&Bound<'_, PyAny>>) -> Shape {
        match callback {
            _ if command == b"SET" => Shape::Set,
            None => Shape::Raw,
            Some(callback) if callback.is(PyType::new::<PyBool>(callback.py())) => Shape::Truth,
            Some(callback) => Shape::By(callback.clone().unbind()),
        }
    }

    /// The same for another reply.
    pub fn copied(&self, py: Python<'_>) -> Shape {
        match self {
            Shape::Raw => Shape::Raw,
            Shape::Truth => Shape::Truth,
            Shape::Set => Shape::Set,
            Shape::By(callback) => Shape::By(callback.clone_ref(py)),
        }
    }

    /// Gives a reply its shape.
    pub fn shaped<'p>(&self, reply: Bound<'p, PyAny>) -> PyResult<Bound<'p, PyAny>> {
        let py = reply.py();
        let truth = |truth: bool| Ok(PyBool::new(py, truth).to_owned().into_any());
        match self {
            Shape::Raw => Ok(reply),
            Shape::Truth => truth(reply.is_truthy()?),
            // Without GET it replies with OK or nothing.
            Shape::Set if reply.is_none() => Ok(reply),
            Shape::Set => truth(true),
            Shape::By(callback) => callback.bind(py).call1((reply,)),
        }
    }

    /// Shows the garbage collector what it holds.
    pub fn traverse(&self, visit: &pyo3::gc::PyVisit<'_>) -> Result<(), pyo3::gc::PyTraverseError> {
        if let Shape::By(callback) = self { visit.call(callback) } else { Ok(()) }
    }
}
