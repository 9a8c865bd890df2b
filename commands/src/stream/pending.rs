//! What was delivered and is not acknowledged yet: XACK, XPENDING, XCLAIM, XAUTOCLAIM.
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use polder_base::number;
use polder_table::Stop;
use polder_values::stream::{Consumer, Draft, Group, Id, NO_CONSUMER, Pending, Stream};
use smallvec::SmallVec;

use super::{find, find_group, id, no_group, publish, publish_seen, reply_entry, reply_id, shown};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};

/// XAUTOCLAIM looks at [`LOOKS`] entries for each that it may claim, and claims [`CLAIMS`] unless
/// it is told otherwise.
const LOOKS: u64 = 10;
const CLAIMS: u64 = 100;
const CLAIMS_MAX: i64 = i64::MAX / 16;

/// The class of events that no subscriber can ask for.
const NO_CLASS: char = '\0';

pub(super) fn xack(call: &mut Call<'_>) -> Outcome {
    let Some((found, mut draft, group)) = find_group(call, call.args[1], call.args[2])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let ids = call.args[3..].iter().map(|text| id::exact(text)).collect::<Result<Vec<_>, _>>()?;
    let gone =
        draft.remove_all_pending(call.txn, group.number, &ids)?.into_iter().filter(|gone| *gone).count();
    if gone > 0 {
        publish(call, call.args[1], Some(found), &mut draft)?;
    }
    call.reply.integer(gone as i64);
    Ok(())
}

/// Acknowledges for as many calls as name the same group and ids that can be read.
pub(super) fn xack_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let Some((found, mut draft, group)) = find_group(call, call.args[1], call.args[2])? else { return Ok(0) };
    let (mut ids, mut ends) = (Vec::new(), Vec::new());
    for args in calls.iter().take_while(|args| args[2] == call.args[2]) {
        let Ok(own) = args[3..].iter().map(|text| id::exact(text)).collect::<Result<SmallVec<[Id; 4]>, _>>()
        else {
            break;
        };
        ids.extend(own);
        ends.push(ids.len());
    }
    let gone = draft.remove_all_pending(call.txn, group.number, &ids)?;
    if gone.contains(&true) {
        publish(call, call.args[1], Some(found), &mut draft)?;
    }
    let mut begin = 0;
    for end in &ends {
        call.reply.integer(gone[begin..*end].iter().filter(|gone| **gone).count() as i64);
        begin = *end;
    }
    Ok(ends.len())
}

/// What XPENDING is asked for besides the summary.
struct Wanted<'c> {
    idle: i64,
    start: Id,
    end: Id,
    count: u64,
    consumer: Option<&'c [u8]>,
}

fn wanted<'c>(args: &'c [&'c [u8]]) -> Result<Option<Wanted<'c>>, Stop> {
    if args.len() == 3 {
        return Ok(None);
    }
    if !(6..=9).contains(&args.len()) {
        return Err(SYNTAX.into());
    }
    let (mut idle, mut rest) = (0, &args[3..]);
    if is(args[3], "IDLE") {
        idle = integer(args[4])?;
        rest = &args[5..];
    }
    let [start, end, count, consumer @ ..] = rest else { return Err(SYNTAX.into()) };
    let count = u64::try_from(integer(count)?).unwrap_or(0);
    Ok(Some(Wanted {
        idle,
        start: id::start(start)?,
        end: id::end(end)?,
        count,
        consumer: consumer.first().copied(),
    }))
}

pub(super) fn xpending(call: &mut Call<'_>) -> Outcome {
    let wanted = wanted(call.args)?;
    let (key, name) = (call.args[1], call.args[2]);
    let (_, stream) = find(call, key)?.ok_or_else(|| no_group(key, name))?;
    let group = stream.group(name)?.ok_or_else(|| no_group(key, name))?;
    match wanted {
        Some(wanted) => reply_pending(call, &stream, group.number, &wanted),
        None => reply_summary(call, &stream, group.number),
    }
}

fn reply_summary(call: &mut Call<'_>, stream: &Stream<'_>, group: u32) -> Outcome {
    call.reply.array(4);
    call.reply.integer(stream.pending_len(group)? as i64);
    let first = stream.pending(group, Id::MIN)?.next().transpose()?;
    let (Some(first), Some(last)) = (first, stream.pending_last(group)?) else {
        call.reply.null();
        call.reply.null();
        call.reply.null_array();
        return Ok(());
    };
    reply_id(call.reply, first.id);
    reply_id(call.reply, last.id);
    let mut owners = Vec::new();
    for consumer in stream.consumers(group)? {
        let consumer = consumer?;
        match stream.owned_len(consumer.number)? {
            0 => {}
            owned => owners.push((consumer.name, owned)),
        }
    }
    call.reply.array(owners.len());
    for (name, owned) in owners {
        call.reply.array(2);
        call.reply.bulk(&name);
        call.reply.bulk(owned.to_string().as_bytes());
    }
    Ok(())
}

fn reply_pending(call: &mut Call<'_>, stream: &Stream<'_>, group: u32, wanted: &Wanted<'_>) -> Outcome {
    let now = call.txn.now_ms() as i64;
    let idle = |pending: &Pending| now - pending.last_ms() as i64;
    let fits = |pending: &Pending| wanted.idle == 0 || idle(pending) >= wanted.idle;
    let mut shown: Vec<Pending> = Vec::new();
    let mut take = |pending: Pending| {
        if (shown.len() as u64) < wanted.count && fits(&pending) {
            shown.push(pending);
        }
        (shown.len() as u64) < wanted.count
    };
    if let Some(name) = wanted.consumer {
        let Some(consumer) = stream.consumer(group, name)? else {
            call.reply.array(0);
            return Ok(());
        };
        for id in stream.owned(consumer.number, wanted.start)? {
            let id = id?;
            if id > wanted.end || !take(stream.pending_of(group, id)?) {
                break;
            }
        }
    } else {
        for pending in stream.pending(group, wanted.start)? {
            let pending = pending?;
            if pending.id > wanted.end || !take(pending) {
                break;
            }
        }
    }
    let mut names: HashMap<u32, Cow<'_, [u8]>> = HashMap::new();
    call.reply.array(shown.len());
    for pending in &shown {
        let name = match names.entry(pending.consumer) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(stream.consumer_name(group, pending.consumer)?),
        };
        call.reply.array(4);
        reply_id(call.reply, pending.id);
        call.reply.bulk(name);
        call.reply.integer(if pending.consumer == NO_CONSUMER { -1 } else { idle(pending).max(0) });
        call.reply.integer(pending.deliveries as i64);
    }
    Ok(())
}

/// How entries are claimed.
struct Claim {
    consumer: Consumer<'static>,
    group: Group<'static>,
    idle_min: i64,
    delivered_ms: u64,
    /// RETRYCOUNT.
    deliveries: Option<u64>,
    just_id: bool,
    now_ms: u64,
}

impl Claim {
    /// Whether an entry has waited for long enough.
    fn may_take(&self, pending: &Pending) -> bool {
        self.idle_min == 0
            || pending.consumer == NO_CONSUMER
            || self.now_ms as i64 - pending.delivered_ms as i64 >= self.idle_min
    }

    /// Makes an entry the consumer's own.
    fn take(&self, call: &Call<'_>, draft: &mut Draft<'_>, old: &Pending) -> Outcome {
        let counted = if self.just_id { old.deliveries } else { old.next_deliveries() };
        let deliveries = self.deliveries.unwrap_or(counted);
        let pending = Pending {
            id: old.id,
            consumer: self.consumer.number,
            delivered_ms: self.delivered_ms,
            deliveries,
        };
        tell_pending(call, call.args[1], &self.group, &self.consumer, &pending);
        Ok(draft.put_pending(call.txn, self.group.number, &pending)?)
    }
}

/// Says in the change log what a consumer has pending.
pub(super) fn tell_pending(
    call: &Call<'_>,
    key: &[u8],
    group: &Group<'_>,
    consumer: &Consumer<'_>,
    pending: &Pending,
) {
    if !call.tells_itself() {
        return;
    }
    let [id, last] = [pending.id, group.last].map(|id| id.to_string());
    let [time, count] = [pending.delivered_ms, pending.deliveries].map(|number| number.to_string());
    let (id, last, time, count) = (id.as_bytes(), last.as_bytes(), time.as_bytes(), count.as_bytes());
    let options: [&[u8]; 8] = [b"TIME", time, b"RETRYCOUNT", count, b"FORCE", b"JUSTID", b"LASTID", last];
    call.tell(&[&[b"XCLAIM", key, &group.name, &consumer.name, b"0", id], &options[..]].concat());
}

/// Says in the change log that an entry, which is not there any more, is not pending any more.
fn tell_gone(call: &Call<'_>, id: Id) {
    if call.tells_itself() {
        call.tell(&[b"XACK", call.args[1], call.args[2], id.to_string().as_bytes()]);
    }
}

/// The consumer that reads or claims, and whether it is made now.
pub(super) fn reader(
    call: &Call<'_>,
    key: &[u8],
    draft: &mut Draft<'_>,
    group: &Group<'_>,
    name: &[u8],
) -> Result<(Consumer<'static>, bool), Stop> {
    let now_ms = call.txn.now_ms();
    let consumer = draft.view(call.txn).consumer(group.number, name)?.map(Consumer::owned);
    if let Some(consumer) = consumer {
        return Ok((Consumer { seen_ms: now_ms, ..consumer }, false));
    }
    call.notify('t', "xgroup-createconsumer", key);
    call.tell(&[b"XGROUP", b"CREATECONSUMER", key, &group.name, name]);
    Ok((draft.create_consumer(call.txn, group.number, name, now_ms)?, true))
}

/// Shows what was claimed.
fn reply_claimed(call: &mut Call<'_>, draft: &Draft<'_>, claimed: &[Id], just_id: bool) -> Outcome {
    call.reply.array(claimed.len());
    let stream = draft.view(call.txn);
    for id in claimed {
        if just_id {
            reply_id(call.reply, *id);
        } else {
            // It was there a moment ago.
            stream.get(*id, &mut |entry| reply_entry(call.reply, entry))?;
        }
    }
    Ok(())
}

/// The options of XCLAIM.
struct Options {
    ids: Vec<Id>,
    delivered_ms: Option<i64>,
    deliveries: Option<u64>,
    force: bool,
    just_id: bool,
    last: Id,
}

fn claim_options(call: &Call<'_>) -> Result<Options, Stop> {
    let ids: Vec<Id> = call.args[5..].iter().map_while(|text| id::exact(text).ok()).collect();
    let mut rest = &call.args[5 + ids.len()..];
    let mut options =
        Options { ids, delivered_ms: None, deliveries: None, force: false, just_id: false, last: Id::MIN };
    let whole = |text: &[u8], option: &str| {
        number::integer(text)
            .ok_or_else(|| Stop::from(format!("ERR Invalid {option} option argument for XCLAIM")))
    };
    loop {
        rest = match rest {
            [] => return Ok(options),
            [word, rest @ ..] if is(word, "FORCE") => {
                options.force = true;
                rest
            }
            [word, rest @ ..] if is(word, "JUSTID") => {
                options.just_id = true;
                rest
            }
            [word, ms, rest @ ..] if is(word, "IDLE") => {
                options.delivered_ms = Some((call.txn.now_ms() as i64).wrapping_sub(whole(ms, "IDLE")?));
                rest
            }
            [word, ms, rest @ ..] if is(word, "TIME") => {
                options.delivered_ms = Some(whole(ms, "TIME")?);
                rest
            }
            [word, count, rest @ ..] if is(word, "RETRYCOUNT") => {
                options.deliveries = u64::try_from(whole(count, "RETRYCOUNT")?).ok();
                rest
            }
            [word, text, rest @ ..] if is(word, "LASTID") => {
                options.last = id::exact(text)?;
                rest
            }
            [word, ..] => return Err(format!("ERR Unrecognized XCLAIM option '{}'", shown(word)).into()),
        }
    }
}

pub(super) fn xclaim(call: &mut Call<'_>) -> Outcome {
    let (found, mut draft, mut group) =
        find_group(call, call.args[1], call.args[2])?.ok_or_else(|| no_group(call.args[1], call.args[2]))?;
    let idle_min =
        number::integer(call.args[4]).ok_or("ERR Invalid min-idle-time argument for XCLAIM")?.max(0);
    let options = claim_options(call)?;
    let moves = options.last > group.last;
    if moves {
        group.last = options.last;
        super::group::tell_group(call, call.args[1], &group);
        draft.put_group(call.txn, &group)?;
    }
    let now_ms = call.txn.now_ms();
    let delivered_ms = options
        .delivered_ms
        .and_then(|ms| u64::try_from(ms).ok())
        .filter(|ms| *ms <= now_ms)
        .unwrap_or(now_ms);
    let (consumer, is_new) = reader(call, call.args[1], &mut draft, &group, call.args[3])?;
    let mut claim = Claim {
        consumer,
        group,
        idle_min,
        delivered_ms,
        deliveries: options.deliveries,
        just_id: options.just_id,
        now_ms,
    };
    let (mut claimed, mut is_change) = (Vec::new(), is_new || moves);
    for id in options.ids {
        let (is_there, pending) = {
            let stream = draft.view(call.txn);
            (stream.get(id, &mut |_| {})?, stream.find_pending(claim.group.number, id)?)
        };
        match pending {
            Some(_) if !is_there => {
                draft.remove_pending(call.txn, claim.group.number, id)?;
                tell_gone(call, id);
                is_change = true;
            }
            Some(pending) if claim.may_take(&pending) => {
                claim.take(call, &mut draft, &pending)?;
                claimed.push(id);
            }
            // A log tells what was pending also where the entry has gone since.
            None if options.force && (is_there || call.table.imports()) => {
                let fresh =
                    Pending { id, consumer: claim.consumer.number, delivered_ms: now_ms, deliveries: 1 };
                claim.take(call, &mut draft, &fresh)?;
                claimed.push(id);
            }
            _ => {}
        }
    }
    if !claimed.is_empty() {
        claim.consumer.active_ms = Some(now_ms);
        is_change = true;
    }
    if options.delivered_ms.is_some() && is_change {
        // No subscriber hears of it, but an XREADGROUP that waits may claim now what has been pending for long.
        call.notify(NO_CLASS, "", call.args[1]);
    }
    draft.put_consumer(call.txn, &claim.consumer)?;
    match is_change {
        true => publish(call, call.args[1], Some(found), &mut draft)?,
        false => publish_seen(call, call.args[1], found, &mut draft)?,
    }
    reply_claimed(call, &draft, &claimed, claim.just_id)
}

pub(super) fn xautoclaim(call: &mut Call<'_>) -> Outcome {
    let idle_min =
        number::integer(call.args[4]).ok_or("ERR Invalid min-idle-time argument for XAUTOCLAIM")?.max(0);
    let start = id::start(call.args[5])?;
    let (mut count, mut just_id, mut rest) = (CLAIMS, false, &call.args[6..]);
    while let [word, more @ ..] = rest {
        rest = match more {
            [number, more @ ..] if is(word, "COUNT") => {
                let wanted = number::integer(number).filter(|count| (1..=CLAIMS_MAX).contains(count));
                count = wanted.ok_or("ERR COUNT must be > 0")? as u64;
                more
            }
            _ if is(word, "JUSTID") => {
                just_id = true;
                more
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    let (found, mut draft, group) =
        find_group(call, call.args[1], call.args[2])?.ok_or_else(|| no_group(call.args[1], call.args[2]))?;
    let now_ms = call.txn.now_ms();
    let (consumer, is_new) = reader(call, call.args[1], &mut draft, &group, call.args[3])?;
    let mut claim =
        Claim { consumer, group, idle_min, delivered_ms: now_ms, deliveries: None, just_id, now_ms };
    let sorted = sort_out(call, &draft, &claim, start, count)?;
    for pending in &sorted.claimed {
        claim.take(call, &mut draft, pending)?;
    }
    for id in &sorted.deleted {
        tell_gone(call, *id);
        draft.remove_pending(call.txn, claim.group.number, *id)?;
    }
    if !sorted.claimed.is_empty() {
        claim.consumer.active_ms = Some(now_ms);
    }
    draft.put_consumer(call.txn, &claim.consumer)?;
    match is_new || !sorted.claimed.is_empty() || !sorted.deleted.is_empty() {
        true => publish(call, call.args[1], Some(found), &mut draft)?,
        false => publish_seen(call, call.args[1], found, &mut draft)?,
    }
    call.reply.array(3);
    reply_id(call.reply, sorted.next);
    let ids: Vec<Id> = sorted.claimed.iter().map(|pending| pending.id).collect();
    reply_claimed(call, &draft, &ids, just_id)?;
    call.reply.array(sorted.deleted.len());
    sorted.deleted.iter().for_each(|id| reply_id(call.reply, *id));
    Ok(())
}

/// What XAUTOCLAIM finds.
struct Sorted {
    claimed: Vec<Pending>,
    /// Pending, but not in the stream any more.
    deleted: Vec<Id>,
    /// Where the next XAUTOCLAIM may start: 0-0 at the end.
    next: Id,
}

fn sort_out(
    call: &Call<'_>,
    draft: &Draft<'_>,
    claim: &Claim,
    start: Id,
    count: u64,
) -> Result<Sorted, Stop> {
    let stream = draft.view(call.txn);
    let mut sorted = Sorted { claimed: Vec::new(), deleted: Vec::new(), next: Id::MIN };
    let (mut left, mut looks) = (count, count * LOOKS);
    for pending in stream.pending(claim.group.number, start)? {
        let pending = pending?;
        if left == 0 || looks == 0 {
            sorted.next = pending.id;
            break;
        }
        looks -= 1;
        if !stream.get(pending.id, &mut |_| {})? {
            sorted.deleted.push(pending.id);
            left -= 1;
        } else if claim.may_take(&pending) {
            sorted.claimed.push(pending);
            left -= 1;
        }
    }
    Ok(sorted)
}
