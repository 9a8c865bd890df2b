//! A process that does nothing but poll descriptors, stopped while it is the turn of its threads and let go on while others wait all the time.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use polder_engine::{Caller, Item, Memory, Options};
use polder_hub::record;
use polder_table::Mode;
use polder_testbase::until;
use polder_values::Kind;
use rustix::event::{PollFd, PollFlags, poll};

/// Names the segment to the process that polls.
const SEGMENT: &str = "POLDER_TEST_POLLING";
/// Threads of that process.
const THREADS: usize = 3;

fn attach(segment: &str) -> Arc<Memory> {
    let options = Options { segment: segment.to_owned(), ceiling: 64 << 20, ..Options::default() };
    Arc::new(Memory::attach(&options).expect("a segment"))
}

/// The element that a BLPOP has answered.
fn element(item: Item<'_>) -> usize {
    let words = item.items().into_iter().flatten().filter_map(Item::bytes);
    words.last().and_then(|word| std::str::from_utf8(word).ok()?.parse().ok()).expect("a number")
}

/// How many records of waiting seats are marked as late.
fn late(memory: &Memory) -> usize {
    let txn = memory.table().begin(Mode::Read).expect("a seat");
    let records = record::glimpse(&txn, &record::waiters_key(Kind::List, 0, b"q")).expect("readable");
    records.iter().filter(|record| record.number >> 63 != 0).count()
}

/// The other process: each thread begins a call, and looks when its descriptor is readable, not before.
fn poll_only(segment: &str) -> ! {
    let memory = attach(segment);
    let threads = (0..THREADS).map(|number| {
        let mut caller = Caller::new(&memory);
        let (told, tells) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let descriptor = caller.descriptor().expect("a descriptor");
            let mut answer = caller.start(&["BLPOP", "q", "0"]).expect("begun");
            println!("thread {number} waits");
            told.send(()).expect("a thread waits");
            while answer.is_none() {
                poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).expect("a poll");
                answer = caller.resume().expect("it waits");
            }
            println!("thread {number} has {}", answer.map_or(0, |answer| element(answer.item())));
        });
        // One after the other.
        tells.recv().expect("it waits");
        thread
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("no panic"));
    // Ends without a test report, which has no reader.
    std::process::exit(0)
}

/// The process that polls, killed should the test end early.
struct Poller(Child);

impl Poller {
    fn start(segment: &str) -> Poller {
        let this = thread::current().name().expect("tests have names").to_owned();
        let program = std::env::current_exe().expect("this test");
        let arguments = [&this, "--exact", "--nocapture"];
        Poller(
            Command::new(program)
                .args(arguments)
                .env(SEGMENT, segment)
                .stdout(Stdio::piped())
                .spawn()
                .expect("a process"),
        )
    }

    fn signal(&self, which: &str) {
        assert!(
            Command::new("kill").args([which, &self.0.id().to_string()]).status().expect("kill").success()
        );
    }

    /// Stops it, and waits until every thread stands still.
    fn stop(&self) {
        self.signal("-STOP");
        let is_still = |stat: String| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
        until("its stop", || {
            let threads =
                std::fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("it lives").flatten();
            threads
                .filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok())
                .all(is_still)
        });
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Other threads that wait all the time, until they pop a zero.
const TAKERS: usize = 3;

/// Gives them one each, however the test ends.
struct Ends<'m>(&'m Arc<Memory>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let mut pusher = Caller::new(self.0);
        (0..TAKERS).for_each(|_| pusher.run(&["RPUSH", "q", "0"]).map(drop).expect("room"));
    }
}

#[test]
fn threads_that_only_poll_are_at_their_places_again_after_a_stop_although_others_wait_all_the_time() {
    if let Ok(segment) = std::env::var(SEGMENT) {
        poll_only(&segment);
    }
    let segment = format!("shm:polder-polling-{}", std::process::id());
    let memory = attach(&segment);
    let mut pusher = Caller::new(&memory);
    let mut poller = Poller::start(&segment);
    let mut lines = BufReader::new(poller.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    (0..THREADS).for_each(|number| {
        assert!(lines.any(|line| line.ends_with(&format!("thread {number} waits"))), "it ended early")
    });
    let taken = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..TAKERS {
            scope.spawn(|| {
                let mut taker = Caller::new(&memory);
                loop {
                    match taker.show(&["BLPOP", "q", "0"], element).expect("an answer") {
                        0 => break,
                        number => taken.lock().expect("sound").push(number),
                    }
                }
            });
        }
        // Dropped in the opposite order: the poller takes none of that.
        let _end = Ends(&memory);
        let mut poller = poller;
        poller.stop();
        let mut push =
            |number: usize| pusher.run(&["RPUSH", "q", &number.to_string()]).map(drop).expect("room");
        push(1);
        until("whose turn it is then", || !taken.lock().expect("sound").is_empty());
        assert_eq!(late(&memory), THREADS);
        poller.signal("-CONT");
        until("who was stopped", || late(&memory) == 0);
        (2..2 + THREADS).for_each(&mut push);
        assert!(poller.0.wait().expect("it ends").success());
        assert_eq!(*taken.lock().expect("sound"), [1]);
    });
    let mut had: Vec<String> = lines.filter(|line| line.contains(" has ")).collect();
    had.sort_unstable();
    assert_eq!(
        had,
        (0..THREADS).map(|number| format!("thread {number} has {}", number + 2)).collect::<Vec<_>>()
    );
    Memory::remove(&segment).expect("it is there");
}
