//! Many processes make, find and remove one name at once.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::*;
use polder_shm::directory;
use polder_shm::mapping::{CreateOptions, Mapping};
use polder_shm::name::SegmentName;
use polder_shm::opening::{AttachError, CreateError};

const PROCESSES: u32 = 8;
const ROUNDS: u32 = 40;

/// Where a test's processes meet: a word in a segment of its own.
struct Meeting {
    mapping: Mapping,
    _guard: Guard,
}

impl Meeting {
    fn new(what: &str) -> Meeting {
        let guard = Guard::shm(what);
        let mapping = Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head).unwrap();
        Meeting { mapping, _guard: guard }
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: in the page behind the head, which has been taken.
        unsafe { AtomicU32::from_ptr(self.mapping.base().add(4096 + index * 4).cast()) }
    }

    /// Waits until all have come `round` times.
    fn wait_for_all(&self, round: u32) {
        self.word(0).fetch_add(1, Ordering::Relaxed);
        while self.word(0).load(Ordering::Relaxed) < round * PROCESSES {
            std::thread::yield_now();
        }
    }
}

fn create_or_attach(name: &SegmentName) -> (Mapping, bool) {
    loop {
        match Mapping::create(name, &CreateOptions::new(8 * MIB, MIB), write_head) {
            Ok(mapping) => return (mapping, true),
            Err(CreateError::AlreadyExists(_)) => {}
            Err(CreateError::Fault(fault)) => panic!("create: {fault}"),
        }
        match attach(name) {
            Ok(mapping) => return (mapping, false),
            // Removed in between: make it again.
            Err(AttachError::Absent(_)) => {}
            Err(AttachError::Fault(fault)) => panic!("attach: {fault}"),
        }
    }
}

#[test]
fn of_many_creators_one_creates_and_all_meet() {
    for guard in [Guard::shm("creators"), Guard::sysv("creators"), Guard::file("creators")] {
        let meeting = Meeting::new("creators");
        let racers: Vec<_> = (0..PROCESSES)
            .map(|_| {
                child(|| {
                    for round in 0..ROUNDS {
                        meeting.wait_for_all(4 * round + 1);
                        let (mapping, created) = create_or_attach(&guard.0);
                        meeting.word(1).fetch_add(u32::from(created), Ordering::Relaxed);
                        // SAFETY: in the page behind the head, which has been taken.
                        let here = unsafe { AtomicU32::from_ptr(mapping.base().add(4096).cast()) };
                        here.fetch_add(1, Ordering::Relaxed);
                        meeting.wait_for_all(4 * round + 2);
                        assert_eq!(
                            here.load(Ordering::Relaxed),
                            PROCESSES,
                            "all are in one and the same segment"
                        );
                        assert_eq!(meeting.word(1).load(Ordering::Relaxed), round + 1, "one has made it");
                        meeting.wait_for_all(4 * round + 3);
                        if created {
                            directory::remove(&guard.0, is_ours, |_| Ok(())).unwrap();
                        }
                        meeting.wait_for_all(4 * round + 4);
                    }
                    0
                })
            })
            .collect();
        assert_eq!(
            racers.into_iter().map(outcome).collect::<Vec<_>>(),
            [0; PROCESSES as usize],
            "{}",
            guard.0
        );
    }
}

#[test]
fn makers_finders_and_removers_get_clear_answers_only() {
    for guard in [Guard::shm("melee"), Guard::sysv("melee"), Guard::file("melee")] {
        let racers: Vec<_> = (0..PROCESSES)
            .map(|racer| {
                child(|| {
                    for turn in 0..60 {
                        let (mapping, _) = create_or_attach(&guard.0);
                        // SAFETY: the head, which was whole before any process could find it.
                        assert_eq!(unsafe { mapping.base().cast::<[u8; 8]>().read() }, *MAGIC);
                        mapping.grow_to(2 * MIB).unwrap();
                        if (turn + racer) % 3 == 0 {
                            // Another process may have been faster.
                            let _ = directory::remove(&guard.0, is_ours, |_| Ok(()));
                        }
                        directory::list(|_| None).unwrap();
                    }
                    0
                })
            })
            .collect();
        assert_eq!(
            racers.into_iter().map(outcome).collect::<Vec<_>>(),
            [0; PROCESSES as usize],
            "{}",
            guard.0
        );
    }
}

#[test]
fn a_creator_killed_at_any_moment_leaves_a_whole_segment_or_none() {
    for guard in [Guard::shm("killed-creator"), Guard::file("killed-creator")] {
        for delay_us in 0..60_u64 {
            let creator = child(|| {
                create_or_attach(&guard.0);
                std::thread::sleep(std::time::Duration::from_secs(60));
                0
            });
            std::thread::sleep(std::time::Duration::from_micros(delay_us * 10));
            // SAFETY: a child of this test that has not been waited for.
            unsafe { libc::kill(creator, libc::SIGKILL) };
            outcome(creator);
            match attach(&guard.0) {
                Ok(_) => directory::remove(&guard.0, is_ours, |_| Ok(())).unwrap(),
                Err(AttachError::Absent(_)) => {}
                Err(AttachError::Fault(fault)) => panic!("half a segment: {fault}"),
            }
        }
    }
}
