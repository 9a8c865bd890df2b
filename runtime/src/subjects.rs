//! Subjects: publish and subscribe in the token dialect ([`polder_hub::token`]), with replies, headers and queues. NATS is spoken over these rows.
//!
//! A subscription has a number or name of the client's own, its *sid*, under which its messages come. A client may have several that match one
//! subject, and hears a message once for each. Where it is recorded: as for channels, see [`crate::pubsub`].
use std::sync::Arc;

use polder_hub::receivers::{self, Content, Receivers};
use polder_hub::subject::{self, Subject};
use polder_hub::token::{self, Refused};
use polder_hub::{token_listeners, tokens};
use polder_shm::layout::features;
use polder_table::{Mode, Stop, Table};

use crate::row::{Row, TxnCall, neutral};
use crate::session::subscriptions::TokenNews;
use crate::session::{Host, Session, Subscriptions};
use polder_base::{Reply, glob};
use polder_calls::call::{Call, NOT_AN_INTEGER, Outcome, SYNTAX};
use polder_calls::command::{
    self, BatchKey, FAST, Flags, LOADING, MAY_WRITE, NOSCRIPT, PUBSUB, STALE, WHILE_LISTENING,
};
use polder_calls::facts::Channels;
use polder_calls::facts::Tells::Own;
use polder_calls::settings::id;

/// The version of nats-server that clients are told, since they gate features by it.
pub const NATS_VERSION: &str = "2.10.29";

/// The name by which clients of NATS know this process.
pub fn nats_server_id(host: &dyn Host) -> String {
    format!("N{}", host.recorder().run_id().to_ascii_uppercase())
}

const LISTEN: Flags = PUBSUB | NOSCRIPT | LOADING | STALE | WHILE_LISTENING;

/// The error for a subject that is none, or a pattern that is none.
pub const INVALID: &str = "ERR invalid subject";
/// The error for a subject of replies that is none.
pub const INVALID_REPLY: &str = "ERR invalid subject for replies";
/// The error for the name of a queue, or a sid, that has blanks.
pub const INVALID_SID: &str = "ERR a queue and a sid must not contain blanks";
/// The words of nats-server.
pub const TOO_MANY_TOKENS: &str = "ERR subject has exceeded number of tokens limit, too many tokens";

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    neutral("SUBJ.LIST", "[pattern]", Mode::Read, list)
        .with(PUBSUB | LOADING | STALE)
        .costs("O(N) with N the subscriptions of all clients")
        .about("Lists what clients of all processes have subscribed to: subject, queue, and how many do so."),
    Row::own(
        command::neutral(
            "SUBJ.PUB",
            "subject payload [REPLY reply] [HEADERS headers] [NOECHO] [NORESPONDERS]",
            Mode::Read,
            publish,
        )
        .tells(Own("as `PUBLISH subject payload`"))
        .many(publish_many),
    )
    .with(MAY_WRITE | PUBSUB | LOADING | STALE | FAST)
    .channels(Channels::POSTED)
    .shares(|_| Some(BatchKey::Messages))
    .costs("O(N+S) with N the subscribers that the message reaches and S the shapes of the patterns in use.")
    .about("Posts a message to a subject, with a subject for replies and headers if these are given."),
    neutral("SUBJ.SUB", "subject [QUEUE queue] [SID sid]", Mode::Write, subscribe)
        .with(LISTEN)
        .channels(Channels::POSTED.subjects())
        .costs("O(1)")
        .about("Listens for messages on a subject, or on those that a pattern of tokens matches; as a member of a queue if one is given."),
    neutral("SUBJ.UNSUB", "sid [MAX count]", Mode::Write, unsubscribe)
        .with(LISTEN)
        .costs("O(1)")
        .about("Ends a subscription, at once or when it has had a number of messages."),
];

/// The arguments of SUBJ.PUB.
struct Posting<'a> {
    subject: &'a [u8],
    content: Content<'a>,
    /// The client wants to be told where replies would come that there is no listener.
    asks_responders: bool,
}

impl<'a> Posting<'a> {
    fn read(args: &[&'a [u8]]) -> Result<Posting<'a>, Stop> {
        let mut posting =
            Posting { subject: args[1], content: Content::plain(args[2]), asks_responders: false };
        let mut rest = &args[3..];
        while let [word, after @ ..] = rest {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            rest = after;
            match after {
                [value, after @ ..] if is("REPLY") => (posting.content.reply, rest) = (value, after),
                [value, after @ ..] if is("HEADERS") => (posting.content.headers, rest) = (value, after),
                _ if is("NOECHO") => posting.content.echoes = false,
                _ if is("NORESPONDERS") => posting.asks_responders = true,
                _ => return Err(SYNTAX.into()),
            }
        }
        if !token::is_subject(posting.subject) {
            return Err(INVALID.into());
        }
        // A client of NATS names what it likes; its form alone matters to those that get it.
        if !posting.content.reply.is_empty() && !token::has_form(posting.content.reply) {
            return Err(INVALID_REPLY.into());
        }
        Ok(posting)
    }
}

fn publish(call: &mut Call<'_>) -> Outcome {
    let Posting { subject, content, asks_responders } = Posting::read(call.args)?;
    let mut receivers = Receivers::of(call.txn, false, subject)?;
    if !content.echoes {
        receivers.leave_origin_out(call.table, call.txn);
    }
    call.table.announce(features::SUBJECTS);
    let reached = receivers.tell_all(call.txn, &content);
    if reached == 0 && asks_responders && !content.reply.is_empty() {
        receivers::tell_absence(call.table, call.txn, subject, content.reply);
    }
    tell_replicas(call, &[&[b"PUBLISH", subject, content.payload]]);
    call.reply.integer(reached as i64);
    Ok(())
}

/// Replicas hear a message behind what their primary's client has written before it. Without replicas it is in no log.
pub(crate) fn tell_replicas(call: &Call<'_>, messages: &[&[&[u8]]]) {
    if call.table.segment().replicas().are_any() {
        messages.iter().for_each(|args| call.txn.tell_news(call.caller.db, args));
    }
}

/// Messages on one subject that have nothing but a payload: their listeners are looked up once.
fn publish_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let subject = calls[0][1];
    let count = calls.iter().take_while(|args| args.len() == 3 && args[1] == subject).count();
    if count == 0 || !token::is_subject(subject) {
        return Ok(0);
    }
    let receivers = Receivers::of(call.txn, false, subject)?;
    for args in &calls[..count] {
        call.reply.integer(receivers.tell(call.txn, args[2]) as i64);
        tell_replicas(call, &[&[b"PUBLISH", args[1], args[2]]]);
    }
    Ok(count)
}

/// Returns true if a client has a subscription, of which a transaction that has not committed may be the beginning.
fn has(table: &Table, client: u64, subscriptions: &Subscriptions, sid: &[u8]) -> bool {
    let Some(name) = subscriptions.tokens.get(sid) else { return false };
    is_begun(subscriptions, sid) || token_listeners::has(table, client, sid, name)
}

/// Returns true if a transaction that has not committed has begun a subscription.
fn is_begun(subscriptions: &Subscriptions, sid: &[u8]) -> bool {
    subscriptions.begun.contains(sid)
}

fn tell(reply: &mut dyn Reply, what: &[u8], sid: &[u8], count: usize) {
    reply.push(3);
    reply.bulk(what);
    reply.bulk(sid);
    reply.integer(count as i64);
}

fn subscribe(call: &mut TxnCall<'_>) -> Outcome {
    let pattern = call.args[1];
    let (mut queue, mut sid): (&[u8], &[u8]) = (b"", pattern);
    let mut rest = &call.args[2..];
    while let [word, value, after @ ..] = rest {
        match &word.to_ascii_uppercase()[..] {
            b"QUEUE" => queue = value,
            b"SID" => sid = value,
            _ => return Err(SYNTAX.into()),
        }
        rest = after;
    }
    if !rest.is_empty() {
        return Err(SYNTAX.into());
    }
    token::check_pattern(pattern).map_err(|refused| match refused {
        Refused::Invalid => INVALID,
        Refused::TooManyTokens => TOO_MANY_TOKENS,
    })?;
    if queue.iter().chain(sid).any(u8::is_ascii_whitespace) {
        return Err(INVALID_SID.into());
    }
    let client = call.session.identity.id;
    let subscriptions = Arc::make_mut(call.session.listening.subscriptions.get_or_insert_default());
    forget_ended(call.table, client, subscriptions, KEPT);
    if has(call.table, client, subscriptions, sid) {
        // The first one stays, as in nats-server.
        tell(call.reply, b"subj.sub", sid, subscriptions.tokens.len());
        return Ok(());
    }
    let most =
        usize::try_from(call.host.settings().number(const { id("nats-max-subscriptions") })).unwrap_or(0);
    if most != 0 && subscriptions.tokens.len() >= most {
        forget_ended(call.table, client, subscriptions, 0);
        if subscriptions.tokens.len() >= most {
            return Err(tokens::TOO_MANY.into());
        }
    }
    let name = tokens::name_of(pattern, queue);
    subject::subscribe(call.txn, Subject::Token, &[&name], 1)?;
    subscriptions.insert_token(sid, &name);
    subscriptions.token_news.push(TokenNews::Begun(sid.into(), name.into()));
    subscriptions.begun.insert(sid.into());
    tell(call.reply, b"subj.sub", sid, subscriptions.tokens.len());
    Ok(())
}

/// Ended subscriptions that a client may have before they are looked for, beside two for each that lives.
const KEPT: usize = 64;

/// Forgets subscriptions that have had all their messages, if there may be more than `kept` of them. Not while a transaction has begun some: these are
/// in no list of the thread yet.
fn forget_ended(table: &Table, client: u64, subscriptions: &mut Subscriptions, kept: usize) {
    let living = token_listeners::count_of(table, client);
    let most = if kept == 0 { living } else { kept + 2 * living };
    if !subscriptions.token_news.is_empty() || subscriptions.tokens.len() <= most {
        return;
    }
    let sids: Vec<Box<[u8]>> = subscriptions.tokens.keys().cloned().collect();
    for sid in sids {
        if !has(table, client, subscriptions, &sid) {
            subscriptions.remove_token(&sid);
        }
    }
}

/// Forgets subscriptions of a client that have had all their messages: in-process its thread hears of that,
/// its session does not. Returns true if it still has subscribed to something.
pub(crate) fn listens_on(table: &Table, session: &mut Session) -> bool {
    let client = session.identity.id;
    if let Some(subscriptions) = session.listening.subscriptions.as_mut().map(Arc::make_mut) {
        forget_ended(table, client, subscriptions, 0);
        if subscriptions.is_empty() {
            session.listening.subscriptions = None;
        }
    }
    session.listens()
}

fn unsubscribe(call: &mut TxnCall<'_>) -> Outcome {
    let sid = call.args[1];
    let heard_max = match &call.args[2..] {
        [] => 0,
        [word, count] if word.eq_ignore_ascii_case(b"MAX") => {
            polder_base::number::unsigned(count).ok_or(NOT_AN_INTEGER)?
        }
        _ => return Err(SYNTAX.into()),
    };
    let (table, client) = (call.table, call.session.identity.id);
    let mut left = 0;
    if let Some(subscriptions) = call.session.listening.subscriptions.as_mut().map(Arc::make_mut) {
        let name = subscriptions.tokens.get(sid).cloned();
        let is_new = is_begun(subscriptions, sid);
        let has = has(table, client, subscriptions, sid);
        let lives_on = |name: &[u8]| {
            heard_max > 0 && (is_new || !token_listeners::has_heard(table, client, (sid, name), heard_max))
        };
        match name {
            Some(name) if has && lives_on(&name) => {
                subscriptions.token_news.push(TokenNews::Limited(sid.into(), name, heard_max));
            }
            Some(name) if has => {
                subject::subscribe(call.txn, Subject::Token, &[&name], -1)?;
                subscriptions.remove_token(sid);
                subscriptions.token_news.push(TokenNews::Ended(sid.into(), name));
            }
            Some(_) => _ = subscriptions.remove_token(sid),
            None => {}
        }
        left = subscriptions.tokens.len();
    }
    tell(call.reply, b"subj.unsub", sid, left);
    Ok(())
}

fn list(call: &mut TxnCall<'_>) -> Outcome {
    let wanted = |name: &[u8]| call.args.get(1).is_none_or(|pattern| glob::matches(pattern, name));
    let mut found = tokens::listed(call.txn)?;
    found.retain(|(pattern, ..)| wanted(pattern));
    for channel in
        subject::subjects(call.txn, Subject::Channel, &|name| token::is_subject(name) && wanted(name))?
    {
        let count = subject::subscribers(call.txn, Subject::Channel, &channel)?;
        found.push((channel, Vec::new(), count));
    }
    found.sort();
    call.reply.array(found.len());
    for (pattern, queue, count) in found {
        call.reply.array(3);
        call.reply.bulk(&pattern);
        if queue.is_empty() {
            call.reply.null()
        } else {
            call.reply.bulk(&queue)
        }
        call.reply.integer(count as i64);
    }
    Ok(())
}

/// Takes back what an attempt of a transaction has changed that is run again, or has failed.
pub(crate) fn take_back(subscriptions: &mut Subscriptions) {
    subscriptions.begun.clear();
    for news in std::mem::take(&mut subscriptions.token_news).into_iter().rev() {
        match news {
            TokenNews::Begun(sid, _) => _ = subscriptions.remove_token(&sid),
            TokenNews::Ended(sid, name) => subscriptions.insert_token(&sid, &name),
            TokenNews::Limited(..) => {}
        }
    }
}

/// Makes true for the calling thread what has become true in the segment.
pub(crate) fn apply(table: &Table, client: u64, subscriptions: &mut Subscriptions) {
    subscriptions.begun.clear();
    for news in std::mem::take(&mut subscriptions.token_news) {
        match news {
            TokenNews::Begun(sid, name) => token_listeners::note_begun(table, client, &sid, &name),
            TokenNews::Ended(sid, name) => token_listeners::note_ended(table, client, &sid, &name),
            TokenNews::Limited(sid, name, heard_max) => {
                token_listeners::note_limit(table, client, (&sid, &name), heard_max);
            }
        }
    }
}
