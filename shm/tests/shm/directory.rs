//! Segments are listed and removed.

use crate::common::*;
use polder_base::Fault;
use polder_shm::directory;
use polder_shm::mapping::{CreateOptions, Mapping, Residence};
use polder_shm::name::SegmentName;
use polder_shm::opening::AttachError;
use polder_shm::owner::{Admission, Owner};

#[test]
fn segments_are_listed_with_their_sizes() {
    for guard in [Guard::shm("list"), Guard::sysv("list")] {
        let options = CreateOptions { mode: 0o640, ..CreateOptions::new(64 * MIB, MIB) };
        let mapping = Mapping::create(&guard.0, &options, write_head).unwrap();
        for at in (4096..MIB).step_by(4096) {
            // SAFETY: taken memory behind the head.
            unsafe { mapping.base().add(at as usize).write_volatile(1) };
        }
        let listed = ours().into_iter().find(|listed| listed.name == guard.0).expect("it is listed");
        let figures = listed.figures.expect("it may be read");
        assert_eq!((figures.ceiling, listed.memory_bytes, listed.mode), (64 * MIB, MIB, 0o640));
        // SAFETY: takes nothing, cannot fail.
        assert_eq!(listed.owner, unsafe { libc::geteuid() });
    }
}

#[test]
fn other_files_in_dev_shm_are_not_listed() {
    let guard = Guard::shm("foreign");
    let SegmentName::Shm(name) = &guard.0 else { unreachable!("a shared one") };
    std::fs::write(format!("/dev/shm/{name}"), vec![1; 8192]).unwrap();
    assert!(ours().iter().all(|listed| listed.name != guard.0));
}

#[test]
fn nothing_is_removed_when_its_users_cannot_be_told() {
    let guard = Guard::shm("untold");
    let _mapping = Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head).unwrap();
    let untold = Fault::System("as the test wants".to_owned());
    assert_eq!(directory::remove(&guard.0, is_ours, |_| Err(untold.clone())), Err(untold));
    attach(&guard.0).unwrap();
}

#[test]
fn what_was_made_anew_meanwhile_is_not_removed() {
    for guard in [Guard::shm("anew"), Guard::sysv("anew"), Guard::file("anew")] {
        let make = || Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head).unwrap();
        let _first = make();
        let mut second = None;
        directory::remove(&guard.0, is_ours, |_| {
            directory::remove(&guard.0, is_ours, |_| Ok(()))?;
            second = Some(make());
            Ok(())
        })
        .unwrap();
        attach(&guard.0).unwrap();
    }
}

#[test]
fn a_segment_that_is_not_there_cannot_be_removed() {
    for guard in [Guard::shm("absent"), Guard::sysv("absent"), Guard::file("absent")] {
        let Err(Fault::System(text)) = directory::remove(&guard.0, is_ours, |_| Ok(())) else {
            panic!("removed nothing")
        };
        assert!(text.contains("there is no segment"), "{text}");
    }
}

#[test]
fn a_signpost_to_nothing_says_so_and_can_be_removed() {
    let guard = Guard::sysv("stale");
    drop(Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head).unwrap());
    let text = std::fs::read_to_string(directory::door_of(&guard.0)).unwrap();
    let id: i32 = text.trim().rsplit(' ').next().unwrap().parse().unwrap();
    // SAFETY: what ipcrm does; the command takes no buffer.
    assert_eq!(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }, 0);
    let Err(AttachError::Fault(fault)) = attach(&guard.0) else { panic!("attached to nothing") };
    assert!(fault.to_string().contains("is gone"), "{fault}");
    assert!(ours().iter().all(|listed| listed.name != guard.0));
    directory::remove(&guard.0, is_ours, |_| Ok(())).unwrap();
    assert_eq!(attach(&guard.0).unwrap_err(), AttachError::Absent(guard.0.clone()));
}

/// A user that this process is not.
const STRANGER: u32 = 65_534;

/// Only root may give files away.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root can make another user's segment");
    }
    root
}

fn attach_of(name: &SegmentName, owner: Owner) -> Result<Mapping, AttachError> {
    Mapping::attach(name, Residence::default(), Admission { owner, writable_by_all: false }, read_head)
}

fn refusal(name: &SegmentName) -> String {
    match attach(name) {
        Err(AttachError::Fault(fault)) => fault.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_strangers_segment_is_refused_until_its_user_is_named() {
    if !is_root() {
        return;
    }
    for guard in [Guard::shm("stranger"), Guard::sysv("stranger"), Guard::file("stranger")] {
        let _mapping = Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head).unwrap();
        std::os::unix::fs::chown(directory::door_of(&guard.0), Some(STRANGER), None).unwrap();
        let text = refusal(&guard.0);
        assert!(text.contains("65534") && text.contains("--segment-owner"), "{text}");
        assert!(attach_of(&guard.0, Owner::User(1)).is_err());
        attach_of(&guard.0, Owner::User(STRANGER)).unwrap();
        attach_of(&guard.0, Owner::Any).unwrap();
    }
}

/// Removes a signpost to System V memory that is not to go with it, and then that memory.
fn removal_spares(name: &SegmentName, id: i32) {
    directory::remove(name, is_ours, |found| {
        assert!(found.is_none());
        Ok(())
    })
    .unwrap();
    // SAFETY: takes no buffer.
    assert_eq!(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }, 0, "it was still there");
}

#[test]
fn system_v_memory_of_a_stranger_is_refused_behind_ones_own_signpost() {
    if !is_root() {
        return;
    }
    let guard = Guard::sysv("given-away");
    let _mapping = Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head).unwrap();
    let text = std::fs::read_to_string(directory::door_of(&guard.0)).unwrap();
    let id: i32 = text.trim().rsplit(' ').next().unwrap().parse().unwrap();
    // SAFETY: all-zero is a valid value; the first command fills it, the second one reads it.
    unsafe {
        let mut state: libc::shmid_ds = std::mem::zeroed();
        assert_eq!(libc::shmctl(id, libc::IPC_STAT, &mut state), 0);
        state.shm_perm.uid = STRANGER;
        assert_eq!(libc::shmctl(id, libc::IPC_SET, &mut state), 0);
    }
    assert!(refusal(&guard.0).contains("belongs to"));
    // It is not the signpost's user's: removing the name leaves it alone.
    removal_spares(&guard.0, id);
}

#[test]
fn what_every_user_may_write_to_is_refused() {
    for guard in [Guard::shm("open"), Guard::sysv("open"), Guard::file("open")] {
        let options = CreateOptions { mode: 0o666, ..CreateOptions::new(MIB, MIB) };
        let _mapping = Mapping::create(&guard.0, &options, write_head).unwrap();
        assert!(refusal(&guard.0).contains("0666"));
        attach_of(&guard.0, Owner::Any).unwrap();
        let admission = Admission { owner: Owner::Own, writable_by_all: true };
        Mapping::attach(&guard.0, Residence::default(), admission, read_head).unwrap();
    }
}

#[test]
fn a_signpost_leads_to_segments_in_huge_pages_only() {
    let guard = Guard::shm("lies");
    let victim = std::env::temp_dir().join(unique("victim"));
    let mut content = vec![0; 8192];
    content[..8].copy_from_slice(MAGIC);
    std::fs::write(&victim, &content).unwrap();
    let sign = || {
        std::fs::write(directory::door_of(&guard.0), format!("polder signpost\nfile {}\n", victim.display()))
            .unwrap()
    };
    sign();
    assert!(attach(&guard.0).is_err());
    assert!(ours().iter().all(|listed| listed.name != guard.0));
    directory::remove(&guard.0, is_ours, |found| {
        assert!(found.is_none());
        Ok(())
    })
    .unwrap();
    assert!(victim.exists(), "only the signpost has been removed");
    // A FIFO would keep whatever opens it waiting.
    std::fs::remove_file(&victim).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &victim, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    sign();
    assert!(attach(&guard.0).is_err());
    ours();
    directory::remove(&guard.0, is_ours, |_| Ok(())).unwrap();
    std::fs::remove_file(&victim).unwrap();
}

#[test]
fn a_signpost_removes_no_other_programs_memory() {
    let guard = Guard::sysv("foreign");
    // SAFETY: takes numbers.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 8192, libc::IPC_CREAT | 0o600) };
    std::fs::write(directory::door_of(&guard.0), format!("polder signpost\nsysv {id}\n")).unwrap();
    removal_spares(&guard.0, id);
}

#[test]
fn what_is_no_segment_is_not_removed() {
    for guard in [Guard::shm("kept"), Guard::file("kept")] {
        let path = directory::door_of(&guard.0);
        for content in [vec![], vec![1; 8192], MAGIC.to_vec()] {
            std::fs::write(&path, content).unwrap();
            let Err(Fault::System(text)) = directory::remove(&guard.0, is_ours, |_| Ok(())) else {
                panic!("removed")
            };
            assert!(text.contains("no segment of Polder") && path.exists(), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert!(directory::remove(&guard.0, is_ours, |_| Ok(())).is_err());
        assert!(attach(&guard.0).is_err());
        ours();
        std::fs::remove_file(&path).unwrap();
    }
}
