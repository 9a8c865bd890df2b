//! Hashes.
use std::time::{Duration, SystemTime};

use crate::families::row_named;
use polder_base::options::{ExpireIf, Expiry, HsetexOptions, Words, at_ms, in_ms};
use polder_table::Stop;

use crate::database::{Database, Scope};
use crate::reply::Pairs;
use crate::typed::options::Lifetime;

/// A field and its value.
pub type Field = (Vec<u8>, Vec<u8>);

/// What became of the expiry of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldExpiry {
    /// There is no such field.
    Absent,
    /// The condition does not hold.
    Unmet,
    /// It was set, or removed.
    Done,
    /// The time has passed already, and the field is deleted.
    Deleted,
    /// There was no expiry to remove.
    Endless,
}

impl FieldExpiry {
    fn of(said: i64) -> FieldExpiry {
        match said {
            0 => FieldExpiry::Unmet,
            1 => FieldExpiry::Done,
            2 => FieldExpiry::Deleted,
            -1 => FieldExpiry::Endless,
            _ => FieldExpiry::Absent,
        }
    }
}

/// # Hashes
///
/// ```
/// # let name = format!("shm:polder-doc-hash-{}", std::process::id());
/// # use polder_engine::{ExpireIf, FieldExpiry, Memory, Options};
/// # use std::time::Duration;
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// assert_eq!(db.hset("user:1", &[("name", "ann"), ("visits", "1")])?, 2);
/// assert_eq!(db.hget("user:1", "name")?.as_deref(), Some(&b"ann"[..]));
/// assert_eq!(db.hincrby("user:1", "visits", 1)?, 2);
/// for (field, value) in db.hgetall("user:1")? {
///     println!("{} = {}", String::from_utf8_lossy(&field), String::from_utf8_lossy(&value));
/// }
/// // A field of its own lifetime.
/// db.hset("user:1", &[("token", "a1b2")])?;
/// let set = db.hexpire("user:1", Duration::from_secs(60), ExpireIf::Always, &["token", "nothing"])?;
/// assert_eq!(set, [FieldExpiry::Done, FieldExpiry::Absent]);
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `HSET`: sets fields, and returns how many of them are new.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hset(
        &self,
        key: impl AsRef<[u8]>,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<u64, Stop> {
        self.one(const { row_named("HSET") }, Words::new().bytes(&key).pairs(pairs))
    }

    /// `HSETNX`: sets a field if it is absent. Returns whether it was.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hsetnx(
        &self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool, Stop> {
        self.one(const { row_named("HSETNX") }, Words::new().bytes(&key).bytes(&field).bytes(&value))
    }

    /// `HSETEX`: sets fields together with when they expire. Returns whether the condition held.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hsetex(
        &self,
        key: impl AsRef<[u8]>,
        options: &HsetexOptions,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<bool, Stop> {
        let mut words = Words::new();
        words.bytes(&key).options(options).bytes("FIELDS").count(pairs.len() as u64).pairs(pairs);
        self.one(const { row_named("HSETEX") }, &words)
    }

    /// `HGET`: the value of a field.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hget(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("HGET") }, Words::new().bytes(&key).bytes(&field))
    }

    /// `HMGET`: the values of fields, in their order.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hmget(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, Stop> {
        self.several(const { row_named("HMGET") }, Words::new().bytes(&key).all(fields))
    }

    /// `HGETALL`: all fields with their values, in no order.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hgetall(&self, key: impl AsRef<[u8]>) -> Result<Vec<Field>, Stop> {
        self.several::<Pairs<_, _>>(const { row_named("HGETALL") }, Words::new().bytes(&key))
            .map(|pairs| pairs.0)
    }

    /// `HKEYS`: all fields, in no order.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hkeys(&self, key: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("HKEYS") }, Words::new().bytes(&key))
    }

    /// `HVALS`: all values, in no order.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hvals(&self, key: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("HVALS") }, Words::new().bytes(&key))
    }

    /// `HLEN`: the number of fields.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hlen(&self, key: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("HLEN") }, Words::new().bytes(&key))
    }

    /// `HSTRLEN`: the length of a field's value, in bytes; 0 for an absent one.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hstrlen(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("HSTRLEN") }, Words::new().bytes(&key).bytes(&field))
    }

    /// `HEXISTS`: whether a field is there.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hexists(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Result<bool, Stop> {
        self.one(const { row_named("HEXISTS") }, Words::new().bytes(&key).bytes(&field))
    }

    /// `HDEL`: deletes fields, and returns how many there were. The key goes with its last field.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hdel(&self, key: impl AsRef<[u8]>, fields: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("HDEL") }, Words::new().bytes(&key).all(fields))
    }

    /// `HINCRBY`: adds to the integer in a field and returns the sum. An absent field counts as 0.
    ///
    /// # Errors
    /// Not an integer, an overflow; those of [every call](Database#errors).
    pub fn hincrby(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>, by: i64) -> Result<i64, Stop> {
        self.one(const { row_named("HINCRBY") }, Words::new().bytes(&key).bytes(&field).integer(by))
    }

    /// `HINCRBYFLOAT`: adds to the number in a field and returns the sum. The number is a decimal one, of which the sum is the nearest `f64`.
    ///
    /// # Errors
    /// Not a number, an infinite sum; those of [every call](Database#errors).
    pub fn hincrbyfloat(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>, by: f64) -> Result<f64, Stop> {
        self.one(const { row_named("HINCRBYFLOAT") }, Words::new().bytes(&key).bytes(&field).double(by))
    }

    /// `HRANDFIELD`: a random field.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hrandfield(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("HRANDFIELD") }, Words::new().bytes(&key))
    }

    /// `HRANDFIELD` with a count: that number of different random fields, or all of them; of a negative count that number of fields, some
    /// perhaps several times.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hrandfield_many(&self, key: impl AsRef<[u8]>, count: i64) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("HRANDFIELD") }, Words::new().bytes(&key).integer(count))
    }

    /// `HRANDFIELD ... WITHVALUES`: as [`Database::hrandfield_many`], with the values.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hrandfield_withvalues(&self, key: impl AsRef<[u8]>, count: i64) -> Result<Vec<Field>, Stop> {
        self.several(
            const { row_named("HRANDFIELD") },
            Words::new().bytes(&key).integer(count).bytes("WITHVALUES"),
        )
    }

    /// `HGETDEL`: returns the values of fields and deletes these.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hgetdel(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, Stop> {
        self.several(const { row_named("HGETDEL") }, Words::new().bytes(&key).bytes("FIELDS").counted(fields))
    }

    /// `HGETEX`: returns the values of fields and sets when these expire.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hgetex(
        &self,
        key: impl AsRef<[u8]>,
        expiry: Expiry,
        fields: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, Stop> {
        let mut words = Words::new();
        expiry.fill_get(words.bytes(&key));
        self.several(const { row_named("HGETEX") }, words.bytes("FIELDS").counted(fields))
    }

    /// `HPEXPIRE`: has fields expire after a time, in whole milliseconds, if the condition holds. Returns what became of each.
    ///
    /// # Errors
    /// A time out of range; those of [every call](Database#errors).
    pub fn hexpire(
        &self,
        key: impl AsRef<[u8]>,
        time: Duration,
        condition: ExpireIf,
        fields: &[impl AsRef<[u8]>],
    ) -> Result<Vec<FieldExpiry>, Stop> {
        let mut words = Words::new();
        words.bytes(&key).count(in_ms(time)).options(&condition).bytes("FIELDS").counted(fields);
        self.field_expiries(self.several(const { row_named("HPEXPIRE") }, &words))
    }

    /// `HPEXPIREAT`: has fields expire at a time, in whole milliseconds, if the condition holds. Returns what became of each.
    ///
    /// # Errors
    /// A time out of range; those of [every call](Database#errors).
    pub fn hexpireat(
        &self,
        key: impl AsRef<[u8]>,
        time: SystemTime,
        condition: ExpireIf,
        fields: &[impl AsRef<[u8]>],
    ) -> Result<Vec<FieldExpiry>, Stop> {
        let mut words = Words::new();
        words.bytes(&key).count(at_ms(time)).options(&condition).bytes("FIELDS").counted(fields);
        self.field_expiries(self.several(const { row_named("HPEXPIREAT") }, &words))
    }

    /// `HPERSIST`: removes the expiries of fields. Returns what became of each.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hpersist(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[impl AsRef<[u8]>],
    ) -> Result<Vec<FieldExpiry>, Stop> {
        let words = &mut Words::new();
        self.field_expiries(
            self.several(const { row_named("HPERSIST") }, words.bytes(&key).bytes("FIELDS").counted(fields)),
        )
    }

    /// `HPTTL`: how long fields still live, in whole milliseconds.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn httl(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Lifetime<Duration>>, Stop> {
        let said: Vec<i64> = self.several(
            const { row_named("HPTTL") },
            Words::new().bytes(&key).bytes("FIELDS").counted(fields),
        )?;
        Ok(said.into_iter().map(|said| Lifetime::of(said, |left| left)).collect())
    }

    /// `HPEXPIRETIME`: when fields expire, in whole milliseconds.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn hexpiretime(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Lifetime<SystemTime>>, Stop> {
        let said: Vec<i64> = self.several(
            const { row_named("HPEXPIRETIME") },
            Words::new().bytes(&key).bytes("FIELDS").counted(fields),
        )?;
        Ok(said.into_iter().map(Lifetime::<SystemTime>::at).collect())
    }

    fn field_expiries(&self, said: Result<Vec<i64>, Stop>) -> Result<Vec<FieldExpiry>, Stop> {
        Ok(said?.into_iter().map(FieldExpiry::of).collect())
    }
}
