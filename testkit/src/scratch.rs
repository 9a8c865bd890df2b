//! Segments for one test: a name that no other test has, and nothing left behind.
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use polder_engine::{Memory, Options};

use crate::caller::Embedder;

/// The most a test's segment may grow to, in bytes.
pub const CEILING: u64 = 256 << 20;

const PREFIX: &str = "polder-test-";

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

    /// As [`Scratch::new`], with room for `ceiling` bytes.
    ///
    /// # Panics
    /// As there.
    pub fn with_ceiling(ceiling: u64) -> Scratch {
        let options = Options { segment: fresh_name(), ceiling, ..Options::default() };
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        let embedder =
            Embedder::attach(&options).unwrap_or_else(|fault| panic!("{}: {fault}", options.segment));
        Scratch { embedder, options }
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It fails only when a test has removed the segment itself.
        let _ = Memory::remove(&self.options.segment);
    }
}

/// Removes what tests that were killed have left behind: their segments carry their process's id.
fn sweep() {
    let left = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    for name in left.filter_map(|entry| entry.file_name().into_string().ok()) {
        // Some tests' names begin with their purpose: their owner is not known.
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next())
            .and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Another sweeper may be faster.
            let _ = Memory::remove(&format!("shm:{name}"));
        }
    }
}

/// A segment name that no other test of this machine uses.
pub fn fresh_name() -> String {
    format!("shm:{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
