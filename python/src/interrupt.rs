//! Ctrl-C, and what else a signal handler raises, ends a script that runs in this process.
//!
//! ```text
//!   script -> (after some instructions) ----> look: takes the GIL and runs the handlers of pending signals
//!                                               | a handler raised: the script is undone, the exception is kept
//!   Caller.start <- taken: the kept exception <-+
//! ```
//!
//! **Invariant:** an exception that is kept here is raised by the call that was ended for it, on the same thread.
use std::cell::{Cell, RefCell};
use std::time::Instant;

use pyo3::prelude::*;

use crate::SIGNALS_LOOK;

thread_local! {
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether a signal handler wants the script that this thread runs to end.
pub fn look() -> bool {
    let now = Instant::now();
    // Other threads hold the GIL; a script that asked for it at every look would wait most of its time.
    if LOOKED.get().is_some_and(|looked| now.duration_since(looked) < SIGNALS_LOOK) {
        return false;
    }
    LOOKED.set(Some(now));
    match Python::attach(|py| py.check_signals()) {
        Ok(()) => false,
        Err(raised) => {
            RAISED.replace(Some(raised));
            true
        }
    }
}

/// What was raised while the call ran that has just ended.
///
/// # Errors
/// That exception.
pub fn taken() -> PyResult<()> {
    RAISED.take().map_or(Ok(()), Err)
}
