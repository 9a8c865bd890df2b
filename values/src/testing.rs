//! Nodes in ordinary memory, for tests: a transaction at a time, with every node accounted for.
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bumpalo::Bump;

use crate::{Fault, NODE_BYTES_MAX, Nodes, Ref, Root, Value};

/// A memory of nodes. What a test does between two [`Memory::commit`]s is one transaction.
///
/// Slices live as long as the arena: it keeps even what was released, so that nothing here needs unsafe code.
pub struct Memory<'m> {
    arena: &'m Bump,
    inside: RefCell<Inside<'m>>,
}

#[derive(Default)]
struct Inside<'m> {
    nodes: BTreeMap<Ref, (&'m [Ref], &'m [u8])>,
    /// Made by the transaction that is open.
    private: BTreeSet<Ref>,
    last: u64,
    edits: u64,
}

impl<'m> Memory<'m> {
    /// An empty memory whose slices live in `arena`.
    pub fn new(arena: &'m Bump) -> Memory<'m> {
        Memory { arena, inside: RefCell::default() }
    }

    /// Ends the transaction: its nodes are published and cannot be edited any more.
    pub fn commit(&self) {
        self.inside.borrow_mut().private.clear();
    }

    /// All nodes that were made and not released.
    pub fn live(&self) -> BTreeSet<Ref> {
        self.inside.borrow().nodes.keys().copied().collect()
    }

    /// How often a node was edited in place.
    pub fn edits(&self) -> u64 {
        self.inside.borrow().edits
    }

    /// All nodes that a value reaches.
    ///
    /// # Panics
    /// When one of them was released.
    pub fn reachable(&self, value: &Value<'_>) -> BTreeSet<Ref> {
        let Value::Tree(Root { refs, .. }) = value else {
            return BTreeSet::new();
        };
        let mut found = BTreeSet::new();
        let mut open: Vec<Ref> = refs.to_vec();
        while let Some(node) = open.pop() {
            if !node.is_none() && found.insert(node) {
                open.extend_from_slice(self.refs(node).expect("a value names a node that was released"));
            }
        }
        found
    }

    /// Puts other references and data into a node, published or not, as a stray write to the segment would.
    pub fn damage(&self, node: Ref, refs: &[Ref], data: &[u8]) {
        let held = (&*self.arena.alloc_slice_copy(refs), &*self.arena.alloc_slice_copy(data));
        self.inside.borrow_mut().nodes.insert(node, held);
    }
}

impl Nodes for Memory<'_> {
    fn data(&self, node: Ref) -> Result<&[u8], Fault> {
        self.inside.borrow().nodes.get(&node).map(|held| held.1).ok_or(Fault::Damaged { what: "a reference" })
    }

    fn refs(&self, node: Ref) -> Result<&[Ref], Fault> {
        self.inside.borrow().nodes.get(&node).map(|held| held.0).ok_or(Fault::Damaged { what: "a reference" })
    }

    fn make(&self, refs: &[Ref], parts: &[&[u8]]) -> Result<Ref, Fault> {
        let data = parts.concat();
        assert!(refs.len() * 8 + data.len() <= NODE_BYTES_MAX, "a node is too large");
        let mut inside = self.inside.borrow_mut();
        inside.last += 1;
        let node = Ref(inside.last);
        inside.nodes.insert(node, (self.arena.alloc_slice_copy(refs), self.arena.alloc_slice_copy(&data)));
        inside.private.insert(node);
        Ok(node)
    }

    fn edit(&self, node: Ref, change: &mut dyn FnMut(&mut [Ref], &mut [u8])) -> bool {
        let mut inside = self.inside.borrow_mut();
        if !inside.private.contains(&node) {
            return false;
        }
        let (refs, data) = inside.nodes[&node];
        let (refs, data) = (self.arena.alloc_slice_copy(refs), self.arena.alloc_slice_copy(data));
        change(refs, data);
        inside.nodes.insert(node, (refs, data));
        inside.edits += 1;
        true
    }

    fn is_private(&self, node: Ref) -> bool {
        self.inside.borrow().private.contains(&node)
    }

    fn release(&self, node: Ref) {
        assert!(self.inside.borrow_mut().nodes.remove(&node).is_some(), "a node was released twice");
    }

    fn release_tree(&self, node: Ref) {
        for reached in self.reachable(&Value::Tree(Root { refs: [node, Ref::NONE], ..Root::default() })) {
            self.release(reached);
        }
    }
}
