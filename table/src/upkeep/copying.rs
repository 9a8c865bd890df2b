//! Keys of another memory: what a snapshot of that memory shows is made here, node by node.
//!
//! ```text
//!   there   snapshot: walk --> items --> View: entry, record, nodes (read, never written)
//!                                         |
//!   here    a thread with a seat  <-------+   a packed string: an update of one key (`access/update.rs`)
//!                                             else: a transaction, whose nodes are made from the leaves up
//! ```
//!
//! - **C1** Nothing that is made here names anything there: keys and bytes are copied, and the references of
//!   a tree become those of its copy. Both memories may lie at any address and have any secret, size and page
//!   size.
//! - **C2** A reader of the other memory takes no lock of it and writes nothing into it. That its nodes stay
//!   as they are is the pin of the snapshot (N6 of `log/snapshot.rs`), which the [`View`] borrows.
//! - **C3** Each key is one commit here. A copier that dies leaves whole keys. That no process takes these
//!   for all of the data is the caller's part: a segment without a name, or staged databases.

use polder_shm::layout::{features, header};
use polder_values::duplicate::duplicate;
use polder_values::{Kind, Value};

use crate::api::{Attributes, Db, Found, Mode, New, Replaces, Stop};
use crate::layout::directory::PIECES_MAX;
use crate::layout::extras::{ItemExtras, announce_feature};
use crate::log::snapshot::{Item, View};
use crate::table::Table;
use crate::txn::Txn;

/// The most extents that a database is made with, as a power of two: a transaction makes them all.
const DOUBLINGS_MAX: u32 = 10;

impl Table {
    /// Prepares this table for values of another one: what they need is announced before one is there.
    pub fn prepare_for(&self, other: &Table) {
        let of_values = features::ITEM_EXTRAS | features::STREAM_PRODUCERS | features::ARRAYS;
        let stored = other.segment().load(header::LAYOUT) & of_values;
        if stored != 0 {
            announce_feature(self.segment(), stored);
        }
    }

    /// Makes a database that is about to get the keys of one with this many extents, unless there is one: it
    /// does not grow step by step then.
    ///
    /// # Errors
    /// [`Fault::Full`](polder_base::Fault::Full), [`Stop::Busy`].
    pub fn make_database(&self, db: Db, extents: u64) -> Result<(), Stop> {
        let doublings = extents.checked_ilog2().unwrap_or(0).min(DOUBLINGS_MAX);
        if doublings == 0 || self.is_database(db) {
            return Ok(());
        }
        let txn = self.begin(Mode::Write)?;
        let made = txn.try_make_database(db, PIECES_MAX, doublings);
        if !matches!(made, Ok(true)) {
            txn.seat.rollback();
        }
        made.map(drop)
    }

    /// Gives a key, which must not be there, the state that it has in a snapshot of another memory, with its
    /// access clock if clocks count in the same way here. Returns false for one that had expired there.
    ///
    /// # Errors
    /// [`Fault::Full`](polder_base::Fault::Full); an entry that this program cannot read, or damage, there.
    pub fn copy_key(&self, from: View<'_>, item: &Item, db: Db) -> Result<bool, Stop> {
        let Some(found) = from.found(item)? else { return Ok(false) };
        if self.copy_string(from, &found, db, &item.key).is_some() {
            return Ok(true);
        }
        let txn = self.begin(Mode::Write)?;
        loop {
            match write_copy(&txn, from, &found, db, &item.key).and_then(|()| txn.commit()) {
                Ok(()) => return Ok(true),
                Err(Stop::Retry | Stop::Busy) => txn.abort(),
                Err(stop) => return Err(stop),
            }
        }
    }

    /// The fast path of a packed string. `None`: it does not go.
    fn copy_string(&self, from: View<'_>, found: &Found<'_>, db: Db, key: &[u8]) -> Option<()> {
        let Value::Packed(value) = found.value else { return None };
        let is_plain = found.kind == Kind::String && !found.raw && !found.text && found.extras.is_empty();
        let counts_frequency = self.counts_frequency() || from.counts_frequency;
        if !is_plain || counts_frequency || self.segment().refuses_writes() {
            return None;
        }
        let location = self.location(db, key)?;
        let attributes = Attributes { expiry_ms: found.expiry_ms, flags: found.flags };
        // The moment of its last access is the clock of the new entry. There is no old one, for which the
        // time would matter.
        let accessed_ms = u64::from(found.clock) * 1000;
        self.quick_set_with(&location, key, value, attributes, (accessed_ms, 0)).map(drop)
    }
}

fn write_copy(txn: &Txn<'_>, from: View<'_>, found: &Found<'_>, db: Db, key: &[u8]) -> Result<(), Stop> {
    txn.declare(&[(db, key)])?;
    let value = duplicate(&from, txn, &found.value)?;
    let extras = ItemExtras::decode(found.extras).portable().encode();
    txn.write(db, key, &New { value, extras: &extras, ..New::from(*found) }, Replaces::Whole)?;
    txn.tell_as_whole();
    // Clocks of two kinds say nothing of each other.
    if txn.table.counts_frequency() == from.counts_frequency {
        txn.set_clock(db, key, found.clock)?;
    }
    Ok(())
}
