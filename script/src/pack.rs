//! `struct`: numbers and strings as bytes, and back.
//!
//! ```text
//!   > big endian   < little   ! or !n alignment     x one zero byte
//!   b B 1 byte, h H 2, l L T 8, i I 4, in In n bytes up to 32 (small letters are signed)     f float   d double
//!   s string and a zero     c one byte of a string, cn n of them, c0 all of it: unpacking, as many as the number before it says
//! ```
use crate::args::{Args, Results, Variadic};
use crate::buffer::Buffer;
use crate::complaint::Complaint;
use crate::number;

pub const FUNCTIONS: &[(&str, Variadic)] = &[("pack", pack), ("unpack", unpack), ("size", size)];

const INTEGER_BYTES_MAX: usize = 32;
const ALIGNMENT: usize = 8;

/// A format that is being read.
struct Format<'f> {
    rest: &'f [u8],
    big: bool,
    align: usize,
    function: &'static str,
}

/// One letter of a format, with the bytes that it takes.
struct Item {
    letter: u8,
    size: usize,
}

impl<'f> Format<'f> {
    fn new(text: &'f [u8], function: &'static str) -> Format<'f> {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Format { rest: &text[..end], big: false, align: 1, function }
    }

    fn next(&mut self) -> Result<Option<Item>, Complaint> {
        let Some((&letter, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => match self.number(4)? {
                size if size > INTEGER_BYTES_MAX => {
                    return Err(
                        format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}").into()
                    );
                }
                size => size,
            },
            _ => 0,
        };
        Ok(Some(Item { letter, size }))
    }

    fn number(&mut self, otherwise: usize) -> Result<usize, Complaint> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(otherwise);
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<i32>().ok());
        Ok(number.ok_or("integral size overflow")? as usize)
    }

    /// Zeros in front of an item at `at`.
    fn padding(&self, item: &Item, at: usize) -> usize {
        if item.size == 0 || item.letter == b'c' {
            return 0;
        }
        let size = item.size.min(self.align);
        (size.wrapping_sub(at & size.wrapping_sub(1))) & size.wrapping_sub(1)
    }

    /// Obeys a letter that stands for no bytes.
    fn control(&mut self, letter: u8) -> Result<(), Complaint> {
        match letter {
            b' ' => {}
            b'>' => self.big = true,
            b'<' => self.big = false,
            b'!' => {
                let align = self.number(ALIGNMENT)?;
                if !align.is_power_of_two() {
                    return Err(format!("alignment {align} is not a power of 2").into());
                }
                self.align = align;
            }
            other => {
                let function = self.function;
                return Err(format!(
                    "bad argument #1 to '{function}' (invalid format option '{}')",
                    char::from(other)
                )
                .into());
            }
        }
        Ok(())
    }
}

fn pack(args: &Args, results: &mut Results) -> Result<(), Complaint> {
    let text = args.string(1, "pack")?;
    let mut format = Format::new(&text, "pack");
    let (mut out, mut at, mut next) = (Buffer::new(results.lua), 0, 2);
    while let Some(item) = format.next()? {
        let padding = format.padding(&item, at);
        at += padding;
        out.room(padding.saturating_add(item.size))?;
        out.extend(std::iter::repeat_n(0, padding));
        let mut taken = item.size;
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = number_at(args, next)?;
                next += 1;
                put_integer(&mut out, value, item.size, format.big);
            }
            b'x' => out.push(0),
            b'f' => {
                let bytes = (number_at(args, next)? as f32).to_le_bytes();
                next += 1;
                put(&mut out, bytes, format.big);
            }
            b'd' => {
                let bytes = number_at(args, next)?.to_le_bytes();
                next += 1;
                put(&mut out, bytes, format.big);
            }
            b'c' | b's' => {
                let string = string_at(args, next)?;
                next += 1;
                taken = if item.size == 0 { string.len() } else { item.size };
                let part = string.get(..taken).ok_or_else(|| args.bad(next, "pack", "string too short"))?;
                out.room(part.len())?;
                out.extend_from_slice(part);
                if item.letter == b's' {
                    out.push(0);
                    taken += 1;
                }
            }
            letter => format.control(letter)?,
        }
        at += taken;
    }
    let packed = out.finish()?;
    results.add(packed)
}

/// A missing argument is nil to `pack`, as in Redis.
fn number_at(args: &Args, at: usize) -> Result<f64, Complaint> {
    args.number(at, "pack").map_err(nil)
}

fn string_at(args: &Args, at: usize) -> Result<Vec<u8>, Complaint> {
    args.string(at, "pack").map_err(nil)
}

fn nil(complaint: Complaint) -> Complaint {
    Complaint(complaint.0.replace("no value", "nil"))
}

fn put<const N: usize>(out: &mut Vec<u8>, mut bytes: [u8; N], big: bool) {
    if big {
        bytes.reverse();
    }
    out.extend_from_slice(&bytes);
}

fn put_integer(out: &mut Vec<u8>, value: f64, size: usize, big: bool) {
    let bits = number::unsigned(value);
    let begin = out.len();
    out.extend((0..size).map(|at| if at < 8 { (bits >> (at * 8)) as u8 } else { 0 }));
    if big {
        out[begin..].reverse();
    }
}

fn integer(bytes: &[u8], signed: bool, big: bool) -> f64 {
    let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
    let bits = if big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) };
    if !signed {
        return bits as f64;
    }
    let mask = u64::MAX.wrapping_shl((bytes.len() * 8).wrapping_sub(1) as u32);
    (if bits & mask != 0 { bits | mask } else { bits }) as i64 as f64
}

fn unpack(args: &Args, results: &mut Results) -> Result<(), Complaint> {
    let text = args.string(1, "unpack")?;
    let data = args.string(2, "unpack")?;
    // As in C, what is negative is far behind the end.
    let first = if args.get(3).is_nil() { 1 } else { args.whole(3, "unpack")? as usize };
    if first == 0 {
        return Err(args.bad(3, "unpack", "offset must be 1 or greater"));
    }
    let short = || args.bad(2, "unpack", "data string too short");
    let mut at = first - 1;
    let mut format = Format::new(&text, "unpack");
    // The last number, which `c0` takes back.
    let mut last = None;
    while let Some(item) = format.next()? {
        at = at.saturating_add(format.padding(&item, at));
        let mut taken = item.size;
        if item.size > data.len() || at > data.len() - item.size {
            return Err(short());
        }
        let bytes = &data[at..at + item.size];
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = integer(bytes, item.letter.is_ascii_lowercase(), format.big);
                results.add(value)?;
                last = Some(value);
            }
            b'x' => {}
            b'f' => {
                let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
                let value =
                    f64::from(if format.big { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) });
                results.add(value)?;
                last = Some(value);
            }
            b'd' => {
                let bytes: [u8; 8] = bytes.try_into().unwrap_or_default();
                let value = if format.big { f64::from_be_bytes(bytes) } else { f64::from_le_bytes(bytes) };
                results.add(value)?;
                last = Some(value);
            }
            b'c' => {
                if item.size == 0 {
                    let count = last.take().ok_or("format 'c0' needs a previous size")?;
                    results.values.pop();
                    taken = if count < 0.0 { usize::MAX } else { count as usize };
                    if taken > data.len() || at > data.len() - taken {
                        return Err(short());
                    }
                }
                let string = results.lua.create_string(&data[at..at + taken])?;
                last = number::parse(&data[at..at + taken]);
                results.add(string)?;
            }
            b's' => {
                let end = data[at..].iter().position(|byte| *byte == 0).ok_or("unfinished string in data")?;
                let string = results.lua.create_string(&data[at..at + end])?;
                last = number::parse(&data[at..at + end]);
                results.add(string)?;
                taken = end + 1;
            }
            letter => format.control(letter)?,
        }
        at += taken;
    }
    results.add((at as i64).wrapping_add(1) as f64)
}

fn size(args: &Args, results: &mut Results) -> Result<(), Complaint> {
    let text = args.string(1, "size")?;
    let mut format = Format::new(&text, "size");
    let mut at = 0;
    while let Some(item) = format.next()? {
        at += format.padding(&item, at);
        match item {
            Item { letter: b's', .. } => return Err(args.bad(1, "size", "option 's' has no fixed size")),
            Item { letter: b'c', size: 0 } => {
                return Err(args.bad(1, "size", "option 'c0' has no fixed size"));
            }
            Item { letter, .. } if !letter.is_ascii_alphanumeric() => format.control(letter)?,
            _ => {}
        }
        at += item.size;
    }
    results.add(at as f64)
}
