//! Commands that read arrays.
use super::{
    Range, SHOWN_MAX, SYNTAX, index, indexes, is, limit, open, reply_pairs, reply_unsigned, wrong_arity,
};
use crate::collection::reply_part;
use polder_calls::call::{Call, Outcome};
use polder_values::array::{Array, INDEX_MAX};

pub(super) fn arget(call: &mut Call<'_>) -> Outcome {
    let array = open(call)?;
    let at = index(call.args[2])?;
    reply_at(call, array.as_ref(), at)
}

/// Replies with what stands at an index, null where nothing does.
pub(super) fn reply_at<'c>(call: &mut Call<'c>, array: Option<&Array<'c>>, index: u64) -> Outcome {
    let value = match array {
        Some(array) => array.get(call.txn, index)?,
        None => None,
    };
    match value {
        Some(value) => reply_part(call.reply, call.txn, &value),
        None => {
            call.reply.null();
            Ok(())
        }
    }
}

pub(super) fn armget(call: &mut Call<'_>) -> Outcome {
    let (array, indexes) = (open(call)?, indexes(&call.args[2..])?);
    call.reply.array(indexes.len());
    indexes.into_iter().try_for_each(|index| reply_at(call, array.as_ref(), index))
}

pub(super) fn argetrange(call: &mut Call<'_>) -> Outcome {
    let range = Range::read(call.args[2], call.args[3])?;
    let array = open(call)?;
    let length = range.high - range.low + 1;
    if length > SHOWN_MAX {
        return Err(format!("ERR range exceeds maximum of {SHOWN_MAX} items").into());
    }
    call.reply.array(length as usize);
    let mut shown = 0;
    if let Some(array) = &array {
        for item in range.items(call, array)? {
            let item = item?;
            let at = if range.is_back { range.high - item.index } else { item.index - range.low };
            (shown..at).for_each(|_| call.reply.null());
            reply_part(call.reply, call.txn, &item.value)?;
            shown = at + 1;
        }
    }
    (shown..length).for_each(|_| call.reply.null());
    Ok(())
}

pub(super) fn arscan(call: &mut Call<'_>) -> Outcome {
    let range = Range::read(call.args[2], call.args[3])?;
    let most = match &call.args[4..] {
        [] => usize::MAX,
        [word, most] if is(word, "LIMIT") => limit(most)?,
        [_, _] => return Err(SYNTAX.into()),
        _ => return Err(wrong_arity(call.command)),
    };
    let items = match open(call)? {
        Some(array) => range.items(call, &array)?.take(most).collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
    };
    reply_pairs(call, &items)
}

pub(super) fn arcount(call: &mut Call<'_>) -> Outcome {
    let count = open(call)?.map_or(Ok(0), |array| array.count())?;
    reply_unsigned(call.reply, count);
    Ok(())
}

pub(super) fn arlen(call: &mut Call<'_>) -> Outcome {
    let len = open(call)?.map_or(Ok(0), |array| array.len(call.txn))?;
    reply_unsigned(call.reply, len);
    Ok(())
}

/// The names are Redis's. Of its layout in slices there is nothing here: the leaves of the tree stand for them.
pub(super) fn arinfo(call: &mut Call<'_>) -> Outcome {
    let is_full = match &call.args[2..] {
        [] => false,
        [word] if is(word, "FULL") => true,
        _ => return Err(SYNTAX.into()),
    };
    let array = open(call)?.ok_or("ERR no such key")?;
    let (nodes, count) = (call.txn, array.count()?);
    let next = match array.cursor(nodes)? {
        None | Some(INDEX_MAX) => 0,
        Some(cursor) => cursor + 1,
    };
    let leaves = array.leaves(nodes)?;
    let plain = [
        ("count", count),
        ("len", array.len(nodes)?),
        ("next-insert-index", next),
        ("slices", leaves),
        ("directory-size", 0),
        ("super-dir-entries", 0),
        ("slice-size", 0),
    ];
    call.reply.map(if is_full { plain.len() + 5 } else { plain.len() });
    for (name, number) in plain {
        call.reply.bulk(name.as_bytes());
        reply_unsigned(call.reply, number);
    }
    if is_full {
        for (name, number) in [("dense-slices", leaves), ("sparse-slices", 0)] {
            call.reply.bulk(name.as_bytes());
            reply_unsigned(call.reply, number);
        }
        let average = if leaves == 0 { 0.0 } else { count as f64 / leaves as f64 };
        for (name, number) in [("avg-dense-size", average), ("avg-dense-fill", 1.0), ("avg-sparse-size", 0.0)]
        {
            call.reply.bulk(name.as_bytes());
            call.reply.double(number);
        }
    }
    Ok(())
}
