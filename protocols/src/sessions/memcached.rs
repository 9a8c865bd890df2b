//! memcached on a connection: each request that touches keys becomes calls of the ITEM rows.
//!
//! ```text
//!   get a b            ->  ITEM.GET a    ITEM.GET b, whose reply ends with END     (memcached promises no atomicity)
//!   set k 5 60 3 \ abc ->  ITEM.SET k abc FLAGS 5 EX 60
//!   version, stats     ->  no call: `own`
//! ```
//!
//! | file | what |
//! |---|---|
//! | `text` | lines to frames |
//! | `meta` | meta commands to frames |
//! | `flags` | the flags of replies to meta commands |
//! | `binary` | requests of the binary protocol to frames, and its replies |
//! | `sink` | the replies of calls in the words of the text protocol |
//! | `stats`, `dump` | requests that are no calls |
//!
//! **Invariant M1:** what a request leaves for the next one (keys of a `get` that are done, bytes to skip) changes when a
//! frame is executed, never when it is read: a connection may be parked in between, and then it reads again.
//! **Invariant M2:** [`Memcached::read`] is called when all frames that it pushed have been executed or dropped.
mod binary;
mod capture;
mod dump;
mod flags;
mod meta;
mod sink;
mod stats;
mod text;

use polder_base::Reply;
use polder_engine::Memory;
use polder_runtime::{Host, Progress, Session};
use polder_wire::Output;
use polder_wire::memcached::binary::REQUEST;

use self::binary::{Answer, Asked, BinarySink};
use self::dump::Dump;
use self::sink::TextSink;
use self::stats::Report;
use super::Change;
use crate::batch::{Batch, Left, Odd};
use crate::doors::Refusal;
use crate::limits::ServerLimits;

/// What a frame's reply is like; the low byte of its note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Get,
    Store,
    Delete,
    Touch,
    Count,
    /// Meta commands.
    MetaGet,
    MetaSet,
    MetaDelete,
    MetaCount,
    MetaDebug,
    /// A request of the binary protocol.
    Binary,
    /// Whatever the call says, the reply is that the value was too large, whose bytes are skipped.
    TooLarge,
    /// AUTH.
    Login,
    /// OK, or an error.
    Ok,
    /// It is no call: see [`Own`].
    Own,
}

const KINDS: [Kind; 15] = [
    Kind::Get,
    Kind::Store,
    Kind::Delete,
    Kind::Touch,
    Kind::Count,
    Kind::MetaGet,
    Kind::MetaSet,
    Kind::MetaDelete,
    Kind::MetaCount,
    Kind::MetaDebug,
    Kind::Binary,
    Kind::TooLarge,
    Kind::Login,
    Kind::Ok,
    Kind::Own,
];

/// A frame's note: kind, some bits, and the place of more among what the reader remembers.
#[derive(Clone, Copy)]
struct Note(u32);

impl Note {
    /// No reply is wanted.
    const QUIET: u32 = 1 << 8;
    /// The reply shows the CAS.
    const CAS: u32 = 1 << 9;
    /// The last key of its request.
    const LAST: u32 = 1 << 10;
    /// A meta command wants the value.
    const VALUE: u32 = 1 << 11;
    const PLACE: u32 = 12;

    fn of(kind: Kind) -> Note {
        Note(kind as u32)
    }

    fn with(self, bit: u32, set: bool) -> Note {
        Note(if set { self.0 | bit } else { self.0 })
    }

    fn at(self, place: usize) -> Note {
        Note(self.0 | (place as u32) << Note::PLACE)
    }

    fn kind(self) -> Kind {
        KINDS[usize::from(self.0 as u8)]
    }

    fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    fn place(self) -> usize {
        (self.0 >> Note::PLACE) as usize
    }
}

/// A request that is no call.
#[derive(Debug)]
enum Own {
    /// This is the reply.
    Text(&'static str),
    Version,
    Quit,
    /// This many bytes of a value that is not taken are still to come.
    Skip(usize),
    /// This many of them have come.
    Skipped(usize),
    /// Of a key that is not the last of its request: what has been done then.
    Next(Done),
    /// Of a meta command: its words behind the name, among the reader's text, and the length of the value that it stores.
    Words {
        from: usize,
        to: usize,
        bytes: usize,
    },
    /// The end of a datagram.
    Guest,
    /// Of a request of the binary protocol.
    Binary(Asked, Answer),
    Stats(Report),
    Dump(Dump),
}

/// What has been done of a `get`. Its line is read once, however many batches its keys need.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// How many keys have been replied to.
    keys: usize,
    /// Where in the request the next key is looked for.
    next: usize,
    /// The length of the request.
    request: usize,
}

/// memcached on one connection.
#[derive(Default)]
pub struct Memcached {
    /// Whether the client speaks the binary protocol, which its first byte says.
    binary: Option<bool>,
    /// What has been done of the first request, a `get`.
    done: Done,
    /// The first request lists all keys, and goes on here.
    dumped: Option<dump::Cursor>,
    /// A key of that request had an error as its reply, so the request gets no more.
    failed: bool,
    /// How many bytes of the input are skipped before the next request.
    skips: usize,
    /// How long the first request is, if that is known and it has not come whole.
    announced: usize,
    /// This many bytes of the first request have no end of a line.
    searched: usize,
    /// What the notes of the present frames refer to.
    owns: Vec<Own>,
    /// The words of meta commands.
    text: Vec<u8>,
    /// The requests come as datagrams. Each is read as if the connection began and ended with it.
    is_udp: bool,
    /// A datagram has been executed.
    ended: bool,
}

/// The version of memcached whose protocol this is, since clients choose their features by it, and ours.
const VERSION: &str = concat!("1.6.18-polder-", env!("CARGO_PKG_VERSION"));

/// More memory is not kept between turns.
const KEPT_BYTES_MAX: usize = 4096;

impl Memcached {
    /// As [`Protocol::read`](super::Protocol::read).
    pub fn read<'b>(
        &mut self,
        limits: &ServerLimits,
        session: &Session,
        input: &'b [u8],
        at: &mut usize,
        place: u32,
        batch: &mut Batch<'b>,
    ) -> Left {
        self.forget_frames();
        self.announced = 0;
        self.read_on((limits, session), input, at, (place, self.done), batch)
    }

    /// As [`Protocol::read_datagrams`](super::Protocol::read_datagrams).
    pub fn read_datagrams<'b>(
        &mut self,
        (limits, session): (&ServerLimits, &Session),
        (input, ends): (&'b [u8], impl Iterator<Item = usize>),
        at: &mut usize,
        (place, is_overfull): (u32, bool),
        batch: &mut Batch<'b>,
    ) -> Left {
        self.forget_frames();
        self.is_udp = true;
        let mut resumes = self.done;
        for end in ends {
            self.binary = None;
            self.forget_progress();
            let left = match is_overfull {
                true => Left::Nothing,
                false => self.read_on(
                    (limits, session),
                    &input[..end],
                    at,
                    (place, std::mem::take(&mut resumes)),
                    batch,
                ),
            };
            if left == Left::Perhaps {
                return left;
            }
            // What is left of it is no whole request.
            *at = end;
            self.push_own(Own::Guest, end, place, batch);
            // What skips the rest of a datagram, or has made its reply too long, ends with it (M1).
            if is_overfull || self.skips > 0 || batch.is_full() {
                return Left::Perhaps;
            }
        }
        Left::Nothing
    }

    fn read_on<'b>(
        &mut self,
        (limits, session): (&ServerLimits, &Session),
        input: &'b [u8],
        at: &mut usize,
        (place, mut resumes): (u32, Done),
        batch: &mut Batch<'b>,
    ) -> Left {
        while !batch.is_full() {
            if self.skips > 0 {
                return self.skip(input, at, place, batch);
            }
            if *at == input.len() {
                return Left::Nothing;
            }
            let is_binary = *self.binary.get_or_insert(input[*at] == REQUEST);
            let mut reader = text::Reader { own: self, limits, session, place, batch };
            let step = match is_binary {
                true => reader.read_binary(input, at),
                false => reader.read(input, at, std::mem::take(&mut resumes)),
            };
            match step {
                text::Step::Done => {}
                text::Step::Incomplete => return Left::Nothing,
                text::Step::Execute => return Left::Perhaps,
            }
        }
        Left::Perhaps
    }

    /// Forgets what the notes of earlier frames refer to (M2).
    fn forget_frames(&mut self) {
        self.owns.clear();
        self.text.clear();
        self.owns.shrink_to(KEPT_BYTES_MAX / size_of::<Own>());
        self.text.shrink_to(KEPT_BYTES_MAX);
    }

    /// Takes bytes from the input that are skipped.
    fn skip<'b>(&mut self, input: &'b [u8], at: &mut usize, place: u32, batch: &mut Batch<'b>) -> Left {
        let count = self.skips.min(input.len() - *at);
        if count == 0 {
            return Left::Nothing;
        }
        *at += count;
        self.push_own(Own::Skipped(count), *at, place, batch);
        Left::Perhaps
    }

    fn push_own(&mut self, own: Own, end: usize, place: u32, batch: &mut Batch<'_>) {
        let note = Note::of(Kind::Own).at(self.owns.len());
        self.owns.push(own);
        batch.push_noted(place, note.0, Odd::Own, end);
    }

    /// Does [`Protocol::fail`](super::Protocol::fail). In binary the request is not known any more that an error would name.
    pub fn fail(&mut self, text: &str, output: &mut Output) {
        if self.binary != Some(true) {
            output.raw(format!("SERVER_ERROR {text}\r\n").as_bytes());
        }
    }

    /// As [`Protocol::reply`](super::Protocol::reply).
    pub fn reply<R>(&mut self, output: &mut Output, note: u32, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        let note = Note(note);
        if note.kind() == Kind::Binary {
            return self.reply_binary(output, note, run);
        }
        let (request, bytes) = match self.owns.get(note.place()) {
            Some(Own::Words { from, to, bytes }) => (&self.text[*from..*to], *bytes),
            _ => (&[][..], 0),
        };
        let mut sink = TextSink::new(output, note, (request, bytes), self.failed);
        let result = run(&mut sink);
        if !sink.replied {
            // The call met a lock, and is made again.
            return result;
        }
        let failed = sink.failed;
        match note.kind() {
            Kind::Get if note.has(Note::LAST) => {
                if !failed {
                    output.raw(b"END\r\n");
                }
                (self.done, self.failed) = (Done::default(), false);
            }
            Kind::Get => {
                if let Some(Own::Next(done)) = self.owns.get(note.place()) {
                    self.done = *done;
                }
                self.failed = failed;
            }
            Kind::TooLarge => self.run_own(note.place(), output),
            _ => {}
        }
        result
    }

    fn reply_binary<R>(
        &mut self,
        output: &mut Output,
        note: Note,
        run: impl FnOnce(&mut dyn Reply) -> R,
    ) -> R {
        let Some(&Own::Binary(asked, _)) = self.owns.get(note.place()) else {
            unreachable!("its frame was pushed with it")
        };
        let mut sink = BinarySink::new(output, asked, &self.text);
        let result = run(&mut sink);
        if sink.replied {
            self.skips = asked.skips;
        }
        result
    }

    /// As [`Protocol::own`](super::Protocol::own).
    pub fn own(
        &mut self,
        note: u32,
        session: &mut Session,
        host: (&dyn Host, &Memory),
        output: &mut Output,
    ) -> Progress {
        match self.owns.get(Note(note).place()) {
            Some(Own::Quit) => session.closing = true,
            Some(Own::Guest) => {
                (self.done, self.failed, self.skips, self.dumped) = (Done::default(), false, 0, None);
                self.ended = true;
            }
            Some(Own::Stats(report)) => stats::write(*report, session, host, output),
            Some(Own::Binary(asked, answer)) => {
                self.skips = asked.skips;
                binary::answer((asked, *answer), &self.text, session, host, output);
            }
            Some(Own::Dump(dump)) => {
                self.dumped =
                    dump::write_page((*dump, self.is_udp), self.dumped.take(), session, host, output);
                if self.dumped.is_some() {
                    // The request is executed again in one of the next turns, behind other clients.
                    return Progress::Busy;
                }
            }
            Some(_) => self.run_own(Note(note).place(), output),
            None => {}
        }
        if self.is_udp && session.closing {
            // The client that sent this datagram ends, which others share the connection with.
            session.closing = false;
            self.skips = usize::MAX;
        }
        Progress::Answered
    }

    fn run_own(&mut self, place: usize, output: &mut Output) {
        match self.owns.get(place) {
            Some(Own::Text(text)) => {
                output.raw(text.as_bytes());
                output.raw(b"\r\n");
            }
            Some(Own::Version) => output.raw(format!("VERSION {VERSION}\r\n").as_bytes()),
            Some(Own::Skip(count)) => self.skips = *count,
            Some(Own::Skipped(count)) => self.skips -= count,
            Some(
                Own::Quit
                | Own::Guest
                | Own::Next(_)
                | Own::Words { .. }
                | Own::Binary(..)
                | Own::Stats(_)
                | Own::Dump(_),
            )
            | None => {}
        }
    }

    /// As [`Protocol::take_change`](super::Protocol::take_change).
    pub fn take_change(&mut self) -> Option<Change> {
        std::mem::take(&mut self.ended).then_some(Change::Guest)
    }

    /// As [`Protocol::missing`](super::Protocol::missing).
    pub fn missing(&self, have: usize) -> usize {
        self.announced.saturating_sub(have)
    }

    /// As [`Protocol::forget_progress`](super::Protocol::forget_progress).
    pub fn forget_progress(&mut self) {
        (self.announced, self.searched) = (0, 0);
    }
}

/// The line that a refused client gets.
pub fn refusal(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::Protected => {
            b"SERVER_ERROR protected-mode is on and no password is set: connect from this host, set a password, or set protected-mode to no\r\n"
        }
        Refusal::Full => b"SERVER_ERROR too many open connections\r\n",
    }
}
