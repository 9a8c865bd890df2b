//! What the log's files ask of a file system ([`Medium`]), and the real one ([`Disk`]). Tests have another, which loses power.
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file system, as far as the log needs one.
pub trait Medium: Send + Sync {
    /// Makes a folder, and those that it lies in. It is no error if it is there.
    ///
    /// # Errors
    /// What the system says.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// The names of what lies in a folder.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self, folder: &Path) -> io::Result<Vec<Vec<u8>>>;

    /// Opens a file for reading only.
    ///
    /// # Errors
    /// `NotFound` where there is none; what the system says.
    fn read(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Opens a file that is there, for reading and writing.
    ///
    /// # Errors
    /// `NotFound` where there is none; what the system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Makes an empty file. One that is there becomes empty.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Gives a file another name in the same folder. A file that had this name is gone.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns when the names in a folder will survive a power cut.
    ///
    /// # Errors
    /// What the system says.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// An open file.
pub trait File: Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn length(&self) -> io::Result<u64>;

    /// Reads from a place; returns how many bytes, 0 at the end.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes all bytes to a place.
    ///
    /// # Errors
    /// What the system says; some of the bytes may have been written.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Cuts the file off, or fills it with zeros, at a length.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Returns when all that was written before will survive a power cut.
    ///
    /// # Errors
    /// What the system says. What was written before may be lost then, whatever a later call returns.
    fn sync(&self) -> io::Result<()>;
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Medium for Disk {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Vec<u8>>> {
        use std::os::unix::ffi::OsStringExt;
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_vec())).collect()
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(fs::File::open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(fs::File::options().read(true).write(true).open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(fs::File::options().read(true).write(true).create(true).truncate(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()
    }
}

impl File for fs::File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A folder that belongs to this process alone. The kernel frees it with the process's last thread, so that no successor writes while a
/// dying process still does.
#[derive(Debug)]
pub struct Lock {
    _folder: fs::File,
}

impl Lock {
    /// Takes a folder; `None` where another process has it.
    ///
    /// # Errors
    /// What the system says.
    pub fn take(folder: &Path) -> io::Result<Option<Lock>> {
        let file = fs::File::open(folder)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _folder: file })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// All that is in a file of at most `bytes_max` bytes.
///
/// # Errors
/// What the system says; `FileTooLarge`.
pub(crate) fn read_all(medium: &dyn Medium, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = medium.read(path)?;
    let length = file.length()?;
    if length > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("the file has {length} bytes, and {bytes_max} are the most"),
        ));
    }
    let mut bytes = vec![0; length as usize];
    let mut taken = 0;
    while taken < bytes.len() {
        match file.read_at(&mut bytes[taken..], taken as u64)? {
            0 => break,
            read => taken += read,
        }
    }
    bytes.truncate(taken);
    Ok(bytes)
}
