//! The nodes of a tree: how they are read, built from end to end, and checked.
use std::cmp::Ordering;

use polder_base::{Fault, Ref};
use smallvec::SmallVec;

use super::run::{self, Run};
use super::size::{LEAF_MAX, NODE_HEAD, REFS_HEAD, refs_size};
use super::{Element, Rule, SHORT_MAX, Tree};
use crate::{Nodes, string};

/// Children of an inner node at most: a node of 2 KiB.
pub const FANOUT: usize = 84;
/// A leaf with fewer bytes, or an inner node with fewer children, is joined with a sibling, but for those along the edges. A little less
/// than a quarter: what halves of uneven elements can be.
pub const LEAF_MIN: usize = 240;
pub const INNER_MIN: usize = FANOUT / 4;
/// No tree is higher (S5).
pub const HEIGHT_MAX: u8 = 16;

const DAMAGED: Fault = Fault::Damaged { what: "a tree of elements" };
const THIN: Fault = Fault::Damaged { what: "a tree of elements with a nearly empty node in its middle" };

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
    counts: &'a [[u8; 8]],
    words: &'a [[u8; 8]],
}

impl<'a> Inner<'a> {
    /// The inner node (S5: it has as many counts and words as children).
    #[inline]
    pub fn read(nodes: &'a dyn Nodes, node: Ref) -> Result<Inner<'a>, Fault> {
        let (refs, data) = nodes.parts(node)?;
        if refs.is_empty() || refs.len() > FANOUT || data.len() != refs.len() * 16 {
            return Err(DAMAGED);
        }
        let (counts, words) = data.as_chunks().0.split_at(refs.len());
        Ok(Inner { refs, counts, words })
    }

    /// How many children it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.refs.len()
    }

    #[inline]
    pub fn node(&self, index: usize) -> Ref {
        self.refs[index]
    }

    #[inline]
    pub fn count(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.counts[index])
    }

    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.words[index])
    }

    /// The words of the first child and the last.
    pub fn bounds(&self) -> (u64, u64) {
        (self.word(0), self.word(self.len() - 1))
    }

    #[inline]
    pub fn child(&self, index: usize) -> Child {
        Child { node: self.node(index), count: self.count(index), word: self.word(index) }
    }

    /// The child that holds the element at `rank` of `total`, and the element's rank below it. Looks at the last child first, then
    /// at several at once: half of all changes are at the ends.
    #[inline]
    pub fn find(&self, mut rank: u64, total: u64) -> Result<(usize, u64), Fault> {
        const TOGETHER: usize = 8;
        let last = self.len() - 1;
        let before_last = total.wrapping_sub(self.count(last));
        if before_last <= rank && rank < total {
            return Ok((last, rank - before_last));
        }
        let (mut index, many) = (0, self.len());
        while index + TOGETHER <= many {
            let sum = self.sum(index, index + TOGETHER);
            if rank < sum {
                break;
            }
            (index, rank) = (index + TOGETHER, rank - sum);
        }
        while index < many {
            let count = self.count(index);
            if rank < count {
                return Ok((index, rank));
            }
            (index, rank) = (index + 1, rank - count);
        }
        Err(DAMAGED)
    }

    /// The child in which an element that comes at `rank` of `total` is put, and its rank there: at the end of one rather than before the next.
    #[inline]
    pub fn find_gap(&self, rank: u64, total: u64) -> Result<(usize, u64), Fault> {
        match rank.checked_sub(1) {
            Some(before) => self.find(before, total).map(|(index, below)| (index, below + 1)),
            None => Ok((0, 0)),
        }
    }

    /// Elements below the children from `from` up to `upto`.
    #[inline]
    fn sum(&self, from: usize, upto: usize) -> u64 {
        self.counts[from..upto].iter().fold(0, |sum, bytes| sum.wrapping_add(u64::from_le_bytes(*bytes)))
    }

    pub fn children(&self) -> Vec<Child> {
        let mut children = Vec::with_capacity(FANOUT + 3);
        children.extend((0..self.len()).map(|index| self.child(index)));
        children
    }

    /// The last child whose word is at most this one; the first one if there is none.
    #[inline]
    pub fn last_upto(&self, word: u64) -> usize {
        let (mut low, mut many) = (0, self.len());
        while many > 1 {
            let half = many / 2;
            low = if self.word(low + half) <= word { low + half } else { low };
            many -= half;
        }
        low
    }

    /// As [`Inner::last_upto`], for whom it should be about `guess`: few words are looked at then.
    #[inline]
    pub fn last_upto_near(&self, word: u64, guess: usize) -> usize {
        const STEPS: usize = 8;
        let many = self.len();
        let is_upto = |held: &[u8; 8]| u64::from_le_bytes(*held) <= word;
        if self.word(guess) <= word {
            let upto = many.min(guess + 1 + STEPS);
            match self.words[guess + 1..upto].iter().position(|held| !is_upto(held)) {
                Some(more) => return guess + more,
                None if upto == many => return many - 1,
                None => {}
            }
        } else {
            let from = guess.saturating_sub(STEPS);
            if let Some(more) = self.words[from..guess].iter().rposition(is_upto) {
                return from + more;
            }
        }
        self.last_upto(word)
    }

    /// Bytes of the node.
    pub fn bytes(&self) -> usize {
        self.place_of_word(self.len())
    }

    /// Where the word of a child lies, in bytes from the node's beginning: for [`Nodes::prefetch`].
    pub fn place_of_word(&self, index: usize) -> usize {
        NODE_HEAD + REFS_HEAD + (self.refs.len() * 2 + index) * 8
    }

    /// As above, of its reference.
    pub fn place_of_node(&self, index: usize) -> usize {
        NODE_HEAD + REFS_HEAD + index * 8
    }

    /// A new node with another child at `at`.
    pub fn copied(&self, nodes: &dyn Nodes, at: usize, new: Child) -> Result<Ref, Fault> {
        let mut refs: SmallVec<[Ref; 96]> = SmallVec::from_slice(self.refs);
        refs[at] = new.node;
        let (count, word) = (new.count.to_le_bytes(), new.word.to_le_bytes());
        let (counts, words) = (self.counts.as_flattened(), self.words.as_flattened());
        let place = at * 8;
        nodes.make(
            &refs,
            &[&counts[..place], &count, &counts[place + 8..], &words[..place], &word, &words[place + 8..]],
        )
    }

    /// Elements below the first `index` children.
    pub fn before(&self, index: usize) -> u64 {
        self.sum(0, index)
    }
}

/// Puts a child into an inner node.
#[inline]
pub fn set_child(refs: &mut [Ref], data: &mut [u8], at: usize, new: Child) {
    let many = refs.len();
    let words = data.as_chunks_mut().0;
    refs[at] = new.node;
    words[at] = new.count.to_le_bytes();
    words[many + at] = new.word.to_le_bytes();
}

/// A leaf (S5: it is a run, not empty, and not too long).
#[inline]
pub fn leaf(nodes: &dyn Nodes, node: Ref) -> Result<Run<'_>, Fault> {
    let (refs, data) = nodes.parts(node)?;
    let run = Run::read(data, refs)?;
    if run.count() == 0 || data.len() + refs_size(refs.len()) > LEAF_MAX {
        return Err(DAMAGED);
    }
    Ok(run)
}

/// A tree's height, if it can be true.
pub fn checked_height(tree: &Tree) -> Result<u8, Fault> {
    if tree.height > HEIGHT_MAX || tree.root.is_none() != (tree.count == 0) {
        Err(DAMAGED)
    } else {
        Ok(tree.height)
    }
}

/// The word of the first element, as the root tells it.
pub fn first_word(nodes: &dyn Nodes, rule: &Rule, tree: &Tree) -> Result<u64, Fault> {
    match tree.height {
        0 => word_of(nodes, rule, &leaf(nodes, tree.root)?, 0),
        _ => Ok(Inner::read(nodes, tree.root)?.word(0)),
    }
}

/// The leaf that holds the element at `rank`, and its index there.
pub fn leaf_at<'a>(nodes: &'a dyn Nodes, tree: &Tree, mut rank: u64) -> Result<(Run<'a>, usize), Fault> {
    let (mut node, mut total) = (tree.root, tree.count);
    for _ in 0..checked_height(tree)? {
        let inner = Inner::read(nodes, node)?;
        let (index, below) = inner.find(rank, total)?;
        (node, rank, total) = (inner.node(index), below, inner.count(index));
    }
    let run = leaf(nodes, node)?;
    if rank >= run.count() as u64 {
        return Err(DAMAGED);
    }
    Ok((run, rank as usize))
}

/// The last leaf of a tree that has one.
pub fn last_leaf<'a>(nodes: &'a dyn Nodes, tree: &Tree) -> Result<(Ref, Run<'a>), Fault> {
    let mut node = tree.root;
    for _ in 0..checked_height(tree)? {
        let inner = Inner::read(nodes, node)?;
        node = inner.node(inner.len() - 1);
    }
    Ok((node, leaf(nodes, node)?))
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
    let (mut refs, mut words) = ([Ref::NONE; FANOUT], [[0; 8]; FANOUT * 2]);
    let many = children.len();
    for (index, child) in children.iter().enumerate() {
        refs[index] = child.node;
        words[index] = child.count.to_le_bytes();
        words[many + index] = child.word.to_le_bytes();
    }
    let node = nodes.make(&refs[..many], &[words[..many * 2].as_flattened()])?;
    let count = children.iter().fold(0, |sum, child| child.count.wrapping_add(sum));
    Ok(Child { node, count, word: children[0].word })
}

/// Full inner nodes above nodes that stand side by side; the last one has what is left.
pub fn row_above(nodes: &dyn Nodes, row: &[Child]) -> Result<Vec<Child>, Fault> {
    row.chunks(FANOUT).map(|group| make_inner(nodes, group)).collect()
}

/// The tree over nodes that stand side by side at one level.
pub fn raise(nodes: &dyn Nodes, mut row: Vec<Child>, mut height: u8) -> Result<Tree, Fault> {
    while row.len() > 1 {
        (row, height) = (row_above(nodes, &row)?, height + 1);
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
    pub fn push(
        &mut self,
        nodes: &dyn Nodes,
        bytes: &[u8],
        tree: Option<Ref>,
        word: u64,
    ) -> Result<(), Fault> {
        let size =
            self.run.len() + run::ENTRY + bytes.len() + refs_size(self.refs.len() + tree.is_some() as usize);
        if self.run.count() > 0 && size > LEAF_MAX {
            self.flush(nodes)?;
        }
        if self.run.count() == 0 {
            self.word = word;
        }
        self.run.push(bytes, tree.is_some());
        self.refs.extend(tree);
        Ok(())
    }

    /// Adds the elements of a leaf from `from` up to `upto`, with the references of its long ones. They must fit.
    pub fn push_run(
        &mut self,
        nodes: &dyn Nodes,
        rule: &Rule,
        run: &Run<'_>,
        from: usize,
        upto: usize,
    ) -> Result<(), Fault> {
        if from < upto {
            if self.run.count() == 0 {
                self.word = word_of(nodes, rule, run, from)?;
            }
            self.refs.extend_from_slice(run.refs().get(run.stubs(from)..run.stubs(upto)).ok_or(DAMAGED)?);
            self.run.push_run(run, from, upto)?;
        }
        Ok(())
    }

    /// Adds an element; a long one gets its tree.
    pub fn add(&mut self, nodes: &dyn Nodes, bytes: &[u8], word: u64) -> Result<(), Fault> {
        if bytes.len() <= SHORT_MAX {
            return self.push(nodes, bytes, None, word);
        }
        let root = string::make_tree(nodes, bytes)?;
        self.push(nodes, &run::stub(&root, word), Some(root.refs[0]), word)
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

/// Looks at every node of a tree and shows each to `visit`: all rules of the format hold (Q1 to Q3), and Q4 if it is `sorted`.
///
/// # Errors
/// [`Fault::Damaged`] with the first thing that is wrong.
pub fn check(
    nodes: &dyn Nodes,
    tree: &Tree,
    rule: &Rule,
    sorted: bool,
    visit: &mut dyn FnMut(Ref),
) -> Result<(), Fault> {
    check_all(nodes, tree, Some((rule, sorted)), visit)
}

/// As [`check`], of a tree whose rule is not known: its words are compared with each other only.
///
/// # Errors
/// As [`check`].
pub fn check_shape(nodes: &dyn Nodes, tree: &Tree, visit: &mut dyn FnMut(Ref)) -> Result<(), Fault> {
    check_all(nodes, tree, None, visit)
}

fn check_all(
    nodes: &dyn Nodes,
    tree: &Tree,
    rule: Option<(&Rule, bool)>,
    visit: &mut dyn FnMut(Ref),
) -> Result<(), Fault> {
    let height = checked_height(tree)?;
    if tree.count == 0 {
        return Ok(());
    }
    let mut check = Check { nodes, rule, visit, last: None };
    match check.node(tree.root, height, None, (true, true))? {
        count if count == tree.count => Ok(()),
        _ => Err(Fault::Damaged { what: "the count of a tree of elements" }),
    }
}

struct Check<'c> {
    nodes: &'c dyn Nodes,
    /// And whether the elements are sorted by it.
    rule: Option<(&'c Rule, bool)>,
    visit: &'c mut dyn FnMut(Ref),
    /// The element before.
    last: Option<Element<'c>>,
}

impl<'c> Check<'c> {
    /// Checks a node whose first element is told to have `word`. Returns how many elements are
    /// below it.
    fn node(
        &mut self,
        node: Ref,
        level: u8,
        word: Option<u64>,
        (left, right): (bool, bool),
    ) -> Result<u64, Fault> {
        (self.visit)(node);
        if level == 0 {
            return self.leaf(node, word, left || right);
        }
        let inner = Inner::read(self.nodes, node)?;
        if inner.len() < INNER_MIN && !left && !right {
            return Err(THIN);
        }
        if word.is_some_and(|word| word != inner.word(0)) {
            return Err(Fault::Damaged { what: "the words of a tree of elements" });
        }
        let (last, mut sum) = (inner.len() - 1, 0u64);
        for index in 0..inner.len() {
            let told = inner.child(index);
            if self.node(
                told.node,
                level - 1,
                Some(told.word),
                (left && index == 0, right && index == last),
            )? != told.count
            {
                return Err(Fault::Damaged { what: "the counts of a tree of elements" });
            }
            sum = sum.checked_add(told.count).ok_or(DAMAGED)?;
        }
        Ok(sum)
    }

    fn leaf(&mut self, node: Ref, word: Option<u64>, edge: bool) -> Result<u64, Fault> {
        let run = leaf(self.nodes, node)?;
        if run.size() < LEAF_MIN && !edge {
            return Err(THIN);
        }
        let count = run.count();
        if run.used() > run.room() || run.stubs(count) != run.refs().len() {
            return Err(Fault::Damaged { what: "a leaf of elements" });
        }
        for index in 0..count {
            let element = run.at(index)?;
            match element {
                Element::Short(bytes) if bytes.len() > SHORT_MAX => return Err(DAMAGED),
                Element::Long(root) if root.count <= SHORT_MAX as u64 => return Err(DAMAGED),
                Element::Long(root) => string::check_tree(self.nodes, &root, self.visit)?,
                Element::Short(_) => {}
            }
            if let Some((rule, true)) = self.rule {
                self.order(rule, &run, index, element)?;
            }
        }
        match (self.rule, word) {
            (Some((rule, _)), Some(word)) if word_of(self.nodes, rule, &run, 0)? != word => {
                Err(Fault::Damaged { what: "the words of a tree of elements" })
            }
            _ => Ok(count as u64),
        }
    }

    /// Whether an element comes behind the one before.
    fn order(&mut self, rule: &Rule, run: &Run<'_>, index: usize, element: Element<'c>) -> Result<(), Fault> {
        let bytes = element.bytes(self.nodes)?;
        let last = self.last.map(|last| last.bytes(self.nodes)).transpose()?;
        let ordered = last.is_none_or(|last| (rule.compare)(&last, &bytes) == Ordering::Less);
        if !ordered || (rule.word)(&bytes) != word_of(self.nodes, rule, run, index)? {
            return Err(Fault::Damaged { what: "the order of a tree of elements" });
        }
        self.last = Some(element);
        Ok(())
    }
}
