//! Replies that wait until the disk has what they tell (`appendfsync always`), and calls that wait for the disk or for replicas
//! (WAITAOF, WAIT).
//!
//! ```text
//!   end of the turn:  seen := number of commits     the disk has it? -> send
//!                                                   else: the connection is held, its output stays, nothing more of it is read
//!   next turns:       the disk has it -> send, read on
//! ```
//!
//! The other connections are executed meanwhile, and all that end a turn during one sync are set free by the next.
//!
//! - **K1** A reply leaves when the disk has everything that was committed before the end of its turn: the number is read after the turn's last call
//!   (`shm/src/storage.rs`, W3).
//! - **K2** A thread sleeps only after its seat's bit is set, and after it has looked at the disk once more behind its note that it sleeps (W5).
//! - **K3** While writes are refused, since the log is not written, new replies do not wait: a turn at whose beginning and end they are refused has
//!   written nothing. Replies that wait already go on waiting: what they tell may not be on the disk.
use polder_calls::waiting::Copies;
use polder_engine::Table;
use polder_persist::storage_process::holds_replies;
use polder_runtime::Host;

use super::connections::Connections;

/// How long a thread sleeps at most that waits for the disk: a process that dies wakes no thread.
pub const LOOK_MS: u64 = 20;

impl Connections {
    /// Whether replies wait for the disk in this turn.
    #[inline]
    pub fn look_at_disk(&mut self) {
        let limits = &self.limits;
        let is_on = limits.disk.replies_wait && holds_replies(self.process.memory.table());
        (self.disk.is_on, self.disk.covers_reads) = (is_on, limits.disk.reads_wait);
        self.disk.refuses_writes = is_on && self.process.save_signals().lacks_log();
    }

    /// Whether a connection must keep what it has to send (K1).
    #[inline]
    pub fn waits_for_disk(&mut self, slot: usize) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        if connection.disk.held_for != 0 {
            // The only call that ends meanwhile is one that had waited for a key.
            if std::mem::take(&mut connection.disk.may_have_written) {
                let words = self.process.memory.table().segment().storage();
                connection.disk.held_for = words.seen();
                words.want(connection.disk.held_for);
            }
            return true;
        }
        self.disk.is_on && connection.has_output() && self.holds(slot)
    }

    #[cold]
    fn holds(&mut self, slot: usize) -> bool {
        // K3.
        if self.disk.refuses_writes && self.process.save_signals().lacks_log() {
            return false;
        }
        let Some(connection) = &mut self.slots[slot] else { return false };
        let may_have_written = std::mem::take(&mut connection.disk.may_have_written);
        if !may_have_written && !self.disk.covers_reads {
            return false;
        }
        let words = self.process.memory.table().segment().storage();
        let seen = words.seen();
        if words.is_durable(seen) {
            return false;
        }
        connection.disk.held_for = seen;
        self.disk.held.push(slot);
        words.want(seen);
        true
    }

    /// Sends to the connections for which the disk has waited long enough, and runs the calls again that have waited for it.
    #[inline]
    pub fn release_durable(&mut self) {
        if !self.disk.is_empty() {
            self.release();
        }
    }

    #[cold]
    fn release(&mut self) {
        let words = self.process.memory.table().segment().storage();
        // K1: a call that had waited may have written since, and its reply stands behind the one that is held.
        for slot in &self.disk.held {
            let Some(connection) = &mut self.slots[*slot] else { continue };
            if std::mem::take(&mut connection.disk.may_have_written) {
                connection.disk.held_for = words.seen();
                words.want(connection.disk.held_for);
            }
        }
        let durable = words.durable();
        let ends = !self.limits.disk.replies_wait;
        let slots = &self.slots;
        let held_for = |slot: usize| slots[slot].as_ref().map_or(0, |connection| connection.disk.held_for);
        let free: Vec<usize> =
            self.disk.held.extract_if(.., |slot| ends || held_for(*slot) <= durable).collect();
        for slot in free {
            if let Some(connection) = &mut self.slots[slot] {
                connection.disk.held_for = 0;
            }
            self.send_now(slot);
            if self.slots[slot].as_ref().is_some_and(|connection| !connection.input.is_empty()) {
                self.queue(slot);
            }
        }
        let process = self.process.clone();
        let segment = process.memory.table().segment();
        // Once for all calls: it looks at every seat.
        let end = segment.replicas().settled_end();
        let is_made = |(copies, _): &mut (Copies, u64)| copies.are_made_beside(segment, end);
        let ready: Vec<_> = self.disk.calls.extract_if(.., is_made).collect();
        for (_, client) in ready {
            self.retry_waiting(client);
        }
    }

    /// Has the thread woken when the disk or a replica has more. Returns whether it has already what is waited for, so that the thread must not sleep. Called
    /// after the thread's note that it sleeps (K2).
    pub fn has_durable(&self) -> bool {
        let table: &Table = self.process.memory.table();
        let words = table.segment().storage();
        if let Ok(seat) = table.seat() {
            words.await_more(seat.index());
            table.segment().replicas().await_more(seat.index());
        }
        let durable = words.durable();
        let held = self
            .disk
            .held
            .iter()
            .filter_map(|slot| self.slots[*slot].as_ref())
            .map(|connection| connection.disk.held_for);
        held.into_iter().any(|csn| csn <= durable)
            || !self.disk.calls.is_empty() && {
                let end = table.segment().replicas().settled_end();
                self.disk.calls.iter().any(|(copies, _)| copies.are_made_beside(table.segment(), end))
            }
    }
}
