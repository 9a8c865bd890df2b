//! The head of a stream: what there is to say of it besides its entries. The form is shown in `stream.rs`.
use std::borrow::Cow;

use polder_base::{Fault, Ref};

use super::Id;
use crate::Nodes;
use crate::sequence::Tree;

/// Trees of a stream's groups: see `groups.rs`.
pub const TREES: usize = 5;

const PLAIN: usize = 41;
const NUMBERS: usize = 8;

const DAMAGED: Fault = Fault::Damaged { what: "the head of a stream" };

/// The word at a place that is there.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[derive(Clone, Default)]
pub struct Head<'a> {
    pub last: Id,
    pub max_deleted: Id,
    pub removed: u64,
    pub next_group: u32,
    pub next_consumer: u32,
    pub trees: [Tree; TREES],
    pub schemas: Cow<'a, [u8]>,
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
        match plain[PLAIN - 1] {
            0 if refs.is_empty() => {}
            1 if refs.len() == TREES => {
                let (numbers, schemas) = rest.split_at_checked(NUMBERS + 8 * TREES).ok_or(DAMAGED)?;
                let both = word(numbers, 0);
                (head.next_group, head.next_consumer) = (both as u32, (both >> 32) as u32);
                for (at, root) in refs.iter().enumerate() {
                    let word = word(numbers, NUMBERS + 8 * at);
                    head.trees[at] = Tree { root: *root, count: word >> 8, height: word as u8 };
                }
                rest = schemas;
            }
            _ => return Err(DAMAGED),
        }
        head.schemas = Cow::Borrowed(rest);
        Ok(head)
    }

    /// The same, borrowed.
    pub fn view(&self) -> Head<'_> {
        Head { schemas: Cow::Borrowed(&self.schemas), ..*self }
    }

    /// Writes it to a node in the place of `old`.
    pub fn write(&self, nodes: &dyn Nodes, old: Ref) -> Result<Ref, Fault> {
        let mut bytes = [0; PLAIN + NUMBERS + 8 * TREES];
        let words = [self.last.ms, self.last.seq, self.max_deleted.ms, self.max_deleted.seq, self.removed];
        for (target, word) in bytes.chunks_exact_mut(8).zip(words) {
            target.copy_from_slice(&word.to_le_bytes());
        }
        let grouped = self.next_group > 0;
        bytes[PLAIN - 1] = grouped.into();
        bytes[PLAIN..PLAIN + 4].copy_from_slice(&self.next_group.to_le_bytes());
        bytes[PLAIN + 4..PLAIN + 8].copy_from_slice(&self.next_consumer.to_le_bytes());
        for (at, tree) in self.trees.iter().enumerate() {
            let word = tree.count << 8 | u64::from(tree.height);
            bytes[PLAIN + NUMBERS + 8 * at..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let fixed = &bytes[..if grouped { bytes.len() } else { PLAIN }];
        let roots = self.trees.map(|tree| tree.root);
        let roots = if grouped { &roots[..] } else { &[] };
        if old.is_none() {
            return nodes.make(roots, &[fixed, &self.schemas]);
        }
        let fits = nodes.refs(old)?.len() == roots.len()
            && nodes.data(old)?.len() == fixed.len() + self.schemas.len();
        let edited = fits
            && nodes.edit(old, &mut |refs, data| {
                refs.copy_from_slice(roots);
                data[..fixed.len()].copy_from_slice(fixed);
                data[fixed.len()..].copy_from_slice(&self.schemas);
            });
        if edited {
            return Ok(old);
        }
        let node = nodes.make(roots, &[fixed, &self.schemas])?;
        nodes.release(old);
        Ok(node)
    }
}
