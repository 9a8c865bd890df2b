//! Changes: what each commit reports about the keys that it changes, and to which receiver.
//!
//! ```text
//!   note a change --> the commit is near: ChangeSink::tell --> CommitView::post --> one store commits keys and messages
//! ```
//!
//! A command (or maintenance) notes a change while its transaction runs. Right before the commit, the one [`ChangeSink`] of the process
//! sees all of them and posts messages to inboxes (`shm::inbox`). The store that commits the keys also commits the messages. So no
//! receiver hears of a change that was not committed, and each committed change is heard of, also if a thread dies at any step. If the
//! transaction runs again, it notes and posts everything again.
//!
//! The table keeps its sink, and the sink is shown a transaction of the table. So this file, which both know, says what a sink may use of a
//! transaction: a [`CommitView`]. How a transaction serves it: `outgoing.rs`.

use polder_shm::Segment;
use polder_values::Nodes;

use crate::api::{Db, Found, Stop};

/// What happened to a key, or to a whole database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'c> {
    /// Redis's letter for the class of the event: `g`, `$`, `l` ...
    pub class: char,
    pub event: &'static str,
    pub db: Db,
    /// None: all keys of the database.
    pub key: Option<&'c [u8]>,
}

/// What may be used of a transaction by what adds messages to its commit.
pub trait CommitView: Nodes {
    /// The segment that it changes.
    fn segment(&self) -> &Segment;

    /// The client for which the transaction runs (0: none). Some clients do not want to hear of their own changes.
    fn origin(&self) -> u64;

    /// Looks at a key without locking it or adding it to the read set: what is found was true a moment ago.
    ///
    /// # Errors
    /// A fault.
    fn glimpse(&self, db: Db, key: &[u8]) -> Result<Option<Found<'_>>, Stop>;

    /// A number below `end`, each as likely as the others; 0 for no end.
    fn draw_below(&self, end: u64) -> u64;

    /// Sends a message to a seat, in one of its lives, when this transaction commits.
    fn post(&self, to: u64, life: u64, parts: &[&[u8]]);
}

/// The receiver of changes. It is called right before they are committed, while the keys are locked, so no reader sees them earlier.
pub trait ChangeSink: Send + Sync {
    /// Posts what is to be told.
    ///
    /// # Errors
    /// A fault: the transaction does not commit then.
    fn tell(&self, commit: &dyn CommitView, changes: &[Change<'_>]) -> Result<(), Stop>;
}

/// Writes the dump of a value, as DUMP replies it, behind what is in `into`.
pub type Dump = fn(&dyn Nodes, &Found<'_>, &mut Vec<u8>) -> Result<(), Stop>;
