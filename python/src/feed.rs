//! What is heard of channels.
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use polder_client::{Event, Signal, Subscription};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::rooted::Rooted;

/// Channels, patterns or shard channels that are heard. Its descriptor is readable when there is something to hear.
#[pyclass(frozen, module = "polder._polder")]
pub struct Feed {
    subscription: Rooted<Mutex<Option<Subscription>>>,
    signal: Arc<Signal>,
    waker: Waker,
}

impl Feed {
    /// What a subscription hears.
    pub fn over(subscription: Subscription) -> PyResult<Feed> {
        let signal = Arc::new(Signal::new().map_err(|error| PyOSError::new_err(error.to_string()))?);
        let waker = Waker::from(Arc::clone(&signal));
        Ok(Feed { subscription: Rooted::new(Mutex::new(Some(subscription))), signal, waker })
    }

    fn subscription(&self) -> PyResult<MutexGuard<'_, Option<Subscription>>> {
        Ok(self.subscription.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Feed {
    /// What has been heard next, if anything: a kind ("ready", "message", "missed", "refused") with pattern, channel and payload or text.
    fn hear<'p>(&self, py: Python<'p>) -> PyResult<Option<Bound<'p, PyTuple>>> {
        let mut subscription = self.subscription()?;
        self.signal.clear();
        let polled = match &mut *subscription {
            Some(subscription) => subscription.poll_event(&self.waker),
            None => Poll::Pending,
        };
        drop(subscription);
        let Poll::Ready(event) = polled else { return Ok(None) };
        // There may be more.
        self.signal.raise();
        let bytes = |text: &[u8]| PyBytes::new(py, text);
        let told = match event {
            Event::Ready => ("ready", None, None, None),
            Event::Missed => ("missed", None, None, None),
            Event::Refused(text) => ("refused", None, None, Some(bytes(text.as_bytes()))),
            Event::Message { channel, pattern, payload } => (
                "message",
                pattern.map(|pattern| bytes(&pattern)),
                Some(bytes(&channel)),
                Some(bytes(&payload)),
            ),
        };
        told.into_pyobject(py).map(Some)
    }

    /// A descriptor that is readable when there is something to hear.
    fn fileno(&self) -> i32 {
        self.signal.as_fd().as_raw_fd()
    }

    /// Hears no more, and wakes whatever waits for the descriptor.
    fn close(&self) -> PyResult<()> {
        let closed = self.subscription()?.take();
        self.signal.raise();
        drop(closed);
        Ok(())
    }
}
