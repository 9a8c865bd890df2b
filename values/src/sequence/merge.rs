//! Many elements put into a sorted tree at once: one way down and one way up for all of them.
//!
//! ```text
//!                 inner                 items, in the order of the rule:   a b | c | d e f
//!               /   |    \              each node is gone to once, with the items that belong below it,
//!        a b -> o   o     o <- d e f    and is copied once, whatever becomes of its children
//!                   ^ c
//! ```
//! Before that the leaves in question are brought near, all their misses at once: in a tree of a million elements that is most of the time.

use std::cmp::Ordering;

use polder_base::{Fault, Ref};
use smallvec::{SmallVec, smallvec};

use super::edit::{Change, Edges, New, Row};
use super::run;
use super::search;
use super::tree::{self, Child, FANOUT, Inner};
use super::{Rule, SHORT_MAX, Tree};
use crate::{Nodes, string};

const DAMAGED: Fault = Fault::Damaged { what: "a tree of elements" };

/// How an element stands to a name with the same word.
pub type ByName = fn(&[u8], &[u8]) -> Ordering;

/// An element that is put in with others.
#[derive(Clone, Copy, Debug)]
pub struct Item<'e> {
    pub word: u64,
    /// What makes it the same element as another.
    pub name: &'e [u8],
    pub bytes: &'e [u8],
    /// Its number among the items before they were sorted.
    pub number: usize,
    /// Whether it was there: the answer.
    pub found: bool,
}

/// Puts items, which are some and sorted, into a tree that is not empty. An element that is there is replaced if the caller says so, else it stays.
pub fn upsert(
    nodes: &dyn Nodes,
    rule: &Rule,
    by_name: ByName,
    tree: &mut Tree,
    items: &mut [Item<'_>],
    replaces: bool,
) -> Result<(), Fault> {
    let height = tree::checked_height(tree)?;
    warm(nodes, tree, items.iter().map(|item| item.word));
    let merge = Merge { nodes, rule, by_name, replaces };
    let root = Child { node: tree.root, count: tree.count, word: tree::first_word(nodes, rule, tree)? };
    let row = merge.node(root, height, items, Edges::WHOLE, u64::MAX)?;
    *tree = tree::raise(nodes, row.to_vec(), height)?;
    Ok(())
}

/// Brings the leaves near in which elements with these words are, or would be. A hint: what is damaged is found by who looks again.
pub fn warm(nodes: &dyn Nodes, tree: &Tree, words: impl Iterator<Item = u64>) {
    /// Most leaves have so many; inner nodes are few enough to be near.
    const LEAF_LINES: usize = 12;
    if tree.height == 0 {
        return;
    }
    let mut places: SmallVec<[(u64, Ref); 128]> = words.map(|word| (word, tree.root)).collect();
    for level in (0..tree.height.min(tree::HEIGHT_MAX)).rev() {
        for (word, place) in &mut places {
            let Ok(inner) = Inner::read(nodes, *place) else { return };
            *place = inner.node(inner.last_upto(*word));
            if level == 0 {
                nodes.prefetch(*place, LEAF_LINES);
            }
        }
    }
}

struct Merge<'m> {
    nodes: &'m dyn Nodes,
    rule: &'m Rule,
    by_name: ByName,
    replaces: bool,
}

impl Merge<'_> {
    /// Puts items in below a node, behind which words from `bound` on begin; answers the nodes that take its place.
    fn node(&self, child: Child, level: u8, items: &mut [Item<'_>], edges: Edges, bound: u64) -> Result<Row, Fault> {
        if level == 0 {
            return self.leaf(child, items, edges, bound);
        }
        let inner = Inner::read(self.nodes, child.node)?;
        let mut changed: SmallVec<[(usize, Row); 4]> = SmallVec::new();
        let mut rest = items;
        let mut next = self.child_of(&inner, level, &rest[0])?;
        while !rest.is_empty() {
            let (index, mut upto) = (next, 1);
            while upto < rest.len() {
                next = self.child_of(&inner, level, &rest[upto])?;
                if next != index {
                    break;
                }
                upto += 1;
            }
            let (now, later) = rest.split_at_mut(upto);
            let bound = if index + 1 < inner.len() { inner.word(index + 1) } else { bound };
            let row = self.node(inner.child(index), level - 1, now, edges.of(index, inner.len()), bound)?;
            if row[..] != [inner.child(index)] {
                changed.push((index, row));
            }
            rest = later;
        }
        if changed.iter().all(|(_, row)| row.len() == 1) {
            return self.patch(child, &inner, &changed);
        }
        let grows_right = edges.right && matches!(changed[..], [(index, _)] if index + 1 == inner.len());
        let mut children = inner.children();
        for (index, row) in changed.into_iter().rev() {
            children.splice(index..=index, row);
        }
        // A tree that grows at its end keeps full nodes behind it.
        let each = if grows_right { FANOUT } else { children.len().div_ceil(children.len().div_ceil(FANOUT)) };
        let row = children.chunks(each).map(|group| tree::make_inner(self.nodes, group)).collect::<Result<_, _>>()?;
        self.nodes.release(child.node);
        Ok(row)
    }

    /// The child in which an item belongs: the last one whose first element is not behind it, or the first one.
    fn child_of(&self, inner: &Inner<'_>, level: u8, item: &Item<'_>) -> Result<usize, Fault> {
        let mut index = inner.last_upto(item.word);
        while index > 0 && inner.word(index) == item.word && self.begins_behind(inner.node(index), level - 1, item)? {
            index -= 1;
        }
        Ok(index)
    }

    /// Whether the first element below a node, which has the word of the item, comes behind it.
    fn begins_behind(&self, node: Ref, level: u8, item: &Item<'_>) -> Result<bool, Fault> {
        let (_, first) = tree::first_of(self.nodes, node, level)?;
        Ok((self.by_name)(&first.bytes(self.nodes)?, item.name) == Ordering::Greater)
    }

    /// The inner node with other children in the places of some.
    fn patch(&self, node: Child, inner: &Inner<'_>, changed: &[(usize, Row)]) -> Result<Row, Fault> {
        let Some((first, _)) = changed.first() else { return Ok(smallvec![node]) };
        let (mut count, mut word) = (node.count, node.word);
        for (index, row) in changed {
            count = count.wrapping_sub(inner.count(*index)).wrapping_add(row[0].count);
        }
        if *first == 0 {
            word = changed[0].1[0].word;
        }
        let mut set =
            |refs: &mut [Ref], data: &mut [u8]| changed.iter().for_each(|(index, row)| tree::set_child(refs, data, *index, row[0]));
        if self.nodes.edit(node.node, &mut set) {
            return Ok(smallvec![Child { node: node.node, count, word }]);
        }
        let copy = inner.duplicate(self.nodes)?;
        if !self.nodes.edit(copy, &mut set) {
            return Err(DAMAGED);
        }
        self.nodes.release(node.node);
        Ok(smallvec![Child { node: copy, count, word }])
    }

    /// Puts items into a leaf, one after the other: from the second on that is done in place.
    fn leaf(&self, child: Child, items: &mut [Item<'_>], edges: Edges, bound: u64) -> Result<Row, Fault> {
        let mut row: Row = smallvec![child];
        for item in items {
            let mut at = row.len() - 1;
            while at > 0 && (row[at].word > item.word || row[at].word == item.word && self.begins_behind(row[at].node, 0, item)?) {
                at -= 1;
            }
            let edges = edges.of(at, row.len());
            let bound = row.get(at + 1).map_or(bound, |next| next.word);
            let new = self.put(row[at], item, edges, bound)?;
            row.remove(at);
            row.insert_many(at, new);
        }
        Ok(row)
    }

    /// Puts one item into a leaf.
    fn put(&self, leaf: Child, item: &mut Item<'_>, edges: Edges, bound: u64) -> Result<Row, Fault> {
        let run = tree::leaf(self.nodes, leaf.node)?;
        let mut compare = |element: &[u8]| (self.by_name)(element, item.name);
        let (index, found) = search::halve(self.nodes, self.rule, &run, item.word, (leaf.word, bound), &mut compare)?;
        item.found = found;
        if found && !self.replaces {
            return Ok(smallvec![leaf]);
        }
        let (append, prepend) = (!found && index == run.count(), !found && index == 0);
        let (from, upto) = (index as u64, index as u64 + found as u64);
        let change =
            |new: &New<'_>| Change { nodes: self.nodes, rule: self.rule, new: Some(new), append, prepend }.leaf(leaf, from, upto, edges);
        if item.bytes.len() <= SHORT_MAX {
            return change(&New { parts: &[item.bytes], long: None });
        }
        let root = string::make_tree(self.nodes, item.bytes)?;
        let stub = run::stub(&root, item.word);
        change(&New { parts: &[&stub], long: Some((root.refs[0], item.word)) })
    }
}
