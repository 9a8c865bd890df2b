//! Which clients of the calling thread hear which pattern of the token dialect, under which of their numbers (*sids*).
//!
//! This knowledge ends with the thread, as all that a thread knows of its clients. Messages are counted here for a subscription that
//! ends after some: such a subscription may have ended although its session still has it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use hashbrown::HashMap;
use polder_table::Table;

use crate::per_thread::{self, PerThread};
use crate::token::{ShapeText, Tokens, pattern_at, place_of};
use crate::tokens::{self, name_of, split_name};

/// The clients that a message goes to under one sid.
pub(crate) type SidGroup = (Box<[u8]>, Rc<[u64]>);

/// The member of a queue that gets a message: its sid, and its client.
pub(crate) type Member = (Box<[u8]>, u64);

/// One subscription.
struct Listener {
    client: u64,
    sid: Box<[u8]>,
    /// Empty: it hears each message.
    queue: Box<[u8]>,
    /// The place in the inbox from which it hears.
    from: u64,
    heard: u64,
    /// It ends after this many messages; 0: it does not.
    heard_max: u64,
    /// The number of the turn in which a member of a queue had its last message.
    turn: u64,
}

impl Listener {
    /// Counts a message; returns whether it was the last one.
    fn hear(&mut self) -> bool {
        self.heard += 1;
        self.heard == self.heard_max
    }

    /// The news of its end, at this shape and place, once it has had all its messages.
    fn ended(&self, shape: &[u8], place: &[u8]) -> Ended {
        let name = name_of(&pattern_at(shape, place), &self.queue);
        Ended { client: self.client, sid: self.sid.clone(), name }
    }
}

/// The subscriptions of one shape: by place, in the order of clients and sids.
type Places = HashMap<Vec<u8>, BTreeMap<(u64, Box<[u8]>), Listener>>;

#[derive(Default)]
struct Listeners {
    shapes: BTreeMap<ShapeText, Places>,
    /// The number of subscriptions of each client.
    clients: HashMap<u64, usize>,
    /// The number of the last message that went to a member of a queue.
    turn: u64,
    audience: Audience,
    /// Those that have had all their messages. The segment and their clients are still to be told.
    ended: Vec<Ended>,
}

/// A subscription that has had all its messages.
pub(crate) struct Ended {
    pub client: u64,
    pub sid: Box<[u8]>,
    pub name: Vec<u8>,
}

/// The clients that heard the last message, valid while no subscription begins or ends.
#[derive(Default)]
struct Audience {
    subject: Vec<u8>,
    groups: Option<Rc<[SidGroup]>>,
    /// Messages that they have heard since, and that their subscriptions have not counted yet.
    uncounted: u64,
}

thread_local! {
    static LISTENERS: PerThread<Listeners> = const { PerThread::new() };
}

fn with<R>(table: &Table, work: impl FnOnce(&mut Listeners) -> R) -> Option<R> {
    per_thread::with(&LISTENERS, table, work)
}

impl Listeners {
    /// Forgets the audience; its messages are counted.
    fn forget_audience(&mut self) {
        let Audience { subject, groups, uncounted } = std::mem::take(&mut self.audience);
        if groups.is_some() && uncounted > 0 {
            self.each(&subject, u64::MAX, &mut |one| {
                one.heard += if one.queue.is_empty() { uncounted } else { 0 };
                false
            });
        }
    }

    fn find(&mut self, client: u64, sid: &[u8], name: &[u8]) -> Option<&mut Listener> {
        let (shape, place) = place_of(split_name(name).0);
        self.shapes.get_mut(&shape)?.get_mut(&place)?.get_mut(&(client, sid.into()))
    }

    /// Returns whether it is new.
    fn insert(&mut self, listener: Listener, pattern: &[u8]) -> bool {
        self.forget_audience();
        let (shape, place) = place_of(pattern);
        let listeners = self.shapes.entry(shape).or_default().entry(place).or_default();
        let Entry::Vacant(vacant) = listeners.entry((listener.client, listener.sid.clone())) else {
            return false;
        };
        *self.clients.entry(listener.client).or_default() += 1;
        vacant.insert(listener);
        true
    }

    /// Returns whether it was there.
    fn remove(&mut self, client: u64, sid: &[u8], name: &[u8]) -> bool {
        self.forget_audience();
        let (shape, place) = place_of(split_name(name).0);
        let Some(places) = self.shapes.get_mut(&shape) else { return false };
        let Some(listeners) = places.get_mut(&place) else { return false };
        if listeners.remove(&(client, sid.into())).is_none() {
            return false;
        }
        if listeners.is_empty() {
            places.remove(&place);
            if places.is_empty() {
                self.shapes.remove(&shape);
            }
        }
        if let Some(count) = self.clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&client);
            }
        }
        true
    }

    /// Shows all subscriptions that a message at place `at` of the inbox is for. One for which `show` returns true has had its last message,
    /// and ends.
    fn each(&mut self, subject: &[u8], at: u64, show: &mut dyn FnMut(&mut Listener) -> bool) {
        let tokens = Tokens::of(subject);
        let (mut place, mut last) = (Vec::new(), Vec::new());
        for (shape, places) in &mut self.shapes {
            if !tokens.place_in(shape, &mut place) {
                continue;
            }
            let listeners = places.get_mut(&place).into_iter().flat_map(BTreeMap::values_mut);
            for listener in listeners.filter(|one| one.from <= at) {
                if show(listener) {
                    last.push(listener.ended(shape, &place));
                }
            }
        }
        last.into_iter().for_each(|ended| self.end(ended));
    }

    fn end(&mut self, ended: Ended) {
        self.remove(ended.client, &ended.sid, &ended.name);
        self.ended.push(ended);
    }

    fn groups(&mut self, subject: &[u8], at: u64, except: u64) -> Rc<[SidGroup]> {
        let is_known = self.audience.subject == subject && !self.clients.contains_key(&except);
        if let (true, Some(groups)) = (is_known, &self.audience.groups) {
            self.audience.uncounted += 1;
            return groups.clone();
        }
        self.forget_audience();
        let (mut by_sid, mut is_lasting): (BTreeMap<Box<[u8]>, Vec<u64>>, bool) =
            (BTreeMap::new(), except == 0);
        let mut all = 0;
        self.each(subject, u64::MAX, &mut |listener| {
            if !listener.queue.is_empty() {
                return false;
            }
            all += 1;
            is_lasting &= listener.heard_max == 0 && listener.from <= at;
            if listener.from > at || listener.client == except {
                return false;
            }
            match by_sid.get_mut(&listener.sid) {
                Some(clients) => clients.push(listener.client),
                None => _ = by_sid.insert(listener.sid.clone(), vec![listener.client]),
            }
            listener.hear()
        });
        let groups: Rc<[SidGroup]> =
            by_sid.into_iter().map(|(sid, clients)| (sid, Rc::from(clients))).collect();
        if is_lasting && all > 0 {
            self.audience =
                Audience { subject: subject.to_vec(), groups: Some(groups.clone()), uncounted: 0 };
        }
        groups
    }

    /// The members of some queues whose turn it is: of each queue the one that has waited for the most
    /// messages.
    fn members(&mut self, subject: &[u8], queues: &[&[u8]], at: u64, except: u64) -> Vec<Option<Member>> {
        let tokens = Tokens::of(subject);
        let numbers: HashMap<&[u8], usize> =
            queues.iter().enumerate().map(|(at, queue)| (*queue, at)).collect();
        let mut next: Vec<Option<(&ShapeText, &mut Listener)>> = queues.iter().map(|_| None).collect();
        let mut place = Vec::new();
        for (shape, places) in &mut self.shapes {
            if !tokens.place_in(shape, &mut place) {
                continue;
            }
            for one in places.get_mut(&place).into_iter().flat_map(BTreeMap::values_mut) {
                let Some(number) = numbers.get(&*one.queue) else { continue };
                let next = &mut next[*number];
                let fits = one.client != except && one.from <= at;
                if fits && next.as_ref().is_none_or(|(_, other)| one.turn < other.turn) {
                    *next = Some((shape, one));
                }
            }
        }
        let (mut members, mut ended) = (Vec::with_capacity(queues.len()), Vec::new());
        for next in next {
            members.push(next.map(|(shape, one)| {
                self.turn += 1;
                one.turn = self.turn;
                if one.hear() {
                    tokens.place_in(shape, &mut place);
                    ended.push(one.ended(shape, &place));
                }
                (one.sid.clone(), one.client)
            }));
        }
        ended.into_iter().for_each(|ended| self.end(ended));
        members
    }
}

/// Notes that a client of this thread hears a pattern under a sid. Called after the commit that says so in the segment.
pub fn note_begun(table: &Table, client: u64, sid: &[u8], name: &[u8]) {
    // Read after the commit, so nothing that is sent behind this place is missing.
    let from = table.seat().map_or(0, |seat| seat.unread().end);
    let (pattern, queue) = split_name(name);
    let listener =
        Listener { client, sid: sid.into(), queue: queue.into(), from, heard: 0, heard_max: 0, turn: 0 };
    if with(table, |own| own.insert(listener, pattern)) == Some(true) {
        tokens::note_begun(table, name);
    }
}

/// Notes that it no longer does.
pub fn note_ended(table: &Table, client: u64, sid: &[u8], name: &[u8]) {
    if with(table, |own| own.remove(client, sid, name)) == Some(true) {
        tokens::note_ended(table, name);
    }
}

/// Returns true if a client of this thread has the subscription.
pub fn has(table: &Table, client: u64, sid: &[u8], name: &[u8]) -> bool {
    with(table, |own| own.find(client, sid, name).is_some()).unwrap_or(false)
}

/// Returns true if a subscription that is to end after `heard_max` messages has had them.
pub fn has_heard(table: &Table, client: u64, (sid, name): (&[u8], &[u8]), heard_max: u64) -> bool {
    with(table, |own| {
        own.forget_audience();
        own.find(client, sid, name).is_none_or(|one| one.heard >= heard_max)
    })
    .unwrap_or(true)
}

/// Has a subscription end after some messages, from its first one on.
pub fn note_limit(table: &Table, client: u64, (sid, name): (&[u8], &[u8]), heard_max: u64) {
    with(table, |own| {
        own.forget_audience();
        if let Some(one) = own.find(client, sid, name) {
            one.heard_max = heard_max;
        }
    });
}

/// The clients that hear a subject, of those that had subscribed before place `at` of the inbox; `except` (0: none) does not.
pub(crate) fn groups(table: &Table, subject: &[u8], at: u64, except: u64) -> Rc<[SidGroup]> {
    with(table, |own| own.groups(subject, at, except)).unwrap_or_default()
}

/// The members of some queues that get a message, in the order of the queues.
pub(crate) fn members(
    table: &Table,
    subject: &[u8],
    queues: &[&[u8]],
    at: u64,
    except: u64,
) -> Vec<Option<Member>> {
    with(table, |own| own.members(subject, queues, at, except)).unwrap_or_default()
}

/// The first sid of one client that hears a subject.
pub(crate) fn sid_of(table: &Table, client: u64, subject: &[u8], at: u64) -> Option<Box<[u8]>> {
    with(table, |own| {
        let mut found = None;
        own.each(subject, at, &mut |one| {
            if one.client != client || found.is_some() {
                return false;
            }
            found = Some(one.sid.clone());
            one.hear()
        });
        found
    })
    .flatten()
}

/// The subscriptions of one client of this thread that match a subject, by queue: how many there are of each.
pub(crate) fn own_interest(table: &Table, client: u64, subject: &[u8]) -> BTreeMap<Box<[u8]>, u64> {
    with(table, |own| {
        let mut counts = BTreeMap::new();
        own.each(subject, u64::MAX, &mut |one| {
            if one.client == client {
                *counts.entry(one.queue.clone()).or_default() += 1;
            }
            false
        });
        counts
    })
    .unwrap_or_default()
}

/// Takes the subscriptions that have had all their messages.
pub(crate) fn take_ended(table: &Table) -> Vec<Ended> {
    let ended = with(table, |own| std::mem::take(&mut own.ended)).unwrap_or_default();
    ended.iter().for_each(|ended| tokens::note_ended(table, &ended.name));
    ended
}

/// Returns true if no client of this thread has such a subscription.
pub(crate) fn is_empty(table: &Table) -> bool {
    with(table, |own| own.shapes.is_empty()).unwrap_or(false)
}

/// All clients of this thread that have one.
pub(crate) fn subscribers(table: &Table) -> Vec<u64> {
    with(table, |own| own.clients.keys().copied().collect()).unwrap_or_default()
}

/// The number of subscriptions of a client of this thread.
pub fn count_of(table: &Table, client: u64) -> usize {
    with(table, |own| own.clients.get(&client).copied()).flatten().unwrap_or(0)
}
