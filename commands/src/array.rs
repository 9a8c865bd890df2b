//! Arrays (Redis 8.8): strings under indexes of 64 bits with holes between them, and a cursor for ARINSERT and ARRING.
//!
//! The names, arities, replies and error texts are Redis's. How an array is laid out is our own: a counted tree sorted by the index, so
//! each look takes O(log n), and what stands in no index takes no memory however great the gaps are.
use polder_base::aside::frame;
use polder_base::number::unsigned;
use polder_base::{Fault, Reply};
use polder_table::{Aside, Found, New, Replaces, Stop};
use polder_values::Kind;
use polder_values::array::{Array, Draft, INDEX_MAX, Item, Items};

use crate::collection::reply_part;
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is, wrong_arity};
use polder_calls::command::{Command, FAST, GROWS, read, write};
use polder_calls::facts::Tells::Own;

mod edit;
mod look;
mod ring;
mod search;

const LOOKS: &[&str] = &["RO"];
const UPDATES: &[&str] = &["RW update"];
const DELETES: &[&str] = &["RW delete"];

/// The way in which a change is told: stock servers of other versions pass it over.
const TOLD: &str = "the call itself in a text of ECHO";
const SINCE: &str = "8.8.0";
const EACH: &str =
    "O(N*log(M)) where N is the number of indexes given and M the number of values in the array.";
const PUT: &str = "O(N*log(M)) where N is the number of values given and M that in the array.";
const WALK: &str =
    "O(log(M)+N) where M is the number of values in the array and N that of values in the range.";

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    read("ARCOUNT", "key", look::arcount)
        .with(FAST)
        .touches(LOOKS)
        .since(SINCE)
        .about("Returns the number of values in an array."),
    write("ARDEL", "key index [index ...]", edit::ardel)
        .tells(Own(TOLD))
        .with(FAST)
        .touches(DELETES)
        .since(SINCE)
        .costs(EACH)
        .about("Deletes the values at indexes of an array. Deletes the array if no value remains."),
    write("ARDELRANGE", "key start end [start end ...]", edit::ardelrange)
        .tells(Own(TOLD))
        .touches(DELETES)
        .since(SINCE)
        .costs("O(N*log(M)+K) where N is the number of ranges, M the number of values in the array and K that of values deleted.")
        .about("Deletes the values in ranges of indexes of an array. Deletes the array if no value remains."),
    read("ARGET", "key index", look::arget)
        .with(FAST)
        .since(SINCE)
        .costs("O(log(M)) where M is the number of values in the array.")
        .about("Returns the value at an index of an array."),
    read("ARGETRANGE", "key start end", look::argetrange)
        .since(SINCE)
        .costs("O(log(M)+N) where M is the number of values in the array and N the length of the range.")
        .about("Returns what stands at each index of a range, null where nothing does; backwards if the range begins behind its end."),
    read(
        "ARGREP",
        "key start end <EXACT string|MATCH string|GLOB pattern|RE pattern> [EXACT string|MATCH string|GLOB pattern|RE pattern ...] \
         [AND|OR] [LIMIT limit] [WITHVALUES] [NOCASE]",
        search::argrep,
    )
    .since(SINCE)
    .costs("O(log(M)+N*C) where M is the number of values in the array, N that of values in the range and C the cost of the predicates on one value.")
    .about("Returns the indexes of values that are equal to a text, contain it, or match a pattern or a regular expression."),
    read("ARINFO", "key [FULL]", look::arinfo)
        .touches(LOOKS)
        .since(SINCE)
        .costs("O(log(M)) where M is the number of values in the array; O(M) with FULL.")
        .about("Returns information about an array."),
    write("ARINSERT", "key value [value ...]", ring::arinsert)
        .tells(Own(TOLD))
        .with(GROWS | FAST)
        .touches(UPDATES)
        .since(SINCE)
        .costs(PUT)
        .about("Puts values at the cursor of an array, which moves behind them. Creates the key if it doesn't exist."),
    read("ARLASTITEMS", "key count [REV]", ring::arlastitems)
        .since(SINCE)
        .costs("O(N*log(M)) where N is the number of values returned and M that in the array.")
        .about("Returns the values that were inserted last."),
    read("ARLEN", "key", look::arlen)
        .with(FAST)
        .touches(LOOKS)
        .since(SINCE)
        .costs("O(log(M)) where M is the number of values in the array.")
        .about("Returns the greatest index of an array that holds a value, and one."),
    read("ARMGET", "key index [index ...]", look::armget)
        .since(SINCE)
        .costs(EACH)
        .about("Returns the values at indexes of an array, null where there is none."),
    write("ARMSET", "key index value [index value ...]", edit::armset)
        .tells(Own(TOLD))
        .with(GROWS)
        .touches(UPDATES)
        .since(SINCE)
        .costs(PUT)
        .about("Puts values at indexes of an array. Creates the key if it doesn't exist."),
    read("ARNEXT", "key", ring::arnext)
        .with(FAST)
        .touches(LOOKS)
        .since(SINCE)
        .costs("O(log(M)) where M is the number of values in the array.")
        .about("Returns the index at which ARINSERT would put a value."),
    read("AROP", "key start end <SUM|MIN|MAX|AND|OR|XOR|USED|MATCH> [value]", search::arop)
        .since(SINCE)
        .costs(WALK)
        .about("Combines the values of a range of an array: their sum, least, greatest, bitwise operations, or how many there are or are equal to a text."),
    write("ARRING", "key size value [value ...]", ring::arring)
        .tells(Own(TOLD))
        .with(GROWS | FAST)
        .touches(UPDATES)
        .since(SINCE)
        .costs("O(N*log(M)) where N is the number of values given and M that in the array; O(N+M) where the size is another one than before.")
        .about("Puts values into an array that is a ring of a size: behind the last index comes the first."),
    read("ARSCAN", "key start end [LIMIT limit]", look::arscan)
        .since(SINCE)
        .costs(WALK)
        .about("Returns the values of a range of an array with their indexes, without holes; backwards if the range begins behind its end."),
    write("ARSEEK", "key index", ring::arseek)
        .tells(Own(TOLD))
        .with(FAST)
        .touches(UPDATES)
        .since(SINCE)
        .costs("O(log(M)) where M is the number of values in the array.")
        .about("Moves the cursor of an array."),
    write("ARSET", "key index value [value ...]", edit::arset)
        .tells(Own(TOLD))
        .with(GROWS | FAST)
        .touches(UPDATES)
        .since(SINCE)
        .costs(PUT)
        .about("Puts values at an index of an array and behind it. Creates the key if it doesn't exist."),
];

/// Positions that one reply shows at most where most of them may be holes.
const SHOWN_MAX: u64 = 1_000_000;

const BAD_INDEX: &str = "ERR invalid array index";

/// The index that an argument is.
fn index(arg: &[u8]) -> Result<u64, Stop> {
    position(arg).filter(|index| *index <= INDEX_MAX).ok_or_else(|| BAD_INDEX.into())
}

/// The number of 64 bits without a sign that an argument is, in its only form.
fn position(arg: &[u8]) -> Option<u64> {
    unsigned(arg).filter(|_| arg.len() == 1 || arg[0] != b'0')
}

fn indexes(args: &[&[u8]]) -> Result<Vec<u64>, Stop> {
    args.iter().map(|arg| index(arg)).collect()
}

/// Replies with a number without a sign: what no integer of the protocol holds is a string, as in Redis.
fn reply_unsigned(reply: &mut dyn Reply, number: u64) {
    match i64::try_from(number) {
        Ok(number) => reply.integer(number),
        Err(_) => reply.bulk(number.to_string().as_bytes()),
    }
}

/// The array that the call's key holds, if it is there.
fn open<'c>(call: &Call<'c>) -> Result<Option<Array<'c>>, Stop> {
    Ok(call.find_kind(call.args[1], Kind::Array)?.map(|found| Array::of(&found.value)))
}

/// A range of indexes, which may begin behind its end and then runs backwards.
#[derive(Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    is_back: bool,
}

impl Range {
    fn of(start: u64, end: u64) -> Range {
        Range { low: start.min(end), high: start.max(end), is_back: start > end }
    }

    /// The range of two arguments.
    fn read(start: &[u8], end: &[u8]) -> Result<Range, Stop> {
        Ok(Range::of(index(start)?, index(end)?))
    }

    /// The values of an array in it, in its direction.
    fn items<'c>(self, call: &Call<'c>, array: &Array<'c>) -> Result<Items<'c>, Fault> {
        if self.is_back {
            array.items_back(call.txn, self.low, self.high)
        } else {
            array.items(call.txn, self.low, self.high)
        }
    }
}

/// Replies with pairs of an index and its value.
fn reply_pairs(call: &mut Call<'_>, items: &[Item<'_>]) -> Outcome {
    call.reply.array(items.len());
    for item in items {
        call.reply.array(2);
        reply_unsigned(call.reply, item.index);
        reply_part(call.reply, call.txn, &item.value)?;
    }
    Ok(())
}

/// An array that a command changes.
struct Edit<'c> {
    key: &'c [u8],
    found: Option<Found<'c>>,
    draft: Draft,
    /// Values before the change.
    before: u64,
}

impl<'c> Edit<'c> {
    /// The array of the call's key; an absent key is an empty one.
    ///
    /// # Errors
    /// WRONGTYPE when the key holds another kind.
    fn open(call: &Call<'c>) -> Result<Edit<'c>, Stop> {
        let key = call.args[1];
        let found = call.find_kind(key, Kind::Array)?;
        let draft = match &found {
            Some(found) => Draft::of(call.txn, &found.value)?,
            None => Draft::empty(),
        };
        let before = draft.count()?;
        Ok(Edit { key, found, draft, before })
    }

    /// Opens the array of a key that is there.
    fn of_existing(call: &Call<'c>) -> Result<Option<Edit<'c>>, Stop> {
        let edit = Edit::open(call)?;
        Ok(Some(edit).filter(|edit| edit.found.is_some()))
    }

    /// Values that are there now and were not before.
    fn added(&self) -> Result<u64, Stop> {
        Ok(self.draft.count()?.saturating_sub(self.before))
    }

    /// Publishes what has become of the array, and tells that it was `event`.
    fn publish(mut self, call: &Call<'_>, event: &'static str) -> Outcome {
        let (txn, key) = (call.txn, self.key);
        if call.tells_itself() {
            let words = [&[call.command.name.as_bytes()][..], &call.args[1..]].concat();
            txn.tell_aside(call.db(), &Aside::Call { words: &frame(&words) });
        }
        call.notify('a', event, key);
        if self.draft.count()? == 0 {
            self.draft.clear(txn)?;
            txn.remove(call.db(), key, Replaces::Edited)?;
            call.notify('g', "del", key);
            return Ok(());
        }
        txn.announce_arrays();
        let value = self.draft.value(txn)?;
        match self.found {
            Some(found) => call.edit(key, &New { value, ..New::from(found) }),
            None => call.put(key, &New::of(Kind::Array, value)),
        }
    }
}

/// The count behind the word LIMIT.
fn limit(arg: &[u8]) -> Result<usize, Stop> {
    match integer(arg)? {
        ..=0 => Err("ERR LIMIT must be positive".into()),
        limit => Ok(limit as usize),
    }
}
