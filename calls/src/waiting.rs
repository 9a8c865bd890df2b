//! Calls that wait for a key: BLPOP and its like.
//!
//! A function that finds nothing ends with [`crate::Call::wait`], having written nothing. Inside EXEC or a
//! script, where no call waits, that replies as a timeout would. Everywhere else the very
//! transaction that found nothing records the call for its keys, so that no change can slip in
//! between. The call is run again, as a transaction of its own, when one of the keys changes.
use polder_base::{Reply, number};
use polder_shm::Segment;
use polder_table::{Db, Stop};
use polder_values::Kind;

use crate::facts::Facts;
use crate::flags::ENDS_WITH_KEY;

/// What is answered when nothing comes in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Otherwise {
    Null,
    NullArray,
    /// This many zeros: one by itself, several as an array.
    Zeros(usize),
}

impl Otherwise {
    pub fn write(self, reply: &mut dyn Reply) {
        match self {
            Otherwise::Null => reply.null(),
            Otherwise::NullArray => reply.null_array(),
            Otherwise::Zeros(1) => reply.integer(0),
            Otherwise::Zeros(count) => {
                reply.array(count);
                (0..count).for_each(|_| reply.integer(0));
            }
        }
    }
}

/// What a call waits for.
pub struct Wait<'k> {
    /// Those it waits with: List, SortedSet or Stream.
    pub kind: Kind,
    /// The kind of value in the key that lets it go on.
    pub holds: Kind,
    /// In the session's database.
    pub keys: &'k [&'k [u8]],
    /// 0: for ever.
    pub timeout_ms: u64,
    pub otherwise: Otherwise,
    /// What later runs must know of the first: see [`crate::Call::memo`].
    pub memo: Vec<u8>,
    /// It has left something to clients that came before it: see [`crate::Call::first_for_us`].
    pub yields: bool,
    /// The moment, in milliseconds since the Unix epoch, at which it is run again although no key has changed.
    pub look_ms: Option<u64>,
}

impl<'k> Wait<'k> {
    /// A wait with those that wait for keys of this kind, whose first run has left nothing to others or to later runs.
    pub fn of(kind: Kind, keys: &'k [&'k [u8]], timeout_ms: u64, otherwise: Otherwise) -> Wait<'k> {
        Wait {
            kind,
            holds: kind,
            keys,
            timeout_ms,
            otherwise,
            memo: Vec::new(),
            yields: false,
            look_ms: None,
        }
    }
}

/// A call that waits, until it is run again.
#[derive(Clone)]
pub struct Waiting {
    /// Its place in the queues; 0 as long as it has none.
    pub ticket: u64,
    pub kind: Kind,
    /// See [`Wait`].
    pub holds: Kind,
    pub db: Db,
    pub keys: Vec<Vec<u8>>,
    /// Milliseconds since the Unix epoch; `u64::MAX` for ever.
    pub until_ms: u64,
    /// See [`Wait`].
    pub look_ms: Option<u64>,
    pub otherwise: Otherwise,
    pub memo: Vec<u8>,
    /// Its last run has left something to others; it does so no more, since its time is over.
    pub yields: bool,
    pub insists: bool,
    pub command: &'static Facts,
    pub args: Vec<Box<[u8]>>,
}

impl Waiting {
    /// Whether the call has a place in the queues, and is not just about to get one.
    pub fn has_place(&self) -> bool {
        self.ticket != 0
    }

    /// The copies that the call waits for, where it waits for these and for no key.
    pub fn awaits_copies(&self) -> Option<Copies> {
        if self.keys.is_empty() { Copies::read(&self.memo) } else { None }
    }

    /// The moment at which it is run again or its time is over.
    pub fn due_ms(&self) -> u64 {
        self.look_ms.map_or(self.until_ms, |look_ms| look_ms.min(self.until_ms))
    }

    /// Returns true, once, if the moment has come at which it is run again although no key has changed.
    pub fn take_look(&mut self, now_ms: u64) -> bool {
        let is_due = self.until_ms > now_ms && self.look_ms.is_some_and(|look_ms| look_ms <= now_ms);
        if is_due {
            self.look_ms = None;
        }
        is_due
    }

    /// Whether its last run has left something to clients that came before it.
    pub fn yields(&self) -> bool {
        self.yields
    }

    /// The database, the keys, and whether the call ends as well where one of them goes.
    pub fn subject(&self) -> (Db, &[Vec<u8>], bool) {
        (self.db, &self.keys, self.command.has(ENDS_WITH_KEY))
    }
}

/// The copies that WAIT and WAITAOF wait for: of all that was committed before a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copies {
    /// The number (`polder_shm::storage`, W3).
    pub csn: u64,
    /// The own append-only file is to have it.
    pub in_file: bool,
    /// Replicas that are to have it, at least; in their files.
    pub replicas: u64,
    pub in_files: bool,
}

impl Copies {
    /// The bytes that a call leaves for its later runs.
    pub fn memo(self) -> Vec<u8> {
        let flags = u64::from(self.in_file) | u64::from(self.in_files) << 1;
        [self.csn, self.replicas, flags].map(u64::to_le_bytes).concat()
    }

    /// Reads these bytes.
    pub fn read(memo: &[u8]) -> Option<Copies> {
        let (words, []) = memo.as_chunks::<8>() else { return None };
        let [csn, replicas, flags] = *words else { return None };
        let [csn, replicas, flags] = [csn, replicas, flags].map(u64::from_le_bytes);
        Some(Copies { csn, in_file: flags & 1 != 0, replicas, in_files: flags & 2 != 0 })
    }

    /// Returns true if they are there.
    pub fn are_made(&self, segment: &Segment) -> bool {
        self.are_made_beside(segment, segment.replicas().settled_end())
    }

    /// Like [`Copies::are_made`], for many calls: `end` is what `ReplicaWords::settled_end` has returned after they were made.
    pub fn are_made_beside(&self, segment: &Segment, end: Option<u64>) -> bool {
        let has_replicas = || segment.replicas().count_beside(self.csn, self.in_files, end) >= self.replicas;
        (!self.in_file || segment.storage().is_promised() && segment.storage().is_durable(self.csn))
            && (self.replicas == 0 || has_replicas())
    }

    /// Has the storage process and the feeds of replicas hurry.
    pub fn want(&self, segment: &Segment) {
        if self.in_file {
            segment.storage().want(self.csn);
        }
        if self.replicas > 0 {
            segment.replicas().want(self.csn);
        }
    }
}

/// A timeout in seconds, as milliseconds, rounded up as Redis does; 0 is for ever.
///
/// # Errors
/// Redis's texts.
pub fn seconds(arg: &[u8]) -> Result<u64, Stop> {
    let seconds = number::double(arg).ok_or("ERR timeout is not a float or out of range")?;
    let milliseconds = (seconds * 1000.0).ceil();
    if milliseconds > i64::MAX as f64 {
        return Err("ERR timeout is out of range".into());
    }
    from_now(milliseconds as i64)
}

/// A timeout in milliseconds; 0 is for ever.
///
/// # Errors
/// Redis's texts.
pub fn milliseconds(arg: &[u8]) -> Result<u64, Stop> {
    from_now(number::integer(arg).ok_or("ERR timeout is not an integer or out of range")?)
}

fn from_now(milliseconds: i64) -> Result<u64, Stop> {
    let milliseconds = u64::try_from(milliseconds).map_err(|_| "ERR timeout is negative")?;
    if milliseconds > i64::MAX as u64 - polder_base::time::coarse_ms() {
        return Err("ERR timeout is out of range".into());
    }
    Ok(milliseconds)
}
