//! The link and its queue under a clock and a server that chance moves: connections that break at every byte, buffers that
//! are full, replies that come late, cut anywhere; calls that are dropped and deadlines that pass at any moment.
//!
//! What must hold, whatever chance does:
//! 1. A reply reaches the call that it belongs to, from the database that the call named.
//! 2. A call that succeeded, and only reads or not, ran at least once; one that writes ran just once.
//! 3. A call that writes and failed as *not sent* never ran, and runs at most once however it failed.
//! 4. Calls of one lane run in the order in which they were made.
//! 5. When the faults end, every call ends.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use polder_wire::resp::{Limits, Request, Requests};

use super::{Link, Listeners};
use crate::args::{self, Args};
use crate::due::Due;
use crate::error::Error;
use crate::options::{Options, Policy};
use crate::queue::{Pushed, Queue, Route, Ticket};
use crate::rows;
use crate::slot::Slot;
use crate::target::Target;
use crate::traits::{Shape, Traits};

/// Steps with faults, and the most that may follow without before everything must have ended.
const FAULTY_STEPS: usize = 400;
const QUIET_STEPS: usize = 4000;
const DATABASES: u32 = 6;
/// A database that the server refuses.
const REFUSED: u32 = 5;

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, most: usize) -> usize {
        (self.next() >> 11) as usize % most.max(1)
    }
    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A server of one connection: what it has been sent and not read, and what it has said and not delivered.
#[derive(Default)]
struct Server {
    input: Vec<u8>,
    output: Vec<u8>,
    db: u32,
    queued: Option<Vec<Vec<Vec<u8>>>>,
    /// Each call that ran: its number, in which database.
    ran: Vec<(u64, u32)>,
    knows_hello: bool,
    /// Pushes wait until EXEC's reply is whole.
    in_exec: bool,
}

impl Server {
    fn reconnect(&mut self, chance: &mut Chance) {
        (self.input, self.output, self.db, self.queued) = (Vec::new(), Vec::new(), 0, None);
        self.knows_hello = !chance.one_in(4);
    }

    /// Runs one request; returns whether there was a whole one.
    fn step(&mut self, chance: &mut Chance) -> bool {
        let input = std::mem::take(&mut self.input);
        let (mut left, mut words) = (&input[..], Vec::new());
        let read = Requests::default()
            .read(&mut left, &Limits::default(), &mut words)
            .expect("the client frames its requests");
        let Some(Request::Bulks(_)) = read else {
            self.input = input;
            return false;
        };
        let words: Vec<Vec<u8>> = words.into_iter().map(<[u8]>::to_vec).collect();
        self.input = left.to_vec();
        self.run(words, chance);
        true
    }

    fn run(&mut self, words: Vec<Vec<u8>>, chance: &mut Chance) {
        let name = String::from_utf8_lossy(&words[0]).to_string();
        if let Some(queued) = &mut self.queued
            && name != "EXEC"
        {
            queued.push(words);
            return self.say("+QUEUED\r\n");
        }
        let number = || String::from_utf8_lossy(&words[1]).parse::<u64>().expect("a number");
        match name.as_str() {
            "HELLO" if !self.knows_hello => self.say("-ERR unknown command 'HELLO'\r\n"),
            "HELLO" => self.say("%1\r\n+proto\r\n:3\r\n"),
            "PING" => self.say("+PONG\r\n"),
            "CLIENT" => self.say("+OK\r\n"),
            "SELECT" if number() == u64::from(REFUSED) => self.say("-ERR DB index is out of range\r\n"),
            "SELECT" => {
                self.db = number() as u32;
                self.say("+OK\r\n");
            }
            "GET" | "INCR" | "EVAL" => {
                let (number, db) = (number(), self.db);
                self.ran.push((number, db));
                if name == "EVAL" && chance.one_in(2) {
                    self.db = chance.below(4) as u32;
                }
                if self.knows_hello && !self.in_exec && chance.one_in(10) {
                    self.say(">2\r\n+invalidate\r\n_\r\n");
                }
                self.say(&format!(":{}\r\n", number * 100 + u64::from(db)));
            }
            "MULTI" => {
                self.queued = Some(Vec::new());
                self.say("+OK\r\n");
            }
            "EXEC" => {
                let queued = self.queued.take().unwrap_or_default();
                self.say(&format!("*{}\r\n", queued.len()));
                self.in_exec = true;
                queued.into_iter().for_each(|words| self.run(words, chance));
                self.in_exec = false;
            }
            other => panic!("the simulated server does not know {other}"),
        }
    }

    fn say(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
    }
}

/// What a call does.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Deed {
    Read,
    Write,
    Script,
    /// Two writes in one transaction: the second has the number of the call plus one.
    Transaction,
}

struct Made {
    number: u64,
    db: u32,
    deed: Deed,
    jumps: bool,
    slot: Arc<Slot>,
    ticket: Ticket,
    ended: Option<Result<String, Error>>,
    dropped: bool,
}

struct World {
    chance: Chance,
    now: Instant,
    queue: Queue,
    link: Link,
    server: Server,
    connected: bool,
    made: Vec<Made>,
    next: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let options = Arc::new(Options {
            ping_interval: Duration::from_millis(500),
            name: Some("simulated".into()),
            ..Options::default()
        });
        let now = Instant::now();
        let link = Link::new(options, Listeners::default(), now);
        let chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        World {
            chance,
            now,
            queue: Queue::new(60, 4000),
            link,
            server: Server::default(),
            connected: false,
            made: Vec::new(),
            next: 1,
        }
    }

    /// Makes a call.
    fn call(&mut self) {
        let deed = [Deed::Read, Deed::Write, Deed::Read, Deed::Write, Deed::Script, Deed::Transaction]
            [self.chance.below(6)];
        let (number, db) = (self.next, self.chance.below(DATABASES as usize) as u32);
        self.next += 2;
        let policy = if self.chance.one_in(8) { Policy::FailFast } else { Policy::Queue };
        let jumps = self.chance.one_in(5);
        let due = self.chance.one_in(3).then(|| Due {
            made: self.now,
            at: self.now + Duration::from_millis(self.chance.below(300) as u64),
        });
        let slot = Arc::new(Slot::default());
        let mut target = Some(Target::Slot(Arc::clone(&slot)));
        let pushed = self.queue.push(Route { db, jumps, policy }, &mut target, due, |bytes| {
            let start = bytes.len();
            let mut plain = |args: &dyn Args| {
                let mut request = Vec::new();
                args::encode(args, &mut request);
                bytes.extend_from_slice(&request);
            };
            match deed {
                Deed::Read => plain(&("GET", number)),
                Deed::Write => plain(&("INCR", number)),
                Deed::Script => plain(&("EVAL", number)),
                Deed::Transaction => {
                    plain(&"MULTI");
                    plain(&("INCR", number));
                    plain(&("INCR", number + 1));
                    plain(&"EXEC");
                    return Ok(Traits { replies: 4, shape: Shape::Transaction, ..Traits::SINGLE });
                }
            }
            rows::traits(&bytes[start..])
        });
        match pushed {
            Ok(Pushed::Queued(ticket)) => {
                self.made.push(Made { number, db, deed, jumps, slot, ticket, ended: None, dropped: false });
            }
            Ok(Pushed::Full | Pushed::Aside) => panic!("no call of this test waits"),
            Err(error) => assert!(matches!(error, Error::NotSent(_)), "{error}"),
        }
    }

    /// Drops the future of a call that is outstanding.
    fn drop_one(&mut self) {
        let at = self.chance.below(self.made.len());
        if let Some(made) = self.made.get_mut(at)
            && made.ended.is_none()
            && !made.dropped
        {
            made.dropped = true;
            if made.slot.abandon() {
                self.queue.withdraw(made.ticket);
            }
        }
    }

    fn lose(&mut self, why: &str) {
        let failed = self.link.disconnected(&mut self.queue, why);
        failed.into_iter().for_each(|(target, error)| target.complete(Err(error)));
        self.connected = false;
    }

    fn gather(&mut self) {
        let (_, failed) = self.link.gather(&mut self.queue, self.now);
        failed.into_iter().for_each(|(target, error)| target.complete(Err(error)));
        if self.link.is_ready() {
            self.queue.is_up = true;
        }
    }

    /// Hands the server some of what the link wants to write.
    fn write(&mut self) {
        let mut pieces = [IoSlice::new(&[]); 4];
        let count = self.link.output(&mut pieces);
        let bytes: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.to_vec()).collect();
        let taken = if self.chance.one_in(2) { bytes.len() } else { self.chance.below(bytes.len() + 1) };
        self.server.input.extend_from_slice(&bytes[..taken]);
        self.link.wrote(taken, self.now);
    }

    /// Hands the link some of what the server has said.
    fn read(&mut self) {
        let said = self.server.output.len();
        let count = if self.chance.one_in(2) { said } else { self.chance.below(said + 1) };
        let room = self.link.room();
        let count = count.min(room.len());
        room[..count].copy_from_slice(&self.server.output[..count]);
        self.server.output.drain(..count);
        if count > 0
            && let Err(error) = self.link.filled(count, self.now)
        {
            panic!("the simulated server speaks RESP: {error}");
        }
    }

    fn step(&mut self, faults: bool) {
        if !self.connected {
            self.connected = true;
            self.server.reconnect(&mut self.chance);
            self.link.connected(self.now);
        }
        match self.chance.below(if faults { 12 } else { 7 }) {
            0 | 1 => self.gather(),
            2 => self.write(),
            3 | 4 => drop(self.server.step(&mut self.chance)),
            5 => self.read(),
            6 => {
                self.now += Duration::from_millis(self.chance.below(10) as u64);
                let late = self.link.take_late(&mut self.queue, self.now);
                late.into_iter().for_each(|(target, error)| target.complete(Err(error)));
                if let Err(error) = self.link.check(self.now) {
                    self.lose(&error.to_string());
                }
            }
            7..=9 => (0..self.chance.below(4)).for_each(|_| self.call()),
            10 => self.drop_one(),
            _ if self.chance.one_in(6) => self.lose("the simulated network broke"),
            _ => {}
        }
    }

    /// Looks which calls have ended.
    fn look(&mut self) -> bool {
        for made in self.made.iter_mut().filter(|made| made.ended.is_none() && !made.dropped) {
            if let Poll::Ready(outcome) = made.slot.poll(Waker::noop()) {
                made.ended = Some(outcome.map(|value| format!("{value:?}")));
            }
        }
        self.made.iter().all(|made| made.dropped || made.ended.is_some())
    }

    /// What has not ended, and where everything stands.
    fn stuck(&self) -> String {
        let calls: Vec<(u64, Deed, u32)> = self
            .made
            .iter()
            .filter(|made| !made.dropped && made.ended.is_none())
            .map(|made| (made.number, made.deed, made.db))
            .collect();
        let flights: Vec<(usize, usize, usize, u8)> = self
            .link
            .flights
            .iter()
            .map(|flight| {
                (flight.batch.calls.len(), flight.written, flight.batch.bytes.len(), flight.selects_due)
            })
            .collect();
        let (input, output) = (self.server.input.len(), self.server.output.len());
        format!(
            "calls {calls:?} never ended; queue {:?}, flights {flights:?}, server input {input} output {output}",
            self.queue.len()
        )
    }

    fn judge(&self, seed: u64) {
        let mut ran: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (number, db) in &self.server.ran {
            ran.entry(*number).or_default().push(*db);
        }
        for made in &self.made {
            let parts = if made.deed == Deed::Transaction {
                vec![made.number, made.number + 1]
            } else {
                vec![made.number]
            };
            for number in parts {
                let times = ran.get(&number).map_or(0, Vec::len);
                let elsewhere = ran.get(&number).into_iter().flatten().any(|db| *db != made.db);
                let call = format!(
                    "seed {seed}: call {number} ({:?}, database {}): {:?}, ran {times} times",
                    made.deed, made.db, made.ended
                );
                assert!(!elsewhere, "{call}, elsewhere too");
                match &made.ended {
                    Some(Ok(_)) => assert!(times >= 1, "{call}"),
                    Some(Err(error)) if error.may_retry() && made.deed != Deed::Read => {
                        assert_eq!(times, 0, "{call}")
                    }
                    _ => {}
                }
                assert!(made.deed == Deed::Read || times <= 1, "{call}");
            }
            if let Some(Ok(reply)) = &made.ended {
                let reply_to = |number: u64| format!("Integer({})", number * 100 + u64::from(made.db));
                let expected = match made.deed {
                    Deed::Transaction => {
                        format!("Array([{}, {}])", reply_to(made.number), reply_to(made.number + 1))
                    }
                    _ => reply_to(made.number),
                };
                assert_eq!(*reply, expected, "seed {seed}: call {} of database {}", made.number, made.db);
            }
        }
        self.judge_order(seed);
    }

    /// Writes of one lane ran in the order in which they were made.
    fn judge_order(&self, seed: u64) {
        let place = |number: u64| self.server.ran.iter().position(|(ran, _)| *ran == number);
        for jumps in [false, true] {
            for db in 0..DATABASES {
                let lane = self
                    .made
                    .iter()
                    .filter(|made| made.jumps == jumps && made.db == db && made.deed != Deed::Read && !jumps);
                let places: Vec<usize> = lane.filter_map(|made| place(made.number)).collect();
                assert!(
                    places.is_sorted(),
                    "seed {seed}: calls of database {db} ran out of order: {places:?}"
                );
            }
        }
    }
}

fn simulate(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..FAULTY_STEPS {
        world.step(true);
        world.look();
    }
    let mut steps = 0;
    while !world.look() {
        world.step(false);
        steps += 1;
        assert!(steps < QUIET_STEPS, "seed {seed}: {}", world.stuck());
    }
    world.judge(seed);
}

/// `POLDER_SEEDS=FIRST..LAST` runs others and more.
#[test]
fn every_call_ends_as_it_should_whatever_breaks() {
    let range = std::env::var("POLDER_SEEDS").unwrap_or_else(|_| "1..500".into());
    let (first, last) = range.split_once("..").expect("POLDER_SEEDS is FIRST..LAST");
    for seed in first.parse().expect("a number")..last.parse().expect("a number") {
        simulate(seed);
    }
}

/// Replies that no server should send, cut anywhere.
const HOSTILE: [&str; 20] = [
    "+OK\r\n",
    ":1\r\n",
    "$3\r\nabc\r\n",
    "$-1\r\n",
    "$99999999999\r\n",
    "$-7\r\n",
    "*2\r\n",
    "*-1\r\n",
    "*1000000\r\n",
    ">3\r\n+message\r\n+a\r\n+b\r\n",
    ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
    "%1\r\n+proto\r\n:3\r\n",
    "%1\r\n",
    "|1\r\n+a\r\n:1\r\n",
    "_\r\n",
    "#x\r\n",
    "-ERR x\r\n",
    "-MOVED 1 a:1\r\n",
    ",nan\r\n",
    "\0\r\n\n",
];

/// A server that sends anything: the link ends the connection or goes on, and every call ends.
fn suffer(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..200 {
        if !world.connected {
            world.connected = true;
            world.link.connected(world.now);
            if !world.chance.one_in(3) {
                world.server.say("%1\r\n+proto\r\n:3\r\n");
            }
        }
        match world.chance.below(6) {
            0 => world.call(),
            1 => world.gather(),
            2 => world.write(),
            3 => world.drop_one(),
            _ => {
                let text = HOSTILE[world.chance.below(HOSTILE.len())];
                let kept = if world.chance.one_in(4) { world.chance.below(text.len()) } else { text.len() };
                world.server.output.extend_from_slice(&text.as_bytes()[..kept]);
                if world.chance.one_in(8) {
                    let byte = world.chance.next() as u8;
                    world.server.output.push(byte);
                }
                let said = std::mem::take(&mut world.server.output);
                let room = world.link.room();
                let count = said.len().min(room.len());
                room[..count].copy_from_slice(&said[..count]);
                if let Err(error) = world.link.filled(count, world.now) {
                    assert!(matches!(error, Error::NotSent(_) | Error::Refused(_)), "seed {seed}: {error}");
                    world.lose("the server is hostile");
                }
            }
        }
        world.look();
    }
    world.lose("the test ends");
    world.queue.drain().end(&Error::not_sent("the test ends"));
    assert!(world.look(), "seed {seed}: {}", world.stuck());
}

#[test]
fn a_server_that_sends_anything_panics_nothing_and_leaves_no_call() {
    (1..3000).for_each(suffer);
}
