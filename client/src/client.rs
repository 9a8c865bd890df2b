//! What a program sees: a client, its databases, and calls.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::args::{self, Args};
use crate::cache::{Cache, CacheStats, Found, Tracking};
use crate::condition::{Condition, Conditional};
use crate::driver::{self, Secrets, Shared};
use crate::due::Due;
use crate::error::{Error, Stage, TimedOut};
use crate::link::Listeners;
use crate::options::{Options, Policy};
use crate::queue::{ClientStats, Pushed, Route, Shape, Ticket, Traits};
use crate::rows;
use crate::scan::Scan;
use crate::slot::{Slot, Target, ThreadWaker};
use crate::subscribe::{Kind, Subscription, Subscriptions};
use crate::value::{FromValue, Value};

/// A connection to a server, shared by everything that clones it.
///
/// Clones are cheap. When the last clone is dropped, the calls that were made and forgotten are still sent and their replies
/// read, then the connection closes. If it is down at that time, it has [`Options::connect_timeout`] to come up.
#[derive(Clone)]
pub struct Client {
    connection: Arc<Connection>,
}

/// The most idle side connections that are kept for the next calls that wait.
const SIDE_IDLE_MAX: usize = 8;

/// Closes the connection when the last client is dropped.
struct Connection {
    shared: Arc<Shared>,
    /// Side connections that no call uses.
    side: Mutex<Vec<Arc<Connection>>>,
    cache: Option<Arc<Cache>>,
    /// The connection that subscribes, once there is a subscription.
    subscribing: Mutex<Option<(Arc<Subscriptions>, Arc<Connection>)>>,
}

impl Connection {
    fn new(shared: Arc<Shared>, cache: Option<Arc<Cache>>) -> Arc<Connection> {
        Arc::new(Connection { shared, cache, side: Mutex::new(Vec::new()), subscribing: Mutex::new(None) })
    }

    fn side(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a call to what is sent; says what is known of it.
    fn encode(&self, args: &impl Args, bytes: &mut Vec<u8>) -> Result<Traits, Error> {
        let start = bytes.len();
        args::encode(args, bytes);
        let traits = rows::traits(&bytes[start..])?;
        self.writes(traits, &bytes[start..]);
        Ok(traits)
    }

    /// Requests are about to be sent: what they may change is not kept any longer.
    fn writes(&self, traits: Traits, requests: &[u8]) {
        if let Some(cache) = &self.cache
            && !traits.reads
        {
            // What a script, or a command that no table knows, changes is not known from its words.
            if traits.moves || rows::empties(requests) {
                cache.write_all();
            } else {
                cache.write(rows::words(requests));
            }
        }
    }

    /// A connection for one call alone: an idle one, or a new one.
    fn take_side(&self) -> Result<Arc<Connection>, Error> {
        if let Some(idle) = self.side().pop() {
            return Ok(idle);
        }
        let shared = self.shared.start_another(Listeners::default())?;
        shared.queue().is_side = true;
        Ok(Connection::new(shared, None))
    }

    /// Gives a side connection back whose call has ended.
    fn return_side(&self, connection: Arc<Connection>) {
        // One whose driver has ended would fail all its later calls.
        if connection.shared.queue().closed.is_some() {
            return;
        }
        let mut side = self.side();
        if side.len() < SIDE_IDLE_MAX {
            side.push(connection);
        }
    }
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
        Client::start(options, driver::task::start)
    }

    /// A client whose connection runs in a thread of its own: for programs without a runtime. Its calls can be awaited in
    /// any runtime, and waited for ([`Call::wait`]).
    ///
    /// # Errors
    /// [`Error::Usage`] for a URL that cannot be read.
    pub fn connect_in_thread(url: &str) -> Result<Client, Error> {
        Client::start(url.parse()?, driver::thread::start)
    }

    fn start(
        options: Options,
        driver: impl FnOnce(Arc<Options>, Secrets, Listeners) -> Result<Arc<Shared>, Error>,
    ) -> Result<Client, Error> {
        let secrets = Secrets::of(&options)?;
        let cache = options.cache.clone().map(|options| Arc::new(Cache::new(options)));
        let shared = driver(Arc::new(options), secrets, Listeners { subscriptions: None, cache: cache.clone() })?;
        Ok(Client { connection: Connection::new(shared, cache) })
    }

    /// Figures of the main connection: those of side connections and subscriptions are not among them.
    pub fn stats(&self) -> ClientStats {
        self.connection.shared.queue().stats()
    }

    /// Figures of the cache; all 0 without one.
    pub fn cache_stats(&self) -> CacheStats {
        self.connection.cache.as_ref().map(|cache| cache.stats()).unwrap_or_default()
    }

    /// A database by its number.
    pub fn db(&self, number: u32) -> Db {
        let options = &self.connection.shared.options;
        let route = Route { db: number, jumps: false, policy: options.policy };
        Db { client: self.clone(), route, timeout: options.timeout, may_wait: true, caches: false }
    }

    /// Subscribes to channels: what is published to them arrives at the [`Subscription`], first of all its confirmation.
    ///
    /// # Errors
    /// [`Error::Usage`] without a name, and when the connection cannot be started.
    pub fn subscribe<N: AsRef<[u8]>>(&self, channels: impl IntoIterator<Item = N>) -> Result<Subscription, Error> {
        self.subscribe_to(Kind::Channel, channels)
    }

    /// Subscribes to all channels whose names match one of the patterns (`news.*`).
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn subscribe_patterns<N: AsRef<[u8]>>(&self, patterns: impl IntoIterator<Item = N>) -> Result<Subscription, Error> {
        self.subscribe_to(Kind::Pattern, patterns)
    }

    /// Subscribes to shard channels (SPUBLISH).
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn subscribe_shards<N: AsRef<[u8]>>(&self, channels: impl IntoIterator<Item = N>) -> Result<Subscription, Error> {
        self.subscribe_to(Kind::Shard, channels)
    }

    fn subscribe_to<N: AsRef<[u8]>>(&self, kind: Kind, names: impl IntoIterator<Item = N>) -> Result<Subscription, Error> {
        let names: Vec<Vec<u8>> = names.into_iter().map(|name| name.as_ref().to_vec()).collect();
        if names.is_empty() {
            return Err(Error::usage("a subscription without names hears nothing; name a channel or a pattern"));
        }
        let mut subscribing = self.connection.subscribing.lock().unwrap_or_else(PoisonError::into_inner);
        let (subscriptions, connection) = match &*subscribing {
            Some(pair) => pair.clone(),
            None => {
                let subscriptions = Arc::new(Subscriptions::default());
                let listeners = Listeners { subscriptions: Some(Arc::clone(&subscriptions)), cache: None };
                let shared = self.connection.shared.start_another(listeners)?;
                subscribing.insert((subscriptions, Connection::new(shared, None))).clone()
            }
        };
        drop(subscribing);
        let shared = Arc::clone(&connection.shared);
        let subscription = subscriptions.add(Arc::clone(&shared), connection, kind, names);
        shared.tell(shared.queue());
        Ok(subscription)
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
    /// Whether the timeout is the client's own, which calls that wait in the server do not have.
    may_wait: bool,
    caches: bool,
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
        Db { timeout: Some(timeout), may_wait: false, ..self.clone() }
    }

    /// The same database; its calls wait for their replies for ever.
    #[must_use]
    pub fn without_deadline(&self) -> Db {
        Db { timeout: None, may_wait: false, ..self.clone() }
    }

    /// The same database; replies to calls that only read one key are kept until the server says that the key has changed, and
    /// calls that ask for the same share one flight. Needs [`Options::cache`] and a server that speaks RESP3; without them the
    /// calls are as any others.
    #[must_use]
    pub fn cached(&self) -> Db {
        Db { caches: true, ..self.clone() }
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
        if let (true, Some(cache)) = (self.caches, &self.client.connection.cache)
            && let Some(call) = self.call_cached(cache, &args)
        {
            return call;
        }
        self.send(|bytes| self.client.connection.encode(&args, bytes))
    }

    /// A call by way of the cache; `None` if it is to be sent as any other.
    fn call_cached<T: FromValue>(&self, cache: &Arc<Cache>, args: &impl Args) -> Option<Call<T>> {
        let mut request = Vec::new();
        args::encode(args, &mut request);
        let traits = rows::traits(&request).ok().filter(|traits| traits.caches)?;
        let slot = Arc::new(Slot::default());
        let ended = |state| Some(Call { client: self.client.clone(), side: None, state, reply: PhantomData });
        // A timeout of the call's own, shorter than that of the flight, would want the flight's deadline to be moved.
        let due = self.due();
        let filling = match cache.ask(self.route.db, &request, rows::key(&request), &slot, due, self.may_wait) {
            Found::Kept(value) => {
                slot.complete(Ok(value));
                return ended(State::Shared(slot));
            }
            Found::Waiting => return ended(State::Shared(slot)),
            Found::Off => return None,
            Found::Ask(filling) => filling,
        };
        let shared = &self.client.connection.shared;
        let mut target = Some(Target::Cache(filling));
        let mut queue = shared.queue();
        let route = Route { policy: Policy::Queue, ..self.route };
        let pushed = queue.push(route, &mut target, due, |bytes| {
            let opts_in = cache.options.tracking == Tracking::OptIn;
            if opts_in {
                args::encode(&("CLIENT", "CACHING", "YES"), bytes);
            }
            bytes.extend_from_slice(&request);
            // The last reply counts, unless the first was refused.
            Ok(if opts_in { Traits { replies: 2, shape: Shape::Transaction, ..traits } } else { traits })
        });
        match (pushed, target) {
            (Err(error), Some(target)) => {
                drop(queue);
                target.complete(Err(error));
            }
            _ => shared.tell(queue),
        }
        ended(State::Shared(slot))
    }

    /// Several calls that are sent together: no other call comes between them.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline {
            db: self.clone(),
            bytes: Vec::new(),
            traits: Traits { replies: 0, shape: Shape::Group, reads: true, ..Traits::SINGLE },
            error: None,
        }
    }

    /// As [`Db::pipeline`], run by the server as one transaction (MULTI, EXEC): all of them or none, and nothing between them.
    pub fn transaction(&self) -> Pipeline {
        let pipeline = self.pipeline();
        Pipeline { traits: Traits { shape: Shape::Transaction, ..pipeline.traits }, ..pipeline }
    }

    /// Several calls that run as one transaction, and only if conditions hold. They fail together, and the reply says which
    /// conditions did not hold.
    pub fn transaction_if(&self, conditions: impl IntoIterator<Item = Condition>) -> Conditional {
        Conditional::new(self.clone(), conditions.into_iter().collect())
    }

    /// The keys of the database, step by step.
    pub fn scan(&self) -> Scan {
        Scan::new(self.clone(), "SCAN", None)
    }

    /// The members of a set, the fields and values of a hash, or the members and scores of a sorted set, step by step, by
    /// SSCAN, HSCAN or ZSCAN.
    pub fn scan_in(&self, command: ScanCommand, key: impl AsRef<[u8]>) -> Scan {
        Scan::new(self.clone(), command.name(), Some(key.as_ref().to_vec()))
    }

    fn due(&self) -> Option<Due> {
        self.timeout.map(|timeout| {
            let made = Instant::now();
            Due { made, at: made + timeout }
        })
    }

    fn send<T: FromValue>(&self, encode: impl Fn(&mut Vec<u8>) -> Result<Traits, Error>) -> Call<T> {
        let due = self.due();
        let slot = Arc::new(Slot::default());
        let mut target = Some(Target::Slot(Arc::clone(&slot)));
        let connection = &self.client.connection;
        let mut queue = connection.shared.queue();
        let mut side = None;
        let state = match queue.push(self.route, &mut target, due, &encode) {
            Ok(Pushed::Queued(ticket)) => {
                connection.shared.tell(queue);
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
            Ok(Pushed::Aside) => {
                drop(queue);
                let due = due.filter(|_| !self.may_wait);
                match self.send_aside(slot, target, due, &encode) {
                    Ok((queued, connection)) => {
                        side = Some(connection);
                        queued
                    }
                    Err(error) => State::Failed(error),
                }
            }
            Err(error) => State::Failed(error),
        };
        Call { client: self.client.clone(), side, state, reply: PhantomData }
    }

    /// Sends a call that waits in the server over a side connection.
    fn send_aside(
        &self,
        slot: Arc<Slot>,
        mut target: Option<Target>,
        due: Option<Due>,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<Traits, Error>,
    ) -> Result<(State, Box<Aside>), Error> {
        let connection = self.client.connection.take_side()?;
        let mut written = None;
        let mut queue = connection.shared.queue();
        let pushed = queue.push(Route { policy: Policy::Queue, ..self.route }, &mut target, due, |bytes| {
            let start = bytes.len();
            let traits = encode(bytes)?;
            if self.client.connection.cache.is_some() && !traits.reads {
                written = Some((traits, bytes[start..].to_vec()));
            }
            Ok(traits)
        });
        let Pushed::Queued(ticket) = pushed? else {
            return Err(Error::usage("a side connection holds another call"));
        };
        connection.shared.tell(queue);
        Ok((State::Queued(slot, ticket), Box::new(Aside { connection, written })))
    }
}

/// Which collection [`Db::scan_in`] goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanCommand {
    Sscan,
    Hscan,
    Zscan,
}

impl ScanCommand {
    fn name(self) -> &'static str {
        match self {
            ScanCommand::Sscan => "SSCAN",
            ScanCommand::Hscan => "HSCAN",
            ScanCommand::Zscan => "ZSCAN",
        }
    }
}

/// A side connection for several calls in a row that depend on the connection's state (WATCH). Dropped before it is given
/// back, the connection is closed, and what it watched is forgotten with it.
pub(crate) struct Side {
    db: Db,
    connection: Option<Arc<Connection>>,
}

impl Side {
    pub(crate) fn take(db: &Db) -> Result<Side, Error> {
        let connection = db.client.connection.take_side()?;
        connection.shared.queue().ends_with_break = true;
        Ok(Side { db: db.clone(), connection: Some(connection) })
    }

    /// Requests that may have changed keys have been sent: what the client keeps of those is dropped, since the invalidation
    /// comes over another connection, perhaps later than the reply.
    pub(crate) fn wrote(&self, requests: &[u8]) {
        self.db.client.connection.writes(Traits { moves: rows::moves(requests), ..Traits::SINGLE }, requests);
    }

    /// Makes a call on the side connection. The caller says what is known of it.
    pub(crate) fn call<T: FromValue>(&self, traits: Traits, encode: impl FnOnce(&mut Vec<u8>)) -> Call<T> {
        let slot = Arc::new(Slot::default());
        let mut target = Some(Target::Slot(Arc::clone(&slot)));
        let state = match &self.connection {
            Some(connection) => {
                let mut queue = connection.shared.queue();
                let route = Route { policy: Policy::Queue, ..self.db.route };
                let pushed = queue.push(route, &mut target, self.db.due(), |out| {
                    encode(out);
                    Ok(traits)
                });
                match pushed {
                    Ok(Pushed::Queued(ticket)) => {
                        connection.shared.tell(queue);
                        State::Queued(slot, ticket)
                    }
                    Ok(_) => State::Failed(Error::usage("a side connection holds another call")),
                    Err(error) => State::Failed(error),
                }
            }
            None => State::Failed(Error::usage("the side connection was given back")),
        };
        Call { client: self.db.client.clone(), side: None, state, reply: PhantomData }
    }

    /// Keeps the connection for the next call that wants one.
    pub(crate) fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            let mut queue = connection.shared.queue();
            queue.ends_with_break = false;
            let is_over = queue.closed.is_some();
            drop(queue);
            if !is_over {
                self.db.client.connection.return_side(connection);
            }
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.shared.abort();
        }
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
        let pushed = queue.push(route, &mut None, None, |bytes| self.db.client.connection.encode(&args, bytes));
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
    /// The reply comes by way of the cache; others may wait for it, so that it is not taken back.
    Shared(Arc<Slot>),
    Failed(Error),
    Ended,
}

/// A side connection that one call has for itself.
struct Aside {
    connection: Arc<Connection>,
    /// What the call may have changed when its reply comes, if there is a cache.
    written: Option<(Traits, Vec<u8>)>,
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
                Ok(Pushed::Aside) => State::Failed(Error::usage("a call that waits in the server cannot wait for room as well")),
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
                Poll::Ready(outcome) => {
                    // A side connection whose call timed out still waits in the server: it is not used again.
                    if let Some(aside) = self.side.take() {
                        let Aside { connection, written } = *aside;
                        // The invalidation comes over the main connection, perhaps later than this reply.
                        written.iter().for_each(|(traits, requests)| self.client.connection.writes(*traits, requests));
                        match &outcome {
                            Err(Error::TimedOut(_)) => connection.shared.abort(),
                            _ => self.client.connection.return_side(connection),
                        }
                    }
                    outcome
                }
            },
            State::Shared(slot) => match slot.poll(waker) {
                Poll::Pending => {
                    self.state = State::Shared(slot);
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
            match &self.side {
                Some(side) => side.connection.shared.abort(),
                None => self.client.connection.shared.queue().withdraw(*ticket),
            }
        }
    }
}

/// Several calls that are sent together.
#[must_use = "nothing is sent before `send()`"]
pub struct Pipeline {
    db: Db,
    bytes: Vec<u8>,
    traits: Traits,
    error: Option<Error>,
}

impl Pipeline {
    /// Adds a call.
    pub fn call(mut self, args: impl Args) -> Pipeline {
        let start = self.bytes.len();
        args::encode(&args, &mut self.bytes);
        match rows::traits(&self.bytes[start..]) {
            Ok(traits) => {
                self.traits.replies += 1;
                self.traits.reads &= traits.reads;
                self.traits.moves |= traits.moves;
                // In a transaction nothing waits: BLPOP replies at once.
                self.traits.blocks |= traits.blocks && self.traits.shape == Shape::Group;
            }
            Err(error) => self.error = self.error.or(Some(error)),
        }
        self
    }

    /// Sends the calls. The reply holds theirs, in order: ask for a tuple, a vector, or `Vec<Value>`, in which errors stand
    /// as [`Value::Error`].
    pub fn send<T: FromValue>(self) -> Call<T> {
        let Pipeline { db, bytes, mut traits, error } = self;
        let empty = || Error::usage("a pipeline without calls cannot be sent; add one by `call`");
        if let Some(error) = error.or_else(|| (traits.replies == 0).then(empty)) {
            return Call { client: db.client.clone(), side: None, state: State::Failed(error), reply: PhantomData };
        }
        let atomic = traits.shape == Shape::Transaction;
        if atomic {
            // MULTI and EXEC have replies, too.
            traits.replies += 2;
        }
        db.send(|out| {
            if atomic {
                args::encode(&"MULTI", out);
            }
            out.extend_from_slice(&bytes);
            db.client.connection.writes(traits, &bytes);
            if atomic {
                args::encode(&"EXEC", out);
            }
            Ok(traits)
        })
    }
}
