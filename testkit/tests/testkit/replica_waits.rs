//! Counts of replicas: WAIT, WAITAOF and `min-replicas-to-write`, over all servers of a memory, whatever process dies.
use polder_testkit::logs::{World, ask, until};
use polder_testkit::process::{Server, on_path, polder, stock_servers};
use polder_testkit::replicas::{catch_up, figure, follow};
use polder_testkit::resp::Connection;

/// Begins a call whose reply is read later.
fn begin(server: &Server, line: &str) -> Connection {
    let mut connection = Connection::open(&server.address()).expect("a connection");
    connection.send(&line.split(' ').collect::<Vec<_>>()).expect("sent");
    connection
}

fn reply(connection: &mut Connection) -> String {
    connection.receive().expect("a reply").shown().trim_end().to_owned()
}

#[test]
fn wait_counts_the_replicas_of_all_servers() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("waits");
    let (server, mut first) = world.serve(&[]);
    let (other, mut second) = world.serve(&[]);
    assert_eq!(ask(&mut first, "WAIT 0 0"), "(integer) 0");
    assert_eq!(ask(&mut first, "WAIT 1 1"), "(integer) 0", "there is none");
    let (one, mut replica) = follow(&program, server.port(), &[]);
    let (_two, mut another) = follow(&program, other.port(), &[]);
    catch_up(&mut replica, &mut first);
    catch_up(&mut another, &mut first);
    for number in 0..20 {
        assert_eq!(ask(&mut first, &format!("SET k {number}")), "OK");
        assert_eq!(ask(&mut first, "WAIT 2 0"), "(integer) 2");
        assert_eq!(ask(&mut replica, "GET k"), format!("\"{number}\""));
        assert_eq!(ask(&mut another, "GET k"), format!("\"{number}\""));
    }
    assert_eq!(ask(&mut first, "WAIT 2 0"), "(integer) 2", "nothing was written since");
    assert_eq!(ask(&mut first, "WAIT 3 1"), "(integer) 2", "there is no third one");
    // A write of a program without a server, seen by a call of another server.
    let memory = std::sync::Arc::new(world.attach().expect("the memory"));
    let mut caller = polder_engine::Caller::new(&memory);
    caller.run(&["SET", "direct", "1"]).expect("room");
    assert_eq!(ask(&mut second, "WAIT 2 0"), "(integer) 2");
    assert_eq!(ask(&mut replica, "GET direct"), "\"1\"");
    caller.run(&["SET", "direct", "2"]).expect("room");
    assert_eq!(format!("{:?}", caller.run(&["WAIT", "2", "0"]).expect("a reply")), "[Integer(2)]");
    assert_eq!(ask(&mut another, "GET direct"), "\"2\"");
    // In a transaction and in a script it tells, and does not wait.
    for line in ["MULTI", "WAIT 2 0", "WAIT 3 0", "EXEC"] {
        first.send(&line.split(' ').collect::<Vec<_>>()).expect("sent");
    }
    let replies: Vec<String> = (0..4).map(|_| reply(&mut first)).collect();
    assert_eq!(replies[3], "1) (integer) 2\n2) (integer) 2");
    let script = ["EVAL", "return redis.call('wait', '3', '0')", "0"];
    assert_eq!(first.call(&script).expect("a reply").shown().trim_end(), "(integer) 2");
    // A replica that is stopped is waited for.
    one.stop();
    assert_eq!(ask(&mut first, "SET k stopped"), "OK");
    assert_eq!(ask(&mut first, "WAIT 1 0"), "(integer) 1");
    assert_eq!(ask(&mut first, "WAIT 2 50"), "(integer) 1");
    let mut waiting = begin(&server, "WAIT 2 0");
    until("it waits", || figure(&mut first, "clients", "blocked_clients") == "1");
    one.go_on();
    assert_eq!(reply(&mut waiting), "(integer) 2");
    assert_eq!(ask(&mut replica, "GET k"), "\"stopped\"");
}

#[test]
fn a_waiting_call_outlives_the_server_that_fed_the_replica() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("waits-killed");
    let (server, mut first) = world.serve(&[]);
    let (mut other, mut second) = world.serve(&[]);
    let (replica_server, mut replica) = follow(&program, other.port(), &[]);
    catch_up(&mut replica, &mut second);
    assert_eq!(ask(&mut first, "WAIT 1 0"), "(integer) 1");
    for _ in 0..3 {
        let port = other.port();
        replica_server.stop();
        ask(&mut first, "INCR rounds");
        let mut waiting = begin(&server, "WAIT 1 0");
        until("it waits", || figure(&mut first, "clients", "blocked_clients") == "1");
        other.kill();
        // The dead server's acknowledgements count no more.
        assert_eq!(ask(&mut first, "WAIT 1 1"), "(integer) 0");
        let flags = ["serve", "--port", "{port}", "--segment", &world.segment];
        let flags: Vec<&str> = flags.into_iter().chain(world.flags(&[])).collect();
        other = Server::start_at(&polder(), &flags, port).expect("a server");
        replica_server.go_on();
        assert_eq!(reply(&mut waiting), "(integer) 1");
        assert_eq!(ask(&mut replica, "GET rounds"), ask(&mut first, "GET rounds"));
    }
}

#[test]
fn waitaof_counts_replicas_whose_disk_has_it() {
    let Some((name, program)) = stock_servers().into_iter().find(|(name, _)| name.starts_with("valkey"))
    else {
        return println!("no valkey-server: left out");
    };
    let world = World::new("waits-disk");
    let (server, mut primary) = world.serve(&[]);
    let more = ["--appendonly", "yes", "--appendfsync", "always"];
    let (_replica, mut replica) = follow(&program, server.port(), &more);
    let (_other, mut other) = follow(&program, server.port(), &["--appendonly", "no"]);
    catch_up(&mut replica, &mut primary);
    catch_up(&mut other, &mut primary);
    assert_eq!(ask(&mut primary, "SET k 1"), "OK");
    assert_eq!(ask(&mut primary, "WAITAOF 0 1 0"), "1) (integer) 0\n2) (integer) 1", "{name}");
    assert_eq!(ask(&mut primary, "WAITAOF 0 2 1"), "1) (integer) 0\n2) (integer) 1", "{name}");
    assert_eq!(ask(&mut primary, "WAIT 2 0"), "(integer) 2");
}

#[test]
fn writes_want_replicas_of_any_server() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("waits-min");
    let (server, mut first) = world.serve(&[]);
    let (_other, mut second) = world.serve(&[]);
    let (mut replica_server, mut replica) = follow(&program, server.port(), &[]);
    catch_up(&mut replica, &mut first);
    const REFUSED: &str = "(error) NOREPLICAS Not enough good replicas to write.";
    for connection in [&mut first, &mut second] {
        assert_eq!(ask(connection, "CONFIG SET min-replicas-to-write 1"), "OK");
        assert_eq!(ask(connection, "CONFIG SET min-replicas-max-lag 2"), "OK");
        assert_eq!(ask(connection, "SET k v"), "OK");
        assert_eq!(ask(connection, "CONFIG SET min-replicas-to-write 2"), "OK");
        assert_eq!(ask(connection, "SET k v"), REFUSED);
        assert_eq!(ask(connection, "GET k"), "\"v\"");
        assert_eq!(ask(connection, "CONFIG SET min-replicas-to-write 1"), "OK");
    }
    replica_server.stop();
    // Its connection is there still, and it acknowledges nothing.
    until("it is too late", || ask(&mut second, "SET k w") == REFUSED);
    assert_eq!(ask(&mut first, "SET k w"), REFUSED);
    replica_server.go_on();
    until("it acknowledges again", || ask(&mut first, "SET k w") == "OK");
    replica_server.kill();
    until("it is gone", || ask(&mut second, "SET k x") == REFUSED);
}
