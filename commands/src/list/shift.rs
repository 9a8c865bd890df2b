//! LMOVEM and BLMOVEM: several elements move from one list to another as one change.
//!
//! ```text
//!   source 1 2 3 4, destination x, from the left, 2 elements   to the left     to the right
//!   BULK, in the order that they have in the source            1 2 x           x 1 2
//!   OBO, each one pushed before the next one is popped         2 1 x           x 1 2
//! ```
//! All elements are taken out before the first one is put back, also where source and destination are one list.
use polder_table::Stop;
use polder_values::Kind;
use polder_values::list::Draft;

use super::pop::{announced_bytes, count_of, first_for_us};
use super::{End, Held, find, limit, notify_taken, publish, take};
use polder_calls::call::{Call, Outcome, SYNTAX, is};
use polder_calls::waiting::{Otherwise, Wait, seconds};

/// The number of elements that move, and their order.
#[derive(Clone, Copy)]
struct Amount {
    count: u64,
    /// All of them or none.
    is_exact: bool,
    one_by_one: bool,
}

impl Amount {
    /// Reads what stands behind the ends, and behind the timeout.
    fn read(args: &[&[u8]]) -> Result<Amount, Stop> {
        let [selector, count, order] = *args else {
            let one = Amount { count: 1, is_exact: false, one_by_one: true };
            return if args.is_empty() { Ok(one) } else { Err(SYNTAX.into()) };
        };
        let is_exact = is(selector, "EXACTLY");
        let one_by_one = is(order, "OBO");
        if !is_exact && !is(selector, "COUNT") || !one_by_one && !is(order, "BULK") {
            return Err(SYNTAX.into());
        }
        Ok(Amount { count: count_of(count)?, is_exact, one_by_one })
    }

    fn is_there(self, held: &Held<'_>) -> bool {
        !self.is_exact || held.count >= self.count
    }
}

pub(super) fn lmovem(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (End::of(call.args[3])?, End::of(call.args[4])?);
    let amount = Amount::read(&call.args[5..])?;
    match find(call, call.args[1])?.filter(|held| amount.is_there(held)) {
        Some(held) => shift(call, &held, from, to, amount),
        None if amount.is_exact => {
            call.reply.null_array();
            Ok(())
        }
        None => {
            call.reply.array(0);
            Ok(())
        }
    }
}

pub(super) fn blmovem(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (End::of(call.args[3])?, End::of(call.args[4])?);
    let amount = Amount::read(&call.args[6..])?;
    let timeout_ms = seconds(call.args[5])?;
    let keys = &call.args[1..2];
    let mut yields = false;
    let (held, kind) = if amount.is_exact {
        // It may stay while the list holds something, so it stands in no line with those that take what there is: it waits with the readers
        // of streams, which try again at each change.
        (find(call, keys[0])?.filter(|held| amount.is_there(held)), Kind::Stream)
    } else {
        (first_for_us(call, keys, &mut yields)?.map(|(_, held)| held), Kind::List)
    };
    match held {
        Some(held) => shift(call, &held, from, to, amount),
        None => call.wait(Wait {
            holds: Kind::List,
            yields,
            ..Wait::of(kind, keys, timeout_ms, Otherwise::NullArray)
        }),
    }
}

/// Moves elements, and replies with them in the order that they have in the destination.
fn shift(call: &mut Call<'_>, held: &Held<'_>, from: End, to: End, amount: Amount) -> Outcome {
    let (source, target) = (call.args[1], call.args[2]);
    let is_one_list = source == target;
    let other = if is_one_list { Some(*held) } else { find(call, target)? };
    let count = amount.count.min(held.count);
    let rank = from.rank(count, held.count);
    let mut moved = Vec::new();
    for element in held.elements.iter(call.txn, rank).take(count as usize) {
        moved.push(element?.bytes(call.txn)?.into_owned());
    }
    if amount.one_by_one && from == to {
        moved.reverse();
    }
    call.reply.array(moved.len());
    moved.iter().for_each(|element| call.reply.bulk(element));
    let mut draft = other.map_or_else(Draft::empty, |other| other.draft());
    if is_one_list {
        draft.remove(call.txn, rank, count)?;
    }
    let bytes = moved.iter().map(|element| announced_bytes(element)).sum();
    draft.expect(call.txn, limit(call), count, bytes)?;
    match to {
        End::Left => draft.extend_front(call.txn, moved.iter().rev().map(|element| &element[..]))?,
        End::Right => draft.extend(call.txn, moved.iter().map(|element| &element[..]))?,
    }
    if is_one_list {
        draft.settle(call.txn, limit(call))?;
    }
    publish(call, target, other.as_ref(), &mut draft)?;
    tell(call, from, to, &moved, is_one_list && count == held.count);
    call.notify('l', to.events().0, target);
    if is_one_list {
        call.notify('l', from.events().1, source);
        return Ok(());
    }
    take(call, source, held, rank, count)?;
    notify_taken(call, from.events().1, source, held, count);
    Ok(())
}

/// Says it in words that older servers know. `is_whole_list`: all elements of a list are taken out and put back, so they are put back first. Else
/// the key would go, and its expiry with it.
fn tell(call: &Call<'_>, from: End, to: End, moved: &[Vec<u8>], is_whole_list: bool) {
    if !call.tells_itself() {
        return;
    }
    let (source, target) = (call.args[1], call.args[2]);
    let count = moved.len().to_string();
    let pop = |end: End| call.tell(&[end.pop(), source, count.as_bytes()]);
    if !is_whole_list {
        pop(from);
    }
    let mut words: Vec<&[u8]> = moved.iter().map(|element| &element[..]).collect();
    if to == End::Left {
        words.reverse();
    }
    call.tell_many(&[to.push(), target], &words);
    if is_whole_list {
        pop(to.opposite());
    }
}
