//! A log that is being written: its manifest, the file at its end, and a rewrite that may be under way.
//!
//! ```text
//!   begin          incr 1                 no manifest yet: there is no base, so this is no whole log
//!   begin_rewrite  incr 1, incr 2         the old file is synced first; what is appended goes to the new one
//!   (base 2 is written by the caller, who sees the data as it was when incr 2 began)
//!   install        base 2, incr 2         manifest; then incr 1 is removed
//! ```
//!
//! - **L1** Bytes are appended to a file only when all that was appended to earlier files is synced. So a power cut leaves a prefix.
//! - **L2** A base's sequence number is used once: a manifest that may have reached the disk never names a file that is written later.
//! - **L3** After an attempt to store a manifest has failed, either may be on the disk. No byte is appended before one is stored that ends with the
//!   file that is written: a file behind which the disk names another one would be torn in the middle of the log.
use std::io;

use crate::folder::Folder;
use crate::incr::Incr;
use crate::manifest::{BaseForm, Entry, Identity, Manifest};

/// How far a log was written: the last incremental file, and bytes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    pub sequence: u64,
    pub length: u64,
}

/// A log that is being written.
pub struct Log {
    folder: Folder,
    manifest: Manifest,
    incr: Incr,
    /// The manifest on the disk ends with the file that is being written.
    is_whole: bool,
    /// It names the file that is being written, if it is to (L3).
    is_stored: bool,
    /// The first incremental file that the base under way does not hold.
    rewrites_from: Option<u64>,
    /// The last sequence number that a base was given (L2).
    base_sequence: u64,
    /// Bytes of the files that are whole already: the base and all incremental files but the last.
    bytes_before: u64,
    bytes_base: u64,
}

impl Log {
    /// Begins a log. It is none before the first [`Log::install`]: an earlier one in the folder counts until then.
    ///
    /// # Errors
    /// What the system or an unreadable manifest says.
    pub fn begin(folder: Folder, identity: Identity) -> io::Result<Log> {
        folder.make()?;
        let mut manifest = folder.load().map_err(io::Error::other)?.unwrap_or_default();
        manifest.identity = Some(identity);
        let entry = manifest.next_incr(&folder.name);
        let incr = folder.create_incr(&entry)?;
        let rewrites_from = Some(entry.sequence);
        manifest.increments.push(entry);
        let mut log = Log::over(folder, manifest, incr);
        (log.is_whole, log.rewrites_from) = (false, rewrites_from);
        Ok(log)
    }

    /// Takes over a log that was read into a new memory just now: its files stay, and another incremental file follows them, which begins with
    /// `opening`.
    ///
    /// # Errors
    /// What the system says. The log is the one before, or this one.
    pub fn adopt(
        folder: Folder,
        mut manifest: Manifest,
        identity: Identity,
        opening: &[u8],
    ) -> io::Result<Log> {
        // L1. What the process before wrote last may not be on the disk.
        for entry in manifest.live() {
            folder.medium.open(&folder.path_of(entry))?.sync()?;
        }
        let entry = manifest.next_incr(&folder.name);
        let mut incr = folder.create_incr(&entry)?;
        incr.append(opening)?;
        incr.sync()?;
        manifest.increments.push(entry);
        manifest.identity = Some(identity);
        folder.store(&manifest)?;
        Ok(Log::over(folder, manifest, incr))
    }

    /// Goes on with a log whose last file was looked at (`resume.rs`).
    pub(crate) fn resume(folder: Folder, manifest: Manifest, incr: Incr) -> Log {
        let mut log = Log::over(folder, manifest, incr);
        // History that a dead process did not remove any more. It does no harm if it cannot be removed now either.
        let _ = log.folder.sweep(&mut log.manifest);
        log
    }

    fn over(folder: Folder, manifest: Manifest, incr: Incr) -> Log {
        let base_sequence = manifest.next_base() - 1;
        let mut log = Log {
            folder,
            manifest,
            incr,
            is_whole: true,
            is_stored: true,
            rewrites_from: None,
            base_sequence,
            bytes_before: 0,
            bytes_base: 0,
        };
        log.measure();
        log
    }

    fn measure(&mut self) {
        let length = |entry: &Entry| {
            self.folder.medium.read(&self.folder.path_of(entry)).and_then(|file| file.length()).unwrap_or(0)
        };
        let base = self.manifest.base.as_ref().map_or(0, length);
        let before: u64 =
            self.manifest.increments.split_last().map_or(0, |(_, before)| before.iter().map(length).sum());
        (self.bytes_base, self.bytes_before) = (base, base + before);
    }

    /// How far it is written, to be kept where a successor finds it.
    pub fn noted(&self) -> Noted {
        let sequence = self.manifest.increments.last().map_or(0, |entry| entry.sequence);
        Noted { sequence, length: self.incr.length() }
    }

    /// Appends a batch to the last file.
    ///
    /// # Errors
    /// What the system says. Then it is as if nothing had been written.
    pub fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        self.settle()?;
        self.incr.append(batch).map(drop)
    }

    /// Syncs what was appended.
    ///
    /// # Errors
    /// What the system says; the log is spoiled then.
    pub fn sync(&mut self) -> io::Result<()> {
        self.settle()?;
        self.incr.sync()
    }

    /// Cuts off what was appended since it was written up to `noted`.
    ///
    /// # Errors
    /// What the system says; the log is spoiled then.
    pub fn rewind(&mut self, noted: Noted) -> io::Result<()> {
        self.incr.rewind(noted.length)
    }

    /// Stores the manifest if the last attempt has failed (L3).
    fn settle(&mut self) -> io::Result<()> {
        if !self.is_stored {
            self.folder.store(&self.manifest)?;
            self.is_stored = true;
        }
        Ok(())
    }

    /// Whether its last file must not be written any more, so that only a rewrite helps.
    pub fn is_spoiled(&self) -> bool {
        self.incr.is_spoiled()
    }

    /// Which files it has.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where it lies.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Whether a base has been written since it began.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether a base is being written.
    pub fn is_rewriting(&self) -> bool {
        self.rewrites_from.is_some()
    }

    /// Bytes of all its files, and of its base.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_before + self.incr.length(), self.bytes_base)
    }

    /// Begins another incremental file, for what comes after the base that is to be written.
    ///
    /// # Errors
    /// What the system says. Then no rewrite has begun, and the log goes on, with the old file or the new one; after an error of a sync it is
    /// spoiled.
    pub fn begin_rewrite(&mut self) -> io::Result<()> {
        // L1. Nothing may be appended behind a file that has lost something: what is on the disk stays as it is until the base is there.
        if self.incr.is_spoiled() {
            self.is_whole = false;
        }
        if self.is_whole {
            self.sync()?;
        }
        let entry = self.manifest.next_incr(&self.folder.name);
        let fresh = self.folder.create_incr(&entry)?;
        self.bytes_before += self.incr.length();
        let first = entry.sequence;
        self.incr = fresh;
        self.manifest.increments.push(entry);
        self.is_stored = !self.is_whole;
        self.settle()?;
        self.rewrites_from = Some(first);
        Ok(())
    }

    /// The file that the base under way is to be written to. Each call gives another one (L2).
    pub fn next_base(&mut self, form: BaseForm) -> Entry {
        self.base_sequence = self.manifest.next_base().max(self.base_sequence + 1);
        Entry::base(&self.folder.name, self.base_sequence, form)
    }

    /// Puts a base in the place of all that is older than the last [`Log::begin_rewrite`]. Its file and its name must be on the disk.
    ///
    /// # Errors
    /// What the system says. The log is whole then, with or without the new base.
    pub fn install(&mut self, base: Entry) -> io::Result<()> {
        let Some(first) = self.rewrites_from else { return Err(io::Error::other("no rewrite is under way")) };
        if self.incr.is_spoiled() {
            return Err(io::Error::other(
                "the file behind the base cannot be trusted since an earlier error: begin another rewrite",
            ));
        }
        let mut manifest = self.manifest.clone();
        manifest.rebase(base, first);
        self.folder.store(&manifest)?;
        self.manifest = manifest;
        self.measure();
        (self.is_whole, self.is_stored, self.rewrites_from) = (true, true, None);
        // What cannot be removed now is removed with the next base.
        let _ = self.folder.sweep(&mut self.manifest);
        Ok(())
    }

    /// The base under way will not be written. A log that had one goes on with one file more.
    pub fn give_up_rewrite(&mut self) {
        if self.is_whole {
            self.rewrites_from = None;
        }
    }
}
