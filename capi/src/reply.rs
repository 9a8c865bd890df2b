//! Replies as C reads them: plain structs that point into the bytes of an answer.
//!
//! ```text
//!   nodes   [ root | its items ... | items of the first of them ... | ... ]     level by level, so that items lie side by side
//!               |________^   |________________^
//! ```
use std::ptr;

use ::polder_client::Value;
use polder_engine::{Answer, Item};

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

/// What the texts of a reply lie in.
enum Owner {
    Answer(#[expect(dead_code, reason = "the nodes point to it")] Answer),
    /// Its texts lie on the heap, and stay where they are when it moves.
    Value(#[expect(dead_code, reason = "the nodes point to it")] Value),
}

/// A reply with all that it points to.
pub(crate) struct Kept {
    nodes: Vec<polder_reply>,
    _owner: Owner,
}

const NOTHING: polder_reply = polder_reply {
    kind: POLDER_NULL,
    integer: 0,
    number: 0.0,
    text: ptr::null(),
    length: 0,
    items: ptr::null(),
    count: 0,
};

impl Kept {
    /// The first reply of an answer.
    pub fn one(answer: Answer) -> Kept {
        let mut nodes = Vec::new();
        lay_out(&mut nodes, answer.item());
        Kept { nodes, _owner: Owner::Answer(answer) }
    }

    /// All replies of an answer, as an array.
    pub fn all(answer: Answer) -> Kept {
        let mut nodes = Vec::new();
        lay_out(&mut nodes, Item::Array(answer.items()));
        Kept { nodes, _owner: Owner::Answer(answer) }
    }

    /// The reply of a server.
    pub fn value(value: Value) -> Kept {
        let mut nodes = Vec::new();
        lay_out(&mut nodes, &value);
        Kept { nodes, _owner: Owner::Value(value) }
    }

    /// The root: it stays where it is for as long as this lives, moved or not.
    pub fn root(&self) -> *const polder_reply {
        self.nodes.as_ptr()
    }
}

/// A reply, or a part of one, as it came.
pub(crate) trait Part: Copy {
    /// It without the parts that are inside it.
    fn plain(self) -> polder_reply;
    /// The parts that are inside it; of a map, keys and values in turn.
    fn inside(self) -> Option<impl Iterator<Item = Self>>;
}

/// Lays a reply out, for a callback or to be kept.
pub(crate) fn lay_out<P: Part>(nodes: &mut Vec<polder_reply>, root: P) {
    nodes.clear();
    nodes.push(root.plain());
    // Whose items begin where, to be pointed to when nothing moves any more.
    let mut begin: Vec<(usize, usize)> = Vec::new();
    let mut level: Vec<(usize, P)> = vec![(0, root)];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (parent, part) in level {
            let Some(inside) = part.inside() else { continue };
            begin.push((parent, nodes.len()));
            for item in inside {
                next.push((nodes.len(), item));
                nodes.push(item.plain());
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

fn text(kind: polder_type, text: &[u8]) -> polder_reply {
    polder_reply { kind, text: text.as_ptr(), length: text.len(), ..NOTHING }
}

impl Part for Item<'_> {
    fn plain(self) -> polder_reply {
        match self {
            Item::Null => NOTHING,
            Item::Status(bytes) => text(POLDER_STATUS, bytes),
            Item::Error(bytes) => text(POLDER_ERROR, bytes),
            Item::Integer(integer) => {
                polder_reply { kind: POLDER_INTEGER, integer, number: integer as f64, ..NOTHING }
            }
            Item::Double(number) => {
                polder_reply { kind: POLDER_DOUBLE, integer: number as i64, number, ..NOTHING }
            }
            Item::Boolean(value) => polder_reply { kind: POLDER_BOOLEAN, integer: value.into(), ..NOTHING },
            Item::Bulk(bytes) | Item::Verbatim(_, bytes) => text(POLDER_TEXT, bytes),
            Item::BigNumber(bytes) => text(POLDER_BIG_NUMBER, bytes),
            Item::Array(_) => polder_reply { kind: POLDER_ARRAY, ..NOTHING },
            Item::Map(_) => polder_reply { kind: POLDER_MAP, ..NOTHING },
            Item::Set(_) => polder_reply { kind: POLDER_SET, ..NOTHING },
            Item::Push(_) => polder_reply { kind: POLDER_PUSH, ..NOTHING },
        }
    }

    fn inside(self) -> Option<impl Iterator<Item = Self>> {
        self.items()
    }
}

/// The reply itself, without what the server says about it.
fn bare(mut value: &Value) -> &Value {
    while let Value::Attributed { value: inner, .. } = value {
        value = inner;
    }
    value
}

impl Part for &Value {
    fn plain(self) -> polder_reply {
        match bare(self) {
            Value::Null | Value::Attributed { .. } => NOTHING,
            Value::Status(bytes) => text(POLDER_STATUS, bytes),
            Value::Error(bytes) => text(POLDER_ERROR, bytes),
            Value::Integer(integer) => Item::Integer(*integer).plain(),
            // What is no number, no server sends.
            Value::Double(digits) => Item::Double(
                std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(f64::NAN),
            )
            .plain(),
            Value::Boolean(value) => Item::Boolean(*value).plain(),
            Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => text(POLDER_TEXT, bytes),
            Value::BigNumber(bytes) => text(POLDER_BIG_NUMBER, bytes),
            Value::Array(_) => polder_reply { kind: POLDER_ARRAY, ..NOTHING },
            Value::Map(_) => polder_reply { kind: POLDER_MAP, ..NOTHING },
            Value::Set(_) => polder_reply { kind: POLDER_SET, ..NOTHING },
            Value::Push(_) => polder_reply { kind: POLDER_PUSH, ..NOTHING },
        }
    }

    fn inside(self) -> Option<impl Iterator<Item = Self>> {
        let (items, pairs): (&[Value], &[(Value, Value)]) = match bare(self) {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => (items, &[]),
            Value::Map(pairs) => (&[], pairs),
            _ => return None,
        };
        Some(items.iter().chain(pairs.iter().flat_map(|(key, value)| [key, value])))
    }
}
