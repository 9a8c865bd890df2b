//! Operations over RESP, by a server in this process: what its thread does from the bytes of a request to those of the reply. What a turn does beside
//! that (poll, inbox, timers) is not counted: how many turns a request takes depends on which thread runs first.
//!
//! A pipeline is sent when the server's thread sleeps: every pipeline is then read by one turn, and the next turn finds nothing. Whether a turn meets the
//! next pipeline would depend on which thread runs first.
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use polder_calls::settings::file;
use polder_engine::Memory;
use polder_persist::persistence::load::Loaded;
use polder_runtime::configuration::Configuration;
use polder_server::Server;

use crate::{Failure, dumped, operations};

/// Of which the driver takes the least: what the server's thread does by the clock, every second, adds to some of them.
const ROUNDS: usize = 5;
/// Requests of a round, and pipelines at most.
const REQUESTS: usize = 2048;
const PIPELINES_MAX: usize = 64;
/// Between two looks whether the server's thread sleeps.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
const KEYS: usize = 256;

/// A request, where `@` is the number of a key, and the bytes of its reply.
struct Request {
    name: &'static str,
    /// RESP's commands, or one request of memcached with its ends of lines.
    lines: &'static [&'static str],
    reply_bytes: usize,
    pipeline: usize,
    /// Counted with the change log on, too.
    logged: bool,
}

impl Request {
    const fn logged(mut self) -> Request {
        self.logged = true;
        self
    }
}

const fn request(
    name: &'static str,
    lines: &'static [&'static str],
    reply_bytes: usize,
    pipeline: usize,
) -> Request {
    Request { name, lines, reply_bytes, pipeline, logged: false }
}

const GET: &[&str] = &["GET key:@"];
const SET: &[&str] = &["SET key:@ 0123456789abcdef"];
const ITEM_SET: &[&str] = &["set item:@ 5 0 16\r\n0123456789abcdef\r\n"];
const OK_BYTES: usize = "+OK\r\n".len();
const VALUE_BYTES: usize = "$16\r\n0123456789abcdef\r\n".len();
const QUEUED_BYTES: usize = "+QUEUED\r\n".len();

const EXEC: &[&str] = &[
    "MULTI",
    "SET key:@ 0123456789abcdef",
    "GET key:@",
    "SET key:@ 0123456789abcdef",
    "GET key:@",
    "SET key:@ 0123456789abcdef",
    "GET key:@",
    "SET key:@ 0123456789abcdef",
    "GET key:@",
    "SET key:@ 0123456789abcdef",
    "GET key:@",
    "EXEC",
];
const EXEC_BYTES: usize = OK_BYTES + 10 * QUEUED_BYTES + "*10\r\n".len() + 5 * (OK_BYTES + VALUE_BYTES);

const COUNTED: &[Request] = &[
    request("RESP SET", SET, OK_BYTES, 1),
    request("RESP GET", GET, VALUE_BYTES, 1),
    request("RESP SET, 16 at once", SET, OK_BYTES, 16),
    request("RESP GET, 16 at once", GET, VALUE_BYTES, 16),
    request("RESP SET, 128 at once", SET, OK_BYTES, 128),
    request("RESP GET, 128 at once", GET, VALUE_BYTES, 128),
    request("RESP INCR, 16 at once", &["INCR number:@"], ":1000000\r\n".len(), 16),
    request("RESP SET EX, 16 at once", &["SET lasting:@ 0123456789abcdef EX 1000"], OK_BYTES, 16),
    request("RESP LPUSH, 16 at once", &["LPUSH short:@ element"], ":1\r\n".len(), 16),
    request("RESP LPOP, 16 at once", &["LPOP short:@"], "$7\r\nelement\r\n".len(), 16),
    request("RESP EXEC of 10", EXEC, EXEC_BYTES, 1),
    request("memcached set with flags, 16 at once", ITEM_SET, "STORED\r\n".len(), 16).logged(),
];

/// What the rounds find.
const PREPARED: [(&str, usize); 3] = [
    ("SET number:@ 1000000", OK_BYTES),
    ("SET key:@ 0123456789abcdef", OK_BYTES),
    ("SET lasting:@ 0123456789abcdef EX 100", OK_BYTES),
];

/// What is done beside a server, by a client of it.
type Work<'w> = &'w mut dyn FnMut(&mut Client) -> Result<(), Failure>;

/// The only client of a server in this process.
pub struct Client {
    socket: UnixStream,
    /// Requests in memcached's protocol.
    items: UnixStream,
    memory: Arc<Memory>,
}

impl Client {
    /// Waits until the server's thread sleeps in its poll.
    fn await_sleep(&self) {
        let segment = self.memory.table().segment();
        while !(0..segment.seats_high()).any(|seat| segment.sleeps_in_poll(seat)) {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Runs a server in this process for as long as `work` takes.
pub fn with_server(memory: &Arc<Memory>, work: Work<'_>) -> Result<(), Failure> {
    let path = std::env::temp_dir().join(format!("polder-counts-{}.sock", std::process::id()));
    let items_path = path.with_extension("items");
    let flags = [
        "--port",
        "0",
        "--threads",
        "1",
        "--save",
        "",
        "--enable-debug-command",
        "yes",
        "--unixsocket",
        &path.to_string_lossy(),
        "--memcache-unixsocket",
        &items_path.to_string_lossy(),
    ];
    let (_, flags) = file::flags(&flags.map(String::from)).map_err(|wrong| wrong.to_string())?;
    let settings = Arc::new(Configuration::begin(None, &[], &flags).map_err(|wrong| wrong.to_string())?);
    settings.join(memory.table()).map_err(|stop| stop.to_string())?;
    let server =
        Server::start(memory.clone(), settings, Loaded::default()).map_err(|failure| failure.to_string())?;
    let done = UnixStream::connect(&path).map_err(Failure::from).and_then(|socket| {
        let items = UnixStream::connect(&items_path)?;
        work(&mut Client { socket, items, memory: memory.clone() })
    });
    server.stopper()();
    server.wait();
    done
}

/// A request that is answered OK.
pub fn order(client: &mut Client, line: &str) -> Result<(), Failure> {
    exchange(client, &pipelines(&[line], 1, 1), OK_BYTES)
}

/// Counts all of them.
pub fn measure(client: &mut Client) -> Result<(), Failure> {
    for (line, bytes) in PREPARED {
        exchange(client, &pipelines(&[line], KEYS, 16), 16 * bytes)?;
    }
    COUNTED.iter().try_for_each(|request| count(client, request, ""))?;
    client.memory.table().log().turn_on()?;
    COUNTED
        .iter()
        .filter(|request| request.logged)
        .try_for_each(|request| count(client, request, operations::LOGGED))?;
    Ok(client.memory.table().log().turn_off()?)
}

fn count(client: &mut Client, request: &Request, suffix: &str) -> Result<(), Failure> {
    for _ in 0..ROUNDS {
        let many = if request.lines[0].contains("short") {
            KEYS
        } else {
            REQUESTS.min(PIPELINES_MAX * request.pipeline)
        };
        let pipelines = pipelines(request.lines, many, request.pipeline);
        let mut outcome = Ok(());
        // What the server's thread has done before.
        dumped(&mut || ());
        println!("\t0");
        dumped(&mut || outcome = exchange(client, &pipelines, request.pipeline * request.reply_bytes));
        outcome.map_err(|error| format!("{}{suffix}: {error}", request.name))?;
        println!("{}{suffix}\t{}", request.name, pipelines.len() * request.pipeline);
        if !suffix.is_empty() {
            // Each round begins with the same.
            client.memory.table().log().merge()?;
        }
    }
    Ok(())
}

/// The lines `many` times, in writes of `at_once`.
fn pipelines(lines: &[&str], many: usize, at_once: usize) -> Vec<Vec<u8>> {
    let framed = |number: usize| -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            let line = line.replace('@', &format!("{:08}", number % KEYS));
            if line.ends_with("\r\n") {
                bytes.extend(line.into_bytes());
                continue;
            }
            let words: Vec<&str> = line.split(' ').collect();
            bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
            words.iter().for_each(|word| bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes()));
        }
        bytes
    };
    let all: Vec<Vec<u8>> = (0..many).map(framed).collect();
    all.chunks_exact(at_once).map(|chunk| chunk.concat()).collect()
}

/// Sends each pipeline when the replies of the one before are there.
fn exchange(client: &mut Client, pipelines: &[Vec<u8>], reply_bytes: usize) -> Result<(), Failure> {
    let mut replies = vec![0; reply_bytes];
    for pipeline in pipelines {
        client.await_sleep();
        let socket = if pipeline.starts_with(b"*") { &mut client.socket } else { &mut client.items };
        socket.write_all(pipeline)?;
        socket.read_exact(&mut replies)?;
        if replies.contains(&b'-') {
            return Err(replies.escape_ascii().to_string().into());
        }
    }
    // What the last one leaves to do belongs to it.
    client.await_sleep();
    Ok(())
}
