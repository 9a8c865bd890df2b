//! Requests of the binary protocol become frames, and the results of calls become its replies.
use std::borrow::Cow;

use polder_base::{Item, Protocol as RespVersion, Reply, Written};
use polder_engine::Memory;
use polder_runtime::{Host, Session};
use polder_wire::Output;
use polder_wire::memcached::binary::{Begin, HEADER_BYTES, Header, Status, loud, op, reply};
use polder_wire::memcached::{KEY_BYTES_MAX, RELATIVE_SECONDS_MAX};

use super::text::{Reader, Step, Words, flush};
use super::{Kind, Note, Own, stats};

/// The longest body without a value: the extras of a counter and a key, with room to spare.
const SHORT_BODY_BYTES_MAX: usize = 1024;
/// A counter that is not there is not made.
const NOT_CREATED: u32 = u32::MAX;

/// What the reply to a request needs of it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// As it came; a reply has the same one.
    pub opcode: u8,
    pub opaque: [u8; 4],
    /// The key, among the reader's text.
    pub key: (usize, usize),
    /// The rest of a body that is too long.
    pub skips: usize,
}

/// What the protocol replies without a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Status(Status),
    /// The same, and the connection ends.
    Fatal(Status),
    Version,
    Mechanisms,
    Quit,
    Stat,
}

impl<'b> Reader<'_, 'b> {
    /// Reads the request at `at`.
    pub fn read_binary(&mut self, input: &'b [u8], at: &mut usize) -> Step {
        let rest = &input[*at..];
        let header = match Header::read(rest) {
            Begin::Whole(header) => header,
            Begin::Incomplete => {
                self.own.announced = HEADER_BYTES;
                return Step::Incomplete;
            }
            Begin::Malformed => {
                *at = input.len();
                self.push_own(Own::Quit, *at);
                return Step::Execute;
            }
        };
        let asked = Asked { opcode: header.opcode, opaque: header.opaque, key: (0, 0), skips: 0 };
        let (opcode, _) = loud(header.opcode);
        let is_store = matches!(opcode, op::SET | op::ADD | op::REPLACE | op::APPEND | op::PREPEND);
        let body_max = SHORT_BODY_BYTES_MAX + if is_store { self.limits.memcached.item_bytes_max } else { 0 };
        let wrong_key = header.key_bytes > KEY_BYTES_MAX && opcode != op::STAT;
        if !header.is_sound() || wrong_key || header.body_bytes > body_max && !is_store {
            return self.end_binary(asked, Answer::Fatal(Status::Invalid), (at, input.len()));
        }
        let value_bytes = header.body_bytes - header.key_bytes - header.extras_bytes;
        let is_long = is_store && value_bytes > self.limits.memcached.item_bytes_max;
        let body_end = if is_long { header.body_bytes - value_bytes } else { header.body_bytes };
        let end = *at + HEADER_BYTES + body_end;
        let Some(body) = input.get(*at + HEADER_BYTES..end) else {
            self.own.announced = end - *at;
            return Step::Incomplete;
        };
        let (extras, key, value) = header.parts(body);
        if is_long {
            return self.refuse_binary(Asked { skips: value_bytes, ..asked }, key, (at, end));
        }
        *at = end;
        // U3: the port has one session for all clients that send to it, so no client can log in.
        if self.own.is_udp && matches!(opcode, op::SASL_LIST | op::SASL_AUTH | op::SASL_STEP) {
            self.push_answer(asked, Answer::Status(Status::UnknownCommand), end);
            return Step::Done;
        }
        if !self.session.identity.authenticated
            && !matches!(opcode, op::SASL_LIST | op::SASL_AUTH | op::SASL_STEP | op::VERSION | op::QUIT)
        {
            self.push_answer(asked, Answer::Status(Status::NotLoggedIn), end);
            return Step::Execute;
        }
        self.request((header, asked), (extras, key, value), end)
    }

    fn request(
        &mut self,
        (header, asked): (Header, Asked),
        (extras, key, value): (&'b [u8], &'b [u8], &'b [u8]),
        end: usize,
    ) -> Step {
        let (opcode, _) = loud(header.opcode);
        let keyed = !key.is_empty();
        let args = match (opcode, keyed, extras.len(), value.len()) {
            (op::GET | op::GETK, true, 0, 0) => [word(b"ITEM.GET"), Cow::Borrowed(key)].into_iter().collect(),
            (op::GAT | op::GATK | op::TOUCH, true, 4, 0) => touch(opcode, key, extras),
            (op::SET | op::ADD | op::REPLACE, true, 8, _) => store(opcode, header.cas, (key, extras, value)),
            (op::APPEND | op::PREPEND, true, 0, _) => {
                let side = word(if opcode == op::APPEND { b"APPEND" } else { b"PREPEND" });
                with_cas(
                    [word(b"ITEM.CAT"), Cow::Borrowed(key), Cow::Borrowed(value), side].into_iter().collect(),
                    header.cas,
                )
            }
            (op::DELETE, true, 0, 0) => {
                with_cas([word(b"ITEM.DEL"), Cow::Borrowed(key)].into_iter().collect(), header.cas)
            }
            (op::INCREMENT | op::DECREMENT, true, 20, 0) => count(opcode, header.cas, key, extras),
            (op::FLUSH, false, 0 | 4, 0) => flush(number_at(extras, 0).cast_signed().into()),
            (op::SASL_AUTH, true, 0, _) => {
                let mut parts = value.splitn(3, |byte| *byte == 0).skip(1);
                let (true, Some(user), Some(password)) = (key == b"PLAIN", parts.next(), parts.next()) else {
                    self.push_answer(asked, Answer::Status(Status::NotLoggedIn), end);
                    return Step::Execute;
                };
                self.push_call(
                    asked,
                    key,
                    [word(b"AUTH"), Cow::Borrowed(user), Cow::Borrowed(password)].into_iter().collect(),
                    end,
                );
                return Step::Execute;
            }
            _ => {
                let answer = match (opcode, keyed, extras.len(), value.len()) {
                    (op::NOOP, false, 0, 0) => Answer::Status(Status::Done),
                    (op::VERSION, false, 0, 0) => Answer::Version,
                    (op::SASL_LIST, false, 0, 0) => Answer::Mechanisms,
                    (op::SASL_STEP, ..) => Answer::Status(Status::NotLoggedIn),
                    (op::QUIT, false, 0, 0) => Answer::Quit,
                    (op::STAT, _, 0, 0) => Answer::Stat,
                    // VERBOSITY has no effect in memcached, either, and it sends no reply.
                    (0x1b, ..) => return self.ignore(end),
                    (..=op::STAT | op::TOUCH | op::GAT | op::GATK | op::SASL_LIST, ..) => {
                        Answer::Fatal(Status::Invalid)
                    }
                    _ => Answer::Status(Status::UnknownCommand),
                };
                self.push_answer_of(asked, key, answer, end);
                return if matches!(answer, Answer::Quit | Answer::Fatal(_)) {
                    Step::Execute
                } else {
                    Step::Done
                };
            }
        };
        self.push_call(asked, key, args, end);
        Step::Done
    }

    fn ignore(&mut self, end: usize) -> Step {
        self.batch.push_odd(self.place, crate::batch::Odd::Nothing, end);
        Step::Done
    }

    /// The value is longer than items may be: as for a `set` of the text protocol.
    fn refuse_binary(&mut self, asked: Asked, key: &'b [u8], (at, end): (&mut usize, usize)) -> Step {
        *at = end;
        if loud(asked.opcode).0 == op::SET && !key.is_empty() && self.session.identity.authenticated {
            self.push_call(asked, key, [word(b"ITEM.DEL"), Cow::Borrowed(key)].into_iter().collect(), end);
        } else {
            self.push_answer(asked, Answer::Status(Status::TooLarge), end);
        }
        Step::Execute
    }

    fn end_binary(&mut self, asked: Asked, answer: Answer, (at, end): (&mut usize, usize)) -> Step {
        *at = end;
        self.push_answer(asked, answer, end);
        Step::Execute
    }

    fn remember(&mut self, asked: Asked, key: &[u8]) -> Asked {
        let from = self.own.text.len();
        self.own.text.extend_from_slice(key);
        Asked { key: (from, self.own.text.len()), ..asked }
    }

    fn push_call(&mut self, asked: Asked, key: &[u8], args: Words<'b>, end: usize) {
        let asked = self.remember(asked, key);
        let note = Note::of(Kind::Binary).at(self.own.owns.len());
        self.own.owns.push(Own::Binary(asked, Answer::Status(Status::Done)));
        self.push_words(note, args, end);
    }

    fn push_answer(&mut self, asked: Asked, answer: Answer, end: usize) {
        self.push_answer_of(asked, b"", answer, end);
    }

    fn push_answer_of(&mut self, asked: Asked, key: &[u8], answer: Answer, end: usize) {
        let asked = self.remember(asked, key);
        self.push_own(Own::Binary(asked, answer), end);
    }
}

fn word<'b>(word: &'static [u8]) -> Cow<'b, [u8]> {
    Cow::Borrowed(word)
}

fn digits<'b>(value: u64) -> Cow<'b, [u8]> {
    Cow::Owned(value.to_string().into_bytes())
}

fn with_cas(mut args: Words<'_>, cas: u64) -> Words<'_> {
    if cas != 0 {
        args.extend([word(b"CAS"), digits(cas)]);
    }
    args
}

/// The 32-bit number at a place of the extras.
fn number_at(extras: &[u8], at: usize) -> u32 {
    extras.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn long_at(extras: &[u8], at: usize) -> u64 {
    u64::from(number_at(extras, at)) << 32 | u64::from(number_at(extras, at + 4))
}

/// The expiry of a request. The number has a sign in memcached, too.
fn expire(args: &mut Words<'_>, seconds: u32, always: bool) {
    let seconds = i64::from(seconds.cast_signed());
    let unit: &'static [u8] = match seconds {
        0 if always => b"PERSIST",
        0 => return,
        ..=RELATIVE_SECONDS_MAX => b"EX",
        _ => b"EXAT",
    };
    args.push(word(unit));
    if seconds != 0 {
        args.push(Cow::Owned(seconds.to_string().into_bytes()));
    }
}

fn touch<'b>(opcode: u8, key: &'b [u8], extras: &[u8]) -> Words<'b> {
    let mut args: Words<'b> = [word(b"ITEM.GAT"), Cow::Borrowed(key), word(b"NOWIN")].into_iter().collect();
    args.extend((opcode == op::TOUCH).then_some(word(b"HEAD")));
    expire(&mut args, number_at(extras, 0), true);
    args
}

fn store<'b>(opcode: u8, cas: u64, (key, extras, value): (&'b [u8], &[u8], &'b [u8])) -> Words<'b> {
    let mut args: Words<'b> =
        [word(b"ITEM.SET"), Cow::Borrowed(key), Cow::Borrowed(value)].into_iter().collect();
    match opcode {
        op::ADD if cas == 0 => args.push(word(b"ADD")),
        op::REPLACE if cas == 0 => args.push(word(b"REPLACE")),
        _ => args = with_cas(args, cas),
    }
    if number_at(extras, 0) != 0 {
        args.extend([word(b"FLAGS"), digits(number_at(extras, 0).into())]);
    }
    expire(&mut args, number_at(extras, 4), false);
    args
}

fn count<'b>(opcode: u8, cas: u64, key: &'b [u8], extras: &[u8]) -> Words<'b> {
    let mut args: Words<'b> =
        [word(b"ITEM.INC"), Cow::Borrowed(key), digits(long_at(extras, 0))].into_iter().collect();
    args.extend((opcode == op::DECREMENT).then_some(word(b"DOWN")));
    let expiry = number_at(extras, 16);
    if expiry != NOT_CREATED {
        args.extend([word(b"CREATE"), digits(long_at(extras, 8)), word(b"VIVIFY"), digits(expiry.into())]);
    }
    with_cas(args, cas)
}

/// Writes a reply with a text or bytes as its value.
fn write_reply(output: &mut Output, asked: &Asked, status: Status, cas: u64, value: &[u8]) {
    output.raw(&reply(asked.opcode, status, asked.opaque, cas, (0, 0, value.len() as u64)));
    output.raw(value);
}

/// Replies to a request that is no call.
pub fn answer(
    (asked, answer): (&Asked, Answer),
    text: &[u8],
    session: &mut Session,
    host: (&dyn Host, &Memory),
    output: &mut Output,
) {
    let (_, quiet) = loud(asked.opcode);
    match answer {
        Answer::Status(status) => write_reply(output, asked, status, 0, status.text().as_bytes()),
        Answer::Fatal(status) => {
            write_reply(output, asked, status, 0, status.text().as_bytes());
            session.closing = true;
        }
        Answer::Version => write_reply(output, asked, Status::Done, 0, super::VERSION.as_bytes()),
        Answer::Mechanisms => write_reply(output, asked, Status::Done, 0, b"PLAIN"),
        Answer::Quit => {
            if !quiet {
                write_reply(output, asked, Status::Done, 0, b"");
            }
            session.closing = true;
        }
        Answer::Stat => stat(asked, &text[asked.key.0..asked.key.1], session, host, output),
    }
}

fn stat(asked: &Asked, name: &[u8], session: &mut Session, host: (&dyn Host, &Memory), output: &mut Output) {
    let words: Vec<&[u8]> = name.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    if let [b"detail", action @ ..] = &words[..] {
        let rows: &[(&str, &str)] = match action {
            [b"dump"] => &[("detailed", "END\r\n")],
            [b"on" | b"off"] => &[],
            _ => return write_reply(output, asked, Status::NotFound, 0, Status::NotFound.text().as_bytes()),
        };
        return write_rows(asked, rows.iter().copied(), output);
    }
    let Own::Stats(report) = stats::request(&words) else {
        return write_reply(output, asked, Status::NotFound, 0, Status::NotFound.text().as_bytes());
    };
    match stats::rows_of(report, session, host) {
        Ok(rows) => write_rows(asked, rows.into_iter(), output),
        Err(error) => write_reply(output, asked, Status::Internal, 0, error.as_bytes()),
    }
}

/// Writes a report: a reply for each row, and one without a name.
fn write_rows<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    asked: &Asked,
    rows: impl Iterator<Item = (N, V)>,
    output: &mut Output,
) {
    for (name, value) in rows {
        let (name, value) = (name.as_ref(), value.as_ref());
        let lengths = (0, name.len(), value.len() as u64);
        output.raw(&reply(asked.opcode, Status::Done, asked.opaque, 0, lengths));
        output.raw(name);
        output.raw(value);
    }
    write_reply(output, asked, Status::Done, 0, b"");
}

/// Writes the reply to one call.
pub struct BinarySink<'o> {
    output: &'o mut Output,
    asked: Asked,
    key: &'o [u8],
    /// The CAS of the counter whose digits follow.
    counter_cas: Option<u64>,
    pub replied: bool,
}

impl<'o> BinarySink<'o> {
    pub fn new(output: &'o mut Output, asked: Asked, text: &'o [u8]) -> BinarySink<'o> {
        BinarySink { output, asked, key: &text[asked.key.0..asked.key.1], counter_cas: None, replied: false }
    }

    fn opcode(&self) -> u8 {
        loud(self.asked.opcode).0
    }

    fn is_quiet(&self) -> bool {
        loud(self.asked.opcode).1
    }

    fn done(&mut self, cas: u64, value: &[u8]) {
        self.replied = true;
        if !self.is_quiet() {
            write_reply(self.output, &self.asked, Status::Done, cas, value);
        }
    }

    fn fail(&mut self, status: Status) {
        self.replied = true;
        write_reply(self.output, &self.asked, status, 0, status.text().as_bytes());
    }

    fn shows_key(&self) -> bool {
        matches!(self.opcode(), op::GETK | op::GATK)
    }
}

impl Reply for BinarySink<'_> {
    fn protocol(&self) -> RespVersion {
        RespVersion::Resp3
    }

    fn error(&mut self, text: &str) {
        self.replied = true;
        let status = match text.split(' ').next().unwrap_or_default() {
            _ if self.asked.skips > 0 => Status::TooLarge,
            _ if self.opcode() == op::SASL_AUTH => Status::NotLoggedIn,
            "OOM" => Status::NoMemory,
            "NOTNUM" => Status::NotANumber,
            "NOAUTH" | "NOPERM" => Status::NotLoggedIn,
            _ => return write_reply(self.output, &self.asked, Status::Internal, 0, text.as_bytes()),
        };
        self.fail(status);
    }

    fn item(&mut self, item: &Item<'_>, has_value: bool) {
        self.replied = true;
        if matches!(self.opcode(), op::INCREMENT | op::DECREMENT) {
            self.counter_cas = Some(item.cas);
            return;
        }
        let key = if self.shows_key() { self.key } else { b"" };
        let value = if has_value { item.bytes } else { 0 };
        self.output.raw(&reply(
            self.asked.opcode,
            Status::Done,
            self.asked.opaque,
            item.cas,
            (4, key.len(), value),
        ));
        self.output.raw(&item.flags.to_be_bytes());
        self.output.raw(key);
    }

    fn written(&mut self, written: Written) {
        match (self.opcode(), written) {
            _ if self.asked.skips > 0 => self.fail(Status::TooLarge),
            (op::DELETE, Written::Done(_)) => self.done(0, b""),
            (_, Written::Done(cas)) => self.done(cas, b""),
            (op::ADD, Written::NotStored) | (_, Written::Exists) => self.fail(Status::Exists),
            (op::REPLACE, Written::NotStored) | (_, Written::NotFound) => self.fail(Status::NotFound),
            (_, Written::NotStored) => self.fail(Status::NotStored),
        }
    }

    fn bulk(&mut self, bytes: &[u8]) {
        let Some(cas) = self.counter_cas.take() else { return self.output.raw(bytes) };
        let number: u64 = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        self.done(cas, &number.to_be_bytes());
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.output.raw(bytes);
    }

    fn null(&mut self) {
        self.replied = true;
        if self.is_quiet() && !matches!(self.opcode(), op::INCREMENT | op::DECREMENT) {
            return;
        }
        if self.shows_key() {
            self.output.raw(&reply(
                self.asked.opcode,
                Status::NotFound,
                self.asked.opaque,
                0,
                (0, self.key.len(), 0),
            ));
            return self.output.raw(self.key);
        }
        self.fail(Status::NotFound);
    }

    fn status(&mut self, _text: &str) {
        let text: &[u8] = if self.opcode() == op::SASL_AUTH { b"Authenticated" } else { b"" };
        self.done(0, text);
    }

    fn null_array(&mut self) {
        self.null();
    }

    fn integer(&mut self, _value: i64) {
        self.done(0, b"");
    }

    fn mark(&self) -> usize {
        self.output.mark()
    }

    fn bytes_since(&self, mark: usize) -> usize {
        self.output.bytes_since(mark)
    }

    fn rewind(&mut self, mark: usize) {
        self.output.rewind(mark);
        (self.replied, self.counter_cas) = (false, None);
    }

    fn is_overfull(&self) -> bool {
        self.output.is_overfull()
    }
}
