//! Whether a stored entry is still a key.
//!
//! An entry stays in its bucket for a while after its key has expired. It also stays when its key holds a hash and the last
//! field of that hash has expired. In both cases the key does not exist for any command: EXISTS, TYPE, COPY, SET NX, SCAN and
//! WATCH all ask here, so they cannot disagree. A transaction that locks such an entry removes it when it commits.

use polder_values::Value;

use crate::api::{Db, Found, Stop};
use crate::layout::entry::{self, Image, is_cold};
use crate::layout::expired::Expired;
use crate::layout::stub;
use crate::txn::Txn;

impl Txn<'_> {
    /// What has expired of a key that was found.
    #[inline]
    pub(crate) fn expired(&self, found: &Found<'_>) -> Option<Expired> {
        if found.expiry_ms.is_none() && found.inner_expiry_ms.is_none() {
            return None;
        }
        self.expired_of(found.expiry_ms, &found.value, found.inner_expiry_ms)
    }

    fn expired_of(
        &self,
        expiry_ms: Option<u64>,
        value: &Value<'_>,
        first_ms: Option<u64>,
    ) -> Option<Expired> {
        if expiry_ms.is_some_and(|expiry_ms| self.is_over(expiry_ms)) {
            return Some(Expired::Key);
        }
        Expired::fields(self, value, first_ms, || self.field_clock_ms())
    }

    /// Why the key of an entry does not exist any more, if that is so.
    #[inline]
    pub(crate) fn gone(&self, image: &Image) -> Result<Option<Expired>, Stop> {
        if !image.may_expire() {
            return Ok(None);
        }
        let expired = if image.is_reference() {
            let record = self.record(image.record()?)?;
            self.expired_of(record.expiry_ms, &record.value, record.inner_expiry_ms)
        } else {
            self.expiry_of(image)?.filter(|expiry_ms| self.is_over(*expiry_ms)).map(|_| Expired::Key)
        };
        Ok(expired.filter(Expired::is_gone))
    }

    /// Keeps what was found if its key exists. What has expired of it is noted for collection; `locked`: only its fields, since
    /// the transaction itself removes an expired key that it has locked.
    #[inline]
    pub(crate) fn if_it_exists<'f>(
        &self,
        db: Db,
        key: &[u8],
        found: Found<'f>,
        locked: bool,
    ) -> Option<Found<'f>> {
        let expired = self.expired(&found);
        if expired.is_some_and(|expired| !locked || expired == Expired::SomeFields) {
            self.buffers.note_stale(db, key);
        }
        if expired.is_some_and(|expired| expired.is_gone()) { None } else { Some(found) }
    }

    /// Notes the event of a key that this transaction has locked and that does not exist any more. The removal of an empty hash
    /// is an event of its own, see [`Txn::place_all`]: there is none if the transaction makes the key anew.
    pub(crate) fn note_gone(&self, expired: Expired, db: Db, key: &[u8]) {
        match expired {
            Expired::Key => self.note_change('x', "expired", db, key),
            _ => self.note_change('h', "hexpired", db, key),
        }
    }

    /// The expiry of an entry, if it has one.
    pub(crate) fn expiry_of(&self, image: &Image) -> Result<Option<u64>, Stop> {
        if image.meta() & entry::EXPIRY == 0 {
            return Ok(None);
        }
        if image.is_reference() {
            return Ok(self.record(image.record()?)?.expiry_ms);
        }
        Ok(entry::inline_fields(image.bytes()).and_then(|fields| fields.expiry_ms))
    }

    /// The earliest time at which an entry, or a part of its value, expires.
    pub(crate) fn bound_of(&self, image: &Image) -> Result<Option<u64>, Stop> {
        if !image.is_reference() || !image.may_expire() {
            return self.expiry_of(image);
        }
        if is_cold(image) {
            return Ok(stub::bound_of(image));
        }
        let record = self.record(image.record()?)?;
        Ok(record.expiry_ms.into_iter().chain(record.inner_expiry_ms).min())
    }
}
