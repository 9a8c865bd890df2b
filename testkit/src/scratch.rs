//! Segments for one test: a name nobody else has, and nothing left behind.
use std::sync::atomic::{AtomicU32, Ordering};

use polder_engine::Options;

use crate::caller::Embedder;

/// The most a test's segment may grow to, in bytes.
const CEILING: u64 = 256 << 20;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A memory of its own for one test.
pub struct Scratch {
    pub embedder: Embedder,
    pub options: Options,
}

impl Scratch {
    /// Makes an empty memory under a fresh name.
    ///
    /// # Panics
    /// When the segment cannot be made: no test can go on then.
    pub fn new() -> Scratch {
        Scratch::with_ceiling(CEILING)
    }

    /// As [`Scratch::new`], with room for so many bytes.
    ///
    /// # Panics
    /// As there.
    pub fn with_ceiling(ceiling: u64) -> Scratch {
        let options = Options { segment: fresh_name(), ceiling, ..Options::default() };
        let embedder = Embedder::attach(&options).unwrap_or_else(|fault| panic!("{}: {fault}", options.segment));
        Scratch { embedder, options }
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// A segment name that no other test of this machine uses.
pub fn fresh_name() -> String {
    format!("shm:polder-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
