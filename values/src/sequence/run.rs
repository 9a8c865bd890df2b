//! A run: elements side by side behind a table of where they end. Packed values and leaves are both runs.
//!
//! ```text
//! OFFSET     SIZE   DESCRIPTION
//! 0          2      count of elements
//! 2          2 n    where each element ends, counted from the first one's beginning; the top bit: a stub (long element)
//! 2 + 2 n    ..     the elements; after them there may be room, in leaves only
//!
//! a stub     8      length of the element (56 bits) | height of its tree (8 bits)
//!            8      its word
//! ```
//! The tree of the n-th stub of a leaf is the leaf's n-th reference. A packed value has no stubs.

use polder_base::{Fault, Ref};
use smallvec::SmallVec;

use super::Element;
use super::size::{LEAF_MAX, NODE_HEAD, refs_size};
use crate::Root;

/// Bytes of a stub.
pub const STUB: usize = 16;
/// Bytes of an element besides its own: its place in the table.
pub const ENTRY: usize = 2;
/// Bytes of a run besides its elements.
pub const HEAD: usize = 2;
/// Marks the end of a stub.
const LONG: u16 = 1 << 15;

pub const DAMAGED: Fault = Fault::Damaged { what: "a run of elements" };

/// Head and table of a run.
pub type Table = SmallVec<[u8; 256]>;

/// A run that is being read, with the references of its node.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    table: &'a [[u8; ENTRY]],
    /// The elements, and the room behind them.
    data: &'a [u8],
    refs: &'a [Ref],
}

impl<'a> Run<'a> {
    /// The run in `bytes` (S5: its table lies inside; each element is checked when it is looked at).
    #[inline]
    pub fn read(bytes: &'a [u8], refs: &'a [Ref]) -> Result<Run<'a>, Fault> {
        // Not `ok_or`, which makes a fault and drops it again each time; so in all that is called for each element.
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Err(DAMAGED) };
        let Some((table, data)) = rest.split_at_checked(u16::from_le_bytes(*head) as usize * ENTRY) else {
            return Err(DAMAGED);
        };
        Ok(Run { table: table.as_chunks().0, data, refs })
    }

    /// Elements in the run.
    #[inline]
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// The references of the node.
    #[inline]
    pub fn refs(&self) -> &'a [Ref] {
        self.refs
    }

    /// The word of the table at `index`.
    #[inline]
    fn entry(&self, index: usize) -> u16 {
        u16::from_le_bytes(self.table[index])
    }

    /// Where the element before `index` ends.
    #[inline]
    pub fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { (self.entry(index - 1) & !LONG) as usize }
    }

    /// Bytes of the run without the room behind it.
    pub fn used(&self) -> usize {
        HEAD + self.table.len() * ENTRY + self.start(self.count())
    }

    /// Bytes that there are for the run, and for what it may become.
    pub fn room(&self) -> usize {
        HEAD + self.table.len() * ENTRY + self.data.len()
    }

    /// Bytes of the elements from `from` up to `upto` as a leaf of their own, its references included.
    pub fn size_of(&self, from: usize, upto: usize) -> usize {
        let refs = self.stubs(upto) - self.stubs(from);
        HEAD + (upto - from) * ENTRY + self.start(upto).saturating_sub(self.start(from)) + refs_size(refs)
    }

    /// As [`Run::size_of`], of all elements.
    pub fn size(&self) -> usize {
        self.size_of(0, self.count())
    }

    /// Whether the element at `index` is a stub.
    #[inline]
    pub fn is_long(&self, index: usize) -> bool {
        self.entry(index) & LONG != 0
    }

    /// The bytes that the run has of the elements from `from` up to `upto`.
    #[inline]
    pub fn slice(&self, from: usize, upto: usize) -> Result<&'a [u8], Fault> {
        match self.data.get(self.start(from)..self.start(upto)) {
            Some(bytes) => Ok(bytes),
            None => Err(DAMAGED),
        }
    }

    /// The elements of a run without long ones; `None` stands for one that is long after all, or
    /// does not lie in the run (S5).
    #[inline]
    pub fn short_ones(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let data = self.data;
        let mut start = 0;
        self.table.iter().map(move |entry| {
            // The mark of a long one makes it end far outside.
            let end = usize::from(u16::from_le_bytes(*entry));
            data.get(std::mem::replace(&mut start, end)..end)
        })
    }

    /// Adds where the elements from `from` up to `upto` end, counted from the beginning of the first of them; none is long.
    pub fn ends(&self, from: usize, upto: usize, ends: &mut SmallVec<[u16; 256]>) {
        let start = self.start(from) as u16;
        ends.extend(
            self.table[from..upto].iter().map(|entry| u16::from_le_bytes(*entry).wrapping_sub(start)),
        );
    }

    /// Where the element at `index` of a leaf begins, in bytes from the node's beginning: for `Nodes::prefetch`.
    pub fn place_of(&self, index: usize) -> usize {
        NODE_HEAD + refs_size(self.refs.len()) + HEAD + self.table.len() * ENTRY + self.start(index)
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
        Ok(Element::Long(Root {
            refs: [tree, Ref::NONE],
            count: length & ((1 << 56) - 1),
            extra: length >> 56,
        }))
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

/// What takes the place of some elements of a run.
#[derive(Clone, Copy)]
pub struct Patch<'p> {
    /// The elements from `at` on, `gone` of them, go.
    pub at: usize,
    pub gone: usize,
    /// The new element in parts (a stub's are its bytes), if there is one.
    pub new: Option<&'p [&'p [u8]]>,
    pub long: bool,
}

impl Patch<'_> {
    fn added(&self) -> usize {
        self.new.is_some() as usize
    }

    #[inline]
    fn length(&self) -> usize {
        self.new.map_or(0, length_of)
    }
}

/// Bytes of an element in parts.
#[inline]
pub fn length_of(parts: &[&[u8]]) -> usize {
    // Mostly there is one.
    if let [whole] = parts { whole.len() } else { parts.iter().map(|part| part.len()).sum() }
}

impl<'a> Run<'a> {
    /// Bytes of the run once it is patched (S5: its parts lie inside, one behind the other).
    #[inline]
    pub fn patched_len(&self, patch: &Patch<'_>) -> Result<usize, Fault> {
        let (count, after) = (self.count(), patch.at + patch.gone);
        let (head, tail, all) = (self.start(patch.at), self.start(after), self.start(count));
        if head > tail || tail > all || all > self.data.len() {
            return Err(DAMAGED);
        }
        Ok(HEAD + (count - patch.gone + patch.added()) * ENTRY + head + (all - tail) + patch.length())
    }

    /// Writes the patched run, which has been checked ([`Run::patched_len`]), to the beginning of `target`.
    #[inline]
    pub fn patch_into(&self, patch: &Patch<'_>, target: &mut [u8]) {
        let (at, after) = (patch.at, patch.at + patch.gone);
        let count = self.count() - patch.gone + patch.added();
        let (begin, tail) = (self.start(at), self.start(after));
        let end = begin + patch.length();
        let (table, mut data) = target.split_at_mut(HEAD + count * ENTRY);
        let (head, table) = table.as_chunks_mut::<ENTRY>().0.split_at_mut(1);
        head[0] = (count as u16).to_le_bytes();
        let (kept, moved) = table.split_at_mut(at);
        kept.copy_from_slice(&self.table[..at]);
        let (own, moved) = moved.split_at_mut(patch.added());
        if let [own] = own {
            *own = (end as u16 | if patch.long { LONG } else { 0 }).to_le_bytes();
        }
        moved.copy_from_slice(&self.table[after..]);
        shift(moved.as_flattened_mut(), (end as u16).wrapping_sub(tail as u16));
        let mut put = |part: &[u8]| {
            let (now, later) = std::mem::take(&mut data).split_at_mut(part.len());
            now.copy_from_slice(part);
            data = later;
        };
        // Mostly it is at an end.
        if begin > 0 {
            put(&self.data[..begin]);
        }
        patch.new.unwrap_or_default().iter().for_each(|part| put(part));
        let kept = &self.data[tail..self.start(self.count())];
        if !kept.is_empty() {
            put(kept);
        }
    }

    /// Bytes of the run once it is patched, which adds an element, and once the element at `from` has gone (S5: as [`Run::patched_len`]).
    pub fn moved_len(&self, patch: &Patch<'_>, from: usize) -> Result<usize, Fault> {
        let (first, last) = if patch.at < from { (patch.at, from + 1) } else { (from, patch.at) };
        let (begin, end, all) = (self.start(from), self.start(from + 1), self.start(self.count()));
        let is_sorted =
            self.start(first) <= begin && begin <= end && end <= self.start(last) && self.start(last) <= all;
        if !is_sorted || all > self.data.len() {
            return Err(DAMAGED);
        }
        Ok(HEAD + self.count() * ENTRY + all - (end - begin) + patch.length())
    }

    /// Writes that, which has been checked ([`Run::moved_len`]), to the beginning of `target`.
    pub fn move_into(&self, patch: &Patch<'_>, from: usize, target: &mut [u8]) {
        let count = self.count();
        let (table, mut data) = target.split_at_mut(HEAD + count * ENTRY);
        let (head, mut table) = table.split_at_mut(HEAD);
        head.copy_from_slice(&(count as u16).to_le_bytes());
        let (mut end, at) = (0usize, patch.at);
        let mut put = |bytes: &[u8]| {
            let (now, later) = std::mem::take(&mut data).split_at_mut(bytes.len());
            now.copy_from_slice(bytes);
            data = later;
            end += bytes.len();
            end
        };
        let ranges =
            if at < from { [0..at, at..from, from + 1..count] } else { [0..from, from + 1..at, at..count] };
        for (number, range) in ranges.into_iter().enumerate() {
            let (start, stop) = (self.start(range.start), self.start(range.end));
            let moved = put(&self.data[start..stop]);
            let (now, later) = std::mem::take(&mut table).split_at_mut(range.len() * ENTRY);
            now.copy_from_slice(self.table[range].as_flattened());
            shift(now, (moved as u16).wrapping_sub(stop as u16));
            table = later;
            if number == usize::from(at > from) {
                let mut end = moved;
                patch.new.unwrap_or_default().iter().for_each(|part| end = put(part));
                let (own, later) = std::mem::take(&mut table).split_at_mut(ENTRY);
                own.copy_from_slice(&(end as u16).to_le_bytes());
                table = later;
            }
        }
    }

    /// The elements from `from` up to `upto` as a run of their own: its head and table, and its data.
    pub fn cut(&self, from: usize, upto: usize) -> Result<(Table, &'a [u8]), Fault> {
        let data = self.slice(from, upto)?;
        let mut table = Table::new();
        table.extend_from_slice(&((upto - from) as u16).to_le_bytes());
        table.extend_from_slice(self.table[from..upto].as_flattened());
        shift(&mut table[HEAD..], 0u16.wrapping_sub(self.start(from) as u16));
        Ok((table, data))
    }
}

/// Moves the ends of a table by `by`; their marks stay. Four of them at a time: an end and `by` have 15 bits each, so nothing is carried
/// from one to the next.
#[inline]
fn shift(table: &mut [u8], by: u16) {
    const EACH: u64 = 0x0001_0001_0001_0001;
    const MARKS: u64 = LONG as u64 * EACH;
    let all = u64::from(by & !LONG) * EACH;
    let moved = |old: u64| ((old & !MARKS) + all) & !MARKS | old & MARKS;
    let (words, rest) = table.as_chunks_mut::<8>();
    for word in words {
        *word = moved(u64::from_le_bytes(*word)).to_le_bytes();
    }
    for entry in rest.as_chunks_mut::<ENTRY>().0 {
        *entry = (moved(u64::from(u16::from_le_bytes(*entry))) as u16).to_le_bytes();
    }
}

fn fill(mut target: &mut [u8], patch: &Patch<'_>) {
    for part in patch.new.unwrap_or_default() {
        let (now, later) = target.split_at_mut(part.len());
        now.copy_from_slice(part);
        target = later;
    }
}

/// Patches the run in `bytes` where it lies. It has been checked ([`Run::patched_len`]), and there is room for what it becomes.
pub fn patch_in_place(bytes: &mut [u8], patch: &Patch<'_>) {
    let Ok(run) = Run::read(bytes, &[]) else { return };
    let (count, at, after) = (run.count(), patch.at, patch.at + patch.gone);
    let (head, gone_upto, all) = (run.start(at), run.start(after), run.start(count));
    let new_count = count - patch.gone + patch.added();
    let (old_data, new_data) = (HEAD + count * ENTRY, HEAD + new_count * ENTRY);
    let end = head + patch.length();
    let by = (end as u16).wrapping_sub(gone_upto as u16);
    let tail = old_data + gone_upto..old_data + all;
    if new_count == count && by == 0 {
        // As long as what was there: nothing moves.
    } else if patch.added() >= patch.gone {
        // Everything moves up, the last first.
        bytes.copy_within(tail, new_data + end);
        bytes.copy_within(old_data..old_data + head, new_data);
        bytes.copy_within(HEAD + after * ENTRY..HEAD + count * ENTRY, HEAD + (at + patch.added()) * ENTRY);
    } else {
        bytes.copy_within(HEAD + after * ENTRY..HEAD + count * ENTRY, HEAD + (at + patch.added()) * ENTRY);
        bytes.copy_within(old_data..old_data + head, new_data);
        bytes.copy_within(tail, new_data + end);
    }
    if by != 0 {
        shift(&mut bytes[HEAD + (at + patch.added()) * ENTRY..new_data], by);
    }
    if patch.new.is_some() {
        bytes[HEAD + at * ENTRY..][..ENTRY]
            .copy_from_slice(&(end as u16 | if patch.long { LONG } else { 0 }).to_le_bytes());
        fill(&mut bytes[new_data + head..], patch);
    }
    bytes[..HEAD].copy_from_slice(&(new_count as u16).to_le_bytes());
}

/// Puts `head` over the first bytes of the last element and `tail` behind it. Returns false, having
/// done nothing, if that is not possible.
pub fn lengthen_in_place(bytes: &mut [u8], head: &[u8], tail: &[&[u8]]) -> bool {
    let Ok(run) = Run::read(bytes, &[]) else { return false };
    let Some(last) = run.count().checked_sub(1) else { return false };
    let (start, end, is_long, data) =
        (run.start(last), run.start(last + 1), run.is_long(last), HEAD + run.count() * ENTRY);
    let length = tail.iter().map(|part| part.len()).sum::<usize>();
    if is_long || start + head.len() > end || data + end + length > bytes.len() {
        return false;
    }
    bytes[data + start..][..head.len()].copy_from_slice(head);
    let mut at = data + end;
    for part in tail {
        bytes[at..][..part.len()].copy_from_slice(part);
        at += part.len();
    }
    bytes[data - ENTRY..data].copy_from_slice(&((end + length) as u16).to_le_bytes());
    true
}

/// A run that is being built from its first element to its last.
pub struct Builder {
    table: Vec<u8>,
    data: Vec<u8>,
}

impl Default for Builder {
    /// With room for most leaves.
    fn default() -> Builder {
        Builder { table: Vec::with_capacity(LEAF_MAX / 8), data: Vec::with_capacity(LEAF_MAX) }
    }
}

impl Builder {
    /// Adds an element, or a stub.
    pub fn push(&mut self, bytes: &[u8], long: bool) {
        self.data.extend_from_slice(bytes);
        let end = self.data.len() as u16 | if long { LONG } else { 0 };
        self.table.extend_from_slice(&end.to_le_bytes());
    }

    /// Adds the elements of a run from `from` up to `upto`, as they are.
    pub fn push_run(&mut self, run: &Run<'_>, from: usize, upto: usize) -> Result<(), Fault> {
        let (base, added) = (self.data.len() as u16, self.table.len());
        self.data.extend_from_slice(run.slice(from, upto)?);
        self.table.extend_from_slice(run.table[from..upto].as_flattened());
        shift(&mut self.table[added..], base.wrapping_sub(run.start(from) as u16));
        Ok(())
    }

    /// Elements so far.
    pub fn count(&self) -> usize {
        self.table.len() / ENTRY
    }

    /// Bytes of the run.
    pub fn len(&self) -> usize {
        HEAD + self.table.len() + self.data.len()
    }

    /// The run.
    pub fn bytes(&self) -> Vec<u8> {
        let (head, table, data) = self.parts();
        [&head[..], table, data].concat()
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
