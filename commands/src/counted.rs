//! What has been counted of calls that have to be made again.
//!
//! A call that meets a lock for too long, or finds no room, comes to nothing and is made again, and so are those before it in its transaction.
//! By then they have been counted, and so has what its script had called. Whatever way a call takes the next time, it is counted at its first
//! end only.

use crate::session::Session;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Calls, from the first on that is to be made again.
    pub(crate) calls: usize,
    /// What the script has called that is the first one behind them.
    pub(crate) inside: usize,
}

impl Counted {
    /// Before call `number` is made; answers whether it is to be counted.
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
            true => *self = Counted { calls: number + 1, inside: 0 },
            false => self.inside = session.script.counted,
        }
    }

    /// What is left for the calls behind the first `done`.
    pub(crate) fn behind(self, done: usize) -> Counted {
        self.calls.checked_sub(done).map_or_else(Counted::default, |calls| Counted { calls, ..self })
    }
}
