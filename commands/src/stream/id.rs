//! Ids as they are typed: `MS-SEQ`, `MS` alone, `-` and `+`, and `(` before one that is left out.
use polder_base::number;
use polder_table::Stop;
use polder_values::stream::Id;

const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";

/// The longest text that Redis looks at.
const TEXT_MAX: usize = 127;

/// A number as Redis reads it here: as everywhere, or else as C's `strtoull` does, which takes leading zeros, white space and a sign.
fn unsigned(text: &[u8]) -> Option<u64> {
    if let Some(number) = number::integer(text) {
        return u64::try_from(number).ok();
    }
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'))?;
    let (negative, digits) = match text[start] {
        sign @ (b'+' | b'-') => (sign == b'-', &text[start + 1..]),
        _ => (false, &text[start..]),
    };
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number: u64 = std::str::from_utf8(digits).ok().filter(|_| all_digits)?.parse().ok()?;
    Some(if negative { number.wrapping_neg() } else { number })
}

/// The text up to the NUL that ends it, as C sees it.
pub fn as_c(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The two halves of an id; the second may be missing.
fn halves(text: &[u8]) -> Result<(u64, Option<&[u8]>), Stop> {
    if text.len() > TEXT_MAX {
        return Err(INVALID.into());
    }
    let text = as_c(text);
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    Ok((unsigned(ms).ok_or(INVALID)?, seq))
}

fn parsed(text: &[u8], missing_seq: u64, strict: bool) -> Result<Id, Stop> {
    if text.len() <= TEXT_MAX && !strict {
        match as_c(text) {
            b"-" => return Ok(Id::MIN),
            b"+" => return Ok(Id::MAX),
            _ => {}
        }
    }
    let (ms, seq) = halves(text)?;
    let seq = seq.map_or(Some(missing_seq), unsigned).ok_or(INVALID)?;
    Ok(Id { ms, seq })
}

/// An id; a missing number is 0.
///
/// # Errors
/// `ERR Invalid stream ID ...`
pub fn exact(text: &[u8]) -> Result<Id, Stop> {
    parsed(text, 0, true)
}

/// As [`exact`], `-` and `+` being the least and the greatest one.
///
/// # Errors
/// As [`exact`].
pub fn any(text: &[u8]) -> Result<Id, Stop> {
    parsed(text, 0, false)
}

/// The first id of a range.
///
/// # Errors
/// As [`exact`], or none comes after one that is left out.
pub fn start(text: &[u8]) -> Result<Id, Stop> {
    match text {
        [b'(', text @ ..] if !text.is_empty() => {
            parsed(text, 0, true)?.next().ok_or_else(|| "ERR invalid start ID for the interval".into())
        }
        _ => parsed(text, 0, false),
    }
}

/// The last id of a range; a missing number is the greatest.
///
/// # Errors
/// As [`start`].
pub fn end(text: &[u8]) -> Result<Id, Stop> {
    match text {
        [b'(', text @ ..] if !text.is_empty() => parsed(text, u64::MAX, true)?
            .previous()
            .ok_or_else(|| "ERR invalid end ID for the interval".into()),
        _ => parsed(text, u64::MAX, false),
    }
}

/// The id that XADD is to give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// `*`
    Any,
    /// `MS-*`
    In(u64),
    Exactly(Id),
}

impl Wanted {
    /// What XADD's argument asks for.
    ///
    /// # Errors
    /// As [`exact`].
    pub fn parse(text: &[u8]) -> Result<Wanted, Stop> {
        if as_c(text) == b"*" {
            return Ok(Wanted::Any);
        }
        match halves(text)? {
            (ms, Some(b"*")) => Ok(Wanted::In(ms)),
            _ => exact(text).map(Wanted::Exactly),
        }
    }

    /// The id, after the last one that was given; none if it would not be greater.
    pub fn after(self, last: Id, now_ms: u64) -> Option<Id> {
        let id = match self {
            Wanted::Any if now_ms > last.ms => Id { ms: now_ms, seq: 0 },
            Wanted::Any => last.next()?,
            Wanted::In(ms) if ms == last.ms => Id { ms, seq: last.seq.checked_add(1)? },
            Wanted::In(ms) => Id { ms, seq: 0 },
            Wanted::Exactly(id) => id,
        };
        (id > last).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64, seq: u64) -> Id {
        Id { ms, seq }
    }

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let cases: [(&str, Option<Id>); 17] = [
            ("1-2", Some(id(1, 2))),
            ("1", Some(id(1, 0))),
            ("007-08", Some(id(7, 8))),
            ("+5", Some(id(5, 0))),
            (" 5- 6", Some(id(5, 6))),
            ("18446744073709551615-18446744073709551615", Some(Id::MAX)),
            ("18446744073709551616", None),
            ("1-2-3", None),
            ("5--3", None),
            ("5--0", Some(id(5, 0))),
            ("5-", None),
            ("-5", None),
            ("-", None),
            ("+", None),
            ("", None),
            ("x", None),
            ("1-2\0junk", Some(id(1, 2))),
        ];
        for (text, expected) in cases {
            assert_eq!(exact(text.as_bytes()).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn ranges_leave_out_what_stands_behind_a_bracket() {
        assert_eq!(
            (start(b"(1-2"), end(b"(1-2"), end(b"1")),
            (Ok(id(1, 3)), Ok(id(1, 1)), Ok(id(1, u64::MAX)))
        );
        assert_eq!((start(b"-"), end(b"+"), start(b"+")), (Ok(Id::MIN), Ok(Id::MAX), Ok(Id::MAX)));
        assert!(start(b"(-").is_err() && start(b"(").is_err() && end(b"(0-0").is_err());
    }

    #[test]
    fn given_ids_only_grow() {
        let last = id(5, 9);
        let cases = [
            (Wanted::Any, 6, Some(id(6, 0))),
            (Wanted::Any, 5, Some(id(5, 10))),
            (Wanted::In(5), 9, Some(id(5, 10))),
            (Wanted::In(6), 9, Some(id(6, 0))),
            (Wanted::In(4), 9, None),
            (Wanted::Exactly(last), 9, None),
        ];
        for (wanted, now, expected) in cases {
            assert_eq!(wanted.after(last, now), expected, "{wanted:?}");
        }
        assert_eq!(Wanted::In(0).after(Id::MIN, 9), Some(id(0, 1)));
        assert_eq!(Wanted::In(5).after(id(5, u64::MAX), 9), None);
        assert_eq!(Wanted::Any.after(Id::MAX, 9), None);
    }
}
