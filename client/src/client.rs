//! What a program sees: a client, its databases, and calls.

mod call;
mod callback;
#[cfg(feature = "shm")]
mod local;
mod side;
mod transport;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use call::{Again, Aside, Blocked, State};

pub use self::call::Call;
pub(crate) use self::side::Side;
use crate::args::{self, Args};
use crate::cache::{Cache, CacheStats, Found, Tracking};
use crate::cluster::{Cluster, Redirection};
use crate::connection::Connection;
use crate::driver::{self, Secrets, Shared};
use crate::due::Due;
use crate::error::Error;
use crate::held::Held;
use crate::link::Listeners;
use crate::options::{Endpoint, Options, Policy};
use crate::queue::{Pushed, Route};
use crate::rows;
use crate::slot::{Outcome, Slot};
use crate::span::Span;
use crate::stats::ClientStats;
use crate::subscribe::{Kind, Subscription, Subscriptions};
use crate::target::{Gathering, Target};
use crate::traits::{Shape, Traits};
use crate::value::{FromValue, Value};

/// How often a call may be sent on from node to node of a cluster.
const HOPS_MAX: u8 = 16;

/// A connection to a server, shared by everything that clones it.
///
/// Clones are cheap. When the last clone is dropped, the calls that were made and forgotten are still sent and their replies
/// read, then the connection closes. If it is down at that time, it has [`Options::connect_timeout`] to come up.
#[derive(Clone)]
pub struct Client {
    /// The connection of its calls; in a cluster, that of the calls that have no key.
    pub(crate) connection: Arc<Connection>,
    cluster: Option<Arc<Front>>,
}

/// Ends a cluster's connections with the last client.
pub(crate) struct Front(pub(crate) Arc<Cluster>);

impl Drop for Front {
    fn drop(&mut self) {
        self.0.close();
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

    /// A client in a thread of its own, whose wake-ups are held back until they are released.
    pub(crate) fn connect_held(options: Options, held: &Arc<Held>) -> Result<Client, Error> {
        Client::start(options, |options, secrets, listeners| {
            driver::thread::start(options, secrets.with_held(held), listeners)
        })
    }

    fn start(
        options: Options,
        driver: impl FnOnce(Arc<Options>, Secrets, Listeners) -> Result<Arc<Shared>, Error>,
    ) -> Result<Client, Error> {
        let secrets = Secrets::of(&options)?;
        let options = match Client::in_memory(options, &secrets)? {
            Ok(client) => return Ok(client),
            Err(options) => Arc::new(options),
        };
        if let Endpoint::Cluster { .. } = &options.endpoint {
            let cluster = Cluster::new(Arc::clone(&options), secrets.clone());
            let secrets = secrets.with_guide(cluster.guide());
            // It carries calls without keys, so it keeps no replies.
            let listeners = Listeners { guide: Some(cluster.guide()), ..Listeners::default() };
            let connection = Connection::new(driver(options, secrets, listeners)?, None);
            cluster.start(&connection)?;
            return Ok(Client { connection, cluster: Some(Arc::new(Front(cluster))) });
        }
        let cache = options.cache.clone().map(|options| Arc::new(Cache::new(options)));
        let shared = driver(options, secrets, Listeners { cache: cache.clone(), ..Listeners::default() })?;
        Ok(Client { connection: Connection::new(shared, cache), cluster: None })
    }

    /// A client of each master of a cluster, by the name `host:port`, for calls without a key (FLUSHALL, DBSIZE, SCAN); without a
    /// cluster, this client alone.
    ///
    /// # Errors
    /// Those of any call: the cluster is asked for its nodes.
    pub async fn nodes(&self) -> Result<Vec<(String, Client)>, Error> {
        let Some(front) = &self.cluster else {
            return Ok(vec![(self.connection.shared.options.endpoint.to_string(), self.clone())]);
        };
        let reply: Value = self.call(("CLUSTER", "SLOTS")).await?;
        front.0.learn(&reply)?;
        let nodes = front
            .0
            .masters()
            .into_iter()
            .map(|(name, connection)| (name, Client { connection, cluster: None }));
        Ok(nodes.collect())
    }

    /// Whether the keys of this client lie on several servers.
    pub(crate) fn is_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// The client as one that sends to the node which has the keys of these requests.
    fn at_keys_of(&self, requests: &[u8]) -> Result<Client, Error> {
        match &self.cluster {
            Some(front) => {
                let connection =
                    front.0.connection(rows::slot(requests)?).unwrap_or_else(|| Arc::clone(&self.connection));
                Ok(Client { connection, cluster: self.cluster.clone() })
            }
            None => Ok(self.clone()),
        }
    }

    /// Where to go after an error by which a node says that another one has the slot; `None` for any other error.
    fn redirection(&self, error: &Error) -> Option<Redirection> {
        let (Some(front), Error::Refused(text)) = (&self.cluster, error) else { return None };
        front.0.redirection(text.as_bytes())
    }

    /// Figures of the main connection: those of side connections and subscriptions are not among them. In a cluster, the sums of
    /// all nodes' connections.
    pub fn stats(&self) -> ClientStats {
        let own = self.connection.shared.queue().stats();
        self.node_connections().iter().fold(own, |sum, node| sum.and(node.shared.queue().stats()))
    }

    /// Figures of the cache; all 0 without one. In a cluster, the sums of all nodes' caches.
    pub fn cache_stats(&self) -> CacheStats {
        let of = |connection: &Connection| {
            connection.cache.as_ref().map(|cache| cache.stats()).unwrap_or_default()
        };
        self.node_connections().iter().fold(of(&self.connection), |sum, node| sum.and(of(node)))
    }

    fn node_connections(&self) -> Vec<Arc<Connection>> {
        self.cluster.as_ref().map(|front| front.0.open_connections()).unwrap_or_default()
    }

    /// A database by its number.
    pub fn db(&self, number: u32) -> Db {
        let options = &self.connection.shared.options;
        let route = Route { db: number, jumps: false, policy: options.policy };
        Db {
            client: self.clone(),
            route,
            timeout: options.timeout,
            may_wait: true,
            caches: false,
            reads_replica: false,
            goes_aside: false,
        }
    }

    /// Subscribes to channels: what is published to them arrives at the [`Subscription`], first of all its confirmation.
    ///
    /// # Errors
    /// [`Error::Usage`] without a name, and when the connection cannot be started.
    pub fn subscribe<N: AsRef<[u8]>>(
        &self,
        channels: impl IntoIterator<Item = N>,
    ) -> Result<Subscription, Error> {
        self.subscribe_to(Kind::Channel, channels)
    }

    /// Subscribes to all channels whose names match one of the patterns (`news.*`).
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn subscribe_patterns<N: AsRef<[u8]>>(
        &self,
        patterns: impl IntoIterator<Item = N>,
    ) -> Result<Subscription, Error> {
        self.subscribe_to(Kind::Pattern, patterns)
    }

    /// Subscribes to shard channels (SPUBLISH).
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn subscribe_shards<N: AsRef<[u8]>>(
        &self,
        channels: impl IntoIterator<Item = N>,
    ) -> Result<Subscription, Error> {
        self.subscribe_to(Kind::Shard, channels)
    }

    fn subscribe_to<N: AsRef<[u8]>>(
        &self,
        kind: Kind,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Subscription, Error> {
        let names: Vec<Vec<u8>> = names.into_iter().map(|name| name.as_ref().to_vec()).collect();
        if names.is_empty() {
            return Err(Error::usage(
                "a subscription without names hears nothing; name a channel or a pattern",
            ));
        }
        if kind == Kind::Shard && self.is_cluster() {
            return self.subscribe_in_cluster(names, false);
        }
        self.subscribe_here(kind, names, false)
    }

    /// Subscribes to shard channels at the node that has their slot, and follows the slot when it moves.
    fn subscribe_in_cluster(&self, names: Vec<Vec<u8>>, has_gap: bool) -> Result<Subscription, Error> {
        let mut slots = names.iter().map(|name| rows::slot_of(name));
        let slot = slots.next();
        if slots.any(|other| Some(other) != slot) {
            return Err(Error::usage(
                "shard channels of one subscription must lie in one slot: give them a hash tag, or subscribe to each",
            ));
        }
        let known = self.cluster.as_ref().and_then(|front| front.0.connection(slot));
        let connection = known.unwrap_or_else(|| Arc::clone(&self.connection));
        let mut subscription =
            Client { connection, cluster: None }.subscribe_here(Kind::Shard, names.clone(), has_gap)?;
        let client = self.clone();
        subscription.follows = Some(Box::new(move |refusal, has_gap| {
            let noted = client.redirection(&Error::Refused(refusal.into()));
            (noted.is_some() || refusal.is_empty())
                .then(|| client.subscribe_in_cluster(names.clone(), has_gap).ok())?
        }));
        Ok(subscription)
    }

    fn subscribe_here(&self, kind: Kind, names: Vec<Vec<u8>>, has_gap: bool) -> Result<Subscription, Error> {
        #[cfg(feature = "shm")]
        if let Some(memory) = &self.connection.memory {
            return self.subscribe_in_memory(memory, kind, &names);
        }
        let mut subscribing = self.connection.subscribing.lock().unwrap_or_else(PoisonError::into_inner);
        let (subscriptions, connection) = match &*subscribing {
            Some(pair) => pair.clone(),
            None => {
                let subscriptions = Arc::new(Subscriptions::default());
                let listeners =
                    Listeners { subscriptions: Some(Arc::clone(&subscriptions)), ..Listeners::default() };
                let shared = self.connection.shared.start_another(listeners)?;
                subscribing.insert((subscriptions, Connection::new(shared, None))).clone()
            }
        };
        drop(subscribing);
        let shared = Arc::clone(&connection.shared);
        let subscription = subscriptions.add(shared.clone(), connection, (kind, names), has_gap);
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
    reads_replica: bool,
    goes_aside: bool,
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

    /// The same database; single calls that only read go to a replica, over a connection of their own, where the URL names
    /// sentinels that know one, or a cluster; all others, pipelines and transactions go to the master. A replica may be behind: a call that is
    /// made after a write may not see it. Its replies are not kept ([`Db::cached`]).
    #[must_use]
    pub fn from_replica(&self) -> Db {
        Db { reads_replica: true, ..self.clone() }
    }

    /// The same database; its calls and pipelines go over a connection of their own, as calls that wait in the server do by themselves.
    /// For calls with very large replies, behind which the replies of all others would wait. Such a call is in no order with others,
    /// unless one is awaited before the other is made. Its replies are not kept ([`Db::cached`]).
    #[must_use]
    pub fn aside(&self) -> Db {
        Db { goes_aside: true, caches: false, ..self.clone() }
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
        let span = Span::of_call(&args, self.route.db, &self.client.connection.shared.options.endpoint);
        self.call_anywhere(args).spanned(span)
    }

    fn call_anywhere<T: FromValue>(&self, args: impl Args) -> Call<T> {
        if self.reads_replica {
            return match self.at_replica(&args) {
                Ok(Some(db)) => db.call_here(args),
                Ok(None) => Db { reads_replica: false, ..self.clone() }.call_anywhere(args),
                Err(error) => self.failed(error),
            };
        }
        if self.client.is_cluster() {
            let mut request = Vec::new();
            args::encode(&args, &mut request);
            return match self.at_keys_of(&request) {
                Ok(db) => db.call_here(args),
                Err(error) => self.failed(error),
            };
        }
        self.call_here(args)
    }

    /// The same database at a replica, for a call that only reads; `None` for any other call, and where no replica is known of.
    fn at_replica(&self, args: &impl Args) -> Result<Option<Db>, Error> {
        let mut request = Vec::new();
        args::encode(args, &mut request);
        let traits = rows::traits(&request)?;
        if !traits.reads || traits.blocks {
            return Ok(None);
        }
        let replica = match &self.client.cluster {
            Some(front) => front.0.replica(rows::slot(&request)?),
            None => self.client.connection.replica()?,
        };
        let client = |connection| Client { connection, cluster: self.client.cluster.clone() };
        Ok(replica.map(|connection| Db { client: client(connection), ..self.clone() }))
    }

    /// The same database at the node that has the keys of these requests.
    pub(crate) fn at_keys_of(&self, requests: &[u8]) -> Result<Db, Error> {
        Ok(Db { client: self.client.at_keys_of(requests)?, ..self.clone() })
    }

    /// The same database at each node of a cluster; without one, this alone.
    pub(crate) async fn at_nodes(&self) -> Result<Vec<Db>, Error> {
        Ok(self.client.nodes().await?.into_iter().map(|(_, client)| Db { client, ..self.clone() }).collect())
    }

    fn failed<T>(&self, error: Error) -> Call<T> {
        self.done(Err(error))
    }

    /// A call whose outcome is known.
    fn done<T>(&self, outcome: Outcome) -> Call<T> {
        Call::new(self.client.clone(), None, State::Done(outcome))
    }

    fn call_here<T: FromValue>(&self, args: impl Args) -> Call<T> {
        #[cfg(feature = "shm")]
        if let Some(memory) = &self.client.connection.memory {
            return self.call_in_memory(memory, &args);
        }
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
        let ended = |state| Some(Call::new(self.client.clone(), None, state));
        // A timeout of the call's own, shorter than that of the flight, would want the flight's deadline to be moved.
        let due = self.due();
        let filling = match cache.ask(self.route.db, &request, rows::key(&request), &slot, due, self.may_wait)
        {
            Found::Kept(value) => {
                slot.complete(Ok(value));
                return ended(State::Shared(slot));
            }
            Found::Waiting => return ended(State::Shared(slot)),
            Found::Off => return None,
            Found::Ask(filling) => filling,
        };
        let shared = &self.client.connection.shared;
        let mut target = Some(Target::Cache(Box::new(filling)));
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

    fn due(&self) -> Option<Due> {
        self.timeout.map(|timeout| {
            let made = Instant::now();
            Due { made, at: made + timeout }
        })
    }

    fn send<T: FromValue>(&self, encode: impl Fn(&mut Vec<u8>) -> Result<Traits, Error>) -> Call<T> {
        if self.goes_aside {
            return self.send_alone(encode);
        }
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
                    Ok(traits) => State::Blocked(Box::new(Blocked {
                        bytes,
                        traits,
                        route: self.route,
                        due,
                        slot,
                        target,
                    })),
                    Err(error) => State::Done(Err(error)),
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
                    Err(error) => State::Done(Err(error)),
                }
            }
            Err(error) => State::Done(Err(error)),
        };
        Call::new(self.client.clone(), side, state)
    }

    /// Sends a call that the program wants to go over a side connection.
    fn send_alone<T: FromValue>(
        &self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<Traits, Error>,
    ) -> Call<T> {
        let mut requests = Vec::new();
        let traits = match encode(&mut requests) {
            Ok(traits) => traits,
            Err(error) => return self.failed(error),
        };
        let due = self.due().filter(|_| !(traits.blocks && self.may_wait));
        let slot = Arc::new(Slot::default());
        let target = Some(Target::Slot(Arc::clone(&slot)));
        let sent = self.send_aside(slot, target, due, |out| {
            out.extend_from_slice(&requests);
            Ok(traits)
        });
        match sent {
            Ok((state, side)) => Call::new(self.client.clone(), Some(side), state),
            Err(error) => self.failed(error),
        }
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
        let (mut written, mut again) = (None, None);
        let mut queue = connection.shared.queue();
        let pushed = queue.push(Route { policy: Policy::Queue, ..self.route }, &mut target, due, |bytes| {
            let start = bytes.len();
            let traits = encode(bytes)?;
            if self.client.connection.cache.is_some() && !traits.reads {
                written = Some((traits, bytes[start..].to_vec()));
            }
            if self.client.is_cluster() {
                again =
                    Some(Again { request: bytes[start..].to_vec(), traits, db: self.clone(), due, hops: 0 });
            }
            Ok(traits)
        });
        let Pushed::Queued(ticket) = pushed? else {
            return Err(Error::usage("a side connection holds another call"));
        };
        connection.shared.tell(queue);
        Ok((State::Queued(slot, ticket), Box::new(Aside { connection, written, again })))
    }
}

impl Db {
    /// Sends each call of a pipeline to the node that has its keys. The call gets their replies, in order.
    fn send_parts<T: FromValue>(&self, requests: &[u8], traits: Traits) -> Call<T> {
        if traits.blocks {
            return self
                .failed(Error::usage("a call that waits in the server cannot be part of a pipeline in a cluster; make it by itself"));
        }
        let parts: Result<Vec<_>, Error> = rows::requests(requests)
            .map(|part| Ok((self.client.at_keys_of(part)?, rows::traits(part)?, part)))
            .collect();
        let parts = match parts {
            Ok(parts) => parts,
            Err(error) => return self.failed(error),
        };
        let (due, slot) = (self.due(), Arc::new(Slot::default()));
        let gathering = Gathering::new(Arc::clone(&slot), parts.len());
        for (number, (client, traits, part)) in parts.into_iter().enumerate() {
            let mut target = Some(Target::Part(Arc::clone(&gathering), number));
            let policy = if self.route.policy == Policy::Block { Policy::Queue } else { self.route.policy };
            let mut queue = client.connection.shared.queue();
            let pushed = queue.push(Route { policy, ..self.route }, &mut target, due, |out| {
                client.connection.writes(traits, part);
                out.extend_from_slice(part);
                Ok(traits)
            });
            match (pushed, target) {
                (Err(error), Some(target)) => {
                    drop(queue);
                    target.complete(Err(error));
                }
                _ => client.connection.shared.tell(queue),
            }
        }
        Call::new(self.client.clone(), None, State::Shared(slot))
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
        if !self.db.client.is_cluster() {
            return self.db.fire_here(args);
        }
        let mut request = Vec::new();
        args::encode(&args, &mut request);
        match self.db.at_keys_of(&request) {
            Ok(db) => db.fire_here(args),
            Err(error) => tracing::debug!("a call that was made and forgotten is dropped: {error}"),
        }
    }
}

impl Db {
    fn fire_here(&self, args: impl Args) {
        #[cfg(feature = "shm")]
        if let Some(memory) = &self.client.connection.memory {
            return self.fire_in_memory(memory, &args);
        }
        let shared = &self.client.connection.shared;
        let policy = if self.route.policy == Policy::Block { Policy::Queue } else { self.route.policy };
        let route = Route { policy, ..self.route };
        let mut queue = shared.queue();
        let pushed = queue.push(route, &mut None, None, |bytes| self.client.connection.encode(&args, bytes));
        match pushed {
            Ok(_) => shared.tell(queue),
            Err(error) => {
                drop(queue);
                tracing::debug!("a call that was made and forgotten is dropped: {error}");
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
        let is_atomic = self.traits.shape == Shape::Transaction;
        let name = if is_atomic { "MULTI" } else { "PIPELINE" };
        let span = Span::of_call(&name, self.db.route.db, &self.db.client.connection.shared.options.endpoint);
        self.send_anywhere().spanned(span)
    }

    fn send_anywhere<T: FromValue>(self) -> Call<T> {
        let Pipeline { db, bytes, mut traits, error } = self;
        let empty = || Error::usage("a pipeline without calls cannot be sent; add one by `call`");
        if let Some(error) = error.or_else(|| (traits.replies == 0).then(empty)) {
            return db.failed(error);
        }
        let atomic = traits.shape == Shape::Transaction;
        if db.client.is_cluster() && !atomic {
            return db.send_parts(&bytes, traits);
        }
        let db = match db.at_keys_of(&bytes) {
            Ok(db) => db,
            Err(error) => return db.failed(error),
        };
        if atomic {
            // MULTI and EXEC have replies, too.
            traits.replies += 2;
        }
        #[cfg(feature = "shm")]
        if let Some(memory) = &db.client.connection.memory {
            return db.send_in_memory(memory, &bytes, traits);
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
