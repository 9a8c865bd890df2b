//! Keys, buckets, entries, transactions, expiry, eviction, changes.
//!
//! ```text
//!   tier      values that leave for a tier and come back   works through transactions
//!   upkeep    room, memory, expiry, eviction, verify       works through transactions
//!   txn       any number of keys, all together
//!   access    one key or a few: locate, read, update
//!   log       the looks before a commit: change log, snapshot, roles
//!   table     a process's handle
//!   layout    the words of directories, buckets, entries, records
//! ```
//!
//! **Invariant**: a folder imports folders below it only.

mod access;
pub mod api;
pub mod change;
mod layout;
mod log;
mod table;
mod tier;
mod txn;
mod upkeep;

pub use access::locate::Location;
pub use access::mutation::{Form, Mutation, Old};
pub use access::plain::Foreseen;
pub use api::*;
pub use change::{Change, ChangeSink, CommitView, Dump};
pub use layout::extras::ItemExtras;
pub use layout::hash::Hash;
pub use layout::parcel::{Head, head};
pub use layout::stub::{Cold, Name, Part, shorten_positions};
pub use layout::{bucket, clock, directory, entry, hash, interest};
pub use log::aside::{Aside, NAME as ASIDE_NAME, Unknown as UnknownAside};
pub use log::recording::{Effect, READ_ONLY};
pub use log::snapshot;
pub use log::snapshot::Snapshot;
pub use log::telling::Mark;
pub use log::{Log, LogError};
pub use table::copies::Copies;
pub use table::loading::Loading;
pub use table::names::Told;
pub use table::{Pinned, Table};
pub use tier::spill::{Sweep, Victim, Wanted};
pub use txn::Txn;
pub use txn::ride::{OTHER_ROLE, Rider};
pub use upkeep::inspect::Inspection;
pub use upkeep::report::Report;
