//! `replies-await-replicas`: replies to writes wait until replicas have acknowledged them, at every door and server, whatever dies; and [`Memory::sync`].
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_engine::Memory;
use polder_testkit::answer::Answer;
use polder_testkit::logs::{World, ask, until};
use polder_testkit::process::{Server, free_port, on_path, polder};
use polder_testkit::replicas::{catch_up, figure, follow};
use polder_testkit::resp::Connection;

const UNKEPT: &str = "NOREPLICAS Too few replicas have acknowledged the write in time. It stands here, and a failover may lose it.";

fn set(connection: &mut Connection, setting: &str, value: &str) {
    assert_eq!(ask(connection, &format!("CONFIG SET {setting} {value}")), "OK");
}

fn shown(connection: &mut Connection) -> String {
    connection.receive().expect("a reply").shown().trim_end().to_owned()
}

/// Sends a call, and waits until it is executed: another client sees `value` in `key` then.
fn begin(at: &Server, line: &str, seen: (&mut Connection, &str, &str)) -> Connection {
    let mut connection = Connection::open(&at.address()).expect("a connection");
    connection.send(&line.split(' ').collect::<Vec<_>>()).expect("sent");
    let (other, key, value) = seen;
    until("it is executed", || ask(other, &format!("GET {key}")) == format!("\"{value}\""));
    connection
}

/// Returns true if nothing comes for a while.
fn is_silent(connection: &mut Connection) -> bool {
    connection.is_silent(Duration::from_millis(300))
}

/// Replies to a pipeline leave in order, and are there then.
fn many_at_once(client: &mut Connection, replica: &mut Connection) {
    for _ in 0..2000 {
        client.send(&["INCR", "many"]).expect("sent");
    }
    for number in 1..=2000 {
        assert_eq!(client.receive().expect("a reply"), Answer::Integer(number));
    }
    assert_eq!(ask(replica, "GET many"), "\"2000\"");
}

#[test]
fn replies_to_writes_wait_until_replicas_have_them() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("holds");
    let (server, mut first) = world.serve(&[]);
    let (other, mut second) = world.serve(&[]);
    let (replica_server, mut replica) = follow(&program, other.port(), &[]);
    catch_up(&mut replica, &mut first);
    set(&mut first, "replies-await-timeout", "0");
    set(&mut first, "replies-await-replicas", "1");
    // It is a setting of the memory.
    until("the other server knows", || {
        ask(&mut second, "CONFIG GET replies-await-replicas").contains("\"1\"")
    });
    for number in 0..50 {
        assert_eq!(ask(&mut first, &format!("SET k {number}")), "OK");
        assert_eq!(ask(&mut replica, "GET k"), format!("\"{number}\""), "what is acknowledged is there");
        assert_eq!(ask(&mut second, &format!("SET k {number}x")), "OK");
        assert_eq!(ask(&mut replica, "GET k"), format!("\"{number}x\""));
    }
    replica_server.stop();
    let mut held = [
        begin(&server, "SET k held", (&mut first, "k", "held")),
        begin(&other, "INCR n", (&mut second, "n", "1")),
        begin(
            &server,
            "EVAL return{redis.call('SET','s','1'),redis.call('GET','s')} 0",
            (&mut first, "s", "1"),
        ),
    ];
    // Calls that write nothing do not wait, nor do refused ones, nor a transaction that is queued.
    for line in ["GET k", "EVAL return{1} 0", "LPUSH k x", "MULTI", "SET t 1", "DISCARD", "PING"] {
        let reply = ask(&mut first, line);
        assert!(!reply.contains("NOREPLICAS"), "{line}: {reply}");
    }
    held.iter_mut().for_each(|held| assert!(is_silent(held)));
    // A call that waits for a key, and gets none, has written nothing.
    assert_eq!(ask(&mut first, "BLPOP none 0.1"), "(nil)");
    // A write that finds what it was to do tells of an earlier one, however it comes. A subcommand is a write as well.
    let mut again: Vec<Connection> =
        (0..3).map(|_| Connection::open(&server.address()).expect("a connection")).collect();
    again[0].send(&["SETNX", "k", "x"]).expect("sent");
    again[1].send_framed(b"SETNX k x\r\n").expect("sent");
    again[2].send(&["XGROUP", "CREATE", "x", "g", "$", "MKSTREAM"]).expect("sent");
    // Clients that are held are not idle.
    assert_eq!(ask(&mut first, "CONFIG SET timeout 1"), "OK");
    assert!(again.iter_mut().all(|again| again.is_silent(Duration::from_millis(800))));
    let mut idle = Connection::open(&server.address()).expect("a connection");
    assert!(idle.receive().is_err(), "it is closed");
    first = Connection::open(&server.address()).expect("a connection");
    set(&mut first, "timeout", "0");
    assert!(again.iter_mut().all(is_silent));
    replica_server.go_on();
    assert_eq!(held.each_mut().map(shown), ["OK", "(integer) 1", "1) OK\n2) \"1\""]);
    assert_eq!(again.iter_mut().map(shown).collect::<Vec<_>>(), ["(integer) 0", "(integer) 0", "OK"]);
    // A call that waits and then writes.
    let mut waits = Connection::open(&server.address()).expect("a connection");
    waits.send(&["BLPOP", "l", "0"]).expect("sent");
    until("it waits", || figure(&mut first, "clients", "blocked_clients") == "1");
    assert_eq!(ask(&mut second, "RPUSH l x"), "(integer) 1");
    assert_eq!(shown(&mut waits), "1) \"l\"\n2) \"x\"");
    assert_eq!(ask(&mut replica, "LLEN l"), "(integer) 0", "what was taken is gone there");
    many_at_once(&mut waits, &mut replica);
    // Turned off, what waits is free.
    replica_server.stop();
    let mut held = begin(&server, "SET k off", (&mut first, "k", "off"));
    assert!(is_silent(&mut held));
    set(&mut second, "replies-await-replicas", "0");
    assert_eq!(shown(&mut held), "OK");
}

/// Sends bytes, and reads until the server closes the connection.
fn exchange(port: u16, bytes: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.write_all(bytes.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn too_few_replicas_end_the_connection_with_an_error_at_every_door() {
    let world = World::new("holds-doors");
    let [http, memcached] = [(); 2].map(|()| free_port().expect("a port"));
    let ports = [http.to_string(), memcached.to_string()];
    let flags = ["--http-port", &ports[0], "--memcache-port", &ports[1]];
    let (server, mut first) = world.serve(&flags);
    set(&mut first, "replies-await-timeout", "200");
    set(&mut first, "replies-await-replicas", "1");
    let begun = Instant::now();
    assert_eq!(exchange(server.port(), "SET k 1\r\nSET k 2\r\n"), format!("-{UNKEPT}\r\n"));
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(ask(&mut first, "GET k"), "\"2\"", "the writes stand");
    assert_eq!(exchange(memcached, "set m 0 0 1\r\nx\r\n"), format!("SERVER_ERROR {UNKEPT}\r\n"));
    let request = "PUT /k/h HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\ny";
    let response = exchange(http, request);
    assert!(response.starts_with("HTTP/1.1 503 ") && response.contains(UNKEPT), "{response}");
    assert!(response.contains("Connection: close"), "{response}");
    assert_eq!(ask(&mut first, "MGET m h"), "1) \"x\"\n2) \"y\"");
    let errors = ask(&mut first, "INFO errorstats");
    assert!(errors.contains("errorstat_NOREPLICAS:count=3"), "{errors}");
    // With this setting they are refused before they are made.
    set(&mut first, "min-replicas-to-write", "1");
    assert_eq!(ask(&mut first, "SET k 3"), "(error) NOREPLICAS Not enough good replicas to write.");
    set(&mut first, "min-replicas-to-write", "0");
    // A promotion by Sentinel's words is no write.
    assert_eq!(ask(&mut first, "MULTI"), "OK");
    for line in ["REPLICAOF NO ONE", "CLIENT KILL TYPE pubsub"] {
        assert_eq!(ask(&mut first, line), "QUEUED");
    }
    assert_eq!(ask(&mut first, "EXEC"), "1) OK\n2) (integer) 0");
}

#[test]
fn what_is_held_outlives_the_server_that_feeds_and_not_the_role() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("holds-killed");
    let (server, mut first) = world.serve(&[]);
    let (mut other, _second) = world.serve(&[]);
    let (replica_server, mut replica) = follow(&program, other.port(), &[]);
    catch_up(&mut replica, &mut first);
    set(&mut first, "replies-await-timeout", "0");
    set(&mut first, "replies-await-replicas", "1");
    replica_server.stop();
    let mut held = begin(&server, "SET k held", (&mut first, "k", "held"));
    let port = other.port();
    other.kill();
    assert!(is_silent(&mut held));
    let flags = ["serve", "--port", "{port}", "--segment", &world.segment];
    let flags: Vec<&str> = flags.into_iter().chain(world.flags(&[])).collect();
    let _other = Server::start_at(&polder(), &flags, port).expect("a server");
    replica_server.go_on();
    assert_eq!(shown(&mut held), "OK");
    assert_eq!(ask(&mut replica, "GET k"), "\"held\"");
    // A replica tells no client what the primary has not told it.
    replica_server.stop();
    let mut held = begin(&server, "SET k lost", (&mut first, "k", "lost"));
    assert_eq!(ask(&mut first, "REPLICAOF 127.0.0.1 1"), "OK");
    assert_eq!(shown(&mut held), format!("(error) {UNKEPT}"));
}

#[test]
fn a_program_waits_for_replicas_when_it_asks() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("holds-sync");
    let (server, mut first) = world.serve(&[]);
    let memory = Arc::new(world.attach().expect("the memory"));
    let sync = |memory: &Memory, replicas, ms| memory.sync(replicas, Duration::from_millis(ms)).ok();
    assert_eq!(sync(&memory, 0, 0), Some(true));
    assert_eq!(sync(&memory, 1, 50), Some(false), "there is none");
    let (replica_server, mut replica) = follow(&program, server.port(), &[]);
    catch_up(&mut replica, &mut first);
    for number in 0..50 {
        memory.database(0).set("k", number.to_string()).expect("room");
        assert_eq!(sync(&memory, 1, 60_000), Some(true));
        assert_eq!(ask(&mut replica, "GET k"), format!("\"{number}\""));
    }
    replica_server.stop();
    memory.database(0).set("k", "late").expect("room");
    assert_eq!(sync(&memory, 1, 50), Some(false));
    replica_server.go_on();
    assert_eq!(sync(&memory, 1, 60_000), Some(true));
    assert_eq!(ask(&mut first, "REPLICAOF 127.0.0.1 1"), "OK");
    assert_eq!(sync(&memory, 0, 0), None, "its primary tells what is kept");
}
