//! The hub: which clients hear a subject or wait for a key, across threads and processes.
//!
//! ```text
//!   SUBSCRIBE, BLPOP, GET of a tracking client                     PUBLISH, LPUSH, SET
//!      |  a record in the hidden database, by a transaction           |  the same transaction looks up who is interested
//!      v                                                              v
//!   "channel news" -> (seat, life, 3) (seat, life, 1)  ------>  messages into these seats' inboxes, with its commit (shm::inbox)
//!      ^                                                              |  a wakeup of each seat that sleeps (shm::wakeup)
//!      |  which clients: subscriptions.rs, in the thread's memory v
//!   the thread that serves these clients  <------------------  hear(): delivers to its clients, or runs their calls again
//! ```
//!
//! The segment knows only *which seats* are interested, and how many clients each has. Which
//! clients these are, only the seat's own thread knows.
//!
//! Interest lies in the hidden database, so every rule of the table holds for it: it changes by
//! transactions, is found without locks, survives the death of any process, and `verify` accounts
//! for it. A record names one life of a seat. Once that life is over the record counts for nothing,
//! and maintenance removes it ([`sweep`]).
//!
//! Invariants:
//! - **H1** Interest is recorded before anything is read whose change must not be missed, by a
//!   transaction that holds the lock of what is read: a writer that had it before may have looked
//!   for listeners already, and its change is to be seen.
//! - **H2** A message leaves with the commit of the transaction that caused it, once, or not at
//!   all.
//! - **H3** No transaction waits for a listener. An inbox that is full loses messages and counts
//!   them. Its thread then looks at everything again, and closes the clients that may have missed
//!   messages. A server holds back *connections* that publish into an inbox that is more than half
//!   full. It does so between calls, for a bounded time, and never for a listener that does not
//!   read (`server/src/turn/holding.rs`).
//! - **H4** Clients that wait for a key are served in the order of their tickets, whichever
//!   processes they are in.
#![forbid(unsafe_code)]

pub mod addresses;
mod group;
mod hear;
pub mod listener;
pub mod message;
pub mod monitor;
mod per_thread;
pub mod post;
mod posted;
pub mod query;
pub mod queue;
pub mod receivers;
pub mod record;
mod shapes;
pub mod sink;
mod stopped;
pub mod subject;
mod subscriptions;
pub mod sweep;
pub mod tier;
pub mod tier_wait;
pub mod token;
pub mod token_listeners;
pub mod tokens;
pub mod track;

pub use hear::{attend, has_messages, hear, rest, tick};
pub use listener::{Delivery, MessageSink, Request};
pub use posted::leave as leave_subjects;
pub use sink::SINK;
pub use subscriptions::note_subscription;

use polder_shm::layout::header;
use polder_table::Table;
use std::sync::atomic::Ordering;

/// A number that no other client of this segment has had.
pub fn next_client(table: &Table) -> u64 {
    table.segment().word(header::CLIENTS).fetch_add(1, Ordering::Relaxed) + 1
}
