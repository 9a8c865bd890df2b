//! A file of the log read as records: commands as RESP, and lines that annotate them.
//!
//! ```text
//!   *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n      a command
//!   #TS:1700000000\r\n                            an annotation: skipped, or noted where it is ours
//!   *3\r\n$3\r\nSE                                a torn end: the beginning of a record
//!   0 0 0 0                                       a torn end, too: some file systems lengthen a file before they write to it
//! ```
//!
//! - **R1** Records are handed over in whole batches, in their order, each with the place where it begins.
//! - **R2** A file is valid up to its last whole record or, where a MULTI has no EXEC, up to that MULTI: what stands behind it must not count.
//! - **R3** Nothing that a file says makes us take memory beyond the file's own length.
use std::io;

use memchr::memchr;
use polder_wire::resp::{Limits, Requests};

use crate::incr::{ANNOTATION_BYTES_MAX, annotated_offset};
use crate::medium::File;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// A file may hold what a server with other limits took.
const LIMITS: Limits = Limits { bulk_bytes_max: 1 << 40, stranger: false };

/// Commands that follow each other in a file.
#[derive(Default)]
pub struct Batch<'b> {
    words: Vec<&'b [u8]>,
    /// Behind its last word, and where each begins in the file.
    calls: Vec<(usize, u64)>,
}

impl<'b> Batch<'b> {
    /// Each command's place in the file, and its words: at least one.
    pub fn calls(&self) -> impl Iterator<Item = (u64, &[&'b [u8]])> {
        let mut begin = 0;
        self.calls.iter().map(move |(end, at)| (*at, &self.words[std::mem::replace(&mut begin, *end)..*end]))
    }
}

/// What is known of a file that was read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    pub commands: u64,
    /// The file's length.
    pub length: u64,
    /// Where the last whole record ends.
    pub whole: u64,
    /// Where a MULTI stands that has no EXEC.
    pub open_multi: Option<u64>,
    /// The offset of the stream behind the last whole record: what the last annotation says, and the bytes of the records behind it.
    pub offset: Option<u64>,
}

impl End {
    /// How much of the file counts (R2).
    pub fn valid(&self) -> u64 {
        self.open_multi.unwrap_or(self.whole)
    }

    /// Whether there is something behind what counts.
    pub fn is_torn(&self) -> bool {
        self.valid() < self.length
    }

    fn command(&mut self, name: &[u8], at: u64, end: u64) {
        self.commands += 1;
        self.whole = end;
        self.offset = self.offset.map(|offset| offset + (end - at));
        if name.eq_ignore_ascii_case(b"MULTI") {
            self.open_multi.get_or_insert(at);
        } else if name.eq_ignore_ascii_case(b"EXEC") {
            self.open_multi = None;
        }
    }
}

/// Why a file was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error("{0}")]
    System(#[from] io::Error),
    /// Nothing that a server writes. `valid` is how much of the file counts before it, `offset` that of the stream there.
    #[error("at byte {at}: {why}")]
    Malformed { at: u64, why: String, valid: u64, offset: Option<u64> },
    /// What was read was not taken.
    #[error("{0}")]
    Refused(String),
}

/// Reads a file from a place on and hands over its commands. The lines of annotations are noted.
///
/// # Errors
/// What the system says; what is no record; what `take` says. A torn end is no error: see [`End::is_torn`].
pub fn scan(
    file: &dyn File,
    from: u64,
    take: &mut dyn FnMut(&Batch<'_>) -> Result<(), String>,
) -> Result<End, ScanError> {
    let mut end = End { length: file.length()?, whole: from, ..End::default() };
    let (mut requests, mut buffer, mut base) = (Requests::default(), Vec::new(), from);
    loop {
        let wanted = CHUNK.max(requests.missing(buffer.len()));
        if fill(file, &mut buffer, base, wanted)? == 0 {
            return Ok(end);
        }
        let mut batch = Batch::default();
        let (left, trouble) = gather(&buffer, base, &mut requests, &mut end, &mut batch);
        if !batch.calls.is_empty() {
            take(&batch).map_err(ScanError::Refused)?;
        }
        let taken = buffer.len() - left;
        match trouble {
            Some(why) => {
                return Err(ScanError::Malformed {
                    at: base + taken as u64,
                    why,
                    valid: end.valid(),
                    offset: end.offset,
                });
            }
            // Zeros may stand behind a record only to the end of the file.
            None if buffer.get(taken) == Some(&0) => {
                return if has_only_zeros(file, end.whole)? { Ok(end) } else { Err(foreign(&end)) };
            }
            None => {}
        }
        buffer.drain(..taken);
        base += taken as u64;
    }
}

fn foreign(end: &End) -> ScanError {
    let why = "zeros stand where a record should begin".into();
    ScanError::Malformed { at: end.whole, why, valid: end.valid(), offset: end.offset }
}

/// Reads on behind the buffer, whose first byte is that at `base`; returns how many bytes.
fn fill(file: &dyn File, buffer: &mut Vec<u8>, base: u64, wanted: usize) -> io::Result<usize> {
    let (have, length) = (buffer.len(), file.length()?);
    // R3: a record may say that it is longer than the whole file.
    let rest = length.saturating_sub(base + have as u64);
    buffer.resize(have + wanted.min(usize::try_from(rest).unwrap_or(usize::MAX)), 0);
    let mut read = 0;
    while have + read < buffer.len() {
        match file.read_at(&mut buffer[have + read..], base + (have + read) as u64)? {
            0 => break,
            more => read += more,
        }
    }
    buffer.truncate(have + read);
    Ok(read)
}

/// Takes the whole records of a buffer; returns how many bytes are left, and what is wrong with them if they cannot become a record.
fn gather<'b>(
    buffer: &'b [u8],
    base: u64,
    requests: &mut Requests,
    end: &mut End,
    batch: &mut Batch<'b>,
) -> (usize, Option<String>) {
    let mut rest = buffer;
    while let Some(first) = rest.first() {
        let at = base + (buffer.len() - rest.len()) as u64;
        let trouble = match first {
            b'#' => match memchr(b'\n', &rest[..rest.len().min(ANNOTATION_BYTES_MAX)]) {
                Some(line_end) => {
                    end.offset = annotated_offset(&rest[..line_end]).or(end.offset);
                    rest = &rest[line_end + 1..];
                    end.whole = at + line_end as u64 + 1;
                    continue;
                }
                None if rest.len() >= ANNOTATION_BYTES_MAX => {
                    Some("the line of an annotation is too long".into())
                }
                None => None,
            },
            b'*' if matches!(rest.get(1), Some(b'0' | b'-')) => Some("a command has no words".into()),
            b'*' => {
                let word = batch.words.len();
                match requests.read(&mut rest, &LIMITS, &mut batch.words) {
                    Ok(Some(_)) => {
                        let whole = base + (buffer.len() - rest.len()) as u64;
                        end.command(batch.words[word], at, whole);
                        batch.calls.push((batch.words.len(), at));
                        continue;
                    }
                    Ok(None) => None,
                    Err(why) => Some(why.0.strip_prefix("ERR ").unwrap_or(&why.0).to_owned()),
                }
            }
            0 => None,
            other => Some(format!("a record begins with '*' or '#', not with '{}'", other.escape_ascii())),
        };
        return (rest.len(), trouble);
    }
    (0, None)
}

/// Whether nothing else stands behind a place.
fn has_only_zeros(file: &dyn File, from: u64) -> io::Result<bool> {
    let (mut buffer, mut at) = (Vec::new(), from);
    loop {
        buffer.clear();
        match fill(file, &mut buffer, at, CHUNK)? {
            0 => return Ok(true),
            read if buffer.iter().all(|byte| *byte == 0) => at += read as u64,
            _ => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in memory.
    struct Bytes(Vec<u8>);

    impl File for Bytes {
        fn length(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
            // A little at a time, as a file may.
            let rest = &self.0[(at as usize).min(self.0.len())..];
            let read = rest.len().min(bytes.len()).min(7);
            bytes[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn truncate(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    const MULTI: &str = "*1\r\n$5\r\nmulti\r\n";
    const EXEC: &str = "*1\r\n$4\r\nEXEC\r\n";

    fn read(text: &[u8]) -> (Vec<String>, Result<End, ScanError>) {
        let mut heard = Vec::new();
        let end = scan(&Bytes(text.to_vec()), 0, &mut |batch| {
            heard.extend(
                batch
                    .calls()
                    .map(|(at, words)| format!("{at} {}", String::from_utf8_lossy(&words.join(&b' ')))),
            );
            Ok(())
        });
        (heard, end)
    }

    #[test]
    fn commands_and_annotations_are_read_with_their_places() {
        let text = format!("#TS:1700000000\r\n{SET}#POLDER:77 1\r\n{MULTI}{SET}{EXEC}");
        let (heard, end) = read(text.as_bytes());
        let end = end.expect("a whole file");
        assert_eq!(heard, ["16 SET k v", "57 multi", "72 SET k v", "99 EXEC"]);
        let behind_annotation = (MULTI.len() + SET.len() + EXEC.len()) as u64;
        assert_eq!((end.commands, end.offset, end.open_multi), (4, Some(77 + behind_annotation), None));
        assert_eq!((end.whole, end.is_torn()), (text.len() as u64, false));
    }

    #[test]
    fn every_torn_end_counts_up_to_the_last_whole_record() {
        let text = format!("{SET}#POLDER:9\r\n{SET}");
        let places = [0, SET.len(), SET.len() + 11, text.len()];
        for cut in 0..=text.len() {
            let (_, end) = read(&text.as_bytes()[..cut]);
            let end = end.expect("a torn end is no error");
            assert_eq!(
                end.valid() as usize,
                *places.iter().rfind(|place| **place <= cut).expect("a place"),
                "cut at {cut}"
            );
            assert_eq!(end.is_torn(), !places.contains(&cut));
        }
    }

    #[test]
    fn a_multi_without_exec_does_not_count() {
        let (heard, end) = read(format!("{SET}{MULTI}{SET}").as_bytes());
        let end = end.expect("a torn end");
        assert_eq!((heard.len(), end.valid(), end.is_torn()), (3, SET.len() as u64, true));
    }

    #[test]
    fn zeros_at_the_end_are_a_torn_end_and_elsewhere_are_damage() {
        let (_, end) = read(&[SET.as_bytes(), &[0; 100]].concat());
        assert_eq!(end.expect("a torn end").valid(), SET.len() as u64);
        let (_, end) = read(&[SET.as_bytes(), &[0; 100], SET.as_bytes()].concat());
        assert_eq!(
            end.expect_err("damage").to_string(),
            "at byte 27: zeros stand where a record should begin"
        );
    }

    #[test]
    fn what_is_no_record_is_told_with_its_place() {
        for (text, part) in [
            ("x", "at byte 27: a record begins with '*' or '#', not with 'x'"),
            ("*0\r\n", "at byte 27: a command has no words"),
            ("*-1\r\n", "at byte 27: a command has no words"),
            ("*x\r\n", "at byte 27: Protocol error: invalid multibulk length"),
            ("*1\r\n$-1\r\n", "at byte 27: Protocol error: invalid bulk length"),
            ("*1\r\n:1\r\n", "at byte 27: Protocol error: expected '$', got ':'"),
        ] {
            let (heard, end) = read(format!("{SET}{text}").as_bytes());
            assert_eq!(heard.len(), 1, "what stands before is handed over");
            assert_eq!(end.expect_err(text).to_string(), part);
        }
        let (_, end) = read(format!("#{}\r\n", "x".repeat(2000)).as_bytes());
        assert!(end.expect_err("too long").to_string().contains("too long"));
    }

    #[test]
    fn a_length_that_no_file_has_takes_no_memory() {
        let (_, end) = read(b"*2\r\n$3\r\nGET\r\n$1000000000000\r\nabc");
        assert_eq!(end.expect("a torn end").valid(), 0);
    }

    #[test]
    fn long_files_are_read_in_pieces() {
        let long = format!("*2\r\n$3\r\nGET\r\n$3000000\r\n{}\r\n", "x".repeat(3_000_000));
        let text = format!("{}{long}{SET}", SET.repeat(100_000));
        let (heard, end) = read(text.as_bytes());
        assert_eq!((heard.len(), end.expect("a whole file").whole), (100_002, text.len() as u64));
    }
}
