//! The connections of a thread that wait for values of the tier; see `cold.rs`.

/// The connections of a thread that wait for values.
#[derive(Default)]
pub struct ColdWaits {
    pub(super) slots: Vec<usize>,
    pub(super) due_ms: u64,
    /// The number of stops at stubs up to the last look.
    pub(super) stops: u64,
    /// Something is wanted that has not been asked for.
    pub(super) owes: bool,
}

impl ColdWaits {
    /// The time at which the connections are to look again.
    pub fn due_ms(&self) -> Option<u64> {
        (!self.slots.is_empty()).then_some(self.due_ms)
    }

    /// Forgets a connection that is closed.
    pub fn forget(&mut self, slot: usize) {
        self.slots.retain(|parked| *parked != slot);
    }
}
