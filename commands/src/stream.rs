//! Streams: entries in the order of their ids, read by single clients, or by the consumers of
//! groups that share them.
//!
//! How a stream is laid out is `values::stream`'s business. Adding and trimming, reading, groups, what is pending, and XINFO have files of
//! their own; here are the rows, and what all of them need.
use std::borrow::Cow;

use polder_base::Reply;
use polder_table::{Found, New, Stop};
use polder_values::Kind;
use polder_values::stream::{Draft, Entry, Group, Id, Range, Stream};

use polder_calls::call::{Call, Outcome, is_whole};
use polder_calls::command::{BLOCKING, COUNTS, Command, ENDS_WITH_KEY, FAST, GROWS, container, read, write};
use polder_calls::facts::Tells::{Own, Verbatim};

mod add;
mod budget;
pub(crate) mod group;
mod id;
mod idle;
pub(crate) mod info;
mod pending;
mod producers;
mod range;
mod receive;
mod refs;
mod release;

const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];
const READS: &[&str] = &["RO access"];
const UPDATES: &[&str] = &["RW update"];
const INSERTS: &[&str] = &["RW insert"];
const DELETES: &[&str] = &["RW delete"];

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("XACK", "key group id [id ...]", pending::xack).tells(Verbatim)
        .with(FAST | COUNTS)
        .many(pending::xack_many)
        .touches(UPDATES)
        .since("5.0.0")
        .costs("O(log N) for each id, with N being the number of pending entries of all groups.")
        .about("Returns the number of messages that were successfully acknowledged by the consumer group member of a stream."),
    write("XACKDEL", "key group [KEEPREF|DELREF|ACKED] IDS numids id [id ...]", refs::xackdel)
        .tells(Own("`XACK key group id ...`, `XDEL key id ...`"))
        .with(FAST | COUNTS)
        .touches(&["RW update delete"])
        .since("8.2.0")
        .costs("O(log N) for each id, with N being the number of entries and of those pending, in each group if references are looked at.")
        .about("Acknowledges messages for a consumer group and deletes them: always, with the references that other groups keep, or only if no group keeps one."),
    write(
        "XADD",
        "key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [<IDMPAUTO pid|IDMP pid iid>] [<MAXLEN|MINID> [=|~] threshold [LIMIT count]] <*|id> field value [field value ...]",
        add::xadd,
    ).tells(Own("`XADD key id field value ...`, with `=` and what was trimmed; `XACK key group id ...`, `XDEL key id ...`; XIDMPRECORD and XCFGSET in a text of ECHO"))
    .with(GROWS | FAST)
    .many(add::xadd_many)
    .touches(UPDATES)
    .tips(NONDETERMINISTIC)
    .since("5.0.0")
    .costs("O(log N) when adding a new entry, O(M) when trimming where M being the number of entries evicted.")
    .changed(&[("6.2.0", "Takes `NOMKSTREAM`, `MINID` and `LIMIT`."), ("7.0.0", "An id may be `<ms>-*`."), ("8.2.0", "Takes `KEEPREF`, `DELREF` and `ACKED`."), ("8.6.0", "Takes `IDMP` and `IDMPAUTO`.")]).about("Appends a new message to a stream. Creates the key if it doesn't exist."),
    write("XAUTOCLAIM", "key group consumer min-idle-time start [COUNT count] [JUSTID]", pending::xautoclaim).tells(Own("`XCLAIM key group consumer 0 id ... TIME ms RETRYCOUNT count FORCE JUSTID LASTID id`, `XGROUP SETID key group id`, `XGROUP CREATECONSUMER key group consumer`"))
        .with(FAST | COUNTS)
        .touches(DELETES)
        .tips(NONDETERMINISTIC)
        .since("6.2.0")
        .costs("O(log N) if COUNT is small.")
        .changed(&[("7.0.0", "Shows which entries were deleted and have left the list of those pending.")]).about("Changes, or acquires, ownership of messages in a consumer group, as if the messages were delivered to as consumer group member."),
    write("XCFGSET", "key [IDMP-DURATION duration] [IDMP-MAXSIZE maxsize]", producers::xcfgset)
        .tells(Own("XCFGSET in a text of ECHO"))
        .with(FAST | GROWS)
        .touches(UPDATES)
        .since("8.6.0")
        .costs("O(1); O(N) with N being the number of ids of producers that are forgotten.")
        .about("Sets for how long, and how many, ids of entries a stream keeps of each producer (`XADD` with `IDMP`). Forgets those it has if that is a change."),
    write(
        "XCLAIM",
        "key group consumer min-idle-time id [id ...] [IDLE milliseconds] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
        pending::xclaim,
    ).tells(Own("`XCLAIM key group consumer 0 id ... TIME ms RETRYCOUNT count FORCE JUSTID LASTID id`, `XGROUP SETID key group id`, `XGROUP CREATECONSUMER key group consumer`"))
    .with(FAST | COUNTS)
    .touches(UPDATES)
    .tips(NONDETERMINISTIC)
    .since("5.0.0")
    .costs("O(log N) with N being the number of messages in the PEL of the consumer group.")
    .about("Changes, or acquires, ownership of a message in a consumer group, as if the message was delivered a consumer group member."),
    write("XDEL", "key id [id ...]", add::xdel).tells(Verbatim)
        .with(FAST)
        .touches(DELETES)
        .since("5.0.0")
        .costs("O(log N) for each single item to delete in the stream.")
        .about("Returns the number of messages after removing them from a stream."),
    write("XDELEX", "key [KEEPREF|DELREF|ACKED] IDS numids id [id ...]", refs::xdelex)
        .tells(Own("`XDEL key id ...`, `XACK key group id ...`"))
        .with(FAST)
        .touches(DELETES)
        .since("8.2.0")
        .costs("O(log N) for each id, with N being the number of entries, and of those pending in each group if references are looked at.")
        .about("Deletes messages: always, with the references that consumer groups keep, or only if no group keeps one."),
    container("XGROUP").since("5.0.0").costs("Depends on subcommand.").about("A container for consumer groups commands."),
    write("XGROUP|CREATE", "key group <id|$> [MKSTREAM] [ENTRIESREAD entries-read]", group::create).tells(Own("`XGROUP CREATE key group id`, with the id that `$` stood for"))
        .with(GROWS)
        .touches(INSERTS)
        .since("5.0.0")
        .changed(&[("7.0.0", "Takes `ENTRIESREAD`.")]).about("Creates a consumer group."),
    write("XGROUP|CREATECONSUMER", "key group consumer", group::create_consumer).tells(Verbatim)
        .with(GROWS)
        .touches(INSERTS)
        .since("6.2.0")
        .about("Creates a consumer in a consumer group."),
    write("XGROUP|DELCONSUMER", "key group consumer", group::delete_consumer).tells(Verbatim)
        .touches(DELETES)
        .since("5.0.0")
        .costs("O(N log M) where N is the number of entries that the consumer has pending, M that of all groups.")
        .about("Deletes a consumer from a consumer group."),
    write("XGROUP|DESTROY", "key group", group::destroy).tells(Verbatim)
        .touches(DELETES)
        .since("5.0.0")
        .costs("O(N) where N is the number of entries in the group's pending entries list (PEL).")
        .about("Destroys a consumer group."),
    write("XGROUP|SETID", "key group <id|$> [ENTRIESREAD entries-read]", group::set_id).tells(Own("`XGROUP SETID key group id`, with the id that `$` stood for"))
        .touches(UPDATES)
        .since("5.0.0")
        .changed(&[("7.0.0", "Takes `ENTRIESREAD`.")]).about("Sets the last-delivered ID of a consumer group."),
    write("XIDMPRECORD", "key pid iid stream-id", producers::xidmprecord)
        .tells(Own("XIDMPRECORD in a text of ECHO"))
        .with(FAST | GROWS)
        .touches(UPDATES)
        .since("8.6.2")
        .costs("O(log N) with N being the number of ids of producers that the stream keeps.")
        .about("An internal command for the id by which a producer knows a message."),
    container("XINFO").since("5.0.0").costs("Depends on subcommand.").about("A container for stream introspection commands."),
    read("XINFO|CONSUMERS", "key group", info::consumers)
        .touches(READS)
        .tips(NONDETERMINISTIC)
        .since("5.0.0")
        .costs("O(N log M) with N being the number of consumers, M that of pending entries.")
        .changed(&[("7.2.0", "Shows `inactive`; `idle` means any call.")]).about("Returns a list of the consumers in a consumer group."),
    read("XINFO|GROUPS", "key", info::groups)
        .touches(READS)
        .since("5.0.0")
        .costs("O(N log M) with N being the number of groups, M that of pending entries.")
        .changed(&[("7.0.0", "Shows `entries-read` and `lag`.")]).about("Returns a list of the consumer groups of a stream."),
    read("XINFO|STREAM", "key [FULL [COUNT count]]", info::stream).touches(READS).since("5.0.0").changed(&[("6.0.0", "Knows `FULL`."), ("7.0.0", "Shows `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag`."), ("7.2.0", "Shows `active-time`; `seen-time` means any call."), ("8.6.0", "Shows what the stream knows of producers.")]).about("Returns information about a stream."),
    read("XLEN", "key", range::xlen).with(FAST).touches(&["RO"]).since("5.0.0").about("Return the number of messages in a stream."),
    write("XNACK", "key group <SILENT|FAIL|FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]", release::xnack)
        .tells(Own("`XCLAIM key group consumer 0 id TIME 0 RETRYCOUNT count FORCE JUSTID LASTID id`; XNACK in a text of ECHO"))
        .with(FAST | GROWS)
        .touches(UPDATES)
        .since("8.8.0")
        .costs("O(log N) for each id, with N being the number of pending entries of all groups.")
        .about("Gives pending messages back, so that any consumer of the group may claim them at once."),
    read("XPENDING", "key group [[IDLE min-idle-time] start end count [consumer]]", pending::xpending)
        .touches(READS)
        .tips(NONDETERMINISTIC)
        .since("5.0.0")
        .costs("O(log N + M) with M being the number of elements returned; all that was scanned when used with the IDLE filter. The summary takes O(log N) for each consumer.")
        .changed(&[("6.2.0", "Takes `IDLE`; an end of the range may be exclusive.")]).about("Returns the information and entries from a stream consumer group's pending entries list."),
    read("XRANGE", "key start end [COUNT count]", range::xrange)
        .touches(READS)
        .since("5.0.0")
        .costs("O(log N + M) with M being the number of elements returned.")
        .changed(&[("6.2.0", "An end of the range may be exclusive.")]).about("Returns the messages from a stream within a range of IDs."),
    read("XREAD", "[COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]", receive::xread)
        .with(BLOCKING)
        .touches(READS)
        .since("5.0.0")
        .costs("For each stream O(log N + M) with M being the number of elements returned.")
        .changed(&[("8.10.0", "Takes `MAXCOUNT` and `MAXSIZE`.")])
        .about("Returns messages from multiple streams with IDs greater than the ones requested. Blocks until a message is available otherwise."),
    write(
        "XREADGROUP",
        "GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]",
        receive::xreadgroup,
    ).tells(Own("`XCLAIM key group consumer 0 id ... TIME ms RETRYCOUNT count FORCE JUSTID LASTID id`, `XGROUP SETID key group id`, `XGROUP CREATECONSUMER key group consumer`"))
    .with(BLOCKING | ENDS_WITH_KEY)
    .locates(receive::keys)
    .shares(receive::shares)
    .many(receive::xreadgroup_many)
    .touches(READS)
    .since("5.0.0")
    .costs("For each stream O(M log N) with M being the number of elements returned; with CLAIM O(P) more, P being the number of pending entries of the group.")
    .changed(&[("8.4.0", "Takes `CLAIM`."), ("8.10.0", "Takes `MAXCOUNT` and `MAXSIZE`.")])
    .about(
        "Returns new or historical messages from a stream for a consumer in a group. Blocks until a message is available otherwise.",
    ),
    read("XREVRANGE", "key end start [COUNT count]", range::xrevrange)
        .touches(READS)
        .since("5.0.0")
        .costs("O(log N + M) with M being the number of elements returned.")
        .changed(&[("6.2.0", "An end of the range may be exclusive.")]).about("Returns the messages from a stream within a range of IDs in reverse order."),
    write("XSETID", "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]", add::xsetid).tells(Verbatim)
        .with(GROWS | FAST)
        .touches(UPDATES)
        .since("5.0.0")
        .changed(&[("7.0.0", "Takes `ENTRIESADDED` and `MAXDELETEDID`.")]).about("An internal command for replicating stream values."),
    write("XTRIM", "key <MAXLEN|MINID> [=|~] threshold [LIMIT count] [KEEPREF|DELREF|ACKED]", add::xtrim).tells(Own("`XTRIM key MAXLEN = count`; `XACK key group id ...`, `XDEL key id ...`"))
        .touches(DELETES)
        .tips(NONDETERMINISTIC)
        .since("5.0.0")
        .costs("O(N), with N being the number of evicted entries; whole blocks of them are given back at once.")
        .changed(&[("6.2.0", "Takes `MINID` and `LIMIT`."), ("8.2.0", "Takes `KEEPREF`, `DELREF` and `ACKED`.")]).about("Deletes messages from the beginning of a stream."),
];

/// A key's state and the stream that it holds.
type Held<'c> = (Found<'c>, Stream<'c>);

/// A key's state and stream, to be changed, and one of its groups.
type Grouped<'c> = (Found<'c>, Draft<'c>, Group<'static>);

/// The stream that a key holds, if it is there.
///
/// # Errors
/// WRONGTYPE when it holds something else.
fn find<'c>(call: &Call<'c>, key: &[u8]) -> Result<Option<Held<'c>>, Stop> {
    let Some(found) = call.find_kind(key, Kind::Stream)? else { return Ok(None) };
    Ok(Some((found, Stream::of(call.txn, &found.value)?)))
}

/// As [`find`], for a change.
fn find_draft<'c>(call: &Call<'c>, key: &[u8]) -> Result<Option<(Found<'c>, Draft<'c>)>, Stop> {
    let Some(found) = call.find_kind(key, Kind::Stream)? else { return Ok(None) };
    Ok(Some((found, Draft::of(call.txn, &found.value)?)))
}

/// As [`find_draft`], with one of its groups; none where either is not there.
fn find_group<'c>(call: &Call<'c>, key: &[u8], name: &[u8]) -> Result<Option<Grouped<'c>>, Stop> {
    let Some((found, draft)) = find_draft(call, key)? else { return Ok(None) };
    let group = draft.view(call.txn).group(name)?.map(Group::owned);
    Ok(group.map(|group| (found, draft, group)))
}

/// Gives a key a changed stream; its expiry stays.
fn publish(call: &Call<'_>, key: &[u8], found: Option<Found<'_>>, draft: &mut Draft<'_>) -> Outcome {
    if draft.is_of_redis_8_6() {
        call.txn.announce_stream_producers();
    }
    let value = draft.value(call.txn)?;
    let old = found.map_or(New::of(Kind::Stream, value), New::from);
    call.edit(key, &New { value, ..old })
}

/// As [`publish`], of a stream that is only noted to have been read: that is no change to any follower, and does not count as one.
fn publish_seen(call: &Call<'_>, key: &[u8], found: Found<'_>, draft: &mut Draft<'_>) -> Outcome {
    call.txn.without_change(call.db(), key, || publish(call, key, Some(found), draft))
}

fn reply_id(reply: &mut dyn Reply, id: Id) {
    let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (ms, seq) = (ms.format(id.ms).as_bytes(), seq.format(id.seq).as_bytes());
    // Two numbers of twenty digits fit.
    let mut text = [b'-'; 41];
    text[..ms.len()].copy_from_slice(ms);
    text[ms.len() + 1..][..seq.len()].copy_from_slice(seq);
    reply.bulk(&text[..ms.len() + 1 + seq.len()]);
}

fn reply_entry(reply: &mut dyn Reply, entry: &Entry<'_>) {
    reply.array(2);
    reply_id(reply, entry.id);
    reply_pairs(reply, entry);
}

/// Replies with the fields and values of an entry.
fn reply_pairs(reply: &mut dyn Reply, entry: &Entry<'_>) {
    reply.array(entry.len() * 2);
    for (field, value) in entry.pairs() {
        reply.bulk(field);
        reply.bulk(value);
    }
}

/// Replies with the entries of a range.
fn reply_range(reply: &mut dyn Reply, stream: &Stream<'_>, range: &Range) -> Outcome {
    let (count, mut shown) = (stream.count(range)? as usize, 0);
    reply.array(count);
    stream.walk(range, &mut |entry| {
        reply_entry(reply, entry);
        shown += 1;
    })?;
    is_whole(count, shown)
}

/// A name as Redis shows it in an error: up to the first NUL.
fn shown(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(id::as_c(name))
}

/// Redis's text for a group that is not there.
fn no_group(key: &[u8], group: &[u8]) -> Stop {
    format!("NOGROUP No such key '{}' or consumer group '{}'", shown(key), shown(group)).into()
}

/// As [`no_group`], where the key is there.
fn no_such_group(key: &[u8], group: &[u8]) -> Stop {
    format!("NOGROUP No such consumer group '{}' for key name '{}'", shown(group), shown(key)).into()
}

/// Redis's text for options that a subcommand does not know.
fn bad_subcommand(call: &Call<'_>) -> Stop {
    let name = shown(&call.args[1][..call.args[1].len().min(128)]);
    format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {} HELP.",
        call.command.container()
    )
    .into()
}
