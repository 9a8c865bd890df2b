//! Messages of the hub to the clients of one thread.
use std::sync::Arc;

use polder_hub::Delivery;
use polder_wire::Output;

use super::connections::{BroadcastBuffer, Connections};
use polder_protocols::sessions::{Form, Heard};

/// The number of clients from which on a broadcast is worthwhile, and the bytes of messages that end one.
const BROADCAST_CLIENTS_MIN: usize = 16;
const BROADCAST_BYTES_MAX: usize = 32 << 10;

impl Connections {
    /// Gives a message to clients of this thread; it is sent at the end of the turn.
    pub fn deliver_to(&mut self, clients: &[u64], delivery: &Delivery<'_>) {
        let is_message = matches!(
            delivery,
            Delivery::Message { .. }
                | Delivery::PatternMessage { .. }
                | Delivery::ShardMessage { .. }
                | Delivery::Post { .. }
        );
        if is_message && clients.len() >= BROADCAST_CLIENTS_MIN {
            return self.broadcast(clients, delivery);
        }
        self.end_broadcast();
        // Each form is written once, however many clients get it.
        let mut forms = Form::ALL.map(|_| None::<Output>);
        for client in clients {
            let Some(slot) = self.slot_of(*client) else { continue };
            let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.session.closing)
            else {
                continue;
            };
            if let Delivery::RedirectionBroken { client: redirect } = *delivery {
                let tracking = connection
                    .session
                    .listening
                    .tracking
                    .as_mut()
                    .filter(|tracking| tracking.redirect() == redirect);
                let Some(tracking) = tracking else { continue };
                Arc::make_mut(tracking).broken = true;
            }
            if !connection.protocol.accepts(&connection.session, delivery) {
                continue;
            }
            connection.output.lend(|| self.pool.take_one_of(clients.len()));
            if let [_] = clients {
                connection.protocol.deliver(&mut connection.output, delivery);
            } else {
                let form = connection.protocol.form(&connection.session);
                let written = forms[form as usize].get_or_insert_with(|| {
                    let mut output = form.output();
                    form.write(&mut output, delivery);
                    output
                });
                connection.output.copy(written);
                connection.protocol.end_messages(&mut connection.output, Heard::of(delivery));
            }
            self.tell(slot);
        }
    }

    /// Tells a client that tracks which keys it must not keep: it has read them, and would not hear of their change.
    pub fn tell_unsure(&mut self, slot: usize, keys: &[Vec<u8>]) {
        let Some(connection) = &self.slots[slot] else { return };
        let client = connection.session.identity.id;
        for key in keys {
            self.deliver_to(&[client], &Delivery::Invalidation { keys: Some(&[key]), redirected: false });
        }
    }

    /// Closes clients that have lost messages.
    pub fn close_after_loss(&mut self, clients: &[u64]) {
        self.end_broadcast();
        for client in clients {
            let Some(slot) = self.slot_of(*client) else { continue };
            let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.session.closing)
            else {
                continue;
            };
            tracing::warn!(
                client,
                "closed: more messages came for this thread's clients than it could keep, and some of them are lost"
            );
            self.process.mailboxes[self.number].stats.reply_limit_closed.add(1);
            connection.session.closing = true;
            self.tell(slot);
        }
    }

    /// Adds a message to the broadcast for its clients.
    fn broadcast(&mut self, clients: &[u64], delivery: &Delivery<'_>) {
        let buffer = &self.deliveries.broadcast;
        if buffer.clients != clients || buffer.forms[0].waiting() > BROADCAST_BYTES_MAX {
            self.end_broadcast();
            let buffer = &mut self.deliveries.broadcast;
            buffer.clients.extend_from_slice(clients);
            buffer.forms = Form::ALL.map(Form::output);
        }
        self.deliveries.broadcast.heard.add(Heard::of(delivery));
        let outputs = &mut self.deliveries.broadcast.forms;
        let by_protocol = self.by_protocol;
        let forms = Form::ALL.into_iter().zip(outputs).filter(|(form, _)| form.is_wanted(&by_protocol));
        forms.for_each(|(form, output)| form.write(output, delivery));
    }

    /// Gives the clients of a broadcast its messages. This must be done before anything else is written to one of them.
    #[inline]
    pub fn end_broadcast(&mut self) {
        self.end_broadcast_with(false);
    }

    /// As [`Connections::end_broadcast`]. At the end of a turn each client is sent its messages on the same visit, while its
    /// connection is in the cache.
    #[inline]
    pub fn end_broadcast_with(&mut self, sends: bool) {
        if !self.deliveries.broadcast.clients.is_empty() {
            self.hand_out(sends);
        }
    }

    fn hand_out(&mut self, sends: bool) {
        let BroadcastBuffer { clients, forms, heard } = std::mem::take(&mut self.deliveries.broadcast);
        let shared = forms.each_ref().map(|form| form.single().map(Arc::<[u8]>::from));
        for client in &clients {
            let Some(slot) = self.slot_of(*client) else { continue };
            let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.session.closing)
            else {
                continue;
            };
            let form = connection.protocol.form(&connection.session) as usize;
            if !shared[form].as_ref().is_some_and(|shared| connection.output.share(shared)) {
                connection.output.lend(|| self.pool.take_one_of(clients.len()));
                connection.output.copy(&forms[form]);
            }
            connection.protocol.end_messages(&mut connection.output, heard);
            if connection.turn.told {
                continue;
            }
            if sends {
                self.send(slot);
            } else {
                self.tell(slot);
            }
        }
    }
}
