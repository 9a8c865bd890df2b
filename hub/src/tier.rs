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

use std::time::Duration;

use hashbrown::HashMap;
use polder_base::time::now_ms;
use polder_shm::layout::tier::THREADS_MAX;
use polder_table::{Cold, CommitView, Db, Name, Table};

use crate::listener::Thread;
use crate::message::Message;
use crate::per_thread::{self, PerThread};
use crate::post;
use crate::stopped;

/// The pause after which a call that waits for values looks again.
pub const LOOK_MS: u64 = 20;
/// After how long what has not come is asked for again.
const AGAIN_MS: u64 = 250;
/// The patience of a call where no process has the tier, or that process is stopped.
const PATIENCE_MS: u64 = 1000;
/// The time after which a call gives up whose value does not come though a process has the tier: that process may have failed, which it tells
/// those that read their inboxes.
const GIVE_UP_MS: u64 = 10_000;
/// The time after which a value counts as wanted anew.
const ANEW_MS: u64 = 1_000;
/// The time for which the reason is kept why a value did not come.
const KEPT_MS: u64 = 1000;
/// The sleep between two looks of a thread that has nothing else to do.
const NAP: Duration = Duration::from_millis(2);
/// Bytes of what is wanted in a message: database and name.
const COLD_BYTES: usize = 12;

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

/// The times of a value that was asked for, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Default)]
struct Flight {
    /// The first time it was wanted.
    first: u64,
    /// The last time.
    last: u64,
    /// The last time it was asked for; 0: not yet.
    sent: u64,
}

/// The values that one thread has asked for.
#[derive(Default)]
struct Asks {
    /// Not sent yet.
    wanted: Vec<Cold>,
    flying: HashMap<Cold, Flight>,
    failed: HashMap<Cold, (Failure, u64)>,
    landed: bool,
    stops: u64,
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
        asks.stops += 1;
        asks.failed.retain(|_, (_, at_ms)| now < *at_ms + KEPT_MS);
        asks.flying.retain(|_, flight| now < flight.last + 4 * PATIENCE_MS);
        for cold in wanted {
            if let Some((failure, _)) = asks.failed.remove(cold) {
                asks.flying.remove(cold);
                return Err(Trouble::Failed(failure, *cold));
            }
            let flight = asks.flying.entry(*cold).or_default();
            if now > flight.last + ANEW_MS {
                *flight = Flight { first: now, ..*flight };
            }
            flight.last = now;
            if now > flight.first + PATIENCE_MS {
                why_silent(table)?;
            }
            if now > flight.first + GIVE_UP_MS {
                asks.flying.remove(cold);
                return Err(Trouble::Late(*cold));
            }
            if now >= flight.sent + AGAIN_MS {
                asks.wanted.push(*cold);
            }
        }
        Ok(())
    })
    .unwrap_or(Ok(()))
}

/// The reason why the tier does not answer, as far as that is known.
fn why_silent(table: &Table) -> Result<(), Trouble> {
    let words = table.segment().tier();
    let Some(process) = words.process() else { return Err(Trouble::NoProcess) };
    let is_stopped = |(seat, _): Thread| stopped::state_of(table.segment(), seat) == stopped::State::Stopped;
    if words.thread(0).is_some_and(is_stopped) { Err(Trouble::Stopped(process)) } else { Ok(()) }
}

/// The number of stops at stubs of this thread's calls.
pub fn stops(table: &Table) -> u64 {
    with(table, |asks| asks.stops).unwrap_or(0)
}

/// Sends what is wanted. Outside of any transaction. `hears`: the thread reads its inbox; else it is only woken.
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
        let names = pack(several);
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

/// Returns true, once, if an answer has come.
pub fn take_landed(table: &Table) -> bool {
    with(table, |asks| std::mem::take(&mut asks.landed)).unwrap_or(false)
}

/// Sends what is wanted and sleeps until it may be there. For a thread that has nothing else to do, outside of any transaction.
pub fn wait(table: &Table) {
    send(table, false);
    if let Ok(seat) = table.seat() {
        seat.sleep(Some(NAP));
    }
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

/// Records an answer that has come.
pub(crate) fn answered(table: &Table, failure: u8, names: &[u8]) {
    let now = now_ms();
    with(table, |asks| {
        asks.landed = true;
        for cold in unpack(names) {
            asks.flying.remove(&cold);
            if let Some(failure) = Failure::from_stored(failure) {
                asks.failed.insert(cold, (failure, now));
            }
        }
    });
}

fn pack(several: &[Cold]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(several.len() * COLD_BYTES);
    for Cold { db, name } in several {
        bytes.extend_from_slice(&db.to_le_bytes());
        bytes.extend_from_slice(&name.bytes());
    }
    bytes
}

/// The names that a message wants.
pub fn unpack(names: &[u8]) -> Vec<Cold> {
    let chunks = names.as_chunks::<COLD_BYTES>().0.iter();
    chunks
        .filter_map(|chunk| {
            let (db, name) = chunk.split_first_chunk::<2>()?;
            Some(Cold { db: u16::from_le_bytes(*db), name: Name::from_bytes(name.first_chunk()?) })
        })
        .collect()
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
