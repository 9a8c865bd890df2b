//! What a transaction holds: keys that it has locked, where their entries lie, and what they are going to be.

use crate::access::lookup;
use crate::api::{Db, Found, Stop};
use crate::layout::directory::Extent;
use crate::layout::entry::Image;
use crate::layout::expired::Expired;
use crate::layout::hash::Hash;

/// Where a locked key's entry lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub shadow: usize,
    pub unit: usize,
    pub image: Image,
    /// 0 home, 1 the next bucket, 2 the stash.
    pub hop: u8,
    /// Its key does not exist any more.
    pub expired: Option<Expired>,
}

/// A key that the transaction has locked.
pub(crate) struct Held {
    pub db: Db,
    /// The key's place among the buffers' key bytes.
    pub key: (usize, usize),
    pub hash: Hash,
    pub extent: Extent,
    pub home: usize,
    pub spot: Option<Spot>,
    pub pending: Option<Pending>,
    /// The entry that was there goes out of use; true: with all that its record names.
    pub retires: Option<bool>,
    /// The database is being emptied by this very transaction: the key belongs to the new, private one.
    pub fresh: bool,
    /// The key as it was before this transaction emptied its database. What was written to it is swept with the old directory, and no
    /// later lookup finds it.
    pub passed: bool,
    /// The first write of it of which the change log has not been told, by the transaction's count of writes; 0: there is none.
    pub untold: u64,
    /// Some write of it changes what clients see.
    pub counts: bool,
    /// The entry has expired, and stays unless the transaction writes the key ([`Txn::removes_expired`]).
    pub keeps_expired: bool,
}

/// An entry as it was met, and what it says.
pub(crate) type Met<'a> = (lookup::Hit, Found<'a>);

/// What a key is going to be.
#[derive(Clone, Copy)]
pub(crate) enum Pending {
    Write(Image),
    Remove,
}

/// The order of locks (T2): see [`Extent::order`].
pub(crate) type Order = (u64, u64, u64);

/// The key that a transaction of one key holds: see [`crate::txn::single_key`]. Key and location are what the transaction was told to foresee ([`Txn::foresee`]).
#[derive(Clone, Copy, Default)]
pub(crate) struct SingleKeyTxn {
    pub(crate) active: bool,
    /// Where the entry begins, whose image is the buffers' `before`. It is a key, and has not expired.
    pub(crate) unit: Option<u8>,
    pub(crate) pending: Plan,
    /// The entry that was there goes with all that its record names.
    pub(crate) whole: bool,
}

impl SingleKeyTxn {
    /// Whether the transaction is one.
    pub(crate) fn is_active(self) -> bool {
        self.active
    }
}

/// What the key is going to be.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Plan {
    #[default]
    Same,
    /// As the buffers' `after`.
    Write,
    Remove,
}

/// An entry that needs room.
#[derive(Clone, Copy)]
pub(crate) struct Want {
    pub db: Db,
    pub position: u64,
    pub units: usize,
    /// There was none: its place must grow.
    pub lacks: bool,
}

/// Why a transaction cannot be placed as it is.
pub(crate) enum Deficit {
    /// What it adds, some of which found no room.
    Room(Vec<Want>),
    Stop(Stop),
}

impl From<Stop> for Deficit {
    fn from(stop: Stop) -> Deficit {
        Deficit::Stop(stop)
    }
}
