//! Calls that wait for a key: BLPOP and its like.
//!
//! A function that finds nothing ends with [`Call::wait`], having written nothing. Where nobody may wait (inside EXEC, in a script) that
//! answers as a timeout would. Everywhere else the call is put down for its keys by the very transaction that found nothing, so that
//! no change can slip in between, and run again, as a transaction of its own, when one of them changes.
use polder_base::{Reply, number};
use polder_hub::queue::{self, Place};
use polder_table::{Db, Mode, Stop, Table, Txn};
use polder_values::Kind;

use crate::call::{Call, Outcome};
use crate::command::Command;
use crate::session::Session;

/// What is answered when nothing comes in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Otherwise {
    Null,
    NullArray,
    /// So many zeros: one by itself, several as an array.
    Zeros(usize),
}

impl Otherwise {
    pub(crate) fn write(self, reply: &mut dyn Reply) {
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
    /// What later runs must know of the first: see [`Call::memo`].
    pub memo: Vec<u8>,
    /// It has left something to others who came before it: see [`Call::first_for_us`].
    pub yields: bool,
}

/// A call that waits, until it is run again.
#[derive(Clone)]
pub struct Waiting {
    /// Its place in the queues; 0 as long as it has none.
    ticket: u64,
    kind: Kind,
    db: Db,
    keys: Vec<Vec<u8>>,
    /// Milliseconds since the Unix epoch; `u64::MAX` for ever.
    pub until_ms: u64,
    otherwise: Otherwise,
    memo: Vec<u8>,
    /// Its last run has left something to others; it does so no more, since its time is over.
    yields: bool,
    insists: bool,
    pub command: &'static Command,
    pub(crate) args: Vec<Box<[u8]>>,
}

impl Waiting {
    /// Whether the call has a place in the queues, and is not just about to get one.
    pub fn has_place(&self) -> bool {
        self.ticket != 0
    }

    /// Whether its last run has left something to others who came before it.
    pub fn yields(&self) -> bool {
        self.yields
    }

    /// The database, the keys, and whether the call ends as well where one of them goes.
    pub fn subject(&self) -> (Db, &[Vec<u8>], bool) {
        (self.db, &self.keys, self.command.name == "XREADGROUP")
    }
}

impl Call<'_> {
    /// Whether this call may wait.
    pub fn may_wait(&self) -> bool {
        !self.session.atomic
    }

    /// Ends a call that found nothing and has written nothing: it is run again when one of the keys changes.
    ///
    /// # Errors
    /// None that is the function's business: hand the outcome on.
    pub fn wait(&mut self, wait: Wait<'_>) -> Outcome {
        if !self.may_wait() {
            wait.otherwise.write(self.reply);
            return Ok(());
        }
        if let Some(waiting) = self.session.waiting.as_mut().filter(|waiting| waiting.has_place()) {
            waiting.yields = wait.yields;
        } else {
            // By the clock itself, since a turn may be old, and rounded up: nobody is sent away early.
            let until_ms = if wait.timeout_ms == 0 { u64::MAX } else { self.txn.now_us().div_ceil(1000).saturating_add(wait.timeout_ms) };
            let mut keys: Vec<Vec<u8>> = wait.keys.iter().map(|key| key.to_vec()).collect();
            keys.sort_unstable();
            keys.dedup();
            self.session.waiting = Some(Box::new(Waiting {
                ticket: 0,
                kind: wait.kind,
                db: self.session.db,
                keys,
                until_ms,
                otherwise: wait.otherwise,
                memo: wait.memo,
                yields: wait.yields,
                insists: false,
                command: self.command,
                args: self.args.iter().map(|arg| Box::from(*arg)).collect(),
            }));
        }
        Err(Stop::Wait)
    }

    /// The first of some keys in which `find` finds something for this call, which may wait: what others have waited for who came before it is
    /// theirs, and then it `yields`.
    ///
    /// # Errors
    /// Those of `find`, a fault.
    pub(crate) fn first_for_us<'k, T>(
        &self,
        kind: Kind,
        keys: &[&'k [u8]],
        yields: &mut bool,
        find: impl Fn(&Self, &[u8]) -> Result<Option<T>, Stop>,
    ) -> Result<Option<(&'k [u8], T)>, Stop> {
        let waiting = self.session.waiting.as_deref();
        let ticket = waiting.filter(|waiting| waiting.has_place()).map_or(u64::MAX, |waiting| waiting.ticket);
        let asks = self.may_wait() && waiting.is_none_or(|waiting| !waiting.insists);
        for key in keys {
            let Some(found) = find(self, key)? else { continue };
            if !asks || !queue::is_for_others(self.txn, kind, (self.session.db, key), ticket, !self.session.parks)? {
                return Ok(Some((key, found)));
            }
            *yields = true;
        }
        Ok(None)
    }

    /// What the first run of this call, which had to wait, left for the later ones; `None` in the first.
    pub fn memo(&self) -> Option<&[u8]> {
        self.session.waiting.as_ref().filter(|waiting| waiting.has_place()).map(|waiting| &waiting.memo[..])
    }
}

/// Whether the session's call has a place in the queues, so that this is not its first run.
pub(crate) fn has_place(session: &Session) -> bool {
    session.waiting.as_ref().is_some_and(|waiting| waiting.has_place())
}

/// Whether the call that a session waits with has left something to others who have not taken it yet; if so, its next run takes it.
pub(crate) fn insist(session: &mut Session) -> bool {
    let waiting = session.waiting.as_deref_mut().filter(|waiting| waiting.yields);
    waiting.map(|waiting| waiting.insists = true).is_some()
}

/// Whether the call that a session waits with may change keys.
pub fn writes(session: &Session) -> bool {
    session.waiting.as_ref().is_some_and(|waiting| waiting.command.is_write())
}

/// Puts a call that found nothing down for its keys, as part of the transaction that found nothing; [`stay`] follows when that has committed.
///
/// # Errors
/// As those of the table.
pub(crate) fn enlist(table: &Table, txn: &Txn<'_>, session: &Session) -> Result<Place, Stop> {
    let waiting = session.waiting.as_deref().ok_or("ERR a command waits for nothing")?;
    let place = Place { ticket: queue::draw_ticket(table), kind: waiting.kind, db: waiting.db, keys: waiting.keys.clone() };
    queue::enlist(txn, &place)?;
    Ok(place)
}

/// The call waits from now on.
pub(crate) fn stay(table: &Table, session: &mut Session, place: Place) {
    if session.id == 0 {
        session.id = polder_hub::next_client(table);
    }
    if let Some(waiting) = &mut session.waiting {
        waiting.ticket = place.ticket;
    }
    queue::join(table, session.id, place);
}

/// The call has been run again and goes on waiting.
pub(crate) fn came(table: &Table, session: &Session) {
    queue::came(table, session.id);
}

/// Whether none of the keys that a session waits for holds what it waits for: a key that has become something else wakes nobody, but
/// readers of its groups.
pub(crate) fn is_in_vain(table: &Table, session: &Session) -> bool {
    let (Some(waiting), Ok(txn)) = (session.waiting.as_deref(), table.begin(Mode::Read)) else { return false };
    waiting.keys.iter().all(|key| !matches!(txn.peek(waiting.db, key), Ok(Some(found)) if found.kind == waiting.kind))
}

/// Ends what a session waits for: its call has come to an end, or its client is gone.
pub fn leave(table: &Table, session: &mut Session) {
    if let Some(waiting) = session.waiting.take()
        && waiting.has_place()
    {
        queue::leave(table, session.id);
    }
}

/// Answers a call for which nothing came in time, or which was told by CLIENT UNBLOCK not to wait any longer.
pub(crate) fn answer(session: &Session, reply: &mut dyn Reply) {
    if let Some(waiting) = &session.waiting {
        waiting.otherwise.write(reply);
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
