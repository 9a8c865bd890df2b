//! Full file systems, missing permissions, large pages: what the machine may refuse.
//!
//! Most of it needs root, as it mounts file systems of its own; where that is not permitted, a test says so and passes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::common::*;
use polder_base::Fault;
use polder_shm::directory::Listed;
use polder_shm::mapping::{CreateOptions, Mapping, Residence};
use polder_shm::name::SegmentName;
use polder_shm::opening::{AttachError, CreateError};
use polder_shm::pages::{LARGE, PageChoice};

/// A file system of our own, gone when the test ends.
struct Mounted(PathBuf);

impl Mounted {
    fn new(kind: &str, options: &str) -> Option<Mounted> {
        let place = std::env::temp_dir().join(unique("mount"));
        std::fs::create_dir(&place).unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", kind, "-o", options, "none"])
            .arg(&place)
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Mounted(place));
        }
        std::fs::remove_dir(&place).unwrap();
        println!("skipped: no permission to mount {kind}");
        None
    }

    fn segment(&self, name: &str) -> SegmentName {
        SegmentName::File(self.0.join(name))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily, as children of other tests may have been forked while we had mapped something there.
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Writes to memory that has been taken, or shall have been.
fn touch(mapping: &Mapping, at: u64) {
    assert!(at < mapping.bytes() as u64);
    // SAFETY: mapped, and no test reads it; whether it can be written to is what the tests are about.
    unsafe { mapping.base().add(at as usize).write_volatile(1) };
}

#[test]
fn a_full_file_system_is_an_error_and_no_signal() {
    let Some(small) = Mounted::new("tmpfs", "size=8m") else { return };
    let mapping =
        Mapping::create(&small.segment("a"), &CreateOptions::new(64 * MIB, MIB), write_head).unwrap();
    let neighbour =
        Mapping::create(&small.segment("b"), &CreateOptions::new(64 * MIB, MIB), write_head).unwrap();
    neighbour.grow_to(2 * MIB).unwrap();
    let Err(Fault::Full(text)) = mapping.grow_to(32 * MIB) else { panic!("8 MiB hold 32") };
    assert!(text.contains("free") && text.contains("8 MiB"), "{text}");
    // All that was taken can still be touched, and what is left is still to be had.
    mapping.grow_to(4 * MIB).unwrap();
    for (mapping, bytes) in [(&mapping, 4 * MIB), (&neighbour, 2 * MIB)] {
        for at in (4096..bytes).step_by(4096) {
            touch(mapping, at);
        }
    }
}

#[test]
fn a_touch_of_what_was_not_taken_kills_when_the_file_system_is_full() {
    // The reason for M1. If a future kernel behaves differently, the text of M1 can be corrected.
    let Some(small) = Mounted::new("tmpfs", "size=8m") else { return };
    let mapping =
        Mapping::create(&small.segment("a"), &CreateOptions::new(64 * MIB, 8 * MIB), write_head).unwrap();
    let toucher = child(|| {
        touch(&mapping, 32 * MIB);
        0
    });
    assert_eq!(outcome(toucher), -libc::SIGBUS);
}

#[test]
fn a_store_to_taken_memory_asks_a_disk_for_no_more() {
    let guard = Guard::file("disk");
    let SegmentName::File(path) = &guard.0 else { unreachable!("a file") };
    let mapping = Mapping::create(&guard.0, &CreateOptions::new(64 * MIB, MIB), write_head).unwrap();
    mapping.grow_to(3 * MIB).unwrap();
    let taken = std::fs::metadata(path).unwrap().blocks();
    for at in (4096..3 * MIB).step_by(4096) {
        // SAFETY: taken memory; read first, so that the kernel reads ahead as it likes.
        unsafe { mapping.base().add(at as usize).read_volatile() };
        touch(&mapping, at);
    }
    assert_eq!(std::fs::metadata(path).unwrap().blocks(), taken);
}

#[test]
fn a_segment_that_does_not_fit_leaves_nothing_behind() {
    let Some(small) = Mounted::new("tmpfs", "size=8m") else { return };
    let tried = Mapping::create(&small.segment("a"), &CreateOptions::new(64 * MIB, 16 * MIB), write_head);
    assert!(matches!(tried, Err(CreateError::Fault(Fault::Full(_)))), "{tried:?}");
    assert_eq!(std::fs::read_dir(&small.0).unwrap().count(), 0);
    // Children of other tests that were forked while we had it open keep its memory until they end.
    let begun = Instant::now();
    while let Err(error) =
        Mapping::create(&small.segment("a"), &CreateOptions::new(64 * MIB, 7 * MIB), write_head)
    {
        assert!(begun.elapsed() < Duration::from_secs(20), "{error:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn growth_fails_for_some_and_harms_none_when_many_grow_at_once() {
    let Some(small) = Mounted::new("tmpfs", "size=8m") else { return };
    let name = small.segment("a");
    let mapping = Mapping::create(&name, &CreateOptions::new(64 * MIB, MIB), write_head).unwrap();
    let growers: Vec<_> = (0..6)
        .map(|grower| {
            child(|| {
                let own = attach(&name).unwrap();
                for bytes in (MIB..10 * MIB).step_by(64 << 10) {
                    match own.grow_to(bytes + grower * 4096) {
                        Ok(()) => touch(&own, bytes + grower * 4096 - 8),
                        Err(Fault::Full(_)) => return 7,
                        Err(_) => return 8,
                    }
                }
                0
            })
        })
        .collect();
    let outcomes: Vec<_> = growers.into_iter().map(outcome).collect();
    assert_eq!(outcomes, [7; 6], "all meet the limit, none is killed");
    drop(mapping);
}

#[test]
fn others_may_not_attach_to_what_is_not_theirs() {
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can become somebody else");
        return;
    }
    for guard in [Guard::shm("private"), Guard::sysv("private"), Guard::file("private")] {
        let _mapping = Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head).unwrap();
        let stranger = child(|| {
            // SAFETY: gives up what this child is allowed.
            unsafe { libc::setresuid(65534, 65534, 65534) };
            match attach(&guard.0) {
                Err(AttachError::Fault(fault)) => i32::from(!fault.to_string().contains("no permission")),
                _ => 2,
            }
        });
        assert_eq!(outcome(stranger), 0, "{}", guard.0);
    }
}

#[test]
fn a_group_may_attach_when_it_is_named() {
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can become somebody else");
        return;
    }
    for guard in [Guard::shm("group"), Guard::sysv("group"), Guard::file("group")] {
        let options = CreateOptions { mode: 0o660, group: Some(4242), ..CreateOptions::new(MIB, MIB) };
        let _mapping = Mapping::create(&guard.0, &options, write_head).unwrap();
        let member = child(|| {
            // SAFETY: gives up what this child is allowed, but for one group.
            unsafe {
                libc::setgroups(0, std::ptr::null());
                libc::setresgid(4242, 4242, 4242);
                libc::setresuid(65534, 65534, 65534);
            }
            i32::from(attach(&guard.0).is_err())
        });
        assert_eq!(outcome(member), 0, "{}", guard.0);
    }
}

#[test]
fn memory_that_may_not_be_locked_is_refused_with_advice() {
    let guard = Guard::shm("locked");
    let limited = child(|| {
        let limit = libc::rlimit { rlim_cur: 65536, rlim_max: 65536 };
        // SAFETY: lowers a limit of this child and gives up its privileges, which go past it.
        unsafe {
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit);
            libc::setresuid(65534, 65534, 65534);
        }
        let residence = Residence { locked: true, prefaulted: false };
        let tried = Mapping::create(
            &guard.0,
            &CreateOptions { residence, ..CreateOptions::new(64 * MIB, MIB) },
            write_head,
        );
        match tried {
            Err(CreateError::Fault(fault)) => i32::from(!fault.to_string().contains("ulimit -l")),
            _ => 2,
        }
    });
    assert_eq!(outcome(limited), 0);
    assert!(matches!(attach(&guard.0), Err(AttachError::Absent(_))));
}

#[test]
fn locked_memory_takes_no_more_than_was_taken() {
    let guard = Guard::shm("lock-holes");
    let residence = Residence { locked: true, prefaulted: false };
    // Within what any user may lock.
    match Mapping::create(
        &guard.0,
        &CreateOptions { residence, ..CreateOptions::new(4 * MIB, MIB) },
        write_head,
    ) {
        Ok(_mapping) => {
            let file = std::fs::metadata(polder_shm::directory::door_of(&guard.0)).unwrap();
            assert_eq!(file.blocks() * 512, MIB);
        }
        Err(error) => assert!(error.to_string().contains("ulimit -l"), "{error}"),
    }
}

#[test]
fn a_file_system_that_cannot_reserve_space_is_refused() {
    let Some(plain) = Mounted::new("ramfs", "mode=700") else { return };
    let Err(CreateError::Fault(fault)) =
        Mapping::create(&plain.segment("a"), &CreateOptions::new(MIB, MIB), write_head)
    else {
        panic!("ramfs reserves space by now: find another file system that does not");
    };
    assert!(fault.to_string().contains("cannot reserve space"), "{fault}");
    assert_eq!(std::fs::read_dir(&plain.0).unwrap().count(), 0);
}

#[test]
fn too_many_open_files_are_named_as_such() {
    let guard = Guard::shm("files");
    let poor = child(|| {
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: lowers a limit of this child.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        match Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head) {
            Err(CreateError::Fault(fault)) => i32::from(!fault.to_string().contains("ulimit -n")),
            _ => 2,
        }
    });
    assert_eq!(outcome(poor), 0);
}

/// The machine's pool of large pages is one for all tests here.
static POOL: Mutex<()> = Mutex::new(());
const POOL_SIZE: &str = "/proc/sys/vm/nr_hugepages";

/// Large pages set aside, until the test ends.
struct Pool {
    ours: bool,
    _one_at_a_time: std::sync::MutexGuard<'static, ()>,
}

impl Pool {
    /// Sets pages aside, if that is permitted, the machine has them, and no other program has set some aside.
    fn new(count: u32) -> Option<Pool> {
        let _one_at_a_time = POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let size = || std::fs::read_to_string(POOL_SIZE).unwrap_or_default().trim().to_owned();
        // The pages of another program are not given back.
        let ours = size() == "0" && std::fs::write(POOL_SIZE, count.to_string()).is_ok();
        let pool = Pool { ours, _one_at_a_time };
        if ours && size() == count.to_string() {
            return Some(pool);
        }
        println!("skipped: no permission to set large pages aside, or somebody has");
        None
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.ours {
            let _ = std::fs::write(POOL_SIZE, "0");
        }
    }
}

#[test]
fn large_pages_are_used_when_they_can_be_had() {
    let Some(_pool) = Pool::new(4) else { return };
    let Some(_mount) = Mounted::new("hugetlbfs", "pagesize=2M") else { return };
    let guard = Guard::shm("large");
    let options = CreateOptions { pages: PageChoice::Huge, ..CreateOptions::new(64 * MIB, MIB) };
    let mapping = Mapping::create(&guard.0, &options, write_head).unwrap();
    assert_eq!(mapping.pages().page_bytes, LARGE, "{}", mapping.pages());
    assert_eq!(mapping.pages().refusals.len(), 1, "{}", mapping.pages());
    let second = attach(&guard.0).unwrap();
    assert_eq!(second.pages().page_bytes, LARGE);
    second.grow_to(5 * MIB).unwrap();
    touch(&mapping, 5 * MIB - 1);
    let Err(Fault::Full(text)) = mapping.grow_to(32 * MIB) else { panic!("4 pages hold 16") };
    assert!(text.contains("nr_hugepages"), "{text}");
    assert_eq!(
        Mapping::create(&guard.0, &options, write_head).unwrap_err(),
        CreateError::AlreadyExists(guard.0.clone())
    );
    let file = ours();
    let is_it = |listed: &Listed| {
        listed.name == guard.0 && listed.figures.as_ref().is_some_and(|figures| figures.ceiling == 64 * MIB)
    };
    assert!(file.iter().any(is_it), "{file:?}");
}

#[test]
fn files_on_hugetlbfs_have_its_pages() {
    let Some(_pool) = Pool::new(2) else { return };
    let Some(mount) = Mounted::new("hugetlbfs", "pagesize=2M") else { return };
    let mapping =
        Mapping::create(&mount.segment("a"), &CreateOptions::new(7 * MIB, MIB), write_head).unwrap();
    assert_eq!((mapping.pages().page_bytes, mapping.bytes()), (LARGE, 8 << 20));
    assert_eq!(attach(&mount.segment("a")).unwrap().bytes(), 8 << 20);
    drop(mapping);
    std::fs::remove_file(mount.0.join("a")).unwrap();
}

#[test]
fn system_v_memory_has_large_pages_too() {
    let Some(_pool) = Pool::new(4) else { return };
    let guard = Guard::sysv("large");
    let options = CreateOptions { pages: PageChoice::Large, ..CreateOptions::new(8 * MIB, MIB) };
    let mapping = Mapping::create(&guard.0, &options, write_head).unwrap();
    assert_eq!(mapping.pages().page_bytes, LARGE, "{}", mapping.pages());
    assert_eq!(attach(&guard.0).unwrap().bytes(), 8 << 20);
}

#[test]
fn ordinary_pages_serve_when_there_are_no_large_ones() {
    let _one_at_a_time = POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for guard in [Guard::shm("fallback"), Guard::sysv("fallback"), Guard::file("fallback")] {
        let options = CreateOptions { pages: PageChoice::Huge, ..CreateOptions::new(64 * MIB, MIB) };
        let mapping = Mapping::create(&guard.0, &options, write_head).unwrap();
        let report = mapping.pages().to_string();
        if mapping.pages().page_bytes == rustix::param::page_size() {
            assert_eq!(mapping.pages().refusals.len(), 2, "{report}");
            assert!(report.contains("no 1 GiB pages") && report.contains("no 2 MiB pages"), "{report}");
        } else {
            println!("this machine has large pages: {report}");
        }
        assert!(Path::new(&polder_shm::directory::door_of(&guard.0)).exists());
    }
}
