//! From a key's position to its bucket: the map of databases, the directory, the extent.
//!
//! ```text
//! map (in the segment's roots)      directory (a trie of 128-way nodes)          extent            piece (bucket.rs)
//! +----------------------+          +------+                                     +---------+       +-----------+
//! | db 0: root | tallies |--------> | slot |--- bits 0-6 of the position --+---> | pieces  |-----> | 7 buckets |
//! | db 1: ...            |          | slot |                               |     |  ...    |       +-----------+
//! +----------------------+          | slot |---> node: bits 7-13 ...       |     +---------+
//!                                   +------+  (several slots may name the same extent)
//! ```
//!
//! An extent of depth d holds the positions that share their first d bits. Its buckets, `homes` of them, divide these positions
//! evenly and in order: a key's home is floor(fraction x homes). The buckets behind the homes are the stash. An extent grows by
//! replacing it with a larger one (all in one commit), from 9 pieces at birth by steps of one or two to 16, and then splits in two; so
//! buckets stay 83 to 95 % full, where doubling would leave them 69 % full on average.
//!
//! A published directory node is changed one slot word at a time, by the redo of a journal, under the locks of the extent that the slot
//! names. So readers walk without locks, and check at the end that the slot still has the same word.

use polder_base::Ref;
use polder_shm::layout::ROOTS_AT;
use polder_shm::layout::seat::TALLY_SLOTS;
use polder_shm::node::HEADER_BYTES;
use polder_shm::segment::ANY_NODE;
use polder_shm::{RawView, Segment, offset_of, ref_to};

use crate::api::{DATABASES, Db, STAGED, SYSTEM};
use crate::layout::bucket::{BUCKET_BYTES, LINES_AT, PIECE_BUCKETS, PIECE_BYTES, UNITS_AT};
use crate::layout::stub::Granule;

/// The lock over the map of databases.
pub const MAP_LOCK: u64 = ROOTS_AT;
/// The lock of the thread that sweeps flushed databases.
pub const SWEEP_LOCK: u64 = ROOTS_AT + 8;
/// Flushed databases that wait for the sweeper.
pub const GARBAGE_AT: u64 = MAP_AT + DATABASES as u64 * 16;
/// How many there can be at once: a FLUSHALL of every database at least, and no more than there are tallies for.
pub const GARBAGE_SLOTS: u64 = 260;
const _: () =
    assert!(GARBAGE_SLOTS as usize >= DATABASES && GARBAGE_SLOTS + (DATABASES as u64) < TALLY_SLOTS);
/// The map's entries of staged databases ([`STAGED`]).
pub const STAGED_AT: u64 = GARBAGE_AT + GARBAGE_SLOTS * 8;
const _: () = assert!(STAGED_AT == MAP_AT + STAGED as u64 * 16);
const _: () = assert!(2 * DATABASES as u64 + GARBAGE_SLOTS <= TALLY_SLOTS);
const _: () = assert!(STAGED_AT + DATABASES as u64 * 16 <= polder_shm::layout::log::MERGE_LOCK);
/// The map: two words a database.
pub const MAP_AT: u64 = ROOTS_AT + 1024;

/// Bits of the position that one level of the directory decides.
///
/// Measured at 1 M keys: with 9 the nodes of the second level, hardly used, take 2 bytes a key; with 7 an eighth of that, and two levels
/// still reach to some 20 M keys.
pub const LEVEL_BITS: u32 = 7;
/// Slots of a directory node.
pub const SLOTS: u64 = 1 << LEVEL_BITS;
/// Levels of the deepest directory.
pub const LEVELS_MAX: u32 = 9;
/// Pieces of the largest extent.
pub const PIECES_MAX: u64 = 16;

const KIND_EXTENT: u64 = 1;
const KIND_NODE: u64 = 2;

/// Words of an extent's node, as byte offsets.
pub mod extent {
    /// homes (16 bits) | pieces (16) | depth (32).
    pub const SHAPE: u64 = 8;
    /// The first position.
    pub const PREFIX: u64 = 16;
    /// No expiry in this extent is earlier (ms): a designated word, lowered by each thread that writes an expiry.
    pub const EXPIRY_MIN: u64 = 24;
    pub const PIECES: u64 = 40;
    /// Payload bytes of the node.
    pub const PAYLOAD: usize = 32 + 8 * super::PIECES_MAX as usize;
}

/// Words of a database's node, as byte offsets.
pub mod database {
    /// The tallies that its keys are counted in, and what these were when the database began.
    pub const TALLY: u64 = 8;
    pub const KEYS_BASE: u64 = 16;
    pub const EXPIRES_BASE: u64 = 24;
    pub const FIELDS_BASE: u64 = 32;
    pub const COLD_BASE: u64 = 40;
    /// No expiry in this database is earlier (ms): a designated word.
    pub const EXPIRY_MIN: u64 = 48;
    pub const DIRECTORY: u64 = 56;
    /// Payload bytes of the node.
    pub const PAYLOAD: usize = 56;
}

/// All databases that there can be: those of clients, the hidden one, and the staged ones of clients.
pub fn all_databases() -> impl Iterator<Item = Db> {
    (0..DATABASES as Db).chain(STAGED..STAGED + SYSTEM)
}

/// The first of a database's two map words: its node. The second is [`root_word`].
pub const fn map_at(db: Db) -> u64 {
    MAP_AT + db as u64 * 16
}

/// A database's second map word: its directory and where its keys are counted.
pub const fn root_word(directory: u64, tally: u64) -> u64 {
    directory >> 3 << 24 | tally
}

/// The directory that a root word names.
pub const fn directory_of(root: u64) -> u64 {
    root >> 24 << 3
}

/// The tally that a root word names, one that there is (S5).
pub const fn tally_of(root: u64) -> u64 {
    let tally = root & 0xffff;
    if tally < TALLY_SLOTS { tally } else { 0 }
}

/// A slot that names an extent; `stamp` makes the word unlike any earlier one.
pub fn extent_slot(extent: u64, stamp: u64) -> u64 {
    ref_to(extent).0 << 24 | (stamp & 0x3f_ffff) << 2 | KIND_EXTENT
}

/// A slot that names a directory node.
pub fn node_slot(node: u64) -> u64 {
    ref_to(node).0 << 24 | KIND_NODE
}

/// What a slot names.
pub enum Slot {
    Empty,
    Extent(u64),
    Node(u64),
}

/// Takes a slot word apart; what it names has been checked for bounds (S5).
#[inline(always)]
pub fn slot_of(segment: &Segment, word: u64) -> Slot {
    let offset = offset_of(Ref(word >> 24));
    match word & 3 {
        KIND_EXTENT if segment.has_node(offset, HEADER_BYTES + extent::PAYLOAD as u64) => {
            Slot::Extent(offset)
        }
        KIND_NODE if segment.has_node(offset, HEADER_BYTES + SLOTS * 8) => Slot::Node(offset),
        _ => Slot::Empty,
    }
}

/// An extent as a walk found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Extent {
    /// Its node.
    pub at: u64,
    /// The slot that named it, and what that said.
    pub slot_at: u64,
    pub slot: u64,
    /// The directory node of that slot, and its level.
    pub node: u64,
    pub level: u32,
    pub homes: u64,
    pub pieces: u64,
    pub depth: u32,
    pub prefix: u64,
    /// The root word of the database that the walk began at.
    pub root: u64,
}

/// A bucket's place: where its line and its units begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub line: u64,
    pub units: u64,
}

impl Bucket {
    /// Bucket `number` of the piece at `piece`.
    pub const fn of(piece: u64, number: u64) -> Bucket {
        Bucket { line: piece + LINES_AT + number * 64, units: piece + UNITS_AT + number * BUCKET_BYTES }
    }

    /// Where word `index` (see `bucket::Words`) lies.
    #[inline(always)]
    pub const fn word_at(&self, index: usize) -> u64 {
        if index < 8 { self.line + index as u64 * 8 } else { self.units + (index as u64 - 8) * 8 }
    }
}

impl Extent {
    /// Reads an extent's node.
    #[inline]
    pub fn read(segment: &Segment, named: &Named) -> Option<Extent> {
        let &Named { extent: at, slot_at, slot, node, level } = named;
        let (homes, pieces, depth) = shape(segment, at, level)?;
        Some(Extent {
            at,
            slot_at,
            slot,
            node,
            level,
            homes,
            pieces,
            depth,
            prefix: segment.load(at + extent::PREFIX),
            root: 0,
        })
    }

    /// Where a bucket stands in the order of locks (T2): by directory, which SWAPDB does not change, and by hash.
    #[inline]
    pub fn order(&self, index: u64) -> (u64, u64, u64) {
        (self.root, self.prefix, index)
    }

    /// Homes and stash together.
    pub fn buckets(&self) -> u64 {
        self.pieces * PIECE_BUCKETS
    }

    /// The home of a position.
    #[inline]
    pub fn home_of(&self, position: u64) -> u64 {
        home_of(position, self.depth, self.homes)
    }

    /// See [`places`].
    #[inline]
    pub fn places(&self, home: u64) -> [u64; 4] {
        places(home, self.homes, self.buckets() - self.homes)
    }

    /// Bucket `index`; `None` when the extent's node is damaged (S5).
    #[inline]
    pub fn bucket(&self, segment: &Segment, index: u64) -> Option<Bucket> {
        bucket(segment, self.at, index)
    }

    /// No expiry in this extent is earlier.
    pub fn expiry_min(&self, segment: &Segment) -> u64 {
        segment.observe(self.at + extent::EXPIRY_MIN)
    }

    /// Whether the directory still names this extent.
    #[inline]
    pub fn is_current(&self, segment: &Segment) -> bool {
        segment.observe(self.slot_at) == self.slot
    }

    /// The first position behind this extent, or `None` at the end of the hash space.
    pub fn end(&self) -> Option<u64> {
        if self.depth == 0 { None } else { self.prefix.checked_add(1 << (64 - self.depth)) }
    }

    /// The first position behind those whose home is `home`, or `None` at the end of the hash space.
    pub fn behind(&self, home: u64) -> Option<u64> {
        if home + 1 < self.homes { self.first_position(home + 1) } else { self.end() }
    }

    /// Whether the extent holds the positions around `position`, and all its slots lie in one node. A walk from extent to extent, and a change
    /// of the slots, check this first (S5); a lookup of one key need not.
    pub fn covers(&self, position: u64) -> bool {
        let span_max = u64::MAX.checked_shr(self.depth).unwrap_or(0);
        self.prefix == position & !span_max
    }

    /// Returns true if the positions of a granule have not all one home here, and the same (U3).
    pub(crate) fn cuts(&self, Granule { first, last }: Granule) -> bool {
        !self.covers(first) || !self.covers(last) || self.home_of(first) != self.home_of(last)
    }

    /// The first position whose home is `home`. `None` behind the hash space's end: an extent of a damaged depth has more homes than positions
    /// (S5), and a walk that began again there would have no end.
    fn first_position(&self, home: u64) -> Option<u64> {
        let span = (home as u128) << 64;
        let fraction = span.div_ceil(self.homes as u128) as u64;
        self.prefix.checked_add(if self.depth == 0 { fraction } else { fraction.div_ceil(1 << self.depth) })
    }

    /// How many slots name this extent.
    pub fn slots(&self) -> u64 {
        1 << ((self.level + 1) * LEVEL_BITS).saturating_sub(self.depth)
    }

    /// The first of the slots that name this extent.
    pub fn first_slot(&self) -> u64 {
        slot_at(self.node, index_at(self.prefix, self.level))
    }
}

/// Bucket `index` of the extent at `extent`; `None` when its node is damaged (S5).
#[inline(always)]
pub fn bucket(segment: &Segment, extent: u64, index: u64) -> Option<Bucket> {
    let piece = offset_of(Ref(segment.load(extent + extent::PIECES + index / PIECE_BUCKETS * 8)));
    segment.has_node(piece, PIECE_BYTES).then(|| Bucket::of(piece, index % PIECE_BUCKETS))
}

/// Homes, pieces and depth of an extent that a slot at `level` names; `None` when they make no sense (S5).
#[inline(always)]
pub fn shape(segment: &Segment, extent: u64, level: u32) -> Option<(u64, u64, u32)> {
    let (homes, pieces, depth) = shape_of(segment.load(extent + extent::SHAPE))?;
    // An extent has one slot of its node at least, and at most all.
    (depth.wrapping_sub(level * LEVEL_BITS) <= LEVEL_BITS).then_some((homes, pieces, depth))
}

/// The same of the word that says it, but that its depth may be any.
#[inline(always)]
pub fn shape_of(shape: u64) -> Option<(u64, u64, u32)> {
    let (homes, pieces, depth) = (shape & 0xffff, shape >> 16 & 0xffff, (shape >> 32) as u32);
    // One without pieces has no homes.
    let has_homes =
        pieces <= PIECES_MAX && homes.wrapping_sub(1) < (pieces * PIECE_BUCKETS).saturating_sub(1);
    has_homes.then_some((homes, pieces, depth))
}

/// A home bucket, as the shortest ways find it.
#[derive(Clone, Copy)]
pub struct Near {
    /// The slot that names its extent, and what that says.
    pub slot_at: u64,
    pub slot: u64,
    /// The extent and its shape, as its node says.
    pub extent: u64,
    pub shape: u64,
    /// Which of the homes it is.
    pub home: u64,
    /// The piece that it is in, and which of its buckets it is.
    pub piece: u64,
    pub number: u64,
}

/// The home bucket of a position, judging nothing but that all that is read lies among the nodes (S5). `None`: it is not found so, nor
/// perhaps there.
#[inline(always)]
pub fn nearly_home(lens: RawView<'_>, root: u64, position: u64) -> Option<Near> {
    /// Enough for two thousand million keys.
    const LEVELS: u32 = 3;
    const HOMES: u64 = 0x7f;
    const { assert!(PIECES_MAX * PIECE_BUCKETS <= HOMES && HOMES * 8 < ANY_NODE && PIECE_BYTES <= ANY_NODE) };
    let mut node = lens.node(Ref(root >> 24))?;
    let mut rest = position;
    for _ in 0..LEVELS {
        let slot_at = slot_at(node, rest >> (64 - LEVEL_BITS));
        let slot = lens.observe(slot_at);
        // One that names nothing is 0, and no node is there.
        let named = lens.node(Ref(slot >> 24))?;
        if slot & KIND_EXTENT != 0 {
            let shape = lens.load(named + extent::SHAPE);
            let home = home_of(position, (shape >> 32) as u32 & 63, shape & HOMES);
            // A seventh, in fewer instructions.
            const { assert!(PIECE_BUCKETS == 7 && (HOMES * 9363) >> 16 == HOMES / 7 && 9363 * 7 > 1 << 16) };
            let index = (home * 9363) >> 16;
            let piece = lens.node(Ref(lens.load(named + extent::PIECES + index * 8)))?;
            let number = home - index * PIECE_BUCKETS;
            return Some(Near { slot_at, slot, extent: named, shape, home, piece, number });
        }
        rest <<= LEVEL_BITS;
        node = named;
    }
    None
}

/// Where an entry may lie whose home this is, in the order in which they are looked at: there, in the next bucket, in one of two
/// buckets of the stash (the smallest extents have one, named twice). The last home's next bucket is the first of the stash.
#[inline]
pub fn places(home: u64, homes: u64, stashes: u64) -> [u64; 4] {
    [home, home + 1, homes + home % stashes, homes + (home + 1) % stashes]
}

/// The buckets of `places` that hold entries of this home although they are not it, by its counts: those that lie in the next
/// bucket, and in the stash. Each comes with whether it is the stash's.
#[inline]
pub fn elsewhere(
    [_, beside, one, other]: [u64; 4],
    (next, stash): (u8, u8),
) -> impl Iterator<Item = (u64, bool)> {
    [(beside, false), (one, true), (other, true)]
        .into_iter()
        .filter(move |(_, in_stash)| (if *in_stash { stash } else { next }) > 0)
}

/// The home of a position in an extent of `depth` with `homes` homes.
#[inline]
pub fn home_of(position: u64, depth: u32, homes: u64) -> u64 {
    (((position << depth) as u128 * homes as u128) >> 64) as u64
}

/// Which slot of a node at `level` a position belongs to.
#[inline]
pub fn index_at(position: u64, level: u32) -> u64 {
    (position << (level * LEVEL_BITS)) >> (64 - LEVEL_BITS)
}

/// Where slot `index` of the directory node at `node` lies.
#[inline]
pub fn slot_at(node: u64, index: u64) -> u64 {
    node + HEADER_BYTES + index * 8
}

/// A slot that names an extent.
#[derive(Clone, Copy)]
pub struct Named {
    /// The extent's node.
    pub extent: u64,
    /// Where the slot is, and what it says.
    pub slot_at: u64,
    pub slot: u64,
    /// The directory node of that slot, and its level.
    pub node: u64,
    pub level: u32,
}

/// Walks from a database's directory to the slot of a position. `None` when something on the way makes no sense, which after
/// a look at the root word means damage, or else that the directory has changed.
#[inline(always)]
pub fn find(segment: &Segment, root: u64, position: u64) -> Option<Named> {
    let mut node = directory_of(root);
    let mut rest = position;
    for level in 0..LEVELS_MAX {
        if !segment.has_node(node, HEADER_BYTES + SLOTS * 8) {
            return None;
        }
        let at = slot_at(node, rest >> (64 - LEVEL_BITS));
        let slot = segment.observe(at);
        let named = offset_of(Ref(slot >> 24));
        if slot & KIND_EXTENT != 0 {
            let found = Named { extent: named, slot_at: at, slot, node, level };
            return segment.has_node(named, HEADER_BYTES + extent::PAYLOAD as u64).then_some(found);
        }
        if slot & KIND_NODE == 0 {
            return None;
        }
        rest <<= LEVEL_BITS;
        node = named;
    }
    None
}

/// As [`find`], to the extent itself.
#[inline]
pub fn walk(segment: &Segment, root: u64, position: u64) -> Option<Extent> {
    Extent::read(segment, &find(segment, root, position)?).map(|extent| Extent { root, ..extent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_from_home_to_home_ends_at_any_depth() {
        for depth in (1..=63).chain([0]) {
            let span_bits = 64 - depth;
            let prefix = if depth == 0 { 0 } else { u64::MAX << span_bits };
            for homes in [1, 2, 7, 63, 111] {
                let extent = Extent { homes, pieces: PIECES_MAX, depth, prefix, ..Extent::default() };
                let (mut position, mut steps) = (prefix, 0);
                while let Some(next) = extent.behind(extent.home_of(position)) {
                    assert!(next > position, "depth {depth}, {homes} homes: {next:#x} after {position:#x}");
                    (position, steps) = (next, steps + 1);
                }
                assert!(steps < homes, "depth {depth}, {homes} homes: {steps} steps");
            }
        }
    }
}
