//! The note of the storage process in the hidden database: which log it writes, and how far the change log was copied into it.
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use polder_base::words::{quote, split};
use polder_storage::{Folder, Left, Noted, Position};
use polder_table::{Mode, New, Replaces, SYSTEM, Stop, Table};
use polder_values::{Kind, Value, string};

use polder_runtime::retry::retry;

/// How long a note waits for locks: who writes the log must not stop behind a stopped thread.
const PATIENCE: Duration = Duration::from_millis(200);

/// The key of the note.
const NOTE: &[u8] = b"persistence:log";

/// In the place of the boot where the log was ended for good.
const ENDED: &str = "ended";

/// Which log is written, and how far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The id of the log, which its manifest has, too.
    pub log: String,
    /// The boot of the machine in which the files were written. After another one the disk may have less than was noted.
    pub boot: String,
    /// The stream whose offsets these are.
    pub stream: String,
    pub position: Position,
    /// Up to where the last sync had reached.
    pub synced: Position,
    /// The change log was off before the storage process turned it on.
    pub has_turned_on: bool,
    /// The folder's absolute path, and how the names of the files begin.
    pub path: PathBuf,
    pub name: String,
}

impl Note {
    /// Where the log lies.
    pub fn folder(&self, like: &Folder) -> Folder {
        Folder { medium: like.medium.clone(), path: self.path.clone(), name: self.name.clone() }
    }

    /// What the process that has noted this has left; `in_sync`: a sync was under way.
    pub fn left(&self, in_sync: bool) -> Left {
        Left { position: self.position, synced: self.synced, in_sync }
    }

    fn text(&self) -> String {
        let told = |Position { noted: Noted { sequence, length }, offset }: Position| {
            format!("{sequence} {length} {offset}")
        };
        let (position, synced) = (told(self.position), told(self.synced));
        let (path, name) = (quote(self.path.as_os_str().as_bytes()), quote(self.name.as_bytes()));
        let on = u8::from(self.has_turned_on);
        format!("{} {} {} {position} {synced} {on} {path} {name}", self.log, self.boot, self.stream)
    }

    fn parse(text: &[u8]) -> Option<Note> {
        let words = split(text)?;
        let [log, boot, stream, places @ .., on, path, name] = &words[..] else { return None };
        let text = |word: &Vec<u8>| String::from_utf8(word.clone()).ok();
        let places: Option<Vec<u64>> = places.iter().map(|word| text(word)?.parse().ok()).collect();
        let &[sequence, length, offset, synced_sequence, synced_length, synced_offset] = &places?[..] else {
            return None;
        };
        Some(Note {
            log: text(log)?,
            boot: text(boot)?,
            stream: text(stream)?,
            position: Position { noted: Noted { sequence, length }, offset },
            synced: Position {
                noted: Noted { sequence: synced_sequence, length: synced_length },
                offset: synced_offset,
            },
            has_turned_on: on == b"1",
            path: PathBuf::from(std::ffi::OsString::from_vec(path.clone())),
            name: text(name)?,
        })
    }

    /// Writes the note, in one transaction.
    ///
    /// # Errors
    /// What the memory says; [`Stop::Busy`] where another thread has had the lock for too long.
    pub fn store(&self, table: &Table) -> Result<(), Stop> {
        let text = self.text();
        let txn = table.begin(Mode::Write)?;
        txn.limit_patience(PATIENCE);
        retry(&txn, || {
            txn.declare(&[(SYSTEM, NOTE)])?;
            txn.write(SYSTEM, NOTE, &New::of(Kind::String, Value::Packed(text.as_bytes())), Replaces::Whole)
        })
    }

    /// Reads what the process before has noted; `None` where there is nothing that this version understands.
    ///
    /// # Errors
    /// What the memory says.
    pub fn load(table: &Table) -> Result<Option<Note>, Stop> {
        let txn = table.begin(Mode::Read)?;
        let mut found = None;
        retry(&txn, || {
            let note = txn.peek(SYSTEM, NOTE)?;
            found = note
                .map(|note| string::contiguous(&txn, &note.value).map(|text| text.into_owned()))
                .transpose()?;
            Ok(())
        })?;
        Ok(found.and_then(|text| Note::parse(&text)))
    }

    /// The note of a log that is not continued: the memory goes on without it.
    pub fn ended(self, offset: u64) -> Note {
        Note { boot: ENDED.into(), position: Position { offset, ..self.position }, ..self }
    }

    /// Whether the log that it names is not continued.
    pub fn has_ended(&self) -> bool {
        self.boot == ENDED
    }
}

/// The id of a new log: 32 random hexadecimal digits.
pub fn new_log_id() -> String {
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
    format!("{:016x}{:016x}", random(), random())
}

/// The boot of this machine, as 32 hexadecimal digits.
///
/// # Errors
/// What the system says.
pub fn boot_id() -> Result<String, String> {
    let id = polder_shm::machine::boot_id().map_err(|fault| fault.to_string())?;
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let position = Position { noted: Noted { sequence: 3, length: 77 }, offset: 1 << 40 };
        let note = Note {
            log: new_log_id(),
            boot: boot_id().expect("an id"),
            stream: "0123".into(),
            position,
            synced: Position { noted: Noted { sequence: 2, length: 9 }, offset: 5 },
            has_turned_on: true,
            path: "/a folder/with \"quotes\"".into(),
            name: "appendonly.aof".into(),
        };
        assert_eq!(Note::parse(note.text().as_bytes()), Some(note));
        assert_eq!(Note::parse(b"0123 1 77 1000"), None, "that of an earlier version");
        assert_ne!(new_log_id(), new_log_id());
    }
}
