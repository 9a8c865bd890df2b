//! Processes that are stopped, let go, killed and replaced.
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// One process on stage: it works until its standard input is closed, and says what is wrong on its standard output. It is killed when this
/// is dropped, and by the kernel should this process die.
pub struct Part {
    child: Child,
    /// What failures call it.
    pub name: String,
}

impl Part {
    /// Starts a command. What it says when it panics goes to the end of the file `errors`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(name: &str, command: &mut Command, errors: &Path) -> Result<Part, String> {
        let errors = open(errors)?;
        let mut guarded = Command::new("setpriv");
        guarded.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
        guarded.envs(command.get_envs().filter_map(|(key, value)| value.map(|value| (key, value))));
        let child = guarded.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).spawn();
        Ok(Part { child: child.map_err(|error| format!("{name}: {error}"))?, name: name.into() })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it with SIGSTOP; it may go on for an instant.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // It fails only when the process is gone, which is noticed elsewhere.
        let _ = Pid::from_raw(self.child.id() as i32).map(|pid| kill_process(pid, signal));
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it has said, if it has ended by itself.
    pub fn complaint(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        let mut said = String::new();
        self.child.stdout.take().map(|mut out| out.read_to_string(&mut said));
        Some(format!("{} ended ({status}): {}", self.name, said.trim()))
    }

    /// Asks it to end, between two steps.
    pub fn ask_to_end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until it has ended; what it complained about, or that it hangs.
    pub fn ended(&mut self, patience: Duration) -> Option<String> {
        let mut left = Patience::new(patience);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if !left.rest(Duration::from_millis(5)) {
                self.kill();
                return Some(format!("{} hangs", self.name));
            }
        }
        let well = self.child.try_wait().is_ok_and(|status| status.is_some_and(|status| status.success()));
        self.complaint().filter(|_| !well)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Patience that a stopped machine does not use up: a rest counts for what was meant, not for what it took.
pub struct Patience {
    left: Duration,
}

impl Patience {
    /// So much of it.
    pub fn new(left: Duration) -> Patience {
        Patience { left }
    }

    /// Rests; false when no patience is left.
    pub fn rest(&mut self, pause: Duration) -> bool {
        std::thread::sleep(pause);
        self.left = self.left.saturating_sub(pause);
        !self.left.is_zero()
    }
}

/// Time that passes only while this process runs: a second of wall time counts for less where it was stopped or had no CPU.
pub struct Clock {
    last: Instant,
    passed: Duration,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        Clock { last: Instant::now(), passed: Duration::ZERO }
    }

    /// What has passed; to be asked often. A gap of more than a second counts as one second.
    pub fn passed(&mut self) -> Duration {
        self.passed += self.last.elapsed().min(Duration::from_secs(1));
        self.last = Instant::now();
        self.passed
    }
}

/// A file to write behind what is there.
fn open(path: &Path) -> Result<File, String> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|error| format!("{}: {error}", path.display()))
}
