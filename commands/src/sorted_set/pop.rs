//! What takes members from either end: ZPOPMIN, ZPOPMAX, ZMPOP and the commands that wait for something to take.
use polder_base::number;
use polder_table::{Found, Stop};
use polder_values::Kind;

use super::range::{begin_entries, begin_entry, each};
use super::remove::take_out;
use super::{find, reply_score_of, set_of};
use crate::string::number_mode;
use polder_calls::call::{Call, Outcome, SYNTAX, is};
use polder_calls::waiting::{Otherwise, Wait, seconds};

/// The end that members are taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

impl End {
    fn read(arg: &[u8]) -> Result<End, Stop> {
        match arg {
            word if is(word, "MIN") => Ok(End::Min),
            word if is(word, "MAX") => Ok(End::Max),
            _ => Err(SYNTAX.into()),
        }
    }

    /// The ranks of the `count` members at this end of `size`.
    fn ranks(self, size: u64, count: u64) -> (u64, u64) {
        let count = count.min(size);
        match self {
            End::Min => (0, count),
            End::Max => (size - count, size),
        }
    }

    fn event(self) -> &'static str {
        match self {
            End::Min => "zpopmin",
            End::Max => "zpopmax",
        }
    }
}

/// How popped members are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    /// Member, score, member, score.
    Flat,
    /// The same in RESP2, pairs in RESP3.
    Entries,
    /// Pairs.
    Pairs,
}

/// Takes up to `count` members from one end of a set, and replies with them.
fn pop(call: &mut Call<'_>, key: &[u8], found: Found<'_>, end: End, count: u64, show: Show) -> Outcome {
    let mode = number_mode(call.settings);
    let found = Some(found);
    let set = set_of(&found);
    let (from, upto) = end.ranks(set.count()?, count);
    let taken = (upto - from) as usize;
    match show {
        Show::Flat => {}
        Show::Entries => begin_entries(call.reply, taken, true),
        Show::Pairs => call.reply.array(taken),
    }
    each(&set, call.txn, (from, upto), end == End::Max, |entry| {
        match show {
            Show::Flat => {}
            Show::Entries => begin_entry(call.reply, true),
            Show::Pairs => call.reply.array(2),
        }
        call.reply.bulk(entry.member());
        reply_score_of(call.reply, mode, &entry);
    })?;
    take_out(call, key, found, (from, upto), end.event())?;
    if call.tells_itself() {
        call.tell(&[end.event().to_ascii_uppercase().as_bytes(), key, taken.to_string().as_bytes()]);
    }
    Ok(())
}

pub(super) fn zpopmin(call: &mut Call<'_>) -> Outcome {
    pop_one_key(call, End::Min)
}

pub(super) fn zpopmax(call: &mut Call<'_>) -> Outcome {
    pop_one_key(call, End::Max)
}

pub(super) fn zpopmin_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    pop_many(call, calls, End::Min)
}

pub(super) fn zpopmax_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    pop_many(call, calls, End::Max)
}

/// Pops for as many calls as ask for one member, all members at once.
fn pop_many(call: &mut Call<'_>, calls: &[&[&[u8]]], end: End) -> Result<usize, Stop> {
    let (key, mode) = (call.args[1], number_mode(call.settings));
    let many = calls.iter().take_while(|args| args.len() == 2).count();
    let found = find(call, key)?;
    let set = set_of(&found);
    let (from, upto) = end.ranks(set.count()?, many as u64);
    each(&set, call.txn, (from, upto), end == End::Max, |entry| {
        call.reply.array(2);
        call.reply.bulk(entry.member());
        reply_score_of(call.reply, mode, &entry);
    })?;
    let there = (upto - from) as usize;
    (1..there).for_each(|_| call.notify('z', end.event(), key));
    take_out(call, key, found, (from, upto), end.event())?;
    (there..many).for_each(|_| call.reply.array(0));
    Ok(many)
}

fn pop_one_key(call: &mut Call<'_>, end: End) -> Outcome {
    let key = call.args[1];
    let count = match &call.args[2..] {
        [] => None,
        [count] => {
            let count = number::integer(count).and_then(|count| u64::try_from(count).ok());
            Some(count.ok_or("ERR value is out of range, must be positive")?)
        }
        _ => return Err(SYNTAX.into()),
    };
    match (find(call, key)?, count) {
        (None, _) | (_, Some(0)) => call.reply.array(0),
        (Some(found), None) => {
            call.reply.array(2);
            pop(call, key, found, end, 1, Show::Flat)?;
        }
        (Some(found), Some(count)) => pop(call, key, found, end, count, Show::Entries)?,
    }
    Ok(())
}

/// The first of these keys that is there.
fn first_there<'c, 'k>(call: &Call<'c>, keys: &[&'k [u8]]) -> Result<Option<(&'k [u8], Found<'c>)>, Stop> {
    for key in keys {
        if let Some(found) = find(call, key)? {
            return Ok(Some((key, found)));
        }
    }
    Ok(None)
}

/// `numkeys key [key ...] <MIN|MAX> [COUNT count]`.
struct Several<'a> {
    keys: &'a [&'a [u8]],
    end: End,
    count: u64,
}

impl<'a> Several<'a> {
    fn read(args: &'a [&'a [u8]]) -> Result<Several<'a>, Stop> {
        let positive =
            |arg: &[u8]| number::integer(arg).filter(|number| *number > 0).map(|number| number as u64);
        let numkeys = positive(args[0]).ok_or("ERR numkeys should be greater than 0")?;
        let numkeys =
            usize::try_from(numkeys).ok().filter(|numkeys| *numkeys < args.len() - 1).ok_or(SYNTAX)?;
        let (keys, rest) = args[1..].split_at(numkeys);
        let end = End::read(rest[0])?;
        let count = match &rest[1..] {
            [] => 1,
            [word, count] if is(word, "COUNT") => {
                positive(count).ok_or("ERR count should be greater than 0")?
            }
            [word, count, ..] if is(word, "COUNT") => {
                positive(count).ok_or("ERR count should be greater than 0")?;
                return Err(SYNTAX.into());
            }
            _ => return Err(SYNTAX.into()),
        };
        Ok(Several { keys, end, count })
    }

    /// Pops from a key if it is there. Returns whether it was.
    fn pop(&self, call: &mut Call<'_>, there: Option<(&[u8], Found<'_>)>) -> Result<bool, Stop> {
        let Some((key, found)) = there else { return Ok(false) };
        call.reply.array(2);
        call.reply.bulk(key);
        pop(call, key, found, self.end, self.count, Show::Pairs)?;
        Ok(true)
    }
}

pub(super) fn zmpop(call: &mut Call<'_>) -> Outcome {
    let several = Several::read(&call.args[1..])?;
    let there = first_there(call, several.keys)?;
    if !several.pop(call, there)? {
        call.reply.null_array();
    }
    Ok(())
}

pub(super) fn wait_for_several(call: &mut Call<'_>) -> Outcome {
    let several = Several::read(&call.args[2..])?;
    let timeout_ms = seconds(call.args[1])?;
    let mut yields = false;
    let there = call.first_for_us(Kind::SortedSet, several.keys, &mut yields, find)?;
    if several.pop(call, there)? {
        return Ok(());
    }
    wait(call, several.keys, timeout_ms, yields)
}

pub(super) fn wait_for_min(call: &mut Call<'_>) -> Outcome {
    wait_for_one(call, End::Min)
}

pub(super) fn wait_for_max(call: &mut Call<'_>) -> Outcome {
    wait_for_one(call, End::Max)
}

fn wait_for_one(call: &mut Call<'_>, end: End) -> Outcome {
    let last = call.args.len() - 1;
    let timeout_ms = seconds(call.args[last])?;
    let keys = &call.args[1..last];
    let mut yields = false;
    match call.first_for_us(Kind::SortedSet, keys, &mut yields, find)? {
        Some((key, found)) => {
            call.reply.array(3);
            call.reply.bulk(key);
            pop(call, key, found, end, 1, Show::Flat)
        }
        None => wait(call, keys, timeout_ms, yields),
    }
}

fn wait(call: &mut Call<'_>, keys: &[&[u8]], timeout_ms: u64, yields: bool) -> Outcome {
    call.wait(Wait { yields, ..Wait::of(Kind::SortedSet, keys, timeout_ms, Otherwise::NullArray) })
}
