//! The parts of a stored key that have expired.

use polder_values::hash::Hash as HashValue;
use polder_values::{Nodes, Value};

/// The expired part of a stored key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    /// The key itself.
    Key,
    /// All fields of the hash that it holds, and how many they are.
    Fields(u64),
    /// Some fields of the hash that it holds: the key exists.
    SomeFields,
}

impl Expired {
    /// Returns true if the key does not exist any more.
    pub(crate) fn is_gone(&self) -> bool {
        *self != Expired::SomeFields
    }

    /// Returns which part of the fields of `value` has expired, if `first_ms` is their earliest expiry.
    pub(crate) fn fields(
        nodes: &dyn Nodes,
        value: &Value<'_>,
        first_ms: Option<u64>,
        now_ms: impl Fn() -> u64,
    ) -> Option<Expired> {
        first_ms.filter(|first_ms| *first_ms <= now_ms())?;
        let hash = HashValue::of(value);
        // A damaged hash exists: the command that reads its fields reports the damage.
        match (hash.len(nodes, now_ms), hash.count()) {
            (Ok(0), Ok(count)) => Some(Expired::Fields(count)),
            _ => Some(Expired::SomeFields),
        }
    }
}
