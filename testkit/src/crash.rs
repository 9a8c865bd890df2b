//! Processes write, are killed with SIGKILL at any instruction, and nothing acknowledged may be lost.
//!
//! ```text
//!  driver --spawns--> actor 0..n   each: journal "I ..." (intent) -> write to the memory -> journal "A" (acknowledged)
//!    |                  |  each checks what it reads: values prove themselves, transactions are never half there
//!    +--kill -9, again and again; a successor takes the dead one's journal and keys, checks them, goes on
//!    +--at the end: every journal against the memory, counters, leaks
//! ```
//! What is proven of each key:
//! - **Owned keys** have one writer: the value is the last acknowledged one, or the one intended after it.
//! - **Owned groups** are written by MSET: all keys of a group always carry the same sequence number.
//! - **Shared groups** have all actors as writers: each read finds a single writer's single MSET.
//! - **Shared counters**: at least all acknowledged INCRs, at most one more per death.
//! - **Ledgers** have one writer, whose every transaction or script writes a key of each type: they always agree ([`ledgers`]).
//! - **Accounts** of several types, between which all actors move amounts: their sum is 0, always.
//! - **Tokens** that are pushed on queues, moved between them and popped: each is there once, until it is popped, once ([`tokens`]).
//! - **Ears**: a client that waits for a key or listens to a subject gets what is pushed or published there ([`ears`]).
//! - No operation of a survivor takes longer than [`STALL_MAX`], its time without a CPU not counted.
//!
//! [`replicas`] does this with nodes that replicate from each other.
//! [`mixed`] does this with processes of all kinds on one memory: servers with clients, and embedders in Rust, C and Python.
pub mod actor;
pub mod cast;
pub mod deeds;
pub mod driver;
pub mod ears;
pub mod journal;
pub mod judge;
pub mod ledgers;
pub mod listening;
pub mod mixed;

pub mod followed;
pub mod points;
pub mod replicas;
pub mod tokens;
pub mod value;

use std::time::Duration;

/// Keys with one writer, per actor.
pub const OWNED_KEYS: u32 = 64;
/// Groups with one writer, per actor.
pub const OWNED_GROUPS: u32 = 8;
/// Groups that all actors write.
pub const SHARED_GROUPS: u32 = 4;
/// Keys in a group.
pub const GROUP_KEYS: u32 = 6;
/// Counters that all actors increment.
pub const COUNTERS: u32 = 4;

/// Ledgers, per actor.
pub const LEDGERS: u32 = 2;
/// Accounts of each type.
pub const ACCOUNTS: u32 = 4;
/// Lists that tokens go through.
pub const QUEUES: u32 = 3;

/// The longest that a key may be unusable after a death.
pub const STALL_MAX: Duration = Duration::from_millis(50);

/// The name of an owned key.
pub fn owned_key(actor: u32, key: u32) -> String {
    format!("owned:{actor}:{key}")
}

/// The name of a key in an owned group.
pub fn group_key(actor: u32, group: u32, at: u32) -> String {
    format!("group:{actor}:{group}:{at}")
}

/// The name of a key in a shared group.
pub fn shared_key(group: u32, at: u32) -> String {
    format!("shared:{group}:{at}")
}

/// The name of a counter.
pub fn counter_key(counter: u32) -> String {
    format!("counter:{counter}")
}
