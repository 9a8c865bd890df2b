//! The client beside real servers, and on shared memory without one.
mod chaos;
mod cluster;
mod completions;
mod examples;
mod live;
mod memory;
mod sentinel;
#[path = "../servers/mod.rs"]
mod servers;
mod spans;
mod tls;
mod ways;
