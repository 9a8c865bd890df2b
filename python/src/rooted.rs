//! What belongs to the process that made it: threads of the client do not live on in a forked child.
use polder_engine::{generation, watch_forks};
use pyo3::prelude::*;

use crate::Ended;

/// A value whose locks a thread of the parent may have held at a fork. In the child it is neither used nor dropped: either might wait for ever.
pub struct Rooted<T> {
    it: Option<T>,
    generation: u64,
}

impl<T> Rooted<T> {
    /// A value of this process.
    pub fn new(it: T) -> Rooted<T> {
        // A program that attaches no memory would not count its forks otherwise.
        watch_forks();
        Rooted { it: Some(it), generation: generation() }
    }

    /// The value.
    ///
    /// # Errors
    /// `Ended` in a forked child.
    pub fn get(&self) -> PyResult<&T> {
        match &self.it {
            Some(it) if self.generation == generation() => Ok(it),
            _ => Err(Ended::new_err(
                "this was made before the process was forked; take it from the client again, in the child",
            )),
        }
    }
}

impl<T> Drop for Rooted<T> {
    fn drop(&mut self) {
        if self.generation != generation() {
            std::mem::forget(self.it.take());
        }
    }
}
