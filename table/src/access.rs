//! The access to one key, or to a few, without a transaction: the place of a key, reads, and updates by one commit.

pub(crate) mod locate;
pub(crate) mod lookup;
pub(crate) mod mutation;
pub(crate) mod plain;
pub(crate) mod prefetch;
pub(crate) mod put;
pub(crate) mod read;
pub(crate) mod update;
