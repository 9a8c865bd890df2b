//! The connections and calls of a thread that wait for the disk or for replicas: see [`disk`](super::disk).
use polder_calls::waiting::Copies;
use polder_shm::Role;

/// The connections and calls of a thread that wait for the disk or for replicas.
#[derive(Default)]
pub struct DiskWaits {
    /// In this turn replies to writes wait for the disk; those to reads, too.
    pub in_file: bool,
    pub covers_reads: bool,
    /// Writes were refused when the turn began, since the log is not written.
    pub refuses_writes: bool,
    /// The count of replicas for which replies to writes wait in this turn.
    pub replicas: u64,
    /// The role of the memory when the turn began, where they wait for any.
    pub role: Role,
    /// Connections that are held.
    pub held: Vec<usize>,
    /// Copies that calls wait for, and the clients that have made them.
    pub calls: Vec<(Copies, u64)>,
}

impl DiskWaits {
    /// Returns true if replies wait in this turn.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.in_file || self.replicas > 0
    }

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
