//! `polder changes DIR`: what the incremental files of an append-only log hold, a transaction at a time.
use std::path::{Path, PathBuf};

use polder_engine::{ChangeCommand, Position, Transactions};
use polder_storage::resume::opening;
use polder_storage::{Folder, Manifest, ScanError, scan};
use polder_wire::resp::command;

use crate::text::Failed;

/// Where a log lies, if `name` is the path of one and no segment's name.
pub fn path_of(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_segment = ["shm:", "sysv:", "file:"].iter().any(|kind| name.starts_with(kind));
    (!is_segment && path.exists()).then(|| path.to_owned())
}

/// Tells every transaction of a log from a position on: the place behind it, and its commands, until `tell` says that it has enough. Where the files
/// name no offsets, as those of Redis do not, a place is `FILE@BYTE` of the transaction's last command.
///
/// # Errors
/// What cannot be read, or a position that is not in this log.
pub fn show(
    path: &Path,
    from: Option<&Position>,
    tell: &mut dyn FnMut(&str, &[ChangeCommand]) -> bool,
) -> Result<(), Failed> {
    let folder = crate::log::folder(path).map_err(Failed::unattached)?;
    let manifest = folder.load().map_err(|error| Failed::unattached(error.to_string()))?;
    let manifest =
        manifest.ok_or_else(|| Failed::unattached(format!("{}: there is no manifest", path.display())))?;
    let stream = manifest.identity.as_ref().map(|identity| identity.stream.as_str());
    if let Some(from) = from {
        check_begin(&folder, &manifest, stream, from)?;
    }
    let mut places = Places { stream, from: from.map_or(0, |from| from.offset), ..Places::default() };
    for entry in &manifest.increments {
        let path = folder.path_of(entry);
        let told = |why: String| Failed::unattached(format!("{}: {why}", path.display()));
        let file = folder.medium.read(&path).map_err(|error| told(error.to_string()))?;
        places.begin(&path, opening(&*file).map_err(|error| told(error.to_string()))?);
        let mut goes_on = true;
        let scanned = scan(&*file, 0, &mut |batch| {
            for (at, words) in batch.calls() {
                let taken = places.take(at, words)?;
                goes_on = goes_on && taken.is_none_or(|(place, all)| tell(&place, &all));
            }
            if goes_on { Ok(()) } else { Err(String::new()) }
        });
        match scanned {
            Ok(end) if end.is_torn() => {
                eprintln!(
                    "{} ends inside a record: what stands behind byte {} does not count",
                    path.display(),
                    end.valid()
                );
            }
            Ok(_) => {}
            Err(ScanError::Refused(why)) if why.is_empty() => return Ok(()),
            Err(ScanError::Malformed { at, why, .. }) => {
                return Err(told(format!("at byte {at}: {why}; 'polder log check' tells what can be saved")));
            }
            Err(error) => return Err(told(error.to_string())),
        }
    }
    Ok(())
}

/// Whether a log has what follows a position.
fn check_begin(
    folder: &Folder,
    manifest: &Manifest,
    stream: Option<&str>,
    from: &Position,
) -> Result<(), Failed> {
    let again = "take the data from its base, and follow from the position at which that was taken";
    if stream != Some(&from.identity) {
        let other = stream.unwrap_or("no stream, since its files name no offsets");
        return Err(Failed::unattached(format!(
            "this log is not of the stream {}, but of {other}: {again}",
            from.identity
        )));
    }
    let first =
        manifest.increments.first().map(|entry| folder.medium.read(&folder.path_of(entry))).transpose();
    let first = first.and_then(|file| file.map_or(Ok(None), |file| opening(&*file)));
    match first.map_err(|error| Failed::unattached(error.to_string()))? {
        Some((offset, _)) if offset <= from.offset => Ok(()),
        Some((offset, _)) => Err(Failed::unattached(format!("this log begins at offset {offset}: {again}"))),
        None => Err(Failed::unattached(format!("this log holds no changes yet: {again}"))),
    }
}

/// The transactions of the files, with the places behind them.
#[derive(Default)]
struct Places<'l> {
    stream: Option<&'l str>,
    /// The offset up to which nothing is told.
    from: u64,
    file: String,
    /// The offset behind the last command, and where the file's commands begin to count; none: the file names no offset.
    offset: Option<(u64, u64)>,
    transactions: Transactions,
}

impl Places<'_> {
    /// Another file begins, whose first annotation says where it goes on and ends there.
    fn begin(&mut self, path: &Path, opening: Option<(u64, u64)>) {
        self.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (self.offset, self.transactions) = (opening, Transactions::default());
    }

    /// One more command, at a byte of the file. Returns the place behind a transaction, and its commands, when that is whole and to be told.
    ///
    /// # Errors
    /// What only a later version understands.
    fn take(&mut self, at: u64, words: &[&[u8]]) -> Result<Option<(String, Vec<ChangeCommand>)>, String> {
        if let Some((offset, begin)) = &mut self.offset
            && at >= *begin
        {
            *offset += encoded_bytes(words);
        }
        let taken = self.transactions.take(words.iter().map(|word| word.to_vec()).collect());
        let Some(all) = taken.map_err(|why| format!("at byte {at}: {why}"))? else { return Ok(None) };
        let place = match (self.stream, self.offset) {
            (Some(_), Some((offset, _))) if offset <= self.from => return Ok(None),
            (Some(stream), Some((offset, _))) => {
                Position { identity: stream.into(), offset, db: self.transactions.db() }.to_string()
            }
            _ => format!("{}@{at}", self.file),
        };
        Ok(Some((place, all)))
    }
}

/// Bytes of a command in the stream.
fn encoded_bytes(words: &[&[u8]]) -> u64 {
    let mut bytes = Vec::new();
    command(words, &mut bytes);
    bytes.len() as u64
}
