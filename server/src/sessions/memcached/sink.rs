//! The replies of calls in the words of memcached's text protocol.
use polder_base::{Item, Protocol as RespVersion, Reply, Written};
use polder_wire::Output;

use super::{Kind, Note};

/// Writes the reply to one frame.
pub struct TextSink<'o> {
    output: &'o mut Output,
    note: Note,
    /// An earlier key of the same request had an error as its reply: there is no more to say.
    muted: bool,
    /// The call has said something.
    pub replied: bool,
    /// It was an error, now or earlier.
    pub failed: bool,
}

impl<'o> TextSink<'o> {
    pub fn new(output: &'o mut Output, note: Note, failed: bool) -> TextSink<'o> {
        TextSink { output, note, muted: failed, replied: false, failed }
    }

    fn line(&mut self, text: &[u8]) {
        self.replied = true;
        if !self.muted && !self.note.has(Note::QUIET) {
            self.output.raw(text);
            self.output.raw(b"\r\n");
        }
    }
}

/// The line for an error of a call.
fn error_line(text: &str) -> String {
    let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (kind, text) = match code {
        "OOM" => ("SERVER_ERROR", "out of memory storing object"),
        "NOAUTH" => ("CLIENT_ERROR", "unauthenticated"),
        "NOTNUM" => ("CLIENT_ERROR", rest),
        "ERR" => ("SERVER_ERROR", rest),
        _ => ("SERVER_ERROR", text),
    };
    format!("{kind} {}", text.replace(['\r', '\n'], " "))
}

impl Reply for TextSink<'_> {
    fn protocol(&self) -> RespVersion {
        RespVersion::Resp3
    }

    fn error(&mut self, text: &str) {
        match self.note.kind() {
            Kind::TooLarge => self.line(b"SERVER_ERROR object too large for cache"),
            Kind::Login => self.line(b"CLIENT_ERROR authentication failure"),
            _ => self.line(error_line(text).as_bytes()),
        }
        self.failed = true;
    }

    fn item(&mut self, item: &Item<'_>, _has_value: bool) {
        self.replied = true;
        if self.muted {
            return;
        }
        let mut digits = itoa::Buffer::new();
        self.output.raw(b"VALUE ");
        self.output.raw(item.key);
        self.output.raw(b" ");
        self.output.raw(digits.format(item.flags).as_bytes());
        self.output.raw(b" ");
        self.output.raw(digits.format(item.bytes).as_bytes());
        if self.note.has(Note::CAS) {
            self.output.raw(b" ");
            self.output.raw(digits.format(item.cas).as_bytes());
        }
        self.output.raw(b"\r\n");
    }

    fn written(&mut self, written: Written) {
        let text: &[u8] = match (self.note.kind(), written) {
            (Kind::TooLarge, _) => b"SERVER_ERROR object too large for cache",
            (Kind::Delete, Written::Done(_)) => b"DELETED",
            (_, Written::Done(_)) => b"STORED",
            (_, Written::NotStored) => b"NOT_STORED",
            (_, Written::Exists) => b"EXISTS",
            (_, Written::NotFound) => b"NOT_FOUND",
        };
        self.line(text);
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.line(bytes);
    }

    fn begin_bulk(&mut self, _len: u64) {}

    fn piece(&mut self, bytes: &[u8]) {
        if !self.muted {
            self.output.raw(bytes);
        }
    }

    fn end_bulk(&mut self) {
        self.line(b"");
    }

    fn null(&mut self) {
        self.replied = true;
    }

    fn null_array(&mut self) {
        self.null();
    }

    fn status(&mut self, text: &str) {
        let text = if self.note.kind() == Kind::Login { "STORED" } else { text };
        self.line(text.as_bytes());
    }

    fn integer(&mut self, value: i64) {
        self.line(itoa::Buffer::new().format(value).as_bytes());
    }

    fn array(&mut self, _len: usize) {}

    fn map(&mut self, _pairs: usize) {}

    fn set(&mut self, _len: usize) {}

    fn push(&mut self, _len: usize) {}

    fn attribute(&mut self, _pairs: usize) {}

    fn double(&mut self, value: f64) {
        self.line(value.to_string().as_bytes());
    }

    fn double_text(&mut self, text: &str) {
        self.line(text.as_bytes());
    }

    fn boolean(&mut self, value: bool) {
        self.integer(value.into());
    }

    fn big_number(&mut self, text: &str) {
        self.line(text.as_bytes());
    }

    fn verbatim(&mut self, _format: &str, text: &[u8]) {
        self.line(text);
    }

    fn mark(&self) -> usize {
        self.output.mark()
    }

    fn bytes_since(&self, mark: usize) -> usize {
        self.output.bytes_since(mark)
    }

    fn rewind(&mut self, mark: usize) {
        self.output.rewind(mark);
        (self.replied, self.failed) = (false, self.muted);
    }

    fn is_overfull(&self) -> bool {
        self.output.is_overfull()
    }
}
