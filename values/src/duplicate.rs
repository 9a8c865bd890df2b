//! A second copy of a value of any kind, in the same memory or in another one: copies must not share nodes,
//! since each is retired on its own.
use crate::{Fault, Nodes, Ref, Root, Value};

/// Deeper than any tree grows: a damaged segment may hold a circle.
const DEEP_MAX: usize = 64;

/// The value of `from` in nodes of its own among those of `to`. A packed value has none.
///
/// # Errors
/// [`Fault::Full`] without room for the nodes, [`Fault::Damaged`] when the value's trees cannot be read.
pub fn duplicate<'v>(from: &dyn Nodes, to: &dyn Nodes, value: &Value<'v>) -> Result<Value<'v>, Fault> {
    let Value::Tree(root) = value else { return Ok(*value) };
    let [one, two] = root.refs;
    let refs = [copied(from, to, one, DEEP_MAX)?, copied(from, to, two, DEEP_MAX)?];
    Ok(Value::Tree(Root { refs, ..*root }))
}

/// A copy of a node and of all it names; a hole stays a hole.
fn copied(from: &dyn Nodes, to: &dyn Nodes, node: Ref, deep_max: usize) -> Result<Ref, Fault> {
    if node.is_none() {
        return Ok(node);
    }
    let deeper = deep_max.checked_sub(1).ok_or(Fault::Damaged { what: "a tree that is too deep" })?;
    let (inner, data) = from.parts(node)?;
    let refs = inner.iter().map(|inner| copied(from, to, *inner, deeper)).collect::<Result<Vec<_>, _>>()?;
    to.make(&refs, &[data])
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;

    use super::*;
    use crate::testing::Memory;

    #[test]
    fn a_copy_has_the_same_data_in_nodes_of_its_own() {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let leaf = nodes.make(&[], &[b"leaf"]).unwrap();
        let inner = nodes.make(&[leaf, Ref::NONE], &[b"inner"]).unwrap();
        let value = Value::Tree(Root { refs: [inner, leaf], count: 7, extra: 8 });
        let Ok(Value::Tree(copy)) = duplicate(&nodes, &nodes, &value) else {
            panic!("a tree is copied to a tree")
        };
        assert_eq!((copy.count, copy.extra), (7, 8));
        assert!(nodes.reachable(&value).is_disjoint(&nodes.reachable(&Value::Tree(copy))));
        let [inner, second] = copy.refs;
        let [leaf, hole] = nodes.refs(inner).unwrap() else { panic!("two references") };
        assert_eq!(nodes.data(inner), Ok(&b"inner"[..]));
        assert_eq!(
            (nodes.data(*leaf), nodes.data(second), *hole),
            (Ok(&b"leaf"[..]), Ok(&b"leaf"[..]), Ref::NONE)
        );
    }

    #[test]
    fn a_copy_in_another_memory_names_nodes_of_that_memory() {
        let (arena, other) = (Bump::new(), Bump::new());
        let (nodes, others) = (Memory::new(&arena), Memory::new(&other));
        // This place in the other memory is taken by something else.
        others.make(&[], &[b"other"]).unwrap();
        let leaf = nodes.make(&[], &[b"leaf"]).unwrap();
        let root = nodes.make(&[leaf], &[b"root"]).unwrap();
        let value = Value::Tree(Root { refs: [root, Ref::NONE], count: 1, extra: 0 });
        let Ok(Value::Tree(copy)) = duplicate(&nodes, &others, &value) else { panic!("a tree") };
        let [leaf] = others.refs(copy.refs[0]).unwrap() else { panic!("one reference") };
        assert_eq!(others.data(copy.refs[0]), Ok(&b"root"[..]));
        assert_eq!((others.data(*leaf), copy.refs[1]), (Ok(&b"leaf"[..]), Ref::NONE));
    }

    #[test]
    fn a_packed_value_is_its_own_copy() {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        assert_eq!(duplicate(&nodes, &nodes, &Value::Packed(b"a")), Ok(Value::Packed(b"a")));
    }

    #[test]
    fn a_circle_is_damage() {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let node = nodes.make(&[], &[b""]).unwrap();
        nodes.damage(node, &[node], b"");
        let value = Value::Tree(Root { refs: [node, Ref::NONE], ..Root::default() });
        assert!(matches!(duplicate(&nodes, &nodes, &value), Err(Fault::Damaged { .. })));
    }
}
