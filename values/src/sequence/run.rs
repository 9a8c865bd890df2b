//! A run: elements side by side behind a table of where they end. Packed values and leaves are both runs.
//!
//! ```text
//! OFFSET     SIZE   DESCRIPTION
//! 0          2      count of elements
//! 2          2 n    where each element ends, counted from the first one's beginning; the top bit: a stub (long element)
//! 2 + 2 n    ..     the elements; after them there may be room (zeros), in leaves only
//!
//! a stub     8      length of the element (56 bits) | height of its tree (8 bits)
//!            8      its word
//! ```
//! The tree of the n-th stub of a leaf is the leaf's n-th reference. A packed value has no stubs.

use polder_base::{Fault, Ref};

use super::Element;
use crate::Root;

/// Bytes of a stub.
pub const STUB: usize = 16;
/// Bytes of an element besides its own: its place in the table.
pub const ENTRY: usize = 2;
/// Bytes of a run besides its elements.
pub const HEAD: usize = 2;
/// Marks the end of a stub.
const LONG: u16 = 1 << 15;

const DAMAGED: Fault = Fault::Damaged { what: "a run of elements" };

/// A run that is being read, with the references of its node.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    bytes: &'a [u8],
    refs: &'a [Ref],
    count: usize,
}

impl<'a> Run<'a> {
    /// The run in `bytes` (S5: its table lies inside; each element is checked when it is looked at).
    #[inline]
    pub fn read(bytes: &'a [u8], refs: &'a [Ref]) -> Result<Run<'a>, Fault> {
        let count = u16::from_le_bytes(*bytes.first_chunk().ok_or(DAMAGED)?) as usize;
        if HEAD + count * ENTRY > bytes.len() {
            return Err(DAMAGED);
        }
        Ok(Run { bytes, refs, count })
    }

    /// Elements in the run.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The references of the node.
    pub fn refs(&self) -> &'a [Ref] {
        self.refs
    }

    /// The word of the table at `index`.
    #[inline]
    fn entry(&self, index: usize) -> u16 {
        let at = HEAD + index * ENTRY;
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Where the element before `index` ends.
    #[inline]
    pub fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { (self.entry(index - 1) & !LONG) as usize }
    }

    /// Bytes of the run without the room behind it.
    pub fn used(&self) -> usize {
        HEAD + self.count * ENTRY + self.start(self.count)
    }

    /// Whether the element at `index` is a stub.
    pub fn is_long(&self, index: usize) -> bool {
        self.entry(index) & LONG != 0
    }

    /// The bytes that the run has of the elements from `from` up to `upto`.
    #[inline]
    pub fn slice(&self, from: usize, upto: usize) -> Result<&'a [u8], Fault> {
        let data = &self.bytes[HEAD + self.count * ENTRY..];
        data.get(self.start(from)..self.start(upto)).ok_or(DAMAGED)
    }

    /// Stubs among the first `index` elements.
    pub fn stubs(&self, index: usize) -> usize {
        if self.refs.is_empty() { 0 } else { (0..index).filter(|at| self.is_long(*at)).count() }
    }

    /// The element at `index`, which is below the count.
    #[inline]
    pub fn at(&self, index: usize) -> Result<Element<'a>, Fault> {
        let bytes = self.slice(index, index + 1)?;
        if !self.is_long(index) {
            return Ok(Element::Short(bytes));
        }
        let (length, _) = stub_of(bytes)?;
        let tree = *self.refs.get(self.stubs(index)).ok_or(DAMAGED)?;
        Ok(Element::Long(Root { refs: [tree, Ref::NONE], count: length & ((1 << 56) - 1), extra: length >> 56 }))
    }

    /// The word that the stub at `index` keeps of its element.
    pub fn stub_word(&self, index: usize) -> Result<u64, Fault> {
        Ok(stub_of(self.slice(index, index + 1)?)?.1)
    }
}

fn stub_of(bytes: &[u8]) -> Result<(u64, u64), Fault> {
    let bytes: &[u8; STUB] = bytes.try_into().map_err(|_| DAMAGED)?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
    Ok((word(0), word(8)))
}

/// The stub of a long element.
pub fn stub(root: &Root, word: u64) -> [u8; STUB] {
    let mut bytes = [0; STUB];
    bytes[..8].copy_from_slice(&(root.count | root.extra << 56).to_le_bytes());
    bytes[8..].copy_from_slice(&word.to_le_bytes());
    bytes
}

/// Adds to `target` a run with one new element (its parts, and whether it is a stub), or none, in the place of `gone` ones from `at` on.
pub fn splice(old: &Run<'_>, at: usize, gone: usize, new: Option<(&[&[u8]], bool)>, target: &mut Vec<u8>) -> Result<(), Fault> {
    let added = new.is_some() as usize;
    let length: usize = new.map_or(0, |(parts, _)| parts.iter().map(|part| part.len()).sum());
    let (before, after) = (old.slice(0, at)?, old.slice(at + gone, old.count)?);
    target.extend_from_slice(&((old.count - gone + added) as u16).to_le_bytes());
    target.extend_from_slice(&old.bytes[HEAD..HEAD + at * ENTRY]);
    if let Some((_, long)) = new {
        let end = (before.len() + length) as u16 | if long { LONG } else { 0 };
        target.extend_from_slice(&end.to_le_bytes());
    }
    // What comes after moves by as much as the run grows; the marks in the top bits stay out of it.
    let shift = (before.len() + length).wrapping_sub(old.start(at + gone)) as u16;
    for index in at + gone..old.count {
        let entry = old.entry(index);
        target.extend_from_slice(&(((entry & !LONG).wrapping_add(shift) & !LONG) | entry & LONG).to_le_bytes());
    }
    target.extend_from_slice(before);
    for part in new.map_or(&[][..], |(parts, _)| parts) {
        target.extend_from_slice(part);
    }
    target.extend_from_slice(after);
    Ok(())
}

/// A run that is being built from its first element to its last.
#[derive(Default)]
pub struct Builder {
    table: Vec<u8>,
    data: Vec<u8>,
}

impl Builder {
    /// Adds an element, or a stub.
    pub fn push(&mut self, bytes: &[u8], long: bool) {
        self.data.extend_from_slice(bytes);
        let end = self.data.len() as u16 | if long { LONG } else { 0 };
        self.table.extend_from_slice(&end.to_le_bytes());
    }

    /// Elements so far.
    pub fn count(&self) -> usize {
        self.table.len() / ENTRY
    }

    /// Bytes of the run.
    pub fn len(&self) -> usize {
        HEAD + self.table.len() + self.data.len()
    }

    /// The run, in pieces.
    pub fn parts(&self) -> ([u8; 2], &[u8], &[u8]) {
        ((self.count() as u16).to_le_bytes(), &self.table, &self.data)
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.table.clear();
        self.data.clear();
    }
}
