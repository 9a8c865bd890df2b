//! The short ways of SADD and SPOP (`table::small`): one member of a packed set, nobody in the way.
//!
//! **Invariant:** what they answer and leave behind is what the long ways would; whatever could be refused goes the long way.
use polder_base::Reply;
use polder_table::Becomes;
use polder_values::Kind;
use polder_values::set::{added, taken};

use super::thresholds_of;
use crate::collection::draw_below;
use polder_calls::command::Short;

pub(super) fn sadd(call: &Short<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, key, member] = call.args else { return false };
    let (thresholds, member) = (thresholds_of(call.settings), [member]);
    let new = call.table.quick_change(call.sight, key, Kind::Set, call.now_ms, |old| {
        let edit = added(old, &member, thresholds)?;
        let new = edit.is_some();
        Some((edit.map_or(Becomes::Same, Becomes::Edited), new))
    });
    new.map(|new| reply.integer(new.into())).is_some()
}

pub(super) fn spop(call: &Short<'_>, reply: &mut dyn Reply) -> bool {
    let (&[_, key], mark) = (call.args, reply.mark()) else { return false };
    let done = call.table.quick_change(call.sight, key, Kind::Set, call.now_ms, |old| {
        let Some(old) = old else {
            reply.null();
            return Some((Becomes::Same, ()));
        };
        let (member, rest) = taken(old, |count| draw_below(call.table, count))?;
        reply.bulk(member);
        Some((rest.map_or(Becomes::Gone, Becomes::Edited), ()))
    });
    if done.is_none() {
        reply.rewind(mark);
    }
    done.is_some()
}
