//! Changes.
use polder_base::{Fault, Ref};

use super::run::{self, Run};
use super::tree::{self, Inner, Leaves};
use super::{Draft, Element, Form, RUN_MAX, Rule, SHORT_MAX, Sequence, Tree};
use crate::{Nodes, Root, string};

/// A tree with at most so many bytes of elements becomes packed again: far less than what makes a tree, lest it go to and fro.
const PACK_MAX: usize = RUN_MAX / 2;

const DAMAGED: Fault = Fault::Damaged { what: "a tree of elements" };

/// Puts an element into a packed sequence in the place of `gone` ones.
pub fn splice_packed(packed: &mut Vec<u8>, rank: u64, gone: u64, parts: Option<&[&[u8]]>) -> Result<(), Fault> {
    let run = Run::read(&packed[1..], &[])?;
    assert!(rank.checked_add(gone).is_some_and(|end| end <= run.count() as u64), "past the end of a sequence");
    let mut target = Vec::with_capacity(packed.len() + 64);
    target.push(0);
    run::splice(&run, rank as usize, gone as usize, parts.map(|parts| (parts, false)), &mut target)?;
    *packed = target;
    Ok(())
}

/// The tree of the elements of a packed sequence.
pub fn tree_of_packed(nodes: &dyn Nodes, rule: &Rule, packed: &[u8]) -> Result<Tree, Fault> {
    let run = Run::read(packed, &[])?;
    let mut elements = Vec::with_capacity(run.count());
    for index in 0..run.count() {
        let bytes = run.slice(index, index + 1)?;
        elements.push(((rule.word)(bytes), bytes));
    }
    if !rule.packed_sorted {
        elements.sort_by(|one, two| one.0.cmp(&two.0).then_with(|| (rule.compare)(one.1, two.1)));
    }
    let mut leaves = Leaves::default();
    for (word, bytes) in elements {
        leaves.push(nodes, bytes, None, word)?;
    }
    leaves.flush(nodes)?;
    tree::raise(nodes, leaves.row, 0)
}

/// Flags and run of a tree that is small enough; its nodes are then released.
pub fn packed(nodes: &dyn Nodes, tree: &Tree) -> Result<Option<Vec<u8>>, Fault> {
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
    let (head, table, data) = builder.parts();
    let packed = [&[0][..], &head, table, data].concat();
    if !tree.root.is_none() {
        nodes.release_tree(tree.root);
    }
    Ok(Some(packed))
}

/// An element on its way from one tree to the next.
enum Moved {
    Short(Vec<u8>),
    Long(Root, u64),
}

/// Takes a tree apart: its elements, whose own trees live on.
fn take_apart(nodes: &dyn Nodes, node: Ref, level: u8, elements: &mut Vec<Moved>) -> Result<(), Fault> {
    if level > 0 {
        let inner = Inner::read(nodes, node)?;
        for index in 0..inner.len() {
            take_apart(nodes, inner.node(index), level - 1, elements)?;
        }
    } else {
        let run = tree::leaf(nodes, node)?;
        for index in 0..run.count() {
            elements.push(match run.at(index)? {
                Element::Short(bytes) => Moved::Short(bytes.to_vec()),
                Element::Long(root) => Moved::Long(root, run.stub_word(index)?),
            });
        }
    }
    nodes.release(node);
    Ok(())
}

fn apart(nodes: &dyn Nodes, tree: &Tree) -> Result<Vec<Moved>, Fault> {
    let mut elements = Vec::new();
    if tree.count > 0 {
        take_apart(nodes, tree.root, tree::checked_height(tree)?, &mut elements)?;
    }
    if elements.len() as u64 != tree.count {
        return Err(DAMAGED);
    }
    Ok(elements)
}

fn together(nodes: &dyn Nodes, rule: &Rule, elements: Vec<Moved>) -> Result<Tree, Fault> {
    let mut leaves = Leaves::default();
    for element in elements {
        match element {
            Moved::Short(bytes) => leaves.push(nodes, &bytes, None, (rule.word)(&bytes))?,
            Moved::Long(root, word) => leaves.push(nodes, &run::stub(&root, word), Some(root.refs[0]), word)?,
        }
    }
    leaves.flush(nodes)?;
    tree::raise(nodes, leaves.row, 0)
}

fn element_of(nodes: &dyn Nodes, rule: &Rule, bytes: Vec<u8>) -> Result<Moved, Fault> {
    if bytes.len() <= SHORT_MAX {
        return Ok(Moved::Short(bytes));
    }
    Ok(Moved::Long(string::make_tree(nodes, &bytes)?, (rule.word)(&bytes)))
}

fn drop_element(nodes: &dyn Nodes, element: Moved) {
    if let Moved::Long(root, _) = element
        && !root.refs[0].is_none()
    {
        nodes.release_tree(root.refs[0]);
    }
}

/// Puts an element into a tree, in the place of the one at `rank` or before it.
pub fn splice(nodes: &dyn Nodes, rule: &Rule, tree: &mut Tree, rank: u64, replaces: bool, parts: &[&[u8]]) -> Result<(), Fault> {
    assert!(rank.checked_add(replaces as u64).is_some_and(|end| end <= tree.count), "past the end of a sequence");
    let new = element_of(nodes, rule, parts.concat())?;
    let mut elements = apart(nodes, tree)?;
    if replaces {
        drop_element(nodes, std::mem::replace(&mut elements[rank as usize], new));
    } else {
        elements.insert(rank as usize, new);
    }
    *tree = together(nodes, rule, elements)?;
    Ok(())
}

/// Takes elements out of a tree.
pub fn remove(nodes: &dyn Nodes, rule: &Rule, tree: &mut Tree, rank: u64, count: u64) -> Result<(), Fault> {
    assert!(rank.checked_add(count).is_some_and(|end| end <= tree.count), "past the end of a sequence");
    let mut elements = apart(nodes, tree)?;
    for element in elements.drain(rank as usize..(rank + count) as usize) {
        drop_element(nodes, element);
    }
    *tree = together(nodes, rule, elements)?;
    Ok(())
}

/// See [`Draft::extend`].
pub fn extend(draft: &mut Draft, nodes: &dyn Nodes, rule: &Rule, elements: &mut dyn Iterator<Item = &[u8]>) -> Result<(), Fault> {
    for bytes in &mut *elements {
        let count = draft.sequence().count()?;
        draft.insert(nodes, rule, count, &[bytes])?;
        if draft.is_tree() {
            break;
        }
    }
    let Form::Tree(tree) = &mut draft.form else { return Ok(()) };
    let mut rest = elements.peekable();
    if rest.peek().is_none() {
        return Ok(());
    }
    let mut all = apart(nodes, tree)?;
    for bytes in rest {
        all.push(element_of(nodes, rule, bytes.to_vec())?);
    }
    if !rule.packed_sorted {
        sort(nodes, rule, &mut all)?;
    }
    *tree = together(nodes, rule, all)?;
    Ok(())
}

fn sort(nodes: &dyn Nodes, rule: &Rule, elements: &mut [Moved]) -> Result<(), Fault> {
    let mut fault = None;
    let mut bytes = |element: &Moved| match element {
        Moved::Short(bytes) => bytes.clone(),
        Moved::Long(root, _) => match string::contiguous(nodes, &crate::Value::Tree(*root)) {
            Ok(bytes) => bytes.into_owned(),
            Err(found) => {
                fault = Some(found);
                Vec::new()
            }
        },
    };
    elements.sort_by(|one, two| (rule.compare)(&bytes(one), &bytes(two)));
    fault.map_or(Ok(()), Err)
}
