//! A cluster: which node has the keys of a call, and what becomes of calls that a node sends on.
//!
//! ```text
//!   call --slot of its keys--> map --> connection of that node --MOVED, ASK--> redirect --> connection of another node
//!                               ^                              --TRYAGAIN, break--> later --(a pause)--> the map again
//!                               +--- CLUSTER SLOTS, asked by the cluster's thread after each MOVED and each break
//! ```
//!
//! Reads of `Db::from_replica` go to a replica of the master, over a connection of its own that began with READONLY. A replica that does
//! not have the keys sends them on by MOVED, as any node.
//!
//! The connections of the nodes are made when they are first needed, and driven as the client's first one, which carries the calls
//! without keys and those that are made before the map is known.
//!
//! Invariants:
//! 1. **N1** A call is in one queue, in one flight, or in `later`: it is sent on only by what took it out of the place before.
//! 2. **N2** Only what a node refused without running it, was not sent, or only reads, is sent on.
//! 3. **N3** No queue's lock is taken while `state` is locked.
//!
//! Calls of one slot keep their order except while the slot moves: one that is sent on may then run behind one that was made later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use polder_wire::resp::Value;

use crate::args;
use crate::cache::Cache;
use crate::connection::Connection;
use crate::driver::{Secrets, sentinel};
use crate::error::Error;
use crate::link::Listeners;
use crate::options::{Endpoint, Options};
use crate::queue::{Guide, Stray};
use crate::rows::{self, SLOTS};
use crate::value::refused;

/// In the map, a slot that no node is known to have.
const UNKNOWN: u16 = u16::MAX;
/// How often a call may be sent on before its refusal is given to the program, and how often without a pause.
const HOPS_MAX: u8 = 64;
const HOPS_AT_ONCE: u8 = 4;
/// The pauses before a call is tried again.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(320);
/// The map is not asked for more often than this.
const REFRESH_PAUSE: Duration = Duration::from_millis(50);
/// Nor more often than this where a read found no replica.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// How long one node may take to tell the map.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(1);

type Place = (String, u16);

/// Which node has which slot.
struct Map {
    masters: Vec<Place>,
    /// The replicas of each master, by its number.
    replicas: Vec<Vec<Place>>,
    /// The number of each slot's master.
    slots: Vec<u16>,
}

impl Map {
    fn new() -> Map {
        Map { masters: Vec::new(), replicas: Vec::new(), slots: vec![UNKNOWN; SLOTS] }
    }

    /// Reads the reply to CLUSTER SLOTS; `asked` is the host that replied, and stands where a node does not know its own.
    fn read(reply: &Value, asked: &str) -> Option<Map> {
        let mut map = Map::new();
        let Value::Array(ranges) = reply else { return None };
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Integer(first), Value::Integer(last), master, others @ ..] = &range[..] else {
                return None;
            };
            let number = map.master(place(master, asked)?);
            let range = usize::try_from(*first).ok()?..=usize::try_from(*last).ok()?;
            map.slots.get_mut(range)?.fill(number);
            let replicas = &mut map.replicas[usize::from(number)];
            for place in others.iter().filter_map(|node| place(node, asked)) {
                // It is told with each range of its master.
                if !replicas.contains(&place) {
                    replicas.push(place);
                }
            }
        }
        (!map.masters.is_empty()).then_some(map)
    }

    fn master(&mut self, place: Place) -> u16 {
        let at = self.masters.iter().position(|known| *known == place).unwrap_or_else(|| {
            self.masters.push(place);
            self.replicas.push(Vec::new());
            self.masters.len() - 1
        });
        at as u16
    }

    fn replicas_of(&self, slot: usize) -> &[Place] {
        self.replicas.get(usize::from(self.slots[slot])).map_or(&[], |replicas| replicas)
    }

    /// All nodes that were told, masters first.
    fn known(&self) -> impl Iterator<Item = &Place> {
        self.masters.iter().chain(self.replicas.iter().flatten())
    }
}

/// Host and port of a node.
fn place(node: &Value, asked: &str) -> Option<Place> {
    let Value::Array(words) = node else { return None };
    let [host, Value::Integer(port), ..] = &words[..] else { return None };
    let host = match host {
        Value::Bulk(host) if !host.is_empty() => {
            String::from_utf8(host.clone()).ok().filter(|host| host != "?")?
        }
        _ => asked.to_owned(),
    };
    Some((host, u16::try_from(*port).ok()?))
}

/// A call that is tried again, and when.
struct Later {
    stray: Stray,
    at: Instant,
}

/// Connections by the nodes that they lead to.
type Nodes = BTreeMap<Place, Arc<Connection>>;

struct State {
    map: Map,
    nodes: Nodes,
    /// Those to replicas, which are told that they are only read from (READONLY).
    replicas: Nodes,
    /// Which replica is read next.
    turn: usize,
    /// When the map was last asked for because no replica was known.
    looked: Option<Instant>,
    later: Vec<Later>,
    /// Whether the map may be old.
    is_stale: bool,
    is_closed: bool,
    /// The connection of calls without keys.
    main: Weak<Connection>,
}

/// Where a call is to go that a node has refused.
pub(crate) struct Redirection {
    pub connection: Arc<Connection>,
    /// Whether the node must be told that it is asked by way of an exception.
    pub asks: bool,
}

/// What the connections of a cluster's client share.
pub(crate) struct Cluster {
    options: Arc<Options>,
    secrets: Secrets,
    state: Mutex<State>,
    changed: Condvar,
}

impl Cluster {
    pub(crate) fn new(options: Arc<Options>, secrets: Secrets) -> Arc<Cluster> {
        let state = State {
            map: Map::new(),
            nodes: Nodes::new(),
            replicas: Nodes::new(),
            turn: 0,
            looked: None,
            later: Vec::new(),
            is_stale: true,
            is_closed: false,
            main: Weak::new(),
        };
        Arc::new(Cluster { options, secrets, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the connections tell of calls that belong elsewhere.
    pub(crate) fn guide(self: &Arc<Self>) -> Arc<dyn Guide> {
        Arc::new(Handle(Arc::clone(self)))
    }

    /// Starts the thread that learns the map and tries calls again.
    ///
    /// # Errors
    /// [`Error::Usage`] when the operating system has no thread left.
    pub(crate) fn start(self: &Arc<Self>, main: &Arc<Connection>) -> Result<(), Error> {
        self.lock().main = Arc::downgrade(main);
        let cluster = Arc::clone(self);
        let unable = |error| Error::usage(format!("the cluster's thread cannot be started: {error}"));
        std::thread::Builder::new()
            .name("polder-cluster".into())
            .spawn(move || cluster.run())
            .map_err(unable)?;
        Ok(())
    }

    /// Ends the connections when what they have been given is done.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let nodes = (std::mem::take(&mut state.nodes), std::mem::take(&mut state.replicas));
        let later = std::mem::take(&mut state.later);
        drop(state);
        self.changed.notify_all();
        drop(nodes);
        let error = Error::not_sent("the client was closed");
        later.into_iter().for_each(|later| later.stray.call.target.complete(Err(error.clone())));
    }

    /// The connection of the node that has a slot; `None` for a call without keys, or if the node is not known yet.
    pub(crate) fn connection(self: &Arc<Self>, slot: Option<u16>) -> Option<Arc<Connection>> {
        let mut state = self.lock();
        let number = state.map.slots[usize::from(slot?)];
        let place = state.map.masters.get(usize::from(number))?.clone();
        self.node(&mut state, place)
    }

    /// The connection of a replica of a slot's master, each in turn; `None` for a call without keys, and where no replica is known that
    /// can be reached.
    pub(crate) fn replica(self: &Arc<Self>, slot: Option<u16>) -> Option<Arc<Connection>> {
        let slot = usize::from(slot?);
        let count = self.lock().map.replicas_of(slot).len();
        let found = (0..count)
            .find_map(|_| self.next_replica(slot).filter(|connection| !connection.shared.queue().is_failing));
        if found.is_none() {
            self.look_for_replicas();
        }
        found
    }

    /// Has the map asked for, since a replica may have been added. A node tells of a replica only when that has its master's data.
    fn look_for_replicas(&self) {
        let (mut state, now) = (self.lock(), Instant::now());
        if state.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK_PAUSE) {
            (state.looked, state.is_stale) = (Some(now), true);
            self.changed.notify_all();
        }
    }

    fn next_replica(self: &Arc<Self>, slot: usize) -> Option<Arc<Connection>> {
        let mut state = self.lock();
        let replicas = state.map.replicas_of(slot);
        let place = replicas.get(state.turn % replicas.len().max(1))?.clone();
        state.turn = state.turn.wrapping_add(1);
        if let Some(connection) = state.replicas.get(&place) {
            return Some(Arc::clone(connection));
        }
        let connection = self.open(&state, &place, true)?;
        Some(Arc::clone(state.replicas.entry(place).or_insert(connection)))
    }

    /// The connection of a node, made if there is none.
    fn node(self: &Arc<Self>, state: &mut State, place: Place) -> Option<Arc<Connection>> {
        if let Some(connection) = state.nodes.get(&place) {
            return Some(Arc::clone(connection));
        }
        let connection = self.open(state, &place, false)?;
        Some(Arc::clone(state.nodes.entry(place).or_insert(connection)))
    }

    fn open(self: &Arc<Self>, state: &State, place: &Place, reads_only: bool) -> Option<Arc<Connection>> {
        let main = state.main.upgrade().filter(|_| !state.is_closed)?;
        let endpoint = Endpoint::Tcp { host: place.0.clone(), port: place.1 };
        let cache =
            self.options.cache.clone().filter(|_| !reads_only).map(|options| Arc::new(Cache::new(options)));
        let options = Arc::new(Options { endpoint, ..(*self.options).clone() });
        let listeners =
            Listeners { cache: cache.clone(), guide: Some(self.guide()), reads_only, ..Listeners::default() };
        match main.shared.start_at(options, listeners) {
            Ok(shared) => Some(Connection::new(shared, cache)),
            Err(error) => {
                tracing::error!("no connection to a node of the cluster can be started: {error}");
                None
            }
        }
    }

    /// The connections that are there.
    pub(crate) fn open_connections(&self) -> Vec<Arc<Connection>> {
        let state = self.lock();
        state.nodes.values().chain(state.replicas.values()).cloned().collect()
    }

    /// The masters by their names, each with its connection.
    pub(crate) fn masters(self: &Arc<Self>) -> Vec<(String, Arc<Connection>)> {
        let mut state = self.lock();
        let masters = state.map.masters.clone();
        let named = |place: Place| {
            let name = Endpoint::Tcp { host: place.0.clone(), port: place.1 }.to_string();
            Some((name, self.node(&mut state, place)?))
        };
        masters.into_iter().filter_map(named).collect()
    }

    /// Takes over a map that a node has told.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is none.
    pub(crate) fn learn(self: &Arc<Self>, reply: &Value) -> Result<(), Error> {
        let host = self.seeds().first().map_or(String::new(), |(host, _)| host.clone());
        let map = Map::read(reply, &host).ok_or_else(|| {
            Error::usage("the server's reply to CLUSTER SLOTS names no masters; is it a cluster?")
        })?;
        self.take_over(map);
        Ok(())
    }

    /// Uses a new map: what waits for nodes that have no slots any more is sent on.
    fn take_over(self: &Arc<Self>, map: Map) {
        let mut state = self.lock();
        let replicas: BTreeSet<&Place> = map.replicas.iter().flatten().collect();
        let mut gone = parted(&mut state.nodes, |place| map.masters.contains(place));
        gone.append(&mut parted(&mut state.replicas, |place| replicas.contains(place)));
        state.map = map;
        drop(state);
        for connection in gone {
            let strays = connection.shared.queue().take_all();
            let subscribing = connection.subscribing.lock().unwrap_or_else(PoisonError::into_inner).take();
            subscribing.into_iter().for_each(|(subscriptions, _)| subscriptions.leave());
            strays.into_iter().for_each(|stray| self.send(stray));
        }
    }

    fn seeds(&self) -> Vec<Place> {
        match &self.options.endpoint {
            Endpoint::Cluster { nodes } => nodes.clone(),
            _ => Vec::new(),
        }
    }

    /// What an error says of where a call belongs; a slot that has moved is noted.
    pub(crate) fn redirection(self: &Arc<Self>, text: &[u8]) -> Option<Redirection> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split(' ');
        let (code, slot, place) = (words.next()?, words.next()?, words.next()?);
        let asks = code == "ASK";
        if !asks && code != "MOVED" {
            return None;
        }
        let (host, port) = place.rsplit_once(':')?;
        let host = if host.is_empty() { self.seeds().first()?.0.clone() } else { host.to_owned() };
        let place = (host, port.parse().ok()?);
        let mut state = self.lock();
        if !asks {
            let number = state.map.master(place.clone());
            *state.map.slots.get_mut(slot.parse::<usize>().ok()?)? = number;
            state.is_stale = true;
            self.changed.notify_all();
        }
        let connection = self.node(&mut state, place)?;
        Some(Redirection { connection, asks })
    }

    /// Sends a call to the node that has its keys, as far as is known.
    fn send(self: &Arc<Self>, stray: Stray) {
        let connection = match rows::slot(&stray.request) {
            Ok(slot) => self.connection(slot).or_else(|| self.lock().main.upgrade()),
            Err(error) => return stray.call.target.complete(Err(error)),
        };
        match connection {
            Some(connection) => append(&connection, stray),
            None => stray.call.target.complete(Err(Error::not_sent("the client was closed"))),
        }
    }

    /// Keeps a call for a while.
    fn keep(&self, strays: impl IntoIterator<Item = Stray>) {
        let now = Instant::now();
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            let error = Error::not_sent("the client was closed");
            return strays.into_iter().for_each(|stray| stray.call.target.complete(Err(error.clone())));
        }
        state.is_stale = true;
        state.later.extend(strays.into_iter().map(|stray| {
            let pause = PAUSE_MIN * (1 << stray.call.traits.hops.min(5));
            Later { at: now + pause.min(PAUSE_MAX), stray }
        }));
        drop(state);
        self.changed.notify_all();
    }

    /// The cluster's thread.
    fn run(self: &Arc<Self>) {
        let mut next_refresh = Instant::now();
        loop {
            let mut state = self.lock();
            if state.is_closed {
                return;
            }
            let now = Instant::now();
            let due = |later: &Later| later.at.min(later.stray.call.due.map_or(later.at, |due| due.at));
            let (go, stay): (Vec<_>, Vec<_>) =
                std::mem::take(&mut state.later).into_iter().partition(|later| due(later) <= now);
            state.later = stay;
            let refreshes = state.is_stale && next_refresh <= now;
            if go.is_empty() && !refreshes {
                let refresh = state.is_stale.then_some(next_refresh);
                let next = state.later.iter().map(due).chain(refresh).min();
                let patience =
                    next.map_or(Duration::from_secs(3600), |next| next.saturating_duration_since(now));
                let _woken = self.changed.wait_timeout(state, patience);
                continue;
            }
            state.is_stale &= !refreshes;
            drop(state);
            for Later { mut stray, .. } in go {
                stray
                    .call
                    .take_late(now)
                    .for_each(|(target, due)| target.complete(Err(due.passed_in_queue((0, 0)))));
                if stray.call.target.is_wanted() {
                    self.send(stray);
                }
            }
            if refreshes {
                if !self.refresh() {
                    self.lock().is_stale = true;
                }
                next_refresh = Instant::now() + REFRESH_PAUSE;
            }
        }
    }

    /// Asks the nodes for the map, until one tells it.
    fn refresh(self: &Arc<Self>) -> bool {
        let timeout = self.options.connect_timeout.min(REFRESH_TIMEOUT);
        for (host, port) in self.places() {
            if self.lock().is_closed {
                return true;
            }
            let told =
                sentinel::ask(&self.options, &self.secrets, (&host, port), &("CLUSTER", "SLOTS"), timeout);
            match told.map(|reply| Map::read(&reply, &host)) {
                Ok(Some(map)) => {
                    self.take_over(map);
                    return true;
                }
                Ok(None) => tracing::debug!("{host}:{port} names no masters of the cluster"),
                Err(error) => tracing::debug!("{host}:{port} does not tell the cluster's map: {error}"),
            }
        }
        false
    }
}

/// Takes out the connections of the nodes that are not kept.
fn parted(nodes: &mut Nodes, stays: impl Fn(&Place) -> bool) -> Vec<Arc<Connection>> {
    let (stay, gone): (Nodes, Nodes) = std::mem::take(nodes).into_iter().partition(|(place, _)| stays(place));
    *nodes = stay;
    gone.into_values().collect()
}

/// Puts a call into the queue of a connection.
fn append(connection: &Connection, stray: Stray) {
    let mut queue = connection.shared.queue();
    match queue.append(stray) {
        Ok(()) => connection.shared.tell(queue),
        Err((target, error)) => {
            drop(queue);
            target.complete(Err(error));
        }
    }
}

/// A cluster as its connections see it.
struct Handle(Arc<Cluster>);

impl Guide for Handle {
    fn redirect(&self, mut stray: Stray, refusal: &[u8]) {
        let hops = &mut stray.call.traits.hops;
        *hops += 1;
        if *hops > HOPS_MAX {
            return stray.call.target.complete(Err(refused(refusal)));
        }
        match self.0.redirection(refusal).filter(|_| *hops <= HOPS_AT_ONCE) {
            Some(Redirection { connection, asks }) => {
                if asks {
                    let mut request = Vec::new();
                    args::encode(&"ASKING", &mut request);
                    request.append(&mut stray.request);
                    stray.request = request;
                    stray.call.traits = stray.call.traits.asking();
                }
                append(&connection, stray);
            }
            None => self.0.keep([stray]),
        }
    }

    fn lost(&self, strays: Vec<Stray>) {
        if !strays.is_empty() {
            self.0.keep(strays);
        }
    }

    fn places(&self) -> Vec<Place> {
        self.0.places()
    }
}

impl Cluster {
    /// The nodes that may be asked, the best first.
    fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.lock().map.known().cloned().collect();
        for seed in self.seeds() {
            if !places.contains(&seed) {
                places.push(seed);
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_and_what_is_no_map_is_refused() {
        let node =
            |host: Value, port| Value::Array(vec![host, Value::Integer(port), Value::Bulk("id".into())]);
        let range = |first, last, nodes: Vec<Value>| {
            Value::Array([vec![Value::Integer(first), Value::Integer(last)], nodes].concat())
        };
        let reply = Value::Array(vec![
            range(0, 49, vec![node(Value::Bulk("a".into()), 1), node(Value::Bulk("b".into()), 2)]),
            range(50, 99, vec![node(Value::Bulk("a".into()), 1), node(Value::Bulk("b".into()), 2)]),
            range(100, 16383, vec![node(Value::Null, 3)]),
        ]);
        let map = Map::read(&reply, "asked").expect("is a map");
        let of = |slot: usize| map.masters[usize::from(map.slots[slot])].clone();
        assert_eq!((of(99), of(100)), (("a".to_owned(), 1), ("asked".to_owned(), 3)));
        assert_eq!(map.known().count(), 3);
        assert_eq!(map.replicas, [vec![("b".to_owned(), 2)], vec![]]);
        for wrong in [
            Value::Array(vec![]),
            Value::Error("ERR This instance has cluster support disabled".into()),
            Value::Array(vec![range(0, 16384, vec![node(Value::Bulk("a".into()), 1)])]),
            Value::Array(vec![range(9, 3, vec![node(Value::Bulk("a".into()), 1)])]),
            Value::Array(vec![range(0, 1, vec![Value::Null])]),
        ] {
            assert!(Map::read(&wrong, "asked").is_none(), "{wrong:?}");
        }
    }
}
