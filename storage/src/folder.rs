//! The folder of a log: how files come and go, so that the manifest names a whole log at any time.
//!
//! ```text
//!   a new incremental file:   make it -> sync the folder -> manifest that ends with it
//!   a new base:               write it, sync it, its name -> manifest without what it replaces (history) -> remove history -> manifest
//!   a manifest:               temp-NAME.manifest, written, synced -> renamed -> folder synced
//! ```
//!
//! **Invariant**: a file is named by a manifest only after its name is on the disk, and removed only after no manifest on the disk names it
//! as part of the log.
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::incr::Incr;
use crate::manifest::{Entry, Malformed, Manifest};
use crate::medium::{File, Medium, read_all};

/// Where a log lies.
#[derive(Clone)]
pub struct Folder {
    pub medium: Arc<dyn Medium>,
    /// `dir` and `appenddirname`.
    pub path: PathBuf,
    /// `appendfilename`: how the names of all files begin.
    pub name: String,
}

/// Why a manifest cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("{}: {error}", path.display())]
    System { path: PathBuf, error: io::Error },
    #[error("{}: {why}", path.display())]
    Malformed { path: PathBuf, why: Malformed },
}

impl Folder {
    /// The path of a file in it.
    pub fn path_of(&self, entry: &Entry) -> PathBuf {
        self.path.join(OsStr::from_bytes(&entry.name))
    }

    /// The path of the manifest.
    pub fn manifest_path(&self) -> PathBuf {
        self.path.join(format!("{}.manifest", self.name))
    }

    /// The manifest; `None` where there is none.
    ///
    /// # Errors
    /// What the system says; a manifest that is none.
    pub fn load(&self) -> Result<Option<Manifest>, Unreadable> {
        let path = self.manifest_path();
        match read_all(&*self.medium, &path) {
            Ok(text) => Manifest::parse(&text).map(Some).map_err(|why| Unreadable::Malformed { path, why }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Unreadable::System { path, error }),
        }
    }

    /// Makes the folder if there is none.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(&self) -> io::Result<()> {
        self.medium.make_folder(&self.path)?;
        match self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => self.medium.sync_folder(parent),
            None => self.medium.sync_folder(Path::new(".")),
        }
    }

    /// Puts a manifest in the place of the one before.
    ///
    /// # Errors
    /// What the system says. Then the one before, or this one, is there.
    pub fn store(&self, manifest: &Manifest) -> io::Result<()> {
        let fresh = self.path.join(format!("temp-{}.manifest", self.name));
        let file = self.create(&fresh)?;
        file.write_at(manifest.text().as_bytes(), 0)?;
        file.sync()?;
        self.medium.rename(&fresh, &self.manifest_path())?;
        self.medium.sync_folder(&self.path)
    }

    /// Makes an empty file that is no earlier one of this name: nothing is known of a file that could not be synced (D3).
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        match self.medium.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.medium.create(path),
        }
    }

    /// Makes an empty incremental file, whose name is on the disk when this returns. No manifest names it yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn create_incr(&self, entry: &Entry) -> io::Result<Incr> {
        let file = self.create(&self.path_of(entry))?;
        self.medium.sync_folder(&self.path)?;
        Ok(Incr::fresh(file.into()))
    }

    /// Opens the last incremental file to go on at `noted`: what was written behind it is cut off, since it will be written again.
    ///
    /// # Errors
    /// What the system says; `UnexpectedEof` for a file that is shorter, so that it has lost what was noted.
    pub fn resume_incr(&self, entry: &Entry, noted: u64) -> io::Result<Incr> {
        Incr::resume(self.medium.open(&self.path_of(entry))?.into(), noted)
    }

    /// Removes the files of the history, and then forgets them.
    ///
    /// # Errors
    /// What the system says. The history is still there then, and can be removed later.
    pub fn sweep(&self, manifest: &mut Manifest) -> io::Result<()> {
        if manifest.history.is_empty() {
            return Ok(());
        }
        for entry in &manifest.history {
            match self.medium.remove(&self.path_of(entry)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let swept = Manifest { history: Vec::new(), ..manifest.clone() };
        self.store(&swept)?;
        *manifest = swept;
        Ok(())
    }
}
