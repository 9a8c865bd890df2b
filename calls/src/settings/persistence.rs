//! RDB files, and the append-only log.
use super::{Setting, Shape, base_name, choice, integer, memory, special, switch, text};

const INT_MAX: i64 = i32::MAX as i64;
/// What CONFIG SET replies if the log cannot be begun: Redis's text.
const NO_LOG: &str = "Unable to turn on AOF. Check server logs.";

pub(super) const SETTINGS: &[Setting] = &[
    special("save", Shape::Save, "").about(
        "After how many seconds and changes the RDB file is written in the background, in pairs. With any, the server writes it when it ends, too. \
         Each server on a segment has its own save points.",
    ),
    base_name("dbfilename", "dump.rdb").protected().about("The name of the RDB file."),
    text("dir", "").protected().about("The folder of the RDB file; empty is the one in which the server was started."),
    choice("load-rdb", &["new-segment", "always", "no"], 0).at_start_here().about(
        "When the RDB file is read at start: into a new segment only, also into one that has data (what is there stays), or never.",
    ),
    switch("rdbcompression", true).about("Whether strings in RDB files and in what DUMP returns are compressed."),
    choice("rdb-version", &["lowest", "10", "11", "12", "13", "14", "80"], 0).about(
        "The version of RDB files and of what DUMP returns: 10 is Redis 7.0's, 11 Redis 7.2's and Valkey 7.2's and 8's, 12 Redis 7.4's and 8's, 13 Redis 8.6's, 14 Redis 8.8's, 80 Valkey 9's. \
         `lowest` is 10, or 12 for hashes with expiries of fields, 13 for streams with producers, 14 for arrays and for streams with entries that were given back. Other versions than 14 refuse arrays. Only 11 and later store when a stream's consumer last got an entry.",
    ),
    switch("rdb-drop-field-expiries", false)
        .about("Whether expiries of fields are left out where `rdb-version` is 10 or 11, which cannot hold them; else such a hash is refused."),
    switch("rdbchecksum", true).at_start().about("Whether RDB files get a checksum, and whether it is checked."),
    switch("rdb-del-sync-files", false).inert(),
    switch("rdb-save-incremental-fsync", true).about("Whether an RDB file is synced every 32 MiB while it is written."),
    integer("rdb-key-save-delay", i32::MIN as i64, INT_MAX, 0).hidden().about("Microseconds that a save waits before each key, for tests."),
    integer("key-load-delay", i32::MIN as i64, INT_MAX, 0).hidden().inert(),
    integer("loading-process-events-interval-bytes", 1024, INT_MAX, 2 << 20).hidden().inert(),
    choice("rdb-version-check", &["strict", "relaxed"], 0)
        .about("Whether RDB files and payloads of versions later than 14 (other than 80) are refused, or read as far as that goes."),
    choice("sanitize-dump-payload", &["no", "yes", "clients"], 0)
        .inert()
        .about("Every payload is always checked in full."),
    switch("stop-writes-on-bgsave-error", true).about("Whether writes are refused after a save that failed, if there are save points."),
    switch("appendonly", false).segment().acted_on(NO_LOG).about(
        "Whether changes are written to an append-only log, in the files of Redis 7. One process writes it for all that change the segment: the first \
         server that can, or `polder storage`; another server goes on when it dies.",
    ),
    base_name("appendfilename", "appendonly.aof").at_start().about("How the names of the log's files begin."),
    base_name("appenddirname", "appendonlydir")
        .at_start()
        .about("The folder of the append-only log in `dir`. A log that is being written stays where it was begun."),
    choice("appendfsync", &["everysec", "always", "no"], 0).segment().about(
        "When what was written to the append-only log is synced: once a second, before a reply leaves, or whenever the system does.",
    ),
    switch("always-covers-reads", true).segment().about(
        "Whether `appendfsync always` also holds back the replies to reads, so that no client sees what a power cut could take. Without it only those of \
         calls that may write wait.",
    ),
    switch("no-appendfsync-on-rewrite", false).inert().about("A rewrite does not disturb the syncs."),
    integer("auto-aof-rewrite-percentage", 0, INT_MAX, 100)
        .segment()
        .about("By how many percent the log must have grown over its base before another base is written; 0 is never."),
    memory("auto-aof-rewrite-min-size", 0, i64::MAX, 64 << 20)
        .segment()
        .about("How large the log must be before another base is written by itself."),
    integer("aof-load-corrupt-tail-max-size", 0, i64::MAX, 0)
        .refuses("nothing behind damage is dropped without a word; 'polder log' shows where it is"),
    switch("aof-load-truncated", true).about("Whether a log that ends inside a record is read at start; the end is cut off then."),
    switch("aof-use-rdb-preamble", true).about("Whether the next base of the append-only log is an RDB file. Else it holds commands, which is larger and slower to read; times at which consumers of streams were seen are not in it."),
    switch("aof-rewrite-incremental-fsync", true).inert(),
    switch("aof-timestamp-enabled", false).segment().about("Whether the log tells the time of its records."),
    switch("aof-disable-auto-gc", false).hidden().inert(),
];
