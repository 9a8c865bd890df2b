//! NATS on a connection: publishing and subscribing are calls of the SUBJ rows; the rest is the protocol's own.
//!
//! ```text
//!   PUB a.b r 5 \ hello   ->  SUBJ.PUB a.b hello REPLY r [NOECHO] [NORESPONDERS]
//!   SUB a.* q 7           ->  SUBJ.SUB a.* QUEUE q SID 7
//!   UNSUB 7 5             ->  SUBJ.UNSUB 7 MAX 5
//!   CONNECT {...}         ->  no call: `own`, which runs AUTH if it names a user
//!   PING, PONG            ->  no call: `own`
//! ```
//!
//! | file | what |
//! |---|---|
//! | `sink` | the replies of calls in the words of NATS |
//!
//! **Invariant NA1:** options and log-in change when CONNECT is executed. What follows it is read after that.
//! **Invariant NA2:** a client gets no -ERR that nats-server does not send: client libraries end for good at words that they do not know. Where
//! there is no such word, the connection is closed, and the client comes again.
mod sink;

use polder_base::Reply;
use polder_calls::settings::{Id, id};
use polder_engine::Memory;
use polder_hub::Delivery;
use polder_runtime::session::Traffic;
use polder_runtime::subjects::{NATS_VERSION, nats_server_id};
use polder_runtime::{Host, Progress, Session};
use polder_wire::Output;
use polder_wire::nats::{self, Info, Operation, Options, Publish, Requests};
use polder_wire::resp::Malformed;

use self::sink::Sink;
use super::form::Form;
use super::{Change, Cover, Due, Heard, TickInputs};
use crate::batch::{Batch, Content, Frame, Left, Odd, Rejection};
use crate::doors::Refusal;
use crate::limits::ServerLimits;

/// A silent client is asked whether it is there; after two questions without an answer it is closed.
const PING_MS: u64 = 120_000;
const PINGS_MAX: u32 = 2;
/// The time in which a client must log in.
const LOGIN_MS: u64 = 2_000;

const PAYLOAD: Id = id("nats-max-payload");
const CERTIFICATE: Id = id("tls-cert-file");

const AUTHORIZATION: &str = "Authorization Violation";
const NO_HEADERS: &str = "no responders requires headers support";

/// The kind of a frame; the low byte of its note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Publish,
    Subscribe,
    Unsubscribe,
    Connect,
    Ping,
    Pong,
}

const KINDS: [Kind; 6] =
    [Kind::Publish, Kind::Subscribe, Kind::Unsubscribe, Kind::Connect, Kind::Ping, Kind::Pong];

/// A note: the kind, and above it the place of the subject among those that are kept, plus one.
fn kind_of(note: u32) -> Kind {
    KINDS.get(usize::from(note as u8)).copied().unwrap_or(Kind::Ping)
}

/// NATS on one connection.
#[derive(Default)]
pub struct Nats {
    requests: Requests,
    options: Options,
    /// The options of the CONNECT with which the present frames end.
    connect: Option<Options>,
    /// The subjects of the present frames, for a client whose rights are limited: an error names them.
    subjects: Vec<Vec<u8>>,
    /// A call has failed in a way that has no word: the connection is to be closed.
    has_failed: bool,
    vigil: Vigil,
    pub traffic: Traffic,
    /// The layer below the connection, once the client has been greeted.
    cover: Option<Cover>,
    /// The list of servers that the client has been told of.
    servers_version: u64,
    /// CONNECT has been executed, and the list of clients does not show it yet.
    is_new: bool,
}

/// The clock of a connection: log-in, and signs of life.
#[derive(Default)]
struct Vigil {
    since_ms: u64,
    pinged_ms: u64,
    /// Questions without an answer.
    pings: u32,
}

impl Nats {
    /// Reads operations: see [`Protocol::read`](super::Protocol::read).
    pub fn read<'b>(
        &mut self,
        limits: &ServerLimits,
        session: &Session,
        input: &'b [u8],
        at: &mut usize,
        place: u32,
        batch: &mut Batch<'b>,
    ) -> Left {
        self.subjects.clear();
        let end_with = |rejection, at: &mut usize, batch: &mut Batch<'b>| {
            *at = input.len();
            batch.push_odd(place, Odd::Rejected(rejection), *at);
            Left::Nothing
        };
        if self.has_failed {
            return end_with(Rejection::Silence, at, batch);
        }
        while !batch.is_full() {
            let rest = &input[*at..];
            let (operation, length) = match self.requests.read(rest, limits.nats.payload_bytes_max) {
                Ok(None) => return Left::Nothing,
                Ok(Some(read)) => read,
                Err(violation) => {
                    return end_with(violation.text().map_or(Rejection::Silence, rejection), at, batch);
                }
            };
            let end = *at + length;
            let sends_headers =
                matches!(operation, Operation::Publish(publish) if !publish.headers.is_empty());
            if sends_headers && !self.options.headers {
                return end_with(Rejection::Silence, at, batch);
            }
            let is_stranger = !session.identity.authenticated;
            if is_stranger && !matches!(operation, Operation::Connect(_)) {
                return end_with(rejection(AUTHORIZATION), at, batch);
            }
            if let Operation::Connect(text) = operation {
                self.push_connect(text, end, place, batch);
                *at = end;
                return Left::Perhaps;
            }
            *at = end;
            self.push(operation, session, end, place, batch);
        }
        Left::Perhaps
    }

    fn push_connect(&mut self, text: &[u8], end: usize, place: u32, batch: &mut Batch<'_>) {
        let Some(options) = Options::read(text) else {
            return batch.push_odd(place, Odd::Rejected(Rejection::Silence), end);
        };
        self.connect = Some(options);
        batch.push_noted(place, Kind::Connect as u32, Odd::Own, end);
    }

    fn push<'b>(
        &mut self,
        operation: Operation<'b>,
        session: &Session,
        end: usize,
        place: u32,
        batch: &mut Batch<'b>,
    ) {
        let from = batch.args.len();
        let (kind, subject) = match operation {
            Operation::Publish(publish) => {
                self.push_publish(&publish, &mut batch.args);
                (Kind::Publish, publish.subject)
            }
            Operation::Subscribe { subject, queue, sid } => {
                batch.args.extend([&b"SUBJ.SUB"[..], subject, b"SID", sid]);
                if !queue.is_empty() {
                    batch.args.extend([&b"QUEUE"[..], queue]);
                }
                (Kind::Subscribe, subject)
            }
            Operation::Unsubscribe { sid, max } => {
                batch.args.extend([&b"SUBJ.UNSUB"[..], sid]);
                if !max.is_empty() {
                    batch.args.extend([&b"MAX"[..], max]);
                }
                (Kind::Unsubscribe, sid)
            }
            Operation::Ping => return batch.push_noted(place, Kind::Ping as u32, Odd::Own, end),
            Operation::Pong => return batch.push_noted(place, Kind::Pong as u32, Odd::Own, end),
            Operation::Connect(_) | Operation::Nothing => return batch.push_odd(place, Odd::Nothing, end),
        };
        let mut note = kind as u32;
        if session.identity.rights.is_limited() {
            self.subjects.push(subject.to_vec());
            note |= (self.subjects.len() as u32) << 8;
        }
        let content = Content::Args { from, to: batch.args.len() };
        batch.frames.push(Frame { place, note, content, end });
    }

    fn push_publish<'b>(&self, publish: &Publish<'b>, args: &mut Vec<&'b [u8]>) {
        let Publish { subject, reply, headers, payload } = *publish;
        args.extend([&b"SUBJ.PUB"[..], subject, payload]);
        if !reply.is_empty() {
            args.extend([&b"REPLY"[..], reply]);
            args.extend(self.options.no_responders.then_some(&b"NORESPONDERS"[..]));
        }
        if !headers.is_empty() {
            args.extend([&b"HEADERS"[..], headers]);
        }
        args.extend((!self.options.echo).then_some(&b"NOECHO"[..]));
    }

    /// Runs a call with its sink: see [`Protocol::reply`](super::Protocol::reply).
    pub fn reply<R>(&mut self, output: &mut Output, note: u32, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        let subject = (note >> 8).checked_sub(1).and_then(|at| self.subjects.get(at as usize));
        let subject = subject.map_or(&b""[..], Vec::as_slice);
        let mut sink = Sink::new(output, kind_of(note), &self.options, subject);
        let result = run(&mut sink);
        self.has_failed |= sink.has_failed;
        result
    }

    /// Replies to what is no call: see [`Protocol::own`](super::Protocol::own).
    pub fn own(
        &mut self,
        note: u32,
        session: &mut Session,
        place: (&dyn Host, &Memory),
        output: &mut Output,
    ) -> Progress {
        match kind_of(note) {
            Kind::Ping => output.raw(b"PONG\r\n"),
            Kind::Pong => self.vigil.pings = 0,
            Kind::Connect => self.connect(session, place, output),
            Kind::Publish | Kind::Subscribe | Kind::Unsubscribe => {}
        }
        Progress::Answered
    }

    fn connect(&mut self, session: &mut Session, place: (&dyn Host, &Memory), output: &mut Output) {
        let Some(options) = self.connect.take() else { return };
        match log_in(&options, session, place, output) {
            LogIn::Failed => return session.closing = true,
            LogIn::Done if session.identity.authenticated => {}
            LogIn::Done | LogIn::Denied => {
                nats::error(output, AUTHORIZATION);
                return session.closing = true;
            }
        }
        if options.no_responders && !options.headers {
            nats::error(output, NO_HEADERS);
            session.closing = true;
            return;
        }
        let printable = |text: &[u8]| -> std::sync::Arc<[u8]> {
            text.iter().map(|byte| if byte.is_ascii_graphic() { *byte } else { b'_' }).collect()
        };
        session.identity.name = printable(&options.name);
        session.identity.library = printable(&options.language);
        session.identity.library_version = printable(&options.version);
        self.options = options;
        self.is_new = true;
        if self.options.verbose {
            output.raw(b"+OK\r\n");
        }
    }

    /// Writes INFO: see [`Protocol::greet`](super::Protocol::greet).
    pub fn greet(&mut self, session: &Session, host: &dyn Host, cover: Cover, output: &mut Output) {
        self.vigil.since_ms = session.clock.active_ms;
        self.vigil.pinged_ms = session.clock.active_ms;
        self.cover = Some(cover);
        self.write_info(session, host, output);
    }

    /// Writes INFO again for a client that takes it: see [`Protocol::inform`](super::Protocol::inform).
    pub fn inform(&mut self, session: &Session, host: &dyn Host, output: &mut Output) {
        if self.options.takes_news {
            self.write_info(session, host, output);
        }
    }

    fn write_info(&mut self, session: &Session, host: &dyn Host, output: &mut Output) {
        let client = host.client(session);
        let (own_host, own_port) = client.local_address.rsplit_once(':').unwrap_or(("", "0"));
        let servers = host.nats_servers();
        self.servers_version = servers.version;
        let info = Info {
            server_id: &nats_server_id(host),
            server_name: &format!("polder-{}", std::process::id()),
            version: NATS_VERSION,
            host: own_host.trim_matches(['[', ']']),
            port: own_port.parse().unwrap_or(0),
            payload_bytes_max: usize::try_from(host.settings().number(PAYLOAD)).unwrap_or(0),
            client_id: session.identity.id,
            client_ip: client.address.rsplit_once(':').map_or("", |(ip, _)| ip.trim_matches(['[', ']'])),
            asks_login: !session.identity.authenticated,
            is_encrypted: self.cover == Some(Cover::Tls),
            may_be_encrypted: self.cover == Some(Cover::None)
                && !host.settings().string(CERTIFICATE).is_empty(),
            servers: &servers.addresses,
            is_leaving: servers.is_leaving,
        };
        nats::info(output, &info);
    }

    /// Says what is due: see [`Protocol::tick`](super::Protocol::tick).
    pub fn tick(&mut self, inputs: TickInputs) -> Option<Due> {
        let now_ms = inputs.now_ms;
        let Vigil { since_ms, pinged_ms, pings } = &mut self.vigil;
        if inputs.active_ms > *pinged_ms {
            *pings = 0;
        }
        if self.has_failed {
            return Some(Due::End(Rejection::Silence));
        }
        if inputs.is_stranger && now_ms.saturating_sub(*since_ms) > LOGIN_MS {
            return Some(Due::End(rejection("Authentication Timeout")));
        }
        if self.options.takes_news && inputs.servers_version != self.servers_version {
            return Some(Due::News);
        }
        if now_ms.saturating_sub((*pinged_ms).max(inputs.active_ms)) < PING_MS {
            return None;
        }
        if *pings >= PINGS_MAX {
            return Some(Due::End(rejection("Stale Connection")));
        }
        (*pinged_ms, *pings) = (now_ms, *pings + 1);
        Some(Due::Sign)
    }

    /// Tells of a CONNECT: see [`Protocol::take_change`](super::Protocol::take_change).
    pub fn take_change(&mut self) -> Option<Change> {
        std::mem::take(&mut self.is_new).then_some(Change::Known)
    }

    #[inline]
    pub fn missing(&self, have: usize) -> usize {
        self.requests.missing(have)
    }

    #[inline]
    pub fn forget_progress(&mut self) {
        self.requests = Requests::default();
    }

    /// Counts what executed frames have published.
    pub fn note_done(&mut self, frames: &[Frame], args: &[&[u8]]) {
        for frame in frames.iter().filter(|frame| kind_of(frame.note) == Kind::Publish) {
            let Content::Args { from, to } = frame.content else { continue };
            let headers = match &args[from + 3..to] {
                [.., name, headers] | [.., name, headers, _] if *name == b"HEADERS" => headers.len(),
                _ => 0,
            };
            self.traffic.messages_in += 1;
            self.traffic.bytes_in += (args[from + 2].len() + headers) as u64;
        }
    }

    /// Counts messages that the client has got.
    pub fn note_heard(&mut self, heard: Heard) {
        self.traffic.messages_out += heard.messages;
        self.traffic.bytes_out += heard.bytes;
    }

    /// The form of messages, which a client without headers gets without them.
    #[inline]
    pub fn form(&self) -> Form {
        if self.options.headers { Form::Nats } else { Form::NatsBare }
    }
}

/// The outcome of a log-in.
enum LogIn {
    Done,
    Denied,
    /// The server could not look: another try may succeed.
    Failed,
}

/// Logs a client in by what its options name. It is no frame of its own, so no pause holds it.
fn log_in(
    options: &Options,
    session: &mut Session,
    (host, memory): (&dyn Host, &Memory),
    output: &mut Output,
) -> LogIn {
    let words: [&[u8]; 3] = match options {
        Options { user, password, .. } if !user.is_empty() => [b"AUTH", user, password],
        Options { token, .. } if !token.is_empty() => [b"AUTH", b"default", token],
        _ => return LogIn::Done,
    };
    let mut sink = Sink::new(output, Kind::Connect, options, b"");
    let progress = memory.execute(session, host, &words, &mut sink);
    match progress {
        Progress::Answered if sink.is_denied => LogIn::Denied,
        Progress::Answered if !sink.has_failed => LogIn::Done,
        _ => LogIn::Failed,
    }
}

/// Says that the server is there, and asks whether the client is.
pub fn sign(output: &mut Output) {
    output.raw(b"PING\r\n");
}

/// The end of a connection with these words of nats-server.
fn rejection(text: &'static str) -> Rejection {
    Rejection::Malformed(Malformed(text.into()))
}

pub fn reject(rejection: &Rejection, session: &mut Session, output: &mut Output) {
    if let Rejection::Malformed(Malformed(text)) = rejection {
        nats::error(output, text);
    }
    session.closing = true;
}

/// Returns true if a client hears this.
pub fn accepts(delivery: &Delivery<'_>) -> bool {
    matches!(delivery, Delivery::Post { .. })
}

/// Appends a message.
pub fn deliver(form: Form, output: &mut Output, delivery: &Delivery<'_>) {
    if let Delivery::Post { sid, subject, reply, headers, payload } = *delivery {
        let headers = if form == Form::Nats { headers } else { b"" };
        nats::message(output, (sid, subject), reply, headers, payload);
    }
}

/// The bytes that a refused client gets.
pub fn refusal(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::Protected => b"-ERR 'Authorization Violation'\r\n",
        Refusal::Full => b"-ERR 'maximum connections exceeded'\r\n",
    }
}
