//! What an update of one key (`update.rs`) is shown, and what it says that becomes of the key.
use polder_values::Kind;
use polder_values::sequence::{Edit, Removed};

use crate::api::Attributes;

/// What a key holds, as its update is shown it: it has not expired.
#[derive(Clone, Copy)]
pub struct Old<'v> {
    pub kind: Kind,
    pub value: &'v [u8],
    /// Milliseconds since the Unix epoch.
    pub expiry_ms: Option<u64>,
    pub flags: u32,
}

/// What becomes of a key.
pub enum Mutation<'v, 'n> {
    Same,
    /// A sequence; expiry and flags stay.
    Edited(Edit<'v, 'n>),
    /// A string of at most `PACKED_MAX` bytes with these attributes, in the place of the whole old one.
    String(&'n [u8], Attributes),
    /// A string of two parts, of the given form; expiry and flags stay.
    Text {
        kept: &'v [u8],
        added: &'n [u8],
        form: Form,
    },
    /// The same value with another expiry, or none.
    Expiring(Option<u64>),
    /// The key goes.
    Gone,
}

/// How OBJECT ENCODING tells of a string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// It was edited.
    Raw,
    /// An integer that is kept as text.
    Text,
}

impl<'v, 'n> From<Removed<'v, 'n>> for Mutation<'v, 'n> {
    fn from(removed: Removed<'v, 'n>) -> Mutation<'v, 'n> {
        match removed {
            Removed::Nothing => Mutation::Same,
            Removed::Last => Mutation::Gone,
            Removed::One(edit) => Mutation::Edited(edit),
        }
    }
}
