//! A known sum of what the caches of seats hold.

use std::sync::atomic::AtomicU64;

/// The bytes of free nodes in the caches of all seats, as they were last summed. The sum reads half a kilobyte of each seat, so that a
/// figure is used for as many questions as there are seats.
#[derive(Default)]
pub(crate) struct CachedBytes {
    pub(crate) bytes: AtomicU64,
    /// The number of times that it has been used.
    pub(crate) questions: AtomicU64,
}
