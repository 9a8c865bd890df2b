//! Records of interest: a seat, its life and a number; and the keys of the hidden database under
//! which they lie.
//!
//! ```text
//! hub:c:CHANNEL      subscribers of a channel                      number: how many clients
//! hub:s:CHANNEL      of a shard channel                            number: how many clients
//! hub:p:BEGINNING    of patterns with this literal beginning       pattern by pattern: length (4), pattern, count (4), records
//! subj:n:SHAPE:PLACE of patterns of the token dialect, and queues     queue by queue, as the entries of hub:p: (tokens.rs)
//! subj:A             of addresses that serve clients of NATS          address by address, as the entries of hub:p: (addresses.rs)
//! subj:S             of all shapes of such patterns                   shape by shape, as the entries of hub:p: (shapes.rs)
//! hub:w:K DB KEY     those who wait for a key to hold kind K       number: the first ticket among the seat's own
//! hub:t:KEY          those with clients that have read a key       number: 0
//!
//! record   seat (2) | life (8) | number (8)
//! ```

use polder_shm::{Seat, Segment};
use polder_table::{CommitView, Db, Found, New, Replaces, SYSTEM, Stop, Txn};
use polder_values::{Kind, Nodes, string};
use smallvec::SmallVec;

use crate::subscriptions::Subject;

/// What all keys of the hub begin with.
pub const PREFIX: &[u8] = b"hub:";
/// Bytes of a record.
const BYTES: usize = 18;

/// One seat's interest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub seat: u16,
    pub life: u64,
    pub number: u64,
}

/// The records of one subject; nearly always a few.
pub type Records = SmallVec<[Record; 4]>;

impl Record {
    /// The calling thread's own.
    pub fn own(seat: &Seat, number: u64) -> Record {
        Record { seat: seat.index() as u16, life: seat.life(), number }
    }

    /// Whether two records are of one life of one seat.
    pub fn same_owner(&self, other: &Record) -> bool {
        (self.seat, self.life) == (other.seat, other.life)
    }

    /// Whether its owner still sits there.
    pub fn lives(&self, segment: &Segment) -> bool {
        segment.lives(self.seat.into(), self.life)
    }

    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.seat.to_le_bytes());
        into.extend_from_slice(&self.life.to_le_bytes());
        into.extend_from_slice(&self.number.to_le_bytes());
    }
}

/// Takes records apart; what is left over at the end is no record.
pub(crate) fn read(bytes: &[u8]) -> Records {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let one = |bytes: &[u8]| Record {
        seat: u16::from_le_bytes(bytes[..2].try_into().expect("2 bytes")),
        life: word(&bytes[2..10]),
        number: word(&bytes[10..]),
    };
    bytes.chunks_exact(BYTES).map(one).collect()
}

/// How many bytes `count` records take; none for more than there can be.
pub(crate) fn bytes_of(count: usize) -> Option<usize> {
    count.checked_mul(BYTES)
}

/// Where the number of the record lies that has this place among several.
pub(crate) fn number_at(place: usize) -> usize {
    place * BYTES + 10
}

/// The records of bytes that count: of living owners, and with a number.
pub(crate) fn living(segment: &Segment, bytes: &[u8]) -> Records {
    let mut records = read(bytes);
    records.retain(|record| record.number > 0 && record.lives(segment));
    records
}

/// The keys of the hidden database that begin so, in order.
pub(crate) fn keys(txn: &Txn<'_>, lead: &[u8]) -> Result<Vec<Vec<u8>>, Stop> {
    let (mut keys, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = txn.scan(SYSTEM, cursor, 100, &mut |scanned| {
            if scanned.key.starts_with(lead) {
                keys.push(scanned.key.to_vec());
            }
        })?;
        if cursor == 0 {
            keys.sort_unstable();
            keys.dedup();
            return Ok(keys);
        }
    }
}

/// Whether the number of each of these records is 0.
#[inline]
pub(crate) fn are_empty(bytes: &[u8]) -> bool {
    bytes.chunks_exact(BYTES).all(|record| record[10..] == [0; 8])
}

/// The bytes of a value of the hub, in one piece.
pub(crate) fn bytes<'t>(
    nodes: &'t dyn Nodes,
    found: Option<Found<'t>>,
) -> Result<Option<std::borrow::Cow<'t, [u8]>>, Stop> {
    match found {
        Some(found) if found.kind == Kind::String => Ok(Some(string::contiguous(nodes, &found.value)?)),
        _ => Ok(None),
    }
}

/// The records under a key whose owners live, as they were a moment ago.
///
/// # Errors
/// A fault.
pub fn glimpse(commit: &dyn CommitView, key: &[u8]) -> Result<Records, Stop> {
    let mut records = match bytes(commit, commit.glimpse(SYSTEM, key)?)? {
        Some(bytes) => read(&bytes),
        None => return Ok(Records::new()),
    };
    records.retain(|record| record.lives(commit.segment()));
    Ok(records)
}

/// Changes the records under a key, as part of the transaction; those of the dead go. `change`
/// returns whether it changed something.
///
/// # Errors
/// As [`Txn::write`].
pub fn edit(txn: &Txn<'_>, key: &[u8], change: impl FnOnce(&mut Records) -> bool) -> Result<(), Stop> {
    let mut records = match bytes(txn, txn.peek(SYSTEM, key)?)? {
        Some(bytes) => read(&bytes),
        None => Records::new(),
    };
    let before = records.len();
    records.retain(|record| record.lives(txn.segment()));
    if !change(&mut records) && records.len() == before {
        return Ok(());
    }
    let mut written = Vec::with_capacity(records.len() * BYTES);
    records.iter().for_each(|record| record.write(&mut written));
    put(txn, key, &written)
}

/// Gives a key of the hub these bytes, or removes it if there are none.
///
/// # Errors
/// As [`Txn::write`].
pub(crate) fn put(txn: &Txn<'_>, key: &[u8], bytes: &[u8]) -> Result<(), Stop> {
    if bytes.is_empty() {
        return txn.remove(SYSTEM, key, Replaces::Whole).map(drop);
    }
    let value = string::make(txn, bytes)?;
    txn.write(SYSTEM, key, &New::of(Kind::String, value), Replaces::Whole)
}

/// The key of the records of a channel or a shard channel.
pub(crate) fn channel_key(subject: Subject, name: &[u8]) -> Vec<u8> {
    [if subject == Subject::Shard { b"hub:s:" } else { b"hub:c:" }, name].concat()
}

/// The key of the records of the seats that wait for `key` to hold a value of `kind`.
pub fn waiters_key(kind: Kind, db: Db, key: &[u8]) -> Vec<u8> {
    [b"hub:w:", &[kind as u8][..], &db.to_le_bytes(), key].concat()
}

/// The key of the records of the seats whose clients have read `key`.
pub fn readers_key(key: &[u8]) -> Vec<u8> {
    [b"hub:t:", key].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_as_they_are_written() {
        let records =
            [Record { seat: 7, life: 1 << 40, number: 3 }, Record { seat: 1023, life: 1, number: u64::MAX }];
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.write(&mut bytes));
        assert_eq!(bytes.len(), 2 * BYTES);
        assert_eq!(read(&bytes)[..], records);
        assert_eq!(read(&bytes[..bytes.len() - 1])[..], records[..1]);
    }
}
