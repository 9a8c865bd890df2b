//! Strings: packed up to [`PACKED_MAX`] bytes, past that a radix tree of equal chunks.
//!
//! ```text
//!   Root { refs[0], count = length in bytes, extra = height }
//!
//!   height 2          inner [ . . . ]                 an inner node is up to 512 references and no data;
//!                      |   |   `- NONE: a hole        missing and NONE references are holes
//!   height 1      inner   inner
//!                  | | |   |
//!   height 0     leaf ...  leaf                       a leaf is data: the bytes of its chunk of 16,352
//! ```
//! - **V1** Byte `n` lies in chunk `n / CHUNK`: a chunk's path follows from its number alone.
//! - **V2** What no node holds reads as zeros: a hole of any size, and the rest of a chunk whose leaf ends early. So a bit
//!   set far out in an absent key costs one path, not the whole length.
//! - **V3** A leaf may reach past the value's end, with zeros only: room in which appends of the same transaction are
//!   written in place. Growing a value needs no look at what lies there.
//! - **V4** A value of at most `PACKED_MAX` bytes is always packed. Values never shrink but by being replaced.
//!
//! A change copies the leaves it touches and their paths; nodes that the same transaction made are edited in place.
//! Nothing here keeps a slice of a node across an edit.
use std::borrow::Cow;

use crate::{Fault, NODE_BYTES_MAX, Nodes, PACKED_MAX, Ref, Root, Value};

/// Bytes of one chunk: all that a node can carry, a multiple of 8 so that words of bits never straddle two chunks.
pub const CHUNK: usize = NODE_BYTES_MAX;

/// References of an inner node.
const FANOUT: usize = 512;

/// The greatest height of a tree.
const HEIGHT_MAX: u64 = 2;

/// The longest string, in bytes: 4 GiB and a little.
pub const LEN_MAX: u64 = (CHUNK * FANOUT * FANOUT) as u64;

/// Leaves that grow are rounded up to a multiple of this, for the appends to come (V3).
const ROOM: usize = 1024;

/// What a hole looks like.
pub static ZEROS: [u8; CHUNK] = [0; CHUNK];

const _: () = assert!(CHUNK.is_multiple_of(8) && PACKED_MAX <= CHUNK && FANOUT * 8 <= NODE_BYTES_MAX);

/// Length in bytes.
pub fn len(value: &Value<'_>) -> u64 {
    match value {
        Value::Packed(bytes) => bytes.len() as u64,
        Value::Tree(root) => root.count,
    }
}

/// The value that holds `bytes`: the very same bytes when they are few, a new tree when not.
///
/// # Errors
/// [`Fault::Full`] when the segment has no room, or no string can be that long.
pub fn make<'a>(nodes: &dyn Nodes, bytes: &'a [u8]) -> Result<Value<'a>, Fault> {
    if bytes.len() <= PACKED_MAX {
        return Ok(Value::Packed(bytes));
    }
    Ok(Value::Tree(make_tree(nodes, bytes)?))
}

/// A tree of `bytes`, however few they are: the table keeps long keys so, too.
///
/// # Errors
/// As [`make`].
pub fn make_tree(nodes: &dyn Nodes, bytes: &[u8]) -> Result<Root, Fault> {
    if bytes.len() as u64 > LEN_MAX {
        return Err(Fault::TooLarge(format!(
            "a string of {} bytes is longer than any can be, {LEN_MAX} bytes",
            bytes.len()
        )));
    }
    let mut builder = Builder::new();
    for chunk in bytes.chunks(CHUNK) {
        builder.push(nodes, chunk)?;
    }
    builder.finish(nodes)
}

/// The bytes of chunk `index` that are held: the rest of the chunk, up to the value's end, is zeros (V2).
///
/// # Errors
/// [`Fault::Damaged`] when the tree is not one.
pub fn chunk<'a>(nodes: &'a dyn Nodes, value: &Value<'a>, index: u64) -> Result<&'a [u8], Fault> {
    let start = index.saturating_mul(CHUNK as u64);
    match value {
        // A packed value has its first chunk only.
        Value::Packed(bytes) => Ok(if index == 0 { bytes } else { &[] }),
        Value::Tree(root) => {
            let height = checked_height(root)?;
            if start >= root.count {
                return Ok(&[]);
            }
            let mut node = root.refs[0];
            for level in (1..=height).rev() {
                if node.is_none() {
                    return Ok(&[]);
                }
                node = child(inner(nodes, node)?, slot(index, level));
            }
            let held = leaf(nodes, node)?;
            Ok(&held[..held.len().min((root.count - start) as usize)])
        }
    }
}

/// A stretch of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    Bytes(&'a [u8]),
    /// That many zeros, held by no node.
    Zeros(usize),
}

impl<'a> Piece<'a> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Zeros(count) => *count,
        }
    }

    /// Whether it is the empty stretch; [`Pieces`] shows none of these.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, zeros included.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Zeros(count) => &ZEROS[..*count],
        }
    }
}

/// The stretches of a value from byte `start` up to (not including) `end`, straight from the nodes. What lies past the
/// value's end is not shown.
pub fn pieces<'a>(nodes: &'a dyn Nodes, value: Value<'a>, start: u64, end: u64) -> Pieces<'a> {
    Pieces { nodes, at: start, end: end.min(len(&value)), value }
}

/// See [`pieces`].
pub struct Pieces<'a> {
    nodes: &'a dyn Nodes,
    value: Value<'a>,
    at: u64,
    end: u64,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<Piece<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let (index, from) = place(self.at);
        let upto = (self.end - self.at).min((CHUNK - from) as u64) as usize + from;
        let piece = match chunk(self.nodes, &self.value, index) {
            Ok(held) if held.len() > from => Piece::Bytes(&held[from..held.len().min(upto)]),
            Ok(_) => Piece::Zeros(upto - from),
            Err(fault) => {
                self.at = self.end;
                return Some(Err(fault));
            }
        };
        self.at += piece.len() as u64;
        Some(Ok(piece))
    }
}

/// The whole value in one run: borrowed where it is packed, copied where not.
///
/// # Errors
/// [`Fault::Damaged`] when the tree is not one.
pub fn contiguous<'a>(nodes: &'a dyn Nodes, value: &Value<'a>) -> Result<Cow<'a, [u8]>, Fault> {
    match *value {
        Value::Packed(bytes) => Ok(Cow::Borrowed(bytes)),
        Value::Tree(root) => gather(nodes, value, 0, root.count).map(Cow::Owned),
    }
}

/// A copy of the bytes from `start` up to (not including) `end`, which lie inside.
///
/// # Errors
/// [`Fault::Damaged`] when the tree is not one; [`Fault::Full`] when the process has no memory for
/// that many bytes.
pub fn gather(nodes: &dyn Nodes, value: &Value<'_>, start: u64, end: u64) -> Result<Vec<u8>, Fault> {
    if let Value::Tree(root) = value {
        checked_height(root)?;
    }
    let (len, mut bytes) = (end.min(len(value)).saturating_sub(start), Vec::new());
    bytes
        .try_reserve_exact(len as usize)
        .map_err(|_| Fault::TooLarge(format!("this process has no memory for {len} bytes")))?;
    for piece in pieces(nodes, *value, start, end) {
        bytes.extend_from_slice(piece?.bytes());
    }
    Ok(bytes)
}

/// Fills `target` with the bytes from `offset` on; past the value's end they are zeros.
///
/// # Errors
/// [`Fault::Damaged`] when the tree is not one.
pub fn read_at(nodes: &dyn Nodes, value: &Value<'_>, offset: u64, target: &mut [u8]) -> Result<(), Fault> {
    target.fill(0);
    let mut filled = 0;
    for piece in pieces(nodes, *value, offset, offset.saturating_add(target.len() as u64)) {
        let piece = piece?;
        if let Piece::Bytes(bytes) = piece {
            target[filled..filled + bytes.len()].copy_from_slice(bytes);
        }
        filled += piece.len();
    }
    Ok(())
}

/// Looks at every node of a tree and shows each to `visit`: all rules at the head of this file must hold.
///
/// # Errors
/// [`Fault::Damaged`] with the first thing that is wrong.
pub fn check(nodes: &dyn Nodes, root: &Root, visit: &mut dyn FnMut(Ref)) -> Result<(), Fault> {
    if root.count <= PACKED_MAX as u64 || !root.refs[1].is_none() {
        return Err(Fault::Damaged { what: "the root of a string" });
    }
    check_tree(nodes, root, visit)
}

/// As [`check`], for a tree that may be shorter than a string's: what [`make_tree`] made.
///
/// # Errors
/// As [`check`].
pub fn check_tree(nodes: &dyn Nodes, root: &Root, visit: &mut dyn FnMut(Ref)) -> Result<(), Fault> {
    check_node(nodes, root.refs[0], checked_height(root)?, root.count, visit)
}

/// Checks the node that begins `left` bytes before the value's end.
fn check_node(
    nodes: &dyn Nodes,
    node: Ref,
    level: u64,
    left: u64,
    visit: &mut dyn FnMut(Ref),
) -> Result<(), Fault> {
    if node.is_none() {
        return Ok(());
    }
    if left == 0 {
        return Err(Fault::Damaged { what: "a node past the end of a string" });
    }
    visit(node);
    if level == 0 {
        let held = leaf(nodes, node)?;
        let room = &held[held.len().min(left as usize)..];
        return if room == &ZEROS[..room.len()] {
            Ok(())
        } else {
            Err(Fault::Damaged { what: "the room at the end of a string" })
        };
    }
    if !nodes.data(node)?.is_empty() {
        return Err(Fault::Damaged { what: "an inner node of a string" });
    }
    let mut left = left;
    for child in inner(nodes, node)? {
        check_node(nodes, *child, level - 1, left, visit)?;
        left = left.saturating_sub(capacity(level - 1));
    }
    Ok(())
}

/// A string that is being changed inside one transaction.
///
/// Start from the key's value (or from nothing), write, and publish [`Draft::value`] as an edit.
pub enum Draft {
    Packed(Vec<u8>),
    Tree(Root),
}

impl Draft {
    /// The empty string.
    pub fn empty() -> Draft {
        Draft::Packed(Vec::new())
    }

    /// A copy of a packed value; a tree is shared until it is written to.
    pub fn of(value: &Value<'_>) -> Draft {
        match value {
            Value::Packed(bytes) => Draft::Packed(bytes.to_vec()),
            Value::Tree(root) => Draft::Tree(*root),
        }
    }

    /// The string as it is now.
    pub fn value(&self) -> Value<'_> {
        match self {
            Draft::Packed(bytes) => Value::Packed(bytes),
            Draft::Tree(root) => Value::Tree(*root),
        }
    }

    /// Writes `bytes` at `offset`; a gap between the end and `offset` becomes zeros. Nothing at all is written for no bytes.
    ///
    /// # Errors
    /// [`Fault::Full`] when there is no room for new nodes, [`Fault::Damaged`] when the tree is not one. The transaction
    /// must then be given up: the draft is between two states.
    ///
    /// # Panics
    /// When the string would be longer than [`LEN_MAX`], which the caller has to refuse.
    pub fn write(&mut self, nodes: &dyn Nodes, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset + bytes.len() as u64;
        assert!(end <= LEN_MAX, "a string cannot be as long as {end} bytes");
        match self {
            Draft::Packed(packed) if end <= PACKED_MAX as u64 => {
                let (start, end) = (offset as usize, end as usize);
                if packed.len() < end {
                    packed.resize(end, 0);
                }
                packed[start..end].copy_from_slice(bytes);
            }
            Draft::Packed(packed) => {
                let mut root = Root::default();
                if !packed.is_empty() {
                    write_tree(nodes, &mut root, 0, packed)?;
                }
                write_tree(nodes, &mut root, offset, bytes)?;
                *self = Draft::Tree(root);
            }
            Draft::Tree(root) => {
                checked_height(root)?;
                write_tree(nodes, root, offset, bytes)?;
            }
        }
        Ok(())
    }

    /// Makes the string at least `len` bytes long; the new ones are zeros.
    ///
    /// # Errors
    /// As [`Draft::write`].
    ///
    /// # Panics
    /// As [`Draft::write`].
    pub fn reach(&mut self, nodes: &dyn Nodes, len: u64) -> Result<(), Fault> {
        if self::len(&self.value()) < len { self.write(nodes, len - 1, &[0]) } else { Ok(()) }
    }
}

/// Builds a new string from its beginning to its end, one chunk at a time.
#[derive(Default)]
pub struct Builder {
    leaves: Vec<Ref>,
    count: u64,
}

impl Builder {
    /// Nothing yet.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Adds a chunk: exactly [`CHUNK`] bytes, fewer only for the last one. A full chunk of zeros becomes a hole.
    ///
    /// # Errors
    /// [`Fault::Full`] when the segment has no room.
    pub fn push(&mut self, nodes: &dyn Nodes, bytes: &[u8]) -> Result<(), Fault> {
        self.start_chunk(bytes.len());
        let leaf = if bytes == &ZEROS[..bytes.len()] { Ref::NONE } else { nodes.make(&[], &[bytes])? };
        self.leaves.push(leaf);
        Ok(())
    }

    /// Adds a chunk of `len` zeros.
    pub fn push_hole(&mut self, len: usize) {
        self.start_chunk(len);
        self.leaves.push(Ref::NONE);
    }

    fn start_chunk(&mut self, len: usize) {
        debug_assert!(self.count.is_multiple_of(CHUNK as u64) && len <= CHUNK, "a chunk follows a short one");
        self.count += len as u64;
    }

    /// The tree of all that was added. As a string's value it must have more than [`PACKED_MAX`] bytes (V4).
    ///
    /// # Errors
    /// [`Fault::Full`] when the segment has no room.
    pub fn finish(self, nodes: &dyn Nodes) -> Result<Root, Fault> {
        let (mut level, mut height) = (self.leaves, 0);
        while level.len() > 1 {
            height += 1;
            let groups =
                level.chunks(FANOUT).map(|group| match group.iter().rposition(|node| !node.is_none()) {
                    Some(last) => nodes.make(&group[..=last], &[]),
                    None => Ok(Ref::NONE),
                });
            level = groups.collect::<Result<_, _>>()?;
        }
        let top = level.first().copied().unwrap_or(Ref::NONE);
        Ok(Root { refs: [top, Ref::NONE], count: self.count, extra: height })
    }
}

/// The chunk that holds byte `offset`, and where in it.
fn place(offset: u64) -> (u64, usize) {
    (offset / CHUNK as u64, (offset % CHUNK as u64) as usize)
}

/// Which reference of an inner node at `level` leads to chunk `index`.
fn slot(index: u64, level: u64) -> usize {
    (index / (FANOUT as u64).pow(level as u32 - 1)) as usize % FANOUT
}

/// Bytes that a tree of `height` can hold.
fn capacity(height: u64) -> u64 {
    CHUNK as u64 * (FANOUT as u64).pow(height as u32)
}

/// The height of a tree whose root can be true (S5: no walk is deeper or longer than this allows). No tree is higher than it must be.
fn checked_height(root: &Root) -> Result<u64, Fault> {
    let least = root.extra.checked_sub(1).map_or(0, |lower| capacity(lower.min(HEIGHT_MAX)) + 1);
    if root.extra > HEIGHT_MAX || root.count > capacity(root.extra) || root.count < least {
        return Err(Fault::Damaged { what: "the root of a string" });
    }
    Ok(root.extra)
}

/// The references of an inner node (S5).
fn inner(nodes: &dyn Nodes, node: Ref) -> Result<&[Ref], Fault> {
    let refs = nodes.refs(node)?;
    if refs.is_empty() || refs.len() > FANOUT {
        return Err(Fault::Damaged { what: "an inner node of a string" });
    }
    Ok(refs)
}

/// The bytes of a leaf, none of a hole (S5).
fn leaf(nodes: &dyn Nodes, node: Ref) -> Result<&[u8], Fault> {
    if node.is_none() {
        return Ok(&[]);
    }
    let data = nodes.data(node)?;
    if data.is_empty() || data.len() > CHUNK || !nodes.refs(node)?.is_empty() {
        return Err(Fault::Damaged { what: "a chunk of a string" });
    }
    Ok(data)
}

fn child(refs: &[Ref], slot: usize) -> Ref {
    refs.get(slot).copied().unwrap_or(Ref::NONE)
}

/// Writes `bytes` at `offset` of the tree, making it as long and as high as that needs.
fn write_tree(nodes: &dyn Nodes, root: &mut Root, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
    let end = offset + bytes.len() as u64;
    while capacity(root.extra) < end {
        if !root.refs[0].is_none() {
            root.refs[0] = nodes.make(&[root.refs[0]], &[])?;
        }
        root.extra += 1;
    }
    root.count = root.count.max(end);
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let (index, from) = place(at);
        let (now, later) = rest.split_at(rest.len().min(CHUNK - from));
        root.refs[0] = write_chunk(nodes, root.refs[0], root.extra, index, from, now)?;
        (at, rest) = (at + now.len() as u64, later);
    }
    Ok(())
}

/// Writes `bytes` at `from` of chunk `index` below `node`. Returns the node that takes the place of
/// `node`.
fn write_chunk(
    nodes: &dyn Nodes,
    node: Ref,
    level: u64,
    index: u64,
    from: usize,
    bytes: &[u8],
) -> Result<Ref, Fault> {
    if level == 0 {
        return write_leaf(nodes, node, from, bytes);
    }
    let slot = slot(index, level);
    let (old, held) = if node.is_none() {
        (Ref::NONE, 0)
    } else {
        let refs = inner(nodes, node)?;
        (child(refs, slot), refs.len())
    };
    let new = write_chunk(nodes, old, level - 1, index, from, bytes)?;
    if new == old || slot < held && nodes.edit(node, &mut |refs, _| refs[slot] = new) {
        return Ok(node);
    }
    let mut refs = if held == 0 { Vec::new() } else { inner(nodes, node)?.to_vec() };
    refs.resize(held.max(slot + 1), Ref::NONE);
    refs[slot] = new;
    let copy = nodes.make(&refs, &[])?;
    if !node.is_none() {
        nodes.release(node);
    }
    Ok(copy)
}

/// Writes `bytes` at `from` of a leaf. Returns the leaf that takes its place.
fn write_leaf(nodes: &dyn Nodes, node: Ref, from: usize, bytes: &[u8]) -> Result<Ref, Fault> {
    let upto = from + bytes.len();
    let held = leaf(nodes, node)?.len();
    if upto <= held && nodes.edit(node, &mut |_, data| data[from..upto].copy_from_slice(bytes)) {
        return Ok(node);
    }
    let old = leaf(nodes, node)?;
    let (before, after) = (&old[..from.min(held)], &old[upto.min(held)..]);
    // A leaf that was made longer will most likely be made longer again (V3).
    let room = if held > 0 && upto > held { upto.next_multiple_of(ROOM).min(CHUNK) - upto } else { 0 };
    let new = nodes.make(&[], &[before, &ZEROS[..from - before.len()], bytes, after, &ZEROS[..room]])?;
    if !node.is_none() {
        nodes.release(node);
    }
    Ok(new)
}
