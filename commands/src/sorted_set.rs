//! Sorted sets: members in the order of their scores.
//!
//! Scores are doubles that remember the decimal text they were given (`base::score`); `number-mode redis` makes them plain doubles.
use std::borrow::Cow;

use polder_base::Reply;
use polder_base::number::{self, NumberMode};
use polder_base::score::Score;
use polder_table::{Found, New, Replaces, Stop};
use polder_values::Kind;
use polder_values::sorted_set::{Draft, Entry, SortedSet};

use crate::string::number_mode;
use polder_calls::call::{Call, Outcome};
use polder_calls::command::{BLOCKING, Command, FAST, GROWS, read, write};
use polder_calls::facts::Tells::{Own, Verbatim};
use polder_calls::settings::{Settings, id};

mod add;
mod combine;
mod look;
mod pop;
mod quick;
mod range;
mod remove;

pub(crate) use add::{Options, Pairs, add as add_members, reply as reply_added};

const DELETES: &[&str] = &["RW delete"];
const POPS: &[&str] = &["RW access delete"];
const STORES: &[&str] = &["OW update", "RO access"];

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("BZMPOP", "timeout numkeys key [key ...] <MIN|MAX> [COUNT count]", pop::wait_for_several).tells(Own("`ZPOPMIN key count`, `ZPOPMAX key count`"))
        .with(BLOCKING)
        .touches(POPS)
        .since("7.0.0")
        .costs("O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.")
        .about("Removes and returns a member by score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped."),
    write("BZPOPMAX", "key [key ...] timeout", pop::wait_for_max).tells(Own("`ZPOPMIN key count`, `ZPOPMAX key count`"))
        .with(BLOCKING | FAST)
        .touches(POPS)
        .since("5.0.0")
        .costs("O(log(N)) with N being the number of elements in the sorted set.")
        .changed(&[("6.0.0", "The timeout may have decimals.")]).about("Removes and returns the member with the highest score from one or more sorted sets. Blocks until a member available otherwise. Deletes the sorted set if the last element was popped."),
    write("BZPOPMIN", "key [key ...] timeout", pop::wait_for_min).tells(Own("`ZPOPMIN key count`, `ZPOPMAX key count`"))
        .with(BLOCKING | FAST)
        .touches(POPS)
        .since("5.0.0")
        .costs("O(log(N)) with N being the number of elements in the sorted set.")
        .changed(&[("6.0.0", "The timeout may have decimals.")]).about("Removes and returns the member with the lowest score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped."),
    write("ZADD", "key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]", add::zadd).tells(Own("the call; with INCR `ZADD key score member`"))
        .with(GROWS | FAST)
        .touches(&["RW update"])
        .since("1.2.0")
        .costs("O(log(N)) for each item added, where N is the number of elements in the sorted set.")
        .quick(quick::zadd)
        .many(add::zadd_many)
        .changed(&[("2.4.0", "Adds several members at once."), ("3.0.2", "Takes `XX`, `NX`, `CH` and `INCR`."), ("6.2.0", "Takes `GT` and `LT`.")]).about("Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist."),
    read("ZCARD", "key", look::zcard)
        .with(FAST)
        .touches(&["RO"])
        .since("1.2.0")
        .about("Returns the number of members in a sorted set."),
    read("ZCOUNT", "key min max", range::zcount)
        .with(FAST)
        .since("2.0.0")
        .costs("O(log(N)) with N being the number of elements in the sorted set.")
        .about("Returns the count of members in a sorted set that have scores within a range."),
    read("ZDIFF", "numkeys key [key ...] [WITHSCORES]", combine::zdiff)
        .since("6.2.0")
        .costs("O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.")
        .about("Returns the difference between multiple sorted sets."),
    write("ZDIFFSTORE", "destination numkeys key [key ...]", combine::zdiffstore).tells(Own("the whole new value: `DEL destination`, `ZADD destination score member ...`"))
        .with(GROWS)
        .touches(STORES)
        .since("6.2.0")
        .costs("O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.")
        .about("Stores the difference of multiple sorted sets in a key."),
    write("ZINCRBY", "key increment member", add::zincrby)
        .quick(quick::zincrby)
        .shares_key()
        .tells(Own("`ZADD key score member`"))
        .with(GROWS | FAST)
        .since("1.2.0")
        .costs("O(log(N)) where N is the number of elements in the sorted set.")
        .about("Increments the score of a member in a sorted set: in decimal, unless number-mode says otherwise."),
    read("ZINTER", "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>] [WITHSCORES]", combine::zinter)
        .since("6.2.0")
        .costs("O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.")
        .changed(&[("8.8.0", "Takes `COUNT` behind `AGGREGATE`.")])
        .about("Returns the intersect of multiple sorted sets."),
    read("ZINTERCARD", "numkeys key [key ...] [LIMIT limit]", combine::zintercard)
        .since("7.0.0")
        .costs("O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted sets.")
        .about("Returns the number of members of the intersect of multiple sorted sets."),
    write("ZINTERSTORE", "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>]", combine::zinterstore).tells(Own("the whole new value: `DEL destination`, `ZADD destination score member ...`"))
        .with(GROWS)
        .touches(STORES)
        .since("2.0.0")
        .costs("O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.")
        .changed(&[("8.8.0", "Takes `COUNT` behind `AGGREGATE`.")])
        .about("Stores the intersect of multiple sorted sets in a key."),
    read("ZLEXCOUNT", "key min max", range::zlexcount)
        .with(FAST)
        .since("2.8.9")
        .costs("O(log(N)) with N being the number of elements in the sorted set.")
        .about("Returns the number of members in a sorted set within a lexicographical range."),
    write("ZMPOP", "numkeys key [key ...] <MIN|MAX> [COUNT count]", pop::zmpop).tells(Own("`ZPOPMIN key count`, `ZPOPMAX key count`"))
        .touches(POPS)
        .since("7.0.0")
        .costs("O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.")
        .about("Returns the highest- or lowest-scoring members from one or more sorted sets after removing them. Deletes the sorted set if the last member was popped."),
    read("ZMSCORE", "key member [member ...]", look::zmscore)
        .with(FAST)
        .since("6.2.0")
        .costs("O(N*log(M)) where N is the number of members being requested and M the number of elements in the sorted set.")
        .about("Returns the score of one or more members in a sorted set."),
    write("ZPOPMAX", "key [count]", pop::zpopmax).tells(Verbatim)
        .with(FAST)
        .touches(POPS)
        .since("5.0.0")
        .costs("O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.")
        .many(pop::zpopmax_many)
        .about("Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped."),
    write("ZPOPMIN", "key [count]", pop::zpopmin).tells(Verbatim)
        .with(FAST)
        .touches(POPS)
        .since("5.0.0")
        .costs("O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.")
        .many(pop::zpopmin_many)
        .about("Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped."),
    read("ZRANDMEMBER", "key [count [WITHSCORES]]", look::zrandmember)
        .tips(&["nondeterministic_output"])
        .since("6.2.0")
        .costs("O(N*log(M)) where N is the number of members returned and M the number of elements in the sorted set.")
        .about("Returns one or more random members from a sorted set."),
    read("ZRANGE", "key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]", range::zrange)
        .many(range::zrange_many)
        .since("1.2.0")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.")
        .changed(&[("6.2.0", "Takes `REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")]).about("Returns members in a sorted set within a range of indexes, of scores or of members."),
    read("ZRANGEBYLEX", "key min max [LIMIT offset count]", range::zrangebylex)
        .since("2.8.9")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned.")
        .replaced("6.2.0", "`ZRANGE` with `BYLEX`").about("Returns members in a sorted set within a lexicographical range."),
    read("ZRANGEBYSCORE", "key min max [WITHSCORES] [LIMIT offset count]", range::zrangebyscore)
        .many(range::zrangebyscore_many)
        .since("1.0.5")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned.")
        .changed(&[("2.0.0", "Takes `WITHSCORES`.")]).replaced("6.2.0", "`ZRANGE` with `BYSCORE`").about("Returns members in a sorted set within a range of scores."),
    write("ZRANGESTORE", "destination source min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]", range::zrangestore).tells(Own("the whole new value: `DEL destination`, `ZADD destination score member ...`"))
        .with(GROWS)
        .touches(STORES)
        .since("6.2.0")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into the destination key.")
        .about("Stores a range of members from sorted set in a key."),
    read("ZRANK", "key member [WITHSCORE]", look::zrank)
        .with(FAST)
        .many(look::zrank_many)
        .since("2.0.0")
        .costs("O(log(N))")
        .changed(&[("7.2.0", "Takes `WITHSCORE`.")]).about("Returns the index of a member in a sorted set ordered by ascending scores."),
    write("ZREM", "key member [member ...]", remove::zrem)
        .quick(quick::zrem)
        .shares_key()
        .tells(Verbatim)
        .with(FAST)
        .touches(DELETES)
        .since("1.2.0")
        .costs("O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.")
        .changed(&[("2.4.0", "Removes several members at once.")]).about("Removes one or more members from a sorted set. Deletes the sorted set if all members were removed."),
    write("ZREMRANGEBYLEX", "key min max", remove::zremrangebylex).tells(Verbatim)
        .touches(DELETES)
        .since("2.8.9")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.")
        .about("Removes members in a sorted set within a lexicographical range. Deletes the sorted set if all members were removed."),
    write("ZREMRANGEBYRANK", "key start stop", remove::zremrangebyrank).tells(Verbatim)
        .touches(DELETES)
        .since("2.0.0")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.")
        .about("Removes members in a sorted set within a range of indexes. Deletes the sorted set if all members were removed."),
    write("ZREMRANGEBYSCORE", "key min max", remove::zremrangebyscore).tells(Verbatim)
        .touches(DELETES)
        .since("1.2.0")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.")
        .about("Removes members in a sorted set within a range of scores. Deletes the sorted set if all members were removed."),
    read("ZREVRANGE", "key start stop [WITHSCORES]", range::zrevrange)
        .many(range::zrevrange_many)
        .since("1.2.0")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.")
        .replaced("6.2.0", "`ZRANGE` with `REV`").about("Returns members in a sorted set within a range of indexes in reverse order."),
    read("ZREVRANGEBYLEX", "key max min [LIMIT offset count]", range::zrevrangebylex)
        .since("2.8.9")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned.")
        .replaced("6.2.0", "`ZRANGE` with `REV` and `BYLEX`").about("Returns members in a sorted set within a lexicographical range in reverse order."),
    read("ZREVRANGEBYSCORE", "key max min [WITHSCORES] [LIMIT offset count]", range::zrevrangebyscore)
        .many(range::zrevrangebyscore_many)
        .since("2.2.0")
        .costs("O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned.")
        .changed(&[("2.1.6", "An end of the range may be exclusive.")]).replaced("6.2.0", "`ZRANGE` with `REV` and `BYSCORE`").about("Returns members in a sorted set within a range of scores in reverse order."),
    read("ZREVRANK", "key member [WITHSCORE]", look::zrevrank)
        .with(FAST)
        .many(look::zrevrank_many)
        .since("2.0.0")
        .costs("O(log(N))")
        .changed(&[("7.2.0", "Takes `WITHSCORE`.")]).about("Returns the index of a member in a sorted set ordered by descending scores."),
    read("ZSCAN", "key cursor [MATCH pattern] [COUNT count] [NOSCORES]", look::zscan)
        .tips(&["nondeterministic_output"])
        .since("2.8.0")
        .costs("O(log(N)) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0.")
        .about("Iterates over members and scores of a sorted set."),
    read("ZSCORE", "key member", look::zscore)
        .with(FAST)
        .many(look::zscore_many)
        .since("1.2.0")
        .costs("O(log(N)) with N being the number of elements in the sorted set.")
        .about("Returns the score of a member in a sorted set."),
    read("ZUNION", "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>] [WITHSCORES]", combine::zunion)
        .since("6.2.0")
        .costs("O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.")
        .changed(&[("8.8.0", "Takes `COUNT` behind `AGGREGATE`.")])
        .about("Returns the union of multiple sorted sets."),
    write("ZUNIONSTORE", "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>]", combine::zunionstore).tells(Own("the whole new value: `DEL destination`, `ZADD destination score member ...`"))
        .with(GROWS)
        .touches(STORES)
        .since("2.0.0")
        .costs("O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.")
        .changed(&[("8.8.0", "Takes `COUNT` behind `AGGREGATE`.")])
        .about("Stores the union of multiple sorted sets in a key."),
];

/// The sorted set that a key holds, an absent one the empty set.
///
/// # Errors
/// WRONGTYPE when the key holds something else.
pub(crate) fn find_set<'c>(call: &Call<'c>, key: &[u8]) -> Result<SortedSet<'c>, Stop> {
    Ok(set_of(&find(call, key)?))
}

/// The key's state, if it is there and a sorted set.
pub(crate) fn find<'c>(call: &Call<'c>, key: &[u8]) -> Result<Option<Found<'c>>, Stop> {
    call.find_kind(key, Kind::SortedSet)
}

/// The sorted set of a key's state.
pub(crate) fn set_of<'c>(found: &Option<Found<'c>>) -> SortedSet<'c> {
    found.as_ref().map_or(SortedSet::EMPTY, |found| SortedSet::of(&found.value))
}

/// Publishes a draft of what a key holds; one that has become empty takes the key away.
pub(crate) fn publish(call: &Call<'_>, key: &[u8], found: Option<Found<'_>>, draft: &mut Draft) -> Outcome {
    if draft.set().count()? == 0 {
        call.txn.remove(call.db(), key, Replaces::Edited)?;
        call.notify('g', "del", key);
        return Ok(());
    }
    let value = draft.value();
    let old = found.map_or(New::of(Kind::SortedSet, value), New::from);
    call.edit(key, &New { value, ..old })
}

/// What Redis counts and measures before it says that a sorted set is a skiplist.
#[derive(Clone, Copy)]
pub(crate) struct Thresholds {
    entries_max: u64,
    member_max: u64,
}

impl Thresholds {
    pub(crate) fn of(settings: &Settings) -> Thresholds {
        Thresholds {
            entries_max: settings.number(const { id("zset-max-listpack-entries") }) as u64,
            member_max: settings.number(const { id("zset-max-listpack-value") }) as u64,
        }
    }

    pub(crate) fn exceeded(&self, entries: u64, member_len: usize) -> bool {
        entries > self.entries_max || member_len as u64 > self.member_max
    }
}

/// Gives a key these members, which are sorted, in place of whatever it held; without members the
/// key is removed. `event`: what listeners are told. Returns how many there are.
pub(crate) fn store(
    call: &Call<'_>,
    key: &[u8],
    event: &'static str,
    entries: &[(Score, impl AsRef<[u8]>)],
) -> Result<u64, Stop> {
    if entries.is_empty() {
        if call.remove(key)? {
            call.tell(&[b"DEL", key]);
            call.notify('g', "del", key);
        }
        return Ok(0);
    }
    let mut draft = Draft::empty();
    draft.extend(call.txn, entries.iter().map(|(score, member)| (score, member.as_ref())))?;
    let longest = entries.iter().map(|(_, member)| member.as_ref().len()).max().unwrap_or(0);
    if Thresholds::of(call.settings).exceeded(entries.len() as u64, longest) {
        draft.set_large();
    }
    call.replace(key, &New::of(Kind::SortedSet, draft.value()))?;
    tell_stored(call, key, entries);
    call.notify('z', event, key);
    Ok(entries.len() as u64)
}

/// Says in the change log what has been stored: sums are not computed again elsewhere.
fn tell_stored(call: &Call<'_>, key: &[u8], entries: &[(Score, impl AsRef<[u8]>)]) {
    if !call.tells_itself() {
        return;
    }
    let mode = number_mode(call.settings);
    let texts: Vec<String> =
        entries.iter().map(|(score, _)| text_of(mode, score.value(), score.text()).into_owned()).collect();
    let words: Vec<&[u8]> = texts
        .iter()
        .zip(entries)
        .flat_map(|(text, (_, member))| [text.as_bytes(), member.as_ref()])
        .collect();
    call.tell(&[b"DEL", key]);
    call.tell_many(&[b"ZADD", key], &words);
}

/// Replies with a score: its own text where it has one.
pub(crate) fn reply_score(reply: &mut dyn Reply, mode: NumberMode, value: f64, text: &str) {
    if text.is_empty() || mode == NumberMode::Redis {
        reply.double(value);
    } else {
        reply.double_text(text);
    }
}

/// Replies with the score of an entry.
pub(crate) fn reply_score_of(reply: &mut dyn Reply, mode: NumberMode, entry: &Entry<'_>) {
    reply_score(reply, mode, entry.value(), entry.text());
}

/// The text that is shown of an entry's score.
pub(crate) fn score_text<'e>(mode: NumberMode, entry: &'e Entry<'_>) -> Cow<'e, str> {
    text_of(mode, entry.value(), entry.text())
}

fn text_of(mode: NumberMode, value: f64, text: &str) -> Cow<'_, str> {
    match text {
        text if !text.is_empty() && mode == NumberMode::Decimal => Cow::Borrowed(text),
        _ => Cow::Owned(number::double_text(value).as_str().to_owned()),
    }
}
