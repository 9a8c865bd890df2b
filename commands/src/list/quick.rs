//! The fast paths of LPUSH, RPUSH, LPOP and RPOP (`table::update`): one element of a packed list.
//!
//! **Invariant:** what they reply and leave behind is what the slow paths would; whatever could be
//! refused takes the slow path.
use polder_base::Reply;
use polder_table::Mutation;
use polder_values::Kind;
use polder_values::list::{Limit, popped, pushed};

use polder_calls::command::FastCall;
use polder_calls::settings::id;

pub(super) fn lpush(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    push(call, false, reply)
}

pub(super) fn rpush(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    push(call, true, reply)
}

pub(super) fn lpop(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    pop(call, false, reply)
}

pub(super) fn rpop(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    pop(call, true, reply)
}

fn push(call: &FastCall<'_>, at_end: bool, reply: &mut dyn Reply) -> bool {
    let &[_, _, element] = call.args else { return false };
    let limit = Limit::of(call.settings.number(const { id("list-max-listpack-size") }));
    let element = [element];
    let count = call.update(Kind::List, |old| {
        let (edit, count) = pushed(old.map(|old| old.value), &element, at_end, limit)?;
        Some((Mutation::Edited(edit), count))
    });
    let Some(count) = count else { return false };
    reply.integer(count as i64);
    true
}

fn pop(call: &FastCall<'_>, at_end: bool, reply: &mut dyn Reply) -> bool {
    let (&[_, _], mark) = (call.args, reply.mark()) else { return false };
    let done = call.update(Kind::List, |old| {
        let Some(old) = old else {
            reply.null();
            return Some((Mutation::Same, ()));
        };
        let (element, rest) = popped(old.value, at_end)?;
        reply.bulk(element);
        Some((rest.map_or(Mutation::Gone, Mutation::Edited), ()))
    });
    if done.is_none() {
        reply.rewind(mark);
    }
    done.is_some()
}
