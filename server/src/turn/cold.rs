//! Connections whose calls wait for values of the tier.
//!
//! ```text
//!   a call stops at stubs   -> the connection is parked, the request stays in its input
//!   end of the turn         -> what all calls of the turn want is asked for, in one message to each thread of the tier
//!   an answer, or a time    -> the requests are run again from their beginnings
//! ```
use polder_hub::tier;

use super::connections::Connections;

impl Connections {
    /// Returns true if a call of this thread has stopped at stubs since the last look.
    pub fn has_met_stubs(&mut self) -> bool {
        let stops = tier::stops(self.process.memory.table());
        let is_new = std::mem::replace(&mut self.waiters.cold.stops, stops) != stops;
        self.waiters.cold.owes |= is_new;
        is_new
    }

    /// Parks a connection in front of a request that has stopped at stubs.
    pub fn wait_for_values(&mut self, slot: usize) {
        let now_ms = self.now_ms;
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.park();
        let cold = &mut self.waiters.cold;
        if cold.slots.is_empty() {
            cold.due_ms = now_ms + tier::LOOK_MS;
        }
        cold.slots.push(slot);
    }

    /// Asks for what the calls of this turn want.
    #[inline]
    pub fn ask_for_values(&mut self) {
        if std::mem::take(&mut self.waiters.cold.owes) {
            tier::send(self.process.memory.table(), true);
        }
    }

    /// Has the connections go on that wait for values, if some have come or it is time to look.
    #[inline]
    pub fn retry_cold(&mut self) {
        let is_due = self.waiters.cold.due_ms().is_some_and(|due_ms| due_ms <= self.now_ms);
        if self.waiters.cold.slots.is_empty() || !(tier::take_landed(self.process.memory.table()) || is_due) {
            return;
        }
        for slot in std::mem::take(&mut self.waiters.cold.slots) {
            self.unpark(slot);
        }
    }
}
