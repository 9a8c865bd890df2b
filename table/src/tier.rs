//! Values in a tier: they leave the memory and come back, by neutral transactions (`txn/neutral.rs`) that no user notices. The tier itself is a store of
//! bytes by names, which a floor above keeps.

use std::time::Duration;

pub(crate) mod fetch;
mod judge;
pub(crate) mod room;
pub(crate) mod spill;

/// The longest wait for a lock, as in other maintenance: the holder may be stopped.
pub(crate) const PATIENCE: Duration = Duration::from_micros(100);
