//! The words between commands and whatever runs scripts: neither knows the other, both know these.
//!
//! ```text
//!   commands --> Scripts: "run this program with these keys and arguments"      (implemented by the crate `script`)
//!   script   --> World:   "call this by name, the reply goes there"             (implemented by commands)
//! ```
//!
//! A thread runs one script at a time. What is compiled is kept by thread, since an interpreter belongs to one thread; what is known
//! of programs and libraries is shared by the threads of a process and lives with commands.
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::reply::Reply;

/// What a script or function may do, as its author has declared.
pub type Flags = u8;

/// It reads only, and so may run where writing is not allowed.
pub const NO_WRITES: Flags = 1;
/// It may be run when memory is short.
pub const ALLOW_OOM: Flags = 2;
pub const ALLOW_STALE: Flags = 4;
pub const NO_CLUSTER: Flags = 8;
pub const ALLOW_CROSS_SLOT_KEYS: Flags = 16;

/// Every flag with the name that scripts and FUNCTION LIST give it.
pub const FLAG_NAMES: [(Flags, &str); 5] = [
    (NO_WRITES, "no-writes"),
    (ALLOW_OOM, "allow-oom"),
    (ALLOW_STALE, "allow-stale"),
    (NO_CLUSTER, "no-cluster"),
    (ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
];

/// A number that is unique in this process: by it a thread remembers which programs it has compiled.
fn fresh_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A script of EVAL or SCRIPT LOAD.
#[derive(Debug)]
pub struct Program {
    pub number: u64,
    /// Forty hexadecimal digits.
    pub sha: String,
    pub body: Box<[u8]>,
    /// How much of the body is a `#!lua` line, its end not included.
    pub shebang: usize,
    /// What that line declares; `None` without one.
    pub flags: Option<Flags>,
    /// Taken out of the process's cache: threads forget it, too.
    pub dropped: AtomicBool,
    /// When it was last used, by the cache's clock.
    pub used: AtomicU64,
    habit: AtomicU8,
}

/// What the runs of a program have done so far: by this the next one begins with locks or without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Habit {
    /// It has not run yet.
    Unknown,
    /// Each run has only read, and not for long.
    Reads,
    /// A run has written, or has taken its time.
    Writes,
}

impl Program {
    /// A program that has not been compiled yet.
    pub fn new(sha: String, body: &[u8], shebang: usize, flags: Option<Flags>) -> Program {
        let (number, body) = (fresh_number(), body.into());
        let (dropped, used, habit) =
            (AtomicBool::new(false), AtomicU64::new(0), AtomicU8::new(Habit::Unknown as u8));
        Program { number, sha, body, shebang, flags, dropped, used, habit }
    }

    /// What its runs have done so far.
    pub fn habit(&self) -> Habit {
        match self.habit.load(Ordering::Relaxed) {
            1 => Habit::Reads,
            2 => Habit::Writes,
            _ => Habit::Unknown,
        }
    }

    /// Notes what a run has done. A program that has written once counts as a writer.
    pub fn note_run(&self, only_read: bool) {
        let (before, after) = (self.habit(), if only_read { Habit::Reads } else { Habit::Writes });
        if before != after && before != Habit::Writes {
            self.habit.store(after as u8, Ordering::Relaxed);
        }
    }
}

/// A function that a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub description: Option<Vec<u8>>,
    pub flags: Flags,
}

/// A library of functions.
#[derive(Debug)]
pub struct Library {
    pub number: u64,
    pub name: String,
    /// All of it, the `#!lua` line included.
    pub code: Box<[u8]>,
    pub shebang: usize,
    pub functions: Vec<Function>,
}

impl Library {
    /// A library whose functions are not known yet.
    pub fn new(name: String, code: &[u8], shebang: usize) -> Library {
        Library { number: fresh_number(), name, code: code.into(), shebang, functions: Vec::new() }
    }
}

/// What one run gets.
#[derive(Clone, Copy)]
pub struct Input<'i> {
    pub keys: &'i [&'i [u8]],
    pub args: &'i [&'i [u8]],
    /// Where random numbers begin: a script that is run again draws the same ones.
    pub seed: u64,
}

/// How a command that a script has called came out.
pub enum Called {
    /// The reply has been written.
    Answered,
    /// The command has failed: the whole error text, code first; it has been counted.
    Refused(Cow<'static, str>),
    /// The run must end at once, whatever the script catches.
    Unwind,
}

/// What a script can do beyond computing.
pub trait World {
    /// Runs a command.
    fn call(&mut self, args: &[&[u8]], reply: &mut dyn Reply) -> Called;
    /// Whether the user may run this command; `None` if there is no such command.
    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool>;
    /// Called now and then while a run lasts. Returns the error text with which the run must end; `None` if it may go on.
    fn tick(&mut self) -> Option<Cow<'static, str>>;
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The reply has been written.
    Answered,
    /// With an error: the whole text, code first. `counted`: a called command has counted it already.
    Failed { text: String, counted: bool },
    /// The world had asked for it.
    Unwound,
}

/// How a library's code is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// It is new, and may be refused: it has as much time as Redis gives it.
    Unknown,
    /// It has been accepted before, and takes its time where the machine is slow.
    Accepted,
}

/// What runs scripts, on the calling thread.
pub trait Scripts: Send + Sync {
    /// Compiles a program, if this thread has not yet.
    ///
    /// # Errors
    /// The compiler's message.
    fn compile(&self, program: &Arc<Program>) -> Result<(), String>;
    /// Runs a program.
    fn run(
        &self,
        program: &Arc<Program>,
        input: &Input<'_>,
        world: &mut dyn World,
        reply: &mut dyn Reply,
    ) -> Ended;
    /// Loads a library into this thread; returns the functions that it registers.
    ///
    /// # Errors
    /// The whole error text.
    fn load(&self, library: &Library, trust: Trust) -> Result<Vec<Function>, String>;
    /// Runs a function of a library, which this thread loads if it has not yet.
    fn call(
        &self,
        library: &Arc<Library>,
        function: &str,
        input: &Input<'_>,
        world: &mut dyn World,
        reply: &mut dyn Reply,
    ) -> Ended;
    /// Bytes that the interpreters of all threads take.
    fn memory(&self) -> u64;
    /// The most bytes that one thread's interpreter may take; 0 for no limit.
    fn limit_memory(&self, bytes: u64);
    /// What has been set so.
    fn memory_limit(&self) -> u64;
}
