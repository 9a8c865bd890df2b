//! The table through its public interface: reads, transactions, growth, maintenance, snapshots, damage.
mod basics;
mod ceiling;
#[path = "../common/mod.rs"]
mod common;
mod compact;
mod damage;
#[path = "../../../testkit/src/held.rs"]
mod held;
mod letters;
mod log;
mod maintenance;
mod reads;
mod retired;
mod snapshot;
mod spent;
mod stress;
mod swap;
mod tier;
mod verify;
mod watch;
