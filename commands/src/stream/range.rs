//! XLEN, XRANGE, XREVRANGE.
use polder_table::Stop;
use polder_values::stream::Range;

use super::{find, id, reply_range};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};

pub(super) fn xlen(call: &mut Call<'_>) -> Outcome {
    let len = find(call, call.args[1])?.map_or(0, |(_, stream)| stream.len());
    call.reply.integer(len as i64);
    Ok(())
}

pub(super) fn xrange(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.args[2], call.args[3]);
    reply(call, start, end, false)
}

pub(super) fn xrevrange(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.args[3], call.args[2]);
    reply(call, start, end, true)
}

fn reply(call: &mut Call<'_>, start: &[u8], end: &[u8], back: bool) -> Outcome {
    let (start, end) = (id::start(start)?, id::end(end)?);
    let limit = limit(&call.args[4..])?;
    let Some((_, stream)) = find(call, call.args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    if limit == Some(0) {
        call.reply.null_array();
        return Ok(());
    }
    reply_range(call.reply, &stream, &Range { start, end, back, limit: limit.unwrap_or(u64::MAX) })
}

/// What COUNT says, the last one if it is there more than once; -1 would be all, and any other negative number is none.
fn limit(options: &[&[u8]]) -> Result<Option<u64>, Stop> {
    let mut limit = None;
    for option in options.chunks(2) {
        match option {
            [word, count] if is(word, "COUNT") => limit = Some(u64::try_from(integer(count)?).unwrap_or(0)),
            _ => return Err(SYNTAX.into()),
        }
    }
    Ok(limit)
}
