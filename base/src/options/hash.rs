//! What is optional in commands of hashes.
use super::{Expiry, Fill, Words};

/// What is optional in HSETEX, for `Database::hsetex`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HsetexOptions {
    condition: Option<&'static str>,
    expiry: Expiry,
}

impl Default for HsetexOptions {
    fn default() -> Self {
        HsetexOptions { condition: None, expiry: Expiry::Never }
    }
}

impl HsetexOptions {
    /// No condition, and no expiry.
    #[must_use]
    pub fn new() -> HsetexOptions {
        HsetexOptions::default()
    }

    /// `FNX`: only if none of the fields is there.
    #[must_use]
    pub fn if_absent(self) -> HsetexOptions {
        HsetexOptions { condition: Some("FNX"), ..self }
    }

    /// `FXX`: only if all of the fields are there.
    #[must_use]
    pub fn if_present(self) -> HsetexOptions {
        HsetexOptions { condition: Some("FXX"), ..self }
    }

    /// When the fields expire; without it, never.
    #[must_use]
    pub fn expiry(self, expiry: Expiry) -> HsetexOptions {
        HsetexOptions { expiry, ..self }
    }
}

impl Fill for HsetexOptions {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        if let Some(condition) = self.condition {
            words.bytes(condition);
        }
        self.expiry.fill_set(words);
    }
}
