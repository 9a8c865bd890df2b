//! Collections in one string: listpack, ziplist, zipmap, intset. Reading them, and writing listpacks.
//!
//! ```text
//!   listpack  bytes, 4   entries, 2 (65535: many)   entry ... FF
//!             entry      0xxxxxxx | 110xxxxx x | F1 x2 | F2 x3 | F3 x4 | F4 x8      an integer
//!                        10llllll | 1110llll l | F0 l4   and that many bytes         a string
//!                        then the entry's own length so far, backwards: 7 bits a byte, a high bit on all but the first
//!   ziplist   bytes, 4   last entry, 4   entries, 2   entry ... FF
//!             entry      the length of the one before: x | FE x4
//!                        00llllll | 01llllll l | 80 l4 (big-endian)  and bytes
//!                        C0 x2 | D0 x4 | E0 x8 | F0 x3 | FE x | F1..FD: 0 to 12
//!   zipmap    pairs, 1 (254: many)    length field length spare value spare-bytes ... FF       length: x | FE x4
//!   intset    bytes of one, 4   how many, 4   integers
//! ```
//! All numbers are little-endian but where it says otherwise.
use std::ops::Range;

use super::Malformed;

const BAD_LISTPACK: &str = "a listpack is damaged";
const BAD_ZIPLIST: &str = "a ziplist is damaged";
const BAD_ZIPMAP: &str = "a zipmap is damaged";
const BAD_INTSET: &str = "an intset is damaged";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Listpack,
    Ziplist,
    Zipmap,
    Intset,
}

/// One entry: bytes of the string it stands in, or an integer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    Bytes(Range<usize>),
    Integer(i64),
}

/// A walk from entry to entry.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    form: Form,
    at: usize,
    taken: u64,
    /// What the header says, where it says it.
    count: Option<u64>,
    /// Bytes of one integer of an intset; of the entry before, in a ziplist.
    width: usize,
}

impl Walk {
    /// Begins a walk, having looked at the header and the end.
    pub fn new(form: Form, blob: &[u8]) -> Result<Walk, Malformed> {
        let short = |at: usize| u64::from(u16::from_le_bytes([blob[at], blob[at + 1]]));
        let word = |at: usize| u32::from_le_bytes(blob[at..at + 4].try_into().expect("four bytes")) as usize;
        let known = |count: u64, many: u64| Some(count).filter(|count| *count < many);
        let end = blob.last() == Some(&0xff);
        let (at, count, width) = match form {
            Form::Listpack if blob.len() >= 7 && word(0) == blob.len() && end => {
                (6, known(short(4), 65535), 0)
            }
            Form::Ziplist if blob.len() >= 11 && word(0) == blob.len() && end => {
                (10, known(short(8), 65535), 0)
            }
            Form::Zipmap if blob.len() >= 2 && end => {
                (1, known(u64::from(blob[0]), 254).map(|pairs| pairs * 2), 0)
            }
            Form::Intset if blob.len() >= 8 => {
                let (width, count) = (word(0), word(4) as u64);
                if !matches!(width, 2 | 4 | 8) || (blob.len() - 8) as u64 != count * width as u64 {
                    return Err(BAD_INTSET.into());
                }
                (8, Some(count), width)
            }
            Form::Listpack => return Err(BAD_LISTPACK.into()),
            Form::Ziplist => return Err(BAD_ZIPLIST.into()),
            Form::Zipmap => return Err(BAD_ZIPMAP.into()),
            Form::Intset => return Err(BAD_INTSET.into()),
        };
        Ok(Walk { form, at, taken: 0, count, width })
    }

    /// How many entries the header says there are.
    pub fn count(&self) -> Option<u64> {
        self.count
    }

    /// The next entry, or none at the end, which must be where the header says.
    pub fn next(&mut self, blob: &[u8]) -> Result<Option<Entry>, Malformed> {
        let entry = match self.form {
            Form::Listpack => self.listpack(blob),
            Form::Ziplist => self.ziplist(blob),
            Form::Zipmap => self.zipmap(blob),
            Form::Intset => self.intset(blob),
        };
        let entry = entry.ok_or(match self.form {
            Form::Listpack => BAD_LISTPACK,
            Form::Ziplist => BAD_ZIPLIST,
            Form::Zipmap => BAD_ZIPMAP,
            Form::Intset => BAD_INTSET,
        })?;
        if entry.is_some() {
            self.taken += 1;
        } else if self.count.is_some_and(|count| count != self.taken) {
            return Err("the elements are not as many as was said".into());
        }
        Ok(entry)
    }

    /// The end is the last byte of all: none in the middle, nothing behind it.
    fn ends(&self, blob: &[u8]) -> Option<Option<Entry>> {
        (self.at + 1 == blob.len()).then_some(None)
    }

    fn listpack(&mut self, blob: &[u8]) -> Option<Option<Entry>> {
        let first = *blob.get(self.at)?;
        if first == 0xff {
            return self.ends(blob);
        }
        let body = &blob[self.at..];
        let low = |bits: u8| usize::from(first & ((1 << bits) - 1));
        let (header, bytes) = match first {
            0x00..=0x7f | 0xc0..=0xdf | 0xf1..=0xf4 => (0, 0),
            0x80..=0xbf => (1, low(6)),
            0xe0..=0xef => (2, low(4) << 8 | usize::from(*body.get(1)?)),
            0xf0 => (5, u32::from_le_bytes(body.get(1..5)?.try_into().ok()?) as usize),
            _ => return None,
        };
        let (entry, len) = if header > 0 {
            body.get(header..header + bytes)?;
            (Entry::Bytes(self.at + header..self.at + header + bytes), header + bytes)
        } else {
            let (number, len) = match first {
                0x00..=0x7f => (i64::from(first), 1),
                0xc0..=0xdf => (signed((low(5) << 8 | usize::from(*body.get(1)?)) as u64, 13), 2),
                _ => {
                    let width = [2, 3, 4, 8][usize::from(first - 0xf1)];
                    (little(body.get(1..1 + width)?), 1 + width)
                }
            };
            (Entry::Integer(number), len)
        };
        let mut back = [0; 5];
        let back = back_length(len, &mut back);
        if body.get(len..len + back.len())? != back {
            return None;
        }
        self.at += len + back.len();
        Some(Some(entry))
    }

    fn ziplist(&mut self, blob: &[u8]) -> Option<Option<Entry>> {
        let first = *blob.get(self.at)?;
        if first == 0xff {
            return self.ends(blob);
        }
        let start = self.at;
        let (before, mut at) = match first {
            0xfe => {
                (u32::from_le_bytes(blob.get(start + 1..start + 5)?.try_into().ok()?) as usize, start + 5)
            }
            _ => (usize::from(first), start + 1),
        };
        if before != self.width {
            return None;
        }
        let form = *blob.get(at)?;
        let low = usize::from(form & 0x3f);
        at += 1;
        let string = match form >> 6 {
            0 => Some(low),
            1 => {
                at += 1;
                Some(low << 8 | usize::from(*blob.get(at - 1)?))
            }
            2 => {
                at += 4;
                Some(u32::from_be_bytes(blob.get(at - 4..at)?.try_into().ok()?) as usize)
            }
            _ => None,
        };
        let (entry, end) = match (string, form) {
            (Some(len), _) => (Entry::Bytes(at..at + len), at + len),
            (_, 0xf1..=0xfd) => (Entry::Integer(i64::from(form & 0x0f) - 1), at),
            _ => {
                let width = match form {
                    0xc0 => 2,
                    0xd0 => 4,
                    0xe0 => 8,
                    0xf0 => 3,
                    0xfe => 1,
                    _ => return None,
                };
                (Entry::Integer(little(blob.get(at..at + width)?)), at + width)
            }
        };
        if end >= blob.len() {
            return None;
        }
        (self.at, self.width) = (end, end - start);
        Some(Some(entry))
    }

    fn zipmap(&mut self, blob: &[u8]) -> Option<Option<Entry>> {
        let is_value = self.taken % 2 == 1;
        let first = *blob.get(self.at)?;
        if first == 0xff && !is_value {
            return self.ends(blob);
        }
        let (len, mut at) = match first {
            // A length that fits one byte is written in one: what is read by another count than it was written would be split elsewhere.
            0xfe => match u32::from_le_bytes(blob.get(self.at + 1..self.at + 5)?.try_into().ok()?) {
                len @ 0xfe.. => (len as usize, self.at + 5),
                _ => return None,
            },
            0xff => return None,
            _ => (usize::from(first), self.at + 1),
        };
        let mut spare = 0;
        if is_value {
            spare = usize::from(*blob.get(at)?);
            at += 1;
        }
        let end = at + len;
        if end + spare >= blob.len() {
            return None;
        }
        self.at = end + spare;
        Some(Some(Entry::Bytes(at..end)))
    }

    fn intset(&mut self, blob: &[u8]) -> Option<Option<Entry>> {
        if self.at == blob.len() {
            return Some(None);
        }
        let number = little(blob.get(self.at..self.at + self.width)?);
        // In order and each once, or it is no set.
        if self.taken > 0 && little(&blob[self.at - self.width..self.at]) >= number {
            return None;
        }
        self.at += self.width;
        Some(Some(Entry::Integer(number)))
    }
}

/// A little-endian signed number of up to eight bytes.
fn little(bytes: &[u8]) -> i64 {
    let word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    signed(word, bytes.len() as u32 * 8)
}

fn signed(word: u64, bits: u32) -> i64 {
    (word as i64) << (64 - bits) >> (64 - bits)
}

/// A length as it stands behind a listpack's entry.
fn back_length(len: usize, room: &mut [u8; 5]) -> &[u8] {
    let count = match len {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        _ => 5,
    };
    for (at, byte) in room.iter_mut().take(count).enumerate() {
        let high = if at == 0 { 0 } else { 0x80 };
        *byte = (len >> (7 * (count - 1 - at))) as u8 & 0x7f | high;
    }
    &room[..count]
}

/// The integer as which a listpack keeps these bytes.
pub(super) fn integer_of(bytes: &[u8]) -> Option<i64> {
    if bytes.len() > 20 { None } else { polder_base::number::integer(bytes) }
}

/// What an entry of these bytes takes in a listpack.
pub(super) fn entry_bytes(bytes: &[u8]) -> usize {
    match integer_of(bytes) {
        Some(number) => integer_bytes(number),
        None => {
            let len = bytes.len();
            let whole = len
                + if len < 64 {
                    1
                } else if len < 4096 {
                    2
                } else {
                    5
                };
            whole + back_length(whole, &mut [0; 5]).len()
        }
    }
}

/// What an integer takes in a listpack.
pub(super) fn integer_bytes(number: i64) -> usize {
    match number {
        0..=127 => 2,
        -4096..=4095 => 3,
        -32768..=32767 => 4,
        -0x80_0000..=0x7f_ffff => 5,
        -0x8000_0000..=0x7fff_ffff => 6,
        _ => 10,
    }
}

/// A listpack in the making.
#[derive(Default)]
pub(super) struct Listpack {
    /// The entries; what stands before and behind them is written at the end.
    pub entries: Vec<u8>,
    pub count: usize,
}

impl Listpack {
    pub fn clear(&mut self) {
        self.entries.clear();
        self.count = 0;
    }

    pub fn push(&mut self, bytes: &[u8]) {
        match integer_of(bytes) {
            Some(number) => self.push_integer(number),
            None => self.push_bytes(bytes),
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let start = self.entries.len();
        match bytes.len() {
            len @ 0..=63 => self.entries.push(0x80 | len as u8),
            len @ 64..=4095 => self.entries.extend_from_slice(&[0xe0 | (len >> 8) as u8, len as u8]),
            len => {
                self.entries.push(0xf0);
                self.entries.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        self.entries.extend_from_slice(bytes);
        self.close(start);
    }

    pub fn push_integer(&mut self, number: i64) {
        let start = self.entries.len();
        let bytes = number.to_le_bytes();
        match number {
            0..=127 => self.entries.push(number as u8),
            -4096..=4095 => {
                self.entries.extend_from_slice(&[0xc0 | (number >> 8) as u8 & 0x1f, number as u8])
            }
            _ => {
                let (first, width) = match integer_bytes(number) {
                    4 => (0xf1, 2),
                    5 => (0xf2, 3),
                    6 => (0xf3, 4),
                    _ => (0xf4, 8),
                };
                self.entries.push(first);
                self.entries.extend_from_slice(&bytes[..width]);
            }
        }
        self.close(start);
    }

    fn close(&mut self, start: usize) {
        let len = self.entries.len() - start;
        self.entries.extend_from_slice(back_length(len, &mut [0; 5]));
        self.count += 1;
    }

    /// The whole listpack, into the caller's buffer.
    pub fn finish(&self, before: Option<&Listpack>, out: &mut Vec<u8>) {
        let none = Listpack::default();
        let before = before.unwrap_or(&none);
        let (len, count) = (before.entries.len() + self.entries.len() + 7, before.count + self.count);
        out.clear();
        out.extend_from_slice(&(len as u32).to_le_bytes());
        out.extend_from_slice(&(count.min(65535) as u16).to_le_bytes());
        out.extend_from_slice(&before.entries);
        out.extend_from_slice(&self.entries);
        out.push(0xff);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn walk(form: Form, blob: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
        let (mut walk, mut found) = (Walk::new(form, blob)?, Vec::new());
        while let Some(entry) = walk.next(blob)? {
            found.push(match entry {
                Entry::Bytes(range) => blob[range].to_vec(),
                Entry::Integer(number) => number.to_string().into_bytes(),
            });
        }
        Ok(found)
    }

    fn listpack(entries: &[Vec<u8>]) -> Vec<u8> {
        let (mut pack, mut out) = (Listpack::default(), Vec::new());
        for entry in entries {
            let before = pack.entries.len();
            pack.push(entry);
            assert_eq!(pack.entries.len() - before, entry_bytes(entry));
        }
        pack.finish(None, &mut out);
        out
    }

    #[test]
    fn every_width_of_a_listpack_comes_back() {
        let mut entries: Vec<Vec<u8>> =
            [0i64, 127, 128, -1, 4095, -4096, 4096, 32767, -32768, 8_388_607, -8_388_608, 1 << 31, i64::MIN]
                .iter()
                .map(|number| number.to_string().into_bytes())
                .collect();
        entries.extend([0, 1, 63, 64, 126, 127, 4095, 4096, 20_000, 3_000_000].map(|len| vec![b'x'; len]));
        entries.extend(["", "-0", "007", "9223372036854775808"].map(|text| text.as_bytes().to_vec()));
        assert_eq!(walk(Form::Listpack, &listpack(&entries)).unwrap(), entries);
    }

    #[test]
    fn ziplists_zipmaps_and_intsets_are_read() {
        let ziplist = b"\x21\x00\x00\x00\x1c\x00\x00\x00\x07\x00\
            \x00\x02hi\x04\xf1\x02\xfd\x02\xfe\xff\x03\xc0\x00\x80\x04\xf0\xff\xff\x7f\x05\x00\xff";
        let mut whole = ziplist.to_vec();
        whole[0] = whole.len() as u8;
        let found = walk(Form::Ziplist, &whole).unwrap();
        assert_eq!(
            found
                .iter()
                .map(|entry| String::from_utf8_lossy(entry).into_owned())
                .collect::<Vec<_>>()
                .join(" "),
            "hi 0 12 -1 -32768 8388607 "
        );
        let zipmap = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff";
        assert_eq!(walk(Form::Zipmap, zipmap).unwrap(), [&b"foo"[..], b"bar", b"hello", b"world"]);
        for long_length in [
            &b"\x01\xfe\x03\0\0\0foo\x03\0bar\xff"[..],
            b"\x01\x03foo\xfe\x03\0\0\0\0bar\xff",
            b"\x01\xfe\xfd\0\0\0",
        ] {
            assert!(walk(Form::Zipmap, long_length).is_err(), "{long_length:?}");
        }
        let long = [b"\x01\xfe\xfe\0\0\0", &[b'f'; 254][..], b"\x03\0bar\xff"].concat();
        assert_eq!(walk(Form::Zipmap, &long).unwrap(), [&[b'f'; 254][..], b"bar"]);
        let intset = b"\x02\x00\x00\x00\x03\x00\x00\x00\xff\xff\x00\x00\x05\x00";
        assert_eq!(walk(Form::Intset, intset).unwrap(), [&b"-1"[..], b"0", b"5"]);
        let unsorted = b"\x02\x00\x00\x00\x02\x00\x00\x00\x05\x00\x05\x00";
        assert!(walk(Form::Intset, unsorted).is_err());
    }

    proptest! {
        #[test]
        fn listpacks_come_back(entries in proptest::collection::vec(prop_oneof![
            any::<Vec<u8>>(), any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            any::<i16>().prop_map(|number| number.to_string().into_bytes())], 0..50)) {
            prop_assert_eq!(walk(Form::Listpack, &listpack(&entries)).unwrap(), entries);
        }

        #[test]
        fn nonsense_is_an_error_at_most(mut blob: Vec<u8>, form in 0..4usize, lie: bool) {
            let form = [Form::Listpack, Form::Ziplist, Form::Zipmap, Form::Intset][form];
            if lie && blob.len() > 12 {
                let len = blob.len() as u32;
                blob[..4].copy_from_slice(&if form == Form::Intset { 2 } else { len }.to_le_bytes());
                *blob.last_mut().unwrap() = 0xff;
            }
            let _ = walk(form, &blob);
        }
    }
}
