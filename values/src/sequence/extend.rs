//! Growing at the ends: many elements at once, in full leaves.
//!
//! The leaf at the edge is taken off with the path to it, goes through the builder together with what is new, and everything is put back from
//! the leaves up. At the left edge leaves are filled from their last element on, so that what is left over lies at the edge (Q2).

use polder_base::{Fault, Ref};
use smallvec::SmallVec;

use super::edit::{build, sorted, splice};
use super::run::{self, Run};
use super::size::{self, LEAF_MAX};
use super::tree::{self, FANOUT, Inner, Leaves};
use super::{Draft, Form, RUN_MAX, Rule, SHORT_MAX, Sequence, Tree};
use crate::Nodes;

/// Up to this many elements are put at the end of a tree one by one, in place if possible; more are
/// built into full leaves.
const FEW: usize = 16;

/// See [`Draft::extend`].
pub fn extend(
    draft: &mut Draft,
    nodes: &dyn Nodes,
    rule: &Rule,
    elements: &mut dyn Iterator<Item = &[u8]>,
) -> Result<(), Fault> {
    match &mut draft.form {
        Form::Packed(packed) => {
            let new: Vec<&[u8]> = elements.collect();
            let mut all = elements_of(&packed[1..])?;
            all.extend(new);
            draft.form = form_of(nodes, rule, all)?;
            Ok(())
        }
        Form::Tree(tree) if rule.packed_sorted => append(nodes, rule, tree, elements),
        Form::Tree(tree) if tree.count == 0 => {
            *tree = build(nodes, rule, elements.collect())?;
            Ok(())
        }
        Form::Tree(tree) => {
            for (word, bytes) in sorted(rule, elements.collect()) {
                let mut compare = |other: &[u8]| (rule.compare)(other, bytes);
                let place = Sequence::Tree(*tree).seek(nodes, rule, word, &mut compare)?;
                splice(nodes, rule, tree, place.rank, false, &[bytes])?;
            }
            Ok(())
        }
    }
}

/// See [`Draft::extend_front`].
pub fn extend_front(
    draft: &mut Draft,
    nodes: &dyn Nodes,
    rule: &Rule,
    elements: &mut dyn Iterator<Item = &[u8]>,
) -> Result<(), Fault> {
    let mut all: Vec<&[u8]> = elements.collect();
    match &mut draft.form {
        Form::Packed(packed) => {
            all.reverse();
            all.extend(elements_of(&packed[1..])?);
            draft.form = form_of(nodes, rule, all)?;
            Ok(())
        }
        Form::Tree(tree) if tree.count == 0 || all.len() < FEW => {
            all.into_iter().try_for_each(|bytes| splice(nodes, rule, tree, 0, false, &[bytes]))
        }
        Form::Tree(tree) => {
            all.reverse();
            prepend(nodes, rule, tree, &all)
        }
    }
}

/// The elements of a run without long ones.
fn elements_of(packed: &[u8]) -> Result<Vec<&[u8]>, Fault> {
    let run = Run::read(packed, &[])?;
    (0..run.count()).map(|index| run.slice(index, index + 1)).collect()
}

/// A sequence of these elements: packed if it may be, else a tree.
fn form_of(nodes: &dyn Nodes, rule: &Rule, all: Vec<&[u8]>) -> Result<Form, Fault> {
    let bytes = 1 + run::HEAD + all.iter().map(|bytes| bytes.len() + run::ENTRY).sum::<usize>();
    if bytes > RUN_MAX || all.iter().any(|bytes| bytes.len() > SHORT_MAX) {
        return Ok(Form::Tree(build(nodes, rule, all)?));
    }
    let mut builder = run::Builder::default();
    all.iter().for_each(|bytes| builder.push(bytes, false));
    Ok(Form::Packed([&[0][..], &builder.bytes()].concat()))
}

/// Adds elements at the end of a tree.
fn append(
    nodes: &dyn Nodes,
    rule: &Rule,
    tree: &mut Tree,
    elements: &mut dyn Iterator<Item = &[u8]>,
) -> Result<(), Fault> {
    let few: SmallVec<[&[u8]; FEW]> = elements.take(FEW).collect();
    if tree.count > 0 && few.len() < FEW {
        for bytes in few {
            splice(nodes, rule, tree, tree.count, false, &[bytes])?;
        }
        return Ok(());
    }
    // The right edge is taken off, goes through the builder as if it had just come, and everything is put back from the leaves up.
    let mut path: SmallVec<[Ref; 4]> = SmallVec::new();
    let mut leaves = Leaves::default();
    let height = tree::checked_height(tree)?;
    if tree.count > 0 {
        let mut node = tree.root;
        for _ in 0..height {
            path.push(node);
            let inner = Inner::read(nodes, node)?;
            node = inner.node(inner.len() - 1);
        }
        let run = tree::leaf(nodes, node)?;
        leaves.push_run(nodes, rule, &run, 0, run.count())?;
        nodes.release(node);
    }
    for bytes in few.into_iter().chain(elements) {
        leaves.add(nodes, bytes, (rule.word)(bytes))?;
    }
    leaves.flush(nodes)?;
    let mut row = leaves.row;
    for node in path.into_iter().rev() {
        let mut children = Inner::read(nodes, node)?.children();
        children.pop();
        children.extend(row);
        row = tree::row_above(nodes, &children)?;
        nodes.release(node);
    }
    *tree = tree::raise(nodes, row, height)?;
    Ok(())
}

/// Adds elements before the first one of a tree.
fn prepend(nodes: &dyn Nodes, rule: &Rule, tree: &mut Tree, elements: &[&[u8]]) -> Result<(), Fault> {
    let (mut path, mut node, height) = (SmallVec::<[Ref; 4]>::new(), tree.root, tree::checked_height(tree)?);
    for _ in 0..height {
        path.push(node);
        node = Inner::read(nodes, node)?.node(0);
    }
    let run = tree::leaf(nodes, node)?;
    let (new, mut starts, mut leaves) =
        (elements.len(), starts_from_the_right(elements, &run), Leaves::default());
    for (index, bytes) in elements.iter().enumerate() {
        if starts.pop_if(|start| *start == index).is_some() {
            leaves.flush(nodes)?;
        }
        leaves.add(nodes, bytes, (rule.word)(bytes))?;
    }
    let mut from = 0;
    while let Some(start) = starts.pop() {
        leaves.push_run(nodes, rule, &run, from, start - new)?;
        leaves.flush(nodes)?;
        from = start - new;
    }
    leaves.push_run(nodes, rule, &run, from, run.count())?;
    leaves.flush(nodes)?;
    nodes.release(node);
    let mut row = leaves.row;
    for node in path.into_iter().rev() {
        row.extend(&Inner::read(nodes, node)?.children()[1..]);
        row = row
            .rchunks(FANOUT)
            .rev()
            .map(|group| tree::make_inner(nodes, group))
            .collect::<Result<_, _>>()?;
        nodes.release(node);
    }
    *tree = tree::raise(nodes, row, height)?;
    Ok(())
}

/// With which of the elements, those of the run behind the new ones, leaves must begin for all but the first to be full; the first of them last.
fn starts_from_the_right(elements: &[&[u8]], run: &Run<'_>) -> Vec<usize> {
    let (mut starts, mut bytes, mut refs) = (Vec::new(), run::HEAD, 0);
    let mut add = |index: usize, length: usize, long: bool| {
        bytes += run::ENTRY + length;
        refs += usize::from(long);
        if bytes + size::refs_size(refs) > LEAF_MAX {
            starts.push(index + 1);
            (bytes, refs) = (run::HEAD + run::ENTRY + length, usize::from(long));
        }
    };
    let mut end = run.start(run.count());
    for index in (0..run.count()).rev() {
        let start = run.start(index);
        add(elements.len() + index, end.saturating_sub(start), run.is_long(index));
        end = start;
    }
    for (index, bytes) in elements.iter().enumerate().rev() {
        let long = bytes.len() > SHORT_MAX;
        add(index, if long { run::STUB } else { bytes.len() }, long);
    }
    starts
}
