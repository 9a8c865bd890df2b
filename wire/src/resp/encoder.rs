//! Writing replies, as a server does: RESP2 and RESP3 over the bytes of an [`Output`].
//!
//! The version is that of the output, and HELLO changes it between two replies. A type that only RESP3 has is written
//! in RESP2 as the nearest type that RESP2 has.
use polder_base::number::double_text;
use polder_base::{Protocol, Reply};

use crate::output::Output;

/// The most bytes of a length or number with its mark and line end: `:-9223372036854775808\r\n`.
const NUMBER_BYTES: usize = 24;

impl Output {
    /// Writes a mark, a length and a line end.
    #[inline(always)]
    fn header(&mut self, mark: u8, length: usize) {
        self.room(NUMBER_BYTES);
        match length {
            0..=9 => self.tail().extend_from_slice(&[mark, b'0' + length as u8, b'\r', b'\n']),
            10..=99 => self.tail().extend_from_slice(&[
                mark,
                b'0' + (length / 10) as u8,
                b'0' + (length % 10) as u8,
                b'\r',
                b'\n',
            ]),
            _ => self.line(mark, itoa::Buffer::new().format(length).as_bytes()),
        }
    }

    /// Writes a mark, a text without line ends, and a line end.
    fn line(&mut self, mark: u8, text: &[u8]) {
        self.room(text.len() + 3);
        self.tail().push(mark);
        self.tail().extend_from_slice(text);
        self.tail().extend_from_slice(b"\r\n");
    }

    /// The length of something that RESP3 knows and RESP2 calls an array of `flat` elements.
    fn container(&mut self, mark: u8, len: usize, flat: usize) {
        match self.resp_version {
            Protocol::Resp3 => self.header(mark, len),
            Protocol::Resp2 => self.header(b'*', flat),
        }
    }

    /// A line that RESP3 marks and RESP2 writes as a bulk.
    fn line_or_bulk(&mut self, mark: u8, text: &[u8]) {
        match self.resp_version {
            Protocol::Resp3 => self.line(mark, text),
            Protocol::Resp2 => self.bulk(text),
        }
    }

    /// `_` in RESP3, else `older`.
    fn nothing(&mut self, older: &[u8]) {
        match self.resp_version {
            Protocol::Resp3 => self.raw(b"_\r\n"),
            Protocol::Resp2 => self.raw(older),
        }
    }
}

impl Reply for Output {
    fn protocol(&self) -> Protocol {
        self.resp_version
    }

    fn speak(&mut self, protocol: Protocol) {
        self.resp_version = protocol;
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
        self.tail().extend_from_slice(bytes);
        self.tail().extend_from_slice(b"\r\n");
    }

    fn bulks(&mut self, bytes: &[u8], ends: &[u16]) {
        // Room for all at once; short ones are copied as whole words, and what is too much of that is written over by what follows.
        const WORDS: usize = 16;
        self.room(bytes.len() + ends.len() * NUMBER_BYTES + WORDS);
        let begin = self.tail().len();
        self.tail().resize(begin + bytes.len() + ends.len() * NUMBER_BYTES + WORDS, 0);
        let (mut at, mut start) = (begin, 0);
        for end in ends.iter().map(|end| usize::from(*end)) {
            let length = end - start;
            let head = &mut self.tail()[at..];
            at += match length {
                0..=9 => {
                    head[..4].copy_from_slice(&[b'$', b'0' + length as u8, b'\r', b'\n']);
                    4
                }
                10..=99 => {
                    head[..5].copy_from_slice(&[
                        b'$',
                        b'0' + (length / 10) as u8,
                        b'0' + (length % 10) as u8,
                        b'\r',
                        b'\n',
                    ]);
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
                Some(words) if length <= WORDS => self.tail()[at..at + WORDS].copy_from_slice(words),
                _ => self.tail()[at..at + length].copy_from_slice(&bytes[start..end]),
            }
            self.tail()[at + length..at + length + 2].copy_from_slice(b"\r\n");
            (at, start) = (at + length + 2, end);
        }
        self.tail().truncate(at);
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
        match (self.resp_version, value) {
            (Protocol::Resp3, true) => self.raw(b"#t\r\n"),
            (Protocol::Resp3, false) => self.raw(b"#f\r\n"),
            (Protocol::Resp2, value) => self.integer(i64::from(value)),
        }
    }

    fn big_number(&mut self, text: &str) {
        self.line_or_bulk(b'(', text.as_bytes());
    }

    fn verbatim(&mut self, format: &str, text: &[u8]) {
        match self.resp_version {
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
        Output::mark(self)
    }

    fn bytes_since(&self, mark: usize) -> usize {
        Output::bytes_since(self, mark)
    }

    fn is_overfull(&self) -> bool {
        Output::is_overfull(self)
    }

    fn rewind(&mut self, mark: usize) {
        Output::rewind(self, mark);
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
            (
                |o| o.bulk(&[b'x'; 100]),
                &format!("$100\r\n{}\r\n", "x".repeat(100)),
                &format!("$100\r\n{}\r\n", "x".repeat(100)),
            ),
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
}
