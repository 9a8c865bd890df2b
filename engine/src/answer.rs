//! A reply as a tree of typed items, for programs that run commands in this process.
//!
//! An [`Answer`] is two flat lists, so that keeping one costs two allocations however deep it is, and none when it is used again:
//!
//! ```text
//!   *2  $3 abc  *1  :7      parts   Array(2)  Bulk(0..3)  Array(1)  Integer(7)     in the order in which they were said
//!                           behind     4          2          4          4          the part after everything inside it
//!                           bytes   abc
//! ```
//!
//! Written by commands as any [`Reply`]; in RESP2 it holds what a RESP2 client would see (arrays in place of maps, texts in place of doubles).
use polder_base::{Protocol, Reply, number};

/// Longer memory is not kept for the next replies.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The reply of a call ([`Caller::run`](crate::Caller::run)), or the replies of a batch one after another.
#[derive(Clone, Default)]
pub struct Answer {
    protocol: Protocol,
    parts: Vec<Part>,
    bytes: Vec<u8>,
    /// Up to here every part knows what is behind it.
    sealed: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Status,
    Error,
    Integer,
    Double,
    Boolean,
    Bulk,
    BigNumber,
    Verbatim,
    Array,
    Map,
    Set,
    Push,
    /// Precedes an item and is none itself.
    Attribute,
}

impl Kind {
    fn is_container(self) -> bool {
        matches!(self, Kind::Array | Kind::Map | Kind::Set | Kind::Push | Kind::Attribute)
    }
}

#[derive(Clone, Copy)]
struct Part {
    kind: Kind,
    /// Where its text begins among the bytes.
    start: usize,
    /// The bytes of its text, or how many items follow inside.
    len: usize,
    /// An integer, a boolean, or the bits of a double.
    bits: u64,
    behind: usize,
}

/// One item of a reply. Text is bytes, as everywhere in Redis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// Nothing: an absent key, a timeout.
    Null,
    /// A simple string such as `OK`.
    Status(&'a [u8]),
    /// An error inside a reply, such as that of one call of an EXEC: its code first.
    Error(&'a [u8]),
    /// An integer.
    Integer(i64),
    /// A floating point number.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A string value.
    Bulk(&'a [u8]),
    /// Decimal digits.
    BigNumber(&'a [u8]),
    /// Text with a format of three letters (`txt`, `mkd`).
    Verbatim(&'a [u8], &'a [u8]),
    /// Items in order.
    Array(Items<'a>),
    /// Keys and values in turn.
    Map(Items<'a>),
    /// Items without an order.
    Set(Items<'a>),
    /// Something that was not asked for: a message, an invalidation.
    Push(Items<'a>),
}

/// The items inside another one, or those of a whole [`Answer`].
#[derive(Clone, Copy)]
pub struct Items<'a> {
    answer: &'a Answer,
    at: usize,
    end: usize,
}

impl Answer {
    /// An empty one for replies in a protocol.
    pub fn new(protocol: Protocol) -> Answer {
        Answer { protocol, ..Answer::default() }
    }

    /// The replies, in order.
    pub fn items(&self) -> Items<'_> {
        Items { answer: self, at: 0, end: self.sealed }
    }

    /// The reply where there is one; [`Item::Null`] where there is none (CLIENT REPLY OFF).
    pub fn item(&self) -> Item<'_> {
        self.items().next().unwrap_or(Item::Null)
    }

    /// Forgets everything and keeps the memory, unless that is very much.
    pub fn clear(&mut self) {
        if self.weight_kept() > KEPT_BYTES_MAX {
            *self = Answer::new(self.protocol);
        }
        self.parts.clear();
        self.bytes.clear();
        self.sealed = 0;
    }

    /// Goes on with the memory of one that is not needed any more, if it holds nothing itself.
    pub(crate) fn take_memory_of(&mut self, mut old: Answer) {
        if self.parts.is_empty() && old.weight_kept() <= KEPT_BYTES_MAX {
            old.clear();
            old.protocol = self.protocol;
            *self = old;
        }
    }

    fn weight_kept(&self) -> usize {
        self.bytes.capacity() + self.parts.capacity() * size_of::<Part>()
    }

    /// Bytes that it takes.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + self.parts.len() * size_of::<Part>()
    }

    /// Notes for all that has been written since what is behind each part. A container that was announced longer than it became ends with
    /// what there is.
    #[inline]
    pub(crate) fn seal(&mut self) {
        // Most replies are one part that holds nothing.
        match &mut self.parts[self.sealed..] {
            [only] if !only.kind.is_container() => {
                only.behind = self.sealed + 1;
                self.sealed += 1;
            }
            _ => self.seal_all(),
        }
    }

    fn seal_all(&mut self) {
        let mut open: Vec<(usize, usize)> = Vec::new();
        for at in self.sealed..self.parts.len() {
            let Part { kind, len, .. } = self.parts[at];
            let inside = match kind {
                Kind::Array | Kind::Set | Kind::Push => len,
                Kind::Map | Kind::Attribute => len.saturating_mul(2),
                _ => 0,
            };
            if inside > 0 {
                open.push((at, inside));
                continue;
            }
            self.parts[at].behind = at + 1;
            let mut counts = kind != Kind::Attribute;
            while let Some((container, left)) = open.last_mut() {
                *left -= usize::from(counts);
                if *left > 0 {
                    break;
                }
                let container = *container;
                self.parts[container].behind = at + 1;
                counts = self.parts[container].kind != Kind::Attribute;
                open.pop();
            }
        }
        for (container, _) in open {
            self.parts[container].behind = self.parts.len();
        }
        self.sealed = self.parts.len();
    }

    fn part(&mut self, kind: Kind, len: usize, bits: u64) {
        self.parts.push(Part { kind, start: self.bytes.len(), len, bits, behind: 0 });
    }

    fn text(&mut self, kind: Kind, text: &[u8]) {
        self.part(kind, text.len(), 0);
        self.bytes.extend_from_slice(text);
    }

    fn container(&mut self, kind: Kind, len: usize) {
        let (kind, len) = match (self.protocol, kind) {
            (Protocol::Resp2, Kind::Map) => (Kind::Array, len * 2),
            (Protocol::Resp2, Kind::Set | Kind::Push) => (Kind::Array, len),
            _ => (kind, len),
        };
        self.part(kind, len, 0);
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        while self.at < self.end {
            let (answer, at) = (self.answer, self.at);
            let part = answer.parts.get(at)?;
            self.at = part.behind.max(at + 1);
            let inside = Items { answer, at: at + 1, end: part.behind.min(self.end) };
            let text = || answer.bytes.get(part.start..part.start + part.len).unwrap_or_default();
            return Some(match part.kind {
                Kind::Attribute => continue,
                Kind::Null => Item::Null,
                Kind::Status => Item::Status(text()),
                Kind::Error => Item::Error(text()),
                Kind::Integer => Item::Integer(part.bits as i64),
                Kind::Double => Item::Double(f64::from_bits(part.bits)),
                Kind::Boolean => Item::Boolean(part.bits != 0),
                Kind::Bulk => Item::Bulk(text()),
                Kind::BigNumber => Item::BigNumber(text()),
                Kind::Verbatim => {
                    let (format, text) = text().split_at_checked(3).unwrap_or_default();
                    Item::Verbatim(format, text)
                }
                Kind::Array => Item::Array(inside),
                Kind::Map => Item::Map(inside),
                Kind::Set => Item::Set(inside),
                Kind::Push => Item::Push(inside),
            });
        }
        None
    }
}

impl std::fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl PartialEq for Items<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.items().fmt(f)
    }
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.items() == other.items()
    }
}

impl<'a> Item<'a> {
    /// The text of anything that is text.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Item::Status(text) | Item::Bulk(text) | Item::BigNumber(text) | Item::Verbatim(_, text) => {
                Some(text)
            }
            _ => None,
        }
    }

    /// An integer, or a text or truth that is one.
    pub fn integer(self) -> Option<i64> {
        match self {
            Item::Integer(value) => Some(value),
            Item::Boolean(value) => Some(value.into()),
            other => number::integer(other.bytes()?),
        }
    }

    /// A number, or a text that is one.
    pub fn double(self) -> Option<f64> {
        match self {
            Item::Double(value) => Some(value),
            Item::Integer(value) => Some(value as f64),
            other => number::double(other.bytes()?),
        }
    }

    /// What is inside; nothing where it holds no items.
    pub fn items(self) -> Option<Items<'a>> {
        match self {
            Item::Array(items) | Item::Map(items) | Item::Set(items) | Item::Push(items) => Some(items),
            _ => None,
        }
    }
}

impl Reply for Answer {
    fn protocol(&self) -> Protocol {
        self.protocol
    }
    fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }
    fn status(&mut self, text: &str) {
        self.text(Kind::Status, text.as_bytes());
    }
    fn error(&mut self, text: &str) {
        self.text(Kind::Error, text.as_bytes());
        let start = self.bytes.len() - text.len();
        self.bytes[start..]
            .iter_mut()
            .filter(|byte| matches!(byte, b'\r' | b'\n'))
            .for_each(|byte| *byte = b' ');
    }
    fn integer(&mut self, value: i64) {
        self.part(Kind::Integer, 0, value as u64);
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.text(Kind::Bulk, bytes);
    }
    fn begin_bulk(&mut self, _len: u64) {
        self.part(Kind::Bulk, 0, 0);
    }
    fn piece(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    fn end_bulk(&mut self) {
        if let Some(part) = self.parts.last_mut() {
            part.len = self.bytes.len() - part.start;
        }
    }
    fn null(&mut self) {
        self.part(Kind::Null, 0, 0);
    }
    fn null_array(&mut self) {
        self.part(Kind::Null, 0, 0);
    }
    fn array(&mut self, len: usize) {
        self.container(Kind::Array, len);
    }
    fn map(&mut self, pairs: usize) {
        self.container(Kind::Map, pairs);
    }
    fn set(&mut self, len: usize) {
        self.container(Kind::Set, len);
    }
    fn push(&mut self, len: usize) {
        self.container(Kind::Push, len);
    }
    fn attribute(&mut self, pairs: usize) {
        self.part(Kind::Attribute, pairs, 0);
    }
    fn double(&mut self, value: f64) {
        match self.protocol {
            Protocol::Resp2 => self.text(Kind::Bulk, number::double_text(value).as_bytes()),
            Protocol::Resp3 => self.part(Kind::Double, 0, value.to_bits()),
        }
    }
    fn double_text(&mut self, text: &str) {
        match (self.protocol, number::double(text.as_bytes())) {
            (Protocol::Resp3, Some(value)) => self.part(Kind::Double, 0, value.to_bits()),
            _ => self.text(Kind::Bulk, text.as_bytes()),
        }
    }
    fn boolean(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 => self.integer(value.into()),
            Protocol::Resp3 => self.part(Kind::Boolean, 0, value.into()),
        }
    }
    fn big_number(&mut self, text: &str) {
        let kind = if self.protocol == Protocol::Resp2 { Kind::Bulk } else { Kind::BigNumber };
        self.text(kind, text.as_bytes());
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        if self.protocol == Protocol::Resp2 || format.len() != 3 {
            return self.text(Kind::Bulk, text);
        }
        self.part(Kind::Verbatim, 3 + text.len(), 0);
        self.bytes.extend_from_slice(format.as_bytes());
        self.bytes.extend_from_slice(text);
    }
    fn mark(&self) -> usize {
        self.parts.len()
    }
    fn rewind(&mut self, mark: usize) {
        if let Some(first) = self.parts.get(mark) {
            self.bytes.truncate(first.start);
            self.parts.truncate(mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(protocol: Protocol, say: impl FnOnce(&mut Answer)) -> Answer {
        let mut answer = Answer::new(protocol);
        say(&mut answer);
        answer.seal();
        answer
    }

    #[test]
    fn a_tree_reads_as_it_was_said() {
        let answer = said(Protocol::Resp3, |reply| {
            reply.array(3);
            reply.bulk(b"a");
            reply.map(1);
            reply.bulk(b"k");
            reply.array(0);
            reply.integer(-7);
            reply.ok();
        });
        assert_eq!(
            format!("{answer:?}"),
            "[Array([Bulk([97]), Map([Bulk([107]), Array([])]), Integer(-7)]), Status([79, 75])]"
        );
        assert_eq!(answer.items().count(), 2);
    }

    #[test]
    fn what_came_after_a_mark_can_be_forgotten() {
        let answer = said(Protocol::Resp3, |reply| {
            reply.bulk(b"kept");
            let mark = reply.mark();
            reply.array(2);
            reply.begin_bulk(6);
            reply.piece(b"for");
            reply.rewind(mark);
            reply.begin_bulk(5);
            reply.piece(b"pie");
            reply.piece(b"ce");
            reply.end_bulk();
        });
        assert_eq!(
            answer.items().map(|item| item.bytes().unwrap_or_default()).collect::<Vec<_>>(),
            [&b"kept"[..], b"piece"]
        );
    }

    #[test]
    fn attributes_are_passed_over_and_unfinished_containers_end() {
        let answer = said(Protocol::Resp3, |reply| {
            reply.array(2);
            reply.attribute(1);
            reply.bulk(b"name");
            reply.array(1);
            reply.integer(1);
            reply.integer(2);
            reply.array(2);
            reply.integer(3);
        });
        let expected = said(Protocol::Resp3, |reply| {
            reply.array(2);
            reply.integer(2);
            reply.array(1);
            reply.integer(3);
        });
        assert_eq!(answer, expected);
    }

    #[test]
    fn a_resp2_answer_has_no_maps_and_doubles() {
        let answer = said(Protocol::Resp2, |reply| {
            reply.map(1);
            reply.bulk(b"k");
            reply.double(1.5);
            reply.boolean(true);
        });
        let items: Vec<Item<'_>> = answer.item().items().into_iter().flatten().collect();
        assert_eq!(items, [Item::Bulk(b"k"), Item::Bulk(b"1.5")]);
        assert_eq!(answer.items().nth(1), Some(Item::Integer(1)));
    }
}
