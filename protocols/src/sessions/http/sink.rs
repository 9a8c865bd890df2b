//! From the reply of a call on one key to a response.
//!
//! A value goes into the output as it comes, behind a head with its length. Anything else is known as a whole before the
//! response is written, because its status depends on it.
use polder_base::{Item, Protocol as RespVersion, Reply, Written};
use polder_wire::Output;
use polder_wire::http::json;

use super::answer::{Answer, JSON, Style, begin};
use super::conditions::{Conditions, Shown};
use super::media::{self, MEDIA};
use super::note::{Note, Verb};

/// What a call has replied.
enum Said {
    Nothing,
    /// A value, which is in the output already.
    Value,
    Null,
    Ok,
    Integer(i64),
    Error(String),
    /// The conditions have decided: this status, and no value.
    Ended(u16),
    Written(Written),
    /// Something with elements, in RESP3.
    Elements(Output),
}

/// The sink of one call.
pub struct Sink<'o, 's> {
    output: &'o mut Output,
    note: Note,
    style: Style<'s>,
    /// Where the response begins.
    start: usize,
    said: Said,
    conditions: &'s Conditions,
    /// Response for a key that is not there, if that is no error.
    absent: Option<&'s Answer>,
    /// The call has made the key.
    is_new: bool,
    /// The tag of the item whose value follows.
    tag: Option<u64>,
    /// The content type that is stored with it.
    stored_type: Vec<u8>,
    /// Which bytes of the value are still skipped, and how many are then shown.
    skips: u64,
    shows: u64,
}

/// A place in the elements, not in the output.
const IN_ELEMENTS: usize = 1 << (usize::BITS - 1);

impl<'o, 's> Sink<'o, 's> {
    pub fn new(
        output: &'o mut Output,
        note: Note,
        style: Style<'s>,
        conditions: &'s Conditions,
    ) -> Sink<'o, 's> {
        let start = output.mark();
        let style = Style { is_head: note.is_head, ..style };
        Sink {
            output,
            note,
            style,
            start,
            said: Said::Nothing,
            conditions,
            absent: None,
            is_new: false,
            tag: None,
            stored_type: Vec::new(),
            skips: 0,
            shows: u64::MAX,
        }
    }

    /// Replaces the response for a key that is not there.
    pub fn or(self, absent: Option<&'s Answer>) -> Self {
        Sink { absent, ..self }
    }

    /// Writes the response, unless the call has not replied: it waits, or has met a lock. Returns whether it has replied.
    pub fn finish(self) -> bool {
        let Sink { output, note, style, said, conditions, absent, tag, .. } = self;
        let is_absent = matches!(said, Said::Null);
        let stored = if self.is_new { 201 } else { 204 };
        let answer = match (said, note.verb) {
            (Said::Nothing, _) => return false,
            (Said::Value, _) => return true,
            (Said::Error(text), _) => Answer::of_call(&text),
            (Said::Ended(412), _) | (Said::Written(Written::NotStored | Written::Exists), _) => {
                Answer::error(412, CHANGED)
            }
            (Said::Ended(status), _) => Answer::empty(status).with(&tag.map_or(String::new(), tag_field)),
            (Said::Written(Written::NotFound), _) if !conditions.is_none() => Answer::error(412, CHANGED),
            (Said::Written(Written::Done(cas)), Verb::Store) => Answer::empty(stored).with(&tag_field(cas)),
            (Said::Written(Written::Done(_)), _) => Answer::empty(204),
            (Said::Written(Written::NotFound), _) | (Said::Null, _) | (Said::Integer(0), Verb::Remove) => {
                Answer::error(404, "there is no such key")
            }
            (Said::Ok, Verb::Store) => Answer::empty(stored),
            (Said::Integer(_), Verb::Remove) => Answer::empty(204),
            (Said::Elements(elements), _) => Answer::text(200, JSON, json::of_resp(&elements.bytes())),
            (Said::Integer(number), _) => Answer::text(200, JSON, number.to_string()),
            (Said::Ok, _) => Answer::text(200, JSON, "\"OK\""),
        };
        absent.filter(|_| is_absent).unwrap_or(&answer).write(output, style);
        true
    }

    /// Begins a response with a value.
    fn value(&mut self, length: u64) {
        if matches!(self.said, Said::Ended(_)) {
            self.shows = 0;
            return;
        }
        let media = MEDIA.get(usize::from(self.note.media)).unwrap_or(&MEDIA[0]);
        // What is in a compressed file has the stored type; the file itself does not.
        let stored_type = std::mem::take(&mut self.stored_type);
        let stored = if media::is_packed(self.note.media) { None } else { media::stored(&stored_type) };
        let (content_type, is_active) = stored.unwrap_or((media.content_type, media.is_active));
        let mut fields = self.style.fields.to_vec();
        if self.note.is_gzip {
            fields.extend_from_slice(b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n");
        }
        if is_active {
            fields.extend_from_slice(SANDBOX);
        }
        if let Some(tag) = self.tag {
            fields.extend_from_slice(tag_field(tag).as_bytes());
        }
        let (status, shown) = match self.conditions.shown(length, self.tag) {
            Shown::Whole => (200, 0..length),
            Shown::Part(part) => {
                let (begin, last) = (part.start, part.end - 1);
                fields.extend_from_slice(
                    format!("Content-Range: bytes {begin}-{last}/{length}\r\n").as_bytes(),
                );
                (206, part)
            }
            Shown::Outside => {
                fields.extend_from_slice(format!("Content-Range: bytes */{length}\r\n").as_bytes());
                (416, 0..0)
            }
        };
        (self.skips, self.shows) = (shown.start, shown.end - shown.start);
        begin(self.output, status, content_type, Some(self.shows), Style { fields: &fields, ..self.style });
        self.said = Said::Value;
    }

    /// The next bytes of the value.
    fn bytes(&mut self, bytes: &[u8]) {
        let skipped = self.skips.min(bytes.len() as u64);
        let shown = self.shows.min(bytes.len() as u64 - skipped);
        self.skips -= skipped;
        self.shows -= shown;
        if !self.note.is_head {
            self.output.raw(&bytes[skipped as usize..(skipped + shown) as usize]);
        }
    }

    /// The sink for elements, which this reply has or begins to have.
    fn elements(&mut self) -> &mut Output {
        if !matches!(self.said, Said::Elements(_)) {
            self.said = Said::Elements(Output::new(RespVersion::Resp3));
        }
        match &mut self.said {
            Said::Elements(elements) => elements,
            _ => self.output,
        }
    }

    /// Whether what comes now is an element.
    fn is_inside(&self) -> bool {
        matches!(self.said, Said::Elements(_))
    }
}

/// A page that is stored as a value must not act as a page of this server, for it could run any command. So it has no origin.
pub const SANDBOX: &[u8] = b"Content-Security-Policy: sandbox allow-scripts\r\n";

const CHANGED: &str = "the key is not as the request wants it";

/// The field with a tag.
fn tag_field(tag: u64) -> String {
    format!("ETag: \"{tag}\"\r\n")
}

impl Reply for Sink<'_, '_> {
    fn protocol(&self) -> RespVersion {
        RespVersion::Resp3
    }

    fn status(&mut self, text: &str) {
        if self.is_inside() || text != "OK" { self.elements().status(text) } else { self.said = Said::Ok }
    }

    fn error(&mut self, text: &str) {
        if self.is_inside() { self.elements().error(text) } else { self.said = Said::Error(text.to_owned()) }
    }

    fn integer(&mut self, value: i64) {
        if self.is_inside() { self.elements().integer(value) } else { self.said = Said::Integer(value) }
    }

    fn bulk(&mut self, bytes: &[u8]) {
        if self.is_inside() {
            return self.elements().bulk(bytes);
        }
        self.value(bytes.len() as u64);
        self.bytes(bytes);
    }

    fn begin_bulk(&mut self, len: u64) {
        if self.is_inside() { self.elements().begin_bulk(len) } else { self.value(len) }
    }

    fn piece(&mut self, bytes: &[u8]) {
        match &mut self.said {
            Said::Elements(elements) => elements.piece(bytes),
            _ => self.bytes(bytes),
        }
    }

    fn end_bulk(&mut self) {
        if self.is_inside() {
            self.elements().end_bulk();
        }
    }

    fn null(&mut self) {
        if self.is_inside() { self.elements().null() } else { self.said = Said::Null }
    }

    fn null_array(&mut self) {
        self.null();
    }

    fn array(&mut self, len: usize) {
        self.elements().array(len);
    }

    fn map(&mut self, pairs: usize) {
        self.elements().map(pairs);
    }

    fn set(&mut self, len: usize) {
        self.elements().set(len);
    }

    fn push(&mut self, len: usize) {
        self.elements().push(len);
    }

    fn attribute(&mut self, pairs: usize) {
        self.elements().attribute(pairs);
    }

    fn double(&mut self, value: f64) {
        self.elements().double(value);
    }

    fn double_text(&mut self, text: &str) {
        self.elements().double_text(text);
    }

    fn boolean(&mut self, value: bool) {
        self.elements().boolean(value);
    }

    fn big_number(&mut self, text: &str) {
        self.elements().big_number(text);
    }

    fn verbatim(&mut self, format: &str, text: &[u8]) {
        self.elements().verbatim(format, text);
    }

    fn item(&mut self, item: &Item<'_>, _has_value: bool) {
        self.tag = Some(item.cas);
        self.stored_type = item.content_type.to_vec();
        if let Some(status) = self.conditions.ends_read(item.cas) {
            self.said = Said::Ended(status);
        }
    }

    fn written(&mut self, written: Written) {
        self.said = Said::Written(written);
    }

    fn hears_of_new_keys(&self) -> bool {
        self.note.verb == Verb::Store
    }

    fn new_key(&mut self) {
        self.is_new = true;
    }

    fn mark(&self) -> usize {
        match &self.said {
            Said::Elements(elements) => IN_ELEMENTS | elements.mark(),
            _ => self.output.mark(),
        }
    }

    fn bytes_since(&self, mark: usize) -> usize {
        match &self.said {
            Said::Elements(elements) => elements.bytes_since(mark & !IN_ELEMENTS),
            _ => self.output.bytes_since(mark),
        }
    }

    fn is_overfull(&self) -> bool {
        self.output.is_overfull()
    }

    fn rewind(&mut self, mark: usize) {
        match &mut self.said {
            Said::Elements(elements) if mark & IN_ELEMENTS != 0 => elements.rewind(mark & !IN_ELEMENTS),
            _ => {
                self.output.rewind(mark);
                if mark <= self.start {
                    (self.said, self.tag, self.is_new) = (Said::Nothing, None, false);
                    self.stored_type.clear();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_from_its_bits() {
        for verb in [Verb::Read, Verb::Store, Verb::Remove] {
            for (is_head, is_gzip, media) in [(false, false, 0), (true, false, 31), (false, true, 7)] {
                let note = Note { verb, is_head, media, is_gzip };
                assert_eq!(Note::from_bits(note.to_bits()), note);
            }
        }
    }
}
