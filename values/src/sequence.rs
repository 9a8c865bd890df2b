//! Sequences: what lists, hashes, sets, sorted sets and streams are made of. Small ones are one packed run; past about 1 KiB
//! they become a counted tree of runs, in which everything by rank or by order takes a path and not a walk.
//!
//! ```text
//!   packed       flags (1) | run                                           sequence/run.rs: what a run is
//!
//!   tree         Root { refs = [tree, second tree], count = elements of the first,
//!                       extra = height (8) | height of the second (8) | flags (8) | count of the second (40) }
//!
//!   height 1     inner:  refs  [ child  child  child ]     up to FANOUT
//!                        data  [ count  count  count ]     elements below each, 8 bytes
//!                              [ word   word   word  ]     the word of the first element below each, 8 bytes
//!   height 0     leaf:   refs  [ tree of each long element ]
//!                        data  run, room
//! ```
//! - **Q1** An element of at most [`SHORT_MAX`] bytes lies in its run; a longer one is a tree of chunks (`string`) and a stub.
//! - **Q2** All leaves are equally deep, and no node is empty. But for those along the left and right edge every node is about a quarter
//!   full at least, so memory comes back when a sequence shrinks.
//! - **Q3** The counts of an inner node are the sums of what is below; its words are those of the first elements.
//! - **Q4** A tree with a [`Rule`] other than [`BY_POSITION`] is sorted by it, strictly.
//!
//! A change copies the leaf it touches and the path; nodes of the same transaction are edited in place. No slice of a node is
//! used after a change. A damaged segment gives [`Fault::Damaged`] (S5): heights, counts and places are checked where used.

mod edit;
mod extend;
mod merge;
mod near;
mod packed;
mod run;
mod search;
mod size;
mod tree;
mod walk;

use std::borrow::Cow;
use std::cmp::Ordering;

use polder_base::{Fault, Ref};

use crate::{Nodes, Root, Value, string};
use merge::Merge;
pub use merge::{ByName, Decide, Item};
pub use packed::{Edit, Packed, Removed};
use run::Run;
pub use tree::{check, check_shape};
pub use walk::{Iter, IterBack, Stretch, Stretches};

/// Elements longer than this, in bytes, live in a tree of chunks of their own.
pub const SHORT_MAX: usize = 512;

/// The longest packed value, in bytes, flags included.
pub const RUN_MAX: usize = 1024;

/// One element as it is stored. What its bytes mean is up to the kind that put it there.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    Short(&'a [u8]),
    /// A tree as `string::make_tree` makes it, however short.
    Long(Root),
}

impl<'a> Element<'a> {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Element::Short(bytes) => bytes.len() as u64,
            Element::Long(root) => root.count,
        }
    }

    /// Whether it is the empty element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All its bytes in one run, copied only where they are a tree.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when that tree is not one.
    pub fn bytes(&self, nodes: &'a dyn Nodes) -> Result<Cow<'a, [u8]>, Fault> {
        match self {
            Element::Short(bytes) => Ok(Cow::Borrowed(bytes)),
            Element::Long(_) => string::contiguous(nodes, &self.value()),
        }
    }

    /// It as a string: for `string::pieces` and `string::read_at`.
    pub fn value(&self) -> Value<'a> {
        match self {
            Element::Short(bytes) => Value::Packed(bytes),
            Element::Long(root) => Value::Tree(*root),
        }
    }
}

/// How the elements of a sequence are sorted.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Elements are sorted by this word first ...
    pub word: fn(&[u8]) -> u64,
    /// ... and this is the whole order, which agrees with the words.
    pub compare: fn(&[u8], &[u8]) -> Ordering,
    /// False: while packed, the elements stand in the order of their arrival.
    pub packed_sorted: bool,
}

/// The rule of a list: elements stand where they were put. Its `compare` is never called.
pub const BY_POSITION: Rule = Rule { word: |_| 0, compare: |_, _| Ordering::Equal, packed_sorted: true };

/// A counted tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    /// [`Ref::NONE`] when there are no elements.
    pub root: Ref,
    pub count: u64,
    pub height: u8,
}

impl Tree {
    /// The last element, if there is one, and the leaf that holds it.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the nodes are not what they should be.
    pub fn last<'a>(&self, nodes: &'a dyn Nodes) -> Result<Option<(Ref, Element<'a>)>, Fault> {
        if self.count == 0 {
            return Ok(None);
        }
        let (leaf, run) = tree::last_leaf(nodes, self)?;
        Ok(Some((leaf, run.at(run.count() - 1)?)))
    }
}

/// A sequence, for reading.
#[derive(Clone, Copy, Debug)]
pub enum Sequence<'a> {
    Packed(&'a [u8]),
    Tree(Tree),
}

/// What lies between the ends, from the beginning on.
pub(crate) fn slices<'b>(bytes: &'b [u8], ends: &[usize]) -> Vec<&'b [u8]> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| &bytes[start..*end]).collect()
}

/// Where something is, or would be.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// How many elements come before it.
    pub rank: u64,
    /// The element there, if it is the one that was sought.
    pub found: Option<Element<'a>>,
}

/// The flags of a value made by [`Draft::value`].
pub fn flags(value: &Value<'_>) -> u8 {
    match value {
        Value::Packed(bytes) => bytes.first().copied().unwrap_or(0),
        Value::Tree(root) => (root.extra >> 16) as u8,
    }
}

impl<'a> Sequence<'a> {
    /// The sequence of a value made by [`Draft::value`], the first one if there are two.
    pub fn of(value: &Value<'a>) -> Sequence<'a> {
        match value {
            Value::Packed(bytes) => Sequence::Packed(bytes.get(1..).unwrap_or(&[])),
            Value::Tree(root) => {
                Sequence::Tree(Tree { root: root.refs[0], count: root.count, height: root.extra as u8 })
            }
        }
    }

    /// The second tree of a value; an empty one where there is none.
    pub fn second(value: &Value<'_>) -> Tree {
        match value {
            Value::Packed(_) => Tree::default(),
            Value::Tree(root) => {
                Tree { root: root.refs[1], count: root.extra >> 24, height: (root.extra >> 8) as u8 }
            }
        }
    }

    /// How many elements there are.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when a packed value is no run.
    pub fn count(&self) -> Result<u64, Fault> {
        match self {
            Sequence::Packed(bytes) => Ok(Run::read(bytes, &[])?.count() as u64),
            Sequence::Tree(tree) => Ok(tree.count),
        }
    }

    /// The element at `rank`, if there is one. O(log n).
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the nodes are not what they should be.
    pub fn at(&self, nodes: &'a dyn Nodes, rank: u64) -> Result<Option<Element<'a>>, Fault> {
        self.by_rank(nodes)?.at(rank)
    }

    /// The same for several ranks, one after the other.
    ///
    /// # Errors
    /// As [`Sequence::count`].
    pub fn by_rank(&self, nodes: &'a dyn Nodes) -> Result<ByRank<'a>, Fault> {
        Ok(ByRank { nodes, sequence: *self, count: self.count()?, leaf: None })
    }

    /// The elements from `rank` upwards.
    pub fn iter(&self, nodes: &'a dyn Nodes, rank: u64) -> Iter<'a> {
        Iter::new(nodes, self, rank)
    }

    /// Up to `count` elements from `rank` upwards, those of a node together.
    pub fn stretches(&self, nodes: &'a dyn Nodes, rank: u64, count: u64) -> Stretches<'a> {
        Stretches::new(nodes, self, rank, count)
    }

    /// The elements from `rank` downwards to the first one; none if `rank` lies past the end.
    pub fn iter_back(&self, nodes: &'a dyn Nodes, rank: u64) -> IterBack<'a> {
        IterBack::new(nodes, self, rank)
    }

    /// Where `compare`, which says how an element stands to what is sought, turns: the rank of the first element that is not `Less`,
    /// and that element if it is `Equal`. `word` is the word of what is sought: it steers the way down a tree, O(log n), and `compare` is
    /// asked only about elements with the same word.
    /// Packed and not sorted: looks for the first `Equal` element; if there is none, the rank is the count.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the nodes are not what they should be.
    pub fn seek(
        &self,
        nodes: &'a dyn Nodes,
        rule: &Rule,
        word: u64,
        compare: &mut dyn FnMut(&[u8]) -> Ordering,
    ) -> Result<Place<'a>, Fault> {
        search::seek(nodes, self, rule, word, compare)
    }

    /// The first element that is `Equal`, if there is one; for the rest as [`Sequence::seek`], which costs more in a tree.
    ///
    /// # Errors
    /// As [`Sequence::seek`].
    pub fn find(
        &self,
        nodes: &'a dyn Nodes,
        rule: &Rule,
        word: u64,
        compare: &mut dyn FnMut(&[u8]) -> Ordering,
    ) -> Result<Option<Element<'a>>, Fault> {
        search::find(nodes, self, rule, word, compare)
    }

    /// Brings near what is going to be looked at for elements with these words, the misses of all together.
    pub fn bring(&self, nodes: &dyn Nodes, words: impl Iterator<Item = u64>) {
        if let Sequence::Tree(tree) = self {
            near::bring(nodes, tree, words);
        }
    }

    /// Looks for many elements at once, those with these words: as [`Sequence::find`] for each,
    /// whose `compare` is told its number. In a tree their cache misses overlap.
    ///
    /// # Errors
    /// As [`Sequence::seek`].
    pub fn find_all(
        &self,
        nodes: &'a dyn Nodes,
        rule: &Rule,
        words: &[u64],
        compare: &mut dyn FnMut(usize, &[u8]) -> Ordering,
    ) -> Result<Vec<Option<Element<'a>>>, Fault> {
        match self {
            Sequence::Tree(tree) if words.len() > 1 => near::find_all(nodes, rule, tree, words, compare),
            _ => {
                let each = words.iter().enumerate();
                each.map(|(number, word)| self.find(nodes, rule, *word, &mut |bytes| compare(number, bytes)))
                    .collect()
            }
        }
    }
}

/// Elements of a sequence, looked at by their ranks: for one beside the last one there is no way down a tree.
pub struct ByRank<'a> {
    nodes: &'a dyn Nodes,
    sequence: Sequence<'a>,
    count: u64,
    /// Where the last one lay, and the rank of the first one there.
    leaf: Option<(Run<'a>, u64)>,
}

impl<'a> ByRank<'a> {
    /// See [`Sequence::at`].
    ///
    /// # Errors
    /// As there.
    pub fn at(&mut self, rank: u64) -> Result<Option<Element<'a>>, Fault> {
        if let Some((run, first)) = &self.leaf
            && let Some(index) = rank.checked_sub(*first)
            && index < run.count() as u64
        {
            return run.at(index as usize).map(Some);
        }
        if rank >= self.count {
            return Ok(None);
        }
        let (run, index) = match &self.sequence {
            Sequence::Packed(bytes) => (Run::read(bytes, &[])?, rank as usize),
            Sequence::Tree(tree) => tree::leaf_at(self.nodes, tree, rank)?,
        };
        self.leaf = Some((run, rank - index as u64));
        run.at(index).map(Some)
    }
}

/// A sequence that is being changed inside one transaction.
///
/// Start from the key's value (or from nothing), change it, and publish [`Draft::value`] as an edit. When an error comes out
/// of a change the transaction must be given up: the draft is between two states.
#[derive(Debug)]
pub struct Draft {
    form: Form,
    /// Never packed by itself.
    index: bool,
}

#[derive(Debug)]
enum Form {
    /// Flags and run, as in the value. Longer than [`RUN_MAX`] only inside a call.
    Packed(Vec<u8>),
    Tree(Tree),
}

impl Draft {
    /// No elements.
    pub fn empty() -> Draft {
        Draft { form: Form::Packed(vec![0; 1 + run::HEAD]), index: false }
    }

    /// A copy of a packed sequence; a tree is shared until it is changed.
    pub fn of(sequence: &Sequence<'_>) -> Draft {
        let form = match sequence {
            Sequence::Packed(bytes) => {
                let mut packed = Vec::with_capacity(bytes.len() + 1 + 32);
                packed.push(0);
                packed.extend_from_slice(bytes);
                Form::Packed(packed)
            }
            Sequence::Tree(tree) => Form::Tree(*tree),
        };
        Draft { form, index: false }
    }

    /// A tree that stays one however small it gets ([`Tree::default`] for a new one): for the trees of a kind that has two.
    pub fn index(tree: Tree) -> Draft {
        Draft { form: Form::Tree(tree), index: true }
    }

    /// The sequence as it is now.
    pub fn sequence(&self) -> Sequence<'_> {
        match &self.form {
            Form::Packed(bytes) => Sequence::Packed(&bytes[1..]),
            Form::Tree(tree) => Sequence::Tree(*tree),
        }
    }

    /// Whether it is a tree now.
    pub fn is_tree(&self) -> bool {
        matches!(self.form, Form::Tree(_))
    }

    /// The tree, if it is one.
    pub fn tree(&self) -> Option<Tree> {
        match self.form {
            Form::Packed(_) => None,
            Form::Tree(tree) => Some(tree),
        }
    }

    /// Puts an element, `parts` one after the other, before the one at `rank`. A packed sequence may become a tree by this: if it was not
    /// sorted it is then, and ranks are others. The parts may lie in nodes of this very sequence.
    ///
    /// # Errors
    /// [`Fault::Full`] when there is no room for new nodes; [`Fault::Damaged`], also when `rank` is past the end.
    pub fn insert(
        &mut self,
        nodes: &dyn Nodes,
        rule: &Rule,
        rank: u64,
        parts: &[&[u8]],
    ) -> Result<(), Fault> {
        self.splice(nodes, rule, rank, false, parts)
    }

    /// Puts an element in the place of the one at `rank`, whose place in the order it must share. As [`Draft::insert`].
    ///
    /// # Errors
    /// As [`Draft::insert`].
    pub fn replace(
        &mut self,
        nodes: &dyn Nodes,
        rule: &Rule,
        rank: u64,
        parts: &[&[u8]],
    ) -> Result<(), Fault> {
        self.splice(nodes, rule, rank, true, parts)
    }

    fn splice(
        &mut self,
        nodes: &dyn Nodes,
        rule: &Rule,
        rank: u64,
        replaces: bool,
        parts: &[&[u8]],
    ) -> Result<(), Fault> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let packed = match &mut self.form {
            Form::Packed(packed) => packed,
            Form::Tree(tree) => return edit::splice(nodes, rule, tree, rank, replaces, parts),
        };
        if length > SHORT_MAX {
            return self.splice_long(nodes, rule, rank, replaces, parts);
        }
        edit::splice_packed(packed, rank, replaces as u64, Some(parts))?;
        if packed.len() > RUN_MAX {
            self.make_tree(nodes, rule)?;
        }
        Ok(())
    }

    /// A packed sequence gets an element that no run can hold.
    fn splice_long(
        &mut self,
        nodes: &dyn Nodes,
        rule: &Rule,
        rank: u64,
        replaces: bool,
        parts: &[&[u8]],
    ) -> Result<(), Fault> {
        let Form::Packed(packed) = &mut self.form else { unreachable!("asked of packed sequences only") };
        if replaces {
            edit::splice_packed(packed, rank, 1, None)?;
        }
        let was_sorted = rule.packed_sorted;
        self.make_tree(nodes, rule)?;
        let bytes = parts.concat();
        let rank = if was_sorted {
            rank
        } else {
            self.sequence()
                .seek(nodes, rule, (rule.word)(&bytes), &mut |other| (rule.compare)(other, &bytes))?
                .rank
        };
        self.splice(nodes, rule, rank, false, &[&bytes])
    }

    /// Puts `head` over the first bytes of a tree's last element, which is not shorter, and `tail`,
    /// piece by piece, behind it. Its place in the order must stay what it was. `leaf` is the leaf
    /// that holds it ([`Tree::last`]). Returns whether it still does.
    ///
    /// # Errors
    /// As [`Draft::insert`].
    ///
    /// # Panics
    /// When it is no tree, or has no element.
    pub fn lengthen_last(
        &mut self,
        nodes: &dyn Nodes,
        rule: &Rule,
        leaf: Ref,
        head: &[u8],
        tail: &[&[u8]],
    ) -> Result<bool, Fault> {
        let Form::Tree(tree) = &mut self.form else { panic!("a packed sequence is lengthened by replacing") };
        edit::lengthen_last(nodes, rule, tree, leaf, head, tail)
    }

    /// Takes `count` elements out, from the one at `rank` on, and releases their nodes. A tree that has become small becomes packed.
    ///
    /// # Errors
    /// As [`Draft::insert`].
    pub fn remove(&mut self, nodes: &dyn Nodes, rule: &Rule, rank: u64, count: u64) -> Result<(), Fault> {
        if count == 0 {
            return Ok(());
        }
        match &mut self.form {
            Form::Packed(packed) => edit::splice_packed(packed, rank, count, None),
            Form::Tree(tree) => {
                edit::remove(nodes, rule, tree, rank, count)?;
                if !self.index {
                    self.pack(nodes)?;
                }
                Ok(())
            }
        }
    }

    /// Packs a tree again that holds a few hundred bytes at most, and no long element. Returns
    /// whether it is packed now.
    ///
    /// # Errors
    /// As [`Draft::insert`].
    pub fn pack(&mut self, nodes: &dyn Nodes) -> Result<bool, Fault> {
        let Form::Tree(tree) = &self.form else { return Ok(true) };
        match edit::packed(nodes, tree)? {
            Some(packed) => {
                self.form = Form::Packed(packed);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Adds elements at the end, in full leaves. They must be where the rule wants them; a packed sequence that is
    /// not sorted takes them in any order, if it ends as a tree they are sorted.
    ///
    /// # Errors
    /// As [`Draft::insert`].
    pub fn extend(
        &mut self,
        nodes: &dyn Nodes,
        rule: &Rule,
        elements: &mut dyn Iterator<Item = &[u8]>,
    ) -> Result<(), Fault> {
        extend::extend(self, nodes, rule, elements)
    }

    /// Adds elements before the first one, each before the one that came before it, in full leaves. They must be where the rule wants them, which
    /// must be one that keeps packed sequences sorted.
    ///
    /// # Errors
    /// As [`Draft::insert`].
    pub fn extend_front(
        &mut self,
        nodes: &dyn Nodes,
        rule: &Rule,
        elements: &mut dyn Iterator<Item = &[u8]>,
    ) -> Result<(), Fault> {
        extend::extend_front(self, nodes, rule, elements)
    }

    /// Puts items into a tree that is not empty, each where it belongs, or takes them out. An item
    /// that is there is replaced if `decide` says so. Returns for each, by its number, whether it
    /// is new. Returns `None`, having done nothing, if it is no such tree. Items with the same name
    /// are put in one after the other, in the order of their numbers.
    ///
    /// # Errors
    /// As [`Draft::insert`].
    pub fn upsert_all<'e>(
        &mut self,
        nodes: &dyn Nodes,
        rule: &Rule,
        by_name: ByName,
        items: impl Iterator<Item = Item<'e>>,
        decide: Decide<'_>,
    ) -> Result<Option<Vec<bool>>, Fault> {
        let Form::Tree(tree) = &mut self.form else { return Ok(None) };
        if tree.count == 0 {
            return Ok(None);
        }
        let mut items: Vec<Item<'e>> = items.collect();
        Merge::new(nodes, rule, by_name, decide).upsert_in_turn(tree, &mut items)?;
        let mut new = vec![false; items.len()];
        items.iter().for_each(|item| new[item.number] = !item.found);
        Ok(Some(new))
    }

    /// Makes a packed sequence a tree, sorted by the rule.
    ///
    /// # Errors
    /// As [`Draft::insert`].
    pub fn make_tree(&mut self, nodes: &dyn Nodes, rule: &Rule) -> Result<(), Fault> {
        if let Form::Packed(packed) = &self.form {
            self.form = Form::Tree(edit::tree_of_packed(nodes, rule, &packed[1..])?);
        }
        Ok(())
    }

    /// The value to publish. `flags` and `second` are the caller's own; a packed value has no second tree.
    pub fn value(&mut self, flags: u8, second: Tree) -> Value<'_> {
        match &mut self.form {
            Form::Packed(bytes) => {
                debug_assert!(second.root.is_none(), "a packed value has no second tree");
                bytes[0] = flags;
                Value::Packed(bytes)
            }
            Form::Tree(tree) => Value::Tree(Root {
                refs: [tree.root, second.root],
                count: tree.count,
                extra: tree.height as u64
                    | (second.height as u64) << 8
                    | (flags as u64) << 16
                    | second.count << 24,
            }),
        }
    }
}
