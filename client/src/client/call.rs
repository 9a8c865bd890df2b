//! A call on its way, and what becomes of it at the end.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::{Client, Db, HOPS_MAX};
use crate::args;
use crate::cluster::Redirection;
use crate::connection::Connection;
use crate::due::Due;
use crate::error::Error;
use crate::queue::{Pushed, Route, Ticket};
use crate::slot::{Outcome, Slot, ThreadWaker};
use crate::span::Span;
use crate::target::Target;
use crate::traits::Traits;
use crate::value::{FromValue, Value};

/// A call that waits for room in the queue.
pub(super) struct Blocked {
    pub(super) bytes: Vec<u8>,
    pub(super) traits: Traits,
    pub(super) route: Route,
    pub(super) due: Option<Due>,
    pub(super) slot: Arc<Slot>,
    pub(super) target: Option<Target>,
}

pub(super) enum State {
    Queued(Arc<Slot>, Ticket),
    Blocked(Box<Blocked>),
    /// The reply comes by way of the cache; others may wait for it, so that it is not taken back.
    Shared(Arc<Slot>),
    /// There is a reply, or none will come.
    Done(Outcome),
    /// The call waits in a thread of its own, which CLIENT UNBLOCK names by this number.
    #[cfg(feature = "shm")]
    Waiting(Arc<Slot>, Arc<std::sync::atomic::AtomicU64>),
    Ended,
}

/// A side connection that one call has for itself.
pub(super) struct Aside {
    pub(super) connection: Arc<Connection>,
    /// What the call may have changed when its reply comes, if there is a cache.
    pub(super) written: Option<(Traits, Vec<u8>)>,
    /// What is sent to another node of a cluster if this one does not have the keys.
    pub(super) again: Option<Again>,
}

/// A call over a side connection that may have to be made again at another node.
pub(super) struct Again {
    pub(super) request: Vec<u8>,
    pub(super) traits: Traits,
    pub(super) db: Db,
    pub(super) due: Option<Due>,
    pub(super) hops: u8,
}

impl Again {
    /// Makes the call at the node that has its keys.
    fn send(mut self, to: &Redirection) -> Result<(State, Box<Aside>, Client), Error> {
        self.hops += 1;
        self.db.client.connection = Arc::clone(&to.connection);
        let client = self.db.client.clone();
        let slot = Arc::new(Slot::default());
        let target = Some(Target::Slot(Arc::clone(&slot)));
        let (state, mut aside) = self.db.send_aside(slot, target, self.due, |out| {
            if to.asks {
                args::encode(&"ASKING", out);
            }
            out.extend_from_slice(&self.request);
            Ok(if to.asks { self.traits.asking() } else { self.traits })
        })?;
        aside.again = Some(self);
        Ok((state, aside, client))
    }
}

/// A call on its way: a future of its reply.
///
/// The call was queued when it was made. Dropped before it is written, it is taken back.
#[must_use = "a call whose reply is not wanted is made by `fire()`"]
pub struct Call<T> {
    /// Keeps the connection open until the reply is there.
    client: Client,
    /// The connection that this call has for itself.
    side: Option<Box<Aside>>,
    state: State,
    span: Span,
    reply: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    pub(super) fn new(client: Client, side: Option<Box<Aside>>, state: State) -> Call<T> {
        Call { client, side, state, span: Span::default(), reply: PhantomData }
    }

    /// The same call; its span ends with it.
    pub(super) fn spanned(mut self, span: Span) -> Call<T> {
        self.span = span;
        self
    }

    /// Whether the call waits in the server (BLPOP and its like), so that it may take its time, and may take something with it.
    pub fn waits_in_server(&self) -> bool {
        #[cfg(feature = "shm")]
        if let State::Waiting(..) = self.state {
            return true;
        }
        self.side.is_some()
    }
}

impl Call<Value> {
    /// As the future's `poll`, by a waker alone.
    pub(crate) fn poll_outcome(&mut self, waker: &Waker) -> Poll<Outcome> {
        self.poll_value(waker)
    }

    /// Gives the call an outcome that was taken from it, to be taken once more.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        self.state = State::Done(outcome);
    }
}

impl<T: FromValue> Call<T> {
    /// Waits for the reply and keeps the thread: for programs without a runtime.
    ///
    /// # Errors
    /// As the future.
    pub fn wait(mut self) -> Result<T, Error> {
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        loop {
            match self.poll_value(&waker) {
                Poll::Ready(outcome) => return outcome.and_then(T::from_value),
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl<T> Call<T> {
    /// Puts a call that waits for room into the queue, if there is room by now.
    fn poll_room(&mut self, waker: &Waker) -> Poll<()> {
        let State::Blocked(blocked) = &mut self.state else { return Poll::Ready(()) };
        let shared = &self.client.connection.shared;
        let mut queue = shared.queue();
        let Blocked { bytes, traits, route, due, slot, target } = &mut **blocked;
        let connection = &self.client.connection;
        let pushed = queue.push(*route, target, *due, |out| {
            // Replies that were kept while the call waited for room are dropped, too.
            connection.writes(*traits, bytes);
            out.extend_from_slice(bytes);
            Ok(*traits)
        });
        self.state = match pushed {
            Ok(Pushed::Queued(ticket)) => {
                shared.tell(queue);
                State::Queued(Arc::clone(slot), ticket)
            }
            Ok(Pushed::Aside) => {
                State::Done(Err(Error::usage("a call that waits in the server cannot wait for room as well")))
            }
            Ok(Pushed::Full) => match due.filter(|due| due.at <= Instant::now()) {
                Some(due) => State::Done(Err(due.passed_in_queue(queue.len()))),
                None => {
                    queue.wait_for_room(waker, *due);
                    shared.tell(queue);
                    return Poll::Pending;
                }
            },
            Err(error) => State::Done(Err(error)),
        };
        Poll::Ready(())
    }

    pub(super) fn poll_value(&mut self, waker: &Waker) -> Poll<Result<Value, Error>> {
        if self.poll_room(waker).is_pending() {
            return Poll::Pending;
        }
        let outcome = match std::mem::replace(&mut self.state, State::Ended) {
            State::Queued(slot, ticket) => match slot.poll(waker) {
                Poll::Pending => {
                    self.state = State::Queued(slot, ticket);
                    return Poll::Pending;
                }
                Poll::Ready(outcome) => {
                    // A side connection whose call timed out still waits in the server: it is not used again.
                    if let Some(aside) = self.side.take() {
                        let Aside { connection, written, again } = *aside;
                        if let (Some(again), Err(error)) =
                            (again.filter(|again| again.hops < HOPS_MAX), &outcome)
                            && let Some(redirection) = self.client.redirection(error)
                        {
                            self.client.connection.return_side(connection);
                            self.state = match again.send(&redirection) {
                                Ok((state, aside, client)) => {
                                    (self.side, self.client) = (Some(aside), client);
                                    state
                                }
                                Err(error) => State::Done(Err(error)),
                            };
                            return self.poll_value(waker);
                        }
                        // The invalidation comes over the main connection, perhaps later than this reply.
                        written
                            .iter()
                            .for_each(|(traits, requests)| self.client.connection.writes(*traits, requests));
                        match &outcome {
                            Err(Error::TimedOut(_)) => connection.shared.abort(),
                            _ => self.client.connection.return_side(connection),
                        }
                    }
                    outcome
                }
            },
            #[cfg(feature = "shm")]
            State::Waiting(slot, id) => match slot.poll(waker) {
                Poll::Pending => {
                    self.state = State::Waiting(slot, id);
                    return Poll::Pending;
                }
                Poll::Ready(outcome) => outcome,
            },
            State::Shared(slot) => match slot.poll(waker) {
                Poll::Pending => {
                    self.state = State::Shared(slot);
                    return Poll::Pending;
                }
                Poll::Ready(outcome) => outcome,
            },
            State::Done(outcome) => outcome,
            State::Blocked(_) | State::Ended => {
                Err(Error::usage("the reply of this call was taken before; a call is awaited once"))
            }
        };
        self.span.note(&outcome);
        Poll::Ready(outcome)
    }
}

impl<T: FromValue> Future for Call<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_value(context.waker()).map(|outcome| outcome.and_then(T::from_value))
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        #[cfg(feature = "shm")]
        if let State::Waiting(slot, id) = &self.state {
            self.client.end_waiting(slot, id);
        }
        if let State::Queued(slot, ticket) = &self.state
            && slot.abandon()
        {
            match &self.side {
                Some(side) => side.connection.shared.abort(),
                None => self.client.connection.shared.queue().withdraw(*ticket),
            }
        }
    }
}
