//! Streams: entries in the order of their ids, and the groups that read them.
//!
//! ```text
//!   Root { refs = [blocks, head], count = entries, extra = height of the blocks' tree (8) | 0 (8) | count of blocks (48) }
//!
//!   blocks      a sequence of blocks (stream/block.rs), sorted by their first ids; NONE when there is no entry
//!
//!   head        OFFSET  SIZE  WHAT
//!   (a node)         0    16  the last id that was given, if it is greater than that of the last entry
//!                   16    16  the greatest id that XDEL has deleted
//!                   32     8  entries that were added and are there no more
//!                   40     1  bit 0: there have been groups, and the next two fields are there; bit 1: so have producers
//!                            8  the numbers of the next group and the next consumer
//!                           40  count (56) | height (8) of each tree; the node's references are their roots (stream/groups.rs)
//!                           32  seconds (4), ids at most (4), the number of the next producer (4), 0 (4); entries that were
//!                               added by ids of producers, and those that were there already (stream/producers.rs)
//!                           24  count (56) | height (8) of each tree; the next references are their roots
//!                            -  schemas: the fields that entries share (stream/block.rs)
//! ```
//! - **X1** The last id is the greater of that in the head and that of the last entry. So an addition changes the last block and
//!   its path, and nothing else.
//! - **X2** No block is empty; each entry's id is greater than the one before it.
//! - **X3** What is pending is in two trees, by id and by consumer; both say the same. What a consumer has given back is in the first only.
//! - **X4** An entry that a producer knows by an id of its own is in two trees, by that id and by the entry's; both say the same. A
//!   producer has one at least.
use std::cmp::Ordering;
use std::fmt;

use polder_base::{Fault, Ref};

use crate::sequence::{self, Element, Rule, Sequence, Tree};
use crate::{Nodes, Root, Value, string};

mod block;
mod check;
mod groups;
mod head;
mod keys;
mod producers;

use block::{Beginning, Entries, HEAD, Schemas, Writer};
pub use block::{Entry, Pairs};
pub use check::check;
pub use groups::{Consumer, Group, NO_CONSUMER, Pending};
use head::Head;
pub use head::Production;
pub use producers::{Produced, Producer};

/// What an entry is known by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Id {
    /// Milliseconds since the Unix epoch, if the stream gave the id.
    pub ms: u64,
    pub seq: u64,
}

impl Id {
    pub const MIN: Id = Id { ms: 0, seq: 0 };
    pub const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// The least id that is greater.
    pub fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The greatest id that is less.
    pub fn previous(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// A word that sorts as ids do, and is usually another one for another id: 42 bits are enough for milliseconds up to the year 2109.
    fn word(self) -> u64 {
        const SEQ: u32 = 22;
        if self.ms >> (u64::BITS - SEQ) == 0 {
            self.ms << SEQ | self.seq.min((1 << SEQ) - 1)
        } else {
            u64::MAX
        }
    }

    /// Sixteen bytes that sort as ids do.
    pub fn bytes(self) -> [u8; 16] {
        ((u128::from(self.ms)) << 64 | u128::from(self.seq)).to_be_bytes()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Blocks by their first ids.
const BLOCKS: Rule = Rule {
    word: |block| block::first_id(block).word(),
    compare: |one, two| block::first_id(one).cmp(&block::first_id(two)),
    packed_sorted: true,
};

const DAMAGED: Fault = Fault::Damaged { what: "a stream" };

/// A stretch of a stream: from the first id up to the last one, both included, from its beginning
/// or from its end, with a maximum of entries.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub start: Id,
    pub end: Id,
    pub back: bool,
    pub limit: u64,
}

impl Range {
    /// All that is there.
    pub const ALL: Range = Range { start: Id::MIN, end: Id::MAX, back: false, limit: u64::MAX };
}

/// Looks at a block. Returns whether it wants another one.
type VisitBlock<'v> = &'v mut dyn FnMut(&[u8], &Schemas<'_>) -> Result<bool, Fault>;

/// A stream, for reading.
pub struct Stream<'a> {
    nodes: &'a dyn Nodes,
    blocks: Tree,
    len: u64,
    head: Head<'a>,
}

impl<'a> Stream<'a> {
    /// The stream that a value is.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when it is none.
    pub fn of(nodes: &'a dyn Nodes, value: &Value<'a>) -> Result<Stream<'a>, Fault> {
        let Value::Tree(root) = value else { return Err(DAMAGED) };
        let head = Head::read(nodes.data(root.refs[1])?, nodes.refs(root.refs[1])?)?;
        Ok(Stream { nodes, blocks: blocks_of(root), len: root.count, head })
    }

    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id of the first entry, if there is one.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn first(&self) -> Result<Option<Id>, Fault> {
        match Sequence::Tree(self.blocks).at(self.nodes, 0)? {
            Some(element) => Ok(Some(block::first_id(&beginning(self.nodes, &element)?))),
            None => Ok(None),
        }
    }

    /// The id of the last entry, if there is one.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn last(&self) -> Result<Option<Id>, Fault> {
        Ok(end_of(self.nodes, &self.blocks)?.map(|end| block::last_id(&end.beginning)))
    }

    /// The last id that was given (X1).
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn last_given(&self) -> Result<Id, Fault> {
        Ok(self.last()?.unwrap_or(Id::MIN).max(self.head.last))
    }

    /// The greatest id that was deleted by itself.
    pub fn max_deleted(&self) -> Id {
        self.head.max_deleted
    }

    /// How many entries were ever added.
    pub fn added(&self) -> u64 {
        self.len.wrapping_add(self.head.removed)
    }

    /// How many entries a range has.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn count(&self, range: &Range) -> Result<u64, Fault> {
        if range.start == Id::MIN && range.end == Id::MAX {
            return Ok(self.len.min(range.limit));
        }
        if range.start > range.end || self.blocks.count == 0 {
            return Ok(0);
        }
        let (blocks, mut count, mut last) = (Sequence::Tree(self.blocks), 0, None);
        for element in blocks.iter(self.nodes, block_of(self.nodes, &blocks, range.start)?) {
            let element = element?;
            let head = beginning(self.nodes, &element)?;
            if block::first_id(&head) > range.end {
                break;
            }
            // A block that another one follows inside the range reaches its beginning at most.
            count += match last.replace((element, head)) {
                Some((_, head)) if block::first_id(&head) >= range.start => block::count(&head)?,
                Some((element, _)) => self.count_in(&element, range)?,
                None => 0,
            };
            if count >= range.limit {
                return Ok(range.limit);
            }
        }
        if let Some((element, _)) = last {
            count += self.count_in(&element, range)?;
        }
        Ok(count.min(range.limit))
    }

    /// How many entries of a block a range has.
    fn count_in(&self, element: &Element<'a>, range: &Range) -> Result<u64, Fault> {
        let fits = |id: Id| u64::from(id >= range.start && id <= range.end);
        let head = beginning(self.nodes, element)?;
        if block::count(&head)? == 1 {
            return Ok(fits(block::first_id(&head)));
        }
        let (block, schemas) = (element.bytes(self.nodes)?, Schemas::read(&self.head.schemas)?);
        Entries::of(&block, &schemas)?.try_fold(0, |sum, entry| Ok(sum + fits(entry?.id)))
    }

    /// Shows the entries of a range.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn walk(&self, range: &Range, visit: &mut dyn FnMut(&Entry<'_>)) -> Result<(), Fault> {
        let mut left = range.limit;
        let fits = |id: Id| id >= range.start && id <= range.end;
        if left == 0 || range.start > range.end {
            return Ok(());
        }
        self.walk_blocks(range, &mut |block, schemas| {
            let entries = Entries::of(block, schemas)?;
            if range.back {
                let entries = entries.collect::<Result<Vec<_>, _>>()?;
                let wanted = entries
                    .iter()
                    .rev()
                    .filter(|entry| fits(entry.id))
                    .take(usize::try_from(left).unwrap_or(usize::MAX));
                wanted.for_each(|entry| {
                    left -= 1;
                    visit(entry);
                });
            } else {
                for entry in entries {
                    let entry = entry?;
                    if fits(entry.id) && left > 0 {
                        left -= 1;
                        visit(&entry);
                    }
                }
            }
            Ok(left > 0)
        })
    }

    /// Shows an entry. Returns whether it is there.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn get(&self, id: Id, visit: &mut dyn FnMut(&Entry<'_>)) -> Result<bool, Fault> {
        let mut found = false;
        self.walk(&Range { start: id, end: id, back: false, limit: 1 }, &mut |entry| {
            found = true;
            visit(entry);
        })?;
        Ok(found)
    }

    /// Shows the blocks that may have entries of a range, until `visit` says that it is enough.
    fn walk_blocks(&self, range: &Range, visit: VisitBlock<'_>) -> Result<(), Fault> {
        let (blocks, schemas) = (Sequence::Tree(self.blocks), Schemas::read(&self.head.schemas)?);
        if self.blocks.count == 0 || range.start > range.end {
            return Ok(());
        }
        if range.back {
            let last = if range.end == Id::MAX {
                self.blocks.count - 1
            } else {
                block_of(self.nodes, &blocks, range.end)?
            };
            for element in blocks.iter_back(self.nodes, last) {
                let bytes = element?.bytes(self.nodes)?;
                if !visit(&bytes, &schemas)? || block::first_id(&bytes) <= range.start {
                    break;
                }
            }
        } else {
            let first = if range.start == Id::MIN { 0 } else { block_of(self.nodes, &blocks, range.start)? };
            for element in blocks.iter(self.nodes, first) {
                let element = element?;
                // A long entry behind the range's end is not worth being put together.
                if range.end != Id::MAX && block::first_id(&beginning(self.nodes, &element)?) > range.end {
                    break;
                }
                if !visit(&element.bytes(self.nodes)?, &schemas)? {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn blocks_of(root: &Root) -> Tree {
    Tree { root: root.refs[0], count: root.extra >> 16, height: root.extra as u8 }
}

/// The rank of the block that has an id, or would have it; the first one for ids before all.
fn block_of(nodes: &dyn Nodes, blocks: &Sequence<'_>, id: Id) -> Result<u64, Fault> {
    let key = id.bytes();
    let place = blocks.seek(nodes, &BLOCKS, id.word(), &mut |block| match block.get(..16) {
        Some(first) if first <= &key[..] => Ordering::Less,
        _ => Ordering::Greater,
    })?;
    Ok(place.rank.saturating_sub(1))
}

/// Where blocks end.
fn end_of(nodes: &dyn Nodes, blocks: &Tree) -> Result<Option<End>, Fault> {
    let Some((leaf, element)) = blocks.last(nodes)? else { return Ok(None) };
    let len = matches!(element, Element::Short(_)).then_some(element.len() as usize);
    Ok(Some(End { leaf, beginning: beginning(nodes, &element)?, len }))
}

/// What a block begins with: its first and its last id, and its count.
fn beginning(nodes: &dyn Nodes, element: &Element<'_>) -> Result<Beginning, Fault> {
    let mut bytes: Beginning = [0; HEAD];
    match element {
        Element::Short(block) => bytes = *block.first_chunk().ok_or(DAMAGED)?,
        Element::Long(_) => string::read_at(nodes, &element.value(), 0, &mut bytes)?,
    }
    Ok(bytes)
}

/// A stream that is being changed inside one transaction.
///
/// Start from the key's value (or from nothing), change it, and publish [`Draft::value`] as an edit. When an error comes out of a
/// change the transaction must be given up: the draft is between two states.
pub struct Draft<'a> {
    blocks: Tree,
    len: u64,
    /// Of the node below until it is changed.
    head: Head<'a>,
    /// The node that holds the head, [`Ref::NONE`] for a new stream.
    node: Ref,
    head_changed: bool,
    /// Where the blocks end, if that is known: none where there is no block.
    end: Option<Option<End>>,
}

/// The last block of a stream.
#[derive(Clone, Copy)]
struct End {
    leaf: Ref,
    beginning: Beginning,
    /// How long it is, if it may become longer.
    len: Option<usize>,
}

impl Default for Draft<'_> {
    /// A stream to which nothing was ever added.
    fn default() -> Self {
        Draft {
            blocks: Tree::default(),
            len: 0,
            head: Head::default(),
            node: Ref::NONE,
            head_changed: true,
            end: None,
        }
    }
}

impl<'a> Draft<'a> {
    /// The stream of a value, whose nodes are shared until they are changed.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn of(nodes: &'a dyn Nodes, value: &Value<'_>) -> Result<Draft<'a>, Fault> {
        let Value::Tree(root) = value else { return Err(DAMAGED) };
        let node = root.refs[1];
        let head = Head::read(nodes.data(node)?, nodes.refs(node)?)?;
        Ok(Draft { blocks: blocks_of(root), len: root.count, head, node, head_changed: false, end: None })
    }

    /// It as it is now.
    pub fn view<'v>(&'v self, nodes: &'v dyn Nodes) -> Stream<'v> {
        Stream { nodes, blocks: self.blocks, len: self.len, head: self.head.view() }
    }

    /// The value to publish.
    ///
    /// # Errors
    /// [`Fault::Full`] when there is no room for a new node.
    pub fn value(&mut self, nodes: &dyn Nodes) -> Result<Value<'static>, Fault> {
        if std::mem::take(&mut self.head_changed) {
            self.node = self.head.write(nodes, self.node)?;
        }
        let extra = u64::from(self.blocks.height) | self.blocks.count << 16;
        Ok(Value::Tree(Root { refs: [self.blocks.root, self.node], count: self.len, extra }))
    }

    /// The head, to be changed: nothing of it lies any more in the node that may be written.
    fn head_mut(&mut self) -> &mut Head<'a> {
        self.head_changed = true;
        self.head.schemas.to_mut();
        &mut self.head
    }

    /// Where the blocks end.
    fn end(&mut self, nodes: &dyn Nodes) -> Result<Option<End>, Fault> {
        match self.end {
            Some(end) => Ok(end),
            None => Ok(*self.end.insert(end_of(nodes, &self.blocks)?)),
        }
    }

    /// The id of the last entry; 0-0 without one.
    fn tail(&mut self, nodes: &dyn Nodes) -> Result<Id, Fault> {
        Ok(self.end(nodes)?.map_or(Id::MIN, |end| block::last_id(&end.beginning)))
    }

    /// As [`Stream::last_given`].
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn last_given(&mut self, nodes: &dyn Nodes) -> Result<Id, Fault> {
        Ok(self.tail(nodes)?.max(self.head.last))
    }

    /// Returns true if it has producers or entries that were given back, which not every program of this layout knows.
    pub fn is_of_redis_8_6(&self) -> bool {
        self.head.production.is_some() || self.has_released()
    }

    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry of fields and values in turn. Its id must be greater than all that were given.
    ///
    /// # Errors
    /// [`Fault::Full`] when there is no room for new nodes, [`Fault::Damaged`].
    pub fn append(&mut self, nodes: &dyn Nodes, id: Id, pairs: &[&[u8]]) -> Result<(), Fault> {
        assert!(
            id > self.last_given(nodes)? && !pairs.is_empty() && pairs.len().is_multiple_of(2),
            "an id that was given before"
        );
        let before = self.head.schemas.len();
        let (schema, body) = block::body(&mut self.head.schemas, pairs)?;
        self.head_changed |= self.head.schemas.len() != before;
        let mut blocks = sequence::Draft::index(self.blocks);
        let lengthened = self
            .end(nodes)?
            .and_then(|end| Some((end, block::lengthened(&end.beginning, end.len?, id, schema, &body)?)));
        match lengthened {
            Some((end, (beginning, step))) => {
                let in_place =
                    blocks.lengthen_last(nodes, &BLOCKS, end.leaf, &beginning, &[step.bytes(), &body])?;
                let len = end.len.map(|len| len + step.bytes().len() + body.len());
                self.end = in_place.then_some(Some(End { beginning, len, ..end }));
            }
            None => {
                blocks.insert(nodes, &BLOCKS, self.blocks.count, &[&block::begun(id, schema), &body])?;
                self.end = None;
            }
        }
        self.blocks = blocks.tree().unwrap_or_default();
        self.len += 1;
        Ok(())
    }

    /// Takes an entry out. Returns whether it was there.
    ///
    /// # Errors
    /// As [`Draft::append`].
    pub fn remove(&mut self, nodes: &dyn Nodes, id: Id) -> Result<bool, Fault> {
        let blocks = Sequence::Tree(self.blocks);
        if self.blocks.count == 0 || !self.view(nodes).get(id, &mut |_| {})? {
            return Ok(false);
        }
        if self.tail(nodes)? == id {
            self.head_mut().last = self.last_given(nodes)?;
        }
        let rank = block_of(nodes, &blocks, id)?;
        let rest = self.kept(nodes, rank, &mut |entry| entry.id != id)?;
        self.put_block(nodes, rank, 1, rest)?;
        self.shrunk(1);
        Ok(true)
    }

    /// The entries of the block at `rank` that `keep` wants kept, as a block of their own; of none there is none.
    fn kept(
        &self,
        nodes: &dyn Nodes,
        rank: u64,
        keep: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<Vec<u8>, Fault> {
        let blocks = Sequence::Tree(self.blocks);
        let element = blocks.at(nodes, rank)?.ok_or(DAMAGED)?;
        let (block, schemas) = (element.bytes(nodes)?, Schemas::read(&self.head.schemas)?);
        let mut writer = Writer::default();
        for entry in Entries::of(&block, &schemas)? {
            let entry = entry?;
            // What is written anew may be longer by the bytes that say a distance, and so no more than it was.
            if keep(&entry) && !writer.push_entry(&entry) {
                return Err(DAMAGED);
            }
        }
        Ok(writer.bytes)
    }

    /// Puts a block in the place of `gone` ones from `rank` on; an empty one takes no place.
    fn put_block(&mut self, nodes: &dyn Nodes, rank: u64, gone: u64, block: Vec<u8>) -> Result<(), Fault> {
        let mut blocks = sequence::Draft::index(self.blocks);
        blocks.remove(nodes, &BLOCKS, rank, gone)?;
        if !block.is_empty() {
            blocks.insert(nodes, &BLOCKS, rank, &[&block])?;
        }
        self.blocks = blocks.tree().unwrap_or_default();
        self.end = None;
        Ok(())
    }

    /// Notes that `count` entries are gone.
    fn shrunk(&mut self, count: u64) {
        // What the root says is not believed where the blocks say otherwise.
        self.len = self.len.saturating_sub(count);
        let empty = self.len == 0;
        let head = self.head_mut();
        head.removed = head.removed.wrapping_add(count);
        if empty {
            head.schemas = Default::default();
        }
    }

    /// Takes out the first `count` entries.
    ///
    /// # Errors
    /// As [`Draft::append`].
    pub fn trim(&mut self, nodes: &dyn Nodes, count: u64) -> Result<(), Fault> {
        let count = count.min(self.len);
        if count == 0 {
            return Ok(());
        }
        if count == self.len {
            self.head_mut().last = self.last_given(nodes)?;
        }
        let (mut left, mut whole) = (count, 0);
        for element in Sequence::Tree(self.blocks).iter(nodes, 0) {
            match block::count(&beginning(nodes, &element?)?)? {
                entries if entries <= left => (left, whole) = (left - entries, whole + 1),
                _ => break,
            }
        }
        let (mut rest, mut gone) = (Vec::new(), whole);
        if left > 0 {
            rest = self.kept(nodes, whole, &mut |_| {
                let gone = left > 0;
                left = left.saturating_sub(1);
                !gone
            })?;
            gone += 1;
        }
        self.put_block(nodes, 0, gone, rest)?;
        self.shrunk(count);
        Ok(())
    }

    /// Notes that an entry was deleted by itself.
    pub fn note_deleted(&mut self, id: Id) {
        if id > self.head.max_deleted {
            self.head_mut().max_deleted = id;
        }
    }

    /// Sets the greatest id that was deleted by itself.
    pub fn set_max_deleted(&mut self, id: Id) {
        self.head_mut().max_deleted = id;
    }

    /// Sets the last id that was given, which is not less than that of the last entry.
    pub fn set_last_given(&mut self, id: Id) {
        self.head_mut().last = id;
    }

    /// Sets how many entries were ever added; not fewer than there are.
    pub fn set_added(&mut self, added: u64) {
        let len = self.len;
        self.head_mut().removed = added.wrapping_sub(len);
    }
}
