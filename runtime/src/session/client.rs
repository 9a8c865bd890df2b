//! A client as others see it, and its line of CLIENT LIST.
use std::sync::Arc;

use polder_base::Protocol;
use polder_table::Db;

use super::{Session, Tracking};

/// What CLIENT LIST tells of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub id: u64,
    /// The peer's address, `127.0.0.1:50000` or the socket's path with `:0`.
    pub address: String,
    pub local_address: String,
    pub descriptor: i32,
    pub name: Arc<[u8]>,
    pub age_seconds: u64,
    pub idle_seconds: u64,
    /// Redis's letters (`N` for none); `S` first for a replica, `M` for the primary; `x` in MULTI, `e` and `T` for NO-EVICT and NO-TOUCH, `I` for IMPORT-SOURCE, `b` blocked, `U` by Unix socket.
    pub flags: String,
    pub db: Db,
    pub channels: usize,
    pub patterns: usize,
    pub shard_channels: usize,
    /// The client that is told of changed keys in its place; 0 for none, -1 if it tracks none.
    pub redirect: i64,
    /// Commands queued since MULTI, or -1.
    pub queued: i64,
    pub watches: usize,
    /// Bytes of queries that wait, and room for more of them.
    pub query_bytes: usize,
    pub query_room: usize,
    /// Bytes kept for EXEC, and all that are kept beside the buffers.
    pub queued_bytes: usize,
    pub held_bytes: usize,
    /// Bytes that replies take, and those of them that wait now.
    pub reply_room: usize,
    pub reply_bytes: usize,
    pub memory: usize,
    /// What the event loop waits for: `r`, `w` or both.
    pub events: String,
    pub command: String,
    pub user: Vec<u8>,
    pub resp: u8,
    pub library: Arc<[u8]>,
    pub library_version: Arc<[u8]>,
    /// Shown as the letter `r`.
    pub takes_redirects: bool,
    /// What the client speaks; `direct` for a caller in this process.
    pub protocol: &'static str,
    /// Messages of a client of NATS.
    pub traffic: Traffic,
}

/// The servers of NATS on one memory.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// Moves when another server comes or one goes.
    pub version: u64,
    /// Host and port of each.
    pub addresses: Vec<String>,
    /// This process ends; its own are not among them.
    pub is_leaving: bool,
}

/// Messages that a client of NATS has published and heard, and the bytes of their payloads and headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub messages_in: u64,
    pub bytes_in: u64,
    pub messages_out: u64,
    pub bytes_out: u64,
}

impl Traffic {
    /// The messages that have been added since it was as `before`.
    pub fn since(&self, before: &Traffic) -> Traffic {
        Traffic {
            messages_in: self.messages_in - before.messages_in,
            bytes_in: self.bytes_in - before.bytes_in,
            messages_out: self.messages_out - before.messages_out,
            bytes_out: self.bytes_out - before.bytes_out,
        }
    }
}

impl Client {
    /// What a session knows of its client; the host adds the connection's facts.
    pub fn of(session: &Session, now_ms: u64) -> Client {
        let [channels, patterns, shard_channels] =
            session.listening.subscriptions.as_ref().map_or([0; 3], |subscriptions| subscriptions.counts());
        let subjects = session.listening.subscriptions.as_ref().map_or(0, |known| known.tokens.len());
        let marks = [
            (session.listening.monitors, 'O'),
            (session.listens(), 'P'),
            (session.multi.is_some(), 'x'),
            (session.no_evict, 'e'),
            (session.caller.no_touch, 'T'),
            (session.imports, 'I'),
        ];
        let tracking = session.listening.tracking.as_deref();
        let marks = marks.into_iter().chain([
            (tracking.is_some(), 't'),
            (tracking.is_some_and(|tracking| tracking.broken), 'R'),
            (tracking.is_some_and(Tracking::broadcasts), 'B'),
        ]);
        let mut flags: String = marks.filter(|(set, _)| *set).map(|(_, mark)| mark).collect();
        if flags.is_empty() {
            flags.push('N');
        }
        Client {
            id: session.identity.id,
            name: session.identity.name.clone(),
            age_seconds: now_ms.saturating_sub(session.clock.created_ms) / 1000,
            idle_seconds: now_ms.saturating_sub(session.clock.active_ms) / 1000,
            flags,
            db: session.caller.db,
            channels: channels + subjects,
            patterns,
            shard_channels,
            redirect: tracking.map_or(-1, |tracking| tracking.redirect() as i64),
            queued: session.multi.as_ref().map_or(-1, |multi| multi.queue.len() as i64),
            watches: session.watches.len(),
            queued_bytes: session.queued_bytes(),
            held_bytes: session.held_bytes(),
            events: "r".into(),
            command: session.tally.last.map_or("NULL".into(), |command| command.label()),
            user: session.identity.user.to_vec(),
            resp: if session.protocol == Protocol::Resp3 { 3 } else { 2 },
            library: session.identity.library.clone(),
            library_version: session.identity.library_version.clone(),
            takes_redirects: session.identity.takes_redirects,
            protocol: "direct",
            ..Client::default()
        }
    }
}

/// Redis's first buffer of replies; what is beyond it counts as `omem`.
const REPLY_CHUNK_BYTES: usize = 16 * 1024;

/// The line that CLIENT LIST shows, with its end.
pub fn line(client: &Client) -> Vec<u8> {
    let head = format!(
        "id={} addr={} laddr={} fd={} name=",
        client.id, client.address, client.local_address, client.descriptor
    );
    let state = format!(
        " age={} idle={} flags={}{} db={} sub={} psub={} ssub={} multi={} watch={}",
        client.age_seconds,
        client.idle_seconds,
        client.flags,
        // Only where there are some: Redis shows no such field.
        if client.takes_redirects { " capa=r" } else { "" },
        client.db,
        client.channels,
        client.patterns,
        client.shard_channels,
        client.queued,
        client.watches,
    );
    let more_bytes = client.reply_bytes.saturating_sub(REPLY_CHUNK_BYTES);
    let memory = format!(
        " qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs={} rbp={} obl={} oll={} omem={} tot-mem={} events={} cmd={} user=",
        client.query_bytes,
        client.query_room,
        client.queued_bytes,
        client.reply_room,
        client.reply_room,
        client.reply_bytes.min(REPLY_CHUNK_BYTES),
        more_bytes.div_ceil(REPLY_CHUNK_BYTES),
        more_bytes,
        client.memory,
        client.events,
        client.command,
    );
    let tail = format!(" redir={} resp={} lib-name=", client.redirect, client.resp);
    let parts: [&[u8]; 11] = [
        head.as_bytes(),
        &client.name,
        state.as_bytes(),
        memory.as_bytes(),
        &client.user,
        tail.as_bytes(),
        &client.library,
        b" lib-ver=",
        &client.library_version,
        // Redis shows no such field; it stands last, so that readers of its fields find them where they were.
        b" protocol=",
        client.protocol.as_bytes(),
    ];
    [&parts.concat()[..], b"\n"].concat()
}
