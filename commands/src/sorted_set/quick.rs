//! The fast paths of ZADD, ZINCRBY and ZREM (`table::update`): one member of a packed sorted set,
//! no options.
//!
//! **Invariant:** what they reply and leave behind is what the slow paths would; whatever could be refused takes the slow path.
use polder_base::Reply;
use polder_base::score::Score;
use polder_calls::command::FastCall;
use polder_table::{Effect, Mutation};
use polder_values::Kind;
use polder_values::sorted_set::{Became, Place, Scored};

use super::{Thresholds, reply_score, text_of};
use crate::string::number_mode;

pub(super) fn zadd(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let Some((became, _)) = put(call, |_, score| Some(score), |_, effect| call.tell(effect)) else {
        return false;
    };
    reply.integer((became == Became::New).into());
    true
}

pub(super) fn zincrby(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let mode = number_mode(call.settings);
    let sum = |old: Option<&Score>, by: Score| old.map_or(Some(by.clone()), |old| old.sum(mode, &by));
    let tell = |score: &Score, effect: &mut Effect<'_>| {
        effect.call(
            "ZADD",
            &[call.args[1], text_of(mode, score.value(), score.text()).as_bytes(), call.args[3]],
        );
    };
    let Some((_, score)) = put(call, sum, tell) else { return false };
    reply_score(reply, mode, score.value(), score.text());
    true
}

/// Gives a member the score that `decide` makes of its old one and the one that was given.
#[inline]
fn put(
    call: &FastCall<'_>,
    decide: impl FnOnce(Option<&Score>, Score) -> Option<Score>,
    tell: impl Fn(&Score, &mut Effect<'_>),
) -> Option<(Became, Score)> {
    let &[_, _, score, member] = call.args else { return None };
    let score = Score::parse(number_mode(call.settings), score)?;
    let thresholds = Thresholds::of(call.settings);
    let (mut scored, mut parts) = (None, [&[][..]; 2]);
    let (scored, parts) = (&mut scored, &mut parts);
    call.update_telling(
        Kind::SortedSet,
        |old| {
            let place = Place::of(old.map(|old| old.value), member)?;
            let old = place.score();
            let new = decide(old.as_ref(), score)?;
            let became = Became::of(old.as_ref(), &new);
            if became == Became::Same {
                return Some((Mutation::Same, (became, new)));
            }
            *parts = scored.insert(Scored::of(&new)).parts(member);
            let edit = place.put(new.value(), parts, |count| thresholds.exceeded(count, member.len()))?;
            Some((Mutation::Edited(edit), (became, new)))
        },
        |(_, score), effect| tell(score, effect),
    )
}

pub(super) fn zrem(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, _, member] = call.args else { return false };
    let there = call.update(Kind::SortedSet, |old| {
        let Some(old) = old else { return Some((Mutation::Same, false)) };
        let removed = Place::of(Some(old.value), member)?.removed()?;
        let there = removed.is_some();
        Some((removed.into(), there))
    });
    there.map(|there| reply.integer(there.into())).is_some()
}
