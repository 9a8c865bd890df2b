//! Calls of a program with an event loop of its own, against a server that the test itself is.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
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
    let Added::InFlight(number) = completions.add(|| client.call(("GET", "k")), 7) else {
        panic!("no reply has come")
    };
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

/// Serves each connection in a thread of its own; returns the URL.
fn listen(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    let accept = move || {
        for socket in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(socket));
        }
    };
    std::thread::spawn(accept);
    url
}

/// A server that replies to PING at once, and to GET by half of a large reply, whose rest comes when `go_on` says so.
fn server_of_large_replies(go_on: mpsc::Receiver<()>) -> String {
    const HALF: usize = 2 << 20;
    let go_on = Arc::new(Mutex::new(go_on));
    listen(move |mut socket| {
        let mut room = [0; 4096];
        while let Ok(count @ 1..) = socket.read(&mut room) {
            let request = String::from_utf8_lossy(&room[..count]).into_owned();
            if request.contains("GET") {
                socket
                    .write_all(format!("${}\r\n{}", 2 * HALF, "x".repeat(HALF)).as_bytes())
                    .expect("the client reads");
                go_on.lock().expect("no panic").recv().expect("the test goes on");
                socket.write_all(format!("{}\r\n", "x".repeat(HALF)).as_bytes()).expect("the client reads");
            } else {
                socket
                    .write_all(if request.contains("HELLO") { b"%0\r\n" } else { b"+PONG\r\n" })
                    .expect("the client reads");
            }
        }
    })
}

/// A server that counts: INCR gets the number of those so far over all connections, DEBUG closes the connection, EXISTS takes
/// its time.
fn server_that_counts() -> String {
    let count = Arc::new(AtomicI64::new(0));
    listen(move |mut socket| {
        let mut room = [0; 4096];
        while let Ok(portion @ 1..) = socket.read(&mut room) {
            let request = String::from_utf8_lossy(&room[..portion]).into_owned();
            let mut replies = if request.contains("HELLO") { "%0\r\n".to_owned() } else { String::new() };
            if request.contains("EXISTS") {
                std::thread::sleep(Duration::from_millis(300));
                replies.push_str(":0\r\n");
            }
            if request.contains("SELECT") {
                replies.push_str("+OK\r\n");
            }
            for _ in request.matches("INCR") {
                replies.push_str(&format!(":{}\r\n", 1 + count.fetch_add(1, Ordering::Relaxed)));
            }
            if socket.write_all(replies.as_bytes()).is_err() || request.contains("DEBUG") {
                return;
            }
        }
    })
}

/// Makes a call as an event loop does: releases it, and takes its outcome when the descriptor is readable.
fn looped(
    completions: &Completions<u32>,
    make: impl FnOnce() -> polder_client::Call<Value>,
) -> Result<Value, Error> {
    if let Added::Ended(_, outcome) = completions.add(make, 0) {
        return outcome;
    }
    completions.release();
    loop {
        if let Some((_, outcome)) = taken(completions).pop() {
            return outcome;
        }
    }
}

#[test]
fn an_event_loop_serves_the_connection_that_is_lent_to_it() {
    let (client, completions) =
        Completions::connect_to_loop(server_that_counts().parse().expect("a URL")).expect("a client");
    let count = Cell::new(0);
    let expected = || {
        count.set(count.get() + 1);
        count.get()
    };
    let incr = || {
        let (expected, reply) = (expected(), looped(&completions, || client.call(("INCR", "n"))));
        assert!(matches!(reply, Ok(Value::Integer(n)) if n == expected), "{expected}: {reply:?}");
    };
    for round in 1..4 {
        completions.lend();
        (0..100).for_each(|_| incr());
        // The first call of a database waits until the server has accepted that.
        let (reply, now) = (looped(&completions, || client.db(round).call(("INCR", "n"))), expected());
        assert!(matches!(reply, Ok(Value::Integer(n)) if n == now), "{reply:?}");
        // A call of another thread: its reply is read by the loop.
        std::thread::scope(|scope| {
            let other = scope.spawn(|| client.call::<i64>(("INCR", "n")).wait().expect("counts"));
            while !other.is_finished() {
                if is_readable(&completions, Duration::from_millis(1)) {
                    assert_eq!(completions.take().count(), 0);
                }
            }
            assert_eq!(other.join().expect("no panic"), expected());
        });
        // The connection breaks in the loop's hands, and is made again.
        let closed = looped(&completions, || client.call(("DEBUG", "close")));
        assert!(matches!(closed, Err(Error::OutcomeUnknown(_))), "{closed:?}");
        (0..100).for_each(|_| incr());
        assert_eq!(client.stats().connects, u64::from(round) + 1);
        // A deadline passes although the loop does not run.
        let late =
            completions.add(|| client.db(0).within(Duration::from_millis(30)).call(("EXISTS", "k")), 0);
        assert!(matches!(late, Added::InFlight(_)));
        completions.release();
        let mut outcomes = Vec::new();
        while outcomes.is_empty() {
            outcomes = taken(&completions);
        }
        assert!(matches!(&outcomes[..], [(0, Err(Error::TimedOut(_)))]), "{outcomes:?}");
        // A thread that waits for a call takes the connection back.
        completions.recall();
        assert_eq!(client.call::<i64>(("INCR", "n")).wait().expect("its own thread reads"), expected());
        incr();
    }
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
