//! Streams.
use std::ops::RangeBounds;

use crate::families::row_named;
use polder_base::options::{Trim, Words, XaddOptions};
use polder_table::Stop;

use crate::database::{Database, Scope};
use crate::reply::Pairs;
use crate::typed::options::Keyed;

mod group;
mod shapes;

pub use shapes::{Claimed, PendingEntry, PendingSummary, StreamEntry, StreamId};
use shapes::{id_ends, id_texts};

/// # Streams
///
/// To wait for an entry, see [`Caller::run`](crate::Caller::run) with `XREAD BLOCK`.
///
/// ```
/// # let name = format!("shm:polder-doc-stream-{}", std::process::id());
/// # use polder_engine::{Memory, Options, StreamId, Trim, XaddOptions};
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// let first = db.xadd("events", &[("kind", "login"), ("user", "ann")])?;
/// db.xadd_with("events", &XaddOptions::new().trim(Trim::maxlen(1000).roughly()), &[("kind", "logout")])?;
/// assert_eq!(db.xlen("events")?, 2);
/// let (_, news) = db.xread(&[("events", first)], 10)?.remove(0);
/// assert_eq!(news[0].fields, [(b"kind".to_vec(), b"logout".to_vec())]);
/// assert_eq!(db.xrange("events", ..=first, 10)?.len(), 1);
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `XADD`: appends an entry, and returns its id.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn xadd(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<StreamId, Stop> {
        self.one(const { row_named("XADD") }, Words::new().bytes(&key).bytes("*").pairs(fields))
    }

    /// `XADD` with options: returns the id of the new entry; `None` if the stream is not there and may not be made.
    ///
    /// # Errors
    /// An id that is not higher than those before; those of [every call](Database#errors).
    pub fn xadd_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &XaddOptions,
        fields: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<Option<StreamId>, Stop> {
        self.one(const { row_named("XADD") }, Words::new().bytes(&key).options(options).pairs(fields))
    }

    /// `XLEN`: the number of entries.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn xlen(&self, key: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("XLEN") }, Words::new().bytes(&key))
    }

    /// `XRANGE`: up to `count` entries of a range of ids (`a..=b`, `a..`, `..`), the oldest first.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn xrange(
        &self,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<StreamId>,
        count: u64,
    ) -> Result<Vec<StreamEntry>, Stop> {
        let [first, last] = id_ends(&range);
        self.several(
            const { row_named("XRANGE") },
            Words::new().bytes(&key).bytes(&first).bytes(&last).bytes("COUNT").count(count),
        )
    }

    /// `XREVRANGE`: as [`Database::xrange`], the newest first.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn xrevrange(
        &self,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<StreamId>,
        count: u64,
    ) -> Result<Vec<StreamEntry>, Stop> {
        let [first, last] = id_ends(&range);
        self.several(
            const { row_named("XREVRANGE") },
            Words::new().bytes(&key).bytes(&last).bytes(&first).bytes("COUNT").count(count),
        )
    }

    /// `XDEL`: deletes entries, and returns how many there were.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn xdel(&self, key: impl AsRef<[u8]>, ids: &[StreamId]) -> Result<u64, Stop> {
        let ids = id_texts(ids);
        self.one(const { row_named("XDEL") }, Words::new().bytes(&key).all(&ids))
    }

    /// `XTRIM`: removes old entries, and returns how many.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn xtrim(&self, key: impl AsRef<[u8]>, trim: &Trim) -> Result<u64, Stop> {
        self.one(const { row_named("XTRIM") }, Words::new().bytes(&key).options(trim))
    }

    /// `XREAD`: up to `count` entries of each stream behind the id that is given for it. Streams without any are left out.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn xread(
        &self,
        streams: &[(impl AsRef<[u8]>, StreamId)],
        count: u64,
    ) -> Result<Vec<Keyed<StreamEntry>>, Stop> {
        let ids: Vec<String> = streams.iter().map(|(_, id)| id.to_string()).collect();
        let mut words = Words::new();
        words.bytes("COUNT").count(count).bytes("STREAMS");
        streams.iter().for_each(|(key, _)| _ = words.bytes(key));
        self.several::<Pairs<_, _>>(const { row_named("XREAD") }, words.all(&ids)).map(|read| read.0)
    }
}
