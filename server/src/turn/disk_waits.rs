//! The connections and calls of a thread that wait for the disk or for replicas: see [`disk`](super::disk).
use polder_calls::waiting::Copies;

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
    /// Copies that calls wait for, and the clients that have made them.
    pub calls: Vec<(Copies, u64)>,
}

impl DiskWaits {
    /// Whether anything waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.calls.is_empty()
    }

    /// Adds a client whose call waits for copies.
    pub fn add_call(&mut self, copies: Copies, client: u64) {
        self.calls.push((copies, client));
    }

    /// Forgets the call of a client, which waits no longer.
    pub fn forget_call(&mut self, client: u64) {
        self.calls.retain(|(_, waiting)| *waiting != client);
    }

    /// Forgets a connection that is closed.
    pub fn forget(&mut self, slot: usize) {
        self.held.retain(|held| *held != slot);
    }
}
