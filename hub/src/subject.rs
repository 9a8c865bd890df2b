//! Subjects: channels, shard channels and patterns, and who has subscribed to them.

use polder_base::glob;
use polder_shm::layout::{header, interest};
use polder_table::change::take_interest;
use polder_table::{SYSTEM, Stop, Txn};
use std::sync::atomic::Ordering;

use crate::letter::Letter;
use crate::record::{self, Record, Records};

/// What can be subscribed to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Subject {
    Channel,
    Pattern,
    Shard,
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
    let end = pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\')).unwrap_or(pattern.len());
    &pattern[..end.min(BEGINNING_MAX)]
}

/// Patterns with one beginning, and who has subscribed to each.
type Group = Vec<(Vec<u8>, Records)>;

fn read_group(mut bytes: &[u8]) -> Group {
    let mut group = Group::new();
    let length = |bytes: &[u8]| bytes.split_first_chunk::<4>().map(|(length, _)| u32::from_le_bytes(*length) as usize);
    while let Some(long) = length(bytes) {
        let Some((pattern, rest)) = bytes[4..].split_at_checked(long) else { break };
        let Some(count) = length(rest) else { break };
        let Some((records, rest)) = record::bytes_of(count).and_then(|bytes| rest[4..].split_at_checked(bytes)) else { break };
        group.push((pattern.to_vec(), record::read(records)));
        bytes = rest;
    }
    group
}

fn write_group(group: &Group) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (pattern, records) in group {
        bytes.extend_from_slice(&(pattern.len() as u32).to_le_bytes());
        bytes.extend_from_slice(pattern);
        bytes.extend_from_slice(&(records.len() as u32).to_le_bytes());
        records.iter().for_each(|record| record.write(&mut bytes));
    }
    bytes
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

/// Records that the calling thread has one subscriber more or less, as part of the transaction. Its inbox is open.
///
/// # Errors
/// As [`Txn::write`].
pub fn subscribe(txn: &Txn<'_>, subject: Subject, name: &[u8], by: i64) -> Result<(), Stop> {
    let seat = txn.seat();
    let own = Record::own(seat, 0);
    if by > 0 {
        take_interest(seat, interest::SUBSCRIBERS);
    }
    if subject != Subject::Pattern {
        return record::edit(txn, &channel_key(subject, name), |records| {
            count(records, own, by);
            true
        });
    }
    let begins = beginning(name);
    // SYNC: interest. Before the record: who looks for patterns looks at lengths first.
    txn.table().segment().word(header::PREFIXES).fetch_or(1 << begins.len(), Ordering::SeqCst);
    let key = group_key(begins);
    let mut group = record::bytes(txn, txn.peek(SYSTEM, &key)?)?.map_or(Group::new(), |bytes| read_group(&bytes));
    match group.iter_mut().find(|(pattern, _)| pattern == name) {
        Some((_, records)) => count(records, own, by),
        None => {
            let mut records = Records::new();
            count(&mut records, own, by);
            group.push((name.to_vec(), records));
        }
    }
    group.iter_mut().for_each(|(_, records)| records.retain(|record| record.lives(txn)));
    group.retain(|(_, records)| !records.is_empty());
    record::put(txn, &key, &write_group(&group))
}

/// Who hears what a transaction publishes on a channel, over all processes.
pub struct Hearers<'c> {
    shard: bool,
    channel: &'c [u8],
    /// One of each seat.
    records: Records,
    subscribers: u64,
}

impl<'c> Hearers<'c> {
    /// Those of this moment.
    ///
    /// # Errors
    /// A fault.
    pub fn of(txn: &Txn<'_>, shard: bool, channel: &'c [u8]) -> Result<Hearers<'c>, Stop> {
        let mut hearers = Hearers { shard, channel, records: Records::new(), subscribers: 0 };
        if txn.interest() & interest::SUBSCRIBERS == 0 {
            return Ok(hearers);
        }
        let subject = if shard { Subject::Shard } else { Subject::Channel };
        hearers.add(record::glimpse(txn, &channel_key(subject, channel))?);
        if !shard {
            each_group(txn, channel, &mut |group| {
                for (_, mut records) in group.into_iter().filter(|(pattern, _)| glob::matches(pattern, channel)) {
                    records.retain(|record| record.lives(txn));
                    hearers.add(records);
                }
            })?;
        }
        Ok(hearers)
    }

    fn add(&mut self, records: Records) {
        for record in records {
            self.subscribers = self.subscribers.saturating_add(record.number);
            if !self.records.iter().any(|earlier| earlier.same_owner(&record)) {
                self.records.push(record);
            }
        }
    }

    /// Publishes a message with the transaction; answers how many subscribers it will reach.
    pub fn tell(&self, txn: &Txn<'_>, payload: &[u8]) -> u64 {
        let letter = Letter::Message { shard: self.shard, channel: self.channel, payload };
        for record in &self.records {
            letter.write(|parts| txn.post(record.seat.into(), record.life, parts));
        }
        self.subscribers
    }
}

/// Publishes one message with the transaction; answers how many subscribers it will reach.
///
/// # Errors
/// A fault.
pub fn publish(txn: &Txn<'_>, shard: bool, channel: &[u8], payload: &[u8]) -> Result<u64, Stop> {
    Ok(Hearers::of(txn, shard, channel)?.tell(txn, payload))
}

/// Shows the groups of patterns whose beginning `channel` has.
fn each_group(txn: &Txn<'_>, channel: &[u8], visit: &mut dyn FnMut(Group)) -> Result<(), Stop> {
    let mut lengths = txn.table().segment().load(header::PREFIXES);
    while lengths != 0 {
        let length = lengths.trailing_zeros() as usize;
        lengths &= lengths - 1;
        if length > channel.len() {
            break;
        }
        if let Some(bytes) = record::bytes(txn, txn.glimpse(SYSTEM, &group_key(&channel[..length]))?)? {
            visit(read_group(&bytes));
        }
    }
    Ok(())
}

/// How many clients have subscribed to a channel.
///
/// # Errors
/// A fault.
pub fn subscribers(txn: &Txn<'_>, subject: Subject, name: &[u8]) -> Result<u64, Stop> {
    Ok(record::glimpse(txn, &channel_key(subject, name))?.iter().map(|record| record.number).sum())
}

/// The channels, shard channels or patterns that anybody has subscribed to and that `wanted` accepts.
///
/// # Errors
/// A fault.
pub fn subjects(txn: &Txn<'_>, subject: Subject, wanted: &dyn Fn(&[u8]) -> bool) -> Result<Vec<Vec<u8>>, Stop> {
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
            let group = read_group(&bytes).into_iter();
            let alive = group.filter(|(pattern, records)| wanted(pattern) && records.iter().any(|record| record.lives(txn)));
            found.extend(alive.map(|(pattern, _)| pattern));
        }
    }
    Ok(found)
}

/// Takes the records of the dead out of a group of patterns.
///
/// # Errors
/// As [`Txn::write`].
pub(crate) fn sweep_group(txn: &Txn<'_>, key: &[u8]) -> Result<(), Stop> {
    let Some(bytes) = record::bytes(txn, txn.peek(SYSTEM, key)?)? else { return Ok(()) };
    let mut group = read_group(&bytes);
    group.iter_mut().for_each(|(_, records)| records.retain(|record| record.lives(txn)));
    group.retain(|(_, records)| !records.is_empty());
    let written = write_group(&group);
    if written == *bytes { Ok(()) } else { record::put(txn, key, &written) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_read_as_they_are_written_and_cut_ones_give_what_is_whole() {
        let one = Record { seat: 1, life: 2, number: 3 };
        let group: Group = vec![(b"a*".to_vec(), [one].into_iter().collect()), (b"a?c".to_vec(), [one, one].into_iter().collect())];
        let bytes = write_group(&group);
        assert_eq!(read_group(&bytes), group);
        for end in 0..bytes.len() {
            assert!(read_group(&bytes[..end]).len() < 2);
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
