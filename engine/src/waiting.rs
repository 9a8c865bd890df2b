//! Waiting in this thread: for callers that have nothing else to do meanwhile.
use std::time::Duration;

use polder_base::Reply;
use polder_base::time::now_ms;
use polder_hub::query::Asker;
use polder_hub::{Delivery, MessageSink};
use polder_runtime::execute::UNBLOCKED;
use polder_runtime::{Host, Progress, Session, blocking, give_up, resume, time_out};
use polder_table::Table;

use crate::presence::{ClientRecord, Order};
use crate::thread_state::{self, Ear};
use crate::{Memory, PAUSE_NAP};

/// How long to sleep before a lock that another thread holds is tried again.
const BUSY_REST: Duration = Duration::from_millis(1);

/// The time between two looks of a call that waits for the disk or for replicas.
pub(crate) const COPIES_NAP: Duration = Duration::from_millis(2);

/// One caller that waits; what is heard for others of the thread goes to them.
struct Waiter<'c> {
    memory: &'c Memory,
    session: &'c mut Session,
    host: &'c dyn Host,
    reply: &'c mut dyn Reply,
    card: Option<&'c ClientRecord>,
    progress: Progress,
    others: Ear<'c>,
}

impl MessageSink for Waiter<'_> {
    fn deliver(&mut self, clients: &[u64], delivery: Delivery<'_>) {
        self.others.deliver(clients, delivery);
    }

    fn retry(&mut self, client: u64) {
        if client != self.session.identity.id {
            self.others.retry(client);
        }
        // Those have no use for it before this one has gone on: it keeps the thread.
        if self.progress != Progress::Answered {
            self.progress = try_again(self.memory, self.session, self.host, self.card, self.reply);
        }
    }

    fn knows(&self, client: u64) -> bool {
        client == self.session.identity.id || self.others.knows(client)
    }

    fn missed(&mut self, clients: &[u64]) {
        self.others.missed(clients);
    }

    fn asked(&mut self, asker: Asker, words: &[&[u8]]) {
        self.others.asked(asker, words);
    }
}

/// How long CLIENT PAUSE keeps the session's call from being run again.
pub(crate) fn paused_for(memory: &Memory, session: &Session) -> Duration {
    memory.paused_for(blocking::writes(session))
}

/// Runs a waiting call again, unless there is a pause or another client has ended the wait: that
/// client was told so ([`Progress::Busy`]: to be looked at again).
pub(crate) fn try_again(
    memory: &Memory,
    session: &mut Session,
    host: &dyn Host,
    card: Option<&ClientRecord>,
    reply: &mut dyn Reply,
) -> Progress {
    if paused_for(memory, session).is_zero() {
        claiming(card, || resume(memory.table(), session, host, reply))
    } else {
        Progress::Busy
    }
}

/// Does something with a waiting call, which no other client ends meanwhile; [`Progress::Busy`] if
/// one has done so.
fn claiming(card: Option<&ClientRecord>, work: impl FnOnce() -> Progress) -> Progress {
    if card.is_some_and(|card| !card.claim_wait()) {
        return Progress::Busy;
    }
    let progress = work();
    if let Some(card) = card.filter(|_| progress != Progress::Answered) {
        card.go_on_waiting();
    }
    progress
}

/// Ends a waiting call because its time is over; [`Progress::Busy`] if another client has ended it.
pub(crate) fn end_in_time(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    card: Option<&ClientRecord>,
    reply: &mut dyn Reply,
) -> Progress {
    claiming(card, || {
        time_out(table, session, host, reply);
        Progress::Answered
    })
}

/// Waits until the session's call has come to its end or its time is over.
pub(crate) fn wait(
    memory: &Memory,
    session: &mut Session,
    host: &dyn Host,
    reply: &mut dyn Reply,
) -> Progress {
    let table = memory.table();
    let card = memory.callers().find(session.identity.id);
    if let (Some(card), Ok(seat)) = (&card, table.seat()) {
        card.settle(Some((seat.index(), seat.life())));
        card.begin_wait(session);
    }
    let progress = wait_long(memory, session, host, card.as_deref(), reply);
    if let Some(card) = &card {
        card.end_wait();
    }
    // This thread may never wait again, and all writers would go on looking for waiting seats.
    polder_hub::rest(table);
    thread_state::arm(memory);
    progress
}

/// Ends a waiting call as another client has asked for.
pub(crate) fn obey(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    order: Order,
    reply: &mut dyn Reply,
) {
    give_up(table, session, host, (order != Order::Timeout).then_some(UNBLOCKED), reply);
    session.closing |= order == Order::Kill;
}

/// Returns whether a session's call is to look again now, and the time until it is due.
fn due(session: &mut Session) -> (bool, Duration) {
    let (now_ms, waiting) = (now_ms(), session.caller.waiting.as_mut());
    waiting.map_or((false, Duration::ZERO), |waiting| {
        (waiting.take_look(now_ms), Duration::from_millis(waiting.due_ms().saturating_sub(now_ms)))
    })
}

fn wait_long(
    memory: &Memory,
    session: &mut Session,
    host: &dyn Host,
    card: Option<&ClientRecord>,
    reply: &mut dyn Reply,
) -> Progress {
    let table = memory.table();
    let copies = session.caller.waiting.as_ref().and_then(|waiting| waiting.awaits_copies());
    if let Some(copies) = copies {
        copies.want(table.segment());
    }
    let mut waiter =
        Waiter { memory, session, host, reply, card, progress: Progress::Waiting, others: Ear { memory } };
    loop {
        thread_state::take_in(table, &mut waiter);
        if waiter.progress == Progress::Answered {
            return Progress::Answered;
        }
        if let Some(order) = card.map(ClientRecord::order).filter(|order| *order != Order::None) {
            obey(table, waiter.session, host, order, waiter.reply);
            return Progress::Answered;
        }
        let (looks, left) = due(waiter.session);
        if looks {
            let client = waiter.session.identity.id;
            waiter.retry(client);
            continue;
        }
        if left.is_zero() {
            waiter.progress = end_in_time(table, waiter.session, host, card, waiter.reply);
            continue;
        }
        if waiter.progress == Progress::Busy {
            std::thread::sleep(paused_for(memory, waiter.session).clamp(BUSY_REST, PAUSE_NAP).min(left));
            let client = waiter.session.identity.id;
            waiter.retry(client);
            continue;
        }
        if let Some(copies) = copies {
            thread_state::nap(table, left.min(COPIES_NAP));
            if copies.are_made(table.segment()) {
                let client = waiter.session.identity.id;
                waiter.retry(client);
            }
            continue;
        }
        thread_state::nap(table, left);
    }
}
