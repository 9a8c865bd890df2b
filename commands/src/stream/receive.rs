//! XREAD and XREADGROUP.
//!
//! A call names streams with the ids that were seen last. First all of it is read and checked; then each stream is looked at for what
//! there is to serve; then it is served. Where nothing is and BLOCK was given, the call waits.
use polder_base::{Protocol, number};
use polder_table::{Found, Stop};
use polder_values::Kind;
use polder_values::stream::{Consumer, Draft, Group, Id, Pending, Range, Stream};
use smallvec::SmallVec;

use super::budget::{Budget, Wanted};
use super::group::{Measure, tell_group};
use super::idle::{self, Idle, Left, Reading};
use super::pending::{reader, tell_pending};
use super::{find, find_group, id, publish, publish_seen, reply_entry, reply_id, reply_range, shown};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is, is_whole};
use polder_calls::command::BatchKey;
use polder_calls::waiting::{Otherwise, Wait, milliseconds};

/// What a call asks for.
#[derive(Default)]
struct Request<'c> {
    timeout_ms: Option<u64>,
    /// Of each stream.
    limit: u64,
    /// For all streams.
    most: Wanted,
    /// CLAIM: milliseconds for which an entry must have been pending to be claimed.
    claim_ms: Option<u64>,
    no_ack: bool,
    /// The names of group and consumer.
    group: Option<(&'c [u8], &'c [u8])>,
    keys: &'c [&'c [u8]],
    ids: &'c [&'c [u8]],
}

fn request<'c>(call: &Call<'_>, args: &'c [&'c [u8]], grouped: bool) -> Result<Request<'c>, Stop> {
    let mut request = Request { limit: u64::MAX, ..Request::default() };
    let mut rest = &args[1..];
    loop {
        rest = match rest {
            [word, ms, rest @ ..] if is(word, "BLOCK") => {
                request.timeout_ms = Some(milliseconds(ms)?);
                rest
            }
            [word, count, rest @ ..] if is(word, "COUNT") => {
                request.limit =
                    u64::try_from(integer(count)?).ok().filter(|count| *count > 0).unwrap_or(u64::MAX);
                rest
            }
            [word, count, rest @ ..] if is(word, "MAXCOUNT") => {
                request.most.entries = Some(Wanted::parse(count, "MAXCOUNT")?);
                rest
            }
            [word, size, rest @ ..] if is(word, "MAXSIZE") => {
                request.most.bytes = Some(Wanted::parse(size, "MAXSIZE")?);
                rest
            }
            [word, streams @ ..] if is(word, "STREAMS") && !streams.is_empty() => {
                if !streams.len().is_multiple_of(2) {
                    return Err(unbalanced(call, grouped));
                }
                (request.keys, request.ids) = streams.split_at(streams.len() / 2);
                break;
            }
            [word, group, consumer, rest @ ..] if is(word, "GROUP") => {
                only_grouped(grouped, "GROUP")?;
                request.group = Some((group, consumer));
                rest
            }
            [word, ms, rest @ ..] if is(word, "CLAIM") => {
                only_grouped(grouped, "CLAIM")?;
                request.claim_ms = Some(claim_ms(ms)?);
                rest
            }
            [word, rest @ ..] if is(word, "NOACK") => {
                only_grouped(grouped, "NOACK")?;
                request.no_ack = true;
                rest
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    if grouped && request.group.is_none() {
        return Err("ERR Missing GROUP option for XREADGROUP".into());
    }
    request.most.check(request.limit)?;
    Ok(request)
}

fn only_grouped(grouped: bool, option: &str) -> Outcome {
    match grouped {
        true => Ok(()),
        false => {
            Err(format!("ERR The {option} option is only supported by XREADGROUP. You called XREAD instead.")
                .into())
        }
    }
}

fn claim_ms(text: &[u8]) -> Result<u64, Stop> {
    let ms = number::integer(text).ok_or("ERR min-idle-time is not an integer or out of range")?;
    u64::try_from(ms).map_err(|_| "ERR min-idle-time must be a positive integer".into())
}

fn unbalanced(call: &Call<'_>, grouped: bool) -> Stop {
    let (name, symbols) = (call.command.label(), if grouped { " or '>'" } else { ", '+', or '$'" });
    format!("ERR Unbalanced '{name}' list of streams: for each stream key an ID{symbols} must be specified.")
        .into()
}

pub(super) fn xread(call: &mut Call<'_>) -> Outcome {
    let request = request(call, call.args, false)?;
    let mut ids = Vec::with_capacity(request.ids.len());
    let memo: Vec<Id> = call.memo().map(ids_of).unwrap_or_default();
    for (at, (key, text)) in request.keys.iter().zip(request.ids).enumerate() {
        let stream = find(call, key)?.map(|(_, stream)| stream);
        ids.push(match (*text, memo.get(at)) {
            (b"$", Some(first)) => *first,
            (b"$", None) => stream.map_or(Ok(Id::MIN), |stream| stream.last_given())?,
            // The last entry that is there, if there is one.
            (b"+", _) => stream.map_or(Ok(None), |stream| stream.last())?.and_then(Id::previous).unwrap_or(Id::MIN),
            (b">", _) => {
                return Err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.".into());
            }
            (text, _) => id::exact(text)?,
        });
    }
    let (mut served, mut budget) = (Vec::new(), request.most.budget());
    for (key, id) in request.keys.iter().zip(&ids) {
        if let Some((_, stream)) = find(call, key)?
            && let Some(start) = id.next()
            && stream.last()?.is_some_and(|last| last >= start)
        {
            let mut range = Range { start, limit: request.limit, ..Range::ALL };
            if let Some(budget) = &mut budget {
                range.limit = budget.take_range(&stream, &range)?;
            }
            if range.limit > 0 {
                served.push((*key, stream, range));
            }
        }
    }
    if served.is_empty() {
        return finish(call, &request, memo_of(&ids), None);
    }
    reply_streams(call, served.len());
    for (key, stream, range) in served {
        reply_stream(call, key);
        reply_range(call.reply, &stream, &range)?;
    }
    Ok(())
}

fn memo_of(ids: &[Id]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.bytes()).collect()
}

fn ids_of(memo: &[u8]) -> Vec<Id> {
    let (words, _) = memo.as_chunks::<8>();
    words
        .chunks_exact(2)
        .map(|pair| Id { ms: u64::from_be_bytes(pair[0]), seq: u64::from_be_bytes(pair[1]) })
        .collect()
}

/// Nothing could be served: the call waits, or says so. `look_ms`: the moment from which on there may be something although no key has
/// changed.
fn finish(call: &mut Call<'_>, request: &Request<'_>, memo: Vec<u8>, look_ms: Option<u64>) -> Outcome {
    match request.timeout_ms {
        Some(timeout_ms) => call.wait(Wait {
            memo,
            look_ms,
            ..Wait::of(Kind::Stream, request.keys, timeout_ms, Otherwise::NullArray)
        }),
        None => {
            call.reply.null_array();
            Ok(())
        }
    }
}

/// Begins a reply of `count` streams: a map, or pairs for a client that knows no maps.
fn reply_streams(call: &mut Call<'_>, count: usize) {
    match call.reply.protocol() {
        Protocol::Resp2 => call.reply.array(count),
        Protocol::Resp3 => call.reply.map(count),
    }
}

fn reply_stream(call: &mut Call<'_>, key: &[u8]) {
    if call.reply.protocol() == Protocol::Resp2 {
        call.reply.array(2);
    }
    call.reply.bulk(key);
}

/// What a consumer is to get of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Serving {
    Nothing,
    /// What is pending for it, from an id on.
    History(Id),
    /// Claimed entries, and those that the group has not seen yet.
    New,
}

/// The keys of an XREADGROUP: those behind STREAMS, which may as well be the name of a group or a consumer.
pub(super) fn keys(args: &[&[u8]], visit: &mut dyn FnMut(usize, usize)) {
    let mut at = 1;
    while let Some(word) = args.get(at) {
        at += match () {
            () if is(word, "STREAMS") => {
                let first = at + 1;
                return (first..first + (args.len() - first) / 2).for_each(|at| visit(at, 0));
            }
            () if is(word, "GROUP") => 3,
            () if ["COUNT", "BLOCK", "CLAIM", "MAXCOUNT", "MAXSIZE"]
                .iter()
                .any(|option| is(word, option)) =>
            {
                2
            }
            () => 1,
        };
    }
}

/// A call that reads one stream and does not wait may share a transaction.
pub(super) fn shares<'a>(args: &[&'a [u8]]) -> Option<BatchKey<'a>> {
    match args {
        [options @ .., streams, key, _]
            if is(streams, "STREAMS") && !options.iter().any(|arg| is(arg, "BLOCK")) =>
        {
            Some(BatchKey::Key(key))
        }
        _ => None,
    }
}

pub(super) fn xreadgroup(call: &mut Call<'_>) -> Outcome {
    let request = request(call, call.args, true)?;
    let Some((group, consumer)) = request.group else { unreachable!("a call without a group was refused") };
    let mut targets = SmallVec::<[Target<'_>; 1]>::new();
    let mut claims = request.claim_ms.is_some();
    for (key, text) in request.keys.iter().zip(request.ids) {
        let mut target = Target::find(call, key, group)?;
        target.seen = match *text {
            b">" => Id::MAX,
            b"$" | b"+" => return Err(meaningless(text)),
            text => id::exact(text)?,
        };
        // Nothing is claimed from the first stream on whose history is read (as in Redis).
        claims &= target.seen == Id::MAX;
        (target.claims, target.limit) = (claims, request.limit);
        targets.push(target);
    }
    let servings = match request.most.budget() {
        Some(budget) => servings_within(call, &request, &mut targets, budget)?,
        None => servings(call, &request, &mut targets)?,
    };
    let served = servings.iter().filter(|serving| **serving != Serving::Nothing).count();
    let look_ms = targets.iter().filter_map(|target| target.idle.next_ms).min();
    if served > 0 {
        reply_streams(call, served);
    }
    // A waiting client is known as a consumer meanwhile: the transaction that records the waiting
    // call commits this, too.
    for (at, (mut target, serving)) in targets.into_iter().zip(servings).enumerate() {
        let key = request.keys[at];
        // A stream that is named again is looked at again, when what came before has been done to it.
        if request.keys[..at].contains(&key) {
            target = target.again(call, &request, key, group)?;
        }
        serve(call, request.no_ack, key, target, consumer, serving)?;
    }
    if served == 0 { finish(call, &request, Vec::new(), look_ms) } else { Ok(()) }
}

/// A stream of a call, and the group that reads it.
struct Target<'c> {
    found: Found<'c>,
    draft: Draft<'c>,
    group: Group<'static>,
    /// The id that was seen last: none with `>`, which is as if it were the greatest.
    seen: Id,
    /// Entries are claimed as well: these.
    claims: bool,
    idle: Idle,
    /// The most entries that are replied.
    limit: u64,
}

impl<'c> Target<'c> {
    fn find(call: &Call<'c>, key: &[u8], group: &[u8]) -> Result<Target<'c>, Stop> {
        let (found, draft, group) = find_group(call, key, group)?.ok_or_else(|| missing(key, group))?;
        Ok(Target {
            found,
            draft,
            group,
            seen: Id::MAX,
            claims: false,
            idle: Idle::default(),
            limit: u64::MAX,
        })
    }

    /// Finds what the call claims, as many entries as `limit`.
    fn find_idle(&self, call: &Call<'_>, request: &Request<'_>, limit: u64) -> Result<Idle, Stop> {
        match request.claim_ms.filter(|_| self.claims) {
            Some(idle_ms) => Idle::find(call, &self.draft.view(call.txn), self.group.number, idle_ms, limit),
            None => Ok(Idle::default()),
        }
    }

    /// This stream as it is now.
    fn again(
        &self,
        call: &Call<'c>,
        request: &Request<'_>,
        key: &[u8],
        group: &[u8],
    ) -> Result<Target<'c>, Stop> {
        let found = Target::find(call, key, group)?;
        let mut target = Target { seen: self.seen, claims: self.claims, limit: self.limit, ..found };
        target.idle = target.find_idle(call, request, request.limit)?;
        Ok(target)
    }
}

fn missing(key: &[u8], group: &[u8]) -> Stop {
    let (key, group) = (shown(key), shown(group));
    format!("NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option").into()
}

fn meaningless(text: &[u8]) -> Stop {
    let sign = shown(text);
    format!(
        "ERR The {sign} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a \
         proper ID, or use the > ID to get new messages. The {sign} ID would just return an empty result set."
    )
    .into()
}

/// What each stream of a call has to be served. One that is named more than once has for the second time what the first has left.
fn servings(
    call: &Call<'_>,
    request: &Request<'_>,
    targets: &mut [Target<'_>],
) -> Result<SmallVec<[Serving; 1]>, Stop> {
    let mut left = Left::default();
    let mut servings = SmallVec::with_capacity(targets.len());
    for (key, target) in request.keys.iter().zip(targets) {
        if let Some(start) = target.seen.next() {
            servings.push(Serving::History(start));
            continue;
        }
        let (last, claimable) = match left.of(key) {
            Some(left) => left,
            None => {
                let named = request.keys.iter().filter(|other| *other == key).count() as u64;
                target.idle = target.find_idle(call, request, request.limit.saturating_mul(named))?;
                (target.group.last, target.idle.claimed.len() as u64)
            }
        };
        target.idle.claimed.truncate(usize::try_from(request.limit).unwrap_or(usize::MAX));
        let stream = target.draft.view(call.txn);
        let has_some = claimable > 0 || stream.last()?.is_some_and(|top| top > last);
        if has_some && request.keys.len() > 1 {
            let claim_ms = request.claim_ms.filter(|_| target.claims);
            let reading = Reading { limit: request.limit, claim_ms, no_ack: request.no_ack };
            left.serve(key, &stream, (last, claimable), reading)?;
        }
        servings.push(if has_some { Serving::New } else { Serving::Nothing });
    }
    Ok(servings)
}

/// Like [`servings`], where all streams together have a limit. One that is named again is served the first time only.
fn servings_within(
    call: &Call<'_>,
    request: &Request<'_>,
    targets: &mut [Target<'_>],
    mut budget: Budget,
) -> Result<SmallVec<[Serving; 1]>, Stop> {
    let mut servings = SmallVec::with_capacity(targets.len());
    for (at, target) in targets.iter_mut().enumerate() {
        if budget.is_spent() || request.keys[..at].contains(&request.keys[at]) {
            servings.push(Serving::Nothing);
            continue;
        }
        target.idle = target.find_idle(call, request, request.limit)?;
        let stream = target.draft.view(call.txn);
        if let Some(start) = target.seen.next() {
            let consumer =
                request.group.map_or(Ok(None), |(_, name)| stream.consumer(target.group.number, name))?;
            let owned = consumer.map_or(Ok(Vec::new()), |consumer| {
                stream
                    .owned(consumer.number, start)?
                    .take(request.limit as usize)
                    .collect::<Result<Vec<_>, _>>()
            })?;
            target.limit = budget.take_ids(&stream, owned.into_iter())?;
            servings.push(Serving::History(start));
            continue;
        }
        let claimed = budget.take_ids(&stream, target.idle.claimed.iter().map(|pending| pending.id))?;
        let limit = request.limit - claimed;
        let fresh = match target.group.last.next() {
            Some(start) => budget.take_range(&stream, &Range { start, limit, ..Range::ALL })?,
            None => 0,
        };
        target.idle.claimed.truncate(claimed as usize);
        target.limit = claimed + fresh;
        servings.push(if target.limit > 0 { Serving::New } else { Serving::Nothing });
    }
    Ok(servings)
}

/// Serves one stream to a consumer, which is created if necessary.
fn serve(
    call: &mut Call<'_>,
    no_ack: bool,
    key: &[u8],
    target: Target<'_>,
    name: &[u8],
    serving: Serving,
) -> Outcome {
    let Target { found, mut draft, mut group, claims, idle, limit, .. } = target;
    let now_ms = call.txn.now_ms();
    let (mut consumer, is_new) = reader(call, key, &mut draft, &group, name)?;
    let mut pending = Vec::new();
    if serving != Serving::Nothing {
        reply_stream(call, key);
    }
    let stream = draft.view(call.txn);
    match serving {
        Serving::Nothing => {}
        Serving::History(start) => reply_history(call, &stream, &consumer, start, limit, &mut pending)?,
        Serving::New => {
            let before = group.last;
            let taker = Taker { consumer: consumer.number, limit, idle: claims.then_some(&idle) };
            reply_new(call, &stream, &Measure::of(&stream)?, &mut group, &taker, &mut pending)?;
            if no_ack {
                pending.clear();
            }
            if !pending.is_empty() || !idle.claimed.is_empty() {
                consumer.active_ms = Some(now_ms);
            }
            idle.take(call, key, &mut draft, &group, &consumer)?;
            // Repeated readings of its own entries by a consumer are not told, nor the time when it was last seen.
            pending.iter().for_each(|pending| tell_pending(call, key, &group, &consumer, pending));
            if group.last != before {
                tell_group(call, key, &group);
                draft.put_group(call.txn, &group)?;
            }
        }
    }
    draft.put_delivered(call.txn, group.number, &pending)?;
    draft.put_consumer(call.txn, &consumer)?;
    match is_new || serving == Serving::New {
        true => publish(call, key, Some(found), &mut draft),
        false => publish_seen(call, key, found, &mut draft),
    }
}

/// Serves as many calls as read what is new of one stream for one consumer, for which it is pending
/// then.
pub(super) fn xreadgroup_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let first = request(call, call.args, true)?;
    let alike = |wanted: &Request<'_>| {
        wanted.group == first.group
            && *wanted.ids == [b">"]
            && !wanted.no_ack
            && wanted.claim_ms.is_none()
            && wanted.most.budget().is_none()
    };
    // What is left to the command's own function is left before anything is made (C1).
    let ([key], Some((group, name)), true) = (first.keys, first.group, alike(&first)) else { return Ok(0) };
    let Target { found, mut draft, mut group, .. } = Target::find(call, key, group)?;
    let (mut consumer, is_new) = reader(call, key, &mut draft, &group, name)?;
    let (stream, mut pending, mut done) = (draft.view(call.txn), Vec::new(), 0);
    let (measure, last) = (Measure::of(&stream)?, stream.last()?);
    for args in calls {
        let Some(wanted) = request(call, args, true).ok().filter(alike) else { break };
        if last.is_some_and(|last| last > group.last) {
            reply_streams(call, 1);
            reply_stream(call, key);
            let taker = Taker { consumer: consumer.number, limit: wanted.limit, idle: None };
            reply_new(call, &stream, &measure, &mut group, &taker, &mut pending)?;
        } else {
            call.reply.null_array();
        }
        done += 1;
    }
    if !pending.is_empty() {
        consumer.active_ms = Some(consumer.seen_ms);
        draft.put_group(call.txn, &group)?;
        draft.put_delivered(call.txn, group.number, &pending)?;
    }
    draft.put_consumer(call.txn, &consumer)?;
    match is_new || !pending.is_empty() {
        true => publish(call, key, Some(found), &mut draft)?,
        false => publish_seen(call, key, found, &mut draft)?,
    }
    Ok(done)
}

/// Replies with what a consumer has pending; what is still there counts as delivered once more.
fn reply_history(
    call: &mut Call<'_>,
    stream: &Stream<'_>,
    consumer: &Consumer<'_>,
    start: Id,
    limit: u64,
    pending: &mut Vec<Pending>,
) -> Outcome {
    let owned = stream.owned(consumer.number, start)?;
    let ids = owned.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect::<Result<Vec<_>, _>>()?;
    call.reply.array(ids.len());
    for id in ids {
        if !stream.get(id, &mut |entry| reply_entry(call.reply, entry))? {
            call.reply.array(2);
            reply_id(call.reply, id);
            call.reply.null_array();
        } else {
            let old = stream.pending_of(consumer.group, id)?;
            pending.push(Pending {
                delivered_ms: call.txn.now_ms(),
                deliveries: old.next_deliveries(),
                ..old
            });
        }
    }
    Ok(())
}

/// The entries that a consumer takes of a stream.
struct Taker<'i> {
    /// The consumer's number.
    consumer: u32,
    /// The most entries that it takes.
    limit: u64,
    /// Its claims, which come first.
    idle: Option<&'i Idle>,
}

/// Replies with what is claimed and with what a group has not seen yet, of which there is something, and moves the group on. What is
/// new is to belong to the consumer.
fn reply_new(
    call: &mut Call<'_>,
    stream: &Stream<'_>,
    measure: &Measure,
    group: &mut Group<'_>,
    taker: &Taker<'_>,
    pending: &mut Vec<Pending>,
) -> Outcome {
    let claimed = taker.idle.map_or(0, |idle| idle.claimed.len());
    let limit = taker.limit.saturating_sub(claimed as u64);
    let range = group.last.next().map(|start| Range { start, limit, ..Range::ALL });
    let (count, before) = match &range {
        // There is one, as nothing was claimed.
        Some(_) if taker.limit == 1 && claimed == 0 => (1, pending.len()),
        Some(range) => (stream.count(range)? as usize, pending.len()),
        None => (0, pending.len()),
    };
    call.reply.array(claimed + count);
    if let Some(idle) = taker.idle {
        idle.reply(call, stream)?;
    }
    let (reply, delivered_ms) = (&mut *call.reply, call.txn.now_ms());
    if let Some(range) = range {
        stream.walk(&range, &mut |entry| {
            measure.advance(group, entry.id);
            match taker.idle {
                Some(_) => idle::reply_fresh(reply, entry),
                None => reply_entry(reply, entry),
            }
            pending.push(Pending { id: entry.id, consumer: taker.consumer, delivered_ms, deliveries: 1 });
        })?;
    }
    is_whole(count, pending.len() - before)
}
