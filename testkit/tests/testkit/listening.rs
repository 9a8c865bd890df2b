//! Threads that push, pop, wait, give up, publish, subscribe and unsubscribe at random, all at
//! once: nothing is lost, nothing comes twice, and in the end every waiting client is served.
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use polder_base::Protocol;
use polder_engine::{Clock, Identity, Progress, Session};
use polder_hub::record::{self, waiters_key};
use polder_table::Mode;
use polder_testbase::{PATIENCE, until};
use polder_testkit::answer::Answer;
use polder_testkit::caller::{Caller, Embedder};
use polder_testkit::crash::listening::Client;
use polder_testkit::gather::Gather;
use polder_testkit::random::Random;
use polder_testkit::scratch::Scratch;
use polder_values::Kind;

const THREADS: usize = 4;
const WORK: Duration = Duration::from_secs(3);

/// What the threads share beside the memory.
#[derive(Default)]
struct World {
    over: AtomicBool,
    pushed: Mutex<BTreeSet<String>>,
    popped: Mutex<Vec<String>>,
    /// Messages of each thread that have been acknowledged.
    published: [AtomicU64; THREADS],
    /// How many have come to the end of their work, and whether the last part has begun.
    rested: AtomicU64,
    last_part: AtomicBool,
}

/// Waits until something is so, but not for ever: a thread may have failed.
/// One thread's part.
struct Player<'w> {
    me: usize,
    world: &'w World,
    embedder: &'w Embedder,
    random: Random,
    client: Client,
    caller: Caller,
    next: u64,
}

impl Player<'_> {
    fn ask(&mut self, line: &str) -> Answer {
        let words: Vec<&str> = line.split(' ').collect();
        self.caller.call(self.embedder, &words).expect("a reply")
    }

    fn note(&self, answer: Answer) {
        let element = match answer {
            Answer::Bulk(element) => Some(element),
            Answer::Array(items) => items.into_iter().nth(1).and_then(|item| match item {
                Answer::Bulk(element) => Some(element),
                _ => None,
            }),
            _ => None,
        };
        if let Some(element) = element {
            self.world.popped.lock().expect("sound").push(String::from_utf8(element).expect("text"));
        }
    }

    fn push(&mut self) {
        self.next += 1;
        let element = format!("{}:{}", self.me, self.next);
        let key = self.random.below(3);
        // Noted first: another thread may pop it before this one has its reply.
        self.world.pushed.lock().expect("sound").insert(element.clone());
        let lines = match self.random.below(4) {
            0 => vec!["MULTI".to_owned(), format!("RPUSH k{key} {element}"), "EXEC".to_owned()],
            1 => vec![
                "MULTI".to_owned(),
                format!("RPUSH side{} {element}", self.me),
                format!("LMOVE side{} k{key} LEFT RIGHT", self.me),
                "EXEC".to_owned(),
            ],
            2 => {
                vec![format!("RPUSH side{} {element}", self.me), format!("RPOPLPUSH side{} k{key}", self.me)]
            }
            _ => vec![format!("LPUSH k{key} {element}")],
        };
        for line in lines {
            assert!(!matches!(self.ask(&line), Answer::Error(_)), "{line}");
        }
    }

    fn pop(&mut self) {
        let key = self.random.below(3);
        let answer = self.ask(&format!("LPOP k{key}"));
        self.note(answer);
    }

    /// Waits for a while, or until served.
    fn wait(&mut self, patience: Duration) -> bool {
        let keys = ["k0", "k0 k1", "k2 k1 k0"][self.random.below(3)];
        let answer = self.client.call(self.embedder, &format!("BLPOP {keys} 0")).expect("a reply");
        let begun = Instant::now();
        while self.client.waits() && begun.elapsed() < patience {
            self.client.hear(self.embedder);
            if self.random.below(50) == 0 {
                self.client.tick(self.embedder);
            }
            std::thread::yield_now();
        }
        let served = !self.client.waits();
        let answers: Vec<Answer> =
            answer.into_iter().chain(std::mem::take(&mut self.client.answers)).collect();
        assert!(answers.len() <= 1);
        answers.into_iter().for_each(|answer| self.note(answer));
        self.client.rest(self.embedder);
        served
    }

    fn publish(&mut self) {
        let number = self.world.published[self.me].load(Ordering::SeqCst) + 1;
        let padding = "x".repeat(self.random.below(3) * 3000);
        self.ask(&format!("PUBLISH news {}:{number}:{padding}", self.me));
        self.world.published[self.me].store(number, Ordering::SeqCst);
    }

    /// Subscribes for a while: from the first to the last, nothing is missing and nothing comes twice.
    fn listen(&mut self) {
        let (subject, subject_end) = if self.random.below(2) == 0 {
            ("SUBSCRIBE news", "UNSUBSCRIBE news")
        } else {
            ("PSUBSCRIBE n*", "PUNSUBSCRIBE n*")
        };
        // As a server's loop does: what has come before a call is heard before it.
        self.client.hear(self.embedder);
        self.client.heard.clear();
        let counts = |world: &World| {
            std::array::from_fn::<u64, THREADS, _>(|at| world.published[at].load(Ordering::SeqCst))
        };
        let before = counts(self.world);
        self.client.call(self.embedder, subject).expect("subscribed");
        let begun = counts(self.world);
        for _ in 0..self.random.below(200) {
            self.client.hear(self.embedder);
            std::thread::yield_now();
        }
        let ended = counts(self.world);
        self.client.hear(self.embedder);
        self.client.call(self.embedder, subject_end).expect("unsubscribed");
        let mut heard: [Vec<u64>; THREADS] = Default::default();
        for message in self.client.heard.drain(..) {
            let mut parts = message.split(':');
            let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok()).expect("a number");
            let from = number() as usize;
            heard[from].push(number());
        }
        for (from, numbers) in heard.iter().enumerate() {
            let whole = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
            assert!(whole, "from {from}: {numbers:?}");
            if ended[from] > begun[from] + 1 {
                let (first, last) =
                    (numbers.first().copied().unwrap_or(u64::MAX), numbers.last().copied().unwrap_or(0));
                // The one after the last that was acknowledged may have been on its way when we came.
                assert!(
                    first > before[from] && first <= begun[from] + 2,
                    "from {from}: first {first}, {} when we came",
                    begun[from]
                );
                assert!(last >= ended[from], "from {from}: last {last} of {}", ended[from]);
            }
        }
    }

    fn play(&mut self) {
        while !self.world.over.load(Ordering::SeqCst) {
            match self.random.below(12) {
                0..3 => self.push(),
                3 => self.pop(),
                4..6 => {
                    let patience = Duration::from_micros(self.random.below(3000) as u64);
                    self.wait(patience);
                }
                6..9 => self.publish(),
                9 => self.listen(),
                10 => self.client.tick(self.embedder),
                _ => self.client.hear(self.embedder),
            }
        }
    }
}

#[test]
fn nothing_is_lost_and_nothing_comes_twice_among_threads_that_do_everything_at_once() {
    let scratch = Scratch::new();
    let seed = Random::seed_of_the_day();
    println!("seed {seed}");
    let world = Arc::new(World::default());
    let embedder = &scratch.embedder;
    std::thread::scope(|scope| {
        for me in 0..THREADS {
            let world = world.clone();
            scope.spawn(move || {
                let random = Random::new(seed + me as u64);
                let (client, caller) = (Client::default(), Caller::new(0, Protocol::Resp2));
                let mut player = Player { me, world: &world, embedder, random, client, caller, next: 0 };
                player.play();
                // Everything is taken, then all wait, and the driver has something for each.
                world.rested.fetch_add(1, Ordering::SeqCst);
                until("another thread reaches the last part", || world.last_part.load(Ordering::SeqCst));
                assert!(player.wait(PATIENCE), "thread {me} is not served");
            });
        }
        std::thread::sleep(WORK);
        world.over.store(true, Ordering::SeqCst);
        until("all threads rest", || world.rested.load(Ordering::SeqCst) == THREADS as u64);
        let mut driver = Caller::new(0, Protocol::Resp2);
        let mut ask =
            |line: &str| driver.call(embedder, &line.split(' ').collect::<Vec<_>>()).expect("a reply");
        for key in ["k0", "k1", "k2", "side0", "side1", "side2", "side3"] {
            while let Answer::Bulk(element) = ask(&format!("LPOP {key}")) {
                world.popped.lock().expect("sound").push(String::from_utf8(element).expect("text"));
            }
        }
        world.last_part.store(true, Ordering::SeqCst);
        for number in 0..THREADS {
            std::thread::sleep(Duration::from_millis(20));
            world.pushed.lock().expect("sound").insert(format!("last:{number}"));
            ask(&format!("RPUSH k0 last:{number}"));
        }
    });
    let mut popped = std::mem::take(&mut *world.popped.lock().expect("sound"));
    let count = popped.len();
    popped.sort_unstable();
    popped.dedup();
    assert_eq!(popped.len(), count, "an element came twice");
    assert!(
        popped.into_iter().eq(std::mem::take(&mut *world.pushed.lock().expect("sound"))),
        "an element is lost"
    );
    let report = embedder.memory.table().verify().expect("a walk");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_client_that_has_waited_once_costs_others_nothing_afterwards() {
    let scratch = Scratch::new();
    let mut caller = Caller::new(0, Protocol::Resp2);
    assert_eq!(caller.call(&scratch.embedder, &["BLPOP", "k", "0.01"]), Ok(Answer::Nil));
    assert_eq!(scratch.embedder.memory.table().interest(), 0);
}

#[test]
fn a_call_that_cannot_even_be_put_down_as_waiting_does_not_wait() {
    let scratch = Scratch::new();
    let memory = &scratch.embedder.memory;
    let (held, is_held) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let txn = memory.table().begin(Mode::Write).expect("a seat");
            let key = waiters_key(Kind::List, 0, b"k");
            record::edit(&txn, &key, |_| true).expect("nobody else has it");
            held.send(()).expect("a thread waits");
            // Ends with the other side, also where that fails.
            let _ = is_done.recv();
        });
        is_held.recv().expect("the thread holds the record");
        let mut session = Session {
            identity: Identity { id: 7, ..Identity::default() },
            clock: Clock { patience_us: 100, ..Clock::default() },
            ..Session::default()
        };
        session.caller.parks = true;
        let mut reply = Gather::new(Protocol::Resp2);
        let progress =
            memory.execute(&mut session, &scratch.embedder.host, &[b"BLPOP", b"k", b"0"], &mut reply);
        drop(done);
        assert_eq!(progress, Progress::Busy);
        // Or its connection would be served by a wake-up, and run the call again afterwards: two replies to one request.
        assert!(session.caller.waiting.is_none());
    });
}
