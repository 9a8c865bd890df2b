//! Reading requests, as a server does.
//!
//! The input is whatever bytes a connection holds, beginning with the first one of a request. A whole request's
//! arguments are slices of that input: nothing is copied, and a pipeline of small requests costs about 20 ns each. When
//! only a part is there, [`Requests`] remembers how far it came, so that neither a bulk of 512 MiB nor a request of a
//! million arguments is looked at twice.
//!
//! Invariants:
//! 1. `input` advances by whole requests only, empty ones included; after `Ok(None)` the caller gives what is left of it and more.
//! 2. What is remembered are distances from the request's first byte, so the caller may move its buffer.
//! 3. Memory that a client can make us take is in proportion to bytes that it has sent, never to a number that it named.

use polder_base::number::integer;
use polder_base::words::split;

use super::Malformed;

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest argument (`proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Whether the client has still to authenticate: then only short requests are taken from it.
    pub stranger: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bulk_bytes_max: 512 << 20, stranger: false }
    }
}

/// The longest line without a `\r\n`: inline requests and length headers.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The most arguments of one request.
const ARGUMENTS_MAX: i64 = i32::MAX as i64;
/// What one that has not authenticated may send.
const STRANGER_ARGUMENTS_MAX: i64 = 10;
const STRANGER_BULK_BYTES_MAX: i64 = 16 << 10;

/// A whole request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// This many arguments were appended to the caller's list; at least one.
    Bulks(usize),
    /// A line of words, at least one; unescaped, so they are copies.
    Inline(Vec<Vec<u8>>),
}

/// The reader of one connection's requests.
#[derive(Default, Debug)]
pub struct Requests {
    partial: Option<Box<Partial>>,
}

/// A request of which only a part has come.
#[derive(Debug)]
struct Partial {
    progress: Progress,
    /// The arguments that are whole, as distances from the request's first byte.
    whole: Vec<(usize, usize)>,
}

/// How far the reader came in a multibulk request.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Where it goes on, from the request's first byte.
    at: usize,
    /// Arguments still to come, the one that `bulk` announces included.
    left: usize,
    /// The length of the argument whose header has been read.
    bulk: Option<usize>,
}

/// A length header: its number and where its line ends.
enum Header {
    Whole(i64, usize),
    Incomplete,
}

impl Requests {
    /// Takes one request from the front of `input` and appends its arguments to `args`; `None` when it is not all there.
    ///
    /// Empty requests (`*0`, an empty line) are skipped.
    ///
    /// # Errors
    /// Redis's error before it closes the connection.
    pub fn read<'b>(
        &mut self,
        input: &mut &'b [u8],
        limits: &Limits,
        args: &mut Vec<&'b [u8]>,
    ) -> Result<Option<Request>, Malformed> {
        if self.partial.is_some() {
            return self.resume(input, limits, args);
        }
        while let Some(first) = input.first() {
            if *first != b'*' {
                match read_inline(input)? {
                    Some(words) if words.is_empty() => continue,
                    words => return Ok(words.map(Request::Inline)),
                }
            }
            let (count, at) = match count_header(input, limits)? {
                Header::Whole(count, at) => (count, at),
                Header::Incomplete => return Ok(None),
            };
            if count <= 0 {
                *input = &input[at..];
                continue;
            }
            let start = Progress { at, left: count as usize, bulk: None };
            return self.begin(input, start, limits, args);
        }
        Ok(None)
    }

    /// How many bytes must come, at least, before a request can be whole; `have` is how many the caller holds.
    pub fn missing(&self, have: usize) -> usize {
        let needed = self
            .partial
            .as_ref()
            .and_then(|partial| partial.progress.bulk.map(|bulk| partial.progress.at + bulk + 2));
        needed.unwrap_or(0).saturating_sub(have)
    }

    fn begin<'b>(
        &mut self,
        input: &mut &'b [u8],
        start: Progress,
        limits: &Limits,
        args: &mut Vec<&'b [u8]>,
    ) -> Result<Option<Request>, Malformed> {
        let (bytes, first) = (*input, args.len());
        let mut progress = start;
        if progress.advance(bytes, limits, |from, to| args.push(&bytes[from..to]))? {
            *input = &bytes[progress.at..];
            return Ok(Some(Request::Bulks(args.len() - first)));
        }
        args.truncate(first);
        let mut partial = Box::new(Partial { progress: start, whole: Vec::new() });
        partial.advance(bytes, limits)?;
        self.partial = Some(partial);
        Ok(None)
    }

    fn resume<'b>(
        &mut self,
        input: &mut &'b [u8],
        limits: &Limits,
        args: &mut Vec<&'b [u8]>,
    ) -> Result<Option<Request>, Malformed> {
        let bytes = *input;
        let Some(partial) = &mut self.partial else { return Ok(None) };
        if !partial.advance(bytes, limits)? {
            return Ok(None);
        }
        args.extend(partial.whole.iter().map(|(from, to)| &bytes[*from..*to]));
        let request = Request::Bulks(partial.whole.len());
        *input = &bytes[partial.progress.at..];
        self.partial = None;
        Ok(Some(request))
    }
}

impl Partial {
    fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, Malformed> {
        let whole = &mut self.whole;
        self.progress.advance(bytes, limits, |from, to| whole.push((from, to)))
    }
}

impl Progress {
    /// Reads arguments until the request is whole (true) or the input ends (false).
    #[inline(always)]
    fn advance(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        mut found: impl FnMut(usize, usize),
    ) -> Result<bool, Malformed> {
        while self.left > 0 {
            let length = match self.bulk {
                Some(length) => length,
                None => match bulk_header(bytes, self.at, limits)? {
                    Header::Whole(length, at) => {
                        self.at = at;
                        length as usize
                    }
                    Header::Incomplete => return Ok(false),
                },
            };
            let end = self.at + length;
            if bytes.len() < end + 2 {
                self.bulk = Some(length);
                return Ok(false);
            }
            found(self.at, end);
            *self = Progress { at: end + 2, left: self.left - 1, bulk: None };
        }
        Ok(true)
    }
}

#[inline(always)]
fn count_header(bytes: &[u8], limits: &Limits) -> Result<Header, Malformed> {
    if let Some((count, at)) = short_number(bytes, 0)
        && (count <= STRANGER_ARGUMENTS_MAX || !limits.stranger)
    {
        return Ok(Header::Whole(count, at));
    }
    let invalid = "ERR Protocol error: invalid multibulk length";
    match long_number(bytes, 0, "ERR Protocol error: too big mbulk count string", invalid)? {
        Header::Whole(count, _) if count > ARGUMENTS_MAX => Err(invalid.into()),
        Header::Whole(count, _) if count > STRANGER_ARGUMENTS_MAX && limits.stranger => {
            Err("ERR Protocol error: unauthenticated multibulk length".into())
        }
        header => Ok(header),
    }
}

#[inline(always)]
fn bulk_header(bytes: &[u8], at: usize, limits: &Limits) -> Result<Header, Malformed> {
    if bytes.get(at) == Some(&b'$')
        && let Some((length, at)) = short_number(bytes, at)
    {
        return Ok(Header::Whole(length, at));
    }
    long_bulk_header(bytes, at, limits)
}

#[cold]
fn long_bulk_header(bytes: &[u8], at: usize, limits: &Limits) -> Result<Header, Malformed> {
    let invalid = "ERR Protocol error: invalid bulk length";
    let Some(sign) = bytes.get(at) else { return Ok(Header::Incomplete) };
    if *sign != b'$' && memchr::memchr(b'\r', &bytes[at..]).is_some() {
        return Err(Malformed(
            format!("ERR Protocol error: expected '$', got '{}'", char::from(*sign)).into(),
        ));
    }
    match long_number(bytes, at, "ERR Protocol error: too big bulk count string", invalid)? {
        Header::Whole(length, _) if length < 0 || length as usize > limits.bulk_bytes_max => {
            Err(invalid.into())
        }
        Header::Whole(length, _) if length > STRANGER_BULK_BYTES_MAX && limits.stranger => {
            Err("ERR Protocol error: unauthenticated bulk length".into())
        }
        header => Ok(header),
    }
}

/// The number of a header of one or two digits, which nearly all are, and where its line ends.
#[inline(always)]
fn short_number(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let line: &[u8; 4] = bytes.get(at + 1..at + 5)?.try_into().ok()?;
    let (first, second) = (line[0].wrapping_sub(b'0'), line[1].wrapping_sub(b'0'));
    if first <= 9 && line[1] == b'\r' {
        return Some((i64::from(first), at + 4));
    }
    if (1..=9).contains(&first) && second <= 9 && line[2] == b'\r' {
        return Some((i64::from(first) * 10 + i64::from(second), at + 5));
    }
    None
}

/// The number of any header.
fn long_number(
    bytes: &[u8],
    at: usize,
    too_long: &'static str,
    invalid: &'static str,
) -> Result<Header, Malformed> {
    let line = &bytes[at..];
    let Some(end) = memchr::memchr(b'\r', line) else {
        return if line.len() > LINE_BYTES_MAX { Err(too_long.into()) } else { Ok(Header::Incomplete) };
    };
    if end + 2 > line.len() {
        return Ok(Header::Incomplete);
    }
    match integer(&line[1..end]) {
        Some(number) => Ok(Header::Whole(number, at + end + 2)),
        None => Err(invalid.into()),
    }
}

fn read_inline(input: &mut &[u8]) -> Result<Option<Vec<Vec<u8>>>, Malformed> {
    let bytes = *input;
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return if bytes.len() > LINE_BYTES_MAX {
            Err("ERR Protocol error: too big inline request".into())
        } else {
            Ok(None)
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let words = split(line).ok_or("ERR Protocol error: unbalanced quotes in request")?;
    *input = &bytes[end + 1..];
    Ok(Some(words))
}

#[cfg(test)]
mod tests;
