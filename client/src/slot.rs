//! The place of one call's outcome while it is outstanding.
//!
//! A slot has two owners: the call's future, and the queue or link that will complete it. The last one to let go frees it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::cache::Filling;
use crate::error::Error;
use crate::value::Value;

/// A call's end.
pub(crate) type Outcome = Result<Value, Error>;

/// Where a call's outcome goes.
pub(crate) enum Target {
    /// Nowhere: the call was made and forgotten.
    Nowhere,
    Slot(Arc<Slot>),
    /// Into the cache, and from there to all who wait for the same reply.
    Cache(Box<Filling>),
    /// One of several replies that make one, by its number.
    Part(Arc<Gathering>, usize),
    /// Nowhere any more: the call was taken back.
    Withdrawn,
}

impl Target {
    /// Delivers the outcome; the future's task is woken.
    pub(crate) fn complete(self, outcome: Outcome) {
        match self {
            Target::Slot(slot) => slot.complete(outcome),
            Target::Cache(filling) => filling.complete(&outcome).iter().for_each(|slot| slot.complete(outcome.clone())),
            Target::Part(gathering, number) => gathering.complete(number, outcome),
            Target::Nowhere | Target::Withdrawn => {}
        }
    }

    /// Whether an outcome is still wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            Target::Nowhere | Target::Cache(_) => true,
            Target::Withdrawn => false,
            Target::Slot(slot) => !matches!(*slot.lock(), State::Gone),
            Target::Part(gathering, _) => !matches!(*gathering.slot.lock(), State::Gone),
        }
    }
}

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
            State::Gone => Poll::Ready(Err(Error::usage("the reply of this call was taken before; a call is awaited once"))),
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

    /// The future ends: returns whether the call is still outstanding.
    pub(crate) fn abandon(&self) -> bool {
        let before = std::mem::replace(&mut *self.lock(), State::Gone);
        matches!(before, State::Idle | State::Waiting(_))
    }
}

/// The replies of a pipeline whose calls go to several nodes.
pub(crate) struct Gathering {
    slot: Arc<Slot>,
    /// The replies so far, and how many are left.
    replies: Mutex<(Vec<Value>, usize)>,
}

impl Gathering {
    pub(crate) fn new(slot: Arc<Slot>, count: usize) -> Arc<Gathering> {
        Arc::new(Gathering { slot, replies: Mutex::new((vec![Value::Null; count], count)) })
    }

    /// A reply that is an error stands among the others; any other failure is that of the whole pipeline.
    fn complete(&self, number: usize, outcome: Outcome) {
        let reply = match outcome {
            Ok(value) => value,
            Err(Error::Refused(text)) => Value::Error(text.as_bytes().to_vec()),
            Err(error) => return self.slot.complete(Err(error)),
        };
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        replies.0[number] = reply;
        replies.1 -= 1;
        if replies.1 == 0 {
            let all = std::mem::take(&mut replies.0);
            drop(replies);
            self.slot.complete(Ok(Value::Array(all)));
        }
    }
}

/// Wakes a thread that waits for a call without a runtime.
pub(crate) struct ThreadWaker(pub(crate) std::thread::Thread);

impl std::task::Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
