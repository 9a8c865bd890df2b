//! One line of memcached's text protocol, taken apart.
//!
//! A reader gets a line without its end, so nothing here knows what has come and what has not. The data of `set` and its
//! relatives stands behind the line and is the caller's business ([`Line::Store`] says how long it is).
use smallvec::SmallVec;

use super::KEY_BYTES_MAX;
use crate::foreign::is_http;

/// A wrong line has this reply, for lack of a better one.
pub const ERROR: &str = "ERROR";
/// The words are right, and a number or the length of a key is not.
pub const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
/// The end of a list without items.
const NO_ITEMS: &str = "END";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
const BAD_DELETE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";

const MEMORY_TOO_SMALL: &str = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
/// The least memory that `cache_memlimit` takes.
const MEMORY_MEGABYTES_MIN: u64 = 8;

/// A number, and the word that it was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number<'b, N> {
    pub value: N,
    pub text: &'b [u8],
}

/// How a value is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// If the item has this CAS.
    Cas(u64),
}

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line<'b> {
    /// Keys, to which the caller gives the whole rest of the line: see [`words`]. `cas`: reply with the CAS. `touch`: give
    /// the items this time to live.
    Get {
        keys: &'b [u8],
        cas: bool,
        touch: Option<Number<'b, i64>>,
    },
    /// A value of `bytes` bytes and the end of a line follow.
    Store {
        store: Store,
        key: &'b [u8],
        flags: Number<'b, u32>,
        exptime: Number<'b, i64>,
        bytes: usize,
        quiet: bool,
    },
    Delete {
        key: &'b [u8],
        quiet: bool,
    },
    Count {
        key: &'b [u8],
        up: bool,
        by: Number<'b, u64>,
        quiet: bool,
    },
    Touch {
        key: &'b [u8],
        exptime: Number<'b, i64>,
        quiet: bool,
    },
    Flush {
        delay: i64,
        quiet: bool,
    },
    /// `cache_memlimit`, in megabytes.
    MemoryLimit {
        megabytes: u64,
        quiet: bool,
    },
    Version,
    Verbosity {
        quiet: bool,
    },
    Quit,
    /// `stats`, with what is asked for.
    Stats(Words<'b>),
    Shutdown {
        graceful: bool,
    },
    /// The words behind `lru_crawler`.
    Crawler(Words<'b>),
    /// A meta command: its letter, and the words behind it.
    Meta(u8, Words<'b>),
    /// A line that has this reply.
    Wrong {
        reply: &'static str,
        quiet: bool,
    },
    /// HTTP: the connection ends without a reply.
    Foreign,
}

/// The words of a line.
pub type Words<'b> = SmallVec<[&'b [u8]; 8]>;

/// The most words that memcached tells apart in a line.
const WORDS_MAX: usize = 24;

/// The words of a line, which blanks part.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

impl<'b> Line<'b> {
    /// Takes a line apart, which comes without `\r\n`.
    pub fn read(line: &'b [u8]) -> Line<'b> {
        // The commonest line of all, and the longest one.
        if let Some(keys) = line.strip_prefix(b"get ") {
            return get(keys, false);
        }
        let words: Words<'b> = words(line).take(WORDS_MAX).collect();
        let Some((&verb, rest)) = words.split_first() else { return wrong(ERROR) };
        if let [b'm', letter] = *verb {
            return if b"gsdane".contains(&letter) { Line::Meta(letter, rest.into()) } else { wrong(ERROR) };
        }
        match verb {
            b"get" | b"gets" if rest.is_empty() => wrong(ERROR),
            b"get" | b"gets" => get(behind(line, verb), verb.len() == 4),
            b"gat" | b"gats" => get_and_touch(line, verb, rest),
            b"set" => store(Store::Set, rest),
            b"add" => store(Store::Add, rest),
            b"replace" => store(Store::Replace, rest),
            b"append" => store(Store::Append, rest),
            b"prepend" => store(Store::Prepend, rest),
            b"cas" => cas(rest),
            b"delete" => delete(rest),
            b"incr" => count(true, rest),
            b"decr" => count(false, rest),
            b"touch" => touch(rest),
            b"flush_all" => flush(rest),
            b"version" => Line::Version,
            b"verbosity" => verbosity(rest),
            b"quit" => Line::Quit,
            b"stats" => Line::Stats(rest.into()),
            b"shutdown" => shutdown(rest),
            b"lru_crawler" => Line::Crawler(rest.into()),
            b"slabs" => slabs(rest),
            b"cache_memlimit" => memory_limit(rest),
            _ if is_http(&words) => Line::Foreign,
            _ => wrong(ERROR),
        }
    }
}

const fn wrong<'b>(reply: &'static str) -> Line<'b> {
    Line::Wrong { reply, quiet: false }
}

/// What stands in a line behind its first word `word`, which is a slice of it.
fn behind<'b>(line: &'b [u8], word: &[u8]) -> &'b [u8] {
    let end = line.iter().position(|byte| *byte != b' ').unwrap_or(0) + word.len();
    &line[end..]
}

fn is_key(word: &[u8]) -> bool {
    word.len() <= KEY_BYTES_MAX
}

/// Whether the last word says that no reply is wanted.
fn is_quiet(words: &[&[u8]]) -> bool {
    words.last() == Some(&&b"noreply"[..])
}

fn get(keys: &[u8], cas: bool) -> Line<'_> {
    let mut any = false;
    for key in words(keys) {
        any = true;
        if !is_key(key) {
            return wrong(BAD_FORMAT);
        }
    }
    if any { Line::Get { keys, cas, touch: None } } else { wrong(ERROR) }
}

/// Of a line that is a [`Line::Get`]: whether it wants the CAS, and the time to live that it gives.
pub fn getter(line: &[u8]) -> (bool, Option<Number<'_, i64>>) {
    let mut words = words(line);
    let verb = words.next().unwrap_or_default();
    (verb.ends_with(b"s"), if verb.starts_with(b"gat") { words.next().and_then(signed) } else { None })
}

fn get_and_touch<'b>(line: &'b [u8], verb: &[u8], rest: &[&'b [u8]]) -> Line<'b> {
    let [time, keys @ ..] = rest else { return wrong(ERROR) };
    let Some(exptime) = signed(time) else { return wrong(BAD_EXPTIME) };
    if keys.is_empty() {
        return wrong(NO_ITEMS);
    }
    let keys = behind(behind(line, verb), time);
    match get(keys, verb.len() == 4) {
        Line::Get { keys, cas, .. } => Line::Get { keys, cas, touch: Some(exptime) },
        other => other,
    }
}

fn store<'b>(store: Store, words: &[&'b [u8]]) -> Line<'b> {
    let (&[key, flags, exptime, bytes] | &[key, flags, exptime, bytes, _]) = words else {
        return wrong(ERROR);
    };
    let quiet = words.len() > 4 && is_quiet(words);
    let bad = Line::Wrong { reply: BAD_FORMAT, quiet };
    let (Some(flags), Some(exptime), Some(bytes)) = (short_unsigned(flags), signed(exptime), signed(bytes))
    else {
        return bad;
    };
    match usize::try_from(bytes.value) {
        Ok(bytes) if is_key(key) && bytes <= i32::MAX as usize - 2 => {
            Line::Store { store, key, flags, exptime, bytes, quiet }
        }
        _ => bad,
    }
}

fn cas<'b>(words: &[&'b [u8]]) -> Line<'b> {
    if !matches!(words.len(), 5 | 6) {
        return wrong(ERROR);
    }
    let quiet = words.len() == 6 && is_quiet(words);
    let Some(token) = unsigned(words[4]) else { return Line::Wrong { reply: BAD_FORMAT, quiet } };
    match store(Store::Cas(token.value), &words[..4]) {
        Line::Store { store, key, flags, exptime, bytes, .. } => {
            Line::Store { store, key, flags, exptime, bytes, quiet }
        }
        Line::Wrong { reply, .. } => Line::Wrong { reply, quiet },
        other => other,
    }
}

fn delete<'b>(words: &[&'b [u8]]) -> Line<'b> {
    let (&[key] | &[key, _] | &[key, _, _]) = words else { return wrong(ERROR) };
    let quiet = words.len() > 1 && is_quiet(words);
    // An earlier version of the protocol had a time here.
    let is_right = match words {
        [_] => true,
        [_, word] => *word == b"0" || quiet,
        [_, word, _] => *word == b"0" && quiet,
        _ => false,
    };
    match (is_right, is_key(key)) {
        (false, _) => Line::Wrong { reply: BAD_DELETE, quiet },
        (true, false) => Line::Wrong { reply: BAD_FORMAT, quiet },
        (true, true) => Line::Delete { key, quiet },
    }
}

fn count<'b>(up: bool, words: &[&'b [u8]]) -> Line<'b> {
    let (&[key, by] | &[key, by, _]) = words else { return wrong(ERROR) };
    let quiet = words.len() > 2 && is_quiet(words);
    if !is_key(key) {
        return Line::Wrong { reply: BAD_FORMAT, quiet };
    }
    match unsigned(by) {
        Some(by) => Line::Count { key, up, by, quiet },
        None => Line::Wrong { reply: BAD_DELTA, quiet },
    }
}

fn touch<'b>(words: &[&'b [u8]]) -> Line<'b> {
    let (&[key, exptime] | &[key, exptime, _]) = words else { return wrong(ERROR) };
    let quiet = words.len() > 2 && is_quiet(words);
    if !is_key(key) {
        return Line::Wrong { reply: BAD_FORMAT, quiet };
    }
    match signed(exptime) {
        Some(exptime) => Line::Touch { key, exptime, quiet },
        None => Line::Wrong { reply: BAD_EXPTIME, quiet },
    }
}

fn flush<'b>(words: &[&'b [u8]]) -> Line<'b> {
    if words.len() > 2 {
        return wrong(ERROR);
    }
    let quiet = is_quiet(words);
    let delay = match words.first().filter(|_| words.len() > usize::from(quiet)) {
        None => 0,
        Some(delay) => match signed(delay) {
            Some(delay) => delay.value,
            None => return Line::Wrong { reply: BAD_EXPTIME, quiet },
        },
    };
    Line::Flush { delay, quiet }
}

/// There are no slabs to move, so a right line has no effect.
fn slabs<'b>(words: &[&'b [u8]]) -> Line<'b> {
    let quiet = is_quiet(words);
    match words {
        [b"automove", mode] | [b"automove", mode, _] => match short_unsigned(mode) {
            Some(_) => Line::Wrong { reply: "OK", quiet },
            None => Line::Wrong { reply: BAD_FORMAT, quiet },
        },
        _ => wrong(ERROR),
    }
}

fn memory_limit<'b>(words: &[&'b [u8]]) -> Line<'b> {
    let quiet = is_quiet(words);
    let (&[megabytes] | &[megabytes, _]) = words else { return wrong(ERROR) };
    match unsigned(megabytes).map(|megabytes| megabytes.value) {
        None => Line::Wrong { reply: ERROR, quiet },
        Some(0..MEMORY_MEGABYTES_MIN) => Line::Wrong { reply: MEMORY_TOO_SMALL, quiet },
        Some(megabytes) => Line::MemoryLimit { megabytes, quiet },
    }
}

fn verbosity<'b>(words: &[&'b [u8]]) -> Line<'b> {
    let quiet = is_quiet(words);
    match words {
        [] | [_, _, _, ..] => wrong(ERROR),
        [level, ..] if short_unsigned(level).is_none() && !(quiet && words.len() == 1) => {
            Line::Wrong { reply: BAD_FORMAT, quiet }
        }
        _ => Line::Verbosity { quiet },
    }
}

fn shutdown<'b>(words: &[&'b [u8]]) -> Line<'b> {
    match words {
        [] => Line::Shutdown { graceful: false },
        [b"graceful"] => Line::Shutdown { graceful: true },
        _ => wrong("CLIENT_ERROR invalid shutdown mode"),
    }
}

/// The digits of a number with their sign, as strtol reads them.
fn digits(text: &[u8]) -> Option<(bool, u128)> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: u128 = 0;
    for digit in digits {
        value = digit
            .is_ascii_digit()
            .then(|| value.saturating_mul(10).saturating_add(u128::from(digit - b'0')))?;
    }
    Some((negative, value))
}

/// A number with a sign. memcached has 32 bits for it; here times after the year 2038 are times, too.
pub fn signed(text: &[u8]) -> Option<Number<'_, i64>> {
    let (negative, value) = digits(text)?;
    let value = i64::try_from(value).ok()?;
    Some(Number { value: if negative { -value } else { value }, text })
}

/// A number of 64 bits without a sign. As strtoull does, it takes a small negative one for a large one.
pub fn unsigned(text: &[u8]) -> Option<Number<'_, u64>> {
    let (negative, value) = digits(text)?;
    let value = u64::try_from(value).ok()?;
    let value = if negative { value.wrapping_neg() } else { value };
    // Such a number looks large, and memcached then looks for a minus.
    if negative && (value as i64) < 0 { None } else { Some(Number { value, text }) }
}

/// The lower 32 bits of such a number.
pub fn short_unsigned(text: &[u8]) -> Option<Number<'_, u32>> {
    let Number { value, text } = unsigned(text)?;
    Some(Number { value: value as u32, text })
}

/// Whether a number is written as printing it would write it, so that the word can stand for it.
pub fn is_canonical(text: &[u8]) -> bool {
    matches!(text, [b'0'] | [b'1'..=b'9', ..]) && text.len() < 20
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_reply(line: &str) -> &'static str {
        match Line::read(line.as_bytes()) {
            Line::Wrong { reply, .. } => reply,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn wrong_lines_have_the_replies_of_memcached() {
        let long = "k".repeat(251);
        for (line, reply) in [
            ("", ERROR),
            ("get", ERROR),
            ("get  ", ERROR),
            ("gat 1", NO_ITEMS),
            ("gat", ERROR),
            ("gat x k", BAD_EXPTIME),
            ("set k 0 0", ERROR),
            ("set k 0 0 1 noreply more", ERROR),
            ("set k x 0 1", BAD_FORMAT),
            ("set k 0 0 -1", BAD_FORMAT),
            ("set k 0 0 2147483646", BAD_FORMAT),
            ("set k -1 0 1", BAD_FORMAT),
            ("cas k 0 0 1", ERROR),
            ("cas k 0 0 1 x", BAD_FORMAT),
            ("incr k x", BAD_DELTA),
            ("touch k x", BAD_EXPTIME),
            ("delete k 5", BAD_DELETE),
            ("mx", ERROR),
            ("nonsense", ERROR),
        ] {
            assert_eq!(wrong_reply(line), reply, "{line}");
        }
        assert_eq!(wrong_reply(&format!("get a {long}")), BAD_FORMAT);
        assert_eq!(wrong_reply(&format!("set {long} 0 0 1")), BAD_FORMAT);
        for line in ["POST / HTTP/1.1", "GET / HTTP/1.1", "DELETE /k HTTP/1.1", "Host: x"] {
            assert_eq!(Line::read(line.as_bytes()), Line::Foreign, "{line}");
        }
        for (line, reply) in [
            ("slabs automove x", BAD_FORMAT),
            ("slabs automove", ERROR),
            ("slabs automove 1", "OK"),
            ("slabs nonsense", ERROR),
            ("cache_memlimit", ERROR),
            ("cache_memlimit x", ERROR),
            ("cache_memlimit 7", MEMORY_TOO_SMALL),
            ("GET", ERROR),
        ] {
            assert_eq!(wrong_reply(line), reply, "{line}");
        }
        let limit = |quiet| Line::MemoryLimit { megabytes: 100, quiet };
        assert_eq!(Line::read(b"cache_memlimit 100"), limit(false));
        assert_eq!(Line::read(b"cache_memlimit 100 noreply"), limit(true));
    }

    #[test]
    fn right_lines_are_taken_apart() {
        assert_eq!(Line::read(b"get a b"), Line::Get { keys: b"a b", cas: false, touch: None });
        assert_eq!(Line::read(b" gets  a b"), Line::Get { keys: b"  a b", cas: true, touch: None });
        let touch = Some(Number { value: 10, text: &b"10"[..] });
        assert_eq!(Line::read(b"gat 10 a"), Line::Get { keys: b" a", cas: false, touch });
        assert_eq!(
            (getter(b"gat 10 a"), getter(b" gets a"), getter(b"get s")),
            ((false, touch), (true, None), (false, None))
        );
        let (flags, exptime) = (Number { value: 7, text: &b"7"[..] }, Number { value: -1, text: &b"-1"[..] });
        let key = &b"k"[..];
        let stored = |store, quiet| Line::Store { store, key, flags, exptime, bytes: 5, quiet };
        assert_eq!(Line::read(b"set k 7 -1 5"), stored(Store::Set, false));
        assert_eq!(Line::read(b"append k 7 -1 5 noreply"), stored(Store::Append, true));
        assert_eq!(Line::read(b"cas k 7 -1 5 99"), stored(Store::Cas(99), false));
        assert_eq!(Line::read(b"cas k 7 -1 5 99 noreply"), stored(Store::Cas(99), true));
        assert_eq!(Line::read(b"delete k 0 noreply"), Line::Delete { key, quiet: true });
        assert_eq!(Line::read(b"flush_all noreply"), Line::Flush { delay: 0, quiet: true });
        assert_eq!(Line::read(b"flush_all 10"), Line::Flush { delay: 10, quiet: false });
    }

    #[test]
    fn numbers_are_read_as_by_strtol() {
        assert_eq!(signed(b"+05").map(|number| number.value), Some(5));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert_eq!(unsigned(b"18446744073709551615").map(|number| number.value), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"-1"), None);
        assert_eq!(short_unsigned(b"4294967296").map(|number| number.value), Some(0));
        assert!(is_canonical(b"0") && is_canonical(b"10") && !is_canonical(b"01") && !is_canonical(b"-1"));
    }
}
