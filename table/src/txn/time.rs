//! The clock of a transaction: one time for all that it does and for its retries, and what has expired by it.

use crate::txn::Txn;

impl Txn<'_> {
    /// Milliseconds since the Unix epoch, the same during the whole transaction and its retries.
    pub fn now_ms(&self) -> u64 {
        if self.clock.now_ms.get() == 0 {
            self.clock.now_ms.set(polder_base::time::now_ms());
        }
        self.clock.now_ms.get()
    }

    /// Sees keys that have expired, as if they had not: for clients that import them ([`Table::imports`](crate::Table::imports)).
    pub fn see_expired(&self) {
        self.clock.sees_expired.set(true);
    }

    /// Whether a key with this expiry is there no more.
    #[inline]
    pub(crate) fn is_over(&self, expiry_ms: u64) -> bool {
        expiry_ms <= self.now_ms() && !self.clock.sees_expired.get()
    }

    /// The time by which fields of hashes have expired: the beginning of all time if this transaction sees what has expired.
    pub fn field_clock_ms(&self) -> u64 {
        if self.clock.sees_expired.get() { 0 } else { self.now_ms() }
    }

    /// Whether a transaction that meets something expired removes it: not while clients are paused or data is imported.
    pub(crate) fn removes_expired(&self) -> bool {
        !(self.table.stands_still() || self.table.imports())
    }

    /// Microseconds since the Unix epoch when this was asked for the first time: the same in all retries.
    pub fn now_us(&self) -> u64 {
        if self.clock.now_us.get() == 0 {
            self.clock.now_us.set(polder_base::time::now_us());
        }
        self.clock.now_us.get()
    }

    /// Fixes the clock of this transaction (a server's turn reads it once for all its calls).
    pub fn set_now_ms(&self, now_ms: u64) {
        self.clock.now_ms.set(now_ms);
    }
}
