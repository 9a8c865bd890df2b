//! The connections of one thread: serving new ones, reading, writing, and closing them.
//!
//! **Invariant C1:** a slot names one connection until [`Connections::close`]. A closed connection stands in no list, and
//! its slot is not given to another one while requests of this turn name it.
use std::os::fd::AsRawFd;
use std::sync::Arc;

use hashbrown::HashMap;
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use polder_engine::Counter;
use polder_hub::query;
use polder_runtime::session::SyncRequest;
use polder_runtime::{Session, acl, blocking};
use polder_wire::Output;

use super::away::TurnAway;
use super::disk_waits::DiskWaits;
use super::waiters::Waiters;
use crate::connection::Connection;
use crate::feeds::Handover;
use crate::filter::{Datagrams, Filter};
use crate::host::Process;
use crate::listener::{Arrival, PROTECTED, prepare};
use crate::tls;
use crate::transfer::{Flow, Pool};
use polder_protocols::batch::{Batch, Left, Rejection};
use polder_protocols::doors::Spoken;
use polder_protocols::guest_rules::GuestRules;
use polder_protocols::limits::ServerLimits;
use polder_protocols::sessions::{Cover, Due, Form, Heard, TickInputs};

/// Sockets of connections have the tokens from here on.
pub const FIRST_TOKEN: usize = 1024;
/// How long a connection that is to be closed may take to read its last replies.
const CLOSE_PATIENCE_MS: u64 = 10_000;

/// The connections of a turn, and what each of them has sent.
pub type TurnInputs<'t> = (&'t [usize], &'t [Vec<u8>]);

/// The connections of one thread.
pub struct Connections {
    pub process: Arc<Process>,
    /// The number of the thread.
    pub number: usize,
    pub slots: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    slots_by_client: HashMap<u64, usize>,
    /// Connections that the next turn looks at.
    pub ready: Vec<usize>,
    pub waiters: Waiters,
    pub deliveries: Deliveries,
    pub pool: Pool,
    pub limits: ServerLimits,
    /// The slots that this turn works for.
    pub in_turn: InTurn,
    /// The clock of this turn.
    pub now_ms: u64,
    traffic: Traffic,
    /// Connections by their door's protocol. Without those of a protocol no message is written in its forms.
    pub by_protocol: [usize; Spoken::COUNT],
    /// Whether the memory of clients is counted.
    pub weighs: bool,
    /// Why no call that needs the data is run now.
    pub turns_away: Option<&'static TurnAway>,
    pub disk: DiskWaits,
    /// Connections whose clients become replicas at the end of the turn.
    leaving: Vec<usize>,
}

/// Messages on their way to clients.
#[derive(Default)]
pub struct Deliveries {
    /// Connections that have something to send although they are not among those of the turn.
    pub told: Vec<usize>,
    pub broadcast: BroadcastBuffer,
    /// There are more messages than one turn reads.
    pub more: bool,
}

/// Messages on their way to the same, numerous clients. Each is written once in each form, each client is visited once for
/// all of them, and a client that gets nothing else shares the bytes with the others.
#[derive(Default)]
pub struct BroadcastBuffer {
    pub clients: Vec<u64>,
    pub forms: [Output; Form::ALL.len()],
    pub heard: Heard,
}

/// The slots of a turn.
#[derive(Default)]
pub struct InTurn {
    /// Those whose requests this turn has taken.
    pub taken: Vec<usize>,
    /// Those of them whose part in the turn is over, because a script has become slow: their input is their own again.
    pub released: Vec<usize>,
}

/// Bytes that were received and sent since they were last counted.
#[derive(Default)]
struct Traffic {
    bytes_in: u64,
    bytes_out: u64,
}

impl Connections {
    /// No connection.
    pub fn new(process: Arc<Process>, number: usize, now_ms: u64) -> Connections {
        let limits = ServerLimits::of(&process.settings, process.ceiling());
        Connections {
            process,
            number,
            slots: Vec::new(),
            free: Vec::new(),
            slots_by_client: HashMap::new(),
            ready: Vec::new(),
            waiters: Waiters::default(),
            deliveries: Deliveries::default(),
            pool: Pool::default(),
            limits,
            in_turn: InTurn::default(),
            now_ms,
            traffic: Traffic::default(),
            by_protocol: [0; Spoken::COUNT],
            weighs: false,
            turns_away: None,
            disk: DiskWaits::default(),
            leaving: Vec::new(),
        }
    }

    /// The slot of a client.
    pub fn slot_of(&self, client: u64) -> Option<usize> {
        self.slots_by_client.get(&client).copied()
    }

    /// Begins to serve a client; the thread `counted_by` has counted it.
    pub fn adopt(&mut self, arrival: Arrival, counted_by: usize, registry: &Registry) {
        // C1. While a script runs, clients come and go in the middle of a turn.
        let free = self
            .free
            .iter()
            .rposition(|slot| !self.in_turn.taken.contains(slot))
            .map(|at| self.free.swap_remove(at));
        let slot = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let Arrival { socket, origin } = arrival;
        let filter = match (origin.tls, origin.door.takes_datagrams()) {
            (true, _) => self.process.tls.filter().map(Some),
            (false, true) => registry
                .try_clone()
                .map(|registry| Some(Box::new(Filter::datagrams(Datagrams::new(registry))))),
            (false, false) => Ok(None),
        };
        let prepared =
            if origin.door.is_tcp() { prepare(&socket, self.limits.keepalive_seconds) } else { Ok(()) };
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Token(slot + FIRST_TOKEN);
        let registered =
            prepared.and_then(|()| registry.register(&mut SourceFd(&socket.as_raw_fd()), token, interest));
        let filter = match registered.and(filter) {
            Ok(filter) => filter,
            Err(error) => {
                tracing::debug!(%error, "a client went before it was served");
                self.free.push(slot);
                self.process.mailboxes[counted_by].relieve();
                return self.process.clients.dismiss(origin.door);
            }
        };
        let id = polder_hub::next_client(self.process.memory.table());
        let mut session = Session::connected(id, &*self.process, self.now_ms);
        session.caller.parks = true;
        let (door, is_encrypted) = (origin.door, origin.tls);
        if door.protocol == Spoken::Memcached {
            session.caller.db = self.limits.memcached.database;
        }
        let record = self.process.clients.enter(id, counted_by, origin, self.now_ms);
        record.show(&session);
        self.process.memory.table().count(Counter::Connections, 1);
        let mut connection = Connection::new(socket, session, door, filter, record);
        connection.greet(&*self.process, if is_encrypted { Cover::Tls } else { Cover::None });
        connection.beat(0);
        self.slots_by_client.insert(id, slot);
        self.by_protocol[door.protocol as usize] += 1;
        self.slots[slot] = Some(Box::new(connection));
        self.ready.push(slot);
    }

    /// Learns from the poll what a socket can do now.
    pub fn notice(&mut self, slot: usize, event: &Event) {
        let Some(connection) = &mut self.slots[slot] else { return };
        if event.is_readable() || event.is_error() {
            connection.ready.readable = true;
        }
        connection.ready.half_closed |= event.is_read_closed();
        if connection.ready.half_closed && connection.waits() {
            return self.close(slot);
        }
        if event.is_writable() {
            connection.ready.blocked = false;
        }
        // The first event of a socket says that it takes bytes, which was known.
        if (connection.ready.readable || connection.has_output()) && !connection.turn.queued {
            connection.turn.queued = true;
            self.ready.push(slot);
        }
    }

    /// Puts a connection into the list of the next turn.
    pub fn queue(&mut self, slot: usize) {
        if let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.turn.queued) {
            connection.turn.queued = true;
            self.ready.push(slot);
        }
    }

    /// Lets a parked connection go on.
    pub fn unpark(&mut self, slot: usize) {
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.turn.parked = false;
        // Its next call may ask which clients wait, and this one does not.
        connection.beat(connection.output.waiting());
        self.queue(slot);
    }

    /// Has a connection sent to at the end of the turn.
    pub fn tell(&mut self, slot: usize) {
        if let Some(connection) = &mut self.slots[slot]
            && !std::mem::replace(&mut connection.turn.told, true)
        {
            self.deliveries.told.push(slot);
        }
    }

    /// Reads from a connection; returns whether it is still there.
    pub fn receive(&mut self, slot: usize) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        connection.turn.queued = false;
        if !connection.may_read() || connection.is_backed_up() {
            return true;
        }
        if let Some(datagrams) = connection.filter.as_mut().and_then(|filter| filter.guests()) {
            datagrams.rules = GuestRules {
                is_open: self.process.settings.users().now().is_open(),
                is_protected: self.process.settings.is_on(PROTECTED),
                ..self.limits.guests
            };
            if datagrams.rules.is_open && !connection.session.identity.authenticated {
                // The next client needs no log-in.
                self.close(slot);
                return false;
            }
        }
        let stats = &self.process.mailboxes[self.number].stats;
        stats.reads.add(1);
        match connection.receive(&mut self.pool, &self.limits) {
            Flow::Gone => {
                self.close(slot);
                return false;
            }
            Flow::Last(count) => {
                connection.ready.readable = connection.ready.half_closed;
                self.traffic.bytes_in += count as u64;
            }
            Flow::Some(count) => self.traffic.bytes_in += count as u64,
        }
        // Without a certificate the bytes are no operation of NATS.
        if connection.begins_tls()
            && let Ok(filter) = self.process.tls.filter()
            && let Err(error) = connection.begin_tls(filter)
        {
            tracing::debug!(%error, "closed: a client of NATS could not begin TLS");
            self.close(slot);
            return false;
        }
        if let Some(filter) = &mut connection.filter
            && filter.take_greeting()
            && self.limits.tls.logs_in_by_certificate
        {
            log_in_by_certificate(connection, &self.process);
        }
        if self.limits.is_over_request_limit(connection.door, &connection.session, connection.input.len()) {
            tracing::warn!(
                client = connection.session.identity.id,
                "closed: it reached client-query-buffer-limit"
            );
            stats.query_limit_closed.add(1);
            self.close(slot);
            return false;
        }
        true
    }

    /// Puts the requests of a connection from `at` on into the batch.
    pub fn parse<'b>(
        &mut self,
        slot: usize,
        place: u32,
        input: &'b [u8],
        at: &mut usize,
        batch: &mut Batch<'b>,
    ) -> Left {
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.is_halted()) else {
            return Left::Nothing;
        };
        let Connection { protocol, session, filter, output, .. } = &mut **connection;
        if let Some(datagrams) = filter.as_mut().and_then(|filter| filter.guests()) {
            let requests = (input, datagrams.ends(input.len()));
            return protocol.read_datagrams(
                (&self.limits, session),
                requests,
                at,
                (place, output.is_overfull()),
                batch,
            );
        }
        protocol.read(&self.limits, session, input, at, place, batch)
    }

    /// Writes what waits to be sent, closes the connection if it is to be closed, and queues it if it has more to do. What must not be told before the
    /// disk has it stays.
    pub fn send(&mut self, slot: usize) {
        if !self.waits_for_disk(slot) {
            return self.send_now(slot);
        }
        if self.is_over_output_limit(slot) {
            return self.close(slot);
        }
        if let Some(connection) = &mut self.slots[slot] {
            connection.beat(connection.output.waiting());
            connection.settle(&mut self.pool);
        }
    }

    /// As [`Connections::send`], without regard to the disk.
    pub fn send_now(&mut self, slot: usize) {
        if self.is_over_output_limit(slot) {
            return self.close(slot);
        }
        let Some(connection) = &mut self.slots[slot] else { return };
        if connection.record.is_doomed() {
            return self.close_doomed(slot);
        }
        // A client that has read the reply may ask at once, so the reply is shown as sent before it is. A client that only
        // listens has done nothing since.
        if !connection.output.is_shared() {
            connection.beat(0);
        }
        if !self.write_out(slot) {
            return self.close(slot);
        }
        let Some(connection) = &mut self.slots[slot] else { return };
        // A subscriber whose socket had been full is shown once more when all has gone.
        if !connection.output.is_empty()
            || connection.session.listens() && connection.record.activity().reply_bytes != 0
        {
            connection.beat(connection.output.waiting());
        }
        self.weigh(slot);
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.settle(&mut self.pool);
        if !connection.has_output() {
            connection.over_soft_since_ms = None;
            if connection.session.closing {
                if let Some(order) =
                    connection.session.replica.as_mut().and_then(|replica| replica.order.take())
                {
                    return self.leave(slot, order);
                }
                connection.finish(false);
                return self.close(slot);
            }
        }
        if connection.may_read() {
            self.queue(slot);
        }
    }

    /// Writes what waits to be sent, as far as the socket takes it; returns whether the client is still there.
    #[inline(always)]
    fn write_out(&mut self, slot: usize) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        let stats = &self.process.mailboxes[self.number].stats;
        while connection.has_output() && !connection.ready.blocked {
            stats.writes.add(1);
            match connection.send() {
                Flow::Gone => return false,
                Flow::Some(count) => self.traffic.bytes_out += count as u64,
                Flow::Last(count) => {
                    self.traffic.bytes_out += count as u64;
                    connection.ready.blocked = true;
                }
            }
        }
        connection.disk.partly_sent = connection.has_output();
        true
    }

    /// Closes a connection that is marked. If a call of its own has done that, the replies leave before, as far as the socket
    /// takes them.
    #[cold]
    fn close_doomed(&mut self, slot: usize) {
        let ends_itself = self.slots[slot].as_ref().is_some_and(|connection| connection.session.closing);
        if ends_itself
            && self.write_out(slot)
            && let Some(connection) = &mut self.slots[slot]
        {
            connection.finish(false);
        }
        self.close(slot);
    }

    /// Notes the memory of a connection after something was sent to it.
    #[inline]
    pub fn weigh(&mut self, slot: usize) {
        if self.weighs
            && let Some(connection) = &self.slots[slot]
        {
            self.process.clients.weigh(&connection.record, connection.record.memory());
        }
    }

    /// Whether more waits to be sent to a connection than `client-output-buffer-limit` allows.
    fn is_over_output_limit(&mut self, slot: usize) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        let limit =
            self.limits.output_of(connection.door, connection.protocol.is_nats(), &connection.session);
        let waiting = connection.output.waiting() as u64;
        if limit.soft == 0 || waiting <= limit.soft {
            connection.over_soft_since_ms = None;
        } else if connection.over_soft_since_ms.is_none() {
            connection.over_soft_since_ms = Some(self.now_ms);
        }
        let over_soft = connection
            .over_soft_since_ms
            .is_some_and(|since_ms| self.now_ms - since_ms > limit.soft_seconds * 1000);
        // What waits for a datagram's end is limited by itself.
        let over =
            !connection.door.takes_datagrams() && (over_soft || limit.hard != 0 && waiting > limit.hard);
        if over {
            tracing::warn!(
                client = connection.session.identity.id,
                bytes = waiting,
                "closed: it reached client-output-buffer-limit"
            );
            let stats = &self.process.mailboxes[self.number].stats;
            stats.reply_limit_closed.add(1);
            stats.nats.slow_closed.add(connection.protocol.is_nats().into());
        }
        over
    }

    /// Closes a connection and removes it from all lists (C1).
    pub fn close(&mut self, slot: usize) {
        drop(self.remove(slot));
    }

    /// Has the connection of a replica leave at the end of the turn (`feeds.rs`).
    fn leave(&mut self, slot: usize, order: SyncRequest) {
        let Some(connection) = &mut self.slots[slot] else { return };
        if connection.door.protocol != Spoken::Resp {
            connection.output.raw(b"-ERR replicas are fed at the port for RESP only\r\n");
            return self.send(slot);
        }
        connection.session.replica.get_or_insert_default().order = Some(order);
        if !self.leaving.contains(&slot) {
            self.leaving.push(slot);
        }
    }

    /// Hands the connections of replicas over to threads of their own.
    pub fn hand_replicas_over(&mut self, registry: &Registry) {
        for slot in std::mem::take(&mut self.leaving) {
            let Some(connection) = &self.slots[slot] else { continue };
            let (client, rest) =
                (connection.session.identity.id, connection.input[connection.taken..].to_vec());
            let process = self.process.clone();
            process.feeds.expect(connection.record.client(self.now_ms));
            let handover =
                self.remove(slot).and_then(|connection| handover_of(connection, rest, registry, self.now_ms));
            if let Some(handover) = handover {
                process.feeds.begin(&process.memory, &process.settings, handover);
            }
            process.feeds.miss(client);
        }
    }

    /// Removes a connection from all lists (C1).
    fn remove(&mut self, slot: usize) -> Option<Box<Connection>> {
        self.carry_traffic(slot);
        let mut connection = self.slots[slot].take()?;
        // Another client may get the slot in this very turn.
        self.leaving.retain(|leaving| *leaving != slot);
        connection.taken = connection.input.len();
        connection.settle(&mut self.pool);
        self.slots_by_client.remove(&connection.session.identity.id);
        self.by_protocol[connection.door.protocol as usize] -= 1;
        self.end_listening(&mut connection.session);
        self.process.clients.leave(&connection.record);
        self.process.mailboxes[connection.record.thread].relieve();
        self.deliveries.told.retain(|told| *told != slot);
        self.waiters.forget(slot, connection.turn.parked);
        self.disk.forget(slot);
        self.disk.forget_call(connection.session.identity.id);
        if connection.turn.queued {
            self.ready.retain(|ready| *ready != slot);
        }
        self.free.push(slot);
        self.follow_guests(&mut connection);
        Some(connection)
    }

    /// Where datagrams still come in, the next client takes the place of one that was closed.
    fn follow_guests(&mut self, connection: &mut Connection) {
        let Some(datagrams) = connection.filter.as_mut().and_then(|filter| filter.guests()) else { return };
        datagrams.leave(&connection.socket);
        if !connection.ready.half_closed && !self.process.is_stopping() {
            let process = &self.process;
            let next = process.listeners.guests(&process.clients, Some(connection.record.local_address()));
            next.into_iter().for_each(|guests| process.hand_over(guests));
        }
    }

    /// Ends the waits and subscriptions of a client that is gone.
    fn end_listening(&mut self, session: &mut Session) {
        if let Some(waiting) = &session.caller.waiting {
            self.waiters.forget_deadline(session.identity.id, waiting.due_ms());
        }
        let table = self.process.memory.table();
        blocking::leave(table, session);
        session.end_listening(table);
        query::forget(table, session.identity.id);
    }

    /// Closes connections that have been idle, have read too slowly, or are not done with their handshake for too long.
    pub fn sweep(&mut self) {
        let handshake_ms = self.limits.tls.handshake_seconds * 1000;
        let timeout_ms = self.limits.timeout_seconds * 1000;
        for slot in 0..self.slots.len() {
            self.carry_traffic(slot);
            let Some(connection) = &self.slots[slot] else { continue };
            let idle_ms = self.now_ms.saturating_sub(connection.session.clock.active_ms);
            // A subscriber says nothing for as long as it likes, as in Redis.
            let is_held = connection.disk.hold.is_some();
            let may_idle = is_held
                || connection.turn.parked
                || connection.session.listens()
                || connection.door.takes_datagrams();
            let idle = timeout_ms != 0 && idle_ms > timeout_ms && !may_idle;
            let stuck = connection.session.closing && !is_held && idle_ms > CLOSE_PATIENCE_MS;
            let handshaking = connection.filter.as_ref().is_some_and(|filter| filter.is_handshaking());
            let late = handshake_ms != 0 && handshaking && idle_ms > handshake_ms;
            if idle || stuck || late || self.is_over_output_limit(slot) {
                self.close(slot);
            } else {
                self.tick_protocol(slot);
            }
        }
    }

    /// Tells a client that its server ends, if its protocol has words for that.
    pub fn say_farewell(&mut self, slot: usize) {
        let process = self.process.clone();
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.is_halted()) else {
            return;
        };
        let Connection { protocol, session, output, .. } = &mut **connection;
        if protocol.is_nats() {
            output.lend(|| self.pool.take());
            protocol.inform((session, &*process), output);
            self.tell(slot);
        }
    }

    /// Shows the messages of a client of NATS to other threads, and adds them to those of the process.
    fn carry_traffic(&self, slot: usize) {
        if let Some(connection) = &self.slots[slot]
            && let Some(traffic) = connection.protocol.traffic()
        {
            let new = connection.record.carry(traffic);
            self.process.mailboxes[self.number].stats.nats.add(&new);
        }
    }

    /// Does what the protocol of a connection says is due: a client that is too slow is closed.
    fn tick_protocol(&mut self, slot: usize) {
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.is_halted()) else {
            return;
        };
        let Connection { protocol, filter, session, output, input, taken, .. } = &mut **connection;
        let pending = input.len().saturating_sub(*taken);
        let inputs = TickInputs {
            now_ms: self.now_ms,
            active_ms: session.clock.active_ms,
            pending,
            waiting: output.waiting(),
            is_stranger: !session.identity.authenticated,
            servers_version: self.process.listeners.neighbours.version(),
        };
        let framed = filter.as_mut().filter(|filter| filter.is_framed());
        let due = framed
            .and_then(|filter| filter.tick(self.now_ms))
            .or_else(|| protocol.tick(&self.limits, inputs));
        let rejection = match due {
            None => return,
            Some(Due::Sent) => return self.tell(slot),
            Some(Due::News) => {
                output.lend(|| self.pool.take());
                protocol.inform((session, &*self.process), output);
                return self.tell(slot);
            }
            Some(Due::Sign) => {
                output.lend(|| self.pool.take());
                protocol.sign(output);
                return self.tell(slot);
            }
            Some(Due::End(rejection)) => rejection,
        };
        tracing::debug!(client = session.identity.id, "closed: it was idle, or too slow");
        if matches!(rejection, Rejection::Silence) {
            return self.close(slot);
        }
        output.lend(|| self.pool.take());
        protocol.reject(&rejection, session, &*self.process, output);
        self.tell(slot);
    }

    /// Renews the users of all sessions if any user has changed, and closes the connections of users that are deleted.
    #[inline]
    pub fn renew_users(&mut self, version: &mut u64) {
        let process = self.process.clone();
        let users = process.settings.users();
        users.refresh(process.memory.table());
        if *version == users.version() {
            return;
        }
        *version = users.version();
        for slot in 0..self.slots.len() {
            let Some(connection) = &mut self.slots[slot] else { continue };
            if acl::renew(&mut connection.session, users) == acl::Standing::Gone {
                self.close(slot);
            }
        }
    }

    /// Counts what was received and sent.
    #[inline]
    pub fn count_traffic(&mut self) {
        let table = self.process.memory.table();
        table.count(Counter::BytesIn, std::mem::take(&mut self.traffic.bytes_in));
        table.count(Counter::BytesOut, std::mem::take(&mut self.traffic.bytes_out));
    }
}

/// Logs a client in as the user that its certificate names, if there is one.
#[cold]
fn log_in_by_certificate(connection: &mut Connection, process: &Process) {
    let Some(name) =
        connection.filter.as_ref().and_then(|filter| filter.certificate()).and_then(tls::common_name)
    else {
        return;
    };
    let users = process.settings.users();
    users.refresh(process.memory.table());
    if !acl::admit_by_certificate(&mut connection.session, users, name) {
        let (user, address) = (String::from_utf8_lossy(name), connection.record.address());
        tracing::info!(
            ?user,
            address,
            "the user that a certificate names is off or unknown; the client is not logged in"
        );
        return;
    }
    connection.record.show(&connection.session);
}

/// The host of an address with a port.
fn host_of(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// A connection that leaves its event loop for a feed; none if it is to be closed.
fn handover_of(
    mut connection: Box<Connection>,
    rest: Vec<u8>,
    registry: &Registry,
    now_ms: u64,
) -> Option<Handover> {
    let replica = connection.session.replica.take()?;
    // A client that is killed from here on is found among those that the feeds expect.
    if connection.record.is_doomed() {
        return None;
    }
    // The feed has the socket from here on, so closing a descriptor would not end the watching.
    if let Err(error) = registry.deregister(&mut SourceFd(&connection.socket.as_raw_fd())) {
        tracing::warn!(%error, "closed: the connection of a replica could not be handed over");
        return None;
    }
    Some(Handover {
        peer: host_of(connection.record.address()),
        face: connection.record.client(now_ms),
        user: connection.session.identity.user.to_vec(),
        rest,
        socket: connection.socket,
        filter: connection.filter,
        replica,
    })
}
