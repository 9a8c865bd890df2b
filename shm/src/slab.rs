//! A slab's state word: its class, how many of its nodes are free, and whether it is to be emptied.
use crate::class::CLASSES;

/// The mark in a slab's state word.
pub(crate) const MARK: u64 = 1 << 32;

/// The class that a slab's state word names, if it is a valid one.
#[inline]
pub(crate) fn slab_class(state: u64) -> Option<usize> {
    let class = (state & 0xff) as usize;
    (1..=CLASSES).contains(&class).then(|| class - 1)
}

/// A slab's state word.
pub(crate) const fn slab_state(class: usize, free: u64) -> u64 {
    (class as u64 + 1) | free << 8
}

/// Free nodes that a slab's state word tells.
pub(crate) const fn slab_free(state: u64) -> u64 {
    state >> 8 & 0xffff
}

/// Whether a slab of this state is to be emptied.
#[inline]
pub(crate) fn is_marked(state: u64) -> bool {
    state & MARK != 0
}

/// What a slab's mark adds to its state.
#[inline]
pub(crate) fn mark_of(state: u64) -> u64 {
    state & MARK
}
