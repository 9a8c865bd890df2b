//! Those who wait for keys, and how they are served in the order in which they came, across processes.
//!
//! A call that finds nothing draws a *ticket*, and the transaction that found nothing puts its seat down for each of its keys
//! (`record.rs`), with the first of the tickets that the seat's clients hold for that key; the clients themselves are known to their thread
//! only. So ten thousand clients of one thread that wait for one key are one record.
//!
//! ```text
//!   LPUSH k   --commit-->  letter Wake(k) to the seat with the first ticket
//!   that seat              runs its first client's call as a transaction: it pops, or finds nothing and goes on waiting
//!   served                 its record gets the seat's next ticket; is there still something in k? -> Wake(k) to whose turn it is now
//! ```
//!
//! An element is never handed over, it would die with who it was handed to. A seat that dies with a Wake unread is swept away, and the
//! sweeper wakes the next ([`crate::sweep`]). Streams are read, not emptied: all seats that wait are woken, and all their clients try.
//!
//! Between a push and the run of who it has woken others may come. So whoever may wait leaves what is there to those with earlier records
//! ([`is_for_others`]) and waits behind them.
//!
//! **Invariant:** when a record goes, or its number grows, while its key holds something, the same transaction wakes whose turn it is then (or,
//! where the dead are dropped, the sweep does; where his inbox is held, who has marked does it later): who has waited because of that record is
//! not forgotten.
//!
//! A first one who does not come, because his process is stopped, keeps the others up for one to two seconds, once: then one of them marks him as
//! [`LATE`], behind all who wait and all who come, until he is there again and takes his own place; and with him those threads of his process of
//! which the system says that they are stopped, or of which it says nothing. A mark is no order: who is marked by mistake has lost a turn, and nothing
//! lies there for which nobody is woken, since the transaction that marks wakes whose turn it is then. In a pause nobody comes, nor has anybody had the
//! time just behind one, so what was suspected before is forgotten.
//!
//! ```text
//!   marked    record: TICKET | LATE, and a letter Wake to its thread             by the transaction of who waited for it
//!   noticed   the thread puts the client behind its own others, too, and says to its call that it should look     any letter of the key, a tick
//!   came      the call has been run again: record and client are at their place  by a transaction of the thread
//! ```
//!
//! The letter is what brings a thread back that does nothing but wait for letters: without it nobody would have one for it as long as others wait. Being
//! there means that the call has been run again ([`came`]): a thread may do other things, look after its records among them, and never come back to a
//! call that it has begun. So the mark is of one client's place and stays until that client's call comes; the record of a thread tells the first of its
//! clients who are not late, and only if all of them are, a late one. What could not be written because somebody was in the way is a *debt*, which keeps
//! the thread from sleeping long until it is paid.

use hashbrown::HashMap;
use polder_base::Fault;
use polder_base::time::now_ms;
use polder_shm::layout::{header, interest};
use polder_table::change::take_interest;
use polder_table::{Db, Mode, Stop, Table, Txn};
use polder_values::Kind;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::ears::{self, Hearer};
use crate::letter::Letter;
use crate::record::{self, Record, Records, waiters_key};
use crate::stopped;

/// How long it is waited for somebody who holds records and may be stopped; it is made good later.
const PATIENCE: Duration = Duration::from_micros(100);
/// How often a transaction of ours is tried again at once.
const ATTEMPTS: u32 = 100;
/// About how long somebody is suspected before he is late: the time between two ticks.
const SUSPECTED_MS: u64 = 1_000;
/// The bit in the number of a record whose owner did not come when it was his turn. There are fewer tickets.
const LATE: u64 = 1 << 63;

/// One client's place in the queues of some keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub ticket: u64,
    pub kind: Kind,
    pub db: Db,
    pub keys: Vec<Vec<u8>>,
}

/// A record that does not say yet what it should.
#[derive(PartialEq, Eq)]
struct Debt {
    kind: Kind,
    db: Db,
    key: Vec<u8>,
    /// The ticket of a call that is there again, whose mark goes; [`NOBODY`]'s without one.
    came: u64,
}

/// Who was marked, or is to be served next, and could not be told, since somebody who is stopped holds his inbox: it may have been himself.
#[derive(PartialEq, Eq)]
struct Untold {
    kind: Kind,
    db: Db,
    key: Vec<u8>,
    record: Record,
}

/// No ticket.
const NOBODY: u64 = 0;

/// The clients of one thread that wait.
#[derive(Default)]
pub struct Waiters {
    /// The clients by their numbers, as a record has them: a ticket, and [`LATE`] for whoever was seen to be marked. By the key of the records.
    queues: HashMap<Vec<u8>, BTreeMap<u64, u64>>,
    places: HashMap<u64, Place>,
    debts: Vec<Debt>,
    untold: VecDeque<Untold>,
    /// When it was last tried to tell those.
    told_ms: u64,
    /// See [`look_again`]: up to which ticket it has come, and who was to be served first where it found something, by the key of the records.
    looked_at: u64,
    suspects: HashMap<Vec<u8>, Record>,
}

impl Waiters {
    fn first(&self, records_key: &[u8]) -> Option<(u64, u64)> {
        self.queues.get(records_key)?.first_key_value().map(|(number, client)| (*number, *client))
    }

    /// Notices what a record of ours says: it may have been marked as late.
    fn notice(&mut self, records_key: &[u8], number: u64) {
        if let Some(queue) = self.queues.get_mut(records_key)
            && let Some(client) = queue.remove(&(number & !LATE))
        {
            queue.insert(number, client);
        }
    }

    /// The clients who are late.
    fn late(&self, records_key: &[u8]) -> Vec<u64> {
        self.queues.get(records_key).map_or(Vec::new(), |queue| queue.range(LATE..).map(|(_, client)| *client).collect())
    }

    /// What a record of ours that says `was` is to say, when the holder of the ticket `came` is there again.
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

    /// Whether others wait for what could not be put right yet.
    pub(crate) fn owe(&self) -> bool {
        !self.debts.is_empty() || !self.untold.is_empty()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && !self.owe()
    }
}

/// Draws a place in all queues behind everybody who has one.
pub fn draw_ticket(table: &Table) -> u64 {
    table.segment().word(header::TICKETS).fetch_add(1, Ordering::Relaxed) + 1
}

/// Puts the calling thread's seat down for a place's keys, as part of the transaction that has found nothing there for it and holds the keys'
/// locks. [`join`] follows when it has committed. Its inbox is open.
///
/// # Errors
/// As [`Txn::write`]; [`Stop::Retry`] when those are gone to whom something was left.
pub fn enlist(txn: &Txn<'_>, place: &Place) -> Result<(), Stop> {
    // H1: whoever changes one of the keys, or a whole database, locks it after us and sees this.
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
                    // Another client of ours is marked, and this one is there.
                    ears::with(txn.table(), |ears| ears.waiters.notice(&records_key, record.number));
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

/// Whether somebody has waited for a key to hold a value of a kind who came before the holder of `ticket`: then what it holds is his. The
/// transaction holds the key's lock. `keeps_thread`: those of this thread do not count, since none of them is going on before the asker has.
///
/// # Errors
/// A fault.
pub fn is_for_others(txn: &Txn<'_>, kind: Kind, (db, key): (Db, &[u8]), ticket: u64, keeps_thread: bool) -> Result<bool, Stop> {
    if txn.interest() & interest::WAITERS == 0 {
        return Ok(false);
    }
    let own = Record::own(txn.seat(), ticket);
    let counts = |record: &Record| record.number < ticket.min(LATE) && !(keeps_thread && record.same_owner(&own));
    Ok(record::glimpse(txn, &waiters_key(kind, db, key))?.iter().any(counts))
}

/// Notes that a client of this thread waits at a place.
pub fn join(table: &Table, client: u64, place: Place) {
    ears::with(table, |ears| {
        for key in &place.keys {
            ears.waiters.queues.entry(waiters_key(place.kind, place.db, key)).or_default().insert(place.ticket, client);
        }
        ears.waiters.places.insert(client, place);
    });
}

/// Ends a client's waiting, for whatever reason, and lets the next one have what there is.
pub fn leave(table: &Table, client: u64) {
    let Some(place) = ears::with(table, |ears| ears.waiters.take(client)).flatten() else { return };
    settle(table, place.keys.into_iter().map(|key| Debt { kind: place.kind, db: place.db, key, came: NOBODY }).collect());
}

/// Looks whether something lies in a key that clients of ours wait for, and still the same one is to be served first as a while ago: then he
/// was woken and does not take it, because his process is stopped, and goes to the end. (That something lies there twice proves nothing: it may
/// come and go all the time, in good order.) And whether our own records say what they should, since others may have marked them.
pub(crate) fn look_again(table: &Table, hearer: &mut dyn Hearer) {
    const KEYS_MAX: usize = 500;
    tell_late(table);
    // Whoever waits for the end of a pause is not late, nor has he had the time since one that is just over.
    let suspects_nobody = crate::ask::was_paused(table, SUSPECTED_MS);
    let some = ears::with(table, |ears| {
        let waiters = &mut ears.waiters;
        if suspects_nobody {
            waiters.suspects.clear();
        }
        let from = waiters.looked_at;
        let mut places: Vec<&Place> = waiters.places.values().filter(|place| place.kind != Kind::Stream && place.ticket > from).collect();
        places.sort_unstable_by_key(|place| place.ticket);
        places.truncate(KEYS_MAX);
        waiters.looked_at = if places.len() < KEYS_MAX { 0 } else { places.last().map_or(0, |place| place.ticket) };
        distinct(places.iter().flat_map(|place| place.keys.iter().map(|key| (place.kind, place.db, key.clone()))).collect())
    });
    for (kind, db, key) in some.unwrap_or_default() {
        let records_key = waiters_key(kind, db, &key);
        let Ok((turn, own)) = look(table, kind, db, &key, &records_key) else { continue };
        let turn = turn.filter(|_| !suspects_nobody);
        let (late, first) = ears::with(table, |ears| {
            let Waiters { suspects, queues, .. } = &mut ears.waiters;
            let before = match turn.filter(|_| queues.contains_key(&records_key)) {
                Some(turn) => suspects.insert(records_key.clone(), turn),
                None => suspects.remove(&records_key),
            };
            (turn.filter(|_| before == turn), ears.waiters.first(&records_key))
        })
        .unwrap_or_default();
        let Some((number, client)) = first else { continue };
        if put_right(table, hearer, (kind, db, &key), &records_key, own) {
            continue;
        }
        let Some(late) = late else { continue };
        if number <= late.number {
            hearer.retry(client);
        } else {
            // Where somebody is in the way: next time.
            let _ = pass_over(table, kind, db, &key, late);
        }
    }
}

/// Says to those calls of ours that are marked as late that they should look, which is what takes the mark away; and has our own record say what it
/// should. Answers whether it did not, or was marked.
fn put_right(table: &Table, hearer: &mut dyn Hearer, (kind, db, key): (Kind, Db, &[u8]), records_key: &[u8], own: Option<Record>) -> bool {
    let number = own.map(|own| own.number);
    let late = ears::with(table, |ears| {
        number.inspect(|number| ears.waiters.notice(records_key, *number));
        ears.waiters.late(records_key)
    });
    // Those that are run at once may have come.
    late.unwrap_or_default().into_iter().for_each(|client| hearer.retry(client));
    let first = ears::with(table, |ears| ears.waiters.first(records_key)).flatten();
    let is_right = number == first.map(|(number, _)| number);
    if !is_right {
        settle(table, vec![Debt { kind, db, key: key.to_vec(), came: NOBODY }]);
    }
    !is_right || number.is_some_and(|number| number & LATE != 0)
}

/// A client's call has been run again, and goes on waiting: where it was marked as late, it takes its place again. A mark that the thread has not noticed
/// stays: the letter that tells of it has the call run once more.
pub fn came(table: &Table, client: u64) {
    let came = ears::with(table, |ears| {
        let Waiters { queues, places, .. } = &mut ears.waiters;
        let place = places.get(&client)?;
        let is_late = |key: &&Vec<u8>| {
            let queue = queues.get(&waiters_key(place.kind, place.db, key));
            queue.is_some_and(|queue| queue.contains_key(&(place.ticket | LATE)))
        };
        let keys = place.keys.iter().filter(is_late);
        Some(keys.map(|key| Debt { kind: place.kind, db: place.db, key: key.clone(), came: place.ticket }).collect())
    });
    settle(table, came.flatten().unwrap_or_default());
}

/// Who is told by the transaction that marks; the others are told later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    All,
    Next,
    Nobody,
}

/// Marks a record as late, as long as it is what it was, with those of threads that are stopped beside its own, tells them so, and wakes whose turn it is
/// then.
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

/// Takes the records of the dead away, and wakes whose turn it is then: a dead one may have been woken. Those who are marked are told once more: the dead
/// one may have owed them that.
pub(crate) fn bury(table: &Table, kind: Kind, db: Db, key: &[u8]) -> Result<(), Stop> {
    let marked = |records: &mut Records| records.iter().filter(|record| record.number & LATE != 0).copied().collect();
    change_and_tell(table, (kind, db, key), &mut |records| Changed { marked: marked(records), is_done: false })
}

/// What has been done with records: who is to be told that he is marked, and whether something has changed.
struct Changed {
    marked: Records,
    is_done: bool,
}

/// Changes the records of those who wait for a key, tells those who are marked, and wakes whose turn it is then. Where one of them cannot be told, because
/// somebody holds his inbox, they are told later ([`tell_late`]), and nobody waits for that; he whose turn it is is told at once if that is possible.
fn change_and_tell(table: &Table, (kind, db, key): (Kind, Db, &[u8]), change: &mut dyn FnMut(&mut Records) -> Changed) -> Result<(), Stop> {
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
            marked.iter().filter(|_| told == Told::All).for_each(|record| post_wake(txn, record, kind, db, key));
            next.iter().filter(|_| told != Told::Nobody).for_each(|record| post_wake(txn, record, kind, db, key));
            Ok(())
        })
    };
    let told = with_fewer_letters(&mut mark)?;
    let owed = |record| Untold { kind, db, key: key.to_vec(), record };
    let (next, marked) = (next.filter(|_| told == Told::Nobody).map(owed), marked.into_iter().filter(|_| told != Told::All).map(owed));
    ears::with(table, |ears| {
        let untold = &mut ears.waiters.untold;
        for one in marked {
            if !untold.contains(&one) {
                untold.push_back(one);
            }
        }
        // He for whom something lies there comes first.
        if let Some(next) = next {
            untold.retain(|one| *one != next);
            untold.push_front(next);
        }
    });
    Ok(())
}

/// Has it done with all letters, or, where somebody holds an inbox or there is no room, with fewer; answers with which.
fn with_fewer_letters(mark: &mut dyn FnMut(Told) -> Result<(), Stop>) -> Result<Told, Stop> {
    for told in [Told::All, Told::Next] {
        match mark(told) {
            Err(Stop::Busy | Stop::Fault(Fault::Full(_))) => {}
            done => return done.map(|()| told),
        }
    }
    mark(Told::Nobody).map(|()| Told::Nobody)
}

/// Tells some of those who could not be told, each in a transaction of his own.
fn tell_late(table: &Table) {
    let untold = ears::with(table, |ears| {
        ears.waiters.told_ms = now_ms();
        std::mem::take(&mut ears.waiters.untold)
    });
    let untold = untold.unwrap_or_default();
    let left = tell_some(untold, |Untold { kind, db, key, record }| {
        let told = run(table, &mut |txn| {
            post_wake(txn, record, *kind, *db, key);
            Ok(())
        });
        told.is_ok()
    });
    ears::with(table, |ears| ears.waiters.untold.extend(left));
}

/// Tells as many as it goes without waiting for somebody often; answers who is left, first those with whom it goes on the next time.
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

/// The records under a key of those threads of a record's process that stand still by a signal, or may do so in another PID namespace: they are told,
/// and who runs takes his place at once.
fn stopped_beside(table: &Table, records_key: &[u8], late: &Record) -> Result<Records, Stop> {
    let txn = table.begin(Mode::Read)?;
    let mut records = record::glimpse(&txn, records_key)?;
    drop(txn);
    let segment = table.segment();
    records.retain(|record| {
        let (seat, first) = (record.seat.into(), late.seat.into());
        !record.same_owner(late) && stopped::are_together(segment, seat, first) && stopped::state_of(segment, seat).may_be_still()
    });
    Ok(records)
}

fn distinct(mut keys: Vec<(Kind, Db, Vec<u8>)>) -> Vec<(Kind, Db, Vec<u8>)> {
    keys.sort_unstable_by(|one, other| (one.0 as u8, one.1, &one.2).cmp(&(other.0 as u8, other.1, &other.2)));
    keys.dedup();
    keys
}

/// Makes some of that good which could not be put right earlier: others wait for it.
pub(crate) fn settle_debts(table: &Table) {
    const SOME: usize = 4;
    let debts = ears::with(table, |ears| {
        let debts = &mut ears.waiters.debts;
        debts.drain(..debts.len().min(SOME)).collect()
    });
    settle(table, debts.unwrap_or_default());
    // Not at each turn: each try takes a while where somebody is still stopped. The clock may have been set back.
    const BETWEEN_MS: u64 = 20;
    let is_time = |waiters: &Waiters| !waiters.untold.is_empty() && now_ms().abs_diff(waiters.told_ms) >= BETWEEN_MS;
    if ears::with(table, |ears| is_time(&ears.waiters)).unwrap_or(false) {
        tell_late(table);
    }
}

fn settle(table: &Table, owed: Vec<Debt>) {
    let left: Vec<_> = owed.into_iter().filter(|debt| advance(table, debt).is_err()).collect();
    ears::with(table, |ears| {
        let debts = &mut ears.waiters.debts;
        for debt in left {
            // One that nobody can pay for a while is owed once.
            if !debts.contains(&debt) {
                debts.push(debt);
            }
        }
    });
}

/// Runs a transaction of ours to its end, if nobody holds it up.
pub(crate) fn run(table: &Table, work: &mut dyn FnMut(&Txn<'_>) -> Result<(), Stop>) -> Result<(), Stop> {
    let txn = table.begin(Mode::Write)?;
    txn.limit_patience(PATIENCE);
    for _ in 0..ATTEMPTS {
        match work(&txn).and_then(|()| txn.commit()) {
            Err(Stop::Retry) => txn.abort(),
            outcome => return outcome,
        }
    }
    Err(Stop::Busy)
}

/// Makes the seat's record tell the first number among its clients for a key, and wakes whose turn it is, if there is something for him. A mark stays,
/// unless it is of the call that `came`.
fn advance(table: &Table, Debt { kind, db, key, came }: &Debt) -> Result<(), Stop> {
    let records_key = waiters_key(*kind, *db, key);
    run(table, &mut |txn| {
        let own = Record::own(txn.seat(), 0);
        let mut next = None;
        record::edit(txn, &records_key, |records| {
            let was = records.iter().find(|record| record.same_owner(&own)).map(|record| record.number);
            let number = ears::with(table, |ears| ears.waiters.number(&records_key, was, *came)).flatten();
            records.retain(|record| !record.same_owner(&own));
            records.extend(number.map(|number| Record { number, ..own }));
            next = first_of(records);
            was != number
        })?;
        wake_next(txn, next, *kind, *db, key)
    })
}

/// The record of who is to be served first.
fn first_of(records: &[Record]) -> Option<Record> {
    records.iter().min_by_key(|record| record.number).copied()
}

/// Wakes whose turn it is at a key, if there is something for him.
fn wake_next(txn: &Txn<'_>, next: Option<Record>, kind: Kind, db: Db, key: &[u8]) -> Result<(), Stop> {
    to_wake(txn, next, kind, db, key)?.iter().for_each(|next| post_wake(txn, next, kind, db, key));
    Ok(())
}

/// Whose turn it is, if there is something for him. With the key's lock: who is putting something into it may have looked at the records as they were, and
/// wakes another one.
fn to_wake(txn: &Txn<'_>, next: Option<Record>, kind: Kind, db: Db, key: &[u8]) -> Result<Option<Record>, Stop> {
    let something = kind != Kind::Stream && next.is_some() && txn.peek(db, key)?.is_some_and(|found| found.kind == kind);
    Ok(next.filter(|_| something))
}

fn post_wake(txn: &Txn<'_>, record: &Record, kind: Kind, db: Db, key: &[u8]) {
    Letter::Wake { kind, db, key }.write(|parts| txn.post(record.seat.into(), record.life, parts));
}

/// Whether a key holds a value of a kind.
fn holds(txn: &Txn<'_>, kind: Kind, db: Db, key: &[u8]) -> Result<bool, Stop> {
    let found = txn.glimpse(db, key)?;
    Ok(found.is_some_and(|found| found.kind == kind && found.expiry_ms.is_none_or(|expiry_ms| expiry_ms > txn.now_ms())))
}

/// Wakes those who wait for a key to hold one of these kinds, with a transaction that changes it.
///
/// # Errors
/// A fault.
pub(crate) fn wake(txn: &Txn<'_>, kinds: &[Kind], db: Db, key: &[u8]) -> Result<(), Stop> {
    for kind in kinds {
        let records = record::glimpse(txn, &waiters_key(*kind, db, key))?;
        let first = records.iter().map(|record| record.number).min();
        for record in records.iter().filter(|record| *kind == Kind::Stream || Some(record.number) == first) {
            post_wake(txn, record, *kind, db, key);
        }
    }
    Ok(())
}

/// A Wake has come: the thread's record is marked, or it is its turn, or something has come and gone. Serves the thread's first client, or all who wait for a
/// stream, or hands it on to whose turn it is.
pub(crate) fn woken(table: &Table, hearer: &mut dyn Hearer, kind: Kind, db: Db, key: &[u8]) {
    let records_key = waiters_key(kind, db, key);
    if kind == Kind::Stream {
        for client in ears::with(table, |ears| ears.waiters.all(&records_key)).unwrap_or_default() {
            hearer.retry(client);
        }
        return;
    }
    let handed_on = |key: &[u8]| settle(table, vec![Debt { kind, db, key: key.to_vec(), came: NOBODY }]);
    let Ok((turn, own)) = look(table, kind, db, key, &records_key) else { return handed_on(key) };
    // Whoever changes a record wakes whose turn it is then.
    if put_right(table, hearer, (kind, db, key), &records_key, own) {
        return;
    }
    let Some(turn) = turn else { return };
    match ears::with(table, |ears| ears.waiters.first(&records_key)).flatten() {
        Some((number, client)) if number <= turn.number => hearer.retry(client),
        // It is another one's, and a letter goes there.
        _ => handed_on(key),
    }
}

/// The first record of those who wait for a key, if that holds something for them; and the thread's own.
fn look(table: &Table, kind: Kind, db: Db, key: &[u8], records_key: &[u8]) -> Result<(Option<Record>, Option<Record>), Stop> {
    let txn = table.begin(Mode::Read)?;
    let records = record::glimpse(&txn, records_key)?;
    let turn = if holds(&txn, kind, db, key)? { first_of(&records) } else { None };
    let nobody = Record::own(txn.seat(), 0);
    Ok((turn, records.into_iter().find(|record| record.same_owner(&nobody))))
}

/// Every key of a database (none: of any) has changed: readers of streams try again, others where it is their turn.
pub(crate) fn woken_all(table: &Table, hearer: &mut dyn Hearer, db: Option<Db>) {
    let (mut readers, keys) = ears::with(table, |ears| {
        let (mut readers, mut keys) = (Vec::new(), Vec::new());
        for (client, place) in ears.waiters.places.iter().filter(|(_, place)| db.is_none_or(|db| place.db == db)) {
            match place.kind {
                Kind::Stream => readers.push((place.ticket, *client)),
                kind => keys.extend(place.keys.iter().map(|key| (kind, place.db, key.clone()))),
            }
        }
        (readers, distinct(keys))
    })
    .unwrap_or_default();
    readers.sort_unstable();
    readers.into_iter().for_each(|(_, client)| hearer.retry(client));
    keys.into_iter().for_each(|(kind, db, key)| woken(table, hearer, kind, db, &key));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn untold(seats: impl IntoIterator<Item = u16>) -> VecDeque<Untold> {
        let record = |seat| Record { seat, life: 1, number: 1 | LATE };
        seats.into_iter().map(|seat| Untold { kind: Kind::List, db: 0, key: b"list".to_vec(), record: record(seat) }).collect()
    }

    fn seats(untold: &VecDeque<Untold>) -> Vec<u16> {
        untold.iter().map(|one| one.record.seat).collect()
    }

    #[test]
    fn few_are_tried_in_vain_at_once_and_the_others_come_first_the_next_time() {
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
