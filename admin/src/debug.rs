//! DEBUG: what people, tools and test suites use of it, behind `enable-debug-command`.
//!
//! Every subcommand is a row of [`SUBCOMMANDS`]; HELP and the check of the arguments come from there. One that Redis has
//! and Polder has not (its allocator's map, its own encodings) is refused as Redis refuses an unknown one.
//! DEBUG opens its own transactions, many for POPULATE, so those that touch keys cannot run inside EXEC.
use std::time::Duration;

use polder_base::{Protocol, glob, number};
use polder_table::{Found, Inspection, Mode, New, Replaces, Stop, clock};
use polder_values::{Kind, Value, string};

use crate::config::is_allowed;
use polder_calls::call::Outcome;
use polder_calls::command::{ADMIN, LOADING, NOSCRIPT, STALE};
use polder_calls::settings::{Settings, id};
use polder_commands::types::encoding;
use polder_runtime::cold;
use polder_runtime::retry::retry;
use polder_runtime::row::{Row, SessionCall, session};
use polder_runtime::run::begin;

mod digest;
pub mod inside;

/// The family's rows.
pub const COMMANDS: &[Row] = &[session("DEBUG", "subcommand [arg ...]", debug)
    .with(ADMIN | NOSCRIPT | LOADING | STALE)
    .since("1.0.0")
    .costs("Depends on subcommand.")
    .internal()
    .about("A container for debugging commands.")];

/// A subcommand: its name, arguments, how many of them there may be, and what HELP says.
struct Subcommand {
    name: &'static str,
    grammar: &'static str,
    count: std::ops::RangeInclusive<usize>,
    run: fn(&mut SessionCall<'_>) -> Outcome,
    about: &'static str,
}

static SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "CLIENT-ENFORCE-REPLY-LIST",
        grammar: "<0|1>",
        count: 1..=1,
        run: inside::accept,
        about: "Accepted: replies always wait in one list.",
    },
    Subcommand {
        name: "CONFIG-REWRITE-FORCE-ALL",
        grammar: "",
        count: 0..=0,
        run: crate::config::rewrite_everything,
        about: "Like CONFIG REWRITE but writes all configuration options, including the ones that have their first value.",
    },
    Subcommand {
        name: "DICT-RESIZING",
        grammar: "<0|1>",
        count: 1..=1,
        run: inside::accept,
        about: "Accepted: the table grows by small steps that nothing waits for.",
    },
    Subcommand {
        name: "DIGEST",
        grammar: "",
        count: 0..=0,
        run: digest::all,
        about: "Output a hex signature representing the current DB content.",
    },
    Subcommand {
        name: "DIGEST-VALUE",
        grammar: "<key> [<key> ...]",
        count: 1..=usize::MAX,
        run: digest::values,
        about: "Output a hex signature of the values of all the specified keys.",
    },
    Subcommand {
        name: "ERROR",
        grammar: "<string>",
        count: 1..=1,
        run: error,
        about: "Return a protocol error with <string> as message.",
    },
    Subcommand {
        name: "HTSTATS",
        grammar: "<dbid> [full]",
        count: 1..=2,
        run: inside::table,
        about: "Return statistics of the table of a database.",
    },
    Subcommand {
        name: "HTSTATS-KEY",
        grammar: "<key> [full]",
        count: 1..=2,
        run: inside::tables_of_key,
        about: "Like HTSTATS but for the elements of the collection at <key>.",
    },
    Subcommand {
        name: "LISTPACK",
        grammar: "<key>",
        count: 1..=1,
        run: inside::listpack,
        about: "Show the elements of the small collection at <key>, on the standard output.",
    },
    Subcommand {
        name: "LOADAOF",
        grammar: "",
        count: 0..=0,
        run: load_log,
        about: "Wait until all changes are in the append-only log, empty the databases, and make the changes again.",
    },
    Subcommand {
        name: "LOG",
        grammar: "<message>",
        count: 1..=1,
        run: log,
        about: "Write <message> to the server log.",
    },
    Subcommand {
        name: "OBJECT",
        grammar: "<key>",
        count: 1..=1,
        run: object,
        about: "Show low level info about `key` and associated value.",
    },
    Subcommand {
        name: "PAUSE-CRON",
        grammar: "<0|1>",
        count: 1..=1,
        run: inside::pause_maintenance,
        about: "Stop maintenance by this process.",
    },
    Subcommand {
        name: "POPULATE",
        grammar: "<count> [<prefix>] [<size>]",
        count: 1..=3,
        run: populate,
        about: "Create <count> string keys named key:<num>, or <prefix>:<num>, with values of <size> bytes.",
    },
    Subcommand {
        name: "PROTOCOL",
        grammar: "<type>",
        count: 1..=1,
        run: protocol,
        about: "Reply with a test value of the specified type.",
    },
    Subcommand {
        name: "QUICKLIST-PACKED-THRESHOLD",
        grammar: "<size>",
        count: 1..=1,
        run: inside::packed_threshold,
        about: "Accepted: a long element of a list has nodes to itself always.",
    },
    Subcommand {
        name: "REPLYBUFFER",
        grammar: "<subcommand> <value>",
        count: 2..=2,
        run: inside::reply_buffer,
        about: "PEAK-RESET-TIME <NEVER|RESET|milliseconds>, RESIZING <0|1>. Accepted: reply buffers are lent for as long as they are needed.",
    },
    Subcommand {
        name: "RELOAD",
        grammar: "[option ...]",
        count: 0..=3,
        run: polder_persist::persistence::reload,
        about: "Save the RDB on disk and reload it back to memory. Options: MERGE, NOFLUSH, NOSAVE.",
    },
    Subcommand {
        name: "SET-ACTIVE-EXPIRE",
        grammar: "<0|1>",
        count: 1..=1,
        run: set_active_expiry,
        about: "Whether expired keys are collected in the background, in every process on the segment.",
    },
    Subcommand {
        name: "SET-DISABLE-DENY-SCRIPTS",
        grammar: "<0|1>",
        count: 1..=1,
        run: inside::allow_scripts,
        about: "Let scripts call commands that are not for scripts.",
    },
    Subcommand {
        name: "SET-SKIP-CHECKSUM-VALIDATION",
        grammar: "<0|1>",
        count: 1..=1,
        run: inside::skip_checksums,
        about: "Let RDB files and payloads of RESTORE have wrong checksums.",
    },
    Subcommand {
        name: "SLEEP",
        grammar: "<seconds>",
        count: 1..=1,
        run: sleep,
        about: "Stop this thread for <seconds>. Decimals allowed.",
    },
    Subcommand {
        name: "SWAPOUT",
        grammar: "<key>",
        count: 1..=1,
        run: swap_out,
        about: "Have the value of the key leave the memory for the tier.",
    },
    Subcommand {
        name: "STRINGMATCH-LEN",
        grammar: "<pattern> <string>",
        count: 2..=2,
        run: match_string,
        about: "Answer 1 when the glob-style pattern matches the string, else 0.",
    },
];

fn swap_out(call: &mut SessionCall<'_>) -> Outcome {
    if !polder_hub::tier::evict(call.table, call.session.caller.db, call.args[2]) {
        return Err(cold::NO_PROCESS.into());
    }
    call.reply.ok();
    Ok(())
}

fn load_log(call: &mut SessionCall<'_>) -> Outcome {
    call.host.load_log(call.table).map_err(|why| format!("ERR Error trying to load the AOF files: {why}"))?;
    call.reply.ok();
    Ok(())
}

fn debug(call: &mut SessionCall<'_>) -> Outcome {
    const GUARD: polder_calls::settings::Id = id("enable-debug-command");
    if !is_allowed(call.host, call.session, GUARD) {
        return Err(not_allowed("DEBUG", GUARD));
    }
    let (name, count) = (call.args[1], call.args.len() - 2);
    if name.eq_ignore_ascii_case(b"HELP") && count == 0 {
        return help(call);
    }
    let named = |subcommand: &&Subcommand| name.eq_ignore_ascii_case(subcommand.name.as_bytes());
    match SUBCOMMANDS.iter().find(named) {
        Some(subcommand) if subcommand.count.contains(&count) => (subcommand.run)(call),
        _ => Err(unfit(call)),
    }
}

/// Redis's text for what is no subcommand, or has other arguments.
fn unfit(call: &SessionCall<'_>) -> Stop {
    let name = String::from_utf8_lossy(call.args[1]);
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP.").into()
}

/// Redis's text for a command behind a guard.
pub(crate) fn not_allowed(command: &str, guard: polder_calls::settings::Id) -> Stop {
    let option = guard.row().name;
    format!(
        "ERR {command} command not allowed. If the {option} option is set to \"local\", you can run it from a local connection, \
         otherwise you need to set this option in the configuration file, and then restart the server."
    )
    .into()
}

fn help(call: &mut SessionCall<'_>) -> Outcome {
    let mut lines = vec!["DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:".to_owned()];
    for subcommand in SUBCOMMANDS {
        lines.push(format!("{} {}", subcommand.name, subcommand.grammar).trim_end().to_owned());
        lines.push(format!("    {}", subcommand.about));
    }
    lines.extend(["HELP".to_owned(), "    Prints this help.".to_owned()]);
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.status(line));
    Ok(())
}

fn error(call: &mut SessionCall<'_>) -> Outcome {
    Err(String::from_utf8_lossy(call.args[2]).into_owned().into())
}

fn sleep(call: &mut SessionCall<'_>) -> Outcome {
    // As Redis: what is no number is no time.
    let seconds = number::double(call.args[2]).filter(|seconds| *seconds > 0.0).unwrap_or(0.0);
    std::thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    call.reply.ok();
    Ok(())
}

fn set_active_expiry(call: &mut SessionCall<'_>) -> Outcome {
    let mut limits = call.table.limits();
    limits.active_expiry = number::integer(call.args[2]).unwrap_or(0) != 0;
    call.table.set_limits(limits);
    call.reply.ok();
    Ok(())
}

fn match_string(call: &mut SessionCall<'_>) -> Outcome {
    call.reply.integer(glob::matches(call.args[2], call.args[3]).into());
    Ok(())
}

fn object(call: &mut SessionCall<'_>) -> Outcome {
    let (db, key) = (call.session.caller.db, call.args[2]);
    // The value may have to come back from the tier before its place is looked at, which begins a transaction of its own.
    let txn = begin(call.table, call.session, Mode::Read)?;
    retry(&txn, || txn.peek(db, key).map(drop))?;
    drop(txn);
    let place = call.table.inspect(db, key)?.ok_or("ERR no such key")?;
    let txn = begin(call.table, call.session, Mode::Read)?;
    let mut line = String::new();
    retry(&txn, || {
        line = match txn.peek(db, key)? {
            Some(found) => {
                let line = describe(&place, encoding(&found), serialized_bytes(&found), txn.now_ms());
                let is_large_list = encoding(&found) == "quicklist";
                line + &if is_large_list {
                    describe_list(call.host.settings(), &place)
                } else {
                    String::new()
                }
            }
            // It has expired and was not collected yet: there is a place, but no value any more.
            None => describe(&place, place.layout, place.node_bytes, txn.now_ms()),
        };
        Ok(())
    })?;
    call.reply.status(&line);
    Ok(())
}

/// What DEBUG OBJECT says of every value. It is at the place of its entry in the table, which stays when the value changes.
fn describe(place: &Inspection, encoding: &str, serialized_bytes: u64, now_ms: u64) -> String {
    let idle = clock::idle_seconds(place.clock, now_ms);
    let used = (now_ms / 1000 - idle.min(now_ms / 1000)) & 0xff_ffff;
    let at = place.bucket + place.unit as u64;
    format!(
        "Value at:{at:#x} refcount:1 encoding:{encoding} serializedlength:{serialized_bytes} lru:{used} lru_seconds_idle:{idle}"
    )
}

/// What it says of a large list: nothing is compressed, whatever `list-compress-depth` asks for.
fn describe_list(settings: &Settings, place: &Inspection) -> String {
    let average = place.size as f64 / place.nodes.max(1) as f64;
    format!(
        " ql_nodes:{} ql_avg_node:{average:.2} ql_listpack_max:{} ql_compressed:{} ql_uncompressed_size:{}",
        place.nodes,
        settings.number(const { id("list-max-listpack-size") }),
        u8::from(settings.number(const { id("list-compress-depth") }) != 0),
        place.node_bytes
    )
}

/// DEBUG LOG.
fn log(call: &mut SessionCall<'_>) -> Outcome {
    tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(call.args[2]));
    call.reply.ok();
    Ok(())
}

/// The length of a string in an RDB file, when nothing is compressed; a collection's is that of its packed form or its count.
fn serialized_bytes(found: &Found<'_>) -> u64 {
    let number = match found.value {
        Value::Packed(bytes) if found.kind == Kind::String => number::integer(bytes),
        _ => None,
    };
    match (number, string::len(&found.value)) {
        (Some(-128..=127), _) => 2,
        (Some(-32_768..=32_767), _) => 3,
        (Some(-2_147_483_648..=2_147_483_647), _) => 5,
        (_, length @ ..64) => length + 1,
        (_, length @ ..16_384) => length + 2,
        (_, length) => length + 5,
    }
}

/// Keys that one transaction of POPULATE makes.
const BATCH: u64 = 256;

fn populate(call: &mut SessionCall<'_>) -> Outcome {
    const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
    let positive =
        |arg: &[u8]| number::integer(arg).and_then(|number| u64::try_from(number).ok()).ok_or(NOT_POSITIVE);
    let count = positive(call.args[2])?;
    let prefix = call.args.get(3).copied().unwrap_or(b"key");
    let size = call.args.get(4).map(|size| positive(size)).transpose()?.filter(|size| *size > 0);
    let db = call.session.caller.db;
    for first in (0..count).step_by(BATCH as usize) {
        let txn = begin(call.table, call.session, Mode::Write)?;
        let keys: Vec<Vec<u8>> = (first..count.min(first + BATCH))
            .map(|number| [prefix, format!(":{number}").as_bytes()].concat())
            .collect();
        let declared: Vec<(u16, &[u8])> = keys.iter().map(|key| (db, key.as_slice())).collect();
        retry(&txn, || {
            txn.declare(&declared)?;
            for (number, key) in (first..).zip(&keys) {
                if txn.peek(db, key)?.is_none() {
                    let mut value = format!("value:{number}").into_bytes();
                    if let Some(size) = size {
                        value.resize(size as usize, 0);
                    }
                    let value = string::make(&txn, &value)?;
                    txn.write(db, key, &New::of(Kind::String, value), Replaces::Whole)?;
                    txn.tell_as_whole();
                }
            }
            Ok(())
        })?;
    }
    call.reply.ok();
    Ok(())
}

const TYPES: &str = "string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false";

fn protocol(call: &mut SessionCall<'_>) -> Outcome {
    let reply = &mut *call.reply;
    let resp3 = reply.protocol() == Protocol::Resp3;
    match call.args[2].to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double_text("3.141"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            (0..3).for_each(|number| {
                reply.integer(number);
                reply.boolean(number == 1);
            });
        }
        b"attrib" => {
            if resp3 {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if !resp3 => return Err("ERR RESP2 is not supported by this command".into()),
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            // A push is no reply: without one the client would wait.
            reply.bulk(b"Some real reply following the push reply");
        }
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        _ => {
            return Err(
                format!("ERR Wrong protocol type name. Please use one of the following: {TYPES}").into()
            );
        }
    }
    Ok(())
}
