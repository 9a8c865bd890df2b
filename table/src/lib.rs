//! Keys, buckets, entries, transactions, expiry, eviction, changes.

pub mod api;
pub mod bucket;
pub mod change;
mod chores;
pub mod clock;
mod database;
mod declare;
pub mod directory;
pub mod entry;
mod grow;
pub mod hash;
mod inspect;
mod lookup;
mod place;
mod quick;
mod raw;
mod record;
mod report;
mod sample;
mod scan;
mod scratch;
mod shadow;
mod sight;
pub mod snapshot;
mod table;
mod txn;
mod verify;

pub use api::*;
pub use change::{Change, ChangeSink};
pub use inspect::Inspection;
pub use report::Report;
pub use sight::Sight;
pub use snapshot::Snapshot;
pub use table::{Pinned, Table};
pub use txn::Txn;
