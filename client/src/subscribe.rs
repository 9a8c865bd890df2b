//! Subscriptions: channels, patterns and shard channels, on a connection of their own that survives reconnects.
//!
//! ```text
//!   Subscription --recv--> its own list of events <--deliver-- link of the subscribing connection
//!        |                                                          ^
//!        +-- orders, in the order in which they were given --gather-+   SUBSCRIBE of a subscription, UNSUBSCRIBE of what none has
//! ```
//!
//! Invariants:
//! 1. **B1** Orders are sent in the order in which they were given, and the server confirms them in that order, name by name, or
//!    refuses one as a whole. So each confirmation and each refusal belongs to the first order in `asked`: a confirmation of an
//!    earlier order never counts for a later subscription of the same name, and one subscription's refusal ends no other's.
//! 2. **B2** A subscription hears [`Event::Missed`] for every interval in which messages may have been lost: after each
//!    reconnect, and in place of messages for which its list had no room.
//! 3. **B3** A subscription that does not read holds at most [`EVENTS_MAX`] events; it never delays another one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};

use polder_wire::resp::Value;

use crate::args;
use crate::locks::lock;
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
    pub(crate) fn subscribe(self) -> &'static str {
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
    /// Whether there was a gap before the names that are not confirmed yet.
    has_gap: bool,
}

impl Mailbox {
    /// Adds an event. In a full list, messages become one [`Event::Missed`]; what says how the subscription stands is never
    /// lost, but only the last of it is kept beyond the list.
    fn put(&mut self, event: Event) -> Option<Waker> {
        if self.events.len() >= EVENTS_MAX {
            match event {
                Event::Message { .. } | Event::Missed => {
                    if self.events.back() != Some(&Event::Missed) {
                        self.events.push_back(Event::Missed);
                    }
                }
                Event::Ready | Event::Refused(_) => {
                    let beyond = self.events.split_off(EVENTS_MAX);
                    if beyond.contains(&Event::Missed) {
                        self.events.push_back(Event::Missed);
                    }
                    self.events.push_back(event);
                }
            }
        } else {
            self.events.push_back(event);
        }
        self.waker.take()
    }
}

/// What the server is to be told, or has been.
struct Order {
    kind: Kind,
    names: Vec<Vec<u8>>,
    /// Names that the server has not confirmed yet.
    unconfirmed: usize,
    /// The subscription that begins; `None` ends one.
    mailbox: Option<Weak<Mutex<Mailbox>>>,
}

impl Order {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let command = if self.mailbox.is_some() { self.kind.subscribe() } else { self.kind.unsubscribe() };
        args::encode(&(command, &self.names[..]), bytes);
    }
}

#[derive(Default)]
struct State {
    wanted: BTreeMap<Name, Vec<Weak<Mutex<Mailbox>>>>,
    /// Not sent yet.
    orders: VecDeque<Order>,
    /// Sent on this connection, and not confirmed yet (B1).
    asked: VecDeque<Order>,
    /// Whether this connection takes orders.
    is_connected: bool,
    /// Whether the connection has been made before, so that a new one means a gap.
    connected_before: bool,
}

/// The driver of the connection, which sends what the subscriptions have to say.
pub(crate) trait Driven: Send + Sync {
    /// Makes the driver look at the subscriptions again.
    fn look(&self);
}

/// All subscriptions of a client.
#[derive(Default)]
pub(crate) struct Subscriptions {
    state: Mutex<State>,
}

impl Subscriptions {
    /// A new subscription of names of one kind; the driver is to be woken. `has_gap`: it goes on with another one, and messages may have been lost in
    /// between.
    pub(crate) fn add(
        self: &Arc<Self>,
        shared: Arc<dyn Driven>,
        connection: Arc<dyn Send + Sync>,
        (kind, names): (Kind, Vec<Vec<u8>>),
        has_gap: bool,
    ) -> Subscription {
        let names: BTreeSet<Name> = names.into_iter().map(|name| (kind, name)).collect();
        let mailbox = Arc::new(Mutex::new(Mailbox { has_gap, ..Mailbox::default() }));
        let mut state = lock(&self.state);
        for name in &names {
            state.wanted.entry(name.clone()).or_default().push(Arc::downgrade(&mailbox));
        }
        // Told even if another subscription has the names: each hears its own confirmation.
        state.order(kind, names.iter().map(|name| name.1.clone()).collect(), Some(Arc::downgrade(&mailbox)));
        drop(state);
        Subscription {
            subscriptions: Arc::clone(self),
            shared,
            names,
            mailbox,
            _connection: connection,
            follows: None,
            was_ready: has_gap,
        }
    }

    /// The connection has logged in: it has been told nothing yet.
    pub(crate) fn connected(&self) {
        let mut state = lock(&self.state);
        state.asked.clear();
        state.orders.clear();
        state.is_connected = true;
        let again = std::mem::replace(&mut state.connected_before, true);
        type Names = Vec<Vec<u8>>;
        let mut mailboxes: BTreeMap<usize, (Weak<Mutex<Mailbox>>, Kind, Names)> = BTreeMap::new();
        for ((kind, name), listeners) in &state.wanted {
            for mailbox in listeners {
                let (_, _, names) = mailboxes
                    .entry(mailbox.as_ptr() as usize)
                    .or_insert_with(|| (mailbox.clone(), *kind, Vec::new()));
                names.push(name.clone());
            }
        }
        for (mailbox, kind, names) in mailboxes.into_values() {
            if let Some(mailbox) = mailbox.upgrade() {
                // Told with the confirmation: a program that reads the state again on hearing it misses nothing after that.
                lock(&mailbox).has_gap |= again;
            }
            state.order(kind, names, Some(mailbox));
        }
    }

    /// The connection broke: what it was told is void, and orders wait for the next one.
    pub(crate) fn disconnected(&self) {
        let mut state = lock(&self.state);
        state.is_connected = false;
        state.asked.clear();
        state.orders.clear();
    }

    /// The server refused the first order that it has not confirmed; returns whether there was one.
    pub(crate) fn refuse(&self, text: &[u8]) -> bool {
        let Some(order) = lock(&self.state).asked.pop_front() else { return false };
        if let Some(mailbox) = order.mailbox.and_then(|mailbox| mailbox.upgrade()) {
            let waker = lock(&mailbox).put(Event::Refused(String::from_utf8_lossy(text).into_owned()));
            waker.into_iter().for_each(Waker::wake);
        }
        true
    }

    /// The server has no slots of its cluster any more: its subscriptions go elsewhere.
    pub(crate) fn leave(&self) {
        let mailboxes: Vec<_> =
            lock(&self.state).wanted.values().flatten().filter_map(Weak::upgrade).collect();
        for mailbox in mailboxes {
            let waker = lock(&mailbox).put(Event::Refused(String::new()));
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// What the server is to be told, framed; empty if nothing.
    pub(crate) fn requests(&self) -> Vec<u8> {
        let mut state = lock(&self.state);
        let mut bytes = Vec::new();
        while let Some(order) = state.orders.pop_front() {
            order.encode(&mut bytes);
            state.asked.push_back(order);
        }
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
                (
                    (Kind::Pattern, pattern.clone()),
                    Event::Message { channel, pattern: Some(pattern), payload },
                )
            }
            b"subscribe" | b"psubscribe" | b"ssubscribe" => return self.confirm(true, &text()),
            b"unsubscribe" | b"punsubscribe" | b"sunsubscribe" => return self.confirm(false, &text()),
            _ => return,
        };
        let listeners: Vec<Arc<Mutex<Mailbox>>> =
            lock(&self.state).wanted.get(&name).into_iter().flatten().filter_map(Weak::upgrade).collect();
        for mailbox in listeners {
            let waker = lock(&mailbox).put(event.clone());
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// The server confirmed one name of the first order (B1).
    fn confirm(&self, subscribes: bool, name: &[u8]) {
        let mut state = lock(&self.state);
        let is_its_own = |order: &&mut Order| {
            order.mailbox.is_some() == subscribes && order.names.iter().any(|own| own == name)
        };
        let Some(order) = state.asked.front_mut().filter(is_its_own) else {
            drop(state);
            if !subscribes {
                self.taken_away(name);
            }
            return;
        };
        order.unconfirmed -= 1;
        if order.unconfirmed > 0 {
            return;
        }
        let mailbox = state.asked.pop_front().and_then(|order| order.mailbox?.upgrade());
        drop(state);
        if let Some(mailbox) = mailbox {
            let mut mailbox = lock(&mailbox);
            let missed = std::mem::take(&mut mailbox.has_gap).then(|| mailbox.put(Event::Missed)).flatten();
            let waker = missed.or(mailbox.put(Event::Ready));
            drop(mailbox);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// The server ended a subscription by itself, as a cluster's node does when it gives a shard channel's slot away: it is
    /// asked again.
    fn taken_away(&self, name: &[u8]) {
        let mut state = lock(&self.state);
        let listeners = state.wanted.get(&(Kind::Shard, name.to_vec())).cloned().unwrap_or_default();
        for mailbox in listeners {
            if let Some(mailbox) = mailbox.upgrade() {
                lock(&mailbox).has_gap = true;
            }
            state.order(Kind::Shard, vec![name.to_vec()], Some(mailbox));
        }
    }
}

impl State {
    /// Something to be told to the server. A new connection is told everything that is wanted anyway.
    fn order(&mut self, kind: Kind, names: Vec<Vec<u8>>, mailbox: Option<Weak<Mutex<Mailbox>>>) {
        if self.is_connected && !names.is_empty() {
            self.orders.push_back(Order { kind, unconfirmed: names.len(), names, mailbox });
        }
    }
}

fn message(kind: Kind, channel: Vec<u8>, payload: Vec<u8>) -> (Name, Event) {
    ((kind, channel.clone()), Event::Message { channel, pattern: None, payload })
}

/// Some channels or patterns, and what is heard of them. Dropped, it unsubscribes.
pub struct Subscription {
    subscriptions: Arc<Subscriptions>,
    shared: Arc<dyn Driven>,
    names: BTreeSet<Name>,
    mailbox: Arc<Mutex<Mailbox>>,
    /// Keeps the connection open.
    _connection: Arc<dyn Send + Sync>,
    /// Subscribes at another node of a cluster, which a refusal names; an empty one says that this node has no slots any more.
    pub(crate) follows: Option<Follow>,
    /// Whether the server has confirmed it before.
    was_ready: bool,
}

/// It is told whether messages may have been lost.
pub(crate) type Follow = Box<dyn Fn(&str, bool) -> Option<Subscription> + Send + Sync>;

/// Where a thread that hears for a subscription leaves what it hears.
#[cfg(feature = "shm")]
pub(crate) struct Heard {
    subscriptions: Arc<Subscriptions>,
    mailbox: Arc<Mutex<Mailbox>>,
}

#[cfg(feature = "shm")]
impl Heard {
    /// How the subscription stands.
    pub(crate) fn tell(&self, event: Event) {
        let waker = lock(&self.mailbox).put(event);
        waker.into_iter().for_each(Waker::wake);
    }

    /// A message, as a server would push it.
    pub(crate) fn deliver(&self, push: Value) {
        if let Value::Push(items) | Value::Array(items) = push {
            self.subscriptions.deliver(items);
        }
    }
}

impl Subscription {
    /// Keeps what hears for it, in place of a connection.
    #[cfg(feature = "shm")]
    pub(crate) fn keep(&mut self, listening: impl Send + Sync + 'static) {
        self._connection = Arc::new(listening);
    }

    #[cfg(feature = "shm")]
    pub(crate) fn heard(&self) -> Heard {
        Heard { subscriptions: Arc::clone(&self.subscriptions), mailbox: Arc::clone(&self.mailbox) }
    }

    /// The next event. The first is [`Event::Ready`]. Dropping the future loses nothing.
    pub fn recv(&mut self) -> impl Future<Output = Event> + Send + '_ {
        std::future::poll_fn(|context| self.poll_event(context.waker()))
    }

    /// The next event, for programs without a runtime: keeps the thread.
    pub fn wait(&mut self) -> Event {
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        loop {
            match self.poll_event(&waker) {
                Poll::Ready(event) => return event,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// The next event, if there is one already.
    pub fn try_recv(&mut self) -> Option<Event> {
        let event = lock(&self.mailbox).events.pop_front()?;
        if self.follow(&event) { self.try_recv() } else { Some(event) }
    }

    /// Whether an event says that another node has the channels, where it is subscribed to them now.
    fn follow(&mut self, event: &Event) -> bool {
        self.was_ready |= *event == Event::Ready;
        let (Some(follow), Event::Refused(text)) = (&self.follows, event) else { return false };
        let Some(next) = follow(text, self.was_ready) else { return false };
        *self = next;
        true
    }

    /// The next event, or a promise to wake `waker` when there is one: for event loops.
    pub fn poll_event(&mut self, waker: &Waker) -> Poll<Event> {
        let mut mailbox = lock(&self.mailbox);
        match mailbox.events.pop_front() {
            Some(event) => {
                drop(mailbox);
                if self.follow(&event) { self.poll_event(waker) } else { Poll::Ready(event) }
            }
            None => {
                let before = mailbox.waker.replace(waker.clone());
                // Dropping a waker may end its task, and with it other subscriptions: not under the lock.
                drop(mailbox);
                drop(before);
                Poll::Pending
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = lock(&self.subscriptions.state);
        let mut gone = Vec::new();
        for name in &self.names {
            if let Some(listeners) = state.wanted.get_mut(name) {
                listeners.retain(|mailbox| mailbox.as_ptr() != Arc::as_ptr(&self.mailbox));
                if listeners.is_empty() {
                    state.wanted.remove(name);
                    gone.push(name.1.clone());
                }
            }
        }
        if let Some((kind, _)) = self.names.first() {
            state.order(*kind, gone, None);
        }
        drop(state);
        self.shared.look();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subscription's mailbox, as [`Subscriptions::add`] makes it.
    fn add(subscriptions: &Subscriptions, name: &str) -> Arc<Mutex<Mailbox>> {
        let mailbox = Arc::new(Mutex::new(Mailbox::default()));
        let mut state = lock(&subscriptions.state);
        state.wanted.entry((Kind::Channel, name.into())).or_default().push(Arc::downgrade(&mailbox));
        state.order(Kind::Channel, vec![name.into()], Some(Arc::downgrade(&mailbox)));
        mailbox
    }

    fn remove(subscriptions: &Subscriptions, name: &str) {
        let mut state = lock(&subscriptions.state);
        state.wanted.remove(&(Kind::Channel, name.into()));
        state.order(Kind::Channel, vec![name.into()], None);
    }

    fn say(subscriptions: &Subscriptions, words: [&str; 3]) {
        subscriptions.deliver(words.iter().map(|word| Value::Bulk(word.as_bytes().to_vec())).collect());
    }

    fn heard(mailbox: &Arc<Mutex<Mailbox>>) -> Vec<Event> {
        lock(mailbox).events.drain(..).collect()
    }

    #[test]
    fn a_confirmation_of_an_earlier_order_is_not_that_of_a_later_subscription() {
        let subscriptions = Subscriptions::default();
        subscriptions.connected();
        let first = add(&subscriptions, "x");
        assert!(!subscriptions.requests().is_empty());
        remove(&subscriptions, "x");
        let second = add(&subscriptions, "x");
        let sent = String::from_utf8(subscriptions.requests()).expect("text");
        assert!(sent.contains("UNSUBSCRIBE") && sent.ends_with("$9\r\nSUBSCRIBE\r\n$1\r\nx\r\n"), "{sent}");
        say(&subscriptions, ["subscribe", "x", "1"]);
        assert_eq!((heard(&first), heard(&second)), (vec![Event::Ready], vec![]));
        say(&subscriptions, ["unsubscribe", "x", "0"]);
        assert_eq!(heard(&second), vec![], "the server has it unsubscribed at this time");
        say(&subscriptions, ["subscribe", "x", "1"]);
        assert_eq!(heard(&second), vec![Event::Ready]);
    }

    #[test]
    fn a_subscription_that_goes_on_at_another_node_hears_of_the_gap_first() {
        struct Idle;
        impl Driven for Idle {
            fn look(&self) {}
        }
        let subscriptions = Arc::new(Subscriptions::default());
        subscriptions.connected();
        // The server may confirm before the subscription is returned.
        let next = subscriptions.add(Arc::new(Idle), Arc::new(()), (Kind::Shard, vec![b"x".to_vec()]), true);
        subscriptions.requests();
        say(&subscriptions, ["ssubscribe", "x", "1"]);
        assert_eq!(heard(&next.mailbox), vec![Event::Missed, Event::Ready]);
    }

    #[test]
    fn a_refusal_ends_the_subscription_that_was_refused_and_no_other() {
        let subscriptions = Subscriptions::default();
        subscriptions.connected();
        let (forbidden, allowed) = (add(&subscriptions, "forbidden"), add(&subscriptions, "allowed"));
        subscriptions.requests();
        assert!(subscriptions.refuse(b"NOPERM"));
        say(&subscriptions, ["subscribe", "allowed", "1"]);
        assert_eq!(
            (heard(&forbidden), heard(&allowed)),
            (vec![Event::Refused("NOPERM".into())], vec![Event::Ready])
        );
        assert!(!subscriptions.refuse(b"ERR"), "no order is left that it could belong to");
    }

    #[test]
    fn a_full_list_of_events_loses_messages_but_not_how_the_subscription_stands() {
        let message = || Event::Message { channel: vec![], pattern: None, payload: vec![] };
        let mut mailbox = Mailbox::default();
        for _ in 0..EVENTS_MAX + 10 {
            mailbox.put(message());
        }
        for _ in 0..5 {
            // Breaks, while the subscription reads nothing.
            mailbox.put(Event::Missed);
            mailbox.put(Event::Ready);
            mailbox.put(message());
        }
        let beyond: Vec<Event> = mailbox.events.iter().skip(EVENTS_MAX).cloned().collect();
        assert_eq!(beyond, [Event::Missed, Event::Ready, Event::Missed]);
        mailbox.put(Event::Ready);
        let beyond: Vec<Event> = mailbox.events.iter().skip(EVENTS_MAX).cloned().collect();
        assert_eq!(beyond, [Event::Missed, Event::Ready]);
    }
}
