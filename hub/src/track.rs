//! What clients have read and want to know when it changes (CLIENT TRACKING).
//!
//! There are two modes. *Default*: before a tracking client reads a key, its thread's seat is
//! entered among the key's readers (H1), and the thread notes which client it is. A change of the
//! key sends a message to these seats. Each of them tells its clients once and forgets the key.
//! *Broadcast*: nothing is noted. A message for every change goes to the seats with such clients,
//! and each client is told of keys with its prefixes.
//!
//! A message may come for a key that no client of the thread has read since. Then the seat's record
//! is removed, and nothing else happens.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use polder_shm::layout::interest;
use polder_table::interest::take_interest;
use polder_table::{CommitView, Db, SYSTEM, Stop, Table, Txn};
use smallvec::SmallVec;

use crate::listener::{Delivery, MessageSink, Thread};
use crate::message::{self, Message};
use crate::per_thread::{self, PerThread};
use crate::post;
use crate::record::{self, Record, readers_key};

/// The most records of keys without readers that are removed in one go.
const STALE_MAX: usize = 1000;

/// How a client wants to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The client that is told instead; none: itself.
    pub redirect: Option<Redirect>,
    /// Not of changes that it makes itself.
    pub no_loop: bool,
    /// Of all keys with these prefixes; none: of what it has read.
    pub prefixes: Option<Vec<Vec<u8>>>,
}

/// A client that is told in the place of another, and the thread that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub client: u64,
    pub thread: Thread,
}

/// Which clients of a thread have read a key.
#[derive(Default)]
struct Readers {
    clients: SmallVec<[u64; 2]>,
    /// The databases for whose key of this name the seat's record was there when it was locked ([`note_reads`]).
    databases: SmallVec<[Db; 2]>,
}

/// What the tracking clients of one thread have read.
#[derive(Default)]
struct Tracking {
    clients: HashMap<u64, Terms>,
    keys: HashMap<Vec<u8>, Readers>,
    /// How many pairs of a key and a client that has read it there are, and how many prefixes.
    items: usize,
    prefixes: usize,
    /// Keys that no client reads any more, but whose records in the segment still name this seat.
    stale: Vec<Vec<u8>>,
    /// Changes for broadcast clients, kept until the end of the turn: the client that made each,
    /// and the key.
    changes: Vec<(u64, Vec<u8>)>,
}

thread_local! {
    static TRACKING: PerThread<Tracking> = const { PerThread::new() };
}

fn with<R>(table: &Table, work: impl FnOnce(&mut Tracking) -> R) -> Option<R> {
    per_thread::with(&TRACKING, table, work)
}

/// Whether no client of this thread has read anything that it wants to hear of, and whether none hears of all changes.
pub(crate) fn is_idle(table: &Table) -> (bool, bool) {
    with(table, |tracking| (tracking.reads_nothing(), tracking.hears_nothing())).unwrap_or_default()
}

impl Tracking {
    fn reads_nothing(&self) -> bool {
        self.keys.is_empty()
            && self.stale.is_empty()
            && !self.clients.values().any(|terms| terms.prefixes.is_none())
    }

    fn hears_nothing(&self) -> bool {
        !self.clients.values().any(|terms| terms.prefixes.is_some())
    }

    /// Forgets what was read if no client is left that wants to hear of it.
    fn review(&mut self) {
        if !self.clients.values().any(|terms| terms.prefixes.is_none()) {
            self.forget_all();
        }
    }

    fn forget_all(&mut self) {
        self.stale.extend(self.keys.drain().map(|(key, _)| key));
        self.items = 0;
    }
}

/// A client of this thread tracks from now on, or on other terms; `None`: it no longer does.
pub fn note_terms(table: &Table, client: u64, terms: Option<Terms>) {
    let bit = match &terms {
        Some(Terms { prefixes: Some(_), .. }) => interest::BROADCAST,
        Some(_) => interest::TRACKERS,
        None => 0,
    };
    if bit != 0
        && let Ok(seat) = table.seat()
    {
        take_interest(&seat, bit);
    }
    with(table, |tracking| {
        match terms {
            Some(terms) => drop(tracking.clients.insert(client, terms)),
            None => drop(tracking.clients.remove(&client)),
        }
        tracking.prefixes =
            tracking.clients.values().filter_map(|terms| terms.prefixes.as_ref()).map(Vec::len).sum();
        tracking.review();
    });
}

/// Notes that a client is about to read keys. Returns those that cannot be noted because of a lock,
/// whose holder may be stopped: the client must not cache what it reads there.
///
/// The note holds the lock of the key itself. A thread that had it before, and may have looked for
/// readers by then, has committed: its value is the one that will be read. One that has it later
/// finds the record.
pub fn note_reads<'k>(table: &Table, client: u64, keys: &[(Db, &'k [u8])]) -> Vec<&'k [u8]> {
    let unknown: Vec<(Db, &[u8])> = with(table, |tracking| {
        let known = |(db, key): &&(Db, &[u8])| {
            tracking.keys.get(*key).is_some_and(|readers| readers.databases.contains(db))
        };
        keys.iter().filter(|key| !known(key)).copied().collect()
    })
    .unwrap_or_default();
    if let Ok(seat) = table.seat() {
        take_interest(&seat, interest::TRACKERS);
    }
    let noted = |(db, key): &(Db, &[u8])| {
        post::run(table, &mut |txn| {
            txn.declare(&[(*db, key), (SYSTEM, &readers_key(key))])?;
            note_reader(txn, key)?;
            txn.await_map()
        })
        .is_ok()
    };
    let failed: Vec<&[u8]> = unknown.into_iter().filter(|key| !noted(key)).map(|(_, key)| key).collect();
    let known: Vec<(Db, &[u8])> = keys.iter().filter(|(_, key)| !failed.contains(key)).copied().collect();
    have_read(table, client, &known);
    failed
}

/// As [`note_reads`] of one key, by a transaction that is to read it under its lock and awaits the
/// map before it commits. [`have_read`] follows then.
///
/// # Errors
/// As [`Txn::write`].
pub fn note_read_inside(table: &Table, txn: &Txn<'_>, key: &[u8]) -> Result<(), Stop> {
    if with(table, |tracking| tracking.keys.contains_key(key)) == Some(true) {
        return Ok(());
    }
    // H1: a transaction that changes the key commits before this one, or locks the key after it and
    // sees the interest.
    take_interest(txn.seat(), interest::TRACKERS);
    note_reader(txn, key)
}

fn note_reader(txn: &Txn<'_>, key: &[u8]) -> Result<(), Stop> {
    let own = Record::own(txn.seat(), 0);
    record::edit(txn, &readers_key(key), |records| {
        let new = !records.iter().any(|record| record.same_owner(&own));
        if new {
            records.push(own);
        }
        new
    })
}

/// A client of this thread has read keys whose records name the seat.
pub fn have_read(table: &Table, client: u64, keys: &[(Db, impl AsRef<[u8]>)]) {
    with(table, |tracking| {
        for (db, key) in keys {
            let readers = tracking.keys.entry_ref(key.as_ref()).or_default();
            if !readers.databases.contains(db) {
                readers.databases.push(*db);
            }
            if !readers.clients.contains(&client) {
                readers.clients.push(client);
                tracking.items += 1;
            }
        }
    });
}

/// How many keys, readers of them and prefixes this thread knows.
pub fn counts(table: &Table) -> (usize, usize, usize) {
    with(table, |tracking| (tracking.keys.len(), tracking.items, tracking.prefixes)).unwrap_or_default()
}

/// Forgets keys until no more than `most` are left. Their readers are told as if the keys had
/// changed.
pub fn limit(table: &Table, sink: &mut dyn MessageSink, most: usize) {
    loop {
        let over = with(table, |tracking| {
            let keys = &tracking.keys;
            (keys.len() > most).then(|| keys.keys().next().cloned()).flatten()
        });
        match over.flatten() {
            Some(key) => changed(table, sink, 0, &key),
            None => return,
        }
    }
}

/// Tells the clients of this thread that have read a key that it has changed.
pub(crate) fn changed(table: &Table, sink: &mut dyn MessageSink, origin: u64, key: &[u8]) {
    let told = with(table, |tracking| {
        let clients = tracking.keys.remove(key).unwrap_or_default().clients;
        tracking.items -= clients.len();
        let terms = clients
            .into_iter()
            .filter_map(|client| tracking.clients.get(&client).map(|terms| (client, terms.clone())));
        // A client that has changed to broadcast mode read the key before that.
        terms
            .filter(|(client, terms)| terms.prefixes.is_none() && !(terms.no_loop && *client == origin))
            .collect::<Vec<_>>()
    });
    forget(table, key);
    for (client, terms) in told.unwrap_or_default() {
        tell(table, sink, client, terms.redirect, Some(&[key]));
    }
}

/// Removes the seat's record from the readers of a key.
fn forget(table: &Table, key: &[u8]) {
    let gone = post::run(table, &mut |txn| {
        let own = Record::own(txn.seat(), 0);
        record::edit(txn, &readers_key(key), |records| {
            let before = records.len();
            records.retain(|record| !record.same_owner(&own));
            records.len() != before
        })
    });
    if gone.is_err() {
        with(table, |tracking| tracking.stale.push(key.to_vec()));
    }
}

/// Removes some records of keys that no client reads any more.
pub(crate) fn forget_stale(table: &Table) {
    let some = with(table, |tracking| {
        let stale = &mut tracking.stale;
        let some = stale.split_off(stale.len().saturating_sub(STALE_MAX));
        let keys = &tracking.keys;
        some.into_iter().filter(|key| !keys.contains_key(key)).collect::<Vec<_>>()
    });
    some.unwrap_or_default().iter().for_each(|key| forget(table, key));
}

/// Keeps a change until the end of the turn for the broadcast clients of this thread.
pub(crate) fn broadcast(table: &Table, origin: u64, key: &[u8]) {
    with(table, |tracking| tracking.changes.push((origin, key.to_vec())));
}

/// Tells of the changes that were kept: each client gets one message for each of its prefixes.
pub fn close_turn(table: &Table, sink: &mut dyn MessageSink) {
    let kept = with(table, |tracking| {
        if tracking.changes.is_empty() {
            return None;
        }
        let changes = std::mem::take(&mut tracking.changes);
        let clients: BTreeMap<u64, Terms> = tracking
            .clients
            .iter()
            .filter(|(_, terms)| terms.prefixes.is_some())
            .map(|(id, terms)| (*id, terms.clone()))
            .collect();
        Some((changes, clients))
    });
    let Some((changes, clients)) = kept.flatten() else { return };
    for (client, terms) in &clients {
        for prefix in terms.prefixes.iter().flatten() {
            let theirs = |(origin, key): &&(u64, Vec<u8>)| {
                key.starts_with(prefix) && !(terms.no_loop && origin == client)
            };
            let mut keys: Vec<&[u8]> = Vec::new();
            for (_, key) in changes.iter().filter(theirs) {
                if !keys.contains(&&key[..]) {
                    keys.push(key);
                }
            }
            if !keys.is_empty() {
                tell(table, sink, *client, terms.redirect, Some(&keys));
            }
        }
    }
}

/// Tells every tracking client of this thread that all keys have changed.
pub(crate) fn changed_all(table: &Table, sink: &mut dyn MessageSink) {
    let told = with(table, |tracking| {
        tracking.forget_all();
        tracking.clients.iter().map(|(client, terms)| (*client, terms.redirect)).collect::<Vec<_>>()
    });
    for (client, redirect) in told.unwrap_or_default() {
        tell(table, sink, client, redirect, None);
    }
}

fn tell(
    table: &Table,
    sink: &mut dyn MessageSink,
    client: u64,
    redirect: Option<Redirect>,
    keys: Option<&[&[u8]]>,
) {
    let Some(Redirect { client: target, thread: (seat, life) }) = redirect else {
        return sink.deliver(&[client], Delivery::Invalidation { keys, redirected: false });
    };
    let Ok(own) = table.seat() else { return };
    let own = (own.index(), own.life());
    // Only its own thread knows whether the client is there.
    if own == (seat, life) && !sink.knows(target) || !table.segment().lives(seat, life) {
        return sink.deliver(&[client], Delivery::RedirectionBroken { client: target });
    }
    let bytes = message::pack(keys.unwrap_or_default());
    // If the message cannot be posted because a stopped process holds the inbox, it is lost: the
    // client learns of the next change.
    let _ = post::run(table, &mut |txn| {
        let message =
            Message::Redirected { reader: (own, client), client: target, all: keys.is_none(), keys: &bytes };
        message.write(|parts| txn.post(seat, life, parts));
        Ok(())
    });
}
