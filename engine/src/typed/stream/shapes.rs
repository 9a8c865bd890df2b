//! What the calls of streams take and return: ids, entries, limits, what is pending.
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use crate::answer::Item;
use crate::reply::{FromItem, FromScalar, Pairs, Scalar};

/// The id of an entry: `1700000000000-0` is the first one of that millisecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId {
    /// Milliseconds since the Unix epoch.
    pub ms: u64,
    /// Which one of that millisecond.
    pub sequence: u64,
}

impl StreamId {
    /// An id of its two parts.
    #[must_use]
    pub const fn new(ms: u64, sequence: u64) -> StreamId {
        StreamId { ms, sequence }
    }

    fn parse(text: &[u8]) -> Option<StreamId> {
        let (ms, sequence) = std::str::from_utf8(text).ok()?.split_once('-')?;
        Some(StreamId { ms: ms.parse().ok()?, sequence: sequence.parse().ok()? })
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.sequence)
    }
}

impl FromItem for StreamId {
    fn from_item(item: Item<'_>) -> Option<StreamId> {
        StreamId::parse(item.bytes()?)
    }
}

impl FromScalar for StreamId {
    fn from_scalar(scalar: Scalar) -> Option<StreamId> {
        if let Scalar::Bytes(text) = scalar { StreamId::parse(&text) } else { None }
    }
}

/// The two ends of a range of ids as a command reads them.
pub(crate) fn id_ends(range: &impl RangeBounds<StreamId>) -> [String; 2] {
    let end = |bound: Bound<&StreamId>, unbounded: &str| match bound {
        Bound::Included(id) => id.to_string(),
        Bound::Excluded(id) => format!("({id}"),
        Bound::Unbounded => unbounded.into(),
    };
    [end(range.start_bound(), "-"), end(range.end_bound(), "+")]
}

/// Ids as words.
pub(crate) fn id_texts(ids: &[StreamId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// An entry of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamEntry {
    /// Its id.
    pub id: StreamId,
    /// Its fields in order, with their values; none if the entry is pending and was deleted.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl FromItem for StreamEntry {
    fn from_item(item: Item<'_>) -> Option<StreamEntry> {
        let (id, fields): (StreamId, Pairs<_, _>) = FromItem::from_item(item)?;
        Some(StreamEntry { id, fields: fields.0 })
    }
}

/// What the consumers of a group have received and not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingSummary {
    /// The number of entries.
    pub count: u64,
    /// The lowest and the highest id.
    pub ids: Option<(StreamId, StreamId)>,
    /// The consumers, with the number of entries of each.
    pub consumers: Vec<(Vec<u8>, u64)>,
}

impl FromItem for PendingSummary {
    fn from_item(item: Item<'_>) -> Option<PendingSummary> {
        let mut items = item.items()?;
        let count = u64::from_item(items.next()?)?;
        let (first, last) = (Option::from_item(items.next()?)?, Option::from_item(items.next()?)?);
        Some(PendingSummary { count, ids: first.zip(last), consumers: Vec::from_item(items.next()?)? })
    }
}

/// An entry that was received and not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingEntry {
    /// The entry's id.
    pub id: StreamId,
    /// The consumer that has received it.
    pub consumer: Vec<u8>,
    /// How long ago that was.
    pub idle: Duration,
    /// How often it was delivered.
    pub deliveries: u64,
}

impl FromItem for PendingEntry {
    fn from_item(item: Item<'_>) -> Option<PendingEntry> {
        let mut items = item.items()?;
        let (id, consumer) = (StreamId::from_item(items.next()?)?, Vec::from_item(items.next()?)?);
        let idle = Duration::from_millis(u64::from_item(items.next()?)?);
        Some(PendingEntry { id, consumer, idle, deliveries: u64::from_item(items.next()?)? })
    }
}

/// What [`Database::xautoclaim`](crate::Database::xautoclaim) has taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claimed {
    /// Where the next call begins; 0-0 after the last one.
    pub next: StreamId,
    /// The entries.
    pub entries: Vec<StreamEntry>,
    /// Entries that were pending and are deleted: they are pending no more.
    pub deleted: Vec<StreamId>,
}

impl FromItem for Claimed {
    fn from_item(item: Item<'_>) -> Option<Claimed> {
        let mut items = item.items()?;
        let (next, entries) = (StreamId::from_item(items.next()?)?, Vec::from_item(items.next()?)?);
        Some(Claimed { next, entries, deleted: Vec::from_item(items.next()?)? })
    }
}
