//! Node memory: slabs with bitmaps, and a small cache of free nodes in every seat.
//!
//! A node is at each moment in exactly one place: free in its slab's bitmap; in one seat's cache; in that seat's journal
//! as NEW; in its retired list; a block of its journal or retired list; or reachable from the roots. So recovery and `verify`
//! can account for every byte.
//!
//! The bitmap's bit is set while the node is anywhere but in the slab. Bits change only under the slab's lock and only
//! through the *memory journal*: a short redo record of (offset, value) pairs beside the transaction's own journal, since
//! it is needed in the middle of a transaction. Its commit is the store of MEMORY_STATUS.
//!
//! Moves inside one seat need no record, only an order: a node enters the new place first and leaves the old one second.
//! A death between the two leaves the node in both places. One of the two is the newest place of its cache (or the last
//! entry of the retired list), so recovery finds it there and drops it from one of the two (`recover.rs`).

use std::cell::Cell;
use std::time::{Duration, Instant};

use polder_base::{Fault, Ref};

use crate::class::{CLASSES, SIZES, SLAB_BYTES, cache_slots, class_of, per_slab};
use crate::item::Tag;
use crate::layout::{header, seat as at};
use crate::lock::{self, Locked};
use crate::node::{HEADER_BYTES, NodeHeader, NodeKind};
use crate::pages::LARGE;
use crate::seat::{Seat, cache_count, cache_slot};
use crate::segment::{Segment, class_bytes, ref_to};
use crate::slab::{is_marked, mark_of, slab_class, slab_free, slab_state};
use crate::sync;

/// The least number of slabs that one growth of the segment adds; a growth ends at the end of a large page.
const GROWTH_SLABS: u64 = 8;
/// How long a thread waits for locked slabs of a full segment before it fails with OOM. A thread that moves nodes holds a slab's
/// lock for a microsecond, or for longer if the scheduler takes its core away at that moment.
const SLAB_PATIENCE: Duration = Duration::from_millis(10);
/// After such a wait has failed, no other one is begun for this long. So a stopped thread delays a server's loop once, and not at
/// each call.
const FAILED_WAIT_REST: Duration = Duration::from_millis(500);

/// What a search does with slabs that are to be emptied (`drain.rs`): whether they will do, and whether it has passed over some.
struct Marked {
    fit: bool,
    passed: Cell<bool>,
}

impl Marked {
    fn admits(&self, state: u64) -> bool {
        let admits = self.fit || !is_marked(state);
        if !admits {
            self.passed.set(true);
        }
        admits
    }
}

/// The result of a search for a slab.
enum Search {
    Locked(u64),
    /// Other threads hold the locks of all slabs that would do; this is one of them.
    Busy(u64),
    Nothing,
}

impl Seat {
    /// Makes a node with room for `length` payload bytes, noted as NEW and private until the transaction commits. Its header
    /// is written, its payload is not.
    ///
    /// # Errors
    /// [`Fault::Full`] when the segment is at its ceiling.
    #[inline]
    pub fn make(&self, kind: NodeKind, length: usize) -> Result<Ref, Fault> {
        let class = class_of(length + HEADER_BYTES as usize);
        // First, since a new block of the journal comes out of a cache, too, perhaps this one.
        let item = self.ready_item()?;
        let node = self.top(class)?;
        self.write_item(item, Tag::New, node, class as u64);
        self.pop(class);
        self.prefetch_top(class, length);
        let epoch = self.segment.observe(header::EPOCH);
        self.segment.store(node, NodeHeader::new(epoch, kind, length).0);
        Ok(ref_to(node))
    }

    /// Prefetches the node that will be taken next, if trees are made of nodes of its size. It was freed a while ago, and the next user
    /// writes all of it (without this, a sixth of the time of a ZADD into a large set).
    #[inline]
    fn prefetch_top(&self, class: usize, length: usize) {
        const SMALL_MAX: usize = 256;
        let count = self.get(cache_count(class));
        if length > SMALL_MAX && count > 0 {
            let next = self.get(cache_slot(class, count - 1));
            self.segment.prefetch_lines(next, length as u64 / 64 + 1);
        }
    }

    /// The newest node of the cache of `class`, which is filled first if it is empty.
    #[inline]
    pub(crate) fn top(&self, class: usize) -> Result<u64, Fault> {
        let mut count = self.get(cache_count(class));
        if count == 0 {
            self.refill(class)?;
            count = self.get(cache_count(class));
        }
        Ok(self.get(cache_slot(class, count - 1)))
    }

    #[inline]
    fn pop(&self, class: usize) {
        self.set(cache_count(class), self.get(cache_count(class)) - 1);
    }

    /// Puts a node into the cache, which is emptied by half into the slabs first if it is full. Where stopped threads hold the locks of
    /// all these slabs, the node goes into the retired list, from where a later reclamation takes it.
    #[inline]
    pub(crate) fn push(&self, class: usize, node: u64) {
        if !self.has_place(class) {
            return self.put_aside(class, node);
        }
        self.push_into(class, node);
    }

    /// Whether there is a place in the cache of `class`, which is emptied by half if it is full.
    #[inline]
    pub(crate) fn has_place(&self, class: usize) -> bool {
        self.get(cache_count(class)) < self.cache_most(class) || self.flush(class)
    }

    #[inline]
    fn push_into(&self, class: usize, node: u64) {
        let count = self.get(cache_count(class));
        self.set(cache_slot(class, count), node);
        self.set(cache_count(class), count + 1);
    }

    /// How many nodes of `class` the seat keeps in its cache: few in a small segment, since each may keep a slab from other classes.
    #[inline]
    fn cache_most(&self, class: usize) -> u64 {
        self.cache_share.min(cache_slots(class) as u64)
    }

    /// Whether the cache of `class` holds `node`.
    pub(crate) fn caches(&self, class: usize, node: u64) -> bool {
        (0..self.get(cache_count(class)).min(cache_slots(class) as u64))
            .any(|slot| self.get(cache_slot(class, slot)) == node)
    }

    /// Undoes a NEW: the node goes back into the cache, unless it had never left it.
    pub(crate) fn take_back(&self, node: u64) {
        if let Some(class) = self.segment.node_class(node)
            && !self.caches(class, node)
            && !self.has_just_retired(node)
        {
            self.push(class, node);
        }
    }

    /// A node for a chain of this seat's own, linked into the word `link`.
    pub(crate) fn chain_block(&self, kind: NodeKind, link: u64) -> Result<u64, Fault> {
        let class = CLASSES - 1;
        let node = self.top(class).or_else(|fault| self.draw_reserve(fault))?;
        Ok(self.link_block(node, kind, link))
    }

    /// Takes the newest node out of the cache of the largest class and into a chain of this seat's own, at the word `link`.
    pub(crate) fn link_block(&self, node: u64, kind: NodeKind, link: u64) -> u64 {
        let class = CLASSES - 1;
        debug_assert_eq!(self.get(at::PENDING), 0, "a death now would lose that block");
        self.set(at::PENDING, node);
        self.pop(class);
        self.segment.store(
            node,
            NodeHeader::new(self.segment.load(header::EPOCH), kind, SIZES[class] as usize - 9).0,
        );
        self.segment.store(node + 8, 0);
        self.segment.store(node + 16, 0);
        self.segment.publish(link, node);
        self.set(at::PENDING, 0);
        node
    }

    /// Takes a block out of a chain (`link` becomes `next`) and into the cache.
    pub(crate) fn unchain(&self, block: u64, link: u64, next: u64) {
        // First, if the cache has no place: the retired list may need a block to hold this one. While that block is linked, it is the one that is
        // PENDING, and a death would lose the other. If there is no memory, `push` waits for a place.
        if !self.has_place(CLASSES - 1) {
            let _no_memory = self.extend_retired(1);
        }
        self.set(at::PENDING, block);
        self.segment.publish(link, next);
        self.push(CLASSES - 1, block);
        self.set(at::PENDING, 0);
        self.refund_reserve(block);
    }

    /// Gets nodes of `class` out of a slab and into the cache.
    #[cold]
    fn refill(&self, class: usize) -> Result<(), Fault> {
        let (mut everywhere, mut end) = (false, None);
        let mut marked = Marked { fit: false, passed: Cell::new(false) };
        loop {
            let mut busy = None;
            match self.lock_slab(class, everywhere, &marked) {
                Search::Locked(slab) => {
                    self.take_nodes(slab, class, self.cache_most(class) / 2);
                    if self.get(cache_count(class)) > 0 {
                        return Ok(());
                    }
                    // Its state named free nodes that it does not have (S5); `take_nodes` has corrected that.
                    continue;
                }
                Search::Busy(slab) => busy = Some(slab),
                Search::Nothing => {}
            }
            match self.lock_free_slab(class, everywhere) {
                Search::Locked(_) => continue,
                Search::Busy(slab) => busy = Some(slab),
                Search::Nothing => {}
            }
            let Err(fault) = self.segment.grow() else {
                self.segment.look_ahead();
                continue;
            };
            // A hint is missing if a thread died between a change and its hint, or while another thread searches the group. So
            // look everywhere before this fails.
            if !everywhere {
                everywhere = true;
                self.segment.hint_all();
                continue;
            }
            // Slabs that are to be emptied are the last resort.
            if !marked.fit && marked.passed.get() {
                marked.fit = true;
                continue;
            }
            if !busy.is_some_and(|slab| self.await_slab(slab, &mut end)) {
                return Err(self.blame(fault));
            }
        }
    }

    /// Waits until a slab is unlocked, and returns whether it was. The wait ends at `end`, which the first call of a series sets:
    /// [`SLAB_PATIENCE`] from now on, or at once shortly after a wait that has failed.
    pub(crate) fn await_slab(&self, slab: u64, end: &mut Option<Instant>) -> bool {
        let now = sync::now();
        let rests = self.last_failed_wait.get().is_some_and(|vain| now < vain + FAILED_WAIT_REST);
        let end = *end.get_or_insert(if rests { now } else { now + SLAB_PATIENCE });
        if now < end && self.wait_memory(slab, Some(end)) {
            self.unlock_memory();
            return true;
        }
        if !rests {
            self.last_failed_wait.set(Some(now));
        }
        false
    }

    /// Adds to an out-of-memory error which reader holds memory back.
    fn blame(&self, fault: Fault) -> Fault {
        let Fault::Full(text) = fault else { return fault };
        let (mut holder, mut held) = (None, 0);
        for index in 0..self.segment.seats_high() {
            let bytes = self.segment.load(self.segment.seat_at(index) + at::RETIRED_BYTES);
            if (bytes as i64) > held {
                (holder, held) = (Some(index), bytes as i64);
            }
        }
        match self.segment.oldest_pin() {
            Some((seat, pid)) if held > 1 << 20 => Fault::Full(format!(
                "{text}; {held} bytes wait for a reader: seat {seat} (process {pid}) may be stopped and hold them back (retired most: seat {})",
                holder.unwrap_or(0)
            )),
            _ => Fault::Full(text),
        }
    }

    /// Finds and locks a slab with free nodes of `class`.
    fn lock_slab(&self, class: usize, everywhere: bool, marked: &Marked) -> Search {
        let fits =
            |state: u64| slab_class(state) == Some(class) && slab_free(state) > 0 && marked.admits(state);
        let cursor = self.slab_cursor[class].get() as u64;
        if cursor < self.segment.geometry().slabs_max && self.lock_memory(cursor, fits) {
            return Search::Locked(cursor);
        }
        let found = self.search(class + 1, everywhere, cursor, fits);
        if let Search::Locked(slab) = found {
            self.slab_cursor[class].set(slab as u32);
        }
        found
    }

    /// Looks for a slab that `fits` and locks it: in the groups of slabs that the hint word names, or in all. It begins behind `cursor`,
    /// since all slabs before that were taken at the last search.
    fn search(
        &self,
        hint: usize,
        everywhere: bool,
        cursor: u64,
        fits: impl Fn(u64) -> bool + Copy,
    ) -> Search {
        let segment = &self.segment;
        let groups = if everywhere { u64::MAX } else { segment.observe(header::HINTS + hint as u64 * 8) };
        let first_group = (cursor >> segment.group_shift()).min(63) as u32;
        let mut groups = groups.rotate_right(first_group);
        let mut busy = Search::Nothing;
        while groups != 0 {
            let group = u64::from((groups.trailing_zeros() + first_group) % 64);
            groups &= groups - 1;
            // Cleared before the search: a thread that frees into the group afterwards sets it again.
            segment.clear_hint(hint, group);
            let shift = segment.group_shift();
            let last = ((group + 1) << shift).min(segment.slabs_ready());
            let begin = (group << shift).max(segment.reserved_slabs()).min(last);
            let middle = (cursor + 1).clamp(begin, last);
            let mut candidates = (middle..last)
                .chain(begin..middle)
                .filter(|&slab| fits(segment.load(segment.slab_state_at(slab))))
                .peekable();
            let first = candidates.peek().copied();
            let found = candidates.find(|&slab| self.lock_memory(slab, fits));
            if let Some(slab) = first {
                segment.set_hint(hint, group);
                busy = Search::Busy(slab);
            }
            if let Some(slab) = found {
                return Search::Locked(slab);
            }
        }
        busy
    }

    /// Locks a slab whose state passes `fits`, if that takes no waiting.
    pub(crate) fn lock_memory(&self, slab: u64, fits: impl Fn(u64) -> bool) -> bool {
        let segment = &self.segment;
        if !fits(segment.load(segment.slab_state_at(slab))) {
            return false;
        }
        let at_lock = segment.slab_lock_at(slab);
        self.set(at::MEMORY_LOCK, at_lock);
        match segment.lock_try(at_lock, self.index) {
            Locked::Ours(_) if fits(segment.load(segment.slab_state_at(slab))) => true,
            Locked::Ours(_) => {
                self.unlock_memory();
                false
            }
            _ => {
                let word = segment.load(at_lock);
                match lock::owner(word) {
                    // This seat holds no slab's lock now, so the word is damaged (S5).
                    Some(owner) if owner == self.index => self.unlock_memory(),
                    Some(_) => segment.probe(at_lock),
                    // The word is free but kept for starving waiters. They may have died, so the bit is cleared; one that lives
                    // sets it again. A slab's lock is never dead, so that bit is damage (S5).
                    None => drop(segment.exchange(at_lock, word, word & !(lock::STARVING | lock::DEAD))),
                }
                false
            }
        }
    }

    /// Locks a slab, and waits for it until `deadline` if there is one. Returns whether the lock is ours.
    fn wait_memory(&self, slab: u64, deadline: Option<Instant>) -> bool {
        let at_lock = self.segment.slab_lock_at(slab);
        self.set(at::MEMORY_LOCK, at_lock);
        loop {
            match self.segment.lock_wait(at_lock, self.index, deadline, &mut || self.segment.probe(at_lock)) {
                Locked::Ours(_) => return true,
                Locked::Busy => return false,
                // Ours already or dead: neither can be, so the word is damaged (S5).
                Locked::Dead => {
                    let word = self.segment.load(at_lock);
                    let _ = self.segment.exchange(at_lock, word, word & !(lock::DEAD | lock::OWNER));
                }
            }
        }
    }

    fn unlock_memory(&self) {
        self.segment.unlock(self.get(at::MEMORY_LOCK), false, false);
        self.set(at::MEMORY_LOCK, 0);
    }

    /// Turns a free slab into one of `class`.
    fn lock_free_slab(&self, class: usize, everywhere: bool) -> Search {
        let found = self.search(0, everywhere, 0, |state| state == 0);
        let Search::Locked(slab) = found else { return found };
        self.dedicate(slab, class);
        self.segment.set_hint(class + 1, slab >> self.segment.group_shift());
        self.slab_cursor[class].set(slab as u32);
        found
    }

    /// Makes a locked free slab one of `class`.
    pub(crate) fn dedicate(&self, slab: u64, class: usize) {
        self.record(0, self.segment.slab_state_at(slab), slab_state(class, per_slab(class) as u64));
        self.commit_memory(1);
    }

    /// Takes `most` nodes, or what there are, out of a locked slab.
    pub(crate) fn take_nodes(&self, slab: u64, class: usize, most: u64) {
        let segment = &self.segment;
        let have = self.get(cache_count(class));
        let want = most.min(cache_slots(class) as u64 - have);
        let (mut pairs, mut taken) = (0, 0);
        for word in 0..per_slab(class).div_ceil(64) as u64 {
            let place = segment.slab_bits_at(slab) + word * 8;
            let before = segment.load(place);
            let mut bits = before;
            while taken < want {
                let bit = bits.trailing_ones() as u64;
                let node = word * 64 + bit;
                if bit == 64 || node >= per_slab(class) as u64 {
                    break;
                }
                bits |= 1 << bit;
                self.set(cache_slot(class, have + taken), segment.slab_at(slab) + node * class_bytes(class));
                taken += 1;
            }
            if bits != before {
                self.record(pairs, place, bits);
                pairs += 1;
            }
        }
        let free = slab_free(segment.load(segment.slab_state_at(slab))).saturating_sub(taken);
        // A search that finds less than it wants has found all that is free, whatever the slab's state says (S5).
        self.record(
            pairs,
            segment.slab_state_at(slab),
            slab_state(class, if taken < want { 0 } else { free }),
        );
        self.record(pairs + 1, self.base + cache_count(class), have + taken);
        self.record(
            pairs + 2,
            self.base + at::NODE_BYTES,
            self.get(at::NODE_BYTES).wrapping_add(taken * class_bytes(class)),
        );
        self.commit_memory(pairs + 3);
    }

    /// Puts half of the cache of `class` back into its slabs, and returns whether there is a place in it then. If a stopped thread holds
    /// one slab's lock, another slab will do. If the locks of all of them are held, the cache fills up to its last place. After that this
    /// waits for the first slab, for as long as [`Seat::await_slab`] allows.
    #[cold]
    fn flush(&self, class: usize) -> bool {
        let (goal, mut end) = (self.cache_most(class) / 2, None);
        loop {
            let count = self.get(cache_count(class));
            if count <= goal {
                return true;
            }
            match (0..count)
                .map(|slot| self.slab_of_cached(class, slot))
                .find(|&slab| self.lock_memory(slab, |_| true))
            {
                Some(slab) => self.give_nodes(slab, class, count),
                None if count < cache_slots(class) as u64 => return true,
                None if self.await_slab(self.slab_of_cached(class, 0), &mut end) => {}
                None => return false,
            }
        }
    }

    /// The slab of a cached node.
    fn slab_of_cached(&self, class: usize, slot: u64) -> u64 {
        (self.get(cache_slot(class, slot)) - self.segment.geometry().slabs_at) / SLAB_BYTES
    }

    /// Puts a free node for which the cache has no place into the retired list, as if it had just gone out of use. Never between the commit of a journal
    /// and the retirement of what it names, which goes to fixed places of that list.
    #[cold]
    fn put_aside(&self, class: usize, node: u64) {
        if self.reserve_retired(1).is_err() {
            // The memory and the list are full, and a stopped thread holds the slabs' locks: the node can go nowhere until that thread runs.
            return self.push_patiently(class, node);
        }
        let tail = self.get(at::RETIRED_TAIL);
        self.write_retired(tail, node, false, self.segment.observe(header::EPOCH));
        self.set(at::RETIRED_TAIL, tail + 1);
    }

    /// As [`Seat::push`], but if there is no place it waits for a slab's lock without a limit. It is for recovery before a committed
    /// journal has been written out, when nothing may enter the retired list. It waits only if three things come together: a thread
    /// died between two stores, its cache is full, and another thread is stopped between the few stores to that slab.
    pub(crate) fn push_patiently(&self, class: usize, node: u64) {
        while !self.has_place(class) {
            let slab = self.slab_of_cached(class, 0);
            if self.wait_memory(slab, None) {
                self.give_nodes(slab, class, self.get(cache_count(class)));
            }
        }
        self.push_into(class, node);
    }

    /// Gives every node of the cache that belongs to the locked slab back to it.
    pub(crate) fn give_nodes(&self, slab: u64, class: usize, count: u64) {
        let segment = &self.segment;
        let (begin, end) = (segment.slab_at(slab), segment.slab_at(slab + 1));
        let (mut slot, mut kept, mut pairs) = (0, count, 0);
        let mut bits = [None::<u64>; 32];
        let mut goes = |slot: u64| {
            let node = self.get(cache_slot(class, slot));
            if !(begin..end).contains(&node) {
                return Err(node);
            }
            let number = (node - begin) / class_bytes(class);
            let word = (number / 64) as usize;
            let now =
                bits[word].unwrap_or_else(|| segment.load(segment.slab_bits_at(slab) + word as u64 * 8));
            bits[word] = Some(now & !(1 << (number % 64)));
            Ok(())
        };
        while slot < kept {
            // The last one that stays takes the place of one that goes: often only one goes, and the others need not move.
            if goes(slot).is_ok() {
                loop {
                    kept -= 1;
                    if kept == slot {
                        break;
                    }
                    if let Err(node) = goes(kept) {
                        self.record(pairs, self.base + cache_slot(class, slot), node);
                        pairs += 1;
                        break;
                    }
                }
            }
            slot += 1;
        }
        let given = count - kept;
        for (word, bits) in bits.iter().enumerate() {
            if let Some(bits) = bits {
                self.record(pairs, segment.slab_bits_at(slab) + word as u64 * 8, *bits);
                pairs += 1;
            }
        }
        let state = segment.load(segment.slab_state_at(slab));
        let free = slab_free(state) + given;
        let empty = free >= per_slab(class) as u64;
        self.record(
            pairs,
            segment.slab_state_at(slab),
            if empty { 0 } else { slab_state(class, free) | mark_of(state) },
        );
        self.record(pairs + 1, self.base + cache_count(class), kept);
        self.record(
            pairs + 2,
            self.base + at::NODE_BYTES,
            self.get(at::NODE_BYTES).wrapping_sub(given * class_bytes(class)),
        );
        self.commit_memory(pairs + 3);
        segment.set_hint(if empty { 0 } else { class + 1 }, slab >> segment.group_shift());
    }

    pub(crate) fn record(&self, index: u64, offset: u64, value: u64) {
        assert!(index < at::MEMORY_PAIRS, "the memory journal holds one slab's change");
        let pair = self.base + at::MEMORY_JOURNAL + index * 16;
        self.segment.store(pair, offset);
        self.segment.store(pair + 8, value);
    }

    pub(crate) fn commit_memory(&self, pairs: u64) {
        self.set(at::MEMORY_LEN, pairs);
        // SYNC: seat-memory-commit.
        self.set(at::MEMORY_STATUS, at::COMMITTED);
        self.redo_memory();
    }

    /// Writes a committed memory journal out; run by its owner or a recoverer, any number of times.
    pub(crate) fn redo_memory(&self) {
        let at_lock = self.get(at::MEMORY_LOCK);
        // The lock is released last. If it is not ours any more, everything has been written, and other threads may have written since.
        if self.holds_memory_lock(at_lock) {
            for index in 0..self.get(at::MEMORY_LEN).min(at::MEMORY_PAIRS) {
                let pair = self.base + at::MEMORY_JOURNAL + index * 16;
                let offset = self.segment.load(pair);
                if self.may_record(offset) {
                    self.segment.store(offset, self.segment.load(pair + 8));
                }
            }
            self.segment.unlock(at_lock, false, false);
        }
        self.set(at::MEMORY_STATUS, at::IDLE);
        self.set(at::MEMORY_LOCK, 0);
    }

    /// Whether a memory journal of this seat writes there (S5): to the slabs' bookkeeping, or to what counts the seat's own nodes.
    fn may_record(&self, offset: u64) -> bool {
        let geometry = self.segment.geometry();
        let caches = self.base + at::CACHE_COUNTS..self.base + at::MEMORY_JOURNAL;
        let right = (geometry.slab_words_at..geometry.slabs_at).contains(&offset) || caches.contains(&offset);
        offset.is_multiple_of(8) && (right || offset == self.base + at::NODE_BYTES)
    }

    fn holds_memory_lock(&self, at_lock: u64) -> bool {
        self.segment.is_slab_lock(at_lock) && lock::owner(self.segment.load(at_lock)) == Some(self.index)
    }

    /// Completes the memory journal of a dead seat if it was committed; otherwise only its lock is released, since nothing else was changed.
    pub(crate) fn settle_memory(&self) {
        if self.get(at::MEMORY_STATUS) == at::COMMITTED {
            self.redo_memory();
        } else if self.holds_memory_lock(self.get(at::MEMORY_LOCK)) {
            self.unlock_memory();
        }
    }

    /// Drops from the caches what is no node of their class (S5).
    pub(crate) fn check_caches(&self) {
        for class in 0..CLASSES {
            let count = self.get(cache_count(class));
            let is_node =
                |slot: u64| self.segment.node_class(self.get(cache_slot(class, slot))) == Some(class);
            let right =
                (0..count.min(cache_slots(class) as u64)).take_while(|slot| is_node(*slot)).count() as u64;
            if right != count {
                self.set(cache_count(class), right);
            }
        }
    }

    /// Gives the cached nodes back to their slabs, except to slabs that other threads hold locked, since those may be stopped. It serves a
    /// seat without an owner, whose cached nodes no thread would use until the next one takes the seat; and a thread that has run out of memory.
    pub fn return_caches(&self) {
        for class in 0..CLASSES {
            loop {
                let count = self.get(cache_count(class));
                let Some(slab) = (0..count)
                    .map(|slot| self.slab_of_cached(class, slot))
                    .find(|&slab| self.lock_memory(slab, |_| true))
                else {
                    break;
                };
                self.give_nodes(slab, class, count);
            }
        }
    }

    /// Gives all cached nodes back to their slabs, so that every thread can use them. It waits for locked slabs, but only as long as
    /// `await_slab` allows.
    pub fn empty_caches(&self) {
        self.return_caches();
        let mut end = None;
        for class in 0..CLASSES {
            while self.get(cache_count(class)) > 0 && self.await_slab(self.slab_of_cached(class, 0), &mut end)
            {
                self.return_caches();
            }
        }
    }
}

impl Segment {
    /// Bytes of free nodes in the caches of all seats. Reads of seats whose threads run are a moment old.
    pub fn cached_bytes(&self) -> u64 {
        let of_seat = |seat: u64| -> u64 {
            let bytes = |class| {
                self.observe(seat + cache_count(class)).min(cache_slots(class) as u64) * class_bytes(class)
            };
            (0..CLASSES).map(bytes).sum()
        };
        (0..self.seats_high()).map(|index| of_seat(self.seat_at(index))).sum()
    }

    /// Slabs of one hint bit, as a shift.
    pub(crate) fn group_shift(&self) -> u64 {
        self.geometry().slabs_max.div_ceil(64).next_power_of_two().trailing_zeros() as u64
    }

    pub(crate) fn set_hint(&self, hint: usize, group: u64) {
        let word = self.word(header::HINTS + hint as u64 * 8);
        if word.load(std::sync::atomic::Ordering::Relaxed) >> group & 1 == 0 {
            word.fetch_or(1 << group, std::sync::atomic::Ordering::AcqRel);
        }
    }

    /// Sets every hint: the next searches look everywhere.
    fn hint_all(&self) {
        for hint in 0..=CLASSES {
            self.word(header::HINTS + hint as u64 * 8).store(u64::MAX, std::sync::atomic::Ordering::Release);
        }
    }

    fn clear_hint(&self, hint: usize, group: u64) {
        self.word(header::HINTS + hint as u64 * 8)
            .fetch_and(!(1 << group), std::sync::atomic::Ordering::AcqRel);
    }

    /// Has more slabs backed by memory, up to the end of a large page, or one slab if there is not enough memory for that. Two threads that
    /// do it at once back the same slabs, which does no harm.
    pub(crate) fn grow(&self) -> Result<(), Fault> {
        let ready = self.observe(header::SLABS_READY);
        let slabs_max = self.geometry().slabs_max;
        let end =
            self.slab_at(ready.max(self.reserved_slabs()) + GROWTH_SLABS).next_multiple_of(LARGE as u64);
        let goal = ((end - self.slab_at(0)) / SLAB_BYTES).min(slabs_max);
        if goal <= ready {
            return Err(Fault::Full(format!(
                "the segment is full at its ceiling of {} bytes: set maxmemory and an eviction policy, delete keys, or make a larger segment",
                self.geometry().ceiling - crate::layout::SEATS_AT - crate::layout::SEATS_MAX * at::BYTES
            )));
        }
        let goal = match self.back_slabs(ready, goal) {
            Err(Fault::Full(_)) => {
                self.back_slabs(ready, ready + 1)?;
                ready + 1
            }
            outcome => outcome.map(|()| goal)?,
        };
        if self.exchange(header::SLABS_READY, ready, goal).is_ok() {
            for slab in ready..goal {
                self.set_hint(0, slab >> self.group_shift());
            }
        }
        Ok(())
    }

    /// The seat whose pin is the oldest, and its process.
    pub fn oldest_pin(&self) -> Option<(u64, u32)> {
        (0..self.seats_high())
            .map(|index| (self.load(self.seat_at(index) + at::PIN_LOWER), index))
            .filter(|(lower, _)| *lower != at::NO_PIN)
            .min()
            .map(|(_, index)| (index, self.load(self.seat_at(index) + at::OWNER) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SegmentName, SegmentOptions};

    #[test]
    fn a_block_of_a_chain_is_kept_in_mind_until_it_has_a_place() {
        let name: SegmentName =
            format!("shm:polder-test-pending-{}", std::process::id()).parse().expect("a name");
        let options = SegmentOptions { ceiling: 256 << 20, ..SegmentOptions::default() };
        let segment = &Segment::create(&name, &options).expect("a segment");
        let seat = segment.seat().expect("a seat");
        let (class, link) = (CLASSES - 1, seat.base + at::SNAPSHOT_LOG_FIRST);
        let block = seat.chain_block(NodeKind::SnapshotLog, link).expect("memory");
        let marked = Marked { fit: true, passed: Cell::new(false) };
        while seat.get(cache_count(class)) < cache_slots(class) as u64 {
            match seat.lock_slab(class, true, &marked) {
                Search::Locked(slab) => seat.take_nodes(slab, class, u64::MAX),
                _ => assert!(
                    matches!(seat.lock_free_slab(class, true), Search::Locked(_)) || segment.grow().is_ok()
                ),
            }
        }
        // A stopped thread holds every slab, and the retired list is full: its next block has to come out of the full cache.
        seat.set(at::RETIRED_TAIL, seat.retired_capacity());
        std::thread::scope(|scope| {
            let (told, tell) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                told.send(segment.seat().expect("a seat").index()).expect("it listens");
                let _ = ended.recv();
            });
            let stopped = tell.recv().expect("a seat");
            (0..segment.slabs_ready())
                .for_each(|slab| segment.store(segment.slab_lock_at(slab), stopped + 1));
            seat.unchain(block, link, 0);
            (0..segment.slabs_ready()).for_each(|slab| segment.store(segment.slab_lock_at(slab), 0));
            drop(end);
        });
        assert!(seat.caches(class, block) || seat.has_just_retired(block));
        assert_eq!(seat.get(at::PENDING), 0);
        Segment::remove(&name).expect("it is there");
    }
}
