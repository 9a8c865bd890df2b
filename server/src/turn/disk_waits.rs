//! The connections and calls of a thread that wait for the disk: see [`disk`](super::disk).

/// What of a thread waits for the disk.
#[derive(Default)]
pub struct DiskWaits {
    /// Replies wait in this turn; those to reads, too.
    pub is_on: bool,
    pub covers_reads: bool,
    /// Writes were refused when the turn began, since the log is not written.
    pub refuses_writes: bool,
    /// Connections that are held.
    pub held: Vec<usize>,
    /// Numbers that calls wait for, and the clients that have made them.
    pub calls: Vec<(u64, u64)>,
}

impl DiskWaits {
    /// Whether anything waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.calls.is_empty()
    }

    /// Adds a client whose call waits for a number.
    pub fn add_call(&mut self, csn: u64, client: u64) {
        self.calls.push((csn, client));
    }

    /// Forgets a connection that is closed.
    pub fn forget(&mut self, slot: usize) {
        self.held.retain(|held| *held != slot);
    }
}
