//! What has been counted of calls that have to be made again.
//!
//! A call that meets a lock for too long, or finds no room, has no effect and is made again, and so
//! are those before it in its transaction. By then they have been counted, and so has what its
//! script had called. On whichever path a call runs the next time, it is counted at its first end
//! only.
//!
//! A caller need not make a call again: it may give up and make another one, which was not counted.
//! So the counts are noted together with a hash of the call's words, as soon as there are some. (Of
//! a whole pipeline the hash of the first call is noted, since a client does not take back what it
//! sent.)

use std::hash::{DefaultHasher, Hash, Hasher};

use super::Session;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryLedger {
    /// Calls, from the first on that is to be made again.
    pub(crate) calls: usize,
    /// What the script has called that is the first one behind them.
    pub(crate) inside: usize,
    /// Which call it is that comes first; 0 where it is whichever comes.
    first: u64,
}

impl RetryLedger {
    /// What is true of a call and of those that follow it: nothing, where it was another one that was to be made again.
    #[inline]
    pub(crate) fn of(self, args: &[&[u8]]) -> RetryLedger {
        if self.first == 0 || self.first == fingerprint(args) { self } else { RetryLedger::default() }
    }

    /// Notes that a call is to be made again, as the first of all.
    pub(crate) fn keep_for(self, args: &[&[u8]]) -> RetryLedger {
        if self.calls == 0 && self.inside == 0 {
            RetryLedger::default()
        } else {
            RetryLedger { first: fingerprint(args), ..self }
        }
    }

    /// Called before call `number` is made. Returns whether it is to be counted.
    #[inline]
    pub(crate) fn begin(self, session: &mut Session, number: usize) -> bool {
        let counts = number >= self.calls;
        session.script.counted = if counts { self.inside } else { usize::MAX };
        counts
    }

    /// After it: it has come to its end and is counted, or something was in its way.
    #[inline]
    pub(crate) fn end(&mut self, session: &Session, number: usize, ended: bool) {
        match ended {
            _ if number < self.calls => {}
            true => *self = RetryLedger { calls: number + 1, inside: 0, ..*self },
            false => self.inside = session.script.counted,
        }
    }

    /// What is left for the calls behind the first `done`.
    pub(crate) fn behind(self, done: usize) -> RetryLedger {
        self.calls.checked_sub(done).map_or_else(RetryLedger::default, |calls| RetryLedger {
            calls,
            first: 0,
            ..self
        })
    }
}

#[cold]
fn fingerprint(args: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    args.hash(&mut hasher);
    hasher.finish().max(1)
}
