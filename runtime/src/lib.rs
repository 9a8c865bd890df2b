//! The life of a call: found, admitted, run, accounted. Transactions, pipelines, waiting calls, scripts, publish and subscribe, tracking,
//! monitors, users, and the commands that concern a session.
//!
//! Families over a session have rows of their own ([`row`]); those over the table alone live in `polder-commands`.
//!
//! **Invariant:** it names no command of another crate: the engine registers all of them ([`family::register`]).
#![forbid(unsafe_code)]

pub mod acl;
pub mod batching;
pub mod blocking;
mod call_group;
pub mod categories;
pub mod changes;
pub mod cold;
pub mod configuration;
pub mod connection;
pub mod cross_process;
pub mod denials;
pub mod direct;
pub mod execute;
pub mod family;
pub mod fieldsets;
pub mod help;
pub mod hot_keys;
pub mod key_sizes;
mod line_limit;
pub mod locks;
pub mod lookup;
pub mod monitor;
pub mod notes;
pub mod noting;
pub mod processor;
pub mod pubsub;
pub mod recorder;
pub mod retry;
pub mod row;
pub mod run;
pub mod saves;
pub mod scripting;
pub mod scripts;
pub mod session;
pub mod statistics;
pub mod subjects;
pub mod switches;
#[cfg(test)]
mod test_commands;
pub mod tickets;
pub mod tracking;
pub mod transaction;
pub mod users;

pub use batching::{TOGETHER_MAX, execute_together, may_share};
pub use direct::DirectCall;
pub use execute::{CallHint, Progress, execute, execute_foreseen, give_up, resume, time_out};
pub use family::Family;
pub use lookup::{all, find, find_subcommand, rename};
pub use polder_table::{Db, Stop};
pub use row::{Row, SessionCall, TxnCall};
pub use session::{Host, Session};
pub use transaction::execute_group;
