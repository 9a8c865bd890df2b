//! SORT and SORT_RO: the elements of a list, set or sorted set, in the order of themselves or of what other keys say of them.
//!
//! ```text
//!   elements --(BY)--> what each is compared by --> sorted --> LIMIT --(GET)--> reply, or STORE
//!            BY or GET pattern: `weight_*` is the string at that key with `*` replaced by the element, `user_*->age` a field of the hash there,
//!            `#` the element itself
//! ```
//!
//! A BY pattern without `*` means that nothing is sorted; what LIMIT asks for is then read from the
//! nodes directly. The keys that the patterns lead to are not among the call's arguments: the
//! transaction reads them as it finds them, and a user that may not read every key may not use
//! patterns. Without STORE nothing is written, so nothing is locked.
use std::borrow::Cow;
use std::cmp::Ordering;

use polder_base::{Fault, number};
use polder_table::{Found, New, Stop, Txn};
use polder_values::hash::Hash;
use polder_values::list::{Draft, Limit};
use polder_values::part::Part;
use polder_values::sequence::Sequence;
use polder_values::sorted_set::{Entry, SortedSet};
use polder_values::{Kind, string};

use crate::collection::reply_part;
use polder_calls::call::{Call, Outcome, SYNTAX, WRONG_TYPE, integer, is};
use polder_calls::command::{COLLECTIONS, Command, DANGEROUS, FOLLOWS, GROWS, MOVABLE_KEYS, read, write};
use polder_calls::facts::Tells::Own;
use polder_calls::settings::id;

const COST: &str = "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the \
                    elements are not sorted, complexity is O(log(N)+M).";
const NOT_A_DOUBLE: &str = "ERR One or more scores can't be converted into double";

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("SORT", "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] [STORE destination]", sort)
        .tells(Own("with STORE the whole new value: `DEL destination`, `RPUSH destination element ...`"))
        .with(FOLLOWS | GROWS | DANGEROUS | COLLECTIONS | MOVABLE_KEYS)
        .touches(&["RO access", "OW update"])
        .locates(keys)
        .reads_where(|args| destination(args).is_none())
        .costs(COST)
        .about("Sorts the elements in a list, a set, or a sorted set, optionally storing the result."),
    read("SORT_RO", "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA]", sort)
        .with(FOLLOWS | DANGEROUS | COLLECTIONS | MOVABLE_KEYS)
        .since("7.0.0")
        .costs(COST)
        .about("Returns the sorted elements of a list, a set, or a sorted set."),
];

/// Where the key stands under which the result is stored: behind the last STORE that is an option and no other option's value.
fn destination(args: &[&[u8]]) -> Option<usize> {
    let (mut at, mut found) = (2, None);
    while at < args.len() {
        at += match args[at] {
            word if is(word, "LIMIT") => 3,
            word if is(word, "BY") || is(word, "GET") => 2,
            word if is(word, "STORE") => {
                found = Some(at + 1).filter(|at| *at < args.len());
                2
            }
            _ => 1,
        };
    }
    found
}

/// The keys that a call names.
fn keys(args: &[&[u8]], visit: &mut dyn FnMut(usize, usize)) {
    if args.len() > 1 {
        visit(1, 0);
    }
    if let Some(at) = destination(args) {
        visit(at, 1);
    }
}

/// What is asked for.
struct Plan<'a> {
    /// A pattern with a `*`.
    by: Option<&'a [u8]>,
    /// False: BY named no pattern.
    sorts: bool,
    alpha: bool,
    descending: bool,
    offset: i64,
    count: i64,
    gets: Vec<&'a [u8]>,
    store: Option<&'a [u8]>,
}

impl<'a> Plan<'a> {
    fn read(call: &Call<'a>) -> Result<Plan<'a>, Stop> {
        let mut plan = Plan {
            by: None,
            sorts: true,
            alpha: false,
            descending: false,
            offset: 0,
            count: -1,
            gets: Vec::new(),
            store: None,
        };
        let may_follow = call.caller.follows;
        let mut rest = &call.args[2..];
        while let [word, later @ ..] = rest {
            rest = match (later, word) {
                (_, word) if is(word, "ASC") || is(word, "DESC") => {
                    plan.descending = is(word, "DESC");
                    later
                }
                (_, word) if is(word, "ALPHA") => {
                    plan.alpha = true;
                    later
                }
                ([offset, count, later @ ..], word) if is(word, "LIMIT") => {
                    (plan.offset, plan.count) = (integer(offset)?, integer(count)?);
                    later
                }
                ([key, later @ ..], word) if is(word, "STORE") && call.command.is_write() => {
                    plan.store = Some(key);
                    later
                }
                ([pattern, later @ ..], word) if is(word, "BY") => {
                    let leads = pattern.contains(&b'*');
                    if leads && !may_follow {
                        return Err(
                            "ERR BY option of SORT denied due to insufficient ACL permissions.".into()
                        );
                    }
                    (plan.by, plan.sorts) = (Some(*pattern).filter(|_| leads), plan.sorts && leads);
                    later
                }
                ([pattern, later @ ..], word) if is(word, "GET") => {
                    if !may_follow {
                        return Err(
                            "ERR GET option of SORT denied due to insufficient ACL permissions.".into()
                        );
                    }
                    plan.gets.push(pattern);
                    later
                }
                _ => return Err(SYNTAX.into()),
            };
        }
        Ok(plan)
    }

    /// The elements that LIMIT leaves of `len`: from the first up to (not including) the second.
    fn range(&self, len: u64) -> (u64, u64) {
        let first = (self.offset.max(0) as u64).min(len);
        let count = if self.count < 0 { len } else { self.count as u64 };
        (first, first.saturating_add(count).min(len))
    }
}

type Bytes<'c> = Cow<'c, [u8]>;

/// The elements of a key from `rank` on, upwards or downwards, in the order in which its kind keeps them.
///
/// # Errors
/// WRONGTYPE where a key of this kind has no elements.
pub(crate) fn elements<'c>(
    txn: &'c Txn<'_>,
    found: &Found<'c>,
    rank: u64,
    back: bool,
) -> Result<Box<dyn Iterator<Item = Result<Bytes<'c>, Fault>> + 'c>, Stop> {
    Ok(match (found.kind, back) {
        (Kind::List | Kind::Set, false) => {
            Box::new(Sequence::of(&found.value).iter(txn, rank).map(|element| element?.bytes(txn)))
        }
        (Kind::List | Kind::Set, true) => {
            Box::new(Sequence::of(&found.value).iter_back(txn, rank).map(|element| element?.bytes(txn)))
        }
        (Kind::SortedSet, false) => {
            Box::new(SortedSet::of(&found.value).iter(txn, rank).map(|entry| entry.map(Entry::into_member)))
        }
        (Kind::SortedSet, true) => Box::new(
            SortedSet::of(&found.value).iter_back(txn, rank).map(|entry| entry.map(Entry::into_member)),
        ),
        _ => return Err(WRONG_TYPE.into()),
    })
}

/// How many elements a key has.
fn count(found: &Found<'_>) -> Result<u64, Stop> {
    Ok(match found.kind {
        Kind::List | Kind::Set => Sequence::of(&found.value).count()?,
        Kind::SortedSet => SortedSet::of(&found.value).count()?,
        _ => return Err(WRONG_TYPE.into()),
    })
}

fn sort(call: &mut Call<'_>) -> Outcome {
    let mut plan = Plan::read(call)?;
    let chosen = match call.find(call.args[1])? {
        None => Vec::new(),
        Some(found) => {
            // The members of a set have no order of their own that could be stored, or that a script could rely on.
            if !plan.sorts && found.kind == Kind::Set && (plan.store.is_some() || call.caller.scripted) {
                (plan.sorts, plan.alpha) = (true, true);
            }
            let (first, end) = plan.range(count(&found)?);
            if plan.sorts {
                sorted(call, &plan, &found, first, end)?
            } else {
                as_they_stand(call, &plan, &found, first, end)?
            }
        }
    };
    match plan.store {
        Some(key) => store(call, &plan, key, &chosen),
        None => reply(call, &plan, &chosen),
    }
}

/// Elements `first` to `end` without sorting; only these are read.
fn as_they_stand<'c>(
    call: &Call<'c>,
    plan: &Plan<'_>,
    found: &Found<'c>,
    first: u64,
    end: u64,
) -> Result<Vec<Bytes<'c>>, Stop> {
    // A set goes in one direction only.
    let back = plan.descending && found.kind != Kind::Set;
    let from = if back { count(found)?.saturating_sub(first + 1) } else { first };
    let walk = elements(call.txn, found, from, back)?;
    Ok(walk.take((end - first) as usize).collect::<Result<_, Fault>>()?)
}

/// What an element is compared by.
enum Weight<'c> {
    /// Itself.
    None,
    Number(f64),
    Text(Option<Bytes<'c>>),
}

/// Elements `first` to `end` of all when they are sorted.
fn sorted<'c>(
    call: &Call<'c>,
    plan: &Plan<'_>,
    found: &Found<'c>,
    first: u64,
    end: u64,
) -> Result<Vec<Bytes<'c>>, Stop> {
    let mut all: Vec<(Weight<'c>, u64, Bytes<'c>)> = Vec::with_capacity(count(found)? as usize);
    for (number, element) in (0..).zip(elements(call.txn, found, 0, false)?) {
        let element = element?;
        all.push((weigh(call, plan, &element)?, number, element));
    }
    let order = |one: &(Weight<'_>, u64, Bytes<'_>), two: &(Weight<'_>, u64, Bytes<'_>)| {
        let order = compare(one, two);
        // Equals stay in their order, whichever way the others go.
        (if plan.descending { order.reverse() } else { order }).then(one.1.cmp(&two.1))
    };
    let (first, end) = (first as usize, end as usize);
    if end < all.len() {
        if end == first {
            return Ok(Vec::new());
        }
        all.select_nth_unstable_by(end - 1, order);
        all.truncate(end);
    }
    all.sort_unstable_by(order);
    Ok(all.drain(first.min(all.len())..).map(|(_, _, element)| element).collect())
}

fn compare(one: &(Weight<'_>, u64, Bytes<'_>), two: &(Weight<'_>, u64, Bytes<'_>)) -> Ordering {
    match (&one.0, &two.0) {
        (Weight::Number(low), Weight::Number(high)) => {
            low.partial_cmp(high).unwrap_or(Ordering::Equal).then_with(|| one.2.cmp(&two.2))
        }
        // What is not there comes first.
        (Weight::Text(low), Weight::Text(high)) => low.cmp(high),
        _ => one.2.cmp(&two.2),
    }
}

fn weigh<'c>(call: &Call<'c>, plan: &Plan<'_>, element: &Bytes<'c>) -> Result<Weight<'c>, Stop> {
    let text = match plan.by {
        None if plan.alpha => return Ok(Weight::None),
        None => Some(Cow::Borrowed(&element[..])),
        Some(pattern) => match follow(call, pattern, element)? {
            Some(part) => Some(part.bytes(call.txn)?),
            None => None,
        },
    };
    if plan.alpha {
        return Ok(Weight::Text(text.map(Cow::into_owned).map(Cow::Owned)));
    }
    let number = text.map_or(Some(0.0), |text| double(&text));
    Ok(Weight::Number(number.ok_or(NOT_A_DOUBLE)?))
}

/// The number that a text is, read as C does: blanks may come before it, nothing is zero, and a NUL ends it.
fn double(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let digits = text.trim_ascii_start();
    number::double(digits).filter(|number| !number.is_nan())
}

/// What a pattern leads to from an element: a string, or a field of a hash.
fn follow<'c>(call: &Call<'c>, pattern: &[u8], element: &[u8]) -> Result<Option<Part<'c>>, Stop> {
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (prefix, rest) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = rest.windows(2).position(|pair| pair == b"->").filter(|at| at + 2 < rest.len());
    let (postfix, field) = match arrow {
        Some(at) => (&rest[..at], Some(&rest[at + 2..])),
        None => (rest, None),
    };
    let key = [prefix, element, postfix].concat();
    let Some(found) = call.find(&key)? else { return Ok(None) };
    match (found.kind, field) {
        (Kind::String, None) => {
            Ok(Some(Part { value: found.value, start: 0, end: string::len(&found.value) }))
        }
        (Kind::Hash, Some(field)) => {
            Ok(Hash::of(&found.value).get(call.txn, field, || call.txn.now_ms())?.map(|field| field.value()))
        }
        _ => Ok(None),
    }
}

fn reply(call: &mut Call<'_>, plan: &Plan<'_>, chosen: &[Bytes<'_>]) -> Outcome {
    call.reply.array(chosen.len() * plan.gets.len().max(1));
    for element in chosen {
        if plan.gets.is_empty() {
            call.reply.bulk(element);
        }
        for pattern in &plan.gets {
            if *pattern == b"#" {
                call.reply.bulk(element);
                continue;
            }
            match follow(call, pattern, element)? {
                Some(part) => reply_part(call.reply, call.txn, &part)?,
                None => call.reply.null(),
            }
        }
    }
    Ok(())
}

/// Puts the result under a key, as a list; without elements the key goes.
fn store(call: &mut Call<'_>, plan: &Plan<'_>, key: &[u8], chosen: &[Bytes<'_>]) -> Outcome {
    let mut got: Vec<Bytes<'_>> = Vec::new();
    if !plan.gets.is_empty() {
        got.reserve(chosen.len() * plan.gets.len());
        for element in chosen {
            for pattern in &plan.gets {
                got.push(match follow(call, pattern, element)? {
                    _ if *pattern == b"#" => Cow::Borrowed(&element[..]),
                    Some(part) => Cow::Owned(part.bytes(call.txn)?.into_owned()),
                    None => Cow::Borrowed(b""),
                });
            }
        }
    }
    let elements = if plan.gets.is_empty() { chosen } else { &got };
    if elements.is_empty() {
        if call.remove(key)? {
            call.tell(&[b"DEL", key]);
            call.notify('g', "del", key);
        }
    } else {
        let limit = Limit::of(call.settings.number(const { id("list-max-listpack-size") }));
        let bytes = elements.iter().map(|element| element.len() as u64).sum();
        let mut draft = Draft::empty();
        draft.expect(call.txn, limit, elements.len() as u64, bytes)?;
        draft.extend(call.txn, elements.iter().map(|element| &element[..]))?;
        let value = draft.value(call.txn)?;
        call.replace(key, &New::of(Kind::List, value))?;
        if call.tells_itself() {
            call.tell(&[b"DEL", key]);
            call.tell_many(&[b"RPUSH", key], &Vec::from_iter(elements.iter().map(|element| &element[..])));
        }
        call.notify('l', "sortstore", key);
    }
    call.reply.integer(elements.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_destination_is_behind_the_last_store_that_is_an_option() {
        let cases: [(&str, Option<usize>); 7] = [
            ("SORT k", None),
            ("SORT k STORE d", Some(3)),
            ("SORT k BY store STORE d", Some(5)),
            ("SORT k GET store LIMIT store store ALPHA STORE d", Some(9)),
            ("SORT k STORE a STORE b", Some(5)),
            ("SORT k BY store", None),
            ("SORT k STORE", None),
        ];
        for (call, expected) in cases {
            let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
            assert_eq!(destination(&args), expected, "{call}");
        }
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let cases: [(&[u8], Option<f64>); 9] = [
            (b"", Some(0.0)),
            (b" 1", Some(1.0)),
            (b"1 ", None),
            (b"0x10", Some(16.0)),
            (b"-inf", Some(f64::NEG_INFINITY)),
            (b"nan", None),
            (b"1e400", None),
            (b"1e-400", None),
            (b"1\0x", Some(1.0)),
        ];
        for (text, expected) in cases {
            assert_eq!(double(text), expected, "{}", String::from_utf8_lossy(text));
        }
    }
}
