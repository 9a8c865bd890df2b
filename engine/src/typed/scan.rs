//! Walks through a database or a key by cursor: what the SCAN commands have in common.
use crate::families::row_named;
use polder_base::options::{ScanOptions, Words};
use polder_table::Stop;

use crate::database::{Database, Scope};
use crate::reply::{FromItem, Pairs};
use crate::typed::hash::Field;
use crate::typed::sorted_set::Scored;

/// One step of a walk. What is there during the whole walk is shown at least once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step<T> {
    /// Where the next step begins; 0 after the last one.
    pub cursor: u64,
    /// What this step has found, perhaps nothing.
    pub found: Vec<T>,
}

impl<T> Step<T> {
    fn of<F>((cursor, found): (u64, F), open: impl FnOnce(F) -> Vec<T>) -> Step<T> {
        Step { cursor, found: open(found) }
    }
}

/// # Walks by cursor
///
/// A walk begins with cursor 0, and its last step returns cursor 0.
///
/// ```
/// # let name = format!("shm:polder-doc-scan-{}", std::process::id());
/// # use polder_engine::{Memory, Options, ScanOptions};
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// db.mset(&[("user:1", "ann"), ("user:2", "bob"), ("other", "x")])?;
/// let (mut cursor, mut users) = (0, 0);
/// loop {
///     let step = db.scan(cursor, &ScanOptions::new().matching("user:*").count(100))?;
///     users += step.found.len();
///     cursor = step.cursor;
///     if cursor == 0 {
///         break;
///     }
/// }
/// assert_eq!(users, 2);
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `SCAN`: a step through the keys of the database.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn scan(&self, cursor: u64, options: &ScanOptions<'_>) -> Result<Step<Vec<u8>>, Stop> {
        let found = self.several(const { row_named("SCAN") }, Words::new().count(cursor).options(options))?;
        Ok(Step::of(found, |keys| keys))
    }

    /// `HSCAN`: a step through the fields of a hash, with their values.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hscan(
        &self,
        key: impl AsRef<[u8]>,
        cursor: u64,
        options: &ScanOptions<'_>,
    ) -> Result<Step<Field>, Stop> {
        self.scan_pairs(
            self.several(
                const { row_named("HSCAN") },
                Words::new().bytes(&key).count(cursor).options(options),
            ),
        )
    }

    /// `SSCAN`: a step through the members of a set.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sscan(
        &self,
        key: impl AsRef<[u8]>,
        cursor: u64,
        options: &ScanOptions<'_>,
    ) -> Result<Step<Vec<u8>>, Stop> {
        let found = self
            .several(const { row_named("SSCAN") }, Words::new().bytes(&key).count(cursor).options(options))?;
        Ok(Step::of(found, |members| members))
    }

    /// `ZSCAN`: a step through the members of a sorted set, with their scores.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zscan(
        &self,
        key: impl AsRef<[u8]>,
        cursor: u64,
        options: &ScanOptions<'_>,
    ) -> Result<Step<Scored>, Stop> {
        self.scan_pairs(
            self.several(
                const { row_named("ZSCAN") },
                Words::new().bytes(&key).count(cursor).options(options),
            ),
        )
    }

    fn scan_pairs<A: FromItem, B: FromItem>(
        &self,
        found: Result<(u64, Pairs<A, B>), Stop>,
    ) -> Result<Step<(A, B)>, Stop> {
        Ok(Step::of(found?, |pairs| pairs.0))
    }
}
