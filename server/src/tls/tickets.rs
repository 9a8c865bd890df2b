//! Session tickets: what a client brings back so that its next handshake needs no signature.
//!
//! ```text
//!   [ name of the key 8 | nonce 12 | AES-256-GCM of what rustls keeps of the session, and its tag ]
//!     `runtime/src/tickets.rs`          key = HMAC-SHA256(secret of the segment, rules)
//! ```
//!
//! The rules are the certificates of the server and of the roots, and whether clients must show one. A client that was
//! checked by other rules is checked again (T3).
use std::sync::{Arc, PoisonError, RwLock};

use polder_engine::Table;
use polder_runtime::tickets::{NAME_BYTES, TicketKey, keys};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

/// The keys of the segment as this process has seen them last, the newest one first.
#[derive(Default, Debug)]
pub struct Tickets(RwLock<Vec<TicketKey>>);

impl Tickets {
    /// Takes the keys from the segment. If it cannot be read now, those of before stay until the next time.
    pub fn renew(&self, table: &Table, now_ms: u64, lifetime_ms: u64) {
        if lifetime_ms == 0 {
            return;
        }
        match keys(table, now_ms, lifetime_ms) {
            Ok(keys) => *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys,
            Err(stop) => tracing::debug!(%stop, "the keys of session tickets cannot be read; trying again"),
        }
    }

    fn key(&self, wanted: impl Fn(&TicketKey) -> bool) -> Option<TicketKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().find(|key| wanted(key)).cloned()
    }
}

/// The tickets of one configuration.
#[derive(Debug)]
pub struct Ticketer {
    pub tickets: Arc<Tickets>,
    pub rules: Vec<u8>,
    pub lifetime_seconds: u32,
}

impl Ticketer {
    fn cipher(&self, key: &TicketKey) -> Option<LessSafeKey> {
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key.secret), &self.rules);
        UnboundKey::new(&AES_256_GCM, derived.as_ref()).ok().map(LessSafeKey::new)
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime_seconds
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.tickets.key(|_| true)?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let cipher = self.cipher(&key)?;
        cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(key.name), &mut sealed)
            .ok()?;
        Some([&key.name[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = self.tickets.key(|key| key.name == *name)?;
        let mut plain = sealed.to_vec();
        let opened = self
            .cipher(&key)?
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(key.name), &mut plain)
            .ok()?;
        let length = opened.len();
        plain.truncate(length);
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_for_its_key_and_rules_only() {
        let key = |fill: u8| TicketKey { made_ms: 1, name: [fill; 8], secret: [fill; 32] };
        let with = |keys: Vec<TicketKey>, rules: &[u8]| Ticketer {
            tickets: Arc::new(Tickets(RwLock::new(keys))),
            rules: rules.to_vec(),
            lifetime_seconds: 1,
        };
        let one = with(vec![key(1)], b"rules");
        let ticket = one.encrypt(b"session").expect("a ticket");
        assert_eq!(with(vec![key(2), key(1)], b"rules").decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(with(vec![key(1)], b"others").decrypt(&ticket), None);
        assert_eq!(with(vec![key(2)], b"rules").decrypt(&ticket), None);
        assert_eq!(with(Vec::new(), b"rules").encrypt(b"session"), None);
        for length in 0..ticket.len() {
            assert_eq!(one.decrypt(&ticket[..length]), None);
        }
        for at in 0..ticket.len() {
            let mut other = ticket.clone();
            other[at] ^= 1;
            assert_eq!(one.decrypt(&other), None, "byte {at}");
        }
    }
}
