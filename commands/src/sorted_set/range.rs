//! ZRANGE and its older forms, ZRANGESTORE, ZCOUNT and ZLEXCOUNT.
use polder_base::number;
use polder_base::score::Score;
use polder_base::{Protocol, Reply};
use polder_table::Stop;
use polder_values::Nodes;
use polder_values::sorted_set::{Entry, LexBound, Members, ScoreBound, SortedSet};
use smallvec::SmallVec;

use super::{find, find_set, reply_score_of, store};
use crate::string::number_mode;
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is, is_whole};

const NOT_A_SCORE: &str = "ERR min or max is not a float";
const NOT_A_LEX_BOUND: &str = "ERR min or max not valid string range item";

/// What the ends of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Lex,
}

/// Both ends of a range.
#[derive(Clone, Copy)]
pub(super) enum Bounds<'a> {
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Lex(LexBound<'a>, LexBound<'a>),
}

impl<'a> Bounds<'a> {
    /// The range between two arguments.
    ///
    /// # Errors
    /// Redis's texts for what is no number, or no `[member`, `(member`, `-` or `+`.
    pub(super) fn read(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Bounds<'a>, Stop> {
        Ok(match by {
            By::Rank => Bounds::Rank(integer(min)?, integer(max)?),
            By::Score => Bounds::Score(score_bound(min)?, score_bound(max)?),
            By::Lex => Bounds::Lex(lex_bound(min)?, lex_bound(max)?),
        })
    }

    /// The ranks of the range, from the lowest score: the first and the one after the last.
    pub(super) fn ranks<'s>(
        &self,
        set: &SortedSet<'s>,
        nodes: &'s dyn Nodes,
        reverse: bool,
    ) -> Result<(u64, u64), Stop> {
        Ok(match *self {
            Bounds::Score(min, max) => set.ranks_by_score(nodes, min, max)?,
            Bounds::Lex(min, max) => set.ranks_by_lex(nodes, min, max, reverse)?,
            Bounds::Rank(start, stop) => {
                let count = set.count()?;
                let (from, upto) = ranks(start, stop, count);
                if reverse { (count - upto, count - from) } else { (from, upto) }
            }
        })
    }
}

/// Where a range of ranks lies among `count`; negative ones are counted from the end.
fn ranks(start: i64, stop: i64, count: u64) -> (u64, u64) {
    let count = count as i64;
    let place = |at: i64| if at < 0 { at + count } else { at };
    let (start, stop) = (place(start).max(0), place(stop).min(count - 1));
    if start > stop { (0, 0) } else { (start as u64, stop as u64 + 1) }
}

fn score_bound(arg: &[u8]) -> Result<ScoreBound, Stop> {
    let (open, text) = match arg {
        [b'(', text @ ..] => (true, text),
        text => (false, text),
    };
    let value = number::bound(text).ok_or(NOT_A_SCORE)?;
    Ok(ScoreBound { value, open })
}

fn lex_bound(arg: &[u8]) -> Result<LexBound<'_>, Stop> {
    match arg {
        [b'-'] => Ok(LexBound::Least),
        [b'+'] => Ok(LexBound::Greatest),
        [b'[', member @ ..] => Ok(LexBound::Closed(member)),
        [b'(', member @ ..] => Ok(LexBound::Open(member)),
        _ => Err(NOT_A_LEX_BOUND.into()),
    }
}

/// A range and how it is shown.
struct Query<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    /// Negative: all.
    limit: i64,
}

/// What a command's name says already.
#[derive(Clone, Copy)]
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    stores: bool,
}

impl<'a> Query<'a> {
    /// Reads `min max [options]`.
    fn read(form: Form, args: &[&'a [u8]]) -> Result<Query<'a>, Stop> {
        let Form { mut by, mut reverse, stores } = form;
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut rest = args[2..].iter();
        while let Some(word) = rest.next() {
            match word {
                word if !stores && is(word, "WITHSCORES") => with_scores = true,
                word if is(word, "LIMIT") && rest.len() >= 2 => {
                    let mut number = || rest.next().map_or(Err(SYNTAX.into()), |arg| integer(arg));
                    (offset, limit) = (number()?, number()?);
                }
                word if reverse.is_none() && is(word, "REV") => reverse = Some(true),
                word if by.is_none() && is(word, "BYLEX") => by = Some(By::Lex),
                word if by.is_none() && is(word, "BYSCORE") => by = Some(By::Score),
                _ => return Err(SYNTAX.into()),
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
                    .into(),
            );
        }
        if with_scores && by == By::Lex {
            return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
        }
        if by == By::Rank {
            (offset, limit) = (0, -1);
        }
        let (min, max) = if reverse && by != By::Rank { (args[1], args[0]) } else { (args[0], args[1]) };
        Ok(Query { bounds: Bounds::read(by, min, max)?, reverse, with_scores, offset, limit })
    }

    /// The ranks of what is shown, from the lowest score.
    fn ranks<'s>(&self, set: &SortedSet<'s>, nodes: &'s dyn Nodes) -> Result<(u64, u64), Stop> {
        let (from, upto) = self.bounds.ranks(set, nodes, self.reverse)?;
        // A negative offset skips everything, as in Redis.
        let skipped = u64::try_from(self.offset).map_or(upto - from, |offset| offset.min(upto - from));
        let left = upto - from - skipped;
        let shown = u64::try_from(self.limit).map_or(left, |limit| limit.min(left));
        Ok(if self.reverse {
            (upto - skipped - shown, upto - skipped)
        } else {
            (from + skipped, from + skipped + shown)
        })
    }

    /// The score with which what is shown begins, if that is a matter of scores.
    fn first_score(&self) -> Option<f64> {
        let Bounds::Score(min, max) = self.bounds else { return None };
        Some(if self.reverse { max.value } else { min.value }).filter(|score| score.is_finite())
    }
}

/// Shows each entry of some ranks, upwards or downwards.
pub(super) fn each<'s>(
    set: &SortedSet<'s>,
    nodes: &'s dyn Nodes,
    (from, upto): (u64, u64),
    reverse: bool,
    mut visit: impl FnMut(Entry<'s>),
) -> Result<(), Stop> {
    if from < upto {
        let entries: &mut dyn Iterator<Item = _> =
            if reverse { &mut set.iter_back(nodes, upto - 1) } else { &mut set.iter(nodes, from) };
        for entry in entries.take((upto - from) as usize) {
            visit(entry?);
        }
    }
    Ok(())
}

/// Begins a reply of `count` members, with their scores if wanted: pairs in RESP3, one flat array
/// in RESP2.
pub(super) fn begin_entries(reply: &mut dyn Reply, count: usize, with_scores: bool) {
    let flat = with_scores && reply.protocol() == Protocol::Resp2;
    reply.array(if flat { count * 2 } else { count });
}

/// Begins one of these members, whose member and score follow.
pub(super) fn begin_entry(reply: &mut dyn Reply, with_scores: bool) {
    if with_scores && reply.protocol() != Protocol::Resp2 {
        reply.array(2);
    }
}

fn show(call: &mut Call<'_>, form: Form) -> Outcome {
    let query = Query::read(form, &call.args[2..])?;
    let set = find_set(call, call.args[1])?;
    show_range(call, &set, &query)
}

/// For as many calls as make sense.
fn show_many(call: &mut Call<'_>, calls: &[&[&[u8]]], form: Form) -> Result<usize, Stop> {
    let Some(found) = find(call, call.args[1])? else { return Ok(0) };
    let set = SortedSet::of(&found.value);
    let queries: SmallVec<[Query<'_>; 8]> =
        calls.iter().map_while(|args| Query::read(form, &args[2..]).ok()).collect();
    set.bring(call.txn, queries.iter().filter_map(Query::first_score));
    queries.iter().try_for_each(|query| show_range(call, &set, query))?;
    Ok(queries.len())
}

fn show_range(call: &mut Call<'_>, set: &SortedSet<'_>, query: &Query<'_>) -> Outcome {
    let (from, upto) = query.ranks(set, call.txn)?;
    let mode = number_mode(call.settings);
    begin_entries(call.reply, (upto - from) as usize, query.with_scores);
    if !query.with_scores && !query.reverse {
        let (reply, many) = (&mut *call.reply, upto - from);
        let shown = set.each_members(call.txn, from, many, &mut |members| match members {
            Members::Some { bytes, ends } => reply.bulks(bytes, ends),
            Members::One(member) => reply.bulk(member),
        })?;
        return is_whole(many as usize, shown);
    }
    each(set, call.txn, (from, upto), query.reverse, |entry| {
        begin_entry(call.reply, query.with_scores);
        call.reply.bulk(entry.member());
        if query.with_scores {
            reply_score_of(call.reply, mode, &entry);
        }
    })
}

const ZRANGE: Form = Form { by: None, reverse: None, stores: false };
const ZREVRANGE: Form = Form { by: Some(By::Rank), reverse: Some(true), stores: false };
const ZRANGEBYSCORE: Form = Form { by: Some(By::Score), reverse: Some(false), stores: false };
const ZREVRANGEBYSCORE: Form = Form { by: Some(By::Score), reverse: Some(true), stores: false };

pub(super) fn zrange(call: &mut Call<'_>) -> Outcome {
    show(call, ZRANGE)
}

pub(super) fn zrange_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    show_many(call, calls, ZRANGE)
}

pub(super) fn zrevrange(call: &mut Call<'_>) -> Outcome {
    show(call, ZREVRANGE)
}

pub(super) fn zrevrange_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    show_many(call, calls, ZREVRANGE)
}

pub(super) fn zrangebyscore(call: &mut Call<'_>) -> Outcome {
    show(call, ZRANGEBYSCORE)
}

pub(super) fn zrangebyscore_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    show_many(call, calls, ZRANGEBYSCORE)
}

pub(super) fn zrevrangebyscore(call: &mut Call<'_>) -> Outcome {
    show(call, ZREVRANGEBYSCORE)
}

pub(super) fn zrevrangebyscore_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    show_many(call, calls, ZREVRANGEBYSCORE)
}

pub(super) fn zrangebylex(call: &mut Call<'_>) -> Outcome {
    show(call, Form { by: Some(By::Lex), reverse: Some(false), stores: false })
}

pub(super) fn zrevrangebylex(call: &mut Call<'_>) -> Outcome {
    show(call, Form { by: Some(By::Lex), reverse: Some(true), stores: false })
}

pub(super) fn zrangestore(call: &mut Call<'_>) -> Outcome {
    let query = Query::read(Form { by: None, reverse: None, stores: true }, &call.args[3..])?;
    let set = find_set(call, call.args[2])?;
    let ranks = query.ranks(&set, call.txn)?;
    let mut entries: Vec<(Score, _)> = Vec::with_capacity((ranks.1 - ranks.0) as usize);
    each(&set, call.txn, ranks, false, |entry| entries.push((entry.score(), entry.into_member())))?;
    let stored = store(call, call.args[1], "zrangestore", &entries)?;
    call.reply.integer(stored as i64);
    Ok(())
}

pub(super) fn zcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Score)
}

pub(super) fn zlexcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Lex)
}

fn count(call: &mut Call<'_>, by: By) -> Outcome {
    let bounds = Bounds::read(by, call.args[2], call.args[3])?;
    let set = find_set(call, call.args[1])?;
    let (from, upto) = bounds.ranks(&set, call.txn, false)?;
    call.reply.integer((upto - from) as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted_from_either_end() {
        for (start, stop, count, expected) in [
            (0, -1, 3, (0, 3)),
            (1, 1, 3, (1, 2)),
            (-2, -1, 3, (1, 3)),
            (-10, 1, 3, (0, 2)),
            (-10, -10, 3, (0, 0)),
            (2, 1, 3, (0, 0)),
            (3, 9, 3, (0, 0)),
            (0, -1, 0, (0, 0)),
            (i64::MIN, i64::MAX, 3, (0, 3)),
        ] {
            assert_eq!(ranks(start, stop, count), expected, "{start} {stop} of {count}");
        }
    }
}
