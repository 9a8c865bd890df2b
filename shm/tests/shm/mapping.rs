//! Segments are made, found, grown and removed; whole or not at all.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::*;
use polder_base::Fault;
use polder_shm::directory;
use polder_shm::mapping::{CreateOptions, Extent, Mapping, Residence};
use polder_shm::name::SegmentName;
use polder_shm::opening::{AttachError, CreateError};
use polder_shm::owner::Admission;

fn create(name: &SegmentName) -> Result<Mapping, CreateError> {
    Mapping::create(name, &CreateOptions::new(64 * MIB, MIB), write_head)
}

fn word(mapping: &Mapping, at: u64) -> &AtomicU64 {
    assert!(at < mapping.bytes() as u64);
    // SAFETY: inside the mapping; the tests touch only what has been taken.
    unsafe { AtomicU64::from_ptr(mapping.base().add(at as usize).cast()) }
}

fn each_kind(what: &str) -> [Guard; 3] {
    [Guard::shm(what), Guard::sysv(what), Guard::file(what)]
}

#[test]
fn what_one_mapping_writes_another_reads() {
    for guard in each_kind("share") {
        let first = create(&guard.0).unwrap();
        let second = attach(&guard.0).unwrap();
        assert_ne!(first.base(), second.base());
        assert_eq!((first.bytes(), second.bytes()), (64 << 20, 64 << 20), "{}", guard.0);
        word(&first, 8000).store(77, Ordering::Relaxed);
        assert_eq!(word(&second, 8000).load(Ordering::Relaxed), 77);
        first.sync().unwrap();
    }
}

#[test]
fn growth_is_seen_by_earlier_mappings() {
    for guard in each_kind("grow") {
        let first = create(&guard.0).unwrap();
        let second = attach(&guard.0).unwrap();
        second.grow_to(40 * MIB + 5).unwrap();
        word(&second, 40 * MIB).store(5, Ordering::Relaxed);
        assert_eq!(word(&first, 40 * MIB).load(Ordering::Relaxed), 5);
        // Again, from the one that does not know of it, and with nothing to do.
        first.grow_to(30 * MIB).unwrap();
        first.grow_to(40 * MIB).unwrap();
        assert_eq!(word(&first, 40 * MIB).load(Ordering::Relaxed), 5);
    }
}

#[test]
fn nothing_grows_past_its_ceiling() {
    for guard in each_kind("ceiling") {
        let mapping = create(&guard.0).unwrap();
        mapping.grow_to(64 * MIB).unwrap();
        let Err(Fault::Full(text)) = mapping.grow_to(64 * MIB + 1) else { panic!("grown past the ceiling") };
        assert!(text.contains("ceiling of 64 MiB"), "{text}");
    }
}

#[test]
fn a_name_that_is_taken_is_refused() {
    for guard in each_kind("taken") {
        let _first = create(&guard.0).unwrap();
        assert_eq!(create(&guard.0).unwrap_err(), CreateError::AlreadyExists(guard.0.clone()));
    }
}

#[test]
fn a_name_taken_while_we_fill_is_refused_too() {
    for guard in each_kind("overtaken") {
        let late = Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), |mapping| {
            create(&guard.0).unwrap();
            write_head(mapping)
        });
        assert_eq!(late.unwrap_err(), CreateError::AlreadyExists(guard.0.clone()));
        assert_eq!(attach(&guard.0).unwrap().bytes(), 64 << 20, "the first one stands");
    }
}

#[test]
fn there_is_no_segment_before_it_is_filled_and_none_when_that_fails() {
    for guard in each_kind("half") {
        let broken = Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), |_| {
            assert_eq!(attach(&guard.0).unwrap_err(), AttachError::Absent(guard.0.clone()));
            Err(Fault::System("as the test wants".to_owned()))
        });
        assert_eq!(broken.unwrap_err(), CreateError::Fault(Fault::System("as the test wants".to_owned())));
        assert_eq!(attach(&guard.0).unwrap_err(), AttachError::Absent(guard.0.clone()));
    }
}

#[test]
fn the_memory_taken_at_the_start_is_zero() {
    for guard in each_kind("zero") {
        Mapping::create(&guard.0, &CreateOptions::new(4 * MIB, MIB), |mapping| {
            assert!((0..MIB).step_by(8).all(|at| word(mapping, at).load(Ordering::Relaxed) == 0));
            write_head(mapping)
        })
        .unwrap();
    }
}

#[test]
fn a_removed_segment_stays_usable_for_attached_processes() {
    for guard in each_kind("remove") {
        let mapping = create(&guard.0).unwrap();
        word(&mapping, 4096).store(1, Ordering::Relaxed);
        directory::remove(&guard.0, is_ours, |_| Ok(())).unwrap();
        assert_eq!(attach(&guard.0).unwrap_err(), AttachError::Absent(guard.0.clone()));
        mapping.grow_to(2 * MIB).unwrap();
        assert_eq!(word(&mapping, 4096).load(Ordering::Relaxed), 1);
        let next = create(&guard.0).unwrap();
        assert_eq!(word(&next, 4096).load(Ordering::Relaxed), 0, "a new one of the same name is another one");
    }
}

#[test]
fn files_that_are_no_segments_are_refused() {
    let page = 4096;
    let cases: [(&str, Vec<u8>, u64); 6] = [
        ("empty", vec![], 0),
        ("short", b"hello".to_vec(), 5),
        ("other", vec![7; page], 2 * MIB),
        ("holes", vec![], 64 * MIB),
        ("cut", head_of(64 * MIB, MIB), 32 * MIB),
        ("more taken than there is", head_of(MIB, 2 * MIB), MIB),
    ];
    for (what, bytes, length) in cases {
        for guard in [Guard::shm("garbage"), Guard::file("garbage")] {
            let path = match &guard.0 {
                SegmentName::Shm(name) => std::path::Path::new("/dev/shm").join(name),
                SegmentName::File(path) => path.clone(),
                SegmentName::Sysv(_) => unreachable!("not made by this test"),
            };
            std::fs::write(&path, &bytes).unwrap();
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
            assert!(matches!(attach(&guard.0), Err(AttachError::Fault(_))), "{what}");
        }
    }
}

fn head_of(ceiling: u64, taken: u64) -> Vec<u8> {
    let mut head = [MAGIC.as_slice(), &ceiling.to_le_bytes(), &taken.to_le_bytes()].concat();
    head.resize(4096, 0);
    head
}

#[test]
fn holes_in_what_was_taken_are_filled_before_they_are_touched() {
    let guard = Guard::file("sparse");
    let SegmentName::File(path) = &guard.0 else { unreachable!("a file") };
    std::fs::write(path, head_of(64 * MIB, 8 * MIB)).unwrap();
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(64 * MIB).unwrap();
    let mapping = attach(&guard.0).unwrap();
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap());
    assert!(blocks * 512 >= 8 * MIB, "{blocks} blocks");
    assert_eq!(mapping.taken(), 8 * MIB);
}

#[test]
fn a_segment_belongs_to_its_owner_alone_unless_told_otherwise() {
    use std::os::unix::fs::MetadataExt;
    let guard = Guard::file("mode");
    let SegmentName::File(path) = &guard.0 else { unreachable!("a file") };
    create(&guard.0).unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    std::fs::remove_file(path).unwrap();
    // Bits that any umask would take away, and our own group, which needs no privilege.
    // SAFETY: takes nothing, cannot fail.
    let group = unsafe { libc::getegid() };
    let options = CreateOptions { mode: 0o666, group: Some(group), ..CreateOptions::new(MIB, MIB) };
    Mapping::create(&guard.0, &options, write_head).unwrap();
    let made = std::fs::metadata(path).unwrap();
    assert_eq!((made.mode() & 0o777, made.gid()), (0o666, group));
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    for guard in each_kind("sizes") {
        for options in
            [CreateOptions::new(0, 0), CreateOptions::new(MIB, 2 * MIB), CreateOptions::new(u64::MAX, MIB)]
        {
            assert!(
                matches!(Mapping::create(&guard.0, &options, write_head), Err(CreateError::Fault(_))),
                "{options:?}"
            );
        }
        assert_eq!(attach(&guard.0).unwrap_err(), AttachError::Absent(guard.0.clone()), "nothing was left");
    }
}

#[test]
fn a_missing_directory_is_named_as_such() {
    let name: SegmentName = "file:/nowhere/at/all/x.seg".parse().unwrap();
    let Err(CreateError::Fault(fault)) = create(&name) else {
        panic!("made in a directory that is not there")
    };
    assert!(fault.to_string().contains("its directory does not exist"), "{fault}");
    assert_eq!(attach(&name).unwrap_err(), AttachError::Absent(name));
}

#[test]
fn prefaulted_memory_is_taken_memory() {
    let guard = Guard::shm("prefault");
    let residence = Residence { prefaulted: true, locked: false };
    let options = CreateOptions { residence, ..CreateOptions::new(8 * MIB, MIB) };
    let mapping = Mapping::create(&guard.0, &options, write_head).unwrap();
    mapping.grow_to(3 * MIB).unwrap();
    assert_eq!(resident_pages(&mapping, 3 * MIB), 3 * 256);
    let second = Mapping::attach(&guard.0, residence, Admission::default(), |_| {
        Ok(Extent { ceiling: 8 * MIB, taken: 2 * MIB })
    })
    .unwrap();
    assert_eq!(resident_pages(&second, 2 * MIB), 2 * 256);
}

/// How many of the first pages are in this process's page table.
fn resident_pages(mapping: &Mapping, bytes: u64) -> usize {
    use std::os::unix::fs::FileExt;
    let table = std::fs::File::open("/proc/self/pagemap").unwrap();
    let mut entries = vec![0; (bytes / 4096 * 8) as usize];
    table.read_exact_at(&mut entries, mapping.base() as u64 / 4096 * 8).unwrap();
    entries.chunks(8).filter(|entry| entry[7] & 0x80 != 0).count()
}

#[test]
fn a_link_to_nothing_is_broken_and_not_absent() {
    // Absent would make those who create or attach in turns go round for ever, as the name is taken.
    let guard = Guard::file("dangling");
    let SegmentName::File(path) = &guard.0 else { unreachable!("a file") };
    std::os::unix::fs::symlink("/nowhere/at/all", path).unwrap();
    assert_eq!(create(&guard.0).unwrap_err(), CreateError::AlreadyExists(guard.0.clone()));
    assert!(matches!(attach(&guard.0), Err(AttachError::Fault(_))));
    std::fs::remove_file(path).unwrap();
}
