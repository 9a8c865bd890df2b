//! Replies that wait until what they tell is where it is to be: on the disk (`appendfsync always`), with replicas (`replies-await-replicas`). And calls that
//! wait for the disk or for replicas (WAITAOF, WAIT).
//!
//! ```text
//!   end of the turn:  seen := number of commits     it is there? -> send
//!                                                   else: the connection is held, its output stays, nothing more of it is read
//!   next turns:       it is there -> send, read on
//!                     too few replicas in time -> NOREPLICAS in the place of the output, close
//! ```
//!
//! The other connections are executed meanwhile, and all that end a turn during one sync are set free by the next.
//!
//! - **K1** A reply leaves when the disk, and as many replicas as are wanted, have everything that was committed before the end of its turn: the number is
//!   read after the turn's last call (W3 of `shm/src/storage.rs`, R4 of `shm/src/replicas.rs`).
//! - **K2** A thread sleeps only after its seat's bit is set, and after it has looked once more behind its note that it sleeps (W5, R5).
//! - **K3** While writes are refused, since the log is not written, new replies do not wait: a turn at whose beginning and end they are refused has
//!   written nothing. Replies that wait already go on waiting: what they tell may not be on the disk.
//! - **K4** Replicas count for the role in which the reply was made. A memory that was a replica since may have taken a copy without the write, so such a
//!   reply never leaves.
//! - **K5** A reply that is given up was not sent in part: the connection is closed without a word where an earlier reply waits before it.
use polder_calls::waiting::Copies;
use polder_engine::Table;
use polder_persist::storage_process::holds_replies;
use polder_runtime::Host;
use polder_shm::{Role, Segment};

use super::connections::Connections;
use crate::connection::Connection;
use crate::holds::{Hold, Reached, Verdict};

/// The longest sleep of a thread that waits for the disk or for replicas: a process that dies wakes no thread.
pub const LOOK_MS: u64 = 20;

/// The reply in the place of those that were given up.
const UNKEPT: &str = "NOREPLICAS Too few replicas have acknowledged the write in time. It stands here, and a failover may lose it.";

impl Connections {
    /// Looks what replies wait for in this turn.
    #[inline]
    pub fn look_at_disk(&mut self) {
        let limits = self.limits.disk;
        let table = self.process.memory.table();
        self.disk.in_file = limits.replies_wait && holds_replies(table);
        self.disk.covers_reads = limits.reads_wait;
        self.disk.refuses_writes = self.disk.in_file && self.process.save_signals().lacks_log();
        self.disk.replicas = limits.replicas;
        if limits.replicas > 0 {
            self.disk.role = table.role();
        }
    }

    /// A number that moves with each commit of this thread that changes data, and another one that moves with each refusal of a client's call; zeros where
    /// no reply waits for replicas.
    #[inline(always)]
    pub fn work_of(&self, slot: usize) -> (u64, u64) {
        if self.disk.replicas == 0 {
            return (0, 0);
        }
        let refused = self.slots[slot].as_ref().map_or(0, |connection| connection.session.tally.refused);
        (self.process.memory.table().own_commits(), refused)
    }

    /// Whether a connection must keep what it has to send (K1).
    #[inline]
    pub fn waits_for_disk(&mut self, slot: usize) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        if connection.disk.hold.is_some() {
            self.hold_longer(slot);
            return true;
        }
        self.disk.is_on() && connection.has_output() && self.holds(slot)
    }

    /// K1: the only call that ends while a connection is held is one that had waited for a key. It may have written, and its reply stands behind the one that
    /// is held.
    fn hold_longer(&mut self, slot: usize) {
        if self.slots[slot].as_ref().is_none_or(|connection| !connection.disk.written.perhaps) {
            return;
        }
        let (segment, number) = (self.process.memory.table().segment(), self.number());
        let (with_replicas, role, now_ms) = (self.waits_in_role(), self.role_of_writes(), self.now_ms);
        let Some(disk) = self.slots[slot].as_mut().map(|connection| &mut connection.disk) else { return };
        let written = std::mem::take(&mut disk.written);
        if let Some(hold) = &mut disk.hold {
            hold.csn = number;
            hold.in_file |= self.disk.in_file;
            if written.surely && with_replicas && !hold.with_replicas {
                (hold.with_replicas, hold.role, hold.since_ms) = (true, role, now_ms);
            }
            hold.want(segment);
        }
    }

    /// Returns true if writes of this turn wait for replicas: not in a memory that has been a replica since the turn began, as that takes none.
    fn waits_in_role(&self) -> bool {
        let role = self.disk.role;
        self.disk.replicas > 0 && !(role.is_replica() && self.process.memory.table().role() == role)
    }

    /// The role in which this turn has written: that of its beginning, or the one that has followed it (K4). One that is over by now ends the hold.
    fn role_of_writes(&self) -> Role {
        let now = self.process.memory.table().role();
        if self.disk.role.is_replica() && !now.is_replica() { now } else { self.disk.role }
    }

    /// The number of all that this thread has committed up to now.
    fn number(&self) -> u64 {
        let segment = self.process.memory.table().segment();
        if self.disk.replicas > 0 { segment.replicas().seen() } else { segment.storage().seen() }
    }

    #[cold]
    fn holds(&mut self, slot: usize) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        let written = std::mem::take(&mut connection.disk.written);
        let table = self.process.memory.table();
        // K3.
        let refuses = self.disk.refuses_writes && self.process.save_signals().lacks_log();
        let in_file = self.disk.in_file && !refuses && (written.perhaps || self.disk.covers_reads);
        let with_replicas = written.surely && self.waits_in_role();
        if !in_file && !with_replicas {
            return false;
        }
        let (csn, written_in) = (self.number(), self.role_of_writes());
        let in_file = in_file && !table.segment().storage().is_durable(csn);
        if !in_file && !with_replicas {
            return false;
        }
        let Some(connection) = &mut self.slots[slot] else { return false };
        let (role, since_ms) = (written_in, self.now_ms);
        let is_whole = !connection.disk.partly_sent;
        let hold = Hold { csn, in_file, with_replicas, role, is_whole, since_ms };
        hold.want(table.segment());
        connection.disk.hold = Some(hold);
        self.disk.held.push(slot);
        true
    }

    /// Sends to the connections that have waited long enough, and runs the calls again that have waited.
    #[inline]
    pub fn release_durable(&mut self) {
        if !self.disk.is_empty() {
            self.release();
        }
    }

    /// Returns how far the disk and the replicas are, for replies that were held before this call.
    fn reached(&self, end: Option<u64>) -> Reached {
        let (segment, limits) = (self.process.memory.table().segment(), &self.limits.disk);
        let acknowledged = match limits.replicas {
            0 => u64::MAX,
            replicas => segment.replicas().acknowledged_by(replicas, end),
        };
        Reached {
            // Replies that were held for the disk are free once that is no longer wanted.
            durable: if limits.replies_wait { segment.storage().durable() } else { u64::MAX },
            acknowledged,
            role: if limits.replicas > 0 { Some(segment.role()) } else { None },
            given_up_ms: match limits.replicas_ms {
                0 => 0,
                patience_ms => self.now_ms.saturating_sub(patience_ms),
            },
        }
    }

    #[cold]
    fn release(&mut self) {
        for place in 0..self.disk.held.len() {
            self.hold_longer(self.disk.held[place]);
        }
        let process = self.process.clone();
        let segment = process.memory.table().segment();
        // Once for all: it looks at every seat.
        let end = segment.replicas().settled_end();
        let reached = self.reached(end);
        let slots = &self.slots;
        let verdict = |slot: usize| {
            let hold = slots[slot].as_ref().and_then(|connection| connection.disk.hold.as_ref());
            hold.map_or(Verdict::Free, |hold| reached.verdict(hold))
        };
        let mut ended = Vec::new();
        self.disk.held.retain(|slot| match verdict(*slot) {
            Verdict::Waits => true,
            verdict => {
                ended.push((*slot, verdict));
                false
            }
        });
        for (slot, verdict) in ended {
            if verdict == Verdict::Late { self.give_up_replies(slot) } else { self.let_go(slot) }
        }
        let is_made = |(copies, _): &mut (Copies, u64)| copies.are_made_beside(segment, end);
        let ready: Vec<_> = self.disk.calls.extract_if(.., is_made).collect();
        for (_, client) in ready {
            self.retry_waiting(client);
        }
    }

    /// Sends what was held.
    fn let_go(&mut self, slot: usize) {
        if let Some(connection) = &mut self.slots[slot] {
            connection.disk.hold = None;
        }
        self.send_now(slot);
        if self.slots[slot].as_ref().is_some_and(|connection| !connection.input.is_empty()) {
            self.queue(slot);
        }
    }

    /// Closes a connection whose replies are not to be sent, with an error in their place (K5).
    #[cold]
    fn give_up_replies(&mut self, slot: usize) {
        let Some(connection) = &mut self.slots[slot] else { return };
        let hold = connection.disk.hold.take();
        self.process.recorder().count_error(UNKEPT);
        let Connection { protocol, session, output, filter, .. } = &mut **connection;
        let is_whole = hold.is_some_and(|hold| hold.is_whole);
        if !is_whole || !filter.as_ref().is_none_or(|filter| filter.may_replace()) {
            return self.close(slot);
        }
        output.consume(output.waiting());
        output.lend(|| self.pool.take());
        protocol.fail(UNKEPT, session, output);
        self.send_now(slot);
    }

    /// Has the thread woken when the disk or a replica has more. Returns whether it has already what is waited for, so that the thread must not sleep. Called
    /// after the thread's note that it sleeps (K2).
    pub fn has_durable(&self) -> bool {
        let table: &Table = self.process.memory.table();
        let segment: &Segment = table.segment();
        if let Ok(seat) = table.seat() {
            segment.storage().await_more(seat.index());
            segment.replicas().await_more(seat.index());
        }
        let end = if self.waits_for_replicas() { segment.replicas().settled_end() } else { None };
        let reached = self.reached(end);
        let holds = self.disk.held.iter().filter_map(|slot| self.slots[*slot].as_ref()?.disk.hold.as_ref());
        holds.into_iter().any(|hold| reached.verdict(hold) != Verdict::Waits)
            || self.disk.calls.iter().any(|(copies, _)| copies.are_made_beside(segment, end))
    }

    fn waits_for_replicas(&self) -> bool {
        self.limits.disk.replicas > 0 && !self.disk.held.is_empty() || !self.disk.calls.is_empty()
    }
}
