//! The fast paths of SADD, SREM and SPOP (`table::update`): one member of a packed set.
//!
//! **Invariant:** what they reply and leave behind is what the slow paths would; whatever could be refused takes the slow path.
use polder_base::Reply;
use polder_table::{Effect, Mutation};
use polder_values::Kind;
use polder_values::set::{added, removed, taken};

use super::thresholds_of;
use crate::collection::draw_below;
use polder_calls::command::FastCall;

pub(super) fn sadd(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, _, member] = call.args else { return false };
    let (thresholds, member) = (thresholds_of(call.settings), [member]);
    let new = call.update(Kind::Set, |old| {
        let edit = added(old.map(|old| old.value), &member, thresholds)?;
        let new = edit.is_some();
        Some((edit.map_or(Mutation::Same, Mutation::Edited), new))
    });
    new.map(|new| reply.integer(new.into())).is_some()
}

pub(super) fn srem(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, _, member] = call.args else { return false };
    let there = call.update(Kind::Set, |old| {
        let Some(old) = old else { return Some((Mutation::Same, false)) };
        let removed = removed(old.value, member)?;
        let there = removed.is_some();
        Some((removed.into(), there))
    });
    there.map(|there| reply.integer(there.into())).is_some()
}

pub(super) fn spop(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let (&[_, _], mark) = (call.args, reply.mark()) else { return false };
    // Only the slow path tells which member it was.
    if call.table.seems_logged() {
        return false;
    }
    let tell = |(): &(), _: &mut Effect<'_>| {};
    let done = call.update_telling(
        Kind::Set,
        |old| {
            let Some(old) = old else {
                reply.null();
                return Some((Mutation::Same, ()));
            };
            let (member, rest) = taken(old.value, |count| draw_below(call.table, count))?;
            reply.bulk(member);
            Some((rest.map_or(Mutation::Gone, Mutation::Edited), ()))
        },
        tell,
    );
    if done.is_none() {
        reply.rewind(mark);
    }
    done.is_some()
}
