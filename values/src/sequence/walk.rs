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
                let (mut node, mut rank) = (tree.root, rank);
                for _ in 0..tree::checked_height(tree)? {
                    let inner = Inner::read(self.nodes, node)?;
                    let (index, below) = inner.find(rank)?;
                    self.path.push((inner, index));
                    (node, rank) = (inner.node(index), below);
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
        let turn = self.path.iter().rposition(|(inner, index)| if back { *index > 0 } else { *index + 1 < inner.len() });
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
