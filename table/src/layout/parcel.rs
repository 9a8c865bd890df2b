//! A parcel: a key with its value, as a tier keeps it.
//!
//! ```text
//! format (1) | tally (2) | kind (1) | options (1) | expiry (6)? | flags (4)? | inner expiry (6)? | extras: length (2), bytes?
//!            | key length (4), key | value
//! ```
//!
//! The tally names the database in which the key was when it was spilled, as its root word does: SWAPDB keeps it.

use polder_base::Fault;
use polder_values::{Kind, Value};

use crate::api::{Found, New};
use crate::layout::entry::{Image, expiry_bytes};

/// The number of this format.
const FORMAT: u8 = 1;
const EXPIRY: u8 = 1;
const FLAGS: u8 = 2;
const RAW: u8 = 4;
const TEXT: u8 = 32;
const INNER: u8 = 64;
const EXTRAS: u8 = 128;

const DAMAGED: Fault = Fault::Damaged { what: "a copy in the tier" };

/// A parcel taken apart.
pub struct Parcel<'p> {
    pub key: &'p [u8],
    pub new: New<'p>,
}

impl<'p> Parcel<'p> {
    /// The state of a key by the entry of its stub and its parcel.
    pub fn found(&self, image: &Image) -> Found<'p> {
        let New { kind, value, expiry_ms, inner_expiry_ms, flags, raw, text, extras } = self.new;
        let (version, clock) = (image.version(), 0);
        Found { kind, value, expiry_ms, inner_expiry_ms, flags, raw, text, extras, version, clock }
    }
}

/// The key of a parcel and its expiry, without its value.
pub struct Head<'p> {
    pub key: &'p [u8],
    pub expiry_ms: Option<u64>,
}

/// The head of a parcel.
///
/// # Errors
/// Those of [`unpack`].
pub fn head(bytes: &[u8]) -> Result<Head<'_>, Fault> {
    let Parcel { key, new } = unpack(bytes)?;
    Ok(Head { key, expiry_ms: new.expiry_ms })
}

/// The tally of the database in which the key was.
///
/// # Errors
/// Those of [`unpack`].
pub fn tally(bytes: &[u8]) -> Result<u64, Fault> {
    match bytes {
        [FORMAT, low, high, ..] => Ok(u16::from_le_bytes([*low, *high]).into()),
        _ => Err(DAMAGED),
    }
}

/// Packs a key with its value, whose bytes are `value`.
pub fn pack(tally: u64, key: &[u8], found: &Found<'_>, value: &[u8]) -> Vec<u8> {
    let mut options = 0;
    for (bit, set) in [
        (EXPIRY, found.expiry_ms.is_some()),
        (FLAGS, found.flags != 0),
        (RAW, found.raw),
        (TEXT, found.text),
        (INNER, found.inner_expiry_ms.is_some()),
        (EXTRAS, !found.extras.is_empty()),
    ] {
        options |= if set { bit } else { 0 };
    }
    let mut bytes = Vec::with_capacity(40 + key.len() + value.len());
    bytes.push(FORMAT);
    bytes.extend_from_slice(&(tally as u16).to_le_bytes());
    bytes.extend_from_slice(&[found.kind as u8, options]);
    found.expiry_ms.into_iter().for_each(|at_ms| bytes.extend_from_slice(&expiry_bytes(at_ms)));
    if found.flags != 0 {
        bytes.extend_from_slice(&found.flags.to_le_bytes());
    }
    found.inner_expiry_ms.into_iter().for_each(|at_ms| bytes.extend_from_slice(&expiry_bytes(at_ms)));
    if !found.extras.is_empty() {
        bytes.extend_from_slice(&(found.extras.len() as u16).to_le_bytes());
        bytes.extend_from_slice(found.extras);
    }
    bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    bytes
}

/// Takes a parcel apart.
///
/// # Errors
/// [`Fault::Damaged`] where it is none, or one of another format.
pub fn unpack(bytes: &[u8]) -> Result<Parcel<'_>, Fault> {
    let mut rest = bytes;
    let [format, _, _, kind, options] = *take(&mut rest, 5)? else { return Err(DAMAGED) };
    let kind = Kind::from_stored(kind).filter(|_| format == FORMAT).ok_or(DAMAGED)?;
    let mut new = New::of(kind, Value::Packed(&[]));
    if options & EXPIRY != 0 {
        new.expiry_ms = Some(number(&mut rest, 6)?);
    }
    if options & FLAGS != 0 {
        new.flags = number(&mut rest, 4)? as u32;
    }
    if options & INNER != 0 {
        new.inner_expiry_ms = Some(number(&mut rest, 6)?);
    }
    if options & EXTRAS != 0 {
        let len = number(&mut rest, 2)? as usize;
        new.extras = take(&mut rest, len)?;
    }
    (new.raw, new.text) = (options & RAW != 0, options & TEXT != 0);
    let len = number(&mut rest, 4)? as usize;
    let key = take(&mut rest, len)?;
    new.value = Value::Packed(rest);
    Ok(Parcel { key, new })
}

fn take<'p>(rest: &mut &'p [u8], count: usize) -> Result<&'p [u8], Fault> {
    let (taken, tail) = rest.split_at_checked(count).ok_or(DAMAGED)?;
    *rest = tail;
    Ok(taken)
}

fn number(rest: &mut &[u8], bytes: usize) -> Result<u64, Fault> {
    Ok(take(rest, bytes)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_what_is_cut_is_damaged() {
        let found = Found {
            kind: Kind::String,
            value: Value::Packed(b"value"),
            expiry_ms: Some(1 << 41),
            inner_expiry_ms: None,
            flags: 77,
            raw: true,
            text: true,
            extras: b"xyz",
            version: 9,
            clock: 3,
        };
        for expiry_ms in [None, Some(1 << 41)] {
            for flags in [0, 77] {
                for extras in [&b""[..], b"xyz"] {
                    let found = Found { expiry_ms, flags, extras, ..found };
                    let bytes = pack(5, b"key", &found, b"value");
                    let Parcel { key, new } = unpack(&bytes).expect("whole");
                    let Value::Packed(value) = new.value else { panic!("a tree") };
                    assert_eq!((key, value), (&b"key"[..], &b"value"[..]));
                    assert_eq!(
                        (new.kind, new.expiry_ms, new.flags, new.raw, new.text, new.extras),
                        (Kind::String, expiry_ms, flags, true, true, extras)
                    );
                    for end in 0..bytes.len() - 5 {
                        assert!(unpack(&bytes[..end]).is_err(), "{end}");
                    }
                }
            }
        }
        assert!(unpack(b"\x02\0\0\x01\0\0\0\0\0").is_err(), "another format");
    }
}
