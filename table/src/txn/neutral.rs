//! Neutral transactions: they change where the value of a key lies, or in what form, and nothing that a user sees.
//!
//! Compaction moves nodes so (`compact.rs`), and values leave for a tier and come back (`tier/spill.rs`, `tier/fetch.rs`).
//!
//! | what would notice a change | why a neutral one goes unnoticed |
//! |---|---|
//! | WATCH, and other readers by version | the entry keeps its version |
//! | keyspace events, tracking, blocked calls | nothing is noted (`outgoing.rs`), so the sink of changes is not called |
//! | the change log | no write is counted, so nothing is left to be told as a whole (E2) |
//! | counters of changes and keys | the old entry does not retire as one that is replaced; both count alike in the tallies, but for that of stubs |
//! | a reader that runs meanwhile | it goes on reading the old nodes, which retire (S1) |
//!
//! A snapshot does notice, as it must: the old entry, whose nodes its pin holds, is saved (N2). If the thread dies, the change is recovered as
//! any other. A watch of an *absent* key may count it as one of the commits to its bucket, see `watch.rs`.

use crate::api::{Db, Stop};
use crate::layout::directory::Extent;
use crate::layout::entry::{Image, is_key};
use crate::layout::stub::Name;
use crate::txn::Txn;
use crate::txn::held::Pending;

/// Makes another entry of one that lies in this extent, or none.
pub(crate) type Change<'c> = &'c mut dyn FnMut(&Image, &Extent) -> Result<Option<Image>, Stop>;

/// Attempts to change one key.
const ATTEMPTS: usize = 8;

impl Txn<'_> {
    /// Gives a key the entry that `change` makes of its present one, in a transaction of its own. This transaction, a writer's, is empty before
    /// and after this. `change` may be called again; it makes the nodes that the new entry names, and retires those that only the old one
    /// names. `None`: the key stays as it is, and so does one that is absent or has expired. With `stub` the key's entry is the stub of this name, which
    /// itself does not tell the key. Returns whether it has another entry now.
    ///
    /// # Errors
    /// [`Stop::Retry`] or [`Stop::Busy`] where other threads hold the key; what `change` and a commit fail with. Nothing has happened then.
    pub(crate) fn neutral(
        &self,
        db: Db,
        key: &[u8],
        stub: Option<Name>,
        change: Change<'_>,
    ) -> Result<bool, Stop> {
        self.buffers.stubs.installing.set(stub);
        // The keys that the transaction before had to declare do not matter for this one.
        self.buffers.retry.extra.borrow_mut().clear();
        let mut outcome = Err(Stop::Retry);
        for _ in 0..ATTEMPTS {
            outcome = self
                .restate(db, key, change)
                .and_then(|is_restated| if is_restated { self.commit().map(|()| true) } else { Ok(false) });
            // Also after a commit: the next attempt begins with an empty transaction.
            self.reset();
            self.buffers.retry.trouble.take();
            if outcome != Err(Stop::Retry) {
                break;
            }
        }
        self.buffers.stubs.installing.set(None);
        outcome
    }

    /// Makes the key's new entry what it is going to be. Returns whether there is one.
    fn restate(&self, db: Db, key: &[u8], change: Change<'_>) -> Result<bool, Stop> {
        let index = self.hold(db, key, false)?;
        let (spot, extent) = {
            let held = &self.buffers.held.borrow()[index];
            (held.spot, held.extent)
        };
        let Some(spot) = spot.filter(|spot| spot.expired.is_none() && is_key(&spot.image)) else {
            return Ok(false);
        };
        let Some(image) = change(&spot.image, &extent)? else { return Ok(false) };
        assert!(
            image.version() == spot.image.version() && self.changes_noted() == 0 && !self.has_posts(),
            "a neutral change keeps the entry's version, and tells nothing"
        );
        // Neither counted as a write nor marked as replaced: what the old entry names is up to `change`.
        self.buffers.held.borrow_mut()[index].pending = Some(Pending::Write(image));
        Ok(true)
    }
}
