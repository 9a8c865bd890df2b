//! The segment: memory that many processes share, in which any of them may be killed at any instruction.
//!
//! Everything shared is reached through this crate, and all unsafe code that reaches it is here or in `table`'s one raw module.
//! Invariants (docs/memory.md), named where they are relied on:
//! - **S1** A published node is never written again until every interval that could see it is gone.
//! - **S2** A thread writes only its own seat, nodes it has not published, words it has locked, a dead seat it has acquired, or a
//!   designated shared word by a single atomic read-modify-write.
//! - **S3** At every store the segment can be recovered to a state in which each key has its old or its new value, all keys of one
//!   transaction alike, every node is accounted for and every counter is right.
//! - **S4** No lock, list or count has an owner that is not a seat.
//! - **S5** Every stored offset is checked for bounds and kind before it is followed, every walk is limited.

mod ahead;
pub mod attach;
pub mod audit;
mod bell;
pub mod brief;
pub mod class;
mod closing;
pub mod crash;
pub mod directory;
mod drain;
mod files;
pub mod fork;
pub mod futex;
pub mod inbox;
pub mod journal;
pub mod layout;
pub mod lock;
pub mod machine;
pub mod mapping;
mod memory;
pub mod name;
pub mod node;
pub mod overlay;
pub mod overview;
pub mod owner;
pub mod pages;
mod place;
mod presence;
mod recover;
mod renew;
mod reserve;
mod retired;
pub mod seat;
pub mod segment;
mod sysv;
mod trouble;
pub mod witness;

pub use attach::{AttachOptions, SegmentOptions, default_ceiling, room};
pub use closing::Changes;
pub use journal::Tag;
pub use lock::Locked;
pub use name::SegmentName;
pub use renew::Check;
pub use seat::Seat;
pub use segment::{Lens, Segment, offset_of, ref_to};

/// The seat's counter of sleeps for a lock, among `layout::seat::COUNTERS`.
pub const PARKS: u64 = 11;

/// Milliseconds since the Unix epoch by the wall clock (never the monotonic one: time namespaces differ).
pub fn now_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Seconds since the Unix epoch by the kernel's coarse clock, for access clocks: a dozen instructions.
#[inline]
pub fn coarse_seconds() -> u64 {
    // SAFETY: without a place to write to, it only answers.
    unsafe { libc::time(std::ptr::null_mut()) as u64 }
}
