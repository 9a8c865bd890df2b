//! Subscriptions: channels, patterns and shard channels, on a connection of their own that survives reconnects.
//!
//! ```text
//!   Subscription --recv--> its own list of events <--deliver-- link of the subscribing connection
//!        |                                                          ^
//!        +-- names wanted (counted over all subscriptions) --gather-+   SUBSCRIBE for what is new, UNSUBSCRIBE for what nobody wants
//! ```
//!
//! Invariants:
//! 1. **B1** `wanted` counts the subscriptions of each name; `asked` is what the present connection has been told. What is
//!    wanted and not asked is subscribed, what is asked and not wanted unsubscribed; a new connection has been told nothing.
//! 2. **B2** A subscription hears [`Event::Missed`] for every interval in which messages may have been lost: after each
//!    reconnect, and in place of messages for which its list had no room.
//! 3. **B3** A subscription that does not read holds at most [`EVENTS_MAX`] events; it never delays another one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use polder_wire::resp::Value;

use crate::args;
use crate::driver::Shared;
use crate::slot::ThreadWaker;

/// The most events that wait for a subscription that does not read.
const EVENTS_MAX: usize = 65_536;

/// What a subscription hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The server has confirmed all names of the subscription: messages published from now on are heard.
    Ready,
    Message {
        channel: Vec<u8>,
        /// The pattern that matched, where the subscription is of patterns.
        pattern: Option<Vec<u8>>,
        payload: Vec<u8>,
    },
    /// Messages may have been lost before this: the connection was made anew, or the subscription read too slowly. What is published
    /// from now on is heard.
    Missed,
    /// The server refused to subscribe, and said why (its ACL, for instance). Nothing is heard until the connection is made anew.
    Refused(String),
}

/// What kind of names a subscription has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Channel,
    Pattern,
    Shard,
}

impl Kind {
    fn subscribe(self) -> &'static str {
        match self {
            Kind::Channel => "SUBSCRIBE",
            Kind::Pattern => "PSUBSCRIBE",
            Kind::Shard => "SSUBSCRIBE",
        }
    }
    fn unsubscribe(self) -> &'static str {
        match self {
            Kind::Channel => "UNSUBSCRIBE",
            Kind::Pattern => "PUNSUBSCRIBE",
            Kind::Shard => "SUNSUBSCRIBE",
        }
    }
}

type Name = (Kind, Vec<u8>);

/// One subscription's events.
#[derive(Default)]
struct Mailbox {
    events: VecDeque<Event>,
    waker: Option<Waker>,
    /// Names that the server has not confirmed yet on this connection.
    unconfirmed: BTreeSet<Name>,
    /// Whether there was a gap before the names that are not confirmed yet.
    has_gap: bool,
}

impl Mailbox {
    fn put(&mut self, event: Event) -> Option<Waker> {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else if self.events.back() != Some(&Event::Missed) {
            self.events.push_back(Event::Missed);
        }
        self.waker.take()
    }
}

#[derive(Default)]
struct State {
    wanted: BTreeMap<Name, Vec<Weak<Mutex<Mailbox>>>>,
    asked: BTreeSet<Name>,
    /// Whether the connection has been made before, so that a new one means a gap.
    connected_before: bool,
}

/// All subscriptions of a client.
#[derive(Default)]
pub(crate) struct Subscriptions {
    state: Mutex<State>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Subscriptions {
    /// A new subscription of names of one kind; the driver is to be woken.
    pub(crate) fn add(
        self: &Arc<Self>,
        shared: Arc<Shared>,
        connection: Arc<dyn Send + Sync>,
        kind: Kind,
        names: Vec<Vec<u8>>,
    ) -> Subscription {
        let names: BTreeSet<Name> = names.into_iter().map(|name| (kind, name)).collect();
        let mailbox = Arc::new(Mutex::new(Mailbox { unconfirmed: names.clone(), ..Mailbox::default() }));
        let mut state = lock(&self.state);
        for name in &names {
            state.wanted.entry(name.clone()).or_default().push(Arc::downgrade(&mailbox));
            // Asked again even if another subscription has it: each hears its own confirmation.
            state.asked.remove(name);
        }
        drop(state);
        Subscription { subscriptions: Arc::clone(self), shared, names, mailbox, _connection: connection }
    }

    /// The connection has logged in: it has been told nothing yet.
    pub(crate) fn connected(&self) {
        let mut state = lock(&self.state);
        state.asked.clear();
        let again = std::mem::replace(&mut state.connected_before, true);
        let mut mailboxes: BTreeMap<usize, (Arc<Mutex<Mailbox>>, BTreeSet<Name>)> = BTreeMap::new();
        for (name, listeners) in &state.wanted {
            for mailbox in listeners.iter().filter_map(Weak::upgrade) {
                let place = Arc::as_ptr(&mailbox) as usize;
                mailboxes.entry(place).or_insert_with(|| (mailbox, BTreeSet::new())).1.insert(name.clone());
            }
        }
        drop(state);
        for (mailbox, names) in mailboxes.into_values() {
            let mut mailbox = lock(&mailbox);
            mailbox.unconfirmed = names;
            // Told with the last confirmation: a program that reads the state again on hearing it misses nothing after that.
            mailbox.has_gap |= again;
        }
    }

    /// The server refused a SUBSCRIBE: those that wait for a confirmation are told.
    pub(crate) fn refuse(&self, text: &[u8]) {
        let listeners: Vec<Arc<Mutex<Mailbox>>> = lock(&self.state).wanted.values().flatten().filter_map(Weak::upgrade).collect();
        for mailbox in listeners {
            let mut mailbox = lock(&mailbox);
            if mailbox.unconfirmed.is_empty() {
                continue;
            }
            mailbox.unconfirmed.clear();
            let waker = mailbox.put(Event::Refused(String::from_utf8_lossy(text).into_owned()));
            drop(mailbox);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// What the server is to be told (B1), framed; empty if nothing.
    pub(crate) fn requests(&self) -> Vec<u8> {
        let mut state = lock(&self.state);
        state.wanted.retain(|_, listeners| {
            listeners.retain(|mailbox| mailbox.strong_count() > 0);
            !listeners.is_empty()
        });
        let State { wanted, asked, .. } = &mut *state;
        let mut bytes = Vec::new();
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            let of_kind = |name: &&Name| name.0 == kind;
            let new: Vec<&[u8]> = wanted.keys().filter(of_kind).filter(|name| !asked.contains(*name)).map(|name| &name.1[..]).collect();
            let gone: Vec<&[u8]> =
                asked.iter().filter(of_kind).filter(|name| !wanted.contains_key(*name)).map(|name| &name.1[..]).collect();
            if !new.is_empty() {
                args::encode(&(kind.subscribe(), &new[..]), &mut bytes);
            }
            if !gone.is_empty() {
                args::encode(&(kind.unsubscribe(), &gone[..]), &mut bytes);
            }
        }
        *asked = wanted.keys().cloned().collect();
        bytes
    }

    /// Whether a frame is one that a subscribed connection gets without asking. In RESP2 these are plain arrays.
    pub(crate) fn is_event(items: &[Value]) -> bool {
        let word = match items.first() {
            Some(Value::Bulk(word) | Value::Status(word)) => &word[..],
            _ => return false,
        };
        matches!(word, b"message" | b"pmessage" | b"smessage") || word.ends_with(b"subscribe")
    }

    /// One frame from the server.
    pub(crate) fn deliver(&self, items: Vec<Value>) {
        let mut texts = items.into_iter().map(|item| match item {
            Value::Bulk(text) | Value::Status(text) => text,
            _ => Vec::new(),
        });
        let mut text = || texts.next().unwrap_or_default();
        let (name, event) = match &text()[..] {
            b"message" => message(Kind::Channel, text(), text()),
            b"smessage" => message(Kind::Shard, text(), text()),
            b"pmessage" => {
                let (pattern, channel, payload) = (text(), text(), text());
                ((Kind::Pattern, pattern.clone()), Some(Event::Message { channel, pattern: Some(pattern), payload }))
            }
            b"subscribe" => ((Kind::Channel, text()), None),
            b"psubscribe" => ((Kind::Pattern, text()), None),
            b"ssubscribe" => ((Kind::Shard, text()), None),
            _ => return,
        };
        let listeners: Vec<Arc<Mutex<Mailbox>>> =
            lock(&self.state).wanted.get(&name).into_iter().flatten().filter_map(Weak::upgrade).collect();
        for mailbox in listeners {
            let mut mailbox = lock(&mailbox);
            let is_ready = event.is_none() && mailbox.unconfirmed.remove(&name) && mailbox.unconfirmed.is_empty();
            let mut waker = event.clone().and_then(|event| mailbox.put(event));
            if is_ready && std::mem::take(&mut mailbox.has_gap) {
                waker = mailbox.put(Event::Missed).or(waker);
            }
            if is_ready {
                waker = mailbox.put(Event::Ready).or(waker);
            }
            drop(mailbox);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

fn message(kind: Kind, channel: Vec<u8>, payload: Vec<u8>) -> (Name, Option<Event>) {
    ((kind, channel.clone()), Some(Event::Message { channel, pattern: None, payload }))
}

/// Some channels or patterns, and what is heard of them. Dropped, it unsubscribes.
pub struct Subscription {
    subscriptions: Arc<Subscriptions>,
    shared: Arc<Shared>,
    names: BTreeSet<Name>,
    mailbox: Arc<Mutex<Mailbox>>,
    /// Keeps the connection open.
    _connection: Arc<dyn Send + Sync>,
}

impl Subscription {
    /// The next event. The first is [`Event::Ready`]. Dropping the future loses nothing.
    pub fn recv(&mut self) -> impl Future<Output = Event> + Send + '_ {
        std::future::poll_fn(|context| self.poll(context.waker()))
    }

    /// The next event, for programs without a runtime: keeps the thread.
    pub fn wait(&mut self) -> Event {
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        loop {
            match self.poll(&waker) {
                Poll::Ready(event) => return event,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// The next event, if there is one already.
    pub fn try_recv(&mut self) -> Option<Event> {
        lock(&self.mailbox).events.pop_front()
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Event> {
        let mut mailbox = lock(&self.mailbox);
        match mailbox.events.pop_front() {
            Some(event) => Poll::Ready(event),
            None => {
                mailbox.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = lock(&self.subscriptions.state);
        for name in &self.names {
            if let Some(listeners) = state.wanted.get_mut(name) {
                listeners.retain(|mailbox| mailbox.as_ptr() != Arc::as_ptr(&self.mailbox));
                if listeners.is_empty() {
                    state.wanted.remove(name);
                }
            }
        }
        drop(state);
        self.shared.tell(self.shared.queue());
    }
}
