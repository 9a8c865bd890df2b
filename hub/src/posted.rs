//! Messages that have come: to which clients of the calling thread they go.

use polder_table::Table;

use crate::listener::{Delivery, MessageSink};
use crate::message::{Post, flag, unpack};
use crate::record::Record;
use crate::subscriptions::{self, Subject};
use crate::token::is_subject;
use crate::{post, receivers, subject, token_listeners, tokens};

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
    for queue in unpack(post.queues) {
        match token_listeners::member(table, post.subject, queue, at, deaf(post)) {
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

/// The members of a queue have left since the message was sent, so another thread's gets it. It has one try, so that messages do not wander.
fn pass_on(table: &Table, post: &Post<'_>, queue: &[u8]) {
    let Ok(seat) = table.seat() else { return };
    if !post.has(flag::PASSED) {
        let own = Record::own(&seat, 0);
        // If the transaction fails, the message is lost as with its last member.
        let _ = post::run(table, &mut |txn| receivers::pass_on(txn, &own, post, queue).map(drop));
    }
}

/// Tells the segment of subscriptions that have had all their messages.
pub(crate) fn end_subscriptions(table: &Table) {
    let ended = token_listeners::take_ended(table);
    if !ended.is_empty() {
        let names = ended.clone();
        subject::withdraw(table, names.into_iter().map(|name| (Subject::Token, name)).collect());
        ended.iter().for_each(|name| tokens::move_word(table.segment(), name));
    }
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
