//! `maxmemory-clients`: what the clients of this process take together, and which of them are closed when that is too much.
//!
//! Each thread notes what its connections take when it has sent to them, and in the midst of a turn when much waits to be sent. The sum is the
//! process's; the thread that finds it too large has those closed that take the most, whichever threads serve them. While there is no limit nothing
//! is counted.
use super::*;

/// What waits to be sent is looked at in the midst of a turn from here on.
const MUCH_BYTES: usize = 64 << 10;

impl Loop {
    /// Begins to count when a limit has been set, ends when it is gone, and closes clients where they take too much.
    pub(super) fn weigh_all(&mut self) {
        let limit = self.limits.clients_bytes_max;
        if (limit != 0) != self.weighs {
            self.weighs = limit != 0;
            for connection in self.slots.iter().flatten() {
                let bytes = if self.weighs { connection.record.memory() } else { 0 };
                self.process.clients.weigh(&connection.record, bytes);
            }
        }
        if limit != 0 && self.process.clients.weight() > limit {
            let evicted = self.process.evict_clients(limit);
            self.process.mailboxes[self.number].stats.clients_evicted.add(evicted);
        }
    }

    /// Notes what a connection takes that has been sent to.
    #[inline]
    pub(super) fn weigh(&mut self, slot: usize) {
        if self.weighs
            && let Some(connection) = self.slots[slot].as_ref().filter(|connection| !connection.record.is_doomed())
        {
            self.process.clients.weigh(&connection.record, connection.record.memory());
        }
    }

    /// As [`Loop::weigh`] after a call in the midst of a turn, for a connection to which much waits to be sent.
    #[inline]
    pub(super) fn weigh_replies(&mut self, slot: usize) {
        if !self.weighs {
            return;
        }
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| connection.output.waiting() > MUCH_BYTES) else { return };
        connection.beat(connection.output.waiting());
        self.weigh(slot);
        self.weigh_all();
        if let Some(connection) = self.slots[slot].as_mut().filter(|connection| connection.record.is_doomed()) {
            connection.session.closing = true;
        }
    }
}
