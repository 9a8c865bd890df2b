//! Reading the thread's inbox: messages for its clients, keys that became ready, and questions of other processes.
use polder_admin::peer_replies;
use polder_hub::query::{self, Asker};
use polder_hub::track::{close_turn, counts, limit};
use polder_hub::{Delivery, MessageSink, hear};
use polder_runtime::Host;

use super::connections::Connections;

impl Connections {
    /// Reads the messages in the thread's inbox.
    pub fn hear(&mut self) {
        let process = self.process.clone();
        self.deliveries.more = hear(process.memory.table(), self);
    }

    /// Does what the hub has to do once a second.
    pub fn tick(&mut self) {
        let process = self.process.clone();
        polder_hub::tick(process.memory.table(), self);
        self.end_broadcast();
    }

    /// Sends what was written for clients that are not among those of this turn, and lets clients go on whose waits have ended.
    pub fn send_told(&mut self) {
        self.close_hearing();
        for slot in self.waiters.take_answered() {
            self.unpark(slot);
        }
        for slot in std::mem::take(&mut self.deliveries.told) {
            if let Some(connection) = &mut self.slots[slot] {
                connection.turn.told = false;
            }
            self.send(slot);
        }
    }

    /// Delivers what the hub has kept back in this turn to make one message of it.
    fn close_hearing(&mut self) {
        let process = self.process.clone();
        let table = process.memory.table();
        close_turn(table, self);
        self.end_broadcast_with(true);
        let most = self.limits.tracked_keys_max;
        if most != 0 {
            limit(table, self, most);
        }
        let (keys, items, prefixes) = counts(table);
        let stats = &process.mailboxes[self.number].stats;
        for (count, number) in
            [(&stats.tracked_keys, keys), (&stats.tracked_items, items), (&stats.tracked_prefixes, prefixes)]
        {
            count.set(number as u64);
        }
    }
}

impl MessageSink for Connections {
    fn deliver(&mut self, clients: &[u64], delivery: Delivery<'_>) {
        self.deliver_to(clients, &delivery);
    }

    fn retry(&mut self, client: u64) {
        self.retry_waiting(client);
    }

    fn knows(&self, client: u64) -> bool {
        self.process.clients.find(client).is_some()
    }

    fn missed(&mut self, clients: &[u64]) {
        self.close_after_loss(clients);
    }

    fn ended(&mut self, client: u64, sid: &[u8]) {
        let Some(connection) = self.slot_of(client).and_then(|slot| self.slots[slot].as_mut()) else {
            return;
        };
        connection.session.forget_ended(sid);
        connection.record.show(&connection.session);
    }

    fn asked(&mut self, asker: Asker, words: &[&[u8]]) {
        self.end_broadcast();
        let process = self.process.clone();
        if process.claim(asker) {
            query::answer(
                process.memory.table(),
                asker,
                &process.threads(),
                &peer_replies::answer(&*process, words),
            );
        }
    }

    fn look(&mut self) {
        self.process.mailboxes[self.number].wake();
    }
}
