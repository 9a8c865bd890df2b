//! Sessions whose call waits for a key: see [`polder_calls::waiting`] for the call's own side.
use polder_base::Reply;
use polder_hub::queue::{self, Place};
use polder_table::{Mode, Stop, Table, Txn};

use crate::session::Session;

/// Whether the session's call has a place in the queues, so that this is not its first run.
pub(crate) fn has_place(session: &Session) -> bool {
    session.caller.waiting.as_ref().is_some_and(|waiting| waiting.has_place())
}

/// Whether a session's waiting call has left an element to others that have not taken it yet; if
/// so, its next run takes it.
pub(crate) fn retry_until(session: &mut Session) -> bool {
    let waiting = session.caller.waiting.as_deref_mut().filter(|waiting| waiting.yields);
    waiting.map(|waiting| waiting.insists = true).is_some()
}

/// Whether the call that a session waits with may change keys.
pub fn writes(session: &Session) -> bool {
    session.caller.waiting.as_ref().is_some_and(|waiting| waiting.command.is_write())
}

/// Puts a call that found nothing down for its keys, as part of the transaction that found nothing; [`stay`] follows when that has committed.
///
/// # Errors
/// As those of the table.
pub(crate) fn enlist(table: &Table, txn: &Txn<'_>, session: &Session) -> Result<Place, Stop> {
    let waiting = session.caller.waiting.as_deref().ok_or("ERR a command waits for nothing")?;
    let place = Place {
        ticket: queue::draw_ticket(table),
        kind: waiting.kind,
        db: waiting.db,
        keys: waiting.keys.clone(),
    };
    queue::enlist(txn, &place)?;
    Ok(place)
}

/// The call waits from now on.
pub(crate) fn stay(table: &Table, session: &mut Session, place: Place) {
    if session.identity.id == 0 {
        session.identity.id = polder_hub::next_client(table);
    }
    if let Some(waiting) = &mut session.caller.waiting {
        waiting.ticket = place.ticket;
    }
    queue::join(table, session.identity.id, place);
}

/// The call has been run again and goes on waiting.
pub(crate) fn came(table: &Table, session: &Session) {
    queue::came(table, session.identity.id);
}

/// Whether none of the keys that a session waits for holds what it waits for: a key that has become something else wakes no session, but
/// readers of its groups.
pub(crate) fn is_in_vain(table: &Table, session: &Session) -> bool {
    let (Some(waiting), Ok(txn)) = (session.caller.waiting.as_deref(), table.begin(Mode::Read)) else {
        return false;
    };
    waiting
        .keys
        .iter()
        .all(|key| !matches!(txn.peek(waiting.db, key), Ok(Some(found)) if found.kind == waiting.holds))
}

/// Ends what a session waits for: its call has come to an end, or its client is gone.
pub fn leave(table: &Table, session: &mut Session) {
    if let Some(waiting) = session.caller.waiting.take()
        && waiting.has_place()
    {
        queue::leave(table, session.identity.id);
    }
}

/// Writes the reply of a call for which nothing came in time, or which CLIENT UNBLOCK ended.
pub(crate) fn answer(session: &Session, reply: &mut dyn Reply) {
    if let Some(waiting) = &session.caller.waiting {
        waiting.otherwise.write(reply);
    }
}
