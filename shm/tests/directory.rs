//! Segments are listed and removed.

mod common;

use common::*;
use polder_base::Fault;
use polder_shm::directory;
use polder_shm::mapping::{AttachError, CreateOptions, Mapping};
use polder_shm::name::SegmentName;

fn ours() -> Vec<directory::Listed> {
    directory::list(|head| head.starts_with(MAGIC)).unwrap()
}

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
        assert_eq!((listed.bytes, listed.used_bytes, listed.mode), (64 * MIB, MIB, 0o640));
        // SAFETY: takes nothing, cannot fail.
        assert_eq!(listed.owner, unsafe { libc::geteuid() });
        assert!(listed.since.is_some_and(|since| since.elapsed().is_ok_and(|age| age.as_secs() < 60)));
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
    assert_eq!(directory::remove(&guard.0, || Err(untold.clone())), Err(untold));
    attach(&guard.0).unwrap();
}

#[test]
fn what_was_made_anew_meanwhile_is_not_removed() {
    for guard in [Guard::shm("anew"), Guard::sysv("anew"), Guard::file("anew")] {
        let make = || Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head).unwrap();
        let _first = make();
        let mut second = None;
        directory::remove(&guard.0, || {
            directory::remove(&guard.0, || Ok(()))?;
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
        let Err(Fault::System(text)) = directory::remove(&guard.0, || Ok(())) else { panic!("removed nothing") };
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
    directory::remove(&guard.0, || Ok(())).unwrap();
    assert_eq!(attach(&guard.0).unwrap_err(), AttachError::Absent(guard.0.clone()));
}
