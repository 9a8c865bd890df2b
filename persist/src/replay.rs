//! Reading a log of commands into the table: a base, which is an RDB file or commands, and then the incremental files.
//!
//! ```text
//!   manifest --> base.rdb ---------> load     keys as transactions, those that have expired included
//!            \-> 1.incr.aof ...  --> execute  each command as a client would make it, but for what is said below
//! ```
//!
//! - **P1** Nothing expires meanwhile ([`Loading`]): what a command met when it was made is there when it is made again. What has expired goes afterwards.
//! - **P2** No user's rights, no `maxmemory` and no other setting that refuses writes stop a command ([`Settings::for_replay`]). The segment's own size
//!   does, and then the load fails.
//! - **P3** A command that is refused for what it meets (`WRONGTYPE`) was refused before, too: it is counted, and the load goes on. What is refused for
//!   another reason, commands that are unknown, and SELECT, MULTI and EXEC that are refused, end the load: what follows would go astray.
//! - **P4** Only the last file may end inside a record, and only where the settings allow it (`aof-load-truncated`).
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polder_storage::check::{EMPTY_RDB, is_rdb};
use polder_storage::{Batch, Disk, Entry, File, Folder, Manifest, ScanError, scan};
use polder_table::{Loading, SYSTEM, Table};

use crate::apply::{Applied, Applier, Loader};
use crate::saves::load::{Expired, Loaded, Present, Rules, load_with};
use polder_calls::settings::{Settings, id};
use polder_runtime::configuration::Configuration;
use polder_runtime::scripting::Scripting;
use polder_runtime::session::Session;

/// What is done where the last file ends inside a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TornEnd {
    /// The load fails.
    Refused,
    /// What is not whole does not count.
    Ignored,
    /// The same, and the file is cut off there, so that more can be appended.
    CutOff,
}

/// What a log came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// What was in the RDB part of the base.
    pub base: Loaded,
    pub commands: u64,
    /// Commands that were refused, and the first of them.
    pub refused: u64,
    pub first_refused: Option<String>,
    /// The file that ended inside a record, and how much of it counts.
    pub torn: Option<(PathBuf, u64)>,
    /// The offset of the stream behind the last command, where the log says so.
    pub offset: Option<u64>,
    pub manifest: Manifest,
}

/// Where the settings have the log, as an absolute path.
pub fn folder(settings: &Settings) -> Folder {
    let path = PathBuf::from(settings.string(const { id("dir") }))
        .join(settings.string(const { id("appenddirname") }));
    let path = std::path::absolute(&path).unwrap_or(path);
    Folder { medium: Arc::new(Disk), path, name: settings.string(const { id("appendfilename") }) }
}

/// The files of a log, up to where they reached when they were opened: more may be appended, and a rewrite may remove their names.
pub struct Files<'f> {
    folder: &'f Folder,
    manifest: Manifest,
    parts: Vec<Part>,
}

/// One of them.
struct Part {
    entry: Entry,
    file: Box<dyn File>,
    length: u64,
}

impl Files<'_> {
    /// Opens the files that a manifest names.
    ///
    /// # Errors
    /// Which file cannot be read, and why.
    pub fn open(folder: &Folder, manifest: Manifest) -> Result<Files<'_>, String> {
        let part = |entry: &Entry| {
            let path = folder.path_of(entry);
            let file = folder.medium.read(&path).map_err(|error| told(&path, &error.to_string()))?;
            let length = file.length().map_err(|error| told(&path, &error.to_string()))?;
            Ok(Part { entry: entry.clone(), file, length })
        };
        let parts = manifest.live().map(part).collect::<Result<Vec<_>, String>>()?;
        Ok(Files { folder, manifest, parts })
    }
}

/// Reads a log into a table, which must be empty and stays without limits until `loading` ends. `progress` hears how many bytes of all files have
/// been read. The scripting runs the scripts and functions that the log may call.
///
/// # Errors
/// What went wrong, with file and byte. What was read before it stays in the table.
pub fn replay(
    loading: &Loading<'_>,
    settings: &Configuration,
    scripting: &Scripting,
    Files { folder, manifest, parts }: Files<'_>,
    torn_end: TornEnd,
    progress: &mut dyn FnMut(u64),
) -> Result<Replayed, String> {
    let (table, settings) = (loading.table(), &settings.for_replay());
    let host = Loader::new(settings, scripting);
    let mut replaying =
        Replaying { table, settings, applier: Applier::new(table, &host), done: Replayed::default() };
    let mut before = 0;
    for (number, part) in parts.iter().enumerate() {
        let torn_end = if number + 1 == parts.len() { torn_end } else { TornEnd::Refused };
        let path = folder.path_of(&part.entry);
        let read = replaying.read_file(folder, part, torn_end, &mut |bytes| progress(before + bytes));
        before += read.map_err(|why| told(&path, &why))?;
    }
    let Applied { commands, refused, first_refused } = replaying.applier.done;
    Ok(Replayed { manifest, commands, refused, first_refused, ..replaying.done })
}

fn told(path: &Path, why: &str) -> String {
    format!("{}: {why}", path.display())
}

/// The way through the files.
struct Replaying<'r> {
    table: &'r Table,
    settings: &'r Settings,
    applier: Applier<'r>,
    done: Replayed,
}

impl Replaying<'_> {
    /// Reads one file; returns its length.
    fn read_file(
        &mut self,
        folder: &Folder,
        part: &Part,
        torn_end: TornEnd,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, String> {
        let path = &folder.path_of(&part.entry);
        let begin = match is_rdb(part).map_err(|error| error.to_string())? {
            true => self.load_rdb(part, progress)?,
            false if part.entry.is_named_rdb() && part.length == 0 => return Err(EMPTY_RDB.into()),
            false => 0,
        };
        // Each file selects its database itself.
        self.applier.session = Session::default();
        let end =
            scan(part, begin, &mut |batch| self.take(batch, progress)).map_err(|error| match error {
                ScanError::Malformed { at, why, .. } => {
                    format!("at byte {at}: {why}; 'polder log check' tells what can be saved")
                }
                other => other.to_string(),
            })?;
        self.done.offset = end.offset.or(self.done.offset);
        if end.is_torn() {
            self.end_torn(folder, path, end.valid(), torn_end)?;
        }
        Ok(end.length)
    }

    fn end_torn(
        &mut self,
        folder: &Folder,
        path: &Path,
        valid: u64,
        torn_end: TornEnd,
    ) -> Result<(), String> {
        match torn_end {
            TornEnd::Refused => {
                return Err(format!(
                    "at byte {valid}: the file ends inside a record or a transaction. Only the last file of a log may, and only with \
                     'aof-load-truncated yes'; 'polder log check' tells more, and cuts the end off with --fix"
                ));
            }
            TornEnd::Ignored => {}
            TornEnd::CutOff => {
                let cut =
                    folder.medium.open(path).and_then(|file| file.truncate(valid).and_then(|()| file.sync()));
                cut.map_err(|error| format!("it ends inside a record, and cannot be cut off: {error}"))?;
            }
        }
        // A MULTI without EXEC ends here (P4).
        self.applier.session = Session::default();
        self.done.torn = Some((path.to_owned(), valid));
        Ok(())
    }

    /// Loads the RDB part of a file; returns where it ends.
    fn load_rdb(&mut self, file: &dyn File, progress: &mut dyn FnMut(u64)) -> Result<u64, String> {
        let mut end = 0;
        let mut heard = |bytes| {
            end = bytes;
            progress(bytes);
        };
        let mut input = Input { file, at: 0 };
        let loaded = load_with(
            self.table,
            self.settings,
            &mut input,
            Rules::of(Present::Replaced, Expired::Kept),
            &mut heard,
        )
        .map_err(|cut| cut.to_string())?;
        self.applier.expires |= loaded.expires;
        self.done.base = loaded;
        Ok(end)
    }

    fn take(&mut self, batch: &Batch<'_>, progress: &mut dyn FnMut(u64)) -> Result<(), String> {
        let mut last = 0;
        for (at, words) in batch.calls() {
            self.applier.run(words).map_err(|why| format!("at byte {at}: {why}"))?;
            last = at;
        }
        progress(last);
        Ok(())
    }
}

impl File for Part {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        self.file.read_at(&mut bytes[..left], at)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// A file of the log as what an RDB file is read from.
struct Input<'f> {
    file: &'f dyn File,
    at: u64,
}

impl Read for Input<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Input<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
            SeekFrom::End(by) => self.file.length()?.saturating_add_signed(by),
        };
        Ok(self.at)
    }
}

/// Whether no client's key is in the table: a log can only be read into an empty one.
pub fn is_empty(table: &Table) -> bool {
    (0..SYSTEM).all(|db| table.keys(db).0 == 0)
}
