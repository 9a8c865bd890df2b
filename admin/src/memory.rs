//! MEMORY: what a key takes, and how the segment's memory is used.
use polder_base::{Fault, Ref, number};
use polder_shm::class::{NODE_MAX, SIZES, class_of};
use polder_table::entry::{INLINE_HEAD, INLINE_MAX, UNIT_BYTES, inline_bytes};
use polder_table::{Found, Mode, Stop, Txn};
use polder_values::{Nodes, Value};

use crate::info::databases;
use crate::metrics::{Facts, human, ratio};
use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{LOADING, STALE};
use polder_runtime::help::help;
use polder_runtime::row::{Row, SessionCall, TxnCall, container, neutral, read, session};

const SPECIAL: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("MEMORY")
        .since("4.0.0")
        .costs("Depends on subcommand.")
        .about("A container for memory diagnostics commands."),
    session("MEMORY|DOCTOR", "", doctor)
        .tips(SPECIAL)
        .since("4.0.0")
        .about("Outputs a memory problems report."),
    session("MEMORY|HELP", "", help)
        .with(LOADING | STALE)
        .since("4.0.0")
        .about("Returns helpful text about the different subcommands."),
    session("MEMORY|MALLOC-STATS", "", allocator)
        .tips(SPECIAL)
        .since("4.0.0")
        .about("Returns the allocator statistics."),
    session("MEMORY|PURGE", "", purge)
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .since("4.0.0")
        .costs("A few milliseconds at most.")
        .about("Asks the allocator to release memory."),
    neutral("MEMORY|STATS", "", Mode::Read, statistics)
        .tips(SPECIAL)
        .since("4.0.0")
        .about("Returns details about memory usage."),
    read("MEMORY|USAGE", "key [SAMPLES count]", usage)
        .touches(&["RO"])
        .since("4.0.0")
        .costs("O(N) where N is the number of samples.")
        .about("Estimates the memory usage of a key."),
];

/// Nodes of each row that MEMORY USAGE looks at if no count is given.
const SAMPLES: usize = 5;
/// No tree of nodes is deeper.
const DEPTH_MAX: u32 = 64;
/// What MEMORY PURGE may take, in microseconds.
const PURGE_US: u64 = 10_000;

/// Bytes that a node takes besides its data.
const NODE_HEADER: usize = 8;

fn usage(call: &mut TxnCall<'_>) -> Outcome {
    let samples = match &call.args[3..] {
        [] => SAMPLES,
        [word, count] if is(word, "SAMPLES") => {
            let count = number::integer(count).ok_or(polder_calls::call::NOT_AN_INTEGER)?;
            usize::try_from(count).map_err(|_| SYNTAX)?
        }
        _ => return Err(SYNTAX.into()),
    };
    let key = call.args[2];
    match call.txn.peek(call.db(), key)? {
        Some(found) => call.reply.integer(bytes_of(call.txn, key, &found, samples)? as i64),
        None => call.reply.null(),
    }
    Ok(())
}

/// Bytes of a key's entry and of every node that only it names, without the share of the table's free places. Of the nodes below another
/// one `samples` are looked at, all if that is 0.
pub(crate) fn bytes_of(txn: &Txn<'_>, key: &[u8], found: &Found<'_>, samples: usize) -> Result<u64, Stop> {
    let value = match found.value {
        Value::Packed(bytes) => bytes.len(),
        Value::Tree(_) => usize::MAX,
    };
    let inline =
        inline_bytes(key.len(), value.min(INLINE_MAX + 1), found.expiry_ms.is_some(), found.flags != 0);
    // What an item carries beside its value, and the note that a number is to stay text, stand in records only.
    if inline <= INLINE_MAX && found.extras.is_empty() && !found.text {
        return Ok((INLINE_HEAD + inline).next_multiple_of(UNIT_BYTES) as u64);
    }
    let (value, tree) = match found.value {
        Value::Packed(bytes) => (bytes.len(), 0),
        Value::Tree(root) => (size_of_val(&root), trees_bytes(txn, &root.refs, samples)?),
    };
    Ok(UNIT_BYTES as u64 + node_bytes(key.len() + value + found.extras.len()) + tree)
}

/// Returns the bytes that a node of `length` bytes takes: the size of its class.
fn node_bytes(length: usize) -> u64 {
    let bytes = length + NODE_HEADER;
    if bytes <= NODE_MAX { SIZES[class_of(bytes)].into() } else { bytes as u64 }
}

fn trees_bytes(txn: &Txn<'_>, roots: &[Ref], samples: usize) -> Result<u64, Stop> {
    let trees = roots.iter().map(|root| tree_bytes(txn, *root, samples, DEPTH_MAX));
    trees.sum()
}

/// A node and everything below it. The last node of a row may be emptier than the others, so it stands for itself alone; the others stand
/// for their neighbours.
fn tree_bytes(txn: &Txn<'_>, node: Ref, samples: usize, depth: u32) -> Result<u64, Stop> {
    if node.is_none() {
        return Ok(0);
    }
    let deeper = depth.checked_sub(1).ok_or(Fault::Damaged { what: "a tree that is too deep" })?;
    let refs = txn.refs(node)?;
    let own = node_bytes(txn.data(node)?.len() + size_of_val(refs));
    let Some((last, others)) = refs.split_last() else { return Ok(own) };
    let looked = if samples == 0 { others.len() } else { others.len().min(samples.saturating_sub(1).max(1)) };
    let mut bytes = 0;
    for number in 0..looked {
        bytes += tree_bytes(txn, others[number * others.len() / looked], samples, deeper)?;
    }
    let estimated = (u128::from(bytes) * others.len() as u128 / looked.max(1) as u128) as u64;
    Ok(own + estimated + tree_bytes(txn, *last, samples, deeper)?)
}

fn statistics(call: &mut TxnCall<'_>) -> Outcome {
    let databases = databases(call.txn, call.host);
    let keys: u64 = databases.iter().map(|database| database.keys).sum();
    let facts = Facts::gather(call.table, call.host, databases);
    let memory = &facts.usage;
    let held = memory.used.saturating_sub(memory.fixed);
    let fields: &[(&str, Figure)] = &[
        ("peak.allocated", Figure::Count(memory.used_peak)),
        ("total.allocated", Figure::Count(memory.used)),
        ("startup.allocated", Figure::Count(memory.fixed)),
        ("replication.backlog", Figure::Count(0)),
        ("clients.slaves", Figure::Count(0)),
        ("clients.normal", Figure::Count(facts.whole.statistics.client_bytes)),
        ("cluster.links", Figure::Count(0)),
        ("aof.buffer", Figure::Count(0)),
        ("lua.caches", Figure::Count(0)),
        ("functions.caches", Figure::Count(0)),
        ("", Figure::Databases),
        ("overhead.db.hashtable.lut", Figure::Count(memory.table)),
        ("overhead.db.hashtable.rehashing", Figure::Count(0)),
        ("db.dict.rehashing.count", Figure::Count(0)),
        ("overhead.total", Figure::Count(facts.overhead())),
        ("keys.count", Figure::Count(keys)),
        ("keys.bytes-per-key", Figure::Count(held.checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", Figure::Count(facts.dataset())),
        ("dataset.percentage", Figure::Ratio(ratio(facts.dataset(), held) * 100.0)),
        ("peak.percentage", Figure::Ratio(ratio(memory.used, memory.used_peak) * 100.0)),
        ("allocator.allocated", Figure::Count(memory.used)),
        ("allocator.active", Figure::Count(memory.committed)),
        ("allocator.resident", Figure::Count(memory.committed)),
        ("allocator.muzzy", Figure::Count(0)),
        ("allocator-fragmentation.ratio", Figure::Ratio(ratio(memory.committed, memory.used))),
        ("allocator-fragmentation.bytes", Figure::Count(memory.committed.saturating_sub(memory.used))),
        ("allocator-rss.ratio", Figure::Ratio(1.0)),
        ("allocator-rss.bytes", Figure::Count(0)),
        ("rss-overhead.ratio", Figure::Ratio(ratio(facts.machine.resident_bytes, memory.committed))),
        (
            "rss-overhead.bytes",
            Figure::Difference(facts.machine.resident_bytes as i64 - memory.committed as i64),
        ),
        ("fragmentation", Figure::Ratio(ratio(memory.committed, memory.used))),
        ("fragmentation.bytes", Figure::Difference(memory.committed as i64 - memory.used as i64)),
    ];
    call.reply.map(fields.len() - 1 + facts.databases.len());
    for (name, figure) in fields {
        match figure {
            Figure::Databases => {
                facts.databases.iter().for_each(|database| write_database(call, database.db))
            }
            _ => call.reply.bulk(name.as_bytes()),
        }
        match *figure {
            Figure::Count(count) => call.reply.integer(count as i64),
            Figure::Difference(difference) => call.reply.integer(difference),
            Figure::Ratio(ratio) => call.reply.double(ratio),
            Figure::Databases => {}
        }
    }
    Ok(())
}

enum Figure {
    Count(u64),
    Difference(i64),
    Ratio(f64),
    /// One entry for each database that has keys.
    Databases,
}

/// The table is one for keys and expiries alike, and what it takes is not told apart by database.
fn write_database(call: &mut TxnCall<'_>, db: u16) {
    call.reply.bulk(format!("db.{db}").as_bytes());
    call.reply.map(2);
    for name in ["overhead.hashtable.main", "overhead.hashtable.expires"] {
        call.reply.bulk(name.as_bytes());
        call.reply.integer(0);
    }
}

/// Above this part of the ceiling the doctor speaks up.
const FULL: f64 = 0.9;
/// Above this part of the used memory, nodes that wait for readers are worth a word.
const RETIRED: f64 = 0.1;

fn doctor(call: &mut SessionCall<'_>) -> Outcome {
    let (memory, limits) = (call.table.usage(), call.table.limits());
    let ceiling = if limits.memory_max == 0 { memory.ceiling } else { limits.memory_max };
    let mut report = String::new();
    if ratio(memory.used, ceiling) > FULL {
        let (used, ceiling) = (human(memory.used), human(ceiling));
        report.push_str(&format!("- {used} of {ceiling} are used: raise maxmemory or the segment's size, or choose a maxmemory-policy.\n"));
    }
    if ratio(memory.retired, memory.used) > RETIRED {
        let retired = human(memory.retired);
        report.push_str(&format!("- {retired} wait for a reader that does not go on: 'polder top' names the seat that holds them back.\n"));
    }
    if memory.seats_used * 10 > memory.seats_max * 9 {
        let (used, max) = (memory.seats_used, memory.seats_max);
        report.push_str(&format!("- {used} of {max} seats are taken: the threads of all processes on the segment are nearly too many.\n"));
    }
    if report.is_empty() {
        report.push_str("There is nothing wrong with the memory of this segment.\n");
    }
    call.reply.verbatim("txt", report.as_bytes());
    Ok(())
}

fn allocator(call: &mut SessionCall<'_>) -> Outcome {
    let memory = call.table.usage();
    let free = memory.committed.saturating_sub(memory.used);
    let lines = [
        ("ceiling", memory.ceiling),
        ("committed", memory.committed),
        ("used", memory.used),
        ("used at most", memory.used_peak),
        ("free for reuse", free),
        ("headers and seats", memory.fixed),
        ("table", memory.table),
        ("retired", memory.retired),
        ("page", memory.page_bytes),
    ];
    let text: String = lines
        .iter()
        .map(|(name, bytes)| format!("{name:<18} {bytes:>16} bytes  {}\n", human(*bytes)))
        .collect();
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// A round of maintenance gives back what is retired. Inside EXEC the thread's own transaction
/// still pins it.
fn purge(call: &mut SessionCall<'_>) -> Outcome {
    call.table.run_maintenance(PURGE_US);
    call.reply.ok();
    Ok(())
}
