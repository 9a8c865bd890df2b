//! The reply of a called command, as Lua values that become a reply again: what RESP3 has more than
//! RESP2 is gone by then, integers have become doubles, and there is only one kind of nothing. It
//! goes straight to the script's own reply, or is kept as a value.

use std::borrow::Cow;
use std::rc::Rc;

use polder_base::{Protocol, Reply, number};
use smallvec::SmallVec;

use super::Value;
use crate::number::whole;

/// A piece of a reply; an array is followed by its elements.
#[derive(Debug)]
enum Part<'p> {
    Null,
    Number(i64),
    Text(Cow<'p, [u8]>),
    Status(Cow<'p, str>),
    Error(Cow<'p, str>),
    Array(usize),
}

impl Part<'_> {
    fn write(&self, reply: &mut dyn Reply) {
        match self {
            Part::Null => reply.null(),
            Part::Number(value) => reply.integer(*value),
            Part::Text(text) => reply.bulk(text),
            Part::Status(text) => reply.status(text),
            Part::Error(text) => reply.error(text),
            Part::Array(len) => reply.array(*len),
        }
    }

    fn keep(self) -> Part<'static> {
        match self {
            Part::Null => Part::Null,
            Part::Number(value) => Part::Number(value),
            Part::Text(text) => Part::Text(Cow::Owned(text.into_owned())),
            Part::Status(text) => Part::Status(Cow::Owned(text.into_owned())),
            Part::Error(text) => Part::Error(Cow::Owned(text.into_owned())),
            Part::Array(len) => Part::Array(len),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Part<'_>>()
            + match self {
                Part::Text(text) => text.len(),
                Part::Status(text) | Part::Error(text) => text.len(),
                _ => 0,
            }
    }
}

/// A reply that is kept.
#[derive(Default, Debug)]
pub struct Parts(SmallVec<[Part<'static>; 1]>);

impl Parts {
    /// The value that it is.
    pub fn value(mut self) -> Value<'static> {
        match &mut self.0[..] {
            [] => Value::Nil,
            [Part::Null] => Value::Boolean(false),
            [Part::Number(value)] => Value::Number(*value as f64),
            [Part::Text(text)] => Value::Text(std::mem::take(text)),
            _ => Value::Table(Rc::new(self)),
        }
    }

    pub fn write(&self, reply: &mut dyn Reply) {
        self.0.iter().for_each(|part| part.write(reply));
    }

    pub fn bytes(&self) -> usize {
        self.0.iter().map(Part::bytes).sum()
    }
}

/// Where the reply of a call goes.
pub enum Out {
    /// To the script's own reply.
    Reply,
    Nowhere,
    /// It is kept, if it takes no more bytes than these.
    Kept(Parts, usize),
}

/// See the module.
pub struct Flat<'r> {
    reply: &'r mut dyn Reply,
    start: usize,
    out: Out,
    /// How much has come, in pieces.
    written: usize,
    /// A long text that is to be kept.
    bulk: Vec<u8>,
    /// The reply as a whole is an error.
    failed: Option<String>,
    full: bool,
}

impl<'r> Flat<'r> {
    pub fn new(reply: &'r mut dyn Reply, out: Out) -> Flat<'r> {
        let start = reply.mark();
        Flat { reply, start, out, written: 0, bulk: Vec::new(), failed: None, full: false }
    }

    /// Where it has gone; or the error that is raised in its place, and whether it has been counted.
    pub fn end(self) -> Result<Out, (Cow<'static, str>, bool)> {
        match self.failed {
            _ if self.full => return Err(("ERR not enough memory".into(), false)),
            Some(text) => return Err((text.into(), true)),
            None => {}
        }
        if self.written == 0 && matches!(self.out, Out::Reply) {
            self.reply.null();
        }
        Ok(self.out)
    }

    fn put(&mut self, part: Part<'_>) {
        self.written += 1;
        match &mut self.out {
            Out::Reply => part.write(self.reply),
            Out::Nowhere => {}
            Out::Kept(parts, room) => match room.checked_sub(part.bytes()) {
                Some(left) => {
                    *room = left;
                    parts.0.push(part.keep());
                }
                None => self.full = true,
            },
        }
    }
}

impl Reply for Flat<'_> {
    fn protocol(&self) -> Protocol {
        Protocol::Resp2
    }
    fn status(&mut self, text: &str) {
        self.put(Part::Status(text.into()));
    }
    fn error(&mut self, text: &str) {
        if self.written == 0 {
            self.failed = Some(text.into());
        }
        self.put(Part::Error(text.into()));
    }
    fn integer(&mut self, value: i64) {
        self.put(Part::Number(whole(value as f64)));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.put(Part::Text(bytes.into()));
    }
    fn bulks(&mut self, bytes: &[u8], ends: &[u16]) {
        if matches!(self.out, Out::Reply) {
            self.written += ends.len();
            return self.reply.bulks(bytes, ends);
        }
        let mut start = 0;
        for end in ends {
            self.bulk(&bytes[start..usize::from(*end)]);
            start = usize::from(*end);
        }
    }
    fn begin_bulk(&mut self, len: u64) {
        self.bulk.clear();
        if matches!(self.out, Out::Reply) {
            self.reply.begin_bulk(len);
        }
    }
    fn piece(&mut self, bytes: &[u8]) {
        match &self.out {
            Out::Reply => self.reply.piece(bytes),
            Out::Nowhere => {}
            Out::Kept(_, room) if self.bulk.len() + bytes.len() > *room => self.full = true,
            Out::Kept(..) => self.bulk.extend_from_slice(bytes),
        }
    }
    fn end_bulk(&mut self) {
        if matches!(self.out, Out::Reply) {
            self.written += 1;
            return self.reply.end_bulk();
        }
        let bulk = std::mem::take(&mut self.bulk);
        self.bulk(&bulk);
    }
    fn null(&mut self) {
        self.put(Part::Null);
    }
    fn null_array(&mut self) {
        self.null();
    }
    fn array(&mut self, len: usize) {
        self.put(Part::Array(len));
    }
    fn map(&mut self, pairs: usize) {
        self.array(pairs * 2);
    }
    fn set(&mut self, len: usize) {
        self.array(len);
    }
    fn push(&mut self, len: usize) {
        self.array(len);
    }
    /// There are none in RESP2.
    fn attribute(&mut self, _pairs: usize) {}
    fn double(&mut self, value: f64) {
        self.bulk(number::double_text(value).as_bytes());
    }
    fn double_text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }
    fn boolean(&mut self, value: bool) {
        self.integer(value.into());
    }
    fn big_number(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }
    fn verbatim(&mut self, _format: &str, text: &[u8]) {
        self.bulk(text);
    }
    fn mark(&self) -> usize {
        self.written
    }
    /// Back to the beginning, or not at all, as what becomes Lua values.
    fn rewind(&mut self, mark: usize) {
        if mark == self.written {
            return;
        }
        assert_eq!(mark, 0, "a command takes back its reply as a whole");
        match &mut self.out {
            Out::Reply => self.reply.rewind(self.start),
            Out::Nowhere => {}
            Out::Kept(parts, room) => {
                *room += parts.bytes();
                parts.0.clear();
            }
        }
        (self.failed, self.full, self.written) = (None, false, 0);
    }
    fn is_overfull(&self) -> bool {
        match self.out {
            Out::Reply => self.reply.is_overfull(),
            Out::Nowhere => true,
            Out::Kept(..) => self.full,
        }
    }
}
