//! ACL LOG: clients that were refused at AUTH or for a command, newest first. Each process has a
//! ring; all rings are shown as one.
use polder_base::{Reply, time};

use crate::cross_process;
use crate::denials::Entry;
pub use crate::denials::{Context, Denied, Log, REASONS, Reason};
use crate::locks::lock;
use crate::recorder::Note;
use crate::row::SessionCall;
use crate::session::{Host, Session, client};

use polder_calls::call::Outcome;
use polder_calls::command::Command;
use polder_calls::settings::id;

/// How far apart denials may be that count as one entry, and how many entries are looked at for that.
const GROUPING_MS: u64 = 60_000;
const GROUPING_DEPTH: usize = 10;

/// The longest text of an entry; a longer one is cut off. All texts come from clients.
const TEXT_BYTES_MAX: usize = 4096;

fn cut(text: &[u8]) -> Vec<u8> {
    match text.len().checked_sub(TEXT_BYTES_MAX) {
        None | Some(0) => text.to_vec(),
        Some(more) => [&text[..TEXT_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    }
}

/// Where a session makes the call that it makes now.
pub fn context_of(session: &Session) -> Context {
    if session.multi.is_some() { Context::Multi } else { Context::Toplevel }
}

/// Enters a denial of a call of `command`; `user` is the client's user, or the one that it named.
#[cold]
pub fn note(
    host: &dyn Host,
    session: &Session,
    command: &Command,
    user: &[u8],
    context: Context,
    denied: &Denied,
) {
    let most = host.settings().number(const { id("acllog-max-len") }) as usize;
    let mut client = host.client(session);
    // What is part of a whole is the whole's.
    if !session.caller.atomic {
        client.command = command.label();
    }
    let client = client::line(&client).trim_ascii_end().to_vec();
    let now_ms = time::now_ms();
    let mut log = lock(&host.recorder().denials);
    log.counts[denied.reason as usize] += 1;
    let (denied, user, client) =
        (Denied { object: cut(&denied.object), ..denied.clone() }, cut(user), cut(&client));
    let fresh =
        Entry { id: 0, count: 1, denied, context, user, client, created_ms: now_ms, updated_ms: now_ms };
    match log
        .entries
        .iter()
        .take(GROUPING_DEPTH)
        .position(|entry| entry.is_like(&fresh))
        .and_then(|at| log.entries.remove(at))
    {
        Some(mut entry) => {
            entry.count += 1;
            entry.client = fresh.client;
            entry.updated_ms = now_ms;
            log.entries.push_front(entry);
        }
        None => {
            log.entries.push_front(Entry { id: host.recorder().next_note(Note::Denial), ..fresh });
            log.entries.truncate(most);
        }
    }
}

impl Entry {
    /// Whether this and a newer denial count as one.
    fn is_like(&self, newer: &Entry) -> bool {
        let close = newer.updated_ms.saturating_sub(self.updated_ms) <= GROUPING_MS;
        close && self.denied == newer.denied && self.context == newer.context && self.user == newer.user
    }

    fn line(&self) -> String {
        let texts =
            [&self.denied.object, &self.user, &self.client].map(|text| cross_process::word(text)).join(" ");
        let (reason, context) = (self.denied.reason as usize, self.context as usize);
        format!(
            "{} {} {reason} {context} {} {} {texts}\n",
            self.id, self.count, self.created_ms, self.updated_ms
        )
    }

    fn read(words: Vec<Vec<u8>>) -> Option<Entry> {
        let words: [Vec<u8>; 9] = words.try_into().ok()?;
        let [id, count, reason, context, created_ms, updated_ms] =
            [0, 1, 2, 3, 4, 5].map(|at| cross_process::number(&words[at]));
        let [.., object, user, client] = words;
        let denied = Denied { reason: *Reason::ALL.get(reason as usize)?, object };
        let context = *Context::ALL.get(context as usize)?;
        Some(Entry { id, count: count as i64, denied, context, user, client, created_ms, updated_ms })
    }
}

/// Forgets everything, in all processes.
///
/// # Errors
/// As [`show`].
pub fn reset(call: &mut SessionCall<'_>) -> Outcome {
    cross_process::ask(call.table, call.session, call.host, &[b"DENIALS", b"RESET"])?;
    lock(&call.host.recorder().denials).entries.clear();
    call.reply.ok();
    Ok(())
}

/// The reply to another process: a line for each entry, or nothing.
pub fn answer(host: &dyn Host, words: &[&[u8]]) -> String {
    cross_process::answer_entries(&mut lock(&host.recorder().denials).entries, words, Entry::line)
}

/// The entries of several processes as one log, newest first: those that would be one entry in one process are one.
fn joined(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(|entry| std::cmp::Reverse((entry.updated_ms, entry.id)));
    // Two threads of a process may have told of it.
    entries.dedup_by_key(|entry| entry.id);
    let mut joined: Vec<Entry> = Vec::new();
    for older in entries {
        match joined.iter_mut().find(|newer| older.is_like(newer)) {
            Some(newer) => {
                newer.count += older.count;
                newer.created_ms = newer.created_ms.min(older.created_ms);
                newer.id = newer.id.min(older.id);
            }
            None => joined.push(older),
        }
    }
    joined
}

/// Writes the newest `count` entries of all processes.
///
/// # Errors
/// [`polder_table::Stop::Busy`] while the others have not answered.
pub fn show(call: &mut SessionCall<'_>, count: usize) -> Outcome {
    let now_ms = time::now_ms();
    let answers = cross_process::ask(call.table, call.session, call.host, &[b"DENIALS", b"GET"])?;
    let mut entries: Vec<Entry> = lock(&call.host.recorder().denials).entries.iter().cloned().collect();
    if !answers.is_empty() {
        let most = cross_process::entries_max(call.host, const { id("acllog-max-len") }, entries.len());
        entries.extend(cross_process::lines(&answers).filter_map(Entry::read));
        entries = joined(entries);
        entries.truncate(most);
    }
    let reply = &mut *call.reply;
    reply.array(entries.len().min(count));
    for entry in entries.iter().take(count) {
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
    Ok(())
}

fn text(reply: &mut dyn Reply, name: &str, value: &[u8]) {
    reply.bulk(name.as_bytes());
    reply.bulk(value);
}

fn number(reply: &mut dyn Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_of_two_processes_are_one() {
        let denied = Denied { reason: Reason::Key, object: b"a key\n".to_vec() };
        let entry = |id, updated_ms, user: &[u8]| Entry {
            id,
            count: 2,
            denied: denied.clone(),
            context: Context::Multi,
            user: user.to_vec(),
            client: b"id=3 name=".to_vec(),
            created_ms: updated_ms - 10,
            updated_ms,
        };
        let told = [entry(4, 200_000, b"ann"), entry(2, 190_000, b"bob")].map(|entry| entry.line()).concat();
        let mut entries: Vec<Entry> =
            cross_process::lines(&[told.into_bytes()]).filter_map(Entry::read).collect();
        assert_eq!(entries[0], entry(4, 200_000, b"ann"));
        entries.extend([entry(3, 180_000, b"ann"), entry(1, 100_000, b"ann")]);
        let joined = joined(entries);
        let shown: Vec<_> = joined
            .iter()
            .map(|entry| (entry.id, entry.count, entry.created_ms, entry.user.as_slice()))
            .collect();
        assert_eq!(shown, [(3, 4, 179_990, &b"ann"[..]), (2, 2, 189_990, b"bob"), (1, 2, 99_990, b"ann")]);
    }
}
