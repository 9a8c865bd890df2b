//! Calls of a client of shared memory: see [`crate::memory`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Call, Client, Db, State};
use crate::args::{self, Args};
use crate::error::Error;
use crate::memory::Local;
use crate::rows;
use crate::slot::Slot;
use crate::subscribe::{Kind, Subscription, Subscriptions};
use crate::traits::Traits;
use crate::value::FromValue;

/// Most requests are shorter.
const REQUEST_BYTES: usize = 128;

impl Db {
    pub(super) fn call_in_memory<T: FromValue>(&self, memory: &Arc<Local>, args: &impl Args) -> Call<T> {
        let mut request = Vec::with_capacity(REQUEST_BYTES);
        args::encode(args, &mut request);
        match rows::traits(&request) {
            Ok(traits) if traits.blocks => self.wait_in_memory(memory, request),
            Ok(traits) => self.send_in_memory(memory, &request, traits),
            Err(error) => self.done(Err(error)),
        }
    }

    pub(super) fn fire_in_memory(&self, memory: &Arc<Local>, args: &impl Args) {
        let mut request = Vec::with_capacity(REQUEST_BYTES);
        args::encode(args, &mut request);
        let waits = || {
            Error::usage(
                "a call that waits in the server cannot be made and forgotten: call it, and keep its future",
            )
        };
        let done =
            rows::traits(&request).and_then(|traits| if traits.blocks { Err(waits()) } else { Ok(traits) });
        if let Err(error) = done.and_then(|traits| memory.run(self.route.db, &request, traits)) {
            tracing::debug!("a call that was made and forgotten failed: {error}");
        }
    }

    pub(super) fn send_in_memory<T: FromValue>(
        &self,
        memory: &Arc<Local>,
        requests: &[u8],
        traits: Traits,
    ) -> Call<T> {
        if traits.blocks {
            return self.done(Err(Error::usage(
                "a call that waits cannot be part of a pipeline over shared memory; make it by itself",
            )));
        }
        if requests.is_empty() || traits.shape != crate::traits::Shape::Transaction {
            return self.done(memory.run(self.route.db, requests, traits));
        }
        let mut whole = Vec::with_capacity(requests.len() + 2 * REQUEST_BYTES);
        args::encode(&"MULTI", &mut whole);
        whole.extend_from_slice(requests);
        args::encode(&"EXEC", &mut whole);
        self.done(memory.run(self.route.db, &whole, traits))
    }

    fn wait_in_memory<T: FromValue>(&self, memory: &Arc<Local>, request: Vec<u8>) -> Call<T> {
        let slot = Arc::new(Slot::default());
        let due = self.due().filter(|_| !self.may_wait);
        match memory.run_aside(self.route.db, request, &slot, due) {
            Ok(id) => Call::new(self.client.clone(), None, State::Waiting(slot, id)),
            Err(error) => self.done(Err(error)),
        }
    }
}

impl Client {
    /// The future of a call that waits is dropped.
    pub(super) fn end_waiting(&self, slot: &Slot, id: &AtomicU64) {
        // Its thread sees that nothing is wanted, or is told: a number that is not known yet belongs to one that has not begun.
        if let (true, Some(memory), id @ 1..) =
            (slot.abandon(), &self.connection.memory, id.load(Ordering::Acquire))
        {
            memory.unblock(id);
        }
    }

    pub(super) fn subscribe_in_memory(
        &self,
        memory: &Arc<Local>,
        kind: Kind,
        names: &[Vec<u8>],
    ) -> Result<Subscription, Error> {
        let subscriptions = Arc::new(Subscriptions::default());
        let shared = Arc::clone(&self.connection.shared);
        let mut subscription = subscriptions.add(shared, Arc::new(()), (kind, names.to_vec()), false);
        subscription.keep(memory.listen(kind, names, subscription.heard())?);
        Ok(subscription)
    }
}
