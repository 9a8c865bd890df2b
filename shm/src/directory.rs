//! Which segments exist on this machine, and how one is removed.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use polder_base::Fault;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::name::SegmentName;
use crate::opening::Found;
use crate::owner::Admission;
use crate::place::{self, Behind, HEAD_BYTES, SHM, SYSV_PREFIX, Signpost};
use crate::presence;
use crate::shmget::{self, Attached};
use crate::trouble::fault;

/// How often and how long to wait for another process that removes the same file: about a second in all.
const TURN_TRIES: u32 = 1000;
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// Removes a segment's name. Before that, `mark` tells the processes that use the segment, through its memory if that can be opened.
/// They keep their memory until they detach. After that no process finds the segment, and the name is free. When `mark` fails, nothing
/// is removed.
///
/// What does not start as a segment (`is_segment`) stays. What a signpost names goes with it only if it is a segment of the
/// signpost's own user: in /dev/shm any user can put up a signpost to any memory.
///
/// # Errors
/// [`Fault::System`] when there is no segment, or the system refuses.
pub fn remove(
    name: &SegmentName,
    is_segment: impl Fn(&[u8; HEAD_BYTES]) -> bool,
    mark: impl FnOnce(Option<Found>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let refused = |errno| match errno {
        Errno::NOENT => Fault::System(format!("there is no segment {name}")),
        errno => fault("remove", name, errno),
    };
    let door = place::door(name);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    // While it is open, its number is not given to another file: the same number is the same file.
    let file = rustix::fs::open(&door, flags, Mode::empty()).and_then(place::regular).map_err(refused)?;
    let Some(memory) = memory_at(name, &file, &is_segment).map_err(refused)? else {
        return Err(Fault::System(format!(
            "{} is no segment of Polder: if it is not needed, remove it with 'rm'",
            door.display()
        )));
    };
    mark(memory.opened(&door, &file))?;
    let _turn = Turn::take(&file);
    if !stands_at(&door, &file).map_err(refused)? {
        // Removed by others, and perhaps made anew: what stands there now is not what we were to remove.
        return Ok(());
    }
    rustix::fs::unlink(&door).map_err(refused)?;
    let gone = match memory {
        Named::Sysv(id) => shmget::remove(id),
        Named::File(behind) => behind.unlink(),
        Named::Itself | Named::Nothing => Ok(()),
    };
    match gone {
        // Removed behind our back, by ipcrm or rm.
        Err(Errno::INVAL | Errno::IDRM | Errno::NOENT) => Ok(()),
        result => result.map_err(refused),
    }
}

/// What goes together with a name.
enum Named {
    /// The file at the door is the segment.
    Itself,
    Sysv(i32),
    File(Behind),
    /// A signpost to what is gone, or is another user's, or no segment.
    Nothing,
}

impl Named {
    /// Opens it for writing, if this user may do that.
    fn opened(&self, door: &Path, file: &OwnedFd) -> Option<Found> {
        match self {
            Named::Itself => {
                place::open_file(door, true).ok().filter(|again| is_same(again, file)).map(Found::file)
            }
            Named::Sysv(id) => Attached::new(*id).ok().map(Found::sysv),
            Named::File(behind) => {
                let owner = |file: &OwnedFd| rustix::fs::fstat(file).ok().map(|state| state.st_uid);
                behind.open(OFlags::RDWR).ok().filter(|again| owner(again) == owner(file)).map(Found::file)
            }
            Named::Nothing => None,
        }
    }
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    let number = |file: &OwnedFd| rustix::fs::fstat(file).map(|state| (state.st_dev, state.st_ino));
    number(one).is_ok() && number(one) == number(other)
}

/// What a door names; none if that is neither a segment nor a signpost.
fn memory_at(
    name: &SegmentName,
    file: &OwnedFd,
    is_segment: impl Fn(&[u8; HEAD_BYTES]) -> bool,
) -> Result<Option<Named>, Errno> {
    let owner = rustix::fs::fstat(file)?.st_uid;
    let mut head = [0; HEAD_BYTES];
    let read = place::read_head(file, &mut head)?;
    let signpost = if matches!(name, SegmentName::File(_)) { None } else { place::signpost(&head[..read]) };
    Ok(match signpost {
        None => (read == HEAD_BYTES && is_segment(&head)).then_some(Named::Itself),
        Some(Signpost::Sysv(id)) => {
            let memory = Attached::to_look_at(id).ok();
            let fits = |memory: &Attached| {
                memory.state().shm_perm.uid == owner && memory.head().is_some_and(|head| is_segment(&head))
            };
            Some(if memory.as_ref().is_some_and(fits) { Named::Sysv(id) } else { Named::Nothing })
        }
        Some(Signpost::File(path)) => Some(
            Behind::of(&path)
                .ok()
                .filter(|behind| is_owned(behind, owner, is_segment))
                .map_or(Named::Nothing, Named::File),
        ),
    })
}

fn is_owned(behind: &Behind, owner: u32, is_segment: impl Fn(&[u8; HEAD_BYTES]) -> bool) -> bool {
    let mut head = [0; HEAD_BYTES];
    behind.open(OFlags::RDONLY).is_ok_and(|file| {
        rustix::fs::fstat(&file).is_ok_and(|state| state.st_uid == owner)
            && place::read_head(&file, &mut head).is_ok_and(|read| read == HEAD_BYTES && is_segment(&head))
    })
}

/// The turn of one of several processes that remove the same file. No process replaces the file at a door, so a file that is there
/// during the turn stays there until the holder of the turn removes it.
struct Turn<'f>(&'f OwnedFd);

impl Turn<'_> {
    /// Waits for the turn, but only for a limited time, since its holder may have been stopped. A process that goes on without
    /// the turn may remove a segment that another process has made in the same moment. The same risk exists on a file system
    /// that has no locks.
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

/// A segment that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: SegmentName,
    /// Its user, by number.
    pub owner: u32,
    /// Which users may attach, as permission bits.
    pub mode: u32,
    /// Bytes of the machine's memory that it has taken.
    pub memory_bytes: u64,
    /// Whether a process has it mapped.
    pub attached: bool,
    /// What it says of itself; none for a signpost of another user, which is not followed.
    pub figures: Option<Figures>,
}

/// What a segment says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// The most that it can hold, in bytes.
    pub ceiling: u64,
    /// Bytes that it has taken from the system, and those of them that are in use.
    pub committed: u64,
    pub used: u64,
    /// The processes whose threads work in it, as their own PID namespaces number them.
    pub processes: Vec<u32>,
}

/// What there is on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Sorted by name.
    pub segments: Vec<Listed>,
    /// Names of files that this user may not read, and their owners: segments, or memory of other programs.
    pub unreadable: Vec<(SegmentName, u32)>,
}

/// Words of a memory that is only looked at; a word behind its end is none.
pub type Words<'w> = &'w dyn Fn(u64) -> Option<u64>;

/// The segments behind `shm:` and `sysv:` names; `figures` returns none for what is no segment. Nothing is opened for
/// writing, and signposts are followed only if this user or root has put them up. `file:` segments are where their users
/// put them.
///
/// # Errors
/// When /dev/shm cannot be read.
pub fn list(figures: impl Fn(Words<'_>) -> Option<Figures>) -> Result<Listing, Fault> {
    let entries =
        std::fs::read_dir(SHM).map_err(|error| Fault::System(format!("cannot list {SHM}: {error}")))?;
    let mut listing = Listing::default();
    for name in entries.flatten().filter_map(|entry| name_of(entry.file_name().to_str()?)) {
        match look(&name, &figures) {
            Ok(found) => listing.segments.extend(found),
            Err(owner) => listing.unreadable.push((name, owner)),
        }
    }
    listing.segments.sort_by(|left, right| left.name.cmp(&right.name));
    listing.unreadable.sort();
    Ok(listing)
}

/// What stands at one name: none if that is no segment, or may not be read.
pub fn find(name: &SegmentName, figures: impl Fn(Words<'_>) -> Option<Figures>) -> Option<Listed> {
    look(name, figures).ok().flatten()
}

/// The segment name whose door in [`SHM`] this is; none for drafts and other programs' hidden files.
fn name_of(entry: &str) -> Option<SegmentName> {
    let text = match entry.strip_prefix(SYSV_PREFIX) {
        Some(name) => format!("sysv:{name}"),
        None => format!("shm:{entry}"),
    };
    text.parse().ok()
}

/// Looks at a name: none for what is no segment or goes away meanwhile; the owner of what may not be read.
fn look(name: &SegmentName, figures: impl Fn(Words<'_>) -> Option<Figures>) -> Result<Option<Listed>, u32> {
    let door = place::door(name);
    // A FIFO is not even opened.
    let Some(state) = rustix::fs::lstat(&door)
        .ok()
        .filter(|state| FileType::from_raw_mode(state.st_mode) == FileType::RegularFile)
    else {
        return Ok(None);
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::open(&door, flags, Mode::empty()).and_then(place::regular) {
        Ok(file) => file,
        Err(Errno::ACCESS | Errno::PERM) => return Err(state.st_uid),
        Err(_) => return Ok(None),
    };
    Ok(look_at(name, file, figures))
}

fn look_at(
    name: &SegmentName,
    file: OwnedFd,
    figures: impl Fn(Words<'_>) -> Option<Figures>,
) -> Option<Listed> {
    let state = rustix::fs::fstat(&file).ok()?;
    let listed = |owner: u32, mode: u32, memory_bytes, attached, figures| {
        let name = name.clone();
        Some(Listed { name, owner, mode: mode & 0o777, memory_bytes, attached, figures })
    };
    let of_file = |file: &OwnedFd| {
        let state = rustix::fs::fstat(file).ok()?;
        let figures = figures(&|at| word_of(file, at))?;
        listed(
            state.st_uid,
            state.st_mode,
            state.st_blocks as u64 * 512,
            presence::is_attached(file),
            Some(figures),
        )
    };
    let mut head = [0; HEAD_BYTES];
    let read = place::read_head(&file, &mut head).ok()?;
    let signpost = if matches!(name, SegmentName::File(_)) { None } else { place::signpost(&head[..read]) };
    match signpost {
        None => of_file(&file),
        Some(_) if !Admission::default().admits(state.st_uid) => {
            listed(state.st_uid, state.st_mode, 0, false, None)
        }
        Some(Signpost::File(path)) => {
            of_file(&Behind::of(&path).and_then(|behind| behind.open(OFlags::RDONLY)).ok()?)
        }
        Some(Signpost::Sysv(id)) => {
            let memory = Attached::to_look_at(id).ok()?;
            let figures = figures(&|at| memory.word(at))?;
            let permissions = &memory.state().shm_perm;
            // One of them is the look itself.
            let attached = memory.state().shm_nattch > 1;
            listed(permissions.uid, permissions.mode.into(), shmget::used_bytes(id), attached, Some(figures))
        }
    }
}

/// The word at an offset of a file, read and not mapped: the file may be cut at any time.
fn word_of(file: &OwnedFd, at: u64) -> Option<u64> {
    let mut word = [0; 8];
    (rustix::io::pread(file, &mut word, at).ok()? == 8).then_some(u64::from_le_bytes(word))
}

/// The place of a `file:` segment or of the door of another one, for messages.
pub fn door_of(name: &SegmentName) -> PathBuf {
    place::door(name)
}
