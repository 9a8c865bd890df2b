//! Crash points: every store to shared memory passes here, so that a test can kill the process at the n-th.
//!
//! In debug builds, or with the feature `crash-points`, a process that has called `arm(n)` is killed by SIGKILL before
//! its n-th store is made. In other builds this is nothing.

#[cfg(any(feature = "crash-points", debug_assertions))]
mod armed {
    use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

    static LEFT: AtomicU64 = AtomicU64::new(0);
    static SIGNAL: AtomicI32 = AtomicI32::new(libc::SIGKILL);
    static PASSED: AtomicU64 = AtomicU64::new(0);

    /// The `n`-th store from now is never made; 0 disarms.
    pub fn arm(n: u64) {
        LEFT.store(n, Ordering::Relaxed);
    }

    /// Like [`arm`], but the process only stops there, until it is let go on: [`Child::go_on`](super::Child::go_on).
    pub fn arm_stop(n: u64) {
        SIGNAL.store(libc::SIGSTOP, Ordering::Relaxed);
        arm(n);
    }

    /// Stores made since the process began.
    pub fn passed() -> u64 {
        PASSED.load(Ordering::Relaxed)
    }

    pub(crate) fn point() {
        PASSED.fetch_add(1, Ordering::Relaxed);
        if LEFT.load(Ordering::Relaxed) != 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
            let signal = SIGNAL.load(Ordering::Relaxed);
            // SAFETY: kill and getpid have no preconditions; SIGKILL ends this process here, SIGSTOP stops its one thread.
            unsafe { libc::kill(libc::getpid(), signal) };
            if signal == libc::SIGKILL {
                loop {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

#[cfg(any(feature = "crash-points", debug_assertions))]
mod children {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, Instant};

    /// How long a fork waits for other threads to end.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// A forked process that is going to die.
    pub struct Child(libc::pid_t);

    /// How a child ended.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum End {
        /// By SIGKILL.
        Killed,
        /// Not yet: by SIGSTOP.
        Stopped,
        /// Its work was done.
        Done,
        /// It panicked, or something else that no test wants.
        Failed,
    }

    impl Child {
        /// Runs `work` in a forked process, which shares every mapping but no seat.
        ///
        /// # Panics
        /// In a process of several threads, whose locks a child could find taken for ever.
        pub fn of(work: impl FnOnce()) -> Child {
            let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
            // Those that make memory ready ahead of growth end by themselves.
            let end = Instant::now() + PATIENCE;
            while threads() > 1 && Instant::now() < end {
                std::thread::sleep(Duration::from_micros(200));
            }
            assert_eq!(threads(), 1, "only a process of one thread forks");
            // SAFETY: this process has one thread.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "no process to be had");
            if child == 0 {
                let outcome = catch_unwind(AssertUnwindSafe(work));
                // SAFETY: leaves at once, without the destructors that its parent is going to run.
                unsafe { libc::_exit(if outcome.is_ok() { 0 } else { 1 }) };
            }
            Child(child)
        }

        /// Kills it, if it has not ended yet.
        pub fn kill(&self) {
            // SAFETY: a child of this process that has not been waited for, so the kernel gives its number to no other process.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
        }

        /// Waits until it has stopped, or has ended: returns its end then. It is waited for once.
        pub fn stopped(&self) -> Option<End> {
            let end = self.look(libc::WUNTRACED);
            end.filter(|end| *end != End::Stopped)
        }

        /// Lets it go on.
        pub fn go_on(&self) {
            // SAFETY: as in `kill`.
            unsafe { libc::kill(self.0, libc::SIGCONT) };
        }

        /// How it ended, if it has.
        pub fn ended(&self) -> Option<End> {
            self.look(libc::WNOHANG)
        }

        /// Waits for its end.
        pub fn wait(self) -> End {
            self.look(0).unwrap_or(End::Failed)
        }

        fn look(&self, how: i32) -> Option<End> {
            let mut status = 0;
            // SAFETY: waits for a child of ours.
            if unsafe { libc::waitpid(self.0, &mut status, how) } != self.0 {
                return None;
            }
            Some(match () {
                () if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 => End::Done,
                () if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL => End::Killed,
                () if libc::WIFSTOPPED(status) => End::Stopped,
                () => End::Failed,
            })
        }
    }
}

mod delays {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;
    use std::time::Duration;

    /// What the kernel counts stolen time in: USER_HZ, 100 a second on every Linux.
    const TICK: Duration = Duration::from_millis(10);

    /// The time that a thread was kept from running by a busy machine. Tests subtract it from what an operation took.
    pub struct Delays {
        schedstat: File,
        stat: File,
    }

    impl Delays {
        /// Counts the delays of the calling thread.
        ///
        /// # Errors
        /// Where `/proc` cannot be read.
        pub fn open() -> io::Result<Delays> {
            Ok(Delays {
                schedstat: File::open("/proc/thread-self/schedstat")?,
                stat: File::open("/proc/stat")?,
            })
        }

        /// Time runnable without running, and the time that the host took from the CPUs of a virtual machine (the kernel counts
        /// that as time in which the thread ran). The host's part is of all CPUs together and in steps of 10 ms.
        pub fn waited(&self) -> Duration {
            // The second number of schedstat is in nanoseconds; the ninth word of the first line of stat is "steal".
            let runnable = word(&self.schedstat, 1).map_or(Duration::ZERO, Duration::from_nanos);
            let stolen =
                word(&self.stat, 8).map_or(Duration::ZERO, |ticks| TICK * u32::try_from(ticks).unwrap_or(0));
            runnable + stolen
        }
    }

    /// A word of a file's first line, as a number.
    fn word(file: &File, number: usize) -> Option<u64> {
        let mut text = [0; 256];
        let length = file.read_at(&mut text, 0).ok()?;
        String::from_utf8_lossy(&text[..length]).lines().next()?.split_whitespace().nth(number)?.parse().ok()
    }
}

pub use delays::Delays;

#[cfg(any(feature = "crash-points", debug_assertions))]
pub(crate) use armed::point;
#[cfg(any(feature = "crash-points", debug_assertions))]
pub use armed::{arm, arm_stop, passed};
#[cfg(any(feature = "crash-points", debug_assertions))]
pub use children::{Child, End};

#[cfg(not(any(feature = "crash-points", debug_assertions)))]
#[inline(always)]
pub(crate) fn point() {}
