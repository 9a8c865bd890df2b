//! Redis Cluster, which Polder is not a member of: a segment serves all slots.
use super::{Setting, choice, integer, memory, switch, text};

const INT_MAX: i64 = i32::MAX as i64;

pub(super) const SETTINGS: &[Setting] = &[
    switch("cluster-enabled", false)
        .at_start()
        .refuses("polder is no member of a Redis Cluster: one segment serves all keys"),
    text("cluster-config-file", "nodes.conf").at_start().inert(),
    integer("cluster-node-timeout", 0, i64::MAX, 15000).inert(),
    integer("cluster-port", 0, 65535, 0).at_start().inert(),
    text("cluster-announce-ip", "").inert(),
    text("cluster-announce-hostname", "").inert(),
    text("cluster-announce-human-nodename", "").inert(),
    integer("cluster-announce-port", 0, 65535, 0).inert(),
    integer("cluster-announce-bus-port", 0, 65535, 0).inert(),
    integer("cluster-announce-tls-port", 0, 65535, 0).inert(),
    choice("cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], 0).inert(),
    switch("cluster-replica-no-failover", false).alias("cluster-slave-no-failover").inert(),
    integer("cluster-replica-validity-factor", 0, INT_MAX, 10).alias("cluster-slave-validity-factor").inert(),
    integer("cluster-migration-barrier", 0, INT_MAX, 1).inert(),
    switch("cluster-allow-replica-migration", true).inert(),
    switch("cluster-require-full-coverage", true).inert(),
    switch("cluster-allow-reads-when-down", false).inert(),
    switch("cluster-allow-pubsubshard-when-down", true).inert(),
    memory("cluster-link-sendbuf-limit", 0, i64::MAX, 0).inert(),
    integer("cluster-ping-interval", 0, i64::MAX, 0).hidden().inert(),
    switch("cluster-slot-stats-enabled", false).inert(),
    text("cluster-announce-client-ipv4", "").inert(),
    text("cluster-announce-client-ipv6", "").inert(),
    integer("cluster-announce-client-port", 0, 65535, 0).inert(),
    integer("cluster-announce-client-tls-port", 0, 65535, 0).inert(),
    integer("cluster-blacklist-ttl", i64::MIN, i64::MAX, 60).inert(),
    integer("cluster-compatibility-sample-ratio", 0, 100, 0).inert(),
    choice("cluster-config-save-behavior", &["sync", "best-effort"], 0).inert(),
    integer("cluster-databases", 1, INT_MAX, 1).at_start().inert(),
    integer("cluster-manual-failover-timeout", 1, INT_MAX, 5000).inert(),
    memory("cluster-slot-migration-handoff-max-lag-bytes", 0, i64::MAX, 1 << 20).inert(),
    integer("cluster-slot-migration-log-max-len", 0, i64::MAX, 1000).inert(),
    integer("cluster-slot-migration-write-pause-timeout", 0, i64::MAX, 10_000).inert(),
    memory("slot-migration-max-failover-repl-bytes", -1, i64::MAX, 0).inert(),
];
