//! Lists: sequences whose elements stand where they were put.
//!
//! ```text
//!   flags   bit 0: large, what Redis calls a quicklist
//!   second  of a small list that is a tree: no nodes, and as its count the bytes that Redis's listpack would take
//! ```
//! How a list is laid out here has nothing to do with what Redis calls it. But programs look at that name, so it is kept as Redis
//! would have it: a list is small until a push goes past `list-max-listpack-size`, and small again when it has shrunk to half of that.
use polder_base::{Fault, Ref, number};

use crate::sequence::{self, BY_POSITION, Edit, Element, Packed, Sequence, Tree};
use crate::{Nodes, Root, Value};

/// In the flags of a list that Redis would keep as a quicklist.
const LARGE: u8 = 1;

/// Bytes of an empty listpack.
const LISTPACK_BYTES: u64 = 7;
/// More bytes than this are too many whatever a limit by number says.
const SAFE_BYTES: u64 = 8192;

/// The list of a value.
pub fn sequence<'a>(value: &Value<'a>) -> Sequence<'a> {
    Sequence::of(value)
}

/// Whether Redis would keep this list as a quicklist.
pub fn is_large(value: &Value<'_>) -> bool {
    sequence::flags(value) & LARGE != 0
}

/// What `list-max-listpack-size` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Bytes(u64),
    Count(u64),
}

impl Limit {
    /// The limit of a setting: a number of elements, or with a minus sign one of five sizes.
    pub fn of(setting: i64) -> Limit {
        match setting {
            0 => Limit::Count(1),
            1.. => Limit::Count(setting as u64),
            _ => Limit::Bytes([4096, 8192, 16384, 32768, 65536][(-setting - 1).min(4) as usize]),
        }
    }

    fn is_exceeded(self, bytes: u64, count: u64) -> bool {
        match self {
            Limit::Bytes(most) => bytes > most,
            Limit::Count(most) => bytes > SAFE_BYTES || count > most,
        }
    }

    /// Whether a large list that has shrunk stays large.
    fn is_exceeded_by_half(self, bytes: u64, count: u64) -> bool {
        match self {
            Limit::Bytes(most) => bytes > most / 2,
            Limit::Count(most) => count > most / 2,
        }
    }
}

/// Bytes of an element in a listpack.
pub fn listpack_bytes(length: u64, short: Option<&[u8]>) -> u64 {
    let body = match short.and_then(number::integer) {
        Some(0..=127) => 1,
        Some(-4096..=4095) => 2,
        Some(-32768..=32767) => 3,
        Some(-8_388_608..=8_388_607) => 4,
        Some(-2_147_483_648..=2_147_483_647) => 5,
        Some(_) => 9,
        None => match length {
            ..64 => 1 + length,
            64..4096 => 2 + length,
            _ => 5 + length,
        },
    };
    body + match body {
        ..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

fn element_bytes(element: &Element<'_>) -> u64 {
    match element {
        Element::Short(bytes) => listpack_bytes(bytes.len() as u64, Some(bytes)),
        Element::Long(root) => listpack_bytes(root.count, None),
    }
}

/// Whether an element is these bytes.
///
/// # Errors
/// [`Fault::Damaged`] when its tree is not one.
pub fn is(nodes: &dyn Nodes, element: &Element<'_>, bytes: &[u8]) -> Result<bool, Fault> {
    match element {
        Element::Short(own) => Ok(*own == bytes),
        Element::Long(root) if root.count != bytes.len() as u64 => Ok(false),
        Element::Long(root) => {
            let mut rest = bytes;
            for piece in crate::string::pieces(nodes, Value::Tree(*root), 0, root.count) {
                let piece = piece?;
                let (now, later) = rest.split_at(piece.len());
                if now != piece.bytes() {
                    return Ok(false);
                }
                rest = later;
            }
            Ok(true)
        }
    }
}

/// A list that is being changed inside one transaction: see [`sequence::Draft`].
pub struct Draft {
    inner: sequence::Draft,
    large: bool,
    /// Of a small list, once they have been counted: kept right from then on.
    bytes: Option<u64>,
}

impl Draft {
    /// The empty list.
    pub fn empty() -> Draft {
        Draft { inner: sequence::Draft::empty(), large: false, bytes: Some(LISTPACK_BYTES) }
    }

    /// A draft of the list that a value is.
    pub fn of(value: &Value<'_>) -> Draft {
        let large = is_large(value);
        let bytes = match value {
            Value::Tree(_) if !large => Some(Sequence::second(value).count),
            _ => None,
        };
        Draft { inner: sequence::Draft::of(&Sequence::of(value)), large, bytes }
    }

    /// The list as it is now.
    pub fn sequence(&self) -> Sequence<'_> {
        self.inner.sequence()
    }

    /// Whether Redis would keep it as a quicklist.
    pub fn is_large(&self) -> bool {
        self.large
    }

    /// How long it is.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn count(&self) -> Result<u64, Fault> {
        self.sequence().count()
    }

    /// Bytes of the listpack that Redis would have: looks at each element of what is small, if that is not known.
    fn listpack(&mut self, nodes: &dyn Nodes) -> Result<u64, Fault> {
        if let Some(bytes) = self.bytes {
            return Ok(bytes);
        }
        let mut bytes = LISTPACK_BYTES;
        for element in self.sequence().iter(nodes, 0) {
            bytes += element_bytes(&element?);
        }
        self.bytes = Some(bytes);
        Ok(bytes)
    }

    /// Says that `count` elements of `bytes` bytes in all are about to be put in: the list may
    /// become large.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn expect(&mut self, nodes: &dyn Nodes, limit: Limit, count: u64, bytes: u64) -> Result<(), Fault> {
        if self.large {
            return Ok(());
        }
        // A packed list's listpack is shorter than this.
        let most = if self.inner.is_tree() { u64::MAX } else { 2 * sequence::RUN_MAX as u64 };
        let count = self.count()? + count;
        if limit.is_exceeded(most.saturating_add(bytes), count)
            && limit.is_exceeded(self.listpack(nodes)? + bytes, count)
        {
            (self.large, self.bytes) = (true, None);
        }
        Ok(())
    }

    /// As [`Draft::expect`], for several groups of elements that are put in one after the other.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn expect_each<'e>(
        &mut self,
        nodes: &dyn Nodes,
        limit: Limit,
        groups: impl Iterator<Item = &'e [&'e [u8]]>,
    ) -> Result<(), Fault> {
        if self.large {
            return Ok(());
        }
        let (mut bytes, mut count) = (self.listpack(nodes)?, self.count()?);
        for group in groups {
            count += group.len() as u64;
            let raw: u64 = group.iter().map(|element| element.len() as u64).sum();
            if limit.is_exceeded(bytes + raw, count) {
                (self.large, self.bytes) = (true, None);
                return Ok(());
            }
            bytes +=
                group.iter().map(|element| listpack_bytes(element.len() as u64, Some(element))).sum::<u64>();
        }
        Ok(())
    }

    /// Says that elements have been taken out: a large list may be small now.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn settle(&mut self, nodes: &dyn Nodes, limit: Limit) -> Result<(), Fault> {
        let count = self.count()?;
        if !self.large || limit.is_exceeded_by_half(LISTPACK_BYTES + 2 * count, count) {
            return Ok(());
        }
        let mut bytes = LISTPACK_BYTES;
        for element in self.sequence().iter(nodes, 0) {
            bytes += element_bytes(&element?);
            if limit.is_exceeded_by_half(bytes, count) {
                return Ok(());
            }
        }
        (self.large, self.bytes) = (false, Some(bytes));
        Ok(())
    }

    /// Puts an element before the one at `rank`.
    ///
    /// # Errors
    /// As [`sequence::Draft::insert`].
    pub fn insert(&mut self, nodes: &dyn Nodes, rank: u64, element: &[u8]) -> Result<(), Fault> {
        self.grown(element);
        self.inner.insert(nodes, &BY_POSITION, rank, &[element])
    }

    /// Puts an element in the place of the one at `rank`.
    ///
    /// # Errors
    /// As [`sequence::Draft::insert`].
    pub fn replace(&mut self, nodes: &dyn Nodes, rank: u64, element: &[u8]) -> Result<(), Fault> {
        self.shrink(nodes, rank, 1)?;
        self.grown(element);
        self.inner.replace(nodes, &BY_POSITION, rank, &[element])
    }

    /// Takes `count` elements out.
    ///
    /// # Errors
    /// As [`sequence::Draft::insert`].
    pub fn remove(&mut self, nodes: &dyn Nodes, rank: u64, count: u64) -> Result<(), Fault> {
        self.shrink(nodes, rank, count)?;
        self.inner.remove(nodes, &BY_POSITION, rank, count)
    }

    /// Adds elements at the end.
    ///
    /// # Errors
    /// As [`sequence::Draft::insert`].
    pub fn extend<'e>(
        &mut self,
        nodes: &dyn Nodes,
        elements: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<(), Fault> {
        elements.clone().for_each(|element| self.grown(element));
        let mut elements = elements;
        self.inner.extend(nodes, &BY_POSITION, &mut elements)
    }

    /// Adds elements before the first one, each before the one that came before it.
    ///
    /// # Errors
    /// As [`sequence::Draft::insert`].
    pub fn extend_front<'e>(
        &mut self,
        nodes: &dyn Nodes,
        elements: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<(), Fault> {
        elements.clone().for_each(|element| self.grown(element));
        let mut elements = elements;
        self.inner.extend_front(nodes, &BY_POSITION, &mut elements)
    }

    fn grown(&mut self, element: &[u8]) {
        if let Some(bytes) = &mut self.bytes {
            *bytes += listpack_bytes(element.len() as u64, Some(element));
        }
    }

    /// Some elements are about to go.
    fn shrink(&mut self, nodes: &dyn Nodes, rank: u64, count: u64) -> Result<(), Fault> {
        let Some(bytes) = self.bytes else { return Ok(()) };
        let mut gone = 0;
        for element in self.sequence().iter(nodes, rank).take(count as usize) {
            gone += element_bytes(&element?);
        }
        self.bytes = Some(bytes.saturating_sub(gone));
        Ok(())
    }

    /// The value to publish.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn value(&mut self, nodes: &dyn Nodes) -> Result<Value<'_>, Fault> {
        let bytes = if self.inner.is_tree() && !self.large { self.listpack(nodes)? } else { 0 };
        let flags = if self.large { LARGE } else { 0 };
        Ok(self.inner.value(flags, Tree { root: Ref::NONE, count: bytes, height: 0 }))
    }
}

/// A packed list with one more element (`element` in one part), the first or the last, and how long it is then; `None` where that takes a [`Draft`].
#[inline]
pub fn pushed<'v, 'n>(
    value: Option<&'v [u8]>,
    element: &'n [&'n [u8]; 1],
    at_end: bool,
    limit: Limit,
) -> Option<(Edit<'v, 'n>, u64)> {
    let list = Packed::of(value)?;
    let there = list.count();
    // See [`Draft::expect`].
    if list.flags & LARGE == 0
        && limit.is_exceeded((2 * sequence::RUN_MAX + element[0].len()) as u64, there as u64 + 1)
    {
        return None;
    }
    Some((list.with(list.flags, if at_end { there } else { 0 }, 0, element)?, there as u64 + 1))
}

/// The first or the last element of a packed list, and the list without it, if there are others; `None` where that takes a [`Draft`].
#[inline]
pub fn popped<'v>(value: &'v [u8], at_end: bool) -> Option<(&'v [u8], Option<Edit<'v, 'static>>)> {
    let list = Packed::of(Some(value))?;
    let last = list.count().checked_sub(1)?;
    let at = if at_end { last } else { 0 };
    let element = list.at(at)?;
    match last {
        0 => Some((element, None)),
        // It may be large no more.
        _ if list.flags & LARGE != 0 => None,
        _ => Some((element, Some(list.without(at)?))),
    }
}

/// Looks at every node of a list, and shows each to `visit`.
///
/// # Errors
/// [`Fault::Damaged`] with the first thing that is wrong.
pub fn check(nodes: &dyn Nodes, root: &Root, visit: &mut dyn FnMut(Ref)) -> Result<(), Fault> {
    let value = Value::Tree(*root);
    let (second, list) = (Sequence::second(&value), Sequence::of(&value));
    let mut bytes = 0;
    if !is_large(&value) {
        bytes = LISTPACK_BYTES;
        for element in list.iter(nodes, 0) {
            bytes += element_bytes(&element?);
        }
    }
    if second != (Tree { root: Ref::NONE, count: bytes, height: 0 }) {
        return Err(Fault::Damaged { what: "the root of a list" });
    }
    match list {
        Sequence::Packed(_) => Ok(()),
        Sequence::Tree(tree) => sequence::check(nodes, &tree, &BY_POSITION, false, visit),
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use bumpalo::Bump;

    use super::*;
    use crate::testing::Memory;

    fn push(nodes: &Memory<'_>, draft: &mut Draft, limit: Limit, element: &[u8]) {
        draft.expect(nodes, limit, 1, element.len() as u64).unwrap();
        let count = draft.count().unwrap();
        draft.insert(nodes, count, element).unwrap();
    }

    fn checked(nodes: &Memory<'_>, draft: &mut Draft) -> bool {
        let value = draft.value(nodes).unwrap();
        if let Value::Tree(root) = value {
            check(nodes, &root, &mut |_| {}).unwrap();
        }
        is_large(&value)
    }

    #[test]
    fn a_list_is_large_past_the_limit_and_small_at_half_of_it() {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let limit = Limit::of(-2);
        let mut draft = Draft::empty();
        // A hundred bytes are 104 in a listpack: two for the length, one for the way back.
        let element = [b'.'; 100];
        let mut pushed = 0;
        while !checked(&nodes, &mut draft) {
            push(&nodes, &mut draft, limit, &element);
            pushed += 1;
        }
        assert_eq!(pushed, (8192 - 7 - 100) / 103 + 2);
        while checked(&nodes, &mut draft) {
            draft.remove(&nodes, 0, 1).unwrap();
            draft.settle(&nodes, limit).unwrap();
            pushed -= 1;
        }
        assert_eq!(pushed, (4096 - 7) / 103);
    }

    #[test]
    fn a_limit_may_be_a_number_of_elements() {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let limit = Limit::of(4);
        let mut draft = Draft::empty();
        (0..4).for_each(|_| push(&nodes, &mut draft, limit, b"12"));
        assert!(!checked(&nodes, &mut draft));
        push(&nodes, &mut draft, limit, b"12");
        assert!(checked(&nodes, &mut draft));
        draft.remove(&nodes, 0, 2).unwrap();
        draft.settle(&nodes, limit).unwrap();
        assert!(checked(&nodes, &mut draft));
        draft.remove(&nodes, 0, 1).unwrap();
        draft.settle(&nodes, limit).unwrap();
        assert!(!checked(&nodes, &mut draft));
    }

    #[test]
    fn numbers_take_less_of_a_listpack() {
        for (text, bytes) in [
            ("0", 2),
            ("127", 2),
            ("128", 3),
            ("-1", 3),
            ("4096", 4),
            ("40000", 5),
            ("9000000", 6),
            ("9000000000", 10),
        ] {
            assert_eq!(listpack_bytes(text.len() as u64, Some(text.as_bytes())), bytes, "{text}");
        }
        for (length, bytes) in
            [(0, 2), (63, 65), (64, 67), (125, 128), (126, 130), (4095, 4099), (4096, 4103)]
        {
            assert_eq!(listpack_bytes(length, None), bytes, "{length}");
        }
    }
}
