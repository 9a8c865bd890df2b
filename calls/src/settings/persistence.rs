//! RDB files, and the append-only file that there is not: the memory survives every process.
use super::{Setting, Shape, base_name, choice, integer, memory, special, switch, text};

const INT_MAX: i64 = i32::MAX as i64;

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
    choice("rdb-version", &["lowest", "10", "11", "12", "80"], 0).about(
        "The version of RDB files and of what DUMP returns: 10 is Redis 7.0's, 11 Redis 7.2's and Valkey 7.2's and 8's, 12 Redis 7.4's and 8's, 80 Valkey 9's. \
         `lowest` is 10, or 12 for hashes with expiries of fields. Only 11 and later store when a stream's consumer last got an entry.",
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
        .about("Whether RDB files and payloads of versions later than 12 (other than 80) are refused, or read as far as that goes."),
    choice("sanitize-dump-payload", &["no", "yes", "clients"], 0)
        .inert()
        .about("Every payload is always checked in full."),
    switch("stop-writes-on-bgsave-error", true).about("Whether writes are refused after a save that failed, if there are save points."),
    switch("appendonly", false).refuses("a server writes no append-only file: 'polder storage' does, for all that change a segment"),
    base_name("appendfilename", "appendonly.aof").at_start().inert(),
    base_name("appenddirname", "appendonlydir").at_start().inert(),
    choice("appendfsync", &["everysec", "always", "no"], 0).inert(),
    switch("no-appendfsync-on-rewrite", false).inert(),
    integer("auto-aof-rewrite-percentage", 0, INT_MAX, 100).inert(),
    memory("auto-aof-rewrite-min-size", 0, i64::MAX, 64 << 20).inert(),
    switch("aof-load-truncated", true).inert(),
    switch("aof-use-rdb-preamble", true).inert(),
    switch("aof-rewrite-incremental-fsync", true).inert(),
    switch("aof-timestamp-enabled", false).inert(),
    switch("aof-disable-auto-gc", false).hidden().inert(),
];
