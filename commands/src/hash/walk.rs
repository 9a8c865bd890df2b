//! Random picks from a hash, and walks through it by cursor.
use polder_base::Protocol;
use polder_table::Stop;
use polder_values::Kind;
use polder_values::hash::{Encoding, Field, Hash, encoding};
use polder_values::order::member_word;

use super::open;
use crate::collection::{Scan, draw_ranks, reply_part};
use crate::database::cursor;
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};

/// How many elements a command is to pick.
///
/// # Errors
/// Redis's texts; `i64::MIN` has no opposite.
pub(crate) fn count(arg: &[u8]) -> Result<i64, Stop> {
    match integer(arg)? {
        i64::MIN => {
            Err("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
                .into())
        }
        count => Ok(count),
    }
}

/// The fields of a hash that are there, by number.
struct Living<'c> {
    hash: Hash<'c>,
    len: u64,
    /// Their ranks, where others have expired.
    ranks: Option<Vec<u64>>,
}

impl<'c> Living<'c> {
    fn of(call: &Call<'c>, hash: Hash<'c>) -> Result<Living<'c>, Stop> {
        let txn = call.txn;
        if hash.expired(txn, || txn.field_clock_ms())? == 0 {
            return Ok(Living { hash, len: hash.count()?, ranks: None });
        }
        let mut ranks = Vec::new();
        for (rank, field) in (0..).zip(hash.iter(txn, 0)) {
            if field?.lives(|| txn.field_clock_ms()) {
                ranks.push(rank);
            }
        }
        Ok(Living { hash, len: ranks.len() as u64, ranks: Some(ranks) })
    }

    fn at(&self, call: &Call<'c>, number: u64) -> Result<Option<Field<'c>>, Stop> {
        let rank = self.ranks.as_ref().map_or(number, |ranks| ranks[number as usize]);
        Ok(self.hash.at(call.txn, rank)?)
    }
}

pub(super) fn hrandfield(call: &mut Call<'_>) -> Outcome {
    let (wanted, with_values) = match &call.args[2..] {
        [] => (None, false),
        [wanted] => (Some(count(wanted)?), false),
        [wanted, word] => {
            let wanted = count(wanted)?;
            if !is(word, "WITHVALUES") {
                return Err(SYNTAX.into());
            }
            if !(-i64::MAX / 2..=i64::MAX / 2).contains(&wanted) {
                return Err("ERR value is out of range".into());
            }
            (Some(wanted), true)
        }
        [wanted, ..] => {
            count(wanted)?;
            return Err(SYNTAX.into());
        }
    };
    let living = open(call)?.map(|hash| Living::of(call, hash)).transpose()?.filter(|living| living.len > 0);
    match (wanted, living) {
        (None, None) => call.reply.null(),
        (Some(_), None) => call.reply.array(0),
        (None, Some(living)) => {
            let field = living.at(call, call.table.draw_below(living.len))?;
            return show(call, field, false);
        }
        (Some(wanted), Some(living)) => return pick(call, &living, wanted, with_values),
    }
    Ok(())
}

/// Replies with `wanted` different fields; if it is negative, with as many that may be the same.
fn pick<'c>(call: &mut Call<'c>, living: &Living<'c>, wanted: i64, with_values: bool) -> Outcome {
    let len = if wanted < 0 { wanted.unsigned_abs() } else { living.len.min(wanted as u64) };
    let flat = with_values && call.reply.protocol() == Protocol::Resp2;
    call.reply.array(if flat { len * 2 } else { len } as usize);
    if wanted < 0 {
        for _ in 0..len {
            let field = living.at(call, call.table.draw_below(living.len))?;
            show(call, field, with_values)?;
            if call.reply.is_overfull() {
                break;
            }
        }
    } else if len == living.len && living.ranks.is_none() {
        for field in living.hash.iter(call.txn, 0) {
            show(call, Some(field?), with_values)?;
        }
    } else {
        for number in draw_ranks(call.table, len, living.len) {
            let field = living.at(call, number)?;
            show(call, field, with_values)?;
        }
    }
    Ok(())
}

fn show(call: &mut Call<'_>, field: Option<Field<'_>>, with_value: bool) -> Outcome {
    let Some(field) = field else {
        call.reply.null();
        return Ok(());
    };
    if with_value && call.reply.protocol() == Protocol::Resp3 {
        call.reply.array(2);
    }
    reply_part(call.reply, call.txn, &field.name())?;
    if with_value { reply_part(call.reply, call.txn, &field.value()) } else { Ok(()) }
}

pub(super) fn hscan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor(call.args[2])?;
    let Some(found) = call.find_kind(call.args[1], Kind::Hash)? else {
        call.reply.array(2);
        call.reply.bulk(b"0");
        call.reply.array(0);
        return Ok(());
    };
    let (txn, scan, hash) = (call.txn, Scan::read(cursor, &call.args[3..], true)?, Hash::of(&found.value));
    // As in Redis, a small one comes as a whole.
    let whole = encoding(&found.value) != Encoding::Hashtable || !hash.is_tree();
    let from = if whole { 0 } else { hash.rank_of_word(txn, scan.first_word())? };
    let (mut shown, mut seen, mut last, mut next) = (Vec::new(), 0, 0, 0);
    for field in hash.iter(txn, from) {
        let field = field?;
        let name = field.name().bytes(txn)?;
        if !whole {
            let word = member_word(&name);
            if let Some(cursor) = scan.stops_at(seen, last, word) {
                next = cursor;
                break;
            }
            (seen, last) = (seen + 1, word);
        }
        if scan.shows(&name) && field.lives(|| txn.field_clock_ms()) {
            shown.push(field);
        }
    }
    call.reply.array(2);
    call.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    call.reply.array(if scan.names_only { shown.len() } else { shown.len() * 2 });
    for field in shown {
        reply_part(call.reply, txn, &field.name())?;
        if !scan.names_only {
            reply_part(call.reply, txn, &field.value())?;
        }
    }
    Ok(())
}
