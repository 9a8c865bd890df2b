//! Every command family: one row and one function per command.
//!
//! A function gets a [`Call`] (or a [`SessionCall`], when it concerns no key) and knows no protocol and no socket. Rows are
//! plain values in one table per family; arity, key positions, ACL categories, COMMAND INFO/DOCS and the documentation
//! are derived from them (see [`command`] and [`grammar`]).
//!
//! **Invariant:** [`FAMILIES`] is the only registration there is.
#![forbid(unsafe_code)]

pub mod acl;
pub mod bitmap;
pub mod call;
pub mod client;
pub mod cluster;
mod collection;
pub mod command;
pub mod commandlog;
pub mod config;
pub mod configuration;
pub mod connection;
pub mod counted;
pub mod database;
pub mod debug;
pub mod dump;
pub mod durability;
pub mod elsewhere;
pub mod execute;
pub mod expiry;
pub mod geo;
pub mod grammar;
pub mod hash;
pub mod hyperloglog;
pub mod info;
pub mod introspect;
pub mod key;
pub mod latency;
pub mod list;
pub mod lolwut;
pub mod lookup;
pub mod memory;
pub mod metrics;
pub mod monitor;
pub mod object;
pub mod persistence;
pub mod pubsub;
pub mod replication;
pub mod scripting;
pub mod server;
pub mod session;
pub mod set;
pub mod settings;
pub mod sort;
pub mod sorted_set;
pub mod stream;
pub mod string;
pub mod together;
pub mod tracking;
pub mod transaction;
pub mod waiting;

pub use call::{Call, Outcome, SessionCall};
pub use command::{Command, Common};
pub use execute::{Foresight, Progress, execute, execute_foreseen, give_up, resume, time_out};
pub use lookup::{all, find, find_subcommand, rename};
pub use session::{Host, Session};
pub use together::{TOGETHER_MAX, execute_together, may_share};

/// A family: what COMMAND DOCS calls a group, the ACL category of its commands, and their rows.
pub struct Family {
    /// `string`, `sorted-set`, ...
    pub group: &'static str,
    /// Without the `@`; empty for none.
    pub category: &'static str,
    pub commands: &'static [Command],
}

/// Every family, in the order of the documentation. Adding a command touches one family's file only.
pub static FAMILIES: &[Family] = &[
    Family { group: "generic", category: "keyspace", commands: key::COMMANDS },
    Family { group: "generic", category: "keyspace", commands: expiry::COMMANDS },
    Family { group: "generic", category: "keyspace", commands: database::WALKS },
    Family { group: "generic", category: "keyspace", commands: object::COMMANDS },
    Family { group: "generic", category: "keyspace", commands: dump::COMMANDS },
    Family { group: "generic", category: "", commands: sort::COMMANDS },
    Family { group: "generic", category: "connection", commands: durability::COMMANDS },
    Family { group: "connection", category: "connection", commands: connection::COMMANDS },
    Family { group: "connection", category: "connection", commands: client::COMMANDS },
    Family { group: "cluster", category: "connection", commands: cluster::CONNECTION },
    Family { group: "cluster", category: "", commands: cluster::COMMANDS },
    Family { group: "server", category: "", commands: database::COMMANDS },
    Family { group: "string", category: "string", commands: string::COMMANDS },
    Family { group: "bitmap", category: "bitmap", commands: bitmap::COMMANDS },
    Family { group: "list", category: "list", commands: list::COMMANDS },
    Family { group: "hash", category: "hash", commands: hash::COMMANDS },
    Family { group: "set", category: "set", commands: set::COMMANDS },
    Family { group: "sorted-set", category: "sortedset", commands: sorted_set::COMMANDS },
    Family { group: "geo", category: "geo", commands: geo::COMMANDS },
    Family { group: "stream", category: "stream", commands: stream::COMMANDS },
    Family { group: "hyperloglog", category: "hyperloglog", commands: hyperloglog::COMMANDS },
    Family { group: "pubsub", category: "pubsub", commands: pubsub::COMMANDS },
    Family { group: "pubsub", category: "", commands: pubsub::HELP },
    Family { group: "scripting", category: "scripting", commands: scripting::COMMANDS },
    Family { group: "transactions", category: "transaction", commands: transaction::COMMANDS },
    Family { group: "server", category: "", commands: acl::COMMANDS },
    Family { group: "server", category: "", commands: persistence::COMMANDS },
    Family { group: "server", category: "admin", commands: persistence::LAST },
    Family { group: "server", category: "connection", commands: introspect::COMMANDS },
    Family { group: "server", category: "", commands: config::COMMANDS },
    Family { group: "server", category: "", commands: info::COMMANDS },
    Family { group: "server", category: "", commands: memory::COMMANDS },
    Family { group: "server", category: "", commands: server::COMMANDS },
    Family { group: "server", category: "", commands: replication::COMMANDS },
    Family { group: "server", category: "admin", commands: replication::ROLE },
    Family { group: "server", category: "", commands: monitor::COMMANDS },
    Family { group: "server", category: "", commands: debug::COMMANDS },
    Family { group: "server", category: "", commands: lolwut::COMMANDS },
    Family { group: "server", category: "", commands: commandlog::COMMANDS },
    Family { group: "server", category: "", commands: latency::COMMANDS },
];

pub use polder_table::{Db, Stop};
