//! Which processes have a segment's file mapped, told by locks that the kernel releases when a process ends.
//!
//! ```text
//!   BYTE   LOCK                       HELD
//!   0      shared, "attached"         by each open file from its mapping to its end
//!          exclusive, "alone"         for a moment: fails while any other process is attached
//!   1      exclusive, "turn"          by a process that attaches or leaves a `file:` segment: one at a time
//! ```
//!
//! The locks belong to the open file and not to the process (OFD locks), so a forked child keeps its parent's: both count
//! as one user, and the lock ends with the later of them. They are independent of `flock`, which `directory.rs` uses.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

const ATTACHED: i64 = 0;
const TURN: i64 = 1;

/// Says that this file is mapped, or takes back that the process is alone with it.
pub(crate) fn enter(file: impl AsFd) -> Result<(), Errno> {
    lock(&file, libc::F_RDLCK, ATTACHED, false)
}

/// Whether no other open file is mapped. From then on, none can [`enter`] until this one enters again.
pub(crate) fn is_alone(file: impl AsFd) -> Result<bool, Errno> {
    match lock(&file, libc::F_WRLCK, ATTACHED, false) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether any open file is mapped; the look is not counted. The file may be open for reading only.
pub(crate) fn is_attached(file: impl AsFd) -> bool {
    let mut found = request(libc::F_WRLCK, ATTACHED);
    // SAFETY: the structure is of the type that this command reads and fills, and the descriptor is borrowed.
    let asked = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &mut found) };
    asked == 0 && found.l_type != libc::F_UNLCK as libc::c_short
}

/// Waits for the turn. Its holder checks a segment after a reboot, which takes as long as the segment is large, or ends.
pub(crate) fn await_turn(file: impl AsFd) -> Result<(), Errno> {
    lock(&file, libc::F_WRLCK, TURN, true)
}

/// Takes the turn if it is free.
pub(crate) fn try_turn(file: impl AsFd) -> bool {
    lock(&file, libc::F_WRLCK, TURN, false).is_ok()
}

/// Gives the turn back.
pub(crate) fn end_turn(file: impl AsFd) {
    // Closing the file does the same.
    let _ = lock(&file, libc::F_UNLCK, TURN, false);
}

fn request(kind: libc::c_int, byte: i64) -> libc::flock {
    // SAFETY: all-zero is a valid value of this plain structure; OFD locks want a process number of zero.
    let mut wanted: libc::flock = unsafe { std::mem::zeroed() };
    wanted.l_type = kind as libc::c_short;
    wanted.l_whence = libc::SEEK_SET as libc::c_short;
    (wanted.l_start, wanted.l_len) = (byte, 1);
    wanted
}

fn lock(file: &impl AsFd, kind: libc::c_int, byte: i64, waits: bool) -> Result<(), Errno> {
    let wanted = request(kind, byte);
    let command = if waits { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
    loop {
        // SAFETY: the structure is of the type that this command reads, and the descriptor is open as long as it is borrowed.
        if unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &wanted) } == 0 {
            return Ok(());
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO) {
            Errno::INTR => {}
            errno => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_alone_once_all_others_have_closed_it() {
        let path = std::env::temp_dir().join(format!("polder-test-presence-{}", std::process::id()));
        let open = || {
            std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap()
        };
        let (first, second) = (open(), open());
        assert!(!is_attached(open()));
        enter(&first).unwrap();
        enter(&second).unwrap();
        assert!(is_attached(open()));
        assert_eq!(is_alone(&first), Ok(false));
        drop(second);
        assert_eq!(is_alone(&first), Ok(true));
        assert_eq!(enter(open()), Err(Errno::AGAIN));
        enter(&first).unwrap();
        enter(open()).unwrap();
        await_turn(&first).unwrap();
        assert!(!try_turn(open()));
        end_turn(&first);
        assert!(try_turn(open()));
        std::fs::remove_file(path).unwrap();
    }
}
