//! The pages that memory comes in, and why not the ones that were asked for.
//!
//! A lookup in 10 GB of 4 KiB pages misses the processor's address cache nearly every time; with pages of 2 MiB or
//! 1 GiB it rarely does. Large pages can be had in two ways:
//!
//! - **hugetlbfs** keeps a pool that the administrator has set aside (`sysctl vm.nr_hugepages`). Files there cannot
//!   be anything else, so this is what "asked for" means: 1 GiB, else 2 MiB, else the ordinary pages, with a report.
//! - **transparent** large pages. Since Linux 6.1 a process may ask for them block by block (`MADV_COLLAPSE`), whatever tmpfs was
//!   mounted with, unless the administrator denies them; that is what growth does. Older kernels give them where tmpfs was mounted with
//!   `huge=always` or `huge=within_size`. Measured: a random GET among a million keys takes 182 ns instead of 270.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::trouble::amount;

/// 2 MiB.
pub const LARGE: usize = 2 << 20;
/// 1 GiB.
pub const HUGE: usize = 1 << 30;

/// Which pages a new segment shall have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageChoice {
    /// What the place gives by itself.
    #[default]
    Default,
    /// 2 MiB, else what the place gives.
    Large,
    /// 1 GiB, else 2 MiB, else what the place gives.
    Huge,
}

impl PageChoice {
    /// The page sizes to try before the ordinary one, largest first.
    pub(crate) fn sizes(self) -> &'static [usize] {
        match self {
            PageChoice::Default => &[],
            PageChoice::Large => &[LARGE],
            PageChoice::Huge => &[HUGE, LARGE],
        }
    }
}

/// The pages that a segment got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageReport {
    /// The size of a page, which is also the step in which memory is taken.
    pub page_bytes: usize,
    /// Whether the kernel makes large pages out of these by itself.
    pub transparent: bool,
    /// Why larger pages were asked for and not given, one line for each size.
    pub refusals: Vec<String>,
}

impl PageReport {
    /// What a file in `directory` has.
    pub(crate) fn of(ground: Ground, directory: &Path) -> PageReport {
        let transparent =
            ground.in_memory && ground.page_bytes == rustix::param::page_size() && transparent(directory);
        PageReport { page_bytes: ground.page_bytes, transparent, refusals: Vec::new() }
    }
}

impl fmt::Display for PageReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "pages of {}", amount(self.page_bytes as u64))?;
        if self.transparent {
            write!(out, ", transparently larger")?;
        }
        for (index, refusal) in self.refusals.iter().enumerate() {
            write!(out, "{} {refusal}", if index == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

/// What kind of ground a file stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ground {
    /// Its pages: the huge ones on hugetlbfs, else the processor's.
    pub page_bytes: usize,
    /// The step in which space is to be taken, in bytes.
    ///
    /// On a disk this is more than a page. The kernel keeps neighbouring pages of a file in one piece of its cache, and a
    /// write to any byte of a piece asks the disk for all of it. If a piece reached over the end of what was taken,
    /// a store to taken memory could need space that is not there, and die of it. Pieces are at most 2 MiB and aligned.
    pub step_bytes: usize,
    /// Whether its pages are all there is of it, so that the kernel may be told to make them larger. On a disk that
    /// advice would only make the pieces of the cache larger.
    pub in_memory: bool,
}

/// Looks at the file system that a file is in.
pub(crate) fn ground(file: &OwnedFd) -> Result<Ground, Errno> {
    let system = rustix::fs::fstatfs(file.as_fd())?;
    let page_bytes = rustix::param::page_size();
    // The magic numbers have other types on other processors; all fit into 32 bits.
    Ok(match system.f_type as u32 {
        kind if kind == libc::HUGETLBFS_MAGIC as u32 => {
            let page_bytes = system.f_bsize as usize;
            Ground { page_bytes, step_bytes: page_bytes, in_memory: true }
        }
        kind if kind == libc::TMPFS_MAGIC as u32 => {
            Ground { page_bytes, step_bytes: page_bytes, in_memory: true }
        }
        _ => Ground { page_bytes, step_bytes: LARGE.max(page_bytes), in_memory: false },
    })
}

/// Whether a file or directory is on hugetlbfs.
pub(crate) fn is_hugetlbfs(file: &OwnedFd) -> Result<bool, Errno> {
    Ok(rustix::fs::fstatfs(file.as_fd())?.f_type as u32 == libc::HUGETLBFS_MAGIC as u32)
}

/// Where pages of `page_bytes` can be had: a mounted hugetlbfs of that size, or the reason why there is none.
pub(crate) fn hugetlbfs(page_bytes: usize) -> Result<PathBuf, String> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let fits =
        |place: &PathBuf| rustix::fs::statfs(place).is_ok_and(|system| system.f_bsize as usize == page_bytes);
    hugetlbfs_mounts(&mounts).find(fits).ok_or_else(|| {
        let size = amount(page_bytes as u64);
        format!("no {size} pages, as no hugetlbfs of that size is mounted ('mount -t hugetlbfs -o pagesize={page_bytes} none DIRECTORY')")
    })
}

/// The mount points of hugetlbfs in the text of /proc/mounts.
fn hugetlbfs_mounts(mounts: &str) -> impl Iterator<Item = PathBuf> {
    mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let place = fields.nth(1)?;
        (fields.next()? == "hugetlbfs").then(|| PathBuf::from(unescape(place)))
    })
}

/// Blanks in a mount point are written as octal in /proc/mounts.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, character)| text.replace(code, character))
}

/// Whether memory taken in `directory` becomes large pages by itself.
fn transparent(directory: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    // Of mounts on top of each other the last one counts.
    let options = mounts.lines().rev().find_map(|line| {
        let mut fields = line.split(' ');
        (Path::new(&unescape(fields.nth(1)?)) == directory).then(|| fields.nth(1)).flatten()
    });
    let mount_wants = options.is_some_and(|options| {
        options.split(',').any(|option| matches!(option, "huge=always" | "huge=within_size"))
    });
    match internal_policy().as_str() {
        "" | "deny" => false,
        "force" => true,
        _ => mount_wants || kernel_collapses(),
    }
}

/// Whether the kernel makes large pages when it is asked to: Linux 6.1 and later.
fn kernel_collapses() -> bool {
    let system = rustix::system::uname();
    let mut numbers = system
        .release()
        .to_str()
        .unwrap_or_default()
        .split(['.', '-'])
        .map_while(|word| word.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(1))
}

/// The same for memory that is in no mounted file system (System V).
pub(crate) fn transparent_internal() -> bool {
    matches!(internal_policy().as_str(), "always" | "within_size" | "force")
}

/// The kernel's choice for shared memory: the word in brackets.
fn internal_policy() -> String {
    let text =
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    let chosen = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
    chosen.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hugetlbfs_is_found_among_the_mounts() {
        let mounts = "tmpfs /dev/shm tmpfs rw 0 0\nnone /mnt/huge\\040pages hugetlbfs rw,pagesize=2M 0 0\n";
        assert_eq!(hugetlbfs_mounts(mounts).collect::<Vec<_>>(), [PathBuf::from("/mnt/huge pages")]);
    }

    #[test]
    fn a_report_says_what_was_got_and_why() {
        let mut report = PageReport { page_bytes: 4096, transparent: false, refusals: vec![] };
        assert_eq!(report.to_string(), "pages of 4 KiB");
        report.refusals = vec!["no 1 GiB pages".to_owned(), "no 2 MiB pages".to_owned()];
        assert_eq!(report.to_string(), "pages of 4 KiB: no 1 GiB pages; no 2 MiB pages");
    }

    #[test]
    fn a_page_size_that_no_machine_has_is_refused_with_a_reason() {
        assert!(hugetlbfs(3 << 20).unwrap_err().starts_with("no 3 MiB pages"));
    }
}
