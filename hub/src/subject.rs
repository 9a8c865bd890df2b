//! Subjects: channels, shard channels and patterns, and which seats have subscribed to them.

use hashbrown::{HashMap, HashSet};
use polder_base::glob;
use polder_shm::layout::{header, interest};
use polder_table::interest::{interest_of, take_interest};
use polder_table::{CommitView, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::string::Draft;
use polder_values::{Kind, string};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::message::Message;
use crate::per_thread::{self, PerThread};
use crate::post;
use crate::record::{self, Record, Records};
pub use crate::subscriptions::Subject;
use crate::subscriptions::{is_heard, note_subscription};

thread_local! {
    /// Ended subscriptions that the segment still has.
    static OWED: PerThread<Vec<(Subject, Vec<u8>)>> = const { PerThread::new() };
}

/// Longer literal beginnings of patterns count as this long: there is a bit for each length.
const BEGINNING_MAX: usize = 63;

fn channel_key(subject: Subject, name: &[u8]) -> Vec<u8> {
    [if subject == Subject::Shard { b"hub:s:" } else { b"hub:c:" }, name].concat()
}

fn group_key(beginning: &[u8]) -> Vec<u8> {
    [b"hub:p:", beginning].concat()
}

/// What a pattern's matches certainly begin with.
fn beginning(pattern: &[u8]) -> &[u8] {
    let end =
        pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\')).unwrap_or(pattern.len());
    &pattern[..end.min(BEGINNING_MAX)]
}

/// One entry of a group, where it lies.
struct Entry<'g> {
    pattern: &'g [u8],
    records: &'g [u8],
    /// Where the records begin in the group.
    records_at: usize,
}

/// The entries of a group; what is cut off at the end is none.
struct Entries<'g> {
    bytes: &'g [u8],
    at: usize,
}

fn entries(bytes: &[u8]) -> Entries<'_> {
    Entries { bytes, at: 0 }
}

impl<'g> Iterator for Entries<'g> {
    type Item = Entry<'g>;

    fn next(&mut self) -> Option<Entry<'g>> {
        let length = |bytes: &'g [u8]| {
            bytes.split_first_chunk::<4>().map(|(length, rest)| (u32::from_le_bytes(*length) as usize, rest))
        };
        let (long, rest) = length(self.bytes.get(self.at..)?)?;
        let (pattern, rest) = rest.split_at_checked(long)?;
        let (count, rest) = length(rest)?;
        let (records, _) = rest.split_at_checked(record::bytes_of(count)?)?;
        let records_at = self.at + 8 + long;
        self.at = records_at + records.len();
        Some(Entry { pattern, records, records_at })
    }
}

fn write_entry(bytes: &mut Vec<u8>, pattern: &[u8], records: &[Record]) {
    bytes.extend_from_slice(&(pattern.len() as u32).to_le_bytes());
    bytes.extend_from_slice(pattern);
    bytes.extend_from_slice(&(records.len() as u32).to_le_bytes());
    records.iter().for_each(|record| record.write(bytes));
}

/// Changes the number of a seat's subscribers among the records of a subject.
fn count(records: &mut Records, own: Record, by: i64) {
    match records.iter_mut().find(|record| record.same_owner(&own)) {
        Some(record) => record.number = record.number.saturating_add_signed(by),
        None if by > 0 => records.push(Record { number: by as u64, ..own }),
        None => {}
    }
    records.retain(|record| record.number > 0);
}

/// Records that the calling thread has one subscriber more or less of each of these names, as part of the transaction. Its inbox is open.
///
/// # Errors
/// As [`Txn::write`].
pub fn subscribe(txn: &Txn<'_>, subject: Subject, names: &[&[u8]], by: i64) -> Result<(), Stop> {
    if by > 0 && !names.is_empty() {
        take_interest(txn.seat(), interest::SUBSCRIBERS);
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
        let is_candidate = only.is_none_or(|only| only == entry.pattern);
        let mut is_useless = record::are_empty(entry.records);
        if is_candidate && !is_useless && wanted.contains(entry.pattern) {
            let mut records = record::read(entry.records);
            if let Some(at) = records.iter().position(|record| record.same_owner(&own) && record.number > 0) {
                wanted.remove(entry.pattern);
                records[at].number = records[at].number.saturating_add_signed(by);
                patches.push(((entry.records_at + record::number_at(at)) as u64, records[at].number));
                is_useless = records.iter().all(|record| record.number == 0);
            }
        }
        useless += if is_useless { 8 + entry.pattern.len() + entry.records.len() } else { 0 };
    }
    patterns.retain(|pattern| wanted.contains(pattern));
    (useless <= bytes.len() / 2).then_some(patches)
}

/// A group with one entry of each pattern, without the dead, in which the calling thread has one subscriber more or less of each of `patterns`.
fn rewritten(txn: &Txn<'_>, bytes: &[u8], patterns: &[&[u8]], by: i64) -> Vec<u8> {
    let own = Record::own(txn.seat(), 0);
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    let mut group: Vec<(&[u8], Records)> = Vec::new();
    for entry in entries(bytes) {
        let place = *places.entry(entry.pattern).or_insert_with(|| {
            group.push((entry.pattern, Records::new()));
            group.len() - 1
        });
        let living = record::read(entry.records)
            .into_iter()
            .filter(|record| record.number > 0 && record.lives(txn.segment()));
        living.for_each(|record| count(&mut group[place].1, record, record.number as i64));
    }
    for pattern in patterns {
        let place = *places.entry(pattern).or_insert_with(|| {
            group.push((pattern, Records::new()));
            group.len() - 1
        });
        count(&mut group[place].1, own, by);
    }
    let mut written = Vec::with_capacity(bytes.len());
    group
        .iter()
        .filter(|(_, records)| !records.is_empty())
        .for_each(|(pattern, records)| write_entry(&mut written, pattern, records));
    written
}

/// The seats that hear what a transaction publishes on a channel, over all processes.
pub struct Receivers<'c> {
    shard: bool,
    channel: &'c [u8],
    /// One of each seat.
    records: Records,
    subscribers: u64,
}

impl<'c> Receivers<'c> {
    /// Those of this moment.
    ///
    /// # Errors
    /// A fault.
    pub fn of(commit: &dyn CommitView, shard: bool, channel: &'c [u8]) -> Result<Receivers<'c>, Stop> {
        let mut receivers = Receivers { shard, channel, records: Records::new(), subscribers: 0 };
        if interest_of(commit.segment()) & interest::SUBSCRIBERS == 0 {
            return Ok(receivers);
        }
        let subject = if shard { Subject::Shard } else { Subject::Channel };
        receivers.add(record::glimpse(commit, &channel_key(subject, channel))?);
        if !shard {
            each_group(commit, channel, &mut |group| {
                for entry in group.filter(|entry| glob::matches(entry.pattern, channel)) {
                    let mut records = record::read(entry.records);
                    records.retain(|record| record.number > 0 && record.lives(commit.segment()));
                    receivers.add(records);
                }
            })?;
        }
        Ok(receivers)
    }

    fn add(&mut self, records: Records) {
        for record in records {
            self.subscribers = self.subscribers.saturating_add(record.number);
            if !self.records.iter().any(|earlier| earlier.same_owner(&record)) {
                self.records.push(record);
            }
        }
    }

    /// Publishes a message with the transaction. Returns how many subscribers it will reach.
    pub fn tell(&self, commit: &dyn CommitView, payload: &[u8]) -> u64 {
        let message = Message::Published { shard: self.shard, channel: self.channel, payload };
        for record in &self.records {
            message.write(|parts| commit.post(record.seat.into(), record.life, parts));
        }
        self.subscribers
    }
}

/// Publishes one message with the transaction. Returns how many subscribers it will reach.
///
/// # Errors
/// A fault.
pub fn publish(commit: &dyn CommitView, shard: bool, channel: &[u8], payload: &[u8]) -> Result<u64, Stop> {
    Ok(Receivers::of(commit, shard, channel)?.tell(commit, payload))
}

/// Calls `visit` with each group of patterns whose common beginning `channel` has.
fn each_group(
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
    let mut keys = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = txn.scan(SYSTEM, cursor, 100, &mut |scanned| {
            if scanned.key.starts_with(&lead) {
                keys.push(scanned.key.to_vec());
            }
        })?;
        if cursor == 0 {
            break;
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let mut found = Vec::new();
    for key in keys {
        if subject != Subject::Pattern {
            let name = &key[lead.len()..];
            if wanted(name) && !record::glimpse(txn, &key)?.is_empty() {
                found.push(name.to_vec());
            }
        } else if let Some(bytes) = record::bytes(txn, txn.glimpse(SYSTEM, &key)?)? {
            let is_alive = |entry: &Entry<'_>| {
                record::read(entry.records)
                    .iter()
                    .any(|record| record.number > 0 && record.lives(txn.segment()))
            };
            let patterns = entries(&bytes).filter(|entry| wanted(entry.pattern) && is_alive(entry));
            let patterns: BTreeSet<&[u8]> = patterns.map(|entry| entry.pattern).collect();
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
        let has_subscriber = |entry: &Entry<'_>| {
            record::read(entry.records).iter().any(|record| record.number > 0 && record.lives(txn.segment()))
        };
        let patterns: HashSet<&[u8]> =
            entries(&bytes).filter(has_subscriber).map(|entry| entry.pattern).collect();
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
fn withdraw(table: &Table, mut subscriptions: Vec<(Subject, Vec<u8>)>) {
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
    fn groups_read_as_they_are_written_and_cut_ones_give_what_is_whole() {
        let one = Record { seat: 1, life: 2, number: 3 };
        let mut bytes = Vec::new();
        write_entry(&mut bytes, b"a*", &[one]);
        write_entry(&mut bytes, b"a?c", &[one, one]);
        let read = |bytes: &[u8]| {
            entries(bytes)
                .map(|entry| (entry.pattern.to_vec(), record::read(entry.records).len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&bytes), [(b"a*".to_vec(), 1), (b"a?c".to_vec(), 2)]);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).len() < 2);
        }
    }

    #[test]
    fn a_pattern_begins_with_what_all_its_matches_begin_with() {
        assert_eq!(beginning(b"__key*__:*"), b"__key");
        assert_eq!(beginning(b"news.[ab]"), b"news.");
        assert_eq!(beginning(b"*"), b"");
        assert_eq!(beginning(b"plain"), b"plain");
        assert_eq!(beginning(&[b'x'; 100]).len(), BEGINNING_MAX);
    }
}
