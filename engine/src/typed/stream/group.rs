//! Groups of consumers, which share the entries of a stream.
use std::ops::RangeBounds;
use std::time::Duration;

use crate::families::row_named;
use polder_base::options::in_ms;
use polder_table::Stop;

use super::{
    Claimed, Database, Keyed, Pairs, PendingEntry, PendingSummary, Scope, StreamEntry, StreamId, Words,
    id_ends, id_texts,
};

/// # Groups of consumers
///
/// ```
/// # let name = format!("shm:polder-doc-group-{}", std::process::id());
/// # use polder_engine::{Memory, Options, StreamId};
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// db.xgroup_create("jobs", "workers", Some(StreamId::default()), true)?;
/// db.xadd("jobs", &[("kind", "mail")])?;
/// let (_, jobs) = db.xreadgroup("workers", "me", &["jobs"], 1)?.remove(0);
/// assert_eq!(db.xpending("jobs", "workers")?.count, 1);
/// assert_eq!(db.xack("jobs", "workers", &[jobs[0].id])?, 1);
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `XGROUP CREATE`: makes a group that receives what comes after an id, or from now on. `makes_stream`: an absent stream is made, too.
    ///
    /// # Errors
    /// `BUSYGROUP`: the group is there; there is no such stream; those of [every call](Database#errors).
    pub fn xgroup_create(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        after: Option<StreamId>,
        makes_stream: bool,
    ) -> Result<(), Stop> {
        let id = after.map_or("$".into(), |id| id.to_string());
        self.one(
            const { row_named("XGROUP|CREATE") },
            Words::new().bytes("CREATE").bytes(&key).bytes(&group).bytes(&id).flag(makes_stream, "MKSTREAM"),
        )
    }

    /// `XGROUP SETID`: has a group receive what comes after an id, or from now on.
    ///
    /// # Errors
    /// `NOGROUP`: there is no such stream or group; those of [every call](Database#errors).
    pub fn xgroup_setid(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        after: Option<StreamId>,
    ) -> Result<(), Stop> {
        let id = after.map_or("$".into(), |id| id.to_string());
        self.one(
            const { row_named("XGROUP|SETID") },
            Words::new().bytes("SETID").bytes(&key).bytes(&group).bytes(&id),
        )
    }

    /// `XGROUP DESTROY`: removes a group. Returns whether it was there.
    ///
    /// # Errors
    /// There is no such stream; those of [every call](Database#errors).
    pub fn xgroup_destroy(&self, key: impl AsRef<[u8]>, group: impl AsRef<[u8]>) -> Result<bool, Stop> {
        self.one(
            const { row_named("XGROUP|DESTROY") },
            Words::new().bytes("DESTROY").bytes(&key).bytes(&group),
        )
    }

    /// `XGROUP CREATECONSUMER`: makes a consumer. Returns whether it is new.
    ///
    /// # Errors
    /// `NOGROUP`: there is no such stream or group; those of [every call](Database#errors).
    pub fn xgroup_createconsumer(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
    ) -> Result<bool, Stop> {
        self.one(
            const { row_named("XGROUP|CREATECONSUMER") },
            Words::new().bytes("CREATECONSUMER").bytes(&key).bytes(&group).bytes(&consumer),
        )
    }

    /// `XGROUP DELCONSUMER`: removes a consumer, and returns how many entries it had pending.
    ///
    /// # Errors
    /// `NOGROUP`: there is no such stream or group; those of [every call](Database#errors).
    pub fn xgroup_delconsumer(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
    ) -> Result<u64, Stop> {
        self.one(
            const { row_named("XGROUP|DELCONSUMER") },
            Words::new().bytes("DELCONSUMER").bytes(&key).bytes(&group).bytes(&consumer),
        )
    }

    /// `XREADGROUP ... >`: receives up to `count` entries of each stream that no consumer of the group has received.
    ///
    /// # Errors
    /// `NOGROUP`: there is no such stream or group; those of [every call](Database#errors).
    pub fn xreadgroup(
        &self,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
        keys: &[impl AsRef<[u8]>],
        count: u64,
    ) -> Result<Vec<Keyed<StreamEntry>>, Stop> {
        let mut words = Words::new();
        words
            .bytes("GROUP")
            .bytes(&group)
            .bytes(&consumer)
            .bytes("COUNT")
            .count(count)
            .bytes("STREAMS")
            .all(keys);
        keys.iter().for_each(|_| _ = words.bytes(">"));
        self.several::<Pairs<_, _>>(const { row_named("XREADGROUP") }, &words).map(|read| read.0)
    }

    /// `XREADGROUP ... ID`: up to `count` entries behind an id that this consumer has received and not acknowledged.
    ///
    /// # Errors
    /// `NOGROUP`: there is no such stream or group; those of [every call](Database#errors).
    pub fn xreadgroup_again(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
        after: StreamId,
        count: u64,
    ) -> Result<Vec<StreamEntry>, Stop> {
        let id = after.to_string();
        let mut words = Words::new();
        words
            .bytes("GROUP")
            .bytes(&group)
            .bytes(&consumer)
            .bytes("COUNT")
            .count(count)
            .bytes("STREAMS")
            .bytes(&key)
            .bytes(&id);
        let read: Pairs<Vec<u8>, Vec<StreamEntry>> =
            self.several(const { row_named("XREADGROUP") }, &words)?;
        Ok(read.0.into_iter().next().map_or(Vec::new(), |(_, entries)| entries))
    }

    /// `XACK`: acknowledges entries, and returns how many of them were pending.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn xack(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        ids: &[StreamId],
    ) -> Result<u64, Stop> {
        let ids = id_texts(ids);
        self.one(const { row_named("XACK") }, Words::new().bytes(&key).bytes(&group).all(&ids))
    }

    /// `XPENDING`: how many entries were received and not acknowledged, and by which consumers.
    ///
    /// # Errors
    /// `NOGROUP`: there is no such stream or group; those of [every call](Database#errors).
    pub fn xpending(&self, key: impl AsRef<[u8]>, group: impl AsRef<[u8]>) -> Result<PendingSummary, Stop> {
        self.several(const { row_named("XPENDING") }, Words::new().bytes(&key).bytes(&group))
    }

    /// `XPENDING` with a range: up to `count` entries that were received at least `idle` ago and not acknowledged.
    ///
    /// # Errors
    /// `NOGROUP`: there is no such stream or group; those of [every call](Database#errors).
    pub fn xpending_range(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        idle: Duration,
        range: impl RangeBounds<StreamId>,
        count: u64,
    ) -> Result<Vec<PendingEntry>, Stop> {
        let [first, last] = id_ends(&range);
        self.several(
            const { row_named("XPENDING") },
            Words::new()
                .bytes(&key)
                .bytes(&group)
                .bytes("IDLE")
                .count(in_ms(idle))
                .bytes(&first)
                .bytes(&last)
                .count(count),
        )
    }

    /// `XCLAIM`: takes over entries that other consumers have received at least `idle` ago. Returns those that are this consumer's now.
    ///
    /// # Errors
    /// `NOGROUP`: there is no such stream or group; those of [every call](Database#errors).
    pub fn xclaim(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
        idle: Duration,
        ids: &[StreamId],
    ) -> Result<Vec<StreamEntry>, Stop> {
        let ids = id_texts(ids);
        self.several(
            const { row_named("XCLAIM") },
            Words::new().bytes(&key).bytes(&group).bytes(&consumer).count(in_ms(idle)).all(&ids),
        )
    }

    /// `XAUTOCLAIM`: takes over up to `count` entries from an id on that other consumers have received at least `idle` ago.
    ///
    /// # Errors
    /// `NOGROUP`: there is no such stream or group; those of [every call](Database#errors).
    pub fn xautoclaim(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        consumer: impl AsRef<[u8]>,
        idle: Duration,
        start: StreamId,
        count: u64,
    ) -> Result<Claimed, Stop> {
        let start = start.to_string();
        self.several(
            const { row_named("XAUTOCLAIM") },
            Words::new()
                .bytes(&key)
                .bytes(&group)
                .bytes(&consumer)
                .count(in_ms(idle))
                .bytes(&start)
                .bytes("COUNT")
                .count(count),
        )
    }
}
