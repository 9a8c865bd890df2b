//! Replies as C reads them: plain structs that point into the bytes of an answer.
//!
//! ```text
//!   nodes   [ root | its items ... | items of the first of them ... | ... ]     level by level, so that items lie side by side
//!               |________^   |________________^
//! ```
use std::ptr;

use polder_engine::{Answer, Item, Items};

/// What a reply is.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum polder_type {
    POLDER_NULL = 0,
    /// A short text such as OK.
    POLDER_STATUS = 1,
    /// An error among other replies; its code first.
    POLDER_ERROR = 2,
    POLDER_INTEGER = 3,
    POLDER_DOUBLE = 4,
    /// `integer` is 0 or 1.
    POLDER_BOOLEAN = 5,
    POLDER_TEXT = 6,
    /// A number that may not fit, as decimal text.
    POLDER_BIG_NUMBER = 7,
    POLDER_ARRAY = 8,
    /// `items` are keys and values in turn, `count` of both together.
    POLDER_MAP = 9,
    POLDER_SET = 10,
    /// Something that was not asked for: a message, an invalidation.
    POLDER_PUSH = 11,
}

use polder_type::*;

/// A reply, or a part of one. It lives until its root is released, or, in a callback, until that returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_reply {
    pub kind: polder_type,
    /// Of integers and booleans; a double without its fraction.
    pub integer: i64,
    pub number: f64,
    /// Of everything that is text; not ended by a NUL.
    pub text: *const u8,
    pub length: usize,
    /// Of arrays, maps, sets and pushes.
    pub items: *const polder_reply,
    pub count: usize,
}

/// A reply with all that it points to.
#[derive(Default)]
pub(crate) struct Kept {
    answer: Answer,
    nodes: Vec<polder_reply>,
}

const NOTHING: polder_reply =
    polder_reply { kind: POLDER_NULL, integer: 0, number: 0.0, text: ptr::null(), length: 0, items: ptr::null(), count: 0 };

impl Kept {
    /// The first reply of an answer.
    pub fn one(answer: Answer) -> Kept {
        let mut kept = Kept { answer, nodes: Vec::new() };
        lay_out(&mut kept.nodes, kept.answer.item());
        kept
    }

    /// All replies of an answer, as an array.
    pub fn all(answer: Answer) -> Kept {
        let mut kept = Kept { answer, nodes: Vec::new() };
        lay_out(&mut kept.nodes, Item::Array(kept.answer.items()));
        kept
    }

    /// The root: it stays where it is for as long as this lives, moved or not.
    pub fn root(&self) -> *const polder_reply {
        self.nodes.as_ptr()
    }
}

/// Lays an item out for a callback.
pub(crate) fn lay_out(nodes: &mut Vec<polder_reply>, root: Item<'_>) {
    nodes.clear();
    nodes.push(plain(root));
    // Whose items begin where, to be pointed to when nothing moves any more.
    let mut begin: Vec<(usize, usize)> = Vec::new();
    let mut level: Vec<(usize, Items<'_>)> = root.items().map(|items| (0, items)).into_iter().collect();
    while !level.is_empty() {
        let mut next = Vec::new();
        for (parent, items) in level {
            begin.push((parent, nodes.len()));
            for item in items {
                if let Some(inside) = item.items() {
                    next.push((nodes.len(), inside));
                }
                nodes.push(plain(item));
                nodes[parent].count += 1;
            }
        }
        level = next;
    }
    let base = nodes.as_ptr();
    for (parent, first) in begin {
        if nodes[parent].count > 0 {
            nodes[parent].items = base.wrapping_add(first);
        }
    }
}

fn plain(item: Item<'_>) -> polder_reply {
    let text = |kind, text: &[u8]| polder_reply { kind, text: text.as_ptr(), length: text.len(), ..NOTHING };
    match item {
        Item::Null => NOTHING,
        Item::Status(bytes) => text(POLDER_STATUS, bytes),
        Item::Error(bytes) => text(POLDER_ERROR, bytes),
        Item::Integer(integer) => polder_reply { kind: POLDER_INTEGER, integer, number: integer as f64, ..NOTHING },
        Item::Double(number) => polder_reply { kind: POLDER_DOUBLE, integer: number as i64, number, ..NOTHING },
        Item::Boolean(value) => polder_reply { kind: POLDER_BOOLEAN, integer: value.into(), ..NOTHING },
        Item::Bulk(bytes) | Item::Verbatim(_, bytes) => text(POLDER_TEXT, bytes),
        Item::BigNumber(bytes) => text(POLDER_BIG_NUMBER, bytes),
        Item::Array(_) => polder_reply { kind: POLDER_ARRAY, ..NOTHING },
        Item::Map(_) => polder_reply { kind: POLDER_MAP, ..NOTHING },
        Item::Set(_) => polder_reply { kind: POLDER_SET, ..NOTHING },
        Item::Push(_) => polder_reply { kind: POLDER_PUSH, ..NOTHING },
    }
}
