//! The rows: INFO's sections with their fields, in Redis 7.4's order, and Polder's own at the end.
use polder_hub::subject::Subject;
use polder_table::Counter;

use super::Figure::{Always, Count, Text};
use super::{Body, Database, Facts, Figure, Metric, Section, human, ratio};
use polder_calls::settings::{id, value};
use polder_persist::tier_process::TierFigure;
use polder_replica::failover::Failover;
use polder_replica::primary::Primary;
use polder_replica::records::{Record, State};
use polder_runtime::denials::Reason;
use polder_runtime::recorder::Totals;
use polder_runtime::scripts::Figures;
use polder_shm::LinkState;
use polder_shm::layout::header;

const fn metric(name: &'static str, figure: Figure) -> Metric {
    Metric { name, figure }
}

/// A count of something that does not exist here.
const fn none(name: &'static str) -> Metric {
    metric(name, Always("0"))
}

/// Seconds, or -1 where there are none to tell.
fn seconds(took: Option<u64>) -> String {
    took.map_or("-1".into(), |took| took.to_string())
}

/// How something went the last time.
fn status(has_failed: bool) -> String {
    if has_failed { "err".into() } else { "ok".into() }
}

const fn section(title: &'static str, body: Body) -> Section {
    Section { title, usual: true, of_processes: false, body, more: |_| Vec::new() }
}

const fn unusual(title: &'static str, body: Body) -> Section {
    Section { usual: false, ..section(title, body) }
}

/// One that sums up what each process has counted.
const fn of_processes(section: Section) -> Section {
    Section { of_processes: true, ..section }
}

/// Every section, in the order in which INFO shows them.
pub static SECTIONS: &[Section] = &[
    Section { more: listener_lines, ..section("Server", Body::Fields(SERVER)) },
    of_processes(section("Clients", Body::Fields(CLIENTS))),
    of_processes(section("Memory", Body::Fields(MEMORY))),
    section("Persistence", Body::Fields(PERSISTENCE)),
    of_processes(section("Stats", Body::Fields(STATS))),
    Section { more: replica_lines, ..section("Replication", Body::Fields(REPLICATION)) },
    section("CPU", Body::Fields(CPU)),
    section("Modules", Body::Fields(&[])),
    of_processes(unusual("Commandstats", Body::Lines(command_lines))),
    of_processes(section("Errorstats", Body::Lines(error_lines))),
    of_processes(unusual("Latencystats", Body::Lines(latency_lines))),
    section("Cluster", Body::Fields(&[none("cluster_enabled")])),
    section("Keyspace", Body::Lines(keyspace_lines)),
    unusual(KEY_SIZES_SECTION, Body::Lines(|facts| facts.key_sizes.clone())),
    of_processes(unusual(DEBUG_SECTION, Body::Fields(DEBUG))),
    unusual("Swap", Body::Fields(SWAP)),
    section("Polder", Body::Fields(POLDER)),
    of_processes(section("Processes", Body::Lines(process_lines))),
];

/// Lines of the places at which the server hears RESP clients, in the form of Redis 7.2 and later.
fn listener_lines(facts: &Facts<'_>) -> Vec<String> {
    let settings = facts.settings;
    let bound: String = settings
        .string(const { id("bind") })
        .split_ascii_whitespace()
        .map(|address| format!(",bind={address}"))
        .collect();
    let socket = settings.string(const { id("unixsocket") });
    let of_port = |name: &str, port: i64| (port > 0).then(|| format!("name={name}{bound},port={port}"));
    let listeners = [
        of_port("tcp", settings.number(const { id("port") })),
        (!socket.is_empty()).then(|| format!("name=unix,bind={socket}")),
        of_port("tls", settings.number(const { id("tls-port") })),
    ];
    listeners
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(number, line)| format!("listener{number}:{line}"))
        .collect()
}

fn scripts(facts: &Facts<'_>) -> Figures {
    facts.host.scripting().map(|scripting| scripting.figures(facts.table)).unwrap_or_default()
}

const SERVER: &[Metric] = &[
    metric("redis_version", Text(|facts| facts.host.version())),
    metric("redis_git_sha1", Always("00000000")),
    none("redis_git_dirty"),
    metric("redis_build_id", Always(concat!("polder-", env!("CARGO_PKG_VERSION")))),
    metric("redis_mode", Always("standalone")),
    // Its name in Valkey.
    metric("server_mode", Always("standalone")),
    metric("os", Text(|facts| facts.machine.system.clone())),
    metric("arch_bits", Count(|_| usize::BITS.into())),
    metric("monotonic_clock", Always("POSIX clock_gettime")),
    metric("multiplexing_api", Always("epoll")),
    metric("atomicvar_api", Always("rust")),
    metric("gcc_version", Always("0.0.0")),
    metric("process_id", Count(|_| std::process::id().into())),
    metric(
        "process_supervised",
        Text(|_| if std::env::var_os("NOTIFY_SOCKET").is_some() { "systemd" } else { "no" }.into()),
    ),
    metric("run_id", Text(|facts| facts.recorder.run_id().to_owned())),
    metric("tcp_port", Count(|facts| facts.settings.number(const { id("port") }) as u64)),
    metric("server_time_usec", Count(|facts| facts.now_us)),
    metric("uptime_in_seconds", Count(|facts| facts.uptime_seconds())),
    metric("uptime_in_days", Count(|facts| facts.uptime_seconds() / 86400)),
    metric("hz", Count(|facts| facts.settings.number(const { id("hz") }) as u64)),
    metric("configured_hz", Count(|facts| facts.settings.number(const { id("hz") }) as u64)),
    metric("lru_clock", Count(|facts| (facts.now_us / 1_000_000) & 0xff_ffff)),
    metric("executable", Text(|facts| facts.machine.executable.clone())),
    metric(
        "config_file",
        Text(|facts| facts.settings.file().map(|path| path.display().to_string()).unwrap_or_default()),
    ),
    none("io_threads_active"),
    // Valkey 8.
    metric("availability_zone", Text(|facts| facts.settings.string(const { id("availability-zone") }))),
];

const CLIENTS: &[Metric] = &[
    metric("connected_clients", Count(|facts| facts.whole.statistics.clients)),
    none("cluster_connections"),
    metric("maxclients", Count(|facts| facts.settings.number(const { id("maxclients") }) as u64)),
    metric("client_recent_max_input_buffer", Count(|facts| facts.whole.statistics.query_bytes_max)),
    metric("client_recent_max_output_buffer", Count(|facts| facts.whole.statistics.reply_bytes_max)),
    metric("blocked_clients", Count(|facts| facts.whole.statistics.clients_blocked)),
    metric("tracking_clients", Count(|facts| facts.whole.statistics.clients_tracking)),
    metric("pubsub_clients", Count(|facts| facts.whole.statistics.clients_listening)),
    metric("watching_clients", Count(|facts| facts.whole.statistics.clients_watching)),
    none("clients_in_timeout_table"),
    metric("total_watched_keys", Count(|facts| facts.whole.statistics.keys_watched)),
    metric("total_blocking_keys", Count(|facts| facts.whole.statistics.keys_awaited)),
    metric("total_blocking_keys_on_nokey", Count(|facts| facts.whole.statistics.keys_awaited_or_gone)),
    // Since Valkey 8.
    metric("paused_reason", Text(|facts| pause(facts).map_or("none", |_| "client_pause").to_owned())),
    metric(
        "paused_actions",
        Text(|facts| {
            pause(facts).map_or("none", |(_, writes)| if writes { "write" } else { "all" }).to_owned()
        }),
    ),
    metric("paused_timeout_milliseconds", Count(|facts| pause(facts).map_or(0, |(left_ms, _)| left_ms))),
];

/// How much longer clients are held back, and whether it is only those that write.
fn pause(facts: &Facts<'_>) -> Option<(u64, bool)> {
    let (until_ms, writes_only) = polder_hub::query::paused(facts.table);
    until_ms
        .checked_sub(facts.now_us / 1000)
        .filter(|left_ms| *left_ms > 0)
        .map(|left_ms| (left_ms, writes_only))
}

const MEMORY: &[Metric] = &[
    metric("used_memory", Count(|facts| facts.usage.used)),
    metric("used_memory_human", Text(|facts| human(facts.usage.used))),
    metric("used_memory_rss", Count(|facts| facts.machine.resident_bytes)),
    metric("used_memory_rss_human", Text(|facts| human(facts.machine.resident_bytes))),
    metric("used_memory_peak", Count(|facts| facts.usage.used_peak)),
    metric("used_memory_peak_human", Text(|facts| human(facts.usage.used_peak))),
    metric(
        "used_memory_peak_perc",
        Text(|facts| format!("{:.2}%", ratio(facts.usage.used, facts.usage.used_peak) * 100.0)),
    ),
    metric("used_memory_overhead", Count(|facts| facts.overhead())),
    metric("used_memory_startup", Count(|facts| facts.usage.fixed)),
    metric("used_memory_dataset", Count(|facts| facts.dataset())),
    metric(
        "used_memory_dataset_perc",
        Text(|facts| {
            format!(
                "{:.2}%",
                ratio(facts.dataset(), facts.usage.used.saturating_sub(facts.usage.fixed)) * 100.0
            )
        }),
    ),
    metric("allocator_allocated", Count(|facts| facts.usage.used)),
    metric("allocator_active", Count(|facts| facts.usage.committed)),
    metric("allocator_resident", Count(|facts| facts.usage.committed)),
    none("allocator_muzzy"),
    metric("total_system_memory", Count(|facts| facts.machine.memory_bytes)),
    metric("total_system_memory_human", Text(|facts| human(facts.machine.memory_bytes))),
    // One interpreter runs scripts and functions: each is told half of its memory.
    metric("used_memory_lua", Count(|facts| scripts(facts).lua_bytes.div_ceil(2))),
    metric("used_memory_vm_eval", Count(|facts| scripts(facts).lua_bytes.div_ceil(2))),
    metric("used_memory_lua_human", Text(|facts| human(scripts(facts).lua_bytes.div_ceil(2)))),
    metric("used_memory_scripts_eval", Count(|facts| scripts(facts).cached_bytes)),
    metric("number_of_cached_scripts", Count(|facts| scripts(facts).cached)),
    metric("number_of_functions", Count(|facts| scripts(facts).functions)),
    metric("number_of_libraries", Count(|facts| scripts(facts).libraries)),
    metric("used_memory_vm_functions", Count(|facts| scripts(facts).lua_bytes / 2)),
    metric("used_memory_vm_total", Count(|facts| scripts(facts).lua_bytes)),
    metric("used_memory_vm_total_human", Text(|facts| human(scripts(facts).lua_bytes))),
    metric("used_memory_functions", Count(|facts| scripts(facts).library_bytes)),
    metric("used_memory_scripts", Count(|facts| scripts(facts).bytes())),
    metric("used_memory_scripts_human", Text(|facts| human(scripts(facts).bytes()))),
    metric("maxmemory", Count(|facts| facts.limits.memory_max)),
    metric("maxmemory_human", Text(|facts| human(facts.limits.memory_max))),
    metric("maxmemory_policy", Text(|facts| facts.settings.string(const { id("maxmemory-policy") }))),
    metric(
        "allocator_frag_ratio",
        Text(|facts| format!("{:.2}", ratio(facts.usage.committed, facts.usage.used))),
    ),
    metric("allocator_frag_bytes", Count(|facts| facts.usage.committed.saturating_sub(facts.usage.used))),
    metric("allocator_rss_ratio", Always("1.00")),
    none("allocator_rss_bytes"),
    metric(
        "rss_overhead_ratio",
        Text(|facts| format!("{:.2}", ratio(facts.machine.resident_bytes, facts.usage.committed))),
    ),
    metric(
        "rss_overhead_bytes",
        Text(|facts| (facts.machine.resident_bytes as i64 - facts.usage.committed as i64).to_string()),
    ),
    metric(
        "mem_fragmentation_ratio",
        Text(|facts| format!("{:.2}", ratio(facts.usage.committed, facts.usage.used))),
    ),
    metric(
        "mem_fragmentation_bytes",
        Text(|facts| (facts.usage.committed as i64 - facts.usage.used as i64).to_string()),
    ),
    metric("mem_not_counted_for_evict", Count(|facts| facts.usage.uncounted())),
    none("mem_replication_backlog"),
    none("mem_total_replication_buffers"),
    none("mem_replica_full_sync_buffer"),
    none("mem_clients_slaves"),
    metric("mem_clients_normal", Count(|facts| facts.whole.statistics.client_bytes)),
    none("mem_cluster_links"),
    // Redis 8.4 and Valkey 9: no slots move here.
    none("mem_cluster_slot_migration_output_buffer"),
    none("mem_cluster_slot_migration_input_buffer"),
    none("mem_cluster_slot_migration_input_buffer_peak"),
    none("mem_cluster_slot_import"),
    none("mem_cluster_slot_export"),
    none("mem_aof_buffer"),
    metric("mem_allocator", Always("polder")),
    none("mem_overhead_db_hashtable_rehashing"),
    none("active_defrag_running"),
    none("lazyfree_pending_objects"),
    metric("lazyfreed_objects", Count(|facts| facts.counter(Counter::Freed))),
];

const PERSISTENCE: &[Metric] = &[
    metric("loading", Count(|facts| facts.host.is_loading().into())),
    none("async_loading"),
    none("current_cow_peak"),
    none("current_cow_size"),
    none("current_cow_size_age"),
    metric("current_fork_perc", Always("0.00")),
    metric("current_save_keys_processed", Count(|facts| facts.saves.keys)),
    metric("current_save_keys_total", Count(|facts| facts.saves.total)),
    metric("rdb_changes_since_last_save", Count(|facts| facts.saves.changes)),
    metric("rdb_bgsave_in_progress", Count(|facts| facts.saves.in_background.into())),
    metric("rdb_last_save_time", Count(|facts| facts.last_save_seconds())),
    metric("rdb_last_bgsave_status", Text(|facts| status(facts.saves.failures_in_row > 0))),
    metric("rdb_last_bgsave_time_sec", Text(|facts| seconds(facts.saves.last_took))),
    metric("rdb_current_bgsave_time_sec", Text(|facts| seconds(facts.saves.current_took))),
    metric("rdb_saves", Count(|facts| facts.saves.saves)),
    metric("rdb_saves_consecutive_failures", Count(|facts| facts.saves.failures_in_row)),
    none("rdb_last_cow_size"),
    metric("rdb_last_load_keys_expired", Count(|facts| facts.saves.loaded_expired)),
    metric("rdb_last_load_keys_loaded", Count(|facts| facts.saves.loaded_keys)),
    metric("aof_enabled", Count(|facts| facts.log.is_enabled.into())),
    metric("aof_rewrite_in_progress", Count(|facts| facts.log.is_rewriting.into())),
    metric("aof_rewrite_scheduled", Count(|facts| facts.log.rewrite_is_scheduled.into())),
    metric("aof_last_rewrite_time_sec", Text(|facts| seconds(facts.log.last_rewrite_seconds))),
    metric("aof_current_rewrite_time_sec", Text(|facts| seconds(facts.log.current_rewrite_seconds))),
    metric("aof_last_bgrewrite_status", Text(|facts| status(facts.log.last_rewrite_failed))),
    metric("aof_rewrites", Count(|facts| facts.log.rewrites)),
    metric("aof_rewrites_consecutive_failures", Count(|facts| facts.log.failures_in_row)),
    metric("aof_last_write_status", Text(|facts| status(facts.log.is_failing))),
    none("aof_last_cow_size"),
    none("module_fork_in_progress"),
    none("module_fork_last_cow_size"),
    none("slot_migration_fork_in_progress"),
    metric("aof_current_size", Count(|facts| facts.log.bytes)),
    metric("aof_base_size", Count(|facts| facts.log.base_bytes)),
    none("aof_pending_rewrite"),
    metric("aof_buffer_length", Count(|facts| facts.log.lag_bytes)),
    none("aof_pending_bio_fsync"),
    metric("aof_delayed_fsync", Count(|facts| facts.log.slow_syncs)),
    metric("aof_storage_pid", Count(|facts| facts.log.process.into())),
    metric("aof_durable_offset", Count(|facts| facts.log.durable_offset)),
];

const STATS: &[Metric] = &[
    metric("total_connections_received", Count(|facts| facts.counter(Counter::Connections))),
    metric("total_commands_processed", Count(|facts| facts.counter(Counter::Calls))),
    metric("instantaneous_ops_per_sec", Count(|facts| facts.rates.calls)),
    metric("total_net_input_bytes", Count(|facts| facts.counter(Counter::BytesIn))),
    metric("total_net_output_bytes", Count(|facts| facts.counter(Counter::BytesOut))),
    none("total_net_repl_input_bytes"),
    none("total_net_repl_output_bytes"),
    none("total_net_cluster_slot_import_bytes"),
    none("total_net_cluster_slot_export_bytes"),
    metric("instantaneous_input_kbps", Text(|facts| format!("{:.2}", facts.rates.bytes_in / 1024.0))),
    metric("instantaneous_output_kbps", Text(|facts| format!("{:.2}", facts.rates.bytes_out / 1024.0))),
    metric("instantaneous_input_repl_kbps", Always("0.00")),
    metric("instantaneous_output_repl_kbps", Always("0.00")),
    metric("rejected_connections", Count(|facts| facts.counter(Counter::Refusals))),
    metric("sync_full", Count(|facts| facts.counter(Counter::SyncsFull))),
    metric("sync_partial_ok", Count(|facts| facts.counter(Counter::SyncsPartial))),
    metric("sync_partial_err", Count(|facts| facts.counter(Counter::SyncsRefused))),
    metric("sync_overruns", Count(|facts| facts.counter(Counter::SyncsOverrun))),
    metric("expired_keys", Count(|facts| facts.counter(Counter::Expired))),
    metric("expired_subkeys", Count(|facts| facts.counter(Counter::ExpiredFields))),
    // Its name in Valkey 9.
    metric("expired_fields", Count(|facts| facts.counter(Counter::ExpiredFields))),
    metric("expired_stale_perc", Text(|facts| format!("{:.2}", facts.stale() * 100.0))),
    metric("expired_time_cap_reached_count", Count(|facts| facts.counter(Counter::ExpiryCuts))),
    metric("expire_cycle_cpu_milliseconds", Count(|facts| facts.counter(Counter::ExpiryUs) / 1000)),
    metric("evicted_keys", Count(|facts| facts.counter(Counter::Evicted))),
    metric("evicted_clients", Count(|facts| facts.whole.statistics.clients_evicted)),
    metric("evicted_scripts", Count(|facts| scripts(facts).evicted)),
    none("total_eviction_exceeded_time"),
    none("current_eviction_exceeded_time"),
    metric("keyspace_hits", Count(|facts| facts.counter(Counter::Hits))),
    metric("keyspace_misses", Count(|facts| facts.counter(Counter::Misses))),
    metric("pubsub_channels", Count(|facts| facts.subjects[Subject::Channel as usize])),
    metric("pubsub_patterns", Count(|facts| facts.subjects[Subject::Pattern as usize])),
    metric("pubsubshard_channels", Count(|facts| facts.subjects[Subject::Shard as usize])),
    none("latest_fork_usec"),
    none("total_forks"),
    none("migrate_cached_sockets"),
    none("slave_expires_tracked_keys"),
    metric("active_defrag_hits", Count(|facts| facts.counter(Counter::Moved))),
    none("active_defrag_misses"),
    none("active_defrag_key_hits"),
    none("active_defrag_key_misses"),
    none("total_active_defrag_time"),
    none("current_active_defrag_time"),
    metric("tracking_total_keys", Count(|facts| facts.whole.statistics.tracked_keys)),
    metric("tracking_total_items", Count(|facts| facts.whole.statistics.tracked_items)),
    metric("tracking_total_prefixes", Count(|facts| facts.whole.statistics.tracked_prefixes)),
    none("unexpected_error_replies"),
    metric("total_error_replies", Count(|facts| facts.whole.errors.values().sum())),
    none("dump_payload_sanitizations"),
    metric("total_reads_processed", Count(|facts| facts.whole.statistics.reads)),
    metric("total_writes_processed", Count(|facts| facts.whole.statistics.writes)),
    none("io_threaded_reads_processed"),
    none("io_threaded_writes_processed"),
    // Each event loop does all of its clients: there are no threads beside it.
    none("io_threaded_freed_objects"),
    none("io_threaded_accept_processed"),
    none("io_threaded_poll_processed"),
    none("io_threaded_total_prefetch_batches"),
    none("io_threaded_total_prefetch_entries"),
    metric(
        "client_query_buffer_limit_disconnections",
        Count(|facts| facts.whole.statistics.query_limit_closed),
    ),
    metric(
        "client_output_buffer_limit_disconnections",
        Count(|facts| facts.whole.statistics.reply_limit_closed),
    ),
    none("reply_buffer_shrinks"),
    none("reply_buffer_expands"),
    metric("eventloop_cycles", Count(|facts| facts.whole.statistics.turns)),
    metric("eventloop_duration_sum", Count(|facts| facts.whole.statistics.turn_us)),
    metric(
        "eventloop_duration_cmd_sum",
        Count(|facts| facts.whole.calls.iter().map(|(_, total)| total.nanoseconds).sum::<u64>() / 1000),
    ),
    none("instantaneous_eventloop_cycles_per_sec"),
    none("instantaneous_eventloop_duration_usec"),
    metric("acl_access_denied_auth", Count(|facts| denied(facts, Reason::Auth))),
    metric("acl_access_denied_cmd", Count(|facts| denied(facts, Reason::Command))),
    metric("acl_access_denied_key", Count(|facts| denied(facts, Reason::Key))),
    metric("acl_access_denied_channel", Count(|facts| denied(facts, Reason::Channel))),
];

/// The section that only its own name shows.
pub const DEBUG_SECTION: &str = "Debug";
pub const KEY_SIZES_SECTION: &str = "Keysizes";

const DEBUG: &[Metric] = &[
    // No event loop writes the log: the storage process does.
    none("eventloop_duration_aof_sum"),
    metric("eventloop_duration_cron_sum", Count(|facts| facts.whole.statistics.chores_us)),
    metric("eventloop_duration_max", Count(|facts| facts.whole.statistics.turn_us_max)),
    metric("eventloop_cmd_per_cycle_max", Count(|facts| facts.whole.statistics.turn_calls_max)),
];

const REPLICATION: &[Metric] = &[
    metric("role", Text(|facts| if facts.table.role().is_replica() { "slave" } else { "master" }.into())),
    metric("connected_slaves", Count(|facts| facts.replication.replicas.len() as u64)),
    metric(
        "master_failover_state",
        Text(|facts| facts.replication.failover.as_ref().map_or("no-failover", Failover::state).into()),
    ),
    metric("master_replid", Text(replication_identity)),
    metric(
        "master_replid2",
        Text(|facts| facts.table.log().before().map_or_else(|| "0".repeat(40), |(identity, _)| identity)),
    ),
    metric("master_repl_offset", Count(|facts| stream(facts).1)),
    metric(
        "second_repl_offset",
        Text(|facts| {
            let log = facts.table.log();
            log.before().map_or_else(|| "-1".into(), |(_, end)| (log.offset_of(end) + 1).to_string())
        }),
    ),
    metric("repl_backlog_active", Count(|facts| facts.table.log().is_on().into())),
    metric(
        "repl_backlog_size",
        Count(|facts| facts.settings.number(const { id("repl-backlog-size") }) as u64),
    ),
    metric(
        "repl_backlog_first_byte_offset",
        Count(|facts| if facts.table.log().is_on() { stream(facts).0 + 1 } else { 0 }),
    ),
    metric("repl_backlog_histlen", Count(|facts| stream(facts).1 - stream(facts).0)),
];

/// The identity by which replicas know the data: that of the change log, once it is on.
fn replication_identity(facts: &Facts<'_>) -> String {
    if facts.table.log().is_on() { facts.table.log().identity() } else { facts.recorder.run_id().to_owned() }
}

/// The first offset of the change log that is kept, and its end.
fn stream(facts: &Facts<'_>) -> (u64, u64) {
    let log = facts.table.log();
    let (first, end) = log.range();
    if log.is_on() { (log.offset_of(first), log.offset_of(end)) } else { (0, 0) }
}

/// The lines of a replica about its primary.
fn primary_lines(facts: &Facts<'_>) -> Vec<String> {
    let Some(Primary { host, port, .. }) =
        facts.replication.primary.as_ref().filter(|_| facts.table.role().is_replica())
    else {
        return Vec::new();
    };
    let link = facts.table.segment().link();
    let (figures, owner) = (link.figures(), link.owner().filter(|owner| owner.lives));
    let since = |then_ms: u64| {
        if then_ms == 0 { -1 } else { ((facts.now_us / 1000).saturating_sub(then_ms) / 1000) as i64 }
    };
    let is_up = link.is_up();
    let (copies, offset) = (figures.state == LinkState::Copies, stream(facts).1);
    let mut lines = vec![
        format!("master_host:{host}"),
        format!("master_port:{port}"),
        format!("master_link_status:{}", if is_up { "up" } else { "down" }),
        format!("master_last_io_seconds_ago:{}", if is_up { since(figures.heard_ms) } else { -1 }),
        format!("master_sync_in_progress:{}", u8::from(copies)),
        format!("slave_read_repl_offset:{offset}"),
        format!("slave_repl_offset:{offset}"),
    ];
    if copies {
        let (read, bytes) = (figures.copy_read, figures.copy_bytes);
        let percent = if bytes == 0 { 0.0 } else { read as f64 * 100.0 / bytes as f64 };
        lines.extend([
            format!("master_sync_total_bytes:{bytes}"),
            format!("master_sync_read_bytes:{read}"),
            format!("master_sync_left_bytes:{}", bytes as i64 - read as i64),
            format!("master_sync_perc:{percent:.2}"),
            format!("master_sync_last_io_seconds_ago:{}", since(figures.heard_ms)),
        ]);
    }
    if !is_up {
        lines.push(format!("master_link_down_since_seconds:{}", since(figures.down_ms)));
        let trouble = facts.replication.trouble.as_deref().unwrap_or_default();
        lines.push(format!("master_link_error:{}", trouble.replace(['\r', '\n'], " ")));
    }
    lines.extend([
        format!("slave_priority:{}", facts.settings.number(const { id("replica-priority") })),
        "slave_read_only:1".into(),
        "replica_announced:1".into(),
        format!("link_pid:{}", owner.map_or(0, |owner| owner.process)),
        format!("link_refused:{}", figures.refused),
    ]);
    lines
}

/// The time since the last acknowledgement of a replica; `None`: it has not acknowledged anything yet.
pub fn lag_seconds(facts: &Facts<'_>, replica: &Record) -> Option<u64> {
    let since_ms = Some(replica.acknowledged_ms).filter(|since_ms| *since_ms != 0)?;
    Some((facts.now_us / 1000).saturating_sub(since_ms) / 1000)
}

fn replica_lines(facts: &Facts<'_>) -> Vec<String> {
    let log = facts.table.log();
    let line = |(number, replica): (usize, &Record)| {
        let Record { address, port, acknowledged, acknowledged_ms, .. } = replica;
        let state = match replica.state {
            State::Copies => "send_bulk",
            State::Online => "online",
        };
        let lag_seconds = lag_seconds(facts, replica).map_or(-1, |seconds| seconds as i64);
        format!(
            "slave{number}:ip={address},port={port},state={state},offset={offset},lag={lag_seconds}",
            offset = if *acknowledged_ms == 0 { 0 } else { log.offset_of(*acknowledged) },
        )
    };
    let replicas = facts.replication.replicas.iter().enumerate().map(line);
    primary_lines(facts).into_iter().chain(replicas).collect()
}

const CPU: &[Metric] = &[
    metric("used_cpu_sys", Text(|facts| format!("{:.6}", facts.machine.cpu[1]))),
    metric("used_cpu_user", Text(|facts| format!("{:.6}", facts.machine.cpu[0]))),
    metric("used_cpu_sys_children", Text(|facts| format!("{:.6}", facts.machine.cpu[3]))),
    metric("used_cpu_user_children", Text(|facts| format!("{:.6}", facts.machine.cpu[2]))),
    metric("used_cpu_sys_main_thread", Text(|facts| format!("{:.6}", facts.machine.main_cpu[1]))),
    metric("used_cpu_user_main_thread", Text(|facts| format!("{:.6}", facts.machine.main_cpu[0]))),
];

const POLDER: &[Metric] = &[
    metric("polder_version", Always(env!("CARGO_PKG_VERSION"))),
    metric("segment", Text(|facts| facts.settings.string(const { id("segment") }))),
    metric("segment_bytes_max", Count(|facts| facts.usage.ceiling)),
    metric("segment_bytes", Count(|facts| facts.usage.committed)),
    metric("page_bytes", Count(|facts| facts.usage.page_bytes)),
    metric("fixed_bytes", Count(|facts| facts.usage.fixed)),
    metric("table_bytes", Count(|facts| facts.usage.table)),
    metric("retired_bytes", Count(|facts| facts.usage.retired)),
    metric("seats_used", Count(|facts| facts.usage.seats_used.into())),
    metric("seats_max", Count(|facts| facts.usage.seats_max.into())),
    metric("threads", Count(|facts| facts.settings.number(const { id("threads") }) as u64)),
    metric("retries", Count(|facts| facts.counter(Counter::Retries))),
    metric("parks", Count(|facts| facts.counter(Counter::Parks))),
    metric("publishers_held", Count(|facts| facts.counter(Counter::PublishersHeld))),
    metric("queued_messages_lost", Count(|facts| facts.counter(Counter::QueuedLost))),
    metric("recoveries", Count(|facts| facts.counter(Counter::Recoveries))),
    metric("number_mode", Text(|facts| facts.settings.string(const { id("number-mode") }))),
];

/// How often this reason for a denial was given.
fn denied(facts: &Facts<'_>, reason: Reason) -> u64 {
    facts.whole.denied[reason as usize]
}

fn process_lines(facts: &Facts<'_>) -> Vec<String> {
    facts
        .whole
        .processes
        .values()
        .enumerate()
        .map(|(number, process)| format!("process{number}:{process}"))
        .collect()
}

fn command_lines(facts: &Facts<'_>) -> Vec<String> {
    let line = |(command, total): &(&polder_calls::Command, Totals)| {
        let microseconds = total.nanoseconds / 1000;
        let each =
            if total.calls == 0 { 0.0 } else { total.nanoseconds as f64 / 1000.0 / total.calls as f64 };
        let (name, calls, rejected, failed) = (command.label(), total.calls, total.rejected, total.failed);
        format!(
            "cmdstat_{name}:calls={calls},usec={microseconds},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}"
        )
    };
    facts.whole.calls.iter().map(line).collect()
}

fn error_lines(facts: &Facts<'_>) -> Vec<String> {
    facts.whole.errors.iter().map(|(code, count)| format!("errorstat_{code}:count={count}")).collect()
}

fn latency_lines(facts: &Facts<'_>) -> Vec<String> {
    let wanted = value::percentiles(&facts.settings.text(const { id("latency-tracking-info-percentiles") }));
    let line = |(command, total): &(&polder_calls::Command, Totals)| {
        let figure = |percent: &f64| {
            let microseconds = total.latency.percentile(*percent) as f64 / 1000.0;
            format!("p{}={microseconds:.3}", value::format_percentile(*percent))
        };
        let figures: Vec<String> = wanted.iter().map(figure).collect();
        format!("latency_percentiles_usec_{}:{}", command.label(), figures.join(","))
    };
    facts.whole.calls.iter().filter(|(_, total)| total.latency.total() > 0).map(line).collect()
}

fn of_tier(facts: &Facts<'_>, figure: TierFigure) -> u64 {
    facts.table.segment().tier().figure(figure as u64)
}

/// The tier. Names of Redis-On-Rocks where it has the figure.
const SWAP: &[Metric] = &[
    metric("swap_used_disk_size", Count(|facts| of_tier(facts, TierFigure::DiskBytes))),
    metric("swap_error_count", Count(|facts| of_tier(facts, TierFigure::Errors))),
    metric("swap_mem_rocksdb", Count(|facts| facts.table.segment().load(header::TIER_BYTES))),
    metric("tier_pid", Count(|facts| facts.table.segment().tier().process().unwrap_or(0).into())),
    metric("tier_spills", Count(|facts| of_tier(facts, TierFigure::Spills))),
    metric("tier_spills_clean", Count(|facts| of_tier(facts, TierFigure::CleanSpills))),
    metric("tier_asks", Count(|facts| of_tier(facts, TierFigure::Asks))),
    metric("tier_fetches", Count(|facts| of_tier(facts, TierFigure::Fetches))),
    metric("tier_names", Count(|facts| of_tier(facts, TierFigure::Keys))),
    metric("tier_copies", Count(|facts| of_tier(facts, TierFigure::Copies))),
    metric("tier_copies_dropped", Count(|facts| of_tier(facts, TierFigure::Dropped))),
];

fn keyspace_lines(facts: &Facts<'_>) -> Vec<String> {
    let line = |database: &Database| {
        let Database { db, keys, expiring, expiries } = database;
        let inner = facts.table.keys_with_field_expiry(*db);
        let rest = format!("expires={expiring},avg_ttl={},subexpiry={inner}", expiries.left_ms);
        match facts.table.is_tiered() {
            // Redis-On-Rocks counts them so: those in the memory, those whose values are not.
            true => {
                let cold = facts.table.cold_keys(*db);
                format!("db{db}:keys={},evicts={cold},metas=0,{rest}", keys.saturating_sub(cold))
            }
            false => format!("db{db}:keys={keys},{rest}"),
        }
    };
    facts.databases.iter().map(line).collect()
}
