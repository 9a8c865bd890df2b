//! What the server records about itself: the slow log, latencies, keyspace events.
use super::{Setting, Shape, integer, special, switch};

const MIB: i64 = 1 << 20;

pub(super) const SETTINGS: &[Setting] = &[
    integer("slowlog-log-slower-than", -1, i64::MAX, 10000)
        .alias("commandlog-execution-slower-than")
        .about("Microseconds above which a call enters the slow log; 0 logs all, -1 none."),
    integer("slowlog-max-len", 0, i64::MAX, 128).alias("commandlog-slow-execution-max-len").about("Entries that the slow log keeps."),
    integer("commandlog-request-larger-than", -1, i64::MAX, MIB)
        .about("Bytes from which on a request enters the log of large requests (COMMANDLOG); 0 logs all, -1 none."),
    integer("commandlog-large-request-max-len", 0, i64::MAX, 128).about("Entries that the log of large requests keeps."),
    integer("commandlog-reply-larger-than", -1, i64::MAX, MIB)
        .about("Bytes from which on a reply enters the log of large replies (COMMANDLOG); 0 logs all, -1 none."),
    integer("commandlog-large-reply-max-len", 0, i64::MAX, 128).about("Entries that the log of large replies keeps."),
    integer("latency-monitor-threshold", 0, i64::MAX, 0).about("Milliseconds above which LATENCY samples an event; 0 samples none."),
    switch("latency-tracking", true).about("Whether the latency of each command is counted."),
    special("latency-tracking-info-percentiles", Shape::Percentiles, "50 99 99.9").about("The percentiles that `INFO latencystats` shows."),
    special("notify-keyspace-events", Shape::EventClasses, "")
        .segment()
        .about("Which keyspace events are published: K on the key's channel, E on the event's, then classes of events (A for most)."),
];
