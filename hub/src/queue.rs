//! Clients that wait for keys, and how they are served in the order in which they came, across
//! processes.
//!
//! A call that finds nothing draws a *ticket*. The transaction that found nothing enters the
//! thread's seat in a record for each of the call's keys (`record.rs`). The record's number is the
//! first of the tickets that the seat's clients hold for that key. Which clients these are, only
//! their thread knows. So ten thousand clients of one thread that wait for one key are one record.
//!
//! ```text
//!   LPUSH k   --commit-->  message Wake(k) to the seat with the first ticket
//!   that seat              runs its first client's call as a transaction: it pops, or finds nothing and goes on waiting
//!   served                 its record gets the seat's next ticket; is there still something in k? -> Wake(k) to the seat that is next
//! ```
//!
//! An element is never handed over, since it would be lost if the receiver died. If a seat dies
//! with a Wake unread, its records are swept, and the sweep wakes the next seat ([`crate::sweep`]).
//! Streams are read and not emptied: all seats that wait are woken, and all their clients try.
//!
//! Between a push and the run of the woken client, other clients may come. A call that may wait
//! therefore leaves what is there to those with earlier records ([`is_for_others`]) and waits
//! behind them.
//!
//! **Invariant:** when a record goes, or its number grows, while its key holds something, the same
//! transaction wakes the seat that is then first. There are two exceptions. When the records of
//! dead seats are dropped, the sweep wakes it. When its inbox is locked, the thread that marked the
//! record wakes it later. So a client that waited because of that record is not forgotten.
//!
//! If the first seat does not come, because its process is stopped, the others wait for one to two
//! seconds, once. Then one of them marks the record as
//! [`LATE`]: it counts behind all that wait and all that come, until its client comes back and
//! takes its own place again. Records of other threads of that process are marked too, if the
//! system says that they are stopped, or says nothing of them. A mark is no order. A client that is
//! marked by mistake has lost a turn, but no element stays without a woken client, since the
//! transaction that marks wakes the seat that is then first. During a pause no client comes, and
//! just after it none has had the time to come, so earlier suspicions are dropped.
//!
//! ```text
//!   marked    record: TICKET | LATE, and a message Wake to its thread             by the transaction of the client that waited for it
//!   noticed   the thread puts the client behind its own others, too, and runs its call again                      any message of the key, a tick
//!   came      the call has been run again: record and client are at their place  by a transaction of the thread
//! ```
//!
//! The message brings back a thread that only waits for messages: without it no other thread would
//! write to it as long as others wait. A client has come back when its call has been run again
//! ([`came`]). Running other code of the thread is not enough: it may do other things, look after
//! its records among them, and never return to a call that it has begun. So the mark belongs to one
//! client's place, and stays until that client's call comes. The record of a thread names the first
//! of its clients that are not late, and a late one only if all of them are. What could not be
//! written because of a lock is a *pending notification*, which keeps the thread from sleeping long until it is
//! sent.

use hashbrown::HashMap;
use polder_base::Fault;
use polder_base::time::now_ms;
use polder_shm::layout::{header, interest};
use polder_table::interest::take_interest;
use polder_table::{CommitView, Db, Mode, Stop, Table, Txn};
use polder_values::Kind;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use crate::listener::MessageSink;
use crate::message::Message;
use crate::per_thread::{self, PerThread};
use crate::post::run;
use crate::query::was_paused;
use crate::record::{self, Record, Records, waiters_key};
use crate::stopped;

/// About how long the first waiter is suspected before it counts as late: the time between two
/// ticks.
const SUSPECTED_MS: u64 = 1_000;
/// The bit in the number of a record whose owner did not come when it was its turn. No ticket is
/// that large.
const LATE: u64 = 1 << 63;

/// One client's place in the queues of some keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub ticket: u64,
    pub kind: Kind,
    pub db: Db,
    pub keys: Vec<Vec<u8>>,
}

/// A record that is not yet up to date.
#[derive(PartialEq, Eq)]
struct PendingNotification {
    kind: Kind,
    db: Db,
    key: Vec<u8>,
    /// The ticket of a call that has come back, whose mark is to go; [`NO_TICKET`] without one.
    came: u64,
}

/// A record that was marked, or is next to be served, whose seat could not be told: its inbox is
/// locked, perhaps by its own stopped thread.
#[derive(PartialEq, Eq)]
struct Untold {
    kind: Kind,
    db: Db,
    key: Vec<u8>,
    record: Record,
}

/// No ticket.
const NO_TICKET: u64 = 0;

/// The clients of one thread that wait.
#[derive(Default)]
struct Waiters {
    /// The clients by their numbers, as a record has them: a ticket, with [`LATE`] where the mark
    /// was noticed. By the key of the records.
    queues: HashMap<Vec<u8>, BTreeMap<u64, u64>>,
    places: HashMap<u64, Place>,
    pending: Vec<PendingNotification>,
    untold: VecDeque<Untold>,
    /// When the `untold` were last tried.
    told_ms: u64,
    /// See [`look_again`]: the ticket up to which it has come, and which record was first where it
    /// found something, by the key of the records.
    looked_at: u64,
    suspects: HashMap<Vec<u8>, Record>,
}

impl Waiters {
    fn first(&self, records_key: &[u8]) -> Option<(u64, u64)> {
        self.queues.get(records_key)?.first_key_value().map(|(number, client)| (*number, *client))
    }

    /// Notices what a record of this thread says: it may have been marked as late.
    fn notice(&mut self, records_key: &[u8], number: u64) {
        if let Some(queue) = self.queues.get_mut(records_key)
            && let Some(client) = queue.remove(&(number & !LATE))
        {
            queue.insert(number, client);
        }
    }

    /// The clients that are late.
    fn late(&self, records_key: &[u8]) -> Vec<u64> {
        self.queues
            .get(records_key)
            .map_or(Vec::new(), |queue| queue.range(LATE..).map(|(_, client)| *client).collect())
    }

    /// The number that the thread's record should get, if it is `was` now and the holder of the
    /// ticket `came` has come back.
    fn number(&mut self, records_key: &[u8], was: Option<u64>, came: u64) -> Option<u64> {
        if let Some(was) = was.filter(|was| was & !LATE != came) {
            self.notice(records_key, was);
        }
        let queue = self.queues.get_mut(records_key)?;
        if let Some(client) = queue.remove(&(came | LATE)) {
            queue.insert(came, client);
        }
        queue.first_key_value().map(|(number, _)| *number)
    }

    fn all(&self, records_key: &[u8]) -> Vec<u64> {
        self.queues.get(records_key).map_or(Vec::new(), |queue| queue.values().copied().collect())
    }

    fn take(&mut self, client: u64) -> Option<Place> {
        let place = self.places.remove(&client)?;
        for key in &place.keys {
            let records_key = waiters_key(place.kind, place.db, key);
            if let Some(queue) = self.queues.get_mut(&records_key) {
                queue.remove(&place.ticket);
                queue.remove(&(place.ticket | LATE));
                if queue.is_empty() {
                    self.queues.remove(&records_key);
                    self.suspects.remove(&records_key);
                }
            }
        }
        Some(place)
    }

    /// Whether others wait for something that could not be done yet.
    fn has_pending(&self) -> bool {
        !self.pending.is_empty() || !self.untold.is_empty()
    }

    /// Whether no client waits.
    fn is_empty(&self) -> bool {
        self.places.is_empty() && !self.has_pending()
    }
}

thread_local! {
    static WAITERS: PerThread<Waiters> = const { PerThread::new() };
}

fn with<R>(table: &Table, work: impl FnOnce(&mut Waiters) -> R) -> Option<R> {
    per_thread::with(&WAITERS, table, work)
}

/// Whether others wait for something that this thread could not do yet: see [`flush_pending`].
pub fn has_pending(table: &Table) -> bool {
    with(table, |waiters| waiters.has_pending()).unwrap_or(false)
}

/// Whether no client of this thread waits.
pub(crate) fn is_empty(table: &Table) -> bool {
    with(table, |waiters| waiters.is_empty()).unwrap_or(false)
}

/// Draws a ticket: a place behind all earlier ones, in all queues.
pub fn draw_ticket(table: &Table) -> u64 {
    table.segment().word(header::TICKETS).fetch_add(1, Ordering::Relaxed) + 1
}

/// Enters the calling thread's seat for a place's keys. It is part of the transaction that found
/// nothing there and holds the keys' locks. [`join`] follows when it has committed. The seat's
/// inbox is open.
///
/// # Errors
///
/// As [`Txn::write`]; [`Stop::Retry`] if the clients are gone to which something was left.
pub fn enlist(txn: &Txn<'_>, place: &Place) -> Result<(), Stop> {
    // H1: a transaction that changes one of the keys, or a whole database, locks it after this one
    // and sees the interest.
    take_interest(txn.seat(), interest::WAITERS);
    let own = Record::own(txn.seat(), place.ticket);
    for key in &place.keys {
        let mut is_first = true;
        let records_key = waiters_key(place.kind, place.db, key);
        record::edit(txn, &records_key, |records| {
            is_first = records.iter().all(|record| record.number >= own.number);
            match records.iter_mut().find(|record| record.same_owner(&own)) {
                Some(record) if record.number <= own.number => return false,
                Some(record) => {
                    // Another client of this thread is marked, and this one is not.
                    with(txn.table(), |waiters| waiters.notice(&records_key, record.number));
                    record.number = own.number;
                }
                None => records.push(own),
            }
            true
        })?;
        if is_first && place.kind != Kind::Stream && holds(txn, place.kind, place.db, key)? {
            return Err(Stop::Retry);
        }
    }
    txn.await_map()
}

/// Whether another client has waited for a key to hold a value of a kind and came before the holder
/// of `ticket`: then what the key holds is for that client. The transaction holds the key's lock.
/// `keeps_thread`: clients of this thread do not count, since none of them goes on before the
/// caller does.
///
/// # Errors
///
/// A fault.
pub fn is_for_others(
    txn: &Txn<'_>,
    kind: Kind,
    (db, key): (Db, &[u8]),
    ticket: u64,
    keeps_thread: bool,
) -> Result<bool, Stop> {
    if txn.interest() & interest::WAITERS == 0 {
        return Ok(false);
    }
    let own = Record::own(txn.seat(), ticket);
    let counts =
        |record: &Record| record.number < ticket.min(LATE) && !(keeps_thread && record.same_owner(&own));
    Ok(record::glimpse(txn, &waiters_key(kind, db, key))?.iter().any(counts))
}

/// Notes that a client of this thread waits at a place.
pub fn join(table: &Table, client: u64, place: Place) {
    with(table, |waiters| {
        for key in &place.keys {
            waiters
                .queues
                .entry(waiters_key(place.kind, place.db, key))
                .or_default()
                .insert(place.ticket, client);
        }
        waiters.places.insert(client, place);
    });
}

/// Ends a client's waiting, for whatever reason, and lets the next one have what there is.
pub fn leave(table: &Table, client: u64) {
    let Some(place) = with(table, |waiters| waiters.take(client)).flatten() else { return };
    notify(
        table,
        place
            .keys
            .into_iter()
            .map(|key| PendingNotification { kind: place.kind, db: place.db, key, came: NO_TICKET })
            .collect(),
    );
}

/// Looks at keys that clients of this thread wait for. If a key holds something and the same record
/// is first as at the last look, that record's seat was woken and did not come: its process is
/// stopped, and the record is marked as late. (That the key holds something twice proves nothing,
/// since elements may come and go all the time, in good order.) It also brings this thread's own
/// records up to date, since others may have marked them.
pub(crate) fn look_again(table: &Table, sink: &mut dyn MessageSink) {
    const KEYS_MAX: usize = 500;
    tell_late(table);
    // A client that waits for the end of a pause is not late, nor has it had the time to come right
    // after one.
    let suspects_none = was_paused(table, SUSPECTED_MS);
    let some = with(table, |waiters| {
        if suspects_none {
            waiters.suspects.clear();
        }
        let from = waiters.looked_at;
        let mut places: Vec<&Place> = waiters
            .places
            .values()
            .filter(|place| place.kind != Kind::Stream && place.ticket > from)
            .collect();
        places.sort_unstable_by_key(|place| place.ticket);
        places.truncate(KEYS_MAX);
        waiters.looked_at =
            if places.len() < KEYS_MAX { 0 } else { places.last().map_or(0, |place| place.ticket) };
        distinct(
            places
                .iter()
                .flat_map(|place| place.keys.iter().map(|key| (place.kind, place.db, key.clone())))
                .collect(),
        )
    });
    for (kind, db, key) in some.unwrap_or_default() {
        let records_key = waiters_key(kind, db, &key);
        let Ok((turn, own)) = look(table, kind, db, &key, &records_key) else { continue };
        let turn = turn.filter(|_| !suspects_none);
        let (late, first) = with(table, |waiters| {
            let Waiters { suspects, queues, .. } = waiters;
            let before = match turn.filter(|_| queues.contains_key(&records_key)) {
                Some(turn) => suspects.insert(records_key.clone(), turn),
                None => suspects.remove(&records_key),
            };
            (turn.filter(|_| before == turn), waiters.first(&records_key))
        })
        .unwrap_or_default();
        let Some((number, client)) = first else { continue };
        if put_right(table, sink, (kind, db, &key), &records_key, own) {
            continue;
        }
        let Some(late) = late else { continue };
        if number <= late.number {
            sink.retry(client);
        } else {
            // If a lock is held: at the next look.
            let _ = pass_over(table, kind, db, &key, late);
        }
    }
}

/// Runs those calls of this thread again that are marked as late, which removes the mark, and
/// brings its own record up to date. Returns whether the record was out of date or marked.
fn put_right(
    table: &Table,
    sink: &mut dyn MessageSink,
    (kind, db, key): (Kind, Db, &[u8]),
    records_key: &[u8],
    own: Option<Record>,
) -> bool {
    let number = own.map(|own| own.number);
    let late = with(table, |waiters| {
        number.inspect(|number| waiters.notice(records_key, *number));
        waiters.late(records_key)
    });
    // Calls that are run at once may have removed their marks by now.
    late.unwrap_or_default().into_iter().for_each(|client| sink.retry(client));
    let first = with(table, |waiters| waiters.first(records_key)).flatten();
    let is_right = number == first.map(|(number, _)| number);
    if !is_right {
        notify(table, vec![PendingNotification { kind, db, key: key.to_vec(), came: NO_TICKET }]);
    }
    !is_right || number.is_some_and(|number| number & LATE != 0)
}

/// A client's call has been run again and goes on waiting: where it was marked as late, it takes
/// its place again. A mark that the thread has not noticed stays: the message that tells of it has
/// the call run once more.
pub fn came(table: &Table, client: u64) {
    let came = with(table, |waiters| {
        let Waiters { queues, places, .. } = waiters;
        let place = places.get(&client)?;
        let is_late = |key: &&Vec<u8>| {
            let queue = queues.get(&waiters_key(place.kind, place.db, key));
            queue.is_some_and(|queue| queue.contains_key(&(place.ticket | LATE)))
        };
        let keys = place.keys.iter().filter(is_late);
        Some(
            keys.map(|key| PendingNotification {
                kind: place.kind,
                db: place.db,
                key: key.clone(),
                came: place.ticket,
            })
            .collect(),
        )
    });
    notify(table, came.flatten().unwrap_or_default());
}

/// Which seats the marking transaction tells; the others are told later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    All,
    Next,
    Nobody,
}

/// Marks a record as late if it is unchanged, and with it the records of threads of the same
/// process that are stopped. Tells their seats, and wakes the seat that is then first.
fn pass_over(table: &Table, kind: Kind, db: Db, key: &[u8], late: Record) -> Result<(), Stop> {
    let stopped = stopped_beside(table, &waiters_key(kind, db, key), &late)?;
    let mut mark = |records: &mut Records| {
        if !records.contains(&late) {
            return Changed { marked: Records::new(), is_done: false };
        }
        let is_meant = |record: &&mut Record| **record == late || stopped.contains(*record);
        let mark = |record: &mut Record| {
            record.number |= LATE;
            *record
        };
        Changed { marked: records.iter_mut().filter(is_meant).map(mark).collect(), is_done: true }
    };
    change_and_tell(table, (kind, db, key), &mut mark)
}

/// Removes the records of dead seats and wakes the seat that is then first, since the dead one may
/// have been the one that was woken. Marked seats are told again, since the dead one may have been
/// about to tell them.
pub(crate) fn reap(table: &Table, kind: Kind, db: Db, key: &[u8]) -> Result<(), Stop> {
    let marked =
        |records: &mut Records| records.iter().filter(|record| record.number & LATE != 0).copied().collect();
    change_and_tell(table, (kind, db, key), &mut |records| Changed {
        marked: marked(records),
        is_done: false,
    })
}

/// What was done with records: which seats are to be told that they are marked, and whether
/// something changed.
struct Changed {
    marked: Records,
    is_done: bool,
}

/// Changes the records of a key's waiters, tells the seats that are marked, and wakes the seat that
/// is then first. A seat whose inbox is locked is told later ([`tell_late`]), so this does not wait
/// for it. The first seat is told at once if possible.
fn change_and_tell(
    table: &Table,
    (kind, db, key): (Kind, Db, &[u8]),
    change: &mut dyn FnMut(&mut Records) -> Changed,
) -> Result<(), Stop> {
    let records_key = waiters_key(kind, db, key);
    let (mut marked, mut next) = (Records::new(), None);
    let mut mark = |told: Told| {
        run(table, &mut |txn| {
            record::edit(txn, &records_key, |records| {
                let changed = change(records);
                (marked, next) = (changed.marked, first_of(records));
                changed.is_done
            })?;
            next = to_wake(txn, next, kind, db, key)?;
            marked
                .iter()
                .filter(|_| told == Told::All)
                .for_each(|record| post_wake(txn, record, kind, db, key));
            next.iter()
                .filter(|_| told != Told::Nobody)
                .for_each(|record| post_wake(txn, record, kind, db, key));
            Ok(())
        })
    };
    let told = with_fewer_letters(&mut mark)?;
    let owed = |record| Untold { kind, db, key: key.to_vec(), record };
    let (next, marked) = (
        next.filter(|_| told == Told::Nobody).map(owed),
        marked.into_iter().filter(|_| told != Told::All).map(owed),
    );
    with(table, |waiters| {
        let untold = &mut waiters.untold;
        for one in marked {
            if !untold.contains(&one) {
                untold.push_back(one);
            }
        }
        // The seat that has something to take comes first.
        if let Some(next) = next {
            untold.retain(|one| *one != next);
            untold.push_front(next);
        }
    });
    Ok(())
}

/// Runs `mark` with all messages. If an inbox is locked or there is no room, it runs it with fewer.
/// Returns with which.
fn with_fewer_letters(mark: &mut dyn FnMut(Told) -> Result<(), Stop>) -> Result<Told, Stop> {
    for told in [Told::All, Told::Next] {
        match mark(told) {
            Err(Stop::Busy | Stop::Fault(Fault::Full(_))) => {}
            done => return done.map(|()| told),
        }
    }
    mark(Told::Nobody).map(|()| Told::Nobody)
}

/// Tells some of the seats that could not be told, each in a transaction of its own.
fn tell_late(table: &Table) {
    let untold = with(table, |waiters| {
        waiters.told_ms = now_ms();
        std::mem::take(&mut waiters.untold)
    });
    let untold = untold.unwrap_or_default();
    let left = tell_some(untold, |Untold { kind, db, key, record }| {
        let told = run(table, &mut |txn| {
            post_wake(txn, record, *kind, *db, key);
            Ok(())
        });
        told.is_ok()
    });
    with(table, |waiters| waiters.untold.extend(left));
}

/// Tells seats until a few inboxes turn out to be locked. Returns those that are left, beginning
/// with those to try next.
fn tell_some(mut untold: VecDeque<Untold>, mut tell: impl FnMut(&Untold) -> bool) -> VecDeque<Untold> {
    const SOME: usize = 500;
    const HELD_MAX: usize = 4;
    let mut held = SmallVec::<[u16; HELD_MAX]>::new();
    for _ in 0..untold.len().min(SOME) {
        if held.len() == HELD_MAX {
            break;
        }
        let Some(one) = untold.pop_front() else { break };
        let seat = one.record.seat;
        let was_held = held.contains(&seat);
        if was_held || !tell(&one) {
            untold.push_back(one);
            held.extend((!was_held).then_some(seat));
        }
    }
    untold
}

/// The records under a key of those threads of a record's process that are stopped by a signal, or
/// may be so in another PID namespace. They are told of it, and a thread that does run takes its
/// place again at once.
fn stopped_beside(table: &Table, records_key: &[u8], late: &Record) -> Result<Records, Stop> {
    let txn = table.begin(Mode::Read)?;
    let mut records = record::glimpse(&txn, records_key)?;
    drop(txn);
    let segment = table.segment();
    records.retain(|record| {
        let (seat, first) = (record.seat.into(), late.seat.into());
        !record.same_owner(late)
            && stopped::are_together(segment, seat, first)
            && stopped::state_of(segment, seat).may_be_still()
    });
    Ok(records)
}

fn distinct(mut keys: Vec<(Kind, Db, Vec<u8>)>) -> Vec<(Kind, Db, Vec<u8>)> {
    keys.sort_unstable_by(|one, other| (one.0 as u8, one.1, &one.2).cmp(&(other.0 as u8, other.1, &other.2)));
    keys.dedup();
    keys
}

/// Retries some of what failed earlier because another thread held a lock, since others wait for it. At most once in a turn, since that
/// thread may still hold it.
pub fn flush_pending(table: &Table) {
    const SOME: usize = 4;
    let pending = with(table, |waiters| {
        let pending = &mut waiters.pending;
        pending.drain(..pending.len().min(SOME)).collect()
    });
    notify(table, pending.unwrap_or_default());
    // Not at each turn: each try takes a while if a thread is still stopped. The clock may have
    // been set back.
    const BETWEEN_MS: u64 = 20;
    let is_time = |waiters: &mut Waiters| {
        !waiters.untold.is_empty() && now_ms().abs_diff(waiters.told_ms) >= BETWEEN_MS
    };
    if with(table, is_time).unwrap_or(false) {
        tell_late(table);
    }
}

fn notify(table: &Table, pending: Vec<PendingNotification>) {
    let left: Vec<_> =
        pending.into_iter().filter(|notification| advance(table, notification).is_err()).collect();
    with(table, |waiters| {
        let pending = &mut waiters.pending;
        for notification in left {
            // A notification that cannot be sent for a while is kept once.
            if !pending.contains(&notification) {
                pending.push(notification);
            }
        }
    });
}

/// Sets the seat's record to the first number among its clients for a key, and wakes the seat that
/// is then first, if the key holds something for it. A mark stays, unless it is of the call that
/// `came`.
fn advance(
    table: &Table,
    PendingNotification { kind, db, key, came }: &PendingNotification,
) -> Result<(), Stop> {
    let records_key = waiters_key(*kind, *db, key);
    run(table, &mut |txn| {
        let own = Record::own(txn.seat(), 0);
        let mut next = None;
        record::edit(txn, &records_key, |records| {
            let was = records.iter().find(|record| record.same_owner(&own)).map(|record| record.number);
            let number = with(table, |waiters| waiters.number(&records_key, was, *came)).flatten();
            records.retain(|record| !record.same_owner(&own));
            records.extend(number.map(|number| Record { number, ..own }));
            next = first_of(records);
            was != number
        })?;
        wake_next(txn, next, *kind, *db, key)
    })
}

/// The record that is to be served first.
fn first_of(records: &[Record]) -> Option<Record> {
    records.iter().min_by_key(|record| record.number).copied()
}

/// Wakes the first seat of a key, if the key holds something for it.
fn wake_next(txn: &Txn<'_>, next: Option<Record>, kind: Kind, db: Db, key: &[u8]) -> Result<(), Stop> {
    to_wake(txn, next, kind, db, key)?.iter().for_each(|next| post_wake(txn, next, kind, db, key));
    Ok(())
}

/// The first record, if the key holds something for it. It reads under the key's lock: a
/// transaction that is adding an element may have read the records as they were, and would wake
/// another seat.
fn to_wake(
    txn: &Txn<'_>,
    next: Option<Record>,
    kind: Kind,
    db: Db,
    key: &[u8],
) -> Result<Option<Record>, Stop> {
    if kind == Kind::Stream || next.is_none() {
        return Ok(None);
    }
    let something = match txn.peek(db, key) {
        Ok(found) => found.is_some_and(|found| found.kind == kind),
        // Values in a tier are strings.
        Err(Stop::Cold) => false,
        Err(stop) => return Err(stop),
    };
    Ok(next.filter(|_| something))
}

fn post_wake(commit: &dyn CommitView, record: &Record, kind: Kind, db: Db, key: &[u8]) {
    Message::Wake { kind, db, key }.write(|parts| commit.post(record.seat.into(), record.life, parts));
}

/// Whether a key holds a value of a kind.
fn holds(txn: &Txn<'_>, kind: Kind, db: Db, key: &[u8]) -> Result<bool, Stop> {
    let found = txn.glimpse(db, key)?;
    Ok(found.is_some_and(|found| {
        found.kind == kind && found.expiry_ms.is_none_or(|expiry_ms| expiry_ms > txn.now_ms())
    }))
}

/// Wakes the seats that wait for a key to hold one of these kinds, with a transaction that changes
/// the key.
///
/// # Errors
/// A fault.
pub(crate) fn wake(commit: &dyn CommitView, kinds: &[Kind], db: Db, key: &[u8]) -> Result<(), Stop> {
    for kind in kinds {
        let records = record::glimpse(commit, &waiters_key(*kind, db, key))?;
        let first = records.iter().map(|record| record.number).min();
        for record in records.iter().filter(|record| *kind == Kind::Stream || Some(record.number) == first) {
            post_wake(commit, record, *kind, db, key);
        }
    }
    Ok(())
}

/// A Wake has come: the thread's record is marked, or is first, or an element has come and gone.
/// Runs the call of the thread's first client, or of all that wait for a stream, or hands the
/// wake-up on to the seat that is first.
pub(crate) fn woken(table: &Table, sink: &mut dyn MessageSink, kind: Kind, db: Db, key: &[u8]) {
    let records_key = waiters_key(kind, db, key);
    if kind == Kind::Stream {
        for client in with(table, |waiters| waiters.all(&records_key)).unwrap_or_default() {
            sink.retry(client);
        }
        return;
    }
    let handed_on = |key: &[u8]| {
        notify(table, vec![PendingNotification { kind, db, key: key.to_vec(), came: NO_TICKET }])
    };
    let Ok((turn, own)) = look(table, kind, db, key, &records_key) else { return handed_on(key) };
    // The transaction that changes a record wakes the seat that is then first.
    if put_right(table, sink, (kind, db, key), &records_key, own) {
        return;
    }
    let Some(turn) = turn else { return };
    match with(table, |waiters| waiters.first(&records_key)).flatten() {
        Some((number, client)) if number <= turn.number => sink.retry(client),
        // Another seat is first, and gets a message.
        _ => handed_on(key),
    }
}

/// The first record of a key's waiters, if the key holds something for them; and the thread's own
/// record.
fn look(
    table: &Table,
    kind: Kind,
    db: Db,
    key: &[u8],
    records_key: &[u8],
) -> Result<(Option<Record>, Option<Record>), Stop> {
    let txn = table.begin(Mode::Read)?;
    let records = record::glimpse(&txn, records_key)?;
    let turn = if holds(&txn, kind, db, key)? { first_of(&records) } else { None };
    let own = Record::own(txn.seat(), 0);
    Ok((turn, records.into_iter().find(|record| record.same_owner(&own))))
}

/// Every key of a database (none: of any) has changed: clients that read streams try again, others
/// where they are first.
pub(crate) fn woken_all(table: &Table, sink: &mut dyn MessageSink, db: Option<Db>) {
    let (mut readers, keys) = with(table, |waiters| {
        let (mut readers, mut keys) = (Vec::new(), Vec::new());
        for (client, place) in waiters.places.iter().filter(|(_, place)| db.is_none_or(|db| place.db == db)) {
            match place.kind {
                Kind::Stream => readers.push((place.ticket, *client)),
                kind => keys.extend(place.keys.iter().map(|key| (kind, place.db, key.clone()))),
            }
        }
        (readers, distinct(keys))
    })
    .unwrap_or_default();
    readers.sort_unstable();
    readers.into_iter().for_each(|(_, client)| sink.retry(client));
    keys.into_iter().for_each(|(kind, db, key)| woken(table, sink, kind, db, &key));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn untold(seats: impl IntoIterator<Item = u16>) -> VecDeque<Untold> {
        let record = |seat| Record { seat, life: 1, number: 1 | LATE };
        seats
            .into_iter()
            .map(|seat| Untold { kind: Kind::List, db: 0, key: b"list".to_vec(), record: record(seat) })
            .collect()
    }

    fn seats(untold: &VecDeque<Untold>) -> Vec<u16> {
        untold.iter().map(|one| one.record.seat).collect()
    }

    #[test]
    fn only_a_few_locked_inboxes_are_tried_at_once_and_the_others_come_first_next_time() {
        let mut tried = Vec::new();
        let left = tell_some(untold((0..6).flat_map(|seat| [seat, seat])), |one| {
            tried.push(one.record.seat);
            false
        });
        assert_eq!(tried, [0, 1, 2, 3], "each inbox once, and not all of them");
        assert_eq!(seats(&left), [3, 4, 4, 5, 5, 0, 0, 1, 1, 2, 2, 3]);
        let left = tell_some(left, |one| one.record.seat > 3);
        assert_eq!(seats(&left), [2, 3, 3, 0, 0, 1, 1, 2]);
    }

    #[test]
    fn as_many_are_told_as_can_be_up_to_a_bound() {
        let left = tell_some(untold(0..1_000), |one| one.record.seat != 7);
        assert_eq!(left.len(), 501);
        assert_eq!(seats(&tell_some(left, |_| true)), [7]);
    }

    #[test]
    fn where_a_letter_cannot_go_it_is_marked_with_fewer() {
        let full = || Stop::Fault(Fault::Full("no room".to_owned()));
        let busy = || Stop::Busy;
        for trouble in [&full as &dyn Fn() -> Stop, &busy] {
            for goes in [Told::All, Told::Next, Told::Nobody] {
                let mut mark = |told: Told| if told == goes { Ok(()) } else { Err(trouble()) };
                assert!(matches!(with_fewer_letters(&mut mark), Ok(told) if told == goes));
            }
        }
        let mut tries = 0;
        let damaged = with_fewer_letters(&mut |_| {
            tries += 1;
            Err(Stop::Fault(Fault::Damaged { what: "a record" }))
        });
        assert!(damaged.is_err() && tries == 1);
    }
}
