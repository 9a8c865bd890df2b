//! ZADD and ZINCRBY.
use polder_base::number::NumberMode;
use polder_base::score::Score;
use polder_table::Stop;
use polder_values::sorted_set::{Became, Draft, SortedSet, Spot};
use smallvec::SmallVec;

use super::{Thresholds, find, publish, reply_score, set_of, text_of};
use crate::string::number_mode;
use polder_calls::call::{Call, Outcome, SYNTAX, is};

const NOT_A_FLOAT: &str = "ERR value is not a valid float";
const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";

/// What ZADD was told besides scores and members.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    pub if_absent: bool,
    pub if_there: bool,
    pub if_greater: bool,
    pub if_less: bool,
    /// The reply counts members that got another score, too.
    pub counts_changed: bool,
    pub increments: bool,
}

impl Options {
    /// Reads options up to the first argument that is none. Returns where that is.
    fn read(args: &[&[u8]]) -> (Options, usize) {
        let mut options = Options::default();
        for (at, arg) in args.iter().enumerate() {
            let option = match arg {
                word if is(word, "NX") => &mut options.if_absent,
                word if is(word, "XX") => &mut options.if_there,
                word if is(word, "GT") => &mut options.if_greater,
                word if is(word, "LT") => &mut options.if_less,
                word if is(word, "CH") => &mut options.counts_changed,
                word if is(word, "INCR") => &mut options.increments,
                _ => return (options, at),
            };
            *option = true;
        }
        (options, args.len())
    }

    fn check(&self, pairs: usize) -> Outcome {
        let Options { if_absent, if_there, if_greater, if_less, increments, .. } = *self;
        if if_absent && if_there {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if if_absent && (if_greater || if_less) || if_greater && if_less {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if increments && pairs > 1 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok(())
    }

    /// Whether each member gets the score that it is given.
    fn is_plain(&self) -> bool {
        !(self.if_absent || self.if_there || self.if_greater || self.if_less || self.increments)
    }

    /// The score that a member gets, if it gets one: `old` is what it has.
    fn decide(&self, mode: NumberMode, old: Option<&Score>, new: &Score) -> Result<Option<Score>, Stop> {
        let Some(old) = old else { return Ok((!self.if_there).then(|| new.clone())) };
        if self.if_absent {
            return Ok(None);
        }
        let new = if self.increments { old.sum(mode, new).ok_or(NOT_A_NUMBER)? } else { new.clone() };
        let passes =
            !(self.if_less && new.value() >= old.value() || self.if_greater && new.value() <= old.value());
        Ok(passes.then_some(new))
    }
}

/// Members and what they are to get.
pub(crate) type Pairs<'a> = SmallVec<[(Score, &'a [u8]); 1]>;

/// What has become of some members.
#[derive(Default)]
pub(crate) struct Added {
    pub added: i64,
    pub updated: i64,
    /// The score of the last member, unless the options kept it from getting one.
    pub last: Option<Score>,
}

impl Added {
    /// Counts what has become of a member. Returns whether that is a change. Another text of the
    /// same double is no update.
    fn count(&mut self, became: Became) -> bool {
        self.added += i64::from(became == Became::New);
        self.updated += i64::from(became == Became::Moved);
        became != Became::Same
    }
}

pub(super) fn zadd(call: &mut Call<'_>) -> Outcome {
    let (options, at) = Options::read(&call.args[2..]);
    let (pairs, rest) = call.args[2 + at..].as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(SYNTAX.into());
    }
    options.check(pairs.len())?;
    let mode = number_mode(call.settings);
    let scored = pairs.iter().map(|[score, member]| Some((Score::parse(mode, score)?, *member)));
    let scored = scored.collect::<Option<Pairs<'_>>>().ok_or(NOT_A_FLOAT)?;
    let done = add(call, mode, options, &scored)?;
    if options.increments {
        tell_sum(call, mode, &done, pairs[0][1]);
    } else if call.tells_itself() {
        call.tell(&[&[&b"ZADD"[..]], &call.args[1..]].concat());
    }
    reply(call, mode, options, &done);
    Ok(())
}

/// Says in the change log which score a member has got.
fn tell_sum(call: &Call<'_>, mode: NumberMode, done: &Added, member: &[u8]) {
    if let Some(score) = done.last.as_ref().filter(|_| call.tells_itself()) {
        call.tell(&[b"ZADD", call.args[1], text_of(mode, score.value(), score.text()).as_bytes(), member]);
    }
}

/// Adds for as many calls as have no options and are in order, to a set that is there.
pub(super) fn zadd_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let (key, mode, options) = (call.args[1], number_mode(call.settings), Options::default());
    let Some(found) = find(call, key)? else { return Ok(0) };
    let (mut draft, mut changed) = (Draft::of(&SortedSet::of(&found.value)), false);
    let mut scored = Pairs::new();
    let mut ends: SmallVec<[usize; 128]> = SmallVec::new();
    for args in calls {
        let (pairs, []) = args[2..].as_chunks::<2>() else { break };
        let before = scored.len();
        scored.extend(pairs.iter().map_while(|[score, member]| Some((Score::parse(mode, score)?, *member))));
        if scored.len() < before + pairs.len() {
            scored.truncate(before);
            break;
        }
        ends.push(scored.len());
    }
    if ends.is_empty() {
        return Ok(0);
    }
    let became = draft.put_all(call.txn, &scored)?;
    let mut start = 0;
    for end in &ends {
        let (mut done, range) = (Added::default(), start..*end);
        match &became {
            Some(became) => became[range].iter().for_each(|became| changed |= done.count(*became)),
            None => changed |= add_to(call, &mut draft, mode, options, &scored[range], &mut done)?,
        }
        if done.added + done.updated > 0 {
            call.notify('z', "zadd", key);
        }
        reply(call, mode, options, &done);
        start = *end;
    }
    if changed {
        publish(call, key, Some(found), &mut draft)?;
    }
    Ok(ends.len())
}

pub(super) fn zincrby(call: &mut Call<'_>) -> Outcome {
    // Redis reads the options of ZADD here, too, and then misses the pair.
    if Options::read(&call.args[2..3]).1 > 0 {
        return Err(SYNTAX.into());
    }
    let mode = number_mode(call.settings);
    let increment = Score::parse(mode, call.args[2]).ok_or(NOT_A_FLOAT)?;
    let options = Options { increments: true, ..Options::default() };
    let done = add(call, mode, options, &[(increment, call.args[3])])?;
    tell_sum(call, mode, &done, call.args[3]);
    reply(call, mode, options, &done);
    Ok(())
}

/// Replies as ZADD does.
pub(crate) fn reply(call: &mut Call<'_>, mode: NumberMode, options: Options, done: &Added) {
    match &done.last {
        _ if !options.increments => {
            call.reply.integer(done.added + if options.counts_changed { done.updated } else { 0 })
        }
        Some(score) => reply_score(call.reply, mode, score.value(), score.text()),
        None => call.reply.null(),
    }
}

/// Gives members of the set in the key `args[1]` their scores.
pub(crate) fn add(
    call: &Call<'_>,
    mode: NumberMode,
    options: Options,
    pairs: &[(Score, &[u8])],
) -> Result<Added, Stop> {
    let key = call.args[1];
    let found = find(call, key)?;
    let mut done = Added::default();
    if found.is_none() && options.if_there {
        return Ok(done);
    }
    let set = set_of(&found);
    let mut draft = Draft::of(&set);
    if !add_to(call, &mut draft, mode, options, pairs, &mut done)? {
        return Ok(done);
    }
    publish(call, key, found, &mut draft)?;
    if done.added + done.updated > 0 {
        call.notify('z', if options.increments { "zincr" } else { "zadd" }, key);
    }
    Ok(done)
}

/// Gives members of a draft their scores. Returns whether that changed anything.
fn add_to(
    call: &Call<'_>,
    draft: &mut Draft,
    mode: NumberMode,
    options: Options,
    pairs: &[(Score, &[u8])],
    done: &mut Added,
) -> Result<bool, Stop> {
    let mut changed = false;
    if options.is_plain()
        && pairs.len() > 1
        && let Some(became) = draft.put_all(call.txn, pairs)?
    {
        became.into_iter().for_each(|became| changed |= done.count(became));
        return Ok(changed);
    }
    for (score, member) in pairs {
        let spot = draft.spot(call.txn, member)?;
        let new = options.decide(mode, spot.score.as_ref(), score)?;
        if let Some(new) = &new {
            changed |= put(call, draft, spot, new, member, done)?;
        }
        done.last = new;
    }
    if changed && !draft.set().is_large() {
        let longest = pairs.iter().map(|(_, member)| member.len()).max().unwrap_or(0);
        let entries = draft.set().count()?.max(pairs.len() as u64);
        if Thresholds::of(call.settings).exceeded(entries, longest) {
            draft.set_large();
        }
    }
    Ok(changed)
}

/// Gives one member its score. Returns whether that changed anything.
fn put(
    call: &Call<'_>,
    draft: &mut Draft,
    spot: Spot,
    new: &Score,
    member: &[u8],
    done: &mut Added,
) -> Result<bool, Stop> {
    let changed = done.count(Became::of(spot.score.as_ref(), new));
    if changed {
        draft.put(call.txn, spot, new, member)?;
    }
    Ok(changed)
}
