//! ACL LOG: who was not let in, and who was not allowed something, newest first, in a ring of this process.
use std::collections::VecDeque;

use polder_base::{Reply, time};

use super::check::Denied;
use crate::client;
use crate::command::Command;
use crate::metrics::recorder::lock;
use crate::session::{Host, Session};
use crate::settings::id;

/// What was denied, from the nearest to the farthest that a call gets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    Command,
    Key,
    Auth,
    Channel,
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Auth => "auth",
            Reason::Channel => "channel",
        }
    }
}

/// Where a call was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    Toplevel,
    Multi,
    Lua,
}

impl Context {
    /// That of a call which a session makes now.
    pub fn of(session: &Session) -> Context {
        if session.multi.is_some() { Context::Multi } else { Context::Toplevel }
    }

    fn text(self) -> &'static str {
        match self {
            Context::Toplevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// Denials of one kind.
#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    count: i64,
    denied: Denied,
    context: Context,
    user: Vec<u8>,
    client: Vec<u8>,
    created_ms: u64,
    updated_ms: u64,
}

/// The ring, newest first, and how often each reason was given.
#[derive(Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    next: u64,
    counts: [u64; 4],
}

/// How far apart denials may be that count as one entry, and how many entries are looked at for that.
const GROUPING_MS: u64 = 60_000;
const GROUPING_DEPTH: usize = 10;

impl Log {
    /// How often something was denied for a reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    /// Counts from nothing again.
    pub fn reset_counts(&mut self) {
        self.counts = [0; 4];
    }
}

/// Enters a denial of a call of `command`; `user` is who it was, or wanted to be.
#[cold]
pub fn note(host: &dyn Host, session: &Session, command: &Command, user: &[u8], context: Context, denied: &Denied) {
    let most = host.settings().number(const { id("acllog-max-len") }) as usize;
    let mut client = host.client(session);
    // What is part of a whole is the whole's.
    if !session.atomic {
        client.command = command.label();
    }
    let client = client::line(&client).trim_ascii_end().to_vec();
    let now_ms = time::now_ms();
    let mut log = lock(&host.recorder().denials);
    log.counts[denied.reason as usize] += 1;
    let same = |entry: &Entry| {
        entry.denied == *denied && entry.context == context && entry.user == user && now_ms.saturating_sub(entry.updated_ms) <= GROUPING_MS
    };
    match log.entries.iter().take(GROUPING_DEPTH).position(same).and_then(|at| log.entries.remove(at)) {
        Some(mut entry) => {
            entry.count += 1;
            entry.client = client;
            entry.updated_ms = now_ms;
            log.entries.push_front(entry);
        }
        None => {
            let id = log.next;
            log.next += 1;
            let (denied, user) = (denied.clone(), user.to_vec());
            log.entries.push_front(Entry { id, count: 1, denied, context, user, client, created_ms: now_ms, updated_ms: now_ms });
            log.entries.truncate(most);
        }
    }
}

/// Forgets everything.
pub fn reset(host: &dyn Host) {
    lock(&host.recorder().denials).entries.clear();
}

/// Writes the newest `count` entries.
pub fn show(host: &dyn Host, count: usize, reply: &mut dyn Reply) {
    let now_ms = time::now_ms();
    let log = lock(&host.recorder().denials);
    reply.array(log.entries.len().min(count));
    for entry in log.entries.iter().take(count) {
        reply.map(10);
        number(reply, "count", entry.count);
        text(reply, "reason", entry.denied.reason.text().as_bytes());
        text(reply, "context", entry.context.text().as_bytes());
        text(reply, "object", &entry.denied.object);
        text(reply, "username", &entry.user);
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1000.0);
        text(reply, "client-info", &entry.client);
        number(reply, "entry-id", entry.id as i64);
        number(reply, "timestamp-created", entry.created_ms as i64);
        number(reply, "timestamp-last-updated", entry.updated_ms as i64);
    }
}

fn text(reply: &mut dyn Reply, name: &str, value: &[u8]) {
    reply.bulk(name.as_bytes());
    reply.bulk(value);
}

fn number(reply: &mut dyn Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(value);
}
