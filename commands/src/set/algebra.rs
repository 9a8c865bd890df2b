//! SINTER, SUNION, SDIFF and what stores their results.
use polder_base::number;
use polder_table::{Found, New, Stop};
use polder_values::Kind;
use polder_values::sequence::Sequence;
use polder_values::set::algebra::{Members, difference, intersection, union};
use polder_values::set::{Draft, Encoding};

use super::thresholds;
use crate::collection::reply_element;
use polder_calls::call::{Call, Outcome, SYNTAX, is};

/// The sets that keys hold, none for a key that is not there.
///
/// # Errors
/// WRONGTYPE where any of them holds another kind.
fn sets<'c>(call: &Call<'c>, keys: &[&[u8]]) -> Result<Vec<Option<Found<'c>>>, Stop> {
    keys.iter().map(|key| call.find_kind(key, Kind::Set)).collect()
}

/// The members of the sets that are there.
fn present<'c>(sets: &[Option<Found<'c>>]) -> Vec<Sequence<'c>> {
    sets.iter().flatten().map(|found| Sequence::of(&found.value)).collect()
}

/// What all sets have in common: nothing where one of them is not there.
fn common<'c>(call: &Call<'c>, sets: &[Option<Found<'c>>]) -> Result<Members<'c>, Stop> {
    let mut members = Members::default();
    if sets.iter().all(Option::is_some) {
        let elements = &mut members.elements;
        members.sorted = intersection(call.txn, &present(sets), &mut |element| {
            elements.push(element);
            true
        })?;
    }
    Ok(members)
}

fn left<'c>(call: &Call<'c>, sets: &[Option<Found<'c>>]) -> Result<Members<'c>, Stop> {
    match sets {
        [Some(first), others @ ..] => {
            Ok(difference(call.txn, &Sequence::of(&first.value), &present(others))?)
        }
        _ => Ok(Members::default()),
    }
}

pub(super) fn sinter(call: &mut Call<'_>) -> Outcome {
    let sets = sets(call, &call.args[1..])?;
    let members = common(call, &sets)?;
    answer(call, &members)
}

pub(super) fn sunion(call: &mut Call<'_>) -> Outcome {
    let sets = sets(call, &call.args[1..])?;
    let members = union(call.txn, &present(&sets))?;
    answer(call, &members)
}

pub(super) fn sdiff(call: &mut Call<'_>) -> Outcome {
    let sets = sets(call, &call.args[1..])?;
    let members = left(call, &sets)?;
    answer(call, &members)
}

fn answer(call: &mut Call<'_>, members: &Members<'_>) -> Outcome {
    call.reply.set(members.elements.len());
    members.elements.iter().try_for_each(|member| reply_element(call.reply, call.txn, member))
}

pub(super) fn sinterstore(call: &mut Call<'_>) -> Outcome {
    let sets = sets(call, &call.args[2..])?;
    let members = common(call, &sets)?;
    store(call, &members, "sinterstore")
}

pub(super) fn sunionstore(call: &mut Call<'_>) -> Outcome {
    let sets = sets(call, &call.args[2..])?;
    let members = union(call.txn, &present(&sets))?;
    store(call, &members, "sunionstore")
}

pub(super) fn sdiffstore(call: &mut Call<'_>) -> Outcome {
    let sets = sets(call, &call.args[2..])?;
    let members = left(call, &sets)?;
    store(call, &members, "sdiffstore")
}

/// Makes the destination a set of these members, or takes it away when there are none.
fn store(call: &mut Call<'_>, members: &Members<'_>, event: &'static str) -> Outcome {
    let (txn, key) = (call.txn, call.args[1]);
    call.reply.integer(members.elements.len() as i64);
    if members.elements.is_empty() {
        if call.remove(key)? {
            call.notify('g', "del", key);
        }
        return Ok(());
    }
    let mut draft = Draft::empty(Encoding::Intset, thresholds(call));
    if members.sorted {
        draft.fill(txn, &members.elements)?;
    } else {
        for member in &members.elements {
            draft.add(txn, &member.bytes(txn)?)?;
        }
    }
    call.put(key, &New::of(Kind::Set, draft.value()))?;
    call.notify('s', event, key);
    Ok(())
}

pub(super) fn sintercard(call: &mut Call<'_>) -> Outcome {
    let number = number::integer(call.args[1])
        .filter(|number| *number > 0)
        .ok_or("ERR numkeys should be greater than 0")?;
    let rest = &call.args[2..];
    if number as u64 > rest.len() as u64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let (keys, mut options) = rest.split_at(number as usize);
    let mut limit = 0;
    while let [word, later @ ..] = options {
        let [value, later @ ..] = later else { return Err(SYNTAX.into()) };
        if !is(word, "LIMIT") {
            return Err(SYNTAX.into());
        }
        limit = number::integer(value).filter(|limit| *limit >= 0).ok_or("ERR LIMIT can't be negative")?;
        options = later;
    }
    let sets = sets(call, keys)?;
    let mut count = 0;
    if sets.iter().all(Option::is_some) {
        intersection(call.txn, &present(&sets), &mut |_| {
            count += 1;
            count != limit
        })?;
    }
    call.reply.integer(count);
    Ok(())
}
