//! Publish and subscribe.
//!
//! A subscription is recorded in two places. The segment knows which seats are interested
//! (`hub::subject`), by this command's transaction. The client's thread knows that it is this
//! client (`hub::subscriptions`), once the transaction has committed. In between, the session keeps what has
//! changed, so that a transaction that is run again takes it back first.
use std::sync::Arc;

use polder_base::{Protocol, Reply, glob};
use polder_hub::Delivery;
use polder_hub::receivers::{self, Receivers};
use polder_hub::subject::{self, Subject};
use polder_hub::track;
use polder_table::{Db, Mode, Stop, Table};

use crate::help::help;
use crate::row::{Row, TxnCall, container, neutral, session};
use crate::session::Session;
pub use crate::session::Subscriptions;
use crate::session::subscriptions::{CHANNEL, PATTERN, SHARD};
use crate::subjects::{self, tell_replicas};
use polder_calls::call::{Call, Outcome};
use polder_calls::command::{
    self, BatchKey, FAST, Flags, LOADING, MAY_WRITE, NOSCRIPT, PUBSUB, STALE, WHILE_LISTENING,
};
use polder_calls::facts::Channels;
use polder_calls::facts::Tells::Verbatim;

const LISTEN: Flags = PUBSUB | NOSCRIPT | LOADING | STALE | WHILE_LISTENING;
const ASK: Flags = PUBSUB | LOADING | STALE;

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    neutral("PSUBSCRIBE", "pattern [pattern ...]", Mode::Write, subscribe::<PATTERN>)
        .with(LISTEN)
        .channels(Channels::HEARD.patterns())
        .since("2.0.0")
        .costs("O(N) where N is the number of patterns to subscribe to.")
        .about("Listens for messages published to channels that match one or more patterns."),
    Row::own(command::neutral("PUBLISH", "channel message", Mode::Read, publish::<false>).tells(Verbatim).many(publish_many::<false>))
        .with(MAY_WRITE | PUBSUB | LOADING | STALE | FAST)
        .channels(Channels::POSTED)
        .shares(|_| Some(BatchKey::Messages))
        .since("2.0.0")
        .costs("O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).")
        .about("Posts a message to a channel."),
    container("PUBSUB").since("2.8.0").costs("Depends on subcommand.").about("A container for Pub/Sub commands."),
    neutral("PUBSUB|CHANNELS", "[pattern]", Mode::Read, channels::<CHANNEL>)
        .with(ASK)
        .since("2.8.0")
        .costs("O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)")
        .about("Returns the active channels."),
    neutral("PUBSUB|NUMPAT", "", Mode::Read, count_patterns)
        .with(ASK)
        .since("2.8.0")
        .about("Returns a count of unique pattern subscriptions."),
    neutral("PUBSUB|NUMSUB", "[channel [channel ...]]", Mode::Read, count_subscribers::<CHANNEL>)
        .with(ASK)
        .since("2.8.0")
        .costs("O(N) for the NUMSUB subcommand, where N is the number of requested channels")
        .about("Returns a count of subscribers to channels."),
    neutral("PUBSUB|SHARDCHANNELS", "[pattern]", Mode::Read, channels::<SHARD>)
        .with(ASK)
        .since("7.0.0")
        .costs("O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).")
        .about("Returns the active shard channels."),
    neutral("PUBSUB|SHARDNUMSUB", "[shardchannel [shardchannel ...]]", Mode::Read, count_subscribers::<SHARD>)
        .with(ASK)
        .since("7.0.0")
        .costs("O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels")
        .about("Returns the count of subscribers of shard channels."),
    neutral("PUNSUBSCRIBE", "[pattern [pattern ...]]", Mode::Write, unsubscribe::<PATTERN>)
        .with(LISTEN)
        .channels(Channels::LEFT.patterns())
        .since("2.0.0")
        .costs("O(N) where N is the number of patterns to unsubscribe.")
        .about("Stops listening to messages published to channels that match one or more patterns."),
    Row::own(command::neutral("SPUBLISH", "shardchannel message", Mode::Read, publish::<true>).tells(Verbatim))
        .with(MAY_WRITE | PUBSUB | LOADING | STALE | FAST)
        .channels(Channels::POSTED.sharded())
        .since("7.0.0")
        .costs("O(N) where N is the number of clients subscribed to the receiving shard channel.")
        .about("Post a message to a shard channel"),
    neutral("SSUBSCRIBE", "shardchannel [shardchannel ...]", Mode::Write, subscribe::<SHARD>)
        .with(LISTEN)
        .channels(Channels::HEARD.sharded())
        .since("7.0.0")
        .costs("O(N) where N is the number of shard channels to subscribe to.")
        .about("Listens for messages published to shard channels."),
    neutral("SUBSCRIBE", "channel [channel ...]", Mode::Write, subscribe::<CHANNEL>)
        .with(LISTEN)
        .channels(Channels::HEARD)
        .since("2.0.0")
        .costs("O(N) where N is the number of channels to subscribe to.")
        .about("Listens for messages published to channels."),
    neutral("SUNSUBSCRIBE", "[shardchannel [shardchannel ...]]", Mode::Write, unsubscribe::<SHARD>)
        .with(LISTEN)
        .channels(Channels::LEFT.sharded())
        .since("7.0.0")
        .costs("O(N) where N is the number of shard channels to unsubscribe.")
        .about("Stops listening to messages posted to shard channels."),
    neutral("UNSUBSCRIBE", "[channel [channel ...]]", Mode::Write, unsubscribe::<CHANNEL>)
        .with(LISTEN)
        .channels(Channels::LEFT)
        .since("2.0.0")
        .costs("O(N) where N is the number of channels to unsubscribe.")
        .about("Stops listening to messages posted to channels."),
];

/// Of no ACL category, as in Redis.
pub const HELP: &[Row] =
    &[session("PUBSUB|HELP", "", help).with(LOADING | STALE).since("6.2.0").about("Prints this help.")];

const SUBJECTS: [Subject; 3] = [Subject::Channel, Subject::Pattern, Subject::Shard];
const BEGUN: [&[u8]; 3] = [b"subscribe", b"psubscribe", b"ssubscribe"];
const ENDED: [&[u8]; 3] = [b"unsubscribe", b"punsubscribe", b"sunsubscribe"];

impl Session {
    /// Whether the client has subscribed to anything.
    pub fn listens(&self) -> bool {
        self.listening.subscriptions.is_some()
    }

    /// Whether a message about changed keys can reach the client: as a push, or as one of the messages it has subscribed to.
    pub fn listens_in_any_way(&self, redirected: bool) -> bool {
        self.protocol == Protocol::Resp3 || redirected && self.listens()
    }

    /// Whether its calls are anything but plain calls: it listens, tracks, monitors or imports.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.listening.subscriptions.is_some()
            || self.listening.tracking.is_some()
            || self.listening.monitors
            || self.imports
    }

    /// Returns true if the client may hear of a call of its own before its next one. A client that has
    /// subscribed to subjects alone publishes as others do: its messages say for which subscription they are,
    /// and are told apart from replies.
    pub(crate) fn hears_between_calls(&self) -> bool {
        self.listening.subscriptions.as_ref().is_some_and(|known| !known.are_subjects())
            || self.listening.tracking.is_some()
            || self.listening.monitors
            || self.imports
    }

    /// Forgets a subscription to subjects that has had all its messages.
    pub fn forget_ended(&mut self, sid: &[u8]) {
        let Some(subscriptions) = &mut self.listening.subscriptions else { return };
        Arc::make_mut(subscriptions).remove_token(sid);
        if subscriptions.is_empty() {
            self.listening.subscriptions = None;
        }
    }

    /// Whether the client may do no more than listen: it has subscribed, and could not tell messages from replies.
    pub(crate) fn only_listens(&self) -> bool {
        self.listens() && self.protocol == Protocol::Resp2
    }

    /// Takes back what an attempt of a transaction has changed that is run again, or has failed.
    pub(crate) fn take_back_news(&mut self) {
        self.listening.reads.clear();
        let Some(subscriptions) = self.listening.subscriptions.as_mut().filter(|known| known.has_news())
        else {
            return;
        };
        let subscriptions = Arc::make_mut(subscriptions);
        subjects::take_back(subscriptions);
        for (subject, name, begun) in std::mem::take(&mut subscriptions.news).into_iter().rev() {
            if begun {
                subscriptions.remove(subject as usize, &name);
            } else {
                subscriptions.insert(subject as usize, &name);
            }
        }
        if subscriptions.is_empty() {
            self.listening.subscriptions = None;
        }
    }

    /// Makes true for this thread what has become true in the segment.
    pub(crate) fn apply_news(&mut self, table: &Table) {
        if !self.listening.reads.is_empty() {
            let reads = self.listening.reads.drain(..);
            let keys: Vec<(Db, Vec<u8>)> = reads.map(|read| (read.db, read.key)).collect();
            track::have_read(table, self.identity.id, &keys);
        }
        let Some(subscriptions) = &mut self.listening.subscriptions else { return };
        if !subscriptions.has_news() {
            return;
        }
        if self.identity.id == 0 {
            self.identity.id = polder_hub::next_client(table);
        }
        for (subject, name, begun) in std::mem::take(&mut Arc::make_mut(subscriptions).news) {
            polder_hub::note_subscription(table, self.identity.id, subject, &name, begun);
        }
        subjects::apply(table, self.identity.id, Arc::make_mut(subscriptions));
        if subscriptions.is_empty() {
            self.listening.subscriptions = None;
        }
    }

    /// Ends all that the client hears without asking, without a word to it.
    pub fn end_listening(&mut self, table: &Table) {
        self.unsubscribe_all(table);
        self.track_nothing(table);
        if std::mem::take(&mut self.listening.monitors) {
            polder_hub::monitor::note_monitor(table, self.identity.id, false);
        }
    }

    /// Ends all subscriptions, without a word to the client.
    fn unsubscribe_all(&mut self, table: &Table) {
        let Some(subscriptions) = self.listening.subscriptions.take() else { return };
        let Subscriptions { names, tokens, .. } = Arc::unwrap_or_clone(subscriptions);
        polder_hub::leave_subjects(table, self.identity.id, tokens.into_iter().collect());
        for (subject, names) in SUBJECTS.into_iter().zip(names) {
            polder_hub::subject::unsubscribe(table, self.identity.id, subject, names.into_iter().collect());
        }
    }
}

fn tell(reply: &mut dyn Reply, what: &[u8], name: Option<&[u8]>, count: i64) {
    reply.push(3);
    reply.bulk(what);
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(count);
}

fn subscribe<const SUBJECT: usize>(call: &mut TxnCall<'_>) -> Outcome {
    let mut fresh = Vec::new();
    let subscriptions = Arc::make_mut(call.session.listening.subscriptions.get_or_insert_default());
    for name in &call.args[1..] {
        if subscriptions.insert(SUBJECT, name) {
            subscriptions.news.push((SUBJECTS[SUBJECT], name.to_vec(), true));
            fresh.push(*name);
        }
        tell(call.reply, BEGUN[SUBJECT], Some(name), subscriptions.told(SUBJECT));
    }
    subject::subscribe(call.txn, SUBJECTS[SUBJECT], &fresh, 1)
}

fn unsubscribe<const SUBJECT: usize>(call: &mut TxnCall<'_>) -> Outcome {
    let all: Vec<Vec<u8>> = match (call.args, &call.session.listening.subscriptions) {
        ([_], Some(subscriptions)) => subscriptions.names[SUBJECT].iter().cloned().collect(),
        (args, _) => args[1..].iter().map(|name| name.to_vec()).collect(),
    };
    if all.is_empty() {
        let told = call
            .session
            .listening
            .subscriptions
            .as_ref()
            .map_or(0, |subscriptions| subscriptions.told(SUBJECT));
        tell(call.reply, ENDED[SUBJECT], None, told);
    }
    let mut ended: Vec<&[u8]> = Vec::new();
    for name in &all {
        let mut told = 0;
        if let Some(subscriptions) = call.session.listening.subscriptions.as_mut().map(Arc::make_mut) {
            if subscriptions.remove(SUBJECT, name) {
                subscriptions.news.push((SUBJECTS[SUBJECT], name.clone(), false));
                ended.push(name);
            }
            told = subscriptions.told(SUBJECT);
        }
        tell(call.reply, ENDED[SUBJECT], Some(name), told);
    }
    subject::subscribe(call.txn, SUBJECTS[SUBJECT], &ended, -1)
}

fn publish<const IS_SHARD: bool>(call: &mut Call<'_>) -> Outcome {
    let reached = receivers::publish(call.txn, IS_SHARD, call.args[1], call.args[2])?;
    tell_replicas(call, &[call.args]);
    call.reply.integer(reached as i64);
    Ok(())
}

/// Messages on one channel: its listeners are looked up once.
fn publish_many<const IS_SHARD: bool>(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let channel = calls[0][1];
    let receivers = Receivers::of(call.txn, IS_SHARD, channel)?;
    let alike = calls.iter().take_while(|args| args[1] == channel);
    let count = alike.map(|args| call.reply.integer(receivers.tell(call.txn, args[2]) as i64)).count();
    tell_replicas(call, &calls[..count]);
    Ok(count)
}

fn channels<const SUBJECT: usize>(call: &mut TxnCall<'_>) -> Outcome {
    let pattern = match call.args[2..] {
        [] => None,
        [pattern] => Some(pattern),
        _ => {
            let name = String::from_utf8_lossy(call.args[1]);
            return Err(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP."
            )
            .into());
        }
    };
    let asked = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name));
    let found = subject::subjects(call.txn, SUBJECTS[SUBJECT], &asked)?;
    call.reply.array(found.len());
    found.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}

fn count_subscribers<const SUBJECT: usize>(call: &mut TxnCall<'_>) -> Outcome {
    let counts = call.args[2..].iter().map(|name| subject::subscribers(call.txn, SUBJECTS[SUBJECT], name));
    let counts = counts.collect::<Result<Vec<u64>, _>>()?;
    call.reply.array(counts.len() * 2);
    for (name, count) in call.args[2..].iter().zip(counts) {
        call.reply.bulk(name);
        call.reply.integer(count as i64);
    }
    Ok(())
}

fn count_patterns(call: &mut TxnCall<'_>) -> Outcome {
    let count = subject::subjects(call.txn, Subject::Pattern, &|_| true)?.len();
    call.reply.integer(count as i64);
    Ok(())
}

/// Writes what a client hears, in its protocol.
pub fn write(reply: &mut dyn Reply, delivery: &Delivery<'_>) {
    let words = |reply: &mut dyn Reply, words: &[&[u8]]| {
        reply.push(words.len());
        words.iter().for_each(|word| reply.bulk(word));
    };
    match *delivery {
        Delivery::Message { channel, payload } => words(reply, &[b"message", channel, payload]),
        Delivery::PatternMessage { pattern, channel, payload } => {
            words(reply, &[b"pmessage", pattern, channel, payload])
        }
        Delivery::ShardMessage { channel, payload } => words(reply, &[b"smessage", channel, payload]),
        Delivery::Post { sid, subject, payload, reply: replies_to, headers } => {
            reply.push(6);
            [b"subj.message", sid, subject, payload].into_iter().for_each(|word: &[u8]| reply.bulk(word));
            for word in [replies_to, headers] {
                if word.is_empty() { reply.null() } else { reply.bulk(word) }
            }
        }
        Delivery::Invalidation { keys, .. } => {
            if reply.protocol() == Protocol::Resp3 {
                reply.push(2);
                reply.bulk(b"invalidate");
            } else {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(b"__redis__:invalidate");
            }
            match keys {
                Some(keys) => {
                    reply.array(keys.len());
                    keys.iter().for_each(|key| reply.bulk(key));
                }
                None => reply.null(),
            }
        }
        Delivery::RedirectionBroken { client } => {
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.integer(client as i64);
        }
        Delivery::Call { line } => reply.status(&String::from_utf8_lossy(line)),
    }
}
