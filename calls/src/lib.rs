//! What a command is and what it sees: its row, its grammar, a call of it with replies and error texts, and the settings.
//!
//! **Invariant**: this crate knows no command, no session and no socket. What a call sees of its client is plain data ([`Caller`]).
#![forbid(unsafe_code)]

pub mod call;
pub mod command;
pub mod facts;
pub mod fieldsets;
pub mod flags;
pub mod grammar;
pub mod settings;
pub mod waiting;

pub use call::{Call, Caller, Outcome};
pub use command::{BatchKey, Command};
pub use facts::Facts;
