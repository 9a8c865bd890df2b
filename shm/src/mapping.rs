//! A segment's memory in this process's address space.
//!
//! ```text
//!   base                         taken                                   base + bytes
//!    |  header | nodes, buckets ... |  reserved addresses, no memory behind  |
//!    +------------------------------+----------------------------------------+
//!    |<-- taken by fallocate, ----->|<-- mapped from the first moment on; -->|
//!    |    never given back          |    grow_to moves the boundary          |
//! ```
//!
//! The ceiling is mapped once and for all, and the file is as long as the ceiling, but sparse. Memory comes in only by
//! [`Mapping::grow_to`], and what one process has taken all others can use at once: they have mapped it already.
//!
//! Invariants:
//! - **M1** Nobody touches memory that has not been taken. In a sparse file the kernel would try to find a page at
//!   that moment, and if /dev/shm is full, the answer is a SIGBUS that kills the process. `fallocate` asks for the same
//!   page beforehand and answers ENOSPC, which is a [`Fault`] with advice. (Tried on Linux 6.18: fallocate on a full
//!   tmpfs fails and takes back what it had got, also next to other processes' growth; a touch of a hole is a SIGBUS.)
//! - **M2** A segment appears whole or not at all: it is filled before it gets its name (see `place.rs`).
//! - **M3** Nothing of a file is read through the mapping before its length and its start have been checked by reading.
//!   A file that somebody cuts shorter later kills those who use it; whoever may write to a segment is trusted.
//! - **M4** The address is this process's own affair: nothing in the segment is an address, but for witnesses, which
//!   the kernel reads as long as the thread lives. So a mapping must outlive every witness taken in it.
//!
//! System V memory is made at its ceiling: the kernel counts it as a whole when it is made, so `grow_to` has
//! nothing left to ask for. Memory that a cgroup's limit or an overcommitted machine refuses is no ENOSPC on any kind of
//! segment: there the kernel kills by its own rules. Locking into memory finds that out at the start.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_base::Fault;
use rustix::fs::{FallocateFlags, Mode};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, MsyncFlags, ProtFlags};
use rustix::process::Gid;

use crate::name::SegmentName;
use crate::pages::{self, PageChoice, PageReport};
use crate::place::{self, Draft, HEAD_BYTES, Memory, Signpost};
use crate::trouble::{amount, fault};
use crate::{fork, sysv};

/// Growth is taken in steps of this size, so that a caller who is often interrupted by signals still gets on.
const STEP_BYTES: u64 = 64 << 20;

/// How this process wants to hold the memory. It binds nobody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Residence {
    /// Pages are never swapped out, from their first use on. Needs `ulimit -l` of the whole ceiling.
    pub locked: bool,
    /// Taken memory is entered into the page tables at once, so that no first touch is slow later.
    pub prefaulted: bool,
}

/// What a new segment shall be like.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// The most that the segment can ever hold, in bytes; rounded up to whole pages.
    pub ceiling: u64,
    /// Which pages to try for.
    pub pages: PageChoice,
    /// Who may attach, as permission bits. Whoever may attach may change everything.
    pub mode: u32,
    /// The group that the mode's middle digit speaks of, by number; the creator's own if none.
    pub group: Option<u32>,
    /// How much memory to take before `init` runs.
    pub initial_bytes: u64,
    /// How the creator itself holds the memory.
    pub residence: Residence,
}

impl CreateOptions {
    /// A segment for its owner alone, in ordinary pages, with `initial_bytes` taken.
    pub fn new(ceiling: u64, initial_bytes: u64) -> CreateOptions {
        CreateOptions { ceiling, pages: PageChoice::Default, mode: 0o600, group: None, initial_bytes, residence: Residence::default() }
    }
}

/// How large a segment says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The ceiling that it was created with, in bytes.
    pub ceiling: u64,
    /// How much of it has been taken, in bytes: all that may be touched (M1).
    pub taken: u64,
}

/// Why there is no new segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The name is taken; attach to it. Of several who create at once all but one get this.
    #[error("ERR {0} exists already")]
    AlreadyExists(SegmentName),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a segment could not be attached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// There is none of this name.
    #[error("ERR there is no segment {0}")]
    Absent(SegmentName),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What keeps the memory, apart from the mapping itself.
enum Backing {
    File(OwnedFd),
    Sysv,
}

/// A mapped segment. Dropping it unmaps it; the segment itself stays until it is removed.
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    backing: Backing,
    name: SegmentName,
    pages: PageReport,
    residence: Residence,
    /// Up to where this process knows that memory has been taken; others may have taken more.
    taken: AtomicU64,
}

// SAFETY: the mapping is plain shared memory, valid in every thread; what lies in it is synchronised by its users.
unsafe impl Send for Mapping {}
// SAFETY: as above; the methods that take &self are system calls that may run at the same time.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes a segment, has `init` fill it, and only then lets others see it under its name (M2). If anything fails,
    /// nothing is left. In `init` the first `initial_bytes` may be touched and are zero.
    pub fn create(
        name: &SegmentName,
        options: &CreateOptions,
        init: impl FnOnce(&Mapping) -> Result<(), Fault>,
    ) -> Result<Mapping, CreateError> {
        fork::watch();
        if std::fs::symlink_metadata(place::door(name)).is_ok() {
            return Err(CreateError::AlreadyExists(name.clone()));
        }
        if options.initial_bytes > options.ceiling || options.ceiling == 0 {
            let text = format!("a ceiling of {} has no room for {} at the start", amount(options.ceiling), amount(options.initial_bytes));
            return Err(Fault::System(text).into());
        }
        let published = match name {
            SegmentName::Sysv(_) => sysv::create(name, options, init)?,
            SegmentName::Shm(_) | SegmentName::File(_) => create_in_file(name, options, init)?,
        };
        published.map_err(|errno| match errno {
            Errno::EXIST => CreateError::AlreadyExists(name.clone()),
            errno => fault("create", name, errno).into(),
        })
    }

    /// Maps a segment that exists. `expected` judges its first [`HEAD_BYTES`] bytes, a copy, and says how large it is.
    pub fn attach(
        name: &SegmentName,
        residence: Residence,
        expected: impl FnOnce(&[u8; HEAD_BYTES]) -> Result<Extent, Fault>,
    ) -> Result<Mapping, AttachError> {
        fork::watch();
        let mapping = match place::open(name) {
            Ok(Memory::File { file, path }) => attach_file(name, residence, file, &path, expected)?,
            Ok(Memory::Sysv(id)) => sysv::attach(name, residence, id, expected)?,
            Err(Errno::NOENT) => return Err(AttachError::Absent(name.clone())),
            Err(Errno::BADMSG | Errno::NODEV) => return Err(no_segment(name, "it is something else").into()),
            Err(errno) => return Err(fault("open", name, errno).into()),
        };
        mapping.reside()?;
        Ok(mapping)
    }

    /// Takes memory, so that the first `bytes` may be touched (M1), here and in every process that has the segment
    /// mapped. Taking what has been taken costs nothing and harms nobody, at any time and from any process. When it
    /// fails, a part may have been taken already; it serves the next call.
    pub fn grow_to(&self, bytes: u64) -> Result<(), Fault> {
        if bytes > self.bytes as u64 {
            let ceiling = amount(self.bytes as u64);
            return Err(Fault::Full(format!("{} has reached its ceiling of {ceiling}: make a larger one and copy", self.name)));
        }
        let known = self.taken.load(Ordering::Relaxed);
        if bytes <= known {
            return Ok(());
        }
        if let Backing::File(file) = &self.backing {
            self.take(file, known, bytes)?;
        }
        self.taken.fetch_max(bytes, Ordering::Relaxed);
        if self.residence.prefaulted { self.prefault(known, bytes) } else { Ok(()) }
    }

    /// Asks the file system for the memory between two places, in steps.
    fn take(&self, file: &OwnedFd, from: u64, to: u64) -> Result<(), Fault> {
        let page = self.pages.page_bytes as u64;
        let step = STEP_BYTES.next_multiple_of(page);
        let mut begin = from / page * page;
        let end = to.next_multiple_of(page);
        while begin < end {
            let length = step.min(end - begin);
            match rustix::fs::fallocate(file, FallocateFlags::empty(), begin, length) {
                Ok(()) => begin += length,
                Err(Errno::INTR) => {}
                Err(Errno::NOSPC | Errno::NOMEM | Errno::DQUOT) => return Err(self.full(file, to - from)),
                Err(errno) => return Err(fault("take memory for", &self.name, errno)),
            }
            self.taken.fetch_max(begin.min(to), Ordering::Relaxed);
        }
        Ok(())
    }

    /// The words for a file system without space: who is full, by how much, what to do.
    fn full(&self, file: &OwnedFd, wanted: u64) -> Fault {
        let room = match rustix::fs::fstatvfs(file) {
            Ok(system) => format!("{} of {} free", amount(system.f_bavail * system.f_frsize), amount(system.f_blocks * system.f_frsize)),
            Err(_) => "nothing free".to_owned(),
        };
        let advice = match &self.name {
            _ if self.pages.page_bytes > rustix::param::page_size() => "set more pages aside ('sysctl vm.nr_hugepages=N')",
            SegmentName::File(_) => "free some space on that disk",
            _ => "remove segments, or enlarge it ('mount -o remount,size=SIZE /dev/shm'; docker run --shm-size SIZE)",
        };
        Fault::Full(format!("cannot take {} more for {}: its file system has {room}: {advice}", amount(wanted), self.name))
    }

    /// Holds the memory as was asked for.
    fn reside(&self) -> Result<(), Fault> {
        if self.residence.locked {
            // SAFETY: locking does not change what is mapped. On first use (ONFAULT), as the holes must stay holes.
            unsafe { rustix::mm::mlock_with(self.base.as_ptr().cast(), self.bytes, MlockFlags::ONFAULT) }.map_err(|errno| match errno {
                Errno::NOMEM | Errno::PERM | Errno::AGAIN => Fault::System(format!(
                    "cannot lock {} into memory: the limit is smaller than its {}: raise 'ulimit -l' (systemd: LimitMEMLOCK=infinity)",
                    self.name,
                    amount(self.bytes as u64)
                )),
                errno => fault("lock", &self.name, errno),
            })?;
        }
        if self.residence.prefaulted {
            self.prefault(0, self.taken.load(Ordering::Relaxed))?;
        }
        Ok(())
    }

    /// Enters taken memory into the page tables; no byte is changed.
    fn prefault(&self, from: u64, to: u64) -> Result<(), Fault> {
        let page = self.pages.page_bytes;
        let begin = from as usize / page * page;
        let length = (to as usize).next_multiple_of(page) - begin;
        if length == 0 {
            return Ok(());
        }
        // SAFETY: the range is inside the mapping, and populating it is what any touch would do.
        match unsafe { rustix::mm::madvise(self.base.as_ptr().add(begin).cast(), length, Advice::LinuxPopulateWrite) } {
            Ok(()) => Ok(()),
            Err(Errno::INVAL) => Err(Fault::System("cannot prefault: this kernel is older than 5.14: leave prefaulting off".to_owned())),
            Err(errno) => Err(fault("prefault", &self.name, errno)),
        }
    }

    /// Writes what has changed to the disk and waits for it; memory that is on no disk is left alone.
    pub fn sync(&self) -> Result<(), Fault> {
        if matches!(self.backing, Backing::Sysv) {
            return Ok(());
        }
        // SAFETY: the range is the mapping itself.
        unsafe { rustix::mm::msync(self.base.as_ptr().cast(), self.bytes, MsyncFlags::SYNC) }
            .map_err(|errno| fault("sync", &self.name, errno))
    }

    /// Where the segment begins in this process.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// How many bytes are mapped: the ceiling, rounded up to whole pages.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Up to where this process knows that memory has been taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The name that it was made or attached by.
    pub fn name(&self) -> &SegmentName {
        &self.name
    }

    /// Which pages it has, and why not larger ones.
    pub fn pages(&self) -> &PageReport {
        &self.pages
    }

    /// A mapping of System V memory that is already at `base`, all of it taken.
    pub(crate) fn of_sysv(base: NonNull<u8>, bytes: usize, name: &SegmentName, pages: PageReport, residence: Residence) -> Mapping {
        let mapping =
            Mapping { base, bytes, backing: Backing::Sysv, name: name.clone(), pages, residence, taken: AtomicU64::new(bytes as u64) };
        mapping.advise();
        mapping
    }

    /// Maps the whole of a file. `taken` is what is known of it.
    fn of_file(
        name: &SegmentName,
        file: OwnedFd,
        bytes: u64,
        taken: u64,
        pages: PageReport,
        residence: Residence,
    ) -> Result<Mapping, Fault> {
        let length = usize::try_from(bytes).map_err(|_| fault("map", name, Errno::NOMEM))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that nothing that is mapped is replaced.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED | MapFlags::NORESERVE, &file, 0) }
            .map_err(|errno| fault("map", name, errno))?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero by itself");
        let backing = Backing::File(file);
        let mapping = Mapping { base, bytes: length, backing, name: name.clone(), pages, residence, taken: AtomicU64::new(taken) };
        mapping.advise();
        Ok(mapping)
    }

    /// Tells the kernel what this memory is; it may know better or not know these words at all.
    fn advise(&self) {
        for advice in [Advice::LinuxDontDump, Advice::LinuxHugepage] {
            // SAFETY: neither advice changes what the memory holds.
            let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
        }
    }

    /// The file that has not been published yet.
    fn file(&self) -> BorrowedFd<'_> {
        match &self.backing {
            Backing::File(file) => file.as_fd(),
            Backing::Sysv => unreachable!("only files are drafted"),
        }
    }

    /// The last steps before the name appears: `init` and the creator's wishes.
    pub(crate) fn fill(&self, options: &CreateOptions, init: impl FnOnce(&Mapping) -> Result<(), Fault>) -> Result<(), Fault> {
        self.grow_to(options.initial_bytes)?;
        self.reside()?;
        init(self)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: M4, who drops a mapping has no more use for what lies in it, and the range is exactly the mapping.
        unsafe {
            match self.backing {
                Backing::File(_) => drop(rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes)),
                Backing::Sysv => sysv::detach(self.base),
            }
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Mapping({} at {:p}, {} of {})", self.name, self.base, amount(self.taken()), amount(self.bytes as u64))
    }
}

/// The outer result says whether there was a segment to publish, the inner one whether its name was free.
type Published = Result<Mapping, Errno>;

/// Makes a segment in a file: on hugetlbfs if that was asked for and can be had, else at the name's own place.
fn create_in_file(
    name: &SegmentName,
    options: &CreateOptions,
    init: impl FnOnce(&Mapping) -> Result<(), Fault>,
) -> Result<Published, Fault> {
    let door = place::door(name);
    let mut refusals = Vec::new();
    if let SegmentName::Shm(short) = name {
        for &page_bytes in options.pages.sizes() {
            match draft_in_huge_pages(name, short, page_bytes, options) {
                Ok((mapping, draft, target)) => {
                    mapping.fill(options, init)?;
                    return Ok(publish_behind_signpost(mapping, draft, &target, &door));
                }
                Err(refusal) => refusals.push(refusal),
            }
        }
    }
    let (mut mapping, draft) = draft_at(name, &door, options)?;
    for &page_bytes in options.pages.sizes().iter().filter(|&&size| size > mapping.pages.page_bytes && refusals.is_empty()) {
        mapping.pages.refusals.push(format!("no {} pages, as only files on hugetlbfs have them", amount(page_bytes as u64)));
    }
    mapping.pages.refusals.append(&mut refusals);
    mapping.fill(options, init)?;
    let published = draft.publish(mapping.file(), &door);
    Ok(published.map(|()| mapping))
}

/// A file without a name, as long as the ceiling, mapped, with the permissions that it shall have.
fn draft_at(name: &SegmentName, target: &Path, options: &CreateOptions) -> Result<(Mapping, Draft), Fault> {
    let refused = |errno| fault("create", name, errno);
    let (file, draft) = Draft::beside(target).map_err(refused)?;
    grant(&file, options).map_err(refused)?;
    let page_bytes = pages::page_bytes_of(&file).map_err(refused)?;
    let bytes = options.ceiling.checked_next_multiple_of(page_bytes as u64).ok_or_else(|| refused(Errno::FBIG))?;
    rustix::fs::ftruncate(&file, bytes).map_err(refused)?;
    let report = PageReport { page_bytes, transparent: pages::transparent(place::directory_of(target)), refusals: Vec::new() };
    Ok((Mapping::of_file(name, file, bytes, 0, report, options.residence)?, draft))
}

/// Sets group and mode, whatever the umask says. Before the file has a name, so that there is no moment between.
fn grant(file: &OwnedFd, options: &CreateOptions) -> Result<(), Errno> {
    if let Some(group) = options.group {
        rustix::fs::fchown(file, None, Some(Gid::from_raw(group)))?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(options.mode & 0o777))
}

/// A draft on hugetlbfs that has got its first pages, or the reason why there is none.
fn draft_in_huge_pages(
    name: &SegmentName,
    short: &str,
    page_bytes: usize,
    options: &CreateOptions,
) -> Result<(Mapping, Draft, PathBuf), String> {
    let size = amount(page_bytes as u64);
    if options.ceiling < page_bytes as u64 {
        return Err(format!("no {size} pages, as the ceiling is smaller than one"));
    }
    let target = pages::hugetlbfs(page_bytes)?.join(format!("{short}.{:016x}", place::random_word()));
    let begun = draft_at(name, &target, options).and_then(|(mapping, draft)| {
        mapping.grow_to(options.initial_bytes.max(1))?;
        Ok((mapping, draft))
    });
    let (mapping, draft) = begun.map_err(|cause| format!("no {size} pages, as {cause}"))?;
    Ok((mapping, draft, target))
}

/// Names a segment that stands elsewhere: first the file, then the signpost, whose link decides who was first.
fn publish_behind_signpost(mapping: Mapping, draft: Draft, target: &Path, door: &Path) -> Published {
    draft.publish(mapping.file(), target)?;
    let mode = rustix::fs::fstat(mapping.file())?;
    raise_signpost(&Signpost::File(target.to_path_buf()), door, mode.st_mode, Some(mode.st_gid)).inspect_err(|_| {
        // Somebody else was first, and nobody knows our file's name.
        let _ = rustix::fs::unlink(target);
    })?;
    Ok(mapping)
}

/// Puts a signpost at the door, readable for those who may use what it points to.
pub(crate) fn raise_signpost(signpost: &Signpost, door: &Path, mode: u32, group: Option<u32>) -> Result<(), Errno> {
    let (file, draft) = Draft::beside(door)?;
    let text = signpost.text();
    if rustix::io::write(&file, &text)? != text.len() {
        return Err(Errno::NOSPC);
    }
    if let Some(group) = group {
        rustix::fs::fchown(&file, None, Some(Gid::from_raw(group)))?;
    }
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))?;
    draft.publish(file.as_fd(), door)
}

/// Checks a file by reading (M3), then maps it.
fn attach_file(
    name: &SegmentName,
    residence: Residence,
    file: OwnedFd,
    path: &Path,
    expected: impl FnOnce(&[u8; HEAD_BYTES]) -> Result<Extent, Fault>,
) -> Result<Mapping, Fault> {
    let refused = |errno| fault("open", name, errno);
    let mut head = [0; HEAD_BYTES];
    if place::read_head(&file, &mut head).map_err(refused)? < HEAD_BYTES {
        return Err(no_segment(name, "it is too short"));
    }
    let extent = expected(&head)?;
    let page_bytes = pages::page_bytes_of(&file).map_err(refused)?;
    let state = rustix::fs::fstat(&file).map_err(refused)?;
    let bytes = judged(name, extent, page_bytes, state.st_size as u64)?;
    // Fewer blocks than were taken: holes, from a copy that skipped zeros or from a damaged file. Filling them asks for
    // space (M1); a file system that packs its blocks is asked in vain, which costs a moment and no harm.
    let whole = state.st_blocks as u64 * 512 >= extent.taken;
    let report = PageReport { page_bytes, transparent: pages::transparent(place::directory_of(path)), refusals: Vec::new() };
    let known = if whole { extent.taken } else { 0 };
    let mapping = Mapping::of_file(name, file, bytes, known, report, residence)?;
    mapping.grow_to(extent.taken)?;
    Ok(mapping)
}

/// How many bytes to map of a segment that says `extent` and is `present` bytes long.
pub(crate) fn judged(name: &SegmentName, extent: Extent, page_bytes: usize, present: u64) -> Result<u64, Fault> {
    let bytes = extent.ceiling.checked_next_multiple_of(page_bytes as u64).unwrap_or(u64::MAX);
    if extent.ceiling < HEAD_BYTES as u64 || extent.taken > extent.ceiling {
        return Err(Fault::Damaged { what: "the sizes in its header" });
    }
    if present < bytes {
        let text = format!("it is cut: {} of {} are there", amount(present), amount(bytes));
        return Err(no_segment(name, &text));
    }
    Ok(bytes)
}

fn no_segment(name: &SegmentName, why: &str) -> Fault {
    Fault::System(format!("{name} is no segment of Polder, or a damaged one: {why}"))
}
