//! Lists.
use crate::families::row_named;
use polder_base::options::{LposOptions, Words};
use polder_table::Stop;

use crate::database::{Database, Scope};
use crate::typed::options::{End, Keyed};

/// On which side of another element something is inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Nearer to the head.
    Before,
    /// Nearer to the tail.
    After,
}

/// # Lists
///
/// Indexes begin with 0 at the head (left); negative ones count from the tail, which is -1. To wait for an element, see
/// [`Caller::run`](crate::Caller::run) with `BLPOP`.
///
/// ```
/// # let name = format!("shm:polder-doc-list-{}", std::process::id());
/// # use polder_engine::{End, Memory, Options};
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// assert_eq!(db.rpush("jobs", &["a", "b", "c"])?, 3);
/// assert_eq!(db.lrange("jobs", 0, -1)?, [b"a", b"b", b"c"]);
/// // Takes a job, and keeps it in a list of its own until it is done.
/// assert_eq!(db.lmove("jobs", "jobs:mine", End::Left, End::Right)?, Some(b"a".to_vec()));
/// assert_eq!(db.lrem("jobs:mine", 1, "a")?, 1);
/// assert_eq!(db.lpop_many("jobs", 10)?, [b"b", b"c"]);
/// assert_eq!(db.lpop("jobs")?, None);
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `LPUSH`: prepends elements one after another, and returns the length of the list.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lpush(&self, key: impl AsRef<[u8]>, elements: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("LPUSH") }, Words::new().bytes(&key).all(elements))
    }

    /// `RPUSH`: appends elements, and returns the length of the list.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn rpush(&self, key: impl AsRef<[u8]>, elements: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("RPUSH") }, Words::new().bytes(&key).all(elements))
    }

    /// `LPUSHX`: as [`Database::lpush`] where the list is there; else 0 is returned.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lpushx(&self, key: impl AsRef<[u8]>, elements: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("LPUSHX") }, Words::new().bytes(&key).all(elements))
    }

    /// `RPUSHX`: as [`Database::rpush`] where the list is there; else 0 is returned.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn rpushx(&self, key: impl AsRef<[u8]>, elements: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("RPUSHX") }, Words::new().bytes(&key).all(elements))
    }

    /// `LPOP`: takes the first element. The key goes with its last one.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lpop(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("LPOP") }, Words::new().bytes(&key))
    }

    /// `RPOP`: takes the last element. The key goes with it if it was the only one.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn rpop(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("RPOP") }, Words::new().bytes(&key))
    }

    /// `LPOP` with a count: takes up to that many elements from the head.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lpop_many(&self, key: impl AsRef<[u8]>, count: u64) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("LPOP") }, Words::new().bytes(&key).count(count))
    }

    /// `RPOP` with a count: takes up to that many elements from the tail, the last one first.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn rpop_many(&self, key: impl AsRef<[u8]>, count: u64) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("RPOP") }, Words::new().bytes(&key).count(count))
    }

    /// `LMPOP`: takes up to `count` elements from the first of the lists that has any. Returns its key and them.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lmpop(
        &self,
        keys: &[impl AsRef<[u8]>],
        end: End,
        count: u64,
    ) -> Result<Option<Keyed<Vec<u8>>>, Stop> {
        self.several(
            const { row_named("LMPOP") },
            Words::new().counted(keys).bytes(end.word()).bytes("COUNT").count(count),
        )
    }

    /// `LMOVE`: takes an element from one end of a list, puts it at an end of another one, and returns it.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lmove(
        &self,
        source: impl AsRef<[u8]>,
        destination: impl AsRef<[u8]>,
        from: End,
        to: End,
    ) -> Result<Option<Vec<u8>>, Stop> {
        self.one(
            const { row_named("LMOVE") },
            Words::new().bytes(&source).bytes(&destination).bytes(from.word()).bytes(to.word()),
        )
    }

    /// `LLEN`: the number of elements.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn llen(&self, key: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("LLEN") }, Words::new().bytes(&key))
    }

    /// `LINDEX`: the element at an index.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lindex(&self, key: impl AsRef<[u8]>, index: i64) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("LINDEX") }, Words::new().bytes(&key).integer(index))
    }

    /// `LRANGE`: the elements from one index to another, both included.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lrange(&self, key: impl AsRef<[u8]>, start: i64, stop: i64) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("LRANGE") }, Words::new().bytes(&key).integer(start).integer(stop))
    }

    /// `LTRIM`: keeps the elements from one index to another, both included, and removes the others.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn ltrim(&self, key: impl AsRef<[u8]>, start: i64, stop: i64) -> Result<(), Stop> {
        self.one(const { row_named("LTRIM") }, Words::new().bytes(&key).integer(start).integer(stop))
    }

    /// `LSET`: replaces the element at an index.
    ///
    /// # Errors
    /// There is no such key, or no such index; those of [every call](Database#errors).
    pub fn lset(&self, key: impl AsRef<[u8]>, index: i64, element: impl AsRef<[u8]>) -> Result<(), Stop> {
        self.one(const { row_named("LSET") }, Words::new().bytes(&key).integer(index).bytes(&element))
    }

    /// `LINSERT`: inserts an element beside the first one that equals `pivot`, and returns the length of the list; `None` if there is no such element.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn linsert(
        &self,
        key: impl AsRef<[u8]>,
        side: Side,
        pivot: impl AsRef<[u8]>,
        element: impl AsRef<[u8]>,
    ) -> Result<Option<u64>, Stop> {
        let side = if side == Side::Before { "BEFORE" } else { "AFTER" };
        let length: i64 = self.one(
            const { row_named("LINSERT") },
            Words::new().bytes(&key).bytes(side).bytes(&pivot).bytes(&element),
        )?;
        Ok(u64::try_from(length).ok().filter(|length| *length > 0))
    }

    /// `LREM`: removes up to `count` elements that equal this one, from the head on, of a negative count from the tail on, and of 0 all of them.
    /// Returns how many.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lrem(&self, key: impl AsRef<[u8]>, count: i64, element: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("LREM") }, Words::new().bytes(&key).integer(count).bytes(&element))
    }

    /// `LPOS`: the index of the first element that equals this one.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn lpos(&self, key: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<Option<u64>, Stop> {
        self.one(const { row_named("LPOS") }, Words::new().bytes(&key).bytes(&element))
    }

    /// `LPOS` with options: the indexes of elements that equal this one.
    ///
    /// # Errors
    /// A rank of 0; those of [every call](Database#errors).
    pub fn lpos_many(
        &self,
        key: impl AsRef<[u8]>,
        element: impl AsRef<[u8]>,
        options: &LposOptions,
    ) -> Result<Vec<u64>, Stop> {
        self.several(const { row_named("LPOS") }, Words::new().bytes(&key).bytes(&element).options(options))
    }
}
