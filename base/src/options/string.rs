//! What is optional in commands of strings.
use super::{Expiry, Fill, Words};

/// What is optional in SET, for `Database::set_with` and `Database::set_get`.
///
/// ```
/// # use polder_base::options::{Expiry, SetOptions};
/// # use std::time::Duration;
/// let lock = SetOptions::new().if_absent().expiry(Expiry::In(Duration::from_secs(30)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetOptions<'o> {
    condition: Condition<'o>,
    expiry: Expiry,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Condition<'o> {
    None,
    Absent,
    Present,
    Equal(&'o [u8]),
}

impl Default for SetOptions<'_> {
    fn default() -> Self {
        SetOptions { condition: Condition::None, expiry: Expiry::Never }
    }
}

impl<'o> SetOptions<'o> {
    /// No condition, and no expiry.
    #[must_use]
    pub fn new() -> SetOptions<'o> {
        SetOptions::default()
    }

    /// `NX`: only if the key is absent.
    #[must_use]
    pub fn if_absent(self) -> SetOptions<'o> {
        SetOptions { condition: Condition::Absent, ..self }
    }

    /// `XX`: only if the key is there.
    #[must_use]
    pub fn if_present(self) -> SetOptions<'o> {
        SetOptions { condition: Condition::Present, ..self }
    }

    /// `IFEQ`: only if the key holds a string of just these bytes.
    #[must_use]
    pub fn if_equal(self, value: &'o (impl AsRef<[u8]> + ?Sized)) -> SetOptions<'o> {
        SetOptions { condition: Condition::Equal(value.as_ref()), ..self }
    }

    /// When the key expires; without it, never.
    #[must_use]
    pub fn expiry(self, expiry: Expiry) -> SetOptions<'o> {
        SetOptions { expiry, ..self }
    }
}

impl Fill for SetOptions<'_> {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        match self.condition {
            Condition::None => {}
            Condition::Absent => drop(words.bytes("NX")),
            Condition::Present => drop(words.bytes("XX")),
            Condition::Equal(value) => drop(words.bytes("IFEQ").bytes(value)),
        }
        self.expiry.fill_set(words);
    }
}
