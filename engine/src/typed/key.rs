//! Keys of every type: whether they are there, when they expire, what they hold.
use std::time::{Duration, SystemTime};

use crate::families::row_named;
use polder_base::options::{ExpireIf, Words, at_ms, in_ms};
use polder_table::Stop;

use crate::database::{Database, Scope};
use crate::typed::options::Lifetime;

/// # Keys of every type
///
/// ```
/// # let name = format!("shm:polder-doc-key-{}", std::process::id());
/// # use polder_engine::{ExpireIf, Lifetime, Memory, Options};
/// # use std::time::Duration;
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// db.rpush("jobs", &["a"])?;
/// assert_eq!(db.type_of("jobs")?.as_deref(), Some("list"));
/// assert_eq!(db.ttl("jobs")?, Lifetime::Endless);
/// assert!(db.expire("jobs", Duration::from_secs(60), ExpireIf::Always)?);
/// assert!(db.ttl("jobs")?.end().is_some_and(|left| left <= Duration::from_secs(60)));
/// assert_eq!(db.del(&["jobs", "nothing"])?, 1);
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `DEL`: deletes keys of any type, and returns how many there were.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn del(&self, keys: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("DEL") }, Words::new().all(keys))
    }

    /// `UNLINK`: as [`Database::del`].
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn unlink(&self, keys: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("UNLINK") }, Words::new().all(keys))
    }

    /// `EXISTS`: how many of the keys are there; one that is named twice counts twice.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn exists(&self, keys: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("EXISTS") }, Words::new().all(keys))
    }

    /// `TOUCH`: counts as an access of the keys, and returns how many of them are there.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn touch(&self, keys: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("TOUCH") }, Words::new().all(keys))
    }

    /// `TYPE`: what a key holds (`string`, `list`, `hash`, `set`, `zset`, `stream`); `None` for an absent key.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn type_of(&self, key: impl AsRef<[u8]>) -> Result<Option<String>, Stop> {
        let name: String = self.several(const { row_named("TYPE") }, Words::new().bytes(&key))?;
        Ok((name != "none").then_some(name))
    }

    /// `PEXPIRE`: has a key expire after a time, in whole milliseconds, if the condition holds. Returns whether that was set; no time at all deletes
    /// the key.
    ///
    /// # Errors
    /// A time out of range; those of [every call](Database#errors).
    pub fn expire(&self, key: impl AsRef<[u8]>, time: Duration, condition: ExpireIf) -> Result<bool, Stop> {
        self.one(
            const { row_named("PEXPIRE") },
            Words::new().bytes(&key).count(in_ms(time)).options(&condition),
        )
    }

    /// `PEXPIREAT`: has a key expire at a time, in whole milliseconds, if the condition holds. Returns whether that was set; a time in the past
    /// deletes the key.
    ///
    /// # Errors
    /// A time out of range; those of [every call](Database#errors).
    pub fn expireat(
        &self,
        key: impl AsRef<[u8]>,
        time: SystemTime,
        condition: ExpireIf,
    ) -> Result<bool, Stop> {
        self.one(
            const { row_named("PEXPIREAT") },
            Words::new().bytes(&key).count(at_ms(time)).options(&condition),
        )
    }

    /// `PERSIST`: removes the expiry of a key. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool, Stop> {
        self.one(const { row_named("PERSIST") }, Words::new().bytes(&key))
    }

    /// `PTTL`: how long a key still lives, in whole milliseconds.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Lifetime<Duration>, Stop> {
        self.one(const { row_named("PTTL") }, Words::new().bytes(&key))
    }

    /// `PEXPIRETIME`: when a key expires, in whole milliseconds.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn expiretime(&self, key: impl AsRef<[u8]>) -> Result<Lifetime<SystemTime>, Stop> {
        self.one(const { row_named("PEXPIRETIME") }, Words::new().bytes(&key))
    }

    /// `RENAME`: gives a key another name; a key that has it already is replaced.
    ///
    /// # Errors
    /// There is no such key; those of [every call](Database#errors).
    pub fn rename(&self, key: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<(), Stop> {
        self.one(const { row_named("RENAME") }, Words::new().bytes(&key).bytes(&new))
    }

    /// `RENAMENX`: gives a key another name if no key has that. Returns whether it did.
    ///
    /// # Errors
    /// There is no such key; those of [every call](Database#errors).
    pub fn renamenx(&self, key: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<bool, Stop> {
        self.one(const { row_named("RENAMENX") }, Words::new().bytes(&key).bytes(&new))
    }

    /// `COPY`: copies a key within the database, and returns whether it did. `replaces`: a key of the new name is replaced.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn copy(
        &self,
        source: impl AsRef<[u8]>,
        destination: impl AsRef<[u8]>,
        replaces: bool,
    ) -> Result<bool, Stop> {
        self.one(
            const { row_named("COPY") },
            Words::new().bytes(&source).bytes(&destination).flag(replaces, "REPLACE"),
        )
    }

    /// `MOVE`: moves a key to another database, if that has none of this name. Returns whether it did.
    ///
    /// # Errors
    /// The database is this one or beyond the setting `databases`; those of [every call](Database#errors).
    pub fn move_to(&self, key: impl AsRef<[u8]>, database: u8) -> Result<bool, Stop> {
        self.one(const { row_named("MOVE") }, Words::new().bytes(&key).count(database.into()))
    }

    /// `RANDOMKEY`: one of the keys; `None` where there are none.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn randomkey(&self) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("RANDOMKEY") }, &Words::new())
    }

    /// `KEYS`: all keys that match a glob (`user:*`). It walks the whole database; [`Database::scan`] does so step by step.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn keys(&self, pattern: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("KEYS") }, Words::new().bytes(&pattern))
    }

    /// `DBSIZE`: the number of keys.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn dbsize(&self) -> Result<u64, Stop> {
        self.one(const { row_named("DBSIZE") }, &Words::new())
    }

    /// `FLUSHDB`: deletes all keys of the database.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn flushdb(&self) -> Result<(), Stop> {
        self.one(const { row_named("FLUSHDB") }, &Words::new())
    }

    /// `DUMP`: a key's value in Redis's RDB form, for [`Database::restore`].
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn dump(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("DUMP") }, Words::new().bytes(&key))
    }

    /// `RESTORE`: makes a key of what [`Database::dump`] has returned. It expires after `time`, if that is given.
    ///
    /// # Errors
    /// `BUSYKEY` where the key is there and `replaces` is false, bytes that are no dump; those of [every call](Database#errors).
    pub fn restore(
        &self,
        key: impl AsRef<[u8]>,
        dump: impl AsRef<[u8]>,
        time: Option<Duration>,
        replaces: bool,
    ) -> Result<(), Stop> {
        let time_ms = time.map_or(0, in_ms);
        self.one(
            const { row_named("RESTORE") },
            Words::new().bytes(&key).count(time_ms).bytes(&dump).flag(replaces, "REPLACE"),
        )
    }
}
