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
//! - **Shared groups** have all actors as writers: whoever reads one finds a single writer's single MSET.
//! - **Shared counters**: at least all acknowledged INCRs, at most one more per death.
//! - No operation of a survivor takes longer than [`STALL_MAX`], its time without a CPU not counted.
pub mod actor;
pub mod driver;
pub mod journal;
pub mod listening;
pub mod points;
pub mod value;

use std::time::Duration;

/// Keys with one writer, per actor.
pub const OWNED_KEYS: u32 = 64;
/// Groups with one writer, per actor.
pub const OWNED_GROUPS: u32 = 8;
/// Groups that everybody writes.
pub const SHARED_GROUPS: u32 = 4;
/// Keys in a group.
pub const GROUP_KEYS: u32 = 6;
/// Counters that everybody increments.
pub const COUNTERS: u32 = 4;

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
