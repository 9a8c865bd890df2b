//! Calls of a program with an event loop of its own, against a server that the test itself is.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::Duration;

use polder_client::{Added, Client, Completions, Error, Value};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A server that replies to HELLO, and then with `replies` to each portion of bytes that comes in.
fn server(replies: &'static [&'static str]) -> (String, std::thread::JoinHandle<Vec<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    let serve = move || {
        let (mut socket, _) = listener.accept().expect("the client connects");
        let (mut room, mut portions) = ([0; 4096], Vec::new());
        for reply in std::iter::once(&"%0\r\n").chain(replies) {
            let count = socket.read(&mut room).expect("a request");
            portions.push(room[..count].iter().filter(|byte| **byte == b'*').count());
            socket.write_all(reply.as_bytes()).expect("the client reads");
        }
        // Until the client closes.
        while socket.read(&mut room).is_ok_and(|count| count > 0) {}
        portions
    };
    (url, std::thread::spawn(serve))
}

fn is_readable(descriptor: &impl AsFd, patience: Duration) -> bool {
    let wait = Timespec::try_from(patience).expect("a short time");
    poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&wait)).is_ok_and(|count| count > 0)
}

/// Waits until some calls have ended; their tags and outcomes.
fn taken(completions: &Completions<u32>) -> Vec<(u32, Result<Value, Error>)> {
    assert!(is_readable(completions, Duration::from_secs(20)), "no call ends");
    completions.take().collect()
}

#[test]
fn calls_of_one_turn_are_written_together_and_each_comes_out_once() {
    let (url, server) = server(&[":1\r\n", ":1\r\n:2\r\n:3\r\n"]);
    let (client, completions) = Completions::connect(url.parse().expect("a URL")).expect("a client");
    let call = |tag: u32| completions.add(|| client.call(("INCR", "n")), tag);
    // The first one waits until the connection is up.
    assert!(matches!(call(0), Added::InFlight(_)));
    completions.release();
    let mut outcomes = Vec::new();
    while outcomes.is_empty() {
        outcomes = taken(&completions);
    }
    assert!(matches!(outcomes[..], [(0, Ok(Value::Integer(1)))]), "{outcomes:?}");
    for tag in 1..4 {
        assert!(matches!(call(tag), Added::InFlight(_)));
    }
    assert!(!is_readable(&completions, Duration::ZERO), "nothing was released");
    completions.release();
    let mut outcomes = Vec::new();
    while outcomes.len() < 3 {
        outcomes.extend(taken(&completions));
    }
    assert!(completions.is_empty());
    let tags: Vec<u32> = outcomes.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, [1, 2, 3]);
    drop(client);
    assert_eq!(server.join().expect("the server ends"), [1, 1, 3], "three calls in one portion");
}

#[test]
fn a_call_that_was_taken_back_has_no_outcome() {
    let (url, _server) = server(&[]);
    let (client, completions) = Completions::connect(url.parse().expect("a URL")).expect("a client");
    let Added::InFlight(number) = completions.add(|| client.call(("GET", "k")), 7) else { panic!("no reply has come") };
    assert_eq!(completions.cancel(number), Some(7));
    assert_eq!(completions.cancel(number), None);
    assert!(completions.is_empty());
}

#[test]
fn calls_in_flight_are_taken_back_together_in_their_order() {
    let (url, _server) = server(&[]);
    let (client, completions) = Completions::connect(url.parse().expect("a URL")).expect("a client");
    for tag in 0..20 {
        assert!(matches!(completions.add(|| client.call(("GET", "k")), tag), Added::InFlight(_)));
    }
    assert_eq!(completions.cancel_all(), (0..20).collect::<Vec<u32>>());
    assert!(completions.is_empty());
}

#[test]
fn a_call_that_cannot_be_made_ends_at_once() {
    let (url, _server) = server(&[]);
    let (client, completions) = Completions::connect(url.parse().expect("a URL")).expect("a client");
    let added = completions.add(|| client.call(("SELECT", 1)), 1);
    assert!(matches!(added, Added::Ended(1, Err(Error::Usage(_)))));
}

#[test]
fn what_is_not_taken_comes_out_of_the_next_take() {
    let (url, server) = server(&[":1\r\n:2\r\n:3\r\n"]);
    let (client, completions) = Completions::connect(url.parse().expect("a URL")).expect("a client");
    for tag in 1..4 {
        completions.submit(|| client.call(("INCR", "n")), tag);
    }
    completions.release();
    let mut tags = Vec::new();
    while tags.len() < 3 {
        assert!(is_readable(&completions, Duration::from_secs(20)), "a call is kept back");
        // One at a time: the others may have ended with it.
        tags.extend(completions.take().next().map(|(tag, _)| tag));
    }
    tags.sort_unstable();
    assert_eq!(tags, [1, 2, 3]);
    assert!(completions.is_empty());
    drop((client, completions));
    server.join().expect("the server ends");
}

/// Serves each connection in a thread: PING at once, anything else by half of a large reply, whose rest comes when `go_on` says so.
fn server_of_large_replies(go_on: mpsc::Receiver<()>) -> String {
    const HALF: usize = 2 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    let go_on = std::sync::Arc::new(std::sync::Mutex::new(go_on));
    let serve = move |mut socket: std::net::TcpStream| {
        let mut room = [0; 4096];
        while let Ok(count @ 1..) = socket.read(&mut room) {
            let request = String::from_utf8_lossy(&room[..count]).into_owned();
            if request.contains("GET") {
                socket.write_all(format!("${}\r\n{}", 2 * HALF, "x".repeat(HALF)).as_bytes()).expect("the client reads");
                go_on.lock().expect("no panic").recv().expect("the test goes on");
                socket.write_all(format!("{}\r\n", "x".repeat(HALF)).as_bytes()).expect("the client reads");
            } else {
                socket.write_all(if request.contains("HELLO") { b"%0\r\n" } else { b"+PONG\r\n" }).expect("the client reads");
            }
        }
    };
    std::thread::spawn(move || {
        listener.incoming().flatten().for_each(|socket| {
            drop(std::thread::spawn({
                let serve = serve.clone();
                move || serve(socket)
            }))
        })
    });
    url
}

#[test]
fn a_large_reply_that_comes_aside_holds_up_nobody() {
    let (go_on, told) = mpsc::channel();
    let client = Client::connect_in_thread(&server_of_large_replies(told)).expect("starts");
    let large = client.db(0).aside().get::<Vec<u8>>("large");
    for _ in 0..3 {
        client.call::<()>("PING").wait().expect("its reply is not behind the large one");
    }
    go_on.send(()).expect("the server waits");
    assert_eq!(large.wait().expect("reads").len(), 4 << 20);
    // On the shared connection it would be.
    let large = client.db(0).get::<Vec<u8>>("large");
    let behind = client.db(0).within(Duration::from_millis(300)).call::<()>("PING").wait().unwrap_err();
    assert!(matches!(behind, Error::TimedOut(_)), "{behind}");
    go_on.send(()).expect("the server waits");
    assert_eq!(large.wait().expect("reads").len(), 4 << 20);
}
