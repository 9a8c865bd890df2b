//! The hub: who hears which subject and who waits for which key, across threads and processes.
//!
//! ```text
//!   SUBSCRIBE, BLPOP, GET of a tracking client                     PUBLISH, LPUSH, SET
//!      |  a record in the hidden database, by a transaction           |  the same transaction looks up who is interested
//!      v                                                              v
//!   "channel news" -> (seat, life, 3) (seat, life, 1)  ------>  messages into these seats' inboxes, with its commit (shm::inbox)
//!      ^                                                              |  the bell of whoever sleeps (shm::bell)
//!      |  who of ours: ears.rs, in the thread's own memory            v
//!   the thread that serves these clients  <------------------  hear(): to whom of ours, retried, written out
//! ```
//!
//! What the segment knows is *which seats* care, and how many clients each has; which clients these are, only the seat's own thread
//! knows. Interest lies in the hidden database, so that every rule of the table holds for it: it changes by transactions, is found without
//! locks, survives any death, and `verify` accounts for it. A record names one life of a seat; when that is over it counts for nothing,
//! and whoever does the chores sweeps it away ([`sweep`]).
//!
//! Invariants:
//! - **H1** Interest is recorded before anything is read that must not be missed, by the transaction that reads or before it.
//! - **H2** A message leaves with the commit of the transaction that caused it, or not at all; once.
//! - **H3** No transaction waits for a listener: an inbox that is full loses messages and counts them. Its owner, told so, looks at everything again and closes the
//!   clients that may have missed messages. A server holds back *connections* that publish into an inbox that is more than half full. It does so between
//!   calls, for a bounded time, and not at all for a listener that does not read (`server/src/turn/holding.rs`).
//! - **H4** Those who wait for a key are served by the numbers that they drew, whichever process they are in.
#![forbid(unsafe_code)]

pub mod ask;
pub mod ears;
pub mod letter;
pub mod queue;
pub mod record;
pub mod sink;
mod stopped;
pub mod subject;
pub mod sweep;
pub mod track;

pub use ears::{Delivery, Hearer, attend, hear};
pub use sink::SINK;

use polder_shm::layout::header;
use polder_table::Table;
use std::sync::atomic::Ordering;

/// A number that no other client of this segment has had.
pub fn next_client(table: &Table) -> u64 {
    table.segment().word(header::CLIENTS).fetch_add(1, Ordering::Relaxed) + 1
}
