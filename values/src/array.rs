//! Arrays: strings under indexes of 64 bits with holes between them, and a cursor that says where the next one is inserted.
//!
//! ```text
//! element   bytes of the index (1) | index, big-endian, without leading zeros (0 to 8) | value
//! elements  by their indexes: a tree of them, or packed
//! cursor    the index at which was inserted last: the value (8, big-endian) of the element with the index 2^64 - 1
//! flags     AT_END   the cursor is the greatest index of all, and no element tells it
//!           STORED   an element tells it; with neither of the two there is no cursor
//! ```
//! - **A1** Indexes of values end at [`INDEX_MAX`]. The element behind them all is the cursor's, and counts for no command.
//! - **A2** STORED is set where that element is there, and nowhere else. AT_END needs a value.
//!
//! A log (values that are inserted one behind the other) has AT_END, so each insert is one change at the right edge of the tree.
use std::cmp::Ordering;

use polder_base::{Fault, Ref};
use smallvec::SmallVec;

use crate::part::Part;
use crate::sequence::{self, Element, Rule, Sequence, Tree, slices};
use crate::{Nodes, Root, Value, string};

/// The order of elements: their words are their indexes, and no two have the same.
pub const ITEMS: Rule = Rule { word: word_of, compare: compare_items, packed_sorted: true };

/// The greatest index of a value.
pub const INDEX_MAX: u64 = u64::MAX - 1;

const AT_END: u8 = 1;
const STORED: u8 = 2;

/// The index of the element that tells the cursor.
const CURSOR: u64 = u64::MAX;

/// Bytes of an element's head at most.
const HEAD_MAX: usize = 9;

const DAMAGED: Fault = Fault::Damaged { what: "an element of an array" };

/// The index of an element and the length of its head; `None` when it is cut off.
#[inline]
fn head(bytes: &[u8]) -> Option<(u64, usize)> {
    let (length, rest) = bytes.split_first()?;
    let length = usize::from(*length);
    let mut word = [0; 8];
    word.get_mut(8usize.checked_sub(length)?..)?.copy_from_slice(rest.get(..length)?);
    Some((u64::from_be_bytes(word), 1 + length))
}

fn head_of(index: u64) -> SmallVec<[u8; HEAD_MAX]> {
    let bytes = index.to_be_bytes();
    let from = index.leading_zeros() as usize / 8;
    let mut head = SmallVec::new();
    head.push((8 - from) as u8);
    head.extend_from_slice(&bytes[from..]);
    head
}

fn word_of(element: &[u8]) -> u64 {
    head(element).map_or(0, |(index, _)| index)
}

fn compare_items(one: &[u8], two: &[u8]) -> Ordering {
    word_of(one).cmp(&word_of(two))
}

/// A value and its index.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    pub index: u64,
    pub value: Part<'a>,
}

impl<'a> Item<'a> {
    /// Takes an element apart.
    fn of(nodes: &'a dyn Nodes, element: Element<'a>) -> Result<Item<'a>, Fault> {
        let found = match element {
            Element::Short(bytes) => head(bytes),
            Element::Long(root) => {
                let mut bytes = [0; HEAD_MAX];
                string::read_at(nodes, &Value::Tree(root), 0, &mut bytes)?;
                head(&bytes)
            }
        };
        let (index, start) = found.ok_or(DAMAGED)?;
        let (start, end) = (start as u64, element.len());
        if start > end {
            return Err(DAMAGED);
        }
        Ok(Item { index, value: Part { value: element.value(), start, end } })
    }
}

/// An array, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    elements: Sequence<'a>,
    flags: u8,
}

impl<'a> Array<'a> {
    /// The array that a value holds.
    pub fn of(value: &Value<'a>) -> Array<'a> {
        Array { elements: Sequence::of(value), flags: sequence::flags(value) }
    }

    /// Values.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn count(&self) -> Result<u64, Fault> {
        let stored = u64::from(self.flags & STORED != 0);
        self.elements.count()?.checked_sub(stored).ok_or(DAMAGED)
    }

    /// The greatest index.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn last(&self, nodes: &'a dyn Nodes) -> Result<Option<u64>, Fault> {
        let Some(rank) = self.count()?.checked_sub(1) else { return Ok(None) };
        let element = self.elements.at(nodes, rank)?.ok_or(DAMAGED)?;
        Ok(Some(Item::of(nodes, element)?.index))
    }

    /// The greatest index and one; 0 of an empty array.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn len(&self, nodes: &'a dyn Nodes) -> Result<u64, Fault> {
        Ok(self.last(nodes)?.map_or(0, |last| last.saturating_add(1)))
    }

    /// The index at which was inserted last.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn cursor(&self, nodes: &'a dyn Nodes) -> Result<Option<u64>, Fault> {
        if self.flags & STORED == 0 {
            return if self.flags & AT_END == 0 { Ok(None) } else { self.last(nodes) };
        }
        let element = self.elements.at(nodes, self.count()?)?.ok_or(DAMAGED)?;
        let Item { index, value } = Item::of(nodes, element)?;
        let bytes = value.bytes(nodes)?;
        match bytes.first_chunk() {
            Some(cursor) if index == CURSOR => Ok(Some(u64::from_be_bytes(*cursor))),
            _ => Err(DAMAGED),
        }
    }

    /// The value at an index. O(log n).
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn get(&self, nodes: &'a dyn Nodes, index: u64) -> Result<Option<Part<'a>>, Fault> {
        let mut compare = |element: &[u8]| word_of(element).cmp(&index);
        let Some(element) = self.elements.find(nodes, &ITEMS, index, &mut compare)? else { return Ok(None) };
        Ok(Some(Item::of(nodes, element)?.value))
    }

    /// The number of values with a lower index, and whether the index itself has one.
    fn rank(&self, nodes: &'a dyn Nodes, index: u64) -> Result<(u64, bool), Fault> {
        let mut compare = |element: &[u8]| word_of(element).cmp(&index);
        let place = self.elements.seek(nodes, &ITEMS, index, &mut compare)?;
        Ok((place.rank, place.found.is_some()))
    }

    /// The values from one index up to another, both included, in their order.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn items(&self, nodes: &'a dyn Nodes, low: u64, high: u64) -> Result<Items<'a>, Fault> {
        let from = self.rank(nodes, low)?.0;
        let elements = self.elements.iter(nodes, from).map(move |element| Item::of(nodes, element?));
        Ok(Box::new(elements.take_while(move |item| item.as_ref().map_or(true, |item| item.index <= high))))
    }

    /// Values from one index down to another, both included.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn items_back(&self, nodes: &'a dyn Nodes, low: u64, high: u64) -> Result<Items<'a>, Fault> {
        let Some(from) = self.rank(nodes, high.saturating_add(1))?.0.checked_sub(1) else {
            return Ok(Box::new(std::iter::empty()));
        };
        let elements = self.elements.iter_back(nodes, from).map(move |element| Item::of(nodes, element?));
        Ok(Box::new(elements.take_while(move |item| item.as_ref().map_or(true, |item| item.index >= low))))
    }

    /// The leaves of its tree; one of a packed array.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn leaves(&self, nodes: &'a dyn Nodes) -> Result<u64, Fault> {
        let mut leaves = 0;
        for stretch in self.elements.stretches(nodes, 0, u64::MAX) {
            stretch?;
            leaves += 1;
        }
        Ok(leaves)
    }
}

/// Values with their indexes, one after the other.
pub type Items<'a> = Box<dyn Iterator<Item = Result<Item<'a>, Fault>> + 'a>;

/// An array that is being changed inside one transaction. After an error the transaction must be given up.
pub struct Draft {
    elements: sequence::Draft,
    cursor: Option<u64>,
    /// The cursor that an element tells.
    stored: Option<u64>,
}

impl Draft {
    /// An array without values and without a cursor.
    pub fn empty() -> Draft {
        Draft { elements: sequence::Draft::empty(), cursor: None, stored: None }
    }

    /// A copy of a packed array; a tree is shared until it is written to.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn of(nodes: &dyn Nodes, value: &Value<'_>) -> Result<Draft, Fault> {
        let array = Array::of(value);
        let cursor = array.cursor(nodes)?;
        let stored = cursor.filter(|_| array.flags & STORED != 0);
        Ok(Draft { elements: sequence::Draft::of(&array.elements), cursor, stored })
    }

    /// The array as it is now, but for its cursor.
    pub fn array(&self) -> Array<'_> {
        let flags = if self.stored.is_some() { STORED } else { 0 };
        Array { elements: self.elements.sequence(), flags }
    }

    /// Values.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn count(&self) -> Result<u64, Fault> {
        self.array().count()
    }

    /// The index at which was inserted last.
    pub fn cursor(&self) -> Option<u64> {
        self.cursor
    }

    /// Says where was inserted last.
    pub fn set_cursor(&mut self, cursor: Option<u64>) {
        self.cursor = cursor;
    }

    /// Puts a value at an index of at most [`INDEX_MAX`].
    ///
    /// # Errors
    /// [`Fault::Full`], [`Fault::Damaged`].
    pub fn set(&mut self, nodes: &dyn Nodes, index: u64, value: &[u8]) -> Result<(), Fault> {
        debug_assert!(index <= INDEX_MAX, "A1");
        let (rank, is_there) = self.array().rank(nodes, index)?;
        let parts = [&head_of(index)[..], value];
        if is_there {
            self.elements.replace(nodes, &ITEMS, rank, &parts)
        } else {
            self.elements.insert(nodes, &ITEMS, rank, &parts)
        }
    }

    /// Puts values at indexes one behind the other: behind all others in full leaves.
    ///
    /// # Errors
    /// Those of [`Draft::set`].
    pub fn set_all(&mut self, nodes: &dyn Nodes, first: u64, values: &[&[u8]]) -> Result<(), Fault> {
        let is_behind = self.array().last(nodes)?.is_none_or(|last| last < first);
        if values.len() < 2 || !is_behind {
            return values.iter().zip(first..).try_for_each(|(value, index)| self.set(nodes, index, value));
        }
        self.forget_stored(nodes)?;
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(values.len()));
        for (value, index) in values.iter().zip(first..) {
            bytes.extend_from_slice(&head_of(index));
            bytes.extend_from_slice(value);
            ends.push(bytes.len());
        }
        self.elements.extend(nodes, &ITEMS, &mut slices(&bytes, &ends).into_iter())
    }

    /// Takes the value at an index away. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`Draft::set`].
    pub fn remove(&mut self, nodes: &dyn Nodes, index: u64) -> Result<bool, Fault> {
        let (rank, is_there) = self.array().rank(nodes, index)?;
        if is_there {
            self.elements.remove(nodes, &ITEMS, rank, 1)?;
        }
        Ok(is_there)
    }

    /// Takes the values from one index up to another away, both included. Returns how many there were.
    ///
    /// # Errors
    /// Those of [`Draft::set`].
    pub fn remove_range(&mut self, nodes: &dyn Nodes, low: u64, high: u64) -> Result<u64, Fault> {
        let array = self.array();
        let (from, upto) = (array.rank(nodes, low)?.0, array.rank(nodes, high.saturating_add(1))?.0);
        let gone = upto.min(array.count()?).saturating_sub(from);
        self.elements.remove(nodes, &ITEMS, from, gone)?;
        Ok(gone)
    }

    /// Takes all away, the cursor too: every node is released.
    ///
    /// # Errors
    /// Those of [`Draft::set`].
    pub fn clear(&mut self, nodes: &dyn Nodes) -> Result<(), Fault> {
        let count = self.elements.sequence().count()?;
        self.elements.remove(nodes, &ITEMS, 0, count)?;
        (self.cursor, self.stored) = (None, None);
        Ok(())
    }

    fn forget_stored(&mut self, nodes: &dyn Nodes) -> Result<(), Fault> {
        if self.stored.is_some() {
            let count = self.count()?;
            self.elements.remove(nodes, &ITEMS, count, 1)?;
            self.stored = None;
        }
        Ok(())
    }

    /// The value to publish.
    ///
    /// # Errors
    /// Those of [`Draft::set`].
    pub fn value(&mut self, nodes: &dyn Nodes) -> Result<Value<'_>, Fault> {
        let (count, last) = (self.count()?, self.array().last(nodes)?);
        let told = self.cursor.filter(|_| self.cursor != last);
        if self.stored != told {
            self.forget_stored(nodes)?;
            if let Some(cursor) = told {
                self.elements.insert(nodes, &ITEMS, count, &[&head_of(CURSOR), &cursor.to_be_bytes()])?;
            }
            self.stored = told;
        }
        let flags = match (self.cursor, told) {
            (None, _) => 0,
            (Some(_), None) => AT_END,
            (Some(_), Some(_)) => STORED,
        };
        Ok(self.elements.value(flags, Tree::default()))
    }
}

/// Looks at every node of an array that is a tree, and shows each to `visit`.
///
/// # Errors
/// [`Fault::Damaged`] with the first thing that is wrong.
pub fn check(nodes: &dyn Nodes, root: &Root, visit: &mut dyn FnMut(Ref)) -> Result<(), Fault> {
    let value = Value::Tree(*root);
    let (array, second) = (Array::of(&value), Sequence::second(&value));
    if let Sequence::Tree(tree) = array.elements {
        sequence::check(nodes, &tree, &ITEMS, true, visit)?;
    }
    let all = Array { flags: 0, ..array };
    let ends_in_cursor = all.last(nodes)? == Some(CURSOR);
    let is_told = array.flags & STORED != 0;
    if second != Tree::default() || ends_in_cursor != is_told || array.flags & !(AT_END | STORED) != 0 {
        return Err(Fault::Damaged { what: "the root of an array" });
    }
    array.cursor(nodes).map(drop)
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::collections::BTreeMap;

    use bumpalo::Bump;

    use super::*;
    use crate::testing::Memory;

    fn read(nodes: &Memory<'_>, value: &Value<'_>) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
        let array = Array::of(value);
        let items = array.items(nodes, 0, INDEX_MAX).unwrap();
        let items = items.map(|item| {
            let item = item.unwrap();
            (item.index, item.value.bytes(nodes).unwrap().into_owned())
        });
        (items.collect(), array.cursor(nodes).unwrap())
    }

    fn checked<'d>(nodes: &Memory<'_>, draft: &'d mut Draft) -> Value<'d> {
        let value = draft.value(nodes).unwrap();
        if let Value::Tree(root) = value {
            check(nodes, &root, &mut |_| {}).unwrap();
        }
        value
    }

    #[test]
    fn heads_say_their_indexes() {
        for index in [0, 1, 255, 256, 65_535, 1 << 32, INDEX_MAX, CURSOR] {
            let bytes = head_of(index);
            assert_eq!(head(&bytes), Some((index, bytes.len())));
        }
        assert_eq!((head(b""), head(b"\x02a"), head(b"\x09123456789")), (None, None, None));
    }

    #[test]
    fn values_stand_by_their_indexes_and_holes_stay() {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let mut draft = Draft::empty();
        let (mut model, mut state) = (BTreeMap::new(), 1u64);
        for step in 0..3000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = if step % 7 == 0 { INDEX_MAX - (state >> 60) } else { (state >> 33) % 5000 };
            match state >> 32 & 7 {
                0 => assert_eq!(draft.remove(&nodes, index).unwrap(), model.remove(&index).is_some()),
                1 => {
                    let high = index.saturating_add(40).min(INDEX_MAX);
                    let gone: Vec<u64> = model.range(index..=high).map(|(index, _)| *index).collect();
                    gone.iter().for_each(|index| drop(model.remove(index)));
                    assert_eq!(draft.remove_range(&nodes, index, high).unwrap(), gone.len() as u64);
                }
                2 => draft.set_cursor(Some(index).filter(|_| step % 3 > 0)),
                _ => {
                    let value = vec![b'x'; (state >> 40) as usize % if step % 50 == 0 { 9000 } else { 30 }];
                    draft.set(&nodes, index, &value).unwrap();
                    model.insert(index, value);
                }
            }
            if step % 100 == 0 {
                let cursor = draft.cursor();
                let (items, told) = read(&nodes, &checked(&nodes, &mut draft));
                assert!(items.iter().map(|(index, value)| (index, value)).eq(&model));
                assert_eq!(told, cursor);
                let array = draft.array();
                assert_eq!(array.count().unwrap(), model.len() as u64);
                assert_eq!(array.last(&nodes).unwrap(), model.keys().last().copied());
                let back = array.items_back(&nodes, 1000, 4000).unwrap().map(|item| item.unwrap().index);
                assert!(back.eq(model.range(1000..=4000).rev().map(|(index, _)| *index)));
            }
        }
    }

    #[test]
    fn a_log_keeps_no_element_for_its_cursor() {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let mut draft = Draft::empty();
        let values = vec![&b"value"[..]; 1000];
        draft.set_all(&nodes, 0, &values).unwrap();
        draft.set_cursor(Some(999));
        let value = checked(&nodes, &mut draft);
        assert_eq!((sequence::flags(&value), Sequence::of(&value).count().unwrap()), (AT_END, 1000));
        assert_eq!(Array::of(&value).cursor(&nodes).unwrap(), Some(999));
        draft.set_cursor(Some(3));
        let value = checked(&nodes, &mut draft);
        assert_eq!((sequence::flags(&value), Array::of(&value).count().unwrap()), (STORED, 1000));
        draft.set_all(&nodes, 1000, &values).unwrap();
        draft.set_cursor(Some(1999));
        let (items, cursor) = read(&nodes, &checked(&nodes, &mut draft));
        assert_eq!((items.len(), cursor), (2000, Some(1999)));
        draft.clear(&nodes).unwrap();
        assert_eq!(draft.count().unwrap(), 0);
    }
}
