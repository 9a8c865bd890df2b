//! Finding an element, or where it belongs, by the order.
use std::cmp::Ordering;

use polder_base::{Fault, Ref};

use super::run::Run;
use super::tree::{self, Inner};
use super::{Element, Place, Rule, Sequence, Tree};
use crate::Nodes;

type Compare<'c> = &'c mut dyn FnMut(&[u8]) -> Ordering;

/// See [`Sequence::seek`].
pub fn seek<'a>(nodes: &'a dyn Nodes, sequence: &Sequence<'a>, rule: &Rule, word: u64, compare: Compare<'_>) -> Result<Place<'a>, Fault> {
    match sequence {
        Sequence::Packed(bytes) => {
            let run = Run::read(bytes, &[])?;
            let (index, equal) =
                if rule.packed_sorted { halve(nodes, rule, &run, word, compare)? } else { look_through(nodes, &run, compare)? };
            Ok(Place { rank: index as u64, found: if equal { Some(run.at(index)?) } else { None } })
        }
        Sequence::Tree(tree) => seek_tree(nodes, rule, tree, word, compare),
    }
}

fn seek_tree<'a>(nodes: &'a dyn Nodes, rule: &Rule, tree: &Tree, word: u64, compare: Compare<'_>) -> Result<Place<'a>, Fault> {
    let height = tree::checked_height(tree)?;
    if tree.count == 0 {
        return Ok(Place { rank: 0, found: None });
    }
    let (mut node, mut rank) = (tree.root, 0u64);
    // What stands right of the way down, if its first element may be the one that is sought.
    let mut next: Option<(Ref, u8)> = None;
    for level in (0..height).rev() {
        let inner = Inner::read(nodes, node)?;
        let index = descend(nodes, rule, &inner, level, word, compare)?;
        if index + 1 < inner.len() {
            next = (inner.word(index + 1) == word).then(|| (inner.node(index + 1), level));
        }
        rank = rank.wrapping_add(inner.before(index));
        node = inner.node(index);
    }
    let run = tree::leaf(nodes, node)?;
    let (index, equal) = halve(nodes, rule, &run, word, compare)?;
    rank = rank.wrapping_add(index as u64);
    if equal {
        return Ok(Place { rank, found: Some(run.at(index)?) });
    }
    if index == run.count()
        && let Some((node, level)) = next
    {
        let (run, first) = tree::first_of(nodes, node, level)?;
        if ordering(nodes, rule, &run, 0, word, compare)? == Ordering::Equal {
            return Ok(Place { rank, found: Some(first) });
        }
    }
    Ok(Place { rank, found: None })
}

/// The child in which the turn is: the last one whose first element is `Less`, or the first one.
fn descend(nodes: &dyn Nodes, rule: &Rule, inner: &Inner<'_>, level: u8, word: u64, compare: Compare<'_>) -> Result<usize, Fault> {
    let (mut low, mut high) = (0, inner.len());
    while low < high {
        let middle = (low + high) / 2;
        let less = match inner.word(middle).cmp(&word) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => {
                let (run, _) = tree::first_of(nodes, inner.node(middle), level)?;
                ordering(nodes, rule, &run, 0, word, compare)? == Ordering::Less
            }
        };
        (low, high) = if less { (middle + 1, high) } else { (low, middle) };
    }
    Ok(low.saturating_sub(1))
}

/// How the element at `index` stands to what is sought. Words tell most of it; a long element is put together only if they do not.
#[inline]
fn ordering(nodes: &dyn Nodes, rule: &Rule, run: &Run<'_>, index: usize, word: u64, compare: Compare<'_>) -> Result<Ordering, Fault> {
    match run.at(index)? {
        Element::Short(bytes) => Ok((rule.word)(bytes).cmp(&word).then_with(|| compare(bytes))),
        long => match run.stub_word(index)?.cmp(&word) {
            Ordering::Equal => Ok(compare(&long.bytes(nodes)?)),
            unequal => Ok(unequal),
        },
    }
}

/// The first element that is not `Less`, and whether it is `Equal`.
fn halve(nodes: &dyn Nodes, rule: &Rule, run: &Run<'_>, word: u64, compare: Compare<'_>) -> Result<(usize, bool), Fault> {
    let (mut low, mut high, mut equal) = (0, run.count(), false);
    while low < high {
        let middle = (low + high) / 2;
        match ordering(nodes, rule, run, middle, word, compare)? {
            Ordering::Less => low = middle + 1,
            other => (high, equal) = (middle, other == Ordering::Equal),
        }
    }
    Ok((low, equal))
}

/// The first element that is `Equal`.
fn look_through(nodes: &dyn Nodes, run: &Run<'_>, compare: Compare<'_>) -> Result<(usize, bool), Fault> {
    for index in 0..run.count() {
        if compare(&run.at(index)?.bytes(nodes)?) == Ordering::Equal {
            return Ok((index, true));
        }
    }
    Ok((run.count(), false))
}
