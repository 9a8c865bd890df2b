//! Groups: a value that has several names, each with its records. The names are patterns with a common beginning, or the queues of one pattern.
//!
//! ```text
//! group = for each name: length (4) | name | count (4) | records
//! ```

use hashbrown::HashMap;
use polder_table::{CommitView, Txn};

use crate::record::{self, Record, Records};

/// One entry of a group, where it lies.
pub(crate) struct Entry<'g> {
    pub name: &'g [u8],
    pub records: &'g [u8],
    /// The place of the records in the group.
    pub records_at: usize,
}

/// The entries of a group; what is cut off at the end is none.
pub(crate) struct Entries<'g> {
    bytes: &'g [u8],
    at: usize,
}

pub(crate) fn entries(bytes: &[u8]) -> Entries<'_> {
    Entries { bytes, at: 0 }
}

impl<'g> Iterator for Entries<'g> {
    type Item = Entry<'g>;

    fn next(&mut self) -> Option<Entry<'g>> {
        let length = |bytes: &'g [u8]| {
            bytes.split_first_chunk::<4>().map(|(length, rest)| (u32::from_le_bytes(*length) as usize, rest))
        };
        let (long, rest) = length(self.bytes.get(self.at..)?)?;
        let (name, rest) = rest.split_at_checked(long)?;
        let (count, rest) = length(rest)?;
        let (records, _) = rest.split_at_checked(record::bytes_of(count)?)?;
        let records_at = self.at + 8 + long;
        self.at = records_at + records.len();
        Some(Entry { name, records, records_at })
    }
}

pub(crate) fn write_entry(bytes: &mut Vec<u8>, pattern: &[u8], records: &[Record]) {
    bytes.extend_from_slice(&(pattern.len() as u32).to_le_bytes());
    bytes.extend_from_slice(pattern);
    bytes.extend_from_slice(&(records.len() as u32).to_le_bytes());
    records.iter().for_each(|record| record.write(bytes));
}

/// Changes the number of a seat's subscribers among the records of a subject.
pub(crate) fn count(records: &mut Records, own: Record, by: i64) {
    match records.iter_mut().find(|record| record.same_owner(&own)) {
        Some(record) => record.number = record.number.saturating_add_signed(by),
        None if by > 0 => records.push(Record { number: by as u64, ..own }),
        None => {}
    }
    records.retain(|record| record.number > 0);
}

/// A group with one entry of each pattern, without the dead, in which the calling thread has one subscriber more or less of each of `patterns`.
pub(crate) fn rewritten(txn: &Txn<'_>, bytes: &[u8], patterns: &[&[u8]], by: i64) -> Vec<u8> {
    let own = Record::own(txn.seat(), 0);
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    let mut group: Vec<(&[u8], Records)> = Vec::new();
    for entry in entries(bytes) {
        let place = *places.entry(entry.name).or_insert_with(|| {
            group.push((entry.name, Records::new()));
            group.len() - 1
        });
        let living = record::living(txn.segment(), entry.records);
        living.into_iter().for_each(|record| count(&mut group[place].1, record, record.number as i64));
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
                .map(|entry| (entry.name.to_vec(), record::read(entry.records).len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&bytes), [(b"a*".to_vec(), 1), (b"a?c".to_vec(), 2)]);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).len() < 2);
        }
    }
}
