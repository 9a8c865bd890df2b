//! RESP on a connection: its requests become frames of the turn's batch, and each frame becomes one call.
use polder_base::{Protocol as RespVersion, Reply};
use polder_hub::Delivery;
use polder_runtime::{Host, Session, pubsub};
use polder_wire::Output;
use polder_wire::foreign::is_http;
use polder_wire::resp::{Limits, Request, Requests};

use super::form::Form;
use crate::batch::{Batch, Content, Frame, Left, Odd, Rejection};
use crate::doors::Refusal;
use crate::limits::ServerLimits;

/// The reply to a client from another host in protected mode.
const PROTECTED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

/// The reply to a client beyond `maxclients`.
const FULL: &str = "-ERR max number of clients reached\r\n";

/// RESP on one connection.
#[derive(Default)]
pub struct Resp {
    requests: Requests,
}

impl Resp {
    /// As [`Protocol::read`](super::Protocol::read).
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
        let limits =
            Limits { bulk_bytes_max: limits.bulk_bytes_max, stranger: !session.identity.authenticated };
        read(&mut self.requests, &limits, input, at, place, batch)
    }

    /// As [`Protocol::reply`](super::Protocol::reply): the output itself is RESP's sink.
    #[inline(always)]
    pub fn reply<R>(&mut self, output: &mut Output, _note: u32, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        run(output)
    }

    #[inline]
    pub fn missing(&self, have: usize) -> usize {
        self.requests.missing(have)
    }

    #[inline]
    pub fn forget_progress(&mut self) {
        self.requests = Requests::default();
    }
}

#[inline]
fn read<'b>(
    requests: &mut Requests,
    limits: &Limits,
    input: &'b [u8],
    at: &mut usize,
    place: u32,
    batch: &mut Batch<'b>,
) -> Left {
    let mut rest = &input[*at..];
    while !batch.is_full() {
        let from = batch.args.len();
        let from_byte = *at;
        let read = requests.read(&mut rest, limits, &mut batch.args);
        *at = input.len() - rest.len();
        match read {
            Ok(Some(Request::Bulks(_))) => {
                let to = batch.args.len();
                batch.frames.push(Frame { place, note: 0, content: Content::Args { from, to }, end: *at });
            }
            Ok(Some(Request::Inline(words))) => batch.push_odd(place, inline(words), *at),
            Ok(None) => {
                // The reader is past empty requests in front of one that is not complete, so the connection must be, too.
                if *at > from_byte {
                    batch.push_odd(place, Odd::Nothing, *at);
                }
                return Left::Nothing;
            }
            Err(malformed) => {
                *at = input.len();
                batch.push_odd(place, Odd::Rejected(Rejection::Malformed(malformed)), *at);
                return Left::Nothing;
            }
        }
        // AUTH changes what the next request may be (P2).
        if limits.stranger {
            break;
        }
    }
    Left::Perhaps
}

/// An inline request. One that a browser sends because of another site's page ends the connection.
fn inline(words: Vec<Vec<u8>>) -> Odd {
    if is_http(&words) { Odd::Rejected(Rejection::CrossSite) } else { Odd::Words(words) }
}

pub fn reject(rejection: &Rejection, session: &mut Session, host: &dyn Host, output: &mut Output) {
    match rejection {
        Rejection::Malformed(malformed) => {
            host.recorder().count_error(&malformed.0);
            output.error(&malformed.0);
        }
        Rejection::Refused(_) | Rejection::Silence => {}
        Rejection::CrossSite => tracing::warn!(
            client = session.identity.id,
            "possible attack: an HTTP request came in on a RESP port, most likely by a browser of this host; closed"
        ),
    }
    session.closing = true;
}

#[inline]
pub fn accepts(session: &Session, delivery: &Delivery<'_>) -> bool {
    match *delivery {
        Delivery::Invalidation { redirected, .. } => session.listens_in_any_way(redirected),
        Delivery::RedirectionBroken { .. } => session.protocol == RespVersion::Resp3,
        _ => true,
    }
}

pub fn deliver(output: &mut Output, delivery: &Delivery<'_>) {
    pubsub::write(output, delivery);
}

#[inline]
pub fn form(session: &Session) -> Form {
    match session.protocol {
        RespVersion::Resp2 => Form::Resp2,
        RespVersion::Resp3 => Form::Resp3,
    }
}

/// An output for messages in one of RESP's forms.
pub fn output(form: Form) -> Output {
    Output::new(if form == Form::Resp2 { RespVersion::Resp2 } else { RespVersion::Resp3 })
}

pub fn refusal(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::Protected => PROTECTED.as_bytes(),
        Refusal::Full => FULL.as_bytes(),
    }
}
