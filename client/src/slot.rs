//! The place of one call's outcome while it is outstanding.
//!
//! A slot has two owners: the call's future, and the queue or link that will complete it. The last one to let go frees it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::error::Error;
use crate::value::Value;

/// A call's end.
pub(crate) type Outcome = Result<Value, Error>;

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Waiting(Waker),
    Done(Outcome),
    /// The outcome was taken, or the future was dropped.
    Gone,
}

#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn complete(&self, outcome: Outcome) {
        let mut state = self.lock();
        match std::mem::take(&mut *state) {
            State::Idle => *state = State::Done(outcome),
            State::Waiting(waker) => {
                *state = State::Done(outcome);
                drop(state);
                waker.wake();
            }
            // The first outcome stands (a deadline that passed before the reply came).
            before @ (State::Done(_) | State::Gone) => *state = before,
        }
    }

    /// The outcome, or a promise to wake `waker` when it is there.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Gone) {
            State::Done(outcome) => Poll::Ready(outcome),
            State::Gone => Poll::Ready(Err(Error::usage(
                "the reply of this call was taken before; a call is awaited once",
            ))),
            State::Waiting(before) if before.will_wake(waker) => {
                *state = State::Waiting(before);
                Poll::Pending
            }
            before @ (State::Idle | State::Waiting(_)) => {
                *state = State::Waiting(waker.clone());
                // Dropping a waker may end its task, and with it other calls: not under the lock.
                drop(state);
                drop(before);
                Poll::Pending
            }
        }
    }

    /// Whether the outcome was taken, or the future was dropped.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(*self.lock(), State::Gone)
    }

    /// The future ends: returns whether the call is still outstanding.
    pub(crate) fn abandon(&self) -> bool {
        let before = std::mem::replace(&mut *self.lock(), State::Gone);
        matches!(before, State::Idle | State::Waiting(_))
    }
}

/// Wakes a thread that waits for a call without a runtime.
pub(crate) struct ThreadWaker(pub(crate) std::thread::Thread);

impl std::task::Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
