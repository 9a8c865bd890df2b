//! Growth: an extent without room is replaced by a larger one, or by two.
//!
//! The new extent is built in private from the old one's entries, while all buckets of the old one are locked. One commit makes the new
//! slots of the directory and the *dead* marks of the old buckets true. Readers of the old extent go on until then. Afterwards they find
//! the slot changed when they validate. Other extents are not touched, and an extent has at most 112 buckets, some 2,000 keys.
//!
//! Why a redo may write the slots again: the first bucket of each new extent is locked by this transaction from the start. Its lock is
//! noted first, so it is released last. While this seat owns it, no other thread can lock all buckets of the new extent, so no other
//! thread can have replaced that extent and changed the slots. Once it is released, the redo leaves the slots alone.
//!
//! tests/schedules/extents.rs runs this code beside readers and writers, with deaths, in schedules that a checker chooses.

use polder_base::{Fault, Ref};
use polder_shm::item::{CHANGED, DEATH, Tag};
use polder_shm::layout::seat as at;
use polder_shm::node::{HEADER_BYTES, NodeKind};
use polder_shm::sync::{self, Flaw};
use polder_shm::{Locked, Segment, offset_of, ref_to};
use smallvec::SmallVec;

use crate::access::lookup::Live;
use crate::api::{Db, Stop};
use crate::layout::bucket::{self, LINE_WORDS, PIECE_BUCKETS, PIECE_BYTES, UNITS, Words, WordsMut};
use crate::layout::directory::{self, Bucket, Extent, MAP_LOCK, PIECES_MAX, SLOTS, database, extent, map_at};
use crate::layout::entry::{self, Image, UNIT_BYTES, WORDS_MAX};
use crate::layout::hash::{CONTINUED, FREE, Hash, hash};
use crate::layout::raw;
use crate::layout::record::Key;
use crate::layout::stub::{self, Granule};
use crate::txn::Txn;
use crate::txn::held::Want;

/// Pieces of each half of a split.
const SPLIT_PIECES: u64 = PIECES_MAX / 2 + 1;

/// How full an extent is after it has shrunk, at most: well below what makes it grow.
const SHRUNK_PERCENT: u64 = 85;

/// How full an extent can become before an entry finds no room, about.
const FILLED_PERCENT: u64 = 92;

/// A transaction that adds this many entries to an extent has it grow to what they need.
const MANY_WANTS: usize = 64;

/// An extent to be built: pieces, depth, prefix.
type Shape = (u64, u32, u64);

/// How often an extent is reshaped for one transaction before its next attempt, at most. Without a limit there would be no end while other
/// threads fill the extent.
const RESHAPES_MAX: u32 = 64;

/// An extent under construction. The lines of its buckets are kept here until [`Building::finish`].
pub(crate) struct Building {
    at: u64,
    pieces: Vec<u64>,
    homes: u64,
    depth: u32,
    prefix: u64,
    lines: Vec<Line>,
}

/// The line of a bucket under construction.
#[derive(Clone, Copy)]
struct Line {
    bucket: Bucket,
    /// A bit for each free unit, as the tags say.
    free: u64,
    /// Its words, but for the first, the lock's.
    words: [u64; LINE_WORDS - 1],
}

impl Line {
    const fn empty(bucket: Bucket) -> Line {
        Line { bucket, free: (1 << UNITS) - 1, words: [FREE as u64; LINE_WORDS - 1] }
    }

    /// Gives free units to an entry. Tags are written byte by byte and read as words once all are there: a word that is read right after a
    /// store of one of its bytes makes the processor wait.
    #[inline(always)]
    fn take(&mut self, unit: usize, units: usize, tag: u8) {
        const {
            assert!(
                WORDS_MAX == 8 && cfg!(target_endian = "little"),
                "four units, and the first byte is the lowest"
            )
        };
        let tags = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[unit..];
        tags[0] = tag;
        // In turn: a loop would become a call.
        if units > 1 {
            tags[1] = CONTINUED;
            if units > 2 {
                tags[2] = CONTINUED;
                if units > 3 {
                    tags[3] = CONTINUED;
                }
            }
        }
        self.free &= !(((1 << units) - 1) << unit);
    }

    /// Moves the entries of the bucket together.
    #[cold]
    #[inline(never)]
    fn compact(&mut self, segment: &Segment) {
        bucket::compact(&mut Founded { segment, bucket: self.bucket, line: &mut self.words });
        self.free = bucket::matches(&self.words, FREE);
    }
}

/// A bucket under construction: its line is kept here, its units are where they are going to be.
struct Founded<'b> {
    segment: &'b Segment,
    bucket: Bucket,
    /// All words but the lock's, which is not used here.
    line: &'b mut [u64; LINE_WORDS - 1],
}

impl Words for Founded<'_> {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        match index.checked_sub(1).and_then(|index| self.line.get(index)) {
            Some(word) => *word,
            None => self.segment.load(self.bucket.word_at(index)),
        }
    }
}

impl WordsMut for Founded<'_> {
    #[inline(always)]
    fn set_word(&mut self, index: usize, value: u64) {
        match index.checked_sub(1).and_then(|index| self.line.get_mut(index)) {
            Some(word) => *word = value,
            None => self.segment.store(self.bucket.word_at(index), value),
        }
    }
}

/// How an attempt to grow ended.
enum Grown {
    Done,
    /// Another thread has changed the extent; there may be room now.
    Overtaken,
    /// The entries did not fit, or a stub would be cut (U3): try a larger shape.
    Cramped,
}

/// Stash buckets of an extent of this many pieces.
///
/// With two buckets of it to choose from, an extent of 12 pieces of short keys has to grow when it is 94.5 % full if the stash is a third
/// of its pieces, 95.6 % if it is half (simulated; with one bucket 90.2 and 90.9 %).
pub(crate) const fn stash_buckets(pieces: u64) -> u64 {
    1 + pieces / 2
}

impl Building {
    fn bucket(&self, index: u64) -> Bucket {
        self.lines[index as usize].bucket
    }

    /// Every node of it.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces.iter().copied().chain([self.at])
    }

    /// Lowers its earliest expiry.
    pub(crate) fn lower(&self, segment: &Segment, expiry_ms: u64) {
        segment.lower(self.at + extent::EXPIRY_MIN, expiry_ms);
    }

    fn covers(&self, position: u64) -> bool {
        self.depth == 0 || (position ^ self.prefix) >> (64 - self.depth) == 0
    }

    /// Finds room for an entry of this many units, in one of the buckets where an entry of its home may lie; the caller writes the units
    /// there. `None` when there is no room.
    #[inline(always)]
    pub(crate) fn settle(&mut self, segment: &Segment, position: u64, tag: u8, units: usize) -> Option<u64> {
        let home = directory::home_of(position, self.depth, self.homes);
        match self.put(segment, home, tag, units) {
            Some(at) => Some(at),
            None => self.settle_elsewhere(segment, home, tag, units),
        }
    }

    #[inline(never)]
    fn settle_elsewhere(&mut self, segment: &Segment, home: u64, tag: u8, units: usize) -> Option<u64> {
        let [_, beside, one, other] =
            directory::places(home, self.homes, self.lines.len() as u64 - self.homes);
        let free = |index: u64| self.lines[index as usize].free.count_ones();
        let stash = if free(one) >= free(other) { one } else { other };
        let (at, in_stash) = match self.put(segment, beside, tag, units) {
            Some(at) => (at, false),
            None => (self.put(segment, stash, tag, units)?, true),
        };
        let line = &mut self.lines[home as usize].words;
        line[6] = bucket::with_displaced(line[6], in_stash, 1);
        Some(at)
    }

    #[inline(always)]
    fn put(&mut self, segment: &Segment, index: u64, tag: u8, units: usize) -> Option<u64> {
        let line = &mut self.lines[index as usize];
        let mut unit = bucket::place_for(line.free, units, tag);
        if unit.is_none() && line.free.count_ones() as usize >= units {
            line.compact(segment);
            unit = bucket::place_for(line.free, units, tag);
        }
        let unit = unit?;
        line.take(unit, units, tag);
        Some(line.bucket.units + (unit * UNIT_BYTES) as u64)
    }

    /// Writes the lines, but for their locks.
    pub(crate) fn finish(&self, segment: &Segment) {
        for line in &self.lines {
            for (number, word) in line.words.iter().enumerate() {
                segment.store(line.bucket.line + 8 + number as u64 * 8, *word);
            }
        }
    }
}

impl Txn<'_> {
    /// Makes room around a position of a database for these entries. The transaction has just been rolled back: its seat's journal is empty.
    fn grow(&self, db: Db, position: u64, wants: &[Want]) {
        self.buffers.stubs.cut.borrow_mut().clear();
        for extra in 0..PIECES_MAX {
            match self.try_reshape(db, position, |old| Some(self.shapes_for(old, extra, wants))) {
                Ok(Grown::Cramped) => self.seat.rollback(),
                Ok(Grown::Done) => return,
                Ok(Grown::Overtaken) => return self.seat.rollback(),
                Err(stop) => {
                    self.seat.rollback();
                    return self.trouble(stop);
                }
            }
        }
        // Its entries say that they are larger than its buckets (S5).
        self.trouble(if self.wants_cut(db) {
            Stop::Cold
        } else {
            Fault::Damaged { what: "an extent" }.into()
        });
    }

    /// Makes room for what a transaction adds, in the order of the entries' positions. Each extent that lacked room grows once, and its
    /// successor grows on as long as it would not hold all that is to come there. The transaction has just been rolled back. `anew`: what
    /// it has found before is not used any more, so the memory of the old extents can be freed once no other thread reads them.
    pub(crate) fn make_room(&self, wants: &[Want], anew: bool) {
        let (mut rest, mut grown_end, mut reshaped) = (wants, (0, Some(0)), 0);
        while let Some(&Want { db, position, .. }) = rest.first() {
            let extent = self.extent_around(db, position);
            let count = extent.map_or(1, |extent| {
                rest.iter().take_while(|want| want.db == db && extent.covers(want.position)).count().max(1)
            });
            let (here, behind) = rest.split_at(count);
            let has_grown = grown_end.0 == db && grown_end.1.is_none_or(|end| position < end);
            let suffices = match extent {
                Some(extent) if has_grown => reshaped > RESHAPES_MAX || self.has_room(&extent, here),
                _ => has_grown,
            };
            if suffices || !has_grown && !here.iter().any(|want| want.lacks) {
                (rest, reshaped) = (behind, 0);
                continue;
            }
            if !has_grown {
                grown_end = (db, extent.map_or(Some(position.saturating_add(1)), |extent| extent.end()));
            }
            if !self.makes_room.replace(true) {
                self.table.room_makers.add();
            }
            self.grow(db, position, here);
            reshaped += 1;
            if self.buffers.retry.trouble.borrow().is_some() {
                return;
            }
            if anew {
                self.seat.renew_pin();
            }
        }
    }

    /// Whether an extent has room for these entries, estimated by their units.
    fn has_room(&self, extent: &Extent, wants: &[Want]) -> bool {
        let wanted: u64 = wants.iter().map(|want| want.units as u64).sum();
        let all = extent.buckets() * UNITS as u64;
        self.used_units_of(extent) + wanted <= all * FILLED_PERCENT / 100
    }

    /// Gives back the pieces that the extent around a position no longer needs: removing an inline entry frees no memory by itself. It gives
    /// up if another thread keeps a bucket locked for long. The transaction has done nothing yet. Returns whether the extent became smaller.
    pub(crate) fn shrink(&self, db: Db, position: u64) -> bool {
        // If the keys are spread unevenly, one piece more may be needed.
        for extra in 0..2 {
            let shape = |old: &Extent| {
                let pieces = self.needed_pieces(old) + extra;
                (pieces < old.pieces).then(|| vec![(pieces, old.depth, old.prefix)])
            };
            match self.try_reshape(db, position, shape) {
                Ok(Grown::Done) => return true,
                Ok(Grown::Cramped) => self.seat.rollback(),
                _ => {
                    self.seat.rollback();
                    return false;
                }
            }
        }
        false
    }

    /// Shrinks the extent around a position if that frees a quarter of it, and no transaction of this process is about to fill room that it
    /// has made. Returns whether it did, and where the next extent of the database begins.
    pub(crate) fn shrink_if_spare(&self, db: Db, position: u64) -> (bool, Option<u64>) {
        match self.extent_around(db, position) {
            Some(extent) => {
                let may =
                    !self.table.room_makers.is_any() && self.needed_pieces(&extent) * 4 <= extent.pieces * 3;
                (may && self.shrink(db, position), extent.end())
            }
            // It is gone, or damaged.
            None => (false, None),
        }
    }

    /// The extent around a position, for a walk from extent to extent; `None` when there is none, or it is damaged.
    pub(crate) fn extent_around(&self, db: Db, position: u64) -> Option<Extent> {
        self.found_around(db, position).filter(|extent| extent.covers(position))
    }

    /// What a walk to a position finds. It walks again until the pin covers what it has found; a change of the epoch during a walk is no
    /// reason to fail.
    fn found_around(&self, db: Db, position: u64) -> Option<Extent> {
        let segment = self.segment();
        loop {
            let root = segment.observe(map_at(db) + 8);
            let found = (root != 0).then(|| directory::walk(segment, root, position)).flatten();
            if self.seat.covers_now() {
                break found;
            }
        }
    }

    fn needed_pieces(&self, extent: &Extent) -> u64 {
        pieces_for(self.used_units_of(extent))
    }

    fn used_units_of(&self, extent: &Extent) -> u64 {
        (0..extent.buckets()).map(|index| self.used_units(extent, index)).sum()
    }

    /// The shapes that follow an extent which is to take these entries as well. For a few entries they are the usual ones. For many, the extent grows
    /// at once to what they need: with the usual steps each piece would be replaced some nine times, and what it replaces waits for the pins of others.
    fn shapes_for(&self, old: &Extent, extra: u64, wants: &[Want]) -> Vec<Shape> {
        let usual = shapes_after(old, extra);
        if wants.iter().filter(|want| want.units > 0).count() < MANY_WANTS {
            return usual;
        }
        let used = self.used_units_of(old);
        let units = |wants: &[Want]| wants.iter().map(|want| want.units as u64).sum::<u64>();
        let pieces = pieces_for(used + units(wants)) + extra;
        match usual[..] {
            [(usual, depth, prefix)] if pieces <= PIECES_MAX => vec![(usual.max(pieces), depth, prefix)],
            _ => {
                let depth = old.depth + 1;
                let prefixes = [old.prefix, old.prefix | 1 << (64 - depth)];
                let (left, right) = wants.split_at(wants.partition_point(|want| want.position < prefixes[1]));
                let half = |prefix: u64, wants: &[Want]| {
                    // Half of the entries, and a quarter of that for chance.
                    let used = used * 5 / 8;
                    let pieces = pieces_for(used + units(wants)) + extra;
                    // What is split again is no larger than its entries need until then.
                    let pieces = if pieces <= PIECES_MAX { pieces } else { pieces_for(used) + extra };
                    (pieces.min(PIECES_MAX), depth, prefix)
                };
                vec![half(prefixes[0], left), half(prefixes[1], right)]
            }
        }
    }

    fn used_units(&self, extent: &Extent, index: u64) -> u64 {
        let segment = self.segment();
        let Some(bucket) = extent.bucket(segment, index) else { return UNITS as u64 };
        UNITS as u64 - bucket::matches(&Live { segment, bucket }.tag_words(), FREE).count_ones() as u64
    }

    /// Replaces the extent around a position by what `shapes` makes of it, if it makes something.
    fn try_reshape(
        &self,
        db: Db,
        position: u64,
        shapes: impl Fn(&Extent) -> Option<Vec<Shape>>,
    ) -> Result<Grown, Stop> {
        let segment = self.segment();
        let Some(old) = self.found_around(db, position) else { return Ok(Grown::Overtaken) };
        if !old.covers(position) {
            return Err(Fault::Damaged { what: "an extent" }.into());
        }
        let Some(shapes) = shapes(&old) else { return Ok(Grown::Overtaken) };
        let mut buildings: SmallVec<[Building; 2]> = SmallVec::new();
        for (pieces, depth, prefix) in shapes {
            buildings.push(self.build(pieces, depth, prefix)?);
        }
        for building in &buildings {
            self.seat.lock_newborn(building.bucket(0).line)?;
        }
        for index in 0..old.buckets() {
            segment.prefetch(old.bucket(segment, index).map_or(0, |bucket| bucket.line));
        }
        for index in 0..old.buckets() {
            let bucket = old.bucket(segment, index).ok_or(Fault::Damaged { what: "an extent" })?;
            if index > 0 && sync::has(Flaw::GrowsUnlocked) {
                continue;
            }
            match self.lock_patiently(bucket.line)? {
                Locked::Ours(_) => self.seat.amend(self.seat.journal_len() - 1, CHANGED | DEATH),
                // By the time a bucket dies, the slot names another extent: or else it is damaged (S5).
                _ if old.is_current(segment) => return Err(Fault::Damaged { what: "a bucket" }.into()),
                _ => return Ok(Grown::Overtaken),
            }
        }
        if !old.is_current(segment) || segment.observe(map_at(db) + 8) != old.root {
            return Ok(Grown::Overtaken);
        }
        if !self.move_entries(&old, &mut buildings)? {
            return Ok(Grown::Cramped);
        }
        let finish = || buildings.iter().for_each(|building| building.finish(segment));
        let builds_late = sync::has(Flaw::BuildsLate);
        if !builds_late {
            finish();
        }
        self.note_slots(&old, &buildings)?;
        let mut olds = 1;
        self.seat.note_old(ref_to(old.at), false)?;
        for piece in 0..old.pieces {
            self.seat.note_old(Ref(segment.load(old.at + extent::PIECES + piece * 8)), false)?;
            olds += 1;
        }
        self.seat.commit(olds)?;
        if builds_late {
            finish();
        }
        Ok(Grown::Done)
    }

    /// Makes an empty extent.
    fn build(&self, pieces: u64, depth: u32, prefix: u64) -> Result<Building, Fault> {
        let segment = self.segment();
        let mut places = Vec::with_capacity(pieces as usize);
        for _ in 0..pieces {
            let piece =
                offset_of(self.seat.make(NodeKind::Piece, PIECE_BYTES as usize - HEADER_BYTES as usize)?);
            // What its units held before stays there: tags alone say where entries are.
            (0..PIECE_BUCKETS).for_each(|number| segment.store(Bucket::of(piece, number).line, 0));
            places.push(piece);
        }
        let at = offset_of(self.seat.make(NodeKind::Extent, extent::PAYLOAD)?);
        let homes = pieces * PIECE_BUCKETS - stash_buckets(pieces);
        segment.store(at + extent::SHAPE, homes | pieces << 16 | (depth as u64) << 32);
        segment.store(at + extent::PREFIX, prefix);
        segment.store(at + extent::EXPIRY_MIN, u64::MAX);
        segment.store(at + extent::EXPIRY_MIN + 8, 0);
        for index in 0..PIECES_MAX {
            let piece = places.get(index as usize).map_or(0, |piece| ref_to(*piece).0);
            segment.store(at + extent::PIECES + index * 8, piece);
        }
        let buckets =
            places.iter().flat_map(|&piece| (0..PIECE_BUCKETS).map(move |number| Bucket::of(piece, number)));
        let lines = buckets.map(Line::empty).collect();
        Ok(Building { at, pieces: places, homes, depth, prefix, lines })
    }

    /// Copies every entry to its new home; returns false when one does not fit.
    ///
    /// Each key is moved some nine times on its way to a table of its size, so this is half of what a new key costs: each entry is copied from
    /// where it lies to where it is going to lie.
    fn move_entries(&self, old: &Extent, buildings: &mut [Building]) -> Result<bool, Stop> {
        let segment = self.segment();
        let lens = segment.raw_view();
        for index in 0..old.buckets() {
            let Some(bucket) = old.bucket(segment, index) else {
                return Err(Fault::Damaged { what: "an extent" }.into());
            };
            let live = Live { segment, bucket };
            let begin = bucket::beginnings(&live.tag_words());
            for unit in bucket::bits(begin) {
                let second = lens.load(bucket.units + (unit * UNIT_BYTES) as u64 + 8);
                if entry::names_record(second) {
                    segment.prefetch(offset_of(entry::record_of(second)));
                }
            }
            for unit in bucket::bits(begin) {
                let from = bucket.units + (unit * UNIT_BYTES) as u64;
                let second = lens.load(from + 8);
                let (position, units) = if entry::is_stub(second) {
                    let Granule { first, last } = stub::name_of(lens.load(from), second).granule();
                    if cuts(buildings, (first, last)) {
                        self.note_cut(old, buildings);
                        return Ok(false);
                    }
                    (first, 1)
                } else if second as u8 & entry::REFERENCE != 0 {
                    (self.hash_of_entry(&bucket::image_at(&live, unit))?.position, 1)
                } else {
                    // Read where it lies: a copy that was made word by word, read at other places, makes the processor wait.
                    let Some(key) = raw::inline_key(
                        segment,
                        bucket.word_at(LINE_WORDS + unit * 2),
                        (UNITS - unit) * UNIT_BYTES,
                    ) else {
                        return Err(Fault::Damaged { what: "an entry" }.into());
                    };
                    (hash(key, segment.secret()).position, bucket::units_of(second, unit))
                };
                let Some(building) = buildings.iter_mut().find(|building| building.covers(position)) else {
                    return Err(Fault::Damaged { what: "an entry's place" }.into());
                };
                let tag = (lens.load(bucket.line + 8 + (unit as u64 & !7)) >> (unit % 8 * 8)) as u8;
                let Some(mut to) = building.settle(segment, position, tag, units) else { return Ok(false) };
                let (mut from, behind) = (from, from + (units * UNIT_BYTES) as u64);
                while from < behind {
                    segment.store(to, lens.load(from));
                    segment.store(to + 8, lens.load(from + 8));
                    (from, to) = (from + 16, to + 16);
                }
                // Computed from the entries: the old extent's own bound may be lifted at the moment, by a search for expired keys.
                if second as u8 & (entry::REFERENCE | entry::EXPIRY) != 0
                    && let Some(expiry_ms) = self.bound_of(&bucket::image_at(&live, unit))?
                {
                    building.lower(segment, expiry_ms);
                }
            }
        }
        Ok(true)
    }

    /// Notes the stubs of an extent that would be cut in its successors.
    #[cold]
    fn note_cut(&self, old: &Extent, buildings: &[Building]) {
        let segment = self.segment();
        for bucket in (0..old.buckets()).filter_map(|index| old.bucket(segment, index)) {
            let live = Live { segment, bucket };
            for (unit, _) in bucket::entries(&live) {
                let Some(name) = bucket::image_at(&live, unit).stub() else { continue };
                let Granule { first, last } = name.granule();
                if cuts(buildings, (first, last)) {
                    self.buffers.stubs.cut.borrow_mut().push(name);
                }
            }
        }
    }

    /// The hash of the key of an entry.
    pub(crate) fn hash_of_entry(&self, image: &Image) -> Result<Hash, Stop> {
        let secret = self.segment().secret();
        if image.is_reference() {
            let record = self.record(image.record()?)?;
            return match record.key {
                Key::Short(key) => Ok(hash(key, secret)),
                Key::Long(_) => Ok(hash(&self.key_of(image)?, secret)),
            };
        }
        Ok(hash(entry::inline_fields(image.bytes()).ok_or(Fault::Damaged { what: "an entry" })?.key, secret))
    }

    /// Notes the directory's slots, each under the lock that keeps others from changing it.
    fn note_slots(&self, old: &Extent, buildings: &[Building]) -> Result<(), Fault> {
        let segment = self.segment();
        let slots = old.slots();
        let stamp = || self.seat.next_version();
        if slots < buildings.len() as u64 {
            // The slot is not divisible: a new directory node takes its place.
            let node = self.seat.make(NodeKind::Directory, SLOTS as usize * 8)?;
            for (number, building) in buildings.iter().enumerate() {
                let (word, half) = (directory::extent_slot(building.at, stamp()), SLOTS / 2);
                for index in 0..half {
                    segment.store(directory::slot_at(offset_of(node), number as u64 * half + index), word);
                }
            }
            self.seat.note(Tag::Cover, buildings[0].bucket(0).line, 0)?;
            return self.seat.note(Tag::Word, old.first_slot(), directory::node_slot(offset_of(node)));
        }
        let each = slots / buildings.len() as u64;
        for (number, building) in buildings.iter().enumerate() {
            self.seat.note(Tag::Cover, building.bucket(0).line, 0)?;
            let word = directory::extent_slot(building.at, stamp());
            for index in 0..each {
                self.seat.note(Tag::Word, old.first_slot() + (number as u64 * each + index) * 8, word)?;
            }
        }
        Ok(())
    }

    /// Makes a database that has no directory yet.
    pub(crate) fn make_database(&self, db: Db) {
        let outcome = self.try_make_database(db, 1, 0);
        if !matches!(outcome, Ok(true)) {
            self.seat.rollback();
        }
        if let Err(stop) = outcome {
            self.trouble(stop);
        }
    }

    /// Makes a database of 2^`doublings` extents of `pieces` pieces each. Returns false where there is one,
    /// or the journal has to be rolled back.
    pub(crate) fn try_make_database(&self, db: Db, pieces: u64, doublings: u32) -> Result<bool, Stop> {
        let Locked::Ours(_) = self.lock_patiently(MAP_LOCK)? else {
            return Err(Fault::Damaged { what: "the map's lock" }.into());
        };
        if self.segment().observe(map_at(db) + 8) != 0 {
            return Ok(false);
        }
        self.seat.amend(self.seat.journal_len() - 1, CHANGED);
        let (node, root, _) = self.new_database(pieces, doublings)?;
        self.seat.note(Tag::Cover, MAP_LOCK, 0)?;
        self.seat.note(Tag::Word, map_at(db), node)?;
        self.seat.note(Tag::Word, map_at(db) + 8, root)?;
        self.seat.commit(0)?;
        Ok(true)
    }

    /// Makes a database of 2^`doublings` extents of `pieces` pieces each: its node, its root word and its extents. The map is
    /// locked.
    pub(crate) fn new_database(
        &self,
        pieces: u64,
        doublings: u32,
    ) -> Result<(u64, u64, Vec<Building>), Stop> {
        let segment = self.segment();
        let tally = self.free_tally().ok_or(Fault::Full(
            "too many databases were flushed at once: wait until they are swept".into(),
        ))?;
        let mut buildings = Vec::new();
        for number in 0..1u64 << doublings {
            let prefix = if doublings == 0 { 0 } else { number << (64 - doublings) };
            let building = self.build(pieces, doublings, prefix)?;
            building.finish(segment);
            buildings.push(building);
        }
        let directory = self.make_directory(&buildings)?;
        let node = offset_of(self.seat.make(NodeKind::Database, database::PAYLOAD)?);
        let sum = |word: u64| segment.sum_over_seats(at::TALLIES + tally * at::TALLY_BYTES + word * 8);
        segment.store(node + database::TALLY, tally);
        segment.store(node + database::KEYS_BASE, sum(0));
        segment.store(node + database::EXPIRES_BASE, sum(1));
        segment.store(node + database::FIELDS_BASE, sum(2));
        segment.store(node + database::COLD_BASE, sum(3));
        segment.store(node + database::EXPIRY_MIN, u64::MAX);
        segment.store(node + database::DIRECTORY, directory);
        Ok((node, directory::root_word(directory, tally), buildings))
    }

    /// Makes a directory node over extents that divide its positions evenly, with nodes below it if they are many.
    fn make_directory(&self, buildings: &[Building]) -> Result<u64, Fault> {
        let segment = self.segment();
        let node = offset_of(self.seat.make(NodeKind::Directory, SLOTS as usize * 8)?);
        let each = (SLOTS as usize / buildings.len()).max(1);
        let below = buildings.chunks((buildings.len() / SLOTS as usize).max(1));
        for (number, buildings) in below.enumerate() {
            let word = match buildings {
                [building] => directory::extent_slot(building.at, self.seat.next_version()),
                several => directory::node_slot(self.make_directory(several)?),
            };
            for index in 0..each {
                segment.store(directory::slot_at(node, (number * each + index) as u64), word);
            }
        }
        Ok(node)
    }

    /// A tally that no database and no garbage uses.
    fn free_tally(&self) -> Option<u64> {
        let segment = self.segment();
        let mapped = directory::all_databases().map(|db| segment.observe(map_at(db)));
        let garbage =
            (0..directory::GARBAGE_SLOTS).map(|slot| segment.observe(directory::GARBAGE_AT + slot * 8));
        let used: Vec<u64> = mapped
            .chain(garbage)
            .filter(|node| segment.check(*node, 64))
            .map(|node| segment.load(node + database::TALLY))
            .chain(self.buffers.map.fresh_tallies.borrow().iter().copied())
            .collect();
        let free = (0..at::TALLY_SLOTS).find(|tally| !used.contains(tally))?;
        self.buffers.used.set(true);
        self.buffers.map.fresh_tallies.borrow_mut().push(free);
        Some(free)
    }
}

/// Returns true if the positions from the first to the last have not all one home in extents that are being built.
fn cuts(buildings: &[Building], (first, last): (u64, u64)) -> bool {
    let has_one_home = |building: &Building| {
        let home = |position| directory::home_of(position, building.depth, building.homes);
        building.covers(first) && building.covers(last) && home(first) == home(last)
    };
    !buildings.iter().any(has_one_home)
}

/// Pieces for entries of this many units in all, at [`SHRUNK_PERCENT`].
fn pieces_for(units: u64) -> u64 {
    (units * 100).div_ceil(SHRUNK_PERCENT * PIECE_BUCKETS * UNITS as u64).max(1)
}

/// The shapes that follow an extent, one or two.
fn shapes_after(old: &Extent, extra: u64) -> Vec<Shape> {
    // Each entry is moved some nine times while its extent grows from birth to split; steps of one piece alone would be twelve times, and
    // save one byte a key.
    let step = match old.pieces {
        ..4 => old.pieces,
        4..12 => 1,
        _ => 2,
    };
    let grown = old.pieces + step + extra;
    if grown <= PIECES_MAX {
        return vec![(grown, old.depth, old.prefix)];
    }
    let pieces = (SPLIT_PIECES + extra).min(PIECES_MAX);
    let depth = old.depth + 1;
    vec![(pieces, depth, old.prefix), (pieces, depth, old.prefix | 1 << (64 - depth))]
}
