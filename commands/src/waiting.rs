//! Calls that wait for a key: BLPOP and its like.
//!
//! A function that finds nothing ends with [`Call::wait`], having written nothing. Where nobody may wait (inside EXEC, in a script) that
//! answers as a timeout would. Everywhere else the call is put down for its keys by the very transaction that found nothing, so that
//! no change can slip in between, and run again, as a transaction of its own, when one of them changes.
use polder_base::number;
use polder_table::Stop;
use polder_values::Kind;

use crate::call::{Call, Outcome};

/// What is answered when nothing comes in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Otherwise {
    Null,
    NullArray,
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
    /// What later runs must know of the first: see [`Call::memo`].
    pub memo: Vec<u8>,
}

impl Call<'_> {
    /// Whether this call may wait.
    pub fn may_wait(&self) -> bool {
        false
    }

    /// Ends a call that found nothing and has written nothing: it is run again when one of the keys changes.
    ///
    /// # Errors
    /// None that is the function's business: hand the outcome on.
    pub fn wait(&mut self, wait: Wait<'_>) -> Outcome {
        match wait.otherwise {
            Otherwise::Null => self.reply.null(),
            Otherwise::NullArray => self.reply.null_array(),
        }
        Ok(())
    }

    /// What the first run of this call, which had to wait, left for the later ones; `None` in the first.
    pub fn memo(&self) -> Option<&[u8]> {
        None
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
