//! What is committed to a memory, for those who follow it.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polder_engine::{Changed, Position, Stop};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::stopped;

/// Transactions that are read at once.
const BATCH_MAX: usize = 1000;

/// What is committed to a memory, in order: an iterator that ends where nothing is left, and goes on when it is asked again later.
#[pyclass(frozen, module = "polder._polder")]
pub struct Changes {
    memory: Arc<polder_engine::Memory>,
    state: Mutex<State>,
}

struct State {
    /// Behind what has been returned, and behind what has been read.
    position: Position,
    read: Position,
    waiting: VecDeque<Changed>,
}

/// A command: its database, and its words.
type Command<'p> = (u16, Bound<'p, PyList>);

/// The position that a text is.
pub fn position_of(text: &str) -> PyResult<Position> {
    let wrong =
        || PyValueError::new_err(format!("{text} is no position: give one that Changes.position was"));
    Position::parse(text).ok_or_else(wrong)
}

impl Changes {
    /// A follower from a position on, or from now on.
    pub fn of(
        py: Python<'_>,
        memory: &Arc<polder_engine::Memory>,
        position: Option<&str>,
    ) -> PyResult<Changes> {
        let from = position.map(position_of).transpose()?;
        let begun = py.detach(|| memory.changes(from).map(|changes| changes.position().clone()));
        let position = begun.map_err(stopped)?;
        let state = State { read: position.clone(), position, waiting: VecDeque::new() };
        Ok(Changes { memory: Arc::clone(memory), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Result<Option<Changed>, Stop> {
        let state = &mut *self.state();
        if state.waiting.is_empty() {
            let mut changes = self.memory.changes(Some(state.read.clone()))?;
            while state.waiting.len() < BATCH_MAX
                && let Some(changed) = changes.next()?
            {
                state.waiting.push_back(changed);
            }
            state.read = changes.position().clone();
        }
        let next = state.waiting.pop_front();
        if let Some(changed) = &next {
            state.position = changed.position.clone();
        }
        Ok(next)
    }
}

#[pymethods]
impl Changes {
    fn __iter__(this: Py<Changes>) -> Py<Changes> {
        this
    }

    /// The next transaction: its commands, each with its database. Raises Refused where the position is not kept any more.
    fn __next__<'p>(&self, py: Python<'p>) -> PyResult<Option<Vec<Command<'p>>>> {
        let Some(changed) = py.detach(|| self.next()).map_err(stopped)? else { return Ok(None) };
        let command = |command: &polder_engine::ChangeCommand| {
            let words = command.words.iter().map(|word| PyBytes::new(py, word));
            Ok((command.db, PyList::new(py, words)?))
        };
        changed.commands.iter().map(command).collect::<PyResult<_>>().map(Some)
    }

    /// Where to go on behind the transaction that was returned last: a text to be kept with what was made of it.
    #[getter]
    fn position(&self) -> String {
        self.state().position.to_string()
    }
}
