//! The short ways of GET, SET and INCR (`table::quick`, `table::small`) and of MSET (`table::several`): packed strings, no options, nobody in the way.
//!
//! **Invariant:** what they answer and leave behind is what the long ways would; whatever could be refused goes the long way.
use polder_base::{Reply, number};
use polder_table::Counter;

use polder_calls::command::Short;

pub(super) fn get(call: &Short<'_>, reply: &mut dyn Reply) -> bool {
    let answered = call.table.quick_get(call.sight, call.args[1], call.now_ms, |value| match value {
        Some(bytes) => {
            reply.bulk(bytes);
            Counter::Hits
        }
        None => {
            reply.null();
            Counter::Misses
        }
    });
    if let Some(counter) = answered {
        call.table.count_call(counter);
    }
    answered.is_some()
}

pub(super) fn set(call: &Short<'_>, reply: &mut dyn Reply) -> bool {
    let [_, key, value] = call.args else { return false };
    let done = call.table.quick_set(call.sight, key, value, call.now_ms, 1).is_some();
    if done {
        reply.ok();
    }
    done
}

pub(super) fn mset(call: &Short<'_>, reply: &mut dyn Reply) -> bool {
    let done = call.table.quick_set_all(call.sight, &call.args[1..], call.now_ms);
    if done {
        reply.ok();
    }
    done
}

pub(super) fn incr(call: &Short<'_>, reply: &mut dyn Reply) -> bool {
    add(call, 1, reply)
}

pub(super) fn decr(call: &Short<'_>, reply: &mut dyn Reply) -> bool {
    add(call, -1, reply)
}

pub(super) fn incrby(call: &Short<'_>, reply: &mut dyn Reply) -> bool {
    number::integer(call.args[2]).is_some_and(|by| add(call, by, reply))
}

fn add(call: &Short<'_>, by: i64, reply: &mut dyn Reply) -> bool {
    let (key, mut texts) = (call.args[1], [itoa::Buffer::new(), itoa::Buffer::new()]);
    let [plain, other] = &mut texts;
    let sum = call.table.edit_plain(call.sight, key, call.now_ms, 1, |old| {
        let sum = number::integer(old)?.checked_add(by)?;
        Some((plain.format(sum).as_bytes(), Some(sum)))
    });
    let sum = sum.or_else(|| {
        call.table.quick_edit(call.sight, key, call.now_ms, 1, |old| {
            let old = old.map_or(Some(0), number::integer);
            match old.and_then(|old| old.checked_add(by)) {
                Some(sum) => (Some(other.format(sum).as_bytes()), Some(sum)),
                None => (None, None),
            }
        })
    });
    let Some(Some(sum)) = sum else { return false };
    reply.integer(sum);
    true
}
