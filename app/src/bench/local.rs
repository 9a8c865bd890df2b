//! The memory measured in this process (or several), without a server.
//!
//! A worker's loop is: take the next pick, call, go on. The clock is read once per group of calls, since reading it costs
//! about 20 ns and a call may cost 50; a group's time is shared out among its calls. `--each` reads it around every call
//! instead, for true maxima, and subtracts what reading costs.
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use polder_engine::{BatchPlan, EmbeddedHost, Memory, Options, Protocol, Session};
use polder_wire::Output;
use smallvec::SmallVec;

use super::keys::{Picks, Prefix, Random, Spread};
use super::report::{Line, Measured};
use super::{Arguments, Until};
use crate::text::{self, Failed};

/// Calls between two looks at the clock.
const GROUP: u64 = 16;

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Get,
    Set,
    Incr,
    /// GET, and SET every tenth time.
    Mixed,
}

/// A command and how many words it has.
struct Call<'w> {
    words: [&'w [u8]; 3],
    count: usize,
}

impl<'w> Call<'w> {
    #[inline(always)]
    fn args(&self) -> &[&'w [u8]] {
        &self.words[..self.count]
    }
}

impl Op {
    /// The command for a key; `turn` counts the calls.
    #[inline(always)]
    fn call<'w>(self, key: &'w [u8], value: &'w [u8], turn: u32) -> Call<'w> {
        match self {
            Op::Mixed if turn.is_multiple_of(10) => Call { words: [b"SET", key, value], count: 3 },
            Op::Get | Op::Mixed => Call { words: [b"GET", key, b""], count: 2 },
            Op::Set => Call { words: [b"SET", key, value], count: 3 },
            Op::Incr => Call { words: [b"INCR", key, b""], count: 2 },
        }
    }

    /// Of its keys.
    fn prefix(self) -> Prefix {
        if self == Op::Incr { *b"cnt:" } else { *b"key:" }
    }
}

const OPS: [(&str, Op); 4] = [("get", Op::Get), ("set", Op::Set), ("incr", Op::Incr), ("mixed", Op::Mixed)];

/// The operation of a name.
///
/// # Errors
/// A line with the names there are.
pub fn op(name: &str) -> Result<Op, String> {
    let names: Vec<&str> = OPS.iter().map(|(name, _)| *name).collect();
    let found = OPS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, op)| *op).ok_or_else(|| {
        format!("in-process operations are {}; '{name}' needs a server (-h, -p or -s)", names.join(", "))
    })
}

/// Runs every operation on the segment.
///
/// # Errors
/// A line that says what failed.
pub fn run(arguments: &Arguments, segment: &str) -> Result<Vec<Line>, Failed> {
    let ops = arguments
        .ops()
        .into_iter()
        .map(|name| op(&name).map(|op| (name, op)))
        .collect::<Result<Vec<_>, _>>()?;
    let memory = attach(arguments, segment, true)?;
    if arguments.fill {
        fill(&memory, arguments)?;
    }
    let mut lines = Vec::new();
    for (name, op) in ops {
        let measured = if arguments.processes > 1 {
            in_processes(arguments, segment, &name)?
        } else {
            in_threads(&memory, arguments, op, 0)?
        };
        lines.push(Line { op: name, measured });
    }
    Ok(lines)
}

/// The part of a worker process: one operation, told when to start, the result on standard output.
///
/// # Errors
/// A line that says what failed.
pub fn work(arguments: &Arguments, segment: &str, worker: u32) -> Result<(), Failed> {
    let op = op(arguments.ops().first().ok_or("a worker needs an operation")?)?;
    let memory = attach(arguments, segment, false)?;
    let measured = in_threads(&memory, arguments, op, worker)?;
    println!("{}", measured.to_wire());
    Ok(())
}

fn attach(arguments: &Arguments, segment: &str, create: bool) -> Result<Memory, Failed> {
    text::attached(&Options {
        segment: segment.into(),
        create,
        owner: arguments.whose.owner,
        ..Options::default()
    })
}

/// Writes every key once.
fn fill(memory: &Memory, arguments: &Arguments) -> Result<(), String> {
    let mut worker =
        Worker::new(memory, Op::Set, Picks::in_order(Op::Set.prefix(), 0, arguments.keys), arguments);
    (0..arguments.keys).for_each(|_| worker.call(1));
    if worker.errors == 0 {
        Ok(())
    } else {
        Err(format!("{} of {} keys could not be written", worker.errors, arguments.keys))
    }
}

/// Runs `--threads` workers at once.
fn in_threads(memory: &Memory, arguments: &Arguments, op: Op, process: u32) -> Result<Measured, String> {
    let spread = Spread::new(arguments.keys, arguments.zipf);
    let threads = arguments.threads.max(1);
    let share = arguments.until().share(u64::from(threads) * u64::from(arguments.processes.max(1)));
    // The main thread is the last at the first gate: in a process of several it waits for the word of the first process.
    let (ready, start) = (Barrier::new(threads as usize + 1), Barrier::new(threads as usize + 1));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (spread, ready, start) = (&spread, &ready, &start);
                scope.spawn(move || {
                    let mut random =
                        Random::new(arguments.seed ^ u64::from(process) << 32 ^ u64::from(thread) << 16);
                    let picks = Picks::new(op.prefix(), spread, share.calls(), &mut random);
                    let mut worker = Worker::new(memory, op, picks, arguments);
                    // The first call takes the thread's seat, which is not what is measured.
                    worker.call(1);
                    (worker.errors, worker.misses) = (0, 0);
                    ready.wait();
                    start.wait();
                    if arguments.each { worker.run_each(share) } else { worker.run(share) }
                })
            })
            .collect();
        ready.wait();
        let told = if arguments.worker.is_some() { wait_for_word() } else { Ok(()) };
        start.wait();
        let mut all = Measured::new();
        for worker in workers {
            all.add(&worker.join().map_err(|_| "a worker panicked")?);
        }
        told.map(|()| all)
    })
}

/// Says that everything is prepared, and waits until all processes are.
fn wait_for_word() -> Result<(), String> {
    println!("ready");
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| error.to_string())?;
    if line == "go\n" { Ok(()) } else { Err("the first process has ended".into()) }
}

/// Runs `--processes` processes of `--threads` workers at once.
fn in_processes(arguments: &Arguments, segment: &str, op: &str) -> Result<Measured, String> {
    let mut children = Vec::new();
    for number in 0..arguments.processes {
        children.push(start_process(arguments, segment, op, number)?);
    }
    let mut outputs = Vec::new();
    for child in &mut children {
        let mut output = BufReader::new(child.stdout.take().ok_or("a worker has no output")?);
        let mut line = String::new();
        output.read_line(&mut line).map_err(|error| error.to_string())?;
        if line != "ready\n" {
            return Err("a worker process ended before it began".into());
        }
        outputs.push(output);
    }
    for child in &mut children {
        let mut input = child.stdin.take().ok_or("a worker has no input")?;
        input.write_all(b"go\n").map_err(|error| error.to_string())?;
    }
    let mut all = Measured::new();
    for (mut child, mut output) in children.into_iter().zip(outputs) {
        let mut line = String::new();
        output.read_line(&mut line).map_err(|error| error.to_string())?;
        let value = serde_json::from_str(&line).ok().and_then(|value| Measured::from_wire(&value));
        all.add(&value.ok_or("a worker process ended early")?);
        child.wait().map_err(|error| error.to_string())?;
    }
    Ok(all)
}

fn start_process(arguments: &Arguments, segment: &str, op: &str, number: u32) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["bench", "--segment", segment, "--op", op, "--worker", &number.to_string()]);
    command.args(arguments.worker_flags());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().map_err(|error| format!("cannot start a worker process: {error}"))
}

/// One thread's work.
struct Worker<'m> {
    memory: &'m Memory,
    op: Op,
    session: Session,
    host: EmbeddedHost,
    picks: Picks,
    value: Vec<u8>,
    /// Calls that are made together.
    batch: u64,
    reply: Output,
    plan: BatchPlan,
    turn: u32,
    errors: u64,
    misses: u64,
}

impl<'m> Worker<'m> {
    fn new(memory: &'m Memory, op: Op, picks: Picks, arguments: &Arguments) -> Worker<'m> {
        Worker {
            memory,
            op,
            session: Session::default(),
            host: EmbeddedHost::default(),
            picks,
            value: vec![b'x'; arguments.value_size],
            batch: u64::from(arguments.batch),
            reply: Output::new(Protocol::Resp2),
            plan: BatchPlan::default(),
            turn: 0,
            errors: 0,
            misses: 0,
        }
    }

    /// One batch of calls: all keys are named to the memory before the first is used.
    #[inline]
    fn call(&mut self, count: u64) {
        let keys = self.picks.next(count as usize);
        let mut calls: SmallVec<[Call<'_>; GROUP as usize]> = SmallVec::new();
        for key in keys {
            self.turn = self.turn.wrapping_add(1);
            calls.push(self.op.call(key, &self.value, self.turn));
        }
        // What the server does for the calls of a turn: their cache misses together, and one pin for all of them. Without
        // a seat the calls say why themselves.
        let mut plan = std::mem::take(&mut self.plan);
        let _pinned = (count > 1).then(|| {
            let pinned = self.memory.table().pinned();
            self.memory.prefetch(calls.iter().map(|call| (self.session.caller.db, call.args())), &mut plan);
            pinned
        });
        for (number, call) in calls.iter().enumerate() {
            if count > 1 {
                self.memory.execute_foreseen(
                    &mut self.session,
                    &self.host,
                    &plan,
                    number,
                    call.args(),
                    &mut self.reply,
                );
            } else {
                self.memory.execute(&mut self.session, &self.host, call.args(), &mut self.reply);
            }
            match self.reply.single() {
                Some([b'-', ..]) => self.errors += 1,
                Some([b'$', b'-', ..]) => self.misses += 1,
                _ => {}
            }
            let waiting = self.reply.waiting();
            self.reply.consume(waiting);
        }
        self.plan = plan;
    }

    /// Calls in groups.
    fn run(mut self, until: Until) -> Measured {
        let mut measured = Measured::new();
        let start = Instant::now();
        let mut before = start;
        while until.goes_on(measured.calls, start, before) {
            let group = until.left(measured.calls).min(GROUP.max(self.batch));
            let whole = group / self.batch * self.batch;
            (0..whole / self.batch).for_each(|_| self.call(self.batch));
            (whole..group).for_each(|_| self.call(1));
            let now = Instant::now();
            measured.record(now - before, group);
            before = now;
        }
        self.finish(measured, start.elapsed())
    }

    /// Calls with the clock read around each.
    fn run_each(mut self, until: Until) -> Measured {
        let clock = clock_cost();
        let mut measured = Measured::new();
        let start = Instant::now();
        let mut before = start;
        while until.goes_on(measured.calls, start, before) {
            self.call(1);
            let now = Instant::now();
            measured.record((now - before).saturating_sub(clock), 1);
            before = now;
        }
        self.finish(measured, start.elapsed())
    }

    fn finish(self, mut measured: Measured, wall: Duration) -> Measured {
        measured.wall = wall;
        measured.errors = self.errors;
        measured.misses = self.misses;
        measured
    }
}

/// What reading the clock once costs.
fn clock_cost() -> Duration {
    const READS: u32 = 100_000;
    let start = Instant::now();
    for _ in 1..READS {
        std::hint::black_box(Instant::now());
    }
    start.elapsed() / READS
}
