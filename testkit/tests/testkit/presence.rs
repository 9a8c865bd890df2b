//! Callers in this process as the clients of a server on the same memory see them: listed, killed, unblocked, paused; and the other way round.
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polder_engine::{Caller, Error, Item, Memory, Options, Protocol, Session};
use polder_testbase::PATIENCE;
use polder_testkit::answer::Answer;
use polder_testkit::gather::Gather;
use polder_testkit::process::{Server, polder};
use polder_testkit::resp::Connection;
use polder_testkit::scratch::fresh_name;

struct Scene {
    memory: Arc<Memory>,
    server: Server,
    segment: Segment,
}

/// Removed with the test, also with one whose server does not start.
struct Segment(String);

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.0);
    }
}

impl Scene {
    fn new() -> Scene {
        let segment = Segment(fresh_name());
        let memory =
            Memory::attach(&Options { segment: segment.0.clone(), ceiling: 64 << 20, ..Options::default() });
        let server = Server::start_polder(&polder(), &segment.0, &["--threads", "1"]).expect("a server");
        Scene { memory: Arc::new(memory.expect("a segment")), server, segment }
    }

    fn client(&self) -> Connection {
        Connection::open(&self.server.address()).expect("a connection")
    }

    /// Runs a call that waits, in a thread of its own: the caller's number, and how the call ended.
    fn waiting(&self, key: &'static str) -> (u64, JoinHandle<Result<bool, Error>>) {
        let (memory, (told, number)) = (self.memory.clone(), channel());
        let thread = std::thread::spawn(move || {
            let mut caller = Caller::new(&memory);
            caller.run(&["CLIENT", "SETNAME", key])?;
            told.send(caller.id()).expect("somebody wants to know");
            let ended = caller.show(&["BLPOP", key, "60"], |item| item == Item::Null);
            assert!(
                ended.is_ok()
                    || ended == Err(Error::Closed)
                    || matches!(&ended, Err(Error::Refused(text)) if text.starts_with("UNBLOCKED"))
            );
            ended
        });
        (received(&number), thread)
    }
}

fn received<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(PATIENCE).expect("the thread goes on")
}

fn text(answer: Answer) -> String {
    match answer {
        Answer::Bulk(text) | Answer::Verbatim { text, .. } => String::from_utf8(text).expect("text"),
        other => panic!("{other:?}"),
    }
}

/// Asks until the list has a line in which all of these stand.
fn line_of(client: &mut Connection, words: &[&str]) -> String {
    let begun = Instant::now();
    loop {
        let list = text(client.call(&["CLIENT", "LIST"]).expect("a reply"));
        if let Some(line) = list.lines().find(|line| words.iter().all(|word| line.contains(word))) {
            return line.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "{words:?} is not in {list}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn asks_until(client: &mut Connection, words: &[&str], wanted: &Answer) {
    let begun = Instant::now();
    while client.call(words).expect("a reply") != *wanted {
        assert!(begun.elapsed() < PATIENCE, "{words:?} never answers {wanted:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_lists_unblocks_and_kills_callers_of_another_process() {
    let scene = Scene::new();
    let mut client = scene.client();
    let own = format!("addr=pid:{}/", std::process::id());
    for (reason, wanted) in [(&["TIMEOUT"][..], Ok(true)), (&["ERROR"], Err(()))] {
        let (id, thread) = scene.waiting("nothing");
        let line = line_of(&mut client, &[&format!("id={id} "), "flags=b", "name=nothing ", "cmd=blpop"]);
        assert!(line.contains(&own) && line.contains(&scene.segment.0), "{line}");
        let number = id.to_string();
        asks_until(&mut client, &[&["CLIENT", "UNBLOCK", &number], reason].concat(), &Answer::Integer(1));
        assert_eq!(thread.join().expect("no panic").map_err(drop), wanted, "{reason:?}");
        assert_eq!(client.call(&["CLIENT", "UNBLOCK", &number]).expect("a reply"), Answer::Integer(0));
    }
    let (id, thread) = scene.waiting("nothing");
    line_of(&mut client, &[&format!("id={id} "), "flags=b"]);
    asks_until(&mut client, &["CLIENT", "KILL", "ID", &id.to_string()], &Answer::Integer(1));
    assert_eq!(thread.join().expect("no panic"), Err(Error::Closed));
}

#[test]
fn a_listener_and_a_caller_beside_it_are_killed() {
    let scene = Scene::new();
    let (memory, (told, numbers)) = (scene.memory.clone(), channel());
    let thread = std::thread::spawn(move || {
        let (mut plain, mut listener) = (Caller::new(&memory), Caller::new(&memory));
        plain.run(&["SET", "k", "v"]).expect("room");
        listener.run(&["SUBSCRIBE", "news"]).expect("a place");
        told.send((plain.id(), listener.id())).expect("somebody wants to know");
        let begun = Instant::now();
        let end = loop {
            match listener.hear(Duration::from_millis(200), |_| {}) {
                Ok(_) if begun.elapsed() < PATIENCE => {}
                end => break end,
            }
        };
        (end, plain.run(&["GET", "k"]).map(drop), listener.run(&["PING"]).map(drop))
    });
    let (plain, listener) = received(&numbers);
    let mut client = scene.client();
    let line = line_of(&mut client, &[&format!("id={listener} "), "flags=P", "sub=1"]);
    assert!(line.contains("cmd=subscribe"), "{line}");
    // A thread of its process rests in Polder and replies for it.
    line_of(&mut client, &[&format!("id={plain} "), "cmd=set"]);
    asks_until(&mut client, &["CLIENT", "KILL", "ID", &plain.to_string()], &Answer::Integer(1));
    asks_until(&mut client, &["CLIENT", "KILL", "ID", &listener.to_string()], &Answer::Integer(1));
    assert_eq!(
        thread.join().expect("no panic"),
        (Err(Error::Closed), Err(Error::Closed), Err(Error::Closed))
    );
}

#[test]
fn a_caller_lists_and_kills_the_clients_of_a_server_and_of_its_own_process() {
    let scene = Scene::new();
    let mut client = scene.client();
    client.call(&["CLIENT", "SETNAME", "far"]).expect("a reply");
    let (mut caller, mut other) = (Caller::new(&scene.memory), Caller::new(&scene.memory));
    other.run(&["CLIENT", "SETNAME", "near"]).expect("a name");
    let list = caller.show(&["CLIENT", "LIST"], |item| {
        String::from_utf8_lossy(item.bytes().unwrap_or_default()).into_owned()
    });
    let list = list.expect("a list");
    for name in ["name=far ", "name=near ", &format!("id={} ", caller.id())] {
        assert!(list.contains(name), "{name} is not in {list}");
    }
    let far = list
        .lines()
        .find(|line| line.contains("name=far "))
        .and_then(|line| line.strip_prefix("id=")?.split(' ').next());
    assert_eq!(
        caller.show(&["CLIENT", "KILL", "ID", far.expect("a number")], |item| item.integer()),
        Ok(Some(1))
    );
    assert!(client.call(&["PING"]).is_err(), "its connection is closed");
    assert_eq!(
        caller.show(&["CLIENT", "KILL", "ID", &other.id().to_string()], |item| item.integer()),
        Ok(Some(1))
    );
    assert_eq!(other.run(&["PING"]).map(drop), Err(Error::Closed));
    let (id, thread) = scene.waiting("here");
    let begun = Instant::now();
    while caller.show(&["CLIENT", "UNBLOCK", &id.to_string()], |item| item.integer()) != Ok(Some(1)) {
        assert!(begun.elapsed() < PATIENCE, "it never waits");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(thread.join().expect("no panic"), Ok(true));
}

#[test]
fn a_pause_holds_callers_back() {
    let scene = Scene::new();
    let mut client = scene.client();
    let mut caller = Caller::new(&scene.memory);
    let begun = Instant::now();
    client.call(&["CLIENT", "PAUSE", "300", "WRITE"]).expect("a reply");
    caller.run(&["SET", "k", "v"]).expect("room");
    assert!(begun.elapsed() >= Duration::from_millis(300), "a writer waits");
    client.call(&["CLIENT", "PAUSE", "600000", "WRITE"]).expect("a reply");
    caller.run(&["GET", "k"]).expect("a reader goes on");
    let memory = scene.memory.clone();
    let writer = std::thread::spawn(move || Caller::new(&memory).run(&["INCR", "n"]).map(drop));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!writer.is_finished());
    client.call(&["CLIENT", "UNPAUSE"]).expect("a reply");
    assert_eq!(writer.join().expect("no panic"), Ok(()));
}

/// Makes a call that no pause holds back.
fn force(memory: &Memory, args: &[&[u8]]) -> Answer {
    let mut reply = Gather::new(Protocol::Resp2);
    memory.execute(&mut Session::default(), memory.host(), args, &mut reply);
    reply.answer().expect("a reply")
}

#[test]
fn a_call_that_waits_takes_nothing_during_a_pause() {
    let scene = Scene::new();
    let (number, thread) = scene.waiting("list");
    let mut begun = Caller::new(&scene.memory);
    assert!(begun.start(&["BZPOPMIN", "z", "60"]).expect("begun").is_none());
    let mut brief = Caller::new(&scene.memory);
    assert!(brief.start(&["BLPOP", "list", "0.3"]).expect("begun").is_none());
    let mut client = scene.client();
    // Until the other one waits.
    let flags = format!("id={number} ");
    let waits =
        |text: String| text.split("\\n").any(|line| line.contains(&flags) && line.contains("flags=b"));
    while !waits(client.call(&["CLIENT", "LIST"]).expect("a reply").shown()) {}
    client.call(&["CLIENT", "PAUSE", "60000", "WRITE"]).expect("a reply");
    force(&scene.memory, &[b"RPUSH", b"list", b"element"]);
    force(&scene.memory, &[b"ZADD", b"z", b"1", b"m"]);
    let paused = Instant::now();
    let mut ended = false;
    while paused.elapsed() < Duration::from_millis(500) {
        assert!(begun.resume().expect("it waits").is_none());
        assert!(begun.until_ms().is_some_and(|until_ms| until_ms < u64::MAX), "it is to look again");
        // A timeout ends what waits, and takes nothing either.
        ended = ended || brief.resume().expect("it waits").is_some_and(|answer| answer.item() == Item::Null);
        begun.rest(Duration::from_millis(5)).expect("it may");
    }
    assert!(ended && !thread.is_finished());
    assert_eq!(force(&scene.memory, &[b"LLEN", b"list"]), Answer::Integer(1));
    assert_eq!(force(&scene.memory, &[b"ZCARD", b"z"]), Answer::Integer(1));
    client.call(&["CLIENT", "UNPAUSE"]).expect("a reply");
    assert_eq!(thread.join().expect("no panic"), Ok(false));
    let unpaused = Instant::now();
    while begun.resume().expect("it waits").is_none() {
        assert!(unpaused.elapsed() < PATIENCE);
        begun.rest(Duration::from_millis(5)).expect("it may");
    }
}
