//! Unions, intersections and differences of sorted sets.
use std::borrow::Cow;
use std::collections::HashMap;

use polder_base::number::{self, NumberMode};
use polder_base::score::Score;
use polder_table::{Found, Stop};
use polder_values::sequence::Sequence;
use polder_values::sorted_set::SortedSet;
use polder_values::{Kind, set};

use super::range::{begin_entries, begin_entry};
use super::{reply_score, store};
use crate::string::number_mode;
use polder_calls::call::{Call, Outcome, SYNTAX, WRONG_TYPE, integer, is};

/// A member of a result.
type Item<'c> = (Score, Cow<'c, [u8]>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
    /// Of the intersection, only how many there are.
    Cardinality,
}

/// What becomes of the scores of one member in several sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
    /// No score counts: the weights of the sets that have the member are added.
    Count,
}

const AGGREGATES: [(&str, Aggregate); 4] =
    [("SUM", Aggregate::Sum), ("MIN", Aggregate::Min), ("MAX", Aggregate::Max), ("COUNT", Aggregate::Count)];

impl Aggregate {
    fn of(self, mode: NumberMode, one: Score, two: Score) -> Score {
        match self {
            // inf - inf is 0 here, as in Redis.
            Aggregate::Sum | Aggregate::Count => one.sum(mode, &two).unwrap_or(Score::of(0.0)),
            Aggregate::Min if two.value() < one.value() => two,
            Aggregate::Max if two.value() > one.value() => two,
            Aggregate::Min | Aggregate::Max => one,
        }
    }
}

/// What is combined: plain sets, too, whose members all have the score 1.
#[derive(Clone, Copy)]
enum Members<'c> {
    Scored(SortedSet<'c>),
    Plain(Sequence<'c>),
}

/// One of the sets that are combined.
struct Source<'c> {
    members: Members<'c>,
    weight: f64,
    /// Each member has the weight alone for its score.
    counts: bool,
}

impl<'c> Source<'c> {
    /// A key's set; an absent key is an empty one.
    fn of(call: &Call<'c>, key: &[u8]) -> Result<Source<'c>, Stop> {
        let members = match call.find(key)? {
            None => Members::Scored(SortedSet::EMPTY),
            Some(Found { kind: Kind::SortedSet, value, .. }) => Members::Scored(SortedSet::of(&value)),
            Some(Found { kind: Kind::Set, value, .. }) => Members::Plain(Sequence::of(&value)),
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        Ok(Source { members, weight: 1.0, counts: false })
    }

    fn count(&self) -> Result<u64, Stop> {
        match self.members {
            Members::Scored(set) => Ok(set.count()?),
            Members::Plain(members) => Ok(members.count()?),
        }
    }

    /// Shows every member with its weighed score, until `visit` returns false.
    fn each(&self, call: &Call<'c>, visit: &mut dyn FnMut(Item<'c>) -> Result<bool, Stop>) -> Outcome {
        match self.members {
            Members::Scored(set) => {
                for entry in set.iter(call.txn, 0) {
                    let entry = entry?;
                    if !visit((self.weighed(entry.score()), entry.into_member()))? {
                        break;
                    }
                }
            }
            Members::Plain(members) => {
                for element in members.iter(call.txn, 0) {
                    if !visit((self.weighed(Score::of(1.0)), element?.bytes(call.txn)?))? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The weighed score of a member.
    fn find(&self, call: &Call<'c>, member: &[u8]) -> Result<Option<Score>, Stop> {
        let score = match self.members {
            Members::Scored(set) => set.find(call.txn, member)?.map(|entry| entry.score()),
            Members::Plain(members) => set::contains(call.txn, &members, member)?.then(|| Score::of(1.0)),
        };
        Ok(score.map(|score| self.weighed(score)))
    }

    fn weighed(&self, score: Score) -> Score {
        if self.counts {
            return Score::of(self.weight);
        }
        if self.weight == 1.0 {
            return score;
        }
        let value = score.value() * self.weight;
        // inf times 0 is 0 here, as in Redis.
        Score::of(if value.is_nan() { 0.0 } else { value })
    }
}

/// One call, read.
struct Request<'c> {
    operation: Operation,
    sources: Vec<Source<'c>>,
    aggregate: Aggregate,
    with_scores: bool,
    /// 0: none.
    limit: u64,
}

impl<'c> Request<'c> {
    /// Reads `numkeys key [key ...] [options]`. Keys are looked at before the options, as in Redis.
    fn read(call: &Call<'c>, operation: Operation, stores: bool) -> Result<Request<'c>, Stop> {
        let args = &call.args[if stores { 2 } else { 1 }..];
        let numkeys = integer(args[0])?;
        if numkeys < 1 {
            return Err(
                format!("ERR at least 1 input key is needed for '{}' command", call.command.label()).into()
            );
        }
        let numkeys = usize::try_from(numkeys).ok().filter(|numkeys| *numkeys < args.len()).ok_or(SYNTAX)?;
        let (keys, options) = args[1..].split_at(numkeys);
        let sources = keys.iter().map(|key| Source::of(call, key)).collect::<Result<Vec<_>, _>>()?;
        let mut request =
            Request { operation, sources, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        request.read_options(options, stores)?;
        Ok(request)
    }

    fn read_options(&mut self, mut rest: &[&[u8]], stores: bool) -> Outcome {
        let weighs = matches!(self.operation, Operation::Union | Operation::Intersection);
        let counts = self.operation == Operation::Cardinality;
        while let [word, values @ ..] = rest {
            let taken = match values {
                _ if weighs && values.len() >= self.sources.len() && is(word, "WEIGHTS") => {
                    for (source, weight) in self.sources.iter_mut().zip(values) {
                        let weight = number::double(weight).filter(|weight| !weight.is_nan());
                        source.weight = weight.ok_or("ERR weight value is not a float")?;
                    }
                    self.sources.len()
                }
                [name, ..] if weighs && is(word, "AGGREGATE") => {
                    let named = AGGREGATES.iter().find(|(aggregate, _)| is(name, aggregate));
                    self.aggregate = named.ok_or(SYNTAX)?.1;
                    1
                }
                _ if !stores && !counts && is(word, "WITHSCORES") => {
                    self.with_scores = true;
                    0
                }
                [limit, ..] if counts && is(word, "LIMIT") => {
                    let limit = number::integer(limit).and_then(|limit| u64::try_from(limit).ok());
                    self.limit = limit.ok_or("ERR LIMIT can't be negative")?;
                    1
                }
                _ => return Err(SYNTAX.into()),
            };
            rest = &values[taken..];
        }
        let counts = self.aggregate == Aggregate::Count;
        self.sources.iter_mut().for_each(|source| source.counts = counts);
        Ok(())
    }

    /// The members of the result, sorted.
    fn result(&mut self, call: &Call<'c>) -> Result<Vec<Item<'c>>, Stop> {
        let mut items = match self.operation {
            Operation::Union => self.union(call)?,
            Operation::Difference => self.difference(call)?,
            Operation::Intersection | Operation::Cardinality => {
                let mut items = Vec::new();
                self.intersection(call, &mut |item| {
                    items.push(item);
                    true
                })?;
                items
            }
        };
        let place = |score: &Score| score.value() + 0.0;
        items.sort_unstable_by(|one, two| {
            place(&one.0).total_cmp(&place(&two.0)).then_with(|| one.1.cmp(&two.1))
        });
        Ok(items)
    }

    /// Sums of doubles depend on their order: that of the sets' sizes, as in Redis.
    fn sort_sources(&mut self) {
        self.sources.sort_by_cached_key(|source| source.count().unwrap_or(0));
    }

    fn union(&mut self, call: &Call<'c>) -> Result<Vec<Item<'c>>, Stop> {
        self.sort_sources();
        let (mode, aggregate) = (number_mode(call.settings), self.aggregate);
        let mut items: HashMap<Cow<'c, [u8]>, Score> = HashMap::new();
        for source in &self.sources {
            source.each(call, &mut |(score, member)| {
                let both = match items.get(&member) {
                    Some(held) => aggregate.of(mode, held.clone(), score),
                    None => score,
                };
                items.insert(member, both);
                Ok(true)
            })?;
        }
        Ok(items.into_iter().map(|(member, score)| (score, member)).collect())
    }

    /// Shows what is in every source, until `visit` returns false.
    fn intersection(&mut self, call: &Call<'c>, visit: &mut dyn FnMut(Item<'c>) -> bool) -> Outcome {
        self.sort_sources();
        let mode = number_mode(call.settings);
        let [first, others @ ..] = &self.sources[..] else { return Ok(()) };
        first.each(call, &mut |(mut score, member)| {
            for other in others {
                let Some(found) = other.find(call, &member)? else { return Ok(true) };
                score = self.aggregate.of(mode, score, found);
            }
            Ok(visit((score, member)))
        })
    }

    fn difference(&self, call: &Call<'c>) -> Result<Vec<Item<'c>>, Stop> {
        let [first, others @ ..] = &self.sources[..] else { return Ok(Vec::new()) };
        let mut items = Vec::new();
        first.each(call, &mut |item| {
            for other in others {
                if other.find(call, &item.1)?.is_some() {
                    return Ok(true);
                }
            }
            items.push(item);
            Ok(true)
        })?;
        Ok(items)
    }
}

fn show(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let mut request = Request::read(call, operation, false)?;
    let items = request.result(call)?;
    let mode = number_mode(call.settings);
    begin_entries(call.reply, items.len(), request.with_scores);
    for (score, member) in &items {
        begin_entry(call.reply, request.with_scores);
        call.reply.bulk(member);
        if request.with_scores {
            reply_score(call.reply, mode, score.value(), score.text());
        }
    }
    Ok(())
}

fn store_result(call: &mut Call<'_>, operation: Operation, event: &'static str) -> Outcome {
    let items = Request::read(call, operation, true)?.result(call)?;
    let stored = store(call, call.args[1], event, &items)?;
    call.reply.integer(stored as i64);
    Ok(())
}

pub(super) fn zunion(call: &mut Call<'_>) -> Outcome {
    show(call, Operation::Union)
}

pub(super) fn zinter(call: &mut Call<'_>) -> Outcome {
    show(call, Operation::Intersection)
}

pub(super) fn zdiff(call: &mut Call<'_>) -> Outcome {
    show(call, Operation::Difference)
}

pub(super) fn zunionstore(call: &mut Call<'_>) -> Outcome {
    store_result(call, Operation::Union, "zunionstore")
}

pub(super) fn zinterstore(call: &mut Call<'_>) -> Outcome {
    store_result(call, Operation::Intersection, "zinterstore")
}

pub(super) fn zdiffstore(call: &mut Call<'_>) -> Outcome {
    store_result(call, Operation::Difference, "zdiffstore")
}

pub(super) fn zintercard(call: &mut Call<'_>) -> Outcome {
    let mut request = Request::read(call, Operation::Cardinality, false)?;
    let (limit, mut count) = (request.limit, 0);
    request.intersection(call, &mut |_| {
        count += 1;
        count != limit
    })?;
    call.reply.integer(count as i64);
    Ok(())
}
