//! What the tests of this crate share: unique names, and children that are told what to do.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod schedules;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use polder_base::Fault;
use polder_shm::directory::{self, Figures};
use polder_shm::mapping::{Extent, Mapping, Residence};
use polder_shm::name::SegmentName;
use polder_shm::opening::AttachError;
use polder_shm::owner::Admission;
use polder_shm::{Seat, Segment, crash};

pub const MIB: u64 = 1 << 20;
pub const MAGIC: &[u8; 8] = b"TESTSEGM";

/// A name that is removed when the test ends, however it ends.
pub struct Guard(pub SegmentName);

impl Guard {
    pub fn shm(what: &str) -> Guard {
        Guard(format!("shm:{}", unique(what)).parse().unwrap())
    }

    pub fn sysv(what: &str) -> Guard {
        Guard(format!("sysv:{}", unique(what)).parse().unwrap())
    }

    pub fn file(what: &str) -> Guard {
        Guard(SegmentName::File(std::env::temp_dir().join(unique(what))))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if directory::remove(&self.0, is_ours, |_| Ok(())).is_err() {
            // What a test has put there in place of a segment, if it has not gone already.
            let _ = std::fs::remove_file(directory::door_of(&self.0));
        }
    }
}

pub fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("polder-test-{what}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Writes the head of a test segment: magic, ceiling, taken.
pub fn write_head(mapping: &Mapping) -> Result<(), Fault> {
    for (at, word) in [(0, u64::from_le_bytes(*MAGIC)), (8, mapping.bytes() as u64), (16, mapping.taken())] {
        // SAFETY: the first page has been taken and is ours alone until it is published.
        unsafe { mapping.base().add(at).cast::<u64>().write(word) };
    }
    Ok(())
}

/// Reads the head of a test segment.
pub fn read_head(head: &[u8; 4096]) -> Result<Extent, Fault> {
    if &head[..8] != MAGIC {
        return Err(Fault::System("no magic".to_owned()));
    }
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
    Ok(Extent { ceiling: word(8), taken: word(16) })
}

/// Whether a head is that of a test segment.
pub fn is_ours(head: &[u8; 4096]) -> bool {
    head.starts_with(MAGIC)
}

/// The test segments that are listed.
pub fn ours() -> Vec<directory::Listed> {
    let figures = |word: directory::Words<'_>| {
        let ceiling = word(8)?;
        (word(0)? == u64::from_le_bytes(*MAGIC)).then_some(Figures { ceiling, ..Figures::default() })
    };
    directory::list(figures).unwrap().segments
}

pub fn attach(name: &SegmentName) -> Result<Mapping, AttachError> {
    Mapping::attach(name, Residence::default(), Admission::default(), read_head)
}

/// Runs `body` in a forked child and gives its process id; the child leaves with what `body` returns.
pub fn child(body: impl FnOnce() -> i32) -> libc::pid_t {
    // SAFETY: the child runs plain code of this test; glibc makes its own locks usable in it.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process for a test");
    if child == 0 {
        // SAFETY: asks that a failed test take its children with it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101);
        // SAFETY: ends the child at once; the test's guards belong to its parent.
        unsafe { libc::_exit(outcome) };
    }
    child
}

/// Waits for a child and gives its exit code, or minus the signal that killed it.
pub fn outcome(child: libc::pid_t) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: waits for a child of this process.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        if waited == child {
            break;
        }
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINTR));
    }
    if libc::WIFSIGNALED(status) { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

/// Kills a child before each store of `work`; after each death `look` looks at what it has left, before anything is recovered.
pub fn kill_at_each_store(
    segment: &Arc<Segment>,
    mut prepare: impl FnMut(),
    work: impl Fn(&Seat),
    mut look: impl FnMut(u64),
) {
    for store in 1.. {
        prepare();
        let ended = outcome(child(|| {
            let seat = segment.seat().unwrap();
            crash::arm(store);
            work(&seat);
            0
        }));
        look(store);
        segment.recover_dead();
        if ended != -libc::SIGKILL {
            assert_eq!((ended, store > 20), (0, true), "the work has many stores");
            return;
        }
    }
}
