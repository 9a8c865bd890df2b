//! What a program sees: a client, its databases, and calls.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::args::{self, Args};
use crate::driver::{self, Shared};
use crate::error::{Error, Stage, TimedOut};
use crate::options::{Options, Policy};
use crate::queue::{Due, Pushed, Route, Shape, Ticket, Traits};
use crate::rows;
use crate::slot::{Slot, Target, ThreadWaker};
use crate::value::{FromValue, Value};

/// A connection to a server, shared by everything that clones it.
///
/// Clones are cheap. When the last clone is dropped, the calls that were made are still finished, then the connection closes.
#[derive(Clone)]
pub struct Client {
    connection: Arc<Connection>,
}

/// Closes the connection when the last client is dropped.
struct Connection {
    shared: Arc<Shared>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Client {
    /// A client whose connection runs as a task of the current tokio runtime. The connection opens in the background:
    /// calls may be made at once.
    ///
    /// # Errors
    /// [`Error::Usage`] for a URL that cannot be read, and outside of a runtime.
    #[cfg(feature = "tokio")]
    pub fn connect(url: &str) -> Result<Client, Error> {
        Client::with_options(url.parse()?)
    }

    /// As [`Client::connect`], with options in place of a URL.
    ///
    /// # Errors
    /// [`Error::Usage`] outside of a runtime.
    #[cfg(feature = "tokio")]
    pub fn with_options(options: Options) -> Result<Client, Error> {
        driver::task::start(Arc::new(options)).map(Client::new)
    }

    /// A client whose connection runs in a thread of its own: for programs without a runtime. Its calls can be awaited in
    /// any runtime, and waited for ([`Call::wait`]).
    ///
    /// # Errors
    /// [`Error::Usage`] for a URL that cannot be read.
    pub fn connect_in_thread(url: &str) -> Result<Client, Error> {
        driver::thread::start(Arc::new(url.parse()?)).map(Client::new)
    }

    fn new(shared: Arc<Shared>) -> Client {
        Client { connection: Arc::new(Connection { shared }) }
    }

    /// A database by its number.
    pub fn db(&self, number: u32) -> Db {
        let options = &self.connection.shared.options;
        let route = Route { db: number, jumps: false, policy: options.policy };
        Db { client: self.clone(), route, timeout: options.timeout }
    }

    /// Makes a call in the database that the URL names.
    pub fn call<T: FromValue>(&self, args: impl Args) -> Call<T> {
        self.db(self.connection.shared.options.database).call(args)
    }
}

/// A database of a server, and how calls are sent to it.
#[derive(Clone)]
pub struct Db {
    client: Client,
    route: Route,
    timeout: Option<Duration>,
}

impl Db {
    /// The same database; its calls go ahead of all that has not been written yet. They never come between the calls of a
    /// group.
    #[must_use]
    pub fn jump(&self) -> Db {
        Db { route: Route { jumps: true, ..self.route }, ..self.clone() }
    }

    /// The same database; its calls fail with [`Error::TimedOut`] when so much time has passed since they were made.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Db {
        Db { timeout: Some(timeout), ..self.clone() }
    }

    /// The same database; its calls wait for their replies for ever.
    #[must_use]
    pub fn without_deadline(&self) -> Db {
        Db { timeout: None, ..self.clone() }
    }

    /// The same database; what its calls do when they cannot be written at once.
    #[must_use]
    pub fn policy(&self, policy: Policy) -> Db {
        Db { route: Route { policy, ..self.route }, ..self.clone() }
    }

    /// The same database for calls that are made and forgotten: nothing is kept for their replies.
    #[must_use]
    pub fn fire(&self) -> Fire {
        Fire { db: self.clone() }
    }

    /// Makes a call by its words.
    pub fn call<T: FromValue>(&self, args: impl Args) -> Call<T> {
        self.send(|bytes| {
            let start = bytes.len();
            args::encode(&args, bytes);
            rows::traits(&bytes[start..])
        })
    }

    /// Several calls that are sent together: no other call comes between them.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline { db: self.clone(), bytes: Vec::new(), replies: 0, reads: true, moves: false, error: None, atomic: false }
    }

    /// As [`Db::pipeline`], run by the server as one transaction (MULTI, EXEC): all of them or none, and nothing between them.
    pub fn transaction(&self) -> Pipeline {
        Pipeline { atomic: true, ..self.pipeline() }
    }

    fn due(&self) -> Option<Due> {
        self.timeout.map(|timeout| {
            let made = Instant::now();
            Due { made, at: made + timeout }
        })
    }

    fn send<T: FromValue>(&self, encode: impl Fn(&mut Vec<u8>) -> Result<Traits, Error>) -> Call<T> {
        let shared = &self.client.connection.shared;
        let due = self.due();
        let slot = Arc::new(Slot::default());
        let mut target = Some(Target::Slot(Arc::clone(&slot)));
        let mut queue = shared.queue();
        let state = match queue.push(self.route, &mut target, due, &encode) {
            Ok(Pushed::Queued(ticket)) => {
                shared.tell(queue);
                State::Queued(slot, ticket)
            }
            Ok(Pushed::Full) => {
                drop(queue);
                let mut bytes = Vec::new();
                match encode(&mut bytes) {
                    Ok(traits) => State::Blocked(Box::new(Blocked { bytes, traits, route: self.route, due, slot, target })),
                    Err(error) => State::Failed(error),
                }
            }
            Err(error) => State::Failed(error),
        };
        Call { client: self.client.clone(), state, reply: PhantomData }
    }
}

/// A database for calls that are made and forgotten.
#[derive(Clone)]
pub struct Fire {
    db: Db,
}

impl Fire {
    /// Makes a call and keeps nothing for its reply, an error included. A call that cannot be queued (see
    /// [`Policy`]; `Block` counts as `Queue`) is dropped, and counted.
    pub fn call(&self, args: impl Args) {
        let shared = &self.db.client.connection.shared;
        let policy = if self.db.route.policy == Policy::Block { Policy::Queue } else { self.db.route.policy };
        let route = Route { policy, ..self.db.route };
        let mut queue = shared.queue();
        let pushed = queue.push(route, &mut None, None, |bytes| {
            let start = bytes.len();
            args::encode(&args, bytes);
            rows::traits(&bytes[start..])
        });
        match pushed {
            Ok(_) => shared.tell(queue),
            Err(error) => {
                drop(queue);
                tracing::debug!("a call that was made and forgotten is dropped: {error}");
            }
        }
    }
}

/// A call that waits for room in the queue.
struct Blocked {
    bytes: Vec<u8>,
    traits: Traits,
    route: Route,
    due: Option<Due>,
    slot: Arc<Slot>,
    target: Option<Target>,
}

enum State {
    Queued(Arc<Slot>, Ticket),
    Blocked(Box<Blocked>),
    Failed(Error),
    Ended,
}

/// A call on its way: a future of its reply.
///
/// The call was queued when it was made. Dropped before it is written, it is taken back.
#[must_use = "a call whose reply is not wanted is made by `fire()`"]
pub struct Call<T> {
    /// Keeps the connection open until the reply is there.
    client: Client,
    state: State,
    reply: PhantomData<fn() -> T>,
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
    fn poll_value(&mut self, waker: &Waker) -> Poll<Result<Value, Error>> {
        if let State::Blocked(blocked) = &mut self.state {
            let shared = &self.client.connection.shared;
            let mut queue = shared.queue();
            let Blocked { bytes, traits, route, due, slot, target } = &mut **blocked;
            let pushed = queue.push(*route, target, *due, |out| {
                out.extend_from_slice(bytes);
                Ok(*traits)
            });
            self.state = match pushed {
                Ok(Pushed::Queued(ticket)) => {
                    shared.tell(queue);
                    State::Queued(Arc::clone(slot), ticket)
                }
                Ok(Pushed::Full) => match due.filter(|due| due.at <= Instant::now()) {
                    Some(due) => State::Failed(late_for_room(due, queue.len())),
                    None => {
                        queue.wait_for_room(waker, *due);
                        shared.tell(queue);
                        return Poll::Pending;
                    }
                },
                Err(error) => State::Failed(error),
            };
        }
        let outcome = match std::mem::replace(&mut self.state, State::Ended) {
            State::Queued(slot, ticket) => match slot.poll(waker) {
                Poll::Pending => {
                    self.state = State::Queued(slot, ticket);
                    return Poll::Pending;
                }
                Poll::Ready(outcome) => outcome,
            },
            State::Failed(error) => Err(error),
            State::Blocked(_) | State::Ended => Err(Error::usage("the reply of this call was taken before; a call is awaited once")),
        };
        Poll::Ready(outcome)
    }
}

/// The deadline of a call passed before there was room in the queue.
fn late_for_room(due: Due, (calls_ahead, bytes_unwritten): (usize, usize)) -> Error {
    let driver_lag = Instant::now().saturating_duration_since(due.at);
    let limit = due.at.duration_since(due.made);
    Error::TimedOut(Arc::new(TimedOut { stage: Stage::Queue, limit, calls_ahead, bytes_unwritten, since_read: None, driver_lag }))
}

impl<T: FromValue> Future for Call<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_value(context.waker()).map(|outcome| outcome.and_then(T::from_value))
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if let State::Queued(slot, ticket) = &self.state
            && slot.abandon()
        {
            self.client.connection.shared.queue().withdraw(*ticket);
        }
    }
}

/// Several calls that are sent together.
pub struct Pipeline {
    db: Db,
    bytes: Vec<u8>,
    replies: u32,
    reads: bool,
    moves: bool,
    error: Option<Error>,
    atomic: bool,
}

impl Pipeline {
    /// Adds a call.
    #[must_use]
    pub fn call(mut self, args: impl Args) -> Pipeline {
        let start = self.bytes.len();
        args::encode(&args, &mut self.bytes);
        match rows::traits(&self.bytes[start..]) {
            Ok(traits) => {
                self.replies += traits.replies;
                self.reads &= traits.reads;
                self.moves |= traits.moves;
            }
            Err(error) => self.error = self.error.or(Some(error)),
        }
        self
    }

    /// Sends the calls. The reply holds theirs, in order: ask for a tuple, a vector, or `Vec<Value>`, in which errors stand
    /// as [`Value::Error`].
    pub fn send<T: FromValue>(self) -> Call<T> {
        let Pipeline { db, bytes, replies, reads, moves, error, atomic } = self;
        if replies == 0 || error.is_some() {
            let error = error.unwrap_or_else(|| Error::usage("a pipeline without calls cannot be sent; add one by `call`"));
            return Call { client: db.client.clone(), state: State::Failed(error), reply: PhantomData };
        }
        db.send(|out| {
            if atomic {
                args::encode(&"MULTI", out);
            }
            out.extend_from_slice(&bytes);
            if atomic {
                args::encode(&"EXEC", out);
            }
            let replies = if atomic { replies + 2 } else { replies };
            Ok(Traits { replies, reads, moves, shape: if atomic { Shape::Transaction } else { Shape::Group } })
        })
    }
}
