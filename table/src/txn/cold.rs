//! Stubs that a transaction meets: what it wants of the tier, and the one in the place of which a value is put back.
//!
//! A transaction that needs a value which lies in a tier stops with [`Stop::Cold`], and publishes nothing. What it wants is noted here, and outlives its
//! attempts: the caller fetches it without a lock, a pin or an open transaction, and runs the call again.

use crate::api::{Db, Mode, Stop};
use crate::change::CommitView;
use crate::layout::hash::Hash;
use crate::layout::stub::{self, Cold, Name};
use crate::table::Table;
use crate::txn::Txn;
use crate::txn::held::Pending;

/// The number of no database: a look into a bucket does not know which it is of.
const UNKNOWN: Db = Db::MAX;

impl Table {
    /// The stubs that these keys may have.
    pub fn stubs_of(&self, keys: &[(Db, &[u8])]) -> Vec<Cold> {
        if keys.is_empty() {
            return Vec::new();
        }
        let txn = self.begin(Mode::Read);
        txn.map_or_else(
            |_| Vec::new(),
            |txn| {
                txn.meet_all(keys);
                txn.take_cold()
            },
        )
    }
}

impl Txn<'_> {
    /// Returns what the transaction wants of the tier, and forgets that. To be asked once the transaction was aborted that has stopped with [`Stop::Cold`].
    pub fn take_cold(&self) -> Vec<Cold> {
        let mut met = self.buffers.stubs.met.take();
        met.sort_unstable();
        met.dedup();
        met
    }

    /// Notes that a stub is met that may be of the key that is looked for.
    #[cold]
    pub(crate) fn meets(&self, name: Name) {
        self.buffers.stubs.met.borrow_mut().push(Cold::value(UNKNOWN, name));
    }

    /// Says in which database the stubs were met, where that has stopped a look for a key.
    #[cold]
    pub(crate) fn met_in(&self, db: Db, stop: Stop) -> Stop {
        if stop == Stop::Cold {
            let mut met = self.buffers.stubs.met.borrow_mut();
            met.iter_mut().filter(|cold| cold.db == UNKNOWN).for_each(|cold| cold.db = db);
        }
        stop
    }

    /// Notes the stubs of these keys as wanted. For a transaction that was aborted since it has met one of them.
    pub fn meet_all(&self, keys: &[(Db, &[u8])]) {
        for (db, key) in keys {
            // A stub is noted by the look itself.
            let _ = self.glimpse(*db, key);
        }
    }

    /// Notes that the key of a stub is wanted, and not its value.
    pub(crate) fn wants_key(&self, db: Db, name: Name) {
        self.buffers.stubs.met.borrow_mut().push(Cold::key(db, name));
    }

    /// Returns true if it makes a stub of an entry.
    pub(crate) fn spills(&self) -> bool {
        let held = self.buffers.held.borrow();
        held.iter().any(|held| matches!(&held.pending, Some(Pending::Write(image)) if image.stub().is_some()))
    }

    /// Notes the stubs that growth would cut in each shape. Returns false if there are none.
    pub(crate) fn wants_cut(&self, db: Db) -> bool {
        let cut = self.buffers.stubs.cut.take();
        self.buffers.stubs.met.borrow_mut().extend(cut.iter().map(|name| Cold::value(db, *name)));
        !cut.is_empty()
    }

    /// Returns true if a stub with these words is the one in the place of which the value is put back of a key with this hash.
    ///
    /// # Errors
    /// [`Stop::Cold`] if it may be this key's and nothing is put back.
    #[cold]
    pub(crate) fn is_installed(&self, first: u64, second: u64, hash: &Hash) -> Result<bool, Stop> {
        if !stub::may_be(second, hash) {
            return Ok(false);
        }
        let name = stub::name_of(first, second);
        match self.buffers.stubs.installing.get() {
            Some(wanted) => Ok(wanted == name),
            None => {
                self.meets(name);
                Err(Stop::Cold)
            }
        }
    }
}
