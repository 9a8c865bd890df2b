//! Going through keys and collections step by step, by cursors of the server.

use crate::client::Db;
use crate::error::Error;

/// The keys of a database, or the elements of one key, step by step (SCAN and its relatives).
pub struct Scan {
    db: Db,
    /// The command up to its cursor, and what follows it.
    command: &'static str,
    key: Option<Vec<u8>>,
    pattern: Option<Vec<u8>>,
    count: Option<u32>,
    cursor: Option<Vec<u8>>,
}

impl Scan {
    pub(crate) fn new(db: Db, command: &'static str, key: Option<Vec<u8>>) -> Scan {
        Scan { db, command, key, pattern: None, count: None, cursor: Some(b"0".to_vec()) }
    }

    /// Only what matches a pattern.
    #[must_use]
    pub fn matching(mut self, pattern: impl AsRef<[u8]>) -> Scan {
        self.pattern = Some(pattern.as_ref().to_vec());
        self
    }

    /// About how many elements a step looks at.
    #[must_use]
    pub fn count(mut self, count: u32) -> Scan {
        self.count = Some(count);
        self
    }

    /// The next portion, which may be empty; `None` at the end. An element may come more than once, as SCAN says.
    ///
    /// # Errors
    /// Those of any call; the same portion may then be asked for again.
    pub async fn step(&mut self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let pattern = self.pattern.as_ref().map(|pattern| ("MATCH", pattern));
        let count = self.count.map(|count| ("COUNT", count));
        let (next, found): (Vec<u8>, Vec<Vec<u8>>) = self.db.call((self.command, self.key.as_ref(), cursor, pattern, count)).await?;
        self.cursor = (next != b"0").then_some(next);
        Ok(Some(found))
    }
}
