//! Looking at lists.
use polder_base::number;
use polder_table::Stop;
use polder_values::list;
use polder_values::sequence::ByRank;

use super::{Held, find, positive, range, reversible};
use crate::collection::{reply_element, reply_elements};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};

pub(super) fn llen(call: &mut Call<'_>) -> Outcome {
    let held = find(call, call.args[1])?;
    call.reply.integer(held.map_or(0, |held| held.count as i64));
    Ok(())
}

pub(super) fn lindex(call: &mut Call<'_>) -> Outcome {
    let Some(held) = find(call, call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    let rank = held.rank(integer(call.args[2])?);
    let mut elements = held.elements.by_rank(call.txn)?;
    reply_at(call, &mut elements, rank)
}

/// For as many calls as name an index.
pub(super) fn lindex_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let Some(held) = find(call, call.args[1])? else { return Ok(0) };
    let mut elements = held.elements.by_rank(call.txn)?;
    let indices = calls.iter().map_while(|args| number::integer(args[2]));
    indices
        .map(|index| reply_at(call, &mut elements, held.rank(index)))
        .try_fold(0, |done, outcome| outcome.map(|()| done + 1))
}

/// Replies with the element of a rank, or with null where there is none.
fn reply_at(call: &mut Call<'_>, elements: &mut ByRank<'_>, rank: Option<u64>) -> Outcome {
    match rank.map(|rank| elements.at(rank)).transpose()?.flatten() {
        Some(element) => reply_element(call.reply, call.txn, &element)?,
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn lrange(call: &mut Call<'_>) -> Outcome {
    let (start, stop) = (integer(call.args[2])?, integer(call.args[3])?);
    let Some(held) = find(call, call.args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    let (from, upto) = range(start, stop, held.count);
    call.reply.array((upto - from) as usize);
    reply_elements(call.reply, call.txn, &held.elements, from, upto - from)
}

/// What LPOS looks for.
struct Search<'s> {
    element: &'s [u8],
    /// Matches to skip, and whether the search goes backwards.
    skip: u64,
    back: bool,
    /// Matches wanted; none: one, which is the whole reply.
    count: Option<u64>,
    /// Elements to look at.
    most: u64,
}

impl<'s> Search<'s> {
    fn of(args: &[&'s [u8]]) -> Result<Search<'s>, Stop> {
        let mut search = Search { element: args[2], skip: 0, back: false, count: None, most: u64::MAX };
        let (options, rest) = args[3..].as_chunks();
        for [name, value] in options {
            if is(name, "RANK") {
                let rank = reversible(value)?;
                if rank == 0 {
                    return Err("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
                                start from the end of the list"
                        .into());
                }
                (search.skip, search.back) = (rank.unsigned_abs() - 1, rank < 0);
            } else if is(name, "COUNT") {
                search.count = Some(positive(value, "ERR COUNT can't be negative")?);
            } else if is(name, "MAXLEN") {
                let most = positive(value, "ERR MAXLEN can't be negative")?;
                search.most = if most == 0 { u64::MAX } else { most };
            } else {
                return Err(SYNTAX.into());
            }
        }
        if rest.is_empty() { Ok(search) } else { Err(SYNTAX.into()) }
    }

    /// The ranks of the matches, as the reply has them.
    fn run(&self, call: &Call<'_>, held: &Held<'_>) -> Result<Vec<u64>, Stop> {
        let wanted = match self.count {
            None => 1,
            Some(0) => u64::MAX,
            Some(count) => count,
        };
        let (mut ranks, mut skip) = (Vec::new(), self.skip);
        let mut look = |rank: u64, element| -> Result<bool, Stop> {
            if list::is(call.txn, &element, self.element)? {
                match skip.checked_sub(1) {
                    Some(less) => skip = less,
                    None => ranks.push(rank),
                }
            }
            Ok((ranks.len() as u64) < wanted)
        };
        let most = self.most.min(held.count) as usize;
        if self.back {
            for (at, element) in held.elements.iter_back(call.txn, held.count - 1).take(most).enumerate() {
                if !look(held.count - 1 - at as u64, element?)? {
                    break;
                }
            }
        } else {
            for (rank, element) in held.elements.iter(call.txn, 0).take(most).enumerate() {
                if !look(rank as u64, element?)? {
                    break;
                }
            }
        }
        Ok(ranks)
    }
}

pub(super) fn lpos(call: &mut Call<'_>) -> Outcome {
    let search = Search::of(call.args)?;
    let ranks = match find(call, call.args[1])? {
        Some(held) => search.run(call, &held)?,
        None => Vec::new(),
    };
    if search.count.is_some() {
        call.reply.array(ranks.len());
        ranks.iter().for_each(|rank| call.reply.integer(*rank as i64));
    } else {
        match ranks.first() {
            Some(rank) => call.reply.integer(*rank as i64),
            None => call.reply.null(),
        }
    }
    Ok(())
}
