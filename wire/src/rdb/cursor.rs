//! One step over the input: it takes what is there or says why not, and nothing has happened until the step is whole (R3).
use std::ops::Range;

use super::{Id, Malformed, lzf};

/// Why a step did not come to its end.
#[derive(Debug)]
pub(super) enum Short {
    /// The input ends here; offer it again when there is more.
    More,
    Bad(Malformed),
}

impl From<&'static str> for Short {
    fn from(text: &'static str) -> Short {
        Short::Bad(text.into())
    }
}

impl From<Malformed> for Short {
    fn from(malformed: Malformed) -> Short {
        Short::Bad(malformed)
    }
}

pub(super) type Step<T> = Result<T, Short>;

/// Where some bytes are, until all of an item is known.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Input(Range<usize>),
    Blob(Range<usize>),
    /// One of the reader's own texts.
    Text(usize),
}

impl Piece {
    /// Whether there are no bytes in it.
    pub fn is_empty(&self, texts: &[Vec<u8>; 2]) -> bool {
        match self {
            Piece::Input(range) | Piece::Blob(range) => range.is_empty(),
            Piece::Text(slot) => texts[*slot].is_empty(),
        }
    }
}

/// The longest string that is unpacked. Real ones are shorter, by the rules of the programs that
/// wrote them.
const UNPACKED_MAX: u64 = 1 << 32;

pub(super) enum Length {
    Count(u64),
    Special(u8),
}

pub(super) struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub fn take(&mut self, count: u64) -> Step<Range<usize>> {
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(Short::More);
        }
        let start = self.at;
        self.at += count as usize;
        Ok(start..self.at)
    }

    pub fn slice(&mut self, count: u64) -> Step<&'a [u8]> {
        let range = self.take(count)?;
        Ok(&self.bytes[range])
    }

    pub fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        Ok(self.slice(N as u64)?.try_into().expect("as many as were asked for"))
    }

    pub fn byte(&mut self) -> Step<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn length(&mut self) -> Step<Length> {
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Length::Count(u64::from(first & 0x3f)),
            1 => Length::Count(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            2 if first == 0x80 => Length::Count(u32::from_be_bytes(self.array()?).into()),
            2 if first == 0x81 => Length::Count(u64::from_be_bytes(self.array()?)),
            2 => return Err("a length of an unknown form".into()),
            _ => Length::Special(first & 0x3f),
        })
    }

    pub fn count(&mut self) -> Step<u64> {
        match self.length()? {
            Length::Count(count) => Ok(count),
            Length::Special(_) => Err("a special form of string in place of a count".into()),
        }
    }

    /// A string, whatever form it has; what is not simply there goes to `text`, which is number `slot`.
    pub fn string(&mut self, text: &mut Vec<u8>, slot: usize) -> Step<Piece> {
        let number = match self.length()? {
            Length::Count(count) => return Ok(Piece::Input(self.take(count)?)),
            Length::Special(0) => i64::from(i8::from_le_bytes(self.array()?)),
            Length::Special(1) => i64::from(i16::from_le_bytes(self.array()?)),
            Length::Special(2) => i64::from(i32::from_le_bytes(self.array()?)),
            Length::Special(3) => {
                let (packed, len) = (self.count()?, self.count()?);
                if len > UNPACKED_MAX {
                    return Err("a compressed string is too long".into());
                }
                lzf::decompress(self.slice(packed)?, len as usize, text)?;
                return Ok(Piece::Text(slot));
            }
            Length::Special(_) => return Err("a string of an unknown form".into()),
        };
        text.clear();
        text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        Ok(Piece::Text(slot))
    }

    /// Skips a string.
    pub fn skip_string(&mut self) -> Step<()> {
        let count = match self.length()? {
            Length::Count(count) => count,
            Length::Special(form @ 0..=2) => 1 << form,
            Length::Special(3) => {
                let packed = self.count()?;
                self.count()?;
                packed
            }
            Length::Special(_) => return Err("a string of an unknown form".into()),
        };
        self.take(count)?;
        Ok(())
    }

    /// A time in milliseconds. One before 1970 cannot be stored here, but is past in any case.
    pub fn time_ms(&mut self) -> Step<u64> {
        Ok(i64::from_le_bytes(self.array()?).max(0) as u64)
    }

    /// A moment in the past, in milliseconds, which no server writes as one before 1970.
    pub fn moment_ms(&mut self) -> Step<u64> {
        let moment = i64::from_le_bytes(self.array()?);
        u64::try_from(moment).map_err(|_| "a moment is before 1970".into())
    }

    /// An id as two lengths.
    pub fn id(&mut self) -> Step<Id> {
        Ok(Id { ms: self.count()?, sequence: self.count()? })
    }

    /// An id as sixteen bytes, in their natural order.
    pub fn raw_id(&mut self) -> Step<Id> {
        Ok(Id { ms: u64::from_be_bytes(self.array()?), sequence: u64::from_be_bytes(self.array()?) })
    }
}
