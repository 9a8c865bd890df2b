//! A client for Polder, Redis and Valkey: one connection carries the calls of all tasks and threads.
//!
//! ```no_run
//! # async fn tour() -> Result<(), polder_client::Error> {
//! use std::time::Duration;
//! use polder_client::Client;
//!
//! let client = Client::connect("redis://127.0.0.1:6379")?;
//! let db = client.db(3);
//! db.call::<()>(("SET", "greeting", "hello")).await?;
//! let greeting: Option<String> = db.call(("GET", "greeting")).await?;
//! // Send and forget: no reply is kept for it.
//! db.fire().call(("INCR", "visits"));
//! // Go ahead of what has not been written yet, and give up after 50 ms.
//! let visits: i64 = db.jump().within(Duration::from_millis(50)).call(("INCR", "visits")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a call is
//! A call is queued when it is *made*, not when it is first polled. It carries its database, its deadline and its policy.
//! Calls of one database are sent in the order in which they were made ([`Db::jump`] excepted); calls of different
//! databases may pass each other, so that one SELECT serves many of them. A future that is dropped before its call was
//! written takes the call back; dropped later, the reply is read and thrown away.
//!
//! # What a failure means
//! [`Error::NotSent`]: the server has not seen the call; it may be made again. [`Error::OutcomeUnknown`]: it was written
//! and the connection broke before its reply came. [`Error::Refused`]: the server replied with an error.
//! [`Error::TimedOut`] says at which stage the call was when its deadline passed, with the figures that show the cause.
//! Only calls that were not sent, and commands that only read, are sent again after a reconnect.
//!
//! # Layers
//! ```text
//!   client.rs    Client, Db, Call: what a program sees
//!   queue.rs     calls that are not written yet, one lane per database       (under a short lock)
//!   link.rs      bytes out, bytes in, ticks -> completions; no socket, no clock   (owned by the driver)
//!   driver/      tokio task, or a thread of its own: moves bytes between a socket and the link
//! ```
#![forbid(unsafe_code)]

mod args;
mod cache;
mod client;
mod cluster;
mod commands;
mod completions;
mod condition;
mod connection;
mod consumer;
mod driver;
mod due;
mod error;
mod held;
mod link;
mod locks;
#[cfg(feature = "shm")]
mod memory;
mod options;
mod queue;
mod rows;
mod scan;
mod script;
mod signal;
mod slot;
mod span;
mod stats;
mod subscribe;
mod target;
mod traits;
mod value;
mod words;

pub use args::{Args, Encoder};
pub use cache::{CacheOptions, CacheStats, Tracking};
pub use client::{Call, Client, Db, Fire, Pipeline};
pub use completions::{Added, CallNumber, Completions, Taken};
pub use condition::{Committed, Condition, Conditional};
pub use consumer::{Consumer, Entry};
pub use error::{Error, Stage, TimedOut};
pub use options::{Endpoint, Options, Policy, QueueLimits, TlsOptions, Transport};
#[doc(inline)]
pub use polder_base::options::{
    Aggregate, ExpireIf, Expiry, HsetexOptions, LposOptions, ScanOptions, SetOptions, Trim, XaddOptions,
    ZaddOptions, ZcombineOptions,
};
pub use scan::{Scan, ScanCommand};
pub use script::Script;
pub use signal::Signal;
pub use stats::{ClientStats, Traffic};
pub use subscribe::{Event, Subscription};
pub use value::{FromValue, Value};
