//! What tests of several server processes share: a segment, servers on it, clients of these.
use std::path::Path;
use std::process::Command;

use polder_engine::Memory;
use polder_testkit::process::Server;
use polder_testkit::resp::Connection;
use polder_testkit::scratch::fresh_name;

/// A segment that goes with the test.
pub struct Segment(pub String);

impl Segment {
    /// A name that no other segment has.
    pub fn new() -> Segment {
        Segment(fresh_name())
    }

    /// A `polder serve` on it.
    pub fn serve(&self, flags: &[&str]) -> Server {
        let size = ["--segment-size", "256mb"];
        Server::start_polder(Path::new(env!("CARGO_BIN_EXE_polder")), &self.0, &[&size, flags].concat())
            .expect("a server")
    }

    /// Has everything walked and counted.
    pub fn verify(&self) {
        let output = Command::new(env!("CARGO_BIN_EXE_polder"))
            .args(["verify", &self.0])
            .output()
            .expect("polder runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.0);
    }
}

/// A client of it.
pub fn connect(server: &Server) -> Connection {
    Connection::open(&server.address())
        .unwrap_or_else(|error| panic!("no connection to the server: {error}; {}", server.fate()))
}
