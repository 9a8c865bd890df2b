//! The short way of HSET (`table::small`): one field of a packed hash, nobody in the way.
//!
//! **Invariant:** what it answers and leaves behind is what the long way would; whatever could be refused goes the long way.
use polder_base::Reply;
use polder_table::Becomes;
use polder_values::Kind;
use polder_values::hash::{Pair, set};

use super::thresholds_of;
use polder_calls::command::Short;

pub(super) fn hset(call: &Short<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, key, field, value] = call.args else { return false };
    let (thresholds, pair) = (thresholds_of(call.settings), Pair::of(field, value));
    let parts = pair.parts();
    let new = call.table.quick_change(call.sight, key, Kind::Hash, call.now_ms, |old| {
        let (edit, new) = set(old, &parts, thresholds)?;
        Some((Becomes::Edited(edit), new))
    });
    new.map(|new| reply.integer(new.into())).is_some()
}
