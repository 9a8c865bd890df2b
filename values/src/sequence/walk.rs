//! Elements one after the other, straight from the nodes.
use polder_base::{Fault, Ref};
use smallvec::SmallVec;

use super::run::Run;
use super::tree::{self, Inner};
use super::{Element, Sequence};
use crate::Nodes;

/// Where a walk is: a leaf, and the inner nodes above it.
struct Walk<'a> {
    nodes: &'a dyn Nodes,
    /// From the root down, each with the child that the walk is below.
    path: SmallVec<[(Inner<'a>, usize); 4]>,
    run: Option<Run<'a>>,
    index: usize,
    /// How many more there are: no damage makes a walk endless.
    left: u64,
    fault: Option<Fault>,
}

impl<'a> Walk<'a> {
    fn new(nodes: &'a dyn Nodes, sequence: &Sequence<'a>, rank: u64, back: bool) -> Walk<'a> {
        let mut walk = Walk { nodes, path: SmallVec::new(), run: None, index: 0, left: 0, fault: None };
        if let Err(fault) = walk.start(sequence, rank, back) {
            (walk.fault, walk.left) = (Some(fault), 0);
        }
        walk
    }

    fn start(&mut self, sequence: &Sequence<'a>, rank: u64, back: bool) -> Result<(), Fault> {
        let count = sequence.count()?;
        if rank >= count {
            return Ok(());
        }
        self.left = if back { rank + 1 } else { count - rank };
        match sequence {
            Sequence::Packed(bytes) => {
                self.run = Some(Run::read(bytes, &[])?);
                self.index = rank as usize;
            }
            Sequence::Tree(tree) => {
                let (mut node, mut rank, mut total) = (tree.root, rank, tree.count);
                for _ in 0..tree::checked_height(tree)? {
                    let inner = Inner::read(self.nodes, node)?;
                    let (index, below) = inner.find(rank, total)?;
                    self.path.push((inner, index));
                    (node, rank, total) = (inner.node(index), below, inner.count(index));
                }
                let run = tree::leaf(self.nodes, node)?;
                if rank >= run.count() as u64 {
                    return Err(Fault::Damaged { what: "a tree of elements" });
                }
                (self.run, self.index) = (Some(run), rank as usize);
            }
        }
        Ok(())
    }

    /// Goes to the next leaf, or the one before.
    fn step(&mut self, back: bool) -> Result<(), Fault> {
        let depth = self.path.len();
        let turn = self
            .path
            .iter()
            .rposition(|(inner, index)| if back { *index > 0 } else { *index + 1 < inner.len() });
        let turn = turn.ok_or(Fault::Damaged { what: "the count of a tree of elements" })?;
        let (inner, index) = &mut self.path[turn];
        *index = if back { *index - 1 } else { *index + 1 };
        let mut node: Ref = inner.node(*index);
        self.path.truncate(turn + 1);
        while self.path.len() < depth {
            let inner = Inner::read(self.nodes, node)?;
            let index = if back { inner.len() - 1 } else { 0 };
            self.path.push((inner, index));
            node = inner.node(index);
        }
        let run = tree::leaf(self.nodes, node)?;
        (self.run, self.index) = (Some(run), if back { run.count() - 1 } else { 0 });
        Ok(())
    }

    fn next(&mut self, back: bool) -> Option<Result<Element<'a>, Fault>> {
        if let Some(fault) = self.fault.take() {
            return Some(Err(fault));
        }
        let run = self.run.filter(|_| self.left > 0)?;
        let element = run.at(self.index);
        self.left -= 1;
        if self.left > 0 {
            let more = if back { self.index > 0 } else { self.index + 1 < run.count() };
            if more {
                self.index = if back { self.index - 1 } else { self.index + 1 };
            } else if let Err(fault) = self.step(back) {
                (self.fault, self.left) = (Some(fault), 0);
            }
        }
        if element.is_err() {
            (self.fault, self.left) = (None, 0);
        }
        Some(element)
    }
}

/// Elements that lie side by side.
pub struct Stretch<'a> {
    run: Run<'a>,
    from: usize,
    upto: usize,
}

impl<'a> Stretch<'a> {
    /// Each of them.
    pub fn elements(&self) -> impl Iterator<Item = Result<Element<'a>, Fault>> {
        let run = self.run;
        (self.from..self.upto).map(move |index| run.at(index))
    }

    /// All their bytes, and in `ends` where in them each ends; `None` where long ones are among them.
    pub fn bytes(&self, ends: &mut SmallVec<[u16; 256]>) -> Option<&'a [u8]> {
        if !self.run.refs().is_empty() {
            return None;
        }
        let bytes = self.run.slice(self.from, self.upto).ok()?;
        ends.clear();
        self.run.ends(self.from, self.upto, ends);
        // S5: the code that takes them apart may rely on it.
        (ends.is_sorted() && ends.last().is_none_or(|last| usize::from(*last) == bytes.len()))
            .then_some(bytes)
    }
}

/// See [`Sequence::stretches`].
pub struct Stretches<'a>(Walk<'a>);

impl<'a> Stretches<'a> {
    pub(super) fn new(nodes: &'a dyn Nodes, sequence: &Sequence<'a>, rank: u64, count: u64) -> Stretches<'a> {
        let mut walk = Walk::new(nodes, sequence, rank, false);
        walk.left = walk.left.min(count);
        Stretches(walk)
    }
}

impl<'a> Iterator for Stretches<'a> {
    type Item = Result<Stretch<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let walk = &mut self.0;
        if let Some(fault) = walk.fault.take() {
            return Some(Err(fault));
        }
        let run = walk.run.filter(|_| walk.left > 0)?;
        let many = walk.left.min((run.count() - walk.index) as u64);
        let stretch = Stretch { run, from: walk.index, upto: walk.index + many as usize };
        walk.left -= many;
        if walk.left > 0
            && let Err(fault) = walk.step(false)
        {
            (walk.fault, walk.left) = (Some(fault), 0);
        }
        Some(Ok(stretch))
    }
}

/// See [`Sequence::iter`].
pub struct Iter<'a>(Walk<'a>);

impl<'a> Iter<'a> {
    pub(super) fn new(nodes: &'a dyn Nodes, sequence: &Sequence<'a>, rank: u64) -> Iter<'a> {
        Iter(Walk::new(nodes, sequence, rank, false))
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<Element<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(false)
    }
}

/// See [`Sequence::iter_back`].
pub struct IterBack<'a>(Walk<'a>);

impl<'a> IterBack<'a> {
    pub(super) fn new(nodes: &'a dyn Nodes, sequence: &Sequence<'a>, rank: u64) -> IterBack<'a> {
        IterBack(Walk::new(nodes, sequence, rank, true))
    }
}

impl<'a> Iterator for IterBack<'a> {
    type Item = Result<Element<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(true)
    }
}
