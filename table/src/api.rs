//! The words in which the floors above speak to the table.

use std::borrow::Cow;

use polder_base::Fault;
use polder_shm::layout::seat as at;
use polder_shm::lock;
use polder_values::{Kind, Value};

/// A database by its number, 0 to 255, or [`SYSTEM`].
pub type Db = u16;

/// The database that no client can select: settings, libraries and users that belong to the data live here.
pub const SYSTEM: Db = 256;

/// The first of the databases that clients do not see: what a replica loads, before all of it is installed at once. Database n is staged as this and n.
pub const STAGED: Db = 387;

/// How many databases there are, [`SYSTEM`] included.
pub const DATABASES: usize = 257;

/// Why a typed call or a transaction did not finish. [`Stop::Refused`] and [`Stop::Fault`] are errors; inside a transaction the other variants are
/// passed on, and the transaction is run again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Nothing was published: the call is run again, and locks more keys then.
    #[error("the transaction must be run again")]
    Retry,
    /// Another thread held a lock for longer than the call may wait. Nothing was published.
    #[error("another thread holds the lock of a key of this transaction; try again")]
    Busy,
    /// A blocking command found nothing: nothing was written, and the call is run again when one of its keys has changed.
    #[error("the call waits for a key")]
    Wait,
    /// A key's value lies in a tier: what is wanted of it is noted in the transaction ([`Txn::take_cold`](crate::Txn::take_cold)). Nothing was published;
    /// the call is run again once the values are back.
    #[error("the value of a key lies in the tier of this memory: a server that has the tier can fetch it")]
    Cold,
    /// The command refuses: the whole error text, its code first.
    #[error("{0}")]
    Refused(Cow<'static, str>),
    /// The memory or the system failed.
    #[error(transparent)]
    Fault(Fault),
}

impl Stop {
    /// The first word of the error text: `WRONGTYPE`, `OOM`, `ERR` and the like for what a command refuses, `FAULT` where the memory or the system failed,
    /// `BUSY` where the call did not wait.
    ///
    /// ```
    /// # use polder_table::Stop;
    /// let refused = Stop::from("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// assert_eq!(refused.code(), "WRONGTYPE");
    /// ```
    pub fn code(&self) -> &str {
        match self {
            Stop::Refused(text) => text.split(' ').next().unwrap_or_default(),
            Stop::Fault(_) => "FAULT",
            Stop::Busy => "BUSY",
            Stop::Retry => "RETRY",
            Stop::Wait => "WAIT",
            Stop::Cold => "COLD",
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<&'static str> for Stop {
    fn from(text: &'static str) -> Stop {
        Stop::Refused(Cow::Borrowed(text))
    }
}

impl From<String> for Stop {
    fn from(text: String) -> Stop {
        Stop::Refused(Cow::Owned(text))
    }
}

/// What a transaction may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Takes no lock; what was read is checked once more at commit.
    Read,
    /// Locks the declared keys' buckets, in hash order.
    Write,
}

/// A key's state as a transaction sees it, its own writes included. Expired keys are never found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'t> {
    pub kind: Kind,
    pub value: Value<'t>,
    /// Milliseconds since the Unix epoch.
    pub expiry_ms: Option<u64>,
    /// When the first part of the value expires: a field of a hash.
    pub inner_expiry_ms: Option<u64>,
    /// memcached's client flags.
    pub flags: u32,
    /// A short string that was edited in place of being set; `OBJECT ENCODING` calls it `raw`.
    pub raw: bool,
    /// A number that came about as text (INCRBYFLOAT): `OBJECT ENCODING` does not call it `int`.
    pub text: bool,
    /// What else is said of an item, encoded: see [`crate::ItemExtras`]. Empty for nothing.
    pub extras: &'t [u8],
    /// Changes with every change of the key; equal versions of one key are equal contents.
    pub version: u64,
    /// The access clock: see [`crate::layout::clock`].
    pub clock: u32,
}

/// What a short string is given beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// In milliseconds since the Unix epoch.
    pub expiry_ms: Option<u64>,
    pub flags: u32,
}

impl Attributes {
    pub const NONE: Attributes = Attributes { expiry_ms: None, flags: 0 };

    pub const fn expiring(expiry_ms: Option<u64>) -> Attributes {
        Attributes { expiry_ms, flags: 0 }
    }
}

/// What a key is to become.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    pub kind: Kind,
    pub value: Value<'a>,
    pub expiry_ms: Option<u64>,
    /// The earliest expiry of a field. A value with one is never inline. It must be exact: maintenance looks only into values that have one.
    pub inner_expiry_ms: Option<u64>,
    pub flags: u32,
    pub raw: bool,
    /// Such a value is never inline, where there is no bit left to say so.
    pub text: bool,
    /// What else is said of an item, as [`crate::ItemExtras::encode`] gives it. Such a value is never inline.
    pub extras: &'a [u8],
}

impl<'a> New<'a> {
    /// A value of `kind` without expiry or flags.
    pub const fn of(kind: Kind, value: Value<'a>) -> New<'a> {
        New {
            kind,
            value,
            expiry_ms: None,
            inner_expiry_ms: None,
            flags: 0,
            raw: false,
            text: false,
            extras: &[],
        }
    }
}

impl<'t> From<Found<'t>> for New<'t> {
    /// The same again: the starting point of an edit.
    fn from(found: Found<'t>) -> New<'t> {
        let Found { kind, value, expiry_ms, inner_expiry_ms, flags, raw, text, extras, .. } = found;
        New { kind, value, expiry_ms, inner_expiry_ms, flags, raw, text, extras }
    }
}

/// Whether `write` gives the key a wholly new value or an edited form of its old one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replaces {
    /// The old value, with every node of its trees, is retired.
    Whole,
    /// Only the old record is retired: the caller released what it replaced in the trees, the rest lives on.
    Edited,
}

/// One key as a scan shows it.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'s> {
    pub key: &'s [u8],
    pub kind: Kind,
    pub expiry_ms: Option<u64>,
}

/// What tells whether a key that was absent from a home bucket may have been there since: the extent's slot and the bucket's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    slot: u64,
    version: u32,
}

impl Absence {
    /// Of a bucket whose word is this, in the extent that the slot names.
    pub fn of(slot: u64, word: u64) -> Absence {
        Absence { slot, version: (word / lock::VERSION) as u32 }
    }

    /// The same, this many commits later.
    pub(crate) fn after(self, commits: u32) -> Absence {
        Absence { version: self.version.wrapping_add(commits), ..self }
    }

    /// How many commits have changed the bucket since `earlier`, at most; the greatest number if it is another bucket.
    pub fn moves_since(&self, earlier: &Absence) -> u32 {
        if self.slot == earlier.slot { self.version.wrapping_sub(earlier.version) } else { u32::MAX }
    }
}

/// The bit that names a database among those that are written, swapped or emptied; several databases share a bit. SYSTEM has none, since it is
/// never swapped nor emptied.
#[inline(always)]
pub(crate) fn bit_of(db: Db) -> u64 {
    if db == SYSTEM { 0 } else { 1 << (db % 32) }
}

/// What a client watches: a key's version, or that there was no such key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub db: Db,
    pub key: Vec<u8>,
    pub(crate) seen: Seen,
    /// The database's root word: another one after FLUSHDB and SWAPDB.
    pub(crate) root: u64,
}

/// What a watched key was: by the version of its entry or, where there was none, by its home bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Key(u64),
    /// It was there but had expired, which Redis tells apart from one that expires while it is watched.
    Expired(u64),
    Absent(Absence),
}

/// Which keys go when memory is short. The numbers are stored in the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Policy {
    #[default]
    NoEviction = 0,
    AllkeysLru = 1,
    AllkeysLfu = 2,
    AllkeysRandom = 3,
    VolatileLru = 4,
    VolatileLfu = 5,
    VolatileRandom = 6,
    VolatileTtl = 7,
    /// The key that was not changed for the longest time goes, however often it is read.
    AllkeysLrm = 8,
    VolatileLrm = 9,
}

impl Policy {
    /// Whether it evicts keys with an expiry alone.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            Policy::VolatileLru
                | Policy::VolatileLfu
                | Policy::VolatileRandom
                | Policy::VolatileTtl
                | Policy::VolatileLrm
        )
    }

    /// Returns true if it goes by the time that the access clocks of keys hold.
    pub fn goes_by_time(self) -> bool {
        matches!(self, Policy::AllkeysLru | Policy::VolatileLru | Policy::AllkeysLrm | Policy::VolatileLrm)
    }
}

/// Every policy with the name `maxmemory-policy` gives it.
pub const POLICIES: [(Policy, &str); 10] = [
    (Policy::NoEviction, "noeviction"),
    (Policy::AllkeysLru, "allkeys-lru"),
    (Policy::AllkeysLfu, "allkeys-lfu"),
    (Policy::AllkeysRandom, "allkeys-random"),
    (Policy::VolatileLru, "volatile-lru"),
    (Policy::VolatileLfu, "volatile-lfu"),
    (Policy::VolatileRandom, "volatile-random"),
    (Policy::VolatileTtl, "volatile-ttl"),
    (Policy::AllkeysLrm, "allkeys-lrm"),
    (Policy::VolatileLrm, "volatile-lrm"),
];

/// Limits that belong to the data: they live in the segment and hold in every process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes; 0 means up to the segment's ceiling.
    pub memory_max: u64,
    pub policy: Policy,
    /// Keys looked at per eviction.
    pub samples: u32,
    pub lfu_log_factor: u32,
    pub lfu_decay_minutes: u32,
    /// Whether expired keys are collected actively (`DEBUG SET-ACTIVE-EXPIRE`).
    pub active_expiry: bool,
    /// Whether expired keys stay and nothing is evicted, since the client that imports the data removes keys itself (`import-mode`).
    pub importing: bool,
}

impl Limits {
    /// Whether keys go where memory is short.
    pub fn evicts(&self) -> bool {
        self.policy != Policy::NoEviction && !self.importing
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_max: 0,
            policy: Policy::NoEviction,
            samples: 5,
            lfu_log_factor: 10,
            lfu_decay_minutes: 1,
            active_expiry: true,
            importing: false,
        }
    }
}

/// What every seat counts; totals are sums over the seats, the dead and the reused included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Counter {
    /// Commands executed.
    Calls = 0,
    Hits = 1,
    Misses = 2,
    Expired = 3,
    Evicted = 4,
    Connections = 5,
    Refusals = 6,
    BytesIn = 7,
    BytesOut = 8,
    /// Seats that were recovered after their thread had ended without giving them back: it was killed, it crashed, or its process called `exit`. The
    /// kernel reports all three in the same way.
    Recoveries = 9,
    /// Calls that were run again because something they had read or wanted had changed.
    Retries = 10,
    /// Times a thread slept for a lock.
    Parks = 11,
    /// Microseconds spent on collecting expired keys, and times that this was cut short.
    ExpiryUs = 12,
    ExpiryCuts = 13,
    /// Fields of hashes that have expired and were collected.
    ExpiredFields = 14,
    /// Keys changed by commits.
    Changes = 15,
    /// Large values, and keys of flushed databases, whose memory was freed later, while no call waited for it.
    Freed = 16,
    /// Nodes that were moved so that slabs come free.
    Moved = 17,
    /// Keys that the change log was told of as a whole, since no call had told of them.
    Whole = 18,
    /// Times a publisher was held back for a subscriber that reads too slowly.
    PublishersHeld = 19,
    /// Times that replicas were synchronised in full and in part, and in full although they had asked to go on.
    SyncsFull = 20,
    SyncsPartial = 21,
    SyncsRefused = 22,
    /// Copies for replicas that the log did not reach any more when they were sent.
    SyncsOverrun = 23,
    /// Messages to a queue that no member has got: the thread that was to serve one had none left, and
    /// neither had another.
    QueuedLost = 24,
}

/// How many counters a seat keeps ([`Counter`], with room for more).
pub const COUNTERS: usize = 32;
const _: () = assert!(at::COUNTERS + 8 * Counter::Recoveries as u64 == at::RECOVERIES);

/// What a sample of a database's keys with an expiry has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiries {
    /// Keys looked at, and those of them that have expired and are not removed yet.
    pub keys: u64,
    pub expired: u64,
    /// How long the other ones still live on average, in milliseconds.
    pub left_ms: u64,
}

/// What the table of a database is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableShape {
    pub extents: u64,
    pub buckets: u64,
    /// Units in which entries lie: a short one takes one, others take several.
    pub places: u64,
    pub bytes: u64,
}

/// What the memory holds, in bytes unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// The most the segment may grow to.
    pub ceiling: u64,
    /// What the operating system has given so far.
    pub committed: u64,
    /// Everything that is not free for reuse, table slack and seats included.
    pub used: u64,
    /// The most that `used` has been.
    pub used_peak: u64,
    /// Headers, seats, directories: what an empty segment takes.
    pub fixed: u64,
    /// Bytes of `used` that count for `maxmemory`.
    pub claimed: u64,
    /// Buckets and their directories.
    pub table: u64,
    /// Nodes that wait until no reader can see them.
    pub retired: u64,
    pub page_bytes: u64,
    pub seats_used: u32,
    pub seats_max: u32,
}

impl Usage {
    /// Bytes of `used` that do not count for `maxmemory`.
    pub fn uncounted(&self) -> u64 {
        self.used.saturating_sub(self.claimed)
    }
}
