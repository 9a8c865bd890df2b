//! A replica with cold values: a write of the primary is made, late or in time, and never left out.
use polder_testkit::logs::{World, ask, until};
use polder_testkit::process::{Server, on_path};
use polder_testkit::replicas::{catch_up, figure};
use polder_testkit::resp::Connection;

use crate::tier::has_rocksdb;

const KEYS: usize = 40_000;
const WITH_TIER: [&str; 6] = ["--swap-mode", "disk", "--maxmemory", "24mb", "--swap-threads", "2"];

/// The keys that the primary changes while the tier has no process.
fn changed() -> impl Iterator<Item = usize> {
    (0..KEYS).step_by(400)
}

fn cold_keys(replica: &mut Connection) -> u64 {
    let line = figure(replica, "keyspace", "db0");
    let told = line.split(',').find_map(|part| part.strip_prefix("evicts=")?.parse().ok());
    told.unwrap_or(0)
}

#[test]
fn a_write_that_finds_no_tier_is_made_when_there_is_one() {
    if !has_rocksdb() {
        return;
    }
    let program = on_path("redis-server").expect("redis-server");
    let flags = ["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes"];
    let more = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"];
    let primary =
        Server::start(&program, &flags.into_iter().chain(more).collect::<Vec<_>>()).expect("a server");
    let mut stock = Connection::open(&primary.address()).expect("a connection");
    let world = World::new("replica-cold");
    let (mut server, mut replica) = world.serve(&WITH_TIER);
    assert_eq!(ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {}", primary.port())), "OK");
    catch_up(&mut replica, &mut stock);
    assert_eq!(ask(&mut stock, &format!("DEBUG POPULATE {KEYS} k 1024")), "OK");
    // DEBUG POPULATE is not replicated: the keys come by a copy of all, with new history.
    assert_eq!(ask(&mut stock, "DEBUG CHANGE-REPL-ID"), "OK");
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    assert_eq!(ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {}", primary.port())), "OK");
    catch_up(&mut replica, &mut stock);
    until("most of the values are cold", || cold_keys(&mut replica) > KEYS as u64 / 4);

    server.kill();
    let (_without, mut other) = world.serve(&[]);
    until("it follows", || figure(&mut other, "replication", "master_link_status") == "up");
    let before = figure(&mut stock, "replication", "master_repl_offset");
    for number in changed() {
        assert!(ask(&mut stock, &format!("APPEND k:{number} !")).starts_with("(integer)"), "{number}");
    }
    let end: u64 = figure(&mut stock, "replication", "master_repl_offset").parse().expect("a number");
    until("the link ends at the first of them that is cold", || {
        figure(&mut other, "replication", "master_link_status") == "down"
    });
    let reached: u64 = figure(&mut other, "replication", "slave_repl_offset").parse().expect("a number");
    assert!(reached < end, "{reached} of {before} to {end}: what it could not make is not acknowledged");

    let (_with, mut again) = world.serve(&WITH_TIER);
    catch_up(&mut again, &mut stock);
    for number in changed() {
        let name = format!("k:{number}");
        assert_eq!(ask(&mut again, &format!("GET {name}")), ask(&mut stock, &format!("GET {name}")));
    }
}
