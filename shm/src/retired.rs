//! The retired list: nodes that are out of use and wait until no thread can be reading them.
//!
//! Interval-based reclamation (Wen et al., PPoPP 2018): a node carries the epoch of its birth, an entry of this list the
//! epoch of its retirement, and a seat publishes the interval of epochs in which it reads (its pin, `seat.rs`). A node is
//! free once no seat's interval meets [birth, retirement]. So a stopped reader holds back only what lived in its interval,
//! not everything that is retired later.
//!
//! ```text
//! block = unused or node header (8) | next block (8) | index of the first entry (8) | 1022 entries
//! entry = offset | WHOLE in bit 63; 0 once freed    (8)   retirement epoch (8)
//! ```
//!
//! Entries have indices: head is the first that may be unfreed, tail the next to be written. A reclamation moves what it
//! cannot free to the front ([`Pass`]). So the list holds what is held back and what was added since the last reclamation.
//! The first block is the seat's inline one or a node. A WHOLE entry is expanded, one node at a time, into entries for
//! what the node names, so a huge value is freed step by step. The header of an expanded node is wiped. So in a damaged
//! tree, in which a node is named twice, the second visit finds no node, and the expansion ends (S5).
//!
//! tests/schedules/pins.rs runs this code and that of the pins in schedules that a checker chooses.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use polder_base::Fault;

use crate::class::CLASSES;
use crate::item::BLOCK_PAIRS;
use crate::layout::{header, seat as at};
use crate::node::{HEADER_BYTES, NodeHeader, NodeKind};
use crate::seat::{Entries, INDEX_MAX, Pass, Seat};
use crate::segment::{class_bytes, offset_of};
use crate::snapshot_log::DROPPED_MAX;
use crate::sync;
use polder_base::Ref;

const WHOLE: u64 = 1 << 63;
const ENTRIES: u64 = at::RETIRED_INLINE;
const NEXT: u64 = 8;
const FIRST_INDEX: u64 = 16;
const HEAD_BYTES: u64 = 24;
/// Entries that make a reclamation worth its cost.
const BATCH: u64 = 96;
/// The same while trees, which may be large, wait to be freed.
const TREES_BATCH: u64 = 8;
/// Entries that one look of a reclamation sees: as many as each reclamation that is due sees at least.
const LOOKED_AT_MAX: u64 = 512;
/// A reclamation looks at more entries than were added, or the list would grow without end.
const LOOKS_PER_ENTRY: u64 = 2;
/// The most entries, of those that a reclamation itself adds by expanding trees, that it looks at; a part of all waiting entries
/// ([`BACKLOG_SHARE`]) is added to this. The rest is left to the next reclamations, so that no call takes long.
const EXPANDED_MAX: u64 = 6144;
const BACKLOG_SHARE: u64 = 32;
/// How many entries ahead nodes are prefetched.
const AHEAD: u64 = 12;

/// The result of one look.
struct Look {
    seen: u64,
    freed: u64,
    /// Trees are left.
    trees: bool,
    /// Entries that trees have been expanded into.
    expanded: u64,
    /// It has come to the list's end.
    ended: bool,
}

impl Seat {
    /// Finds the blocks of the journal and of the retired list. Damaged words are cut down to what makes sense (S5). Nodes that they named
    /// beyond that are lost, which `verify` reports; but locks are released, and no thread waits for this seat.
    pub(crate) fn find_blocks(&self) {
        let journal = self.chain(self.get(at::JOURNAL_NEXT));
        let items_max = at::JOURNAL_PAIRS + journal.len() as u64 * BLOCK_PAIRS;
        if self.journal_len() > items_max {
            self.set(at::JOURNAL_LEN, items_max);
        }
        self.cut(journal.last().map_or(self.base + at::JOURNAL_NEXT, |last| last + NEXT));
        *self.journal_blocks.borrow_mut() = journal;
        let mut retired = self.chain(self.get(at::RETIRED_FIRST));
        let index_of = |block: &u64| self.segment.load(block + FIRST_INDEX);
        if retired.first().is_none_or(|first| index_of(first) > INDEX_MAX) {
            let inline = self.base + at::RETIRED;
            self.segment.store(inline + FIRST_INDEX, 0);
            self.segment.store(inline + NEXT, 0);
            self.set(at::RETIRED_FIRST, inline);
            retired = vec![inline];
        }
        let begin = self.segment.load(retired[0] + FIRST_INDEX);
        let capacity = begin.saturating_add(retired.len() as u64 * ENTRIES);
        let (head, tail) = (self.get(at::RETIRED_HEAD), self.get(at::RETIRED_TAIL));
        if head < begin || tail < head || tail > capacity {
            self.set(at::RETIRED_TAIL, begin);
            self.set(at::RETIRED_HEAD, begin);
        }
        for word in [at::RETIRE_BASE, at::EXPANDED_TAIL] {
            if !(self.get(at::RETIRED_HEAD)..=capacity).contains(&self.get(word)) {
                self.set(word, self.get(at::RETIRED_TAIL));
            }
        }
        if self.get(at::EXPANDING) > self.get(at::RETIRED_TAIL)
            || self.get(at::EXPANDING).wrapping_sub(1) < begin
        {
            self.set(at::EXPANDING, 0);
        }
        *self.blocks_mut() = retired;
        self.find_snapshot_log();
        self.reclaim_at.set(self.get(at::RETIRED_TAIL) + BATCH);
        // Go on where the seat's last owner or recoverer stopped, since each recoverer may have time for a part of the list only.
        self.begin_passes(
            self.get(at::RETIRED_CURSOR).clamp(self.get(at::RETIRED_HEAD), self.get(at::RETIRED_TAIL)),
        );
    }

    /// Ends a chain at the word that links to what is no block.
    pub(crate) fn cut(&self, link: u64) {
        if self.segment.load(link) != 0 {
            self.segment.store(link, 0);
        }
    }

    /// The blocks of a chain, as far as they are blocks and none comes twice.
    pub(crate) fn chain(&self, first: u64) -> Vec<u64> {
        let mut blocks = Vec::new();
        let mut seen = HashSet::new();
        let mut block = first;
        let is_block = |block: u64| {
            block == self.base + at::RETIRED
                || self.segment.class_at(block).is_some_and(|(_, class)| class == CLASSES - 1)
        };
        while is_block(block) && seen.insert(block) {
            blocks.push(block);
            block = self.segment.load(block + NEXT);
        }
        blocks
    }

    #[inline(always)]
    fn entry_at(&self, index: u64) -> u64 {
        let near = self.near_entries.get();
        let past = index.wrapping_sub(near.first);
        if past < ENTRIES { near.begin + past * 16 } else { self.find_entry(index) }
    }

    #[cold]
    fn find_entry(&self, index: u64) -> u64 {
        let blocks = self.retired_blocks.borrow();
        let past = index.wrapping_sub(self.segment.load(blocks[0] + FIRST_INDEX));
        let Some(block) = blocks.get((past / ENTRIES) as usize) else {
            // Damaged words of the seat name an entry that is not there. Any entry will do, as long as it lies in the list (S5).
            return blocks[0] + HEAD_BYTES;
        };
        let begin = block + HEAD_BYTES;
        self.near_entries.set(Entries { first: index.wrapping_sub(past % ENTRIES), begin });
        begin + past % ENTRIES * 16
    }

    /// The list's blocks change.
    fn blocks_mut(&self) -> std::cell::RefMut<'_, Vec<u64>> {
        self.near_entries.set(Entries::NONE);
        self.retired_blocks.borrow_mut()
    }

    /// The index of the first entry for which there is no room.
    pub(crate) fn retired_capacity(&self) -> u64 {
        let blocks = self.retired_blocks.borrow();
        self.segment.load(blocks[0] + FIRST_INDEX) + blocks.len() as u64 * ENTRIES
    }

    /// Makes sure that `count` more entries can be written.
    #[inline]
    pub fn reserve_retired(&self, count: u64) -> Result<(), Fault> {
        // Mostly there is room for them in the block of the last one.
        let last = (self.get(at::RETIRED_TAIL) + count).wrapping_sub(1);
        if last.wrapping_sub(self.near_entries.get().first) < ENTRIES {
            Ok(())
        } else {
            self.reserve_retired_blocks(count)
        }
    }

    fn reserve_retired_blocks(&self, count: u64) -> Result<(), Fault> {
        // What can be freed now makes room without more memory. A reclamation that is already running asks for room itself.
        if self.get(at::RETIRED_TAIL) + count > self.retired_capacity() && self.get(at::RECLAIMING) == 0 {
            self.reclaim();
        }
        self.extend_retired(count)
    }

    /// As [`Seat::reserve_retired`], without a reclamation.
    pub(crate) fn extend_retired(&self, count: u64) -> Result<(), Fault> {
        while self.get(at::RETIRED_TAIL) + count > self.retired_capacity() {
            let last = *self.retired_blocks.borrow().last().expect("there is always one");
            let inline = self.base + at::RETIRED;
            let block = if self.retired_blocks.borrow().contains(&inline) {
                self.chain_block(NodeKind::Retired, last + NEXT)?
            } else {
                self.segment.store(inline + NEXT, 0);
                self.segment.publish(last + NEXT, inline);
                inline
            };
            self.blocks_mut().push(block);
        }
        Ok(())
    }

    /// The epoch of what goes out of use now, after it has been unlinked and before it is written into the list.
    ///
    /// SYNC: seat-retire. The load must not come before the stores that unlinked the nodes, or before the release of their locks: an epoch that is
    /// too old would not meet the pin of a reader that found them at the last moment. On x86 the release of a lock is a full barrier. Elsewhere an
    /// acquiring load may overtake an earlier release (LDAPR on aarch64), so that it takes a fence.
    #[inline(always)]
    pub(crate) fn retirement_epoch(&self) -> u64 {
        if cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
        self.segment.observe(header::EPOCH)
    }

    /// Writes entry `index`; it counts once the tail has passed it.
    #[inline]
    pub(crate) fn write_retired(&self, index: u64, offset: u64, whole: bool, epoch: u64) {
        let entry = self.entry_at(index);
        self.segment.store(entry, offset | if whole { WHOLE } else { 0 });
        self.segment.store(entry + 8, epoch);
        if let Some((_, class)) = self.segment.class_at(offset) {
            self.add(at::RETIRED_BYTES, class_bytes(class));
        }
        // A tree may be large.
        if whole && self.is_tree(offset) {
            self.reclaim_at.set(self.reclaim_at.get().min(index + 1));
        }
    }

    /// Whether `node` is the list's last entry: a free node that had no place in the cache is put there (`Seat::push`) before it leaves its old place.
    pub(crate) fn has_just_retired(&self, node: u64) -> bool {
        let (head, tail) = (self.get(at::RETIRED_HEAD), self.get(at::RETIRED_TAIL));
        tail > head && self.segment.load(self.entry_at(tail - 1)) == node
    }

    fn is_tree(&self, offset: u64) -> bool {
        NodeHeader(self.segment.load(offset)).kind().is_some_and(NodeKind::has_refs)
    }

    /// Reclaims when enough entries have come together: at the end of our pin, which would hold back all that has come since it began.
    #[inline]
    pub(crate) fn reclaim_if_due(&self) {
        if self.get(at::RETIRED_TAIL) >= self.reclaim_at.get() && !self.is_pinned() {
            self.reclaim();
        }
    }

    /// Frees what no thread can be reading any more. The time goes with how many entries were added since the last time.
    #[cold]
    pub(crate) fn reclaim(&self) {
        let tail = self.get(at::RETIRED_TAIL);
        let came = (tail + BATCH).saturating_sub(self.reclaim_at.get());
        let expanded_max = EXPANDED_MAX + tail.saturating_sub(self.pass.get().cursor) / BACKLOG_SHARE;
        self.reclaim_some(LOOKED_AT_MAX + LOOKS_PER_ENTRY * came, expanded_max, None);
    }

    /// The same until there is nothing left to free, or until `end`. Returns whether there may be more.
    pub fn reclaim_until(&self, end: Instant) -> bool {
        (0..2).any(|_| self.reclaim_some(u64::MAX, 0, Some(end)))
    }

    /// Looks at `entries` entries, and at up to `expanded_max` of those that are added by expansion meanwhile, until `end` at the latest.
    /// Returns whether there is more that may be free.
    fn reclaim_some(&self, entries: u64, mut expanded_max: u64, end: Option<Instant>) -> bool {
        if self.has_old_snapshot_log() {
            self.drop_snapshot_log(DROPPED_MAX);
        }
        let pins = self.pins_now();
        if self.get(at::RECLAIMING) != 0 {
            // A panic has interrupted the last reclamation.
            self.begin_passes(self.get(at::RETIRED_HEAD));
        }
        self.set(at::RECLAIMING, 1);
        self.choose_holder(&pins);
        let (mut left, mut seen, mut freed, mut trees) = (entries, 0, 0, false);
        let ended = loop {
            let look = self.look(&pins, left.min(LOOKED_AT_MAX));
            let expanded = look.expanded.saturating_mul(LOOKS_PER_ENTRY).min(expanded_max);
            expanded_max -= expanded;
            left = (left - look.seen).saturating_add(expanded);
            (seen, freed, trees) = (seen + look.seen, freed + look.freed, trees | look.trees);
            if look.ended || left == 0 || end.is_some_and(|end| sync::now() > end) {
                break look.ended;
            }
        };
        self.set(at::RECLAIMING, 0);
        if self.get(at::RETIRED_HEAD) == self.get(at::RETIRED_TAIL) {
            self.set(at::TREE_BYTES, 0);
        }
        if self.segment.has_marks() {
            self.return_marked();
        }
        // If most entries are held back, another pass soon would free little.
        let more = !ended && freed * 4 >= seen;
        self.reclaim_at.set(
            self.get(at::RETIRED_TAIL)
                + match () {
                    () if more => 1,
                    () if trees => TREES_BATCH,
                    () => BATCH,
                },
        );
        more
    }

    /// Tells of trees that this seat has retired, without their roots: their nodes join the list, and with it the retired bytes, only
    /// as the trees are taken apart. The pin of the transaction that retired them must not have ended. `bytes` may be
    /// less than the truth, never more.
    pub fn tell_trees(&self, bytes: u64) {
        self.add(at::TREE_BYTES, bytes);
    }

    /// What this seat has retired and not freed yet, in bytes.
    pub fn retired_bytes(&self) -> u64 {
        self.get(at::RETIRED_BYTES)
    }

    /// How many retired nodes this seat has freed.
    pub fn freed(&self) -> u64 {
        self.freed.get()
    }

    /// Chooses the pin whose entries need not be looked at again: the oldest of those that hold something back.
    fn choose_holder(&self, pins: &[(u64, u64)]) {
        let mut pass = self.pass.get();
        let (lower, upper) = pass.holder;
        let covers = |pin: &&(u64, u64)| pin.0 <= lower && pin.1 >= upper;
        match pins.iter().find(covers) {
            // The holder has ended, but this pin covers its interval: it holds back all that the holder did.
            Some(pin) if !pins.contains(&pass.holder) => pass.holder = *pin,
            Some(_) => {}
            None => {
                pass.held = self.get(at::RETIRED_HEAD);
                pass.holder = pins
                    .iter()
                    .copied()
                    .min_by_key(|&(lower, upper)| (lower, Reverse(upper)))
                    .unwrap_or_default();
            }
        }
        self.pass.set(pass);
    }

    /// One look at entries that this pass has not seen: frees those that are free, and moves the others together.
    fn look(&self, pins: &[(u64, u64)], most: u64) -> Look {
        let mut pass = self.pass.get();
        let (begin, end) = (pass.cursor, self.get(at::RETIRED_TAIL));
        let stop = end.min(begin + most);
        let (mut freed, mut trees) = (0, false);
        // What was retired before the oldest pin began is free, whenever it was born. That is almost everything.
        let oldest = pins.iter().map(|(lower, _)| *lower).min().unwrap_or(u64::MAX);
        for index in begin..stop {
            // To see whether a pin holds a node back, its header is needed, which is in no cache.
            if index + AHEAD < stop {
                let entry = self.entry_at(index + AHEAD);
                let what = self.segment.load(entry);
                if what & WHOLE != 0 || self.segment.load(entry + 8) >= oldest {
                    self.segment.prefetch(what & !WHOLE);
                }
            }
            let entry = self.entry_at(index);
            let (what, epoch) = (self.segment.load(entry), self.segment.load(entry + 8));
            let offset = what & !WHOLE;
            let is_free = || {
                epoch < oldest
                    || !self.segment.check(offset, HEADER_BYTES)
                    || self.free_for_all(offset, epoch, pins)
            };
            if what != 0 && is_free() {
                self.free_entry(index, entry, what, epoch);
            }
            if self.segment.load(entry) == 0 {
                freed += 1;
                continue;
            }
            let held = pass.held == pass.kept && self.is_held(offset, epoch, pass.holder);
            self.move_down(index, pass.kept);
            pass.kept += 1;
            pass.held += held as u64;
            trees |= !held && what & WHOLE != 0 && self.is_tree(offset);
        }
        pass.cursor = stop;
        self.pass.set(pass);
        let tail = self.get(at::RETIRED_TAIL);
        self.end_pass();
        self.set(at::RETIRED_CURSOR, self.pass.get().cursor);
        Look { seen: stop - begin, freed, trees, expanded: tail - end, ended: stop == tail }
    }

    /// Leaves behind what has been freed; begins again once everything has been seen.
    fn end_pass(&self) {
        let mut pass = self.pass.get();
        if pass.kept == self.get(at::RETIRED_HEAD) {
            (pass.held, pass.kept) = (pass.cursor, pass.cursor);
            self.set(at::RETIRED_HEAD, pass.cursor);
            self.drop_passed_blocks();
        }
        // What was freed has left entries at the end, too.
        if pass.cursor == self.get(at::RETIRED_TAIL) {
            if pass.kept < pass.cursor {
                self.set(at::RETIRED_TAIL, pass.kept);
            }
            self.drop_spare_blocks();
            (pass.kept, pass.cursor) = (pass.held, pass.held);
        }
        self.pass.set(pass);
    }

    /// Begins a pass with the entries from `cursor` on; what lies before is looked at in the next pass.
    fn begin_passes(&self, cursor: u64) {
        let head = self.get(at::RETIRED_HEAD);
        self.pass.set(Pass { held: head, kept: cursor, cursor, ..Pass::default() });
    }

    /// Moves an entry to a place before it that is free.
    fn move_down(&self, from: u64, to: u64) {
        if from == to {
            return;
        }
        let (source, target) = (self.entry_at(from), self.entry_at(to));
        self.set(at::RECLAIMING, from + 2);
        self.segment.release_fence();
        // The target counts as taken once its first word is set; the source is cleared after that. A death in between leaves the entry in
        // both places, which RECLAIMING tells (`settle_move`).
        self.segment.store(target + 8, self.segment.load(source + 8));
        self.segment.publish(target, self.segment.load(source));
        self.segment.publish(source, 0);
        self.set(at::RECLAIMING, 1);
        self.add(at::RETIRED_MOVES, 1);
    }

    /// The intervals in use. It moves the epoch on first, unless another thread has since the last time.
    fn pins_now(&self) -> Vec<(u64, u64)> {
        let epoch = self.segment.observe(header::EPOCH);
        if epoch == self.last_epoch.get() {
            let _ = self.segment.exchange(header::EPOCH, epoch, epoch.wrapping_add(1));
        }
        self.last_epoch.set(self.segment.observe(header::EPOCH));
        // SYNC: seat-pin. This thread unlinked its nodes before this fence, and a reader reads entries after the fence of its pin. So either
        // the pin is seen here, or the reader finds no reference to these nodes.
        fence(Ordering::SeqCst);
        (0..self.segment.seats_high())
            .map(|index| self.segment.seat_at(index))
            .map(|seat| {
                (self.segment.observe(seat + at::PIN_LOWER), self.segment.observe(seat + at::PIN_UPPER))
            })
            .filter(|(lower, _)| *lower != at::NO_PIN)
            .chain(self.segment.snapshot_pin())
            .collect()
    }

    fn free_for_all(&self, offset: u64, retired: u64, pins: &[(u64, u64)]) -> bool {
        pins.iter().all(|pin| !self.is_held(offset, retired, *pin))
    }

    fn is_held(&self, offset: u64, retired: u64, (lower, upper): (u64, u64)) -> bool {
        retired >= lower && NodeHeader(self.segment.load(offset)).birth() <= upper
    }

    /// Frees one entry's node; a WHOLE one leaves entries for what it named.
    fn free_entry(&self, index: u64, entry: u64, what: u64, epoch: u64) {
        let offset = what & !WHOLE;
        let Some(class) = self.segment.node_class(offset) else {
            return self.segment.store(entry, 0);
        };
        if !self.has_place(class) {
            // It stays in the list: see `Seat::push`.
            return;
        }
        if what & WHOLE == 0 || self.is_first_visit(offset, epoch) {
            if what & WHOLE != 0 && self.expand(index, entry, offset, epoch).is_err() {
                return;
            }
            self.push(class, offset);
        }
        self.segment.store(entry, 0);
        self.freed.set(self.freed.get() + 1);
        self.add(at::RETIRED_BYTES, (class_bytes(class)).wrapping_neg());
    }

    /// Whether the node of a WHOLE entry is still the one that was retired: not freed before, and not used again since (S5).
    fn is_first_visit(&self, offset: u64, retired: u64) -> bool {
        let node = NodeHeader(self.segment.load(offset));
        node.kind().is_some() && node.birth() <= retired
    }

    /// Writes entries for everything that the node of a WHOLE entry names, then makes the entry a plain one.
    fn expand(&self, index: u64, entry: u64, offset: u64, epoch: u64) -> Result<(), Fault> {
        let named = self.named_by(offset);
        if !named.is_empty() {
            self.reserve_retired(named.len() as u64)?;
            let tail = self.get(at::RETIRED_TAIL);
            let before = self.get(at::RETIRED_BYTES);
            for (number, node) in named.iter().enumerate() {
                self.write_retired(tail + number as u64, offset_of(*node), true, epoch);
            }
            let written = self.get(at::RETIRED_BYTES).wrapping_sub(before);
            self.set(at::TREE_BYTES, self.get(at::TREE_BYTES).saturating_sub(written));
            self.set(at::EXPANDED_TAIL, tail + named.len() as u64);
            self.set(at::EXPANDING, index + 1);
        }
        self.finish_expansion(entry, offset);
        if !named.is_empty() {
            self.segment.store(offset, 0);
        }
        Ok(())
    }

    fn finish_expansion(&self, entry: u64, offset: u64) {
        if self.get(at::EXPANDING) != 0 {
            self.set(at::RETIRED_TAIL, self.get(at::EXPANDED_TAIL));
        }
        self.segment.publish(entry, offset);
        if self.get(at::EXPANDING) != 0 {
            self.set(at::EXPANDING, 0);
        }
    }

    /// The nodes that a node names, checked (S5).
    pub(crate) fn named_by(&self, offset: u64) -> Vec<Ref> {
        let node = NodeHeader(self.segment.load(offset));
        if !node.kind().is_some_and(NodeKind::has_refs) {
            return Vec::new();
        }
        let count =
            self.segment.load(offset + HEADER_BYTES).min((node.length() as u64).saturating_sub(8) / 8);
        (0..count)
            .map(|number| Ref(self.segment.load(offset + HEADER_BYTES + 8 + number * 8)))
            .filter(|named| !named.is_none() && self.segment.class_at(offset_of(*named)).is_some())
            .collect()
    }

    /// Gives back the blocks that the head has passed.
    fn drop_passed_blocks(&self) {
        loop {
            let (first, next) = match self.retired_blocks.borrow()[..] {
                [first, next, ..] => (first, next),
                _ => return,
            };
            let next_index = self.segment.load(first + FIRST_INDEX) + ENTRIES;
            if self.get(at::RETIRED_HEAD) < next_index {
                return;
            }
            // Only the first block's index is ever read; it is right before the block becomes the first.
            self.segment.store(next + FIRST_INDEX, next_index);
            if first == self.base + at::RETIRED {
                self.set(at::RETIRED_FIRST, next);
            } else {
                self.unchain(first, self.base + at::RETIRED_FIRST, next);
            }
            self.blocks_mut().remove(0);
        }
    }

    /// Gives back the blocks that the list has no use for since it became shorter, but for one.
    fn drop_spare_blocks(&self) {
        let tail = self.get(at::RETIRED_TAIL);
        let inline = self.base + at::RETIRED;
        while self.retired_capacity() >= tail + 2 * ENTRIES {
            let [.., last_but_one, last] = self.retired_blocks.borrow()[..] else { return };
            if last == inline {
                self.segment.publish(last_but_one + NEXT, 0);
            } else {
                self.unchain(last, last_but_one + NEXT, 0);
            }
            self.blocks_mut().pop();
        }
    }

    /// Brings a dead seat's list in order: an expansion that was begun is ended, and what is in two places leaves one.
    pub(crate) fn settle_retired(&self) {
        let expanding = self.get(at::EXPANDING);
        if expanding != 0 {
            let entry = self.entry_at(expanding - 1);
            self.finish_expansion(entry, self.segment.load(entry) & !WHOLE);
        }
        let (head, tail) = (self.get(at::RETIRED_HEAD), self.get(at::RETIRED_TAIL));
        self.settle_move(head, tail);
        let tops = if self.get(at::RECLAIMING) == 0 { Vec::new() } else { self.cache_tops() };
        for index in head..if tops.is_empty() { head } else { tail } {
            let entry = self.entry_at(index);
            // Freed into the cache, but not yet struck out here.
            if self.segment.load(entry) != 0 && tops.contains(&(self.segment.load(entry) & !WHOLE)) {
                self.segment.store(entry, 0);
            }
        }
    }

    /// Strikes out the entry that was being moved if it is in its new place already.
    fn settle_move(&self, head: u64, tail: u64) {
        let from = self.get(at::RECLAIMING).wrapping_sub(2);
        if !(head..tail).contains(&from) {
            return;
        }
        let what = self.segment.load(self.entry_at(from));
        if what != 0 && (head..from).any(|index| self.segment.load(self.entry_at(index)) == what) {
            self.segment.store(self.entry_at(from), 0);
        }
    }

    /// Counts the list's bytes anew: the sum is kept without care for deaths.
    pub(crate) fn recount_retired(&self) {
        let classes =
            self.retired_entries().into_iter().filter_map(|(offset, _)| self.segment.class_at(offset));
        self.set(at::RETIRED_BYTES, classes.map(|(_, class)| class_bytes(class)).sum());
        self.set(at::TREE_BYTES, 0);
    }

    /// Every entry of the list, for `verify`.
    pub(crate) fn retired_entries(&self) -> Vec<(u64, bool)> {
        (self.get(at::RETIRED_HEAD)..self.get(at::RETIRED_TAIL))
            .map(|index| self.segment.load(self.entry_at(index)))
            .filter(|what| *what != 0)
            .map(|what| (what & !WHOLE, what & WHOLE != 0))
            .collect()
    }
}
