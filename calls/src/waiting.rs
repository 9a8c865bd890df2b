//! Calls that wait for a key: BLPOP and its like.
//!
//! A function that finds nothing ends with [`crate::Call::wait`], having written nothing. Inside EXEC or a
//! script, where no call waits, that replies as a timeout would. Everywhere else the very
//! transaction that found nothing records the call for its keys, so that no change can slip in
//! between. The call is run again, as a transaction of its own, when one of the keys changes.
use polder_base::{Reply, number};
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
    /// What the key that lets it go on must hold: List, SortedSet or Stream.
    pub kind: Kind,
    /// In the session's database.
    pub keys: &'k [&'k [u8]],
    /// 0: for ever.
    pub timeout_ms: u64,
    pub otherwise: Otherwise,
    /// What later runs must know of the first: see [`crate::Call::memo`].
    pub memo: Vec<u8>,
    /// It has left something to clients that came before it: see [`crate::Call::first_for_us`].
    pub yields: bool,
}

/// A call that waits, until it is run again.
#[derive(Clone)]
pub struct Waiting {
    /// Its place in the queues; 0 as long as it has none.
    pub ticket: u64,
    pub kind: Kind,
    pub db: Db,
    pub keys: Vec<Vec<u8>>,
    /// Milliseconds since the Unix epoch; `u64::MAX` for ever.
    pub until_ms: u64,
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

    /// The number that the disk must have reached (`polder_shm::storage`), where the call waits for the disk and for no key.
    pub fn awaits_disk(&self) -> Option<u64> {
        let number = if self.keys.is_empty() { self.memo.as_slice().try_into().ok() } else { None };
        number.map(u64::from_le_bytes)
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
