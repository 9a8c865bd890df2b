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

/// The longest manifest that is read: some thousands of files.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

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
        match read_all(&*self.medium, &path, MANIFEST_BYTES_MAX) {
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

    /// Opens the last incremental file to go on at a length: what was written behind it is cut off.
    ///
    /// # Errors
    /// What the system says.
    pub fn resume_incr(&self, entry: &Entry, length: u64) -> io::Result<Incr> {
        Incr::resume(self.medium.open(&self.path_of(entry))?.into(), length)
    }

    /// Removes what a process has left that died before a manifest named it: files whose names are of this log, and temporary ones. The
    /// manifest must be the one on the disk, and the caller the only process that writes to the folder.
    ///
    /// # Errors
    /// What the system says. What is left then can be removed later.
    pub fn remove_orphans(&self, manifest: &Manifest) -> io::Result<usize> {
        // An older manifest may still name the files, as long as the name of this one is not on the disk.
        self.medium.sync_folder(&self.path)?;
        let mut removed = 0;
        for name in self.medium.list(&self.path)? {
            if self.is_own_name(&name) && !manifest.names(&name) {
                self.medium.remove(&self.path.join(OsStr::from_bytes(&name)))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Returns true for names that a process gives to files of this log: `NAME.N.base.rdb`, `NAME.N.base.aof`, `NAME.N.incr.aof`, `temp-N-N.rdb`.
    fn is_own_name(&self, name: &[u8]) -> bool {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let Ok(name) = std::str::from_utf8(name) else { return false };
        if let Some(rest) = name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('.')) {
            return [".base.rdb", ".base.aof", ".incr.aof"]
                .iter()
                .any(|end| rest.strip_suffix(end).is_some_and(is_number));
        }
        let numbers = name.strip_prefix("temp-").and_then(|rest| rest.strip_suffix(".rdb"));
        numbers.is_some_and(|numbers| numbers.split('-').count() == 2 && numbers.split('-').all(is_number))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Disk;

    fn folder(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("polder-folder-{}-{name}", std::process::id()));
        let folder = Folder { medium: Arc::new(Disk), path, name: "appendonly.aof".into() };
        folder.make().expect("a folder");
        folder
    }

    #[test]
    fn what_no_manifest_names_is_removed_if_its_name_is_of_the_log() {
        let folder = folder("orphans");
        let manifest = Manifest::parse(
            b"file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.3.incr.aof seq 3 type i\n",
        );
        let manifest = manifest.expect("a manifest");
        let kept = [
            "appendonly.aof.2.base.rdb",
            "appendonly.aof.3.incr.aof",
            "appendonly.aof.manifest",
            "notes.txt",
            "appendonly.aof.x.base.rdb",
            "other.aof.1.base.rdb",
            "temp-copy.rdb",
        ];
        let orphans = [
            "appendonly.aof.1.base.rdb",
            "appendonly.aof.3.base.aof",
            "appendonly.aof.4.incr.aof",
            "temp-77-0.rdb",
        ];
        kept.iter()
            .chain(&orphans)
            .for_each(|name| std::fs::write(folder.path.join(name), "x").expect("a file"));
        assert_eq!(folder.remove_orphans(&manifest).expect("removed"), orphans.len());
        assert!(
            kept.iter().all(|name| folder.path.join(name).exists())
                && !orphans.iter().any(|name| folder.path.join(name).exists())
        );
        std::fs::remove_dir_all(&folder.path).expect("removed");
    }

    #[test]
    fn a_manifest_that_is_too_long_is_not_read() {
        let folder = folder("long");
        std::fs::write(folder.manifest_path(), vec![b'#'; MANIFEST_BYTES_MAX as usize + 1]).expect("a file");
        let why = folder.load().expect_err("too long").to_string();
        assert!(why.contains("1048577 bytes, and 1048576 are the most"), "{why}");
        std::fs::remove_dir_all(&folder.path).expect("removed");
    }
}
