//! What an item may carry beside value, flags and expiry; rare, so it stands in records only.
//!
//! ```text
//! which (1): STALE 1, WON 2, CAS 4, TYPE 8, DRAWN 16 | CAS (8)? | length (1) and content type?
//! ```
//!
//! An item without any of these has no such bytes. A transaction copies them as they are.
use polder_shm::Segment;
use polder_shm::layout::{features, header};
use std::sync::atomic::Ordering;

const STALE: u8 = 1;
const WON: u8 = 2;
const CAS: u8 = 4;
const TYPE: u8 = 8;
const DRAWN: u8 = 16;

/// The longest content type, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 255;

/// What an item carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ItemExtras<'a> {
    /// The value may be used, but a newer one is wanted.
    pub stale: bool,
    /// A client has been told to renew the item.
    pub won: bool,
    /// The CAS, where it is not the version of the entry.
    pub cas: Option<u64>,
    /// The CAS is an earlier version of the entry, which marks and expiries do not change; else a client has chosen it.
    pub is_drawn: bool,
    /// At most `CONTENT_TYPE_BYTES_MAX` bytes; empty for none.
    pub content_type: &'a [u8],
}

impl<'a> ItemExtras<'a> {
    /// Takes the bytes of [`Found::extras`](crate::Found::extras) apart. What makes no sense says nothing.
    pub fn decode(bytes: &'a [u8]) -> ItemExtras<'a> {
        let Some((&which, mut rest)) = bytes.split_first() else { return ItemExtras::default() };
        let mut extras =
            ItemExtras { stale: which & STALE != 0, won: which & WON != 0, ..ItemExtras::default() };
        extras.is_drawn = which & (CAS | DRAWN) == CAS | DRAWN;
        if which & CAS != 0
            && let Some((cas, behind)) = rest.split_first_chunk()
        {
            (extras.cas, rest) = (Some(u64::from_le_bytes(*cas)), behind);
        }
        if which & TYPE != 0 {
            extras.content_type = rest.get(1..).unwrap_or_default();
        }
        extras
    }

    /// The bytes for [`New::extras`](crate::New::extras); none if there is nothing to say.
    pub fn encode(&self) -> Vec<u8> {
        if *self == ItemExtras::default() {
            return Vec::new();
        }
        let content_type = &self.content_type[..self.content_type.len().min(CONTENT_TYPE_BYTES_MAX)];
        let mut which = 0;
        for (bit, set) in [
            (STALE, self.stale),
            (WON, self.won),
            (CAS, self.cas.is_some()),
            (TYPE, !content_type.is_empty()),
            (DRAWN, self.is_drawn && self.cas.is_some()),
        ] {
            which |= if set { bit } else { 0 };
        }
        let mut bytes = vec![which];
        if let Some(cas) = self.cas {
            bytes.extend_from_slice(&cas.to_le_bytes());
        }
        if !content_type.is_empty() {
            bytes.push(content_type.len() as u8);
            bytes.extend_from_slice(content_type);
        }
        bytes
    }

    /// What is left of the extras of an item whose value is edited: the content type.
    pub fn after_edit(self) -> ItemExtras<'a> {
        ItemExtras { content_type: self.content_type, ..ItemExtras::default() }
    }

    /// What an item becomes whose properties change, and its value and CAS do not; `version` is that of its entry.
    pub fn keeping_cas(self, version: u64) -> ItemExtras<'a> {
        let is_drawn = self.is_drawn || self.cas.is_none();
        ItemExtras { cas: self.cas.or(Some(version)), is_drawn, ..self }
    }

    /// The CAS that a client has chosen.
    pub fn chosen_cas(&self) -> Option<u64> {
        self.cas.filter(|_| !self.is_drawn)
    }

    /// What is kept of an item in a file: versions mean nothing in another memory.
    pub fn portable(self) -> ItemExtras<'a> {
        ItemExtras { cas: self.chosen_cas(), is_drawn: false, ..self }
    }
}

/// How many bytes the extras at the front of `bytes` take; `None` if they lead outside.
pub(crate) fn len_of(bytes: &[u8]) -> Option<usize> {
    let which = *bytes.first()?;
    let mut len = if which & CAS != 0 { 9 } else { 1 };
    if which & TYPE != 0 {
        len += 1 + usize::from(*bytes.get(len)?);
    }
    (len <= bytes.len()).then_some(len)
}

/// Says in the segment's header that records may have extras, before the first one has any.
pub(crate) fn announce(segment: &Segment) {
    announce_feature(segment, features::ITEM_EXTRAS);
}

/// Says in the segment's header that something of this form may be stored, before it is.
pub(crate) fn announce_feature(segment: &Segment, feature: u64) {
    if segment.load(header::LAYOUT) & feature == 0 {
        segment.word(header::LAYOUT).fetch_or(feature, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for (stale, won, cas, is_drawn, content_type) in [
            (false, false, None, false, &b""[..]),
            (true, false, None, false, b""),
            (true, true, Some(7), false, b"text/html"),
            (false, true, Some(7), true, b"text/html"),
            (false, false, None, false, &[b'x'; 255]),
        ] {
            let extras = ItemExtras { stale, won, cas, is_drawn, content_type };
            let mut bytes = extras.encode();
            assert_eq!(ItemExtras::decode(&bytes), extras);
            assert_eq!(bytes.is_empty(), extras == ItemExtras::default());
            let len = bytes.len();
            bytes.extend_from_slice(b"key");
            if len > 0 {
                assert_eq!(len_of(&bytes), Some(len));
                assert!((1..len).all(|cut| len_of(&bytes[..cut]).is_none()));
            }
        }
    }
}
