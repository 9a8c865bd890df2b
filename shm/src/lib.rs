//! The segment: memory that many processes share, in which any of them may be killed at any instruction.
//!
//! Everything shared is reached through this crate, and all unsafe code that reaches it is here or in `table`'s one raw module.
//! Invariants (docs/memory.md), named where they are relied on:
//! - **S1** A published node of a value (its records, its data and the nodes of its trees) is never written again until every interval
//!   that could see it is gone. Other nodes are written after they are published, each by its own rule: pieces, directory nodes and
//!   the map of databases under the lock that covers the word (S2), an extent's and a database's lower bounds of expiry as
//!   designated words, an inbox's blocks behind the tail under the inbox's lock (I1 of `inbox.rs`), and the blocks of a journal, a
//!   retired list and a snapshot log by their seat alone, readable up to a length that is stored last (O1 of `snapshot_log.rs`).
//! - **S2** A thread writes only its own seat, nodes it has not published, words it has locked, a dead seat it has acquired, or a
//!   designated shared word by a single atomic operation: a read-modify-write, or a plain store where the table below says why
//!   that is enough.
//! - **S3** At every store the segment can be recovered to a state in which each key has its old or its new value, all keys of one
//!   transaction alike, every node is accounted for and every counter is right.
//! - **S4** No lock, list or count has an owner that is not a seat.
//! - **S5** Every stored offset is checked for bounds and kind before it is followed, every walk is limited.
//!
//! Shared words that are written by plain stores, although no lock guards them. For each, a store may be lost to another thread's, or read
//! late, without harm:
//!
//! ```text
//!   WORDS OF THE HEADER          WRITTEN BY                    WHY A PLAIN STORE IS ENOUGH
//!   MAGIC ... WAKEUPS, CEILING     the creator (attach.rs)       the segment has no name yet
//!   CLEAN                        attach, close_cleanly         read only before the first thread of another boot is attached
//!   INCARNATION                  attach (renew.rs)             as CLEAN
//!   READING                      a thread that reads data      a hint: what it says is looked up in the table
//!                                into the memory
//!   REMOVED                      remove (attach.rs)            goes from 0 to 1, once
//!   HINTS, when all are set      a search (memory.rs)          a hint; bits are set and cleared by fetch_or and fetch_and, and
//!                                                              a search that finds nothing looks everywhere
//!   MARKS                        compaction (drain.rs)         a time: the later store wins, and an early end only takes marks off
//!   SNAPSHOT_* but SERIAL,       the snapshot's owner          OWNER is taken by a CAS and is their lock: they have one writer
//!     BROKEN, VERSIONS           (snapshot_log.rs)                  at a time, its owner or the recoverer of that seat
//!   the log's CUT                the snapshot's owner          as SNAPSHOT_*
//!   the log's KEEP, KEEP_MAX     CONFIG SET (change_log.rs)    settings, as LIMITS
//!   the log's WAITED             turn_log_on (change_log.rs)   any thread that has waited; after an old value others wait again
//!   the log's HOLDS              a follower (change_log.rs)    each has one follower; an old value keeps more than is needed
//!   a replica's line             its feed (replicas.rs)        OWNER is taken by a CAS: the line has one writer at a time
//!   EVENTS                       CONFIG SET (change.rs)        a setting: one word, the last store wins
//!   LIMITS ...                   CONFIG SET (table.rs)         settings: each word is a whole value; two threads that set limits at
//!                                                              once may leave some of each
//!   COUNTER_BASES                CONFIG RESETSTAT (table.rs)   each counter's base is a whole value of a moment ago
//!   MAINTAINED, the place of the maintenance (maintenance.rs,   hints: a lost store repeats or skips a round's work
//!     last shrinking             shrink.rs)
//! ```
//!
//! In its own seat a thread uses plain stores, also for words that other threads read (STATUS, the pin, CLOSING, INTEREST,
//! counters): each of these words has one writer.

mod ahead;
pub mod attach;
pub mod audit;
pub mod change_log;
pub mod class;
pub mod crash;
pub mod directory;
mod drain;
mod files;
mod flaw;
pub mod fork;
pub mod futex;
mod growth;
pub mod inbox;
pub mod item;
pub mod journal;
pub mod layout;
pub mod link;
pub mod liveness;
pub mod lock;
pub mod machine;
pub mod mapping;
mod memory;
pub mod name;
pub mod node;
pub mod opening;
pub mod outbox;
pub mod overview;
pub mod owner;
mod owner_word;
pub mod pages;
mod place;
mod presence;
mod recover;
mod renew;
pub mod replicas;
mod reserve;
mod retired;
#[cfg(feature = "schedules")]
pub mod scenario;
#[cfg(feature = "schedules")]
pub mod schedules;
pub mod seat;
mod seating;
pub mod segment;
mod shmget;
mod slab;
pub mod snapshot_log;
pub mod staged_journal;
pub mod storage;
mod swap_barrier;
pub mod sync;
mod sysv;
pub mod tier;
mod trouble;
mod wakeup;

pub use attach::{AttachOptions, SegmentDraft, SegmentOptions, default_ceiling, room};
pub use item::Tag;
pub use link::{LinkFigures, LinkState, LinkWords, Role};
pub use lock::Locked;
pub use name::SegmentName;
pub use owner_word::Owner;
pub use renew::Check;
pub use replicas::ReplicaWords;
pub use seat::Seat;
#[cfg(feature = "schedules")]
pub use seating::end_schedules;
pub use segment::{RawView, Segment, class_bytes, offset_of, ref_to};
pub use storage::StorageWords;
pub use swap_barrier::Changes;
pub use tier::TierWords;

/// The seat's counter of sleeps for a lock, among `layout::seat::COUNTERS`.
pub const PARKS: u64 = 11;

/// Milliseconds since the Unix epoch by the wall clock (never the monotonic one: time namespaces differ).
pub fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

/// Seconds since the Unix epoch by the kernel's coarse clock, for access clocks: a dozen instructions.
#[inline]
pub fn coarse_seconds() -> u64 {
    // SAFETY: with a null pointer it only returns the time.
    unsafe { libc::time(std::ptr::null_mut()) as u64 }
}
