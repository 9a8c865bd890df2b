//! The commands that show and change the process, its clients and its settings, and the figures that they show.
//!
//! Calls leave notes as they run, below this floor (`polder_runtime::noting`, `recorder`, `monitor`); here they are shown, and the
//! other processes of the segment are asked for theirs.
//!
//! **Invariant:** no call needs this crate to run: nothing below the engine names it.
#![forbid(unsafe_code)]

pub mod assist;
pub mod client;
pub mod cluster;
pub mod commandlog;
pub mod config;
pub mod debug;
pub mod helps;
mod hints;
pub mod hot_keys;
pub mod info;
pub mod introspect;
pub mod latency;
pub mod lolwut;
pub mod memory;
pub mod metrics;
pub mod migrate;
pub mod monitor;
pub mod nats_pages;
pub mod peer_replies;
pub mod server;
