//! The replies of calls in the words of memcached's text protocol.
use polder_base::{Item, Protocol as RespVersion, Reply, Written};
use polder_wire::Output;

use super::flags::write_flags;
use super::{Kind, Note};

/// Writes the reply to one frame.
pub struct TextSink<'o> {
    output: &'o mut Output,
    note: Note,
    /// The words of a meta command, and the length of the value that it stores.
    request: &'o [u8],
    bytes: u64,
    /// An earlier key of the same request had an error as its reply: there is no more to say.
    muted: bool,
    /// The value that follows is not wanted.
    drops: bool,
    /// The call has said something.
    pub replied: bool,
    /// It was an error, now or earlier.
    pub failed: bool,
}

impl<'o> TextSink<'o> {
    pub fn new(
        output: &'o mut Output,
        note: Note,
        (request, bytes): (&'o [u8], usize),
        failed: bool,
    ) -> TextSink<'o> {
        TextSink {
            output,
            note,
            request,
            bytes: bytes as u64,
            muted: failed,
            drops: false,
            replied: false,
            failed,
        }
    }

    fn line(&mut self, text: &[u8]) {
        self.replied = true;
        if !self.muted && (!self.note.has(Note::QUIET) || self.is_meta()) {
            self.output.raw(text);
            self.output.raw(b"\r\n");
        }
    }

    fn is_meta(&self) -> bool {
        matches!(
            self.note.kind(),
            Kind::MetaGet | Kind::MetaSet | Kind::MetaDelete | Kind::MetaCount | Kind::MetaDebug
        )
    }

    /// A line of a meta command: a code, and the flags of the request.
    fn meta_line(&mut self, code: &[u8], shown: Option<&Item<'_>>) {
        self.replied = true;
        self.output.raw(code);
        let shows: &[u8] = match self.note.kind() {
            Kind::MetaSet => b"kOcs",
            Kind::MetaDelete => b"kO",
            Kind::MetaCount => b"kOct",
            _ => b"kOcfhlstXWZ",
        };
        write_flags(self.output, (self.request, shows), shown);
        self.output.raw(b"\r\n");
    }

    /// The item of a meta command.
    fn meta_item(&mut self, item: &Item<'_>) {
        let is_count = self.note.kind() == Kind::MetaCount;
        self.drops = !self.note.has(Note::VALUE) || is_count && self.note.has(Note::QUIET);
        if is_count && self.note.has(Note::QUIET) {
            self.replied = true;
        } else if self.drops {
            self.meta_line(b"HD", Some(item));
        } else {
            let mut digits = itoa::Buffer::new();
            self.output.raw(b"VA ");
            self.output.raw(digits.format(item.bytes).as_bytes());
            self.meta_line(b"", Some(item));
        }
    }

    fn debug_item(&mut self, item: &Item<'_>) {
        let expiry = item.ttl_ms.map_or(-1, |ttl_ms| ttl_ms.div_ceil(1000) as i64);
        let size = item.key.len() as u64 + item.bytes;
        let key = self.request.split(|byte| *byte == b' ').next().unwrap_or_default();
        self.output.raw(b"ME ");
        self.output.raw(key);
        let (idle, cas) = (item.idle_seconds, item.cas);
        self.line(format!(" exp={expiry} la={idle} cas={cas} fetch=yes cls=1 size={size}").as_bytes());
    }

    fn value_line(&mut self, item: &Item<'_>) {
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

    fn meta_written(&mut self, written: Written) {
        let bytes = self.bytes;
        let item = |cas| Item { cas, bytes, ..Item::default() };
        // A store that is refused shows no CAS, and the length of what it sent.
        let refused = item(0);
        let refused = (self.note.kind() == Kind::MetaSet).then_some(&refused);
        match written {
            Written::Done(_) if self.note.has(Note::QUIET) => self.replied = true,
            Written::Done(cas) => self.meta_line(b"HD", Some(&item(cas))),
            Written::NotStored => self.meta_line(b"NS", refused),
            Written::Exists => self.meta_line(b"EX", refused),
            Written::NotFound => self.meta_line(b"NF", refused),
        }
    }
}

/// The line for an error of a call.
pub fn error_line(text: &str) -> String {
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
        match self.note.kind() {
            _ if self.muted => {}
            Kind::Count => {}
            Kind::MetaDebug => self.debug_item(item),
            _ if self.is_meta() => self.meta_item(item),
            _ => self.value_line(item),
        }
    }

    fn shows_cas(&self) -> bool {
        self.is_meta()
    }

    fn grown(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    fn written(&mut self, written: Written) {
        if self.is_meta() {
            return self.meta_written(written);
        }
        let text: &[u8] = match (self.note.kind(), written) {
            (Kind::TooLarge, _) => b"SERVER_ERROR object too large for cache",
            (Kind::Delete, Written::Done(_)) => b"DELETED",
            (Kind::Touch, Written::Done(_)) => b"TOUCHED",
            (_, Written::Done(_)) => b"STORED",
            (_, Written::NotStored) => b"NOT_STORED",
            (_, Written::Exists) => b"EXISTS",
            (_, Written::NotFound) => b"NOT_FOUND",
        };
        self.line(text);
    }

    fn bulk(&mut self, bytes: &[u8]) {
        if !self.drops {
            self.line(bytes);
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        if !self.muted && !self.drops {
            self.output.raw(bytes);
        }
    }

    fn end_bulk(&mut self) {
        self.bulk(b"");
    }

    fn null(&mut self) {
        self.replied = true;
        match self.note.kind() {
            Kind::MetaGet if self.note.has(Note::QUIET) => {}
            Kind::MetaGet => self.meta_line(b"EN", None),
            Kind::MetaDebug => self.line(b"EN"),
            Kind::MetaCount => self.meta_line(b"NF", None),
            _ => {}
        }
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
        (self.replied, self.drops, self.failed) = (false, false, self.muted);
    }

    fn is_overfull(&self) -> bool {
        self.output.is_overfull()
    }
}
