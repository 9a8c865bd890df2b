//! Subjects: channels, shard channels and patterns, and which seats have subscribed to them.

use hashbrown::HashSet;
use polder_shm::layout::{header, interest};
use polder_table::interest::take_interest;
use polder_table::{CommitView, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::string::Draft;
use polder_values::{Kind, string};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::group::{Entries, Entry, count, entries, rewritten, write_entry};
use crate::per_thread::{self, PerThread};
use crate::post;
use crate::record::{self, Record, channel_key};
pub use crate::subscriptions::Subject;
use crate::subscriptions::{is_heard, note_subscription};
use crate::tokens;

thread_local! {
    /// Ended subscriptions that the segment still has.
    static OWED: PerThread<Vec<(Subject, Vec<u8>)>> = const { PerThread::new() };
}

/// Longer literal beginnings of patterns count as this long: there is a bit for each length.
const BEGINNING_MAX: usize = 63;

fn group_key(beginning: &[u8]) -> Vec<u8> {
    [b"hub:p:", beginning].concat()
}

/// What a pattern's matches certainly begin with.
fn beginning(pattern: &[u8]) -> &[u8] {
    let end =
        pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\')).unwrap_or(pattern.len());
    &pattern[..end.min(BEGINNING_MAX)]
}

/// Records that the calling thread has one subscriber more or less of each of these names, as part of the transaction. Its inbox is open.
///
/// # Errors
/// As [`Txn::write`].
pub fn subscribe(txn: &Txn<'_>, subject: Subject, names: &[&[u8]], by: i64) -> Result<(), Stop> {
    if by > 0 && !names.is_empty() {
        take_interest(txn.seat(), interest::SUBSCRIBERS);
    }
    if subject == Subject::Token {
        return tokens::subscribe(txn, names, by);
    }
    if subject != Subject::Pattern {
        let own = Record::own(txn.seat(), 0);
        let keys: Vec<Vec<u8>> = names.iter().map(|name| channel_key(subject, name)).collect();
        if keys.len() > 1 {
            // Without this, each bucket would be looked for among all that are locked.
            txn.declare(&keys.iter().map(|key| (SYSTEM, &key[..])).collect::<Vec<_>>())?;
        }
        return keys.iter().try_for_each(|key| {
            record::edit(txn, key, |records| {
                count(records, own, by);
                true
            })
        });
    }
    let mut patterns = names.to_vec();
    patterns.sort_unstable_by_key(|pattern| beginning(pattern));
    patterns
        .chunk_by(|one, other| beginning(one) == beginning(other))
        .try_for_each(|alike| subscribe_alike(txn, alike, by))
}

/// A group of more bytes is changed where it lies: then one more subscription does not copy the whole group.
const REWRITTEN_BYTES_MAX: u64 = string::CHUNK as u64;

/// As [`subscribe`], for patterns of one group, each of which is named once: one change of the
/// group.
///
/// A long group grows at its end. There a pattern may stand in several entries, and a record's
/// number may be 0. Both are cleaned up when half of the group consists of such entries and it is
/// written anew. So the cost of a change does not depend on the length of the group, except for a
/// search through its bytes if a pattern of this thread may be in it already.
fn subscribe_alike(txn: &Txn<'_>, patterns: &[&[u8]], by: i64) -> Result<(), Stop> {
    let begins = beginning(patterns[0]);
    // SYNC: interest. Before the record: a publisher looks at lengths first.
    txn.table().segment().word(header::PREFIXES).fetch_or(1 << begins.len(), Ordering::SeqCst);
    let key = group_key(begins);
    let found = txn.peek(SYSTEM, &key)?.filter(|found| found.kind == Kind::String);
    let Some(found) = found.filter(|found| string::len(&found.value) > REWRITTEN_BYTES_MAX) else {
        let bytes = record::bytes(txn, found)?.unwrap_or_default();
        return record::put(txn, &key, &rewritten(txn, &bytes, patterns, by));
    };
    let mut draft = Draft::of(&found.value);
    let mut added = patterns.to_vec();
    if by < 0 || patterns.iter().any(|pattern| is_heard(txn.table(), Subject::Pattern, pattern)) {
        let bytes = string::contiguous(txn, &found.value)?;
        let Some(patches) = patches(txn, &bytes, &mut added, by) else {
            return record::put(txn, &key, &rewritten(txn, &bytes, patterns, by));
        };
        patches.into_iter().try_for_each(|(at, number)| draft.write(txn, at, &number.to_le_bytes()))?;
    }
    if by > 0 {
        let (mut bytes, records) = (Vec::new(), [Record::own(txn.seat(), by as u64)]);
        added.iter().for_each(|pattern| write_entry(&mut bytes, pattern, &records));
        draft.write(txn, string::len(&draft.value()), &bytes)?;
    }
    txn.write(SYSTEM, &key, &New::of(Kind::String, draft.value()), Replaces::Edited)
}

/// Where numbers are to be changed in a group, and what to; takes those patterns out of `patterns`. `None` where half of the group would be of
/// no use after that.
fn patches(txn: &Txn<'_>, bytes: &[u8], patterns: &mut Vec<&[u8]>, by: i64) -> Option<Vec<(u64, u64)>> {
    let own = Record::own(txn.seat(), 0);
    let mut wanted: HashSet<&[u8]> = patterns.iter().copied().collect();
    let only = if let [only] = patterns[..] { Some(only) } else { None };
    let (mut patches, mut useless) = (Vec::new(), 0);
    for entry in entries(bytes) {
        let is_candidate = only.is_none_or(|only| only == entry.name);
        let mut is_useless = record::are_empty(entry.records);
        if is_candidate && !is_useless && wanted.contains(entry.name) {
            let mut records = record::read(entry.records);
            if let Some(at) = records.iter().position(|record| record.same_owner(&own) && record.number > 0) {
                wanted.remove(entry.name);
                records[at].number = records[at].number.saturating_add_signed(by);
                patches.push(((entry.records_at + record::number_at(at)) as u64, records[at].number));
                is_useless = records.iter().all(|record| record.number == 0);
            }
        }
        useless += if is_useless { 8 + entry.name.len() + entry.records.len() } else { 0 };
    }
    patterns.retain(|pattern| wanted.contains(pattern));
    (useless <= bytes.len() / 2).then_some(patches)
}

/// Calls `visit` with each group of patterns whose common beginning `channel` has.
pub(crate) fn each_group(
    commit: &dyn CommitView,
    channel: &[u8],
    visit: &mut dyn FnMut(Entries<'_>),
) -> Result<(), Stop> {
    let mut lengths = commit.segment().load(header::PREFIXES);
    while lengths != 0 {
        let length = lengths.trailing_zeros() as usize;
        lengths &= lengths - 1;
        if length > channel.len() {
            break;
        }
        if let Some(bytes) = record::bytes(commit, commit.glimpse(SYSTEM, &group_key(&channel[..length]))?)? {
            visit(entries(&bytes));
        }
    }
    Ok(())
}

/// How many clients have subscribed to a channel.
///
/// # Errors
/// A fault.
pub fn subscribers(commit: &dyn CommitView, subject: Subject, name: &[u8]) -> Result<u64, Stop> {
    Ok(record::glimpse(commit, &channel_key(subject, name))?.iter().map(|record| record.number).sum())
}

/// The channels, shard channels or patterns that have subscribers and that `wanted` accepts.
///
/// # Errors
/// A fault.
pub fn subjects(
    txn: &Txn<'_>,
    subject: Subject,
    wanted: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<Vec<u8>>, Stop> {
    let lead = if subject == Subject::Pattern { group_key(b"") } else { channel_key(subject, b"") };
    let mut found = Vec::new();
    for key in record::keys(txn, &lead)? {
        if subject != Subject::Pattern {
            let name = &key[lead.len()..];
            if wanted(name) && !record::glimpse(txn, &key)?.is_empty() {
                found.push(name.to_vec());
            }
        } else if let Some(bytes) = record::bytes(txn, txn.glimpse(SYSTEM, &key)?)? {
            let is_alive = |entry: &Entry<'_>| !record::living(txn.segment(), entry.records).is_empty();
            let patterns = entries(&bytes).filter(|entry| wanted(entry.name) && is_alive(entry));
            let patterns: BTreeSet<&[u8]> = patterns.map(|entry| entry.name).collect();
            found.extend(patterns.into_iter().map(<[u8]>::to_vec));
        }
    }
    Ok(found)
}

/// How many channels, patterns and shard channels have subscribers, in all processes. What only
/// dead processes have subscribed to counts until it is swept.
///
/// # Errors
/// A fault.
pub fn counts(txn: &Txn<'_>) -> Result<[u64; 3], Stop> {
    let (mut counts, mut groups, mut cursor) = ([0; 3], BTreeSet::new(), 0);
    if txn.interest() & interest::SUBSCRIBERS == 0 {
        return Ok(counts);
    }
    loop {
        cursor = txn.scan(SYSTEM, cursor, 100, &mut |scanned| match scanned.key.first_chunk() {
            Some(b"hub:c:") => counts[Subject::Channel as usize] += 1,
            Some(b"hub:s:") => counts[Subject::Shard as usize] += 1,
            Some(b"hub:p:") => _ = groups.insert(scanned.key.to_vec()),
            _ => {}
        })?;
        if cursor == 0 {
            break;
        }
    }
    for key in groups {
        let bytes = record::bytes(txn, txn.glimpse(SYSTEM, &key)?)?.unwrap_or_default();
        let has_subscriber = |entry: &Entry<'_>| !record::living(txn.segment(), entry.records).is_empty();
        let patterns: HashSet<&[u8]> =
            entries(&bytes).filter(has_subscriber).map(|entry| entry.name).collect();
        counts[Subject::Pattern as usize] += patterns.len() as u64;
    }
    Ok(counts)
}

/// Takes the records of the dead out of a group of patterns.
///
/// # Errors
/// As [`Txn::write`].
pub(crate) fn sweep_group(txn: &Txn<'_>, key: &[u8]) -> Result<(), Stop> {
    let Some(bytes) = record::bytes(txn, txn.peek(SYSTEM, key)?)? else { return Ok(()) };
    let written = rewritten(txn, &bytes, &[], 0);
    if written == *bytes { Ok(()) } else { record::put(txn, key, &written) }
}

/// Ends a client's subscriptions. If a lock is held, perhaps by a stopped thread, the segment is
/// told later.
pub fn unsubscribe(table: &Table, client: u64, subject: Subject, names: Vec<Vec<u8>>) {
    for name in &names {
        note_subscription(table, client, subject, name, false);
    }
    withdraw(table, names.into_iter().map(|name| (subject, name)).collect());
}

/// Patterns end together, since many of them lie in one value. Channels end some at a time, or one
/// by one if a lock stops the group.
pub(crate) fn withdraw(table: &Table, mut subscriptions: Vec<(Subject, Vec<u8>)>) {
    /// Channels that end in one transaction.
    const TOGETHER: usize = 64;
    let withdrawn = |some: &[(Subject, Vec<u8>)]| {
        let names: Vec<&[u8]> = some.iter().map(|(_, name)| &name[..]).collect();
        post::run(table, &mut |txn| subscribe(txn, some[0].0, &names, -1)).is_ok()
    };
    subscriptions.sort_unstable_by_key(|(subject, _)| *subject);
    let mut left = Vec::new();
    for alike in subscriptions.chunk_by(|one, other| one.0 == other.0) {
        let is_pattern = alike[0].0 == Subject::Pattern;
        for some in
            alike.chunks(if is_pattern { alike.len() } else { TOGETHER }).filter(|some| !withdrawn(some))
        {
            let blocked = some.chunks(1).filter(|one| is_pattern || !withdrawn(one));
            left.extend(blocked.flatten().cloned());
        }
    }
    if !left.is_empty() {
        per_thread::with(&OWED, table, |owed| owed.extend(left));
    }
}

/// Tells the segment of ended subscriptions that it still has.
pub(crate) fn withdraw_owed(table: &Table) {
    let owed = per_thread::with(&OWED, table, std::mem::take).unwrap_or_default();
    withdraw(table, owed);
}

/// Whether the segment still has subscriptions that have ended.
pub(crate) fn has_pending(table: &Table) -> bool {
    per_thread::with(&OWED, table, |owed| !owed.is_empty()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_begins_with_what_all_its_matches_begin_with() {
        assert_eq!(beginning(b"__key*__:*"), b"__key");
        assert_eq!(beginning(b"news.[ab]"), b"news.");
        assert_eq!(beginning(b"*"), b"");
        assert_eq!(beginning(b"plain"), b"plain");
        assert_eq!(beginning(&[b'x'; 100]).len(), BEGINNING_MAX);
    }
}
