//! A memory that follows another one of its host by a copy that it makes itself (`repl-transport`), whatever
//! process is killed meanwhile.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polder_engine::{Caller, Memory};
use polder_testkit::logs::{World, ask, same, settle, state, until, without_cas, work};
use polder_testkit::process::Server;
use polder_testkit::random::Random;
use polder_testkit::replicas::{catch_up, figure};
use polder_testkit::resp::Connection;

const ATTACHES: [&str; 2] = ["--repl-transport", "attach"];

fn replicate(replica: &mut Connection, primary: &Server) {
    assert_eq!(ask(replica, &format!("REPLICAOF 127.0.0.1 {}", primary.port())), "OK");
}

fn all(connection: &mut Connection) -> Vec<String> {
    state(|words| connection.call(words).expect("a reply"))
}

/// Sets keys in the memory itself until it is told to stop.
fn write(memory: &Arc<Memory>, stops: &AtomicBool) {
    let mut caller = Caller::new(memory);
    let mut number = 0;
    while !stops.load(Ordering::Relaxed) {
        let (key, value) =
            (format!("direct:{}", number % 500), format!("{number}-").repeat(1 + number % 300));
        caller.run(&["SET", &key, &value]).expect("room");
        number += 1;
    }
}

#[test]
fn a_replica_on_the_same_host_copies_the_memory_and_follows() {
    let (here, there) = (World::new("attach-primary"), World::new("attach-replica"));
    let (server, mut primary) = here.serve(&[]);
    let mut random = Random::new(51);
    work(&mut primary, &mut random, 1500);
    ask(&mut primary, "SELECT 0");
    for line in [
        "XADD x 1-1 a 1",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g c STREAMS x >",
        "ITEM.SET item value FLAGS 7",
        "DEBUG POPULATE 5000 filler 500",
    ] {
        assert!(!ask(&mut primary, line).starts_with("(error)"), "{line}");
    }
    let library = "#!lua name=lib\nredis.register_function('answer', function() return 42 end)";
    primary.call(&["FUNCTION", "LOAD", library]).expect("a reply");
    let (_one, mut replica) = there.serve(&ATTACHES);
    ask(&mut replica, "SET own 1");
    let memory = Arc::new(here.attach().expect("the memory"));
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write(&memory, &stops));
        replicate(&mut replica, &server);
        work(&mut primary, &mut random, 800);
        stops.store(true, Ordering::Relaxed);
    });
    settle(&mut primary);
    catch_up(&mut replica, &mut primary);
    same(&all(&mut replica), &all(&mut primary));
    catch_up(&mut replica, &mut primary);
    for call in
        ["XINFO STREAM x FULL", "ITEM.GET item PEEK", "FUNCTION LIST WITHCODE", "DBSIZE", "EXISTS own"]
    {
        let [here, there] = [&mut replica, &mut primary].map(|node| without_cas(&ask(node, call)));
        assert_eq!(here, there, "{call}");
    }
    // Nothing is left of the copy: the snapshot is free, and a break costs no other copy.
    assert_eq!(ask(&mut primary, "SAVE"), "OK");
    assert_eq!(ask(&mut replica, "CLIENT KILL TYPE master"), "(integer) 1");
    until("it has gone on", || figure(&mut primary, "stats", "sync_partial_ok") == "1");
    catch_up(&mut replica, &mut primary);
    assert_eq!(figure(&mut primary, "stats", "sync_full"), "1");
    for world in [&here, &there] {
        let report = world.attach().expect("the memory").table().verify().expect("readable");
        assert!(report.is_clean(), "{report}");
    }
    // It is a primary of its own when it is to be, and feeds others from its own log.
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    assert_eq!(ask(&mut replica, "SET own 2"), "OK");
}

#[test]
fn a_chain_of_memories_copies_each_from_the_next() {
    let worlds = ["attach-first", "attach-middle", "attach-last"].map(World::new);
    let mut nodes: Vec<(Server, Connection)> = worlds.iter().map(|world| world.serve(&ATTACHES)).collect();
    work(&mut nodes[0].1, &mut Random::new(52), 500);
    for number in 1..3 {
        let port = nodes[number - 1].0.port();
        assert_eq!(ask(&mut nodes[number].1, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
        let (before, behind) = nodes.split_at_mut(1);
        catch_up(&mut behind[number - 1].1, &mut before[0].1);
    }
    settle(&mut nodes[0].1);
    let (first, others) = nodes.split_at_mut(1);
    for (_, other) in others {
        catch_up(other, &mut first[0].1);
        same(&all(other), &all(&mut first[0].1));
        catch_up(other, &mut first[0].1);
    }
}

#[test]
fn where_no_memory_can_be_attached_a_file_comes_or_the_link_says_why() {
    let (here, there) = (World::new("attach-no"), World::new("attach-none"));
    let (server, mut primary) = here.serve(&[]);
    ask(&mut primary, "SET k v");
    let (one, mut replica) = there.serve(&ATTACHES);
    // A name that leads nowhere, as in another container.
    let path = format!("/dev/shm/{}", here.segment.trim_start_matches("shm:"));
    std::fs::rename(&path, format!("{path}-away")).expect("renamed");
    replicate(&mut replica, &server);
    until("the link says why", || {
        figure(&mut replica, "replication", "master_link_error").contains("there is no segment")
    });
    assert_eq!(ask(&mut replica, "CONFIG SET repl-transport auto"), "OK");
    catch_up(&mut replica, &mut primary);
    assert_eq!(ask(&mut replica, "GET k"), "\"v\"");
    drop((one, replica));
    // A name that leads to another memory.
    let (_other, mut other) = there.serve(&["--repl-transport", "auto"]);
    std::fs::rename(format!("{path}-away"), &path).expect("renamed");
    catch_up(&mut other, &mut primary);
    assert!(ask(&mut other, "CONFIG SET repl-transport image").contains("error"));
}

/// Runs a round of a test of kills: a replica copies, one side is killed when that one has `percent` of the
/// primary's memory, and in the end both have the same.
fn round(name: &str, percent: u64, kills_primary: bool) {
    let (here, there) = (World::new(&format!("{name}-p")), World::new(&format!("{name}-r")));
    let (mut server, mut primary) = here.serve(&[]);
    ask(&mut primary, "DEBUG POPULATE 20000 key 1000");
    let (mut one, mut replica) = there.serve(&ATTACHES);
    replicate(&mut replica, &server);
    let used =
        |node: &mut Connection| -> u64 { figure(node, "memory", "used_memory").parse().expect("a number") };
    let part = used(&mut primary) / 100 * percent;
    until("a part is copied", || {
        used(&mut replica) >= part || figure(&mut replica, "replication", "master_link_status") == "up"
    });
    if kills_primary {
        let port = server.port();
        server.kill();
        let memory = Arc::new(here.attach().expect("the memory"));
        Caller::new(&memory).run(&["INCR", "while:down"]).expect("room");
        drop(memory);
        let flags =
            ["serve", "--port", "{port}", "--segment", &here.segment, "--enable-debug-command", "yes"];
        let flags: Vec<&str> = flags.into_iter().chain(here.flags(&[])).collect();
        server = Server::start_at(&polder_testkit::process::polder(), &flags, port).expect("a server");
        primary = Connection::open(&server.address()).expect("a connection");
    } else {
        one.kill();
        ask(&mut primary, "INCR while:down");
        // Nothing is kept of what is overwritten now.
        ask(&mut primary, "DEBUG POPULATE 500 key 1000");
        (one, replica) = there.serve(&ATTACHES);
    }
    catch_up(&mut replica, &mut primary);
    same(&all(&mut replica), &all(&mut primary));
    assert_eq!(ask(&mut primary, "SAVE"), "OK");
    assert_eq!(ask(&mut replica, "SAVE"), "OK");
    drop((server, one));
    for world in [&here, &there] {
        let report = world.attach().expect("the memory").table().verify().expect("readable");
        assert!(report.is_clean(), "{report}");
    }
}

#[test]
fn a_server_that_is_killed_while_it_copies_leaves_both_memories_whole() {
    for percent in [0, 5, 20, 45, 70, 95] {
        round(&format!("attach-kill-{percent}"), percent, false);
    }
}

#[test]
fn a_primary_that_is_killed_while_its_memory_is_copied_leaves_both_whole() {
    for percent in [0, 5, 20, 45, 70, 95] {
        round(&format!("attach-lost-{percent}"), percent, true);
    }
}
