//! The incremental file that grows at the log's end.
//!
//! ```text
//!   0 ............ synced ............ length      <- every byte before `length` was written, in order
//! ```
//!
//! - **I1** A batch is written behind `length`, which moves only when all of it was. A batch that fails is cut off again.
//! - **I2** `synced` moves only to what was the length when a sync began.
//! - **I3** After a failed sync, or a failed batch that could not be cut off, the file is never written again (D3): another one is begun,
//!   with a new base.
use std::io;
use std::sync::Arc;

use crate::medium::File;

/// The longest line that Redis takes as an annotation, its end included.
pub const ANNOTATION_BYTES_MAX: usize = 1024;

/// The file at the log's end.
pub struct Incr {
    file: Arc<dyn File>,
    length: u64,
    synced: u64,
    is_spoiled: bool,
}

impl Incr {
    /// Over an empty file.
    pub fn fresh(file: Arc<dyn File>) -> Incr {
        Incr { file, length: 0, synced: 0, is_spoiled: false }
    }

    /// Over a file that is at least as long as `length`. What lies behind is cut off.
    ///
    /// # Errors
    /// What the system says.
    pub fn resume(file: Arc<dyn File>, length: u64) -> io::Result<Incr> {
        if file.length()? > length {
            file.truncate(length)?;
        }
        // What a dead process wrote may not have been synced.
        Ok(Incr { file, length, synced: 0, is_spoiled: false })
    }

    /// Appends a batch; returns the file's length behind it.
    ///
    /// # Errors
    /// What the system says. Then it is as if nothing had been written.
    pub fn append(&mut self, batch: &[u8]) -> io::Result<u64> {
        self.trusted()?;
        if let Err(error) = self.file.write_at(batch, self.length) {
            self.is_spoiled = self.file.truncate(self.length).is_err();
            return Err(error);
        }
        self.length += batch.len() as u64;
        Ok(self.length)
    }

    fn trusted(&self) -> io::Result<()> {
        match self.is_spoiled {
            false => Ok(()),
            true => Err(io::Error::other(
                "the file cannot be trusted since an earlier error: another one must be begun",
            )),
        }
    }

    /// Cuts off what was appended behind a length that it had.
    ///
    /// # Errors
    /// What the system says; the file is spoiled then.
    pub fn rewind(&mut self, length: u64) -> io::Result<()> {
        let cut = self.file.truncate(length);
        self.is_spoiled |= cut.is_err();
        (self.length, self.synced) = (length, self.synced.min(length));
        cut
    }

    /// Syncs what was written.
    ///
    /// # Errors
    /// What the system says; the file is spoiled then.
    pub fn sync(&mut self) -> io::Result<()> {
        self.trusted()?;
        if self.synced < self.length {
            let done = self.file.sync();
            self.is_spoiled = done.is_err();
            done?;
            self.synced = self.length;
        }
        Ok(())
    }

    /// How many bytes were written.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How many bytes survive a power cut.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Whether the file must not be written any more (I3).
    pub fn is_spoiled(&self) -> bool {
        self.is_spoiled
    }
}

/// Appends Redis's annotation of the time, in seconds since 1970: `aof-timestamp-enabled`.
pub fn annotate_time(batch: &mut Vec<u8>, seconds: u64) {
    batch.extend_from_slice(format!("#TS:{seconds}\r\n").as_bytes());
}

/// Appends the stream's offset behind all that was written before, so that a process that loads the file knows where the stream goes on.
pub fn annotate_offset(batch: &mut Vec<u8>, offset: u64) {
    batch.extend_from_slice(format!("#POLDER:{offset}\r\n").as_bytes());
}

/// The offset that an annotation names.
pub fn annotated_offset(line: &[u8]) -> Option<u64> {
    std::str::from_utf8(line).ok()?.strip_prefix("#POLDER:")?.split_whitespace().next()?.parse().ok()
}
