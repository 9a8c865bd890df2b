//! What effects (`effect.rs`), fast paths (`recording.rs`) and the change log (`log.rs`) have in common: whether a transaction tells, and how a
//! record reads.
//!
//! ```text
//!   what a record says   flags (4) | commands (4) | milliseconds (8) | commands
//!   or                   flags (4) | state (4)    | role (8)         | bytes of a primary's stream (`ride.rs`)
//!   command              database (2) | more (2) | words (4) | for each word: bytes (4) and the word
//! ```
//!
//! `more`: the number of commands behind this one that are a transaction with it, where the record itself is none. A call that tells of several, in a record of
//! calls that only share a commit, is still whole or not at all for each follower, and so is a log that ends there.
use crate::api::Db;

/// The commands of a record are one transaction.
pub(crate) const ATOMIC: u32 = 1;
/// The record is bytes of a primary's stream, as they came; the [state](polder_shm::change_log::Format::state) is that behind them.
const VERBATIM: u32 = 2;
/// Bytes before a record's commands, before a command's words, and before a word.
const HEAD: usize = 16;
const COMMAND_HEAD: usize = 8;
const WORD_HEAD: usize = 4;
/// The longest record that a fast path makes: longer values are no packed ones.
const QUICK_MAX: usize = 1 << 16;

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
    /// Commands that have been told, and their bytes.
    pub(crate) commands: u32,
    pub(crate) bytes: usize,
}

/// The bytes before the commands of a record: `count` of them.
pub(crate) fn record_head(flags: u32, count: u32, now_ms: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&flags.to_le_bytes());
    head[4..8].copy_from_slice(&count.to_le_bytes());
    head[8..].copy_from_slice(&now_ms.to_le_bytes());
    head
}

/// The bytes before the words of a command: `count` of them.
pub(crate) fn command_head(db: Db, count: usize) -> [u8; COMMAND_HEAD] {
    (u64::from(db) | (count as u64) << 32).to_le_bytes()
}

/// Says in the head of a command how many behind it are a transaction with it.
pub(crate) fn join(head: &mut [u8], more: u32) {
    // Those that a head cannot count stand alone.
    head[2..4].copy_from_slice(&u16::try_from(more).unwrap_or(u16::MAX).to_le_bytes());
}

/// The bytes before a word.
pub(crate) fn word_head(word: &[u8]) -> [u8; WORD_HEAD] {
    (word.len() as u32).to_le_bytes()
}

/// A command's name and its other words.
pub(crate) type Command<'w> = (&'w [u8], &'w [&'w [u8]]);

/// The record of a fast path: of one command, or of a few that are a transaction.
pub(crate) struct QuickRecord<'w> {
    pub db: Db,
    pub commands: &'w [Command<'w>],
    pub now_ms: u64,
}

impl QuickRecord<'_> {
    /// How many bytes the record says; `None`: too many for a fast path.
    pub(crate) fn bytes(&self) -> Option<usize> {
        let mut bytes = HEAD;
        for (name, words) in self.commands {
            let words = words.iter().map(|word| WORD_HEAD + word.len()).sum::<usize>();
            bytes += COMMAND_HEAD + WORD_HEAD + name.len() + words;
        }
        (bytes <= QUICK_MAX).then_some(bytes)
    }

    /// Writes these bytes.
    pub(crate) fn write(&self, place: &mut [u8]) {
        let mut rest = place;
        let mut put = |bytes: &[u8]| {
            let (own, behind) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            own.copy_from_slice(bytes);
            rest = behind;
        };
        let flags = if self.commands.len() > 1 { ATOMIC } else { 0 };
        put(&record_head(flags, self.commands.len() as u32, self.now_ms));
        for (name, words) in self.commands {
            put(&command_head(self.db, 1 + words.len()));
            put(&word_head(name));
            put(name);
            for word in *words {
                put(&word_head(word));
                put(word);
            }
        }
    }
}

/// One command of a record.
pub(crate) struct Told<'r> {
    pub db: Db,
    /// How many commands behind it are a transaction with it.
    pub more: u16,
    pub words: Vec<&'r [u8]>,
}

/// Bytes of a primary's stream that a record holds.
pub(crate) struct Verbatim<'r> {
    pub bytes: &'r [u8],
    /// The state behind them.
    pub state: u64,
    /// The word of the [role](polder_shm::Role) in which they were taken.
    pub role: u64,
}

impl Verbatim<'_> {
    /// The bytes before the primary's.
    pub(crate) fn head(&self) -> [u8; HEAD] {
        record_head(VERBATIM, self.state as u32, self.role)
    }

    /// A record that holds such bytes; `None`: it holds commands.
    pub(crate) fn read(says: &[u8]) -> Option<Verbatim<'_>> {
        let (head, bytes) = says.split_at_checked(HEAD)?;
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        let role = u64::from_le_bytes(head[8..].try_into().expect("eight bytes"));
        (number(head) & VERBATIM != 0).then(|| Verbatim { bytes, state: number(&head[4..]).into(), role })
    }
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
        let head = take(COMMAND_HEAD)?;
        let db = Db::from_le_bytes(head[..2].try_into().expect("two bytes"));
        let words = (0..number(&head[4..]))
            .map(|_| take(WORD_HEAD).map(number).and_then(|bytes| take(bytes as usize)))
            .collect::<Option<_>>()?;
        let more = u16::from_le_bytes(head[2..4].try_into().expect("two bytes"));
        told.push(Told { db, more, words });
    }
    Some((number(head) & ATOMIC != 0, told))
}
