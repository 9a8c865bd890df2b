//! An attached segment: bounds-checked words, geometry, and what every process shares of it.
//!
//! Words are reached as atomics only. An offset that comes from the segment itself goes through [`Segment::check`]
//! first (S5); offsets computed from the geometry need no check.
//!
//! Never here: what the words mean. Never anywhere: an address stored in the segment.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use polder_base::Ref;

use crate::class::{SIZES, SLAB_BYTES, begins_at};
use crate::crash;
use crate::fork::Shelter;
use crate::layout::{self, Geometry, header, seat};
use crate::mapping::Mapping;
use crate::slab::slab_class;
use crate::sync::{Half, Word};

/// The bytes of a node for which [`RawView::node`] checks that they lie in backed memory. A slab is larger, and there are several.
pub const ANY_NODE: u64 = 8 << 10;
const _: () = assert!(ANY_NODE < SLAB_BYTES);

/// An attached segment. Shared by all threads of the process.
pub struct Segment {
    map: Mapping,
    base: *mut u8,
    geometry: Geometry,
    /// The granule in which the first slab begins.
    first: u64,
    /// Bytes of slabs that are known to be backed by memory: behind them nothing may be touched (M1, S5). More may be by now.
    backed: AtomicU64,
    /// Of them, in how many granules a node of [`ANY_NODE`] bytes may begin.
    reach: AtomicU64,
    /// The process that attached it, as [`fork::generation`](crate::fork::generation) counts.
    pub(crate) generation: u64,
    /// Tells attachments of this process apart, also when the same segment is attached twice.
    id: u64,
    /// The other ends of the FIFOs of seats that this process has written into, by seat.
    pub(crate) fifos: Shelter<HashMap<u64, OwnedFd>>,
    /// The seat at which this process looks next for what the gone have left.
    pub(crate) gone_next: AtomicU64,
    /// The seat, plus one, whose recovery last panicked in this process: no thread of it sits down there.
    pub(crate) avoided: AtomicU64,
}

// SAFETY: all access to the mapping is through atomics or, for unpublished nodes, by their one owner (S1, S2).
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Takes a mapping whose header has been checked or just been written.
    pub(crate) fn over(map: Mapping, geometry: Geometry) -> Segment {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let base = map.base();
        map.ahead().begin_at(geometry.slabs_at);
        Segment {
            map,
            base,
            geometry,
            first: geometry.slabs_at >> 3,
            backed: AtomicU64::new(0),
            reach: AtomicU64::new(0),
            generation: crate::fork::generation(),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            fifos: Shelter::default(),
            gone_next: AtomicU64::new(0),
            avoided: AtomicU64::new(0),
        }
    }

    /// Tells attachments of this process apart.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The places that depend on the ceiling.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The mapping, for floors that ask about pages and names.
    pub fn mapping(&self) -> &Mapping {
        &self.map
    }

    /// The word at `offset`.
    #[inline(always)]
    pub fn word(&self, offset: u64) -> &Word {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.geometry.ceiling, "word at {offset:#x}");
        // SAFETY: S5, the offset is computed from the geometry or has been checked; it is aligned and inside the mapping,
        // which lives as long as the segment.
        unsafe { &*(self.base.add(offset as usize) as *const Word) }
    }

    /// The low half of a word, on which threads sleep: the futex calls alone read it as a half.
    pub(crate) fn low_half(&self, offset: u64) -> &Half {
        const { assert!(cfg!(target_endian = "little"), "the low half comes first") };
        // SAFETY: a word is two aligned halves, and the calls read this one atomically.
        unsafe { &*std::ptr::from_ref(self.word(offset)).cast() }
    }

    /// Reads a word without ordering.
    #[inline(always)]
    pub fn load(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// Reads a word and sees everything written before it was [`Segment::publish`]ed.
    #[inline(always)]
    pub fn observe(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Writes a word without ordering: to the own seat, an unpublished node, or under a lock (S2).
    #[inline(always)]
    pub fn store(&self, offset: u64, value: u64) {
        crash::point();
        self.word(offset).store(value, Ordering::Relaxed);
    }

    /// Writes a word after everything written before.
    #[inline(always)]
    pub fn publish(&self, offset: u64, value: u64) {
        crash::point();
        self.word(offset).store(value, Ordering::Release);
    }

    /// Swaps a shared word if it is `expected`, and returns what was there.
    #[inline(always)]
    pub fn exchange(&self, offset: u64, expected: u64, value: u64) -> Result<u64, u64> {
        crash::point();
        self.word(offset).compare_exchange(expected, value, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Lowers a designated word (S2) to `value` if it is greater.
    #[inline]
    pub fn lower(&self, offset: u64, value: u64) {
        if self.load(offset) > value {
            crash::point();
            self.word(offset).fetch_min(value, Ordering::AcqRel);
        }
    }

    /// Whether `length` bytes at a stored `offset` lie among the nodes, in memory that is there, aligned to a word (S5).
    #[inline(always)]
    pub fn check(&self, offset: u64, length: u64) -> bool {
        offset.is_multiple_of(8) && self.has_node(offset, length)
    }

    /// [`Segment::check`] for what a reference names, which is aligned by nature.
    #[inline(always)]
    pub fn has_node(&self, offset: u64, length: u64) -> bool {
        let inside = offset.wrapping_sub(self.geometry.slabs_at);
        let ends_in = |backed: u64| inside < backed && length <= backed - inside;
        ends_in(self.backed.load(Ordering::Relaxed)) || ends_in(self.look_what_is_backed(inside))
    }

    /// Others may have had more slabs backed.
    #[cold]
    #[inline(never)]
    fn look_what_is_backed(&self, inside: u64) -> u64 {
        // Rarely reached: the offset is nonsense, or it lies in memory that was backed after this process last looked.
        if inside >= self.geometry.slabs_max * SLAB_BYTES {
            return 0;
        }
        let backed = self.slabs_ready() * SLAB_BYTES;
        // Two threads that look at the same time may leave the smaller number: then a later call looks again.
        self.backed.store(backed, Ordering::Relaxed);
        self.reach.store(backed.saturating_sub(ANY_NODE) >> 3, Ordering::Relaxed);
        backed
    }

    /// A small view of the mapping for the fast paths.
    #[inline(always)]
    pub fn raw_view(&self) -> RawView<'_> {
        RawView {
            base: self.base,
            first: self.first,
            reach: self.reach.load(Ordering::Relaxed),
            segment: PhantomData,
        }
    }

    /// The address of `length` bytes at a checked offset.
    #[inline(always)]
    pub fn address(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < self.geometry.ceiling);
        // SAFETY: S5, checked offsets lie inside the mapping.
        unsafe { self.base.add(offset as usize) }
    }

    /// Prefetches the cache line at `offset`. A wrong offset does no harm.
    #[inline(always)]
    pub fn prefetch(&self, offset: u64) {
        self.prefetch_lines(offset, 1);
    }

    /// Prefetches this many cache lines, from the one at `offset` on. A wrong offset does no harm.
    #[inline(always)]
    pub fn prefetch_lines(&self, offset: u64, lines: u64) {
        if offset >= self.geometry.ceiling || lines > (self.geometry.ceiling - offset).div_ceil(64) {
            return;
        }
        let (raw, fours, ones) = (self.raw_view(), lines / 4, lines % 4);
        (0..fours).for_each(|four| (0..4).for_each(|line| raw.fetch(offset + (four * 4 + line) * 64)));
        (0..ones).for_each(|line| raw.fetch(offset + (fours * 4 + line) * 64));
    }

    /// As [`RawView::prefetch_to_write`]. A wrong offset does no harm.
    #[inline(always)]
    pub fn prefetch_to_write(&self, offset: u64) {
        if offset < self.geometry.ceiling {
            self.raw_view().prefetch_to_write(offset);
        }
    }

    /// The random secret of the hash.
    pub fn secret(&self) -> &[u8; header::SECRET_BYTES] {
        // SAFETY: S1, the secret is written before the segment has a name and never again.
        unsafe { &*(self.address(header::SECRET) as *const [u8; header::SECRET_BYTES]) }
    }

    /// The slab that holds `offset`, and the class of its nodes, if it is a node's offset.
    #[inline]
    pub fn class_at(&self, offset: u64) -> Option<(u64, usize)> {
        // One comparison for both ends: what lies before the slabs wraps, and all slabs lie in the segment.
        let inside = offset.wrapping_sub(self.geometry.slabs_at);
        let slab = inside / SLAB_BYTES;
        let is_backed =
            || inside < self.backed.load(Ordering::Relaxed) || inside < self.look_what_is_backed(inside);
        if slab >= self.geometry.slabs_max || !offset.is_multiple_of(8) || !is_backed() {
            return None;
        }
        let class = slab_class(self.load(self.slab_state_at(slab)))?;
        // The whole node, wherever it is said to begin.
        (inside % SLAB_BYTES + class_bytes(class) <= SLAB_BYTES).then_some((slab, class))
    }

    /// The class of the node that begins exactly at `offset`, if one can.
    #[inline]
    pub(crate) fn node_class(&self, offset: u64) -> Option<usize> {
        let (slab, class) = self.class_at(offset)?;
        begins_at(class, offset - self.slab_at(slab)).then_some(class)
    }

    /// Slabs backed by memory.
    pub fn slabs_ready(&self) -> u64 {
        self.observe(header::SLABS_READY).min(self.geometry.slabs_max)
    }

    /// Where the lock of `slab` lies; its state follows.
    #[inline]
    pub fn slab_lock_at(&self, slab: u64) -> u64 {
        self.geometry.slab_words_at + slab * 16
    }

    /// Whether the lock of a slab lies there.
    pub(crate) fn is_slab_lock(&self, at: u64) -> bool {
        (self.geometry.slab_words_at..self.geometry.slab_bits_at).contains(&at) && at.is_multiple_of(16)
    }

    /// Where the state of `slab` lies: class + 1 (low byte, 0 = free slab) and count of free nodes.
    #[inline]
    pub fn slab_state_at(&self, slab: u64) -> u64 {
        self.slab_lock_at(slab) + 8
    }

    /// Where the bitmap of `slab` lies.
    #[inline]
    pub fn slab_bits_at(&self, slab: u64) -> u64 {
        self.geometry.slab_bits_at + slab * layout::BITMAP_BYTES
    }

    /// Where `slab` begins.
    #[inline]
    pub fn slab_at(&self, slab: u64) -> u64 {
        self.geometry.slabs_at + slab * SLAB_BYTES
    }

    /// Where seat `index` begins.
    #[inline]
    pub fn seat_at(&self, index: u64) -> u64 {
        self.geometry.seat_at(index)
    }

    /// Seats that have ever been used.
    pub fn seats_high(&self) -> u64 {
        self.observe(header::SEATS_HIGH).min(layout::SEATS_MAX)
    }

    /// The sum of one word over all seats that were ever used (counters survive their seats).
    pub fn sum_over_seats(&self, word: u64) -> u64 {
        (0..self.seats_high())
            .fold(0u64, |sum, index| sum.wrapping_add(self.load(self.seat_at(index) + word)))
    }

    /// Whether `remove` has been called on this segment.
    pub fn removed(&self) -> bool {
        self.load(header::REMOVED) != 0
    }

    /// Bytes that the operating system has given: fixed parts, used seats, slabs and their bookkeeping.
    pub fn committed_bytes(&self) -> u64 {
        self.fixed_bytes() + layout::slab_bytes(self.slabs_ready())
    }

    /// Bytes of headers, roots and used seats.
    pub fn fixed_bytes(&self) -> u64 {
        layout::SEATS_AT + self.seats_high() * seat::BYTES
    }

    /// Bytes that are not free for reuse: fixed parts, bookkeeping of slabs that are in use, and every node taken out of a slab.
    pub fn used_bytes(&self) -> u64 {
        layout::used(self.fixed_bytes(), self.sum_over_seats(seat::NODE_BYTES))
    }

    /// Bytes that nodes could still take.
    pub(crate) fn free_bytes(&self) -> u64 {
        (self.geometry.slabs_max * SLAB_BYTES).saturating_sub(self.sum_over_seats(seat::NODE_BYTES))
    }

    /// Whether less than an eighth of the room for nodes is left.
    pub fn is_nearly_full(&self) -> bool {
        self.sum_over_seats(seat::NODE_BYTES) > self.geometry.slabs_max * SLAB_BYTES / 8 * 7
    }

    /// An ordering point of the writer's half of a seqlock: what follows is not seen before what precedes.
    #[inline(always)]
    pub fn release_fence(&self) {
        fence(Ordering::Release);
    }

    /// The reader's half: what was read before is older than what is read after.
    #[inline(always)]
    pub fn acquire_fence(&self) {
        fence(Ordering::Acquire);
    }
}

/// A segment's words, for ways of some hundred instructions: after each acquire, the compiler would read the fields of a [`Segment`] again,
/// and this it keeps in registers.
#[derive(Clone, Copy)]
pub struct RawView<'s> {
    base: *mut u8,
    /// The first node that there can be, and in how many granules of references behind it one of [`ANY_NODE`] bytes may begin.
    first: u64,
    reach: u64,
    segment: PhantomData<&'s Segment>,
}

impl RawView<'_> {
    /// Brings the cache line at an offset in a node, and the next one, near.
    #[inline(always)]
    pub fn prefetch_two_lines(&self, offset: u64) {
        self.fetch(offset);
        self.fetch(offset + 64);
    }

    #[inline(always)]
    fn fetch(&self, offset: u64) {
        // Of two lines the second may lie just behind the mapping.
        let address = self.base.wrapping_add(offset as usize);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch has no effect on memory, and no address is wrong for it.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address as *const i8);
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
        }
    }

    /// The same of a line that is going to be written, so that it comes from another core's cache once: not first to be read, and then again
    /// to be owned.
    #[inline(always)]
    pub fn prefetch_to_write(&self, offset: u64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above. Processors that do not know the instruction do nothing.
        unsafe {
            std::arch::asm!("prefetchw [{0}]", in(reg) self.address(offset), options(nostack, preserves_flags));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) self.address(offset), options(nostack, preserves_flags));
        }
    }

    /// Where the node that a reference names lies, if it can be one of up to [`ANY_NODE`] bytes (S5); one at the very end may be refused.
    #[inline(always)]
    pub fn node(&self, node: Ref) -> Option<u64> {
        (node.0.wrapping_sub(self.first) < self.reach).then_some(node.0 << 3)
    }

    /// As [`Segment::address`].
    #[inline(always)]
    pub fn address(&self, offset: u64) -> *mut u8 {
        // SAFETY: S5, as there.
        unsafe { self.base.add(offset as usize) }
    }

    /// The same, of bytes that are about to be read in one piece while other threads may write them.
    #[inline(always)]
    pub fn racy_address(&self, offset: u64) -> *const u8 {
        crate::sync::step();
        self.address(offset)
    }

    #[inline(always)]
    fn word(&self, offset: u64) -> &Word {
        debug_assert!(offset.is_multiple_of(8));
        // SAFETY: S5, as in `Segment::word`; a view does not outlive its segment.
        unsafe { &*(self.address(offset) as *const Word) }
    }

    /// As [`Segment::load`].
    #[inline(always)]
    pub fn load(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// As [`Segment::observe`].
    #[inline(always)]
    pub fn observe(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }
}

/// Bytes of a node of `class`.
#[inline(always)]
pub fn class_bytes(class: usize) -> u64 {
    SIZES[class] as u64
}

/// The byte offset that a reference names.
#[inline(always)]
pub fn offset_of(node: Ref) -> u64 {
    (node.0 & REF_MASK) << 3
}

/// The reference that names a byte offset.
#[inline(always)]
pub fn ref_to(offset: u64) -> Ref {
    Ref(offset >> 3)
}

/// The 40 bits of a reference.
pub const REF_MASK: u64 = (1 << 40) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SegmentName, SegmentOptions};

    #[test]
    fn what_no_memory_is_behind_is_no_node() {
        let name: SegmentName =
            format!("shm:polder-test-backed-{}", std::process::id()).parse().expect("a name");
        let segment =
            Segment::create(&name, &SegmentOptions { ceiling: 256 << 20, ..SegmentOptions::default() })
                .expect("a segment");
        let is_node = |offset: u64| {
            let answer = segment.has_node(offset, 64);
            assert_eq!(segment.check(offset, 64), answer);
            // The view may refuse more, and must not accept more.
            assert!(answer || segment.raw_view().node(ref_to(offset)).is_none(), "{offset:#x}");
            answer
        };
        for _ in 0..3 {
            segment.grow().expect("there is room");
            let end = segment.slab_at(segment.slabs_ready());
            assert!(
                is_node(segment.slab_at(0))
                    && is_node(end - 64)
                    && segment.raw_view().node(ref_to(end - ANY_NODE - 64)).is_some()
            );
            assert!(
                !segment.has_node(end - 64, 72)
                    && !segment.check(end - 60, 8)
                    && !segment.has_node(end - SLAB_BYTES, SLAB_BYTES + 8)
            );
            assert!(
                !is_node(end) && !is_node(segment.slab_at(0) - 64) && !is_node(segment.geometry.ceiling - 64)
            );
            assert!(!is_node(0) && !is_node(!63) && !is_node(!7));
        }
        Segment::remove(&name).expect("it is there");
    }
}
