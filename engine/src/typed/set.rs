//! Sets.
use crate::families::row_named;
use polder_base::options::Words;
use polder_table::Stop;

use crate::database::{Database, Scope};

/// # Sets
///
/// ```
/// # let name = format!("shm:polder-doc-set-{}", std::process::id());
/// # use polder_engine::{Memory, Options};
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// assert_eq!(db.sadd("online", &["ann", "bob", "ann"])?, 2);
/// db.sadd("staff", &["bob", "eve"])?;
/// assert!(db.sismember("online", "ann")?);
/// assert_eq!(db.sinter(&["online", "staff"])?, [b"bob"]);
/// assert_eq!(db.srem("online", &["ann"])?, 1);
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `SADD`: adds members, and returns how many of them are new.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sadd(&self, key: impl AsRef<[u8]>, members: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("SADD") }, Words::new().bytes(&key).all(members))
    }

    /// `SREM`: removes members, and returns how many there were. The key goes with its last member.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn srem(&self, key: impl AsRef<[u8]>, members: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("SREM") }, Words::new().bytes(&key).all(members))
    }

    /// `SCARD`: the number of members.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn scard(&self, key: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("SCARD") }, Words::new().bytes(&key))
    }

    /// `SISMEMBER`: whether a member is there.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sismember(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<bool, Stop> {
        self.one(const { row_named("SISMEMBER") }, Words::new().bytes(&key).bytes(&member))
    }

    /// `SMISMEMBER`: whether members are there, in their order.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn smismember(&self, key: impl AsRef<[u8]>, members: &[impl AsRef<[u8]>]) -> Result<Vec<bool>, Stop> {
        self.several(const { row_named("SMISMEMBER") }, Words::new().bytes(&key).all(members))
    }

    /// `SMEMBERS`: all members, in no order.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn smembers(&self, key: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("SMEMBERS") }, Words::new().bytes(&key))
    }

    /// `SMOVE`: moves a member from one set to another. Returns whether it was there.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn smove(
        &self,
        source: impl AsRef<[u8]>,
        destination: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<bool, Stop> {
        self.one(const { row_named("SMOVE") }, Words::new().bytes(&source).bytes(&destination).bytes(&member))
    }

    /// `SPOP`: takes a random member. The key goes with its last one.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn spop(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("SPOP") }, Words::new().bytes(&key))
    }

    /// `SPOP` with a count: takes up to that many random members.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn spop_many(&self, key: impl AsRef<[u8]>, count: u64) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("SPOP") }, Words::new().bytes(&key).count(count))
    }

    /// `SRANDMEMBER`: a random member, which stays.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn srandmember(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("SRANDMEMBER") }, Words::new().bytes(&key))
    }

    /// `SRANDMEMBER` with a count: that number of different random members, or all of them; of a negative count that number of members, some
    /// perhaps several times.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn srandmember_many(&self, key: impl AsRef<[u8]>, count: i64) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("SRANDMEMBER") }, Words::new().bytes(&key).integer(count))
    }

    /// `SINTER`: the members that are in all of the sets.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sinter(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("SINTER") }, Words::new().all(keys))
    }

    /// `SINTERCARD`: how many members are in all of the sets. It counts no further than `limit`; 0 means no limit.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sintercard(&self, keys: &[impl AsRef<[u8]>], limit: u64) -> Result<u64, Stop> {
        self.one(const { row_named("SINTERCARD") }, Words::new().counted(keys).bytes("LIMIT").count(limit))
    }

    /// `SINTERSTORE`: as [`Database::sinter`], into a key. Returns the number of members.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sinterstore(&self, destination: impl AsRef<[u8]>, keys: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("SINTERSTORE") }, Words::new().bytes(&destination).all(keys))
    }

    /// `SUNION`: the members that are in any of the sets.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sunion(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("SUNION") }, Words::new().all(keys))
    }

    /// `SUNIONSTORE`: as [`Database::sunion`], into a key. Returns the number of members.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sunionstore(&self, destination: impl AsRef<[u8]>, keys: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("SUNIONSTORE") }, Words::new().bytes(&destination).all(keys))
    }

    /// `SDIFF`: the members of the first set that are in none of the others.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sdiff(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("SDIFF") }, Words::new().all(keys))
    }

    /// `SDIFFSTORE`: as [`Database::sdiff`], into a key. Returns the number of members.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn sdiffstore(&self, destination: impl AsRef<[u8]>, keys: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("SDIFFSTORE") }, Words::new().bytes(&destination).all(keys))
    }
}
