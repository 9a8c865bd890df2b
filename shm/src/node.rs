//! What every node begins with, and how references inside it are found.
//!
//! ```text
//! OFFSET SIZE DESCRIPTION
//! 0      8    birth epoch (46 bits) | kind (4 bits) | payload length in bytes (14 bits)
//! 8      ..   payload; in kinds with references: their count (8 bytes), the references (8 each), then data
//! ```
//!
//! A node of a value is written by the transaction that makes it and never again once it is published (S1). No reader
//! can have seen the node before its birth epoch.

/// What a node is. The numbers are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NodeKind {
    /// Key and packed value of an entry.
    Record = 1,
    /// Key of an entry and the references of its value's trees.
    RecordRefs = 2,
    /// Data of a value.
    Data = 3,
    /// References and data of a value.
    DataRefs = 4,
    /// Buckets of the table.
    Piece = 5,
    /// Which pieces make up an extent.
    Extent = 6,
    /// A level of the table's directory.
    Directory = 7,
    /// Journal items of a large transaction.
    Journal = 8,
    /// Entries of a seat's retired list.
    Retired = 9,
    /// A database: its directory and its tallies.
    Database = 10,
    /// Short key and packed value of an entry, without options.
    Plain = 11,
    /// Messages in a seat's inbox.
    Inbox = 12,
    /// What a seat has saved for a snapshot.
    SnapshotLog = 13,
    /// Records in a seat's outbox.
    Outbox = 14,
    /// Bytes of the change log.
    Log = 15,
}

impl NodeKind {
    /// The stored number's meaning, if it has one (S5).
    pub const fn from_stored(number: u8) -> Option<NodeKind> {
        use NodeKind::*;
        Some(match number {
            1 => Record,
            2 => RecordRefs,
            3 => Data,
            4 => DataRefs,
            5 => Piece,
            6 => Extent,
            7 => Directory,
            8 => Journal,
            9 => Retired,
            10 => Database,
            11 => Plain,
            12 => Inbox,
            13 => SnapshotLog,
            14 => Outbox,
            15 => Log,
            _ => return None,
        })
    }

    /// Whether the payload begins with references that belong to a value.
    pub const fn has_refs(self) -> bool {
        matches!(self, NodeKind::RecordRefs | NodeKind::DataRefs)
    }
}

/// Bytes before the payload.
pub const HEADER_BYTES: u64 = 8;
/// Bits of an epoch.
pub const EPOCH_BITS: u32 = 46;

/// A node's first word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeHeader(pub u64);

impl NodeHeader {
    /// The header of a node born in `epoch`.
    pub const fn new(epoch: u64, kind: NodeKind, length: usize) -> NodeHeader {
        NodeHeader(epoch << 18 | (kind as u64) << 14 | length as u64)
    }
    /// The epoch from which on the node can have been seen.
    pub const fn birth(self) -> u64 {
        self.0 >> 18
    }
    /// The kind, if the stored number is one.
    pub const fn kind(self) -> Option<NodeKind> {
        NodeKind::from_stored((self.0 >> 14 & 15) as u8)
    }
    /// Payload bytes.
    pub const fn length(self) -> usize {
        (self.0 & 0x3fff) as usize
    }
}
