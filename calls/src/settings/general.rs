//! The process itself: logging, signals, databases, and what may be asked of it.
use super::{Setting, Shape, Start, choice, integer, memory, setting, special, switch, text};

const INT_MAX: i64 = i32::MAX as i64;

/// `no`, `yes`, or `local`: from this host only.
const GUARDED: &[&str] = &["no", "yes", "local"];
const SIGNAL_FLAGS: &[&str] = &["default", "save", "nosave", "now", "force"];

pub(super) const SETTINGS: &[Setting] = &[
    integer("databases", 1, 256, 16).segment().at_start().about("How many databases SELECT offers."),
    choice("loglevel", &["debug", "verbose", "notice", "warning", "nothing"], 2).about("The least severe lines that are logged."),
    text("logfile", "").at_start().about("Where the log goes; empty is the standard output."),
    switch("syslog-enabled", false)
        .at_start()
        .refuses("polder logs to its standard output or to `logfile`; systemd's journal takes it from there"),
    text("syslog-ident", "redis").at_start().inert(),
    choice("syslog-facility", &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"], 1)
        .at_start()
        .inert(),
    switch("daemonize", false)
        .at_start()
        .about("Whether the server goes on in the background once it serves clients; one that systemd started stays in the foreground."),
    choice("supervised", &["upstart", "systemd", "auto", "no"], 3)
        .at_start()
        .inert()
        .about("Polder tells systemd about itself whenever it was started by it."),
    text("pidfile", "").at_start().about("A file that holds the process's number while it runs; empty writes none."),
    choice("enable-debug-command", GUARDED, 0).at_start().about("Which clients may use DEBUG: none, all, or those on this host."),
    choice("enable-protected-configs", GUARDED, 0).at_start().about("Who may change protected settings at run time."),
    choice("enable-module-command", GUARDED, 0).at_start().inert().about("Polder loads no modules."),
    setting("shutdown-on-sigint", Shape::Flags(SIGNAL_FLAGS), Start::Number(0)).inert(),
    setting("shutdown-on-sigterm", Shape::Flags(SIGNAL_FLAGS), Start::Number(0)).inert(),
    integer("shutdown-timeout", 0, INT_MAX, 10).inert().about("Nothing waits for replicas at SHUTDOWN: the memory outlives the server."),
    integer("busy-reply-threshold", 0, i64::MAX, 5000)
        .alias("lua-time-limit")
        .about("Milliseconds that a script may run before other clients of its thread get BUSY and may kill it; 0: without a limit."),
    memory("lua-memory-limit", 0, i64::MAX, 1 << 30)
        .about("The most that the scripts of one thread may take, in bytes, beside the data; 0 is no limit."),
    integer("hz", 0, INT_MAX, 10).about(
        "The least number of rounds of maintenance in a second (1 to 500): they remove expired keys and recover what dead threads have left.",
    ),
    switch("dynamic-hz", true).inert(),
    switch("activerehashing", true).inert(),
    switch("always-show-logo", false).at_start().inert(),
    switch("set-proc-title", true).at_start().inert(),
    text("proc-title-template", "{title} {listen-addr} {server-mode}").inert(),
    text("locale-collate", "").inert(),
    text("ignore-warnings", "").inert(),
    switch("hide-user-data-from-log", false).inert(),
    switch("crash-log-enabled", true).inert(),
    switch("crash-memcheck-enabled", true).inert(),
    switch("use-exit-on-panic", false).hidden().inert(),
    integer("watchdog-period", 0, INT_MAX, 0).hidden().inert(),
    text("server_cpulist", "").alias("server-cpulist").at_start_here().inert(),
    text("bio_cpulist", "").alias("bio-cpulist").at_start_here().inert(),
    text("aof_rewrite_cpulist", "").alias("aof-rewrite-cpulist").at_start_here().inert(),
    text("bgsave_cpulist", "").alias("bgsave-cpulist").at_start_here().inert(),
    choice("oom-score-adj", &["no", "yes", "relative", "absolute"], 0).inert(),
    special("oom-score-adj-values", Shape::OomScores, "0 200 800").inert(),
    switch("disable-thp", true).at_start().inert(),
    switch("extended-redis-compatibility", false).inert(),
    integer("lookahead", 1, INT_MAX, 16).inert().about("Polder looks ahead over all calls of a turn."),
    integer("prefetch-batch-max-size", 0, 128, 16).inert().about("Polder prefetches the keys of all calls of a turn."),
    switch("key-memory-histograms", false)
        .at_start()
        .refuses("no value is weighed when it is written; MEMORY USAGE weighs one"),
    text("hash-seed", "").at_start().refuses("a segment draws its own seed when it is made"),
    choice("log-timestamp-format", &["legacy", "iso8601", "milliseconds"], 0)
        .refuses("the lines of the log have one form"),
    text("availability-zone", "")
        .about("Where this server is, as HELLO and INFO tell clients that choose the nearest; empty tells nothing."),
];
