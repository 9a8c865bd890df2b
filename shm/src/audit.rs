//! The audit: is every node in exactly one place, and is every seat and slab what it should be?
//!
//! Each crate claims the nodes of the places that it knows: this file those of the seats (caches,
//! journals, retired lists, chains), the table those that its roots reach. Then what is claimed is
//! compared with the bitmaps of the slabs.
//!
//! ```text
//!   caches  journal  retired  chains        roots ... records ... trees
//!       \______\________|________/___ claim ___\________|_______/
//!                               |
//!          claimed, bit by bit  ==  taken out of the slabs, bit by bit
//! ```
//!
//! Nothing here trusts what it reads (S5): places are checked before they are followed, and every node is claimed once,
//! so no walk is longer than the number of nodes. Nothing is written.
//!
//! While others work, nodes move under the audit's eyes; it then tells what it saw, and the caller believes only what
//! several passes have seen alike, and sums only if [`Segment::pulse`] stood still.

use crate::class::{CLASSES, cache_slots, per_slab};
use crate::item::{BLOCK_PAIRS, Tag, item_of};
use crate::layout::{self, header, seat as at};
use crate::liveness::Life;
use crate::lock;
use crate::node::{HEADER_BYTES, NodeHeader, NodeKind};
use crate::seat::{cache_count, cache_slot};
use crate::segment::{Segment, class_bytes, offset_of};
use crate::slab::{slab_class, slab_free};
use polder_base::Ref;

/// Words of one slab's bitmap.
const BITMAP_WORDS: u64 = layout::BITMAP_BYTES / 8;
/// Findings of one pass that are kept; more are only counted.
const FINDINGS_MAX: usize = 50_000;
/// In a retired entry: everything that the node names is retired with it.
const RETIRED_WHOLE: u64 = 1 << 63;
/// No tree of nodes is deeper.
const DEPTH_MAX: usize = 64;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    pub text: String,
    /// A statement about a sum, which means nothing unless the whole pass saw one state.
    pub sum: bool,
}

/// What a pass has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub seats_alive: u64,
    pub slabs: u64,
    /// Nodes taken out of slabs, and their bytes.
    pub nodes: u64,
    pub node_bytes: u64,
    pub cached: u64,
    pub retired: u64,
}

/// One pass over the memory.
pub struct Audit<'s> {
    segment: &'s Segment,
    /// A bit per node, laid out as the slabs' own bitmaps.
    claimed: Vec<u64>,
    slabs: u64,
    /// Which seats lived when the pass began.
    lives: Vec<Life>,
    pub counts: Counts,
    pub findings: Vec<Finding>,
    /// All findings, those that were not kept included.
    pub found: u64,
}

impl<'s> Audit<'s> {
    /// An audit that has claimed nothing yet.
    pub fn new(segment: &'s Segment) -> Audit<'s> {
        let slabs = segment.slabs_ready();
        Audit {
            segment,
            claimed: vec![0; (slabs * BITMAP_WORDS) as usize],
            slabs,
            lives: (0..segment.seats_high()).map(|index| segment.life(index)).collect(),
            counts: Counts::default(),
            findings: Vec::new(),
            found: 0,
        }
    }

    /// Notes something that is wrong.
    pub fn find(&mut self, text: String) {
        self.note(Finding { text, sum: false });
    }

    /// Notes a sum that is wrong.
    pub fn find_sum(&mut self, text: String) {
        self.note(Finding { text, sum: true });
    }

    fn note(&mut self, finding: Finding) {
        self.found += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Claims the node at a stored offset for `place`. Returns false, with a finding, if there is
    /// none or it was claimed already. What is not claimed must not be followed.
    pub fn claim(&mut self, offset: u64, place: &dyn std::fmt::Display) -> bool {
        let Some((slab, number)) = self.number_of(offset) else {
            self.find(format!("{place} names {offset:#x}, where no node is"));
            return false;
        };
        let word = &mut self.claimed[(slab * BITMAP_WORDS + number / 64) as usize];
        if *word >> (number % 64) & 1 != 0 {
            self.find(format!("{place} names node {offset:#x}, which is in another place, too"));
            return false;
        }
        *word |= 1 << (number % 64);
        true
    }

    /// The slab and the number in it of the node that begins at `offset`.
    fn number_of(&self, offset: u64) -> Option<(u64, u64)> {
        let (slab, class) = self.segment.class_at(offset)?;
        let inside = offset - self.segment.slab_at(slab);
        let number = inside / class_bytes(class);
        (slab < self.slabs && inside.is_multiple_of(class_bytes(class)) && number < per_slab(class) as u64)
            .then_some((slab, number))
    }

    fn is_claimed(&self, node: u64) -> bool {
        self.number_of(node).is_some_and(|(slab, number)| {
            self.claimed[(slab * BITMAP_WORDS + number / 64) as usize] >> (number % 64) & 1 != 0
        })
    }

    /// Claims a node of a value and all that it names. Returns how many these are, if all could be
    /// claimed.
    pub fn claim_tree(&mut self, node: Ref, place: &dyn std::fmt::Display) -> Option<u64> {
        self.claim_below(node, DEPTH_MAX, place)
    }

    fn claim_below(&mut self, node: Ref, depth_left: usize, place: &dyn std::fmt::Display) -> Option<u64> {
        let offset = offset_of(node);
        if depth_left == 0 {
            self.find(format!("{place} is deeper than any tree"));
            return None;
        }
        if !self.claim(offset, place) {
            return None;
        }
        match self.kind_at(offset) {
            Some(NodeKind::Data) => Some(1),
            Some(NodeKind::DataRefs) => {
                // All are claimed, even if one cannot be.
                let below: Vec<_> = self
                    .named_by(offset)
                    .into_iter()
                    .map(|named| self.claim_below(named, depth_left - 1, place))
                    .collect();
                below.into_iter().sum::<Option<u64>>().map(|nodes| nodes + 1)
            }
            kind => {
                self.find(format!("{place} names node {offset:#x} of kind {kind:?}"));
                None
            }
        }
    }

    /// The kind of a claimed node, if its header makes sense.
    pub fn kind_at(&self, offset: u64) -> Option<NodeKind> {
        let (_, class) = self.segment.class_at(offset)?;
        let node = NodeHeader(self.segment.load(offset));
        node.kind().filter(|_| node.length() as u64 + HEADER_BYTES <= class_bytes(class))
    }

    /// What a node with references names.
    fn named_by(&self, offset: u64) -> Vec<Ref> {
        let node = NodeHeader(self.segment.load(offset));
        let room = (node.length() as u64).saturating_sub(8) / 8;
        let count = self.segment.load(offset + HEADER_BYTES).min(room);
        let named = (0..count).map(|number| Ref(self.segment.load(offset + HEADER_BYTES + 8 + number * 8)));
        named.filter(|named| !named.is_none()).collect()
    }

    /// Checks a lock word: its owner must be alive.
    pub fn lock(&mut self, word: u64, place: &dyn std::fmt::Display) {
        if let Some(owner) = lock::owner(word)
            && !self.lives.get(owner as usize).is_some_and(|life| matches!(life, Life::Held(_)))
        {
            self.find(format!("{place} is locked by seat {owner}, where nobody sits"));
        }
    }

    /// Claims what the seats hold.
    pub fn seats(&mut self) {
        for index in 0..self.lives.len() as u64 {
            let alive = matches!(self.lives[index as usize], Life::Held(_));
            self.counts.seats_alive += alive as u64;
            self.caches(index);
            self.journal(index, alive);
            self.retired(index, alive);
            self.pending(index, alive);
            self.inbox(index);
            self.chain(
                self.seat_word(index, at::OUTBOX_FIRST),
                0,
                &format_args!("the outbox of seat {index}"),
            );
            self.chain(
                self.seat_word(index, at::SNAPSHOT_LOG_FIRST),
                0,
                &format_args!("what seat {index} has saved for a snapshot"),
            );
        }
    }

    /// Claims the blocks of the change log.
    pub fn change_log(&mut self) {
        self.lock(self.segment.observe(layout::log::MERGE_LOCK), &"the change log");
        self.chain(self.segment.load(layout::log::FIRST), 0, &"the change log");
    }

    fn inbox(&mut self, index: u64) {
        self.lock(self.seat_word(index, at::INBOX_LOCK), &format_args!("the inbox of seat {index}"));
        self.chain(self.seat_word(index, at::INBOX_FIRST), 0, &format_args!("the inbox of seat {index}"));
    }

    fn seat_word(&self, index: u64, word: u64) -> u64 {
        self.segment.load(self.segment.seat_at(index) + word)
    }

    fn caches(&mut self, index: u64) {
        for class in 0..CLASSES {
            let count = self.seat_word(index, cache_count(class));
            if count > cache_slots(class) as u64 {
                self.find(format!("seat {index} has {count} nodes in its cache of class {class}"));
                continue;
            }
            for slot in 0..count {
                let node = self.seat_word(index, cache_slot(class, slot));
                if self.claim(node, &format_args!("the cache of seat {index}")) {
                    self.counts.cached += 1;
                    if self.segment.class_at(node).map(|(_, class)| class) != Some(class) {
                        self.find(format!("seat {index} has node {node:#x} in its cache of class {class}"));
                    }
                }
            }
        }
    }

    /// The blocks of a chain, claimed. `home` is the block inside the seat, which is no node.
    fn chain(&mut self, first: u64, home: u64, place: &dyn std::fmt::Display) -> Vec<u64> {
        let mut blocks = Vec::new();
        let mut block = first;
        while block != 0 {
            let known = if block == home { !blocks.contains(&home) } else { self.claim(block, place) };
            if !known {
                break;
            }
            blocks.push(block);
            block = self.segment.load(block + 8);
        }
        blocks
    }

    fn journal(&mut self, index: u64, alive: bool) {
        let len = self.seat_word(index, at::JOURNAL_LEN);
        let status = self.seat_word(index, at::STATUS);
        let first = self.seat_word(index, at::JOURNAL_NEXT);
        if !alive
            && (len != 0
                || status & 3 != at::IDLE
                || first != 0
                || self.seat_word(index, at::MEMORY_STATUS) != at::IDLE)
        {
            self.find(format!("seat {index}, where nobody sits, has a journal of {len} items"));
        }
        let blocks = self.chain(first, 0, &format_args!("the journal of seat {index}"));
        if len > at::JOURNAL_PAIRS + blocks.len() as u64 * BLOCK_PAIRS {
            self.find(format!("seat {index} has a journal of {len} items in {} blocks", blocks.len()));
            return;
        }
        if status & 3 != at::IDLE {
            // Committed: its new nodes are reachable from where its words lead.
            return;
        }
        for item in 0..len {
            let place = match item.checked_sub(at::JOURNAL_PAIRS) {
                None => self.segment.seat_at(index) + at::JOURNAL + item * 16,
                Some(past) => blocks[(past / BLOCK_PAIRS) as usize] + 16 + past % BLOCK_PAIRS * 16,
            };
            if let Some((Tag::New, node)) = item_of(self.segment.load(place))
                && !(alive && self.is_moving(index, node))
            {
                self.claim(node, &format_args!("the journal of seat {index}"));
            }
        }
    }

    /// Whether a node may just be on its way into or out of a living seat's cache: it is the newest there, and in its other place, too.
    fn is_moving(&self, index: u64, node: u64) -> bool {
        self.segment.class_at(node).is_some_and(|(_, class)| {
            let count = self.seat_word(index, cache_count(class));
            (1..=cache_slots(class) as u64).contains(&count)
                && self.seat_word(index, cache_slot(class, count - 1)) == node
        })
    }

    fn retired(&mut self, index: u64, alive: bool) {
        let base = self.segment.seat_at(index);
        let blocks = self.chain(
            self.seat_word(index, at::RETIRED_FIRST),
            base + at::RETIRED,
            &format_args!("the retired list of seat {index}"),
        );
        let (head, tail) = (self.seat_word(index, at::RETIRED_HEAD), self.seat_word(index, at::RETIRED_TAIL));
        let begin = blocks.first().map_or(0, |first| self.segment.load(first + 16));
        if head < begin || tail < head || tail - begin > blocks.len() as u64 * at::RETIRED_INLINE {
            if tail != head {
                self.find(format!(
                    "the retired list of seat {index} goes from {head} to {tail} in {} blocks from {begin}",
                    blocks.len()
                ));
            }
            return;
        }
        let mut bytes = 0;
        for entry in head..tail {
            let past = entry - begin;
            let place = blocks[(past / at::RETIRED_INLINE) as usize] + 24 + past % at::RETIRED_INLINE * 16;
            let what = self.segment.load(place);
            let moves = || {
                self.seat_word(index, at::RECLAIMING) == entry + 2 && self.is_claimed(what & !RETIRED_WHOLE)
            };
            if alive && (self.is_moving(index, what & !RETIRED_WHOLE) || moves()) {
                continue;
            }
            bytes += self.retired_entry(index, what);
        }
        let told = self.seat_word(index, at::RETIRED_BYTES);
        if told != bytes {
            self.find_sum(format!("seat {index} tells of {} retired bytes and has {bytes}", told as i64));
        }
    }

    /// Claims what an entry of a retired list names. Returns the bytes of its own node.
    fn retired_entry(&mut self, index: u64, what: u64) -> u64 {
        let node = what & !RETIRED_WHOLE;
        if what == 0 || !self.claim(node, &format_args!("the retired list of seat {index}")) {
            return 0;
        }
        self.counts.retired += 1;
        if what & RETIRED_WHOLE != 0 && self.kind_at(node).is_some_and(NodeKind::has_refs) {
            for named in self.named_by(node) {
                self.claim_tree(named, &format_args!("what seat {index} has retired"));
            }
        }
        self.segment.class_at(node).map_or(0, |(_, class)| class_bytes(class))
    }

    fn pending(&mut self, index: u64, alive: bool) {
        let pending = self.seat_word(index, at::PENDING);
        let expanding = self.seat_word(index, at::EXPANDING);
        if !alive && (pending != 0 || expanding != 0) {
            self.find(format!("seat {index}, where nobody sits, was moving node {pending:#x} or retiring a tree ({expanding})"));
        }
        if let Some((slab, number)) = self.number_of(pending) {
            // In neither or both of two places: either is right while its owner works.
            self.claimed[(slab * BITMAP_WORDS + number / 64) as usize] |= 1 << (number % 64);
        }
    }

    /// Compares what was claimed with what is out of the slabs. Last of all.
    pub fn slabs(&mut self) {
        self.counts.slabs = self.slabs;
        for slab in 0..self.slabs {
            self.lock(self.segment.observe(self.segment.slab_lock_at(slab)), &format_args!("slab {slab}"));
            self.slab(slab);
        }
        let told = self.segment.sum_over_seats(at::NODE_BYTES);
        if told != self.counts.node_bytes {
            self.find_sum(format!(
                "the seats have taken {} bytes out of the slabs, and {} are out",
                told as i64, self.counts.node_bytes
            ));
        }
    }

    fn slab(&mut self, slab: u64) {
        let state = self.segment.observe(self.segment.slab_state_at(slab));
        let class = slab_class(state);
        if class.is_none() && state != 0 {
            self.find(format!("slab {slab} has the state {state:#x}"));
        }
        let nodes = class.map_or(0, per_slab) as u64;
        let mut taken = 0;
        for word in 0..BITMAP_WORDS {
            let bits = self.segment.load(self.segment.slab_bits_at(slab) + word * 8);
            let claimed = self.claimed[(slab * BITMAP_WORDS + word) as usize];
            taken += bits.count_ones() as u64;
            let mut different = bits ^ claimed;
            while different != 0 {
                let number = word * 64 + different.trailing_zeros() as u64;
                different &= different - 1;
                self.misplaced(slab, number, nodes, class);
            }
        }
        let Some(class) = class else { return };
        self.counts.nodes += taken;
        self.counts.node_bytes += taken * class_bytes(class);
        if slab_free(state) + taken != nodes {
            self.find_sum(format!(
                "slab {slab} tells of {} free nodes and has {}",
                slab_free(state),
                nodes as i64 - taken as i64
            ));
        }
    }

    fn misplaced(&mut self, slab: u64, number: u64, nodes: u64, class: Option<usize>) {
        let Some(class) = class.filter(|_| number < nodes) else {
            return self.find(format!("slab {slab} has bit {number} set, for which it has no node"));
        };
        let offset = self.segment.slab_at(slab) + number * class_bytes(class);
        let free =
            self.segment.load(self.segment.slab_bits_at(slab) + number / 64 * 8) >> (number % 64) & 1 == 0;
        let header = NodeHeader(self.segment.load(offset));
        let what =
            format!("node {offset:#x} ({} bytes, last of kind {:?})", class_bytes(class), header.kind());
        self.find(if free {
            format!("{what} is in use, and free in its slab")
        } else {
            format!("{what} is lost: out of its slab and in no place")
        });
    }
}

impl Segment {
    /// The state of seat `index`.
    fn life(&self, index: u64) -> Life {
        self.liveness(index).life()
    }

    /// Whether no thread but the one in seat `own` is attached, nor has died unrecovered.
    pub fn is_alone(&self, own: u64) -> bool {
        (0..self.seats_high()).all(|index| index == own || self.life(index) == Life::Free)
    }

    /// A number that changes whenever a seat commits or moves nodes; none while one is in the middle of it. Between two equal
    /// ones the memory stood still, as far as a few counters can tell.
    pub fn pulse(&self) -> Option<u64> {
        let mut pulse = self.observe(header::SLABS_READY);
        for index in 0..self.seats_high() {
            let word = |word: u64| self.observe(self.seat_at(index) + word);
            let resting = word(at::JOURNAL_LEN) | word(at::JOURNAL_NEXT) | word(at::STATUS) & 3;
            if resting
                | word(at::RECLAIMING)
                | word(at::MEMORY_STATUS)
                | word(at::PENDING)
                | word(at::EXPANDING)
                != 0
            {
                return None;
            }
            let counts = (0..CLASSES).map(cache_count);
            for value in [
                at::STATUS,
                at::NODE_BYTES,
                at::RETIRED_HEAD,
                at::RETIRED_TAIL,
                at::RETIRED_MOVES,
                at::RETIRED_BYTES,
            ]
            .into_iter()
            .chain(counts)
            .map(word)
            {
                pulse = (pulse ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
            }
        }
        Some(pulse)
    }
}
