//! SINTER, SUNION, SDIFF and what stores their results.
use polder_base::number;
use polder_table::{Found, New, Stop};
use polder_values::Kind;
use polder_values::hyperloglog::{self, Sketch};
use polder_values::sequence::{Element, Sequence};
use polder_values::set::algebra::{difference, intersection, union};
use polder_values::set::{Draft, Encoding};

use super::thresholds;
use crate::collection::reply_element;
use crate::hyperloglog::corrupt;
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

/// A way to combine sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    /// The first one without what any other one has.
    Difference,
}

/// Members of a result, and whether they come in the order of a set's tree; else they come as the sets show them.
#[derive(Default)]
struct Members<'a> {
    elements: Vec<Element<'a>>,
    sorted: bool,
}

impl Operation {
    /// Shows the members of the result, until `visit` returns false. Returns whether they come in the order of a set's tree.
    fn each<'c>(
        self,
        call: &Call<'c>,
        sets: &[Option<Found<'c>>],
        visit: &mut dyn FnMut(Element<'c>) -> bool,
    ) -> Result<bool, Stop> {
        Ok(match (self, sets) {
            (Operation::Intersection, _) if sets.iter().any(Option::is_none) => false,
            (Operation::Intersection, _) => intersection(call.txn, &present(sets), visit)?,
            (Operation::Union, _) => union(call.txn, &present(sets), visit)?,
            (Operation::Difference, [Some(first), others @ ..]) => {
                difference(call.txn, &Sequence::of(&first.value), &present(others), visit)?
            }
            (Operation::Difference, _) => false,
        })
    }

    fn members<'c>(self, call: &Call<'c>, keys: &[&[u8]]) -> Result<Members<'c>, Stop> {
        let sets = sets(call, keys)?;
        let mut members = Members::default();
        members.sorted = self.each(call, &sets, &mut |element| {
            members.elements.push(element);
            true
        })?;
        Ok(members)
    }
}

pub(super) fn sinter(call: &mut Call<'_>) -> Outcome {
    answer(call, Operation::Intersection)
}

pub(super) fn sunion(call: &mut Call<'_>) -> Outcome {
    answer(call, Operation::Union)
}

pub(super) fn sdiff(call: &mut Call<'_>) -> Outcome {
    answer(call, Operation::Difference)
}

fn answer(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let members = operation.members(call, &call.args[1..])?;
    call.reply.set(members.elements.len());
    members.elements.iter().try_for_each(|member| reply_element(call.reply, call.txn, member))
}

pub(super) fn sinterstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Intersection, "sinterstore")
}

pub(super) fn sunionstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Union, "sunionstore")
}

pub(super) fn sdiffstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Difference, "sdiffstore")
}

/// Makes the destination a set of the result's members, or takes it away when there are none.
fn store(call: &mut Call<'_>, operation: Operation, event: &'static str) -> Outcome {
    let members = operation.members(call, &call.args[2..])?;
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
    call.replace(key, &New::of(Kind::Set, draft.value()))?;
    call.notify('s', event, key);
    Ok(())
}

/// Arguments of SINTERCARD and its like, read.
struct Counted<'a> {
    keys: &'a [&'a [u8]],
    /// 0: none.
    limit: i64,
    is_estimate: bool,
}

impl<'a> Counted<'a> {
    fn read(args: &'a [&'a [u8]], operation: Operation) -> Result<Counted<'a>, Stop> {
        let number = number::integer(args[1])
            .filter(|number| *number > 0)
            .ok_or("ERR numkeys should be greater than 0")?;
        let rest = &args[2..];
        if number as u64 > rest.len() as u64 {
            return Err("ERR Number of keys can't be greater than number of args".into());
        }
        let (keys, mut options) = rest.split_at(number as usize);
        let mut counted = Counted { keys, limit: 0, is_estimate: false };
        while let [word, later @ ..] = options {
            if operation == Operation::Union && is(word, "APPROX") {
                (counted.is_estimate, options) = (true, later);
                continue;
            }
            let [value, later @ ..] = later else { return Err(SYNTAX.into()) };
            if !is(word, "LIMIT") {
                return Err(SYNTAX.into());
            }
            counted.limit =
                number::integer(value).filter(|limit| *limit >= 0).ok_or("ERR LIMIT can't be negative")?;
            options = later;
        }
        Ok(counted)
    }
}

pub(super) fn sintercard(call: &mut Call<'_>) -> Outcome {
    count(call, Operation::Intersection)
}

pub(super) fn sunioncard(call: &mut Call<'_>) -> Outcome {
    count(call, Operation::Union)
}

pub(super) fn sdiffcard(call: &mut Call<'_>) -> Outcome {
    count(call, Operation::Difference)
}

/// Replies with the number of members of the result.
fn count(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let Counted { keys, limit, is_estimate } = Counted::read(call.args, operation)?;
    let sets = sets(call, keys)?;
    let mut count = 0;
    if is_estimate {
        count = estimate(call, &sets)?;
        if limit > 0 {
            count = count.min(limit);
        }
    } else {
        operation.each(call, &sets, &mut |_| {
            count += 1;
            count != limit
        })?;
    }
    call.reply.integer(count);
    Ok(())
}

/// About how many members the union has, within 0.81 %: by a HyperLogLog, without looking for equal members.
fn estimate(call: &Call<'_>, sets: &[Option<Found<'_>>]) -> Result<i64, Stop> {
    let mut sketch = Sketch::default();
    sketch.make_dense().map_err(corrupt)?;
    for members in present(sets) {
        for member in members.iter(call.txn, 0) {
            sketch.add(&member?.bytes(call.txn)?, 0).map_err(corrupt)?;
        }
    }
    Ok(hyperloglog::count(sketch.bytes()).map_err(corrupt)? as i64)
}
