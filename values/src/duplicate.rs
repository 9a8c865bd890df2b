//! A second copy of a value of any kind: COPY must not share nodes, since each copy is retired on its own.
use crate::{Fault, Nodes, Ref, Root, Value};

/// Deeper than any tree grows: a damaged segment may hold a circle.
const DEEP_MAX: usize = 64;

/// The same value in nodes of its own. A packed value has none.
///
/// # Errors
/// [`Fault::Full`] without room for the nodes, [`Fault::Damaged`] when the value's trees cannot be read.
pub fn duplicate<'v>(nodes: &dyn Nodes, value: &Value<'v>) -> Result<Value<'v>, Fault> {
    let Value::Tree(root) = value else { return Ok(*value) };
    let [one, two] = root.refs;
    let refs = [copied(nodes, one, DEEP_MAX)?, copied(nodes, two, DEEP_MAX)?];
    Ok(Value::Tree(Root { refs, ..*root }))
}

/// A copy of a node and of all it names; a hole stays a hole.
fn copied(nodes: &dyn Nodes, node: Ref, deep_max: usize) -> Result<Ref, Fault> {
    if node.is_none() {
        return Ok(node);
    }
    let deeper = deep_max.checked_sub(1).ok_or(Fault::Damaged { what: "a tree that is too deep" })?;
    let refs = nodes.refs(node)?.iter().map(|inner| copied(nodes, *inner, deeper)).collect::<Result<Vec<_>, _>>()?;
    nodes.make(&refs, &[nodes.data(node)?])
}
