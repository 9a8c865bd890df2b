//! The life of a call: found, admitted, run, accounted. Transactions, pipelines, waiting calls, scripts, publish and subscribe, tracking,
//! monitors, users, persistence, and the commands that concern a session or the process.
//!
//! Families over a session have rows of their own ([`row`]); those over the table alone live in `polder-commands`.
//!
//! **Invariant:** [`FAMILIES`] is the only registration there is.
#![forbid(unsafe_code)]

pub mod acl;
pub mod assist;
pub mod at_start;
pub mod batching;
pub mod blocking;
mod categories;
pub mod changes;
pub mod client;
pub mod cluster;
pub mod commandlog;
pub mod config;
pub mod configuration;
pub mod connection;
pub mod cross_process;
pub mod debug;
pub mod denials;
pub mod direct;
pub mod effects;
pub mod execute;
pub mod flushes;
pub mod followers;
pub mod helps;
pub mod hints;
pub mod info;
pub mod introspect;
pub mod latency;
mod line_limit;
mod locks;
pub mod lolwut;
pub mod lookup;
pub mod memory;
pub mod metrics;
pub mod migrate;
pub mod monitor;
pub mod notes;
pub mod opened;
pub mod peer_replies;
pub mod persistence;
pub mod pubsub;
pub mod recorder;
pub mod reload;
pub mod replay;
pub mod replication;
mod retry;
pub mod row;
mod run;
pub mod saves;
pub mod scripting;
pub mod scripts;
pub mod server;
pub mod session;
pub mod statistics;
mod storage_figures;
pub mod storage_note;
pub mod storage_process;
pub mod tickets;
pub mod tracking;
pub mod transaction;
pub mod users;

pub use batching::{TOGETHER_MAX, execute_together, may_share};
pub use direct::DirectCall;
pub use execute::{CallHint, Progress, execute, execute_foreseen, give_up, resume, time_out};
pub use lookup::{all, find, find_subcommand, rename, row_named};
use polder_calls::Command;
use polder_commands::{
    bitmap, database, dump, durability, expiry, flush, geo, hash, hyperloglog, item, key, list, object, set,
    sort, sorted_set, stream, string, view,
};
pub use polder_table::{Db, Stop};
pub use row::{Row, SessionCall, TxnCall};
pub use session::{Host, Session};

/// A family: what COMMAND DOCS calls a group, the ACL category of its commands, and their rows.
pub struct Family {
    /// `string`, `sorted-set`, ...
    pub group: &'static str,
    /// Without the `@`; empty for none.
    pub category: &'static str,
    /// Rows over a [`Call`].
    commands: &'static [Command],
    /// Rows over a session.
    rows: &'static [Row],
}

impl Family {
    /// Its rows, in their order.
    pub fn commands(&self) -> impl Iterator<Item = &'static Command> {
        self.commands.iter().chain(self.rows.iter().map(|row| &row.command))
    }
}

/// A family whose commands know no session.
const fn family(group: &'static str, category: &'static str, commands: &'static [Command]) -> Family {
    Family { group, category, commands, rows: &[] }
}

/// A family some of whose commands concern sessions; those stand behind the others.
const fn both(
    group: &'static str,
    category: &'static str,
    commands: &'static [Command],
    rows: &'static [Row],
) -> Family {
    Family { group, category, commands, rows }
}

/// A family whose commands concern sessions.
const fn hosted(group: &'static str, category: &'static str, rows: &'static [Row]) -> Family {
    Family { group, category, commands: &[], rows }
}

/// Every family, in the order of the documentation. Adding a command touches one family's file only.
pub static FAMILIES: &[Family] = &[
    family("generic", "keyspace", key::COMMANDS),
    family("generic", "keyspace", expiry::COMMANDS),
    family("generic", "keyspace", database::WALKS),
    both("generic", "keyspace", object::COMMANDS, helps::OBJECT),
    both("generic", "keyspace", dump::COMMANDS, migrate::COMMANDS),
    family("generic", "keyspace", view::COMMANDS),
    family("generic", "", sort::COMMANDS),
    family("generic", "connection", durability::COMMANDS),
    hosted("connection", "connection", connection::COMMANDS),
    hosted("connection", "connection", client::COMMANDS),
    hosted("cluster", "connection", cluster::CONNECTION),
    hosted("cluster", "", cluster::COMMANDS),
    both("server", "", database::COMMANDS, server::TIME),
    family("server", "", flush::COMMANDS),
    family("string", "string", string::COMMANDS),
    family("string", "string", item::COMMANDS),
    family("bitmap", "bitmap", bitmap::COMMANDS),
    family("list", "list", list::COMMANDS),
    family("hash", "hash", hash::COMMANDS),
    family("set", "set", set::COMMANDS),
    family("sorted-set", "sortedset", sorted_set::COMMANDS),
    family("geo", "geo", geo::COMMANDS),
    both("stream", "stream", stream::COMMANDS, helps::STREAM),
    family("hyperloglog", "hyperloglog", hyperloglog::COMMANDS),
    hosted("pubsub", "pubsub", pubsub::COMMANDS),
    hosted("pubsub", "", pubsub::HELP),
    hosted("scripting", "scripting", scripting::COMMANDS),
    hosted("transactions", "transaction", transaction::COMMANDS),
    hosted("server", "", acl::COMMANDS),
    hosted("server", "", persistence::COMMANDS),
    hosted("server", "admin", persistence::LAST),
    hosted("server", "connection", introspect::COMMANDS),
    hosted("server", "", config::COMMANDS),
    hosted("server", "", info::COMMANDS),
    hosted("server", "", memory::COMMANDS),
    hosted("server", "", server::COMMANDS),
    hosted("server", "", replication::COMMANDS),
    hosted("server", "admin", replication::ROLE),
    hosted("server", "", monitor::COMMANDS),
    hosted("server", "", debug::COMMANDS),
    hosted("server", "", lolwut::COMMANDS),
    hosted("server", "", commandlog::COMMANDS),
    hosted("server", "", latency::COMMANDS),
];
