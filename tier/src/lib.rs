//! Stores of values that have left the memory: bytes by names.
//!
//! ```text
//!   put     several copies, together; once it has returned they outlive the process        (not a power cut: nothing is synced)
//!   get     several copies by their names
//! ```
//!
//! - **V1** A copy's bytes depend on its name alone, so it may be put again, and is never changed.
//!
//! **Invariant**: this crate knows no key and no memory. Which copies live is said elsewhere.

mod memory;
pub mod rocks;

pub use memory::Memory;

/// Bytes of a name: see `polder_table::Name`, whose order is that of these bytes.
pub const NAME_BYTES: usize = 10;

/// The name of a copy.
pub type Name = [u8; NAME_BYTES];

/// Why a store has failed: the disk is full, a file is damaged, the library is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Says which copies are of use. Threads of the store ask it, several at once.
pub trait Judge: Send + Sync {
    /// Returns false if a copy is of no use any more, and never will be: the store may drop it.
    fn keeps(&self, name: &Name, copy: &[u8]) -> bool;
}

/// A store of copies. Several threads use it at once.
pub trait Store: Send + Sync {
    /// Takes copies. Once it has returned they are there, also for another process that opens the store after this one has died.
    ///
    /// # Errors
    /// Some of them may not be there then.
    fn put(&self, copies: &[(Name, &[u8])]) -> Result<(), StoreError>;

    /// The copies with these names, in their order; nothing for one that is not there.
    fn get(&self, names: &[Name]) -> Vec<Result<Option<Vec<u8>>, StoreError>>;

    /// Drops the copies that are of no use ([`Judge`]), also those that would be looked at much later. Takes long.
    fn compact(&self);

    /// Has [`Store::compact`] end soon, and not begin again.
    fn end(&self);

    /// The number of copies, about.
    fn copies(&self) -> u64;

    /// Bytes that the store has in the memory of its process.
    fn memory_bytes(&self) -> u64;

    /// Bytes of its files.
    fn disk_bytes(&self) -> u64;

    /// Its name and version.
    fn version(&self) -> String;
}
