//! What a request asks for, by its method and path.
use std::borrow::Cow;

use polder_wire::http::{Head, Method, target};
use smallvec::{SmallVec, smallvec};

use super::media;
use super::note::{Note, Verb};
use crate::web_rules::{Verdict, WebRules};

/// What a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource<'b> {
    /// A key, with its escapes.
    Key(&'b [u8]),
    /// Commands in the query, or in a body of JSON, with replies in JSON.
    Commands,
    /// Commands in the query, or in a body of RESP, with replies in RESP.
    Resp,
    Publish,
    /// Messages of channels.
    Subscribe,
    WebSocket,
    /// A WebSocket of a client of NATS.
    Nats,
    /// A file of the console, by its path below `/console`.
    Console(&'b [u8]),
    Health,
    Readiness,
    Metrics,
    /// A monitoring page of nats-server, by its name.
    NatsPage(&'static str),
    /// Paths of which a key has none without `/k/`, although nothing is there.
    Reserved,
    /// `/` itself: with a query or a body it is as [`Resource::Resp`].
    Root,
}

/// A call on one key, with nothing around it.
#[derive(Debug)]
pub struct PlainCall<'b> {
    pub note: Note,
    pub key: Cow<'b, [u8]>,
}

/// The key that `/` shows.
pub const INDEX: &[u8] = b"index.html";

/// The arguments of a call on one key.
pub fn args<'a>(verb: Verb, key: &'a [u8], body: &'a [u8]) -> SmallVec<[&'a [u8]; 3]> {
    match verb {
        Verb::Read => smallvec![&b"ITEM.VIEW"[..], key],
        Verb::Store => smallvec![&b"SET"[..], key, body],
        Verb::Remove => smallvec![&b"DEL"[..], key],
    }
}

/// Names the resource of a path where clients of NATS are served: pages have the names that tools expect.
fn resource_beside_nats(path: &[u8]) -> Resource<'_> {
    match path {
        b"/varz" => Resource::NatsPage("VARZ"),
        b"/connz" => Resource::NatsPage("CONNZ"),
        b"/subsz" => Resource::NatsPage("SUBSZ"),
        b"/healthz" => Resource::NatsPage("HEALTHZ"),
        _ => resource(path),
    }
}

/// What a path names.
pub fn resource(path: &[u8]) -> Resource<'_> {
    if let Some(key) = path.strip_prefix(b"/k/") {
        return Resource::Key(key);
    }
    match path {
        b"/" | b"*" => Resource::Root,
        b"/healthz" => Resource::Health,
        b"/readyz" => Resource::Readiness,
        b"/metrics" => Resource::Metrics,
        b"/js" => Resource::Commands,
        b"/resp" => Resource::Resp,
        b"/pub" => Resource::Publish,
        b"/sub" => Resource::Subscribe,
        b"/ws" => Resource::WebSocket,
        b"/console" => Resource::Console(b""),
        b"/k" => Resource::Reserved,
        _ if path.starts_with(b"/console/") => Resource::Console(&path[b"/console".len()..]),
        _ => Resource::Key(&path[1..]),
    }
}

/// Names the resource of a path under these rules.
pub fn resource_with<'b>(rules: &WebRules, path: &'b [u8]) -> Resource<'b> {
    if rules.serves_nats { resource_beside_nats(path) } else { resource(path) }
}

/// What a method does with a key.
pub fn verb(method: Method) -> Option<Verb> {
    match method {
        Method::Get | Method::Head => Some(Verb::Read),
        Method::Put | Method::Post => Some(Verb::Store),
        Method::Delete => Some(Verb::Remove),
        Method::Options | Method::Other => None,
    }
}

/// Whether the client takes gzip.
pub fn takes_gzip(head: &Head<'_>) -> bool {
    head.fields.accept_encoding.is_some_and(|list| {
        list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|word| {
            let (name, weight) = word.split_at(memchr::memchr(b';', word).unwrap_or(word.len()));
            let is_refused = weight
                .strip_prefix(b";")
                .map(<[u8]>::trim_ascii)
                .is_some_and(|weight| matches!(weight, b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000"));
            (name.trim_ascii().eq_ignore_ascii_case(b"gzip") || name == b"*") && !is_refused
        })
    })
}

/// How the reply to a call on a key becomes a response.
pub fn note(head: &Head<'_>, verb: Verb, key: &[u8]) -> Note {
    let (media, is_gzip) = match verb {
        Verb::Read => media::of_key(key, takes_gzip(head)),
        _ => (0, false),
    };
    Note { verb, is_head: head.method == Method::Head, media, is_gzip }
}

/// The content type that a request stores with its key.
pub fn type_to_store<'b>(head: &Head<'b>, verb: Verb, key: &[u8]) -> Option<&'b [u8]> {
    head.fields
        .content_type
        .filter(|_| verb == Verb::Store)
        .and_then(|content_type| media::to_store(key, content_type))
}

/// The call of a request that is nothing but a call on one key.
pub fn plain<'b>(head: &Head<'b>, rules: &WebRules) -> Option<PlainCall<'b>> {
    let verb = verb(head.method)?;
    let fields = &head.fields;
    let has_more = [
        fields.authorization,
        fields.range,
        fields.if_match,
        fields.if_none_match,
        fields.upgrade,
        fields.origin,
    ];
    if head.closes
        || rules.database != 0
        || has_more.iter().any(Option::is_some)
        || memchr::memchr(b'?', head.target).is_some()
    {
        return None;
    }
    let Resource::Key(key) = resource_with(rules, head.target) else { return None };
    let key = target::unescaped(key)?;
    if type_to_store(head, verb, &key).is_some() {
        return None;
    }
    (rules.judge(head.method, fields) == Verdict::Own)
        .then(|| PlainCall { note: note(head, verb, &key), key })
}
