//! The holds of the log for replicas: signs of life, slots of dead feeds, copies that cannot be followed.
use std::io::{Read, Write};
use std::net::TcpStream;

use polder_testkit::logs::{World, ask, until};
use polder_testkit::process::{Server, on_path, polder};
use polder_testkit::replicas::{catch_up, figure, follow, line_of, psync};
use polder_testkit::resp::{Connection, framed};

/// Reads a copy; returns its offset.
fn take_copy(stream: &mut TcpStream) -> String {
    let line = line_of(stream);
    let offset = line.strip_prefix("+FULLRESYNC ").and_then(|rest| rest.split(' ').nth(1)).expect("a copy");
    let length = line_of(stream)[1..].parse().expect("a length");
    stream.read_exact(&mut vec![0; length]).expect("a file");
    offset.to_owned()
}

#[test]
fn line_feeds_are_no_sign_of_life_once_a_replica_has_acknowledged_something() {
    let world = World::new("slots-feeds");
    let (server, mut primary) = world.serve(&["--repl-timeout", "1"]);
    ask(&mut primary, "SET k v");
    let mut peer = psync(&server.address());
    let offset = take_copy(&mut peer);
    peer.write_all(&framed(&["REPLCONF", "ACK", &offset])).expect("sent");
    until("it follows", || figure(&mut primary, "replication", "connected_slaves") == "1");
    until("it is given up", || {
        // Its socket may be closed by now.
        let _ = peer.write_all(b"\n");
        figure(&mut primary, "replication", "connected_slaves") == "0"
    });
}

#[test]
fn two_replicas_behind_one_address_and_port_are_told_apart() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("slots-two");
    let more = ["--repl-backlog-size", "16kb"];
    let (mut server, mut primary) = world.serve(&more);
    let port = server.port();
    let shown = ["--replica-announce-port", "7000"];
    let (_one, mut one) = follow(&program, port, &shown);
    let (other, mut two) = follow(&program, port, &shown);
    catch_up(&mut one, &mut primary);
    catch_up(&mut two, &mut primary);
    assert_eq!(ask(&mut primary, "WAIT 2 0"), "(integer) 2");
    let memory = world.attach().expect("the memory");
    let (table, log) = (memory.table(), memory.table().log());
    until("both have records of what they have acknowledged", || {
        let records = polder_persist::followers::all(table).expect("readable");
        records.iter().filter(|record| !record.rest.contains("online 0 ")).count() == 2
    });
    other.stop();
    server.kill();
    let flags = ["serve", "--port", "{port}", "--segment", &world.segment];
    let flags: Vec<&str> = flags.into_iter().chain(world.flags(&more)).collect();
    let server = Server::start_at(&polder(), &flags, port).expect("a server");
    let mut primary = Connection::open(&server.address()).expect("a connection");
    catch_up(&mut one, &mut primary);
    // Beyond what is kept for no replica.
    let value = "x".repeat(10 << 10);
    for number in 0..300 {
        primary.call(&["SET", &format!("k{number}"), &value]).expect("a reply");
    }
    catch_up(&mut one, &mut primary);
    // The part that is held for the other one is trimmed where it is held no more.
    until("the record has moved on", || {
        (1..64).any(|slot| log.held(slot).is_some_and(|held| held > 1 << 20))
    });
    for number in 0..20 {
        primary.call(&["SET", &format!("k{number}"), &value]).expect("a reply");
    }
    catch_up(&mut one, &mut primary);
    other.go_on();
    catch_up(&mut two, &mut primary);
    assert_eq!(figure(&mut primary, "stats", "sync_full"), "2");
    assert_eq!(figure(&mut primary, "stats", "sync_partial_err"), "0");
    let held = (1..64).filter(|slot| log.held(*slot).is_some()).count();
    assert_eq!(held, 2, "each has taken over the slot that it had");
}

#[test]
fn a_copy_that_the_log_does_not_reach_any_more_is_counted_and_made_again_later() {
    let world = World::new("slots-overrun");
    let (server, mut primary) = world.serve(&[
        "--segment-size",
        "64mb",
        "--repl-backlog-size",
        "16kb",
        "--rdb-key-save-delay",
        "2000",
    ]);
    ask(&mut primary, "DEBUG POPULATE 1500 key 10");
    let _peer = psync(&server.address());
    until("it is fed", || figure(&mut primary, "replication", "connected_slaves") == "1");
    let value = "x".repeat(1 << 20);
    until("the log has left its copy behind", || {
        primary.call(&["SET", "large", &value]).expect("a reply");
        figure(&mut primary, "stats", "sync_overruns") == "1"
    });
    until("it is gone", || figure(&mut primary, "replication", "connected_slaves") == "0");
    let mut again = psync(&server.address());
    take_copy(&mut again);
    assert_eq!(figure(&mut primary, "stats", "sync_overruns"), "1");
    assert_eq!(figure(&mut primary, "stats", "sync_full"), "2");
}
