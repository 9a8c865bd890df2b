//! Strings: whole values and parts of them. Counters, SET's options and LCS have files of their own.
//!
//! How a string is laid out (packed, or a tree of chunks) is `values::string`'s business. Here a short one is copied and a
//! long one is edited chunk by chunk; replies come straight from the nodes.
//!
//! **Rule** Nodes are made only when nothing can be refused any more: inside EXEC the other commands are committed, and a
//! node that no value names would be lost.
use polder_base::Reply;
use polder_table::{Found, ItemExtras, New, Stop};
use polder_values::string::{self, Draft, LEN_MAX};
use polder_values::{Kind, Nodes, Value};

use polder_calls::call::wrong_arity;
use polder_calls::call::{Call, Outcome, integer};
use polder_calls::command::{COUNTS, Command, FAST, GROWS, read, write};
use polder_calls::facts::Tells::{Own, State};
use polder_calls::settings::id;

mod bounded;
mod compare;
mod count;
pub(crate) use count::number_mode;
mod lcs;
mod quick;
mod set;

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("APPEND", "key value", append)
        .quick(quick::append)
        .shares_key()
        .tells(State)
        .with(GROWS | FAST)
        .touches(&["RW insert"])
        .since("2.0.0")
        .costs("O(1) for a short value; past 8 KiB one chunk of the old value and its path are copied.")
        .about("Appends a string to the value of a key. Creates the key if it doesn't exist."),
    write("DECR", "key", count::decr)
        .tells(State)
        .quick(quick::decr)
        .with(GROWS | FAST)
        .about("Decrements the integer value of a key by one."),
    write("DECRBY", "key decrement", count::decrby)
        .tells(State)
        .with(GROWS | FAST)
        .about("Decrements a number from the integer value of a key."),
    write("DELEX", "key [IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest]", compare::delex)
        .tells(Own("`DEL key`"))
        .with(FAST)
        .touches(&["RW delete variable_flags"])
        .varies(compare::touches)
        .since("8.4.0")
        .costs("O(1), with IFDEQ and IFDNE O(N) where N is the length of the value.")
        .about("Deletes a key, or only if the string that it holds, or the digest of that, is equal to another or is not."),
    write("DELIFEQ", "key value", compare::delifeq)
        .tells(Own("`DEL key`"))
        .with(FAST)
        .touches(&["RM delete"])
        .since("9.0.0")
        .about("Deletes a key if it holds this string: a command of Valkey, which Redis has as `DELEX` with `IFEQ`."),
    read("DIGEST", "key", compare::digest)
        .with(FAST)
        .since("8.4.0")
        .costs("O(N) where N is the length of the value.")
        .about("Returns the digest of a string: its XXH3 hash of 64 bits, as 16 hexadecimal digits."),
    read("GET", "key", get).quick(quick::get).with(FAST).about("Returns the string value of a key."),
    write("GETDEL", "key", getdel)
        .quick(quick::getdel)
        .shares_key()
        .tells(Own("`DEL key`"))
        .with(FAST | COUNTS)
        .touches(&["RW access delete"])
        .since("6.2.0")
        .about("Returns the string value of a key after deleting the key."),
    write("GETEX", "key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]", set::getex)
        .tells(Own("`PEXPIREAT key ms`, `PERSIST key`; `DEL key` where the time has passed"))
        .with(FAST | COUNTS)
        .since("6.2.0")
        .about("Returns the string value of a key after setting its expiration time."),
    read("GETRANGE", "key start end", getrange)
        .since("2.4.0")
        .costs("O(N) where N is the length of the returned string.")
        .about("Returns a substring of the string stored at a key."),
    write("GETSET", "key value", set::getset)
        .tells(Own("`SET key value`, with `PXAT ms` or `KEEPTTL`"))
        .with(GROWS | FAST | COUNTS)
        .replaced("6.2.0", "`SET` with `GET`")
        .about("Returns the previous string value of a key after setting it to a new value."),
    write("INCR", "key", count::incr)
        .tells(State)
        .quick(quick::incr)
        .with(GROWS | FAST)
        .about("Increments the integer value of a key by one."),
    write("INCRBY", "key increment", count::incrby)
        .tells(State)
        .quick(quick::incrby)
        .with(GROWS | FAST)
        .about("Increments the integer value of a key by a number."),
    write("INCRBYFLOAT", "key increment", count::incrbyfloat)
        .quick(quick::incrbyfloat)
        .shares_key()
        .tells(Own("`SET key value`, with `PXAT ms` or `KEEPTTL`"))
        .with(GROWS | FAST)
        .since("2.6.0")
        .about("Increments the number in a key by a number that need not be whole: in decimal, unless number-mode says otherwise."),
    write(
        "INCREX",
        "key [BYFLOAT float|BYINT integer] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] \
         [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] [ENX]",
        bounded::increx,
    )
    .tells(Own("`SET key value`, with `PXAT ms` or `KEEPTTL`; `DEL key` where the time has passed"))
    .with(GROWS | FAST)
    .touches(&["RW access update"])
    .since("8.8.0")
    .about("Increments the number in a key by a number within bounds, and sets its expiration time."),
    read("LCS", "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]", lcs::lcs)
        .since("7.0.0")
        .costs("O(N*M) where N and M are the lengths of s1 and s2, respectively")
        .about("Finds the longest common substring."),
    read("MGET", "key [key ...]", mget)
        .quick(quick::mget)
        .with(FAST)
        .tips(&["request_policy:multi_shard"])
        .costs("O(N) where N is the number of keys to retrieve.")
        .about("Returns the string values of one or more keys."),
    write("MSET", "key value [key value ...]", mset)
        .tells(State)
        .quick(quick::mset)
        .with(GROWS)
        .touches(&["OW update"])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .since("1.0.1")
        .costs("O(N) where N is the number of keys to set.")
        .about("Creates or modifies the string values of one or more keys, all at once."),
    write(
        "MSETEX",
        "numkeys key value [key value ...] [NX|XX] \
         [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
        set::msetex,
    )
    .tells(Own("`SET key value` for each key, with `PXAT ms`"))
    .with(GROWS)
    .touches(&["OW update"])
    .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
    .since("8.4.0")
    .costs("O(N) where N is the number of keys to set.")
    .about("Sets the string values of one or more keys and one expiry for all of them, all at once, and only if none of them exists or if all do."),
    write("MSETNX", "key value [key value ...]", msetnx)
        .tells(Own("`MSET key value ...`"))
        .with(GROWS)
        .touches(&["OW insert"])
        .since("1.0.1")
        .costs("O(N) where N is the number of keys to set.")
        .about("Creates the string values of one or more keys, all at once, when none of the keys exists."),
    write("PSETEX", "key milliseconds value", set::psetex)
        .tells(Own("`SET key value`, with `PXAT ms` or `KEEPTTL`"))
        .quick(quick::psetex)
        .with(GROWS)
        .touches(&["OW update"])
        .since("2.6.0")
        .replaced("2.6.12", "`SET` with `PX`")
        .about("Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist."),
    write(
        "SET",
        "key value [NX|XX|IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest] [GET] \
         [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
        set::set,
    )
    .tells(Own("`SET key value`, with `PXAT ms` or `KEEPTTL`"))
    .quick(quick::set)
    .group(quick::set_group)
    .with(GROWS)
    .touches(&["RW access update variable_flags"])
    .varies(set::touches)
    .changed(&[
        ("2.6.12", "Takes `EX`, `PX`, `NX` and `XX`."),
        ("6.0.0", "Takes `KEEPTTL`."),
        ("6.2.0", "Takes `GET`, `EXAT` and `PXAT`."),
        ("7.0.0", "`NX` and `GET` may be said together."),
        ("8.4.0", "Takes `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`."),
    ])
    .about("Sets the string value of a key, ignoring its type. The key is created if it doesn't exist."),
    write("SETEX", "key seconds value", set::setex)
        .tells(Own("`SET key value`, with `PXAT ms` or `KEEPTTL`"))
        .quick(quick::setex)
        .with(GROWS)
        .touches(&["OW update"])
        .since("2.0.0")
        .replaced("2.6.12", "`SET` with `EX`")
        .about("Sets the string value and expiration time of a key. Creates the key if it doesn't exist."),
    write("SETNX", "key value", set::setnx)
        .tells(Own("`SET key value`, with `PXAT ms` or `KEEPTTL`"))
        .with(GROWS | FAST)
        .touches(&["OW insert"])
        .replaced("2.6.12", "`SET` with `NX`")
        .about("Sets the string value of a key only when the key doesn't exist."),
    write("SETRANGE", "key offset value", setrange)
        .tells(State)
        .with(GROWS)
        .touches(&["RW update"])
        .since("2.2.0")
        .costs("O(M) where M is the length of the value written; past 8 KiB whole chunks of the old value are copied.")
        .about("Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist."),
    read("STRLEN", "key", strlen).with(FAST).touches(&["RO"]).since("2.2.0").about("Returns the length of a string value."),
    read("SUBSTR", "key start end", getrange)
        .costs("O(N) where N is the length of the returned string.")
        .replaced("2.0.0", "`GETRANGE`")
        .about("Returns a substring from a string value: the old name of GETRANGE."),
];

const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// The longest string that a command may make, in bytes.
pub(crate) fn len_max(call: &Call<'_>) -> u64 {
    let setting = call.settings.number(const { id("proto-max-bulk-len") });
    // A bit field may reach 8 bytes past the offset that is checked.
    (setting as u64).min(LEN_MAX - 16)
}

/// The string that a key holds, if it is there.
///
/// # Errors
/// WRONGTYPE when it holds something else.
pub(crate) fn find<'c>(call: &Call<'c>, key: &[u8]) -> Result<Option<Found<'c>>, Stop> {
    call.find_kind(key, Kind::String)
}

/// The value that a key holds, an absent one an empty string.
pub(crate) fn value_or_empty<'c>(found: &Option<Found<'c>>) -> Value<'c> {
    found.map_or(Value::Packed(b""), |found| found.value)
}

/// Replies with the bytes of a value from `start` up to `end`.
///
/// # Errors
/// A fault of the memory: the reply is then cut off and must be taken back.
pub(crate) fn reply_range(
    reply: &mut dyn Reply,
    nodes: &dyn Nodes,
    value: Value<'_>,
    start: u64,
    end: u64,
) -> Outcome {
    if let Value::Packed(bytes) = value {
        reply.bulk(&bytes[start as usize..end as usize]);
        return Ok(());
    }
    reply.begin_bulk(end - start);
    for piece in string::pieces(nodes, value, start, end) {
        reply.piece(piece?.bytes());
    }
    reply.end_bulk();
    Ok(())
}

/// Replies with a string, or with null when there is none.
pub(crate) fn reply_found(call: &mut Call<'_>, found: &Option<Found<'_>>) -> Outcome {
    match found {
        Some(Found { value: Value::Packed(bytes), .. }) => call.reply.bulk(bytes),
        Some(found) => reply_range(call.reply, call.txn, found.value, 0, string::len(&found.value))?,
        None => call.reply.null(),
    }
    Ok(())
}

/// Gives a key the string `bytes` and nothing else: no expiry, no flags.
pub(crate) fn put_bytes(call: &Call<'_>, key: &[u8], bytes: &[u8]) -> Outcome {
    call.replace(key, &New::of(Kind::String, string::make(call.txn, bytes)?))
}

/// Publishes a draft of a key's string, which is `raw` from now on; expiry and flags stay as they were.
pub(crate) fn edit_draft(call: &Call<'_>, key: &[u8], found: Option<Found<'_>>, draft: &Draft) -> Outcome {
    let value = draft.value();
    let old = found.map_or(New::of(Kind::String, value), New::from);
    let kept = kept_extras(old.extras);
    call.edit(key, &New { value, raw: true, text: false, extras: &kept, ..old })
}

/// What an edit of the value leaves of an item's extras: the content type, but no marks and no chosen CAS.
pub(crate) fn kept_extras(extras: &[u8]) -> Vec<u8> {
    if extras.is_empty() { Vec::new() } else { ItemExtras::decode(extras).after_edit().encode() }
}

/// Where a range of Redis's kind (both ends included, negative ones counted from the end) lies in `total` things: the
/// first and the one after the last; none when it is empty.
pub(crate) fn range(start: i64, end: i64, total: u64) -> Option<(u64, u64)> {
    let total = total as i64;
    let place = |at: i64| if at < 0 { (total + at).max(0) } else { at };
    let backwards = start < 0 && end < 0 && start > end;
    let (start, end) = (place(start), place(end).min(total - 1));
    (!backwards && start <= end).then(|| (start as u64, end as u64 + 1))
}

fn get(call: &mut Call<'_>) -> Outcome {
    let found = find(call, call.args[1])?;
    reply_found(call, &found)
}

fn getdel(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let found = find(call, key)?;
    reply_found(call, &found)?;
    if found.is_some() {
        call.remove(key)?;
        call.tell(&[b"DEL", key]);
        call.notify('g', "del", key);
    }
    Ok(())
}

fn mget(call: &mut Call<'_>) -> Outcome {
    call.reply.array(call.args.len() - 1);
    for key in &call.args[1..] {
        let found = call.find(key)?.filter(|found| found.kind == Kind::String);
        reply_found(call, &found)?;
    }
    Ok(())
}

fn mset(call: &mut Call<'_>) -> Outcome {
    put_pairs(call, pairs(call)?)?;
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_>) -> Outcome {
    let pairs = pairs(call)?;
    for [key, _] in pairs {
        if call.find(key)?.is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    put_pairs(call, pairs)?;
    if call.tells_itself() {
        call.tell(&[&[&b"MSET"[..]], &call.args[1..]].concat());
    }
    call.reply.integer(1);
    Ok(())
}

/// The arguments as keys and values.
fn pairs<'c>(call: &Call<'c>) -> Result<&'c [[&'c [u8]; 2]], Stop> {
    let (pairs, rest) = call.args[1..].as_chunks();
    if rest.is_empty() { Ok(pairs) } else { Err(wrong_arity(call.command)) }
}

fn put_pairs(call: &Call<'_>, pairs: &[[&[u8]; 2]]) -> Outcome {
    for (number, [key, bytes]) in pairs.iter().enumerate() {
        // A value that the next pair replaces would never be seen, but for the event of its end.
        if call.txn.tells_replaced() || pairs.get(number + 1).is_none_or(|next| next[0] != *key) {
            put_bytes(call, key, bytes)?;
        }
        call.notify('$', "set", key);
    }
    Ok(())
}

fn strlen(call: &mut Call<'_>) -> Outcome {
    let found = find(call, call.args[1])?;
    call.reply.integer(string::len(&value_or_empty(&found)) as i64);
    Ok(())
}

fn getrange(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (integer(call.args[2])?, integer(call.args[3])?);
    let value = value_or_empty(&find(call, call.args[1])?);
    let (start, end) = range(start, end, string::len(&value)).unwrap_or((0, 0));
    reply_range(call.reply, call.txn, value, start, end)
}

fn append(call: &mut Call<'_>) -> Outcome {
    let (key, bytes) = (call.args[1], call.args[2]);
    let Some(found) = find(call, key)? else {
        put_bytes(call, key, bytes)?;
        call.notify('$', "append", key);
        call.reply.integer(bytes.len() as i64);
        return Ok(());
    };
    let len = string::len(&found.value);
    if len + bytes.len() as u64 > len_max(call) {
        return Err(TOO_LONG.into());
    }
    let mut draft = Draft::of(&found.value);
    draft.write(call.txn, len, bytes)?;
    edit_draft(call, key, Some(found), &draft)?;
    call.notify('$', "append", key);
    call.reply.integer((len + bytes.len() as u64) as i64);
    Ok(())
}

fn setrange(call: &mut Call<'_>) -> Outcome {
    let (key, offset, bytes) = (call.args[1], integer(call.args[2])?, call.args[3]);
    let offset = u64::try_from(offset).map_err(|_| Stop::from("ERR offset is out of range"))?;
    let found = find(call, key)?;
    if !bytes.is_empty() {
        if offset.saturating_add(bytes.len() as u64) > len_max(call) {
            return Err(TOO_LONG.into());
        }
        let mut draft = Draft::of(&value_or_empty(&found));
        draft.write(call.txn, offset, bytes)?;
        edit_draft(call, key, found, &draft)?;
        call.notify('$', "setrange", key);
        call.reply.integer(string::len(&draft.value()) as i64);
    } else {
        call.reply.integer(string::len(&value_or_empty(&found)) as i64);
    }
    Ok(())
}
