//! The fast paths of GET, MGET, SET, INCR and their relatives (`table/access/read`, `table/access/update`)
//! and of MSET (`table/access/update/several`): packed strings, no options but the time to live of
//! SET, SETEX and PSETEX.
//!
//! **Invariant:** what they reply and leave behind is what the slow paths would; whatever could be refused takes the slow path.
use polder_base::number::Number;
use polder_base::{Reply, number};
use polder_calls::command::{FastCall, FastGroup, SHORT_WORD_MAX};
use polder_table::{Attributes, Counter, Effect, Form, Mutation, Old};
use polder_values::{Kind, PACKED_MAX};
use smallvec::SmallVec;

use super::number_mode;
use super::set::{MILLISECONDS, SECONDS, Unit};

/// Keys of a group that need no allocation.
const FEW: usize = 16;

pub(super) fn get(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let answered = call.table.quick_get(call.location, call.args[1], call.now_ms, |value| match value {
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

pub(super) fn mget(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let (keys, mark, mut hits) = (&call.args[1..], reply.mark(), 0);
    if keys.iter().any(|key| key.len() > SHORT_WORD_MAX) {
        return false;
    }
    reply.array(keys.len());
    let done = call.table.quick_get_all(call.location, keys, call.now_ms, |value| match value {
        Some(bytes) => {
            hits += 1;
            reply.bulk(bytes);
        }
        None => reply.null(),
    });
    if done {
        call.table.count_looks([hits, keys.len() as u64 - hits]);
    } else {
        reply.rewind(mark);
    }
    done
}

pub(super) fn set(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let done = match *call.args {
        [_, key, value] => call.table.quick_set(call.location, key, value, call.now_ms, 1),
        [_, key, value, unit, span] => set_until(call, key, value, Unit::relative(unit), span),
        _ => None,
    };
    if done == Some(true) {
        reply.new_key();
    }
    if done.is_some() {
        reply.ok();
    }
    done.is_some()
}

/// SETs without options that are one transaction.
pub(super) fn set_group(group: &FastGroup<'_>, reply: &mut dyn Reply) -> bool {
    let mut words = SmallVec::<[&[u8]; 2 * FEW]>::new();
    for call in group.calls {
        let &[_, key, value] = *call else { return false };
        words.extend([key, value]);
    }
    if reply.hears_of_new_keys() {
        return false;
    }
    let Some(location) = words.first().and_then(|key| group.table.location(group.db, key)) else {
        return false;
    };
    let done = group.table.quick_set_each(&location, &words, (group.now_ms, group.counted));
    if done {
        group.calls.iter().for_each(|_| reply.ok());
    }
    done
}

pub(super) fn setex(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    set_for(call, SECONDS, reply)
}

pub(super) fn psetex(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    set_for(call, MILLISECONDS, reply)
}

fn set_for(call: &FastCall<'_>, unit: Unit, reply: &mut dyn Reply) -> bool {
    let &[_, key, span, value] = call.args else { return false };
    let done = set_until(call, key, value, Some(unit), span).is_some();
    if done {
        reply.ok();
    }
    done
}

/// Gives a key a string and an expiry; returns whether the key is a new one.
#[inline(always)]
fn set_until(call: &FastCall<'_>, key: &[u8], value: &[u8], unit: Option<Unit>, span: &[u8]) -> Option<bool> {
    let until = unit.and_then(|unit| unit.until(span, call.exact_ms()))?;
    call.table.quick_set_with(call.location, key, value, Attributes::expiring(Some(until)), (call.now_ms, 1))
}

pub(super) fn mset(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let done = call.table.quick_set_all(call.location, &call.args[1..], call.now_ms);
    if done {
        reply.ok();
    }
    done
}

pub(super) fn incr(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    add(call, 1, reply)
}

pub(super) fn decr(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    add(call, -1, reply)
}

pub(super) fn incrby(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    number::integer(call.args[2]).is_some_and(|by| add(call, by, reply))
}

fn add(call: &FastCall<'_>, by: i64, reply: &mut dyn Reply) -> bool {
    let (key, mut texts) = (call.args[1], [itoa::Buffer::new(), itoa::Buffer::new()]);
    let [plain, other] = &mut texts;
    let sum = call.table.edit_plain(
        call.location,
        key,
        (call.now_ms, 1),
        |old| {
            let sum = number::integer(old)?.checked_add(by)?;
            Some((plain.format(sum).as_bytes(), Some(sum)))
        },
        |effect| call.tell(effect),
    );
    let sum = sum.or_else(|| {
        call.table.quick_edit(
            call.location,
            key,
            (call.now_ms, 1),
            |old| match old.map_or(Some(0), number::integer).and_then(|old| old.checked_add(by)) {
                Some(sum) => (Some(other.format(sum).as_bytes()), Some(sum)),
                None => (None, None),
            },
            |_, effect| call.tell(effect),
        )
    });
    let Some(Some(sum)) = sum else { return false };
    reply.integer(sum);
    true
}

/// A packed string is shorter than any limit that `proto-max-bulk-len` can be.
pub(super) fn append(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, _, more] = call.args else { return false };
    let len = call.update(Kind::String, |old| match old {
        Some(old) => Some((
            Mutation::Text { kept: old.value, added: more, form: Form::Raw },
            old.value.len() + more.len(),
        )),
        None if more.len() <= PACKED_MAX => Some((Mutation::String(more, Attributes::NONE), more.len())),
        None => None,
    });
    len.map(|len| reply.integer(len as i64)).is_some()
}

pub(super) fn incrbyfloat(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let (&[_, key, by], mode) = (call.args, number_mode(call.settings)) else { return false };
    let Some(by) = Number::parse(mode, by) else { return false };
    let mut text = None;
    let slot = &mut text;
    let tell = |(sum, kept): &(&[u8], Attributes), effect: &mut Effect<'_>| match kept.flags {
        0 => effect.call("SET", &[key, sum, b"KEEPTTL"]),
        // SET would not keep flags.
        _ => effect.set(key, sum, *kept),
    };
    let done = call.update_telling(
        Kind::String,
        |old| {
            let kept =
                old.map_or(Attributes::NONE, |Old { expiry_ms, flags, .. }| Attributes { expiry_ms, flags });
            let old = old.map_or(Some(Number::zero(mode)), |old| Number::parse(mode, old.value))?;
            let sum = slot.insert(old.sum_text(by)?).as_bytes();
            // Redis keeps an integer that it has come to in this way as text.
            let form = if number::integer(sum).is_some() { Form::Text } else { Form::Plain };
            Some((Mutation::Text { kept: &[], added: sum, form }, (sum, kept)))
        },
        tell,
    );
    done.map(|(sum, _)| reply.bulk(sum)).is_some()
}

pub(super) fn getdel(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let (&[_, key], mark) = (call.args, reply.mark()) else { return false };
    let found = call.update_telling(
        Kind::String,
        |old| {
            let Some(old) = old else {
                reply.null();
                return Some((Mutation::Same, Counter::Misses));
            };
            reply.bulk(old.value);
            Some((Mutation::Gone, Counter::Hits))
        },
        |_, effect| effect.call("DEL", &[key]),
    );
    match found {
        Some(found) => call.table.count(found, 1),
        None => reply.rewind(mark),
    }
    found.is_some()
}
