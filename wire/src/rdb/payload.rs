//! The payload of DUMP: a value, a version and a checksum.
use super::crc::crc64;
use super::{Malformed, Reader, VALKEY, VERSION_MAX};

const FOOTER: usize = 10;

/// A payload whose footer was found right.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    pub version: u32,
    /// Type and value.
    pub body: &'a [u8],
}

impl Payload<'_> {
    /// A reader for [`Payload::body`].
    pub fn reader(&self) -> Reader {
        Reader::value(self.version)
    }
}

/// Looks at a payload's version and checksum. `relaxed`: newer versions pass.
///
/// # Errors
/// [`Malformed`] when they are wrong.
pub fn open(payload: &[u8], relaxed: bool) -> Result<Payload<'_>, Malformed> {
    open_as(payload, relaxed, true)
}

/// The same, but looks at the checksum only if it `checks`.
///
/// # Errors
/// [`Malformed`] when they are wrong.
pub fn open_as(payload: &[u8], relaxed: bool, checks: bool) -> Result<Payload<'_>, Malformed> {
    const WRONG: Malformed =
        Malformed(std::borrow::Cow::Borrowed("DUMP payload version or checksum are wrong"));
    let at = payload.len().checked_sub(FOOTER).ok_or(WRONG)?;
    let (body, footer) = payload.split_at(at);
    let version = u32::from(u16::from_le_bytes([footer[0], footer[1]]));
    let said = u64::from_le_bytes(footer[2..].try_into().expect("eight bytes"));
    if (version > VERSION_MAX && version != VALKEY && !relaxed) || checks && crc64(&payload[..at + 2]) != said
    {
        return Err(WRONG);
    }
    Ok(Payload { version, body })
}

/// Puts version and checksum behind a value.
pub fn seal(version: u32, payload: &mut Vec<u8>) {
    payload.extend_from_slice(&(version as u16).to_le_bytes());
    let sum = crc64(payload);
    payload.extend_from_slice(&sum.to_le_bytes());
}
