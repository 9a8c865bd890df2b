//! A stretch of a string value: a field, a member or a value inside of what stores it.
use std::borrow::Cow;

use crate::{Fault, Nodes, Value, string};

/// From byte `start` up to (not including) `end` of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    pub value: Value<'a>,
    pub start: u64,
    pub end: u64,
}

impl<'a> Part<'a> {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it is the empty stretch.
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// All of it in one run: borrowed where it is packed, copied where not.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the tree is not one.
    pub fn bytes(&self, nodes: &'a dyn Nodes) -> Result<Cow<'a, [u8]>, Fault> {
        match self.value {
            Value::Packed(bytes) => Ok(Cow::Borrowed(&bytes[self.start as usize..self.end as usize])),
            value => string::gather(nodes, &value, self.start, self.end).map(Cow::Owned),
        }
    }
}
