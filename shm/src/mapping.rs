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
//! - **M1** No thread touches memory that has not been taken. In a sparse file the kernel would look for a page at
//!   that moment, and if /dev/shm is full, it kills the process with SIGBUS. `fallocate` asks for the same page
//!   beforehand and fails with ENOSPC, which becomes a [`Fault`] with advice. (Tried on Linux 6.18: fallocate on a full
//!   tmpfs fails and gives back what it had got, also while other processes grow the file; a touch of a hole is a
//!   SIGBUS. Disks need one more precaution, see `Ground::step_bytes` in `pages.rs`.)
//! - **M2** A segment appears whole or not at all: it is filled before it gets its name (see `place.rs`).
//! - **M3** Nothing of a file is read through the mapping before its length and its start have been checked by reading.
//!   If the file is cut shorter later, the processes that use it are killed; a user that may write to a segment is trusted.
//! - **M4** Each process maps the segment at its own address: nothing in the segment is an address, except for liveness locks,
//!   whose list the kernel reads as long as the thread lives. So a mapping must outlive every liveness lock taken in it.
//!
//! System V memory is made at its ceiling: the kernel counts it as a whole when it is made, so `grow_to` has
//! nothing left to ask for. Memory that a cgroup's limit or an overcommitted machine refuses is no ENOSPC on any kind of
//! segment: there the kernel kills by its own rules. Locking into memory finds that out at the start.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_base::Fault;
use rustix::fs::{FallocateFlags, Stat};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, MsyncFlags, ProtFlags};

use crate::ahead::Ahead;
use crate::name::SegmentName;
use crate::pages::{Ground, LARGE, PageChoice, PageReport};
use crate::place::{self, HEAD_BYTES};
use crate::trouble::{amount, fault, locks};
use crate::{presence, shmget};

/// Linux 6.1; in no crate yet.
const MADV_COLLAPSE: libc::c_int = 25;

/// Growth is taken in strides of this size, so that a caller that is often interrupted by signals still makes progress.
const STRIDE_BYTES: u64 = 64 << 20;

/// How this process wants to hold the memory. It does not bind other processes.
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
    /// Which users may attach, as permission bits. A user that may attach may change everything.
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
        CreateOptions {
            ceiling,
            pages: PageChoice::Default,
            mode: 0o600,
            group: None,
            initial_bytes,
            residence: Residence::default(),
        }
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

/// What keeps the memory, apart from the mapping itself.
enum Backing {
    File { file: OwnedFd, ground: Ground },
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
    ahead: Ahead,
}

// SAFETY: the mapping is plain shared memory, valid in every thread; what lies in it is synchronised by its users.
unsafe impl Send for Mapping {}
// SAFETY: as above; the methods that take &self are system calls that may run at the same time.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The end of attaching: from now on this process counts as one that uses the segment, and the next may enter.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        let Backing::File { file, .. } = &self.backing else { return Ok(()) };
        let entered = presence::enter(file);
        presence::end_turn(file);
        match entered {
            Err(errno) if self.durable_file().is_some() => Err(locks(&self.name, errno)),
            _ => Ok(()),
        }
    }

    /// Whether no other process uses it. Until [`Mapping::enter`] no other one can begin to, if it is a `file:` segment.
    pub(crate) fn is_alone(&self) -> Result<bool, Fault> {
        match &self.backing {
            Backing::File { file, .. } => presence::is_alone(file).map_err(|errno| locks(&self.name, errno)),
            Backing::Sysv => Ok(true),
        }
    }

    /// The file of a `file:` segment, which may outlive a boot.
    pub(crate) fn durable_file(&self) -> Option<&OwnedFd> {
        match &self.backing {
            Backing::File { file, .. } if matches!(self.name, SegmentName::File(_)) => Some(file),
            _ => None,
        }
    }

    /// Owner, group and mode of the segment; of its signpost, if it has no file.
    pub(crate) fn state(&self) -> Result<Stat, Errno> {
        match &self.backing {
            Backing::File { file, .. } => rustix::fs::fstat(file),
            Backing::Sysv => rustix::fs::lstat(place::door(&self.name)),
        }
    }

    /// Takes memory, so that the first `bytes` may be touched (M1), here and in every process that has the segment
    /// mapped. Taking what has been taken costs nothing and does no harm, at any time and from any process. When it
    /// fails, a part may have been taken already; the next call goes on from there.
    pub fn grow_to(&self, bytes: u64) -> Result<(), Fault> {
        if bytes > self.bytes as u64 {
            let ceiling = amount(self.bytes as u64);
            return Err(Fault::Full(format!(
                "{} has reached its ceiling of {ceiling}: make a larger one and copy",
                self.name
            )));
        }
        let known = self.taken.load(Ordering::Relaxed);
        if bytes <= known {
            return Ok(());
        }
        if let Backing::File { file, ground } = &self.backing {
            self.take(file, *ground, known, bytes, &mut |upto| {
                self.taken.fetch_max(upto.min(bytes), Ordering::Relaxed);
            })?;
        }
        self.taken.fetch_max(bytes, Ordering::Relaxed);
        if self.residence.prefaulted { self.prefault(known, bytes) } else { Ok(()) }
    }

    /// Takes the memory between two places, which need not follow what has been taken (M1 holds for these places then).
    ///
    /// # Errors
    /// As [`Mapping::grow_to`].
    pub fn back(&self, from: u64, to: u64) -> Result<(), Fault> {
        if to > self.bytes as u64 {
            return Err(Fault::Full(format!(
                "{} has reached its ceiling: make a larger one and copy",
                self.name
            )));
        }
        if let Backing::File { file, ground } = &self.backing {
            self.take(file, *ground, from, to, &mut |_| {})?;
        }
        if self.residence.prefaulted { self.prefault(from, to) } else { Ok(()) }
    }

    /// Asks the file system for the memory between two places, in strides, and tells how far it has come.
    fn take(
        &self,
        file: &OwnedFd,
        ground: Ground,
        from: u64,
        to: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Fault> {
        let step = ground.step_bytes as u64;
        let stride = STRIDE_BYTES.next_multiple_of(step);
        let mut begin = from / step * step;
        let end = to.next_multiple_of(step).min(self.bytes as u64);
        while begin < end {
            let mut length = stride.min(end - begin);
            if self.pages.transparent {
                length = length.min(LARGE as u64 - begin % LARGE as u64);
                if length == LARGE as u64 && self.ahead.wants(begin) {
                    self.enlarge(begin);
                }
            }
            match rustix::fs::fallocate(file, FallocateFlags::empty(), begin, length) {
                Ok(()) => begin += length,
                Err(Errno::INTR) => {}
                Err(Errno::NOSPC | Errno::NOMEM | Errno::DQUOT) => return Err(self.full(file, to - from)),
                Err(errno) => return Err(fault("take memory for", &self.name, errno)),
            }
            progress(begin);
        }
        Ok(())
    }

    /// Has the kernel back a block of 2 MiB by one large page. A hint: where it fails small pages are taken.
    ///
    /// The page is made out of a single small one and holes, which the kernel fills with zeros; so this costs no more than small pages
    /// would (94 us where 512 small ones take 128, on the machine of ANCHORS). A block in use stays in use meanwhile.
    pub(crate) fn enlarge(&self, block: u64) {
        if let Backing::File { file, .. } = &self.backing
            && rustix::fs::fallocate(file, FallocateFlags::empty(), block, rustix::param::page_size() as u64)
                .is_ok()
        {
            // SAFETY: the block is inside the mapping; what it holds is not changed by the size of its pages.
            unsafe { libc::madvise(self.base.as_ptr().add(block as usize).cast(), LARGE, MADV_COLLAPSE) };
        }
    }

    /// Up to where growth would make large pages, at most `blocks` large pages from `begin` on; 0 if it makes none.
    pub(crate) fn enlargeable(&self, begin: u64, blocks: u64) -> u64 {
        let end = self.bytes as u64 / LARGE as u64 * LARGE as u64;
        let enlarges = self.pages.transparent && matches!(self.backing, Backing::File { .. });
        if enlarges { (begin + blocks * LARGE as u64).min(end) } else { 0 }
    }

    pub(crate) fn ahead(&self) -> &Ahead {
        &self.ahead
    }

    /// The error for a file system without space: which one is full, how much is free, what to do.
    fn full(&self, file: &OwnedFd, wanted: u64) -> Fault {
        let room = match rustix::fs::fstatvfs(file) {
            Ok(system) => format!(
                "{} of {} free",
                amount(system.f_bavail * system.f_frsize),
                amount(system.f_blocks * system.f_frsize)
            ),
            Err(_) => "nothing free".to_owned(),
        };
        let advice = match &self.name {
            _ if self.pages.page_bytes > rustix::param::page_size() => {
                "set more pages aside ('sysctl vm.nr_hugepages=N')"
            }
            SegmentName::File(_) => "free some space on that disk",
            _ => {
                "remove segments, or enlarge it ('mount -o remount,size=SIZE /dev/shm'; docker run --shm-size SIZE)"
            }
        };
        Fault::Full(format!(
            "cannot take {} more for {}: its file system has {room}: {advice}",
            amount(wanted),
            self.name
        ))
    }

    /// Holds the memory as was asked for.
    pub(crate) fn reside(&self) -> Result<(), Fault> {
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
        match unsafe {
            rustix::mm::madvise(self.base.as_ptr().add(begin).cast(), length, Advice::LinuxPopulateWrite)
        } {
            Ok(()) => Ok(()),
            Err(Errno::INVAL) => Err(Fault::System(
                "cannot prefault: this kernel is older than 5.14: leave prefaulting off".to_owned(),
            )),
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

    /// [`Mapping::sync`] of the first page.
    pub(crate) fn sync_head(&self) -> Result<(), Fault> {
        if matches!(self.backing, Backing::Sysv) {
            return Ok(());
        }
        // SAFETY: the range is the mapping's beginning.
        unsafe { rustix::mm::msync(self.base.as_ptr().cast(), self.pages.page_bytes, MsyncFlags::SYNC) }
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
    pub(crate) fn of_sysv(
        base: NonNull<u8>,
        bytes: usize,
        name: &SegmentName,
        pages: PageReport,
        residence: Residence,
    ) -> Mapping {
        let mapping = Mapping {
            base,
            bytes,
            backing: Backing::Sysv,
            name: name.clone(),
            pages,
            residence,
            taken: AtomicU64::new(bytes as u64),
            ahead: Ahead::default(),
        };
        mapping.advise(true);
        mapping
    }

    /// Maps a file as far as its ceiling; what `sizes` says is taken counts as known to be there.
    pub(crate) fn of_file(
        name: &SegmentName,
        file: OwnedFd,
        ground: Ground,
        sizes: Extent,
        pages: PageReport,
        residence: Residence,
    ) -> Result<Mapping, Fault> {
        let bytes = usize::try_from(sizes.ceiling).map_err(|_| fault("map", name, Errno::NOMEM))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let base = map_aligned(&file, bytes, protection, ground.page_bytes.max(LARGE))
            .map_err(|errno| fault("map", name, errno))?;
        let backing = Backing::File { file, ground };
        let mapping = Mapping {
            base,
            bytes,
            backing,
            name: name.clone(),
            pages,
            residence,
            taken: AtomicU64::new(sizes.taken),
            ahead: Ahead::default(),
        };
        mapping.advise(ground.in_memory);
        Ok(mapping)
    }

    /// Tells the kernel what this memory is; it may know better or not know these words at all.
    fn advise(&self, in_memory: bool) {
        let larger = in_memory.then_some(Advice::LinuxHugepage);
        for advice in [Advice::LinuxDontDump].into_iter().chain(larger) {
            // SAFETY: neither advice changes what the memory holds.
            let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
        }
    }

    /// Notes why it has not got larger pages.
    pub(crate) fn note(&mut self, refusals: Vec<String>) {
        self.pages.refusals.extend(refusals);
    }

    /// The file behind it; none for System V memory.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.backing {
            Backing::File { file, .. } => Some(file.as_fd()),
            Backing::Sysv => None,
        }
    }

    /// The last steps before the name appears: `init` and the creator's wishes.
    pub(crate) fn fill(
        &self,
        options: &CreateOptions,
        init: impl FnOnce(&Mapping) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.grow_to(options.initial_bytes)?;
        self.reside()?;
        init(self)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: M4, the owner that drops a mapping uses nothing in it any more, and the range is exactly the mapping.
        unsafe {
            match self.backing {
                Backing::File { .. } => drop(rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes)),
                Backing::Sysv => shmget::detach(self.base),
            }
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Mapping({} at {:p}, {} of {})",
            self.name,
            self.base,
            amount(self.taken()),
            amount(self.bytes as u64)
        )
    }
}

/// Maps a file at an address that large pages can begin at.
fn map_aligned(
    file: &OwnedFd,
    bytes: usize,
    protection: ProtFlags,
    alignment: usize,
) -> Result<NonNull<u8>, Errno> {
    let room = bytes.checked_add(alignment).ok_or(Errno::NOMEM)?;
    // SAFETY: the kernel chooses the address, so that nothing that is mapped is replaced.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            room,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }?;
    let ahead = start.addr().wrapping_neg() % alignment;
    let behind = bytes.next_multiple_of(rustix::param::page_size());
    // SAFETY: both mappings and what is unmapped lie inside the address range that has just been reserved here, which nothing else uses.
    unsafe {
        let base = start.cast::<u8>().add(ahead);
        if let Err(errno) = rustix::mm::mmap(
            base.cast(),
            bytes,
            protection,
            MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED,
            file,
            0,
        ) {
            let _ = rustix::mm::munmap(start, room);
            return Err(errno);
        }
        if ahead > 0 {
            let _ = rustix::mm::munmap(start, ahead);
        }
        if ahead + behind < room {
            let _ = rustix::mm::munmap(base.add(behind).cast(), room - ahead - behind);
        }
        Ok(NonNull::new(base).expect("the kernel maps nothing at address zero by itself"))
    }
}

/// How many bytes to map of a segment that says `extent` and is `present` bytes long.
pub(crate) fn judged(
    name: &SegmentName,
    extent: Extent,
    page_bytes: usize,
    present: u64,
) -> Result<u64, Fault> {
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

pub(crate) fn no_segment(name: &SegmentName, why: &str) -> Fault {
    Fault::System(format!("{name} is no segment of Polder, or a damaged one: {why}"))
}
