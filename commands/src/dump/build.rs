//! Values on their way in: nodes made of what an RDB reader tells.
use polder_base::Fault;
use polder_table::{New, Txn};
use polder_values::{Kind, string};
use polder_wire::rdb::{self, Item, Malformed};

use crate::settings::Settings;

/// Why a value cannot be built.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The input makes no such value.
    Malformed(Malformed),
    Fault(Fault),
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Problem {
        Problem::Fault(fault)
    }
}

impl From<&'static str> for Problem {
    fn from(text: &'static str) -> Problem {
        Problem::Malformed(text.into())
    }
}

/// A value in the making, of the elements between `Begin` and `End`.
pub(crate) enum Builder {
    Text(string::Draft),
    /// A kind that has no layout yet.
    Unknown,
}

impl Builder {
    /// Of this kind, under thresholds of these settings.
    pub fn new(kind: rdb::Kind, _settings: &Settings, _now_ms: u64) -> Builder {
        match kind {
            rdb::Kind::String => Builder::Text(string::Draft::empty()),
            _ => Builder::Unknown,
        }
    }

    /// Adds what the reader says next.
    ///
    /// # Errors
    /// What the memory says; an element that was there already. The value must then be given up.
    pub fn add(&mut self, txn: &Txn<'_>, item: Item<'_>) -> Result<(), Problem> {
        match (self, item) {
            (Builder::Text(draft), Item::Text(text)) => Ok(draft.write(txn, 0, text)?),
            _ => Err("an element of another kind of value".into()),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn finish(&mut self, _txn: &Txn<'_>) -> Result<New<'_>, Problem> {
        match self {
            Builder::Text(draft) => Ok(New::of(Kind::String, draft.value())),
            Builder::Unknown => Err("a kind of value that there is not".into()),
        }
    }
}
