//! Writing replies, as a server does: the [`Reply`] sink for RESP2 and RESP3.
//!
//! ```text
//!   sealed: [segment][segment][big bulk]   tail: [being written ......]
//!            ^ sent                         appended to, sealed when it is full
//! ```
//!
//! Replies go to the tail. A segment that is full is sealed and a new one begun, so that a reply of any length is
//! never moved once it is written; a socket takes all segments in one gathered write. What very many clients get is written once
//! and shared: it comes before all segments ([`Output::share`]), and a client for whom there is nothing else needs no buffer.
//!
//! Invariant: [`Reply::rewind`] goes back over what was written since a mark, and nothing of that can have been sent,
//! because a server sends between calls only.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use polder_base::number::double_text;
use polder_base::{Protocol, Reply};

/// A segment is sealed before it grows beyond this.
const SEGMENT_BYTES: usize = 64 << 10;
/// The most bytes of a length or number with its mark and line end: `:-9223372036854775808\r\n`.
const NUMBER_BYTES: usize = 24;

/// Replies waiting to be sent to one client.
#[derive(Default, Debug)]
pub struct Output {
    /// The client's protocol; HELLO changes it.
    protocol: Protocol,
    /// What others get as well, before the segments.
    shared: Option<Arc<[u8]>>,
    sealed: VecDeque<Vec<u8>>,
    /// Of what is shared and of the sealed segments.
    sealed_bytes: usize,
    tail: Vec<u8>,
    /// How much of the first piece has been sent.
    sent: usize,
    /// More than this closes the connection, so that nothing beyond it is kept; 0 for no limit.
    bytes_max: usize,
    overfull: bool,
}

impl Output {
    /// A sink for `protocol` that writes into `buffer` first.
    pub fn new(protocol: Protocol) -> Output {
        Output { protocol, ..Output::default() }
    }

    /// Sets how much may wait; what is beyond that, and all that follows, is thrown away.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.sealed_bytes + self.tail.len() - self.sent
    }

    /// Bytes of memory that are held for them.
    pub fn capacity(&self) -> usize {
        self.tail.capacity() + self.sealed.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Gives the output an empty buffer to write to, when it has none.
    pub fn lend(&mut self, buffer: impl FnOnce() -> Vec<u8>) {
        if self.tail.capacity() == 0 {
            self.tail = buffer();
        }
    }

    /// Takes the buffer back when everything has been sent.
    pub fn reclaim(&mut self) -> Option<Vec<u8>> {
        (self.is_empty() && self.tail.capacity() > 0).then(|| std::mem::take(&mut self.tail))
    }

    /// What waits, in pieces, for one gathered write.
    pub fn slices<'o>(&'o self, into: &mut [IoSlice<'o>]) -> usize {
        let mut sent = self.sent;
        let mut count = 0;
        let pieces = self.pieces();
        for (slot, piece) in into.iter_mut().zip(pieces) {
            *slot = IoSlice::new(&piece[std::mem::take(&mut sent)..]);
            count += 1;
        }
        count
    }

    /// What waits, when it is all in one piece.
    pub fn single(&self) -> Option<&[u8]> {
        match &self.shared {
            None => self.sealed.is_empty().then(|| &self.tail[self.sent..]),
            Some(shared) => (self.sealed.is_empty() && self.tail.is_empty()).then(|| &shared[self.sent..]),
        }
    }

    /// Whether all that waits belongs to others as well.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some() && self.sealed.is_empty() && self.tail.is_empty()
    }

    /// All pieces in their order; of the first, something may have been sent.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.shared.as_deref().into_iter().chain(self.sealed.iter().map(Vec::as_slice)).chain(std::iter::once(&*self.tail))
    }

    /// Forgets the first `count` bytes: they have been sent.
    pub fn consume(&mut self, count: usize) {
        self.sent += count;
        if let Some(shared) = &self.shared {
            if self.sent < shared.len() {
                return;
            }
            self.sent -= shared.len();
            self.sealed_bytes -= shared.len();
            self.shared = None;
        }
        while let Some(first) = self.sealed.front() {
            if self.sent < first.len() {
                return;
            }
            self.sent -= first.len();
            self.sealed_bytes -= first.len();
            self.sealed.pop_front();
        }
        if self.sent == self.tail.len() {
            self.tail.clear();
            self.sent = 0;
        }
    }

    /// Appends bytes that are already in the client's protocol.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.room(bytes.len());
        self.tail.extend_from_slice(bytes);
    }

    /// Appends what waits in another output.
    pub fn copy(&mut self, other: &Output) {
        let mut sent = other.sent;
        for piece in other.pieces() {
            self.raw(&piece[std::mem::take(&mut sent)..]);
        }
    }

    /// Puts down what others get as well, without a copy of its own; answers whether it did, which needs that nothing waits yet.
    pub fn share(&mut self, bytes: &Arc<[u8]>) -> bool {
        let free = self.is_empty() && !self.overfull && !bytes.is_empty();
        if free {
            self.sealed_bytes = bytes.len();
            self.shared = Some(bytes.clone());
        }
        free
    }

    /// Makes room for `bytes` in the tail.
    #[inline(always)]
    fn room(&mut self, bytes: usize) {
        if self.tail.capacity() - self.tail.len() < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        if self.tail.len() + bytes > SEGMENT_BYTES && !self.tail.is_empty() {
            if self.overfull {
                self.tail.clear();
            } else {
                self.sealed_bytes += self.tail.len();
                self.sealed.push_back(std::mem::take(&mut self.tail));
                self.overfull = self.bytes_max != 0 && self.waiting() > self.bytes_max;
            }
        }
        // A doubling Vec, until it is a segment; a long bulk gets a segment of its own size.
        let wanted = self.tail.len() + bytes;
        let capacity = wanted.max(wanted.next_power_of_two().min(SEGMENT_BYTES));
        self.tail.reserve_exact(capacity - self.tail.len());
    }

    /// Writes a mark, a length and a line end.
    #[inline(always)]
    fn header(&mut self, mark: u8, length: usize) {
        self.room(NUMBER_BYTES);
        match length {
            0..=9 => self.tail.extend_from_slice(&[mark, b'0' + length as u8, b'\r', b'\n']),
            10..=99 => self.tail.extend_from_slice(&[mark, b'0' + (length / 10) as u8, b'0' + (length % 10) as u8, b'\r', b'\n']),
            _ => self.line(mark, itoa::Buffer::new().format(length).as_bytes()),
        }
    }

    /// Writes a mark, a text without line ends, and a line end.
    fn line(&mut self, mark: u8, text: &[u8]) {
        self.room(text.len() + 3);
        self.tail.push(mark);
        self.tail.extend_from_slice(text);
        self.tail.extend_from_slice(b"\r\n");
    }

    /// The length of something that RESP3 knows and RESP2 calls an array of `flat` elements.
    fn container(&mut self, mark: u8, len: usize, flat: usize) {
        match self.protocol {
            Protocol::Resp3 => self.header(mark, len),
            Protocol::Resp2 => self.header(b'*', flat),
        }
    }

    /// A line that RESP3 marks and RESP2 writes as a bulk.
    fn line_or_bulk(&mut self, mark: u8, text: &[u8]) {
        match self.protocol {
            Protocol::Resp3 => self.line(mark, text),
            Protocol::Resp2 => self.bulk(text),
        }
    }

    /// `_` in RESP3, else `older`.
    fn nothing(&mut self, older: &[u8]) {
        match self.protocol {
            Protocol::Resp3 => self.raw(b"_\r\n"),
            Protocol::Resp2 => self.raw(older),
        }
    }
}

impl Reply for Output {
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    fn status(&mut self, text: &str) {
        // Of a length that is known: the commonest, and EXEC's.
        match text {
            "OK" => self.raw(b"+OK\r\n"),
            "QUEUED" => self.raw(b"+QUEUED\r\n"),
            _ => self.line(b'+', text.as_bytes()),
        }
    }

    fn error(&mut self, text: &str) {
        if text.bytes().any(|byte| byte == b'\r' || byte == b'\n') {
            let text = text.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " ");
            return self.line(b'-', text.as_bytes());
        }
        self.line(b'-', text.as_bytes());
    }

    fn integer(&mut self, value: i64) {
        match usize::try_from(value) {
            Ok(value) => self.header(b':', value),
            Err(_) => self.line(b':', itoa::Buffer::new().format(value).as_bytes()),
        }
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.room(bytes.len() + NUMBER_BYTES + 2);
        self.header(b'$', bytes.len());
        self.tail.extend_from_slice(bytes);
        self.tail.extend_from_slice(b"\r\n");
    }

    fn bulks(&mut self, bytes: &[u8], ends: &[u16]) {
        // Room for all at once; short ones are copied as whole words, and what is too much of that is written over by what follows.
        const WORDS: usize = 16;
        self.room(bytes.len() + ends.len() * NUMBER_BYTES + WORDS);
        let begin = self.tail.len();
        self.tail.resize(begin + bytes.len() + ends.len() * NUMBER_BYTES + WORDS, 0);
        let (mut at, mut start) = (begin, 0);
        for end in ends.iter().map(|end| usize::from(*end)) {
            let length = end - start;
            let head = &mut self.tail[at..];
            at += match length {
                0..=9 => {
                    head[..4].copy_from_slice(&[b'$', b'0' + length as u8, b'\r', b'\n']);
                    4
                }
                10..=99 => {
                    head[..5].copy_from_slice(&[b'$', b'0' + (length / 10) as u8, b'0' + (length % 10) as u8, b'\r', b'\n']);
                    5
                }
                _ => {
                    let (mut digits, mark) = (itoa::Buffer::new(), head.len());
                    let digits = digits.format(length).as_bytes();
                    let mut rest = &mut *head;
                    for part in [b"$", digits, b"\r\n"] {
                        let (now, later) = rest.split_at_mut(part.len());
                        now.copy_from_slice(part);
                        rest = later;
                    }
                    mark - rest.len()
                }
            };
            match bytes[start..].first_chunk::<WORDS>() {
                Some(words) if length <= WORDS => self.tail[at..at + WORDS].copy_from_slice(words),
                _ => self.tail[at..at + length].copy_from_slice(&bytes[start..end]),
            }
            self.tail[at + length..at + length + 2].copy_from_slice(b"\r\n");
            (at, start) = (at + length + 2, end);
        }
        self.tail.truncate(at);
    }

    fn begin_bulk(&mut self, len: u64) {
        self.header(b'$', len as usize);
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.raw(bytes);
    }

    fn end_bulk(&mut self) {
        self.raw(b"\r\n");
    }

    fn null(&mut self) {
        self.nothing(b"$-1\r\n");
    }

    fn null_array(&mut self) {
        self.nothing(b"*-1\r\n");
    }

    fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    fn map(&mut self, pairs: usize) {
        self.container(b'%', pairs, pairs * 2);
    }

    fn set(&mut self, len: usize) {
        self.container(b'~', len, len);
    }

    fn push(&mut self, len: usize) {
        self.container(b'>', len, len);
    }

    fn attribute(&mut self, pairs: usize) {
        self.header(b'|', pairs);
    }

    fn double(&mut self, value: f64) {
        self.double_text(double_text(value).as_str());
    }

    fn double_text(&mut self, text: &str) {
        self.line_or_bulk(b',', text.as_bytes());
    }

    fn boolean(&mut self, value: bool) {
        match (self.protocol, value) {
            (Protocol::Resp3, true) => self.raw(b"#t\r\n"),
            (Protocol::Resp3, false) => self.raw(b"#f\r\n"),
            (Protocol::Resp2, value) => self.integer(i64::from(value)),
        }
    }

    fn big_number(&mut self, text: &str) {
        self.line_or_bulk(b'(', text.as_bytes());
    }

    fn verbatim(&mut self, format: &str, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.header(b'=', format.len() + 1 + text.len());
                self.raw(format.as_bytes());
                self.raw(b":");
                self.raw(text);
                self.raw(b"\r\n");
            }
        }
    }

    fn mark(&self) -> usize {
        self.sealed_bytes + self.tail.len()
    }

    fn bytes_since(&self, mark: usize) -> usize {
        self.mark().saturating_sub(mark)
    }

    fn is_overfull(&self) -> bool {
        self.overfull
    }

    fn rewind(&mut self, mark: usize) {
        // The connection will be closed, and where the mark was is not known any more.
        if self.overfull {
            return;
        }
        while mark < self.sealed_bytes {
            let Some(last) = self.sealed.pop_back() else { break };
            self.sealed_bytes -= last.len();
            self.tail = last;
        }
        self.tail.truncate(mark - self.sealed_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Output)) -> String {
        let mut output = Output::new(protocol);
        write(&mut output);
        assert!(output.single().is_some());
        String::from_utf8_lossy(output.single().unwrap_or_default()).into_owned()
    }

    type Write = fn(&mut Output);

    #[test]
    fn bulks_are_what_each_of_them_is() {
        let bytes: Vec<u8> = (0..2000).map(|number| number as u8).collect();
        for step in [1, 7, 16, 17, 99, 100, 101, 1000] {
            let ends: Vec<u16> = (1..=bytes.len() / step).map(|number| (number * step) as u16).collect();
            let bytes = &bytes[..usize::from(ends[ends.len() - 1])];
            let (mut whole, mut single) = (Output::new(Protocol::Resp2), Output::new(Protocol::Resp2));
            whole.bulks(bytes, &ends);
            bytes.chunks(step).for_each(|piece| single.bulk(piece));
            assert_eq!(whole.single(), single.single(), "{step}");
        }
    }

    #[test]
    fn every_reply_has_its_form_in_both_protocols() {
        let cases: &[(Write, &str, &str)] = &[
            (|o| o.ok(), "+OK\r\n", "+OK\r\n"),
            (|o| o.error("ERR two\r\nlines\r\n"), "-ERR two  lines\r\n", "-ERR two  lines\r\n"),
            (|o| o.integer(7), ":7\r\n", ":7\r\n"),
            (|o| o.integer(42), ":42\r\n", ":42\r\n"),
            (|o| o.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|o| o.integer(i64::MAX), ":9223372036854775807\r\n", ":9223372036854775807\r\n"),
            (|o| o.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|o| o.bulk(&[b'x'; 100]), &format!("$100\r\n{}\r\n", "x".repeat(100)), &format!("$100\r\n{}\r\n", "x".repeat(100))),
            (|o| o.null(), "$-1\r\n", "_\r\n"),
            (|o| o.null_array(), "*-1\r\n", "_\r\n"),
            (|o| o.bulks(b"", &[0, 0]), "$0\r\n\r\n$0\r\n\r\n", "$0\r\n\r\n$0\r\n\r\n"),
            (
                |o| o.bulks(b"onetwothree", &[3, 6, 11]),
                "$3\r\none\r\n$3\r\ntwo\r\n$5\r\nthree\r\n",
                "$3\r\none\r\n$3\r\ntwo\r\n$5\r\nthree\r\n",
            ),
            (|o| o.array(0), "*0\r\n", "*0\r\n"),
            (|o| o.map(2), "*4\r\n", "%2\r\n"),
            (|o| o.set(2), "*2\r\n", "~2\r\n"),
            (|o| o.push(2), "*2\r\n", ">2\r\n"),
            (|o| o.double(3.25), "$4\r\n3.25\r\n", ",3.25\r\n"),
            (|o| o.boolean(true), ":1\r\n", "#t\r\n"),
            (|o| o.boolean(false), ":0\r\n", "#f\r\n"),
            (
                |o| o.big_number("123456789012345678901234567890"),
                "$30\r\n123456789012345678901234567890\r\n",
                "(123456789012345678901234567890\r\n",
            ),
            (|o| o.verbatim("txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
        ];
        for (write, second, third) in cases {
            assert_eq!(&written(Protocol::Resp2, *write), second);
            assert_eq!(&written(Protocol::Resp3, *write), third);
        }
    }

    fn gathered(output: &Output) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 64];
        let count = output.slices(&mut slices);
        slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    #[test]
    fn long_replies_come_out_whole_however_little_is_sent_at_a_time() {
        let mut output = Output::default();
        let mut expected = Vec::new();
        for length in [10usize, 70_000, 3, 65_536, 0, 200_000, 1] {
            let bulk: Vec<u8> = (0..length).map(|at| at as u8).collect();
            output.bulk(&bulk);
            expected.extend_from_slice(format!("${length}\r\n").as_bytes());
            expected.extend_from_slice(&bulk);
            expected.extend_from_slice(b"\r\n");
        }
        assert!(output.sealed.len() > 2);
        assert_eq!(gathered(&output), expected);
        let mut sent = Vec::new();
        for step in (1..).map(|at| at * 997 % 7919 + 1) {
            assert_eq!(output.waiting(), expected.len() - sent.len());
            let rest = gathered(&output);
            if rest.is_empty() {
                break;
            }
            let count = step.min(rest.len());
            sent.extend_from_slice(&rest[..count]);
            output.consume(count);
        }
        assert!(sent == expected);
        assert!(output.reclaim().is_some());
    }

    #[test]
    fn what_is_shared_comes_first_however_little_is_sent_at_a_time() {
        let shared: Arc<[u8]> = Arc::from(&b"+to all\r\n"[..]);
        let mut output = Output::default();
        assert!(output.share(&shared) && output.is_shared());
        assert!(!output.share(&shared), "something waits");
        assert_eq!(output.single(), Some(&shared[..]));
        output.consume(shared.len());
        assert!(output.is_empty() && output.share(&shared));
        let mark = output.mark();
        output.bulk(&[b'x'; 70_000]);
        output.rewind(mark);
        output.integer(1);
        assert!(!output.is_shared() && output.single().is_none());
        let mut sent = Vec::new();
        while !output.is_empty() {
            let rest = gathered(&output);
            assert_eq!(rest.len(), output.waiting());
            sent.extend_from_slice(&rest[..1]);
            output.consume(1);
        }
        assert_eq!(sent, b"+to all\r\n:1\r\n");
        assert!(output.reclaim().is_some() && Arc::strong_count(&shared) == 1);
    }

    #[test]
    fn what_is_beyond_the_limit_is_not_kept() {
        let mut output = Output::default();
        output.limit(200_000);
        for number in 0.. {
            output.bulk(&[0; 50_000]);
            assert!(number < 8);
            if output.is_overfull() {
                break;
            }
        }
        let held = output.waiting();
        (0..100).for_each(|_| output.bulk(&[0; 50_000]));
        assert!((200_001..400_000).contains(&held) && output.waiting() < held + 100_000 && output.waiting() > 200_000);
        output.rewind(0);
        assert!(output.waiting() > 200_000);
    }

    #[test]
    fn rewinding_forgets_segments_too() {
        let mut output = Output::default();
        output.bulk(b"kept");
        let mark = output.mark();
        for _ in 0..5 {
            output.bulk(&[0; 50_000]);
        }
        output.rewind(mark);
        output.integer(1);
        assert_eq!(gathered(&output), b"$4\r\nkept\r\n:1\r\n");
    }
}
