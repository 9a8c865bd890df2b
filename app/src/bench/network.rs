//! A server measured over its connections, as redis-benchmark does it.
//!
//! ```text
//!   each thread:  poll -> readable connections -> count replies -> a whole pipeline answered? patch new keys in, send again
//! ```
//! A request's latency is the time from the sending of its pipeline to its own reply. The bytes of a pipeline are made
//! once per connection; from then on only the digits of its keys are overwritten.
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::{Events, Interest, Poll, Token};
use polder_wire::resp::{Replies, Value, command};

use super::keys::{DIGITS, Random, Spread, write_digits};
use super::report::{Line, Measured};
use super::{Arguments, Until};
use crate::link::{Link, Login, Place, Socket};
use crate::text::reason;

/// Stands for twelve digits of a picked key.
const PLACEHOLDER: &str = "__rand_int__";
/// Stands for the value.
const DATA: &str = "__data__";
/// How long nothing may happen before the server counts as dead.
const PATIENCE: Duration = Duration::from_secs(30);
/// Elements that are put into a list before LRANGE is measured.
const LIST_ELEMENTS: u32 = 1000;

/// Bytes received at once.
const CHUNK_BYTES: usize = 64 << 10;

/// An operation: its name and its command.
struct Op {
    name: &'static str,
    words: &'static str,
}

const OPS: &[Op] = &[
    Op { name: "ping_mbulk", words: "PING" },
    Op { name: "ping", words: "PING" },
    Op { name: "set", words: "SET key:__rand_int__ __data__" },
    Op { name: "get", words: "GET key:__rand_int__" },
    Op { name: "incr", words: "INCR counter:__rand_int__" },
    Op { name: "lpush", words: "LPUSH mylist __data__" },
    Op { name: "rpush", words: "RPUSH mylist __data__" },
    Op { name: "lpop", words: "LPOP mylist" },
    Op { name: "rpop", words: "RPOP mylist" },
    Op { name: "sadd", words: "SADD myset element:__rand_int__" },
    Op { name: "hset", words: "HSET myhash element:__rand_int__ __data__" },
    Op { name: "spop", words: "SPOP myset" },
    Op { name: "zadd", words: "ZADD myzset __rand_int__ element:__rand_int__" },
    Op { name: "zpopmin", words: "ZPOPMIN myzset" },
    Op { name: "lrange_100", words: "LRANGE mylist 0 99" },
    Op { name: "lrange_300", words: "LRANGE mylist 0 299" },
    Op { name: "lrange_500", words: "LRANGE mylist 0 499" },
    Op { name: "lrange_600", words: "LRANGE mylist 0 599" },
    Op {
        name: "mset",
        words: "MSET key:__rand_int__ __data__ key:__rand_int__ __data__ key:__rand_int__ __data__ key:__rand_int__ __data__ \
                key:__rand_int__ __data__ key:__rand_int__ __data__ key:__rand_int__ __data__ key:__rand_int__ __data__ \
                key:__rand_int__ __data__ key:__rand_int__ __data__",
    },
];

/// Where the server is.
pub fn place(arguments: &Arguments) -> Place {
    match &arguments.socket {
        Some(path) => Place::Unix(path.clone()),
        None => Place::Tcp {
            host: arguments.host.clone().unwrap_or_else(|| "127.0.0.1".into()),
            port: arguments.port.unwrap_or(6379),
        },
    }
}

/// Runs every operation through the server.
///
/// # Errors
/// A line that says what failed.
pub fn run(arguments: &Arguments) -> Result<Vec<Line>, String> {
    if !arguments.command.is_empty() {
        let measured = measure(arguments, &arguments.command)?;
        return Ok(vec![Line { op: arguments.command[0].to_ascii_lowercase(), measured }]);
    }
    let mut lines = Vec::new();
    for name in arguments.ops() {
        let names = || OPS.iter().map(|op| op.name).collect::<Vec<_>>().join(", ");
        let op = OPS
            .iter()
            .find(|op| op.name == name)
            .ok_or_else(|| format!("'{name}' is none of {}", names()))?;
        if op.name.starts_with("lrange") {
            fill_list(arguments)?;
        }
        let words: Vec<String> = op.words.split_whitespace().map(String::from).collect();
        lines.push(Line { op: name, measured: measure(arguments, &words)? });
    }
    Ok(lines)
}

fn open(arguments: &Arguments) -> Result<Link, String> {
    let place = place(arguments);
    let mut link =
        Link::open(&place).map_err(|error| format!("Could not connect to {place}: {}", reason(&error)))?;
    let login = Login { password: arguments.password.clone(), ..Login::default() };
    match link.login(&login).map_err(|error| error.to_string())? {
        Some(refused) => Err(refused),
        None => Ok(link),
    }
}

fn fill_list(arguments: &Arguments) -> Result<(), String> {
    let mut link = open(arguments)?;
    let value = "x".repeat(arguments.value_size);
    for _ in 0..LIST_ELEMENTS {
        if let Value::Error(text) =
            link.call(&["LPUSH", "mylist", &value]).map_err(|error| error.to_string())?
        {
            return Err(format!("LPUSH: {}", String::from_utf8_lossy(&text)));
        }
    }
    Ok(())
}

/// A pipeline's bytes, and where the digits of its keys stand.
#[derive(Clone)]
struct Pipeline {
    bytes: Vec<u8>,
    digits: Vec<usize>,
}

impl Pipeline {
    fn new(words: &[String], value_bytes: usize, requests: u32) -> Pipeline {
        let value = "x".repeat(value_bytes);
        let words: Vec<&str> =
            words.iter().map(|word| if word == DATA { value.as_str() } else { word }).collect();
        let mut one = Vec::new();
        command(&words, &mut one);
        let bytes = one.repeat(requests as usize);
        let digits = memchr::memmem::find_iter(&bytes, PLACEHOLDER).collect();
        Pipeline { bytes, digits }
    }

    /// Picks new keys.
    fn pick(&mut self, spread: &Spread, random: &mut Random) {
        for at in &self.digits {
            write_digits(spread.pick(random), &mut self.bytes[*at..*at + DIGITS]);
        }
    }
}

/// Runs one command from all threads.
fn measure(arguments: &Arguments, words: &[String]) -> Result<Measured, String> {
    let spread = Spread::new(arguments.keys, arguments.zipf);
    let pipeline = Pipeline::new(words, arguments.value_size, arguments.pipeline);
    let threads = arguments.threads.clamp(1, arguments.connections.max(1));
    let budget = Budget { until: arguments.until(), taken: AtomicU64::new(0) };
    let start = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (spread, budget, start, pipeline) = (&spread, &budget, &start, &pipeline);
                scope.spawn(move || {
                    let connections =
                        (0..arguments.connections.max(1)).filter(|number| number % threads == thread).count();
                    let opened = Worker::open(arguments, spread, pipeline, connections, u64::from(thread));
                    // Every thread comes to the gate, even one that failed: the others would wait
                    // for ever.
                    start.wait();
                    opened?.run(budget)
                })
            })
            .collect();
        let mut all = Measured::new();
        for worker in workers {
            all.add(&worker.join().map_err(|_| "a worker panicked")??);
        }
        Ok(all)
    })
}

/// How many requests may still be sent, by all threads together.
struct Budget {
    until: Until,
    taken: AtomicU64,
}

impl Budget {
    /// Takes room for `requests` more.
    fn take(&self, requests: u64, start: Instant) -> bool {
        match self.until {
            Until::Calls(calls) => self.taken.fetch_add(requests, Ordering::Relaxed) < calls,
            Until::Time(time) => start.elapsed() < time,
        }
    }
}

/// A socket that can be polled.
trait Pollable: Read + Write + Source + Send {}
impl<S: Read + Write + Source + Send> Pollable for S {}

/// One connection and its pipeline.
struct Connection {
    socket: Box<dyn Pollable>,
    pipeline: Pipeline,
    sent: usize,
    sent_at: Instant,
    /// Replies that are still to come.
    open: u32,
    replies: Replies,
    input: Vec<u8>,
}

/// One thread's connections.
struct Worker<'a> {
    poll: Poll,
    connections: Vec<Connection>,
    spread: &'a Spread,
    random: Random,
    requests: u32,
    measured: Measured,
    /// Where replies are received.
    chunk: Vec<u8>,
    start: Instant,
    /// The first error that came back.
    error: Option<String>,
}

impl<'a> Worker<'a> {
    fn open(
        arguments: &Arguments,
        spread: &'a Spread,
        pipeline: &Pipeline,
        count: usize,
        thread: u64,
    ) -> Result<Worker<'a>, String> {
        let poll = Poll::new().map_err(|error| error.to_string())?;
        let mut connections = Vec::with_capacity(count);
        for token in 0..count {
            let socket = open(arguments)?.into_socket().ok_or("a segment has no connections")?;
            let mut socket = pollable(socket).map_err(|error| error.to_string())?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut *socket, Token(token), interest)
                .map_err(|error| error.to_string())?;
            connections.push(Connection {
                socket,
                pipeline: pipeline.clone(),
                sent: 0,
                sent_at: Instant::now(),
                open: 0,
                replies: Replies::default(),
                input: Vec::new(),
            });
        }
        Ok(Worker {
            poll,
            connections,
            spread,
            random: Random::new(arguments.seed ^ thread << 16),
            requests: arguments.pipeline,
            measured: Measured::new(),
            chunk: vec![0; CHUNK_BYTES],
            start: Instant::now(),
            error: None,
        })
    }

    fn run(mut self, budget: &Budget) -> Result<Measured, String> {
        self.start = Instant::now();
        let mut busy = 0;
        for number in 0..self.connections.len() {
            busy += usize::from(self.begin(number, budget)?);
        }
        let mut events = Events::with_capacity(1024);
        while busy > 0 {
            match self.poll.poll(&mut events, Some(PATIENCE)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other.map_err(|error| error.to_string())?,
            }
            if events.is_empty() {
                return Err(format!("no reply for {} seconds", PATIENCE.as_secs()));
            }
            for event in &events {
                let number = event.token().0;
                self.flush(number)?;
                if self.receive(number)? && !self.begin(number, budget)? {
                    busy -= 1;
                }
            }
        }
        self.measured.wall = self.start.elapsed();
        if let Some(text) = &self.error {
            eprintln!("The first error: {text}");
        }
        Ok(self.measured)
    }

    /// Sends the next pipeline, if there is one to send.
    fn begin(&mut self, number: usize, budget: &Budget) -> Result<bool, String> {
        if !budget.take(u64::from(self.requests), self.start) {
            return Ok(false);
        }
        let connection = &mut self.connections[number];
        connection.pipeline.pick(self.spread, &mut self.random);
        connection.sent = 0;
        connection.open = self.requests;
        connection.sent_at = Instant::now();
        self.flush(number)?;
        Ok(true)
    }

    /// Sends what the socket takes.
    fn flush(&mut self, number: usize) -> Result<(), String> {
        let connection = &mut self.connections[number];
        while connection.open > 0 && connection.sent < connection.pipeline.bytes.len() {
            match connection.socket.write(&connection.pipeline.bytes[connection.sent..]) {
                Ok(count) => connection.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("Error writing to the server: {}", reason(&error))),
            }
        }
        Ok(())
    }

    /// Takes the replies that are there. Returns whether these were the last of a pipeline.
    fn receive(&mut self, number: usize) -> Result<bool, String> {
        let connection = &mut self.connections[number];
        let was_open = connection.open > 0;
        loop {
            let count = match connection.socket.read(&mut self.chunk) {
                Ok(0) => return Err("Server closed the connection".into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(was_open && connection.open == 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("Error reading from the server: {}", reason(&error))),
            };
            connection.input.extend_from_slice(&self.chunk[..count]);
            let mut rest = connection.input.as_slice();
            let time = connection.sent_at.elapsed();
            let mut answered = 0;
            while let Some(value) = connection.replies.read(&mut rest).map_err(|error| error.to_string())? {
                answered += 1;
                match value {
                    Value::Error(text) => {
                        self.measured.errors += 1;
                        self.error.get_or_insert_with(|| String::from_utf8_lossy(&text).into_owned());
                    }
                    Value::Null => self.measured.misses += 1,
                    _ => {}
                }
            }
            (0..answered).for_each(|_| self.measured.record(time, 1));
            connection.open = connection.open.saturating_sub(answered);
            let taken = connection.input.len() - rest.len();
            connection.input.drain(..taken);
        }
    }
}

fn pollable(socket: Socket) -> io::Result<Box<dyn Pollable>> {
    Ok(match socket {
        Socket::Tcp(stream) => {
            stream.set_nonblocking(true)?;
            Box::new(mio::net::TcpStream::from_std(stream))
        }
        Socket::Unix(stream) => {
            stream.set_nonblocking(true)?;
            Box::new(mio::net::UnixStream::from_std(stream))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_gets_new_keys_of_the_same_length() {
        let words: Vec<String> = ["SET", "key:__rand_int__", "__data__"].map(String::from).to_vec();
        let mut pipeline = Pipeline::new(&words, 3, 2);
        pipeline.pick(&Spread::new(10, None), &mut Random::new(1));
        let text = String::from_utf8(pipeline.bytes.clone()).unwrap();
        assert_eq!(text.matches("$16\r\nkey:00000000000").count(), 2);
        assert_eq!(text.matches("$3\r\nxxx\r\n").count(), 2);
    }
}
