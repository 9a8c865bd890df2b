//! Floor 0: the words that every floor shares. No shared memory, no sockets, no commands.
#![forbid(unsafe_code)]

pub mod aside;
pub mod bytes;
mod decimal;
pub mod glob;
mod literal;
mod long_double;
mod natural;
pub mod number;
pub mod options;
pub mod reply;
pub mod score;
pub mod script;
pub mod time;
pub mod words;

pub use reply::{Item, Protocol, Recache, Reply, Written};

/// How a node is named: a 40-bit place in the segment in granules of 8 bytes, or nothing.
///
/// A `Ref` is what values store of each other; it is an offset, never an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
#[repr(transparent)]
pub struct Ref(pub u64);

impl Ref {
    /// Names no node. In a tree of chunks it stands for a hole that reads as zeros.
    pub const NONE: Ref = Ref(0);

    /// Whether this names no node.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// A failure of the medium, the memory or another process. It is never mixed with a refusal, in which a command replies with an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The segment has no room and cannot grow; the text says who holds memory and what to do.
    #[error("OOM {0}")]
    Full(String),
    /// More than there can be, however much room there is.
    #[error("OOM {0}")]
    TooLarge(String),
    /// A stored offset, kind or length is impossible: the segment is damaged.
    #[error(
        "ERR the segment is damaged at {what}: run 'polder verify', then export what is readable and import it into a new segment"
    )]
    Damaged { what: &'static str },
    /// The operating system refused something; the text says what to do.
    #[error("ERR {0}")]
    System(String),
}
