//! RDB, the file in which Redis and Valkey keep everything, and the payload of DUMP, from both ends.
//!
//! ```text
//!   file      REDIS0010 | VALKEY080                          magic and version, 9 bytes
//!             FA name value ...                              auxiliary fields       FE db   FB keys expiries
//!             [FC expiry, 8] [F8 idle | F9 frequency] type key value ...            F5 a library of functions
//!             FF  CRC-64/REDIS of all before it, 8           zeros: not computed
//!
//!   payload   type value  version, 2  CRC-64 of all before it, 8         (DUMP, RESTORE, MIGRATE)
//!
//!   length    00xxxxxx | 01xxxxxx x | 80 x4 (big-endian) | 81 x8          C0 C1 C2: an integer of 1, 2, 4 bytes as a string
//!   string    length bytes | C0.. | C3 length length LZF
//! ```
//!
//! | type | what follows |
//! |---|---|
//! | 0 string; 1 list, 2 set, 4 hash; 3, 5 sorted set | the string; a count and that many elements (scores as text, as doubles) |
//! | 9 zipmap, 10 12 13 ziplist, 11 intset, 16 17 20 listpack | one string that holds all elements ([`packed`](mod@packed)) |
//! | 14, 18 quicklist | a count of such strings, each a ziplist; a listpack or one plain element |
//! | 15, 19, 21, 26, 27 stream | listpacks of entries, then the stream's facts, its groups, their consumers, its producers |
//! | 22 to 25 | Redis's hashes with expiries of fields: counted (22 without, 24 with the least expiry before), listpack (23, 25) |
//! | 22 in a file of Valkey | its hash with expiries of fields |
//! | 28 array | a count, 1 and the cursor or 0, and that many times an index, a form and a value (form 0, 3: string, 1, 2: integer, double of 8 bytes) |
//! | 7 | a value of a module: skipped by its annotations, and reported |
//!
//! [`Reader`] takes bytes as they come and hands out [`Item`]s one by one; [`Writer`] is given the same things and appends
//! bytes. Neither ever holds more than one string of the file (a packed one may hold a small collection, or a node of a big one).
//!
//! - **R1** A number in the input never decides how much memory is taken: a buffer grows with the bytes that are there, and with
//!   what LZF makes of them.
//! - **R2** Each turn of a loop over the input takes at least a byte of it.
//! - **R3** What was not taken can be offered again: a step changes the reader's state only when it was whole.
mod crc;
mod cursor;
mod found;
mod lzf;
mod pack;
mod packed;
mod payload;
mod read;
mod stream;
mod write;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use crc::Checksum;
pub use pack::Thresholds;
pub use payload::{Payload, open, open_as, seal};
pub use read::{Mark, Reader};
pub use write::{Form, ListPlan, Pairs, StreamNeeds, StreamPlan, Writer};

/// What there is to know of a stream besides its entries and groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamFacts {
    pub length: u64,
    pub last: Id,
    /// The first entry's, where the input says it.
    pub first: Option<Id>,
    /// The greatest id that was ever deleted.
    pub deleted: Id,
    /// How many entries were ever added.
    pub added: u64,
}

/// The treatment of producers that send an entry again, and the entries that they have sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Production {
    /// Seconds for which an entry is known by its producer's id.
    pub duration_s: u64,
    /// Ids of a producer that are kept at most.
    pub ids_max: u64,
    /// Entries that were ever added by such an id, and those that were not added since they were there.
    pub added: u64,
    pub duplicates: u64,
}

impl Production {
    /// The words of Redis for a stream that has had no producers.
    pub const USUAL: Production = Production { duration_s: 100, ids_max: 100, added: 0, duplicates: 0 };
}

/// The input is not what it says it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub Cow<'static, str>);

impl From<&'static str> for Malformed {
    fn from(text: &'static str) -> Malformed {
        Malformed(Cow::Borrowed(text))
    }
}

/// What a key holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
    Array,
}

/// The name of a stream's entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Id {
    pub ms: u64,
    pub sequence: u64,
}

/// A key, before what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin<'a> {
    /// Empty in a payload, which has no key.
    pub key: &'a [u8],
    pub kind: Kind,
    /// How many elements the input says will come, where it says so. Not to be believed.
    pub count: Option<u64>,
    pub expiry_ms: Option<u64>,
    pub idle_seconds: Option<u64>,
    pub frequency: Option<u8>,
}

/// One thing that a file or payload says. A value is a `Begin`, its elements, and an `End`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Item<'a> {
    Aux {
        name: &'a [u8],
        value: &'a [u8],
    },
    Database(u64),
    /// How many keys the database has, and how many of them with an expiry.
    Sizes {
        keys: u64,
        expiries: u64,
    },
    /// The source of a library of functions.
    Functions(&'a [u8]),
    Begin(Begin<'a>),
    /// All of a string.
    Text(&'a [u8]),
    /// An element of a list.
    Element(&'a [u8]),
    /// A member of a set.
    Member(&'a [u8]),
    /// A member of a sorted set; `text` where its score was written as text.
    Scored {
        member: &'a [u8],
        score: f64,
        text: Option<&'a [u8]>,
    },
    /// A field of a hash.
    Field {
        field: &'a [u8],
        value: &'a [u8],
        expiry_ms: Option<u64>,
    },
    /// An entry of a stream, before its pairs. Each has a greater id than the one before.
    Entry {
        id: Id,
        pairs: u64,
    },
    Pair {
        field: &'a [u8],
        value: &'a [u8],
    },
    /// What there is to know of a stream, after its entries.
    Stream(StreamFacts),
    /// A group of the stream; `read` is how many entries it has read, if that is known.
    Group {
        name: &'a [u8],
        last: Id,
        read: Option<u64>,
    },
    /// An entry that the group's consumers have not acknowledged.
    Pending {
        id: Id,
        delivered_ms: u64,
        deliveries: u64,
    },
    /// A consumer of the group.
    Consumer {
        name: &'a [u8],
        seen_ms: u64,
        active_ms: Option<u64>,
    },
    /// One of the group's pending entries: it is this consumer's.
    Owned(Id),
    /// One of the group's pending entries, which a consumer has given back: it is no one's. Behind the group's consumers.
    Released(Id),
    /// A producer of the stream, behind all groups.
    Producer(&'a [u8]),
    /// The id by which the producer knows an entry, and the entry's.
    Produced {
        iid: &'a [u8],
        id: Id,
    },
    /// The stream's way with producers, behind all of them.
    Production(Production),
    /// The index at which was inserted last, before the values of an array.
    Cursor(u64),
    /// A value of an array.
    Indexed {
        index: u64,
        value: &'a [u8],
    },
    /// The value is whole.
    End,
    /// A key that holds what only a module understands; there is no `End`.
    Foreign {
        key: &'a [u8],
        module: [u8; 9],
    },
    /// The file is whole, and its checksum right.
    Eof,
}

/// The newest version of Redis's form, and Valkey's own.
pub const VERSION_MAX: u32 = 14;
pub const VALKEY: u32 = 80;

/// The last moment at which a field of a hash can expire: more bits than these are kept nowhere.
pub const FIELD_EXPIRY_MAX_MS: u64 = (1 << 48) - 1;

/// The types by their numbers.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SCORES_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SCORES: u8 = 5;
    pub const MODULE: u8 = 7;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const SCORES_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const QUICKLIST: u8 = 14;
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SCORES_LISTPACK: u8 = 17;
    pub const QUICKLIST_2: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
    pub const HASH_EXPIRIES_EARLY: u8 = 22;
    pub const HASH_VALKEY: u8 = 22;
    pub const HASH_LISTPACK_EXPIRIES_EARLY: u8 = 23;
    pub const HASH_EXPIRIES: u8 = 24;
    pub const HASH_LISTPACK_EXPIRIES: u8 = 25;
    pub const STREAM_4: u8 = 26;
    pub const STREAM_5: u8 = 27;
    pub const ARRAY: u8 = 28;
}

/// The bytes that stand where a type could.
mod code {
    pub const SLOT_IMPORT: u8 = 243;
    pub const SLOT: u8 = 244;
    pub const FUNCTIONS: u8 = 245;
    pub const FUNCTIONS_EARLY: u8 = 246;
    pub const MODULE_AUX: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const AUX: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const EXPIRY_MS: u8 = 252;
    pub const EXPIRY_SECONDS: u8 = 253;
    pub const DATABASE: u8 = 254;
    pub const EOF: u8 = 255;
}
