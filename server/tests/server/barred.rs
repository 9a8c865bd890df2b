//! A process that is stopped, or dies, while it holds the lock of a key: the server goes on without it.
//!
//! The process is this very test again, with the segment's name in its environment.
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use polder_engine::{Memory, Options};
use polder_table::Mode;
use polder_wire::resp::command;

use crate::door::{Client, Door};

/// Says whose segment the holder attaches.
const SEGMENT: &str = "POLDER_BARRED_SEGMENT";
const KEYS: u32 = 4_000;
/// The longest that a key may be unusable after its holder's death.
const STALL_MAX: Duration = Duration::from_millis(50);

/// The other process: it holds the lock until it is told to let go.
fn hold(segment: &str) -> ! {
    let options = Options { segment: segment.to_owned(), ..Options::default() };
    let memory = Memory::attach(&options).expect("the parent's segment");
    let txn = memory.table().begin(Mode::Write).expect("a seat");
    txn.declare(&[(0, b"held")]).expect("nobody else has it");
    println!("holds");
    std::io::stdin().read_line(&mut String::new()).expect("a pipe");
    drop(txn);
    // Without the report of a test, which is not read.
    std::process::exit(0)
}

/// A process that holds the lock of `held`, killed should the test end early.
struct Holder(Child);

impl Holder {
    fn start(door: &Door) -> Holder {
        let this = std::thread::current().name().expect("tests have names").to_owned();
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([&this, "--exact", "--nocapture"])
            .env(SEGMENT, &door.place.segment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("holds")), "the holder ended early");
        Holder(child)
    }

    fn signal(&self, which: &str) {
        assert!(
            Command::new("kill").args([which, &self.0.id().to_string()]).status().expect("kill").success()
        );
    }

    fn let_go(&mut self) {
        self.signal("-CONT");
        self.0.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of one thread with a held key, and keys of other extents, which have nothing to do with its bucket or its growth.
fn prepared() -> (Door, Vec<String>) {
    let door = Door::open("--threads 1");
    let mut client = door.client();
    assert_eq!(client.ask("SET held before"), "+OK");
    for number in 0..KEYS {
        assert_eq!(client.ask(&format!("SET key:{number} 1")), "+OK");
    }
    let extent = |key: &str| {
        door.place.memory.table().inspect(0, key.as_bytes()).expect("readable").expect("there").extent
    };
    let held = extent("held");
    let free: Vec<String> =
        (0..KEYS).map(|number| format!("key:{number}")).filter(|key| extent(key) != held).collect();
    assert!(free.len() > 10, "one extent holds everything, so this test shows nothing");
    (door, free)
}

/// Sends requests without waiting for their replies.
fn send(client: &mut Client<TcpStream>, lines: &[&str]) {
    let mut bytes = Vec::new();
    for line in lines {
        command(&line.split(' ').collect::<Vec<_>>(), &mut bytes);
    }
    client.write(&bytes);
}

/// What comes within a while, if anything does.
fn comes(client: &Client<TcpStream>) -> Option<String> {
    let (timeout, mut text) = (client.stream.read_timeout().expect("a socket"), [0; 200]);
    client.stream.set_read_timeout(Some(Duration::from_millis(30))).expect("a timeout");
    // An interruption is no reply.
    let mut tries = std::iter::repeat_with(|| client.stream.peek(&mut text));
    let seen = tries
        .find(|seen| !seen.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted))
        .expect("they never end");
    client.stream.set_read_timeout(timeout).expect("a timeout");
    match seen {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => Some(error.to_string()),
        Ok(count) => Some(text[..count].escape_ascii().to_string()),
    }
}

#[test]
fn a_stopped_holder_of_a_lock_delays_only_clients_that_want_it() {
    if let Ok(segment) = std::env::var(SEGMENT) {
        hold(&segment);
    }
    const NOTHING: [Option<String>; 5] = [const { None }; 5];
    let (door, free) = prepared();
    let mut holder = Holder::start(&door);
    holder.signal("-STOP");
    let [mut writer, mut queuer, mut watcher, mut piper, mut grouper, mut filler, mut other] =
        [(); 7].map(|()| door.client());
    send(&mut writer, &["SET held after EX 1000"]);
    assert_eq!([queuer.ask("MULTI"), queuer.ask("APPEND held x")], ["+OK", "+QUEUED"]);
    send(&mut queuer, &["EXEC"]);
    send(&mut watcher, &["WATCH held"]);
    let set = format!("SET {} 2", free[0]);
    send(&mut piper, &[&set, "SETRANGE held 0 p", "STRLEN held", "PING"]);
    send(&mut grouper, &["APPEND held 1", "APPEND held 2", "PING"]);
    // What makes the extent of the held key grow.
    let more: Vec<String> = (0..KEYS).map(|number| format!("SET more:{number} 1")).collect();
    send(&mut filler, &more.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(piper.reply(), "+OK");
    assert_eq!([&writer, &queuer, &watcher, &piper, &grouper].map(comes), NOTHING);

    assert_eq!(other.ask("GET held"), "$before");
    let mut times: Vec<Duration> = Vec::new();
    for key in free.iter().cycle().skip(1).take(5_000) {
        let began = Instant::now();
        assert_eq!(other.ask(&format!("INCR {key}"))[..1], *":");
        times.push(began.elapsed());
    }
    times.sort_unstable();
    assert!(times[times.len() / 2] < Duration::from_millis(5), "{times:?}");
    assert_eq!(other.ask("GET held"), "$before");
    assert_eq!([&writer, &queuer, &watcher, &piper, &grouper].map(comes), NOTHING);

    holder.let_go();
    assert_eq!(writer.reply(), "+OK");
    assert!(queuer.reply().starts_with("*[:"));
    assert_eq!(watcher.reply(), "+OK");
    assert!(piper.reply().starts_with(':'));
    assert!(piper.reply().starts_with(':'));
    assert_eq!(piper.reply(), "+PONG");
    assert_eq!(
        [grouper.reply(), grouper.reply(), grouper.reply()].map(|reply| reply.split_at(1).0.to_owned()),
        [":", ":", "+"]
    );
    assert!((0..KEYS).all(|_| filler.reply() == "+OK"));
    // However often they were tried.
    let calls = other.ask("INFO commandstats");
    for (name, count) in [("exec", 1), ("append", 3), ("watch", 1), ("setrange", 1), ("multi", 1)] {
        assert!(calls.contains(&format!("cmdstat_{name}:calls={count},")), "{name}: {calls}");
    }
}

#[test]
fn the_key_of_a_killed_holder_is_soon_written_by_a_waiting_client() {
    if let Ok(segment) = std::env::var(SEGMENT) {
        hold(&segment);
    }
    let (door, _) = prepared();
    let mut writer = door.client();
    // The best of a few: the machine may have other things to do.
    let stall = (0..5).map(|_| {
        let holder = Holder::start(&door);
        holder.signal("-STOP");
        send(&mut writer, &["SET held after"]);
        assert_eq!(comes(&writer), None);
        holder.signal("-KILL");
        let began = Instant::now();
        assert_eq!(writer.reply(), "+OK");
        began.elapsed()
    });
    let stall = stall.min().expect("some");
    assert!(stall < STALL_MAX, "{stall:?}");
}

#[test]
fn requests_of_a_half_closed_connection_run_when_the_lock_is_free() {
    if let Ok(segment) = std::env::var(SEGMENT) {
        hold(&segment);
    }
    let (door, _) = prepared();
    let mut holder = Holder::start(&door);
    holder.signal("-STOP");
    let [mut listener, mut gone, mut other] = [(); 3].map(|()| door.client());
    send(&mut listener, &["APPEND held -listener", "PING"]);
    listener.stream.shutdown(Shutdown::Write).expect("an open connection");
    send(&mut gone, &["APPEND held -gone"]);
    assert_eq!([&listener, &gone].map(comes), [None, None]);
    drop(gone);
    std::thread::sleep(Duration::from_millis(20));
    holder.let_go();
    assert!(listener.reply().starts_with(':'));
    assert_eq!(listener.reply(), "+PONG");
    assert!(listener.is_closed());
    let began = Instant::now();
    while !other.ask("INFO clients").contains("connected_clients:1") {
        assert!(began.elapsed() < Duration::from_secs(10), "{}", other.ask("INFO clients"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let held = other.ask("GET held");
    assert!(held.contains("-listener") && held.contains("-gone"), "{held}");
}

#[test]
fn a_client_that_waits_for_a_lock_can_be_killed_and_a_server_with_one_stops() {
    if let Ok(segment) = std::env::var(SEGMENT) {
        hold(&segment);
    }
    let (mut door, _) = prepared();
    let mut holder = Holder::start(&door);
    holder.signal("-STOP");
    let [mut gone, mut other] = [(); 2].map(|()| door.client());
    let id: i64 = gone.ask("CLIENT ID")[1..].parse().expect("a number");
    send(&mut gone, &["SET held gone"]);
    assert_eq!(comes(&gone), None);
    assert_eq!(other.ask(&format!("CLIENT KILL ID {id}")), ":1");
    assert!(gone.is_closed());
    let mut last = door.client();
    send(&mut last, &["SET held last"]);
    assert_eq!(comes(&last), None);
    let began = Instant::now();
    door.close();
    assert!(began.elapsed() < Duration::from_secs(8));
    holder.let_go();
}
