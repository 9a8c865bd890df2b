//! Going through keys and collections step by step, by cursors of the server.

use crate::client::Db;
use crate::error::Error;

impl Db {
    /// The keys of the database, step by step.
    pub fn scan(&self) -> Scan {
        Scan::new(self.clone(), "SCAN", None)
    }

    /// The members of a set, the fields and values of a hash, or the members and scores of a sorted set, step by step, by
    /// SSCAN, HSCAN or ZSCAN.
    pub fn scan_in(&self, command: ScanCommand, key: impl AsRef<[u8]>) -> Scan {
        Scan::new(self.clone(), command.name(), Some(key.as_ref().to_vec()))
    }
}

/// Which collection [`Db::scan_in`] goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanCommand {
    Sscan,
    Hscan,
    Zscan,
}

impl ScanCommand {
    fn name(self) -> &'static str {
        match self {
            ScanCommand::Sscan => "SSCAN",
            ScanCommand::Hscan => "HSCAN",
            ScanCommand::Zscan => "ZSCAN",
        }
    }
}

/// The keys of a database, or the elements of one key, step by step (SCAN and its relatives).
pub struct Scan {
    db: Db,
    /// The command up to its cursor, and what follows it.
    command: &'static str,
    key: Option<Vec<u8>>,
    pattern: Option<Vec<u8>>,
    count: Option<u32>,
    cursor: Option<Vec<u8>>,
    /// The nodes of a cluster that are left, the present one last; `None` until they are asked for.
    nodes: Option<Vec<Db>>,
}

impl Scan {
    pub(crate) fn new(db: Db, command: &'static str, key: Option<Vec<u8>>) -> Scan {
        Scan { db, command, key, pattern: None, count: None, cursor: Some(b"0".to_vec()), nodes: None }
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
        // The elements of one key are with its node, which finds itself.
        if self.nodes.is_none() {
            self.nodes =
                Some(if self.key.is_some() { vec![self.db.clone()] } else { self.db.at_nodes().await? });
        }
        let nodes = self.nodes.get_or_insert_default();
        let Some(db) = nodes.last() else { return Ok(None) };
        let pattern = self.pattern.as_ref().map(|pattern| ("MATCH", pattern));
        let count = self.count.map(|count| ("COUNT", count));
        let (next, found): (Vec<u8>, Vec<Vec<u8>>) =
            db.call((self.command, self.key.as_ref(), cursor, pattern, count)).await?;
        if next == b"0" {
            nodes.pop();
        }
        self.cursor = (next != b"0" || !nodes.is_empty()).then_some(next);
        Ok(Some(found))
    }
}
