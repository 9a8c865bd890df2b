//! The fast paths of HGET and HEXISTS (`table/access/read`), of HSET, HDEL and HINCRBY (`table/access/update`): one field of a packed hash.
//!
//! **Invariant:** what they reply and leave behind is what the slow paths would; whatever could be refused takes the slow path.
use polder_base::{Reply, number};
use polder_table::Mutation;
use polder_values::Kind;
use polder_values::hash::{Pair, Place, set};

use super::thresholds_of;
use polder_calls::command::{FastCall, SHORT_WORD_MAX};

pub(super) fn hget(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    view_field(call, |value| match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    })
}

pub(super) fn hexists(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    view_field(call, |value| reply.integer(value.is_some().into()))
}

/// Shows the value of a field, or nothing if there is none.
#[inline(always)]
fn view_field(call: &FastCall<'_>, show: impl FnOnce(Option<&[u8]>)) -> bool {
    let &[_, _, field] = call.args else { return false };
    if field.len() > SHORT_WORD_MAX {
        return false;
    }
    let pair = Pair::of(field, &[]);
    let [head, ..] = pair.parts();
    call.view(Kind::Hash, |hash| {
        show(match hash {
            Some(hash) => Place::of(Some(hash), head, field)?.value(),
            None => None,
        });
        Some(())
    })
}

pub(super) fn hset(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, _, field, value] = call.args else { return false };
    let (thresholds, pair) = (thresholds_of(call.settings), Pair::of(field, value));
    let parts = pair.parts();
    let new = call.update(Kind::Hash, |old| {
        let (edit, new) = set(old.map(|old| old.value), &parts, thresholds)?;
        Some((Mutation::Edited(edit), new))
    });
    new.map(|new| reply.integer(new.into())).is_some()
}

pub(super) fn hdel(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, _, field] = call.args else { return false };
    let pair = Pair::of(field, &[]);
    let [head, ..] = pair.parts();
    let deleted = call.update(Kind::Hash, |old| {
        let Some(old) = old else { return Some((Mutation::Same, false)) };
        let removed = Place::of(Some(old.value), head, field)?.removed()?;
        let deleted = removed.is_some();
        Some((removed.into(), deleted))
    });
    deleted.map(|deleted| reply.integer(deleted.into())).is_some()
}

pub(super) fn hincrby(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, _, field, by] = call.args else { return false };
    let Some(by) = number::integer(by) else { return false };
    let (thresholds, pair) = (thresholds_of(call.settings), Pair::of(field, &[]));
    let ([head, ..], mut text, mut parts) = (pair.parts(), itoa::Buffer::new(), [&[][..]; 3]);
    let (text, parts) = (&mut text, &mut parts);
    let sum = call.update(Kind::Hash, |old| {
        let place = Place::of(old.map(|old| old.value), head, field)?;
        let sum = place.value().map_or(Some(0), number::integer)?.checked_add(by)?;
        *parts = [head, field, text.format(sum).as_bytes()];
        Some((Mutation::Edited(place.set(parts, thresholds)?), sum))
    });
    sum.map(|sum| reply.integer(sum)).is_some()
}
