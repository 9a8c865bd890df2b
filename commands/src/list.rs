//! Lists: sequences with two open ends.
//!
//! How a list is laid out is `values::sequence`'s business. Elements are answered straight from the nodes, and before anything
//! is changed: what has been looked at is not looked at again after an edit.
use polder_base::number;
use polder_table::{Found, New, Stop};
use polder_values::list::{Draft, Limit};
use polder_values::sequence::Sequence;
use polder_values::{Kind, list};

use crate::collection::{reply_element, reply_elements};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};
use polder_calls::command::{BLOCKING, Command, FAST, GROWS, read, write};
use polder_calls::facts::Tells::{Own, Verbatim};
use polder_calls::settings::id;

mod edit;
mod pop;
mod quick;
mod search;
mod shift;

const MOVES: &str = "`LPOP source count` or `RPOP source count`, then `LPUSH destination element ...` or `RPUSH destination element ...`; the other way round for a whole list that stays where it is";

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("BLMOVE", "source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout", pop::blmove)
        .tells(Own("`LMOVE source destination side side`"))
        .with(GROWS | BLOCKING)
        .touches(&["RW access delete", "RW insert"])
        .since("6.2.0")
        .about("Pops an element from a list, pushes it to another list and returns it. Waits until there is one."),
    write("BLMOVEM", "source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout [<COUNT count|EXACTLY exactly> <OBO|BULK>]", shift::blmovem)
        .tells(Own(MOVES))
        .with(GROWS | BLOCKING)
        .touches(&["RW access delete", "RW insert"])
        .since("8.10.0")
        .costs("O(N) where N is the number of elements moved.")
        .about("Moves up to a number of elements, or exactly that many, from one list to another and returns them. Waits until there are any, or enough."),
    write("BLMPOP", "timeout numkeys key [key ...] <LEFT|RIGHT> [COUNT count]", pop::blmpop)
        .tells(Own("`LPOP key count`, `RPOP key count`"))
        .with(BLOCKING)
        .touches(&["RW access delete"])
        .since("7.0.0")
        .costs("O(K + log(N) + M) where K is the number of keys, N the length of the list and M the number of elements returned.")
        .about("Pops the first elements from one of several lists. Waits until there are some."),
    write("BLPOP", "key [key ...] timeout", pop::blpop)
        .tells(Own("`LPOP key count`, `RPOP key count`"))
        .with(BLOCKING)
        .touches(&["RW access delete"])
        .since("2.0.0")
        .costs("O(K) where K is the number of keys.")
        .changed(&[("6.0.0", "The timeout may have decimals.")])
        .about("Removes and returns the first element of one of several lists. Waits until there is one."),
    write("BRPOP", "key [key ...] timeout", pop::brpop)
        .tells(Own("`LPOP key count`, `RPOP key count`"))
        .with(BLOCKING)
        .touches(&["RW access delete"])
        .since("2.0.0")
        .costs("O(K) where K is the number of keys.")
        .changed(&[("6.0.0", "The timeout may have decimals.")])
        .about("Removes and returns the last element of one of several lists. Waits until there is one."),
    write("BRPOPLPUSH", "source destination timeout", pop::brpoplpush)
        .tells(Own("`LMOVE source destination RIGHT LEFT`"))
        .with(GROWS | BLOCKING)
        .touches(&["RW access delete", "RW insert"])
        .since("2.2.0")
        .changed(&[("6.0.0", "The timeout may have decimals.")])
        .replaced("6.2.0", "`BLMOVE` with `RIGHT` and `LEFT`")
        .about("Pops an element from a list, pushes it to another list and returns it. Waits until there is one."),
    read("LINDEX", "key index", search::lindex)
        .many(search::lindex_many)
        .costs("O(log(N)) where N is the length of the list.")
        .about("Returns an element from a list by its index."),
    write("LINSERT", "key <BEFORE|AFTER> pivot element", edit::linsert)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["RW insert"])
        .since("2.2.0")
        .costs("O(N) where N is the number of elements to look at before the pivot is seen.")
        .about("Inserts an element before or after another element in a list."),
    read("LLEN", "key", search::llen).with(FAST).touches(&["RO"]).about("Returns the length of a list."),
    write("LMOVE", "source destination <LEFT|RIGHT> <LEFT|RIGHT>", pop::lmove)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["RW access delete", "RW insert"])
        .since("6.2.0")
        .about("Returns an element after popping it from one list and pushing it to another."),
    write("LMOVEM", "source destination <LEFT|RIGHT> <LEFT|RIGHT> [<COUNT count|EXACTLY exactly> <OBO|BULK>]", shift::lmovem)
        .tells(Own(MOVES))
        .with(GROWS)
        .touches(&["RW access delete", "RW insert"])
        .since("8.10.0")
        .costs("O(N) where N is the number of elements moved.")
        .about("Moves up to a number of elements, or exactly that many, from one list to another and returns them."),
    write("LMPOP", "numkeys key [key ...] <LEFT|RIGHT> [COUNT count]", pop::lmpop)
        .tells(Own("`LPOP key count`, `RPOP key count`"))
        .touches(&["RW access delete"])
        .since("7.0.0")
        .costs("O(K + log(N) + M) where K is the number of keys, N the length of the list and M the number of elements returned.")
        .about("Returns multiple elements from a list after removing them."),
    write("LPOP", "key [count]", pop::lpop)
        .tells(Verbatim)
        .with(FAST)
        .touches(&["RW access delete"])
        .costs("O(log(N) + M) where N is the length of the list and M the number of elements returned.")
        .quick(quick::lpop)
        .many(pop::lpop_many)
        .changed(&[("6.2.0", "Takes `count`.")])
        .about("Returns and removes one or more elements from the beginning of a list."),
    read("LPOS", "key element [RANK rank] [COUNT num-matches] [MAXLEN len]", search::lpos)
        .since("6.0.6")
        .costs("O(N) where N is the number of elements looked at.")
        .about("Returns the index of matching elements in a list."),
    write("LPUSH", "key element [element ...]", edit::lpush)
        .tells(Verbatim)
        .with(GROWS | FAST)
        .touches(&["RW insert"])
        .costs("O(M) where M is the number of elements pushed.")
        .quick(quick::lpush)
        .many(edit::lpush_many)
        .changed(&[("2.4.0", "Several of `element` may be given.")])
        .about("Prepends one or more elements to a list. Creates the key if it doesn't exist."),
    write("LPUSHX", "key element [element ...]", edit::lpushx)
        .tells(Verbatim)
        .with(GROWS | FAST)
        .touches(&["RW insert"])
        .since("2.2.0")
        .costs("O(M) where M is the number of elements pushed.")
        .changed(&[("4.0.0", "Several of `element` may be given.")])
        .about("Prepends one or more elements to a list only when the list exists."),
    read("LRANGE", "key start stop", search::lrange)
        .costs("O(log(N) + M) where N is the length of the list and M the number of elements returned.")
        .about("Returns a range of elements from a list."),
    write("LREM", "key count element", edit::lrem)
        .tells(Verbatim)
        .touches(&["RW delete"])
        .costs("O(N + M log(N)) where N is the length of the list and M the number of elements removed.")
        .about("Removes elements from a list. Deletes the list if the last element was removed."),
    write("LSET", "key index element", edit::lset)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["RW update"])
        .costs("O(log(N)) where N is the length of the list.")
        .about("Sets the value of an element in a list by its index."),
    write("LTRIM", "key start stop", edit::ltrim)
        .tells(Verbatim)
        .touches(&["RW delete"])
        .costs("O(log(N) + M) where N is the length of the list and M the number of nodes that go.")
        .about("Removes elements from both ends of a list. Deletes the list if all elements were trimmed."),
    write("RPOP", "key [count]", pop::rpop)
        .tells(Verbatim)
        .with(FAST)
        .touches(&["RW access delete"])
        .costs("O(log(N) + M) where N is the length of the list and M the number of elements returned.")
        .quick(quick::rpop)
        .many(pop::rpop_many)
        .changed(&[("6.2.0", "Takes `count`.")])
        .about("Returns and removes one or more elements from the end of a list."),
    write("RPOPLPUSH", "source destination", pop::rpoplpush)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["RW access delete", "RW insert"])
        .since("1.2.0")
        .replaced("6.2.0", "`LMOVE` with `RIGHT` and `LEFT`")
        .about("Returns the last element of a list after removing and pushing it to another list."),
    write("RPUSH", "key element [element ...]", edit::rpush)
        .tells(Verbatim)
        .with(GROWS | FAST)
        .touches(&["RW insert"])
        .costs("O(M) where M is the number of elements pushed.")
        .quick(quick::rpush)
        .many(edit::rpush_many)
        .changed(&[("2.4.0", "Several of `element` may be given.")])
        .about("Appends one or more elements to a list. Creates the key if it doesn't exist."),
    write("RPUSHX", "key element [element ...]", edit::rpushx)
        .tells(Verbatim)
        .with(GROWS | FAST)
        .touches(&["RW insert"])
        .since("2.2.0")
        .costs("O(M) where M is the number of elements pushed.")
        .changed(&[("4.0.0", "Several of `element` may be given.")])
        .about("Appends one or more elements to a list only when the list exists."),
];

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Left,
    Right,
}

impl End {
    fn of(arg: &[u8]) -> Result<End, Stop> {
        match arg {
            _ if is(arg, "LEFT") => Ok(End::Left),
            _ if is(arg, "RIGHT") => Ok(End::Right),
            _ => Err(SYNTAX.into()),
        }
    }

    /// The word that names it, and the command that pops there.
    fn word(self) -> &'static [u8] {
        match self {
            End::Left => b"LEFT",
            End::Right => b"RIGHT",
        }
    }

    fn pop(self) -> &'static [u8] {
        match self {
            End::Left => b"LPOP",
            End::Right => b"RPOP",
        }
    }

    fn opposite(self) -> End {
        match self {
            End::Left => End::Right,
            End::Right => End::Left,
        }
    }

    fn push(self) -> &'static [u8] {
        match self {
            End::Left => b"LPUSH",
            End::Right => b"RPUSH",
        }
    }

    /// What listeners are told of a push and of a pop at this end.
    fn events(self) -> (&'static str, &'static str) {
        match self {
            End::Left => ("lpush", "lpop"),
            End::Right => ("rpush", "rpop"),
        }
    }

    /// Where the first `count` elements from this end begin, in a list of `total`.
    fn rank(self, count: u64, total: u64) -> u64 {
        match self {
            End::Left => 0,
            End::Right => total - count,
        }
    }
}

/// A list that is there.
#[derive(Clone, Copy)]
struct Held<'c> {
    found: Found<'c>,
    elements: Sequence<'c>,
    count: u64,
}

/// The list that a key holds, if it is there.
///
/// # Errors
/// WRONGTYPE when it holds something else.
fn find<'c>(call: &Call<'c>, key: &[u8]) -> Result<Option<Held<'c>>, Stop> {
    let Some(found) = call.find_kind(key, Kind::List)? else { return Ok(None) };
    let elements = list::sequence(&found.value);
    Ok(Some(Held { found, elements, count: elements.count()? }))
}

impl Held<'_> {
    fn draft(&self) -> Draft {
        Draft::of(&self.found.value)
    }

    /// The rank that an index means: negative ones count from the end.
    fn rank(&self, index: i64) -> Option<u64> {
        let rank = if index < 0 { index.checked_add(self.count as i64)? } else { index };
        u64::try_from(rank).ok().filter(|rank| *rank < self.count)
    }
}

/// Where a range (both ends included, negative ones counted from the end) lies among `count` elements: the first rank and the one
/// after the last. An end before the first element is no element, other than in strings.
fn range(start: i64, stop: i64, count: u64) -> (u64, u64) {
    let count = count as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(count) } else { at };
    let (start, stop) = (place(start).max(0), place(stop).min(count - 1));
    if start > stop { (0, 0) } else { (start as u64, stop as u64 + 1) }
}

/// The setting `list-max-listpack-size`.
fn limit(call: &Call<'_>) -> Limit {
    Limit::of(call.settings.number(const { id("list-max-listpack-size") }))
}

/// Publishes what has become of a list; a new one when nothing was found.
fn publish(call: &Call<'_>, key: &[u8], held: Option<&Held<'_>>, draft: &mut Draft) -> Outcome {
    let value = draft.value(call.txn)?;
    match held {
        Some(held) => call.edit(key, &New { value, ..New::from(held.found) }),
        None => call.put(key, &New::of(Kind::List, value)),
    }
}

/// Takes elements out of a list; a list that loses its last one is gone.
fn take(call: &Call<'_>, key: &[u8], held: &Held<'_>, rank: u64, count: u64) -> Outcome {
    if count == held.count {
        return call.remove(key).map(drop);
    }
    let mut draft = held.draft();
    draft.remove(call.txn, rank, count)?;
    draft.settle(call.txn, limit(call))?;
    publish(call, key, Some(held), &mut draft)
}

/// Tells that elements have been taken out, and that the key is gone if they were all.
fn notify_taken(call: &Call<'_>, event: &'static str, key: &[u8], held: &Held<'_>, count: u64) {
    call.notify('l', event, key);
    if count == held.count {
        call.notify('g', "del", key);
    }
}

/// Replies with `count` elements from an end on, the one at the end first.
fn reply_each(call: &mut Call<'_>, held: &Held<'_>, end: End, count: u64) -> Outcome {
    let nodes = call.txn;
    match end {
        End::Left => reply_elements(call.reply, nodes, &held.elements, 0, count)?,
        End::Right => {
            for element in held.elements.iter_back(nodes, held.count - 1).take(count as usize) {
                reply_element(call.reply, nodes, &element?)?;
            }
        }
    }
    Ok(())
}

/// A whole number that may not be negative; `refusal` is what is said of anything else.
fn positive(arg: &[u8], refusal: &'static str) -> Result<u64, Stop> {
    number::integer(arg).and_then(|number| u64::try_from(number).ok()).ok_or_else(|| refusal.into())
}

/// A whole number whose sign is a direction: each has an opposite.
fn reversible(arg: &[u8]) -> Result<i64, Stop> {
    match integer(arg)? {
        i64::MIN => {
            Err("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
                .into())
        }
        number => Ok(number),
    }
}
