//! The fast paths of SADD, SREM and SPOP (`table::update`): one member of a packed set.
//!
//! **Invariant:** what they reply and leave behind is what the slow paths would; whatever could be refused takes the slow path.
use std::cell::RefCell;

use polder_base::Reply;
use polder_table::{Effect, Mutation};
use polder_values::Kind;
use polder_values::set::{added, removed, taken};

use super::thresholds_of;
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
    let (&[_, key], mark) = (call.args, reply.mark()) else { return false };
    // Only the log needs the member longer than the reply: which one it was, unless it was the last.
    let (is_told, popped) = (call.table.seems_logged(), RefCell::new(Vec::new()));
    let tell = |what: &Popped, effect: &mut Effect<'_>| match what {
        Popped::Unnamed => {}
        Popped::One => effect.call("SREM", &[key, &popped.borrow()]),
        Popped::Last => effect.call("DEL", &[key]),
    };
    let done = call.update_telling(
        Kind::Set,
        |old| {
            let Some(old) = old else {
                reply.null();
                return Some((Mutation::Same, Popped::Unnamed));
            };
            let (member, rest) = taken(old.value, |count| call.table.draw_below(count))?;
            reply.bulk(member);
            let Some(rest) = rest else { return Some((Mutation::Gone, Popped::Last)) };
            if is_told {
                popped.borrow_mut().extend_from_slice(member);
            }
            Some((Mutation::Edited(rest), if is_told { Popped::One } else { Popped::Unnamed }))
        },
        tell,
    );
    if done.is_none() {
        reply.rewind(mark);
    }
    done.is_some()
}

/// The member that SPOP has taken.
#[derive(Clone, Copy)]
enum Popped {
    /// One that is not kept, or none.
    Unnamed,
    /// One of several.
    One,
    Last,
}
