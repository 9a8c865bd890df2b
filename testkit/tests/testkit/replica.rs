//! Stock servers as replicas of a memory: they get the data, follow its changes whatever program makes them, and go on after a break.
use polder_testkit::logs::{World, ask, same, settle, state, until, work};
use polder_testkit::process::{Server, on_path, polder, stock_servers};
use polder_testkit::random::Random;
use polder_testkit::replicas::{catch_up, figure, follow};
use polder_testkit::resp::Connection;

#[test]
fn a_stock_server_gets_the_data_and_follows_all_writers() {
    for (name, program) in stock_servers() {
        let world = World::new(&format!("replica-{name}"));
        let (server, mut first) = world.serve(&[]);
        let (_other, mut second) = world.serve(&[]);
        let mut random = Random::new(7);
        work(&mut first, &mut random, 1000);
        ask(&mut first, "SELECT 0");
        for line in [
            "XADD s 1-1 a 1",
            "XGROUP CREATE s g 0",
            "XREADGROUP GROUP g c STREAMS s >",
            "SET i v PXAT 9999999999999",
        ] {
            assert!(!ask(&mut first, line).starts_with("(error)"), "{line}");
        }
        let (_replica, mut replica) = follow(&program, server.port(), &[]);
        // Another server and a program without a server write while the copy is made and after it.
        let memory = world.attach().expect("the memory");
        let stops = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut caller = polder_engine::Caller::new(&std::sync::Arc::new(memory));
                let mut number = 0;
                while !stops.load(std::sync::atomic::Ordering::Relaxed) {
                    let (key, value) = (format!("direct:{}", number % 100), number.to_string());
                    caller.run(&["SET", &key, &value]).expect("room");
                    number += 1;
                    if number % 100 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            work(&mut second, &mut random, 1500);
            stops.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        settle(&mut second);
        catch_up(&mut replica, &mut second);
        let of = |connection: &mut Connection| state(|words| connection.call(words).expect("a reply"));
        same(&of(&mut replica), &of(&mut second));
        catch_up(&mut replica, &mut second);
        assert_eq!(ask(&mut replica, "XPENDING s g"), ask(&mut second, "XPENDING s g"), "{name}");
        // Any server tells of it, not only the one that feeds it.
        assert_eq!(figure(&mut second, "replication", "connected_slaves"), "1");
        until("it has acknowledged something", || {
            figure(&mut second, "replication", "slave0").contains("state=online")
        });
        assert!(ask(&mut second, "ROLE").contains("127.0.0.1"), "{name}");
        // A break: it asks to go on where it was.
        assert_eq!(ask(&mut replica, "CLIENT KILL TYPE master"), "(integer) 1");
        until("it has gone on", || figure(&mut first, "stats", "sync_partial_ok") == "1");
        assert_eq!(ask(&mut second, "SET after 1"), "OK");
        catch_up(&mut replica, &mut second);
        assert_eq!(ask(&mut replica, "GET after"), "\"1\"");
        assert_eq!(figure(&mut first, "stats", "sync_full"), "1", "{name}");
    }
}

#[test]
fn a_replica_goes_on_after_every_server_of_the_memory_was_killed() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("replica-killed");
    let (mut server, mut primary) = world.serve(&[]);
    work(&mut primary, &mut Random::new(8), 300);
    let (_replica, mut replica) = follow(&program, server.port(), &[]);
    catch_up(&mut replica, &mut primary);
    for round in 0..5 {
        let port = server.port();
        server.kill();
        // Meanwhile a program writes: the memory is the node, not its server.
        let memory = std::sync::Arc::new(world.attach().expect("the memory"));
        let mut caller = polder_engine::Caller::new(&memory);
        caller.run(&["INCR", "rounds"]).expect("room");
        drop((caller, memory));
        let flags =
            ["serve", "--port", "{port}", "--segment", &world.segment, "--enable-debug-command", "yes"];
        let flags: Vec<&str> = flags.into_iter().chain(world.flags(&[])).collect();
        server = Server::start_at(&polder(), &flags, port).expect("a server");
        primary = Connection::open(&server.address()).expect("a connection");
        catch_up(&mut replica, &mut primary);
        assert_eq!(ask(&mut replica, "GET rounds"), format!("\"{}\"", round + 1));
        // They count over all servers of the memory, also those that are dead.
        assert_eq!(figure(&mut primary, "stats", "sync_full"), "1");
        assert_eq!(figure(&mut primary, "stats", "sync_partial_ok"), (round + 1).to_string());
        assert_eq!(figure(&mut primary, "replication", "connected_slaves"), "1");
    }
    let of = |connection: &mut Connection| state(|words| connection.call(words).expect("a reply"));
    same(&of(&mut replica), &of(&mut primary));
}

#[test]
fn a_peer_that_asks_and_goes_leaves_nothing_behind() {
    let world = World::new("replica-gone");
    let (server, mut primary) = world.serve(&[]);
    ask(&mut primary, "SET k v");
    for order in ["PSYNC ? -1", "PSYNC 0123456789012345678901234567890123456789 77", "SYNC"] {
        let mut peer = Connection::open(&server.address()).expect("a connection");
        peer.send(&order.split(' ').collect::<Vec<_>>()).expect("sent");
        until("it is fed", || figure(&mut primary, "replication", "connected_slaves") == "1");
        drop(peer);
        until("it is forgotten", || figure(&mut primary, "replication", "connected_slaves") == "0");
    }
    assert_eq!(figure(&mut primary, "stats", "sync_full"), "3");
    assert_eq!(figure(&mut primary, "stats", "sync_partial_err"), "1");
    let memory = world.attach().expect("the memory");
    let table = memory.table();
    assert!((1..64).all(|slot| table.log().held(slot).is_none()), "a slot holds the log still");
    assert!(table.verify().expect("readable").findings.is_empty());
}

#[test]
fn a_replica_that_loads_for_longer_than_the_timeout_is_waited_for() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("replica-slow");
    let (server, mut primary) = world.serve(&["--repl-timeout", "1"]);
    ask(&mut primary, "DEBUG POPULATE 6000 key 2000");
    // It takes 3 s to load, and sends line feeds meanwhile.
    let slow = ["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"];
    let (_replica, mut replica) = follow(&program, server.port(), &slow);
    catch_up(&mut replica, &mut primary);
    assert_eq!(ask(&mut replica, "DBSIZE"), ask(&mut primary, "DBSIZE"));
    assert_eq!(figure(&mut primary, "stats", "sync_full"), "1");
    assert_eq!(figure(&mut primary, "stats", "sync_partial_ok"), "0");
}

#[test]
fn a_replica_whose_user_loses_its_rights_gets_no_more() {
    let world = World::new("replica-user");
    let (server, mut primary) = world.serve(&[]);
    assert_eq!(ask(&mut primary, "ACL SETUSER replica on >secret +psync +replconf +ping"), "OK");
    let login = |peer: &mut Connection| {
        assert_eq!(ask(peer, "AUTH replica secret"), "OK");
        assert_eq!(ask(peer, "REPLCONF listening-port 1 capa psync2"), "OK");
    };
    let mut peer = Connection::open(&server.address()).expect("a connection");
    login(&mut peer);
    assert!(ask(&mut peer, "GET k").starts_with("(error) NOPERM"));
    peer.send(&["PSYNC", "?", "-1"]).expect("sent");
    until("it is fed", || figure(&mut primary, "replication", "connected_slaves") == "1");
    assert_eq!(ask(&mut primary, "ACL SETUSER replica -psync"), "OK");
    until("it is fed no more", || figure(&mut primary, "replication", "connected_slaves") == "0");
    let mut again = Connection::open(&server.address()).expect("a connection");
    login(&mut again);
    assert!(ask(&mut again, "PSYNC ? -1").starts_with("(error) NOPERM"));
}
