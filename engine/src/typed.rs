//! The typed calls of all types: a front of the commands' own functions.
//!
//! ```text
//!   db.hset("user:1", &[("name", "ann")])
//!     words::Words      HSET user:1 name ann      slices of what was passed; numbers become text on the stack
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

pub use hash::{Field, FieldExpiry, HsetexOptions};
pub use list::{LposOptions, Side};
pub use options::{End, ExpireIf, Expiry, Keyed, Lifetime};
pub use scan::{ScanOptions, Step};
pub use sorted_set::{Aggregate, Extreme, Scored, ZaddOptions, ZcombineOptions, Zrange};
pub use stream::{Claimed, PendingEntry, PendingSummary, StreamEntry, StreamId, Trim, XaddOptions};
pub use string::SetOptions;
