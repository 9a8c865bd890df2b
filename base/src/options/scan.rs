//! What is optional in the SCAN commands.
use super::{Fill, Words};

/// What is optional in the SCAN commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScanOptions<'o> {
    pattern: Option<&'o [u8]>,
    count: Option<u64>,
}

impl<'o> ScanOptions<'o> {
    /// Everything, in steps of about ten.
    #[must_use]
    pub fn new() -> ScanOptions<'o> {
        ScanOptions::default()
    }

    /// `MATCH`: only what matches a glob (`user:*`).
    #[must_use]
    pub fn matching(self, pattern: &'o (impl AsRef<[u8]> + ?Sized)) -> ScanOptions<'o> {
        ScanOptions { pattern: Some(pattern.as_ref()), ..self }
    }

    /// `COUNT`: about how many a step looks at.
    #[must_use]
    pub fn count(self, count: u64) -> ScanOptions<'o> {
        ScanOptions { count: Some(count), ..self }
    }
}

impl Fill for ScanOptions<'_> {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        if let Some(pattern) = &self.pattern {
            words.bytes("MATCH").bytes(pattern);
        }
        if let Some(count) = self.count {
            words.bytes("COUNT").count(count);
        }
    }
}
