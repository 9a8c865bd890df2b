//! Servers of a memory that are killed under load, again and again: their replicas go on where they were, without another copy.
//!
//! `POLDER_KILLS` says how many are killed (a few where it is not set): `POLDER_KILLS=1000 cargo test -p polder-testkit --test testkit replica_kills`.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use polder_engine::{Caller, Memory};
use polder_testkit::logs::{World, same, state, until, work};
use polder_testkit::process::{Server, on_path, polder};
use polder_testkit::random::Random;
use polder_testkit::replicas::{catch_up, figure, follow};
use polder_testkit::resp::Connection;

const KILLS: u64 = 4;

/// Writes without a server until it is told to stop, and counts.
fn write_on(memory: Memory, stops: &AtomicBool, count: &AtomicU64) {
    let mut caller = Caller::new(&Arc::new(memory));
    while !stops.load(Ordering::Relaxed) {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let (key, value) = (format!("direct:{}", number % 500), number.to_string());
        caller.run(&["SET", &key, &value]).expect("room");
        caller.run(&["INCR", "writes"]).expect("room");
        if number.is_multiple_of(5) {
            // One replica has it: a log that keeps no more than a share of a small segment still holds what the others are to go on from.
            caller.run(&["WAIT", "1", "0"]).expect("a count");
        }
    }
}

fn restart(world: &World, port: u16) -> (Server, Connection) {
    let flags = ["serve", "--port", "{port}", "--segment", &world.segment, "--enable-debug-command", "yes"];
    let flags: Vec<&str> = flags.into_iter().chain(world.flags(&[])).collect();
    let server = Server::start_at(&polder(), &flags, port).expect("a server");
    let connection = Connection::open(&server.address()).expect("a connection");
    (server, connection)
}

#[test]
fn no_killed_server_makes_a_replica_take_another_copy() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let kills = std::env::var("POLDER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let world = World::new("replica-kills");
    let mut servers = [world.serve(&[]), world.serve(&[])];
    let ports = servers.each_ref().map(|(server, _)| server.port());
    let mut replicas: Vec<_> = [0, 0, 1].map(|of| follow(&program, ports[of], &[])).into();
    for (_, replica) in &mut replicas {
        catch_up(replica, &mut servers[0].1);
    }
    let (mut random, stops, count) = (Random::new(9), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let memory = world.attach().expect("the memory");
        let writer = scope.spawn(|| write_on(memory, &stops, &count));
        for _ in 0..kills {
            let (killed, other) = if random.below(2) == 0 { (0, 1) } else { (1, 0) };
            let then = count.load(Ordering::Relaxed) + random.below(2000) as u64;
            until("it is under load", || count.load(Ordering::Relaxed) >= then || writer.is_finished());
            work(&mut servers[other].1, &mut random, 20);
            servers[killed].0.kill();
            servers[killed] = restart(&world, ports[killed]);
            until("all replicas are back", || {
                figure(&mut servers[other].1, "replication", "connected_slaves") == "3"
            });
        }
        stops.store(true, Ordering::Relaxed);
    });
    let primary = &mut servers[0].1;
    let of = |connection: &mut Connection| state(|words| connection.call(words).expect("a reply"));
    for (_, replica) in &mut replicas {
        catch_up(replica, primary);
        same(&of(replica), &of(primary));
        catch_up(replica, primary);
    }
    assert_eq!(figure(primary, "stats", "sync_full"), "3");
    assert_eq!(figure(primary, "stats", "sync_partial_err"), "0");
    println!("{kills} kills, {} writes without a server", count.load(Ordering::Relaxed));
}
