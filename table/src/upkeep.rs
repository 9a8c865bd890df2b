//! The upkeep of a table, by any process: room, memory, expiry and eviction; and walks that verify or describe it.

pub(crate) mod compact;
pub(crate) mod copying;
pub(crate) mod figures;
pub(crate) mod grow;
pub(crate) mod inspect;
pub(crate) mod maintenance;
pub(crate) mod oom_retry;
pub(crate) mod report;
pub(crate) mod sample;
pub(crate) mod shrink;
pub(crate) mod verify;
pub(crate) mod weight;
