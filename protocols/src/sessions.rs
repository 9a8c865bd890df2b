//! The table of protocols: how each of them turns bytes into calls, and calls into bytes.
//!
//! ```text
//!   socket -> input -> Protocol::read -> frames of the batch -> engine -> Protocol::reply -> Output -> socket
//!                      (wire: reader)                           (wire: encoder)
//! ```
//!
//! Two layers carry a connection, and they are never mixed. A *transport filter* turns bytes into bytes below the
//! protocol: TLS and the frames of a WebSocket (`filter`). Its place is in `Connection::{receive, send}`, which are the
//! only functions that touch the socket. A [`Protocol`] turns bytes into frames and results into bytes. So each protocol
//! runs over each transport without code of its own.
//!
//! It is an enum and not a trait: the state of RESP is one pointer beside the buffers, no call of a GET goes through a
//! table of functions, and a protocol that lacks a function does not compile.
//!
//! # How a protocol is added
//!
//! | step | where | what |
//! |---|---|---|
//! | 1 | `wire/src/NAME.rs` | reader and encoder without sockets, clock or session: slices of the input in, appends to a [`polder_wire::Output`] out; tests split each request at every byte |
//! | 2 | `sessions/NAME.rs` | a struct with the functions that [`Protocol`] names. `read` pushes frames whose arguments are slices of the input: a verb that touches keys or channels *is* the call of a row of the command table. `reply` makes a sink (`polder_base::Reply`) over the output |
//! | 3 | here | one variant, and one arm in each function |
//! | 4 | `doors.rs` | one variant of [`Spoken`], and one row per listening place: the settings of its port and addresses, its limits |
//!
//! The settings of step 4 are rows of the settings table in `commands`. Nothing else changes: turns, prefetching,
//! pauses, locks, back-pressure, blocking calls, subscriptions, users, CLIENT KILL, and limits work on frames and sessions.
//!
//! Rules for `read`:
//! - **P1** It pushes whole requests only, and `at` never stands inside a request. When a connection is parked,
//!   [`Protocol::forget_progress`] drops what was remembered, and the request is read again later. So a request is not
//!   decoded in place: unescaped copies go into [`Odd::Words`](crate::batch::Odd::Words).
//! - **P2** After a frame that may log the client in, `read` returns while the client is not authenticated: the limits of
//!   what follows depend on the result.
//! - **P3** Memory that a client can make the server take is in proportion to the bytes that it has sent.
//!
//! What the reader must tell the encoder (a verb, "no reply wanted", a request's number) goes into `Frame::note`; the
//! server keeps it for a call that waits. A request that consists of several calls becomes several frames.
mod form;
mod http;
mod memcached;
mod messages;
mod nats;
mod resp;
mod terminal;

use polder_base::Reply;
use polder_engine::Memory;
use polder_hub::Delivery;
use polder_runtime::session::Traffic;
use polder_runtime::{Host, Progress, Session};
use polder_wire::Output;
use polder_wire::web_socket::Shape;

pub use self::form::Form;
pub use self::terminal::Input;
use crate::batch::{Batch, Frame, Left, Rejection};
use crate::doors::{Refusal, Spoken};
use crate::limits::ServerLimits;

impl Form {
    /// An output for messages in this form.
    pub fn output(self) -> Output {
        match self {
            Form::Resp2 | Form::Resp3 => resp::output(self),
            Form::Events | Form::Json | Form::Term | Form::Screen | Form::Nats | Form::NatsBare => {
                Output::default()
            }
        }
    }

    /// Appends a message to an output of this form.
    pub fn write(self, output: &mut Output, delivery: &Delivery<'_>) {
        match self {
            Form::Resp2 | Form::Resp3 => resp::deliver(output, delivery),
            Form::Events => http::events::deliver(output, delivery),
            Form::Json | Form::Term => messages::deliver(self, output, delivery),
            Form::Screen => terminal::deliver(output, delivery),
            Form::Nats | Form::NatsBare => nats::deliver(self, output, delivery),
        }
    }
}

/// The protocol of a connection, with what its reader remembers of a request that has not come whole.
pub enum Protocol {
    Resp(resp::Resp),
    Memcached(Box<memcached::Memcached>),
    Http(Box<http::Http>),
    /// Texts over a WebSocket.
    Messages(messages::Messages),
    /// Lines or keys over a WebSocket.
    Terminal(Box<terminal::Terminal>),
    Nats(Box<nats::Nats>),
}

impl Protocol {
    /// A protocol at the beginning of a connection.
    pub fn begin(spoken: Spoken) -> Protocol {
        match spoken {
            Spoken::Resp => Protocol::Resp(resp::Resp::default()),
            Spoken::Memcached => Protocol::Memcached(Box::default()),
            Spoken::Http => Protocol::Http(Box::default()),
            Spoken::Nats => Protocol::Nats(Box::default()),
        }
    }

    /// Puts the requests from `at` on into the batch, until it is full or no whole request is left (P1 to P3).
    /// `place` is the connection's place in the turn.
    #[inline(always)]
    pub fn read<'b>(
        &mut self,
        limits: &ServerLimits,
        session: &Session,
        input: &'b [u8],
        at: &mut usize,
        place: u32,
        batch: &mut Batch<'b>,
    ) -> Left {
        match self {
            Protocol::Resp(resp) => resp.read(limits, session, input, at, place, batch),
            Protocol::Memcached(memcached) => memcached.read(limits, session, input, at, place, batch),
            Protocol::Http(http) => http.read(limits, input, at, place, batch),
            Protocol::Messages(messages) => messages.read(session, input, (at, place), batch, false),
            Protocol::Terminal(terminal) => terminal.read(session, input, at, place, batch),
            Protocol::Nats(nats) => nats.read(limits, session, input, at, place, batch),
        }
    }

    /// The same of requests that came as datagrams, which end at `ends`. `is_overfull`: the reply to the first one is too long
    /// already, so no more of that one is executed.
    pub fn read_datagrams<'b>(
        &mut self,
        (limits, session): (&ServerLimits, &Session),
        (input, ends): (&'b [u8], impl Iterator<Item = usize>),
        at: &mut usize,
        (place, is_overfull): (u32, bool),
        batch: &mut Batch<'b>,
    ) -> Left {
        match self {
            Protocol::Memcached(memcached) => {
                memcached.read_datagrams((limits, session), (input, ends), at, (place, is_overfull), batch)
            }
            Protocol::Resp(_)
            | Protocol::Http(_)
            | Protocol::Messages(_)
            | Protocol::Terminal(_)
            | Protocol::Nats(_) => Left::Nothing,
        }
    }

    /// Calls `run` with the sink for the reply to a frame with this note.
    #[inline(always)]
    pub fn reply<R>(&mut self, output: &mut Output, note: u32, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        match self {
            Protocol::Resp(resp) => resp.reply(output, note, run),
            Protocol::Memcached(memcached) => memcached.reply(output, note, run),
            Protocol::Http(http) => http.reply(output, note, run),
            Protocol::Messages(messages) => messages.reply(output, note, run),
            Protocol::Terminal(terminal) => terminal.reply(output, note, run),
            Protocol::Nats(nats) => nats.reply(output, note, run),
        }
    }

    /// Replies to a request that is no call ([`Odd::Own`](crate::batch::Odd::Own)).
    pub fn own(
        &mut self,
        note: u32,
        session: &mut Session,
        host: (&dyn Host, &Memory),
        output: &mut Output,
    ) -> Progress {
        match self {
            Protocol::Resp(_) | Protocol::Messages(_) => Progress::Answered,
            Protocol::Memcached(memcached) => memcached.own(note, session, host, output),
            Protocol::Http(http) => http.own(session, host, output),
            Protocol::Terminal(terminal) => terminal.own(note, session, host, output),
            Protocol::Nats(nats) => nats.own(note, session, host, output),
        }
    }

    /// Returns true for a client of NATS, on its own port or over a WebSocket.
    #[inline]
    pub fn is_nats(&self) -> bool {
        matches!(self, Protocol::Nats(_))
    }

    /// Whether several calls may write their replies one after another into one sink.
    #[inline(always)]
    pub fn groups_replies(&self) -> bool {
        match self {
            Protocol::Resp(_) | Protocol::Nats(_) => true,
            Protocol::Memcached(_) | Protocol::Http(_) | Protocol::Messages(_) | Protocol::Terminal(_) => {
                false
            }
        }
    }

    /// Says why a request ends the connection, and ends the session.
    pub fn reject(
        &mut self,
        rejection: &Rejection,
        session: &mut Session,
        host: &dyn Host,
        output: &mut Output,
    ) {
        match self {
            Protocol::Resp(_) => resp::reject(rejection, session, host, output),
            Protocol::Memcached(_) | Protocol::Messages(_) | Protocol::Terminal(_) => session.closing = true,
            Protocol::Http(_) => http::reject(rejection, session, output),
            Protocol::Nats(_) => nats::reject(rejection, session, output),
        }
    }

    /// Says an error in the place of all replies that wait, and ends the session.
    pub fn fail(&mut self, text: &str, session: &mut Session, output: &mut Output) {
        match self {
            Protocol::Resp(_) => output.error(text),
            Protocol::Memcached(memcached) => memcached.fail(text, output),
            Protocol::Http(http) => http.fail(text, output),
            Protocol::Messages(messages) => messages.reply(output, 0, |reply| reply.error(text)),
            Protocol::Terminal(terminal) => terminal.reply(output, 0, |reply| reply.error(text)),
            // NATS has no word for it: the client comes again.
            Protocol::Nats(_) => {}
        }
        session.closing = true;
    }

    /// Whether this client may be told: some clients could not tell a message from a reply.
    #[inline]
    pub fn accepts(&self, session: &Session, delivery: &Delivery<'_>) -> bool {
        match self {
            Protocol::Resp(_) | Protocol::Messages(_) | Protocol::Terminal(_) => {
                resp::accepts(session, delivery)
            }
            Protocol::Memcached(_) => false,
            Protocol::Http(http) => http.accepts(delivery),
            Protocol::Nats(_) => nats::accepts(delivery),
        }
    }

    /// Appends a message for this client alone.
    pub fn deliver(&mut self, output: &mut Output, delivery: &Delivery<'_>) {
        match self {
            Protocol::Resp(_) => resp::deliver(output, delivery),
            // It subscribes to nothing.
            Protocol::Memcached(_) => {}
            Protocol::Http(_) => http::events::deliver(output, delivery),
            Protocol::Nats(nats) => {
                nats::deliver(nats.form(), output, delivery);
                nats.note_heard(Heard::of(delivery));
            }
            Protocol::Messages(messages) => messages::deliver(messages.form(), output, delivery),
            Protocol::Terminal(terminal) => {
                terminal.form().write(output, delivery);
                terminal.redraw(output);
            }
        }
    }

    /// Appends what belongs behind messages that this client shares with others, and counts them.
    #[inline]
    pub fn end_messages(&mut self, output: &mut Output, heard: Heard) {
        match self {
            Protocol::Terminal(terminal) => terminal.redraw(output),
            Protocol::Nats(nats) => nats.note_heard(heard),
            _ => {}
        }
    }

    /// Counts what executed frames have published: see [`Protocol::traffic`].
    #[inline(always)]
    pub fn note_done(&mut self, frames: &[Frame], args: &[&[u8]]) {
        if let Protocol::Nats(nats) = self {
            nats.note_done(frames, args);
        }
    }

    /// The messages of this client, if it is one of NATS.
    pub fn traffic(&self) -> Option<Traffic> {
        if let Protocol::Nats(nats) = self { Some(nats.traffic) } else { None }
    }

    /// Appends what a new client gets unasked.
    pub fn greet(&mut self, (session, host): (&Session, &dyn Host), cover: Cover, output: &mut Output) {
        match self {
            Protocol::Resp(_) | Protocol::Memcached(_) | Protocol::Http(_) | Protocol::Messages(_) => {}
            Protocol::Terminal(terminal) => terminal.greet(session, output),
            Protocol::Nats(nats) => nats.greet(session, host, cover, output),
        }
    }

    /// The form of messages that this client shares with others.
    #[inline]
    pub fn form(&self, session: &Session) -> Form {
        match self {
            Protocol::Resp(_) | Protocol::Memcached(_) => resp::form(session),
            Protocol::Http(_) => Form::Events,
            Protocol::Messages(messages) => messages.form(),
            Protocol::Terminal(terminal) => terminal.form(),
            Protocol::Nats(nats) => nats.form(),
        }
    }

    /// What is due on a connection that waits for nothing; asked once a second.
    #[inline]
    pub fn tick(&mut self, limits: &ServerLimits, inputs: TickInputs) -> Option<Due> {
        match self {
            Protocol::Resp(_) | Protocol::Memcached(_) | Protocol::Messages(_) | Protocol::Terminal(_) => {
                None
            }
            Protocol::Http(http) => http.tick(limits, inputs),
            Protocol::Nats(nats) => nats.tick(inputs),
        }
    }

    /// Appends what a client is told when its server's neighbours have changed, or its server ends
    /// ([`Due::News`]).
    pub fn inform(&mut self, (session, host): (&Session, &dyn Host), output: &mut Output) {
        if let Protocol::Nats(nats) = self {
            nats.inform(session, host, output);
        }
    }

    /// Appends a sign of life ([`Due::Sign`]).
    pub fn sign(&mut self, output: &mut Output) {
        match self {
            Protocol::Resp(_) | Protocol::Memcached(_) | Protocol::Messages(_) | Protocol::Terminal(_) => {}
            Protocol::Http(_) => http::events::sign(output),
            Protocol::Nats(_) => nats::sign(output),
        }
    }

    /// What the last of the protocol's own requests has made of the connection.
    #[inline]
    pub fn take_change(&mut self) -> Option<Change> {
        match self {
            Protocol::Resp(_) | Protocol::Messages(_) | Protocol::Terminal(_) => None,
            Protocol::Memcached(memcached) => memcached.take_change(),
            Protocol::Http(http) => http.take_change(),
            Protocol::Nats(nats) => nats.take_change(),
        }
    }

    /// How many bytes of a long request are still to come, if that is known; `have` bytes of it are there.
    #[inline]
    pub fn missing(&self, have: usize) -> usize {
        match self {
            Protocol::Resp(resp) => resp.missing(have),
            Protocol::Memcached(memcached) => memcached.missing(have),
            Protocol::Http(http) => http.missing(have),
            Protocol::Messages(_) | Protocol::Terminal(_) => 0,
            Protocol::Nats(nats) => nats.missing(have),
        }
    }

    /// Forgets how far the next request has been read (P1).
    #[inline]
    pub fn forget_progress(&mut self) {
        match self {
            Protocol::Resp(resp) => resp.forget_progress(),
            Protocol::Memcached(memcached) => memcached.forget_progress(),
            Protocol::Http(http) => http.forget_progress(),
            Protocol::Messages(messages) => messages.forget_progress(),
            Protocol::Terminal(terminal) => terminal.forget_progress(),
            Protocol::Nats(nats) => nats.forget_progress(),
        }
    }
}

/// Messages to a client of NATS, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    pub messages: u64,
    pub bytes: u64,
}

impl Heard {
    /// One message.
    pub fn of(delivery: &Delivery<'_>) -> Heard {
        match delivery {
            Delivery::Post { headers, payload, .. } => {
                Heard { messages: 1, bytes: (headers.len() + payload.len()) as u64 }
            }
            _ => Heard::default(),
        }
    }

    pub fn add(&mut self, other: Heard) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// The layer below the protocol of a new client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cover {
    None,
    /// TLS from the first byte.
    Tls,
    WebSocket,
}

/// What is due on a connection.
pub enum Due {
    /// It is closed.
    End(Rejection),
    /// The peer, and what is between, must see that it is alive.
    Sign,
    /// The client is to be told of other servers.
    News,
    /// What was due waits in the filter to be sent.
    Sent,
}

/// What follows for the connection.
pub enum Change {
    /// It only hears messages. CLIENT LIST shows it by this name.
    Stream(&'static str),
    WebSocket(WebSocket),
    /// The client has said what it is.
    Known,
    /// The request of one datagram has been executed, and the next one may be that of another client.
    Guest,
}

/// What a WebSocket carries.
#[derive(Clone, Copy, Debug)]
pub struct WebSocket {
    /// As CLIENT LIST shows it.
    pub name: &'static str,
    sub_protocol: SubProtocol,
    /// Whether messages may be compressed.
    pub deflates: bool,
    /// The input of `term`.
    input: Input,
}

/// Protocols over a WebSocket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubProtocol {
    Resp,
    Json,
    Term,
    /// Clients of NATS name no sub-protocol.
    Nats,
}

impl SubProtocol {
    /// The names of those that have one.
    pub const NAMES: [&'static str; 3] = ["resp", "json", "term"];

    /// The one with this name.
    pub fn named(name: &str) -> SubProtocol {
        match name {
            "resp" => SubProtocol::Resp,
            "json" => SubProtocol::Json,
            _ => SubProtocol::Term,
        }
    }
}

impl WebSocket {
    /// A WebSocket with one of these sub-protocols.
    pub fn new(sub_protocol: SubProtocol, deflates: bool, input: Input) -> WebSocket {
        let name = match sub_protocol {
            SubProtocol::Resp => "ws-resp",
            SubProtocol::Json => "ws-json",
            SubProtocol::Term => "ws-term",
            SubProtocol::Nats => "ws-nats",
        };
        WebSocket { name, sub_protocol, deflates, input }
    }

    pub fn shape(&self) -> Shape {
        match self.sub_protocol {
            SubProtocol::Resp | SubProtocol::Nats => Shape::Stream,
            SubProtocol::Json | SubProtocol::Term => Shape::Messages,
        }
    }

    /// Its protocol at the beginning.
    pub fn protocol(&self) -> Protocol {
        match self.sub_protocol {
            SubProtocol::Resp => Protocol::Resp(resp::Resp::default()),
            SubProtocol::Json => Protocol::Messages(messages::Messages::new(messages::Style::Json)),
            SubProtocol::Nats => Protocol::Nats(Box::default()),
            SubProtocol::Term => Protocol::Terminal(Box::new(terminal::Terminal::new(self.input))),
        }
    }
}

/// What a connection looks like once a second.
#[derive(Clone, Copy, Debug)]
pub struct TickInputs {
    pub now_ms: u64,
    /// When the client's last call was executed.
    pub active_ms: u64,
    /// Bytes that have come and are no whole request.
    pub pending: usize,
    /// Bytes that wait to be sent.
    pub waiting: usize,
    /// The client has not logged in.
    pub is_stranger: bool,
    /// The number of the list of servers on this memory.
    pub servers_version: u64,
}

/// The bytes that a refused client gets before its connection is closed.
pub fn refusal(spoken: Spoken, refusal: Refusal) -> &'static [u8] {
    match spoken {
        Spoken::Resp => resp::refusal(refusal),
        Spoken::Memcached => memcached::refusal(refusal),
        Spoken::Http => http::refusal(refusal),
        Spoken::Nats => nats::refusal(refusal),
    }
}
