//! What goes out of use with a transaction; and what it has made and replaced again, which is free before the commit.
//!
//! ```text
//!   call 1   SET k v1    makes n1
//!   call 2   SET k v2    makes n2; n1 is spent: the call may still read it for its reply (SET ... GET)
//!   between the calls    n1 goes back into the cache (`Seat::unmake`)
//!   commit               n2 is published; what the last call has spent is retired with it, like any node of before
//! ```
//!
//! S1 is not concerned: no other thread has ever seen such a node. What was made by an earlier transaction is retired with the commit, as ever,
//! also where a spent node names it.

use polder_base::Ref;

use crate::api::Stop;
use crate::layout::entry::Image;
use crate::layout::raw;
use crate::layout::record;
use crate::txn::Txn;
use polder_values::Nodes;

impl Txn<'_> {
    /// Notes that the record of an entry, if it has one, goes out of use; `whole`: its value, too. Its key is at most `key_max` bytes long.
    pub(crate) fn retire_record(&self, image: &Image, whole: bool, key_max: usize) -> Result<(), Stop> {
        if !image.is_reference() {
            return Ok(());
        }
        // An edit shares the value's tree with its successor, but each record has a tree of its own for a long key.
        if !whole
            && key_max > record::KEY_MAX
            && let record::Key::Long(key) = self.record(image.record()?)?.key
            && !key.refs[0].is_none()
        {
            self.retire(key.refs[0], true)?;
        }
        self.retire(image.record()?, whole)
    }

    /// Notes that a record, or a node of a value, goes out of use.
    pub(crate) fn retire(&self, node: Ref, whole: bool) -> Result<(), Stop> {
        self.attempt.dirty.set(true);
        self.buffers.nodes.olds.set(self.buffers.nodes.olds.get() + 1);
        Ok(self.seat.note_old(node, whole)?)
    }

    /// As [`Txn::retire_record`], of an entry that this transaction has written: mostly of a record that it has made.
    #[cold]
    pub(crate) fn spend_record(&self, image: &Image, whole: bool) -> Result<(), Stop> {
        if !image.is_reference() {
            return Ok(());
        }
        if !whole
            && let record::Key::Long(key) = self.record(image.record()?)?.key
            && !key.refs[0].is_none()
        {
            self.spend(key.refs[0], true);
        }
        self.spend(image.record()?, whole);
        Ok(())
    }

    /// Notes that a node which this transaction has made goes out of use. What the call that is at work has found may lie in it, so it stays until
    /// [`Txn::end_call`] or the commit.
    fn spend(&self, node: Ref, whole: bool) {
        self.attempt.dirty.set(true);
        self.buffers.used.set(true);
        self.buffers.nodes.spent.borrow_mut().push((node, whole));
    }

    /// To be called between the calls that share a transaction, when nothing that was found is used any more: frees what this transaction has made
    /// and replaced again. No other transaction ever saw it, so it need not wait for the commit: a script that writes one large key
    /// thousands of times needs memory for two values.
    ///
    /// # Errors
    /// As [`Txn::write`].
    #[inline]
    pub fn end_call(&self) -> Result<(), Stop> {
        if self.buffers.nodes.spent.borrow().is_empty() { Ok(()) } else { self.free_spent() }
    }

    #[cold]
    fn free_spent(&self) -> Result<(), Stop> {
        let mut spent = self.buffers.nodes.spent.take();
        let mut items = self.buffers.nodes.new_items.borrow_mut();
        while let Some((node, whole)) = spent.pop() {
            if !self.seat.has_made(node, &mut items) {
                // Of an earlier transaction: others may see it.
                self.retire(node, whole)?;
                continue;
            }
            if whole {
                let named = raw::parts(self.segment(), node)?.0;
                spent.extend(named.iter().filter(|node| !node.is_none()).map(|node| (*node, true)));
            }
            self.buffers.nodes.made.borrow_mut().remove(node);
            self.seat.unmake(node, &mut items);
        }
        // For the next ones.
        self.buffers.nodes.spent.replace(spent);
        Ok(())
    }

    /// What the last call has replaced goes with the commit: its reply may still be read from it.
    pub(crate) fn retire_spent(&self) -> Result<(), Stop> {
        let spent = self.buffers.nodes.spent.take();
        spent.iter().try_for_each(|(node, whole)| self.retire(*node, *whole))
    }

    /// [`Nodes::release`] and [`Nodes::release_tree`].
    pub(crate) fn release_node(&self, node: Ref, whole: bool) {
        // A transaction of one key and one write ends with its call.
        if self.is_private(node) && !self.single.get().is_active() {
            self.spend(node, whole);
        } else if let Err(Stop::Fault(fault)) = self.retire(node, whole) {
            self.trouble(fault);
        }
    }
}
