//! ZREM and the ZREMRANGE commands.
use polder_table::Found;
use polder_values::sorted_set::Draft;

use super::range::{Bounds, By};
use super::{find, publish, set_of};
use polder_calls::call::{Call, Outcome};

pub(super) fn zrem(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let found = find(call, key)?;
    let mut draft = Draft::of(&set_of(&found));
    let mut removed = 0;
    for member in &call.args[2..] {
        let spot = draft.spot(call.txn, member)?;
        removed += i64::from(spot.score.is_some());
        draft.remove(call.txn, spot, member)?;
    }
    if removed > 0 {
        call.notify('z', "zrem", key);
        publish(call, key, found, &mut draft)?;
    }
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn zremrangebyrank(call: &mut Call<'_>) -> Outcome {
    remove_range(call, By::Rank, "zremrangebyrank")
}

pub(super) fn zremrangebyscore(call: &mut Call<'_>) -> Outcome {
    remove_range(call, By::Score, "zremrangebyscore")
}

pub(super) fn zremrangebylex(call: &mut Call<'_>) -> Outcome {
    remove_range(call, By::Lex, "zremrangebylex")
}

fn remove_range(call: &mut Call<'_>, by: By, event: &'static str) -> Outcome {
    let key = call.args[1];
    let bounds = Bounds::read(by, call.args[2], call.args[3])?;
    let found = find(call, key)?;
    let (from, upto) = bounds.ranks(&set_of(&found), call.txn, false)?;
    take_out(call, key, found, (from, upto), event)?;
    call.reply.integer((upto - from) as i64);
    Ok(())
}

/// Takes the members of these ranks out of the set in a key; all of them take the key away.
pub(super) fn take_out(
    call: &Call<'_>,
    key: &[u8],
    found: Option<Found<'_>>,
    (from, upto): (u64, u64),
    event: &'static str,
) -> Outcome {
    if from == upto {
        return Ok(());
    }
    let set = set_of(&found);
    call.notify('z', event, key);
    if upto - from == set.count()? {
        call.remove(key)?;
        call.notify('g', "del", key);
        return Ok(());
    }
    let mut draft = Draft::of(&set);
    draft.remove_range(call.txn, from, upto - from)?;
    publish(call, key, found, &mut draft)
}
