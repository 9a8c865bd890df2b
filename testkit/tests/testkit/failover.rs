//! FAILOVER: a primary and a replica change their roles, memories and stock servers in both directions, and no acknowledged write is lost.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;

use polder_testkit::logs::{World, ask, signal, until};
use polder_testkit::process::{Server, free_port, on_path, stock_servers};
use polder_testkit::replicas::{catch_up, figure, follow};
use polder_testkit::resp::Connection;

/// Counts at a server until it refuses, and returns the last count that was acknowledged.
fn count_at(server: &Server) -> JoinHandle<i64> {
    let mut writer = Connection::open(&server.address()).expect("a connection");
    std::thread::spawn(move || {
        let mut last = 0;
        loop {
            let reply = writer.call(&["INCR", "n"]).map(|reply| reply.shown());
            match reply.as_deref().map(|reply| reply.trim_end().strip_prefix("(integer) ")) {
                Ok(Some(count)) => last = count.parse().expect("a number"),
                _ => return last,
            }
        }
    })
}

/// Changes the roles under load, and shows that the new primary has what the old one acknowledged.
fn change_roles(old: (&Server, &mut Connection), new: (&Server, &mut Connection)) {
    let ((old_server, old), (new_server, new)) = (old, new);
    catch_up(new, old);
    let earlier = ask(old, "GET n");
    let writer = count_at(old_server);
    until("it counts", || ask(old, "GET n") != earlier);
    let before = figure(new, "stats", "sync_full");
    assert_eq!(ask(old, &format!("FAILOVER TO 127.0.0.1 {}", new_server.port())), "OK");
    until("the old primary follows", || figure(old, "replication", "role") == "slave");
    until("the failover is over", || figure(old, "replication", "master_failover_state") == "no-failover");
    assert_eq!(figure(new, "replication", "role"), "master");
    let last = writer.join().expect("a writer");
    assert_eq!(
        ask(new, "GET n"),
        format!("\"{last}\""),
        "the new primary has what was acknowledged, and no more"
    );
    catch_up(old, new);
    assert_eq!(figure(new, "stats", "sync_full"), before, "no copy");
    assert_eq!(ask(old, "GET n"), format!("\"{last}\""));
}

#[test]
fn memories_change_their_roles_and_change_back() {
    let (one, other) = (World::new("failover-one"), World::new("failover-other"));
    let (first_server, mut first) = one.serve(&[]);
    let (second_server, mut second) = other.serve(&[]);
    assert_eq!(ask(&mut second, &format!("REPLICAOF 127.0.0.1 {}", first_server.port())), "OK");
    for _ in 0..3 {
        change_roles((&first_server, &mut first), (&second_server, &mut second));
        change_roles((&second_server, &mut second), (&first_server, &mut first));
    }
}

fn stock(program: &Path, port: u16) -> (Server, Connection) {
    follow(program, port, &["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"])
}

#[test]
fn a_memory_and_a_stock_server_change_their_roles() {
    for (name, program) in stock_servers() {
        let world = World::new(&format!("failover-{name}"));
        let (server, mut memory) = world.serve(&[]);
        let (stock_server, mut stock) = stock(&program, server.port());
        change_roles((&server, &mut memory), (&stock_server, &mut stock));
        change_roles((&stock_server, &mut stock), (&server, &mut memory));
    }
}

#[test]
fn a_failover_is_refused_in_the_words_of_redis() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("failover-refused");
    let (server, mut memory) = world.serve(&[]);
    let (stock_server, mut stock) = stock(&program, server.port());
    let (_last_server, mut last) =
        follow(&program, stock_server.port(), &["--repl-diskless-sync-delay", "0"]);
    catch_up(&mut stock, &mut memory);
    catch_up(&mut last, &mut memory);
    // A replica that has one of its own, and then a primary that has one: each of ours beside one of Redis's.
    let lines = [
        "FAILOVER",
        "FAILOVER ABORT",
        "FAILOVER ABORT TIMEOUT 1",
        "FAILOVER TIMEOUT 0",
        "FAILOVER TIMEOUT x",
        "FAILOVER TO 127.0.0.1 x",
        "FAILOVER TO 127.0.0.1",
        "FAILOVER FORCE",
        "FAILOVER FORCE TIMEOUT 5",
        "FAILOVER TO 127.0.0.1 1 FORCE",
        "FAILOVER TO 127.0.0.1 1",
        "FAILOVER TO 127.0.0.1 70000",
        "FAILOVER TIMEOUT 5 TIMEOUT 5",
        "PSYNC x 1 FAILOVER",
        "PSYNC x 1 OTHER WORDS",
    ];
    let world = World::new("failover-alone");
    let (_alone_server, mut alone) = world.serve(&[]);
    let replies = |of: &mut Connection| lines.map(|line| ask(of, line));
    let (mine, theirs) = (replies(&mut alone), {
        // The primary of a chain with nothing behind it.
        let (_server, mut lonely) = follow(&program, 1, &[]);
        assert_eq!(ask(&mut lonely, "REPLICAOF NO ONE"), "OK");
        replies(&mut lonely)
    });
    for ((line, mine), theirs) in lines.iter().zip(&mine).zip(&theirs).take(14) {
        assert_eq!(mine, theirs, "{line}, alone");
    }
    // Only what is refused in any case: the others would begin.
    for line in lines.iter().filter(|line| **line != "FAILOVER") {
        let mine = ask(&mut memory, line);
        assert!(mine.starts_with("(error)"), "{line}: {mine}");
    }
    assert_eq!(
        ask(&mut memory, "FAILOVER TO 127.0.0.1 1"),
        "(error) ERR FAILOVER target HOST and PORT is not a replica."
    );
    assert_eq!(ask(&mut stock, "REPLICAOF NO ONE"), "OK");
    assert_eq!(ask(&mut memory, &format!("REPLICAOF 127.0.0.1 {}", stock_server.port())), "OK");
    catch_up(&mut memory, &mut stock);
    for line in ["FAILOVER", "PSYNC x 1 FAILOVER"] {
        assert_eq!(ask(&mut memory, line), ask(&mut last, line), "{line}, as a replica");
    }
}

#[test]
fn a_failover_that_cannot_be_is_given_up_and_writers_go_on() {
    let (one, other) = (World::new("failover-stopped"), World::new("failover-target"));
    let (first_server, mut first) = one.serve(&[]);
    let (target, mut second) = other.serve(&[]);
    assert_eq!(ask(&mut second, &format!("REPLICAOF 127.0.0.1 {}", first_server.port())), "OK");
    catch_up(&mut second, &mut first);
    signal("-STOP", target.pid());
    assert_eq!(ask(&mut first, "SET late 1"), "OK");
    let to = format!("FAILOVER TO 127.0.0.1 {}", target.port());
    assert_eq!(ask(&mut first, &to), "OK");
    assert_eq!(figure(&mut first, "replication", "master_failover_state"), "waiting-for-sync");
    assert!(ask(&mut first, &to).contains("FAILOVER already in progress."));
    assert!(ask(&mut first, "REPLICAOF NO ONE").contains("not allowed while failing over"));
    let mut writer = Connection::open(&first_server.address()).expect("a connection");
    writer.send(&["SET", "waits", "1"]).expect("sent");
    until("it waits", || figure(&mut first, "clients", "blocked_clients") == "1");
    assert_eq!(ask(&mut first, "FAILOVER ABORT"), "OK");
    assert_eq!(writer.receive().expect("a reply").shown().trim_end(), "OK");
    assert_eq!(figure(&mut first, "replication", "role"), "master");
    // By its time.
    assert_eq!(ask(&mut first, &format!("{to} TIMEOUT 300")), "OK");
    until("its time is over", || figure(&mut first, "replication", "master_failover_state") == "no-failover");
    assert_eq!(figure(&mut first, "replication", "role"), "master");
    assert_eq!(ask(&mut first, "SET waits 2"), "OK");
    // By force: what the target lacks is lost, which FORCE says.
    assert_eq!(ask(&mut first, &format!("{to} TIMEOUT 300 FORCE")), "OK");
    until("it follows", || figure(&mut first, "replication", "role") == "slave");
    signal("-CONT", target.pid());
    until("the failover is over", || {
        figure(&mut first, "replication", "master_failover_state") == "no-failover"
    });
    let mut second = Connection::open(&target.address()).expect("a connection");
    catch_up(&mut first, &mut second);
    assert_eq!(figure(&mut second, "replication", "role"), "master");
}

#[test]
fn a_failover_goes_on_when_its_server_is_killed() {
    let (one, other) = (World::new("failover-killed"), World::new("failover-next"));
    let (mut asked_server, mut asked) = one.serve(&[]);
    // The replica comes to this server of the memory, which lives on.
    let (next_server, mut next) = one.serve(&[]);
    let (target, mut second) = other.serve(&[]);
    assert_eq!(ask(&mut second, &format!("REPLICAOF 127.0.0.1 {}", next_server.port())), "OK");
    catch_up(&mut second, &mut next);
    signal("-STOP", target.pid());
    assert_eq!(ask(&mut asked, "SET late 1"), "OK");
    assert_eq!(ask(&mut asked, "FAILOVER"), "OK");
    let owner = || one.attach().expect("the memory").table().segment().link().owner();
    until("a thread brings it on", || owner().is_some_and(|owner| owner.lives));
    asked_server.kill();
    assert_eq!(figure(&mut next, "replication", "master_failover_state"), "waiting-for-sync");
    signal("-CONT", target.pid());
    until("it follows", || figure(&mut next, "replication", "role") == "slave");
    until("the failover is over", || {
        figure(&mut next, "replication", "master_failover_state") == "no-failover"
    });
    assert_eq!(ask(&mut second, "GET late"), "\"1\"");
    assert_eq!(figure(&mut second, "replication", "role"), "master");
}

/// Passes what comes on to the other side, until one of them ends; returns true once it has passed `word` on.
fn pass_on(mut from: &TcpStream, mut to: &TcpStream, word: &[u8]) -> bool {
    let (mut bytes, mut seen) = ([0; 4096], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            return false;
        }
        seen.extend_from_slice(&bytes[..count]);
        if !word.is_empty() && seen.windows(word.len()).any(|window| window == word) {
            return true;
        }
        let kept = seen.len().min(64);
        seen.drain(..seen.len() - kept);
    }
    let _ = to.shutdown(Shutdown::Both);
    false
}

#[test]
fn a_failover_whose_reply_is_lost_leaves_one_primary() {
    let (one, other) = (World::new("failover-lost"), World::new("failover-deaf"));
    let (first_server, mut first) = one.serve(&[]);
    let door = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = door.local_addr().expect("an address").port();
    let (target, mut second) = other.serve(&["--replica-announce-port", &port.to_string()]);
    assert_eq!(ask(&mut second, &format!("REPLICAOF 127.0.0.1 {}", first_server.port())), "OK");
    catch_up(&mut second, &mut first);
    assert_eq!(ask(&mut first, &format!("FAILOVER TO 127.0.0.1 {port}")), "OK");
    // The request arrives, and the reply does not.
    let (asks, _) = door.accept().expect("the memory that asks");
    let there = TcpStream::connect(target.address()).expect("a connection");
    std::thread::scope(|scope| {
        scope.spawn(|| pass_on(&there, &asks, b""));
        assert!(pass_on(&asks, &there, b"FAILOVER"));
        until("it is a primary", || figure(&mut second, "replication", "role") == "master");
        let _ = (asks.shutdown(Shutdown::Both), there.shutdown(Shutdown::Both));
    });
    let (again, _) = door.accept().expect("another attempt");
    let there = TcpStream::connect(target.address()).expect("a connection");
    std::thread::scope(|scope| {
        scope.spawn(|| pass_on(&there, &again, b""));
        scope.spawn(|| pass_on(&again, &there, b""));
        until("the failover is over", || {
            figure(&mut first, "replication", "master_failover_state") == "no-failover"
        });
        assert_eq!(figure(&mut first, "replication", "role"), "slave", "there is one primary");
        catch_up(&mut first, &mut second);
        assert_eq!(figure(&mut second, "stats", "sync_full"), "0");
        let _ = (again.shutdown(Shutdown::Both), there.shutdown(Shutdown::Both));
    });
}

#[test]
fn a_target_that_cannot_be_asked_costs_no_primary() {
    let (one, other) = (World::new("failover-shut"), World::new("failover-wrong-port"));
    let (first_server, mut first) = one.serve(&[]);
    let shut = free_port().expect("a port");
    let (_target, mut second) = other.serve(&["--replica-announce-port", &shut.to_string()]);
    assert_eq!(ask(&mut second, &format!("REPLICAOF 127.0.0.1 {}", first_server.port())), "OK");
    catch_up(&mut second, &mut first);
    assert_eq!(ask(&mut first, &format!("FAILOVER TO 127.0.0.1 {shut} TIMEOUT 1000")), "OK");
    until("it is given up", || figure(&mut first, "replication", "master_failover_state") == "no-failover");
    assert_eq!(figure(&mut first, "replication", "role"), "master");
    assert_eq!(ask(&mut first, "SET k v"), "OK");
    catch_up(&mut second, &mut first);
    assert_eq!(figure(&mut first, "stats", "sync_full"), "1", "the replica goes on");
}
