//! Reads the messages in the inbox of the calling thread's seat, and does what they say for its clients.
use std::collections::BTreeSet;

use polder_base::Fault;
use polder_shm::layout::interest;
use polder_table::interest::{interest_at, lose_interest};
use polder_table::{CommitView, Table};

use crate::listener::{Delivery, MessageSink, Thread};
use crate::message::{Message, Post, inbox_bytes, unpack};
use crate::monitor::{self, monitors};
use crate::per_thread::{self, PerThread};
use crate::subscriptions::{self, Subject};
use crate::{post, posted, query, queue, shapes, subject, sweep, tier, token_listeners, track};

/// The most messages that one call of [`hear`] reads. The rest waits until the thread's other work
/// has had its turn.
const LETTERS_MAX: usize = 10_000;

thread_local! {
    /// Set while messages are being read. A nested call of [`hear`] returns at once and leaves them
    /// to the outer one.
    static IS_HEARING: PerThread<bool> = const { PerThread::new() };
}

/// Prepares the calling thread for hearing: before its first subscription or wait, outside of any
/// transaction.
///
/// # Errors
/// [`Fault::Full`]; a fault when all seats are taken.
pub fn attend(table: &Table) -> Result<(), Fault> {
    let seat = table.seat()?;
    let (bits, life) = interest_at(table.segment(), seat.index());
    if bits != 0 && life != seat.life() {
        // The interest word of this seat still names an earlier life. The first interest that we
        // declare would overwrite it, and the dead life's records would never be swept.
        sweep::at_once(table);
    }
    seat.open_inbox(inbox_bytes(table))
}

/// Whether there is something to hear. A few loads.
#[inline]
pub fn has_messages(table: &Table) -> bool {
    table.seat().is_ok_and(|seat| seat.has_messages())
}

/// Reads the messages that have come. Returns whether there are more.
pub fn hear(table: &Table, sink: &mut dyn MessageSink) -> bool {
    let Ok(seat) = table.seat() else { return false };
    if !per_thread::with(&IS_HEARING, table, |is_hearing| !std::mem::replace(is_hearing, true))
        .unwrap_or(false)
    {
        return false;
    }
    let mut message = Vec::new();
    let mut more = true;
    for _ in 0..LETTERS_MAX {
        if seat.note_lost() {
            catch_up(table, sink);
        }
        let at = seat.unread().start;
        more = matches!(seat.receive(&mut message), Ok(true));
        if !more {
            break;
        }
        if let Some(message) = Message::read(&message) {
            open(table, sink, message, at);
        }
    }
    per_thread::with(&IS_HEARING, table, |is_hearing| *is_hearing = false);
    posted::end_subscriptions(table, sink);
    more
}

/// Does what a message says; `at` is its place in the inbox.
fn open(table: &Table, sink: &mut dyn MessageSink, message: Message<'_>, at: u64) {
    match message {
        Message::Published { shard: true, channel, payload } => {
            let clients = subscriptions::clients(table, Subject::Shard, channel, at);
            sink.deliver(&clients, Delivery::ShardMessage { channel, payload });
        }
        Message::Published { shard: false, channel, payload } => {
            posted::tell_plain(table, sink, channel, payload, at);
            posted::tell_tokens(table, sink, &Post { subject: channel, payload, ..Post::default() }, at);
        }
        Message::Post(post) => posted::open(table, sink, &post, at),
        Message::Wake { kind, db, key } => queue::woken(table, sink, kind, db, key),
        Message::WakeAll { db } => queue::woken_all(table, sink, db),
        Message::Changed { origin, key } => track::changed(table, sink, origin, key),
        Message::Broadcast { origin, key } => track::broadcast(table, origin, key),
        Message::ChangedAll => track::changed_all(table, sink),
        Message::Call { line } => sink.deliver(&monitors(table), Delivery::Call { line }),
        Message::Redirected { reader, client, all, keys } => {
            redirected(table, sink, reader, client, (!all).then(|| unpack(keys)))
        }
        Message::Unredirected { client, redirect } => {
            sink.deliver(&[client], Delivery::RedirectionBroken { client: redirect })
        }
        Message::Question { asker, words } => sink.asked(asker, &unpack(words)),
        Message::Answer { number, threads, text } => query::answered(table, number, threads, text),
        Message::Ask { asker, hears, names } => sink.wanted(asker, hears, tier::unpack(names)),
        Message::Fetched { failure, names } => tier::answered(table, failure, names),
        Message::Keys { keys } => tier::keys_told(table, keys),
        Message::Evict { db, key } => sink.to_evict(db, key),
        Message::Rise => sink.look(),
    }
}

/// Tells a client that keys changed which another client has read. If the client is gone, that
/// other client's thread learns of it.
fn redirected(
    table: &Table,
    sink: &mut dyn MessageSink,
    reader: (Thread, u64),
    client: u64,
    keys: Option<Vec<&[u8]>>,
) {
    if sink.knows(client) {
        return sink.deliver(&[client], Delivery::Invalidation { keys: keys.as_deref(), redirected: true });
    }
    let ((seat, life), reader) = reader;
    // If the message cannot be posted, the next change sends it.
    let _ = post::run(table, &mut |txn| {
        Message::Unredirected { client: reader, redirect: client }.write(|parts| txn.post(seat, life, parts));
        Ok(())
    });
}

/// Messages were lost, so every one of them may have said anything: wake-ups and invalidations are
/// repeated for all. Published messages cannot be repeated, so their listeners' connections are
/// closed, as for a client that reads too slowly. That tells the clients.
fn catch_up(table: &Table, sink: &mut dyn MessageSink) {
    let listeners: BTreeSet<u64> = subscriptions::subscribers(table)
        .into_iter()
        .chain(monitors(table))
        .chain(token_listeners::subscribers(table))
        .collect();
    sink.missed(&listeners.into_iter().collect::<Vec<_>>());
    queue::woken_all(table, sink, None);
    track::changed_all(table, sink);
}

/// The periodic work: drops interests that no client has any more, retries what failed, sweeps for
/// the dead.
pub fn tick(table: &Table, sink: &mut dyn MessageSink) {
    queue::flush_pending(table);
    if let Ok(seat) = table.seat() {
        seat.mend_inbox();
    }
    queue::look_again(table, sink);
    posted::pass_on_owed(table, sink);
    posted::end_subscriptions(table, sink);
    subject::withdraw_owed(table);
    track::forget_stale(table);
    review_interest(table);
    sweep::some(table);
}

/// Drops interests that no client has any more: for a thread that does not [`tick`].
pub fn rest(table: &Table) {
    review_interest(table);
}

fn hears_no_subject(table: &Table) -> bool {
    subscriptions::is_empty(table)
        && token_listeners::is_empty(table)
        && !subject::has_pending(table)
        && shapes::has_left_all(table)
}

fn review_interest(table: &Table) {
    let Ok(seat) = table.seat() else { return };
    let (reads_nothing, hears_nothing) = track::is_idle(table);
    if !subject::has_pending(table) {
        shapes::leave_unused(table);
    }
    let idle = [
        (hears_no_subject(table), interest::SUBSCRIBERS),
        (queue::is_empty(table), interest::WAITERS),
        (reads_nothing, interest::TRACKERS),
        (hears_nothing, interest::BROADCAST),
        (monitor::is_empty(table), interest::MONITORS),
    ];
    lose_interest(&seat, idle.iter().filter(|(is_idle, _)| *is_idle).fold(0, |bits, (_, bit)| bits | bit));
}
