//! Asking the tier of a memory for values, and its replies.
//!
//! ```text
//!   asking thread    a call stops at stubs: their names are wanted -> one message to each thread of the tier that has some of them; the call is parked
//!   tier's thread    reads the copies, puts the values back -> one message, or a wakeup for a thread that only sleeps meanwhile
//!   asking thread    runs the call again from its beginning
//! ```
//!
//! Messages may be lost: the tier's process dies, an inbox is full. So the call is run again from time to time ([`LOOK_MS`]), and what is still wanted is asked
//! for again after [`AGAIN_MS`]. What was asked is kept here and not in a session, which may be put back to an earlier state (EXEC).

use hashbrown::HashMap;
use polder_base::time::now_ms;
use polder_shm::layout::tier::THREADS_MAX;
use polder_table::{Cold, CommitView, Db, Name, Part, Table, Told};
use smallvec::SmallVec;

use crate::listener::{Request, Thread};
use crate::message::Message;
use crate::per_thread::{self, PerThread};
use crate::post;
use crate::stopped;

/// The pause after which it is looked whether values do not come that calls wait for.
pub const LOOK_MS: u64 = 20;
/// After how long what has not come is asked for again.
pub const AGAIN_MS: u64 = 250;
/// The patience of a call where no process has the tier, or that process is stopped.
const PATIENCE_MS: u64 = 1000;
/// The time after which a call gives up whose value does not come though a process has the tier: that process may have failed, which it tells
/// those that read their inboxes.
const GIVE_UP_MS: u64 = 10_000;
/// The time after which a value counts as wanted anew.
const ANEW_MS: u64 = 1_000;
/// The time for which the reason is kept why a value did not come.
const KEPT_MS: u64 = 1000;
/// The pause between two looks at all that was asked for.
const TIDY_MS: u64 = 100;
/// The number of times that a value comes within [`ANEW_MS`] before it is to stay.
const STAY_TIMES: u32 = 8;
/// Values of which is known how often they have come, before old ones are forgotten.
const CAME_MAX: usize = 4096;
/// Bytes of what is wanted in a message: database, name, and its part with [`STAYS`].
const COLD_BYTES: usize = 13;
const STAYS: u8 = 0x80;
/// Bytes before a key in a message: what was wanted, its expiry, its length.
const KEY_HEAD: usize = COLD_BYTES + 12;
/// The expiry of a key without one.
const NEVER: u64 = u64::MAX;

/// The reason why values did not come, as a number in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Failure {
    /// The store does not have the copy.
    Missing = 1,
    /// The store could not read it, or it is another key's.
    Damaged = 2,
    /// There is no memory for the value.
    Full = 3,
}

impl Failure {
    fn from_stored(stored: u8) -> Option<Failure> {
        [Failure::Missing, Failure::Damaged, Failure::Full]
            .into_iter()
            .find(|failure| *failure as u8 == stored)
    }
}

/// The reason why a call cannot wait for a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    Failed(Failure, Cold),
    /// It has not come for long, though a process has the tier.
    Late(Cold),
    /// No process has the tier.
    NoProcess,
    /// This process has it, and is stopped.
    Stopped(u32),
}

/// A value or key that was asked for. Times are in milliseconds since the Unix epoch.
#[derive(Default)]
struct Flight {
    /// The first time it was wanted.
    first: u64,
    /// The last time.
    last: u64,
    /// The last time it was asked for; 0: not yet.
    sent: u64,
    /// The stops that wait for it.
    stops: SmallVec<[u64; 2]>,
}

/// The values and keys that one thread has asked for.
#[derive(Default)]
struct Asks {
    /// Not sent yet.
    wanted: Vec<Cold>,
    flying: HashMap<Cold, Flight>,
    failed: HashMap<Cold, (Failure, u64)>,
    /// The number of times that each has come lately, and the last time.
    came: HashMap<Cold, (u32, u64)>,
    /// The number of values that each stop still waits for.
    waiting: HashMap<u64, usize>,
    /// Stops that wait for nothing more.
    ready: Vec<u64>,
    /// The last stop that no connection has taken for its own.
    stop: Option<u64>,
    /// The number of the last stop.
    number: u64,
    /// The last time that old ones were forgotten.
    tidied: u64,
}

impl Asks {
    /// Notes that a stop waits for one more.
    fn want(&mut self, cold: Cold, stop: u64, now: u64) -> &mut Flight {
        let flight = self.flying.entry(cold).or_default();
        if now > flight.last + ANEW_MS {
            flight.first = now;
        }
        flight.last = now;
        flight.stops.push(stop);
        *self.waiting.entry(stop).or_default() += 1;
        if now >= flight.sent + AGAIN_MS {
            self.wanted.push(cold);
        }
        flight
    }

    /// Has what waits for one go on.
    fn land(&mut self, cold: &Cold) {
        let Some(flight) = self.flying.remove(cold) else { return };
        for stop in flight.stops {
            if let Some(left) = self.waiting.get_mut(&stop) {
                *left -= 1;
                if *left == 0 {
                    self.waiting.remove(&stop);
                    self.ready.push(stop);
                }
            }
        }
    }

    /// Notes that one has come.
    fn note_came(&mut self, cold: Cold, now: u64) {
        let (times, last) = self.came.entry(cold).or_default();
        (*times, *last) = (if now > *last + ANEW_MS { 1 } else { *times + 1 }, now);
    }

    /// Forgets what nothing asks for any more.
    fn tidy(&mut self, now: u64) {
        if now < self.tidied + TIDY_MS {
            return;
        }
        self.tidied = now;
        self.failed.retain(|_, (_, at_ms)| now < *at_ms + KEPT_MS);
        if self.came.len() > CAME_MAX {
            self.came.retain(|_, (_, last)| now <= *last + ANEW_MS);
        }
        let is_old = |(_, flight): &(&Cold, &Flight)| now >= flight.last + 4 * PATIENCE_MS;
        let old: Vec<Cold> = self.flying.iter().filter(is_old).map(|(cold, _)| *cold).collect();
        old.iter().for_each(|cold| self.land(cold));
    }
}

thread_local! {
    static ASKS: PerThread<Asks> = const { PerThread::new() };
}

fn with<R>(table: &Table, work: impl FnOnce(&mut Asks) -> R) -> Option<R> {
    per_thread::with(&ASKS, table, work)
}

/// Notes what a call of the calling thread wants, to be sent by [`send`].
///
/// # Errors
/// Why it need not wait.
pub fn want(table: &Table, wanted: &[Cold]) -> Result<(), Trouble> {
    let now = now_ms();
    with(table, |asks| {
        asks.tidy(now);
        asks.number += 1;
        let stop = asks.number;
        let outcome = wanted.iter().try_for_each(|cold| want_one(table, asks, cold, stop, now));
        asks.stop = outcome.is_ok().then_some(stop);
        outcome
    })
    .unwrap_or(Ok(()))
}

fn want_one(table: &Table, asks: &mut Asks, cold: &Cold, stop: u64, now: u64) -> Result<(), Trouble> {
    if let Some((failure, _)) = asks.failed.remove(cold) {
        asks.land(cold);
        return Err(Trouble::Failed(failure, *cold));
    }
    let first = asks.want(*cold, stop, now).first;
    if now > first + PATIENCE_MS {
        why_silent(table)?;
    }
    if now > first + GIVE_UP_MS {
        asks.land(cold);
        return Err(Trouble::Late(*cold));
    }
    Ok(())
}

/// Notes what calls behind one that has stopped will want. They are run once it is all there.
pub fn want_ahead(table: &Table, stop: u64, wanted: &[Cold]) {
    let now = now_ms();
    with(table, |asks| {
        for cold in wanted.iter().filter(|cold| !asks.failed.contains_key(*cold)).copied().collect::<Vec<_>>()
        {
            asks.want(cold, stop, now);
        }
    });
}

/// The number of the last stop of this thread's calls at stubs, once.
pub fn take_stop(table: &Table) -> Option<u64> {
    with(table, |asks| asks.stop.take()).flatten()
}

/// The stops whose calls may be run again.
pub fn take_ready(table: &Table) -> Vec<u64> {
    with(table, |asks| std::mem::take(&mut asks.ready)).unwrap_or_default()
}

/// The reason why the tier does not answer, as far as that is known.
fn why_silent(table: &Table) -> Result<(), Trouble> {
    let words = table.segment().tier();
    let Some(process) = words.process() else { return Err(Trouble::NoProcess) };
    let is_stopped = |(seat, _): Thread| stopped::state_of(table.segment(), seat) == stopped::State::Stopped;
    if words.thread(0).is_some_and(is_stopped) { Err(Trouble::Stopped(process)) } else { Ok(()) }
}

/// Returns true if no answer can be expected at present: no process has the tier, or that one is stopped.
pub fn is_silent(table: &Table) -> bool {
    why_silent(table).is_err()
}

/// Sends what is wanted. Outside of any transaction. `hears`: the thread reads its inbox; else it is only woken, and values come back whose keys would do.
pub fn send(table: &Table, hears: bool) {
    let mut wanted = with(table, |asks| std::mem::take(&mut asks.wanted)).unwrap_or_default();
    let words = table.segment().tier();
    let threads = words.threads();
    if wanted.is_empty() || threads == 0 {
        return;
    }
    wanted.sort_unstable_by_key(|cold| (part_of(&cold.name, threads), *cold));
    wanted.dedup();
    let now = now_ms();
    for several in wanted.chunk_by(|one, next| part_of(&one.name, threads) == part_of(&next.name, threads)) {
        let Some((seat, life)) = words.thread(part_of(&several[0].name, threads)) else { continue };
        let names = with(table, |asks| pack_requests(asks, several, hears)).unwrap_or_default();
        let sent = post::run(table, &mut |txn| {
            let asker = (txn.seat().index(), txn.seat().life());
            Message::Ask { asker, hears, names: &names }.write(|parts| txn.post(seat, life, parts));
            Ok(())
        });
        if sent.is_ok() {
            with(table, |asks| {
                several.iter().for_each(|cold| {
                    if let Some(flight) = asks.flying.get_mut(cold) {
                        flight.sent = now;
                    }
                });
            });
        }
    }
}

/// The part of the tier's threads that a copy belongs to: equal parts of the positions.
pub fn part_of(name: &Name, threads: u64) -> u64 {
    (name.position * threads.min(THREADS_MAX)) >> 40
}

/// Tells a thread that these values are back, or why they are not.
pub fn answer(table: &Table, (seat, life): Thread, failure: Option<Failure>, names: &[Cold]) {
    let names = pack(names);
    let failure = failure.map_or(0, |failure| failure as u8);
    // If the inbox stays locked, the asker looks by itself.
    let _ = post::run(table, &mut |txn| {
        Message::Fetched { failure, names: &names }.write(|parts| txn.post(seat, life, parts));
        Ok(())
    });
}

/// Tells a thread the keys that it has asked for, with their expiries.
pub fn answer_keys(table: &Table, (seat, life): Thread, keys: &[(Cold, Told)]) {
    let mut bytes = Vec::new();
    for (cold, told) in keys {
        pack_cold(&mut bytes, cold, false);
        bytes.extend_from_slice(&told.expiry_ms.unwrap_or(NEVER).to_le_bytes());
        bytes.extend_from_slice(&(told.key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&told.key);
    }
    let _ = post::run(table, &mut |txn| {
        Message::Keys { keys: &bytes }.write(|parts| txn.post(seat, life, parts));
        Ok(())
    });
}

/// Records an answer that has come.
pub(crate) fn answered(table: &Table, failure: u8, names: &[u8]) {
    let (now, failure) = (now_ms(), Failure::from_stored(failure));
    with(table, |asks| {
        for Request { cold, .. } in unpack(names) {
            asks.land(&cold);
            match failure {
                Some(failure) => _ = asks.failed.insert(cold, (failure, now)),
                None => asks.note_came(cold, now),
            }
        }
    });
}

/// Records keys that have come.
pub(crate) fn keys_told(table: &Table, mut keys: &[u8]) {
    let mut told = Vec::new();
    while let Some((head, rest)) = keys.split_first_chunk::<KEY_HEAD>() {
        let (Some(request), Some((tail, _))) =
            (unpack(&head[..COLD_BYTES]).pop(), head[COLD_BYTES..].split_first_chunk::<8>())
        else {
            break;
        };
        let len = head.last_chunk::<4>().map_or(0, |len| u32::from_le_bytes(*len) as usize);
        let Some((key, rest)) = rest.split_at_checked(len) else { break };
        let expiry_ms = Some(u64::from_le_bytes(*tail)).filter(|expiry_ms| *expiry_ms != NEVER);
        told.push((request.cold, Told::new(key, expiry_ms)));
        keys = rest;
    }
    with(table, |asks| told.iter().for_each(|(cold, _)| asks.land(cold)));
    table.learn(told.into_iter().map(|(cold, told)| (cold.name, told)));
}

fn pack(several: &[Cold]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(several.len() * COLD_BYTES);
    several.iter().for_each(|cold| pack_cold(&mut bytes, cold, false));
    bytes
}

/// Packs what is to be asked for. A value that has come again and again is to stay for longer.
fn pack_requests(asks: &Asks, several: &[Cold], hears: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(several.len() * COLD_BYTES);
    for cold in several {
        let stays = asks.came.get(cold).is_some_and(|(times, _)| *times >= STAY_TIMES);
        let part = if hears { cold.part } else { Part::Value };
        pack_cold(&mut bytes, &Cold { part, ..*cold }, stays);
    }
    bytes
}

fn pack_cold(bytes: &mut Vec<u8>, Cold { db, name, part }: &Cold, stays: bool) {
    bytes.extend_from_slice(&db.to_le_bytes());
    bytes.extend_from_slice(&name.bytes());
    bytes.push(*part as u8 | if stays { STAYS } else { 0 });
}

/// Reads what [`pack`] has written.
pub(crate) fn unpack(names: &[u8]) -> Vec<Request> {
    let request = |chunk: &[u8; COLD_BYTES]| {
        let (db, rest) = chunk.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_first_chunk::<10>()?;
        let part = if rest[0] & !STAYS == Part::Key as u8 { Part::Key } else { Part::Value };
        let cold = Cold { db: u16::from_le_bytes(*db), name: Name::from_bytes(name), part };
        Some(Request { cold, stays: rest[0] & STAYS != 0 })
    };
    names.as_chunks::<COLD_BYTES>().0.iter().filter_map(request).collect()
}

/// Has the value of a key leave for the tier, soon. Returns false if no process has the tier.
pub fn evict(table: &Table, db: Db, key: &[u8]) -> bool {
    let words = table.segment().tier();
    let (name, threads) = (Name::of(&table.hash(key), 0), words.threads());
    let thread = (threads > 0).then(|| words.thread(part_of(&name, threads))).flatten();
    thread.is_some_and(|(seat, life)| {
        let posted = post::run(table, &mut |txn| {
            Message::Evict { db, key }.write(|parts| txn.post(seat, life, parts));
            Ok(())
        });
        posted.is_ok()
    })
}
