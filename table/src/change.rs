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
    /// The fields of a hash that it happened to, as [`parts_text`] writes them; empty where nothing has asked for them.
    pub parts: &'c [u8],
}

/// Writes fields as Redis's messages name them: `length:field`, with commas between.
pub(crate) fn parts_text<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Vec<u8> {
    let mut text = Vec::new();
    for part in parts {
        if !text.is_empty() {
            text.push(b',');
        }
        text.extend_from_slice(format!("{}:", part.len()).as_bytes());
        text.extend_from_slice(part);
    }
    text
}

impl<'c> Change<'c> {
    /// The fields that the change names.
    pub fn each_part(&self) -> impl Iterator<Item = &'c [u8]> {
        let mut rest = self.parts;
        std::iter::from_fn(move || {
            let digits = rest.iter().position(|byte| *byte == b':')?;
            let length: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
            let (part, behind) = rest[digits + 1..].split_at_checked(length)?;
            rest = behind.strip_prefix(b",").unwrap_or(behind);
            Some(part)
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_they_were_written() {
        let parts: [&[u8]; 4] = [b"field", b"", b"1:a,", b"\xff"];
        let text = parts_text(parts.into_iter());
        assert_eq!(text, b"5:field,0:,4:1:a,,1:\xff");
        let change = Change { class: 'h', event: "hset", db: 0, key: None, parts: &text };
        assert!(change.each_part().eq(parts));
        assert_eq!(Change { parts: b"", ..change }.each_part().count(), 0);
    }
}
