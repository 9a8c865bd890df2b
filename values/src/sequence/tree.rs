//! The nodes of a tree: how they are read, built from end to end, and checked.
use std::cmp::Ordering;

use polder_base::{Fault, Ref};

use super::run::{self, Run};
use super::{Element, Rule, Tree};
use crate::{Nodes, string};

/// Bytes that a leaf carries at most, references of long elements included: with its header it is a node of 1 KiB.
pub const LEAF_MAX: usize = 1016;
/// Children of an inner node at most: a node of 2 KiB.
pub const FANOUT: usize = 84;
/// No tree is higher (S5).
pub const HEIGHT_MAX: u8 = 16;

const DAMAGED: Fault = Fault::Damaged { what: "a tree of elements" };

/// What an inner node tells of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    pub node: Ref,
    pub count: u64,
    pub word: u64,
}

/// An inner node that is being read.
#[derive(Clone, Copy)]
pub struct Inner<'a> {
    refs: &'a [Ref],
    data: &'a [u8],
}

impl<'a> Inner<'a> {
    /// The inner node (S5: it has as many counts and words as children).
    #[inline]
    pub fn read(nodes: &'a dyn Nodes, node: Ref) -> Result<Inner<'a>, Fault> {
        let (refs, data) = (nodes.refs(node)?, nodes.data(node)?);
        if refs.is_empty() || refs.len() > FANOUT || data.len() != refs.len() * 16 {
            return Err(DAMAGED);
        }
        Ok(Inner { refs, data })
    }

    /// How many children it has.
    pub fn len(&self) -> usize {
        self.refs.len()
    }

    pub fn node(&self, index: usize) -> Ref {
        self.refs[index]
    }

    #[inline]
    pub fn count(&self, index: usize) -> u64 {
        word_at(self.data, index)
    }

    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        word_at(self.data, self.refs.len() + index)
    }

    pub fn child(&self, index: usize) -> Child {
        Child { node: self.node(index), count: self.count(index), word: self.word(index) }
    }

    /// The child that holds the element at `rank`, and the element's rank below it.
    #[inline]
    pub fn find(&self, mut rank: u64) -> Result<(usize, u64), Fault> {
        for index in 0..self.len() {
            let count = self.count(index);
            if rank < count {
                return Ok((index, rank));
            }
            rank -= count;
        }
        Err(DAMAGED)
    }

    /// Elements below the first `index` children.
    pub fn before(&self, index: usize) -> u64 {
        (0..index).fold(0, |sum, child| self.count(child).wrapping_add(sum))
    }
}

#[inline]
fn word_at(data: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| data[index * 8 + byte]))
}

/// A leaf (S5: it is a run, and not empty).
#[inline]
pub fn leaf(nodes: &dyn Nodes, node: Ref) -> Result<Run<'_>, Fault> {
    let run = Run::read(nodes.data(node)?, nodes.refs(node)?)?;
    if run.count() == 0 {
        return Err(DAMAGED);
    }
    Ok(run)
}

/// A tree's height, if it can be true.
pub fn checked_height(tree: &Tree) -> Result<u8, Fault> {
    if tree.height > HEIGHT_MAX || tree.root.is_none() != (tree.count == 0) { Err(DAMAGED) } else { Ok(tree.height) }
}

/// The leaf that holds the element at `rank`, and its index there.
pub fn leaf_at<'a>(nodes: &'a dyn Nodes, tree: &Tree, mut rank: u64) -> Result<(Run<'a>, usize), Fault> {
    let mut node = tree.root;
    for _ in 0..checked_height(tree)? {
        let inner = Inner::read(nodes, node)?;
        let (index, below) = inner.find(rank)?;
        (node, rank) = (inner.node(index), below);
    }
    let run = leaf(nodes, node)?;
    if rank >= run.count() as u64 {
        return Err(DAMAGED);
    }
    Ok((run, rank as usize))
}

/// The first element below a node.
pub fn first_of(nodes: &dyn Nodes, mut node: Ref, level: u8) -> Result<(Run<'_>, Element<'_>), Fault> {
    for _ in 0..level {
        node = Inner::read(nodes, node)?.node(0);
    }
    let run = leaf(nodes, node)?;
    Ok((run, run.at(0)?))
}

/// The word of an element of a run.
pub fn word_of(nodes: &dyn Nodes, rule: &Rule, run: &Run<'_>, index: usize) -> Result<u64, Fault> {
    if run.is_long(index) { run.stub_word(index) } else { Ok((rule.word)(&run.at(index)?.bytes(nodes)?)) }
}

/// Makes an inner node.
pub fn make_inner(nodes: &dyn Nodes, children: &[Child]) -> Result<Child, Fault> {
    let (mut refs, mut data) = ([Ref::NONE; FANOUT], [0; FANOUT * 16]);
    let many = children.len();
    for (index, child) in children.iter().enumerate() {
        refs[index] = child.node;
        data[index * 8..][..8].copy_from_slice(&child.count.to_le_bytes());
        data[(many + index) * 8..][..8].copy_from_slice(&child.word.to_le_bytes());
    }
    let node = nodes.make(&refs[..many], &[&data[..many * 16]])?;
    Ok(Child { node, count: children.iter().map(|child| child.count).sum(), word: children[0].word })
}

/// The tree over nodes that stand side by side at one level.
pub fn raise(nodes: &dyn Nodes, mut row: Vec<Child>, mut height: u8) -> Result<Tree, Fault> {
    while row.len() > 1 {
        let groups = row.len().div_ceil(FANOUT);
        let mut next = Vec::with_capacity(groups);
        // All alike, so that none is nearly empty.
        for group in 0..groups {
            next.push(make_inner(nodes, &row[row.len() * group / groups..row.len() * (group + 1) / groups])?);
        }
        (row, height) = (next, height + 1);
    }
    Ok(row.first().map_or(Tree::default(), |top| Tree { root: top.node, count: top.count, height }))
}

/// Builds full leaves from elements in their order.
#[derive(Default)]
pub struct Leaves {
    run: run::Builder,
    refs: Vec<Ref>,
    word: u64,
    pub row: Vec<Child>,
}

impl Leaves {
    /// Adds an element, or a stub with its tree.
    pub fn push(&mut self, nodes: &dyn Nodes, bytes: &[u8], tree: Option<Ref>, word: u64) -> Result<(), Fault> {
        if self.run.count() > 0 && self.bytes() + bytes.len() + run::ENTRY + tree.map_or(0, |_| self.cost_of_ref()) > LEAF_MAX {
            self.flush(nodes)?;
        }
        if self.run.count() == 0 {
            self.word = word;
        }
        self.run.push(bytes, tree.is_some());
        self.refs.extend(tree);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.run.len() + if self.refs.is_empty() { 0 } else { 8 + self.refs.len() * 8 }
    }

    fn cost_of_ref(&self) -> usize {
        if self.refs.is_empty() { 16 } else { 8 }
    }

    /// Makes the leaf that is being built, if there is one.
    pub fn flush(&mut self, nodes: &dyn Nodes) -> Result<(), Fault> {
        if self.run.count() > 0 {
            let (head, table, data) = self.run.parts();
            let node = nodes.make(&self.refs, &[&head, table, data])?;
            self.row.push(Child { node, count: self.run.count() as u64, word: self.word });
            self.run.clear();
            self.refs.clear();
        }
        Ok(())
    }
}

/// Looks at every node of a tree and shows each to `visit`: all rules of the format hold (Q1 to Q4).
///
/// # Errors
/// [`Fault::Damaged`] with the first thing that is wrong.
pub fn check(nodes: &dyn Nodes, tree: &Tree, rule: &Rule, sorted: bool, visit: &mut dyn FnMut(Ref)) -> Result<(), Fault> {
    let height = checked_height(tree)?;
    if tree.count == 0 {
        return Ok(());
    }
    let mut check = Check { nodes, rule, sorted, visit, last: None };
    match check.node(tree.root, height)? {
        (count, _) if count == tree.count => Ok(()),
        _ => Err(Fault::Damaged { what: "the count of a tree of elements" }),
    }
}

struct Check<'c> {
    nodes: &'c dyn Nodes,
    rule: &'c Rule,
    sorted: bool,
    visit: &'c mut dyn FnMut(Ref),
    /// The element before.
    last: Option<Element<'c>>,
}

impl<'c> Check<'c> {
    /// Checks a node; answers how many elements are below it, and the word of the first.
    fn node(&mut self, node: Ref, level: u8) -> Result<(u64, u64), Fault> {
        (self.visit)(node);
        if level == 0 {
            return self.leaf(node);
        }
        let inner = Inner::read(self.nodes, node)?;
        let mut sum: u64 = 0;
        for index in 0..inner.len() {
            let told = inner.child(index);
            if self.node(told.node, level - 1)? != (told.count, told.word) {
                return Err(Fault::Damaged { what: "the counts or words of a tree of elements" });
            }
            sum = sum.checked_add(told.count).ok_or(DAMAGED)?;
        }
        Ok((sum, inner.word(0)))
    }

    fn leaf(&mut self, node: Ref) -> Result<(u64, u64), Fault> {
        let run = leaf(self.nodes, node)?;
        let (data, count) = (self.nodes.data(node)?, run.count());
        if data.len() > LEAF_MAX || run.used() > data.len() || run.stubs(count) != run.refs().len() {
            return Err(Fault::Damaged { what: "a leaf of elements" });
        }
        for index in 0..count {
            let element = run.at(index)?;
            match element {
                Element::Short(bytes) if bytes.len() > super::SHORT_MAX => return Err(DAMAGED),
                Element::Long(root) if root.count <= super::SHORT_MAX as u64 => return Err(DAMAGED),
                Element::Long(root) => string::check_tree(self.nodes, &root, self.visit)?,
                Element::Short(_) => {}
            }
            if self.sorted {
                let bytes = element.bytes(self.nodes)?;
                let last = self.last.map(|last| last.bytes(self.nodes)).transpose()?;
                let ordered = last.is_none_or(|last| (self.rule.compare)(&last, &bytes) == Ordering::Less);
                if !ordered || (self.rule.word)(&bytes) != word_of(self.nodes, self.rule, &run, index)? {
                    return Err(Fault::Damaged { what: "the order of a tree of elements" });
                }
                self.last = Some(element);
            }
        }
        Ok((count as u64, word_of(self.nodes, self.rule, &run, 0)?))
    }
}
