//! Intersections, differences and unions of sets.
//!
//! Members of one set, the *candidates*, are looked for in the others: beside each other where both are trees of about one
//! size (both are sorted alike), one by one where the other is far larger, in a sorted list where it is packed.
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Element, Fault, Nodes, Sequence, find};
use crate::order::member_word;
use crate::sequence::Iter;

/// A set that is this many times larger is not walked: a search costs about as much as this many
/// steps.
const SEARCH: u64 = 16;

/// A member with its word.
struct Item<'a> {
    word: u64,
    bytes: Cow<'a, [u8]>,
    element: Element<'a>,
}

/// The members of a set with their words.
struct Walk<'a> {
    nodes: &'a dyn Nodes,
    elements: Iter<'a>,
}

impl<'a> Walk<'a> {
    fn new(nodes: &'a dyn Nodes, members: &Sequence<'a>) -> Walk<'a> {
        Walk { nodes, elements: members.iter(nodes, 0) }
    }

    fn next(&mut self) -> Result<Option<Item<'a>>, Fault> {
        let Some(element) = self.elements.next().transpose()? else { return Ok(None) };
        let bytes = element.bytes(self.nodes)?;
        Ok(Some(Item { word: member_word(&bytes), bytes, element }))
    }
}

/// A set in which candidates are looked for.
enum Sought<'a> {
    /// A packed one, sorted.
    Few(Vec<(u64, Cow<'a, [u8]>)>),
    /// Walked through beside the candidates, which come in its own order.
    Beside(Box<Walk<'a>>, Option<Item<'a>>),
    Alone(Sequence<'a>),
}

impl<'a> Sought<'a> {
    /// `candidates` is how many will be looked for; none if they do not come in order.
    fn new(
        nodes: &'a dyn Nodes,
        members: &Sequence<'a>,
        candidates: Option<u64>,
    ) -> Result<Sought<'a>, Fault> {
        let mut walk = Walk::new(nodes, members);
        if let Sequence::Packed(_) = members {
            let mut few = Vec::new();
            while let Some(item) = walk.next()? {
                few.push((item.word, item.bytes));
            }
            few.sort_unstable();
            return Ok(Sought::Few(few));
        }
        let count = members.count()?;
        if candidates.is_some_and(|candidates| count <= candidates.saturating_mul(SEARCH)) {
            let first = walk.next()?;
            return Ok(Sought::Beside(Box::new(walk), first));
        }
        Ok(Sought::Alone(*members))
    }

    fn holds(&mut self, nodes: &'a dyn Nodes, item: &Item<'a>) -> Result<bool, Fault> {
        let sought = (item.word, &*item.bytes);
        match self {
            Sought::Few(few) => {
                Ok(few.binary_search_by(|(word, bytes)| (*word, &**bytes).cmp(&sought)).is_ok())
            }
            Sought::Beside(walk, next) => loop {
                let Some(other) = next else { return Ok(false) };
                match (other.word, &*other.bytes).cmp(&sought) {
                    Ordering::Less => *next = walk.next()?,
                    order => return Ok(order == Ordering::Equal),
                }
            },
            Sought::Alone(members) => Ok(find(nodes, members, &item.bytes)?.is_some()),
        }
    }
}

/// How many members come in order, if they do.
fn in_order(members: &Sequence<'_>) -> Result<Option<u64>, Fault> {
    match members {
        Sequence::Packed(_) => Ok(None),
        tree => tree.count().map(Some),
    }
}

/// Shows the members that all of the sets have, until `visit` returns false. Returns whether they
/// come in the order of [`super::MEMBERS`]; else they come as the sets show them.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn intersection<'a>(
    nodes: &'a dyn Nodes,
    sets: &[Sequence<'a>],
    visit: &mut dyn FnMut(Element<'a>) -> bool,
) -> Result<bool, Fault> {
    let mut sizes =
        sets.iter().map(|members| Ok((members.count()?, *members))).collect::<Result<Vec<_>, Fault>>()?;
    // The smallest first: it has the fewest candidates.
    sizes.sort_by_key(|(count, _)| *count);
    let Some(((_, smallest), others)) = sizes.split_first() else { return Ok(true) };
    let order = in_order(smallest)?;
    let mut others = others
        .iter()
        .map(|(_, members)| Sought::new(nodes, members, order))
        .collect::<Result<Vec<_>, _>>()?;
    let mut walk = Walk::new(nodes, smallest);
    'candidates: while let Some(item) = walk.next()? {
        for other in &mut others {
            if !other.holds(nodes, &item)? {
                continue 'candidates;
            }
        }
        if !visit(item.element) {
            break;
        }
    }
    Ok(order.is_some())
}

/// Shows the members of the first set that none of the others has, as [`intersection`] does.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn difference<'a>(
    nodes: &'a dyn Nodes,
    first: &Sequence<'a>,
    others: &[Sequence<'a>],
    visit: &mut dyn FnMut(Element<'a>) -> bool,
) -> Result<bool, Fault> {
    let order = in_order(first)?;
    let mut others =
        others.iter().map(|members| Sought::new(nodes, members, order)).collect::<Result<Vec<_>, _>>()?;
    let mut walk = Walk::new(nodes, first);
    'candidates: while let Some(item) = walk.next()? {
        for other in &mut others {
            if other.holds(nodes, &item)? {
                continue 'candidates;
            }
        }
        if !visit(item.element) {
            break;
        }
    }
    Ok(order.is_some())
}

/// The next member of one of the sets of a union; the least comes first out of a heap.
struct Next<'a> {
    item: Item<'a>,
    set: usize,
}

impl Next<'_> {
    fn key(&self) -> (u64, &[u8]) {
        (self.item.word, &self.item.bytes)
    }
}

impl PartialEq for Next<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Next<'_> {}

impl PartialOrd for Next<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Next<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Shows the members that any of the sets has, each once, as [`intersection`] does.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn union<'a>(
    nodes: &'a dyn Nodes,
    sets: &[Sequence<'a>],
    visit: &mut dyn FnMut(Element<'a>) -> bool,
) -> Result<bool, Fault> {
    if sets.iter().all(|members| matches!(members, Sequence::Packed(_))) {
        let few = union_of_few(nodes, sets)?;
        few.into_iter().all(visit);
        return Ok(false);
    }
    // The packed ones are put into order first.
    let mut sorted: Vec<std::vec::IntoIter<Item<'a>>> = Vec::new();
    let mut walks = Vec::new();
    for members in sets {
        let mut walk = Walk::new(nodes, members);
        match members {
            Sequence::Packed(_) => {
                let mut few = Vec::new();
                while let Some(item) = walk.next()? {
                    few.push(item);
                }
                few.sort_unstable_by(|one, two| (one.word, &*one.bytes).cmp(&(two.word, &*two.bytes)));
                sorted.push(few.into_iter());
            }
            Sequence::Tree(_) => walks.push(walk),
        }
    }
    let mut next = |set: usize| match walks.get_mut(set) {
        Some(walk) => walk.next(),
        None => Ok(sorted[set - walks.len()].next()),
    };
    let mut heap = BinaryHeap::with_capacity(sets.len());
    for set in 0..sets.len() {
        heap.extend(next(set)?.map(|item| Next { item, set }));
    }
    let mut last: Option<Item<'a>> = None;
    while let Some(Next { item, set }) = heap.pop() {
        heap.extend(next(set)?.map(|item| Next { item, set }));
        if last.as_ref().is_none_or(|last| last.word != item.word || last.bytes != item.bytes) {
            if !visit(item.element) {
                break;
            }
            last = Some(item);
        }
    }
    Ok(true)
}

/// The union of packed sets, in the order in which their members came.
fn union_of_few<'a>(nodes: &'a dyn Nodes, sets: &[Sequence<'a>]) -> Result<Vec<Element<'a>>, Fault> {
    let mut items = Vec::new();
    for members in sets {
        let mut walk = Walk::new(nodes, members);
        while let Some(item) = walk.next()? {
            items.push((item, items.len()));
        }
    }
    items.sort_by(|(one, _), (two, _)| (one.word, &*one.bytes).cmp(&(two.word, &*two.bytes)));
    items.dedup_by(|(two, _), (one, _)| one.word == two.word && one.bytes == two.bytes);
    items.sort_unstable_by_key(|(_, number)| *number);
    Ok(items.into_iter().map(|(item, _)| item.element).collect())
}
