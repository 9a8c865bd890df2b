//! What effects (`effect.rs`) and the change log (`log.rs`) have in common: whether a transaction tells, and how a record reads.
use crate::api::Db;

/// A thread that leaves more than this in its outbox merges it.
pub(crate) const MERGED_BY_WRITERS: u64 = 1 << 20;

/// The commands of a record are one transaction.
pub(crate) const ATOMIC: u32 = 1;
/// Bytes before a record's commands.
const HEAD: usize = 16;

/// Whether an attempt collects effects.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Telling {
    /// It has not looked yet.
    #[default]
    Unknown,
    No,
    Yes,
}

/// How far a transaction had come when a call began.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub(crate) writes: u64,
    pub(crate) told: u32,
}

/// One command of a record.
pub(crate) struct Told<'r> {
    pub db: Db,
    pub words: Vec<&'r [u8]>,
}

/// A record's commands, and whether they are one transaction; `None`: it makes no sense (S5).
pub(crate) fn read_record(says: &[u8]) -> Option<(bool, Vec<Told<'_>>)> {
    let (head, mut rest) = says.split_at_checked(HEAD)?;
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let mut take = |bytes: usize| {
        let (part, left) = rest.split_at_checked(bytes)?;
        rest = left;
        Some(part)
    };
    let mut told = Vec::new();
    for _ in 0..number(&head[4..]) {
        let head = take(8)?;
        let db = Db::from_le_bytes(head[..2].try_into().expect("two bytes"));
        let words = (0..number(&head[4..]))
            .map(|_| take(4).map(number).and_then(|bytes| take(bytes as usize)))
            .collect::<Option<_>>()?;
        told.push(Told { db, words });
    }
    Some((number(head) & ATOMIC != 0, told))
}
