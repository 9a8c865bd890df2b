//! HTTP/1.1 on a connection: the keys as resources, and commands.
//!
//! ```text
//!   a plain request for one key                        any other request (`Work`)
//!   GET /k/foo                                         login, ?db=, conditions, several calls, a last response
//!        |                                                  |
//!   one frame: GET foo; the note says how the          Own(begin) -> calls -> Own(end)
//!   reply becomes a response                           frames that leave the request in the input until the end
//! ```
//!
//! | file | duty |
//! |---|---|
//! | `route` | what a request asks for |
//! | `work` | requests that are more than one plain call |
//! | `commands` | commands in a query or a body, and their replies |
//! | `console` | the files of the console for a browser |
//! | `events` | messages of channels as a response that does not end |
//! | `conditions` | entity tags and ranges |
//! | `sink`, `note` | from the reply of a call to a response; what is remembered of the request until then |
//! | `media` | content types by the suffix of a key |
//! | `answer` | responses that are no value: errors and texts |
//!
//! Invariants:
//! - **HT1** Each request has a fresh session: a proxy may share one connection among users. A plain request changes
//!   nothing of the session; the end of a [`Work`] resets it.
//! - **HT2** While a work is under way, the connection stands at the beginning of its request. So a connection that was
//!   parked finds the request again in its input, and the work knows how far it has come.
//! - **HT3** A work begins only when no earlier request of the connection is in the batch.
mod answer;
mod commands;
mod conditions;
mod console;
pub mod events;
mod media;
mod note;
mod route;
mod sink;
mod work;

use std::borrow::Cow;

use polder_base::Reply;
use polder_engine::Memory;
use polder_hub::Delivery;
use polder_runtime::{Host, Progress, Session};
use polder_wire::Output;
use polder_wire::http::{Limits, Read, Refused, Requests};

use self::answer::{Answer, Style};
use self::conditions::Conditions;
use self::note::{Note, Verb};
use self::sink::Sink;
use self::work::{Next, Work};
use super::{Change, Due, TickInputs};
use crate::batch::{BATCH, Batch, Content, Frame, Left, Odd, Rejection};
use crate::doors::Refusal;
use crate::limits::ServerLimits;

/// The note of a frame that belongs to the work.
const OF_WORK: u32 = 1 << 31;

/// HTTP on one connection.
#[derive(Default)]
pub struct Http {
    requests: Requests,
    work: Option<Box<Work>>,
    /// Since when a part of a request waits for the rest, and how many bytes of a response have not been taken since when.
    partial_since_ms: Option<u64>,
    stalled: Option<(usize, u64)>,
    /// The connection has become a stream of events.
    streams: bool,
    /// When the stream was seen to be alive last.
    signed_ms: u64,
    change: Option<Change>,
}

/// The bytes of a request that a client sends in a second at least, after its first seconds.
const BYTES_PER_SECOND_MIN: u64 = 500;

impl Http {
    /// As [`Protocol::read`](super::Protocol::read).
    pub fn read<'b>(
        &mut self,
        limits: &ServerLimits,
        input: &'b [u8],
        at: &mut usize,
        place: u32,
        batch: &mut Batch<'b>,
    ) -> Left {
        if self.streams {
            // No request can be answered behind a response that does not end.
            if *at < input.len() {
                *at = input.len();
                push_own(batch, place, *at);
            }
            return Left::Nothing;
        }
        if self.goes_on(at, place, batch) {
            return Left::Perhaps;
        }
        let body_limits = Limits { body_bytes_max: limits.bulk_bytes_max };
        let mut is_first = true;
        while !batch.is_full() {
            if *at == input.len() {
                return Left::Nothing;
            }
            let (head, body, length) = match self.requests.read(&input[*at..], body_limits) {
                Ok(Read::Nothing) => return Left::Nothing,
                Ok(Read::Head(_)) if !is_first => return Left::Perhaps,
                Ok(Read::Head(head)) => {
                    let work = self.work.get_or_insert_with(|| Box::new(Work::of(&head, limits)));
                    if !work.begins_early() {
                        return Left::Nothing;
                    }
                    push_own(batch, place, *at);
                    return Left::Perhaps;
                }
                Ok(Read::Whole { head, body, length }) => {
                    self.partial_since_ms = None;
                    (head, body, length)
                }
                Err(refused) => {
                    *at = input.len();
                    batch.push_odd(place, Odd::Rejected(Rejection::Refused(refused)), *at);
                    return Left::Nothing;
                }
            };
            if self.work.is_none()
                && let Some(call) = route::plain(&head, &limits.http.web)
            {
                *at += length;
                push_call(batch, place, (call.note.to_bits(), call.note.verb), (call.key, body), *at);
                is_first = false;
                continue;
            }
            if !is_first {
                return Left::Perhaps;
            }
            let work = self.work.get_or_insert_with(|| Box::new(Work::of(&head, limits)));
            if work.is_upgrade() && input.len() > *at + length {
                work.refuse_early_frames();
            }
            if push_next(batch, place, work.next(&head, body, length), *at, length) {
                *at += length;
            }
            return Left::Perhaps;
        }
        Left::Perhaps
    }

    /// Adds the next calls of a body that has many. Returns false if there is none.
    fn goes_on(&self, at: &mut usize, place: u32, batch: &mut Batch<'_>) -> bool {
        let room = BATCH - batch.frames.len().min(BATCH - 1);
        let Some((calls, length)) = self.work.as_ref().and_then(|work| work.following(room)) else {
            return false;
        };
        if calls.is_empty() {
            *at += length;
            push_own(batch, place, *at);
        }
        calls.into_iter().for_each(|words| batch.push_noted(place, OF_WORK, Odd::Words(words), *at));
        true
    }

    /// As [`Protocol::reply`](super::Protocol::reply).
    pub fn reply<R>(&mut self, output: &mut Output, note: u32, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        match &mut self.work {
            Some(work) if note == OF_WORK => work.reply(output, run),
            _ => {
                let mut sink = Sink::new(output, Note::from_bits(note), Style::PLAIN, &Conditions::NONE);
                let result = run(&mut sink);
                sink.finish();
                result
            }
        }
    }

    /// Does [`Protocol::fail`](super::Protocol::fail). The head of a response that has begun may have been sent: nothing is added to it.
    pub fn fail(&mut self, text: &str, output: &mut Output) {
        if self.work.is_none() && !self.streams {
            Answer::of_call(text).write(output, Style::LAST);
        }
    }

    /// As [`Protocol::own`](super::Protocol::own): the beginning or the end of the work.
    pub fn own(
        &mut self,
        session: &mut Session,
        place: (&dyn Host, &Memory),
        output: &mut Output,
    ) -> Progress {
        let Some(work) = &mut self.work else { return Progress::Answered };
        let progress = work.own(session, place, output);
        if work.is_over() {
            self.change = work.change();
            self.streams = matches!(self.change, Some(Change::Stream(_)));
            self.work = None;
        }
        progress
    }

    /// As [`Protocol::tick`](super::Protocol::tick). A client that sends its request byte by byte would hold a connection for
    /// ever (slow loris), so a request has a time to come, which grows with its bytes.
    pub fn tick(&mut self, limits: &ServerLimits, inputs: TickInputs) -> Option<Due> {
        if self.streams {
            return self.tick_stream(inputs);
        }
        self.tick_requests(limits, inputs).map(Due::End)
    }

    /// Asks for a comment at times. A client that reads too slowly is closed by the limits of subscribers.
    fn tick_stream(&mut self, inputs: TickInputs) -> Option<Due> {
        let is_due = inputs.waiting == 0
            && inputs.now_ms.saturating_sub(self.signed_ms.max(inputs.active_ms)) >= events::SIGN_MS;
        is_due.then(|| {
            self.signed_ms = inputs.now_ms;
            Due::Sign
        })
    }

    fn tick_requests(&mut self, limits: &ServerLimits, inputs: TickInputs) -> Option<Rejection> {
        let TickInputs { now_ms, active_ms, pending, waiting, .. } = inputs;
        let idle_ms = limits.http.idle_seconds * 1000;
        let is_over = |since_ms: u64, span_ms: u64| span_ms != 0 && now_ms.saturating_sub(since_ms) > span_ms;
        if waiting > 0 {
            let (_, since_ms) = *self.stalled.get_or_insert((waiting, now_ms));
            if self.stalled.is_some_and(|(before, _)| before != waiting) {
                self.stalled = Some((waiting, now_ms));
            } else if is_over(since_ms, idle_ms) {
                return Some(Rejection::Silence);
            }
            return None;
        }
        self.stalled = None;
        if pending == 0 {
            self.partial_since_ms = None;
            return is_over(active_ms, idle_ms).then_some(Rejection::Silence);
        }
        let since_ms = *self.partial_since_ms.get_or_insert(now_ms);
        let span_ms = limits.http.request_seconds * 1000;
        let span_ms = if span_ms == 0 { 0 } else { span_ms + pending as u64 * 1000 / BYTES_PER_SECOND_MIN };
        is_over(since_ms, span_ms)
            .then_some(Rejection::Refused(Refused { status: 408, text: "the request took too long to come" }))
    }

    /// As [`Protocol::accepts`](super::Protocol::accepts).
    pub fn accepts(&self, delivery: &Delivery<'_>) -> bool {
        self.streams && events::accepts(delivery)
    }

    /// As [`Protocol::take_change`](super::Protocol::take_change).
    pub fn take_change(&mut self) -> Option<Change> {
        self.change.take()
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

fn push_own(batch: &mut Batch<'_>, place: u32, end: usize) {
    batch.push_odd(place, Odd::Own, end);
}

/// Adds what comes next of a request whose body ends `length` behind `at`. Returns whether that is its end.
fn push_next<'b>(batch: &mut Batch<'b>, place: u32, next: Next<'b>, at: usize, length: usize) -> bool {
    match next {
        Next::Own => push_own(batch, place, at),
        Next::Call(verb, key, body) => push_call(batch, place, (OF_WORK, verb), (key, body), at),
        Next::Words(words) => batch.push_noted(place, OF_WORK, Odd::Words(words), at),
        Next::End => {
            push_own(batch, place, at + length);
            return true;
        }
    }
    false
}

/// Adds a call on a key. What had to be unescaped or put together is copied.
fn push_call<'b>(
    batch: &mut Batch<'b>,
    place: u32,
    (note, verb): (u32, Verb),
    (key, body): (Cow<'b, [u8]>, Cow<'b, [u8]>),
    end: usize,
) {
    if let (Cow::Borrowed(key), Cow::Borrowed(body)) = (&key, &body) {
        let from = batch.args.len();
        batch.args.extend(route::args(verb, key, body));
        batch.frames.push(Frame { place, note, content: Content::Args { from, to: batch.args.len() }, end });
    } else {
        let words = route::args(verb, &key, &body).iter().map(|word| word.to_vec()).collect();
        batch.push_noted(place, note, Odd::Words(words), end);
    }
}

/// Says why a request ends the connection.
pub fn reject(rejection: &Rejection, session: &mut Session, output: &mut Output) {
    if let Rejection::Refused(Refused { status, text }) = rejection {
        Answer::error(*status, text).write(output, Style::LAST);
    }
    session.closing = true;
}

/// What a client gets that is refused before it is served.
pub fn refusal(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::Protected => {
            b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 139\r\nConnection: close\r\n\r\n\
              {\"error\":\"DENIED protected-mode is on and no password is set, so only this host may connect; set a password, or set protected-mode to no\"}\n"
        }
        Refusal::Full => {
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 46\r\nRetry-After: 1\r\nConnection: close\r\n\r\n\
              {\"error\":\"ERR max number of clients reached\"}\n"
        }
    }
}
