//! An item of a journal: two words, the first of which says by its tag what the item means ([`crate::journal`] has the table).
use crate::class::NODE_MAX;

/// An item's meaning; see the module's table. The numbers are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Tag {
    Lock = 1,
    New = 2,
    Cover = 3,
    Word = 4,
    Old = 5,
}

/// In a LOCK item's second word: the release adds a version.
pub const CHANGED: u64 = 1;
/// In a LOCK item's second word: the release marks the word dead.
pub const DEATH: u64 = 2;
/// In a LOCK item's second word: it is an inbox's, whose owner is to be woken.
pub const WAKE: u64 = 4;
/// In an OLD item's second word: everything that the node names goes too.
pub const WHOLE: u64 = 1;

/// Items in a journal block past the inline one; its first words are the node's header and the next block.
pub const BLOCK_PAIRS: u64 = (NODE_MAX as u64 - 16) / 16;

impl Tag {
    /// Bits of an item's first word that are its offset; the tag is above.
    pub(crate) const OFFSET_BITS: u32 = 56;

    /// The bits of an item's first word that are its offset.
    pub(crate) const OFFSET_MASK: u64 = (1 << Tag::OFFSET_BITS) - 1;

    /// An item's first word.
    #[inline(always)]
    pub(crate) const fn stored(self, offset: u64) -> u64 {
        (self as u64) << Tag::OFFSET_BITS | offset
    }
}

/// Takes an item's first word apart; `None` for one that no writer made (S5).
#[inline(always)]
pub fn item_of(word: u64) -> Option<(Tag, u64)> {
    let tag = match word >> Tag::OFFSET_BITS {
        1 => Tag::Lock,
        2 => Tag::New,
        3 => Tag::Cover,
        4 => Tag::Word,
        5 => Tag::Old,
        _ => return None,
    };
    Some((tag, word & Tag::OFFSET_MASK))
}
