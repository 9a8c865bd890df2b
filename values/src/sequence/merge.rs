//! Many elements put into a sorted tree at once, and others taken out: one way down and one way up for all of them.
//!
//! ```text
//!                 inner                 items, in the order of the rule:   a b | c | d e f
//!               /   |    \              each node is gone to once, with the items that belong below it,
//!        a b -> o   o     o <- d e f    and is copied once, whatever becomes of its children
//!                   ^ c
//! ```
//! Before that the inner nodes in question are brought near, their misses together, and while a leaf is changed the next ones are on their way: in a
//! tree of a million elements that would be most of the time.

use std::cmp::Ordering;

use polder_base::{Fault, Ref};
use smallvec::{SmallVec, smallvec};

use super::edit::{self, Change, Edges, New, Row};
use super::near::{self, Way};
use super::run;
use super::search;
use super::tree::{self, Child, FANOUT, Inner};
use super::{Element, Rule, SHORT_MAX, Tree};
use crate::{Nodes, string};

const DAMAGED: Fault = Fault::Damaged { what: "a tree of elements" };

/// How an element stands to a name with the same word.
pub type ByName = fn(&[u8], &[u8]) -> Ordering;

/// Says whether the item of this number is put in the place of the element that has its name.
pub type Decide<'d> = &'d mut dyn FnMut(usize, Element<'_>) -> Result<bool, Fault>;

/// An element that is put in with others, or taken out.
#[derive(Clone, Copy, Debug)]
pub struct Item<'e> {
    pub word: u64,
    /// What makes it the same element as another.
    pub name: &'e [u8],
    pub bytes: &'e [u8],
    /// Its number among the items before they were sorted.
    pub number: usize,
    /// It is there, and is taken out.
    pub goes: bool,
    /// Whether it was there: the answer.
    pub found: bool,
}

/// Leaves that are on their way here while one is changed: more than the processor can have under way would only be waited for.
const AHEAD: usize = 4;

/// Cache lines of most leaves.
const LEAF_LINES: usize = 12;

/// What has become of a child of an inner node.
struct Changed {
    index: usize,
    /// How many nodes have taken its place.
    many: usize,
    /// It has lost elements, so that it may be too empty.
    lost: bool,
}

/// What has become of children of an inner node: `row` holds what has taken their places, one after the other.
#[derive(Default)]
struct Changes {
    list: SmallVec<[Changed; 16]>,
    row: SmallVec<[Child; 24]>,
}

/// A node that is gone to.
#[derive(Clone, Copy)]
struct Visit {
    child: Child,
    level: u8,
    edges: Edges,
    /// Behind it words from this one on begin.
    bound: u64,
    /// It may be of this transaction: a node that is published names only published ones.
    private: bool,
}

/// Puts items into a tree, or takes them out.
pub struct Merge<'m> {
    nodes: &'m dyn Nodes,
    rule: &'m Rule,
    by_name: ByName,
    decide: Decide<'m>,
    /// The leaves that are going to be gone to, how many of them have been, and how many have been brought near.
    leaves: SmallVec<[Ref; 128]>,
    gone_to: usize,
    brought: usize,
}

impl<'m> Merge<'m> {
    /// An element that is there is replaced if `decide` says so, else it stays.
    pub fn new(nodes: &'m dyn Nodes, rule: &'m Rule, by_name: ByName, decide: Decide<'m>) -> Merge<'m> {
        Merge { nodes, rule, by_name, decide, leaves: SmallVec::new(), gone_to: 0, brought: 0 }
    }

    /// Puts items into a tree that is not empty, or takes them out; where two have the same name, the first half of them first.
    pub fn upsert_in_turn(&mut self, tree: &mut Tree, items: &mut [Item<'_>]) -> Result<(), Fault> {
        items.sort_unstable_by(|one, two| one.word.cmp(&two.word).then_with(|| one.name.cmp(two.name)));
        if items.windows(2).any(|pair| pair[0].word == pair[1].word && pair[0].name == pair[1].name) {
            items.sort_unstable_by_key(|item| item.number);
            let (first, second) = items.split_at_mut(items.len() / 2);
            self.upsert_in_turn(tree, first)?;
            return self.upsert_in_turn(tree, second);
        }
        if items.is_empty() { Ok(()) } else { self.upsert(tree, items) }
    }

    /// Puts items, which are some and sorted, into a tree that is not empty, or takes them out.
    fn upsert(&mut self, tree: &mut Tree, items: &mut [Item<'_>]) -> Result<(), Fault> {
        let height = tree::checked_height(tree)?;
        let mut ways = near::descend_all(self.nodes, tree, items.iter().map(|item| item.word), 0)?;
        self.leaves.clear();
        self.leaves.extend(ways.iter().map(|way| way.node));
        self.leaves.dedup();
        (self.gone_to, self.brought) = (0, 0);
        self.bring();
        let root = Child {
            node: tree.root,
            count: tree.count,
            word: tree::first_word(self.nodes, self.rule, tree)?,
        };
        let row = self.node(
            Visit { child: root, level: height, edges: Edges::WHOLE, bound: u64::MAX, private: true },
            items,
            &mut ways,
        )?;
        let mut row = row.to_vec();
        // Leaves of a tree without an inner node: no level above them has joined those that became
        // too empty.
        for at in (0..if height == 0 { row.len() } else { 0 }).rev() {
            self.edit().mend(&mut row, at, 0, Edges::WHOLE)?;
        }
        *tree = tree::raise(self.nodes, row, height)?;
        edit::lower(self.nodes, tree)
    }

    /// Has the next leaves brought near.
    fn bring(&mut self) {
        let upto = self.leaves.len().min(self.gone_to + AHEAD);
        while self.brought < upto {
            self.nodes.prefetch(self.leaves[self.brought], 0, LEAF_LINES);
            self.brought += 1;
        }
    }

    /// Has the inner node that is gone to next brought near: all of it is going to be copied.
    fn bring_inner(&self, node: Ref) -> Result<(), Fault> {
        let bytes = Inner::read(self.nodes, node)?.bytes();
        self.nodes.prefetch(node, 0, bytes.div_ceil(64));
        Ok(())
    }

    /// Puts items, which have these ways, in below a node. Returns the nodes that take its place.
    fn node(&mut self, visit: Visit, items: &mut [Item<'_>], ways: &mut [Way]) -> Result<Row, Fault> {
        let Visit { child, level, edges, .. } = visit;
        let private = visit.private && self.nodes.is_private(child.node);
        if level == 0 {
            self.gone_to += 1;
            self.bring();
            return self.leaf(Visit { private, ..visit }, items);
        }
        let inner = Inner::read(self.nodes, child.node)?;
        let mut changes = Changes::default();
        let (mut rest, mut ways, mut only_patched) = (items, ways, true);
        let mut next = self.child_of(&inner, level, &rest[0], &mut ways[0])?;
        while !rest.is_empty() {
            let (index, mut upto) = (next, 1);
            while upto < rest.len() {
                next = self.child_of(&inner, level, &rest[upto], &mut ways[upto])?;
                if next != index {
                    break;
                }
                upto += 1;
            }
            if level > 1 && upto < rest.len() {
                self.bring_inner(inner.node(next))?;
            }
            let (now, later) = rest.split_at_mut(upto);
            let (own_ways, later_ways) = ways.split_at_mut(upto);
            let bound = if index + 1 < inner.len() { inner.word(index + 1) } else { visit.bound };
            let (old, lost) = (inner.child(index), now.iter().any(|item| item.goes));
            let own = edges.of(index, inner.len());
            let row =
                self.node(Visit { child: old, level: level - 1, edges: own, bound, private }, now, own_ways)?;
            // What was edited in place may look as before, and be too empty now.
            if lost || row[..] != [old] {
                let thin = lost
                    && row.len() == 1
                    && !own.left
                    && !own.right
                    && self.edit().is_thin(row[0].node, level - 1)?;
                only_patched &= row.len() == 1 && !thin;
                changes.list.push(Changed { index, many: row.len(), lost });
                changes.row.extend_from_slice(&row);
            }
            (rest, ways) = (later, later_ways);
        }
        if only_patched {
            self.patch(child, &inner, &changes, private)
        } else {
            self.rebuild(child, &inner, level, &changes, edges)
        }
    }

    /// New inner nodes where children have become more, or fewer, or too empty.
    fn rebuild(
        &self,
        node: Child,
        inner: &Inner<'_>,
        level: u8,
        changes: &Changes,
        edges: Edges,
    ) -> Result<Row, Fault> {
        let grows_right =
            edges.right && matches!(&changes.list[..], [one] if one.index + 1 == inner.len() && one.many > 1);
        let (mut children, mut lost, mut next) =
            (Vec::with_capacity(inner.len() + 8), SmallVec::<[usize; 8]>::new(), 0);
        let mut row = &changes.row[..];
        for one in &changes.list {
            children.extend((next..one.index).map(|index| inner.child(index)));
            if one.lost {
                lost.extend(children.len()..children.len() + one.many);
            }
            let (own, others) = row.split_at(one.many);
            children.extend_from_slice(own);
            (row, next) = (others, one.index + 1);
        }
        children.extend((next..inner.len()).map(|index| inner.child(index)));
        // From the right: what is joined with its left neighbour is looked at again in that one's turn.
        for at in lost.into_iter().rev() {
            self.edit().mend(&mut children, at, level - 1, edges)?;
        }
        self.nodes.release(node.node);
        // A tree that grows at its end keeps full nodes behind it.
        let each = if grows_right {
            FANOUT
        } else {
            children.len().div_ceil(children.len().div_ceil(FANOUT).max(1)).max(1)
        };
        children.chunks(each).map(|group| tree::make_inner(self.nodes, group)).collect()
    }

    /// What takes nothing in.
    fn edit(&self) -> Change<'_> {
        Change { nodes: self.nodes, rule: self.rule, new: None, append: false, prepend: false, private: true }
    }

    /// The child in which an item belongs: the last one whose first element is not behind it, or the first one.
    fn child_of(&self, inner: &Inner<'_>, level: u8, item: &Item<'_>, way: &mut Way) -> Result<usize, Fault> {
        let mut index = way.child_of(inner, level - 1);
        while index > 0
            && inner.word(index) == item.word
            && self.begins_behind(inner.node(index), level - 1, item)?
        {
            index -= 1;
            way.leave();
        }
        Ok(index)
    }

    /// Whether the first element below a node, which has the word of the item, comes behind it.
    fn begins_behind(&self, node: Ref, level: u8, item: &Item<'_>) -> Result<bool, Fault> {
        let (_, first) = tree::first_of(self.nodes, node, level)?;
        Ok((self.by_name)(&first.bytes(self.nodes)?, item.name) == Ordering::Greater)
    }

    /// The inner node with another child in each of some places.
    fn patch(&self, node: Child, inner: &Inner<'_>, changes: &Changes, private: bool) -> Result<Row, Fault> {
        let Some(first) = changes.list.first() else { return Ok(smallvec![node]) };
        let (list, row, mut count) = (&changes.list[..], &changes.row[..], node.count);
        for (changed, new) in list.iter().zip(row) {
            count = count.wrapping_sub(inner.count(changed.index)).wrapping_add(new.count);
        }
        let word = if first.index == 0 { row[0].word } else { node.word };
        let mut set = |refs: &mut [Ref], data: &mut [u8]| {
            for (changed, new) in list.iter().zip(row) {
                tree::set_child(refs, data, changed.index, *new);
            }
        };
        if private && self.nodes.edit(node.node, &mut set) {
            return Ok(smallvec![Child { node: node.node, count, word }]);
        }
        let copy = self.nodes.copy(node.node, &mut set)?;
        self.nodes.release(node.node);
        Ok(smallvec![Child { node: copy, count, word }])
    }

    /// Puts items into a leaf, one after the other: from the second on that is done in place. Then it takes out the others: until then there is
    /// something to put them into.
    fn leaf(&mut self, visit: Visit, items: &mut [Item<'_>]) -> Result<Row, Fault> {
        if let [item] = items {
            return self.put(visit, item);
        }
        let Visit { child, edges, bound, .. } = visit;
        let mut row: Row = smallvec![child];
        for goes in [false, true] {
            for item in items.iter_mut().filter(|item| item.goes == goes) {
                let mut at = row.len().checked_sub(1).ok_or(DAMAGED)?;
                while at > 0
                    && (row[at].word > item.word
                        || row[at].word == item.word && self.begins_behind(row[at].node, 0, item)?)
                {
                    at -= 1;
                }
                let edges = edges.of(at, row.len());
                let bound = row.get(at + 1).map_or(bound, |next| next.word);
                let new = self.put(Visit { child: row[at], edges, bound, private: true, ..visit }, item)?;
                row.remove(at);
                row.insert_many(at, new);
            }
        }
        Ok(row)
    }

    /// Puts one item into a leaf, or takes it out.
    fn put(&mut self, visit: Visit, item: &mut Item<'_>) -> Result<Row, Fault> {
        let Visit { child: leaf, edges, bound, private, .. } = visit;
        let run = tree::leaf(self.nodes, leaf.node)?;
        let mut compare = |element: &[u8]| (self.by_name)(element, item.name);
        let (index, found) =
            search::halve(self.nodes, self.rule, &run, item.word, (leaf.word, bound), &mut compare)?;
        item.found = found;
        if item.goes {
            // An item to be taken out was found before, so it must be there.
            return if found {
                Change { private, ..self.edit() }.leaf(leaf, index as u64, index as u64 + 1, edges)
            } else {
                Err(DAMAGED)
            };
        }
        if found && !(self.decide)(item.number, run.at(index)?)? {
            return Ok(smallvec![leaf]);
        }
        let (append, prepend) = (!found && index == run.count(), !found && index == 0);
        let (from, upto) = (index as u64, index as u64 + found as u64);
        let change = |new: &New<'_>| {
            Change { nodes: self.nodes, rule: self.rule, new: Some(new), append, prepend, private }
                .leaf(leaf, from, upto, edges)
        };
        if item.bytes.len() <= SHORT_MAX {
            return change(&New { parts: &[item.bytes], long: None });
        }
        let root = string::make_tree(self.nodes, item.bytes)?;
        let stub = run::stub(&root, item.word);
        change(&New { parts: &[&stub], long: Some((root.refs[0], item.word)) })
    }
}
