//! A whole log looked at: `polder log check`. What redis-check-aof finds is found, and told by file and byte.
use std::io;
use std::path::PathBuf;

use polder_wire::rdb::{Item, Reader};

use crate::folder::{Folder, Unreadable};
use crate::manifest::{Entry, Manifest};
use crate::medium::File;
use crate::scan::{ScanError, scan};

/// What the first bytes of an RDB file are; a base that begins otherwise holds commands.
pub const RDB_MAGIC: &[u8] = b"REDIS";

/// What is told of a base that has lost its content.
pub const EMPTY_RDB: &str = "the file is named as an RDB file and is empty: it has lost what it held";

/// Bytes of an RDB file that are read at once.
const CHUNK: usize = 1 << 20;

/// What is known of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    pub path: PathBuf,
    pub bytes: u64,
    /// Keys of its RDB part.
    pub keys: u64,
    pub commands: u64,
    /// The last offset of the stream that an annotation names.
    pub offset: Option<u64>,
}

/// What is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    pub path: PathBuf,
    pub at: u64,
    pub why: String,
    /// Where the file may be cut off so that the log is whole again; only the last file's end can be.
    pub cut_at: Option<u64>,
}

/// What is known of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub manifest: Manifest,
    /// The files that were read, in their order.
    pub files: Vec<Looked>,
    /// The first thing that is wrong. What stands behind it has not been looked at.
    pub flaw: Option<Flaw>,
}

/// Why a log cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Unchecked {
    #[error(transparent)]
    Manifest(#[from] Unreadable),
    #[error("{}: there is no manifest", .0.display())]
    Missing(PathBuf),
    #[error("{}: {error}", path.display())]
    System { path: PathBuf, error: io::Error },
}

/// Reads all files of a log.
///
/// # Errors
/// Where there is no manifest, or a file cannot be read. A file with a flaw is part of the report.
pub fn check(folder: &Folder) -> Result<Report, Unchecked> {
    let manifest = folder.load()?.ok_or_else(|| Unchecked::Missing(folder.manifest_path()))?;
    let mut report = Report { manifest: manifest.clone(), ..Report::default() };
    let last = manifest.live().last().cloned();
    for entry in manifest.live() {
        let is_last = Some(entry) == last.as_ref();
        report.flaw = look(folder, entry, is_last, &mut report.files)?;
        if report.flaw.is_some() {
            break;
        }
    }
    Ok(report)
}

fn look(
    folder: &Folder,
    entry: &Entry,
    is_last: bool,
    files: &mut Vec<Looked>,
) -> Result<Option<Flaw>, Unchecked> {
    let path = folder.path_of(entry);
    let flaw = |at, why: String, cut_at: Option<u64>| Flaw {
        path: path.clone(),
        at,
        why,
        cut_at: cut_at.filter(|_| is_last),
    };
    let failed = |error| Unchecked::System { path: path.clone(), error };
    let file = match folder.medium.read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(flaw(0, "the manifest names this file, and it is not there".into(), None)));
        }
        file => file.map_err(failed)?,
    };
    let mut looked =
        Looked { path: path.clone(), bytes: file.length().map_err(failed)?, ..Looked::default() };
    let mut begin = 0;
    let is_rdb = is_rdb(&*file).map_err(failed)?;
    if looked.bytes == 0 && entry.is_named_rdb() {
        files.push(looked);
        return Ok(Some(flaw(0, EMPTY_RDB.into(), None)));
    }
    if is_rdb {
        match walk_rdb(&*file, &mut looked.keys) {
            Ok(end) => begin = end,
            // Half an RDB file has no prefix that is a state of the data.
            Err((at, why)) => {
                files.push(looked);
                return Ok(Some(flaw(at, why, None)));
            }
        }
    }
    let found = match scan(&*file, begin, &mut |_| Ok(())) {
        Ok(end) => {
            (looked.commands, looked.offset) = (end.commands, end.offset);
            let why = match end.open_multi {
                Some(_) => "a MULTI has no EXEC",
                None => "the file ends inside a record",
            };
            end.is_torn().then(|| flaw(end.valid(), why.into(), Some(end.valid())))
        }
        Err(ScanError::Malformed { at, why, valid, .. }) => Some(flaw(at, why, Some(valid))),
        Err(ScanError::System(error)) => return Err(failed(error)),
        Err(ScanError::Refused(why)) => Some(flaw(0, why, None)),
    };
    files.push(looked);
    Ok(found)
}

/// Whether a file begins as an RDB file does.
///
/// # Errors
/// What the system says.
pub fn is_rdb(file: &dyn File) -> io::Result<bool> {
    let mut magic = [0; RDB_MAGIC.len()];
    Ok(file.read_at(&mut magic, 0)? == magic.len() && magic == RDB_MAGIC)
}

/// Reads the RDB part of a file and counts its keys; returns where it ends.
fn walk_rdb(file: &dyn File, keys: &mut u64) -> Result<u64, (u64, String)> {
    let (mut reader, mut buffer, mut at, mut end) = (Reader::file(true, true), Vec::new(), 0, 0);
    loop {
        let step = reader.read(&buffer, &mut at).map(|item| item.map(|item| matches!(item, Item::Begin(_))));
        match step {
            Ok(Some(begins)) => *keys += u64::from(begins),
            Ok(None) if reader.is_done() => return Ok(reader.taken()),
            Ok(None) => {
                buffer.drain(..std::mem::take(&mut at));
                let have = buffer.len();
                buffer.resize(have + CHUNK.max(have), 0);
                let read =
                    file.read_at(&mut buffer[have..], end).map_err(|error| (end, error.to_string()))?;
                buffer.truncate(have + read);
                end += read as u64;
                if read == 0 {
                    return Err((reader.taken(), "the RDB part ends too early".into()));
                }
            }
            Err(why) => return Err((reader.taken(), why.to_string())),
        }
    }
}

/// Cuts off what [`check`] has found at the end of the last file, and syncs it.
///
/// # Errors
/// What the system says; a flaw that cannot be cut off.
pub fn fix(folder: &Folder, flaw: &Flaw) -> io::Result<()> {
    let Some(cut_at) = flaw.cut_at else {
        return Err(io::Error::other("this cannot be put right by cutting off the end"));
    };
    let file = folder.medium.open(&flaw.path)?;
    file.truncate(cut_at)?;
    file.sync()
}
