//! Keys, buckets, entries, transactions, expiry, eviction, changes.

pub mod api;
pub mod clock;
mod stub;

pub use api::*;
pub use stub::{Table, Txn};
