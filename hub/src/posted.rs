//! Messages that have come: to which clients of the calling thread they go.

use std::collections::VecDeque;

use polder_table::{Counter, Stop, Table};

use crate::listener::{Delivery, MessageSink};
use crate::message::{Message, Post, flag, pack, unpack};
use crate::per_thread::{self, PerThread};
use crate::record::Record;
use crate::subscriptions::{self, Subject};
use crate::token::is_subject;
use crate::token_listeners::Ended;
use crate::{post, receivers, subject, token_listeners};

/// Bytes of messages that a thread keeps to pass them on later.
const OWED_BYTES_MAX: usize = 1 << 20;

/// Messages that could not be passed on, since a lock was held: each as its bytes in an inbox.
#[derive(Default)]
struct Owed {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

thread_local! {
    static OWED: PerThread<Owed> = const { PerThread::new() };
}

/// Delivers a post; `at` is its place in the inbox.
pub(crate) fn open(table: &Table, sink: &mut dyn MessageSink, post: &Post<'_>, at: u64) {
    if post.has(flag::ONLY_ORIGIN) {
        if let Some(sid) = token_listeners::sid_of(table, post.origin, post.subject, at) {
            deliver(sink, &[post.origin], &sid, post);
        }
        return;
    }
    if post.has(flag::PLAIN) {
        tell_plain(table, sink, post.subject, post.payload, at);
        tell_tokens(table, sink, post, at);
    }
    let queues = unpack(post.queues);
    if queues.is_empty() {
        return;
    }
    let members = token_listeners::members(table, post.subject, &queues, at, deaf(post));
    for (queue, member) in queues.into_iter().zip(members) {
        match member {
            Some((sid, client)) => deliver(sink, &[client], &sid, post),
            None => pass_on(table, post, queue),
        }
    }
}

/// The client that does not hear a post; 0: none.
fn deaf(post: &Post<'_>) -> u64 {
    if post.has(flag::NO_ECHO) { post.origin } else { 0 }
}

fn deliver(sink: &mut dyn MessageSink, clients: &[u64], sid: &[u8], post: &Post<'_>) {
    let Post { subject, reply, headers, payload, .. } = *post;
    sink.deliver(clients, Delivery::Post { sid, subject, reply, headers, payload });
}

/// Delivers a message to those that have subscribed to its channel, or to a pattern of channels.
pub(crate) fn tell_plain(table: &Table, sink: &mut dyn MessageSink, channel: &[u8], payload: &[u8], at: u64) {
    let clients = subscriptions::clients(table, Subject::Channel, channel, at);
    let matching = subscriptions::matching(table, channel, at);
    sink.deliver(&clients, Delivery::Message { channel, payload });
    for (pattern, clients) in matching {
        sink.deliver(&clients, Delivery::PatternMessage { pattern: &pattern, channel, payload });
    }
}

/// Delivers a message to those that hear its subject in the token dialect, each by itself.
pub(crate) fn tell_tokens(table: &Table, sink: &mut dyn MessageSink, post: &Post<'_>, at: u64) {
    // A channel of Redis may have any bytes, also such as break the framing of other protocols.
    if token_listeners::is_empty(table) || !is_subject(post.subject) {
        return;
    }
    for (sid, clients) in &*token_listeners::groups(table, post.subject, at, deaf(post)) {
        deliver(sink, clients, sid, post);
    }
}

/// The members of a queue have left since the message was sent, so another thread's gets it. It has one try,
/// so that messages do not wander. If a lock is held, the message is kept for the next tick.
fn pass_on(table: &Table, post: &Post<'_>, queue: &[u8]) {
    if post.has(flag::PASSED) {
        return count_lost(table);
    }
    match try_to_pass(table, post, queue) {
        Ok(true) => {}
        Ok(false) => count_lost(table),
        Err(_) => {
            let queues = pack(&[queue]);
            let mut bytes = Vec::new();
            Message::Post(Post { queues: &queues, flags: post.flags & !flag::PLAIN, ..*post })
                .write(|parts| bytes = parts.concat());
            let is_kept = per_thread::with(&OWED, table, |owed| owed.keep(bytes));
            if is_kept != Some(true) {
                count_lost(table);
            }
        }
    }
}

impl Owed {
    /// Keeps a message; returns false if there are too many.
    fn keep(&mut self, message: Vec<u8>) -> bool {
        let fits = self.bytes + message.len() <= OWED_BYTES_MAX;
        if fits {
            self.bytes += message.len();
            self.messages.push_back(message);
        }
        fits
    }
}

/// Passes a message on; returns false if there is no other member.
fn try_to_pass(table: &Table, post: &Post<'_>, queue: &[u8]) -> Result<bool, Stop> {
    let own = Record::own(&*table.seat()?, 0);
    let mut is_passed = false;
    post::run(table, &mut |txn| {
        is_passed = receivers::pass_on(txn, &own, post, queue)?;
        Ok(())
    })?;
    Ok(is_passed)
}

/// Passes on what could not be passed on before, in order; a member that has come meanwhile gets it.
pub(crate) fn pass_on_owed(table: &Table, sink: &mut dyn MessageSink) {
    let owed = per_thread::with(&OWED, table, std::mem::take).unwrap_or_default();
    let now = table.seat().map_or(0, |seat| seat.unread().end);
    for message in owed.messages {
        if let Some(Message::Post(post)) = Message::read(&message) {
            open(table, sink, &post, now);
        }
    }
}

/// Counts a message to a queue that no member gets.
fn count_lost(table: &Table) {
    table.count(Counter::QueuedLost, 1);
}

/// Tells the segment and the clients of subscriptions that have had all their messages.
pub(crate) fn end_subscriptions(table: &Table, sink: &mut dyn MessageSink) {
    let ended = token_listeners::take_ended(table);
    if ended.is_empty() {
        return;
    }
    ended.iter().for_each(|Ended { client, sid, .. }| sink.ended(*client, sid));
    subject::withdraw(table, ended.into_iter().map(|ended| (Subject::Token, ended.name)).collect());
}

/// A client's number for a subscription, and its name.
pub type SidAndName = (Box<[u8]>, Box<[u8]>);

/// Ends a client's subscriptions.
pub fn leave(table: &Table, client: u64, subscriptions: Vec<SidAndName>) {
    // Those that have had all their messages have ended already.
    let names = subscriptions
        .into_iter()
        .filter(|(sid, name)| token_listeners::has(table, client, sid, name))
        .map(|(sid, name)| {
            token_listeners::note_ended(table, client, &sid, &name);
            (Subject::Token, name.into_vec())
        });
    subject::withdraw(table, names.collect());
}
