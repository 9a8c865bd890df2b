//! How much memory the data may take, and what goes when it is full.
use super::{Setting, choice, integer, memory, switch};

const INT_MAX: i64 = i32::MAX as i64;

/// In the order of Redis's own error text.
pub const POLICY_NAMES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "volatile-lrm",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "allkeys-lrm",
    "noeviction",
];

pub(super) const SETTINGS: &[Setting] = &[
    memory("maxmemory", 0, i64::MAX, 0).segment().about("The most that the data may take, in bytes; 0 is the segment's ceiling. What no eviction gives back, as the seats of threads, does not count (INFO: mem_not_counted_for_evict)."),
    choice("maxmemory-policy", POLICY_NAMES, 9).segment().about("Which keys are evicted when `maxmemory` is reached: those read or written least recently (lru), read or written least frequently (lfu), written least recently (lrm), that expire first (ttl), or any."),
    choice("swap-mode", &["memory", "disk"], 0).at_start().about("disk: values that were not used for long leave the memory for RocksDB, in the folder data.rocks of `dir`, where `maxmemory` is reached, and come back when they are asked for. No key is evicted then."),
    integer("swap-threads", 1, 16, 4).at_start().about("Threads that bring values back and let them leave, with `swap-mode disk`."),
    integer("maxmemory-samples", 1, 64, 5).segment().about("Keys looked at for each one that is evicted."),
    integer("maxmemory-eviction-tenacity", 0, 100, 10).inert(),
    integer("lfu-log-factor", 0, INT_MAX, 10)
        .segment()
        .about("How many accesses saturate a key's frequency counter: the higher, the more."),
    integer("lfu-decay-time", 0, INT_MAX, 1).segment().about("Minutes after which an unused key's frequency counter falls by one."),
    switch("import-mode", false).segment().about(
        "While data is imported: nothing expires and nothing is evicted, and clients that have sent CLIENT IMPORT-SOURCE see expired keys.",
    ),
    integer("active-expire-effort", 1, 10, 1).inert().about("Polder knows which keys are due and visits only those."),
    switch("lazyfree-lazy-eviction", false).inert().about("Memory is always given back lazily."),
    switch("lazyfree-lazy-expire", false).inert(),
    switch("lazyfree-lazy-server-del", false).inert(),
    switch("lazyfree-lazy-user-del", false)
        .about("Whether INFO counts what DEL frees as it does for UNLINK. No call ever waits for memory to be freed."),
    switch("lazyfree-lazy-user-flush", false).about("The same for FLUSHALL and FLUSHDB in EXEC and scripts, without ASYNC or SYNC."),
    switch("activedefrag", false).inert().refuses("polder moves values together by itself, as soon as one size has taken all memory"),
    memory("active-defrag-ignore-bytes", 1, i64::MAX, 100 << 20).inert(),
    integer("active-defrag-threshold-lower", 0, 1000, 10).inert(),
    integer("active-defrag-threshold-upper", 0, 1000, 100).inert(),
    integer("active-defrag-cycle-min", 1, 99, 1).inert(),
    integer("active-defrag-cycle-max", 1, 99, 25).inert(),
    integer("active-defrag-cycle-us", 0, 100_000, 500).inert(),
    integer("active-defrag-max-scan-fields", 1, i64::MAX, 1000).inert(),
    switch("jemalloc-bg-thread", true).inert(),
];
