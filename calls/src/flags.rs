//! What a command may do, as bits: Redis's flags and those of our own that other code acts upon.

/// Redis's command flags, as bits. READONLY and WRITE are set by [`crate::command::read`] and [`crate::command::write()`].
pub type Flags = u64;

pub const WRITE: Flags = 1 << 0;
pub const READONLY: Flags = 1 << 1;
/// May need more memory: refused when there is none (`denyoom`).
pub const GROWS: Flags = 1 << 2;
pub const ADMIN: Flags = 1 << 4;
pub const PUBSUB: Flags = 1 << 5;
pub const NOSCRIPT: Flags = 1 << 6;
pub const BLOCKING: Flags = 1 << 7;
pub const LOADING: Flags = 1 << 8;
pub const STALE: Flags = 1 << 9;
/// Not shown to MONITOR: it holds secrets, or shows itself.
pub const SKIP_MONITOR: Flags = 1 << 10;
pub const SKIP_SLOWLOG: Flags = 1 << 11;
pub const ASKING: Flags = 1 << 12;
pub const FAST: Flags = 1 << 13;
pub const NO_AUTH: Flags = 1 << 14;
pub const NO_MANDATORY_KEYS: Flags = 1 << 15;
pub const NO_ASYNC_LOADING: Flags = 1 << 16;
/// Refused inside MULTI.
pub const NO_MULTI: Flags = 1 << 17;
pub const MOVABLE_KEYS: Flags = 1 << 18;
/// Runs while a script is busy.
pub const ALLOW_BUSY: Flags = 1 << 19;
/// May reach others or keep something, though it is no write: a pause of writers holds it back, and no reading script calls it.
pub const MAY_WRITE: Flags = 1 << 20;
/// It runs scripts: what memory it may need is not known before.
pub const SCRIPTS: Flags = 1 << 23;
/// In the ACL category `@dangerous`, though not of the administrator's.
pub const DANGEROUS: Flags = 1 << 24;
/// In the ACL category `@keyspace`, though not of the group `generic`.
pub const KEYSPACE: Flags = 1 << 25;
/// Its second argument names a subcommand. In no ACL category of its group.
pub const CONTAINER: Flags = 1 << 26;

/// In the ACL categories of lists, sets and sorted sets, which it works on alike.
pub const COLLECTIONS: Flags = 1 << 27;

/// What it finds counts as a hit or a miss, although it writes.
pub const COUNTS: Flags = 1 << 28;

/// For servers and testers, not for applications.
pub const INTERNAL: Flags = 1 << 29;

/// It may follow a pattern to keys that its arguments do not name.
pub const FOLLOWS: Flags = 1 << 21;

/// It empties all databases, so that a save that is due begins anew after it.
pub const EMPTIES: Flags = 1 << 22;

/// Obeyed at once between MULTI and EXEC.
pub const AT_ONCE: Flags = 1 << 30;

/// Obeyed of a RESP2 client that has subscribed.
pub const WHILE_LISTENING: Flags = 1 << 31;

/// It begins a queue of calls.
pub const QUEUES: Flags = 1 << 32;

/// It runs the calls that are queued.
pub const RUNS_QUEUE: Flags = 1 << 33;

/// Its first argument is the database of the calls behind it.
pub const SELECTS: Flags = 1 << 34;

/// It shows or changes the connection that makes it.
pub const OWN_CONNECTION: Flags = 1 << 35;

/// A call of it that waits ends where its key goes or becomes of another type.
pub const ENDS_WITH_KEY: Flags = 1 << 36;

/// It fails while the last save has failed and writes are refused for that, although it writes nothing.
pub const TELLS_UNSAVED: Flags = 1 << 37;

/// What it refuses it may explain for the log: [`crate::call::Caller::complaint`].
pub const EXPLAINS: Flags = 1 << 38;

/// The names that COMMAND INFO gives the flags, in its order.
pub const FLAG_NAMES: [(Flags, &str); 19] = [
    (WRITE, "write"),
    (READONLY, "readonly"),
    (GROWS, "denyoom"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NOSCRIPT, "noscript"),
    (BLOCKING, "blocking"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_MONITOR, "skip_monitor"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (ASKING, "asking"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (NO_ASYNC_LOADING, "no_async_loading"),
    (NO_MULTI, "no_multi"),
    (MOVABLE_KEYS, "movablekeys"),
    (ALLOW_BUSY, "allow_busy"),
];
