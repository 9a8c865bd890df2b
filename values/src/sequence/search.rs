//! Finding an element, or where it belongs, by the order.
use std::cmp::Ordering;

use polder_base::{Fault, Ref};

use super::run::{self, Run};
use super::tree::{self, Inner};
use super::{Element, Place, Rule, Sequence, Tree};
use crate::Nodes;

type Compare<'c> = &'c mut dyn FnMut(&[u8]) -> Ordering;

/// See [`Sequence::seek`].
pub fn seek<'a>(
    nodes: &'a dyn Nodes,
    sequence: &Sequence<'a>,
    rule: &Rule,
    word: u64,
    compare: Compare<'_>,
) -> Result<Place<'a>, Fault> {
    match sequence {
        Sequence::Packed(bytes) => {
            let run = Run::read(bytes, &[])?;
            let (index, equal) = if rule.packed_sorted {
                halve(nodes, rule, &run, word, (0, 0), compare)?
            } else {
                look_through(&run, compare)?
            };
            Ok(Place { rank: index as u64, found: if equal { Some(run.at(index)?) } else { None } })
        }
        Sequence::Tree(tree) => seek_tree::<true>(nodes, rule, tree, word, compare),
    }
}

/// See [`Sequence::find`].
pub fn find<'a>(
    nodes: &'a dyn Nodes,
    sequence: &Sequence<'a>,
    rule: &Rule,
    word: u64,
    compare: Compare<'_>,
) -> Result<Option<Element<'a>>, Fault> {
    let place = match sequence {
        Sequence::Packed(_) => seek(nodes, sequence, rule, word, compare)?,
        Sequence::Tree(tree) => seek_tree::<false>(nodes, rule, tree, word, compare)?,
    };
    Ok(place.found)
}

/// The way down a tree. Without `RANKED` the rank of the place is wrong: a caller that does not
/// need it does not pay for the counts of all children that stand before the way, which are ten
/// cache lines a node.
fn seek_tree<'a, const RANKED: bool>(
    nodes: &'a dyn Nodes,
    rule: &Rule,
    tree: &Tree,
    word: u64,
    compare: Compare<'_>,
) -> Result<Place<'a>, Fault> {
    let height = tree::checked_height(tree)?;
    if tree.count == 0 {
        return Ok(Place { rank: 0, found: None });
    }
    let (mut node, mut rank, mut words) = (tree.root, 0u64, (0, 0));
    // What stands right of the way down, if its first element may be the one that is sought.
    let mut next: Option<(Ref, u8)> = None;
    for level in (0..height).rev() {
        let inner = Inner::read(nodes, node)?;
        let last = inner.len() - 1;
        if level + 1 == height {
            words = (inner.word(0), inner.word(last));
        }
        let index = descend(nodes, rule, &inner, level, word, words, compare)?;
        words.0 = inner.word(index);
        if index < last {
            words.1 = inner.word(index + 1);
            next = (words.1 == word).then(|| (inner.node(index + 1), level));
        }
        if RANKED {
            rank = rank.wrapping_add(inner.before(index));
        }
        node = inner.node(index);
    }
    let run = tree::leaf(nodes, node)?;
    let (index, equal) = halve(nodes, rule, &run, word, words, compare)?;
    rank = rank.wrapping_add(index as u64);
    if equal {
        return Ok(Place { rank, found: Some(run.at(index)?) });
    }
    if index == run.count()
        && let Some((node, level)) = next
    {
        let (run, first) = tree::first_of(nodes, node, level)?;
        if ordering(nodes, rule, &run, 0, word, compare)?.0 == Ordering::Equal {
            return Ok(Place { rank, found: Some(first) });
        }
    }
    Ok(Place { rank, found: None })
}

/// A range that is searched: where what is sought should lie if words are spread evenly. That spares most of the cache misses of
/// halving; when the words are not even, halving takes over.
struct Range {
    low: usize,
    high: usize,
    /// About the words at `low` and at `high`; nothing is told by two that are the same.
    words: (u64, u64),
    guesses: u32,
}

/// Guesses before the range is halved.
const GUESSES: u32 = 4;

impl Range {
    fn new(high: usize, words: (u64, u64)) -> Range {
        Range { low: 0, high, words, guesses: GUESSES }
    }

    /// Where to look next; `None` when nothing is left.
    #[inline]
    fn probe(&mut self, word: u64) -> Option<usize> {
        let length = self.high - self.low;
        if length == 0 {
            return None;
        }
        let (first, last) = self.words;
        if length < 3 || self.guesses == 0 || first >= last || word < first {
            return Some(self.low + length / 2);
        }
        self.guesses -= 1;
        let part = (word - first) as f64 / (last - first) as f64;
        Some(self.low + ((part * length as f64) as usize).min(length - 1))
    }

    /// Takes in what was seen at `index`.
    #[inline]
    fn seen(&mut self, index: usize, word: u64, less: bool) {
        if less {
            (self.low, self.words.0) = (index + 1, word);
        } else {
            (self.high, self.words.1) = (index, word);
        }
    }
}

/// The child in which the turn is: the last one whose first element is `Less`, or the first one.
fn descend(
    nodes: &dyn Nodes,
    rule: &Rule,
    inner: &Inner<'_>,
    level: u8,
    word: u64,
    words: (u64, u64),
    compare: Compare<'_>,
) -> Result<usize, Fault> {
    let mut range = Range::new(inner.len(), words);
    while let Some(index) = range.probe(word) {
        let own = inner.word(index);
        let less = match own.cmp(&word) {
            Ordering::Equal => {
                let (run, _) = tree::first_of(nodes, inner.node(index), level)?;
                ordering(nodes, rule, &run, 0, word, compare)?.0 == Ordering::Less
            }
            unequal => unequal == Ordering::Less,
        };
        range.seen(index, own, less);
    }
    Ok(range.low.saturating_sub(1))
}

/// How the element at `index` stands to what is sought, and its word. Words tell most of it; a long element is put together only
/// if they do not.
#[inline]
fn ordering(
    nodes: &dyn Nodes,
    rule: &Rule,
    run: &Run<'_>,
    index: usize,
    word: u64,
    compare: Compare<'_>,
) -> Result<(Ordering, u64), Fault> {
    if run.is_long(index) {
        return ordering_of_long(nodes, run, index, word, compare);
    }
    let bytes = run.slice(index, index + 1)?;
    let own = (rule.word)(bytes);
    Ok((if own == word { compare(bytes) } else { own.cmp(&word) }, own))
}

#[cold]
fn ordering_of_long(
    nodes: &dyn Nodes,
    run: &Run<'_>,
    index: usize,
    word: u64,
    compare: Compare<'_>,
) -> Result<(Ordering, u64), Fault> {
    let own = run.stub_word(index)?;
    Ok((if own == word { compare(&run.at(index)?.bytes(nodes)?) } else { own.cmp(&word) }, own))
}

/// The first element that is not `Less`, and whether it is `Equal`.
pub fn halve(
    nodes: &dyn Nodes,
    rule: &Rule,
    run: &Run<'_>,
    word: u64,
    words: (u64, u64),
    compare: Compare<'_>,
) -> Result<(usize, bool), Fault> {
    let (mut range, mut equal) = (Range::new(run.count(), words), false);
    while let Some(index) = range.probe(word) {
        let (ordering, own) = ordering(nodes, rule, run, index, word, compare)?;
        range.seen(index, own, ordering == Ordering::Less);
        equal = if ordering == Ordering::Less { equal } else { ordering == Ordering::Equal };
    }
    Ok((range.low, equal))
}

/// The first element of a packed run that is `Equal`.
fn look_through(run: &Run<'_>, compare: Compare<'_>) -> Result<(usize, bool), Fault> {
    for (index, element) in run.short_ones().enumerate() {
        let Some(element) = element else { return Err(run::DAMAGED) };
        if compare(element) == Ordering::Equal {
            return Ok((index, true));
        }
    }
    Ok((run.count(), false))
}
