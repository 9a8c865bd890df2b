//! One invocation of a command.
use polder_base::Reply;
use polder_table::{Db, Found, New, Replaces, Stop, Table, Txn};
use polder_values::Kind;

use crate::session::{Host, Session};

/// A command function's result: the reply has been written, or the reason why not.
pub type Outcome = Result<(), Stop>;

/// What Redis answers when a key holds another type.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// One invocation: arguments (the name first), transaction, reply, the client's session and the process around it.
pub struct Call<'c> {
    pub args: &'c [&'c [u8]],
    /// The memory itself: figures and limits that are not part of any transaction.
    pub table: &'c Table,
    pub txn: &'c Txn<'c>,
    pub reply: &'c mut dyn Reply,
    pub session: &'c mut Session,
    pub host: &'c dyn Host,
}

impl<'c> Call<'c> {
    /// The database the client has selected.
    pub fn db(&self) -> Db {
        self.session.db
    }

    /// The key's state, if it is there.
    pub fn find(&self, key: &[u8]) -> Result<Option<Found<'c>>, Stop> {
        self.txn.find(self.session.db, key)
    }

    /// The key's state, if it is there and of `kind`.
    ///
    /// # Errors
    /// WRONGTYPE when it holds another kind.
    pub fn find_kind(&self, key: &[u8], kind: Kind) -> Result<Option<Found<'c>>, Stop> {
        match self.find(key)? {
            Some(found) if found.kind != kind => Err(WRONG_TYPE.into()),
            found => Ok(found),
        }
    }

    /// Gives the key a wholly new value.
    pub fn put(&self, key: &[u8], new: &New<'_>) -> Outcome {
        self.txn.write(self.session.db, key, new, Replaces::Whole)
    }

    /// Gives the key an edited form of its old value: what was replaced in its trees has been released.
    pub fn edit(&self, key: &[u8], new: &New<'_>) -> Outcome {
        self.txn.write(self.session.db, key, new, Replaces::Edited)
    }

    /// Takes the key away with all it holds; answers whether it was there.
    pub fn remove(&self, key: &[u8]) -> Result<bool, Stop> {
        self.txn.remove(self.session.db, key, Replaces::Whole)
    }

    /// Tells listeners what happened to a key (keyspace events, blocked waiters, invalidation), once committed.
    pub fn notify(&self, _class: char, _event: &'static str, _key: &[u8]) {}
}
