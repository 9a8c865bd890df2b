//! Ten thousand clients that do nothing, at each door: what the server keeps for one of them.
//!
//! The clients live in a process of their own, this program again: one process may have too few descriptors for both ends.
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use polder_testkit::process::free_port;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::door::{Door, PATIENCE};
use crate::{alone, resident};

const CLIENTS: usize = 10_000;
/// Descriptors of a process that are no clients.
const OTHERS: usize = 200;
/// What one client may take in the server, in bytes: its session, its record, and its place in lists; no buffer.
const CLIENT_BYTES_MAX: u64 = 6 << 10;
/// What tells the second process where to connect: port, number, request.
const ORDER: &str = "POLDER_IDLE_CLIENTS";
const NAME: &str = "idle::clients_of_another_process";
const CONNECTED: &str = "all are connected";

/// How many clients the descriptors of a process allow here, after the limit is raised as far as it goes.
fn clients() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // What cannot be raised stays, and fewer clients come.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize);
    CLIENTS.min(most.saturating_sub(OTHERS))
}

/// No test: what the second process does. Each client makes one request, and then none.
#[test]
fn clients_of_another_process() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let [port, count, request] = order.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{order}") };
    let (port, count): (u16, usize) = (port.parse().expect("a port"), count.parse().expect("a number"));
    assert!(clients() >= count, "too few descriptors");
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.write_all(request.replace("\\r\\n", "\r\n").as_bytes()).expect("the server takes bytes");
        assert!(stream.read(&mut [0; 1024]).expect("a reply") > 0, "closed");
        streams.push(stream);
    }
    println!("{CONNECTED}");
    // Until the first process has seen enough.
    let _ = std::io::stdin().read(&mut [0]);
}

/// The second process. It can say more as long as its output is read.
struct Crowd {
    child: Child,
    _said: Lines<BufReader<ChildStdout>>,
}

/// Starts the second process, and waits until its clients are there.
fn connect(port: u16, count: usize, request: &str) -> Crowd {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command
        .args([NAME, "--exact", "--nocapture"])
        .env(ORDER, format!("{port} {count} {}", request.replace("\r\n", "\\r\\n")));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    let mut said = BufReader::new(child.stdout.take().expect("its output")).lines();
    assert!(said.any(|line| line.is_ok_and(|line| line.contains(CONNECTED))), "the clients do not connect");
    Crowd { child, _said: said }
}

#[test]
fn ten_thousand_idle_clients_take_little_memory_at_each_door() {
    let _alone = alone();
    let count = clients();
    let ports = [(); 2].map(|()| free_port().expect("a free port"));
    let flags = format!(
        "--threads 2 --maxclients 12000 --memcache-port {} --http-port {} --http-idle-timeout 0",
        ports[0], ports[1]
    );
    let door = Door::open(&flags);
    let mut admin = door.client();
    let connected = |admin: &mut crate::door::Client<TcpStream>| {
        let info = admin.ask("INFO clients");
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("connected_clients:"))
            .expect("a figure")
            .trim()
            .to_owned();
        line.parse::<usize>().expect("a number")
    };
    // What clients that have gone leave is used again, so each figure is the most of those up to it.
    let before = resident();
    for (name, port, request) in [
        ("RESP", door.address.port(), "PING\r\n"),
        ("memcached", ports[0], "mn\r\n"),
        ("HTTP", ports[1], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ] {
        let mut crowd = connect(port, count, request);
        assert_eq!(connected(&mut admin), count + 1, "{name}");
        let bytes = resident().saturating_sub(before) / count as u64;
        println!("{name}: {count} idle clients, at most {bytes} bytes each");
        assert!(bytes <= CLIENT_BYTES_MAX, "{name}: {bytes} bytes each");
        // They hold no other client up.
        let began = Instant::now();
        (0..1000).for_each(|_| assert_eq!(admin.ask("PING"), "+PONG"));
        assert!(began.elapsed() < Duration::from_secs(5), "{name}: {:?}", began.elapsed());
        drop(crowd.child.stdin.take());
        assert!(crowd.child.wait().expect("its end").success(), "{name}");
        let until = Instant::now() + PATIENCE;
        while connected(&mut admin) != 1 {
            assert!(Instant::now() < until, "{name}: {} are left", connected(&mut admin));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
