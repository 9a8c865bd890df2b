//! What one thread hears: its clients' subscriptions and their places in queues, and the letters in
//! its seat's inbox.
//!
//! All of it is the thread's own memory and ends with the thread. What the segment knows of it ends
//! with the seat's life.

use hashbrown::HashMap;
use polder_base::{Fault, glob};
use polder_shm::layout::interest;
use polder_table::change::{interest_at, lose_interest};
use polder_table::{Stop, Table, Txn};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::ask::{self, Asker, Question, Thread};
use crate::letter::{Letter, unpack};
use crate::queue::{self, Waiters};
use crate::subject::Subject;
use crate::sweep::{self, Sweep};
use crate::track::Tracking;

/// The most bytes that wait in an inbox, published while its thread does not run. A small segment
/// has less: a part of it.
const INBOX_BYTES: u64 = 64 << 20;
const INBOX_PART: u64 = 16;
/// The most letters that one call of [`hear`] reads. The rest waits until the thread's other work
/// has had its turn.
const LETTERS_MAX: usize = 10_000;

/// What is delivered to clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery<'d> {
    Message {
        channel: &'d [u8],
        payload: &'d [u8],
    },
    PatternMessage {
        pattern: &'d [u8],
        channel: &'d [u8],
        payload: &'d [u8],
    },
    ShardMessage {
        channel: &'d [u8],
        payload: &'d [u8],
    },
    /// Keys that the clients have read have changed (none: all keys). `redirected`: another client
    /// has read them and has its notices sent here.
    Invalidation {
        keys: Option<&'d [&'d [u8]]>,
        redirected: bool,
    },
    /// The client that received these clients' invalidations is gone.
    RedirectionBroken {
        client: u64,
    },
    /// A line for MONITOR.
    Call {
        line: &'d [u8],
    },
}

/// What holds the clients: a server's loop, or a caller in this process.
pub trait Hearer {
    /// Writes something to each of these clients.
    fn deliver(&mut self, clients: &[u64], delivery: Delivery<'_>);

    /// Runs the waiting call of a client again.
    fn retry(&mut self, client: u64);

    /// Whether there is such a client in this process.
    fn knows(&self, client: u64) -> bool;

    /// Messages that were meant for these clients may have been lost, so they must not assume that
    /// they have received all.
    fn missed(&mut self, clients: &[u64]);

    /// Replies to what another process asks about the clients of this one ([`ask::answer`]). Only
    /// for threads that [`ask::serve`].
    fn asked(&mut self, _asker: Asker, _words: &[&[u8]]) {}

    /// Looks at what the segment says to all threads that serve clients, before this thread sleeps
    /// again.
    fn look(&mut self) {}
}

/// See the module.
#[derive(Default)]
pub struct Ears {
    /// The thread that they belong to: segment, seat and life.
    owner: (u64, u64, u64),
    /// For each client, the place in the inbox from which it hears: what was sent before it
    /// subscribed is not for it, read or not.
    subscribers: [HashMap<Vec<u8>, BTreeMap<u64, u64>>; 3],
    pub(crate) waiters: Waiters,
    pub(crate) tracking: Tracking,
    pub(crate) monitors: BTreeSet<u64>,
    pub(crate) sweep: Sweep,
    /// Ended subscriptions that the segment still has.
    owed: Vec<(Subject, Vec<u8>)>,
    /// What clients of this thread have asked other processes, by client and by how many questions came before in the same call.
    pub(crate) questions: HashMap<(u64, usize), Question>,
    /// How many questions were asked so far.
    pub(crate) asked: u64,
    /// Threads that let the time of a question pass, and have sent nothing since.
    pub(crate) unheard: BTreeSet<Thread>,
    /// Set while letters are being read. A nested call of [`hear`] returns at once and leaves them
    /// to the outer one.
    hearing: bool,
    /// The clients that heard the last message.
    audience: Audience,
}

/// The clients that hear a subject, valid while no subscription begins or ends. Messages come in
/// runs, and a subject may have very many clients.
#[derive(Default)]
struct Audience {
    subject: Option<Subject>,
    name: Vec<u8>,
    clients: Rc<[u64]>,
}

thread_local! {
    static EARS: RefCell<Vec<Ears>> = const { RefCell::new(Vec::new()) };
}

/// Uses the calling thread's ears in this segment; `None` without a seat, or at the thread's end.
pub(crate) fn with<R>(table: &Table, work: impl FnOnce(&mut Ears) -> R) -> Option<R> {
    let seat = table.seat().ok()?;
    let owner = (table.segment().id(), seat.index(), seat.life());
    EARS.try_with(|ears| {
        let mut ears = ears.borrow_mut();
        let at = match ears.iter().position(|ears| ears.owner == owner) {
            Some(at) => at,
            None => {
                // An earlier life's, or a parent's from before a fork.
                ears.retain(|ears| ears.owner.0 != owner.0);
                ears.push(Ears { owner, ..Ears::default() });
                ears.len() - 1
            }
        };
        work(&mut ears[at])
    })
    .ok()
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

/// The most bytes that wait in an inbox of this segment.
pub(crate) fn inbox_bytes(table: &Table) -> u64 {
    let geometry = table.segment().geometry();
    INBOX_BYTES.min((geometry.ceiling - geometry.slabs_at) / INBOX_PART)
}

/// Whether there is something to hear. A few loads.
#[inline]
pub fn has_mail(table: &Table) -> bool {
    table.seat().is_ok_and(|seat| seat.has_mail())
}

/// Retries what failed earlier because another thread held a lock. At most once in a turn, since
/// that thread may still hold it.
pub fn settle(table: &Table) {
    queue::settle_debts(table);
}

/// Whether others wait for something that this thread could not do yet: see [`settle`].
pub fn owes(table: &Table) -> bool {
    with(table, |ears| ears.waiters.owe()).unwrap_or(false)
}

/// Reads the letters that have come. Returns whether there are more.
pub fn hear(table: &Table, hearer: &mut dyn Hearer) -> bool {
    let Ok(seat) = table.seat() else { return false };
    if !with(table, |ears| !std::mem::replace(&mut ears.hearing, true)).unwrap_or(false) {
        return false;
    }
    let mut letter = Vec::new();
    let mut more = true;
    for _ in 0..LETTERS_MAX {
        if seat.note_lost() {
            catch_up(table, hearer);
        }
        let at = seat.mail().start;
        more = matches!(seat.receive(&mut letter), Ok(true));
        if !more {
            break;
        }
        if let Some(letter) = Letter::read(&letter) {
            open(table, hearer, letter, at);
        }
    }
    with(table, |ears| ears.hearing = false);
    more
}

/// Does what a letter says; `at` is its place in the inbox.
fn open(table: &Table, hearer: &mut dyn Hearer, letter: Letter<'_>, at: u64) {
    match letter {
        Letter::Message { shard: true, channel, payload } => {
            let clients = with(table, |ears| ears.clients(Subject::Shard, channel, at)).unwrap_or_default();
            hearer.deliver(&clients, Delivery::ShardMessage { channel, payload });
        }
        Letter::Message { shard: false, channel, payload } => {
            let heard = with(table, |ears| (ears.clients(Subject::Channel, channel, at), ears.matching(channel, at)));
            let (clients, matching) = heard.unwrap_or_default();
            hearer.deliver(&clients, Delivery::Message { channel, payload });
            for (pattern, clients) in matching {
                hearer.deliver(&clients, Delivery::PatternMessage { pattern: &pattern, channel, payload });
            }
        }
        Letter::Wake { kind, db, key } => queue::woken(table, hearer, kind, db, key),
        Letter::WakeAll { db } => queue::woken_all(table, hearer, db),
        Letter::Changed { origin, key } => crate::track::changed(table, hearer, origin, key),
        Letter::Broadcast { origin, key } => crate::track::broadcast(table, origin, key),
        Letter::ChangedAll => crate::track::changed_all(table, hearer),
        Letter::Call { line } => {
            let clients = with(table, |ears| ears.monitors.iter().copied().collect::<Vec<_>>()).unwrap_or_default();
            hearer.deliver(&clients, Delivery::Call { line });
        }
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
    let _ = queue::run(table, &mut |txn| {
        Letter::Unredirected { client: reader, redirect: client }.write(|parts| txn.post(seat, life, parts));
        Ok(())
    });
}

/// Letters were lost, so every one of them may have said anything: wake-ups and invalidations are
/// repeated for all. Published messages cannot be repeated, so their listeners' connections are
/// closed, as for a client that reads too slowly. That tells the clients.
fn catch_up(table: &Table, hearer: &mut dyn Hearer) {
    let listeners = with(table, |ears| {
        let subscribers = ears.subscribers.iter().flat_map(HashMap::values).flat_map(BTreeMap::keys);
        subscribers.chain(&ears.monitors).copied().collect::<BTreeSet<u64>>()
    });
    hearer.missed(&listeners.unwrap_or_default().into_iter().collect::<Vec<_>>());
    queue::woken_all(table, hearer, None);
    crate::track::changed_all(table, hearer);
}

impl Ears {
    fn clients(&mut self, subject: Subject, name: &[u8], at: u64) -> Rc<[u64]> {
        let audience = &mut self.audience;
        if audience.subject == Some(subject) && audience.name == name {
            return audience.clients.clone();
        }
        let Some(all) = self.subscribers[subject as usize].get(name) else { return Rc::default() };
        let clients: Rc<[u64]> = there_at(all, at).into();
        // A client that was there for this message is there for all later ones.
        if clients.len() == all.len() {
            audience.subject = Some(subject);
            audience.name.clear();
            audience.name.extend_from_slice(name);
            audience.clients = clients.clone();
        }
        clients
    }

    fn matching(&self, channel: &[u8], at: u64) -> Vec<(Vec<u8>, Vec<u64>)> {
        let patterns = self.subscribers[Subject::Pattern as usize].iter();
        let matching = patterns.filter(|(pattern, _)| glob::matches(pattern, channel));
        matching.map(|(pattern, clients)| (pattern.clone(), there_at(clients, at))).collect()
    }
}

/// The clients of a subject that had subscribed before the letter at place `at` of the inbox was
/// sent.
fn there_at(clients: &BTreeMap<u64, u64>, at: u64) -> Vec<u64> {
    clients.iter().filter(|(_, from)| **from <= at).map(|(client, _)| *client).collect()
}

/// Notes that a client of this thread hears a subject, or no longer does. Called after the commit
/// of the transaction that says so in the segment.
pub fn note_subscription(table: &Table, client: u64, subject: Subject, name: &[u8], begins: bool) {
    // Read after the commit, so nothing that is sent behind this place is missing.
    let from = table.seat().map_or(0, |seat| seat.mail().end);
    with(table, |ears| {
        ears.audience.subject = None;
        let names = &mut ears.subscribers[subject as usize];
        if begins {
            names.entry_ref(name).or_default().insert(client, from);
        } else if let Some(clients) = names.get_mut(name) {
            clients.remove(&client);
            if clients.is_empty() {
                names.remove(name);
            }
        }
    });
}

/// Whether clients of this thread hear a subject; true where that is not known.
pub(crate) fn is_heard(table: &Table, subject: Subject, name: &[u8]) -> bool {
    with(table, |ears| ears.subscribers[subject as usize].contains_key(name)).unwrap_or(true)
}

/// Ends a client's subscriptions. If a lock is held, perhaps by a stopped thread, the segment is
/// told later.
pub fn unsubscribe(table: &Table, client: u64, subject: Subject, names: Vec<Vec<u8>>) {
    for name in &names {
        note_subscription(table, client, subject, name, false);
    }
    withdraw(table, names.into_iter().map(|name| (subject, name)).collect());
}

/// Patterns end together, since many of them lie in one value. Channels end some at a time, or one
/// by one if a lock stops the group.
fn withdraw(table: &Table, mut subscriptions: Vec<(Subject, Vec<u8>)>) {
    /// Channels that end in one transaction.
    const TOGETHER: usize = 64;
    let withdrawn = |some: &[(Subject, Vec<u8>)]| {
        let names: Vec<&[u8]> = some.iter().map(|(_, name)| &name[..]).collect();
        queue::run(table, &mut |txn| crate::subject::subscribe(txn, some[0].0, &names, -1)).is_ok()
    };
    subscriptions.sort_unstable_by_key(|(subject, _)| *subject);
    let mut left = Vec::new();
    for alike in subscriptions.chunk_by(|one, other| one.0 == other.0) {
        let is_pattern = alike[0].0 == Subject::Pattern;
        for some in alike.chunks(if is_pattern { alike.len() } else { TOGETHER }).filter(|some| !withdrawn(some)) {
            let blocked = some.chunks(1).filter(|one| is_pattern || !withdrawn(one));
            left.extend(blocked.flatten().cloned());
        }
    }
    if !left.is_empty() {
        with(table, |ears| ears.owed.extend(left));
    }
}

/// Notes that a client of this thread wants to see every call, or no longer does.
pub fn note_monitor(table: &Table, client: u64, begins: bool) {
    let changed = with(table, |ears| if begins { ears.monitors.insert(client) } else { ears.monitors.remove(&client) });
    if changed == Some(true)
        && begins
        && let Ok(seat) = table.seat()
    {
        polder_table::change::take_interest(&seat, interest::MONITORS);
    }
    if changed == Some(true) && !begins {
        review_interest(table);
    }
}

/// The periodic work: drops interests that no client has any more, retries what failed, sweeps for
/// the dead.
pub fn tick(table: &Table, hearer: &mut dyn Hearer) {
    settle(table);
    if let Ok(seat) = table.seat() {
        seat.mend_inbox();
    }
    queue::look_again(table, hearer);
    let owed = with(table, |ears| std::mem::take(&mut ears.owed)).unwrap_or_default();
    withdraw(table, owed);
    crate::track::forget_stale(table);
    review_interest(table);
    sweep::some(table);
}

/// Drops interests that no client has any more: for a thread that does not [`tick`].
pub fn rest(table: &Table) {
    review_interest(table);
}

fn review_interest(table: &Table) {
    let Ok(seat) = table.seat() else { return };
    let idle = with(table, |ears| {
        let nobody = [
            (ears.subscribers.iter().all(HashMap::is_empty) && ears.owed.is_empty(), interest::SUBSCRIBERS),
            (ears.waiters.is_empty(), interest::WAITERS),
            (ears.tracking.reads_nothing(), interest::TRACKERS),
            (ears.tracking.hears_nothing(), interest::BROADCAST),
            (ears.monitors.is_empty(), interest::MONITORS),
        ];
        nobody.iter().filter(|(nobody, _)| *nobody).fold(0, |bits, (_, bit)| bits | bit)
    });
    lose_interest(&seat, idle.unwrap_or(0));
}

/// Shows a line to all clients that monitor. If an inbox is locked, perhaps by a stopped thread,
/// the line is dropped.
pub fn show_call(table: &Table, line: &[u8]) {
    let _ = queue::run(table, &mut |txn| {
        post_call(txn, line);
        Ok(())
    });
}

/// As [`show_call`], with the commit of a transaction.
pub fn post_call(txn: &Txn<'_>, line: &[u8]) {
    crate::sink::to_all(txn, interest::MONITORS, &Letter::Call { line });
}

/// Wakes a thread, so that it looks at the segment.
///
/// # Errors
/// As `Table::begin`.
pub fn rouse(table: &Table, (seat, life): Thread) -> Result<(), Stop> {
    queue::run(table, &mut |txn| {
        Letter::Rise.write(|parts| txn.post(seat, life, parts));
        Ok(())
    })
}
