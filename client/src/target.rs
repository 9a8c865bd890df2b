//! Where the outcome of a call goes: to the one that made it, into the cache, or to a pipeline as one of its parts.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cache::Filling;
use crate::error::Error;
use crate::slot::{Outcome, Slot};
use crate::value::Value;

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
            Target::Cache(filling) => {
                filling.complete(&outcome).iter().for_each(|slot| slot.complete(outcome.clone()))
            }
            Target::Part(gathering, number) => gathering.complete(number, outcome),
            Target::Nowhere | Target::Withdrawn => {}
        }
    }

    /// Whether an outcome is still wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            Target::Nowhere | Target::Cache(_) => true,
            Target::Withdrawn => false,
            Target::Slot(slot) => !slot.is_gone(),
            Target::Part(gathering, _) => !gathering.slot.is_gone(),
        }
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
