//! The typed calls of all types: a front of the commands' own functions.
//!
//! ```text
//!   db.hset("user:1", &[("name", "ann")])
//!     base::options     HSET user:1 name ann      slices of what was passed; numbers become text on the stack
//!     DirectCall        the row's fast path, or its function in a transaction
//!     reply::Scalar     a reply that is one thing, without an allocation but for bytes
//!     reply::FromItem   a reply of many things, from an Answer whose memory the thread keeps
//! ```
//! **Invariant:** no rule of a command stands here. A method says which words its arguments are, and which Rust type the reply is.

mod hash;
mod hyperloglog;
mod key;
mod list;
mod options;
mod scan;
mod set;
mod sorted_set;
mod stream;
mod string;
mod words;

pub use hash::{Field, FieldExpiry};
pub use list::Side;
pub use options::{End, Keyed, Lifetime};
pub use scan::Step;
pub use sorted_set::{Extreme, Scored, Zrange};
pub use stream::{Claimed, PendingEntry, PendingSummary, StreamEntry, StreamId};
