//! Threads whose schedule shuttle chooses, and which may die at any store (tests only, with the feature `schedules`).
//!
//! The code that runs is the real one: `sync.rs` calls [`step`] before each access to a word of a segment. What the system gives otherwise is
//! made here, for coroutines of one thread:
//! - **Death.** A thread that dies unwinds from a store that it does not make. While it unwinds, no destructor writes ([`is_dead`]).
//!   Then the liveness locks that it held are marked, as the kernel does.
//! - **Sleep.** A futex is a list of sleepers. With [`Sleeps::UntilWoken`] only a wake ends a sleep, so that a lost one is a deadlock.
//! - **Time.** The clock moves by a microsecond at each look, and at some looks by milliseconds, as if the thread had lost its core.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use shuttle::rand::Rng;
use shuttle::thread::Thread;

use crate::flaw::Flaw;

/// Threads of a schedule, at most.
const THREADS_MAX: usize = 8;
/// A look at the clock at which a thread has lost its core comes once in this many.
const LOST_CORE: u32 = 8;
const LOST_CORE_FOR: Duration = Duration::from_millis(3);
/// One look in this many ends a sleep that ends by itself.
const SLEEP_LOOKS: u32 = 3;

/// The bits of a liveness lock that name its owner, and the one that says that the owner has died.
const OWNER: u32 = libc::FUTEX_TID_MASK;
const DIED: u32 = libc::FUTEX_OWNER_DIED;

/// What ends a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sleeps {
    /// A wake, or the time that was asked for.
    #[default]
    ByThemselves,
    /// A wake and nothing else.
    UntilWoken,
}

/// A thread that sleeps on a word.
struct Sleeper {
    number: u64,
    at: *const AtomicU32,
    thread: Thread,
}

#[derive(Default)]
struct Life {
    /// How many stores it still makes, if it is to die.
    stores: Cell<Option<u32>>,
    dead: Cell<bool>,
    /// The liveness locks that it holds.
    liveness: RefCell<Vec<*const AtomicU32>>,
}

/// What a schedule has come to.
#[derive(Default)]
struct Run {
    is_on: Cell<bool>,
    is_over: Cell<bool>,
    is_quiet: Cell<bool>,
    flaw: Cell<Option<Flaw>>,
    sleeps: Cell<Sleeps>,
    clock: Cell<Duration>,
    steps: Cell<u64>,
    numbers: Cell<u64>,
    sleepers: RefCell<Vec<Sleeper>>,
    /// The FIFOs of seats: which have a byte in them.
    fifos: [AtomicU32; THREADS_MAX],
    lives: [Life; THREADS_MAX],
}

thread_local! {
    // Never dropped: seats are left behind it at the thread's end.
    static RUN: &'static Run = Box::leak(Box::default());
}

/// The payload of a thread that dies.
struct Death;

/// Begins a schedule: the first call of the closure that shuttle runs.
pub fn begin(sleeps: Sleeps, flaw: Option<Flaw>) {
    RUN.with(|run| {
        run.is_on.set(true);
        run.is_over.set(false);
        run.is_quiet.set(false);
        run.flaw.set(flaw);
        run.sleeps.set(sleeps);
        run.clock.set(Duration::ZERO);
        run.sleepers.borrow_mut().clear();
        run.fifos.iter().for_each(|fifo| fifo.store(0, Ordering::Relaxed));
        for life in &run.lives {
            life.stores.set(None);
            life.dead.set(false);
            life.liveness.borrow_mut().clear();
        }
    });
}

/// Steps that this thread's schedules have taken so far.
pub fn steps() -> u64 {
    RUN.with(|run| run.steps.get())
}

/// Does something in one step: a check of what the threads have left, or what no scenario is about.
pub fn quietly<R>(work: impl FnOnce() -> R) -> R {
    RUN.with(|run| run.is_quiet.set(true));
    let result = work();
    RUN.with(|run| run.is_quiet.set(false));
    result
}

fn may_switch() -> bool {
    RUN.with(|run| run.is_on.get() && !run.is_quiet.get()) && !std::thread::panicking()
}

/// A number drawn by the schedule.
pub fn draw(below: u32) -> u32 {
    shuttle::rand::thread_rng().gen_range(0..below)
}

/// The number of the running thread of this schedule.
pub(crate) fn thread() -> usize {
    usize::from(shuttle::current::me())
}

/// Runs what a thread does, which dies before its store number `stores`, if that is said. `None`: it died.
pub(crate) fn live<R>(stores: Option<u32>, work: impl FnOnce() -> R) -> Option<R> {
    let me = thread();
    RUN.with(|run| run.lives[me].stores.set(stores));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    RUN.with(|run| run.lives[me].stores.set(None));
    match outcome {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Death>() => {
            mark_liveness(me);
            None
        }
        Err(payload) => resume_unwind(payload),
    }
}

/// What the kernel does when a thread has ended.
fn mark_liveness(me: usize) {
    while let Some(lock) = RUN.with(|run| run.lives[me].liveness.borrow_mut().pop()) {
        step();
        // SAFETY: a liveness lock of a segment that the test keeps mapped until its threads have ended.
        unsafe { &*lock }.store(DIED, Ordering::Release);
    }
}

/// Whether this thread runs in a schedule.
#[inline]
pub(crate) fn is_scheduled() -> bool {
    RUN.with(|run| run.is_on.get())
}

/// Whether the code is to have this flaw.
#[inline]
pub fn has(flaw: Flaw) -> bool {
    RUN.with(|run| run.is_on.get() && run.flaw.get() == Some(flaw))
}

/// Whether the running thread must write nothing any more: it has died, or its test has failed or ended.
pub fn is_dead() -> bool {
    RUN.with(|run| {
        run.is_on.get() && (run.is_over.get() || std::thread::panicking() || run.lives[thread()].dead.get())
    })
}

/// The end of all schedules of a test; `forget` drops what they have left.
pub(crate) fn end(forget: impl FnOnce()) {
    RUN.with(|run| run.is_over.set(true));
    forget();
    RUN.with(|run| run.is_on.set(false));
}

/// Lets the schedule choose which thread goes on.
#[inline]
pub fn step() {
    if may_switch() {
        RUN.with(|run| run.steps.set(run.steps.get() + 1));
        // A switch, and not a wish to let others run.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// The same before a store, at which the thread may die.
pub(crate) fn write_step() {
    step();
    if !may_switch() {
        return;
    }
    let dies = RUN.with(|run| {
        let life = &run.lives[thread()];
        let left = life.stores.get();
        life.stores.set(left.map(|left| left.saturating_sub(1)));
        life.dead.set(left == Some(0));
        left == Some(0)
    });
    if dies {
        resume_unwind(Box::new(Death));
    }
}

/// What the clock shows: another time at each look.
pub fn now() -> Instant {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    if !is_scheduled() || std::thread::panicking() {
        return Instant::now();
    }
    let passed = if draw(LOST_CORE) == 0 { LOST_CORE_FOR } else { Duration::from_micros(1) };
    *BEGUN + RUN.with(|run| advance(run, passed))
}

fn advance(run: &Run, by: Duration) -> Duration {
    run.clock.set(run.clock.get() + by);
    run.clock.get()
}

/// Lets others run first.
pub fn yield_now() {
    if !is_scheduled() {
        std::thread::yield_now();
    } else if may_switch() {
        shuttle::thread::yield_now();
    }
}

pub(crate) fn sleep(time: Duration) {
    RUN.with(|run| advance(run, time));
    yield_now();
}

/// FUTEX_WAIT: compares and goes to sleep in one step. Whether the sleep has ended by a wake; `None`: the word is another one.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> Option<bool> {
    step();
    if word.load(Ordering::SeqCst) != expected {
        return None;
    }
    let thread = shuttle::thread::current();
    let (number, ends_itself) = RUN.with(|run| {
        let number = run.numbers.replace(run.numbers.get() + 1);
        run.sleepers.borrow_mut().push(Sleeper { number, at: word, thread });
        (number, run.sleeps.get() == Sleeps::ByThemselves && timeout.is_some())
    });
    let is_asleep = || RUN.with(|run| run.sleepers.borrow().iter().any(|sleeper| sleeper.number == number));
    while is_asleep() {
        if !ends_itself {
            shuttle::thread::park();
            continue;
        }
        yield_now();
        if draw(SLEEP_LOOKS) == 0 && is_asleep() {
            RUN.with(|run| {
                run.sleepers.borrow_mut().retain(|sleeper| sleeper.number != number);
                advance(run, timeout.unwrap_or_default());
            });
            return Some(false);
        }
    }
    Some(true)
}

/// FUTEX_WAKE: of those that sleep on the word, any.
pub(crate) fn wake(word: &AtomicU32, count: u32) -> usize {
    // A thread may die right before.
    write_step();
    let mut woken = Vec::new();
    RUN.with(|run| {
        let mut sleepers = run.sleepers.borrow_mut();
        while woken.len() < count as usize {
            let here: Vec<usize> =
                (0..sleepers.len()).filter(|at| std::ptr::eq(sleepers[*at].at, word)).collect();
            if here.is_empty() {
                break;
            }
            let drawn = if here.len() == 1 { 0 } else { draw(here.len() as u32) };
            woken.push(sleepers.swap_remove(here[drawn as usize]).thread);
        }
    });
    woken.iter().for_each(Thread::unpark);
    woken.len()
}

/// Writes a byte into the FIFO of a seat.
pub(crate) fn write_fifo(seat: u64) {
    write_step();
    let fifo = RUN.with(|run| &run.fifos[seat as usize]);
    fifo.store(1, Ordering::SeqCst);
    wake(fifo, u32::MAX);
}

/// Polls the FIFO of a seat until there is something to read, and reads it.
pub fn poll_fifo(seat: u64) {
    let fifo = RUN.with(|run| &run.fifos[seat as usize]);
    while fifo.swap(0, Ordering::SeqCst) == 0 {
        wait(fifo, 0, None);
    }
}

/// Takes a liveness lock, if no living thread has it: whether its last owner died.
pub(crate) fn take_liveness(lock: &AtomicU32) -> Option<bool> {
    write_step();
    let seen = lock.load(Ordering::SeqCst);
    if has(Flaw::TakesNoLiveness) && seen & DIED != 0 {
        return Some(true);
    }
    if seen & OWNER != 0 {
        return None;
    }
    let me = thread();
    lock.store((me as u32 + 1) | (seen & DIED), Ordering::SeqCst);
    RUN.with(|run| run.lives[me].liveness.borrow_mut().push(lock));
    Some(seen & DIED != 0)
}

/// Says that what the dead owner of a liveness lock left has been recovered.
pub(crate) fn settle_liveness(lock: &AtomicU32) {
    write_step();
    if !has(Flaw::TakesNoLiveness) {
        assert_eq!(
            lock.fetch_and(!DIED, Ordering::SeqCst),
            (thread() as u32 + 1) | DIED,
            "settled a liveness lock that was not dead"
        );
    }
}

/// Gives a liveness lock back.
pub(crate) fn release_liveness(lock: &AtomicU32) {
    write_step();
    let me = thread();
    let seen = lock.swap(0, Ordering::SeqCst);
    if !has(Flaw::TakesNoLiveness) {
        assert_eq!(
            seen,
            me as u32 + 1,
            "released a liveness lock of another thread, or one that is not settled"
        );
    }
    RUN.with(|run| run.lives[me].liveness.borrow_mut().retain(|held| !std::ptr::eq(*held, lock)));
}
