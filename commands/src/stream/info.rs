//! XINFO.
use polder_base::Reply;
use polder_table::{Found, Stop};
use polder_values::stream::{Group, Id, Pending, Range, Stream};

use super::group::Measure;
use super::{bad_subcommand, find, no_such_group, producers, reply_entry, reply_id, reply_range};
use polder_calls::call::{Call, Outcome, integer, is, is_whole};
use polder_calls::settings::id as setting;

/// Entries that FULL shows of each thing, unless it is told otherwise.
const FULL_COUNT: u64 = 10;

fn existing<'c>(call: &Call<'c>) -> Result<Stream<'c>, Stop> {
    find(call, call.args[2])?.map(|(_, stream)| stream).ok_or_else(|| "ERR no such key".into())
}

fn reply_or_null(reply: &mut dyn Reply, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

/// The entries-read of a group, as a number of Redis's.
fn entries_read(group: &Group<'_>) -> Option<i64> {
    group.read.map(|read| read as i64)
}

pub(super) fn consumers(call: &mut Call<'_>) -> Outcome {
    let (stream, name) = (existing(call)?, call.args[3]);
    let group = stream.group(name)?.ok_or_else(|| no_such_group(call.args[2], name))?;
    let now = call.txn.now_ms() as i64;
    let (count, mut shown) = (stream.consumers_len(group.number)? as usize, 0);
    call.reply.array(count);
    for consumer in stream.consumers(group.number)? {
        let consumer = consumer?;
        shown += 1;
        call.reply.map(4);
        call.reply.bulk(b"name");
        call.reply.bulk(&consumer.name);
        call.reply.bulk(b"pending");
        call.reply.integer(stream.owned_len(consumer.number)? as i64);
        call.reply.bulk(b"idle");
        call.reply.integer(now.saturating_sub(consumer.seen_ms as i64).max(0));
        call.reply.bulk(b"inactive");
        call.reply.integer(consumer.active_ms.map_or(-1, |active| now.wrapping_sub(active as i64)));
    }
    is_whole(count, shown)
}

pub(super) fn groups(call: &mut Call<'_>) -> Outcome {
    let stream = existing(call)?;
    let measure = Measure::of(&stream)?;
    call.reply.array(stream.groups_len() as usize);
    for group in stream.groups() {
        let group = group?;
        call.reply.map(6);
        call.reply.bulk(b"name");
        call.reply.bulk(&group.name);
        call.reply.bulk(b"consumers");
        call.reply.integer(stream.consumers_len(group.number)? as i64);
        call.reply.bulk(b"pending");
        call.reply.integer(stream.pending_len(group.number)? as i64);
        call.reply.bulk(b"last-delivered-id");
        reply_id(call.reply, group.last);
        call.reply.bulk(b"entries-read");
        reply_or_null(call.reply, entries_read(&group));
        call.reply.bulk(b"lag");
        reply_or_null(call.reply, measure.lag(&group));
    }
    Ok(())
}

/// What stands behind the key of XINFO STREAM: how many of each thing FULL is to show.
fn full_limit(call: &Call<'_>) -> Result<Option<u64>, Stop> {
    let count = match &call.args[3..] {
        [] => return Ok(None),
        [full] if is(full, "FULL") => return Ok(Some(FULL_COUNT)),
        [full, word, count] if is(full, "FULL") && is(word, "COUNT") => integer(count)?,
        _ => return Err(bad_subcommand(call)),
    };
    Ok(Some(match u64::try_from(count) {
        Ok(0) => u64::MAX,
        Ok(count) => count,
        Err(_) => FULL_COUNT,
    }))
}

/// As many nodes as Redis would need for full ones.
fn node_count(call: &Call<'_>, stream: &Stream<'_>) -> u64 {
    let node = call.settings.number(const { setting("stream-node-max-entries") }) as u64;
    stream.len().div_ceil(if node == 0 { stream.len().max(1) } else { node })
}

/// Pieces of memory that Redis would have to free: nodes, groups, and what each of them has pending if they are all like the first.
pub(crate) fn effort(call: &Call<'_>, found: &Found<'_>) -> Result<u64, Stop> {
    let stream = Stream::of(call.txn, &found.value)?;
    let first = stream.groups().next().transpose()?;
    let pending = first.map_or(Ok(0), |group| stream.pending_len(group.number))?;
    Ok(node_count(call, &stream) + 1 + stream.groups_len() * (1 + pending))
}

pub(super) fn stream(call: &mut Call<'_>) -> Outcome {
    let stream = existing(call)?;
    let limit = full_limit(call)?;
    let nodes = node_count(call, &stream);
    let production = stream.production().unwrap_or_else(|| producers::default_production(call));
    let (pids, iids) = producers::known(call, &stream)?;
    let reply = &mut *call.reply;
    reply.map(if limit.is_some() { 15 } else { 16 });
    for (name, number) in
        [("length", stream.len()), ("radix-tree-keys", nodes), ("radix-tree-nodes", nodes + 1)]
    {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    }
    reply.bulk(b"last-generated-id");
    reply_id(reply, stream.last_given()?);
    reply.bulk(b"max-deleted-entry-id");
    reply_id(reply, stream.max_deleted());
    reply.bulk(b"entries-added");
    reply.integer(stream.added() as i64);
    reply.bulk(b"recorded-first-entry-id");
    reply_id(reply, stream.first()?.unwrap_or(Id::MIN));
    for (name, number) in [
        ("idmp-duration", production.duration_s.into()),
        ("idmp-maxsize", production.ids_max.into()),
        ("pids-tracked", pids),
        ("iids-tracked", iids),
        ("iids-added", production.added),
        ("iids-duplicates", production.duplicates),
    ] {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    }
    match limit {
        Some(limit) => reply_full(reply, &stream, limit),
        None => reply_short(reply, &stream),
    }
}

fn reply_short(reply: &mut dyn Reply, stream: &Stream<'_>) -> Outcome {
    reply.bulk(b"groups");
    reply.integer(stream.groups_len() as i64);
    for (name, back) in [("first-entry", false), ("last-entry", true)] {
        reply.bulk(name.as_bytes());
        let mut shown = false;
        stream.walk(&Range { back, limit: 1, ..Range::ALL }, &mut |entry| {
            shown = true;
            reply_entry(reply, entry);
        })?;
        if !shown {
            reply.null();
        }
    }
    Ok(())
}

fn reply_full(reply: &mut dyn Reply, stream: &Stream<'_>, limit: u64) -> Outcome {
    let measure = Measure::of(stream)?;
    reply.bulk(b"entries");
    reply_range(reply, stream, &Range { limit, ..Range::ALL })?;
    reply.bulk(b"groups");
    reply.array(stream.groups_len() as usize);
    for group in stream.groups() {
        let group = group?;
        let pending = stream.pending_len(group.number)?;
        let released = stream.released_len(group.number)?;
        reply.map(if released > 0 { 8 } else { 7 });
        reply.bulk(b"name");
        reply.bulk(&group.name);
        reply.bulk(b"last-delivered-id");
        reply_id(reply, group.last);
        reply.bulk(b"entries-read");
        reply_or_null(reply, entries_read(&group));
        reply.bulk(b"lag");
        reply_or_null(reply, measure.lag(&group));
        reply.bulk(b"pel-count");
        reply.integer(pending as i64);
        if released > 0 {
            reply.bulk(b"nacked-count");
            reply.integer(released as i64);
        }
        reply.bulk(b"pending");
        reply.array(pending.min(limit) as usize);
        for pending in stream.pending(group.number, Id::MIN)?.take(limit as usize) {
            let pending = pending?;
            reply.array(4);
            reply_id(reply, pending.id);
            reply.bulk(&stream.consumer_name(group.number, pending.consumer)?);
            reply_delivery(reply, &pending);
        }
        reply_consumers(reply, stream, group.number, limit)?;
    }
    Ok(())
}

fn reply_delivery(reply: &mut dyn Reply, pending: &Pending) {
    reply.integer(pending.last_ms() as i64);
    reply.integer(pending.deliveries as i64);
}

fn reply_consumers(reply: &mut dyn Reply, stream: &Stream<'_>, group: u32, limit: u64) -> Outcome {
    reply.bulk(b"consumers");
    let (count, mut shown) = (stream.consumers_len(group)? as usize, 0);
    reply.array(count);
    for consumer in stream.consumers(group)? {
        let consumer = consumer?;
        shown += 1;
        let owned = stream.owned_len(consumer.number)?;
        reply.map(5);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        reply.bulk(b"seen-time");
        reply.integer(consumer.seen_ms as i64);
        reply.bulk(b"active-time");
        reply.integer(consumer.active_ms.map_or(-1, |active| active as i64));
        reply.bulk(b"pel-count");
        reply.integer(owned as i64);
        reply.bulk(b"pending");
        reply.array(owned.min(limit) as usize);
        for id in stream.owned(consumer.number, Id::MIN)?.take(limit as usize) {
            let pending = stream.pending_of(group, id?)?;
            reply.array(3);
            reply_id(reply, pending.id);
            reply_delivery(reply, &pending);
        }
    }
    is_whole(count, shown)
}
