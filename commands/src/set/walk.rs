//! Random picks from a set, and walks through it by cursor.
use std::borrow::Cow;

use polder_base::number;
use polder_table::{Found, Stop};
use polder_values::Kind;
use polder_values::order::member_word;
use polder_values::sequence::Sequence;
use polder_values::set::{Draft, Encoding, encoding, rank_of_word};

use super::{publish, reply_all, thresholds};
use crate::collection::{Scan, draw_ranks, reply_element};
use crate::database::cursor;
use crate::hash::count;
use polder_calls::call::{Call, Outcome, SYNTAX};

pub(super) fn srandmember(call: &mut Call<'_>) -> Outcome {
    let txn = call.txn;
    let wanted = match &call.args[2..] {
        [] => None,
        [wanted] => Some(count(wanted)?),
        _ => return Err(SYNTAX.into()),
    };
    let Some(found) = call.find_kind(call.args[1], Kind::Set)? else {
        match wanted {
            None => call.reply.null(),
            Some(_) => call.reply.array(0),
        }
        return Ok(());
    };
    let members = Sequence::of(&found.value);
    let all = members.count()?;
    let Some(wanted) = wanted else { return reply_at(call, &members, call.table.draw_below(all)) };
    if wanted < 0 {
        call.reply.array(wanted.unsigned_abs() as usize);
        for _ in 0..wanted.unsigned_abs() {
            reply_at(call, &members, call.table.draw_below(all))?;
            if call.reply.is_overfull() {
                break;
            }
        }
        return Ok(());
    }
    let len = all.min(wanted as u64);
    call.reply.array(len as usize);
    if len == all {
        for member in members.iter(txn, 0) {
            reply_element(call.reply, txn, &member?)?;
        }
        return Ok(());
    }
    draw_ranks(call.table, len, all).into_iter().try_for_each(|rank| reply_at(call, &members, rank))
}

/// Replies with the member of a rank.
fn reply_at(call: &mut Call<'_>, members: &Sequence<'_>, rank: u64) -> Outcome {
    match members.at(call.txn, rank)? {
        Some(member) => reply_element(call.reply, call.txn, &member)?,
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn spop(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let wanted = match &call.args[2..] {
        [] => None,
        [wanted] => {
            let wanted = number::integer(wanted).and_then(|wanted| u64::try_from(wanted).ok());
            Some(wanted.ok_or("ERR value is out of range, must be positive")?)
        }
        _ => return Err(SYNTAX.into()),
    };
    let Some(found) = call.find_kind(key, Kind::Set)? else {
        match wanted {
            None => call.reply.null(),
            Some(_) => call.reply.set(0),
        }
        return Ok(());
    };
    let members = Sequence::of(&found.value);
    let all = members.count()?;
    let len = wanted.unwrap_or(1).min(all);
    if wanted.is_none() {
        let rank = call.table.draw_below(all);
        reply_at(call, &members, rank)?;
        if all > 1 {
            return take(call, found, &[rank]);
        }
    } else if len == all {
        reply_all(call, Some(found))?;
    } else {
        let ranks = draw_ranks(call.table, len, all);
        call.reply.set(ranks.len());
        ranks.iter().try_for_each(|rank| reply_at(call, &members, *rank))?;
        return if ranks.is_empty() { Ok(()) } else { take(call, found, &ranks) };
    }
    call.notify('s', "spop", key);
    call.remove(key)?;
    call.tell(&[b"DEL", key]);
    call.notify('g', "del", key);
    Ok(())
}

/// Pops for as many calls as ask for one member.
pub(super) fn spop_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let (txn, key, many) = (call.txn, call.args[1], calls.iter().take_while(|args| args.len() == 2).count());
    let mut left = many;
    if let Some(found) = call.find_kind(key, Kind::Set)?.filter(|_| many > 0) {
        let mut draft = Draft::of(&found.value, thresholds(call));
        let mut all = draft.count()?;
        while left > 0 && all > 0 {
            let rank = call.table.draw_below(all);
            reply_at(call, &draft.members(), rank)?;
            draft.remove_at(txn, rank)?;
            call.notify('s', "spop", key);
            (left, all) = (left - 1, all - 1);
        }
        if publish(call, key, Some(found), &mut draft)? {
            call.notify('g', "del", key);
        }
    }
    (0..left).for_each(|_| call.reply.null());
    Ok(many)
}

/// Takes away the members of some ranks, which are in order; others are left.
fn take(call: &Call<'_>, found: Found<'_>, ranks: &[u64]) -> Outcome {
    let (txn, key) = (call.txn, call.args[1]);
    let mut draft = Draft::of(&found.value, thresholds(call));
    if call.tells_itself() {
        let member = |rank: &u64| {
            draft
                .members()
                .at(txn, *rank)
                .map(|element| element.map(|element| element.bytes(txn).map(Cow::into_owned)))
        };
        let mut gone = Vec::new();
        for rank in ranks {
            gone.extend(member(rank)?.transpose()?);
        }
        call.tell_many(&[b"SREM", key], &Vec::from_iter(gone.iter().map(Vec::as_slice)));
    }
    // From the last on: ranks before it stay as they are.
    ranks.iter().rev().try_for_each(|rank| draft.remove_at(txn, *rank))?;
    call.notify('s', "spop", key);
    publish(call, key, Some(found), &mut draft).map(drop)
}

pub(super) fn sscan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor(call.args[2])?;
    let Some(found) = call.find_kind(call.args[1], Kind::Set)? else {
        call.reply.array(2);
        call.reply.bulk(b"0");
        call.reply.array(0);
        return Ok(());
    };
    let (txn, scan, members) =
        (call.txn, Scan::read(cursor, &call.args[3..], false)?, Sequence::of(&found.value));
    // As in Redis, a small one comes as a whole.
    let whole = encoding(&found.value) != Encoding::Hashtable || matches!(members, Sequence::Packed(_));
    let from = if whole { 0 } else { rank_of_word(txn, &members, scan.first_word())? };
    let (mut shown, mut seen, mut last, mut next) = (Vec::new(), 0, 0, 0);
    for member in members.iter(txn, from) {
        let member = member?;
        let bytes = member.bytes(txn)?;
        if !whole {
            let word = member_word(&bytes);
            if let Some(cursor) = scan.stops_at(seen, last, word) {
                next = cursor;
                break;
            }
            (seen, last) = (seen + 1, word);
        }
        if scan.shows(&bytes) {
            shown.push(member);
        }
    }
    call.reply.array(2);
    call.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    call.reply.array(shown.len());
    shown.iter().try_for_each(|member| reply_element(call.reply, txn, member))
}
