//! Reads the letters in the inbox of the calling thread's seat, and does what they say for its clients.
use std::collections::BTreeSet;

use polder_base::Fault;
use polder_shm::layout::interest;
use polder_table::Table;
use polder_table::interest::{interest_at, lose_interest};

use crate::letter::{Letter, inbox_bytes, unpack};
use crate::listener::{Delivery, Hearer, Thread};
use crate::monitor::{self, monitors};
use crate::per_thread::{self, PerThread};
use crate::subscriptions::{self, Subject};
use crate::{ask, post, queue, subject, sweep, track};

/// The most letters that one call of [`hear`] reads. The rest waits until the thread's other work
/// has had its turn.
const LETTERS_MAX: usize = 10_000;

thread_local! {
    /// Set while letters are being read. A nested call of [`hear`] returns at once and leaves them
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

/// Reads the letters that have come. Returns whether there are more.
pub fn hear(table: &Table, hearer: &mut dyn Hearer) -> bool {
    let Ok(seat) = table.seat() else { return false };
    if !per_thread::with(&IS_HEARING, table, |is_hearing| !std::mem::replace(is_hearing, true)).unwrap_or(false) {
        return false;
    }
    let mut letter = Vec::new();
    let mut more = true;
    for _ in 0..LETTERS_MAX {
        if seat.note_lost() {
            catch_up(table, hearer);
        }
        let at = seat.unread().start;
        more = matches!(seat.receive(&mut letter), Ok(true));
        if !more {
            break;
        }
        if let Some(letter) = Letter::read(&letter) {
            open(table, hearer, letter, at);
        }
    }
    per_thread::with(&IS_HEARING, table, |is_hearing| *is_hearing = false);
    more
}

/// Does what a letter says; `at` is its place in the inbox.
fn open(table: &Table, hearer: &mut dyn Hearer, letter: Letter<'_>, at: u64) {
    match letter {
        Letter::Message { shard: true, channel, payload } => {
            let clients = subscriptions::clients(table, Subject::Shard, channel, at);
            hearer.deliver(&clients, Delivery::ShardMessage { channel, payload });
        }
        Letter::Message { shard: false, channel, payload } => {
            let clients = subscriptions::clients(table, Subject::Channel, channel, at);
            let matching = subscriptions::matching(table, channel, at);
            hearer.deliver(&clients, Delivery::Message { channel, payload });
            for (pattern, clients) in matching {
                hearer.deliver(&clients, Delivery::PatternMessage { pattern: &pattern, channel, payload });
            }
        }
        Letter::Wake { kind, db, key } => queue::woken(table, hearer, kind, db, key),
        Letter::WakeAll { db } => queue::woken_all(table, hearer, db),
        Letter::Changed { origin, key } => track::changed(table, hearer, origin, key),
        Letter::Broadcast { origin, key } => track::broadcast(table, origin, key),
        Letter::ChangedAll => track::changed_all(table, hearer),
        Letter::Call { line } => hearer.deliver(&monitors(table), Delivery::Call { line }),
        Letter::Redirected { reader, client, all, keys } => redirected(table, hearer, reader, client, (!all).then(|| unpack(keys))),
        Letter::Unredirected { client, redirect } => hearer.deliver(&[client], Delivery::RedirectionBroken { client: redirect }),
        Letter::Question { asker, words } => hearer.asked(asker, &unpack(words)),
        Letter::Answer { number, threads, text } => ask::answered(table, number, threads, text),
        Letter::Rise => hearer.look(),
    }
}

/// Tells a client that keys changed which another client has read. If the client is gone, that
/// other client's thread learns of it.
fn redirected(table: &Table, hearer: &mut dyn Hearer, reader: (Thread, u64), client: u64, keys: Option<Vec<&[u8]>>) {
    if hearer.knows(client) {
        return hearer.deliver(&[client], Delivery::Invalidation { keys: keys.as_deref(), redirected: true });
    }
    let ((seat, life), reader) = reader;
    // If the letter cannot be posted, the next change sends it.
    let _ = post::run(table, &mut |txn| {
        Letter::Unredirected { client: reader, redirect: client }.write(|parts| txn.post(seat, life, parts));
        Ok(())
    });
}

/// Letters were lost, so every one of them may have said anything: wake-ups and invalidations are
/// repeated for all. Published messages cannot be repeated, so their listeners' connections are
/// closed, as for a client that reads too slowly. That tells the clients.
fn catch_up(table: &Table, hearer: &mut dyn Hearer) {
    let listeners: BTreeSet<u64> = subscriptions::subscribers(table).into_iter().chain(monitors(table)).collect();
    hearer.missed(&listeners.into_iter().collect::<Vec<_>>());
    queue::woken_all(table, hearer, None);
    track::changed_all(table, hearer);
}

/// The periodic work: drops interests that no client has any more, retries what failed, sweeps for
/// the dead.
pub fn tick(table: &Table, hearer: &mut dyn Hearer) {
    queue::flush_pending(table);
    if let Ok(seat) = table.seat() {
        seat.mend_inbox();
    }
    queue::look_again(table, hearer);
    subject::withdraw_owed(table);
    track::forget_stale(table);
    review_interest(table);
    sweep::some(table);
}

/// Drops interests that no client has any more: for a thread that does not [`tick`].
pub fn rest(table: &Table) {
    review_interest(table);
}

fn review_interest(table: &Table) {
    let Ok(seat) = table.seat() else { return };
    let (reads_nothing, hears_nothing) = track::is_idle(table);
    let idle = [
        (subscriptions::is_empty(table) && !subject::owes(table), interest::SUBSCRIBERS),
        (queue::is_empty(table), interest::WAITERS),
        (reads_nothing, interest::TRACKERS),
        (hears_nothing, interest::BROADCAST),
        (monitor::is_empty(table), interest::MONITORS),
    ];
    lose_interest(&seat, idle.iter().filter(|(is_idle, _)| *is_idle).fold(0, |bits, (_, bit)| bits | bit));
}
