//! The commands of docs/replication.md by which data moves from a stock server to a memory and back, under load: no acknowledged write is lost.
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use polder_engine::Memory;
use polder_testkit::logs::{ask, until};
use polder_testkit::process::{Server, free_port, on_path, polder, stock_servers};
use polder_testkit::replicas::{catch_up, figure};
use polder_testkit::resp::Connection;

/// The blocks of commands below the heading, with the ports and the memory of a test.
fn blocks(ports: [u16; 2], segment: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/replication.md"))
        .expect("the document");
    let (_, rest) = text.split_once("\n## Moving from Redis").expect("the heading");
    let section = rest.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let [from, to] = ports.map(|port| port.to_string());
    let own = |block: &str| {
        block.replace("6379", &from).replace("6380", &to).replace("shm:new", &format!("{segment} --save ''"))
    };
    blocks.map(own).collect()
}

/// Runs the lines of a block in order.
fn run(block: &str) {
    let path = format!(
        "{}:{}",
        polder().parent().expect("a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let done = Command::new("timeout").args(["100", "sh", "-e", "-c", block]).env("PATH", path).status();
    assert!(done.expect("sh").success(), "{block}");
}

/// Counts at whatever server takes writes, until it is told to stop; returns the last count that was acknowledged.
fn count(ports: [u16; 2], stops: &AtomicBool, acknowledged: &AtomicU64) {
    while !stops.load(Ordering::Relaxed) {
        for port in ports {
            let Ok(mut writer) = Connection::open(&format!("127.0.0.1:{port}")) else { continue };
            while let Ok(reply) = writer.call(&["INCR", "n"]) {
                let shown = reply.shown();
                let Some(number) = shown.trim_end().strip_prefix("(integer) ") else { break };
                acknowledged.store(number.parse().expect("a number"), Ordering::Relaxed);
                if stops.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    }
}

/// The server that the commands start; it ends with the test.
struct Started {
    port: u16,
    segment: String,
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Ok(mut server) = Connection::open(&format!("127.0.0.1:{}", self.port)) {
            // It closes the connection.
            let _ = server.call(&["SHUTDOWN", "NOSAVE"]);
        }
        let _ = Memory::remove(&self.segment);
    }
}

#[test]
fn data_moves_to_a_memory_and_back_under_load() {
    if on_path("redis-cli").is_none() {
        return println!("no redis-cli: left out");
    }
    for (name, program) in stock_servers() {
        let segment = format!("shm:polder-moving-{}-{name}", std::process::id());
        let old = Server::start(
            &program,
            &["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0"],
        )
        .expect("a server");
        let ports = [old.port(), free_port().expect("a port")];
        let mut first = Connection::open(&old.address()).expect("a connection");
        for number in 0..1000 {
            ask(&mut first, &format!("SET k:{number} {number}"));
        }
        let _started = Started { port: ports[1], segment: segment.clone() };
        let (stops, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
        let blocks = blocks(ports, &segment);
        assert_eq!(blocks.len(), 2, "there and back");
        std::thread::scope(|scope| {
            let (stops, acknowledged) = (&stops, &acknowledged);
            scope.spawn(move || count(ports, stops, acknowledged));
            let goes_on = || {
                let before = acknowledged.load(Ordering::Relaxed);
                until("writes go on", || acknowledged.load(Ordering::Relaxed) > before);
            };
            goes_on();
            run(&blocks[0]);
            let mut second = Connection::open(&format!("127.0.0.1:{}", ports[1])).expect("a connection");
            assert_eq!(figure(&mut second, "replication", "role"), "master", "{name}");
            assert_eq!(ask(&mut second, "GET k:999"), "\"999\"");
            goes_on();
            run(&blocks[1]);
            goes_on();
            stops.store(true, Ordering::Relaxed);
        });
        let last = acknowledged.load(Ordering::Relaxed);
        let mut second = Connection::open(&format!("127.0.0.1:{}", ports[1])).expect("a connection");
        assert_eq!(figure(&mut first, "replication", "role"), "master", "{name}");
        catch_up(&mut second, &mut first);
        for connection in [&mut first, &mut second] {
            // Each count was made once: nothing was lost, and nothing done twice.
            assert_eq!(ask(connection, "GET n"), format!("\"{last}\""), "{name}");
        }
    }
}
