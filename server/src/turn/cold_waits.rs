//! The connections of a thread that wait for values of the tier; see `cold.rs`.
use std::collections::HashMap;

use polder_hub::tier::{AGAIN_MS, LOOK_MS};

/// The connections of a thread that wait for values.
#[derive(Default)]
pub struct ColdWaits {
    /// Each by its stop: its slot, and since when it waits.
    parked: HashMap<u64, (usize, u64)>,
    due_ms: u64,
    /// Something is wanted that has not been asked for.
    pub owes: bool,
}

impl ColdWaits {
    /// Adds a connection whose call has stopped.
    pub fn add(&mut self, stop: u64, slot: usize, now_ms: u64) {
        if self.parked.is_empty() {
            self.due_ms = now_ms + LOOK_MS;
        }
        self.parked.insert(stop, (slot, now_ms));
    }

    /// The connection of a stop that waits for nothing more.
    pub fn take(&mut self, stop: u64) -> Option<usize> {
        self.parked.remove(&stop).map(|(slot, _)| slot)
    }

    /// The time at which it is to be looked whether values do not come.
    pub fn due_ms(&self) -> Option<u64> {
        (!self.parked.is_empty()).then_some(self.due_ms)
    }

    /// The connections that have waited for too long; all of them if the tier `is_silent`. They ask again, or are told why nothing comes.
    pub fn take_late(&mut self, now_ms: u64, is_silent: impl FnOnce() -> bool) -> Vec<usize> {
        if self.due_ms().is_none_or(|due_ms| now_ms < due_ms) {
            return Vec::new();
        }
        self.due_ms = now_ms + LOOK_MS;
        let since = if is_silent() { u64::MAX } else { now_ms.saturating_sub(AGAIN_MS) };
        let late = self.parked.extract_if(|_, (_, since_ms)| *since_ms <= since);
        late.map(|(_, (slot, _))| slot).collect()
    }

    /// Forgets a connection that is closed.
    pub fn forget(&mut self, slot: usize) {
        self.parked.retain(|_, (parked, _)| *parked != slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_goes_on_when_its_values_are_there_or_late() {
        let mut waits = ColdWaits::default();
        assert_eq!(waits.due_ms(), None);
        (1..=3).for_each(|stop| waits.add(stop, stop as usize * 10, 1_000));
        assert_eq!((waits.take(2), waits.take(2)), (Some(20), None));
        assert!(waits.take_late(1_000 + LOOK_MS - 1, || true).is_empty());
        assert!(waits.take_late(1_000 + LOOK_MS, || false).is_empty());
        waits.forget(30);
        assert_eq!(waits.take_late(1_000 + AGAIN_MS, || false), [10]);
        waits.add(4, 40, 2_000);
        assert_eq!(waits.take_late(2_000 + LOOK_MS, || true), [40]);
        assert_eq!(waits.due_ms(), None);
    }
}
