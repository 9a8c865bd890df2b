//! The keys of TLS session tickets, which all servers of a segment share: a client may go on with another server.
//!
//! ```text
//!   hidden database, `tls-tickets`:   [ made_ms u64 | name 8 | secret 32 ]  newest first, at most two
//! ```
//!
//! The server that first finds the newest key too old puts a fresh one before it. The key before stays for as long again, so
//! that each ticket can be used for at least the lifetime, and no secret is kept for longer than twice that.
use polder_table::{Mode, New, Replaces, SYSTEM, Stop, Table};
use polder_values::{Kind, Value, string};

use crate::retry::retry;

const KEY: &[u8] = b"tls-tickets";
const KEYS_MAX: usize = 2;
const BYTES: usize = 8 + NAME_BYTES + SECRET_BYTES;
pub const NAME_BYTES: usize = 8;
pub const SECRET_BYTES: usize = 32;

/// One key.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey {
    pub made_ms: u64,
    /// Stands in front of each ticket.
    pub name: [u8; NAME_BYTES],
    pub secret: [u8; SECRET_BYTES],
}

/// The keys of now, the newest one first; the segment gets a new one if that is older than the lifetime.
///
/// # Errors
/// What the memory says.
pub fn keys(table: &Table, now_ms: u64, lifetime_ms: u64) -> Result<Vec<TicketKey>, Stop> {
    let fresh = |keys: &[TicketKey]| {
        keys.first().is_some_and(|newest| now_ms < newest.made_ms.saturating_add(lifetime_ms))
    };
    let mut keys = Vec::new();
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, KEY)])?;
        let stored = txn.peek(SYSTEM, KEY)?;
        let stored = stored
            .map(|found| string::contiguous(&txn, &found.value).map(|bytes| bytes.into_owned()))
            .transpose()?;
        keys = read(&stored.unwrap_or_default());
        keys.retain(|key| now_ms < key.made_ms.saturating_add(2 * lifetime_ms));
        if fresh(&keys) {
            return Ok(());
        }
        keys.insert(0, TicketKey::random(now_ms));
        keys.truncate(KEYS_MAX);
        let bytes: Vec<u8> = keys.iter().flat_map(TicketKey::bytes).collect();
        txn.write(SYSTEM, KEY, &New::of(Kind::String, Value::Packed(&bytes)), Replaces::Whole)
    })?;
    Ok(keys)
}

fn read(bytes: &[u8]) -> Vec<TicketKey> {
    bytes.chunks_exact(BYTES).filter_map(TicketKey::read).collect()
}

impl TicketKey {
    fn random(made_ms: u64) -> TicketKey {
        let mut key = TicketKey { made_ms, name: [0; NAME_BYTES], secret: [0; SECRET_BYTES] };
        crate::acl::random(&mut key.name);
        crate::acl::random(&mut key.secret);
        key
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.made_ms.to_le_bytes()[..], &self.name, &self.secret].concat()
    }

    fn read(bytes: &[u8]) -> Option<TicketKey> {
        let (made_ms, rest) = bytes.split_first_chunk()?;
        let (name, secret) = rest.split_first_chunk()?;
        Some(TicketKey {
            made_ms: u64::from_le_bytes(*made_ms),
            name: *name,
            secret: secret.try_into().ok()?,
        })
    }
}

impl std::fmt::Debug for TicketKey {
    /// Without the secret.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "TicketKey({:02x?})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let (one, other) = (TicketKey::random(7), TicketKey::random(8));
        assert_eq!(read(&[one.bytes(), other.bytes()].concat()), [one.clone(), other.clone()]);
        assert!(one.name != other.name && one.secret != other.secret);
        assert!(read(b"short").is_empty());
    }
}
