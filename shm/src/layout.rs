//! Where everything lies in a segment. All of it is offsets; all of it is stored, so none of it may change
//! without a new [`LAYOUT`].
//!
//! ```text
//! OFFSET            SIZE                    WHAT
//! 0                 4 KiB                   header
//! 4 KiB             28 KiB                  roots: words that the table owns (its map of databases)
//! 32 KiB            seats_max x 64          liveness locks (liveness.rs)
//! 96 KiB            seats_max x 100 KiB     seats, backed by memory once they have been used
//! slab_words_at     slabs_max x 16          a lock and a state for each slab
//! slab_bits_at      slabs_max x 256         a bitmap for each slab: 1 = taken out of the slab
//! slabs_at          slabs_max x 64 KiB      nodes
//! ```

use crate::class::{CACHE_STARTS, CLASSES, NODE_MIN, SLAB_BYTES};

/// From here on versions (of which entries keep 40 bits) come around.
pub const VERSIONS_END: u64 = (1 << 40) - (1 << 20);
/// The first eight bytes of every segment.
pub const MAGIC: u64 = u64::from_le_bytes(*b"POLDER\r\n");
/// The layout's number: another one is refused, with the way out (export and import).
pub const LAYOUT: u32 = 10;

/// Bits of the header's layout word that name what a segment uses and not every program of this layout knows. A program sets a feature's bit before it
/// stores anything of that form; the bit stays. docs/decisions/008-layout-9.md lists what is reserved for which feature.
pub mod features {
    /// A program that does not know one of these refuses the segment.
    pub const REQUIRED: u64 = 0xffff << 32;
    /// A program that does not know one of these can still use the segment.
    pub const OPTIONAL: u64 = 0xffff << 48;
    /// Records may have a second option byte: marks, a chosen CAS and a content type of an item.
    pub const ITEM_EXTRAS: u64 = 1 << 32;
    /// Commits append what they change to outboxes ([`outbox`](crate::outbox)): a program that does not would leave gaps.
    pub const CHANGE_LOG: u64 = 1 << 33;
    /// Entries may be stubs, whose values lie in a tier ([`tier`](super::tier)): a program that does not know these could read no such key.
    pub const TIER: u64 = 1 << 34;
    /// Commits append to the log what replicas are to hear beside changes ([`replicas`](super::replicas)): a program that does not would leave gaps.
    pub const REPLICATION: u64 = 1 << 35;
    /// The memory follows another one, or has done so ([`link`](super::link)): its log may hold the primary's own bytes, and databases may be staged.
    pub const FOLLOWS: u64 = 1 << 36;
    /// Streams may know producers by their ids of entries, and have entries pending that no consumer owns.
    pub const STREAM_PRODUCERS: u64 = 1 << 37;
    /// Subscriptions to patterns of the token dialect and to queues, and messages with more than a payload: a program that does not know them would
    /// not deliver them.
    pub const SUBJECTS: u64 = 1 << 38;
    /// Keys may hold arrays: a program that does not know them could read no such key.
    pub const ARRAYS: u64 = 1 << 39;
    /// The required ones that this program knows.
    pub const KNOWN: u64 =
        ITEM_EXTRAS | CHANGE_LOG | TIER | REPLICATION | FOLLOWS | STREAM_PRODUCERS | SUBJECTS | ARRAYS;

    /// The required ones of a layout word that this program does not know.
    pub const fn unknown(word: u64) -> u64 {
        word & REQUIRED & !KNOWN
    }
}

/// Header words, as byte offsets.
pub mod header {
    pub const MAGIC: u64 = 0;
    /// Layout number (low half) and [`features`](super::features) (high half).
    pub const LAYOUT: u64 = 8;
    pub const CEILING: u64 = 16;
    pub const PAGE_BYTES: u64 = 24;
    pub const SEATS_MAX: u64 = 32;
    pub const SLABS_MAX: u64 = 40;
    pub const CREATED_MS: u64 = 48;
    /// Set by `remove`: every attached process sees it.
    pub const REMOVED: u64 = 56;
    /// 1 once the last process has left a `file:` segment in order and all of it is on the disk, until a thread takes a seat; 2 while such a segment is
    /// put in order after a boot (`renew.rs`).
    pub const CLEAN: u64 = 64;
    pub const BOOT_ID: u64 = 72; // 16 bytes
    /// Seats that have ever been used: scans end here.
    pub const SEATS_HIGH: u64 = 88;
    /// Slabs backed by memory.
    pub const SLABS_READY: u64 = 96;
    /// The epoch of interval-based reclamation; a line of its own.
    pub const EPOCH: u64 = 128;
    /// The next block of versions; a line of its own.
    pub const VERSIONS: u64 = 192;
    /// One hint word per class and one for free slabs: which of 64 groups of slabs may have free nodes.
    pub const HINTS: u64 = 256; // (CLASSES + 1) * 8
    /// The random secret of the hash.
    pub const SECRET: u64 = 1024; // 192 bytes
    pub const SECRET_BYTES: usize = 192;
    /// Limits and settings that hot paths read; the table gives the words their meaning.
    pub const LIMITS: u64 = 1280; // 64 words
    /// The times and places at which maintenance was last done, as hints; times in milliseconds since the Unix epoch.
    pub const MAINTAINED: u64 = 1792; // 8 words
    /// When a thread last worked on emptying slabs, while slabs are marked (`drain`), in milliseconds since the Unix epoch; the fourth
    /// of the words of MAINTAINED.
    pub const MARKS: u64 = MAINTAINED + 24;
    /// The most bytes that were in use.
    pub const USED_PEAK: u64 = 1856;
    /// What any seat listens to: bits of [`interest`](super::interest), and above them a count of changes. A line of its own.
    pub const INTEREST: u64 = 2048;
    /// The next ticket of a call that waits for a key; a line of its own.
    pub const TICKETS: u64 = 2112;
    /// The next number of a client; a line of its own.
    pub const CLIENTS: u64 = 2176;
    /// Which classes of keyspace events are wanted: bits that commands give their meaning.
    pub const EVENTS: u64 = 2240;
    /// The lengths of the literal beginnings of all subscribed patterns: a bit for each length.
    pub const PREFIXES: u64 = 2248;
    /// A random word in the names of this segment's FIFOs.
    pub const WAKEUPS: u64 = 2256;
    /// Bit 0: there are subscriptions to patterns of the token dialect or to queues. Above it a count that
    /// moves when there is a pattern of another shape.
    pub const TOKENS: u64 = 2264;
    /// What each commit has to record: bits of [`recording`](super::recording), and above them the number of the last snapshot
    /// ([`snapshot_log`](crate::overlay)). Beside the word of interest, which every writer reads, too.
    pub const RECORDING: u64 = 2056;
    /// The seat, plus one, that the snapshot belongs to; the epochs that it needs; the last version that belongs to it; a line of its own.
    pub const SNAPSHOT_OWNER: u64 = 2304;
    pub const SNAPSHOT_LOWER: u64 = 2312;
    pub const SNAPSHOT_UPPER: u64 = 2320;
    pub const SNAPSHOT_WATERMARK: u64 = 2328;
    /// The last snapshot that a writer had no memory for; the last number that was given to a snapshot.
    pub const SNAPSHOT_BROKEN: u64 = 2336;
    pub const SNAPSHOTS: u64 = 2344;
    /// How far the snapshot's reader has come; a line of its own.
    pub const SNAPSHOT_PASSED: u64 = 2368;
    /// The order of what was saved; a line of its own.
    pub const SNAPSHOT_SERIAL: u64 = 2432;
    /// Until when clients are paused (`CLIENT PAUSE`), shifted by one, and whether only their writes are; 0: no pause. A line of its own.
    pub const PAUSE: u64 = 2496;
    /// When the last pause ended that PAUSE no longer names, in milliseconds since the Unix epoch.
    pub const PAUSED_UNTIL: u64 = 2504;
    /// The next number of what processes note about their calls (slow ones, denied ones); a line of its own.
    pub const NOTES: u64 = 2560;
    /// Commit sequence numbers: the next one ([`outbox`](crate::outbox)); a line of its own.
    pub const CSN: u64 = 2624;
    /// 1 while a thread that feeds a replica sleeps, or is about to: a writer that has drawn a number wakes it ([`replicas`](crate::replicas)).
    pub const FEEDER: u64 = CSN + 8;
    /// Bytes that the tier has in the memory of its own process: they count for `maxmemory`.
    pub const TIER_BYTES: u64 = 2704;
    /// What tells the memory from every other: random, from its beginning on; a line of its own.
    pub const MEMORY_ID: u64 = 2752; // 16 bytes
    /// Random, from each start of the machine on before which a `file:` segment was in use until the machine went down; 0: there was none. What is in
    /// the file then is not what was there before, so with this word the memory is another one.
    pub const INCARNATION: u64 = MEMORY_ID + 16;
    /// 1 from before data begins to be read into the memory until it is there: a hint that the table's mark is to be looked at.
    pub const READING: u64 = MEMORY_ID + 24;
    pub const BYTES: u64 = 4096;
}

/// Bits of the header's word RECORDING.
pub mod recording {
    /// The change log is on: a commit appends its effects to its seat's outbox.
    pub const LOG: u64 = 1;
    /// A snapshot is on: a commit saves what it replaces.
    pub const SNAPSHOT: u64 = 2;
    /// Commits that change keys fail.
    pub const REFUSES: u64 = 4;
    /// A commit has something to do before it.
    pub const ON: u64 = LOG | SNAPSHOT | REFUSES;
    /// Where the number of the last snapshot begins.
    pub const NUMBER_SHIFT: u32 = 3;

    /// The number of the snapshot that is on, by the header's word; 0 without one.
    #[inline(always)]
    pub const fn snapshot(word: u64) -> u64 {
        if word & SNAPSHOT == 0 { 0 } else { word >> NUMBER_SHIFT }
    }

    /// The era of a commit that has read this word: the number of the last snapshot, on or over.
    #[inline(always)]
    pub const fn era(word: u64) -> u64 {
        word >> NUMBER_SHIFT
    }
}

/// Bits of the header's word of interest, and of a seat's.
pub mod interest {
    /// Keyspace events are published.
    pub const EVENTS: u64 = 1;
    /// A call waits for a key.
    pub const WAITERS: u64 = 2;
    /// A server remembers which keys its clients have read (client-side caching).
    pub const TRACKERS: u64 = 4;
    /// A client wants to be told of every changed key (BCAST).
    pub const BROADCAST: u64 = 8;
    /// A client runs MONITOR.
    pub const MONITORS: u64 = 16;
    /// Events of reads that find no key are published.
    pub const MISSES: u64 = 32;
    /// A client has subscribed.
    pub const SUBSCRIBERS: u64 = 64;
    /// The seat's thread replies to questions about the clients of its process.
    pub const CLIENTS: u64 = 128;
    /// With one of these set, a change of a key is told.
    pub const CHANGES: u64 = EVENTS | WAITERS | TRACKERS | BROADCAST;
    pub const ALL: u64 = 0xff;
    /// One change of the header's word.
    pub const CHANGE: u64 = 0x100;
}

/// Where the table's own root words begin, and how many bytes they have.
pub const ROOTS_AT: u64 = header::BYTES;
/// See [`ROOTS_AT`].
pub const ROOTS_BYTES: u64 = 28 * 1024;

/// Words of the change log ([`change_log`](crate::change_log)), at the end of the roots.
pub mod log {
    use super::{ROOTS_AT, ROOTS_BYTES};
    /// The lock of the thread that merges the outboxes; it covers all words of this module but BROKEN, CUT, WAITED and the holds.
    pub const MERGE_LOCK: u64 = ROOTS_AT + ROOTS_BYTES - 8192;
    /// The first and the last block of the log, and the offset of the first byte that is kept.
    pub const FIRST: u64 = MERGE_LOCK + 64;
    pub const LAST: u64 = MERGE_LOCK + 72;
    pub const BASE: u64 = MERGE_LOCK + 80;
    /// The offset of the byte behind the last one, shifted by STATE_BITS; below it the database that the stream has selected there, plus one
    /// (0: none, the next record selects). One word, so that a reader sees both as they belong together.
    pub const TAIL: u64 = MERGE_LOCK + 88;
    pub const STATE_BITS: u32 = 10;
    /// Where the stream began: no two streams have the same place.
    pub const BEGAN: u64 = MERGE_LOCK + 96;
    /// Records that have been merged.
    pub const RECORDS: u64 = MERGE_LOCK + 104;
    /// How many times a commit had no room for its record: a designated word that only grows, and the value that the log has taken note of.
    pub const BROKEN: u64 = MERGE_LOCK + 128;
    pub const BROKEN_SEEN: u64 = MERGE_LOCK + 136;
    /// The era from which on records are held back until a snapshot's cut is made; 0: none. Its owner is the snapshot's.
    pub const CUT: u64 = MERGE_LOCK + 144;
    /// Bytes that are kept behind the tail, and the most that a hold keeps; settings, 0: the default.
    pub const KEEP: u64 = MERGE_LOCK + 152;
    pub const KEEP_MAX: u64 = MERGE_LOCK + 160;
    /// The stream (BEGAN) of which every transaction under way is known to have seen that the log is on: a designated word.
    pub const WAITED: u64 = MERGE_LOCK + 168;
    /// The stream's name: 40 hexadecimal digits. A stream in which a change may be missing gets another one.
    pub const IDENTITY: u64 = MERGE_LOCK + 192;
    pub const IDENTITY_WORDS: u64 = 5;
    /// Offsets, plus one, from which on followers want the log to be kept: designated words.
    pub const HOLDS: u64 = MERGE_LOCK + 512;
    pub const HOLD_SLOTS: u64 = 64;
}

/// Words of the storage process ([`storage`](crate::storage)), behind those of the change log: designated words, lines of their own.
pub mod storage {
    use super::{SEATS_MAX, log};
    /// Which thread copies the change log to the disk; 0: none does.
    pub const OWNER: u64 = log::MERGE_LOCK + 2048;
    /// What it tells of itself: its process, and figures that the table gives a meaning.
    pub const PID: u64 = OWNER + 8;
    /// 1 from the moment that the files are a whole log of the memory until the log is given up.
    pub const PROMISED: u64 = OWNER + 16;
    pub const FIGURES: u64 = OWNER + 64;
    pub const FIGURES_MAX: u64 = 32;
    /// Commits with numbers below this one are on the disk.
    pub const DURABLE: u64 = FIGURES + FIGURES_MAX * 8;
    /// The highest number that a thread waits for.
    pub const WANTED: u64 = DURABLE + 64;
    /// 1 while the owner sleeps, or is about to.
    pub const SLEEPING: u64 = WANTED + 64;
    /// How often another base was asked for.
    pub const REWRITES_ASKED: u64 = SLEEPING + 64;
    /// A bit for each seat whose thread waits for DURABLE.
    pub const WAITING: u64 = REWRITES_ASKED + 64;
    pub const WAITING_WORDS: u64 = SEATS_MAX / 64;
    pub const END: u64 = WAITING + WAITING_WORDS * 8;
}

/// Words of the replicas ([`replicas`](crate::replicas)), behind those of the storage process.
pub mod replicas {
    use super::{SEATS_MAX, log};
    /// A line for each slot of the log. The first one, which is the storage process's, has no replica.
    pub const LINES: u64 = log::MERGE_LOCK + 2752;
    pub const LINE_BYTES: u64 = 64;
    /// In a line: which thread feeds the replica, and the same again while it reads the stream; what it has acknowledged, when, and two commit numbers.
    pub const OWNER: u64 = 0;
    pub const ONLINE: u64 = 8;
    pub const PLACE: u64 = 16;
    pub const HEARD_MS: u64 = 24;
    pub const CSN: u64 = 32;
    pub const FILE_CSN: u64 = 40;
    /// A bit for each slot whose line is in use.
    pub const USED: u64 = LINES + log::HOLD_SLOTS * LINE_BYTES;
    /// The highest number that a call waits for.
    pub const WANTED: u64 = USED + 64;
    /// The last question to replicas, under MERGE_LOCK: the commits below CSN lie below PLACE, and the log goes on at END.
    pub const ASKED_CSN: u64 = WANTED + 64;
    pub const ASKED_PLACE: u64 = ASKED_CSN + 8;
    pub const ASKED_END: u64 = ASKED_CSN + 16;
    /// A bit for each seat whose thread waits for replicas.
    pub const WAITING: u64 = ASKED_CSN + 64;
    /// A bit for each seat whose thread feeds a replica and sleeps.
    pub const FEEDING: u64 = WAITING + SEATS_MAX / 64 * 8;
    pub const END: u64 = FEEDING + SEATS_MAX / 64 * 8;
}

/// The first of those of [`link`].
const LINK_AT: u64 = replicas::END;

/// Words of a memory that is or was a replica ([`link`](crate::link)), behind those of its own replicas.
pub mod link {
    use super::{LINK_AT, log};
    /// A count of changes of the memory's role, and in the lowest bit whether it is a replica: 0, it has always been a primary.
    pub const ROLE: u64 = LINK_AT;
    /// The excess of an offset of PSYNC over its place in the log, modulo 2^64. It changes with BEGAN, under MERGE_LOCK.
    pub const SHIFT: u64 = ROLE + 8;
    /// The name of the stream that this one goes on from, and the place behind the last byte that both have; under MERGE_LOCK.
    pub const SECOND: u64 = ROLE + 16;
    /// The role for which the stream has its name: a promotion gives it one once.
    pub const NAMED: u64 = ROLE + 24;
    pub const IDENTITY2: u64 = ROLE + 32;
    /// Which thread runs the link; 0: none does. The others are what it tells of itself: designated words.
    pub const OWNER: u64 = IDENTITY2 + log::IDENTITY_WORDS * 8;
    pub const PID: u64 = OWNER + 8;
    /// Its stage.
    pub const STATE: u64 = OWNER + 16;
    /// The times at which it last heard the primary, and lost it, in milliseconds since the epoch.
    pub const HEARD_MS: u64 = OWNER + 24;
    pub const DOWN_MS: u64 = OWNER + 32;
    /// Bytes of the copy: read, and in all (0: not known).
    pub const COPY_READ: u64 = OWNER + 40;
    pub const COPY_BYTES: u64 = OWNER + 48;
    /// Commands of the primary that were refused here for what they met.
    pub const REFUSED: u64 = OWNER + 56;
    pub const END: u64 = OWNER + 64;
}

/// The offset at which the words of [`tier`] begin.
const TIER_AT: u64 = link::END.next_multiple_of(64);

/// Words of the tier ([`tier`](crate::tier)), behind those of the link.
pub mod tier {
    use super::TIER_AT;
    /// Which thread has the tier; 0: none does.
    pub const OWNER: u64 = TIER_AT;
    pub const PID: u64 = OWNER + 8;
    /// The number of its process's threads that serve requests, and which: a mark for each.
    pub const THREADS: u64 = OWNER + 16;
    /// The number of compactions that were asked for.
    pub const COMPACTIONS: u64 = OWNER + 24;
    pub const SEATS: u64 = OWNER + 64;
    pub const THREADS_MAX: u64 = 16;
    /// Figures that the process tells of itself: a floor above gives them a meaning.
    pub const FIGURES: u64 = SEATS + THREADS_MAX * 8;
    pub const FIGURES_MAX: u64 = 32;
    pub const END: u64 = FIGURES + FIGURES_MAX * 8;
}

const _: () = assert!(tier::END <= ROOTS_AT + ROOTS_BYTES);
const _: () =
    assert!(link::END <= ROOTS_AT + ROOTS_BYTES && log::HOLDS + log::HOLD_SLOTS * 8 <= storage::OWNER);
const _: () =
    assert!(replicas::LINES == storage::END && replicas::LINES.is_multiple_of(64) && log::HOLD_SLOTS <= 64);

/// How many threads can be attached at once.
pub const SEATS_MAX: u64 = 1024;
/// How many seats behind those that were ever used are backed by memory, so that a tool or a second server can still attach
/// when /dev/shm is full.
pub const SEATS_SPARE: u64 = 8;
/// Where the liveness locks begin; all of them are made with the segment.
pub const LIVENESS_AT: u64 = ROOTS_AT + ROOTS_BYTES;
/// Bytes of one liveness lock: a line of its own.
pub const LIVENESS_BYTES: u64 = 64;
/// Where the seats begin.
pub const SEATS_AT: u64 = LIVENESS_AT + SEATS_MAX * LIVENESS_BYTES;

/// A seat's words, as byte offsets from its beginning.
pub mod seat {
    use super::*;
    /// Designated words that this seat has lifted and will lower again to what it finds (0: none): two words.
    pub const LIFTED: u64 = 0;
    pub const LIFTED_WORDS: u64 = 2;
    /// 1 while nodes go from the retired list into the cache: one of them may be in both. Index + 2 of an entry that is being moved to a place before it:
    /// it may be in both.
    pub const RECLAIMING: u64 = 16;
    /// What this seat has saved for a snapshot ([`snapshot_log`](crate::overlay)): the first block, and for which.
    pub const SNAPSHOT_LOG_FIRST: u64 = 24;
    pub const SNAPSHOT_LOG_NUMBER: u64 = 32;
    pub const SNAPSHOT_LOG_BYTES: u64 = 40;
    /// Transaction state: sequence number << 2 | [`IDLE`] or [`COMMITTED`]. The store that sets COMMITTED is the commit.
    pub const STATUS: u64 = 64;
    /// Items in the journal.
    pub const JOURNAL_LEN: u64 = 72;
    /// First journal block past the inline one, 0 if there is none.
    pub const JOURNAL_NEXT: u64 = 80;
    /// Where the retired list ended when the transaction committed.
    pub const RETIRE_BASE: u64 = 88;
    /// State of the memory journal (`memory.rs`), its length, and the slab lock it holds.
    pub const MEMORY_STATUS: u64 = 96;
    pub const MEMORY_LEN: u64 = 104;
    pub const MEMORY_LOCK: u64 = 112;
    /// A node on its way between the cache and a chain (journal, retired list or snapshot log): it may be in neither or in both.
    pub const PENDING: u64 = 120;
    /// The interval of epochs this seat's reader may be looking at; [`NO_PIN`] in LOWER when it looks at nothing.
    pub const PIN_LOWER: u64 = 128;
    pub const PIN_UPPER: u64 = 136;
    /// Which databases a transaction writes that has validated them in the map for the last time, or is about to; which ones this seat
    /// swaps, and which it empties (`swap_barrier.rs`).
    pub const CLOSING: u64 = 144;
    pub const SWAPS: u64 = 152;
    pub const FLUSHES: u64 = 160;
    /// The owner: its process id (low half) and thread id, the time when it took the seat (ms), and a count of owners.
    pub const OWNER: u64 = 192;
    pub const SINCE_MS: u64 = 200;
    pub const OWNERS: u64 = 208;
    /// Versions taken from the shared counter and not used yet: next and end.
    pub const VERSION_NEXT: u64 = 216;
    pub const VERSION_END: u64 = 224;
    /// Bytes of nodes taken out of slabs by this seat less those it put back; the sum over all seats is what is in use.
    pub const NODE_BYTES: u64 = 232;
    /// Bytes of trees that evictions have retired and that are not taken apart yet, without their roots, or less.
    pub const TREE_BYTES: u64 = 240;
    /// The retired list: its first block, how many entries have been moved within it, the index of its first entry and of the entry after its last.
    pub const RETIRED_FIRST: u64 = 256;
    pub const RETIRED_MOVES: u64 = 264;
    pub const RETIRED_HEAD: u64 = 272;
    pub const RETIRED_TAIL: u64 = 280;
    /// The expansion of a retired tree: index + 1 of the entry being expanded, and the tail after it.
    pub const EXPANDING: u64 = 288;
    pub const EXPANDED_TAIL: u64 = 296;
    pub const RETIRED_BYTES: u64 = 304;
    /// How far the list has been looked at.
    pub const RETIRED_CURSOR: u64 = 312;
    pub const COUNTERS: u64 = 320; // 32 words
    /// The one counter that this crate counts itself: how often this seat was recovered after its owner's death.
    pub const RECOVERIES: u64 = COUNTERS + 9 * 8;
    /// What is counted of each database: [`TALLY_BYTES`] each.
    pub const TALLIES: u64 = 576;
    pub const CACHE_COUNTS: u64 = TALLIES + TALLY_SLOTS * TALLY_BYTES;
    pub const CACHE: u64 = CACHE_COUNTS + 8 * (CLASSES as u64 + 1);
    pub const MEMORY_JOURNAL: u64 = CACHE + 8 * CACHE_STARTS[CLASSES] as u64;
    pub const JOURNAL: u64 = MEMORY_JOURNAL + MEMORY_PAIRS * 16;
    pub const RETIRED: u64 = JOURNAL + JOURNAL_PAIRS * 16;
    /// The inbox (inbox.rs), lines of their own: what senders write under its lock,
    pub const INBOX_LOCK: u64 = (RETIRED + 24 + RETIRED_INLINE * 16).next_multiple_of(64);
    pub const INBOX_TAIL: u64 = INBOX_LOCK + 8;
    pub const INBOX_LAST: u64 = INBOX_LOCK + 16;
    pub const INBOX_LIFE: u64 = INBOX_LOCK + 24;
    pub const INBOX_LIMIT: u64 = INBOX_LOCK + 32;
    pub const INBOX_LOST: u64 = INBOX_LOCK + 40;
    /// what its owner writes,
    pub const INBOX_HEAD: u64 = INBOX_LOCK + 64;
    pub const INBOX_FIRST: u64 = INBOX_LOCK + 72;
    /// what the owner is interested in (low byte: [`interest`]), and in which of the seat's lives,
    pub const INTEREST: u64 = INBOX_LOCK + 80;
    /// and whether it sleeps, and where (wakeup.rs).
    pub const SLEEPING: u64 = INBOX_LOCK + 128;
    pub const END: u64 = INBOX_LOCK + 192;
    /// The outbox (outbox.rs), lines of their own: what the seat's commits write,
    pub const OUTBOX_TAIL: u64 = BYTES - 192;
    pub const OUTBOX_LAST: u64 = OUTBOX_TAIL + 8;
    /// and what the log merger writes.
    pub const OUTBOX_HEAD: u64 = OUTBOX_TAIL + 64;
    pub const OUTBOX_FIRST: u64 = OUTBOX_TAIL + 72;

    pub const TALLY_SLOTS: u64 = 776;
    /// Keys, keys with an expiry, keys with fields that have one, and a word that is reserved for keys whose values lie elsewhere.
    pub const TALLY_BYTES: u64 = 32;
    pub const MEMORY_PAIRS: u64 = 288;
    pub const JOURNAL_PAIRS: u64 = 512;
    pub const RETIRED_INLINE: u64 = 1022;
    pub const IDLE: u64 = 0;
    pub const COMMITTED: u64 = 1;
    pub const NO_PIN: u64 = u64::MAX;
    /// Whole pages, so that a seat can be backed by memory by itself.
    pub const BYTES: u64 = 100 * 1024;
    const _: () = assert!(END <= OUTBOX_TAIL && BYTES.is_multiple_of(4096));
}

/// Whether a word of a seat is one that the log merger writes.
pub(crate) const fn is_of_merger(offset: u64) -> bool {
    let inside = offset.wrapping_sub(SEATS_AT) % seat::BYTES;
    offset >= SEATS_AT
        && offset < SEATS_AT + SEATS_MAX * seat::BYTES
        && (inside == seat::OUTBOX_HEAD || inside == seat::OUTBOX_FIRST)
}

/// Bytes of one slab's bitmap.
pub const BITMAP_BYTES: u64 = SLAB_BYTES / NODE_MIN as u64 / 8;

/// The part of a ceiling that users may fill: all but the header, the roots, the liveness locks and the seats.
pub const fn usable(ceiling: u64) -> u64 {
    ceiling.saturating_sub(SEATS_AT + SEATS_MAX * seat::BYTES)
}

/// Bytes of this many slabs and their bookkeeping.
pub const fn slab_bytes(slabs: u64) -> u64 {
    slabs.saturating_mul(SLAB_BYTES + 16 + BITMAP_BYTES)
}

/// Bytes that are not free for reuse: fixed parts, nodes, and the bookkeeping of their slabs.
pub const fn used(fixed: u64, nodes: u64) -> u64 {
    let bookkeeping = nodes.div_ceil(SLAB_BYTES).saturating_mul(16 + BITMAP_BYTES);
    fixed.saturating_add(nodes).saturating_add(bookkeeping)
}

/// The places that depend on the ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub ceiling: u64,
    pub slabs_max: u64,
    pub slab_words_at: u64,
    pub slab_bits_at: u64,
    pub slabs_at: u64,
}

/// The smallest ceiling that makes a usable segment.
pub const CEILING_MIN: u64 = SEATS_AT + SEATS_MAX * seat::BYTES + 16 * SLAB_BYTES;

impl Geometry {
    /// The geometry of a segment of `ceiling` bytes of nodes and everything around them.
    pub const fn of(ceiling: u64) -> Geometry {
        let slab_words_at = SEATS_AT + SEATS_MAX * seat::BYTES;
        let slabs_max = (ceiling - slab_words_at) / (SLAB_BYTES + 16 + BITMAP_BYTES) - 1;
        let slab_bits_at = (slab_words_at + slabs_max * 16).next_multiple_of(4096);
        let slabs_at = (slab_bits_at + slabs_max * BITMAP_BYTES).next_multiple_of(SLAB_BYTES);
        Geometry { ceiling, slabs_max, slab_words_at, slab_bits_at, slabs_at }
    }

    /// Where seat `index` begins.
    pub const fn seat_at(&self, index: u64) -> u64 {
        SEATS_AT + index * seat::BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_end_below_the_ceiling() {
        for ceiling in [CEILING_MIN, 1 << 27, 1 << 30, (1 << 34) + 4096, 1 << 40] {
            let geometry = Geometry::of(ceiling);
            assert!(geometry.slabs_max > 0);
            assert!(geometry.slabs_at + geometry.slabs_max * SLAB_BYTES <= ceiling, "{ceiling}");
        }
    }
}
