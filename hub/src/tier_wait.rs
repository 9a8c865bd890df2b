//! Waiting for the tier in a thread that has nothing else to do meanwhile.

use std::time::Duration;

use polder_shm::layout::interest;
use polder_table::interest::interest_at;
use polder_table::{Cold, Part, Table};

use crate::hear::{attend, hear};
use crate::listener::{Delivery, MessageSink};
use crate::tier;

/// The sleep between two looks.
const NAP: Duration = Duration::from_millis(2);

/// A sink for a thread without clients.
struct NoClients;

impl MessageSink for NoClients {
    fn deliver(&mut self, _: &[u64], _: Delivery<'_>) {}
    fn retry(&mut self, _: u64) {}
    fn knows(&self, _: u64) -> bool {
        false
    }
    fn missed(&mut self, _: &[u64]) {}
}

/// Sends what is wanted and sleeps until it may be there. For a thread that has nothing else to do, outside of any transaction.
pub fn wait(table: &Table, wanted: &[Cold]) {
    let Ok(seat) = table.seat() else { return };
    // A thread that listens for clients reads its inbox for them. It gets values where keys would do.
    let (bits, life) = interest_at(table.segment(), seat.index());
    let hears = (life != seat.life() || bits & interest::ALL == 0)
        && (seat.has_messages() || wanted.iter().any(|cold| cold.part == Part::Key))
        && attend(table).is_ok();
    tier::send(table, hears);
    tier::take_ready(table);
    tier::take_stop(table);
    seat.sleep(Some(NAP));
    if hears {
        hear(table, &mut NoClients);
    }
}
