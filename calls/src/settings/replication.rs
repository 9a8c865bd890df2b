//! Replication in Redis's form: stock servers as replicas of a memory, and a memory as a replica.
use super::{Setting, Shape, choice, integer, memory, special, switch, text};

const INT_MAX: i64 = i32::MAX as i64;

/// Why a way of copying is refused.
const NO_CHANNEL: &str = "a copy and the stream behind it come over one connection";

pub(super) const SETTINGS: &[Setting] = &[
    special("replicaof", Shape::Primary, "").alias("slaveof").at_start().about("The primary that the memory follows, if it has always been a primary itself: later REPLICAOF, REPLICAOF NO ONE and Sentinel decide."),
    text("masterauth", "").alias("primaryauth").segment().secret().about("The password for the primary that the memory follows. Read with each connection."),
    text("masteruser", "").alias("primaryuser").segment().secret().about("The user by whose rights the memory follows its primary; without one, `default`."),
    integer("min-replicas-to-write", 0, INT_MAX, 0)
        .alias("min-slaves-to-write")
        .about("Refuses writes by clients of this server unless the memory has at least this many replicas, at whatever server, that are not late."),
    integer("replies-await-replicas", 0, 63, 0)
        .segment()
        .about("Holds the replies of all servers to writes until this many replicas have acknowledged what was written; 0: they leave at once."),
    integer("replies-await-timeout", 0, INT_MAX, 10_000)
        .segment()
        .about("Milliseconds after which a reply that waits for replicas is replaced by NOREPLICAS and its connection closed: the write stands, and a failover may lose it. 0: it waits for ever."),
    integer("min-replicas-max-lag", 0, INT_MAX, 10).alias("min-slaves-max-lag").about("Seconds since its last acknowledgement after which a replica is late; 0 turns `min-replicas-to-write` off."),
    text("replica-announce-ip", "").alias("slave-announce-ip").about("The address that a replica tells its primary; without one, that of the connection."),
    integer("replica-announce-port", 0, 65535, 0).alias("slave-announce-port").about("The port that a replica tells its primary; 0: `port`."),
    switch("replica-announced", true).inert(),
    switch("replica-ignore-disk-write-errors", false).inert(),
    switch("replica-ignore-maxmemory", true).alias("slave-ignore-maxmemory").inert(),
    switch("replica-lazy-flush", false).alias("slave-lazy-flush").inert(),
    integer("replica-priority", 0, INT_MAX, 100).alias("slave-priority").about("What INFO tells Sentinel, which promotes the replica with the smallest one; 0: never this one."),
    switch("replica-read-only", true).alias("slave-read-only").refuses("a replica that takes writes of its own differs from its primary without a word"),
    switch("replica-serve-stale-data", true).alias("slave-serve-stale-data").about("Whether a replica without its primary serves what it has; `no` replies MASTERDOWN to this server's clients, but for INFO, CONFIG and their like."),
    memory("repl-backlog-size", 1, i64::MAX, 1 << 20).about("Bytes of the change log that are kept for replicas that come back. Read when a replica comes."),
    integer("repl-backlog-ttl", 0, i64::MAX, 3600).inert(),
    switch("repl-disable-tcp-nodelay", false).inert(),
    choice("repl-diskless-load", &["disabled", "on-empty-db", "swapdb"], 0).inert(),
    switch("repl-diskless-sync", true).inert(),
    integer("repl-diskless-sync-delay", 0, INT_MAX, 5).inert(),
    integer("repl-diskless-sync-max-replicas", 0, INT_MAX, 0).inert(),
    integer("repl-ping-replica-period", 1, INT_MAX, 10).alias("repl-ping-slave-period").about("After how many seconds without a change replicas are sent a PING. Read when a replica comes."),
    choice("repl-transport", &["auto", "rdb", "attach"], 1).about("How a copy comes from a primary that is a memory of this host: `rdb` has it sent as to any other replica, `attach` reads its segment (a preview); `auto` attaches where that can be. Read with each connection."),
    integer("repl-timeout", 1, INT_MAX, 60).about("After how many seconds a replica is given up that takes or acknowledges nothing, and a primary that sends nothing. Read with each connection."),
    switch("dual-channel-replication-enabled", false).refuses(NO_CHANNEL),
    switch("repl-mptcp", false).at_start().refuses("links are plain TCP"),
    memory("replica-full-sync-buffer-limit", 0, i64::MAX, 0).inert(),
    choice("propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], 0).inert(),
];
