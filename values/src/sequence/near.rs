//! Many elements looked for at once: a pipeline's reads of one large collection.
//!
//! ```text
//!   root     word a   word b   word c   ...      on each level first all ways are brought near the place where they should go on,
//!    |        |        |        |                and then each goes on: so the misses of all of them are under way
//!   inner    ...      ...      ...               together, and a level costs one, not one for each
//!    |
//!   leaf     head, then about the element, then the search
//! ```

use std::cmp::Ordering;

use polder_base::Fault;
use smallvec::SmallVec;

use super::run::Run;
use super::search;
use super::tree::{self, Inner};
use super::{Element, Rule, Sequence, Tree};
use crate::{Nodes, Ref};

/// Cache lines of a leaf that hold its head and the table of most leaves.
const HEAD_LINES: usize = 2;
/// And those in which an element lies that is looked for where it should be: it lies two off as a rule.
const ELEMENT_LINES: usize = 3;

/// Levels of a tree on which a way notes where it goes: such a tree has more elements than memory has room for.
const LEVELS: usize = 8;

/// How far the search for one element has come.
pub struct Way {
    word: u64,
    /// The leaf that it leads to, once it is there.
    pub node: Ref,
    /// Which child it takes of the inner node of each level, from below.
    path: [u8; LEVELS],
    /// About the words of the node's first element and of what comes behind the node.
    words: (u64, u64),
    /// The node's first element has the very word.
    tied: bool,
    /// A walk on this way has left it: what it says of the levels below is of no use.
    left: bool,
}

impl Way {
    /// Where among `many` entries the word should lie, if words are spread evenly.
    #[inline]
    fn guess(&self, many: usize) -> usize {
        let (first, last) = self.words;
        if first >= last || self.word < first {
            return many / 2;
        }
        let part = (self.word - first) as f64 / (last - first) as f64;
        ((part * many as f64) as usize).min(many.saturating_sub(1))
    }

    /// Goes on to the last child that does not begin behind the word.
    #[inline]
    fn descend(&mut self, inner: &Inner<'_>, guess: usize, level: u8) {
        let index = inner.last_upto_near(self.word, guess);
        let first = inner.word(index);
        if index + 1 < inner.len() {
            self.words.1 = inner.word(index + 1);
        }
        if let Some(place) = self.path.get_mut(usize::from(level)) {
            *place = index as u8;
        }
        (self.node, self.words.0, self.tied) = (inner.node(index), first, first == self.word);
    }
}

impl Way {
    /// The child of an inner node, whose children are at `level`, in which the element is, or would be: the last one that does not begin behind
    /// the word, or the first one.
    #[inline]
    pub fn child_of(&self, inner: &Inner<'_>, level: u8) -> usize {
        match self.path.get(usize::from(level)) {
            Some(index) if !self.left => usize::from(*index).min(inner.len() - 1),
            _ => inner.last_upto(self.word),
        }
    }

    /// Says that another child is taken.
    pub fn leave(&mut self) {
        self.left = true;
    }
}

/// The ways of elements with these words down to their leaves, of each of which the first `lines` are on their way here. There must be a leaf.
/// Words that are in order share what they find on the levels near the root.
pub fn descend_all(
    nodes: &dyn Nodes,
    tree: &Tree,
    words: impl Iterator<Item = u64>,
    lines: usize,
) -> Result<SmallVec<[Way; 128]>, Fault> {
    let height = tree::checked_height(tree)?;
    let bounds = if height == 0 { (0, u64::MAX) } else { Inner::read(nodes, tree.root)?.bounds() };
    let mut ways: SmallVec<[Way; 128]> = words
        .map(|word| Way { word, node: tree.root, path: [0; LEVELS], words: bounds, tied: false, left: false })
        .collect();
    let mut inners: SmallVec<[(Inner<'_>, usize); 128]> = SmallVec::with_capacity(ways.len());
    for level in (0..height).rev() {
        let lines = if level == 0 { lines } else { 1 };
        inners.clear();
        let mut last = None;
        for way in &ways {
            let inner = match last {
                Some((node, inner)) if node == way.node => inner,
                _ => Inner::read(nodes, way.node)?,
            };
            let guess = way.guess(inner.len());
            // The root is near as a whole, and so is what others go through, too.
            if level + 1 < height && last.is_none_or(|(node, _)| node != way.node) {
                nodes.prefetch(way.node, inner.place_of_word(guess), 1);
                nodes.prefetch(way.node, inner.place_of_node(guess), 1);
            }
            last = Some((way.node, inner));
            inners.push((inner, guess));
        }
        let mut before = Ref::NONE;
        for (way, (inner, guess)) in ways.iter_mut().zip(&inners) {
            way.descend(inner, *guess, level);
            if lines > 0 && way.node != before {
                nodes.prefetch(way.node, 0, lines);
            }
            before = way.node;
        }
    }
    Ok(ways)
}

/// The leaves of ways; the elements are on their way here.
fn leaves<'a>(nodes: &'a dyn Nodes, ways: &[Way]) -> Result<SmallVec<[Run<'a>; 128]>, Fault> {
    let mut leaves = SmallVec::with_capacity(ways.len());
    for way in ways {
        let run = tree::leaf(nodes, way.node)?;
        nodes.prefetch(way.node, run.place_of(way.guess(run.count()).saturating_sub(1)), ELEMENT_LINES);
        leaves.push(run);
    }
    Ok(leaves)
}

/// The elements with these words that `compare`, which is told the number of the word, calls `Equal`.
pub fn find_all<'a>(
    nodes: &'a dyn Nodes,
    rule: &Rule,
    tree: &Tree,
    words: &[u64],
    compare: &mut dyn FnMut(usize, &[u8]) -> Ordering,
) -> Result<Vec<Option<Element<'a>>>, Fault> {
    if tree.count == 0 {
        return Ok(vec![None; words.len()]);
    }
    let ways = descend_all(nodes, tree, words.iter().copied(), HEAD_LINES)?;
    let leaves = leaves(nodes, &ways)?;
    let found = ways.iter().zip(&leaves).enumerate().map(|(number, (way, run))| {
        let mut compare = |bytes: &[u8]| compare(number, bytes);
        if way.tied {
            // It may stand before this leaf: rare where words are hashes.
            return search::find(nodes, &Sequence::Tree(*tree), rule, way.word, &mut compare);
        }
        let (index, equal) = search::halve(nodes, rule, run, way.word, way.words, &mut compare)?;
        if equal { run.at(index).map(Some) } else { Ok(None) }
    });
    found.collect()
}

/// Prefetches what is looked at for elements with these words. It is a hint: the later walk finds
/// what is damaged.
pub fn bring(nodes: &dyn Nodes, tree: &Tree, words: impl Iterator<Item = u64>) {
    if tree.count > 0
        && let Ok(ways) = descend_all(nodes, tree, words, HEAD_LINES)
    {
        let _ = leaves(nodes, &ways);
    }
}
