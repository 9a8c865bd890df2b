//! How a successor goes on with a log: what the files hold behind the last note is compared with the stream, byte by byte.
//!
//! ```text
//!   incr 2   ........ noted | batch | #POLDER:900        incr 3   SELECT 0 | #POLDER:900 | batch | #POLD
//!   stream                  | batch |                                                    | batch |  ^ cut off: a write that was not done
//! ```
//!
//! - **C1** What a file holds of the stream stays: it may have been synced and acknowledged, although no note says so.
//! - **C2** If a file holds what the stream does not, the log is not continued: the memory is an older copy, and the log has more.
//! - **C3** A sync that was under way when the process died may have failed, and the system tells of that once. So what was written since the last sync
//!   that is known to have succeeded is written again before the log goes on. That makes its pages dirty again, and the next sync covers them.
use std::io;

use crate::folder::Folder;
use crate::follower::{Position, Stream};
use crate::incr::{ANNOTATION_BYTES_MAX, annotated_offset};
use crate::log::Log;
use crate::manifest::Manifest;
use crate::medium::File;
use crate::scan::{ScanError, scan};

/// Bytes that are compared at once.
const CHUNK: usize = 256 << 10;

/// What the process before has left of its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// How far it has noted that it copied the stream.
    pub position: Position,
    /// Up to where the last sync had reached by then.
    pub synced: Position,
    /// A sync was under way when it died (C3).
    pub in_sync: bool,
}

impl Left {
    /// From where on the files are compared with the stream, which must be kept from there on.
    pub fn begin(&self) -> Position {
        if self.in_sync { self.synced } else { self.position }
    }
}

/// Why a log cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// What was noted is not there any more: another base makes the log whole.
    #[error("{0}")]
    Lost(String),
    /// The log holds what the stream does not (C2).
    #[error("{0}")]
    Ahead(String),
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Goes on with a log. Returns it with the offset up to which it holds the stream.
///
/// # Errors
/// See [`Broken`]. The log is as it was then.
pub fn resume(
    folder: Folder,
    mut manifest: Manifest,
    left: &Left,
    stream: &dyn Stream,
) -> Result<(Log, u64), Broken> {
    // A dead process may have renamed the manifest without seeing it on the disk; what is promised from now on rests on this manifest.
    folder.medium.sync_folder(&folder.path)?;
    let Agreed { last, length, offset } = walk(&folder, &manifest, left, stream)?;
    let incr = folder.resume_incr(&manifest.increments[last], length)?;
    // Files that were begun by a process that died before it wrote to them.
    if manifest.increments.len() > last + 1 {
        manifest.increments.truncate(last + 1);
        folder.store(&manifest)?;
    }
    Ok((Log::resume(folder, manifest, incr), offset))
}

/// Whether a log could be continued. Changes nothing.
///
/// # Errors
/// See [`Broken`].
pub fn compare(folder: &Folder, manifest: &Manifest, left: &Left, stream: &dyn Stream) -> Result<(), Broken> {
    walk(folder, manifest, &Left { in_sync: false, ..*left }, stream).map(drop)
}

/// How far files and stream agree.
struct Agreed {
    /// The last file that holds something of the stream, and how much of it counts.
    last: usize,
    length: u64,
    offset: u64,
}

fn walk(folder: &Folder, manifest: &Manifest, left: &Left, stream: &dyn Stream) -> Result<Agreed, Broken> {
    let open = |number: usize| {
        let path = folder.path_of(&manifest.increments[number]);
        if left.in_sync { folder.medium.open(&path) } else { folder.medium.read(&path) }
    };
    let begin = left.begin();
    let lost = || Broken::Lost("the manifest does not name the file that was written last".into());
    let first = manifest
        .increments
        .iter()
        .position(|entry| entry.sequence == begin.noted.sequence)
        .ok_or_else(lost)?;
    let file = open(first)?;
    let (length, noted) = (file.length()?, begin.noted.length);
    if length < noted {
        return Err(Broken::Lost(format!(
            "the file has {length} bytes, and {noted} were written: it has lost its end"
        )));
    }
    let mut walk = Walk::new(file, noted, (stream, begin.offset), left.in_sync);
    let (mut last, mut is_whole) = (first, walk.run()?);
    for number in first + 1..manifest.increments.len() {
        let file = open(number)?;
        // A file without its first annotation holds nothing of the stream yet.
        let Some((offset, length)) = opening(&*file)? else { continue };
        if !is_whole || offset != walk.offset {
            return Err(Broken::Ahead(format!(
                "the log goes on at offset {offset}, and the change log of the memory does so at {}",
                walk.offset
            )));
        }
        if left.in_sync {
            write_again(&*file, length)?;
        }
        walk = Walk::new(file, length, (stream, offset), left.in_sync);
        (last, is_whole) = (number, walk.run()?);
    }
    Ok(Agreed { last, length: walk.at, offset: walk.offset })
}

/// Up to which offset of the stream a log reaches, as its last file says that says something; `None` where none does.
///
/// # Errors
/// What the system says.
pub fn reach(folder: &Folder, manifest: &Manifest) -> io::Result<Option<u64>> {
    // A process may have died after it began a file, and before it wrote where that goes on.
    for entry in manifest.increments.iter().rev() {
        let file = folder.medium.read(&folder.path_of(entry))?;
        let offset = match scan(&*file, 0, &mut |_| Ok(())) {
            Ok(end) => end.offset,
            Err(ScanError::Malformed { offset, .. }) => offset,
            Err(ScanError::System(error)) => return Err(error),
            Err(ScanError::Refused(why)) => return Err(io::Error::other(why)),
        };
        if offset.is_some() {
            return Ok(offset);
        }
    }
    Ok(None)
}

/// What an incremental file begins with: the offset where it goes on, and how long that is; `None` where it is not there as a whole.
///
/// # Errors
/// What the system says.
pub fn opening(file: &dyn File) -> io::Result<Option<(u64, u64)>> {
    let mut head = vec![0; 2 * ANNOTATION_BYTES_MAX];
    let read = read_fully(file, &mut head, 0)?;
    let mut end = 0;
    // What makes the stream readable stands before it: SELECT and a number.
    for line in head[..read].split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        end += line.len() as u64;
        if let Some(offset) = annotated_offset(line) {
            return Ok(Some((offset, end)));
        }
    }
    Ok(None)
}

fn read_fully(file: &dyn File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

fn write_again(file: &dyn File, length: u64) -> io::Result<()> {
    let mut bytes = vec![0; length as usize];
    let read = read_fully(file, &mut bytes, 0)?;
    file.write_at(&bytes[..read], 0)
}

/// The way through a file, beside the stream.
struct Walk<'w> {
    file: Box<dyn File>,
    stream: &'w dyn Stream,
    writes_again: bool,
    /// Up to where both agree.
    at: u64,
    offset: u64,
    /// What was read of both beyond that.
    found: Vec<u8>,
    expected: Vec<u8>,
}

impl<'w> Walk<'w> {
    fn new(
        file: Box<dyn File>,
        at: u64,
        (stream, offset): (&'w dyn Stream, u64),
        writes_again: bool,
    ) -> Walk<'w> {
        Walk { file, stream, writes_again, at, offset, found: Vec::new(), expected: Vec::new() }
    }

    /// Goes on to the end of what counts of the file. Returns whether that is all of it.
    fn run(&mut self) -> Result<bool, Broken> {
        let end = self.stream.end();
        loop {
            if self.found.is_empty() && self.read_on(CHUNK)? == 0 {
                return Ok(true);
            }
            if self.expected.is_empty() && self.offset < end {
                self.stream
                    .read(self.offset, &mut self.expected, CHUNK.min((end - self.offset) as usize))
                    .map_err(Broken::Lost)?;
            }
            let common = self
                .found
                .iter()
                .zip(&self.expected)
                .take_while(|(found, expected)| found == expected)
                .count();
            if common > 0 {
                self.expected.drain(..common);
                self.offset += common as u64;
                self.pass(common)?;
                continue;
            }
            // Records begin with another byte, so only an annotation can differ at its first byte.
            match self.line()? {
                Line::Annotation(length) => self.pass(length)?,
                Line::Torn => return Ok(false),
                Line::Other => {
                    return Err(Broken::Ahead(format!(
                        "at byte {} a file of the log holds what the change log of the memory does not hold at offset {}",
                        self.at, self.offset
                    )));
                }
            }
        }
    }

    fn read_on(&mut self, bytes: usize) -> io::Result<usize> {
        let have = self.found.len();
        self.found.resize(have + bytes, 0);
        let read = read_fully(&*self.file, &mut self.found[have..], self.at + have as u64)?;
        self.found.truncate(have + read);
        Ok(read)
    }

    fn pass(&mut self, length: usize) -> io::Result<()> {
        if self.writes_again {
            self.file.write_at(&self.found[..length], self.at)?;
        }
        self.found.drain(..length);
        self.at += length as u64;
        Ok(())
    }

    /// What stands in the file where it differs from the stream.
    fn line(&mut self) -> io::Result<Line> {
        if self.found.len() < ANNOTATION_BYTES_MAX {
            self.read_on(ANNOTATION_BYTES_MAX)?;
        }
        let line = &self.found[..self.found.len().min(ANNOTATION_BYTES_MAX)];
        Ok(match line.iter().position(|byte| *byte == b'\n') {
            _ if line[0] != b'#' => Line::Other,
            None if line.len() < ANNOTATION_BYTES_MAX => Line::Torn,
            Some(end) if line.starts_with(b"#TS:") || annotated_offset(&line[..end]) == Some(self.offset) => {
                Line::Annotation(end + 1)
            }
            _ => Line::Other,
        })
    }
}

enum Line {
    Annotation(usize),
    /// The beginning of one, at the file's end.
    Torn,
    Other,
}
