//! `maxmemory-clients`: the memory that the clients of this process take together, and which of them are closed when it is
//! too much.
//!
//! Each thread notes the memory of a connection after it has sent to it, and in the middle of a turn when much waits to be
//! sent. The sum is the process's. The thread that finds it too large marks the clients that take the most, whichever
//! threads serve them. Without a limit nothing is counted, so CONFIG SET of a limit counts all clients itself
//! (`Host::hold_limits`).
use super::connections::Connections;

/// From this size on, waiting replies are noted in the middle of a turn.
const MUCH_BYTES: usize = 64 << 10;

impl Connections {
    /// Begins to count when a limit has been set, ends when it is gone, and closes clients when they take too much.
    #[inline]
    pub fn weigh_all(&mut self) {
        let limit = self.limits.clients_bytes_max;
        if (limit != 0) != self.weighs {
            self.weighs = limit != 0;
            for connection in self.slots.iter().flatten() {
                let bytes = if self.weighs { connection.record.memory() } else { 0 };
                self.process.clients.weigh(&connection.record, bytes);
            }
        }
        if limit != 0 && self.process.clients.weight() >= limit {
            self.process.evict_clients(None);
        }
    }

    /// As [`Connections::weigh`] after a call in the middle of a turn, for a connection to which much waits to be sent.
    #[inline]
    pub fn weigh_replies(&mut self, slot: usize) {
        if !self.weighs {
            return;
        }
        let Some(connection) =
            self.slots[slot].as_mut().filter(|connection| connection.output.waiting() > MUCH_BYTES)
        else {
            return;
        };
        connection.beat(connection.output.waiting());
        self.weigh(slot);
        self.weigh_all();
        if let Some(connection) = self.slots[slot].as_mut().filter(|connection| connection.record.is_doomed())
        {
            connection.session.closing = true;
        }
    }
}
