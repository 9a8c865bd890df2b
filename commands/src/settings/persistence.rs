//! Snapshots and the append-only file. The memory survives every process; neither file is written by this version.
use super::{Setting, Shape, choice, integer, memory, special, switch, text};

const INT_MAX: i64 = i32::MAX as i64;

pub(super) const SETTINGS: &[Setting] = &[
    special("save", Shape::Save, "").refuses("this version of polder writes no snapshots: the segment survives the server, not a reboot"),
    text("dbfilename", "dump.rdb").protected().inert(),
    text("dir", "").protected().inert(),
    switch("rdbcompression", true).inert(),
    switch("rdbchecksum", true).at_start().inert(),
    switch("rdb-del-sync-files", false).inert(),
    switch("rdb-save-incremental-fsync", true).inert(),
    integer("rdb-key-save-delay", i32::MIN as i64, INT_MAX, 0).hidden().inert(),
    integer("key-load-delay", i32::MIN as i64, INT_MAX, 0).hidden().inert(),
    integer("loading-process-events-interval-bytes", 1024, INT_MAX, 2 << 20).hidden().inert(),
    choice("rdb-version-check", &["strict", "relaxed"], 0).inert(),
    choice("sanitize-dump-payload", &["no", "yes", "clients"], 0).inert(),
    switch("stop-writes-on-bgsave-error", true).inert(),
    switch("appendonly", false).refuses("polder has no append-only file: the segment survives every process, a tier survives reboots"),
    text("appendfilename", "appendonly.aof").at_start().inert(),
    text("appenddirname", "appendonlydir").at_start().inert(),
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
