//! The transaction of one call or of several: the one place where calls are run, run again while the transaction asks for it, and counted.
//!
//! ```text
//!   a call by itself      execute::run_on_table \                           rewind the reply -> declare the keys -> run the calls -> commit
//!   calls of a pipeline   batching              |                                ^                                                    |
//!   EXEC, several EXECs   transaction            > new -> foresee -> run:        `-------- Retry, Cold, no room but it can be made ---'
//!   a typed call          direct                /                           end: count them, collect what has expired
//! ```
//! Functions of rows are reached from here by `run::run_row` (one call) and `run::run_inside` (one of several). Three ways do without: the fast path
//! of a row has no transaction, `execute::run_alone` makes one attempt and leaves all else to these, and a read-only loop of the tools has no reply.
use polder_base::Reply;
use polder_calls::call::Outcome;
use polder_table::{Counter, Db, Location, Table, Txn};

use crate::retry::retry_on;
use crate::run::end_transaction;

/// Calls that share one transaction.
pub(crate) struct CallGroup<'g> {
    table: &'g Table,
    txn: Txn<'g>,
    keys: &'g [(Db, &'g [u8])],
}

impl<'g> CallGroup<'g> {
    /// Calls in a transaction that has begun, which name these keys. `location` is the place of the first one, where that was looked up.
    pub fn new(
        table: &'g Table,
        mut txn: Txn<'g>,
        keys: &'g [(Db, &'g [u8])],
        location: Option<&'g Location>,
    ) -> CallGroup<'g> {
        if let (Some((_, key)), Some(location)) = (keys.first(), location) {
            txn.foresee(key, location);
        }
        CallGroup { table, txn, keys }
    }

    /// Runs `calls` and commits, again and again while the transaction asks for it. What an attempt has replied goes before the next one.
    ///
    /// # Errors
    /// Those of `calls`, and those for which another attempt is of no use: nothing has changed then.
    #[inline]
    pub fn run(
        &self,
        reply: &mut dyn Reply,
        mut calls: impl FnMut(&Txn<'g>, &mut dyn Reply) -> Outcome,
    ) -> Outcome {
        let mark = reply.mark();
        retry_on(&self.txn, self.keys, || {
            reply.rewind(mark);
            self.txn.declare(self.keys)?;
            calls(&self.txn, reply)
        })
    }

    /// Ends the transaction, which has run this many calls.
    #[inline]
    pub fn end(self, calls: u64) {
        self.txn.count(Counter::Calls, calls);
        end_transaction(self.table, self.txn);
    }
}
