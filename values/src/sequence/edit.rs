//! Changes: one way down, one way up, for everything that takes elements out of a sequence or puts one in.
//!
//! On the way up each node is patched in place (if this transaction made it), copied, split, or joined with a sibling when it has become
//! too empty. Nodes on the left and right edge of a tree may be as empty as they like: so queues and logs neither join nor split in
//! the middle, and their leaves are full.

use polder_base::{Fault, Ref};
use smallvec::{SmallVec, smallvec};

use super::run::{self, Patch, Run};
use super::size::{self, LEAF_MAX};
use super::tree::{self, Child, FANOUT, Inner, Leaves};
use super::{Element, RUN_MAX, Rule, SHORT_MAX, Sequence, Tree};
use crate::{Nodes, string};

/// A tree with at most this many bytes of elements becomes packed again: far fewer than make a
/// tree, so that it does not switch to and fro.
const PACK_MAX: usize = RUN_MAX / 2;

const DAMAGED: Fault = Fault::Damaged { what: "a tree of elements" };

/// Nodes side by side.
pub type Row = SmallVec<[Child; 2]>;

/// An element to put in.
pub struct New<'n> {
    /// Its bytes, or those of its stub.
    pub parts: &'n [&'n [u8]],
    /// Of a long one: its tree and its word.
    pub long: Option<(Ref, u64)>,
}

impl New<'_> {
    fn tree(&self) -> Option<Ref> {
        self.long.map(|(tree, _)| tree)
    }

    fn word(&self, rule: &Rule) -> u64 {
        match (self.long, self.parts) {
            (Some((_, word)), _) => word,
            (None, [whole]) => (rule.word)(whole),
            _ => (rule.word)(&self.parts.concat()),
        }
    }
}

/// Whether a node lies on the left or right edge of its tree.
#[derive(Clone, Copy)]
pub struct Edges {
    pub left: bool,
    pub right: bool,
}

impl Edges {
    /// Of a root.
    pub const WHOLE: Edges = Edges { left: true, right: true };

    /// Of a child among `many`.
    pub fn of(self, index: usize, many: usize) -> Edges {
        Edges { left: self.left && index == 0, right: self.right && index + 1 == many }
    }
}

/// One change on its way through a tree: the elements from `from` up to `upto` go, and `new` comes in their place.
pub struct Change<'c> {
    pub nodes: &'c dyn Nodes,
    pub rule: &'c Rule,
    pub new: Option<&'c New<'c>>,
    /// The new element comes after all others, or before.
    pub append: bool,
    pub prepend: bool,
    /// False: no leaf that is changed is of this transaction.
    pub private: bool,
}

/// Whether `gone` elements from `rank` on are there: ranks are found by counts that may be damaged
/// (S5).
fn within(rank: u64, gone: u64, count: u64) -> Result<(), Fault> {
    if rank.checked_add(gone).is_some_and(|end| end <= count) { Ok(()) } else { Err(DAMAGED) }
}

/// Puts an element into a tree, in the place of the one at `rank` or before it. A long one gets a tree of its own.
pub fn splice(
    nodes: &dyn Nodes,
    rule: &Rule,
    tree: &mut Tree,
    rank: u64,
    replaces: bool,
    parts: &[&[u8]],
) -> Result<(), Fault> {
    within(rank, replaces as u64, tree.count)?;
    if parts.iter().map(|part| part.len()).sum::<usize>() <= SHORT_MAX {
        return put(nodes, rule, tree, rank, replaces, &New { parts, long: None });
    }
    let bytes = parts.concat();
    let (root, word) = (string::make_tree(nodes, &bytes)?, (rule.word)(&bytes));
    let stub = run::stub(&root, word);
    put(nodes, rule, tree, rank, replaces, &New { parts: &[&stub], long: Some((root.refs[0], word)) })
}

/// See [`Draft::lengthen_last`]. A leaf of this transaction is lengthened where it lies; nodes of its path are of this transaction, too,
/// and say the same of it as before.
pub fn lengthen_last(
    nodes: &dyn Nodes,
    rule: &Rule,
    tree: &mut Tree,
    leaf: Ref,
    head: &[u8],
    tail: &[&[u8]],
) -> Result<bool, Fault> {
    let mut done = false;
    nodes.edit(leaf, &mut |_, data| done = run::lengthen_in_place(data, head, tail));
    if done {
        return Ok(true);
    }
    let old = tree.last(nodes)?.ok_or(DAMAGED)?.1.bytes(nodes)?.into_owned();
    let mut parts: SmallVec<[&[u8]; 6]> = smallvec![head, old.get(head.len()..).ok_or(DAMAGED)?];
    parts.extend_from_slice(tail);
    splice(nodes, rule, tree, tree.count - 1, true, &parts)?;
    Ok(false)
}

fn put(
    nodes: &dyn Nodes,
    rule: &Rule,
    tree: &mut Tree,
    rank: u64,
    replaces: bool,
    new: &New<'_>,
) -> Result<(), Fault> {
    let change = Change {
        nodes,
        rule,
        new: Some(new),
        append: rank == tree.count,
        prepend: rank == 0 && !replaces,
        private: true,
    };
    if tree.count > 0 {
        return change.apply(tree, rank, rank + replaces as u64);
    }
    let first = change.alone()?;
    *tree = Tree { root: first.node, count: 1, height: 0 };
    Ok(())
}

/// Takes elements out of a tree.
pub fn remove(nodes: &dyn Nodes, rule: &Rule, tree: &mut Tree, rank: u64, count: u64) -> Result<(), Fault> {
    within(rank, count, tree.count)?;
    Change { nodes, rule, new: None, append: false, prepend: false, private: true }.apply(
        tree,
        rank,
        rank + count,
    )
}

/// Takes away what stands above a single node.
pub fn lower(nodes: &dyn Nodes, tree: &mut Tree) -> Result<(), Fault> {
    while tree.height > 0 {
        let inner = Inner::read(nodes, tree.root)?;
        if inner.len() > 1 {
            break;
        }
        let below = inner.node(0);
        nodes.release(tree.root);
        (tree.root, tree.height) = (below, tree.height - 1);
    }
    Ok(())
}

impl Change<'_> {
    fn apply(&self, tree: &mut Tree, from: u64, upto: u64) -> Result<(), Fault> {
        let height = tree::checked_height(tree)?;
        if self.new.is_none() && (from, upto) == (0, tree.count) {
            self.nodes.release_tree(tree.root);
            *tree = Tree::default();
            return Ok(());
        }
        let word = tree::first_word(self.nodes, self.rule, tree)?;
        let root = Child { node: tree.root, count: tree.count, word };
        let row = self.node(root, height, from, upto, Edges::WHOLE)?;
        let lower = row.len() == 1 && self.new.is_none();
        *tree = match row[..] {
            [top] => Tree { root: top.node, count: top.count, height },
            _ => tree::raise(self.nodes, row.to_vec(), height)?,
        };
        if lower { self::lower(self.nodes, tree) } else { Ok(()) }
    }

    /// Changes what is below a node. Returns the nodes that take its place.
    fn node(&self, child: Child, level: u8, from: u64, upto: u64, edges: Edges) -> Result<Row, Fault> {
        if level == 0 {
            return self.leaf(child, from, upto, edges);
        }
        let inner = Inner::read(self.nodes, child.node)?;
        let (first, below) = if self.new.is_some() && from == upto {
            inner.find_gap(from, child.count)?
        } else {
            inner.find(from, child.count)?
        };
        let (old, many) = (inner.child(first), inner.len());
        let length = upto - from;
        // A child that loses its end only is one that has changed, as any other.
        if self.new.is_none() && (below + length > old.count || length == old.count) {
            return self.range(child, level, from, upto, edges);
        }
        let row = self.node(old, level - 1, below, below + length, edges.of(first, many))?;
        let sub = edges.of(first, many);
        let changed = row.first().ok_or(DAMAGED)?;
        let thin =
            length > 0 && many > 1 && !sub.left && !sub.right && self.is_thin(changed.node, level - 1)?;
        if let [new] = row[..]
            && !thin
        {
            return self.patch_inner(child, first, old, new);
        }
        let mut children = inner.children();
        children.splice(first..=first, row);
        if thin {
            self.mend(&mut children, first, level - 1, edges)?;
        }
        self.rebuild(child.node, children)
    }

    /// Takes out a range that ends past the child in which it begins, or takes all of that child.
    fn range(&self, child: Child, level: u8, from: u64, upto: u64, edges: Edges) -> Result<Row, Fault> {
        let inner = Inner::read(self.nodes, child.node)?;
        let (mut children, mut start, mut seam) = (Vec::with_capacity(inner.len()), 0u64, None);
        for index in 0..inner.len() {
            let old = inner.child(index);
            let end = start.checked_add(old.count).ok_or(DAMAGED)?;
            if end <= from || start >= upto {
                children.push(old);
            } else if from <= start && end <= upto {
                seam.get_or_insert(children.len());
                self.nodes.release_tree(old.node);
            } else {
                seam.get_or_insert(children.len());
                let (from, upto) = (from.max(start) - start, upto.min(end) - start);
                children.extend(self.node(old, level - 1, from, upto, edges.of(index, inner.len()))?);
            }
            start = end;
        }
        // The one or two children that have lost something stand side by side now.
        let seam = seam.ok_or(DAMAGED)?;
        for at in [seam + 1, seam] {
            if at < children.len() {
                self.mend(&mut children, at, level - 1, edges)?;
            }
        }
        self.rebuild(child.node, children)
    }

    /// The inner node with one child in another's place.
    fn patch_inner(&self, node: Child, at: usize, old: Child, new: Child) -> Result<Row, Fault> {
        let count = node.count.wrapping_sub(old.count).wrapping_add(new.count);
        let word = if at == 0 { new.word } else { node.word };
        let edited = self.nodes.edit(node.node, &mut |refs, data| tree::set_child(refs, data, at, new));
        if edited {
            return Ok(smallvec![Child { node: node.node, count, word }]);
        }
        let copy = Inner::read(self.nodes, node.node)?.copied(self.nodes, at, new)?;
        self.nodes.release(node.node);
        Ok(smallvec![Child { node: copy, count, word }])
    }

    /// New inner nodes of `children` in the place of `old`.
    fn rebuild(&self, old: Ref, children: Vec<Child>) -> Result<Row, Fault> {
        let many = children.len();
        let row = match many {
            0 => Row::new(),
            1..=FANOUT => smallvec![tree::make_inner(self.nodes, &children)?],
            _ => {
                let cut = if self.append {
                    FANOUT
                } else if self.prepend {
                    many - FANOUT
                } else {
                    many / 2
                };
                smallvec![
                    tree::make_inner(self.nodes, &children[..cut])?,
                    tree::make_inner(self.nodes, &children[cut..])?
                ]
            }
        };
        self.nodes.release(old);
        Ok(row)
    }

    /// Whether a node is so empty that it must be joined with a sibling.
    pub fn is_thin(&self, node: Ref, level: u8) -> Result<bool, Fault> {
        if level > 0 {
            return Ok(Inner::read(self.nodes, node)?.len() < tree::INNER_MIN);
        }
        Ok(tree::leaf(self.nodes, node)?.size() < tree::LEAF_MIN)
    }

    /// Joins the child at `at` of an inner node with a sibling, if it is too empty. `level` is the child's, `edges` are the node's.
    pub fn mend(&self, children: &mut Vec<Child>, at: usize, level: u8, edges: Edges) -> Result<(), Fault> {
        let many = children.len();
        let own = edges.of(at, many);
        if many < 2 || own.left || own.right || !self.is_thin(children[at].node, level)? {
            return Ok(());
        }
        let left = at.saturating_sub(1);
        let both = Edges { left: edges.of(left, many).left, right: edges.of(left + 1, many).right };
        let row = self.join(children[left], children[left + 1], level, both)?;
        children.splice(left..=left + 1, row);
        Ok(())
    }

    /// One or two nodes of what two neighbours hold.
    fn join(&self, one: Child, two: Child, level: u8, edges: Edges) -> Result<Row, Fault> {
        if level == 0 {
            let (left, right) = (tree::leaf(self.nodes, one.node)?, tree::leaf(self.nodes, two.node)?);
            let mut all = run::Builder::default();
            for run in [left, right] {
                for index in 0..run.count() {
                    all.push(run.slice(index, index + 1)?, run.is_long(index));
                }
            }
            let refs: SmallVec<[Ref; 8]> = left.refs().iter().chain(right.refs()).copied().collect();
            let bytes = all.bytes();
            let row = self.cut_leaf(&Run::read(&bytes, &refs)?, left.count())?;
            self.nodes.release(one.node);
            self.nodes.release(two.node);
            return Ok(row);
        }
        let (left, right) = (Inner::read(self.nodes, one.node)?, Inner::read(self.nodes, two.node)?);
        let mut children = left.children();
        let seam = children.len();
        children.extend(right.children());
        for at in [seam, seam - 1] {
            if at < children.len() {
                self.mend(&mut children, at, level - 1, edges)?;
            }
        }
        let row = self.rebuild(one.node, children)?;
        self.nodes.release(two.node);
        Ok(row)
    }
}

/// Leaves.
impl Change<'_> {
    fn patch(&self, at: usize, gone: usize) -> Patch<'_> {
        Patch {
            at,
            gone,
            new: self.new.map(|new| new.parts),
            long: self.new.is_some_and(|new| new.long.is_some()),
        }
    }

    /// A leaf of the new element alone.
    fn alone(&self) -> Result<Child, Fault> {
        let word = self.new.map_or(0, |new| new.word(self.rule));
        let (empty, patch) = (Run::read(&[0, 0], &[])?, self.patch(0, 0));
        self.copy_leaf(&empty, &patch, word, empty.patched_len(&patch)?)
    }

    /// Changes a leaf. Returns the leaves that take its place.
    pub fn leaf(&self, child: Child, from: u64, upto: u64, edges: Edges) -> Result<Row, Fault> {
        let run = tree::leaf(self.nodes, child.node)?;
        if from > upto || upto > run.count() as u64 {
            return Err(DAMAGED);
        }
        let (at, gone, count) = (from as usize, (upto - from) as usize, run.count());
        if self.new.is_none() && gone == count {
            self.nodes.release_tree(child.node);
            return Ok(Row::new());
        }
        let word = match self.new {
            _ if at > 0 => child.word,
            Some(new) => new.word(self.rule),
            None => tree::word_of(self.nodes, self.rule, &run, gone)?,
        };
        let patch = self.patch(at, gone);
        let (length, room) = (run.patched_len(&patch)?, run.room());
        let new_count = count - gone + self.new.is_some() as usize;
        if !self.private && length <= LEAF_MAX && run.refs().is_empty() && !patch.long {
            let node = self.nodes.make_by(length, &mut |bytes| run.patch_into(&patch, bytes))?;
            self.nodes.release(child.node);
            return Ok(smallvec![Child { node, count: new_count as u64, word }]);
        }
        let new_tree = self.new.and_then(New::tree);
        let lost: SmallVec<[Ref; 2]> =
            run.refs().get(run.stubs(at)..run.stubs(at + gone)).ok_or(DAMAGED)?.into();
        let (mut done, keeps_refs) = (false, lost.is_empty() && new_tree.is_none());
        let ours = self.private
            && self.nodes.edit(child.node, &mut |_, data| {
                // What comes may have been read from this very leaf: then it is copied.
                let held = data.as_ptr_range();
                let borrowed = patch.new.unwrap_or_default().iter().any(|part| held.contains(&part.as_ptr()));
                if keeps_refs && length <= room && !borrowed {
                    run::patch_in_place(data, &patch);
                    done = true;
                }
            });
        if done {
            return Ok(smallvec![Child { node: child.node, count: new_count as u64, word }]);
        }
        // It has been lent for writing: nothing that was read before is looked at again.
        let run = if ours { tree::leaf(self.nodes, child.node)? } else { run };
        let refs = run.refs().len() - lost.len() + new_tree.is_some() as usize;
        let size = length + size::refs_size(refs);
        if size > LEAF_MAX && gone == 0 && (self.append && edges.right || self.prepend && edges.left) {
            let alone = self.alone()?;
            return Ok(if self.append && edges.right {
                smallvec![child, alone]
            } else {
                smallvec![alone, child]
            });
        }
        let row = if size <= LEAF_MAX {
            // A leaf that changes for a second time in one transaction will most likely do so again.
            let room = if ours { LEAF_MAX - size } else { 0 };
            smallvec![self.copy_leaf(&run, &patch, word, length + room)?]
        } else {
            let mut bytes = vec![0; length];
            run.patch_into(&patch, &mut bytes);
            self.cut_leaf(&Run::read(&bytes, &self.refs_after(&run, &patch)?)?, at)?
        };
        for tree in lost {
            if !tree.is_none() {
                self.nodes.release_tree(tree);
            }
        }
        self.nodes.release(child.node);
        Ok(row)
    }

    /// The references of a leaf once it is patched.
    fn refs_after(&self, run: &Run<'_>, patch: &Patch<'_>) -> Result<SmallVec<[Ref; 8]>, Fault> {
        let (head, tail) = (run.stubs(patch.at), run.stubs(patch.at + patch.gone));
        let mut refs: SmallVec<[Ref; 8]> = run.refs().get(..head).ok_or(DAMAGED)?.into();
        refs.extend(self.new.and_then(New::tree));
        refs.extend_from_slice(run.refs().get(tail..).ok_or(DAMAGED)?);
        Ok(refs)
    }

    /// A new leaf of a patched run, which has been checked and fits into `length` bytes: the rest
    /// of them are room.
    fn copy_leaf(&self, run: &Run<'_>, patch: &Patch<'_>, word: u64, length: usize) -> Result<Child, Fault> {
        let node = match (run.refs(), patch.long) {
            ([], false) => self.nodes.make_by(length, &mut |bytes| run.patch_into(patch, bytes))?,
            _ => {
                let mut bytes = vec![0; length];
                run.patch_into(patch, &mut bytes);
                self.nodes.make(&self.refs_after(run, patch)?, &[&bytes])?
            }
        };
        let count = run.count() - patch.gone + patch.new.is_some() as usize;
        Ok(Child { node, count: count as u64, word })
    }

    /// Leaves of a run that may be too long for one: halves if that can be, else the element at `at` gets one of its own.
    fn cut_leaf(&self, run: &Run<'_>, at: usize) -> Result<Row, Fault> {
        let count = run.count();
        if run.size() <= LEAF_MAX {
            return Ok(smallvec![self.part(run, 0, count)?]);
        }
        let mut best: Option<(usize, usize)> = None;
        for cut in 1..count {
            let (left, right) = (run.size_of(0, cut), run.size_of(cut, count));
            let uneven = left.abs_diff(right);
            if left.max(right) <= LEAF_MAX && best.is_none_or(|(least, _)| uneven < least) {
                best = Some((uneven, cut));
            }
        }
        if let Some((_, cut)) = best {
            return Ok(smallvec![self.part(run, 0, cut)?, self.part(run, cut, count)?]);
        }
        let mut row = Row::new();
        for (from, upto) in [(0, at), (at, at + 1), (at + 1, count)] {
            if from < upto {
                row.push(self.part(run, from, upto)?);
            }
        }
        Ok(row)
    }

    /// The leaf of a part of a run.
    fn part(&self, run: &Run<'_>, from: usize, upto: usize) -> Result<Child, Fault> {
        let (table, data) = run.cut(from, upto)?;
        let refs = run.refs().get(run.stubs(from)..run.stubs(upto)).ok_or(DAMAGED)?;
        let node = self.nodes.make(refs, &[&table, data])?;
        Ok(Child {
            node,
            count: (upto - from) as u64,
            word: tree::word_of(self.nodes, self.rule, run, from)?,
        })
    }
}

/// Puts an element into a packed sequence in the place of `gone` ones.
pub fn splice_packed(
    packed: &mut Vec<u8>,
    rank: u64,
    gone: u64,
    parts: Option<&[&[u8]]>,
) -> Result<(), Fault> {
    let run = Run::read(&packed[1..], &[])?;
    within(rank, gone, run.count() as u64)?;
    let patch = Patch { at: rank as usize, gone: gone as usize, new: parts, long: false };
    let length = run.patched_len(&patch)?;
    if packed.len() < 1 + length {
        packed.resize(1 + length, 0);
    }
    run::patch_in_place(&mut packed[1..], &patch);
    packed.truncate(1 + length);
    Ok(())
}

/// The tree of the elements of a packed sequence.
pub fn tree_of_packed(nodes: &dyn Nodes, rule: &Rule, packed: &[u8]) -> Result<Tree, Fault> {
    let run = Run::read(packed, &[])?;
    let mut elements = Vec::with_capacity(run.count());
    for index in 0..run.count() {
        elements.push(run.slice(index, index + 1)?);
    }
    build(nodes, rule, elements)
}

/// The tree of elements, which are sorted first if they come in any order.
pub fn build(nodes: &dyn Nodes, rule: &Rule, elements: Vec<&[u8]>) -> Result<Tree, Fault> {
    let mut leaves = Leaves::default();
    for (word, bytes) in sorted(rule, elements) {
        leaves.add(nodes, bytes, word)?;
    }
    leaves.flush(nodes)?;
    tree::raise(nodes, leaves.row, 0)
}

/// Elements with their words, sorted if the rule has them come in any order.
pub fn sorted<'e>(rule: &Rule, elements: Vec<&'e [u8]>) -> Vec<(u64, &'e [u8])> {
    let mut elements: Vec<_> = elements.into_iter().map(|bytes| ((rule.word)(bytes), bytes)).collect();
    if !rule.packed_sorted {
        elements.sort_unstable_by(|one, two| one.0.cmp(&two.0).then_with(|| (rule.compare)(one.1, two.1)));
    }
    elements
}

/// Flags and run of a tree that is small enough; its nodes are then released.
pub fn packed(nodes: &dyn Nodes, tree: &Tree) -> Result<Option<Vec<u8>>, Fault> {
    // One leaf holds more than this: a higher tree has to lose its height first, along the edges of what is left of it.
    if tree.count as usize > PACK_MAX / run::ENTRY {
        return Ok(None);
    }
    let mut builder = run::Builder::default();
    for element in Sequence::Tree(*tree).iter(nodes, 0) {
        match element? {
            Element::Short(bytes) if builder.len() + bytes.len() <= PACK_MAX => builder.push(bytes, false),
            _ => return Ok(None),
        }
    }
    let packed = [&[0][..], &builder.bytes()].concat();
    if !tree.root.is_none() {
        nodes.release_tree(tree.root);
    }
    Ok(Some(packed))
}
