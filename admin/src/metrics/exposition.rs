//! The figures of INFO in the text formats of Prometheus and OpenMetrics.
//!
//! ```text
//!   # HELP polder_keyspace_hits_total Reads that found their key.
//!   # TYPE polder_keyspace_hits_total counter
//!   polder_keyspace_hits_total{segment="shm:polder"} 42
//! ```
//!
//! Several servers may share a segment. What the segment counts, each of them shows with the same label `segment`, so it
//! must not be summed over servers. What a process counts has the label `process`, and is that process's alone.
//!
//! Each row of [`EXPORTS`] names a field of INFO, which has the figure. A scrape asks no other process.
use std::fmt::{Display, Write};

use super::recorder::Totals;
use super::rows::{SECTIONS, lag_seconds};
use super::{Body, Facts, Figure, Metric};
use polder_calls::settings::id;
use polder_replica::records::Record;

/// What the figure is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    Segment,
    Process,
}

use Scope::{Process, Segment};

/// A field of INFO that monitoring systems get.
struct Export {
    field: &'static str,
    /// Its name there; that of a counter ends with `_total`.
    name: &'static str,
    scope: Scope,
    /// How many of the field's units make one of the metric's.
    divisor: f64,
    help: &'static str,
}

const fn export(field: &'static str, name: &'static str, scope: Scope, help: &'static str) -> Export {
    Export { field, name, scope, divisor: 1.0, help }
}

/// A field in millionths.
const fn millionths(field: &'static str, name: &'static str, scope: Scope, help: &'static str) -> Export {
    Export { field, name, scope, divisor: 1e6, help }
}

static EXPORTS: &[Export] = &[
    export("uptime_in_seconds", "polder_uptime_seconds", Process, "Time since the server started."),
    export(
        "connected_clients",
        "polder_connected_clients",
        Process,
        "Clients that are connected to this server.",
    ),
    export("maxclients", "polder_clients_max", Process, "Clients that this server serves at a time."),
    export("blocked_clients", "polder_blocked_clients", Process, "Clients whose calls wait."),
    export("pubsub_clients", "polder_pubsub_clients", Process, "Clients with a subscription."),
    export("tracking_clients", "polder_tracking_clients", Process, "Clients that track keys."),
    export("watching_clients", "polder_watching_clients", Process, "Clients that watch keys."),
    export("mem_clients_normal", "polder_clients_memory_bytes", Process, "Memory that clients take."),
    export("used_memory", "polder_memory_used_bytes", Segment, "Memory of the segment in use."),
    export(
        "used_memory_peak",
        "polder_memory_used_peak_bytes",
        Segment,
        "The most memory of the segment that was in use.",
    ),
    export("used_memory_dataset", "polder_memory_dataset_bytes", Segment, "Memory of keys and values."),
    export(
        "used_memory_overhead",
        "polder_memory_overhead_bytes",
        Segment,
        "Memory of the segment that is no data.",
    ),
    export(
        "maxmemory",
        "polder_memory_limit_bytes",
        Segment,
        "The limit that eviction keeps to; 0 for none.",
    ),
    export("segment_bytes", "polder_segment_bytes", Segment, "The length of the segment."),
    export(
        "segment_bytes_max",
        "polder_segment_limit_bytes",
        Segment,
        "The length to which the segment may grow.",
    ),
    export(
        "retired_bytes",
        "polder_memory_retired_bytes",
        Segment,
        "Replaced memory that a reader may still use.",
    ),
    export(
        "used_memory_rss",
        "polder_process_resident_memory_bytes",
        Process,
        "Resident memory of the server.",
    ),
    export(
        "used_cpu_user",
        "polder_process_cpu_user_seconds_total",
        Process,
        "CPU time of the server in user mode.",
    ),
    export(
        "used_cpu_sys",
        "polder_process_cpu_system_seconds_total",
        Process,
        "CPU time of the server in the kernel.",
    ),
    export(
        "total_connections_received",
        "polder_connections_received_total",
        Segment,
        "Clients that have connected.",
    ),
    export(
        "rejected_connections",
        "polder_connections_rejected_total",
        Segment,
        "Clients refused because too many were connected.",
    ),
    export(
        "total_commands_processed",
        "polder_commands_processed_total",
        Segment,
        "Calls that were executed.",
    ),
    export("total_net_input_bytes", "polder_net_input_bytes_total", Segment, "Bytes received from clients."),
    export("total_net_output_bytes", "polder_net_output_bytes_total", Segment, "Bytes sent to clients."),
    export("keyspace_hits", "polder_keyspace_hits_total", Segment, "Reads that found their key."),
    export("keyspace_misses", "polder_keyspace_misses_total", Segment, "Reads that did not find their key."),
    export("expired_keys", "polder_expired_keys_total", Segment, "Keys that have expired."),
    export("expired_subkeys", "polder_expired_fields_total", Segment, "Fields of hashes that have expired."),
    export("evicted_keys", "polder_evicted_keys_total", Segment, "Keys that were evicted."),
    export(
        "evicted_clients",
        "polder_evicted_clients_total",
        Process,
        "Clients closed because all together took too much memory.",
    ),
    export(
        "client_query_buffer_limit_disconnections",
        "polder_query_limit_disconnections_total",
        Process,
        "Clients closed because of the length of their requests.",
    ),
    export(
        "client_output_buffer_limit_disconnections",
        "polder_output_limit_disconnections_total",
        Process,
        "Clients closed because they did not read their replies.",
    ),
    export("pubsub_channels", "polder_pubsub_channels", Segment, "Channels with subscribers."),
    export("pubsub_patterns", "polder_pubsub_patterns", Segment, "Patterns with subscribers."),
    export("total_error_replies", "polder_error_replies_total", Process, "Replies that were errors."),
    export("acl_access_denied_auth", "polder_acl_denied_auth_total", Process, "Log-ins that failed."),
    export(
        "acl_access_denied_cmd",
        "polder_acl_denied_command_total",
        Process,
        "Calls refused because of their command.",
    ),
    export(
        "acl_access_denied_key",
        "polder_acl_denied_key_total",
        Process,
        "Calls refused because of a key.",
    ),
    export(
        "acl_access_denied_channel",
        "polder_acl_denied_channel_total",
        Process,
        "Calls refused because of a channel.",
    ),
    export("eventloop_cycles", "polder_turns_total", Process, "Turns of the event loops."),
    millionths(
        "eventloop_duration_sum",
        "polder_turn_duration_seconds_total",
        Process,
        "Time in turns of the event loops, without sleep.",
    ),
    export(
        "rdb_changes_since_last_save",
        "polder_rdb_changes_since_last_save",
        Segment,
        "Changes since the last RDB file was written.",
    ),
    export(
        "rdb_last_save_time",
        "polder_rdb_last_save_timestamp_seconds",
        Segment,
        "When the last RDB file was written.",
    ),
    export("connected_slaves", "polder_replicas", Segment, "Replicas of the memory."),
    export(
        "master_repl_offset",
        "polder_replication_offset_bytes",
        Segment,
        "The end of the change log, as replicas count it.",
    ),
    export("sync_full", "polder_syncs_full_total", Segment, "Replicas that were sent a copy of the data."),
    export("sync_partial_ok", "polder_syncs_partial_total", Segment, "Replicas that went on without a copy."),
    export("seats_used", "polder_seats_used", Segment, "Threads that are attached to the segment."),
    export("seats_max", "polder_seats_max", Segment, "Threads that may be attached to the segment."),
    export("threads", "polder_threads", Process, "Event loops of this server."),
    export(
        "retries",
        "polder_transaction_retries_total",
        Segment,
        "Transactions that were run again because of another writer.",
    ),
    export("parks", "polder_lock_waits_total", Segment, "Waits for a lock."),
    export(
        "publishers_held",
        "polder_publishers_held_total",
        Segment,
        "Times a publisher was held back for a slow subscriber.",
    ),
    export("recoveries", "polder_recoveries_total", Segment, "Threads that died and were recovered."),
];

/// The bounds of latency histograms in nanoseconds, and in seconds as text: powers of four, 1 microsecond to 4.3 seconds.
const BOUNDS: [(u64, &str); 12] = [
    (1 << 10, "1.024e-06"),
    (1 << 12, "4.096e-06"),
    (1 << 14, "1.6384e-05"),
    (1 << 16, "6.5536e-05"),
    (1 << 18, "0.000262144"),
    (1 << 20, "0.001048576"),
    (1 << 22, "0.004194304"),
    (1 << 24, "0.016777216"),
    (1 << 26, "0.067108864"),
    (1 << 28, "0.268435456"),
    (1 << 30, "1.073741824"),
    (1 << 32, "4.294967296"),
];

/// A text in one of the two formats.
struct Text {
    text: String,
    is_open: bool,
}

impl Text {
    /// Begins a metric. In OpenMetrics the suffix of a counter belongs to its samples alone.
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let family = if self.is_open && kind == "counter" {
            name.strip_suffix("_total").unwrap_or(name)
        } else {
            name
        };
        _ = write!(self.text, "# HELP {family} {help}\n# TYPE {family} {kind}\n");
        let unit = ["seconds", "bytes"]
            .into_iter()
            .find(|unit| family.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')));
        if let Some(unit) = unit.filter(|_| self.is_open) {
            _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
    }

    /// A sample with its labels, `name="value"` each.
    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        _ = writeln!(self.text, "{name}{{{labels}}} {value}");
    }
}

/// A value of a label with its escapes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// All metrics of this process and its segment: for OpenMetrics if `is_open`, else for Prometheus.
pub fn render(facts: &Facts<'_>, is_open: bool) -> String {
    let mut text = Text { text: String::with_capacity(16 << 10), is_open };
    let segment = format!("segment=\"{}\"", escaped(&facts.settings.string(const { id("segment") })));
    let process = format!("process=\"{}\"", std::process::id());
    text.begin("polder_build_info", "gauge", "The version of the server.");
    text.sample("polder_build_info", &format!("{process},version=\"{}\"", env!("CARGO_PKG_VERSION")), 1);
    for Export { field, name, scope, divisor, help } in EXPORTS {
        let Some(value) = figure(facts, field) else { continue };
        text.begin(name, if name.ends_with("_total") { "counter" } else { "gauge" }, help);
        text.sample(name, if *scope == Segment { &segment } else { &process }, value / divisor);
    }
    databases(&mut text, facts, &segment);
    replication(&mut text, facts, &segment);
    errors(&mut text, facts, &process);
    commands(&mut text, facts, &process);
    if is_open {
        text.text.push_str("# EOF\n");
    }
    text.text
}

/// The row of INFO with this name.
fn row(field: &str) -> Option<&'static Metric> {
    let fields = SECTIONS.iter().filter_map(|section| match section.body {
        Body::Fields(fields) => Some(fields),
        Body::Lines(_) => None,
    });
    fields.flatten().find(|metric| metric.name == field)
}

fn figure(facts: &Facts<'_>, field: &str) -> Option<f64> {
    match row(field)?.figure {
        Figure::Count(count) => Some(count(facts) as f64),
        Figure::Text(text) => text(facts).parse().ok(),
        Figure::Always(text) => text.parse().ok(),
    }
}

fn databases(text: &mut Text, facts: &Facts<'_>, segment: &str) {
    text.begin("polder_keys", "gauge", "Keys of a database.");
    for database in &facts.databases {
        text.sample("polder_keys", &format!("{segment},db=\"{}\"", database.db), database.keys);
    }
    text.begin("polder_keys_expiring", "gauge", "Keys of a database that expire.");
    for database in &facts.databases {
        text.sample("polder_keys_expiring", &format!("{segment},db=\"{}\"", database.db), database.expiring);
    }
}

/// Both sides of replication: the replicas by their addresses, and the link to the primary.
fn replication(text: &mut Text, facts: &Facts<'_>, segment: &str) {
    let is_replica = facts.table.role().is_replica();
    text.begin("polder_role", "gauge", "The role of the memory: 1 for the one that it has.");
    for (role, has) in [("primary", !is_replica), ("replica", is_replica)] {
        text.sample("polder_role", &format!("{segment},role=\"{role}\""), u8::from(has));
    }
    if is_replica {
        text.begin("polder_primary_link_up", "gauge", "1 while a server of the memory follows the primary.");
        text.sample("polder_primary_link_up", segment, u8::from(facts.table.segment().link().is_up()));
    }
    let end = facts.table.log().range().1;
    text.begin(
        "polder_replica_lag_bytes",
        "gauge",
        "Bytes of the change log that a replica has not acknowledged.",
    );
    for replica in &facts.replication.replicas {
        text.sample(
            "polder_replica_lag_bytes",
            &of_replica(segment, replica),
            end.saturating_sub(replica.acknowledged),
        );
    }
    text.begin("polder_replica_lag_seconds", "gauge", "Time since the last acknowledgement of a replica.");
    for replica in &facts.replication.replicas {
        if let Some(seconds) = lag_seconds(facts, replica) {
            text.sample("polder_replica_lag_seconds", &of_replica(segment, replica), seconds);
        }
    }
}

fn of_replica(segment: &str, replica: &Record) -> String {
    format!("{segment},replica=\"{}:{}\"", escaped(&replica.address), replica.port)
}

fn errors(text: &mut Text, facts: &Facts<'_>, process: &str) {
    text.begin("polder_errors_total", "counter", "Replies that were errors, by their code.");
    for (code, count) in &facts.whole.errors {
        text.sample("polder_errors_total", &format!("{process},code=\"{}\"", escaped(code)), count);
    }
}

/// What is counted of a command's calls.
type Count = fn(&Totals) -> u64;

fn commands(text: &mut Text, facts: &Facts<'_>, process: &str) {
    let counts: [(&str, &str, Count); 3] = [
        ("polder_commands_total", "Calls of a command.", |total| total.calls),
        ("polder_commands_failed_total", "Calls of a command that failed.", |total| total.failed),
        (
            "polder_commands_rejected_total",
            "Calls of a command that were refused before they ran.",
            |total| total.rejected,
        ),
    ];
    for (name, help, count) in counts {
        text.begin(name, "counter", help);
        for (command, total) in &facts.whole.calls {
            text.sample(name, &format!("{process},command=\"{}\"", command.label()), count(total));
        }
    }
    let name = "polder_command_duration_seconds";
    text.begin(name, "histogram", "How long the calls of a command took.");
    for (command, total) in &facts.whole.calls {
        let (labels, all) = (format!("{process},command=\"{}\"", command.label()), total.latency.total());
        if all == 0 {
            continue;
        }
        for ((_, seconds), count) in
            BOUNDS.iter().zip(total.latency.up_to(BOUNDS.map(|(bound_ns, _)| bound_ns)))
        {
            _ = writeln!(
                text.text,
                "polder_command_duration_seconds_bucket{{{labels},le=\"{seconds}\"}} {count}"
            );
        }
        text.sample("polder_command_duration_seconds_bucket", &format!("{labels},le=\"+Inf\""), all);
        text.sample("polder_command_duration_seconds_sum", &labels, total.nanoseconds as f64 / 1e9);
        text.sample("polder_command_duration_seconds_count", &labels, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_a_field_of_info_with_a_lawful_name() {
        for (number, export) in EXPORTS.iter().enumerate() {
            assert!(row(export.field).is_some(), "INFO has no field {}", export.field);
            assert!(export.name.starts_with("polder_") && export.help.ends_with('.'), "{}", export.name);
            assert!(
                export
                    .name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{}",
                export.name
            );
            assert!(EXPORTS[..number].iter().all(|other| other.name != export.name), "{} twice", export.name);
        }
    }

    #[test]
    fn openmetrics_names_a_counter_without_its_suffix() {
        let mut text = Text { text: String::new(), is_open: true };
        text.begin("polder_x_seconds_total", "counter", "X.");
        text.sample("polder_x_seconds_total", "process=\"1\"", 1.5);
        let expected = "# HELP polder_x_seconds X.\n# TYPE polder_x_seconds counter\n# UNIT polder_x_seconds seconds\npolder_x_seconds_total{process=\"1\"} 1.5\n";
        assert_eq!(text.text, expected);
    }

    #[test]
    fn bounds_are_the_same_in_both_units() {
        for (bound_ns, seconds) in BOUNDS {
            assert_eq!(seconds.parse(), Ok(bound_ns as f64 / 1e9));
        }
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
