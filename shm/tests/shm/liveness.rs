//! Liveness locks: what the kernel notes for each way in which a thread can end, or only seem to end.

use std::time::{Duration, Instant};

use crate::common::*;
use polder_shm::liveness::{Life, LivenessLock, Taken};
use polder_shm::mapping::{CreateOptions, Mapping};
use polder_testbase::until;

/// Where the liveness locks of these tests lie; behind them a word by which children say how far they are.
const FIRST: usize = 4096;

struct Stage {
    mapping: Mapping,
    _guard: Guard,
}

impl Stage {
    fn new(what: &str) -> Stage {
        let guard = Guard::shm(what);
        let mapping = Mapping::create(&guard.0, &CreateOptions::new(MIB, MIB), write_head).unwrap();
        let stage = Stage { mapping, _guard: guard };
        for index in 0..8 {
            // SAFETY: no other process has this segment yet.
            unsafe { stage.liveness(index).init() };
        }
        stage
    }

    fn liveness(&self, index: usize) -> &LivenessLock {
        assert!(index < 8);
        // SAFETY: inside the taken memory, aligned; any bytes are a liveness lock.
        unsafe { &*self.mapping.base().add(FIRST + index * 64).cast() }
    }

    fn take(&self, index: usize) -> Taken {
        // SAFETY: the stage stands until the thread has released or ended.
        unsafe { self.liveness(index).try_take() }
    }

    fn release(&self, index: usize) {
        // SAFETY: the tests release what they took.
        unsafe { self.liveness(index).release() }
    }

    fn settle(&self, index: usize) {
        // SAFETY: the tests settle what they took dead.
        unsafe { self.liveness(index).settle() }
    }

    /// A child that takes liveness lock 0 and then does `then`.
    fn owner(&self, then: impl FnOnce() -> i32) -> libc::pid_t {
        let owner = child(|| if self.take(0) == Taken::Fresh { then() } else { 99 });
        until("the child takes its liveness lock", || self.liveness(0).life() != Life::Free);
        owner
    }
}

fn sleep_for_ever() -> i32 {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

fn signal(process: libc::pid_t, number: libc::c_int) {
    // SAFETY: a child of this test that has not been waited for.
    assert_eq!(unsafe { libc::kill(process, number) }, 0);
}

fn thread_id() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::gettid() as u32 }
}

#[test]
fn a_liveness_lock_is_taken_once_and_given_back() {
    let stage = Stage::new("once");
    assert_eq!(stage.liveness(0).life(), Life::Free);
    assert!(stage.liveness(0).is_dead_or_free());
    assert_eq!(stage.take(0), Taken::Fresh);
    assert_eq!(
        stage.liveness(0).life(),
        Life::Held(thread_id()),
        "glibc keeps the owner where we look for it"
    );
    assert!(!stage.liveness(0).is_dead_or_free());
    assert_eq!(stage.take(0), Taken::Busy, "not even its owner takes it twice");
    std::thread::scope(|scope| assert_eq!(scope.spawn(|| stage.take(0)).join().unwrap(), Taken::Busy));
    stage.release(0);
    assert_eq!(stage.liveness(0).life(), Life::Free);
}

#[test]
fn several_liveness_locks_are_given_back_in_any_order() {
    let (one, other) = (Stage::new("several-a"), Stage::new("several-b"));
    for index in 0..8 {
        assert_eq!((one.take(index), other.take(index)), (Taken::Fresh, Taken::Fresh));
    }
    for index in [3, 0, 7, 1, 2, 6, 5, 4] {
        one.release(index);
    }
    drop(one);
    (0..8).for_each(|index| other.release(index));
}

#[test]
fn a_killed_process_is_seen_dead_at_once() {
    let stage = Stage::new("killed");
    let mut delays = Vec::new();
    for _ in 0..20 {
        let owner = stage.owner(sleep_for_ever);
        let begun = Instant::now();
        signal(owner, libc::SIGKILL);
        until("the kernel marks the dead", || stage.liveness(0).is_dead_or_free());
        delays.push(begun.elapsed());
        assert_eq!(stage.liveness(0).life(), Life::Dead);
        assert_eq!(stage.take(0), Taken::Dead);
        stage.settle(0);
        stage.release(0);
        assert_eq!(stage.liveness(0).life(), Life::Free, "settled is as good as new");
        assert_eq!(outcome(owner), -libc::SIGKILL);
    }
    delays.sort();
    println!("seen dead after {:?}, at most {:?}", delays[10], delays[19]);
    // The middle one: a busy machine may let a dying process wait for its turn to die.
    assert!(delays[10] < Duration::from_millis(50), "{delays:?}");
}

#[test]
fn one_of_many_threads_recovers_a_dead_seat() {
    let stage = Stage::new("many");
    let owner = stage.owner(|| 0);
    assert_eq!(outcome(owner), 0, "an exit without release is a death, too");
    let barrier = std::sync::Barrier::new(4);
    let taken = std::thread::scope(|scope| {
        let finders = [(); 4].map(|()| {
            scope.spawn(|| {
                barrier.wait();
                let taken = stage.take(0);
                barrier.wait();
                taken
            })
        });
        finders.map(|finder| finder.join().unwrap())
    });
    assert_eq!(taken.iter().filter(|&&taken| taken == Taken::Dead).count(), 1, "{taken:?}");
    assert_eq!(taken.iter().filter(|&&taken| taken == Taken::Busy).count(), 3, "{taken:?}");
}

#[test]
fn a_recoverer_that_dies_leaves_the_work_to_the_next() {
    let stage = Stage::new("recoverer");
    assert_eq!(outcome(stage.owner(|| 0)), 0);
    for _ in 0..3 {
        assert_eq!(outcome(child(|| if stage.take(0) == Taken::Dead { 7 } else { 8 })), 7);
        assert_eq!(stage.liveness(0).life(), Life::Dead);
    }
    assert_eq!(stage.take(0), Taken::Dead);
    stage.settle(0);
    stage.release(0);
}

#[test]
fn a_thread_that_ends_is_dead_though_its_process_lives() {
    let stage = Stage::new("thread");
    std::thread::scope(|scope| assert_eq!(scope.spawn(|| stage.take(0)).join().unwrap(), Taken::Fresh));
    until("the thread is gone", || stage.liveness(0).is_dead_or_free());
    assert_eq!(stage.take(0), Taken::Dead);
    stage.settle(0);
    stage.release(0);
}

#[test]
fn a_stopped_process_is_alive() {
    let stage = Stage::new("stopped");
    let owner = stage.owner(sleep_for_ever);
    signal(owner, libc::SIGSTOP);
    let mut status = 0;
    // SAFETY: waits until the child has stopped.
    unsafe { libc::waitpid(owner, &mut status, libc::WUNTRACED) };
    assert!(libc::WIFSTOPPED(status));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(stage.take(0), Taken::Busy);
    signal(owner, libc::SIGKILL);
    assert_eq!(outcome(owner), -libc::SIGKILL);
    assert_eq!(stage.liveness(0).life(), Life::Dead);
}

#[test]
fn a_thread_that_executes_another_program_is_dead() {
    let stage = Stage::new("exec");
    let owner = stage.owner(|| {
        let argument = [c"sleep".as_ptr(), c"60".as_ptr(), std::ptr::null()];
        // SAFETY: the argument list ends with a null pointer; this returns only when it fails.
        unsafe { libc::execv(c"/bin/sleep".as_ptr(), argument.as_ptr()) };
        98
    });
    until("exec ends the old program", || stage.liveness(0).life() == Life::Dead);
    // SAFETY: asks only; the child has not ended.
    let ended = unsafe { libc::waitpid(owner, std::ptr::null_mut(), libc::WNOHANG) };
    assert_eq!(ended, 0, "the process itself goes on");
    signal(owner, libc::SIGKILL);
    assert_eq!(outcome(owner), -libc::SIGKILL);
}

#[test]
fn a_child_does_not_own_what_its_parent_does() {
    let stage = Stage::new("child");
    assert_eq!(stage.take(0), Taken::Fresh);
    assert_eq!(outcome(child(|| if stage.take(0) == Taken::Busy { 1 } else { 2 })), 1);
    assert_eq!(stage.liveness(0).life(), Life::Held(thread_id()), "a child's end is not its parent's");
    stage.release(0);
}

#[test]
fn a_parent_is_dead_though_its_child_keeps_the_memory() {
    let stage = Stage::new("orphan");
    let (reader, writer) = std::io::pipe().unwrap();
    let owner = stage.owner(|| {
        child(|| {
            // SAFETY: lets this one outlive its parent.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
            std::io::Write::write_all(&mut &writer, &std::process::id().to_ne_bytes()).unwrap();
            sleep_for_ever()
        });
        sleep_for_ever()
    });
    let mut orphan = [0; 4];
    std::io::Read::read_exact(&mut &reader, &mut orphan).unwrap();
    signal(owner, libc::SIGKILL);
    assert_eq!(outcome(owner), -libc::SIGKILL);
    assert_eq!(stage.liveness(0).life(), Life::Dead);
    // SAFETY: the grandchild that this test made, which sleeps until this signal.
    assert_eq!(unsafe { libc::kill(i32::from_ne_bytes(orphan), libc::SIGKILL) }, 0);
}

/// Runs `body` as process 1 of a new PID namespace; none where that is not permitted.
fn in_new_namespace(body: impl FnOnce() -> i32) -> Option<libc::pid_t> {
    let (reader, writer) = std::io::pipe().unwrap();
    let outer = child(|| {
        // SAFETY: changes only the namespace of this child's own children.
        let permitted = unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0;
        std::io::Write::write_all(&mut &writer, &[u8::from(permitted)]).unwrap();
        if !permitted {
            return 0;
        }
        let inner = child(body);
        outcome(inner) & 0xff
    });
    let mut permitted = [0];
    std::io::Read::read_exact(&mut &reader, &mut permitted).unwrap();
    if permitted[0] == 0 {
        outcome(outer);
        println!("skipped: no permission to make a PID namespace");
        return None;
    }
    Some(outer)
}

#[test]
fn death_is_seen_across_pid_namespaces() {
    let stage = Stage::new("namespace");
    let take_as_first = || if stage.take(0) == Taken::Fresh && thread_id() == 1 { 5 } else { 6 };
    let Some(outer) = in_new_namespace(take_as_first) else { return };
    assert_eq!(outcome(outer), 5);
    assert_eq!(stage.liveness(0).life(), Life::Dead);
}

#[test]
fn two_threads_of_one_number_in_two_namespaces_are_not_mixed_up() {
    let stage = Stage::new("namesake");
    let (reader, writer) = std::io::pipe().unwrap();
    let Some(holder) = in_new_namespace(|| {
        let taken = stage.take(0);
        let _ = std::io::Read::read(&mut &reader, &mut [0]);
        i32::from(taken != Taken::Fresh)
    }) else {
        return;
    };
    until("the holder takes its liveness lock", || stage.liveness(0).life() == Life::Held(1));
    let namesake = in_new_namespace(|| match (thread_id(), stage.take(0)) {
        (1, Taken::Busy) => 3,
        _ => 4,
    });
    assert_eq!(outcome(namesake.unwrap()), 3);
    assert_eq!(stage.liveness(0).life(), Life::Held(1), "the namesake's end is not the holder's");
    std::io::Write::write_all(&mut &writer, &[1]).unwrap();
    assert_eq!(outcome(holder), 0);
    assert_eq!(stage.liveness(0).life(), Life::Dead);
}

#[test]
fn a_liveness_lock_released_unsettled_is_out_of_use_until_it_is_made_anew() {
    let stage = Stage::new("unsettled");
    assert_eq!(outcome(stage.owner(|| 0)), 0);
    assert_eq!(stage.take(0), Taken::Dead);
    stage.release(0);
    assert_eq!(stage.take(0), Taken::Damaged);
    // SAFETY: no thread holds it, and no other process uses this segment.
    unsafe { stage.liveness(0).init() };
    assert_eq!(stage.take(0), Taken::Fresh);
    stage.release(0);
}

#[test]
fn damaged_bytes_neither_crash_nor_hang() {
    let stage = Stage::new("damaged");
    // In a child, so that a crash would be seen, and under an alarm against a hang.
    let tried = child(|| {
        // SAFETY: the default action of this signal ends the child.
        unsafe { libc::alarm(10) };
        let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut counts = [0; 4];
        for round in 0..20_000 {
            let place = stage.mapping.base().wrapping_add(FIRST);
            for index in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // SAFETY: one of our liveness locks, which no thread holds.
                unsafe { place.cast::<u64>().add(index).write(seed ^ seed >> 29) };
            }
            // Most rounds with the right kind, or else nothing behind it is ever tried; some with a word that is free.
            // SAFETY: as above.
            unsafe {
                if round % 8 != 0 {
                    place.add(16).cast::<u32>().write(polder_shm::liveness::KIND);
                }
                if round % 3 == 0 {
                    place.cast::<u32>().write(if round % 2 == 0 { 0 } else { libc::FUTEX_OWNER_DIED });
                }
            }
            let taken = stage.take(0);
            counts[taken as usize] += 1;
            if taken == Taken::Dead {
                stage.settle(0);
            }
            if matches!(taken, Taken::Dead | Taken::Fresh) {
                stage.release(0);
            }
        }
        i32::from(counts.contains(&0))
    });
    assert_eq!(outcome(tried), 0, "each answer was met, none was a crash");
}
