//! The short ways of GET, SET and INCR (`table::quick`): a short string, no options, nobody in the way.
//!
//! **Invariant:** what they answer and leave behind is what the long ways would; whatever could be refused goes the long way.
use polder_base::{Reply, number};
use polder_table::{Counter, Sight, Table};

pub(super) fn get(table: &Table, sight: &Sight, args: &[&[u8]], now_ms: u64, reply: &mut dyn Reply) -> bool {
    let answered = table.quick_get(sight, args[1], now_ms, |value| match value {
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
        table.count_call(counter);
    }
    answered.is_some()
}

pub(super) fn set(table: &Table, sight: &Sight, args: &[&[u8]], now_ms: u64, reply: &mut dyn Reply) -> bool {
    let [_, key, value] = args else { return false };
    let done = table.quick_edit(sight, key, now_ms, 1, |_| (Some(*value), ())).is_some();
    if done {
        reply.ok();
    }
    done
}

pub(super) fn incr(table: &Table, sight: &Sight, args: &[&[u8]], now_ms: u64, reply: &mut dyn Reply) -> bool {
    add(table, sight, args[1], 1, now_ms, reply)
}

pub(super) fn decr(table: &Table, sight: &Sight, args: &[&[u8]], now_ms: u64, reply: &mut dyn Reply) -> bool {
    add(table, sight, args[1], -1, now_ms, reply)
}

pub(super) fn incrby(table: &Table, sight: &Sight, args: &[&[u8]], now_ms: u64, reply: &mut dyn Reply) -> bool {
    number::integer(args[2]).is_some_and(|by| add(table, sight, args[1], by, now_ms, reply))
}

fn add(table: &Table, sight: &Sight, key: &[u8], by: i64, now_ms: u64, reply: &mut dyn Reply) -> bool {
    let mut text = itoa::Buffer::new();
    let sum = table.quick_edit(sight, key, now_ms, 1, |old| {
        let old = old.map_or(Some(0), number::integer);
        match old.and_then(|old| old.checked_add(by)) {
            Some(sum) => (Some(text.format(sum).as_bytes()), Some(sum)),
            None => (None, None),
        }
    });
    let Some(Some(sum)) = sum else { return false };
    reply.integer(sum);
    true
}
