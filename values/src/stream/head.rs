//! The head of a stream: what there is to say of it besides its entries. The form is shown in `stream.rs`.
use std::borrow::Cow;

use polder_base::{Fault, Ref};

use smallvec::SmallVec;

use super::Id;
use crate::Nodes;
use crate::sequence::Tree;

/// Trees of a stream's groups (`groups.rs`), and those of its producers behind them (`producers.rs`).
pub const GROUP_TREES: usize = 5;
pub const TREES: usize = 8;

/// Bytes of each part.
const PLAIN: usize = 41;
const GROUPS: usize = 8 + 8 * GROUP_TREES;
const PRODUCERS: usize = 32 + 8 * (TREES - GROUP_TREES);

/// Room for all of them.
const BYTES_MAX: usize = 256;
const _: () = assert!(PLAIN + GROUPS + PRODUCERS <= BYTES_MAX);

/// Bits that say which parts there are.
const HAS_GROUPS: u8 = 1;
const HAS_PRODUCERS: u8 = 2;

const DAMAGED: Fault = Fault::Damaged { what: "the head of a stream" };

/// The word at a place that is there.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The treatment of entries that producers send again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Production {
    /// Seconds for which an entry is known by its producer's id.
    pub duration_s: u32,
    /// Ids of a producer that are kept at most.
    pub ids_max: u32,
    /// The number of the next producer.
    pub(super) next: u32,
    /// Entries that were ever added by such an id, and those that were not added since they were there.
    pub added: u64,
    pub duplicates: u64,
}

impl Production {
    /// The figures of a stream that has had no producer yet.
    pub fn new(duration_s: u32, ids_max: u32) -> Production {
        Production { duration_s, ids_max, ..Production::default() }
    }
}

#[derive(Clone, Default)]
pub struct Head<'a> {
    pub last: Id,
    pub max_deleted: Id,
    pub removed: u64,
    pub next_group: u32,
    pub next_consumer: u32,
    pub production: Option<Production>,
    pub trees: [Tree; TREES],
    pub schemas: Cow<'a, [u8]>,
}

/// Reads trees, whose roots are these.
fn read_trees(trees: &mut [Tree], words: &[u8], roots: &[Ref]) {
    for (at, (tree, root)) in trees.iter_mut().zip(roots).enumerate() {
        let word = word(words, 8 * at);
        *tree = Tree { root: *root, count: word >> 8, height: word as u8 };
    }
}

/// A head as the bytes and references of its node, without the schemas.
#[derive(Default)]
struct Written {
    bytes: SmallVec<[u8; BYTES_MAX]>,
    roots: SmallVec<[Ref; TREES]>,
}

impl Written {
    fn add_trees(&mut self, trees: &[Tree]) {
        for tree in trees {
            self.bytes.extend((tree.count << 8 | u64::from(tree.height)).to_le_bytes());
            self.roots.push(tree.root);
        }
    }
}

impl<'a> Head<'a> {
    /// The head that a node holds.
    pub fn read(data: &'a [u8], refs: &[Ref]) -> Result<Head<'a>, Fault> {
        let (plain, mut rest) = data.split_at_checked(PLAIN).ok_or(DAMAGED)?;
        let mut head = Head {
            last: Id { ms: word(plain, 0), seq: word(plain, 8) },
            max_deleted: Id { ms: word(plain, 16), seq: word(plain, 24) },
            removed: word(plain, 32),
            ..Head::default()
        };
        let (parts, mut roots) = (plain[PLAIN - 1], refs);
        if parts & HAS_GROUPS != 0 {
            let (numbers, behind) = rest.split_at_checked(GROUPS).ok_or(DAMAGED)?;
            let (own, others) = roots.split_at_checked(GROUP_TREES).ok_or(DAMAGED)?;
            (head.next_group, head.next_consumer) = (half(numbers, 0), half(numbers, 4));
            read_trees(&mut head.trees[..GROUP_TREES], &numbers[8..], own);
            (rest, roots) = (behind, others);
        }
        if parts & HAS_PRODUCERS != 0 {
            let (numbers, behind) = rest.split_at_checked(PRODUCERS).ok_or(DAMAGED)?;
            let (own, others) = roots.split_at_checked(TREES - GROUP_TREES).ok_or(DAMAGED)?;
            head.production = Some(Production {
                duration_s: half(numbers, 0),
                ids_max: half(numbers, 4),
                next: half(numbers, 8),
                added: word(numbers, 16),
                duplicates: word(numbers, 24),
            });
            read_trees(&mut head.trees[GROUP_TREES..], &numbers[32..], own);
            (rest, roots) = (behind, others);
        }
        if parts & !(HAS_GROUPS | HAS_PRODUCERS) != 0 || !roots.is_empty() {
            return Err(DAMAGED);
        }
        head.schemas = Cow::Borrowed(rest);
        Ok(head)
    }

    /// The same, borrowed.
    pub fn view(&self) -> Head<'_> {
        Head { schemas: Cow::Borrowed(&self.schemas), ..*self }
    }

    /// The words before the schemas.
    fn written(&self) -> Written {
        let mut written = Written::default();
        let words = [self.last.ms, self.last.seq, self.max_deleted.ms, self.max_deleted.seq, self.removed];
        words.iter().for_each(|word| written.bytes.extend(word.to_le_bytes()));
        let has_groups = self.next_group > 0;
        let parts = if has_groups { HAS_GROUPS } else { 0 };
        let parts = if self.production.is_some() { parts | HAS_PRODUCERS } else { parts };
        written.bytes.push(parts);
        if has_groups {
            written.bytes.extend(self.next_group.to_le_bytes());
            written.bytes.extend(self.next_consumer.to_le_bytes());
            written.add_trees(&self.trees[..GROUP_TREES]);
        }
        if let Some(production) = &self.production {
            let halves = [production.duration_s, production.ids_max, production.next, 0];
            halves.iter().for_each(|half| written.bytes.extend(half.to_le_bytes()));
            written.bytes.extend(production.added.to_le_bytes());
            written.bytes.extend(production.duplicates.to_le_bytes());
            written.add_trees(&self.trees[GROUP_TREES..]);
        }
        written
    }

    /// Writes it to a node in the place of `old`.
    pub fn write(&self, nodes: &dyn Nodes, old: Ref) -> Result<Ref, Fault> {
        let Written { bytes, roots } = self.written();
        if old.is_none() {
            return nodes.make(&roots, &[&bytes, &self.schemas]);
        }
        let fits = nodes.refs(old)?.len() == roots.len()
            && nodes.data(old)?.len() == bytes.len() + self.schemas.len();
        let edited = fits
            && nodes.edit(old, &mut |refs, data| {
                refs.copy_from_slice(&roots);
                data[..bytes.len()].copy_from_slice(&bytes);
                data[bytes.len()..].copy_from_slice(&self.schemas);
            });
        if edited {
            return Ok(old);
        }
        let node = nodes.make(&roots, &[&bytes, &self.schemas])?;
        nodes.release(old);
        Ok(node)
    }
}
