//! What a value looks like inside: safe code over a [`Nodes`] trait, testable with nothing shared at all.
//!
//! A value is packed (one run of bytes) or a tree (immutable nodes that name each other). A change makes
//! new nodes for the path it touches, releases the ones it replaced, and hands back a new [`Value`];
//! publishing it is the table's work.
#![forbid(unsafe_code)]

pub mod array;
pub mod duplicate;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod list;
pub mod order;
pub mod part;
pub mod sequence;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;
#[cfg(feature = "testing")]
pub mod testing;

use polder_base::{Fault, Ref};

use sequence::{Sequence, Tree};

/// What the type tag of an entry says. The numbers are stored: retired ones are never used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    String = 1,
    List = 2,
    Hash = 3,
    Set = 4,
    SortedSet = 5,
    Stream = 6,
    Array = 7,
}

impl Kind {
    /// The stored number's meaning, if it has one.
    pub const fn from_stored(number: u8) -> Option<Kind> {
        Some(match number {
            1 => Kind::String,
            2 => Kind::List,
            3 => Kind::Hash,
            4 => Kind::Set,
            5 => Kind::SortedSet,
            6 => Kind::Stream,
            7 => Kind::Array,
            _ => return None,
        })
    }

    /// The name that `TYPE` replies.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Stream => "stream",
            Kind::Array => "array",
        }
    }
}

/// What an entry's record keeps of a value that is a tree. Its fields mean what the kind says,
/// except `refs`, which every walk, free and verification of nodes must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Root {
    /// The roots of up to two trees (a sorted set has two); [`Ref::NONE`] where there is none.
    pub refs: [Ref; 2],
    /// Bytes of a string, elements of a collection.
    pub count: u64,
    /// The kind's own word, such as the tree's height.
    pub extra: u64,
}

/// A value as the table keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// All of it in one run of at most [`PACKED_MAX`] bytes.
    Packed(&'a [u8]),
    Tree(Root),
}

/// How large a value is: bytes of a string, entries of a stream, elements of any other collection.
///
/// # Errors
/// [`Fault::Damaged`] when the value is none of `kind`.
pub fn size(kind: Kind, nodes: &dyn Nodes, value: &Value<'_>) -> Result<u64, Fault> {
    match kind {
        Kind::String => Ok(string::len(value)),
        Kind::Stream => Ok(stream::Stream::of(nodes, value)?.len()),
        Kind::Array => array::Array::of(value).count(),
        Kind::List | Kind::Hash | Kind::Set | Kind::SortedSet => Sequence::of(value).count(),
    }
}

/// Looks at every node of a value of `kind` that is a tree, and shows each to `visit`: the rules of its format hold.
///
/// # Errors
/// [`Fault::Damaged`] with the first thing that is wrong.
pub fn check(kind: Kind, nodes: &dyn Nodes, root: &Root, visit: &mut dyn FnMut(Ref)) -> Result<(), Fault> {
    let value = Value::Tree(*root);
    let (first, second) = (Sequence::of(&value), Sequence::second(&value));
    let Sequence::Tree(first) = first else { return Ok(()) };
    match kind {
        Kind::String => string::check(nodes, root, visit),
        Kind::List => list::check(nodes, root, visit),
        Kind::Stream => stream::check(nodes, root, visit),
        Kind::Array => array::check(nodes, root, visit),
        Kind::Hash => hash::Hash::of(&value).check(nodes, visit),
        Kind::Set if second != Tree::default() => Err(Fault::Damaged { what: "the root of a set" }),
        Kind::Set => sequence::check(nodes, &first, &set::MEMBERS, true, visit),
        Kind::SortedSet => sorted_set::check(nodes, &value, visit),
    }
}

/// The longest packed value, in bytes. A record of key and packed value fits one node.
pub const PACKED_MAX: usize = 8 * 1024;

/// The most bytes (references at 8 bytes each, plus data) that one node carries besides its header.
pub const NODE_BYTES_MAX: usize = 16 * 1024 - 32;

/// The memory in which nodes live, as seen inside one transaction.
///
/// What `data` and `refs` hand out stays readable while the borrow of the transaction lasts (its pin
/// does that), so all methods take `&self`.
pub trait Nodes {
    /// The data bytes of a node.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the reference is out of bounds or names no node.
    fn data(&self, node: Ref) -> Result<&[u8], Fault>;

    /// The references of a node, in order.
    ///
    /// # Errors
    /// As [`Nodes::data`].
    fn refs(&self, node: Ref) -> Result<&[Ref], Fault>;

    /// References and data of a node: one look at what both need.
    ///
    /// # Errors
    /// As [`Nodes::data`].
    fn parts(&self, node: Ref) -> Result<(&[Ref], &[u8]), Fault> {
        Ok((self.refs(node)?, self.data(node)?))
    }

    /// Says that some cache lines of a node, from the one with its byte `at` on, are going to be looked at soon. A hint.
    fn prefetch(&self, _node: Ref, _at: usize, _lines: usize) {}

    /// Makes a node of `refs` and the concatenation of `parts`, private until the transaction commits.
    ///
    /// # Errors
    /// [`Fault::Full`] when the segment has no room.
    fn make(&self, refs: &[Ref], parts: &[&[u8]]) -> Result<Ref, Fault>;

    /// Makes a node of `length` data bytes, which `fill` writes where they lie: what it leaves out may hold anything.
    ///
    /// # Errors
    /// As [`Nodes::make`].
    fn make_by(&self, length: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<Ref, Fault> {
        let mut data = vec![0; length];
        fill(&mut data);
        self.make(&[], &[&data])
    }

    /// Lets `change` write the data and references of a node that this very transaction made.
    /// Returns false, having done nothing, for any other node (which must be copied instead). No
    /// slice of this node may be alive.
    fn edit(&self, node: Ref, change: &mut dyn FnMut(&mut [Ref], &mut [u8])) -> bool;

    /// Makes a node like another one, but for what `change` writes.
    ///
    /// # Errors
    /// As [`Nodes::make`] and [`Nodes::data`].
    fn copy(&self, node: Ref, change: &mut dyn FnMut(&mut [Ref], &mut [u8])) -> Result<Ref, Fault> {
        let (refs, data) = self.parts(node)?;
        let copy = self.make(refs, &[data])?;
        if self.edit(copy, change) { Ok(copy) } else { Err(Fault::Damaged { what: "a new node" }) }
    }

    /// Whether this very transaction made a node, so that it can be edited. A node that is published names only such as are.
    fn is_private(&self, node: Ref) -> bool;

    /// Says that this node alone is no longer part of the value: it is freed once no reader can see
    /// it.
    fn release(&self, node: Ref);

    /// Says that this node and everything it names is not part of the value any more.
    fn release_tree(&self, node: Ref);
}
