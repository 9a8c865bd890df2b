//! Stock Sentinel over memories and a stock server: it finds them, and promotes one when the primary dies.
use std::path::Path;

use polder_testkit::answer::Answer;
use polder_testkit::logs::{World, ask, until};
use polder_testkit::process::{Server, on_path};
use polder_testkit::replicas::{catch_up, figure, follow};
use polder_testkit::resp::Connection;

/// A Sentinel that watches a primary.
fn sentinel(program: &Path, world: &World, number: u16, primary: u16) -> (Server, Connection) {
    let file = format!("{}/sentinel-{number}.conf", world.dir());
    let lines = format!(
        "sentinel monitor main 127.0.0.1 {primary} 2\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n"
    );
    std::fs::write(&file, lines).expect("a file");
    let server = Server::start(program, &[&file, "--sentinel", "--port", "{port}", "--bind", "127.0.0.1"])
        .expect("a Sentinel");
    let connection = Connection::open(&server.address()).expect("a connection");
    (server, connection)
}

/// The port of the primary that a Sentinel knows.
fn primary_of(sentinel: &mut Connection) -> u16 {
    let Answer::Array(words) =
        sentinel.call(&["SENTINEL", "get-master-addr-by-name", "main"]).expect("a reply")
    else {
        panic!("an address is a list")
    };
    let Answer::Bulk(port) = &words[1] else { panic!("a port is a text") };
    String::from_utf8_lossy(port).parse().expect("a number")
}

fn takes_writes(server: &Server) -> bool {
    let written = Connection::open(&server.address()).and_then(|mut client| client.call(&["SET", "k", "2"]));
    written.is_ok_and(|reply| reply.shown().trim_end() == "OK")
}

#[test]
fn sentinel_promotes_a_memory_and_a_stock_server() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let (one, other) = (World::new("sentinel-one"), World::new("sentinel-other"));
    let (first_server, mut first) = one.serve(&[]);
    let (second_server, mut second) = other.serve(&[]);
    assert_eq!(ask(&mut second, &format!("REPLICAOF 127.0.0.1 {}", first_server.port())), "OK");
    // The one that is promoted first.
    assert_eq!(ask(&mut second, "CONFIG SET replica-priority 1"), "OK");
    let (stock_server, mut stock) =
        follow(&program, first_server.port(), &["--repl-diskless-sync-delay", "0"]);
    catch_up(&mut second, &mut first);
    catch_up(&mut stock, &mut first);
    let mut sentinels: Vec<(Server, Connection)> =
        (1..=3).map(|number| sentinel(&program, &one, number, first_server.port())).collect();
    let watch = &mut sentinels[0].1;
    until("the Sentinels know each other and both replicas", || {
        let text = ask(watch, "INFO sentinel");
        text.contains("slaves=2,sentinels=3") && ask(watch, "SENTINEL ckquorum main").starts_with("OK")
    });
    assert_eq!(ask(&mut first, "SET k 1"), "OK");
    catch_up(&mut second, &mut first);
    let identity = figure(&mut first, "replication", "master_replid");
    drop(first_server);
    until("the other memory is the primary", || primary_of(watch) == second_server.port());
    // Sentinel closes the connections of clients when it gives a role.
    until("it takes writes", || takes_writes(&second_server));
    let mut second = Connection::open(&second_server.address()).expect("a connection");
    // The stock server goes on with it: no copy.
    until("the stock server follows it", || {
        let mut stock = Connection::open(&stock_server.address()).expect("a connection");
        figure(&mut stock, "replication", "master_port") == second_server.port().to_string()
    });
    let mut stock = Connection::open(&stock_server.address()).expect("a connection");
    catch_up(&mut stock, &mut second);
    assert_eq!(figure(&mut second, "replication", "master_replid2"), identity);
    assert_eq!(figure(&mut second, "stats", "sync_full"), "0");
    // And from a memory to the stock server.
    drop(second_server);
    until("the stock server is the primary", || primary_of(watch) == stock_server.port());
    until("it takes writes", || takes_writes(&stock_server));
}
