//! Lines of the text protocol become frames.
use std::borrow::Cow;

use polder_runtime::Session;
use polder_wire::memcached::RELATIVE_SECONDS_MAX;
use polder_wire::memcached::text::{Line, Number, Store, getter, is_canonical, words};
use smallvec::SmallVec;

use super::{Done, Kind, Memcached, Note, Own};
use crate::batch::{Batch, Content, Frame, Odd};
use crate::limits::ServerLimits;

/// A longer line that is no `get` ends the connection, as in memcached.
const LINE_BYTES_MAX: usize = 2048;
pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(super) const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";

/// What became of one step of reading.
pub enum Step {
    /// A request was read.
    Done,
    /// The first request has not come whole.
    Incomplete,
    /// What has been read is to be executed before more is read.
    Execute,
}

/// The arguments of a call; those that are not slices of the input are copies.
pub type Words<'b> = SmallVec<[Cow<'b, [u8]>; 12]>;

/// The reader of one turn.
pub struct Reader<'r, 'b> {
    pub own: &'r mut Memcached,
    pub limits: &'r ServerLimits,
    pub session: &'r Session,
    pub place: u32,
    pub batch: &'r mut Batch<'b>,
}

impl<'b> Reader<'_, 'b> {
    /// Reads the request at `at`. Of a `get`, keys may be done.
    pub fn read(&mut self, input: &'b [u8], at: &mut usize, resumes: Done) -> Step {
        let rest = &input[*at..];
        if resumes.keys > 0 {
            return self.resume(rest, at, resumes);
        }
        let searched = std::mem::take(&mut self.own.searched).min(rest.len());
        let Some(length) = memchr::memchr(b'\n', &rest[searched..]).map(|found| found + searched) else {
            return self.wait_for_line(rest, at);
        };
        let line = rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]);
        let end = *at + length + 1;
        let line = Line::read(line);
        if !self.session.identity.authenticated {
            return self.log_in(&line, input, (at, end));
        }
        match line {
            Line::Get { keys, cas, touch } => return self.get(keys, (cas, touch), rest, (at, end), 0),
            Line::Store { store, key, flags, exptime, bytes, quiet } => {
                return self.store((store, key, flags, exptime), (bytes, quiet), input, (at, end));
            }
            Line::Delete { key, quiet } => {
                self.push(Note::of(Kind::Delete).with(Note::QUIET, quiet), &[b"ITEM.DEL", key], end);
            }
            Line::Count { key, up, by, quiet } => {
                let mut args: Words<'b> = [b"ITEM.INC", key].map(Cow::Borrowed).into_iter().collect();
                args.push(unsigned(by.text, by.value));
                args.extend((!up).then_some(Cow::Borrowed(&b"DOWN"[..])));
                self.push_words(Note::of(Kind::Count).with(Note::QUIET, quiet), args, end);
            }
            Line::Touch { key, exptime, quiet } => {
                let mut args: Words<'b> = [b"ITEM.EXP", key].map(Cow::Borrowed).into_iter().collect();
                push_expiry(&mut args, exptime, true);
                self.push_words(Note::of(Kind::Touch).with(Note::QUIET, quiet), args, end);
            }
            Line::Flush { delay, quiet } => {
                self.push_words(Note::of(Kind::Ok).with(Note::QUIET, quiet), flush(delay), end)
            }
            Line::Shutdown { graceful: _ } if self.limits.memcached.allows_shutdown => {
                self.push(Note::of(Kind::Ok), &[b"SHUTDOWN"], end)
            }
            Line::Shutdown { .. } => self.push_text("ERROR: shutdown not enabled", false, end),
            Line::Stats(words) => self.push_own(super::stats::request(&words), end),
            Line::Crawler(words) => self.push_own(super::dump::request(&words), end),
            Line::Meta(b'n', _) => self.push_text("MN", false, end),
            Line::Meta(letter, words) => return self.meta(letter, &words, input, (at, end)),
            Line::MemoryLimit { megabytes, quiet } => {
                let mut args: Words<'b> =
                    [&b"CONFIG"[..], b"SET", b"maxmemory"].map(Cow::Borrowed).into_iter().collect();
                args.push(Cow::Owned(format!("{megabytes}mb").into_bytes()));
                self.push_words(Note::of(Kind::Ok).with(Note::QUIET, quiet), args, end);
            }
            Line::Version => self.push_own(Own::Version, end),
            Line::Verbosity { quiet } => self.push_text("OK", quiet, end),
            Line::Quit | Line::Foreign => {
                self.push_own(Own::Quit, end);
                *at = end;
                return Step::Execute;
            }
            Line::Wrong { reply, quiet } => self.push_text(reply, quiet, end),
        }
        *at = end;
        Step::Done
    }

    /// A client that must log in does so by a first `set`, whose value is its name and its password.
    fn log_in(&mut self, line: &Line<'b>, input: &'b [u8], (at, line_end): (&mut usize, usize)) -> Step {
        let mut end = line_end;
        match *line {
            Line::Quit | Line::Foreign => self.push_own(Own::Quit, end),
            Line::Store { store: Store::Set, bytes, .. } if bytes <= LINE_BYTES_MAX => {
                end += bytes + 2;
                let Some(data) = input.get(line_end..end) else {
                    self.own.announced = end - *at;
                    return Step::Incomplete;
                };
                let credentials = data.strip_suffix(b"\r\n").map(|data| data.split(|byte| *byte == b' '));
                match credentials.map(|words| words.collect::<SmallVec<[&[u8]; 2]>>()).as_deref() {
                    Some([user, password]) => {
                        self.push(Note::of(Kind::Login), &[b"AUTH", user, password], end)
                    }
                    Some(_) => self.push_text("CLIENT_ERROR authentication failure", false, end),
                    None => self.push_text(BAD_CHUNK, false, end),
                }
            }
            _ => self.push_text("CLIENT_ERROR unauthenticated", false, end),
        }
        *at = end;
        Step::Execute
    }

    /// The line has no end yet.
    fn wait_for_line(&mut self, rest: &[u8], at: &mut usize) -> Step {
        let line = rest.trim_ascii_start();
        let is_get = line.starts_with(b"get ") || line.starts_with(b"gets ");
        if rest.len() > LINE_BYTES_MAX && (!is_get || rest.len() - line.len() > 100) {
            *at += rest.len();
            self.push_own(Own::Quit, *at);
            return Step::Execute;
        }
        self.own.searched = rest.len();
        Step::Incomplete
    }

    /// Goes on with a `get`, of which some keys are done.
    fn resume(&mut self, rest: &'b [u8], at: &mut usize, Done { keys, next, request }: Done) -> Step {
        let line = &rest[..request - 1];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let end = *at + request;
        self.get(&line[next..], getter(line), rest, (at, end), keys)
    }

    /// A frame for each key, of which there were `done` before. All but the last leave the request in the input (M1).
    fn get(
        &mut self,
        keys: &'b [u8],
        (cas, touch): (bool, Option<Number<'b, i64>>),
        request: &'b [u8],
        (at, end): (&mut usize, usize),
        mut done: usize,
    ) -> Step {
        let offset_of = |word: &[u8]| word.as_ptr() as usize - request.as_ptr() as usize;
        let mut rest = words(keys).peekable();
        while let Some(key) = rest.next() {
            done += 1;
            let last = rest.peek().is_none();
            let note = Note::of(Kind::Get).with(Note::CAS, cas).with(Note::LAST, last);
            let note = if last { note } else { note.at(self.own.owns.len()) };
            if !last {
                self.own.owns.push(Own::Next(Done {
                    keys: done,
                    next: offset_of(key) + key.len(),
                    request: end - *at,
                }));
            }
            let end = if last { end } else { *at };
            match touch {
                None => self.push(note, &[b"ITEM.GET", key], end),
                Some(exptime) => {
                    let mut args: Words<'b> =
                        [b"ITEM.GAT", key, b"NOWIN"].map(Cow::Borrowed).into_iter().collect();
                    push_expiry(&mut args, exptime, true);
                    self.push_words(note, args, end);
                }
            }
            if !last && self.batch.is_full() {
                return Step::Execute;
            }
        }
        *at = end;
        Step::Done
    }

    /// A value stands behind the line.
    fn store(
        &mut self,
        (store, key, flags, exptime): (Store, &'b [u8], Number<'b, u32>, Number<'b, i64>),
        (bytes, quiet): (usize, bool),
        input: &'b [u8],
        (at, line_end): (&mut usize, usize),
    ) -> Step {
        if bytes > self.limits.memcached.item_bytes_max {
            return self.refuse_value(store, key, (bytes, quiet), (at, line_end));
        }
        let end = line_end + bytes + 2;
        if input.len() < end {
            self.own.announced = end - *at;
            return Step::Incomplete;
        }
        let (value, ending) = input[line_end..end].split_at(bytes);
        *at = end;
        if ending != b"\r\n" {
            self.push_text(BAD_CHUNK, quiet, end);
            return Step::Done;
        }
        let note = Note::of(Kind::Store).with(Note::QUIET, quiet);
        let mut cas = itoa::Buffer::new();
        let mut args: Words<'b> = [b"ITEM.SET", key, value].map(Cow::Borrowed).into_iter().collect();
        match store {
            Store::Set => {}
            Store::Add => args.push(Cow::Borrowed(b"ADD")),
            Store::Replace => args.push(Cow::Borrowed(b"REPLACE")),
            Store::Cas(token) => {
                args.push(Cow::Borrowed(b"CAS"));
                args.push(Cow::Owned(cas.format(token).as_bytes().to_vec()));
            }
            Store::Append | Store::Prepend => {
                let side: &[u8] = if store == Store::Append { b"APPEND" } else { b"PREPEND" };
                self.push(note, &[b"ITEM.CAT", key, value, side], end);
                return Step::Done;
            }
        }
        if flags.value != 0 {
            args.push(Cow::Borrowed(b"FLAGS"));
            args.push(number(flags.text, i64::from(flags.value)));
        }
        push_expiry(&mut args, exptime, false);
        self.push_words(note, args, end);
        Step::Done
    }

    /// The value is longer than items may be. What was there goes, because a cache that could not store a value must not
    /// serve the one before it.
    fn refuse_value(
        &mut self,
        store: Store,
        key: &'b [u8],
        (bytes, quiet): (usize, bool),
        (at, end): (&mut usize, usize),
    ) -> Step {
        let place = self.own.owns.len();
        self.own.owns.push(Own::Skip(bytes + 2));
        let note = Note::of(Kind::TooLarge).with(Note::QUIET, quiet).at(place);
        if store == Store::Set {
            self.push(note, &[b"ITEM.DEL", key], end);
        } else {
            self.push_text(TOO_LARGE, quiet, end);
            self.batch.push_noted(self.place, Note::of(Kind::Own).at(place).0, Odd::Own, end);
        }
        *at = end;
        Step::Execute
    }

    /// A call whose arguments are all slices of the input.
    pub(super) fn push(&mut self, note: Note, args: &[&'b [u8]], end: usize) {
        let from = self.batch.args.len();
        self.batch.args.extend_from_slice(args);
        let content = Content::Args { from, to: self.batch.args.len() };
        self.batch.frames.push(Frame { place: self.place, note: note.0, content, end });
    }

    pub(super) fn push_words(&mut self, note: Note, args: Words<'b>, end: usize) {
        let from = self.batch.args.len();
        for arg in &args {
            let Cow::Borrowed(arg) = arg else {
                self.batch.args.truncate(from);
                let words = args.into_iter().map(Cow::into_owned).collect();
                return self.batch.push_noted(self.place, note.0, Odd::Words(words), end);
            };
            self.batch.args.push(arg);
        }
        let content = Content::Args { from, to: self.batch.args.len() };
        self.batch.frames.push(Frame { place: self.place, note: note.0, content, end });
    }

    pub(super) fn push_own(&mut self, own: Own, end: usize) {
        self.own.push_own(own, end, self.place, self.batch);
    }

    pub(super) fn push_text(&mut self, text: &'static str, quiet: bool, end: usize) {
        if quiet {
            self.batch.push_odd(self.place, Odd::Nothing, end);
        } else {
            self.push_own(Own::Text(text), end);
        }
    }
}

/// The call of `flush_all` with this delay: a time, as memcached reads it.
pub(super) fn flush<'b>(delay: i64) -> Words<'b> {
    let mut args: Words<'b> = [Cow::Borrowed(&b"ITEM.FLUSH"[..])].into_iter().collect();
    if delay > 0 {
        push_expiry(&mut args, Number { value: delay, text: b"" }, false);
    }
    args
}

/// The text of a number: the client's own, if that is how it is printed.
pub(super) fn number(text: &[u8], value: i64) -> Cow<'_, [u8]> {
    if is_canonical(text) && value >= 0 {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(value.to_string().into_bytes())
    }
}

/// The same of a number without a sign.
pub(super) fn unsigned(text: &[u8], value: u64) -> Cow<'_, [u8]> {
    if is_canonical(text) { Cow::Borrowed(text) } else { Cow::Owned(value.to_string().into_bytes()) }
}

/// The expiry that memcached's exptime means; `always`: also that there is none.
pub(super) fn push_expiry<'b>(args: &mut Words<'b>, exptime: Number<'b, i64>, always: bool) {
    let value = exptime.value;
    let unit: &[u8] = match value {
        0 if always => b"PERSIST",
        0 => return,
        ..=RELATIVE_SECONDS_MAX => b"EX",
        _ => b"EXAT",
    };
    args.push(Cow::Borrowed(unit));
    if value != 0 {
        args.push(number(exptime.text, value));
    }
}
