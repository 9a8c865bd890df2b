//! Which clients of the calling thread hear which subject.
//!
//! It is the thread's own memory and ends with the thread. What the segment knows of it ends with the seat's life.
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hashbrown::HashMap;
use polder_base::glob;
use polder_table::Table;

use crate::per_thread::{self, PerThread};

/// What can be subscribed to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Subject {
    Channel,
    Pattern,
    Shard,
    /// A pattern of the token dialect, with its queue (`tokens`). Its clients stand in `token_listeners`.
    Token,
}

/// The subscriptions of one thread's clients.
#[derive(Default)]
struct Subscriptions {
    /// For each client, the place in the inbox from which it hears: what was sent before it
    /// subscribed is not for it, read or not.
    subscribers: [HashMap<Vec<u8>, BTreeMap<u64, u64>>; 3],
    /// The clients that heard the last message.
    audience: Audience,
}

/// The clients that hear a subject, valid while no subscription begins or ends. Messages come in
/// runs, and a subject may have very many clients.
#[derive(Default)]
struct Audience {
    subject: Option<Subject>,
    name: Vec<u8>,
    clients: Rc<[u64]>,
}

thread_local! {
    static SUBSCRIPTIONS: PerThread<Subscriptions> = const { PerThread::new() };
}

fn with<R>(table: &Table, work: impl FnOnce(&mut Subscriptions) -> R) -> Option<R> {
    per_thread::with(&SUBSCRIPTIONS, table, work)
}

impl Subscriptions {
    fn clients(&mut self, subject: Subject, name: &[u8], at: u64) -> Rc<[u64]> {
        let audience = &mut self.audience;
        if audience.subject == Some(subject) && audience.name == name {
            return audience.clients.clone();
        }
        let Some(all) = self.subscribers[subject as usize].get(name) else { return Rc::default() };
        let clients: Rc<[u64]> = there_at(all, at).into();
        // A client that was there for this message is there for all later ones.
        if clients.len() == all.len() {
            audience.subject = Some(subject);
            audience.name.clear();
            audience.name.extend_from_slice(name);
            audience.clients = clients.clone();
        }
        clients
    }

    fn matching(&self, channel: &[u8], at: u64) -> Vec<(Vec<u8>, Vec<u64>)> {
        let patterns = self.subscribers[Subject::Pattern as usize].iter();
        let matching = patterns.filter(|(pattern, _)| glob::matches(pattern, channel));
        matching.map(|(pattern, clients)| (pattern.clone(), there_at(clients, at))).collect()
    }
}

/// The clients of a subject that had subscribed before the message at place `at` of the inbox was
/// sent.
fn there_at(clients: &BTreeMap<u64, u64>, at: u64) -> Vec<u64> {
    clients.iter().filter(|(_, from)| **from <= at).map(|(client, _)| *client).collect()
}

/// Notes that a client of this thread hears a subject, or no longer does. Called after the commit
/// of the transaction that says so in the segment.
pub fn note_subscription(table: &Table, client: u64, subject: Subject, name: &[u8], begins: bool) {
    // Read after the commit, so nothing that is sent behind this place is missing.
    let from = table.seat().map_or(0, |seat| seat.unread().end);
    with(table, |own| {
        own.audience.subject = None;
        let names = &mut own.subscribers[subject as usize];
        if begins {
            names.entry_ref(name).or_default().insert(client, from);
        } else if let Some(clients) = names.get_mut(name) {
            clients.remove(&client);
            if clients.is_empty() {
                names.remove(name);
            }
        }
    });
}

/// Whether clients of this thread hear a subject; true where that is not known.
pub(crate) fn is_heard(table: &Table, subject: Subject, name: &[u8]) -> bool {
    with(table, |own| own.subscribers[subject as usize].contains_key(name)).unwrap_or(true)
}

/// The clients that hear a subject, of those that had subscribed before place `at` of the inbox.
pub(crate) fn clients(table: &Table, subject: Subject, name: &[u8], at: u64) -> Rc<[u64]> {
    with(table, |own| own.clients(subject, name, at)).unwrap_or_default()
}

/// The patterns that match a channel, each with its clients.
pub(crate) fn matching(table: &Table, channel: &[u8], at: u64) -> Vec<(Vec<u8>, Vec<u64>)> {
    with(table, |own| own.matching(channel, at)).unwrap_or_default()
}

/// Whether no client of this thread has subscribed to anything.
pub(crate) fn is_empty(table: &Table) -> bool {
    with(table, |own| own.subscribers.iter().all(HashMap::is_empty)).unwrap_or(false)
}

/// All clients of this thread that have subscribed to something.
pub(crate) fn subscribers(table: &Table) -> BTreeSet<u64> {
    with(table, |own| {
        own.subscribers.iter().flat_map(HashMap::values).flat_map(BTreeMap::keys).copied().collect()
    })
    .unwrap_or_default()
}
