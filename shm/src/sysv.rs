//! System V shared memory, for machines whose /dev/shm is small and may not be made larger.
//!
//! The memory is made private, filled, and then found through a signpost in /dev/shm (see `place.rs`): it is never seen
//! half made, and two names never share one key. It has its ceiling from the start; the kernel counts all of it
//! against what it may promise (no SHM_NORESERVE), so that too much is refused here and not killed for later.

use std::path::Path;

use polder_base::Fault;
use rustix::io::Errno;

use crate::files::raise_signpost;
use crate::mapping::{CreateOptions, Extent, Mapping, Residence, judged, no_segment};
use crate::name::SegmentName;
use crate::pages::{self, PageReport};
use crate::place::{HEAD_BYTES, Signpost};
use crate::shmget::{Attached, give, last_errno, remove};
use crate::trouble::{amount, fault};

/// Memory that goes away again unless it is kept.
struct Fresh(i32);

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = remove(self.0);
    }
}

/// The way of System V memory to its name.
pub(crate) struct Unnamed {
    fresh: Fresh,
    mode: u32,
    group: Option<u32>,
}

impl Unnamed {
    /// Raises the signpost; `EXIST` if another process was first.
    pub(crate) fn publish(self, door: &Path) -> Result<(), Errno> {
        raise_signpost(&Signpost::Sysv(self.fresh.0), door, self.mode, self.group)?;
        std::mem::forget(self.fresh);
        Ok(())
    }
}

/// Makes System V memory without a signpost.
pub(crate) fn draft(
    name: &SegmentName,
    options: &CreateOptions,
    init: impl FnOnce(&Mapping) -> Result<(), Fault>,
) -> Result<(Mapping, Unnamed), Fault> {
    let (fresh, bytes, report) = make(name, options)?;
    if let Some(group) = options.group {
        give(fresh.0, group).map_err(|errno| fault("create", name, errno))?;
    }
    let memory = Attached::new(fresh.0).map_err(|errno| fault("map", name, errno))?;
    let mapping = Mapping::of_sysv(memory.keep(), bytes, name, report, options.residence);
    mapping.fill(options, init)?;
    Ok((mapping, Unnamed { fresh, mode: options.mode, group: options.group }))
}

/// Takes memory that a signpost named as a segment, after a look at its length and its start.
pub(crate) fn attach(
    name: &SegmentName,
    residence: Residence,
    memory: Attached,
    expected: impl FnOnce(&[u8; HEAD_BYTES]) -> Result<Extent, Fault>,
) -> Result<Mapping, Fault> {
    let head = memory.head().ok_or_else(|| no_segment(name, "it is too short"))?;
    let present = memory.state().shm_segsz;
    let page_bytes = rustix::param::page_size();
    judged(name, expected(&head)?, page_bytes, present as u64)?;
    let report = PageReport { page_bytes, transparent: pages::transparent_internal(), refusals: Vec::new() };
    Ok(Mapping::of_sysv(memory.keep(), present, name, report, residence))
}

/// Asks for memory of the wished page size, else of the ordinary one.
fn make(name: &SegmentName, options: &CreateOptions) -> Result<(Fresh, usize, PageReport), Fault> {
    let mut refusals = Vec::new();
    let ordinary = rustix::param::page_size();
    for &page_bytes in options.pages.sizes().iter().chain([&ordinary]) {
        let huge = if page_bytes == ordinary {
            0
        } else {
            libc::SHM_HUGETLB | ((page_bytes.trailing_zeros() as i32) << libc::MAP_HUGE_SHIFT)
        };
        let size = amount(page_bytes as u64);
        if huge != 0 && options.ceiling < page_bytes as u64 {
            refusals.push(format!("no {size} pages, as the ceiling is smaller than one"));
            continue;
        }
        let bytes = options
            .ceiling
            .checked_next_multiple_of(page_bytes as u64)
            .and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| fault("create", name, Errno::FBIG))?;
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | huge | (options.mode & 0o777) as i32;
        // SAFETY: takes numbers and returns a number.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, flags) };
        if id >= 0 {
            let transparent = huge == 0 && pages::transparent_internal();
            return Ok((Fresh(id), bytes, PageReport { page_bytes, transparent, refusals }));
        }
        match last_errno() {
            errno if huge != 0 => refusals
                .push(format!("no {size} pages, as the kernel says {errno} ('sysctl vm.nr_hugepages')")),
            Errno::NOSPC | Errno::NOMEM => {
                let text = format!(
                    "cannot create {name}: the machine cannot promise {}: ask for a lower ceiling",
                    amount(bytes as u64)
                );
                return Err(Fault::Full(text));
            }
            Errno::INVAL => {
                let text = format!(
                    "cannot create {name}: {} is more than 'sysctl kernel.shmmax' allows",
                    amount(bytes as u64)
                );
                return Err(Fault::System(text));
            }
            errno => return Err(fault("create", name, errno)),
        }
    }
    unreachable!("the ordinary page size either succeeds or returns an error");
}
