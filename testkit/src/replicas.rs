//! Stock servers that follow a memory, for tests.
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use polder_testbase::until;

use crate::answer::Answer;
use crate::logs::ask;
use crate::process::Server;
use crate::resp::Connection;

/// A stock server that follows a port, with more flags.
///
/// # Panics
/// If it does not start.
pub fn follow(program: &Path, port: u16, more: &[&str]) -> (Server, Connection) {
    let flags = ["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes"];
    let primary = port.to_string();
    let follows = ["--replicaof", "127.0.0.1", &primary];
    let flags: Vec<&str> = flags.into_iter().chain(follows).chain(more.iter().copied()).collect();
    let server = Server::start(program, &flags).expect("a server");
    let connection = Connection::open(&server.address()).expect("a connection");
    (server, connection)
}

/// A figure of INFO.
///
/// # Panics
/// If there is none of this name.
pub fn figure(connection: &mut Connection, section: &str, name: &str) -> String {
    let Answer::Bulk(text) = connection.call(&["INFO", section]).expect("a reply") else {
        panic!("INFO replies a text")
    };
    let text = String::from_utf8(text).expect("text");
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

/// Waits until a replica has all that its primary has; both are in database 0 then.
///
/// # Panics
/// If it never has.
pub fn catch_up(replica: &mut Connection, primary: &mut Connection) {
    until("the link is up", || figure(replica, "replication", "master_link_status") == "up");
    ask(primary, "SELECT 0");
    ask(replica, "SELECT 0");
    let Answer::Integer(mark) = primary.call(&["INCR", "mark"]).expect("a reply") else {
        panic!("INCR replies a number")
    };
    until("the replica has what was written last", || {
        let end = figure(primary, "replication", "master_repl_offset");
        figure(replica, "replication", "slave_repl_offset") == end
            && ask(replica, "GET mark") == format!("\"{mark}\"")
    });
}

/// Asks for all of the data, as a replica that tells nothing of itself.
///
/// # Panics
/// If no server listens.
pub fn psync(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(b"PSYNC ? -1\r\n").expect("sent");
    stream
}

/// The next line that such a replica is sent, without line feeds before it.
///
/// # Panics
/// If the server closes the connection.
pub fn line_of(stream: &mut TcpStream) -> String {
    let (mut line, mut byte) = (String::new(), [0]);
    while line.is_empty() || byte != *b"\n" {
        stream.read_exact(&mut byte).expect("more");
        if byte != *b"\n" || !line.is_empty() {
            line.push(char::from(byte[0]));
        }
    }
    line.trim_end().to_owned()
}
