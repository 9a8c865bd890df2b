//! Keys, buckets, entries, transactions, expiry, eviction, changes.

pub mod api;
pub mod bucket;
mod chores;
pub mod clock;
mod database;
pub mod directory;
pub mod entry;
mod grow;
pub mod hash;
mod lookup;
mod place;
mod raw;
mod record;
mod scan;
mod scratch;
mod shadow;
mod table;
mod txn;

pub use api::*;
pub use table::Table;
pub use txn::Txn;
