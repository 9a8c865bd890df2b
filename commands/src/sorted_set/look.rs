//! What looks at single members: ZSCORE, ZRANK, ZRANDMEMBER, ZSCAN and their like.
use std::collections::HashSet;

use polder_base::glob;
use polder_table::Stop;
use polder_values::sorted_set::{Entry, SortedSet};

use super::range::{begin_entries, begin_entry};
use super::{find, find_set, reply_score_of};
use crate::collection::named;
use crate::database::cursor;
use crate::string::number_mode;
use polder_calls::call::wrong_arity;
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};

pub(super) fn zcard(call: &mut Call<'_>) -> Outcome {
    let count = find_set(call, call.args[1])?.count()?;
    call.reply.integer(count as i64);
    Ok(())
}

/// Replies with a member's score, or with null when it is not there.
fn reply_member(call: &mut Call<'_>, entry: Option<Entry<'_>>) {
    match entry {
        Some(entry) => {
            let mode = number_mode(call.settings);
            reply_score_of(call.reply, mode, &entry);
        }
        None => call.reply.null(),
    }
}

pub(super) fn zscore(call: &mut Call<'_>) -> Outcome {
    let entry = find_set(call, call.args[1])?.find(call.txn, call.args[2])?;
    reply_member(call, entry);
    Ok(())
}

pub(super) fn zscore_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let Some(found) = find(call, call.args[1])? else { return Ok(0) };
    let entries = SortedSet::of(&found.value).find_all(call.txn, &named(calls))?;
    entries.into_iter().for_each(|entry| reply_member(call, entry));
    Ok(calls.len())
}

pub(super) fn zmscore(call: &mut Call<'_>) -> Outcome {
    let (set, members) = (find_set(call, call.args[1])?, &call.args[2..]);
    call.reply.array(members.len());
    set.find_all(call.txn, members)?.into_iter().for_each(|entry| reply_member(call, entry));
    Ok(())
}

pub(super) fn zrank(call: &mut Call<'_>) -> Outcome {
    rank(call, false)
}

pub(super) fn zrevrank(call: &mut Call<'_>) -> Outcome {
    rank(call, true)
}

fn rank(call: &mut Call<'_>, reverse: bool) -> Outcome {
    let with_score = match &call.args[3..] {
        [] => false,
        [word] if is(word, "WITHSCORE") => true,
        [_] => return Err(SYNTAX.into()),
        _ => return Err(wrong_arity(call.command)),
    };
    let set = find_set(call, call.args[1])?;
    let ranked = set.rank(call.txn, call.args[2])?;
    reply_rank(call, &set, ranked, reverse, with_score)
}

pub(super) fn zrank_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    rank_many(call, calls, false)
}

pub(super) fn zrevrank_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    rank_many(call, calls, true)
}

/// For as many calls as have no options.
fn rank_many(call: &mut Call<'_>, calls: &[&[&[u8]]], reverse: bool) -> Result<usize, Stop> {
    let done = calls.iter().take_while(|args| args.len() == 3).count();
    let Some(found) = find(call, call.args[1])? else { return Ok(0) };
    let set = SortedSet::of(&found.value);
    for ranked in set.rank_all(call.txn, &named(&calls[..done]))? {
        reply_rank(call, &set, ranked, reverse, false)?;
    }
    Ok(done)
}

fn reply_rank(
    call: &mut Call<'_>,
    set: &SortedSet<'_>,
    ranked: Option<(u64, Entry<'_>)>,
    reverse: bool,
    with_score: bool,
) -> Outcome {
    match ranked {
        Some((rank, entry)) => {
            let rank = if reverse { set.count()?.saturating_sub(rank + 1) } else { rank };
            if with_score {
                call.reply.array(2);
            }
            call.reply.integer(rank as i64);
            if with_score {
                let mode = number_mode(call.settings);
                reply_score_of(call.reply, mode, &entry);
            }
        }
        None if with_score => call.reply.null_array(),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn zrandmember(call: &mut Call<'_>) -> Outcome {
    let (wanted, with_scores) = match &call.args[2..] {
        [] => (None, false),
        [count, rest @ ..] => {
            let count = integer(count)?;
            if count == i64::MIN {
                return Err(
                    format!("ERR value is out of range, value must between -{0} and {0}", i64::MAX).into()
                );
            }
            match rest {
                [] => (Some(count), false),
                [word] if is(word, "WITHSCORES") => {
                    if count.unsigned_abs() > i64::MAX as u64 / 2 {
                        return Err("ERR value is out of range".into());
                    }
                    (Some(count), true)
                }
                _ => return Err(SYNTAX.into()),
            }
        }
    };
    let set = find_set(call, call.args[1])?;
    let size = set.count()?;
    let Some(wanted) = wanted else {
        match set.at(call.txn, call.table.draw_below(size))? {
            Some(entry) => call.reply.bulk(entry.member()),
            None => call.reply.null(),
        }
        return Ok(());
    };
    if wanted < 0 && size > 0 {
        begin_entries(call.reply, wanted.unsigned_abs() as usize, with_scores);
        for _ in 0..wanted.unsigned_abs() {
            reply_at(call, &set, call.table.draw_below(size), with_scores)?;
            if call.reply.is_overfull() {
                break;
            }
        }
        return Ok(());
    }
    let ranks = distinct(call, size, wanted.unsigned_abs());
    begin_entries(call.reply, ranks.len(), with_scores);
    ranks.into_iter().try_for_each(|rank| reply_at(call, &set, rank, with_scores))
}

/// `wanted` different ranks below `size`, or all of them: every choice is equally likely (Floyd,
/// CACM 1987).
fn distinct(call: &Call<'_>, size: u64, wanted: u64) -> Vec<u64> {
    if wanted >= size {
        return (0..size).collect();
    }
    let mut chosen = HashSet::with_capacity(wanted as usize);
    (size - wanted..size)
        .map(|top| {
            let drawn = call.table.draw_below(top + 1);
            let rank = if chosen.insert(drawn) { drawn } else { top };
            chosen.insert(rank);
            rank
        })
        .collect()
}

fn reply_at(call: &mut Call<'_>, set: &SortedSet<'_>, rank: u64, with_scores: bool) -> Outcome {
    const DAMAGED: polder_base::Fault = polder_base::Fault::Damaged { what: "the count of a sorted set" };
    let entry = set.at(call.txn, rank)?.ok_or(Stop::Fault(DAMAGED))?;
    begin_entry(call.reply, with_scores);
    call.reply.bulk(entry.member());
    if with_scores {
        let mode = number_mode(call.settings);
        reply_score_of(call.reply, mode, &entry);
    }
    Ok(())
}

/// Members that one call of ZSCAN shows when it is not told.
const SCAN_COUNT: i64 = 10;

/// Sets that Redis shows at once are shown so, too, unless they are larger than its own thresholds can be meant to be.
const AT_ONCE_MAX: u64 = 512;

pub(super) fn zscan(call: &mut Call<'_>) -> Outcome {
    let from = cursor(call.args[2])?;
    let Some(found) = super::find(call, call.args[1])? else {
        return reply_scan(call, 0, &[], true);
    };
    let (mut pattern, mut count, mut with_scores) = (None, SCAN_COUNT, true);
    let mut options = &call.args[3..];
    while let [word, rest @ ..] = options {
        options = match rest {
            [value, rest @ ..] if is(word, "MATCH") => {
                pattern = Some(*value);
                rest
            }
            [value, rest @ ..] if is(word, "COUNT") => {
                count = integer(value)?;
                if count < 1 {
                    return Err(SYNTAX.into());
                }
                rest
            }
            _ if is(word, "NOSCORES") => {
                with_scores = false;
                rest
            }
            _ if is(word, "NOVALUES") => return Err("ERR NOVALUES option can only be used in HSCAN".into()),
            _ => return Err(SYNTAX.into()),
        }
    }
    let set = SortedSet::of(&found.value);
    let at_once = !set.is_large() && set.count()? <= AT_ONCE_MAX;
    let (from, count) = if at_once { (0, u64::MAX) } else { (from, count as u64) };
    let mut entries = Vec::new();
    let next = set.scan(call.txn, from, count, &mut |entry| {
        if pattern.is_none_or(|pattern| glob::selects(pattern, entry.member())) {
            entries.push(entry);
        }
    })?;
    reply_scan(call, next, &entries, with_scores)
}

/// Scores are text here in RESP3, too.
fn reply_scan(call: &mut Call<'_>, next: u64, entries: &[Entry<'_>], with_scores: bool) -> Outcome {
    let mode = number_mode(call.settings);
    call.reply.array(2);
    call.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    call.reply.array(if with_scores { entries.len() * 2 } else { entries.len() });
    for entry in entries {
        call.reply.bulk(entry.member());
        if with_scores {
            call.reply.bulk(super::score_text(mode, entry).as_bytes());
        }
    }
    Ok(())
}
