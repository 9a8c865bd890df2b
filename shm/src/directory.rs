//! Which segments exist on this machine, and how one is removed.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use polder_base::Fault;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::name::SegmentName;
use crate::place::{self, HEAD_BYTES, Memory, SHM, SYSV_PREFIX, Signpost};
use crate::sysv;
use crate::trouble::fault;

/// How often and how long to wait for another one who removes the same file: about a second in all.
const TURN_TRIES: u32 = 1000;
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// Removes a segment's name, after `mark` has told those who use it. They keep their memory until they let go of it;
/// nobody finds it any more, and the name is free. When `mark` fails, nothing is removed.
pub fn remove(name: &SegmentName, mark: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
    let refused = |errno| match errno {
        Errno::NOENT => Fault::System(format!("there is no segment {name}")),
        errno => fault("remove", name, errno),
    };
    let door = place::door(name);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    // While it is open, its number is not given to another file: the same number is the same file.
    let file = rustix::fs::open(&door, flags, Mode::empty()).map_err(refused)?;
    mark()?;
    let _turn = Turn::take(&file);
    if !stands_at(&door, &file).map_err(refused)? {
        // Removed by others, and perhaps made anew: what stands there now is not what we were to remove.
        return Ok(());
    }
    let signpost = signpost_at(name, &file);
    rustix::fs::unlink(&door).map_err(refused)?;
    let gone = match signpost {
        Some(Signpost::Sysv(id)) => sysv::remove(id),
        Some(Signpost::File(path)) => rustix::fs::unlink(path),
        None => Ok(()),
    };
    match gone {
        // Removed behind our back, by ipcrm or rm.
        Err(Errno::INVAL | Errno::IDRM | Errno::NOENT) => Ok(()),
        result => result.map_err(refused),
    }
}

/// The turn of one of those who remove the same file. Nobody replaces what stands at a door, so that a file which
/// stands there during our turn goes on to stand there until we take it away.
struct Turn<'f>(&'f OwnedFd);

impl Turn<'_> {
    /// Waits for the turn, but not for ever: its holder may have been stopped. Who goes on without one risks to remove
    /// what somebody has made in the same moment; so do all on a file system that has no locks.
    fn take(file: &OwnedFd) -> Turn<'_> {
        for _ in 0..TURN_TRIES {
            match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::AGAIN | Errno::INTR) => std::thread::sleep(TURN_PAUSE),
                _ => break,
            }
        }
        Turn(file)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Closing is not enough: a child that was forked meanwhile has the open file, and with it the lock.
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

/// Whether the directory entry still leads to the open file.
fn stands_at(door: &Path, file: &OwnedFd) -> Result<bool, Errno> {
    let ours = rustix::fs::fstat(file)?;
    match rustix::fs::lstat(door) {
        Ok(there) => Ok((there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn signpost_at(name: &SegmentName, file: &OwnedFd) -> Option<Signpost> {
    if matches!(name, SegmentName::File(_)) {
        return None;
    }
    let mut head = [0; HEAD_BYTES];
    let read = place::read_head(file, &mut head).ok()?;
    place::signpost(&head[..read])
}

/// A segment that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: SegmentName,
    /// Its ceiling, in bytes.
    pub bytes: u64,
    /// The memory that it uses now, in bytes.
    pub used_bytes: u64,
    /// Who owns it, by user number.
    pub owner: u32,
    /// Who may attach, as permission bits.
    pub mode: u32,
    /// When it was made, as far as the machine remembers; for a file, when it was last written by a system call.
    pub since: Option<SystemTime>,
}

/// The segments behind `shm:` and `sysv:` names whose start satisfies `is_segment`, sorted by name. Those that we may
/// not open are left out, as is whatever goes away while we look. `file:` segments are where their users put them.
pub fn list(is_segment: impl Fn(&[u8; HEAD_BYTES]) -> bool) -> Result<Vec<Listed>, Fault> {
    let entries = std::fs::read_dir(SHM).map_err(|error| Fault::System(format!("cannot list {SHM}: {error}")))?;
    let names = entries.flatten().filter_map(|entry| name_of(entry.file_name().to_str()?));
    let mut found: Vec<Listed> = names.filter_map(|name| look(name, &is_segment)).collect();
    found.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(found)
}

/// The segment name whose door in [`SHM`] this is; none for drafts and other programs' hidden files.
fn name_of(entry: &str) -> Option<SegmentName> {
    let text = match entry.strip_prefix(SYSV_PREFIX) {
        Some(name) => format!("sysv:{name}"),
        None => format!("shm:{entry}"),
    };
    text.parse().ok()
}

fn look(name: SegmentName, is_segment: impl Fn(&[u8; HEAD_BYTES]) -> bool) -> Option<Listed> {
    match place::open(&name).ok()? {
        Memory::File(file) => {
            let mut head = [0; HEAD_BYTES];
            place::read_head(&file, &mut head).ok().filter(|&read| read == HEAD_BYTES)?;
            let state = std::fs::File::from(file).metadata().ok()?;
            is_segment(&head).then(|| Listed {
                name,
                bytes: state.len(),
                used_bytes: state.blocks() * 512,
                owner: state.uid(),
                mode: state.mode() & 0o777,
                since: state.modified().ok(),
            })
        }
        Memory::Sysv(id) => {
            let memory = sysv::Attached::new(id).ok()?;
            let state = memory.state();
            let seconds = u64::try_from(state.shm_ctime).ok();
            is_segment(&memory.head()?).then(|| Listed {
                name,
                bytes: state.shm_segsz as u64,
                used_bytes: sysv::used_bytes(id),
                owner: state.shm_perm.uid,
                mode: u32::from(state.shm_perm.mode) & 0o777,
                since: seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
            })
        }
    }
}

/// The place of a `file:` segment or of the door of another one, for messages.
pub fn door_of(name: &SegmentName) -> PathBuf {
    place::door(name)
}
