//! Calls that set more in motion than one key: streams and their groups, scripts, transactions,
//! messages. What an operation costs the server in CPU time, since the asking and listening clients
//! take as long.
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use mio::{Events, Interest, Poll, Token};

use super::network::{Test, cpu_ns, measure, report, rivals};
use super::{Figures, Scale, median};
use crate::process::Server;
use crate::resp::{Connection, framed};

/// Requests that are under way at a time.
const BATCH: u64 = 64;
const GET: &str = "return\u{1}redis.call('GET',KEYS[1])";
const SET: &str = "return\u{1}redis.call('SET',KEYS[1],ARGV[1])";
const GET_SHA1: &str = "620cd258c2c9c88c9d10db67812ccf663d96bdc6";
const EVENTS_MAX: usize = 1024;

/// Measures one kind of operation on a server: nanoseconds of its CPU time for each.
type Drive = fn(&Server, &Scale) -> Result<f64, String>;

const DRIVEN: [(&str, Drive); 5] = [
    ("MULTI, ten commands, EXEC", exec),
    ("XREADGROUP and XACK", group),
    ("PUBLISH to 1", |server, scale| publish(server, 1, scale.of(100_000))),
    ("PUBLISH to 100", |server, scale| publish(server, 100, scale.of(10_000))),
    ("PUBLISH to 10,000", |server, scale| publish(server, 10_000, scale.of(1_000))),
];

/// CPU time of XADD, scripts of one line, MULTI and EXEC, XREADGROUP with XACK, and PUBLISH, and ratios.
///
/// # Errors
/// When a server or redis-benchmark fails.
pub fn calls(scale: &Scale) -> Result<Figures, String> {
    let test = |name, words: String| Test {
        name,
        words: format!("-P {BATCH} {words}"),
        requests: scale.of(500_000),
        settings: &[],
    };
    let tests = [
        test("XADD", "XADD stream * field 0123456789abcdef".into()),
        test("EVAL of a number", "EVAL return\u{1}1 0".into()),
        test("EVAL of GET", format!("EVAL {GET} 1 key")),
        test("EVALSHA of GET", format!("EVALSHA {GET_SHA1} 1 key")),
        test("EVAL of SET", format!("EVAL {SET} 1 key value")),
        test("EVAL of SET, random keys", format!("-r 100000 EVAL {SET} 1 key:__rand_int__ value")),
        test("EVAL of a sum, by Lua", "EVAL return\u{1}redis.call('INCR',KEYS[1])+1 1 number".into()),
    ];
    let rivals = rivals(scale)?;
    let mut figures = report(&measure(&rivals, scale, &tests)?, "cpu ns", |run| run.cpu_ns);
    for (name, drive) in DRIVEN {
        let mut costs = vec![Vec::new(); rivals.len()];
        for _ in 0..scale.rounds {
            for (rival, costs) in rivals.iter().zip(&mut costs) {
                let server = (rival.start)().map_err(|error| format!("{}: {error}", rival.name))?;
                costs
                    .push(drive(&server, scale).map_err(|error| format!("{name}, {}: {error}", rival.name))?);
            }
        }
        let costs: Vec<f64> = costs.into_iter().map(median).collect();
        figures.extend(
            rivals.iter().zip(&costs).map(|(rival, cost)| (format!("{name} {} cpu ns", rival.name), *cost)),
        );
        let ratios = rivals.iter().zip(&costs).skip(1);
        figures
            .extend(ratios.map(|(rival, cost)| (format!("{name} polder / {}", rival.name), costs[0] / cost)));
    }
    Ok(figures)
}

/// Sends what is framed, again and again, and waits for `replies` replies each time.
fn repeat(server: &Server, requests: &[u8], replies: u64, times: u64) -> std::io::Result<()> {
    let mut connection = Connection::open(&server.address())?;
    for _ in 0..times {
        connection.send_framed(requests)?;
        (0..replies).try_for_each(|_| connection.receive().map(drop))?;
    }
    Ok(())
}

fn exec(server: &Server, scale: &Scale) -> Result<f64, String> {
    let mut requests = framed(&["MULTI"]);
    for number in 0..5 {
        requests.extend(framed(&["SET", &format!("key:{number}"), "0123456789abcdef"]));
        requests.extend(framed(&["GET", &format!("key:{number}")]));
    }
    requests.extend(framed(&["EXEC"]));
    let (many, times) = (BATCH / 4, scale.of(6_000));
    let before = cpu_ns(server.pid());
    repeat(server, &requests.repeat(many as usize), many * 12, times).map_err(|error| error.to_string())?;
    Ok((cpu_ns(server.pid()) - before) / (many * times) as f64)
}

/// Entries are read one by one and acknowledged.
fn group(server: &Server, scale: &Scale) -> Result<f64, String> {
    let times = scale.of(3_000);
    let drive = || -> std::io::Result<f64> {
        let mut connection = Connection::open(&server.address())?;
        connection.call(&["XGROUP", "CREATE", "stream", "group", "0", "MKSTREAM"])?;
        repeat(
            server,
            &framed(&["XADD", "stream", "1-*", "field", "0123456789abcdef"]).repeat(BATCH as usize),
            BATCH,
            times,
        )?;
        let read =
            framed(&["XREADGROUP", "GROUP", "group", "consumer", "COUNT", "1", "STREAMS", "stream", ">"])
                .repeat(BATCH as usize);
        let before = cpu_ns(server.pid());
        for first in (0..times).map(|time| time * BATCH + 1) {
            let acknowledge: Vec<u8> = (first..first + BATCH)
                .flat_map(|number| framed(&["XACK", "stream", "group", &format!("1-{number}")]))
                .collect();
            for requests in [&read, &acknowledge] {
                connection.send_framed(requests)?;
                (0..BATCH).try_for_each(|_| connection.receive().map(drop))?;
            }
        }
        Ok((cpu_ns(server.pid()) - before) / (times * BATCH) as f64)
    };
    drive().map_err(|error| error.to_string())
}

fn publish(server: &Server, subscribers: usize, messages: u64) -> Result<f64, String> {
    publish_to(server, subscribers, messages).map_err(|error| error.to_string())
}

/// Publishes to subscribers that read everything; up to 64 messages under way, fewer if very many
/// listen.
fn publish_to(server: &Server, subscribers: usize, messages: u64) -> std::io::Result<f64> {
    const SUBSCRIBED: usize = "*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n".len();
    let mut publisher = Connection::open(&server.address())?;
    publisher.call(&["CONFIG", "SET", "maxclients", &(subscribers + 100).max(10_000).to_string()])?;
    let mut poll = Poll::new()?;
    let mut listeners = Vec::with_capacity(subscribers);
    for number in 0..subscribers {
        let mut listener = TcpStream::connect(server.address())?;
        listener.write_all(&framed(&["SUBSCRIBE", "channel"]))?;
        listener.read_exact(&mut [0; SUBSCRIBED])?;
        listener.set_nonblocking(true)?;
        let mut listener = mio::net::TcpStream::from_std(listener);
        poll.registry().register(&mut listener, Token(number), Interest::READABLE)?;
        listeners.push(listener);
    }
    let payload = "0123456789abcdef";
    let message = framed(&["message", "channel", payload]).len() as u64;
    let many = if subscribers > 1_000 { 8 } else { BATCH };
    let requests = framed(&["PUBLISH", "channel", payload]).repeat(many as usize);
    let (mut events, mut buffer) = (Events::with_capacity(EVENTS_MAX), vec![0; 64 << 10]);
    let (times, before) = (messages.div_ceil(many), cpu_ns(server.pid()));
    for _ in 0..times {
        publisher.send_framed(&requests)?;
        (0..many).try_for_each(|_| publisher.receive().map(drop))?;
        let mut missing = message * subscribers as u64 * many;
        while missing > 0 {
            poll.poll(&mut events, None)?;
            for event in &events {
                missing = missing.saturating_sub(take_all(&mut listeners[event.token().0], &mut buffer)?);
            }
        }
    }
    Ok((cpu_ns(server.pid()) - before) / (times * many) as f64)
}

/// Reads what has come. Returns how many bytes.
fn take_all(listener: &mut mio::net::TcpStream, buffer: &mut [u8]) -> std::io::Result<u64> {
    let mut taken = 0;
    loop {
        match listener.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => taken += count as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(taken),
            Err(error) => return Err(error),
        }
    }
}
