//! Commands that the cursor steers: logs and rings.
//!
//! ```text
//!   ARINSERT   puts at cursor + 1, then cursor + 2 ...              the array grows
//!   ARRING     puts at (cursor + 1) modulo the size                 the oldest values are overwritten
//!   ARSEEK     the next insert is at this index; 0 takes the cursor away
//! ```
use super::look::reply_at;
use super::{BAD_INDEX, Edit, SHOWN_MAX, SYNTAX, is, open, position, reply_unsigned, wrong_arity};
use polder_base::number;
use polder_calls::call::{Call, Outcome};
use polder_table::{Stop, Txn};
use polder_values::array::{Draft, INDEX_MAX};

const OVERFLOW: &str = "ERR insert index overflow";

pub(super) fn arinsert(call: &mut Call<'_>) -> Outcome {
    let values = &call.args[2..];
    let mut edit = Edit::open(call)?;
    let first = match edit.draft.cursor() {
        None => 0,
        Some(INDEX_MAX..) => return Err(OVERFLOW.into()),
        Some(cursor) => cursor + 1,
    };
    let last =
        first.checked_add(values.len() as u64 - 1).filter(|last| *last <= INDEX_MAX).ok_or(OVERFLOW)?;
    edit.draft.set_all(call.txn, first, values)?;
    edit.draft.set_cursor(Some(last));
    edit.publish(call, "arinsert")?;
    reply_unsigned(call.reply, last);
    Ok(())
}

pub(super) fn arring(call: &mut Call<'_>) -> Outcome {
    let size = number::integer(call.args[2]).ok_or("ERR invalid size")?;
    let size = u64::try_from(size).ok().filter(|size| *size > 0).ok_or("ERR size must be positive")?;
    let mut edit = Edit::open(call)?;
    reshape(call.txn, &mut edit.draft, size)?;
    let mut at = 0;
    for value in &call.args[3..] {
        at = next(&edit.draft) % size;
        edit.draft.set(call.txn, at, value)?;
        edit.draft.set_cursor(Some(at));
    }
    edit.publish(call, "arring")?;
    reply_unsigned(call.reply, at);
    Ok(())
}

/// The index behind the cursor.
fn next(draft: &Draft) -> u64 {
    draft.cursor().map_or(0, |cursor| cursor + 1)
}

/// Brings the values of a ring into their order from index 0 on where it shrinks, or grows after it has gone round: at most `size` values
/// that stand one before the other, without a hole, up to the cursor. A cursor that was taken away is no reason to do so when it grows.
fn reshape(txn: &Txn<'_>, draft: &mut Draft, size: u64) -> Result<(), Stop> {
    let span = draft.array().len(txn)?;
    let grows_after_round = size > span && draft.cursor().is_some() && next(draft) < span;
    if span == 0 || !(size < span || grows_after_round) {
        return Ok(());
    }
    let most = size.min(span);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut at = draft.cursor().map_or(span - 1, |cursor| cursor % span);
    while (kept.len() as u64) < most
        && let Some(value) = draft.array().get(txn, at)?
    {
        kept.push(value.bytes(txn)?.into_owned());
        at = at.checked_sub(1).unwrap_or(span - 1);
    }
    let values: Vec<&[u8]> = kept.iter().rev().map(Vec::as_slice).collect();
    draft.clear(txn)?;
    draft.set_all(txn, 0, &values)?;
    draft.set_cursor((values.len() as u64).checked_sub(1));
    Ok(())
}

pub(super) fn arnext(call: &mut Call<'_>) -> Outcome {
    let cursor = open(call)?.map_or(Ok(None), |array| array.cursor(call.txn))?;
    match cursor {
        None => call.reply.integer(0),
        Some(INDEX_MAX..) => call.reply.null(),
        Some(cursor) => reply_unsigned(call.reply, cursor + 1),
    }
    Ok(())
}

pub(super) fn arseek(call: &mut Call<'_>) -> Outcome {
    // One more than any index: the cursor is at its end then.
    let index = position(call.args[2]).ok_or(BAD_INDEX)?;
    let Some(mut edit) = Edit::of_existing(call)? else {
        call.reply.integer(0);
        return Ok(());
    };
    edit.draft.set_cursor(index.checked_sub(1));
    edit.publish(call, "arseek")?;
    call.reply.integer(1);
    Ok(())
}

pub(super) fn arlastitems(call: &mut Call<'_>) -> Outcome {
    let count = number::integer(call.args[2]).ok_or("ERR invalid COUNT")?;
    let Some(count) = u64::try_from(count).ok().filter(|count| *count > 0) else {
        call.reply.array(0);
        return Ok(());
    };
    let is_back = match &call.args[3..] {
        [] => false,
        [word] if is(word, "REV") => true,
        [_] => return Err(SYNTAX.into()),
        _ => return Err(wrong_arity(call.command)),
    };
    let Some(array) = open(call)? else {
        call.reply.array(0);
        return Ok(());
    };
    let len = array.len(call.txn)?;
    let count = count.min(len);
    if count > SHOWN_MAX && count > array.count()? {
        return Err(format!("ERR count exceeds maximum of {SHOWN_MAX} items").into());
    }
    let newest = array.cursor(call.txn)?.filter(|cursor| *cursor < len).unwrap_or(len - 1);
    // The position that is `steps` before the newest one, round the end.
    let before = |steps: u64| newest.checked_sub(steps).unwrap_or_else(|| len - (steps - newest));
    call.reply.array(count as usize);
    (0..count).try_for_each(|step| {
        let steps = if is_back { step } else { count - 1 - step };
        reply_at(call, Some(&array), before(steps))
    })
}
