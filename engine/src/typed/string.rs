//! Strings and counters.
use crate::families::row_named;
use polder_base::number;
use polder_base::options::{Expiry, SetOptions, Words};
use polder_calls::call::NOT_AN_INTEGER;
use polder_table::Stop;

use crate::database::{Database, Keys, Scope};

/// # Strings and counters
///
/// ```
/// # let name = format!("shm:polder-doc-string-{}", std::process::id());
/// # use polder_engine::{Expiry, Memory, Options, SetOptions};
/// # use std::time::Duration;
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// let lock = SetOptions::new().if_absent().expiry(Expiry::In(Duration::from_secs(30)));
/// assert!(db.set_with("lock", "me", &lock)?);
/// assert!(!db.set_with("lock", "you", &lock)?);
/// db.mset(&[("a", "1"), ("b", "2")])?;
/// assert_eq!(db.incrby("a", 41)?, 42);
/// assert_eq!(db.mget(&["a", "b", "c"])?, [Some(b"42".to_vec()), Some(b"2".to_vec()), None]);
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// The integer in a key; an absent one counts as 0.
    ///
    /// # Errors
    /// Not an integer; those of [every call](Database#errors).
    pub fn number(&self, key: impl AsRef<[u8]>) -> Result<i64, Stop> {
        match self.one::<Option<Vec<u8>>>(const { row_named("GET") }, Words::new().bytes(&key))? {
            Some(text) => number::integer(&text).ok_or(Stop::from(NOT_AN_INTEGER)),
            None => Ok(0),
        }
    }

    /// `SET` with options: returns whether the key was set.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn set_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &SetOptions<'_>,
    ) -> Result<bool, Stop> {
        self.one(const { row_named("SET") }, Words::new().bytes(&key).bytes(&value).options(options))
    }

    /// `SET ... GET`: returns the string that the key held before, whether or not the condition lets it be set.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn set_get(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &SetOptions<'_>,
    ) -> Result<Option<Vec<u8>>, Stop> {
        self.one(
            const { row_named("SET") },
            Words::new().bytes(&key).bytes(&value).bytes("GET").options(options),
        )
    }

    /// `GETDEL`: returns the string in a key and deletes the key.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn getdel(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("GETDEL") }, Words::new().bytes(&key))
    }

    /// `GETEX`: returns the string in a key and sets when the key expires.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn getex(&self, key: impl AsRef<[u8]>, expiry: Expiry) -> Result<Option<Vec<u8>>, Stop> {
        let mut words = Words::new();
        expiry.fill_get(words.bytes(&key));
        self.one(const { row_named("GETEX") }, &words)
    }

    /// `APPEND`: appends to the string in a key and returns its length in bytes.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn append(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("APPEND") }, Words::new().bytes(&key).bytes(&value))
    }

    /// `STRLEN`: the length of the string in a key, in bytes; 0 for an absent one.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn strlen(&self, key: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("STRLEN") }, Words::new().bytes(&key))
    }

    /// `GETRANGE`: the bytes from `start` to `end`, both included; negative numbers count from the end.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn getrange(&self, key: impl AsRef<[u8]>, start: i64, end: i64) -> Result<Vec<u8>, Stop> {
        self.one(const { row_named("GETRANGE") }, Words::new().bytes(&key).integer(start).integer(end))
    }

    /// `SETRANGE`: overwrites bytes from an offset on, with zeros before it where the string is shorter, and returns the length in bytes.
    ///
    /// # Errors
    /// Longer than `proto-max-bulk-len`; those of [every call](Database#errors).
    pub fn setrange(&self, key: impl AsRef<[u8]>, offset: u64, value: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("SETRANGE") }, Words::new().bytes(&key).count(offset).bytes(&value))
    }

    /// `INCR`: adds 1 to the integer in a key and returns the sum. An absent key counts as 0. The expiry stays.
    ///
    /// # Errors
    /// Not an integer, an overflow; those of [every call](Database#errors).
    pub fn incr(&self, key: impl AsRef<[u8]>) -> Result<i64, Stop> {
        self.one(const { row_named("INCR") }, Words::new().bytes(&key))
    }

    /// `INCRBY`: adds to the integer in a key and returns the sum. An absent key counts as 0. The expiry stays.
    ///
    /// # Errors
    /// As [`Database::incr`].
    pub fn incrby(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Stop> {
        self.one(const { row_named("INCRBY") }, Words::new().bytes(&key).integer(by))
    }

    /// `DECR`: subtracts 1 from the integer in a key and returns the difference.
    ///
    /// # Errors
    /// As [`Database::incr`].
    pub fn decr(&self, key: impl AsRef<[u8]>) -> Result<i64, Stop> {
        self.one(const { row_named("DECR") }, Words::new().bytes(&key))
    }

    /// `DECRBY`: subtracts from the integer in a key and returns the difference.
    ///
    /// # Errors
    /// As [`Database::incr`].
    pub fn decrby(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Stop> {
        self.one(const { row_named("DECRBY") }, Words::new().bytes(&key).integer(by))
    }

    /// `INCRBYFLOAT`: adds to the number in a key and returns the sum. The number is a decimal one, of which the sum is the nearest `f64`.
    ///
    /// # Errors
    /// Not a number, an infinite sum; those of [every call](Database#errors).
    pub fn incrbyfloat(&self, key: impl AsRef<[u8]>, by: f64) -> Result<f64, Stop> {
        self.one(const { row_named("INCRBYFLOAT") }, Words::new().bytes(&key).double(by))
    }

    /// `MGET`: the strings of several keys, as they were at one moment; `None` for a key that is absent or holds another type.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn mget(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>, Stop> {
        self.several(const { row_named("MGET") }, Words::new().all(keys))
    }

    /// `MSET`: sets several keys at once, and removes their expiries.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn mset(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<(), Stop> {
        self.one(const { row_named("MSET") }, Words::new().pairs(pairs))
    }

    /// `MSETNX`: sets several keys at once if none of them is there. Returns whether they were set.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn msetnx(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<bool, Stop> {
        self.one(const { row_named("MSETNX") }, Words::new().pairs(pairs))
    }

    /// `LCS`: the longest common subsequence of the strings in two keys.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lcs(&self, one: impl AsRef<[u8]>, other: impl AsRef<[u8]>) -> Result<Vec<u8>, Stop> {
        self.one(const { row_named("LCS") }, Words::new().bytes(&one).bytes(&other))
    }

    /// `LCS ... LEN`: its length, in bytes.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lcs_len(&self, one: impl AsRef<[u8]>, other: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("LCS") }, Words::new().bytes(&one).bytes(&other).bytes("LEN"))
    }
}

impl Keys<'_> {
    /// `GET`: a copy of the string in a key, with the changes of this transaction.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("GET") }, Words::new().bytes(&key))
    }

    /// `SET`: sets a key to a string, and removes its expiry.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Stop> {
        self.one(const { row_named("SET") }, Words::new().bytes(&key).bytes(&value))
    }
}
