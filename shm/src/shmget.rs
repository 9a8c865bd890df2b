//! The kernel's calls for System V shared memory.

use std::ptr::NonNull;

use polder_base::Fault;
use rustix::io::Errno;

use crate::name::SegmentName;
use crate::owner::Admission;
use crate::place::HEAD_BYTES;

/// System V memory that is mapped here, and is unmapped when dropped.
pub(crate) struct Attached {
    base: NonNull<u8>,
    state: libc::shmid_ds,
}

impl Attached {
    /// Maps memory by its number; `INVAL` or `IDRM` if there is none.
    pub(crate) fn new(id: i32) -> Result<Attached, Errno> {
        Attached::by(id, 0)
    }

    /// Maps memory to look at it only.
    pub(crate) fn to_look_at(id: i32) -> Result<Attached, Errno> {
        Attached::by(id, libc::SHM_RDONLY)
    }

    fn by(id: i32, flags: libc::c_int) -> Result<Attached, Errno> {
        let base = map(id, flags)?;
        match state(id) {
            Ok(state) => Ok(Attached { base, state }),
            Err(errno) => {
                // SAFETY: mapped above, and nothing has been told of it.
                unsafe { detach(base) };
                Err(errno)
            }
        }
    }

    /// Refuses memory whose owner or creator is not admitted: either may do with it what it likes.
    pub(crate) fn judge(&self, name: &SegmentName, admission: Admission) -> Result<(), Fault> {
        let permissions = &self.state.shm_perm;
        let mode = u32::from(permissions.mode);
        admission.judge(name, permissions.cuid, mode)?;
        admission.judge(name, permissions.uid, mode)
    }

    /// The word at an offset; none behind its end.
    pub(crate) fn word(&self, at: u64) -> Option<u64> {
        let at = usize::try_from(at).ok().filter(|at| at % 8 == 0 && *at + 8 <= self.state.shm_segsz)?;
        // SAFETY: so much is mapped, and System V memory cannot be cut; another process may write to it meanwhile.
        Some(
            unsafe { std::sync::atomic::AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
                .load(std::sync::atomic::Ordering::Relaxed),
        )
    }

    /// A copy of its start; none if it is shorter.
    pub(crate) fn head(&self) -> Option<[u8; HEAD_BYTES]> {
        if self.state.shm_segsz < HEAD_BYTES {
            return None;
        }
        let mut head = [0; HEAD_BYTES];
        // SAFETY: so much is mapped, and System V memory cannot be cut. Others may write to it meanwhile: what is torn
        // by that is judged as any other bytes are.
        unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr(), head.as_mut_ptr(), HEAD_BYTES) };
        Some(head)
    }

    /// What the kernel knows of it.
    pub(crate) fn state(&self) -> &libc::shmid_ds {
        &self.state
    }

    /// Where it is mapped; from now on the caller unmaps it.
    pub(crate) fn keep(self) -> NonNull<u8> {
        let base = self.base;
        std::mem::forget(self);
        base
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and the address was never handed out (`keep` forgets this value).
        unsafe { detach(self.base) };
    }
}

/// How many bytes of it are in memory now, as the kernel's own table says.
pub(crate) fn used_bytes(id: i32) -> u64 {
    let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let columns = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut lines = table.lines().map(columns);
    let Some(titles) = lines.next() else { return 0 };
    let at = |title: &str| titles.iter().position(|found| found == title);
    let (Some(id_at), Some(used_at)) = (at("shmid"), at("rss")) else { return 0 };
    let line = lines.find(|fields| fields.get(id_at).is_some_and(|field| *field == id.to_string()));
    line.and_then(|fields| fields.get(used_at)?.parse().ok()).unwrap_or(0)
}

/// Maps System V memory at an address that the kernel chooses.
fn map(id: i32, flags: libc::c_int) -> Result<NonNull<u8>, Errno> {
    // SAFETY: no address is given, so that nothing that is mapped is replaced.
    let base = unsafe { libc::shmat(id, std::ptr::null(), flags) };
    if base.addr() == usize::MAX {
        return Err(last_errno());
    }
    Ok(NonNull::new(base.cast()).expect("the kernel maps nothing at address zero by itself"))
}

/// Unmaps System V memory.
///
/// # Safety
/// `base` came from [`map`], and the memory is not used through it any more.
pub(crate) unsafe fn detach(base: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe { libc::shmdt(base.as_ptr().cast()) };
}

/// Marks memory as removed: it is gone when the last process that has it mapped is.
pub(crate) fn remove(id: i32) -> Result<(), Errno> {
    // SAFETY: this command takes no buffer.
    match unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// What the kernel knows of a piece of memory.
fn state(id: i32) -> Result<libc::shmid_ds, Errno> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut state: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: the buffer is of the type that this command fills.
    match unsafe { libc::shmctl(id, libc::IPC_STAT, &mut state) } {
        0 => Ok(state),
        _ => Err(last_errno()),
    }
}

/// Gives memory to a group.
pub(crate) fn give(id: i32, group: u32) -> Result<(), Errno> {
    let mut wanted = state(id)?;
    wanted.shm_perm.gid = group;
    // SAFETY: the buffer was filled by the kernel, and only the group was changed.
    match unsafe { libc::shmctl(id, libc::IPC_SET, &mut wanted) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// The error of the call that has just failed.
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
