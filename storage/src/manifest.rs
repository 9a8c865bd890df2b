//! The manifest: which files make up the log, in which order.
//!
//! ```text
//!   # polder memory=5f0c... stream=9d1e... log=7a20...          a comment; Redis skips it, and so do its tools
//!   file appendonly.aof.2.base.rdb seq 2 type b
//!   file appendonly.aof.1.incr.aof seq 1 type h                 history: replaced already, to be removed
//!   file appendonly.aof.2.incr.aof seq 2 type i
//! ```
//!
//! - **M1** There is at most one base. Sequence numbers of incremental files rise.
//! - **M2** Names are names, never paths: a manifest cannot point out of its folder.
//! - **M3** Pairs of words with another first word are skipped, since later versions of Redis may add some.
use polder_base::words::{quote, split};

/// The longest line that Redis reads.
const LINE_BYTES_MAX: usize = 1024;

const MARK: &str = "# polder ";

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub sequence: u64,
}

/// The form in which a base holds the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BaseForm {
    /// An RDB file.
    Rdb,
    /// Commands, as in incremental files.
    Commands,
}

impl Entry {
    /// A base, for a log whose files have this name in front.
    pub fn base(name: &str, sequence: u64, form: BaseForm) -> Entry {
        let ending = match form {
            BaseForm::Rdb => "rdb",
            BaseForm::Commands => "aof",
        };
        Entry { name: format!("{name}.{sequence}.base.{ending}").into_bytes(), sequence }
    }

    /// Whether its name says that it is an RDB file. Redis and Polder name bases so.
    pub fn is_named_rdb(&self) -> bool {
        self.name.ends_with(b".rdb")
    }
}

/// Whose log it is. Redis writes none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The id of the memory.
    pub memory: String,
    /// The id of the stream of changes, whose offsets the annotations name.
    pub stream: String,
    /// The id of the log itself: each log that is begun has another one, so that the note of one log is never taken for another's.
    pub log: String,
}

/// What a manifest says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub identity: Option<Identity>,
    pub base: Option<Entry>,
    pub history: Vec<Entry>,
    pub increments: Vec<Entry>,
}

/// Why a manifest cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Malformed {
    pub line: usize,
    pub why: &'static str,
}

/// What a file is in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Base,
    History,
    Incr,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// The first line that Redis would not take either, and why.
    pub fn parse(text: &[u8]) -> Result<Manifest, Malformed> {
        if text.is_empty() {
            return Err(Malformed { line: 1, why: "the manifest is empty" });
        }
        let mut manifest = Manifest::default();
        for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            manifest.take(line).map_err(|why| Malformed { line: at + 1, why })?;
        }
        Ok(manifest)
    }

    fn take(&mut self, line: &[u8]) -> Result<(), &'static str> {
        if line.first() == Some(&b'#') {
            self.identity = identity(line).or_else(|| self.identity.take());
            return Ok(());
        }
        if line.last() != Some(&b'\n') || line.len() > LINE_BYTES_MAX {
            return Err("the line is too long, or its end is missing");
        }
        let (role, entry) = entry(line)?;
        match role {
            Role::Base if self.base.is_some() => return Err("there is a second base file"),
            Role::Base => self.base = Some(entry),
            Role::History => self.history.push(entry),
            Role::Incr if self.increments.last().is_some_and(|last| last.sequence >= entry.sequence) => {
                return Err("the sequence numbers of incremental files do not rise");
            }
            Role::Incr => self.increments.push(entry),
        }
        Ok(())
    }

    /// The manifest's text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(Identity { memory, stream, log }) = &self.identity {
            text.push_str(&format!("{MARK}memory={memory} stream={stream} log={log}\n"));
        }
        let lines = self.base.iter().map(|entry| (entry, 'b'));
        let lines = lines.chain(self.history.iter().map(|entry| (entry, 'h')));
        for (Entry { name, sequence }, role) in lines.chain(self.increments.iter().map(|entry| (entry, 'i')))
        {
            text.push_str(&format!("file {} seq {sequence} type {role}\n", quote(name)));
        }
        text
    }

    /// Whether it names a file, as part of the log or as history.
    pub fn names(&self, name: &[u8]) -> bool {
        self.live().chain(&self.history).any(|entry| entry.name == name)
    }

    /// The files that make up the log, base first.
    pub fn live(&self) -> impl Iterator<Item = &Entry> {
        self.base.iter().chain(&self.increments)
    }

    /// The sequence number of the next base.
    pub fn next_base(&self) -> u64 {
        highest(self.base.iter().chain(&self.history)) + 1
    }

    /// The name of the next incremental file.
    pub fn next_incr(&self, name: &str) -> Entry {
        let sequence = highest(self.increments.iter().chain(&self.history)) + 1;
        Entry { name: format!("{name}.{sequence}.incr.aof").into_bytes(), sequence }
    }

    /// Another base takes the place of the one before and of all incremental files but those from `first` on.
    pub fn rebase(&mut self, base: Entry, first: u64) {
        self.history.extend(self.base.replace(base));
        let (kept, replaced) =
            std::mem::take(&mut self.increments).into_iter().partition(|entry| entry.sequence >= first);
        self.increments = kept;
        self.history.extend::<Vec<Entry>>(replaced);
    }
}

fn highest<'e>(entries: impl Iterator<Item = &'e Entry>) -> u64 {
    entries.map(|entry| entry.sequence).max().unwrap_or(0)
}

fn entry(line: &[u8]) -> Result<(Role, Entry), &'static str> {
    const WRONG: &str = "this is not 'file NAME seq NUMBER type b|h|i'";
    let words = split(line).filter(|words| words.len() >= 6 && words.len().is_multiple_of(2)).ok_or(WRONG)?;
    let (mut name, mut sequence, mut role) = (None, None, None);
    for pair in words.chunks_exact(2) {
        let value = &pair[1];
        match pair[0].to_ascii_lowercase().as_slice() {
            b"file" if value.contains(&b'/') || value.contains(&b'\\') => {
                return Err("a file is a path: only names are allowed");
            }
            b"file" => name = Some(value.clone()),
            b"seq" => sequence = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
            b"type" => {
                role = match value.first() {
                    Some(b'b') => Some(Role::Base),
                    Some(b'h') => Some(Role::History),
                    Some(b'i') => Some(Role::Incr),
                    _ => return Err("the file's type is unknown"),
                }
            }
            _ => {}
        }
    }
    match (name, sequence, role) {
        (Some(name), Some(sequence), Some(role)) if !name.is_empty() && sequence > 0 => {
            Ok((role, Entry { name, sequence }))
        }
        _ => Err(WRONG),
    }
}

fn identity(line: &[u8]) -> Option<Identity> {
    let rest = std::str::from_utf8(line).ok()?.strip_prefix(MARK)?;
    let value = |name: &str| {
        rest.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(String::from)
    };
    Some(Identity {
        memory: value("memory")?,
        stream: value("stream").unwrap_or_default(),
        log: value("log").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDIS: &str =
        "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";

    fn entry(name: &str, sequence: u64) -> Entry {
        Entry { name: name.into(), sequence }
    }

    #[test]
    fn what_redis_writes_is_read_and_written_alike() {
        let manifest = Manifest::parse(REDIS.as_bytes()).expect("a manifest");
        assert_eq!(manifest.base, Some(entry("appendonly.aof.1.base.rdb", 1)));
        assert_eq!(manifest.increments, [entry("appendonly.aof.1.incr.aof", 1)]);
        assert_eq!(manifest.text(), REDIS);
    }

    #[test]
    fn identity_history_quotes_and_unknown_words_are_read() {
        let text = "# polder memory=ab stream=cd log=ef\n# a comment\nfile \"a b.1.base.rdb\" seq 1 type b startoffset 7\r\n\
            FILE x.1.incr.aof SEQ 1 TYPE h\nfile x.2.incr.aof seq 2 type incremental\n";
        let manifest = Manifest::parse(text.as_bytes()).expect("a manifest");
        assert_eq!(
            manifest.identity,
            Some(Identity { memory: "ab".into(), stream: "cd".into(), log: "ef".into() })
        );
        assert_eq!(manifest.base, Some(entry("a b.1.base.rdb", 1)));
        assert_eq!((manifest.history.len(), manifest.increments.len()), (1, 1));
        assert_eq!(Manifest::parse(manifest.text().as_bytes()), Ok(manifest));
    }

    #[test]
    fn what_redis_refuses_is_refused_with_its_line() {
        let refused = |text: &str| Manifest::parse(text.as_bytes()).expect_err(text);
        assert_eq!(refused("").to_string(), "line 1: the manifest is empty");
        for (text, part) in [
            ("file a seq 1 type b\nfile b seq 2 type b\n", "line 2: there is a second base file"),
            ("file a seq 2 type i\nfile b seq 2 type i\n", "line 2: the sequence numbers"),
            ("file ../a seq 1 type b\n", "line 1: a file is a path"),
            ("file a seq 1 type x\n", "line 1: the file's type is unknown"),
            ("file a seq 0 type b\n", "line 1: this is not"),
            ("file a seq 1\n", "line 1: this is not"),
            ("\n", "line 1: this is not"),
            ("file a seq 1 type b", "line 1: the line is too long, or its end is missing"),
        ] {
            assert!(refused(text).to_string().starts_with(part), "{text:?}: {}", refused(text));
        }
    }

    #[test]
    fn another_base_makes_history_of_what_it_replaces() {
        let mut manifest = Manifest::parse(REDIS.as_bytes()).expect("a manifest");
        let fresh = manifest.next_incr("appendonly.aof");
        assert_eq!(fresh, entry("appendonly.aof.2.incr.aof", 2));
        manifest.increments.push(fresh);
        let base = Entry::base("appendonly.aof", manifest.next_base(), BaseForm::Rdb);
        manifest.rebase(base, 2);
        assert_eq!(manifest.base, Some(entry("appendonly.aof.2.base.rdb", 2)));
        assert_eq!(manifest.history.len(), 2);
        assert_eq!(manifest.next_base(), 3);
        assert_eq!(manifest.next_incr("appendonly.aof").sequence, 3);
    }
}
