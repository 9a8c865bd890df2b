//! HyperLogLogs: how many different elements there were, about.
use crate::families::row_named;
use polder_base::options::Words;
use polder_table::Stop;

use crate::database::{Database, Scope};

/// # HyperLogLogs
///
/// ```
/// # let name = format!("shm:polder-doc-hyperloglog-{}", std::process::id());
/// # use polder_engine::{Memory, Options};
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// assert!(db.pfadd("visitors", &["ann", "bob", "ann"])?);
/// assert_eq!(db.pfcount(&["visitors"])?, 2);
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `PFADD`: adds elements. Returns whether that has changed the estimate, or made the key.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn pfadd(&self, key: impl AsRef<[u8]>, elements: &[impl AsRef<[u8]>]) -> Result<bool, Stop> {
        self.one(const { row_named("PFADD") }, Words::new().bytes(&key).all(elements))
    }

    /// `PFCOUNT`: about how many different elements were added to any of the keys, with a standard error of 0.81 %.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn pfcount(&self, keys: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("PFCOUNT") }, Words::new().all(keys))
    }

    /// `PFMERGE`: adds to a key what was added to others.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn pfmerge(&self, destination: impl AsRef<[u8]>, sources: &[impl AsRef<[u8]>]) -> Result<(), Stop> {
        self.one(const { row_named("PFMERGE") }, Words::new().bytes(&destination).all(sources))
    }
}
