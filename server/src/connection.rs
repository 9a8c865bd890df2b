//! A socket with its session and its buffers.
//!
//! ```text
//!   input:  [ executed | whole requests ... | part of one ]      lent by the pool while there is something in it
//!            taken ----^
//!   output: segments that wait to be sent                         (wire::Output)
//! ```
//!
//! A connection that has nothing to do holds no buffer: a thread with ten thousand idle clients needs little memory, and
//! the few buffers that are in use stay in the cache.
use std::io;
use std::sync::Arc;

use polder_base::Protocol as RespVersion;
use polder_engine::Memory;
use polder_runtime::{Host, Progress, Session};
use polder_wire::Output;
use socket2::Socket;

use crate::clients::{Activity, Record};
use crate::filter::{self, Filter, Framed};
use crate::holds::DiskState;
use crate::transfer::{self, Flow, Pool, READ_BYTES};
use polder_protocols::batch::Odd;
use polder_protocols::doors::{Door, Spoken};
use polder_protocols::limits::ServerLimits;
use polder_protocols::sessions::{Change, Cover, Protocol, WebSocket};

/// The room that a long argument gets at first; and later, as a multiple of the bytes that have come.
const ANNOUNCED_BYTES: usize = 256 << 10;
const ANNOUNCED_TIMES: usize = 4;

/// One client's connection.
pub struct Connection {
    pub socket: Socket,
    pub session: Session,
    pub door: &'static Door,
    pub protocol: Protocol,
    /// What stands between the socket and the buffers; `None` on most connections.
    pub filter: Option<Box<Filter>>,
    pub input: Vec<u8>,
    /// How much of the input has been executed.
    pub taken: usize,
    pub output: Output,
    pub record: Arc<Record>,
    pub ready: Readiness,
    pub turn: TurnState,
    /// The note of the frame whose call waits for a key.
    pub waiting_note: u32,
    /// Since when more waits to be sent than the soft limit allows.
    pub over_soft_since_ms: Option<u64>,
    pub disk: DiskState,
}

/// What the poll has said of a connection's socket, as far as that still holds.
#[derive(Default)]
pub struct Readiness {
    /// The socket may have something to read.
    pub readable: bool,
    /// The peer has closed its side: read until its end, whatever the poll says.
    pub half_closed: bool,
    /// The socket took less than it was given; the poll says when it takes more.
    pub blocked: bool,
}

/// Where a connection stands in its thread's turns.
#[derive(Default)]
pub struct TurnState {
    /// It stands in the list of the next turn.
    pub queued: bool,
    /// It stands in the list of those that are sent to at the end of the turn.
    pub told: bool,
    /// Its record shows calls that wait for EXEC.
    pub shows_queue: bool,
    /// It waits (`turn/waiters.rs`); nothing more of its input is executed before.
    pub parked: bool,
    /// Whole requests wait in the input since it was parked in front of them.
    pub held_up: bool,
    /// The next request has met a lock that stayed taken, and has not been executed since.
    pub barred: bool,
}

impl Connection {
    /// The connection of a client that has just come in by a door.
    pub fn new(
        socket: Socket,
        mut session: Session,
        door: &'static Door,
        filter: Option<Box<Filter>>,
        record: Arc<Record>,
    ) -> Connection {
        // The replies of other protocols are made from the richest form.
        if door.protocol != Spoken::Resp {
            session.protocol = RespVersion::Resp3;
        }
        Connection {
            socket,
            session,
            door,
            protocol: Protocol::begin(door.protocol),
            filter,
            input: Vec::new(),
            taken: 0,
            output: Output::default(),
            record,
            waiting_note: 0,
            over_soft_since_ms: None,
            ready: Readiness { readable: true, ..Readiness::default() },
            turn: TurnState { queued: true, ..TurnState::default() },
            disk: DiskState::default(),
        }
    }

    /// Reads once. A long argument that is under way is read to where it belongs in the request.
    ///
    /// A peer that has closed its side for writing may still read, so it gets its replies before the connection is closed. A
    /// peer that has closed both sides looks the same until something is sent to it.
    ///
    /// The limits are those for a message of a WebSocket.
    pub fn receive(&mut self, pool: &mut Pool, limits: &ServerLimits) -> Flow {
        if self.input.capacity() == 0 {
            self.input = pool.take();
        }
        if self.filter.is_some() {
            return self.receive_filtered(pool, limits);
        }
        let missing = self.protocol.missing(self.input.len());
        let spare = self.input.capacity() - self.input.len();
        // The length is only announced. Room is made for a few times as much as has come, so that the bytes are moved seldom and
        // an announced length takes no memory.
        let wanted = missing.min(ANNOUNCED_BYTES.max(self.input.len() * (ANNOUNCED_TIMES - 1)));
        if missing > spare && spare < READ_BYTES && self.input.try_reserve_exact(wanted).is_err() {
            tracing::error!(
                client = self.session.identity.id,
                bytes = missing,
                "no memory for a long argument: connection closed"
            );
            return Flow::Gone;
        }
        if missing == 0 && spare < READ_BYTES / 4 {
            self.input.reserve(READ_BYTES);
        }
        match transfer::receive(&self.socket, &mut self.input) {
            Some(flow) => flow,
            None => self.note_end(),
        }
    }

    /// As [`Connection::receive`], through the filter.
    #[cold]
    fn receive_filtered(&mut self, pool: &mut Pool, limits: &ServerLimits) -> Flow {
        let most = limits.request_bytes_of(self.door, &self.session);
        let Some(filter) = &mut self.filter else { return Flow::Gone };
        let is_new = filter.is_handshaking();
        match filter.receive(&self.socket, pool, &mut self.input, most) {
            // The port is closed.
            Ok(Flow::Last(0)) if self.ready.half_closed && filter.guests().is_some() => Flow::Gone,
            Ok(Flow::Last(count)) if filter.has_ended() => {
                // The socket may never say so.
                self.ready.half_closed = true;
                self.session.closing |= self.waits();
                if count == 0 { self.note_end() } else { Flow::Some(count) }
            }
            Ok(flow) => flow,
            Err(error) => {
                let address = self.record.address();
                match is_new {
                    true => filter::tell_failure(&error, address),
                    false => tracing::debug!(%error, address, "a connection with TLS is closed"),
                }
                Flow::Gone
            }
        }
    }

    /// What follows when the peer sends nothing more.
    fn note_end(&mut self) -> Flow {
        if self.turn.held_up {
            return Flow::Last(0);
        }
        if self.has_output() {
            self.session.closing = true;
            return Flow::Last(0);
        }
        Flow::Gone
    }

    /// Returns true if the first bytes of TLS have come, which a client of NATS may begin when it has read INFO.
    pub fn begins_tls(&self) -> bool {
        const HANDSHAKE: u8 = 0x16;
        self.door.protocol == Spoken::Nats
            && self.filter.is_none()
            && self.session.tally.calls == 0
            && self.taken == 0
            && self.input.first() == Some(&HANDSHAKE)
    }

    /// Goes on in TLS: what has come are its first bytes.
    ///
    /// # Errors
    /// The peer's offence.
    pub fn begin_tls(&mut self, mut filter: Box<Filter>) -> Result<(), rustls::Error> {
        let records = std::mem::take(&mut self.input);
        let taken = filter.take_in(&self.socket, &records, &mut self.input);
        self.filter = Some(filter);
        taken
    }

    /// Runs what is no call of plain words.
    pub fn run_odd(&mut self, odd: &Odd, note: u32, (host, memory): (&dyn Host, &Memory)) -> Progress {
        let Connection { session, output, protocol, .. } = self;
        match odd {
            Odd::Words(words) => {
                let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                return protocol.reply(output, note, |reply| memory.execute(session, host, &args, reply));
            }
            Odd::Nothing => {}
            Odd::Own => return self.run_own(note, (host, memory)),
            Odd::Wrong(text) => protocol.reply(output, note, |reply| reply.error(text)),
            Odd::Rejected(rejection) => protocol.reject(rejection, session, host, output),
        }
        Progress::Answered
    }

    /// Replies to a request of the protocol's own, which may change what the connection is.
    #[cold]
    fn run_own(&mut self, note: u32, host: (&dyn Host, &Memory)) -> Progress {
        let progress = self.protocol.own(note, &mut self.session, host, &mut self.output);
        match self.protocol.take_change() {
            None => {}
            Some(Change::Stream(name)) => self.record.rename(name),
            Some(Change::WebSocket(web_socket)) => self.become_web_socket(&web_socket, host.0),
            Some(Change::Known) => self.record.show(&self.session),
            Some(Change::Guest) => {
                if let Some(datagrams) = self.filter.as_mut().and_then(|filter| filter.guests()) {
                    datagrams.end_guest(&mut self.output);
                }
            }
        }
        progress
    }

    /// Speaks another protocol from now on, in frames. The response of the handshake is the last of HTTP in the output.
    fn become_web_socket(&mut self, web_socket: &WebSocket, host: &dyn Host) {
        let shape = web_socket.shape();
        self.record.rename(web_socket.name);
        self.protocol = web_socket.protocol();
        self.session.protocol =
            if matches!(self.protocol, Protocol::Resp(_)) { RespVersion::Resp2 } else { RespVersion::Resp3 };
        self.filter.get_or_insert_default().frame(Framed::new(
            shape,
            web_socket.deflates,
            self.output.waiting(),
        ));
        self.greet(host, Cover::WebSocket);
    }

    /// Writes what a new client gets unasked.
    pub fn greet(&mut self, host: &dyn Host, cover: Cover) {
        self.protocol.greet((&self.session, host), cover, &mut self.output);
    }

    /// Whether there is something to send.
    #[inline]
    pub fn has_output(&self) -> bool {
        match &self.filter {
            None => !self.output.is_empty(),
            Some(filter) => filter.has_output(&self.output),
        }
    }

    /// Writes once, all that fits.
    pub fn send(&mut self) -> Flow {
        if let Some(filter) = &mut self.filter {
            return filter.send(&self.socket, &mut self.output);
        }
        transfer::send(&self.socket, &mut self.output)
    }

    /// Returns the buffers that hold nothing, and moves a request that has not come whole to the front of the input.
    pub fn settle(&mut self, pool: &mut Pool) {
        if self.taken == self.input.len() {
            self.taken = 0;
            pool.give(std::mem::take(&mut self.input));
        } else if self.taken > 0 {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        // A connection that goes on in the next turn still has its requests in front of the end of its input.
        if !self.turn.queued {
            self.turn.held_up = self.turn.parked;
        }
        // A parked connection has not run its call yet: the pause goes on, or the call has met a lock.
        if !self.turn.parked {
            self.record.end_postponement();
        }
        if let Some(buffer) = self.output.reclaim() {
            pool.give(buffer);
        }
    }

    /// Whether nothing more of the input is to be executed for now.
    pub fn is_halted(&self) -> bool {
        self.turn.parked || self.session.closing || self.disk.hold.is_some()
    }

    /// Whether there is something to read, and it may be read now.
    #[inline]
    pub fn may_read(&self) -> bool {
        self.ready.readable
            && !self.session.closing
            && self.disk.hold.is_none()
            && (!self.turn.parked || self.reads_ahead())
            && self.filter.as_ref().is_none_or(|filter| filter.may_receive())
    }

    /// Whether it is read while a call waits: the pings of a WebSocket are answered, and its end is seen.
    #[cold]
    fn reads_ahead(&self) -> bool {
        self.input.len() < READ_BYTES
            && self.filter.as_ref().is_some_and(|filter| filter.is_framed() && !filter.has_ended())
    }

    /// Whether enough requests wait for a lock, so that no more is read before.
    pub fn is_backed_up(&self) -> bool {
        self.turn.barred && self.input.len() >= READ_BYTES
    }

    /// Stops in front of the request at [`Connection::taken`]. What the reader remembers is dropped, and it reads again later.
    pub fn park(&mut self) {
        self.turn.parked = true;
        self.turn.held_up = true;
        self.protocol.forget_progress();
    }

    /// Whether its call waits for a key.
    pub fn waits(&self) -> bool {
        self.session.caller.waiting.is_some()
    }

    /// Renews what other threads see, with this many bytes of replies that wait. Empty buffers are not counted, because they are
    /// returned soon.
    pub fn beat(&self, reply_bytes: usize) {
        let query_bytes = self.input.len().saturating_sub(self.taken);
        let query_room = if query_bytes == 0 { 0 } else { self.input.capacity() - self.input.len() };
        let reply_room = if reply_bytes == 0 { 0 } else { self.output.capacity() };
        self.show((query_bytes, query_room), (reply_bytes, reply_room));
    }

    /// Renews what the client sees of itself by a call in the middle of a turn. The turn holds the input then, and executes
    /// `query_bytes` of it.
    pub fn show_call(&self, query_bytes: usize) {
        self.show(
            (query_bytes, READ_BYTES.saturating_sub(query_bytes)),
            (self.output.waiting(), self.output.capacity()),
        );
    }

    /// Of each buffer: the bytes in it, and its room.
    fn show(&self, (query_bytes, query_room): (usize, usize), (reply_bytes, reply_room): (usize, usize)) {
        self.record.beat(Activity {
            active_ms: self.session.clock.active_ms,
            db: self.session.caller.db,
            last: self.session.tally.last,
            query_bytes,
            query_room,
            reply_bytes,
            reply_room,
            waiting: self.turn.parked,
            blocked: self.ready.blocked,
        });
    }

    /// Closes the connection for writing, after everything has been sent.
    pub fn finish(&mut self, is_stopping: bool) {
        if self.door.takes_datagrams() {
            return;
        }
        if let Some(filter) = &mut self.filter {
            filter.finish(&self.socket, is_stopping);
        }
        match self.socket.shutdown(std::net::Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => {
                tracing::debug!(%error, "shutdown of a connection")
            }
            _ => {}
        }
    }
}
