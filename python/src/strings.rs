//! The strings of a database as a mapping: the fastest way to use them from Python.
use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use smallvec::SmallVec;

use crate::{Memory, add, read, remove, text, write};

/// The strings whose keys begin with a prefix; Python makes a whole mapping of it (`polder.Cache`).
#[pyclass(frozen, subclass, module = "polder._polder")]
pub struct Strings {
    memory: Arc<polder_engine::Memory>,
    prefix: Vec<u8>,
    db: u8,
}

impl Strings {
    /// Shows a key with its prefix.
    fn named<R>(&self, key: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> PyResult<R>) -> PyResult<R> {
        let key = text(key)?;
        if self.prefix.is_empty() {
            return work(key.as_bytes());
        }
        let mut whole: SmallVec<[u8; 128]> = SmallVec::from_slice(&self.prefix);
        whole.extend_from_slice(key.as_bytes());
        work(&whole)
    }

    fn read<'p>(&self, key: &Bound<'p, PyAny>) -> PyResult<Option<Bound<'p, PyBytes>>> {
        self.named(key, |name| read(&self.memory, self.db, name, key.py()))
    }

    fn missing(key: &Bound<'_, PyAny>) -> PyErr {
        PyKeyError::new_err(key.clone().unbind())
    }
}

#[pymethods]
impl Strings {
    #[new]
    fn over(memory: &Memory, prefix: &[u8], db: u8) -> Strings {
        Strings { memory: memory.memory.clone(), prefix: prefix.to_vec(), db }
    }

    fn __getitem__<'p>(&self, key: &Bound<'p, PyAny>) -> PyResult<Bound<'p, PyBytes>> {
        self.read(key)?.ok_or_else(|| Strings::missing(key))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.named(key, |name| write(&self.memory, self.db, name, value, None))
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let there = self.named(key, |name| remove(&self.memory, self.db, name, key.py()))?;
        if there { Ok(()) } else { Err(Strings::missing(key)) }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.read(key)?.is_some())
    }

    /// The string in a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'p>(
        &self,
        key: &Bound<'p, PyAny>,
        default: Option<Bound<'p, PyAny>>,
    ) -> PyResult<Option<Bound<'p, PyAny>>> {
        Ok(self.read(key)?.map(Bound::into_any).or(default))
    }

    /// Gives a key a string until a time in milliseconds since the Unix epoch.
    fn set_until(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, expiry_ms: u64) -> PyResult<()> {
        self.named(key, |name| write(&self.memory, self.db, name, value, Some(expiry_ms)))
    }

    /// Adds to the integer in a key, where an absent one counts as 0; returns the sum.
    #[pyo3(signature = (key, by=1))]
    fn add(&self, key: &Bound<'_, PyAny>, by: i64) -> PyResult<i64> {
        self.named(key, |name| add(&self.memory, self.db, name, by, key.py()))
    }
}
