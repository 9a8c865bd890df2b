//! Commands that put values at indexes, and take them away.
use super::{Edit, Range, index, indexes, reply_unsigned, wrong_arity};
use polder_calls::call::{Call, Outcome};
use polder_values::array::INDEX_MAX;

pub(super) fn arset(call: &mut Call<'_>) -> Outcome {
    let (first, values) = (index(call.args[2])?, &call.args[3..]);
    if INDEX_MAX - first < values.len() as u64 - 1 {
        return Err("ERR array index overflow".into());
    }
    let mut edit = Edit::open(call)?;
    edit.draft.set_all(call.txn, first, values)?;
    let added = edit.added()?;
    edit.publish(call, "arset")?;
    reply_unsigned(call.reply, added);
    Ok(())
}

pub(super) fn armset(call: &mut Call<'_>) -> Outcome {
    let (pairs, []) = call.args[2..].as_chunks::<2>() else { return Err(wrong_arity(call.command)) };
    let indexes = pairs.iter().map(|[at, _]| index(at)).collect::<Result<Vec<_>, _>>()?;
    let mut edit = Edit::open(call)?;
    for (index, [_, value]) in indexes.into_iter().zip(pairs) {
        edit.draft.set(call.txn, index, value)?;
    }
    let added = edit.added()?;
    edit.publish(call, "armset")?;
    reply_unsigned(call.reply, added);
    Ok(())
}

pub(super) fn ardel(call: &mut Call<'_>) -> Outcome {
    let indexes = indexes(&call.args[2..])?;
    let (mut edit, mut deleted) = (Edit::open(call)?, 0);
    for index in indexes {
        deleted += u64::from(edit.draft.remove(call.txn, index)?);
    }
    if deleted > 0 {
        edit.publish(call, "ardel")?;
    }
    reply_unsigned(call.reply, deleted);
    Ok(())
}

pub(super) fn ardelrange(call: &mut Call<'_>) -> Outcome {
    let (pairs, []) = call.args[2..].as_chunks::<2>() else { return Err(wrong_arity(call.command)) };
    let ranges = pairs.iter().map(|[start, end]| Range::read(start, end)).collect::<Result<Vec<_>, _>>()?;
    let (mut edit, mut deleted) = (Edit::open(call)?, 0);
    for Range { low, high, .. } in ranges {
        deleted += edit.draft.remove_range(call.txn, low, high)?;
    }
    if deleted > 0 {
        edit.publish(call, "ardelrange")?;
    }
    reply_unsigned(call.reply, deleted);
    Ok(())
}
