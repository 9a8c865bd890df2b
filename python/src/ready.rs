//! An awaitable whose outcome is there already.
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;

/// Awaited, it gives its outcome at once: the event loop is not asked.
#[pyclass(module = "polder._polder")]
pub struct Ready {
    outcome: Option<PyResult<Py<PyAny>>>,
}

impl Ready {
    /// An awaitable of an outcome.
    pub fn awaitable<'p>(py: Python<'p>, outcome: PyResult<Bound<'p, PyAny>>) -> PyResult<Bound<'p, PyAny>> {
        Ok(Bound::new(py, Ready { outcome: Some(outcome.map(Bound::unbind)) })?.into_any())
    }
}

#[pymethods]
impl Ready {
    fn __await__(own: Py<Ready>) -> Py<Ready> {
        own
    }

    fn __iter__(own: Py<Ready>) -> Py<Ready> {
        own
    }

    fn __next__(&mut self) -> PyResult<Option<Py<PyAny>>> {
        match self.outcome.take() {
            Some(Ok(value)) => Err(PyStopIteration::new_err((value,))),
            Some(Err(error)) => Err(error),
            None => Err(PyRuntimeError::new_err(
                "the reply of this call was taken before; a call is awaited once",
            )),
        }
    }

    fn __traverse__(&self, visit: pyo3::gc::PyVisit<'_>) -> Result<(), pyo3::gc::PyTraverseError> {
        if let Some(Ok(value)) = &self.outcome { visit.call(value) } else { Ok(()) }
    }
}
