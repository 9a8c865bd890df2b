//! What a loop hears from other threads and processes: messages for its clients, and keys that some of them wait for.
//!
//! A call that waits is out of the connection's input already; its arguments are kept in the session, and the connection is parked, so that
//! what follows stays unexecuted. It is run again where it is woken, in the middle of a turn; the connection goes on with the next.
use mio::unix::SourceFd;
use polder_base::Reply;
use polder_commands::{Host, Progress, Session, elsewhere, give_up, resume, time_out, waiting};
use polder_engine::Table;
use polder_hub::ask::{self, Asker};
use polder_hub::track::{close_turn, counts, limit};
use polder_hub::{Delivery, Hearer, attend, hear};

use super::*;
use crate::sessions::Form;

impl Loop {
    /// Makes the thread able to hear, if it is not yet. Where no seat or no bell is to be had it looks by itself each time it wakes, and tries again.
    pub(super) fn hang_bell(&mut self) {
        if self.bell.is_some() || self.ended_us / 1000 < self.bell_due_ms {
            return;
        }
        let process = self.process.clone();
        let table = process.memory.table();
        let bell = attend(table).and_then(|()| table.seat()).and_then(|seat| seat.bell());
        let hung = bell.and_then(|bell| {
            let registered = self.poll.registry().register(&mut SourceFd(&bell.as_raw_fd()), BELL, Interest::READABLE);
            registered.map_err(|error| polder_engine::Fault::System(error.to_string()))?;
            Ok(bell)
        });
        match hung {
            Ok(bell) => {
                self.bell = Some(bell);
                if let Ok(seat) = table.seat() {
                    // Set once: a thread has one seat.
                    let _ = process.mailboxes[self.number].thread.set((seat.index(), seat.life()));
                }
                ask::serve(table);
            }
            Err(fault) => {
                if std::mem::replace(&mut self.bell_due_ms, self.ended_us / 1000 + BELL_REST_MS) == 0 {
                    tracing::warn!(%fault, "this thread cannot be woken by other processes yet: their messages wait until it wakes");
                }
            }
        }
    }

    /// Says that the thread is about to sleep; answers false when there is something to do first.
    pub(super) fn doze(&self) -> bool {
        match self.process.memory.table().seat() {
            Ok(seat) if self.bell.is_some() => seat.doze(),
            _ => true,
        }
    }

    pub(super) fn rise(&self) {
        if let Ok(seat) = self.process.memory.table().seat() {
            seat.rise();
        }
    }

    /// Takes out of the bell what woke us.
    pub(super) fn silence_bell(&self) {
        let Some(bell) = &self.bell else { return };
        let mut rings = [0; 256];
        while rustix::io::read(bell, &mut rings).is_ok_and(|count| count == rings.len()) {}
    }

    /// Reads the thread's letters.
    pub(super) fn hear(&mut self) {
        let process = self.process.clone();
        self.more_mail = hear(process.memory.table(), self);
    }

    /// What is due once a second.
    pub(super) fn tick(&mut self) {
        let process = self.process.clone();
        polder_hub::ears::tick(process.memory.table(), self);
        self.end_cast();
    }

    /// Ends a turn's hearing: what was kept back so that it makes one message.
    pub(super) fn close_hearing(&mut self) {
        let process = self.process.clone();
        let table = process.memory.table();
        close_turn(table, self);
        self.end_cast_with(true);
        let most = self.limits.tracked_keys_max;
        if most != 0 {
            limit(table, self, most);
        }
        self.count_tracked();
    }

    /// Notes for INFO what this thread's clients track.
    fn count_tracked(&self) {
        let (keys, items, prefixes) = counts(self.process.memory.table());
        let stats = &self.process.mailboxes[self.number].stats;
        for (count, number) in [(&stats.tracked_keys, keys), (&stats.tracked_items, items), (&stats.tracked_prefixes, prefixes)] {
            count.set(number as u64);
        }
    }

    /// Tells a client that tracks what it must not keep: keys that it has read, and of whose change it would not hear.
    pub(super) fn tell_unsure(&mut self, slot: usize, keys: &[Vec<u8>]) {
        let Some(connection) = &self.slots[slot] else { return };
        let client = connection.session.id;
        for key in keys {
            self.deliver(&[client], Delivery::Invalidation { keys: Some(&[key]), redirected: false });
        }
    }

    /// Parks a connection whose call waits for a key.
    pub(super) fn begin_wait(&mut self, slot: usize, note: u32) {
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.park();
        connection.waiting_note = note;
        let awaited = connection.session.waiting.as_ref().map(|waiting| waiting.subject());
        let awaited = awaited.into_iter().flat_map(|(db, keys, or_its_end)| keys.iter().map(move |key| (db, key.clone(), or_its_end)));
        connection.record.begin_wait(awaited.collect());
        let until_ms = connection.session.waiting.as_ref().map_or(0, |waiting| waiting.until_ms);
        if until_ms != u64::MAX {
            self.deadlines.insert((until_ms, connection.session.id));
        }
        if connection.half_closed {
            connection.session.closing = true;
        }
    }

    /// Runs the call again that a client waits with.
    pub(super) fn retry_waiting(&mut self, client: u64) {
        self.end_cast();
        let Some(&slot) = self.slots_by_client.get(&client) else { return };
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| connection.waits()) else { return };
        if self.pause.is_some_and(|pause| !pause.writers_only || waiting::writes(&connection.session)) {
            if !self.postponed.contains(&client) {
                self.postponed.push(client);
            }
            return;
        }
        // Who has unblocked it has been told that it gets nothing.
        if !connection.record.claim_wait() {
            return;
        }
        let until_ms = connection.session.waiting.as_ref().map_or(0, |waiting| waiting.until_ms);
        let Connection { session, output, protocol, record, waiting_note, .. } = &mut **connection;
        output.lend(|| self.pool.take());
        session.turn_ms = self.now_ms;
        session.patience_us = self.patience_us;
        let process = &*self.process;
        match protocol.reply(output, *waiting_note, |reply| resume(process.memory.table(), session, process, reply)) {
            Progress::Waiting => record.go_on_waiting(),
            Progress::Busy => {
                record.go_on_waiting();
                self.patience_us = SPENT_PATIENCE_US;
                if !self.barred.contains(&slot) {
                    self.barred.push_back(slot);
                }
            }
            Progress::Answered => self.end_wait(slot, until_ms),
        }
    }

    /// Ends a client's wait without what it waited for.
    pub(super) fn give_up(&mut self, client: u64, with_error: bool) {
        self.end_wait_by(client, |table, session, host, output| give_up(table, session, host, with_error, output));
    }

    /// Ends a client's wait by a function that answers its call.
    fn end_wait_by(&mut self, client: u64, end: impl FnOnce(&Table, &mut Session, &dyn Host, &mut dyn Reply)) {
        self.end_cast();
        let Some(&slot) = self.slots_by_client.get(&client) else { return };
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| connection.waits()) else { return };
        let until_ms = connection.session.waiting.as_ref().map_or(0, |waiting| waiting.until_ms);
        let Connection { session, output, protocol, waiting_note, .. } = &mut **connection;
        output.lend(|| self.pool.take());
        session.turn_ms = self.now_ms;
        session.patience_us = self.patience_us;
        let process = &*self.process;
        protocol.reply(output, *waiting_note, |reply| end(process.memory.table(), session, process, reply));
        self.end_wait(slot, until_ms);
    }

    /// A client waits no longer. Its next requests are executed in the next turn: those of this one may have been read and passed over.
    fn end_wait(&mut self, slot: usize, until_ms: u64) {
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.record.end_wait();
        self.deadlines.remove(&(until_ms, connection.session.id));
        self.barred.retain(|barred| *barred != slot);
        self.revived.push(slot);
        if !std::mem::replace(&mut connection.told, true) {
            self.told.push(slot);
        }
    }

    /// Ends the waits whose time is over.
    pub(super) fn end_waits(&mut self) {
        while let Some(&(until_ms, client)) = self.deadlines.first()
            && until_ms <= self.now_ms
        {
            self.deadlines.pop_first();
            // Unless somebody has unblocked it: that is told by a letter.
            if self.process.clients.find(client).is_some_and(|record| record.claim_wait()) {
                self.end_wait_by(client, |table, session, host, output| time_out(table, session, host, output));
            }
        }
        self.send_told();
    }

    /// Sends what was written for clients that are not among those of this turn, and lets those go on who wait no longer.
    pub(super) fn send_told(&mut self) {
        self.close_hearing();
        for slot in std::mem::take(&mut self.revived) {
            self.set_free(slot);
        }
        for slot in std::mem::take(&mut self.told) {
            if let Some(connection) = &mut self.slots[slot] {
                connection.told = false;
            }
            self.send(slot);
        }
    }

    /// Forgets what a client that is gone has waited for and listened to.
    pub(super) fn forget_ears(&mut self, session: &mut Session) {
        if let Some(waiting) = &session.waiting {
            self.deadlines.remove(&(waiting.until_ms, session.id));
        }
        waiting::leave(self.process.memory.table(), session);
        session.end_listening(self.process.memory.table());
        ask::forget(self.process.memory.table(), session.id);
    }
}

/// Messages on their way to the same many clients: they are written once, each client is visited once for all of them, and whoever has nothing
/// else to get shares the bytes with the others.
#[derive(Default)]
pub(super) struct Cast {
    clients: Vec<u64>,
    /// The messages in each form.
    forms: [Output; Form::ALL.len()],
}

/// So many clients are worth a cast, and so many bytes of messages are enough for one.
const CAST_MIN: usize = 16;
const CAST_BYTES_MAX: usize = 32 << 10;

impl Loop {
    /// Adds a message to what its many hearers are about to get.
    fn cast(&mut self, clients: &[u64], delivery: &Delivery<'_>) {
        if self.cast.clients != clients || self.cast.forms[0].waiting() > CAST_BYTES_MAX {
            self.end_cast();
            self.cast.clients.extend_from_slice(clients);
            self.cast.forms = Form::ALL.map(Form::output);
        }
        Form::ALL.into_iter().zip(&mut self.cast.forms).for_each(|(form, output)| form.write(output, delivery));
    }

    /// Gives the hearers of a cast what there is for them: before anything else is written to one of them.
    #[inline]
    pub(super) fn end_cast(&mut self) {
        self.end_cast_with(false);
    }

    /// As [`Loop::end_cast`]; at the end of a turn each of them is sent it on the same visit, while what is known of the connection is at hand.
    fn end_cast_with(&mut self, sends: bool) {
        if !self.cast.clients.is_empty() {
            self.hand_out(sends);
        }
    }

    fn hand_out(&mut self, sends: bool) {
        let Cast { clients, forms } = std::mem::take(&mut self.cast);
        let shared = forms.each_ref().map(|form| form.single().map(Arc::<[u8]>::from));
        for client in &clients {
            let Some(&slot) = self.slots_by_client.get(client) else { continue };
            let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.session.closing) else { continue };
            let form = connection.protocol.form(&connection.session) as usize;
            if !shared[form].as_ref().is_some_and(|shared| connection.output.share(shared)) {
                connection.output.lend(|| self.pool.take_one_of(clients.len()));
                connection.output.copy(&forms[form]);
            }
            if connection.told {
                continue;
            }
            if sends {
                self.send(slot);
            } else {
                connection.told = true;
                self.told.push(slot);
            }
        }
    }
}

impl Hearer for Loop {
    fn deliver(&mut self, clients: &[u64], delivery: Delivery<'_>) {
        let is_message = matches!(delivery, Delivery::Message { .. } | Delivery::PatternMessage { .. } | Delivery::ShardMessage { .. });
        if is_message && clients.len() >= CAST_MIN {
            return self.cast(clients, &delivery);
        }
        self.end_cast();
        // Each form is written once, however many hear it.
        let mut forms = Form::ALL.map(|_| None::<Output>);
        for client in clients {
            let Some(&slot) = self.slots_by_client.get(client) else { continue };
            let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.session.closing) else { continue };
            if let Delivery::RedirectionBroken { client: redirect } = delivery {
                let tracking = connection.session.tracking.as_mut().filter(|tracking| tracking.redirect() == redirect);
                let Some(tracking) = tracking else { continue };
                Arc::make_mut(tracking).broken = true;
            }
            if !connection.protocol.accepts(&connection.session, &delivery) {
                continue;
            }
            connection.output.lend(|| self.pool.take_one_of(clients.len()));
            if let [_] = clients {
                connection.protocol.deliver(&mut connection.output, &delivery);
            } else {
                let form = connection.protocol.form(&connection.session);
                let written = forms[form as usize].get_or_insert_with(|| {
                    let mut output = form.output();
                    form.write(&mut output, &delivery);
                    output
                });
                connection.output.copy(written);
            }
            if !std::mem::replace(&mut connection.told, true) {
                self.told.push(slot);
            }
        }
    }

    fn retry(&mut self, client: u64) {
        self.retry_waiting(client);
    }

    fn knows(&self, client: u64) -> bool {
        self.process.clients.find(client).is_some()
    }

    fn missed(&mut self, clients: &[u64]) {
        self.end_cast();
        for client in clients {
            let Some(&slot) = self.slots_by_client.get(client) else { continue };
            let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.session.closing) else { continue };
            tracing::warn!(client, "closed: more messages came for this thread's clients than it could keep, and some of them are lost");
            self.process.mailboxes[self.number].stats.reply_limit_closed.add(1);
            connection.session.closing = true;
            if !std::mem::replace(&mut connection.told, true) {
                self.told.push(slot);
            }
        }
    }

    fn asked(&mut self, asker: Asker, words: &[&[u8]]) {
        self.end_cast();
        let process = self.process.clone();
        if process.claim(asker) {
            ask::answer(process.memory.table(), asker, &process.threads(), &elsewhere::answer(&*process, words));
        }
    }

    fn look(&mut self) {
        self.process.mailboxes[self.number].wake();
    }
}
