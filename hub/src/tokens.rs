//! Which seats hear patterns of the token dialect ([`token`](crate::token)), and queues.
//!
//! ```text
//!   subj:n:SHAPE:PLACE  what this pattern's clients hear as: queue by queue (the empty name: each by itself), as a group of patterns
//! ```
//!
//! Which shapes there may be, and how a publisher knows: [`shapes`](crate::shapes). These names do not begin
//! as those of the hub do: an older program that still lives would take them for records when it sweeps.
//!
//! A pattern without wildcards and without a queue lies with the channels (`hub:c:`), so it needs none of this.

use polder_shm::layout::features;
use polder_table::{CommitView, SYSTEM, Stop, Table, Txn};

use crate::group::{count, entries, rewritten};
use crate::record::{self, Record, Records, channel_key};
use crate::shapes;
pub use crate::shapes::TOO_MANY;
use crate::subscriptions::Subject;
use crate::token::{EXACT, ShapeText, Tokens, is_subject, is_wild, pattern_at, place_of};

pub(crate) const LEAD: &[u8] = b"subj:n:";
/// More queues than this have no members by one pattern: each publisher looks at all of them.
const QUEUES_MAX: usize = 1024;

/// A subscription's name: pattern and queue. Neither has blanks.
pub fn name_of(pattern: &[u8], queue: &[u8]) -> Vec<u8> {
    if queue.is_empty() { pattern.to_vec() } else { [pattern, b" ", queue].concat() }
}

/// Pattern and queue of a subscription.
pub fn split_name(name: &[u8]) -> (&[u8], &[u8]) {
    let at = memchr::memchr(b' ', name).unwrap_or(name.len());
    (&name[..at], name.get(at + 1..).unwrap_or_default())
}

fn key_of(shape: &[u8], place: &[u8]) -> Vec<u8> {
    [LEAD, shape, b":", place].concat()
}

/// Does the work of [`crate::subject::subscribe`] for patterns of the token dialect.
pub(crate) fn subscribe(txn: &Txn<'_>, names: &[&[u8]], by: i64) -> Result<(), Stop> {
    if by > 0 && !names.is_empty() {
        txn.table().announce(features::SUBJECTS);
    }
    let places: Vec<_> = names
        .iter()
        .map(|name| split_name(name))
        .map(|(pattern, queue)| (place_of(pattern), queue))
        .collect();
    let keys: Vec<Vec<u8>> = places
        .iter()
        .map(|((shape, place), queue)| match &shape[..] {
            EXACT if queue.is_empty() => channel_key(Subject::Channel, place),
            shape => key_of(shape, place),
        })
        .collect();
    let is_new =
        |shape: &ShapeText, key: &[u8]| by > 0 && key.starts_with(LEAD) && !shapes::want(txn.table(), shape);
    let enters = keys.iter().zip(&places).any(|(key, ((shape, _), _))| is_new(shape, key));
    if keys.len() > 1 || enters {
        let mut held: Vec<_> = keys.iter().map(|key| (SYSTEM, &key[..])).collect();
        held.extend(enters.then_some((SYSTEM, shapes::KEY)));
        held.sort_unstable();
        held.dedup();
        txn.declare(&held)?;
    }
    let own = Record::own(txn.seat(), 0);
    for (key, ((shape, _), queue)) in keys.iter().zip(&places) {
        if !key.starts_with(LEAD) {
            record::edit(txn, key, |records| {
                count(records, own, by);
                true
            })?;
            continue;
        }
        if is_new(shape, key) {
            shapes::enter(txn, shape)?;
        }
        let bytes = record::bytes(txn, txn.peek(SYSTEM, key)?)?.unwrap_or_default();
        let written = rewritten(txn, &bytes, &[queue], by);
        if by > 0 && entries(&written).count() > QUEUES_MAX {
            return Err(TOO_MANY.into());
        }
        record::put(txn, key, &written)?;
    }
    Ok(())
}

/// The shape and the place in a key of a pattern.
fn parts_of(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = key.strip_prefix(LEAD)?;
    let at = memchr::memchr(b':', rest)?;
    Some((&rest[..at], &rest[at + 1..]))
}

/// A pattern, a queue (empty: none), and how many subscribe so.
pub type Listed = (Vec<u8>, Vec<u8>, u64);

/// The patterns with subscribers in living processes, except those that lie with the channels: pattern, queue, how many.
///
/// # Errors
/// A fault.
pub fn listed(txn: &Txn<'_>) -> Result<Vec<Listed>, Stop> {
    let mut listed = Vec::new();
    for key in record::keys(txn, LEAD)? {
        let Some((shape, place)) = parts_of(&key) else { continue };
        let bytes = record::bytes(txn, txn.glimpse(SYSTEM, &key)?)?.unwrap_or_default();
        for entry in entries(&bytes) {
            let number =
                record::living(txn.segment(), entry.records).iter().map(|record| record.number).sum();
            if number > 0 {
                listed.push((pattern_at(shape, place), entry.name.to_vec(), number));
            }
        }
    }
    listed.sort();
    Ok(listed)
}

/// The shape under which a subscription of this name lies; none for one that lies with the channels.
fn shape_of(name: &[u8]) -> Option<ShapeText> {
    let (pattern, queue) = split_name(name);
    (!queue.is_empty() || is_wild(pattern)).then(|| place_of(pattern).0)
}

/// Notes that a subscription of this name has been committed.
pub(crate) fn note_begun(table: &Table, name: &[u8]) {
    if let Some(shape) = shape_of(name) {
        shapes::note_entered(table, &shape);
    }
}

/// Notes that a subscription of this name has ended.
pub(crate) fn note_ended(table: &Table, name: &[u8]) {
    if let Some(shape) = shape_of(name) {
        shapes::note_left(table, &shape);
    }
}

/// Shows the seats that hear a channel by a pattern of the token dialect, queue by queue.
pub(crate) fn find(
    commit: &dyn CommitView,
    channel: &[u8],
    visit: &mut dyn FnMut(&[u8], Records),
) -> Result<(), Stop> {
    let Some(shapes) = shapes::used(commit)?.filter(|_| is_subject(channel)) else { return Ok(()) };
    let tokens = Tokens::of(channel);
    let (mut place, mut key) = (Vec::new(), Vec::new());
    for shape in shapes.iter() {
        if !tokens.place_in(shape, &mut place) {
            continue;
        }
        key.clear();
        [LEAD, shape, b":", &place].into_iter().for_each(|part| key.extend_from_slice(part));
        if let Some(bytes) = record::bytes(commit, commit.glimpse(SYSTEM, &key)?)? {
            for entry in entries(&bytes) {
                visit(entry.name, record::living(commit.segment(), entry.records));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys_are_taken_apart() {
        assert_eq!(split_name(&name_of(b"a.*", b"q")), (&b"a.*"[..], &b"q"[..]));
        assert_eq!(split_name(&name_of(b"a.*", b"")), (&b"a.*"[..], &b""[..]));
        assert_eq!(parts_of(&key_of(b"l*", b"a:b")), Some((&b"l*"[..], &b"a:b"[..])));
    }
}
