//! Sets: members under one key. Random picks and walks have a file of their own, as has the algebra of several sets.
use polder_table::{Found, New, Replaces, Stop};
use polder_values::Kind;
use polder_values::sequence::Sequence;
use polder_values::set::{Draft, Thresholds, by_number, contains, contains_all, find};

use crate::collection::{named, reply_element, reply_elements};
use polder_calls::call::{Call, Outcome, WRONG_TYPE};
use polder_calls::command::{Command, FAST, GROWS, read, write};
use polder_calls::facts::Tells::{Own, Verbatim};
use polder_calls::settings::{Settings, id};

mod algebra;
mod quick;
mod walk;

const LOOKS: &[&str] = &["RO"];
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const RANDOM: &[&str] = &["nondeterministic_output"];

const EACH: &str = "O(N*log(M)) where N is the number of members given and M that of the set's.";
const LOG: &str = "O(log(N)) where N is the number of members.";
const INTERSECTS: &str =
    "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.";
const COMBINES: &str = "O(N) where N is the total number of elements in all given sets.";

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("SADD", "key member [member ...]", sadd)
        .tells(Verbatim)
        .with(GROWS | FAST)
        .touches(&["RW insert"])
        .costs(EACH)
        .quick(quick::sadd)
        .many(sadd_many)
        .changed(&[("2.4.0", "Several of `member` may be given.")])
        .about("Adds one or more members to a set. Creates the key if it doesn't exist."),
    read("SCARD", "key", scard).with(FAST).touches(LOOKS).about("Returns the number of members in a set."),
    read("SDIFF", "key [key ...]", algebra::sdiff).tips(UNORDERED).costs(COMBINES).about("Returns the difference of multiple sets."),
    read("SDIFFCARD", "numkeys key [key ...] [LIMIT limit]", algebra::sdiffcard)
        .since("8.10.0")
        .costs(COMBINES)
        .about("Returns the number of members of the difference of multiple sets."),
    write("SDIFFSTORE", "destination key [key ...]", algebra::sdiffstore)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["OW update", "RO access"])
        .costs(COMBINES)
        .about("Stores the difference of multiple sets in a key."),
    read("SINTER", "key [key ...]", algebra::sinter).tips(UNORDERED).costs(INTERSECTS).about("Returns the intersect of multiple sets."),
    read("SINTERCARD", "numkeys key [key ...] [LIMIT limit]", algebra::sintercard)
        .since("7.0.0")
        .costs(INTERSECTS)
        .about("Returns the number of members of the intersect of multiple sets."),
    write("SINTERSTORE", "destination key [key ...]", algebra::sinterstore)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["RW update", "RO access"])
        .costs(INTERSECTS)
        .about("Stores the intersect of multiple sets in a key."),
    read("SISMEMBER", "key member", sismember)
        .with(FAST)
        .touches(LOOKS)
        .costs(LOG)
        .many(sismember_many)
        .about("Determines whether a member belongs to a set."),
    read("SMEMBERS", "key", smembers).tips(UNORDERED).costs("O(N) where N is the set cardinality.").about("Returns all members of a set."),
    read("SMISMEMBER", "key member [member ...]", smismember)
        .with(FAST)
        .since("6.2.0")
        .costs(EACH)
        .about("Determines whether multiple members belong to a set."),
    write("SMOVE", "source destination member", smove)
        .tells(Verbatim)
        .with(FAST)
        .touches(&["RW access delete", "RW insert"])
        .costs(LOG)
        .about("Moves a member from one set to another."),
    write("SPOP", "key [count]", walk::spop)
        .tells(Own("`SREM key member ...`; `DEL key` where none is left"))
        .with(FAST)
        .touches(&["RW access delete"])
        .tips(RANDOM)
        .costs("O(N*log(M)) where N is the number of members returned and M that of the set's.")
        .quick(quick::spop)
        .many(walk::spop_many)
        .changed(&[("3.2.0", "Takes `count`.")])
        .about("Returns one or more random members from a set after removing them. Deletes the set if the last member was popped."),
    read("SRANDMEMBER", "key [count]", walk::srandmember)
        .tips(RANDOM)
        .costs("O(N*log(M)) where N is the number of members returned and M that of the set's.")
        .changed(&[("2.6.0", "Takes `count`.")])
        .about("Returns one or more random members from a set."),
    write("SREM", "key member [member ...]", srem)
        .quick(quick::srem)
        .shares_key()
        .tells(Verbatim)
        .with(FAST)
        .touches(&["RW delete"])
        .costs(EACH)
        .changed(&[("2.4.0", "Several of `member` may be given.")])
        .about("Removes one or more members from a set. Deletes the set if the last member was removed."),
    read("SSCAN", "key cursor [MATCH pattern] [COUNT count]", walk::sscan)
        .tips(RANDOM)
        .since("2.8.0")
        .costs("O(log(N)) for every call. O(N) for a complete iteration.")
        .about("Iterates over members of a set."),
    read("SUNION", "key [key ...]", algebra::sunion).tips(UNORDERED).costs(COMBINES).about("Returns the union of multiple sets."),
    read("SUNIONCARD", "numkeys key [key ...] [APPROX] [LIMIT limit]", algebra::sunioncard)
        .since("8.10.0")
        .costs(COMBINES)
        .about("Returns the number of members of the union of multiple sets, or about that number."),
    write("SUNIONSTORE", "destination key [key ...]", algebra::sunionstore)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["OW update", "RO access"])
        .costs(COMBINES)
        .about("Stores the union of multiple sets in a key."),
];

/// Up to where OBJECT ENCODING calls a set small.
pub(crate) fn thresholds(call: &Call<'_>) -> Thresholds {
    thresholds_of(call.settings)
}

fn thresholds_of(settings: &Settings) -> Thresholds {
    Thresholds {
        intset_entries: settings.number(const { id("set-max-intset-entries") }) as u64,
        entries: settings.number(const { id("set-max-listpack-entries") }) as u64,
        value: settings.number(const { id("set-max-listpack-value") }) as u64,
    }
}

/// The members of the set that a key holds; none without the key.
fn open<'c>(call: &Call<'c>, key: &[u8]) -> Result<Option<Sequence<'c>>, Stop> {
    Ok(call.find_kind(key, Kind::Set)?.map(|found| Sequence::of(&found.value)))
}

/// Publishes what has become of a set. Returns whether it is empty now and its key gone.
fn publish(call: &Call<'_>, key: &[u8], found: Option<Found<'_>>, draft: &mut Draft) -> Result<bool, Stop> {
    if draft.count()? == 0 {
        // The draft has released the nodes.
        call.txn.remove(call.db(), key, Replaces::Edited)?;
        return Ok(true);
    }
    let value = draft.value();
    let old = found.map_or(New::of(Kind::Set, value), New::from);
    call.edit(key, &New { value, ..old })?;
    Ok(false)
}

fn sadd(call: &mut Call<'_>) -> Outcome {
    let (txn, key, members, thresholds) = (call.txn, call.args[1], &call.args[2..], thresholds(call));
    let found = call.find_kind(key, Kind::Set)?;
    let mut draft = match &found {
        Some(found) => Draft::of(&found.value, thresholds),
        None => Draft::for_members(members[0], members.len() as u64, thresholds),
    };
    draft.expect(members.len() as u64);
    let mut added = 0;
    for member in members {
        added += i64::from(draft.add(txn, member)?);
    }
    if added > 0 {
        publish(call, key, found, &mut draft)?;
        call.notify('s', "sadd", key);
    }
    call.reply.integer(added);
    Ok(())
}

/// Adds to a set that is there.
fn sadd_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let (txn, key) = (call.txn, call.args[1]);
    let Some(found) = call.find_kind(key, Kind::Set)? else { return Ok(0) };
    let (mut draft, mut changed) = (Draft::of(&found.value, thresholds(call)), false);
    let members: Vec<&[u8]> = calls.iter().flat_map(|args| &args[2..]).copied().collect();
    let new = draft.add_all(txn, &members)?;
    let mut new = new.as_ref().map(|new| new.iter());
    for args in calls {
        draft.expect(args.len() as u64 - 2);
        let mut added = 0;
        for member in &args[2..] {
            let new = match &mut new {
                Some(new) => new.next() == Some(&true),
                None => draft.add(txn, member)?,
            };
            added += i64::from(new);
        }
        if added > 0 {
            call.notify('s', "sadd", key);
            changed = true;
        }
        call.reply.integer(added);
    }
    if changed {
        publish(call, key, Some(found), &mut draft)?;
    }
    Ok(calls.len())
}

fn srem(call: &mut Call<'_>) -> Outcome {
    let (txn, key, thresholds) = (call.txn, call.args[1], thresholds(call));
    let mut removed = 0;
    if let Some(found) = call.find_kind(key, Kind::Set)? {
        let mut draft = Draft::of(&found.value, thresholds);
        for member in &call.args[2..] {
            removed += i64::from(draft.remove(txn, member)?);
        }
        if removed > 0 {
            call.notify('s', "srem", key);
            if publish(call, key, Some(found), &mut draft)? {
                call.notify('g', "del", key);
            }
        }
    }
    call.reply.integer(removed);
    Ok(())
}

fn smove(call: &mut Call<'_>) -> Outcome {
    let (txn, [from, to, member]) = (call.txn, [call.args[1], call.args[2], call.args[3]]);
    let Some(source) = call.find(from)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let target = call.find(to)?;
    if source.kind != Kind::Set || target.is_some_and(|target| target.kind != Kind::Set) {
        return Err(WRONG_TYPE.into());
    }
    let there = find(txn, &Sequence::of(&source.value), member)?;
    call.reply.integer(there.is_some().into());
    let Some(rank) = there.filter(|_| from != to) else { return Ok(()) };
    let thresholds = thresholds(call);
    let mut draft = Draft::of(&source.value, thresholds);
    draft.remove_at(txn, rank)?;
    call.notify('s', "srem", from);
    if publish(call, from, Some(source), &mut draft)? {
        call.notify('g', "del", from);
    }
    let mut draft = match &target {
        Some(target) => Draft::of(&target.value, thresholds),
        None => Draft::for_members(member, 1, thresholds),
    };
    if draft.add(txn, member)? {
        publish(call, to, target, &mut draft)?;
        call.notify('s', "sadd", to);
    }
    Ok(())
}

fn scard(call: &mut Call<'_>) -> Outcome {
    let count = open(call, call.args[1])?.map_or(Ok(0), |members| members.count())?;
    call.reply.integer(count as i64);
    Ok(())
}

fn sismember(call: &mut Call<'_>) -> Outcome {
    let there = match open(call, call.args[1])? {
        Some(members) => contains(call.txn, &members, call.args[2])?,
        None => false,
    };
    call.reply.integer(there.into());
    Ok(())
}

fn sismember_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let Some(members) = open(call, call.args[1])? else { return Ok(0) };
    contains_all(call.txn, &members, &named(calls))?
        .into_iter()
        .for_each(|there| call.reply.integer(there.into()));
    Ok(calls.len())
}

fn smismember(call: &mut Call<'_>) -> Outcome {
    let (members, sought) = (open(call, call.args[1])?, &call.args[2..]);
    call.reply.array(sought.len());
    let there = match &members {
        Some(members) => contains_all(call.txn, members, sought)?,
        None => vec![false; sought.len()],
    };
    there.into_iter().for_each(|there| call.reply.integer(there.into()));
    Ok(())
}

fn smembers(call: &mut Call<'_>) -> Outcome {
    let found = call.find_kind(call.args[1], Kind::Set)?;
    reply_all(call, found)
}

/// Replies with all members of a set.
fn reply_all<'c>(call: &mut Call<'c>, found: Option<Found<'c>>) -> Outcome {
    let (txn, Some(found)) = (call.txn, found) else {
        call.reply.set(0);
        return Ok(());
    };
    if let Some(members) = by_number(txn, &found.value)? {
        call.reply.set(members.len());
        return members.iter().try_for_each(|member| reply_element(call.reply, txn, member));
    }
    let members = Sequence::of(&found.value);
    call.reply.set(members.count()? as usize);
    reply_elements(call.reply, txn, &members, 0, u64::MAX)
}
