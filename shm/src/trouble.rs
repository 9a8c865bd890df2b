//! What the operating system refused, in one line that says what to do.

use std::fmt::Display;

use polder_base::Fault;
use rustix::io::Errno;

use crate::name::SegmentName;

/// The fault for a system call that failed while we were to `doing` (a verb) with `what`.
pub(crate) fn fault(doing: &str, what: &dyn Display, errno: Errno) -> Fault {
    let cause = match errno {
        Errno::ACCESS | Errno::PERM => "no permission: run as its owner, or create it with a mode and a group that include you".to_owned(),
        Errno::NOENT | Errno::NOTDIR => "its directory does not exist: create it first".to_owned(),
        Errno::EXIST => "it exists already".to_owned(),
        Errno::ROFS => "its file system is mounted read-only: choose another place".to_owned(),
        Errno::LOOP => "it is a symbolic link, which could lead anywhere: name the file itself".to_owned(),
        Errno::ISDIR => "it is a directory: name a file in it".to_owned(),
        Errno::MFILE => "this process has too many open files: raise 'ulimit -n'".to_owned(),
        Errno::NFILE => "this machine has too many open files: raise 'sysctl fs.file-max'".to_owned(),
        Errno::NOMEM => "no memory or address space for it: ask for a lower ceiling, or raise 'ulimit -v'".to_owned(),
        Errno::FBIG => "its file system or 'ulimit -f' does not allow files of this size: ask for a lower ceiling".to_owned(),
        Errno::OPNOTSUPP => "its file system cannot reserve space (fallocate): use /dev/shm, tmpfs, ext4, xfs or btrfs".to_owned(),
        Errno::NODEV => {
            "it is no regular file, or its file system does not allow shared mappings: name a file on /dev/shm, tmpfs, ext4, xfs or btrfs"
                .to_owned()
        }
        Errno::NOSPC | Errno::DQUOT => {
            return Fault::Full(format!("cannot {doing} {what}: no space or quota left in its file system: free some"));
        }
        other => other.to_string(),
    };
    Fault::System(format!("cannot {doing} {what}: {cause}"))
}

/// Bytes as people read them: exact up to a KiB, else one decimal at most.
pub(crate) fn amount(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

/// The words for a file system without locks.
pub(crate) fn locks(name: &SegmentName, errno: Errno) -> Fault {
    let advice = "use a local file system such as ext4, xfs, btrfs or tmpfs";
    Fault::System(format!("cannot lock {name} against processes of another boot: {errno}: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_well() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (4096, "4 KiB"),
            (1536, "1.5 KiB"),
            (2 << 20, "2 MiB"),
            (1 << 30, "1 GiB"),
            (1 << 60, "1024 PiB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }

    #[test]
    fn a_full_disk_is_full_and_not_broken() {
        assert!(matches!(fault("create", &"file:x", Errno::NOSPC), Fault::Full(_)));
        let denied = fault("open", &"shm:x", Errno::ACCESS).to_string();
        assert!(denied.starts_with("ERR cannot open shm:x: no permission"), "{denied}");
    }
}
