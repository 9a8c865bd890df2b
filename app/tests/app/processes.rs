//! Several server processes and callers on one segment: in PID namespaces of their own, replaced one by one under load, in the order in which
//! their clients came.
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, mpsc};
use std::time::{Duration, Instant};

use polder_engine::{Caller, Item, Memory, Options};
use polder_shm::layout::{self, header};
use polder_testbase::{PATIENCE, until};
use polder_testkit::answer::Answer;
use polder_testkit::process::{Server, free_port};
use polder_testkit::resp::Connection;

use crate::stage::{Segment, connect};

fn ask(client: &mut Connection, line: &str) -> Answer {
    client.call(&line.split(' ').collect::<Vec<_>>()).expect("a reply")
}

/// A server in a PID namespace of its own; `None` where that is not permitted.
fn serve_apart(segment: &Segment, threads: usize) -> Option<Server> {
    let apart = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let permitted =
        Command::new("unshare").args(apart).arg("true").output().is_ok_and(|output| output.status.success());
    if !permitted {
        println!("skipped: no right to make a PID namespace (unshare --pid --mount-proc)");
        return None;
    }
    let program = env!("CARGO_BIN_EXE_polder");
    let threads = threads.to_string();
    let flags = [program, "serve", "--port", "{port}", "--threads", &threads, "--segment", &segment.0];
    Some(Server::start(Path::new("unshare"), &[&apart, &flags[..]].concat()).expect("a server"))
}

#[test]
fn the_death_of_a_server_in_another_pid_namespace_is_noticed() {
    let segment = Segment::new();
    let one = segment.serve(&["--threads", "2"]);
    let mut here = connect(&one);
    for round in 0..4 {
        let Some(mut other) = serve_apart(&segment, 2) else { return };
        let (mut hearer, mut waiter) = (connect(&other), connect(&other));
        // What is stored is the same from both sides.
        ask(&mut here, &format!("SET round {round}"));
        assert_eq!(ask(&mut hearer, "GET round"), Answer::Bulk(round.to_string().into_bytes()));
        ask(&mut hearer, "SUBSCRIBE news");
        let places = |segment: &Segment| {
            let options = Options { segment: segment.0.clone(), create: false, ..Options::default() };
            Memory::attach(&options).expect("attached").table().segment().observe(header::TICKETS)
        };
        let before = places(&segment);
        waiter.send(&["BLPOP", "queue", "0"]).expect("sent");
        until("who waits", || places(&segment) > before);
        assert_eq!(ask(&mut here, "PUBLISH news hello"), Answer::Integer(1));
        // Writers in both namespaces on the same keys, and one of them dies: pinned, locked, in the middle of whatever it does.
        let over = AtomicBool::new(false);
        let address = other.address();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut there = Connection::open(&address).expect("a connection");
                    let big = "x".repeat(20_000);
                    while !over.load(Ordering::Relaxed)
                        && there.call(&["MSET", "a", &big, "b", &big, "c", "1"]).is_ok()
                    {
                        let _ = there.call(&["MGET", "a", "b"]);
                    }
                });
            }
            let mut slowest = Duration::ZERO;
            for turn in 0..300 {
                let begun = Instant::now();
                assert_eq!(ask(&mut here, "MSET a 1 b 1 c 1"), Answer::Status("OK".into()));
                slowest = slowest.max(begun.elapsed());
                if turn == 150 {
                    other.kill();
                }
            }
            over.store(true, Ordering::Relaxed);
            assert!(slowest < Duration::from_secs(10), "a write stood still for {slowest:?}");
        });
        until("the end of its subscriptions", || ask(&mut here, "PUBLISH news gone") == Answer::Integer(0));
        // Nor does its waiter take anything with it.
        assert_eq!(ask(&mut here, "RPUSH queue element"), Answer::Integer(1));
        assert_eq!(ask(&mut here, "LPOP queue"), Answer::Bulk(b"element".to_vec()));
    }
    segment.verify();
}

/// Sends a signal to the server that runs apart, which is the child of what began it.
fn signal_apart(server: &Server, which: &str) {
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid()))
        .expect("the system tells of children");
    assert!(
        Command::new("kill").args([which, children.trim()]).status().is_ok_and(|status| status.success()),
        "kill {which} {children}"
    );
}

#[test]
fn a_stopped_process_of_another_pid_namespace_is_waited_for_once_however_many_of_its_threads_wait() {
    const THREADS: usize = 6;
    let segment = Segment::new();
    let one = segment.serve(&[]);
    let Some(other) = serve_apart(&segment, THREADS) else { return };
    let memory = attach(&segment);
    let (mut second, mut actor) = (connect(&one), connect(&one));
    // Each goes to the thread with the fewest.
    let mut first: Vec<Connection> = (0..THREADS).map(|_| connect(&other)).collect();
    first.iter_mut().for_each(|waiter| wait_in_line(&memory, waiter, "BLPOP q 0"));
    wait_in_line(&memory, &mut second, "BLPOP q 0");
    signal_apart(&other, "-STOP");
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    assert_eq!(ask(&mut actor, "RPUSH q a"), Answer::Integer(1));
    assert_eq!(popped(&mut second), pair("q", "a"));
    // One to two seconds; one thread after the other takes that for each.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // They are there again.
    wait_in_line(&memory, &mut second, "BLPOP q 0");
    signal_apart(&other, "-CONT");
    (0..=THREADS).for_each(|number| drop(ask(&mut actor, &format!("RPUSH q {number}"))));
    let served: BTreeSet<String> = first.iter_mut().chain([&mut second]).map(popped).collect();
    assert_eq!(served, (0..=THREADS).map(|number| pair("q", &number.to_string())).collect());
    segment.verify();
}

/// A client that takes another server when its own goes, as clients do. A server's reply is never
/// an error.
fn push_on(addresses: &RwLock<Vec<String>>, over: &AtomicBool, name: usize) -> Vec<String> {
    let (mut connection, mut acknowledged) = (None::<Connection>, Vec::new());
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        let Some(open) = &mut connection else {
            let address = addresses.read().expect("sound").get(name % 2).cloned().unwrap_or_default();
            connection = Connection::open(&address).ok();
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        number += 1;
        let token = format!("{name}.{number}");
        match open.call(&["RPUSH", "log", &token]) {
            Ok(Answer::Integer(_)) => acknowledged.push(token),
            Ok(other) => panic!("RPUSH answers {}", other.shown()),
            // The connection's end: it is not known whether this push happened.
            Err(_) => connection = None,
        }
    }
    acknowledged
}

#[test]
fn servers_are_replaced_one_by_one_and_clients_that_reconnect_lose_nothing() {
    let segment = Segment::new();
    let start = |version: &str| segment.serve(&["--threads", "2", "--redis-version", version]);
    let mut servers = vec![start("7.4.1"), start("7.4.1")];
    let addresses = RwLock::new(servers.iter().map(Server::address).collect::<Vec<_>>());
    let over = AtomicBool::new(false);
    let mut acknowledged = Vec::new();
    std::thread::scope(|scope| {
        let (addresses, over) = (&addresses, &over);
        let clients: Vec<_> =
            (0..4).map(|name| scope.spawn(move || push_on(addresses, over, name))).collect();
        for at in 0..4 {
            std::thread::sleep(Duration::from_millis(200));
            // Old and new serve side by side for a while; then the old one is asked to end, as an init system does.
            let new = start("7.4.2");
            addresses.write().expect("sound")[at % 2] = new.address();
            let old = std::mem::replace(&mut servers[at % 2], new);
            std::thread::sleep(Duration::from_millis(100));
            assert!(
                Command::new("kill")
                    .args(["-TERM", &old.pid().to_string()])
                    .status()
                    .is_ok_and(|status| status.success())
            );
            until("the old server's end", || Connection::open(&old.address()).is_err());
        }
        std::thread::sleep(Duration::from_millis(200));
        over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| acknowledged.extend(client.join().expect("no error")));
    });
    let mut client = connect(&servers[0]);
    let Answer::Array(items) = ask(&mut client, "LRANGE log 0 -1") else { panic!("no list") };
    let kept: BTreeSet<String> =
        items.into_iter().map(|item| item.shown().trim_matches('"').to_string()).collect();
    let lost: Vec<&String> = acknowledged.iter().filter(|token| !kept.contains(*token)).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), acknowledged.len());
    assert!(acknowledged.len() > 100, "only {} were acknowledged", acknowledged.len());
    assert!(ask(&mut client, "INFO server").shown().contains("7.4.2"));
    drop(servers);
    segment.verify();
}

#[test]
fn the_death_of_a_server_is_counted_and_told_by_those_that_live() {
    let segment = Segment::new();
    let (mut killed, alive) = (segment.serve(&[]), segment.serve(&[]));
    ask(&mut connect(&killed), "SET k v");
    killed.kill();
    let mut client = connect(&alive);
    until("the recovery", || match ask(&mut client, "INFO") {
        Answer::Bulk(text) => String::from_utf8_lossy(&text)
            .lines()
            .any(|line| line.starts_with("recoveries:") && line != "recoveries:0"),
        other => panic!("{other:?}"),
    });
    segment.verify();
}

#[test]
fn a_segment_of_another_layout_is_refused_with_the_way_out() {
    let path = std::env::temp_dir().join(format!(
        "polder-layout-{}-{}",
        std::process::id(),
        free_port().expect("a port")
    ));
    let segment = Segment(format!("file:{}", path.display()));
    let set = |expected: bool| {
        let mut server = segment.serve(&[]);
        let found = ask(&mut connect(&server), "GETSET k v");
        assert_eq!(found == Answer::Bulk(b"v".to_vec()), expected);
        assert!(Command::new("kill").args(["-TERM", &server.pid().to_string()]).status().is_ok());
        until("the server's end", || Connection::open(&server.address()).is_err());
        server.kill();
    };
    set(false);
    let patch = |layout: u32| {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
        file.write_all_at(&layout.to_le_bytes(), header::LAYOUT).expect("written");
    };
    patch(layout::LAYOUT + 1);
    let port = free_port().expect("a port").to_string();
    let refused = |args: &[&str]| {
        let output = Command::new("timeout")
            .arg("20")
            .arg(env!("CARGO_BIN_EXE_polder"))
            .args(args)
            .output()
            .expect("polder runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success(), "{args:?}: {text}");
        let number = format!("layout {}", layout::LAYOUT + 1);
        for part in [number.as_str(), "polder export", "polder import"] {
            assert!(text.contains(part), "{args:?}: {text}");
        }
    };
    refused(&["serve", "--port", &port, "--segment", &segment.0]);
    refused(&["verify", &segment.0]);
    let options = Options { segment: segment.0.clone(), create: true, ..Options::default() };
    let Err(fault) = Memory::attach(&options) else { panic!("another layout was attached") };
    assert!(fault.to_string().contains("polder export"), "{fault}");
    patch(layout::LAYOUT);
    let features = |features: u64| {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
        file.write_all_at(&(u64::from(layout::LAYOUT) | features).to_le_bytes(), header::LAYOUT)
            .expect("written");
    };
    features(1 << 47);
    let Err(fault) = Memory::attach(&options) else { panic!("an unknown required feature was attached") };
    assert!(
        fault.to_string().contains("(bits 0x8000)") && fault.to_string().contains("polder export"),
        "{fault}"
    );
    // An optional one hinders no program. Nothing was changed by those that were refused.
    features(1 << 63);
    set(true);
}

#[test]
fn waiting_clients_of_several_processes_are_served_in_order() {
    const WAITERS: usize = 12;
    let segment = Segment::new();
    let servers = [segment.serve(&["--threads", "2"]), segment.serve(&[])];
    let pusher = segment.serve(&[]);
    let options = Options { segment: segment.0.clone(), create: false, ..Options::default() };
    let memory = Arc::new(Memory::attach(&options).expect("attached"));
    for round in 0..5 {
        let served = Arc::new(Mutex::new(Vec::new()));
        let (told, tells) = mpsc::channel();
        for number in 0..WAITERS {
            let before = memory.table().segment().observe(header::TICKETS);
            let (told, served, theirs) = (told.clone(), served.clone(), memory.clone());
            let address = servers[number % 2].address();
            std::thread::spawn(move || {
                let element = match number % 3 {
                    2 => Caller::new(&theirs)
                        .show(&["BLPOP", "queue", "0"], |reply| {
                            reply
                                .items()
                                .into_iter()
                                .flatten()
                                .filter_map(Item::bytes)
                                .last()
                                .map(<[u8]>::to_vec)
                        })
                        .expect("an element"),
                    _ => match Connection::open(&address)
                        .expect("a server")
                        .call(&["BLPOP", "queue", "0"])
                        .expect("a reply")
                    {
                        Answer::Array(items) => items.into_iter().next_back().and_then(|item| match item {
                            Answer::Bulk(element) => Some(element),
                            _ => None,
                        }),
                        _ => None,
                    },
                };
                served
                    .lock()
                    .expect("sound")
                    .push((number, String::from_utf8(element.expect("text")).expect("text")));
                told.send(()).expect("the test waits");
            });
            // Its ticket is drawn: it has its place.
            until("a place in the queue", || memory.table().segment().observe(header::TICKETS) > before);
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut client = connect(&pusher);
        for number in 0..WAITERS {
            ask(&mut client, &format!("RPUSH queue e{number}"));
            if round % 2 == 0 {
                tells.recv_timeout(PATIENCE).expect("somebody is served");
            }
        }
        if round % 2 != 0 {
            (0..WAITERS).for_each(|_| tells.recv_timeout(PATIENCE).expect("somebody is served"));
        }
        let mut served = std::mem::take(&mut *served.lock().expect("sound"));
        served.sort_unstable();
        let expected: Vec<(usize, String)> =
            (0..WAITERS).map(|number| (number, format!("e{number}"))).collect();
        assert_eq!(served, expected, "round {round}");
    }
}

/// How many places have been drawn.
fn tickets(memory: &Memory) -> u64 {
    memory.table().segment().observe(header::TICKETS)
}

/// Begins a call that waits, and sees to it that it has its place.
fn wait_in_line(memory: &Memory, client: &mut Connection, line: &str) {
    let before = tickets(memory);
    client.send(&line.split(' ').collect::<Vec<_>>()).expect("sent");
    until("a place in the queue", || tickets(memory) > before);
}

fn popped(client: &mut Connection) -> String {
    client.receive().expect("a reply").shown()
}

fn pair(key: &str, element: &str) -> String {
    format!("1) \"{key}\"\n2) \"{element}\"")
}

fn attach(segment: &Segment) -> Arc<Memory> {
    Arc::new(
        Memory::attach(&Options { segment: segment.0.clone(), create: false, ..Options::default() })
            .expect("attached"),
    )
}

#[test]
fn a_client_right_behind_a_push_leaves_it_to_an_earlier_one() {
    let segment = Segment::new();
    let servers = [segment.serve(&["--threads", "2"]), segment.serve(&[]), segment.serve(&[])];
    let memory = attach(&segment);
    let mut asker = connect(&servers[0]);
    let mut here = Caller::new(&memory);
    for round in 0..60 {
        let (mut first, mut pusher) = (connect(&servers[round % 3]), connect(&servers[(round + 1) % 3]));
        let (key, command) = [("q", "BLPOP"), ("q", "BRPOP")][round % 2];
        wait_in_line(&memory, &mut first, &format!("{command} none {key} 0"));
        let before = tickets(&memory);
        if round % 4 < 2 {
            // In one go, by a server, and nothing is between them.
            pusher.send(&["RPUSH", key, "one"]).expect("sent");
            pusher.send(&["BLPOP", key, "0"]).expect("sent");
            assert_eq!(popped(&mut pusher), "(integer) 1");
        } else {
            here.run(&["RPUSH", key, "one"]).expect("pushed");
            assert!(
                here.start(&["BLMOVE", key, "other", "LEFT", "LEFT", "0"]).expect("begun").is_none(),
                "round {round}"
            );
        }
        assert_eq!(popped(&mut first), pair(key, "one"), "round {round}");
        until("the newcomer's place", || tickets(&memory) > before);
        assert_eq!(ask(&mut asker, &format!("RPUSH {key} two")), Answer::Integer(1));
        if round % 4 < 2 {
            assert_eq!(popped(&mut pusher), pair(key, "two"), "round {round}");
        } else {
            let begun = Instant::now();
            while here.resume().expect("it waits").is_none() {
                here.rest(Duration::from_millis(10)).expect("it may");
                assert!(begun.elapsed() < PATIENCE, "round {round}");
            }
        }
        assert_eq!(ask(&mut asker, &format!("EXISTS {key}")), Answer::Integer(0));
    }
    segment.verify();
}

#[test]
fn newcomers_of_three_processes_wait_behind_the_woken_client_in_order() {
    /// A little less than the time after which a client is taken for stopped.
    const MOMENT: Duration = Duration::from_millis(800);
    let segment = Segment::new();
    let servers = [segment.serve(&[]), segment.serve(&["--threads", "2"]), segment.serve(&[])];
    let memory = attach(&segment);
    let mut actor = connect(&servers[1]);
    let mut shown = 0;
    for round in 0..8 {
        let mut line: Vec<Connection> = [0, 1, 2, 2].into_iter().map(|at| connect(&servers[at])).collect();
        wait_in_line(&memory, &mut line[0], "BZPOPMIN z 0");
        // Woken, it does not run.
        servers[0].stop();
        let begun = Instant::now();
        assert_eq!(ask(&mut actor, "ZADD z 0 m0"), Answer::Integer(1));
        line[1..].iter_mut().for_each(|newcomer| wait_in_line(&memory, newcomer, "BZPOPMIN z 0"));
        let late = begun.elapsed() > MOMENT;
        servers[0].go_on();
        (1..4).for_each(|number| drop(ask(&mut actor, &format!("ZADD z {number} m{number}"))));
        let served: Vec<String> = line.iter_mut().map(popped).collect();
        if !late && begun.elapsed() < MOMENT {
            let expected: Vec<String> = (0..4)
                .map(|number| format!("{}\n3) \"{number}\"", pair("z", &format!("m{number}"))))
                .collect();
            assert_eq!(served, expected, "round {round}");
            shown += 1;
        }
    }
    println!("{shown} of 8 rounds were quick enough to show something");
    segment.verify();
}

#[test]
fn a_client_stopped_at_its_turn_delays_others_once_and_keeps_its_place() {
    let segment = Segment::new();
    let (one, mut other) = (segment.serve(&[]), segment.serve(&[]));
    let memory = attach(&segment);
    let (mut first, mut actor, mut newcomer) = (connect(&other), connect(&one), connect(&one));
    wait_in_line(&memory, &mut first, "BLPOP q 0");
    other.stop();
    // A client with little time takes it at the end of that.
    ask(&mut actor, "RPUSH q a");
    let begun = Instant::now();
    assert_eq!(ask(&mut newcomer, "BLPOP q 0.2").shown(), pair("q", "a"));
    assert!(begun.elapsed() > Duration::from_millis(150), "nobody waits for who was there before");
    // A client with more time sees that the first does not come; from then on no client waits for
    // the stopped one.
    ask(&mut actor, "RPUSH q b");
    assert_eq!(ask(&mut newcomer, "BLPOP q 0").shown(), pair("q", "b"));
    let mut took: Vec<Duration> = (0..50)
        .map(|number| {
            let begun = Instant::now();
            ask(&mut actor, &format!("RPUSH q {number}"));
            assert_eq!(ask(&mut newcomer, "BLPOP q 60").shown(), pair("q", &number.to_string()));
            wait_in_line(&memory, &mut newcomer, "BLPOP q 60");
            ask(&mut actor, "RPUSH q again");
            assert_eq!(popped(&mut newcomer), pair("q", "again"));
            begun.elapsed()
        })
        .collect();
    // A wait for the stopped client takes a second, in every round; a busy machine delays some of them.
    took.sort();
    assert!(took[5] < Duration::from_millis(800), "each push waits: {took:?}");
    // The stopped client is back, and was the first.
    other.go_on();
    std::thread::sleep(Duration::from_millis(2500));
    wait_in_line(&memory, &mut newcomer, "BLPOP q 0");
    ask(&mut actor, "RPUSH q his");
    assert_eq!(popped(&mut first), pair("q", "his"));
    // And once more, killed.
    wait_in_line(&memory, &mut first, "BLPOP q 0");
    ask(&mut actor, "RPUSH q c");
    assert_eq!(popped(&mut newcomer), pair("q", "c"));
    other.stop();
    ask(&mut actor, "RPUSH q d");
    wait_in_line(&memory, &mut newcomer, "BLPOP q 0");
    other.kill();
    assert_eq!(popped(&mut newcomer), pair("q", "d"));
    segment.verify();
}
