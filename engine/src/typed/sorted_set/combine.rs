//! Unions, intersections and differences of sorted sets.
use crate::families::row_named;
use polder_table::Stop;

use super::{Database, Scope, Scored, Words, ZcombineOptions};

/// # Sorted sets combined
///
/// ```
/// # let name = format!("shm:polder-doc-combined-{}", std::process::id());
/// # use polder_engine::{Aggregate, Memory, Options, ZcombineOptions};
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// db.zadd("monday", &[(3.0, "ann"), (1.0, "bob")])?;
/// db.zadd("tuesday", &[(2.0, "ann")])?;
/// let sum = db.zunion(&["monday", "tuesday"], &ZcombineOptions::new())?;
/// assert_eq!(sum, [(b"bob".to_vec(), 1.0), (b"ann".to_vec(), 5.0)]);
/// let best = ZcombineOptions::new().aggregate(Aggregate::Max);
/// assert_eq!(db.zinterstore("both", &["monday", "tuesday"], &best)?, 1);
/// assert_eq!(db.zscore("both", "ann")?, Some(3.0));
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `ZUNION ... WITHSCORES`: the members that are in any of the sorted sets, with their scores.
    ///
    /// # Errors
    /// Not one weight for each key; those of [every call](Database#errors).
    pub fn zunion(&self, keys: &[impl AsRef<[u8]>], options: &ZcombineOptions) -> Result<Vec<Scored>, Stop> {
        self.several(
            const { row_named("ZUNION") },
            Words::new().counted(keys).options(options).bytes("WITHSCORES"),
        )
    }

    /// `ZUNIONSTORE`: as [`Database::zunion`], into a key. Returns the number of members.
    ///
    /// # Errors
    /// As [`Database::zunion`].
    pub fn zunionstore(
        &self,
        destination: impl AsRef<[u8]>,
        keys: &[impl AsRef<[u8]>],
        options: &ZcombineOptions,
    ) -> Result<u64, Stop> {
        self.one(
            const { row_named("ZUNIONSTORE") },
            Words::new().bytes(&destination).counted(keys).options(options),
        )
    }

    /// `ZINTER ... WITHSCORES`: the members that are in all of the sorted sets, with their scores.
    ///
    /// # Errors
    /// Not one weight for each key; those of [every call](Database#errors).
    pub fn zinter(&self, keys: &[impl AsRef<[u8]>], options: &ZcombineOptions) -> Result<Vec<Scored>, Stop> {
        self.several(
            const { row_named("ZINTER") },
            Words::new().counted(keys).options(options).bytes("WITHSCORES"),
        )
    }

    /// `ZINTERSTORE`: as [`Database::zinter`], into a key. Returns the number of members.
    ///
    /// # Errors
    /// As [`Database::zinter`].
    pub fn zinterstore(
        &self,
        destination: impl AsRef<[u8]>,
        keys: &[impl AsRef<[u8]>],
        options: &ZcombineOptions,
    ) -> Result<u64, Stop> {
        self.one(
            const { row_named("ZINTERSTORE") },
            Words::new().bytes(&destination).counted(keys).options(options),
        )
    }

    /// `ZINTERCARD`: how many members are in all of the sorted sets. It counts no further than `limit`; 0 means no limit.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zintercard(&self, keys: &[impl AsRef<[u8]>], limit: u64) -> Result<u64, Stop> {
        self.one(const { row_named("ZINTERCARD") }, Words::new().counted(keys).bytes("LIMIT").count(limit))
    }

    /// `ZDIFF ... WITHSCORES`: the members of the first sorted set that are in none of the others, with their scores.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zdiff(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Scored>, Stop> {
        self.several(const { row_named("ZDIFF") }, Words::new().counted(keys).bytes("WITHSCORES"))
    }

    /// `ZDIFFSTORE`: as [`Database::zdiff`], into a key. Returns the number of members.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zdiffstore(&self, destination: impl AsRef<[u8]>, keys: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("ZDIFFSTORE") }, Words::new().bytes(&destination).counted(keys))
    }
}
