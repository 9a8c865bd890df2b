//! Whether a memory is open: the mark of the process that reads data into it.
//!
//! ```text
//!   no mark                     a new memory, or one that no server has opened
//!   SEAT LIFE PROCESS KIND PATH a thread reads PATH into it; if that life of the seat is over, half of the data may be there
//!   1                           open
//! ```
//!
//! - **O1** Half of a log is never served, copied or built upon. While a living thread reads, others wait or are refused. Where it has died, only a
//!   process that reads a log anew takes its place, and begins with an empty memory. The mark keeps its kind and path until a log has been read.
//! - **O2** READING in the header is 1 before the mark is there, and 0 only after it is gone. So a process that attaches looks at the mark only where
//!   something may be read.
//! - **O3** No thread reads data into a memory while another one writes its log. The reader sets READING before it looks for a storage process, and
//!   gives up where there is one; a storage process takes the words of the segment before it looks at READING and the mark. Full barriers stand between,
//!   so one of the two sees the other.
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use polder_base::words::{quote, split};
use polder_calls::call::Outcome;
use polder_table::{Mode, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::{Kind, Value, string};

use polder_runtime::retry::retry;

const OPENED: &[u8] = b"persistence:opened";
const OPEN: &[u8] = b"1";

/// What is read into a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The folder of an append-only log, into an empty memory.
    Log(PathBuf),
    /// An RDB file: keys that are there already stay.
    Rdb(PathBuf),
    Nothing,
}

impl Source {
    fn words(&self) -> (&'static str, &Path) {
        match self {
            Source::Log(path) => ("log", path),
            Source::Rdb(path) => ("rdb", path),
            // It has no mark.
            Source::Nothing => ("nothing", Path::new("")),
        }
    }
}

/// A process that reads data into the memory, or died while it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    seat: u64,
    life: u64,
    pub process: u32,
    pub source: Source,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The memory is new, or the reader before has died: the calling thread reads, and no other.
    Ours,
    Open,
    /// A reader has died, and what the calling thread is about to read does not make that good; or it lives.
    Refused(Reader),
}

impl Reader {
    fn of(table: &Table, source: Source) -> Result<Reader, Stop> {
        let seat = table.seat()?;
        Ok(Reader { seat: seat.index(), life: seat.life(), process: std::process::id(), source })
    }

    fn text(&self) -> String {
        let (kind, path) = self.source.words();
        format!("{} {} {} {kind} {}", self.seat, self.life, self.process, quote(path.as_os_str().as_bytes()))
    }

    fn parse(text: &[u8]) -> Option<Reader> {
        let words = split(text)?;
        let [seat, life, process, kind, path] = &words[..] else { return None };
        let number = |word: &Vec<u8>| String::from_utf8_lossy(word).parse::<u64>().ok();
        let path = PathBuf::from(OsString::from_vec(path.clone()));
        let source = match kind.as_slice() {
            b"log" => Source::Log(path),
            b"rdb" => Source::Rdb(path),
            _ => return None,
        };
        Some(Reader { seat: number(seat)?, life: number(life)?, process: number(process)? as u32, source })
    }

    /// Whether it is still at it.
    pub fn lives(&self, table: &Table) -> bool {
        table.segment().lives(self.seat, self.life)
    }

    /// Whether a process that reads this makes good that the reader has died.
    fn is_made_good_by(&self, source: &Source) -> bool {
        match self.source {
            Source::Log(_) => matches!(source, Source::Log(_)),
            Source::Rdb(_) => *source != Source::Nothing,
            Source::Nothing => true,
        }
    }

    /// Why the memory cannot be used now, and what to do.
    pub fn trouble(&self, table: &Table) -> String {
        let segment = table.segment().mapping().name();
        let (path, process) = (self.source.words().1.display(), self.process);
        if self.lives(table) {
            return format!(
                "LOADING process {process} reads the data of {segment} from {path}: try again when that has ended"
            );
        }
        let again = match self.source {
            Source::Log(_) => {
                "start a server with '--appendonly yes' and the --dir of that log, which reads it again"
            }
            _ => "start a server that reads that file again",
        };
        format!(
            "{segment} holds a part of the data only: process {process} died while it read {path}. Either {again}; or remove the segment \
             ('polder segment remove {segment}')"
        )
    }
}

fn mark(txn: &Txn<'_>) -> Result<Option<Vec<u8>>, Stop> {
    let found = txn.peek(SYSTEM, OPENED)?;
    Ok(found.map(|found| string::contiguous(txn, &found.value).map(|text| text.into_owned())).transpose()?)
}

fn set(txn: &Txn<'_>, text: &[u8]) -> Result<(), Stop> {
    txn.write(SYSTEM, OPENED, &New::of(Kind::String, Value::Packed(text)), Replaces::Whole)
}

/// The process that reads data into the memory, or has died while it did; `None`: the memory is open, or new.
///
/// # Errors
/// What the memory says.
pub fn reader(table: &Table) -> Result<Option<Reader>, Stop> {
    let txn = table.begin(Mode::Read)?;
    let mut found = None;
    retry(&txn, || {
        found = mark(&txn)?.and_then(|text| Reader::parse(&text));
        Ok(())
    })?;
    Ok(found)
}

/// Whether a memory may be used by a process that reads nothing into it (O1, O2).
///
/// # Errors
/// Why not, and what to do.
pub fn check_open(table: &Table) -> Result<(), String> {
    // O3.
    fence(Ordering::SeqCst);
    if !table.segment().may_be_reading() {
        return Ok(());
    }
    match reader(table).map_err(|stop| stop.to_string())? {
        Some(reader) => Err(reader.trouble(table)),
        None => Ok(()),
    }
}

/// Has the calling thread read data into the memory, if no server has opened it and there are no keys, or if the thread has died that read before it
/// called [`confirm`]. Of several that ask at once, one is told so; where it is not new, or there is nothing to be read, it is open from now on.
///
/// # Errors
/// What the memory says.
pub fn claim(table: &Table, source: &Source) -> Result<Claim, Stop> {
    let mut mine = Reader::of(table, source.clone())?;
    let txn = table.begin(Mode::Write)?;
    let mut claimed = Claim::Open;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, OPENED)])?;
        let before = mark(&txn)?;
        let reader = before.as_deref().and_then(Reader::parse);
        // O2, O3.
        table.segment().set_reading(true);
        let is_logged = is_logged(table);
        claimed = match &reader {
            Some(reader) if reader.lives(table) || !reader.is_made_good_by(source) || is_logged => {
                Claim::Refused(reader.clone())
            }
            Some(reader) => {
                // O1.
                if matches!(reader.source, Source::Log(_)) {
                    mine.source = reader.source.clone();
                }
                Claim::Ours
            }
            None if before.is_none() && !is_logged && *source != Source::Nothing && is_new(table) => {
                Claim::Ours
            }
            None => Claim::Open,
        };
        match claimed {
            Claim::Ours => set(&txn, mine.text().as_bytes()),
            Claim::Open if before.is_none() => set(&txn, OPEN),
            Claim::Open | Claim::Refused(_) => Ok(()),
        }
    })?;
    drop(txn);
    if claimed != Claim::Ours {
        end_reading(table)?;
    }
    Ok(claimed)
}

/// Whether a living process writes what is committed into an append-only log.
pub fn is_logged(table: &Table) -> bool {
    // O3.
    fence(Ordering::SeqCst);
    table.segment().storage().owner().is_some_and(|owner| owner.lives)
}

fn is_new(table: &Table) -> bool {
    (0..SYSTEM).all(|db| table.keys(db).0 == 0)
}

/// Has the calling thread read a log into a memory that is empty, and may be open. The caller then looks once more whether it [is logged](is_logged)
/// (O3), and if so takes the mark back by [`confirm`].
///
/// # Errors
/// What the memory says.
pub fn mark_reading(table: &Table, source: Source) -> Outcome {
    let mine = Reader::of(table, source)?;
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, OPENED)])?;
        // O2.
        table.segment().set_reading(true);
        set(&txn, mine.text().as_bytes())
    })
}

/// The memory has what it was to have.
///
/// # Errors
/// What the memory says.
pub fn confirm(table: &Table) -> Outcome {
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, OPENED)])?;
        set(&txn, OPEN)
    })?;
    drop(txn);
    end_reading(table)
}

/// Says that no data is being read, unless another thread has begun to. Both look and store while they hold the mark's lock (O2).
fn end_reading(table: &Table) -> Outcome {
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, OPENED)])?;
        if mark(&txn)?.as_deref().and_then(Reader::parse).is_none() {
            table.segment().set_reading(false);
        }
        Ok(())
    })
}

/// The new memory is new again: what was to be read into it could not be.
///
/// # Errors
/// What the memory says.
pub fn disclaim(table: &Table) -> Outcome {
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, OPENED)])?;
        txn.flush(None)?;
        txn.tell_flush();
        txn.remove(SYSTEM, OPENED, Replaces::Whole).map(|_| ())
    })?;
    drop(txn);
    end_reading(table)
}
