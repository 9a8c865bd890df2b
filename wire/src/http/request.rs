//! Where a request ends: its head, and its body by length or in chunks.
//!
//! Invariants:
//! 1. A request is returned when all of it is there. Until then the reader remembers how far it has looked, so that a
//!    body of many megabytes is not looked at twice.
//! 2. What is remembered are distances from the first byte of the request, so the caller may move its buffer.
//! 3. The reader keeps no bytes. A body in chunks is put together when its end is there.
use std::borrow::Cow;

use super::head::{HEAD_BYTES_MAX, Head};
use super::{Refused, refused};

/// The most bytes of the line in front of a chunk, and of the fields behind the last chunk.
const CHUNK_LINE_BYTES_MAX: usize = 1 << 10;
const TRAILER_BYTES_MAX: usize = 8 << 10;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub body_bytes_max: usize,
}

/// The reader of one connection's requests.
#[derive(Default, Debug)]
pub struct Requests {
    partial: Option<Box<Partial>>,
}

/// A request of which only a part has come. All places are distances from its first byte.
#[derive(Debug, Default)]
struct Partial {
    /// Up to here the head has been searched, in whole lines.
    searched: usize,
    /// Where the head ends, once that is known.
    head_end: usize,
    /// Where the request ends, if its head has said so.
    end: usize,
    /// Where the line of the next chunk begins, and how many bytes of the body lie in front of it.
    chunk: usize,
    body_bytes: usize,
}

/// What was found at the beginning of the input.
#[derive(Debug)]
pub enum Read<'b> {
    /// A part of a head.
    Nothing,
    /// A head whose body has not come as a whole.
    Head(Box<Head<'b>>),
    /// A whole request, and its length.
    Whole { head: Box<Head<'b>>, body: Cow<'b, [u8]>, length: usize },
}

/// Where a body ends, or that its end has not come.
type End = Option<usize>;

impl Requests {
    /// Reads the request at the beginning of the input.
    ///
    /// # Errors
    /// A request that ends the connection.
    pub fn read<'b>(&mut self, input: &'b [u8], limits: Limits) -> Result<Read<'b>, Refused> {
        let mut partial = self.partial.take().map_or_else(Partial::default, |partial| *partial);
        let read = partial.read(input, limits)?;
        if !matches!(read, Read::Whole { .. }) {
            self.partial = Some(Box::new(partial));
        }
        Ok(read)
    }

    /// How many bytes of a body are still to come, if that is known; `have` bytes of the request are there.
    #[inline]
    pub fn missing(&self, have: usize) -> usize {
        self.partial.as_ref().map_or(0, |partial| partial.end.saturating_sub(have))
    }

    /// Whether a part of a request has been read.
    pub fn is_partial(&self) -> bool {
        self.partial.is_some()
    }
}

impl Partial {
    fn read<'b>(&mut self, input: &'b [u8], limits: Limits) -> Result<Read<'b>, Refused> {
        if self.head_end == 0 && !self.find_head_end(input)? {
            return Ok(Read::Nothing);
        }
        let head = Box::new(Head::read(&input[..self.head_end])?);
        if head.length.is_some_and(|length| length > limits.body_bytes_max as u64) {
            return refused(413, "the body is longer than proto-max-bulk-len allows");
        }
        if head.is_chunked {
            let Some(end) = self.find_last_chunk(input, limits)? else { return Ok(Read::Head(head)) };
            let body = Cow::Owned(join(&input[self.head_end..end], self.body_bytes)?);
            return Ok(Read::Whole { head, body, length: end });
        }
        self.end = self.head_end + head.length.unwrap_or(0) as usize;
        match input.get(self.head_end..self.end) {
            Some(body) => Ok(Read::Whole { head, body: Cow::Borrowed(body), length: self.end }),
            None => Ok(Read::Head(head)),
        }
    }

    /// Looks for the empty line at the end of the head. A line that ends without CR is refused as soon as it is seen.
    fn find_head_end(&mut self, input: &[u8]) -> Result<bool, Refused> {
        // Empty lines in front of a request are no part of it, however the bytes come.
        let mut begins = !input[..self.searched].chunks(2).all(|line| line == b"\r\n");
        while let Some(length) = memchr::memchr(b'\n', &input[self.searched..]) {
            let line = &input[self.searched..=self.searched + length];
            if !line.ends_with(b"\r\n") {
                return refused(400, "each line of a request ends with CR and LF");
            }
            self.searched += line.len();
            if line.len() > 2 {
                begins = true;
            } else if begins {
                self.head_end = self.searched;
                break;
            }
        }
        if self.searched > HEAD_BYTES_MAX || self.head_end == 0 && input.len() > HEAD_BYTES_MAX {
            return refused(431, "the head of a request has 32 KiB at most");
        }
        // A client of another protocol, which waits for a reply.
        if input.trim_ascii_start().first().is_some_and(|byte| !byte.is_ascii_uppercase()) {
            return refused(400, "a request of HTTP begins with a method in capital letters");
        }
        Ok(self.head_end > 0)
    }

    /// Looks for the end of the last chunk, and of the fields behind it.
    fn find_last_chunk(&mut self, input: &[u8], limits: Limits) -> Result<End, Refused> {
        self.chunk = self.chunk.max(self.head_end);
        loop {
            let Some((size, line_bytes)) = chunk_line(&input[self.chunk.min(input.len())..])? else {
                return Ok(None);
            };
            if size == 0 {
                return Ok(trailer_bytes(&input[self.chunk + line_bytes..])?
                    .map(|bytes| self.chunk + line_bytes + bytes));
            }
            if size > limits.body_bytes_max.saturating_sub(self.body_bytes) {
                return refused(413, "the body is longer than proto-max-bulk-len allows");
            }
            let end = self.chunk + line_bytes + size;
            match input.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return refused(400, "a chunk has another length than it says"),
                None => return Ok(None),
            }
            self.body_bytes += size;
            self.chunk = end + 2;
        }
    }
}

/// The size of the chunk that begins here, and the length of its line; `None` while the line is not whole.
fn chunk_line(input: &[u8]) -> Result<Option<(usize, usize)>, Refused> {
    let Some(at) = memchr::memchr(b'\n', &input[..input.len().min(CHUNK_LINE_BYTES_MAX)]) else {
        if input.len() >= CHUNK_LINE_BYTES_MAX {
            return refused(400, "the line in front of a chunk is too long");
        }
        return Ok(None);
    };
    let Some(line) = input[..at].strip_suffix(b"\r") else {
        return refused(400, "each line of a request ends with CR and LF");
    };
    // What follows a semicolon is an extension, which a server may ignore.
    let digits = &line[..memchr::memchr(b';', line).unwrap_or(line.len())];
    let number = || usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let is_number =
        (1..=8).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit) && !line.contains(&b'\r');
    match is_number.then(number).flatten() {
        Some(size) => Ok(Some((size, at + 1))),
        None => refused(400, "the size of a chunk is one hexadecimal number"),
    }
}

/// The length of the fields behind the last chunk with the empty line at their end. They are not used.
fn trailer_bytes(input: &[u8]) -> Result<Option<usize>, Refused> {
    let mut at = 0;
    while let Some(length) = memchr::memchr(b'\n', &input[at..]) {
        let line = &input[at..=at + length];
        if !line.ends_with(b"\r\n") {
            return refused(400, "each line of a request ends with CR and LF");
        }
        at += line.len();
        if line.len() == 2 {
            return Ok(Some(at));
        }
        if at > TRAILER_BYTES_MAX {
            break;
        }
    }
    if input.len() > TRAILER_BYTES_MAX {
        return refused(431, "the fields behind the last chunk are too long");
    }
    Ok(None)
}

/// Puts the chunks together; all of them are there.
fn join(mut input: &[u8], body_bytes: usize) -> Result<Vec<u8>, Refused> {
    let mut body = Vec::with_capacity(body_bytes);
    while let Some((size @ 1.., line_bytes)) = chunk_line(input)? {
        body.extend_from_slice(&input[line_bytes..line_bytes + size]);
        input = &input[line_bytes + size + 2..];
    }
    Ok(body)
}
