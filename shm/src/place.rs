//! Where a name leads, and how a file appears there whole or not at all.
//!
//! ```text
//!   shm:orders  -> /dev/shm/orders                the segment itself
//!                                            or   a signpost: "polder signpost\nfile /dev/hugepages/orders.1f...\n"
//!   sysv:orders -> /dev/shm/.polder-sysv-orders   a signpost: "polder signpost\nsysv 32769\n"
//!   file:PATH   -> PATH                           the segment itself
//! ```
//!
//! A **signpost** is a small file that names memory which cannot stand at the name's own place. So each name has
//! exactly one **door**, a directory entry, and the process that makes that entry first has made the segment: the kernel
//! decides the race of two creators for every kind of memory alike. A System V key would be a hash of the name, could collide,
//! and would show the segment before it is whole; a private segment behind a signpost does neither. Signposts and what
//! they point to end together: neither outlives a reboot (`ipcrm` leaves a signpost that says so when it is followed).
//! The one gap: a creator that is killed between making such memory and its signpost leaves memory that only `ipcrm`
//! or `rm` removes; where the kernel allows it, as for every segment in /dev/shm, there is no such gap.
//!
//! A file is drafted without a name (O_TMPFILE) and linked to its door when it is complete. Where a file system
//! refuses that, it is drafted under a name of its own, which a killed creator leaves behind: `.NAME.polder-draft-*`.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use polder_base::Fault;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::name::SegmentName;
use crate::owner::Admission;
use crate::pages;

/// Where POSIX shared memory lives on Linux.
pub(crate) const SHM: &str = "/dev/shm";

/// File names in [`SHM`] of the signposts to System V segments.
pub(crate) const SYSV_PREFIX: &str = ".polder-sysv-";

/// How many bytes at the start of a segment are read before it is mapped.
pub const HEAD_BYTES: usize = 4096;

const DRAFT_FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

const SIGNPOST: &str = "polder signpost\n";

/// The directory entry that decides whether a name exists.
pub(crate) fn door(name: &SegmentName) -> PathBuf {
    match name {
        SegmentName::Shm(name) => Path::new(SHM).join(name),
        SegmentName::Sysv(name) => Path::new(SHM).join(format!("{SYSV_PREFIX}{name}")),
        SegmentName::File(path) => path.clone(),
    }
}

/// The directory of a path; a bare file name is in the working directory.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that has no name yet, or a temporary one; it is removed when dropped unpublished.
pub(crate) struct Draft {
    temporary: Option<PathBuf>,
}

impl Draft {
    /// Makes an empty file on the file system of `target`'s directory.
    pub(crate) fn beside(target: &Path) -> Result<(OwnedFd, Draft), Errno> {
        match rustix::fs::open(directory_of(target), DRAFT_FLAGS | OFlags::TMPFILE, PRIVATE) {
            Ok(file) => return Ok((file, Draft { temporary: None })),
            // What kernels and file systems say that do not know unnamed files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
        Draft::named(target)
    }

    /// The same with a name of its own, for file systems that know no unnamed files.
    fn named(target: &Path) -> Result<(OwnedFd, Draft), Errno> {
        let mut name = OsString::from(".");
        name.push(target.file_name().ok_or(Errno::INVAL)?);
        name.push(format!(".polder-draft-{:016x}", random_word()));
        let temporary = directory_of(target).join(name);
        let file = rustix::fs::open(&temporary, DRAFT_FLAGS | OFlags::CREATE | OFlags::EXCL, PRIVATE)?;
        Ok((file, Draft { temporary: Some(temporary) }))
    }

    /// Gives the file its name; `EXIST` when that is taken. From here on others can open it.
    pub(crate) fn publish(mut self, file: BorrowedFd<'_>, target: &Path) -> Result<(), Errno> {
        let Some(temporary) = self.temporary.take() else {
            let own = format!("/proc/self/fd/{}", file.as_raw_fd());
            return match rustix::fs::linkat(CWD, own, CWD, target, AtFlags::SYMLINK_FOLLOW) {
                // No /proc here; the direct way needs a privilege on older kernels.
                Err(Errno::NOENT) => rustix::fs::linkat(file, "", CWD, target, AtFlags::EMPTY_PATH),
                result => result,
            };
        };
        let published = match rustix::fs::renameat_with(CWD, &temporary, CWD, target, RenameFlags::NOREPLACE)
        {
            // A file system without this kind of rename: a link does not replace either, and leaves the draft's name.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(CWD, &temporary, CWD, target, AtFlags::empty())
            }
            Ok(()) => return Ok(()),
            refused => refused,
        };
        self.temporary = Some(temporary);
        published
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nothing can be done about a failure, and the name tells people what it is.
            let _ = rustix::fs::unlink(temporary);
        }
    }
}

/// The memory behind a name.
pub(crate) enum Memory {
    File(OwnedFd),
    Sysv(i32),
}

/// Why a name leads to no memory that may be used.
pub(crate) enum Refusal {
    System(Errno),
    /// It is there, and belongs to another user.
    Judged(Fault),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::System(errno)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::Judged(fault)
    }
}

/// Opens what a name leads to, following a signpost of an admitted user. `NOENT` means that there is no such segment, or one
/// whose memory has been removed. System V memory has its own owner, which the caller judges once it is attached.
pub(crate) fn open(name: &SegmentName, admission: Admission) -> Result<Memory, Refusal> {
    let path = door(name);
    let file = open_file(&path, !matches!(name, SegmentName::File(_)))?;
    admission.judge_file(name, &rustix::fs::fstat(&file)?)?;
    if let SegmentName::File(_) = name {
        return Ok(Memory::File(file));
    }
    let mut head = [0; HEAD_BYTES];
    let read = read_head(&file, &mut head)?;
    match (name, signpost(&head[..read])) {
        (_, Some(Signpost::File(path))) => {
            let file = Behind::of(&path)?.open(OFlags::RDWR)?;
            admission.judge_file(name, &rustix::fs::fstat(&file)?)?;
            Ok(Memory::File(file))
        }
        (_, Some(Signpost::Sysv(id))) => Ok(Memory::Sysv(id)),
        (SegmentName::Shm(_), None) => Ok(Memory::File(file)),
        // Files of this name are made by us alone and always whole.
        (_, None) => Err(Errno::BADMSG.into()),
    }
}

/// Opens a regular file for mapping. In a directory that all may write to, links are not followed.
pub(crate) fn open_file(path: &Path, no_links: bool) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR
        | OFlags::CLOEXEC
        | OFlags::NONBLOCK
        | if no_links { OFlags::NOFOLLOW } else { OFlags::empty() };
    regular(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The file, if it is a regular one.
pub(crate) fn regular(file: OwnedFd) -> Result<OwnedFd, Errno> {
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(Errno::NODEV),
    }
}

/// The file that a signpost names. A signpost may say anything, so nothing outside of hugetlbfs is opened or removed by it:
/// no other file of the machine, and no device.
pub(crate) struct Behind {
    directory: OwnedFd,
    file: OsString,
}

impl Behind {
    /// Opens its directory; `BADMSG` if that is not on hugetlbfs.
    pub(crate) fn of(path: &Path) -> Result<Behind, Errno> {
        let file = path.file_name().ok_or(Errno::BADMSG)?.to_owned();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory_of(path), flags, Mode::empty())?;
        if !pages::is_hugetlbfs(&directory)? {
            return Err(Errno::BADMSG);
        }
        Ok(Behind { directory, file })
    }

    /// Opens the file.
    pub(crate) fn open(&self, access: OFlags) -> Result<OwnedFd, Errno> {
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        regular(rustix::fs::openat(&self.directory, &self.file, flags, Mode::empty())?)
    }

    /// Removes the file's name.
    pub(crate) fn unlink(&self) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.directory, &self.file, AtFlags::empty())
    }
}

/// Reads the start of a file, as much as there is. Reading is safe where a load from mapped memory is not: behind the
/// end of a file that was cut, a load is a SIGBUS.
pub(crate) fn read_head(file: &OwnedFd, head: &mut [u8; HEAD_BYTES]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < head.len() {
        match rustix::io::pread(file, &mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

/// What a signpost says.
pub(crate) enum Signpost {
    File(PathBuf),
    Sysv(i32),
}

impl Signpost {
    /// The text of a signpost file.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = SIGNPOST.as_bytes().to_vec();
        match self {
            Signpost::File(path) => {
                text.extend_from_slice(b"file ");
                text.extend_from_slice(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()));
            }
            Signpost::Sysv(id) => text.extend_from_slice(format!("sysv {id}").as_bytes()),
        }
        text.push(b'\n');
        text
    }
}

/// Reads a signpost; none when the bytes are something else.
pub(crate) fn signpost(head: &[u8]) -> Option<Signpost> {
    let line = head.strip_prefix(SIGNPOST.as_bytes())?.strip_suffix(b"\n")?;
    if let Some(path) = line.strip_prefix(b"file ") {
        let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path);
        return Some(Signpost::File(PathBuf::from(path)));
    }
    let id = std::str::from_utf8(line.strip_prefix(b"sysv ")?).ok()?;
    Some(Signpost::Sysv(id.parse().ok()?))
}

/// A word for names that must not meet; on a machine without randomness the process id is enough with it.
pub(crate) fn random_word() -> u64 {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes) ^ u64::from(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signposts_read_as_they_are_written() {
        let file = Signpost::File(PathBuf::from("/dev/hugepages/a b.1f")).text();
        assert!(
            matches!(signpost(&file), Some(Signpost::File(path)) if path == Path::new("/dev/hugepages/a b.1f"))
        );
        assert!(matches!(signpost(&Signpost::Sysv(77).text()), Some(Signpost::Sysv(77))));
        for nonsense in ["", "polder signpost\n", "polder signpost\nsysv x\n", "polder signpost\nsysv 1"] {
            assert!(signpost(nonsense.as_bytes()).is_none(), "{nonsense:?}");
        }
    }

    #[test]
    fn drafts_with_and_without_a_name_appear_at_once_and_replace_nothing() {
        let directory = std::env::temp_dir().join(format!("polder-test-draft-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let entries = || std::fs::read_dir(&directory).unwrap().count();
        for (index, make) in [Draft::beside, Draft::named].into_iter().enumerate() {
            let target = directory.join(format!("target-{index}"));
            let (first, second) = (make(&target).unwrap(), make(&target).unwrap());
            assert!(!target.exists());
            rustix::io::write(&first.0, b"first").unwrap();
            first.1.publish(std::os::fd::AsFd::as_fd(&first.0), &target).unwrap();
            assert_eq!(second.1.publish(std::os::fd::AsFd::as_fd(&second.0), &target), Err(Errno::EXIST));
            assert_eq!(std::fs::read(&target).unwrap(), b"first");
            drop(make(&target).unwrap());
            assert_eq!(entries(), index + 1, "no draft is left");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn each_kind_of_name_has_its_own_door() {
        let doors = ["shm:a", "sysv:a", "file:/tmp/a"].map(|name| door(&name.parse().unwrap()));
        assert_eq!(doors, ["/dev/shm/a", "/dev/shm/.polder-sysv-a", "/tmp/a"].map(PathBuf::from));
        assert_eq!(directory_of(Path::new("a")), Path::new("."));
    }
}
