//! Waiting in this thread: for callers that have nothing else to do meanwhile.
use std::time::Duration;

use polder_base::Reply;
use polder_base::time::now_ms;
use polder_commands::{Host, Progress, Session, give_up, resume};
use polder_hub::{Delivery, Hearer};
use polder_table::Table;

/// The longest nap: the chores are done in between where no server does them.
const NAP: Duration = Duration::from_millis(500);
/// How long it is rested before a lock is tried again that somebody holds.
const BUSY_REST: Duration = Duration::from_millis(1);

/// One caller that waits.
struct Caller<'c> {
    table: &'c Table,
    session: &'c mut Session,
    host: &'c dyn Host,
    reply: &'c mut dyn Reply,
    progress: Progress,
}

impl Hearer for Caller<'_> {
    fn deliver(&mut self, _clients: &[u64], _delivery: Delivery<'_>) {}

    fn retry(&mut self, client: u64) {
        if client == self.session.id && self.progress != Progress::Answered {
            self.progress = resume(self.table, self.session, self.host, self.reply);
        }
    }

    fn knows(&self, client: u64) -> bool {
        client == self.session.id
    }

    fn missed(&mut self, _clients: &[u64]) {}
}

/// Waits until the session's call has come to its end or its time is over.
pub(crate) fn wait(table: &Table, session: &mut Session, host: &dyn Host, reply: &mut dyn Reply) -> Progress {
    let progress = wait_long(table, session, host, reply);
    // This thread may never wait again, and all who write would go on looking for somebody who does.
    polder_hub::ears::rest(table);
    progress
}

fn wait_long(table: &Table, session: &mut Session, host: &dyn Host, reply: &mut dyn Reply) -> Progress {
    let until_ms = session.waiting.as_ref().map_or(0, |waiting| waiting.until_ms);
    let mut caller = Caller { table, session, host, reply, progress: Progress::Waiting };
    loop {
        polder_hub::hear(table, &mut caller);
        if caller.progress == Progress::Answered {
            return Progress::Answered;
        }
        if caller.progress == Progress::Busy {
            std::thread::sleep(BUSY_REST);
            let client = caller.session.id;
            caller.retry(client);
            continue;
        }
        let left = Duration::from_millis(until_ms.saturating_sub(now_ms()));
        if left.is_zero() {
            give_up(table, caller.session, host, false, caller.reply);
            return Progress::Answered;
        }
        match table.seat() {
            Ok(seat) if polder_hub::ears::owes(table) => seat.sleep(Some(left.min(BUSY_REST))),
            Ok(seat) => seat.sleep(Some(left.min(NAP))),
            Err(_) => std::thread::sleep(NAP),
        }
        polder_hub::ears::tick(table, &mut caller);
    }
}
