//! Whether a stored entry is still a key.
//!
//! An entry stays in its bucket for a while after its key has expired. It also stays when its key holds a hash and the last
//! field of that hash has expired. In both cases the key does not exist for any command: EXISTS, TYPE, COPY, SET NX, SCAN and
//! WATCH all ask here, so they cannot disagree. A transaction that locks such an entry removes it when it commits.

use polder_base::Fault;
use polder_values::hash::Hash;
use polder_values::{Nodes, Value};

use crate::api::{Db, Found};
use crate::entry::{self, Image};
use crate::txn::Txn;

/// What of a stored key has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    /// The key itself.
    Key,
    /// All fields of the hash that it holds, and how many they are.
    Fields(u64),
    /// Some fields of the hash that it holds: the key exists.
    SomeFields,
}

impl Expired {
    /// Whether the key does not exist any more.
    pub(crate) fn is_gone(&self) -> bool {
        *self != Expired::SomeFields
    }

    /// What of the fields of `value` has expired, if `first_ms` is their earliest expiry.
    pub(crate) fn fields(nodes: &dyn Nodes, value: &Value<'_>, first_ms: Option<u64>, now_ms: impl Fn() -> u64) -> Option<Expired> {
        first_ms.filter(|first_ms| *first_ms <= now_ms())?;
        let hash = Hash::of(value);
        // A damaged hash exists: the command that reads its fields reports the damage.
        match (hash.len(nodes, now_ms), hash.count()) {
            (Ok(0), Ok(count)) => Some(Expired::Fields(count)),
            _ => Some(Expired::SomeFields),
        }
    }
}

impl Txn<'_> {
    /// What has expired of a key that was found.
    #[inline]
    pub(crate) fn expired(&self, found: &Found<'_>) -> Option<Expired> {
        if found.expiry_ms.is_none() && found.inner_expiry_ms.is_none() {
            return None;
        }
        self.expired_of(found.expiry_ms, &found.value, found.inner_expiry_ms)
    }

    fn expired_of(&self, expiry_ms: Option<u64>, value: &Value<'_>, first_ms: Option<u64>) -> Option<Expired> {
        if expiry_ms.is_some_and(|expiry_ms| self.is_over(expiry_ms)) {
            return Some(Expired::Key);
        }
        Expired::fields(self, value, first_ms, || self.field_clock_ms())
    }

    /// Why the key of an entry does not exist any more, if that is so.
    #[inline]
    pub(crate) fn gone(&self, image: &Image) -> Result<Option<Expired>, Fault> {
        if !image.may_expire() {
            return Ok(None);
        }
        let expired = if image.is_reference() {
            let record = self.record(image.record())?;
            self.expired_of(record.expiry_ms, &record.value, record.inner_expiry_ms)
        } else {
            self.expiry_of(image)?.filter(|expiry_ms| self.is_over(*expiry_ms)).map(|_| Expired::Key)
        };
        Ok(expired.filter(Expired::is_gone))
    }

    /// Keeps what was found if its key exists. What has expired of it is noted for collection; `locked`: only its fields, since
    /// the transaction itself removes an expired key that it has locked.
    #[inline]
    pub(crate) fn if_it_exists<'f>(&self, db: Db, key: &[u8], found: Found<'f>, locked: bool) -> Option<Found<'f>> {
        let expired = self.expired(&found);
        if expired.is_some_and(|expired| !locked || expired == Expired::SomeFields) {
            self.scratch.note_stale(db, key);
        }
        if expired.is_some_and(|expired| expired.is_gone()) { None } else { Some(found) }
    }

    /// Notes the event of a key that this transaction has locked and that does not exist any more. The removal of an empty hash
    /// is an event of its own, see [`Txn::place_all`]: there is none if the transaction makes the key anew.
    pub(crate) fn note_gone(&self, expired: Expired, db: Db, key: &[u8]) {
        match expired {
            _ if !self.removes_expired() => {}
            Expired::Key => self.note_change('x', "expired", db, key),
            _ => self.note_change('h', "hexpired", db, key),
        }
    }

    /// The expiry of an entry, if it has one.
    pub(crate) fn expiry_of(&self, image: &Image) -> Result<Option<u64>, Fault> {
        if image.meta() & entry::EXPIRY == 0 {
            return Ok(None);
        }
        if image.is_reference() {
            return Ok(self.record(image.record())?.expiry_ms);
        }
        Ok(entry::inline_fields(image.bytes()).and_then(|fields| fields.expiry_ms))
    }

    /// The earliest time at which an entry, or a part of its value, expires.
    pub(crate) fn bound_of(&self, image: &Image) -> Result<Option<u64>, Fault> {
        if !image.is_reference() || !image.may_expire() {
            return self.expiry_of(image);
        }
        let record = self.record(image.record())?;
        Ok(record.expiry_ms.into_iter().chain(record.inner_expiry_ms).min())
    }
}
