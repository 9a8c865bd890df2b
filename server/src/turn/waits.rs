//! Connections that begin to wait and go on: pauses, locks, subscribers that are behind, and calls that wait for keys.
//!
//! A call that waits for a key is no longer in the connection's input. Its arguments are kept in the session, and the
//! connection is parked, so that what follows stays unexecuted. The call is run again when it is woken, in the middle of a
//! turn; the connection goes on with the next turn.
use polder_base::Reply;
use polder_base::time::now_ms;
use polder_engine::{Counter, Table};
use polder_runtime::{Host, Progress, Session, acl, blocking, give_up, resume, time_out};
use polder_shm::seat::Pressed;

use super::connections::Connections;
use crate::connection::Connection;
use crate::holds::Written;

impl Connections {
    /// Parks a connection in front of a request that a pause holds back.
    pub fn wait_for_pause(&mut self, slot: usize) {
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.park();
        connection.record.postpone();
        self.waiters.wait_for_pause(slot);
    }

    /// Lets the connections go on that a pause has held back, if no pause holds.
    #[inline]
    pub fn end_pause(&mut self) {
        self.waiters.take_paused().into_iter().for_each(|slot| self.unpark(slot));
    }

    /// Runs the calls again that a pause has kept from that, if no pause holds.
    #[inline]
    pub fn retry_postponed(&mut self) {
        self.waiters.take_postponed().into_iter().for_each(|client| self.retry_waiting(client));
    }

    /// Parks a connection in front of a request that has met a lock.
    pub fn wait_for_lock(&mut self, slot: usize) {
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.turn.barred = true;
        connection.park();
        self.waiters.wait_for_lock(slot);
    }

    /// Lets connections try again that wait for locks, if it is time.
    #[inline]
    pub fn retry_locked(&mut self, now_us: u64) {
        for slot in self.waiters.take_locked(now_us) {
            match &self.slots[slot] {
                Some(connection) if connection.waits() => self.retry_waiting(connection.session.identity.id),
                _ => self.unpark(slot),
            }
        }
    }

    /// Holds a connection back whose call has filled an inbox.
    #[cold]
    pub fn hold(&mut self, slot: usize, pressed: Pressed) {
        let table = self.process.memory.table();
        let Pressed { seat, life, .. } = pressed;
        if !self.limits.holds_publishers || table.seat().is_ok_and(|own| own.index() == seat) {
            return;
        }
        let Some(place) = table.segment().read_under_pressure(seat, life) else { return };
        if self.waiters.holding.is_stuck(seat, life, place) {
            return;
        }
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.is_halted()) else {
            return;
        };
        connection.park();
        table.count(Counter::PublishersHeld, 1);
        self.waiters.holding.hold(slot, (seat, life, place), now_ms());
    }

    /// Lets the held connections go on whose time is over, or whose subscriber has read on.
    #[inline]
    pub fn release_held(&mut self) {
        if self.waiters.holding.is_empty() {
            return;
        }
        let now_ms = now_ms();
        let process = self.process.clone();
        let segment = process.memory.table().segment();
        let place_of = |seat, life| segment.read_under_pressure(seat, life);
        let free = self.waiters.holding.take_free(now_ms, process.is_stopping(), place_of);
        free.into_iter().for_each(|slot| self.unpark(slot));
    }

    /// Parks a connection whose call waits for a key; `note` is that of its frame.
    pub fn begin_wait(&mut self, slot: usize, note: u32) {
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.park();
        connection.waiting_note = note;
        let awaited = connection.session.caller.waiting.as_ref().map(|waiting| waiting.subject());
        let awaited = awaited
            .into_iter()
            .flat_map(|(db, keys, or_its_end)| keys.iter().map(move |key| (db, key.clone(), or_its_end)));
        connection.record.begin_wait(awaited.collect());
        let waiting = connection.session.caller.waiting.as_ref();
        let due_ms = waiting.map_or(0, |waiting| waiting.due_ms());
        if let Some(copies) = waiting.and_then(|waiting| waiting.awaits_copies()) {
            self.disk.add_call(copies, connection.session.identity.id);
            copies.want(self.process.memory.table().segment());
        }
        self.waiters.wait_for_key(connection.session.identity.id, due_ms);
        if connection.ready.half_closed {
            connection.session.closing = true;
        }
    }

    /// Runs the call again with which a client waits.
    pub fn retry_waiting(&mut self, client: u64) {
        self.end_broadcast();
        let Some(slot) = self.slot_of(client) else { return };
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| connection.waits()) else {
            return;
        };
        if self
            .waiters
            .pause
            .is_some_and(|pause| !pause.writers_only || blocking::writes(&connection.session))
        {
            return self.waiters.postpone(client);
        }
        // A client that was unblocked has been promised that it gets nothing, and one that is to be closed could not take it.
        if connection.record.is_doomed() || !connection.record.claim_wait() {
            return;
        }
        // What wakes the client may follow a change of its rights that came since the turn began.
        let users = self.process.settings.users();
        users.refresh(self.process.memory.table());
        if acl::renew(&mut connection.session, users) == acl::Standing::Gone {
            return self.close(slot);
        }
        let due_ms = connection.session.caller.waiting.as_ref().map_or(0, |waiting| waiting.due_ms());
        let commits = self.process.memory.table().own_commits();
        let Connection { session, output, protocol, record, waiting_note, .. } = &mut **connection;
        output.lend(|| self.pool.take());
        session.clock.turn_ms = self.now_ms;
        session.clock.patience_us = self.waiters.patience_us;
        let process = &*self.process;
        match protocol
            .reply(output, *waiting_note, |reply| resume(process.memory.table(), session, process, reply))
        {
            Progress::Waiting => {
                record.go_on_waiting();
                let next_ms = session.caller.waiting.as_ref().map_or(0, |waiting| waiting.due_ms());
                self.waiters.move_deadline(client, due_ms, next_ms);
                // A replica that had what it waits for may have gone.
                if let Some(copies) =
                    session.caller.waiting.as_ref().and_then(|waiting| waiting.awaits_copies())
                {
                    self.disk.add_call(copies, client);
                }
            }
            Progress::Busy => {
                record.go_on_waiting();
                self.waiters.wait_for_lock_again(slot);
                self.note_cold();
            }
            Progress::Answered => {
                let written = Written::since(commits, process.memory.table());
                self.end_wait(slot, due_ms, written);
            }
        }
    }

    /// Ends the wait of a client without what it waited for (CLIENT UNBLOCK), by an error or not.
    pub fn give_up(&mut self, client: u64, why: Option<&'static str>) {
        self.end_wait_by(client, |table, session, host, reply| give_up(table, session, host, why, reply));
    }

    /// Ends the waits whose time is over, and runs the calls again that are to look now.
    #[inline]
    pub fn end_waits(&mut self) {
        while let Some(client) = self.waiters.take_expired(self.now_ms) {
            if self.take_look(client) {
                self.retry_waiting(client);
                continue;
            }
            // If another thread has unblocked the client, its message ends the wait.
            if self.process.clients.find(client).is_some_and(|record| record.claim_wait()) {
                self.end_wait_by(client, |table, session, host, reply| time_out(table, session, host, reply));
            }
        }
    }

    /// Returns true if the call with which a client waits is to look again, and not to end.
    fn take_look(&mut self, client: u64) -> bool {
        let now_ms = self.now_ms;
        let Some(slot) = self.slot_of(client) else { return false };
        let waiting = self.slots[slot].as_mut().and_then(|slot| slot.session.caller.waiting.as_mut());
        let Some(waiting) = waiting.filter(|waiting| waiting.has_place()) else { return false };
        let looks = waiting.take_look(now_ms);
        if looks {
            self.waiters.wait_for_key(client, waiting.until_ms);
        }
        looks
    }

    /// Ends the wait of a client by a function that replies to its call.
    fn end_wait_by(
        &mut self,
        client: u64,
        end: impl FnOnce(&Table, &mut Session, &dyn Host, &mut dyn Reply),
    ) {
        self.end_broadcast();
        let Some(slot) = self.slot_of(client) else { return };
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| connection.waits()) else {
            return;
        };
        let due_ms = connection.session.caller.waiting.as_ref().map_or(0, |waiting| waiting.due_ms());
        let Connection { session, output, protocol, waiting_note, .. } = &mut **connection;
        output.lend(|| self.pool.take());
        session.clock.turn_ms = self.now_ms;
        session.clock.patience_us = self.waiters.patience_us;
        let process = &*self.process;
        let commits = process.memory.table().own_commits();
        protocol.reply(output, *waiting_note, |reply| end(process.memory.table(), session, process, reply));
        // It may have run once more.
        let written = Written::since(commits, process.memory.table());
        self.end_wait(slot, due_ms, written);
    }

    /// A client waits no longer. Its next requests are executed in the next turn, because this one may have passed them already.
    fn end_wait(&mut self, slot: usize, due_ms: u64, written: Written) {
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.record.end_wait();
        connection.disk.written.add(written);
        self.disk.forget_call(connection.session.identity.id);
        self.waiters.end_wait(slot, connection.session.identity.id, due_ms);
        self.tell(slot);
    }
}
