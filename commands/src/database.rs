//! Whole databases: walking their keys, counting, emptying and swapping them; and the time.
//!
//! Keys are walked in the order of their hashes, so a SCAN cursor is a place in that order: no state is kept between calls, a
//! key that stays is shown at least once, and growth in between shows none twice.
use polder_base::{glob, number};
use polder_table::{Scanned, Stop};

use crate::flush;
use crate::key::database_of;
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};
use polder_calls::command::{Command, DANGEROUS, EMPTIES, FAST, KEYSPACE, read, write};
use polder_calls::facts::Tells::Own;
use polder_calls::settings::id;

/// How many keys SCAN looks at when COUNT does not say.
const SCAN_COUNT: i64 = 10;

const EVERYWHERE: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

/// The rows about the keys of a database.
pub const WALKS: &[Command] = &[
    read("KEYS", "pattern", keys)
        .with(DANGEROUS)
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .costs("O(N) with N being the number of keys in the database")
        .about("Returns all key names that match a pattern."),
    read("RANDOMKEY", "", random_key)
        .tips(&["request_policy:all_shards", "response_policy:special", "nondeterministic_output"])
        .about("Returns a random key name from the database."),
    read("SCAN", "cursor [MATCH pattern] [COUNT count] [TYPE type]", scan)
        .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])
        .since("2.8.0")
        .costs("O(1) for every call. O(N) for a complete iteration. N is the number of keys in the database.")
        .changed(&[("6.0.0", "Takes `TYPE`.")])
        .about("Iterates over the key names in the database."),
];

/// The rows about databases as wholes.
pub const COMMANDS: &[Command] = &[
    read("DBSIZE", "", size)
        .with(FAST | KEYSPACE)
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
        .about("Returns the number of keys in the database."),
    write("FLUSHALL", "[ASYNC|SYNC]", flush_all)
        .tells(Own("the call, also where nothing was there"))
        .with(DANGEROUS | KEYSPACE | EMPTIES)
        .tips(EVERYWHERE)
        .costs("O(1); a sweeper frees the memory afterwards.")
        .changed(&[("4.0.0", "Takes `ASYNC`."), ("6.2.0", "Takes `SYNC`.")])
        .about("Removes all keys from all databases."),
    write("FLUSHDB", "[ASYNC|SYNC]", flush_one)
        .tells(Own("the call, also where nothing was there"))
        .with(DANGEROUS | KEYSPACE)
        .tips(EVERYWHERE)
        .costs("O(1); a sweeper frees the memory afterwards.")
        .changed(&[("4.0.0", "Takes `ASYNC`."), ("6.2.0", "Takes `SYNC`.")])
        .about("Removes all keys from the current database."),
    write("SWAPDB", "index1 index2", swap)
        .tells(Own("the call, also where nothing was there"))
        .with(FAST | DANGEROUS | KEYSPACE)
        .since("4.0.0")
        .about("Swaps two databases."),
];

fn keys(call: &mut Call<'_>) -> Outcome {
    let (db, pattern) = (call.db(), call.args[1]);
    let mut found: Vec<Vec<u8>> = Vec::new();
    if glob::is_literal(pattern) {
        found.extend(call.txn.peek(db, pattern)?.map(|_| pattern.to_vec()));
    } else {
        let mut visit = |scanned: Scanned<'_>| {
            if glob::selects(pattern, scanned.key) {
                found.push(scanned.key.to_vec());
            }
        };
        call.txn.scan(db, 0, usize::MAX, &mut visit)?;
    }
    call.reply.array(found.len());
    found.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

fn random_key(call: &mut Call<'_>) -> Outcome {
    match call.txn.random_key(call.db())? {
        Some(key) => call.reply.bulk(&key),
        None => call.reply.null(),
    }
    Ok(())
}

/// The cursor that an argument is: any unsigned number.
pub(crate) fn cursor(arg: &[u8]) -> Result<u64, Stop> {
    let text = std::str::from_utf8(arg).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| "ERR invalid cursor".into())
}

fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor(call.args[1])?;
    let (mut pattern, mut count, mut kind) = (None, SCAN_COUNT, None);
    for option in call.args[2..].chunks(2) {
        match option {
            [word, value] if is(word, "MATCH") => pattern = Some(*value),
            [word, value] if is(word, "TYPE") => kind = Some(*value),
            [word, value] if is(word, "COUNT") => {
                count = integer(value)?;
                if count < 1 {
                    return Err(SYNTAX.into());
                }
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut visit = |scanned: Scanned<'_>| {
        let fits = kind.is_none_or(|kind| is(kind, scanned.kind.name()));
        if fits && pattern.is_none_or(|pattern| glob::selects(pattern, scanned.key)) {
            found.push(scanned.key.to_vec());
        }
    };
    let next = call.txn.scan(call.db(), cursor, count as usize, &mut visit)?;
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(found.len());
    found.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

fn size(call: &mut Call<'_>) -> Outcome {
    let keys = call.txn.keys(call.db());
    call.reply.integer(keys as i64);
    Ok(())
}

/// Checks ASYNC and SYNC, which mean the same here: no client waits for the keys to be visited.
/// Returns whether another thread would free them in Redis, which does so as well where a SYNC can
/// wait for that.
fn check_flush(call: &Call<'_>) -> Result<bool, Stop> {
    let freely = match &call.args[1..] {
        [] => call.settings.is_on(const { id("lazyfree-lazy-user-flush") }),
        [word] if is(word, "ASYNC") => true,
        [word] if is(word, "SYNC") => false,
        _ => return Err(SYNTAX.into()),
    };
    Ok(freely || !call.caller.atomic)
}

/// Says the call itself in the change log, also where nothing was there.
fn tell_call(call: &Call<'_>) {
    if call.tells_itself() {
        call.tell(&[&[call.command.name.as_bytes()], &call.args[1..]].concat());
    }
}

fn flush_all(call: &mut Call<'_>) -> Outcome {
    if check_flush(call)? {
        call.txn.count_freed((0..call.settings.databases()).map(|db| call.txn.keys(db)).sum());
    }
    flush::forget(call.txn, None)?;
    call.txn.flush(None)?;
    tell_call(call);
    call.reply.ok();
    Ok(())
}

fn flush_one(call: &mut Call<'_>) -> Outcome {
    if check_flush(call)? {
        call.txn.count_freed(call.txn.keys(call.db()));
    }
    flush::forget(call.txn, Some(call.db()))?;
    call.txn.flush(Some(call.db()))?;
    tell_call(call);
    call.reply.ok();
    Ok(())
}

fn swap(call: &mut Call<'_>) -> Outcome {
    let index = |at: usize| number::integer(call.args[at]).and_then(|number| i32::try_from(number).ok());
    let one = index(1).ok_or("ERR invalid first DB index")?;
    let two = index(2).ok_or("ERR invalid second DB index")?;
    call.txn.swap(database_of(call.settings, one)?, database_of(call.settings, two)?)?;
    tell_call(call);
    call.reply.ok();
    Ok(())
}
