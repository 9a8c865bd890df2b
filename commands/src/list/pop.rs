//! Taking elements from the ends of lists, and moving them from one to another: at once, or as soon as there are some.
use polder_base::number;
use polder_table::Stop;
use polder_values::Kind;
use polder_values::list::Draft;

use super::{End, Held, find, limit, notify_taken, positive, publish, reply_each, take};
use crate::collection::reply_element;
use polder_calls::call::wrong_arity;
use polder_calls::call::{Call, Outcome, SYNTAX, is};
use polder_calls::waiting::{Otherwise, Wait, seconds};

pub(super) fn lpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Left)
}

pub(super) fn rpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Right)
}

pub(super) fn lpop_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    pop_many(call, calls, End::Left)
}

pub(super) fn rpop_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    pop_many(call, calls, End::Right)
}

/// Pops for as many calls as ask for one element, all elements at once.
fn pop_many(call: &mut Call<'_>, calls: &[&[&[u8]]], end: End) -> Result<usize, Stop> {
    let (key, many) = (call.args[1], calls.iter().take_while(|args| args.len() == 2).count());
    let held = find(call, key)?;
    let there = held.map_or(0, |held| held.count.min(many as u64));
    if let Some(held) = held.filter(|_| there > 0) {
        reply_each(call, &held, end, there)?;
        take(call, key, &held, end.rank(there, held.count), there)?;
        (1..there).for_each(|_| call.notify('l', end.events().1, key));
        notify_taken(call, end.events().1, key, &held, there);
    }
    (there..many as u64).for_each(|_| call.reply.null());
    Ok(many)
}

fn pop(call: &mut Call<'_>, end: End) -> Outcome {
    let (key, count) = match *call.args {
        [_, key] => (key, None),
        [_, key, count] => (key, Some(positive(count, "ERR value is out of range, must be positive")?)),
        _ => return Err(wrong_arity(call.command)),
    };
    let Some(held) = find(call, key)? else {
        match count {
            Some(_) => call.reply.null_array(),
            None => call.reply.null(),
        }
        return Ok(());
    };
    match count {
        None => pop_one(call, key, &held, end),
        Some(0) => {
            call.reply.array(0);
            Ok(())
        }
        Some(count) => pop_some(call, key, &held, end, count),
    }
}

/// Replies with the element at an end and takes it out.
fn pop_one(call: &mut Call<'_>, key: &[u8], held: &Held<'_>, end: End) -> Outcome {
    let rank = end.rank(1, held.count);
    match held.elements.at(call.txn, rank)? {
        Some(element) => reply_element(call.reply, call.txn, &element)?,
        None => call.reply.null(),
    }
    take(call, key, held, rank, 1)?;
    call.tell(&[end.pop(), key]);
    notify_taken(call, end.events().1, key, held, 1);
    Ok(())
}

/// Replies with an array of up to `count` elements from an end and takes them out.
fn pop_some(call: &mut Call<'_>, key: &[u8], held: &Held<'_>, end: End, count: u64) -> Outcome {
    let count = count.min(held.count);
    call.reply.array(count as usize);
    reply_each(call, held, end, count)?;
    take(call, key, held, end.rank(count, held.count), count)?;
    if call.tells_itself() {
        call.tell(&[end.pop(), key, count.to_string().as_bytes()]);
    }
    notify_taken(call, end.events().1, key, held, count);
    Ok(())
}

/// A count of elements that is not zero.
pub(super) fn count_of(arg: &[u8]) -> Result<u64, Stop> {
    above_zero(arg, "ERR count should be greater than 0")
}

fn above_zero(arg: &[u8], refusal: &'static str) -> Result<u64, Stop> {
    match number::integer(arg) {
        Some(number @ 1..) => Ok(number as u64),
        _ => Err(refusal.into()),
    }
}

/// Arguments of LMPOP from `numkeys` on: keys, end, count.
fn many<'a>(args: &'a [&'a [u8]]) -> Result<(&'a [&'a [u8]], End, u64), Stop> {
    const NUMKEYS: &str = "ERR numkeys should be greater than 0";
    let numkeys = above_zero(args[0], NUMKEYS)?;
    let rest = &args[1..];
    if numkeys >= rest.len() as u64 {
        return Err(SYNTAX.into());
    }
    let (keys, rest) = rest.split_at(numkeys as usize);
    let end = End::of(rest[0])?;
    let mut count = None;
    let (options, odd) = rest[1..].as_chunks();
    for [name, value] in options {
        if count.is_some() || !is(name, "COUNT") {
            return Err(SYNTAX.into());
        }
        count = Some(count_of(value)?);
    }
    if odd.is_empty() { Ok((keys, end, count.unwrap_or(1))) } else { Err(SYNTAX.into()) }
}

/// The first of the keys that holds elements.
fn first<'c, 'k>(call: &Call<'c>, keys: &[&'k [u8]]) -> Result<Option<(&'k [u8], Held<'c>)>, Stop> {
    for key in keys {
        if let Some(held) = find(call, key)? {
            return Ok(Some((key, held)));
        }
    }
    Ok(None)
}

pub(super) fn lmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, end, count) = many(&call.args[1..])?;
    match first(call, keys)? {
        Some((key, held)) => pop_named(call, key, &held, end, count),
        None => {
            call.reply.null_array();
            Ok(())
        }
    }
}

fn pop_named(call: &mut Call<'_>, key: &[u8], held: &Held<'_>, end: End, count: u64) -> Outcome {
    call.reply.array(2);
    call.reply.bulk(key);
    pop_some(call, key, held, end, count)
}

pub(super) fn blmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, end, count) = many(&call.args[2..])?;
    let timeout_ms = seconds(call.args[1])?;
    let mut yields = false;
    match first_for_us(call, keys, &mut yields)? {
        Some((key, held)) => pop_named(call, key, &held, end, count),
        None => wait(call, keys, timeout_ms, Otherwise::NullArray, yields),
    }
}

pub(super) fn first_for_us<'c, 'k>(
    call: &Call<'c>,
    keys: &[&'k [u8]],
    yields: &mut bool,
) -> Result<Option<(&'k [u8], Held<'c>)>, Stop> {
    call.first_for_us(Kind::List, keys, yields, find)
}

fn wait(call: &mut Call<'_>, keys: &[&[u8]], timeout_ms: u64, otherwise: Otherwise, yields: bool) -> Outcome {
    call.wait(Wait { yields, ..Wait::of(Kind::List, keys, timeout_ms, otherwise) })
}

pub(super) fn blpop(call: &mut Call<'_>) -> Outcome {
    blocking_pop(call, End::Left)
}

pub(super) fn brpop(call: &mut Call<'_>) -> Outcome {
    blocking_pop(call, End::Right)
}

fn blocking_pop(call: &mut Call<'_>, end: End) -> Outcome {
    let (timeout, keys) = call.args[1..].split_last().ok_or(SYNTAX)?;
    let timeout_ms = seconds(timeout)?;
    let mut yields = false;
    match first_for_us(call, keys, &mut yields)? {
        Some((key, held)) => {
            call.reply.array(2);
            call.reply.bulk(key);
            pop_one(call, key, &held, end)
        }
        None => wait(call, keys, timeout_ms, Otherwise::NullArray, yields),
    }
}

pub(super) fn lmove(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (End::of(call.args[3])?, End::of(call.args[4])?);
    shift(call, from, to, None)
}

pub(super) fn rpoplpush(call: &mut Call<'_>) -> Outcome {
    shift(call, End::Right, End::Left, None)
}

pub(super) fn blmove(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (End::of(call.args[3])?, End::of(call.args[4])?);
    let timeout_ms = seconds(call.args[5])?;
    shift(call, from, to, Some(timeout_ms))
}

pub(super) fn brpoplpush(call: &mut Call<'_>) -> Outcome {
    let timeout_ms = seconds(call.args[3])?;
    shift(call, End::Right, End::Left, Some(timeout_ms))
}

/// Bytes that Redis counts of an element before it moves it: what it keeps as a number does not count until it is there.
pub(super) fn announced_bytes(element: &[u8]) -> u64 {
    if number::integer(element).is_some() { 0 } else { element.len() as u64 }
}

/// Moves an element from one list to another, or from one end to the other. Without one it waits,
/// or replies with nothing.
fn shift(call: &mut Call<'_>, from: End, to: End, timeout_ms: Option<u64>) -> Outcome {
    let (source, target) = (call.args[1], call.args[2]);
    let mut yields = false;
    let held = match timeout_ms {
        Some(_) => first_for_us(call, &[source], &mut yields)?.map(|(_, held)| held),
        None => find(call, source)?,
    };
    let Some(held) = held else {
        if let Some(timeout_ms) = timeout_ms {
            return wait(call, &[source], timeout_ms, Otherwise::Null, yields);
        }
        call.reply.null();
        return Ok(());
    };
    let other = if source == target { Some(held) } else { find(call, target)? };
    let rank = from.rank(1, held.count);
    let element = held.elements.at(call.txn, rank)?.ok_or("ERR no such element")?;
    reply_element(call.reply, call.txn, &element)?;
    let bytes = element.bytes(call.txn)?.into_owned();
    let mut draft = other.map_or_else(Draft::empty, |other| other.draft());
    if source == target {
        draft.remove(call.txn, rank, 1)?;
    }
    draft.expect(call.txn, limit(call), 1, announced_bytes(&bytes))?;
    let end = if to == End::Left { 0 } else { draft.count()? };
    draft.insert(call.txn, end, &bytes)?;
    if source == target {
        draft.settle(call.txn, limit(call))?;
    }
    publish(call, target, other.as_ref(), &mut draft)?;
    call.tell(&[b"LMOVE", source, target, from.word(), to.word()]);
    call.notify('l', to.events().0, target);
    if source == target {
        call.notify('l', from.events().1, source);
        return Ok(());
    }
    take(call, source, &held, rank, 1)?;
    notify_taken(call, from.events().1, source, &held, 1);
    Ok(())
}
