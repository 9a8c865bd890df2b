//! Two memories and a Redis, each in a network namespace of its own with a Sentinel, and one of them cut off: what was acknowledged is kept.
//!
//! ```text
//!   this process (br0, 10.77.0.254)---p1--[ memory one, Sentinel ]  10.77.0.1      clients beside it: by a Unix socket
//!                                  ---p2--[ memory two, Sentinel ]  10.77.0.2
//!                                  ---p3--[ redis-server, Sentinel ]  10.77.0.3
//! ```
//!
//! The test runs itself again in a namespace of its own, which needs root: elsewhere it says so and is left out.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use polder_testkit::answer::Answer;
use polder_testkit::logs::{World, ask, until};
use polder_testkit::process::{on_path, polder};
use polder_testkit::resp::Connection;

const INSIDE: &str = "POLDER_INSIDE_NAMESPACE";
const PORT: &str = "6379";
const SENTINEL_PORT: &str = "26379";

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status().is_ok_and(|done| done.success())
}

/// A network namespace, which goes with its processes.
struct Host {
    number: usize,
    keeper: Child,
    processes: Vec<Child>,
}

impl Host {
    fn new(number: usize) -> Host {
        let keeper = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "-n", "sleep", "100000"])
            .spawn()
            .expect("a namespace");
        let host = Host { number, keeper, processes: Vec::new() };
        let pid = host.keeper.id();
        let own = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
        let theirs = || std::fs::read_link(format!("/proc/{pid}/ns/net")).expect("a namespace");
        until("it has a namespace", || theirs() != own);
        assert!(ip(&format!("link add p{number} type veth peer name eth0 netns {pid}")), "a cable");
        assert!(ip(&format!("link set p{number} master br0 up")));
        let inside = |words: &str| host.command("ip", &words.split(' ').collect::<Vec<_>>()).status();
        for words in
            ["link set lo up", "link set eth0 up", &format!("addr add {}/24 dev eth0", host.address())]
        {
            assert!(inside(words).is_ok_and(|done| done.success()), "{words}");
        }
        host
    }

    fn address(&self) -> String {
        format!("10.77.0.{}", self.number)
    }

    /// A program in the namespace; it ends with this process.
    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        let pid = self.keeper.id().to_string();
        command.args(["--pdeathsig", "KILL", "nsenter", "-t", &pid, "-n", program]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn start(&mut self, program: &Path, words: &[&str], port: &str) {
        let child = self.command(program.to_str().expect("text"), words).spawn().expect("a process");
        self.processes.push(child);
        until("it listens", || TcpStream::connect(format!("{}:{port}", self.address())).is_ok());
    }

    /// The reply to a call that may be made twice: a Sentinel that changes a node's role closes its connections.
    fn call(&self, words: &[&str]) -> Answer {
        let mut reply = None;
        until("a reply", || {
            let connection = Connection::open(&format!("{}:{PORT}", self.address())).ok();
            reply = connection.and_then(|mut connection| connection.call(words).ok());
            reply.is_some()
        });
        reply.expect("it was waited for")
    }

    /// A line of INFO replication; nothing where there is none.
    fn told(&self, name: &str) -> String {
        let Answer::Bulk(text) = self.call(&["INFO", "replication"]) else { panic!("INFO replies a text") };
        let text = String::from_utf8_lossy(&text).into_owned();
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_default().to_owned()
    }

    /// Waits until this replica has all that its primary has.
    fn catch_up(&self, primary: &Host) {
        until("the replica has all", || {
            self.told("master_link_status") == "up"
                && self.told("slave_repl_offset") == primary.told("master_repl_offset")
        });
    }

    /// Pulls its cable out, or puts it in again.
    fn link(&self, state: &str) {
        assert!(ip(&format!("link set p{} {state}", self.number)));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for child in self.processes.iter_mut().chain([&mut self.keeper]) {
            let _ = (child.kill(), child.wait());
        }
    }
}

/// A memory on a host, whose clients beside it come by a Unix socket.
fn memory(host: &mut Host, world: &World, more: &[&str]) {
    let (address, socket) = (host.address(), format!("{}/socket", world.dir()));
    let mut flags = vec!["serve", "--port", PORT, "--bind", &address, "--protected-mode", "no"];
    flags.extend(["--segment", &world.segment, "--unixsocket", &socket]);
    flags.extend(["--replies-await-replicas", "1", "--replies-await-timeout", "300"]);
    let flags: Vec<&str> = flags.into_iter().chain(world.flags(more)).collect();
    host.start(&polder(), &flags, PORT);
}

/// The reply to a call beside a memory.
fn beside(world: &World, line: &str) -> String {
    let mut stream = UnixStream::connect(format!("{}/socket", world.dir())).expect("a connection");
    stream.write_all(format!("{line}\r\n").as_bytes()).expect("sent");
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).expect("a reply");
    reply.trim_end().to_owned()
}

fn sentinel(host: &mut Host, world: &World, program: &Path) {
    let file = format!("{}/sentinel-{}.conf", world.dir(), host.number);
    let lines = "sentinel monitor main 10.77.0.1 6379 2\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n";
    std::fs::write(&file, lines).expect("a file");
    let address = host.address();
    let words = [&file, "--sentinel", "--port", SENTINEL_PORT, "--bind", &address, "--protected-mode", "no"];
    host.start(program, &words, SENTINEL_PORT);
}

/// The primary that the Sentinel of a host knows, by its number.
fn primary_of(host: &Host) -> usize {
    let mut sentinel =
        Connection::open(&format!("{}:{SENTINEL_PORT}", host.address())).expect("a connection");
    let reply = sentinel.call(&["SENTINEL", "get-master-addr-by-name", "main"]).expect("a reply");
    let Answer::Array(words) = reply else { panic!("an address is a list") };
    let Answer::Bulk(address) = &words[0] else { panic!("an address is a text") };
    String::from_utf8_lossy(address)
        .rsplit('.')
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

/// Writes numbers until `count` are acknowledged; returns the last one. One that is not is written again at whatever primary there is by then.
fn write(hosts: &[Host], at: &dyn Fn() -> usize, from: u64, count: u64) -> u64 {
    for number in from..from + count {
        until("a write is acknowledged", || {
            let primary = at();
            let Ok(mut connection) = Connection::open(&format!("{}:{PORT}", hosts[primary - 1].address()))
            else {
                return false;
            };
            let is_written = |connection: &mut Connection| {
                let reply = connection.call(&["SET", &format!("k:{}", number % 20), &number.to_string()]);
                reply.is_ok_and(|reply| reply == Answer::Status("OK".into()))
            };
            // A memory waits by itself.
            let is_kept = |connection: &mut Connection| {
                primary != 3
                    || connection.call(&["WAIT", "1", "1000"]).is_ok_and(|count| count == Answer::Integer(1))
            };
            is_written(&mut connection) && is_kept(&mut connection)
        });
    }
    from + count - 1
}

fn are_kept(host: &Host, last: u64) {
    for number in last.saturating_sub(19)..=last {
        let kept = Answer::Bulk(number.to_string().into_bytes());
        assert_eq!(host.call(&["GET", &format!("k:{}", number % 20)]), kept);
    }
}

/// A primary is cut off, and clients beside it go on writing.
fn cut_off(program: &Path) {
    assert!(ip("link set lo up") && ip("link add br0 type bridge"), "a bridge");
    assert!(ip("addr add 10.77.0.254/24 dev br0") && ip("link set br0 up"));
    let (one, two) = (World::new("partition-one"), World::new("partition-two"));
    let mut hosts: Vec<Host> = (1..=3).map(Host::new).collect();
    memory(&mut hosts[0], &one, &[]);
    memory(&mut hosts[1], &two, &["--replicaof", "10.77.0.1 6379"]);
    let mut words = vec!["--port", PORT, "--bind", "10.77.0.3", "--protected-mode", "no", "--save", ""];
    words.extend(["--repl-diskless-sync-delay", "0", "--dir", two.dir(), "--replicaof", "10.77.0.1", PORT]);
    hosts[2].start(program, &words, PORT);
    for number in [1, 2] {
        hosts[number].catch_up(&hosts[0]);
    }
    for host in &mut hosts {
        sentinel(host, &one, program);
    }
    until("the Sentinels know each other and both replicas", || {
        let mut sentinel = Connection::open(&format!("10.77.0.1:{SENTINEL_PORT}")).expect("a connection");
        ask(&mut sentinel, "INFO sentinel").contains("slaves=2,sentinels=3")
    });
    let last = write(&hosts, &|| 1, 1, 50);
    hosts[0].link("down");
    // Its clients are told that what they write is not kept: no reply that says so was ever sent.
    for _ in 0..5 {
        let reply = beside(&one, "SET k:0 lost");
        assert!(reply.starts_with("-NOREPLICAS"), "{reply}");
    }
    until("the others have a primary", || primary_of(&hosts[1]) != 1 && primary_of(&hosts[2]) != 1);
    let new = primary_of(&hosts[1]);
    are_kept(&hosts[new - 1], last);
    let last = write(&hosts, &|| primary_of(&hosts[1]), last + 1, 50);
    hosts[0].link("up");
    until("the old primary follows", || {
        hosts[0].told("role") == "slave" && hosts[0].told("master_link_status") == "up"
    });
    let primary = primary_of(&hosts[1]);
    for number in (0..3).filter(|number| number + 1 != primary) {
        hosts[number].catch_up(&hosts[primary - 1]);
    }
    for host in &hosts {
        are_kept(host, last);
    }
    // The one that is no primary now cannot be cut off from anything: a replica that is, catches up.
    let replica = (0..3).find(|number| number + 1 != primary).expect("a replica");
    hosts[replica].link("down");
    let last = write(&hosts, &|| primary, last + 1, 50);
    hosts[replica].link("up");
    hosts[replica].catch_up(&hosts[primary - 1]);
    are_kept(&hosts[replica], last);
    println!("primaries: 1, then {primary}");
}

#[test]
fn what_was_acknowledged_outlives_a_partition() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    if std::env::var_os(INSIDE).is_some() {
        return cut_off(&program);
    }
    let probe = "ip link add br0 type bridge && ip link add p1 type veth peer name eth0";
    let may = Command::new("unshare").args(["-n", "sh", "-c", probe]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|done| done.success()) {
        return println!("no network namespaces with bridges for this user: left out");
    }
    let own = std::env::current_exe().expect("its path");
    let done = Command::new("unshare")
        .args(["-n", "setpriv", "--pdeathsig", "KILL"])
        .arg(own)
        .args(["--exact", "partition::what_was_acknowledged_outlives_a_partition", "--nocapture"])
        .env(INSIDE, "1")
        .status();
    assert!(done.expect("it runs").success());
}
