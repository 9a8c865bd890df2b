//! The segment, its seats, locks, logs and inboxes.
mod change_log;
#[path = "../common/mod.rs"]
mod common;
mod directory;
mod inbox;
mod liveness;
mod mapping;
mod races;
mod replicas;
mod scarcity;
mod storage;
