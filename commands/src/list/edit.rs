//! Putting elements into lists, and taking them out of their middle.
use polder_table::Stop;
use polder_values::list::{self, Draft};

use super::{End, find, limit, notify_taken, publish, range, reversible, take};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};

pub(super) fn lpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Left, false)
}

pub(super) fn rpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Right, false)
}

pub(super) fn lpushx(call: &mut Call<'_>) -> Outcome {
    push(call, End::Left, true)
}

pub(super) fn rpushx(call: &mut Call<'_>) -> Outcome {
    push(call, End::Right, true)
}

pub(super) fn lpush_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    push_many(call, calls, End::Left)
}

pub(super) fn rpush_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    push_many(call, calls, End::Right)
}

/// Pushes to a list that is there, the elements of all calls at once.
fn push_many(call: &mut Call<'_>, calls: &[&[&[u8]]], end: End) -> Result<usize, Stop> {
    let key = call.args[1];
    let Some(held) = find(call, key)? else { return Ok(0) };
    let mut draft = held.draft();
    draft.expect_each(call.txn, limit(call), calls.iter().map(|args| &args[2..]))?;
    let elements = calls.iter().flat_map(|args| args[2..].iter().copied());
    match end {
        End::Left => draft.extend_front(call.txn, elements)?,
        End::Right => draft.extend(call.txn, elements)?,
    }
    let mut count = held.count;
    for args in calls {
        count += args.len() as u64 - 2;
        call.notify('l', end.events().0, key);
        call.reply.integer(count as i64);
    }
    publish(call, key, Some(&held), &mut draft)?;
    Ok(calls.len())
}

fn push(call: &mut Call<'_>, end: End, only_existing: bool) -> Outcome {
    let (key, elements) = (call.args[1], &call.args[2..]);
    let held = find(call, key)?;
    if held.is_none() && only_existing {
        call.reply.integer(0);
        return Ok(());
    }
    let mut draft = held.map_or_else(Draft::empty, |held| held.draft());
    let bytes = elements.iter().map(|element| element.len() as u64).sum();
    draft.expect(call.txn, limit(call), elements.len() as u64, bytes)?;
    let there = held.map_or(0, |held| held.count);
    match (end, elements) {
        (End::Right, [element]) => draft.insert(call.txn, there, element)?,
        (End::Left, [element]) => draft.insert(call.txn, 0, element)?,
        (End::Right, _) => draft.extend(call.txn, elements.iter().copied())?,
        (End::Left, _) => draft.extend_front(call.txn, elements.iter().copied())?,
    }
    let count = there + elements.len() as u64;
    publish(call, key, held.as_ref(), &mut draft)?;
    call.notify('l', end.events().0, key);
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn lset(call: &mut Call<'_>) -> Outcome {
    let (key, element) = (call.args[1], call.args[3]);
    let held = find(call, key)?.ok_or("ERR no such key")?;
    let index = integer(call.args[2])?;
    let rank = held.rank(index).ok_or("ERR index out of range")?;
    let mut draft = held.draft();
    draft.expect(call.txn, limit(call), 1, element.len() as u64)?;
    draft.replace(call.txn, rank, element)?;
    draft.settle(call.txn, limit(call))?;
    publish(call, key, Some(&held), &mut draft)?;
    call.notify('l', "lset", key);
    call.reply.ok();
    Ok(())
}

pub(super) fn linsert(call: &mut Call<'_>) -> Outcome {
    let [_, key, place, pivot, element] = *call.args else { return Err(SYNTAX.into()) };
    let after = match place {
        _ if is(place, "AFTER") => true,
        _ if is(place, "BEFORE") => false,
        _ => return Err(SYNTAX.into()),
    };
    let Some(held) = find(call, key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let mut rank = None;
    for (at, found) in held.elements.iter(call.txn, 0).enumerate() {
        if list::is(call.txn, &found?, pivot)? {
            rank = Some(at as u64);
            break;
        }
    }
    let mut draft = held.draft();
    let large = list::is_large(&held.found.value);
    draft.expect(call.txn, limit(call), 1, element.len() as u64)?;
    let Some(rank) = rank else {
        // Redis makes room before it looks for the pivot: the list may be called large from now on.
        if draft.is_large() != large {
            publish(call, key, Some(&held), &mut draft)?;
        }
        call.reply.integer(-1);
        return Ok(());
    };
    draft.insert(call.txn, rank + after as u64, element)?;
    publish(call, key, Some(&held), &mut draft)?;
    call.notify('l', "linsert", key);
    call.reply.integer(held.count as i64 + 1);
    Ok(())
}

pub(super) fn ltrim(call: &mut Call<'_>) -> Outcome {
    let (key, start, stop) = (call.args[1], integer(call.args[2])?, integer(call.args[3])?);
    if let Some(held) = find(call, key)? {
        let (from, upto) = range(start, stop, held.count);
        let gone = held.count - (upto - from);
        if gone == held.count {
            call.remove(key)?;
        } else if gone > 0 {
            let mut draft = held.draft();
            draft.remove(call.txn, upto, held.count - upto)?;
            draft.remove(call.txn, 0, from)?;
            draft.settle(call.txn, limit(call))?;
            publish(call, key, Some(&held), &mut draft)?;
        }
        notify_taken(call, "ltrim", key, &held, gone);
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn lrem(call: &mut Call<'_>) -> Outcome {
    let (key, count, element) = (call.args[1], reversible(call.args[2])?, call.args[3]);
    let Some(held) = find(call, key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() } as usize;
    let mut ranks: Vec<u64> = Vec::new();
    let mut look = |rank: u64, found| -> Result<bool, Stop> {
        if list::is(call.txn, &found, element)? {
            ranks.push(rank);
        }
        Ok(ranks.len() < most)
    };
    if count < 0 {
        for (at, found) in held.elements.iter_back(call.txn, held.count - 1).enumerate() {
            if !look(held.count - 1 - at as u64, found?)? {
                break;
            }
        }
    } else {
        for (rank, found) in held.elements.iter(call.txn, 0).enumerate() {
            if !look(rank as u64, found?)? {
                break;
            }
        }
        ranks.reverse();
    }
    remove_each(call, key, &held, &ranks)?;
    call.reply.integer(ranks.len() as i64);
    Ok(())
}

/// Takes out the elements at `ranks`, the last one first, neighbours together.
fn remove_each(call: &mut Call<'_>, key: &[u8], held: &super::Held<'_>, ranks: &[u64]) -> Outcome {
    let many = ranks.len() as u64;
    if many == 0 {
        return Ok(());
    }
    if many == held.count {
        take(call, key, held, 0, many)?;
    } else {
        let mut draft = held.draft();
        for run in ranks.chunk_by(|above, below| above - 1 == *below) {
            draft.remove(call.txn, run[run.len() - 1], run.len() as u64)?;
        }
        draft.settle(call.txn, limit(call))?;
        publish(call, key, Some(held), &mut draft)?;
    }
    notify_taken(call, "lrem", key, held, many);
    Ok(())
}
